//! Registrations kept for the next message from the same memory (P1, §2: pinning costs more than short
//! transfers).
//!
//! A kept registration names memory that may be unmapped, and mapped again as something else. So nothing is
//! kept unless the owner of the process watches that, and says so of every range
//! ([`Process::invalidate_memory`](crate::Process::invalidate_memory)) before it is gone: a notifier, not
//! hope. A registration that is in use then is ended when its message is.

use crate::buffer::Buffer;
use crate::device::RemoteKey;
use crate::ids::Rail;
use alloc::vec::Vec;

struct Entry {
    rail: Rail,
    base: usize,
    len: usize,
    key: RemoteKey,
    /// Messages that use it.
    users: u32,
    /// Its memory is gone, or going.
    stale: bool,
    used_at: u64,
}

/// The registrations of one process.
#[derive(Default)]
pub(crate) struct Registrations {
    /// As many as are kept at most; 0: none.
    count_max: usize,
    entries: Vec<Entry>,
    clock: u64,
}

impl Registrations {
    pub(crate) fn new(count_max: usize) -> Self {
        Self { count_max, ..Self::default() }
    }

    /// The key of a registration that begins where `buffer` does and holds it; it is in use from now on.
    pub(crate) fn find(&mut self, rail: Rail, buffer: &Buffer) -> Option<RemoteKey> {
        let base = buffer.as_ptr()? as usize;
        self.clock += 1;
        let fits = |entry: &&mut Entry| {
            !entry.stale && entry.rail == rail && entry.base == base && entry.len >= buffer.len()
        };
        let entry = self.entries.iter_mut().find(fits)?;
        entry.users += 1;
        entry.used_at = self.clock;
        Some(entry.key)
    }

    /// A registration has been made, and is in use. Gives back one to be ended in its stead.
    pub(crate) fn made(&mut self, rail: Rail, buffer: &Buffer, key: RemoteKey) -> Option<(Rail, RemoteKey)> {
        let base = buffer.as_ptr().filter(|_| self.count_max > 0)? as usize;
        self.clock += 1;
        let used_at = self.clock;
        let len = buffer.len();
        self.entries.push(Entry { rail, base, len, key, users: 1, stale: false, used_at });
        if self.entries.len() <= self.count_max {
            return None;
        }
        let idle = self.entries.iter().enumerate().filter(|(_, entry)| entry.users == 0);
        let (oldest, _) = idle.min_by_key(|(_, entry)| entry.used_at)?;
        let entry = self.entries.swap_remove(oldest);
        Some((entry.rail, entry.key))
    }

    /// A message has ended. Returns whether its registration must end.
    pub(crate) fn release(&mut self, rail: Rail, key: RemoteKey) -> bool {
        let is_it = |entry: &Entry| entry.rail == rail && entry.key == key;
        let Some(at) = self.entries.iter().position(is_it) else { return true };
        let entry = &mut self.entries[at];
        entry.users -= 1;
        // One too many, because all were in use when it was made, goes as well.
        let ends = entry.users == 0 && (entry.stale || self.entries.len() > self.count_max);
        if ends {
            self.entries.swap_remove(at);
        }
        ends
    }

    /// A registration is not kept for messages to come: it ends with those that use it.
    pub(crate) fn keep_no_longer(&mut self, rail: Rail, key: RemoteKey) {
        let is_it = |entry: &&mut Entry| entry.rail == rail && entry.key == key;
        if let Some(entry) = self.entries.iter_mut().find(is_it) {
            entry.stale = true;
        }
    }

    /// Memory is unmapped: gives back the registrations to be ended now.
    pub(crate) fn invalidate(&mut self, base: usize, len: usize) -> Vec<(Rail, RemoteKey)> {
        let end = base.saturating_add(len);
        let mut gone = Vec::new();
        self.entries.retain_mut(|entry| {
            if entry.base >= end || entry.base.saturating_add(entry.len) <= base {
                return true;
            }
            entry.stale = true;
            if entry.users == 0 {
                gone.push((entry.rail, entry.key));
            }
            entry.users > 0
        });
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn key(word: u64) -> RemoteKey {
        RemoteKey { words: [word, 0] }
    }

    const RAIL: Rail = Rail(1);

    /// Registers memory for a message, which ends.
    fn keep(cache: &mut Registrations, memory: &Buffer, word: u64) {
        assert_eq!(cache.made(RAIL, memory, key(word)), None);
        assert!(!cache.release(RAIL, key(word)));
    }

    #[test]
    fn memory_is_registered_once_and_ended_when_it_is_unmapped() {
        let memory = Buffer::leaked(1000);
        let base = memory.as_ptr().unwrap() as usize;
        let mut cache = Registrations::new(4);
        assert_eq!(cache.find(RAIL, &memory), None);
        keep(&mut cache, &memory, 1);
        assert_eq!(cache.find(RAIL, &memory.part(0, 500)), Some(key(1)));
        assert_eq!(cache.find(RAIL, &memory.part(1, 500)), None);
        assert_eq!(cache.find(Rail(0), &memory), None);
        assert_eq!(cache.invalidate(base + 1000, 10), []);
        // In use: ended with its message, and found by no other.
        assert_eq!(cache.invalidate(base + 999, 1), []);
        assert_eq!(cache.find(RAIL, &memory), None);
        assert!(cache.release(RAIL, key(1)));
        keep(&mut cache, &memory, 2);
        assert_eq!(cache.invalidate(base, 1), [(RAIL, key(2))]);
        assert!(cache.entries.is_empty());
    }

    #[test]
    fn unmapped_memory_takes_along_what_touches_it_and_no_more() {
        let memory = Buffer::leaked(300);
        let base = memory.as_ptr().unwrap() as usize;
        // Registrations of each hundred bytes.
        for (at, len, gone) in [
            (100, 100, vec![1]),
            (0, 300, vec![0, 1, 2]),
            (99, 1, vec![0]),
            (99, 2, vec![0, 1]),
            (199, 2, vec![1, 2]),
            (200, 1, vec![2]),
            (300, 50, vec![]),
        ] {
            let mut cache = Registrations::new(4);
            let part = |place: usize| memory.part(100 * place, 100);
            (0..3).for_each(|place| keep(&mut cache, &part(place), place as u64));
            let ended = cache.invalidate(base + at, len);
            let expected: Vec<_> = gone.iter().map(|place| (RAIL, key(*place as u64))).collect();
            assert_eq!(ended, expected, "{len} bytes at {at}");
            for place in 0..3 {
                let is_kept = cache.find(RAIL, &part(place)).is_some();
                assert_eq!(is_kept, !gone.contains(&place), "{len} bytes at {at}: {place}");
            }
        }
    }

    #[test]
    fn others_of_the_rail_are_kept_when_one_is_not() {
        let memory = Buffer::leaked(200);
        let mut cache = Registrations::new(4);
        (0..2).for_each(|word| keep(&mut cache, &memory.part(100 * word, 100), word as u64));
        cache.keep_no_longer(RAIL, key(1));
        cache.keep_no_longer(Rail(0), key(0));
        assert_eq!(cache.find(RAIL, &memory.part(0, 100)), Some(key(0)));
        assert_eq!(cache.find(RAIL, &memory.part(100, 100)), None);
    }

    #[test]
    fn one_that_is_kept_no_longer_ends_with_its_last_message() {
        let memory = Buffer::leaked(100);
        let mut cache = Registrations::new(4);
        assert_eq!(cache.made(RAIL, &memory, key(1)), None);
        assert_eq!(cache.find(RAIL, &memory), Some(key(1)));
        cache.keep_no_longer(RAIL, key(1));
        assert_eq!(cache.find(RAIL, &memory), None);
        assert!(!cache.release(RAIL, key(1)) && cache.release(RAIL, key(1)));
    }

    #[test]
    fn the_longest_unused_goes_when_there_are_too_many() {
        let memory = Buffer::leaked(100);
        let mut cache = Registrations::new(2);
        // Taking one out moves another to its place, so that places say nothing of the order.
        for word in 0..8 {
            let part = memory.part(word * 10, 10);
            let ended = cache.made(RAIL, &part, key(word as u64));
            let oldest = word.checked_sub(2).map(|oldest| (RAIL, key(oldest as u64)));
            assert_eq!(ended, oldest, "{word}");
            cache.release(RAIL, key(word as u64));
        }
    }

    #[test]
    fn one_that_is_found_is_no_longer_the_longest_unused() {
        let memory = Buffer::leaked(100);
        let [first, second, third] = [0, 10, 20].map(|at| memory.part(at, 10));
        let mut cache = Registrations::new(2);
        keep(&mut cache, &first, 1);
        keep(&mut cache, &second, 2);
        assert_eq!(cache.find(RAIL, &first), Some(key(1)));
        cache.release(RAIL, key(1));
        assert_eq!(cache.made(RAIL, &third, key(3)), Some((RAIL, key(2))));
    }

    #[test]
    fn nothing_is_kept_unless_memory_is_watched_and_real() {
        let mut cache = Registrations::new(0);
        let memory = Buffer::leaked(10);
        assert_eq!(cache.made(RAIL, &memory, key(1)), None);
        assert!(cache.release(RAIL, key(1)));
        let mut cache = Registrations::new(2);
        assert_eq!(cache.made(RAIL, &Buffer::virtual_of(10), key(1)), None);
        assert!(cache.release(RAIL, key(1)));
    }

    #[test]
    fn a_single_registration_may_be_kept() {
        let (mut cache, memory) = (Registrations::new(1), Buffer::leaked(10));
        keep(&mut cache, &memory, 1);
        assert_eq!(cache.find(RAIL, &memory), Some(key(1)));
    }
}
