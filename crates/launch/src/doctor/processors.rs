//! CPUs and clocks.

use super::finding::{Findings, Severity};
use super::system::System;

pub(super) fn quota(system: &System, findings: &mut Findings) {
    let Some(quota) = quota_cpus(system) else { return };
    let Some(wanted) = system.ranks.or_else(|| system.cpu_count()) else { return };
    if quota < wanted as f64 {
        let who = match system.ranks {
            Some(ranks) => format!("{ranks} ranks are to run"),
            None => format!("the process may run on {wanted} CPUs"),
        };
        findings.add(
            Severity::Warning,
            format!("the cgroup gives {quota:.1} CPUs' time and {who}"),
            format!(
                "start {:.0} ranks at most, or raise cpu.max (CPUQuota=, --cpus, limits.cpu)",
                quota.max(1.0).floor()
            ),
            "no rank is stopped for the rest of a period (0.1 s as a rule) while others wait for its message",
        );
    }
}

/// The least quota of the group and those around it, in CPUs.
fn quota_cpus(system: &System) -> Option<f64> {
    let both = |text: &str| {
        let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().ok());
        // `max 100000`, and -1 in the first version, are no quota.
        Some((numbers.next()??, numbers.next()??))
    };
    let unified = system.control_group("", "cpu.max", "cpu.max");
    let quotas = system.control_group("cpu", "", "cpu.cfs_quota_us");
    let periods = system.control_group("cpu", "", "cpu.cfs_period_us");
    let pairs = quotas.iter().zip(&periods).map(|(quota, period)| format!("{quota} {period}"));
    let all = unified.into_iter().chain(pairs);
    let cpus = all.filter_map(|text| both(&text)).filter(|(quota, period)| *quota > 0.0 && *period > 0.0);
    cpus.map(|(quota, period)| quota / period).reduce(f64::min)
}

pub(super) fn count(system: &System, findings: &mut Findings) {
    let (Some(ranks), Some(cpus)) = (system.ranks, system.cpu_count()) else { return };
    if ranks > cpus {
        findings.add(
            Severity::Warning,
            format!("{ranks} ranks are to run on {cpus} CPUs (taskset, cpuset)"),
            format!("start {cpus} ranks at most, or widen the CPU set"),
            "ranks need not share a CPU; a rank that waits then sleeps instead of looking",
        );
    }
}

pub(super) fn clock_source(system: &System, findings: &mut Findings) {
    const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
    let Some(current) = system.text(format!("{FOLDER}/current_clocksource")) else { return };
    // These are read by a system call and from a device: about a microsecond; the others in 20 ns.
    if !["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"].contains(&current.as_str()) {
        return;
    }
    let available = system.text(format!("{FOLDER}/available_clocksource")).unwrap_or_default();
    let better = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"]
        .into_iter()
        .find(|name| available.split_whitespace().any(|given| given == *name));
    let remedy = match better {
        Some(name) => format!("echo {name} > {FOLDER}/current_clocksource"),
        None => "the kernel's log says why the TSC is unstable; tsc=reliable on its command line".into(),
    };
    findings.add(
        Severity::Warning,
        format!("the kernel reads time from {current}"),
        remedy,
        "MPI_Wtime and waiting cost tens of nanoseconds and not a system call",
    );
}

pub(super) fn governor(system: &System, findings: &mut Findings) {
    const FOLDER: &str = "/sys/devices/system/cpu";
    let is_cpu =
        |name: &&String| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok());
    let names = system.names(FOLDER);
    let mut slow_count = 0;
    let mut cpu_count = 0;
    for cpu in names.iter().filter(is_cpu) {
        let read = |file: &str| system.text(format!("{FOLDER}/{cpu}/cpufreq/{file}"));
        let (Some(governor), driver) = (read("scaling_governor"), read("scaling_driver").unwrap_or_default())
        else {
            continue;
        };
        cpu_count += 1;
        // These two call `powersave` what follows the load.
        let follows_load = ["intel_pstate", "amd-pstate-epp"].contains(&driver.as_str());
        slow_count += u32::from(governor == "powersave" && !follows_load);
    }
    if slow_count > 0 {
        findings.add(
            Severity::Warning,
            format!("{slow_count} of {cpu_count} CPUs stay at their lowest clock rate (governor powersave)"),
            "cpupower frequency-set -g performance",
            "everything: computing, and the software's share of each message",
        );
    }
}
