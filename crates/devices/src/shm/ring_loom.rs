//! The ring's memory under loom, which tracks each thread's accesses to each line, and the tests that run
//! there: `RUSTFLAGS="--cfg loom" cargo test -p ayatori-devices --release loom`.

use super::word::lengths;
use super::{
    AREAS_COUNT, AtomicU64, BULK, Counts, Filled, LINE_BYTES, Line, PAIR_BYTES, Pair, Receiver, Released,
    Ring, SLOT_BYTES, block_lines,
};
use crate::shm::sys::Manner;

pub(super) struct Cell<T>(loom::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }
    pub(super) fn write(&self, f: impl FnOnce(*mut u8)) {
        self.0.with_mut(|at| f(at.cast()));
    }
    fn read(&self, f: impl FnOnce(*const u8)) {
        self.0.with(|at| f(at.cast()));
    }
}

pub(super) fn write_run(lines: &[Line], parts: [&[u8]; 3], _manner: Manner) {
    let bytes = parts.concat();
    for (line, chunk) in lines.iter().zip(bytes.chunks(LINE_BYTES)) {
        // SAFETY: a chunk is at most a line.
        line.0.write(|to| unsafe { to.copy_from_nonoverlapping(chunk.as_ptr(), chunk.len()) });
    }
}

pub(super) fn write_pair(
    halves: &[Cell<[u8; SLOT_BYTES]>; 2],
    header: &[u8],
    payload: [&[u8]; 2],
    tell_odd: impl FnOnce(),
) {
    tell_odd();
    let bytes = [header, payload[0], payload[1]].concat();
    for (half, chunk) in halves.iter().zip(bytes.chunks(SLOT_BYTES)) {
        // SAFETY: a chunk is at most a slot's bytes.
        half.write(|to| unsafe { to.copy_from_nonoverlapping(chunk.as_ptr(), chunk.len()) });
    }
}

pub(super) unsafe fn words_in(half: &Cell<[u8; SLOT_BYTES]>, at: usize) -> [u64; 2] {
    let bytes = read_slot(half);
    [at, at + 8].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes")))
}

impl Receiver {
    /// As without loom, but copied (and leaked: these are tests).
    pub(crate) fn front(&self) -> (&[u8], &[u8]) {
        let (header_bytes, payload_bytes) = lengths(self.word);
        let mut bytes = read_slot(self.ring.bytes(self.next));
        if (SLOT_BYTES + 1..=PAIR_BYTES).contains(&(header_bytes + payload_bytes)) {
            bytes.extend_from_slice(&read_slot(&self.ring.pair(self.next).bytes[1]));
            return bytes.leak()[..header_bytes + payload_bytes].split_at(header_bytes);
        }
        if self.is_announced && !self.is_whole() {
            bytes.truncate(header_bytes);
            return (bytes.leak(), &[]);
        }
        if header_bytes + payload_bytes > SLOT_BYTES {
            bytes.truncate(if header_bytes <= SLOT_BYTES { header_bytes } else { 0 });
            bytes.extend_from_slice(&read_run(self.run()));
        }
        bytes.leak()[..header_bytes + payload_bytes].split_at(header_bytes)
    }

    /// As without loom, but copied.
    pub(crate) fn written(&self, from: usize) -> &[u8] {
        let (filled, _) = self.filled_lines();
        let mut bytes = read_run(&self.run()[..filled as usize]);
        bytes.truncate(lengths(self.word).1);
        bytes.drain(..from.min(bytes.len()));
        bytes.leak()
    }
}

fn read_slot(slot: &Cell<[u8; SLOT_BYTES]>) -> Vec<u8> {
    let mut bytes = vec![0; SLOT_BYTES];
    // SAFETY: as long as the cell.
    slot.read(|at| unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(at, SLOT_BYTES) });
    bytes
}

fn read_run(lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let mut chunk = [0; LINE_BYTES];
        // SAFETY: as long as the cell.
        line.0.read(|at| unsafe { chunk.as_mut_ptr().copy_from_nonoverlapping(at, LINE_BYTES) });
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

/// A ring of loom's atomics, with so many blocks.
fn ring_with(slots_count: usize, lines_counts: [usize; AREAS_COUNT], blocks_count: usize) -> Ring {
    let half = |()| Cell::new([0; SLOT_BYTES]);
    let pair = |_| Pair { even: AtomicU64::new(0), bytes: [(); 2].map(half), odd: AtomicU64::new(0) };
    let line = |_| Line(Cell::new([0; LINE_BYTES]));
    Ring {
        pairs: (0..slots_count / 2).map(pair).collect::<Vec<_>>().leak(),
        areas: lines_counts.map(|count| &*(0..count).map(line).collect::<Vec<_>>().leak()),
        blocks: (0..blocks_count * block_lines(lines_counts[BULK])).map(line).collect::<Vec<_>>().leak(),
        counts: Box::leak(Box::new(Counts {
            released: Released([0; AREAS_COUNT].map(AtomicU64::new)),
            filled: Filled { lines: [0; AREAS_COUNT + 1].map(AtomicU64::new), areas: AtomicU64::new(0) },
        })),
    }
}

/// The same without blocks.
pub(crate) fn ring(slots_count: usize, lines_counts: [usize; AREAS_COUNT]) -> Ring {
    ring_with(slots_count, lines_counts, 0)
}

#[cfg(test)]
mod tests {
    use super::super::{Blocks, Receiver, Seen, Sender};
    use crate::shm::processor::Processor;
    use loom::thread;

    fn stream(lengths: &'static [usize], bulk_count: usize, is_watched: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let ring = super::ring(4, [8, bulk_count]);
            // Packets that are long enough for pieces take the first lines in turn only.
            let processor = if is_watched { Processor::ANY } else { Processor::AMD };
            let mut sender = Sender::on(processor, ring, is_watched);
            let mut receiver = Receiver::new(ring);
            let mut back = Receiver::new(super::ring(4, [8, 0]));
            let writer = thread::spawn(move || {
                for (index, &length) in lengths.iter().enumerate() {
                    let payload = vec![index as u8 + 1; length];
                    while sender.push(&[index as u8; 8], [&payload, &[]], &mut back).is_err() {
                        thread::yield_now();
                    }
                }
            });
            for (index, &length) in lengths.iter().enumerate() {
                let mut seen = receiver.poll();
                while seen == Seen::Nothing {
                    thread::yield_now();
                    seen = receiver.poll();
                }
                let (header, mut payload) = receiver.front();
                assert_eq!(header, [index as u8; 8]);
                let mut pieces = Vec::new();
                while seen == Seen::Front(length) && pieces.len() < length {
                    pieces.extend_from_slice(receiver.written(pieces.len()));
                    payload = &pieces;
                    thread::yield_now();
                }
                assert_eq!(payload, vec![index as u8 + 1; length]);
                receiver.release();
            }
            writer.join().unwrap();
        });
    }

    /// So many packets to and fro, as one of both ends.
    fn take_turns(mut sender: Sender, mut receiver: Receiver, me: u8, count: u8) {
        for turn in 0..count {
            if turn % 2 == me {
                sender.push(&[turn; 8], [&[turn; 120], &[]], &mut receiver).expect("room");
                continue;
            }
            while receiver.poll() == Seen::Nothing {
                thread::yield_now();
            }
            assert_eq!(receiver.front(), (&[turn; 8][..], &[turn; 120][..]));
            receiver.release();
        }
    }

    /// Who has read a packet sends one; the first lines are taken again, on the word of the ring the other
    /// way.
    #[test]
    fn loom_packets_to_and_fro_take_the_first_lines_again() {
        // The fifth packet is the third of the first ring, whose first lines are used up then.
        const COUNT: u8 = 5;
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let [there, back] = [(); 2].map(|()| super::ring(4, [8, 0]));
            let other =
                thread::spawn(move || take_turns(Sender::new(back, false), Receiver::new(there), 1, COUNT));
            take_turns(Sender::new(there, false), Receiver::new(back), 0, COUNT);
            other.join().unwrap();
        });
    }

    /// Who has read a packet in a block sends the next one in it.
    #[test]
    fn loom_packets_to_and_fro_hand_a_block_over() {
        const COUNT: u8 = 4;
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let (there, back) = (super::ring_with(4, [8, 0], 1), super::ring(4, [8, 0]));
            let one_end = |[written, read]: [super::Ring; 2], me: u8| {
                let mut sender = Sender::on(Processor::AMD, written, true);
                sender.is_of_other_core = true;
                let receiver = Receiver::new(read).exchanging(Blocks::of(&written, &read, None));
                take_turns(sender, receiver, me, COUNT);
            };
            let other = thread::spawn(move || one_end([back, there], 1));
            one_end([there, back], 0);
            other.join().unwrap();
        });
    }

    #[test]
    fn loom_short_packets_wrap_round_the_slots() {
        stream(&[0, 8, 48, 1, 2, 3], 0, false);
    }

    #[test]
    fn loom_packets_in_pairs_begin_at_even_slots() {
        stream(&[64, 8, 104, 49], 0, false);
    }

    #[test]
    fn loom_long_packets_wrap_round_the_lines() {
        stream(&[110, 120, 60, 110, 128, 110], 0, false);
    }

    #[test]
    fn loom_longer_packets_take_bulk_lines() {
        stream(&[200, 120, 256, 60, 200], 16, false);
        stream(&[200, 8, 256], 16, true);
    }

    #[test]
    fn loom_packets_in_pieces_are_read_while_they_are_written() {
        stream(&[120, 60, 128, 110], 0, true);
    }
}
