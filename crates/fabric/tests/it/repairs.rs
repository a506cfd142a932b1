//! How busy repairs are, over what no routes of the network that is left go below.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ayatori_fabric::description::Machine;
use ayatori_fabric::host::interfaces;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{InUse, REPAIR_OVER_LEAST_MAX, Reach, plan, repaired_from, single_failures};
use ayatori_fabric::watch::ordered_repair;

use super::balance::random_graph;

/// Over the bound: each single failure's repair by switches alone, and with more VLANs where that is needed.
#[derive(Default)]
struct Ratios {
    by_switches: Vec<f64>,
    by_all: Vec<f64>,
    without_order: usize,
    /// Repairs that change the script of a host.
    with_hosts: usize,
}

impl Ratios {
    fn add(&mut self, machine: &Machine) {
        let Ok(whole) = plan(machine) else { return };
        let Ok(in_use) = InUse::of(&whole) else { return };
        for failure in single_failures(machine) {
            let repair = ordered_repair(machine, &whole, &in_use, &[failure]).unwrap();
            let mut plan = repair.plan;
            assert!(plan.verdicts.deadlock.is_free() || !machine.options.pause, "{}", machine.name);
            self.without_order += usize::from(repair.order.is_none());
            let script = |of: &Plan, host: usize| interfaces(of, &of.hosts[host]).text;
            let changes = (0..whole.hosts.len()).any(|host| script(&plan, host) != script(&whole, host));
            self.with_hosts += usize::from(changes);
            let by_switches = plan.figures.load_over_least();
            self.by_switches.push(by_switches);
            if by_switches > REPAIR_OVER_LEAST_MAX {
                plan = repaired_from(machine, &in_use, &[failure], Reach::Vlans).unwrap();
                assert!(plan.verdicts.deadlock.is_free() || !machine.options.pause, "{}", machine.name);
                assert!(plan.figures.load_over_least() <= by_switches, "{} {failure:?}", machine.name);
            }
            self.by_all.push(plan.figures.load_over_least());
        }
    }

    fn extend(&mut self, other: Ratios) {
        self.by_switches.extend(other.by_switches);
        self.by_all.extend(other.by_all);
        self.without_order += other.without_order;
        self.with_hosts += other.with_hosts;
    }

    fn print(&mut self, name: &str) {
        let (count, without_order, with_hosts) = (self.by_all.len(), self.without_order, self.with_hosts);
        println!("{name}: {count} repairs, {without_order} without a safe order, {with_hosts} change hosts");
        let both = [("switches only", &mut self.by_switches), ("more VLANs, too", &mut self.by_all)];
        for (what, ratios) in both {
            ratios.sort_by(f64::total_cmp);
            let Some(&worst) = ratios.last() else { continue };
            let over = ratios.iter().filter(|&&ratio| ratio > REPAIR_OVER_LEAST_MAX).count();
            let median = ratios[ratios.len() / 2];
            println!("  {what:16} median {median:.3}, worst {worst:.3}; {over} over 1.5");
        }
    }
}

#[test]
#[ignore = "minutes: cargo test --release -p ayatori-fabric --test it -- --ignored repairs --nocapture"]
fn repairs_of_machines_and_a_hundred_random_graphs() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let machine = Machine::load(&file).unwrap();
        let mut ratios = Ratios::default();
        ratios.add(&machine);
        ratios.print(&machine.name);
    }
    let next = AtomicU64::new(0);
    let all = Mutex::new(Ratios::default());
    let worker = || {
        let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        for seed in seeds.take_while(|&seed| seed < 100) {
            let mut ratios = Ratios::default();
            ratios.add(&Machine::parse("m.toml", &random_graph(seed, "")).unwrap());
            all.lock().unwrap().extend(ratios);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(worker))));
    let mut all = all.into_inner().unwrap();
    all.print("100 random graphs");
    for most in [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0, 3.0] {
        let within = all.by_all.iter().filter(|&&ratio| ratio <= most + 1e-9).count();
        println!("  at most {most:4}: {:5.1} %", 100.0 * within as f64 / all.by_all.len() as f64);
    }
}
