//! Packets that have to arrive in order, each kept until it is acknowledged, so that it can go again over
//! another rail.

use crate::buffer::{Payload, Piece, append, payload_len};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Packets under way at most.
pub(super) const STREAM_PACKETS_MAX: usize = 4096;
/// Bytes under way at most: some rails' buffers. A sender with credit waits for acknowledgements then.
pub(super) const STREAM_BYTES_MAX: usize = 512 << 10;

/// A packet kept.
pub(super) struct Kept {
    /// Its header of `wire` and its payload.
    bytes: Vec<u8>,
    /// How much of `bytes` is header.
    header_bytes: usize,
    /// Payload that is only a number.
    virtual_bytes: usize,
    acknowledged: bool,
}

impl Kept {
    /// Its header and its payload.
    pub(super) fn parts(&self) -> (&[u8], Payload<'_>) {
        let (header, payload) = self.bytes.split_at(self.header_bytes);
        let rest = if self.virtual_bytes > 0 { Piece::Virtual(self.virtual_bytes) } else { Piece::EMPTY };
        (header, [Piece::Bytes(payload), rest])
    }
}

/// The packets of one link that are under way, by sequence.
#[derive(Default)]
pub(super) struct Stream {
    /// Sequence of the first in `kept`.
    first: u32,
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    /// Lost, to be sent again.
    again: VecDeque<u32>,
    spare: Spare,
}

impl Stream {
    /// Whether one more packet may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.kept.len() < STREAM_PACKETS_MAX && self.kept_bytes < STREAM_BYTES_MAX
    }

    /// Whether one more may be sent after a packet of so many bytes.
    pub(super) fn has_room_beside(&self, bytes: usize) -> bool {
        self.kept.len() + 1 < STREAM_PACKETS_MAX && self.kept_bytes + bytes < STREAM_BYTES_MAX
    }

    /// Keeps a packet that was sent. Packets are kept in the order of their sequence.
    pub(super) fn keep(&mut self, sequence: u32, header: &[u8], payload: &Payload<'_>) {
        if self.kept.is_empty() {
            self.first = sequence;
        }
        debug_assert_eq!(sequence, self.first.wrapping_add(self.kept.len() as u32));
        let real = payload.map(|piece| if let Piece::Bytes(bytes) = piece { bytes } else { &[] });
        let real_bytes = real[0].len() + real[1].len();
        let virtual_bytes = payload_len(payload) - real_bytes;
        let header_bytes = header.len();
        let mut bytes = self.spare.take(header_bytes + real_bytes);
        bytes.extend_from_slice(header);
        real.iter().for_each(|piece| append(&mut bytes, piece));
        self.kept_bytes += bytes.len() + virtual_bytes;
        self.kept.push_back(Kept { bytes, header_bytes, virtual_bytes, acknowledged: false });
    }

    fn get(&self, sequence: u32) -> Option<&Kept> {
        self.kept.get(sequence.wrapping_sub(self.first) as usize)
    }

    /// The peer has the packet.
    pub(super) fn on_acknowledged(&mut self, sequence: u32) {
        if let Some(kept) = self.kept.get_mut(sequence.wrapping_sub(self.first) as usize) {
            kept.acknowledged = true;
        }
        while self.kept.front().is_some_and(|kept| kept.acknowledged) {
            let Some(kept) = self.kept.pop_front() else { break };
            self.first = self.first.wrapping_add(1);
            self.kept_bytes -= kept.bytes.len() + kept.virtual_bytes;
            self.spare.give_back(kept.bytes);
        }
    }

    fn is_missing(&self, sequence: u32) -> bool {
        self.get(sequence).is_some_and(|kept| !kept.acknowledged)
    }

    /// The packet is lost. It is under way once at a time: what waits to be sent again is not lost again.
    pub(super) fn on_lost(&mut self, sequence: u32) {
        if self.is_missing(sequence) {
            self.again.push_back(sequence);
        }
    }

    /// The next packet to send again, left in place until [`again_sent`](Self::again_sent).
    pub(super) fn next_again(&mut self) -> Option<(u32, &Kept)> {
        while self.again.front().is_some_and(|&sequence| !self.is_missing(sequence)) {
            self.again.pop_front();
        }
        let &sequence = self.again.front()?;
        Some((sequence, self.get(sequence)?))
    }

    pub(super) fn again_sent(&mut self) {
        self.again.pop_front();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// Memory for packets to come. What the allocator got for a long packet it would return to the system, whose
/// pages then cost more than the packet: 64 faults for 256 KiB, 200 µs in a virtual machine.
#[derive(Default)]
struct Spare {
    short: Vec<Vec<u8>>,
    long: Vec<Vec<u8>>,
    held_bytes: usize,
}

impl Spare {
    /// Of either length.
    const COUNT_MAX: usize = 64;
    /// What is under way at most: the last packet begins where one byte less than the bound is.
    const BYTES_MAX: usize = STREAM_BYTES_MAX + (STREAM_BYTES_MAX >> 1);
    const LONG_BYTES: usize = 16 << 10;

    fn of(&mut self, bytes: usize) -> &mut Vec<Vec<u8>> {
        if bytes < Self::LONG_BYTES { &mut self.short } else { &mut self.long }
    }

    /// Empty memory for so many bytes.
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut memory = self.of(bytes).pop().unwrap_or_default();
        self.held_bytes -= memory.capacity();
        memory.clear();
        memory.reserve(bytes);
        memory
    }

    fn give_back(&mut self, memory: Vec<u8>) {
        let bytes = memory.capacity();
        if self.of(bytes).len() < Self::COUNT_MAX && self.held_bytes + bytes <= Self::BYTES_MAX {
            self.held_bytes += bytes;
            self.of(bytes).push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::NO_PAYLOAD;
    use crate::device::profiles::TCP_EAGER_BYTES_MAX;

    #[test]
    fn lost_packets_go_again_until_acknowledged() {
        let mut stream = Stream::default();
        for (step, sequence) in [u32::MAX - 1, u32::MAX, 0, 1].into_iter().enumerate() {
            stream.keep(sequence, &[step as u8], &NO_PAYLOAD);
        }
        for lost in [u32::MAX, 0] {
            stream.on_lost(lost);
        }
        let (sequence, kept) = stream.next_again().expect("two are lost");
        assert_eq!((sequence, kept.parts().0), (u32::MAX, &[1][..]));
        stream.again_sent();
        // The first copy of it arrives late after all.
        stream.on_acknowledged(0);
        assert!(stream.next_again().is_none());
        for sequence in [1, u32::MAX - 1, u32::MAX] {
            stream.on_acknowledged(sequence);
        }
        assert!(stream.is_empty());
        stream.on_lost(1);
        assert!(stream.next_again().is_none());
        assert_eq!(stream.kept_bytes, 0);
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_packets() {
        for (bytes, most) in [(64 << 10, 8), (0, STREAM_PACKETS_MAX)] {
            let (mut stream, payload) = (Stream::default(), alloc::vec![0; bytes]);
            let mut count = 0;
            while stream.has_room() {
                stream.keep(count, &[], &[Piece::Bytes(&payload), Piece::EMPTY]);
                count += 1;
            }
            assert_eq!(count as usize, most);
            stream.on_acknowledged(0);
            assert!(stream.has_room());
        }
    }

    #[test]
    fn there_is_room_beside_a_packet_within_the_bounds() {
        let mut stream = Stream::default();
        assert!(stream.has_room_beside(STREAM_BYTES_MAX - 1) && !stream.has_room_beside(STREAM_BYTES_MAX));
        for sequence in 0..STREAM_PACKETS_MAX as u32 {
            let is_last_but_one = stream.kept.len() + 1 < STREAM_PACKETS_MAX;
            assert_eq!(stream.has_room_beside(0), is_last_but_one, "{sequence} are kept");
            stream.keep(sequence, &[], &NO_PAYLOAD);
        }
        assert!(!stream.has_room_beside(0));
    }

    #[test]
    fn memory_to_come_is_bounded_in_pieces_and_bytes() {
        let of = |bytes: usize| Vec::<u8>::with_capacity(bytes);
        let mut spare = Spare::default();
        (0..Spare::COUNT_MAX + 2).for_each(|_| spare.give_back(of(100)));
        assert_eq!((spare.short.len(), spare.long.len()), (Spare::COUNT_MAX, 0));
        spare.give_back(of(Spare::LONG_BYTES));
        spare.give_back(of(Spare::LONG_BYTES - 1));
        assert_eq!((spare.short.len(), spare.long.len()), (Spare::COUNT_MAX, 1));
        // What is left to the bound fits, and no byte more.
        let left_bytes = Spare::BYTES_MAX - spare.held_bytes;
        spare.give_back(of(left_bytes + 1));
        assert_eq!(spare.long.len(), 1);
        spare.give_back(of(left_bytes));
        assert_eq!((spare.long.len(), spare.held_bytes), (2, Spare::BYTES_MAX));
        assert_eq!((spare.take(Spare::LONG_BYTES).capacity(), spare.long.len()), (left_bytes, 1));
        assert_eq!(
            (spare.take(Spare::LONG_BYTES - 1).capacity() >= Spare::LONG_BYTES - 1, spare.long.len()),
            (true, 1)
        );
    }

    #[test]
    fn memory_for_packets_to_come_is_bounded_in_bytes() {
        let (mut stream, payload) = (Stream::default(), alloc::vec![0; 200 << 10]);
        for round in 0..3 {
            for sequence in 5 * round..5 * round + 5 {
                stream.keep(sequence, &[], &[Piece::Bytes(&payload), Piece::EMPTY]);
            }
            (5 * round..5 * round + 5).for_each(|sequence| stream.on_acknowledged(sequence));
            let Spare { short, long, held_bytes } = &stream.spare;
            let held: usize = short.iter().chain(long).map(Vec::capacity).sum();
            assert_eq!(held, *held_bytes);
            assert!((payload.len()..=Spare::BYTES_MAX).contains(&held), "{held}");
        }
    }

    /// As many messages as may be under way at a time, and short ones between them.
    #[test]
    fn memory_of_what_is_under_way_serves_the_next() {
        let payload = alloc::vec![0; TCP_EAGER_BYTES_MAX];
        for length in [Spare::LONG_BYTES, 64 << 10, 100 << 10, TCP_EAGER_BYTES_MAX] {
            let mut stream = Stream::default();
            let mut sequence = 0..;
            let mut round = || -> Vec<*const u8> {
                while stream.has_room() {
                    for length in [length, 40] {
                        let payload = [Piece::Bytes(&payload[..length]), Piece::EMPTY];
                        stream.keep(sequence.next().expect("endless"), &[1; 44], &payload);
                    }
                }
                let mut places: Vec<_> = stream.kept.iter().map(|kept| kept.bytes.as_ptr()).collect();
                places.sort();
                (sequence.start - places.len() as u32..sequence.start)
                    .for_each(|at| stream.on_acknowledged(at));
                places
            };
            let first = round();
            assert_eq!(first, round(), "{length} B");
            // None is the allocator's by chance.
            assert_eq!(stream.spare.short.len() + stream.spare.long.len(), first.len(), "{length} B");
        }
    }

    #[test]
    fn bytes_that_are_only_a_number_go_again_and_are_counted() {
        let mut stream = Stream::default();
        stream.keep(0, &[1; 10], &[Piece::Bytes(&[2; 3]), Piece::Virtual(1)]);
        assert_eq!(stream.get(0).map(|kept| payload_len(&kept.parts().1)), Some(4));
        assert_eq!(stream.kept_bytes, 14);
        stream.on_acknowledged(0);
        assert_eq!(stream.kept_bytes, 0);
    }
}
