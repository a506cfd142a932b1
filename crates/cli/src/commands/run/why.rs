//! The launcher's part in `ayatori why`: it notes now and then what its ranks do, so that others can say since when, and
//! looks at them when it is asked, in a thread of its own.

use crate::why::look::{Known, look};
use crate::why::report::{self, HostReport};
use crate::why::show::{self, Heading};
use crate::why::{find::LISTENS_AS, graph::Graph};
use anyhow::Context;
use ayatori_devices::shm::Observer;
use rustix::process::Pid;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often is noted what ranks do.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// An asker says at once what it wants.
const ASKER_PATIENCE: Duration = Duration::from_millis(200);

/// The number of an inquiry, and what was seen for it.
type Seen = (u32, HostReport);

/// Looks at the ranks of this host.
#[derive(Debug)]
pub(super) struct Watcher {
    segment: Arc<OwnedFd>,
    observer: Arc<OnceLock<Eye>>,
    known: Vec<Known>,
    results: (Sender<Seen>, Receiver<Seen>),
    /// Read here, rung by a thread that has looked.
    bell: (UnixStream, UnixStream),
    noted: Instant,
}

/// An observer that says nothing of itself.
struct Eye(Observer);

impl std::fmt::Debug for Eye {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Eye")
    }
}

impl Watcher {
    /// A watcher of the ranks that share a segment.
    pub(super) fn new(segment: OwnedFd) -> std::io::Result<Self> {
        let bell = UnixStream::pair()?;
        bell.0.set_nonblocking(true)?;
        bell.1.set_nonblocking(true)?;
        Ok(Self {
            segment: Arc::new(segment),
            observer: Arc::default(),
            known: Vec::new(),
            results: channel(),
            bell,
            noted: Instant::now(),
        })
    }

    /// There is another rank.
    pub(super) fn admit(&mut self, rank: usize, pid: Pid) {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        self.known.push(Known { rank, pid: pid.as_raw_nonzero().get() });
    }

    /// Readable when a look is over.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.0.as_fd()
    }

    /// Notes what ranks do, if it is time.
    pub(super) fn note(&mut self, now: Instant) {
        if now < self.note_at() {
            return;
        }
        self.noted = now;
        if let Some(eye) = eye(&self.observer, &self.segment) {
            eye.0.note();
        }
    }

    /// When to note what ranks do next.
    pub(super) fn note_at(&self) -> Instant {
        self.noted + NOTE_INTERVAL
    }

    /// Begins to look; what was seen comes by [`take`](Self::take) under this number.
    pub(super) fn start(&self, number: u32) {
        let (observer, segment) = (Arc::clone(&self.observer), Arc::clone(&self.segment));
        let (known, results) = (self.known.clone(), self.results.0.clone());
        let Ok(mut bell) = self.bell.1.try_clone() else { return };
        let looks = move || {
            let report = look(super::hostname(), eye(&observer, &segment).map(|eye| &eye.0), &known);
            let _ = results.send((number, report));
            // Full means that it rings already.
            let _ = bell.write(&[1]);
        };
        // No thread to be had: nobody hears, and who asks says so.
        let _ = std::thread::Builder::new().name("why".into()).spawn(looks);
    }

    /// What was seen since the last call.
    pub(super) fn take(&mut self) -> Vec<Seen> {
        let mut rung = [0; 64];
        while matches!(self.bell.0.read(&mut rung), Ok(1..)) {}
        self.results.1.try_iter().collect()
    }
}

/// The observer, once there is something to observe.
fn eye<'a>(observer: &'a OnceLock<Eye>, segment: &OwnedFd) -> Option<&'a Eye> {
    if observer.get().is_none()
        && let Ok(Some(new)) =
            segment.try_clone().map_err(drop).and_then(|file| Observer::open(file).map_err(drop))
    {
        // Another thread was faster: the same.
        let _ = observer.set(Eye(new));
    }
    observer.get()
}

/// What ranks do, as it is printed where the launcher gets SIGUSR1; by two looks where they seem to be stuck.
#[derive(Debug, Default)]
pub(super) struct Printing {
    first: Option<Vec<HostReport>>,
}

impl Printing {
    /// All hosts were looked at. `Some`: what is to be printed; `None`: look once more.
    pub(super) fn on_reports(&mut self, reports: Vec<HostReport>, heading: &Heading) -> Option<String> {
        let reports = match self.first.take() {
            Some(first) => report::settle(&first, reports),
            None => {
                let is_stuck = {
                    let ranks = report::ranks(&reports, heading.ranks_count);
                    !Graph::new(&ranks).verdict().stuck.is_empty()
                };
                if is_stuck {
                    self.first = Some(reports);
                    return None;
                }
                reports
            }
        };
        let ranks = report::ranks(&reports, heading.ranks_count);
        Some(show::text(heading, &reports, &ranks, false).0)
    }
}

/// What an asker wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Which job this is.
    Who,
    /// What its ranks do.
    Why,
}

/// Where the launcher of a job on several hosts is asked.
#[derive(Debug)]
pub(super) struct Door(UnixListener);

impl Door {
    /// Listens under the job's id.
    pub(super) fn open(job: &str) -> anyhow::Result<Self> {
        let address = SocketAddr::from_abstract_name(format!("{LISTENS_AS}{job}"))?;
        let listener = UnixListener::bind_addr(&address).context("listening for `ayatori why`")?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Readable when somebody asks.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The next who asks, of the same user.
    pub(super) fn accept(&self) -> Option<(UnixStream, Question)> {
        let (mut socket, _) = self.0.accept().ok()?;
        let who = rustix::net::sockopt::socket_peercred(&socket).ok()?;
        if who.uid != rustix::process::geteuid() && !who.uid.is_root() {
            return None;
        }
        socket.set_nonblocking(false).ok()?;
        socket.set_read_timeout(Some(ASKER_PATIENCE)).ok()?;
        let mut asked = [0; 4];
        match socket.read_exact(&mut asked).map_err(|error| error.kind()) {
            Ok(()) => {}
            Err(ErrorKind::Interrupted) | Err(_) => return None,
        }
        match &asked {
            b"who\n" => Some((socket, Question::Who)),
            b"why\n" => Some((socket, Question::Why)),
            _ => None,
        }
    }
}

/// Sends an answer; a slow reader keeps nobody waiting.
pub(super) fn reply(mut socket: UnixStream, answer: Vec<u8>) {
    let sends = move || {
        let _ = socket.set_write_timeout(Some(Duration::from_secs(2)));
        let _ = socket.write_all(&answer);
    };
    let _ = std::thread::Builder::new().name("why".into()).spawn(sends);
}

/// Whether a process does something of its own on a signal: one that does not would die of SIGUSR1.
pub(super) fn catches(pid: Pid, signal: i32) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    // Where /proc does not say, it is as it always was.
    mask("SigCgt:").is_none_or(|caught| caught >> (signal - 1) & 1 == 1)
}
