//! The job: its ranks, the event loop that serves them, and its end.
//!
//! ```text
//!   running ──cause──► ending: SIGTERM, 0.5 s later SIGKILL ──► all ranks ended ──► over
//!      └────────────────── all ranks exited with code 0 ───────────────┘      (output drained,
//!                                                                         leftovers killed)
//! ```
//!
//! A rank that has ended stays a zombie until the launcher exits: its number names its process group, and as
//! long as it is taken no stranger can get a signal meant for the job.

mod deaths;

use super::args::JobSpec;
use super::ending::{Cause, Status, describe_status, signal_name};
use super::guard::Guard;
use super::output::{Outputs, StreamId, Which, is_stdin_terminal};
use super::place::{Placement, format_cpus};
use super::pmi::{Event, Phase, Server};
use super::signals::{Signals, is_ending};
use super::spawn::{Spawner, Started, check_count};
use super::stdin::{Forward, Wait};
use super::why::{Printing, Watcher, catches};
use crate::exit::Exit;
use crate::why::show::Heading;
use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid, waitpid,
};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGUSR1};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// From SIGTERM to SIGKILL. A job is to end within a second of its first dead rank.
const GRACE: Duration = Duration::from_millis(500);
/// After the last rank: how long what it left behind (`tee`) may still write.
const DRAIN: Duration = Duration::from_millis(500);
/// After SIGKILL: a process that is then still there hangs in the kernel (dead NFS server, broken disk).
const UNKILLABLE: Duration = Duration::from_secs(5);
/// A hung-up connection usually means that the rank's exit is about to be reported, which says more.
const HANG_UP_PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Rank {
    pid: Pid,
    appnum: usize,
    status: Option<Status>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    pmi: Option<UnixStream>,
    /// Replies that its socket did not take yet; while there are some its requests are not read.
    unsent: Vec<u8>,
}

/// What an epoll event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Signals,
    Terminal,
    StdinSink,
    OurOutput,
    Stream(StreamId),
    Pmi(usize),
    Why,
}

impl Token {
    fn encode(self) -> epoll::EventData {
        let (kind, rank) = match self {
            Token::Signals => (0, 0),
            Token::Terminal => (1, 0),
            Token::StdinSink => (2, 0),
            Token::OurOutput => (3, 0),
            Token::Stream(StreamId { rank, which: Which::Out }) => (4, rank),
            Token::Stream(StreamId { rank, which: Which::Err }) => (5, rank),
            Token::Pmi(rank) => (6, rank),
            Token::Why => (7, 0),
        };
        epoll::EventData::new_u64((rank as u64) << 8 | kind)
    }

    fn decode(data: epoll::EventData) -> Self {
        let rank = usize::try_from(data.u64() >> 8).unwrap_or(usize::MAX);
        match data.u64() & 0xff {
            0 => Token::Signals,
            1 => Token::Terminal,
            2 => Token::StdinSink,
            3 => Token::OurOutput,
            4 => Token::Stream(StreamId { rank, which: Which::Out }),
            5 => Token::Stream(StreamId { rank, which: Which::Err }),
            7 => Token::Why,
            _ => Token::Pmi(rank),
        }
    }
}

#[derive(Debug)]
struct Job<'s> {
    spec: &'s JobSpec,
    epoll: OwnedFd,
    signals: Signals,
    server: Server,
    outputs: Outputs,
    ranks: Vec<Rank>,
    running_count: usize,
    guard: Option<Guard>,
    id: String,
    watcher: Option<Watcher>,
    /// SIGUSR1 has come: what ranks do is to be printed.
    printing: Option<Printing>,
    forward: Option<Forward>,
    /// Streams not read for now because our own output is full.
    parked: Vec<StreamId>,
    /// Our outputs wait to become writable.
    is_output_watched: bool,
    started: Instant,
    cause: Option<Cause>,
    /// The last ending signal that was passed on.
    passed_on: Option<i32>,
    /// When SIGTERM is followed by SIGKILL; when SIGKILL must have worked.
    kill_at: Option<Instant>,
    give_up_at: Option<Instant>,
    /// After the last rank: when to stop waiting for its output.
    drained_at: Option<Instant>,
    /// Ranks whose connection closed too early, and when that is to be believed.
    hung_up: Vec<(usize, Instant)>,
    scratch: Vec<u8>,
}

/// Runs a job from its first process to its last.
pub(super) fn run(spec: &JobSpec) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let id = job_id()?;
    if let Some(cluster) = &spec.cluster {
        return super::cluster::run(spec, cluster, &id);
    }
    check_count(spec.ranks_count())?;
    let placement = Placement::new(spec.binding, spec.ranks_count())?;
    let mut job = Job::new(spec, &id, started)?;
    let outcome = job.start(&id, &placement);
    if let Err(error) = outcome {
        job.kill_everything(Signal::KILL);
        for rank in &job.ranks {
            let _ = waitid(WaitId::Pid(rank.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
        job.settle();
        job.finish();
        return Err(error);
    }
    job.serve()?;
    job.settle();
    // What the ranks' last words need: our own output may be slow.
    job.serve()?;
    Ok(job.finish())
}

/// 64 random bits in hexadecimal.
fn job_id() -> anyhow::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("drawing a job id")?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

impl<'s> Job<'s> {
    fn new(spec: &'s JobSpec, id: &str, started: Instant) -> anyhow::Result<Self> {
        let signals = Signals::new().context("catching signals")?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        // What a rank leaves behind becomes our child, so that we can end it. Old kernels: the groups must do.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let appnums =
            spec.apps.iter().enumerate().flat_map(|(n, app)| std::iter::repeat_n(n, app.ranks_count));
        let job = Job {
            spec,
            epoll,
            signals,
            server: Server::new(id, appnums),
            outputs: Outputs::new(spec.ranks_count(), spec.is_tagged),
            ranks: Vec::with_capacity(spec.ranks_count()),
            running_count: 0,
            guard: None,
            id: id.to_owned(),
            watcher: None,
            printing: None,
            forward: None,
            parked: Vec::new(),
            is_output_watched: false,
            started,
            cause: None,
            passed_on: None,
            kill_at: None,
            give_up_at: None,
            drained_at: None,
            hung_up: Vec::new(),
            scratch: vec![0; 64 << 10],
        };
        epoll::add(&job.epoll, job.signals.fd(), Token::Signals.encode(), epoll::EventFlags::IN)
            .context("watching signals")?;
        Ok(job)
    }

    fn start(&mut self, id: &str, placement: &Placement) -> anyhow::Result<()> {
        self.guard = Some(Guard::start(id).context("starting the guard process")?);
        let is_terminal = is_stdin_terminal();
        let count = self.spec.ranks_count();
        let spawner = Spawner::new(self.spec, placement, id, is_terminal, std::env::vars_os(), count)?;
        let mut watcher = Watcher::new(spawner.segment()?).context("watching the ranks")?;
        epoll::add(&self.epoll, watcher.fd(), Token::Why.encode(), epoll::EventFlags::IN)
            .context("watching the ranks")?;
        for (appnum, app) in self.spec.apps.iter().enumerate() {
            for _ in 0..app.ranks_count {
                let rank = self.ranks.len();
                let started = spawner.start(rank, rank, appnum)?;
                watcher.admit(rank, started.pid);
                self.admit(started, appnum)?;
                if self.spec.is_verbose {
                    let cpus = placement.cpus.get(rank).map_or("any".to_owned(), |cpus| format_cpus(cpus));
                    let line = format!("{}: {} on CPUs {cpus}", self.who(rank), app.program.display());
                    self.outputs.message(&line);
                }
            }
        }
        self.watcher = Some(watcher);
        if let Some(guard) = &mut self.guard {
            guard.watch(self.ranks.iter().map(|rank| rank.pid));
        }
        Ok(())
    }

    fn admit(&mut self, started: Started, appnum: usize) -> anyhow::Result<()> {
        let rank = self.ranks.len();
        let readable = epoll::EventFlags::IN;
        let out = StreamId { rank, which: Which::Out };
        let err = StreamId { rank, which: Which::Err };
        let Started { pid, stdin, stdout, stderr, pmi } = started;
        self.ranks.push(Rank {
            pid,
            appnum,
            status: None,
            stdout: Some(stdout),
            stderr: Some(stderr),
            pmi: Some(pmi),
            unsent: Vec::new(),
        });
        self.running_count += 1;
        let admitted = &self.ranks[rank];
        for (fd, token) in [
            (admitted.stdout.as_ref().map(AsFd::as_fd), Token::Stream(out)),
            (admitted.stderr.as_ref().map(AsFd::as_fd), Token::Stream(err)),
            (admitted.pmi.as_ref().map(AsFd::as_fd), Token::Pmi(rank)),
        ] {
            let Some(fd) = fd else { continue };
            epoll::add(&self.epoll, fd, token.encode(), readable).context("watching a rank")?;
        }
        if let Some(pipe) = stdin {
            self.forward = Some(Forward::new(pipe).context("forwarding standard input")?);
            self.await_stdin(Wait::Source);
        }
        Ok(())
    }

    /// The event loop.
    fn serve(&mut self) -> anyhow::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        while !self.is_over() {
            let timeout = self.next_timeout().map(|at| {
                let left = at.saturating_duration_since(Instant::now());
                Timespec {
                    tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: left.subsec_nanos().into(),
                }
            });
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for events"),
            }
            for event in &events {
                self.handle_event(Token::decode(event.data));
            }
            self.handle_time(Instant::now());
            self.watch_output();
        }
        Ok(())
    }

    fn handle_event(&mut self, token: Token) {
        match token {
            Token::Signals => self.handle_signals(),
            Token::Terminal | Token::StdinSink => self.forward_stdin(),
            Token::OurOutput => {
                self.outputs.flush();
                self.unpark();
            }
            Token::Stream(stream) => self.read_stream(stream),
            Token::Why => self.print_why(),
            Token::Pmi(rank) => {
                if !self.ranks[rank].unsent.is_empty() {
                    self.send_pmi(rank, Vec::new());
                } else {
                    self.read_pmi(rank);
                }
            }
        }
    }

    /// Everything that is due.
    fn handle_time(&mut self, now: Instant) {
        self.outputs.handle_timeout(now);
        if let Some(watcher) = &mut self.watcher {
            watcher.note(now);
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let Some(limit) = self.spec.timeout
            && self.cause.is_none()
            && self.running_count > 0
            && now >= self.started + limit
        {
            self.end(Cause::Timeout(limit));
        }
        while let Some(&(rank, _)) = self.hung_up.first().filter(|(_, at)| *at <= now) {
            self.hung_up.remove(0);
            if self.ranks[rank].status.is_none() {
                self.end(Cause::HungUp { rank });
            }
        }
        if is_due(self.kill_at) {
            self.kill_at = None;
            self.give_up_at = Some(now + UNKILLABLE);
            self.kill_everything(Signal::KILL);
        }
        if is_due(self.give_up_at) {
            self.give_up_at = None;
            let left: Vec<String> = (0..self.ranks.len())
                .filter(|&rank| self.ranks[rank].status.is_none())
                .map(|r| self.who(r))
                .collect();
            self.outputs.message(&format!("SIGKILL does not end {}; left behind", left.join(", ")));
            self.running_count = 0;
            self.drained_at = Some(now);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let limit = self.spec.timeout.filter(|_| self.cause.is_none() && self.running_count > 0);
        let drained_at = self.drained_at.filter(|_| self.has_open_streams());
        let hung_up = self.hung_up.first().map(|(_, at)| *at);
        let note_at = self.watcher.as_ref().filter(|_| self.running_count > 0).map(Watcher::note_at);
        let all = [
            note_at,
            limit.map(|limit| self.started + limit),
            self.kill_at,
            self.give_up_at,
            drained_at,
            hung_up,
            self.outputs.poll_timeout(),
        ];
        all.into_iter().flatten().min()
    }

    fn has_open_streams(&self) -> bool {
        self.ranks.iter().any(|rank| rank.stdout.is_some() || rank.stderr.is_some())
    }

    fn is_over(&self) -> bool {
        self.running_count == 0
            && (!self.has_open_streams() || self.drained_at.is_some_and(|at| at <= Instant::now()))
            && self.parked.is_empty()
            && self.outputs.is_empty()
    }

    // Signals and deaths.

    fn handle_signals(&mut self) {
        for signal in self.signals.take() {
            if signal == SIGCHLD {
                self.reap();
                continue;
            }
            let Some(named) = Signal::from_named_raw(signal) else { continue };
            if is_ending(signal) && (self.passed_on.is_some() || self.cause.is_some()) {
                // Asked twice: now.
                if self.cause.is_none() {
                    self.end(Cause::Interrupted { signal });
                }
                self.kill_at = Some(Instant::now());
                continue;
            }
            if signal == SIGUSR1 {
                self.ask_why();
                self.pass_to_those_who_catch(named);
                continue;
            }
            self.kill_everything(named);
            if is_ending(signal) {
                self.passed_on = Some(signal);
            }
            if signal == SIGTSTP {
                // Stops this process too, as the user wants; SIGCONT arrives as a signal of its own.
                let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            }
            if signal == SIGCONT && self.forward.is_some() {
                self.await_stdin(Wait::Source);
            }
        }
    }

    /// Begins to look what the ranks do; [`print_why`](Self::print_why) says it.
    fn ask_why(&mut self) {
        if let (Some(watcher), None) = (&self.watcher, &self.printing) {
            self.printing = Some(Printing::default());
            watcher.start(0);
        }
    }

    /// Says what the ranks do, or has them looked at once more.
    fn print_why(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for (_, report) in watcher.take() {
            let heading = Heading {
                job: self.id.clone(),
                program: self.spec.programs(),
                age_ms: u64::try_from(self.started.elapsed().as_millis()).ok(),
                ranks_count: u32::try_from(self.ranks.len()).ok(),
                limits: Vec::new(),
            };
            let Some(printing) = &mut self.printing else { continue };
            match printing.on_reports(vec![report], &heading) {
                None => watcher.start(0),
                Some(text) => {
                    self.printing = None;
                    self.outputs.message(text.trim_end());
                }
            }
        }
    }

    /// Sends a signal to the groups of ranks that do something of their own on it; the others would die.
    fn pass_to_those_who_catch(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| catches(rank.pid, signal.as_raw())) {
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    /// Sends `signal` to the process group of every rank, also to what an ended rank has left in its group.
    fn kill_everything(&self, signal: Signal) {
        for rank in &self.ranks {
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    /// Ends the job, for the first cause there is.
    fn end(&mut self, cause: Cause) {
        if self.cause.is_some() {
            return;
        }
        let cause = self.killed_unnoticed(&cause).unwrap_or(cause);
        let who = cause.rank().map_or(String::new(), |rank| self.who(rank));
        let is_running = |rank: usize| self.ranks[rank].status.is_none();
        let others_count = cause.others_count(self.running_count, is_running);
        self.outputs.message(&cause.describe(&who, others_count));
        self.cause = Some(cause);
        self.kill_at = Some(Instant::now() + GRACE);
        self.kill_everything(Signal::TERM);
        // A stopped rank does not hear SIGTERM.
        self.kill_everything(Signal::CONT);
    }

    fn who(&self, rank: usize) -> String {
        let Rank { pid, appnum, .. } = &self.ranks[rank];
        let program = match &self.spec.apps[..] {
            [_] => String::new(),
            apps => format!(", {}", apps[*appnum].name.display()),
        };
        format!("rank {rank} on {} (pid {}{program})", super::hostname(), pid.as_raw_nonzero())
    }

    // Output and input.

    /// Takes what is in the pipe of a rank that has ended; bounded, as its children may go on writing.
    fn drain(&mut self, stream: StreamId) {
        for _ in 0..16 {
            if !self.read_now(stream) {
                break;
            }
        }
    }

    fn read_stream(&mut self, stream: StreamId) {
        let is_congested = self.outputs.is_congested(stream.which);
        let rank = &mut self.ranks[stream.rank];
        let slot = if stream.which == Which::Out { &mut rank.stdout } else { &mut rank.stderr };
        let Some(fd) = slot.as_ref() else { return };
        if is_congested {
            if !self.parked.contains(&stream) {
                let _ = epoll::delete(&self.epoll, fd);
                self.parked.push(stream);
            }
            return;
        }
        self.read_now(stream);
    }

    /// One read; whether there may be more.
    fn read_now(&mut self, stream: StreamId) -> bool {
        let rank = &mut self.ranks[stream.rank];
        let slot = if stream.which == Which::Out { &mut rank.stdout } else { &mut rank.stderr };
        let Some(fd) = slot.as_ref() else { return false };
        match rustix::io::read(fd, &mut self.scratch[..]) {
            Ok(count) if count > 0 => {
                self.outputs.push(stream, &self.scratch[..count], Instant::now());
                if !self.outputs.is_broken(stream.which) {
                    return true;
                }
                // Nobody reads us any more. With its pipe closed the rank gets SIGPIPE, as it would without us.
            }
            Err(Errno::AGAIN | Errno::INTR) => return false,
            _ => {}
        }
        // Closing takes it out of the epoll set too: nobody else holds this end.
        *slot = None;
        self.outputs.end(stream);
        false
    }

    /// Our output has room again.
    fn unpark(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        // What a slow reader has kept in the pipes is read before the end.
        self.drained_at = self.drained_at.map(|_| Instant::now() + DRAIN);
        for stream in std::mem::take(&mut self.parked) {
            if self.outputs.is_congested(stream.which) {
                self.parked.push(stream);
                continue;
            }
            self.outputs.resume(stream, Instant::now());
            let rank = &self.ranks[stream.rank];
            let slot = if stream.which == Which::Out { &rank.stdout } else { &rank.stderr };
            if let Some(fd) = slot {
                let token = Token::Stream(stream).encode();
                let _ = epoll::add(&self.epoll, fd, token, epoll::EventFlags::IN);
            }
        }
    }

    /// Watches our own output exactly while it is behind.
    fn watch_output(&mut self) {
        let is_behind = !self.outputs.is_empty();
        if is_behind == self.is_output_watched {
            return;
        }
        self.is_output_watched = is_behind;
        for fd in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
            let _ = epoll::delete(&self.epoll, fd);
        }
        for fd in self.outputs.blocked() {
            let _ = epoll::add(&self.epoll, fd, Token::OurOutput.encode(), epoll::EventFlags::OUT);
        }
        if !is_behind {
            self.unpark();
        }
    }

    fn forward_stdin(&mut self) {
        let Some(forward) = &mut self.forward else { return };
        match forward.pump(&mut self.scratch) {
            Some(wait) => self.await_stdin(wait),
            None => {
                let _ = epoll::delete(&self.epoll, rustix::stdio::stdin());
                self.forward = None;
            }
        }
    }

    fn await_stdin(&mut self, wait: Wait) {
        let Some(forward) = &self.forward else { return };
        let terminal = rustix::stdio::stdin();
        // Deleting what is not there is no harm.
        let _ = epoll::delete(&self.epoll, terminal);
        let _ = epoll::delete(&self.epoll, forward.sink());
        let _ = match wait {
            Wait::Source => {
                epoll::add(&self.epoll, terminal, Token::Terminal.encode(), epoll::EventFlags::IN)
            }
            Wait::Sink => {
                epoll::add(&self.epoll, forward.sink(), Token::StdinSink.encode(), epoll::EventFlags::OUT)
            }
            Wait::Foreground => Ok(()),
        };
    }

    // PMI.

    fn read_pmi(&mut self, rank: usize) {
        loop {
            let Some(socket) = &self.ranks[rank].pmi else { return };
            match rustix::io::read(socket, &mut self.scratch[..]) {
                Ok(count) if count > 0 => {
                    let event = self.server.handle_bytes(rank, &self.scratch[..count]);
                    while let Some((to, bytes)) = self.server.poll_output() {
                        self.send_pmi(to, bytes);
                    }
                    if let Some(event) = event {
                        self.ranks[rank].pmi = None;
                        self.handle_pmi_event(rank, event);
                        return;
                    }
                    self.check_absent();
                    if self.ranks[rank].status.is_none() {
                        // One read an event: no rank keeps the others waiting.
                        return;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                _ => {
                    self.ranks[rank].pmi = None;
                    let is_owing = self.server.phase(rank) == Phase::Initialised;
                    if is_owing && self.ranks[rank].status.is_none() {
                        self.hung_up.push((rank, Instant::now() + HANG_UP_PATIENCE));
                    }
                    return;
                }
            }
        }
    }

    fn handle_pmi_event(&mut self, rank: usize, event: Event) {
        // A rank that aborts because a peer has died is not the cause.
        self.reap();
        self.end(match event {
            Event::Abort { exitcode, message } => Cause::Aborted { rank, exitcode, message },
            Event::Violation(why) => Cause::Violation { rank, why },
        });
    }

    /// Sends a reply, or the rest of one.
    fn send_pmi(&mut self, rank: usize, bytes: Vec<u8>) {
        let peer = &mut self.ranks[rank];
        let Some(socket) = &peer.pmi else { return };
        let was_behind = !peer.unsent.is_empty();
        peer.unsent.extend_from_slice(&bytes);
        // Not write(2): the rank may be dead, and SIGPIPE is ours to ignore only by flag.
        match rustix::net::send(socket, &peer.unsent, rustix::net::SendFlags::NOSIGNAL) {
            Ok(count) => {
                peer.unsent.drain(..count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // It is gone; reading will say so.
            Err(_) => peer.unsent.clear(),
        }
        let is_behind = !peer.unsent.is_empty();
        if was_behind != is_behind {
            let wanted = if is_behind { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            let _ = epoll::modify(&self.epoll, socket, Token::Pmi(rank).encode(), wanted);
        }
    }

    // The end.

    /// Our children that are neither ranks nor the guard: orphans of ranks.
    fn adopted(&self) -> Vec<Pid> {
        let tid = rustix::thread::gettid().as_raw_nonzero();
        let list = std::fs::read_to_string(format!("/proc/self/task/{tid}/children")).unwrap_or_default();
        let guard = self.guard.as_ref().and_then(Guard::pid);
        let is_known = |pid: &Pid| guard == Some(*pid) || self.ranks.iter().any(|rank| rank.pid == *pid);
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw);
        pids.filter(|pid| !is_known(pid)).collect()
    }

    fn reap_adopted(&self) {
        for pid in self.adopted() {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Ends what is left of the ranks and takes the last of their output.
    fn settle(&mut self) {
        self.kill_everything(Signal::KILL);
        // Killing an orphan orphans its children in turn: a few rounds. Each waits for the kernel, not for a timer.
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
        for rank in 0..self.ranks.len() {
            for which in [Which::Out, Which::Err] {
                self.drain(StreamId { rank, which });
            }
            (self.ranks[rank].stdout, self.ranks[rank].stderr) = (None, None);
        }
        // Their groups were signalled for the last time: the zombies may go.
        for rank in &self.ranks {
            let _ = waitpid(Some(rank.pid), WaitOptions::NOHANG);
        }
        self.running_count = 0;
    }

    /// Says what is left to say, and gives the exit code.
    fn finish(mut self) -> Exit {
        if self.spec.is_verbose {
            let line = format!("{} ranks, {:.3} s", self.ranks.len(), self.started.elapsed().as_secs_f64());
            self.outputs.message(&line);
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        match (&self.cause, self.passed_on) {
            (Some(cause), _) => cause.exit(),
            (None, Some(signal)) if self.spec.is_verbose => {
                self.outputs.message(&format!("{} was handled by the program", signal_name(signal)));
                Exit::Success
            }
            (None, _) => Exit::Success,
        }
    }
}
