//! Worlds whose processes go on without those that die: each agrees some times, shrinks its communicator and
//! goes on with what is left, while messages and makings of communicators are under way on it and any of them
//! revokes it. Processes die at every moment.
//!
//! Checked: whatever two processes decide is the same, and where a death is never a mistake (one rail that
//! does not break) that holds for those that die later, too; a shrunk communicator has all that live; all
//! that live come to the end; what a revoked communicator has under way ends.

use std::collections::BTreeMap;

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::ids::{CommId, ContextId, RequestId, Source, TagSelector};
use ayatori_core::process::ProcessEvent;
use ayatori_core::request::{Posted, SendMode};
use ayatori_core::time::Instant;

use super::time::HEALED_MAX_PS;
use super::{Outcome, World};
use crate::fuzz::wire::Moods;
use crate::fuzz::{Bug, WorldReport};

/// What a healed world does at one moment ends after so many rounds.
const ROUNDS_MAX: u32 = 100_000;

/// What a process does now.
#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    Agreeing(RequestId, Buffer),
    Shrinking(CommId, RequestId),
    Ended,
}

/// A process' way through a world.
struct Way {
    comm: CommId,
    generation: usize,
    agreed: usize,
    doing: Doing,
    /// Messages under way, by any communicator.
    messages: Vec<RequestId>,
    /// The communicators that it has left behind.
    old: Vec<CommId>,
}

/// What comes of a call, the same at all processes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcomes {
    Agreed(u32, Option<Error>),
    Shrunk(ContextId, Vec<u32>),
}

struct Survivors<'a> {
    world: World<'a>,
    ways: Vec<Way>,
    /// How often a communicator is agreed on, by generation.
    agreements: Vec<usize>,
    /// By context and number.
    outcomes: BTreeMap<(ContextId, usize), (u32, Outcomes)>,
    /// Calls begun and calls over.
    calls_count: u64,
    /// Whether deaths are never mistakes.
    is_exact: bool,
}

/// Runs such a world to its end.
pub(in crate::fuzz) fn run(seed: u64, bug: Option<Bug>, history: &mut Vec<String>) -> Outcome<WorldReport> {
    let mut world = World::new((seed, true), bug, history)?;
    let generation_count = 1 + world.random.below(3) as usize;
    let agreements = (0..generation_count).map(|_| world.random.below(4) as usize).collect();
    let way = |_| Way {
        comm: CommId::WORLD,
        generation: 0,
        agreed: 0,
        doing: Doing::Nothing,
        messages: Vec::new(),
        old: Vec::new(),
    };
    let ways = (0..world.count()).map(way).collect();
    let is_exact = !world.habits.trunks;
    let mut of = Survivors { world, ways, agreements, outcomes: BTreeMap::new(), calls_count: 0, is_exact };
    for _ in 0..60 + of.world.random.below(200) {
        let at = of.world.random.below(of.ways.len() as u64) as usize;
        of.act(at)?;
        of.world.maybe_fault();
        if of.world.one_in(20) {
            of.world.crash_any();
        }
        let (count, quota) = (of.world.random.below(8), of.world.random.below(4));
        of.world.pump(count)?;
        let at = of.world.random.below(of.ways.len() as u64) as u32;
        of.deliver(at, quota);
        of.collect(at as usize)?;
    }
    of.finish()?;
    of.world.report.outage_count = of.world.wire.borrow().outage_count;
    Ok(of.world.report)
}

impl Survivors<'_> {
    /// A process lives, and has something to do.
    fn act(&mut self, at: usize) -> Outcome {
        if !self.world.is_alive(at as u32) {
            return Ok(());
        }
        match self.world.random.below(8) {
            0 | 1 => self.communicate(at),
            2 if self.world.one_in(4) => {
                let comm = self.ways[at].comm;
                self.world.log(format!("process {at} revokes its communicator"));
                let (process, port) = &mut self.world.nodes[at];
                let revoked = process.survivors().revoke(comm);
                process.poll_transmit(port);
                revoked.map_err(|error| format!("revoking at {at}: {error}"))
            }
            3 => {
                let (comm, count) = (self.ways[at].comm, self.world.random.below(4) as usize);
                let process = &mut self.world.nodes[at].0;
                let acked = process.survivors().ack_failed(comm, count).map_err(|error| error.to_string())?;
                let of = process.survivors().acknowledged_members(comm).map_err(|error| error.to_string())?;
                let failed = process.survivors().failed_members(comm).map_err(|error| error.to_string())?;
                match of.size() as usize == acked && acked <= failed.size() as usize {
                    true => Ok(()),
                    false => Err(format!("process {at} has acknowledged {acked}: {of:?} of {failed:?}")),
                }
            }
            _ => self.go_on(at),
        }
    }

    /// The next call of a process that is in none.
    fn go_on(&mut self, at: usize) -> Outcome {
        let Way { comm, generation, agreed, doing: Doing::Nothing, .. } = self.ways[at] else {
            return Ok(());
        };
        let Some(&agreements) = self.agreements.get(generation) else {
            self.ways[at].doing = Doing::Ended;
            self.calls_count += 1;
            return Ok(());
        };
        self.calls_count += 1;
        let into = Buffer::leaked(4);
        let flag = !(1 << at);
        let (process, port) = &mut self.world.nodes[at];
        let begun = if agreed < agreements {
            process.survivors().iagree(comm, flag, into).map(|posted| (None, posted))
        } else {
            process.survivors().ishrink(comm).map(|(made, posted)| (Some(made), posted))
        };
        process.poll_transmit(port);
        let (made, posted) = begun.map_err(|error| format!("process {at} cannot agree: {error}"))?;
        let Posted::Pending(id) = posted else { return Err(format!("no request at {at}")) };
        self.world.log(format!("process {at}: agreement {agreed} of generation {generation}"));
        self.ways[at].doing = made.map_or(Doing::Agreeing(id, into), |made| Doing::Shrinking(made, id));
        Ok(())
    }

    /// A message, a receive from anybody, or the making of a communicator.
    fn communicate(&mut self, at: usize) -> Outcome {
        let comm = self.ways[at].comm;
        let length = [0, 10, 5_000][self.world.random.below(3) as usize];
        let Some(buffer) = self.world.memory(std::iter::repeat_n(at as u8, length)) else { return Ok(()) };
        let (peer, kind) = (self.world.random.below(8) as u32, self.world.random.below(5));
        let (process, port) = &mut self.world.nodes[at];
        let size = process.comm(comm).map_or(1, |of| of.size());
        let (peer, tag) = (peer % size, TagSelector::Any);
        let posted = match kind {
            0 => process.isend(port, comm, buffer, peer, 1, SendMode::Standard),
            1 => process.isend(port, comm, buffer, peer, 1, SendMode::Synchronous),
            2 => process.irecv(port, comm, buffer, Source::Rank(peer), tag),
            3 => process.irecv(port, comm, buffer, Source::Any, tag),
            _ => process.collectives().icomm_dup(port, comm).map(|(_, posted)| posted),
        };
        match posted {
            Ok(Posted::Pending(id)) => self.ways[at].messages.push(id),
            Ok(Posted::Done(_)) => {}
            Err(Error::Revoked | Error::ProcessAborted(_) | Error::Unreachable(_)) => {}
            Err(error) => return Err(format!("process {at} cannot communicate: {error}")),
        }
        Ok(())
    }

    /// Lets a process see at most so many arrivals. One that gives up another that lives aborts: failures are
    /// taken for what they are reported to be.
    fn deliver(&mut self, at: u32, quota: u64) -> bool {
        if !self.world.is_alive(at) {
            return false;
        }
        self.world.report.step_count += 1;
        let now_ps = self.world.now_ps();
        let (process, port) = &mut self.world.nodes[at as usize];
        port.may_poll = quota;
        if process.wants_time() {
            process.handle_timeout(Instant(now_ps));
        }
        let worked = process.progress(port);
        port.may_poll = 0;
        self.world.wire.borrow_mut().seen.clear();
        while let Some(ProcessEvent::PeerLost(peer, error)) = self.world.nodes[at as usize].0.poll_event() {
            self.world.wire.borrow_mut().has_given_up |= matches!(error, Error::Unreachable(_));
            if self.world.is_alive(peer.0) {
                self.world.crash(at);
            }
        }
        worked
    }

    /// Takes what has come of the calls of a process.
    fn collect(&mut self, at: usize) -> Outcome {
        if !self.world.is_alive(at as u32) {
            return Ok(());
        }
        let mut messages = std::mem::take(&mut self.ways[at].messages);
        let mut left = Vec::new();
        for id in messages.drain(..) {
            let taken = self.world.nodes[at].0.take(id).map_err(|error| format!("at {at}: {error}"))?;
            if taken.is_none_or(|completion| completion.is_interruption()) {
                left.push(id);
            }
        }
        self.ways[at].messages = left;
        match self.ways[at].doing {
            Doing::Agreeing(id, into) => {
                let Some(completion) = self.world.take(at as u32, id)? else { return Ok(()) };
                let bytes = into.to_vec().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
                self.note(at, Outcomes::Agreed(u32::from_le_bytes(bytes), completion.error))?;
                self.calls_count += 1;
                self.ways[at].agreed += 1;
                self.ways[at].doing = Doing::Nothing;
            }
            Doing::Shrinking(made, id) => {
                let Some(completion) = self.world.take(at as u32, id)? else { return Ok(()) };
                if let Some(error) = completion.error {
                    return Err(format!("process {at} cannot shrink: {error}"));
                }
                // Another may have revoked it already.
                let of = self.world.nodes[at].0.comm_or_revoked(made);
                let of = of.map_err(|error| format!("process {at} has nothing after a shrink: {error}"))?;
                let (context, members) = (of.context(), of.group().iter().map(|p| p.0).collect());
                self.note(at, Outcomes::Shrunk(context, members))?;
                self.calls_count += 1;
                let way = &mut self.ways[at];
                way.old.push(std::mem::replace(&mut way.comm, made));
                (way.generation, way.agreed, way.doing) = (way.generation + 1, 0, Doing::Nothing);
            }
            Doing::Nothing | Doing::Ended => {}
        }
        Ok(())
    }

    /// Holds what has come of a call against what others have seen.
    fn note(&mut self, at: usize, outcome: Outcomes) -> Outcome {
        let Way { generation, agreed, .. } = self.ways[at];
        self.world.log(format!("process {at}: {outcome:?}"));
        let key = (ContextId(generation as u64), agreed);
        let (by, known) = self.outcomes.entry(key).or_insert_with(|| (at as u32, outcome.clone()));
        let by = *by;
        if *known != outcome {
            if self.is_exact || self.world.is_alive(by) {
                return Err(format!("process {at} has {outcome:?}, process {by} {known:?}"));
            }
            // It may have died of a mistake.
            self.outcomes.insert(key, (at as u32, outcome));
        }
        Ok(())
    }

    /// Nobody dies any more, and all that live come to the end.
    fn finish(&mut self) -> Outcome {
        self.world.wire.borrow_mut().moods = Moods::default();
        self.world.wire.borrow_mut().heal();
        self.world.log("healed".to_owned());
        self.settle(false)?;
        for at in 0..self.ways.len() {
            let way = &self.ways[at];
            if self.world.is_alive(at as u32) && !matches!(way.doing, Doing::Ended) {
                let need = self.world.nodes[at].0.explain();
                let Way { generation, agreed, .. } = way;
                return Err(format!("process {at} stays at agreement {agreed} of {generation}: {need:?}"));
            }
        }
        self.settle(true)?;
        for at in 0..self.ways.len() {
            if self.world.is_alive(at as u32) && !self.ways[at].messages.is_empty() {
                let need = self.world.nodes[at].0.explain();
                return Err(format!("messages of process {at} never end, although all is revoked: {need:?}"));
            }
        }
        Ok(())
    }

    /// Lets all go on until nothing happens; `revokes`: each process revokes all that it has.
    fn settle(&mut self, revokes: bool) -> Outcome {
        for at in 0..self.ways.len() {
            if !revokes || !self.world.is_alive(at as u32) {
                continue;
            }
            for comm in self.ways[at].old.iter().copied().chain([self.ways[at].comm]) {
                let (process, port) = &mut self.world.nodes[at];
                process.survivors().revoke(comm).map_err(|error| format!("revoking at {at}: {error}"))?;
                process.poll_transmit(port);
                if process.survivors().is_revoked(comm) != Ok(true) {
                    return Err(format!("process {at} has not revoked {comm:?}"));
                }
            }
        }
        let everybody: Vec<u32> = (0..self.ways.len() as u32).collect();
        let end_ps = self.world.now_ps() + 2 * self.world.habits.peer_timeout_ps + HEALED_MAX_PS;
        for _ in 0..ROUNDS_MAX {
            let calls_count = self.calls_count;
            let mut worked = false;
            for &at in &everybody {
                if self.world.is_alive(at) {
                    self.go_on(at as usize)?;
                    worked |= self.deliver(at, u64::MAX);
                    self.collect(at as usize)?;
                }
            }
            let limit_ps =
                self.world.due_ps(&everybody).map_or(u64::MAX, |due_ps| due_ps.max(self.world.now_ps()));
            worked |= self.world.pump_until(64, limit_ps)?;
            if self.calls_count != calls_count {
                continue;
            }
            // A receive from anybody looks after its peers for ever.
            let is_late = self.world.habits.trunks && self.world.now_ps() > end_ps;
            if is_late || !worked && !self.world.wait_until(&everybody, u64::MAX)? {
                return Ok(());
            }
        }
        Err(self.world.busy("healed"))
    }
}
