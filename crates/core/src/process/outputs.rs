//! Outputs: what waits to be sent and moved, when to call again, what happened.

use super::{Process, ProcessEvent};
use crate::device::Device;
use crate::link::LinkIndex;
use crate::time::Instant;
use crate::wire::Header;

/// Pieces of long messages that one round gives to rails that can break. To fill the windows of all rails takes milliseconds,
/// and what arrives meanwhile is to be answered before: a clear to send that is queued behind full windows keeps the other
/// direction idle for as long as they take to empty.
const PIECES_A_ROUND: u32 = 8;

impl Process {
    /// Whether [`poll_transmit`](Self::poll_transmit) has anything to do.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        self.has_output
    }

    /// Gives the device queued packets, owed credit and data to move, until it is full. Whether it took any.
    pub fn poll_transmit<D: Device>(&mut self, device: &mut D) -> bool {
        // Before all is read that came while this process was away, the silence of its peers says nothing of them.
        if self.trunks_due && self.catching_up == 0 {
            self.check_trunks(device);
        }
        let mut worked = !self.woken.is_empty() && self.advance_woken(device);
        for _ in 0..self.listed.len() {
            let Some(index) = self.listed.pop_front() else { break };
            let (took, empty) = self.flush_link(device, index);
            worked |= took;
            if empty {
                self.links.get_mut(index).listed = false;
            } else {
                self.listed.push_back(index);
            }
        }
        self.pieces_left = PIECES_A_ROUND;
        for _ in 0..self.moving.len() {
            let Some(id) = self.moving.pop_front() else { break };
            if self.move_on(device, id) {
                worked = true;
            } else {
                // All of them in turn: their order stays.
                self.moving.push_back(id);
                worked |= self.pieces_left == 0;
            }
        }
        // Else the next round goes on with what this one has begun.
        if self.pieces_left > 0 || self.moving.is_empty() {
            device.flush();
        }
        for (rail, key) in self.deregister.drain(..) {
            if self.registrations.release(rail, key) {
                device.deregister(rail, key);
            }
        }
        self.has_output =
            !self.listed.is_empty() || !self.moving.is_empty() || !self.woken.is_empty() || self.trunks_due;
        worked
    }

    /// Whether anything was taken, and whether nothing is left.
    fn flush_link<D: Device>(&mut self, device: &mut D, index: LinkIndex) -> (bool, bool) {
        let mut took = false;
        if let Some(trunk) = &mut self.links.get_mut(index).trunk {
            let (trunk_took, all) = trunk.flush(device, self.now);
            took = trunk_took;
            self.settle(index);
            if !all {
                return (took, false);
            }
        }
        loop {
            let link = self.links.get_mut(index);
            let Some(outgoing) = link.pending.pop_front() else { break };
            if !link.offer(device, self.now, &outgoing.header, &outgoing.payload) {
                link.pending.push_front(outgoing);
                return (took, false);
            }
            took = true;
            if let Some(id) = outgoing.request {
                self.complete(id, crate::request::Completion::EMPTY);
            }
        }
        let link = self.links.get_mut(index);
        if link.owes_much() && link.failed.is_none() {
            if !link.offer(device, self.now, &Header::Credit, &crate::buffer::Buffer::EMPTY) {
                return (took, false);
            }
            took = true;
        }
        (took, true)
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, and a round of progress after it; `None`: not at
    /// all. Looks at every link in trunk mode: for who is about to sleep. What waits only because the device is full is
    /// not counted: the device wakes who sleeps when it has room.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let deadline_of = |&index: &LinkIndex| {
            let link = self.links.get(index);
            link.trunk.as_ref().map(|trunk| trunk.deadline(link.listed))
        };
        let trunks = self.links.trunks().iter().filter_map(deadline_of);
        let deadline = trunks.chain(self.keepalive_due()).min()?;
        // Sooner nothing would be done: who sleeps until a time that is past would wake for nothing, again and again.
        (deadline < Instant::FAR_FUTURE).then_some(deadline.max(self.next_check))
    }

    /// What happened that concerns no single request.
    pub fn poll_event(&mut self) -> Option<ProcessEvent> {
        self.events.pop_front()
    }
}
