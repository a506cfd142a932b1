//! Verdicts over hand-made snapshots.

use super::graph::{Graph, Verdict};
use super::report::{self, Activity, HostReport, RankReport, RankState, Ranks, Stage, to_hex};
use super::show::{self, Heading};
use ayatori_core::coll::Collective;
use ayatori_core::explain::{
    Blocked, CollectiveState, CommState, Explanation, HeldLock, Label, LinkState, Listed, LockState, Need,
    NodeState, Plain, PostedReceive, SlowRail, Snapshot, UnexpectedMessage,
};
use ayatori_core::ids::{ContextId, ProcessId, RequestId};
use std::collections::BTreeSet;

const WORLD: ContextId = ContextId::WORLD;
const REQUEST: RequestId = RequestId { index: 3, generation: 0 };

fn receive(source: impl Into<Option<u32>>, tag: i32) -> Need {
    let source = source.into().map(ProcessId);
    Need::Message(PostedReceive { context: WORLD, source, tag: Some(tag), bytes: 8 })
}

fn ssend(to: u32) -> Need {
    Need::Match { to: ProcessId(to), request: REQUEST, bytes: 8 }
}

fn node(number: u64, collective: Collective, bytes: u64, awaited: Option<u32>) -> Need {
    let label = Label { collective, bytes, root: awaited };
    Need::Node(NodeState { context: WORLD, number, label, awaited: awaited.map(ProcessId) })
}

/// The report of a rank in a job of `size`; `counts` of its collective operations on the world.
fn told(rank: u32, size: u32, counts: (u64, u64), blocked: Vec<Blocked>) -> Snapshot {
    let comm = CommState {
        context: WORLD,
        members: vec![(0, size - 1)],
        collectives_count: counts,
        name: String::new(),
    };
    let state = Explanation { process: rank, comms: vec![comm], ..Explanation::default() };
    Snapshot { state, blocked, is_threaded: false, rail_names: Vec::new() }
}

fn blocked(call: &str, is_any: bool, needs: Vec<Need>) -> Blocked {
    Blocked { thread: 1, call: call.into(), waited_ms: 35_000, is_any, needs }
}

fn state(rank: u32, activity: Activity) -> RankState {
    let told = match &activity {
        Activity::Blocked(told) => Some(told.clone()),
        _ => None,
    };
    let call = told.as_ref().and_then(|told| Some(told.blocked.first()?.call.clone()));
    RankState {
        rank,
        host: "node7".into(),
        pid: 100 + rank as i32,
        status: 'S',
        call,
        for_ms: None,
        activity,
        told,
    }
}

/// Ranks that wait in one call each.
fn waiting(calls: Vec<(&str, bool, Vec<Need>)>) -> Ranks {
    let size = calls.len() as u32;
    let ranks = calls.into_iter().enumerate().map(|(rank, (call, is_any, needs))| {
        let told = told(rank as u32, size, (1, 1), vec![blocked(call, is_any, needs)]);
        (rank as u32, state(rank as u32, Activity::Blocked(Box::new(told))))
    });
    ranks.collect()
}

fn told_mut(ranks: &mut Ranks, rank: u32) -> &mut Explanation {
    let state = ranks.get_mut(&rank).expect("a rank");
    let Activity::Blocked(told) = &mut state.activity else { panic!("it waits") };
    state.told = None;
    &mut told.state
}

/// Takes changes by `told_mut` over as the rank's report.
fn sync(ranks: &mut Ranks) {
    for state in ranks.values_mut() {
        if let Activity::Blocked(told) = &state.activity {
            state.told = Some(told.clone());
        }
    }
}

fn verdict(ranks: &Ranks) -> Verdict {
    Graph::new(ranks).verdict()
}

fn text(ranks: &Ranks) -> String {
    show::text(&Heading::default(), &[], ranks, true).0
}

#[track_caller]
fn says(ranks: &Ranks, what: &[&str]) {
    let text = text(ranks);
    for what in what {
        assert!(text.contains(what), "not said: {what}\n{text}");
    }
}

#[test]
fn two_ranks_receiving_from_each_other_are_a_named_cycle() {
    let ranks =
        waiting(vec![("MPI_Recv", false, vec![receive(1, 5)]), ("MPI_Recv", false, vec![receive(0, 6)])]);
    assert_eq!(verdict(&ranks).cycles, [[0, 1]]);
    says(
        &ranks,
        &[
            "DEADLOCK: ranks 0,1 can never go on.",
            "rank 0 waits in MPI_Recv for rank 1 (tag 5, MPI_COMM_WORLD)",
            "rank 1 waits in MPI_Recv for rank 0 (tag 6, MPI_COMM_WORLD)",
        ],
    );
}

#[test]
fn a_rank_waiting_for_a_cycle_is_stuck_and_not_part_of_it() {
    let recv = |from| ("MPI_Recv", false, vec![receive(from, 0)]);
    let ranks = waiting(vec![recv(1), recv(2), recv(3), recv(1), recv(0)]);
    let found = verdict(&ranks);
    assert_eq!((found.cycles, found.stuck), (vec![vec![1, 2, 3]], BTreeSet::from([0, 1, 2, 3, 4])));
    says(&ranks, &["behind them: ranks 0,4"]);
}

/// The lock of a rank's memory; with no holder named, so many hold it together.
fn lock(target: u32, is_exclusive: bool, holder: Option<u32>, holders_count: u32) -> Need {
    let (target, holder) = (ProcessId(target), holder.map(ProcessId));
    Need::Lock(LockState { context: WORLD, name: "halo".into(), target, is_exclusive, holder, holders_count })
}

#[test]
fn locks_held_alone_close_a_cycle_and_name_their_holders() {
    let wait = |target, holder| ("MPI_Win_lock", false, vec![lock(target, false, Some(holder), 1)]);
    let ranks = waiting(vec![wait(1, 1), wait(0, 0)]);
    assert_eq!(verdict(&ranks).cycles, [[0, 1]]);
    says(
        &ranks,
        &["rank 0 waits in MPI_Win_lock for the shared lock of rank 1 (window halo), \
             which rank 1 holds alone"],
    );
}

#[test]
fn a_lock_is_stuck_only_if_a_known_holder_is() {
    let held = |target: Option<u32>| HeldLock { context: WORLD, target: target.map(ProcessId) };
    let mut ranks = waiting(vec![
        ("MPI_Win_lock", false, vec![lock(0, true, None, 2)]),
        ("MPI_Recv", false, vec![receive(0, 5)]),
        ("MPI_Win_lock", false, vec![lock(0, true, None, 2)]),
    ]);
    // The holder computes, as far as known.
    assert_eq!(verdict(&ranks).stuck, BTreeSet::new());
    told_mut(&mut ranks, 0).held = vec![held(Some(0))];
    told_mut(&mut ranks, 2).held = vec![held(Some(0))];
    sync(&mut ranks);
    assert_eq!(verdict(&ranks).stuck, BTreeSet::new(), "these wait for it themselves");
    told_mut(&mut ranks, 1).held = vec![held(None)];
    sync(&mut ranks);
    let found = verdict(&ranks);
    assert_eq!((found.cycles, found.stuck), (vec![vec![0, 1]], BTreeSet::from([0, 1, 2])));
    says(
        &ranks,
        &["the exclusive lock of rank 0 (window halo), which 2 ranks hold shared, rank 1 among them"],
    );
}

#[test]
fn unrelated_cycles_are_each_named() {
    let recv = |from| ("MPI_Recv", false, vec![receive(from, 0)]);
    let ranks = waiting(vec![recv(1), recv(0), recv(3), recv(2), recv(3)]);
    assert_eq!(verdict(&ranks).cycles, [[0, 1], [2, 3]]);
    says(&ranks, &["behind them: rank 4"]);
}

#[test]
fn a_computing_rank_can_free_all_that_wait_for_it() {
    let mut ranks = waiting(vec![
        ("MPI_Recv", false, vec![receive(1, 0)]),
        ("MPI_Recv", false, vec![receive(2, 0)]),
        ("MPI_Recv", false, vec![receive(0, 0)]),
    ]);
    ranks.insert(2, RankState { status: 'R', for_ms: Some(12_000), ..state(2, Activity::UserCode) });
    let found = verdict(&ranks);
    assert!(found.stuck.is_empty());
    assert_eq!((found.waiting, found.awaited), (BTreeSet::from([0, 1]), BTreeSet::from([2])));
    says(&ranks, &["No deadlock: ranks 0,1 wait for rank 2", "rank 2 is in user code for 12 s: computes"]);
    ranks.insert(2, state(2, Activity::Stopped));
    says(&ranks, &["rank 2 is stopped", "kill -CONT 102"]);
}

#[test]
fn beside_a_deadlock_others_wait_for_what_can_come() {
    let recv = |from| ("MPI_Recv", false, vec![receive(from, 0)]);
    let moving = |peer| ("MPI_Wait", false, vec![Need::Progress { peer: ProcessId(peer) }]);
    let ranks = waiting(vec![recv(1), recv(0), moving(3), moving(2)]);
    let found = verdict(&ranks);
    assert_eq!((found.waiting, found.awaited), (BTreeSet::from([2, 3]), BTreeSet::new()));
    says(&ranks, &["DEADLOCK: ranks 0,1", "\nranks 2,3 wait, and the wait can end.\n"]);
    assert!(!text(&ranks).contains("ranks ,"), "{}", text(&ranks));
}

#[test]
fn any_of_several_is_stuck_only_if_all_are() {
    let any = |needs| ("MPI_Waitany", true, needs);
    // Rank 0 may be freed by 2, which computes; and then it frees 1.
    let mut ranks = waiting(vec![
        any(vec![receive(1, 0), receive(2, 0)]),
        ("MPI_Recv", false, vec![receive(0, 0)]),
        ("MPI_Recv", false, vec![receive(0, 0)]),
    ]);
    assert_eq!(verdict(&ranks).stuck.len(), 3);
    ranks.insert(2, state(2, Activity::UserCode));
    assert!(verdict(&ranks).stuck.is_empty());
    // The same needs, all of them: 2 is not enough.
    let Activity::Blocked(told) = &mut ranks.get_mut(&0).unwrap().activity else { panic!() };
    told.blocked[0].is_any = false;
    assert_eq!(verdict(&ranks).stuck, BTreeSet::from([0, 1]));
}

#[test]
fn a_receive_from_any_source_waits_for_any_member() {
    let any = || ("MPI_Recv", false, vec![receive(None, 0)]);
    let mut ranks = waiting(vec![any(), any(), any()]);
    assert_eq!(verdict(&ranks).stuck.len(), 3);
    says(&ranks, &["waits in MPI_Recv for any rank (tag 0, MPI_COMM_WORLD)"]);
    ranks.insert(1, state(1, Activity::Busy));
    assert!(verdict(&ranks).stuck.is_empty());
}

#[test]
fn slow_rails_are_told_with_their_names_the_slowest_first() {
    let mut ranks =
        waiting(vec![("MPI_Recv", false, vec![receive(1, 0)]), ("MPI_Send", false, vec![ssend(0)])]);
    let slow = |peer, bytes_per_s| SlowRail {
        peer: ProcessId(peer),
        rail: 2,
        bytes_per_s,
        round_trip_ns: 4_100_000,
        best: 1,
        best_bytes_per_s: 250_000_000,
    };
    assert!(!text(&ranks).contains("rails that are slow"));
    told_mut(&mut ranks, 0).slow_rails = Listed { count: 1, first: vec![slow(1, 12_500_000)] };
    told_mut(&mut ranks, 1).slow_rails = Listed { count: 1, first: vec![slow(0, 1_250_000)] };
    sync(&mut ranks);
    let told = ranks.get_mut(&0).and_then(|state| state.told.as_mut()).expect("it has told");
    told.rail_names = ["shm", "eth0", "eth1"].map(String::from).into();
    says(
        &ranks,
        &[
            "rails that are slow\n  rank 1, rail 2 to rank 0: carries 1.2 MB/s with a round trip of 4100.0 us, \
           rail 1 250.0 MB/s\n  rank 0, eth1 to rank 1: carries 12.5 MB/s",
        ],
    );
}

#[test]
fn packets_in_flight_are_no_deadlock() {
    let mut ranks =
        waiting(vec![("MPI_Recv", false, vec![receive(1, 0)]), ("MPI_Recv", false, vec![receive(0, 0)])]);
    let link = |peer, sent_count, received_count| LinkState {
        peer: ProcessId(peer),
        sent_count,
        received_count,
        queued_count: 0,
        has_failed: false,
        rails: Vec::new(),
    };
    told_mut(&mut ranks, 0).links.push(link(1, 4, 7));
    told_mut(&mut ranks, 1).links.push(link(0, 8, 4));
    sync(&mut ranks);
    assert!(verdict(&ranks).stuck.is_empty(), "packet 8 is under way");
    told_mut(&mut ranks, 0).links[0].received_count = 8;
    sync(&mut ranks);
    assert_eq!(verdict(&ranks).stuck.len(), 2);
    told_mut(&mut ranks, 1).links[0].queued_count = 1;
    sync(&mut ranks);
    assert!(verdict(&ranks).stuck.is_empty(), "a packet waits for room");
    told_mut(&mut ranks, 1).links[0].has_failed = true;
    sync(&mut ranks);
    assert_eq!(verdict(&ranks).stuck.len(), 2, "and will never have it");
}

#[test]
fn a_synchronous_send_waits_while_its_message_is_unmatched() {
    let mut ranks =
        waiting(vec![("MPI_Ssend", false, vec![ssend(1)]), ("MPI_Recv", false, vec![receive(0, 6)])]);
    assert!(verdict(&ranks).stuck.is_empty(), "it has been matched");
    let message =
        UnexpectedMessage { context: WORLD, source: ProcessId(0), tag: 5, bytes: 8, sender: Some(REQUEST) };
    told_mut(&mut ranks, 1).unexpected = Listed { count: 1, first: vec![message] };
    sync(&mut ranks);
    assert_eq!(verdict(&ranks).cycles, [[0, 1]]);
    says(
        &ranks,
        &[
            "rank 0 waits in MPI_Ssend for rank 1 to receive 8 bytes (tag 5, MPI_COMM_WORLD)",
            "rank 0 has sent rank 1 8 bytes with tag 5; rank 1 waits for tag 6",
            "rank 1 has not received 8 bytes of rank 0 (tag 5, MPI_COMM_WORLD); the sender waits",
        ],
    );
}

#[test]
fn a_rank_waiting_for_an_ended_rank_hangs_without_a_cycle() {
    let mut ranks = waiting(vec![("MPI_Recv", false, vec![receive(1, 0)]), ("MPI_Recv", false, vec![])]);
    ranks.insert(1, state(1, Activity::Ended));
    let found = verdict(&ranks);
    assert_eq!((found.stuck, found.missing), (BTreeSet::from([0]), BTreeSet::from([1])));
    assert!(found.cycles.is_empty());
    says(&ranks, &["HANGS: rank 0 can never go on.", "rank 1 has left MPI or ended"]);
}

#[test]
fn data_under_way_to_a_rank_that_waits_moves_on() {
    let progress = Need::Progress { peer: ProcessId(1) };
    let ranks = waiting(vec![("MPI_Send", false, vec![progress]), ("MPI_Recv", false, vec![receive(0, 0)])]);
    assert!(verdict(&ranks).stuck.is_empty());
}

#[test]
fn a_node_collective_waits_for_members_that_have_not_come() {
    let allreduce = || ("MPI_Allreduce", false, vec![node(16, Collective::Allreduce, 8, None)]);
    let mut ranks = waiting(vec![allreduce(), allreduce(), ("MPI_Recv", false, vec![receive(0, 3)])]);
    for rank in [0, 1] {
        told_mut(&mut ranks, rank).comms[0].collectives_count = (0, 17);
    }
    told_mut(&mut ranks, 2).comms[0].collectives_count = (0, 16);
    sync(&mut ranks);
    assert_eq!(verdict(&ranks).cycles, [[0, 2]]);
    says(&ranks, &["rank 0 waits in MPI_Allreduce for rank 2's part in MPI_Allreduce (MPI_COMM_WORLD)"]);
    ranks.insert(2, state(2, Activity::UserCode));
    assert!(verdict(&ranks).stuck.is_empty());
    says(&ranks, &["No deadlock: ranks 0,1 wait for rank 2"]);
}

#[test]
fn members_in_different_operations_are_named() {
    let bcast = ("MPI_Bcast", false, vec![node(16, Collective::Bcast, 8, Some(0))]);
    let allreduce = || ("MPI_Allreduce", false, vec![node(16, Collective::Allreduce, 8, None)]);
    let mut ranks = waiting(vec![allreduce(), allreduce(), bcast]);
    for rank in 0..3 {
        told_mut(&mut ranks, rank).comms[0].collectives_count = (0, 17);
    }
    sync(&mut ranks);
    assert_eq!(verdict(&ranks).stuck.len(), 3);
    says(
        &ranks,
        &[
            "members of MPI_COMM_WORLD are in different collective operations: ranks 0,1 are in MPI_Allreduce, the 17th on it; rank 2 is in MPI_Bcast, the 17th on it",
        ],
    );
}

#[test]
fn different_lengths_and_roots_are_named() {
    let with = |bytes, root| {
        let label = Label { collective: Collective::Bcast, bytes, root: Some(root) };
        let needs = vec![receive(1 - root, 0)];
        let state = CollectiveState { context: WORLD, number: 1, label: Some(label), needs };
        ("MPI_Bcast", false, vec![Need::Collective(state)])
    };
    says(
        &waiting(vec![with(8, 0), with(16, 0)]),
        &["give MPI_Bcast different lengths: rank 0 gives 8 bytes; rank 1 gives 16 bytes"],
    );
    says(
        &waiting(vec![with(8, 0), with(8, 1)]),
        &["name different roots for MPI_Bcast: rank 0 gives root 0; rank 1 gives root 1"],
    );
}

#[test]
fn a_message_with_one_other_criterion_is_a_near_miss() {
    let mut ranks =
        waiting(vec![("MPI_Recv", false, vec![receive(1, 5)]), ("MPI_Recv", false, vec![receive(0, 5)])]);
    let other = ContextId::new(ProcessId(0), 9);
    let message = UnexpectedMessage { context: other, source: ProcessId(1), tag: 5, bytes: 4, sender: None };
    told_mut(&mut ranks, 0).unexpected = Listed { count: 1, first: vec![message] };
    let message = UnexpectedMessage { context: WORLD, source: ProcessId(2), ..message };
    told_mut(&mut ranks, 1).unexpected = Listed { count: 1, first: vec![message] };
    sync(&mut ranks);
    says(
        &ranks,
        &[
            "rank 0 waits for that on MPI_COMM_WORLD",
            "rank 2 has sent rank 1 4 bytes with tag 5; rank 1 waits for that from rank 0",
        ],
    );
}

#[test]
fn a_rank_that_moves_between_two_looks_is_not_stuck() {
    let recv = |rank: u32, from| {
        let told = told(rank, 2, (0, 0), vec![blocked("MPI_Recv", false, vec![receive(from, 0)])]);
        RankReport {
            rank,
            pid: 1,
            status: 'S',
            stage: Stage::Present,
            call: Some("MPI_Recv".into()),
            calls_count: 7,
            is_moving: false,
            unchanged_ms: None,
            answer: Some(to_hex(&told.to_bytes())),
        }
    };
    let report = |ranks| vec![HostReport { host: "a".into(), ranks, problem: None }];
    let (before, mut after) = (report(vec![recv(0, 1), recv(1, 0)]), report(vec![recv(0, 1), recv(1, 0)]));
    let judged = |reports: Vec<HostReport>| verdict(&report::ranks(&reports, Some(2))).stuck.len();
    assert_eq!(judged(report::merge(&before, after.clone())), 2);
    after[0].ranks[1].calls_count = 8;
    assert_eq!(judged(report::merge(&before, after)), 0);
}

#[test]
fn unreported_ranks_are_unknown_and_may_do_anything() {
    let ranks = report::ranks(&[], Some(3));
    assert_eq!(ranks.len(), 3);
    assert!(verdict(&ranks).stuck.is_empty());
    let mut ranks =
        waiting(vec![("MPI_Recv", false, vec![receive(1, 0)]), ("MPI_Recv", false, vec![receive(0, 0)])]);
    ranks.insert(1, state(1, Activity::Unknown));
    assert!(verdict(&ranks).stuck.is_empty());
}

#[test]
fn many_ranks_that_do_the_same_share_a_line() {
    let ranks = waiting((0..64).map(|_| ("MPI_Recv", false, vec![receive(0, 1)])).collect());
    let (text, is_stuck) = show::text(&Heading::default(), &[], &ranks, false);
    assert!(is_stuck);
    assert!(text.contains("0-63  node7"), "{text}");
    assert!(text.contains("DEADLOCK"), "rank 0 waits for itself\n{text}");
}

#[test]
fn as_json_the_verdict_is_data() {
    let ranks =
        waiting(vec![("MPI_Recv", false, vec![receive(1, 5)]), ("MPI_Recv", false, vec![receive(0, 6)])]);
    let (text, is_stuck) = show::json(&Heading::default(), &[], &ranks);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(is_stuck);
    assert_eq!(value["cycles"], serde_json::json!([[0, 1]]));
    assert_eq!(value["ranks"][0]["waits_for"], "rank 1 (tag 5, MPI_COMM_WORLD)");
    assert_eq!(value["is_stuck"], true);
}

#[test]
fn program_names_stay_on_one_line_and_ranks_within_bounds() {
    let heading = Heading { program: "sh -c a\nb\x1b[2J".into(), ..Heading::default() };
    let ranks = waiting(vec![("MPI_Recv", false, vec![receive(0, 1)])]);
    let text = show::text(&heading, &[], &ranks, false).0;
    assert!(text.contains(": sh -c a b [2J ("), "{text}");
    assert!(super::report::ranks(&[], Some(u32::MAX)).len() <= 1 << 20);
}
