//! Buffered mode (MPI-5.0 §3.6): a message is copied to the attached buffer and leaves from there.

use super::Process;
use crate::bsend::{Attachment, BufferOwner};
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{CommId, ProcessId};
use crate::request::{Completion, Posted, SendMode};
use crate::wire::Envelope;

impl Process {
    pub(super) fn send_buffered<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        peer: ProcessId,
        envelope: Envelope,
        data: &Data,
    ) -> Result<Posted, Error> {
        let (place, copy) = self.buffered.reserve(comm, data.len())?;
        data.copy_out(0, copy);
        match self.send_message(device, peer, envelope, copy.into(), SendMode::Standard, false) {
            Ok(Posted::Pending(id)) => {
                let request = self.requests.get_mut(id).expect("just made");
                request.detached = true;
                request.extra_mut().buffered = Some(place);
                Ok(Posted::Done(Completion::EMPTY))
            }
            done => {
                self.buffered.release(place);
                done
            }
        }
    }

    /// Attaches a buffer for buffered sends (`MPI_Buffer_attach`); its memory is valid until detached.
    ///
    /// # Errors
    /// [`Error::Argument`] if the owner has one.
    pub fn attach_buffer(
        &mut self,
        owner: BufferOwner,
        attachment: impl Into<Attachment>,
    ) -> Result<(), Error> {
        self.buffered.attach(owner, attachment.into())
    }

    /// Whether the owner's buffer can be detached: all its messages have left.
    pub fn attached_is_drained(&self, owner: BufferOwner) -> bool {
        self.buffered.is_drained(owner)
    }

    /// Detaches the owner's buffer, once drained (`MPI_Buffer_detach`). `None`: nothing is attached.
    pub fn detach_buffer(&mut self, owner: BufferOwner) -> Option<Attachment> {
        self.buffered.detach(owner)
    }

    /// From now on buffered messages of a communicator that has no buffer use that of a session.
    pub fn set_comm_session(&mut self, comm: CommId, session: u32) {
        self.buffered.set_session(comm, session);
    }
}
