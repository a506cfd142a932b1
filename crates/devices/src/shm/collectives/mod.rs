//! Collectives of ranks on one host, directly in shared memory.
//!
//! Owns the rooms (`room.rs`: memory and its ownership protocol) and the state machine that takes one call of
//! one communicator at a time through its rounds. Deliberately not here: operations on elements (a closure),
//! waiting (the caller polls [`NodeCollectives::advance`] together with its device, and sleeps with it: the
//! member that completes a round wakes sleeping members).
//!
//! Each member writes its contribution, arrives, and sees the round released by the last one: with more ranks
//! than CPUs a collective then takes each rank one turn on a CPU, where a tree of messages takes several.
//! Reductions go in rank order, independent of the rank that computes them: the result has the same bits
//! every time, at every rank.
//!
//! ```text
//! barrier          arrive ─ released
//! bcast, scatter   root: write, publish, arrive │ others: published ─ read, arrive       a segment at a time
//!   long           root: lend, publish, arrive ─ released │ others: published ─ copy from the root, arrive
//! reduce           write, arrive (the last one folds) │ root: released ─ read
//! allreduce        write, arrive (the last one folds) ─ released ─ read
//!   long           write, arrive ─ released ─ fold own part, arrive ─ released ─ read    a segment at a time
//! gather           write, arrive │ root: released ─ read all
//! allgather        write, arrive ─ released ─ read all
//! alltoall         write, arrive ─ released ─ read own block of each
//! reduce_scatter   write, arrive ─ released ─ fold own block of each
//! scan, exscan     write, arrive ─ released ─ fold those of lower ranks
//! ```
//!
//! Where few members with a CPU each wait for each other with short data, these are one *exchange* instead
//! ([`shared_memory::exchange_bytes_max`]): each posts its data, sees all others' posts, and reads or folds
//! what it needs, all of them the same in the same order.

mod explain;
mod lend;
pub(crate) mod room;

use super::device::Shm;
use super::segment::{Control, Segment};
use super::sleep::Waker;
use ayatori_core::buffer::{Buffer, Piece};
use ayatori_core::coll::shared_memory::{
    self, EXCHANGE_BYTES_MAX, FOLD_BY_LAST_BYTES_MAX, Occupancy, line_multiple,
};
use ayatori_core::ids::{ContextId, ProcessId};
use room::{ROOMS_COUNT, Room};
use std::ops::Range;

/// A broadcast is written and read a piece at a time, so that copying in on one CPU and out on another
/// overlap.
const PIECE_BYTES: usize = 16 << 10;

/// One collective call. Lengths are those of the buffers; all members give the same ones, and the same root.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast {
        /// Rank of the sender.
        root: u32,
        /// Read at the root, written elsewhere.
        buffer: Buffer,
    },
    /// `MPI_Reduce`.
    Reduce {
        /// Rank of the receiver.
        root: u32,
        /// The contribution.
        send: Buffer,
        /// The result; used at the root only.
        receive: Buffer,
        /// Bytes of an element: parts are not cut inside of one.
        element_bytes: usize,
    },
    /// `MPI_Allreduce`.
    Allreduce {
        /// The contribution.
        send: Buffer,
        /// The result; may be the same memory.
        receive: Buffer,
        /// Bytes of an element.
        element_bytes: usize,
    },
    /// `MPI_Gather`.
    Gather {
        /// Rank of the receiver.
        root: u32,
        /// One block.
        send: Buffer,
        /// A block from each; used at the root only.
        receive: Buffer,
    },
    /// `MPI_Allgather`.
    Allgather {
        /// One block.
        send: Buffer,
        /// A block from each.
        receive: Buffer,
    },
    /// `MPI_Scatter`.
    Scatter {
        /// Rank of the sender.
        root: u32,
        /// A block for each; used at the root only.
        send: Buffer,
        /// One block.
        receive: Buffer,
    },
    /// `MPI_Alltoall`.
    Alltoall {
        /// A block for each.
        send: Buffer,
        /// A block from each; may be the same memory.
        receive: Buffer,
    },
    /// `MPI_Reduce_scatter_block`.
    ReduceScatterBlock {
        /// A block for each.
        send: Buffer,
        /// One block; may be part of the same memory.
        receive: Buffer,
    },
    /// `MPI_Scan`, and `MPI_Exscan` where not inclusive.
    Scan {
        /// The contribution.
        send: Buffer,
        /// The result; may be the same memory. Not written by an exclusive scan at rank 0.
        receive: Buffer,
        /// Whether the caller's own contribution is part of its result.
        is_inclusive: bool,
    },
}

#[repr(align(64))]
struct Folded([u8; EXCHANGE_BYTES_MAX]);

/// Where a call stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    /// May the step of this round be written?
    Enter,
    /// Have all members posted for the exchange?
    Exchange,
    /// Is the root's data there?
    Published,
    /// Have all members arrived?
    Released,
    /// Have all members folded their parts? (Round after that of the deposits.)
    Folded,
    /// Have all members copied the memory that the root lends? (`lend.rs`)
    Lent,
    /// Is the next piece there? (`lend.rs`)
    Asked,
}

/// The collectives of one communicator at one of its members. See the [module's docs](self).
pub struct NodeCollectives {
    room: Room,
    rank: u32,
    size: u32,
    members: Vec<&'static Control>,
    waker: Waker,
    is_oversubscribed: bool,
    area_bytes: usize,
    round: u64,
    /// Wraps.
    exchanges_count: u32,
    /// Members behind this one, in a circle, that have posted for the exchange under way.
    posted_count: u32,
    exchange_bytes_max: Option<usize>,
    /// Operands of an exchange.
    folded: Box<Folded>,
    calls_count: u64,
    call: Call,
    stage: Stage,
    /// Bytes that segments before this one have done.
    done_bytes: usize,
    /// Bytes of the segment of a broadcast that are read.
    read_bytes: usize,
    /// Lengths of broadcasts that go by the kernel's copy; the same at all members.
    lent_lengths: Range<usize>,
    /// Whether this process may use the kernel's copy, as far as it knows.
    kernel_copy: bool,
}

impl Shm {
    /// Takes a room for a communicator, before the other members learn its context. Only the member that
    /// makes the context calls this. `false`: all rooms are taken, or not all members are on this host; the
    /// communicator uses schedules.
    pub fn claim_room(&self, context: ContextId, mut members: impl Iterator<Item = ProcessId>) -> bool {
        let rooms = self.segment.rooms();
        members.all(|process| self.local_rank_of(process).is_some())
            && (1..ROOMS_COUNT).any(|index| rooms(index).claim(key_of(context)))
    }

    /// Gives a room back that was taken for a communicator which was not made after all.
    pub fn unclaim_room(&self, context: ContextId) {
        let rooms = self.segment.rooms();
        (1..ROOMS_COUNT).for_each(|index| rooms(index).unclaim(key_of(context)));
    }

    /// Opens the room that was taken for the context; the members in the order of their ranks. `None`: there
    /// is no such room, or not all members are on this host. All members say the same `occupancy`. The first
    /// room is kept for `MPI_COMM_WORLD` and need not be taken.
    pub fn open_room(
        &self,
        context: ContextId,
        members: impl Iterator<Item = ProcessId>,
        occupancy: Occupancy,
    ) -> Option<NodeCollectives> {
        let locals: Option<Vec<u32>> = members.map(|process| self.local_rank_of(process)).collect();
        let locals = locals?;
        let rank = locals.iter().position(|&local| local == self.local_rank)? as u32;
        let rooms = self.segment.rooms();
        if context.is_world() {
            rooms(0).claim(key_of(context));
        }
        let room = (0..ROOMS_COUNT).map(rooms).find(|room| room.is(key_of(context)))?;
        let members = locals.iter().map(|&local| &self.segment.controls()[local as usize]).collect();
        let (waker, kernel_copy) = (self.sleeper.waker(), self.rails[0].get);
        Some(NodeCollectives::new(room, rank, members, waker, occupancy, kernel_copy))
    }
}

fn key_of(context: ContextId) -> u64 {
    context.0.wrapping_add(1)
}

impl Segment {
    /// The rooms, by index.
    fn rooms(&self) -> impl Fn(usize) -> Room + use<> {
        let (mapping, at, layout) = self.rooms_place();
        move |index| Room::new(mapping, at + index * layout.bytes(), layout)
    }
}

impl NodeCollectives {
    fn new(
        room: Room,
        rank: u32,
        members: Vec<&'static Control>,
        waker: Waker,
        occupancy: Occupancy,
        kernel_copy: bool,
    ) -> Self {
        let size = members.len() as u32;
        Self {
            room,
            rank,
            size,
            members,
            waker,
            is_oversubscribed: occupancy.is_oversubscribed(),
            area_bytes: room.area_bytes(),
            round: 0,
            exchanges_count: 0,
            posted_count: 0,
            exchange_bytes_max: shared_memory::exchange_bytes_max(size, occupancy),
            folded: Box::new(Folded([0; EXCHANGE_BYTES_MAX])),
            calls_count: 0,
            call: Call::Barrier,
            stage: Stage::Idle,
            done_bytes: 0,
            read_bytes: 0,
            lent_lengths: shared_memory::lent_lengths(size, occupancy),
            kernel_copy,
        }
    }

    /// Begins a call; [`advance`](Self::advance) does it.
    ///
    /// The call is one that [`is_direct`](super::is_direct) says yes to, and for reductions of vectors
    /// [`operand_fits`](super::operand_fits), too.
    ///
    /// # Panics
    /// If the call before has not ended: our bug.
    pub fn start(&mut self, call: Call) {
        assert!(self.stage == Stage::Idle, "{call:?} at {:?}", self.stage);
        self.call = call;
        self.calls_count += 1;
        self.done_bytes = 0;
        self.stage = match call {
            Call::Bcast { root, .. } | Call::Scatter { root, .. } if root != self.rank => Stage::Published,
            _ => match self.exchanged(&call) {
                Some(data) => {
                    self.post(&data);
                    Stage::Exchange
                }
                None => Stage::Enter,
            },
        };
    }

    /// This member's data if the call is an exchange; `None`: it is none.
    #[inline]
    fn exchanged(&self, call: &Call) -> Option<Buffer> {
        let data = match *call {
            Call::Barrier => Buffer::EMPTY,
            Call::Allreduce { send, .. }
            | Call::Allgather { send, .. }
            | Call::Alltoall { send, .. }
            | Call::ReduceScatterBlock { send, .. }
            | Call::Scan { send, .. } => send,
            _ => return None,
        };
        (data.len() <= self.exchange_bytes_max?).then_some(data)
    }

    /// Goes on as far as possible without waiting. `true`: the call has ended. `reduce(a, b)` is to make
    /// a := a op b, where a comes from lower ranks; it sees whole elements.
    #[inline]
    pub fn advance(&mut self, reduce: &mut impl FnMut(&mut [u8], &[u8])) -> bool {
        loop {
            let goes_on = match self.stage {
                Stage::Idle => return true,
                Stage::Enter => self.room.may_enter(self.round) && self.on_enter(reduce),
                Stage::Exchange => self.have_posted() && self.on_exchanged(reduce),
                Stage::Published => self.room.pieces(self.round) > 0 && self.on_published(),
                Stage::Released => self.room.is_released(self.round) && self.on_released(reduce),
                Stage::Folded => self.room.is_released(self.round) && self.on_folded(),
                Stage::Lent => self.serve(self.lent()),
                Stage::Asked => self.take_piece(self.lent()),
            };
            if !goes_on {
                return false;
            }
        }
    }

    /// Gives the room up. The communicator is being freed: all members do this, and no call is in progress.
    pub fn leave(self) {
        self.room.leave(self.size);
    }

    #[inline]
    fn post(&mut self, data: &Buffer) {
        self.exchanges_count = self.exchanges_count.wrapping_add(1);
        self.posted_count = 0;
        self.room.post(self.rank, self.exchanges_count, data);
        self.wake_others();
    }

    /// Whether all others have posted. Who has not is asked again, and those behind it only then: a line that
    /// nobody asks for is written sooner.
    #[inline]
    fn have_posted(&mut self) -> bool {
        let others_count = self.size - 1;
        while self.posted_count < others_count {
            let after = self.rank + 1 + self.posted_count;
            let other = if after < self.size { after } else { after - self.size };
            if !self.room.has_posted(other, self.exchanges_count) {
                return false;
            }
            self.posted_count += 1;
        }
        true
    }

    /// All members have posted: reads their data. The call ends with this.
    #[inline]
    fn on_exchanged(&mut self, reduce: &mut impl FnMut(&mut [u8], &[u8])) -> bool {
        self.stage = Stage::Idle;
        match self.call {
            Call::Allreduce { send, receive, .. } => {
                self.fold_posts(self.size, send.len(), 0, receive, reduce);
            }
            Call::ReduceScatterBlock { send, receive } => {
                self.fold_posts(self.size, send.len(), self.rank as usize * receive.len(), receive, reduce);
            }
            Call::Scan { send, receive, is_inclusive } => {
                self.fold_posts(self.rank + u32::from(is_inclusive), send.len(), 0, receive, reduce);
            }
            Call::Allgather { send, receive } => self.read_posts(send.len(), 0, send.len(), receive),
            Call::Alltoall { send, receive } => {
                let block = send.len() / self.size as usize;
                self.read_posts(send.len(), self.rank as usize * block, block, receive);
            }
            Call::Barrier => {}
            _ => unreachable!("these are no exchanges"),
        }
        true
    }

    /// Folds what lies at `from` in the posts, of `posted_len` bytes each, of the first `count` members, in
    /// the order of their ranks.
    #[inline]
    fn fold_posts(
        &mut self,
        count: u32,
        posted_len: usize,
        from: usize,
        receive: Buffer,
        reduce: &mut impl FnMut(&mut [u8], &[u8]),
    ) {
        let (number, len) = (self.exchanges_count, receive.len());
        let posted = |rank| self.room.posted(rank, number, posted_len, from..from + len);
        let folded = &mut self.folded.0[..len];
        for rank in 0..count {
            if rank == 0 {
                folded.copy_from_slice(posted(0));
            } else {
                reduce(folded, posted(rank));
            }
        }
        if count > 0 {
            receive.scatter(0, Piece::Bytes(folded));
        }
    }

    /// Puts what lies at `from` in each post one behind the other.
    #[inline]
    fn read_posts(&self, posted_len: usize, from: usize, len: usize, receive: Buffer) {
        for rank in 0..self.size {
            let number = self.exchanges_count;
            let posted = self.room.posted(rank, number, posted_len, from..from + len);
            receive.scatter(rank as usize * len, Piece::Bytes(posted));
        }
    }

    /// The step is ours to write: writes this member's part and arrives.
    fn on_enter(&mut self, reduce: &mut impl FnMut(&mut [u8], &[u8])) -> bool {
        let (round, done) = (self.round, self.done_bytes);
        match self.call {
            Call::Barrier => self.arrive_and(Stage::Released),
            Call::Bcast { buffer, .. } if self.is_lent(buffer.len()) => self.lend(buffer),
            Call::Bcast { buffer, .. } => {
                let len = self.block_segment_bytes(buffer.len() - done);
                self.write_pieces(buffer, len);
                self.arrive_and(Stage::Idle);
                self.next_segment(len, buffer.len(), Stage::Enter);
            }
            Call::Scatter { send, receive, .. } => {
                let (block, len) = (receive.len(), self.block_segment_bytes(receive.len() - done));
                let stride = self.stride(len);
                for rank in (0..self.size as usize).filter(|&rank| rank != self.rank as usize) {
                    self.room.write(round, rank * stride, &send, rank * block + done, len);
                }
                receive.copy_from(done, &send, self.rank as usize * block + done, len);
                self.publish(1);
                self.wake_members();
                self.arrive_and(Stage::Idle);
                self.next_segment(len, block, Stage::Enter);
            }
            Call::Reduce { send, element_bytes, .. } | Call::Allreduce { send, element_bytes, .. } => {
                self.deposit_operand(send, element_bytes, reduce);
            }
            Call::Gather { send, root, .. } => {
                let len = self.block_segment_bytes(send.len() - done);
                self.deposit(send, len);
                if root == self.rank {
                    self.arrive_and(Stage::Released);
                } else {
                    self.arrive_and(Stage::Idle);
                    self.next_segment(len, send.len(), Stage::Enter);
                }
            }
            Call::Allgather { send, .. } => {
                self.deposit(send, self.block_segment_bytes(send.len() - done));
                self.arrive_and(Stage::Released);
            }
            Call::Alltoall { send, .. } => {
                self.deposit_blocks(send);
                self.arrive_and(Stage::Released);
            }
            Call::ReduceScatterBlock { send, .. } | Call::Scan { send, .. } => {
                self.deposit(send, send.len());
                self.arrive_and(Stage::Released);
            }
        }
        true
    }

    fn on_published(&mut self) -> bool {
        let (round, at, done) = (self.round, self.room.result_at(), self.done_bytes);
        match self.call {
            Call::Bcast { buffer, root } if self.is_lent(buffer.len()) => self.borrow(root, buffer),
            Call::Bcast { buffer, .. } => {
                let len = self.block_segment_bytes(buffer.len() - done);
                let (from, to) = (self.read_bytes, len.min(self.room.pieces(round) * PIECE_BYTES));
                if from < to {
                    self.room.read(round, at + from, &buffer, done + from, to - from);
                    self.read_bytes = to;
                }
                if to < len {
                    return false;
                }
                self.read_bytes = 0;
                self.arrive_and(Stage::Idle);
                self.next_segment(len, buffer.len(), Stage::Published);
            }
            Call::Scatter { receive, .. } => {
                let len = self.block_segment_bytes(receive.len() - done);
                self.room.read(round, self.rank as usize * self.stride(len), &receive, done, len);
                self.arrive_and(Stage::Idle);
                self.next_segment(len, receive.len(), Stage::Published);
            }
            _ => unreachable!("only these publish"),
        }
        true
    }

    /// All members have arrived: reads the round's data. The round ends with this.
    fn on_released(&mut self, reduce: &mut impl FnMut(&mut [u8], &[u8])) -> bool {
        let (round, done) = (self.round, self.done_bytes);
        match self.call {
            Call::Barrier => self.end_round(Stage::Idle),
            Call::Reduce { send, receive, element_bytes, .. }
            | Call::Allreduce { send, receive, element_bytes } => {
                if send.len() <= FOLD_BY_LAST_BYTES_MAX {
                    self.room.read(round, self.room.result_at(), &receive, 0, send.len());
                    self.end_round(Stage::Idle);
                } else {
                    self.fold_part(send.len(), element_bytes, reduce);
                }
            }
            Call::Gather { send, receive, .. } | Call::Allgather { send, receive } => {
                let (block, len) = (send.len(), self.block_segment_bytes(send.len() - done));
                let stride = self.stride(len);
                for rank in 0..self.size as usize {
                    self.room.read(round, rank * stride, &receive, rank * block + done, len);
                }
                self.end_round(Stage::Idle);
                self.next_segment(len, block, Stage::Enter);
            }
            Call::Alltoall { send, receive } => {
                let (block, len) = self.alltoall_segment(send.len());
                let stride = self.stride(len * self.size as usize);
                for rank in 0..self.size as usize {
                    let from = rank * stride + self.rank as usize * len;
                    self.room.read(round, from, &receive, rank * block + done, len);
                }
                self.end_round(Stage::Idle);
                self.next_segment(len, block, Stage::Enter);
            }
            Call::ReduceScatterBlock { send, receive } => {
                let from = self.rank as usize * receive.len();
                self.fold_own(self.stride(send.len()), from, self.size as usize, receive, reduce);
                self.end_round(Stage::Idle);
            }
            Call::Scan { send, receive, is_inclusive } => {
                let count = self.rank as usize + usize::from(is_inclusive);
                if count > 0 {
                    self.fold_own(self.stride(send.len()), 0, count, receive, reduce);
                }
                self.end_round(Stage::Idle);
            }
            Call::Bcast { .. } | Call::Scatter { .. } => unreachable!("these do not wait for the release"),
        }
        true
    }

    /// All parts of a long reduction are folded: reads the whole.
    fn on_folded(&mut self) -> bool {
        let (total, receive, element_bytes) = match self.call {
            Call::Allreduce { send, receive, element_bytes }
            | Call::Reduce { send, receive, element_bytes, .. } => (send.len(), receive, element_bytes),
            _ => unreachable!("only reductions fold"),
        };
        let len = self.operand_segment_bytes(total - self.done_bytes, element_bytes);
        self.room.read(self.round, self.room.result_at(), &receive, self.done_bytes, len);
        self.end_round(Stage::Idle);
        self.next_segment(len, total, Stage::Enter);
        true
    }

    /// Whether a broadcast of this length goes by the kernel's copy.
    fn is_lent(&self, len: usize) -> bool {
        self.lent_lengths.contains(&len)
    }

    /// The memory lent.
    fn lent(&self) -> Buffer {
        match self.call {
            Call::Bcast { buffer, .. } => buffer,
            _ => unreachable!("only a broadcast lends"),
        }
    }

    /// The root writes a segment of a broadcast; members that wait on other CPUs read along.
    fn write_pieces(&self, buffer: Buffer, len: usize) {
        let mut written = 0;
        for pieces in 1.. {
            let piece = PIECE_BYTES.min(len - written);
            let at = self.room.result_at() + written;
            self.room.write(self.round, at, &buffer, self.done_bytes + written, piece);
            self.publish(pieces);
            written += piece;
            if written == len {
                break;
            }
        }
        self.wake_members();
    }

    fn deposit(&self, send: Buffer, len: usize) {
        let at = self.rank as usize * self.stride(len);
        self.room.write(self.round, at, &send, self.done_bytes, len);
    }

    /// A segment of the block for each.
    fn deposit_blocks(&self, send: Buffer) {
        let (block, len) = self.alltoall_segment(send.len());
        let n = self.size as usize;
        let at = self.rank as usize * self.stride(len * n);
        if len == block {
            return self.room.write(self.round, at, &send, 0, send.len());
        }
        for rank in 0..n {
            self.room.write(self.round, at + rank * len, &send, rank * block + self.done_bytes, len);
        }
    }

    /// Bytes of a block, and of its part in this round.
    fn alltoall_segment(&self, send_bytes: usize) -> (usize, usize) {
        let block = send_bytes / self.size as usize;
        (block, shared_memory::alltoall_segment_bytes(block, self.done_bytes, self.size, self.area_bytes))
    }

    fn deposit_operand(
        &mut self,
        send: Buffer,
        element_bytes: usize,
        reduce: &mut impl FnMut(&mut [u8], &[u8]),
    ) {
        let total = send.len();
        let len = self.operand_segment_bytes(total - self.done_bytes, element_bytes);
        let stride = self.stride(len);
        self.room.write(self.round, self.rank as usize * stride, &send, self.done_bytes, len);
        if total > FOLD_BY_LAST_BYTES_MAX {
            return self.arrive_and(Stage::Released);
        }
        if self.room.arrive(self.round, self.size) {
            let deposits = (0..self.size as usize).map(|rank| rank * stride);
            let result = (self.round, self.room.result_at());
            self.room.fold(self.round, deposits, result, len, reduce);
            self.release();
        }
        match self.call {
            Call::Reduce { root, .. } if root != self.rank => self.end_round(Stage::Idle),
            _ => self.stage = Stage::Released,
        }
    }

    /// Folds this member's part of all deposits, into the step of the next round.
    fn fold_part(&mut self, total: usize, element_bytes: usize, reduce: &mut impl FnMut(&mut [u8], &[u8])) {
        let len = self.operand_segment_bytes(total - self.done_bytes, element_bytes);
        let (n, stride) = (self.size as usize, self.stride(len));
        let part_bytes = shared_memory::fold_part_bytes(len, self.size, element_bytes);
        let from = (self.rank as usize * part_bytes).min(len);
        let to = (from + part_bytes).min(len);
        if from < to {
            let deposits = (0..n).map(|rank| rank * stride + from);
            let result = (self.round + 1, self.room.result_at() + from);
            self.room.fold(self.round, deposits, result, to - from, reduce);
        }
        self.round += 1;
        if self.room.arrive(self.round, self.size) {
            self.release();
        }
        match self.call {
            // The result is the root's to read; the others go on.
            Call::Reduce { root, .. } if root != self.rank => {
                self.end_round(Stage::Idle);
                self.next_segment(len, total, Stage::Enter);
            }
            _ => self.stage = Stage::Folded,
        }
    }

    /// Folds what lies at `from` in the first `count` deposits, in this member's part of the result area, and
    /// reads it.
    fn fold_own(
        &self,
        stride: usize,
        from: usize,
        count: usize,
        receive: Buffer,
        reduce: &mut impl FnMut(&mut [u8], &[u8]),
    ) {
        let len = receive.len();
        let result_at = self.room.result_at() + self.rank as usize * line_multiple(len);
        let deposits = (0..count).map(|rank| rank * stride + from);
        self.room.fold(self.round, deposits, (self.round, result_at), len, reduce);
        self.room.read(self.round, result_at, &receive, 0, len);
    }

    /// Distance of two members' deposits of `len` bytes: apart by whole lines, so that no two CPUs write one
    /// line; close together if ranks outnumber CPUs, so that the folding rank reads fewer lines.
    fn stride(&self, len: usize) -> usize {
        if self.is_oversubscribed { len.next_multiple_of(16) } else { line_multiple(len) }
    }

    fn block_segment_bytes(&self, rest: usize) -> usize {
        rest.min(self.area_bytes)
    }

    fn operand_segment_bytes(&self, rest: usize, element_bytes: usize) -> usize {
        shared_memory::operand_segment_bytes(rest, element_bytes, self.area_bytes)
    }

    /// Arrives at the round. If this call has nothing to wait for in it the round ends here.
    fn arrive_and(&mut self, then: Stage) {
        if self.room.arrive(self.round, self.size) {
            self.release();
        }
        if then == Stage::Idle {
            self.end_round(then);
        } else {
            self.stage = then;
        }
    }

    fn end_round(&mut self, then: Stage) {
        self.round += 1;
        self.stage = then;
    }

    fn next_segment(&mut self, len: usize, total: usize, stage: Stage) {
        self.done_bytes += len;
        self.stage = if self.done_bytes < total { stage } else { Stage::Idle };
    }

    fn publish(&self, pieces: usize) {
        self.room.publish(self.round, pieces);
    }

    fn release(&self) {
        self.room.release(self.round);
        self.wake_members();
    }

    #[inline]
    fn wake_others(&self) {
        if self.size == 2 {
            self.waker.wake_all(&self.members[1 - self.rank as usize..][..1]);
        } else {
            self.wake_members();
        }
    }

    fn wake_members(&self) {
        self.waker.wake_all(&self.members);
    }
}

#[cfg(test)]
mod tests;
