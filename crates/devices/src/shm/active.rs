//! Which ranks have ever written to a rank: it looks into their rings, and into no other.
//!
//! Looking into a ring takes a page of the segment, whether anything is in it or not: with a thousand ranks
//! on a host that was 3.3 GiB. So a writer announces itself before its first packet, once, where it learns
//! for the first time how much room there is; no later packet pays for it.
//!
//! ```text
//! writer:  set the bit ─► count + 1 ─► first packet ─► fence ─► is the reader asleep? (sleep.rs)
//! reader:  goes to sleep ─► fence ─► is the count another? then read the bits, look into their rings
//! ```
//!
//! The sender announces itself before it writes the packet, so a receiver woken for the packet sees the
//! announcement (the argument of `sleep.rs` holds for all stores before its fence).

use std::sync::atomic::{AtomicU64, Ordering};

/// Most ranks on one host.
pub const LOCAL_SIZE_MAX: u32 = 1024;

const BITS: u32 = u64::BITS;

/// The ranks that have written to one rank, by local rank. Zero is the empty set.
#[repr(C, align(128))]
pub(crate) struct ActiveSenders {
    /// Announcements so far, and in the upper half who has asked last for help with a copy
    /// (`cooperative.rs`): one load tells of both.
    news: AtomicU64,
    words: [AtomicU64; (LOCAL_SIZE_MAX / BITS) as usize],
}

impl ActiveSenders {
    /// Another number whenever something is new.
    #[inline(always)]
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.news() as u32
    }

    /// Who has asked last for help.
    pub(crate) fn asked(&self) -> u32 {
        (self.news() >> u32::BITS) as u32
    }

    /// Somebody asks for help.
    pub(crate) fn ask(&self, who: u32) {
        let with = |news: u64| Some(u64::from(who) << u32::BITS | u64::from(news as u32));
        // It always changes it.
        let _ = self.news.fetch_update(Ordering::Release, Ordering::Relaxed, with);
    }

    /// Those below `local_size`, in order. Read after [`count`](Self::count): all that it counted are in.
    pub(crate) fn list(&self, local_size: u32) -> Vec<u32> {
        let is_in = |rank: &u32| {
            let word = self.words[(rank / BITS) as usize].load(Ordering::Acquire);
            word & 1 << (rank % BITS) != 0
        };
        (0..local_size).filter(is_in).collect()
    }

    /// The announcement that `sender` makes before its first packet.
    pub(crate) fn announcement(&'static self, sender: u32) -> Announcement {
        Announcement { set: self, sender }
    }
}

/// The announcement of a rank that is about to write for the first time.
pub(crate) struct Announcement {
    set: &'static ActiveSenders,
    sender: u32,
}

impl Announcement {
    pub(crate) fn make(self) {
        let bit = 1 << (self.sender % BITS);
        self.set.words[(self.sender / BITS) as usize].fetch_or(bit, Ordering::Release);
        self.set.news.fetch_add(1, Ordering::Release);
    }
}
