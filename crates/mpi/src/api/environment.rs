//! Chapter "environment": version, time, memory, start and end (MPI-5.0 §9.1, §9.2, §9.6, §11).

use super::dynamic::join_parent;
use crate::abi::*;
use crate::arguments::*;
use crate::boundary::describe;
use crate::fault::{Fault, fault};
use crate::host::host_name;
use crate::phase::{self, Phase};
use crate::runtime::exit::abort;
use crate::runtime::start;
use std::ffi::{c_char, c_double, c_int, c_void};
use std::ptr;

/// Seconds on the monotonic clock, by the vDSO: no system call.
fn monotonic_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec to write to; CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Alignment of memory for communication unless an info key asks for more: a cache line, and enough for every
/// vector instruction.
const ALIGNMENT_BYTES: usize = 64;

/// The info key that asks for an alignment of memory (MPI-5.0 §9.2).
pub(crate) const ALIGNMENT_KEY: &str = "mpi_minimum_memory_alignment";

/// The alignment that an info object asks for, if it is a power of two.
pub(crate) fn alignment_asked_for(info: MPI_Info) -> Result<Option<usize>, Fault> {
    if info == MPI_INFO_NULL {
        return Ok(None);
    }
    crate::info::with(info, |info| {
        let text = info.get(ALIGNMENT_KEY.as_bytes()).and_then(|text| std::str::from_utf8(text).ok());
        let asked = text.and_then(|text| text.parse::<usize>().ok());
        Ok(asked.filter(|bytes| bytes.is_power_of_two()))
    })
}

api! {
    /// Seconds since some time in the past.
    fn MPI_Wtime() -> c_double {
        monotonic_seconds()
    }

    /// Seconds between ticks of `MPI_Wtime`: the clock counts nanoseconds.
    fn MPI_Wtick() -> c_double {
        1e-9
    }

    /// MPI-5.0 §11.2.1. The arguments are the program's own and stay as they are.
    fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) {
        let _ = (argc, argv);
        start::start(MPI_THREAD_SINGLE)?;
        join_parent()
    }

    /// MPI-5.0 §11.2.1. The level asked for is the level given, or a higher one that a session asked for
    /// before.
    fn MPI_Init_thread(argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: Out<c_int>) {
        let _ = (argc, argv);
        let level = start::start(required)?;
        join_parent()?;
        provided.set("provided", level)
    }

    /// MPI-5.0 §11.2.2
    fn MPI_Finalize() {
        start::finish()
    }

    /// Works at any time.
    fn MPI_Initialized(flag: Out<c_int>) {
        flag.set("flag", c_int::from(phase::world() != Phase::Before))
    }

    /// Works at any time.
    fn MPI_Finalized(flag: Out<c_int>) {
        flag.set("flag", c_int::from(phase::world() == Phase::After))
    }

    /// Any thread may call it whatever the level is, so it takes no lock (MPI-5.0 §11.6.2).
    fn MPI_Query_thread(provided: Out<c_int>) {
        phase::check_running()?;
        provided.set("provided", phase::thread_level())
    }

    /// As `MPI_Query_thread`.
    fn MPI_Is_thread_main(flag: Out<c_int>) {
        phase::check_running()?;
        flag.set("flag", c_int::from(phase::is_main_thread()))
    }

    /// Ends the whole job, whatever the communicator, as the standard allows.
    fn MPI_Abort(comm: MPI_Comm, errorcode: c_int) on comm {
        let object = describe(comm.into());
        abort(errorcode, &format!("the program called MPI_Abort with error code {errorcode} on {object}"))
    }

    /// Works at any time.
    fn MPI_Get_version(version: Out<c_int>, subversion: Out<c_int>) {
        version.set("version", MPI_VERSION)?;
        subversion.set("subversion", MPI_SUBVERSION)
    }

    /// Works at any time.
    fn MPI_Get_library_version(version: OutText, resultlen: Out<c_int>) {
        let text = concat!("Ayatori ", env!("CARGO_PKG_VERSION"), ", MPI 5.0, standard ABI 1.0");
        let length = version.set("version", text.as_bytes(), MPI_MAX_LIBRARY_VERSION_STRING as usize)?;
        resultlen.set("resultlen", length)
    }

    /// The host's name.
    fn MPI_Get_processor_name(name: OutText, resultlen: Out<c_int>) {
        let host = host_name().unwrap_or_else(|| "localhost".into());
        let length = name.set("name", host.as_bytes(), MPI_MAX_PROCESSOR_NAME as usize)?;
        resultlen.set("resultlen", length)
    }

    /// Memory aligned to a cache line, or to `mpi_minimum_memory_alignment`. Works at any time.
    fn MPI_Alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) {
        let bytes = usize::try_from(size)
            .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument size is negative ({size})")))?;
        let alignment_bytes = alignment_asked_for(info)?.unwrap_or(ALIGNMENT_BYTES).max(ALIGNMENT_BYTES);
        let mut memory = ptr::null_mut();
        // SAFETY: the alignment is a power of two and a multiple of a pointer's size; `memory` takes the
        // address.
        let failed = unsafe { libc::posix_memalign(&mut memory, alignment_bytes, bytes.max(1)) } != 0;
        if failed {
            return Err(fault(MPI_ERR_NO_MEM, format_args!("there are no {bytes} bytes of memory")));
        }
        Out::from_void(baseptr).set("baseptr", memory)
    }

    /// Works at any time.
    fn MPI_Free_mem(base: *mut c_void) {
        // SAFETY: by the call's description null or memory of MPI_Alloc_mem, not yet freed.
        unsafe { libc::free(base) };
        Ok(())
    }

    /// For profiling tools, which put their own function before this one (MPI-5.0 §15.2.4).
    fn MPI_Pcontrol(level: c_int) {
        let _ = level;
        Ok(())
    }
}
