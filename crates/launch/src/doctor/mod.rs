//! Settings of this machine that stop or slow MPI jobs, and their remedies: `ayatori doctor`.
//!
//! Owns: the checks, a file a subject, each a function of a [`System`]: files of `/proc` and `/sys` beneath a
//! root, an environment, and what the user plans. It changes nothing and opens no socket, so the same checks
//! look at a machine whose root is mounted elsewhere, and tests plant files.
//!
//! What a file does not say is not judged: a kernel without yama has no ptrace scope to complain of.
//!
//! To add a check: a function in a subject's file, and its line in [`CHECKS`].

mod finding;
mod limits;
mod memory;
mod network;
mod processors;
mod programs;
mod system;
#[cfg(test)]
mod tests;

pub use finding::{Finding, Severity};
pub use system::System;

use finding::Findings;

/// A subject that is looked at.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// The subject of the check, in a few words.
    pub about: &'static str,
    run: fn(&System, &mut Findings),
}

/// All checks, in the order of printing.
pub const CHECKS: &[Check] = &[
    Check { name: "open-files", about: "limit of open files", run: limits::open_files },
    Check { name: "processes", about: "limit of processes", run: limits::processes },
    Check { name: "stack", about: "limit of the stack", run: limits::stack },
    Check {
        name: "locked-memory",
        about: "limit of locked memory, with InfiniBand",
        run: limits::locked_memory,
    },
    Check { name: "one-copy", about: "ptrace scope: reading a peer's memory", run: memory::one_copy },
    Check {
        name: "memory-files",
        about: "memfd_create, which the shared segment needs",
        run: memory::memory_files,
    },
    Check { name: "dev-shm", about: "/dev/shm, for other launchers", run: memory::dev_shm },
    Check { name: "huge-pages", about: "transparent huge pages", run: memory::huge_pages },
    Check { name: "cpu-quota", about: "CPUs that the cgroup allows", run: processors::quota },
    Check { name: "cpu-count", about: "CPUs and ranks", run: processors::count },
    Check { name: "clock-source", about: "how the kernel reads time", run: processors::clock_source },
    Check { name: "cpu-governor", about: "clock rate of the CPUs", run: processors::governor },
    Check { name: "interface-carrier", about: "network interfaces without a cable", run: network::carrier },
    Check {
        name: "interface-speed",
        about: "network interfaces slower than they can be",
        run: network::speed,
    },
    Check { name: "interface-mtu", about: "frame sizes", run: network::mtu },
    Check { name: "tcp-buffers", about: "largest TCP buffers", run: network::buffers },
    Check { name: "tcp-congestion", about: "TCP's congestion control", run: network::congestion },
    Check { name: "tcp-idle", about: "TCP's slow start after a pause", run: network::idle },
    Check { name: "launcher", about: "which mpiexec comes first", run: programs::launcher },
    Check { name: "library", about: "libraries of another MPI in the way", run: programs::library },
    Check { name: "settings", about: "values of AYATORI_ variables", run: programs::settings },
];

/// Looks at everything; nothing is found on a machine that is as it should be.
pub fn examine(system: &System) -> Vec<Finding> {
    let mut findings = Findings { check: "", found: Vec::new() };
    for check in CHECKS {
        findings.check = check.name;
        (check.run)(system, &mut findings);
    }
    findings.found
}
