//! The short ways: of a short message out, and of a message into the receive that its caller waits for and
//! nothing else (`MPI_Recv`), past the request table and the lists of posted receives.
//!
//! There is one place, so one such receive at a time: with threads, callers use [`Process::irecv`]. It counts as
//! posted after all that are posted when it begins, which is right, since the caller posts nothing meanwhile.

use super::Process;
use super::commands::settle;
use crate::buffer::{Buffer, Payload};
use crate::device::Device;
use crate::error::Error;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::link::cells_of;
use crate::matching::Key;
use crate::request::{Completion, Posted, Status};
use crate::wire::Envelope;

/// The receive.
pub(super) enum Direct {
    /// There is none.
    None,
    /// Its message has not come.
    Waiting { key: Key, peer: Option<ProcessId>, buffer: Buffer },
    /// Its message is long and being moved.
    Moving(RequestId),
    /// It is over.
    Done(Completion),
}

impl Process {
    /// Sends a short message if that can be done at once: `true`, it has left. `false` says nothing about why
    /// not: [`isend`](Self::isend) does, and does it all.
    #[inline(always)]
    pub fn send_at_once<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        buffer: Buffer,
        dest: Rank,
        tag: Tag,
    ) -> bool {
        let Ok(communicator) = self.comm(comm) else { return false };
        let Some(peer) = communicator.group().process(dest) else { return false };
        // There is no link to ourselves.
        let Some(index) = self.links.index_of(peer) else { return false };
        let envelope = Envelope { context: communicator.context(), source: communicator.rank(), tag };
        let link = self.links.get_mut(index);
        let cells = cells_of(buffer.len());
        if buffer.len() > link.eager_bytes_max
            || cells > link.credits
            || !link.pending.is_empty()
            || link.failed.is_some()
            || !link.offer_eager(device, self.now, &envelope, &buffer)
        {
            return false;
        }
        link.credits -= cells;
        true
    }

    /// Begins a receive that the caller waits for. `Some`: it is over. `None`: make progress until
    /// [`poll_direct`](Self::poll_direct) gives its completion, and begin no other before.
    #[inline]
    pub fn receive_direct<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        buffer: Buffer,
        source: Source,
        tag: TagSelector,
    ) -> Result<Option<Completion>, Error> {
        debug_assert!(matches!(self.direct, Direct::None), "two receives are waited for");
        let Some((key, peer)) = self.receive_key(comm, source, tag)? else {
            return Ok(Some(Completion { status: Status::PROC_NULL, error: None }));
        };
        if let Some(posted) = self.take_unexpected(&key, buffer) {
            if self.has_output {
                self.poll_transmit(device);
            }
            return Ok(match posted {
                Posted::Done(completion) => Some(completion),
                Posted::Pending(id) => {
                    self.direct = Direct::Moving(id);
                    None
                }
            });
        }
        self.check_source(comm, peer)?;
        device.expect(peer);
        self.direct = Direct::Waiting { key, peer, buffer };
        Ok(None)
    }

    /// The completion of the receive begun, once it is over.
    #[inline]
    pub fn poll_direct(&mut self) -> Result<Option<Completion>, Error> {
        match self.direct {
            Direct::Done(completion) => {
                self.direct = Direct::None;
                Ok(Some(completion))
            }
            Direct::Moving(id) => {
                let completion = self.take(id)?;
                if completion.is_some() {
                    self.direct = Direct::None;
                }
                Ok(completion)
            }
            _ => Ok(None),
        }
    }

    /// Whether the receive is over and not yet asked for.
    #[inline(always)]
    pub(super) fn direct_is_done(&self) -> bool {
        matches!(self.direct, Direct::Done(_))
    }

    /// Whether the receive waits for this message.
    #[inline]
    pub(super) fn direct_takes(&self, envelope: &Envelope) -> bool {
        matches!(&self.direct, Direct::Waiting { key, .. } if key.matches(envelope))
    }

    /// Copies a message into the receive's buffer.
    #[inline]
    pub(super) fn deliver_direct(&mut self, envelope: &Envelope, payload: Payload<'_>) {
        if let Direct::Waiting { buffer, .. } = self.direct {
            let direct = core::cell::Cell::from_mut(&mut self.direct);
            settle(envelope, payload, &buffer, |completion| direct.set(Direct::Done(completion)));
        }
    }

    /// The receive's message is announced: from now on it is a request, which the caller of this begins.
    pub(super) fn direct_becomes_request(&mut self, id: RequestId) {
        self.direct = Direct::Moving(id);
    }

    /// Its buffer, while it waits.
    pub(super) fn direct_buffer(&self) -> Option<Buffer> {
        match &self.direct {
            Direct::Waiting { buffer, .. } => Some(*buffer),
            _ => None,
        }
    }

    /// Whom the receive waits for, if its message has not come: `Some(None)` is anybody.
    pub(super) fn direct_wants(&self) -> Option<Option<ProcessId>> {
        match self.direct {
            Direct::Waiting { peer, .. } => Some(peer),
            _ => None,
        }
    }

    /// A peer is lost: a receive that may wait for it ends.
    pub(super) fn fail_direct(&mut self, lost: ProcessId, error: Error) {
        if let Direct::Waiting { peer, .. } = self.direct
            && peer.is_none_or(|peer| peer == lost)
        {
            self.direct = Direct::Done(Completion::failed(error));
        }
    }
}
