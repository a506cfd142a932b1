//! Memory that the ranks of a host share.

use super::finding::{Findings, Severity};
use super::system::System;

const CAP_SYS_PTRACE: u32 = 19;

pub(super) fn one_copy(system: &System, findings: &mut Findings) {
    let gain = "long messages within the host are copied once (process_vm_readv) and not twice";
    if system.variable("AYATORI_SHM_CMA") == Some("0") {
        findings.add(
            Severity::Warning,
            "AYATORI_SHM_CMA=0 turns the single copy within a host off",
            "unset AYATORI_SHM_CMA",
            gain,
        );
        return;
    }
    let Some(scope) = system.value::<u32>("/proc/sys/kernel/yama/ptrace_scope") else { return };
    let is_refused = match scope {
        0 => false,
        1 | 2 => !system.is_capable(CAP_SYS_PTRACE),
        _ => true,
    };
    if !is_refused {
        return;
    }
    let remedy = match scope {
        3.. => "kernel.yama.ptrace_scope=3 stays until the next boot: set it to 0 in /etc/sysctl.d",
        _ => "sysctl -w kernel.yama.ptrace_scope=0 (or give the programs CAP_SYS_PTRACE)",
    };
    let problem = format!("kernel.yama.ptrace_scope={scope}: ranks must not read each other's memory");
    findings.add(Severity::Warning, problem, remedy, gain);
}

pub(super) fn memory_files(system: &System, findings: &mut Findings) {
    if system.value::<u32>("/proc/sys/vm/memfd_noexec") == Some(2) {
        findings.add(
            Severity::Error,
            "vm.memfd_noexec=2: the kernel refuses memory files that are not sealed against execution",
            "sysctl -w vm.memfd_noexec=1",
            "jobs start: the ranks of a host share a memory file",
        );
    }
}

pub(super) fn dev_shm(system: &System, findings: &mut Findings) {
    let Some(mounts) = system.text("/proc/self/mounts") else { return };
    let found = mounts.lines().rev().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, _, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (at == "/dev/shm").then(|| options.to_owned())
    });
    let why = "programs of other launchers and other libraries that share memory by name work";
    let Some(options) = found else {
        if !system.path("/dev/shm").is_dir() {
            findings.add(
                Severity::Advice,
                "/dev/shm is missing; `ayatori run` does not need it",
                "mount -t tmpfs tmpfs /dev/shm",
                why,
            );
        }
        return;
    };
    let has = |option: &str| options.split(',').any(|given| given == option);
    if has("ro") {
        findings.add(Severity::Advice, "/dev/shm is read-only", "mount -o remount,rw /dev/shm", why);
    }
    let size = options.split(',').find_map(|option| option.strip_prefix("size=").and_then(size_bytes));
    if let Some(bytes) = size.filter(|&bytes| bytes < SHM_BYTES_MIN) {
        findings.add(
            Severity::Advice,
            format!("/dev/shm holds {} KiB only; `ayatori run` does not need it", bytes >> 10),
            "mount -o remount,size=50% /dev/shm, or --shm-size of a container",
            why,
        );
    }
}

/// More than containers give by default (64 MiB).
const SHM_BYTES_MIN: u64 = 65 << 20;

/// tmpfs' sizes: bytes, or with k, m, g.
fn size_bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let shift = match &text[split..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

pub(super) fn huge_pages(system: &System, findings: &mut Findings) {
    // The chosen word stands in brackets.
    let text = system.text("/sys/kernel/mm/transparent_hugepage/enabled");
    if text.is_some_and(|text| text.contains("[never]")) {
        findings.add(
            Severity::Advice,
            "transparent huge pages are off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            "programs that ask for huge pages get them: fewer TLB misses in large arrays",
        );
    }
}
