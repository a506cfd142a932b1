//! Reduction operations (MPI-5.0 §6.9): which exist, on which types they are defined, and how they are
//! applied.
//!
//! A [`Reducer`] is an operation bound to a type: what collectives (and, later, accumulates) work with. It
//! computes `inout[i] = input[i] op inout[i]`, the order of the standard's user functions; so `input` is the
//! operand of the lower ranks wherever the operation does not commute.
//!
//! Data may lie at any address: kernels read and write unaligned bytes and leave it to the compiler to turn
//! them into vector instructions (`kernel.rs`). Formats the processor or the language lacks (16-bit, x87 and
//! 128-bit floats) are computed by `rustc_apfloat`, exactly but slowly.

mod kernel;
mod soft_float;
#[cfg(test)]
mod tests;

use crate::datatype::{Class, Predefined};
use crate::error::Error;
use alloc::sync::Arc;
use core::fmt;

/// A predefined operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// `MPI_SUM`
    Sum,
    /// `MPI_MIN`
    Min,
    /// `MPI_MAX`
    Max,
    /// `MPI_PROD`
    Prod,
    /// `MPI_BAND`
    Band,
    /// `MPI_BOR`
    Bor,
    /// `MPI_BXOR`
    Bxor,
    /// `MPI_LAND`
    Land,
    /// `MPI_LOR`
    Lor,
    /// `MPI_LXOR`
    Lxor,
    /// `MPI_MINLOC`
    Minloc,
    /// `MPI_MAXLOC`
    Maxloc,
    /// `MPI_REPLACE`: `inout = input`. For accumulates only (MPI-5.0 §12.3.4).
    Replace,
    /// `MPI_NO_OP`: nothing. For accumulates only (MPI-5.0 §12.3.4).
    NoOp,
}

impl Operation {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Prod,
        Self::Band,
        Self::Bor,
        Self::Bxor,
        Self::Land,
        Self::Lor,
        Self::Lxor,
        Self::Minloc,
        Self::Maxloc,
        Self::Replace,
        Self::NoOp,
    ];

    /// The name of the handle.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "MPI_SUM",
            Self::Min => "MPI_MIN",
            Self::Max => "MPI_MAX",
            Self::Prod => "MPI_PROD",
            Self::Band => "MPI_BAND",
            Self::Bor => "MPI_BOR",
            Self::Bxor => "MPI_BXOR",
            Self::Land => "MPI_LAND",
            Self::Lor => "MPI_LOR",
            Self::Lxor => "MPI_LXOR",
            Self::Minloc => "MPI_MINLOC",
            Self::Maxloc => "MPI_MAXLOC",
            Self::Replace => "MPI_REPLACE",
            Self::NoOp => "MPI_NO_OP",
        }
    }

    /// Whether `a op b == b op a` (`MPI_Op_commutative`). The standard counts every predefined operation but
    /// `MPI_REPLACE` and `MPI_NO_OP`.
    pub const fn is_commutative(self) -> bool {
        !matches!(self, Self::Replace | Self::NoOp)
    }

    /// Whether the operation may be used in a reduction collective (not only in an accumulate).
    pub const fn is_reduction(self) -> bool {
        !matches!(self, Self::Replace | Self::NoOp)
    }

    /// Whether the operation is defined on the type: the table of MPI-5.0 §6.9.2, and also the logical
    /// operations on Fortran integers and multi-language types, as other implementations allow.
    pub const fn is_defined_on(self, datatype: Predefined) -> bool {
        use Class::*;
        let class = datatype.class();
        match self {
            Self::Max | Self::Min => {
                matches!(class, CInteger | FortranInteger | FloatingPoint | MultiLanguage)
            }
            Self::Sum | Self::Prod => {
                matches!(class, CInteger | FortranInteger | FloatingPoint | Complex | MultiLanguage)
            }
            Self::Land | Self::Lor | Self::Lxor => {
                matches!(class, CInteger | FortranInteger | Logical | MultiLanguage)
            }
            Self::Band | Self::Bor | Self::Bxor => {
                matches!(class, CInteger | FortranInteger | Byte | MultiLanguage)
            }
            Self::Minloc | Self::Maxloc => matches!(class, Pair),
            Self::Replace | Self::NoOp => true,
        }
    }
}

/// An operation of the user's (`MPI_Op_create`), bound to the type of one call.
///
/// The C boundary implements it around the C function and the datatype's handle.
pub trait UserFunction: Send + Sync {
    /// `inout[i] = input[i] op inout[i]` for all elements. Both slices hold the same whole number of
    /// elements.
    fn apply(&self, input: &[u8], inout: &mut [u8]);
}

impl<F: Fn(&[u8], &mut [u8]) + Send + Sync> UserFunction for F {
    fn apply(&self, input: &[u8], inout: &mut [u8]) {
        self(input, inout);
    }
}

/// Applies one operation to arrays of one type: `(input, inout)`, of equal length.
pub(crate) type Kernel = fn(&[u8], &mut [u8]);

#[derive(Clone)]
enum Function {
    Kernel(Kernel),
    User(Arc<dyn UserFunction>),
}

/// An operation bound to a type: everything a reduction needs to know. Cheap to clone.
#[derive(Clone)]
pub struct Reducer {
    function: Function,
    extent_bytes: usize,
    commutative: bool,
    /// A predefined one.
    operation: Option<Operation>,
}

impl Reducer {
    /// A predefined operation on a predefined type.
    ///
    /// # Errors
    /// [`Error::Op`] if the operation is not defined on the type, or is not for reductions.
    pub fn predefined(operation: Operation, datatype: Predefined) -> Result<Self, Error> {
        if !operation.is_reduction() {
            return Err(Error::Op);
        }
        let function = Function::Kernel(kernel::find(operation, datatype).ok_or(Error::Op)?);
        let commutative = operation.is_commutative();
        let extent_bytes = datatype.extent_bytes();
        Ok(Self { function, extent_bytes, commutative, operation: Some(operation) })
    }

    /// A predefined operation on a predefined type for accumulates: also `MPI_REPLACE` and `MPI_NO_OP`.
    ///
    /// # Errors
    /// [`Error::Op`] if the operation is not defined on the type.
    pub fn for_accumulate(operation: Operation, datatype: Predefined) -> Result<Self, Error> {
        let function = Function::Kernel(kernel::find(operation, datatype).ok_or(Error::Op)?);
        let commutative = operation.is_commutative();
        let extent_bytes = datatype.extent_bytes();
        Ok(Self { function, extent_bytes, commutative, operation: Some(operation) })
    }

    /// A user's operation on elements `extent_bytes` apart.
    ///
    /// # Errors
    /// [`Error::Type`] if the extent is 0.
    pub fn user(
        function: Arc<dyn UserFunction>,
        extent_bytes: usize,
        commutative: bool,
    ) -> Result<Self, Error> {
        if extent_bytes == 0 {
            return Err(Error::Type);
        }
        Ok(Self { function: Function::User(function), extent_bytes, commutative, operation: None })
    }

    /// A number that is the same for the same operation at all processes. Operations of the user's have two:
    /// one if they commute.
    pub fn number(&self) -> u32 {
        match self.operation {
            Some(operation) => 1 + operation as u32,
            None => 0x100 + u32::from(self.commutative),
        }
    }

    /// Distance of two elements in memory, in bytes. Never 0.
    #[inline]
    pub const fn extent_bytes(&self) -> usize {
        self.extent_bytes
    }

    /// Whether operands may change sides.
    #[inline]
    pub const fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// Whether the operation is a function of the user's.
    pub const fn is_user_function(&self) -> bool {
        matches!(self.function, Function::User(_))
    }

    /// `inout[i] = input[i] op inout[i]` for all elements.
    ///
    /// # Panics
    /// If the lengths differ (our bug). They are a whole number of elements: schedules are made of elements.
    #[inline]
    pub fn apply(&self, input: &[u8], inout: &mut [u8]) {
        assert_eq!(input.len(), inout.len(), "a reduction of vectors of different lengths");
        debug_assert!(inout.len().is_multiple_of(self.extent_bytes), "a reduction of part of an element");
        match &self.function {
            Function::Kernel(kernel) => kernel(input, inout),
            Function::User(function) => function.apply(input, inout),
        }
    }
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reducer")
            .field("user", &matches!(self.function, Function::User(_)))
            .field("extent_bytes", &self.extent_bytes)
            .field("commutative", &self.commutative)
            .finish()
    }
}
