//! The host loop's part in `ayatori why`: it notes once a second what its ranks do, so that others can say
//! since when, and looks at them when it is asked, in a thread of its own.

use crate::machine::hostname;
use crate::why::look::{Known, look};
use crate::why::report::HostReport;
use ayatori_devices::shm::Observer;
use rustix::process::Pid;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often is noted what ranks do.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// The number of an inquiry, and what was seen for it.
type Seen = (u32, HostReport);

/// Looks at the ranks of this host.
#[derive(Debug)]
pub(crate) struct Watcher {
    segment: Arc<OwnedFd>,
    observer: Arc<OnceLock<Opaque>>,
    known: Vec<Known>,
    results: (Sender<Seen>, Receiver<Seen>),
    /// A thread that has looked writes to the second; the first is watched.
    wake: (UnixStream, UnixStream),
    noted: Instant,
}

/// An observer that need not be printed.
struct Opaque(Observer);

impl std::fmt::Debug for Opaque {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

impl Watcher {
    /// A watcher of the ranks that share a segment.
    pub(crate) fn new(segment: OwnedFd) -> std::io::Result<Self> {
        let wake = UnixStream::pair()?;
        wake.0.set_nonblocking(true)?;
        wake.1.set_nonblocking(true)?;
        Ok(Self {
            segment: Arc::new(segment),
            observer: Arc::default(),
            known: Vec::new(),
            results: channel(),
            wake,
            noted: Instant::now(),
        })
    }

    /// There is another rank.
    pub(crate) fn admit(&mut self, rank: usize, pid: Pid) {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        self.known.push(Known { rank, pid: pid.as_raw_nonzero().get() });
    }

    /// Readable when a look is over.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.0.as_fd()
    }

    /// Notes what ranks do, if it is time.
    pub(crate) fn note(&mut self, now: Instant) {
        if now < self.note_at() {
            return;
        }
        self.noted = now;
        if let Some(observer) = observer_of(&self.observer, &self.segment) {
            observer.0.note();
        }
    }

    /// When to note what ranks do next.
    pub(crate) fn note_at(&self) -> Instant {
        self.noted + NOTE_INTERVAL
    }

    /// Begins to look; what was seen comes by [`take`](Self::take) under this number.
    pub(crate) fn start(&self, number: u32) {
        let (observer, segment) = (Arc::clone(&self.observer), Arc::clone(&self.segment));
        let (known, results) = (self.known.clone(), self.results.0.clone());
        let Ok(mut wake) = self.wake.1.try_clone() else { return };
        let looks = move || {
            let report = look(hostname(), observer_of(&observer, &segment).map(|open| &open.0), &known);
            let _ = results.send((number, report));
            // Full means that it is readable already.
            let _ = wake.write(&[1]);
        };
        // Without a thread there is no answer, and the controller reports that.
        let _ = std::thread::Builder::new().name("why".into()).spawn(looks);
    }

    /// Observations since the last call.
    pub(crate) fn take(&mut self) -> Vec<Seen> {
        let mut ignored = [0; 64];
        while matches!(self.wake.0.read(&mut ignored), Ok(1..)) {}
        self.results.1.try_iter().collect()
    }
}

/// The observer, once there is something to observe.
fn observer_of<'a>(observer: &'a OnceLock<Opaque>, segment: &OwnedFd) -> Option<&'a Opaque> {
    if observer.get().is_none()
        && let Ok(Some(new)) =
            segment.try_clone().map_err(drop).and_then(|file| Observer::open(file).map_err(drop))
    {
        // Another thread was faster: the same.
        let _ = observer.set(Opaque(new));
    }
    observer.get()
}

/// Whether a process does something of its own on a signal: one that does not would die of SIGUSR1.
pub(crate) fn catches(pid: Pid, signal: i32) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    // Where /proc does not say, it is as it always was.
    mask("SigCgt:").is_none_or(|caught| caught >> (signal - 1) & 1 == 1)
}
