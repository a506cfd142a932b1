//! The plan in use, from `plan.json`: the part that a new plan of a changed machine keeps.
//!
//! Kept are VLANs with their identifiers and trees; the VLAN of each host port; the addresses of hosts; the
//! numbers of LAGs. Switches, hosts and their interfaces are the same if their names are, links if their
//! ports are, or else the switches at their ends. So a new cable, switch or host changes the files that it
//! touches and few others.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::description::Machine;
use crate::graph::{Node, SwitchId};
use crate::plan::{
    Attachment, HostPlan, LinkPlan, Plan, PlanFileError, PortNumber, Tagging, VlanId, VlanPlan,
};

use super::network::Network;
use super::solution::{Choice, Senders, Solution};

/// A plan read back. See the module's documentation.
#[derive(Debug, Clone)]
pub struct InUse {
    vlans: Vec<KeptVlan>,
    links: Vec<KeptLink>,
    /// By host and interface.
    attachments: BTreeMap<(String, String), KeptAttachment>,
    /// By switch and the LAG's lowest port.
    lags: BTreeMap<(String, PortNumber), u16>,
    method: String,
}

#[derive(Debug, Clone)]
struct KeptVlan {
    vid: VlanId,
    /// Indices into the links.
    tree: Vec<usize>,
}

#[derive(Debug, Clone)]
struct KeptLink {
    ends: [(String, Vec<PortNumber>); 2],
}

/// What a host's interface keeps.
#[derive(Debug, Clone)]
pub(super) struct KeptAttachment {
    switch: String,
    /// Index into the VLANs.
    vlan: Option<u32>,
    pub(super) address: Ipv4Addr,
    prefix_bits: u8,
    pub(super) address_number: u32,
}

/// Why a file is not the plan in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InUseError {
    /// It is no plan.
    #[error(transparent)]
    File(#[from] PlanFileError),
    /// Plans of this kind are not continued.
    #[error("has hosts that tag; only plans whose switches tag can be continued")]
    HostTagging,
}

impl InUse {
    /// Reads the `plan.json` of `ayatori plan --out`.
    ///
    /// # Errors
    /// If it is none, or of a plan whose hosts tag.
    pub fn parse(text: &str) -> Result<InUse, InUseError> {
        InUse::of(&Plan::parse(text)?)
    }

    /// The part of a plan that is kept.
    ///
    /// # Errors
    /// If its hosts tag.
    pub fn of(plan: &Plan) -> Result<InUse, InUseError> {
        if plan.tagging == Tagging::Host {
            return Err(InUseError::HostTagging);
        }
        let vlan = |vlan: &VlanPlan| KeptVlan {
            vid: vlan.vid,
            tree: vlan.tree.iter().map(|link| link.index()).collect(),
        };
        let name = |switch: SwitchId| plan.switch(switch).name.clone();
        let link = |link: &LinkPlan| KeptLink {
            ends: link.ends.each_ref().map(|end| (name(end.switch), end.ports.clone())),
        };
        let mut attachments = BTreeMap::new();
        for (host, own) in
            plan.hosts.iter().flat_map(|host| host.attachments.iter().map(move |own| (host, own)))
        {
            let kept = KeptAttachment {
                switch: name(own.switch),
                vlan: plan.choice.vlan_index(own, own).map(|index| index as u32),
                address: own.address,
                prefix_bits: own.prefix_bits,
                address_number: own.address_number,
            };
            attachments.insert((host.name.clone(), own.interface.clone()), kept);
        }
        let lags = plan.switches.iter().flat_map(|switch| {
            let lags = switch.lags.iter();
            lags.filter_map(|lag| Some(((switch.name.clone(), *lag.members.iter().min()?), lag.number)))
        });
        Ok(InUse {
            vlans: plan.vlans.iter().map(vlan).collect(),
            links: plan.links.iter().map(link).collect(),
            attachments,
            lags: lags.collect(),
            method: plan.method.clone(),
        })
    }

    /// The VLANs in use on the network as it is now: links that are gone are missing in their trees.
    pub(super) fn solution(&self, machine: &Machine, network: &Network, hosts: &[HostPlan]) -> Solution {
        let now = self.links_now(machine);
        let trees: Vec<Vec<u32>> = self
            .vlans
            .iter()
            .map(|vlan| {
                let mut tree: Vec<u32> = vlan.tree.iter().filter_map(|&link| now[link]).collect();
                tree.sort_unstable();
                tree
            })
            .collect();
        let mut senders: Vec<Vec<Senders>> = vec![Vec::new(); network.switch_count()];
        for host in hosts {
            for attachment in &host.attachments {
                let switch = machine.graph.name(attachment.switch.into());
                let vlan = self.vlan_of(&host.name, attachment, switch);
                let vlan = vlan.unwrap_or_else(|| self.usual_vlan(switch));
                let own = &mut senders[attachment.switch.index()];
                match own.iter_mut().find(|senders| senders.vlan == vlan) {
                    Some(senders) => senders.hosts += 1,
                    None => own.push(Senders { vlan, hosts: 1 }),
                }
            }
        }
        Solution {
            method: self.method.clone(),
            settings: Vec::new(),
            is_repaired: true,
            vlan_count_min: 1,
            trees,
            choice: Choice::BySource(senders),
        }
    }

    /// The VLAN that most hosts of a switch have; the first one at a switch without any.
    fn usual_vlan(&self, switch: &str) -> u32 {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for kept in self.attachments.values().filter(|kept| kept.switch == switch) {
            if let Some(vlan) = kept.vlan {
                *counts.entry(vlan).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|&(vlan, count)| (count, std::cmp::Reverse(vlan)));
        most.map_or(0, |(vlan, _)| vlan)
    }

    /// Switches with hosts now and none in the plan in use: their VLAN is still to be chosen.
    fn is_new(&self, switch: &str) -> bool {
        !self.attachments.values().any(|kept| kept.switch == switch)
    }

    /// By link in use: the link now.
    fn links_now(&self, machine: &Machine) -> Vec<Option<u32>> {
        let mut by_ports: BTreeMap<[(String, Vec<PortNumber>); 2], u32> = BTreeMap::new();
        let mut by_names: BTreeMap<[String; 2], Vec<u32>> = BTreeMap::new();
        for (id, link) in machine.graph.links().take(machine.switch_link_count()) {
            let names = link.ends.map(|end| match end.node {
                Node::Switch(switch) => machine.graph.name(switch.into()).to_owned(),
                Node::Host(_) => String::new(),
            });
            let ports = machine.link_ports[id.index()].clone();
            let [a, b] = names.clone();
            let [ports_a, ports_b] = ports;
            by_ports.insert(sorted([(a, ports_a), (b, ports_b)]), id.0);
            by_names.entry(sorted(names)).or_default().push(id.0);
        }
        let exact: Vec<Option<u32>> =
            self.links.iter().map(|link| by_ports.get(&sorted(link.ends.clone())).copied()).collect();
        let mut used: Vec<u32> = exact.iter().flatten().copied().collect();
        let moved = exact.into_iter().zip(&self.links).map(|(found, link)| {
            found.or_else(|| {
                let names = link.ends.clone().map(|(name, _)| name);
                let free = by_names.get(&sorted(names))?.iter().copied().find(|id| !used.contains(id))?;
                used.push(free);
                Some(free)
            })
        });
        moved.collect()
    }

    /// The identifiers of so many VLANs: those in use, and upwards of them. `None` if there are not as many.
    pub(super) fn identifiers(&self, count: usize) -> Option<Vec<VlanId>> {
        let last = self.vlans.iter().map(|vlan| vlan.vid.get()).max()?;
        let added = (last.checked_add(1)?..).map_while(VlanId::new);
        let vids: Vec<VlanId> = self.vlans.iter().map(|vlan| vlan.vid).chain(added).take(count).collect();
        (vids.len() == count).then_some(vids)
    }

    /// What a host's interface keeps.
    pub(super) fn attachment(&self, host: &str, interface: &str) -> Option<&KeptAttachment> {
        self.attachments.get(&(host.to_owned(), interface.to_owned()))
    }

    /// The VLAN of a host's interface, if it is at the same switch still: index into the VLANs.
    pub(super) fn vlan_of(&self, host: &str, attachment: &Attachment, switch: &str) -> Option<u32> {
        self.attachment(host, &attachment.interface).filter(|kept| kept.switch == switch)?.vlan
    }

    /// All addresses of hosts, and their numbers in the VLANs' subnets.
    pub(super) fn taken(&self) -> impl Iterator<Item = (Ipv4Addr, u32)> {
        self.attachments.values().map(|kept| (kept.address, kept.address_number))
    }

    /// Hosts that the subnets of their addresses have room for.
    pub(super) fn hosts_max(&self) -> Option<u64> {
        let bits = self.attachments.values().map(|kept| kept.prefix_bits.min(30)).min()?;
        Some((1 << (32 - bits)) - 2)
    }

    /// The number of the LAG with these ports.
    pub(super) fn lag(&self, switch: &str, ports: &[PortNumber]) -> Option<u16> {
        self.lags.get(&(switch.to_owned(), *ports.iter().min()?)).copied()
    }

    /// Names of the switches that have no VLAN of their own yet.
    pub(super) fn new_switches(&self, machine: &Machine, network: &Network) -> Vec<SwitchId> {
        let all = network.sources().map(SwitchId);
        all.filter(|&switch| self.is_new(machine.graph.name(switch.into()))).collect()
    }
}

fn sorted<T: Ord>(mut pair: [T; 2]) -> [T; 2] {
    pair.sort();
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two switches with these cables between them.
    fn joined(cables: &[(&str, &str)]) -> Machine {
        let mut text = "name = \"m\"\n[switch_models.s]\nports = 24\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[hosts]\nmodel = \"h\"\nper_switch = 1\n"
            .to_owned();
        for name in ["a", "b"] {
            text += &format!("[[switch]]\nname = \"{name}\"\nmodel = \"s\"\n");
        }
        for (from, to) in cables {
            text += &format!("[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
        }
        Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_new_host_is_on_the_vlan_that_most_of_its_switch_have() {
        let kept = |switch: &str, vlan| KeptAttachment {
            switch: switch.to_owned(),
            vlan,
            address: Ipv4Addr::UNSPECIFIED,
            prefix_bits: 24,
            address_number: 0,
        };
        let all =
            [("a", Some(1)), ("a", Some(3)), ("a", Some(3)), ("a", None), ("b", Some(5)), ("b", Some(4))];
        let attachments = all
            .iter()
            .enumerate()
            .map(|(host, &(switch, vlan))| ((format!("h{host}"), "eth0".to_owned()), kept(switch, vlan)));
        let in_use = InUse {
            vlans: Vec::new(),
            links: Vec::new(),
            attachments: attachments.collect(),
            lags: BTreeMap::new(),
            method: String::new(),
        };
        // Of equally many the first one.
        assert_eq!(["a", "b", "c"].map(|switch| in_use.usual_vlan(switch)), [3, 4, 0]);
        assert_eq!(in_use.hosts_max(), Some(254));
    }

    #[test]
    fn links_are_known_by_ports_and_moved_ones_by_their_switches() {
        let before = joined(&[("a:21", "b:21"), ("a:22", "b:22"), ("a:23-24", "b:23-24")]);
        let in_use = InUse::of(&crate::vlan::plan(&before).unwrap()).unwrap();
        let now = |cables: &[(&str, &str)]| in_use.links_now(&joined(cables));
        assert_eq!(
            now(&[("a:21", "b:21"), ("a:22", "b:22"), ("a:23-24", "b:23-24")]),
            [Some(0), Some(1), Some(2)]
        );
        // In another order, and from the other end.
        assert_eq!(
            now(&[("b:23-24", "a:23-24"), ("a:22", "b:22"), ("a:21", "b:21")]),
            [Some(2), Some(1), Some(0)]
        );
        // Two have moved: each is another of those that are left, and none is the one that stayed.
        assert_eq!(now(&[("a:11", "b:11"), ("a:12", "b:12"), ("a:22", "b:22")]), [Some(0), Some(2), Some(1)]);
        // One of three is gone.
        assert_eq!(now(&[("a:21", "b:21"), ("a:9-10", "b:9-10")]), [Some(0), Some(1), None]);
    }

    #[test]
    fn new_routes_that_need_more_vlans_than_are_left_begin_anew() {
        // Behind VLAN 4094 there is none; more cables make routes on more VLANs worth it.
        let in_use = |first_vlan: &str, links: &[(&str, &str)]| {
            let machine = hosts_at(&[("h0", "a"), ("h1", "a"), ("h2", "b"), ("h3", "b")], links, first_vlan);
            (InUse::of(&crate::vlan::plan(&machine).unwrap()).unwrap(), machine)
        };
        let one = [("a:100", "b:100")];
        let (old, _) = in_use("first_vlan = 4094", &one);
        let (_, machine) = in_use("first_vlan = 300", &[one[0], ("a:101", "b:101"), ("a:102", "b:102")]);
        let plan = crate::vlan::plan_from(&machine, &old).unwrap();
        let vids: Vec<u16> = plan.vlans.iter().map(|vlan| vlan.vid.get()).collect();
        assert!(!plan.is_repaired && vids.len() > 1, "{vids:?}");
        assert!(vids.iter().copied().eq(300..300 + vids.len() as u16), "{vids:?}");
    }

    #[test]
    fn trees_stay_in_order_where_cables_are_listed_in_another() {
        let text = |cables: &[&str]| {
            let mut text = "name = \"m\"\n[switch_models.s]\nports = 24\nrate_gbps = 1\n[host_models.h]\n\
                nic = [{ name = \"e\", rate_gbps = 1 }]\n[hosts]\nmodel = \"h\"\nper_switch = 1\n"
                .to_owned();
            (0..4).for_each(|at| text += &format!("[[switch]]\nname = \"s{at}\"\nmodel = \"s\"\n"));
            cables.iter().for_each(|cable| text += cable);
            Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
        };
        let cables: Vec<String> = (0..4)
            .map(|at| format!("[[cable]]\nfrom = \"s{at}:11\"\nto = \"s{}:12\"\n", (at + 1) % 4))
            .collect();
        let mut listed: Vec<&str> = cables.iter().map(String::as_str).collect();
        let before = crate::vlan::plan(&text(&listed)).unwrap();
        listed.reverse();
        let after = crate::vlan::plan_from(&text(&listed), &InUse::of(&before).unwrap()).unwrap();
        assert!(after.is_repaired && after.verdicts.are_good());
        assert!(after.vlans.iter().all(|vlan| vlan.tree.windows(2).all(|two| two[0] < two[1])));
        assert!(before.vlans.iter().zip(&after.vlans).all(|(was, is)| was.tree.len() == is.tree.len()));
    }

    /// The first number is dealt again when nobody has it, and nobody had it before.
    #[test]
    fn the_first_number_is_as_good_as_any() {
        let continued = |hosts: &[&str], before: Option<&Plan>| {
            let hosts: Vec<(&str, &str)> = hosts.iter().map(|name| (*name, "a")).collect();
            let machine = hosts_at(&hosts, &[("a:1999", "b:1999")], "");
            match before {
                None => crate::vlan::plan(&machine).unwrap(),
                Some(before) => crate::vlan::plan_from(&machine, &InUse::of(before).unwrap()).unwrap(),
            }
        };
        let numbers = |plan: &Plan| plan.attachments().map(|own| own.address_number).collect::<Vec<_>>();
        let all = continued(&["h0", "h1", "h2", "h3"], None);
        let less = continued(&["h1", "h2", "h3"], Some(&all));
        let again = continued(&["h1", "h2", "h3", "new"], Some(&less));
        assert_eq!([numbers(&all), numbers(&again)], [vec![0, 1, 2, 3], vec![1, 2, 3, 0]]);
    }

    #[test]
    fn new_switches_are_those_that_had_no_hosts() {
        let text = |switch_count: usize| {
            format!(
                "name = \"m\"\n[switch_models.s]\nports = 24\nrate_gbps = 1\n[host_models.h]\n\
                 nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\nkind = \"complete\"\n\
                 switches = {switch_count}\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n"
            )
        };
        let [four, five] = [4, 5].map(|count| Machine::parse("m.toml", &text(count)).unwrap());
        let in_use = InUse::of(&crate::vlan::plan(&four).unwrap()).unwrap();
        let new = |machine: &Machine| in_use.new_switches(machine, &Network::of(machine, &[]));
        assert_eq!((new(&four), new(&five)), (vec![], vec![SwitchId(4)]));
    }

    #[test]
    fn plans_whose_hosts_tag_are_not_continued() {
        let mut plan = crate::plan::two_switches_and_four_hosts();
        assert!(InUse::of(&plan).is_ok());
        plan.tagging = Tagging::Host;
        assert_eq!(InUse::of(&plan).err(), Some(InUseError::HostTagging));
    }

    /// A machine of these hosts at one switch each; those called `bond` or `rails` have two NICs.
    fn hosts_at(names: &[(&str, &str)], cables: &[(&str, &str)], options: &str) -> Machine {
        let mut text = String::from(
            "name = \"m\"\n[switch_models.s]\nports = 2000\nrate_gbps = 1\n[host_models.one]\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }]\n\
             [host_models.bond]\nnics_as = \"bond\"\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }, { name = \"eth1\", rate_gbps = 1 }]\n\
             [host_models.rails]\nnics_as = \"rails\"\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }, { name = \"eth1\", rate_gbps = 1 }]\n",
        );
        text += &format!("[plan]\n{options}\n");
        for name in ["a", "b"] {
            text += &format!("[[switch]]\nname = \"{name}\"\nmodel = \"s\"\n");
        }
        let mut port = 0;
        for (name, place) in names {
            let model = ["bond", "rails"].into_iter().find(|model| name.starts_with(model)).unwrap_or("one");
            text += &format!("[[host]]\nname = \"{name}\"\nmodel = \"{model}\"\n");
            for nic in 0..1 + usize::from(model != "one") {
                let (switch, first) = place.split_once(':').unwrap_or((place, ""));
                port += 1;
                let port = first.parse().map_or(port, |first: usize| first + nic);
                text += &format!("[[cable]]\nfrom = \"{name}:eth{nic}\"\nto = \"{switch}:{port}\"\n");
            }
        }
        for (from, to) in cables {
            text += &format!("[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
        }
        Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// By switch and lowest port: the LAG's number.
    fn lags(plan: &Plan) -> BTreeMap<(String, PortNumber), u16> {
        let own = plan.switches.iter().flat_map(|switch| switch.lags.iter().map(move |lag| (switch, lag)));
        own.map(|(switch, lag)| ((switch.name.clone(), lag.members[0]), lag.number)).collect()
    }

    #[test]
    fn lags_in_use_keep_their_numbers_when_others_are_added() {
        let link = ("a:1001-1002", "b:1001-1002");
        let before = hosts_at(&[("bond0", "a:1"), ("bond1", "a:3"), ("h", "b:1")], &[link], "");
        let plan = crate::vlan::plan(&before).unwrap();
        let numbers = lags(&plan);
        assert_eq!(numbers.values().copied().collect::<Vec<_>>(), [2, 3, 1, 1]);
        let in_use = InUse::of(&plan).unwrap();
        for (hosts, links) in [
            // A second link, which is numbered before the hosts; a host before those that were there.
            (
                &[("bond0", "a:1"), ("bond1", "a:3"), ("h", "b:1")][..],
                &[link, ("a:1003-1004", "b:1003-1004")][..],
            ),
            (&[("bond9", "a:7"), ("bond0", "a:1"), ("bond1", "a:3"), ("h", "b:1")], &[link]),
            (&[("bond9", "a:7"), ("bond1", "a:3"), ("h", "b:1")], &[("a:1003-1004", "b:1003-1004"), link]),
        ] {
            let now = lags(&crate::vlan::plan_from(&hosts_at(hosts, links, ""), &in_use).unwrap());
            for (lag, number) in &now {
                assert_eq!(numbers.get(lag).unwrap_or(number), number, "{lag:?}: {now:?}");
            }
            let on_a: Vec<u16> =
                now.iter().filter(|((name, _), _)| name == "a").map(|(_, number)| *number).collect();
            let mut different = on_a.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), on_a.len(), "{now:?}");
        }
    }

    #[test]
    fn hosts_that_are_added_are_in_the_subnet_of_the_others() {
        let plan_of = |names: &[String], in_use: Option<&InUse>| {
            let names: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "a")).collect();
            let machine = hosts_at(&names, &[("a:1999", "b:1999")], "");
            match in_use {
                None => crate::vlan::plan(&machine).unwrap(),
                Some(in_use) => crate::vlan::plan_from(&machine, in_use).unwrap(),
            }
        };
        let few: Vec<String> = (0..250).map(|host| format!("h{host}")).collect();
        let before = plan_of(&few, None);
        let many: Vec<String> = (0..300).map(|host| format!("h{host}")).collect();
        let grown = plan_of(&many, Some(&InUse::of(&before).unwrap()));
        let shrunk = plan_of(&few, Some(&InUse::of(&grown).unwrap()));
        for (plan, prefix_bits) in [(&before, 24), (&grown, 23), (&shrunk, 23)] {
            assert!(plan.attachments().all(|own| own.prefix_bits == prefix_bits));
            for (own, first) in plan.attachments().zip(before.attachments()) {
                assert_eq!(own.address, first.address, "it stays");
            }
        }
    }

    #[test]
    fn subnets_of_rails_grow_together() {
        let plan_of = |count: usize, in_use: Option<&Plan>| {
            let names: Vec<String> = (0..count).map(|host| format!("rails{host}")).collect();
            let names: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "a")).collect();
            let machine = hosts_at(&names, &[("a:1999", "b:1999")], "");
            match in_use {
                None => crate::vlan::plan(&machine).unwrap(),
                Some(plan) => crate::vlan::plan_from(&machine, &InUse::of(plan).unwrap()).unwrap(),
            }
        };
        let before = plan_of(250, None);
        let grown = plan_of(300, Some(&before));
        let shrunk = plan_of(250, Some(&grown));
        for (plan, prefix_bits) in [(&before, 24), (&grown, 23), (&shrunk, 23)] {
            let mut seen = BTreeMap::new();
            for own in plan.attachments() {
                // 172.16.0.0/24 and 172.16.1.0/24; 172.16.0.0/23 and 172.16.2.0/23.
                let network = u32::from(own.address) >> (32 - prefix_bits);
                assert_eq!(
                    network,
                    u32::from(Ipv4Addr::new(172, 16, 0, 0)) >> (32 - prefix_bits) | u32::from(own.rail)
                );
                assert_eq!(u32::from(own.prefix_bits), prefix_bits);
                assert_eq!(seen.insert(own.address, own.number), None);
            }
        }
        let first = |plan: &Plan| plan.attachments().take(500).map(|own| own.address).collect::<Vec<_>>();
        assert_eq!(first(&grown), first(&shrunk), "they stay");
    }

    #[test]
    fn addresses_of_hosts_that_went_are_free_for_others() {
        // Room for 14 hosts, and as many are there: one goes and another comes, again and again.
        let mut names: Vec<String> = (0..14).map(|host| format!("h{host}")).collect();
        let mut in_use: Option<InUse> = None;
        for change in 0..40 {
            let hosts: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "a")).collect();
            let machine = hosts_at(
                &hosts,
                &[("a:1999", "b:1999")],
                "host_subnet = \"10.9.0.0/28\"\nvlan_subnet = \"10.8.0.0/16\"",
            );
            let plan = match &in_use {
                None => crate::vlan::plan(&machine).unwrap(),
                Some(in_use) => crate::vlan::plan_from(&machine, in_use).unwrap(),
            };
            assert!(plan.verdicts.are_good(), "change {change}: {:?}", plan.verdicts.checks);
            let mut addresses: Vec<Ipv4Addr> = plan.attachments().map(|own| own.address).collect();
            addresses.sort_unstable();
            addresses.dedup();
            assert_eq!(addresses.len(), 14, "change {change}");
            assert!(plan.attachments().all(|own| own.address_number < 16), "change {change}");
            in_use = Some(InUse::of(&plan).unwrap());
            names.remove(0);
            names.push(format!("new{change}"));
        }
    }

    /// What holds of every plan.
    fn is_sound(plan: &Plan, about: &str) {
        assert!(plan.verdicts.are_good(), "{about}: {:?}", plan.verdicts.checks);
        assert_eq!(plan.check_invariants(), Vec::<String>::new(), "{about}");
        let mut seen = BTreeMap::new();
        for own in plan.attachments() {
            assert_eq!(seen.insert(own.address, own.number), None, "{about}");
            assert_eq!(own.prefix_bits, 24, "{about}");
        }
        let mut numbers: Vec<u32> = plan.attachments().map(|own| own.address_number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{about}: {numbers:?}");
        for switch in &plan.switches {
            assert!(switch.lags.windows(2).all(|pair| pair[0].number < pair[1].number), "{about}");
        }
    }

    /// LAGs have their numbers, hosts' interfaces their addresses, and where routes stay their VLANs.
    fn is_kept(before: &Plan, plan: &Plan, about: &str) {
        let (then, now) = (lags(before), lags(plan));
        let is_same = |(lag, number): (_, &u16)| then.get(lag).is_none_or(|was| was == number);
        assert!(now.iter().all(is_same), "{about}: {then:?} {now:?}");
        let of = |of: &Plan, host: &HostPlan| -> Vec<_> {
            let own = host.attachments.iter().map(|own| {
                let vlan = of.choice.vlan_index(own, own).filter(|_| plan.is_repaired);
                (own.interface.clone(), own.address, own.address_number, vlan.map(|vlan| of.vlans[vlan].vid))
            });
            own.collect()
        };
        for host in &plan.hosts {
            if let Some(was) = before.hosts.iter().find(|was| was.name == host.name) {
                assert_eq!(of(before, was), of(plan, host), "{about}: {}", host.name);
            }
        }
    }

    #[test]
    fn what_stays_keeps_all_it_had_through_many_changes() {
        let (mut random, mut continued_count) = (ayatori_random::Random::new(7), 0);
        for case in 0..12 {
            let [mut hosts, mut links] = [(); 2].map(|()| Vec::<(String, String)>::new());
            let mut free = 1;
            let mut before: Option<Plan> = None;
            for change in 0..25 {
                // Hosts of all kinds and cables of one or two come anywhere in the lists, and go.
                if hosts.len() < 3 || random.one_in(2) {
                    let kind = ["h", "bond", "rails"][random.index(3)];
                    let place = format!("{}:{free}", ["a", "b"][random.index(2)]);
                    hosts.insert(random.index(hosts.len() + 1), (format!("{kind}{change}"), place));
                    free += 2;
                } else {
                    hosts.remove(random.index(hosts.len()));
                }
                if links.is_empty() || random.one_in(3) {
                    let last = if random.one_in(2) { format!("-{}", free + 1) } else { String::new() };
                    let [a, b] = ["a", "b"].map(|name| format!("{name}:{free}{last}"));
                    links.insert(random.index(links.len() + 1), (a, b));
                    free += 2;
                } else if links.len() > 1 && random.one_in(3) {
                    links.remove(random.index(links.len()));
                }
                let [hosts, links] = [&hosts, &links]
                    .map(|list| list.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect::<Vec<_>>());
                let machine = hosts_at(&hosts, &links, "");
                let about = format!("case {case}, change {change}");
                let plan = match &before {
                    None => crate::vlan::plan(&machine).unwrap(),
                    Some(before) => crate::vlan::plan_from(&machine, &InUse::of(before).unwrap()).unwrap(),
                };
                is_sound(&plan, &about);
                if let Some(before) = &before {
                    is_kept(before, &plan, &about);
                }
                continued_count += u32::from(plan.is_repaired);
                before = Some(plan);
            }
        }
        assert!(continued_count > 200, "{continued_count}");
    }
}
