//! The blocks that two ranks hand to and fro with their packets (`ring.rs`, rule 7).

use super::{BLOCK_BEGIN_LINES, LINE_BYTES, Line, Ring};
use crate::shm::sys;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most blocks of a ring.
pub(crate) const BLOCKS_COUNT_MAX: usize = 8;
const COUNT_MAX: usize = 2 * BLOCKS_COUNT_MAX;

/// Lines that get their memory at once: what the system maps at a fault.
const BACKED_LINES: usize = sys::ZEROS_BYTES / LINE_BYTES;

/// The file in which lines lie, and where they begin.
pub(crate) struct Backing {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) at: usize,
}

impl Backing {
    /// Has the system provide and map the memory of lines that nobody has used, at most 64 KiB, `first` lines
    /// behind the beginning. Where it is refused, it is provided when it is used.
    pub(super) fn provide(&self, first: usize, lines: &[Line]) {
        // What was not used is zero.
        if sys::write_zeros(&self.file, self.at + first * LINE_BYTES, size_of_val(lines)) {
            sys::map_in(&lines[0]);
        }
    }
}

/// The blocks of both rings of a pair, as one of its ranks knows them: numbers are even for those of the ring
/// that it writes, odd for those of the one that it reads.
pub(crate) struct Blocks {
    rings: [&'static [Line]; 2],
    /// Lines of each.
    each: usize,
    backings: Option<[Backing; 2]>,
    /// Those that are this rank's: a stack, with what it has read last on top.
    stack: [u8; COUNT_MAX],
    count: usize,
    /// The same, a bit each.
    mine: u32,
    /// Of each block the lines at its beginning whose memory is there and mapped. Both ranks count alike, as
    /// each use of a block is a packet from one to the other.
    backed_counts: [usize; COUNT_MAX],
}

impl Blocks {
    /// Those of the ring that this rank writes, which are its own at first, and of the one that it reads.
    pub(crate) fn of(written: &Ring, read: &Ring, backings: Option<[Backing; 2]>) -> Self {
        let rings = [written.blocks, read.blocks];
        let each = written.block_lines();
        assert!(rings.iter().all(|lines| lines.len() <= BLOCKS_COUNT_MAX * each));
        let (stack, backed_counts) = ([0; COUNT_MAX], [0; COUNT_MAX]);
        let mut blocks = Self { rings, each, backings, stack, count: 0, mine: 0, backed_counts };
        for index in (0..written.blocks.len() / each).rev() {
            blocks.give(2 * index);
        }
        blocks
    }

    /// Lines of all blocks.
    pub(super) fn lines_count(&self) -> u64 {
        self.rings.iter().map(|lines| lines.len() as u64).sum()
    }

    /// The lines of a packet in a block.
    pub(super) fn run(&self, number: usize, need: u64) -> &'static [Line] {
        &self.rings[number % 2][self.begin(number) + BLOCK_BEGIN_LINES..][..need as usize]
    }

    /// Where a block begins in the lines of its ring.
    fn begin(&self, number: usize) -> usize {
        number / 2 * self.each
    }

    /// Whether there is such a block and it is the other rank's.
    pub(super) fn is_theirs(&self, number: u64) -> bool {
        let count = (self.rings[number as usize % 2].len() / self.each) as u64;
        number / 2 < count && self.mine >> number & 1 == 0
    }

    /// The block has become this rank's.
    pub(super) fn give(&mut self, number: usize) {
        self.mine |= 1 << number;
        self.stack[self.count] = number as u8;
        self.count += 1;
    }

    /// A block for a packet of so many lines, which makes it the other rank's: what this one has read last.
    pub(super) fn take(&mut self, need: u64) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let number = usize::from(self.stack[self.count]);
        self.mine &= !(1 << number);
        if need as usize + BLOCK_BEGIN_LINES > self.backed_counts[number] {
            self.back(number, need);
        }
        Some(number)
    }

    /// Has the system provide and map the memory of a block's first lines, in stretches.
    #[cold]
    fn back(&mut self, number: usize, need: u64) {
        let (first, end) = self.backed_to(number, need);
        let Some(backings) = &self.backings else { return };
        for at in (first..end).step_by(BACKED_LINES) {
            let lines = &self.rings[number % 2][at..end.min(at + BACKED_LINES)];
            backings[number % 2].provide(at, lines);
        }
    }

    /// The other rank has used so many lines of it: has the system map their memory.
    #[inline]
    pub(super) fn map(&mut self, number: usize, need: u64) {
        if need as usize + BLOCK_BEGIN_LINES > self.backed_counts[number] {
            let (first, end) = self.backed_to(number, need);
            sys::map_for_reading(&self.rings[number % 2][first..end]);
        }
    }

    /// A packet needs so many lines of the block: those of the ring that get their memory now.
    fn backed_to(&mut self, number: usize, need: u64) -> (usize, usize) {
        let end = (need as usize + BLOCK_BEGIN_LINES).next_multiple_of(BACKED_LINES).min(self.each);
        let first = std::mem::replace(&mut self.backed_counts[number], end);
        (self.begin(number) + first, self.begin(number) + end)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::sender::WHOLE_BYTES_MAX;
    use super::super::tests::{ring_with, say_place};
    use super::super::word::{IN_BLOCK, PLACED, word_of};
    use super::super::{BULK, Receiver, START_AT, Seen, Sender};
    use super::*;
    use crate::shm::processor::Processor;
    use ayatori_random::Random;
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering;

    /// One end of a pair of rings.
    struct End {
        sender: Sender,
        receiver: Receiver,
    }

    impl End {
        fn new(written: Ring, read: Ring, backings: Option<[Backing; 2]>) -> Self {
            Self::on(Processor::AMD, written, read, backings)
        }

        fn on(processor: Processor, written: Ring, read: Ring, backings: Option<[Backing; 2]>) -> Self {
            let mut sender = Sender::on(processor, written, true);
            sender.is_of_other_core = true;
            let receiver = Receiver::new(read).exchanging(Blocks::of(&written, &read, backings));
            Self { sender, receiver }
        }

        fn send(&mut self, payload: &[u8]) -> bool {
            self.sender.push(&[payload.len() as u8; 32], [payload, &[]], &mut self.receiver).is_ok()
        }

        fn receive(&mut self) -> Vec<u8> {
            assert_eq!(self.receiver.poll(), Seen::Packet);
            let payload = self.receiver.front().1.to_vec();
            self.receiver.release();
            payload
        }

        fn blocks(&self) -> &Blocks {
            &self.receiver.blocks
        }
    }

    fn rings(count: usize) -> [Ring; 2] {
        [(); 2].map(|()| ring_with(16, [1024, 8192], count))
    }

    fn pair(count: usize) -> [End; 2] {
        pair_on(Processor::AMD, count)
    }

    fn pair_on(processor: Processor, count: usize) -> [End; 2] {
        let [there, back] = rings(count);
        [End::on(processor, there, back, None), End::on(processor, back, there, None)]
    }

    #[test]
    fn a_reply_goes_into_the_block_that_was_read() {
        let [mut one, mut other] = pair(2);
        for round in 0..5_u8 {
            let payload = vec![round; 10_000];
            assert!(one.send(&payload));
            assert_eq!((one.blocks().count, other.blocks().count), (1, 2));
            assert_eq!(other.receive(), payload);
            assert_eq!((other.blocks().count, other.blocks().stack[2]), (3, 1), "what it read last");
            assert!(other.send(&payload));
            assert_eq!(one.receive(), payload);
            assert_eq!((one.blocks().count, one.blocks().stack[1]), (2, 0));
        }
        assert_eq!([&one, &other].map(|end| end.sender.lines[BULK].next), [0, 0], "no lines");
    }

    #[test]
    fn each_knows_whose_every_block_is() {
        let [mut one, mut other] = pair(2);
        // Even numbers are of the ring that an end writes; there are two of each ring.
        let theirs = |end: &End| (0..8).filter(|&number| end.blocks().is_theirs(number)).collect::<Vec<_>>();
        assert_eq!([theirs(&one), theirs(&other)], [[1, 3], [1, 3]]);
        assert!(one.send(&[1; 10_000]) && one.send(&[2; 10_000]));
        assert_eq!([theirs(&one), theirs(&other)], [vec![0, 1, 2, 3], vec![1, 3]]);
        other.receive();
        other.receive();
        assert_eq!(theirs(&other), [0_u64; 0], "it has all");
        // What it read last goes first.
        assert!(other.send(&[3; 10_000]));
        one.receive();
        assert_eq!([theirs(&one), theirs(&other)], [vec![0, 1, 3], vec![3]]);
    }

    #[test]
    fn a_header_that_leaves_room_for_the_place_goes_with_a_block() {
        let [mut one, mut other] = pair(2);
        for (header_bytes, is_in_block) in [(START_AT, true), (START_AT + 1, false)] {
            let (header, payload) = (vec![9; header_bytes], vec![8; 10_000]);
            one.sender.push(&header, [&payload, &[]], &mut one.receiver).expect("room");
            assert_eq!(other.receiver.poll(), Seen::Packet);
            assert_eq!(other.receiver.front(), (&header[..], &payload[..]));
            let bytes_in_lines = if is_in_block { 0 } else { payload.len() };
            assert_eq!(other.receiver.bytes_in_lines(), bytes_in_lines, "{header_bytes}");
            other.receiver.release();
        }
    }

    #[test]
    fn who_has_no_block_left_uses_lines() {
        let [mut one, mut other] = pair(2);
        for packet in 0..4_u8 {
            assert!(one.send(&[packet; 4096]));
            let lines_count = 64 * u64::from(packet.saturating_sub(1));
            assert_eq!(one.sender.lines[BULK].next, lines_count, "packet {packet}");
        }
        for packet in 0..4_u8 {
            assert_eq!(other.receive(), [packet; 4096]);
        }
        assert_eq!((one.blocks().count, other.blocks().count), (0, 4));
    }

    #[test]
    fn short_packets_and_long_headers_take_no_block() {
        let [mut one, mut other] = pair(1);
        for (header_bytes, payload_bytes) in [(32, 512), (8, 100), (START_AT + 1, 4096)] {
            let header = vec![1; header_bytes];
            let payload = vec![2; payload_bytes];
            one.sender.push(&header, [&payload, &[]], &mut one.receiver).unwrap();
            assert_eq!(other.receive(), payload);
            assert_eq!(one.blocks().count, 1, "{header_bytes} {payload_bytes}");
        }
        // Who shares a core with the reader has nothing to gain.
        one.sender.is_of_other_core = false;
        assert!(one.send(&[3; 4096]));
        assert_eq!(one.blocks().count, 1);
    }

    #[test]
    fn long_packets_take_a_block_where_that_is_quicker() {
        for (processor, kib, takes) in
            [(Processor::ANY, 16, true), (Processor::ANY, 17, false), (Processor::AMD, 128, true)]
        {
            let [mut one, mut other] = pair_on(processor, 1);
            let payload = vec![3; kib << 10];
            assert!(one.send(&payload));
            assert_eq!(one.blocks().count, usize::from(!takes), "{kib} KiB");
            assert_eq!(other.receive(), payload);
        }
    }

    #[test]
    fn packets_both_ways_are_whole_in_blocks_and_lines() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let count = random.index(4);
            let mut ends = pair_on([Processor::ANY, Processor::AMD][random.index(2)], count);
            let mut models = [(); 2].map(|()| VecDeque::new());
            for step in 0..400 {
                let from = random.index(2);
                if random.index(2) == 0 {
                    let max = [2_000, 2 * WHOLE_BYTES_MAX, 128 << 10][random.index(3)];
                    let payload_bytes = random.index(max + 1);
                    let payload = random.bytes(payload_bytes);
                    if ends[from].send(&payload) {
                        models[from].push_back(payload);
                    } else {
                        assert!(!models[from].is_empty(), "seed {seed} step {step}: full and empty");
                    }
                } else if let Some(payload) = models[from].pop_front() {
                    assert!(ends[1 - from].receive() == payload, "seed {seed} step {step}");
                } else {
                    assert_eq!(ends[1 - from].receiver.poll(), Seen::Nothing);
                }
            }
            for from in 0..2 {
                while let Some(payload) = models[from].pop_front() {
                    assert!(ends[1 - from].receive() == payload, "seed {seed}");
                }
            }
            let each = ends.each_ref().map(|end| end.blocks().mine.count_ones() as usize);
            assert_eq!(each.iter().sum::<usize>(), 2 * count, "seed {seed}: none is lost");
            assert_eq!(each, ends.each_ref().map(|end| end.blocks().count));
        }
    }

    #[test]
    fn a_block_that_is_not_the_writers_is_an_error() {
        // One block each. The writer's numbers: 0 its own, 1 the reader's.
        let cases = [(0, 0, true), (1, 0, false), (2, 0, false), (3, 0, false), (u64::MAX, 0, false)];
        for (number, flag, is_right) in cases.into_iter().chain([(0, PLACED, false)]) {
            let [there, back] = rings(1);
            let mut other = End::new(back, there, None);
            say_place(&there, number);
            there.word(0).store(word_of(1, 8, 4096 | IN_BLOCK | flag), Ordering::Release);
            let expected = if is_right { Seen::Packet } else { Seen::Corrupt };
            assert_eq!(other.receiver.poll(), expected, "{number} {flag}");
        }
        // A header that leaves no room for the number.
        let [there, back] = rings(1);
        there.word(0).store(word_of(1, START_AT + 1, 4096 | IN_BLOCK), Ordering::Release);
        assert_eq!(End::new(back, there, None).receiver.poll(), Seen::Corrupt);
    }

    #[test]
    fn memory_of_a_block_is_provided_once_and_where_it_is_used() {
        let [there, back] = rings(2);
        let file = Arc::new(sys::memory_file().unwrap());
        let block_bytes = there.block_lines() * LINE_BYTES;
        sys::set_length(&file, 4 * block_bytes).unwrap();
        let backings =
            |ats: [usize; 2]| Some(ats.map(|at| Backing { file: file.clone(), at: at * block_bytes }));
        let mut ends = [End::new(there, back, backings([0, 2])), End::new(back, there, backings([2, 0]))];
        let provided_bytes = || rustix::fs::fstat(&file).unwrap().st_blocks as usize * 512;
        // The first 2 KiB of a block hold nothing.
        let expected = [(0, 62, 64), (1, 62, 64), (0, 63, 128), (1, 126, 128), (1, 60, 192), (0, 128, 272)];
        for (from, kib, expected_kib) in expected {
            assert!(ends[from].send(&vec![7; kib << 10]));
            assert_eq!(provided_bytes(), expected_kib << 10, "{kib} KiB from {from}");
            ends[1 - from].receive();
        }
    }

    #[test]
    fn two_threads_hand_blocks_to_and_fro() {
        fn take_turns(mut end: End, me: u64) {
            let mut random = Random::new(9);
            let mut pieces = Vec::new();
            for turn in 0..10_000 {
                let payload_bytes = 600 + random.index(40_000);
                if turn % 2 == me {
                    while !end.send(&vec![turn as u8; payload_bytes]) {
                        std::thread::yield_now();
                    }
                    continue;
                }
                let seen = loop {
                    match end.receiver.poll() {
                        Seen::Nothing => std::thread::yield_now(),
                        seen => break seen,
                    }
                };
                pieces.clear();
                if seen == Seen::Packet {
                    pieces.extend_from_slice(end.receiver.front().1);
                }
                while pieces.len() < payload_bytes {
                    pieces.extend_from_slice(end.receiver.written(pieces.len()));
                }
                assert!(pieces.len() == payload_bytes && pieces.iter().all(|&byte| byte == turn as u8));
                end.receiver.release();
            }
            assert_eq!(end.sender.lines[BULK].next, 0, "each had a block");
        }
        let [one, other] = pair(1);
        let thread = std::thread::spawn(move || take_turns(other, 1));
        take_turns(one, 0);
        thread.join().unwrap();
    }
}
