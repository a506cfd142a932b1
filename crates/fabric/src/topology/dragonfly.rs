//! Dragonfly: groups of switches, each group complete, and every group cabled to every other.
//!
//! J. Kim, W. Dally, S. Scott, D. Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008,
//! with the palm tree arrangement of global links. Coordinates are (place in group, group). Ports 0 to
//! `a - 2` lead to the other switches of the group in order, ports `a - 1` to `a - 2 + h` are global. Global
//! link `j` of a group (port `j % h` of its switch `j / h`) leads to the group `1 + j % (g - 1)` further on.
//! Where `a h` is not a multiple of `g - 1` the last global ports stay free.

use super::complete::port_towards;
use super::{Cable, Generator, TopologyError, invalid};
use crate::graph::Port;

/// Groups that are complete, and completely connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dragonfly {
    /// Switches in a group (the paper's a), at least 1.
    pub group_size: u32,
    /// Global links of a switch (the paper's h).
    pub global_port_count: u32,
    /// Groups (the paper's g), at least 2 and at most a h + 1.
    pub group_count: u32,
}

impl Dragonfly {
    /// Links between every two groups.
    pub fn links_between_groups(&self) -> u32 {
        self.group_size * self.global_port_count / (self.group_count - 1)
    }

    /// The global link of `group` that is the `copy`th towards `to_group`: (switch, port).
    pub fn gateway(&self, group: u32, to_group: u32, copy: u32) -> (u32, Port) {
        let distance = (to_group + self.group_count - group) % self.group_count;
        let link = copy * (self.group_count - 1) + distance - 1;
        let switch = group * self.group_size + link / self.global_port_count;
        (switch, (self.group_size - 1 + link % self.global_port_count) as Port)
    }
}

impl Generator for Dragonfly {
    fn kind(&self) -> &'static str {
        "dragonfly"
    }

    fn check(&self) -> Result<(), TopologyError> {
        let (a, h, g) = (self.group_size, self.global_port_count, self.group_count);
        if a == 0 || h == 0 || a > 4096 || h > 4096 {
            return Err(invalid("dragonfly", format!("group size {a} and {h} global ports: 1 to 4096 each")));
        }
        if g < 2 || g > a * h + 1 {
            let most = a * h + 1;
            return Err(invalid("dragonfly", format!("{g} groups: 2 to {most} (a h + 1) are possible")));
        }
        Ok(())
    }

    fn switch_count(&self) -> u64 {
        u64::from(self.group_size) * u64::from(self.group_count)
    }

    fn coordinates(&self, switch: u32) -> Vec<u32> {
        vec![switch % self.group_size, switch / self.group_size]
    }

    fn switch_port_count(&self, _switch: u32) -> u64 {
        u64::from(self.group_size) - 1 + u64::from(self.global_port_count)
    }

    fn port_name(&self, switch: u32, port: Port) -> String {
        let (own, port) = (switch % self.group_size, u32::from(port));
        match port.checked_sub(self.group_size - 1) {
            Some(global) => format!("global{global}"),
            None => format!("local{}", if port < own { port } else { port + 1 }),
        }
    }

    fn cables(&self) -> Vec<Cable> {
        let (a, g) = (self.group_size, self.group_count);
        let mut cables = Vec::new();
        for group in 0..g {
            for (i, j) in (0..a).flat_map(|i| (i + 1..a).map(move |j| (i, j))) {
                let (near, far) = (group * a + i, group * a + j);
                let ports = (port_towards(i, j) as Port, port_towards(j, i) as Port);
                cables.push(Cable::single((near, ports.0), (far, ports.1)));
            }
        }
        for copy in 0..self.links_between_groups() {
            for (from, to) in (0..g).flat_map(|from| (from + 1..g).map(move |to| (from, to))) {
                cables.push(Cable::single(self.gateway(from, to, copy), self.gateway(to, from, copy)));
            }
        }
        cables
    }
}
