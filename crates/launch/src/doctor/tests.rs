//! A machine as it should be, and what is planted in it.

use std::fs;
use std::path::Path;

use super::*;

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     \n\
Max stack size            8388608              unlimited            bytes     \n\
Max processes             127000               127000               processes \n\
Max open files            1024                 524288               files     \n\
Max locked memory         8388608              8388608              bytes     \n";

/// Files of a machine with 16 CPUs and two interfaces: as a distribution leaves them, where that is good.
const HEALTHY: &[(&str, &str)] = &[
    ("proc/self/limits", LIMITS),
    ("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7,16-23\n"),
    ("proc/self/cgroup", "0::/user.slice/session-1.scope\n"),
    ("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=16000000k 0 0\n"),
    ("proc/sys/kernel/pid_max", "4194304\n"),
    ("proc/sys/kernel/threads-max", "250000\n"),
    ("proc/sys/kernel/yama/ptrace_scope", "0\n"),
    ("proc/sys/vm/memfd_noexec", "0\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
    ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
    ("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n"),
    ("proc/sys/net/ipv4/tcp_slow_start_after_idle", "0\n"),
    ("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/user.slice/session-1.scope/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/user.slice/session-1.scope/pids.max", "max\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_driver", "acpi-cpufreq\n"),
    ("sys/class/net/lo/flags", "0x9\n"),
    ("sys/class/net/docker0/flags", "0x1003\n"),
    ("sys/class/net/docker0/carrier", "0\n"),
    ("sys/class/net/eth0/device/vendor", "0x8086\n"),
    ("sys/class/net/eth0/flags", "0x1003\n"),
    ("sys/class/net/eth0/carrier", "1\n"),
    ("sys/class/net/eth0/speed", "25000\n"),
    ("sys/class/net/eth0/duplex", "full\n"),
    ("sys/class/net/eth0/mtu", "9000\n"),
    // An unused interface.
    ("sys/class/net/eth1/device/vendor", "0x8086\n"),
    ("sys/class/net/eth1/flags", "0x1002\n"),
    ("sys/class/net/eth1/mtu", "1500\n"),
    ("opt/ayatori/bin/ayatori", "ours"),
    ("opt/ayatori/bin/mpiexec", "ours"),
    ("opt/ayatori/lib/libmpi_abi.so.1", "ours"),
];

struct Planted {
    folder: tempfile::TempDir,
    system: System,
}

impl Planted {
    fn healthy() -> Planted {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = "/opt/ayatori/bin:/usr/bin".to_owned();
        let system = System {
            root: folder.path().into(),
            environment: [("PATH".to_owned(), path)].into(),
            ranks: Some(16),
            prefix: Some("/opt/ayatori".into()),
        };
        let planted = Planted { folder, system };
        for (name, text) in HEALTHY {
            planted.write(name, text);
        }
        let mpiexec = planted.folder.path().join("opt/ayatori/bin/mpiexec");
        fs::remove_file(&mpiexec).expect("it was written");
        std::os::unix::fs::symlink("ayatori", mpiexec).expect("a link");
        planted
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

/// Findings after a change to the healthy machine: the checks' names and the first problem.
fn after(change: impl FnOnce(&mut Planted)) -> (Vec<&'static str>, Option<Finding>) {
    let mut planted = Planted::healthy();
    change(&mut planted);
    let found = examine(&planted.system);
    (found.iter().map(|finding| finding.check).collect(), found.into_iter().next())
}

#[test]
fn nothing_is_found_on_a_healthy_machine() {
    assert_eq!(examine(&Planted::healthy().system), []);
}

#[test]
fn nothing_is_found_where_nothing_can_be_read() {
    let mut planted = Planted::healthy();
    planted.system.root = planted.folder.path().join("nothing");
    planted.system.environment.clear();
    let found = examine(&planted.system);
    assert!(found.iter().all(|finding| finding.check == "dev-shm"), "{found:?}");
}

#[test]
fn each_planted_file_is_found_by_its_check_alone() {
    let session = "sys/fs/cgroup/user.slice/session-1.scope";
    let cases: &[(&str, &str, &str, &str)] = &[
        ("open-files", "proc/self/limits", "Max open files 256 100 files", "16 ranks need 112"),
        ("processes", "proc/self/limits", "Max processes 40 40 processes", "ulimit -u"),
        ("processes", &format!("{session}/pids.max"), "20", "the cgroup's pids.max"),
        ("stack", "proc/self/limits", "Max stack size 65536 65536 bytes", "64 KiB"),
        ("locked-memory", "sys/class/infiniband/mlx5_0/node_type", "1: CA", "mlx5_0"),
        ("one-copy", "proc/sys/kernel/yama/ptrace_scope", "1", "ptrace_scope=1"),
        ("memory-files", "proc/sys/vm/memfd_noexec", "2", "memfd_noexec=2"),
        ("dev-shm", "proc/self/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0", "65536 KiB"),
        ("huge-pages", "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]", "off"),
        ("cpu-quota", "sys/fs/cgroup/user.slice/cpu.max", "250000 100000", "2.5 CPUs"),
        ("cpu-count", "proc/self/status", "CapEff: 0\nCpus_allowed_list: 0-3,8\n", "on 5 CPUs"),
        ("clock-source", "sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet", "hpet"),
        ("cpu-governor", "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave", "1 of 2 CPUs"),
        ("interface-carrier", "sys/class/net/eth0/carrier", "0", "eth0 is up and has no carrier"),
        ("interface-speed", "sys/class/net/eth0/speed", "100", "100 Mbit/s"),
        ("interface-speed", "sys/class/net/eth0/duplex", "half", "half duplex"),
        ("interface-mtu", "sys/class/net/eth0/mtu", "1500", "frames of 1500 B"),
        ("tcp-buffers", "proc/sys/net/ipv4/tcp_wmem", "4096 16384 212992", "tcp_wmem ends at 212992"),
        ("tcp-congestion", "proc/sys/net/ipv4/tcp_congestion_control", "lp", "is lp"),
        ("tcp-idle", "proc/sys/net/ipv4/tcp_slow_start_after_idle", "1", "after every pause"),
    ];
    for (check, file, text, expected) in cases {
        let (checks, first) = after(|planted| planted.write(file, text));
        assert_eq!(checks, [*check], "{file} = {text}");
        let problem = first.expect("a finding").problem;
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn an_unequal_frame_size_among_equal_rails_is_found() {
    let (checks, first) = after(|planted| {
        for (file, text) in [("flags", "0x1003"), ("carrier", "1"), ("speed", "25000"), ("mtu", "1500")] {
            planted.write(&format!("sys/class/net/eth1/{file}"), text);
        }
    });
    assert_eq!(checks, ["interface-mtu"]);
    assert!(first.is_some_and(|finding| finding.problem.contains("eth1 sends frames of 1500 B")));
}

#[test]
fn the_quota_of_the_first_control_groups_is_read_too() {
    let (checks, first) = after(|planted| {
        planted.write("proc/self/cgroup", "5:cpu,cpuacct:/docker/a\n0::/\n");
        planted.write("sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us", "150000");
        planted.write("sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us", "100000");
    });
    assert_eq!(checks, ["cpu-quota"]);
    assert!(first.is_some_and(|finding| finding.problem.contains("1.5 CPUs")));
}

#[test]
fn another_launcher_and_library_in_front_are_found() {
    let set = |name: &'static str, value: &'static str| {
        move |planted: &mut Planted| {
            planted.write("usr/bin/mpiexec", "another");
            planted.write("opt/other/lib/libmpi_abi.so.1", "another");
            planted.system.environment.insert(name.into(), value.into());
        }
    };
    let (checks, first) = after(set("PATH", "/usr/bin:/opt/ayatori/bin"));
    assert_eq!(checks, ["launcher"]);
    assert!(first.is_some_and(|finding| finding.problem.contains("/usr/bin/mpiexec")));
    let script = |planted: &mut Planted| {
        let mpiexec = planted.folder.path().join("opt/ayatori/bin/mpiexec");
        fs::remove_file(&mpiexec).expect("a link");
        fs::write(mpiexec, "#!/bin/sh").expect("a script, as a wheel has");
    };
    assert_eq!(after(script).0, [""; 0]);
    assert_eq!(after(set("LD_LIBRARY_PATH", "/opt/other/lib")).0, ["library"]);
    assert_eq!(after(set("LD_LIBRARY_PATH", "/opt/ayatori/lib:/opt/other/lib")).0, [""; 0]);
    assert_eq!(after(set("LD_PRELOAD", "/usr/lib/libmpich.so.12 libmpi.so.40")).0, ["library", "library"]);
    assert_eq!(after(set("AYATORI_PROGRESS", "fast")).0, ["settings"]);
    assert_eq!(after(set("AYATORI_PROGRESS", "")).0, [""; 0]);
    for (name, value) in [
        ("AYATORI_CHECK", "no"),
        ("AYATORI_NODE_COLLECTIVES", "off"),
        ("AYATORI_SHM_CMA", "false"),
        ("AYATORI_SURVIVE", "yes"),
        ("AYATORI_TCP_SUMS", "no"),
        ("AYATORI_GAP", "much"),
        ("AYATORI_GAP_FREE_HOPS", "-1"),
        ("AYATORI_PORTS", "http"),
        ("AYATORI_COLL_ALLREDUCE", "magic"),
    ] {
        assert_eq!(after(set(name, value)).0, ["settings"], "{name}={value}");
        assert_eq!(after(set(name, "")).0, [""; 0], "{name} is empty");
    }
    assert_eq!(after(set("AYATORI_COLL_ALLREDUCE", "ring")).0, [""; 0]);
    assert_eq!(after(set("AYATORI_PORTS", "40000-40100")).0, [""; 0]);
    assert_eq!(after(set("AYATORI_SHM_CMA", "0")).0, ["one-copy"]);
    assert_eq!(after(set("AYATORI_TCP_CONGESTION", "bbr")).0, ["tcp-congestion"]);
    assert_eq!(after(set("AYATORI_RAILS", "eth1")).0, ["interface-carrier"]);
}

#[test]
fn a_capability_allows_what_the_scope_forbids() {
    let capable = |scope: &'static str| {
        after(move |planted| {
            planted.write("proc/sys/kernel/yama/ptrace_scope", scope);
            let status = "CapEff:\t0000000000080000\nCpus_allowed_list:\t0-15\n";
            planted.write("proc/self/status", status);
        })
        .0
    };
    assert_eq!((capable("1"), capable("2"), capable("3")), (vec![], vec![], vec!["one-copy"]));
}
