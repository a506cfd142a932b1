//! Link loads of a plan under a traffic the user gives: bytes from host to host.

use crate::graph::{ChannelId, HostId, LinkId, SwitchId};
use crate::plan::Plan;

/// Bytes on every channel between switches.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkLoads {
    /// Indexed by [`ChannelId`].
    pub channel_bytes: Vec<u64>,
    /// The channel that takes longest: its link, the switch that sends, its bytes and its time, s.
    pub bottleneck: Option<(LinkId, SwitchId, u64, f64)>,
}

/// Load of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ChannelLoad {
    /// The link.
    pub link: LinkId,
    /// The switch that sends.
    pub from: SwitchId,
    /// The switch that receives.
    pub to: SwitchId,
    /// Bytes over all cables of the link.
    pub bytes: u64,
    /// How long all cables together take for them, s.
    pub time_s: f64,
}

/// Why a traffic cannot be put on a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// A host that the plan does not have.
    #[error("the plan has hosts 0 to {last}, and the traffic names {host}")]
    NoSuchHost {
        /// The number given.
        host: u32,
        /// The highest there is.
        last: u32,
    },
    /// No route, because a failed switch or link cuts the hosts apart.
    #[error("there is no route from {from} to {to}")]
    NoRoute {
        /// Name of the sender.
        from: String,
        /// Name of the receiver.
        to: String,
    },
}

impl LinkLoads {
    /// Puts `(from, to, bytes)` on the plan's routes, over each host's first attachment.
    ///
    /// # Errors
    /// If a host does not exist or cannot be reached.
    pub fn of(
        plan: &Plan,
        traffic: impl IntoIterator<Item = (HostId, HostId, u64)>,
    ) -> Result<LinkLoads, TrafficError> {
        // Bytes between switches on each VLAN first, so that each route is looked up once.
        let mut between = std::collections::BTreeMap::new();
        for (from, to, bytes) in traffic {
            for host in [from, to] {
                if host.index() >= plan.hosts.len() {
                    let last = plan.hosts.len().saturating_sub(1) as u32;
                    return Err(TrafficError::NoSuchHost { host: host.0, last });
                }
            }
            let [a, b] = [from, to].map(|host| &plan.host(host).attachments[0]);
            let key = (a.switch, b.switch, plan.vlan_between(a, b));
            let sum = &mut between.entry(key).or_insert((from, to, 0_u64)).2;
            *sum = sum.saturating_add(bytes);
        }
        let mut channel_bytes = vec![0_u64; 2 * plan.links.len()];
        for ((a, b, vid), (from, to, bytes)) in between {
            let route = vid.and_then(|vid| plan.route_on(vid, a, b)).ok_or_else(|| {
                let [from, to] = [from, to].map(|host| plan.host(host).name.clone());
                TrafficError::NoRoute { from, to }
            })?;
            let mut at = a;
            for hop in route.hops {
                let sum = &mut channel_bytes[channel(plan, hop.link, at).index()];
                *sum = sum.saturating_add(bytes);
                at = hop.to;
            }
        }
        let mut loads = LinkLoads { channel_bytes, bottleneck: None };
        loads.bottleneck = loads.busiest_first(plan).first().map(|c| (c.link, c.from, c.bytes, c.time_s));
        Ok(loads)
    }

    /// Every channel that carries something, the one that takes longest first.
    pub fn busiest_first(&self, plan: &Plan) -> Vec<ChannelLoad> {
        let loaded = self.channel_bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        let mut channels: Vec<ChannelLoad> = loaded
            .map(|(channel, &bytes)| {
                let id = ChannelId(channel as u32).link();
                let link = &plan.links[id.index()];
                let rate = link.rate_bits_per_s as f64 * link.cable_count() as f64;
                let [from, to] = [channel % 2, 1 - channel % 2].map(|end| link.ends[end].switch);
                ChannelLoad { link: id, from, to, bytes, time_s: bytes as f64 * 8.0 / rate }
            })
            .collect();
        channels.sort_by(|a, b| b.time_s.total_cmp(&a.time_s));
        channels
    }
}

fn channel(plan: &Plan, link: LinkId, from: SwitchId) -> ChannelId {
    link.channel_from(usize::from(plan.links[link.index()].ends[0].switch != from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::two_switches_and_four_hosts;

    #[test]
    fn traffic_within_a_switch_loads_no_link() {
        let plan = two_switches_and_four_hosts();
        let loads = LinkLoads::of(&plan, [(HostId(0), HostId(1), 1_000)]).unwrap();
        assert_eq!(loads.channel_bytes, [0, 0]);
        assert_eq!(loads.bottleneck, None);
    }

    #[test]
    fn traffic_between_switches_loads_its_direction_only() {
        let plan = two_switches_and_four_hosts();
        let traffic =
            [(HostId(0), HostId(2), 1_000), (HostId(1), HostId(3), 500), (HostId(3), HostId(0), 10)];
        let loads = LinkLoads::of(&plan, traffic).unwrap();
        assert_eq!(loads.channel_bytes, [1_500, 10]);
        let (link, from, bytes, time_s) = loads.bottleneck.unwrap();
        assert_eq!((link, from, bytes), (LinkId(0), SwitchId(0), 1_500));
        // 12,000 bits over two cables of 1 Gbit/s.
        assert!((time_s - 6e-6).abs() < 1e-12, "{time_s}");
    }

    #[test]
    fn traffic_loads_all_links_on_its_way_the_busiest_comes_first() {
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"tree\"\narity = 1\n\
             switches = 3\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n";
        let plan = crate::vlan::plan(&crate::description::Machine::parse("m.toml", text).unwrap()).unwrap();
        let traffic = [(HostId(0), HostId(2), 1), (HostId(1), HostId(2), 5), (HostId(2), HostId(1), 9)];
        let loads = LinkLoads::of(&plan, traffic).unwrap();
        assert_eq!(loads.channel_bytes, [1, 0, 6, 9]);
        let busiest: Vec<(u32, u32, u32, u64)> = loads
            .busiest_first(&plan)
            .iter()
            .map(|load| (load.link.0, load.from.0, load.to.0, load.bytes))
            .collect();
        assert_eq!(busiest, [(1, 2, 1, 9), (1, 1, 2, 6), (0, 0, 1, 1)]);
    }

    #[test]
    fn unknown_hosts_are_refused() {
        let error = LinkLoads::of(&two_switches_and_four_hosts(), [(HostId(0), HostId(4), 1)]).unwrap_err();
        assert_eq!(error, TrafficError::NoSuchHost { host: 4, last: 3 });
    }
}
