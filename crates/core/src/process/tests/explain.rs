//! Explanations of what processes wait for.

use super::net::{Net, memory};
use crate::buffer::Buffer;
use crate::coll;
use crate::comm::Communicator;
use crate::device::RailCapabilities;
use crate::explain::{LIST_MAX, Label, Need, PostedReceive, UnexpectedMessage};
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, RequestId, Source, TagSelector};
use crate::request::{Posted, SendMode};
use alloc::vec;

fn buffer(len: usize) -> Buffer {
    memory(vec![0; len]).0
}

fn pending(posted: Posted) -> RequestId {
    match posted {
        Posted::Pending(id) => id,
        Posted::Done(completion) => panic!("done at once: {completion:?}"),
    }
}

#[test]
fn explanation_names_a_waiting_receive_and_unexpected_message() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let (process, port) = &mut net.nodes[0];
    let receive = process
        .irecv(port, CommId::WORLD, buffer(8), Source::Rank(1), TagSelector::Tag(5))
        .map(pending)
        .unwrap();
    let (process, port) = &mut net.nodes[1];
    for (len, mode) in [(3, SendMode::Standard), (100_000, SendMode::Standard), (4, SendMode::Synchronous)] {
        let _ = process.isend(port, CommId::WORLD, buffer(len), 0, 6, mode).unwrap();
    }
    net.settle();
    let wanted =
        PostedReceive { context: ContextId::WORLD, source: Some(ProcessId(1)), tag: Some(5), bytes: 8 };
    let [receiver, sender] = &net.nodes[..] else { panic!("two") };
    assert_eq!(receiver.0.need(receive), Need::Message(wanted));
    let told = receiver.0.explain();
    assert_eq!(told.posted.first, [wanted]);
    let there: vec::Vec<_> = told.unexpected.first.iter().map(|m| (m.bytes, m.sender.is_some())).collect();
    assert_eq!(there, [(3, false), (100_000, true), (4, true)]);
    for UnexpectedMessage { source, tag, sender: request, bytes, .. } in told.unexpected.first {
        assert_eq!((source, tag), (ProcessId(1), 6));
        if let Some(request) = request {
            assert_eq!(sender.0.need(request), Need::Match { to: ProcessId(0), request, bytes });
        }
    }
    // Nothing is under way, and both say so.
    let (to, from) = (&told.links[0], &sender.0.explain().links[0]);
    assert_eq!((to.received_count, from.received_count), (from.sent_count, to.sent_count));
    assert_eq!((to.peer, from.peer), (ProcessId(1), ProcessId(0)));
    let sums = [sender, receiver].map(|node| node.0.packet_counts());
    assert_eq!(sums, [[3, 0, 0], [0, 3, 0]]);
    net.shared.borrow_mut().full_one_in = 1;
    let (process, port) = &mut net.nodes[1];
    for _ in 0..2 {
        let _ = process.isend(port, CommId::WORLD, buffer(4), 0, 6, SendMode::Standard).unwrap();
    }
    assert_eq!(process.packet_counts(), [3, 0, 2]);
}

#[test]
fn explanation_names_the_collective_and_the_ranks_it_awaits() {
    let mut net = Net::new(3, 1, RailCapabilities::default());
    let label = Label { collective: coll::Collective::Barrier, bytes: 0, root: None };
    let (process, port) = &mut net.nodes[0];
    let at = coll::Context { rank: 0, size: 3 };
    let choice = coll::Choice { algorithm: coll::Algorithm::Dissemination, segment_bytes: 0 };
    let mut schedule = coll::barrier(process.schedule_pool(), at, choice).unwrap();
    schedule.set_label(label);
    let id = process.collectives().start(port, CommId::WORLD, schedule).map(pending).unwrap();
    net.settle();
    let process = &net.nodes[0].0;
    let Need::Collective(state) = process.need(id) else { panic!("{:?}", process.need(id)) };
    assert_eq!((state.context, state.number, state.label), (ContextId::WORLD, 0, Some(label)));
    let [Need::Message(wanted)] = state.needs[..] else { panic!("{:?}", state.needs) };
    assert_eq!(wanted.source, Some(ProcessId(2)));
    let told = process.explain();
    assert_eq!(told.posted.count, 0, "messages of collective operations are not the user's");
    assert_eq!(told.comms[0].collectives_count, (1, 0));
    assert_eq!(told.comms[0].members, [(0, 2)]);
}

#[test]
fn what_is_over_needs_nothing_and_a_direct_receive_is_told() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let (process, port) = &mut net.nodes[0];
    assert_eq!(process.need(RequestId { index: 9, generation: 9 }), Need::Nothing);
    assert_eq!(process.need_of_direct(), None);
    let begun = process.receive_direct(port, CommId::WORLD, buffer(4), Source::Any, TagSelector::Any);
    assert_eq!(begun, Ok(false));
    let wanted = PostedReceive { context: ContextId::WORLD, source: None, tag: None, bytes: 4 };
    assert_eq!(process.need_of_direct(), Some(Need::Message(wanted)));
    assert_eq!(process.explain().posted.first, [wanted]);
    assert_eq!(process.need_of_probe(CommId::WORLD, Source::Any, TagSelector::Any), {
        Need::Message(PostedReceive { bytes: 0, ..wanted })
    });
    let (process, port) = &mut net.nodes[1];
    let _ = process.isend(port, CommId::WORLD, buffer(4), 0, 1, SendMode::Standard).unwrap();
    net.settle();
    assert_eq!(net.nodes[0].0.need_of_direct(), Some(Need::Nothing));
}

#[test]
fn an_explanation_has_some_communicators_and_other_needs() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let (process, port) = &mut net.nodes[0];
    for number in 0..2 * LIST_MAX as u32 {
        process.add_comm(Communicator::new(ContextId::new(ProcessId(0), 9 + number), Group::world(2), 0));
    }
    assert_eq!(process.explain().comms.len(), 2 * LIST_MAX);
    let agreed = process.survivors().iagree(CommId::WORLD, 1, buffer(4)).map(pending).unwrap();
    assert_eq!(process.need(agreed), Need::Other("its next step".into()));
    net.shared.borrow_mut().full_one_in = 1;
    let sent = process.isend(port, CommId::WORLD, buffer(4), 1, 6, SendMode::Standard).map(pending).unwrap();
    assert_eq!(process.need(sent), Need::Progress { peer: ProcessId(1) });
}
