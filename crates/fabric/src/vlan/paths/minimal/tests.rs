//! Few trees against all that there are, on small graphs; and what holds of larger ones.

use super::super::super::evaluation::evaluate;
use super::super::super::networks_for_tests::Parts;
use super::super::super::solution::{Solution, by_source};
use super::*;
use crate::description::Machine;

/// A random connected graph: by link its ends, and by switch whether it has hosts.
fn graph(random: &mut Random, all_have_hosts: bool) -> (Vec<[usize; 2]>, Vec<bool>) {
    let count = 4 + random.index(3);
    let mut links: Vec<[usize; 2]> = (1..count).map(|switch| [random.index(switch), switch]).collect();
    for _ in 0..random.index(5) {
        let (a, b) = (random.index(count), random.index(count));
        if a != b {
            links.push([a.min(b), a.max(b)]);
        }
    }
    let mut has_hosts: Vec<bool> = (0..count).map(|_| all_have_hosts || random.index(4) > 0).collect();
    (has_hosts[0], has_hosts[count - 1]) = (true, true);
    (links, has_hosts)
}

fn network(links: &[[usize; 2]], has_hosts: &[bool]) -> Network {
    let mut text = "name = \"g\"\n[switch_models.s]\nports = 32\nrate_gbps = 1\n[host_models.h]\n\
                    nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nswitch_model = \"s\"\n\
                    [hosts]\nmodel = \"h\"\n"
        .to_owned();
    for (switch, has) in has_hosts.iter().enumerate() {
        text += &format!("[[switch]]\nname = \"s{switch}\"\nhosts = {}\n", u8::from(*has));
    }
    for (index, [a, b]) in links.iter().enumerate() {
        let port = 10 + index;
        text += &format!("[[cable]]\nfrom = \"s{a}:{port}\"\nto = \"s{b}:{port}\"\n");
    }
    Network::of(&Machine::parse("g.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}")), &[])
}

/// Distances over some of the links.
fn distances(links: &[[usize; 2]], chosen: u32, count: usize) -> Vec<Vec<usize>> {
    const FAR: usize = 1000;
    let mut far = vec![vec![FAR; count]; count];
    (0..count).for_each(|switch| far[switch][switch] = 0);
    for (_, &[a, b]) in links.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1) {
        (far[a][b], far[b][a]) = (1, 1);
    }
    for via in 0..count {
        for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
            far[a][b] = far[a][b].min(far[a][via] + far[via][b]);
        }
    }
    far
}

/// The fewest trees over which every source has shortest paths: all covers by all spanning trees.
fn fewest_by_hand(links: &[[usize; 2]], has_hosts: &[bool]) -> usize {
    let count = has_hosts.len();
    let sources: Vec<usize> = (0..count).filter(|&switch| has_hosts[switch]).collect();
    let shortest = distances(links, u32::MAX, count);
    let trees = (0_u32..1 << links.len()).filter(|tree| tree.count_ones() as usize == count - 1);
    let mut served: Vec<u32> = trees
        .map(|tree| {
            let over_tree = distances(links, tree, count);
            let is_served =
                |&from: &usize| sources.iter().all(|&to| over_tree[from][to] == shortest[from][to]);
            sources.iter().filter(|source| is_served(source)).map(|&source| 1 << source).sum()
        })
        .collect();
    served.sort_unstable();
    served.dedup();
    let all: u32 = sources.iter().map(|&source| 1 << source).sum();
    let mut reached = vec![0_u32];
    for trees in 0.. {
        if reached.contains(&all) {
            return trees;
        }
        reached = reached.iter().flat_map(|done| served.iter().map(move |more| done | more)).collect();
        reached.sort_unstable();
        reached.dedup();
    }
    unreachable!()
}

/// How many trees of links there are, and whether each source's paths are shortest.
fn found(network: &Network, fewest: &Fewest, links: &[[usize; 2]], has_hosts: &[bool]) -> usize {
    let shortest = distances(links, u32::MAX, has_hosts.len());
    let mut trees: Vec<Vec<u32>> = Vec::new();
    for (tree, source) in fewest.paths.trees.iter().zip(network.sources()) {
        assert_eq!(tree.root(), source);
        let depths = tree.depths();
        for to in network.sources() {
            let wanted = shortest[source as usize][to as usize];
            assert_eq!(usize::from(depths[to as usize]), wanted, "{links:?}: {source} to {to}");
        }
        let mut own = tree.links();
        own.sort_unstable();
        trees.push(own);
    }
    assert_eq!(trees.len(), network.sources().count());
    trees.sort();
    trees.dedup();
    trees.len()
}

#[test]
fn fewest_trees_of_random_graphs_are_as_few_as_by_hand() {
    let mut random = Random::new(3);
    let mut counts = std::collections::BTreeSet::new();
    for round in 0..300 {
        let (links, has_hosts) = graph(&mut random, true);
        let network = network(&links, &has_hosts);
        let by_hand = fewest_by_hand(&links, &has_hosts);
        let search = Search::new(&network, network.sources().collect());
        assert!(search.lower_bound() <= by_hand, "{round}: {links:?}");
        let fewest = fewest(&network, round);
        assert_eq!(found(&network, &fewest, &links, &has_hosts), by_hand, "{round}: {links:?}");
        assert_eq!(fewest.tree_count_min, by_hand, "{round}: {links:?}");
        // The exact search alone finds what the others do, and nothing below.
        let (best, is_finished) = search.exact(usize::MAX, 0);
        assert!(is_finished && best.unwrap().len() == by_hand, "{round}: {links:?}");
        let (none, is_finished) = Search::new(&network, network.sources().collect()).exact(by_hand, 0);
        assert!(is_finished && none.is_none(), "{round}: {links:?}");
        counts.insert(by_hand);
    }
    assert!(counts.len() > 3, "{counts:?}");
}

#[test]
fn switches_without_hosts_may_be_passed_or_left_out() {
    let mut random = Random::new(4);
    let (mut met, mut rounds) = (0, 0);
    for round in 0..200 {
        let (links, has_hosts) = graph(&mut random, false);
        if has_hosts.iter().all(|&has| has) {
            continue;
        }
        let network = network(&links, &has_hosts);
        let by_hand = fewest_by_hand(&links, &has_hosts);
        let fewest = fewest(&network, round);
        let count = found(&network, &fewest, &links, &has_hosts);
        assert!(fewest.tree_count_min <= by_hand && by_hand <= count, "{round}: {links:?}");
        met += usize::from(count == by_hand);
        rounds += 1;
    }
    println!("{met} of {rounds} are the fewest");
    assert!(rounds > 50 && met * 10 >= rounds * 8, "{met} of {rounds}");
}

/// Larger graphs, where chains lead past switches without hosts and into dead ends.
#[test]
fn shared_trees_have_shortest_paths_past_bare_switches() {
    let (mut tree_count, mut source_count) = (0, 0);
    for seed in 0..150 {
        let network = Parts::random(seed, 14, true).network(&[]);
        let fewest = fewest(&network, seed);
        for (tree, source) in fewest.paths.trees.iter().zip(network.sources()) {
            let (depths, distances) = (tree.depths(), network.distances(source));
            assert_eq!(tree.root(), source);
            assert!(network.sources().all(|to| depths[to as usize] == distances[to as usize]), "{seed}");
        }
        let mut trees: Vec<Vec<u32>> = fewest.paths.trees.iter().map(RootedTree::links).collect();
        source_count += trees.len();
        trees.sort_unstable();
        trees.dedup();
        tree_count += trees.len();
        assert!((1..=trees.len()).contains(&fewest.tree_count_min), "{seed}");
    }
    println!("{tree_count} trees for {source_count} sources");
    // As few as have been found: what is shared less takes more.
    assert!(source_count == 1114 && tree_count <= 655, "{tree_count} for {source_count}");
}

/// Round a ring of six there are two ways from the fourth switch to the first: one passes the second.
#[test]
fn a_way_that_leads_past_a_switch_with_hosts_is_a_dead_end() {
    let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)];
    let joins = |links: &[(u32, u32)], weights: &[u32]| -> Vec<bool> {
        let network = Parts::of(links, weights).network(&[]);
        let search = Search::new(&network, network.sources().collect());
        let fourth = search.sources.iter().position(|&source| source == 3).unwrap();
        let joined = |seed| search.try_join(&search.group_of(0), fourth, &mut Random::new(seed));
        (0..20)
            .map(|seed| {
                let joined = joined(seed);
                // The second and third switch are on the chain, and no other but its beginning.
                let on_chain: Vec<u32> =
                    joined.iter().flat_map(|group| &group.core).map(|&(switch, _)| switch).collect();
                assert!(joined.is_none() || on_chain == [3, 2, 1], "{on_chain:?}");
                joined.is_some()
            })
            .collect()
    };
    // Whichever way is tried first, the one by the second switch is found.
    assert_eq!(joins(&ring, &[1, 1, 0, 1, 0, 0]), [true; 20]);
    assert_eq!(joins(&ring, &[1, 0, 1, 1, 0, 0]), [true; 20]);
    // With hosts below the fifth switch there is no tree for both.
    assert_eq!(joins(&[&ring[..], &[(4, 6)]].concat(), &[1, 1, 0, 1, 0, 0, 1]), [false; 20]);
}

#[test]
fn groups_of_one_source_are_taken_apart() {
    let network = Parts::of(&[(0, 1), (1, 2), (2, 3)], &[1; 4]).network(&[]);
    let search = Search::new(&network, network.sources().collect());
    let all = (0..4).map(|source| search.group_of(source)).collect();
    let groups = search.improved(all, &mut Random::new(1));
    assert_eq!(groups.iter().map(|group| group.members.len()).collect::<Vec<_>>(), [4]);
}

/// The exact search without any bound, and all others together.
#[test]
fn the_exact_search_alone_finds_as_few() {
    let mut proven_count = 0;
    for seed in 0..60 {
        let network = Parts::random(seed, 10, false).network(&[]);
        let fewest = fewest(&network, seed);
        let search = Search::new(&network, network.sources().collect());
        let (best, is_finished) = search.exact(usize::MAX, 0);
        let mut trees: Vec<Vec<u32>> = fewest.paths.trees.iter().map(RootedTree::links).collect();
        trees.sort_unstable();
        trees.dedup();
        assert!(search.lower_bound() <= trees.len(), "{seed}");
        if is_finished {
            proven_count += 1;
            assert_eq!((best.unwrap().len(), fewest.tree_count_min), (trees.len(), trees.len()), "{seed}");
        }
    }
    assert!(proven_count > 50, "{proven_count}");
}

/// Also from the worst there is: every source in a group of its own.
#[test]
fn what_is_proven_is_the_fewest_whatever_was_found_before() {
    for seed in 0..40 {
        let network = Parts::random(seed, 8, false).network(&[]);
        let search = Search::new(&network, network.sources().collect());
        let all: Vec<Group> = (0..search.sources.len()).map(|source| search.group_of(source)).collect();
        let (groups, least) = search.proven(all.clone(), search.lower_bound());
        assert_eq!((groups.len(), least), {
            let fewest = fewest(&network, seed).tree_count_min;
            (fewest, fewest)
        });
        let members: usize = groups.iter().map(|group| group.members.len()).sum();
        assert_eq!(members, all.len(), "{seed}");
        // Nothing is looked for below the least that there can be, nor on networks with bare switches.
        assert_eq!(search.proven(all.clone(), all.len()).0.len(), all.len());
    }
    let bare = Parts::of(&[(0, 1), (1, 2)], &[1, 0, 1]).network(&[]);
    let search = Search::new(&bare, vec![0, 2]);
    let (groups, least) = search.proven(vec![search.group_of(0), search.group_of(1)], 1);
    assert_eq!((groups.len(), least), (2, 1));
}

#[test]
fn sets_of_arcs_are_those_that_were_put_into_them() {
    const COUNT: usize = 200;
    let mut random = Random::new(3);
    for _ in 0..200 {
        let [(a, in_a), (b, in_b)] = [(); 2].map(|()| {
            let (mut set, mut there) = (ArcSet { words: vec![0; COUNT.div_ceil(64)] }, vec![false; COUNT]);
            for _ in 0..random.index(8) {
                let arc = random.index(COUNT);
                set.insert(arc);
                there[arc] = true;
                if random.one_in(4) {
                    set.remove(arc);
                    there[arc] = false;
                }
            }
            (set, there)
        });
        assert!((0..COUNT).all(|arc| a.contains(arc) == in_a[arc]));
        let start = random.index(COUNT);
        let arcs = start..start + random.index(COUNT - start + 1);
        assert_eq!(a.meets(&b, arcs.clone()), arcs.clone().any(|arc| in_a[arc] && in_b[arc]), "{arcs:?}");
    }
    let mut one = ArcSet { words: vec![0; 3] };
    for arc in [0, 63, 64, 127, 128, 191] {
        one.insert(arc);
        assert!(one.contains(arc) && one.meets(&one, arc..arc + 1) && !one.meets(&one, arc + 1..arc + 1));
        assert!(!one.meets(&one, arc + 1..192) && (arc == 0 || !one.meets(&one, 0..arc)));
        one.remove(arc);
        assert!(!one.contains(arc) && !one.meets(&one, 0..192));
    }
}

/// Neighbours need the link between them: more trees than sources are held against each other.
#[test]
fn many_neighbours_need_as_many_trees_as_hold_their_links() {
    let count = 263;
    let complete: Vec<(u32, u32)> = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
    let network = Parts::of(&complete, &vec![1; count as usize]).network(&[]);
    let search = Search::new(&network, network.sources().collect());
    assert_eq!(search.lower_bound(), 132);
}

#[test]
fn no_fewer_trees_are_possible_than_is_said() {
    let bound = |links: &[(u32, u32)], weights: &[u32]| {
        let network = Parts::of(links, weights).network(&[]);
        Search::new(&network, network.sources().collect()).lower_bound()
    };
    let complete: Vec<(u32, u32)> = (0..6).flat_map(|a| (a + 1..6).map(move |b| (a, b))).collect();
    assert_eq!(bound(&complete, &[1; 6]), 6);
    assert_eq!(bound(&complete, &[1, 1, 1, 1, 1, 0]), 1, "not looked into where a switch has no hosts");
    let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)];
    assert_eq!(bound(&ring, &[1; 5]), 5);
    assert_eq!(bound(&ring[..4], &[1; 5]), 1, "a row");
    assert_eq!(bound(&[], &[1]), 1, "one switch");
    // A cube: each pair of neighbours can share, and four switches of which no two are neighbours cannot.
    let cube = (0..8_u32).flat_map(|a| [1, 2, 4].map(|bit| (a, a ^ bit))).filter(|(a, b)| a < b);
    assert_eq!(bound(&cube.collect::<Vec<_>>(), &[1; 8]), 4);
}

#[test]
fn equally_short_ways_are_spread_by_load_or_by_rank() {
    // Eight leaves, each cabled to four spines.
    let links: Vec<(u32, u32)> = (0..8).flat_map(|leaf| (8..12).map(move |spine| (leaf, spine))).collect();
    let network = Parts::of(&links, &[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]).network(&[]);
    let [by_load, by_rank] = [Spread::ByLoad, Spread::ByRank].map(|spread| {
        let paths = balanced(&network, spread);
        assert!(paths.trees.iter().all(|tree| tree.depths()[..8].iter().all(|&depth| depth <= 2)));
        by_source(&network, paths)
    });
    // Two leaves climb through each spine.
    assert_eq!(by_rank.trees.len(), 4);
    // Seven flows come to a leaf, over four links; by rank some of these have two of eight.
    let down = |solution: &Solution| {
        let flows = evaluate(&network, solution).flows;
        (0..32).map(|link| flows[network.channel(link, network.ends(link)[1]).index()]).max()
    };
    assert_eq!(down(&by_load), Some(2));
    // Three hosts and twice one send over two links side by side: three and two flows, by rank four and
    // one.
    let links = [(0, 1), (0, 1), (1, 2), (1, 3), (1, 4)];
    let network = Parts::of(&links, &[1, 0, 3, 1, 1]).network(&[]);
    let flows = |spread| evaluate(&network, &by_source(&network, balanced(&network, spread))).flows;
    let busiest =
        |spread| [0, 1].map(|link| flows(spread)[network.channel(link, 1).index()]).into_iter().max();
    assert_eq!([Spread::ByLoad, Spread::ByRank].map(busiest), [Some(3), Some(4)]);
    // Links side by side take turns.
    let network = Parts::of(&[(0, 1), (0, 1), (1, 2)], &[1; 3]).network(&[]);
    let flows = evaluate(&network, &by_source(&network, balanced(&network, Spread::ByLoad))).flows;
    assert_eq!([0, 1].map(|link| flows[network.channel(link, 1).index()]), [1, 1]);
}

#[test]
fn pairs_can_share_where_a_spanning_tree_serves_both() {
    let mut random = Random::new(8);
    for round in 0..150 {
        let (links, has_hosts) = graph(&mut random, true);
        let network = network(&links, &has_hosts);
        let search = Search::new(&network, network.sources().collect());
        let shortest = distances(&links, u32::MAX, has_hosts.len());
        let count = has_hosts.len();
        let trees: Vec<u32> =
            (0_u32..1 << links.len()).filter(|tree| tree.count_ones() as usize == count - 1).collect();
        for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let serves = |tree: &u32| {
                let over_tree = distances(&links, *tree, count);
                over_tree[a] == shortest[a] && over_tree[b] == shortest[b]
            };
            assert_eq!(search.can_pair(a, b), trees.iter().any(serves), "{round}: {links:?}: {a} and {b}");
        }
    }
}
