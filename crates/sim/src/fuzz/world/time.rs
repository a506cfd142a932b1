//! How a world goes on: what moves, when, and until when.

use ayatori_core::Error;
use ayatori_core::ids::ProcessId;
use ayatori_core::process::ProcessEvent;
use ayatori_core::time::Instant;

use super::{Outcome, World};
use crate::fuzz::wire::Moods;

/// What a world does at one moment ends after some hundred rounds; one that is still busy now would be for
/// ever.
const ROUNDS_MAX: u32 = 100_000;
/// In a world that has healed everything ends within twice the time for a peer and this, ps.
pub(super) const HEALED_MAX_PS: u64 = 20_000_000_000_000;

impl World<'_> {
    pub(super) fn now_ps(&self) -> u64 {
        self.wire.borrow().now_ps()
    }

    /// Who is busy without end.
    pub(super) fn busy(&self, when: &str) -> String {
        let mut said = format!("busy without end, {when}, at {} ps", self.now_ps());
        for (process, port) in self.nodes.iter().filter(|(_, port)| self.is_alive(port.me)) {
            let (due, full) = (process.poll_timeout(), process.wants_transmit());
            if due.is_some() || full {
                said += &format!("; process {} is due at {due:?}, wants to send: {full}", port.me);
            }
        }
        said
    }

    pub(super) fn maybe_fault(&mut self) {
        let said = self.wire.borrow_mut().maybe_fault();
        if let Some(said) = said {
            self.log(said);
        }
    }

    /// Something moves, or a little time passes, while processes do something else.
    pub(super) fn pump(&mut self, count: u64) -> Outcome<bool> {
        let limit_ps = if self.habits.trunks {
            let most_ps = [1_000_000, 100_000_000, 3_000_000_000][self.random.below(3) as usize];
            self.now_ps() + self.random.below(most_ps)
        } else {
            u64::MAX
        };
        self.pump_until(count, limit_ps)
    }

    pub(super) fn pump_until(&mut self, count: u64, limit_ps: u64) -> Outcome<bool> {
        let moved = self.wire.borrow_mut().pump(count, limit_ps)?;
        self.report.step_count += moved;
        Ok(moved > 0)
    }

    /// In worlds where time matters, once in a while: much of it passes. Some processes compute meanwhile.
    pub(super) fn maybe_pass_time(&mut self) -> Outcome {
        if !self.habits.trunks || !self.one_in(8) {
            return Ok(());
        }
        let most_ps = [1_000_000_000, 50_000_000_000, 800_000_000_000, 6_000_000_000_000];
        let most_ps = most_ps[self.random.below(4) as usize];
        let span_ps = self.random.below(most_ps);
        let all = self.one_in(2);
        let awake: Vec<u32> = (0..self.count() as u32).filter(|_| all || self.random.below(3) > 0).collect();
        if self.one_in(6) {
            return self.estrange();
        }
        self.pass_time(span_ps, &awake)
    }

    /// One process gives another up, which computes all the while and sees nothing of it.
    fn estrange(&mut self) -> Outcome {
        let [a, b] = [0; 2].map(|_| self.random.below(self.count() as u64) as u32);
        let lasts_ps = self.habits.peer_timeout_ps * 2 + self.random.below(1_000_000_000_000);
        if !self.wire.borrow_mut().sever(a, b, lasts_ps) {
            return Ok(());
        }
        self.log(format!("nothing comes from {a} to {b} or back for {} µs", lasts_ps / 1_000_000));
        let awake: Vec<u32> = (0..self.count() as u32).filter(|&at| at != b).collect();
        self.pass_time(lasts_ps + self.habits.peer_timeout_ps / 10, &awake)
    }

    /// So much time passes. Processes that are not awake compute meanwhile.
    fn pass_time(&mut self, span_ps: u64, awake: &[u32]) -> Outcome {
        let end_ps = self.now_ps() + span_ps;
        self.log(format!("{} µs pass at {awake:?}", span_ps / 1_000_000));
        for _ in 0..ROUNDS_MAX {
            let now_ps = self.now_ps();
            if now_ps >= end_ps {
                return Ok(());
            }
            let due_ps = self.due_ps(awake).map_or(end_ps, |due_ps| due_ps.min(end_ps));
            let mut worked = self.pump_until(64, due_ps.max(now_ps))?;
            for &at in awake {
                worked |= self.deliver(at, u64::MAX)?;
            }
            if !worked {
                // A device that is full at random takes something a moment later.
                self.wait_until(awake, end_ps)?;
            }
        }
        Err(self.busy("while time passes"))
    }

    /// When some process wants to be called, ps.
    pub(super) fn due_ps(&self, awake: &[u32]) -> Option<u64> {
        let alive = awake.iter().filter(|&&at| self.is_alive(at));
        alive.filter_map(|&at| self.nodes[at as usize].0.poll_timeout()).map(|time| time.0).min()
    }

    /// Time passes until some process wants to be called, or something moves, at most until `end_ps`. Whether
    /// there is anything to wait for.
    pub(super) fn wait_until(&mut self, awake: &[u32], end_ps: u64) -> Outcome<bool> {
        let due_ps = self.due_ps(awake);
        let is_due = due_ps.is_some();
        let time_ps = due_ps.unwrap_or(u64::MAX).min(end_ps);
        if time_ps == u64::MAX {
            return self.pump_until(1, u64::MAX);
        }
        self.wire.borrow_mut().wait_until(time_ps);
        Ok(self.pump_until(1, u64::MAX)? || is_due)
    }

    /// Lets a process see at most so many arrivals; the model sees the same.
    pub(super) fn deliver(&mut self, at: u32, quota: u64) -> Outcome<bool> {
        if !self.is_alive(at) {
            return Ok(false);
        }
        self.report.step_count += 1;
        let now_ps = self.now_ps();
        let (process, port) = &mut self.nodes[at as usize];
        port.may_poll = quota;
        if process.wants_time() {
            process.handle_timeout(Instant(now_ps));
        }
        let worked = process.progress(port);
        port.may_poll = 0;
        let seen = std::mem::take(&mut self.wire.borrow_mut().seen);
        for what in seen {
            self.model.see(what)?;
        }
        while let Some(ProcessEvent::PeerLost(peer, error)) = self.nodes[at as usize].0.poll_event() {
            self.hear_loss(at, peer.0, error)?;
        }
        Ok(worked)
    }

    /// A process says that it has lost another.
    fn hear_loss(&mut self, at: u32, peer: u32, error: Error) -> Outcome {
        let known = self.model.losses(at, peer).contains(&error);
        match error {
            Error::ProcessAborted(_) if known => return Ok(()),
            Error::Unreachable(told) if told == ProcessId(peer) => {}
            _ => return Err(format!("process {at} loses {peer}: {error}")),
        }
        self.log(format!("process {at} cannot reach {peer}"));
        if !known {
            let since_ps = self.now_ps().saturating_sub(self.habits.peer_timeout_ps);
            // At the start nothing has worked yet; and a peer that has given us up answers nothing.
            let is_given_up = !self.model.losses(peer, at).is_empty();
            if since_ps > 0 && !is_given_up && self.wire.borrow().has_worked_since(at, peer, since_ps) {
                return Err(format!("process {at} gives {peer} up, to which a rail has worked all the time"));
            }
            self.model.lose(at, peer, error);
        }
        self.wire.borrow_mut().has_given_up = true;
        if !self.is_alive(peer) {
            return Ok(());
        }
        if self.habits.aborts {
            self.crash(at);
            return Ok(());
        }
        for (sequence, members) in self.sequences.iter_mut().zip(&self.model.comms) {
            sequence.severed |= members.rank_of(at).is_some() && members.rank_of(peer).is_some();
        }
        Ok(())
    }

    /// In worlds where time matters: when everything has ended that will, if nothing fails from now on. Who
    /// waits then for somebody that has failed him in a collective operation asks after him for ever.
    fn end_ps(&self) -> u64 {
        match self.habits.trunks {
            true => self.now_ps() + 2 * self.habits.peer_timeout_ps + HEALED_MAX_PS,
            false => u64::MAX,
        }
    }

    /// Lets everything move until nothing does that will end.
    pub(super) fn settle(&mut self) -> Outcome {
        let everybody: Vec<u32> = (0..self.count() as u32).collect();
        let end_ps = self.end_ps();
        let mut idle = 0;
        for _ in 0..ROUNDS_MAX {
            let limit_ps = self.due_ps(&everybody).map_or(u64::MAX, |due_ps| due_ps.max(self.now_ps()));
            let mut worked = self.pump_until(64, limit_ps)?;
            for &at in &everybody {
                worked |= self.deliver(at, u64::MAX)?;
            }
            idle = if worked { 0 } else { idle + 1 };
            // A device that is full at random needs a few more rounds.
            if self.now_ps() > end_ps || idle >= 40 && !self.wait_until(&everybody, u64::MAX)? {
                return Ok(());
            }
        }
        Err(self.busy("at rest"))
    }

    /// Nothing fails any more, and everything must come to an end.
    pub(super) fn heal(&mut self) -> Outcome {
        self.wire.borrow_mut().moods = Moods::default();
        let mut said = String::from("healed; ");
        if self.habits.scars {
            said += &self.wire.borrow_mut().scar();
        }
        self.wire.borrow_mut().heal();
        self.log(said);
        while let Some((at, message, number)) = self.held.pop() {
            self.receive_held(at, message, number)?;
        }
        for index in 0..self.receives.len() {
            self.cancel_receive(index)?;
        }
        self.answer_direct()?;
        let everybody: Vec<u32> = (0..self.count() as u32).collect();
        let mut end_ps = self.end_ps();
        for _ in 0..ROUNDS_MAX {
            let mut began = self.begin_remaining_steps()?;
            let limit_ps = self.due_ps(&everybody).map_or(u64::MAX, |due_ps| due_ps.max(self.now_ps()));
            let mut worked = self.pump_until(64, limit_ps)?;
            for &at in &everybody {
                worked |= self.deliver(at, u64::MAX)?;
                while self.is_alive(at) && self.receive_first_arrived(at)? {
                    worked = true;
                }
            }
            began |= self.collect()?;
            began |= self.advance_windows()? | self.join_rounds()? | self.finish_channels()?;
            // A round may have passed all the time at once: what programs begin then has as much time again.
            if began {
                end_ps = self.end_ps();
            } else if self.now_ps() > end_ps || !worked && !self.wait_until(&everybody, u64::MAX)? {
                return Ok(());
            }
        }
        Err(self.busy("healed"))
    }
}
