//! Pacing: how long rails stay silent after each packet of a message's data (P4).
//!
//! The gap is a property of a message: given with it, or else its communicator's, or else by rule from the number of
//! hops (the paper's future work, "MOD pacing"). The device is told before the data moves
//! ([`Device::set_gap`]), and only when the gap is another than the last to that peer: with no gaps it is never called.
//! Messages that go eagerly are one packet, and have no gap of their own.

use super::{CommSlot, Process};
use crate::device::{Device, Gap};
use crate::error::Error;
use crate::ids::{CommId, ContextId, ProcessId, Rank, Tag};
use crate::request::{Posted, SendMode};
use crate::transfer;

/// The gap of messages that say nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GapRule {
    /// For every message.
    pub base: Gap,
    /// As much more for each hop between switches on the way ([`Device::hops`]).
    pub per_hop: Gap,
    /// So many hops add nothing.
    pub free_hop_count: u32,
}

impl GapRule {
    /// The gap of a message that goes over so many hops.
    pub fn gap(&self, hop_count: u32) -> Gap {
        let more = self.per_hop.milli_packets.saturating_mul(hop_count.saturating_sub(self.free_hop_count));
        Gap { milli_packets: self.base.milli_packets.saturating_add(more) }
    }
}

impl Process {
    /// Sends as [`isend`](Self::isend), with a gap of this message's own.
    #[expect(clippy::too_many_arguments, reason = "a send has as many")]
    pub fn isend_paced<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        source: impl Into<transfer::Source>,
        dest: Rank,
        tag: Tag,
        mode: SendMode,
        gap: Gap,
    ) -> Result<Posted, Error> {
        self.message_gap = Some(gap);
        let posted = self.isend(device, comm, source, dest, tag, mode);
        self.message_gap = None;
        posted
    }

    /// Sets the gap of a communicator's messages from here on; `None`: as the rule says.
    pub fn set_comm_gap(&mut self, comm: CommId, gap: Option<Gap>) -> Result<(), Error> {
        let context = self.comm(comm)?.context();
        self.forget_comm_gap(context);
        self.comm_gaps.extend(gap.map(|gap| (context, gap)));
        Ok(())
    }

    /// The same of a communicator that may still be being made, for when it is.
    pub fn set_comm_gap_early(&mut self, comm: CommId, gap: Gap) {
        if let Some(CommSlot::Reserved) = self.comms.get(comm.0 as usize) {
            self.early_gaps.retain(|entry| entry.0 != comm);
            self.early_gaps.push((comm, gap));
        } else {
            // An error: its making has failed already. The next one of this id is another.
            let _ = self.set_comm_gap(comm, Some(gap));
        }
    }

    /// A communicator has been made, or will not be.
    pub(super) fn settle_early_gap(&mut self, comm: CommId) {
        if let Some(at) = self.early_gaps.iter().position(|entry| entry.0 == comm) {
            let (comm, gap) = self.early_gaps.swap_remove(at);
            // An error: there is no communicator, nor will be.
            let _ = self.set_comm_gap(comm, Some(gap));
        }
    }

    /// The gap set of a communicator's messages.
    pub fn comm_gap(&self, comm: CommId) -> Result<Option<Gap>, Error> {
        let context = self.comm(comm)?.context();
        Ok(self.comm_gaps.iter().find(|entry| entry.0 == context).map(|entry| entry.1))
    }

    pub(super) fn forget_comm_gap(&mut self, context: ContextId) {
        self.comm_gaps.retain(|entry| entry.0 != context);
    }

    /// The gap of a message to `peer` on a context, point-to-point or collective.
    pub(super) fn gap_of<D: Device>(&self, device: &D, peer: ProcessId, context: ContextId) -> Gap {
        let of_comm = || self.comm_gaps.iter().find(|entry| entry.0.collective() == context.collective());
        let rule = &self.config.gap;
        match self.message_gap.or_else(|| of_comm().map(|entry| entry.1)) {
            Some(gap) => gap,
            None if rule.per_hop == Gap::NONE => rule.base,
            None => rule.gap(device.hops(peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_adds_a_gap_a_hop_and_does_not_overflow() {
        let gap = |milli_packets| Gap { milli_packets };
        let rule = GapRule { base: gap(500), per_hop: gap(250), free_hop_count: 0 };
        assert_eq!([0, 1, 4].map(|hops| rule.gap(hops)), [gap(500), gap(750), gap(1500)]);
        assert_eq!(rule.gap(u32::MAX), gap(u32::MAX));
        let rule = GapRule { free_hop_count: 1, ..rule };
        assert_eq!([0, 1, 4].map(|hops| rule.gap(hops)), [gap(500), gap(500), gap(1250)]);
        assert_eq!(gap(1000).rate_of(1_000_000), 500_000);
        assert_eq!(Gap::packets(-1.0), Gap::NONE);
        assert_eq!(Gap::packets(0.3333), gap(333));
    }

    #[test]
    fn gaps_are_read_and_written_in_packet_times() {
        for (text, milli_packets) in [("0", 0), ("0.5", 500), ("2", 2000), ("0.25", 250), ("1.005", 1005)] {
            let gap: Gap = text.parse().unwrap();
            assert_eq!((gap.milli_packets, std::format!("{gap}").as_str()), (milli_packets, text));
        }
        for text in ["", "-1", "NaN", "inf", "1e9", "half"] {
            assert!(text.parse::<Gap>().is_err(), "{text}");
        }
    }
}
