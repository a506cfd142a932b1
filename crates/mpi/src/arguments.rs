//! Pointers of the C caller as arguments: the one place where they are read and written.

use crate::abi::{MPI_ERR_COUNT, MPI_Status, PassesAs};
use crate::fault::{Fault, fault};
use std::ffi::{CStr, c_char, c_int, c_void};

impl<T> PassesAs<*mut T> for Out<T> {}
impl<T> PassesAs<*mut T> for InOut<T> {}
impl<T> PassesAs<*const T> for In<T> {}
impl PassesAs<*const c_char> for Text {}
impl PassesAs<*mut c_char> for OutText {}

/// A pointer through which a C caller wants a result, or an array of them.
///
/// Only the C caller makes one (or a test, unsafely), so a value of this type carries the caller's promise of
/// MPI-5.0 §2.5: it is null, or it points to memory for as many elements as the call's description says,
/// which no other code uses during the call. That promise is the ground of every `SAFETY` note below.
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

impl<T> Out<T> {
    /// For C's `void *` that means the address of a `T`.
    pub(crate) fn from_void(pointer: *mut c_void) -> Self {
        Self(pointer.cast())
    }
}

impl<T: Copy> Out<T> {
    /// Whether the caller does not want it.
    pub(crate) fn is_unwanted(self) -> bool {
        self.0.is_null()
    }

    /// Stores `value`, unless a null pointer says that the caller does not want it.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so by the promise of the type it has room for one element.
            unsafe { self.0.write(value) };
        }
    }

    /// The caller's error, if it is a null pointer.
    pub(crate) fn check(self, name: &str) -> Result<(), Fault> {
        if self.0.is_null() { Err(Fault::null(name)) } else { Ok(()) }
    }

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
}

impl Out<MPI_Status> {
    /// Stores status `at` of an array, unless the caller ignores it (a null pointer in the ABI). `error`: its
    /// error field; `None` leaves that as it is.
    #[inline(always)]
    pub(crate) fn give(self, at: usize, status: &MPI_Status, error: Option<c_int>) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: not null, and the call's description promises a status for each request. The error field is
        // an integer, which is initialized for calls that must keep it.
        unsafe {
            let target = self.0.add(at);
            let error = error.unwrap_or((*target).error);
            target.write(MPI_Status { error, ..*status });
        }
    }

    /// Sets the error field of status `at` of an array, unless the caller ignores it.
    pub(crate) fn set_error(self, at: usize, error: c_int) {
        if !self.0.is_null() {
            // SAFETY: not null, and the call's description promises a status for each request.
            unsafe { (*self.0.add(at)).error = error };
        }
    }

    /// Whether the caller ignores statuses.
    #[inline(always)]
    pub(crate) fn is_ignored(self) -> bool {
        self.0.is_null()
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
}

impl<T> In<T> {
    /// An array of the caller's of which it gave the address in another one, with the same promise.
    pub(crate) fn of(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The address, to be compared with those that mean something of their own (`MPI_UNWEIGHTED`).
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }
}

impl<T> InOut<T> {
    /// The address, for what is written there later.
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
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
    /// A string of the caller's of which it gave the address in an array, with the same promise.
    pub(crate) fn of(pointer: *mut c_char) -> Self {
        Self(pointer)
    }

    /// The bytes of the string without the terminating zero, in whatever encoding the caller uses; null is
    /// the caller's error in argument `name`. The borrow ends with the call: the caller owns the bytes.
    pub(crate) fn get<'a>(self, name: &str) -> Result<&'a [u8], Fault> {
        if self.0.is_null() {
            return Err(Fault::null(name));
        }
        // SAFETY: not null, so by the promise of the type a zero-terminated string, unchanged during the
        // call.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }
}

impl OutText {
    /// Whether the caller does not want the text.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

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
