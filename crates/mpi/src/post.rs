//! A message to be sent or received, with arguments that have been checked: what every progress mode starts
//! it from.

use crate::fault::survives;
use crate::message::Data;
use crate::runtime::machine::Machine;
use crate::runtime::net::on_device;
use ayatori_core::Error;
use ayatori_core::ids::{CommId, Rank, RequestId, Source, Tag, TagSelector};
use ayatori_core::request::{Completion, PROC_NULL, Posted, SendMode, Status};

/// See the [module's docs](self).
#[derive(Clone)]
pub(crate) enum Post {
    Send { comm: CommId, data: Data, dest: Rank, tag: Tag, mode: SendMode },
    Receive { comm: CommId, data: Data, source: Source, tag: TagSelector },
}

// SAFETY: it goes to the engine's thread within a command. Its memory is used there from then on until the
// response, and by calls only where they have borrowed the machine, under its lock: by one thread at a time,
// as buffers ask for. The layout of memory with gaps is immutable and counted atomically.
unsafe impl Send for Post {}

/// How often is looked for what makes room in an attached buffer.
const LOOKS_MAX: u32 = 1000;

/// Begins what needs room in an attached buffer. Messages whose receivers have said that they have them leave
/// theirs: that word may have come and lie unread, so it is looked for before there is no room.
#[cold]
#[inline(never)]
pub(crate) fn with_room<R>(
    machine: &mut Machine,
    mut begin: impl FnMut(&mut Machine) -> Result<R, Error>,
) -> Result<R, Error> {
    for _ in 0..LOOKS_MAX {
        match begin(machine) {
            Err(Error::BufferExhausted { .. }) if machine.progress() => {}
            done => return done,
        }
    }
    begin(machine)
}

/// What has failed at once for a process that is gone, as an operation that is over; else the error.
#[cold]
fn at_its_end(error: Error) -> Result<Posted, Error> {
    let is_failure = error == Error::Revoked || error.process().is_some() && survives();
    if is_failure { Ok(Posted::Done(Completion::failed(error))) } else { Err(error) }
}

impl Post {
    /// The communicator.
    pub(crate) fn comm(&self) -> CommId {
        match self {
            Self::Send { comm, .. } | Self::Receive { comm, .. } => *comm,
        }
    }

    /// Whether the engine's thread can start it. A buffered send must report at once whether the buffer has
    /// space.
    pub(crate) fn can_be_commanded(&self) -> bool {
        !matches!(self, Self::Send { mode: SendMode::Buffered, .. })
    }

    /// Its completion if there is no peer.
    pub(crate) fn without_peer(&self) -> Option<Completion> {
        match self {
            Self::Send { dest: PROC_NULL, .. } => Some(Completion::EMPTY),
            Self::Receive { source: Source::Rank(PROC_NULL), .. } => {
                Some(Completion { status: Status::PROC_NULL, error: None })
            }
            _ => None,
        }
    }

    /// Starts it. `is_awaited`: its caller does nothing else before its end. That a process has failed, or
    /// that the communicator is revoked, is told at the end, not here: who goes on has the request then.
    #[inline]
    pub(crate) fn begin(self, machine: &mut Machine, is_awaited: bool) -> Result<Posted, Error> {
        self.try_begin(machine, is_awaited).or_else(at_its_end)
    }

    #[inline]
    fn try_begin(self, machine: &mut Machine, is_awaited: bool) -> Result<Posted, Error> {
        if let Self::Send { comm, data, dest, tag, mode: mode @ SendMode::Buffered } = self {
            return with_room(machine, |Machine { core, device, .. }| {
                core.isend(device, comm, data.clone(), dest, tag, mode)
            });
        }
        let Machine { core, device, .. } = machine;
        match self {
            Self::Send { comm, data, dest, tag, mode } => on_device!(device, |device| match is_awaited {
                true => core.send(device, comm, data, dest, tag, mode),
                false => core.isend(device, comm, data, dest, tag, mode),
            }),
            Self::Receive { comm, data, source, tag } => {
                on_device!(device, |device| core.irecv(device, comm, data, source, tag))
            }
        }
    }

    /// Makes a persistent request of it.
    pub(crate) fn init(self, machine: &mut Machine) -> Result<RequestId, Error> {
        match self {
            Self::Send { comm, data, dest, tag, mode } => machine.core.send_init(comm, data, dest, tag, mode),
            Self::Receive { comm, data, source, tag } => machine.core.recv_init(comm, data, source, tag),
        }
    }
}
