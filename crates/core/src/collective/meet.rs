//! Making an inter-communicator of two groups (MPI-5.0 §7.6.2).
//!
//! ```text
//!  leader          Greeting ─▶ Members ─▶ Telling ─▶ TellingMembers ─▶ made
//!  other members                          Telling ─▶ TellingMembers ─▶ made
//! ```
//!
//! The leaders greet each other: each says which context it would name, how large its group is, and whether
//! the group has lost a member. The leader with the lower process id is the first, and its context is taken.
//! Then they exchange the members of their groups, and each broadcasts the result in its group. A failure
//! between the leaders is broadcast, too, so that no group waits for a leader that has given up.
//!
//! The messages of the leaders have a tag of their own in the collective context of the communicator that
//! they share, and name their senders by process. So several meetings, also of the same leaders with other
//! tags, and collective operations of that communicator do not mix.

use super::Collectives;
use super::make_comm::unsegmented;
use crate::buffer::Scratch;
use crate::coll::running::{Found, How, Making, Meeting, Naming, Running, Span, Stage, Then};
use crate::coll::{self, Builder, Schedule};
use crate::comm::Communicator;
use crate::device::Device;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rank, Tag};
use crate::request::Posted;
use alloc::boxed::Box;
use alloc::vec::Vec;

const NO_LEADER: Error = Error::Argument("the leader of a group names no other leader");

/// Bytes of what a leader says first: result, size or process, context, is first.
const GREETING_BYTES: usize = 4 + 4 + 8 + 4;
const MEMBER_BYTES: usize = 4;
/// More members than a group may have, so that a damaged size is not taken for memory's.
const MEMBERS_MAX: u32 = 1 << 24;

/// How it goes, as the leaders say.
const WELL: u32 = 0;
/// A process is lost.
const LOST: u32 = 1;
/// A process is in both groups.
const OVERLAP: u32 = 2;

/// The other leader, as a leader names it: a communicator that both are in, its rank there, and a tag.
#[derive(Clone, Copy, Debug)]
pub struct OtherLeader {
    /// The communicator.
    pub comm: CommId,
    /// The other leader's rank.
    pub rank: Rank,
    /// Tells concurrent calls of the same leaders apart.
    pub tag: Tag,
}

impl Collectives<'_> {
    /// An inter-communicator of the members of `comm` and those of another communicator
    /// (`MPI_Intercomm_create`). All members of both call. `leader` is the rank of this group's; the other
    /// one is given there only.
    pub fn icomm_inter<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        leader: Rank,
        other: Option<OtherLeader>,
    ) -> Result<(CommId, Posted), Error> {
        let communicator = self.comms.get(comm)?;
        if communicator.is_inter() {
            return Err(Error::Comm);
        }
        let is_leader = communicator.rank() == leader;
        check_leader(leader, communicator.group())?;
        let pair = if is_leader { Some(self.pair_of(other)) } else { None };
        let local = self.next_span(comm)?;
        self.meet(device, local, leader, pair)
    }

    /// An inter-communicator of two groups without communicators of theirs
    /// (`MPI_Intercomm_create_from_groups`), whose members call. `name` tells concurrent calls apart.
    /// `remote`, the other group and the rank of its leader there, is given at the leader only.
    pub fn icomm_inter_of_groups<D: Device>(
        &mut self,
        device: &mut D,
        (group, leader): (&Group, Rank),
        remote: Option<(&Group, Rank)>,
        name: &[u8],
    ) -> Result<(CommId, Posted), Error> {
        let rank = group.rank_of(self.messages.me).ok_or(Error::Group)?;
        let own_leader = check_leader(leader, group)?;
        let pair = (rank == leader).then(|| {
            let (remote, remote_leader) = remote.ok_or(NO_LEADER)?;
            let process = check_leader(remote_leader, remote)?;
            let (low, high) = (own_leader.min(process), own_leader.max(process));
            // Not one that a group has by the same name.
            let context = ContextId::of_name(name, [low, high, low].into_iter());
            self.pair(process, context, 0)
        });
        let context = ContextId::of_name(name, group.iter().chain(group.iter().take(1)));
        let local = Span { group: group.clone(), rank, context, tag: 0, naming: Naming::Rank };
        self.meet(device, local, leader, pair)
    }

    /// Where this leader and the other talk.
    fn pair_of(&self, other: Option<OtherLeader>) -> Result<Span, Error> {
        let OtherLeader { comm, rank, tag } = other.ok_or(NO_LEADER)?;
        let peer = self.comms.get(comm)?;
        let process = check_leader(rank, peer.peers())?;
        self.pair(process, peer.context().collective(), Communicator::meeting_tag(tag))
    }

    fn pair(&self, other: ProcessId, context: ContextId, tag: Tag) -> Result<Span, Error> {
        let (low, high) = (self.messages.me.min(other), self.messages.me.max(other));
        let group = Group::from_members([low, high].into())?;
        let rank = Rank::from(low != self.messages.me);
        Ok(Span { group, rank, context, tag, naming: Naming::Process })
    }

    fn meet<D: Device>(
        &mut self,
        device: &mut D,
        local: Span,
        leader: Rank,
        pair: Option<Result<Span, Error>>,
    ) -> Result<(CommId, Posted), Error> {
        let mut found = Found::default();
        // A leader that cannot talk to the other still tells its group.
        let pair = match pair {
            None => None,
            Some(pair) => {
                found.failure = self.messages.lost_member(&local.group);
                found.context = self.comms.new_context().0;
                let is_own = |span: &Span| span.group.iter().all(|p| local.group.rank_of(p).is_some());
                match pair.and_then(|span| if is_own(&span) { Err(Error::Group) } else { Ok(span) }) {
                    Ok(span) => Some(span),
                    Err(error) => {
                        found.failure.get_or_insert(error);
                        None
                    }
                }
            }
        };
        let stage = if pair.is_some() { Stage::Greeting } else { Stage::Telling };
        let meeting = Meeting { local, leader, pair, stage, found };
        let into = self.comms.reserve();
        let Running { schedule, span, then, .. } = *self.run_stage(into, meeting)?;
        let posted = self.start_schedule(device, schedule, span, then);
        Ok((into, posted))
    }

    /// A stage is over.
    pub(super) fn go_on_meeting(
        &mut self,
        into: CommId,
        mut meeting: Meeting,
        mut memory: Scratch,
        failure: Option<Error>,
    ) -> Result<Option<Box<Running>>, Error> {
        let is_leader = meeting.local.rank == meeting.leader;
        if let Some(error) = failure {
            // A message under way may still write there.
            core::mem::forget(memory);
            if matches!(meeting.stage, Stage::Telling | Stage::TellingMembers) {
                return self.end_making(into, Err(error)).map(|()| None);
            }
            meeting.found.failure = Some(error);
            meeting.stage = Stage::Telling;
            return self.run_stage(into, meeting).map(Some);
        }
        match meeting.stage {
            Stage::Greeting => meeting.hear_greeting(&mut memory),
            Stage::Members => meeting.hear_members(&mut memory),
            Stage::Telling if !is_leader => meeting.hear_told(&mut memory),
            Stage::TellingMembers if !is_leader => meeting.hear_members_told(&mut memory),
            Stage::Telling | Stage::TellingMembers => {}
        }
        let is_well = meeting.found.failure.is_none();
        meeting.stage = match meeting.stage {
            Stage::Greeting if is_well => Stage::Members,
            Stage::Greeting | Stage::Members => Stage::Telling,
            Stage::Telling if is_well => Stage::TellingMembers,
            Stage::Telling | Stage::TellingMembers => {
                let made = meeting.result();
                return self.end_making(into, made.map(Some)).map(|()| None);
            }
        };
        self.run_stage(into, meeting).map(Some)
    }

    /// The schedule of a stage, not begun.
    fn run_stage(&mut self, into: CommId, meeting: Meeting) -> Result<Box<Running>, Error> {
        let (schedule, memory) = match meeting.stage {
            Stage::Greeting => self.exchange(&meeting, meeting.greeting(), GREETING_BYTES),
            Stage::Members => {
                let members = bytes_of(meeting.local.group.iter());
                self.exchange(&meeting, members, MEMBER_BYTES * meeting.found.remote_size as usize)
            }
            Stage::Telling => self.tell(&meeting, meeting.told(), GREETING_BYTES)?,
            Stage::TellingMembers => {
                let members = bytes_of(meeting.found.members.iter().copied());
                self.tell(&meeting, members, MEMBER_BYTES * meeting.found.remote_size as usize)?
            }
        };
        let span = match (&meeting.stage, &meeting.pair) {
            (Stage::Greeting | Stage::Members, Some(pair)) => pair.clone(),
            _ => meeting.local.clone(),
        };
        // No later notice comes for a member lost already.
        let failure = self.messages.lost_member(&span.group);
        let making = Making { into, how: How::Meeting(meeting), memory };
        let then = Some(Then::Make(Box::new(making)));
        Ok(Box::new(Running { schedule, span, then, failure, is_awaited: false }))
    }

    /// The leaders give each other `own`; `remote_bytes` come back, behind it in the memory.
    fn exchange(&mut self, meeting: &Meeting, own: Vec<u8>, remote_bytes: usize) -> (Schedule, Scratch) {
        let mut memory = Scratch::new(own.len() + remote_bytes);
        let all = memory.buffer(own.len() + remote_bytes);
        let mine = all.part(0, own.len());
        mine.with_mut(|bytes| bytes.copy_from_slice(&own));
        let mut builder = Builder::new(&mut self.own.pool, false);
        let other = meeting.pair.as_ref().map_or(0, |pair| 1 - pair.rank);
        builder.receive(other, all.part(own.len(), remote_bytes));
        builder.send(other, mine);
        (builder.finish(), memory)
    }

    /// The leader gives its group `bytes`, of a length that all know.
    fn tell(&mut self, meeting: &Meeting, bytes: Vec<u8>, len: usize) -> Result<(Schedule, Scratch), Error> {
        let Meeting { local, leader, .. } = meeting;
        let mut memory = Scratch::new(len);
        let buffer = memory.buffer(len);
        if local.rank == *leader {
            buffer.with_mut(|memory| memory.copy_from_slice(&bytes));
        }
        let context = coll::Context { rank: local.rank, size: local.group.size() };
        let choice = unsegmented(coll::Algorithm::Binomial);
        Ok((coll::bcast(&mut self.own.pool, context, buffer, *leader, choice)?, memory))
    }
}

fn check_leader(leader: Rank, group: &Group) -> Result<ProcessId, Error> {
    group.process(leader).ok_or(Error::Rank { rank: leader.into(), size: group.size() })
}

fn bytes_of(members: impl Iterator<Item = ProcessId>) -> Vec<u8> {
    members.flat_map(|member| member.0.to_le_bytes()).collect()
}

fn members_of(bytes: &[u8]) -> Vec<ProcessId> {
    let id = |entry: &[u8]| ProcessId(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
    bytes.chunks_exact(MEMBER_BYTES).map(id).collect()
}

/// The first thing said.
struct Greeting {
    result: u32,
    /// Size of the group, or the member that is lost.
    number: u32,
    context: u64,
    is_first: bool,
}

impl Greeting {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GREETING_BYTES);
        bytes.extend(self.result.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.context.to_le_bytes());
        bytes.extend(u32::from(self.is_first).to_le_bytes());
        bytes
    }

    /// The reverse, of as many bytes.
    fn of(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            result: word(0),
            number: word(4),
            context: u64::from(word(8)) | u64::from(word(12)) << 32,
            is_first: word(16) != 0,
        }
    }

    fn failing(error: Error) -> Self {
        let (result, number) = match error {
            Error::ProcessAborted(process)
            | Error::Unreachable(process)
            | Error::PeerMisbehaved { peer: process, .. } => (LOST, process.0),
            _ => (OVERLAP, 0),
        };
        Self { result, number, context: 0, is_first: false }
    }

    /// Whether all is well with a group of no size that a group has.
    fn is_absurd(&self) -> bool {
        self.result == WELL && !(1..=MEMBERS_MAX).contains(&self.number)
    }

    fn failure(&self) -> Option<Error> {
        match self.result {
            WELL => None,
            LOST => Some(Error::ProcessAborted(ProcessId(self.number))),
            _ => Some(Error::Group),
        }
    }
}

impl Meeting {
    /// This leader's message to the other.
    fn greeting(&self) -> Vec<u8> {
        let Found { context, failure, .. } = self.found;
        let well = Greeting { result: WELL, number: self.local.group.size(), context, is_first: false };
        failure.map_or(well, Greeting::failing).to_bytes()
    }

    /// Handles the other leader's greeting.
    fn hear_greeting(&mut self, memory: &mut Scratch) {
        let Some(pair) = &self.pair else { return };
        let heard = memory.buffer(2 * GREETING_BYTES).part(GREETING_BYTES, GREETING_BYTES);
        let Some(heard) = heard.with_mut(|bytes| Greeting::of(bytes)) else { return };
        self.found.is_first = pair.rank == 0;
        if !self.found.is_first {
            self.found.context = heard.context;
        }
        self.found.remote_size = heard.number;
        let other = pair.group.process(1 - pair.rank);
        let absurd = other
            .filter(|_| heard.is_absurd())
            .map(|peer| Error::PeerMisbehaved { peer, what: "a group of no size that a group has" });
        let failure = self.found.failure.take();
        self.found.failure = failure.or(heard.failure()).or(absurd);
    }

    /// The other leader's group.
    fn hear_members(&mut self, memory: &mut Scratch) {
        let own = MEMBER_BYTES * self.local.group.size() as usize;
        let remote = MEMBER_BYTES * self.found.remote_size as usize;
        let heard = memory.buffer(own + remote).part(own, remote);
        self.found.members = heard.with_mut(|bytes| members_of(bytes)).unwrap_or_default();
        if self.found.members.iter().any(|&member| self.local.group.rank_of(member).is_some()) {
            self.found.failure = Some(Error::Group);
        }
    }

    /// The leader's message to its group.
    fn told(&self) -> Vec<u8> {
        let Found { context, is_first, remote_size, failure, .. } = self.found;
        let well = Greeting { result: WELL, number: remote_size, context, is_first };
        failure.map_or(well, Greeting::failing).to_bytes()
    }

    fn hear_told(&mut self, memory: &mut Scratch) {
        let Some(told) = memory.buffer(GREETING_BYTES).with_mut(|bytes| Greeting::of(bytes)) else { return };
        self.found.failure = told.failure().or(told.is_absurd().then_some(Error::Group));
        self.found.context = told.context;
        self.found.is_first = told.is_first;
        self.found.remote_size = told.number;
    }

    fn hear_members_told(&mut self, memory: &mut Scratch) {
        let buffer = memory.buffer(MEMBER_BYTES * self.found.remote_size as usize);
        self.found.members = buffer.with_mut(|bytes| members_of(bytes)).unwrap_or_default();
    }

    /// The communicator, or why there is none.
    fn result(self) -> Result<Communicator, Error> {
        let Self { local, found, .. } = self;
        match found.failure {
            Some(error) => Err(error),
            None => {
                let remote = Group::from_members(found.members)?;
                let context = ContextId(found.context);
                Communicator::inter(context, (local.group, local.rank), remote, found.is_first)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a member makes of its leader's word.
    fn told(greeting: &Greeting) -> Option<Error> {
        let local =
            Span { group: Group::world(2), rank: 1, context: ContextId::WORLD, tag: 0, naming: Naming::Rank };
        let mut meeting =
            Meeting { local, leader: 0, pair: None, stage: Stage::Telling, found: Found::default() };
        let mut memory = Scratch::new(GREETING_BYTES);
        memory
            .buffer(GREETING_BYTES)
            .with_mut(|bytes| bytes.copy_from_slice(&greeting.to_bytes()))
            .expect("memory");
        meeting.hear_told(&mut memory);
        meeting.found.failure
    }

    #[test]
    fn a_leader_is_not_believed_of_a_group_that_cannot_be() {
        let well = |number| Greeting { result: WELL, number, context: 5, is_first: true };
        assert_eq!([1, MEMBERS_MAX].map(|number| told(&well(number))), [None; 2]);
        assert_eq!([0, MEMBERS_MAX + 1].map(|number| told(&well(number))), [Some(Error::Group); 2]);
        // A process that is lost may have any number.
        let lost = Greeting { result: LOST, ..well(1 << 30) };
        assert_eq!(told(&lost), Some(Error::ProcessAborted(ProcessId(1 << 30))));
    }

    #[test]
    fn members_numbers_are_read_whole() {
        let members = [0x0102_0304, 0x7fff_0000].map(ProcessId);
        assert_eq!(members_of(&bytes_of(members.into_iter())), members);
    }

    #[test]
    fn neither_leader_believes_the_other_of_an_absurd_group() {
        for rank in 0..2 {
            let group = Group::world(2);
            let span = Span { group, rank, context: ContextId::WORLD, tag: 0, naming: Naming::Process };
            let (local, pair) = (span.clone(), Some(span));
            let mut meeting =
                Meeting { local, leader: 0, pair, stage: Stage::Greeting, found: Found::default() };
            let absurd = Greeting { result: WELL, number: 0, context: 5, is_first: false };
            let mut memory = Scratch::new(2 * GREETING_BYTES);
            let heard = memory.buffer(2 * GREETING_BYTES).part(GREETING_BYTES, GREETING_BYTES);
            heard.with_mut(|bytes| bytes.copy_from_slice(&absurd.to_bytes())).expect("memory");
            meeting.hear_greeting(&mut memory);
            let peer = ProcessId(1 - rank);
            assert!(
                matches!(meeting.found.failure, Some(Error::PeerMisbehaved { peer: of, .. }) if of == peer),
                "{rank}"
            );
        }
    }
}
