//! The segment: one piece of memory that all ranks of a job on this host have mapped.
//!
//! ```text
//! header      fingerprint, counts
//! controls    one per rank: its sleep word, its process id, who has written to it
//! counts      one per ordered pair: see ring.rs
//! rings       one per ordered pair: slots, then near and bulk lines, and blocks; page-aligned
//! rooms       for communicators' collectives: see collectives/room.rs
//! answers     one per rank, and the names of functions: see watch.rs
//! ```
//!
//! Invariants: every byte starts as zero and zero is the valid initial state of everything, so no rank
//! initialises it or waits for that. The layout is a pure function of the number of ranks and of the
//! settings, and the fingerprint in the header names it. Memory is touched only when used: the file is
//! sparse, and a pair that never communicates costs nothing.

use super::active::{ActiveSenders, LOCAL_SIZE_MAX};
use super::collectives::room::{ROOMS_COUNT, RoomLayout};
use super::cooperative::Copy;
use super::ring::{
    AREAS_COUNT, BLOCKS_COUNT_MAX, Backing, Blocks, Counts, LINE_BYTES, Line, Pair, Ring, block_lines,
};
use super::sys::{self, Mapping};
use super::words::{ANSWER_BYTES, CallWords, NAMES_BYTES, Told, Words};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Changes whenever the layout or a protocol in the segment does.
const VERSION: u64 = 12;

const PAGE_BYTES: usize = 4096;

/// Why there is no shared memory.
#[derive(Debug)]
pub enum ShmError {
    /// A system call failed.
    System {
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The ranks do not agree about the segment.
    Mismatch {
        /// The fingerprint that was found.
        found: u64,
        /// Ours.
        ours: u64,
    },
    /// More ranks on one host than a segment takes.
    TooManyRanks(usize),
    /// The segment's address, as another rank gave it, is not one.
    Address(String),
    /// There is no such length of memory, or another rank has made less of it.
    TooLarge(usize),
}

impl fmt::Display for ShmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { what, error } => write!(f, "shared memory: cannot {what}: {error}"),
            Self::Mismatch { found, ours } => write!(
                f,
                "shared memory: the ranks of this job do not agree about the segment ({found:016x} and \
                 {ours:016x}): they use different versions of the library"
            ),
            Self::TooManyRanks(count) => {
                write!(f, "shared memory: {count} ranks on this host; at most {LOCAL_SIZE_MAX} are supported")
            }
            Self::Address(address) => write!(f, "shared memory: `{address}` is not the address of a segment"),
            Self::TooLarge(bytes) => write!(f, "shared memory: there are no {bytes} bytes"),
        }
    }
}

impl std::error::Error for ShmError {}

/// Lets `sys` calls say what they were for.
pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> ShmError {
    move |error| ShmError::System { what, error }
}

/// A rank that is attached: what others need to know of it.
#[repr(C, align(128))]
pub(crate) struct Control {
    /// [`AWAKE`], or why it sleeps: the futex word.
    pub(crate) sleep: AtomicU32,
    pad: [AtomicU32; 31],
    /// Process id, 0 before it attaches.
    pub(crate) pid: AtomicU32,
    /// [`STATE_ATTACHED`] …
    pub(crate) state: AtomicU32,
    /// The number of the descriptor of its bell, and 1: see `bell.rs`. 0: it has none.
    pub(crate) bell: AtomicU32,
    /// A peer could not ring the bell: the rank must poll by itself now and then.
    pub(crate) is_deaf: AtomicU32,
    more: [AtomicU32; 28],
    /// Its current call.
    pub(crate) words: CallWords,
    pub(crate) told: Told,
    /// The ranks that have written to it.
    pub(crate) senders: ActiveSenders,
    /// What it gets together with another one.
    pub(crate) copy: Copy,
}

impl Control {
    pub(crate) fn is_asleep(&self) -> bool {
        self.sleep.load(Ordering::Relaxed) != AWAKE
    }
}

/// Runs, or is about to: needs no wake-up.
pub(crate) const AWAKE: u32 = 0;
/// Sleeps until something arrives.
pub(crate) const ASLEEP: u32 = 1;
/// Added: it waits also for a ring that was full to have room.
pub(crate) const STARVED: u32 = 2;
/// Added: it sleeps at its bell and not at the sleep word.
pub(crate) const AT_BELL: u32 = 4;
/// Added: not the thread that calls MPI sleeps, but one that looks after the process meanwhile.
pub(crate) const ASIDE: u32 = 8;

/// Attached and not gone.
pub(crate) const STATE_ATTACHED: u32 = 1;
/// Has said goodbye: its end is no accident.
pub(crate) const STATE_DETACHED: u32 = 2;

#[repr(C, align(4096))]
struct Header {
    fingerprint: AtomicU64,
    fenceless_count: AtomicU32,
}

/// Sizes of one ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingSize {
    /// Slots for packets, a power of two, at least 4.
    pub slots_count: u32,
    /// Near and bulk lines of 64 bytes for payload, powers of two, at least 4; none in bulk: longer packets
    /// are not taken.
    pub lines_counts: [u32; AREAS_COUNT],
}

impl RingSize {
    /// Settings for a number of ranks. The near lines hold four of the longest packets that are sent at once
    /// (32 KiB), no more, so that they stay in the near caches. Of the bulk lines a writer uses as many as
    /// suit its processor: 512 KiB, or all where data are quicker once they are in no core's own caches. All
    /// rings of a rank that communicates with all others, both ways, take a few MiB at most (the target is at
    /// most 10 MiB of resident memory a rank at 32 ranks). Packets that go to and fro touch the blocks first.
    pub fn for_ranks(local_size: u32) -> Self {
        let (slots_count, near_bytes, bulk_bytes) = match local_size {
            0..=2 => (256, 128 << 10, 2 << 20), // with blocks 1 pair × 2 × 6.3 MiB = 12.5 MiB
            3..=4 => (256, 128 << 10, 1 << 20), // 3 × 2 × 2.2 MiB = 13.2 MiB
            5..=8 => (256, 128 << 10, 512 << 10), // 7 × 2 × 944 KiB = 12.9 MiB
            9..=16 => (256, 128 << 10, 0),      // 15 × 2 × 144 KiB = 4.2 MiB
            17..=32 => (128, 32 << 10, 0),      // 31 × 2 × 40 KiB = 2.4 MiB
            33..=128 => (64, 16 << 10, 0),      // 127 × 2 × 20 KiB = 5.0 MiB
            _ => (32, 8 << 10, 0),              // touched only by pairs that talk (active.rs)
        };
        Self { slots_count, lines_counts: [near_bytes, bulk_bytes].map(|bytes| bytes / LINE_BYTES as u32) }
    }

    /// Lines of its blocks: one for each 256 KiB of bulk lines.
    fn block_lines(self) -> usize {
        let count = self.lines_counts[1] as usize * LINE_BYTES / (256 << 10);
        count.min(BLOCKS_COUNT_MAX) * block_lines(self.lines_counts[1] as usize)
    }

    fn bytes(self) -> usize {
        let lines_count = self.slots_count as usize + self.lines_counts.iter().sum::<u32>() as usize;
        ((lines_count + self.block_lines()) * LINE_BYTES).next_multiple_of(PAGE_BYTES)
    }
}

/// Offsets of everything.
#[derive(Clone, Copy, Debug)]
struct Layout {
    local_size: u32,
    ring: RingSize,
    controls_at: usize,
    counts_at: usize,
    rings_at: usize,
    room: RoomLayout,
    rooms_at: usize,
    answers_at: usize,
    bytes: usize,
}

impl Layout {
    fn new(local_size: u32, ring: RingSize) -> Self {
        let n = local_size as usize;
        let controls_at = PAGE_BYTES;
        let counts_at = (controls_at + n * size_of::<Control>()).next_multiple_of(PAGE_BYTES);
        let rings_at = (counts_at + n * n * size_of::<Counts>()).next_multiple_of(PAGE_BYTES);
        let rooms_at = rings_at + n * n * ring.bytes();
        let room = RoomLayout::new(local_size);
        let answers_at = (rooms_at + ROOMS_COUNT * room.bytes()).next_multiple_of(PAGE_BYTES);
        let bytes = answers_at + n * ANSWER_BYTES + NAMES_BYTES;
        Self { local_size, ring, controls_at, counts_at, rings_at, room, rooms_at, answers_at, bytes }
    }

    /// The settings in a fingerprint; `None`: it is not one of this version.
    fn of_fingerprint(fingerprint: u64) -> Option<Self> {
        let local_size = (fingerprint >> 40) as u32 & 0xffff;
        let power = |shift: u32| 1u32.checked_shl((fingerprint >> shift) as u32 & 0xff);
        let bulk = if fingerprint >> 16 & 0xff == 0 { 0 } else { power(16)? };
        let ring = RingSize { slots_count: power(8)?, lines_counts: [power(0)?, bulk] };
        let is_possible = (1..=LOCAL_SIZE_MAX).contains(&local_size)
            && [ring.slots_count, ring.lines_counts[0]]
                .into_iter()
                .chain((bulk > 0).then_some(bulk))
                .all(|count| (4..=1 << 20).contains(&count));
        let layout = is_possible.then(|| Self::new(local_size, ring))?;
        (layout.fingerprint() == fingerprint).then_some(layout)
    }

    /// Never 0.
    fn fingerprint(&self) -> u64 {
        let [near, bulk] = self.ring.lines_counts;
        VERSION << 56
            | u64::from(self.local_size) << 40
            | u64::from(bulk.checked_ilog2().unwrap_or(0)) << 16
            | u64::from(self.ring.slots_count.trailing_zeros()) << 8
            | u64::from(near.trailing_zeros())
    }
}

/// Where the segment comes from.
#[derive(Debug)]
pub enum Source {
    /// A memory file that the launcher made (`AYATORI_SHM_FD`), or that [`Source::create`] did.
    File(OwnedFd),
    /// Another rank of the job has made it and published this ([`Source::address`]).
    Address(String),
}

impl Source {
    /// A new memory file, for the first rank of a host under a launcher that provides none. It has no name,
    /// so that nothing stays behind however the job ends, and no size limit but memory itself.
    ///
    /// # Errors
    /// The system refuses a memory file.
    pub fn create() -> Result<Self, ShmError> {
        Ok(Self::File(sys::memory_file().map_err(system("make a memory file"))?))
    }

    /// How other processes of the same user on this host reach the file, as long as this process keeps this
    /// value: to be published through the launcher, and kept until all have attached. `None` for what is
    /// itself an address.
    pub fn address(&self) -> Option<String> {
        match self {
            Self::File(fd) => Some(format!("/proc/{}/fd/{}", sys::process_id(), fd.as_raw_fd())),
            Self::Address(_) => None,
        }
    }

    pub(super) fn open(&self) -> Result<OwnedFd, ShmError> {
        let address = match self {
            Self::File(fd) => return fd.try_clone().map_err(system("duplicate the segment's descriptor")),
            Self::Address(address) => address,
        };
        let is_ours = address
            .strip_prefix("/proc/")
            .and_then(|rest| rest.split_once("/fd/"))
            .is_some_and(|(pid, fd)| pid.parse::<u32>().is_ok() && fd.parse::<u32>().is_ok());
        if !is_ours {
            return Err(ShmError::Address(address.clone()));
        }
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(address)
            .map(OwnedFd::from)
            .map_err(system("open the segment that another rank of this job has made"))
    }
}

/// The mapped segment.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    mapping: Mapping,
    layout: Layout,
}

impl Segment {
    /// Maps the segment for `local_size` ranks; the file gets the length that this takes.
    #[cfg(test)]
    pub(crate) fn attach(source: &Source, local_size: u32, ring: RingSize) -> Result<Self, ShmError> {
        Self::attach_to_file(source, local_size, ring).map(|(segment, _)| segment)
    }

    /// The same, and the file itself: as long as a rank has it open, onlookers find the segment.
    pub(crate) fn attach_to_file(
        source: &Source,
        local_size: u32,
        ring: RingSize,
    ) -> Result<(Self, OwnedFd), ShmError> {
        if local_size == 0 || local_size > LOCAL_SIZE_MAX {
            return Err(ShmError::TooManyRanks(local_size as usize));
        }
        let layout = Layout::new(local_size, ring);
        let fd = source.open()?;
        let ours = layout.fingerprint();
        sys::set_length(&fd, layout.bytes).map_err(|error| match error.kind() {
            // It has another length already, which is sealed. Its maker may still have to sign it.
            io::ErrorKind::PermissionDenied => {
                ShmError::Mismatch { found: Self::fingerprint_in(&fd).unwrap_or(0), ours }
            }
            _ => system("give the segment its length")(error),
        })?;
        // Reserves the counts and words that every rank uses; the rest belongs to a memory file without a
        // limit.
        sys::reserve_at(fd.as_fd(), 0, layout.counts_at).map_err(system("reserve memory for the segment"))?;
        let mapping = Mapping::new(fd.as_fd(), layout.bytes).map_err(system("map the segment"))?;
        let segment = Self { mapping, layout };
        let fingerprint = &segment.header().fingerprint;
        match fingerprint.compare_exchange(0, ours, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok((segment, fd)),
            Err(found) if found == ours => Ok((segment, fd)),
            Err(found) => Err(ShmError::Mismatch { found, ours }),
        }
    }

    /// Least size of a file that may be a segment, in bytes.
    const HEADER_BYTES: usize = size_of::<Header>();

    /// Length of a file in bytes.
    pub(crate) fn length_of(file: &OwnedFd) -> Result<usize, ShmError> {
        let about = rustix::fs::fstat(file).map_err(|error| system("look at the segment")(error.into()))?;
        Ok(usize::try_from(about.st_size).unwrap_or(0))
    }

    /// The fingerprint in a file; 0: there is none yet.
    pub(crate) fn fingerprint_in(file: &OwnedFd) -> Result<u64, ShmError> {
        if Self::length_of(file)? < Self::HEADER_BYTES {
            return Ok(0);
        }
        let mapping = Mapping::new(file.as_fd(), Self::HEADER_BYTES).map_err(system("map the segment"))?;
        // SAFETY: atomics.
        let header: &[Header] = unsafe { mapping.slice(0, 1) };
        Ok(header[0].fingerprint.load(Ordering::Acquire))
    }

    /// Maps the segment that the file of `length` bytes says it is.
    pub(crate) fn of_fingerprint(file: &OwnedFd, fingerprint: u64, length: usize) -> Result<Self, ShmError> {
        let layout = Layout::of_fingerprint(fingerprint).filter(|layout| layout.bytes <= length);
        let ours = VERSION << 56;
        let layout = layout.ok_or(ShmError::Mismatch { found: fingerprint, ours })?;
        let mapping = Mapping::new(file.as_fd(), layout.bytes).map_err(system("map the segment"))?;
        Ok(Self { mapping, layout })
    }

    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> u64 {
        self.layout.fingerprint()
    }

    /// Where a rank's answer lies.
    pub(crate) fn answer_at(&self, local_rank: u32) -> usize {
        self.layout.answers_at + local_rank as usize * ANSWER_BYTES
    }

    /// Where the functions' names lie.
    pub(crate) fn names(&self) -> Words {
        self.words(self.layout.bytes - NAMES_BYTES, NAMES_BYTES)
    }

    /// Bytes of answers or names.
    pub(crate) fn words(&self, at: usize, len: usize) -> Words {
        assert!(at >= self.layout.answers_at, "not an answer's");
        // SAFETY: atomics.
        Words(unsafe { self.mapping.slice(at, len / size_of::<AtomicU64>()) })
    }

    fn header(&self) -> &'static Header {
        // SAFETY: atomics.
        unsafe { &self.mapping.slice(0, 1)[0] }
    }

    /// How many processes send without a fence: see `sleep.rs`.
    pub(crate) fn fenceless_count(&self) -> &'static AtomicU32 {
        &self.header().fenceless_count
    }

    /// The ranks' controls, by local rank.
    pub(crate) fn controls(&self) -> &'static [Control] {
        // SAFETY: atomics.
        unsafe { self.mapping.slice(self.layout.controls_at, self.layout.local_size as usize) }
    }

    /// Where the rooms begin, and how each is laid out.
    pub(crate) fn rooms_place(&self) -> (Mapping, usize, RoomLayout) {
        (self.mapping, self.layout.rooms_at, self.layout.room)
    }

    /// Where the slots of the ring from one local rank to another begin, its near lines, its bulk lines and
    /// its blocks.
    fn ring_at(&self, from: u32, to: u32) -> [usize; 4] {
        let RingSize { slots_count, lines_counts: [near, bulk] } = self.layout.ring;
        let index = to as usize * self.layout.local_size as usize + from as usize;
        let slots_at = self.layout.rings_at + index * self.layout.ring.bytes();
        let near_at = slots_at + slots_count as usize * LINE_BYTES;
        let bulk_at = near_at + near as usize * LINE_BYTES;
        [slots_at, near_at, bulk_at, bulk_at + bulk as usize * LINE_BYTES]
    }

    /// Where the memory of its bulk lines lies.
    pub(crate) fn bulk_backing(&self, file: &Arc<OwnedFd>, from: u32, to: u32) -> Backing {
        Backing { file: Arc::clone(file), at: self.ring_at(from, to)[2] }
    }

    /// The blocks of both rings between this rank and another one.
    pub(crate) fn blocks(&self, file: &Arc<OwnedFd>, me: u32, peer: u32) -> Blocks {
        let ways = [(me, peer), (peer, me)];
        let [written, read] = ways.map(|(from, to)| self.ring(from, to));
        let backing = |(from, to)| Backing { file: Arc::clone(file), at: self.ring_at(from, to)[3] };
        Blocks::of(&written, &read, Some(ways.map(backing)))
    }

    /// The ring from one local rank to another.
    pub(crate) fn ring(&self, from: u32, to: u32) -> Ring {
        let RingSize { slots_count, lines_counts: [near, bulk] } = self.layout.ring;
        let index = to as usize * self.layout.local_size as usize + from as usize;
        let [slots_at, near_at, bulk_at, blocks_at] = self.ring_at(from, to);
        let counts_at = self.layout.counts_at + index * size_of::<Counts>();
        // Both ends of a ring to oneself would have the same.
        let block_lines = if from == to { 0 } else { self.layout.ring.block_lines() };
        // SAFETY: atomics and cells of bytes.
        unsafe {
            Ring {
                pairs: self.mapping.slice::<Pair>(slots_at, slots_count as usize / 2),
                areas: [(near_at, near), (bulk_at, bulk)]
                    .map(|(at, count)| self.mapping.slice::<Line>(at, count as usize)),
                blocks: self.mapping.slice::<Line>(blocks_at, block_lines),
                counts: &self.mapping.slice::<Counts>(counts_at, 1)[0],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_core::device::profiles;

    #[cfg(not(loom))]
    #[test]
    fn longest_packets_are_as_the_simulator_has_them() {
        use crate::shm::processor::Processor;
        for n in [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 128, 129, LOCAL_SIZE_MAX] {
            let counts = RingSize::for_ranks(n).lines_counts.map(|count| count as usize);
            let ring = crate::shm::ring::tests::ring(16, counts);
            for processor in [Processor::ANY, Processor::AMD, Processor::ZEN_5] {
                let most = profiles::shm_payload_bytes_max(n, processor.has_long_blocks());
                assert_eq!(ring.data_bytes_max(&processor), most, "{n} ranks");
            }
        }
    }

    #[test]
    fn a_ring_of_two_is_large_and_one_of_many_small() {
        let bytes = [2, 129].map(|local_size| RingSize::for_ranks(local_size).bytes());
        assert_eq!(bytes, [(16 << 10) + (128 << 10) + (2 << 20) + 8 * (528 << 10), 12 << 10]);
    }

    #[test]
    fn rings_of_a_layout_do_not_overlap_and_end_inside() {
        for n in [1, 2, 5, 32, 100] {
            let layout = Layout::new(n, RingSize::for_ranks(n));
            assert!(layout.counts_at >= layout.controls_at + n as usize * size_of::<Control>());
            assert!(layout.rings_at >= layout.counts_at + (n * n) as usize * size_of::<Counts>());
            assert_eq!(layout.rooms_at, layout.rings_at + (n * n) as usize * layout.ring.bytes());
            assert!(layout.answers_at >= layout.rooms_at + ROOMS_COUNT * layout.room.bytes());
            assert_eq!(layout.bytes, layout.answers_at + n as usize * ANSWER_BYTES + NAMES_BYTES);
            assert_eq!(Layout::of_fingerprint(layout.fingerprint()).map(|l| l.bytes), Some(layout.bytes));
            assert_ne!(layout.fingerprint(), 0);
        }
    }

    #[test]
    fn ranks_with_other_settings_are_told_so() {
        let source = Source::create().unwrap();
        Segment::attach(&source, 2, RingSize { slots_count: 8, lines_counts: [16, 0] }).unwrap();
        // A segment as long, a longer one, and a shorter one.
        for (ranks_count, slots_count, near) in [(2, 16, 8), (5, 8, 16), (1, 8, 16)] {
            let size = RingSize { slots_count, lines_counts: [near, 0] };
            let Err(error) = Segment::attach(&source, ranks_count, size) else { panic!("attached") };
            assert!(error.to_string().contains("do not agree"), "{error}");
        }
    }

    #[test]
    fn a_fingerprint_names_a_layout_that_is_possible() {
        let parsed = |local_size: u64, slots: u64, near: u64, bulk: u64| {
            Layout::of_fingerprint(VERSION << 56 | local_size << 40 | bulk << 16 | slots << 8 | near)
        };
        // Lines and slots are powers of two: their exponents.
        for (local_size, slots, near, bulk) in [(1, 2, 2, 0), (1024, 2, 20, 2), (7, 20, 5, 20)] {
            let layout = parsed(local_size, slots, near, bulk).expect("possible");
            let ring = RingSize {
                slots_count: 1 << slots,
                lines_counts: [1 << near, if bulk == 0 { 0 } else { 1 << bulk }],
            };
            assert_eq!((u64::from(layout.local_size), layout.ring), (local_size, ring));
        }
        let impossible = [
            (0, 2, 2, 0),
            (1025, 2, 2, 0),
            (1, 1, 2, 0),
            (1, 21, 2, 0),
            (1, 2, 1, 0),
            (1, 2, 21, 0),
            (1, 2, 2, 1),
            (1, 2, 2, 21),
            (1, 32, 2, 0),
        ];
        for (local_size, slots, near, bulk) in impossible {
            assert!(parsed(local_size, slots, near, bulk).is_none(), "{local_size} {slots} {near} {bulk}");
        }
        let good = Layout::new(2, RingSize::for_ranks(2)).fingerprint();
        for bit in [30, 60] {
            assert!(Layout::of_fingerprint(good ^ 1 << bit).is_none(), "another version's");
        }
    }

    #[test]
    fn rings_of_more_ranks_are_smaller_and_within_their_bounds() {
        let mut before = RingSize::for_ranks(1);
        for n in 1..=LOCAL_SIZE_MAX {
            let ring = RingSize::for_ranks(n);
            let [near, bulk] = ring.lines_counts;
            for count in [ring.slots_count, near, bulk.max(4)] {
                assert!(count.is_power_of_two() && count >= 4, "{ring:?}");
            }
            // Four packets of 32 KiB at most, in nearer caches.
            assert!(near as usize * LINE_BYTES <= 4 * (32 << 10));
            let all_bytes = (n as usize - 1) * 2 * ring.bytes();
            let most = if n <= 8 { 14 << 20 } else { 10 << 20 };
            assert!(n > 128 || all_bytes <= most, "{n}: {all_bytes} bytes");
            assert!(ring.bytes() <= before.bytes() && ring.slots_count <= before.slots_count);
            // As the simulator counts them.
            let blocks_count = profiles::shm_blocks_count(n) as usize;
            let each = block_lines(ring.lines_counts[1] as usize);
            assert_eq!(ring.block_lines(), blocks_count * each, "{n} ranks");
            before = ring;
        }
        assert_eq!(before.lines_counts[1], 0, "a thousand ranks");
        // Half of what two ranks of 32 have.
        assert_eq!([32, 33, 128].map(|n| RingSize::for_ranks(n).lines_counts[0]), [512, 256, 256]);
    }

    #[test]
    fn a_host_has_one_rank_to_a_thousand() {
        let source = Source::create().unwrap();
        let size = RingSize { slots_count: 4, lines_counts: [4, 0] };
        for count in [0, LOCAL_SIZE_MAX + 1] {
            assert!(matches!(Segment::attach(&source, count, size), Err(ShmError::TooManyRanks(_))));
        }
        assert!(Segment::attach(&source, LOCAL_SIZE_MAX, size).is_ok());
    }

    #[test]
    fn an_address_must_look_like_one() {
        for bad in ["", "/etc/passwd", "/proc/self/fd/1", "/proc/1/fd/../../x", "/proc/12/fd/"] {
            let Err(error) = Source::Address(bad.into()).open() else { panic!("{bad} opened") };
            assert!(matches!(error, ShmError::Address(_)), "{error}");
        }
    }

    #[test]
    fn an_address_opens_the_same_file() {
        let source = Source::create().unwrap();
        let address = source.address().unwrap();
        let size = RingSize { slots_count: 4, lines_counts: [4, 0] };
        let other = Segment::attach(&Source::Address(address), 1, size).unwrap();
        let segment = Segment::attach(&source, 1, size).unwrap();
        segment.controls()[0].pid.store(77, Ordering::Relaxed);
        assert_eq!(other.controls()[0].pid.load(Ordering::Relaxed), 77);
    }
}
