//! Windows: what others do to those of this process, without a call of its user.

use super::children::Tail;
use super::{
    self as rma, ACTIVE_BYTES_MAX, ACTIVE_TAG, ActiveMessage, Child, Follow, Hold, Memory, Operand, PARENT,
    RESULT_BYTES_MAX, RowAccess, TODO, Todo, What, WindowId, Windows,
};
use crate::buffer::{Payload, Piece, payload_len};
use crate::coll::StepId;
use crate::data::Data;
use crate::datatype::Predefined;
use crate::device::Device;
use crate::error::{Blame, Error};
use crate::ids::{ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::link::LinkIndex;
use crate::matching::Key;
use crate::op::Operation;
use crate::p2p::{Arrival, Body};
use crate::request::{Completion, Posted, Request, State, Woken};
use crate::wire::{Envelope, Keys};
use alloc::vec::Vec;

const MALFORMED: Blame = Blame("a message of a window that is no correct one");

/// Handling of arrived messages.
impl Windows<'_> {
    /// The window whose active message a message is, and its sender's rank there. `None`: it is an ordinary
    /// message, or it waits behind a long active message.
    #[inline]
    fn active_to(&self, index: LinkIndex, envelope: &Envelope) -> Result<Option<u32>, Blame> {
        if !self.rma.has_windows() || envelope.tag != ACTIVE_TAG {
            return Ok(None);
        }
        let Some(at) = self.rma.window_of(envelope.context) else { return Ok(None) };
        let Some(window) = &self.rma.windows[at as usize] else { return Ok(None) };
        if window.group.process(envelope.source) != Some(self.messages.links.get(index).peer()) {
            return Err(MALFORMED);
        }
        let is_free = window.peers[envelope.source as usize].line.is_empty();
        Ok(is_free.then_some(at))
    }

    /// Takes a short active message. `false`: it is none; the caller keeps it as any unexpected message.
    #[inline]
    pub(crate) fn take_active(
        &mut self,
        index: LinkIndex,
        envelope: &Envelope,
        payload: Payload<'_>,
    ) -> Result<bool, Blame> {
        let Some(at) = self.active_to(index, envelope)? else { return Ok(false) };
        let rank = envelope.source;
        match payload {
            [Piece::Bytes(bytes), rest] | [rest, Piece::Bytes(bytes)] if rest.is_empty() => {
                if !self.is_row_access(at, rank, bytes) {
                    self.try_active(at, rank, bytes)?;
                }
            }
            [Piece::Bytes(first), Piece::Bytes(second)] => {
                self.try_active(at, rank, &[first, second].concat())?;
            }
            _ => return Err(MALFORMED),
        }
        self.messages.links.owe(index, payload_len(&payload));
        Ok(true)
    }

    /// Takes an announced active message. `false`: it is none.
    pub(crate) fn take_long_active(
        &mut self,
        index: LinkIndex,
        envelope: &Envelope,
        (sender, length, keys): (RequestId, u64, Keys),
    ) -> Result<bool, Blame> {
        let Some(at) = self.active_to(index, envelope)? else { return Ok(false) };
        if length > ACTIVE_BYTES_MAX {
            return Err(MALFORMED);
        }
        let mut scratch = self.rma.scratch(length as usize);
        let data = Data::Memory(scratch.buffer(length as usize));
        let completion = crate::p2p::completion_of(envelope, length, length as usize);
        let request =
            self.messages.requests.insert(Request::new(State::Inactive, crate::buffer::Buffer::EMPTY, None));
        self.messages.begin_receive(request, data, (index, sender), (keys, false), completion);
        self.adopt_active(Posted::Pending(request), (at, envelope.source), (scratch, length as usize));
        Ok(true)
    }

    /// A long active message is coming.
    fn adopt_active(
        &mut self,
        posted: Posted,
        (window, rank): (u32, Rank),
        (scratch, len): (crate::buffer::Scratch, usize),
    ) {
        let of = self.rma.windows[window as usize].as_mut().expect("its callers have looked");
        let what = What::ActiveMessage(of.peers[rank as usize].line.push(None, len));
        self.adopt_child(
            posted,
            Child { window, rank, what, scratch: Some((scratch, len)), operation: None },
        );
    }

    /// Handles the active messages that have come up to the next one that has not, and receives some of those
    /// behind it. Until all are handled, others that come go behind them.
    fn next_active(&mut self, at: u32, rank: Rank) -> Result<(), Blame> {
        loop {
            let Some(window) = self.rma.windows[at as usize].as_mut() else { return Ok(()) };
            if let Some((mut scratch, len)) = window.peers[rank as usize].line.pop() {
                self.handle_active(at, rank, scratch.buffer(len).piece().bytes().unwrap_or_default());
                self.rma.give_back(scratch);
                continue;
            }
            let key = Key::new(window.context, Source::Rank(rank), TagSelector::Tag(ACTIVE_TAG));
            let Some(slot) = self.messages.unexpected.find(&key) else { return Ok(()) };
            let Some((_, arrival)) = self.messages.arrivals.at(slot) else { return Ok(()) };
            let (length, is_long) = (arrival.length(), matches!(arrival.body, Body::Rts { .. }));
            if length > ACTIVE_BYTES_MAX {
                return Err(MALFORMED);
            }
            let len = length as usize;
            if !window.peers[rank as usize].line.has_room(len) {
                return Ok(());
            }
            let mut scratch = self.rma.scratch(len);
            let Some(posted) = self.messages.take_unexpected(&key, &scratch.buffer(len).into()) else {
                return Ok(());
            };
            if is_long {
                self.adopt_active(posted, (at, rank), (scratch, len));
            } else if let Some(window) = self.rma.windows[at as usize].as_mut() {
                window.peers[rank as usize].line.push(Some(scratch), len);
            }
        }
    }

    /// Handles a complete active message; an error in it cuts its sender off. A message of a sender lost
    /// meanwhile is ignored: it could hold a lock for ever.
    pub(super) fn handle_active(&mut self, at: u32, rank: Rank, bytes: &[u8]) {
        let window = self.rma.windows[at as usize].as_ref();
        if window.is_some_and(|window| window.peers[rank as usize].lost.is_some()) {
            return;
        }
        if let Err(Blame(what)) = self.try_active(at, rank, bytes) {
            self.blame_member(at, rank, what);
        }
    }

    fn blame_member(&mut self, at: u32, rank: Rank, what: &'static str) {
        let peer = self.rma.windows[at as usize].as_ref().and_then(|window| window.group.process(rank));
        if let Some(peer) = peer
            && let Some(index) = self.messages.links.index_of(peer)
        {
            self.rma.blamed.push_back((index, what));
        }
    }

    /// Does a put or get of bytes in a row, without a look at layouts. `false`: it is something else, or
    /// something is wrong with it, and nothing is done.
    #[inline(always)]
    fn is_row_access(&mut self, at: u32, rank: Rank, bytes: &[u8]) -> bool {
        let Some(row) = RowAccess::parse(bytes) else { return false };
        let memory = self.rma.windows[at as usize].as_ref().map(|window| &window.memory);
        let (Some(Memory::Fixed(memory) | Memory::Mapped(memory)), Ok(first)) =
            (memory, usize::try_from(row.displacement))
        else {
            return false;
        };
        if first > memory.len() || row.len > memory.len() - first {
            return false;
        }
        match row.get {
            None => {
                memory.scatter(first, Piece::Bytes(row.data));
                self.answer(at, rank, Follow::of_flush(row.flush));
            }
            Some(tag) => {
                let found = Ok(memory.part(first, row.len).into());
                self.open_reply((at, rank, tag), row.len as u64, found, None);
            }
        }
        true
    }

    fn try_active(&mut self, at: u32, rank: Rank, bytes: &[u8]) -> Result<(), Blame> {
        let (message, operand, data) = ActiveMessage::parse(bytes)?;
        match (message, operand) {
            (ActiveMessage::Put(Follow::Data(tag)), Some(operand)) if data.is_empty() => {
                let found = self.place_in(at, &operand);
                let sink = found.clone().unwrap_or(Data::EMPTY);
                self.refuse(at, rank, found.map(drop));
                // If the place is none, a receive without room takes the data and drops it.
                let begun = self.receive_data((WindowId(at), rank, tag), sink, What::Coming, (None, None));
                self.refuse(at, rank, begun);
            }
            (ActiveMessage::Put(follow), Some(operand)) => {
                if data.len() as u64 != operand.len {
                    return Err(MALFORMED);
                }
                let found = self.place_in(at, &operand);
                let written = found.map(|target| target.write(operand.offset as usize, Piece::Bytes(data)));
                self.refuse(at, rank, written);
                self.answer(at, rank, follow);
            }
            (ActiveMessage::Get(tag), Some(operand)) if data.is_empty() => {
                let found = self.place_in(at, &operand);
                self.open_reply((at, rank, tag), operand.len, found, None);
            }
            (ActiveMessage::Accumulate(operation, datatype, follow), Some(operand)) => {
                self.on_accumulate((at, rank), &operand, data, (operation, datatype), follow)?;
            }
            (ActiveMessage::Result { number, refused }, None) => {
                self.on_result((at, rank), number, rma::refusal(refused), data)?;
            }
            (ActiveMessage::CompareAndSwap(datatype, tag), Some(operand)) => {
                let size = datatype.size_bytes();
                if data.len() != 2 * size || operand.len != size as u64 || operand.offset != 0 {
                    return Err(MALFORMED);
                }
                let found = self.place_in(at, &operand);
                self.reply_with((at, rank, tag), found, size, |target, old| {
                    rma::compare_and_swap(target, data, old);
                    Ok(())
                });
            }
            (ActiveMessage::Several, None) => self.take_several(at, rank, data)?,
            (control, None) => self.on_control(at, rank, control)?,
            _ => return Err(MALFORMED),
        }
        Ok(())
    }

    /// Messages that were gathered, each of which is a short put or accumulate.
    fn take_several(&mut self, at: u32, rank: Rank, mut bytes: &[u8]) -> Result<(), Blame> {
        while !bytes.is_empty() {
            let (first, behind) = rma::split_gathered(bytes)?;
            if !self.is_row_access(at, rank, first) {
                self.try_active(at, rank, first)?;
            }
            bytes = behind;
        }
        Ok(())
    }

    fn on_accumulate(
        &mut self,
        (at, rank): (u32, Rank),
        operand: &Operand,
        data: &[u8],
        what: (Operation, Predefined),
        follow: Follow,
    ) -> Result<(), Blame> {
        let size = what.1.size_bytes() as u64;
        let is_read = what.0 != Operation::NoOp;
        let has_data = if is_read { data.len() as u64 == operand.len } else { data.is_empty() };
        let is_whole = operand.len.is_multiple_of(size) && operand.offset.is_multiple_of(size);
        if !has_data || !is_whole || operand.len > ACTIVE_BYTES_MAX {
            return Err(MALFORMED);
        }
        let (found, offset) = (self.place_in(at, operand), operand.offset as usize);
        match follow {
            Follow::Data(tag) => {
                self.reply_with((at, rank, tag), found, operand.len as usize, |target, old| {
                    rma::read(target, offset, old);
                    rma::apply(target, offset, data, what)
                })
            }
            follow => {
                let applied = found.and_then(|target| rma::apply(&target, offset, data, what));
                self.refuse(at, rank, applied);
                self.answer(at, rank, follow);
            }
        }
        Ok(())
    }

    /// Sends a result that `make` writes, or why there is none.
    fn reply_with(
        &mut self,
        (at, rank, tag): (u32, Rank, Tag),
        found: Result<Data, Error>,
        len: usize,
        make: impl FnOnce(&Data, &mut [u8]) -> Result<(), Error>,
    ) {
        let mut scratch = self.rma.scratch(len);
        let buffer = scratch.buffer(len);
        let made = rma::with_room(len, |old| {
            let made = found.and_then(|target| make(&target, old));
            buffer.scatter(0, Piece::Bytes(old));
            made
        });
        let result = made.map(|()| Data::from(buffer));
        self.open_reply((at, rank, tag), len as u64, result, Some((scratch, len)));
    }

    /// A short result comes, or the word that there is none.
    fn on_result(
        &mut self,
        (at, rank): (u32, Rank),
        number: u32,
        refused: Option<Error>,
        data: &[u8],
    ) -> Result<(), Blame> {
        const NOT_ASKED: Blame = Blame("a result that was not asked for");
        let Some(window) = self.rma.windows[at as usize].as_mut() else { return Ok(()) };
        let next = window.peers[rank as usize].results.front().filter(|wanted| wanted.number == number);
        let len = next.map(|wanted| if refused.is_some() { 0 } else { wanted.len });
        if len.is_some_and(|len| len != data.len()) {
            return Err(MALFORMED);
        }
        let Some(wanted) = len.and_then(|_| window.take_wanted(rank)) else {
            // A long result has a receive.
            let envelope = Envelope { context: window.context, source: rank, tag: number.cast_signed() };
            let error = refused.filter(|_| data.is_empty()).ok_or(NOT_ASKED)?;
            return if self.messages.fail_posted(&envelope, error) { Ok(()) } else { Err(NOT_ASKED) };
        };
        let result = refused.map_or_else(
            || {
                wanted.into.write(wanted.offset, Piece::Bytes(data));
                Ok(())
            },
            Err,
        );
        self.end_wanted(at, rank, &wanted, result);
        self.rma.is_urgent = true;
        self.settle_waiters(at);
        Ok(())
    }

    /// An operation is done: answers if its origin asked for that.
    fn answer(&mut self, at: u32, rank: Rank, follow: Follow) {
        if let Follow::Flushed(number) = follow
            && let Some(window) = self.rma.windows[at as usize].as_mut()
        {
            let peer = &mut window.peers[rank as usize];
            if peer.has_open_ends() {
                peer.flushes.push((number, false));
                return self.close_when_done(at, rank);
            }
            let refused = peer.refused.take().map_or(0, rma::refusal_of);
            self.push_todo(Todo::ActiveMessage(at, rank, ActiveMessage::Flushed { number, refused }));
        }
    }

    fn place_in(&self, at: u32, operand: &Operand) -> Result<Data, Error> {
        self.rma.get(WindowId(at))?.find_operand(operand)
    }

    /// Remembers that an operation was refused, for the origin's next flush.
    fn refuse(&mut self, at: u32, rank: Rank, result: Result<(), Error>) {
        if let Err(error) = result
            && let Some(window) = self.rma.windows[at as usize].as_mut()
        {
            window.peers[rank as usize].refused.get_or_insert(error);
        }
    }

    /// Opens a reply: a result for an operand of this length, or the reason why there is none. It counts as
    /// open from now on.
    fn open_reply(
        &mut self,
        (at, rank, tag): (u32, Rank, Tag),
        operand_len: u64,
        result: Result<Data, Error>,
        scratch: Option<(crate::buffer::Scratch, usize)>,
    ) {
        if let Some(window) = self.rma.windows[at as usize].as_mut() {
            window.peers[rank as usize].open += 1;
        }
        let refused = result.as_ref().err().map_or(0, |error| rma::refusal_of(*error));
        let message = ActiveMessage::Result { number: tag.cast_unsigned(), refused };
        self.push_todo(match result {
            Ok(data) if operand_len > RESULT_BYTES_MAX => Todo::Reply(at, rank, tag, data, scratch),
            Ok(data) => Todo::Result(at, rank, message, data, scratch),
            Err(_) => Todo::Result(at, rank, message, Data::EMPTY, scratch),
        });
    }
}

/// Synchronization.
impl Windows<'_> {
    fn on_control(&mut self, at: u32, rank: Rank, message: ActiveMessage) -> Result<(), Blame> {
        let Some(window) = self.rma.windows[at as usize].as_mut() else { return Ok(()) };
        let mut granted = Vec::new();
        let is_queued = window.is_queued(rank);
        let peer = &mut window.peers[rank as usize];
        match message {
            ActiveMessage::Lock { exclusive, number } => {
                if peer.holds != Hold::Nothing || is_queued {
                    return Err(Blame("a second lock of one window"));
                }
                let hold = if exclusive { Hold::Exclusive } else { Hold::Shared };
                peer.wish = number;
                window.lock(rank, hold, &mut granted);
            }
            ActiveMessage::Granted { number } => peer.is_granted |= number == peer.lock_number,
            ActiveMessage::Withdraw => window.forget_locks_of(rank, &mut granted),
            ActiveMessage::Flush { number, release } => {
                if release && peer.holds == Hold::Nothing {
                    return Err(Blame("a lock given back that was not granted"));
                }
                peer.flushes.push((number, release));
                self.close_when_done(at, rank);
                return Ok(());
            }
            ActiveMessage::Flushed { number, refused } => {
                if number == peer.flush_done
                    || number.wrapping_sub(peer.flush_done) > peer.flush_sent.wrapping_sub(peer.flush_done)
                {
                    return Err(Blame("an answer to a flush that was not sent"));
                }
                let done = number.wrapping_sub(peer.flush_done);
                peer.flush_done = number;
                // A flush after a fence is answered when what was done before that is over.
                if peer.unsettled_since.is_some_and(|since| number.wrapping_sub(since).cast_signed() > 0) {
                    peer.unsettled_since = None;
                }
                if let Some(error) = rma::refusal(refused) {
                    peer.failure.get_or_insert(error);
                }
                window.unflushed_count = window.unflushed_count.saturating_sub(done.into());
                self.rma.is_urgent = true;
                self.settle_waiters(at);
                return Ok(());
            }
            ActiveMessage::Fence { refused } => {
                if let Some(error) = rma::refusal(refused) {
                    peer.failure.get_or_insert(error);
                }
                peer.fencing = peer.fencing.wrapping_add(1);
                self.rma.is_urgent = true;
                self.close_when_done(at, rank);
                return Ok(());
            }
            ActiveMessage::Post => peer.posts += 1,
            ActiveMessage::Complete => {
                peer.completing += 1;
                self.close_when_done(at, rank);
                return Ok(());
            }
            _ => return Err(MALFORMED),
        }
        self.tell_granted(at, granted);
        self.settle_waiters(at);
        Ok(())
    }

    fn tell_granted(&mut self, at: u32, granted: Vec<Rank>) {
        for rank in granted {
            let Some(window) = &self.rma.windows[at as usize] else { return };
            let number = window.peers[rank as usize].wish;
            self.push_todo(Todo::ActiveMessage(at, rank, ActiveMessage::Granted { number }));
        }
    }

    /// If nothing of a member is open any more: answers its flushes, gives its lock back, ends its accesses.
    pub(super) fn close_when_done(&mut self, at: u32, rank: Rank) {
        let Some(window) = self.rma.windows[at as usize].as_mut() else { return };
        let peer = &mut window.peers[rank as usize];
        if peer.open > 0 || !peer.has_open_ends() {
            return;
        }
        peer.completes += core::mem::take(&mut peer.completing);
        peer.fences = peer.fences.wrapping_add(core::mem::take(&mut peer.fencing));
        let mut granted = Vec::new();
        for place in 0..peer.flushes.len() {
            let peer = &mut window.peers[rank as usize];
            let (number, release) = peer.flushes[place];
            let refused = peer.refused.take().map_or(0, rma::refusal_of);
            if release {
                window.unlock(rank, &mut granted);
            }
            self.rma.todo.push_back(Todo::ActiveMessage(
                at,
                rank,
                ActiveMessage::Flushed { number, refused },
            ));
        }
        window.peers[rank as usize].flushes.clear();
        self.tell_granted(at, granted);
        if !self.rma.todo.is_empty() {
            self.wake();
        }
        self.settle_waiters(at);
    }

    /// A process is lost: what waits for it ends, and its locks are free.
    #[cold]
    pub(crate) fn fail(&mut self, lost: ProcessId, error: Error) {
        for (at, rank) in self.rma.with_member(lost) {
            let Some(window) = self.rma.windows[at as usize].as_mut() else { continue };
            let mut granted = Vec::new();
            window.forget_locks_of(rank, &mut granted);
            drop(window.take_gathered(rank));
            let (context, peer) = (window.context, &mut window.peers[rank as usize]);
            peer.lost = Some(error);
            let unflushed = peer.flush_sent.wrapping_sub(peer.flush_done);
            if unflushed > 0 || peer.is_dirty || peer.pending > 0 {
                peer.failure = Some(error);
            }
            peer.flush_done = peer.flush_sent;
            peer.is_dirty = false;
            peer.flushes.clear();
            window.unflushed_count = window.unflushed_count.saturating_sub(unflushed.into());
            while let Some(wanted) =
                self.rma.windows[at as usize].as_mut().and_then(|of| of.take_wanted(rank))
            {
                self.end_wanted(at, rank, &wanted, Err(error));
            }
            self.tell_granted(at, granted);
            self.settle_waiters(at);
            // Messages that wait behind one that does not come.
            let is_its =
                |arrival: &Arrival| (arrival.envelope.context, arrival.envelope.source) == (context, rank);
            while self.messages.drop_arrival(is_its).is_some() {}
        }
    }
}

/// Work that waits for the device.
impl Windows<'_> {
    pub(super) fn push_todo(&mut self, todo: Todo) {
        self.rma.todo.push_back(todo);
        self.wake();
    }

    /// Makes `poll_transmit` look at the pending work.
    fn wake(&mut self) {
        self.rma.is_urgent = true;
        if !self.rma.is_woken {
            self.rma.is_woken = true;
            self.messages.woken.push_back(Woken {
                parent: PARENT,
                step: StepId(TODO),
                completion: Completion::EMPTY,
            });
        }
    }

    /// A message of a window has ended, or work is pending.
    pub(crate) fn on_woken<D: Device>(
        &mut self,
        device: &mut D,
        StepId(step): StepId,
        completion: &Completion,
    ) {
        if step != TODO {
            return self.end_child(step, completion);
        }
        self.rma.is_woken = false;
        self.do_pending(device);
    }

    /// Does the work that waits for the device.
    pub(super) fn do_pending<D: Device>(&mut self, device: &mut D) {
        while let Some(todo) = self.rma.todo.pop_front() {
            match todo {
                // A member that is lost needs no answer.
                Todo::ActiveMessage(at, rank, message) => {
                    let _ = self.send_control(device, WindowId(at), rank, message);
                }
                Todo::Result(at, rank, message, data, scratch) => {
                    self.send_result(device, (at, rank), message, &data);
                    if let Some((scratch, _)) = scratch {
                        self.rma.give_back(scratch);
                    }
                    self.end_open(at, rank);
                }
                Todo::Reply(at, rank, tag, data, scratch) => {
                    let to = (WindowId(at), rank, tag);
                    let _ = self.send_data(device, to, data, What::Reply, (scratch, None));
                    // Counted twice: when the active message came, and now.
                    self.end_open(at, rank);
                }
                Todo::Next(at, rank) => {
                    if let Err(Blame(what)) = self.next_active(at, rank) {
                        self.blame_member(at, rank, what);
                    }
                }
            }
        }
    }

    /// Sends a short result, which is read now. A member that is lost needs none.
    fn send_result<D: Device>(
        &mut self,
        device: &mut D,
        (at, rank): (u32, Rank),
        message: ActiveMessage,
        data: &Data,
    ) {
        let is_sent = data.as_memory().is_some_and(|data| {
            self.control_goes_at_once(device, (WindowId(at), rank), &message, Some(data))
        });
        if !is_sent && let Ok(head) = message.emit(None) {
            let tail = Tail::Data(data, 0, data.len());
            let _ = self.send_active(device, WindowId(at), rank, &head, tail);
        }
    }

    /// A reply to a member has been sent.
    fn end_open(&mut self, at: u32, rank: Rank) {
        if let Some(window) = self.rma.windows[at as usize].as_mut() {
            let open = &mut window.peers[rank as usize].open;
            *open = open.saturating_sub(1);
        }
        self.close_when_done(at, rank);
    }

    /// Sends an active message without data, or handles it if it is to ourselves.
    pub(super) fn send_control<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        rank: Rank,
        message: ActiveMessage,
    ) -> Result<(), Error> {
        if self.control_goes_at_once(device, (window, rank), &message, None) {
            return Ok(());
        }
        if self.peer_of(window, rank)? == self.messages.me {
            return self.on_control(window.0, rank, message).map_err(|Blame(what)| Error::Argument(what));
        }
        let head = message.emit(None)?;
        self.send_active(device, window, rank, &head, Tail::Nothing)
    }

    /// Asks a target for an answer when all that we have sent is done there.
    pub(super) fn send_flush<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        rank: Rank,
        release: bool,
    ) -> Result<(), Error> {
        let of = self.rma.get_mut(window)?;
        let number = of.new_flush(rank);
        let sent = self.send_control(device, window, rank, ActiveMessage::Flush { number, release });
        if let Err(error) = sent {
            let of = self.rma.get_mut(window)?;
            of.take_back_flush(rank);
            of.peer(rank)?.failure.get_or_insert(error);
        }
        Ok(())
    }
}
