//! What others take of this machine while a step measures: a figure that is missed beside a compiler says nothing.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};

/// So much of the CPUs may others take beside a figure that counts.
const OTHERS_MAX: f64 = 0.1;
/// How long one waits at most for others to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one looks whether they have.
const LOOK: Duration = Duration::from_secs(1);

/// Measures from its making on.
pub(super) struct Meter(Reading);

/// The clock, and what had been spent of the CPUs then.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    by_all: Duration,
    by_us: Duration,
}

impl Reading {
    fn now() -> Self {
        Self { at: Instant::now(), by_all: spent_by_all(), by_us: spent_by_us() }
    }

    /// The part of so many CPUs that others had since an earlier reading.
    fn others_since(&self, before: &Self, cpus: usize) -> f64 {
        let by_all = self.by_all.saturating_sub(before.by_all);
        let by_others = by_all.saturating_sub(self.by_us.saturating_sub(before.by_us));
        by_others.as_secs_f64() / ((self.at - before.at).as_secs_f64() * cpus as f64)
    }
}

impl Meter {
    pub(super) fn start() -> Self {
        Self(Reading::now())
    }

    /// The part of the CPUs that others had, this machine's programs or, where it is a virtual one, its host's.
    pub(super) fn others(&self) -> f64 {
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
        Reading::now().others_since(&self.0, cpus)
    }

    /// Whether that is so much that figures say nothing.
    pub(super) fn is_disturbed(&self) -> bool {
        self.others() > OTHERS_MAX
    }
}

/// Waits until others leave the CPUs alone, for a while.
pub(super) fn await_calm() {
    let end = Instant::now() + PATIENCE;
    loop {
        let meter = Meter::start();
        std::thread::sleep(LOOK);
        if !meter.is_disturbed() || Instant::now() > end {
            return;
        }
    }
}

/// User time of everybody since the start, and what a hypervisor kept. What the kernel does is left out: most of it is for
/// our own packets, wherever it is counted.
fn spent_by_all() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    Duration::from_secs_f64(ticks(&stat) as f64 / per_second as f64)
}

/// user, nice and steal of the line of all CPUs.
fn ticks(stat: &str) -> u64 {
    let Some(line) = stat.lines().find_map(|line| line.strip_prefix("cpu ")) else { return 0 };
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    [0, 1, 7].into_iter().filter_map(|field| fields.get(field)).sum()
}

/// User time of ours and of what we have started and seen end.
fn spent_by_us() -> Duration {
    let spent = |who| {
        getrusage(who).map_or(Duration::ZERO, |usage| {
            let time = usage.user_time();
            Duration::from_secs(time.tv_sec() as u64) + Duration::from_micros(time.tv_usec() as u64)
        })
    };
    spent(UsageWho::RUSAGE_SELF) + spent(UsageWho::RUSAGE_CHILDREN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_nice_and_steal_are_counted_of_all_cpus_together() {
        let stat = "cpu  100 20 3 4000 5 6 7 800 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ticks(stat), 920);
        assert_eq!(ticks("cpu  100 20 3 4000"), 120);
        assert_eq!(ticks("nothing"), 0);
    }

    #[test]
    fn others_had_what_all_spent_and_we_did_not() {
        let at = Instant::now();
        let reading = |seconds: u64, by_all, by_us| Reading {
            at: at + Duration::from_secs(seconds),
            by_all: Duration::from_secs(by_all),
            by_us: Duration::from_secs(by_us),
        };
        let before = reading(0, 100, 40);
        assert_eq!(reading(10, 100, 40).others_since(&before, 2), 0.0, "all were idle");
        assert_eq!(reading(10, 118, 58).others_since(&before, 2), 0.0, "only we were busy");
        assert_eq!(reading(10, 115, 50).others_since(&before, 2), 0.25, "5 s of 2 times 10 s");
        // Ticks of 10 ms here and microseconds there: ours may seem more than all.
        assert_eq!(reading(10, 109, 50).others_since(&before, 2), 0.0);
    }

    #[test]
    fn what_our_children_spend_is_ours() {
        let before = spent_by_us();
        let busy = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .status();
        assert!(busy.is_ok_and(|status| status.success()));
        assert!(spent_by_us() > before);
    }
}
