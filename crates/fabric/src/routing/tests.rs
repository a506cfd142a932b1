use super::*;
use crate::deadlock::{self, Verdict};
use crate::graph::LinkSpec;
use crate::topology::{
    Complete, Dragonfly, Explicit, FatTree, HyperX, Hypercube, Mesh, Ring, Tofu, Torus, Tree,
};
use ayatori_random::Random;

const LINK: LinkSpec = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 10_000, cable_count: 1 };
const DATELINE: Method = Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Up };

fn routed(method: Method, topology: &Topology) -> (Graph, Routing) {
    let graph = topology.build(LINK).unwrap();
    let routing = Routing::new(method, topology, &graph).unwrap();
    (graph, routing)
}

fn verdict(method: Method, topology: &Topology) -> Verdict {
    let (graph, routing) = routed(method, topology);
    deadlock::check(&graph, &routing, |switch| topology.generator().carries_hosts(switch.0)).unwrap()
}

fn torus(extents: &[u32]) -> Topology {
    Topology::Torus(Torus::new(extents))
}

fn regular_topologies() -> Vec<Topology> {
    vec![
        Topology::Ring(Ring { switch_count: 7 }),
        Topology::Mesh(Mesh { extents: vec![4, 3, 2] }),
        torus(&[4, 2, 5]),
        Topology::Torus(Torus { extents: vec![2, 6], twin_links: true }),
        Topology::Hypercube(Hypercube { dimension_count: 5 }),
        Topology::Complete(Complete { switch_count: 7 }),
        Topology::Tree(Tree { arity: 3, switch_count: 17 }),
        Topology::FatTree(FatTree::of_radix(6, 3).unwrap()),
        Topology::FatTree(FatTree { down: vec![3, 4], up: vec![2, 3], widths: vec![] }),
        Topology::FatTree(FatTree { down: vec![3, 5], up: vec![4, 2], widths: vec![] }),
        Topology::FatTree(FatTree { down: vec![2, 3, 4], up: vec![3, 2, 2], widths: vec![] }),
        Topology::HyperX(HyperX { extents: vec![3, 4, 2], widths: vec![] }),
        Topology::Tofu(Tofu::new([3, 4, 2])),
    ]
}

#[test]
fn usual_routes_are_shortest_paths() {
    for topology in regular_topologies() {
        let (graph, routing) = routed(Method::usual_for(&topology), &topology);
        let ends: Vec<SwitchId> =
            graph.switches().filter(|s| topology.generator().carries_hosts(s.0)).collect();
        for &from in &ends {
            let distances = graph.switch_distances(from);
            for &to in &ends {
                for flow in 0..routing.flow_count() {
                    let path = routing.path(&graph, from, to, flow).unwrap();
                    assert!(path.iter().all(|lane| lane.vc < routing.vc_count()), "{topology:?}");
                    let distance = distances[to.index()].unwrap() as usize;
                    assert_eq!(path.len(), distance, "{topology:?} {from:?} {to:?} flow {flow}");
                }
            }
        }
    }
}

#[test]
fn a_run_is_the_hops_that_follow() {
    for topology in regular_topologies() {
        let datelines = [Dateline::AtWrap, Dateline::OnEntry];
        for (tie, dateline) in
            [TieRule::Up, TieRule::Balanced].into_iter().flat_map(|tie| datelines.map(|d| (tie, d)))
        {
            let method = match Method::usual_for(&topology) {
                Method::DimensionOrder { .. } => Method::DimensionOrder { dateline, tie },
                other => other,
            };
            let (graph, routing) = routed(method, &topology);
            for (from, to) in graph.switches().flat_map(|a| graph.switches().map(move |b| (a, b))) {
                let (mut at, mut arrived, mut run) = (from, None, None);
                while at != to && [from, to].iter().all(|end| topology.generator().carries_hosts(end.0)) {
                    let next = routing.next_run(at, arrived, to, 0);
                    assert_eq!(next.0, routing.next_hop(at, arrived, to, 0));
                    if let Some((hop, more @ 1..)) = run {
                        assert_eq!(
                            (next.0, next.1 + 1),
                            (hop, more),
                            "{topology:?} {from:?} {to:?} at {at:?}"
                        );
                    }
                    run = Some(next);
                    let far = graph.neighbour(at.into(), next.0.port).unwrap().far;
                    let Node::Switch(switch) = far.node else { panic!("a host on the way") };
                    (at, arrived) = (switch, Some(Hop { port: far.port, vc: next.0.vc }));
                }
                assert!(run.is_none_or(|(_, more)| more == 0), "the run leads beyond {to:?}");
            }
        }
    }
}

#[test]
fn dragonfly_routes_cross_one_global_link_at_most() {
    let topology = Topology::Dragonfly(Dragonfly { group_size: 4, global_port_count: 3, group_count: 5 });
    let (graph, routing) = routed(Method::DragonflyMinimal, &topology);
    for (from, to) in graph.switches().flat_map(|a| graph.switches().map(move |b| (a, b))) {
        for flow in 0..routing.flow_count() {
            let path = routing.path(&graph, from, to, flow).unwrap();
            let group = |end: crate::graph::End| match end.node {
                Node::Switch(switch) => switch.0 / 4,
                Node::Host(_) => unreachable!(),
            };
            let ends = path.iter().map(|lane| graph.channel_ends(lane.channel));
            let global_count = ends.filter(|&(a, b)| group(a) != group(b)).count();
            assert!(path.len() <= 3 && global_count == usize::from(from.0 / 4 != to.0 / 4));
        }
    }
}

#[test]
fn dragonfly_flows_use_every_link_between_two_groups() {
    // 12 global ports of a group, four other groups: three links to each.
    let topology = Topology::Dragonfly(Dragonfly { group_size: 4, global_port_count: 3, group_count: 5 });
    let (graph, routing) = routed(Method::DragonflyMinimal, &topology);
    assert_eq!(routing.flow_count(), 3);
    let group = |channel| {
        let (a, b) = graph.channel_ends(channel);
        [a, b].map(|end| match end.node {
            Node::Switch(switch) => switch.0 / 4,
            Node::Host(_) => unreachable!(),
        })
    };
    for (from, to) in graph.switches().flat_map(|a| graph.switches().map(move |b| (a, b))) {
        if from.0 / 4 == to.0 / 4 {
            continue;
        }
        let across = |flow: u32| {
            let path = routing.path(&graph, from, to, flow).unwrap();
            path.iter().map(|lane| lane.channel).find(|&channel| group(channel)[0] != group(channel)[1])
        };
        let mut used: Vec<_> = (0..3).map(across).collect();
        // A host's number is a flow, too.
        assert_eq!(across(3_000_001), used[(3_000_001 % 3) as usize]);
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 3, "{from:?} {to:?}");
    }
}

#[test]
fn usual_methods_have_the_channels_that_topologies_need() {
    let explicit = Explicit { switches: ["a", "b"].map(String::from).to_vec(), links: vec![(0, 1, 1)] };
    let dragonfly = Dragonfly { group_size: 4, global_port_count: 2, group_count: 9 };
    for (topology, name, vc_count) in [
        (Topology::Ring(Ring { switch_count: 7 }), "dimension order", 2),
        (Topology::Mesh(Mesh { extents: vec![4, 3] }), "dimension order", 1),
        (torus(&[4, 2]), "dimension order", 2),
        (Topology::Hypercube(Hypercube { dimension_count: 3 }), "dimension order", 1),
        (Topology::HyperX(HyperX { extents: vec![3, 4], widths: vec![] }), "dimension order", 1),
        (Topology::Tree(Tree { arity: 3, switch_count: 7 }), "ancestor first", 1),
        (Topology::FatTree(FatTree::of_radix(4, 2).unwrap()), "ancestor first", 1),
        (Topology::Dragonfly(dragonfly), "dragonfly minimal", 2),
        (Topology::Complete(Complete { switch_count: 4 }), "minimal", 1),
        (Topology::Explicit(explicit), "up*/down*", 1),
    ] {
        let method = Method::usual_for(&topology);
        let (_, routing) = routed(method, &topology);
        assert_eq!((method.name(), routing.vc_count()), (name, vc_count), "{topology:?}");
    }
    let (_, off) =
        routed(Method::DimensionOrder { dateline: Dateline::Off, tie: TieRule::Up }, &torus(&[5, 4]));
    assert_eq!(off.vc_count(), 1);
}

#[test]
fn usual_routes_are_free_of_deadlock() {
    let dragonfly = Dragonfly { group_size: 4, global_port_count: 2, group_count: 9 };
    for topology in regular_topologies().into_iter().chain([Topology::Dragonfly(dragonfly)]) {
        let verdict = verdict(Method::usual_for(&topology), &topology);
        assert!(verdict.is_free(), "{topology:?}: {verdict:?}");
    }
}

#[test]
fn both_datelines_keep_rings_of_any_length_free_of_deadlock() {
    for extent in 3..=17 {
        for dateline in [Dateline::AtWrap, Dateline::OnEntry] {
            for tie in [TieRule::Up, TieRule::Balanced] {
                let verdict = verdict(Method::DimensionOrder { dateline, tie }, &torus(&[extent, 3]));
                assert!(verdict.is_free(), "{extent} {dateline:?} {tie:?}: {verdict:?}");
            }
        }
    }
}

#[test]
fn channels_of_a_ring_are_chosen_at_the_wrap_or_on_entry() {
    let topology = torus(&[8, 3]);
    // From 5 up to 1: two hops before the wrap-around link, it, and one after.
    for (dateline, vcs) in [(Dateline::AtWrap, [0, 0, 1, 1, 0]), (Dateline::OnEntry, [1, 1, 1, 1, 0])] {
        let (graph, routing) = routed(Method::DimensionOrder { dateline, tie: TieRule::Up }, &topology);
        let path = routing.path(&graph, SwitchId(5), SwitchId(1 + 8), 0).unwrap();
        assert_eq!(path.iter().map(|lane| lane.vc).collect::<Vec<_>>(), vcs, "{dateline:?}");
        // Up to 7 and down to 0, before the wrap-around link.
        for (from, to) in [(5, 7), (2, 0)] {
            let path = routing.path(&graph, SwitchId(from), SwitchId(to), 0).unwrap();
            assert_eq!(path.iter().map(|lane| lane.vc).collect::<Vec<_>>(), [0, 0], "{dateline:?}");
        }
    }
}

#[test]
fn torus_without_dateline_can_deadlock_in_a_ring() {
    let topology = torus(&[5, 4]);
    let method = Method::DimensionOrder { dateline: Dateline::Off, tie: TieRule::Up };
    let Verdict::Cycle(cycle) = verdict(method, &topology) else { panic!("no cycle found") };
    let graph = topology.build(LINK).unwrap();
    // The shortest cycle is a ring of four in y.
    assert_eq!(cycle.len(), 4);
    for (i, lane) in cycle.iter().enumerate() {
        let (_, end) = graph.channel_ends(lane.channel);
        let (start, _) = graph.channel_ends(cycle[(i + 1) % cycle.len()].channel);
        assert_eq!(end.node, start.node, "the lanes join up");
    }
}

#[test]
fn rings_of_three_need_no_dateline() {
    // No path is longer than one hop, so nothing waits.
    let method = Method::DimensionOrder { dateline: Dateline::Off, tie: TieRule::Up };
    assert!(verdict(method, &torus(&[3])).is_free());
    assert!(!verdict(method, &torus(&[4])).is_free());
}

#[test]
fn tie_rule_decides_the_way_to_the_opposite_switch() {
    let topology = torus(&[8]);
    for (tie, from_odd) in [(TieRule::Up, 0), (TieRule::Balanced, 1)] {
        let (_, routing) = routed(Method::DimensionOrder { dateline: Dateline::OnEntry, tie }, &topology);
        assert_eq!(routing.next_hop(SwitchId(2), None, SwitchId(6), 0).port, 0, "{tie:?}");
        assert_eq!(routing.next_hop(SwitchId(3), None, SwitchId(7), 0).port, from_odd, "{tie:?}");
    }
}

#[test]
fn dimensions_can_be_corrected_in_any_order() {
    let topology = torus(&[4, 3, 5]);
    let (graph, grid) = (topology.build(LINK).unwrap(), topology.grid().unwrap());
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let routing = DimensionOrder::with_order(&grid, &order, Dateline::OnEntry, TieRule::Up);
        let routing = Routing::DimensionOrder(routing);
        let path = routing.path(&graph, SwitchId(0), SwitchId(1 + 4 + 12), 0).unwrap();
        let ports = path.iter().map(|lane| usize::from(graph.channel_ends(lane.channel).0.port) / 2);
        assert!(ports.eq(order), "{order:?}");
        assert!(deadlock::check(&graph, &routing, |_| true).unwrap().is_free(), "{order:?}");
    }
}

#[test]
fn balanced_ties_load_both_directions_of_a_ring_alike() {
    let topology = torus(&[8]);
    let method = Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Balanced };
    let (graph, routing) = routed(method, &topology);
    let mut loads = vec![0; graph.channel_count()];
    for (from, to) in graph.switches().flat_map(|a| graph.switches().map(move |b| (a, b))) {
        for lane in routing.path(&graph, from, to, 0).unwrap() {
            loads[lane.channel.index()] += 1;
        }
    }
    // k = 8: the mean distance is 2, so 64 pairs x 2 hops over 16 channels is 8 each.
    assert_eq!(loads, vec![8; 16]);
}

#[test]
fn fat_tree_flows_spread_over_all_roots() {
    let topology = Topology::FatTree(FatTree::of_radix(8, 3).unwrap());
    let (graph, routing) = routed(Method::AncestorFirst, &topology);
    let mut roots: Vec<u32> = (0..routing.flow_count())
        .map(|flow| {
            let path = routing.path(&graph, SwitchId(0), SwitchId(31), flow).unwrap();
            match graph.channel_ends(path[1].channel).1.node {
                Node::Switch(root) => root.0,
                Node::Host(_) => unreachable!(),
            }
        })
        .collect();
    roots.sort_unstable();
    roots.dedup();
    assert_eq!(roots.len(), 16);
}

/// A connected graph of 2 to 40 switches: a random tree and some more links.
fn random_graph(seed: u64) -> Topology {
    let mut random = Random::new(seed);
    let mut random = |bound: u32| random.below(bound.into()) as u32;
    let switch_count = 2 + random(39);
    let mut links: Vec<(u32, u32, u32)> = (1..switch_count).map(|s| (random(s), s, 1)).collect();
    for _ in 0..random(2 * switch_count) {
        let (a, b) = (random(switch_count), random(switch_count));
        if a != b {
            links.push((a, b, 1));
        }
    }
    let switches = (0..switch_count).map(|s| format!("s{s}")).collect();
    Topology::Explicit(Explicit { switches, links })
}

#[test]
fn up_down_never_deadlocks_and_connects_random_graphs() {
    for seed in 0..500 {
        let verdict = verdict(Method::UpDown { root: None }, &random_graph(seed));
        assert!(verdict.is_free(), "seed {seed}: {verdict:?}");
    }
}

#[test]
fn up_down_never_goes_up_after_down() {
    for seed in 0..100 {
        let topology = random_graph(seed);
        let root = SwitchId(1);
        let (graph, routing) = routed(Method::UpDown { root: Some(root) }, &topology);
        let levels = graph.switch_distances(root);
        for (from, to) in graph.switches().flat_map(|a| graph.switches().map(move |b| (a, b))) {
            let mut went_down = false;
            for lane in routing.path(&graph, from, to, 0).unwrap() {
                let (a, b) = graph.channel_ends(lane.channel);
                let order = |end: crate::graph::End| match end.node {
                    Node::Switch(s) => (levels[s.index()], s),
                    Node::Host(_) => unreachable!(),
                };
                let up = order(b) < order(a);
                assert!(!(up && went_down), "seed {seed} {from:?} {to:?}");
                went_down |= !up;
            }
        }
    }
}

#[test]
fn up_down_takes_the_shortest_way_that_a_table_can() {
    for seed in 0..100 {
        let topology = random_graph(seed);
        let root = SwitchId(0);
        let (graph, routing) = routed(Method::UpDown { root: Some(root) }, &topology);
        let levels = graph.switch_distances(root);
        let order = |switch: SwitchId| (levels[switch.index()], switch);
        let above = |at: SwitchId| {
            graph.switch_neighbours(at).map(|(_, far)| far).filter(move |&far| order(far) < order(at))
        };
        for to in graph.switches() {
            let length = |from: SwitchId| routing.path(&graph, from, to, 0).unwrap().len();
            // Switches that lead down to it, the nearest first.
            let (mut down, mut next) = (vec![None; graph.switch_count()], vec![to]);
            for distance in 0.. {
                next.retain(|at| down[at.index()].is_none());
                next.iter().for_each(|at| down[at.index()] = Some(distance));
                next = next.into_iter().flat_map(above).collect();
                if next.is_empty() {
                    break;
                }
            }
            for at in graph.switches() {
                let expected = down[at.index()].unwrap_or_else(|| 1 + above(at).map(length).min().unwrap());
                assert_eq!(length(at), expected, "seed {seed}: {at:?} to {to:?}");
            }
        }
    }
}

#[test]
fn tables_have_a_size_that_is_refused_before_they_are_made() {
    let of = |switch_count: u32| {
        let mut graph = Graph::new();
        for number in 0..switch_count {
            graph.add_switch(&format!("s{number}"), &[]);
        }
        graph
    };
    let error = Table::minimal(&of(16_385)).unwrap_err();
    assert_eq!(error, RoutingError::TooManySwitches { switch_count: 16_385, max: 16_384 });
    assert!(matches!(Table::minimal(&of(16_384)), Err(RoutingError::Unreachable { .. })));
    assert!(Table::up_down(&of(0), None).is_ok());
}

#[test]
fn minimal_is_shortest_and_its_deadlocks_are_found() {
    for seed in 0..100 {
        let (graph, routing) = routed(Method::Minimal, &random_graph(seed));
        for from in graph.switches() {
            let distances = graph.switch_distances(from);
            for to in graph.switches() {
                let path = routing.path(&graph, from, to, 0).unwrap();
                assert_eq!(Some(path.len() as u32), distances[to.index()], "seed {seed}");
            }
        }
    }
    assert!(!verdict(Method::Minimal, &torus(&[5, 5])).is_free());
    assert!(verdict(Method::Minimal, &Topology::Complete(Complete { switch_count: 8 })).is_free());
}

#[test]
fn methods_name_the_topologies_they_cannot_route() {
    let complete = Topology::Complete(Complete { switch_count: 4 });
    let graph = complete.build(LINK).unwrap();
    let error = Routing::new(DATELINE, &complete, &graph).unwrap_err();
    assert_eq!(error.to_string(), "dimension order does not route a complete; use minimal or up*/down*");
    let parts = Topology::Explicit(Explicit {
        switches: ["a", "b", "c"].map(String::from).to_vec(),
        links: vec![(0, 1, 1)],
    });
    let error = Routing::new(Method::Minimal, &parts, &parts.build(LINK).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "no way from a to c: the graph of switches is not connected");
    let far_root = Method::UpDown { root: Some(SwitchId(9)) };
    assert!(matches!(
        Routing::new(far_root, &complete, &graph),
        Err(RoutingError::NoSuchRoot { root: 9, switch_count: 4 })
    ));
}

#[test]
fn a_route_on_the_wrong_graph_is_an_error_and_not_a_panic() {
    let (_, routing) = routed(DATELINE, &torus(&[4, 4]));
    let mesh = Topology::Mesh(Mesh { extents: vec![4, 4] }).build(LINK).unwrap();
    let error = routing.path(&mesh, SwitchId(3), SwitchId(0), 0).unwrap_err();
    assert!(matches!(error, RoutingError::Broken { port: 0, .. }), "{error}");
}

#[test]
fn frames_follow_the_tree_of_their_vlan() {
    // A ring of four: VLAN 0 leaves out one link, VLAN 1 another.
    let topology = Topology::Ring(Ring { switch_count: 4 });
    let graph = topology.build(LINK).unwrap();
    let all: Vec<crate::graph::LinkId> = graph.links().map(|(id, _)| id).collect();
    let trees: Vec<Vec<_>> =
        [0, 2].map(|left_out| all.iter().copied().filter(|link| link.index() != left_out).collect()).into();
    let forwarding = VlanForwarding::new(&graph, trees.iter().map(|tree| &**tree)).unwrap();
    let routing = Routing::Vlan(forwarding);
    assert_eq!((routing.flow_count(), routing.vc_count()), (2, 1));
    for (vlan, tree) in trees.iter().enumerate() {
        for (from, to) in graph.switches().flat_map(|a| graph.switches().map(move |b| (a, b))) {
            let way = routing.path(&graph, from, to, vlan as u32).unwrap();
            assert!(way.iter().all(|lane| tree.contains(&lane.channel.link())), "{from:?} {to:?}");
            // Both ends of the link that is left out are the tree's.
            assert!(way.len() <= 3);
        }
    }
    let loops = VlanForwarding::new(&graph, [&all[..]]);
    assert_eq!(loops, Err(RoutingError::NoTree { vlan: 0 }));
    let apart = VlanForwarding::new(&graph, [&all[1..], &[all[0], all[2]][..]]);
    assert_eq!(apart, Err(RoutingError::NoTree { vlan: 1 }));
    // A tree need not reach every switch, and one switch needs no link.
    let part = VlanForwarding::new(&graph, [&all[1..3]]).unwrap();
    let way = Routing::Vlan(part).path(&graph, SwitchId(1), SwitchId(3), 0).unwrap();
    assert_eq!(
        way.iter().map(|lane| (lane.channel.link(), lane.vc)).collect::<Vec<_>>(),
        [(all[1], 0), (all[2], 0)]
    );
    let one = Topology::Tree(Tree { arity: 1, switch_count: 1 }).build(LINK).unwrap();
    assert_eq!(VlanForwarding::new(&one, [&[][..]]).map(|own| own.vlan_count()), Ok(1));
}
