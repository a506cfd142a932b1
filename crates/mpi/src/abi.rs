//! Types and constants of the ABI, as C sees them.
//!
//! Handles are pointer-sized integers here: the ABI's predefined handles are integers below 0x1000, and ours for
//! what the user makes are integers too (see `handle`), so nothing is ever dereferenced.

#![allow(non_camel_case_types, reason = "MPI's own names")]
#![allow(dead_code, reason = "the ABI is complete; its users come chapter by chapter")]

use std::ffi::{CStr, c_char, c_int, c_void};

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

/// `Self` passes in a C call exactly as `T` does. Used by the generated check that every function in `api` has
/// the signature of the table.
pub(crate) trait PassesAs<T> {}
impl<T> PassesAs<T> for T {}
impl<T> PassesAs<*mut T> for Out<T> {}
impl<T> PassesAs<*mut T> for InOut<T> {}
impl<T> PassesAs<*const T> for In<T> {}
impl PassesAs<*const c_char> for Text {}
impl PassesAs<*mut c_char> for OutText {}

/// A pointer through which a C caller wants a result, or an array of them.
///
/// Only the C caller makes one (or a test, unsafely), so a value of this type carries the caller's promise of
/// MPI-5.0 §2.5: it is null, or it points to memory for as many elements as the call's description says, which
/// nobody else uses during the call. That promise is the ground of every `SAFETY` note below.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// As [`Out`], for memory the function reads and then writes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct InOut<T>(*mut T);

/// As [`Out`], for memory the function only reads.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

/// A zero-terminated string of the caller, with the same promise.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

/// Memory of the caller for a string, with the same promise.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OutText(*mut c_char);

use crate::boundary::{Fault, fault};

impl<T> Out<T> {
    /// For C's `void *` that means the address of a `T`.
    pub(crate) fn from_void(pointer: *mut c_void) -> Self {
        Self(pointer.cast())
    }
}

impl<T: Copy> Out<T> {
    /// Stores `value`; a null pointer is the caller's error in argument `name`.
    #[inline(always)]
    pub(crate) fn set(self, name: &str, value: T) -> Result<(), Fault> {
        if self.0.is_null() {
            return Err(Fault::null(name));
        }
        // SAFETY: not null, so by the promise of the type it has room for one element.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Stores `value` unless the pointer is null, as for `MPI_STATUS_IGNORE`.
    #[inline(always)]
    pub(crate) fn set_if_given(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so by the promise of the type it has room for one element.
            unsafe { self.0.write(value) };
        }
    }

    /// Stores `values` one after the other; null is an error unless there is nothing to store.
    pub(crate) fn set_all(self, name: &str, values: &[T]) -> Result<(), Fault> {
        if self.0.is_null() && !values.is_empty() {
            return Err(Fault::null(name));
        }
        for (i, value) in values.iter().enumerate() {
            // SAFETY: not null, and the call's description promises room for as many elements as it yields.
            unsafe { self.0.add(i).write(*value) };
        }
        Ok(())
    }

    /// The address, for code that checks and fills it itself.
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0
    }
}

impl<T: Copy> InOut<T> {
    /// Reads the element; a null pointer is the caller's error in argument `name`.
    #[inline(always)]
    pub(crate) fn get(self, name: &str) -> Result<T, Fault> {
        if self.0.is_null() {
            return Err(Fault::null(name));
        }
        // SAFETY: not null, so by the promise of the type it points to an element.
        Ok(unsafe { self.0.read() })
    }

    /// Stores `value`; a null pointer is the caller's error in argument `name`.
    #[inline(always)]
    pub(crate) fn set(self, name: &str, value: T) -> Result<(), Fault> {
        Out(self.0).set(name, value)
    }

    /// Element `index` of an array the caller promised to be longer than that.
    #[inline(always)]
    pub(crate) fn get_at(self, name: &str, index: usize) -> Result<T, Fault> {
        In::from(self).get_at(name, index)
    }

    /// The rest of an array from `index` on.
    #[inline(always)]
    pub(crate) fn from(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// Stores element `index` of an array the caller promised to be longer than that.
    #[inline(always)]
    pub(crate) fn set_at(self, name: &str, index: usize, value: T) -> Result<(), Fault> {
        if self.0.is_null() {
            return Err(Fault::null(name));
        }
        // SAFETY: not null, and the call's description promises more than `index` elements.
        unsafe { self.0.add(index).write(value) };
        Ok(())
    }

    /// The address, for code that checks and fills it itself.
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0
    }
}

impl<T: Copy> In<T> {
    /// The first element; a null pointer is the caller's error in argument `name`.
    #[inline(always)]
    pub(crate) fn get(self, name: &str) -> Result<T, Fault> {
        self.get_at(name, 0)
    }

    /// Element `index` of an array the caller promised to be longer than that.
    #[inline(always)]
    pub(crate) fn get_at(self, name: &str, index: usize) -> Result<T, Fault> {
        if self.0.is_null() {
            return Err(Fault::null(name));
        }
        // SAFETY: not null, and the call's description promises more than `index` elements.
        Ok(unsafe { self.0.add(index).read() })
    }

    /// The first `count` elements, copied; null is an error unless `count` is 0, a negative count always is.
    pub(crate) fn to_vec(self, name: &str, count: c_int) -> Result<Vec<T>, Fault> {
        let count = usize::try_from(count)
            .map_err(|_| fault(MPI_ERR_COUNT, format_args!("the length of {name} is negative ({count})")))?;
        (0..count).map(|i| self.get_at(name, i)).collect()
    }

    /// The address.
    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }
}

impl<T> From<Out<T>> for In<T> {
    /// For memory that C declares without `const` but that is only read.
    fn from(memory: Out<T>) -> Self {
        Self(memory.0.cast_const())
    }
}

impl<T> From<InOut<T>> for In<T> {
    /// For arrays that C declares without `const` but that are only read.
    fn from(array: InOut<T>) -> Self {
        Self(array.0.cast_const())
    }
}

impl Text {
    /// The bytes of the string without the terminating zero, in whatever encoding the caller uses; null is the
    /// caller's error in argument `name`. The borrow ends with the call: the caller owns the bytes.
    pub(crate) fn get<'a>(self, name: &str) -> Result<&'a [u8], Fault> {
        if self.0.is_null() {
            return Err(Fault::null(name));
        }
        // SAFETY: not null, so by the promise of the type a zero-terminated string, unchanged during the call.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// Whether the caller passed null.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl OutText {
    /// Stores `text`, cut to `capacity_bytes` with the terminating zero; gives the length stored without it.
    pub(crate) fn set(self, name: &str, text: &[u8], capacity_bytes: usize) -> Result<c_int, Fault> {
        if capacity_bytes == 0 {
            return Ok(0);
        }
        if self.0.is_null() {
            return Err(Fault::null(name));
        }
        let length_bytes = text.len().min(capacity_bytes - 1);
        // SAFETY: not null, and the call's description promises `capacity_bytes` bytes, more than the length.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.0, length_bytes);
            self.0.add(length_bytes).write(0);
        }
        Ok(length_bytes as c_int)
    }
}

/// An opaque address of the user that MPI only keeps and hands back, such as `extra_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct UserPointer(pub(crate) *mut c_void);

impl PassesAs<*mut c_void> for UserPointer {}

// SAFETY: MPI never follows the pointer; what threads the user hands it to is the user's affair.
unsafe impl Send for UserPointer {}
// SAFETY: as above.
unsafe impl Sync for UserPointer {}
