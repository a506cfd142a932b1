//! When to spin, when to let others run, when to sleep.
//!
//! If other programs compute on the CPUs, a yield gives one of them a time slice of milliseconds, while a
//! woken thread runs at once. So some yields are timed ([`yield_now`]). When they take long, waits sleep
//! instead, and an occasional wait yields again to find out whether the others have gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The next step after an empty poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitStep {
    /// Poll again at once.
    Spin,
    /// Let another process run on this CPU, then poll again.
    Yield,
    /// Arm the device and sleep.
    Sleep,
}

/// How a rank waits: polls, then yields, then sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitPolicy {
    /// Polls without a yield in between, at most.
    pub spins_count: u32,
    /// Maximum time of these polls, independent of the cost of each: a look at a few requests with the lock
    /// taken takes many times as long as one at a ring.
    pub spins_time: Duration,
    /// Polls with a yield in between, at least, unless they take longer than `yields_time_max`.
    pub yields_count: u32,
    /// After this time the counted yields are over and it sleeps: among a thousand ranks one yield takes tens
    /// of milliseconds, in which all the others run only to yield, too.
    pub yields_time_max: Duration,
    /// Yields go on until the first `yields_count` of them are this long ago.
    pub yields_time: Duration,
}

/// A hundred yields among 32 ranks on 2 CPUs take half of it.
const YIELDS_TIME_MAX: Duration = Duration::from_millis(5);

impl WaitPolicy {
    /// For `ranks_count` ranks on `cpus_count` CPUs.
    ///
    /// With more ranks than CPUs, a spinning rank keeps the rank it waits for off the CPU. Measured on 2 CPUs
    /// (a counter that processes wait for, barrier, µs at 4 / 8 / 16 / 32 ranks): yielding at once 1.5 / 4.7
    /// / 9.6 / 24, after 30 polls 2.4 / 7.3 / 18 / 34.
    pub fn new(ranks_count: u32, cpus_count: u32) -> Self {
        if ranks_count <= cpus_count {
            // Waking a process on an idle CPU takes about 35 µs (it has to come out of a halt), and much that
            // is waited for comes within the time of a long message. A poll takes from some 80 ns (one ring)
            // to 600 (a wait for any request).
            Self {
                spins_count: 10_000,
                spins_time: Duration::from_millis(1),
                yields_count: 20,
                yields_time_max: YIELDS_TIME_MAX,
                yields_time: Duration::ZERO,
            }
        } else {
            // A yield costs a rank with work on the same CPU only the switch. A sleeping rank must be woken,
            // and its CPU may have halted meanwhile. Hence ranks yield for some time.
            Self {
                spins_count: 0,
                spins_time: Duration::ZERO,
                yields_count: 100,
                yields_time_max: YIELDS_TIME_MAX,
                yields_time: Duration::from_micros(200),
            }
        }
    }

    /// Begins a wait.
    #[inline]
    pub fn start(self) -> Wait {
        Wait { policy: self, polls_count: 0, spun_at: None, yields_began: None, yielded_at: None }
    }
}

/// State of other programs that compute on this process' CPUs.
#[derive(Debug)]
struct Others {
    /// This many waits sleep without a yield before one yields again; 0: no other program is known.
    waits_left: AtomicU32,
    /// How many they were when it began.
    waits_count: AtomicU32,
    /// Number of yields after those waits that are all timed, to find out whether the others still run.
    trial_left: AtomicU32,
    /// How often this process has yielded.
    yields_count: AtomicU32,
}

static OTHERS: Others = Others::new();

/// Lets others run on this CPU.
pub fn yield_now() {
    OTHERS.yield_to(super::sys::yield_now);
}

/// One of this many yields is timed.
const YIELDS_PER_TIMING: u32 = 16;
/// A yield that takes longer has let another program compute.
const YIELD_MAX: Duration = Duration::from_millis(1);
/// Yields that are all timed after a long one, and after the waits that follow.
const TRIAL_YIELDS: u32 = 256;
/// Number of waits that sleep after the second long yield, and after many in a row.
const WAITS_MIN: u32 = 8;
const WAITS_MAX: u32 = 2_048;
/// Polls before a sleep beside others: what is on its way from a rank that runs comes in that time.
const SPINS_BESIDE_OTHERS: u32 = 3 * POLLS_PER_READING;

impl Others {
    const fn new() -> Self {
        let [waits_left, waits_count, trial_left, yields_count] = [const { AtomicU32::new(0) }; 4];
        Self { waits_left, waits_count, trial_left, yields_count }
    }

    /// Lets others run by `yield_now`. Mostly what a rank waits for has come when it runs again, and its wait
    /// reads no clock then; so some yields are timed.
    fn yield_to(&self, yield_now: impl FnOnce()) {
        let count = self.yields_count.load(Ordering::Relaxed).wrapping_add(1);
        self.yields_count.store(count, Ordering::Relaxed);
        let trial_left = self.trial_left.load(Ordering::Relaxed);
        if trial_left > 0 {
            self.trial_left.store(trial_left - 1, Ordering::Relaxed);
        }
        let is_timed = trial_left > 0 || count.is_multiple_of(YIELDS_PER_TIMING);
        let began = is_timed.then(Instant::now);
        yield_now();
        if began.is_some_and(|began| began.elapsed() >= YIELD_MAX) {
            self.on_long_yield();
        }
    }

    fn are_here(&self) -> bool {
        self.waits_left.load(Ordering::Relaxed) > 0
    }

    /// Whether a wait that would yield sleeps instead.
    #[inline]
    fn spares_yields(&self) -> bool {
        let left = self.waits_left.load(Ordering::Relaxed);
        if left > 0 {
            self.waits_left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// One long yield may be an accident. If the next one is soon after it, others compute; and if one is
    /// soon after the waits that that has cost, they still do.
    fn on_long_yield(&self) {
        let is_again = self.trial_left.load(Ordering::Relaxed) > 0;
        let before = self.waits_count.load(Ordering::Relaxed);
        let count = if is_again { (before * 2).clamp(WAITS_MIN, WAITS_MAX) } else { 0 };
        self.waits_count.store(count, Ordering::Relaxed);
        self.waits_left.store(count, Ordering::Relaxed);
        self.trial_left.store(TRIAL_YIELDS, Ordering::Relaxed);
    }
}

/// A spinning wait reads the clock once in this many polls: seldom enough to cost nothing.
const POLLS_PER_READING: u32 = 64;
/// The same while it yields, which takes far longer than a reading, and much longer where ranks are many.
const YIELDS_PER_READING: u32 = 4;

/// One wait in progress. Begin a new one when something has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    policy: WaitPolicy,
    polls_count: u32,
    /// The first reading of the clock while it spins.
    spun_at: Option<Instant>,
    /// The first reading of the clock while it yields.
    yields_began: Option<Instant>,
    /// When the counted yields were over.
    yielded_at: Option<Instant>,
}

impl Wait {
    /// Whether the next step is to poll again at once.
    #[inline]
    pub fn step_is_spin(&self) -> bool {
        self.polls_count < self.policy.spins_count
    }

    /// The next step after an empty poll.
    #[inline]
    pub fn step(&mut self) -> WaitStep {
        self.step_beside(&OTHERS)
    }

    #[inline]
    fn step_beside(&mut self, others: &Others) -> WaitStep {
        let polls = self.polls_count;
        if polls < self.policy.spins_count {
            self.polls_count = polls + 1;
            if self.polls_count.is_multiple_of(POLLS_PER_READING) {
                self.end_spins_in_time(others);
            }
            WaitStep::Spin
        } else if polls < self.policy.spins_count + self.policy.yields_count {
            self.polls_count = polls + 1;
            let yields_count = self.polls_count - self.policy.spins_count;
            let is_read = yields_count.is_multiple_of(YIELDS_PER_READING);
            if others.spares_yields() || is_read && self.has_yielded_for_long() {
                self.polls_count = self.policy.spins_count + self.policy.yields_count;
                // Those that are left by time are over, too.
                self.policy.yields_time = Duration::ZERO;
                return WaitStep::Sleep;
            }
            WaitStep::Yield
        } else {
            self.step_by_time()
        }
    }

    #[inline(never)]
    fn end_spins_in_time(&mut self, others: &Others) {
        let is_enough = self.polls_count >= SPINS_BESIDE_OTHERS && others.are_here();
        if is_enough || self.spun_at.get_or_insert_with(Instant::now).elapsed() >= self.policy.spins_time {
            self.polls_count = self.policy.spins_count;
        }
    }

    #[inline(never)]
    fn has_yielded_for_long(&mut self) -> bool {
        self.yields_began.get_or_insert_with(Instant::now).elapsed() >= self.policy.yields_time_max
    }

    fn step_by_time(&mut self) -> WaitStep {
        if self.policy.yields_time == Duration::ZERO {
            return WaitStep::Sleep;
        }
        let yielded_at = *self.yielded_at.get_or_insert_with(Instant::now);
        if yielded_at.elapsed() < self.policy.yields_time { WaitStep::Yield } else { WaitStep::Sleep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No other program: other tests of this program wait, too.
    static ALONE: Others = Others::new();

    #[test]
    fn a_wait_spins_then_yields_then_sleeps() {
        let policy = WaitPolicy {
            spins_count: 2,
            spins_time: Duration::from_secs(1),
            yields_count: 1,
            yields_time_max: YIELDS_TIME_MAX,
            yields_time: Duration::ZERO,
        };
        let mut wait = policy.start();
        use WaitStep::{Sleep, Spin, Yield};
        let mut step = || {
            let is_spin = wait.step_is_spin();
            let step = wait.step_beside(&ALONE);
            assert_eq!(is_spin, step == Spin, "it says so before");
            step
        };
        let steps: Vec<_> = (0..5).map(|_| step()).collect();
        assert_eq!(steps, [Spin, Spin, Yield, Sleep, Sleep]);
    }

    #[test]
    fn spins_end_after_their_time_whatever_a_poll_costs() {
        let spins_time = Duration::from_millis(1);
        let policy = WaitPolicy {
            spins_count: 10_000,
            spins_time,
            yields_count: 1,
            yields_time_max: YIELDS_TIME_MAX,
            yields_time: Duration::ZERO,
        };
        let mut wait = policy.start();
        let mut spins_count = 0;
        while wait.step_beside(&ALONE) == WaitStep::Spin {
            spins_count += 1;
            std::thread::sleep(Duration::from_micros(20));
        }
        // Each poll took 20 µs at least: the clock is read at the 64th and the 128th, which is 1.28 ms later.
        assert_eq!(spins_count, 2 * POLLS_PER_READING);
    }

    #[test]
    fn yields_go_on_for_their_time() {
        let policy = WaitPolicy {
            spins_count: 0,
            spins_time: Duration::ZERO,
            yields_count: 1,
            yields_time_max: YIELDS_TIME_MAX,
            yields_time: Duration::from_millis(2),
        };
        let mut wait = policy.start();
        let begin = Instant::now();
        while wait.step_beside(&ALONE) == WaitStep::Yield {}
        assert!(begin.elapsed() >= Duration::from_millis(2));
        assert_eq!(wait.step_beside(&ALONE), WaitStep::Sleep);
    }

    #[test]
    fn slow_yields_end_before_they_are_counted() {
        let policy = WaitPolicy { yields_time_max: Duration::from_micros(10), ..WaitPolicy::new(1_000, 2) };
        let (mut wait, mut yields_count) = (policy.start(), 0);
        while wait.step_beside(&ALONE) == WaitStep::Yield {
            yields_count += 1;
            std::thread::sleep(Duration::from_micros(10));
        }
        // The clock is read at the fourth and at the eighth.
        assert_eq!(yields_count, 2 * YIELDS_PER_READING - 1);
        assert_eq!(wait.step_beside(&ALONE), WaitStep::Sleep);
    }

    #[test]
    fn beside_others_that_compute_waits_sleep_and_try_again_later() {
        static BESIDE: Others = Others::new();
        let policy = WaitPolicy { yields_time_max: Duration::MAX, ..WaitPolicy::new(4, 2) };
        // How many yields a wait makes when each is long.
        let wait = || {
            let (mut wait, mut yields_count) = (policy.start(), 0);
            while wait.step_beside(&BESIDE) == WaitStep::Yield {
                yields_count += 1;
                BESIDE.yield_to(|| std::thread::sleep(YIELD_MAX));
            }
            assert_eq!(wait.step_beside(&BESIDE), WaitStep::Sleep, "and goes on to sleep");
            yields_count
        };
        // The first that is timed may be an accident; all are timed then.
        assert_eq!(wait(), YIELDS_PER_TIMING + 1);
        for waits in [WAITS_MIN, 2 * WAITS_MIN, 4 * WAITS_MIN] {
            // The wait in which it came out was the first of them.
            for _ in 1..waits {
                assert_eq!(wait(), 0);
            }
            assert_eq!(wait(), 1, "one tries again");
        }
        let policy = WaitPolicy { spins_time: Duration::MAX, ..WaitPolicy::new(2, 2) };
        let spins_count = || {
            let mut wait = policy.start();
            (0..).take_while(|_| wait.step_beside(&BESIDE) == WaitStep::Spin).count() as u32
        };
        assert_eq!(spins_count(), SPINS_BESIDE_OTHERS);
        BESIDE.waits_left.store(0, Ordering::Relaxed);
        assert_eq!(spins_count(), policy.spins_count);
        // The others have gone, and later there is an accident.
        BESIDE.trial_left.store(0, Ordering::Relaxed);
        BESIDE.on_long_yield();
        assert_eq!(BESIDE.waits_left.load(Ordering::Relaxed), 0);
        BESIDE.on_long_yield();
        assert_eq!(BESIDE.waits_left.load(Ordering::Relaxed), WAITS_MIN, "it begins again");
    }

    #[test]
    fn no_rank_spins_if_ranks_outnumber_cpus() {
        for (ranks, cpus) in [(3, 2), (4, 2), (32, 2), (9, 8)] {
            assert_eq!(WaitPolicy::new(ranks, cpus).start().step_beside(&ALONE), WaitStep::Yield);
        }
    }
}
