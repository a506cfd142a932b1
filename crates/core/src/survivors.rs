//! `MPIX_Comm_revoke`, `_agree`, `_shrink`, `_ack_failed` and `_get_failed`, and handling of failures,
//! revocations and notes.
//!
//! A revoked communicator has a slot of its own kind, so the short path looks for it nowhere: it finds no
//! communicator there.

use crate::buffer::{Buffer, Piece};
use crate::coll::StepId;
use crate::collective::{Collectives, Own};
use crate::comm::{Communicator, Communicators};
use crate::device::Device;
use crate::error::{Blame, Error};
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId};
use crate::link::LinkIndex;
use crate::p2p::Messages;
use crate::request::{Completion, Posted, Request, State, Woken};
use crate::survive::{
    Agreements, Call, Council, Decision, Note, Outputs, PARENT, Shrinking, Survival, VALUE_BITS, VALUE_WORDS,
    Value, Wanted, What,
};
use crate::wire::Header;
use alloc::vec::Vec;

/// A process' operations after failures of others.
pub struct Survivors<'a> {
    pub(crate) own: &'a mut Survival,
    pub(crate) collectives: &'a mut Own,
    pub(crate) comms: &'a mut Communicators,
    pub(crate) messages: &'a mut Messages,
}

/// Getters.
impl Survivors<'_> {
    /// Whether a communicator is revoked, as far as this process has heard (`MPIX_Comm_is_revoked`).
    pub fn is_revoked(&self, comm: CommId) -> Result<bool, Error> {
        self.comms.get_any(comm).map(|(_, is_revoked)| is_revoked)
    }

    /// The members of a communicator, of both groups if there are two, that are known to have failed, in the
    /// order in which this process learned of it (`MPIX_Comm_get_failed`).
    pub fn failed_members(&self, comm: CommId) -> Result<Group, Error> {
        Group::from_members(self.lost_members(self.any_comm(comm)?.members()).collect())
    }

    /// Those of them whose failure is acknowledged (`MPIX_Comm_failure_get_acked`).
    pub fn acknowledged_members(&self, comm: CommId) -> Result<Group, Error> {
        let of = self.any_comm(comm)?;
        let count = self.acknowledged_count(of.context());
        Group::from_members(self.lost_members(of.members()).take(count).collect())
    }

    fn collectives(&mut self) -> Collectives<'_> {
        let Self { collectives, comms, messages, .. } = self;
        Collectives { own: collectives, comms, messages, is_awaited: false }
    }

    fn any_comm(&self, comm: CommId) -> Result<&Communicator, Error> {
        self.comms.get_any(comm).map(|(of, _)| of)
    }

    fn lost_members<'a>(&'a self, of: &'a Group) -> impl Iterator<Item = ProcessId> + use<'a> {
        self.messages.lost_of(of)
    }

    fn acknowledged_count(&self, context: ContextId) -> usize {
        self.own.acknowledged.get(&context).copied().unwrap_or(0)
    }
}

/// Commands.
impl Survivors<'_> {
    /// Acknowledges the failures of the first `count` of [`failed_members`](Self::failed_members)
    /// (`MPIX_Comm_ack_failed`): they no longer interrupt receives from any source, nor make agreements fail.
    /// Acknowledged failures stay so. Returns the number acknowledged.
    pub fn ack_failed(&mut self, comm: CommId, count: usize) -> Result<usize, Error> {
        let of = self.any_comm(comm)?;
        let (context, known) = (of.context(), self.lost_members(of.members()).count());
        let count = count.min(known).max(self.acknowledged_count(context));
        self.own.acknowledged.insert(context, count);
        self.find_interrupted();
        Ok(count)
    }

    /// Revokes a communicator (`MPIX_Comm_revoke`): all operations on it, pending and later ones, end with
    /// [`Error::Revoked`], here and at all members; transfers in progress end first. Agreements go on.
    /// Operations on windows and partitioned messages whose ends have met are none of the communicator's.
    pub fn revoke(&mut self, comm: CommId) -> Result<(), Error> {
        if !self.is_revoked(comm)? {
            self.revoke_here(comm);
        }
        Ok(())
    }

    /// Agrees with all members that live on the bitwise *and* of their flags (`MPIX_Comm_iagree`), written
    /// there when the request is over: the four bytes of an integer, least significant first. The request
    /// fails with [`Error::MembersFailed`], at all members alike, if there are failures that not all have
    /// acknowledged; the flag is written even then. Members begin agreements in the same order.
    pub fn iagree(&mut self, comm: CommId, flag: u32, into: Buffer) -> Result<Posted, Error> {
        let of = self.any_comm(comm)?.clone();
        let acked = self.lost_members(of.members()).take(self.acknowledged_count(of.context()));
        let mut acked: Vec<u32> = acked.filter_map(|peer| of.members().rank_of(peer)).collect();
        acked.sort_unstable();
        let request = self.messages.requests.insert(Request::new(State::Elsewhere, Buffer::EMPTY, None));
        let id = self.own.add_call(Wanted::Flag(request, into));
        let mut value = [u64::MAX; VALUE_WORDS];
        value[0] = flag.into();
        let context = ContextId::WORLD;
        self.begin_agreement(&of, Call { id, value, acked, lives_from: None, context });
        Ok(Posted::Pending(request))
    }

    /// A communicator of the members that live, the same group at all of them (`MPIX_Comm_ishrink`). It may
    /// be used once the request has completed. Members that fail meanwhile may be in it.
    pub fn ishrink(&mut self, comm: CommId) -> Result<(CommId, Posted), Error> {
        let of = self.any_comm(comm)?.clone();
        let mut lost: Vec<u32> =
            self.lost_members(of.members()).filter_map(|p| of.members().rank_of(p)).collect();
        lost.sort_unstable();
        let into = self.comms.reserve();
        let request = self.messages.requests.insert(Request::new(State::Elsewhere, Buffer::EMPTY, None));
        let shrinking = Shrinking { parent: of.clone(), into, lives: Vec::new() };
        self.own.shrinking.insert(request, shrinking);
        let parts_count = of.members().size().div_ceil(VALUE_BITS);
        for part in 0..parts_count {
            let is_last = part + 1 == parts_count;
            let wanted = if is_last { Wanted::Shrunk(request) } else { Wanted::Lives(request) };
            let context = if is_last { self.comms.new_context() } else { ContextId::WORLD };
            let first = part * VALUE_BITS;
            let mut value = [u64::MAX; VALUE_WORDS];
            let its = lost.iter().filter_map(|number| number.checked_sub(first));
            its.filter(|bit| *bit < VALUE_BITS)
                .for_each(|bit| value[bit as usize / 64] &= !(1 << (bit % 64)));
            let id = self.own.add_call(wanted);
            let call = Call { id, value, acked: lost.clone(), lives_from: Some(first), context };
            self.begin_agreement(&of, call);
        }
        Ok((into, Posted::Pending(request)))
    }
}

/// Agreements.
impl Survivors<'_> {
    fn begin_agreement(&mut self, of: &Communicator, call: Call) {
        let context = of.context();
        if !self.own.councils.contains_key(&context) {
            let members = of.members().clone();
            let failed = self.lost_members(&members).filter_map(|peer| members.rank_of(peer));
            let agreements = Agreements::new(of.number(), members.size(), failed);
            self.own.councils.insert(context, Council { members, agreements });
            for (from, note) in self.own.take_early(context) {
                // An error in a note is found when its sender can no longer be told: ignored.
                let _ = self.on_agreement(from, &note);
            }
        }
        self.with_council(context, |council, out| council.agreements.call(call, out));
    }

    /// Lets the agreements of a communicator do something, and does what comes of it.
    fn with_council<R>(
        &mut self,
        context: ContextId,
        act: impl FnOnce(&mut Council, &mut Outputs) -> R,
    ) -> Option<R> {
        let council = self.own.councils.get_mut(&context)?;
        let mut out = Outputs::default();
        let result = act(council, &mut out);
        let notes = out.notes.into_iter();
        let notes: Vec<_> =
            notes.filter_map(|(to, what)| Some((council.members.process(to)?, what))).collect();
        notes.into_iter().for_each(|(to, what)| self.post_note(to, Note { context, what }));
        out.decided.into_iter().for_each(|(id, decision)| self.on_decided(id, decision));
        Some(result)
    }

    /// Queues a note.
    fn post_note(&mut self, to: ProcessId, note: Note) {
        self.own.outbox.push_back((to, note));
        if !core::mem::replace(&mut self.own.is_woken, true) {
            let completion = Completion::EMPTY;
            self.messages.woken.push_back(Woken { parent: PARENT, step: StepId(0), completion });
        }
    }

    pub(crate) fn send_notes<D: Device>(&mut self, device: &D) {
        self.own.is_woken = false;
        while let Some((to, note)) = self.own.outbox.pop_front() {
            let index = self.messages.links.to(device, to);
            // A failed process gets no note.
            self.messages.links.queue_control(index, Header::Note(note));
        }
    }

    /// A note has come.
    #[cold]
    pub(crate) fn on_note(&mut self, index: LinkIndex, note: Note) -> Result<(), Blame> {
        let from = self.messages.links.get(index).peer();
        match note.what {
            What::Revoke => self.on_revoked(from, note.context),
            _ if self.own.councils.contains_key(&note.context) => self.on_agreement(from, &note),
            _ => {
                self.own.keep_early(from, note);
                Ok(())
            }
        }
    }

    fn on_agreement(&mut self, from: ProcessId, note: &Note) -> Result<(), Blame> {
        let Some(council) = self.own.councils.get(&note.context) else { return Ok(()) };
        let Some(number) = council.members.rank_of(from) else {
            return Err(Blame("an agreement of a communicator that it is no member of"));
        };
        let handled = self
            .with_council(note.context, |council, out| council.agreements.on_note(number, &note.what, out));
        handled.unwrap_or(Ok(())).map_err(Blame)
    }

    fn on_decided(&mut self, id: u32, decision: Decision) {
        match self.own.wanted.remove(&id) {
            Some(Wanted::Flag(request, into)) => {
                into.scatter(0, Piece::Bytes(&(decision.value[0] as u32).to_le_bytes()));
                let error = decision.is_failed.then_some(Error::MembersFailed);
                self.messages.complete(request, Completion { error, ..Completion::EMPTY });
            }
            Some(Wanted::Lives(request)) => {
                if let Some(shrinking) = self.own.shrinking.get_mut(&request) {
                    shrinking.lives.push(decision.value);
                }
            }
            Some(Wanted::Shrunk(request)) => {
                let Some(Shrinking { parent, into, mut lives }) = self.own.shrinking.remove(&request) else {
                    return;
                };
                lives.push(decision.value);
                let made = shrunk(self.messages.me, &parent, &lives, decision.context).map(Some);
                let error = self.collectives().end_making(into, made).err();
                self.messages.complete(request, Completion { error, ..Completion::EMPTY });
            }
            None => {}
        }
    }
}

/// The rest of a communicator.
fn shrunk(
    me: ProcessId,
    parent: &Communicator,
    lives: &[Value],
    context: ContextId,
) -> Result<Communicator, Error> {
    let does_live = |number: u32| {
        let (part, bit) = (number / VALUE_BITS, number % VALUE_BITS);
        lives.get(part as usize).is_some_and(|value| value[bit as usize / 64] >> (bit % 64) & 1 != 0)
    };
    let members = parent.members();
    let of = |group: &Group| {
        let living = group.iter().filter(|member| members.rank_of(*member).is_some_and(does_live));
        Group::from_members(living.collect())
    };
    let group = of(parent.group())?;
    let rank = group.rank_of(me).ok_or(Error::MembersFailed)?;
    match (parent.remote(), parent.across()) {
        (Some(remote), Some(across)) => {
            Communicator::inter(context, (group, rank), of(remote)?, across.is_first)
        }
        _ => Ok(Communicator::new(context, group, rank)),
    }
}

/// Failures and revocations.
impl Survivors<'_> {
    /// A peer is lost.
    #[cold]
    pub(crate) fn on_lost(&mut self, peer: ProcessId) {
        let councils = self.own.councils.iter();
        let concerned: Vec<(ContextId, u32)> =
            councils.filter_map(|(context, of)| Some((*context, of.members.rank_of(peer)?))).collect();
        for (context, number) in concerned {
            self.with_council(context, |council, out| council.agreements.on_failed(number, out));
        }
        self.find_interrupted();
    }

    /// Which communicators have failures that are not acknowledged.
    fn find_interrupted(&mut self) {
        if !self.messages.survives() || self.messages.lost.is_empty() {
            return;
        }
        let mut found = Vec::new();
        for of in self.comms.iter() {
            let unknown = self.lost_members(of.members()).skip(self.acknowledged_count(of.context()));
            let mut unknown = unknown.filter(|peer| of.peers().rank_of(*peer).is_some());
            found.extend(unknown.next().map(|peer| (of.context(), Error::FailedPending(peer))));
        }
        self.messages.set_interrupted(found);
    }

    /// Communicators may have been revoked while they were made, or their members have failed.
    #[inline]
    pub(crate) fn look_at_new_comms(&mut self) {
        self.find_interrupted();
        while let Some(comm) = self.comms.untold.pop() {
            self.tell_revoked(comm);
        }
    }

    fn on_revoked(&mut self, from: ProcessId, context: ContextId) -> Result<(), Blame> {
        let Some(comm) = self.comms.find_any(context) else {
            self.comms.revoke_early(context);
            return Ok(());
        };
        let (of, is_revoked) = self.comms.get_any(comm).map_err(|_| Blame("no communicator"))?;
        if of.members().rank_of(from).is_none() {
            return Err(Blame("a revocation of a communicator that it is no member of"));
        }
        if !is_revoked {
            self.revoke_here(comm);
        }
        Ok(())
    }

    /// Tells all members, and ends what is under way.
    #[cold]
    fn revoke_here(&mut self, comm: CommId) {
        let Some(context) = self.comms.revoke(comm).map(Communicator::context) else { return };
        self.tell_revoked(comm);
        self.messages.revoke(context);
        self.collectives().fail_where(Error::Revoked, |span| span.context == context.collective());
    }

    fn tell_revoked(&mut self, comm: CommId) {
        let Ok((of, _)) = self.comms.get_any(comm) else { return };
        let (me, context, members) = (self.messages.me, of.context(), of.members().clone());
        for member in members.iter().filter(|member| *member != me) {
            self.post_note(member, Note { context, what: What::Revoke });
        }
    }
}
