//! What a run says about the network: utilisation, queueing, and the bottleneck in one line.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use ayatori_fabric::graph::{ChannelId, Graph, Node};

use crate::cluster::{ClusterReport, Usage};
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
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// The busiest; `None` if nothing was sent.
    pub busiest: Option<BusyChannel>,
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkReport {
    /// Time looked at, ps.
    pub elapsed_ps: u64,
    /// From hosts into the network. How long packets waited in a NIC is not measured.
    pub injection: Group,
    /// Between switches.
    pub network: Group,
    /// From the network to hosts.
    pub ejection: Group,
    /// The busiest between switches, busiest first.
    pub worst: Vec<BusyChannel>,
    /// The link for which packets waited longest, all taken together.
    pub waited_most: Option<BusyChannel>,
    /// The NIC that was sending and receiving for the largest part of the time, the two added up: its link
    /// into the network, and that sum.
    pub busiest_nic: Option<(BusyChannel, f64)>,
}

/// How busy hosts were: what links do not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostReport {
    /// The busiest rank.
    pub rank: u32,
    /// Part of the time of its cores that it was in the library or computing, 0 to 1.
    pub software_max: f64,
    /// Part of the time that it was computing.
    pub computing: f64,
    /// Part of the time that ranks were in the library or computing in the mean.
    pub software_mean: f64,
    /// The host with the busiest memory, by number.
    pub host: u32,
    /// Part of the time that its memory was busy with messages within the host.
    pub memory_max: f64,
}

impl HostReport {
    /// Looks at a run of a cluster.
    pub fn of(report: &ClusterReport) -> HostReport {
        let Usage { computing_ps, core_counts, memory_busy_ps, .. } = &report.usage;
        let elapsed_ps = report.elapsed_ps.max(1) as f64;
        let cores = |rank: usize| u64::from(core_counts.get(rank).copied().unwrap_or(1));
        let busy_ps = report.usage.busy_ps.iter().enumerate().map(|(rank, ps)| ps / cores(rank));
        let busy_ps: &Vec<u64> = &busy_ps.collect();
        let most = |values: &[u64]| {
            let most = (0..values.len()).max_by_key(|&index| (values[index], std::cmp::Reverse(index)));
            most.map_or((0, 0.0), |index| (index as u32, values[index] as f64 / elapsed_ps))
        };
        let ((rank, software_max), (host, memory_max)) = (most(busy_ps), most(memory_busy_ps));
        let total_ps: u128 = busy_ps.iter().map(|&ps| u128::from(ps)).sum();
        HostReport {
            rank,
            software_max,
            computing: computing_ps.get(rank as usize).copied().unwrap_or(0) as f64
                / cores(rank as usize) as f64
                / elapsed_ps,
            software_mean: total_ps as f64 / elapsed_ps / busy_ps.len().max(1) as f64,
            host,
            memory_max,
        }
    }
}

/// What is busy for this part of the time limits the whole.
const SATURATED: f64 = 0.9;
/// A NIC busy for this part of the time does more than whatever it waits for in between.
const NEARLY_SATURATED: f64 = 0.7;
/// Where packets wait at a hop for longer than sending this many of them takes, they stand in each other's
/// way: buffers are full far back (tree saturation), even where no link is always busy.
const CONTENDED_PACKET_TIMES: f64 = 1.0;

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

impl LinkReport {
    /// Looks at a network that has run for `elapsed_ps` since it was built, and names the `worst_count`
    /// busiest links.
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
        let named = |load: &ChannelLoad| busy_channel(graph, load, elapsed_ps);
        let all = between.iter().chain(&ejection);
        let waited_most =
            all.max_by_key(|load| (load.waited_ps, std::cmp::Reverse((load.channel, load.cable))));
        let received: HashMap<(ChannelId, Option<u32>), u64> =
            ejection.iter().map(|load| ((load.channel.reverse(), load.cable), load.busy_ps)).collect();
        let received = |load: &ChannelLoad| received.get(&(load.channel, load.cable)).copied();
        let both = |load: &ChannelLoad| load.busy_ps + received(load).unwrap_or(0);
        let busiest_nic =
            injection.iter().max_by_key(|load| (both(load), std::cmp::Reverse((load.channel, load.cable))));
        let part = |load: &ChannelLoad| both(load) as f64 / elapsed_ps.max(1) as f64;
        // The number decides among equals, so that the same run names the same links.
        let mut busiest = between.clone();
        busiest.sort_by_key(|load| (std::cmp::Reverse(load.busy_ps), load.channel, load.cable));
        LinkReport {
            elapsed_ps,
            worst: busiest.iter().filter(|load| load.busy_ps > 0).take(worst_count).map(named).collect(),
            waited_most: waited_most.filter(|load| load.waited_ps > 0).map(named),
            busiest_nic: busiest_nic.filter(|load| both(load) > 0).map(|load| (named(load), part(load))),
            injection: group(graph, &injection, elapsed_ps),
            network: group(graph, &between, elapsed_ps),
            ejection: group(graph, &ejection, elapsed_ps),
        }
    }

    /// What limited the run, in one line.
    pub fn bottleneck(&self, hosts: &HostReport) -> String {
        if let Some(text) = self.saturated(hosts) {
            return text;
        }
        let nics = self.injection.max.max(self.ejection.max);
        let (links, nics, software) = (percent(self.network.max), percent(nics), percent(hosts.software_max));
        // Packets of one message wait for each other where a router takes a little longer for them than the
        // NIC: not contention, for no link carries more than a NIC sends.
        let own_only = self.network.max <= self.injection.max;
        if let Some(text) = self.nic_in_turn().filter(|_| own_only) {
            return text;
        }
        if let Some(most) = self.contended() {
            let (wait_us, packets) =
                (self.network.mean_wait_ps / 1e6, self.network.mean_wait_ps / self.network.mean_transfer_ps);
            return format!(
                "contention: packets waited {wait_us:.1} us ({packets:.1} packet times) at a hop in the mean, longest for \
                 {}, busy {}; links are busy {links} at most, NICs {nics}",
                most.name,
                percent(most.utilisation)
            );
        }
        if let Some(text) = self.nearly_all_nic() {
            return text;
        }
        format!(
            "latency: ranks wait for each other's messages; software is busy {software} of the time at most, links \
             {links}, NICs {nics}"
        )
    }

    /// The busiest thing, if something is always busy.
    fn saturated(&self, hosts: &HostReport) -> Option<String> {
        let links = percent(self.network.max);
        let link = self.network.busiest.as_ref().map(|link| {
            format!(
                "link {}, busy {links} of the time (mean of all {}); packets waited {:.1} us for it",
                link.name,
                percent(self.network.mean),
                link.mean_wait_ps / 1e6
            )
        });
        let nic = |group: &Group, verb: &str| {
            let nic = group.busiest.as_ref()?;
            Some(format!(
                "NIC {}, {verb} {} of the time; links at most {links}",
                nic.name,
                percent(group.max)
            ))
        };
        let software = format!(
            "software: rank {} is busy {} of the time ({} computing), the mean of all ranks {}",
            hosts.rank,
            percent(hosts.software_max),
            percent(hosts.computing),
            percent(hosts.software_mean)
        );
        let memory = format!(
            "memory of host {}, busy {} of the time with messages within the host",
            hosts.host,
            percent(hosts.memory_max)
        );
        let mut found = [
            (self.network.max, link),
            (self.ejection.max, nic(&self.ejection, "receiving")),
            (self.injection.max, nic(&self.injection, "sending")),
            (hosts.memory_max, Some(memory)),
            (hosts.software_max, Some(software)),
        ];
        // The sort is stable: among equals the link is named.
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let [(part, text), ..] = found;
        text.filter(|_| part >= SATURATED)
    }

    /// A NIC that sends and receives in turn all the time.
    fn nic_in_turn(&self) -> Option<String> {
        let (_, both) = self.busiest_nic.as_ref()?;
        let in_turn = (SATURATED..2.0 - SATURATED).contains(both);
        in_turn.then(|| format!("the rate of NICs, with messages one after the other: {}", self.nic_parts()))
    }

    /// As `nic_in_turn`, or a NIC that is not far from saturated.
    fn nearly_all_nic(&self) -> Option<String> {
        let (nic, both) = self.busiest_nic.as_ref()?;
        let pauses = nic.utilisation.max(both - nic.utilisation) >= NEARLY_SATURATED;
        let with_pauses = || {
            pauses.then(|| format!("the rate of NICs, with pauses between messages: {}", self.nic_parts()))
        };
        self.nic_in_turn().or_else(with_pauses)
    }

    fn nic_parts(&self) -> String {
        let Some((nic, both)) = &self.busiest_nic else { return String::new() };
        let (sends, receives) = (percent(nic.utilisation), percent(both - nic.utilisation));
        format!("{} sends {sends} of the time and receives {receives}", nic.name)
    }

    /// Whether packets stood in each other's way, and where most.
    fn contended(&self) -> Option<&BusyChannel> {
        let Group { mean_wait_ps, mean_transfer_ps, .. } = self.network;
        self.waited_most.as_ref().filter(|_| mean_wait_ps > CONTENDED_PACKET_TIMES * mean_transfer_ps)
    }
}

fn busy_channel(graph: &Graph, load: &ChannelLoad, elapsed_ps: u64) -> BusyChannel {
    let mut name = graph.describe_channel(load.channel);
    if let Some(cable) = load.cable {
        let _ = write!(name, " cable {}", cable + 1);
    }
    BusyChannel {
        name,
        channel: load.channel,
        utilisation: load.busy_ps as f64 / elapsed_ps.max(1) as f64,
        mean_wait_ps: load.waited_ps as f64 / load.sent_packet_count.max(1) as f64,
    }
}

fn group(graph: &Graph, loads: &[ChannelLoad], elapsed_ps: u64) -> Group {
    let busiest =
        loads.iter().max_by_key(|load| (load.busy_ps, std::cmp::Reverse((load.channel, load.cable))));
    let busiest = busiest.filter(|load| load.busy_ps > 0).map(|load| busy_channel(graph, load, elapsed_ps));
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
        busiest,
    }
}

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<22}{:>8}{:>8}{:>8}{:>14}",
            "utilisation", "links", "max %", "mean %", "mean wait us"
        )?;
        let wait = |group: &Group| format!("{:.3}", group.mean_wait_ps / 1e6);
        let groups = [
            ("NIC to network", &self.injection, "-".into()),
            ("between switches", &self.network, wait(&self.network)),
            ("network to NIC", &self.ejection, wait(&self.ejection)),
        ];
        for (name, Group { channel_count, max, mean, .. }, wait) in groups {
            let (max, mean) = (100.0 * max, 100.0 * mean);
            writeln!(f, "{name:<22}{channel_count:>8}{max:>8.1}{mean:>8.1}{wait:>14}")?;
        }
        for BusyChannel { name, utilisation, mean_wait_ps, .. } in &self.worst {
            writeln!(f, "  {name:<28}{:>8.1}{:>22.3}", 100.0 * utilisation, mean_wait_ps / 1e6)?;
        }
        Ok(())
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
            network.send(Message {
                from,
                to,
                bytes,
                gap: Gap::NONE,
                flow: 0,
                token: 0,
                notify_injected: false,
            });
        }
        while network.advance().unwrap().is_some() {}
        LinkReport::of(&network, network.now_ps(), 3)
    }

    fn line(report: &LinkReport) -> String {
        report.bottleneck(&HostReport::default())
    }

    #[test]
    fn the_link_that_two_flows_share_is_the_bottleneck() {
        // Both from s0.0 and s1.0 through s1.0:x+ to s2.0 and s3.0's neighbour.
        let report = after(&[(0, 2, 4_000_000), (1, 2, 4_000_000), (1, 6, 4_000_000)]);
        assert_eq!(report.worst[0].name, "s1.0:0 -> s2.0:1");
        assert!(line(&report).starts_with("link s1.0:0 -> s2.0:1, busy 100 %"), "{}", line(&report));
    }

    #[test]
    fn many_senders_to_one_are_limited_by_its_nic() {
        let report = after(&[(1, 0, 1_000_000), (3, 0, 1_000_000), (4, 0, 1_000_000), (12, 0, 1_000_000)]);
        let line = line(&report);
        assert!(line.starts_with("NIC s0.0:4 -> h0:0, receiving 100 %"), "{line}");
    }

    #[test]
    fn ping_pong_is_limited_by_the_rate_of_nics() {
        let mut network = nsim_torus(&[4, 4], NoProbe).unwrap();
        for (from, to) in [(NicId(0), NicId(1)), (NicId(1), NicId(0))] {
            let bytes = 4_000_000;
            network.send(Message {
                from,
                to,
                bytes,
                gap: Gap::NONE,
                flow: 0,
                token: 0,
                notify_injected: false,
            });
            while network.advance().unwrap().is_some() {}
        }
        let line = line(&LinkReport::of(&network, network.now_ps(), 0));
        assert!(
            line.starts_with("the rate of NICs") && line.contains("sends 50 % of the time and receives 50 %"),
            "{line}"
        );
    }

    #[test]
    fn an_idle_network_is_no_bottleneck() {
        for messages in [&[][..], &[(0, 1, 100)]] {
            let line = line(&after(messages));
            assert!(line.starts_with("latency"), "{line}");
        }
        let hosts = HostReport { rank: 3, software_max: 0.95, computing: 0.5, ..HostReport::default() };
        let line = after(&[(0, 1, 100)]).bottleneck(&hosts);
        assert!(line.starts_with("software: rank 3 is busy 95 % of the time (50 % computing)"), "{line}");
    }
}
