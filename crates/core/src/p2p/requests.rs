//! The life of a request: asked after, taken, freed, cancelled.

use super::{Arrival, Body, Messages};
use crate::buffer::Buffer;
use crate::comm::CommHold;
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::RequestId;
use crate::link::LinkIndex;
use crate::request::partitioned::Run;
use crate::request::{Completion, Plan, Posted, Request, State, Status};
use crate::wire::Header;

impl Messages {
    /// A request that is not started.
    pub(crate) fn make_persistent(&mut self, plan: Plan, held: CommHold) -> RequestId {
        let mut request = Request::new(State::Inactive, Buffer::EMPTY, None);
        let extra = request.extra_mut();
        (extra.plan, extra.held) = (Some(plan), Some(held));
        self.requests.insert(request)
    }

    /// A completed request that holds `completion` until taken: for callers that must hand out a request
    /// where the operation was over at once.
    pub(crate) fn park(&mut self, completion: Completion) -> RequestId {
        self.failure_count += u64::from(completion.error.is_some());
        self.requests.insert(Request::new(State::Complete(completion), Buffer::EMPTY, None))
    }

    /// Whether a request is over.
    #[inline]
    pub(crate) fn is_complete(&self, id: RequestId) -> bool {
        match self.requests.get(id).map(|request| &request.state) {
            Some(State::Complete(_) | State::Inactive) => true,
            Some(State::Started(Posted::Pending(child))) => self.is_complete(*child),
            Some(State::Started(Posted::Done(_))) => true,
            Some(State::Partitioned(of)) => of.outcome().is_some(),
            Some(State::Posted { peer: None, .. }) => self.interruption_of(id).is_some(),
            _ => false,
        }
    }

    /// Whether a request is persistent and not started.
    pub(crate) fn is_inactive(&self, id: RequestId) -> bool {
        match self.requests.get(id).map(|request| &request.state) {
            Some(State::Inactive) => true,
            Some(State::Partitioned(of)) => matches!(of.run, Run::Inactive),
            _ => false,
        }
    }

    /// Ends a complete request and gives its completion: the request is gone, or inactive again if
    /// persistent. `Ok(None)`: not complete yet.
    #[inline]
    pub(crate) fn take(&mut self, id: RequestId) -> Result<Option<Completion>, Error> {
        let request = self.requests.get_mut(id).ok_or(Error::Request)?;
        match request.state {
            State::Complete(completion) => {
                self.requests.discard(id);
                Ok(Some(completion))
            }
            State::Inactive => Ok(Some(Completion::EMPTY)),
            State::Started(Posted::Done(completion)) => {
                request.state = State::Inactive;
                Ok(Some(completion))
            }
            State::Started(Posted::Pending(child)) => {
                let completion = self.take(child)?;
                if completion.is_some_and(|completion| !completion.is_interruption()) {
                    self.requests.get_mut(id).expect("looked at above").state = State::Inactive;
                }
                Ok(completion)
            }
            State::Partitioned(ref mut of) => Ok(of.take()),
            _ => Ok(self.interruption_of(id)),
        }
    }

    /// Ends a request that has completed without error and is not persistent: the short way of
    /// [`take`](Self::take), which has to say more about all others (`None`).
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, id: RequestId) -> Option<Status> {
        match *self.requests.get(id)? {
            Request { state: State::Complete(Completion { status, error: None }), extra: None, .. } => {
                self.requests.forget(id);
                Some(status)
            }
            _ => None,
        }
    }

    /// The completion of a complete request, left in place (`MPI_Request_get_status`).
    pub(crate) fn peek(&self, id: RequestId) -> Result<Option<Completion>, Error> {
        match self.requests.get(id).ok_or(Error::Request)?.state {
            State::Complete(completion) | State::Started(Posted::Done(completion)) => Ok(Some(completion)),
            State::Inactive => Ok(Some(Completion::EMPTY)),
            State::Started(Posted::Pending(child)) => self.peek(child),
            State::Partitioned(ref of) => Ok(of.outcome()),
            _ => Ok(self.interruption_of(id)),
        }
    }

    /// Gives a request up: it goes on, and vanishes when complete (`MPI_Request_free`).
    pub(crate) fn free(&mut self, id: RequestId) -> Result<(), Error> {
        let request = self.requests.get_mut(id).ok_or(Error::Request)?;
        match request.state {
            State::Started(Posted::Pending(child)) => {
                self.requests.remove(id);
                return self.free(child);
            }
            State::Complete(_) | State::Inactive | State::Started(Posted::Done(_)) => {
                self.requests.remove(id);
            }
            State::Partitioned(ref of) if of.is_idle() => {
                self.requests.remove(id);
            }
            _ => request.detached = true,
        }
        Ok(())
    }

    /// Asks that a request be cancelled (`MPI_Cancel`). It completes either way; its status says how. A
    /// matched receive or a send that has left cannot be cancelled and completes as usual.
    pub(crate) fn cancel<D: Device>(&mut self, device: &mut D, id: RequestId) -> Result<(), Error> {
        match self.requests.get(id).ok_or(Error::Request)?.state {
            State::Started(Posted::Pending(child)) => return self.cancel(device, child),
            State::Inactive | State::Partitioned(_) => return Err(Error::Request),
            _ => {}
        }
        if let Some(link) = self.cancel_locally(id) {
            self.links.offer_or_queue(device, link, Header::Cancel(id), Data::EMPTY);
        }
        Ok(())
    }

    /// Cancels a message that has not left. Otherwise returns the link over which to ask the peer.
    pub(crate) fn cancel_locally(&mut self, id: RequestId) -> Option<LinkIndex> {
        let request = self.requests.get(id)?;
        match request.state {
            State::Posted { key, .. } => {
                self.posted.withdraw(key, id.index);
                self.complete_cancelled(id);
            }
            State::Queued(_) => {
                let link = request.link.expect("a queued send has a link");
                let length = request.length_bytes();
                self.links.get_mut(link).unqueue(id, length);
                self.complete_cancelled(id);
            }
            State::Local => {
                // One that a matched probe holds is matched: it completes when it is received.
                let unmatched =
                    |arrival: &Arrival| matches!(arrival.body, Body::Local { request, .. } if request == id);
                if self.drop_arrival(unmatched).is_some() {
                    self.complete_cancelled(id);
                }
            }
            State::AwaitMatch(_) => return request.link,
            State::Transfer(transfer) if self.transfers.is_offered(transfer) => {
                let link = request.link;
                if !self.transfers.withdraw_held_back(&mut self.links, transfer) {
                    return link;
                }
                self.complete_cancelled(id);
            }
            _ => {}
        }
        None
    }

    pub(super) fn complete_cancelled(&mut self, id: RequestId) {
        if self.withdrawn.remove(&id) {
            return self.complete(id, Completion::failed(Error::Revoked));
        }
        let status = Status { cancelled: true, ..Status::EMPTY };
        self.complete(id, Completion { status, error: None });
    }

    /// Drops the unmatched arrival that `which` picks. Gives it back, if there was one.
    pub(crate) fn drop_arrival(&mut self, which: impl Fn(&Arrival) -> bool) -> Option<Arrival> {
        let id = self.arrivals.iter().find(|(_, a)| a.places.is_some() && which(a)).map(|(id, _)| id)?;
        let arrival = self.arrivals.remove(id)?;
        self.unexpected.remove(arrival.places?);
        Some(arrival)
    }
}
