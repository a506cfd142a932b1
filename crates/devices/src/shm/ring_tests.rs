use super::areas::Areas;
use super::word::{IN_PIECES, PLACED, SKIPPED, word_of};
use super::*;
use crate::shm::processor::Processor;
use crate::shm::sys;
use ayatori_core::device::{Full, HEADER_BYTES_MAX};
use ayatori_random::Random;
use std::collections::VecDeque;
use std::sync::Arc;

/// A ring in leaked, zeroed memory without blocks, of which a writer has said that it uses all.
pub(crate) fn ring(slots_count: usize, lines_counts: [usize; AREAS_COUNT]) -> Ring {
    ring_with(slots_count, lines_counts, 0)
}

/// The same with so many blocks.
pub(super) fn ring_with(slots_count: usize, lines_counts: [usize; AREAS_COUNT], blocks_count: usize) -> Ring {
    let pair = |_| Pair { even: AtomicU64::new(0), bytes: [zeroed(), zeroed()], odd: AtomicU64::new(0) };
    let line = |_| Line(zeroed());
    let ring = Ring {
        pairs: (0..slots_count / 2).map(pair).collect::<Vec<_>>().leak(),
        areas: lines_counts.map(|count| &*(0..count).map(line).collect::<Vec<_>>().leak()),
        blocks: (0..blocks_count * block_lines(lines_counts[BULK])).map(line).collect::<Vec<_>>().leak(),
        counts: Box::leak(Box::new(Counts {
            released: Released([0; AREAS_COUNT].map(AtomicU64::new)),
            filled: Filled { lines: [0; AREAS_COUNT + 1].map(AtomicU64::new), areas: AtomicU64::new(0) },
        })),
    };
    ring.counts.filled.areas.store(Areas::of(&ring, &Processor::ANY).word(), Ordering::Relaxed);
    ring
}

/// Appends a packet, while nothing comes the other way.
fn push(sender: &mut Sender, header: &[u8], payload: [&[u8]; 2]) -> Result<(), Full> {
    sender.push(header, payload, &mut Receiver::new(sender.ring))
}

/// Takes so many lines of a packet in a block or in bulk lines back, as if they were still to be written;
/// the call of what is returned writes them.
pub(crate) fn hold_back(ring: &Ring, lines_count: u32) -> impl FnOnce() + use<> {
    let lines = &ring.counts.filled.lines;
    let filled = if lines[BLOCKS].load(Ordering::Relaxed) > 0 { &lines[BLOCKS] } else { &lines[BULK] };
    let whole = filled.load(Ordering::Relaxed);
    filled.store(whole - u64::from(lines_count), Ordering::Relaxed);
    move || filled.store(whole, Ordering::Release)
}

/// Has the first slot say where its run starts, or in which block it is.
pub(super) fn say_place(ring: &Ring, start: u64) {
    ring.bytes(0).write(|at| {
        // SAFETY: within the slot.
        unsafe { at.add(START_AT).cast::<[u64; 2]>().write_unaligned([start, 0]) }
    });
}

/// Makes the n-th packet one that no correct writer writes.
pub(crate) fn spoil(ring: &Ring, n: u32) {
    ring.word(n).store(word_of(n.wrapping_add(1), 0, IN_PIECES - 1), Ordering::Release);
}

fn zeroed<const N: usize>() -> cell::Cell<[u8; N]> {
    // SAFETY: a cell of bytes: all zero is valid.
    unsafe { std::mem::zeroed() }
}

fn random_length(random: &mut Random, max: usize) -> usize {
    match random.index(4) {
        0 => random.index(SLOT_BYTES.min(max) + 1),
        1 => random.index(130.min(max) + 1),
        _ => random.index(max + 1),
    }
}

#[test]
fn a_writer_without_lines_learns_when_there_are_some() {
    let ring = ring(64, [16, 256]);
    let (mut sender, mut receiver) = (Sender::new(ring, false), Receiver::new(ring));
    for bytes in [4 * LINE_BYTES, 64 * LINE_BYTES] {
        let payload = vec![7; bytes];
        for _ in 0..3 {
            let mut count = 0;
            while push(&mut sender, b"head", [&payload, &[]]).is_ok() {
                count += 1;
            }
            assert!(count > 0 && !sender.has_news(), "it has heard of all that is released");
            while !sender.has_news() {
                assert_eq!(receiver.poll(), Seen::Packet);
                receiver.release();
            }
        }
        while receiver.poll() == Seen::Packet {
            receiver.release();
        }
    }
}

#[test]
fn a_ring_is_a_queue_for_any_lengths_and_any_interleaving() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let slots_count = 4 << random.index(4);
        // Up to packets of 64 KiB, which go in pieces, and rings of which short runs take the first half.
        let lines_count = 16 << random.index(9);
        let bulk_count = [0, 4 * lines_count][random.index(2)];
        let ring = ring(slots_count, [lines_count, bulk_count]);
        let processor = [Processor::ANY, Processor::AMD][random.index(2)];
        let (mut sender, mut receiver) = (Sender::on(processor, ring, true), Receiver::new(ring));
        sender.is_of_other_core = random.index(2) == 0;
        // As if it had run for long: the count of slots wraps round in the middle of the test.
        let far = (u32::MAX - random.index(40) as u32) & !(slots_count as u32 - 1);
        start_at(&mut sender, &mut receiver, far);
        let mut model: VecDeque<(Vec<u8>, Vec<u8>)> = VecDeque::new();
        for step in 0..600 {
            if random.index(2) == 0 {
                let header_bytes = random.index(HEADER_BYTES_MAX + 1);
                let max = ring.data_bytes_max(&processor)
                    - if header_bytes > SLOT_BYTES { header_bytes } else { 0 };
                let header = random.bytes(header_bytes);
                let payload_bytes = random_length(&mut random, max);
                let payload = random.bytes(payload_bytes);
                let (a, b) = payload.split_at(random.index(payload.len() + 1));
                if push(&mut sender, &header, [a, b]).is_ok() {
                    model.push_back((header, payload));
                } else {
                    assert!(!model.is_empty(), "seed {seed} step {step}: full and empty at once");
                }
            } else {
                let seen = if model.is_empty() { Seen::Nothing } else { Seen::Packet };
                assert_eq!(receiver.poll(), seen, "seed {seed} step {step}");
                if let Some((header, payload)) = model.pop_front() {
                    assert_eq!(receiver.front(), (&header[..], &payload[..]), "seed {seed} step {step}");
                    receiver.release();
                }
            }
        }
    }
}

/// Both ways: who reads one packet sends the next.
#[test]
fn rings_both_ways_are_queues_that_tell_what_is_released() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let lines_count = 64 << random.index(5);
        let rings = [(); 2].map(|()| ring(16, [lines_count, 0]));
        let processor = [Processor::ANY, Processor::AMD][random.index(2)];
        let mut ends =
            [0, 1].map(|me| (Sender::on(processor, rings[me], true), Receiver::new(rings[1 - me])));
        let mut models: [VecDeque<Vec<u8>>; 2] = Default::default();
        for step in 0..400 {
            let me = random.index(2);
            let (sender, receiver) = &mut ends[me];
            if random.index(2) == 0 {
                let payload_bytes = random_length(&mut random, rings[me].data_bytes_max(&Processor::ANY));
                let payload = random.bytes(payload_bytes);
                if sender.push(&[me as u8; 32], [&payload, &[]], receiver).is_ok() {
                    models[me].push_back(payload);
                }
                continue;
            }
            let expected = models[1 - me].pop_front();
            let seen = if expected.is_some() { Seen::Packet } else { Seen::Nothing };
            assert_eq!(receiver.poll(), seen, "seed {seed} step {step}");
            if let Some(payload) = expected {
                assert_eq!(
                    receiver.front(),
                    (&[1 - me as u8; 32][..], &payload[..]),
                    "seed {seed} step {step}"
                );
                receiver.release();
            }
        }
    }
}

/// Where in the near lines packets of `payload_bytes` begin, to and fro, or one way, with so many in a window
/// before the reader reads them all.
fn places(processor: Processor, payload_bytes: usize, window: Option<usize>) -> Vec<usize> {
    let rings = [(); 2].map(|()| ring(256, [2048, 0]));
    let mut ends = [0, 1].map(|me| (Sender::on(processor, rings[me], true), Receiver::new(rings[1 - me])));
    let payload = vec![1; payload_bytes];
    let mut places = Vec::new();
    for _ in 0..300 {
        for me in [0, 1] {
            if me == 1 && window.is_some() {
                continue;
            }
            let [a, b] = &mut ends;
            let ((sender, back), (_, receiver)) = if me == 0 { (a, b) } else { (b, a) };
            for _ in 0..window.unwrap_or(1) {
                sender.push(&[2; 32], [&payload, &[]], back).unwrap();
            }
            for _ in 0..window.unwrap_or(1) {
                assert_eq!(receiver.poll(), Seen::Packet);
                if me == 0 {
                    let first = rings[0].areas[NEAR].as_ptr() as usize;
                    places.push((receiver.front().1.as_ptr() as usize - first) / LINE_BYTES);
                }
                receiver.release();
            }
        }
    }
    places
}

#[test]
fn short_runs_to_and_fro_take_the_first_lines_again() {
    for payload_bytes in [512, 1024, 4096] {
        let places = places(Processor::AMD, payload_bytes, None);
        let cycle: Vec<usize> = (0..128).step_by(payload_bytes / LINE_BYTES).cycle().take(300).collect();
        assert_eq!(places, cycle, "{payload_bytes}");
    }
    assert!(places(Processor::AMD, 8192, None).contains(&(2048 - 128)), "longer ones go round all lines");
    assert!(
        places(Processor::AMD, 448, None).contains(&(2048 - 7 - 4)),
        "and shorter ones, with four lines left over"
    );
    assert_eq!(
        places(Processor::ANY, 1024, None).iter().max(),
        Some(&(1024 - 16)),
        "half where that is not quicker"
    );
    assert!(places(Processor::ANY, 448, None).iter().all(|&place| place <= 1024 - 7));
}

#[test]
fn short_runs_one_way_return_once_the_first_lines_are_free() {
    // Sixteen at a time: the first lines are not released when they are used up.
    let places = places(Processor::AMD, 1024, Some(16));
    assert!(places.iter().all(|&place| place < 512), "{places:?}");
    assert!(places.iter().filter(|&&place| place == 0).count() > 50, "back with each window");
}

#[test]
fn a_run_is_placed_only_where_one_can_start() {
    let read = |header_bytes: usize, payload_bytes: usize, start: u64| {
        let ring = ring(16, [64, 0]);
        let mut receiver = Receiver::new(ring);
        receiver.next_line[NEAR] = 70;
        say_place(&ring, start);
        let word = word_of(1, header_bytes, payload_bytes | PLACED);
        ring.word(0).store(word, Ordering::Release);
        receiver.poll()
    };
    for (payload_bytes, start) in [(200, 70), (200, 124), (1000, 112), (200, 128), (200, 70 + 127)] {
        assert_eq!(read(8, payload_bytes, start), Seen::Packet, "{payload_bytes} {start}");
    }
    // Behind, across the end, too far ahead, with a header that leaves no room, and in no data lines.
    let bad = [(8, 200, 69), (8, 200, 125), (8, 1000, 113), (8, 200, 70 + 128), (41, 200, 70), (8, 48, 70)];
    for (header_bytes, payload_bytes, start) in bad {
        let seen = read(header_bytes, payload_bytes, start);
        assert_eq!(seen == Seen::Corrupt, payload_bytes > 48, "{header_bytes} {payload_bytes} {start}");
    }
}

/// In bulk lines all goes in turn.
#[test]
fn no_run_of_bulk_lines_is_placed() {
    let ring = ring(16, [64, 256]);
    let mut receiver = Receiver::new(ring);
    receiver.next_line = [70, 70, 0];
    say_place(&ring, 70);
    ring.word(0).store(word_of(1, 8, 2_000 | PLACED), Ordering::Release);
    assert_eq!(receiver.poll(), Seen::Corrupt);
}

#[test]
fn what_is_released_is_heard_where_it_is_told_and_only_there() {
    // Short headers leave room for it, and lengths that go back to the first lines have it.
    let cases =
        [(32, 1024, Some(5)), (40, 1024, Some(5)), (41, 1024, None), (56, 1024, None), (8, 8192, None)];
    for (header_bytes, payload_bytes, heard) in cases {
        let ring = ring(16, [1024, 0]);
        let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
        let mut back = Receiver::new(ring);
        back.next_line[NEAR] = 5;
        // What was in the slots before is no number of lines.
        for _ in 0..16 {
            push(&mut sender, &[9; SLOT_BYTES], [&[], &[]]).unwrap();
            assert_eq!(receiver.poll(), Seen::Packet);
            receiver.release();
        }
        sender.push(&vec![7; header_bytes], [&vec![1; payload_bytes], &[]], &mut back).unwrap();
        assert!(matches!(receiver.poll(), Seen::Packet));
        assert_eq!(receiver.heard, heard, "{header_bytes} {payload_bytes}");
    }
}

/// Runs of one line: the header fills the slot.
#[test]
fn no_line_is_written_again_before_it_is_released() {
    for lines_count in [4, 16] {
        let ring = ring(64, [lines_count, 0]);
        // As memory of a new segment.
        ring.counts.filled.areas.store(0, Ordering::Relaxed);
        let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
        let mut next = 0;
        for _ in 0..3 {
            let first = next;
            while push(&mut sender, &[8; SLOT_BYTES], [&[next; LINE_BYTES], &[]]).is_ok() {
                next += 1;
            }
            assert_eq!(usize::from(next - first), lines_count);
            for number in first..next {
                assert_eq!(receiver.poll(), Seen::Packet);
                assert_eq!(receiver.front(), (&[8; SLOT_BYTES][..], &[number; LINE_BYTES][..]));
                receiver.release();
            }
        }
    }
}

#[test]
fn a_use_of_the_lines_that_no_writer_has_is_an_error() {
    let read_long = |word: u64, payload_bytes: usize| {
        let ring = ring(16, [64, 256]);
        ring.counts.filled.areas.store(word, Ordering::Relaxed);
        ring.word(0).store(word_of(1, 8, payload_bytes), Ordering::Release);
        Receiver::new(ring).poll()
    };
    let read = |word| read_long(word, 200);
    // Exponents of the near and bulk lines' counts, and the longest run in near lines.
    let word = |near: u64, bulk: u64, run_max: u64| run_max << 16 | bulk << 8 | near;
    for (near, bulk, run_max) in [(6, 8, 16), (6, 8, 1), (5, 8, 8), (6, 8, 0), (6, 7, 16), (6, 0, 16)] {
        assert_eq!(read(word(near, bulk, run_max)), Seen::Packet, "{near} {bulk} {run_max}");
    }
    let bad = [(7, 8, 16), (6, 9, 16), (6, 8, 17), (64, 8, 16), (6, 64, 16), (0, 0, 0)];
    for (near, bulk, run_max) in bad {
        assert_eq!(read(word(near, bulk, run_max)), Seen::Corrupt, "{near} {bulk} {run_max}");
    }
    // A packet takes a quarter of an area at most.
    for (bulk, lines_count) in [(8, 64), (7, 32), (0, 16)] {
        for (bytes, expected) in [(0, Seen::Packet), (1, Seen::Corrupt)] {
            let payload_bytes = lines_count * LINE_BYTES + bytes;
            assert_eq!(read_long(word(6, bulk, 16), payload_bytes), expected, "{bulk} {payload_bytes}");
        }
    }
}

#[test]
fn a_peer_that_says_it_has_released_too_much_is_not_believed() {
    let (there, back) = (ring(16, [64, 0]), ring(16, [64, 0]));
    let (mut sender, mut receiver) = (Sender::new(there, true), Receiver::new(back));
    let mut peer = (Sender::new(back, true), Receiver::new(there));
    let mut count = 0;
    for said in [u64::MAX, 1 << 40, 64] {
        peer.1.next_line[NEAR] = said;
        peer.0.push(&[1; 8], [&[0; 512], &[]], &mut peer.1).unwrap();
        assert_eq!(receiver.poll(), Seen::Packet);
        receiver.release();
        while sender.push(&[1; 8], [&[0; 1024], &[]], &mut receiver).is_ok() {
            count += 1;
        }
    }
    assert_eq!(count, 4 + 4, "only what was sent can have been released");
}

fn start_at(sender: &mut Sender, receiver: &mut Receiver, count: u32) {
    for word in sender.ring.pairs.iter().flat_map(|pair| [&pair.even, &pair.odd]) {
        word.store((count as u64) << 32, Ordering::Relaxed);
    }
    (sender.next, sender.released_slots) = (count, count);
    sender.begin();
    (receiver.next, receiver.published_slots) = (count, count);
    sender.ring.counts.released.0[NEAR].store(count.into(), Ordering::Relaxed);
}

#[test]
fn the_longest_packet_always_finds_room_in_an_empty_ring() {
    for (offset, bulk_count) in (0..32).flat_map(|offset| [(offset, 0), (offset, 64)]) {
        let ring = ring(8, [16, bulk_count]);
        let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
        for _ in 0..offset {
            push(&mut sender, &[1; 8], [&[2; 100], &[]]).unwrap();
            assert_eq!(receiver.poll(), Seen::Packet);
            receiver.release();
            if bulk_count > 0 {
                push(&mut sender, &[1; 8], [&[2; 500], &[]]).unwrap();
                assert_eq!(receiver.poll(), Seen::Packet);
                receiver.release();
            }
        }
        let payload = vec![3; ring.data_bytes_max(&Processor::here())];
        push(&mut sender, &[1; 8], [&payload, &[]]).expect("room");
    }
}

#[test]
fn a_full_ring_takes_nothing_of_a_packet() {
    let ring = ring(4, [16, 0]);
    let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
    for index in 0..4u8 {
        push(&mut sender, &[index; 8], [&[], &[]]).unwrap();
    }
    assert_eq!(push(&mut sender, &[9; 8], [&[], &[]]), Err(Full));
    assert_eq!(push(&mut sender, &[9; 8], [&[0; 200], &[]]), Err(Full));
    for index in 0..4u8 {
        assert_eq!(receiver.poll(), Seen::Packet);
        assert_eq!(receiver.front().0, [index; 8]);
        receiver.release();
        // As many as have been taken.
        push(&mut sender, &[4 + index; 8], [&[], &[]]).unwrap();
        assert_eq!(push(&mut sender, &[9; 8], [&[], &[]]), Err(Full));
    }
    for index in 4..8u8 {
        assert_eq!(receiver.poll(), Seen::Packet);
        assert_eq!(receiver.front().0, [index; 8]);
        receiver.release();
    }
    assert_eq!(receiver.poll(), Seen::Nothing);
    assert!(sender.has_news());
    push(&mut sender, &[9; 8], [&[], &[]]).unwrap();
}

#[test]
fn a_word_no_correct_peer_writes_is_an_error_and_no_access() {
    let ring = ring(4, [16, 0]);
    let mut receiver = Receiver::new(ring);
    for (header_bytes, payload_bytes) in
        [(8, 0xff_ffff), (200, 10), (0, ring.data_bytes_max(&Processor::ANY) + 1)]
    {
        ring.word(0).store(word_of(1, header_bytes, payload_bytes), Ordering::Relaxed);
        assert_eq!(receiver.poll(), Seen::Corrupt);
    }
}

#[test]
fn paired_packet_skips_an_odd_slot_and_needs_full_room() {
    let ring = ring(4, [16, 0]);
    let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
    push(&mut sender, &[1; 8], [&[], &[]]).unwrap();
    push(&mut sender, &[2; 8], [&[3; PAIR_BYTES - 8], &[]]).unwrap();
    assert_eq!(push(&mut sender, &[4; 8], [&[], &[]]), Err(Full), "one, one skipped, two");
    assert_eq!(receiver.poll(), Seen::Packet);
    receiver.release();
    assert_eq!(push(&mut sender, &[4; 8], [&[5; 50], &[]]), Err(Full), "one slot is not two");
    assert!(receiver.is_ready());
    assert_eq!(receiver.poll(), Seen::Packet);
    assert_eq!(receiver.front(), (&[2; 8][..], &[3; PAIR_BYTES - 8][..]));
    receiver.release();
    push(&mut sender, &[4; 8], [&[5; 20], &[6; 30]]).unwrap();
    assert_eq!(receiver.poll(), Seen::Packet);
    assert_eq!(receiver.front(), (&[4; 8][..], &[[5; 20].as_slice(), &[6; 30]].concat()[..]));
    let slots = [0, 1, 2, 3].map(|n| ring.word(n).load(Ordering::Relaxed) >> 32);
    assert_eq!(slots, [5, 6, 3, 4], "each slot has the number of its last round, also the second of a pair");
}

#[test]
fn a_skipped_slot_is_odd_and_a_packet_has_come_behind_it() {
    let skip = |n| word_of(n, SKIPPED, 0);
    let first = word_of(1, 8, 0);
    for words in [
        [skip(1), word_of(2, 8, 0), 0],
        [first, skip(2), 0],
        [first, word_of(2, 8, 60), 0],
        [first, word_of(2, 8, PAIR_BYTES - 8), 0],
        // Behind a skipped slot is what does not fit one.
        [first, skip(2), word_of(3, 8, SLOT_BYTES - 8)],
    ] {
        let ring = ring(4, [16, 0]);
        let mut receiver = Receiver::new(ring);
        (0..).zip(words).for_each(|(n, word)| ring.word(n).store(word, Ordering::Relaxed));
        let mut seen = receiver.poll();
        if seen == Seen::Packet {
            receiver.release();
            seen = receiver.poll();
        }
        assert_eq!(seen, Seen::Corrupt, "{words:x?}");
    }
}

#[test]
fn a_count_no_correct_peer_writes_gives_no_room() {
    let ring = ring(4, [16, 0]);
    let mut sender = Sender::new(ring, true);
    for _ in 0..4 {
        push(&mut sender, &[0; 8], [&[], &[]]).unwrap();
    }
    for nonsense in [5, u64::MAX, 1 << 32 | 4] {
        ring.counts.released.0[NEAR].store(nonsense, Ordering::Relaxed);
        assert_eq!(push(&mut sender, &[0; 8], [&[], &[]]), Err(Full));
    }
}

#[test]
fn packet_in_pieces_is_announced_once_and_read_as_written() {
    let ring = ring(4, [2048, 0]);
    let mut receiver = Receiver::new(ring);
    let filled = &ring.counts.filled.lines[NEAR];
    ring.word(0).store(word_of(1, 8, 20_000 | IN_PIECES), Ordering::Release);
    assert!(receiver.is_ready());
    assert_eq!(receiver.poll(), Seen::Front(20_000));
    assert_eq!(receiver.poll(), Seen::Nothing, "its writer does not go on");
    assert!(!receiver.is_ready(), "nothing to wake up for");
    assert_eq!((receiver.front().0.len(), receiver.front().1.len()), (8, 0), "the header only");
    // Counts of the last round, and such as no writer stores.
    for nonsense in [u64::MAX, 2 * 2048 + 1, 1 << 31] {
        filled.store(nonsense, Ordering::Release);
        assert_eq!(receiver.written(0), [0; 0], "{nonsense}");
    }
    filled.store(2 * 2048, Ordering::Release);
    assert_eq!(receiver.written(0).len(), 20_000, "all, and more of two rounds");
    filled.store(64, Ordering::Release);
    assert_eq!((receiver.written(0).len(), receiver.written(4000).len()), (4096, 96));
    assert_eq!(receiver.poll(), Seen::Nothing);
    filled.store(313, Ordering::Release);
    assert_eq!(receiver.written(0).len(), 20_000);
    assert_eq!(receiver.written(20_010), [0; 0], "more was read than its peer says now");
    assert!(receiver.is_ready());
    assert_eq!(receiver.poll(), Seen::Packet, "whole, for those who did not want it in pieces");
    assert_eq!(receiver.front().1.len(), 20_000);
    receiver.release();
    // The writer may be at the next packet already.
    ring.word(1).store(word_of(2, 8, 12_000 | IN_PIECES), Ordering::Release);
    assert_eq!(receiver.poll(), Seen::Front(12_000));
    filled.store(313 + 188 + 64, Ordering::Release);
    assert_eq!(receiver.written(0).len(), 12_000);
}

#[test]
fn nothing_is_tried_before_lines_are_used_again() {
    let ring = ring(64, [128, 1024]);
    let (mut sender, mut receiver) = (Sender::on(Processor::AMD, ring, true), Receiver::new(ring));
    sender.is_of_other_core = true;
    let payload = vec![7; 64 * LINE_BYTES];
    for packet in 0..18 {
        let (_, is_trial) = sender.manner(BULK);
        assert_eq!(is_trial, packet > 16, "packet {packet}");
        push(&mut sender, &[1; 32], [&payload, &[]]).unwrap();
        assert_eq!(receiver.poll(), Seen::Packet);
        receiver.release();
    }
}

#[test]
fn memory_of_bulk_lines_is_provided_first_for_few_then_for_all() {
    const LINES_COUNT: usize = 8 * PROVIDED_FIRST_LINES as usize;
    let ring = ring(64, [128, LINES_COUNT]);
    let file = Arc::new(sys::memory_file().unwrap());
    sys::set_length(&file, LINES_COUNT * LINE_BYTES).unwrap();
    let provided_bytes = || rustix::fs::fstat(&file).unwrap().st_blocks as usize * 512;
    let mut sender = Sender::on(Processor::AMD, ring, true).backed_by(Backing { file: file.clone(), at: 0 });
    let mut receiver = Receiver::new(ring);
    let payload = vec![7; 60 << 10];
    let expected = [64 << 10, 128 << 10, LINES_COUNT * LINE_BYTES, LINES_COUNT * LINE_BYTES];
    for (packet, expected) in expected.into_iter().enumerate() {
        push(&mut sender, &[1; 32], [&payload, &[]]).unwrap();
        assert_eq!(provided_bytes(), expected, "after packet {packet}");
        assert_eq!(receiver.poll(), Seen::Packet);
        assert_eq!(receiver.front().1, payload);
        receiver.release();
    }
}

#[test]
fn memory_of_bulk_lines_is_mapped_once_if_they_are_used() {
    const FEW: usize = PROVIDED_FIRST_LINES as usize / 4;
    // Few bulk lines, which are used again and again; more than those that are provided first; none used.
    for (bulk, payload_lines, is_used) in [(FEW, FEW / 4, true), (8 * FEW, FEW, true), (8 * FEW, 16, false)] {
        let ring = ring(64, [128, bulk]);
        let (mut sender, mut receiver) = (Sender::new(ring, false), Receiver::new(ring));
        let payload = vec![7; payload_lines * LINE_BYTES];
        let packets_before = PROVIDED_FIRST_LINES as usize / payload_lines + 1;
        for packet in 0..2 * packets_before {
            push(&mut sender, &[1; 32], [&payload, &[]]).unwrap();
            assert_eq!(receiver.poll(), Seen::Packet);
            assert_eq!(receiver.has_mapped, is_used && packet >= packets_before, "{bulk} lines, {packet}");
            receiver.release();
        }
    }
}

#[test]
fn two_threads_see_every_packet_whole_and_in_order() {
    let ring = ring(16, [512, 2048]);
    let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
    const COUNT: u64 = 30_000;
    let writer = std::thread::spawn(move || {
        let mut random = Random::new(7);
        for index in 0..COUNT {
            let payload =
                vec![index as u8; random_length(&mut random, ring.data_bytes_max(&Processor::here()))];
            while push(&mut sender, &index.to_ne_bytes(), [&payload, &[]]).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let mut random = Random::new(7);
    let mut pieces = Vec::new();
    for index in 0..COUNT {
        let length = random_length(&mut random, ring.data_bytes_max(&Processor::here()));
        let seen = loop {
            match receiver.poll() {
                Seen::Nothing => std::thread::yield_now(),
                seen => break seen,
            }
        };
        let (header, mut payload) = receiver.front();
        assert_eq!(header, index.to_ne_bytes());
        pieces.clear();
        while seen == Seen::Front(length) && pieces.len() < length {
            pieces.extend_from_slice(receiver.written(pieces.len()));
        }
        if seen != Seen::Packet {
            payload = &pieces;
        }
        assert!(payload.len() == length && payload.iter().all(|&byte| byte == index as u8), "packet {index}");
        receiver.release();
    }
    writer.join().unwrap();
}
