//! Switches that drop frames, and TCP that deals with it.

use ayatori_fabric::description::Machine;
use ayatori_random::Random;
use ayatori_sim::machine::{Simulated, simulate};
use ayatori_sim::network::{Gap, Message, Network, NoProbe, Occurrence};

use crate::worlds::{deliveries, message};

/// 1 Gbit/s.
const PS_PER_BYTE: u64 = 8_000;
/// 1,448 B of payload with the headers of TCP, IP and Ethernet, preamble and gap.
const FRAME: u64 = 1_538;
const PAYLOAD: u64 = 1_448;

/// `hosts_per_switch` hosts at each of two switches, one cable in between.
fn machine(hosts_per_switch: u32, switch: &str, host: &str) -> Network {
    let text = format!(
        "name = \"pair\"\n[switch_models.s]\nports = 48\nrate_gbps = 1\npause = false\n{switch}\n\
         [host_models.h]\nnic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n{host}\n\
         [topology]\nkind = \"complete\"\nswitches = 2\nswitch_model = \"s\"\n\
         [hosts]\nmodel = \"h\"\nper_switch = {hosts_per_switch}\n"
    );
    let machine = Machine::parse("pair.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let Simulated { network, .. } = simulate(&machine, NoProbe).unwrap();
    network
}

#[test]
fn stream_with_room_for_its_window_reaches_line_rate() {
    let mut network = machine(1, "queue_bytes = 4000000\nbuffer_bytes = 8000000", "");
    let segments = 10_000;
    network.send(message(0, 1, segments * PAYLOAD));
    let last_ps = deliveries(&mut network).last().unwrap().1;
    let busy_ps = segments * FRAME * PS_PER_BYTE;
    // Ten segments a round trip at first: the window is full after two more.
    assert!((busy_ps..busy_ps + busy_ps / 50).contains(&last_ps), "{last_ps} of {busy_ps}");
    let counters = network.counters();
    assert_eq!(
        (counters.dropped_packet_count, counters.resent_packet_count, counters.timeout_count),
        (0, 0, 0)
    );
    assert_eq!(counters.delivered_packet_count, segments);
    assert_eq!(network.leftovers(), None);
}

#[test]
fn a_gap_behind_each_segment_halves_a_streams_rate() {
    let mut network = machine(1, "queue_bytes = 4000000\nbuffer_bytes = 8000000", "");
    let segments = 2_000;
    network.send(Message { gap: Gap::packets(1.0), ..message(0, 1, segments * PAYLOAD) });
    let last_ps = deliveries(&mut network).last().unwrap().1;
    let busy_ps = 2 * segments * FRAME * PS_PER_BYTE;
    assert!((busy_ps - busy_ps / 50..busy_ps + busy_ps / 50).contains(&last_ps), "{last_ps} of {busy_ps}");
}

#[test]
fn delayed_acknowledgements_reach_either_end() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut network = machine(1, "", "tcp = { jitter_ns = 0 }");
        network.send(message(from, to, 100));
        assert_eq!(deliveries(&mut network).len(), 1);
        let counters = network.counters();
        assert_eq!((counters.resent_packet_count, counters.timeout_count), (0, 0), "{from} to {to}");
    }
}

#[test]
fn reported_loss_is_retransmitted_once() {
    let mut network = machine(2, "queue_bytes = 60000", "");
    // Two streams for one cable: it is full, its queue overflows now and then.
    for from in [0, 1] {
        network.send(message(from, from + 2, 40_000 * PAYLOAD));
    }
    let last_ps = deliveries(&mut network).last().unwrap().1;
    let counters = network.counters();
    assert!(counters.dropped_packet_count > 20, "{counters:?}");
    assert_eq!(counters.resent_packet_count, counters.dropped_packet_count, "{counters:?}");
    let busy_ps = 80_000 * FRAME * PS_PER_BYTE;
    // The cable is never idle for long.
    assert!((busy_ps..busy_ps + busy_ps / 50).contains(&last_ps), "{last_ps} of {busy_ps}");
    assert_eq!(network.leftovers(), None);
}

#[test]
fn messages_arrive_once_and_in_connection_order_despite_loss() {
    let (mut dropped_count, mut timeout_count) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let queue_bytes = FRAME * (1 + random.below(12));
        let hosts = 1 + random.below(6) as u32;
        let mut network = machine(
            hosts,
            &format!("queue_bytes = {queue_bytes}"),
            "tcp = { timeout_min_ms = 5, jitter_ns = 3000 }",
        );
        let count = 1 + random.below(60) as u32;
        let mut order = std::collections::BTreeMap::<(u32, u32, u32), Vec<u32>>::new();
        for token in 0..count {
            let (from, to) =
                (random.below(2 * u64::from(hosts)) as u32, random.below(2 * u64::from(hosts)) as u32);
            let bytes = [0, 1, PAYLOAD, 20_000, 300_000][random.below(5) as usize];
            let flow = random.below(2) as u32;
            network.send(Message { token, flow, ..message(from, to, bytes) });
            order.entry((from, to, flow)).or_default().push(token);
        }
        let mut arrived = Vec::new();
        while let Some(occurrence) = network.advance().unwrap() {
            if let Occurrence::Delivered { token, .. } = occurrence {
                arrived.push(token);
            }
        }
        assert_eq!(arrived.len(), count as usize, "seed {seed}");
        for tokens in order.values() {
            let seen: Vec<u32> = arrived.iter().copied().filter(|token| tokens.contains(token)).collect();
            assert_eq!(&seen, tokens, "seed {seed}");
        }
        let counters = network.counters();
        assert_eq!(counters.delivered_packet_count, counters.given_packet_count, "seed {seed}");
        assert_eq!(network.leftovers(), None, "seed {seed}");
        dropped_count += counters.dropped_packet_count;
        timeout_count += counters.timeout_count;
    }
    assert!(dropped_count > 1_000 && timeout_count > 50, "{dropped_count} lost, {timeout_count} timeouts");
}

#[test]
fn round_takes_a_timeout_into_a_small_queue_only() {
    // 32 windows of ten segments at once: 320 frames.
    for (frames, timeouts) in [(64, true), (330, false)] {
        let mut network =
            machine(33, &format!("queue_bytes = {}\nbuffer_bytes = 9000000", frames * FRAME), "");
        for from in 1..=32 {
            network.send(Message { flow: from, ..message(from, 0, 10 * PAYLOAD) });
        }
        let last_ps = deliveries(&mut network).last().unwrap().1;
        let counters = network.counters();
        assert_eq!(counters.timeout_count > 0, timeouts, "{counters:?}");
        assert_eq!(counters.dropped_packet_count > 0, timeouts, "{counters:?}");
        // 200 ms in place of 320 frames at 1 Gbit/s: 3.9 ms.
        let expected_ps =
            if timeouts { 200_000_000_000..700_000_000_000 } else { 3_900_000_000..4_200_000_000 };
        assert!(expected_ps.contains(&last_ps), "{last_ps}");
    }
}

#[test]
fn latency_counts_each_segment_from_the_first_time_it_left() {
    let mut network = machine(5, &format!("queue_bytes = {}", 2 * FRAME), "");
    for from in 1..9 {
        for (token, flow) in [(0, from), (1, from)] {
            network.send(Message { token, flow, ..message(from, 0, PAYLOAD) });
        }
    }
    let mut sum_ps = 0;
    while let Some(occurrence) = network.advance().unwrap() {
        if let Occurrence::Delivered { token, .. } = occurrence {
            // The second segment of a NIC leaves behind the first.
            sum_ps += u128::from(network.now_ps() - u64::from(token) * FRAME * PS_PER_BYTE);
        }
    }
    let counters = network.counters();
    assert!(counters.dropped_packet_count > 0 && counters.delivered_packet_count == 16, "{counters:?}");
    assert_eq!(counters.packet_latency_sum_ps, sum_ps);
}
