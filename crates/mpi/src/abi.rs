//! Types and constants of the ABI, as C sees them.
//!
//! Handles are pointer-sized integers here: the ABI's predefined handles are integers below 0x1000, and ours
//! for what the user makes are integers too (see `handle`), so nothing is ever dereferenced.

#![allow(non_camel_case_types, reason = "MPI's own names")]
#![allow(dead_code, reason = "the ABI is complete; its users come chapter by chapter")]

use std::ffi::{c_int, c_void};

/// An address or a difference of addresses, in bytes.
pub(crate) type MPI_Aint = isize;
/// A position in a file, in bytes.
pub(crate) type MPI_Offset = i64;
/// A count of elements or bytes.
pub(crate) type MPI_Count = i64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(crate) usize);
    )*};
}

handles! {
    /// A communicator.
    MPI_Comm;
    /// A datatype.
    MPI_Datatype;
    /// An error handler.
    MPI_Errhandler;
    /// An open file.
    MPI_File;
    /// An ordered set of processes.
    MPI_Group;
    /// A dictionary of hints.
    MPI_Info;
    /// A matched message.
    MPI_Message;
    /// A reduction operation.
    MPI_Op;
    /// An operation under way.
    MPI_Request;
    /// A session.
    MPI_Session;
    /// A window for one-sided communication.
    MPI_Win;
    /// Tool interface: an enumeration.
    MPI_T_enum;
    /// Tool interface: a control variable.
    MPI_T_cvar_handle;
    /// Tool interface: a performance variable.
    MPI_T_pvar_handle;
    /// Tool interface: a measuring session.
    MPI_T_pvar_session;
    /// Tool interface: interest in an event.
    MPI_T_event_registration;
    /// Tool interface: an event that happened.
    MPI_T_event_instance;
    /// A pointer to a function of the user, or a predefined one (0 and 1).
    Callback;
}

/// `MPI_Status`: eight integers (MPI-5.0 §20.3.4). The last five are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct MPI_Status {
    /// Rank of the sender.
    pub(crate) source: c_int,
    /// Tag of the message.
    pub(crate) tag: c_int,
    /// Error class, set only by calls that complete several requests.
    pub(crate) error: c_int,
    /// Low and high half of the length in bytes, then the cancelled flag, then two zeros.
    pub(crate) internal: [c_int; 5],
}

impl MPI_Status {
    /// The status of a null request or of a receive from `MPI_PROC_NULL` has this with the right source.
    pub(crate) const fn empty() -> Self {
        Self { source: MPI_ANY_SOURCE, tag: MPI_ANY_TAG, error: MPI_SUCCESS, internal: [0; 5] }
    }

    /// Length of the message in bytes.
    pub(crate) fn length_bytes(&self) -> MPI_Count {
        let [low, high, ..] = self.internal;
        (i64::from(high) << 32) | i64::from(low as u32)
    }

    /// Sets the length of the message in bytes.
    pub(crate) fn set_length_bytes(&mut self, length_bytes: MPI_Count) {
        self.internal[0] = length_bytes as c_int;
        self.internal[1] = (length_bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    pub(crate) fn cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Says whether the operation was cancelled.
    pub(crate) fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = c_int::from(cancelled);
    }
}

include!(concat!(env!("OUT_DIR"), "/constants.rs"));

/// The name of a predefined handle, such as `MPI_COMM_WORLD`.
pub(crate) fn handle_name(value: usize) -> Option<&'static str> {
    HANDLE_NAMES.iter().find(|(v, _)| *v == value).map(|(_, name)| *name)
}

/// The name of an error class, such as `MPI_ERR_RANK`.
pub(crate) fn class_name(class: c_int) -> Option<&'static str> {
    CLASS_NAMES.iter().find(|(v, _)| *v == class).map(|(_, name)| *name)
}

/// `Self` passes in a C call exactly as `T` does. Used by the generated check that every function in `api`
/// has the signature of the table.
pub(crate) trait PassesAs<T> {}
impl<T> PassesAs<T> for T {}

/// An opaque address of the user that MPI only keeps and hands back, such as `extra_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct UserPointer(pub(crate) *mut c_void);

impl PassesAs<*mut c_void> for UserPointer {}

// SAFETY: MPI never follows the pointer; what threads the user hands it to is the user's affair.
unsafe impl Send for UserPointer {}
// SAFETY: as above.
unsafe impl Sync for UserPointer {}
