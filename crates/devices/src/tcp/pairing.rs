//! Which interface of ours to try with which of a peer's, in which order.
//!
//! Both sides compute the same from the two cards, so that both dial the same pairs at first; what does not
//! work is replaced by trying on. Each interface of the side that has more is used once, so that no port
//! carries two rails while another has none: with `L` and `R` interfaces there are max(L, R) rails.

use super::card::Endpoint;
use super::interfaces::Address;
use std::net::IpAddr;

/// How promising a pair of interfaces is; more is better, 0 is not worth a try.
fn score(ours: &Endpoint, theirs: &Endpoint) -> u32 {
    let all = ours.addresses.iter().flat_map(|a| theirs.addresses.iter().map(move |b| (a.0, b.0)));
    all.map(|(a, b)| score_addresses(a, b)).max().unwrap_or(0)
}

/// The same for two addresses.
pub(super) fn score_addresses(a: Address, b: Address) -> u32 {
    if a.ip.is_ipv4() != b.ip.is_ipv4() {
        return 0;
    }
    if a.is_link_local() != b.is_link_local() {
        return 0;
    }
    // The same address on two hosts (docker0): it leads home. Two nodes that are one host may have it,
    // though.
    if a.ip == b.ip {
        return 1;
    }
    if a.network_contains(b.ip) && b.network_contains(a.ip) {
        // Where there is a choice, the family that more networks are set up for.
        return if a.ip.is_ipv4() { 6 } else { 5 };
    }
    if a.is_private() == b.is_private() { 3 } else { 2 }
}

/// How often each of `own` interfaces is used where the other side has `other`.
pub(super) fn uses(own: usize, other: usize) -> usize {
    if own == 0 || other == 0 { 0 } else { other.div_ceil(own) }
}

/// For each use of each of our interfaces the peer's interfaces, the most promising first. The index is
/// `use × our count + interface`. The list is empty where no address of the interface can reach any of the
/// peer's.
pub(super) fn plan(ours: &[Endpoint], theirs: &[Endpoint]) -> Vec<Vec<u8>> {
    let (uses_own, uses_their) = (uses(ours.len(), theirs.len()), uses(theirs.len(), ours.len()));
    let mut pairs: Vec<(u32, usize, usize)> = Vec::new();
    for (l, our) in ours.iter().enumerate() {
        for (r, their) in theirs.iter().enumerate() {
            pairs.push((score(our, their), l, r));
        }
    }
    pairs.retain(|pair| pair.0 > 0);
    // Ties: like with like first, then by place; the same order seen from the other side.
    pairs.sort_by_key(|&(score, l, r)| (std::cmp::Reverse(score), l.abs_diff(r), l.min(r)));
    let rails = ours.len().max(theirs.len());
    let (mut left_own, mut left_their) = (vec![uses_own; ours.len()], vec![uses_their; theirs.len()]);
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    for &(_, l, r) in &pairs {
        if chosen.len() < rails && left_own[l] > 0 && left_their[r] > 0 {
            (left_own[l], left_their[r]) = (left_own[l] - 1, left_their[r] - 1);
            chosen.push((l, r));
        }
    }
    let mut plan = vec![Vec::new(); uses_own * ours.len()];
    for (l, _) in ours.iter().enumerate() {
        let firsts: Vec<usize> = chosen.iter().filter(|pair| pair.0 == l).map(|pair| pair.1).collect();
        for copy in 0..uses_own {
            // A use without a partner of its own waits for one that another rail cannot reach.
            let first = firsts.get(copy).copied();
            let rest = pairs.iter().filter(|pair| pair.1 == l).map(|pair| pair.2);
            let order = first.into_iter().chain(rest.filter(|r| Some(*r) != first));
            plan[copy * ours.len() + l] = order.map(|r| r as u8).collect();
        }
    }
    plan
}

/// Whether the host has this address.
pub(super) fn is_own(endpoints: &[Endpoint], ip: IpAddr) -> bool {
    endpoints.iter().flat_map(|endpoint| &endpoint.addresses).any(|(address, _)| address.ip == ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::interfaces::tests::interface;

    fn endpoints(list: &[(&str, &[&str])]) -> Vec<Endpoint> {
        let endpoint = |(name, addresses): &(&str, &[&str])| {
            let interface = interface(name, 1, addresses);
            let ports = interface.addresses.iter().map(|&address| (address, 1000)).collect();
            Endpoint::new(&interface, ports)
        };
        list.iter().map(endpoint).collect()
    }

    fn first(plan: &[Vec<u8>]) -> Vec<Option<u8>> {
        plan.iter().map(|list| list.first().copied()).collect()
    }

    #[test]
    fn interfaces_of_one_network_pair_in_any_order() {
        let a = endpoints(&[("e1", &["10.1.0.1/24"]), ("e2", &["10.2.0.1/24"])]);
        let b = endpoints(&[("x", &["10.2.0.2/24"]), ("y", &["10.1.0.2/24"])]);
        assert_eq!(first(&plan(&a, &b)), [Some(1), Some(0)]);
        assert_eq!(first(&plan(&b, &a)), [Some(1), Some(0)]);
    }

    #[test]
    fn ports_of_one_network_are_paired_one_to_one() {
        let a = endpoints(&[("e1", &["10.0.0.1/24"]), ("e2", &["10.0.0.2/24"]), ("e3", &["10.0.0.3/24"])]);
        let b = endpoints(&[("e1", &["10.0.0.4/24"]), ("e2", &["10.0.0.5/24"]), ("e3", &["10.0.0.6/24"])]);
        assert_eq!(first(&plan(&a, &b)), [Some(0), Some(1), Some(2)]);
        assert_eq!(plan(&a, &b)[0].len(), 3);
    }

    /// The first of one side reaches both of the other for sure, the second one only may.
    #[test]
    fn no_port_is_used_twice_where_another_has_no_rail() {
        let a = endpoints(&[("e1", &["10.0.0.1/24"]), ("e2", &["192.168.0.1/24"])]);
        let b = endpoints(&[("e1", &["10.0.0.2/24"]), ("e2", &["10.0.0.3/24"])]);
        assert_eq!(first(&plan(&a, &b)), [Some(0), Some(1)]);
        assert_eq!(first(&plan(&b, &a)), [Some(0), Some(1)]);
        // The second one reaches the first of the other better, which the first one has.
        let a = endpoints(&[("e1", &["10.0.0.1/24", "fd00::1/64"]), ("e2", &["192.168.1.1/24"])]);
        let b = endpoints(&[("e1", &["10.0.0.2/24"]), ("e2", &["fd00::2/64", "8.8.8.8/24"])]);
        assert_eq!(first(&plan(&a, &b)), [Some(0), Some(1)]);
        assert_eq!([uses(2, 2), uses(2, 3), uses(3, 2), uses(0, 2), uses(2, 0)], [1, 2, 1, 0, 0]);
    }

    #[test]
    fn an_interface_without_an_address_reaches_nobody() {
        let (none, one) = (endpoints(&[("e1", &[])]), endpoints(&[("e1", &["10.0.0.2/24"])]));
        assert_eq!((plan(&none, &one), plan(&one, &none)), (vec![vec![]], vec![vec![]]));
    }

    #[test]
    fn side_with_more_ports_uses_each_once_the_other_reuses_its_own() {
        let a = endpoints(&[("e1", &["10.0.0.1/24"]), ("e2", &["10.0.0.2/24"])]);
        let b = endpoints(&[("e1", &["10.0.0.9/24"])]);
        assert_eq!(first(&plan(&a, &b)), [Some(0), Some(0)]);
        let mut from_b: Vec<_> = first(&plan(&b, &a));
        from_b.sort_unstable();
        assert_eq!(from_b, [Some(0), Some(1)]);
    }

    #[test]
    fn a_bridge_with_the_same_address_everywhere_is_tried_last() {
        let a = endpoints(&[("docker0", &["172.17.0.1/16"]), ("eth0", &["10.0.0.1/24"])]);
        let b = endpoints(&[("docker0", &["172.17.0.1/16"]), ("eth0", &["10.0.0.2/24"])]);
        assert_eq!(first(&plan(&a, &b))[1], Some(1));
        assert_eq!(plan(&a, &b)[1], [1, 0]);
    }

    #[test]
    fn addresses_that_reach_each_other_for_sure_come_first() {
        let address = |text: &str| interface("e", 1, &[text]).addresses[0];
        let score = |a: &str, b: &str| score_addresses(address(a), address(b));
        // From the best down.
        let scores = [
            score("10.0.0.1/24", "10.0.0.2/24"),
            score("fd00::1/64", "fd00::2/64"),
            score("10.0.0.1/24", "192.168.0.1/24"),
            score("10.0.0.1/24", "8.8.8.8/24"),
            score("10.0.0.1/24", "10.0.0.1/24"),
            score("169.254.0.1/16", "10.0.0.1/24"),
        ];
        assert!(scores.is_sorted_by(|a, b| a > b) && scores[5] == 0, "{scores:?}");
        assert_eq!(score("fe80::1/64", "fd00::1/64"), 0);
        for (a, b) in
            [("fd00::1/64", "fd01::1/64"), ("::1/128", "fd01::1/64"), ("2001:db8::1/64", "2001:db9::1/64")]
        {
            assert_eq!(score(a, b), scores[2], "both private or neither: {a} {b}");
        }
        assert_eq!(score("2001:db8::1/64", "fd01::1/64"), scores[3]);
        assert_eq!(score("10.0.0.1/16", "10.0.5.1/24"), scores[2], "only one is in the other's network");
        let own = endpoints(&[("e", &["10.0.0.1/24"]), ("f", &["10.0.1.1/24", "fd00::1/64"])]);
        assert!(is_own(&own, address("fd00::1/8").ip) && !is_own(&own, address("10.0.0.2/24").ip));
    }

    #[test]
    fn families_do_not_mix() {
        let a = endpoints(&[("e1", &["10.0.0.1/24"])]);
        let b = endpoints(&[("e1", &["fd00::1/64"])]);
        assert_eq!(plan(&a, &b), [Vec::<u8>::new()]);
        assert_eq!(plan(&a, &[]), Vec::<Vec<u8>>::new());
    }
}
