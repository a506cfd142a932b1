//! What a process does to the windows of others.

use super::{
    self as rma, ACTIVE_TAG, ActiveMessage, CHUNK_BYTES, Child, INLINE_BYTES_MAX, Memory, Operand, PARENT,
    Place, Todo, Wants, What, Window, WindowId, Windows,
};
use crate::buffer::{Buffer, Piece, Scratch};
use crate::coll::StepId;
use crate::data::{Data, Sink, Source};
use crate::datatype::Predefined;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Tag, TagSelector};
use crate::matching::Key;
use crate::op::Operation;
use crate::request::{Completion, Posted, Request, SendMode, State};
use crate::wire::Envelope;
use alloc::vec;
use alloc::vec::Vec;

/// Windows.
impl Windows<'_> {
    /// A window of the members of a communicator that nothing else uses. Nobody may access it before all have
    /// added it. The contract of [`Buffer::from_raw_parts`] holds for its memory until it is removed, with
    /// the accesses of the program excepted that MPI-5.0 §12.7 allows.
    pub fn add(&mut self, comm: CommId, memory: Memory) -> Result<WindowId, Error> {
        let communicator = self.comms.get(comm)?;
        let (context, group, rank) =
            (communicator.context(), communicator.group().clone(), communicator.rank());
        let free = self.rma.windows.iter().position(Option::is_none);
        let at = free.unwrap_or(self.rma.windows.len());
        if free.is_none() {
            self.rma.windows.push(None);
        }
        let mut window = Window::new(context, group, rank, memory);
        for (peer, error) in &self.messages.lost {
            if let Some(rank) = window.group.rank_of(*peer) {
                window.peers[rank as usize].lost = Some(*error);
            }
        }
        self.rma.windows[at] = Some(window);
        self.rma.by_context.insert(context, at as u32);
        if self.rma.anchor.is_none() {
            let anchor = Request::new(State::Parts(1, None), Buffer::EMPTY, None);
            self.rma.anchor = Some(self.messages.requests.insert(anchor));
            self.messages.endless_count += 1;
        }
        Ok(WindowId(at as u32))
    }

    /// Gives a window up. All members have ended their accesses.
    pub fn remove(&mut self, window: WindowId) -> Result<(), Error> {
        let context = self.rma.get(window)?.context;
        self.rma.by_context.remove(&context);
        self.rma.windows[window.0 as usize] = None;
        if !self.rma.has_windows()
            && let Some(anchor) = self.rma.anchor.take()
        {
            self.messages.requests.remove(anchor);
            self.messages.endless_count -= 1;
        }
        Ok(())
    }

    /// Adds memory to a dynamic window, or takes that out again which begins there (`is_attached`: whether it
    /// is added).
    pub fn change(&mut self, window: WindowId, memory: Buffer, is_attached: bool) -> Result<(), Error> {
        let Memory::Dynamic(pieces) = &mut self.rma.get_mut(window)?.memory else {
            return Err(Error::Argument("the window is not dynamic"));
        };
        if is_attached {
            pieces.push(memory);
            return Ok(());
        }
        let at = pieces.iter().position(|piece| piece.as_ptr() == memory.as_ptr());
        let at = at.ok_or(Error::Argument("no such memory is attached"))?;
        pieces.swap_remove(at);
        Ok(())
    }
}

/// The length of an operation's data, in which both sides agree.
fn length_of(data: &Data, place: &Place) -> Result<usize, Error> {
    match place.len()? == data.len() {
        true => Ok(data.len()),
        false => Err(Error::Argument("origin and target data differ in length")),
    }
}

/// Operations. Each has `wants_request`: whether its user waits for it alone.
impl Windows<'_> {
    /// Writes to a window (`MPI_Put`, `MPI_Rput`). The request, if wanted, is over when the source may be
    /// changed.
    pub fn put<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, place): (WindowId, Rank, Place),
        source: impl Into<Source>,
        wants_request: bool,
    ) -> Result<Posted, Error> {
        let data = source.into().0;
        let len = length_of(&data, &place)?;
        if len == 0 {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        if self.peer_of(window, rank)? == self.messages.me {
            let target = self.rma.get(window)?.find(&place)?;
            target.copy_from(&data, len);
            return Ok(Posted::Done(Completion::EMPTY));
        }
        self.rma.get_mut(window)?.peer(rank)?.is_dirty = true;
        let operand = Operand { place, offset: 0, len: len as u64 };
        if len <= INLINE_BYTES_MAX && (len <= 1024 || self.takes_eagerly(window, rank, len + 256)) {
            let head = ActiveMessage::Put(None).emit(Some(&operand))?;
            self.send_active(device, window, rank, &head, Some((&data, 0, len)))?;
            return Ok(Posted::Done(Completion::EMPTY));
        }
        let tag = self.rma.get_mut(window)?.new_tag(rank, false)?;
        let head = ActiveMessage::Put(Some(tag)).emit(Some(&operand))?;
        self.send_active(device, window, rank, &head, None)?;
        let operation = self.new_operation(wants_request);
        let sent = self.send_data(device, (window, rank, tag), data, What::Leaving, (None, operation));
        self.begun(operation, sent)
    }

    /// Reads from a window (`MPI_Get`, `MPI_Rget`).
    pub fn get<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, place): (WindowId, Rank, Place),
        sink: impl Into<Sink>,
        wants_request: bool,
    ) -> Result<Posted, Error> {
        let data = sink.into().0;
        let len = length_of(&data, &place)?;
        if len == 0 {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        if self.peer_of(window, rank)? == self.messages.me {
            let target = self.rma.get(window)?.find(&place)?;
            data.copy_from(&target, len);
            return Ok(Posted::Done(Completion::EMPTY));
        }
        let tag = self.rma.get_mut(window)?.new_tag(rank, true)?;
        let operand = Operand { place, offset: 0, len: len as u64 };
        let head = ActiveMessage::Get(tag).emit(Some(&operand))?;
        let operation = self.new_operation(wants_request);
        let what = What::Result(len as u64, None);
        let posted = self.receive_data((window, rank, tag), data, what, (None, operation));
        let sent = posted.and_then(|()| self.send_active(device, window, rank, &head, None));
        self.begun(operation, sent)
    }

    /// Reduces into a window, and fetches the elements from before if `fetched` is given (`MPI_Accumulate`,
    /// `MPI_Get_accumulate`, `MPI_Fetch_and_op` and their request forms). Without a source the operation
    /// reads nothing.
    pub fn accumulate<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, place): (WindowId, Rank, Place),
        (source, fetched): (Option<Source>, Option<Sink>),
        (operation, datatype): (Operation, Predefined),
        wants_request: bool,
    ) -> Result<Posted, Error> {
        let len = place.len()?;
        let lens = [source.as_ref().map(|source| source.0.len()), fetched.as_ref().map(|sink| sink.0.len())];
        if lens.into_iter().flatten().any(|other| other != len) || !len.is_multiple_of(datatype.size_bytes())
        {
            return Err(Error::Argument("origin, result and target data differ in length"));
        }
        crate::op::Reducer::for_accumulate(operation, datatype)?;
        if source.is_none() && operation != Operation::NoOp {
            return Err(Error::Argument("the operation reads data, and there is none"));
        }
        let source = source.filter(|_| operation != Operation::NoOp).map(|source| source.0);
        let fetched = fetched.map(|sink| sink.0);
        if self.peer_of(window, rank)? == self.messages.me {
            let target = self.rma.get(window)?.find(&place)?;
            rma::accumulate_here(&target, source.as_ref(), fetched.as_ref(), (operation, datatype))?;
            return Ok(Posted::Done(Completion::EMPTY));
        }
        if source.is_none() && fetched.is_none() {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        // Old elements that have come say that all is done at the target: no flush has to ask for it.
        self.rma.get_mut(window)?.peer(rank)?.is_dirty |= fetched.is_none();
        let id = self.new_operation(wants_request);
        let ends = (source.as_ref(), fetched.as_ref());
        let sent = self.send_chunks(device, (window, rank, place), ends, (operation, datatype), id);
        self.begun(id, sent)
    }

    fn send_chunks<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, place): (WindowId, Rank, Place),
        (source, fetched): (Option<&Data>, Option<&Data>),
        (operation, datatype): (Operation, Predefined),
        id: Option<RequestId>,
    ) -> Result<(), Error> {
        let len = place.len()?;
        let chunk = CHUNK_BYTES / datatype.size_bytes() * datatype.size_bytes();
        for offset in (0..len).step_by(chunk) {
            let part = chunk.min(len - offset);
            let mut tag = None;
            if let Some(fetched) = fetched {
                let result = self.rma.get_mut(window)?.new_tag(rank, true)?;
                self.receive_part((window, rank, result), fetched, (offset, part), id)?;
                tag = Some(result);
            }
            let operand = Operand { place: place.clone(), offset: offset as u64, len: part as u64 };
            let head = ActiveMessage::Accumulate(operation, datatype, tag).emit(Some(&operand))?;
            self.send_active(device, window, rank, &head, source.map(|source| (source, offset, part)))?;
        }
        Ok(())
    }

    /// Replaces one element if it equals another, and fetches it (`MPI_Compare_and_swap`).
    pub fn compare_and_swap<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, place): (WindowId, Rank, Place),
        (compare, origin): (Buffer, Buffer),
        result: Buffer,
        datatype: Predefined,
    ) -> Result<(), Error> {
        let size = datatype.size_bytes();
        let mut both = vec![0; 2 * size];
        rma::read(&compare.into(), 0, &mut both[..size]);
        rma::read(&origin.into(), 0, &mut both[size..]);
        if self.peer_of(window, rank)? == self.messages.me {
            let target = self.rma.get(window)?.find(&place)?;
            let mut old = vec![0; size];
            rma::compare_and_swap(&target, &both, &mut old);
            result.scatter(0, Piece::Bytes(&old));
            return Ok(());
        }
        let tag = self.rma.get_mut(window)?.new_tag(rank, true)?;
        let operand = Operand { place, offset: 0, len: size as u64 };
        let mut head = ActiveMessage::CompareAndSwap(datatype, tag).emit(Some(&operand))?;
        head.extend_from_slice(&both);
        let what = What::Result(size as u64, None);
        self.receive_data((window, rank, tag), result.into(), what, (None, None))?;
        self.send_active(device, window, rank, &head, None)
    }
}

/// Synchronization.
impl Windows<'_> {
    /// Waits until operations on a target, or on all, are over: here, or at the target too (`MPI_Win_flush`
    /// and its kin).
    pub fn flush<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        rank: Option<Rank>,
        is_local: bool,
    ) -> Result<Posted, Error> {
        if is_local {
            return self.wait_for(window, Wants::Local(rank));
        }
        let ranks = match rank {
            Some(rank) => rank..rank + 1,
            None => 0..self.rma.get(window)?.peers.len() as u32,
        };
        for rank in ranks {
            if self.rma.get_mut(window)?.peer(rank)?.is_dirty {
                self.send_flush(device, window, rank, false)?;
            }
        }
        self.wait_for(window, Wants::Done(rank))
    }

    /// Asks for the locks of some targets; over when all are granted. If that fails, none is held.
    pub fn lock<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        ranks: Vec<Rank>,
        exclusive: bool,
    ) -> Result<Posted, Error> {
        let mut result = Ok(());
        let mut asked_count = 0;
        for &rank in &ranks {
            let peer = self.rma.get_mut(window)?.peer(rank)?;
            peer.is_granted = false;
            peer.lock_number = peer.lock_number.wrapping_add(1);
            let number = peer.lock_number;
            result = self.send_control(device, window, rank, ActiveMessage::Lock { exclusive, number });
            if result.is_err() {
                break;
            }
            asked_count += 1;
        }
        let asked = ranks[..asked_count].to_vec();
        let result = result.and_then(|()| self.wait_for(window, Wants::Locks(ranks)));
        if result.is_err() {
            self.withdraw_locks(window.0, &asked);
        }
        result
    }

    /// A request for these locks has failed.
    fn withdraw_locks(&mut self, at: u32, ranks: &[Rank]) {
        for &rank in ranks {
            let Some(window) = self.rma.windows[at as usize].as_mut() else { return };
            let peer = &mut window.peers[rank as usize];
            peer.is_granted = false;
            // What is granted from now on was granted to nobody.
            peer.lock_number = peer.lock_number.wrapping_add(1);
            self.push_todo(Todo::ActiveMessage(at, rank, ActiveMessage::Withdraw));
        }
    }

    /// Ends all operations on some targets and, if they are locked, gives the locks back.
    pub fn unlock<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        ranks: Vec<Rank>,
        is_locked: bool,
    ) -> Result<Posted, Error> {
        for &rank in &ranks {
            if is_locked || self.rma.get_mut(window)?.peer(rank)?.is_dirty {
                self.send_flush(device, window, rank, is_locked)?;
            }
        }
        let only = if let [rank] = ranks[..] { Some(rank) } else { None };
        self.wait_for(window, Wants::Done(only))
    }

    /// Lets members access this window (`MPI_Win_post`).
    pub fn post<D: Device>(&mut self, device: &mut D, window: WindowId, ranks: &[Rank]) -> Result<(), Error> {
        ranks.iter().try_for_each(|&rank| self.send_control(device, window, rank, ActiveMessage::Post))
    }

    /// Over when all of these have let us access their windows (`MPI_Win_start`).
    pub fn start(&mut self, window: WindowId, ranks: Vec<Rank>) -> Result<Posted, Error> {
        self.wait_for(window, Wants::Posts(ranks))
    }

    /// Ends the access to the windows of these; over when all is done here (`MPI_Win_complete`).
    pub fn complete<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        ranks: &[Rank],
    ) -> Result<Posted, Error> {
        for &rank in ranks {
            self.send_control(device, window, rank, ActiveMessage::Complete)?;
            // The target waits for what was started.
            self.rma.get_mut(window)?.peer(rank)?.is_dirty = false;
        }
        self.wait_for(window, Wants::Local(None))
    }

    /// Over when all of these have ended their access (`MPI_Win_wait`).
    pub fn wait(&mut self, window: WindowId, ranks: Vec<Rank>) -> Result<Posted, Error> {
        self.wait_for(window, Wants::Completes(ranks))
    }

    /// Whether all of these have ended their access; then that is used up (`MPI_Win_test`).
    pub fn test(&mut self, window: WindowId, ranks: Vec<Rank>) -> Result<bool, Error> {
        let of = self.rma.get_mut(window)?;
        let wants = Wants::Completes(ranks);
        let over = of.settle(&wants);
        // Who asks again and again waits, too: a member that has given us up is to tell us so.
        of.tested = over.is_none().then_some(wants);
        over.transpose().map(|over| over.is_some())
    }

    /// A request that is over when `wants` has come.
    fn wait_for(&mut self, window: WindowId, wants: Wants) -> Result<Posted, Error> {
        let of = self.rma.get_mut(window)?;
        if let Some(result) = of.settle(&wants) {
            return result.map(|()| Posted::Done(Completion::EMPTY));
        }
        let id = self.messages.requests.insert(Request::new(State::Parts(1, None), Buffer::EMPTY, None));
        of.waiters.push((id, wants));
        Ok(Posted::Pending(id))
    }

    /// Ends the requests whose condition has come.
    pub(super) fn settle_waiters(&mut self, at: u32) {
        let Some(window) = self.rma.windows[at as usize].as_mut().filter(|window| !window.waiters.is_empty())
        else {
            return;
        };
        let mut over = Vec::new();
        let mut waiters = core::mem::take(&mut window.waiters);
        waiters.retain_mut(|(id, wants)| {
            let Some(result) = window.settle(wants) else { return true };
            over.push((*id, core::mem::replace(wants, Wants::Local(None)), result));
            false
        });
        window.waiters = waiters;
        for (id, wants, result) in over {
            if let (Wants::Locks(ranks), Err(_)) = (&wants, &result) {
                self.withdraw_locks(at, ranks);
            }
            let completion = result.map_or_else(Completion::failed, |()| Completion::EMPTY);
            self.messages.complete(id, completion);
        }
    }
}

/// Sending.
impl Windows<'_> {
    pub(super) fn peer_of(&self, window: WindowId, rank: Rank) -> Result<ProcessId, Error> {
        let group = &self.rma.get(window)?.group;
        group.process(rank).ok_or(Error::Rank { rank: rank.into(), size: group.size() })
    }

    fn takes_eagerly(&self, window: WindowId, rank: Rank, len: usize) -> bool {
        let index = self.peer_of(window, rank).ok().and_then(|peer| self.messages.links.index_of(peer));
        index.is_some_and(|index| self.messages.links.get(index).allows_eager(len))
    }

    /// A request of the user's for one operation. The call that begins it counts as one part.
    fn new_operation(&mut self, is_wanted: bool) -> Option<RequestId> {
        let request = || Request::new(State::Parts(1, None), Buffer::EMPTY, None);
        is_wanted.then(|| self.messages.requests.insert(request()))
    }

    /// The call that begins an operation has done its part.
    fn begun(&mut self, operation: Option<RequestId>, result: Result<(), Error>) -> Result<Posted, Error> {
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
        head: &[u8],
        data: Option<(&Data, usize, usize)>,
    ) -> Result<(), Error> {
        let data_bytes = data.map_or(0, |(_, _, len)| len);
        let len = head.len() + data_bytes;
        let mut scratch = self.rma.scratch(len);
        let buffer = scratch.buffer(len);
        buffer.scatter(0, Piece::Bytes(head));
        if let Some((data, offset, len)) = data {
            data.copy_out(offset, buffer.part(head.len(), len));
        }
        // The memory of long ones is waited for as if it were the user's: what a program has under way stays
        // bounded.
        let what = if len > 2 * INLINE_BYTES_MAX { What::Leaving } else { What::Post };
        self.send_data(device, (window, rank, ACTIVE_TAG), buffer.into(), what, (Some((scratch, len)), None))
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
    fn receive_part(
        &mut self,
        at: (WindowId, Rank, Tag),
        result: &Data,
        (offset, len): (usize, usize),
        operation: Option<RequestId>,
    ) -> Result<(), Error> {
        match result {
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
            // Nothing is left to wait for, and nobody has begun to.
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
            // It ends when those behind it have been handled.
            What::ActiveMessage => peer.is_receiving = true,
            What::Post => {}
        }
        let operation = child.operation.and_then(|id| self.messages.requests.get_mut(id));
        if let Some(State::Parts(left, _)) = operation.map(|request| &mut request.state) {
            change(left);
        }
    }

    /// A message of a window is over.
    pub(super) fn end_child(&mut self, step: u32, completion: &Completion) {
        let result = self.rma.result_of(step, completion);
        let Some(id) = self.rma.children.id_at(step) else { return };
        let Some(mut child) = self.rma.children.remove(id) else { return };
        self.count_child(&child, false);
        let at = child.window;
        if let Some((mut scratch, len)) = child.scratch.take() {
            if result.is_err() {
                // The device may still use it.
                core::mem::forget(scratch);
            } else {
                let buffer = scratch.buffer(len);
                match &child.what {
                    What::Result(_, Some((region, offset))) => region.unpack(*offset, buffer),
                    What::ActiveMessage => {
                        self.handle_active(at, child.rank, buffer.piece().bytes().unwrap_or_default());
                        self.push_todo(Todo::Next(at, child.rank));
                    }
                    _ => {}
                }
                self.rma.give_back(scratch);
            }
        }
        if let Err(error) = result {
            self.note_failure(&child, error);
        }
        if let Some(id) = child.operation
            && let Some(State::Parts(0, error)) = self.messages.requests.get(id).map(|request| &request.state)
        {
            let completion = error.map_or(Completion::EMPTY, Completion::failed);
            self.messages.complete(id, completion);
        }
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
