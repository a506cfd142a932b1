//! Gaps and registrations, as the device sees them.

use super::net::memory;
use super::wire::{Line, Wire, tcp};
use crate::buffer::Buffer;
use crate::device::{Gap, RailCapabilities};
use crate::ids::{CommId, ContextId, ProcessId, Rail, Source, TagSelector};
use crate::process::{Config, GapRule};
use crate::request::{Posted, SendMode};
use crate::time::Duration;
use alloc::vec;
use alloc::vec::Vec;

fn gap(milli_packets: u32) -> Gap {
    Gap { milli_packets }
}

/// The gaps set at the sender's device since the last call.
fn told(wire: &Wire) -> Vec<(Rail, Gap)> {
    core::mem::take(&mut wire.shared.borrow_mut().gaps)
}

/// Sends a message from 0 to 1, with a gap of its own or not, and lets it arrive.
fn send(wire: &mut Wire, buffer: Buffer, own: Option<Gap>) {
    let (process, port) = &mut wire.nodes[0];
    let standard = SendMode::Standard;
    let sent = match own {
        Some(gap) => process.isend_paced(port, CommId::WORLD, buffer, 1, 7, standard, gap),
        None => process.isend(port, CommId::WORLD, buffer, 1, 7, standard),
    };
    let received = wire.receive(1, Buffer::virtual_of(buffer.len()), 7);
    wire.run_until(wire.now() + Duration::from_s(2));
    for (at, posted) in [(0, sent.unwrap()), (1, received)] {
        if let Posted::Pending(id) = posted {
            assert_eq!(wire.take(at, id).expect("arrived").error, None);
        }
    }
}

#[test]
fn a_gap_comes_from_the_message_or_its_communicator_or_the_rule() {
    let rails = [RailCapabilities { put: true, may_break: false, ..tcp() }, tcp()];
    for (rail, lines) in [(rails[0], 1), (rails[0], 2), (rails[1], 2)] {
        // The device does not know how many hops there are.
        let rule = GapRule { base: gap(500), per_hop: gap(30), ..GapRule::default() };
        let config = Config { gap: rule, ..Config::default() };
        let mut wire = Wire::with(vec![Line::mbit(1000); lines], rail, config, 1);
        let long = Buffer::virtual_of(1 << 20);
        let all = |gap| (0..lines as u8).map(|rail| (Rail(rail), gap)).collect::<Vec<_>>();
        send(&mut wire, Buffer::virtual_of(8), Some(gap(9)));
        assert_eq!(told(&wire), [], "a short message has none");
        send(&mut wire, long, None);
        assert_eq!(told(&wire), all(gap(500)));
        send(&mut wire, long, None);
        assert_eq!(told(&wire), [], "no news");
        send(&mut wire, long, Some(gap(2000)));
        assert_eq!(told(&wire), all(gap(2000)));
        wire.nodes[0].0.set_comm_gap(CommId::WORLD, Some(gap(100))).unwrap();
        assert_eq!(wire.nodes[0].0.comm_gap(CommId::WORLD), Ok(Some(gap(100))));
        send(&mut wire, long, None);
        assert_eq!(told(&wire), all(gap(100)));
        send(&mut wire, long, Some(Gap::NONE));
        assert_eq!(told(&wire), all(Gap::NONE));
        wire.nodes[0].0.set_comm_gap(CommId::WORLD, None).unwrap();
        send(&mut wire, long, None);
        assert_eq!(told(&wire), all(gap(500)));
    }
}

#[test]
fn a_communicators_gap_is_its_collectives_as_well_and_no_others() {
    let mut wire = Wire::new(vec![Line::mbit(1000)], 1);
    let (process, port) = &mut wire.nodes[0];
    process.set_comm_gap(CommId::WORLD, Some(gap(7))).unwrap();
    let of = |context| process.messages.gaps.of(port, ProcessId(1), context);
    assert_eq!(of(ContextId::WORLD.collective()), gap(7));
    assert_eq!(of(ContextId::new(ProcessId(0), 5)), Gap::NONE);
    let (copy, _) = process.collectives().icomm_dup(port, CommId::SELF).unwrap();
    let context = process.comm(copy).unwrap().context();
    process.set_comm_gap(copy, Some(gap(9))).unwrap();
    assert_eq!(process.messages.gaps.of(port, ProcessId(1), context), gap(9));
    process.free_comm(copy).unwrap();
    assert_eq!(process.messages.gaps.of(port, ProcessId(1), context), Gap::NONE);
}

#[test]
fn a_gap_for_a_communicator_that_came_to_nothing_is_forgotten() {
    let mut wire = Wire::new(vec![Line::mbit(1000)], 1);
    let (process, port) = &mut wire.nodes[0];
    // Without a color nothing comes of a split, and of COMM_SELF it is over at once.
    let (none, posted) = process.collectives().icomm_split(port, CommId::SELF, None, 0).unwrap();
    assert!(matches!(posted, Posted::Done(_)));
    process.set_comm_gap_early(none, gap(7));
    let (next, _) = process.collectives().icomm_dup(port, CommId::SELF).unwrap();
    assert_eq!((next, process.comm_gap(next)), (none, Ok(None)));
}

#[test]
fn memory_is_registered_once_until_it_is_unmapped() {
    for (keep, lines, want) in [(8, 2, 2), (8, 1, 1), (0, 2, 20)] {
        let rail = RailCapabilities { put: true, may_break: false, ..tcp() };
        let config = Config { registrations_count_max: keep, ..Config::default() };
        let mut wire = Wire::with(vec![Line::mbit(1000); lines], rail, config, 1);
        let (room, bytes) = memory(vec![0; 300_000]);
        let receive = |wire: &mut Wire, byte: u8| {
            let (data, _) = memory(vec![byte; 300_000]);
            let (process, port) = &mut wire.nodes[1];
            let any = (Source::Any, TagSelector::Any);
            let received = process.irecv(port, CommId::WORLD, room, any.0, any.1).unwrap();
            let sent = wire.send(0, data, 1);
            wire.run_until(wire.now() + Duration::from_ms(200));
            for (at, posted) in [(0, sent), (1, received)] {
                let Posted::Pending(id) = posted else { panic!() };
                assert_eq!(wire.take(at, id).expect("arrived").error, None);
            }
        };
        for byte in 1..=10 {
            receive(&mut wire, byte);
        }
        assert_eq!(wire.shared.borrow().registrations, want);
        assert_eq!(wire.registered_count(), if keep > 0 { lines } else { 0 });
        let (process, port) = &mut wire.nodes[1];
        process.invalidate_memory(port, room.as_ptr().unwrap() as usize + 4096, 1);
        assert_eq!(wire.registered_count(), 0);
        receive(&mut wire, 11);
        assert_eq!(wire.shared.borrow().registrations, want + if keep > 0 { want } else { 2 });
        assert!(bytes.iter().all(|byte| *byte == 11));
    }
}
