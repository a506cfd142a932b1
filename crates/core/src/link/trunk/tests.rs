//! Several rails as one link, by its parts.

use super::*;
use crate::device::RailCapabilities;
use crate::ids::RequestId;
use crate::link::{Run, UnitsReceived};
use crate::process::tests::net::Net;

#[test]
fn short_packet_takes_the_working_rail_that_delivers_it_first() {
    let latencies_us = [30, 10, 20];
    let rail = |(number, latency_us): (u8, u64)| {
        let latency_ps = latency_us * 1_000_000;
        let bandwidth_bytes_per_s = 250_000_000;
        let capabilities =
            RailCapabilities { latency_ps, bandwidth_bytes_per_s, ..RailCapabilities::default() };
        RailState::new(Rail(number), &capabilities)
    };
    let mut rails: Vec<RailState> = (0..).zip(latencies_us).map(rail).collect();
    let none = RailSet::default();
    assert_eq!(best_rail(&rails, 100, none, true), Some(Rail(1)));
    assert_eq!(
        best_rail(&rails, 100, RailSet::one(Rail(1)), true),
        Some(Rail(2)),
        "the best takes nothing now"
    );
    // The data in flight there takes 20 us, and then this rail is the last.
    rails[1].on_sent(Carried::Probe, 5_250, Instant(1));
    assert_eq!(best_rail(&rails, 100, none, true), Some(Rail(2)));
    rails[2].take_out(Health::Down, |_, _| ());
    assert_eq!(best_rail(&rails, 100, none, true), Some(Rail(0)));
    assert_eq!(best_rail(&rails, 100, RailSet(0b011), true), None, "no rail takes anything");
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
        for ends in [[0, 1], [3, 3], [17, 5], [u32::MAX >> 1, 0]] {
            let [a, b] = ends;
            assert_eq!(first_rail([a, b], count), first_rail([b, a], count));
        }
        // The processes of a host in a row, or with the strides of cyclic numbering, and their neighbours.
        for (stride, away) in [(1, 1), (1, 16), (4, 1), (4, 4), (8, 1), (16, 64)] {
            let mut uses = [0; 4];
            for me in (0..16 * count as u32).map(|index| index * stride) {
                uses[first_rail([me, me + away], count)] += 1;
            }
            let [least, most] = if stride > 1 && count == 3 { [10, 28] } else { [16; 2] };
            let is_even = uses[..count].iter().all(|uses| (least..=most).contains(uses));
            assert!(is_even, "{count} rails, stride {stride}, away {away}: {uses:?}");
        }
        // One process and all others.
        let mut uses = [0; 4];
        for peer in (0..65).filter(|peer| *peer != 20) {
            uses[first_rail([20, peer], count)] += 1;
        }
        let (least, most) = (32 / count, 96 / count);
        assert!(uses[..count].iter().all(|uses| (least..=most).contains(uses)), "{uses:?}");
    }
}

#[test]
fn of_alike_rails_the_one_whose_turn_it_is_takes_a_message() {
    let net = Net::new(2, 1, RailCapabilities::default());
    let trunk = |ends: [u32; 2]| {
        let mut trunk =
            Trunk::new(&net.nodes[0].1, ends.map(ProcessId), RailSet(0b1), TrunkConfig::default());
        let rails = (0..4).map(|rail| RailState::new(Rail(rail), &RailCapabilities::default()));
        trunk.rails = rails.collect();
        trunk.set_turns(ends.map(ProcessId));
        trunk
    };
    for me in 0..4 {
        let mut trunk = trunk([me, me + 1]);
        let without_data = best_rail(&trunk.rails, 100, RailSet::default(), false);
        assert_eq!(without_data, Some(Rail(0)), "whoever it is between");
        let first = Rail(first_rail([me, me + 1], 4) as u8);
        assert_eq!(best_rail(&trunk.rails, 100, RailSet::default(), true), Some(first));
        trunk.rails[usize::from(first.0)].on_sent(Carried::Probe, 100, Instant(1));
        let second = best_rail(&trunk.rails, 100, RailSet::default(), true);
        assert_eq!(second, Some(Rail((first.0 + 1) % 4)), "the first is busy");
    }
}

#[test]
fn gets_go_to_the_rails_with_the_fewest_under_way() {
    let (_, mut trunk, _) = trunk_and_placed();
    trunk.rails = (0..3).map(|rail| RailState::new(Rail(rail), &RailCapabilities::default())).collect();
    trunk.set_turns([0, 1].map(ProcessId));
    let least = |trunk: &Trunk, rails: u32, most| {
        let views = trunk.least_busy(RailSet(rails), most);
        views.iter().map(|view| view.rail.0).collect::<Vec<_>>()
    };
    assert_eq!(least(&trunk, 0b111, 1), [0]);
    trunk.begin_operation(Rail(0), 0, Instant(1));
    assert_eq!([least(&trunk, 0b111, 1), least(&trunk, 0b101, 1)], [[1], [2]]);
    assert_eq!(least(&trunk, 0b111, 9), [0, 1, 2]);
    trunk.rails[1].take_out(Health::Down, |_, _| ());
    assert_eq!(least(&trunk, 0b111, 2), [0, 2]);
}

/// A rail to process 1, and units of a transfer that have been put by it.
fn trunk_and_placed() -> (Net, Trunk, Units) {
    let net = Net::new(2, 1, RailCapabilities::default());
    let trunk = Trunk::new(&net.nodes[0].1, [0, 1].map(ProcessId), RailSet(0b1), TrunkConfig::default());
    let (transfer, receiver) = (TransferId::from_bits(1), RequestId::from_bits(2));
    let units = Units { transfer, receiver, unit_bytes: 1_000, run: Run { first: 3, count: 2 } };
    (net, trunk, units)
}

#[test]
fn a_report_that_the_device_refuses_is_no_work_done() {
    let (mut net, mut trunk, units) = trunk_and_placed();
    trunk.tell_placed(Rail(0), units);
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
    let (mut net, mut trunk, _) = trunk_and_placed();
    let device = &mut net.nodes[0].1;
    let silence = TrunkConfig::default().silence;
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
    look(&mut trunk, taken_out + TrunkConfig::default().probe_interval, silence);
    assert!(trunk.rails[0].is_waiting(), "it is asked");
    assert_eq!(trunk.rails[0].view(1).outstanding_bytes, 0, "a question has no data");
}

#[test]
fn units_put_by_a_rail_that_broke_before_it_told_are_lost() {
    let (mut net, mut trunk, units) = trunk_and_placed();
    trunk.tell_placed(Rail(0), units);
    trunk.on_rail_down(Rail(0), Instant(1));
    assert_eq!(trunk.flush(&mut net.nodes[0].1, Instant(2)), (true, true));
    assert_eq!(trunk.settled, [LinkEvent::Lost(units.transfer, units.run)]);
    assert!(trunk.is_quiet(), "nothing is given to it");
    // A packet of a rail that the link does not have takes nothing away.
    let header = TrunkHeader {
        number: 1,
        ack_now: false,
        ack: trunk.rails[0].arrived.ack(Instant(2)),
        body: Body::Ack,
    };
    assert!(!trunk.on_packet(Rail(7), &header, 0, Instant(3)));
    assert_eq!(trunk.settled.len(), 1);
}

#[test]
fn a_lost_packet_is_no_work_while_no_rail_works() {
    let (mut net, mut trunk, units) = trunk_and_placed();
    let device = &mut net.nodes[0].1;
    assert!(trunk.offer(device, Instant(1), 0, &[0; 16], NO_PAYLOAD));
    trunk.tell_placed(Rail(0), units);
    trunk.on_rail_down(Rail(0), Instant(2));
    assert_eq!(trunk.flush(device, Instant(3)), (true, true));
    assert_eq!(trunk.settled, [LinkEvent::Lost(units.transfer, units.run)]);
    assert_eq!(trunk.flush(device, Instant(4)), (false, true), "it goes again when one works");
    trunk.on_rail_up(Rail(0), Instant(5));
    assert_eq!(trunk.flush(device, Instant(6)), (true, true));
}

#[test]
fn a_link_is_quiet_when_nothing_is_left_of_any_kind() {
    let (_, mut trunk, units) = trunk_and_placed();
    assert!(trunk.is_quiet());
    trunk.backlog_bytes = 1;
    assert!(!trunk.is_quiet(), "data is to be sent");
    trunk.backlog_bytes = 0;
    trunk.tell_placed(Rail(0), units);
    assert!(!trunk.is_quiet(), "its receiver does not know of it");
}

#[test]
fn a_rail_that_was_full_is_looked_at_anew() {
    let (_, mut trunk, _) = trunk_and_placed();
    trunk.views();
    trunk.rail_is_full(Rail(0));
    assert!(trunk.some_full && !trunk.current_views()[0].up);
    assert!(trunk.views()[0].up && !trunk.some_full);
}

#[test]
fn only_an_answer_takes_a_silent_rail_back() {
    let (_, mut trunk, _) = trunk_and_placed();
    trunk.take_out(Rail(0), Health::Silent);
    trunk.failing_since = Some(Instant(5));
    let ack = trunk.rails[0].arrived.ack(Instant(7));
    let header = TrunkHeader { number: 1, ack_now: false, ack, body: Body::Probe };
    assert!(!trunk.on_packet(Rail(0), &header, 0, Instant(8)));
    assert_eq!((trunk.rails[0].health, trunk.failing_since), (Health::Silent, Some(Instant(5))));
}

#[test]
fn what_a_broken_rail_began_to_bring_may_come_by_another() {
    let (_, mut trunk, units) = trunk_and_placed();
    let Units { receiver, unit_bytes, .. } = units;
    let carrying = crate::link::Carrying::Bytes(1_000);
    let units = UnitsReceived { receiver, first: 3, unit_bytes, carrying, unit_bytes_min: 1 };
    trunk.fronts.begin(Rail(0), &units);
    assert!(!trunk.fronts.allow(Rail(1), &units));
    trunk.on_rail_down(Rail(0), Instant(1));
    assert!(trunk.fronts.allow(Rail(1), &units));
}

#[test]
fn a_rail_is_slow_below_half_of_what_the_best_one_carries() {
    let (_, mut trunk, _) = trunk_and_placed();
    trunk.rails.push(RailState::new(Rail(1), &RailCapabilities::default()));
    let ms = |ms: u64| Instant(ms * 1_000_000_000);
    for (bytes, is_slow) in [(500_000, false), (450_000, true)] {
        for (state, bytes) in trunk.rails.iter_mut().zip([1_000_000, bytes]) {
            *state = RailState::new(state.rail, &RailCapabilities::default());
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
        let (_, mut trunk, _) = trunk_and_placed();
        trunk.rails.push(RailState::new(Rail(1), &RailCapabilities::default()));
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
    let after = |carried, seen, largest| {
        let (_, mut trunk, _) = trunk_and_placed();
        trunk.failing_since = since;
        trunk.rails[0].on_sent(carried, 9, Instant(6));
        trunk.rails[0].on_sent(Carried::Probe, 0, Instant(6));
        let ack = crate::wire::trunk::Ack { largest, seen, delay: Duration::ZERO };
        let header = TrunkHeader { number: 1, ack_now: false, ack, body: Body::Ack };
        assert!(trunk.on_packet(Rail(0), &header, 0, Instant(7)));
        trunk.failing_since
    };
    use crate::wire::trunk::Seen;
    assert_eq!(after(Carried::Stream(0), Seen::Run(2), 2), None);
    assert_eq!(after(Carried::Stream(0), Seen::Run(1), 2), since, "the question, not the data");
    assert_eq!(after(Carried::Probe, Seen::Run(2), 2), since);
    for worked in [false, true] {
        let (_, mut trunk, _) = trunk_and_placed();
        trunk.failing_since = since;
        trunk.begin_operation(Rail(0), 9, Instant(6));
        trunk.end_operation(Rail(0), 9, Instant(6), worked, Instant(7));
        assert_eq!(trunk.failing_since, since.filter(|_| !worked));
        (trunk.failing_since, trunk.none_up_since) = (since, since);
        trunk.close();
        assert_eq!((trunk.failing_since, trunk.none_up_since), (None, None));
    }
}
