//! When to spin, when to let others run, when to sleep.

use std::time::{Duration, Instant};

/// What to do after a poll that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitStep {
    /// Poll again at once.
    Spin,
    /// Let another process run on this CPU, then poll again.
    Yield,
    /// Arm the device and sleep.
    Sleep,
}

/// How a rank waits: so many polls, then yields, then sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitPolicy {
    /// Polls without a yield in between, at most.
    pub spins_count: u32,
    /// Such polls go on for at most so long, whatever each of them costs: a look at a few requests with the lock taken takes
    /// many times as long as one at a ring.
    pub spins_time: Duration,
    /// Polls with a yield in between, at least, unless they take longer than `yields_time_max`.
    pub yields_count: u32,
    /// After so long the counted yields are over and it sleeps: among a thousand ranks one yield takes tens
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
    /// With more ranks than CPUs, whoever spins keeps off the CPU the very rank it waits for. Measured on 2 CPUs
    /// (a counter that processes wait for, barrier, µs at 4 / 8 / 16 / 32 ranks): yielding at once
    /// 1.5 / 4.7 / 9.6 / 24, after 30 polls 2.4 / 7.3 / 18 / 34.
    pub fn new(ranks_count: u32, cpus_count: u32) -> Self {
        if ranks_count <= cpus_count {
            // Waking a process on an idle CPU takes about 35 µs (it has to come out of a halt), and much that is waited for
            // comes within the time of a long message. A poll takes from some 80 ns (one ring) to 600 (a wait for any request).
            Self {
                spins_count: 10_000,
                spins_time: Duration::from_millis(1),
                yields_count: 20,
                yields_time_max: YIELDS_TIME_MAX,
                yields_time: Duration::ZERO,
            }
        } else {
            // Whoever yields takes nothing from a rank that has work on the same CPU but the switch; a rank that
            // sleeps has to be woken, and its CPU may have halted meanwhile. Hence for some time.
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

/// While it spins, a wait reads the clock at each so many polls: seldom enough to cost nothing.
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

    /// What to do now that a poll has found nothing.
    #[inline]
    pub fn step(&mut self) -> WaitStep {
        let polls = self.polls_count;
        if polls < self.policy.spins_count {
            self.polls_count = polls + 1;
            if self.polls_count.is_multiple_of(POLLS_PER_READING) {
                self.end_spins_by_time();
            }
            WaitStep::Spin
        } else if polls < self.policy.spins_count + self.policy.yields_count {
            self.polls_count = polls + 1;
            let yields_count = self.polls_count - self.policy.spins_count;
            if yields_count.is_multiple_of(YIELDS_PER_READING) && self.has_yielded_for_long() {
                return WaitStep::Sleep;
            }
            WaitStep::Yield
        } else {
            self.step_by_time()
        }
    }

    #[inline(never)]
    fn end_spins_by_time(&mut self) {
        if self.spun_at.get_or_insert_with(Instant::now).elapsed() >= self.policy.spins_time {
            self.polls_count = self.policy.spins_count;
        }
    }

    #[inline(never)]
    fn has_yielded_for_long(&mut self) -> bool {
        let began = *self.yields_began.get_or_insert_with(Instant::now);
        let is_over = began.elapsed() >= self.policy.yields_time_max;
        if is_over {
            self.polls_count = self.policy.spins_count + self.policy.yields_count;
            self.yielded_at = Some(began);
        }
        is_over
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
        let steps: Vec<_> = (0..5).map(|_| wait.step()).collect();
        use WaitStep::{Sleep, Spin, Yield};
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
        while wait.step() == WaitStep::Spin {
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
        while wait.step() == WaitStep::Yield {}
        assert!(begin.elapsed() >= Duration::from_millis(2));
        assert_eq!(wait.step(), WaitStep::Sleep);
    }

    #[test]
    fn slow_yields_end_before_they_are_counted() {
        let policy = WaitPolicy::new(1_000, 2);
        let (mut wait, mut yields_count) = (policy.start(), 0);
        while wait.step() == WaitStep::Yield {
            yields_count += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
        // The clock is read at the fourth; at the eighth at least 8 ms have passed.
        assert_eq!(yields_count, 2 * YIELDS_PER_READING - 1);
        assert_eq!(wait.step(), WaitStep::Sleep);
    }

    #[test]
    fn nobody_spins_where_ranks_outnumber_cpus() {
        for (ranks, cpus) in [(3, 2), (4, 2), (32, 2), (9, 8)] {
            assert_eq!(WaitPolicy::new(ranks, cpus).start().step(), WaitStep::Yield);
        }
    }
}
