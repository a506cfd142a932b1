//! A plan continued after a random change of the machine: how much of the written files differs.

use std::collections::{BTreeMap, BTreeSet};

use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{InUse, plan, plan_from};
use ayatori_fabric::{dialect, host};

/// A machine as lists that can be changed.
#[derive(Debug, Clone)]
struct Lists {
    switches: Vec<String>,
    hosts: Vec<(String, String)>,
    cables: Vec<[String; 2]>,
}

impl Lists {
    /// A torus of 3 by 3 switches with two hosts each.
    fn torus() -> Lists {
        let name = |x: usize, y: usize| format!("s{}{}", x % 3, y % 3);
        let mut lists = Lists { switches: Vec::new(), hosts: Vec::new(), cables: Vec::new() };
        for (x, y) in (0..3).flat_map(|x| (0..3).map(move |y| (x, y))) {
            lists.switches.push(name(x, y));
            lists.cables.push([name(x, y), name(x + 1, y)]);
            lists.cables.push([name(x, y), name(x, y + 1)]);
            for index in 0..2 {
                lists.hosts.push((format!("h{x}{y}{index}"), name(x, y)));
            }
        }
        lists
    }

    /// Ports stay where they are: hosts from the left, a cable in the port that its place in `ports` gives.
    fn text(&self, ports: &mut BTreeMap<(String, String), usize>) -> String {
        let mut text = String::from(
            "name = \"m\"\n[switch_models.s]\nports = 32\nrate_gbps = 1\ndialect = \"linux-bridge\"\n\
             [host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n",
        );
        let mut port = |switch: &str, plug: String| -> usize {
            let next = ports.iter().filter(|((at, _), _)| at == switch).map(|(_, port)| port + 1).max();
            *ports.entry((switch.to_owned(), plug)).or_insert(next.unwrap_or(1))
        };
        for switch in &self.switches {
            text += &format!("[[switch]]\nname = \"{switch}\"\nmodel = \"s\"\n");
        }
        for (name, switch) in &self.hosts {
            let number = port(switch, name.clone());
            text += &format!("[[host]]\nname = \"{name}\"\nmodel = \"h\"\n");
            text += &format!("[[cable]]\nfrom = \"{name}\"\nto = \"{switch}:{number}\"\n");
        }
        for [a, b] in &self.cables {
            let ends = [port(a, format!("to {b}")), port(b, format!("to {a}"))];
            text += &format!("[[cable]]\nfrom = \"{a}:{}\"\nto = \"{b}:{}\"\n", ends[0], ends[1]);
        }
        text
    }

    /// One change; the names of the devices that it touches.
    fn change(&mut self, random: &mut impl FnMut(usize) -> usize) -> Vec<String> {
        match random(5) {
            0 => {
                let at = random(self.cables.len());
                self.cables.remove(at).into()
            }
            1 => {
                let new = loop {
                    let [a, b] = [0, 1].map(|_| self.switches[random(self.switches.len())].clone());
                    let is_there = self.cables.iter().any(|cable| cable.contains(&a) && cable.contains(&b));
                    if a != b && !is_there {
                        break [a, b];
                    }
                };
                self.cables.insert(random(self.cables.len()), new.clone());
                new.into()
            }
            2 => {
                let (name, switch) = self.hosts.remove(random(self.hosts.len()));
                vec![name, switch]
            }
            3 => {
                let switch = self.switches[random(self.switches.len())].clone();
                self.hosts.insert(random(self.hosts.len()), ("new".into(), switch.clone()));
                vec!["new".into(), switch]
            }
            _ => {
                let a = random(self.switches.len());
                let b = (a + 1 + random(self.switches.len() - 1)) % self.switches.len();
                let neighbours = [a, b].map(|at| self.switches[at].clone());
                self.switches.insert(random(self.switches.len()), "fresh".into());
                self.hosts.insert(random(self.hosts.len()), ("newcomer".into(), "fresh".into()));
                let cables = neighbours.clone().map(|neighbour| ["fresh".to_owned(), neighbour]);
                self.cables.extend(cables);
                [&["fresh".to_owned(), "newcomer".into()][..], &neighbours].concat()
            }
        }
    }
}

/// Device to lines of its files.
fn files(plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let mut files = BTreeMap::new();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
    for switch in &plan.switches {
        let config = dialect::by_name(&switch.dialect).unwrap().emit(plan, switch.id).unwrap();
        let all = config.files.iter().flat_map(|file| lines(&file.text)).collect();
        files.insert(switch.name.clone(), all);
    }
    for own in &plan.hosts {
        files.insert(own.name.clone(), lines(&host::interfaces(plan, own).text));
    }
    files
}

/// Lines that one has and the other has not.
fn differing(a: &[String], b: &[String]) -> usize {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    a.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    b.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    counts.values().map(|count| count.unsigned_abs() as usize).sum()
}

#[test]
fn a_continued_plan_changes_little_on_a_hundred_random_changes() {
    let mut state = 20_261_122_u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % bound as u64) as usize
    };
    let mut ports = BTreeMap::new();
    let before = Lists::torus();
    let old = plan(&Machine::parse("m.toml", &before.text(&mut ports)).unwrap()).unwrap();
    let in_use = InUse::parse(&serde_json::to_string(&old).unwrap()).unwrap();
    let old_files = files(&old);
    let (mut changed_lines, mut kept_count) = (Vec::new(), 0);
    for round in 0..100 {
        let mut lists = before.clone();
        let touched: BTreeSet<String> = lists.change(&mut random).into_iter().collect();
        let machine = Machine::parse("m.toml", &lists.text(&mut ports.clone())).unwrap();
        let new = plan_from(&machine, &in_use).unwrap();
        assert_eq!(new.check_invariants(), Vec::<String>::new(), "{touched:?}");
        let failed: Vec<_> = new.verdicts.checks.iter().filter(|check| check.name != "broadcasts").collect();
        assert!(new.verdicts.are_good(), "round {round}, {touched:?}: {failed:?}");
        let new_files = files(&new);
        let names: BTreeSet<&String> = old_files.keys().chain(new_files.keys()).collect();
        let none = Vec::new();
        let text = |files: &BTreeMap<String, Vec<String>>, name: &String| {
            files.get(name).cloned().unwrap_or(none.clone())
        };
        let count: usize =
            names.iter().map(|name| differing(&text(&old_files, name), &text(&new_files, name))).sum();
        let lines_touched: usize =
            touched.iter().map(|name| text(&old_files, name).len().max(text(&new_files, name).len())).sum();
        if new.is_repaired {
            kept_count += 1;
            assert!(count <= 3 * lines_touched, "round {round}, {touched:?}: {count} of {lines_touched}");
            // No other host's address or VLAN identifiers change.
            for own in new.attachments() {
                let before = old.attachments().find(|before| before.address == own.address);
                assert!(before.is_none_or(|before| before.address_number == own.address_number));
            }
            let vids = |plan: &Plan| plan.vlans.iter().map(|vlan| vlan.vid).collect::<Vec<_>>();
            assert_eq!(vids(&new), vids(&old));
        }
        changed_lines.push(count);
    }
    changed_lines.sort_unstable();
    println!(
        "{kept_count} of 100 continued; lines changed: median {}, most {}",
        changed_lines[50], changed_lines[99]
    );
    assert!(kept_count >= 80, "{kept_count} of 100 were continued, the others planned anew");
}
