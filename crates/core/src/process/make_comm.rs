//! Making communicators (MPI-5.0 §7.4.2). The new group's rank 0 names the new context, so each making is one
//! broadcast in the new group, or for a split one allgather of (color, key, context) in the old.

use super::{CommSlot, Process};
use crate::buffer::Scratch;
use crate::coll;
use crate::coll::running::{How, Making, Naming, Span};
use crate::comm::Communicator;
use crate::device::Device;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rank, Tag};
use crate::request::{Completion, Posted};
use alloc::vec::Vec;

/// Bytes of a context id.
const CONTEXT_BYTES: usize = 8;
/// What each process contributes to a split: color, key, context.
const SPLIT_BYTES: usize = 4 + 4 + CONTEXT_BYTES;
/// Color of a process that wants no communicator; users' colors are below.
const NO_COLOR: u32 = u32::MAX;

impl Process {
    /// A communicator with the same members and a context of its own (`MPI_Comm_idup`). It may be used once
    /// the request has completed.
    pub fn icomm_dup<D: Device>(&mut self, device: &mut D, comm: CommId) -> Result<(CommId, Posted), Error> {
        let span = self.next_span(comm)?;
        self.make_named(device, span)
    }

    /// A communicator of `group`, a subset of the communicator's members; all its members call
    /// (`MPI_Comm_create`). `None` for those not in the group.
    pub fn icomm_create<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        group: &Group,
    ) -> Result<Option<(CommId, Posted)>, Error> {
        let span = self.next_span(comm)?;
        self.make_among(device, span, group)
    }

    /// The same, called by the members of `group` only (`MPI_Comm_create_group`); `tag` tells concurrent calls
    /// apart.
    pub fn icomm_create_group<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        group: &Group,
        tag: Tag,
    ) -> Result<Option<(CommId, Posted)>, Error> {
        let communicator = self.comm(comm)?;
        let tag = Communicator::create_group_tag(tag);
        let context = communicator.context().collective();
        let (parent, rank) = (communicator.group().clone(), communicator.rank());
        self.make_among(device, Span { group: parent, rank, context, tag, naming: Naming::Process }, group)
    }

    fn make_among<D: Device>(
        &mut self,
        device: &mut D,
        parent: Span,
        group: &Group,
    ) -> Result<Option<(CommId, Posted)>, Error> {
        if group.iter().any(|process| parent.group.rank_of(process).is_none()) {
            return Err(Error::Group);
        }
        match group.rank_of(self.me) {
            Some(rank) => self.make_named(device, Span { group: group.clone(), rank, ..parent }).map(Some),
            None => Ok(None),
        }
    }

    fn make_named<D: Device>(&mut self, device: &mut D, span: Span) -> Result<(CommId, Posted), Error> {
        let mut memory = Scratch::new(CONTEXT_BYTES);
        let buffer = memory.buffer(CONTEXT_BYTES);
        if span.rank == 0 {
            let name = self.new_context().0.to_le_bytes();
            buffer.with_mut(|bytes| bytes.copy_from_slice(&name));
        }
        let context = coll::Context { rank: span.rank, size: span.group.size() };
        let choice = unsegmented(coll::Algorithm::Binomial);
        let schedule = coll::bcast(&mut self.pool, context, buffer, 0, choice)?;
        let how = How::Named { group: span.group.clone(), rank: span.rank };
        let into = self.reserve_comm();
        let posted = self.start_schedule(device, schedule, span, Some(Making { into, how, memory }));
        Ok((into, posted))
    }

    /// Communicators of those that give the same `color`, ranked by `key` and old rank (`MPI_Comm_split`).
    /// With color `None` the new id stays without a communicator and is to be forgotten.
    pub fn icomm_split<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        color: Option<u32>,
        key: i32,
    ) -> Result<(CommId, Posted), Error> {
        let span = self.next_span(comm)?;
        let size = span.group.size();
        let mut memory = Scratch::new(SPLIT_BYTES * size as usize);
        let all = memory.buffer(SPLIT_BYTES * size as usize);
        let mine = all.part(SPLIT_BYTES * span.rank as usize, SPLIT_BYTES);
        let name = self.new_context();
        mine.with_mut(|bytes| {
            bytes[..4].copy_from_slice(&color.unwrap_or(NO_COLOR).to_le_bytes());
            bytes[4..8].copy_from_slice(&key.to_le_bytes());
            bytes[8..].copy_from_slice(&name.0.to_le_bytes());
        });
        let context = coll::Context { rank: span.rank, size };
        let choice = unsegmented(coll::Algorithm::Bruck);
        let blocks = coll::Blocks::Uniform(all);
        let schedule = coll::allgather(&mut self.pool, context, None, blocks, choice)?;
        let how = How::Split { parent: span.group.clone(), color };
        let into = self.reserve_comm();
        let posted = self.start_schedule(device, schedule, span, Some(Making { into, how, memory }));
        Ok((into, posted))
    }

    /// Gives a communicator up. Messages under way on it still arrive.
    pub fn free_comm(&mut self, comm: CommId) -> Result<(), Error> {
        self.comm(comm)?;
        if comm == CommId::WORLD || comm == CommId::SELF {
            return Err(Error::Comm);
        }
        if let Ok(freed) = self.comm(comm) {
            let context = freed.context();
            self.forget_comm_gap(context);
        }
        self.comms[comm.0 as usize] = CommSlot::Free;
        Ok(())
    }

    /// Everything a making needs has arrived.
    pub(super) fn finish_making(&mut self, mut making: Making) {
        let made = match making.how {
            How::Named { group, rank } => {
                let context = making.memory.buffer(CONTEXT_BYTES).with_mut(|bytes| read_context(bytes));
                context.map(|context| Communicator::new(context, group, rank))
            }
            How::Split { parent, color } => {
                let bytes = SPLIT_BYTES * parent.size() as usize;
                let all = making.memory.buffer(bytes);
                all.with_mut(|all| split_off(self.me, &parent, color, all)).flatten()
            }
        };
        self.comms[making.into.0 as usize] = made.map_or(CommSlot::Free, CommSlot::Live);
        self.settle_early_gap(making.into);
    }

    pub(super) fn abandon_making(&mut self, making: Making) {
        self.comms[making.into.0 as usize] = CommSlot::Free;
        self.settle_early_gap(making.into);
        // A message under way may still write there.
        core::mem::forget(making.memory);
    }

    fn reserve_comm(&mut self) -> CommId {
        let free = self.comms.iter().position(|slot| matches!(slot, CommSlot::Free));
        let at = free.unwrap_or(self.comms.len());
        if at == self.comms.len() {
            self.comms.push(CommSlot::Free);
        }
        self.comms[at] = CommSlot::Reserved;
        CommId(at as u32)
    }

    /// Adds a communicator whose members have agreed on it.
    #[cfg(test)]
    pub(crate) fn add_comm(&mut self, comm: Communicator) -> CommId {
        let id = self.reserve_comm();
        self.comms[id.0 as usize] = CommSlot::Live(comm);
        id
    }

    /// The context of the next communicator that this process names as its rank 0: for what has to be in place
    /// before the others learn of it.
    pub fn next_context(&self) -> ContextId {
        ContextId::new(self.me, self.next_context)
    }

    /// Names a new communicator that this process leads.
    pub(super) fn new_context(&mut self) -> ContextId {
        let context = self.next_context();
        self.next_context += 1;
        context
    }
}

/// A choice without a pipeline: these messages are short.
const fn unsegmented(algorithm: coll::Algorithm) -> coll::Choice {
    coll::Choice { algorithm, segment_bytes: 0 }
}

fn read_context(bytes: &[u8]) -> ContextId {
    ContextId(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// This process' part of a split parent.
fn split_off(me: ProcessId, parent: &Group, color: Option<u32>, all: &[u8]) -> Option<Communicator> {
    let color = color?;
    let field = |entry: &[u8], at: usize| [entry[at], entry[at + 1], entry[at + 2], entry[at + 3]];
    let mut members: Vec<(i32, Rank, ContextId)> = all
        .chunks_exact(SPLIT_BYTES)
        .enumerate()
        .filter(|(_, entry)| u32::from_le_bytes(field(entry, 0)) == color)
        .map(|(rank, entry)| (i32::from_le_bytes(field(entry, 4)), rank as Rank, read_context(&entry[8..])))
        .collect();
    members.sort_unstable_by_key(|&(key, rank, _)| (key, rank));
    let context = members.first()?.2;
    let processes = members.iter().filter_map(|&(_, rank, _)| parent.process(rank)).collect();
    let group = Group::from_members(processes).ok()?;
    let rank = group.rank_of(me)?;
    Some(Communicator::new(context, group, rank))
}

/// For callers that wait: what [`Posted::Done`] or a taken completion says.
impl From<Completion> for Result<(), Error> {
    fn from(completion: Completion) -> Self {
        completion.error.map_or(Ok(()), Err)
    }
}
