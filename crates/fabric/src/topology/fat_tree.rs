//! Fat tree: the extended generalised fat tree XGFT of S. Öhring et al., "On generalized fat trees", IPPS
//! 1995, with parallel cables (E. Zahavi's PGFT). Hosts hang on the leaf switches, level 0.
//!
//! Between level `l` and `l + 1` a switch has `up[l]` parents and a parent has `down[l]` children. A switch
//! of level `l` is known by digits: digit `j < l` counts parents (below `up[j]`), digit `j >= l` counts
//! children (below `down[j]`); a switch and a parent agree in all digits but digit `l`. Switches are numbered
//! level by level from the leaves, digit 0 varying fastest; coordinates are the level and then the digits.
//!
//! Ports: children first (port `c` leads to the child whose digit is `c`), then parents.

use super::{Cable, Generator, TopologyError, invalid};
use crate::graph::Port;

/// Levels of switches, each joined to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatTree {
    /// Children of a switch of level `l + 1` at level `l`.
    pub down: Vec<u32>,
    /// Parents of a switch of level `l` at level `l + 1`.
    pub up: Vec<u32>,
    /// Parallel cables of the links above level `l`; empty means one everywhere.
    pub widths: Vec<u32>,
}

impl FatTree {
    /// The `radix`-port fat tree of commodity switches: `radix / 2` hosts at a leaf, full bisection; for
    /// three levels the one of M. Al-Fares et al., SIGCOMM 2008, with `radix^3 / 4` hosts.
    ///
    /// # Errors
    /// If the radix is odd or there are fewer than two levels.
    pub fn of_radix(radix: u32, level_count: u32) -> Result<FatTree, TopologyError> {
        if radix < 2 || !radix.is_multiple_of(2) {
            return Err(invalid("fat tree", format!("radix {radix}: an even number of ports is needed")));
        }
        if !(2..=16).contains(&level_count) {
            return Err(invalid("fat tree", format!("{level_count} levels: 2 to 16 are possible")));
        }
        let half = radix / 2;
        let joints = level_count as usize - 1;
        let mut down = vec![half; joints];
        // The top level has no parents: all its ports lead down.
        down[joints - 1] = radix;
        Ok(FatTree { down, up: vec![half; joints], widths: Vec::new() })
    }

    /// Number of levels of switches.
    pub fn level_count(&self) -> usize {
        self.down.len() + 1
    }

    /// Digit bounds of a switch of `level`.
    fn radices(&self, level: usize) -> impl Iterator<Item = u32> + '_ {
        (0..self.down.len()).map(move |j| if j < level { self.up[j] } else { self.down[j] })
    }

    /// Number of switches at a level.
    pub fn level_size(&self, level: usize) -> u64 {
        self.radices(level).fold(1_u64, |size, radix| size.saturating_mul(radix.into()))
    }

    /// The number of a level's first switch.
    pub fn level_start(&self, level: usize) -> u32 {
        (0..level).map(|below| self.level_size(below) as u32).sum()
    }

    /// Level and digits of a switch.
    pub fn place(&self, switch: u32) -> (usize, Vec<u32>) {
        let mut level = 0;
        let mut rest = switch;
        while u64::from(rest) >= self.level_size(level) {
            rest -= self.level_size(level) as u32;
            level += 1;
        }
        let digits = self.radices(level).map(|radix| {
            let digit = rest % radix;
            rest /= radix;
            digit
        });
        (level, digits.collect())
    }

    /// The switch with these digits at a level.
    pub fn switch_at(&self, level: usize, digits: &[u32]) -> u32 {
        let radices: Vec<u32> = self.radices(level).collect();
        let index = radices.iter().zip(digits).rev().fold(0, |rest, (radix, digit)| digit + radix * rest);
        self.level_start(level) + index
    }

    /// Ports towards children of a switch of `level`; parents' ports follow.
    pub fn child_port_count(&self, level: usize) -> u32 {
        if level == 0 { 0 } else { self.down[level - 1] }
    }
}

impl Generator for FatTree {
    fn kind(&self) -> &'static str {
        "fat tree"
    }

    fn check(&self) -> Result<(), TopologyError> {
        let joints = self.down.len();
        if joints == 0 || self.up.len() != joints {
            let ups = self.up.len();
            let problem = format!("down has {joints} numbers and up {ups}: one each for every two levels");
            return Err(invalid("fat tree", problem));
        }
        if !self.widths.is_empty() && self.widths.len() != joints {
            return Err(invalid(
                "fat tree",
                format!("{} widths for {joints} pairs of levels", self.widths.len()),
            ));
        }
        let bad = |numbers: &[u32]| numbers.iter().any(|&number| number == 0 || number > 4096);
        if bad(&self.down) || bad(&self.up) || bad(&self.widths) {
            return Err(invalid("fat tree", "numbers of children, parents and cables are 1 to 4096"));
        }
        Ok(())
    }

    fn switch_count(&self) -> u64 {
        (0..self.level_count()).fold(0, |count: u64, level| count.saturating_add(self.level_size(level)))
    }

    fn coordinates(&self, switch: u32) -> Vec<u32> {
        let (level, digits) = self.place(switch);
        std::iter::once(level as u32).chain(digits).collect()
    }

    fn switch_port_count(&self, switch: u32) -> u64 {
        let (level, _) = self.place(switch);
        u64::from(self.child_port_count(level)) + u64::from(self.up.get(level).copied().unwrap_or(0))
    }

    fn port_name(&self, switch: u32, port: Port) -> String {
        let (level, _) = self.place(switch);
        match u32::from(port).checked_sub(self.child_port_count(level)) {
            Some(parent) => format!("up{parent}"),
            None => format!("down{port}"),
        }
    }

    fn carries_hosts(&self, switch: u32) -> bool {
        self.place(switch).0 == 0
    }

    fn cables(&self) -> Vec<Cable> {
        let mut cables = Vec::new();
        for level in 0..self.down.len() {
            let first_up_port = self.child_port_count(level);
            let width = self.widths.get(level).copied().unwrap_or(1);
            for index in 0..self.level_size(level) as u32 {
                let child = self.level_start(level) + index;
                let (_, mut digits) = self.place(child);
                let child_digit = digits[level];
                for parent in 0..self.up[level] {
                    digits[level] = parent;
                    let above = self.switch_at(level + 1, &digits);
                    let ports = ((first_up_port + parent) as Port, child_digit as Port);
                    cables.push(Cable { a: (child, ports.0), b: (above, ports.1), width });
                }
            }
        }
        cables
    }
}
