use super::*;
use ayatori_random::Random;
use std::collections::VecDeque;

/// A ring in leaked, zeroed memory.
pub(crate) fn ring(slots_count: usize, lines_counts: [usize; AREAS_COUNT]) -> Ring {
    let pair = |_| Pair { even: AtomicU64::new(0), bytes: [zeroed(), zeroed()], odd: AtomicU64::new(0) };
    let line = |_| Line(zeroed());
    Ring {
        pairs: (0..slots_count / 2).map(pair).collect::<Vec<_>>().leak(),
        areas: lines_counts.map(|count| &*(0..count).map(line).collect::<Vec<_>>().leak()),
        counts: Box::leak(Box::new(Counts {
            released: Released([0; AREAS_COUNT].map(AtomicU64::new)),
            filled: Filled([0; AREAS_COUNT].map(AtomicU64::new)),
        })),
    }
}

/// Takes so many lines of a packet in bulk lines back, as if they were still to be written; the call of what
/// is returned writes them.
pub(crate) fn hold_back(ring: &Ring, lines_count: u32) -> impl FnOnce() + use<> {
    let filled = &ring.counts.filled.0[BULK];
    let whole = filled.load(Ordering::Relaxed);
    filled.store(u64::from((whole as u32).wrapping_sub(lines_count)), Ordering::Relaxed);
    move || filled.store(whole, Ordering::Release)
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
            while sender.push(b"head", [&payload, &[]]).is_ok() {
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
        let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
        sender.is_page_wise = random.index(2) == 0;
        // As if it had run for long: the counters wrap round in the middle of the test.
        let far = (u32::MAX - random.index(40) as u32) & !(slots_count as u32 - 1);
        start_at(&mut sender, &mut receiver, far);
        let mut model: VecDeque<(Vec<u8>, Vec<u8>)> = VecDeque::new();
        for step in 0..600 {
            if random.index(2) == 0 {
                let header_bytes = random.index(HEADER_BYTES_MAX + 1);
                let max = ring.data_bytes_max() - if header_bytes > SLOT_BYTES { header_bytes } else { 0 };
                let header = random.bytes(header_bytes);
                let payload_bytes = random_length(&mut random, max);
                let payload = random.bytes(payload_bytes);
                let (a, b) = payload.split_at(random.index(payload.len() + 1));
                if sender.push(&header, [a, b]).is_ok() {
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

fn start_at(sender: &mut Sender, receiver: &mut Receiver, count: u32) {
    for word in sender.ring.pairs.iter().flat_map(|pair| [&pair.even, &pair.odd]) {
        word.store((count as u64) << 32, Ordering::Relaxed);
    }
    (sender.next, sender.released_slots) = (count, count);
    (receiver.next, receiver.published_slots) = (count, count);
    (sender.next_line, sender.released_lines) = ([count; AREAS_COUNT], [count; AREAS_COUNT]);
    (receiver.next_line, receiver.published_lines) = ([count; AREAS_COUNT], [count; AREAS_COUNT]);
    for released in &sender.ring.counts.released.0 {
        released.store((count as u64) << 32 | count as u64, Ordering::Relaxed);
    }
}

#[test]
fn the_longest_packet_always_finds_room_in_an_empty_ring() {
    for (offset, bulk_count) in (0..32).flat_map(|offset| [(offset, 0), (offset, 64)]) {
        let ring = ring(8, [16, bulk_count]);
        let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
        for _ in 0..offset {
            sender.push(&[1; 8], [&[2; 100], &[]]).unwrap();
            assert_eq!(receiver.poll(), Seen::Packet);
            receiver.release();
            if bulk_count > 0 {
                sender.push(&[1; 8], [&[2; 500], &[]]).unwrap();
                assert_eq!(receiver.poll(), Seen::Packet);
                receiver.release();
            }
        }
        let payload = vec![3; ring.data_bytes_max()];
        sender.push(&[1; 8], [&payload, &[]]).expect("room");
    }
}

#[test]
fn a_full_ring_takes_nothing_of_a_packet() {
    let ring = ring(4, [16, 0]);
    let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
    for index in 0..4u8 {
        sender.push(&[index; 8], [&[], &[]]).unwrap();
    }
    assert_eq!(sender.push(&[9; 8], [&[], &[]]), Err(Full));
    assert_eq!(sender.push(&[9; 8], [&[0; 200], &[]]), Err(Full));
    for index in 0..4u8 {
        assert_eq!(receiver.poll(), Seen::Packet);
        assert_eq!(receiver.front().0, [index; 8]);
        receiver.release();
    }
    assert_eq!(receiver.poll(), Seen::Nothing);
    assert!(sender.has_news());
    sender.push(&[9; 8], [&[], &[]]).unwrap();
}

#[test]
fn a_word_no_correct_peer_writes_is_an_error_and_no_access() {
    let ring = ring(4, [16, 0]);
    let mut receiver = Receiver::new(ring);
    for (header_bytes, payload_bytes) in [(8, 0xff_ffff), (200, 10), (0, ring.data_bytes_max() + 1)] {
        ring.word(0).store(word_of(1, header_bytes, payload_bytes), Ordering::Relaxed);
        assert_eq!(receiver.poll(), Seen::Corrupt);
    }
}

#[test]
fn paired_packet_skips_an_odd_slot_and_needs_full_room() {
    let ring = ring(4, [16, 0]);
    let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
    sender.push(&[1; 8], [&[], &[]]).unwrap();
    sender.push(&[2; 8], [&[3; PAIR_BYTES - 8], &[]]).unwrap();
    assert_eq!(sender.push(&[4; 8], [&[], &[]]), Err(Full), "one, one skipped, two");
    assert_eq!(receiver.poll(), Seen::Packet);
    receiver.release();
    assert_eq!(sender.push(&[4; 8], [&[5; 50], &[]]), Err(Full), "one slot is not two");
    assert!(receiver.is_ready());
    assert_eq!(receiver.poll(), Seen::Packet);
    assert_eq!(receiver.front(), (&[2; 8][..], &[3; PAIR_BYTES - 8][..]));
    receiver.release();
    sender.push(&[4; 8], [&[5; 20], &[6; 30]]).unwrap();
    assert_eq!(receiver.poll(), Seen::Packet);
    assert_eq!(receiver.front(), (&[4; 8][..], &[[5; 20].as_slice(), &[6; 30]].concat()[..]));
    let slots = [0, 1, 2, 3].map(|n| ring.word(n).load(Ordering::Relaxed) >> 32);
    assert_eq!(slots, [5, 6, 3, 4], "each slot has the number of its last round, also the second of a pair");
}

#[test]
fn a_skipped_slot_is_odd_and_a_packet_has_come_behind_it() {
    let skip = |n| word_of(n, SKIPPED, 0);
    for words in
        [[skip(1), word_of(2, 8, 0)], [word_of(1, 8, 0), skip(2)], [word_of(1, 8, 0), word_of(2, 8, 60)]]
    {
        let ring = ring(4, [16, 0]);
        let mut receiver = Receiver::new(ring);
        ring.word(0).store(words[0], Ordering::Relaxed);
        ring.word(1).store(words[1], Ordering::Relaxed);
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
        sender.push(&[0; 8], [&[], &[]]).unwrap();
    }
    for nonsense in [5, u64::MAX, 1 << 32 | 4] {
        ring.counts.released.0[NEAR].store(nonsense, Ordering::Relaxed);
        assert_eq!(sender.push(&[0; 8], [&[], &[]]), Err(Full));
    }
}

#[test]
fn packet_in_pieces_is_announced_once_and_read_as_written() {
    let ring = ring(4, [2048, 0]);
    let mut receiver = Receiver::new(ring);
    let filled = &ring.counts.filled.0[NEAR];
    ring.word(0).store(word_of(1, 8, 20_000 | IN_PIECES), Ordering::Release);
    assert!(receiver.is_ready());
    assert_eq!(receiver.poll(), Seen::Front(20_000));
    assert_eq!(receiver.poll(), Seen::Nothing, "its writer does not go on");
    assert!(!receiver.is_ready(), "nothing to wake up for");
    assert_eq!((receiver.front().0.len(), receiver.front().1.len()), (8, 0), "the header only");
    // Counts of the last round, and such as no writer stores.
    for nonsense in [u64::from(u32::MAX), 2049, 1 << 31] {
        filled.store(nonsense, Ordering::Release);
        assert_eq!(receiver.written(0), [0; 0], "{nonsense}");
    }
    filled.store(64, Ordering::Release);
    assert_eq!((receiver.written(0).len(), receiver.written(4000).len()), (4096, 96));
    assert_eq!(receiver.poll(), Seen::Nothing);
    filled.store(313, Ordering::Release);
    assert_eq!(receiver.written(0).len(), 20_000);
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
fn two_threads_see_every_packet_whole_and_in_order() {
    let ring = ring(16, [512, 2048]);
    let (mut sender, mut receiver) = (Sender::new(ring, true), Receiver::new(ring));
    const COUNT: u64 = 30_000;
    let writer = std::thread::spawn(move || {
        let mut random = Random::new(7);
        for index in 0..COUNT {
            let payload = vec![index as u8; random_length(&mut random, ring.data_bytes_max())];
            while sender.push(&index.to_ne_bytes(), [&payload, &[]]).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let mut random = Random::new(7);
    let mut pieces = Vec::new();
    for index in 0..COUNT {
        let length = random_length(&mut random, ring.data_bytes_max());
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
