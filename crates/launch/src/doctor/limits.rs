//! Limits of processes.

use super::finding::{Findings, Severity};
use super::system::System;
use crate::spawn::descriptors;

/// Ranks that a host with so many CPUs should be able to start, where the user says nothing.
fn ranks(system: &System) -> u64 {
    system.ranks.or_else(|| system.cpu_count()).unwrap_or(1)
}

pub(super) fn open_files(system: &System, findings: &mut Findings) {
    let Some([_, Some(hard)]) = system.limit("Max open files") else { return };
    let ranks = ranks(system);
    // The launcher holds the most; it raises the soft limit itself.
    let needed = descriptors(ranks);
    if hard < needed {
        findings.add(
            Severity::Error,
            format!("{hard} open files are allowed (ulimit -Hn); {ranks} ranks need {needed}"),
            "raise nofile in /etc/security/limits.conf, or LimitNOFILE= of the service that starts jobs",
            format!("`ayatori run -n {ranks}` starts"),
        );
    }
}

pub(super) fn processes(system: &System, findings: &mut Findings) {
    let soft = system.limit("Max processes").and_then(|[soft, _]| soft).map(|count| (count, "ulimit -u"));
    let files = [
        ("/proc/sys/kernel/pid_max", "kernel.pid_max"),
        ("/proc/sys/kernel/threads-max", "kernel.threads-max"),
    ];
    let files = files.into_iter().filter_map(|(path, name)| Some((system.value(path)?, name)));
    let groups = system.control_group("pids", "pids.max", "pids.max");
    let groups = groups.iter().filter_map(|max| Some((max.parse().ok()?, "the cgroup's pids.max")));
    let Some((least, name)) = soft.into_iter().chain(files).chain(groups).min_by_key(|(count, _)| *count)
    else {
        return;
    };
    let ranks = ranks(system);
    let needed = ranks.saturating_mul(THREADS_PER_RANK).saturating_add(PROCESSES_OTHER);
    if least < needed {
        findings.add(
            Severity::Error,
            format!(
                "{least} processes and threads are allowed ({name}); {ranks} ranks with a helper thread \
                 each, and what else runs, need about {needed}"
            ),
            format!("raise {name}"),
            format!("{ranks} ranks start, and their programs can start threads"),
        );
    }
}

/// A rank and its helper thread.
const THREADS_PER_RANK: u64 = 2;
/// The launcher, its watchdog, a shell and its like.
const PROCESSES_OTHER: u64 = 16;

pub(super) fn stack(system: &System, findings: &mut Findings) {
    let Some([Some(soft), _]) = system.limit("Max stack size") else { return };
    if soft < STACK_BYTES_MIN {
        findings.add(
            Severity::Warning,
            format!("the stack may grow to {} KiB only (ulimit -s)", soft >> 10),
            "ulimit -s 8192, or unlimited for Fortran programs with large local arrays",
            "programs that put arrays on the stack do not end with a segmentation fault",
        );
    }
}

/// Half of what Linux gives by default.
const STACK_BYTES_MIN: u64 = 4 << 20;

/// This library locks no memory; programs and libraries that use InfiniBand's verbs do.
pub(super) fn locked_memory(system: &System, findings: &mut Findings) {
    let devices = system.names("/sys/class/infiniband");
    let Some([Some(soft), _]) = system.limit("Max locked memory") else { return };
    // Root and CAP_IPC_LOCK are not limited.
    if let Some(device) =
        devices.first().filter(|_| soft < LOCKED_BYTES_MIN && !system.is_capable(CAP_IPC_LOCK))
    {
        findings.add(
            Severity::Advice,
            format!("{} KiB of memory may be locked (ulimit -l), and {device} is an RDMA device", soft >> 10),
            "set memlock to unlimited in /etc/security/limits.conf",
            "what uses verbs can register memory; this library's devices (shared memory, TCP) do not need it",
        );
    }
}

const CAP_IPC_LOCK: u32 = 14;
const LOCKED_BYTES_MIN: u64 = 64 << 20;
