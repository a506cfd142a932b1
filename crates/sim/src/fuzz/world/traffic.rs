//! The calls that a world's processes make.

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::Context;
use ayatori_core::ids::{RequestId, Source, Tag, TagSelector};
use ayatori_core::process::MessageId;
use ayatori_core::request::{Completion, Posted, SendMode};

use super::{Joint, Outcome, Persistent, Plan, Receive, Running, Send, Wanted, World, content, fill};
use crate::fuzz::model::Sent;

const TAG_COUNT: u64 = 3;
/// Bytes of a receive buffer that nothing was written to.
pub(super) const UNTOUCHED: u8 = 0xEE;
const JOINTS_MAX: usize = 12;

impl World<'_> {
    /// One random call.
    pub(super) fn act(&mut self) -> Outcome {
        self.report.step_count += 1;
        match self.random.below(16) {
            0..=3 => self.send(),
            4..=5 if self.habits.flood => self.flood(),
            4..=7 => self.receive(),
            8 => self.probe(),
            9 => match self.held.pop() {
                Some((at, message, number)) => self.receive_held(at, message, number),
                None => Ok(()),
            },
            10 if !self.receives.is_empty() => {
                let index = self.random.below(self.receives.len() as u64) as usize;
                self.cancel_receive(index)
            }
            11 => self.cancel_send(),
            12 => self.start_persistent(),
            13 if self.habits.crashes && self.one_in(6) => {
                self.crash_any();
                Ok(())
            }
            _ => self.begin_some_collective(),
        }
    }

    fn pick_alive(&mut self) -> u32 {
        loop {
            let at = self.random.below(self.count() as u64) as u32;
            if self.is_alive(at) {
                return at;
            }
        }
    }

    /// A communicator that a process is in.
    fn pick_comm(&mut self, at: u32) -> usize {
        loop {
            let comm = self.random.below(self.model.comms.len() as u64) as usize;
            if self.comm_ids[comm][at as usize].is_some() {
                return comm;
            }
        }
    }

    fn pick_member(&mut self, comm: usize) -> u32 {
        let size = self.model.comms[comm].of_rank.len() as u64;
        self.model.comms[comm].of_rank[self.random.below(size) as usize]
    }

    /// Whom a message is for.
    fn pick_receiver(&mut self, comm: usize) -> u32 {
        let popular = self.habits.popular.map(|at| at % self.count() as u32);
        let popular = popular.filter(|&at| self.model.comms[comm].rank_of(at).is_some());
        match popular {
            Some(at) if self.one_in(2) => at,
            _ => self.pick_member(comm),
        }
    }

    fn pick_length(&mut self) -> usize {
        let (eager, most) = (self.habits.eager_bytes_max, self.habits.length_max as u64);
        // One less, as many, one more.
        let about = self.random.below(3) as usize;
        match self.random.below(5) {
            0 => 0,
            1 => (eager + about).saturating_sub(1),
            2 => self.random.below(eager as u64 + 1) as usize,
            3 => {
                let pieces = &self.habits.piece_bytes;
                let piece = pieces[self.random.below(pieces.len() as u64) as usize];
                let length = piece * (1 + self.random.below(4) as usize) + about - 1;
                length.min(self.habits.length_max)
            }
            _ => self.random.below(most) as usize,
        }
    }

    fn send(&mut self) -> Outcome {
        let at = self.pick_alive();
        let comm = self.pick_comm(at);
        let to = self.pick_receiver(comm);
        let (tag, length) = (self.random.below(TAG_COUNT) as Tag, self.pick_length());
        let number = self.model.sent.len();
        let Some(buffer) = self.memory((0..length).map(|i| content(number, i))) else { return Ok(()) };
        let synchronous = self.one_in(4);
        let mode = if synchronous { SendMode::Synchronous } else { SendMode::Standard };
        let rank = self.model.comms[comm].rank_of(to).unwrap_or(0);
        let id = self.comm_ids[comm][at as usize].expect("the sender is a member");
        let (process, port) = &mut self.nodes[at as usize];
        if self.random.below(8) == 0 {
            let made = process.send_init(id, buffer, rank, tag, mode);
            let id = made.map_err(|error| format!("making a persistent send at {at}: {error}"))?;
            let plan = Plan::Send { to, comm, tag, buffer, content: number, synchronous };
            self.persistent.push(Persistent { at, id, plan, active: false });
            // So that no other message has this content.
            self.model.sent.push(Sent::new(at, to, comm, tag, length, number));
            return Ok(());
        }
        let posted = process.isend(port, id, buffer, rank, tag, mode);
        self.model.sent.push(Sent::new(at, to, comm, tag, length, number));
        self.log(format!("message {number}: {at} to {to}, comm {comm}, tag {tag}, {length} B, {mode:?}"));
        match posted {
            Err(error) => return self.check_refusal(at, to, error),
            Ok(Posted::Done(completion)) => {
                if completion != Completion::EMPTY || synchronous && at != to {
                    return Err(format!("message {number} ends at once with {completion:?}"));
                }
                self.give_back(at, buffer, "of message", number);
            }
            Ok(Posted::Pending(id)) => {
                let (cancelling, persistent) = (false, None);
                self.sends.push(Send { at, id, number, buffer, synchronous, cancelling, persistent })
            }
        }
        self.report.message_count += 1;
        self.model.send(number);
        Ok(())
    }

    /// Only a lost process is refused.
    fn check_refusal(&self, at: u32, peer: u32, error: Error) -> Outcome {
        if self.model.losses(at, peer).last() == Some(&error) {
            return Ok(());
        }
        Err(format!("process {at} is refused to talk to {peer}: {error}"))
    }

    fn flood(&mut self) -> Outcome {
        for _ in 0..4 {
            self.send()?;
        }
        Ok(())
    }

    fn pick_wanted(&mut self, at: u32) -> Wanted {
        let comm = self.pick_comm(at);
        let source = self.pick_member(comm);
        let tag = self.random.below(TAG_COUNT) as Tag;
        Wanted {
            comm,
            source: (!self.one_in(3)).then_some(source),
            tag: (!self.one_in(3)).then_some(tag),
            capacity: if self.one_in(4) { self.pick_length() } else { self.habits.length_max },
        }
    }

    fn selectors(&self, wanted: &Wanted) -> (Source, TagSelector) {
        let rank = |process| self.model.comms[wanted.comm].rank_of(process).unwrap_or(0);
        let source = wanted.source.map_or(Source::Any, |process| Source::Rank(rank(process)));
        (source, wanted.tag.map_or(TagSelector::Any, TagSelector::Tag))
    }

    fn untouched(&mut self, capacity: usize) -> Option<Buffer> {
        self.memory(std::iter::repeat_n(UNTOUCHED, capacity))
    }

    fn receive(&mut self) -> Outcome {
        let popular = self.habits.popular.map(|at| at % self.count() as u32);
        let at = match popular.filter(|&at| self.is_alive(at)) {
            Some(at) if self.one_in(2) => at,
            _ => self.pick_alive(),
        };
        let mut wanted = self.pick_wanted(at);
        if popular == Some(at) && self.one_in(2) {
            (wanted.source, wanted.tag) = (None, None);
        }
        if self.one_in(8) {
            return self.make_persistent_receive(at, wanted);
        }
        self.receive_wanted(at, wanted)
    }

    fn receive_wanted(&mut self, at: u32, wanted: Wanted) -> Outcome {
        let Some(buffer) = self.untouched(wanted.capacity) else { return Ok(()) };
        let (source, tag) = self.selectors(&wanted);
        let comm = self.comm_ids[wanted.comm][at as usize].expect("the receiver is a member");
        let number = self.model.post(at, wanted);
        self.log(format!("receive {number} at {at}: {wanted:?}"));
        let (process, port) = &mut self.nodes[at as usize];
        let posted = process.irecv(port, comm, buffer, source, tag);
        self.add_receive(at, number, posted, buffer)
    }

    fn add_receive(
        &mut self,
        at: u32,
        number: usize,
        posted: Result<Posted, Error>,
        buffer: Buffer,
    ) -> Outcome {
        match posted {
            Err(error) => self.check_receive_error(number, error),
            Ok(Posted::Done(completion)) => {
                self.check_receive(at, number, &completion, &buffer)?;
                self.give_back(at, buffer, "of receive", number);
                Ok(())
            }
            Ok(Posted::Pending(id)) => {
                self.receives.push(Receive { at, number, request: Some(id), buffer, persistent: None });
                Ok(())
            }
        }
    }

    fn make_persistent_receive(&mut self, at: u32, wanted: Wanted) -> Outcome {
        let Some(buffer) = self.untouched(wanted.capacity) else { return Ok(()) };
        let (source, tag) = self.selectors(&wanted);
        let comm = self.comm_ids[wanted.comm][at as usize].expect("the receiver is a member");
        let made = self.nodes[at as usize].0.recv_init(comm, buffer, source, tag);
        let id = made.map_err(|error| format!("making a persistent receive at {at}: {error}"))?;
        let plan = Plan::Receive { wanted, buffer };
        self.persistent.push(Persistent { at, id, plan, active: false });
        Ok(())
    }

    fn start_persistent(&mut self) -> Outcome {
        if self.persistent.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.persistent.len() as u64) as usize;
        let Persistent { at, id, ref plan, active } = self.persistent[index];
        if active || !self.is_alive(at) {
            return Ok(());
        }
        match *plan {
            Plan::Send { to, comm, tag, buffer, content, synchronous } => {
                let number = self.model.sent.len();
                self.log(format!("message {number}: persistent, as {content}, {at} to {to}"));
                let (process, port) = &mut self.nodes[at as usize];
                if let Err(error) = process.start(port, id) {
                    return self.check_refusal(at, to, error);
                }
                self.model.sent.push(Sent::new(at, to, comm, tag, buffer.len(), content));
                self.report.message_count += 1;
                self.model.send(number);
                let (cancelling, persistent) = (false, Some(index));
                self.sends.push(Send { at, id, number, buffer, synchronous, cancelling, persistent });
            }
            Plan::Receive { wanted, buffer } => {
                fill(&buffer, std::iter::repeat_n(UNTOUCHED, wanted.capacity));
                let number = self.model.post(at, wanted);
                self.log(format!("receive {number} at {at}: persistent, {wanted:?}"));
                let (process, port) = &mut self.nodes[at as usize];
                if let Err(error) = process.start(port, id) {
                    return self.check_receive_error(number, error);
                }
                let persistent = Some(index);
                self.receives.push(Receive { at, number, request: Some(id), buffer, persistent });
            }
        }
        self.persistent[index].active = true;
        Ok(())
    }

    fn probe(&mut self) -> Outcome {
        let at = self.pick_alive();
        let wanted = self.pick_wanted(at);
        let (source, tag) = self.selectors(&wanted);
        let comm = self.comm_ids[wanted.comm][at as usize].expect("the receiver is a member");
        let expected = self.model.find(at, &wanted).map(|message| self.status_of(message));
        let matched = self.one_in(2);
        let process = &mut self.nodes[at as usize].0;
        let found = if matched {
            process.improbe(comm, source, tag)
        } else {
            process.iprobe(comm, source, tag).map(|found| found.map(|status| (None, status)))
        };
        let found = match found {
            Ok(found) => found,
            Err(Error::ProcessAborted(peer) | Error::Unreachable(peer))
                if !self.model.losses(at, peer.0).is_empty() =>
            {
                return Ok(());
            }
            Err(error) => return Err(format!("probe at {at}: {error}")),
        };
        let status = found.map(|(_, status)| (status.source, status.tag, status.bytes));
        if status != expected {
            return Err(format!("probe at {at} for {wanted:?}: {status:?}, the model says {expected:?}"));
        }
        if let Some((Some(message), _)) = found
            && let Some(number) = self.model.take(at, &wanted)
        {
            self.log(format!("matched probe at {at} takes message {number}"));
            self.held.push((at, message, number));
        }
        Ok(())
    }

    pub(super) fn receive_held(&mut self, at: u32, message: MessageId, number: usize) -> Outcome {
        if !self.is_alive(at) {
            return Ok(());
        }
        let capacity = self.habits.length_max;
        let Some(buffer) = self.untouched(capacity) else { return Ok(()) };
        let comm = self.model.sent[number].comm;
        let wanted = Wanted { comm, source: None, tag: None, capacity };
        let receive = self.model.post_matched(at, wanted, number);
        self.log(format!("receive {receive} at {at}: message {number}, probed"));
        let (process, port) = &mut self.nodes[at as usize];
        let posted = process.imrecv(port, message, buffer);
        if process.imrecv(port, message, Buffer::EMPTY).is_ok() {
            return Err(format!("message {number} is received twice"));
        }
        self.add_receive(at, receive, posted, buffer)
    }

    /// Receives the first message that waits unmatched. Whether there was one.
    pub(super) fn receive_first_arrived(&mut self, at: u32) -> Outcome<bool> {
        let Some(number) = self.model.first_arrived(at) else { return Ok(false) };
        let (comm, capacity) = (self.model.sent[number].comm, self.habits.length_max);
        if self.arena_used + capacity + 16 > super::ARENA_BYTES {
            return Err("the world's memory is too small".into());
        }
        self.receive_wanted(at, Wanted { comm, source: None, tag: None, capacity })?;
        Ok(true)
    }

    pub(super) fn cancel_receive(&mut self, index: usize) -> Outcome {
        let Receive { at, number, request, .. } = self.receives[index];
        let Some(id) = request.filter(|_| self.is_alive(at)) else { return Ok(()) };
        self.log(format!("cancel receive {number}"));
        self.model.cancel_receive(number);
        let (process, port) = &mut self.nodes[at as usize];
        process.cancel(port, id).map_err(|error| format!("cancelling receive {number}: {error}"))
    }

    fn cancel_send(&mut self) -> Outcome {
        if self.sends.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.sends.len() as u64) as usize;
        let Send { at, id, number, cancelling, persistent, .. } = self.sends[index];
        let already_over = self.nodes[at as usize].0.is_complete(id);
        if cancelling || persistent.is_some() || already_over || !self.is_alive(at) {
            return Ok(());
        }
        self.log(format!("cancel message {number}"));
        self.sends[index].cancelling = true;
        let (process, port) = &mut self.nodes[at as usize];
        process.cancel(port, id).map_err(|error| format!("cancelling message {number}: {error}"))?;
        match process.peek(id) {
            Ok(Some(Completion { status, .. })) if status.cancelled => self.model.cancelled_at_once(number),
            _ => {
                self.model.cancel_send(at, id, number);
                Ok(())
            }
        }
    }

    fn crash_any(&mut self) {
        let at = self.pick_alive();
        self.crash(at);
    }

    /// A process dies whose memory a peer is just putting to or getting from.
    pub(super) fn maybe_crash_accessed(&mut self) {
        if !self.habits.crashes || !self.habits.trunks {
            return;
        }
        let accessed = self.wire.borrow().accessed();
        if !accessed.is_empty() && self.one_in(20) {
            let which = self.random.below(accessed.len() as u64) as usize;
            self.crash(accessed[which]);
        }
    }

    /// The last process lives on.
    pub(super) fn crash(&mut self, at: u32) {
        let alive = (0..self.count() as u32).filter(|&at| self.is_alive(at)).count();
        if alive < 2 {
            return;
        }
        self.log(format!("process {at} crashes"));
        self.report.crash_count += 1;
        self.wire.borrow_mut().crash(at);
    }

    /// Some member of some communicator begins its next collective operation.
    fn begin_some_collective(&mut self) -> Outcome {
        let index = self.random.below(self.sequences.len() as u64) as usize;
        let size = self.sequences[index].next.len() as u32;
        if self.sequences[index].joints.len() < JOINTS_MAX {
            let joint = Joint::random(&mut self.random, size);
            self.sequences[index].joints.push(joint);
        }
        for _ in 0..1 + self.random.below(4) {
            let rank = self.random.below(size.into()) as usize;
            self.begin_collective(index, rank)?;
        }
        Ok(())
    }

    pub(super) fn begin_remaining_collectives(&mut self) -> Outcome<bool> {
        let mut began = false;
        for index in 0..self.sequences.len() {
            for rank in 0..self.sequences[index].next.len() {
                began |= self.begin_collective(index, rank)?;
            }
        }
        Ok(began)
    }

    fn begin_collective(&mut self, index: usize, rank: usize) -> Outcome<bool> {
        let sequence = &self.sequences[index];
        let (comm, size) = (sequence.comm, sequence.next.len() as u32);
        let at = self.model.comms[comm].of_rank[rank];
        let next = sequence.next[rank];
        let Some(&joint) = sequence.joints.get(next) else { return Ok(false) };
        if sequence.broken[rank] || sequence.severed || !self.is_alive(at) {
            return Ok(false);
        }
        let (given, before) = (joint.given(rank as u32, size), joint.before(rank as u32, size));
        let (Some(send), Some(recv)) = (self.memory(given.into_iter()), self.memory(before.into_iter()))
        else {
            return Err("the world's memory is too small".into());
        };
        self.log(format!("{:?} {next} of comm {comm} at {at}, {:?}", joint.kind, joint.choice));
        self.sequences[index].next[rank] += 1;
        self.report.collective_count += 1;
        let id = self.comm_ids[comm][at as usize].expect("a rank is a member");
        let (process, port) = &mut self.nodes[at as usize];
        let context = Context { rank: rank as u32, size };
        let schedule = joint.schedule(process.schedule_pool(), context, send, recv);
        let schedule = schedule.map_err(|error| format!("{:?} at {at}: {error}", joint.kind))?;
        let id = match process.start_collective(port, id, schedule) {
            Ok(Posted::Pending(id)) => id,
            Ok(Posted::Done(completion)) => {
                return self.check_collective(at, index, next, &completion, &recv).map(|()| true);
            }
            Err(error) => {
                let completion = Completion { error: Some(error), ..Completion::EMPTY };
                return self.check_collective(at, index, next, &completion, &recv).map(|()| true);
            }
        };
        self.running.push(Running { at, sequence: index, joint: next, id, send, recv });
        Ok(true)
    }

    /// The request of a receive that is over is forgotten.
    pub(super) fn take(&mut self, at: u32, id: RequestId) -> Outcome<Option<Completion>> {
        let taken = self.nodes[at as usize].0.take(id);
        taken.map_err(|error| format!("process {at} does not know a request: {error}"))
    }
}
