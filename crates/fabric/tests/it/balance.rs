//! How near to the bound the busiest link of a plan is.
//!
//! `cargo test --release -p ayatori-fabric --test it -- --ignored balance --nocapture` prints it for the
//! machines of
//! docs/plan.md and, as a distribution, for 1,000 random graphs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::plan;
use ayatori_random::Random;

const MODELS: &str = "name = \"b\"\n[switch_models.s]\nports = 256\nrate_gbps = 1\n[host_models.h]\n\
                      nic = [{ name = \"eth0\", rate_gbps = 1 }]\n";

pub(super) fn planned(text: &str) -> Plan {
    let machine = Machine::parse("b.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let plan = plan(&machine).unwrap_or_else(|error| panic!("{error}"));
    assert!(plan.verdicts.are_good(), "{text}: {:?}", plan.verdicts.checks);
    plan
}

fn of_topology(topology: &str, hosts_per_switch: u32, options: &str) -> Plan {
    planned(&format!(
        "{MODELS}[topology]\n{topology}\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\n\
         per_switch = {hosts_per_switch}\n[plan]\n{options}\n"
    ))
}

/// Over the bound; 1 where no link carries anything.
fn ratio(plan: &Plan) -> f64 {
    let least = plan.figures.link_load_least;
    if least > 0.0 { plan.figures.link_load_max as f64 / least } else { 1.0 }
}

#[test]
#[ignore = "two minutes: cargo test --release -p ayatori-fabric --test it -- --ignored balance --nocapture"]
fn balance_of_the_machines_in_the_docs() {
    let cases = [
        ("fat tree, 8 leaves, 4 spines", "kind = \"fat-tree\"\ndown = [8]\nup = [4]", 4, 1.0),
        ("fat tree, k = 4", "kind = \"fat-tree\"\ndown = [2, 4]\nup = [2, 2]", 2, 1.0),
        ("HyperX 4x4", "kind = \"hyperx\"\nextents = [4, 4]", 4, 1.3),
        ("mesh 4x4", "kind = \"mesh\"\nextents = [4, 4]", 2, 1.3),
        ("hypercube 4", "kind = \"hypercube\"\ndimensions = 4", 2, 1.3),
        ("torus 4x4", "kind = \"torus\"\nextents = [4, 4]", 2, 1.3),
        ("torus 8x8", "kind = \"torus\"\nextents = [8, 8]", 2, 1.3),
        // No routes that are free of deadlock have less: `a_ring_of_five_cannot_be_balanced_better`.
        ("ring of 5", "kind = \"ring\"\nswitches = 5", 2, 4.0 / 3.0),
        ("dragonfly 4, 2, 9", "kind = \"dragonfly\"\ngroup_size = 4\nglobal_ports = 2\ngroups = 9", 2, 1.3),
    ];
    let mut over = Vec::new();
    for (name, topology, hosts_per_switch, most) in cases {
        for options in ["search = \"full\"", ""] {
            let plan = of_topology(topology, hosts_per_switch, options);
            let (busiest, least) = (plan.figures.link_load_max, plan.figures.link_load_least);
            let (ratio, vlans) = (ratio(&plan), plan.vlans.len());
            println!("{name:28} {options:18} {ratio:.3} ({busiest} of {least:.1}), {vlans} VLANs");
            if !options.is_empty() && ratio > most + 1e-9 {
                over.push((name, ratio));
            }
        }
    }
    assert!(over.is_empty(), "{over:?}");
}

/// The least that moves is a pair of switches: on a leaf's uplinks (four for seven pairs) the best is 8/7.
const TAGGED: &[(&str, &str, u32, f64)] = &[
    ("fat tree, 8 leaves, 4 spines", "kind = \"fat-tree\"\ndown = [8]\nup = [4]", 4, 8.0 / 7.0),
    ("fat tree, k = 4", "kind = \"fat-tree\"\ndown = [2, 4]\nup = [2, 2]", 2, 8.0 / 7.0),
    ("HyperX 4x4", "kind = \"hyperx\"\nextents = [4, 4]", 4, 1.3),
    ("mesh 4x4", "kind = \"mesh\"\nextents = [4, 4]", 2, 1.3),
    ("mesh 8x8", "kind = \"mesh\"\nextents = [8, 8]", 2, 1.3),
    ("hypercube 4", "kind = \"hypercube\"\ndimensions = 4", 2, 1.3),
    ("torus 4x4", "kind = \"torus\"\nextents = [4, 4]", 2, 1.3),
    // 1.3 is the goal; no routes that are this balanced and free of deadlock were found.
    ("torus 8x8", "kind = \"torus\"\nextents = [8, 8]", 2, 1.4),
    ("ring of 5", "kind = \"ring\"\nswitches = 5", 2, 4.0 / 3.0),
    ("dragonfly 4, 2, 9", "kind = \"dragonfly\"\ngroup_size = 4\nglobal_ports = 2\ngroups = 9", 2, 1.3),
];

/// A random connected graph of 4 to 32 switches with two hosts each: a random tree and up to twice as many
/// more
/// links.
pub(super) fn random_graph(seed: u64, options: &str) -> String {
    let mut random = Random::new(seed);
    let count = 4 + random.below(29);
    let mut text = format!("{MODELS}[topology]\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\n");
    for switch in 0..count {
        text += &format!("[[switch]]\nname = \"s{switch}\"\nhosts = 2\n");
    }
    let mut ports = vec![4; count as usize];
    let mut cable = |a: u64, b: u64| {
        let [from, to] = [a, b].map(|switch| {
            ports[switch as usize] += 1;
            format!("s{switch}:{}", ports[switch as usize] - 1)
        });
        text += &format!("[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
    };
    (1..count).for_each(|switch| cable(switch, random.below(switch)));
    for _ in 0..random.below(2 * count) {
        let (a, b) = (random.below(count), random.below(count));
        if a != b {
            cable(a, b);
        }
    }
    text + &format!("[plan]\n{options}\n")
}

/// Prints how many of the graphs are how far from the bound.
fn distribution(count: u64, options: &str) -> Vec<f64> {
    let next = AtomicU64::new(0);
    let all = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return;
            }
            let ratio = ratio(&planned(&random_graph(seed, options)));
            all.lock().unwrap().push(ratio);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(worker))));
    let mut all = all.into_inner().unwrap();
    all.sort_by(f64::total_cmp);
    println!("{count} random graphs, busiest link over the bound {options}:");
    for most in [1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0] {
        let within = all.iter().filter(|&&ratio| ratio <= most + 1e-9).count();
        println!("  at most {most:4}: {:5.1} %", 100.0 * within as f64 / count as f64);
    }
    println!("  median {:.3}, worst {:.3}", all[all.len() / 2], all[all.len() - 1]);
    all
}

#[test]
#[ignore = "minutes: cargo test --release -p ayatori-fabric --test it -- --ignored balance --nocapture"]
fn balance_of_a_thousand_random_graphs() {
    distribution(1000, "");
    distribution(1000, "search = \"full\"");
}

#[test]
#[ignore = "a minute: cargo test --release -p ayatori-fabric --test it -- --ignored balance --nocapture"]
fn balance_where_hosts_tag() {
    let mut over = Vec::new();
    for options in ["", "search = \"full\""] {
        for (name, topology, hosts_per_switch, most) in TAGGED {
            let plan = of_topology(topology, *hosts_per_switch, &format!("tagging = \"host\"\n{options}"));
            let (busiest, least) = (plan.figures.link_load_max, plan.figures.link_load_least);
            let (ratio, vlans) = (ratio(&plan), plan.vlans.len());
            let broadcasts = plan.verdicts.checks.iter().find(|check| check.name == "broadcasts").unwrap();
            let (name, detail) = (format!("{name}, {options}"), &broadcasts.detail);
            println!("{name:38} {ratio:.3} ({busiest} of {least:.1}), {vlans} VLANs, {detail:.40}");
            if !options.is_empty() && ratio > most + 1e-9 {
                over.push((name, ratio));
            }
        }
    }
    assert!(over.is_empty(), "{over:?}");
}
