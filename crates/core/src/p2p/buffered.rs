//! Buffered mode (MPI-5.0 §3.6): a message is copied to the attached buffer and leaves from there.

use super::Messages;
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{CommId, ProcessId};
use crate::request::{Completion, Posted, SendMode};
use crate::wire::Envelope;

impl Messages {
    /// Copies a message to the buffer attached to a communicator, session or process, and sends it from
    /// there.
    pub(crate) fn send_buffered<D: Device>(
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
}
