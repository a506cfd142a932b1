//! The short ways: of a short message out, and of a message into the receive that its caller waits for and
//! nothing else (`MPI_Recv`), past the request table and the lists of posted receives.
//!
//! There is one place, so one such receive at a time: with threads, callers use [`Process::irecv`]. It counts
//! as posted after all that are posted when it begins, which is right, since the caller posts nothing
//! meanwhile.

use super::Process;
use super::commands::copy_in;
use crate::buffer::{Buffer, Payload};
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::matching::Key;
use crate::request::{Completion, Posted, Status};
use crate::transfer::Sink;
use crate::wire::Envelope;

/// The receive. Its completion is [`Process::direct_completion`].
pub(super) enum Direct {
    /// There is none.
    None,
    /// Its message has not come.
    Waiting { key: Key, peer: Option<ProcessId>, buffer: Buffer },
    /// Its message is long and being moved.
    Moving(RequestId),
    /// It is over.
    Done,
}

impl Direct {
    /// Whom the receive waits for, if its message has not come: `Some(None)` is anybody.
    pub(super) fn wants(&self) -> Option<Option<ProcessId>> {
        match self {
            Self::Waiting { peer, .. } => Some(*peer),
            _ => None,
        }
    }
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
        let Some(peer) = communicator.peers().process(dest) else { return false };
        // There is no link to ourselves.
        let Some(index) = self.links.index_of(peer) else { return false };
        let envelope = Envelope { context: communicator.context(), source: communicator.rank(), tag };
        self.offer_at_once(device, index, &envelope, &buffer)
    }

    /// Begins a receive that the caller waits for. `true`: it is over, and
    /// [`direct_completion`](Self::direct_completion) says how. `false`: make progress until
    /// [`poll_direct`](Self::poll_direct) says so, and begin no other before.
    #[inline(always)]
    pub fn receive_direct<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        sink: impl Into<Sink>,
        source: Source,
        tag: TagSelector,
    ) -> Result<bool, Error> {
        debug_assert!(matches!(self.direct, Direct::None), "two receives are waited for");
        let Some((key, peer)) = self.receive_key(comm, source, tag)? else {
            self.direct_completion = Completion { status: Status::PROC_NULL, error: None };
            return Ok(true);
        };
        let data = sink.into().0;
        if !self.unexpected.is_empty()
            && let Some(is_over) = self.begin_unexpected(device, &key, &data)
        {
            return Ok(is_over);
        }
        self.check_source(comm, peer)?;
        device.expect(peer);
        match data {
            Data::Memory(buffer) => self.direct = Direct::Waiting { key, peer, buffer },
            Data::Region(_) => self.direct = Direct::Moving(self.post_receive(key, peer, data)),
        }
        Ok(false)
    }

    /// Begins with the message that has come before, if one matches. Whether the receive is over.
    #[inline(never)]
    fn begin_unexpected<D: Device>(&mut self, device: &mut D, key: &Key, data: &Data) -> Option<bool> {
        let posted = self.take_unexpected(key, data)?;
        if self.wants_transmit() {
            self.poll_transmit(device);
        }
        match posted {
            Posted::Done(completion) => self.direct_completion = completion,
            Posted::Pending(id) => self.direct = Direct::Moving(id),
        }
        Some(matches!(posted, Posted::Done(_)))
    }

    /// Whether the receive begun is over; then there is none any more.
    #[inline(always)]
    pub fn poll_direct(&mut self) -> bool {
        match self.direct {
            Direct::Done => {
                self.direct = Direct::None;
                true
            }
            Direct::Moving(id) => self.poll_moving(id),
            _ => false,
        }
    }

    #[inline(never)]
    fn poll_moving(&mut self, id: RequestId) -> bool {
        let completion = match self.take(id) {
            Ok(None) => return false,
            Ok(Some(completion)) => completion,
            Err(error) => Completion::failed(error),
        };
        self.direct_completion = completion;
        self.direct = Direct::None;
        true
    }

    /// How the last receive that was waited for ended. To be read where it is: a copy of what has just been
    /// stored in parts is slow.
    #[inline(always)]
    pub fn direct_completion(&self) -> &Completion {
        &self.direct_completion
    }

    /// Whether the receive is over and not yet asked for.
    #[inline(always)]
    pub(super) fn direct_is_done(&self) -> bool {
        matches!(self.direct, Direct::Done)
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
            let over = core::cell::Cell::from_mut(&mut self.direct_completion);
            copy_in(envelope, payload, (&buffer, &None), |completion| over.set(completion));
            self.direct = Direct::Done;
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

    /// A peer is lost: a receive that may wait for it ends.
    pub(super) fn fail_direct(&mut self, lost: ProcessId, error: Error) {
        if let Direct::Waiting { peer, .. } = self.direct
            && peer.is_none_or(|peer| peer == lost)
        {
            self.direct_completion = Completion::failed(error);
            self.direct = Direct::Done;
        }
    }
}
