//! Making communicators (MPI-5.0 §7.4.2). The new group's rank 0 names the new context, so each making is one
//! broadcast in the new group, or for a split one allgather of (color, key, context) in the old. Those of an
//! inter-communicator go among the members of both groups. How one is made of two groups: `meet.rs`.

use super::Collectives;
use crate::buffer::Scratch;
use crate::coll::running::{How, Making, Naming, Running, Span, Then};
use crate::coll::{self, StepId};
use crate::comm::Communicator;
use crate::device::Device;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Tag};
use crate::request::{Completion, Posted, Woken};
use crate::survive;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a context id.
const CONTEXT_BYTES: usize = 8;
/// What each process contributes to a split: color, key, context.
const SPLIT_BYTES: usize = 4 + 4 + CONTEXT_BYTES;
/// Color of a process that wants no communicator; users' colors are below.
const NO_COLOR: u32 = u32::MAX;

impl Collectives<'_> {
    /// A communicator with the same members and a context of its own (`MPI_Comm_idup`). It may be used once
    /// the request has completed.
    pub fn icomm_dup<D: Device>(&mut self, device: &mut D, comm: CommId) -> Result<(CommId, Posted), Error> {
        let span = self.next_span(comm)?;
        let unnamed = self.comms.get(comm)?.clone();
        self.make_named(device, span, unnamed)
    }

    /// A communicator of `group`, a subset of the communicator's members; all its members call
    /// (`MPI_Comm_create`). `None` for those not in the group. In an inter-communicator each group gives a
    /// subset of itself. At members outside the subset the new id stays without a communicator, and the
    /// caller drops it.
    pub fn icomm_create<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        group: &Group,
    ) -> Result<Option<(CommId, Posted)>, Error> {
        if self.comms.get(comm)?.is_inter() {
            check_subset(group, self.comms.get(comm)?.group())?;
            let rank = group.rank_of(self.messages.me);
            let (color, key) = (rank.map(|_| 0), rank.unwrap_or_default() as i32);
            return self.icomm_split(device, comm, color, key).map(Some);
        }
        let span = self.next_span(comm)?;
        self.make_among(device, span, group)
    }

    /// The same, called by the members of `group` only (`MPI_Comm_create_group`); `tag` tells concurrent
    /// calls apart.
    pub fn icomm_create_group<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        group: &Group,
        tag: Tag,
    ) -> Result<Option<(CommId, Posted)>, Error> {
        let communicator = self.comms.get(comm)?;
        if communicator.is_inter() {
            return Err(Error::Comm);
        }
        let tag = Communicator::create_group_tag(tag);
        let context = communicator.context().collective();
        let (parent, rank) = (communicator.group().clone(), communicator.rank());
        self.make_among(device, Span { group: parent, rank, context, tag, naming: Naming::Process }, group)
    }

    /// A communicator of `group`, made by its members alone and without an old one
    /// (`MPI_Comm_create_from_group`); `name` tells concurrent calls apart. `None` for those not in the
    /// group.
    pub fn icomm_of_group<D: Device>(
        &mut self,
        device: &mut D,
        group: &Group,
        name: &[u8],
    ) -> Result<Option<(CommId, Posted)>, Error> {
        let span = Span {
            group: group.clone(),
            rank: 0,
            context: ContextId::of_name(name, group.iter()),
            tag: 0,
            naming: Naming::Rank,
        };
        self.make_among(device, span, group)
    }

    fn make_among<D: Device>(
        &mut self,
        device: &mut D,
        parent: Span,
        group: &Group,
    ) -> Result<Option<(CommId, Posted)>, Error> {
        check_subset(group, &parent.group)?;
        let Some(rank) = group.rank_of(self.messages.me) else { return Ok(None) };
        let unnamed = Communicator::new(ContextId::WORLD, group.clone(), rank);
        self.make_named(device, Span { group: group.clone(), rank, ..parent }, unnamed).map(Some)
    }

    /// Makes a communicator of which all is known but its context.
    fn make_named<D: Device>(
        &mut self,
        device: &mut D,
        span: Span,
        unnamed: Communicator,
    ) -> Result<(CommId, Posted), Error> {
        let mut memory = Scratch::new(CONTEXT_BYTES);
        let buffer = memory.buffer(CONTEXT_BYTES);
        if span.rank == 0 {
            let name = self.comms.new_context().0.to_le_bytes();
            buffer.with_mut(|bytes| bytes.copy_from_slice(&name));
        }
        let context = coll::Context { rank: span.rank, size: span.group.size() };
        let choice = unsegmented(coll::Algorithm::Binomial);
        let schedule = coll::bcast(&mut self.own.pool, context, buffer, 0, choice)?;
        let how = How::Named(unnamed);
        let into = self.comms.reserve();
        let posted = self.start_schedule(
            device,
            schedule,
            span,
            Some(Then::Make(Box::new(Making { into, how, memory }))),
        );
        Ok((into, posted))
    }

    /// Communicators of those that give the same `color`, ranked by `key` and old rank (`MPI_Comm_split`).
    /// With color `None` the new id stays without a communicator, and the caller drops it. The same holds in
    /// an inter-communicator for a color that no member of the other group gives.
    pub fn icomm_split<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        color: Option<u32>,
        key: i32,
    ) -> Result<(CommId, Posted), Error> {
        let how = How::Split { parent: self.comms.get(comm)?.clone(), color };
        self.make_of_all(device, comm, how, (color.unwrap_or(NO_COLOR), key))
    }

    /// The communicator of both groups of an inter-communicator, that which gives `is_high` after the other
    /// (`MPI_Intercomm_merge`). If both give the same, the first group goes first. The members of a group
    /// agree.
    pub fn icomm_merge<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        is_high: bool,
    ) -> Result<(CommId, Posted), Error> {
        let parent = self.comms.get(comm)?.clone();
        if !parent.is_inter() {
            return Err(Error::Comm);
        }
        self.make_of_all(device, comm, How::Merge { parent }, (is_high.into(), 0))
    }

    /// Makes communicators of what all members say.
    fn make_of_all<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        how: How,
        (color, key): (u32, i32),
    ) -> Result<(CommId, Posted), Error> {
        let span = self.next_span(comm)?;
        let size = span.group.size();
        let mut memory = Scratch::new(SPLIT_BYTES * size as usize);
        let all = memory.buffer(SPLIT_BYTES * size as usize);
        let mine = all.part(SPLIT_BYTES * span.rank as usize, SPLIT_BYTES);
        let name = self.comms.new_context();
        mine.with_mut(|bytes| {
            bytes[..4].copy_from_slice(&color.to_le_bytes());
            bytes[4..8].copy_from_slice(&key.to_le_bytes());
            bytes[8..].copy_from_slice(&name.0.to_le_bytes());
        });
        let context = coll::Context { rank: span.rank, size };
        let choice = unsegmented(coll::Algorithm::Bruck);
        let blocks = coll::Blocks::Uniform(all);
        let schedule = coll::allgather(&mut self.own.pool, context, None, blocks, choice)?;
        let into = self.comms.reserve();
        let posted = self.start_schedule(
            device,
            schedule,
            span,
            Some(Then::Make(Box::new(Making { into, how, memory }))),
        );
        Ok((into, posted))
    }

    /// The schedule of a making is over: what comes next, if it goes on.
    pub(super) fn finish_making(
        &mut self,
        making: Making,
        failure: Option<Error>,
    ) -> Result<Option<Box<Running>>, Error> {
        let Making { into, how, mut memory } = making;
        if let How::Meeting(meeting) = how {
            return self.go_on_meeting(into, meeting, memory, failure);
        }
        let made = match (&how, failure) {
            (_, Some(error)) => {
                // A message under way may still write there.
                core::mem::forget(memory);
                Err(error)
            }
            (How::Named(unnamed), None) => {
                let context = memory.buffer(CONTEXT_BYTES).with_mut(|bytes| read_context(bytes));
                Ok(context.map(|context| unnamed.with_context(context)))
            }
            (How::Split { parent, color }, None) => {
                let all = memory.buffer(SPLIT_BYTES * parent.members().size() as usize);
                all.with_mut(|all| split_off(self.messages.me, parent, *color, all)).unwrap_or(Ok(None))
            }
            (How::Merge { parent }, None) => {
                let all = memory.buffer(SPLIT_BYTES * parent.members().size() as usize);
                all.with_mut(|all| merge(self.messages.me, parent, all)).transpose()
            }
            (How::Meeting(_), None) => unreachable!("looked at above"),
        };
        self.end_making(into, made).map(|()| None)
    }

    /// A communicator comes of a making, or none.
    pub(crate) fn end_making(
        &mut self,
        into: CommId,
        made: Result<Option<Communicator>, Error>,
    ) -> Result<(), Error> {
        let (made, result) = match made {
            Ok(made) => (made, Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.messages.gaps.settle_early(into, made.as_ref().map(Communicator::context));
        self.comms.fill(into, made);
        let survives = self.messages.survives();
        if !self.comms.untold.is_empty() || survives && !self.messages.lost.is_empty() {
            // The next round looks at it: nothing else may wake one.
            let completion = Completion::EMPTY;
            self.messages.woken.push_back(Woken { parent: survive::PARENT, step: StepId(0), completion });
        }
        result
    }
}

/// A choice without a pipeline: these messages are short.
pub(super) const fn unsegmented(algorithm: coll::Algorithm) -> coll::Choice {
    coll::Choice { algorithm, segment_bytes: 0 }
}

fn read_context(bytes: &[u8]) -> ContextId {
    ContextId(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

fn check_subset(group: &Group, of: &Group) -> Result<(), Error> {
    let is_in = |process| of.rank_of(process).is_some();
    if group.iter().all(is_in) { Ok(()) } else { Err(Error::Group) }
}

/// A member's contribution: its color and key, its id, the context it would name.
struct Wish {
    color: u32,
    key: i32,
    process: ProcessId,
    context: ContextId,
}

/// The contributions of all members, in the order of their numbers.
fn wishes<'a>(parent: &'a Communicator, all: &'a [u8]) -> impl Iterator<Item = Wish> + 'a {
    let field = |entry: &[u8], at: usize| [entry[at], entry[at + 1], entry[at + 2], entry[at + 3]];
    parent.members().iter().zip(all.chunks_exact(SPLIT_BYTES)).map(move |(process, entry)| Wish {
        color: u32::from_le_bytes(field(entry, 0)),
        key: i32::from_le_bytes(field(entry, 4)),
        process,
        context: read_context(&entry[8..]),
    })
}

/// This process' part of a split parent.
fn split_off(
    me: ProcessId,
    parent: &Communicator,
    color: Option<u32>,
    all: &[u8],
) -> Result<Option<Communicator>, Error> {
    let Some(color) = color else { return Ok(None) };
    // The members of each side, and the one that names the context.
    let pick = |is_local: bool| {
        let is_here = |wish: &Wish| parent.group().rank_of(wish.process).is_some() == is_local;
        let mut picked: Vec<Wish> =
            wishes(parent, all).filter(|wish| wish.color == color && is_here(wish)).collect();
        // Stable: those with the same key stay in the order of their ranks.
        picked.sort_by_key(|wish| wish.key);
        let context = picked.first().map(|wish| wish.context);
        Group::from_members(picked.into_iter().map(|wish| wish.process).collect())
            .map(|group| (group, context))
    };
    let (group, context) = pick(true)?;
    let (Some(rank), Some(context)) = (group.rank_of(me), context) else { return Ok(None) };
    let Some(across) = parent.across() else { return Ok(Some(Communicator::new(context, group, rank))) };
    let (remote, remote_context) = pick(false)?;
    let Some(remote_context) = remote_context else { return Ok(None) };
    let context = if across.is_first { context } else { remote_context };
    Communicator::inter(context, (group, rank), remote, across.is_first).map(Some)
}

/// The communicator of both groups.
fn merge(me: ProcessId, parent: &Communicator, all: &[u8]) -> Result<Communicator, Error> {
    let across = parent.across().ok_or(Error::Comm)?;
    let first_size = if across.is_first { across.size } else { across.remote_size } as usize;
    let said: Vec<Wish> = wishes(parent, all).collect();
    let (first, second) = said.split_at(first_size);
    let is_high = |group: &[Wish]| match group.iter().all(|wish| wish.color == group[0].color) {
        true => Ok(group[0].color != 0),
        false => Err(Error::Argument("the members of a group gave different values of high")),
    };
    let (low, high) = match (is_high(first)?, is_high(second)?) {
        (true, false) => (second, first),
        _ => (first, second),
    };
    let group = Group::from_members(low.iter().chain(high).map(|wish| wish.process).collect())?;
    let rank = group.rank_of(me).ok_or(Error::Group)?;
    Ok(Communicator::new(low[0].context, group, rank))
}

/// For callers that wait: what [`Posted::Done`] or a taken completion says.
impl From<Completion> for Result<(), Error> {
    fn from(completion: Completion) -> Self {
        completion.error.map_or(Ok(()), Err)
    }
}
