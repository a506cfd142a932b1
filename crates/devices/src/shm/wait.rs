//! When to spin, when to let others run, when to sleep.

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

/// How a rank waits: so many polls, then so many yields, then sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitPolicy {
    /// Polls without a pause in between.
    pub spins_count: u32,
    /// Polls with a yield in between.
    pub yields_count: u32,
}

impl WaitPolicy {
    /// For `ranks_count` ranks on `cpus_count` CPUs.
    ///
    /// With more ranks than CPUs, whoever spins keeps off the CPU the very rank it waits for. Measured on 2 CPUs
    /// (bench node_collectives, barrier, µs at 4 / 16 / 32 ranks): yielding at once 2.3 / 13 / 31, after 30
    /// polls 1.7 / 24 / 79, after 300 polls 5.0 / 190 / 1240; sleeping at once 8.8 / 45 / 109.
    pub fn new(ranks_count: u32, cpus_count: u32) -> Self {
        if ranks_count <= cpus_count {
            // Waking a process on an idle CPU takes about 35 µs (it has to come out of a halt): waiting that
            // long by polling, at about 4 ns each, costs at most as much again as sleeping would have.
            Self { spins_count: 10_000, yields_count: 20 }
        } else if ranks_count <= 2 * cpus_count {
            // The one waited for runs at this moment, as likely as not.
            Self { spins_count: 30, yields_count: 100 }
        } else {
            Self { spins_count: 1, yields_count: 100 }
        }
    }

    /// Begins a wait.
    #[inline]
    pub fn start(self) -> Wait {
        Wait { policy: self, polls_count: 0 }
    }
}

/// One wait in progress. Begin a new one when something has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    policy: WaitPolicy,
    polls_count: u32,
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
            WaitStep::Sleep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_spins_then_yields_then_sleeps() {
        let mut wait = WaitPolicy { spins_count: 2, yields_count: 1 }.start();
        let steps: Vec<_> = (0..5).map(|_| wait.step()).collect();
        use WaitStep::{Sleep, Spin, Yield};
        assert_eq!(steps, [Spin, Spin, Yield, Sleep, Sleep]);
    }
}
