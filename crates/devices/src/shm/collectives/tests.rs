mod model;

use super::*;
use crate::shm::device::tests::world;
use ayatori_core::buffer::Buffer;
use std::thread;

/// Runs `f(rank, collectives)` as one thread a rank.
fn run(n: u32, is_oversubscribed: bool, f: impl Fn(u32, &mut NodeCollectives) + Sync) {
    run_on(world(n, |_| {}), if is_oversubscribed { 1 } else { n }, f);
}

fn run_on(devices: Vec<Shm>, cpus_count: u32, f: impl Fn(u32, &mut NodeCollectives) + Sync) {
    let n = devices.len() as u32;
    let occupancy = Occupancy::new(n, cpus_count);
    thread::scope(|scope| {
        for (rank, device) in devices.into_iter().enumerate() {
            let f = &f;
            scope.spawn(move || {
                let members = (0..n).map(|i| ProcessId(10 + 2 * i));
                let mut collectives = device.open_room(ContextId::WORLD, members, occupancy).unwrap();
                f(rank as u32, &mut collectives);
            });
        }
    });
}

fn finish(collectives: &mut NodeCollectives, call: Call) {
    collectives.start(call);
    while !collectives.advance(&mut concatenate) {
        thread::yield_now();
    }
}

/// Not commutative and not associative, so that a wrong order or grouping shows.
fn concatenate(a: &mut [u8], b: &[u8]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_mul(3).wrapping_add(b ^ 0x55);
    }
}

fn buffer(memory: &mut [u8]) -> Buffer {
    // SAFETY: in these tests `memory` is looked at only when the call has ended.
    unsafe { Buffer::from_raw_parts(memory.as_mut_ptr(), memory.len()) }
}

fn value(rank: u32, index: usize, salt: usize) -> u8 {
    (rank as usize * 31 + index * 7 + salt * 13) as u8
}

fn block(rank: u32, len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|index| value(rank, index, salt)).collect()
}

fn reduced(n: u32, len: usize, salt: usize) -> Vec<u8> {
    let mut result = block(0, len, salt);
    (1..n).for_each(|rank| concatenate(&mut result, &block(rank, len, salt)));
    result
}

const SIZES: [u32; 5] = [1, 2, 3, 8, 33];
const LENGTHS: [usize; 9] = [0, 1, 8, 100, 2048, 2049, 10_000, 65_536, 200_001];

#[test]
fn an_element_longer_than_its_share_of_the_room_is_reduced() {
    // One element of 10,001 B: 64 of them would be whole lines, and more than the room has. It fits alone.
    run(3, true, |rank, collectives| {
        let (mut send, mut receive) = (block(rank, 10_001, 0), vec![0; 10_001]);
        let (send, receive_buffer) = (buffer(&mut send), buffer(&mut receive));
        let call = Call::Allreduce { send, receive: receive_buffer, element_bytes: 10_001 };
        finish(collectives, call);
        assert!(receive == reduced(3, 10_001, 0), "at {rank}");
    });
}

#[test]
fn reductions_are_in_rank_order_for_any_length_and_size() {
    for (n, is_oversubscribed) in SIZES.into_iter().zip([true, false, true, false, true]) {
        run(n, is_oversubscribed, |rank, collectives| {
            for (salt, len) in LENGTHS.into_iter().enumerate() {
                let (mut send, mut receive) = (block(rank, len, salt), vec![0; len]);
                let (send_buffer, receive_buffer) = (buffer(&mut send), buffer(&mut receive));
                let root = salt as u32 % n;
                let call =
                    Call::Reduce { root, send: send_buffer, receive: receive_buffer, element_bytes: 1 };
                finish(collectives, call);
                let want = reduced(n, len, salt);
                assert!(rank != root || receive == want, "reduce {len} at {rank} of {n}");
                let call = Call::Allreduce { send: send_buffer, receive: receive_buffer, element_bytes: 1 };
                finish(collectives, call);
                assert!(receive == want, "allreduce {len} at {rank} of {n}");
                let call = Call::Allreduce { send: send_buffer, receive: send_buffer, element_bytes: 1 };
                finish(collectives, call);
                assert!(send == want, "allreduce in place {len} at {rank} of {n}");
            }
        });
    }
}

#[test]
fn broadcasts_from_any_root_do_not_wait_for_the_slowest() {
    for (n, is_oversubscribed) in SIZES.into_iter().zip([false, true, false, true, false]) {
        run(n, is_oversubscribed, |rank, collectives| {
            for (salt, len) in LENGTHS.into_iter().enumerate() {
                for root in [0, n - 1, n / 2] {
                    let mut memory = if rank == root { block(root, len, salt) } else { vec![0; len] };
                    finish(collectives, Call::Bcast { root, buffer: buffer(&mut memory) });
                    assert!(memory == block(root, len, salt), "{len} from {root} at {rank} of {n}");
                }
            }
        });
    }
}

#[test]
fn long_broadcast_reaches_ranks_without_kernel_copy() {
    let n = 6;
    for (refused, cpus_count) in [(0..0, 6), (0..1, 6), (1..2, 3), (2..6, 6), (0..6, 3)] {
        let devices = world(n, |config| {
            config.kernel_copy = !refused.contains(&config.local_rank);
        });
        run_on(devices, cpus_count, |rank, collectives| {
            for (salt, len) in [8191, 8192, 65_536, 200_001, 70_000].into_iter().enumerate() {
                for root in [0, n - 1, 1] {
                    let mut memory = if rank == root { block(root, len, salt) } else { vec![0; len] };
                    finish(collectives, Call::Bcast { root, buffer: buffer(&mut memory) });
                    assert!(memory == block(root, len, salt), "{len} from {root} at {rank}");
                    if salt % 2 == 0 {
                        finish(collectives, Call::Barrier);
                    }
                }
            }
        });
    }
}

#[test]
fn blocks_go_where_they_belong() {
    const LENGTHS: [usize; 8] = [0, 1, 8, 100, 1024, 5000, 70_001, 150_000];
    for n in SIZES {
        // An all-to-all of 33 ranks and 150,000 B moves 163 MB, and shows no more than one of 8.
        let lengths = if n > 8 { &LENGTHS[..6] } else { &LENGTHS };
        run(n, n % 2 == 0, |rank, collectives| {
            for (salt, &len) in lengths.iter().enumerate() {
                let total = len * n as usize;
                let root = salt as u32 % n;
                let mut mine = block(rank, len, salt);
                let mut all = vec![0; total];
                let want: Vec<u8> = (0..n).flat_map(|r| block(r, len, salt)).collect();
                let (send, receive) = (buffer(&mut mine), buffer(&mut all));
                finish(collectives, Call::Gather { root, send, receive });
                assert!(rank != root || all == want, "gather {len} at {rank} of {n}");
                finish(collectives, Call::Allgather { send, receive });
                assert!(all == want, "allgather {len} at {rank} of {n}");
                let call = Call::Scatter { root, send: receive, receive: send };
                finish(collectives, call);
                assert!(mine == block(rank, len, salt), "scatter {len} at {rank} of {n}");
                let mut blocks: Vec<u8> = (0..n).flat_map(|to| block(rank * 64 + to, len, salt)).collect();
                let in_place = buffer(&mut blocks);
                finish(collectives, Call::Alltoall { send: in_place, receive: in_place });
                let want: Vec<u8> = (0..n).flat_map(|from| block(from * 64 + rank, len, salt)).collect();
                assert!(blocks == want, "alltoall {len} at {rank} of {n}");
            }
        });
    }
}

#[test]
fn scans_and_scattered_reductions_fold_in_rank_order() {
    for n in SIZES {
        run(n, n % 2 == 1, |rank, collectives| {
            for (salt, len) in [0, 1, 8, 100, 1024].into_iter().enumerate() {
                let mut memory = block(rank, len, salt);
                let in_place = buffer(&mut memory);
                let scan = |is_inclusive| Call::Scan { send: in_place, receive: in_place, is_inclusive };
                finish(collectives, scan(false));
                let want = if rank == 0 { block(0, len, salt) } else { reduced(rank, len, salt) };
                assert!(memory == want, "exscan {len} at {rank} of {n}");
                memory.copy_from_slice(&block(rank, len, salt));
                finish(collectives, scan(true));
                assert!(memory == reduced(rank + 1, len, salt), "scan {len} at {rank} of {n}");
                let mut send = block(rank, len * n as usize, salt);
                let whole = reduced(n, len * n as usize, salt);
                let call = Call::ReduceScatterBlock { send: buffer(&mut send), receive: in_place };
                finish(collectives, call);
                let own = rank as usize * len..(rank as usize + 1) * len;
                assert!(memory == whole[own], "reduce_scatter_block {len} at {rank} of {n}");
            }
        });
    }
}

#[test]
fn no_rank_leaves_a_barrier_before_all_have_come() {
    use std::sync::atomic::{AtomicU32, Ordering};
    for n in [2, 5] {
        let come = AtomicU32::new(0);
        run(n, true, |rank, collectives| {
            for turn in 0..500 {
                come.fetch_add(1, Ordering::SeqCst);
                finish(collectives, Call::Barrier);
                assert!(come.load(Ordering::SeqCst) >= n * (turn + 1), "{turn} of {n}");
                // Rounds go on between barriers, some of which one member leaves before the others come.
                let mut memory = [if rank == 1 { turn as u8 } else { 0 }];
                finish(collectives, Call::Bcast { root: 1, buffer: buffer(&mut memory) });
                assert_eq!(memory, [turn as u8]);
            }
        });
    }
}

#[test]
fn what_was_written_before_a_barrier_is_read_after_it() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let words = [const { AtomicU32::new(0) }; 2];
    run(2, false, |rank, collectives| {
        let (mine, other) = (&words[rank as usize], &words[1 - rank as usize]);
        for turn in 1..5_000 {
            mine.store(turn, Ordering::Relaxed);
            finish(collectives, Call::Barrier);
            assert_eq!(other.load(Ordering::Relaxed), turn, "before the other has gone on");
            finish(collectives, Call::Barrier);
        }
    });
}

#[test]
fn a_room_that_was_left_begins_anew() {
    for n in [2, 3] {
        let devices = world(n, |_| {});
        let members = || (0..n).map(|rank| ProcessId(10 + 2 * rank));
        let occupancy = Occupancy::new(n, n);
        for made in 2..5 {
            let context = ContextId::new(ProcessId(10), made);
            assert!(devices[0].claim_room(context, members()));
            let open = |device: &Shm| device.open_room(context, members(), occupancy).unwrap();
            let mut rooms: Vec<NodeCollectives> = devices.iter().map(open).collect();
            for last in [0, 1, 1] {
                let (mut ones, mut sums) = ([1_u8; 3], [0_u8; 3]);
                let of = |memory: &mut [u8; 3], rank| buffer(&mut memory[rank..][..1]);
                for rank in (0..n as usize).filter(|&rank| rank != last).chain([last]) {
                    assert!(
                        !rooms[usize::from(last == 0)].advance(&mut add) || rank == usize::from(last == 0)
                    );
                    let (send, receive) = (of(&mut ones, rank), of(&mut sums, rank));
                    rooms[rank].start(Call::Allreduce { send, receive, element_bytes: 1 });
                }
                assert!(rooms.iter_mut().all(|room| room.advance(&mut add)));
                assert_eq!(sums[..n as usize], [n as u8; 3][..n as usize]);
            }
            rooms.into_iter().for_each(NodeCollectives::leave);
        }
    }
}

#[test]
fn a_call_is_an_exchange_where_the_core_says_that_it_is() {
    use ayatori_core::coll::Collective;
    use ayatori_core::coll::select::Question;
    const N: u32 = 4;
    run(N, false, |_, collectives| {
        let (mut from, mut to) = (vec![0; 4 << 10], vec![0; 16 << 10]);
        for len in [0, 8, 512, 516, 2048, 2052, 4096] {
            let (send, receive) = (buffer(&mut from).part(0, len), buffer(&mut to));
            let block = len / N as usize;
            let calls = [
                (Collective::Barrier, 0, Call::Barrier),
                (Collective::Bcast, len, Call::Bcast { root: 0, buffer: send }),
                (Collective::Reduce, len, Call::Reduce { root: 0, send, receive, element_bytes: 1 }),
                (Collective::Allreduce, len, Call::Allreduce { send, receive, element_bytes: 1 }),
                (Collective::Gather, len, Call::Gather { root: 0, send, receive }),
                (Collective::Allgather, len, Call::Allgather { send, receive }),
                (Collective::Scatter, len, Call::Scatter { root: 0, send, receive }),
                (Collective::Alltoall, block, Call::Alltoall { send, receive }),
                (Collective::ReduceScatter, len, Call::ReduceScatterBlock { send, receive }),
                (Collective::Scan, len, Call::Scan { send, receive, is_inclusive: true }),
                (Collective::Exscan, len, Call::Scan { send, receive, is_inclusive: false }),
            ];
            for (collective, bytes, call) in calls {
                let question = Question { collective, bytes, size: N, commutative: true };
                let is_exchange = shared_memory::is_exchange(&question, Occupancy::new(N, N));
                let is_meant = matches!(call, Call::Barrier) || collectives.exchanged(&call).is_some();
                assert_eq!(is_meant, is_exchange, "{collective:?} of {bytes} B");
            }
        }
    });
}

fn add(a: &mut [u8], b: &[u8]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
}

#[test]
fn elements_are_never_cut() {
    run(3, false, |rank, collectives| {
        for element_bytes in [6, 12, 16, 20, 32] {
            let len = element_bytes * 7001;
            let mut memory = vec![rank as u8; len];
            let in_place = buffer(&mut memory);
            collectives.start(Call::Allreduce { send: in_place, receive: in_place, element_bytes });
            let mut sum = |a: &mut [u8], b: &[u8]| {
                assert_eq!((a.len() % element_bytes, b.len()), (0, a.len()));
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            };
            while !collectives.advance(&mut sum) {
                thread::yield_now();
            }
            assert!(memory.iter().all(|&byte| byte == 3));
        }
    });
}

#[test]
fn rooms_run_out_and_are_used_again() {
    let devices = world(1, |_| {});
    let device = &devices[0];
    let context = |i| ContextId::new(ProcessId(10), i);
    let occupancy = Occupancy::new(1, 1);
    let me = || std::iter::once(ProcessId(10));
    let open = |i| device.open_room(context(i), me(), occupancy);
    for i in 2..2 + ROOMS_COUNT as u32 - 1 {
        assert!(device.claim_room(context(i), me()), "room {i}");
    }
    assert!(!device.claim_room(context(99), me()) && open(99).is_none());
    assert!(device.open_room(ContextId::WORLD, me(), occupancy).is_some(), "its own is kept for it");
    for _ in 0..3 {
        let mut room = open(5).unwrap();
        finish(&mut room, Call::Barrier);
        room.leave();
        assert!(open(5).is_none());
        assert!(device.claim_room(context(5), me()));
    }
    device.unclaim_room(context(5));
    assert!(device.claim_room(context(6), me()) && open(6).is_some());
    device.unclaim_room(context(6));
    let with_a_stranger = [ProcessId(10), ProcessId(4711)].into_iter();
    assert!(!device.claim_room(context(7), with_a_stranger));
}
