//! A receive that its caller waits for and does nothing else (`MPI_Recv`), past the request table and the
//! lists of posted receives.
//!
//! There is one place, so one such receive at a time: with threads, callers use `irecv`. It counts as posted
//! after all receives that are posted when it begins, which is right, since the caller posts none meanwhile.

use super::Messages;
use super::receive::copy_in;
use crate::buffer::{Buffer, Payload};
use crate::data::Data;
use crate::error::Error;
use crate::ids::{ProcessId, RequestId};
use crate::matching::Key;
use crate::request::{Completion, Posted};
use crate::wire::Envelope;

/// The receive. Its completion is [`Messages::direct_completion`].
pub(crate) enum Direct {
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
    /// The receive's key and source (`None`: any source), if its message has not come.
    pub(crate) fn awaits(&self) -> Option<(&Key, Option<ProcessId>)> {
        match self {
            Self::Waiting { key, peer, .. } => Some((key, *peer)),
            _ => None,
        }
    }

    /// The receive's source, if its message has not come: `Some(None)` is any source.
    pub(crate) fn wants(&self) -> Option<Option<ProcessId>> {
        match self {
            Self::Waiting { peer, .. } => Some(*peer),
            _ => None,
        }
    }
}

impl Messages {
    /// Begins the receive with a message that may still come.
    #[inline(always)]
    pub(crate) fn begin_direct(&mut self, key: Key, peer: Option<ProcessId>, data: Data) {
        match data {
            Data::Memory(buffer) => self.direct = Direct::Waiting { key, peer, buffer },
            Data::Region(_) => self.direct = Direct::Moving(self.post_receive(key, peer, data)),
        }
    }

    /// Begins the receive with a message that has come before. Whether it is over.
    pub(crate) fn begin_direct_with(&mut self, posted: Posted) -> bool {
        match posted {
            Posted::Done(completion) => self.direct_completion = completion,
            Posted::Pending(id) => self.direct = Direct::Moving(id),
        }
        matches!(posted, Posted::Done(_))
    }

    /// Whether the receive begun is over; then there is none any more.
    #[inline(always)]
    pub(crate) fn poll_direct(&mut self) -> bool {
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

    /// Whether the receive is over and not yet asked for.
    #[inline(always)]
    pub(crate) fn direct_is_done(&self) -> bool {
        matches!(self.direct, Direct::Done)
    }

    /// Whether the receive waits for this message.
    #[inline]
    pub(crate) fn direct_takes(&self, envelope: &Envelope) -> bool {
        matches!(&self.direct, Direct::Waiting { key, .. } if key.matches(envelope))
    }

    /// Copies a message into the receive's buffer.
    #[inline]
    pub(crate) fn deliver_direct(&mut self, envelope: &Envelope, payload: Payload<'_>) {
        if let Direct::Waiting { buffer, .. } = self.direct {
            let over = core::cell::Cell::from_mut(&mut self.direct_completion);
            copy_in(envelope, payload, (&buffer, &None), |completion| over.set(completion));
            self.direct = Direct::Done;
        }
    }

    /// The receive's message is announced: from now on it is a request, which the caller of this begins.
    pub(crate) fn direct_becomes_request(&mut self, id: RequestId) {
        self.direct = Direct::Moving(id);
    }

    /// Its buffer, while it waits.
    pub(crate) fn direct_buffer(&self) -> Option<Buffer> {
        match &self.direct {
            Direct::Waiting { buffer, .. } => Some(*buffer),
            _ => None,
        }
    }

    /// The receive ends: its message does not come.
    pub(crate) fn end_direct(&mut self, error: Error) {
        self.direct_completion = Completion::failed(error);
        self.direct = Direct::Done;
    }
}
