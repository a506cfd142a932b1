//! Random worlds: two or three processes that dial each other over a network which loses, delays, cuts and
//! resets.

mod world;

use super::{
    AWAITED_DELAY, Claim, Connections, DialId, Failure, Made, Output, PendingId, RailPlan, Timing, Verdict,
};
use crate::ids::{ProcessId, Rail};
use crate::time::{Duration, Instant};
use alloc::vec;
use alloc::vec::Vec;
use world::{HEALED_WITHIN, QUIET, World};

/// Runs a world of this seed to its end, and judges it.
fn judge(seed: u64, hostile: bool) -> Result<World, alloc::string::String> {
    let mut world = World::new(seed, hostile);
    world.run_until(world.heals_at());
    world.is_calm = true;
    world.run_until(world.heals_at() + HEALED_WITHIN);
    world.check_agreement()?;
    let count = world.handed_over_count;
    world.run_until(world.heals_at() + HEALED_WITHIN + QUIET);
    world.check_agreement()?;
    if world.handed_over_count != count {
        return Err(alloc::format!("connections are still made: {} more", world.handed_over_count - count));
    }
    world.check_leftovers()?;
    Ok(world)
}

#[test]
fn both_sides_agree_once_the_network_works_again() {
    let (mut breaks_count, mut duplicates_count, mut replaced_count) = (0, 0, 0);
    for seed in 0..3_000 {
        let world = judge(seed, false).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        breaks_count += world.breaks_count;
        duplicates_count += world.duplicates_count;
        replaced_count += world.replaced_count;
    }
    // The worlds contain what they are meant to.
    assert!(breaks_count > 3_000, "{breaks_count} connections broke");
    assert!(duplicates_count > 300, "{duplicates_count} dials were refused as duplicates");
    assert!(replaced_count > 30, "{replaced_count} connections were replaced before their end was noticed");
}

#[test]
fn hostile_dials_are_bounded_and_block_no_honest_dial() {
    for seed in 0..500 {
        let world = judge(seed, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        // A dial to a process that does not listen yet is refused, and not counted.
        assert!(world.hostile_count > 500, "seed {seed}: {} hostile dials", world.hostile_count);
        assert_eq!(world.pending_seen_max, world::PENDING_MAX, "seed {seed}: room for all, or for too many");
    }
}

#[test]
fn the_same_seed_makes_the_same_world() {
    let run = |seed| judge(seed, false).map(|world| (world.handed_over_count, world.events_count));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

const ME: ProcessId = ProcessId(0);
const PEER: ProcessId = ProcessId(1);
const NOW: Instant = Instant(1_000);

fn connections(pending_max: usize) -> Connections {
    let (connect, handshake) = (Duration::from_ms(300), Duration::from_ms(200));
    Connections::new(ME, Timing { connect, handshake, pending_max })
}

fn plan(rails: u8) -> Vec<RailPlan> {
    (0..rails).map(|at| RailPlan { rail: Rail(at), interface: at, candidates: vec![at] }).collect()
}

fn outputs(connections: &mut Connections) -> Vec<Output> {
    core::iter::from_fn(|| connections.poll_output()).collect()
}

/// The dials that are due.
fn dials(connections: &mut Connections, now: Instant) -> Vec<DialId> {
    connections.handle_timeout(now);
    let dial = |output| match output {
        Output::Dial { dial, .. } => Some(dial),
        _ => None,
    };
    outputs(connections).into_iter().filter_map(dial).collect()
}

#[test]
fn an_awaited_peer_is_dialled_late_or_when_a_message_waits() {
    for (is_hastened, failure) in
        [(false, Failure::Other), (false, Failure::Ended), (true, Failure::Other), (true, Failure::Ended)]
    {
        let mut connections = connections(4);
        connections.await_peer(PEER, plan(1), 1, NOW);
        assert!(connections.knows(PEER));
        assert_eq!(connections.poll_timeout(), Some(NOW + AWAITED_DELAY));
        if is_hastened {
            connections.hasten(PEER, NOW);
        }
        assert_eq!(dials(&mut connections, NOW).len(), usize::from(is_hastened));
        let now = NOW + AWAITED_DELAY;
        let dial = if is_hastened { DialId(0) } else { dials(&mut connections, now)[0] };
        connections.on_failed(dial, failure, now);
        // That it does not answer is news for a message only.
        let is_news = is_hastened || failure == Failure::Other;
        let news = if is_news { vec![Output::Down(PEER, Rail(0))] } else { vec![] };
        assert_eq!(outputs(&mut connections), news);
    }
}

#[test]
fn an_awaited_peer_that_is_stopped_is_no_news() {
    for has_connected in [false, true] {
        let mut connections = connections(4);
        connections.await_peer(PEER, plan(1), 1, NOW);
        let mut now = NOW + AWAITED_DELAY;
        let dial = dials(&mut connections, now)[0];
        if has_connected {
            connections.on_connected(dial, now);
        }
        now = connections.poll_timeout().expect("it has a deadline");
        connections.handle_timeout(now);
        let mut expected = vec![Output::CloseDial(dial)];
        expected.extend((!has_connected).then_some(Output::Down(PEER, Rail(0))));
        assert_eq!(outputs(&mut connections), expected, "connected: {has_connected}");
    }
}

#[test]
fn a_peer_that_has_left_is_not_dialled() {
    let mut connections = connections(4);
    connections.add_peer(PEER, plan(2), 1, Duration::ZERO, NOW);
    let begun = dials(&mut connections, NOW);
    assert_eq!(begun.len(), 2);
    connections.on_left(PEER);
    assert!(outputs(&mut connections).into_iter().eq(begun.into_iter().map(Output::CloseDial)));
    assert_eq!((connections.poll_timeout(), connections.unfinished_counts()), (None, (0, 0)));
    assert_eq!(dials(&mut connections, NOW + Duration::from_s(20)), []);
}

#[test]
fn a_peer_that_refuses_after_a_break_is_reported_gone() {
    let mut connections = connections(4);
    connections.add_peer(PEER, plan(1), 1, Duration::ZERO, NOW);
    let dial = dials(&mut connections, NOW)[0];
    connections.on_connected(dial, NOW);
    connections.on_verdict(dial, Verdict::Welcome, 1, NOW);
    let made = Made::Here(dial);
    assert_eq!(outputs(&mut connections), [Output::HandOver { made, peer: PEER, rail: Rail(0), epoch: 1 }]);
    connections.on_broken(PEER, Rail(0), 1, NOW);
    let mut now = NOW;
    let mut news = vec![];
    while news.is_empty() {
        let dial = dials(&mut connections, now)[0];
        connections.on_failed(dial, Failure::Refused, now);
        news = outputs(&mut connections);
        now = connections.poll_timeout().unwrap_or(now);
    }
    assert_eq!(news, [Output::Gone(PEER)]);
}

#[test]
fn the_oldest_of_too_many_callers_makes_room() {
    for (pending_max, room) in [(0, 1), (1, 1), (3, 3)] {
        let mut connections = connections(pending_max);
        let accepted: Vec<PendingId> = (0..5).map(|_| connections.on_accepted(NOW)).collect();
        let closed = accepted[..5 - room].iter().map(|oldest| Output::ClosePending(*oldest));
        assert!(outputs(&mut connections).into_iter().eq(closed), "{pending_max}");
        assert_eq!(connections.unfinished_counts(), (0, room));
        // The others are too late, or there is no room for them either.
        let rest: Vec<Output> = accepted[5 - room..].iter().map(|rest| Output::ClosePending(*rest)).collect();
        if room == 1 {
            connections.close_pending();
        } else {
            let due = connections.poll_timeout().expect("they have a deadline");
            connections.handle_timeout(Instant(due.0 - 1));
            assert_eq!(outputs(&mut connections), []);
            connections.handle_timeout(due);
        }
        assert_eq!(outputs(&mut connections), rest);
        assert_eq!(connections.unfinished_counts(), (0, 0));
    }
}

#[test]
fn a_caller_that_was_closed_before_its_answer_gets_no_rail() {
    let mut connections = connections(1);
    connections.add_peer(PEER, plan(1), 1, Duration::from_s(1), NOW);
    let claim = Claim { from: PEER, from_interface: 0, to_interface: 0, epoch: 1 };
    let first = connections.on_accepted(NOW);
    let admission = connections.answer(&claim);
    assert_eq!(admission.verdict, Verdict::Welcome);
    let second = connections.on_accepted(NOW);
    assert_eq!(outputs(&mut connections), [Output::ClosePending(first)]);
    connections.on_answered(first, &claim, admission);
    assert_eq!(outputs(&mut connections), [], "it is closed");
    connections.on_answered(second, &claim, admission);
    let made = Made::There(second);
    assert_eq!(outputs(&mut connections), [Output::HandOver { made, peer: PEER, rail: Rail(0), epoch: 1 }]);
    // A stranger gets none.
    let third = connections.on_accepted(NOW);
    let stranger = Claim { from: ProcessId(9), ..claim };
    let refused = connections.answer(&stranger);
    assert_eq!(refused.verdict, Verdict::Busy);
    connections.on_answered(third, &stranger, refused);
    assert_eq!(outputs(&mut connections), [Output::ClosePending(third)]);
}
