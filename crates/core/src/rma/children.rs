//! Messages of windows: how they leave, and what their end means.

use super::{
    ACTIVE_TAG, Child, GATHERED_BYTES_MAX, Head, INLINE_BYTES_MAX, PARENT, ROW_BYTES_MAX, Todo, Wanted, What,
    WindowId, Windows,
};
use crate::buffer::{Buffer, Piece, Scratch};
use crate::coll::StepId;
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{ProcessId, Rank, RequestId, Tag, TagSelector};
use crate::matching::Key;
use crate::request::{Completion, Posted, Request, SendMode, State};
use crate::wire::Envelope;

/// Content of an active message behind its head.
#[derive(Clone, Copy)]
pub(super) enum Tail<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// Part of a packed stream: first byte and number of bytes.
    Data(&'a Data, usize, usize),
}

impl Tail<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Data(_, _, len) => *len,
        }
    }
}

/// Writes an active message into memory of its length.
fn lay_out(head: &Head, tail: Tail<'_>, buffer: Buffer) {
    let (fixed, layout) = head.parts();
    buffer.scatter(0, Piece::Bytes(fixed));
    buffer.scatter(fixed.len(), Piece::Bytes(layout));
    match tail {
        Tail::Nothing => {}
        Tail::Bytes(bytes) => buffer.scatter(head.len(), Piece::Bytes(bytes)),
        Tail::Data(data, offset, len) => data.copy_out(offset, buffer.part(head.len(), len)),
    }
}

/// Sending.
impl Windows<'_> {
    pub(super) fn peer_of(&self, window: WindowId, rank: Rank) -> Result<ProcessId, Error> {
        let group = &self.rma.get(window)?.group;
        group.process(rank).ok_or(Error::Rank { rank: rank.into(), size: group.size() })
    }

    pub(super) fn takes_eagerly(&self, window: WindowId, rank: Rank, len: usize) -> bool {
        let index = self.peer_of(window, rank).ok().and_then(|peer| self.messages.links.index_of(peer));
        index.is_some_and(|index| self.messages.links.get(index).allows_longer_eager(len, false))
    }

    /// A request of the user's for one operation. The call that begins it counts as one part.
    pub(super) fn new_operation(&mut self, is_wanted: bool) -> Option<RequestId> {
        let request = || Request::new(State::Parts(1, None), Buffer::EMPTY, None);
        is_wanted.then(|| self.messages.requests.insert(request()))
    }

    /// The call that begins an operation has done its part.
    pub(super) fn begun(
        &mut self,
        operation: Option<RequestId>,
        result: Result<(), Error>,
    ) -> Result<Posted, Error> {
        let Some(id) = operation else { return result.map(|()| Posted::Done(Completion::EMPTY)) };
        let request = self.messages.requests.get_mut(id).map(|request| &mut request.state);
        let Some(State::Parts(left, error)) = request else { return Err(Error::Request) };
        *left -= 1;
        let (left, error) = (*left, *error);
        if left > 0 && result.is_ok() {
            return Ok(Posted::Pending(id));
        }
        self.messages.requests.remove(id);
        result.map(|()| Posted::Done(error.map_or(Completion::EMPTY, Completion::failed)))
    }

    fn envelope(&self, window: WindowId, tag: Tag) -> Result<Envelope, Error> {
        let window = self.rma.get(window)?;
        Ok(Envelope { context: window.context, source: window.rank, tag })
    }

    /// Sends an active message: its head, and data behind it.
    pub(super) fn send_active<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        rank: Rank,
        head: &Head,
        tail: Tail<'_>,
    ) -> Result<(), Error> {
        let len = head.len() + tail.len();
        let may_be_gathered = head.may_be_gathered() && tail.len() <= ROW_BYTES_MAX;
        match self.rma.get(window)?.has_room_to_gather(rank, len) {
            Some(true) if may_be_gathered => return self.gather((window, rank), head, tail),
            Some(_) => self.send_gathered(device, window, rank)?,
            None => {}
        }
        if self.send_active_at_once(device, (window, rank), head, tail)? {
            return Ok(());
        }
        if may_be_gathered && self.has_no_credit(window, rank, len) {
            return self.gather((window, rank), head, tail);
        }
        let mut scratch = self.rma.scratch(len);
        let buffer = scratch.buffer(len);
        lay_out(head, tail, buffer);
        // The memory of long ones is waited for as if it were the user's: what a program has under way stays
        // bounded.
        let what = if len > 2 * INLINE_BYTES_MAX { What::Leaving } else { What::Post };
        self.send_data(device, (window, rank, ACTIVE_TAG), buffer.into(), what, (Some((scratch, len)), None))
    }

    /// Whether a member can be talked to, and there is no credit for so many bytes.
    fn has_no_credit(&self, window: WindowId, rank: Rank, len: usize) -> bool {
        let is_there = self
            .rma
            .get(window)
            .is_ok_and(|of| of.peers.get(rank as usize).is_some_and(|peer| peer.lost.is_none()));
        let index = self.peer_of(window, rank).ok().and_then(|peer| self.messages.links.index_of(peer));
        is_there && index.is_some() && !self.takes_eagerly(window, rank, len)
    }

    /// Keeps a short operation, with its data, to be sent with others.
    fn gather(&mut self, (window, rank): (WindowId, Rank), head: &Head, tail: Tail<'_>) -> Result<(), Error> {
        if self.rma.get(window)?.has_room_to_gather(rank, 0).is_none() {
            let scratch = self.rma.scratch(GATHERED_BYTES_MAX);
            self.rma.get_mut(window)?.begin_gathering(rank, scratch);
        }
        if let Some(place) = self.rma.get_mut(window)?.gather(rank, head.len() + tail.len()) {
            lay_out(head, tail, place);
        }
        Ok(())
    }

    /// Sends the operations that are gathered for a member.
    fn send_gathered<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        rank: Rank,
    ) -> Result<(), Error> {
        let Some((mut scratch, len)) = self.rma.get_mut(window)?.take_gathered(rank) else { return Ok(()) };
        let (to, data) = ((window, rank, ACTIVE_TAG), scratch.buffer(len).into());
        // Its users have gone on. Should it fail, so does the flush that they need.
        self.send_data(device, to, data, What::Post, (Some((scratch, len)), None))
    }

    /// Sends an active message from where it lies, if it lies in two pieces and can go at once.
    #[inline]
    fn send_active_at_once<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank): (WindowId, Rank),
        head: &Head,
        tail: Tail<'_>,
    ) -> Result<bool, Error> {
        let (fixed, layout) = head.parts();
        let rest = match tail {
            Tail::Nothing => Piece::EMPTY,
            Tail::Bytes(bytes) => Piece::Bytes(bytes),
            Tail::Data(Data::Memory(buffer), offset, len) if !buffer.is_virtual() => {
                buffer.gather(offset, len)[0]
            }
            Tail::Data(..) => return Ok(false),
        };
        let of = self.rma.get(window)?;
        let size = of.group.size();
        let peer = of.group.process(rank).ok_or(Error::Rank { rank: rank.into(), size })?;
        let envelope = Envelope { context: of.context, source: of.rank, tag: ACTIVE_TAG };
        let Some(index) = self.messages.links.index_of(peer).filter(|_| layout.is_empty()) else {
            return Ok(false);
        };
        let message = (fixed.len() + rest.len(), [Piece::Bytes(fixed), rest]);
        Ok(self.messages.offer_payload_at_once(device, index, &envelope, message))
    }

    /// Sends a message of a window.
    pub(super) fn send_data<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, tag): (WindowId, Rank, Tag),
        data: Data,
        what: What,
        (scratch, operation): (Option<(Scratch, usize)>, Option<RequestId>),
    ) -> Result<(), Error> {
        let (peer, envelope) = (self.peer_of(window, rank)?, self.envelope(window, tag)?);
        let posted = self.messages.send_message(device, peer, envelope, data, SendMode::Standard, false)?;
        self.adopt_child(posted, Child { window: window.0, rank, what, scratch, operation });
        Ok(())
    }

    /// Begins the receive of a message of a window.
    pub(super) fn receive_data(
        &mut self,
        (window, rank, tag): (WindowId, Rank, Tag),
        data: Data,
        what: What,
        (scratch, operation): (Option<(Scratch, usize)>, Option<RequestId>),
    ) -> Result<(), Error> {
        let peer = self.peer_of(window, rank)?;
        let context = self.rma.get(window)?.context;
        let key = Key::new(context, crate::ids::Source::Rank(rank), TagSelector::Tag(tag));
        let posted = self.messages.receive_message(key, Some(peer), data)?;
        self.adopt_child(posted, Child { window: window.0, rank, what, scratch, operation });
        Ok(())
    }

    /// Begins the receive of a part of a result.
    pub(super) fn receive_part(
        &mut self,
        at: (WindowId, Rank, Tag),
        result: &Data,
        (offset, len): (usize, usize),
        operation: Option<RequestId>,
    ) -> Result<(), Error> {
        match result {
            data if len == data.len() => {
                self.receive_data(at, data.clone(), What::Result(len as u64, None), (None, operation))
            }
            Data::Memory(buffer) => {
                let part = buffer.part(offset, len).into();
                self.receive_data(at, part, What::Result(len as u64, None), (None, operation))
            }
            Data::Region(region) => {
                let mut scratch = self.rma.scratch(len);
                let buffer = scratch.buffer(len).into();
                let what = What::Result(len as u64, Some((region.clone(), offset)));
                self.receive_data(at, buffer, what, (Some((scratch, len)), operation))
            }
        }
    }

    /// A message of a window is under way, or over.
    pub(super) fn adopt_child(&mut self, posted: Posted, mut child: Child) {
        let is_sent = matches!(posted, Posted::Done(Completion { error: None, .. }))
            && matches!(child.what, What::Post | What::Reply | What::Leaving)
            && child.operation.is_none();
        if is_sent {
            // Nothing is left to wait for, and no wait has begun.
            if let Some((scratch, _)) = child.scratch.take() {
                self.rma.give_back(scratch);
            }
            return;
        }
        self.count_child(&child, true);
        let id = self.rma.children.insert(child);
        match posted {
            Posted::Pending(request) => {
                if let Some(request) = self.messages.requests.get_mut(request) {
                    request.parent = Some((PARENT, StepId(id.index)));
                }
            }
            Posted::Done(completion) => {
                self.end_child(id.index, &completion);
            }
        }
    }

    /// Counts a message that begins (or one that has ended) where it is waited for.
    fn count_child(&mut self, child: &Child, begins: bool) {
        let change = |count: &mut u32| *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        let Some(window) = self.rma.windows[child.window as usize].as_mut() else { return };
        let peer = &mut window.peers[child.rank as usize];
        match child.what {
            What::Leaving | What::Result(..) => {
                change(&mut peer.pending);
                let all = &mut window.pending_count;
                *all = if begins { *all + 1 } else { all.saturating_sub(1) };
            }
            What::Coming | What::Reply => change(&mut peer.open),
            What::ActiveMessage(_) | What::Post => {}
        }
        if let Some(State::Parts(left, _)) = self.state_of(child.operation) {
            change(left);
        }
    }

    /// The state of the user's request for an operation.
    pub(super) fn state_of(&mut self, operation: Option<RequestId>) -> Option<&mut State> {
        Some(&mut self.messages.requests.get_mut(operation?)?.state)
    }

    /// A part of an operation is over that its request does not count any more.
    fn end_part(&mut self, operation: Option<RequestId>) {
        if let Some(&mut State::Parts(0, error)) = self.state_of(operation)
            && let Some(id) = operation
        {
            let completion = error.map_or(Completion::EMPTY, Completion::failed);
            self.messages.complete(id, completion);
        }
    }

    /// A short result has come, or will not come.
    pub(super) fn end_wanted(&mut self, at: u32, rank: Rank, wanted: &Wanted, result: Result<(), Error>) {
        if let Some(State::Parts(left, first)) = self.state_of(wanted.operation) {
            *left = left.saturating_sub(1);
            if let Err(error) = result {
                first.get_or_insert(error);
            }
        } else if let Err(error) = result
            && let Some(window) = self.rma.windows[at as usize].as_mut()
        {
            window.peers[rank as usize].failure.get_or_insert(error);
        }
        self.end_part(wanted.operation);
    }

    /// A message of a window is over.
    pub(super) fn end_child(&mut self, step: u32, completion: &Completion) {
        let result = self.rma.result_of(step, completion);
        let Some(id) = self.rma.children.id_at(step) else { return };
        let Some(mut child) = self.rma.children.remove(id) else { return };
        self.count_child(&child, false);
        let at = child.window;
        if let Some((mut scratch, len)) = child.scratch.take() {
            match &child.what {
                // The device may still use it.
                _ if result.is_err() => core::mem::forget(scratch),
                What::ActiveMessage(number) => {
                    if let Some(window) = self.rma.windows[at as usize].as_mut() {
                        window.peers[child.rank as usize].line.has_come(*number, scratch, len);
                        self.push_todo(Todo::Next(at, child.rank));
                    }
                }
                what => {
                    if let What::Result(_, Some((region, offset))) = what {
                        region.unpack(*offset, scratch.buffer(len));
                    }
                    self.rma.give_back(scratch);
                }
            }
        }
        if let Err(error) = result {
            self.note_failure(&child, error);
        }
        self.end_part(child.operation);
        match child.what {
            What::Coming | What::Reply => self.close_when_done(at, child.rank),
            _ => self.settle_waiters(at),
        }
    }

    fn note_failure(&mut self, child: &Child, error: Error) {
        let operation = child.operation.and_then(|id| self.messages.requests.get_mut(id));
        if let Some(State::Parts(_, first)) = operation.map(|request| &mut request.state) {
            first.get_or_insert(error);
            return;
        }
        let Some(window) = self.rma.windows[child.window as usize].as_mut() else { return };
        let peer = &mut window.peers[child.rank as usize];
        match child.what {
            What::Leaving | What::Result(..) => peer.failure.get_or_insert(error),
            What::Coming => peer.refused.get_or_insert(error),
            _ => return,
        };
    }
}
