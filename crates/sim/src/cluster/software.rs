//! What software costs beside the engine's own calls: copies, checksums, the operating system.

use super::Config;
use super::fabric::Fabric;
use super::working_set::Distances;
use ayatori_fabric::description::{
    Among, LongerTime, PiecesFrom, RateWithin, SoftwareCosts, TimesWithin, Waiting, YieldAmong,
};

/// Costs of a process. Times in ps, rates in bytes/s; a rate of `None` costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Software {
    /// In the operating system, for each packet or transfer sent.
    pub send_kernel_ps: u64,
    /// In the operating system, for each packet or completion received.
    pub receive_kernel_ps: u64,
    /// From an arrival until a process that waited for it runs: interrupt and switches. 0: it polls.
    pub wake_ps: u64,
    /// Until a process that polls on a core of its own sees what has come.
    pub poll_ps: u64,
    /// Copies of each packet's payload by its sender.
    pub send_copies: u32,
    /// Copies of each packet's payload by its receiver.
    pub receive_copies: u32,
    /// Rate of copies of what is in the cache; `None`: as of what is not.
    pub hot_copy_bytes_per_s: Option<u64>,
    /// The cache, bytes.
    pub cache_bytes: u64,
    /// Rate of lines that another core has read, got back for writing; `None`: they take no time.
    pub lines_back_bytes_per_s: Option<u64>,
    /// Gets within a host: the kernel copies for who reads. `None`: they take the memory's rate, and no time
    /// of a process.
    pub kernel_copy: Option<KernelCopy>,
    /// What a long packet in pieces takes beside its bytes at the rate of both sides ([`Rates::relay`]): the
    /// first part, the line's way and the last part. `None`: a piece at that rate, and the line's way.
    pub relay_ends_ps: Option<u64>,
    /// The same of one in a block.
    pub block_relay_ends_ps: Option<u64>,
    /// Whether two cores of a host are near, as the library sees it; `None`: it does not look.
    pub cores_are_near: Option<bool>,
    /// The library's software for a message that is announced and goes in packets within a host, beside its
    /// packets, of both sides: half of it each.
    pub announce_ps: u64,
    /// A reduction in a collective operation, without its bytes.
    pub reduce_ps: u64,
    /// Rate of reductions in collective operations, bytes of one operand/s.
    pub reduce_bytes_per_s: Option<u64>,
    /// An exchange ([`ayatori_core::coll::shared_memory::is_exchange`]) beside a message's software.
    pub exchange_ps: u64,
    /// The library's, for each collective operation that is a schedule of messages, beside these.
    pub schedule_ps: u64,
    /// Where processes share a core: a process that waits polls once and lets the next one run, ps.
    pub yield_ps: u64,
    /// Checksums of payload, by both sides.
    pub checksum_bytes_per_s: Option<u64>,
    /// Matching of one message with its receive.
    pub match_ps: u64,
    /// Registration of memory, and of each page of 4 KiB.
    pub register_ps: u64,
    /// See `register_ps`.
    pub register_page_ps: u64,
}

/// Rates of copies by the memory that a process goes through, the least first. Between two of them, time is
/// interpolated; empty: not known. And yields by how many share a core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates {
    /// Copies within a process, in place of those of [`Software`].
    pub copy: Vec<RateWithin>,
    /// Reductions, in place of that of [`Software`].
    pub reduce: Vec<RateWithin>,
    /// The kernel's copies, in place of those of [`KernelCopy`].
    pub kernel_copy: Vec<RateWithin>,
    /// The same of what its owner has just written.
    pub fresh_kernel_copy: Vec<RateWithin>,
    /// Long packets within a host, copied in and out at once: for both sides, with what goes from core to
    /// core.
    pub relay: Vec<RateWithin>,
    /// The library's software for a message in one packet within a host, by its length, beside that for a
    /// short one, both sides'; empty: none.
    pub longer_software: Vec<LongerTime>,
    /// Packets between two cores by their payload, the shortest first; empty: not known.
    pub longer_packets: Vec<LongerTime>,
    /// The same of packets that are there when the one before has been taken, for who takes them.
    pub longer_packets_in_row: Vec<LongerTime>,
    /// Packets that are copied in and out at once, the shortest first; empty: not known.
    pub pieces: Vec<PiecesFrom>,
    /// Packets in blocks, memory that two processes hand to and fro with them, as `longer_packets`; empty:
    /// there are no blocks.
    pub block_packets: Vec<LongerTime>,
    /// As `pieces`, in blocks.
    pub block_pieces: Vec<PiecesFrom>,
    /// As `relay`, in blocks.
    pub block_relay: Vec<RateWithin>,
    /// Data in shared memory that are written where another core has read, in collective operations, more
    /// than two lines; empty: not known.
    pub shared_writes: Vec<LongerTime>,
    /// How many times as long these take, by what a process goes through until it writes there again.
    pub shared_writes_within: Vec<TimesWithin>,
    /// The same of data that are read where another core has just written.
    pub shared_reads: Vec<LongerTime>,
    /// Where more than two processes share a core: the fewest first.
    pub yields_among: Vec<YieldAmong>,
    /// Where more than two processes of a host do the same at once: the fewest first.
    pub among: Vec<Among>,
}

impl Rates {
    /// The rates that a description gives.
    pub fn of(costs: &SoftwareCosts) -> Rates {
        Rates {
            copy: costs.copy_rates.clone(),
            reduce: costs.reduce_rates.clone(),
            kernel_copy: costs.kernel_copy_rates.clone(),
            fresh_kernel_copy: costs.fresh_kernel_copy_rates.clone(),
            relay: costs.relay_rates.clone(),
            longer_software: costs.longer_software.clone(),
            longer_packets: costs.longer_packets.clone(),
            longer_packets_in_row: costs.longer_packets_in_row.clone(),
            pieces: costs.pieces.clone(),
            block_packets: costs.block_packets.clone(),
            block_pieces: costs.block_pieces.clone(),
            block_relay: costs.block_relay_rates.clone(),
            shared_writes: costs.shared_writes.clone(),
            shared_writes_within: costs.shared_writes_within.clone(),
            shared_reads: costs.shared_reads.clone(),
            yields_among: costs.yields_among.clone(),
            among: costs.among.clone(),
        }
    }

    /// What takes longer among so many processes: that of the next more that is known, or of the most.
    pub(super) fn among(&self, process_count: u32) -> Option<&Among> {
        let next = self.among.iter().find(|among| among.process_count >= process_count);
        next.or(self.among.last()).filter(|_| process_count > 2)
    }

    /// What a yield takes among so many processes of a core, ps, where it takes `of_two_ps` among two.
    /// Between two entries it is interpolated.
    pub(super) fn yield_ps(&self, of_two_ps: u64, process_count: u32) -> u64 {
        let mut before = YieldAmong { process_count: 2, yield_ps: of_two_ps };
        for &above in &self.yields_among {
            if process_count <= before.process_count {
                break;
            }
            if process_count < above.process_count {
                let part = i128::from(process_count - before.process_count);
                let whole = i128::from(above.process_count - before.process_count);
                let more_ps = (i128::from(above.yield_ps) - i128::from(before.yield_ps)) * part / whole;
                return (i128::from(before.yield_ps) + more_ps) as u64;
            }
            before = above;
        }
        before.yield_ps
    }
}

/// What so many bytes take more than `few_bytes`, ps. Between two lengths it is interpolated, beyond the last
/// it grows with the bytes. `None`: not known.
pub(super) fn longer_ps(times: &[LongerTime], few_bytes: u64, bytes: u64) -> Option<u64> {
    let last = times.last()?;
    let Some(above) = times.iter().position(|time| bytes <= time.bytes) else {
        // Not as between the last two: short packets may go another way than long ones.
        let more_bytes = [bytes, last.bytes].map(|bytes| u128::from(bytes - few_bytes.min(bytes)).max(1));
        return Some((u128::from(last.more_ps) * more_bytes[0] / more_bytes[1]) as u64);
    };
    let high = times[above];
    let few = LongerTime { bytes: few_bytes.min(high.bytes), more_ps: 0 };
    let low = above.checked_sub(1).map_or(few, |below| times[below]);
    let part = i128::from(bytes.saturating_sub(low.bytes));
    let whole = i128::from((high.bytes - low.bytes).max(1));
    let more_ps = i128::from(high.more_ps) - i128::from(low.more_ps);
    Some((i128::from(low.more_ps) + more_ps * part / whole).max(0) as u64)
}

/// What work of so many bytes takes that takes two processes `of_two_ps`. Between two entries it is
/// interpolated.
pub(super) fn times_ps(times: &[TimesWithin], bytes: u64, of_two_ps: u64) -> u64 {
    let Some(last) = times.last() else { return of_two_ps };
    let above = times.iter().position(|one| bytes <= one.bytes);
    let permille = match above {
        None => u128::from(last.permille),
        Some(0) => u128::from(times[0].permille),
        Some(index) => {
            let (low, high) = (times[index - 1], times[index]);
            let whole = u128::from(high.bytes - low.bytes);
            let part = u128::from(bytes - low.bytes);
            (u128::from(low.permille) * (whole - part) + u128::from(high.permille) * part) / whole
        }
    };
    (u128::from(of_two_ps) * permille / 1_000) as u64
}

/// What a process goes through, bytes, where 0 is not known, and taken as the most.
fn of_the_most(working_set_bytes: u64) -> u64 {
    if working_set_bytes == 0 { u64::MAX } else { working_set_bytes }
}

/// Time of so many bytes, ps, of a process that goes through so many (0: unknown, as of the most).
pub(super) fn time_ps(rates: &[RateWithin], bytes: u64, working_set_bytes: u64) -> Option<u64> {
    let last = rates.last()?;
    let time_ps = |rate: &RateWithin| at_rate(bytes, Some(rate.bytes_per_s));
    let above = rates.iter().position(|rate| working_set_bytes <= rate.working_set_bytes);
    let above = above.filter(|_| working_set_bytes > 0);
    Some(match above {
        None => time_ps(last),
        Some(0) => time_ps(&rates[0]),
        Some(index) => {
            let (low, high) = (&rates[index - 1], &rates[index]);
            let [from_ps, to_ps] = [low, high].map(|rate| i128::from(time_ps(rate)));
            let part = i128::from(working_set_bytes - low.working_set_bytes);
            let whole = i128::from(high.working_set_bytes - low.working_set_bytes);
            (from_ps + (to_ps - from_ps) * part / whole) as u64
        }
    })
}

/// What the kernel takes to copy from one process to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCopy {
    /// A call without its bytes, and the library's software for a message beside its packets, ps.
    pub alone: GetTimes,
    /// The same while the process that is copied from has the kernel copy from this one.
    pub at_once: GetTimes,
    /// Copies from and to memory.
    pub bytes_per_s: u64,
    /// Copies of what is in the cache; `None`: as of what is not.
    pub hot_bytes_per_s: Option<u64>,
}

/// What a message that the kernel copies takes beside its bytes and packets, ps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GetTimes {
    /// The call.
    pub call_ps: u64,
    /// The library's software.
    pub library_ps: u64,
}

impl Default for Software {
    /// One copy at either side, nothing else.
    fn default() -> Software {
        Software {
            send_kernel_ps: 0,
            receive_kernel_ps: 0,
            wake_ps: 0,
            poll_ps: 0,
            send_copies: 1,
            receive_copies: 1,
            hot_copy_bytes_per_s: None,
            kernel_copy: None,
            relay_ends_ps: None,
            block_relay_ends_ps: None,
            cores_are_near: None,
            announce_ps: 0,
            reduce_ps: 0,
            reduce_bytes_per_s: None,
            exchange_ps: 0,
            schedule_ps: 0,
            yield_ps: 0,
            cache_bytes: 0,
            lines_back_bytes_per_s: None,
            checksum_bytes_per_s: None,
            match_ps: 0,
            register_ps: 0,
            register_page_ps: 0,
        }
    }
}

const PAGE_BYTES: u64 = 4_096;

pub(super) fn at_rate(bytes: u64, bytes_per_s: Option<u64>) -> u64 {
    bytes_per_s.map_or(0, |rate| (u128::from(bytes) * 1_000_000_000_000 / u128::from(rate.max(1))) as u64)
}

impl Software {
    /// The costs that a description gives. `cache_bytes`: in which copies hit.
    pub fn of(costs: &SoftwareCosts, cache_bytes: u64) -> Software {
        let time = |given: Option<u64>| given.unwrap_or(0);
        let call_ps = time(costs.system_call_ps);
        let block_ps = time(costs.interrupt_ps) + time(costs.context_switch_ps);
        Software {
            send_kernel_ps: u64::from(costs.send_system_calls) * call_ps,
            receive_kernel_ps: u64::from(costs.receive_system_calls) * call_ps,
            wake_ps: match costs.waiting {
                Waiting::Poll => 0,
                Waiting::Block => block_ps,
                Waiting::Thread => block_ps + time(costs.thread_switch_ps),
            },
            poll_ps: time(costs.poll_ps),
            send_copies: costs.send_copies.unwrap_or(1),
            receive_copies: costs.receive_copies.unwrap_or(1),
            hot_copy_bytes_per_s: costs.hot_copy_bytes_per_s,
            kernel_copy: costs.kernel_copy_bytes_per_s.map(|bytes_per_s| KernelCopy {
                alone: GetTimes { call_ps: time(costs.kernel_copy_ps), library_ps: time(costs.get_ps) },
                at_once: GetTimes {
                    call_ps: time(costs.kernel_copy_at_once_ps.or(costs.kernel_copy_ps)),
                    library_ps: time(costs.get_at_once_ps.or(costs.get_ps)),
                },
                bytes_per_s,
                hot_bytes_per_s: costs.hot_kernel_copy_bytes_per_s,
            }),
            relay_ends_ps: costs.relay_ends_ps,
            block_relay_ends_ps: costs.block_relay_ends_ps,
            cores_are_near: costs.cores_are_near,
            announce_ps: time(costs.announce_ps),
            reduce_ps: time(costs.reduce_ps),
            reduce_bytes_per_s: costs.reduce_bytes_per_s,
            exchange_ps: time(costs.exchange_ps),
            schedule_ps: time(costs.schedule_ps),
            yield_ps: time(costs.yield_ps),
            cache_bytes,
            lines_back_bytes_per_s: costs.lines_back_bytes_per_s,
            checksum_bytes_per_s: costs.checksum_bytes_per_s,
            match_ps: time(costs.match_ps),
            register_ps: time(costs.register_ps),
            register_page_ps: time(costs.register_page_ps),
        }
    }

    /// One copy by a process that goes through `working_set_bytes` between two uses of a buffer (0: unknown).
    ///
    /// A cache that is as large as the working set holds all of it. Of a larger one, up to twice the cache, a
    /// direct-mapped cache that is gone through in turn keeps the lines whose place nothing else takes: `(2 C
    /// - W) / W` of them.
    pub(super) fn copy_ps(&self, cold_bytes_per_s: u64, bytes: u64, working_set_bytes: u64) -> u64 {
        let rates = (cold_bytes_per_s, self.hot_copy_bytes_per_s);
        self.at_rates(rates, bytes, working_set_bytes)
    }

    /// The bytes of a get within a host, by a process that goes through so many; `None`: the kernel does not
    /// copy.
    pub(super) fn kernel_copy_ps(&self, bytes: u64, working_set_bytes: u64) -> Option<u64> {
        let KernelCopy { bytes_per_s, hot_bytes_per_s, .. } = self.kernel_copy?;
        Some(self.at_rates((bytes_per_s, hot_bytes_per_s), bytes, working_set_bytes))
    }

    fn at_rates(&self, (cold, hot): (u64, Option<u64>), bytes: u64, working_set_bytes: u64) -> u64 {
        let Some(hot) = hot.filter(|_| working_set_bytes > 0) else {
            return at_rate(bytes, Some(cold));
        };
        let cold_bytes = self.cold_bytes(bytes, working_set_bytes);
        at_rate(bytes - cold_bytes, Some(hot)) + at_rate(cold_bytes, Some(cold))
    }

    /// Of so many bytes of a process that goes through so many, those that are not in its cache.
    fn cold_bytes(&self, bytes: u64, working_set_bytes: u64) -> u64 {
        if working_set_bytes == 0 {
            return bytes;
        }
        let kept = (2 * self.cache_bytes).saturating_sub(working_set_bytes).min(working_set_bytes);
        bytes - (u128::from(bytes) * u128::from(kept) / u128::from(working_set_bytes)) as u64
    }

    pub(super) fn checksum_ps(&self, bytes: u64) -> u64 {
        at_rate(bytes, self.checksum_bytes_per_s)
    }

    pub(super) fn registration_ps(&self, bytes: u64) -> u64 {
        self.register_ps + bytes.div_ceil(PAGE_BYTES) * self.register_page_ps
    }
}

/// Work of a process on data in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryWork {
    /// What it takes while nobody else uses the memory, ps.
    own_ps: u64,
    /// Of its data those that are not in the cache go so often through the memory.
    passes: u64,
    bytes: usize,
}

impl MemoryWork {
    /// A copy reads and writes. That a cache reads the line that is overwritten is not counted: long copies
    /// avoid it (`rep movsb`, stores past the cache).
    pub(super) fn copy(own_ps: u64, bytes: usize) -> MemoryWork {
        MemoryWork { own_ps, passes: 2, bytes }
    }

    /// A reduction reads both operands and writes one.
    fn reduction(own_ps: u64, bytes: usize) -> MemoryWork {
        MemoryWork { own_ps, passes: 3, bytes }
    }
}

impl Fabric {
    /// Time of work by a process that begins so long after its clock: longer than alone where others use the
    /// memory.
    pub(super) fn work_ps(&mut self, rank: u32, after_ps: u64, work: MemoryWork) -> u64 {
        if self.hardware.is_none() {
            return work.own_ps;
        }
        let working_set_bytes = self.states[rank as usize].working_set_bytes;
        let bytes = work.passes * self.config.software.cold_bytes(work.bytes as u64, working_set_bytes);
        self.through_memory(rank, self.clock_ps(rank) + after_ps, work.own_ps, bytes)
    }

    /// All processes of its host do the same as this one from now on, or no longer.
    pub(super) fn set_at_once(&mut self, rank: u32, is_at_once: bool) {
        self.states[rank as usize].is_at_once = is_at_once;
    }

    /// What takes longer because all of its host do the same.
    pub(super) fn among(&self, rank: u32) -> Option<&Among> {
        if self.config.rates.among.is_empty() || !self.states[rank as usize].is_at_once {
            return None;
        }
        self.config.rates.among(self.cores.at_once_count())
    }

    /// What work of so many bytes takes a process that takes it `alone_ps` while one other does the same.
    pub(super) fn at_once_ps(
        &self,
        rank: u32,
        work: fn(&Among) -> &[TimesWithin],
        bytes: u64,
        alone_ps: u64,
    ) -> u64 {
        self.among(rank).map_or(alone_ps, |among| times_ps(work(among), bytes, alone_ps))
    }

    /// A process copies so many bytes, which are used again so.
    pub(super) fn spend_to_copy(&mut self, rank: u32, bytes: usize, distances: &Distances) {
        let working_set_bytes = self.states[rank as usize].working_set_bytes;
        let own_ps = distances.mean_ps(working_set_bytes, |within| self.copy_again_ps(rank, bytes, within));
        let time_ps = self.work_ps(rank, 0, MemoryWork::copy(own_ps, bytes));
        self.spend(rank, time_ps);
    }

    /// A process does `count` reductions of so many bytes each, which are used again so.
    pub(super) fn spend_to_reduce(&mut self, rank: u32, [bytes, count]: [usize; 2], distances: &Distances) {
        let working_set_bytes = self.states[rank as usize].working_set_bytes;
        let own_ps =
            distances.mean_ps(working_set_bytes, |within| self.reduce_again_ps(rank, [bytes, count], within));
        let time_ps = self.work_ps(rank, 0, MemoryWork::reduction(own_ps, bytes * count));
        self.spend(rank, time_ps);
    }

    /// Time of a copy by a process.
    pub(super) fn copy_ps(&self, rank: u32, bytes: usize) -> u64 {
        self.copy_again_ps(rank, bytes, self.states[rank as usize].working_set_bytes)
    }

    /// The same by one that goes through so many bytes between two uses of these (0: unknown).
    pub(super) fn copy_within_ps(&self, bytes: usize, working_set_bytes: u64) -> u64 {
        let Config { software, rates, copy_bytes_per_s, .. } = &self.config;
        let by_table = time_ps(&rates.copy, bytes as u64, working_set_bytes);
        by_table.unwrap_or_else(|| software.copy_ps(*copy_bytes_per_s, bytes as u64, working_set_bytes))
    }

    /// The same by a process whose host's others may copy, too.
    pub(super) fn copy_again_ps(&self, rank: u32, bytes: usize, working_set_bytes: u64) -> u64 {
        let alone_ps = self.copy_within_ps(bytes, working_set_bytes);
        self.at_once_ps(rank, |among| &among.copy, of_the_most(working_set_bytes), alone_ps)
    }

    /// Time of `count` reductions of `bytes` each by a process that goes through so many bytes between two
    /// uses of these.
    pub(super) fn reduce_again_ps(
        &self,
        rank: u32,
        [bytes, count]: [usize; 2],
        working_set_bytes: u64,
    ) -> u64 {
        let Config { software, rates, .. } = &self.config;
        let by_table = time_ps(&rates.reduce, bytes as u64, working_set_bytes);
        let alone_ps = by_table.unwrap_or_else(|| at_rate(bytes as u64, software.reduce_bytes_per_s));
        let within_bytes = of_the_most(working_set_bytes);
        let each_ps = self.at_once_ps(rank, |among| &among.reduce, within_bytes, alone_ps);
        count as u64 * (software.reduce_ps + each_ps)
    }

    /// See [`super::Mpi::goes_through`].
    pub(super) fn set_working_set(&mut self, rank: u32, bytes: u64) {
        self.states[rank as usize].working_set_bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_between_working_sets_are_interpolated_by_time() {
        let rate = |working_set_bytes, bytes_per_s| RateWithin { working_set_bytes, bytes_per_s };
        let rates = [rate(100, 40), rate(200, 20), rate(1_000, 10)];
        let s = 1_000_000_000_000;
        let times = [50, 100, 150, 200, 600, 1_000, 5_000, 0].map(|w| time_ps(&rates, 40, w).unwrap());
        assert_eq!(times, [s, s, s + s / 2, 2 * s, 3 * s, 4 * s, 4 * s, 4 * s]);
        assert_eq!(time_ps(&[], 40, 100), None);
    }

    #[test]
    fn times_between_two_lengths_are_interpolated() {
        let times = [(100, 10), (200, 50), (300, 60)].map(|(bytes, more_ps)| LongerTime { bytes, more_ps });
        let found = [0, 20, 60, 100, 150, 200, 300, 500].map(|bytes| longer_ps(&times, 20, bytes).unwrap());
        assert_eq!(found, [0, 0, 5, 10, 30, 50, 60, 60 * 480 / 280]);
        assert_eq!(longer_ps(&[], 20, 100), None);
    }

    #[test]
    fn yields_are_interpolated_by_how_many_share_a_core() {
        let among = |process_count, yield_ps| YieldAmong { process_count, yield_ps };
        let rates = Rates { yields_among: vec![among(4, 900), among(8, 1_700)], ..Rates::default() };
        let times = [1, 2, 3, 4, 6, 8, 100].map(|count| rates.yield_ps(600, count));
        assert_eq!(times, [600, 600, 750, 900, 1_300, 1_700, 1_700]);
        assert_eq!(Rates::default().yield_ps(600, 8), 600);
    }

    #[test]
    fn what_takes_longer_among_many_is_interpolated_by_bytes() {
        let times = |bytes, permille| TimesWithin { bytes, permille };
        let copy = vec![times(100, 1_000), times(200, 3_000)];
        let found = [50, 100, 150, 200, 900].map(|bytes| times_ps(&copy, bytes, 40));
        assert_eq!(found, [40, 40, 80, 120, 120]);
        assert_eq!(times_ps(&[], 100, 40), 40);
        let among = |process_count| Among { process_count, ..Among::default() };
        let rates = Rates { among: vec![among(4), among(8)], ..Rates::default() };
        let counts = [1, 2, 3, 4, 5, 8, 64].map(|count| rates.among(count).map(|one| one.process_count));
        assert_eq!(counts, [None, None, Some(4), Some(4), Some(8), Some(8), Some(8)]);
    }

    #[test]
    fn copies_are_hot_up_to_the_cache_and_cold_from_twice_that() {
        let software = Software { hot_copy_bytes_per_s: Some(4), cache_bytes: 100, ..Software::default() };
        let s = 1_000_000_000_000;
        let time = |working_set| software.copy_ps(1, 40, working_set);
        assert_eq!([0, 50, 100, 200, 500].map(time), [40 * s, 10 * s, 10 * s, 40 * s, 40 * s]);
        // 60 of 140 bytes stay: 17 of 40.
        assert_eq!(time(140), 17 * s / 4 + 23 * s);
    }
}
