//! How many announced messages (RTS) may wait unmatched at their receiver.
//!
//! Each costs the receiver memory, and unlike eager data it needs no credit. So a receiver keeps at most
//! [`ANNOUNCEMENTS_MAX`] of a peer: a peer that sends more misbehaves. A correct sender has no more announced
//! and unanswered, and holds further ones back; while it does, every later message is an announcement, too,
//! and waits behind them, so order stays. A program notices if it has more sends than that under way to one
//! process and the receiver wants a later one first.

use super::{LinkIndex, Links};
use crate::data::Data;
use crate::device::Device;
use crate::error::Blame;
use crate::ids::RequestId;
use crate::wire::Header;
use alloc::collections::VecDeque;

/// Announcements of one peer that may wait unmatched: about 300 MB of memory.
#[cfg(not(test))]
const ANNOUNCEMENTS_MAX: u32 = 1 << 20;
#[cfg(test)]
pub(crate) const ANNOUNCEMENTS_MAX: u32 = 1 << 10;

/// State of one link's announced messages.
#[derive(Default)]
pub(super) struct Announcements {
    /// Ours that are sent, or queued, and not answered.
    unanswered: u32,
    /// The peer's that wait unmatched here.
    unmatched: u32,
    held_back: VecDeque<Header>,
}

impl Links {
    /// Announces a message, as soon as that may be done.
    pub(crate) fn announce<D: Device>(&mut self, device: &mut D, index: LinkIndex, header: Header) {
        let link = self.get_mut(index);
        if link.announcements.unanswered < ANNOUNCEMENTS_MAX && link.announcements.held_back.is_empty() {
            link.announcements.unanswered += 1;
            self.offer_or_queue(device, index, header, Data::EMPTY);
            return;
        }
        link.eager_bytes_end = 0;
        link.announcements.held_back.push_back(header);
    }

    /// The peer has answered an announcement, or it is withdrawn: the next one may go.
    pub(crate) fn answered(&mut self, index: LinkIndex) {
        let link = self.get_mut(index);
        let announcements = &mut link.announcements;
        announcements.unanswered = announcements.unanswered.saturating_sub(1);
        if let Some(next) = announcements.held_back.pop_front() {
            announcements.unanswered += 1;
            self.end_holding_back(index);
            self.queue_control(index, next);
        }
    }

    /// Takes back an announcement that is held back. `false`: it has left.
    pub(crate) fn take_back(&mut self, index: LinkIndex, sender: RequestId) -> bool {
        let held_back = &mut self.get_mut(index).announcements.held_back;
        let is_it = |header: &Header| matches!(header, Header::Rts { sender: by, .. } if *by == sender);
        let Some(at) = held_back.iter().position(is_it) else { return false };
        held_back.remove(at);
        self.end_holding_back(index);
        true
    }

    fn end_holding_back(&mut self, index: LinkIndex) {
        let link = self.get_mut(index);
        if link.announcements.held_back.is_empty() {
            link.eager_bytes_end = link.short_bytes_end();
        }
    }

    /// An announcement of the peer waits unmatched.
    pub(crate) fn keep_announcement(&mut self, index: LinkIndex) -> Result<(), Blame> {
        let unmatched = &mut self.get_mut(index).announcements.unmatched;
        *unmatched += 1;
        if *unmatched > ANNOUNCEMENTS_MAX {
            return Err(Blame("more messages announced than may wait unmatched"));
        }
        Ok(())
    }

    /// One that waited is matched, or withdrawn.
    pub(crate) fn forget_announcement(&mut self, index: LinkIndex) {
        let unmatched = &mut self.get_mut(index).announcements.unmatched;
        *unmatched = unmatched.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::ids::{CommId, ProcessId, Source, TagSelector};
    use crate::link::Link;
    use crate::process::tests::net::Net;
    use crate::request::{Posted, SendMode};
    use alloc::vec::Vec;

    /// A process that has begun so many long messages to another one, which has not seen them.
    fn begun(count: u32) -> (Net, Vec<RequestId>) {
        let mut net = Net::of_short_packets(2, 0);
        let requests = (0..count).map(|_| begin(&mut net)).collect();
        (net, requests)
    }

    fn begin(net: &mut Net) -> RequestId {
        let (process, port) = &mut net.nodes[0];
        let long = Buffer::leaked(200);
        match process.isend(port, CommId::WORLD, long, 1, 0, SendMode::Standard) {
            Ok(Posted::Pending(id)) => id,
            posted => panic!("{posted:?}"),
        }
    }

    fn link(net: &mut Net) -> &Link {
        let links = &net.nodes[0].0.messages().links;
        links.get(links.index_of(ProcessId(1)).expect("they have talked"))
    }

    /// Announcements that are not answered, those held back, and whether short messages go eagerly.
    fn state(net: &mut Net) -> (u32, usize, bool) {
        let Link { announcements, eager_bytes_end, .. } = link(net);
        (announcements.unanswered, announcements.held_back.len(), *eager_bytes_end > 0)
    }

    #[test]
    fn announcements_beyond_the_bound_wait_for_answers() {
        let most = ANNOUNCEMENTS_MAX;
        let (mut net, _) = begun(most);
        assert_eq!(state(&mut net), (most, 0, true));
        begin(&mut net);
        begin(&mut net);
        assert_eq!(state(&mut net), (most, 2, false), "later messages stay behind these");
        for left in [(most, 1, false), (most, 0, true), (most - 1, 0, true)] {
            let (process, port) = &mut net.nodes[1];
            let into = Buffer::leaked(200);
            assert!(process.irecv(port, CommId::WORLD, into, Source::Rank(0), TagSelector::Tag(0)).is_ok());
            net.settle();
            assert_eq!(state(&mut net), left, "one is answered");
        }
    }

    #[test]
    fn an_announcement_that_is_cancelled_makes_way() {
        let most = ANNOUNCEMENTS_MAX;
        let (mut net, requests) = begun(most + 2);
        for (cancelled, left) in [(most, (most, 1, false)), (most + 1, (most, 0, true))] {
            let (process, port) = &mut net.nodes[0];
            process.cancel(port, requests[cancelled as usize]).unwrap();
            assert_eq!(state(&mut net), left);
        }
        // One that has left is over when its receiver says so.
        let (process, port) = &mut net.nodes[0];
        process.cancel(port, requests[0]).unwrap();
        assert_eq!(state(&mut net), (most, 0, true));
        net.settle();
        assert_eq!(state(&mut net), (most - 1, 0, true));
    }

    #[test]
    fn a_peer_that_is_lost_gets_nothing_more() {
        let (mut net, requests) = begun(ANNOUNCEMENTS_MAX + 5);
        net.shared.borrow_mut().full_one_in = 1;
        let waits = begin(&mut net);
        let (process, port) = &mut net.nodes[0];
        process.handle_peer_gone(port, ProcessId(1));
        assert!(requests.into_iter().chain([waits]).all(|id| process.is_complete(id)));
        let before = process.packet_counts();
        net.shared.borrow_mut().full_one_in = 0;
        net.settle();
        assert_eq!(net.nodes[0].0.packet_counts(), before);
        assert_eq!(link(&mut net).announcements.unanswered, 0);
        let (process, port) = &mut net.nodes[0];
        let lost = crate::error::Error::ProcessAborted(ProcessId(1));
        assert!(!process.send_at_once(port, CommId::WORLD, Buffer::EMPTY, 1, 0));
        let sent = process.isend(port, CommId::WORLD, Buffer::EMPTY, 1, 0, SendMode::Standard);
        assert_eq!(sent, Err(lost));
    }

    #[test]
    fn announcements_that_are_cancelled_do_not_add_up() {
        let (mut net, _) = begun(0);
        for number in 0..=ANNOUNCEMENTS_MAX {
            let request = begin(&mut net);
            net.settle();
            let (process, port) = &mut net.nodes[0];
            process.cancel(port, request).unwrap();
            net.settle();
            let ended = net.nodes[0].0.take(request).unwrap().expect("nobody receives it");
            assert!(ended.status.cancelled, "{number}");
            assert_eq!(net.nodes[1].0.poll_event(), None, "{number}");
        }
    }
}
