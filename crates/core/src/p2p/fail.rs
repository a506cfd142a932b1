//! The ends of messages that a failure or a revocation brings about.

use super::{Arrival, Body, Direct, Messages};
use crate::error::Error;
use crate::ids::{ContextId, ProcessId, RequestId};
use crate::link::LinkIndex;
use crate::matching::Key;
use crate::request::{Completion, State};
use crate::wire::{Envelope, Header};
use alloc::vec::Vec;

impl Messages {
    /// A peer is lost: ends what needs it. `may_send` says of a context whether the peer could have sent a
    /// message of it.
    pub(crate) fn fail_link(&mut self, index: LinkIndex, error: Error, may_send: impl Fn(ContextId) -> bool) {
        let survives = self.config.survives;
        // A receive from any source might have matched this process: MPI cannot know, so the receive fails.
        // If failures are survived it goes on once they are acknowledged.
        let may_come = |context| !survives && may_send(context);
        self.end_operations(index, error, matches!(error, Error::ProcessAborted(_)), may_come);
        self.lost.push((self.links.get(index).peer(), error));
    }

    /// A peer has ended in order: ends the operations that still need it. Receives from any source go on.
    pub(crate) fn leave_link(&mut self, index: LinkIndex, error: Error) {
        self.end_operations(index, error, true, |_| false);
    }

    /// Ends the operations that need a peer, including receives from any source in the contexts of
    /// `ends_any_source`.
    fn end_operations(
        &mut self,
        index: LinkIndex,
        error: Error,
        is_gone: bool,
        ends_any_source: impl Fn(ContextId) -> bool,
    ) {
        self.transfers.forget_link(index, is_gone);
        let peer = self.links.get(index).peer();
        let needs_peer = |key: &Key, from: Option<ProcessId>| {
            from.map_or_else(|| ends_any_source(key.context()), |from| from == peer)
        };
        if self.direct.awaits().is_some_and(|(key, from)| needs_peer(key, from)) {
            self.end_direct(error);
        }
        let concerned: Vec<RequestId> = self
            .requests
            .iter()
            .filter(|(_, request)| match &request.state {
                State::Complete(_) => false,
                State::Posted { key, peer: from } => needs_peer(key, *from),
                _ => request.link == Some(index),
            })
            .map(|(id, _)| id)
            .collect();
        for id in concerned {
            if let Some(&State::Posted { key, .. }) = self.requests.get(id).map(|request| &request.state) {
                self.posted.withdraw(key, id.index);
            }
            self.complete(id, Completion::failed(error));
        }
        let requests = &self.requests;
        self.withdrawn.retain(|id| {
            requests.get(*id).is_some_and(|request| !matches!(request.state, State::Complete(_)))
        });
    }

    /// Ends the receive that a message would match, which will not come. Whether there is one.
    #[cold]
    pub(crate) fn fail_posted(&mut self, envelope: &Envelope, error: Error) -> bool {
        let Some(id) = self.posted.take_match(envelope).and_then(|slot| self.requests.id_at(slot)) else {
            return false;
        };
        self.complete(id, Completion::failed(error));
        true
    }

    #[cfg(test)]
    pub(crate) fn set_survives(&mut self) {
        self.config.survives = true;
    }

    /// Whether the program goes on without processes that fail.
    pub(crate) fn survives(&self) -> bool {
        self.config.survives
    }

    /// The lost members of a group, in the order in which this process learned of them.
    pub(crate) fn lost_of<'a>(
        &'a self,
        group: &'a crate::group::Group,
    ) -> impl Iterator<Item = ProcessId> + use<'a> {
        self.lost.iter().map(|(peer, _)| *peer).filter(|peer| group.rank_of(*peer).is_some())
    }

    /// Why a receive from any source in a context does not go on, if so.
    pub(crate) fn unacknowledged(&self, context: ContextId) -> Option<Error> {
        self.interrupted.iter().find(|(of, _)| *of == context).map(|(_, error)| *error)
    }

    /// How a pending request, a receive from any source, is interrupted, if it is.
    pub(crate) fn interruption_of(&self, id: RequestId) -> Option<Completion> {
        if self.interrupted.is_empty() {
            return None;
        }
        match &self.requests.get(id)?.state {
            State::Posted { peer: None, key } => self.unacknowledged(key.context()).map(Completion::failed),
            _ => None,
        }
    }

    /// These contexts have failures that are not acknowledged, from now on.
    pub(crate) fn set_interrupted(&mut self, interrupted: Vec<(ContextId, Error)>) {
        if self.interrupted != interrupted {
            self.interrupted = interrupted;
            // Waiting callers look again.
            self.completion_count += 1;
            self.failure_count += 1;
        }
        // The caller of this one does not see a request, so it cannot go on.
        if let Direct::Waiting { peer: None, key, .. } = self.direct
            && let Some(error) = self.unacknowledged(key.context())
        {
            self.end_direct(error.of_ended());
        }
    }

    /// Ends an interrupted receive.
    #[cold]
    pub(crate) fn give_up(&mut self, id: RequestId, completion: Completion) -> Completion {
        let Some(Error::FailedPending(process)) = completion.error else { return completion };
        if let Some(&State::Posted { key, .. }) = self.requests.get(id).map(|request| &request.state) {
            self.posted.withdraw(key, id.index);
            self.requests.remove(id);
        }
        Completion::failed(Error::ProcessAborted(process))
    }

    /// Ends the messages of a revoked communicator, except those being moved.
    #[cold]
    pub(crate) fn revoke(&mut self, context: ContextId) {
        self.interrupted.retain(|(interrupted, _)| *interrupted != context);
        if let Direct::Waiting { key, .. } = self.direct
            && key.context() == context
        {
            self.end_direct(Error::Revoked);
        }
        let is_its = |of: ContextId| of == context || of == context.partitioned();
        let concerned: Vec<RequestId> = self
            .requests
            .iter()
            .filter(|(_, request)| match &request.state {
                State::Posted { key, .. } => is_its(key.context()),
                State::Queued(of) | State::AwaitMatch(of) => is_its(*of),
                State::Transfer(transfer) => self.transfers.context(*transfer).is_some_and(is_its),
                State::Local => true,
                _ => false,
            })
            .map(|(id, _)| id)
            .collect();
        for id in concerned {
            self.revoke_request(id, context);
        }
        self.completion_count += 1;
    }

    fn revoke_request(&mut self, id: RequestId, context: ContextId) {
        match self.requests.get(id).map(|request| &request.state) {
            Some(&State::Posted { key, .. }) => {
                self.posted.withdraw(key, id.index);
                return self.complete(id, Completion::failed(Error::Revoked));
            }
            Some(State::Local) => {
                let is_its = |arrival: &Arrival| {
                    arrival.envelope.context == context
                        && matches!(arrival.body, Body::Local { request, .. } if request == id)
                };
                if self.drop_arrival(is_its).is_some() {
                    self.complete(id, Completion::failed(Error::Revoked));
                }
                return;
            }
            _ => {}
        }
        self.withdrawn.insert(id);
        match self.cancel_locally(id) {
            Some(link) => self.links.queue_control(link, Header::Cancel(id)),
            // It is cancelled already, or matched and goes on.
            None => drop(self.withdrawn.remove(&id)),
        }
    }
}
