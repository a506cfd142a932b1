//! Waking a rank that sleeps in an epoll, because it waits for sockets too.
//!
//! Its bell is a pipe. The others reach it as `/proc/PID/fd/N`, as they reach a segment that a rank has made:
//! no name, so nothing is left behind, and no privilege but being the same user's. Opened once for each rank
//! that was found asleep, and never on the way of a message to a rank that is awake.
//!
//! It is also opened for reading, though this descriptor is never read: a pipe without a reader kills its
//! writer (`SIGPIPE`), and the rank may be dead.

use super::segment::Control;
use super::sys;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// A rank's own bell.
pub(super) struct Bell {
    /// Kept open, so that the pipe always has a writer.
    _ringing: OwnedFd,
}

impl Bell {
    /// Hangs a bell up; answers the end to listen at.
    pub(super) fn new(control: &Control) -> std::io::Result<(Self, OwnedFd)> {
        let (listening, ringing) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)?;
        control.bell.store(ringing.as_raw_fd() as u32 + 1, Ordering::Release);
        Ok((Self { _ringing: ringing }, listening))
    }
}

/// Bells opened before, by the rank's place in memory, its process and the descriptor.
static OPENED: Mutex<BTreeMap<(usize, u32, u32), File>> = Mutex::new(BTreeMap::new());

/// The bell of a process, to be rung.
fn open(process: u32, number: u32) -> std::io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    let path = format!("/proc/{process}/fd/{number}");
    let bell = options.read(true).write(true).custom_flags(sys::NONBLOCKING).open(path)?;
    // The rank may have died, and its number be that of another process of the user's by now.
    if bell.metadata()?.file_type().is_fifo() { Ok(bell) } else { Err(ErrorKind::InvalidInput.into()) }
}

/// Rings the bell of a rank that says it sleeps there. If that cannot be done it is marked deaf, and looks by
/// itself.
pub(super) fn ring(peer: &Control) {
    let (process, bell) = (peer.pid.load(Ordering::Relaxed), peer.bell.load(Ordering::Acquire));
    let Some(number) = bell.checked_sub(1) else { return };
    let key = (std::ptr::from_ref(peer).addr(), process, number);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let std::collections::btree_map::Entry::Vacant(place) = opened.entry(key) {
        match open(process, number) {
            Ok(file) => {
                place.insert(file);
            }
            Err(_) => {
                peer.is_deaf.store(1, Ordering::Relaxed);
                return;
            }
        }
    }
    if let Some(mut file) = opened.get(&key) {
        match file.write(&[1]) {
            Ok(_) => {}
            // It rings already.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {
                opened.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ringing_the_bell_of_a_dead_rank_is_harmless() {
        let (listening, ringing) = rustix::pipe::pipe().expect("a pipe");
        let mut bell = open(std::process::id(), ringing.as_raw_fd() as u32).expect("our own");
        assert_eq!(bell.write(&[1]).ok(), Some(1));
        drop((listening, ringing));
        assert_eq!(bell.write(&[1]).ok(), Some(1), "an error of a pipe without a reader is a signal, too");
    }

    #[test]
    fn a_bell_is_heard_once_it_hangs_and_a_rank_without_is_deaf() {
        use crate::shm::segment::{RingSize, Segment, Source};
        let size = RingSize { slots_count: 4, lines_counts: [4, 0] };
        let segment = Segment::attach(&Source::create().unwrap(), 3, size).unwrap();
        let [first, second, third] = segment.controls() else { panic!("three ranks") };
        let is_deaf = |control: &Control| control.is_deaf.load(Ordering::Relaxed) != 0;
        ring(third);
        assert!(!is_deaf(third), "it has none yet");
        first.pid.store(std::process::id(), Ordering::Relaxed);
        let (_bell, listening) = Bell::new(first).unwrap();
        let heard = || rustix::io::read(&listening, &mut [0; 8]);
        assert_eq!(heard(), Err(rustix::io::Errno::AGAIN));
        for _ in 0..2 {
            ring(first);
            assert_eq!(heard(), Ok(1));
        }
        // More than a pipe holds: no one waits for room in it.
        (0..70_000).for_each(|_| ring(first));
        assert!(heard().is_ok() && !is_deaf(first));
        // No process has such a number.
        second.pid.store(i32::MAX as u32, Ordering::Relaxed);
        second.bell.store(1, Ordering::Relaxed);
        ring(second);
        assert!(is_deaf(second));
    }

    #[test]
    fn what_is_no_bell_is_not_written_to() {
        let file = sys::memory_file().unwrap();
        let file = File::from(file);
        assert!(open(std::process::id(), file.as_raw_fd() as u32).is_err());
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
