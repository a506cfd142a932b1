//! Large machines: 1,024 switches with 16,384 hosts in at most 10 s and 2 GiB.

use std::time::Instant;

use ayatori_fabric::description::Machine;
use ayatori_fabric::vlan::plan;

fn machine(topology: &str, options: &str, host_count: u32) -> Machine {
    let text = format!(
        "name = \"large\"\n[switch_models.s]\nports = 128\nrate_gbps = 10\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = 10 }}]\n[topology]\nswitch_model = \"s\"\n{topology}\n\
         [hosts]\nmodel = \"h\"\ncount = {host_count}\n[plan]\nvlan_subnet = \"64.0.0.0/2\"\n{options}\n"
    );
    Machine::parse("large.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Most memory this process has had, MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

const TOPOLOGIES: &[(&str, &str)] = &[
    ("torus 32x32", "kind = \"torus\"\nextents = [32, 32]"),
    ("mesh 32x32", "kind = \"mesh\"\nextents = [32, 32]"),
    ("hypercube 10", "kind = \"hypercube\"\ndimensions = 10"),
    ("fat tree", "kind = \"fat-tree\"\ndown = [24, 32]\nup = [8, 8]"),
    ("dragonfly", "kind = \"dragonfly\"\ngroup_size = 16\nglobal_ports = 8\ngroups = 64"),
];

const OPTIONS: &[&str] = &[
    "",
    "vlans = \"fewest\"",
    "routing = \"minimal\"",
    "routing = \"minimal\"\nvlans = \"fewest\"",
    "tagging = \"host\"",
];

#[test]
#[ignore = "a minute: cargo test --release -p ayatori-fabric -- --ignored thousand_switches --nocapture"]
fn thousand_switches_are_planned_in_ten_seconds_and_two_gib() {
    let mut slow = Vec::new();
    for (name, topology) in TOPOLOGIES {
        for options in OPTIONS {
            let start = Instant::now();
            let machine = machine(topology, options, 16_384);
            let read_s = start.elapsed().as_secs_f64();
            let plan = plan(&machine).unwrap_or_else(|error| panic!("{error}"));
            let time_s = start.elapsed().as_secs_f64();
            println!(
                "{name:14} {:45} {:4} switches {time_s:6.2} s (reading {read_s:.2}), {:4} VLANs, stretch {:.3}, \
                 free {}, {} MiB",
                options.replace('\n', ", "),
                plan.switches.len(),
                plan.vlans.len(),
                plan.figures.stretch,
                plan.verdicts.deadlock.is_free(),
                peak_mib()
            );
            if time_s > 10.0 {
                slow.push((name, options, time_s));
            }
        }
    }
    assert!(slow.is_empty(), "over ten seconds: {slow:?}");
    assert!(peak_mib() <= 2048, "{} MiB", peak_mib());
}

#[test]
fn a_hundred_switches_are_planned_in_the_ordinary_tests() {
    let plan = plan(&machine("kind = \"torus\"\nextents = [10, 10]", "vlans = \"per-source\"", 400)).unwrap();
    assert!(plan.verdicts.are_good(), "{:?}", plan.verdicts.checks);
}
