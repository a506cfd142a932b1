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
    /// Polls without a pause in between.
    pub spins_count: u32,
    /// Polls with a yield in between, at least.
    pub yields_count: u32,
    /// Yields go on until the first `yields_count` of them are this long ago.
    pub yields_time: Duration,
}

impl WaitPolicy {
    /// For `ranks_count` ranks on `cpus_count` CPUs.
    ///
    /// With more ranks than CPUs, whoever spins keeps off the CPU the very rank it waits for. Measured on 2 CPUs
    /// (a counter that processes wait for, barrier, µs at 4 / 8 / 16 / 32 ranks): yielding at once
    /// 1.5 / 4.7 / 9.6 / 24, after 30 polls 2.4 / 7.3 / 18 / 34.
    pub fn new(ranks_count: u32, cpus_count: u32) -> Self {
        if ranks_count <= cpus_count {
            // Waking a process on an idle CPU takes about 35 µs (it has to come out of a halt): waiting that
            // long by polling, at about 4 ns each, costs at most as much again as sleeping would have.
            Self { spins_count: 10_000, yields_count: 20, yields_time: Duration::ZERO }
        } else {
            // Whoever yields takes nothing from a rank that has work on the same CPU but the switch; a rank that
            // sleeps has to be woken, and its CPU may have halted meanwhile. Hence for some time.
            Self { spins_count: 0, yields_count: 100, yields_time: Duration::from_micros(200) }
        }
    }

    /// Begins a wait.
    #[inline]
    pub fn start(self) -> Wait {
        Wait { policy: self, polls_count: 0, yielded_at: None }
    }
}

/// One wait in progress. Begin a new one when something has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    policy: WaitPolicy,
    polls_count: u32,
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
            WaitStep::Spin
        } else if polls < self.policy.spins_count + self.policy.yields_count {
            self.polls_count = polls + 1;
            WaitStep::Yield
        } else {
            self.step_by_time()
        }
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
        let policy = WaitPolicy { spins_count: 2, yields_count: 1, yields_time: Duration::ZERO };
        let mut wait = policy.start();
        let steps: Vec<_> = (0..5).map(|_| wait.step()).collect();
        use WaitStep::{Sleep, Spin, Yield};
        assert_eq!(steps, [Spin, Spin, Yield, Sleep, Sleep]);
    }

    #[test]
    fn yields_go_on_for_their_time() {
        let policy = WaitPolicy { spins_count: 0, yields_count: 1, yields_time: Duration::from_millis(2) };
        let mut wait = policy.start();
        let begin = Instant::now();
        while wait.step() == WaitStep::Yield {}
        assert!(begin.elapsed() >= Duration::from_millis(2));
        assert_eq!(wait.step(), WaitStep::Sleep);
    }

    #[test]
    fn nobody_spins_where_ranks_outnumber_cpus() {
        for (ranks, cpus) in [(3, 2), (4, 2), (32, 2), (9, 8)] {
            assert_eq!(WaitPolicy::new(ranks, cpus).start().step(), WaitStep::Yield);
        }
    }
}
