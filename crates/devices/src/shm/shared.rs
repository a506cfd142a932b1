//! Memory that some processes of one host share for a while: windows. A memory file without a name, which the
//! others reach as `/proc/PID/fd/N` until its maker closes it; it is gone with the last mapping.
//!
//! At the front there is a lock for each member, for accumulates: all accesses of the others' processes go
//! directly to the memory, and so does the owner's. Accumulates of one element need no lock where it is a
//! word that the processor changes as a whole ([`SharedWord`]). For these and those under the lock to exclude
//! each other:
//!
//! 1. A process marks a member's memory, under its lock, before it changes a word there for the first time.
//!    The mark stays.
//! 2. A holder of the lock that finds the mark changes word-sized elements as words. Without the mark it may
//!    change them in any way: the mark, and so the first word, waits for the lock.

use super::segment::{ShmError, Source, system};
use super::sys::{self, PassingMapping};
use ayatori_core::buffer::Buffer;
use ayatori_core::rma::Word;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Shared memory: mapped as long as the value lives.
pub struct SharedMemory {
    mapping: PassingMapping,
    data_at: usize,
    /// This process, as locks name their holders.
    me: u32,
}

/// Bytes from one lock to the next: two do not share a cache line.
const LOCK_BYTES: usize = 64;

/// Where the lock for epochs lies, behind that for accumulates.
const EPOCH_WORD_AT: usize = LOCK_BYTES / 2;

/// Where the mark lies that words are changed without the lock.
const MARK_AT: usize = LOCK_BYTES / 4;

/// A lock for epochs that one process has alone: the member whose number is in the other bits.
const EXCLUSIVE: u32 = 1 << 31;

/// Alignment of the data: a page.
const PAGE_BYTES: usize = 4096;

/// A member's lock; given back when dropped.
pub struct Locked<'a>(&'a AtomicU32);

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// The holder of a member's lock for epochs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// The lock is free.
    Free,
    /// Number of processes that share it.
    Shared(u32),
    /// This member, alone.
    Exclusive(u32),
}

/// A word of 4 or 8 bytes in shared memory.
#[derive(Clone, Copy)]
pub enum SharedWord<'a> {
    /// A word of 4 bytes.
    Four(&'a AtomicU32),
    /// A word of 8 bytes.
    Eight(&'a AtomicU64),
}

impl Word for SharedWord<'_> {
    #[inline(always)]
    fn load(&self) -> u64 {
        match self {
            Self::Four(word) => word.load(Ordering::SeqCst).into(),
            Self::Eight(word) => word.load(Ordering::SeqCst),
        }
    }

    #[inline(always)]
    fn swap(&self, new: u64) -> u64 {
        match self {
            Self::Four(word) => word.swap(new as u32, Ordering::SeqCst).into(),
            Self::Eight(word) => word.swap(new, Ordering::SeqCst),
        }
    }

    #[inline(always)]
    fn add(&self, operand: u64) -> u64 {
        match self {
            Self::Four(word) => word.fetch_add(operand as u32, Ordering::SeqCst).into(),
            Self::Eight(word) => word.fetch_add(operand, Ordering::SeqCst),
        }
    }

    #[inline(always)]
    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        const ORDER: Ordering = Ordering::SeqCst;
        match self {
            Self::Four(word) => {
                word.compare_exchange(old as u32, new as u32, ORDER, ORDER).map(drop).map_err(u64::from)
            }
            Self::Eight(word) => word.compare_exchange(old, new, ORDER, ORDER).map(drop),
        }
    }
}

/// Where the data of so many bytes begin, behind the members' locks, and how long all is.
fn extent(members_count: usize, bytes: usize) -> Result<(usize, usize), ShmError> {
    let data_at = (members_count * LOCK_BYTES).next_multiple_of(PAGE_BYTES);
    let len = data_at.checked_add(bytes).ok_or(ShmError::TooLarge(bytes))?;
    Ok((data_at, len))
}

impl SharedMemory {
    /// Makes zeroed memory of `bytes` for `members_count` members, of which `own` is this one's. The caller
    /// keeps the source until all others have opened it. Each has the system provide the memory of its own
    /// part: in the NUMA node where it runs, and all at the same time.
    ///
    /// # Errors
    /// The system has too little memory, or no memory files.
    pub fn create(members_count: usize, bytes: usize, own: Range<usize>) -> Result<(Self, Source), ShmError> {
        let source = Source::create()?;
        let (data_at, len) = extent(members_count, bytes)?;
        let fd = source.open()?;
        sys::set_length(&fd, len).map_err(system("give shared memory its length"))?;
        sys::check_fits_host(len).map_err(system("reserve shared memory"))?;
        sys::reserve_at(fd.as_fd(), 0, data_at).map_err(system("reserve shared memory"))?;
        Ok((Self::map(fd.as_fd(), data_at, len, own)?, source))
    }

    /// Maps what another member has made. `own` is this one's part.
    ///
    /// # Errors
    /// It cannot be reached, or is too short, or the system has too little memory for the own part.
    pub fn open(
        source: &Source,
        members_count: usize,
        bytes: usize,
        own: Range<usize>,
    ) -> Result<Self, ShmError> {
        let (data_at, len) = extent(members_count, bytes)?;
        let fd = source.open()?;
        let there = std::fs::File::from(fd.try_clone().map_err(system("open shared memory"))?);
        let is_long = there.metadata().map_err(system("look at shared memory"))?.len() >= len as u64;
        if !is_long {
            return Err(ShmError::TooLarge(bytes));
        }
        Self::map(fd.as_fd(), data_at, len, own)
    }

    fn map(fd: BorrowedFd<'_>, data_at: usize, len: usize, own: Range<usize>) -> Result<Self, ShmError> {
        let own_bytes = own.len();
        if own_bytes > 0 {
            sys::reserve_at(fd, data_at + own.start, own_bytes).map_err(system("reserve shared memory"))?;
        }
        let mapping = PassingMapping::new(fd, len).map_err(system("map shared memory"))?;
        Ok(Self { mapping, data_at, me: sys::process_id().cast_unsigned() })
    }

    /// `len` bytes at `offset` of the data.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline]
    pub fn buffer(&self, offset: usize, len: usize) -> Buffer {
        self.mapping.buffer(self.data_at + offset, len)
    }

    /// The word of `len` bytes at `offset` of the data, if the processor changes it as a whole.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline(always)]
    pub fn word(&self, offset: usize, len: usize) -> Option<SharedWord<'_>> {
        match len {
            // The data is aligned to a page.
            4 if offset.is_multiple_of(4) => Some(SharedWord::Four(self.mapping.word(self.data_at + offset))),
            8 if offset.is_multiple_of(8) => {
                Some(SharedWord::Eight(self.mapping.long_word(self.data_at + offset)))
            }
            _ => None,
        }
    }

    /// The same for a buffer that may lie here.
    pub fn word_of(&self, buffer: &Buffer) -> Option<SharedWord<'_>> {
        let offset = self.mapping.offset_of(buffer)?.checked_sub(self.data_at)?;
        self.word(offset, buffer.len())
    }

    /// To be called before a word of a member's memory is changed without its lock.
    #[inline(always)]
    pub fn begin_words(&self, member: u32) {
        if !self.has_words(member) {
            self.mark_words(member);
        }
    }

    #[cold]
    fn mark_words(&self, member: u32) {
        let _locked = self.lock(member as usize);
        self.mapping.word(member as usize * LOCK_BYTES + MARK_AT).store(1, Ordering::Release);
    }

    /// Whether words of a member's memory are changed without its lock. If not, this stays so while the
    /// caller holds the lock.
    #[inline(always)]
    pub fn has_words(&self, member: u32) -> bool {
        self.mapping.word(member as usize * LOCK_BYTES + MARK_AT).load(Ordering::Acquire) != 0
    }

    /// Takes the locks of these members for epochs, shared by many or for one member, `alone`, if all are
    /// free: else none. The first to try gets them; there is no order of service.
    pub fn try_epochs(&self, members: &[u32], alone: Option<u32>) -> bool {
        match members.iter().position(|member| !self.try_epoch(*member, alone)) {
            None => true,
            Some(taken_count) => {
                self.end_epochs(&members[..taken_count], alone.is_some());
                false
            }
        }
    }

    /// Gives back what [`try_epochs`](Self::try_epochs) took.
    pub fn end_epochs(&self, members: &[u32], is_exclusive: bool) {
        members.iter().for_each(|member| self.end_epoch(*member, is_exclusive));
    }

    /// As [`try_epochs`](Self::try_epochs), one lock.
    #[inline]
    pub fn try_epoch(&self, member: u32, alone: Option<u32>) -> bool {
        let take = |held: u32| match alone {
            Some(me) => (held == 0).then_some(EXCLUSIVE | me),
            // Never that many: each holder is a process.
            None => (held & EXCLUSIVE == 0).then_some(held + 1),
        };
        self.epoch_word(member).fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok()
    }

    /// Gives back what [`try_epoch`](Self::try_epoch) took.
    #[inline]
    pub fn end_epoch(&self, member: u32, is_exclusive: bool) {
        let word = self.epoch_word(member);
        match is_exclusive {
            true => word.store(0, Ordering::Release),
            false => drop(word.fetch_sub(1, Ordering::Release)),
        }
    }

    /// The current holder of a member's lock for epochs.
    pub fn epoch_holder(&self, member: u32) -> Holder {
        match self.epoch_word(member).load(Ordering::Relaxed) {
            0 => Holder::Free,
            held if held & EXCLUSIVE != 0 => Holder::Exclusive(held & !EXCLUSIVE),
            count => Holder::Shared(count),
        }
    }

    /// Holders of a member's lock for epochs: their number, or [`EXCLUSIVE`] and the holder.
    #[inline]
    fn epoch_word(&self, member: u32) -> &AtomicU32 {
        self.mapping.word(member as usize * LOCK_BYTES + EPOCH_WORD_AT)
    }

    /// Takes a member's lock. One whose holder has died is taken from it.
    #[inline]
    pub fn lock(&self, member: usize) -> Locked<'_> {
        let word = self.mapping.word(member * LOCK_BYTES);
        match word.compare_exchange(0, self.me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Locked(word),
            Err(_) => self.wait_for_lock(word),
        }
    }

    #[cold]
    fn wait_for_lock<'a>(&self, word: &'a AtomicU32) -> Locked<'a> {
        /// Looks before the CPU is given to others, and looks in between at whether the holder lives.
        const SPINS: u32 = 200;
        const YIELDS: u32 = 1000;
        let me = self.me;
        let mut looks = 0_u32;
        loop {
            match word.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Locked(word),
                Err(holder) => {
                    looks = looks.wrapping_add(1);
                    if looks < SPINS {
                        std::hint::spin_loop();
                        continue;
                    }
                    sys::yield_now();
                    let is_dead = looks.is_multiple_of(YIELDS)
                        && holder != 0
                        && !std::path::Path::new(&format!("/proc/{holder}")).exists();
                    if is_dead
                        && word.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
                    {
                        return Locked(word);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_core::buffer::Piece;

    #[test]
    fn what_one_mapping_writes_the_other_reads() {
        let (made, source) = SharedMemory::create(3, 10_000, 0..10_000).unwrap();
        let address = Source::Address(source.address().unwrap());
        let opened = SharedMemory::open(&address, 3, 10_000, 0..0).unwrap();
        made.buffer(9_000, 5).scatter(0, Piece::Bytes(b"hello"));
        assert_eq!(opened.buffer(9_000, 5).to_vec().unwrap(), b"hello");
        assert!(SharedMemory::open(&address, 3, 1 << 20, 0..0).is_err(), "it is shorter");
        drop((source, made));
        assert_eq!(opened.buffer(9_000, 5).to_vec().unwrap(), b"hello");
    }

    #[test]
    fn each_member_has_its_own_part_provided() {
        const PART: usize = 4 << 20;
        let (_made, source) = SharedMemory::create(2, 2 * PART, 0..PART).unwrap();
        let file = std::fs::File::from(source.open().unwrap());
        let provided = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) as usize * 512;
        assert!((PART..PART + (1 << 20)).contains(&provided()), "{} bytes", provided());
        let _opened = SharedMemory::open(&source, 2, 2 * PART, PART..2 * PART).unwrap();
        assert!(provided() >= 2 * PART, "{} bytes", provided());
    }

    #[test]
    fn locks_of_many_members_lie_before_the_data() {
        const MEMBERS: usize = 100;
        let (made, source) = SharedMemory::create(MEMBERS, 10_000, 0..10_000).unwrap();
        let opened = SharedMemory::open(&source, MEMBERS, 10_000, 0..0).unwrap();
        made.buffer(0, 10_000).scatter(0, Piece::Bytes(&[0xff; 10_000]));
        for member in 0..MEMBERS as u32 {
            assert_eq!(opened.epoch_holder(member), Holder::Free);
            assert!(!opened.has_words(member) && opened.try_epoch(member, Some(member)));
            drop(opened.lock(member as usize));
            opened.begin_words(member);
        }
        assert!(opened.buffer(0, 10_000).to_vec().unwrap().iter().all(|&byte| byte == 0xff));
        assert!((0..MEMBERS as u32).all(|member| made.epoch_holder(member) == Holder::Exclusive(member)));
        assert!(
            SharedMemory::create(1, usize::MAX, 0..usize::MAX).is_err()
                && SharedMemory::open(&source, 1, usize::MAX, 0..0).is_err()
        );
    }

    #[test]
    fn a_word_of_the_memory_is_found_by_its_buffer() {
        let (memory, _source) = SharedMemory::create(1, 64, 0..64).unwrap();
        memory.word(4, 4).unwrap().swap(7);
        assert_eq!(memory.buffer(4, 4).to_vec().unwrap(), 7_u32.to_ne_bytes());
        for (offset, len) in [(0, 8), (56, 8), (60, 4)] {
            assert!(memory.word_of(&memory.buffer(offset, len)).is_some(), "{offset} {len}");
        }
        assert_eq!(memory.word(56, 8).unwrap().add(3), 0);
        assert_eq!(memory.word(56, 8).unwrap().load(), 3);
    }

    #[test]
    fn locks_for_epochs_are_shared_or_exclusive_and_all_or_none() {
        let (memory, _source) = SharedMemory::create(3, 64, 0..64).unwrap();
        assert!(memory.try_epochs(&[1], None) && memory.try_epochs(&[1, 2], None));
        assert!(!memory.try_epochs(&[0, 1], Some(0)), "1 is shared");
        assert!(memory.try_epochs(&[0], Some(2)), "the try before has kept nothing");
        assert_eq!(
            [0, 1].map(|member| memory.epoch_holder(member)),
            [Holder::Exclusive(2), Holder::Shared(2)]
        );
        assert!(!memory.try_epochs(&[0], None) && !memory.try_epochs(&[2, 0], None));
        memory.end_epochs(&[1, 2], false);
        assert!(memory.try_epochs(&[2], Some(0)) && !memory.try_epochs(&[1], Some(0)));
        memory.end_epochs(&[1], false);
        memory.end_epochs(&[0], true);
        assert_eq!(memory.epoch_holder(0), Holder::Free);
        assert!(memory.try_epochs(&[0, 1], Some(1)));
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time() {
        let (memory, _source) = SharedMemory::create(2, 64, 0..64).unwrap();
        let memory = &memory;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let _locked = memory.lock(1);
                        let word = memory.buffer(0, 8);
                        let next = u64::from_ne_bytes(word.to_vec().unwrap().try_into().unwrap()) + 1;
                        word.scatter(0, Piece::Bytes(&next.to_ne_bytes()));
                    }
                });
            }
        });
        let sum = memory.buffer(0, 8).to_vec().unwrap();
        assert_eq!(u64::from_ne_bytes(sum.try_into().unwrap()), 8_000);
    }

    #[test]
    fn words_are_changed_whole_beside_holders_of_the_lock() {
        let (memory, _source) = SharedMemory::create(2, 64, 0..64).unwrap();
        let memory = &memory;
        assert!(memory.word(4, 8).is_none() && memory.word(2, 4).is_none() && memory.word(0, 2).is_none());
        assert!(memory.word_of(&Buffer::leaked(8)).is_none());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        memory.begin_words(1);
                        memory.word(8, 8).unwrap().add(1);
                        let half = memory.word(20, 4).unwrap();
                        while half.replace(half.load(), half.load() + 1).is_err() {}
                    }
                });
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let _locked = memory.lock(1);
                        let part = memory.buffer(8, 8);
                        if memory.has_words(1) {
                            memory.word_of(&part).unwrap().add(1);
                        } else {
                            let old = u64::from_ne_bytes(part.to_vec().unwrap().try_into().unwrap());
                            part.scatter(0, Piece::Bytes(&(old + 1).to_ne_bytes()));
                        }
                    }
                });
            }
        });
        assert_eq!(memory.word(8, 8).unwrap().load(), 20_000);
        assert!(memory.has_words(1) && !memory.has_words(0));
        let word = memory.word(32, 8).unwrap();
        assert_eq!((word.swap(7), word.replace(6, 1), word.replace(7, 8)), (0, Err(7), Ok(())));
        assert_eq!(memory.buffer(32, 8).to_vec().unwrap(), 8_u64.to_ne_bytes());
    }

    #[test]
    fn the_lock_of_a_living_process_is_waited_for() {
        let (memory, _source) = SharedMemory::create(1, 0, 0..0).unwrap();
        let word = memory.mapping.word(0);
        // The first process lives as long as any.
        word.store(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| drop(memory.lock(0)));
            for _ in 0..3_000 {
                std::thread::yield_now();
                assert_eq!((word.load(Ordering::Relaxed), thread.is_finished()), (1, false));
            }
            word.store(0, Ordering::Release);
        });
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_from_it() {
        let (memory, _source) = SharedMemory::create(1, 0, 0..0).unwrap();
        // No process has such a number.
        memory.mapping.word(0).store(u32::MAX, Ordering::Relaxed);
        drop(memory.lock(0));
        assert_eq!(memory.mapping.word(0).load(Ordering::Relaxed), 0);
    }
}
