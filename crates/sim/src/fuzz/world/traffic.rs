//! The calls that a world's processes make.

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::device::Gap;
use ayatori_core::explain::Need;
use ayatori_core::ids::{self, RequestId, Tag, TagSelector};
use ayatori_core::layout::Region;
use ayatori_core::process::MessageId;
use ayatori_core::request::{Completion, Posted, SendMode};
use ayatori_core::transfer::{Sink, Source};

use super::blocking::Blocked;
use super::{ARENA_BYTES, Outcome, Persistent, Plan, Receive, Send, Wanted, World, content, fill};
use crate::fuzz::Feature;
use crate::fuzz::model::Sent;

const TAG_COUNT: u64 = 3;
/// Bytes of a receive buffer that nothing was written to.
pub(super) const UNTOUCHED: u8 = 0xEE;

impl World<'_> {
    /// One random call.
    pub(super) fn act(&mut self) -> Outcome {
        self.report.step_count += 1;
        match self.random.below(24) {
            0..=3 => self.send(),
            4..=5 if self.habits.flood => self.flood(),
            4..=7 => self.receive(),
            8 => self.probe(),
            9 => self.receive_some_held(),
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
            14 => self.free_send(),
            15 => self.set_gap(),
            16 => self.free_some_comm(),
            17 => self.inspect(),
            18..=19 if self.habits.partitions => self.act_partitioned(),
            18..=21 if self.habits.windows => self.act_in_window(),
            _ => self.begin_some_step(),
        }
    }

    /// A process that lives and waits in no call. `None`: there is none.
    pub(super) fn pick_idle(&mut self) -> Option<u32> {
        let is_idle = |&at: &u32| self.is_alive(at) && !self.is_blocked(at);
        let idle: Vec<u32> = (0..self.count() as u32).filter(is_idle).collect();
        let which = self.random.below(idle.len().max(1) as u64) as usize;
        idle.get(which).copied()
    }

    /// A communicator that a process may use.
    pub(super) fn pick_comm(&mut self, at: u32) -> usize {
        loop {
            let comm = self.random.below(self.model.comms.len() as u64) as usize;
            if self.may_use(comm, at) {
                return comm;
            }
        }
    }

    pub(super) fn pick_member(&mut self, comm: usize) -> u32 {
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
        // Now and then what somebody waits for.
        let awaited = if self.one_in(3) { self.pick_awaited() } else { None };
        if let Some((to, wanted)) = awaited {
            let from = wanted.source.unwrap_or_else(|| self.pick_member(wanted.comm));
            let tag = wanted.tag.unwrap_or_else(|| self.random.below(TAG_COUNT) as Tag);
            if self.is_alive(from) && !self.is_blocked(from) && self.may_use(wanted.comm, from) {
                return self.send_message(from, to, wanted.comm, tag);
            }
        }
        let Some(at) = self.pick_idle() else { return Ok(()) };
        let comm = self.pick_comm(at);
        let to = self.pick_receiver(comm);
        let tag = self.random.below(TAG_COUNT) as Tag;
        self.send_message(at, to, comm, tag)
    }

    fn send_message(&mut self, at: u32, to: u32, comm: usize, tag: Tag) -> Outcome {
        let mode = if self.one_in(4) { SendMode::Synchronous } else { SendMode::Standard };
        let way = match self.random.below(8) {
            0 => return self.make_persistent_send(at, to, comm, tag, mode),
            1..=2 if self.habits.blocks => Way::Awaited(mode),
            1..=3 => Way::AtOnce,
            4 if self.habits.attached_bytes > 0 => Way::NotAwaited(SendMode::Buffered),
            5 => Way::Paced(Gap::packets([0.0, 0.5, 3.0][self.random.below(3) as usize])),
            6 => Way::InBlocks(mode),
            _ => Way::NotAwaited(mode),
        };
        self.send_by(way, at, to, comm, tag)
    }

    /// As simple as can be: in a world that has healed.
    pub(super) fn send_plain(&mut self, at: u32, to: u32, comm: usize, tag: Tag) -> Outcome {
        self.send_by(Way::NotAwaited(SendMode::Standard), at, to, comm, tag)
    }

    fn send_by(&mut self, way: Way, at: u32, to: u32, comm: usize, tag: Tag) -> Outcome {
        let (number, length) = (self.model.sent.len(), self.pick_length());
        let Some(buffer) = self.memory((0..length).map(|i| content(number, i))) else { return Ok(()) };
        // As it lies there, or in blocks; then the memory that is given back is theirs.
        let region = if let Way::InBlocks(_) = way { self.untouched_blocks(length)? } else { None };
        if let Some(region) = &region {
            region.unpack(0, buffer);
            self.report.cover(Feature::SendInBlocks);
        }
        let buffer = region.as_ref().map_or(buffer, Region::memory);
        let region = region.map(Source::from);
        let (mode, posted) = self.post_send(way, (at, to, comm, tag), buffer, region);
        self.model.sent.push(Sent::new(at, to, comm, tag, length, number));
        self.log(format!(
            "message {number}: {at} to {to}, comm {comm}, tag {tag}, {length} B, {mode:?}, {way:?}"
        ));
        let synchronous = mode == SendMode::Synchronous;
        match posted {
            Err(Error::BufferExhausted { needed_bytes, free_bytes })
                if mode == SendMode::Buffered && free_bytes < needed_bytes =>
            {
                return Ok(());
            }
            Err(error) => return self.check_refusal(at, to, error),
            Ok(Posted::Done(completion)) => {
                if completion != Completion::EMPTY || synchronous && at != to {
                    return Err(format!("message {number} ends at once with {completion:?}"));
                }
                self.give_back(at, buffer, "of message", number);
            }
            Ok(Posted::Pending(_)) if mode == SendMode::Buffered => {
                return Err(format!("message {number} is buffered and does not end at once"));
            }
            Ok(Posted::Pending(id)) => {
                let (cancelling, persistent) = (false, None);
                self.sends.push(Send { at, id, number, buffer, synchronous, cancelling, persistent });
                if matches!(way, Way::Awaited(_)) {
                    self.report.cover(Feature::SendBlocks);
                    self.blocked[at as usize] = Some(Blocked::Send(id));
                }
            }
        }
        if mode == SendMode::Buffered {
            self.report.cover(Feature::SendBuffered);
        }
        if let Way::Paced(_) = way {
            self.report.cover(Feature::SendPaced);
        }
        self.report.message_count += 1;
        self.model.send(number);
        Ok(())
    }

    /// The call that sends: the mode, and what it says.
    fn post_send(
        &mut self,
        way: Way,
        (at, to, comm, tag): (u32, u32, usize, Tag),
        buffer: Buffer,
        region: Option<Source>,
    ) -> (SendMode, Result<Posted, Error>) {
        let rank = self.model.comms[comm].rank_of(to).unwrap_or(0);
        let id = self.comm_id(comm, at);
        let (process, port) = &mut self.nodes[at as usize];
        match way {
            Way::InBlocks(mode) => {
                (mode, process.isend(port, id, region.unwrap_or_else(|| buffer.into()), rank, tag, mode))
            }
            Way::NotAwaited(mode) => (mode, process.isend(port, id, buffer, rank, tag, mode)),
            Way::Paced(gap) => {
                let mode = SendMode::Standard;
                (mode, process.isend_paced(port, id, buffer, rank, tag, mode, gap))
            }
            // As `MPI_Send` and `MPI_Isend` do.
            Way::AtOnce | Way::Awaited(SendMode::Standard)
                if process.send_at_once(port, id, buffer, rank, tag) =>
            {
                self.report.cover(Feature::SendAtOnce);
                (SendMode::Standard, Ok(Posted::Done(Completion::EMPTY)))
            }
            Way::AtOnce => {
                let mode = SendMode::Standard;
                (mode, process.isend(port, id, buffer, rank, tag, mode))
            }
            Way::Awaited(mode) => (mode, process.send(port, id, buffer, rank, tag, mode)),
        }
    }

    fn make_persistent_send(&mut self, at: u32, to: u32, comm: usize, tag: Tag, mode: SendMode) -> Outcome {
        let (number, length) = (self.model.sent.len(), self.pick_length());
        let Some(buffer) = self.memory((0..length).map(|i| content(number, i))) else { return Ok(()) };
        let rank = self.model.comms[comm].rank_of(to).unwrap_or(0);
        let comm_id = self.comm_id(comm, at);
        let made = self.nodes[at as usize].0.send_init(comm_id, buffer, rank, tag, mode);
        let id = made.map_err(|error| format!("making a persistent send at {at}: {error}"))?;
        let synchronous = mode == SendMode::Synchronous;
        let plan = Plan::Send { to, comm, tag, buffer, content: number, synchronous };
        self.persistent.push(Persistent { at, id, plan, active: false });
        // So that no other message has this content.
        self.model.sent.push(Sent::new(at, to, comm, tag, length, number));
        Ok(())
    }

    /// Gives the request of a send up (`MPI_Request_free`): the message goes on, and its end is not told.
    fn free_send(&mut self) -> Outcome {
        let can_be_freed = |send: &Send| {
            let is_simple = !send.cancelling && send.persistent.is_none();
            is_simple && self.is_alive(send.at) && !self.is_blocked(send.at)
        };
        let Some(index) = self.sends.iter().position(can_be_freed) else { return Ok(()) };
        let Send { at, id, number, .. } = self.sends.swap_remove(index);
        self.log(format!("the request of message {number} is freed"));
        self.report.cover(Feature::FreeRequest);
        let freed = self.nodes[at as usize].0.free(id);
        freed.map_err(|error| format!("freeing the request of message {number}: {error}"))
    }

    fn set_gap(&mut self) -> Outcome {
        let Some(at) = self.pick_idle() else { return Ok(()) };
        let comm = self.pick_comm(at);
        let gap = [None, Some(Gap::packets(0.25)), Some(Gap::packets(4.0))][self.random.below(3) as usize];
        let id = self.comm_id(comm, at);
        let process = &mut self.nodes[at as usize].0;
        let told = process.set_comm_gap(id, gap).and_then(|()| process.comm_gap(id));
        if told != Ok(gap) {
            return Err(format!("process {at}: the gap of comm {comm} is set to {gap:?} and is {told:?}"));
        }
        Ok(())
    }

    /// What a process tells of itself is what the model knows.
    fn inspect(&mut self) -> Outcome {
        let at = self.random.below(self.count() as u64) as u32;
        if !self.is_alive(at) {
            return Ok(());
        }
        let process = &self.nodes[at as usize].0;
        let told = process.explain();
        let counts = (told.posted.count as usize, told.unexpected.count as usize);
        let expected = self.model.waiting_counts(at);
        // Windows and partitioned messages have some of their own.
        let has_more = self.windows.is_some() || self.has_channels();
        if counts != expected && !has_more || counts.0 < expected.0 || counts.1 < expected.1 {
            return Err(format!("process {at} tells of {counts:?} receives and messages, not {expected:?}"));
        }
        for Send { id, number, .. } in self.sends.iter().filter(|send| send.at == at) {
            let (need, is_over) = (process.need(*id), process.is_complete(*id));
            let named = id.name().and_then(|name| process.named(name));
            if !process.is_request(*id) || named != Some(*id) || is_over != (need == Need::Nothing) {
                return Err(format!("message {number}: over: {is_over}, needs {need:?}, is named {named:?}"));
            }
            if !process.is_busy() {
                return Err(format!("message {number}: process {at} says that it is not busy"));
            }
        }
        for persistent in self.persistent.iter().filter(|persistent| persistent.at == at) {
            if process.is_inactive(persistent.id) == persistent.active {
                return Err(format!("a persistent request of {at} is active: {}", persistent.active));
            }
        }
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

    /// Several messages to one receiver, which is told of all before it looks: what `MPI_Isend`, `MPI_Irecv`
    /// and `MPI_Waitall` of many messages do. Always the same two processes, so that they learn which way is
    /// quicker.
    pub(super) fn send_burst(&mut self) -> Outcome {
        /// How often both look; what is not over by then goes on beside other calls.
        const ROUNDS: u32 = 6;
        /// What is moved before each look, at most.
        const MOVED_MAX: u64 = 64;
        let (from, to) = if self.one_in(4) { (1, 0) } else { (0, 1) };
        let can_call = |at| self.is_alive(at) && !self.is_blocked(at) && self.may_use(0, at);
        if !can_call(from) || !can_call(to) || self.arena_used > ARENA_BYTES / 4 {
            return Ok(());
        }
        let count = 2 + self.random.below(7);
        let wanted = Wanted { comm: 0, source: Some(from), tag: None, capacity: self.habits.length_max };
        let are_posted_first = self.one_in(2);
        if are_posted_first {
            (0..count).try_for_each(|_| self.receive_wanted(to, wanted))?;
        }
        for _ in 0..count {
            self.send_by(Way::NotAwaited(SendMode::Standard), from, to, 0, 0)?;
        }
        self.deliver(from, 0)?;
        self.pump(MOVED_MAX)?;
        if !are_posted_first {
            (0..count).try_for_each(|_| self.receive_wanted(to, wanted))?;
        }
        for _ in 0..ROUNDS {
            self.deliver(to, u64::MAX)?;
            self.deliver(from, u64::MAX)?;
            self.pump(MOVED_MAX)?;
        }
        self.collect().map(drop)
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

    pub(super) fn selectors(&self, wanted: &Wanted) -> (ids::Source, TagSelector) {
        let rank = |process| self.model.comms[wanted.comm].rank_of(process).unwrap_or(0);
        let source = wanted.source.map_or(ids::Source::Any, |process| ids::Source::Rank(rank(process)));
        (source, wanted.tag.map_or(TagSelector::Any, TagSelector::Tag))
    }

    pub(super) fn untouched(&mut self, capacity: usize) -> Option<Buffer> {
        self.memory(std::iter::repeat_n(UNTOUCHED, capacity))
    }

    fn receive(&mut self) -> Outcome {
        let popular = self.habits.popular.map(|at| at % self.count() as u32);
        let popular = popular.filter(|&at| self.is_alive(at) && !self.is_blocked(at));
        let at = match popular {
            Some(at) if self.one_in(2) => at,
            _ => match self.pick_idle() {
                Some(at) => at,
                None => return Ok(()),
            },
        };
        let mut wanted = self.pick_wanted(at);
        if popular == Some(at) && self.one_in(2) {
            (wanted.source, wanted.tag) = (None, None);
        }
        if self.habits.blocks && self.one_in(3) {
            // From one that can send it.
            let can_come = wanted.source.is_none_or(|source| self.has_comm(wanted.comm, source));
            return if can_come { self.receive_blocking(at, wanted) } else { Ok(()) };
        }
        if self.one_in(8) {
            return self.make_persistent_receive(at, wanted);
        }
        self.receive_wanted(at, wanted)
    }

    fn receive_wanted(&mut self, at: u32, wanted: Wanted) -> Outcome {
        let layout = if self.one_in(4) { self.untouched_blocks(wanted.capacity)? } else { None };
        let buffer = match &layout {
            Some(region) => region.memory(),
            None => match self.untouched(wanted.capacity) {
                Some(buffer) => buffer,
                None => return Ok(()),
            },
        };
        let sink = || layout.clone().map_or_else(|| Sink::from(buffer), Sink::from);
        let (source, tag) = self.selectors(&wanted);
        let comm = self.comm_id(wanted.comm, at);
        let number = self.model.post(at, wanted);
        self.log(format!("receive {number} at {at}: {wanted:?}, with gaps: {}", layout.is_some()));
        let always_request = self.random.below(2) == 0;
        let (process, port) = &mut self.nodes[at as usize];
        let posted = if always_request {
            process.irecv_request(port, comm, sink(), source, tag).map(Posted::Pending)
        } else {
            process.irecv(port, comm, sink(), source, tag)
        };
        if layout.is_some() {
            self.report.cover(Feature::ReceiveInBlocks);
        }
        self.add_receive(at, number, posted, (buffer, layout))
    }

    fn add_receive(
        &mut self,
        at: u32,
        number: usize,
        posted: Result<Posted, Error>,
        (buffer, layout): (Buffer, Option<Region>),
    ) -> Outcome {
        match posted {
            Err(error) => self.check_receive_error(number, error),
            Ok(Posted::Done(completion)) => {
                let received = layout.map_or(Ok(buffer), |region| self.unspread(&region))?;
                self.check_receive(at, number, &completion, &received)?;
                self.give_back(at, buffer, "of receive", number);
                Ok(())
            }
            Ok(Posted::Pending(id)) => {
                let (request, persistent) = (Some(id), None);
                self.receives.push(Receive { at, number, request, buffer, layout, persistent });
                Ok(())
            }
        }
    }

    fn make_persistent_receive(&mut self, at: u32, wanted: Wanted) -> Outcome {
        let Some(buffer) = self.untouched(wanted.capacity) else { return Ok(()) };
        let (source, tag) = self.selectors(&wanted);
        let comm = self.comm_id(wanted.comm, at);
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
        if active || !self.is_alive(at) || self.is_blocked(at) {
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
                let request = Some(id);
                self.receives.push(Receive { at, number, request, buffer, layout: None, persistent });
            }
        }
        self.persistent[index].active = true;
        Ok(())
    }

    fn probe(&mut self) -> Outcome {
        let Some(at) = self.pick_idle() else { return Ok(()) };
        let wanted = self.pick_wanted(at);
        let (source, tag) = self.selectors(&wanted);
        let comm = self.comm_id(wanted.comm, at);
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

    fn receive_some_held(&mut self) -> Outcome {
        match self.held.pop() {
            Some((at, message, number)) if !self.is_blocked(at) => self.receive_held(at, message, number),
            held => {
                self.held.extend(held);
                Ok(())
            }
        }
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
        self.add_receive(at, receive, posted, (buffer, None))
    }

    /// Receives the first message that waits unmatched. Whether there was one.
    pub(super) fn receive_first_arrived(&mut self, at: u32) -> Outcome<bool> {
        let comm_of = |number: usize| self.model.sent[number].comm;
        let arrived = self.model.arrived(at).iter().copied();
        let first = arrived.map(comm_of).find(|&comm| self.has_comm(comm, at));
        let (Some(comm), capacity) = (first, self.habits.length_max) else { return Ok(false) };
        if self.arena_used + capacity + 16 > ARENA_BYTES {
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
        if cancelling || persistent.is_some() || already_over || !self.is_alive(at) || self.is_blocked(at) {
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

    pub(super) fn crash_any(&mut self) {
        let alive: Vec<u32> = (0..self.count() as u32).filter(|&at| self.is_alive(at)).collect();
        let which = self.random.below(alive.len() as u64) as usize;
        self.crash(alive[which]);
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

    /// The completion of a request that is over; then it is forgotten.
    pub(super) fn take(&mut self, at: u32, id: RequestId) -> Outcome<Option<Completion>> {
        let process = &mut self.nodes[at as usize].0;
        let is_over = process.is_complete(id);
        let plain = if is_over && self.random.below(2) == 0 { process.take_plain(id) } else { None };
        let taken = match plain {
            Some(status) => Ok(Some(Completion { status, error: None })),
            None => process.take(id),
        };
        let taken = taken.map_err(|error| format!("process {at} does not know a request: {error}"))?;
        if taken.is_some() != is_over {
            return Err(format!("a request of process {at} is over: {is_over}, and {taken:?} is taken"));
        }
        Ok(taken)
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// As by `MPI_Isend`: what can leave now does, without a request.
    AtOnce,
    /// With a request.
    NotAwaited(SendMode),
    /// The same, from memory with gaps.
    InBlocks(SendMode),
    /// As by `MPI_Send`.
    Awaited(SendMode),
    /// With a gap of its own.
    Paced(Gap),
}
