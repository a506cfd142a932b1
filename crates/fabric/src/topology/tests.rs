use super::*;
use crate::graph::Node;

const LINK: LinkSpec = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 10_000, cable_count: 1 };

fn graph(topology: &Topology) -> Graph {
    topology.build(LINK).unwrap_or_else(|error| panic!("{topology:?}: {error}"))
}

/// The longest shortest path between switches, in links.
fn diameter(graph: &Graph) -> u32 {
    let farthest = |s| graph.switch_distances(s).into_iter().map(|d| d.expect("connected")).max();
    graph.switches().filter_map(farthest).max().unwrap_or(0)
}

fn every_kind() -> Vec<Topology> {
    vec![
        Topology::Ring(Ring { switch_count: 8 }),
        Topology::Mesh(Mesh { extents: vec![4, 3, 2] }),
        Topology::Torus(Torus::new(&[4, 2, 3])),
        Topology::Torus(Torus { extents: vec![2, 5], twin_links: true }),
        Topology::Hypercube(Hypercube { dimension_count: 5 }),
        Topology::Complete(Complete { switch_count: 6 }),
        Topology::Tree(Tree { arity: 2, switch_count: 8 }),
        Topology::Tree(Tree::star(5)),
        Topology::FatTree(FatTree::of_radix(6, 3).unwrap()),
        Topology::FatTree(FatTree { down: vec![3, 4], up: vec![2, 5], widths: vec![2, 1] }),
        Topology::HyperX(HyperX { extents: vec![3, 4, 2], widths: vec![1, 2, 1] }),
        Topology::Dragonfly(Dragonfly { group_size: 4, global_port_count: 2, group_count: 9 }),
        Topology::Dragonfly(Dragonfly { group_size: 4, global_port_count: 3, group_count: 5 }),
        Topology::Tofu(Tofu::new([4, 3, 2])),
        Topology::Explicit(Explicit {
            switches: ["a", "b", "c"].map(String::from).to_vec(),
            links: vec![(0, 1, 2), (1, 2, 1), (0, 1, 1)],
        }),
    ]
}

#[test]
fn every_topology_is_connected_and_keeps_to_its_ports() {
    for topology in every_kind() {
        let graph = graph(&topology);
        assert_eq!(graph.unreachable_switch(), None, "{topology:?}");
        assert_eq!(graph.switch_count() as u64, topology.generator().switch_count());
        for switch in graph.switches() {
            let ports = usize::from(topology.switch_port_count(switch));
            assert!(graph.port_count(switch.into()) <= ports, "{topology:?} {switch:?}");
        }
    }
}

/// What all switches of a layer have alike is kept for no more than they use.
#[test]
fn trees_and_products_of_complete_graphs_use_all_their_ports() {
    let all_used = |topology: &Topology| {
        matches!(
            topology,
            Topology::FatTree(_)
                | Topology::HyperX(_)
                | Topology::Complete(_)
                | Topology::Ring(_)
                | Topology::Tree(_)
                | Topology::Dragonfly(_)
        )
    };
    // The dragonflies here have as many global ports as other groups, or a multiple.
    for topology in every_kind().into_iter().filter(all_used) {
        let graph = graph(&topology);
        for switch in graph.switches() {
            let ports = usize::from(topology.switch_port_count(switch));
            assert_eq!(graph.port_count(switch.into()), ports, "{topology:?} {switch:?}");
        }
    }
}

#[test]
fn a_topology_may_be_as_large_as_its_limits_say() {
    // The middle has a port for each leaf and one that leads to no parent.
    let star = |switch_count| Topology::Tree(Tree::star(switch_count)).check();
    assert_eq!(star(u32::from(Port::MAX) - 1), Ok(()));
    let error = star(u32::from(Port::MAX)).unwrap_err();
    assert!(matches!(error, TopologyError::TooLarge { what: "ports on a switch", .. }), "{error}");
    let ring = |switch_count| Topology::Ring(Ring { switch_count }).check();
    assert!(ring(65_535).is_ok() && ring(65_536).is_err());
    let hyperx = |extent| Topology::HyperX(HyperX { extents: vec![extent], widths: vec![] }).check();
    assert!(hyperx(4096).is_ok() && hyperx(4097).is_err());
    let fat = |down| Topology::FatTree(FatTree { down: vec![down], up: vec![2], widths: vec![] }).check();
    assert!(fat(4096).is_ok() && fat(4097).is_err());
    let dragonfly = |group_size, global_port_count| {
        Topology::Dragonfly(Dragonfly { group_size, global_port_count, group_count: 2 }).check()
    };
    for (group_size, global_port_count, is_taken) in [(4096, 1, true), (1, 4096, true), (1, 4097, false)] {
        assert_eq!(dragonfly(group_size, global_port_count).is_ok(), is_taken, "{group_size}");
    }
    let tree = |switch_count| Topology::Tree(Tree { arity: 2, switch_count }).check();
    assert_eq!(tree(SWITCH_COUNT_MAX as u32), Ok(()));
    let error = tree(SWITCH_COUNT_MAX as u32 + 1).unwrap_err();
    assert!(matches!(error, TopologyError::TooLarge { what: "switches", .. }), "{error}");
}

#[test]
fn switch_and_port_names_are_unique() {
    for topology in every_kind() {
        let graph = graph(&topology);
        let mut names: Vec<&str> = graph.switches().map(|s| graph.name(s.into())).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), graph.switch_count(), "{topology:?}");
        for switch in graph.switches() {
            let name = |n: crate::graph::Neighbour| topology.generator().port_name(switch.0, n.port);
            let mut ports: Vec<String> = graph.neighbours(switch.into()).map(name).collect();
            let count = ports.len();
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), count, "{topology:?} {switch:?} {ports:?}");
        }
    }
}

#[test]
fn sizes_and_diameters_are_the_literatures() {
    // (topology, switches, links, diameter in links)
    let cases = [
        (Topology::Ring(Ring { switch_count: 8 }), 8, 8, 4),
        (Topology::Mesh(Mesh { extents: vec![4, 2] }), 8, 10, 4),
        (Topology::Torus(Torus::new(&[4, 2])), 8, 12, 3),
        (Topology::Torus(Torus::new(&[8, 8, 8])), 512, 1536, 12),
        (Topology::Torus(Torus { extents: vec![2, 2], twin_links: true }), 4, 8, 2),
        (Topology::Hypercube(Hypercube { dimension_count: 6 }), 64, 192, 6),
        (Topology::Complete(Complete { switch_count: 8 }), 8, 28, 1),
        // The VLAN routing paper counts six switches, so five links.
        (Topology::Tree(Tree { arity: 2, switch_count: 8 }), 8, 7, 5),
        (Topology::Tree(Tree::star(5)), 6, 5, 2),
        (Topology::Tree(Tree::full(3, 3)), 13, 12, 4),
        (Topology::FatTree(FatTree::of_radix(4, 3).unwrap()), 20, 32, 4),
        (Topology::HyperX(HyperX { extents: vec![4, 4], widths: vec![] }), 16, 48, 2),
        // 9 groups of 4: 6 local links each, and 36 pairs of groups.
        (Topology::Dragonfly(Dragonfly { group_size: 4, global_port_count: 2, group_count: 9 }), 36, 90, 3),
        // 2x2x2 units of 12: in a unit 6 (A) + 12 (B) + 6 (C) links, and 12 for each of 12 pairs of units.
        (Topology::Tofu(Tofu::new([2, 2, 2])), 96, 8 * 24 + 12 * 12, 6),
    ];
    for (topology, switches, links, links_across) in cases {
        let graph = graph(&topology);
        let found = (graph.switch_count(), graph.link_count(), diameter(&graph));
        assert_eq!(found, (switches, links, links_across), "{topology:?}");
    }
}

#[test]
fn grid_ports_lead_where_the_coordinates_say() {
    let torus = Topology::Torus(Torus::new(&[4, 2, 3]));
    let (graph, grid) = (graph(&torus), torus.grid().unwrap());
    for switch in graph.switches() {
        let here = grid.coordinates(switch.0);
        assert_eq!(here, graph.coordinates(switch));
        assert_eq!(grid.switch_at(&here), switch.0);
        for (neighbour, far) in graph.switch_neighbours(switch) {
            let d = usize::from(neighbour.port / 2);
            let extent = grid.dimensions[d].extent;
            let step = if neighbour.port % 2 == 0 { 1 } else { extent - 1 };
            let mut there = here.clone();
            there[d] = (there[d] + step) % extent;
            assert_eq!(far.0, grid.switch_at(&there));
        }
    }
}

#[test]
fn fat_tree_digits_name_every_switch_once() {
    let tree = FatTree { down: vec![3, 4], up: vec![2, 5], widths: vec![] };
    for switch in 0..tree.switch_count() as u32 {
        let (level, digits) = tree.place(switch);
        assert_eq!(tree.switch_at(level, &digits), switch);
    }
    // Commodity fat tree of radix 4: 8 leaves with 2 hosts each, 8 in the middle, 4 on top.
    let commodity = FatTree::of_radix(4, 3).unwrap();
    assert_eq!((0..3).map(|level| commodity.level_size(level)).collect::<Vec<_>>(), [8, 8, 4]);
}

#[test]
fn dragonfly_joins_every_two_groups_alike() {
    let dragonfly = Dragonfly { group_size: 4, global_port_count: 3, group_count: 5 };
    let graph = graph(&Topology::Dragonfly(dragonfly.clone()));
    let mut between = [[0; 5]; 5];
    for (_, link) in graph.links() {
        let [a, b] = link.ends.map(|end| match end.node {
            Node::Switch(switch) => graph.coordinates(switch)[1] as usize,
            Node::Host(_) => unreachable!("no hosts here"),
        });
        between[a.min(b)][a.max(b)] += 1;
    }
    for (a, row) in between.iter().enumerate() {
        assert!(row[a + 1..].iter().all(|&count| count == dragonfly.links_between_groups()), "{between:?}");
    }
}

#[test]
fn hosts_follow_the_ports_between_switches() {
    let topology = Topology::FatTree(FatTree::of_radix(4, 2).unwrap());
    let hosts = HostLayout { per_switch_count: 2, nic_count: 2, link: LINK };
    let graph = topology.build_with_hosts(LINK, hosts).unwrap();
    // Four leaves of two hosts; the two top switches carry none.
    assert_eq!(graph.host_count(), 8);
    let last = graph.hosts().next_back().unwrap();
    assert_eq!(graph.switch_of(last, 1), Some((SwitchId(3), 2 + 3)));
}

#[test]
fn numbers_that_make_no_topology_are_named() {
    let cases = [
        (Topology::Ring(Ring { switch_count: 2 }), "ring: 2 switches make no ring: at least 3"),
        (Topology::Torus(Torus::new(&[4, 0])), "torus: extent 2 is 0: at least 1 is needed"),
        (Topology::Mesh(Mesh { extents: vec![] }), "mesh: needs at least one extent"),
        (
            Topology::Mesh(Mesh { extents: vec![10_000, 10_000] }),
            "mesh: 100000000 switches are more than the 4194304 there can be",
        ),
        (
            Topology::Dragonfly(Dragonfly { group_size: 2, global_port_count: 1, group_count: 4 }),
            "dragonfly: 4 groups: 2 to 3 (a h + 1) are possible",
        ),
        (Topology::HyperX(HyperX { extents: vec![4, 4], widths: vec![1] }), "hyperx: 1 widths for 2 extents"),
        (
            Topology::Explicit(Explicit { switches: vec!["a".into()], links: vec![(0, 0, 1)] }),
            "explicit: link 1 joins a to itself",
        ),
        (
            Topology::Tree(Tree { arity: 0, switch_count: 3 }),
            "tree: an arity of 0 leaves no place for a second switch",
        ),
        (Topology::Tree(Tree { arity: 2, switch_count: 0 }), "tree: needs at least one switch"),
        (
            Topology::Explicit(Explicit { switches: vec![], links: vec![] }),
            "explicit: needs at least one switch",
        ),
        (
            Topology::Mesh(Mesh { extents: vec![65_536] }),
            "mesh: 65536 switches along a dimension are more than the 65535 there can be",
        ),
        (
            Topology::Dragonfly(Dragonfly { group_size: 4_097, global_port_count: 1, group_count: 2 }),
            "dragonfly: group size 4097 and 1 global ports: 1 to 4096 each",
        ),
        (
            Topology::Dragonfly(Dragonfly { group_size: 2, global_port_count: 0, group_count: 2 }),
            "dragonfly: group size 2 and 0 global ports: 1 to 4096 each",
        ),
    ];
    for (topology, message) in cases {
        assert_eq!(topology.build(LINK).unwrap_err().to_string(), message);
    }
}

#[test]
fn widths_and_extents_that_make_no_topology_are_named() {
    let cases = [
        (Topology::HyperX(HyperX { extents: vec![], widths: vec![] }), "hyperx: needs at least one extent"),
        (
            Topology::HyperX(HyperX { extents: vec![4, 1], widths: vec![] }),
            "hyperx: extent 2 is 1: 2 to 4096",
        ),
        (
            Topology::HyperX(HyperX { extents: vec![4, 4], widths: vec![1, 0] }),
            "hyperx: a width of 0 would leave a dimension without cables",
        ),
        (
            Topology::FatTree(FatTree { down: vec![2], up: vec![], widths: vec![] }),
            "fat tree: down has 1 numbers and up 0: one each for every two levels",
        ),
        (
            Topology::FatTree(FatTree { down: vec![2], up: vec![1], widths: vec![1, 1] }),
            "fat tree: 2 widths for 1 pairs of levels",
        ),
        (
            Topology::FatTree(FatTree { down: vec![2], up: vec![0], widths: vec![] }),
            "fat tree: numbers of children, parents and cables are 1 to 4096",
        ),
        (
            Topology::Tree(Tree { arity: 65_535, switch_count: 65_536 }),
            "tree: 65536 ports on a switch are more than the 65535 there can be",
        ),
    ];
    for (topology, message) in cases {
        assert_eq!(topology.build(LINK).unwrap_err().to_string(), message);
    }
    assert!(FatTree::of_radix(5, 3).is_err() && FatTree::of_radix(0, 2).is_err());
    assert_eq!(FatTree::of_radix(2, 2).unwrap(), FatTree { down: vec![2], up: vec![1], widths: vec![] });
    assert!(FatTree::of_radix(4, 1).is_err() && FatTree::of_radix(4, 17).is_err());
    let hosts = HostLayout { per_switch_count: 65_534, nic_count: 1, link: LINK };
    let ring = |hosts| Topology::Ring(Ring { switch_count: 3 }).build_with_hosts(LINK, hosts);
    let error = ring(hosts).unwrap_err().to_string();
    assert_eq!(error, "ring: 65536 ports on a switch are more than the 65535 there can be");
}

#[test]
fn port_names_say_where_their_links_lead() {
    let letters = |names: &str, dimension: usize, up: bool| {
        let axis = names.chars().nth(dimension).map_or_else(|| format!("d{dimension}"), String::from);
        format!("{axis}{}", if up { '+' } else { '-' })
    };
    let seven = Topology::Mesh(Mesh { extents: vec![2; 7] });
    for topology in every_kind().into_iter().chain([seven, Topology::Torus(Torus::new(&[3, 4]))]) {
        let graph = graph(&topology);
        let generator = topology.generator();
        for (switch, port, far) in graph.switches().flat_map(|switch| {
            graph.switch_neighbours(switch).map(move |(neighbour, far)| (switch, neighbour.port, far))
        }) {
            let (own, other) = (generator.coordinates(switch.0), generator.coordinates(far.0));
            if own.is_empty() {
                continue;
            }
            let differs = (0..own.len()).find(|&at| own[at] != other.get(at).copied().unwrap_or(own[at]));
            let dimension = differs.unwrap_or(0);
            // One further, or around the end.
            let up = own[dimension] + 1 == other[dimension] || own[dimension] > other[dimension] + 1;
            let expected = match &topology {
                Topology::Mesh(_) => letters("xyzuvw", dimension, up),
                // Between two there may be two links, and which of them is meant is the port's to say.
                Topology::Torus(torus) if torus.extents[dimension] > 2 => letters("xyzuvw", dimension, up),
                Topology::Tofu(_) => letters("xyzabc", dimension, up),
                Topology::Ring(_) => if up { "next" } else { "previous" }.into(),
                Topology::Complete(_) => format!("to{}", far.0),
                Topology::HyperX(_) => format!("d{dimension}to{}", other[dimension]),
                Topology::Dragonfly(_) if own[1] == other[1] => format!("local{}", other[0]),
                Topology::Dragonfly(own) => format!("global{}", u32::from(port) + 1 - own.group_size),
                Topology::Tree(tree) if far < switch => {
                    assert_eq!(tree.parent(switch.0), far.0);
                    "parent".into()
                }
                Topology::Tree(tree) => format!("child{}", far.0 - tree.arity * switch.0 - 1),
                _ => continue,
            };
            assert_eq!(generator.port_name(switch.0, port), expected, "{topology:?} {switch:?} {far:?}");
        }
    }
}

#[test]
fn axes_of_a_tofu_wrap_from_three_units_on() {
    let wraps = |tofu: Tofu| tofu.grid().dimensions.iter().map(|own| own.wraps).collect::<Vec<_>>();
    assert_eq!(wraps(Tofu::new([3, 2, 1])), [true, false, false, false, true, false]);
    assert_eq!(wraps(Tofu::new([4, 3, 3])), [true, true, true, false, true, false]);
    assert_eq!(wraps(Tofu { unit_extents: [3; 3], wraps: [false, true, false] })[..3], [false, true, false]);
}

#[test]
fn a_switch_has_as_many_ports_as_there_are_numbers() {
    let alone = Topology::Tree(Tree { arity: 1, switch_count: 1 });
    let first_port = u32::from(alone.switch_port_count(SwitchId(0)));
    let built = |host_count: u32| {
        let hosts = HostLayout { per_switch_count: host_count, nic_count: 1, link: LINK };
        alone.build_with_hosts(LINK, hosts).map(|graph| graph.host_count())
    };
    let most = u32::from(Port::MAX) - first_port;
    assert_eq!(built(most).unwrap(), most as usize);
    assert!(built(most + 1).unwrap_err().to_string().contains("ports on a switch"));
}

#[test]
fn a_graph_without_switches_has_none_out_of_reach() {
    assert_eq!(Graph::new().unreachable_switch(), None);
}
