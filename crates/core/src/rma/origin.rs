//! A process' accesses to the windows of others.

use super::children::Tail;
use super::{
    self as rma, ActiveMessage, CHUNK_BYTES, Follow, Head, INLINE_BYTES_MAX, Memory, Operand, Place,
    RESULT_BYTES_MAX, ROW_BYTES_MAX, Todo, Wanted, Wants, What, Window, WindowId, Windows,
};
use crate::buffer::{Buffer, Piece};
use crate::data::{Data, Sink, Source};
use crate::datatype::Predefined;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{CommId, Rank, RequestId, Tag};
use crate::op::Operation;
use crate::request::{Completion, Posted, Request, State};
use alloc::vec;
use alloc::vec::Vec;

/// Windows.
impl Windows<'_> {
    /// Adds a window of the members of a communicator that nothing else uses. No member may access it before
    /// all have added it. The contract of [`Buffer::from_raw_parts`] holds for its memory until it is
    /// removed, with the accesses of the program excepted that MPI-5.0 §12.7 allows.
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
        if self.rma.anchor.is_none() && self.rma.serves_others() {
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
        if !self.rma.serves_others()
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

/// Part of a packed stream: first byte and number of bytes.
type Part<'a> = (&'a Data, usize, usize);

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
        let operand = Operand::of(&place, 0, length_of(&data, &place)?);
        self.put_operand(device, (window, rank), operand, data, wants_request)
    }

    pub(super) fn put_operand<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank): (WindowId, Rank),
        operand: Operand,
        data: Data,
        wants_request: bool,
    ) -> Result<Posted, Error> {
        let len = data.len();
        if len == 0 {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        if self.peer_of(window, rank)? == self.messages.me {
            self.rma.get(window)?.find_operand(&operand)?.copy_from(&data, len);
            return Ok(Posted::Done(Completion::EMPTY));
        }
        if len <= INLINE_BYTES_MAX && (len <= ROW_BYTES_MAX || self.takes_eagerly(window, rank, len + 256)) {
            let tail = Tail::Data(&data, 0, len);
            self.send_operation(device, (window, rank), &operand, ActiveMessage::Put, tail)?;
            return Ok(Posted::Done(Completion::EMPTY));
        }
        let of = self.rma.get_mut(window)?;
        of.begin_long_operation(rank)?;
        let tag = of.new_tag(rank, false)?;
        let head = ActiveMessage::Put(Follow::Data(tag)).emit(Some(&operand))?;
        self.send_active(device, window, rank, &head, Tail::Nothing)?;
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
        let operand = Operand::of(&place, 0, length_of(&data, &place)?);
        self.get_operand(device, (window, rank), operand, data, wants_request)
    }

    pub(super) fn get_operand<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank): (WindowId, Rank),
        operand: Operand,
        data: Data,
        wants_request: bool,
    ) -> Result<Posted, Error> {
        let len = data.len();
        if len == 0 {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        if self.peer_of(window, rank)? == self.messages.me {
            data.copy_from(&self.rma.get(window)?.find_operand(&operand)?, len);
            return Ok(Posted::Done(Completion::EMPTY));
        }
        let tag = self.rma.get_mut(window)?.new_tag(rank, true)?;
        let head = ActiveMessage::Get(tag).emit(Some(&operand))?;
        let operation = self.new_operation(wants_request);
        let sent = self.ask(device, (window, rank, tag), (&head, Tail::Nothing), (&data, 0, len), operation);
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
            if part < len && fetched.is_none() {
                self.rma.get_mut(window)?.begin_long_operation(rank)?;
            }
            let operand = Operand::of(&place, offset, part);
            let ends = (source.map(|of| (of, offset, part)), fetched.map(|into| (into, offset, part)));
            self.send_accumulate(device, (window, rank), &operand, ends, (operation, datatype), id)?;
        }
        Ok(())
    }

    /// Sends one active message of an accumulate, with parts of both ends.
    pub(super) fn send_accumulate<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank): (WindowId, Rank),
        operand: &Operand,
        (source, fetched): (Option<Part<'_>>, Option<Part<'_>>),
        (operation, datatype): (Operation, Predefined),
        id: Option<RequestId>,
    ) -> Result<(), Error> {
        let tail = source.map_or(Tail::Nothing, |(data, offset, len)| Tail::Data(data, offset, len));
        let message = |follow| ActiveMessage::Accumulate(operation, datatype, follow);
        // Old elements that have come say that all is done at the target: no flush has to ask for it.
        let Some(into) = fetched else {
            return self.send_operation(device, (window, rank), operand, message, tail);
        };
        let tag = self.rma.get_mut(window)?.new_tag(rank, true)?;
        let head = message(Follow::Data(tag)).emit(Some(operand))?;
        self.ask(device, (window, rank, tag), (&head, tail), into, id)
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
        let head = ActiveMessage::CompareAndSwap(datatype, tag).emit(Some(&Operand::of(&place, 0, size)))?;
        let into = result.into();
        self.ask(device, (window, rank, tag), (&head, Tail::Bytes(&both)), (&into, 0, size), None)
    }

    /// Sends a short operation of which no result comes.
    fn send_operation<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank): (WindowId, Rank),
        operand: &Operand,
        message: impl FnOnce(Follow) -> ActiveMessage,
        tail: Tail<'_>,
    ) -> Result<(), Error> {
        let flush = self.rma.get_mut(window)?.begin_operation(rank)?;
        self.send_begun(device, (window, rank), operand, (message, flush), tail)
    }

    /// The same, once the operation has begun.
    pub(super) fn send_begun<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank): (WindowId, Rank),
        operand: &Operand,
        (message, flush): (impl FnOnce(Follow) -> ActiveMessage, Option<u32>),
        tail: Tail<'_>,
    ) -> Result<(), Error> {
        let head = message(Follow::of_flush(flush)).emit(Some(operand));
        let sent = head.and_then(|head| self.send_active(device, window, rank, &head, tail));
        if sent.is_err() && flush.is_some() {
            self.rma.get_mut(window)?.take_back_flush(rank);
        }
        sent
    }

    /// Sends an operation whose result comes with the tag, to be written from `offset` on.
    pub(super) fn ask<D: Device>(
        &mut self,
        device: &mut D,
        (window, rank, tag): (WindowId, Rank, Tag),
        (head, tail): (&Head, Tail<'_>),
        (into, offset, len): Part<'_>,
        operation: Option<RequestId>,
    ) -> Result<(), Error> {
        if len as u64 > RESULT_BYTES_MAX {
            self.receive_part((window, rank, tag), into, (offset, len), operation)?;
            return self.send_active(device, window, rank, head, tail);
        }
        self.send_active(device, window, rank, head, tail)?;
        if let Some(State::Parts(left, _)) = self.state_of(operation) {
            *left += 1;
        }
        let number = tag.cast_unsigned();
        let wanted = Wanted { number, into: into.clone(), offset, len, operation };
        self.rma.get_mut(window)?.want(rank, wanted);
        Ok(())
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
        self.begin_flush(device, window, rank)?;
        self.wait_for(window, Wants::Done(rank))
    }

    /// Begins a [`flush`](Self::flush), for a caller that looks again and again whether it is over
    /// ([`flushed`](Self::flushed)) for a moment before it waits by `flush` itself.
    pub fn begin_flush<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        rank: Option<Rank>,
    ) -> Result<(), Error> {
        let ranks = match rank {
            Some(rank) => rank..rank + 1,
            None => 0..self.rma.get(window)?.peers.len() as u32,
        };
        for rank in ranks {
            if self.rma.get_mut(window)?.begin_flush(rank)? {
                self.send_flush(device, window, rank, false)?;
            }
        }
        Ok(())
    }

    /// Whether operations on a target, or on all, are over at the target too, and how.
    #[inline]
    pub fn flushed(&mut self, window: WindowId, rank: Option<Rank>) -> Option<Result<(), Error>> {
        match self.rma.get_mut(window) {
            Ok(of) => of.settle(&Wants::Done(rank)),
            Err(error) => Some(Err(error)),
        }
    }

    /// Asks for the locks of some targets; over when all are granted. If that fails, none is held.
    pub fn lock<D: Device>(
        &mut self,
        device: &mut D,
        window: WindowId,
        ranks: Vec<Rank>,
        exclusive: bool,
    ) -> Result<Posted, Error> {
        // The withdrawal of an earlier request goes before this one: a member has one lock of a window.
        self.do_pending(device);
        let mut result = Ok(());
        let mut asked_count = 0;
        for &rank in &ranks {
            let peer = self.rma.get_mut(window)?.peer(rank)?;
            peer.is_granted = false;
            // A grant that still arrives for an earlier request has another number and is ignored.
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
            let of = self.rma.get_mut(window)?;
            if is_locked {
                // It asks in any case, to give the lock back.
                of.end_operations(rank)?;
            }
            if is_locked || of.begin_flush(rank)? {
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
        // Only the target knows what is wrong with a place in attached memory.
        let asks = matches!(self.rma.get(window)?.memory, Memory::Dynamic(_));
        for &rank in ranks {
            if asks && self.rma.get_mut(window)?.begin_flush(rank)? {
                self.send_flush(device, window, rank, false)?;
            }
            self.send_control(device, window, rank, ActiveMessage::Complete)?;
            // The target waits for what was started.
            self.rma.get_mut(window)?.end_operations(rank)?;
        }
        // Answers that operations have asked for come before the window may go.
        self.wait_for(window, Wants::Done(None))
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
        // A process that polls repeatedly waits, too: a member that has given us up must tell us.
        of.tested = over.is_none().then_some(wants);
        over.transpose().map(|over| over.is_some())
    }

    /// Begins a fence (`MPI_Win_fence`) of a window of at most
    /// [`FENCE_MEMBERS_MAX`](super::FENCE_MEMBERS_MAX) members, and gives its number. At the end of the
    /// fence, all operations that others began here before their fence, and ours on them, are complete. An
    /// operation that the target refuses though the origin found no error is reported at once if memory is
    /// attached, else at the next flush or fence.
    pub fn begin_fence<D: Device>(&mut self, device: &mut D, window: WindowId) -> Result<u32, Error> {
        let of = self.rma.get(window)?;
        let (size, me) = (of.group.size(), of.rank);
        if size > super::FENCE_MEMBERS_MAX {
            return Err(Error::Argument("a fence of so many members is a flush and a barrier"));
        }
        if of.fence_flushes() {
            self.begin_flush(device, window, None)?;
        }
        let number = self.rma.get_mut(window)?.begin_fence();
        for rank in (0..size).filter(|rank| *rank != me) {
            let peer = self.rma.get_mut(window)?.peer(rank)?;
            let refused = peer.refused.take().map_or(0, rma::refusal_of);
            if let Err(error) = self.send_control(device, window, rank, ActiveMessage::Fence { refused }) {
                self.rma.get_mut(window)?.peer(rank)?.failure.get_or_insert(error);
            }
        }
        Ok(number)
    }

    /// Over when the fence of this number is.
    pub fn fence(&mut self, window: WindowId, number: u32) -> Result<Posted, Error> {
        self.wait_for(window, Wants::Fence(number))
    }

    /// Whether the fence of this number is over, and how: for a caller that looks again and again.
    #[inline]
    pub fn fenced(&mut self, window: WindowId, number: u32) -> Option<Result<(), Error>> {
        match self.rma.get_mut(window) {
            Ok(of) => of.settle(&Wants::Fence(number)),
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether all that fences have ended is executed, as far as is known here. If not, an access to a
    /// target's memory that is no message could come before it.
    pub fn is_settled(&self, window: WindowId) -> bool {
        self.rma.get(window).is_ok_and(|of| of.peers.iter().all(|peer| peer.unsettled_since.is_none()))
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
        let mut place = 0;
        while let Some(window) = self.rma.windows[at as usize].as_mut()
            && let Some((_, wants)) = window.waiters.get_mut(place)
        {
            let wants = core::mem::replace(wants, Wants::Local(None));
            let Some(result) = window.settle(&wants) else {
                window.waiters[place].1 = wants;
                place += 1;
                continue;
            };
            let (id, _) = window.waiters.remove(place);
            if let (Wants::Locks(ranks), Err(_)) = (&wants, &result) {
                self.withdraw_locks(at, ranks);
            }
            let completion = result.map_or_else(Completion::failed, |()| Completion::EMPTY);
            self.messages.complete(id, completion);
        }
    }
}
