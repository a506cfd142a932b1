//! The controller's loop: one thread, one epoll.

pub(super) mod worlds;

use super::inquiry::{Asker, Inquiries, add_ended, without_ranks};
use super::worlds::{NameAsker, Wire, Word, World, universe_size};
use crate::environment::KEY_OF_JOB;
use crate::error::Error;
use crate::host::Host;
use crate::hosts::shares;
use crate::input::{Input, Taken};
use crate::machine::hostname;
use crate::output::{Outputs, StreamId, Which};
use crate::pmi::{mapping, wire::VALUE_MAX_BYTES};
use crate::relay::Relay;
use crate::signals::{Signals, is_ending};
use crate::spawn::check_count;
use crate::spec::{Cluster, JobSpec, Order, Reach};
use crate::supervisor::{Action, Limits, Member, Supervisor};
use crate::tree::Branch;
use crate::why::listen::{Answer, Listener, Question, reply};
use crate::why::printing::Printing;
use crate::why::report::HostReport;
use crate::why::show::Heading;
use crate::wire::{CHUNK_BYTES, Message};
use anyhow::Context;
use ayatori_devices::tcp::Key;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGUSR1};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long agents may take to finish and then to end.
const FAREWELL_MAX: Duration = Duration::from_secs(3);
/// Most ranks of a job on several hosts; on one the machine's limits say it.
const RANKS_MAX: usize = 1 << 20;

const SIGNALS: u64 = 0;
const OUR_OUTPUT: u64 = 1;
const INPUT: u64 = 2;
const LISTENER: u64 = 3;
const FIRST: u64 = 4;
const HOSTS: u64 = 5;
const FIRST_WORLD: u64 = 1 << 40;

/// A host, seen from here.
struct Link {
    name: String,
    /// It has taken the last output of its ranks and ended what they left behind; or it is lost.
    is_finished: bool,
    is_lost: bool,
}

/// How messages reach the hosts.
enum Way {
    /// The only one is this process.
    Here(Box<Host>),
    Agents(Relay),
}

struct Controller<'s> {
    spec: &'s JobSpec,
    /// Worlds that ranks have started.
    worlds: Vec<World>,
    /// The launcher that has started this one.
    first: Option<Wire>,
    is_start_told: bool,
    /// Askers of names, by number.
    name_askers: Vec<NameAsker>,
    job: String,
    epoll: OwnedFd,
    signals: Signals,
    supervisor: Supervisor,
    outputs: Outputs,
    links: Vec<Link>,
    way: Way,
    input: Input,
    is_input_watched: bool,
    inquiries: Inquiries,
    is_output_watched: bool,
    /// Standard output, standard error: too much of it waits to be printed.
    is_paused: [bool; 2],
    /// The hosts know that this stream has no reader any more.
    is_unread: [bool; 2],
    started: Instant,
    /// When hosts that have not finished are given up.
    finish_by: Option<Instant>,
    is_concluded: bool,
    failure: Option<anyhow::Error>,
    scratch: Vec<u8>,
}

/// Runs a job from its first process to its last. Answers the exit code of the launcher: 0, or that of the
/// first failure.
///
/// The calling program must serve as an agent ([`crate::agent::run`]) when its first argument is `agent`, and
/// as a watchdog ([`crate::watchdog::main`]) when its name is [`crate::watchdog::NAME`]; the calling thread
/// must live as long as the job.
///
/// # Errors
/// The job could not be started. [`crate::error::exit_code`] says what to answer.
pub fn run(spec: &JobSpec) -> anyhow::Result<u8> {
    let now = Instant::now();
    let job = job_id()?;
    let (names, host_of_rank) = place(spec)?;
    let mut controller = Controller::new(spec, &job, names, &host_of_rank, now)?;
    controller.start(&host_of_rank, now)?;
    controller.serve()?;
    controller.finish()
}

/// 64 random bits in hexadecimal.
fn job_id() -> anyhow::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("drawing a job id")?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// The hosts that get ranks, and the number of each rank's host.
pub(super) fn place(spec: &JobSpec) -> anyhow::Result<(Vec<String>, Vec<usize>)> {
    let count = spec.ranks_count();
    let Some(cluster) = &spec.cluster else {
        check_count(count)?;
        return Ok((vec![hostname().to_owned()], vec![0; count]));
    };
    if count > RANKS_MAX {
        return Err(Error::usage(format!("-n {count}: a job has at most {RANKS_MAX} ranks")));
    }
    let shares = cluster.hosts.iter().zip(shares(&cluster.hosts, count)).filter(|(_, share)| *share > 0);
    let (names, shares): (Vec<String>, Vec<usize>) =
        shares.map(|(host, share)| (host.name.clone(), share)).unzip();
    let each = shares.iter().enumerate().flat_map(|(host, &share)| std::iter::repeat_n(host, share));
    Ok((names, each.collect()))
}

/// Initial content of the job's key-value store.
fn provided<'s>(spec: &'s JobSpec, host_of_rank: &[usize]) -> anyhow::Result<Vec<(&'s str, String)>> {
    let nodes: Vec<u32> = host_of_rank.iter().map(|&host| host as u32).collect();
    let mapping = mapping::text(&nodes);
    // PMI-1 cannot say it then, and lets it be empty. Our library knows its host by `AYATORI_NODE`.
    let mapping = if mapping.len() <= VALUE_MAX_BYTES { mapping } else { String::new() };
    let mut values = vec![("PMI_process_mapping", mapping)];
    values.extend(spec.values.iter().map(|(key, value)| (key.as_str(), value.clone())));
    if spec.cluster.is_some() {
        let key = Key::random().context("drawing the job's key")?;
        values.push((KEY_OF_JOB, key.to_hex()));
    }
    Ok(values)
}

impl<'s> Controller<'s> {
    fn new(
        spec: &'s JobSpec,
        job: &str,
        names: Vec<String>,
        host_of_rank: &[usize],
        now: Instant,
    ) -> anyhow::Result<Self> {
        let members: Vec<Member> = host_of_rank
            .iter()
            .zip(spec.program_numbers())
            .map(|(&host, program)| Member { host, program })
            .collect();
        let programs = spec.apps.iter().map(|app| app.program.name.display().to_string()).collect();
        let is_cluster = spec.cluster.is_some();
        // One host's news comes in order, and all of it can be had at once.
        let hearsay = if is_cluster { Limits::default().hearsay } else { Duration::ZERO };
        let limits = Limits { job: spec.timeout, hearsay, survives: spec.survives, ..Limits::default() };
        let values = provided(spec, host_of_rank)?;
        let mut supervisor =
            Supervisor::new(job, limits, (names.clone(), programs), &members, &values, spec.is_verbose, now);
        if let Some(size) = universe_size(spec) {
            supervisor.server().set_universe_size(size);
        }
        let signals = Signals::new().context("catching signals")?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        watch(&epoll, signals.fd(), SIGNALS).context("watching signals")?;
        // Without it there is SIGUSR1. On one host `ayatori why` looks itself.
        let inquiries = Inquiries::new(is_cluster.then(|| Listener::open(job).ok()).flatten());
        if let Some(fd) = inquiries.fd() {
            watch(&epoll, fd, LISTENER).context("listening for `ayatori why`")?;
        }
        let links = names.into_iter().map(|name| Link { name, is_finished: false, is_lost: false });
        let way = Way::open(is_cluster, &epoll, now)?;
        Ok(Controller {
            spec,
            worlds: Vec::new(),
            first: None,
            is_start_told: false,
            name_askers: Vec::new(),
            job: job.to_owned(),
            epoll,
            signals,
            supervisor,
            outputs: Outputs::new(members.len(), spec.is_tagged),
            links: links.collect(),
            way,
            input: Input::new(is_cluster),
            is_input_watched: false,
            inquiries,
            is_output_watched: false,
            is_paused: [false; 2],
            is_unread: [false; 2],
            started: now,
            finish_by: None,
            is_concluded: false,
            failure: None,
            scratch: vec![0; CHUNK_BYTES],
        })
    }

    /// Starts the agents, if there are any, and sends each host its order.
    fn start(&mut self, host_of_rank: &[usize], now: Instant) -> anyhow::Result<()> {
        // Where it has gone a program can still be started by its path.
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let mut order = Order {
            job: self.job.clone(),
            host: 0,
            branches: Vec::new(),
            reach: Reach::new(self.spec.cluster.as_ref())?,
            world_count: host_of_rank.len(),
            ranks: Vec::new(),
            programs: self.spec.apps.iter().map(|app| app.program.clone()).collect(),
            environment: self.spec.environment(),
            directory: directory.into(),
            binding: self.spec.binding,
            is_spawned: self.spec.is_spawned,
            is_input_forwarded: self.input.is_forwarded(),
        };
        let names = self.links.iter().map(|link| link.name.clone());
        let mut branches = branches(self.spec, names, host_of_rank);
        match &mut self.way {
            Way::Here(host) => {
                order.ranks = branches.pop().map(|branch| branch.ranks).unwrap_or_default();
                host.handle(Message::Start(Box::new(order)), now);
            }
            Way::Agents(relay) => {
                order.branches = branches;
                relay.start(&order, now);
            }
        }
        self.turn_over(now);
        Ok(())
    }

    fn serve(&mut self) -> anyhow::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        while !self.is_over() {
            self.watch_all();
            let wait = self.next_timeout().map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = wait.map(|wait| Timespec {
                tv_sec: wait.as_secs().cast_signed(),
                tv_nsec: wait.subsec_nanos().into(),
            });
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for events"),
            }
            let now = Instant::now();
            for event in &events {
                match event.data.u64() {
                    SIGNALS => self.handle_signals(now),
                    OUR_OUTPUT => self.outputs.flush(),
                    INPUT => self.read_input(now),
                    LISTENER => self.accept_inquiry(now),
                    FIRST => self.hear_first(now),
                    other if other >= FIRST_WORLD => self.hear_world((other - FIRST_WORLD) as usize, now),
                    _ => self.handle_hosts(now),
                }
            }
            self.turn_over(now);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_concluded && self.outputs.is_empty()
    }

    fn next_timeout(&self) -> Option<Instant> {
        let all = [
            match &self.way {
                Way::Here(host) => host.poll_timeout(),
                Way::Agents(relay) => relay.poll_timeout(),
            },
            self.supervisor.poll_timeout(),
            self.inquiries.poll_timeout(),
            self.outputs.poll_timeout(),
            self.finish_by,
        ];
        all.into_iter().flatten().min()
    }

    /// After all events of a turn: what is due, and what follows from it.
    fn turn_over(&mut self, now: Instant) {
        match &mut self.way {
            Way::Here(host) => host.handle_timeout(now),
            Way::Agents(relay) => relay.beat(now),
        }
        self.collect(now);
        if self.supervisor.is_undecided() {
            // A rank that gave up because another has died is not the cause.
            self.reap();
            self.collect(now);
        }
        self.supervisor.handle_timeout(now);
        self.collect(now);
        self.answer_inquiries(now);
        self.outputs.handle_timeout(now);
        if self.is_paused != [false; 2] {
            self.finish_by = self.finish_by.map(|_| now + FAREWELL_MAX);
        }
        if self.finish_by.is_some_and(|at| at <= now) {
            self.finish_by = None;
            let are_elsewhere = matches!(self.way, Way::Agents(_));
            self.links.iter_mut().for_each(|link| link.is_finished |= are_elsewhere);
        }
        self.tell_start();
        let are_worlds_over = self.worlds.iter().all(|world| world.status.is_some());
        if !self.is_concluded && are_worlds_over && self.links.iter().all(|link| link.is_finished) {
            self.is_concluded = true;
            self.supervisor.conclude(now);
            self.collect(now);
        }
    }

    /// Moves messages from and actions to hosts until there are none.
    fn collect(&mut self, now: Instant) {
        loop {
            let mut is_news = false;
            while let Some(action) = self.supervisor.poll_action() {
                is_news = true;
                self.act(action, now);
            }
            while let Some((host, message)) = self.way.poll_message() {
                is_news = true;
                self.handle_message(host, message, now);
            }
            if !is_news {
                return;
            }
        }
    }

    fn act(&mut self, action: Action, now: Instant) {
        match action {
            Action::Say(line) => self.outputs.message(&line),
            Action::Signal(signal) => {
                self.signal_worlds(signal);
                self.send_all(Message::Signal(signal), now);
            }
            Action::Spawn(rank, spawn) => self.spawn(rank, spawn),
            Action::Name(rank, request) => self.ask_first(NameAsker::Rank(rank), request),
            Action::Apart => self.say_to_first(&Word::Apart),
            Action::Pmi(rank, bytes) => {
                if let Some(host) = self.supervisor.host_of(rank) {
                    self.send(host, Message::Pmi(rank, bytes), now);
                }
            }
            Action::Finish(is_early) => {
                self.send_all(Message::Finish(is_early), now);
                self.finish_by = self.spec.cluster.as_ref().map(|_| now + FAREWELL_MAX);
            }
        }
    }

    fn send(&mut self, host: usize, message: Message, now: Instant) {
        match &mut self.way {
            Way::Here(host) => host.handle(message, now),
            Way::Agents(relay) => relay.send(host, message),
        }
    }

    fn send_all(&mut self, message: Message, now: Instant) {
        match &mut self.way {
            Way::Here(host) => host.handle(message, now),
            Way::Agents(relay) => relay.send_all(&message),
        }
    }

    // Hosts.

    fn handle_hosts(&mut self, now: Instant) {
        match &mut self.way {
            Way::Here(host) => host.handle_ready(now),
            Way::Agents(relay) => relay.handle_ready(now),
        }
        while let Some((host, message)) = self.way.poll_message() {
            self.handle_message(host, message, now);
        }
    }

    fn lose(&mut self, host: usize, why: String, now: Instant) {
        let link = &mut self.links[host];
        (link.is_finished, link.is_lost) = (true, true);
        self.supervisor.handle_host_lost(host, why, now);
    }

    fn handle_message(&mut self, host: usize, message: Message, now: Instant) {
        let is_its = |rank: usize| self.supervisor.host_of(rank) == Some(host);
        match message {
            Message::Started(rank, pid, cpus) if is_its(rank) => {
                self.supervisor.handle_started(rank, pid, &cpus);
            }
            Message::Failed(code, why) => self.handle_failed(host, code, why, now),
            Message::Out(rank, bytes) if is_its(rank) => self.print(rank, Which::Out, &bytes, now),
            Message::Err(rank, bytes) if is_its(rank) => self.print(rank, Which::Err, &bytes, now),
            Message::Pmi(rank, bytes) if is_its(rank) => {
                self.supervisor.handle_pmi(rank, &bytes, now);
                while let Some(action) = self.supervisor.poll_action() {
                    self.act(action, now);
                }
            }
            Message::PmiClosed(rank) if is_its(rank) => self.supervisor.handle_pmi_closed(rank, now),
            Message::Ended(rank, status) if is_its(rank) => {
                self.outputs.end(StreamId { rank, which: Which::Out });
                self.outputs.end(StreamId { rank, which: Which::Err });
                if rank == 0 {
                    self.input.close();
                }
                self.supervisor.handle_ended(rank, status, now);
            }
            Message::StdinTaken(count) if is_its(0) => self.input.on_taken(count),
            Message::Report(number, report) => {
                let report = HostReport { host: self.links[host].name.clone(), ..*report };
                self.inquiries.on_report(number, host, report);
            }
            Message::Finished => self.links[host].is_finished = true,
            Message::Lost(why) => self.lose(host, why, now),
            // Alive; and what is not a host's to say.
            _ => {}
        }
    }

    /// A host could not start its ranks, or gives up.
    fn handle_failed(&mut self, host: usize, code: u8, why: String, now: Instant) {
        let prefix = self.spec.cluster.as_ref().map(|_| format!("host {}: ", self.links[host].name));
        let failure = || Error::new(code, format!("{}{why}", prefix.unwrap_or_default()));
        let failure = self.failure.get_or_insert_with(failure);
        if self.first.is_some() && !std::mem::replace(&mut self.is_start_told, true) {
            let word = Word::Failed(failure.to_string());
            self.say_to_first(&word);
        }
        self.supervisor.handle_start_failed(host, why, now);
    }

    fn print(&mut self, rank: usize, which: Which, bytes: &[u8], now: Instant) {
        self.outputs.push(StreamId { rank, which }, bytes, now);
        let is_err = which == Which::Err;
        if self.outputs.is_broken(which) && !std::mem::replace(&mut self.is_unread[usize::from(is_err)], true)
        {
            self.send_all(Message::Unread(is_err), now);
        }
    }

    fn handle_signals(&mut self, now: Instant) {
        for signal in self.signals.take() {
            match signal {
                SIGCHLD => {
                    self.reap();
                    self.reap_worlds(now);
                    continue;
                }
                SIGUSR1 if !self.inquiries.is_printing() => {
                    self.inquire(Asker::Signal(Printing::default()), now);
                }
                SIGCONT => self.input.on_continue(),
                _ => {}
            }
            self.supervisor.handle_signal(signal, is_ending(signal), now);
            self.collect(now);
            if signal == SIGTSTP {
                // Stops this process too, as the user wants; SIGCONT arrives as a signal of its own.
                let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            }
        }
    }

    /// Notices ranks here that have ended; agents are missed by their pipes.
    fn reap(&mut self) {
        if let Way::Here(host) = &mut self.way {
            host.reap();
        }
    }

    // Updates the watched descriptors.

    fn watch_all(&mut self) {
        let now = Instant::now();
        self.watch_output();
        let congested = [Which::Out, Which::Err].map(|which| self.outputs.is_congested(which));
        let was_paused = std::mem::replace(&mut self.is_paused, congested);
        for (which, is_over) in
            [Which::Out, Which::Err].into_iter().zip([0, 1].map(|at| was_paused[at] && !congested[at]))
        {
            if is_over {
                self.outputs.resume(which, now);
            }
        }
        match &mut self.way {
            Way::Here(host) => {
                for (which, is_congested) in congested.into_iter().enumerate() {
                    host.pause(which, is_congested, now);
                }
            }
            Way::Agents(relay) => relay.pause(congested != [false; 2], now),
        }
        self.watch_input();
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
            let token = epoll::EventData::new_u64(OUR_OUTPUT);
            let _ = epoll::add(&self.epoll, fd, token, epoll::EventFlags::OUT);
        }
    }

    fn watch_input(&mut self) {
        let is_congested = self.supervisor.host_of(0).is_some_and(|host| match &mut self.way {
            Way::Here(_) => false,
            Way::Agents(relay) => self.links[host].is_lost || relay.is_congested(host),
        });
        let fd = self.input.fd().filter(|_| !is_congested);
        if fd.is_some() == self.is_input_watched {
            return;
        }
        self.is_input_watched = fd.is_some();
        let _ = match (fd, self.input.any_fd()) {
            (Some(fd), _) => watch(&self.epoll, fd, INPUT),
            (None, Some(fd)) => epoll::delete(&self.epoll, fd),
            // Closing has taken it out; a terminal is taken out here.
            (None, None) => epoll::delete(&self.epoll, rustix::stdio::stdin()),
        };
    }

    fn read_input(&mut self, now: Instant) {
        let bytes = match self.input.read(&mut self.scratch) {
            Taken::Nothing => return,
            Taken::Bytes(count) => self.scratch[..count].to_vec(),
            Taken::End => Vec::new(),
        };
        if let Some(host) = self.supervisor.host_of(0) {
            self.send(host, Message::Stdin(bytes), now);
        }
    }

    // `ayatori why`.

    fn accept_inquiry(&mut self, now: Instant) {
        let Some((socket, question)) = self.inquiries.listener().and_then(Listener::accept) else { return };
        match question {
            Question::Who => reply(socket, self.answer(Vec::new())),
            Question::Why => self.inquire(Asker::Command(socket), now),
        }
    }

    fn inquire(&mut self, asker: Asker, now: Instant) {
        let lost = |link: &Link| link.is_lost.then(|| without_ranks(&link.name, "is lost"));
        let reports = self.links.iter().map(lost).collect();
        let number = self.inquiries.begin(asker, reports, now);
        self.send_all(Message::Ask(number), now);
    }

    fn answer_inquiries(&mut self, now: Instant) {
        while let Some((asker, reports)) = self.inquiries.poll_over(now) {
            let reports = self.completed(reports);
            match asker {
                Asker::Command(socket) => reply(socket, self.answer(reports)),
                Asker::Signal(mut printing) => {
                    let heading = Heading {
                        job: self.job.clone(),
                        program: self.spec.command_line(),
                        age_ms: Some(self.age_ms()),
                        ranks_count: u32::try_from(self.spec.ranks_count()).ok(),
                        limits: Vec::new(),
                    };
                    match printing.on_reports(reports, &heading) {
                        Some(text) => self.outputs.message(text.trim_end()),
                        None => self.inquire(Asker::Signal(printing), now),
                    }
                }
            }
        }
    }

    /// Hosts that have not answered say so; ended ranks are added if no host has reported them.
    fn completed(&self, reports: Vec<Option<HostReport>>) -> Vec<HostReport> {
        let complete = |(host, report): (usize, Option<HostReport>)| {
            let late = || without_ranks(&self.links[host].name, "its agent has not answered in time");
            let mut report = report.unwrap_or_else(late);
            add_ended(&mut report, self.supervisor.ended_on(host));
            report
        };
        reports.into_iter().enumerate().map(complete).collect()
    }

    fn answer(&self, hosts: Vec<HostReport>) -> Vec<u8> {
        let answer = Answer {
            program: self.spec.command_line(),
            age_ms: self.age_ms(),
            ranks_count: u32::try_from(self.spec.ranks_count()).unwrap_or(u32::MAX),
            launcher: rustix::process::getpid().as_raw_nonzero().get(),
            hosts,
        };
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    // The end.

    /// Lets the agents go, and gives the exit code.
    fn finish(mut self) -> anyhow::Result<u8> {
        if let Way::Agents(relay) = &mut self.way {
            relay.dismiss();
            relay.wait(Instant::now() + FAREWELL_MAX);
        }
        self.failure.map_or(Ok(self.supervisor.exit_code()), Err)
    }
}

impl Way {
    fn open(is_cluster: bool, epoll: &OwnedFd, now: Instant) -> anyhow::Result<Self> {
        if is_cluster {
            let relay = Relay::new(now)?;
            watch(epoll, relay.fd(), HOSTS).context("watching the agents")?;
            return Ok(Self::Agents(relay));
        }
        let host = Host::new()?;
        watch(epoll, host.fd(), HOSTS).context("watching the ranks")?;
        Ok(Self::Here(Box::new(host)))
    }

    fn poll_message(&mut self) -> Option<(usize, Message)> {
        match self {
            Self::Here(host) => host.poll_message().map(|message| (0, message)),
            Self::Agents(relay) => relay.poll_message(),
        }
    }
}

/// Which hosts the launcher starts agents on, what each of them starts, and the ranks of each.
pub(super) fn branches(
    spec: &JobSpec,
    names: impl Iterator<Item = String>,
    host_of_rank: &[usize],
) -> Vec<Branch> {
    let mut hosts: Vec<Branch> =
        names.enumerate().map(|(host, name)| Branch::leaf(host, name, Vec::new())).collect();
    for (rank, (&host, program)) in host_of_rank.iter().zip(spec.program_numbers()).enumerate() {
        hosts[host].ranks.push((rank, program));
    }
    Branch::divide(hosts, spec.cluster.as_ref().map_or(0, Cluster::branch_count))
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, token: u64) -> rustix::io::Result<()> {
    epoll::add(epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::HostSpec;
    use crate::pmi::wire::Reply;
    use crate::spec::{App, Cluster, Program};

    fn spec(hosts: &str, ranks_count: usize) -> JobSpec {
        let program = Program { name: "p".into(), args: vec![], env: vec![], wdir: None };
        let hosts = HostSpec::list(hosts).expect("hosts");
        let cluster =
            Cluster { hosts, agent: vec!["x".into()], branch_count: None, rails: None, no_rails: None };
        let apps = vec![App { ranks_count, program }];
        JobSpec { apps, cluster: Some(cluster), ..JobSpec::default() }
    }

    /// The answer to rank 0's question where ranks are.
    fn mapping_reply(hosts: &str, ranks_count: usize) -> Vec<u8> {
        let spec = spec(hosts, ranks_count);
        let (names, host_of_rank) = place(&spec).expect("places");
        let members: Vec<Member> = host_of_rank.iter().map(|&host| Member { host, program: 0 }).collect();
        let values = provided(&spec, &host_of_rank).expect("values");
        let now = Instant::now();
        let names = (names, vec!["p".to_owned()]);
        let mut supervisor = Supervisor::new("j", Limits::default(), names, &members, &values, false, now);
        let request = b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get key=PMI_process_mapping\n";
        supervisor.handle_pmi(0, request, now);
        let Some(Action::Pmi(0, reply)) = supervisor.poll_action() else { panic!("no reply") };
        let first = reply.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
        reply[first..].to_vec()
    }

    #[test]
    fn uneven_slots_of_many_hosts_leave_the_mapping_empty() {
        assert_eq!(
            Reply::parse(&mapping_reply("a:2,b:2,c:1", 5)),
            Ok(Reply::Value("(vector,(0,2,2),(2,1,1))"))
        );
        let hosts: Vec<String> = (0..140).map(|host| format!("node{host}:{}", 1 + host % 2)).collect();
        assert_eq!(Reply::parse(&mapping_reply(&hosts.join(","), 210)), Ok(Reply::Value("")));
    }

    #[test]
    fn hosts_without_ranks_are_left_out() {
        let (names, host_of_rank) = place(&spec("a:2,b:2", 2)).expect("places");
        assert_eq!((names, host_of_rank), (vec!["a".to_owned()], vec![0, 0]));
        assert!(place(&spec("a", RANKS_MAX + 1)).is_err());
    }
}
