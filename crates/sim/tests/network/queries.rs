//! What a network says of itself, and what it tells who watches it.

use std::collections::BTreeMap;

use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{ChannelId, HostId};
use ayatori_fabric::routing::{Method, Routing};
use ayatori_fabric::topology::{HostLayout, Mesh, Topology};
use ayatori_sim::machine::simulate;
use ayatori_sim::network::{ChannelLoad, Config, Message, Network, NicId, Occurrence, Probe};

use crate::worlds::*;

/// Two switches and four hosts, two cables between the switches.
fn ethernet<P: Probe>(switch: &str, probe: P) -> Network<P> {
    let text = format!(
        "name = \"pair\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n{switch}\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\nkind = \"complete\"\nswitches = 2\n\
         switch_model = \"s\"\ncables = 2\n[hosts]\nmodel = \"h\"\nper_switch = 2\n"
    );
    simulate(&Machine::parse("pair.toml", &text).unwrap(), probe).unwrap().network
}

/// Three switches in a row, two hosts of `nic_count` NICs each.
fn row<P: Probe>(nic_count: u16, config: Config, probe: P) -> Network<P> {
    let topology = Topology::Mesh(Mesh { extents: vec![3] });
    let hosts = HostLayout { per_switch_count: 2, nic_count, link: LINK };
    let graph = topology.build_with_hosts(LINK, hosts).unwrap();
    let routing = Routing::new(Method::usual_for(&topology), &topology, &graph).unwrap();
    Network::with_probe(graph, routing, config, probe).unwrap()
}

#[test]
fn nics_and_their_hosts_name_each_other() {
    let network = row(3, Config::nsim(), None::<Tally>);
    assert_eq!(network.nic_count(), 18);
    for host in 0..6 {
        for nic in 0..3 {
            let id = network.nic(HostId(host), nic).unwrap();
            assert_eq!((id.0, network.host_of(id)), (3 * host + u32::from(nic), HostId(host)));
            assert_eq!(network.switch_of(id).0, host / 2);
        }
        assert_eq!(network.nic(HostId(host), 3), None);
    }
    assert_eq!(network.nic(HostId(6), 0), None);
}

/// What a probe was told.
#[derive(Debug, Default)]
struct Tally {
    given_bytes: u64,
    delivered: Vec<(u64, u64)>,
    /// Bytes, packets, and the time that they took.
    sent: BTreeMap<ChannelId, (u64, u64, u64)>,
}

impl Probe for Tally {
    fn on_transmit(&mut self, channel: ChannelId, start_ps: u64, end_ps: u64, bytes: u32) {
        let (sent_bytes, count, busy_ps) = self.sent.entry(channel).or_default();
        *sent_bytes += u64::from(bytes);
        *count += 1;
        *busy_ps += end_ps - start_ps;
    }
    fn on_send(&mut self, _time_ps: u64, _handle: u32, message: &Message) {
        self.given_bytes += message.bytes;
    }
    fn on_delivered(&mut self, time_ps: u64, _handle: u32, message: &Message) {
        self.delivered.push((time_ps, message.bytes));
    }
}

#[test]
fn a_probe_is_told_all_that_the_links_carry() {
    let wide = Config { vc_count: 4, ..Config::nsim() };
    for (mut network, cables) in [
        (row(1, Config::nsim(), Some(Tally::default())), 1),
        (row(1, wide, Some(Tally::default())), 1),
        (ethernet("", Some(Tally::default())), 2),
    ] {
        let is_unused = |load: &ChannelLoad| (load.sent_bytes, load.busy_ps, load.waited_ps) == (0, 0, 0);
        assert!(network.channel_loads().all(|load| is_unused(&load)));
        for (token, bytes) in (0..).zip([20_000, 0, 30_000]) {
            network.send(Message { token, flow: token << 16, ..message(token, 3, bytes) });
        }
        let mut times = Vec::new();
        while network.advance().unwrap().is_some() {
            times.push(network.now_ps());
        }
        let mut carried = BTreeMap::<ChannelId, (u64, u64, u64)>::new();
        for load in network.channel_loads().filter(|load| load.sent_packet_count > 0) {
            let sum = carried.entry(load.channel).or_default();
            let share = if load.cable.is_some() { cables } else { 1 };
            *sum = (sum.0 + load.sent_bytes, sum.1 + load.sent_packet_count, sum.2 + load.busy_ps / share);
        }
        let told = network.probe().as_ref().unwrap();
        assert_eq!(told.sent, carried);
        assert_eq!(told.given_bytes, 50_000);
        let (at, bytes): (Vec<u64>, Vec<u64>) = told.delivered.iter().copied().unzip();
        assert_eq!((at, bytes.iter().sum::<u64>()), (times, 50_000));
    }
}

#[test]
fn time_stands_where_it_was_to_stop() {
    let mut network = row(1, Config::nsim(), None::<Tally>);
    // The first of them begins a slice of time, however long slices are.
    let at_ps = 1 << 40;
    for (token, time_ps) in (0..).zip([at_ps, at_ps + 5]) {
        network.set_timer(time_ps, token);
    }
    for (limit_ps, token) in
        [(1_000, None), (at_ps - 1, None), (at_ps, Some(0)), (at_ps + 4, None), (at_ps + 5, Some(1))]
    {
        let timer = token.map(|token| Occurrence::Timer { token });
        assert_eq!(network.advance_until(limit_ps).unwrap(), timer);
        assert_eq!(network.now_ps(), limit_ps);
    }
}

#[test]
fn a_watch_shows_how_far_the_run_is() {
    let mut network = row(1, Config::nsim(), None::<Tally>);
    let watch = network.watch();
    assert_eq!(watch.glimpse(), Default::default());
    // Some ten thousand packets, of which each takes several slices.
    for from in 0..6 {
        network.send(message(from, 5 - from, 2_000 * FULL_PAYLOAD));
    }
    while network.advance().unwrap().is_some() {}
    let (glimpse, counters) = (watch.glimpse(), network.counters());
    assert_eq!(glimpse.given_packet_count, 12_000);
    for (seen, end) in [
        (glimpse.now_ps, network.now_ps()),
        (glimpse.packet_hop_count, counters.packet_hop_count),
        (glimpse.delivered_packet_count, counters.delivered_packet_count),
    ] {
        assert!((end * 9 / 10..=end).contains(&seen), "{seen} of {end}");
    }
}

#[test]
fn what_is_under_way_is_left_over_until_it_is_there() {
    let mut row = row(1, Config::nsim(), None::<Tally>);
    let mut pausing = ethernet("", None::<Tally>);
    let mut dropping = ethernet("pause = false", None::<Tally>);
    for (network, at_ps, words) in [
        // The packet waits for its second router.
        (&mut row, 30_000, "B of credits"),
        // The frame is in the first switch.
        (&mut pausing, 13_000_000, "B held"),
        // The segment has arrived, its acknowledgement waits.
        (&mut dropping, 1_000_000_000, "connection from NIC 0 to NIC 3"),
    ] {
        assert_eq!(network.leftovers(), None);
        assert!(network.is_idle(NicId(0)));
        network.send(message(0, 3, 1_400));
        assert!(!network.is_idle(NicId(0)) && network.is_idle(NicId(1)));
        let left = network.leftovers().unwrap();
        assert!(left.contains("(0, 1)") || left.contains("NIC 0"), "{left}");
        while network.advance_until(at_ps).unwrap().is_some() {}
        assert!(network.is_idle(NicId(0)), "the last packet has left");
        let left = network.leftovers().unwrap_or_default();
        assert!(left.contains(words), "{left:?} without {words:?}");
        while network.advance().unwrap().is_some() {}
        assert_eq!(network.leftovers(), None);
    }
}

#[test]
fn most_packets_in_flight_at_once_are_counted() {
    let (mut row, mut pair) = (row(1, Config::nsim(), None::<Tally>), ethernet("", None::<Tally>));
    for network in [&mut row, &mut pair] {
        for (count, most) in [(2, 2), (3, 3), (1, 3)] {
            for from in 0..count {
                network.send(message(from, 3, 100));
            }
            while network.advance().unwrap().is_some() {}
            assert_eq!(network.packet_high_water_count(), most);
        }
    }
}
