//! The ring's memory, whose owner changes by the ring's protocol. Under loom `ring_loom.rs` takes its place.

use super::{LINE_BYTES, Line, PAIR_BYTES, SLOT_BYTES};
use crate::shm::sys::{self, Manner};

#[repr(transparent)]
pub(super) struct Cell<T>(core::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    #[inline]
    pub(super) fn write(&self, f: impl FnOnce(*mut u8)) {
        f(self.0.get().cast());
    }
    #[inline]
    pub(super) fn as_ptr(&self) -> *const T {
        self.0.get()
    }
}

/// Writes the parts one after the other into lines that belong to the caller.
///
/// # Panics
/// If they do not fit.
#[inline]
pub(super) fn write_run(lines: &[Line], parts: [&[u8]; 3], manner: Manner) {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    assert!(bytes <= lines.len() * LINE_BYTES);
    let mut to = lines.as_ptr().cast::<u8>().cast_mut();
    for part in parts {
        // SAFETY: in bounds (asserted); the lines are the writer's (rule 4) and lie in cells, so that
        // writing behind a shared reference is allowed. `part` is not in the ring.
        unsafe {
            sys::copy_in(part.as_ptr(), to, part.len(), manner);
            to = to.add(part.len());
        }
    }
}

/// Writes the parts one after the other into a pair that belongs to the caller. `tell_odd` stores the second
/// line's word.
///
/// # Panics
/// If they do not fit.
#[inline]
pub(super) fn write_pair(
    halves: &[Cell<[u8; SLOT_BYTES]>; 2],
    header: &[u8],
    payload: [&[u8]; 2],
    tell_odd: impl FnOnce(),
) {
    assert!(header.len() + payload[0].len() + payload[1].len() <= PAIR_BYTES);
    let to = halves.as_ptr().cast::<u8>().cast_mut();
    // The second line first: the reader polls the first one and would take it away before its word is
    // stored. It asks for the second one while it polls, so that all stores to that go together: with its
    // word stored before all others 33 to 88 bytes took 0.29 µs (an Intel Xeon, model 207), and so 0.24.
    let tail_at = SLOT_BYTES.saturating_sub(header.len()).min(payload[0].len());
    let (head, tail) = payload[0].split_at(tail_at);
    // SAFETY: in bounds (asserted): the halves lie side by side; they are the writer's (rule 4) and
    // cells.
    unsafe {
        sys::copy_parts(tail, [payload[1], &[]], to.add(header.len() + tail_at));
        tell_odd();
        sys::copy_parts(header, [head, &[]], to);
    }
}

/// The bytes of a pair.
///
/// # Safety
/// It belongs to the caller for as long as the slice lives.
#[inline]
pub(super) unsafe fn pair_bytes(halves: &[Cell<[u8; SLOT_BYTES]>; 2]) -> &[u8; PAIR_BYTES] {
    // SAFETY: the halves lie side by side without padding; ownership by the contract above.
    unsafe { &*halves.as_ptr().cast() }
}

/// Two words of a slot.
///
/// # Safety
/// It belongs to the caller, and they are inside.
#[inline]
pub(super) unsafe fn words_in(half: &Cell<[u8; SLOT_BYTES]>, at: usize) -> [u64; 2] {
    // SAFETY: by the contract above.
    unsafe { half.as_ptr().cast::<u8>().add(at).cast::<[u64; 2]>().read_unaligned() }
}

/// The bytes of a run.
///
/// # Safety
/// The lines belong to the caller for as long as the slice lives.
#[inline]
pub(super) unsafe fn run_bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: lines are 64 bytes without padding, one after the other; ownership by the contract above.
    unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}
