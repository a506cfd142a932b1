//! An order of the channels in which whole trees go forwards, not only the routes.
//!
//! With an acyclic orientation of the links (up and down, as in up*/down* routing), each switch higher than
//! those that its up links lead to, a tree's turns are all allowed if no switch has two up links in it.
//! Which direction of a link is up follows from the routes: one that is taken earlier than its other
//! direction. Where they leave it open, up is towards a root.

use super::super::super::network::Network;
use super::super::order::Order;

/// By channel: along every route, and back, these increase; a link's two directions have opposite ones. Those
/// of an acyclic orientation, or else what the routes' own order gives.
pub(super) fn keys(network: &Network, order: &Order<'_>) -> Vec<i64> {
    let places = 0..network.arc_count() as u32;
    let early: Vec<i64> = places.map(|arc| order.waiting_count(arc)).collect();
    let back = |place: usize| order.reverse[place] as usize;
    let own: Vec<i64> = (0..early.len()).map(|place| early[place] - early[back(place)]).collect();
    let heights = network.alive().find_map(|root| heights(network, order, &own, root));
    let mut keys = vec![0; 2 * network.link_count()];
    for (place, own) in own.iter().enumerate() {
        let back = order.reverse[place];
        let [from, to] = [back as usize, place].map(|place| network.arc(place).to);
        let channel = network.channel(network.arc(place).link, from);
        keys[channel.index()] = match &heights {
            Some(heights) => {
                let [from, to] = [from, to].map(|switch| heights[switch as usize]);
                if from > to { -from } else { to }
            }
            None => -own,
        };
    }
    keys
}

/// By switch: more than those have that its up links lead to. `None` if links go up in a cycle.
fn heights(network: &Network, order: &Order<'_>, own: &[i64], root: u32) -> Option<Vec<i64>> {
    let distances = network.distances(root);
    let place_of = |switch: u32| (distances[switch as usize], switch);
    let is_up = |place: usize| {
        let back = order.reverse[place] as usize;
        let [from, to] = [back, place].map(|place| network.arc(place).to);
        own[place] > 0 || (own[place] == 0 && place_of(from) > place_of(to))
    };
    let mut ups_left: Vec<usize> = vec![0; network.switch_count()];
    for switch in network.alive() {
        ups_left[switch as usize] = network.arc_range(switch).filter(|&place| is_up(place)).count();
    }
    let mut heights = vec![0; network.switch_count()];
    let mut lowest: Vec<u32> = network.alive().filter(|&switch| ups_left[switch as usize] == 0).collect();
    let mut at = 0;
    while let Some(&switch) = lowest.get(at) {
        at += 1;
        heights[switch as usize] = at as i64;
        for place in network.arc_range(switch).filter(|&place| !is_up(place)) {
            let to = network.arc(place).to;
            ups_left[to as usize] -= 1;
            if ups_left[to as usize] == 0 {
                lowest.push(to);
            }
        }
    }
    (at == network.alive().count()).then_some(heights)
}
