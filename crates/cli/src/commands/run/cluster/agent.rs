//! `ayatori agent`: starts and serves the ranks of one host for an `ayatori run` elsewhere.
//!
//! It speaks with the launcher over its standard input and output (`wire.rs`) and with nobody else: no port, no key on a
//! command line. It ends its ranks when the launcher says so, and when the launcher is no more: input closed, or
//! silent for [`SILENCE_MAX`]. If it is itself killed its ranks die with it, and the guard ends what they started.

use super::super::args::{App, Binding, JobSpec, find_program};
use super::super::ending::Status;
use super::super::guard::Guard;
use super::super::place::Placement;
use super::super::signals::{Signals, is_ending};
use super::super::spawn::{Spawner, Started};
use super::super::why::{Watcher, catches};
use super::channel::{Channel, Inflow};
use super::wire::{CHUNK_BYTES, Message, Order, PREAMBLE};
use super::{HEARTBEAT, SILENCE_MAX};
use crate::exit::{Exit, FAILURE, code_of};
use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use signal_hook::consts::{SIGCHLD, SIGUSR1};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::time::Instant;

/// Unsent PMI bytes of a rank above which it has stopped listening.
const PMI_BACKLOG_MAX: usize = 8 << 20;

/// What `ayatori agent` takes: nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {}

struct Rank {
    number: usize,
    pid: Pid,
    status: Option<Status>,
    is_told: bool,
    stdin: Option<ChildStdin>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    pmi: Option<UnixStream>,
    to_pmi: Vec<u8>,
}

const LAUNCHER: u64 = 0;
const OUTPUT: u64 = 1;
const SIGNALS: u64 = 2;
const WHY: u64 = 3;
const FIRST_RANK: u64 = 4;
/// Streams of a rank in the tokens.
const STREAMS: u64 = 4;

struct Agent {
    channel: Channel,
    epoll: OwnedFd,
    signals: Signals,
    ranks: Vec<Rank>,
    guard: Option<Guard>,
    watcher: Option<Watcher>,
    stdin: Vec<u8>,
    is_stdin_over: bool,
    heard: Instant,
    spoken: Instant,
    is_output_watched: bool,
    is_parked: bool,
    scratch: Vec<u8>,
}

/// The agent's whole life.
pub(crate) fn run(_: AgentArgs) -> anyhow::Result<Exit> {
    let input = rustix::stdio::stdin().try_clone_to_owned().context("taking standard input")?;
    let output = rustix::stdio::stdout().try_clone_to_owned().context("taking standard output")?;
    let mut channel = Channel::new(input, output).context("setting up the way to the launcher")?;
    channel.send_raw(PREAMBLE);
    channel.flush();
    let signals = Signals::new().context("catching signals")?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
    let readable = epoll::EventFlags::IN;
    let token = epoll::EventData::new_u64;
    epoll::add(&epoll, &channel.input, token(LAUNCHER), readable).map_err(|error| match error {
        // A file or /dev/null.
        Errno::PERM => anyhow::anyhow!(
            "the agent's input does not come from its launcher: the command of --agent has to pass it on (ssh without \
             -n, docker exec -i)"
        ),
        error => anyhow::Error::new(error).context("watching the launcher"),
    })?;
    epoll::add(&epoll, signals.fd(), token(SIGNALS), readable).context("watching signals")?;
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut agent = Agent {
        channel,
        epoll,
        signals,
        ranks: Vec::new(),
        guard: None,
        watcher: None,
        stdin: Vec::new(),
        is_stdin_over: false,
        heard: Instant::now(),
        spoken: Instant::now(),
        is_output_watched: false,
        is_parked: false,
        scratch: vec![0; CHUNK_BYTES],
    };
    agent.serve();
    agent.settle();
    Ok(Exit::Success)
}

/// When the other side was heard last, for who judges its silence: `heard`, unless we ourselves have not run since our last
/// `turn`, of which there is one a heartbeat. The machine was suspended then, or a container or this process stopped, and the other
/// side perhaps with it, or what it said is still to be read.
pub(super) fn heard_while_running(heard: Instant, turn: Instant, now: Instant) -> Instant {
    if now.duration_since(turn) > 3 * HEARTBEAT { now } else { heard }
}

impl Agent {
    fn serve(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        let mut turn = Instant::now();
        loop {
            let timeout = Timespec { tv_sec: HEARTBEAT.as_secs() as i64, tv_nsec: 0 };
            events.clear();
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout));
            for event in &events {
                let goes_on = match event.data.u64() {
                    LAUNCHER => self.read_launcher(),
                    OUTPUT => {
                        self.channel.flush();
                        true
                    }
                    SIGNALS => self.handle_signals(),
                    WHY => {
                        self.report();
                        true
                    }
                    other => {
                        let place = ((other - FIRST_RANK) / STREAMS) as usize;
                        self.handle_stream(place, (other - FIRST_RANK) % STREAMS);
                        true
                    }
                };
                if !goes_on {
                    return;
                }
            }
            let now = Instant::now();
            if let Some(watcher) = &mut self.watcher {
                watcher.note(now);
            }
            self.heard = heard_while_running(self.heard, turn, now);
            turn = now;
            if now.duration_since(self.heard) > SILENCE_MAX {
                // It may have been stopped, and read this when it goes on.
                let why = format!("its agent has not heard the launcher for {} s", SILENCE_MAX.as_secs());
                self.channel.send(&Message::Failed(FAILURE, why));
                return;
            }
            if now.duration_since(self.spoken) >= HEARTBEAT {
                self.spoken = now;
                self.channel.send(&Message::Alive);
            }
            self.watch_output();
        }
    }

    /// `false`: the launcher is gone.
    fn read_launcher(&mut self) -> bool {
        let inflow = self.channel.read(&mut self.scratch);
        self.heard = Instant::now();
        loop {
            match self.channel.next() {
                Ok(Some(message)) => self.handle(message),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        inflow == Inflow::Open
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Start(order) if self.ranks.is_empty() => {
                if let Err(error) = self.start(&order) {
                    self.kill(Signal::KILL);
                    let code = code_of(&error);
                    self.channel.send(&Message::Failed(code, format!("{error:#}")));
                }
            }
            Message::Pmi(number, bytes) => {
                if let Some(place) = self.ranks.iter().position(|rank| rank.number == number) {
                    self.ranks[place].to_pmi.extend_from_slice(&bytes);
                    self.send_pmi(place);
                }
            }
            Message::Ask(number) => {
                if let Some(watcher) = &self.watcher {
                    watcher.start(number);
                }
            }
            Message::Signal(SIGUSR1) => {
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
                self.is_stdin_over |= bytes.is_empty();
                self.stdin.extend_from_slice(&bytes);
                self.feed();
            }
            // Not for an agent.
            _ => {}
        }
    }

    fn start(&mut self, order: &Order) -> anyhow::Result<()> {
        std::env::set_current_dir(&order.directory).with_context(|| {
            format!(
                "the directory {} (where ayatori run was started; --wdir names another)",
                order.directory.display()
            )
        })?;
        let here = std::env::current_dir().context("finding the current directory")?;
        let path = order.environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let path = path.unwrap_or_default();
        let app = |app: &super::wire::AppOrder| {
            let wdir = app.wdir.as_ref().map(PathBuf::from);
            Ok(App {
                ranks_count: 0,
                program: find_program(&app.name, &here, wdir.as_deref(), &path)?,
                name: app.name.clone(),
                args: app.args.clone(),
                env: app.env.clone(),
                wdir,
            })
        };
        let mut apps = order.apps.iter().map(app).collect::<anyhow::Result<Vec<App>>>()?;
        for &(_, appnum) in &order.ranks {
            apps.get_mut(appnum).context("a rank of no program")?.ranks_count += 1;
        }
        let binding = order.binding.map(|is_bound| if is_bound { Binding::Core } else { Binding::None });
        let spec = JobSpec { apps, binding, ..JobSpec::default() };
        let placement = Placement::new(binding, order.ranks.len())?;
        self.guard = Some(Guard::start(&order.job).context("starting the guard process")?);
        let environment = order.environment.clone().into_iter();
        let spawner = Spawner::new(&spec, &placement, &order.job, true, environment, order.world_count)?;
        let mut watcher = Watcher::new(spawner.segment()?).context("watching the ranks")?;
        epoll::add(&self.epoll, watcher.fd(), epoll::EventData::new_u64(WHY), epoll::EventFlags::IN)
            .context("watching the ranks")?;
        for (local, &(number, appnum)) in order.ranks.iter().enumerate() {
            let started = spawner.start(number, local, appnum)?;
            watcher.admit(number, started.pid);
            self.admit(number, started)?;
        }
        self.watcher = Some(watcher);
        let pids: Vec<Pid> = self.ranks.iter().map(|rank| rank.pid).collect();
        if let Some(guard) = &mut self.guard {
            guard.watch(pids.into_iter());
        }
        Ok(())
    }

    /// Tells what was seen of the ranks.
    fn report(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for (number, report) in watcher.take() {
            self.channel.send(&Message::Report(number, Box::new(report)));
        }
    }

    fn admit(&mut self, number: usize, started: Started) -> anyhow::Result<()> {
        let Started { pid, stdin, stdout, stderr, pmi } = started;
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true).context("setting up a pipe")?;
        }
        let base = FIRST_RANK + self.ranks.len() as u64 * STREAMS;
        let token = |stream: u64| epoll::EventData::new_u64(base + stream);
        let readable = epoll::EventFlags::IN;
        epoll::add(&self.epoll, &stdout, token(0), readable).context("watching a rank")?;
        epoll::add(&self.epoll, &stderr, token(1), readable).context("watching a rank")?;
        epoll::add(&self.epoll, &pmi, token(2), readable).context("watching a rank")?;
        self.ranks.push(Rank {
            number,
            pid,
            status: None,
            is_told: false,
            stdin,
            stdout: Some(stdout),
            stderr: Some(stderr),
            pmi: Some(pmi),
            to_pmi: Vec::new(),
        });
        self.channel.send(&Message::Started(number, pid.as_raw_nonzero().get()));
        self.feed();
        Ok(())
    }

    fn handle_stream(&mut self, place: usize, stream: u64) {
        match stream {
            0 | 1 => {
                if !self.channel.is_congested() {
                    self.read_output(place, stream == 0);
                }
            }
            2 => {
                if !self.ranks[place].to_pmi.is_empty() {
                    self.send_pmi(place);
                }
                self.read_pmi(place);
            }
            _ => self.feed(),
        }
    }

    /// One read of what a rank prints; whether there may be more.
    fn read_output(&mut self, place: usize, is_out: bool) -> bool {
        let rank = &mut self.ranks[place];
        let slot = if is_out { &mut rank.stdout } else { &mut rank.stderr };
        let Some(fd) = slot.as_ref() else { return false };
        match rustix::io::read(fd, &mut self.scratch[..]) {
            Ok(count) if count > 0 => {
                let bytes = self.scratch[..count].to_vec();
                let number = rank.number;
                self.channel.send(&if is_out {
                    Message::Out(number, bytes)
                } else {
                    Message::Err(number, bytes)
                });
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            _ => {
                *slot = None;
                false
            }
        }
    }

    fn read_pmi(&mut self, place: usize) {
        let rank = &mut self.ranks[place];
        let Some(socket) = &rank.pmi else { return };
        match rustix::io::read(socket, &mut self.scratch[..]) {
            Ok(count) if count > 0 => {
                self.channel.send(&Message::Pmi(rank.number, self.scratch[..count].to_vec()));
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => {
                rank.pmi = None;
                self.channel.send(&Message::PmiClosed(rank.number));
            }
        }
    }

    fn send_pmi(&mut self, place: usize) {
        let rank = &mut self.ranks[place];
        let Some(socket) = &rank.pmi else { return };
        match rustix::net::send(socket, &rank.to_pmi, rustix::net::SendFlags::NOSIGNAL) {
            Ok(count) => {
                rank.to_pmi.drain(..count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => rank.to_pmi.clear(),
        }
        if rank.to_pmi.len() > PMI_BACKLOG_MAX {
            rank.to_pmi.clear();
            rank.pmi = None;
            return;
        }
        let wanted = if rank.to_pmi.is_empty() {
            epoll::EventFlags::IN
        } else {
            epoll::EventFlags::IN | epoll::EventFlags::OUT
        };
        let token = epoll::EventData::new_u64(FIRST_RANK + place as u64 * STREAMS + 2);
        let _ = epoll::modify(&self.epoll, socket, token, wanted);
    }

    /// Gives rank 0 what there is of its input.
    fn feed(&mut self) {
        let Some(place) = self.ranks.iter().position(|rank| rank.number == 0) else { return };
        let Some(pipe) = &self.ranks[place].stdin else { return };
        let before = self.stdin.len();
        match rustix::io::write(pipe, &self.stdin) {
            Ok(count) => {
                self.stdin.drain(..count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.stdin.clear(),
        }
        if self.stdin.len() < before {
            self.channel.send(&Message::StdinTaken(before - self.stdin.len()));
        }
        let token = epoll::EventData::new_u64(FIRST_RANK + place as u64 * STREAMS + 3);
        let _ = epoll::delete(&self.epoll, pipe);
        if !self.stdin.is_empty() {
            let _ = epoll::add(&self.epoll, pipe, token, epoll::EventFlags::OUT);
        } else if self.is_stdin_over {
            self.ranks[place].stdin = None;
        }
    }

    /// `false`: somebody wants this agent to end.
    fn handle_signals(&mut self) -> bool {
        for signal in self.signals.take() {
            if signal == SIGCHLD {
                self.reap();
            } else if is_ending(signal) {
                return false;
            }
        }
        true
    }

    fn reap(&mut self) {
        for place in 0..self.ranks.len() {
            if self.ranks[place].status.is_some() {
                continue;
            }
            let Some(status) = Status::of_child(self.ranks[place].pid) else { continue };
            self.ranks[place].status = Some(status);
            self.tell_end(place);
        }
        self.reap_adopted();
    }

    /// Its last words, then its end.
    fn tell_end(&mut self, place: usize) {
        let Some(status) = self.ranks[place].status.filter(|_| !self.ranks[place].is_told) else { return };
        self.ranks[place].is_told = true;
        for _ in 0..16 {
            self.read_pmi(place);
            let more = [self.read_output(place, true), self.read_output(place, false)];
            if more == [false, false] {
                break;
            }
        }
        self.channel.send(&Message::Ended(self.ranks[place].number, status));
    }

    fn kill(&self, signal: Signal) {
        for rank in &self.ranks {
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    /// Watches our output exactly while it is behind, and the ranks' exactly while it is not far behind.
    fn watch_output(&mut self) {
        let is_behind = self.channel.has_unsent();
        if is_behind != self.is_output_watched {
            self.is_output_watched = is_behind;
            let token = epoll::EventData::new_u64(OUTPUT);
            let _ = if is_behind {
                epoll::add(&self.epoll, &self.channel.output, token, epoll::EventFlags::OUT)
            } else {
                epoll::delete(&self.epoll, &self.channel.output)
            };
        }
        let is_congested = self.channel.is_congested();
        if is_congested != self.is_parked {
            self.is_parked = is_congested;
            let flags = if is_congested { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
            for (place, rank) in self.ranks.iter().enumerate() {
                for (stream, fd) in [(0, &rank.stdout), (1, &rank.stderr)] {
                    let token = epoll::EventData::new_u64(FIRST_RANK + place as u64 * STREAMS + stream);
                    let _ = fd.as_ref().map(|fd| epoll::modify(&self.epoll, fd, token, flags));
                }
            }
        }
    }

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

    /// Ends all that is left.
    fn settle(&mut self) {
        self.kill(Signal::KILL);
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
        for rank in &self.ranks {
            let _ = waitpid(Some(rank.pid), WaitOptions::empty());
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_in_which_we_did_not_run_is_nobodys_silence() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(heard_while_running(after(2), after(10), after(11)), after(2), "the other side is silent");
        assert_eq!(heard_while_running(after(2), after(3), after(40)), after(40), "we were stopped");
    }
}
