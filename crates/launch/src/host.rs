//! The host loop: starts the ranks of one host, watches them, and moves their input, output and PMI messages.
//!
//! ```text
//!   controller ──Message──► handle ─► ranks: signals, PMI replies, standard input
//!              ◄─Message── poll_message ◄─ ranks: output, PMI requests, ends
//! ```
//!
//! One thread, one epoll ([`Host::fd`]), which its user waits for: the controller itself for a job on one
//! host, `ayatori agent` for one on several. The messages are the same; between processes they go as bytes
//! (`wire.rs`).
//!
//! Nothing of a job survives it. Each rank has a process group and dies with this process; this process
//! adopts what ranks leave behind (child subreaper) and ends it with the job; if this process is killed, the
//! watchdog does it. The shared segment has no name ([`crate::environment`]). A rank that has ended stays a
//! zombie until the end: its number names its process group, and as long as it is taken no stranger can get a
//! signal meant for the job.

use crate::error::exit_code;
use crate::placement::format_cpus;
use crate::spawn::{Spawner, Started};
use crate::spec::Order;
use crate::status::Status;
use crate::watchdog::Watchdog;
use crate::why::watch::{Watcher, catches};
use crate::wire::{CHUNK_BYTES, Message};
use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use signal_hook::consts::SIGUSR1;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Unsent PMI bytes of a rank above which it has stopped listening.
const PMI_BACKLOG_BYTES_MAX: usize = 8 << 20;
/// After the last rank: how long what it left behind (`tee`) may still write.
const DRAIN: Duration = Duration::from_millis(500);
/// The same where the job has failed.
const DRAIN_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How long ranks may take to die of SIGKILL before they are left to the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// The subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Watcher,
    Out(usize),
    Err(usize),
    Pmi(usize),
    Input(usize),
}

impl Token {
    fn encode(self) -> epoll::EventData {
        let (kind, index) = match self {
            Token::Watcher => (0, 0),
            Token::Out(index) => (1, index),
            Token::Err(index) => (2, index),
            Token::Pmi(index) => (3, index),
            Token::Input(index) => (4, index),
        };
        epoll::EventData::new_u64((index as u64) << 8 | kind)
    }

    fn decode(data: epoll::EventData) -> Self {
        let index = usize::try_from(data.u64() >> 8).unwrap_or(usize::MAX);
        match data.u64() & 0xff {
            0 => Token::Watcher,
            1 => Token::Out(index),
            2 => Token::Err(index),
            3 => Token::Pmi(index),
            _ => Token::Input(index),
        }
    }
}

#[derive(Debug)]
struct Rank {
    number: usize,
    pid: Pid,
    status: Option<Status>,
    stdin: Option<OwnedFd>,
    /// Standard output and error.
    streams: [Option<OwnedFd>; 2],
    pmi: Option<UnixStream>,
    /// Replies that its socket did not take yet; while there are some its requests are not read.
    unsent: Vec<u8>,
}

/// The ranks of one host. See the [module](self).
#[derive(Debug)]
pub(crate) struct Host {
    epoll: OwnedFd,
    ranks: Vec<Rank>,
    watchdog: Option<Watchdog>,
    watcher: Option<Watcher>,
    outgoing: VecDeque<Message>,
    /// Standard input of rank 0 that it did not take yet.
    input: Vec<u8>,
    is_input_over: bool,
    /// Standard output, standard error: not read for now, because what was read is not taken.
    is_paused: [bool; 2],
    /// The job is over: until when what still writes is read, and for how long after a pause.
    drain: Option<(Instant, Duration)>,
    scratch: Vec<u8>,
    /// Children of this process that are none of the ranks'.
    spared: Vec<Pid>,
}

impl Host {
    /// A host without ranks.
    ///
    /// # Errors
    /// No descriptors left.
    pub(crate) fn new() -> anyhow::Result<Self> {
        // What a rank leaves behind becomes our child, so that we can end it. Old kernels: the groups must
        // do.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        Ok(Host {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?,
            ranks: Vec::new(),
            watchdog: None,
            watcher: None,
            outgoing: VecDeque::new(),
            input: Vec::new(),
            is_input_over: false,
            is_paused: [false; 2],
            drain: None,
            scratch: vec![0; CHUNK_BYTES],
            spared: Vec::new(),
        })
    }

    /// A process that this one has started and that is no orphan of a rank.
    pub(crate) fn spare(&mut self, pid: Pid) {
        self.spared.push(pid);
    }

    /// Readable when there is something to do: [`handle_ready`](Self::handle_ready).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// The next message for the controller.
    pub(crate) fn poll_message(&mut self) -> Option<Message> {
        self.outgoing.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let is_draining = self.drain.filter(|_| self.is_paused == [false; 2]);
        let note_at = self.watcher.as_ref().filter(|_| self.is_running()).map(Watcher::note_at);
        note_at.into_iter().chain(is_draining.map(|(until, _)| until)).min()
    }

    /// Takes a message of the controller's.
    pub(crate) fn handle(&mut self, message: Message, now: Instant) {
        match message {
            Message::Start(order) if self.ranks.is_empty() => {
                if let Err(error) = self.start(&order) {
                    self.kill(Signal::KILL);
                    self.outgoing.push_back(Message::Failed(exit_code(&error), format!("{error:#}")));
                }
            }
            Message::Pmi(number, bytes) => {
                if let Ok(index) = self.ranks.binary_search_by_key(&number, |rank| rank.number) {
                    self.send_pmi(index, &bytes);
                }
            }
            Message::Ask(number) => {
                if let Some(watcher) = &self.watcher {
                    watcher.start(number);
                }
            }
            Message::Signal(SIGUSR1) => {
                // It would end programs that do not catch it.
                for rank in self.ranks.iter().filter(|rank| catches(rank.pid, SIGUSR1)) {
                    let _ = kill_process_group(rank.pid, Signal::USR1);
                }
            }
            Message::Signal(signal) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.kill(signal);
                }
            }
            Message::Stdin(bytes) => {
                self.is_input_over |= bytes.is_empty();
                self.input.extend_from_slice(&bytes);
                self.feed();
            }
            Message::Unread(is_err) => {
                // With its pipe closed a rank gets SIGPIPE, as it would without us.
                for rank in &mut self.ranks {
                    rank.streams[usize::from(is_err)] = None;
                }
            }
            Message::Finish(is_early) => {
                let patience = if is_early { DRAIN_AFTER_FAILURE } else { DRAIN };
                self.drain = Some((now + patience, patience));
                if is_early {
                    self.kill(Signal::KILL);
                }
                self.finish(now);
            }
            // Not for a host.
            _ => {}
        }
    }

    /// Moves what can be moved.
    pub(crate) fn handle_ready(&mut self, now: Instant) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once));
        for event in &events {
            match Token::decode(event.data) {
                Token::Watcher => self.report(),
                Token::Out(index) => drop(self.read_output(index, 0)),
                Token::Err(index) => drop(self.read_output(index, 1)),
                Token::Pmi(index) if self.ranks[index].unsent.is_empty() => drop(self.read_pmi(index)),
                Token::Pmi(index) => self.send_pmi(index, &[]),
                Token::Input(_) => self.feed(),
            }
        }
        self.finish(now);
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(watcher) = &mut self.watcher {
            watcher.note(now);
        }
        self.finish(now);
    }

    /// Reads standard output (0) or error (1) of the ranks no more, or again.
    pub(crate) fn pause(&mut self, which: usize, is_paused: bool, now: Instant) {
        if std::mem::replace(&mut self.is_paused[which], is_paused) == is_paused {
            return;
        }
        for (index, rank) in self.ranks.iter().enumerate() {
            let Some(fd) = &rank.streams[which] else { continue };
            // Not an empty set of events: that still reports a closed pipe, again and again.
            let _ = if is_paused {
                epoll::delete(&self.epoll, fd)
            } else {
                let token = if which == 0 { Token::Out(index) } else { Token::Err(index) };
                epoll::add(&self.epoll, fd, token.encode(), epoll::EventFlags::IN)
            };
        }
        // What a slow reader has kept in the pipes is read before the end.
        self.drain = self.drain.map(|(_, patience)| (now + patience, patience));
    }

    /// Notices ranks that have ended. To be called on SIGCHLD.
    pub(crate) fn reap(&mut self) {
        for index in 0..self.ranks.len() {
            if self.ranks[index].status.is_some() {
                continue;
            }
            let Some(status) = Status::of_child(self.ranks[index].pid) else { continue };
            self.ranks[index].status = Some(status);
            // Its last words, and the abort it may have asked for, come before its end.
            while self.read_pmi(index) {}
            self.drain_streams(index);
            self.outgoing.push_back(Message::Ended(self.ranks[index].number, status));
        }
        for pid in self.adopted() {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Ends all that is left and takes the last of the output.
    pub(crate) fn clean_up(&mut self) {
        self.kill(Signal::KILL);
        let begin = Instant::now();
        let is_dying = |rank: &Rank| rank.status.is_none() && Status::of_child(rank.pid).is_none();
        while self.ranks.iter().any(is_dying) && begin.elapsed() < KILL_PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Killing an orphan orphans its children in turn: a few rounds. Each waits for the kernel, not for a
        // timer.
        for _ in 0..100 {
            let adopted = self.adopted();
            if adopted.is_empty() {
                break;
            }
            for pid in adopted {
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
        }
        for index in 0..self.ranks.len() {
            self.drain_streams(index);
            self.ranks[index].streams = [None, None];
        }
        // Their groups were signalled for the last time: the zombies may go.
        for rank in &self.ranks {
            let _ = waitpid(Some(rank.pid), WaitOptions::NOHANG);
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
    }

    fn is_running(&self) -> bool {
        self.ranks.iter().any(|rank| rank.status.is_none())
    }

    fn start(&mut self, order: &Order) -> anyhow::Result<()> {
        let spawner = Spawner::new(order)?;
        self.watchdog = Some(Watchdog::start(&order.job).context("starting the watchdog process")?);
        let mut watcher = Watcher::new(spawner.segment()?).context("watching the ranks")?;
        epoll::add(&self.epoll, watcher.fd(), Token::Watcher.encode(), epoll::EventFlags::IN)
            .context("watching the ranks")?;
        for (local, &(number, _)) in order.ranks.iter().enumerate() {
            let started = spawner.start(local)?;
            watcher.admit(number, started.pid);
            let cpus = spawner.cpus(local).map_or("any".to_owned(), format_cpus);
            let pid = started.pid.as_raw_nonzero().get();
            self.admit(number, started)?;
            self.outgoing.push_back(Message::Started(number, pid, cpus));
        }
        self.watcher = Some(watcher);
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch(self.ranks.iter().map(|rank| rank.pid));
        }
        self.feed();
        Ok(())
    }

    fn admit(&mut self, number: usize, started: Started) -> anyhow::Result<()> {
        let Started { pid, stdin, stdout, stderr, pmi } = started;
        let index = self.ranks.len();
        self.ranks.push(Rank {
            number,
            pid,
            status: None,
            stdin,
            streams: [Some(stdout), Some(stderr)],
            pmi: Some(pmi),
            unsent: Vec::new(),
        });
        let rank = &self.ranks[index];
        for (fd, token) in [
            (rank.streams[0].as_ref().map(AsFd::as_fd), Token::Out(index)),
            (rank.streams[1].as_ref().map(AsFd::as_fd), Token::Err(index)),
            (rank.pmi.as_ref().map(AsFd::as_fd), Token::Pmi(index)),
        ] {
            let Some(fd) = fd else { continue };
            epoll::add(&self.epoll, fd, token.encode(), epoll::EventFlags::IN).context("watching a rank")?;
        }
        Ok(())
    }

    /// Tells what was seen of the ranks.
    fn report(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for (number, report) in watcher.take() {
            self.outgoing.push_back(Message::Report(number, Box::new(report)));
        }
    }

    /// One read of what a rank prints; whether there may be more.
    fn read_output(&mut self, index: usize, which: usize) -> bool {
        let rank = &mut self.ranks[index];
        let Some(fd) = rank.streams[which].as_ref() else { return false };
        match rustix::io::read(fd, &mut self.scratch[..]) {
            Ok(count) if count > 0 => {
                let (number, bytes) = (rank.number, self.scratch[..count].to_vec());
                let message =
                    if which == 0 { Message::Out(number, bytes) } else { Message::Err(number, bytes) };
                self.outgoing.push_back(message);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            _ => {
                // Closing also removes it from the epoll set: no other process holds this end.
                rank.streams[which] = None;
                false
            }
        }
    }

    /// Takes what is in the pipes of a rank that has ended; bounded, as its children may go on writing.
    fn drain_streams(&mut self, index: usize) {
        for which in [0, 1] {
            let _ = (0..32).all(|_| self.read_output(index, which));
        }
    }

    /// One read of what a rank asks its PMI server; whether there may be more.
    fn read_pmi(&mut self, index: usize) -> bool {
        let rank = &mut self.ranks[index];
        let Some(socket) = &rank.pmi else { return false };
        match rustix::io::read(socket, &mut self.scratch[..]) {
            Ok(count) if count > 0 => {
                self.outgoing.push_back(Message::Pmi(rank.number, self.scratch[..count].to_vec()));
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            _ => {
                rank.pmi = None;
                self.outgoing.push_back(Message::PmiClosed(rank.number));
                false
            }
        }
    }

    /// Sends replies, or the rest of them.
    fn send_pmi(&mut self, index: usize, bytes: &[u8]) {
        let rank = &mut self.ranks[index];
        let Some(socket) = &rank.pmi else { return };
        let was_behind = !rank.unsent.is_empty();
        rank.unsent.extend_from_slice(bytes);
        // Not write(2): the rank may be dead, and SIGPIPE is ours to ignore only by flag.
        match rustix::net::send(socket, &rank.unsent, rustix::net::SendFlags::NOSIGNAL) {
            Ok(count) => drop(rank.unsent.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // It is gone; reading says so.
            Err(_) => rank.unsent.clear(),
        }
        if rank.unsent.len() > PMI_BACKLOG_BYTES_MAX {
            rank.unsent.clear();
            rank.pmi = None;
            return;
        }
        if was_behind != rank.unsent.is_empty() {
            return;
        }
        let wanted = if was_behind { epoll::EventFlags::IN } else { epoll::EventFlags::OUT };
        let _ = epoll::modify(&self.epoll, socket, Token::Pmi(index).encode(), wanted);
    }

    /// Gives rank 0 what there is of its input.
    fn feed(&mut self) {
        let Some(index) = self.ranks.iter().position(|rank| rank.number == 0) else { return };
        let Some(pipe) = &self.ranks[index].stdin else { return };
        let before = self.input.len();
        match rustix::io::write(pipe, &self.input) {
            Ok(count) => drop(self.input.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.input.clear(),
        }
        if self.input.len() < before {
            self.outgoing.push_back(Message::StdinTaken(before - self.input.len()));
        }
        let _ = epoll::delete(&self.epoll, pipe);
        if !self.input.is_empty() {
            let _ = epoll::add(&self.epoll, pipe, Token::Input(index).encode(), epoll::EventFlags::OUT);
        } else if self.is_input_over {
            self.ranks[index].stdin = None;
        }
    }

    /// Sends `signal` to the process group of every rank, also to what an ended rank has left in its group.
    fn kill(&self, signal: Signal) {
        for rank in &self.ranks {
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    /// Finishes if the job is over and nothing writes any more, or has had time to.
    fn finish(&mut self, now: Instant) {
        let Some((until, _)) = self.drain else { return };
        let is_open = self.ranks.iter().any(|rank| rank.streams.iter().any(Option::is_some));
        let is_due = now >= until && self.is_paused == [false; 2];
        if !is_open || is_due {
            self.drain = None;
            self.clean_up();
            self.outgoing.push_back(Message::Finished);
        }
    }

    /// Our children that are neither ranks nor the watchdog: orphans of ranks.
    fn adopted(&self) -> Vec<Pid> {
        let tid = rustix::thread::gettid().as_raw_nonzero();
        let list = std::fs::read_to_string(format!("/proc/self/task/{tid}/children")).unwrap_or_default();
        let watchdog = self.watchdog.as_ref().and_then(Watchdog::pid);
        let is_known = |pid: &Pid| watchdog == Some(*pid) || self.ranks.iter().any(|rank| rank.pid == *pid);
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw);
        pids.filter(|pid| !is_known(pid) && !self.spared.contains(pid)).collect()
    }
}
