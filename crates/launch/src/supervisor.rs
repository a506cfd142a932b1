//! The course of a job: the cause of its end, the messages about it, grace periods. A state machine without
//! I/O: it takes events and the time, and gives [`Action`]s.
//!
//! ```text
//!   running ──cause──► ending: SIGTERM, 0.5 s later SIGKILL ──► all ranks have ended ──► finishing
//!      └────────────────── all ranks have exited ─────────────────────┘   hosts read the last output,
//!                                                                         kill what is left
//! ```
//!
//! Inputs: `handle_*`. Outputs: [`poll_action`](Supervisor::poll_action),
//! [`poll_timeout`](Supervisor::poll_timeout). The first failure ends the job and gives the exit code. Hosts
//! report in any order, so a failure is announced only after [`Limits::hearsay`]: if its cause (a killed rank
//! behind one that gave up) is reported meanwhile, that takes its place. A rank that fails *after*
//! `MPI_Finalize` ends no other rank: ranks that have also finalized take the time they need, ranks about to
//! finalize get [`Limits::finalize`]. If the job survives failures, a rank that fails between `MPI_Init` and
//! `MPI_Finalize` ends no other rank as long as others run; the exit code is that of the others. The same
//! holds in every job for a rank that has said that no other needs it.

use crate::cause::Cause;
use crate::pmi::names::NameRequest;
use crate::pmi::server::{Event, Phase, Server};
use crate::pmi::spawn::Spawn;
use crate::status::{Status, signal_name};
use signal_hook::consts::{SIGCONT, SIGKILL, SIGTERM};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long what may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The job; `None`: for ever.
    pub job: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// From SIGKILL to leaving ranks behind that hang in the kernel.
    pub unkillable: Duration,
    /// From a rank's closed connection to the end of the job, if its exit, which says more, is not reported.
    pub hang_up: Duration,
    /// From a failure to its announcement, where another that lies behind it may be reported later. Less than
    /// `grace`: a rank killed after that was killed by us.
    pub hearsay: Duration,
    /// From a failure after `MPI_Finalize` to the end of the job, where other ranks have not finalized.
    pub finalize: Duration,
    /// Whether the job goes on without ranks that fail.
    pub survives: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            job: None,
            grace: Duration::from_millis(500),
            unkillable: Duration::from_secs(5),
            hang_up: Duration::from_millis(200),
            hearsay: Duration::from_millis(200),
            finalize: Duration::from_secs(3),
            survives: false,
        }
    }
}

/// A request to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Print a line of the launcher's own.
    Say(String),
    /// Send a signal to the process groups of all ranks.
    Signal(i32),
    /// Send PMI replies to a rank.
    Pmi(usize, Vec<u8>),
    /// A rank wants processes started.
    Spawn(usize, Spawn),
    /// A rank asks for names that another launcher keeps.
    Name(usize, NameRequest),
    /// No rank is connected to another world any more.
    Apart,
    /// All ranks have ended, `true`: before their time. Take their last output and end what they have left
    /// behind.
    Finish(bool),
}

/// A rank of the job before it has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The number of its host.
    pub host: usize,
    /// The number of its program.
    pub program: usize,
}

#[derive(Debug)]
struct Rank {
    host: usize,
    program: usize,
    pid: Option<i32>,
    status: Option<Status>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Supervisor {
    limits: Limits,
    started: Instant,
    is_verbose: bool,
    hosts: Vec<String>,
    programs: Vec<String>,
    ranks: Vec<Rank>,
    running_count: usize,
    /// Ranks with a status.
    ended_count: usize,
    server: Server,
    actions: VecDeque<Action>,
    cause: Option<Cause>,
    /// The pending message about the cause, and its time.
    unsaid: Option<(String, Instant)>,
    /// A rank's failure after `MPI_Finalize`: it gives the exit code and ends no other rank.
    late: Option<Cause>,
    /// When ranks that have not finalized after that are ended.
    finalize_by: Option<Instant>,
    /// The last ending signal that was passed on.
    passed_on: Option<i32>,
    kill_at: Option<Instant>,
    give_up_at: Option<Instant>,
    /// Ranks whose connection closed too early, and when that counts.
    hung_up: VecDeque<(usize, Instant)>,
}

impl Supervisor {
    /// Begins with all ranks running. `hosts` and `programs` are names for messages; a program that is the
    /// only one is not named. `values` are in the key-value store from the beginning.
    pub fn new(
        job: &str,
        limits: Limits,
        (hosts, programs): (Vec<String>, Vec<String>),
        members: &[Member],
        values: &[(&str, String)],
        is_verbose: bool,
        now: Instant,
    ) -> Self {
        let mut server = Server::new(job, members.iter().map(|member| member.program));
        for (key, value) in values {
            server.provide(key, value);
        }
        let rank =
            |member: &Member| Rank { host: member.host, program: member.program, pid: None, status: None };
        Supervisor {
            limits,
            started: now,
            is_verbose,
            hosts,
            programs,
            ranks: members.iter().map(rank).collect(),
            running_count: members.len(),
            ended_count: 0,
            server,
            actions: VecDeque::new(),
            cause: None,
            unsaid: None,
            late: None,
            finalize_by: None,
            passed_on: None,
            kill_at: None,
            give_up_at: None,
            hung_up: VecDeque::new(),
        }
    }

    /// The host of a rank; `None`: there is no such rank.
    pub fn host_of(&self, rank: usize) -> Option<usize> {
        self.ranks.get(rank).map(|rank| rank.host)
    }

    /// The ranks of a host that have ended, each with its process.
    pub fn ended_on(&self, host: usize) -> impl Iterator<Item = (usize, Option<i32>)> {
        let its = self.ranks.iter().enumerate().filter(move |(_, rank)| rank.host == host);
        its.filter(|(_, rank)| rank.status.is_some()).map(|(number, rank)| (number, rank.pid))
    }

    /// Whether a rank has ended.
    pub fn has_ended(&self, rank: usize) -> bool {
        self.ranks[rank].status.is_some()
    }

    /// Whether a failure is known and not announced: what else has happened should be reported now.
    pub fn is_undecided(&self) -> bool {
        self.unsaid.is_some()
    }

    /// What the launcher answers to the shell. A job that ended early never answers 0.
    pub fn exit_code(&self) -> u8 {
        self.late.as_ref().or(self.cause.as_ref()).map_or(0, Cause::exit_code)
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        if let Some((rank, bytes)) = self.server.poll_output() {
            return Some(Action::Pmi(rank, bytes));
        }
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let all = [
            self.job_deadline(),
            self.unsaid.as_ref().map(|(_, at)| *at),
            self.kill_at,
            self.give_up_at,
            self.finalize_by,
            self.hung_up.front().map(|(_, at)| *at),
        ];
        all.into_iter().flatten().min()
    }

    fn job_deadline(&self) -> Option<Instant> {
        let limit = self.limits.job.filter(|_| self.cause.is_none() && self.running_count > 0);
        limit.map(|limit| self.started + limit)
    }

    /// A rank runs as process `pid`, on these CPUs.
    pub fn handle_started(&mut self, rank: usize, pid: i32, cpus: &str) {
        self.ranks[rank].pid = Some(pid);
        if self.is_verbose {
            let program = &self.programs[self.ranks[rank].program];
            self.say(format!("{}: {program} on CPUs {cpus}", self.who(rank)));
        }
    }

    /// A rank has sent this to its PMI server.
    pub fn handle_pmi(&mut self, rank: usize, bytes: &[u8], now: Instant) {
        match self.server.handle_bytes(rank, bytes) {
            Some(Event::Abort { exitcode, message }) => {
                self.end(Cause::Aborted { rank, exitcode, message }, now);
            }
            Some(Event::Violation(why)) => self.end(Cause::Violation { rank, why }, now),
            Some(Event::Spawn(spawn)) => self.actions.push_back(Action::Spawn(rank, spawn)),
            Some(Event::Name(request)) => self.actions.push_back(Action::Name(rank, request)),
            Some(Event::Apart) => self.actions.push_back(Action::Apart),
            None => self.check_absent(now),
        }
    }

    /// The PMI server, for what others than ranks answer.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Whether all ranks have been started.
    pub fn are_all_started(&self) -> bool {
        self.ranks.iter().all(|rank| rank.pid.is_some())
    }

    /// Whether the job ends for a failure: not because all is done, or the user wants it.
    pub fn has_failed(&self) -> bool {
        !matches!(self.cause, None | Some(Cause::Interrupted { .. } | Cause::Timeout(_)))
    }

    /// A world that ranks have started has ended with this code, above 0. `is_apart`: no rank is connected to
    /// it any more, so it does not concern the ranks. Those that survive others survive a world, too.
    pub fn handle_world_failed(&mut self, code: u8, is_apart: bool, now: Instant) {
        let cause = Cause::World { code };
        if is_apart || self.running_count == 0 {
            self.late.get_or_insert(cause);
        } else if self.limits.survives && self.can_survive(&[]) {
            self.say(format!("{}; the others go on", cause.describe("", 0)));
        } else {
            self.end(cause, now);
        }
    }

    /// A rank has closed its connection.
    pub fn handle_pmi_closed(&mut self, rank: usize, now: Instant) {
        if self.server.phase(rank) == Phase::Initialised && !self.has_ended(rank) {
            self.hung_up.push_back((rank, now + self.limits.hang_up));
        }
    }

    /// A rank has ended; what it sent before was handled before.
    pub fn handle_ended(&mut self, rank: usize, status: Status, now: Instant) {
        if self.ranks[rank].status.replace(status).is_some() {
            return;
        }
        self.ended_count += 1;
        if self.is_verbose {
            self.say(format!("{} {}", self.who(rank), status.describe()));
        }
        let phase = self.server.phase(rank);
        match Cause::of_end(rank, status, phase == Phase::Initialised, self.passed_on) {
            Some(cause @ Cause::Ended { .. }) if phase == Phase::Finalised => {
                self.fail_late(rank, cause, now)
            }
            Some(cause @ (Cause::Ended { .. } | Cause::NotFinalized { .. }))
                if phase == Phase::Initialised && self.can_survive(&[rank]) =>
            {
                self.survive(rank, &cause);
            }
            Some(cause) => self.end(cause, now),
            None => self.check_absent(now),
        }
        self.leave(1);
    }

    /// A host is gone, and its ranks with it.
    pub fn handle_host_lost(&mut self, host: usize, why: String, now: Instant) {
        let status = Status::Killed { signal: SIGKILL, is_core_dumped: false };
        let its: Vec<usize> = (0..self.ranks.len())
            .filter(|rank| self.ranks[*rank].host == host && !self.has_ended(*rank))
            .collect();
        let count = self.end_ranks_of(host, status);
        if count > 0 && self.can_survive(&its) {
            let cause = Cause::Host { name: self.hosts[host].clone(), why };
            its.into_iter().for_each(|rank| self.survive(rank, &cause));
            self.leave(count);
        } else if count > 0 {
            self.end(Cause::Host { name: self.hosts[host].clone(), why }, now);
            self.leave(count);
        }
    }

    /// A host could not start its ranks. The caller prints the message.
    pub fn handle_start_failed(&mut self, host: usize, why: String, now: Instant) {
        self.kill_at = Some(now);
        self.cause.get_or_insert(Cause::Host { name: self.hosts[host].clone(), why });
        let count = self.end_ranks_of(host, Status::Exited(1));
        self.leave(count);
    }

    /// The user has sent the launcher a signal, which all ranks are to get.
    pub fn handle_signal(&mut self, signal: i32, is_ending: bool, now: Instant) {
        if is_ending && (self.passed_on.is_some() || self.cause.is_some()) {
            // Asked twice: now.
            self.end(Cause::Interrupted { signal }, now);
            self.kill_at = Some(now);
            return;
        }
        self.actions.push_back(Action::Signal(signal));
        if is_ending {
            self.passed_on = Some(signal);
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let Some(limit) = self.limits.job.filter(|_| is_due(self.job_deadline())) {
            self.end(Cause::Timeout(limit), now);
        }
        while let Some(&(rank, _)) = self.hung_up.front().filter(|(_, at)| *at <= now) {
            self.hung_up.pop_front();
            if !self.has_ended(rank) {
                self.end(Cause::HungUp { rank }, now);
            }
        }
        if is_due(self.finalize_by) {
            self.finalize_by = None;
            let is_behind =
                |rank: usize| !self.has_ended(rank) && self.server.phase(rank) != Phase::Finalised;
            if let Some(cause) = self.late.clone().filter(|_| (0..self.ranks.len()).any(is_behind)) {
                self.end(cause, now);
            }
        }
        if is_due(self.kill_at) || is_due(self.unsaid.as_ref().map(|(_, at)| *at)) {
            self.announce();
        }
        if is_due(self.kill_at) {
            self.kill_at = None;
            self.give_up_at = Some(now + self.limits.unkillable);
            self.actions.push_back(Action::Signal(SIGKILL));
        }
        if is_due(self.give_up_at) {
            self.give_up_at = None;
            let left = (0..self.ranks.len()).filter(|&rank| !self.has_ended(rank)).map(|rank| self.who(rank));
            let left = left.collect::<Vec<_>>().join(", ");
            self.say(format!("SIGKILL does not end {left}; left behind"));
            self.leave(self.running_count);
        }
    }

    /// Says what was not said yet: the hosts have finished.
    pub fn conclude(&mut self, now: Instant) {
        self.announce();
        if !self.is_verbose {
            return;
        }
        let seconds = now.duration_since(self.started).as_secs_f64();
        let hosts =
            if self.hosts.len() > 1 { format!(" on {} hosts", self.hosts.len()) } else { String::new() };
        self.say(format!("{} ranks{hosts}, {seconds:.3} s", self.ranks.len()));
        if let (Some(signal), None) = (self.passed_on, &self.cause) {
            self.say(format!("{} was handled by the program", signal_name(signal)));
        }
    }

    /// Ends the job, for the first cause there is, or for one that is reported a moment later and lies behind
    /// it.
    fn end(&mut self, cause: Cause, now: Instant) {
        let is_behind = |known: &Cause| self.unsaid.is_some() && cause.is_behind(known);
        if !self.cause.as_ref().is_none_or(is_behind) {
            return;
        }
        let who = cause.rank().map_or(String::new(), |rank| self.who(rank));
        let others_count = cause.others_count(self.still_running(), |rank| !self.has_ended(rank));
        let patience = if cause.may_follow() { self.limits.hearsay } else { Duration::ZERO };
        self.unsaid = Some((cause.describe(&who, others_count), now + patience));
        if self.cause.replace(cause).is_none() {
            self.kill_at = Some(now + self.limits.grace);
            self.actions.push_back(Action::Signal(SIGTERM));
            // A stopped rank does not hear SIGTERM.
            self.actions.push_back(Action::Signal(SIGCONT));
        }
    }

    /// Whether the job goes on without ranks that have just ended.
    fn can_survive(&self, ranks: &[usize]) -> bool {
        let are_spare = || ranks.iter().all(|rank| self.server.is_spare(*rank));
        (self.limits.survives || are_spare()) && self.cause.is_none() && self.still_running() > 0
    }

    /// A rank has failed, and the others go on.
    fn survive(&mut self, rank: usize, cause: &Cause) {
        let line = match cause.rank() {
            Some(_) => cause.describe(&self.who(rank), 0),
            None => format!("{}: {}", self.who(rank), cause.describe("", 0)),
        };
        self.say(format!("{line}; the others go on"));
        self.server.forget(rank);
    }

    /// A rank has failed after `MPI_Finalize`.
    fn fail_late(&mut self, rank: usize, cause: Cause, now: Instant) {
        if self.late.is_some() || self.cause.is_some() {
            return;
        }
        let line = format!("{} after MPI_Finalize", cause.describe(&self.who(rank), 0));
        self.say(line);
        self.late = Some(cause);
        self.finalize_by = Some(now + self.limits.finalize);
        self.check_absent(now);
    }

    /// No rank may wait for one that has gone.
    fn check_absent(&mut self, now: Instant) {
        // Asked at every request of every rank: the search is for jobs of which a rank has ended.
        if self.server.is_barrier_pending()
            && self.ended_count > self.server.forgotten_count()
            && let Some(rank) =
                (0..self.ranks.len()).find(|&rank| self.has_ended(rank) && !self.server.is_forgotten(rank))
        {
            self.end(Cause::Absent { rank }, now);
        }
    }

    fn end_ranks_of(&mut self, host: usize, status: Status) -> usize {
        let its = self.ranks.iter_mut().filter(|rank| rank.host == host && rank.status.is_none());
        let count = its.map(|rank| rank.status = Some(status)).count();
        self.ended_count += count;
        count
    }

    fn still_running(&self) -> usize {
        self.ranks.iter().filter(|rank| rank.status.is_none()).count()
    }

    /// So many more ranks have ended or are left behind.
    fn leave(&mut self, count: usize) {
        let before = self.running_count;
        self.running_count = before.saturating_sub(count);
        if before > 0 && self.running_count == 0 {
            (self.kill_at, self.give_up_at, self.finalize_by) = (None, None, None);
            self.actions.push_back(Action::Finish(self.cause.is_some()));
        }
    }

    fn announce(&mut self) {
        if let Some((line, _)) = self.unsaid.take() {
            self.say(line);
        }
    }

    fn say(&mut self, line: String) {
        self.actions.push_back(Action::Say(line));
    }

    fn who(&self, rank: usize) -> String {
        let Rank { host, program, pid, .. } = &self.ranks[rank];
        let program = match &self.programs[..] {
            [_] => String::new(),
            programs => format!(", {}", programs[*program]),
        };
        let pid = pid.map_or("not started".to_owned(), |pid| format!("pid {pid}"));
        format!("rank {rank} on {} ({pid}{program})", self.hosts[*host])
    }
}

#[cfg(test)]
mod tests;
