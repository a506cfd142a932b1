//! What a run says about the network: utilisation, queueing, and the bottleneck in one line.

use std::fmt;

use ayatori_fabric::graph::{ChannelId, Graph, Node};

use crate::network::{ChannelLoad, Network, Probe};

/// A direction of a link and how busy it was.
#[derive(Debug, Clone, PartialEq)]
pub struct BusyChannel {
    /// In words: `s0.0:0 -> s1.0:1`.
    pub name: String,
    /// The direction of the link.
    pub channel: ChannelId,
    /// Part of the time in which it was sending, 0 to 1.
    pub utilisation: f64,
    /// Mean time that a packet waited for it once ready, ps.
    pub mean_wait_ps: f64,
}

/// Links of one kind taken together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Group {
    /// Number of directions.
    pub channel_count: usize,
    /// Highest utilisation.
    pub max: f64,
    /// Mean utilisation.
    pub mean: f64,
    /// Mean time that a packet waited, ps.
    pub mean_wait_ps: f64,
    /// Mean time that sending a packet took, ps.
    pub mean_transfer_ps: f64,
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkReport {
    /// Time looked at, ps.
    pub elapsed_ps: u64,
    /// From hosts into the network.
    pub injection: Group,
    /// Between switches.
    pub network: Group,
    /// From the network to hosts.
    pub ejection: Group,
    /// The busiest between switches, busiest first.
    pub worst: Vec<BusyChannel>,
}

/// A link busy for this part of the time limits the whole.
const SATURATED: f64 = 0.9;
/// Where packets wait at a hop for longer than sending this many of them takes, they stand in each other's way: buffers
/// are full far back (tree saturation), even where no link is always busy.
const CONTENDED_PACKET_TIMES: f64 = 1.0;

impl LinkReport {
    /// Looks at a network that has run for `elapsed_ps` since it was built, and names the `worst_count` busiest links.
    pub fn of<P: Probe>(network: &Network<P>, elapsed_ps: u64, worst_count: usize) -> LinkReport {
        let graph = network.graph();
        let (mut injection, mut between, mut ejection) = (Vec::new(), Vec::new(), Vec::new());
        for load in network.channel_loads() {
            let (from, to) = graph.channel_ends(load.channel);
            match (from.node, to.node) {
                (Node::Host(_), _) => injection.push(load),
                (_, Node::Host(_)) => ejection.push(load),
                _ => between.push(load),
            }
        }
        let mut busiest = between.clone();
        // The number decides among equals, so that the same run names the same links.
        busiest.sort_by_key(|load| (std::cmp::Reverse(load.busy_ps), load.channel));
        let worst = busiest.iter().take(worst_count).map(|load| busy_channel(graph, load, elapsed_ps));
        LinkReport {
            elapsed_ps,
            injection: group(&injection, elapsed_ps),
            network: group(&between, elapsed_ps),
            ejection: group(&ejection, elapsed_ps),
            worst: worst.collect(),
        }
    }

    /// What limited the run, in one line.
    pub fn bottleneck(&self) -> String {
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        let Some(worst) = self.worst.first().filter(|worst| worst.utilisation > 0.0) else {
            return "bottleneck: none; no packet went from switch to switch".into();
        };
        let (busiest, mean) = (percent(self.network.max), percent(self.network.mean));
        if self.network.max >= SATURATED {
            return format!(
                "bottleneck: link {}, busy {busiest} of the time (mean of all {mean}); packets waited {:.1} us for it",
                worst.name,
                worst.mean_wait_ps / 1e6
            );
        }
        for (group, what) in [(self.ejection, "receiving"), (self.injection, "sending")] {
            if group.max >= SATURATED {
                return format!(
                    "bottleneck: a {what} NIC, busy {} of the time; links at most {busiest}",
                    percent(group.max)
                );
            }
        }
        if self.network.mean_wait_ps > CONTENDED_PACKET_TIMES * self.network.mean_transfer_ps {
            return format!(
                "bottleneck: contention; packets waited {:.1} us at a hop in the mean, the busiest link {} is busy {busiest}",
                self.network.mean_wait_ps / 1e6,
                worst.name
            );
        }
        let nic = percent(self.injection.max.max(self.ejection.max));
        format!(
            "bottleneck: not the network; links are busy {busiest} at most, NICs {nic}: latency or software"
        )
    }
}

fn busy_channel(graph: &Graph, load: &ChannelLoad, elapsed_ps: u64) -> BusyChannel {
    BusyChannel {
        name: graph.describe_channel(load.channel),
        channel: load.channel,
        utilisation: load.busy_ps as f64 / elapsed_ps.max(1) as f64,
        mean_wait_ps: load.waited_ps as f64 / load.sent_packet_count.max(1) as f64,
    }
}

fn group(loads: &[ChannelLoad], elapsed_ps: u64) -> Group {
    let elapsed_ps = elapsed_ps.max(1) as f64;
    let sum = |value: fn(&ChannelLoad) -> u64| loads.iter().map(|load| u128::from(value(load))).sum::<u128>();
    let (busy_ps, waited_ps) = (sum(|load| load.busy_ps), sum(|load| load.waited_ps));
    let packets = sum(|load| load.sent_packet_count);
    Group {
        channel_count: loads.len(),
        max: loads.iter().map(|load| load.busy_ps).max().unwrap_or(0) as f64 / elapsed_ps,
        mean: busy_ps as f64 / elapsed_ps / loads.len().max(1) as f64,
        mean_wait_ps: waited_ps as f64 / packets.max(1) as f64,
        mean_transfer_ps: busy_ps as f64 / packets.max(1) as f64,
    }
}

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<22}{:>8}{:>8}{:>8}{:>14}",
            "utilisation", "links", "max %", "mean %", "mean wait us"
        )?;
        let groups = [
            ("NIC to network", self.injection),
            ("between switches", self.network),
            ("network to NIC", self.ejection),
        ];
        for (name, Group { channel_count, max, mean, mean_wait_ps, .. }) in groups {
            let (max, mean, wait) = (100.0 * max, 100.0 * mean, mean_wait_ps / 1e6);
            writeln!(f, "{name:<22}{channel_count:>8}{max:>8.1}{mean:>8.1}{wait:>14.3}")?;
        }
        for BusyChannel { name, utilisation, mean_wait_ps, .. } in &self.worst {
            writeln!(f, "  {name:<36}{:>8.1}{:>22.3}", 100.0 * utilisation, mean_wait_ps / 1e6)?;
        }
        write!(f, "{}", self.bottleneck())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::nsim_torus;
    use crate::network::{Gap, Message, NicId, NoProbe};

    fn after(messages: &[(u32, u32, u64)]) -> LinkReport {
        let mut network = nsim_torus(&[4, 4], NoProbe).unwrap();
        for &(from, to, bytes) in messages {
            let [from, to] = [from, to].map(NicId);
            network.send(Message { from, to, bytes, gap: Gap::NONE, token: 0, notify_injected: false });
        }
        while network.advance().unwrap().is_some() {}
        LinkReport::of(&network, network.now_ps(), 3)
    }

    #[test]
    fn the_link_that_two_flows_share_is_the_bottleneck() {
        // Both from s0.0 and s1.0 through s1.0:x+ to s2.0 and s3.0's neighbour.
        let report = after(&[(0, 2, 4_000_000), (1, 2, 4_000_000), (1, 6, 4_000_000)]);
        assert_eq!(report.worst[0].name, "s1.0:0 -> s2.0:1");
        assert!(report.bottleneck().starts_with("bottleneck: link s1.0:0 -> s2.0:1, busy 100 %"), "{report}");
    }

    #[test]
    fn many_senders_to_one_are_limited_by_its_nic() {
        let report = after(&[(1, 0, 1_000_000), (3, 0, 1_000_000), (4, 0, 1_000_000), (12, 0, 1_000_000)]);
        assert!(report.bottleneck().starts_with("bottleneck: a receiving NIC"), "{report}");
    }

    #[test]
    fn an_idle_network_is_no_bottleneck() {
        assert!(after(&[(0, 1, 100)]).bottleneck().starts_with("bottleneck: not the network"));
        assert!(after(&[]).bottleneck().contains("no packet"));
    }
}
