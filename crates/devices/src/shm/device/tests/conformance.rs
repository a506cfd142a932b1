//! The public suite for devices on shared memory: three ranks, all in this process.

use super::*;
use ayatori_core::device::conformance::{Report, World, check};

/// A limit for what hangs.
const PATIENCE: Duration = Duration::from_secs(120);

struct Ranks(Vec<Shm>);

impl World for Ranks {
    fn processes(&self) -> Vec<ProcessId> {
        self.0.iter().map(|device| device.peers[device.local_rank as usize].process).collect()
    }

    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device)) {
        f(&mut self.0[at]);
    }

    /// A packet sent is in the ring.
    fn advance(&mut self) -> bool {
        false
    }

    fn sleep(&mut self, at: usize) -> bool {
        let begin = Instant::now();
        while !self.0[at].wait(None) {
            if begin.elapsed() > PATIENCE {
                return false;
            }
        }
        true
    }
}

fn report(change: impl Fn(&mut ShmConfig)) -> Report {
    check(&mut || Box::new(Ranks(world(3, &change)))).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn shared_memory_keeps_the_promises_of_a_device() {
    // More CPUs than ranks, and fewer: other rings, other lengths, with and without fences.
    for cpus_count in [1_000, 1] {
        let report = report(|config| config.cpus_count = cpus_count);
        let skipped: Vec<_> = report.skipped.iter().map(|skip| skip.check).collect();
        let may_be_refused = ["put", "get"];
        let left: Vec<_> = skipped.into_iter().filter(|name| !may_be_refused.contains(name)).collect();
        assert_eq!(left, ["breaks", "gone"], "{report:?}");
    }
}

#[test]
fn small_rings_keep_the_promises_of_a_device() {
    let small = RingSize { slots_count: 8, lines_counts: [128, 0] };
    report(|config| (config.ring, config.kernel_copy) = (Some(small), false));
}
