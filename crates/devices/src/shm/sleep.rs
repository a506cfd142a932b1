//! Sleeping without missing arrivals, and waking only sleepers.
//!
//! Sleeper and sender must not both look before the other has spoken:
//!
//! ```text
//! sleeper                          sender
//!   sleep = ASLEEP                   slot.word = …      (the packet is there)
//!   ---- fence ----                  ---- fence ----
//!   look into all rings              sleep == AWAKE ?   else wake
//!   futex_wait(sleep, ASLEEP)
//! ```
//!
//! The sender's fence would cost every message the time until its line has come over from the receiver. A
//! process that registered for it therefore leaves the fence out, and the sleeper executes one in all running
//! peers (`membarrier`); its cost does not matter before a sleep. With more ranks than CPUs, sleeps are
//! frequent and interrupting the other CPU is expensive, so senders then use the fence.
//!
//! Rules:
//! 1. A process that is going to send without fences first increments `fenceless_count`, sequentially
//!    consistent.
//! 2. The sleeper stores its sleep word, fences, and reads that count; if it is not 0 it calls `membarrier`.
//!    If it reads 0, a process that goes fenceless does so later in the order of all these, and then sees the
//!    sleep word.
//! 3. A waker swaps the word to [`AWAKE`]; it makes the system call only if the old word was another.
//!
//! A rank that also waits for sockets sleeps in an epoll, where a futex does not reach it: its word says so,
//! and the waker rings its bell (`bell.rs`) instead.

use super::bell;
use super::segment::{ASIDE, ASLEEP, AT_BELL, AWAKE, Control, STARVED, Segment};
use super::sys;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

/// The sender's side: wakes sleepers.
#[derive(Clone, Copy)]
pub(super) struct Waker {
    is_fenceless: bool,
}

/// Where a rank sleeps, for a thread that does not have the device.
#[derive(Clone, Copy)]
pub(crate) struct Sleep {
    word: &'static AtomicU32,
}

impl Sleep {
    /// Sleeps if the rank is still asleep aside. Once it is not, another thread of it may sleep at the same
    /// word: hence the mark.
    pub(crate) fn wait_aside(self, timeout: Duration) {
        let word = self.word.load(Ordering::Acquire);
        if word & ASIDE != 0 {
            sys::futex_wait(self.word, word, Some(timeout));
        }
    }

    /// The rank is awake: wakes the thread that sleeps aside, even if its mark has been removed since.
    pub(crate) fn rouse(self) {
        self.word.swap(AWAKE, Ordering::SeqCst);
        sys::futex_wake(self.word, 1);
    }

    /// The rank is awake: wakes the thread that sleeps here.
    pub(crate) fn end(self) {
        if self.word.swap(AWAKE, Ordering::SeqCst) & ASIDE != 0 {
            sys::futex_wake(self.word, 1);
        }
    }
}

/// Which thread of a rank sleeps, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The one that has the device, at the futex.
    Here,
    /// Another, at the futex.
    Aside,
    /// At the bell.
    Bell,
}

pub(super) struct Sleeper {
    word: &'static AtomicU32,
    fenceless_count: &'static AtomicU32,
    waker: Waker,
    watched_at: Instant,
}

/// How often a rank that sleeps now and then looks whether its peers live.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

impl Sleeper {
    /// `is_oversubscribed`: more ranks than CPUs.
    pub(super) fn new(segment: &Segment, local_rank: u32, is_oversubscribed: bool) -> Self {
        let is_fenceless = !is_oversubscribed && sys::membarrier_register();
        if is_fenceless {
            segment.fenceless_count().fetch_add(1, Ordering::SeqCst);
        }
        Self {
            word: &segment.controls()[local_rank as usize].sleep,
            fenceless_count: segment.fenceless_count(),
            waker: Waker { is_fenceless },
            watched_at: Instant::now(),
        }
    }

    pub(super) fn waker(&self) -> Waker {
        self.waker
    }

    pub(super) fn place(&self) -> Sleep {
        Sleep { word: self.word }
    }

    /// Says that this rank is about to sleep; the caller looks into the rings after this.
    pub(super) fn arm(&self, is_starved: bool, place: Place) {
        let starved = if is_starved { STARVED } else { 0 };
        let place = match place {
            Place::Here => 0,
            Place::Aside => ASIDE,
            Place::Bell => AT_BELL,
        };
        self.word.store(ASLEEP | starved | place, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.fenceless_count.load(Ordering::SeqCst) != 0 {
            sys::membarrier();
        }
    }

    pub(super) fn disarm(&self) {
        self.word.store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps unless a waker has reset the word meanwhile. Returns whether one has.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word != AWAKE {
            sys::futex_wait(self.word, word, Some(timeout));
        }
        self.word.load(Ordering::Relaxed) == AWAKE
    }

    /// Whether it is time to look after the peers; if so, the next time is an interval later.
    pub(super) fn is_watch_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.watched_at) >= WATCH_INTERVAL;
        if is_due {
            self.watched_at = now;
        }
        is_due
    }
}

impl Waker {
    #[inline(always)]
    fn order(self) {
        if self.is_fenceless {
            compiler_fence(Ordering::SeqCst);
        } else {
            sys::full_fence();
        }
    }

    /// After a packet was written to the peer's ring.
    #[inline]
    pub(super) fn wake_arrival(self, peer: &Control) {
        self.order();
        if peer.sleep.load(Ordering::Relaxed) != AWAKE {
            wake(peer);
        }
    }

    /// After room in a ring was given back to the peer.
    #[inline]
    pub(super) fn wake_room(self, peer: &Control) {
        self.order();
        if peer.sleep.load(Ordering::Relaxed) & STARVED != 0 {
            wake(peer);
        }
    }

    /// After something changed that any of these may wait for.
    pub(super) fn wake_all(self, peers: &[&Control]) {
        self.order();
        for peer in peers {
            if peer.sleep.load(Ordering::Relaxed) != AWAKE {
                wake(peer);
            }
        }
    }
}

/// Wakes a rank if it sleeps, after something changed that it looks at when it wakes: for onlookers.
pub(super) fn rouse(peer: &Control) {
    fence(Ordering::SeqCst);
    if peer.sleep.load(Ordering::Relaxed) != AWAKE {
        wake(peer);
    }
}

#[cold]
fn wake(peer: &Control) {
    let slept = peer.sleep.swap(AWAKE, Ordering::SeqCst);
    if slept & AT_BELL != 0 {
        bell::ring(peer);
    } else if slept != AWAKE {
        sys::futex_wake(&peer.sleep, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::bell::Bell;
    use crate::shm::segment::{RingSize, Source};
    use crate::threads::HANG_LIMIT;

    fn segment(ranks_count: u32) -> Segment {
        let size = RingSize { slots_count: 4, lines_counts: [4, 0] };
        Segment::attach(&Source::create().unwrap(), ranks_count, size).unwrap()
    }

    #[test]
    fn a_sleeper_is_woken_by_what_it_waits_for() {
        let segment = segment(1);
        let control = &segment.controls()[0];
        let sleeper = Sleeper::new(&segment, 0, true);
        let waker = sleeper.waker();
        let is_asleep = || control.sleep.load(Ordering::Relaxed) != AWAKE;
        for place in [Place::Here, Place::Aside] {
            for is_starved in [false, true] {
                sleeper.arm(is_starved, place);
                assert!(is_asleep());
                waker.wake_room(control);
                assert_eq!(is_asleep(), !is_starved, "room concerns those that lack it");
                for wake in [Waker::wake_arrival, |waker: Waker, peer: &Control| waker.wake_all(&[peer])] {
                    sleeper.arm(is_starved, place);
                    wake(waker, control);
                    assert!(!is_asleep() && sleeper.wait(HANG_LIMIT), "it does not sleep any more");
                }
                sleeper.arm(is_starved, place);
                rouse(control);
                assert!(!is_asleep());
                sleeper.arm(is_starved, place);
                sleeper.disarm();
                assert!(!is_asleep());
            }
        }
    }

    #[test]
    fn a_bell_rings_for_those_that_sleep_there_only() {
        let segment = segment(1);
        let control = &segment.controls()[0];
        control.pid.store(std::process::id(), Ordering::Relaxed);
        let (_bell, listening) = Bell::new(control).unwrap();
        let sleeper = Sleeper::new(&segment, 0, true);
        let rings = |place: Place| {
            sleeper.arm(false, place);
            sleeper.waker().wake_arrival(control);
            rustix::io::read(&listening, &mut [0; 8]).is_ok()
        };
        let places = [Place::Here, Place::Aside, Place::Bell];
        assert_eq!(places.map(rings), [false, false, true]);
    }

    #[test]
    fn ranks_with_a_cpu_each_send_without_fences_and_say_so() {
        let segment = segment(2);
        let crowded = Sleeper::new(&segment, 0, true);
        assert!(!crowded.waker().is_fenceless);
        assert_eq!(segment.fenceless_count().load(Ordering::Relaxed), 0);
        let roomy = Sleeper::new(&segment, 1, false);
        let count = u32::from(roomy.waker().is_fenceless);
        assert_eq!(segment.fenceless_count().load(Ordering::Relaxed), count);
    }

    #[test]
    fn peers_are_looked_after_now_and_then() {
        let mut sleeper = Sleeper::new(&segment(1), 0, true);
        for _ in 0..2 {
            let due = sleeper.watched_at + WATCH_INTERVAL;
            assert!(!sleeper.is_watch_due(due - Duration::from_nanos(1)));
            assert!(sleeper.is_watch_due(due) && !sleeper.is_watch_due(due), "it begins anew");
        }
    }

    /// Waits until a thread of this process sleeps in the kernel, or has ended.
    fn await_sleep(thread: i32) {
        let state = || std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        while state().is_ok_and(|state| !state.contains(") S ")) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_asleep_aside_is_woken_also_without_its_mark() {
        let segment = segment(1);
        let sleeper = Sleeper::new(&segment, 0, true);
        sleeper.arm(false, Place::Here);
        // Another thread's sleep.
        sleeper.place().wait_aside(HANG_LIMIT);
        for has_mark in [true, false] {
            sleeper.arm(false, Place::Aside);
            let (place, number) = (sleeper.place(), AtomicU32::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    number.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::SeqCst);
                    place.wait_aside(HANG_LIMIT);
                });
                while number.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                await_sleep(number.load(Ordering::SeqCst) as i32);
                if has_mark {
                    place.end();
                } else {
                    sleeper.disarm();
                    place.rouse();
                }
            });
            assert_eq!(sleeper.word.load(Ordering::Relaxed), AWAKE);
        }
        // One that is about to sleep does not.
        sleeper.arm(false, Place::Aside);
        sleeper.place().rouse();
        sleeper.place().wait_aside(HANG_LIMIT);
    }
}
