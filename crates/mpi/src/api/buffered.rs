//! Chapter "buffered": memory for buffered sends (MPI-5.0 §3.6). One buffer serves the whole process; buffers
//! of a communicator or session are not written yet.

use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::request::What;
use crate::runtime::wait::wait_until;
use crate::state::process;
use crate::why::Waits;
use ayatori_core::buffer::Buffer;
use std::ffi::{c_int, c_void};

fn attach(memory: *mut c_void, size: MPI_Count) -> Result<(), Fault> {
    let bytes = usize::try_from(size)
        .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument size ({size}) is negative")))?;
    if memory.is_null() && bytes > 0 {
        return Err(Fault::null("buffer"));
    }
    // SAFETY: the caller gives the memory to MPI until it is detached (MPI-5.0 §3.6).
    let buffer = unsafe { Buffer::from_raw_parts(memory.cast(), bytes) };
    Ok(process()?.engine().core.attach_buffer(buffer)?)
}

const DRAINS: Waits = Waits::Other("the attached buffer to drain");

/// Waits until the buffer is drained; its address and size.
fn detach() -> Result<(*mut c_void, usize), Fault> {
    let detached = wait_until(DRAINS, |process| {
        let core = &mut process.engine().core;
        Ok(core.attached_is_drained().then(|| core.detach_buffer()))
    })?;
    Ok(match detached {
        Some(buffer) => (buffer.as_ptr().unwrap_or(std::ptr::null_mut()).cast(), buffer.len()),
        None => (std::ptr::null_mut(), 0),
    })
}

api! {
    /// MPI-5.0 §3.6
    fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) {
        attach(buffer, size.into())
    }

    /// MPI-5.0 §3.6
    fn MPI_Buffer_attach_c(buffer: *mut c_void, size: MPI_Count) {
        attach(buffer, size)
    }

    /// Waits until all buffered messages have left.
    fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: Out<c_int>) {
        let (memory, bytes) = detach()?;
        Out::from_void(buffer_addr).set("buffer_addr", memory)?;
        size.set("size", bytes as c_int)
    }

    /// Waits until all buffered messages have left.
    fn MPI_Buffer_detach_c(buffer_addr: *mut c_void, size: Out<MPI_Count>) {
        let (memory, bytes) = detach()?;
        Out::from_void(buffer_addr).set("buffer_addr", memory)?;
        size.set("size", bytes as MPI_Count)
    }

    /// Waits until all buffered messages have left; the buffer stays.
    fn MPI_Buffer_flush() {
        wait_until(DRAINS, |process| Ok(process.engine().core.attached_is_drained().then_some(())))
    }

    /// As `MPI_Buffer_flush`, without waiting.
    fn MPI_Buffer_iflush(request: Out<MPI_Request>) {
        let handle = process()?.table_request(What::Flush, MPI_COMM_SELF)?;
        request.set("request", handle)
    }
}
