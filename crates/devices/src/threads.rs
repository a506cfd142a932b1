//! Tools for a second thread of the runtime: a signal to wait for, a fence in all threads at once, and a
//! place to sleep for a device that others hold meanwhile.
//!
//! Entry types: [`Signal`], [`Parker`].

use crate::shm::Sleep;
use crate::shm::sys;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A test's bound for [`sleep_max`], in milliseconds.
const ENV_SLEEP_MAX: &str = "AYATORI_SLEEP_MAX_MS";
/// Its usual value. A dead peer wakes no sleeper, so sleepers check their peers now and then. In unit tests
/// no sleeper wakes by the clock.
const SLEEP_MAX: Duration = if cfg!(test) { HANG_LIMIT } else { Duration::from_millis(100) };
/// A wait longer than this counts as a hang.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(600);

/// How long a thread sleeps at most without being woken. Whatever it waits for wakes it; a test sets a very
/// long bound to show that.
pub fn sleep_max() -> Duration {
    static MAX: OnceLock<Duration> = OnceLock::new();
    *MAX.get_or_init(|| {
        let asked = std::env::var(ENV_SLEEP_MAX).ok().and_then(|text| text.parse().ok());
        asked.map_or(SLEEP_MAX, Duration::from_millis)
    })
}

/// Other threads see this thread's earlier stores before it executes its later loads.
#[inline(always)]
pub fn full_fence() {
    sys::full_fence();
}

/// Something threads of this process wait for: a count that goes up.
#[derive(Debug, Default)]
pub struct Signal(AtomicU32);

impl Signal {
    /// Nothing has happened yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// How often it has happened: to be read before the look after which one waits.
    pub fn seen(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Sleeps until its count differs from `seen`, at most `timeout`. May return early.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) {
        sys::futex_wait(&self.0, seen, timeout);
    }

    /// Raises the event: wakes all waiters.
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        sys::futex_wake(&self.0, i32::MAX);
    }
}

/// Where a thread sleeps until a device has news, without holding the device: after
/// [`arm_aside`](crate::shm::Shm::arm_aside) answered `Armed` and the thread released the device.
pub struct Parker {
    place: Place,
    /// Where the device wakes from some time on.
    later: OnceLock<Place>,
}

enum Place {
    /// The device wakes by a futex.
    Futex(Sleep),
    /// The device has one descriptor that becomes readable; the second one is ours, for [`Parker::end`].
    Descriptors { ready: OwnedFd, bell: OwnedFd },
}

impl Parker {
    fn at(place: Place) -> Self {
        Self { place, later: OnceLock::new() }
    }

    /// The device wakes elsewhere from now on; a thread sleeping here wakes and sleeps there. Works once.
    pub fn move_to(&self, other: Self) {
        if self.later.set(other.place).is_ok() {
            match &self.place {
                Place::Futex(sleep) => sleep.rouse(),
                Place::Descriptors { bell, .. } => ring(bell),
            }
        }
    }

    fn place(&self) -> &Place {
        self.later.get().unwrap_or(&self.place)
    }

    pub(crate) fn at_futex(sleep: Sleep) -> Self {
        Self::at(Place::Futex(sleep))
    }

    /// # Errors
    /// No descriptors left.
    pub(crate) fn at_descriptor(ready: OwnedFd) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self::at(Place::Descriptors { ready, bell }))
    }

    /// Sleeps until the device has news or [`end`](Self::end) is called, at most `timeout`. May return early.
    pub fn sleep(&self, timeout: Duration) {
        match self.place() {
            Place::Futex(sleep) => sleep.wait_aside(timeout),
            Place::Descriptors { ready, bell } => {
                let most = Timespec {
                    tv_sec: timeout.as_secs() as i64,
                    tv_nsec: i64::from(timeout.subsec_nanos() as i32),
                };
                let mut fds = [ready, bell].map(|fd| PollFd::new(fd, PollFlags::IN));
                // An interrupted sleep has returned early.
                let _ = poll(&mut fds, Some(&most));
                let _ = rustix::io::read(bell, &mut [0u8; 8]);
            }
        }
    }

    /// Ends the sleep, also one that is about to begin.
    pub fn end(&self) {
        match self.place() {
            Place::Futex(sleep) => sleep.end(),
            Place::Descriptors { bell, .. } => ring(bell),
        }
    }

    /// As [`end`](Self::end), also where others have used the device since the sleep began. Only one thread
    /// may sleep at the device then.
    pub fn rouse(&self) {
        match self.place() {
            Place::Futex(sleep) => sleep.rouse(),
            Place::Descriptors { bell, .. } => ring(bell),
        }
    }
}

fn ring(bell: &OwnedFd) {
    // A bell that cannot be rung any more rings already.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Makes this process take part in [`fence_all_threads`]; quick only before it has a second thread. `false`:
/// the kernel cannot.
pub fn register_fences() -> bool {
    sys::membarrier_private_register()
}

/// A full fence in every running thread of this process.
pub fn fence_all_threads() {
    sys::membarrier_private();
}

/// The slices a thread asks for that works in short bursts, in nanoseconds: the shortest there are.
const SLICE_NS: u64 = 100_000;

/// Starts a thread that never runs a signal handler of the program's, and that the kernel lets run soon after
/// it is woken, also where another computes.
///
/// # Errors
/// The system has no room for a thread.
pub fn start(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
    let body = || {
        sys::ask_for_slices_of(SLICE_NS);
        body();
    };
    crate::tcp::sys::without_signals(|| builder.spawn(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn a_signal_raised_before_the_wait_is_not_missed() {
        let signal = Signal::new();
        let seen = signal.seen();
        signal.raise();
        let begin = Instant::now();
        signal.wait(seen, Some(HANG_LIMIT));
        assert!(begin.elapsed() < HANG_LIMIT);
    }

    #[test]
    fn parked_thread_wakes_by_its_descriptor_or_its_word() {
        let (ready, writing) = rustix::pipe::pipe().unwrap();
        let parker = Arc::new(Parker::at_descriptor(ready).unwrap());
        let begin = Instant::now();
        parker.sleep(Duration::from_millis(20));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        parker.end();
        parker.sleep(HANG_LIMIT);
        let other = parker.clone();
        let thread = start("test", move || other.sleep(HANG_LIMIT)).unwrap();
        rustix::io::write(&writing, b"x").unwrap();
        thread.join().unwrap();
        assert!(begin.elapsed() < HANG_LIMIT);
    }
}
