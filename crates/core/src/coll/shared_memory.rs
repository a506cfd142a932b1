//! Collective operations of ranks on one host directly in shared memory, without messages: which operations
//! run so, and how their data are cut. The device has the steps (`devices::shm::collectives`); the simulator
//! models the same steps. This module serves both and `ayatori info --explain`.

use super::select::Question;
use super::{Collective, Fabric};
use core::ops::Range;

/// A cache line, bytes.
pub const LINE_BYTES: usize = 64;

/// Up to this length the last to arrive folds all contributions of a reduction; above, each member folds a
/// part. Bytes.
pub const FOLD_BY_LAST_BYTES_MAX: usize = 2 << 10;

/// Most members of an [exchange](exchange_bytes_max).
pub const EXCHANGE_RANKS_MAX: u32 = 16;
/// Most bytes that each member of an exchange gives.
pub const EXCHANGE_BYTES_MAX: usize = 2 << 10;

/// Maximum bytes per member for which operations in which all wait for all are an *exchange*: each of `size`
/// members posts its data beside a number of its own, sees the numbers of all others, and reads and folds the
/// data it needs. That takes one cache-line transfer; arrival at a counter, release and read take several,
/// one after the other. `None`: never. If ranks share CPUs, one member that folds for all costs less than all
/// folding.
pub fn exchange_bytes_max(size: u32, occupancy: Occupancy) -> Option<usize> {
    let has_cpus = size == 2 || !occupancy.is_oversubscribed();
    (has_cpus && size <= EXCHANGE_RANKS_MAX).then_some(EXCHANGE_BYTES_MAX)
}

/// Whether a blocking operation that is direct ([`is_direct`]) is an exchange. Lengths are as in
/// [`Question`].
pub fn is_exchange(question: &Question, occupancy: Occupancy) -> bool {
    let Question { collective, bytes, size, .. } = *question;
    let posted_bytes = match collective {
        Collective::Barrier => 0,
        Collective::Alltoall => bytes.saturating_mul(size as usize),
        Collective::Allreduce
        | Collective::Allgather
        | Collective::ReduceScatter
        | Collective::Scan
        | Collective::Exscan => bytes,
        _ => return false,
    };
    let is_short = exchange_bytes_max(size, occupancy).is_some_and(|most| posted_bytes <= most);
    is_short && is_direct(question, occupancy)
}

/// Size of each member's area, and of the result's, in bytes: 64 KiB as long as all of them stay within some
/// megabytes; less for many ranks.
pub fn area_bytes(ranks_count: u32) -> usize {
    ((4 << 20) / ranks_count.max(1) as usize).clamp(4 << 10, 64 << 10).next_multiple_of(4 << 10)
}

/// `bytes` rounded up to whole cache lines.
pub fn line_multiple(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE_BYTES)
}

/// The smallest number of bytes that is both whole elements and whole lines.
pub fn unit(element_bytes: usize) -> usize {
    let twos = 1 << element_bytes.trailing_zeros().min(6);
    element_bytes.saturating_mul(LINE_BYTES / twos)
}

/// How much of `rest_bytes` of a vector to be reduced goes in the next round: all that is left where it fits,
/// else as many units as do. [`operand_fits`] sees to it that one does.
pub fn operand_segment_bytes(rest_bytes: usize, element_bytes: usize, area_bytes: usize) -> usize {
    if rest_bytes <= area_bytes { rest_bytes } else { area_bytes / unit(element_bytes) * unit(element_bytes) }
}

/// Size of each member's part, in whole units, if all of `size` fold together.
pub fn fold_part_bytes(segment_bytes: usize, size: u32, element_bytes: usize) -> usize {
    segment_bytes.div_ceil(size as usize).next_multiple_of(unit(element_bytes))
}

/// How much of an all-to-all's block of `block_bytes`, of which `done_bytes` are done, goes in the next
/// round.
pub fn alltoall_segment_bytes(block_bytes: usize, done_bytes: usize, size: u32, area_bytes: usize) -> usize {
    let n = size as usize;
    if block_bytes.saturating_mul(n) <= area_bytes {
        return block_bytes;
    }
    (block_bytes - done_bytes).min(area_bytes / n / LINE_BYTES * LINE_BYTES)
}

/// Longest data that go through a room where each rank has a CPU, in bytes of a [`Question`] among `size`
/// members. Longer ones gain from schedules of messages, which the kernel copies once. A broadcast is
/// written once and read by all at the same time: no schedule does better; but where long packets go in
/// blocks, one between two members is a message. (16, 64 and 256 KiB on near cores of a Zen 5, with a
/// barrier: 0.9, 1.8 and 5.3 µs as messages, 2.3, 5.2 and 16.8 copied by the kernel.)
///
/// Measured with 2 to 16 ranks on 16 CPUs (Intel Xeon, model 207); `docs/shm-speed.md` has the figures.
/// With more ranks than CPUs each message costs a turn on a CPU, and there is no limit (4 and 8 ranks on 2
/// CPUs, allreduce of 1 MiB: 450 against 1150 µs, 1300 against 2600 µs).
pub fn room_bytes_max(collective: Collective, size: u32, occupancy: Occupancy) -> usize {
    if occupancy.is_oversubscribed() {
        return usize::MAX;
    }
    let size = size as usize;
    match collective {
        Collective::Bcast if size <= 2 && occupancy.has_long_blocks => 8 << 10,
        Collective::Barrier | Collective::Bcast => usize::MAX,
        Collective::Allreduce | Collective::Allgather if size <= 2 => EXCHANGE_BYTES_MAX,
        _ if size <= 2 => 8 << 10,
        Collective::Alltoall => (16 << 10).min((128 << 10) / size),
        Collective::Allgather if size >= 8 => 16 << 10,
        Collective::Allgather | Collective::Gather => 8 << 10,
        Collective::Scatter => 64 << 10,
        _ => 32 << 10,
    }
}

/// The job's ranks on this host, as all of them know it alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// Ranks.
    pub ranks_count: u32,
    /// CPUs that they have together.
    pub cpus_count: u32,
    /// Long packets go in blocks ([`Shm`](crate::device::profiles::Shm)).
    pub has_long_blocks: bool,
}

impl Occupancy {
    /// Without blocks for long packets.
    pub const fn new(ranks_count: u32, cpus_count: u32) -> Self {
        Self { ranks_count, cpus_count, has_long_blocks: false }
    }

    /// More ranks than CPUs.
    pub fn is_oversubscribed(self) -> bool {
        self.ranks_count > self.cpus_count
    }
}

/// Whether a blocking operation with equal blocks runs directly in shared memory, if its communicator has a
/// room there. A function of what all members know alike: they all get the same answer. Lengths are as in
/// [`Question`].
pub fn is_direct(question: &Question, occupancy: Occupancy) -> bool {
    let Question { collective, bytes, size, commutative } = *question;
    let area_bytes = area_bytes(occupancy.ranks_count);
    let n = size as usize;
    // Each member has a line or more of the result area.
    let has_own_part = |block: usize| line_multiple(block).saturating_mul(n) <= area_bytes;
    let fits = match collective {
        Collective::Barrier
        | Collective::Bcast
        | Collective::Gather
        | Collective::Allgather
        | Collective::Scatter => true,
        Collective::Reduce | Collective::Allreduce => commutative,
        Collective::Alltoall => bytes.saturating_mul(n) <= area_bytes || area_bytes / n >= LINE_BYTES,
        Collective::ReduceScatter => commutative && bytes <= area_bytes && has_own_part(bytes.div_ceil(n)),
        Collective::Scan | Collective::Exscan => commutative && has_own_part(bytes),
        Collective::Gatherv
        | Collective::Scatterv
        | Collective::Allgatherv
        | Collective::Alltoallv
        | Collective::NeighborAlltoall => false,
    };
    fits && bytes <= room_bytes_max(collective, size, occupancy)
}

/// Whether a reduction of `bytes` in elements of `element_bytes` can be cut for the room: it fits whole, or a
/// segment of whole elements and whole lines does. All members pass the same.
pub fn operand_fits(element_bytes: usize, bytes: usize, occupancy: Occupancy) -> bool {
    let area_bytes = area_bytes(occupancy.ranks_count);
    bytes <= area_bytes || unit(element_bytes) <= area_bytes
}

/// Lengths of broadcasts that the kernel copies straight from the root's memory (`lend.rs`), among `size`
/// members.
///
/// The kernel takes and drops a reference to each page that it copies, so members that read the same pages at
/// once wait for each other. Measured, lent / through the room in µs, with a CPU each: 64 KiB, 2 ranks 5 / 7,
/// 4 ranks 18 / 12, 8 ranks 47 / 14, 16 ranks 98 / 14; 1 MiB: 67 / 78, 350 / 160, 710 / 170, 1530 / 175. On 2
/// CPUs: 4 ranks 12 / 18 and 250 / 210, 7 ranks 30 / 29 and 520 / 350. Where ranks share CPUs much, what one
/// has read from the room is in the next one's cache.
pub fn lent_lengths(size: u32, occupancy: Occupancy) -> Range<usize> {
    if size <= 2 && !occupancy.is_oversubscribed() {
        8 << 10..usize::MAX
    } else if occupancy.is_oversubscribed() && size <= occupancy.cpus_count.saturating_mul(2) {
        32 << 10..512 << 10
    } else {
        0..0
    }
}

/// Cost of schedules in shared memory, measured through the library: 4 to 32 ranks on 2 CPUs, 4 to 16 on 16.
/// The latter are fitted so that the algorithms chosen take least time: in the 113 combinations of operation,
/// ranks and length that go as messages (gather, scatter, allgather, alltoall and reductions, 1 KiB to 1 MiB)
/// they take 1.02 times the quickest in the mean, at worst 1.49 (alltoall of 64 KiB among 8).
pub fn fabric(occupancy: Occupancy) -> Fabric {
    if occupancy.is_oversubscribed() {
        return Fabric {
            latency_ps: 500_000,
            message_ps: 300_000,
            switch_ps: 800_000,
            processors: Some(occupancy.cpus_count),
            ..Fabric::default()
        };
    }
    Fabric {
        latency_ps: 1_200_000,
        message_ps: 200_000,
        bandwidth_bytes_per_s: 10_000_000_000,
        relayed_percent: 150,
        eager_bytes_max: 4 << 10,
        has_long_blocks: occupancy.has_long_blocks,
        ..Fabric::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(collective: Collective, bytes: usize, (ranks_count, cpus_count): (u32, u32)) -> bool {
        let question = Question { collective, bytes, size: ranks_count, commutative: true };
        is_direct(&question, Occupancy::new(ranks_count, cpus_count))
    }

    #[test]
    fn areas_are_whole_pages_within_four_mebibytes() {
        let sizes = [0, 1, 64, 128, 1000, 1024, 5000].map(area_bytes);
        assert_eq!(sizes, [64 << 10, 64 << 10, 64 << 10, 32 << 10, 8 << 10, 4 << 10, 4 << 10]);
    }

    #[test]
    fn few_members_exchange_short_data_where_each_has_a_cpu() {
        let most =
            |size, ranks_count, cpus_count| exchange_bytes_max(size, Occupancy::new(ranks_count, cpus_count));
        assert_eq!([most(2, 2, 2), most(16, 64, 64), most(2, 32, 2)], [Some(2048); 3]);
        assert_eq!([most(17, 64, 64), most(3, 32, 2)], [None; 2]);
        let is_exchange = |collective, bytes| {
            let question = Question { collective, bytes, size: 4, commutative: true };
            super::is_exchange(&question, Occupancy::new(4, 4))
        };
        assert!(is_exchange(Collective::Barrier, 0) && is_exchange(Collective::Allreduce, 2048));
        assert!(is_exchange(Collective::Alltoall, 512) && !is_exchange(Collective::Alltoall, 513));
        assert!(!is_exchange(Collective::Allreduce, 2049) && !is_exchange(Collective::Bcast, 8));
    }

    #[test]
    fn segments_are_whole_elements_and_lines_unless_all_fits() {
        assert_eq!(operand_segment_bytes(4096, 24, 4096), 4096);
        assert_eq!(operand_segment_bytes(4097, 24, 4096), 4096 / 192 * 192);
        assert_eq!(operand_segment_bytes(100, 24, 4096), 100);
        assert_eq!(alltoall_segment_bytes(1024, 0, 4, 4096), 1024);
        assert_eq!(alltoall_segment_bytes(1000, 0, 3, 3000), 1000);
        assert_eq!(alltoall_segment_bytes(1025, 0, 3, 3000), 960);
        assert_eq!(alltoall_segment_bytes(1025, 960, 3, 3000), 65);
    }

    /// Whatever the lengths, rounds of segments move everything, and each fits its area.
    #[test]
    fn segments_make_up_all_data_and_fit_their_areas() {
        for element_bytes in [1, 3, 8, 12, 24, 64, 100, 128, 4096] {
            let unit = unit(element_bytes);
            assert!(unit > 0 && unit.is_multiple_of(element_bytes) && unit.is_multiple_of(LINE_BYTES));
            let smaller = (1..unit).find(|n| n.is_multiple_of(element_bytes) && n.is_multiple_of(LINE_BYTES));
            assert_eq!(smaller, None, "{element_bytes}");
        }
        for (size, area) in [(2, 64 << 10), (3, 4096), (7, 4096), (64, 4096)] {
            for block in [1, 63, 64, 585, 1365, 1366, 5000, 70_000] {
                let (mut done, mut rounds) = (0, 0);
                while done < block {
                    let segment = alltoall_segment_bytes(block, done, size, area);
                    assert!(segment > 0 && segment * size as usize <= area, "{block} of {size}");
                    done += segment;
                    rounds += 1;
                }
                assert_eq!(done, block);
                let is_whole = block * size as usize <= area;
                assert!(!is_whole || rounds == 1, "{block} of {size}: {rounds} rounds");
            }
        }
    }

    /// The same decision where lengths are just at the end of an area.
    #[test]
    fn data_that_fill_an_area_exactly_are_direct() {
        let occupancy = Occupancy::new(64, 1);
        let area = area_bytes(64);
        let asked = |collective, bytes, size| {
            is_direct(&Question { collective, bytes, size, commutative: true }, occupancy)
        };
        // A line or more of the result area for each member.
        let most = area / 64;
        assert!(asked(Collective::Scan, most, 64) && !asked(Collective::Scan, most + 1, 64));
        assert!(asked(Collective::ReduceScatter, area, 64) && !asked(Collective::ReduceScatter, area + 1, 2));
        assert!(!asked(Collective::ReduceScatter, area + 64, 64));
        assert!(operand_fits(area, 64 << 20, occupancy), "a unit that is an area");
        // Blocks that fill the area, or a line of it for each member.
        let crowd = Occupancy::new(1024, 1);
        let alltoall = |bytes, size| {
            is_direct(&Question { collective: Collective::Alltoall, bytes, size, commutative: true }, crowd)
        };
        assert_eq!(area_bytes(1024), 4096);
        assert!(alltoall(32, 128) && !alltoall(33, 128));
        assert!(alltoall(1 << 20, 64) && !alltoall(1 << 20, 65));
    }

    #[test]
    fn long_broadcasts_between_two_are_messages_with_blocks() {
        let asked = |bytes, ranks_count, has_long_blocks| {
            let occupancy = Occupancy { has_long_blocks, ..Occupancy::new(ranks_count, 8) };
            let question =
                Question { collective: Collective::Bcast, bytes, size: ranks_count, commutative: true };
            is_direct(&question, occupancy)
        };
        assert_eq!(
            [8 << 10, (8 << 10) + 1, 1 << 20].map(|bytes| asked(bytes, 2, true)),
            [true, false, false]
        );
        assert!(asked(1 << 20, 2, false) && asked(1 << 20, 3, true) && asked(1 << 20, 16, true));
    }

    #[test]
    fn long_data_stay_out_of_the_room_where_each_rank_has_a_cpu() {
        // The longest that go through the room, by size.
        let longest = |collective, sizes: [u32; 4]| {
            sizes.map(|size| {
                let is_in = |&shift: &u32| asked(collective, 1 << shift, (size, size));
                (0..32).rev().find(is_in).map_or(0, |shift| 1_usize << shift)
            })
        };
        let sizes = [2, 4, 8, 16];
        let all = [
            Collective::Allreduce,
            Collective::Reduce,
            Collective::Allgather,
            Collective::Alltoall,
            Collective::Gather,
            Collective::Scatter,
        ];
        for (collective, size) in all.into_iter().flat_map(|of| sizes.map(|size| (of, size))) {
            let most = longest(collective, [size; 4])[0];
            assert!(!asked(collective, most + 1, (size, size)), "{collective:?} of {size}: exactly so many");
        }
        assert_eq!(longest(Collective::Allreduce, sizes), [2, 32, 32, 32].map(|kib| kib << 10));
        assert_eq!(longest(Collective::Reduce, sizes), [8, 32, 32, 32].map(|kib| kib << 10));
        assert_eq!(longest(Collective::Allgather, sizes), [2, 8, 16, 16].map(|kib| kib << 10));
        assert_eq!(longest(Collective::Alltoall, sizes), [8, 16, 16, 8].map(|kib| kib << 10));
        assert_eq!(longest(Collective::Gather, sizes), [8, 8, 8, 8].map(|kib| kib << 10));
        assert_eq!(longest(Collective::Scatter, sizes), [8, 64, 64, 64].map(|kib| kib << 10));
        assert_eq!(longest(Collective::Bcast, sizes), [1 << 31; 4]);
        assert!(!asked(Collective::Allreduce, (32 << 10) + 1, (8, 8)));
        assert!(
            asked(Collective::Allreduce, 64 << 20, (8, 2)) && asked(Collective::Gather, 64 << 20, (4, 1))
        );
    }

    #[test]
    fn algorithms_of_16_ranks_with_a_cpu_each_are_quick_ones() {
        use super::super::Algorithm as A;
        use super::super::select::choose;
        let fabric = fabric(Occupancy::new(16, 16));
        let taken = |collective, lengths: [usize; 4]| {
            lengths.map(|bytes| {
                choose(&Question { collective, bytes, size: 16, commutative: true }, &fabric).algorithm
            })
        };
        // Within a tenth of the quickest.
        let lengths = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
        assert_eq!(taken(Collective::Allreduce, lengths)[1..3], [A::Rabenseifner; 2]);
        assert_eq!(taken(Collective::Reduce, lengths)[1..], [A::Rabenseifner; 3]);
        assert_eq!(taken(Collective::Allgather, lengths)[1..], [A::Linear, A::Ring, A::Ring]);
        assert_eq!(taken(Collective::Alltoall, lengths), [A::Linear, A::Linear, A::Pairwise, A::Pairwise]);
        assert_eq!(taken(Collective::Gather, lengths), [A::Linear; 4]);
        assert_eq!(taken(Collective::Scatter, lengths), [A::Linear; 4]);
        // The length is of all blocks.
        let vectors = lengths.map(|block| 16 * block);
        assert_eq!(taken(Collective::ReduceScatter, vectors)[1..], [A::Pairwise; 3]);
    }

    #[test]
    fn ranks_that_share_cpus_pay_for_turns_on_them() {
        let shared = fabric(Occupancy::new(8, 2));
        assert_eq!(shared.processors, Some(2));
        let own = fabric(Occupancy::new(8, 8));
        assert_eq!(own.processors, None);
    }

    #[test]
    fn broadcasts_are_lent_to_one_or_where_ranks_share_cpus_little() {
        let lent =
            |size, ranks_count, len: usize| lent_lengths(size, Occupancy::new(ranks_count, 2)).contains(&len);
        assert!(lent(2, 2, 1 << 30) && lent(4, 4, 64 << 10) && lent(3, 32, 64 << 10));
        assert!(lent(4, 4, 32 << 10) && !lent(4, 4, (32 << 10) - 1));
        assert!(lent(2, 2, 8 << 10) && !lent(2, 2, (8 << 10) - 1));
        assert!(lent(4, 4, (512 << 10) - 1) && !lent(4, 4, 512 << 10));
        assert!(!lent(2, 2, 8) && !lent(4, 4, 1 << 20) && !lent(5, 5, 64 << 10));
        for size in 3..20 {
            let own = Occupancy::new(size, size);
            assert!(lent_lengths(size, own).is_empty(), "{size}");
        }
    }

    #[test]
    fn what_does_not_commute_or_has_unequal_blocks_stays_out() {
        let occupancy = Occupancy::new(4, 2);
        for collective in
            [Collective::Reduce, Collective::Allreduce, Collective::ReduceScatter, Collective::Scan]
        {
            let question = Question { collective, bytes: 8, size: 4, commutative: false };
            assert!(!is_direct(&question, occupancy), "{collective:?}");
        }
        assert!(!asked(Collective::Allgatherv, 8, (4, 2)));
    }

    #[test]
    fn long_elements_are_cut_for_the_room_where_a_unit_fits() {
        let occupancy = Occupancy::new(4, 2);
        // 8,200 B are eighths of lines: eight elements are 1,025 lines, which an area of 64 KiB lacks.
        assert!(operand_fits(8200, 7 * 8200, occupancy));
        assert!(!operand_fits(8200, 8 * 8200, occupancy));
        assert!(operand_fits(16_400, 64 << 10, occupancy), "whole");
        assert!(operand_fits(8192, 64 << 20, occupancy) && operand_fits(8, 64 << 20, occupancy));
    }

    #[test]
    fn blocks_need_a_place_in_the_room() {
        assert!(asked(Collective::Alltoall, 1 << 20, (4, 2)));
        assert!(!asked(Collective::Alltoall, 64, (1024, 2)));
        assert!(asked(Collective::Scan, 8, (512, 2)) || asked(Collective::Scan, 8, (32, 2)));
        assert!(!asked(Collective::Scan, 64 << 10, (4, 2)));
        assert!(!asked(Collective::ReduceScatter, 128 << 10, (4, 2)));
    }
}
