//! Chapter "buffered": memory for buffered sends (MPI-5.0 §3.6), of a communicator, a session or the
//! process. A message takes its communicator's buffer, if that has one, else that of the session that its
//! communicator comes from, else that of the process. With `MPI_BUFFER_AUTOMATIC` the memory is ours, as much
//! as there is need of.
//!
//! `MPI_Comm_free` detaches the communicator's buffer, and `MPI_Session_finalize` the session's, once its
//! messages have left.

use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::request::What;
use crate::runtime::wait::wait_until;
use crate::state::process;
use crate::why::Waits;
use ayatori_core::bsend::{Attachment, BufferOwner};
use ayatori_core::buffer::Buffer;
use std::ffi::{c_int, c_void};

/// The communicator as an owner of a buffer.
fn owner(comm: MPI_Comm) -> Result<BufferOwner, Fault> {
    Ok(BufferOwner::Comm(process()?.comms.get(comm, "comm")?.id()))
}

/// The session as an owner of a buffer.
fn owner_session(session: MPI_Session) -> Result<BufferOwner, Fault> {
    Ok(BufferOwner::Session(crate::session::number(session)?))
}

fn attach(owner: BufferOwner, memory: *mut c_void, size: MPI_Count) -> Result<(), Fault> {
    let attachment = match memory.addr() == MPI_BUFFER_AUTOMATIC {
        true => Attachment::Automatic,
        false => Attachment::Memory(attached(memory, size)?),
    };
    let mut process = process()?;
    let attached = process.engine().core.attach_buffer(owner, attachment);
    attached.map_err(|error| fault(MPI_ERR_BUFFER, format_args!("{error}")))
}

fn attached(memory: *mut c_void, size: MPI_Count) -> Result<Buffer, Fault> {
    let bytes = usize::try_from(size)
        .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument size ({size}) is negative")))?;
    if memory.is_null() && bytes > 0 {
        return Err(Fault::null("buffer"));
    }
    // SAFETY: the caller gives the memory to MPI until it is detached (MPI-5.0 §3.6).
    Ok(unsafe { Buffer::from_raw_parts(memory.cast(), bytes) })
}

const DRAINS: Waits = Waits::Other("the attached buffer to drain");

/// Waits until the owner's buffer is drained and takes it off; its address and size.
fn detach_from(owner: BufferOwner) -> Result<(*mut c_void, MPI_Count), Fault> {
    let detached = wait_until(DRAINS, |process| {
        let core = &mut process.engine().core;
        Ok(core.attached_is_drained(owner).then(|| core.detach_buffer(owner)))
    })?;
    Ok(match detached {
        Some(Attachment::Memory(buffer)) => {
            let address = buffer.as_ptr().unwrap_or(std::ptr::null_mut());
            (address.cast(), buffer.len() as MPI_Count)
        }
        Some(Attachment::Automatic) => (std::ptr::without_provenance_mut(MPI_BUFFER_AUTOMATIC), 0),
        None => (std::ptr::null_mut(), 0),
    })
}

/// Takes the buffer of a communicator off that is being freed.
pub(super) fn detach(comm: MPI_Comm) -> Result<(), Fault> {
    detach_from(owner(comm)?).map(|_| ())
}

/// Takes the buffer of a session off that ends.
pub(super) fn detach_session(session: MPI_Session) -> Result<(), Fault> {
    detach_from(owner_session(session)?).map(|_| ())
}

/// As the functions for detaching answer.
fn give(
    (memory, bytes): (*mut c_void, MPI_Count),
    buffer_addr: *mut c_void,
    size: Out<c_int>,
) -> Result<(), Fault> {
    Out::from_void(buffer_addr).set("buffer_addr", memory)?;
    size.set("size", c_int::try_from(bytes).unwrap_or(MPI_UNDEFINED))
}

fn give_c(
    (memory, bytes): (*mut c_void, MPI_Count),
    buffer_addr: *mut c_void,
    size: Out<MPI_Count>,
) -> Result<(), Fault> {
    Out::from_void(buffer_addr).set("buffer_addr", memory)?;
    size.set("size", bytes)
}

/// Messages that other threads buffer meanwhile are not waited for.
fn flush(owner: BufferOwner) -> Result<(), Fault> {
    let before = process()?.engine().core.next_buffered();
    wait_until(DRAINS, |process| {
        Ok(process.engine().core.attached_is_drained_before(owner, before).then_some(()))
    })
}

fn iflush(owner: BufferOwner, comm: MPI_Comm, request: Out<MPI_Request>) -> Result<(), Fault> {
    let mut process = process()?;
    let before = process.engine().core.next_buffered();
    let handle = process.table_request(What::Flush(owner, before), comm)?;
    request.set("request", handle)
}

api! {
    /// MPI-5.0 §3.6
    fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) {
        attach(BufferOwner::Process, buffer, size.into())
    }

    /// MPI-5.0 §3.6
    fn MPI_Buffer_attach_c(buffer: *mut c_void, size: MPI_Count) {
        attach(BufferOwner::Process, buffer, size)
    }

    /// Waits until all buffered messages have left.
    fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: Out<c_int>) {
        give(detach_from(BufferOwner::Process)?, buffer_addr, size)
    }

    /// Waits until all buffered messages have left.
    fn MPI_Buffer_detach_c(buffer_addr: *mut c_void, size: Out<MPI_Count>) {
        give_c(detach_from(BufferOwner::Process)?, buffer_addr, size)
    }

    /// Waits until all buffered messages have left; the buffer stays.
    fn MPI_Buffer_flush() {
        flush(BufferOwner::Process)
    }

    /// As `MPI_Buffer_flush`, without waiting.
    fn MPI_Buffer_iflush(request: Out<MPI_Request>) {
        drop(process()?);
        iflush(BufferOwner::Process, MPI_COMM_SELF, request)
    }

    /// MPI-5.0 §3.6
    fn MPI_Comm_attach_buffer(comm: MPI_Comm, buffer: *mut c_void, size: c_int) on comm {
        attach(owner(comm)?, buffer, size.into())
    }

    /// MPI-5.0 §3.6
    fn MPI_Comm_attach_buffer_c(comm: MPI_Comm, buffer: *mut c_void, size: MPI_Count) on comm {
        attach(owner(comm)?, buffer, size)
    }

    /// Waits until the communicator's buffered messages have left.
    fn MPI_Comm_detach_buffer(comm: MPI_Comm, buffer_addr: *mut c_void, size: Out<c_int>) on comm {
        give(detach_from(owner(comm)?)?, buffer_addr, size)
    }

    /// Waits until the communicator's buffered messages have left.
    fn MPI_Comm_detach_buffer_c(comm: MPI_Comm, buffer_addr: *mut c_void, size: Out<MPI_Count>) on comm {
        give_c(detach_from(owner(comm)?)?, buffer_addr, size)
    }

    /// Waits until the communicator's buffered messages have left; the buffer stays.
    fn MPI_Comm_flush_buffer(comm: MPI_Comm) on comm {
        flush(owner(comm)?)
    }

    /// As `MPI_Comm_flush_buffer`, without waiting.
    fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        iflush(owner(comm)?, comm, request)
    }

    /// MPI-5.0 §3.6
    fn MPI_Session_attach_buffer(session: MPI_Session, buffer: *mut c_void, size: c_int) on session {
        attach(owner_session(session)?, buffer, size.into())
    }

    /// MPI-5.0 §3.6
    fn MPI_Session_attach_buffer_c(session: MPI_Session, buffer: *mut c_void, size: MPI_Count) on session {
        attach(owner_session(session)?, buffer, size)
    }

    /// Waits until the buffered messages of the session's communicators have left.
    fn MPI_Session_detach_buffer(
        session: MPI_Session,
        buffer_addr: *mut c_void,
        size: Out<c_int>,
    ) on session {
        give(detach_from(owner_session(session)?)?, buffer_addr, size)
    }

    /// Waits until the buffered messages of the session's communicators have left.
    fn MPI_Session_detach_buffer_c(
        session: MPI_Session,
        buffer_addr: *mut c_void,
        size: Out<MPI_Count>,
    ) on session {
        give_c(detach_from(owner_session(session)?)?, buffer_addr, size)
    }

    /// Waits until the buffered messages of the session's communicators have left; the buffer stays.
    fn MPI_Session_flush_buffer(session: MPI_Session) on session {
        flush(owner_session(session)?)
    }

    /// As `MPI_Session_flush_buffer`, without waiting. An error of the request is one of `MPI_COMM_SELF`.
    fn MPI_Session_iflush_buffer(session: MPI_Session, request: Out<MPI_Request>) on session {
        iflush(owner_session(session)?, MPI_COMM_SELF, request)
    }
}
