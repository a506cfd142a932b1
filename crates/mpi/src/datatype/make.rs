//! How datatypes are made from others, and what is remembered of it (MPI-5.0 §5.1.2 to §5.1.13).

use super::Type;
use crate::abi::*;
use crate::fault::{Fault, fault};
use ayatori_core::layout::{Layout, Signature};
use std::ffi::c_int;
use std::sync::Arc;

/// Whether a constructor counts with `int` or with `MPI_Count` (the `_c` forms). It decides where the
/// contents go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Counts are `int`, displacements in bytes `MPI_Aint`.
    Small,
    /// All are `MPI_Count`.
    Large,
}

/// The call that made a type (`MPI_Type_get_envelope`, `MPI_Type_get_contents`).
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Which constructor.
    pub(crate) combiner: c_int,
    /// Its arguments of type `int`.
    pub(crate) integers: Vec<c_int>,
    /// Its arguments of type `MPI_Aint`.
    pub(crate) addresses: Vec<MPI_Aint>,
    /// Its arguments of type `MPI_Count`.
    pub(crate) counts: Vec<MPI_Count>,
    /// The types it was made from.
    pub(crate) types: Vec<Arc<Type>>,
}

/// One block of an indexed type or a structure: elements, and bytes from the start.
pub(crate) type Block = (usize, isize);

impl Made {
    /// For a predefined type.
    pub(crate) fn named() -> Self {
        Self { combiner: MPI_COMBINER_NAMED, ..Self::default() }
    }

    /// By a constructor, from one type.
    pub(crate) fn from(combiner: c_int, old: &Arc<Type>) -> Self {
        Self { combiner, types: vec![old.clone()], ..Self::default() }
    }

    /// Adds arguments that the small form has as `int`.
    pub(crate) fn counts(mut self, width: Width, values: impl IntoIterator<Item = MPI_Count>) -> Self {
        match width {
            // They came from an `int`.
            Width::Small => self.integers.extend(values.into_iter().map(|value| value as c_int)),
            Width::Large => self.counts.extend(values),
        }
        self
    }

    /// Adds arguments that the small form has as `MPI_Aint`.
    pub(crate) fn addresses(mut self, width: Width, values: impl IntoIterator<Item = MPI_Count>) -> Self {
        match width {
            Width::Small => self.addresses.extend(values.into_iter().map(|value| value as MPI_Aint)),
            Width::Large => self.counts.extend(values),
        }
        self
    }

    /// Adds arguments that both forms have as `int`.
    pub(crate) fn integers(mut self, values: impl IntoIterator<Item = c_int>) -> Self {
        self.integers.extend(values);
        self
    }
}

impl Type {
    /// A type that a call made.
    fn made(layout: Layout, signature: Signature, made: Made) -> Self {
        Self { layout, signature, made, predefined: None, handle: None }
    }

    /// `MPI_Type_dup`
    pub(crate) fn duplicate(self: &Arc<Self>) -> Self {
        Self {
            layout: self.layout.clone(),
            signature: self.signature.clone(),
            made: Made::from(MPI_COMBINER_DUP, self),
            predefined: self.predefined,
            handle: None,
        }
    }

    /// `MPI_Type_create_resized`
    pub(crate) fn resized(&self, lower: isize, extent: isize, made: Made) -> Result<Self, Fault> {
        Ok(Self::made(self.layout.resized(lower, extent)?, self.signature.clone(), made))
    }

    /// `count` blocks of `blocklength` elements, one every `stride` bytes.
    pub(crate) fn vector(
        &self,
        count: usize,
        blocklength: usize,
        stride: isize,
        made: Made,
    ) -> Result<Self, Fault> {
        let layout = self.layout.contiguous(blocklength)?.repeat(count, stride)?;
        let elements = blocklength.checked_mul(count).ok_or_else(too_large)?;
        Ok(Self::made(layout, self.signature.repeat(elements)?, made))
    }

    /// Blocks of elements anywhere.
    pub(crate) fn indexed(&self, blocks: &[Block], made: Made) -> Result<Self, Fault> {
        let layout = self.layout.indexed(blocks.iter().copied())?;
        let elements = blocks.iter().try_fold(0_usize, |sum, (count, _)| sum.checked_add(*count));
        Ok(Self::made(layout, self.signature.repeat(elements.ok_or_else(too_large)?)?, made))
    }

    /// `MPI_Type_create_struct`: blocks of the types that `made` has.
    pub(crate) fn structure(blocks: &[Block], made: Made) -> Result<Self, Fault> {
        let parts = || blocks.iter().zip(&made.types);
        let layout = Layout::structure(parts().map(|((count, at), ty)| (*count, *at, &ty.layout)))?;
        let signatures: Vec<_> =
            parts().map(|((count, _), ty)| ty.signature.repeat(*count)).collect::<Result<_, _>>()?;
        Ok(Self::made(layout, Signature::sequence(signatures)?, made))
    }

    /// Elements that [`arrays`](super::arrays) has laid out.
    pub(super) fn array(&self, layout: Layout, made: Made) -> Result<Self, Fault> {
        let count = layout.size().checked_div(self.layout.size()).unwrap_or(0);
        Ok(Self::made(layout, self.signature.repeat(count)?, made))
    }
}

/// The fault of a type that reaches over more than the address space.
pub(crate) fn too_large() -> Fault {
    fault(MPI_ERR_COUNT, format_args!("the type reaches over more bytes than there are addresses"))
}
