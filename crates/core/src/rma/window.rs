//! One member's state of a window: its memory, and the accesses to and from each of the others.

use super::{Memory, Operand, Place};
use crate::buffer::{Buffer, Piece, Scratch};
use crate::data::Data;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId, Rank, RequestId, Tag};
use crate::layout::{Layout, Region};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of processes named in an explanation.
const NAMED_MAX: usize = 8;
/// Active messages of one member that are received before it is the turn of the first, and their bytes. An
/// origin without credit announces every short operation, and each announced one takes a round trip: received
/// together they share one.
const LINE_MAX: usize = 64;
const LINE_BYTES_MAX: usize = 64 << 10;

/// A window.
pub(crate) struct Window {
    pub(crate) context: ContextId,
    pub(crate) group: Group,
    pub(crate) rank: Rank,
    pub(crate) memory: Memory,
    pub(crate) peers: Vec<Peer>,
    locks: Locks,
    /// Requests that wait for something to happen here.
    pub(crate) waiters: Vec<(RequestId, Wants)>,
    /// The condition last tested for, if it has not come true.
    pub(crate) tested: Option<Wants>,
    /// The sums of the peers' counts.
    pub(crate) pending_count: u64,
    pub(crate) unflushed_count: u64,
    /// Short results that are to come from all members.
    pub(crate) results_count: u32,
    /// Fences of ours.
    fences_count: u32,
    /// Something long was begun since the last fence.
    has_long: bool,
    /// Members for which operations are gathered.
    pub(crate) gathering_count: u32,
}

/// A short result that is to come.
pub(crate) struct Wanted {
    /// What the target gives back with it.
    pub(crate) number: u32,
    /// Destination, first byte in the packed stream, and byte count.
    pub(crate) into: Data,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// The request that waits for it.
    pub(crate) operation: Option<RequestId>,
}

impl Peer {
    /// Whether the member has come to the fence of this number, and nothing of it is open.
    #[inline(always)]
    pub(crate) fn has_fenced(&self, number: u32) -> bool {
        self.fences.wrapping_sub(number).cast_signed() >= 0
    }

    /// Whether something of this member goes on here, or waits for the end of what does.
    #[inline(always)]
    pub(crate) fn has_open_ends(&self) -> bool {
        self.open > 0 || self.completing > 0 || self.fencing > 0 || !self.flushes.is_empty()
    }
}

impl Wanted {
    /// All of what a call waits for, which it asked for with the tag.
    #[inline(always)]
    pub(crate) fn all(tag: Tag, into: Buffer) -> Self {
        Self { number: tag.cast_unsigned(), len: into.len(), into: into.into(), offset: 0, operation: None }
    }
}

/// State of the accesses to and from one member.
#[derive(Default)]
pub(crate) struct Peer {
    // As its origin:
    /// Short operations that wait for credit, or for a message that must not overtake them: the bytes of
    /// [`ActiveMessage::Several`](super::ActiveMessage::Several), and how many.
    gathered: Option<(Scratch, usize)>,
    next_tag: u32,
    /// Messages of ours that still read or write the user's memory.
    pub(crate) pending: u32,
    /// Operations were started that no flush has asked for.
    pub(crate) is_dirty: bool,
    pub(crate) flush_sent: u32,
    pub(crate) flush_done: u32,
    /// The last fence ended operations that may not have been executed; what the last flush before it was.
    pub(crate) unsettled_since: Option<u32>,
    /// Operations since the last flush, up to two, of which a flush has to ask.
    operations_count: u8,
    /// The last flush was of one operation: the next operation asks for the flush itself, since one alone is
    /// likely to come again.
    is_flushed_alone: bool,
    /// Short results that are to come, in the order of asking.
    pub(crate) results: VecDeque<Wanted>,
    pub(crate) is_granted: bool,
    /// Wishes for its lock.
    pub(crate) lock_number: u32,
    /// The error of an operation there.
    pub(crate) failure: Option<Error>,
    /// It can no longer be talked to.
    pub(crate) lost: Option<Error>,
    // As its target:
    /// Its active messages from a long one that is coming on, in order.
    pub(crate) line: Line,
    /// Data of its that comes, and results that leave.
    pub(crate) open: u32,
    /// Flushes that wait until nothing is open: their numbers, and whether they release the lock.
    pub(crate) flushes: Vec<(u32, bool)>,
    pub(crate) refused: Option<Error>,
    pub(crate) holds: Hold,
    /// The number of its last wish for the lock.
    pub(crate) wish: u32,
    /// Calls of "post" for us.
    pub(crate) posts: u32,
    /// Ends of its accesses; and one that waits until nothing is open.
    pub(crate) completes: u32,
    pub(crate) completing: u32,
    /// Its fences; and one that waits until nothing is open.
    pub(crate) fences: u32,
    pub(crate) fencing: u32,
}

/// Active messages of one member that are handled in order, of which the first has not come.
#[derive(Default)]
pub(crate) struct Line {
    /// The number of the first.
    first: u32,
    /// Bytes of all.
    bytes: usize,
    /// Each with its length; without its memory, it is coming.
    messages: VecDeque<(Option<Scratch>, usize)>,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether one of so many bytes may be received before it is its turn.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.is_empty() || self.messages.len() < LINE_MAX && self.bytes + bytes <= LINE_BYTES_MAX
    }

    /// Adds one to the end, which is coming or (with its memory) has come. Gives its number.
    pub(crate) fn push(&mut self, memory: Option<Scratch>, len: usize) -> u32 {
        self.messages.push_back((memory, len));
        self.bytes += len;
        self.first.wrapping_add(self.messages.len() as u32 - 1)
    }

    /// One of them has come.
    pub(crate) fn has_come(&mut self, number: u32, memory: Scratch, len: usize) {
        let message = self.messages.get_mut(number.wrapping_sub(self.first) as usize);
        if let Some((place, _)) = message.filter(|message| message.1 == len) {
            *place = Some(memory);
        }
    }

    /// Takes the first out, if it has come.
    pub(crate) fn pop(&mut self) -> Option<(Scratch, usize)> {
        let (memory, len) = self.messages.front_mut()?;
        let come = (memory.take()?, *len);
        self.messages.pop_front();
        self.first = self.first.wrapping_add(1);
        self.bytes -= come.1;
        Some(come)
    }
}

/// Which lock a member holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Hold {
    #[default]
    Nothing,
    Shared,
    Exclusive,
}

/// The condition that a request waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wants {
    /// That the user's memory is free again.
    Local(Option<Rank>),
    /// That all is done at the target, or all targets.
    Done(Option<Rank>),
    /// That locks are granted.
    Locks(Vec<Rank>),
    /// A post of each.
    Posts(Vec<Rank>),
    /// A complete of each.
    Completes(Vec<Rank>),
    /// The fence of this number of each, and that nothing of ours is under way.
    Fence(u32),
}

#[derive(Default)]
struct Locks {
    shared_count: u32,
    is_exclusive: bool,
    queue: VecDeque<(Rank, Hold)>,
}

impl Window {
    pub(crate) fn new(context: ContextId, group: Group, rank: Rank, memory: Memory) -> Self {
        let peers = (0..group.size()).map(|_| Peer::default()).collect();
        Self {
            context,
            group,
            rank,
            memory,
            peers,
            locks: Locks::default(),
            waiters: Vec::new(),
            tested: None,
            pending_count: 0,
            unflushed_count: 0,
            results_count: 0,
            fences_count: 0,
            has_long: false,
            gathering_count: 0,
        }
    }

    /// An operation begins of which no result comes. The number of the flush that it asks for itself, if it
    /// does.
    pub(crate) fn begin_operation(&mut self, rank: Rank) -> Result<Option<u32>, Error> {
        let peer = self.peer(rank)?;
        peer.operations_count = 2.min(peer.operations_count + 1);
        if peer.operations_count == 1 && peer.is_flushed_alone && peer.lost.is_none() {
            return Ok(Some(self.new_flush(rank)));
        }
        peer.is_dirty = true;
        Ok(None)
    }

    /// An operation begins that cannot ask for a flush itself.
    pub(crate) fn begin_long_operation(&mut self, rank: Rank) -> Result<(), Error> {
        let peer = self.peer(rank)?;
        (peer.operations_count, peer.is_dirty) = (2, true);
        self.has_long = true;
        Ok(())
    }

    /// Begins to end the operations so far. Returns whether the target must be asked.
    pub(crate) fn begin_flush(&mut self, rank: Rank) -> Result<bool, Error> {
        let peer = self.peer(rank)?;
        if peer.operations_count > 0 {
            peer.is_flushed_alone = peer.operations_count == 1;
            peer.operations_count = 0;
        }
        Ok(core::mem::take(&mut peer.is_dirty))
    }

    /// Whether a fence has to ask for the end of the operations so far. Long ones may be executed after what
    /// comes next, and only the target knows what is wrong with a place in attached memory.
    pub(crate) fn fence_flushes(&self) -> bool {
        self.has_long || matches!(self.memory, Memory::Dynamic(_))
    }

    /// A fence of ours begins: its number.
    pub(crate) fn begin_fence(&mut self) -> u32 {
        self.fences_count = self.fences_count.wrapping_add(1);
        self.has_long = false;
        for peer in &mut self.peers {
            peer.unsettled_since = peer.is_dirty.then_some(peer.flush_sent);
        }
        for rank in 0..self.peers.len() as Rank {
            // No member is unknown.
            let _ = self.end_operations(rank);
        }
        self.peers[self.rank as usize].fences = self.fences_count;
        self.fences_count
    }

    /// Whether there is room for one of so many bytes more; `None`: none are gathered for the member.
    pub(crate) fn has_room_to_gather(&self, rank: Rank, len: usize) -> Option<bool> {
        let gathered = self.peers.get(rank as usize)?.gathered.as_ref()?.1;
        Some(gathered + len <= super::GATHERED_BYTES_MAX)
    }

    /// Operations are gathered for a member from now on, in memory of
    /// [`GATHERED_BYTES_MAX`](super::GATHERED_BYTES_MAX) bytes.
    pub(crate) fn begin_gathering(&mut self, rank: Rank, mut scratch: Scratch) {
        let head = super::ActiveMessage::Several.emit_control();
        scratch.buffer(head.len()).scatter(0, Piece::Bytes(&head));
        self.peers[rank as usize].gathered = Some((scratch, head.len()));
        self.gathering_count += 1;
    }

    /// The place of one of so many bytes more, for which there is room.
    pub(crate) fn gather(&mut self, rank: Rank, len: usize) -> Option<Buffer> {
        let (scratch, gathered) = self.peers[rank as usize].gathered.as_mut()?;
        let at = *gathered;
        *gathered += len;
        Some(scratch.buffer(*gathered).part(at, len))
    }

    /// The message of all operations that are gathered for a member, if there are some.
    pub(crate) fn take_gathered(&mut self, rank: Rank) -> Option<(Scratch, usize)> {
        let gathered = self.peers.get_mut(rank as usize)?.gathered.take()?;
        self.gathering_count -= 1;
        Some(gathered)
    }

    /// The operations so far end without a flush.
    pub(crate) fn end_operations(&mut self, rank: Rank) -> Result<(), Error> {
        let peer = self.peer(rank)?;
        (peer.operations_count, peer.is_flushed_alone, peer.is_dirty) = (0, false, false);
        Ok(())
    }

    /// The number of a flush that is about to be sent.
    pub(crate) fn new_flush(&mut self, rank: Rank) -> u32 {
        let peer = &mut self.peers[rank as usize];
        peer.flush_sent = peer.flush_sent.wrapping_add(1);
        self.unflushed_count += 1;
        peer.flush_sent
    }

    /// The flush of the last number was not sent.
    pub(crate) fn take_back_flush(&mut self, rank: Rank) {
        let peer = &mut self.peers[rank as usize];
        if peer.flush_sent != peer.flush_done {
            peer.flush_sent = peer.flush_sent.wrapping_sub(1);
            self.unflushed_count = self.unflushed_count.saturating_sub(1);
        }
    }

    /// Members that owe short results.
    pub(crate) fn asked(&self) -> impl Iterator<Item = Rank> {
        let is_asked = |rank: &Rank| !self.peers[*rank as usize].results.is_empty();
        (0..self.peers.len() as Rank).filter(is_asked)
    }

    /// A short result is to come.
    pub(crate) fn want(&mut self, rank: Rank, wanted: Wanted) {
        let peer = &mut self.peers[rank as usize];
        peer.results.push_back(wanted);
        peer.pending += 1;
        self.pending_count += 1;
        self.results_count += 1;
    }

    /// The short result that comes next from a member, which does not count any more.
    pub(crate) fn take_wanted(&mut self, rank: Rank) -> Option<Wanted> {
        let peer = &mut self.peers[rank as usize];
        let wanted = peer.results.pop_front()?;
        peer.pending = peer.pending.saturating_sub(1);
        self.pending_count = self.pending_count.saturating_sub(1);
        self.results_count -= 1;
        Some(wanted)
    }

    /// The memory that an operation works on, if all of it lies in the window.
    #[inline]
    pub(crate) fn find_operand(&self, operand: &Operand) -> Result<Data, Error> {
        let (layout, count) = match (&operand.layout, &self.memory) {
            (None, Memory::Fixed(buffer) | Memory::Mapped(buffer)) => {
                let (at, len) = (usize::try_from(operand.displacement), usize::try_from(operand.len));
                let (Ok(at), Ok(len)) = (at, len) else { return Err(Error::WindowRange) };
                let is_inside = at <= buffer.len() && len <= buffer.len() - at;
                return if is_inside { Ok(buffer.part(at, len).into()) } else { Err(Error::WindowRange) };
            }
            (None, Memory::Dynamic(_)) => (Layout::bytes(operand.len as usize), 1),
            (Some((layout, count)), _) => (layout.clone(), *count),
        };
        self.find(&Place { displacement: operand.displacement, layout, count })
    }

    pub(crate) fn peer(&mut self, rank: Rank) -> Result<&mut Peer, Error> {
        let size = self.peers.len() as u32;
        self.peers.get_mut(rank as usize).ok_or(Error::Rank { rank: rank.into(), size })
    }

    /// A tag for data to a member, or for a result from it.
    pub(crate) fn new_tag(&mut self, rank: Rank, is_result: bool) -> Result<Tag, Error> {
        let peer = self.peer(rank)?;
        peer.next_tag = peer.next_tag.wrapping_add(1);
        Ok(((peer.next_tag & 0x3fff_ffff) << 1 | u32::from(is_result)) as Tag)
    }

    /// The memory of a place, if all of it lies in the window.
    pub(crate) fn find(&self, place: &Place) -> Result<Data, Error> {
        let span = place.layout.span(place.count)?;
        if span.len == 0 {
            return Ok(Data::EMPTY);
        }
        let start = place.displacement.checked_add(span.lowest as i64).ok_or(Error::WindowRange)?;
        let within = |base: u64, len: usize| -> Option<usize> {
            let at = (start.cast_unsigned()).checked_sub(base)?;
            let at = usize::try_from(at).ok()?;
            (at <= len && span.len <= len - at).then_some(at)
        };
        let found = match &self.memory {
            Memory::Fixed(buffer) | Memory::Mapped(buffer) if start >= 0 => {
                within(0, buffer.len()).map(|at| buffer.part(at, span.len))
            }
            Memory::Fixed(_) | Memory::Mapped(_) => None,
            Memory::Dynamic(pieces) => {
                let part_of = |buffer: &Buffer| {
                    let base = buffer.as_ptr()? as usize as u64;
                    within(base, buffer.len()).map(|at| buffer.part(at, span.len))
                };
                let Some(memory) = pieces.iter().find_map(part_of) else {
                    let hull = Buffer::hull(pieces).as_ref().and_then(part_of).ok_or(Error::WindowRange)?;
                    return find_in_pieces(place, hull, pieces);
                };
                Some(memory)
            }
        };
        let memory = found.ok_or(Error::WindowRange)?;
        Region::new(place.layout.clone(), place.count, memory).map(Data::from)
    }

    /// A member asks for the lock. Those that have it now are granted it.
    pub(crate) fn lock(&mut self, rank: Rank, hold: Hold, granted: &mut Vec<Rank>) {
        self.locks.queue.push_back((rank, hold));
        self.grant(granted);
    }

    /// A member gives its lock back. Whether it had one.
    pub(crate) fn unlock(&mut self, rank: Rank, granted: &mut Vec<Rank>) -> bool {
        match core::mem::take(&mut self.peers[rank as usize].holds) {
            Hold::Nothing => return false,
            Hold::Shared => self.locks.shared_count -= 1,
            Hold::Exclusive => self.locks.is_exclusive = false,
        }
        self.grant(granted);
        true
    }

    /// A member withdraws its lock request and returns its lock, or is lost.
    pub(crate) fn forget_locks_of(&mut self, rank: Rank, granted: &mut Vec<Rank>) {
        self.locks.queue.retain(|(of, _)| *of != rank);
        self.unlock(rank, granted);
    }

    /// Grants in the order of requests, except that a shared lock is granted at once while the lock is
    /// shared. Queued behind a request for an exclusive lock it would wait for a shared holder, which may
    /// itself wait so at another window: a deadlock of a correct program (two processes in
    /// `MPI_Win_lock_all`). MPI promises no fairness.
    fn grant(&mut self, granted: &mut Vec<Rank>) {
        let Self { locks, peers, .. } = self;
        if locks.is_exclusive {
            return;
        }
        if let (0, Some(&(rank, Hold::Exclusive))) = (locks.shared_count, locks.queue.front()) {
            locks.queue.pop_front();
            locks.is_exclusive = true;
            peers[rank as usize].holds = Hold::Exclusive;
            granted.push(rank);
            return;
        }
        let shared_count = &mut locks.shared_count;
        locks.queue.retain(|&(rank, hold)| {
            let is_granted = hold == Hold::Shared;
            if is_granted {
                *shared_count += 1;
                peers[rank as usize].holds = hold;
                granted.push(rank);
            }
            !is_granted
        });
    }

    /// Whether a member has asked for the lock and waits for it.
    pub(crate) fn is_queued(&self, rank: Rank) -> bool {
        self.locks.queue.iter().any(|(of, _)| *of == rank)
    }

    /// Members whose locks others wait for. One that has given this process up may never give its lock back,
    /// and is missed only by asking.
    pub(crate) fn awaited_holders(&self) -> impl Iterator<Item = Rank> {
        let count = if self.locks.queue.is_empty() { 0 } else { self.peers.len() };
        let holders = self.peers[..count].iter().enumerate().filter(|(_, peer)| peer.holds != Hold::Nothing);
        holders.map(|(rank, _)| rank as Rank)
    }

    /// Whether what a request waits for has come, and how. Posts and completes are used up by it.
    pub(crate) fn settle(&mut self, wants: &Wants) -> Option<Result<(), Error>> {
        match wants {
            Wants::Local(None) | Wants::Done(None) => {
                let unflushed = if matches!(wants, Wants::Local(_)) { 0 } else { self.unflushed_count };
                if self.pending_count > 0 || unflushed > 0 {
                    return None;
                }
                let mut failures = self.peers.iter_mut().filter_map(|peer| peer.failure.take());
                let first = failures.next();
                failures.for_each(drop);
                Some(first.map_or(Ok(()), Err))
            }
            Wants::Local(Some(rank)) => {
                let peer = self.peers.get_mut(*rank as usize)?;
                (peer.pending == 0).then(|| peer.failure.take().map_or(Ok(()), Err))
            }
            Wants::Done(Some(rank)) => {
                let peer = self.peers.get_mut(*rank as usize)?;
                let is_over = peer.pending == 0 && peer.flush_sent == peer.flush_done;
                is_over.then(|| peer.failure.take().map_or(Ok(()), Err))
            }
            Wants::Locks(ranks) => self.all(ranks, |peer| peer.is_granted),
            Wants::Posts(ranks) => {
                let result = self.all(ranks, |peer| peer.posts > 0)?;
                if result.is_ok() {
                    ranks.iter().for_each(|rank| self.peers[*rank as usize].posts -= 1);
                }
                Some(result)
            }
            Wants::Fence(number) => {
                let is_busy = self.pending_count > 0 || self.unflushed_count > 0;
                let fenced = if is_busy { None } else { self.all_fenced(*number) }?;
                let mut failures = self.peers.iter_mut().filter_map(|peer| peer.failure.take());
                let first = failures.next();
                failures.for_each(drop);
                Some(fenced.and(first.map_or(Ok(()), Err)))
            }
            Wants::Completes(ranks) => {
                let result = self.all(ranks, |peer| peer.completes > 0)?;
                if result.is_ok() {
                    ranks.iter().for_each(|rank| self.peers[*rank as usize].completes -= 1);
                }
                Some(result)
            }
        }
    }

    /// The condition that a request waits for, as text. `told`: the number by which a process is named.
    pub(crate) fn need(&self, wants: &Wants, told: impl Fn(ProcessId) -> ProcessId) -> String {
        let processes = self.missing(wants).filter_map(|rank| self.group.process(rank));
        let mut list: Vec<String> =
            processes.take(NAMED_MAX + 1).map(|process| format!("{}", told(process).0)).collect();
        if list.len() > NAMED_MAX {
            list[NAMED_MAX] = "…".into();
        }
        let list = list.join(", ");
        match wants {
            Wants::Local(_) | Wants::Done(_) => format!("its operations on the windows of ranks {list}"),
            Wants::Locks(_) => format!("the locks of the windows of ranks {list}"),
            Wants::Posts(_) => format!("MPI_Win_post of ranks {list}"),
            Wants::Completes(_) => format!("MPI_Win_complete of ranks {list}"),
            Wants::Fence(_) => format!("MPI_Win_fence of ranks {list}"),
        }
    }

    /// The members that do not yet meet the condition.
    pub(crate) fn missing(&self, wants: &Wants) -> impl Iterator<Item = Rank> {
        type Has = fn(&Peer, u32) -> bool;
        let is_over: Has = |peer, _| peer.pending == 0 && peer.flush_sent == peer.flush_done;
        let all = || (0..self.peers.len() as Rank).collect();
        let (ranks, has, number): (Vec<Rank>, Has, u32) = match wants {
            Wants::Local(_) | Wants::Done(_) => (all(), is_over, 0),
            Wants::Locks(ranks) => (ranks.clone(), |peer, _| peer.is_granted, 0),
            Wants::Posts(ranks) => (ranks.clone(), |peer, _| peer.posts > 0, 0),
            Wants::Completes(ranks) => (ranks.clone(), |peer, _| peer.completes > 0, 0),
            Wants::Fence(number) => (all(), Peer::has_fenced, *number),
        };
        ranks.into_iter().filter(move |rank| {
            let peer = &self.peers[*rank as usize];
            !has(peer, number) || (matches!(wants, Wants::Fence(_)) && !is_over(peer, 0))
        })
    }

    /// Whether all members have come to the fence of this number; an error if one cannot any more.
    fn all_fenced(&self, number: u32) -> Option<Result<(), Error>> {
        let mut missing = self.peers.iter().filter(|peer| !peer.has_fenced(number)).peekable();
        if missing.peek().is_none() {
            return Some(Ok(()));
        }
        missing.find_map(|peer| peer.lost).map(Err)
    }

    /// Whether all of them meet the condition; an error if one never can.
    fn all(&self, ranks: &[Rank], has: impl Fn(&Peer) -> bool) -> Option<Result<(), Error>> {
        let missing = || ranks.iter().map(|rank| &self.peers[*rank as usize]).filter(|peer| !has(peer));
        if let Some(error) = missing().find_map(|peer| peer.lost) {
            return Some(Err(error));
        }
        missing().next().is_none().then_some(Ok(()))
    }
}

/// A place whose elements are in several pieces of attached memory, which may follow each other or lie apart:
/// each block must be in them. `hull` is the range that the elements span.
fn find_in_pieces(place: &Place, hull: Buffer, pieces: &[Buffer]) -> Result<Data, Error> {
    let interval = |buffer: &Buffer| {
        let base = buffer.as_ptr().map_or(0, |base| base as usize);
        (base, base + buffer.len())
    };
    let mut attached: Vec<(usize, usize)> = pieces.iter().map(interval).collect();
    attached.sort_unstable();
    attached.dedup_by(|next, last| {
        let follows = next.0 <= last.1;
        if follows {
            last.1 = last.1.max(next.1);
        }
        follows
    });
    let region = Region::new(place.layout.clone(), place.count, hull)?;
    let mut blocks = region.pieces(0, region.len());
    let is_attached = |block: Buffer| {
        let (from, to) = interval(&block);
        let at = attached.partition_point(|(start, _)| *start <= from);
        at > 0 && to <= attached[at - 1].1
    };
    if !blocks.all(is_attached) {
        return Err(Error::WindowRange);
    }
    Ok(region.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ContextId;

    fn window(len: usize) -> Window {
        Window::new(ContextId::WORLD, Group::world(4), 0, Memory::Fixed(Buffer::leaked(len)))
    }

    #[test]
    fn tags_differ_and_tell_data_from_results() {
        let mut window = window(1);
        window.peer(2).unwrap().next_tag = u32::MAX - 2;
        let mut tags: Vec<Tag> = (0..6).map(|at| window.new_tag(2, at % 2 == 1).unwrap()).collect();
        assert!(tags.iter().enumerate().all(|(at, tag)| *tag >= 0 && tag % 2 == at as i32 % 2), "{tags:?}");
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 6);
    }

    #[test]
    fn eight_processes_that_are_missing_are_named() {
        let group = Group::world(12);
        let window = Window::new(ContextId::WORLD, group, 0, Memory::Fixed(Buffer::leaked(1)));
        let need = |count| window.need(&Wants::Posts((0..count).collect()), |process| process);
        assert_eq!(need(8), "MPI_Win_post of ranks 0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(need(9), "MPI_Win_post of ranks 0, 1, 2, 3, 4, 5, 6, 7, …");
        assert_eq!(need(12), need(9));
    }

    #[test]
    fn a_place_without_elements_or_bytes_is_empty() {
        let place = |bytes, count| Place { displacement: 0, layout: Layout::bytes(bytes), count };
        assert!(place(0, 3).is_empty() && place(4, 0).is_empty() && !place(4, 1).is_empty());
    }

    #[test]
    fn a_place_outside_of_the_window_is_refused() {
        let window = window(100);
        let at = |displacement, layout: &Layout, count| {
            window.find(&Place { displacement, layout: layout.clone(), count }).map(|data| data.len())
        };
        let word = Layout::bytes(8);
        assert_eq!(at(92, &word, 1), Ok(8));
        for displacement in [93, 100, 101, -1, i64::MAX, i64::MIN, -8] {
            assert_eq!(at(displacement, &word, 1), Err(Error::WindowRange), "{displacement}");
        }
        assert_eq!(at(0, &word, 13), Err(Error::WindowRange));
        let backwards = word.repeat(3, -16).unwrap();
        assert_eq!(at(32, &backwards, 1), Ok(24));
        assert_eq!(at(31, &backwards, 1), Err(Error::WindowRange));
        assert_eq!(at(-5, &word, 0), Ok(0));
    }

    #[test]
    fn a_place_in_attached_memory_is_found_by_address() {
        let pieces: Vec<Buffer> = [10, 20].map(Buffer::leaked).into();
        let address = |at: usize| pieces[at].as_ptr().unwrap() as usize as i64;
        let memory = Memory::Dynamic(pieces.clone());
        let window = Window::new(ContextId::WORLD, Group::world(1), 0, memory);
        let at = |displacement, count| {
            window.find(&Place { displacement, layout: Layout::bytes(1), count }).map(|data| data.len())
        };
        assert_eq!(at(address(0), 10), Ok(10));
        assert_eq!(at(address(1) + 5, 15), Ok(15));
        assert_eq!(at(address(1) + 6, 15), Err(Error::WindowRange));
        assert_eq!(at(0, 1), Err(Error::WindowRange));
        assert_eq!(at(-1, 1), Err(Error::WindowRange));
        // Two that follow each other, and one apart.
        let all = Buffer::leaked(100);
        let memory =
            Memory::Dynamic([(70, 20), (30, 10), (10, 20)].map(|(at, len)| all.part(at, len)).into());
        let window = Window::new(ContextId::WORLD, Group::world(1), 0, memory);
        let base = all.as_ptr().unwrap() as usize as i64;
        let at = |displacement: i64, layout: Layout| {
            window.find(&Place { displacement: base + displacement, layout, count: 1 }).map(|data| data.len())
        };
        assert_eq!(at(10, Layout::bytes(30)), Ok(30));
        assert_eq!(at(10, Layout::bytes(31)), Err(Error::WindowRange));
        let two = |second: isize| Layout::bytes(5).indexed([(1, 0), (1, second)]).unwrap();
        assert_eq!(at(25, two(50)), Ok(10));
        assert_eq!(at(25, two(20)), Err(Error::WindowRange));
        assert_eq!(at(36, two(40)), Err(Error::WindowRange));
    }

    #[test]
    fn a_shared_lock_joins_those_that_are_held() {
        let mut window = window(0);
        let mut granted = Vec::new();
        window.lock(1, Hold::Shared, &mut granted);
        window.lock(2, Hold::Exclusive, &mut granted);
        window.lock(3, Hold::Shared, &mut granted);
        assert_eq!(granted, [1, 3], "3 does not wait behind 2");
        assert!(window.unlock(1, &mut granted));
        assert_eq!(granted, [1, 3], "2 waits for 3");
        assert!(window.unlock(3, &mut granted));
        assert_eq!(granted, [1, 3, 2]);
        assert!(!window.unlock(1, &mut granted), "it has none");
        window.lock(0, Hold::Shared, &mut granted);
        window.lock(1, Hold::Exclusive, &mut granted);
        window.lock(3, Hold::Shared, &mut granted);
        window.forget_locks_of(2, &mut granted);
        assert_eq!(granted, [1, 3, 2, 0, 3], "both shared ones before the exclusive one between them");
    }

    #[test]
    fn an_exclusive_lock_is_granted_alone_and_in_turn() {
        let mut window = window(0);
        let mut granted = Vec::new();
        let holders = |window: &Window| window.awaited_holders().collect::<Vec<_>>();
        window.lock(0, Hold::Exclusive, &mut granted);
        assert_eq!(holders(&window), [], "nobody waits for it");
        window.lock(1, Hold::Exclusive, &mut granted);
        window.lock(2, Hold::Shared, &mut granted);
        window.lock(3, Hold::Exclusive, &mut granted);
        assert_eq!((&granted[..], holders(&window)), (&[0][..], [0].into()));
        assert!(window.unlock(0, &mut granted));
        assert_eq!(granted, [0, 1], "not 2 as well, which wants to share it");
        assert_eq!(holders(&window), [1]);
        // One that does not wait any more is not granted it later.
        window.forget_locks_of(2, &mut granted);
        assert!(!window.is_queued(2) && window.is_queued(3));
        assert!(window.unlock(1, &mut granted));
        assert_eq!(granted, [0, 1, 3]);
        assert_eq!(holders(&window), []);
    }

    #[test]
    fn a_condition_waits_for_the_members_that_do_not_meet_it() {
        let mut window = window(8);
        let missing = |window: &Window, wants: &Wants| window.missing(wants).collect::<Vec<_>>();
        let all = [0, 1, 2, 3].to_vec();
        for wants in [Wants::Local(None), Wants::Done(None)] {
            assert_eq!(missing(&window, &wants), []);
        }
        for wants in [Wants::Locks(all.clone()), Wants::Posts(all.clone()), Wants::Completes(all.clone())] {
            assert_eq!(missing(&window, &wants), all);
            assert_eq!(window.settle(&wants), None);
        }
        window.peers[0].pending = 1;
        window.peers[2].flush_sent = 1;
        for wants in [Wants::Local(None), Wants::Done(None)] {
            assert_eq!(missing(&window, &wants), [0, 2]);
        }
        window.peers[1].is_granted = true;
        (window.peers[2].posts, window.peers[3].completes) = (1, 1);
        assert_eq!(missing(&window, &Wants::Locks(all.clone())), [0, 2, 3]);
        assert_eq!(missing(&window, &Wants::Posts(all.clone())), [0, 1, 3]);
        assert_eq!(missing(&window, &Wants::Completes(all)), [0, 1, 2]);
        // At a fence, also those with which something is under way.
        for rank in [0, 1, 2] {
            window.peers[rank].fences = 1;
        }
        assert_eq!(missing(&window, &Wants::Fence(1)), [0, 2, 3]);
        let need = |wants| window.need(&wants, |process| ProcessId(process.0 + 50));
        assert_eq!(need(Wants::Done(None)), "its operations on the windows of ranks 50, 52");
        assert_eq!(need(Wants::Locks([0, 1].into())), "the locks of the windows of ranks 50");
        assert_eq!(need(Wants::Completes([3, 0].into())), "MPI_Win_complete of ranks 50");
    }

    #[test]
    fn operations_that_end_without_a_flush_leave_none_to_ask_for() {
        let mut window = window(8);
        assert_eq!((window.pending_count, window.unflushed_count, window.results_count), (0, 0, 0));
        assert_eq!(window.begin_operation(1), Ok(None), "no flush was for one alone yet");
        window.end_operations(1).unwrap();
        assert_eq!(window.begin_flush(1), Ok(false));
        assert_eq!(window.begin_operation(1), Ok(None), "nor has one been now");
        assert_eq!(window.begin_flush(1), Ok(true));
        assert_eq!(window.begin_flush(1), Ok(false), "asked for once");
        assert_eq!(window.begin_operation(1), Ok(Some(1)), "one alone asks for its flush itself");
        assert_eq!(window.begin_operation(1), Ok(None), "and the second does not");
        assert_eq!(window.begin_flush(1), Ok(true));
        assert_eq!(window.begin_operation(1), Ok(None), "two were flushed together");
        window.end_operations(1).unwrap();
        window.begin_long_operation(1).unwrap();
        assert_eq!(window.begin_flush(1), Ok(true));
        assert_eq!(window.begin_operation(1), Ok(None), "a long one asks for none");
    }
}
