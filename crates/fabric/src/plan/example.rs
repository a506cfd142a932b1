//! A plan small enough to make by hand: for the dialects' tests and as reading matter.

use std::net::Ipv4Addr;

use crate::graph::{HostId, LinkId, SwitchId};

use super::*;

/// Two 8-port switches joined by a LAG of two cables, two hosts at each, one VLAN per source switch (101 and
/// 102; one would do, two show more):
///
/// ```text
/// node0 ─1┐      ┌7══7┐      ┌1─ node2     hosts of `left` send on 101, those of `right` on 102;
/// node1 ─2┴ left ┴8══8┴ right┴2─ node3     ports 3-6 are unused; LAG 1 carries both VLANs tagged
/// ```
pub fn two_switches_and_four_hosts() -> Plan {
    let vlans = [101, 102].map(|vid| VlanId::new(vid).expect("101 and 102 are valid"));
    let vlan_plans = [0, 1].map(|index: u8| VlanPlan {
        vid: vlans[usize::from(index)],
        tree: vec![LinkId(0)],
        sources: vec![SwitchId(u32::from(index))],
        subnet: Subnet { network: Ipv4Addr::new(10, 0, index, 0), prefix_bits: 24 },
    });
    let end = |switch| LinkEnd { switch: SwitchId(switch), ports: vec![7, 8], lag: Some(1) };
    Plan {
        machine: "example".into(),
        tagging: Tagging::Switch,
        method: "one VLAN per source switch".into(),
        is_repaired: false,
        pause: true,
        mtu_bytes: 1500,
        vlans: vlan_plans.to_vec(),
        links: vec![LinkPlan { id: LinkId(0), ends: [end(0), end(1)], rate_bits_per_s: 1_000_000_000 }],
        switches: vec![switch(0, "left", vlans), switch(1, "right", vlans)],
        hosts: (0..4).map(host).collect(),
        priming: Priming { period_s: Some(50_000), gap_ms: 10, link_frames_max: 4, at_once_frames_max: 4 },
        figures: Figures { diameter_switches: 2, stretch: 1.0, cable_count: 2, ..Figures::default() },
        verdicts: Verdicts::default(),
        choice: VlanChoice::BySource(vec![Some(0), Some(0), Some(1), Some(1)]),
        mstp: None,
    }
}

fn switch(id: u32, name: &str, vlans: [VlanId; 2]) -> SwitchPlan {
    let all: VlanSet = vlans.into_iter().collect();
    let to_host =
        Membership { pvid: Some(vlans[id as usize]), untagged: all.clone(), tagged: VlanSet::new() };
    let to_switch = Membership { pvid: None, untagged: VlanSet::new(), tagged: all };
    let link_role = PortRole::Link { link: LinkId(0), peer: SwitchId(1 - id) };
    let ports = (1..=8).map(|number| {
        let (role, lag, membership) = match number {
            1 | 2 => {
                let host = HostId(2 * id + u32::from(number) - 1);
                (PortRole::Host { host, attachment: 0 }, None, to_host.clone())
            }
            7 | 8 => (link_role, Some(1), to_switch.clone()),
            _ => (PortRole::Unused, None, Membership::default()),
        };
        PortPlan { number, name: format!("1/g{number}"), role, lag, membership }
    });
    SwitchPlan {
        id: SwitchId(id),
        name: name.into(),
        model: "powerconnect-6248".into(),
        dialect: "dell-os6".into(),
        inside_host: None,
        ports: ports.collect(),
        lags: vec![LagPlan {
            number: 1,
            members: vec![7, 8],
            role: link_role,
            lacp: true,
            membership: to_switch,
        }],
        aging_time_s: Some(100_000),
        mac_entries_count: 4 * 2,
    }
}

fn host(id: u32) -> HostPlan {
    HostPlan {
        id: HostId(id),
        name: format!("node{id}"),
        attachments: vec![Attachment {
            number: id,
            rail: 0,
            interface: "eth0".into(),
            nics: vec!["eth0".into()],
            mtu_bytes: 1500,
            mac: Some(MacAddr([0x02, 0, 0, 0, 0, id as u8])),
            switch: SwitchId(id / 2),
            ports: vec![(id % 2) as u16 + 1],
            address: Ipv4Addr::new(192, 168, 0, id as u8 + 1),
            prefix_bits: 24,
            address_number: id,
        }],
    }
}
