//! Packets that arrive out of order: held until the earlier ones have arrived by other rails.

use crate::buffer::append;
use crate::device::Packet;
use crate::error::Blame;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Packets that may be held. A peer has at most [`STREAM_PACKETS_MAX`](super::stream::STREAM_PACKETS_MAX)
/// under way.
const HELD_PACKETS_MAX: u32 = super::stream::STREAM_PACKETS_MAX as u32;

/// Bytes that may be held. A peer sends no packet while it has
/// [`STREAM_BYTES_MAX`](super::stream::STREAM_BYTES_MAX) under way, and none is longer than that.
const HELD_BYTES_MAX: usize = 2 * super::stream::STREAM_BYTES_MAX;

/// The packets held, by their sequence: a copy of each, and how many bytes more are virtual.
#[derive(Default)]
pub(super) struct Reorder {
    held: BTreeMap<u32, (Vec<u8>, usize)>,
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
        match sequence.wrapping_sub(next) {
            0 => return Ok(true),
            ahead if ahead >= 1 << 31 || self.held.contains_key(&sequence) => return Ok(false),
            ahead if ahead > HELD_PACKETS_MAX => return Err(Blame("a packet far ahead of its turn")),
            _ => {}
        }
        let length = packet.header.len().saturating_add(packet.payload.len());
        if length > HELD_BYTES_MAX - self.held_bytes {
            return Err(Blame("more data ahead of its turn than may be under way"));
        }
        let mut bytes = self.spare.pop_front().unwrap_or_default();
        append(&mut bytes, packet.header);
        append(&mut bytes, packet.payload.bytes().unwrap_or_default());
        let virtual_bytes = length - bytes.len();
        self.held_bytes += length;
        self.held.insert(sequence, (bytes, virtual_bytes));
        Ok(false)
    }

    /// Takes the packet whose turn it is, if it is here.
    pub(super) fn take(&mut self, next: u32) -> Option<(Vec<u8>, usize)> {
        let (bytes, virtual_bytes) = self.held.remove(&next)?;
        self.held_bytes -= bytes.len() + virtual_bytes;
        Some((bytes, virtual_bytes))
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
    use crate::buffer::Piece;

    fn packet(virtual_bytes: usize) -> Packet<'static> {
        Packet { header: &[1; 8], payload: Piece::Virtual(virtual_bytes) }
    }

    #[test]
    fn packets_are_given_in_turn_once_and_not_from_far_ahead() {
        for start in [0u32, u32::MAX - 1] {
            let at = |step: u32| start.wrapping_add(step);
            let mut reorder = Reorder::default();
            let mut come = |step, next| reorder.take_or_hold(at(step), at(next), &packet(2));
            assert_eq!([come(0, 0), come(2, 0)], [Ok(true), Ok(false)]);
            assert_eq!([come(2, 0), come(0, 1)], [Ok(false); 2], "they have been here");
            assert!(come(HELD_PACKETS_MAX + 1, 0).is_err());
            assert_eq!(reorder.take(at(1)), None);
            assert_eq!(reorder.take(at(2)), Some(([1; 8].to_vec(), 2)));
            assert_eq!((reorder.take(at(2)), reorder.held_bytes), (None, 0));
            assert_eq!(reorder.take_or_hold(at(HELD_PACKETS_MAX), start, &packet(2)), Ok(false));
        }
    }

    #[test]
    fn as_much_as_may_be_under_way_is_held() {
        for (bytes, is_held) in [(HELD_BYTES_MAX - 8, true), (HELD_BYTES_MAX - 7, false)] {
            assert_eq!(Reorder::default().take_or_hold(1, 0, &packet(bytes)).is_ok(), is_held);
        }
        let mut reorder = Reorder::default();
        let half = packet(HELD_BYTES_MAX / 2);
        for next in 0..8 {
            assert_eq!(reorder.take_or_hold(next + 1, next, &half), Ok(false));
            assert!(reorder.take_or_hold(next + 2, next, &half).is_err(), "both are too much");
            assert!(reorder.take(next + 1).is_some(), "what is taken leaves its place to others");
        }
    }
}
