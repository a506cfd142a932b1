//! A stream by itself, both its ends, and a wire between them that loses what a test says.

use ayatori_fabric::description::Machine;
use ayatori_random::Random;

use super::stream::{Ack, Next, Stream};
use super::{Carried, Connections};
use crate::machine::{Simulated, simulate};
use crate::network::{Gap, LagHash, Message, Network, NicId, NoProbe, Occurrence, Tcp};
use crate::slab::NONE;

const US: u64 = 1_000_000;
const MS: u64 = 1_000 * US;

fn stream() -> Stream {
    Stream::new(Tcp::default(), 1_000, MS)
}

/// Sends what may be sent; the numbers.
fn send_all(stream: &mut Stream, now_ps: u64, has_new: bool) -> Vec<u32> {
    let mut sent = Vec::new();
    loop {
        match stream.next(now_ps, has_new) {
            Next::New => sent.push(stream.send_new(now_ps, 1_448, NONE)),
            Next::Again(number) => {
                let _ = stream.send_again(now_ps, number);
                sent.push(number);
            }
            Next::Wait => return sent,
        }
    }
}

fn ack(next: u32, blocks: &[(u32, u32)]) -> Ack {
    let mut ack = Ack { next, ..Ack::default() };
    for (place, &block) in ack.blocks.iter_mut().zip(blocks) {
        *place = block;
    }
    ack
}

#[test]
fn the_window_doubles_each_round_trip_and_loss_halves_it() {
    let mut stream = stream();
    let mut now_ps = 0;
    for (first, end) in [(0, 10), (10, 30), (30, 70)] {
        assert_eq!(send_all(&mut stream, now_ps, true), (first..end).collect::<Vec<_>>());
        now_ps += MS;
        stream.on_ack(now_ps, &ack(end, &[]));
    }
    // 80 on their way, of which the first is lost.
    assert_eq!(send_all(&mut stream, now_ps, true), (70..150).collect::<Vec<_>>());
    now_ps += MS;
    let (mut sent, mut after_half) = (Vec::new(), 0);
    for end in 72..=150 {
        stream.on_ack(now_ps, &ack(70, &[(71, end)]));
        sent.extend(send_all(&mut stream, now_ps, true));
        after_half = if end == 110 { sent.len() } else { after_half };
    }
    // New data for the first two (RFC 3042); with the third it is lost. Over the round trip half as much
    // is sent as was on its way.
    assert_eq!(sent[..4], [150, 151, 70, 152]);
    assert!((19..=21).contains(&after_half), "{after_half}: a segment for each two that have come");
    assert!((39..=43).contains(&sent.len()), "{}", sent.len());
    now_ps += MS;
    stream.on_ack(now_ps, &ack(150, &[]));
    // Half of 80, without the two sent beyond the window (RFC 5681), and in congestion avoidance one more a
    // round trip.
    let in_flight = sent.len() as u32 - 1 + send_all(&mut stream, now_ps, true).len() as u32;
    for (end, window) in [(150 + in_flight, 40), (150 + in_flight + 40, 41)] {
        now_ps += MS;
        stream.on_ack(now_ps, &ack(end, &[]));
        assert_eq!(send_all(&mut stream, now_ps, true).len(), window);
    }
}

#[test]
fn the_timer_follows_rfc_6298_and_all_is_sent_again() {
    let mut stream = stream();
    assert_eq!(send_all(&mut stream, 0, true).len(), 10);
    // The probe after two round trips and 2 ms, which is lost, too.
    assert_eq!(stream.deadline_ps, 4 * MS);
    assert!(!stream.on_deadline(4 * MS));
    assert_eq!(send_all(&mut stream, 4 * MS, false), [9]);
    // A round trip and 200 ms later.
    assert_eq!(stream.deadline_ps, 205 * MS);
    assert!(stream.on_deadline(205 * MS));
    // One segment a time, twice as long.
    assert_eq!(send_all(&mut stream, 205 * MS, true), [0]);
    assert_eq!(stream.deadline_ps, 607 * MS);
    stream.on_ack(300 * MS, &ack(1, &[]));
    assert_eq!(send_all(&mut stream, 300 * MS, true), [1, 2]);
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let mut stream = stream();
    assert_eq!(stream.send_new(0, 1, NONE), 0);
    stream.on_ack(MS, &ack(1, &[]));
    for _ in 0..4 {
        let _ = stream.send_new(2 * MS, 1_448, NONE);
    }
    // All four are lost. The probe is the last of them.
    assert_eq!(stream.deadline_ps, 6 * MS);
    assert!(!stream.on_deadline(6 * MS));
    assert_eq!(send_all(&mut stream, 6 * MS, false), [4]);
    // Its acknowledgement says what is missing, and that it has been for more than a round trip.
    stream.on_ack(7 * MS, &ack(1, &[(4, 5)]));
    assert!(stream.deadline_ps < u64::MAX, "what is lost is not forgotten if it cannot leave now");
    assert_eq!(send_all(&mut stream, 7 * MS, false), [1, 2]);
}

/// RFC 8985, section 6.2: lost is what was sent earlier, when its answer is late by a quarter of a round
/// trip.
#[test]
fn a_segment_is_lost_a_quarter_round_trip_late() {
    let sent_at = |times_ps: &[u64]| {
        let mut stream = stream();
        let _ = stream.send_new(0, 1_448, NONE);
        stream.on_ack(MS, &ack(1, &[]));
        for &time_ps in times_ps {
            let _ = stream.send_new(time_ps, 1_448, NONE);
        }
        stream
    };
    let mut stream = sent_at(&[2 * MS, 2 * MS + MS / 10, 2 * MS + MS / 5]);
    stream.on_ack(3 * MS + MS / 10, &ack(1, &[(2, 3)]));
    // The timer is 2 ms behind.
    assert_eq!(stream.deadline_ps, 5 * MS + MS / 4);
    // Another one that has arrived behind it puts nothing off.
    stream.on_ack(3 * MS + MS / 5, &ack(1, &[(2, 4)]));
    assert_eq!(stream.deadline_ps, 5 * MS + MS / 4);
    assert!(send_all(&mut stream, 3 * MS + MS / 5, false).is_empty());
    assert!(!stream.on_deadline(5 * MS + MS / 4));
    assert!(stream.deadline_ps < u64::MAX, "what is lost is not forgotten if it cannot leave now");
    assert_eq!(send_all(&mut stream, 5 * MS + MS / 4, false), [1]);
    // One timer for all that are missing: when the last is late.
    let mut stream = sent_at(&[2 * MS, 2 * MS + MS / 10, 2 * MS + MS / 5]);
    stream.on_ack(3 * MS + MS / 5, &ack(1, &[(3, 4)]));
    assert_eq!(stream.deadline_ps, 5 * MS + MS / 10 + MS / 4);
    assert!(!stream.on_deadline(5 * MS + MS / 10 + MS / 4));
    assert_eq!(send_all(&mut stream, 5 * MS + MS / 10 + MS / 4, false), [1]);
    // Already late when that is known.
    let mut stream = sent_at(&[2 * MS, 2 * MS + MS / 4]);
    stream.on_ack(3 * MS + MS / 4, &ack(1, &[(2, 3)]));
    assert_eq!(send_all(&mut stream, 3 * MS + MS / 4, false), [1]);
    // No later than a retransmission: a round trip and half a millisecond from then on.
    let mut stream = Stream::new(Tcp { timeout_min_ps: MS / 2, ..Tcp::default() }, 1_000, MS);
    for round in 0..40 {
        let _ = stream.send_new(round * 10 * MS, 1_448, NONE);
        stream.on_ack(round * 10 * MS + MS, &ack(round as u32 + 1, &[]));
    }
    let _ = (stream.send_new(400 * MS, 1_448, NONE), stream.send_new(400 * MS, 1_448, NONE));
    stream.on_ack(401 * MS, &ack(40, &[(41, 42)]));
    assert_eq!(stream.deadline_ps, 402 * MS + MS / 2);
    assert!(!stream.on_deadline(402 * MS + MS / 2), "no timeout");
    assert_eq!(send_all(&mut stream, 402 * MS + MS / 2, false), [40]);
}

#[test]
fn a_probe_goes_no_later_than_a_retransmission() {
    // A round trip and half a millisecond, where two round trips are 4 ms.
    let rules = Tcp { timeout_min_ps: MS / 2, ..Tcp::default() };
    let mut stream = Stream::new(rules, 1_000, 2 * MS);
    for round in 0..40 {
        assert_eq!(stream.send_new(round * 10 * MS, 1_448, NONE), round as u32);
        stream.on_ack(round * 10 * MS + 2 * MS, &ack(round as u32 + 1, &[]));
    }
    let _ = stream.send_new(400 * MS, 1_448, NONE);
    assert_eq!(stream.deadline_ps, 402 * MS + MS / 2);
    assert!(!stream.on_deadline(402 * MS + MS / 2), "a probe, and no timeout yet");
    assert_eq!(send_all(&mut stream, 402 * MS + MS / 2, false), [40]);
    assert_eq!(stream.deadline_ps, 405 * MS);
    assert!(stream.on_deadline(405 * MS));
}

#[test]
fn a_second_probe_waits_until_the_first_is_answered() {
    let mut stream = stream();
    for _ in 0..3 {
        let _ = stream.send_new(0, 1_448, NONE);
    }
    assert!(!stream.on_deadline(2 * MS));
    assert_eq!(send_all(&mut stream, 2 * MS, false), [2]);
    // One of three: no other probe (RFC 8985, section 7.3), but a timeout 200 ms later.
    stream.on_ack(2 * MS, &ack(1, &[]));
    assert!(stream.deadline_ps > 200 * MS);
    stream.on_ack(3 * MS, &Ack { twice: Some(2), ..ack(3, &[]) });
    assert_eq!(stream.deadline_ps, u64::MAX);
    let _ = stream.send_new(10 * MS, 1_448, NONE);
    let _ = stream.send_new(10 * MS, 1_448, NONE);
    assert!(stream.deadline_ps < 20 * MS, "a probe for these");
}

/// RFC 8985, section 7.4.
#[test]
fn a_loss_that_a_probe_has_repaired_halves_the_window() {
    for (has_new, twice, window) in [(false, None, 20), (false, Some(29), 40), (true, None, 40)] {
        let mut stream = stream();
        assert_eq!(send_all(&mut stream, 0, true).len(), 10);
        stream.on_ack(MS, &ack(10, &[]));
        assert_eq!(send_all(&mut stream, MS, true).len(), 20);
        assert!(!stream.on_deadline(3 * MS));
        let probe = send_all(&mut stream, 3 * MS, has_new);
        assert_eq!(probe, if has_new { [30] } else { [29] });
        let end = if has_new { 31 } else { 30 };
        // Its original may be what has come: nothing is known yet.
        stream.on_ack(4 * MS, &ack(end, &[]));
        stream.on_ack(4 * MS, &Ack { twice, ..ack(end, &[]) });
        let _ = stream.send_new(4 * MS, 1_448, NONE);
        stream.on_ack(5 * MS, &ack(end + 1, &[]));
        let sent_count = send_all(&mut stream, 5 * MS, true).len();
        assert_eq!(sent_count, if has_new { window + 1 } else { window }, "{twice:?}");
    }
}

#[test]
fn a_window_is_halved_once_for_what_a_probe_has_found() {
    for times_out in [false, true] {
        let mut stream = stream();
        let _ = stream.send_new(0, 1_448, NONE);
        stream.on_ack(MS, &ack(1, &[]));
        assert_eq!(send_all(&mut stream, 2 * MS, true).len(), 10);
        assert!(!stream.on_deadline(4 * MS));
        assert_eq!(send_all(&mut stream, 4 * MS, false), [10]);
        if times_out {
            assert!(stream.on_deadline(stream.deadline_ps));
        } else {
            stream.on_ack(5 * MS, &ack(1, &[(10, 11)]));
        }
        assert_eq!(send_all(&mut stream, 300 * MS, false)[0], 1);
        stream.on_ack(301 * MS, &ack(11, &[]));
        let _ = stream.send_new(302 * MS, 1_448, NONE);
        stream.on_ack(303 * MS, &ack(12, &[]));
        assert_eq!(send_all(&mut stream, 303 * MS, true).len(), 5, "{times_out}");
    }
}

#[test]
fn what_comes_twice_is_said_in_place_of_a_block() {
    let mut stream = stream();
    for number in [0, 2, 4, 6, 4] {
        assert_eq!(stream.receive(number).ack_now, number > 0);
    }
    assert_eq!(stream.take_ack(), Ack { twice: Some(4), ..ack(1, &[(6, 7), (4, 5)]) });
    assert_eq!(stream.take_ack(), ack(1, &[(6, 7), (4, 5), (2, 3)]));
}

#[test]
fn an_acknowledgement_without_news_puts_nothing_off() {
    let mut stream = stream();
    let _ = stream.send_new(0, 1_448, NONE);
    let _ = stream.send_new(0, 1_448, NONE);
    assert_eq!(stream.deadline_ps, 4 * MS);
    stream.on_ack(MS, &ack(0, &[]));
    assert_eq!(stream.deadline_ps, 4 * MS);
}

#[test]
fn an_acknowledgement_restarts_the_retransmission_timer() {
    let mut stream = stream();
    for _ in 0..3 {
        let _ = stream.send_new(0, 1_448, NONE);
    }
    assert!(!stream.on_deadline(2 * MS));
    assert_eq!(send_all(&mut stream, 2 * MS, false), [2]);
    let deadline_ps = stream.deadline_ps;
    // RFC 6298, 5.3: one segment is enough.
    stream.on_ack(3 * MS, &ack(1, &[]));
    assert!(stream.deadline_ps > deadline_ps);
}

#[test]
fn a_probe_takes_no_place_in_the_window() {
    let mut stream = stream();
    for _ in 0..9 {
        let _ = stream.send_new(0, 1_448, NONE);
    }
    assert!(!stream.on_deadline(2 * MS));
    assert_eq!(send_all(&mut stream, 2 * MS, false), [8]);
    assert_eq!(send_all(&mut stream, 2 * MS, true), [9]);
}

#[test]
fn the_end_of_recovery_leaves_half_the_window() {
    let mut stream = stream();
    let mut now_ps = 0;
    for end in [10, 30, 70] {
        let _ = send_all(&mut stream, now_ps, true);
        now_ps += MS;
        stream.on_ack(now_ps, &ack(end, &[]));
    }
    assert_eq!(send_all(&mut stream, now_ps, true).len(), 80);
    now_ps += MS;
    stream.on_ack(now_ps, &ack(70, &[(71, 74)]));
    assert_eq!(send_all(&mut stream, now_ps, false), [70]);
    // It fills the only hole.
    now_ps += MS;
    stream.on_ack(now_ps, &ack(150, &[]));
    assert_eq!(send_all(&mut stream, now_ps, true).len(), 40);
}

#[test]
fn no_more_is_on_its_way_than_the_receiver_has_room_for() {
    for room in [2, 4] {
        let mut stream = Stream::new(Tcp::default(), room, MS);
        for round in 0..3 {
            let now_ps = u64::from(round) * MS;
            let numbers: Vec<u32> = (round * room..(round + 1) * room).collect();
            assert_eq!(send_all(&mut stream, now_ps, true), numbers);
            stream.on_ack(now_ps + MS, &ack((round + 1) * room, &[]));
        }
    }
    // What came behind a hole takes room, too.
    let mut stream = Stream::new(Tcp::default(), 8, MS);
    assert_eq!(send_all(&mut stream, 0, true).len(), 8);
    stream.on_ack(MS, &ack(0, &[(1, 8)]));
    assert_eq!(send_all(&mut stream, MS, true), [0]);
}

#[test]
fn round_trips_are_measured_from_each_segments_sending() {
    let mut stream = stream();
    let _ = stream.send_new(10 * MS, 1_448, NONE);
    stream.on_ack(11 * MS, &ack(1, &[]));
    let _ = stream.send_new(20 * MS, 1_448, NONE);
    // Of a segment alone: no later than a timeout, which is a round trip and 200 ms.
    assert_eq!(stream.deadline_ps, 221 * MS);
    assert!(!stream.on_deadline(221 * MS), "but a probe");
    // Two are probed after two round trips and 2 ms.
    let _ = send_all(&mut stream, 221 * MS, false);
    stream.on_ack(222 * MS, &Ack { twice: Some(1), ..ack(2, &[]) });
    let _ = (stream.send_new(230 * MS, 1_448, NONE), stream.send_new(230 * MS, 1_448, NONE));
    assert_eq!(stream.deadline_ps, 234 * MS);
}

#[test]
fn what_comes_sooner_than_it_can_tells_nothing_of_others() {
    let mut stream = stream();
    let _ = stream.send_new(0, 1_448, NONE);
    stream.on_ack(MS, &ack(1, &[]));
    for _ in 0..3 {
        let _ = stream.send_new(2 * MS, 1_448, NONE);
    }
    assert_eq!(stream.deadline_ps, 6 * MS);
    assert!(!stream.on_deadline(6 * MS));
    assert_eq!(send_all(&mut stream, 6 * MS, false), [3]);
    // Of the first time that it was sent: the others may be behind it.
    let deadline_ps = stream.deadline_ps;
    stream.on_ack(6 * MS + MS / 10, &ack(1, &[(3, 4)]));
    assert_eq!(stream.deadline_ps, deadline_ps);
    assert!(send_all(&mut stream, 6 * MS + MS / 10, false).is_empty());
}

#[test]
fn a_window_in_use_is_kept_however_long_the_stream_is_open() {
    let mut stream = stream();
    assert_eq!(send_all(&mut stream, 1_000 * MS, true).len(), 10);
    stream.on_ack(1_001 * MS, &ack(10, &[]));
    assert_eq!(send_all(&mut stream, 1_002 * MS, true).len(), 20);
}

/// The cable was busy when the probe was due.
#[test]
fn a_probe_that_an_acknowledgement_precedes_is_not_sent() {
    let mut stream = stream();
    let _ = stream.send_new(0, 1_448, NONE);
    let _ = stream.send_new(0, 1_448, NONE);
    assert!(!stream.on_deadline(2 * MS));
    stream.on_ack(2 * MS, &ack(1, &[]));
    assert!(send_all(&mut stream, 2 * MS, false).is_empty());
    // Nor is what is sent next taken for one: it gets its own.
    assert!(!stream.on_deadline(stream.deadline_ps));
    stream.on_ack(50 * MS, &ack(2, &[]));
    let _ = (stream.send_new(60 * MS, 1_448, NONE), stream.send_new(60 * MS, 1_448, NONE));
    assert!(stream.deadline_ps < 60 * MS + Tcp::default().timeout_min_ps);
}

#[test]
fn acknowledgements_name_the_latest_block_first() {
    let mut stream = stream();
    for number in [0, 4, 2, 7, 8, 5] {
        let _ = stream.receive(number);
    }
    assert_eq!(stream.take_ack(), ack(1, &[(4, 6), (7, 9), (2, 3)]));
    assert_eq!(stream.receive(1).in_order, (1, 3));
    assert_eq!(stream.receive(3).in_order, (3, 6));
    assert_eq!(stream.take_ack(), ack(6, &[(7, 9)]));
}

#[test]
fn a_window_that_was_idle_begins_anew() {
    let mut stream = stream();
    for end in [10, 30, 70] {
        let _ = send_all(&mut stream, u64::from(end) * US, true);
        stream.on_ack(u64::from(end) * US + US, &ack(end, &[]));
    }
    assert_eq!(send_all(&mut stream, 60_000 * MS, true).len(), 10);
}

/// Everything arrives, in the end, whatever is lost on the way, acknowledgements included.
#[test]
fn a_wire_that_loses_at_random_delivers_everything() {
    const DELAY_PS: u64 = 50 * US;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (count, lost_percent) = (1 + random.below(300) as u32, random.below(40));
        let (mut sender, mut receiver) = (stream(), stream());
        // In order of arrival: both directions take the same time.
        let mut wire = std::collections::VecDeque::<(u64, Result<u32, Ack>)>::new();
        let (mut now_ps, mut taken) = (0, 0);
        let mut new_count = 0;
        while taken < count || !sender.is_quiet() {
            loop {
                let number = match sender.next(now_ps, new_count < count) {
                    Next::Wait => break,
                    Next::Again(number) => {
                        let _ = sender.send_again(now_ps, number);
                        number
                    }
                    Next::New => {
                        new_count += 1;
                        sender.send_new(now_ps, 1_448, NONE)
                    }
                };
                if random.below(100) >= lost_percent {
                    wire.push_back((now_ps + DELAY_PS, Ok(number)));
                }
            }
            let wire_ps = wire.front().map_or(u64::MAX, |&(time_ps, _)| time_ps);
            let next_ps = wire_ps.min(sender.deadline_ps).min(receiver.ack_deadline_ps);
            assert_ne!(next_ps, u64::MAX, "seed {seed}: nothing will ever happen, {taken} of {count} there");
            now_ps = next_ps;
            let mut answers = receiver.ack_deadline_ps == now_ps;
            if wire_ps == now_ps {
                match wire.pop_front().unwrap().1 {
                    Ok(number) => {
                        let arrival = receiver.receive(number);
                        taken += arrival.in_order.1 - arrival.in_order.0;
                        answers |= arrival.ack_now;
                        if !arrival.ack_now {
                            receiver.ack_deadline_ps = now_ps + 40 * MS;
                        }
                    }
                    Err(ack) => sender.on_ack(now_ps, &ack),
                }
            }
            if answers {
                let ack = receiver.take_ack();
                if random.below(100) >= lost_percent {
                    wire.push_back((now_ps + DELAY_PS, Err(ack)));
                }
            }
            if sender.deadline_ps <= now_ps {
                let _ = sender.on_deadline(now_ps);
            }
        }
        assert_eq!(taken, count, "seed {seed}");
    }
}

/// 1 Gbit/s.
const PS_PER_BYTE: u64 = 8_000;
const CABLE_PS: u64 = 5_000;
const PIPELINE_PS: u64 = 700_000;
/// Headers of TCP, IP and Ethernet, preamble and gap.
const HEADER: u64 = 90;

/// Two switches of one host each that pass whole frames on. Hosts look at what arrives at once.
fn pair() -> Network {
    let text = "name = \"pair\"\n[switch_models.s]\nports = 4\nrate_gbps = 1\npause = false\n\
                latency_ns = 700\n[host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n\
                tcp = { jitter_ns = 0 }\n[topology]\nkind = \"complete\"\nswitches = 2\n\
                switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n";
    let Simulated { network, .. } = simulate(&Machine::parse("pair.toml", text).unwrap(), NoProbe).unwrap();
    network
}

fn message(bytes: u64, gap: f64) -> Message {
    let (from, to, gap) = (NicId(0), NicId(1), Gap::packets(gap));
    Message { from, to, bytes, gap, flow: 0, token: 0, notify_injected: false }
}

/// When a frame of a length that leaves now has arrived: three cables and two switches.
fn way_ps(bytes: u64) -> u64 {
    3 * (bytes * PS_PER_BYTE + CABLE_PS) + 2 * PIPELINE_PS
}

#[test]
fn opening_a_connection_has_measured_its_round_trip() {
    let mut network = pair();
    network.send(message(100, 0.0));
    assert_eq!(network.advance_until(0).unwrap(), None);
    let stream = &network.ethernet.tcp.as_ref().unwrap().streams[0].stream;
    // The probe of a segment alone: a round trip of shortest frames, and 200 ms.
    assert_eq!(stream.deadline_ps, 2 * way_ps(HEADER) + 200 * MS);
}

#[test]
fn segments_and_acknowledgements_take_their_bytes() {
    let mut network = pair();
    network.send(message(100, 0.0));
    while network.advance().unwrap().is_some() {}
    let (bytes, frames): (Vec<u64>, Vec<u64>) = network
        .channel_loads()
        .filter(|load| load.sent_bytes > 0)
        .map(|load| (load.sent_bytes, load.sent_packet_count))
        .unzip();
    assert_eq!(frames, [1; 6], "there and back");
    assert_eq!(bytes.iter().filter(|&&bytes| bytes == HEADER + 100).count(), 3);
    assert_eq!(bytes.iter().filter(|&&bytes| bytes == HEADER).count(), 3);
    let counters = network.counters();
    assert_eq!((counters.injected_packet_count, counters.delivered_packet_count), (1, 1));
    // The delayed acknowledgement leaves without a gap behind it.
    let back = &network.ethernet.tcp.as_ref().unwrap().streams[1];
    let sent_ps = way_ps(HEADER + 100) + 40 * MS;
    assert_eq!(network.ethernet.free_ps(back.cable), sent_ps + HEADER * PS_PER_BYTE);
}

#[test]
fn the_gap_of_a_message_is_behind_each_segment() {
    let mut network = pair();
    network.send(message(3 * 1_448, 0.5));
    let delivered = network.advance().unwrap();
    assert!(matches!(delivered, Some(Occurrence::Delivered { .. })));
    assert_eq!(network.now_ps(), 2 * 1_538 * PS_PER_BYTE * 3 / 2 + way_ps(1_538));
}

fn connections(rules: Tcp) -> Connections {
    Connections::new(rules, 1_448, LagHash::Addresses, (2, 2))
}

#[test]
fn a_window_is_two_segments_at_least() {
    for (window_max_bytes, count) in [(1, 2), (3 * 1_448 - 1, 2), (3 * 1_448, 3)] {
        let rules = Tcp { window_max_bytes, ..Tcp::default() };
        assert_eq!(connections(rules).window_max_count, count);
    }
}

#[test]
fn hosts_look_late_by_all_that_jitter_allows() {
    let mut late_by = [0; 3];
    let mut connections = connections(Tcp { jitter_ps: 2, ..Tcp::default() });
    for frame in 0..100 {
        late_by[(connections.host_looks_ps(0, 10 * frame) - 10 * frame) as usize] += 1;
    }
    assert!(late_by.iter().all(|&count| count > 10), "{late_by:?}");
}

#[test]
fn a_segment_of_no_frame_is_left_over() {
    let mut connections = connections(Tcp::default());
    assert_eq!(connections.leftover(), None);
    let _ = connections.carried.insert(Carried { stream: 0, number: 0, ack: Ack::default() });
    assert!(connections.leftover().is_some());
}
