//! Packets that came before their turn: held until those before them have come by other rails.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Packets that may be held. A peer has at most [`STREAM_PACKETS_MAX`](super::stream::STREAM_PACKETS_MAX) under way.
pub(super) const HELD_PACKETS_MAX: u32 = super::stream::STREAM_PACKETS_MAX as u32;

/// A packet of `wire`, copied.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
    /// So many more bytes exist as a number only.
    pub(crate) virtual_bytes: usize,
}

/// What to do with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It is its turn.
    Now,
    /// Hold it.
    Hold,
    /// It has been here.
    Duplicate,
    /// No correct peer is so far ahead.
    TooFar,
}

/// The packets held, by their distance from the next in turn.
#[derive(Default)]
pub(crate) struct Reorder {
    held: BTreeMap<u32, Held>,
    spare: VecDeque<Vec<u8>>,
}

impl Reorder {
    /// What to do with packet `sequence` when `next` is the next in turn.
    pub(crate) fn place(&self, sequence: u32, next: u32) -> Place {
        match sequence.wrapping_sub(next) {
            0 => Place::Now,
            ahead if ahead >= 1 << 31 => Place::Duplicate,
            _ if self.held.contains_key(&sequence) => Place::Duplicate,
            ahead if ahead > HELD_PACKETS_MAX => Place::TooFar,
            _ => Place::Hold,
        }
    }

    /// Memory for a packet to hold.
    pub(crate) fn room(&mut self) -> Vec<u8> {
        self.spare.pop_front().unwrap_or_default()
    }

    /// Holds a packet.
    pub(crate) fn hold(&mut self, sequence: u32, held: Held) {
        self.held.insert(sequence, held);
    }

    /// Takes the packet whose turn it is, if it is here.
    pub(crate) fn take(&mut self, next: u32) -> Option<Held> {
        self.held.remove(&next)
    }

    /// Takes a packet's memory back.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>) {
        const SPARE_MAX: usize = 16;
        if self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push_back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_given_in_turn_once_and_not_from_far_ahead() {
        for start in [0u32, u32::MAX - 1] {
            let at = |step: u32| start.wrapping_add(step);
            let mut reorder = Reorder::default();
            assert_eq!(reorder.place(at(0), start), Place::Now);
            assert_eq!(reorder.place(at(2), start), Place::Hold);
            reorder.hold(at(2), Held { bytes: Vec::new(), virtual_bytes: 2 });
            assert_eq!(reorder.place(at(2), start), Place::Duplicate);
            assert_eq!(reorder.place(at(0), at(1)), Place::Duplicate);
            assert_eq!(reorder.place(at(HELD_PACKETS_MAX + 1), start), Place::TooFar);
            assert_eq!(reorder.take(at(1)), None);
            assert_eq!(reorder.take(at(2)).map(|held| held.virtual_bytes), Some(2));
            assert_eq!(reorder.take(at(2)), None);
        }
    }
}
