//! Where things stand, and so how long every cable is.

use crate::description::{Machine, Prices};
use crate::graph::{HostId, Node, SwitchId};

/// One cable to be bought, labelled and plugged in.
#[derive(Debug, Clone, PartialEq)]
pub struct CableItem {
    /// Number, from 1: the same at both ends of the label.
    pub number: u32,
    /// What the first end is plugged into, and the port's name there.
    pub from: (String, String),
    /// The other end.
    pub to: (String, String),
    /// Its rate, bit/s.
    pub rate_bits_per_s: u64,
    /// Least length, m.
    pub needed_m: f64,
    /// How long the one to be bought is, m.
    pub length_m: f64,
    /// Its price.
    pub price: f64,
}

impl CableItem {
    /// The label of both ends: `12 s0.0:1/g47 - s1.0:1/g48`.
    pub fn label(&self) -> String {
        format!("{} {}:{} - {}:{}", self.number, self.from.0, self.from.1, self.to.0, self.to.1)
    }
}

/// All cables of a machine: those between switches first.
///
/// # Errors
/// The longest that is needed, m, if no cable is so long.
pub fn cable_list(machine: &Machine, prices: &Prices) -> Result<Vec<CableItem>, f64> {
    let places = Places::of(machine, prices);
    let mut items = Vec::new();
    let mut longest_m: f64 = 0.0;
    for (id, link) in machine.graph.links() {
        let [a, b] = link.ends.map(|end| end.node);
        let needed_m = places.distance_m(a, b);
        longest_m = longest_m.max(needed_m);
        let Some(cable) = prices.cable(needed_m) else { continue };
        let ends = [(a, 0), (b, 1)].map(|(node, end)| (node, &machine.link_ports[id.index()][end]));
        let count = ends.iter().map(|(_, ports)| ports.len()).max().unwrap_or(0);
        for at in 0..count {
            let [from, to] = ends.map(|(node, ports)| plug(machine, node, ports, at));
            items.push(CableItem {
                number: items.len() as u32 + 1,
                from,
                to,
                rate_bits_per_s: link.spec.rate_bits_per_s,
                needed_m,
                length_m: cable.length_m,
                price: cable.price,
            });
        }
    }
    if prices.cable(longest_m).is_none() { Err(longest_m) } else { Ok(items) }
}

fn plug(machine: &Machine, node: Node, ports: &[u16], at: usize) -> (String, String) {
    let name = machine.graph.name(node).to_owned();
    let number = ports.get(at).copied().unwrap_or(0);
    let port = match node {
        Node::Switch(switch) => machine.switch_model(switch).port_names.name(number),
        Node::Host(host) => {
            let nics = &machine.host_model(host).nics;
            nics.get(usize::from(number)).map_or_else(String::new, |nic| nic.name.clone())
        }
    };
    (name, port)
}

/// The rack of every host and switch.
struct Places<'a> {
    prices: &'a Prices,
    switches: Vec<u32>,
}

impl<'a> Places<'a> {
    fn of(machine: &Machine, prices: &'a Prices) -> Places<'a> {
        let mut hosts: Vec<Vec<u32>> = vec![Vec::new(); machine.switches.len()];
        for (index, host) in machine.hosts.iter().enumerate() {
            host.attachments.iter().for_each(|link| hosts[link.switch.index()].push(index as u32));
        }
        let rack = |host: u32| host / prices.racks.hosts_per_rack;
        // Switches without hosts stand in the middle of all.
        let middle = rack(machine.hosts.len().saturating_sub(1) as u32) / 2;
        let of_hosts = |hosts: &Vec<u32>| hosts.get(hosts.len() / 2).map_or(middle, |&host| rack(host));
        Places { prices, switches: hosts.iter().map(of_hosts).collect() }
    }

    fn rack(&self, node: Node) -> u32 {
        match node {
            Node::Switch(SwitchId(switch)) => self.switches[switch as usize],
            Node::Host(HostId(host)) => host / self.prices.racks.hosts_per_rack,
        }
    }

    /// Along the row and across the rows, and what stays inside the racks.
    fn distance_m(&self, a: Node, b: Node) -> f64 {
        let racks = self.prices.racks;
        let [(x, row), (far_x, far_row)] = [a, b].map(|node| {
            let rack = self.rack(node);
            (rack % racks.racks_per_row, rack / racks.racks_per_row)
        });
        racks.in_rack_m
            + f64::from(x.abs_diff(far_x)) * racks.rack_pitch_m
            + f64::from(row.abs_diff(far_row)) * racks.row_pitch_m
    }
}
