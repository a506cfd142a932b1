use super::*;
use crate::coll::Collective;
use alloc::vec;

fn slow_rail() -> SlowRail {
    SlowRail {
        peer: ProcessId(5),
        rail: 1,
        bytes_per_s: 9,
        round_trip_ns: 7,
        best: 2,
        best_bytes_per_s: 1 << 33,
    }
}

fn snapshot() -> Snapshot {
    let wanted = PostedReceive { context: ContextId(4), source: Some(ProcessId(1)), tag: None, bytes: 8 };
    let label = Label { collective: Collective::Exscan, bytes: 9, root: None };
    let request = RequestId { index: 3, generation: 2 };
    let needs = vec![
        Need::Nothing,
        Need::Message(wanted),
        Need::Match { to: ProcessId(3), request, bytes: 1 << 40 },
        Need::Progress { peer: ProcessId(2) },
        Need::Node(NodeState { context: ContextId(1), number: 7, label, awaited: Some(ProcessId(0)) }),
        Need::Lock(LockState {
            context: ContextId(4),
            name: "halo".into(),
            target: ProcessId(3),
            is_exclusive: true,
            holder: None,
            holders_count: 2,
        }),
        Need::Other("the launcher".into()),
    ];
    let collective =
        CollectiveState { context: ContextId(0), number: -1, label: Some(label), needs: needs.clone() };
    let mut all = needs;
    all.push(Need::Collective(collective));
    let mut posted = Listed::default();
    (0..LIST_MAX + 3).for_each(|_| posted.push(wanted));
    let link = LinkState {
        peer: ProcessId(5),
        sent_count: 1,
        received_count: 2,
        queued_count: 0,
        has_failed: true,
        rails: vec![(1, Health::Silent), (2, Health::Down)],
    };
    let comm = CommState {
        context: ContextId::WORLD,
        members: vec![(0, 3), (5, 5)],
        collectives_count: (3, 4),
        name: "MPI_COMM_WORLD".into(),
    };
    let message =
        UnexpectedMessage { context: ContextId(4), source: ProcessId(1), tag: -3, bytes: 4, sender: None };
    Snapshot {
        state: Explanation {
            process: 2,
            comms: vec![comm],
            posted,
            unexpected: Listed { count: 1, first: vec![message] },
            links: vec![link],
            slow_rails: Listed { count: 1, first: vec![slow_rail()] },
            held: vec![HeldLock { context: ContextId(4), target: Some(ProcessId(3)) }],
        },
        blocked: vec![Blocked {
            thread: 77,
            call: "MPI_Waitany".into(),
            waited_ms: 5,
            is_any: true,
            needs: all,
        }],
        is_threaded: true,
        rail_names: vec!["shm".into()],
    }
}

#[test]
fn snapshot_round_trips_and_any_other_length_is_refused() {
    let bytes = snapshot().to_bytes();
    assert_eq!(Snapshot::from_bytes(&bytes), Some(snapshot()));
    for cut in 0..bytes.len() {
        assert_eq!(Snapshot::from_bytes(&bytes[..cut]), None, "{cut} of {}", bytes.len());
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(Snapshot::from_bytes(&longer), None);
}

#[test]
fn any_changed_byte_is_another_snapshot_or_none_and_no_panic() {
    let bytes = snapshot().to_bytes();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert_ne!(Snapshot::from_bytes(&changed), Some(snapshot()));
        }
    }
}

#[test]
fn nested_collectives_are_refused_before_they_are_read() {
    let of = |needs| {
        let state = CollectiveState { context: ContextId(4), number: 1, label: None, needs };
        Need::Collective(state)
    };
    let one = of(vec![Need::Progress { peer: ProcessId(2) }]);
    assert_eq!(Need::from_bytes(&one.to_bytes()), Some(one.clone()));
    assert_eq!(Need::from_bytes(&of(vec![one]).to_bytes()), None);
    // Reading each level in the one outside would take more stack than a thread has.
    let level = of(vec![Need::Nothing]).to_bytes();
    let mut bytes = level[..level.len() - 1].repeat(1_000_000);
    bytes.push(0);
    assert_eq!(Need::from_bytes(&bytes), None);
}

#[test]
fn a_list_keeps_its_beginning_and_its_length() {
    let posted = snapshot().state.posted;
    assert_eq!((posted.count, posted.first.len()), (LIST_MAX as u64 + 3, LIST_MAX));
    assert!(posted.is_cut());
    let mut list = Listed::default();
    (0..LIST_MAX).for_each(|value| list.push(value));
    assert!(!list.is_cut(), "it is all there");
    list.push(0);
    assert!(list.is_cut());
}

#[test]
fn ranges_join_neighbours_in_any_order() {
    assert_eq!(ranges(vec![3, 1, 2, 7, 5, 8]), [(1, 3), (5, 5), (7, 8)]);
    assert_eq!(ranges(vec![]), []);
    assert_eq!(ranges(vec![u32::MAX]), [(u32::MAX, u32::MAX)]);
}
