//! Extensions beyond the standard: `include/mpi-ext.h`. Prefix `MPIX_`, as is the custom.

use crate::abi::*;
use crate::api::p2p;
use crate::arguments::*;
use crate::fault::fault;
use crate::runtime::helper;
use crate::runtime::mode::{self, Mode};
use crate::state::process;
use ayatori_core::device::Gap;
use std::ffi::{c_double, c_int, c_void};

api! {
    /// Sets the progress mode and returns the one in force: in a job of one process, or without the kernel's
    /// help, it stays `MPIX_PROGRESS_INLINE`. Local; one thread calls it while no other calls MPI.
    fn MPIX_Progress_set(mode: c_int, provided: Out<c_int>) {
        drop(process()?);
        let mode = Mode::from_number(mode)
            .ok_or_else(|| fault(MPI_ERR_ARG, format_args!("argument mode ({mode}) is not a progress mode")))?;
        let mode = helper::set_mode(mode);
        // The end of a call notifies the helper of work under way.
        drop(process()?);
        provided.set("provided", mode.number())
    }

    /// As `MPI_Isend`, with a gap of this message's own between its packets, in packet times.
    fn MPIX_Isend_paced(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, gap: c_double, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        let gap = Gap::checked(gap).map_err(|error| fault(MPI_ERR_ARG, format_args!("argument gap is {gap}: {error}")))?;
        p2p::isend_paced((buf, count, datatype), (dest, tag, comm), gap, request)
    }

    /// The progress mode in force. Local.
    fn MPIX_Progress_get(mode: Out<c_int>) {
        drop(process()?);
        mode.set("mode", mode::mode().number())
    }
}
