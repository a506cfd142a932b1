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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_stand_beside_their_hosts_or_in_the_middle() {
        let models = "[switch_models.s]\nports = 16\nrate_gbps = 10\nprice = 1\n[host_models.h]\n\
                      nic = [{ name = \"eth0\", rate_gbps = 1 }]\n";
        let lengths: String =
            (1..100).map(|n| format!("[[cable]]\nlength_m = 0.{n:02}\nprice = {n}\n")).collect();
        let racks = "[racks]\nhosts_per_rack = 8\nracks_per_row = 3\nrack_pitch_m = 0.1\nrow_pitch_m = 0.3\n\
                     in_rack_m = 0.02\n";
        let prices = Prices::parse("p.toml", &format!("{models}{lengths}{racks}")).unwrap();
        let text = format!(
            "name = \"m\"\n{models}[topology]\nkind = \"fat-tree\"\ndown = [4]\nup = [2]\n\
             switch_model = \"s\"\n[hosts]\nmodel = \"h\"\ncount = 40\n"
        );
        let machine = Machine::parse("m.toml", &text).unwrap();
        let cables = cable_list(&machine, &prices).unwrap();
        let hundredths = |from: &str, to: &str| {
            let is_it = |cable: &&CableItem| {
                [(from, to), (to, from)].contains(&(cable.from.0.as_str(), cable.to.0.as_str()))
            };
            let cable = cables.iter().find(is_it).unwrap_or_else(|| panic!("{from} - {to}"));
            assert_eq!((cable.length_m * 100.0).round(), cable.price);
            (cable.needed_m * 100.0).round() as u32
        };
        let names: Vec<&str> = machine.graph.switches().map(|id| machine.graph.name(id.into())).collect();
        // Racks 0 to 4 hold 40 hosts, three racks in the first row. Leaves have ten hosts each, the sixth of
        // which is 5, 15, 25, 35: racks 0, 1, 3, 4. Spines are in rack 2, the middle one.
        let spine = names[4];
        let to_leaves: Vec<u32> = names[..4].iter().map(|leaf| hundredths(leaf, spine)).collect();
        assert_eq!(to_leaves, [2 + 20, 2 + 10, 2 + 20 + 30, 2 + 10 + 30]);
        assert_eq!(hundredths(names[3], names[5]), 2 + 10 + 30);
        assert_eq!([("h9", names[0]), ("h16", names[1])].map(|(h, s)| hundredths(h, s)), [12, 12]);
        assert_eq!(hundredths("h39", names[3]), 2);
        let host = cables.last().unwrap();
        assert_eq!(
            (host.from.0.as_str(), host.from.1.as_str(), host.rate_bits_per_s),
            ("h39", "eth0", 1_000_000_000)
        );
        assert_eq!((cables[0].number, cables[0].rate_bits_per_s), (1, 10_000_000_000));
        assert!(cables.iter().map(|cable| cable.number).eq(1..=48));
        // Of six racks the third is the middle one, not the fourth.
        let six = Machine::parse("m.toml", &text.replace("count = 40", "count = 48")).unwrap();
        assert_eq!(Places::of(&six, &prices).switches, [0, 2, 3, 5, 2, 2]);
        // The longest of all is what is missed.
        let short = Prices { cables: prices.cables[..30].to_vec(), ..prices.clone() };
        assert_eq!(cable_list(&machine, &short).map_err(|m| (m * 100.0).round()).unwrap_err(), 52.0);
    }
}
