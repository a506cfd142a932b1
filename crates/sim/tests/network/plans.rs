//! What `plan` says and what the simulator does of it: routes alike, and the verdict on deadlock.

use std::fmt::Write as _;

use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{HostId, SwitchId};
use ayatori_fabric::plan::{Attachment, CycleStep, Plan};
use ayatori_fabric::vlan::plan;
use ayatori_random::Random;
use ayatori_sim::machine::{Simulated, simulate};
use ayatori_sim::network::{Deadlock, Network, NicId, NoProbe};

use crate::worlds::message;

/// Most of a message's frames (1,500 B) in the traffic of verdicts: several times what a port's memory holds.
const LONG_BYTES: u64 = 60 * 1_500;

fn parsed(text: &str) -> Machine {
    Machine::parse("plans.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Switches of a topology with hosts at each, and little memory, so that it fills up soon.
fn machine(topology: &str, hosts: &str, options: &str) -> Machine {
    parsed(&format!(
        "name = \"plans\"\n[switch_models.s]\nports = 48\nrate_gbps = 1\nbuffer_bytes = 480000\n\
         [host_models.h]\nnic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n{topology}\n\
         switch_model = \"s\"\n[hosts]\nmodel = \"h\"\n{hosts}\n[plan]\n{options}\n"
    ))
}

/// A connected graph with as many more links as there happen to be.
fn random_machine(random: &mut Random) -> Machine {
    let mut text = String::from(
        "name = \"random\"\n[switch_models.s]\nports = 64\nrate_gbps = 1\nbuffer_bytes = 640000\n\
         [host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n",
    );
    let switch_count = 3 + random.below(6);
    let mut ports = vec![1; switch_count as usize];
    for switch in 0..switch_count {
        let _ = writeln!(text, "[[switch]]\nname = \"s{switch}\"\nmodel = \"s\"");
    }
    let mut cable = |text: &mut String, [a, b]: [u64; 2]| {
        let ends = [a, b].map(|switch| {
            ports[switch as usize] += 1;
            format!("s{switch}:{}", ports[switch as usize] - 1)
        });
        let _ = writeln!(text, "[[cable]]\nfrom = \"{}\"\nto = \"{}\"", ends[0], ends[1]);
    };
    for switch in 1..switch_count {
        cable(&mut text, [switch, random.below(switch)]);
    }
    for _ in 0..1 + random.below(switch_count + 2) {
        let ends = [0, 1].map(|_| random.below(switch_count));
        if ends[0] != ends[1] {
            cable(&mut text, ends);
        }
    }
    let routing = ["auto", "minimal", "minimal", "up-down"][random.below(4) as usize];
    let tagging = ["switch", "switch", "host"][random.below(3) as usize];
    let _ = writeln!(
        text,
        "[hosts]\nmodel = \"h\"\nper_switch = {}\n[plan]\nrouting = \"{routing}\"\ntagging = \"{tagging}\"",
        2 + random.below(3)
    );
    parsed(&text)
}

fn network(machine: &Machine) -> Network {
    let Simulated { network, .. } = simulate(machine, NoProbe).unwrap_or_else(|error| panic!("{error}"));
    network
}

fn run(network: &mut Network) -> Result<(), Deadlock> {
    while network.advance()?.is_some() {}
    Ok(())
}

/// The NIC of a host's attachment.
fn nic(network: &Network, host: HostId, own: &Attachment) -> NicId {
    network.nic(host, u16::from(own.rail)).expect("every attachment is a NIC")
}

fn nics(network: &Network, plan: &Plan) -> Vec<NicId> {
    let hosts = plan.hosts.iter();
    hosts.flat_map(|host| host.attachments.iter().map(|own| nic(network, host.id, own))).collect()
}

/// Every route of the network is the plan's.
fn assert_same_routes(network: &Network, plan: &Plan) {
    let nics = nics(network, plan);
    let ends: Vec<&Attachment> = plan.attachments().collect();
    // All pairs of small machines; of large ones every so manieth.
    let step = (ends.len() * ends.len() / 2_000).max(1);
    for pair in (0..ends.len() * ends.len()).step_by(step) {
        let [from, to] = [pair / ends.len(), pair % ends.len()];
        let planned = plan.route(ends[from], ends[to]).expect("a route");
        let way = network.path(nics[from], nics[to]).unwrap_or_else(|error| panic!("{error}"));
        let links: Vec<_> = way.iter().map(|lane| lane.channel.link()).collect();
        assert_eq!(links, planned.hops.iter().map(|hop| hop.link).collect::<Vec<_>>(), "{from} to {to}");
    }
}

/// Every host sends long messages to others in random orders.
fn heavy_traffic(network: &mut Network, random: &mut Random) -> Result<(), Deadlock> {
    let nic_count = network.nic_count() as u64;
    for _ in 0..3 {
        for from in 0..nic_count as u32 {
            for _ in 0..4 {
                network.send(message(from, random.below(nic_count) as u32, LONG_BYTES));
            }
        }
    }
    run(network)
}

/// What a cycle names: for each of its steps, hosts that hold its channel and want the next.
fn traffic_of_cycle(network: &mut Network, plan: &Plan, cycle: &[CycleStep]) -> Result<(), Deadlock> {
    let nics = nics(network, plan);
    let at = |switch: SwitchId| {
        let ends = plan.attachments().zip(&nics);
        ends.filter(move |(own, _)| own.switch == switch)
    };
    let mut messages = Vec::new();
    for step in cycle {
        let receivers: Vec<(&Attachment, &NicId)> = at(step.destination).collect();
        for (index, (own, from)) in at(step.source).enumerate() {
            let (peer, to) = receivers[index % receivers.len()];
            if plan.vlan_between(own, peer) == Some(step.vid) {
                messages.push(message(from.0, to.0, 40 * LONG_BYTES));
            }
        }
    }
    messages.into_iter().for_each(|message| network.send(message));
    run(network)
}

/// Answers whether the plan can deadlock.
fn assert_verdicts_agree(machine: &Machine, seed: u64) -> bool {
    let plan = plan(machine).unwrap_or_else(|error| panic!("{error}"));
    let mut network = network(machine);
    assert_same_routes(&network, &plan);
    let cycle = &plan.verdicts.deadlock.cycle;
    if cycle.is_empty() {
        let mut random = Random::new(seed);
        let outcome = heavy_traffic(&mut network, &mut random);
        outcome.unwrap_or_else(|deadlock| panic!("seed {seed}, {}: {deadlock}", plan.method));
        assert_eq!(network.leftovers(), None, "seed {seed}");
        return false;
    }
    let Err(deadlock) = traffic_of_cycle(&mut network, &plan, cycle) else {
        panic!("seed {seed}, {}: should have deadlocked", plan.method);
    };
    assert!(deadlock.cycle.len() >= 3, "seed {seed}: {deadlock}");
    true
}

#[test]
fn verdicts_of_plan_and_simulator_agree_on_topologies() {
    let all = [
        ("kind = \"ring\"\nswitches = 5", "", false),
        ("kind = \"ring\"\nswitches = 5", "routing = \"minimal\"", true),
        ("kind = \"ring\"\nswitches = 8", "routing = \"dimension-order\"", true),
        ("kind = \"torus\"\nextents = [5, 5]", "", false),
        ("kind = \"torus\"\nextents = [5, 5]", "routing = \"no-wrap-transit\"", false),
        ("kind = \"torus\"\nextents = [5, 5]", "routing = \"dimension-order\"", true),
        ("kind = \"mesh\"\nextents = [3, 3]", "tagging = \"host\"", false),
        ("kind = \"fat-tree\"\ndown = [4]\nup = [2]", "", false),
        ("kind = \"hyperx\"\nextents = [3, 3]", "", false),
        ("kind = \"dragonfly\"\ngroup_size = 2\nglobal_ports = 1\ngroups = 3", "", false),
        ("kind = \"complete\"\nswitches = 5", "", false),
        ("kind = \"tree\"\narity = 2\nswitches = 7", "", false),
    ];
    for (seed, (topology, options, can_lock)) in all.into_iter().enumerate() {
        let machine = machine(topology, "per_switch = 2", options);
        assert_eq!(assert_verdicts_agree(&machine, seed as u64), can_lock, "{topology} {options}");
    }
}

#[test]
fn every_ethernet_machine_is_simulated_by_its_plan() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("machines/") {
        let path = entry.expect("an entry").path();
        let machine = Machine::load(&path).unwrap_or_else(|error| panic!("{error}"));
        let is_ethernet = |switch| machine.switch_model(switch).router.is_none();
        if machine.graph.switches().all(is_ethernet) {
            count += 1;
            assert!(!assert_verdicts_agree(&machine, 1), "{}", path.display());
        }
    }
    assert!(count >= 6, "{count}");
}

fn graphs(count: u64) {
    let mut locked = 0;
    for seed in 0..count {
        let machine = random_machine(&mut Random::new(seed));
        locked += u64::from(assert_verdicts_agree(&machine, seed));
    }
    println!("{count} random graphs, of which {locked} can deadlock and did");
    assert!(locked > count / 20 && locked < count, "{locked} of {count} deadlocked");
}

#[test]
fn verdicts_of_plan_and_simulator_agree_on_random_graphs() {
    graphs(200);
}

#[test]
#[ignore = "minutes: cargo test --release -p ayatori-sim -- --ignored on_thousands --nocapture"]
fn verdicts_agree_on_thousands_of_random_graphs() {
    graphs(3_000);
}
