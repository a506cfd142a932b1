//! Collective operations of ranks on one host directly in shared memory, step by step as the library's shared
//! memory device does them (`ayatori_devices::shm`, collectives): each rank writes its contribution, arrives
//! at a counter, and reads what it needs once the last one has arrived. Which operations go so, and how their
//! data are cut, are the library's own functions ([`shared_memory`]).
//!
//! # Costs
//!
//! A call costs what a packet sent costs, and seeing the others' arrival what one received costs, with what
//! polling takes. Data are written and read at the rate of copies. What a rank on another core has written
//! comes over at once: the time of one cache line, and its bytes at the memory's rate or at that of the work
//! on them, whichever is slower. Of several ranks' data that are longer than two lines the first lines come
//! one after the other. Who writes more than two lines first gets back those that ranks on other cores have
//! read: a line's way, and the bytes at the rate of such lines or of the copy. The counter is a cache line
//! that goes from core to core, one arrival after the other; that all have arrived is another, which all that
//! wait get at the same time. In an exchange each posts in a line of its own, with the first of its data, and
//! gets the lines of all others at the same time; what more there is of the data comes over as above. What
//! the bytes take either way, with their copy, can be given by length ([`super::Rates::shared_writes`]). A
//! reduction reads each contribution. An exchange of data and a reduction have software of their own
//! ([`super::Software`]). What all ranks read alike comes to a core once, for the first of its ranks that
//! reads it.
//!
//! A copy between a user's memory and shared memory finds either in the cache by what its core goes through
//! until it uses that again: a user's in the next operation, shared memory that is written four rounds later,
//! and shared memory that is read since it was written in this round.
//!
//! Among more than two ranks, each with a core, all of this takes longer, for they do it at once
//! ([`super::Rates::among`]).
//!
//! Not modelled: operations other than barrier, allreduce, allgather and all-to-all (schedules of messages
//! stand for them), and the limit of four operations by which a rank can be ahead of the slowest, which these
//! never reach.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use ayatori_core::coll::Collective;
use ayatori_core::coll::select::Question;
use ayatori_core::coll::shared_memory::{self, FOLD_BY_LAST_BYTES_MAX, LINE_BYTES, Occupancy};

use super::fabric::Fabric;
use super::shared::PAIR_BYTES;
use super::software::{at_rate, times_ps};
use super::{Config, Mpi, World};

/// Element of reductions, bytes: a double.
const ELEMENT_BYTES: usize = 8;

/// What of a post's data comes with the line of its number, bytes.
const POSTED_IN_LINE_BYTES: usize = 48;

/// When something was written, and by whom.
#[derive(Debug, Clone, Copy)]
struct Written {
    time_ps: u64,
    rank: u32,
}

#[derive(Debug, Clone, Default)]
struct Round {
    arrived_count: u32,
    /// The counter's line: the last arrival.
    arrival: Option<Written>,
    release: Option<Written>,
    waiting: Vec<u32>,
    /// Who has read what all read alike.
    readers: Vec<u32>,
    left_count: u32,
}

/// After so many rounds the same shared memory is used again (`ayatori_devices::shm`, collectives).
const DEPTH: u64 = 4;

/// What a rank goes through in an operation that is cut into segments.
#[derive(Debug, Clone, Copy)]
struct Segments {
    count: u64,
    /// Rounds of each.
    rounds_count: u64,
    /// Of the user's memory in each, bytes.
    user_bytes: usize,
    /// Of shared memory in each: what it writes, and what it is the first of its core to read, bytes.
    shared_bytes: usize,
}

/// What a core goes through until it uses memory again, bytes; 0: unknown.
#[derive(Debug, Clone, Copy)]
struct Reuse {
    /// A user's.
    user_bytes: u64,
    /// Shared memory, to write in it again.
    shared_bytes: u64,
    /// Shared memory, to read what was written in this round.
    fresh_bytes: u64,
}

/// Rounds of the communicator of all ranks.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Those that not all have left, the oldest first.
    rounds: VecDeque<Round>,
    /// How many are over.
    over_count: u64,
    /// By rank: the round that it is in.
    round_of: Vec<u64>,
}

impl Room {
    pub(super) fn new(process_count: u32) -> Room {
        Room { round_of: vec![0; process_count as usize], ..Room::default() }
    }

    fn round(&mut self, rank: u32) -> &mut Round {
        let index = (self.round_of[rank as usize] - self.over_count) as usize;
        while self.rounds.len() <= index {
            self.rounds.push_back(Round::default());
        }
        &mut self.rounds[index]
    }

    fn leave(&mut self, rank: u32) {
        self.round(rank).left_count += 1;
        self.round_of[rank as usize] += 1;
        let size = self.round_of.len() as u32;
        while self.rounds.front().is_some_and(|round| round.left_count == size) {
            self.rounds.pop_front();
            self.over_count += 1;
        }
    }
}

impl Fabric {
    /// Ranks and cores, if all ranks are on one host and talk through the library's shared memory.
    pub(super) fn one_host(&self) -> Option<Occupancy> {
        let size = self.states.len() as u32;
        let is_one = size <= self.config.processes_per_host;
        (is_one && self.config.profile.is_some()).then(|| self.cores.occupancy())
    }

    fn same_core(&self, a: u32, b: u32) -> bool {
        let is_shared = self.cores.occupancy().is_oversubscribed();
        a == b || is_shared && self.cores.core_of(a) == self.cores.core_of(b)
    }

    /// Until a line that `writer` wrote is at the core of `reader`, ps.
    pub(super) fn line_ps(&self, writer: u32, reader: u32) -> u64 {
        if self.same_core(writer, reader) { 0 } else { self.config.memory_latency_ps }
    }

    /// A rank reads so many bytes of each of these ranks' data, which they have written, and works on them
    /// for so long in all, ps. It works on what comes from another core while it comes.
    fn read_ps(&self, rank: u32, writers: impl Iterator<Item = u32>, each: usize, work_ps: u64) -> u64 {
        let (mut count, mut far_count) = (0, 0);
        for writer in writers {
            count += 1;
            far_count += u64::from(!self.same_core(writer, rank));
        }
        if far_count == 0 || each == 0 {
            return work_ps;
        }
        let bytes = far_count * each as u64;
        let handed_ps = self.handed_ps(&self.config.rates.shared_reads, each as u64);
        let is_long = each > PAIR_BYTES as usize;
        let measured_ps = handed_ps.filter(|_| is_long);
        let alone_ps = measured_ps.map_or_else(|| self.move_ps(bytes), |[_, more_ps]| far_count * more_ps);
        let move_ps = self.at_once_ps(rank, |among| &among.moved, bytes, alone_ps);
        let far_ps = work_ps * far_count / count;
        // First lines of several ranks' data come together only where there is no more of each.
        let wait_count = if is_long { far_count } else { 1 };
        let wait_ps = measured_ps.map_or(self.config.memory_latency_ps, |[wait_ps, _]| wait_ps);
        wait_count * wait_ps + move_ps.max(far_ps) + work_ps - far_ps
    }

    /// All ranks of a core go through such segments.
    fn reuse(&self, rank: u32, segments: Segments) -> Reuse {
        let count = u64::from(self.cores.sharing_count(rank));
        let working_set_bytes = self.states[rank as usize].working_set_bytes;
        if working_set_bytes == 0 {
            return Reuse { user_bytes: 0, shared_bytes: 0, fresh_bytes: 0 };
        }
        let [user_bytes, shared_bytes] =
            [segments.user_bytes, segments.shared_bytes].map(|bytes| count * bytes as u64);
        let all_user_bytes = user_bytes.max(count * working_set_bytes);
        let kept_count = DEPTH / segments.rounds_count;
        Reuse {
            user_bytes: all_user_bytes + kept_count.min(segments.count) * shared_bytes,
            shared_bytes: kept_count * shared_bytes + all_user_bytes.min(kept_count * user_bytes),
            fresh_bytes: user_bytes + shared_bytes,
        }
    }

    /// A rank's copy between memory of these reuses, ps: half of what copies of either take.
    fn copy_between_ps(&self, rank: u32, bytes: usize, reuse_bytes: [u64; 2]) -> u64 {
        reuse_bytes.map(|reuse_bytes| self.copy_again_ps(rank, bytes, reuse_bytes)).iter().sum::<u64>() / 2
    }

    /// A rank copies `bytes` between memory of these reuses to where others have read `back_bytes` of them,
    /// ps. It has the lines of these back meanwhile; or, where it was measured what such take with their
    /// copy, the others are copied beside these.
    fn write_ps(&self, rank: u32, [bytes, back_bytes]: [usize; 2], reuse_bytes: [u64; 2]) -> u64 {
        let Config { rates, software, .. } = &self.config;
        let within_ps = |ps| times_ps(&rates.shared_writes_within, reuse_bytes[1], ps);
        let handed_ps = self.handed_ps(&rates.shared_writes, back_bytes as u64).filter(|_| back_bytes > 0);
        let measured_ps = handed_ps.map(|[_, more_ps]| within_ps(more_ps));
        let alone_ps =
            measured_ps.unwrap_or_else(|| at_rate(back_bytes as u64, software.lines_back_bytes_per_s));
        let back_ps = self.at_once_ps(rank, |among| &among.lines_back, back_bytes as u64, alone_ps);
        let copy_ps = |bytes| self.copy_between_ps(rank, bytes, reuse_bytes);
        match measured_ps {
            Some(_) => back_ps.max(copy_ps(back_bytes)) + copy_ps(bytes.saturating_sub(back_bytes)),
            None => back_ps.max(copy_ps(bytes)),
        }
    }

    /// Until all see what all have posted, longer than between two, ps.
    fn among_more_ps(&self, rank: u32) -> u64 {
        self.among(rank).map_or(0, |among| among.exchange_ps)
    }

    /// How many of so many ranks are on other cores.
    fn far_count(&self, rank: u32, size: u32) -> usize {
        (0..size).filter(|&other| !self.same_core(other, rank)).count()
    }

    /// Ranks of a core.
    fn sharing_count(&self, rank: u32) -> usize {
        self.cores.sharing_count(rank) as usize
    }
}

impl World {
    /// Copies `copied` bytes to the user's memory, of which so many of each of these ranks were written by
    /// them.
    fn read(
        &mut self,
        rank: u32,
        writers: impl Iterator<Item = u32>,
        [each, copied]: [usize; 2],
        reuse: Reuse,
    ) {
        let work_ps = self.fabric.copy_between_ps(rank, copied, [reuse.fresh_bytes, reuse.user_bytes]);
        let time_ps = self.fabric.read_ps(rank, writers, each, work_ps);
        self.fabric.spend(rank, time_ps);
    }

    /// The same of what all ranks read: who comes after another of its core finds it there.
    fn read_alike(
        &mut self,
        rank: u32,
        writers: impl Iterator<Item = u32>,
        lengths: [usize; 2],
        reuse: Reuse,
    ) {
        let World { fabric, room, .. } = self;
        let readers = &mut room.round(rank).readers;
        let is_there = readers.iter().any(|&reader| fabric.same_core(reader, rank));
        readers.push(rank);
        let [each, copied] = lengths;
        self.read(rank, writers, [if is_there { 0 } else { each }, copied], reuse);
    }

    /// Folds all ranks' contributions of so many bytes, of each of which `fetched` have still to be fetched,
    /// copies `copied` bytes, and writes `shared` bytes where others have read those of an earlier round.
    fn fold(&mut self, rank: u32, bytes: usize, [fetched, copied, shared]: [usize; 3], reuse: Reuse) {
        let size = self.room.round_of.len() as u32;
        let fabric = &self.fabric;
        let is_far = shared > PAIR_BYTES as usize && fabric.far_count(rank, size) > 0;
        let back_bytes = if is_far { shared } else { 0 };
        let copy_ps = fabric.write_ps(rank, [copied, back_bytes], [reuse.fresh_bytes, reuse.shared_bytes]);
        let work_ps = copy_ps + fabric.reduce_again_ps(rank, [bytes, size as usize - 1], reuse.fresh_bytes);
        let time_ps = self.fabric.read_ps(rank, 0..size, fetched, work_ps);
        self.fabric.spend(rank, time_ps);
    }

    /// Arrives; whether it was the last. Others that wait are released by [`World::release`].
    fn arrive(&mut self, rank: u32) -> bool {
        let World { fabric, room, .. } = self;
        let size = room.round_of.len() as u32;
        let round = room.round(rank);
        let now_ps = fabric.clock_ps(rank);
        let (from_ps, line_ps) = round
            .arrival
            .map_or((now_ps, 0), |before| (before.time_ps.max(now_ps), fabric.line_ps(before.rank, rank)));
        fabric.spend(rank, from_ps + line_ps - now_ps);
        round.arrived_count += 1;
        round.arrival = Some(Written { time_ps: from_ps + line_ps, rank });
        round.arrived_count == size
    }

    /// Posts for an exchange; whether it was the last, which gets the lines of the others' posts now.
    fn post(&mut self, rank: u32) -> bool {
        let World { fabric, room, .. } = self;
        let size = room.round_of.len() as u32;
        let round = room.round(rank);
        round.arrived_count += 1;
        let is_last = round.arrived_count == size;
        if is_last {
            let line_ps = (0..size).map(|other| fabric.line_ps(other, rank)).max().unwrap_or(0);
            fabric.spend(rank, line_ps + fabric.among_more_ps(rank));
        }
        is_last
    }

    /// All have arrived, as this rank has said at that time.
    fn release(&mut self, rank: u32, time_ps: u64) {
        let World { fabric, room, .. } = self;
        let round = room.round(rank);
        round.release = Some(Written { time_ps, rank });
        for waiting in std::mem::take(&mut round.waiting) {
            let seen_ps = time_ps + fabric.line_ps(rank, waiting);
            fabric.wake_at(waiting, seen_ps);
        }
    }

    /// Whether a rank sees that its round is released; it has left it then.
    fn sees_release(&mut self, rank: u32) -> Option<u32> {
        let World { fabric, room, .. } = self;
        let now_ps = fabric.clock_ps(rank);
        let round = room.round(rank);
        let Some(release) = round.release else {
            if !round.waiting.contains(&rank) {
                round.waiting.push(rank);
            }
            return None;
        };
        let seen_ps = release.time_ps + fabric.line_ps(release.rank, rank);
        if seen_ps > now_ps {
            fabric.wake_at(rank, seen_ps);
            return None;
        }
        room.leave(rank);
        Some(release.rank)
    }
}

impl Mpi {
    /// Whether the library does this operation in shared memory, and so does the simulator.
    pub(super) fn goes_through_room(&self, collective: Collective, bytes: u64) -> bool {
        let Some(occupancy) = self.with_fabric(Fabric::one_host) else { return false };
        let (bytes, size) = (bytes as usize, self.size());
        let question = Question { collective, bytes, size, commutative: true };
        let fits = match collective {
            Collective::Allreduce => shared_memory::operand_fits(ELEMENT_BYTES, bytes, occupancy),
            Collective::Barrier | Collective::Allgather | Collective::Alltoall => true,
            _ => false,
        };
        fits && size > 1 && shared_memory::is_direct(&question, occupancy)
    }

    /// Takes part in an operation that goes through shared memory.
    pub(super) async fn in_room(&self, operation: Collective, bytes: usize) {
        let (rank, size) = (self.rank(), self.size());
        let area_bytes =
            self.with_fabric(|fabric| shared_memory::area_bytes(fabric.cores.occupancy().ranks_count));
        self.with_world(|world| {
            let call_ps = world.fabric.config.send_ps;
            world.fabric.spend(rank, call_ps);
        });
        let question = Question { collective: operation, bytes, size, commutative: true };
        let is_exchange =
            self.with_fabric(|fabric| shared_memory::is_exchange(&question, fabric.cores.occupancy()));
        match operation {
            _ if is_exchange => self.exchange(operation, bytes).await,
            Collective::Allreduce if bytes <= FOLD_BY_LAST_BYTES_MAX => self.fold_by_last(bytes).await,
            Collective::Allreduce => self.fold_by_all(bytes, area_bytes).await,
            Collective::Allgather | Collective::Alltoall => {
                let is_alltoall = operation == Collective::Alltoall;
                let n = size as usize;
                let [far_count, sharing_count] =
                    self.with_fabric(|fabric| [fabric.far_count(rank, size), fabric.sharing_count(rank)]);
                let mut done = 0;
                while done < bytes {
                    let len = if is_alltoall {
                        shared_memory::alltoall_segment_bytes(bytes, done, size, area_bytes)
                    } else {
                        area_bytes.min(bytes - done)
                    };
                    let (written, fetched) = match is_alltoall {
                        true => (len * n, len * far_count),
                        false => (len, len * far_count / sharing_count),
                    };
                    let reuse = self.reuse(Segments {
                        count: bytes.div_ceil(len) as u64,
                        rounds_count: 1,
                        user_bytes: written + len * n,
                        shared_bytes: written + fetched,
                    });
                    self.write([written, len], reuse);
                    self.meet().await;
                    self.with_world(|world| match is_alltoall {
                        true => world.read(rank, 0..size, [len, len * n], reuse),
                        false => world.read_alike(rank, 0..size, [len, len * n], reuse),
                    });
                    done += len;
                }
            }
            _ => self.meet().await,
        }
    }

    /// Each posts its data, and reads `bytes` of each.
    async fn exchange(&self, operation: Collective, bytes: usize) {
        let (rank, size) = (self.rank(), self.size());
        let all_bytes = bytes * size as usize;
        // A member has two posts.
        let (user_bytes, shared_bytes) = (2 * all_bytes, 2 * all_bytes);
        let reuse = self.reuse(Segments { count: 1, rounds_count: DEPTH / 2, user_bytes, shared_bytes });
        self.write([if operation == Collective::Alltoall { all_bytes } else { bytes }, bytes], reuse);
        self.reach().await;
        self.with_world(|world| {
            let came_ps = world.fabric.clock_ps(rank) + world.fabric.among_more_ps(rank);
            if world.post(rank) {
                world.release(rank, came_ps);
            }
        });
        self.released().await;
        self.with_world(|world| {
            if operation == Collective::Barrier {
                return;
            }
            let exchange_ps = world.fabric.config.software.exchange_ps;
            world.fabric.spend(rank, exchange_ps);
            let posted = if operation == Collective::Alltoall { all_bytes } else { bytes };
            let fetched = if posted > POSTED_IN_LINE_BYTES { bytes.max(LINE_BYTES) } else { 0 };
            if operation == Collective::Allreduce {
                // Folds are made beside the buffer that gets them.
                world.fold(rank, bytes, [fetched, 2 * bytes, 0], reuse);
            } else {
                world.read(rank, 0..size, [fetched, all_bytes], reuse);
            }
        });
    }

    /// The last to arrive reduces all contributions.
    async fn fold_by_last(&self, bytes: usize) {
        let rank = self.rank();
        let (user_bytes, shared_bytes) = (2 * bytes, (2 + self.size() as usize) * bytes);
        let reuse = self.reuse(Segments { count: 1, rounds_count: 1, user_bytes, shared_bytes });
        self.write([bytes; 2], reuse);
        self.reach().await;
        self.with_world(|world| {
            if world.arrive(rank) {
                // The first contribution is copied, the others are reduced into it.
                world.fold(rank, bytes, [bytes; 3], reuse);
                let time_ps = world.fabric.clock_ps(rank);
                world.release(rank, time_ps);
            }
        });
        let last = self.released().await;
        self.with_world(|world| world.read_alike(rank, std::iter::once(last), [bytes; 2], reuse));
    }

    /// Each reduces its part of all contributions, a segment at a time.
    async fn fold_by_all(&self, bytes: usize, area_bytes: usize) {
        let (rank, size) = (self.rank(), self.size());
        let [far_count, sharing_count] =
            self.with_fabric(|fabric| [fabric.far_count(rank, size), fabric.sharing_count(rank)]);
        let mut done = 0;
        while done < bytes {
            let len = shared_memory::operand_segment_bytes(bytes - done, ELEMENT_BYTES, area_bytes);
            let part = shared_memory::fold_part_bytes(len, size, ELEMENT_BYTES);
            let from = (rank as usize * part).min(len);
            let own = part.min(len - from);
            let n = size as usize;
            // Its operand, its part of the others' and of the result; and all of that.
            let reuse = self.reuse(Segments {
                count: bytes.div_ceil(len) as u64,
                rounds_count: 2,
                user_bytes: 2 * len,
                shared_bytes: len + own * (far_count + 1) + len / sharing_count,
            });
            self.write([len, len / n], reuse);
            self.meet().await;
            self.with_world(|world| world.fold(rank, own, [own; 3], reuse));
            self.meet().await;
            self.with_world(|world| world.read_alike(rank, 0..size, [len / n, len], reuse));
            done += len;
        }
    }

    fn reuse(&self, segments: Segments) -> Reuse {
        self.with_fabric(|fabric| fabric.reuse(self.rank(), segments))
    }

    /// Writes this rank's contribution, where others have read that of an earlier operation, each so many
    /// bytes of it: a line or two are fetched from there while it goes on, more are not.
    fn write(&self, [bytes, each]: [usize; 2], reuse: Reuse) {
        let (rank, size) = (self.rank(), self.size());
        self.with_world(|world| {
            let fabric = &mut world.fabric;
            let far_count = fabric.far_count(rank, size);
            let is_long = bytes > PAIR_BYTES as usize;
            let back_bytes = if is_long { bytes.min(far_count * each) } else { 0 };
            let handed_ps = fabric.handed_ps(&fabric.config.rates.shared_writes, back_bytes as u64);
            let waited_ps = handed_ps.map_or(fabric.config.memory_latency_ps, |[wait_ps, _]| wait_ps);
            let wait_ps = if is_long && far_count > 0 { waited_ps } else { 0 };
            let copy_ps = fabric.write_ps(rank, [bytes, back_bytes], [reuse.user_bytes, reuse.shared_bytes]);
            fabric.spend(rank, wait_ps + copy_ps);
        });
    }

    /// Arrives, and waits for all others.
    async fn meet(&self) {
        self.reach().await;
        self.with_world(|world| {
            if world.arrive(self.rank()) {
                let time_ps = world.fabric.clock_ps(self.rank());
                world.release(self.rank(), time_ps);
            }
        });
        self.released().await;
    }

    /// Waits until all have arrived; the last of them.
    async fn released(&self) -> u32 {
        let rank = self.rank();
        let last =
            poll_fn(|_| self.with_world(|world| world.sees_release(rank)).map_or(Poll::Pending, Poll::Ready));
        let last = last.await;
        if last != rank {
            self.with_world(|world| {
                let look_ps = world.fabric.config.receive_ps + world.fabric.poll_ps();
                world.fabric.spend(rank, look_ps);
            });
        }
        last
    }

    /// Goes on when the time is this rank's clock, so that steps of different ranks are in the order of time.
    pub(super) async fn reach(&self) {
        let rank = self.rank();
        poll_fn(|_| {
            self.with_world(|world| {
                let clock_ps = world.fabric.clock_ps(rank);
                let goes_on = clock_ps > world.fabric.network.now_ps();
                world.fabric.states[rank as usize].goes_on = goes_on;
                if !goes_on {
                    return Poll::Ready(());
                }
                world.fabric.wake_at(rank, clock_ps);
                Poll::Pending
            })
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cluster, Config, NicDevice, Profile, Rates, Software};
    use super::*;
    use crate::machine::nsim_torus;
    use ayatori_fabric::description::{Among, LongerTime, RateWithin, TimesWithin};

    fn config(ranks: u32, core_count: Option<u32>) -> Config {
        let software =
            Software { reduce_bytes_per_s: Some(5_000_000_000), yield_ps: 400_000, ..Software::default() };
        Config {
            processes_per_host: ranks,
            process_count: Some(ranks),
            core_count,
            send_ps: 100_000,
            receive_ps: 50_000,
            copy_bytes_per_s: 10_000_000_000,
            memory_latency_ps: 60_000,
            memory_bytes_per_s: 20_000_000_000,
            software,
            profile: Some(Profile { device: NicDevice::Tcp, mtu_bytes: 1_500 }),
            ..Config::default()
        }
    }

    /// What so many operations take, ns.
    fn time_ns(config: &Config, operation: Collective, bytes: u64, count: u32) -> f64 {
        let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config.clone()).unwrap();
        let workload = |mpi: Mpi| async move {
            for _ in 0..count {
                mpi.collective(operation, bytes, None).await?;
            }
            Ok(())
        };
        let report = cluster.run(workload).unwrap();
        assert_eq!(cluster.leftovers(), None);
        report.elapsed_ps as f64 / 1e3
    }

    fn assert_takes(measured_ns: f64, expected_ns: f64) {
        assert!((measured_ns - expected_ns).abs() < 0.1, "{measured_ns} ns, {expected_ns} expected");
    }

    #[test]
    fn a_barrier_is_a_line_each_way_at_the_same_time() {
        // Call: 100. The others' lines: 60, and a look: 50.
        for ranks in [2, 4, 16] {
            assert_takes(time_ns(&config(ranks, None), Collective::Barrier, 0, 1), 210.0);
        }
    }

    #[test]
    fn a_barrier_of_many_is_two_lines_a_call_and_a_look() {
        // Calls: 100. The second to arrive gets the counter's line: 60. The first sees it: 60, and looks: 50.
        // Each further arrival waits for the line.
        assert_takes(time_ns(&config(18, None), Collective::Barrier, 0, 1), 270.0 + 16.0 * 60.0);
    }

    #[test]
    fn all_fold_a_short_reduction_where_each_has_a_core() {
        // Call and copy until 100.8, the line until 160.8, a look: 210.8; two copies, one reduction.
        assert_takes(time_ns(&config(2, None), Collective::Allreduce, 8, 1), 210.8 + 1.6 + 1.6);
        // Posted when its lines have come, 60, and are written: 262.4; seen and looked at 372.4. A line, and
        // the work, 409.6: what comes meanwhile is quicker.
        assert_takes(time_ns(&config(2, None), Collective::Allreduce, 1 << 10, 1), 372.4 + 60.0 + 409.6);
    }

    #[test]
    fn the_last_to_arrive_folds_a_short_reduction_of_many() {
        // Call, a line and copy until 262.4, 17 lines until 1282.4. The others' first lines 1020, and the
        // work, a copy and 17 reductions, 3584: released at 5886.4, seen and looked at 5996.4. The result: 60
        // and 102.4.
        assert_takes(time_ns(&config(18, None), Collective::Allreduce, 1 << 10, 1), 6158.8);
    }

    #[test]
    fn what_comes_slower_than_it_is_worked_on_is_waited_for() {
        let slow = Config { memory_bytes_per_s: 1_000_000_000, ..config(4, None) };
        // Of 4,096 B more a rank, three of the four blocks that are read come at 1 B/ns.
        let longer = time_ns(&slow, Collective::Allgather, 8 << 10, 1);
        let shorter = time_ns(&slow, Collective::Allgather, 4 << 10, 1);
        assert_takes(longer - shorter, 4_096.0 * (0.1 + 0.1 + 3.0));
    }

    #[test]
    fn contributions_are_written_where_others_have_read() {
        let with = |ranks, core_count, lines_back_bytes_per_s| {
            let plain = config(ranks, core_count);
            let software = Software { lines_back_bytes_per_s, ..plain.software };
            Config { software, ..plain }
        };
        let takes = |config: &Config, operation| {
            time_ns(config, operation, 8 << 10, 1) - time_ns(config, operation, 4 << 10, 1)
        };
        let more = |ranks, core_count, operation| {
            let [slow, quick] = [Some(1_000_000_000), None].map(|rate| with(ranks, core_count, rate));
            takes(&slow, operation) - takes(&quick, operation)
        };
        // 4,096 B more come back at 1 B/ns, and are copied meanwhile: all of what others read, or what is
        // for three of four.
        assert_takes(more(4, None, Collective::Allgather), 4_096.0 * 0.9);
        assert_takes(more(4, None, Collective::Alltoall), 4_096.0 * (3.0 - 4.0 * 0.1));
        // What was read by the same core has not gone.
        assert_takes(more(4, Some(1), Collective::Alltoall), 0.0);
    }

    #[test]
    fn shared_data_take_what_was_measured_of_them() {
        // More than two lines take a nanosecond a byte where others have read, and half of that to read.
        let measured = |ranks, core_count| {
            let longer = |per_byte_ps: u64| {
                vec![LongerTime { bytes: 64 << 10, more_ps: (65_536 - 128) * per_byte_ps }]
            };
            let rates = Rates { shared_writes: longer(1_000), shared_reads: longer(500), ..Rates::default() };
            Config { rates, ..config(ranks, core_count) }
        };
        let takes = |config: &Config, operation| {
            time_ns(config, operation, 8 << 10, 1) - time_ns(config, operation, 4 << 10, 1)
        };
        // 4,096 B more: all of it is written for others, and that of three others read; or it is written and
        // read for each, of which the own block stays.
        assert_takes(takes(&measured(4, None), Collective::Allgather), 4_096.0 * (1.0 + 3.0 * 0.5 + 0.1));
        let own = 4_096.0 * (0.1 + 0.1);
        assert_takes(takes(&measured(4, None), Collective::Alltoall), 4_096.0 * (3.0 + 3.0 * 0.5) + own);
        // What was read by the same core has not gone.
        for operation in [Collective::Allgather, Collective::Alltoall] {
            let [found, plain] =
                [measured(4, Some(1)), config(4, Some(1))].map(|config| takes(&config, operation));
            assert_takes(found, plain);
        }
        // What has left the caches takes half as long: 32 KiB, and as many that nobody has read at 10 B/ns.
        let config = measured(4, None);
        let within =
            [(1 << 20, 1_000), (2 << 20, 500)].map(|(bytes, permille)| TimesWithin { bytes, permille });
        let rates = Rates { shared_writes_within: within.to_vec(), ..config.rates.clone() };
        let cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), Config { rates, ..config }).unwrap();
        let fabric = &cluster.world.borrow().fabric;
        for (within_bytes, each_ps) in [(1 << 20, 1_000), (3 << 19, 750), (2 << 20, 500), (8 << 20, 500)] {
            let time_ps = fabric.write_ps(0, [64 << 10, 32 << 10], [1 << 20, within_bytes]);
            // Without the wait for a first line, 60.
            assert_eq!(time_ps, ((32 << 10) - 128 - 60) * each_ps + (32 << 10) * 100);
        }
    }

    #[test]
    fn ranks_of_a_core_share_its_cache() {
        let rate = |working_set_bytes, bytes_per_s| RateWithin { working_set_bytes, bytes_per_s };
        let copy = vec![rate(1 << 20, 10_000_000_000), rate((1 << 20) + 1, 1_000_000_000)];
        let config = Config { rates: Rates { copy, ..Rates::default() }, ..config(8, Some(2)) };
        let cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config).unwrap();
        let fabric = &mut cluster.world.borrow_mut().fabric;
        let mut copies_ns = |working_set_bytes, user_bytes, count| {
            fabric.set_working_set(0, working_set_bytes);
            let segments = Segments { count, rounds_count: 2, user_bytes, shared_bytes: 32 << 10 };
            let Reuse { user_bytes, shared_bytes, fresh_bytes } = fabric.reuse(0, segments);
            [user_bytes, shared_bytes, fresh_bytes].map(|bytes| fabric.copy_within_ps(1_000, bytes) / 1_000)
        };
        // Four of a core go through four times as much. The user's memory comes again in the next operation,
        // shared memory two segments of two rounds later.
        assert_eq!(copies_ns(128 << 10, 64 << 10, 1), [100, 100, 100]);
        assert_eq!(copies_ns(192 << 10, 64 << 10, 2), [100, 100, 100]);
        assert_eq!(copies_ns(256 << 10, 64 << 10, 2), [1_000, 100, 100]);
        assert_eq!(copies_ns(256 << 10, 128 << 10, 2), [1_000, 1_000, 100]);
        assert_eq!(copies_ns(256 << 10, 256 << 10, 1), [1_000, 1_000, 1_000]);
        assert_eq!(copies_ns(0, 64 << 10, 1), [1_000; 3], "nothing is known of the users' memory");
        let both = [1 << 20, 2 << 20].map(|bytes| fabric.copy_within_ps(1_000, bytes));
        assert_eq!(fabric.copy_between_ps(0, 1_000, [1 << 20, 2 << 20]), both.iter().sum::<u64>() / 2);
    }

    #[test]
    fn exchanges_and_reductions_have_software_of_their_own() {
        let with = |exchange_ps, reduce_ps, poll_ps| {
            let plain = config(2, None);
            let software = Software { exchange_ps, reduce_ps, poll_ps, ..plain.software };
            Config { software, ..plain }
        };
        let takes = |config: &Config, operation| time_ns(config, operation, 8, 1);
        let (none, all) = (with(0, 0, 0), with(70_000, 30_000, 20_000));
        for (operation, more_ns) in
            [(Collective::Barrier, 20.0), (Collective::Alltoall, 90.0), (Collective::Allreduce, 120.0)]
        {
            assert_takes(takes(&all, operation) - takes(&none, operation), more_ns);
        }
    }

    #[test]
    fn ranks_fold_parts_of_a_long_reduction_at_once() {
        let longer = time_ns(&config(4, None), Collective::Allreduce, 32 << 10, 1);
        let shorter = time_ns(&config(4, None), Collective::Allreduce, 16 << 10, 1);
        // 16 KiB more: a copy of all; a copy and three reductions of a quarter; a copy of all. What comes
        // meanwhile is quicker.
        let bytes = f64::from(16 << 10);
        assert_takes(longer - shorter, bytes * (2.25 / 10.0 + 0.75 / 5.0));
    }

    #[test]
    fn ranks_that_share_a_core_take_turns() {
        // A turn: the one before has waited and let this one run, 400; it sees that all have arrived, 50;
        // arrives at the next barrier as the last, 100; and at the one after that as the first, 100.
        let config = config(2, Some(1));
        let some = time_ns(&config, Collective::Barrier, 0, 8);
        let more = time_ns(&config, Collective::Barrier, 0, 24);
        assert_takes((more - some) / 16.0, 650.0);
    }

    #[test]
    fn what_all_ranks_do_at_once_takes_longer_among_more() {
        // Nothing is known of the users' memory: the times of the most count.
        let times = |permille| {
            let of = |bytes, permille| TimesWithin { bytes, permille };
            vec![of(8, 1_000), of(1 << 10, permille)]
        };
        let among = |process_count, permille| Among {
            process_count,
            exchange_ps: 40_000,
            copy: times(permille),
            reduce: times(2 * permille),
            moved: times(permille),
            ..Among::default()
        };
        let at_once = |ranks, core_count| {
            let rates = Rates { among: vec![among(4, 3_000), among(8, 5_000)], ..Rates::default() };
            Config { rates, ..config(ranks, core_count) }
        };
        let barrier = |config: &Config| time_ns(config, Collective::Barrier, 0, 1);
        for (ranks, more_ns) in [(2, 0.0), (4, 40.0), (16, 40.0)] {
            assert_takes(barrier(&at_once(ranks, None)) - barrier(&config(ranks, None)), more_ns);
        }
        // 16 KiB more: a copy of all; a copy and three reductions of a quarter; a copy of all, as above.
        let longer = |config: &Config| {
            let time = |bytes| time_ns(config, Collective::Allreduce, bytes, 1);
            time(32 << 10) - time(16 << 10)
        };
        let bytes = f64::from(16 << 10);
        assert_takes(longer(&at_once(4, None)), bytes * (3.0 * 2.25 / 10.0 + 6.0 * 0.75 / 5.0));
        // Of 4 ranks on 2 cores two work at once.
        assert_takes(longer(&at_once(4, Some(2))), longer(&config(4, Some(2))));
    }

    #[test]
    fn operations_of_ranks_on_several_hosts_are_schedules() {
        let across = Config { processes_per_host: 1, ..config(2, None) };
        let cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), across).unwrap();
        assert_eq!(cluster.world.borrow().fabric.one_host(), None);
        let no_device = Config { profile: None, ..config(2, None) };
        let cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), no_device).unwrap();
        assert_eq!(cluster.world.borrow().fabric.one_host(), None);
    }
}
