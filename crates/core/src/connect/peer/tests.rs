//! Decisions about the rails to one peer.

use super::*;

const LOW: ProcessId = ProcessId(0);
const HIGH: ProcessId = ProcessId(1);

fn peer(id: ProcessId, rails: u8) -> (Peer, Instant) {
    let now = Instant(1_000);
    let plan = (0..rails).map(|interface| {
        // The one of the same number first.
        let partners = (0..rails).map(|place| (interface + place) % rails);
        RailPlan { rail: Rail(1 + interface), interface, candidates: partners.collect() }
    });
    (Peer::new(id, plan.collect(), 1, now, Duration::ZERO), now)
}

fn claim(epoch: u32) -> Claim {
    Claim { from: HIGH, from_interface: 0, to_interface: 0, epoch }
}

#[test]
fn of_two_dials_at_once_the_lower_process_wins() {
    let (mut at_low, now) = peer(HIGH, 1);
    assert!(at_low.take_due(0, now).is_some());
    at_low.slots[0].state = State::Dialling(7);
    let refused = at_low.admit(LOW, &claim(1), |_| Some((0, true)));
    assert_eq!(refused.verdict, Verdict::Duplicate);
    let (mut at_high, _) = peer(LOW, 1);
    at_high.slots[0].state = State::Dialling(8);
    let admitted = at_high.admit(HIGH, &claim(1), |_| Some((0, true)));
    assert_eq!((admitted.verdict, admitted.abandoned), (Verdict::Welcome, Some(8)));
}

#[test]
fn a_dial_that_has_not_spoken_yields_to_one_that_has() {
    let (mut at_low, _) = peer(HIGH, 1);
    at_low.slots[0].state = State::Dialling(7);
    let admitted = at_low.admit(LOW, &claim(1), |_| Some((0, false)));
    assert_eq!((admitted.verdict, admitted.abandoned), (Verdict::Welcome, Some(7)));
}

#[test]
fn a_newer_epoch_replaces_and_an_older_is_a_duplicate() {
    let (mut peer, _) = peer(HIGH, 1);
    peer.on_up(0, 0, 3);
    assert_eq!(peer.admit(LOW, &claim(3), |_| None).verdict, Verdict::Duplicate);
    let admission = peer.admit(LOW, &claim(4), |_| None);
    assert_eq!((admission.verdict, admission.slot, admission.epoch), (Verdict::Welcome, 0, 4));
}

#[test]
fn a_rail_that_never_comes_is_reported_once_and_tried_on() {
    let (mut peer, now) = peer(HIGH, 1);
    assert!(peer.take_due(0, now).is_some());
    assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Down(Rail(1)));
    assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
    assert!(peer.next_time().is_some_and(|at| at <= now + BACK_OFF_NEVER_UP_MAX));
    assert_eq!(peer.overdue(now + PATIENCE).count(), 0);
}

#[test]
fn silence_is_reported_after_a_second() {
    let (mut peer, now) = peer(HIGH, 2);
    peer.slots[0].state = State::Dialling(1);
    peer.on_up(1, 1, 1);
    assert_eq!(peer.overdue(now + Duration(PATIENCE.0 / 2)).count(), 0);
    assert!(peer.overdue(now + PATIENCE).eq([Rail(1)]));
}

#[test]
fn a_peer_that_refuses_is_gone_and_one_cut_off_is_not() {
    let (mut peer, now) = peer(HIGH, 2);
    peer.on_up(0, 0, 1);
    peer.on_up(1, 1, 1);
    peer.on_broken(Rail(1), 1, true, now);
    assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing);
    assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing, "a rail is up");
    peer.on_broken(Rail(2), 1, true, now);
    assert_eq!(peer.on_failure(1, Failure::Other, now), Consequence::Nothing);
    assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
    assert_eq!(peer.admit(LOW, &claim(9), |_| None).verdict, Verdict::Busy);
}

#[test]
fn a_peer_never_met_is_gone_when_every_address_keeps_refusing() {
    // Two rails; by each the peer's interface in the other's network refuses, too, or nobody is there.
    for crossing in [Failure::Refused, Failure::Other] {
        let (mut peer, mut now) = peer(HIGH, 2);
        let mut tries_count = 0;
        while !peer.is_over {
            for slot in 0..2 {
                if let Some((candidate, _)) = peer.take_due(slot, now) {
                    tries_count += 1;
                    let failure = if candidate == 0 { Failure::Refused } else { crossing };
                    peer.on_failure(slot, failure, now);
                }
            }
            assert!(tries_count < 1_000, "it is never gone");
            now = peer.next_time().unwrap_or(now);
        }
        // Two rails with two addresses each, and in the last round the first of them.
        assert_eq!(tries_count, 2 * 2 * (REFUSALS_NEVER_UP_MAX - 1) + 2);
    }
}

#[test]
fn a_peer_never_met_of_which_one_address_is_silent_is_not_gone() {
    let (mut peer, now) = peer(HIGH, 2);
    for _ in 0..100 {
        assert_ne!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
        assert_ne!(peer.on_failure(1, Failure::Other, now), Consequence::Gone);
    }
}

#[test]
fn a_wanted_peer_that_does_not_call_is_reported() {
    let (mut quiet, now) = peer(HIGH, 1);
    assert!(quiet.overdue(now + PATIENCE).eq([Rail(1)]));
    let (mut answering, now) = peer(HIGH, 1);
    assert_eq!(answering.on_failure(0, Failure::Unanswered, now), Consequence::Down(Rail(1)));
}

#[test]
fn an_awaited_peer_whose_host_answers_is_no_news() {
    let (mut peer, now) = peer(HIGH, 1);
    peer.is_only_awaited = true;
    for failure in [Failure::Unanswered, Failure::Ended].repeat(10) {
        assert_eq!(peer.on_failure(0, failure, now), Consequence::Nothing);
    }
    let later = now + Duration::from_s(1);
    assert_eq!(peer.overdue(later).count(), 0);
    peer.hasten(later);
    assert_eq!(peer.next_time(), Some(later));
    assert!(peer.overdue(later + PATIENCE).eq([Rail(1)]), "a message waits");
}

#[test]
fn an_awaited_peer_without_a_way_to_its_host_is_reported_once() {
    let (mut peer, now) = one_rail(vec![4, 5]);
    peer.is_only_awaited = true;
    assert_eq!(peer.overdue(now + PATIENCE).count(), 0, "its attempts end");
    // One of its addresses answers, and another time none.
    for failure in [Failure::Unanswered, Failure::Other] {
        assert_eq!(peer.on_failure(0, failure, now), Consequence::Nothing);
    }
    assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing, "one is left");
    assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Down(Rail(1)));
    for _ in 0..4 {
        assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
    }
}

#[test]
fn a_rail_without_a_way_to_an_awaited_peer_is_reported() {
    let (mut peer, now) = one_rail(vec![]);
    peer.is_only_awaited = true;
    assert_eq!(peer.next_time(), Some(now + PATIENCE));
    assert!(peer.overdue(now + PATIENCE).eq([Rail(1)]));
    assert_eq!((peer.next_time(), peer.overdue(now + PATIENCE).count()), (None, 0));
}

#[test]
fn the_first_attempt_is_made_earlier_when_a_message_waits() {
    let now = Instant(1_000);
    let plan = || vec![RailPlan { rail: Rail(1), interface: 0, candidates: vec![0] }];
    let mut peer = Peer::new(HIGH, plan(), 1, now, PATIENCE);
    assert_eq!(peer.next_time(), Some(now + PATIENCE));
    peer.hasten(now);
    assert_eq!(peer.next_time(), Some(now));
    assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Down(Rail(1)));
    let later = peer.next_time();
    peer.hasten(now);
    assert_eq!(peer.next_time(), later, "a pause after a failure stays");
}

#[test]
fn a_late_report_about_an_older_connection_changes_nothing() {
    let (mut peer, now) = peer(HIGH, 1);
    peer.on_up(0, 0, 2);
    peer.on_broken(Rail(1), 1, true, now);
    assert_eq!(peer.slots[0].state, State::Up(0));
}

#[test]
fn an_interface_that_another_rail_uses_is_not_tried() {
    let (mut peer, now) = peer(HIGH, 2);
    // Rail 1 came up with the partner that rail 2 would have liked.
    peer.on_up(0, 1, 1);
    let (_, partner) = peer.take_due(1, now).expect("the other one is free");
    assert_eq!(partner, 0);
}

#[test]
fn a_new_connection_has_a_later_epoch_than_both_sides_know() {
    let (mut peer, _) = peer(HIGH, 1);
    peer.on_up(0, 0, 3);
    peer.slots[0].state = State::Idle;
    for (claimed, epoch) in [(2, 4), (4, 4), (7, 7)] {
        let admission = peer.admit(LOW, &claim(claimed), |_| None);
        assert_eq!((admission.verdict, admission.epoch), (Verdict::Welcome, epoch));
    }
}

/// One rail from interface 0, with these interfaces of the peer's.
fn one_rail(candidates: Vec<u8>) -> (Peer, Instant) {
    let now = Instant(1_000);
    let plan = vec![RailPlan { rail: Rail(1), interface: 0, candidates }];
    (Peer::new(HIGH, plan, 1, now, Duration::ZERO), now)
}

/// Each of so many dials that all fail: its candidate, and the pause before it.
fn dials(peer: &mut Peer, mut now: Instant, count: usize) -> Vec<(usize, Duration)> {
    let dial = |_| {
        let State::Waiting(due) = peer.slots[0].state else { panic!("it is to be tried again") };
        let pause = due.since(now);
        now = due;
        let (candidate, _) = peer.take_due(0, now).expect("it is due");
        peer.on_failure(0, Failure::Other, now);
        (candidate, pause)
    };
    (0..count).map(dial).collect()
}

#[test]
fn all_candidates_are_tried_before_each_pause_which_doubles() {
    let (mut peer, now) = one_rail(vec![4, 5, 6]);
    let mut expected = vec![];
    for round in 0..14 {
        let pause = match round {
            0 => Duration::ZERO,
            round => Duration(BACK_OFF_MIN.0 << (round - 1)).min(BACK_OFF_NEVER_UP_MAX),
        };
        expected.extend([(0, pause), (1, Duration::ZERO), (2, Duration::ZERO)]);
    }
    assert_eq!(dials(&mut peer, now, expected.len()), expected);
    let last = expected[expected.len() - 3].1;
    assert_eq!(last, BACK_OFF_NEVER_UP_MAX);
}

#[test]
fn a_rail_that_has_worked_is_tried_the_same_way_four_times() {
    let (mut peer, now) = one_rail(vec![4, 5, 6]);
    peer.on_up(0, 5, 1);
    peer.on_broken(Rail(1), 1, true, now);
    let expected = (0..14_u32).map(|dial| {
        let pause = dial
            .checked_sub(1)
            .map_or(Duration::ZERO, |failure| Duration(BACK_OFF_MIN.0 << failure).min(BACK_OFF_MAX));
        ([1, 2, 0][dial as usize / 4 % 3], pause)
    });
    assert_eq!(dials(&mut peer, now, 14), expected.collect::<Vec<_>>());
}

#[test]
fn a_break_is_followed_by_a_dial_of_the_lower_process_first() {
    for (is_lower, due) in [(true, Duration::ZERO), (false, COURTESY)] {
        let (mut peer, now) = one_rail(vec![4]);
        peer.on_up(0, 4, 1);
        peer.on_broken(Rail(1), 1, is_lower, now);
        assert_eq!(peer.next_time(), Some(now + due));
        assert_eq!(peer.overdue(now + PATIENCE).count(), 0, "its user has said so itself");
        assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
    }
}

#[test]
fn the_address_that_worked_is_dialled_after_a_break() {
    // The first two are addresses of one interface; the dial was to the second.
    let (mut peer, now) = one_rail(vec![5, 5, 6]);
    peer.take_due(0, now);
    assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
    peer.on_up(0, 5, 1);
    peer.on_broken(Rail(1), 1, true, now);
    assert_eq!(peer.take_due(0, now), Some((1, 5)));
    // The peer's own dial came from the third.
    peer.on_up(0, 6, 2);
    peer.on_broken(Rail(1), 2, true, now);
    assert_eq!(peer.take_due(0, now), Some((2, 6)));
    // And from one that no dial of ours goes to.
    peer.on_up(0, 9, 3);
    peer.on_broken(Rail(1), 3, true, now);
    assert_eq!(peer.take_due(0, now), Some((2, 6)));
}

#[test]
fn refusals_before_a_connection_do_not_count_after_it() {
    let (mut peer, now) = one_rail(vec![4]);
    for _ in 1..REFUSALS_NEVER_UP_MAX {
        assert_ne!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
    }
    peer.on_up(0, 4, 1);
    peer.on_broken(Rail(1), 1, true, now);
    for _ in 1..REFUSALS_MAX {
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing);
    }
    assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
    assert_eq!((peer.next_time(), peer.take_due(0, now + PATIENCE)), (None, None));
}

#[test]
fn a_silence_ends_a_row_of_refusals_and_an_end_does_not() {
    for (between, is_gone) in [(Failure::Ended, true), (Failure::Other, false)] {
        let (mut peer, now) = one_rail(vec![4]);
        peer.on_up(0, 4, 1);
        peer.on_broken(Rail(1), 1, true, now);
        for failure in [Failure::Refused, between] {
            assert_eq!(peer.on_failure(0, failure, now), Consequence::Nothing);
        }
        let last = peer.on_failure(0, Failure::Refused, now);
        assert_eq!(last == Consequence::Gone, is_gone, "{between:?}");
    }
}

#[test]
fn what_is_no_refusal_takes_none_back() {
    let (mut peer, now) = one_rail(vec![4]);
    for _ in 1..REFUSALS_NEVER_UP_MAX {
        assert_ne!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
    }
    for failure in [Failure::Ended, Failure::Other].repeat(REFUSALS_NEVER_UP_MAX as usize) {
        assert_ne!(peer.on_failure(0, failure, now), Consequence::Gone, "no refusal");
    }
    assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
}

#[test]
fn a_dial_that_is_a_duplicate_waits_for_the_peers() {
    let (mut peer, now) = one_rail(vec![4, 5]);
    peer.take_due(0, now);
    assert_eq!(peer.on_failure(0, Failure::Duplicate(7), now), Consequence::Nothing);
    assert_eq!(peer.next_time(), Some(now + LOSER_WAIT));
    assert_eq!(peer.take_due(0, now + LOSER_WAIT), Some((0, 4)), "the same, if it does not come");
    assert_eq!(peer.slots[0].epoch, 7);
    peer.on_failure(0, Failure::Duplicate(3), now);
    assert_eq!(peer.slots[0].epoch, 7, "an older answer");
}

#[test]
fn a_message_makes_an_awaited_peer_wanted_from_then_on() {
    let (mut peer, now) = peer(HIGH, 2);
    peer.is_only_awaited = true;
    // One rail is dialled, the other one pauses.
    peer.slots[0].state = State::Dialling(1);
    for _ in 0..20 {
        peer.on_failure(1, Failure::Unanswered, now);
    }
    let later = now + Duration::from_s(3);
    peer.hasten(later);
    assert_eq!(peer.slots[0].state, State::Dialling(1), "it goes on");
    assert!(peer.take_due(1, later).is_some());
    assert_eq!(peer.overdue(later + Duration(PATIENCE.0 - 1)).count(), 0, "it is wanted since then");
    assert_eq!(peer.overdue(later + PATIENCE).count(), 2);
    peer.on_failure(1, Failure::Other, later);
    peer.on_failure(1, Failure::Other, later);
    assert_eq!(peer.slots[1].state, State::Waiting(later + BACK_OFF_MIN), "the first pause is short");
}

#[test]
fn a_first_attempt_that_is_made_earlier_is_wanted_earlier() {
    let now = Instant(1_000);
    let plan = vec![RailPlan { rail: Rail(1), interface: 0, candidates: vec![0] }];
    let mut peer = Peer::new(HIGH, plan, 1, now, Duration::from_s(5));
    peer.hasten(now);
    peer.slots[0].state = State::Dialling(1);
    assert_eq!(peer.next_time(), Some(now + PATIENCE));
    assert!(peer.overdue(now + PATIENCE).eq([Rail(1)]));
}

#[test]
fn a_peer_that_has_called_is_not_only_awaited() {
    let (mut peer, now) = peer(HIGH, 2);
    peer.is_only_awaited = true;
    peer.on_up(0, 0, 1);
    assert!(peer.overdue(now + PATIENCE).eq([Rail(2)]), "its other rail is missed");
}

#[test]
fn a_rail_without_a_free_partner_is_tried_later() {
    let now = Instant(1_000);
    let plan = |interface| RailPlan { rail: Rail(interface), interface, candidates: vec![4] };
    let mut peer = Peer::new(HIGH, vec![plan(0), plan(1)], 1, now, Duration::ZERO);
    peer.on_up(0, 4, 1);
    assert_eq!(peer.take_due(1, now), None);
    assert_eq!(peer.take_due(1, now), None, "not again at once");
    assert_eq!(peer.slots[1].state, State::Waiting(now + BACK_OFF_MIN));
    peer.on_broken(Rail(0), 1, true, now);
    assert_eq!(peer.take_due(1, now + BACK_OFF_MIN), Some((0, 4)));
}

#[test]
fn rails_of_one_interface_go_to_different_partners() {
    let now = Instant(1_000);
    let plan = |rail, interface| RailPlan { rail: Rail(rail), interface, candidates: vec![4, 5] };
    let plans = vec![plan(1, 0), plan(2, 0), plan(3, 1)];
    let mut peer = Peer::new(HIGH, plans, 2, now, Duration::ZERO);
    peer.on_up(0, 4, 1);
    assert_eq!(peer.take_due(1, now), Some((1, 5)), "4 has a rail of the same interface");
    assert_eq!(peer.take_due(2, now), Some((0, 4)), "4 carries a second one of another");
}

#[test]
fn a_call_takes_the_rail_whose_dial_it_meets() {
    let now = Instant(1_000);
    let plan = |rail| RailPlan { rail: Rail(rail), interface: 0, candidates: vec![0, 1] };
    let mut peer = Peer::new(HIGH, vec![plan(1), plan(2)], 2, now, Duration::ZERO);
    peer.slots[1].state = State::Dialling(7);
    let admission = peer.admit(LOW, &claim(1), |_| Some((0, false)));
    assert_eq!((admission.slot, admission.abandoned), (1, Some(7)), "though another rail is free");
    let admission = peer.admit(LOW, &claim(1), |_| Some((1, true)));
    assert_eq!((admission.slot, admission.abandoned), (0, None), "that dial goes elsewhere");
}
