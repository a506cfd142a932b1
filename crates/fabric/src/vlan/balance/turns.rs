//! The order of the channels that a negotiation moves: how it begins, and how it follows what routes want.

use super::super::network::Network;
use super::order::Order;
use ayatori_random::Random;

const SWEEPS_MAX: usize = 20;
/// What a turn of the escape weighs.
const KEPT: f64 = 1e12;

/// An order of the channels in which all turns of a spanning tree go forwards, and what each turn weighs for
/// that. Without an escape: any order, and no weights. `is_mirrored`: see [`sifted`].
pub(super) fn escape(
    network: &Network,
    order: &Order<'_>,
    is_wanted: bool,
    is_mirrored: bool,
    random: &mut Random,
) -> (Vec<u32>, Vec<f64>) {
    let mut kept = vec![0.0; order.dependency_count_max()];
    let arc_count = network.arc_count();
    let mut keys: Vec<f64> =
        (0..arc_count).map(|_| random.index(1 << 20) as f64 / (1 << 20) as f64).collect();
    let sources: Vec<u32> = network.sources().collect();
    let root = sources[random.index(sources.len())];
    // By arc: 1 up the tree, 2 down.
    let mut kinds = vec![0_u8; arc_count];
    if is_wanted {
        let distances = network.distances(root);
        let deepest = sources.iter().map(|&switch| distances[switch as usize]).max().unwrap_or(1);
        for switch in network.alive().filter(|&switch| switch != root) {
            let depth = distances[switch as usize];
            let ups: Vec<usize> = network
                .arc_range(switch)
                .filter(|&place| distances[network.arc(place).to as usize] < depth)
                .collect();
            let up = ups[random.index(ups.len())];
            let down = order.reverse[up] as usize;
            (kinds[up], kinds[down]) = (1, 2);
            // Upwards the deepest first, then downwards the deepest last; nothing has a key of 1 or more
            // but these.
            let share = f64::from(depth) / f64::from(deepest.max(depth));
            (keys[up], keys[down]) = (0.5 - share / 2.0, 0.5 + share / 2.0);
        }
    }
    let ranks = if is_mirrored { mirrored(order, &keys) } else { ranked(arc_count, &keys) };
    for held in (0..arc_count).filter(|&held| kinds[held] > 0) {
        for wanted in network.arc_range(network.arc(held).to) {
            let is_turn = kinds[wanted] >= kinds[held] && order.reverse[held] as usize != wanted;
            if is_turn && ranks[held] < ranks[wanted] {
                kept[order.index(held as u32, wanted as u32)] = KEPT;
            }
        }
    }
    (ranks, kept)
}

/// The rank of each channel by its key.
fn ranked(arc_count: usize, keys: &[f64]) -> Vec<u32> {
    let mut places: Vec<usize> = (0..arc_count).collect();
    places.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    let mut ranks = vec![0; arc_count];
    places.iter().enumerate().for_each(|(rank, &place)| ranks[place] = rank as u32);
    ranks
}

/// The same, with the two directions of a link as far from the beginning and from the end. Where two
/// channels and their mirror images are both in order by their keys, they are so afterwards.
pub(super) fn mirrored(order: &Order<'_>, keys: &[f64]) -> Vec<u32> {
    let arc_count = keys.len();
    let key = |place: usize| keys[place] - keys[order.reverse[place] as usize];
    // The earlier direction of each link.
    let is_earlier = |&place: &usize| (key(place), place) < (0.0, order.reverse[place] as usize);
    let mut places: Vec<usize> = (0..arc_count).filter(is_earlier).collect();
    places.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
    let mut ranks = vec![0; arc_count];
    for (rank, &place) in places.iter().enumerate() {
        ranks[place] = rank as u32;
        ranks[order.reverse[place] as usize] = (arc_count - 1 - rank) as u32;
    }
    ranks
}

/// The order after each channel in turn has gone to where the least weight goes against it. `is_mirrored`:
/// the other direction of a link is always as far from the end as the one is from the beginning, so that a
/// route goes forwards if its way back does; the weights must be those of both.
pub(super) fn sifted(
    network: &Network,
    order: &Order<'_>,
    weights: &[f64],
    is_mirrored: bool,
    random: &mut Random,
) -> Vec<u32> {
    let count = network.arc_count();
    let mut ranks = order.ranks().to_vec();
    let mut places = vec![0_usize; count];
    ranks.iter().enumerate().for_each(|(place, &rank)| places[rank as usize] = place);
    for _ in 0..SWEEPS_MAX {
        let mut turns: Vec<usize> = (0..count).collect();
        random.shuffle(&mut turns);
        let mut has_moved = false;
        for channel in turns {
            let mine = ranks[channel] as usize;
            let Some(target) = better_place(network, order, weights, &ranks, channel) else { continue };
            has_moved = true;
            places.remove(mine);
            if is_mirrored {
                let back = order.reverse[channel] as usize;
                place_both(&mut places, target, channel, back);
                places.iter().enumerate().for_each(|(rank, &place)| ranks[place] = rank as u32);
                continue;
            }
            places.insert(target, channel);
            for rank in mine.min(target)..=mine.max(target) {
                ranks[places[rank]] = rank as u32;
            }
        }
        if !has_moved {
            break;
        }
    }
    ranks
}

/// Puts a channel that was taken out at `target`, and the other direction of its link as far from the end.
fn place_both(places: &mut Vec<usize>, target: usize, channel: usize, back: usize) {
    let old = places.iter().position(|&place| place == back).unwrap_or(0);
    places.remove(old);
    let before = if old < target { target - 1 } else { target };
    let after = places.len() - before;
    if before <= after {
        places.insert(after, back);
        places.insert(before, channel);
    } else {
        places.insert(before, channel);
        places.insert(after, back);
    }
}

/// The rank at which less weight goes against the order than where a channel is, if there is one.
fn better_place(
    network: &Network,
    order: &Order<'_>,
    weights: &[f64],
    ranks: &[u32],
    channel: usize,
) -> Option<usize> {
    let after = network.arc_range(network.arc(channel).to);
    let after = after.map(|next| (ranks[next] as usize, weights[order.index(channel as u32, next as u32)]));
    let from = network.arc(order.reverse[channel] as usize).to;
    let before = network.arc_range(from).map(|leaving| order.reverse[leaving]);
    let before =
        before.map(|held| (ranks[held as usize] as usize, -weights[order.index(held, channel as u32)]));
    let mut near: Vec<(usize, f64)> = after.chain(before).filter(|(_, weight)| *weight != 0.0).collect();
    near.sort_unstable_by_key(|&(rank, _)| rank);
    // Cost of each position behind the first ones, relative to the position before all of them.
    let mine = ranks[channel] as usize;
    let (mut cost, mut here) = (0.0, 0.0);
    let (mut least, mut behind) = (0.0, None);
    for &(rank, weight) in &near {
        cost += weight;
        if rank < mine {
            here = cost;
        }
        if cost < least - 1e-9 {
            (least, behind) = (cost, Some(rank));
        }
    }
    if least >= here - 1e-9 {
        return None;
    }
    // Taking the channel out moves those behind it forwards.
    let target = behind.map_or(near[0].0, |rank| rank + 1);
    Some(if target > mine { target - 1 } else { target })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::test_network;
    use super::*;

    fn network(topology: &str) -> Network {
        test_network(topology, 1)
    }

    const TOPOLOGIES: [&str; 3] = [
        "kind = \"mesh\"\nextents = [3, 3]",
        "kind = \"torus\"\nextents = [4, 3]",
        "kind = \"complete\"\nswitches = 5",
    ];

    /// All pairs of channels of which one can follow the other.
    fn pairs(network: &Network) -> Vec<(usize, usize)> {
        let after = |held: usize| network.arc_range(network.arc(held).to).map(move |wanted| (held, wanted));
        (0..network.arc_count()).flat_map(after).collect()
    }

    /// The weight of what goes against an order.
    fn against(network: &Network, order: &Order<'_>, weights: &[f64], ranks: &[u32]) -> f64 {
        let is_against = |&(held, wanted): &(usize, usize)| ranks[held] >= ranks[wanted];
        let weight = |(held, wanted): (usize, usize)| weights[order.index(held as u32, wanted as u32)];
        pairs(network).into_iter().filter(is_against).map(weight).sum()
    }

    fn assert_is_order(ranks: &[u32]) {
        let all: BTreeSet<u32> = ranks.iter().copied().collect();
        assert!(all.len() == ranks.len() && all.iter().max() == Some(&(ranks.len() as u32 - 1)), "{ranks:?}");
    }

    /// A channel at another place, the others in their order.
    fn moved(ranks: &[u32], channel: usize, target: usize) -> Vec<u32> {
        let mut places: Vec<usize> = (0..ranks.len()).collect();
        places.sort_by_key(|&place| ranks[place]);
        places.retain(|&place| place != channel);
        places.insert(target, channel);
        let mut changed = vec![0; ranks.len()];
        places.iter().enumerate().for_each(|(rank, &place)| changed[place] = rank as u32);
        changed
    }

    #[test]
    fn a_better_place_is_the_best_of_all_and_sifting_finds_it() {
        let mut random = Random::new(5);
        for topology in TOPOLOGIES {
            let network = network(topology);
            let mut order = Order::new(&network, true, false);
            let count = network.arc_count();
            for round in 0..6 {
                let weights: Vec<f64> = (0..order.dependency_count_max())
                    .map(|_| if random.index(3) == 0 { 0.0 } else { random.index(9) as f64 })
                    .collect();
                let keys: Vec<f64> = (0..count).map(|_| random.index(1000) as f64).collect();
                let ranks = ranked(count, &keys);
                assert_is_order(&ranks);
                assert!(
                    pairs(&network)
                        .iter()
                        .all(|&(a, b)| keys[a] == keys[b] || (keys[a] < keys[b]) == (ranks[a] < ranks[b]))
                );
                let cost = |ranks: &[u32]| against(&network, &order, &weights, ranks);
                for channel in (0..count).step_by(3) {
                    let least = (0..count)
                        .map(|target| cost(&moved(&ranks, channel, target)))
                        .fold(f64::MAX, f64::min);
                    let found = better_place(&network, &order, &weights, &ranks, channel);
                    let here = found.map_or(cost(&ranks), |target| cost(&moved(&ranks, channel, target)));
                    assert!(here <= least + 1e-6, "{topology}: channel {channel}: {here} of {least}");
                    assert!(found.is_none() || here < cost(&ranks));
                }
                let before = cost(&ranks);
                order.set_ranks(ranks);
                let after = sifted(&network, &order, &weights, false, &mut random);
                assert_is_order(&after);
                let now = against(&network, &order, &weights, &after);
                assert!(now < before, "{topology} {round}: {now} of {before}");
                // No channel has a better place any more: there were fewer sweeps than are allowed.
                assert!(
                    (0..count)
                        .all(|channel| better_place(&network, &order, &weights, &after, channel).is_none())
                );
            }
        }
    }

    #[test]
    fn a_mirrored_order_is_the_same_from_both_ends() {
        let mut random = Random::new(6);
        for topology in TOPOLOGIES {
            let network = network(topology);
            let mut order = Order::new(&network, true, false);
            let count = network.arc_count() as u32;
            let is_mirrored = |order: &Order<'_>, ranks: &[u32]| {
                (0..ranks.len()).all(|place| ranks[place] + ranks[order.reverse[place] as usize] == count - 1)
            };
            for _ in 0..6 {
                let keys: Vec<f64> = (0..count).map(|_| random.index(1000) as f64).collect();
                let ranks = mirrored(&order, &keys);
                assert_is_order(&ranks);
                assert!(is_mirrored(&order, &ranks));
                // Two channels that are in order by their keys, and back, are in order.
                let back = |place: usize| order.reverse[place] as usize;
                for (a, b) in pairs(&network) {
                    if keys[a] < keys[b] && keys[back(b)] < keys[back(a)] {
                        assert!(ranks[a] < ranks[b], "{topology}");
                    }
                }
                // Weights of routes there and back.
                let mut weights = vec![0.0; order.dependency_count_max()];
                for (held, wanted) in pairs(&network) {
                    let weight = random.index(9) as f64;
                    weights[order.index(held as u32, wanted as u32)] += weight;
                    weights[order.index(back(wanted) as u32, back(held) as u32)] += weight;
                }
                let before = against(&network, &order, &weights, &ranks);
                order.set_ranks(ranks);
                let after = sifted(&network, &order, &weights, true, &mut random);
                assert_is_order(&after);
                assert!(is_mirrored(&order, &after), "{topology}");
                assert!(against(&network, &order, &weights, &after) < before, "{topology}");
            }
        }
    }

    /// The kept turns go forwards, and lead from every switch to every other one: settling finds routes.
    #[test]
    fn an_escape_leads_from_everywhere_to_everywhere() {
        for topology in TOPOLOGIES {
            let network = network(topology);
            for (seed, is_mirrored) in (0..12).flat_map(|seed| [(seed, false), (seed, true)]) {
                let order = Order::new(&network, true, false);
                let (ranks, kept) = escape(&network, &order, true, is_mirrored, &mut Random::new(seed));
                assert_is_order(&ranks);
                let last = ranks.len() as u32 - 1;
                let sums =
                    (0..ranks.len()).all(|place| ranks[place] + ranks[order.reverse[place] as usize] == last);
                assert_eq!(sums, is_mirrored, "{topology} {seed}");
                let is_kept =
                    |held: usize, wanted: usize| kept[order.index(held as u32, wanted as u32)] > 0.0;
                let all = pairs(&network);
                assert!(
                    all.iter().all(|&(held, wanted)| !is_kept(held, wanted) || ranks[held] < ranks[wanted])
                );
                // Turns of a tree: no more than its channels allow, and none back.
                let channels: BTreeSet<usize> =
                    all.iter().filter(|&&(a, b)| is_kept(a, b)).flat_map(|&(a, b)| [a, b]).collect();
                assert!(channels.len() <= 2 * (network.switch_count() - 1), "{topology} {seed}");
                assert!(all.iter().all(|&(a, b)| !is_kept(a, b) || order.reverse[a] as usize != b));
                for source in network.sources() {
                    let mut reached = BTreeSet::from([source]);
                    let first: Vec<usize> =
                        network.arc_range(source).filter(|place| channels.contains(place)).collect();
                    let mut queue = first;
                    let mut seen: BTreeSet<usize> = queue.iter().copied().collect();
                    while let Some(held) = queue.pop() {
                        reached.insert(network.arc(held).to);
                        for wanted in network.arc_range(network.arc(held).to) {
                            if is_kept(held, wanted) && seen.insert(wanted) {
                                queue.push(wanted);
                            }
                        }
                    }
                    assert_eq!(reached.len(), network.switch_count(), "{topology} {seed} from {source}");
                }
                let (any, none) = escape(&network, &order, false, is_mirrored, &mut Random::new(seed));
                assert_is_order(&any);
                assert!(none.iter().all(|&weight| weight == 0.0));
            }
        }
    }
}
