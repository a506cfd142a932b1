//! The memory that the members of one communicator share for collectives.
//!
//! ```text
//! header    key: whose room this is; how many have left
//! steps     DEPTH × { arrived | published | released | lent }, a pair of lines or two each
//! posts     two a member: { number, data }
//! areas     DEPTH × { one deposit a member | result }
//! ```
//!
//! Members call collectives in one order; each counts its *rounds* from 0 (a collective takes one or more).
//! Round e works in step e mod [`DEPTH`].
//!
//! # Ownership protocol
//!
//! 1. A member *arrives* at round e (`arrived` + 1, acquire and release) once it has written all its data of
//!    this round, and has read all data of rounds before e and, if e `published` some, also that.
//! 2. The last to arrive sets `arrived` back to 0, may write the result, and stores `released` = e + 1 with
//!    release. A member that has seen that (acquire) reads deposits and result of e until its arrival at
//!    round e + 1.
//! 3. Before a member writes in the step of round e it has seen round e - DEPTH + 1 released. All members
//!    arrived there, and so have read all of round e - DEPTH (rules 1, 2), which used the same memory.
//! 4. Member r writes its own deposit only. The result is written by one: the last to arrive, before it
//!    releases; or the root of a round that publishes, each piece before it counts that in `published` with
//!    release (it may write the deposits too: the others write none then); or each member its own part,
//!    before it arrives; or each member a part that it alone reads, between release and arriving at e + 1.
//! 5. In a round that publishes the root may *lend* its memory instead of writing the result: it states the
//!    address before it publishes, does not touch that memory until it has seen the round released, and until
//!    then looks for members that *ask* for the data because the kernel does not let them read it. An asker
//!    owns the words `want` of its deposit area, the root `have` and the bytes after it: pieces go through
//!    there, one at a time (`want` = `have` + 1: the root's turn). The asker arrives when it has all pieces.
//! 6. An *exchange* is no round. Members count their exchanges from 1; in exchange e a member writes its data
//!    in its post e mod 2, then the number e (with release). A member that has seen the number e in all posts
//!    of that parity (acquire) reads their data until it posts for exchange e + 1. So a post is written again
//!    only when all have posted for the exchange between, and have read. It takes one line each way, at the
//!    same time, where a round takes three one after the other.
//! 7. A room starts as zero bytes in header, steps and posts. The last member to leave puts it back so, and
//!    frees it by storing 0 as the key, with release.

use super::super::active::LOCAL_SIZE_MAX;
use super::super::kernel_copy::{Direction, process_memory};
use super::super::sys::Mapping;
use ayatori_core::buffer::{self, Buffer, Piece};
use ayatori_core::coll::shared_memory;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rooms in a segment: communicators that can have one at a time. The first is `MPI_COMM_WORLD`'s where all
/// of the job is on this host.
pub(crate) const ROOMS_COUNT: usize = 32;

/// Rounds in progress at once: how far a member may run ahead of the slowest.
pub(crate) const DEPTH: usize = 4;

#[repr(C, align(128))]
pub(crate) struct Header {
    /// 0: free. Else the context's number + 1.
    key: AtomicU64,
    left_count: AtomicU32,
}

#[repr(C, align(128))]
struct Counter(AtomicU32);

#[repr(C, align(128))]
struct Published(AtomicU64);

/// Bits of the number of pieces; a round's data are some at most.
const PIECES_BITS: u32 = 16;

/// Memory that the root of a round lends.
#[repr(C, align(128))]
struct Lent {
    /// In the root's memory; 0: the kernel's copy is not to be had.
    address: AtomicU64,
    bytes: AtomicU64,
    /// A bit for each member that asks.
    askers: [AtomicU64; LOCAL_SIZE_MAX as usize / 64],
}

/// At the start of an asker's deposit area: pieces wanted and pieces there.
#[repr(C, align(128))]
pub(crate) struct Mail {
    pub(crate) want: AtomicU64,
    pub(crate) have: AtomicU64,
}

#[repr(C)]
struct Step {
    arrived: Counter,
    /// Round + 1, and below [`PIECES_BITS`] how many pieces are there.
    published: Published,
    released: Counter,
    lent: Lent,
}

/// A post: the number of its exchange, and the data; in the same line if that holds them, else from the next
/// one on. No two posts share a pair of lines.
const SHORT_POST_AT: usize = 16;
const SHORT_POST_BYTES_MAX: usize = shared_memory::LINE_BYTES - SHORT_POST_AT;
const LONG_POST_AT: usize = shared_memory::LINE_BYTES;
const POST_BYTES: usize =
    (LONG_POST_AT + shared_memory::EXCHANGE_BYTES_MAX).next_multiple_of(align_of::<Counter>());
const POSTS_BYTES: usize = 2 * POST_BYTES;
const POSTS_AT: usize = 4096;

/// Offsets in a room, in bytes from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomLayout {
    /// Members at most.
    members_max: usize,
    /// Size of one deposit, and of the result.
    area_bytes: usize,
}

impl RoomLayout {
    pub(crate) fn new(members_max: u32) -> Self {
        let area_bytes = shared_memory::area_bytes(members_max);
        Self { members_max: members_max as usize, area_bytes }
    }

    /// Members that have posts.
    fn posters_count(&self) -> usize {
        self.members_max.min(shared_memory::EXCHANGE_RANKS_MAX as usize)
    }

    fn areas_at(&self) -> usize {
        (POSTS_AT + self.posters_count() * POSTS_BYTES).next_multiple_of(4096)
    }

    fn step_bytes(&self) -> usize {
        (self.members_max + 1) * self.area_bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        const { assert!(size_of::<Header>() + DEPTH * size_of::<Step>() <= POSTS_AT) };
        self.areas_at() + DEPTH * self.step_bytes()
    }
}

/// What `released` holds after `round`; wraps.
#[inline]
fn released_word(round: u64) -> u32 {
    (round as u32).wrapping_add(1)
}

/// One member's view of a room.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    mapping: Mapping,
    at: usize,
    layout: RoomLayout,
    header: &'static Header,
    steps: &'static [Step],
}

impl Room {
    pub(crate) fn new(mapping: Mapping, at: usize, layout: RoomLayout) -> Self {
        // SAFETY: atomics only.
        let (header, steps) = unsafe {
            (&mapping.slice::<Header>(at, 1)[0], mapping.slice::<Step>(at + size_of::<Header>(), DEPTH))
        };
        Self { mapping, at, layout, header, steps }
    }

    /// Size of one deposit, and of the result.
    pub(crate) fn area_bytes(&self) -> usize {
        self.layout.area_bytes
    }

    /// Takes the room if it is free.
    pub(crate) fn claim(&self, key: u64) -> bool {
        self.header.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Frees the room if it was taken for `key` and never used.
    pub(crate) fn unclaim(&self, key: u64) {
        // Someone else's room stays as it is.
        let _ = self.header.key.compare_exchange(key, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn is(&self, key: u64) -> bool {
        self.header.key.load(Ordering::Acquire) == key
    }

    /// This member will not use the room again (rule 7).
    pub(crate) fn leave(&self, members_count: u32) {
        if self.header.left_count.fetch_add(1, Ordering::AcqRel) + 1 < members_count {
            return;
        }
        for step in self.steps {
            step.arrived.0.store(0, Ordering::Relaxed);
            step.published.0.store(0, Ordering::Relaxed);
            step.released.0.store(0, Ordering::Relaxed);
        }
        for rank in 0..members_count.min(self.layout.posters_count() as u32) {
            for number in [0, 1] {
                self.post_number(rank, number).store(0, Ordering::Relaxed);
            }
        }
        self.header.left_count.store(0, Ordering::Relaxed);
        self.header.key.store(0, Ordering::Release);
    }

    fn step(&self, round: u64) -> &'static Step {
        &self.steps[round as usize % DEPTH]
    }

    /// Whether the step of `round` may be written (rule 3).
    #[inline]
    pub(crate) fn may_enter(&self, round: u64) -> bool {
        round + 1 < DEPTH as u64 || self.is_released(round + 1 - DEPTH as u64)
    }

    #[inline]
    pub(crate) fn is_released(&self, round: u64) -> bool {
        self.step(round).released.0.load(Ordering::Acquire) == released_word(round)
    }

    /// How many pieces the root has published in `round`.
    #[inline]
    pub(crate) fn pieces(&self, round: u64) -> usize {
        let published = self.step(round).published.0.load(Ordering::Acquire);
        if published >> PIECES_BITS == round + 1 {
            (published & ((1 << PIECES_BITS) - 1)) as usize
        } else {
            0
        }
    }

    /// The root has written `pieces`.
    pub(crate) fn publish(&self, round: u64, pieces: usize) {
        let published = (round + 1) << PIECES_BITS | pieces as u64;
        self.step(round).published.0.store(published, Ordering::Release);
    }

    /// Arrives at `round`; whether this was the last member, which then calls [`release`](Self::release).
    #[inline]
    pub(crate) fn arrive(&self, round: u64, members_count: u32) -> bool {
        self.step(round).arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == members_count
    }

    pub(crate) fn release(&self, round: u64) {
        let step = self.step(round);
        step.arrived.0.store(0, Ordering::Relaxed);
        step.released.0.store(released_word(round), Ordering::Release);
    }

    #[inline(always)]
    fn posts_at(&self, rank: u32) -> usize {
        self.at + POSTS_AT + rank as usize * POSTS_BYTES
    }

    /// Where the post of member `rank` for an exchange is.
    #[inline(always)]
    fn post_at(&self, rank: u32, number: u32) -> usize {
        self.posts_at(rank) + number as usize % 2 * POST_BYTES
    }

    #[inline(always)]
    fn post_number(&self, rank: u32, number: u32) -> &'static AtomicU32 {
        // SAFETY: an atomic.
        unsafe { &self.mapping.slice::<AtomicU32>(self.post_at(rank, number), 1)[0] }
    }

    /// The data of a post that holds `len` bytes.
    ///
    /// # Panics
    /// If the member has no posts, or none that long.
    #[inline(always)]
    fn post_data(&self, rank: u32, number: u32, len: usize) -> *mut u8 {
        assert!((rank as usize) < self.layout.posters_count() && len <= POST_BYTES - LONG_POST_AT);
        let at = if len <= SHORT_POST_BYTES_MAX { SHORT_POST_AT } else { LONG_POST_AT };
        self.mapping.address(self.post_at(rank, number) + at, len)
    }

    /// Member `rank` posts its data for exchange `number`; it has read what the exchange before offered.
    ///
    /// # Panics
    /// As `post_data`.
    #[inline]
    pub(crate) fn post(&self, rank: u32, number: u32, data: &Buffer) {
        let to = self.post_data(rank, number, data.len());
        if let Some(from) = data.as_ptr()
            && !data.is_empty()
        {
            // SAFETY: both have as many bytes (`post_data` checked); by rule 6 no member reads the post now;
            // the program's are readable (`from_raw_parts`) and not in the segment.
            unsafe { buffer::copy(from, to, data.len()) };
        }
        self.post_number(rank, number).store(number, Ordering::Release);
    }

    /// Whether member `rank` has posted for exchange `number`.
    #[inline]
    pub(crate) fn has_posted(&self, rank: u32, number: u32) -> bool {
        self.post_number(rank, number).load(Ordering::Acquire) == number
    }

    /// `bytes` of a post of `len` in all: only between seeing that all have posted for the exchange and
    /// posting for the next.
    ///
    /// # Panics
    /// As `post_data`, or if it has not these bytes.
    #[inline]
    pub(crate) fn posted(&self, rank: u32, number: u32, len: usize, bytes: Range<usize>) -> &[u8] {
        let at = self.post_data(rank, number, len);
        // SAFETY: in bounds (`post_data` checked); no member writes it now (rule 6); the slice does not leave
        // this file's callers' statements.
        let whole = unsafe { std::slice::from_raw_parts(at, len) };
        &whole[bytes]
    }

    /// States what the root lends in `round`, which it publishes next.
    pub(crate) fn lend(&self, round: u64, address: u64, bytes: u64) {
        let lent = &self.step(round).lent;
        lent.address.store(address, Ordering::Relaxed);
        lent.bytes.store(bytes, Ordering::Relaxed);
        for word in &lent.askers[..self.layout.members_max.div_ceil(64)] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Copies what the published `round` lends from the memory of process `pid` into `buffer`.
    pub(crate) fn take_lent(&self, round: u64, pid: u32, buffer: &Buffer) -> io::Result<()> {
        let lent = &self.step(round).lent;
        let (address, bytes) = (lent.address.load(Ordering::Relaxed), lent.bytes.load(Ordering::Relaxed));
        if address == 0 {
            // About this memory, not about what the kernel allows.
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        let len = buffer.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        // The root lends its memory until we arrive (rule 5).
        process_memory(Direction::Read, pid, &buffer.part(0, len), address)
    }

    /// Member `rank` asks the root for what the published `round` lends, a piece at a time.
    pub(crate) fn ask(&self, round: u64, rank: u32) {
        let mail = self.mail(round, rank);
        mail.have.store(0, Ordering::Relaxed);
        mail.want.store(1, Ordering::Relaxed);
        let askers = &self.step(round).lent.askers;
        askers[rank as usize / 64].fetch_or(1 << (rank % 64), Ordering::Release);
    }

    /// The members that ask in `round`.
    #[inline]
    pub(crate) fn askers(&self, round: u64, members_count: u32) -> impl Iterator<Item = u32> + use<> {
        let askers = &self.step(round).lent.askers;
        (0..members_count.div_ceil(64)).flat_map(move |word| {
            let bits = askers[word as usize].load(Ordering::Acquire);
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        })
    }

    /// The words at the start of a member's deposit area.
    pub(crate) fn mail(&self, round: u64, rank: u32) -> &'static Mail {
        let at = self.step_at(round) + rank as usize * self.layout.area_bytes;
        // SAFETY: atomics.
        unsafe { &self.mapping.slice::<Mail>(at, 1)[0] }
    }

    /// Where the pieces for an asker go, and how long they are at most.
    pub(crate) fn piece_place(&self, rank: u32) -> (usize, usize) {
        let words = size_of::<Mail>();
        (rank as usize * self.layout.area_bytes + words, self.layout.area_bytes - words)
    }

    fn step_at(&self, round: u64) -> usize {
        self.at + self.layout.areas_at() + round as usize % DEPTH * self.layout.step_bytes()
    }

    fn address(&self, round: u64, offset: usize, len: usize) -> *mut u8 {
        let step_bytes = self.layout.step_bytes();
        assert!(offset <= step_bytes && len <= step_bytes - offset, "outside of the room");
        self.mapping.address(self.step_at(round) + offset, len)
    }

    /// Offset of the result area in a step; deposits are before it.
    pub(crate) fn result_at(&self) -> usize {
        self.layout.members_max * self.layout.area_bytes
    }

    /// Copies from `buffer` to `offset` in the step's areas, which by the rules is the caller's to write.
    #[inline]
    pub(crate) fn write(&self, round: u64, offset: usize, buffer: &Buffer, from: usize, len: usize) {
        let to = self.address(round, offset, len);
        if let Some(at) = buffer.part(from, len).as_ptr() {
            // SAFETY: both have `len` bytes (`part` and `address` checked); the room's are the caller's by
            // rules 3 and 4, so no other member accesses them, the program's are readable (`from_raw_parts`)
            // and not in the segment.
            unsafe { buffer::copy(at, to, len) };
        }
    }

    /// Copies from `offset` in the step's areas, which by the rules no member writes now.
    #[inline]
    pub(crate) fn read(&self, round: u64, offset: usize, buffer: &Buffer, to: usize, len: usize) {
        buffer.scatter(to, Piece::Bytes(self.bytes(round, offset, len)));
    }

    /// The bytes at `offset`: only between seeing the round released (or published) and arriving at the next.
    #[inline]
    fn bytes(&self, round: u64, offset: usize, len: usize) -> &[u8] {
        let at = self.address(round, offset, len);
        // SAFETY: in bounds; no member writes it now (rules 2 and 4); the slice does not leave this file's
        // callers' statements.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// Folds `len` bytes at each of the deposits' offsets, in their order, into the result of `into_round`
    /// at `result_offset` from the start of the areas: first a copy, then `reduce(result, deposit)`.
    pub(crate) fn fold(
        &self,
        round: u64,
        deposits: impl Iterator<Item = usize>,
        (into_round, result_offset): (u64, usize),
        len: usize,
        reduce: &mut impl FnMut(&mut [u8], &[u8]),
    ) {
        let at = self.address(into_round, result_offset, len);
        // SAFETY: in bounds; the result (or this part of it) is the caller's to write (rule 4) and apart from
        // the deposits, which lie before it or in another step.
        let result = unsafe { std::slice::from_raw_parts_mut(at, len) };
        for (index, offset) in deposits.enumerate() {
            assert!(offset + len <= self.result_at(), "a deposit inside the result");
            let deposit = self.bytes(round, offset, len);
            if index == 0 {
                result.copy_from_slice(deposit);
            } else {
                reduce(result, deposit);
            }
        }
    }
}
