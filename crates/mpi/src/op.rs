//! Reduction operations at this side of the boundary: which handle is which operation of the core, and the
//! user's.

use crate::abi::*;
use crate::datatype;
use crate::fault::{Fault, fault};
use crate::handle::{Table, bad};
use crate::lock::{Elided, Guard};
use crate::phase;
use ayatori_core::layout::Layout;
use ayatori_core::op::{Operation, Reducer};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The user's operations.
static TABLE: Elided<Table<MPI_Op, UserOp>> = Elided::new(Table::new());

/// The operations of the running process, locked. Predefined ones are found without them.
pub(crate) fn table() -> Result<Guard<'static, Table<MPI_Op, UserOp>>, Fault> {
    phase::check_running()?;
    Ok(TABLE.lock())
}

/// An operation of the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserOp {
    function: Callback,
    /// Whether the function counts elements with `MPI_Count` (`MPI_Op_create_c`).
    large: bool,
    commutative: bool,
}

impl UserOp {
    /// `MPI_Op_create` and `MPI_Op_create_c`
    pub(crate) fn new(function: Callback, large: bool, commutative: bool) -> Result<Self, Fault> {
        match function.0 {
            0 => Err(Fault::null("user_fn")),
            _ => Ok(Self { function, large, commutative }),
        }
    }

    /// Calls the function on arrays of elements of a type.
    fn apply(self, (input, inout): (&[u8], &mut [u8]), slots: &Slots, datatype: MPI_Datatype) {
        type Small = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
        type Large = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);
        // A function that counts with int gets long arrays in parts of at most this many elements.
        let part_count = match (slots.is_array, self.large) {
            (false, _) => 1,
            (true, true) => usize::MAX,
            (true, false) => c_int::MAX as usize,
        };
        let part_bytes = part_count.saturating_mul(slots.bytes);
        for (input, inout) in input.chunks(part_bytes).zip(inout.chunks_mut(part_bytes)) {
            let count = inout.len() / slots.bytes;
            // The function counts from where elements begin, which need not be where their data does.
            let from = input.as_ptr().wrapping_offset(-slots.lowest).cast_mut().cast();
            let to = inout.as_mut_ptr().wrapping_offset(-slots.lowest).cast();
            let mut datatype = datatype;
            // SAFETY: the user registered the pointer with MPI_Op_create or MPI_Op_create_c, which say its
            // type in C; both arrays hold `count` elements. The function only reads `invec`.
            unsafe {
                if self.large {
                    let function = std::mem::transmute::<usize, Large>(self.function.0);
                    function(from, to, &mut (count as MPI_Count), &mut datatype);
                } else {
                    let function = std::mem::transmute::<usize, Small>(self.function.0);
                    function(from, to, &mut (count as c_int), &mut datatype);
                }
            }
        }
    }
}

/// How elements lie in an array that a function of the user's is given.
pub(crate) struct Slots {
    /// The elements, one every `bytes`.
    pub(crate) layout: Layout,
    /// Bytes of a slot. Never 0.
    pub(crate) bytes: usize,
    /// From the address of an element, as the function knows it, to its slot.
    pub(crate) lowest: isize,
    /// Whether the slots of several elements are an array of the type. If elements overlap, or reach beyond
    /// their bounds, each has a slot of its own.
    is_array: bool,
}

impl Slots {
    /// The slots of a type's elements.
    pub(crate) fn of(layout: &Layout) -> Result<Self, Fault> {
        let (lower, extent) = (layout.lower_bound(), layout.extent());
        let (lowest, length) = (layout.true_lower_bound(), layout.true_extent());
        let is_array = extent > 0 && lowest >= lower && lowest - lower <= extent - length;
        let (lowest, bytes) = if is_array { (lower, extent) } else { (lowest, length.max(1)) };
        Ok(Self { layout: layout.resized(lowest, bytes)?, bytes: bytes as usize, lowest, is_array })
    }
}

/// The predefined operation of a handle.
#[inline]
pub(crate) fn predefined(op: MPI_Op) -> Option<Operation> {
    Some(match op {
        MPI_SUM => Operation::Sum,
        MPI_MIN => Operation::Min,
        MPI_MAX => Operation::Max,
        MPI_PROD => Operation::Prod,
        MPI_BAND => Operation::Band,
        MPI_BOR => Operation::Bor,
        MPI_BXOR => Operation::Bxor,
        MPI_LAND => Operation::Land,
        MPI_LOR => Operation::Lor,
        MPI_LXOR => Operation::Lxor,
        MPI_MINLOC => Operation::Minloc,
        MPI_MAXLOC => Operation::Maxloc,
        MPI_REPLACE => Operation::Replace,
        MPI_NO_OP => Operation::NoOp,
        _ => return None,
    })
}

/// How a function of the user's is called.
pub(crate) type Call = fn(&mut dyn FnMut());

/// The operation of a handle bound to a datatype, for reduction collectives. Predefined operations work on
/// predefined types and their duplicates, the user's on all; `call` calls the user's.
pub(crate) fn reducer(op: MPI_Op, datatype: MPI_Datatype, call: Call) -> Result<Reducer, Fault> {
    let ty = datatype::get_committed(datatype, "datatype")?;
    if let Some(operation) = predefined(op) {
        let name = operation.name();
        let Some(predefined) = ty.predefined else {
            return Err(fault(MPI_ERR_OP, format_args!("argument op: {name} is for predefined types only")));
        };
        return Reducer::predefined(operation, predefined).map_err(|_| match operation.is_reduction() {
            true => {
                let of = predefined.name();
                fault(MPI_ERR_OP, format_args!("argument op: {name} is not defined on {of}"))
            }
            false => fault(MPI_ERR_OP, format_args!("argument op: {name} is for accumulates only")),
        });
    }
    let user = *table()?.get(op, "op")?;
    let slots = Slots::of(&ty.layout)?;
    let bytes = slots.bytes;
    let function = move |input: &[u8], inout: &mut [u8]| {
        datatype::with_handle(datatype, &ty, |handle| {
            call(&mut || user.apply((input, inout), &slots, handle));
        });
    };
    Ok(Reducer::user(Arc::new(function), bytes, user.commutative)?)
}

/// Whether operands may change sides.
pub(crate) fn is_commutative(op: MPI_Op) -> Result<bool, Fault> {
    match predefined(op) {
        Some(operation) => Ok(operation.is_commutative()),
        None if op == MPI_OP_NULL => Err(bad(op, "op")),
        None => Ok(table()?.get(op, "op")?.commutative),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_predefined_operation_is_the_cores_of_the_same_name() {
        for operation in Operation::ALL {
            let (bits, _) = HANDLE_NAMES.iter().find(|(_, name)| *name == operation.name()).unwrap();
            assert_eq!(predefined(MPI_Op(*bits)), Some(*operation));
        }
        assert_eq!(predefined(MPI_OP_NULL), None);
    }

    #[test]
    fn an_operation_that_is_not_defined_on_a_type_is_named() {
        let fault = reducer(MPI_BAND, MPI_DOUBLE, |call| call()).unwrap_err();
        assert_eq!(fault.code(), MPI_ERR_OP);
        assert!(format!("{fault:?}").contains("MPI_BAND is not defined on MPI_DOUBLE"), "{fault:?}");
        assert_eq!(reducer(MPI_REPLACE, MPI_INT, |call| call()).unwrap_err().code(), MPI_ERR_OP);
        assert_eq!(reducer(MPI_SUM, MPI_DATATYPE_NULL, |call| call()).unwrap_err().code(), MPI_ERR_TYPE);
    }
}
