//! Says that this process lives while its loop is busy.
//!
//! A loop that serves a channel says once a heartbeat that it lives, but what it does in between may take
//! long on a machine in trouble: starting a process waits for the disk, ending one for the kernel. The thread
//! here speaks for it meanwhile, for so long as the loop may take for a turn; a process that is stopped or
//! dead says nothing.

use crate::channel::{Channel, Outflow};
use crate::silence::HEARTBEAT;
use crate::wire::Message;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A loop that has not turned for so long does not come back.
const BUSY_MAX: Duration = Duration::from_secs(60);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Pulse {
    shared: Arc<Shared>,
    interval: Duration,
    is_started: bool,
}

#[derive(Debug)]
struct Shared {
    begin: Instant,
    /// The loop's last turn, in milliseconds since `begin`.
    turned_ms: AtomicU64,
    is_over: AtomicBool,
    channels: Mutex<Vec<Weak<Mutex<Outflow>>>>,
}

impl Pulse {
    /// For a loop that runs now.
    pub(crate) fn new() -> Self {
        Self::every(HEARTBEAT)
    }

    fn every(interval: Duration) -> Self {
        let shared = Shared {
            begin: Instant::now(),
            turned_ms: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            channels: Mutex::default(),
        };
        Self { shared: Arc::new(shared), interval, is_started: false }
    }

    /// Speaks on a channel, too, for as long as there is one.
    pub(crate) fn add(&mut self, channel: &Channel) {
        self.shared.channels.lock().unwrap_or_else(PoisonError::into_inner).push(channel.outflow());
        if !std::mem::replace(&mut self.is_started, true) {
            let (shared, interval) = (Arc::clone(&self.shared), self.interval);
            // Without a thread the loop speaks for itself, as long as it turns.
            let _ = std::thread::Builder::new().name("alive".into()).spawn(move || shared.speak(interval));
        }
    }

    /// The loop turns.
    pub(crate) fn turn(&self) {
        self.shared.turned_ms.store(self.shared.now_ms(), Ordering::Relaxed);
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn speak(&self, interval: Duration) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(interval);
            let busy_ms = self.now_ms().saturating_sub(self.turned_ms.load(Ordering::Relaxed));
            if !speaks(Duration::from_millis(busy_ms), interval) {
                continue;
            }
            let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
            channels.retain(|channel| channel.strong_count() > 0);
            for channel in channels.iter().filter_map(Weak::upgrade) {
                channel.lock().unwrap_or_else(PoisonError::into_inner).send(&Message::Alive);
            }
        }
    }
}

/// Whether the thread speaks for a loop that has been busy for so long: the loop is late, and may still come
/// back.
fn speaks(busy: Duration, interval: Duration) -> bool {
    (interval * 3 / 2..BUSY_MAX).contains(&busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Inflow;

    #[test]
    fn a_loop_that_is_late_is_spoken_for_until_it_is_given_up() {
        let after = |ms| speaks(Duration::from_millis(ms), HEARTBEAT);
        assert!(!after(0) && !after(1_400), "it speaks for itself");
        assert!(after(1_600) && after(12_000) && after(59_000));
        assert!(!after(61_000), "it does not come back");
    }

    #[test]
    fn the_other_side_hears_of_a_process_whose_loop_is_busy() {
        let ((far_in, near_out), (near_in, far_out)) = (pipe(), pipe());
        let near = Channel::new(near_in, near_out).expect("pipes");
        let mut far = Channel::new(far_in, far_out).expect("pipes");
        let mut pulse = Pulse::every(Duration::from_millis(5));
        pulse.add(&near);
        let mut scratch = [0; 64];
        // Minutes at most.
        for _ in 0..60_000 {
            assert_eq!(far.read(&mut scratch), Inflow::Open);
            if let Some(message) = far.next().expect("whole frames") {
                assert!(matches!(message, Message::Alive));
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("nothing was said");
    }

    fn pipe() -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
        rustix::pipe::pipe().expect("a pipe")
    }
}
