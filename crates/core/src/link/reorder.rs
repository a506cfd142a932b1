//! Packets that arrive out of order: held until the earlier ones have arrived by other rails.

use crate::device::Packet;
use crate::error::Blame;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Packets that may be held. A peer has at most [`STREAM_PACKETS_MAX`](super::stream::STREAM_PACKETS_MAX)
/// under way.
pub(super) const HELD_PACKETS_MAX: u32 = super::stream::STREAM_PACKETS_MAX as u32;

/// Bytes that may be held. A peer sends no packet while it has
/// [`STREAM_BYTES_MAX`](super::stream::STREAM_BYTES_MAX) under way, and none is longer than that.
const HELD_BYTES_MAX: usize = 2 * super::stream::STREAM_BYTES_MAX;

/// A packet of `wire`, copied.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    /// Further bytes that exist as a number only.
    pub(super) virtual_bytes: usize,
}

impl Held {
    fn len(&self) -> usize {
        self.bytes.len() + self.virtual_bytes
    }
}

/// Decision on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// It is its turn.
    Now,
    /// Hold it.
    Hold,
    /// It has been here.
    Duplicate,
    /// No correct peer is so far ahead.
    TooFar,
}

/// The packets held, by their sequence.
#[derive(Default)]
pub(super) struct Reorder {
    held: BTreeMap<u32, Held>,
    held_bytes: usize,
    spare: VecDeque<Vec<u8>>,
}

impl Reorder {
    /// Whether it is the turn of packet `sequence`, when `next` is the next. If not it is held, or dropped as
    /// a duplicate.
    pub(super) fn take_or_hold(
        &mut self,
        sequence: u32,
        next: u32,
        packet: &Packet<'_>,
    ) -> Result<bool, Blame> {
        match self.place(sequence, next) {
            Place::Now => return Ok(true),
            Place::Duplicate => {}
            Place::TooFar => return Err(Blame("a packet far ahead of its turn")),
            Place::Hold => {
                let length = packet.header.len().saturating_add(packet.payload.len());
                if length > HELD_BYTES_MAX - self.held_bytes {
                    return Err(Blame("more data ahead of its turn than may be under way"));
                }
                let mut bytes = self.spare.pop_front().unwrap_or_default();
                bytes.extend_from_slice(packet.header);
                bytes.extend_from_slice(packet.payload.bytes().unwrap_or_default());
                let virtual_bytes = length - bytes.len();
                self.hold(sequence, Held { bytes, virtual_bytes });
            }
        }
        Ok(false)
    }

    /// Decision on packet `sequence` when `next` is the next in turn.
    fn place(&self, sequence: u32, next: u32) -> Place {
        match sequence.wrapping_sub(next) {
            0 => Place::Now,
            ahead if ahead >= 1 << 31 => Place::Duplicate,
            _ if self.held.contains_key(&sequence) => Place::Duplicate,
            ahead if ahead > HELD_PACKETS_MAX => Place::TooFar,
            _ => Place::Hold,
        }
    }

    fn hold(&mut self, sequence: u32, held: Held) {
        self.held_bytes += held.len();
        self.held.insert(sequence, held);
    }

    /// Takes the packet whose turn it is, if it is here.
    pub(super) fn take(&mut self, next: u32) -> Option<Held> {
        let held = self.held.remove(&next)?;
        self.held_bytes -= held.len();
        Some(held)
    }

    /// Takes a packet's memory back.
    pub(super) fn give_back(&mut self, mut bytes: Vec<u8>) {
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

    #[test]
    fn what_was_taken_leaves_its_place_to_others() {
        let mut reorder = Reorder::default();
        let packet = Packet { header: &[1; 8], payload: crate::buffer::Piece::Virtual(HELD_BYTES_MAX / 2) };
        for next in 0..8 {
            assert_eq!(reorder.take_or_hold(next + 1, next, &packet), Ok(false));
            assert!(reorder.take_or_hold(next + 2, next, &packet).is_err(), "both are too much");
            assert_eq!(reorder.take(next + 1).map(|held| held.len()), Some(8 + HELD_BYTES_MAX / 2));
        }
    }

    #[test]
    fn exactly_as_much_as_may_be_under_way_is_held() {
        for (more, is_held) in [(0, true), (1, false)] {
            let payload = crate::buffer::Piece::Virtual(HELD_BYTES_MAX - 8 + more);
            let packet = Packet { header: &[1; 8], payload };
            assert_eq!(Reorder::default().take_or_hold(1, 0, &packet).is_ok(), is_held);
        }
    }
}
