//! Several rails as one link, by its parts.

use super::*;
use crate::buffer::NO_PAYLOAD;
use crate::ids::RequestId;
use crate::link::{Run, UnitsReceived};
use crate::process::tests::net::Net;
use crate::wire::trunk::{Ack, Seen, TrunkHeader};

/// A link between two processes over rails that are alike.
fn trunk_between(ends: [u32; 2], count: u8) -> Trunk {
    let alike = RailCapabilities::default();
    Trunk::new(ends.map(ProcessId), (0..count).map(|rail| (Rail(rail), &alike)), TrunkConfig::default())
}

fn trunk(count: u8) -> Trunk {
    trunk_between([0, 1], count)
}

/// Units of a transfer that have been put.
fn units() -> Units {
    let (transfer, receiver) = (TransferId::from_bits(1), RequestId::from_bits(2));
    Units { transfer, receiver, unit_bytes: 1_000, run: Run { first: 3, count: 2 } }
}

/// The rail for a packet of 100 bytes.
fn best(rails: &mut [RailState], full: u32, by_turn: bool) -> Option<u8> {
    best_rail(rails, 100, RailSet(full), by_turn).map(|state| state.rail.0)
}

fn header(body: Body, largest: u32, seen: Seen) -> TrunkHeader {
    TrunkHeader { number: 1, ack_now: false, ack: Ack { largest, seen, delay: Duration::ZERO }, body }
}

#[test]
fn short_packet_takes_the_working_rail_that_delivers_it_first() {
    let rail = |(number, latency_us): (u8, u64)| {
        let default = RailCapabilities { bandwidth_bytes_per_s: 250_000_000, ..RailCapabilities::default() };
        let capabilities = RailCapabilities { latency_ps: latency_us * 1_000_000, ..default };
        RailState::new(Rail(number), ProcessId(1), &capabilities)
    };
    let mut rails = [(0, 30), (1, 10), (2, 20)].map(rail);
    assert_eq!(best(&mut rails, 0, true), Some(1));
    assert_eq!(best(&mut rails, 0b010, true), Some(2), "the best takes nothing now");
    // The data in flight there takes 20 us, and then this rail is the last.
    rails[1].on_sent(Carried::Probe, 5_250, Instant(1));
    assert_eq!(best(&mut rails, 0, true), Some(2));
    rails[2].take_out(Health::Down, |_, _| ());
    assert_eq!(best(&mut rails, 0, true), Some(0));
    assert_eq!(best(&mut rails, 0b011, true), None, "no rail takes anything");
}

/// The first of `count` rails to take a packet between two processes, where all are alike.
fn first_rail(ends: [u32; 2], count: usize) -> usize {
    let mut turns: Vec<usize> = (0..count).map(|place| turn(ends.map(ProcessId), place, count)).collect();
    let first = turns.iter().position(|turn| *turn == 0).expect("one of them is the first");
    turns.sort_unstable();
    assert_eq!(turns, (0..count).collect::<Vec<_>>(), "each has a turn");
    first
}

#[test]
fn alike_rails_are_begun_with_evenly_and_alike_at_both_ends() {
    for count in 1..=4 {
        for [a, b] in [[0, 1], [3, 3], [17, 5], [u32::MAX >> 1, 0]] {
            assert_eq!(first_rail([a, b], count), first_rail([b, a], count));
        }
        let uses = |ends: &mut dyn Iterator<Item = [u32; 2]>| {
            let mut uses = [0; 4];
            ends.for_each(|ends| uses[first_rail(ends, count)] += 1);
            uses[..count].to_vec()
        };
        // The processes of a host in a row, or with the strides of cyclic numbering, and their neighbours.
        for (stride, away) in [(1, 1), (1, 16), (4, 1), (4, 4), (8, 1), (16, 64)] {
            let uses = uses(&mut (0..16 * count as u32).map(|index| [index * stride, index * stride + away]));
            let [least, most] = if stride > 1 && count == 3 { [10, 28] } else { [16; 2] };
            let is_even = uses.iter().all(|uses| (least..=most).contains(uses));
            assert!(is_even, "{count} rails, stride {stride}, away {away}: {uses:?}");
        }
        // One process and all others.
        let uses = uses(&mut (0..65).filter(|peer| *peer != 20).map(|peer| [20, peer]));
        let (least, most) = (32 / count, 96 / count);
        assert!(uses.iter().all(|uses| (least..=most).contains(uses)), "{uses:?}");
    }
}

#[test]
fn of_alike_rails_the_one_whose_turn_it_is_takes_a_message() {
    for me in 0..4 {
        let rails = &mut trunk_between([me, me + 1], 4).rails;
        assert_eq!(best(rails, 0, false), Some(0), "without data, whoever it is between");
        let first = first_rail([me, me + 1], 4) as u8;
        assert_eq!(best(rails, 0, true), Some(first));
        rails[usize::from(first)].on_sent(Carried::Probe, 100, Instant(1));
        assert_eq!(best(rails, 0, true), Some((first + 1) % 4), "the first is busy");
    }
}

#[test]
fn gets_go_to_the_rails_with_the_fewest_under_way() {
    let mut trunk = trunk(3);
    let least = |trunk: &Trunk, rails: u32, most| {
        let views = trunk.least_busy(RailSet(rails), most, 1);
        views.iter().map(|view| view.rail.0).collect::<Vec<_>>()
    };
    assert_eq!(least(&trunk, 0b111, 1), [0]);
    trunk.rails[0].begin_operation(0, Instant(1));
    assert_eq!([least(&trunk, 0b111, 1), least(&trunk, 0b101, 1)], [[1], [2]]);
    assert_eq!(least(&trunk, 0b111, 9), [0, 1, 2]);
    trunk.rails[1].take_out(Health::Down, |_, _| ());
    assert_eq!(least(&trunk, 0b111, 2), [0, 2]);
}

#[test]
fn a_report_that_the_device_refuses_is_no_work_done() {
    let (mut net, mut trunk) = (Net::new(2, 1, RailCapabilities::default()), trunk(1));
    trunk.placed.push_back((Rail(0), units()));
    net.shared.borrow_mut().full_one_in = 1;
    assert_eq!(trunk.flush(&mut net.nodes[0].1, Instant(1)), (false, false), "a waiting process may sleep");
    net.shared.borrow_mut().full_one_in = 0;
    assert_eq!(trunk.flush(&mut net.nodes[0].1, Instant(2)), (true, true));
    assert_eq!(trunk.flush(&mut net.nodes[0].1, Instant(3)), (false, true), "once");
    assert!(trunk.settled.is_empty() && !trunk.is_quiet(), "it is not acknowledged");
    assert_eq!(trunk.rails[0].view(1).outstanding_bytes, 0, "a report has no data");
}

#[test]
fn a_rail_that_was_well_meanwhile_is_looked_at_twice_again() {
    let (mut net, mut trunk) = (Net::new(2, 1, RailCapabilities::default()), trunk(1));
    let device = &mut net.nodes[0].1;
    let TrunkConfig { silence, probe_interval, .. } = trunk.config;
    let mut look = |trunk: &mut Trunk, at: Instant, owes: Duration| {
        net.shared.borrow_mut().owes = Some(owes);
        assert!(trunk.check(device, at));
        trunk.rails[0].health
    };
    trunk.rails[0].on_sent(Carried::Probe, 100, Instant(1));
    let first = Instant(1) + silence;
    assert_eq!(look(&mut trunk, first, silence), Health::Up);
    assert_eq!(look(&mut trunk, first + SECOND_LOOK, Duration::ZERO), Health::Up);
    let second = first + SECOND_LOOK + silence;
    assert_eq!(look(&mut trunk, second, silence), Health::Up, "it was well since");
    let taken_out = second + SECOND_LOOK;
    assert_eq!(look(&mut trunk, taken_out, silence), Health::Silent);
    look(&mut trunk, taken_out + probe_interval, silence);
    assert!(trunk.rails[0].is_waiting(), "it is asked");
    assert_eq!(trunk.rails[0].view(1).outstanding_bytes, 0, "a question has no data");
}

#[test]
fn what_a_broken_rail_had_is_lost_and_goes_when_one_works() {
    let (mut net, mut trunk) = (Net::new(2, 1, RailCapabilities::default()), trunk(1));
    let device = &mut net.nodes[0].1;
    assert!(trunk.is_quiet());
    trunk.backlog_bytes = 1;
    assert!(!trunk.is_quiet(), "data is to be sent");
    trunk.backlog_bytes = 0;
    trunk.placed.push_back((Rail(0), units()));
    assert!(!trunk.is_quiet(), "their receiver does not know of these units");
    trunk.on_rail_down(Rail(0), Instant(1));
    assert_eq!(trunk.flush(device, Instant(2)), (true, true));
    let lost = LinkEvent::Lost(units().transfer, units().run);
    assert_eq!(trunk.settled, [lost], "put by a rail that broke before it told");
    assert!(trunk.is_quiet(), "nothing is given to it");
    // A packet of a rail that the link does not have takes nothing away.
    assert!(!trunk.on_packet(Rail(7), &header(Body::Ack, 1, Seen::Run(1)), 0, Instant(3)));
    assert_eq!(trunk.settled.len(), 1);

    trunk.on_rail_up(Rail(0), Instant(4));
    assert!(trunk.offer(device, Instant(5), 0, &[0; 16], NO_PAYLOAD));
    trunk.placed.push_back((Rail(0), units()));
    trunk.on_rail_down(Rail(0), Instant(6));
    assert_eq!(trunk.flush(device, Instant(7)), (true, true));
    assert_eq!(trunk.settled, [lost; 2]);
    assert_eq!(trunk.flush(device, Instant(8)), (false, true), "no work while no rail works");
    trunk.on_rail_up(Rail(0), Instant(9));
    assert_eq!(trunk.flush(device, Instant(10)), (true, true), "the packet goes again");
}

#[test]
fn a_rail_that_was_full_is_looked_at_anew() {
    let mut trunk = trunk(1);
    trunk.look(1);
    trunk.rail_is_full(Rail(0));
    assert!(trunk.some_full && !trunk.views[0].up);
    trunk.look(1);
    assert!(trunk.views[0].up && !trunk.some_full);
}

#[test]
fn what_a_broken_rail_began_to_bring_may_come_by_another() {
    let mut trunk = trunk(2);
    let Units { receiver, unit_bytes, .. } = units();
    let carrying = crate::link::Carrying::Bytes(1_000);
    let units = UnitsReceived { receiver, first: 3, unit_bytes, carrying, unit_bytes_min: 1 };
    trunk.fronts.begin(Rail(0), &units);
    assert!(!trunk.fronts.allow(Rail(1), &units));
    trunk.on_rail_down(Rail(0), Instant(1));
    assert!(trunk.fronts.allow(Rail(1), &units));
}

#[test]
fn a_rail_is_slow_below_half_of_what_the_best_one_carries() {
    let ms = |ms: u64| Instant(ms * 1_000_000_000);
    for (bytes, is_slow) in [(500_000, false), (450_000, true)] {
        let mut trunk = trunk(2);
        for (state, bytes) in trunk.rails.iter_mut().zip([1_000_000, bytes]) {
            state.rate.on_idle_end(ms(1));
            state.rate.on_acknowledged(bytes, ms(0), ms(2));
        }
        let slow: Vec<Rail> = trunk.slow_rails().iter().map(|[slow, _]| slow.rail).collect();
        assert_eq!(slow, if is_slow { &[Rail(1)][..] } else { &[] }, "{bytes}");
    }
}

#[test]
fn a_unit_has_a_byte_however_short_packets_are() {
    assert_eq!([None, Some(1), Some(FRAGMENT_HEADER_BYTES)].map(unit_bytes), [1; 3]);
    assert_eq!(unit_bytes(Some(FRAGMENT_HEADER_BYTES + 2)), 2);
}

#[test]
fn a_peer_is_given_up_when_all_rails_fail_with_data_for_long() {
    let timeout = TrunkConfig::default().peer_timeout;
    let (begin, end) = (Instant(7), Instant(7) + Duration(2 * timeout.0));
    let just_within = Instant(end.0 - timeout.0 + 1);
    let is_lost = |at: Instant, other: Health, other_silent_at: Option<Instant>| {
        let mut trunk = trunk(2);
        assert!(!trunk.on_silent(0, begin), "it has just begun");
        (trunk.rails[1].health, trunk.rails[1].silent_at) = (other, other_silent_at);
        trunk.on_silent(0, at)
    };
    assert!(is_lost(end, Health::Up, Some(just_within)));
    assert!(!is_lost(Instant(end.0 - 1), Health::Up, Some(just_within)), "not for long enough");
    assert!(!is_lost(end, Health::Up, Some(Instant(just_within.0 - 1))), "it has been well since");
    assert!(!is_lost(end, Health::Up, None) && is_lost(end, Health::Down, None));
}

#[test]
fn only_data_that_arrives_is_a_sign_that_it_can() {
    let since = Some(Instant(5));
    let failing = || {
        let mut trunk = trunk(1);
        (trunk.failing_since, trunk.none_up_since) = (since, since);
        trunk
    };
    for (carried, seen, left) in [
        (Carried::Stream(0), Seen::Run(2), None),
        // The question, not the data.
        (Carried::Stream(0), Seen::Run(1), since),
        (Carried::Probe, Seen::Run(2), since),
    ] {
        let mut trunk = failing();
        trunk.rails[0].on_sent(carried, 9, Instant(6));
        trunk.rails[0].on_sent(Carried::Probe, 0, Instant(6));
        assert!(trunk.on_packet(Rail(0), &header(Body::Ack, 2, seen), 0, Instant(7)));
        assert_eq!(trunk.failing_since, left, "{carried:?} {seen:?}");
    }
    for worked in [false, true] {
        let mut trunk = failing();
        trunk.rails[0].begin_operation(9, Instant(6));
        trunk.end_operation(Rail(0), 9, Instant(6), worked, Instant(7));
        assert_eq!(trunk.failing_since, since.filter(|_| !worked));
        trunk.close();
        assert_eq!((trunk.failing_since, trunk.none_up_since), (None, None));
    }
    // Nor does a question that comes take a silent rail back.
    let mut trunk = failing();
    trunk.take_out(Rail(0), Health::Silent);
    assert!(!trunk.on_packet(Rail(0), &header(Body::Probe, 0, Seen::Run(1)), 0, Instant(8)));
    assert_eq!((trunk.rails[0].health, trunk.failing_since), (Health::Silent, since));
    // An answer to ours does.
    trunk.rails[0].on_sent(Carried::Probe, 0, Instant(9));
    assert!(trunk.on_packet(Rail(0), &header(Body::Ack, 1, Seen::Run(1)), 0, Instant(10)));
    assert_eq!((trunk.rails[0].health, trunk.none_up_since), (Health::Up, None));
}

#[test]
fn of_the_questions_to_a_silent_rail_the_newest_are_remembered() {
    let (mut net, mut trunk) = (Net::new(2, 1, RailCapabilities::default()), trunk(1));
    trunk.take_out(Rail(0), Health::Silent);
    let interval = trunk.config.probe_interval;
    let mut at = Instant(1);
    trunk.rails[0].probe_at = at;
    for _ in 0..100 {
        at += interval;
        trunk.rails[0].check_silent(&mut net.nodes[0].1, interval, at);
    }
    assert_eq!(trunk.rails[0].sent_count(), crate::link::rail::PROBES_REMEMBERED + 1, "and the last");
}
