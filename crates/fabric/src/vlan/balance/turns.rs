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
        let deepest = sources.iter().map(|&switch| distances[switch as usize]).max().unwrap_or(1).max(1);
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
