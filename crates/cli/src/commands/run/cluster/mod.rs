//! A job on several hosts: an agent on each, started by a command of the user's choice, and one event loop here.
//!
//! ```text
//!   ayatori run ──(ssh host, ip netns exec host …)──► ayatori agent ──► ranks of that host
//!       │  ◄── frames over the agent's stdin and stdout ──►  │   PMI socket, stdout, stderr, stdin of rank 0
//!   pmi::Server, output::Outputs, causes and exit codes as on one host
//! ```
//!
//! Everything between the hosts that is not a message of the program goes over that one way: PMI, output, signals, ends. So
//! there is no port of the launcher to find, to guard or to let through a firewall, and the job's key, which ranks fetch by
//! PMI, travels where ssh protects it. An agent that dies, closes, or is silent for [`SILENCE_MAX`] ends the job.

mod agent;
mod channel;
mod deaths;
mod hosts;
mod inquiry;
mod wire;

pub(crate) use agent::{AgentArgs, run as run_agent};
pub(crate) use hosts::HostSpec;
use inquiry::Inquiries;

use super::args::{Binding, JobSpec};
use super::ending::{Cause, Status, describe_status};
use super::output::{Outputs, StreamId, Which, is_stdin_terminal};
use super::pmi::{Event, Phase, Server};
use super::signals::{Signals, is_ending};
use crate::exit::{Coded, Exit};
use crate::why::report::HostReport;
use anyhow::Context;
use ayatori_devices::tcp::{ENV_NO_RAILS, ENV_RAILS, Key};
use ayatori_launch::environment::KEY_OF_JOB;
use channel::{Channel, Inflow};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGKILL, SIGTERM, SIGTSTP, SIGUSR1};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::{AppOrder, CHUNK_BYTES, Message, NOISE_BYTES_MAX, Order, PREAMBLE, STDIN_BYTES_MAX};

/// How to run something on a host, if the user does not say. Nobody can answer questions: it fails where it would ask.
pub(crate) const DEFAULT_AGENT: &str = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host}";
/// How often each side says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A side that has not been heard for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long an agent may take to answer at first: a login, a slow file system.
const GREETING_MAX: Duration = Duration::from_secs(60);
/// From SIGTERM to SIGKILL, as on one host.
const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL: how long agents may take to end.
const FAREWELL_MAX: Duration = Duration::from_secs(3);
const HANG_UP_PATIENCE: Duration = Duration::from_millis(200);
/// What hosts tell comes in any order: for so long a cause is not said, for another may lie behind it. Less than [`GRACE`]: who
/// is killed then dies of us.
const HEARSAY_PATIENCE: Duration = Duration::from_millis(200);

/// Hosts and how to reach them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) hosts: Vec<HostSpec>,
    /// The words of the agent's command; `{host}` stands for the host.
    pub(crate) agent: Vec<String>,
    pub(crate) rails: Option<String>,
    pub(crate) no_rails: Option<String>,
}

struct Host {
    name: String,
    child: Child,
    channel: Option<Channel>,
    is_greeted: bool,
    is_watched: bool,
    started: Instant,
    heard: Instant,
}

struct Rank {
    host: usize,
    appnum: usize,
    pid: Option<i32>,
    status: Option<Status>,
}

const SIGNALS: u64 = 0;
const OUR_OUTPUT: u64 = 1;
const STDIN: u64 = 2;
const WHY: u64 = 3;
const FIRST_HOST: u64 = 4;

struct Run<'s> {
    spec: &'s JobSpec,
    epoll: OwnedFd,
    signals: Signals,
    server: Server,
    outputs: Outputs,
    hosts: Vec<Host>,
    ranks: Vec<Rank>,
    running_count: usize,
    stdin: Option<OwnedFd>,
    is_stdin_watched: bool,
    /// Bytes of standard input that rank 0 has not taken yet.
    stdin_under_way: usize,
    is_output_watched: bool,
    is_parked: bool,
    started: Instant,
    spoken: Instant,
    cause: Option<Cause>,
    /// What is still to be said of the cause, and when.
    untold: Option<(String, Instant)>,
    failure: Option<anyhow::Error>,
    passed_on: Option<i32>,
    kill_at: Option<Instant>,
    give_up_at: Option<Instant>,
    hung_up: Vec<(usize, Instant)>,
    inquiries: Inquiries,
    scratch: Vec<u8>,
}

/// Runs the job.
pub(super) fn run(spec: &JobSpec, cluster: &Cluster, job: &str) -> anyhow::Result<Exit> {
    let mut shares = hosts::shares(&cluster.hosts, spec.ranks_count());
    let mut cluster = cluster.clone();
    // Hosts that get no rank get no agent.
    let mut each = shares.iter();
    cluster.hosts.retain(|_| each.next().is_some_and(|&share| share > 0));
    shares.retain(|&share| share > 0);
    let cluster = &cluster;
    let place: Vec<usize> =
        shares.iter().enumerate().flat_map(|(host, &count)| std::iter::repeat_n(host, count)).collect();
    let appnums: Vec<usize> =
        spec.apps.iter().enumerate().flat_map(|(n, app)| std::iter::repeat_n(n, app.ranks_count)).collect();
    let nodes: Vec<u32> = place.iter().map(|&host| host as u32).collect();
    let key = Key::random().context("drawing the job's key")?;
    let mut server = Server::new(job, appnums.iter().copied());
    server.provide("PMI_process_mapping", &ayatori_launch::pmi::mapping::text(&nodes));
    server.provide(KEY_OF_JOB, &key.to_hex());
    let signals = Signals::new().context("catching signals")?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
    epoll::add(&epoll, signals.fd(), epoll::EventData::new_u64(SIGNALS), epoll::EventFlags::IN)
        .context("watching signals")?;
    let now = Instant::now();
    let mut run = Run {
        spec,
        epoll,
        signals,
        server,
        outputs: Outputs::new(spec.ranks_count(), spec.is_tagged),
        hosts: Vec::new(),
        ranks: place
            .iter()
            .zip(&appnums)
            .map(|(&host, &appnum)| Rank { host, appnum, pid: None, status: None })
            .collect(),
        running_count: spec.ranks_count(),
        stdin: None,
        is_stdin_watched: false,
        stdin_under_way: 0,
        is_output_watched: false,
        is_parked: false,
        started: now,
        spoken: now,
        cause: None,
        untold: None,
        failure: None,
        passed_on: None,
        kill_at: None,
        give_up_at: None,
        hung_up: Vec::new(),
        inquiries: Inquiries::new(job),
        scratch: vec![0; CHUNK_BYTES],
    };
    if let Some(door) = run.inquiries.fd() {
        epoll::add(&run.epoll, door, epoll::EventData::new_u64(WHY), epoll::EventFlags::IN)
            .context("listening for `ayatori why`")?;
    }
    let started = run.start(cluster, &shares, job);
    if started.is_ok() {
        run.serve();
    }
    run.finish(started)
}

impl Run<'_> {
    fn start(&mut self, cluster: &Cluster, shares: &[usize], job: &str) -> anyhow::Result<()> {
        let environment = environment(cluster);
        let directory = std::env::current_dir().context("finding the current directory")?;
        let apps: Vec<AppOrder> = self
            .spec
            .apps
            .iter()
            .map(|app| AppOrder {
                name: app.name.clone(),
                args: app.args.clone(),
                env: app.env.clone(),
                wdir: app.wdir.clone().map(Into::into),
            })
            .collect();
        let mut first = 0;
        for (spec, &share) in cluster.hosts.iter().zip(shares) {
            let numbers = first..first + share;
            first += share;
            let order = Order {
                job: job.to_owned(),
                world_count: self.ranks.len(),
                ranks: numbers.map(|number| (number, self.ranks[number].appnum)).collect(),
                apps: apps.clone(),
                environment: environment.clone(),
                directory: directory.clone().into(),
                binding: self.spec.binding.map(|binding| binding == Binding::Core),
            };
            self.start_agent(cluster, &spec.name, order)?;
        }
        self.forward_stdin();
        Ok(())
    }

    fn start_agent(&mut self, cluster: &Cluster, name: &str, order: Order) -> anyhow::Result<()> {
        let mut command = agent_command(&cluster.agent, name)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // What is typed at the terminal is for us; we tell the agents.
        command.process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| {
            Coded::error(
                crate::exit::FAILURE,
                format!("host {name}: cannot start its agent with '{program}': {error}; --agent says how"),
            )
        })?;
        let (Some(input), Some(output)) = (child.stdout.take(), child.stdin.take()) else {
            anyhow::bail!("host {name}: its agent has no pipes");
        };
        let mut channel = Channel::new(input.into(), output.into()).context("setting up an agent's pipes")?;
        channel.send(&Message::Start(Box::new(order)));
        let token = FIRST_HOST + 2 * self.hosts.len() as u64;
        epoll::add(&self.epoll, &channel.input, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
            .context("watching an agent")?;
        let now = Instant::now();
        self.hosts.push(Host {
            name: name.to_owned(),
            child,
            channel: Some(channel),
            is_greeted: false,
            is_watched: false,
            started: now,
            heard: now,
        });
        Ok(())
    }

    /// Copies standard input to a pipe that can be waited for (a file cannot), by a thread that may wait for ever.
    fn forward_stdin(&mut self) {
        if is_stdin_terminal() {
            self.send_to_rank_0(&Message::Stdin(Vec::new()));
            return;
        }
        let Ok((read, write)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { return };
        std::thread::spawn(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            while let Ok(count @ 1..) = std::io::stdin().lock().read(&mut chunk) {
                let mut left = &chunk[..count];
                while let Ok(written @ 1..) = rustix::io::write(&write, left) {
                    left = &left[written..];
                }
                if !left.is_empty() {
                    break;
                }
            }
        });
        self.stdin = Some(read);
    }

    fn send_to_rank_0(&mut self, message: &Message) {
        let host = self.ranks[0].host;
        self.send(host, message);
    }

    fn send(&mut self, host: usize, message: &Message) {
        if let Some(channel) = &mut self.hosts[host].channel {
            channel.send(message);
        }
    }

    fn is_over(&self) -> bool {
        self.running_count == 0 && self.outputs.is_empty()
    }

    fn serve(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        while !self.is_over() {
            self.watch();
            let left = self.next_timeout().saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            events.clear();
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout));
            for event in &events {
                match event.data.u64() {
                    SIGNALS => self.handle_signals(),
                    OUR_OUTPUT => self.outputs.flush(),
                    STDIN => self.read_stdin(),
                    WHY => self.hear_askers(),
                    other => {
                        let host = ((other - FIRST_HOST) / 2) as usize;
                        if (other - FIRST_HOST).is_multiple_of(2) {
                            self.read_host(host);
                        } else if let Some(channel) = &mut self.hosts[host].channel {
                            channel.flush();
                        }
                    }
                }
            }
            self.handle_time(Instant::now());
        }
    }

    fn next_timeout(&self) -> Instant {
        let limit = self.spec.timeout.filter(|_| self.cause.is_none());
        let all = [
            limit.map(|limit| self.started + limit),
            self.kill_at,
            self.give_up_at,
            self.untold.as_ref().map(|(_, at)| *at),
            self.hung_up.first().map(|(_, at)| *at),
            self.inquiries.poll_timeout(),
            self.outputs.poll_timeout(),
        ];
        all.into_iter().flatten().fold(self.spoken + HEARTBEAT, Instant::min)
    }

    fn handle_time(&mut self, now: Instant) {
        self.outputs.handle_timeout(now);
        self.answer_askers(now);
        if let Some(limit) = self.spec.timeout
            && self.cause.is_none()
            && now >= self.started + limit
        {
            self.end(Cause::Timeout(limit));
        }
        if now >= self.spoken + HEARTBEAT {
            let turn = std::mem::replace(&mut self.spoken, now);
            for host in 0..self.hosts.len() {
                self.hosts[host].heard = agent::heard_while_running(self.hosts[host].heard, turn, now);
                self.send(host, &Message::Alive);
                self.check_silence(host, now);
            }
        }
        while let Some(&(rank, _)) = self.hung_up.first().filter(|(_, at)| *at <= now) {
            self.hung_up.remove(0);
            if self.ranks[rank].status.is_none() {
                self.end(Cause::HungUp { rank });
            }
        }
        let is_killing = self.kill_at.is_some_and(|at| at <= now);
        if is_killing || self.untold.as_ref().is_some_and(|(_, at)| *at <= now) {
            self.tell_cause();
        }
        if is_killing {
            self.kill_at = None;
            self.give_up_at = Some(now + FAREWELL_MAX);
            self.signal_all(SIGKILL);
        }
        if self.give_up_at.is_some_and(|at| at <= now) {
            self.give_up_at = None;
            self.running_count = 0;
        }
    }

    fn check_silence(&mut self, host: usize, now: Instant) {
        let Host { name, is_greeted, started, heard, channel, child, .. } = &self.hosts[host];
        if channel.is_none() || self.is_parked {
            return;
        }
        let why = if !is_greeted && is_stopped(child) {
            "the command that was to start its agent was stopped: it wants to read from the terminal (a password?); log in \
             without one, with ssh-agent or ssh-copy-id"
                .to_owned()
        } else if !is_greeted && now.duration_since(*started) > GREETING_MAX {
            format!(
                "no agent has answered within {} s (does the command of --agent work by itself, without a password?)",
                GREETING_MAX.as_secs()
            )
        } else if *is_greeted && now.duration_since(*heard) > SILENCE_MAX {
            format!("its agent has been silent for {} s", SILENCE_MAX.as_secs())
        } else {
            return;
        };
        let cause = Cause::Host { name: name.clone(), why };
        self.lose(host, cause);
    }

    // Agents.

    fn read_host(&mut self, host: usize) {
        let this = &mut self.hosts[host];
        let Some(channel) = &mut this.channel else { return };
        let inflow = channel.read(&mut self.scratch);
        this.heard = Instant::now();
        if !this.is_greeted {
            let greeted = channel.received.windows(PREAMBLE.len()).position(|window| window == PREAMBLE);
            match greeted {
                Some(at) => {
                    channel.received.drain(..at + PREAMBLE.len());
                    this.is_greeted = true;
                }
                None if channel.received.len() > NOISE_BYTES_MAX => {
                    let why = "what answers is no agent of this version".to_owned();
                    let cause = Cause::Host { name: this.name.clone(), why };
                    return self.lose(host, cause);
                }
                None => {}
            }
        }
        while self.hosts[host].is_greeted
            && let Some(channel) = &mut self.hosts[host].channel
        {
            match channel.next() {
                Ok(Some(message)) => self.handle(host, message),
                Ok(None) => break,
                Err(wire::Nonsense(what)) => {
                    let why = format!("its agent talks nonsense: {what}");
                    let cause = Cause::Host { name: self.hosts[host].name.clone(), why };
                    return self.lose(host, cause);
                }
            }
        }
        if inflow == Inflow::Closed && self.hosts[host].channel.is_some() {
            let cause = self.explain_loss(host);
            self.lose(host, cause);
        }
    }

    fn handle(&mut self, host: usize, message: Message) {
        let is_its = |rank: usize| self.ranks.get(rank).is_some_and(|known| known.host == host);
        let now = Instant::now();
        match message {
            Message::Started(rank, pid) if is_its(rank) => {
                self.ranks[rank].pid = Some(pid);
                if self.spec.is_verbose {
                    let program = self.spec.apps[self.ranks[rank].appnum].name.display().to_string();
                    self.outputs.message(&format!("{}: {program}", self.who(rank)));
                }
            }
            Message::Failed(code, text) => {
                let name = &self.hosts[host].name;
                let failure = || Coded::error(code, format!("host {name}: {text}"));
                self.failure.get_or_insert_with(failure);
                self.kill_at = Some(now);
                self.cause.get_or_insert(Cause::Host { name: name.clone(), why: text });
                for rank in self.ranks.iter_mut().filter(|rank| rank.host == host && rank.status.is_none()) {
                    rank.status = Some(Status::Exited(1));
                    self.running_count = self.running_count.saturating_sub(1);
                }
            }
            Message::Out(rank, bytes) if is_its(rank) => {
                self.outputs.push(StreamId { rank, which: Which::Out }, &bytes, now);
            }
            Message::Err(rank, bytes) if is_its(rank) => {
                self.outputs.push(StreamId { rank, which: Which::Err }, &bytes, now);
            }
            Message::Pmi(rank, bytes) if is_its(rank) => self.handle_pmi(rank, &bytes),
            Message::StdinTaken(count) if is_its(0) => {
                self.stdin_under_way = self.stdin_under_way.saturating_sub(count);
            }
            Message::PmiClosed(rank)
                if is_its(rank)
                    && self.server.phase(rank) == Phase::Initialised
                    && self.ranks[rank].status.is_none() =>
            {
                self.hung_up.push((rank, now + HANG_UP_PATIENCE));
            }
            Message::Report(number, report) => {
                let name = self.hosts[host].name.clone();
                self.inquiries.on_report(number, host, HostReport { host: name, ..*report });
                self.answer_askers(now);
            }
            Message::Ended(rank, status) if is_its(rank) && self.ranks[rank].status.is_none() => {
                self.handle_end(rank, status);
            }
            // Alive; and what is not an agent's to say.
            _ => {}
        }
    }

    fn handle_pmi(&mut self, rank: usize, bytes: &[u8]) {
        let event = self.server.handle_bytes(rank, bytes);
        while let Some((to, bytes)) = self.server.poll_output() {
            let host = self.ranks[to].host;
            self.send(host, &Message::Pmi(to, bytes));
        }
        match event {
            Some(Event::Abort { exitcode, message }) => self.end(Cause::Aborted { rank, exitcode, message }),
            Some(Event::Violation(why)) => self.end(Cause::Violation { rank, why }),
            None => self.check_absent(),
        }
    }

    fn signal_all(&mut self, signal: i32) {
        for host in 0..self.hosts.len() {
            self.send(host, &Message::Signal(signal));
        }
    }

    fn who(&self, rank: usize) -> String {
        let Rank { host, appnum, pid, .. } = &self.ranks[rank];
        let program = match &self.spec.apps[..] {
            [_] => String::new(),
            apps => format!(", {}", apps[*appnum].name.display()),
        };
        let pid = pid.map_or("not started".to_owned(), |pid| format!("pid {pid}"));
        format!("rank {rank} on {} ({pid}{program})", self.hosts[*host].name)
    }

    fn handle_signals(&mut self) {
        for signal in self.signals.take() {
            if signal == SIGCHLD {
                // Agents are missed by their pipes.
                continue;
            }
            if is_ending(signal) && (self.passed_on.is_some() || self.cause.is_some()) {
                if self.cause.is_none() {
                    self.end(Cause::Interrupted { signal });
                }
                self.kill_at = Some(Instant::now());
                continue;
            }
            if signal == SIGUSR1 {
                self.print_why();
            }
            self.signal_all(signal);
            if is_ending(signal) {
                self.passed_on = Some(signal);
            }
            if signal == SIGTSTP {
                let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            }
        }
    }

    // What is watched.

    fn watch(&mut self) {
        let token = epoll::EventData::new_u64;
        let is_behind = !self.outputs.is_empty();
        if is_behind != self.is_output_watched {
            self.is_output_watched = is_behind;
            for fd in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
                let _ = epoll::delete(&self.epoll, fd);
            }
            for fd in self.outputs.blocked() {
                let _ = epoll::add(&self.epoll, fd, token(OUR_OUTPUT), epoll::EventFlags::OUT);
            }
        }
        let is_congested = [Which::Out, Which::Err].into_iter().any(|which| self.outputs.is_congested(which));
        let was_parked = std::mem::replace(&mut self.is_parked, is_congested);
        for (place, host) in self.hosts.iter_mut().enumerate() {
            let Some(channel) = &host.channel else { continue };
            let base = FIRST_HOST + 2 * place as u64;
            if was_parked != is_congested {
                let flags = if is_congested { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
                let _ = epoll::modify(&self.epoll, &channel.input, token(base), flags);
                host.heard = Instant::now();
            }
            let is_behind = channel.has_unsent();
            if is_behind != host.is_watched {
                host.is_watched = is_behind;
                let _ = if is_behind {
                    epoll::add(&self.epoll, &channel.output, token(base + 1), epoll::EventFlags::OUT)
                } else {
                    epoll::delete(&self.epoll, &channel.output)
                };
            }
        }
        let is_taken = self.hosts[self.ranks[0].host].channel.as_ref().is_some_and(|c| !c.is_congested())
            && self.stdin_under_way < STDIN_BYTES_MAX;
        if let Some(stdin) = &self.stdin
            && is_taken != self.is_stdin_watched
        {
            self.is_stdin_watched = is_taken;
            let _ = if is_taken {
                epoll::add(&self.epoll, stdin, token(STDIN), epoll::EventFlags::IN)
            } else {
                epoll::delete(&self.epoll, stdin)
            };
        }
    }

    fn read_stdin(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        match rustix::io::read(stdin.as_fd(), &mut self.scratch[..]) {
            Ok(count) if count > 0 => {
                let bytes = self.scratch[..count].to_vec();
                self.stdin_under_way += count;
                self.send_to_rank_0(&Message::Stdin(bytes));
            }
            _ => {
                self.stdin = None;
                self.send_to_rank_0(&Message::Stdin(Vec::new()));
            }
        }
    }

    // The end.

    /// Lets the agents go, says what is left to say, and gives the exit code.
    fn finish(mut self, started: anyhow::Result<()>) -> anyhow::Result<Exit> {
        for host in &mut self.hosts {
            // Its input closes: an agent ends what is left on its host, then itself.
            host.channel = None;
        }
        let deadline = Instant::now() + FAREWELL_MAX;
        for host in &mut self.hosts {
            while matches!(host.child.try_wait(), Ok(None)) {
                if Instant::now() > deadline {
                    let _ = host.child.kill();
                    let _ = host.child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        started?;
        self.tell_cause();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.spec.is_verbose {
            let seconds = self.started.elapsed().as_secs_f64();
            let line = format!("{} ranks on {} hosts, {seconds:.3} s", self.ranks.len(), self.hosts.len());
            self.outputs.message(&line);
        }
        self.outputs.flush();
        Ok(self.cause.as_ref().map_or(Exit::Success, Cause::exit))
    }
}

/// The command that starts an agent on a host.
fn agent_command(template: &[String], host: &str) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("finding this program")?;
    let mut words = template.iter().map(|word| OsString::from(word.replace("{host}", host)));
    let program = words.next().ok_or_else(|| Coded::usage("--agent: the command is empty"))?;
    // The shell behind ssh splits what it gets into words once more.
    let is_ssh = std::path::Path::new(&program).file_name().is_some_and(|name| name == "ssh");
    let own = if is_ssh { quoted(own.as_os_str()) } else { own.into() };
    let mut command = Command::new(program);
    command.args(words).arg(own).arg("agent");
    Ok(command)
}

/// One word for a shell.
fn quoted(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    if word.as_bytes().iter().all(plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        text.extend_from_slice(if byte == b'\'' { b"'\\''" } else { std::slice::from_ref(&byte) });
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

/// Whether a command was stopped by a signal, as one in the background is that reads from the terminal.
fn is_stopped(child: &Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions as Options, waitid};
    let options = Options::STOPPED | Options::NOHANG | Options::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)))
}

/// Our environment as the ranks get it.
fn environment(cluster: &Cluster) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in [(ENV_RAILS, &cluster.rails), (ENV_NO_RAILS, &cluster.no_rails)] {
        if let Some(value) = value {
            environment.retain(|(known, _)| known != name);
            environment.push((name.into(), value.into()));
        }
    }
    environment
}

/// The words of a command line, with quotes as a shell has them.
pub(crate) fn split_words(text: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Coded::usage(format!("--agent '{text}': a quote is not closed")));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(Coded::usage("--agent: the command is empty"));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_command_is_split_as_a_shell_would() {
        let words = |text| split_words(text).expect("words");
        assert_eq!(words("ssh -o 'Log Level=x' {host}"), ["ssh", "-o", "Log Level=x", "{host}"]);
        assert_eq!(words("ip  netns\texec \"\" a'b'c"), ["ip", "netns", "exec", "", "abc"]);
        assert!(split_words("ssh 'x").is_err());
        assert!(split_words("  ").is_err());
    }
}
