//! Generalized requests: operations of the program's own (MPI-5.0 §13.2). No lock is held while its
//! functions run.

use crate::abi::*;
use crate::fault::{Fault, fault};
use std::ffi::c_int;

/// A generalized request: what the user does, announced to MPI.
#[derive(Clone, Copy)]
pub(crate) struct General {
    pub(crate) query: Callback,
    pub(crate) free: Callback,
    pub(crate) cancel: Callback,
    pub(crate) extra_state: UserPointer,
    pub(crate) is_complete: bool,
    /// Given up before it was complete.
    pub(crate) is_freed: bool,
}

/// The function `MPI_Grequest_start` was given to ask for the status.
type QueryFunction = unsafe extern "C-unwind" fn(*mut std::ffi::c_void, *mut MPI_Status) -> c_int;
/// The function to free the user's state.
type FreeFunction = unsafe extern "C-unwind" fn(*mut std::ffi::c_void) -> c_int;
/// The function to cancel.
type CancelFunction = unsafe extern "C-unwind" fn(*mut std::ffi::c_void, c_int) -> c_int;

impl General {
    /// Asks the user for the status, then frees the user's state, whatever the first function returned. The
    /// status, and what the functions returned: the last error among both (MPI-5.0 §13.2). No lock is held
    /// meanwhile.
    pub(crate) fn finish(self) -> (MPI_Status, c_int) {
        let mut status = MPI_Status::empty();
        let asked = self.ask(&mut status);
        let freed = self.free();
        (status, if freed == MPI_SUCCESS { asked } else { freed })
    }

    /// Has the user free the user's state.
    pub(crate) fn release(self) -> Result<(), Fault> {
        user_result(self.free())
    }

    /// Calls the user's free function; what it returned.
    fn free(&self) -> c_int {
        if self.free.0 == 0 {
            return MPI_SUCCESS;
        }
        // SAFETY: the user passed it as the free function of MPI_Grequest_start.
        let function: FreeFunction = unsafe { std::mem::transmute(self.free.0) };
        // SAFETY: called as the standard says, with the user's own state.
        unsafe { function(self.extra_state.0) }
    }

    /// Calls the user's cancel function.
    pub(crate) fn cancel(self) -> Result<(), Fault> {
        if self.cancel.0 == 0 {
            return Ok(());
        }
        // SAFETY: the user passed it as the cancel function of MPI_Grequest_start.
        let function: CancelFunction = unsafe { std::mem::transmute(self.cancel.0) };
        // SAFETY: called as the standard says, with the user's own state.
        user_result(unsafe { function(self.extra_state.0, c_int::from(self.is_complete)) })
    }

    /// Asks the user for the status.
    pub(crate) fn query(&self) -> Result<MPI_Status, Fault> {
        let mut status = MPI_Status::empty();
        user_result(self.ask(&mut status))?;
        Ok(status)
    }

    /// Calls the user's query function; what it returned.
    fn ask(&self, status: &mut MPI_Status) -> c_int {
        if self.query.0 == 0 {
            return MPI_SUCCESS;
        }
        // SAFETY: the user passed it as the query function of MPI_Grequest_start.
        let function: QueryFunction = unsafe { std::mem::transmute(self.query.0) };
        // SAFETY: called as the standard says, with the user's own state and a status to fill.
        unsafe { function(self.extra_state.0, status) }
    }
}

/// The fault of a function of a generalized request that returned `code`.
pub(crate) fn user_result(code: c_int) -> Result<(), Fault> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => Err(fault(code, format_args!("a function of a generalized request returned {code}"))),
    }
}
