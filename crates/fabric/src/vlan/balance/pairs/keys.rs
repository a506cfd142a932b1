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

#[cfg(test)]
mod tests {
    use super::super::super::super::networks_for_tests::Parts;
    use super::*;

    /// Where routes leave it open, links lead up towards a root, and switches that are farther lie higher.
    #[test]
    fn switches_are_higher_than_those_that_links_lead_up_to() {
        for seed in 0..40 {
            let network = Parts::random(seed, 10, seed % 2 == 0).network(&[]);
            let order = Order::new(&network, false, false);
            let open = vec![0; network.arc_count()];
            for root in network.alive() {
                let heights = heights(&network, &order, &open, root).expect("nothing goes up in a cycle");
                let distances = network.distances(root);
                for switch in network.alive() {
                    for arc in network.arcs(switch) {
                        let place_of = |switch: u32| (distances[switch as usize], switch);
                        let is_higher = heights[switch as usize] > heights[arc.to as usize];
                        assert_eq!(is_higher, place_of(switch) > place_of(arc.to), "{seed}: {switch}");
                    }
                }
                let mut all: Vec<i64> = network.alive().map(|switch| heights[switch as usize]).collect();
                all.sort_unstable();
                assert!(all.iter().copied().eq(1..=all.len() as i64), "{all:?}");
            }
        }
    }

    #[test]
    fn links_that_lead_up_in_a_cycle_have_no_heights() {
        let network = Parts::of(&[(0, 1), (1, 2), (0, 2)], &[1; 3]).network(&[]);
        let order = Order::new(&network, false, false);
        // From each switch the link to the next is up.
        let own: Vec<i64> = (0..network.arc_count())
            .map(|place| {
                let from = network.arc(order.reverse[place] as usize).to;
                if (from + 1) % 3 == network.arc(place).to { 1 } else { -1 }
            })
            .collect();
        assert_eq!(heights(&network, &order, &own, 0), None);
    }
}
