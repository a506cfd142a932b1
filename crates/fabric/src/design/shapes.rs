//! The topologies that are looked at: every kind, in every size that holds the hosts.

use toml::{Table, Value};

use crate::description::{Prices, SwitchModel, hosts_at};
use crate::topology::{Complete, Dragonfly, FatTree, HyperX, Hypercube, Mesh, Ring, Topology, Torus, Tree};

/// Most switches of a design.
pub const SWITCHES_MAX: u32 = 256;
/// Groups of a dragonfly have at most so many switches, each at most so many links to other groups.
const GROUP_SIZE_MAX: u32 = 16;
const GLOBAL_PORTS_MAX: u32 = 8;

/// A topology of one model of switches, without a number of cables.
pub(super) struct Shape<'a> {
    pub(super) model: &'a SwitchModel,
    pub(super) topology: Topology,
    /// `[topology]`, without model and cables.
    table: Table,
    /// `torus 4x2 of NAME`.
    pub(super) name: String,
    pub(super) switch_count: u32,
    /// Most cables that every link can have.
    pub(super) cables_max: u32,
    /// The least that it costs.
    pub(super) price_min: f64,
}

impl Shape<'_> {
    /// Its name with a number of cables.
    pub(super) fn named(&self, cable_count: u32) -> String {
        match (self.switch_count, cable_count) {
            (1, _) => self.name.clone(),
            (_, 1) => format!("{}, 1 cable a link", self.name),
            (_, count) => format!("{}, {count} cables a link", self.name),
        }
    }

    /// The machine file.
    pub(super) fn description(&self, prices: &Prices, host_count: u32, cable_count: u32) -> String {
        let mut topology = self.table.clone();
        topology.insert("switch_model".into(), self.model.name.as_str().into());
        topology.insert("cables".into(), i64::from(cable_count).into());
        let mut hosts = Table::new();
        hosts.insert("model".into(), prices.host_model.name.as_str().into());
        hosts.insert("count".into(), i64::from(host_count).into());
        let mut machine = Table::new();
        machine.insert("name".into(), "design".into());
        machine.insert("about".into(), self.named(cable_count).into());
        let mut models = prices.models.clone();
        if let Some(switches) = models.get_mut("switch_models").and_then(Value::as_table_mut) {
            switches.retain(|name, _| *name == self.model.name);
        }
        machine.extend(models);
        machine.insert("topology".into(), topology.into());
        machine.insert("hosts".into(), hosts.into());
        machine.to_string()
    }
}

/// All shapes that hold the hosts.
pub(super) fn shapes(prices: &Prices, host_count: u32) -> Vec<Shape<'_>> {
    let nics = prices.host_model.nics.len() as u32;
    let mut all = Vec::new();
    for model in &prices.switch_models {
        let list = List { model, prices, host_count, nics };
        let ports = u32::from(model.port_count);
        let fewest = (host_count * nics).div_ceil(ports);
        // Full bisection takes about three times the fewest, and five with three levels.
        let most = (6 * fewest + 8).min(SWITCHES_MAX);
        for switch_count in fewest..=most {
            all.extend(flat(switch_count).into_iter().filter_map(|(t, table)| list.shape(t, table)));
        }
        let trees = fat_trees(ports, most).into_iter().chain(dragonflies(most));
        all.extend(trees.filter_map(|(topology, table)| list.shape(topology, table)));
    }
    all
}

struct List<'a> {
    model: &'a SwitchModel,
    prices: &'a Prices,
    host_count: u32,
    nics: u32,
}

impl<'a> List<'a> {
    /// `None` where the hosts and a cable for each link do not find ports.
    fn shape(&self, topology: Topology, table: Table) -> Option<Shape<'a>> {
        topology.check().ok()?;
        let generator = topology.generator();
        let switch_count = u32::try_from(generator.switch_count()).ok()?;
        let mut host_ports = vec![0_u32; switch_count as usize];
        let carriers: Vec<u32> =
            (0..switch_count).filter(|&switch| generator.carries_hosts(switch)).collect();
        for (place, &switch) in carriers.iter().enumerate() {
            let count = hosts_at(place as u64, carriers.len() as u64, self.host_count.into());
            host_ports[switch as usize] = count as u32 * self.nics;
        }
        let mut link_ports = vec![0_u32; switch_count as usize];
        let mut link_count = 0;
        for cable in generator.cables() {
            link_count += cable.width;
            for (switch, _) in [cable.a, cable.b] {
                link_ports[switch as usize] += cable.width;
            }
        }
        let ports = u32::from(self.model.port_count);
        // One switch has no links.
        let mut cables_max =
            if switch_count == 1 { 1 } else { self.model.lag_ports_max.map_or(256, u32::from) };
        for (links, taken) in link_ports.into_iter().zip(host_ports) {
            let free = ports.checked_sub(taken)?;
            cables_max = cables_max.min(free.checked_div(links).unwrap_or(u32::MAX));
        }
        let cable_count = link_count + self.host_count * self.nics;
        let shortest = self.prices.cables.iter().map(|cable| cable.price).fold(f64::INFINITY, f64::min);
        let price_min =
            f64::from(switch_count) * self.model.price.unwrap_or(0.0) + f64::from(cable_count) * shortest;
        let name = match switch_count {
            1 => format!("one {}", self.model.name),
            _ => format!("{} of {}", words(&topology), self.model.name),
        };
        (cables_max > 0).then_some(Shape {
            model: self.model,
            name,
            topology,
            table,
            switch_count,
            cables_max,
            price_min,
        })
    }
}

/// `torus 4x2`.
fn words(topology: &Topology) -> String {
    let by = |extents: &[u32]| extents.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    match topology {
        Topology::Mesh(Mesh { extents }) => format!("mesh {}", by(extents)),
        Topology::Torus(Torus { extents, .. }) => format!("torus {}", by(extents)),
        Topology::HyperX(HyperX { extents, .. }) => format!("hyperx {}", by(extents)),
        Topology::Hypercube(Hypercube { dimension_count }) => {
            format!("hypercube of {dimension_count} dimensions")
        }
        Topology::FatTree(tree) => {
            let levels: Vec<String> =
                (0..tree.level_count()).map(|level| tree.level_size(level).to_string()).collect();
            format!("fat tree {}", levels.join("+"))
        }
        Topology::Dragonfly(d) => {
            format!("dragonfly {}x{}, {} global ports", d.group_size, d.group_count, d.global_port_count)
        }
        Topology::Tree(tree) => format!("star {}", tree.switch_count),
        other => format!("{} {}", other.generator().kind(), other.generator().switch_count()),
    }
}

fn table(entries: &[(&str, Value)]) -> Table {
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn list(numbers: &[u32]) -> Value {
    numbers.iter().map(|&number| Value::from(number)).collect::<Vec<_>>().into()
}

/// Those in which every switch has hosts, of so many switches.
fn flat(switch_count: u32) -> Vec<(Topology, Table)> {
    let switches = || Value::from(switch_count);
    if switch_count == 1 {
        let entries = [("kind", "tree".into()), ("arity", 1.into()), ("switches", 1.into())];
        return vec![(Topology::Tree(Tree { arity: 1, switch_count: 1 }), table(&entries))];
    }
    let kind = |name: &str| table(&[("kind", name.into()), ("switches", switches())]);
    let mut all = vec![(Topology::Complete(Complete { switch_count }), kind("complete"))];
    // Three in a ring are complete.
    if switch_count > 3 {
        all.push((Topology::Ring(Ring { switch_count }), kind("ring")));
    }
    if switch_count > 2 {
        all.push((Topology::Tree(Tree::star(switch_count - 1)), kind("star")));
    }
    for extents in factorisations(switch_count) {
        let of = |name: &str| table(&[("kind", name.into()), ("extents", list(&extents))]);
        if extents.iter().all(|&extent| extent == 2) {
            let dimension_count = extents.len() as u32;
            // Two dimensions are a ring of four.
            if dimension_count > 2 {
                let entries = [("kind", "hypercube".into()), ("dimensions", dimension_count.into())];
                all.push((Topology::Hypercube(Hypercube { dimension_count }), table(&entries)));
            }
            continue;
        }
        all.push((Topology::Mesh(Mesh { extents: extents.clone() }), of("mesh")));
        all.push((Topology::Torus(Torus::new(&extents)), of("torus")));
        // With at most three along each, a torus is one.
        if extents.iter().any(|&extent| extent > 3) {
            all.push((
                Topology::HyperX(HyperX { extents: extents.clone(), widths: Vec::new() }),
                of("hyperx"),
            ));
        }
    }
    all
}

/// All ways to write a number as a product of two to four factors of at least 2, the largest first; eight
/// factors for
/// powers of two.
fn factorisations(number: u32) -> Vec<Vec<u32>> {
    fn extend(rest: u32, largest: u32, before: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        if rest == 1 && before.len() > 1 {
            all.push(before.clone());
        }
        for factor in (2..=largest.min(rest)).rev().filter(|factor| rest.is_multiple_of(*factor)) {
            if before.len() < 4 || (factor == 2 && before.iter().all(|&other| other == 2)) {
                before.push(factor);
                extend(rest / factor, factor, before, all);
                before.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(number, number, &mut Vec::new(), &mut all);
    all
}

/// Leaves with hosts and spines without; and the three levels of M. Al-Fares et al.
fn fat_trees(ports: u32, switches_max: u32) -> Vec<(Topology, Table)> {
    let mut all = Vec::new();
    let mut add = |tree: FatTree| {
        let entries = [("kind", "fat-tree".into()), ("down", list(&tree.down)), ("up", list(&tree.up))];
        all.push((Topology::FatTree(tree), table(&entries)));
    };
    for leaves in 2..=ports.min(switches_max) {
        // One spine is a star with an idle middle: the star above has hosts there.
        for spines in 2..=leaves.min(switches_max - leaves) {
            add(FatTree { down: vec![leaves], up: vec![spines], widths: Vec::new() });
        }
    }
    for radix in (4..=ports).step_by(2).take_while(|radix| 5 * radix * radix / 4 <= switches_max) {
        if let Ok(tree) = FatTree::of_radix(radix, 3) {
            add(tree);
        }
    }
    all
}

fn dragonflies(switches_max: u32) -> Vec<(Topology, Table)> {
    let mut all = Vec::new();
    for group_size in 2..=GROUP_SIZE_MAX {
        for global_port_count in 1..=GLOBAL_PORTS_MAX {
            let most = (group_size * global_port_count + 1).min(switches_max / group_size);
            for group_count in 3..=most {
                let entries = [
                    ("kind", "dragonfly".into()),
                    ("group_size", group_size.into()),
                    ("global_ports", global_port_count.into()),
                    ("groups", group_count.into()),
                ];
                let dragonfly = Dragonfly { group_size, global_port_count, group_count };
                // Global ports that lead nowhere are not paid for.
                if (group_size * global_port_count).is_multiple_of(group_count - 1) {
                    all.push((Topology::Dragonfly(dragonfly), table(&entries)));
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_products() {
        assert_eq!(factorisations(12), [vec![6, 2], vec![4, 3], vec![3, 2, 2]]);
        assert_eq!(factorisations(7), Vec::<Vec<u32>>::new());
        assert!(factorisations(64).contains(&vec![2; 6]));
        for number in [64, 96, 162, 240] {
            let all = factorisations(number);
            assert!(all.iter().all(|list| list.iter().product::<u32>() == number), "{all:?}");
            let is_short = |list: &Vec<u32>| list.len() <= 4 || list.iter().all(|&factor| factor == 2);
            assert!(all.iter().any(|list| list.len() == 4) && all.iter().all(is_short), "{all:?}");
        }
    }

    fn named(list: Vec<(Topology, Table)>) -> Vec<String> {
        list.iter().map(|(topology, _)| words(topology)).collect()
    }

    #[test]
    fn every_size_has_its_flat_topologies_once() {
        for (switch_count, expected) in [
            (1, &["star 1"][..]),
            (2, &["complete 2"]),
            (3, &["complete 3", "star 3"]),
            (4, &["complete 4", "ring 4", "star 4"]),
            (7, &["complete 7", "ring 7", "star 7"]),
            (8, &["mesh 4x2", "torus 4x2", "hyperx 4x2", "hypercube of 3 dimensions"]),
            (9, &["mesh 3x3", "torus 3x3"]),
            (
                12,
                &["mesh 6x2", "torus 6x2", "hyperx 6x2", "mesh 4x3", "torus 4x3", "hyperx 4x3", "mesh 3x2x2"],
            ),
            (16, &["torus 4x4", "mesh 4x2x2", "torus 4x2x2", "hyperx 4x2x2", "hypercube of 4 dimensions"]),
        ] {
            let found = named(flat(switch_count));
            assert_eq!(
                found[0],
                if switch_count == 1 { "star 1".into() } else { format!("complete {switch_count}") }
            );
            let tail = found.len() - expected.len();
            let is_listed = |name: &&str| found.iter().filter(|own| own == name).count() == 1;
            assert!(expected.iter().all(is_listed), "{switch_count}: {found:?}");
            // Up to eight there are no others; of more these come last.
            assert!(switch_count > 7 || tail == 0, "{found:?}");
        }
        assert_eq!(named(flat(12)).last().unwrap(), "torus 3x2x2");
        assert_eq!(named(flat(16)).len(), 3 + 3 * 3 + 1);
    }

    #[test]
    fn fat_trees_have_two_levels_of_any_size_or_three() {
        let sizes = ["2+2", "3+2", "3+3", "4+2"].map(|sizes| format!("fat tree {sizes}"));
        assert_eq!(named(fat_trees(8, 6)), sizes);
        for (ports, switches_max, levels_of_three) in
            [(4, 19, &[][..]), (4, 20, &["8+8+4"]), (6, 44, &["8+8+4"]), (6, 45, &["8+8+4", "18+18+9"])]
        {
            let found = named(fat_trees(ports, switches_max));
            let (two, three): (Vec<_>, Vec<_>) =
                found.iter().partition(|name| name.matches('+').count() == 1);
            assert!(
                three
                    .into_iter()
                    .eq(&levels_of_three.iter().map(|own| format!("fat tree {own}")).collect::<Vec<_>>())
            );
            let pairs = (2..=ports).flat_map(|leaves| (2..=leaves).map(move |spines| leaves + spines));
            assert_eq!(two.len(), pairs.filter(|&count| count <= switches_max).count());
        }
    }

    #[test]
    fn dragonflies_have_no_global_port_too_many() {
        for switches_max in [6, 20, 72] {
            let found: Vec<(u32, u32, u32)> = dragonflies(switches_max)
                .into_iter()
                .map(|(topology, _)| match topology {
                    Topology::Dragonfly(own) => (own.group_size, own.global_port_count, own.group_count),
                    other => panic!("{other:?}"),
                })
                .collect();
            // Every group has as many links to each of the others, one or more.
            let all = (2..=16).flat_map(|size| (1..=8).map(move |ports| (size, ports)));
            let expected = all.flat_map(|(size, ports)| (3..=129).map(move |count| (size, ports, count)));
            let expected = expected.filter(|&(size, ports, count)| {
                size * count <= switches_max && (1..=128).any(|links| links * (count - 1) == size * ports)
            });
            assert!(found.iter().copied().eq(expected), "{found:?}");
        }
    }

    const PRICES: &str = "[switch_models.a]\nports = 16\nrate_gbps = 1\nprice = 100\nlag_ports_max = 5\n\
        [switch_models.b]\nports = 12\nrate_gbps = 1\nprice = 90\n[host_models.h]\n\
        nic = [{ name = \"e0\", rate_gbps = 1 }, { name = \"e1\", rate_gbps = 1 }]\nnics_as = \"rails\"\n\
        [[cable]]\nlength_m = 9\nprice = 8\n[[cable]]\nlength_m = 99\nprice = 3\n";

    #[test]
    fn a_shape_is_what_its_machine_file_describes() {
        let prices = Prices::parse("p.toml", PRICES).unwrap();
        for shape in shapes(&prices, 20) {
            let machine = |cables| {
                let text = shape.description(&prices, 20, cables);
                crate::description::Machine::parse("m.toml", &text).map_err(|error| error.to_string())
            };
            let one = machine(1).unwrap_or_else(|error| panic!("{}: {error}", shape.name));
            assert_eq!(one.topology.as_ref(), Some(&shape.topology));
            assert_eq!(
                one.switch_models.iter().map(|own| &own.name).collect::<Vec<_>>(),
                [&shape.model.name]
            );
            assert_eq!((one.about.as_str(), one.hosts.len()), (shape.named(1).as_str(), 20));
            assert_eq!(one.switches.len(), shape.switch_count as usize);
            let cable_count = one.graph.switch_cable_count() as f64 + 40.0;
            let switch_price = if shape.model.name == "a" { 100.0 } else { 90.0 };
            assert_eq!(shape.price_min, f64::from(shape.switch_count) * switch_price + 3.0 * cable_count);
            // Every number of cables up to the most finds ports, and no more.
            let most = machine(shape.cables_max).unwrap();
            assert_eq!(
                most.graph.switch_cable_count(),
                one.graph.switch_cable_count() * u64::from(shape.cables_max)
            );
            assert!(shape.switch_count == 1 || machine(shape.cables_max + 1).is_err(), "{}", shape.name);
        }
    }

    #[test]
    fn shapes_have_up_to_six_times_the_fewest_switches() {
        let prices = Prices::parse("p.toml", PRICES).unwrap();
        let names: Vec<String> = shapes(&prices, 20).into_iter().map(|shape| shape.name).collect();
        let has = |name: &str| names.iter().any(|own| own == name);
        // 40 NICs take three switches of 16 ports, and four of 12: 26 and 32 at most.
        assert!(has("ring 26 of a") && !has("ring 27 of a") && has("ring 32 of b") && !has("ring 33 of b"));
        assert!(!has("complete 2 of a") && has("complete 3 of a"));
        assert!(has("fat tree 4+4 of a") && has("dragonfly 4x5, 1 global ports of a"));
        assert!(has("hypercube of 4 dimensions of a") && has("star 5 of b") && !has("star 4 of b"));
    }
}
