//! What is promised.

use ayatori_core::Error;
use ayatori_core::bsend::{Attachment, BufferOwner};
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::Collective;
use ayatori_core::explain::Need;
use ayatori_core::ids::{ProcessId, Tag};
use ayatori_core::link::Health;
use ayatori_core::request::{Completion, Origin};

use super::blocking::Blocked;
use super::comms::Step;
use super::traffic::UNTOUCHED;
use super::{GIVEN_BACK, GivenBack, Outcome, Receive, Running, World, content};
use crate::fuzz::collectives::Joint;
use crate::fuzz::model::{Expected, Members};

impl World<'_> {
    pub(super) fn status_of(&self, message: usize) -> (Origin, Option<Tag>, u64) {
        let sent = &self.model.sent[message];
        let rank = self.model.comms[sent.comm].rank_of(sent.from).unwrap_or(u32::MAX);
        (Origin::Rank(rank), Some(sent.tag), sent.length as u64)
    }

    fn digest(&mut self, words: [u64; 3]) {
        for word in words {
            self.report.digest = (self.report.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// Takes what is complete, and checks it. Whether something began by that: at a window, what has ended
    /// is followed by what comes next.
    pub(super) fn collect(&mut self) -> Outcome<bool> {
        self.collect_direct()?;
        self.collect_receives()?;
        self.collect_sends()?;
        let mut went_on = self.advance_windows()?;
        self.collect_channels()?;
        let mut index = 0;
        while index < self.running.len() {
            let Running { at, id, is_run, .. } = self.running[index];
            let taken = match self.is_alive(at) {
                false => None,
                true if is_run => self.go_on_with_run(at, &mut went_on)?,
                true => self.take(at, id)?,
            };
            match taken {
                None => index += 1,
                Some(completion) => {
                    let running = self.running.swap_remove(index);
                    self.check_step(&running, &completion)?;
                    self.give_back(at, running.send, "sent in collective operation", running.step);
                    self.give_back(at, running.recv, "received in collective operation", running.step);
                }
            }
        }
        Ok(went_on)
    }

    /// Goes on with the operation that a process runs, if a round is over.
    fn go_on_with_run(&mut self, at: u32, went_on: &mut bool) -> Outcome<Option<Completion>> {
        let (process, port) = &mut self.nodes[at as usize];
        if !process.is_running_collective() {
            return Err(format!("process {at} runs no collective operation any more"));
        }
        let is_over = process.poll_run();
        let Some(Need::Collective(state)) = process.need_of_run() else {
            return Err(format!("the operation that {at} runs needs {:?}", process.need_of_run()));
        };
        // The end of a send may not have been handled yet.
        if is_over && !state.needs.is_empty() {
            return Err(format!("a round of an operation at {at} is over, and needs {state:?}"));
        }
        *went_on |= is_over;
        Ok(if is_over { process.go_on_with_run(port) } else { None })
    }

    fn collect_receives(&mut self) -> Outcome {
        let mut index = 0;
        while index < self.receives.len() {
            let (at, number) = (self.receives[index].at, self.receives[index].number);
            let (request, persistent) = (self.receives[index].request, self.receives[index].persistent);
            let taken = match request.filter(|_| self.is_alive(at)) {
                Some(id) => self.take(at, id)?,
                None => None,
            };
            let Some(completion) = taken else {
                index += 1;
                continue;
            };
            let Receive { buffer, layout, .. } = self.receives.swap_remove(index);
            let received = layout.map_or(Ok(buffer), |region| self.unspread(&region))?;
            self.check_receive(at, number, &completion, &received)?;
            match persistent {
                Some(persistent) => self.persistent[persistent].active = false,
                None => self.give_back(at, buffer, "of receive", number),
            }
        }
        Ok(())
    }

    fn collect_sends(&mut self) -> Outcome {
        let mut index = 0;
        while index < self.sends.len() {
            let (at, id) = (self.sends[index].at, self.sends[index].id);
            let taken = if self.is_alive(at) { self.take(at, id)? } else { None };
            let Some(completion) = taken else {
                index += 1;
                continue;
            };
            let send = self.sends.swap_remove(index);
            if matches!(self.blocked[at as usize], Some(Blocked::Send(blocking)) if blocking == id) {
                self.blocked[at as usize] = None;
            }
            match send.persistent {
                Some(persistent) => self.persistent[persistent].active = false,
                None => self.give_back(at, send.buffer, "of message", send.number),
            }
            self.digest([1, send.number as u64, completion.error.is_some().into()]);
            self.check_send(at, send.number, send.synchronous, &completion)?;
        }
        Ok(())
    }

    fn check_send(&self, at: u32, number: usize, synchronous: bool, completion: &Completion) -> Outcome {
        let sent = &self.model.sent[number];
        let wrong = |what: &str| Err(format!("message {number}: {what}: {completion:?}"));
        match completion.error {
            Some(error) if self.model.losses(at, sent.to).contains(&error) => Ok(()),
            Some(_) => wrong("the send failed"),
            None if completion.status.cancelled != sent.cancelled => {
                wrong("the sender and the model differ on whether it was cancelled")
            }
            None if synchronous && !sent.matched && !sent.cancelled => {
                wrong("a synchronous send ended before its message was matched")
            }
            None => Ok(()),
        }
    }

    pub(super) fn check_receive_error(&mut self, number: usize, error: Error) -> Outcome {
        match self.model.receives[number].2 {
            Expected::Lost(lost) if error == lost => Ok(()),
            expected => Err(format!("receive {number}: {error}, the model says {expected:?}")),
        }
    }

    pub(super) fn check_receive(
        &mut self,
        at: u32,
        number: usize,
        completion: &Completion,
        buffer: &Buffer,
    ) -> Outcome {
        let now_ps = self.wire.borrow().now_ps();
        self.digest([2 + number as u64, completion.status.bytes, now_ps]);
        let expected = self.model.receives[number].2;
        match (expected, completion.error) {
            (Expected::Open, _) => {
                Err(format!("receive {number} ends with {completion:?}, the model knows no message for it"))
            }
            (Expected::Cancelled, None) if completion.status.cancelled => Ok(()),
            (Expected::Lost(lost), Some(told)) if told == lost => Ok(()),
            (Expected::Message(message), error) => {
                let from = self.model.sent[message].from;
                if error.is_some_and(|error| self.model.losses(at, from).contains(&error)) {
                    return Ok(());
                }
                self.check_data(number, message, completion, buffer)
            }
            _ => Err(format!("receive {number}: {completion:?}, the model says {expected:?}")),
        }
    }

    fn check_data(&self, number: usize, message: usize, completion: &Completion, buffer: &Buffer) -> Outcome {
        let sent = &self.model.sent[message];
        let fits = sent.length.min(buffer.len());
        let (source, tag, _) = self.status_of(message);
        let status = &completion.status;
        let truncated =
            Error::Truncate { message_bytes: sent.length as u64, buffer_bytes: buffer.len() as u64 };
        let error = (sent.length > buffer.len()).then_some(truncated);
        let told = (status.source, status.tag, status.bytes, status.cancelled, completion.error);
        if told != (source, tag, fits as u64, false, error) || sent.cancelled {
            return Err(format!(
                "receive {number}: {completion:?}, the model says message {message}, {sent:?}"
            ));
        }
        let bytes = buffer.to_vec().unwrap_or_default();
        let right = |at: usize| if at < fits { content(sent.content, at) } else { UNTOUCHED };
        match bytes.iter().enumerate().find(|&(at, &byte)| byte != right(at)) {
            None => Ok(()),
            Some((at, byte)) => Err(format!(
                "receive {number}: byte {at} of message {message} ({} B into {} B) is {byte:#x}, not {:#x}",
                sent.length,
                buffer.len(),
                right(at)
            )),
        }
    }

    /// A member's part of a collective operation, or of a communicator's making, has ended.
    pub(super) fn check_step(&mut self, running: &Running, completion: &Completion) -> Outcome {
        let Running { at, comm, step, .. } = *running;
        let now_ps = self.wire.borrow().now_ps();
        self.digest([3, step as u64, now_ps]);
        let is_making = matches!(self.sequences[comm].steps[step], Step::Making(_));
        let is_told_loss = is_making && self.is_told_loss(completion);
        let sequence = &mut self.sequences[comm];
        let members = &self.model.comms[comm];
        let rank = members.rank_of(at).unwrap_or(0);
        let has_failed = match completion.error {
            None => false,
            Some(error) if members.of_rank.iter().any(|&of| self.model.losses(at, of).contains(&error)) => {
                sequence.broken[rank as usize] = true;
                true
            }
            // Of what another was told, who told it on.
            Some(_) if is_told_loss => {
                sequence.broken[rank as usize] = true;
                true
            }
            Some(error) => return Err(format!("step {step} of comm {comm} at {at}: {error}")),
        };
        match sequence.steps[step].clone() {
            Step::Making(making) => self.check_made(running, &making, has_failed),
            Step::Joint(_) | Step::Persistent(_) if has_failed => Ok(()),
            Step::Persistent(joints) => self.check_joint(running, rank, &joints[running.which]),
            Step::Joint(joint) => self.check_joint(running, rank, &joint),
        }
    }

    fn check_joint(&self, running: &Running, rank: u32, joint: &Joint) -> Outcome {
        let Running { at, comm, step, recv, .. } = running;
        let next = &self.sequences[*comm].next;
        let name = || format!("{:?} {step} of comm {comm} at {at}", joint.kind);
        if joint.kind == Collective::Barrier && next.iter().any(|&next| next <= *step) {
            return Err(format!("{}: a barrier lets pass before all have come", name()));
        }
        let (after, size) = (recv.to_vec().unwrap_or_default(), next.len() as u32);
        if after != joint.after(rank, size) {
            return Err(format!("{}: wrong result ({joint:?})", name()));
        }
        Ok(())
    }

    /// Everything has come to an end, and nothing is left.
    pub(super) fn check_end(&mut self) -> Outcome {
        self.check_ended()?;
        self.free_all()?;
        // Those whose collective operations hang: they were told nothing, and a program would have to tell
        // them.
        let hung: Vec<u32> = self.running.iter().map(|running| running.at).collect();
        for at in (0..self.count() as u32).filter(|&at| self.is_alive(at) && !hung.contains(&at)) {
            self.check_left(at)?;
        }
        self.check_given_back()?;
        self.check_rails()?;
        self.check_credit()
    }

    fn check_ended(&self) -> Outcome {
        let waiting = |at: u32| self.is_alive(at);
        if let Some(at) = (0..self.count() as u32).find(|&at| waiting(at) && self.is_blocked(at)) {
            let need = self.nodes[at as usize].0.need_of_direct();
            return Err(format!("process {at} waits in a call for ever: {need:?}"));
        }
        if let Some(send) = self.sends.iter().find(|send| waiting(send.at)) {
            let message = &self.model.sent[send.number];
            return Err(format!("message {} never ends at its sender: {message:?}", send.number));
        }
        if let Some(receive) = self.receives.iter().find(|receive| waiting(receive.at)) {
            let model = &self.model.receives[receive.number];
            return Err(format!("receive {} never ends: {model:?}", receive.number));
        }
        let hangs = |running: &&Running| waiting(running.at) && !self.may_hang(running);
        match self.running.iter().find(hangs) {
            None => Ok(()),
            Some(Running { at, comm, step, id, is_run, .. }) => {
                let process = &self.nodes[*at as usize].0;
                let need = if *is_run { process.need_of_run() } else { Some(process.need(*id)) };
                Err(format!("step {step} of comm {comm} never ends at {at}: {need:?}"))
            }
        }
    }

    /// What programs free before they end.
    fn free_all(&mut self) -> Outcome {
        self.free_persistent()?;
        self.end_channels()?;
        self.end_windows()?;
        for at in (0..self.count() as u32).filter(|&at| self.is_alive(at)).collect::<Vec<_>>() {
            for comm in 1..self.comm_ids.len() {
                self.free_comm(comm, at)?;
            }
            let (process, port) = &mut self.nodes[at as usize];
            if !process.attached_is_drained(BufferOwner::Process) {
                return Err(format!("the attached buffer of process {at} is never drained"));
            }
            let detached = match process.detach_buffer(BufferOwner::Process) {
                Some(Attachment::Memory(buffer)) => buffer.len(),
                _ => 0,
            };
            if detached != self.habits.attached_bytes {
                return Err(format!("process {at} gets an attached buffer of {detached} B back"));
            }
            // Registrations that are kept for messages to come go with their memory, also what the engine had
            // of the heap.
            process.invalidate_memory(port, 0, usize::MAX);
        }
        Ok(())
    }

    /// Nothing is left at a process. A collective operation that failed leaves messages to members who have
    /// given up too: unmatched there, and holding credit.
    fn check_left(&self, at: u32) -> Outcome {
        let (process, _) = &self.nodes[at as usize];
        let counts = process.counts();
        let registered = self.wire.borrow().registered_count(at);
        let mut failed =
            self.sequences.iter().zip(&self.model.comms).filter(|(sequence, _)| sequence.has_failed());
        let may_have_some = failed.any(|(_, members)| members.rank_of(at).is_some());
        let collective_count = counts.unexpected - process.explain().unexpected.count as usize;
        let unexpected = counts.unexpected - if may_have_some { collective_count } else { 0 };
        if (counts.requests, counts.posted, unexpected, registered) != (0, 0, 0, 0) {
            return Err(format!("process {at} is left with {counts:?} and {registered} registrations"));
        }
        if !process.is_quiet() || process.is_moving_data() || process.me() != ProcessId(at) {
            return Err(format!("process {at} still has something on its way"));
        }
        Ok(())
    }

    /// Nobody has written to memory that a program has got back.
    fn check_given_back(&self) -> Outcome {
        for GivenBack { at, buffer, of, number } in &self.given_back {
            let bytes = buffer.to_vec().unwrap_or_default();
            if let Some(byte) =
                bytes.iter().position(|&byte| byte != GIVEN_BACK).filter(|_| self.is_alive(*at))
            {
                return Err(format!(
                    "byte {byte} of the memory {of} {number} at {at} is written after its end"
                ));
            }
        }
        Ok(())
    }

    /// Rails that work again are used again.
    fn check_rails(&self) -> Outcome {
        let wire = self.wire.borrow();
        let count = self.count() as u32;
        for a in (0..count).filter(|&a| wire.alive[a as usize]) {
            let others = (0..count).filter(|&b| wire.alive[b as usize] && self.model.losses(a, b).is_empty());
            for b in others.filter(|&b| b != a) {
                for (rail, health) in self.nodes[a as usize].0.rail_health(ProcessId(b)) {
                    if wire.works(rail, a, b) && health != Health::Up {
                        return Err(format!(
                            "{rail:?} from {a} to {b} works again and is taken for {health:?}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn free_persistent(&mut self) -> Outcome {
        for index in 0..self.persistent.len() {
            let (at, id) = (self.persistent[index].at, self.persistent[index].id);
            if self.is_alive(at) {
                let freed = self.nodes[at as usize].0.free(id);
                freed.map_err(|error| format!("freeing a persistent request at {at}: {error}"))?;
            }
        }
        Ok(())
    }

    fn check_credit(&self) -> Outcome {
        let alive = |at: &u32| self.is_alive(*at);
        let count = self.count() as u32;
        let failed =
            self.sequences.iter().zip(&self.model.comms).filter(|(sequence, _)| sequence.has_failed());
        let failed: Vec<_> = failed.map(|(_, members)| members).collect();
        for a in (0..count).filter(alive) {
            for b in (0..count).filter(alive) {
                let have_lost = !self.model.losses(a, b).is_empty() || !self.model.losses(b, a).is_empty();
                let is_both =
                    |members: &&&Members| members.rank_of(a).is_some() && members.rank_of(b).is_some();
                if have_lost || failed.iter().any(|members| is_both(&members)) {
                    continue;
                }
                let credit = |at: u32, peer| self.nodes[at as usize].0.credit(ProcessId(peer));
                let spent = credit(a, b).map_or(0, |credit| credit.0);
                let owed = credit(b, a).map_or(0, |credit| credit.1);
                if spent != owed {
                    return Err(format!("{a} has spent {spent} cells of credit on {b}, which owes {owed}"));
                }
            }
        }
        Ok(())
    }
}
