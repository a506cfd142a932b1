//! Addresses of hosts' interfaces: those in use stay, others get what is free.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::description::Machine;
use crate::plan::Subnet;

use super::in_use::{InUse, KeptAttachment};

/// What is dealt to hosts' interfaces.
pub(super) struct Addresses {
    /// By rail.
    subnets: Vec<Subnet>,
    taken: Taken<Ipv4Addr>,
    /// Numbers in the VLANs' subnets.
    numbers: Taken<u32>,
}

/// What interfaces have, and what those have had that are gone: they may come back, so it is dealt last.
struct Taken<T> {
    now: BTreeSet<T>,
    before: BTreeSet<T>,
}

impl<T: Ord + Copy> Taken<T> {
    /// The first of them that nothing has.
    fn first_free(&self, all: impl Iterator<Item = T> + Clone) -> Option<T> {
        let is_free = |one: &T| !self.now.contains(one) && !self.before.contains(one);
        all.clone().find(is_free).or_else(|| all.into_iter().find(|one| !self.now.contains(one)))
    }
}

impl Addresses {
    /// Nothing is dealt yet. `kept`: the rails of the interfaces that are in the plan in use, and what they
    /// have there.
    pub(super) fn new(
        machine: &Machine,
        in_use: Option<&InUse>,
        kept: &[(usize, &KeptAttachment)],
    ) -> Addresses {
        let rail_count = machine.hosts.iter().map(|host| host.attachments.len()).max().unwrap_or(1);
        let whole = machine.options.host_subnet;
        let host_count = machine.hosts.len() as u64;
        let for_hosts = |count: u64| {
            let subnets = split(whole, rail_count as u64, count);
            (!subnets.is_empty()).then_some(subnets)
        };
        // All hosts have prefixes of one length. It does not become longer: hosts would have to be moved.
        let in_use_count = in_use.and_then(InUse::hosts_max).unwrap_or(0);
        let subnets = for_hosts(host_count.max(in_use_count)).or_else(|| for_hosts(host_count));
        let subnets = subnets.unwrap_or_else(|| vec![whole; rail_count]);
        let stays = |(rail, kept): &&(usize, &KeptAttachment)| subnets[*rail].contains(kept.address);
        let (addresses, numbers) = in_use.into_iter().flat_map(InUse::taken).unzip();
        Addresses {
            taken: Taken {
                now: kept.iter().filter(stays).map(|(_, kept)| kept.address).collect(),
                before: addresses,
            },
            numbers: Taken {
                now: kept.iter().map(|(_, kept)| kept.address_number).collect(),
                before: numbers,
            },
            subnets,
        }
    }

    /// Address, its prefix, and the number in the VLANs' subnets, of an interface: of the `host`-th host, on
    /// a rail, the `number`-th of all. A host has the same number in the subnet of every rail, and an
    /// interface its own in those of VLANs, unless others have them already.
    pub(super) fn deal(
        &mut self,
        (host, rail): (u32, usize),
        number: u32,
        kept: Option<&KeptAttachment>,
    ) -> (Ipv4Addr, u8, u32) {
        let subnet = self.subnets[rail];
        let address_number = kept.map_or_else(
            || self.numbers.first_free([number].into_iter().chain(0..)).unwrap_or(number),
            |kept| kept.address_number,
        );
        self.numbers.now.insert(address_number);
        let address = kept.map(|kept| kept.address).filter(|&address| subnet.contains(address));
        let address = address.unwrap_or_else(|| {
            let all = (0..).map_while(|number| subnet.host_address(number));
            let all = subnet.host_address(host).into_iter().chain(all);
            self.taken.first_free(all).unwrap_or(Ipv4Addr::UNSPECIFIED)
        });
        self.taken.now.insert(address);
        (address, subnet.prefix_bits, address_number)
    }
}

/// Parts of a subnet, each with room for so many hosts; of 256 addresses at least, where they fit.
/// Empty if they do not.
pub(super) fn split(base: Subnet, part_count: u64, host_count: u64) -> Vec<Subnet> {
    // Network and broadcast addresses are taken.
    let needed_bits = 64 - (host_count + 1).leading_zeros();
    let base_bits = 32 - u32::from(base.prefix_bits);
    let fits = |bits: u32| bits <= base_bits && part_count <= 1 << (base_bits - bits);
    let Some(bits) = [needed_bits.max(8), needed_bits.max(2)].into_iter().find(|&bits| fits(bits)) else {
        return Vec::new();
    };
    let part = |index: u64| Subnet {
        network: Ipv4Addr::from(u32::from(base.network) + ((index << bits) as u32)),
        prefix_bits: (32 - bits) as u8,
    };
    (0..part_count).map(part).collect()
}
