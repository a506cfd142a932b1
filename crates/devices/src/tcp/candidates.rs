//! Pairs of addresses that may be tried for each rail to a peer.

use super::card::{Card, Endpoint};
use super::interfaces::Address;
use super::pairing;
use ayatori_core::connect::RailPlan;
use ayatori_core::ids::Rail;
use std::net::SocketAddr;

/// Most address pairs tried for one rail.
const CANDIDATES_MAX: usize = 32;

/// One thing to try: from an address of ours to one of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// The peer's interface.
    pub(super) partner: u8,
    pub(super) from: Address,
    pub(super) to: SocketAddr,
}

/// The rails to a peer with this card, and the candidates of each.
pub(super) fn rail_plans(
    first_rail: u8,
    ours: &[Endpoint],
    card: &Card,
) -> (Vec<RailPlan>, Vec<Vec<Candidate>>) {
    let rails = pairing::plan(ours, &card.endpoints).into_iter().enumerate().map(|(place, partners)| {
        let interface = (place % ours.len()) as u8;
        let endpoint = &ours[usize::from(interface)];
        let all = partners.iter().flat_map(|&partner| candidates(endpoint, partner, card));
        let all: Vec<Candidate> = all.take(CANDIDATES_MAX).collect();
        let partners = all.iter().map(|candidate| candidate.partner).collect();
        (RailPlan { rail: Rail(first_rail + place as u8), interface, candidates: partners }, all)
    });
    rails.unzip()
}

/// The pairs of addresses of two interfaces, the most promising first.
fn candidates(endpoint: &Endpoint, partner: u8, card: &Card) -> Vec<Candidate> {
    let theirs = &card.endpoints[usize::from(partner)];
    let mut list: Vec<(u32, Candidate)> = Vec::new();
    for &(from, _) in &endpoint.addresses {
        for (place, to) in theirs.sockets().enumerate() {
            let score = pairing::score_addresses(from, theirs.addresses[place].0);
            list.push((score, Candidate { partner, from, to }));
        }
    }
    list.retain(|entry| entry.0 > 0);
    list.sort_by_key(|entry| std::cmp::Reverse(entry.0));
    list.into_iter().map(|entry| entry.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::interfaces::tests::interface;

    #[test]
    fn address_pairs_that_may_work_are_tried_the_best_first() {
        let endpoint = |addresses: &[&str], port: u16| {
            let interface = interface("e1", 1, addresses);
            let with_ports = interface.addresses.iter().map(|&address| (address, port)).collect();
            Endpoint::new(&interface, with_ports)
        };
        let ours = endpoint(&["172.17.0.1/16", "fd00::1/64", "10.0.0.1/24", "169.254.0.1/16"], 1);
        let theirs = endpoint(&["172.17.0.1/16", "fd00::2/64", "10.0.0.2/24"], 2);
        let card = Card { node: 0, cpus_count: 1, endpoints: vec![theirs] };
        let tried: Vec<String> = candidates(&ours, 0, &card)
            .iter()
            .map(|candidate| format!("{} {}", candidate.from.ip, candidate.to))
            .collect();
        let wanted = [
            "10.0.0.1 10.0.0.2:2",
            "fd00::1 [fd00::2]:2",
            "172.17.0.1 10.0.0.2:2",
            "10.0.0.1 172.17.0.1:2",
            "172.17.0.1 172.17.0.1:2",
        ];
        assert_eq!(tried, wanted);
    }
}
