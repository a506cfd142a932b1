//! Memory that some processes of one host share for a while: windows. A memory file without a name, which the
//! others reach as `/proc/PID/fd/N` until its maker closes it; it is gone with the last mapping.
//!
//! At the front there is a lock for each member, for accumulates: all accesses of the others' processes go
//! directly to the memory, and so does the owner's.

use super::segment::{ShmError, Source, system};
use super::sys::{self, PassingMapping};
use ayatori_core::buffer::Buffer;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// A lock for epochs that one process has alone.
const EXCLUSIVE: u32 = 1 << 31;

/// What the data is aligned to: a page.
const PAGE_BYTES: usize = 4096;

/// A member's lock; given back when dropped.
pub struct Locked<'a>(&'a AtomicU32);

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl SharedMemory {
    /// Makes memory for so many members and bytes, zeroed. The source is to be kept until all others have
    /// opened it.
    ///
    /// # Errors
    /// The system has not so much memory, or no memory files.
    pub fn create(members_count: usize, bytes: usize) -> Result<(Self, Source), ShmError> {
        let source = Source::create()?;
        let data_at = (members_count * LOCK_BYTES).next_multiple_of(PAGE_BYTES);
        let len = data_at.checked_add(bytes).ok_or(ShmError::TooLarge(bytes))?;
        let fd = source.open()?;
        sys::set_length(&fd, len).map_err(system("give shared memory its length"))?;
        sys::reserve(fd.as_fd(), len).map_err(system("reserve shared memory"))?;
        let mapping = PassingMapping::new(fd.as_fd(), len).map_err(system("map shared memory"))?;
        Ok((Self { mapping, data_at, me: sys::process_id().cast_unsigned() }, source))
    }

    /// Maps what another member has made.
    ///
    /// # Errors
    /// It cannot be reached, or is too short.
    pub fn open(source: &Source, members_count: usize, bytes: usize) -> Result<Self, ShmError> {
        let data_at = (members_count * LOCK_BYTES).next_multiple_of(PAGE_BYTES);
        let len = data_at.checked_add(bytes).ok_or(ShmError::TooLarge(bytes))?;
        let fd = source.open()?;
        let there = std::fs::File::from(fd.try_clone().map_err(system("open shared memory"))?);
        let is_long = there.metadata().map_err(system("look at shared memory"))?.len() >= len as u64;
        if !is_long {
            return Err(ShmError::TooLarge(bytes));
        }
        let mapping = PassingMapping::new(fd.as_fd(), len).map_err(system("map shared memory"))?;
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

    /// Takes the locks of these members for epochs, shared by many or for this process alone, if all are
    /// free: else none. Whoever comes first has them; nobody is served in order.
    pub fn try_epochs(&self, members: &[u32], is_exclusive: bool) -> bool {
        match members.iter().position(|member| !self.try_epoch(*member, is_exclusive)) {
            None => true,
            Some(taken_count) => {
                self.end_epochs(&members[..taken_count], is_exclusive);
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
    pub fn try_epoch(&self, member: u32, is_exclusive: bool) -> bool {
        let take = |held: u32| match is_exclusive {
            true => (held == 0).then_some(EXCLUSIVE),
            // Never that many: each holder is a process.
            false => (held & EXCLUSIVE == 0).then_some(held + 1),
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

    /// Holders of a member's lock for epochs: their number, or [`EXCLUSIVE`].
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
        let (made, source) = SharedMemory::create(3, 10_000).unwrap();
        let address = Source::Address(source.address().unwrap());
        let opened = SharedMemory::open(&address, 3, 10_000).unwrap();
        made.buffer(9_000, 5).scatter(0, Piece::Bytes(b"hello"));
        assert_eq!(opened.buffer(9_000, 5).to_vec().unwrap(), b"hello");
        assert!(SharedMemory::open(&address, 3, 1 << 20).is_err(), "it is shorter");
        drop(source);
        assert!(SharedMemory::open(&address, 3, 10_000).is_err(), "it was closed");
        drop(made);
        assert_eq!(opened.buffer(9_000, 5).to_vec().unwrap(), b"hello");
    }

    #[test]
    fn locks_for_epochs_are_shared_or_exclusive_and_all_or_none() {
        let (memory, _source) = SharedMemory::create(3, 64).unwrap();
        assert!(memory.try_epochs(&[1], false) && memory.try_epochs(&[1, 2], false));
        assert!(!memory.try_epochs(&[0, 1], true), "1 is shared");
        assert!(memory.try_epochs(&[0], true), "the try before has kept nothing");
        assert!(!memory.try_epochs(&[0], false) && !memory.try_epochs(&[2, 0], false));
        memory.end_epochs(&[1, 2], false);
        assert!(memory.try_epochs(&[2], true) && !memory.try_epochs(&[1], true));
        memory.end_epochs(&[1], false);
        memory.end_epochs(&[0], true);
        assert!(memory.try_epochs(&[0, 1], true));
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time() {
        let (memory, _source) = SharedMemory::create(2, 64).unwrap();
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
    fn the_lock_of_a_dead_process_is_taken_from_it() {
        let (memory, _source) = SharedMemory::create(1, 0).unwrap();
        // No process has such a number.
        memory.mapping.word(0).store(u32::MAX, Ordering::Relaxed);
        drop(memory.lock(0));
        assert_eq!(memory.mapping.word(0).load(Ordering::Relaxed), 0);
    }
}
