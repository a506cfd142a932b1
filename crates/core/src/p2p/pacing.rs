//! Pacing: how long rails stay silent after each packet of a message's data (P4).
//!
//! The gap is a property of a message: given with it, or else its communicator's, or else by rule from the
//! number of hops (the paper's future work, "MOD pacing"). The device gets the gap before the data moves
//! ([`Device::set_gap`]), and only if it differs from the last to that peer: without gaps it is never called.
//! An eager message is one packet and has no gap of its own.

use crate::device::{Device, Gap};
use crate::ids::{CommId, ContextId, ProcessId};
use alloc::vec::Vec;

/// The gap of messages that say nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GapRule {
    /// For every message.
    pub base: Gap,
    /// As much more for each hop between switches on the way ([`Device::hops`]).
    pub per_hop: Gap,
    /// Number of hops that add nothing.
    pub free_hop_count: u32,
}

impl GapRule {
    /// The gap of a message that goes over `hop_count` hops.
    pub fn gap(&self, hop_count: u32) -> Gap {
        let more = self.per_hop.milli_packets.saturating_mul(hop_count.saturating_sub(self.free_hop_count));
        Gap { milli_packets: self.base.milli_packets.saturating_add(more) }
    }
}

/// The gaps that have been set.
pub(crate) struct Gaps {
    rule: GapRule,
    /// That of the message being sent.
    of_message: Option<Gap>,
    /// Those of communicators that have one.
    of_contexts: Vec<(ContextId, Gap)>,
    /// Those of communicators that are being made.
    early: Vec<(CommId, Gap)>,
}

impl Gaps {
    pub(super) const fn new(rule: GapRule) -> Self {
        Self { rule, of_message: None, of_contexts: Vec::new(), early: Vec::new() }
    }

    /// Sets the gap of the messages sent from now on, until it is taken back with `None`.
    pub(crate) fn set_of_message(&mut self, gap: Option<Gap>) {
        self.of_message = gap;
    }

    /// Sets the gap of a context's messages from here on; `None`: as the rule says.
    pub(crate) fn set(&mut self, context: ContextId, gap: Option<Gap>) {
        self.of_contexts.retain(|entry| entry.0 != context);
        self.of_contexts.extend(gap.map(|gap| (context, gap)));
    }

    /// Keeps the gap of a communicator that is being made.
    pub(crate) fn set_early(&mut self, comm: CommId, gap: Gap) {
        self.early.retain(|entry| entry.0 != comm);
        self.early.push((comm, gap));
    }

    /// A communicator has been made, of a context if it was, or will not be.
    pub(crate) fn settle_early(&mut self, comm: CommId, context: Option<ContextId>) {
        if let Some(at) = self.early.iter().position(|entry| entry.0 == comm) {
            let (_, gap) = self.early.swap_remove(at);
            if let Some(context) = context {
                self.set(context, Some(gap));
            }
        }
    }

    /// The gap set of a context's messages.
    pub(crate) fn get(&self, context: ContextId) -> Option<Gap> {
        self.of_contexts.iter().find(|entry| entry.0 == context).map(|entry| entry.1)
    }

    /// The gap of a message to `peer` on a context, point-to-point or collective.
    pub(crate) fn of<D: Device>(&self, device: &D, peer: ProcessId, context: ContextId) -> Gap {
        let of_comm = || self.of_contexts.iter().find(|entry| entry.0.collective() == context.collective());
        match self.of_message.or_else(|| of_comm().map(|entry| entry.1)) {
            Some(gap) => gap,
            None if self.rule.per_hop == Gap::NONE => self.rule.base,
            None => self.rule.gap(device.hops(peer)),
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
    fn of_gaps_for_a_communicator_being_made_the_last_counts() {
        let gap = |milli_packets| Gap { milli_packets };
        let (mut gaps, comm, context) = (Gaps::new(GapRule::default()), CommId(3), ContextId(10));
        gaps.set_early(comm, gap(7));
        gaps.set_early(comm, gap(9));
        gaps.settle_early(comm, Some(context));
        assert_eq!(gaps.get(context), Some(gap(9)));
        gaps.settle_early(comm, Some(ContextId(12)));
        assert_eq!(gaps.get(ContextId(12)), None, "it is another of this number");
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
