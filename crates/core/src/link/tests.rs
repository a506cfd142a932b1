//! Links and their credit.

use super::*;
use crate::buffer::Buffer;
use crate::device::Fetched;
use crate::ids::{CommId, Source, TagSelector};
use crate::process::tests::fronts::Fronts;
use crate::process::tests::net::Net;
use crate::process::{Config, Process};
use crate::request::{Posted, SendMode};

fn links(first: u32) -> Links {
    Links::new([ProcessId(first); 2], TrunkConfig::default(), None)
}

fn send(net: &mut Net, from: usize) -> Result<Posted, Error> {
    let (process, port) = &mut net.nodes[from];
    process.isend(port, CommId::WORLD, Buffer::leaked(1_000), 1 - from as u32, 0, SendMode::Standard)
}

/// The link of one of two processes, which have talked.
fn link(net: &mut Net, of: usize) -> &Link {
    let links = &net.nodes[of].0.messages().links;
    links.get(links.index_of(ProcessId(1 - of as u32)).expect("they have talked"))
}

#[test]
fn nothing_is_eager_without_rails() {
    assert_eq!(eager_bytes_max([].iter(), None), 0);
    assert_eq!(eager_bytes_max([].iter(), Some(100)), 0);
}

#[test]
fn eager_message_is_at_most_half_of_the_unacknowledged_bytes() {
    let long = RailCapabilities { packet_bytes_max: 1 << 30, ..RailCapabilities::default() };
    assert_eq!(eager_bytes_max([long; 1].iter(), Some(1 << 29)), 1 << 29, "it needs no acknowledgement");
    assert_eq!(eager_bytes_max([long; 2].iter(), Some(1 << 29)), stream::STREAM_BYTES_MAX / 2);
    assert_eq!(eager_bytes_max([long; 2].iter(), Some(1000)), 1000);
    // A long packet may be an eager message, over one rail that may break as over one that may not.
    let both = |packet_bytes_max, long_packet_bytes_max, may_break| {
        let default = RailCapabilities { eager_bytes_max: 9_000, ..RailCapabilities::default() };
        let rail = RailCapabilities { packet_bytes_max, long_packet_bytes_max, may_break, ..default };
        eager_bytes_max([rail].iter(), None)
    };
    assert_eq!([both(8_000, 0, true), both(8_000, 20_000, true)], [8_000 - 32 - TRUNK_PREFIX_BYTES, 9_000]);
    assert_eq!([both(8_000, 0, false), both(8_000, 20_000, false)], [8_000 - 32, 9_000]);
}

#[test]
fn credit_is_for_four_of_the_longest_messages() {
    let of = |packet_bytes_max, may_break| {
        credit_cells([RailCapabilities { packet_bytes_max, may_break, ..RailCapabilities::default() }].iter())
    };
    assert_eq!([8 << 10, 32 << 10].map(|most| of(most, false)), [CREDIT_CELLS; 2]);
    assert_eq!(of((128 << 10) + EAGER_HEADER_BYTES, false), 4 * cells_of(128 << 10));
    assert_eq!(of(1 << 30, false), u32::from(u16::MAX), "a packet returns all of it");
    assert_eq!(of(1 << 30, true), TRUNK_CREDIT_CELLS);
}

#[test]
fn credit_that_a_full_device_refused_is_returned_later() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    for _ in 0..CREDIT_CELLS / 4 / cells_of(1_000) + 1 {
        let (process, port) = &mut net.nodes[1];
        let (source, tag) = (Source::Rank(0), TagSelector::Any);
        assert!(process.irecv(port, CommId::WORLD, Buffer::leaked(1_000), source, tag).is_ok());
        assert!(matches!(send(&mut net, 0), Ok(Posted::Done(_))), "it has credit");
        net.shared.borrow_mut().full_one_in = 1;
        net.progress(1, u32::MAX);
        net.shared.borrow_mut().full_one_in = 0;
    }
    assert!(link(&mut net, 1).owed >= CREDIT_CELLS / 4);
    assert!(net.progress(1, 0), "it takes the credit now");
    assert_eq!(link(&mut net, 1).owed, 0);
    assert!(!net.progress(1, 0), "once");
    net.progress(0, u32::MAX);
    assert_eq!(link(&mut net, 0).credits, CREDIT_CELLS);
}

#[test]
fn a_link_fails_for_good_once() {
    let mut links = links(0);
    let net = Net::of_short_packets(2, 0);
    let index = links.to(&net.nodes[0].1, ProcessId(1));
    let aborted = Error::ProcessAborted(ProcessId(1));
    assert!(links.fail(index, Error::Unreachable(ProcessId(1))), "it may turn out to be gone");
    assert!(links.fail(index, aborted));
    assert!(!links.fail(index, aborted));
    assert_eq!(links.get(index).failed, Some(aborted));
    assert!(links.have_failed());
}

#[test]
fn links_of_near_and_far_processes_are_found_and_no_others() {
    let first = 1 << 20;
    let mut links = links(first);
    let near_max = NEAR_MAX as u32;
    let peers = [first, first + 64, first + near_max + 1, first + near_max, first - 1, 0, (1 << 31) - 1];
    for (index, peer) in peers.into_iter().enumerate() {
        assert_eq!(links.index_of(ProcessId(peer)), None);
        links.note_index(ProcessId(peer), index as LinkIndex);
    }
    for (index, peer) in peers.into_iter().enumerate() {
        assert_eq!(links.index_of(ProcessId(peer)), Some(index as LinkIndex));
    }
    assert_eq!(links.index_of(ProcessId(first + 1)), None);
    assert_eq!(links.index_of(ProcessId(first - 2)), None);
}

#[test]
fn an_eager_message_may_use_all_the_credit_there_is() {
    let net = Net::new(2, 1, RailCapabilities::default());
    let mut links = links(0);
    let index = links.to(&net.nodes[0].1, ProcessId(1));
    let link = links.get_mut(index);
    for (credits, is_enough) in [(3, true), (2, false)] {
        link.credits = credits;
        assert_eq!([link.allows_eager(128), link.allows_longer_eager(128, false)], [is_enough; 2]);
    }
}

#[test]
fn packets_are_counted_beyond_the_numbers_that_they_have() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    assert!(send(&mut net, 0).is_ok());
    net.settle();
    let before = u64::from(u32::MAX);
    for (process, _) in &mut net.nodes {
        let links = &mut process.messages().links;
        let index = (0..2).find_map(|peer| links.index_of(ProcessId(peer))).expect("they have talked");
        (links.get_mut(index).sent_count, links.get_mut(index).received_count) = (before, before);
    }
    for _ in 0..3 {
        assert!(matches!(send(&mut net, 0), Ok(Posted::Done(_))));
        net.settle();
    }
    let counts: Vec<[u64; 3]> = net.nodes.iter().map(|node| node.0.packet_counts()).collect();
    assert_eq!((counts[0][0], counts[1][1]), (before + 3, before + 3));
    assert_eq!(link(&mut net, 0).failed(), None);
}

#[test]
fn a_peer_that_is_lost_is_sent_and_heard_nothing_more() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    net.shared.borrow_mut().full_one_in = 1;
    assert!(matches!(send(&mut net, 0), Ok(Posted::Pending(_))), "the device takes none yet");
    net.shared.borrow_mut().full_one_in = 0;
    assert!(matches!(send(&mut net, 1), Ok(Posted::Done(_))));
    let (process, port) = &mut net.nodes[0];
    process.handle_peer_gone(port, ProcessId(1));
    let before = process.packet_counts();
    net.settle();
    let process = &mut net.nodes[0].0;
    assert_eq!(process.packet_counts(), before);
    let found = process.iprobe(CommId::WORLD, Source::Rank(1), TagSelector::Any);
    assert_eq!(found, Err(Error::ProcessAborted(ProcessId(1))));
}

#[test]
fn nobody_waits_for_a_peer_that_no_rail_reaches() {
    let mut nowhere = Fronts::new(Vec::new(), Vec::new(), Fetched::Lost);
    assert!(!nowhere.is_waiting(ProcessId(1)), "a device that says nothing of it");
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    let unreachable = Error::Unreachable(ProcessId(1));
    let sent = process.isend(&mut nowhere, CommId::WORLD, Buffer::leaked(9), 1, 0, SendMode::Standard);
    assert_eq!(sent.map(drop), Err(unreachable));
    assert!(nowhere.sent.is_empty());
    let found = process.iprobe(CommId::WORLD, Source::Rank(1), TagSelector::Any);
    assert_eq!(found, Err(unreachable));
}
