//! Datatypes at this side of the boundary: which handle is which type of the core, and what hangs on one.

use crate::abi::*;
use crate::attribute::Attributes;
use crate::boundary::{Fault, fault};
use crate::handle::bad;
use crate::state;
use ayatori_core::datatype::Predefined;
use std::ffi::c_int;

/// How elements of a type lie in memory. For now every type is a predefined one or a duplicate of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The type of the core.
    pub(crate) predefined: Predefined,
    /// Bytes of one element that mean something.
    pub(crate) size_bytes: usize,
    /// Distance of two elements, in bytes.
    pub(crate) extent_bytes: usize,
}

impl Layout {
    const fn of(predefined: Predefined) -> Self {
        let (size_bytes, extent_bytes) = (predefined.size_bytes(), predefined.extent_bytes());
        Self { predefined, size_bytes, extent_bytes }
    }

    // Messages carry whole extents: the padding of a pair type travels along, which costs less than leaving it
    // out. So a message's length counts in extents.

    /// How many whole elements a message of `length_bytes` has; none if they are no whole number (`MPI_Get_count`).
    pub(crate) fn count(&self, length_bytes: MPI_Count) -> Option<MPI_Count> {
        let size = self.extent_bytes as MPI_Count;
        (length_bytes % size == 0).then(|| length_bytes / size)
    }

    /// How many numbers `length_bytes` are: a pair is two (`MPI_Get_elements`).
    pub(crate) fn element_count(&self, length_bytes: MPI_Count) -> Option<MPI_Count> {
        let Some((value_bytes, _)) = self.predefined.pair_layout_bytes() else {
            return self.count(length_bytes);
        };
        let size = self.extent_bytes as MPI_Count;
        match length_bytes % size {
            0 => Some(length_bytes / size * 2),
            rest if rest == value_bytes as MPI_Count => Some(length_bytes / size * 2 + 1),
            _ => None,
        }
    }

    /// The inverse of [`element_count`](Self::element_count); `None` if it does not fit.
    pub(crate) fn bytes_of_elements(&self, count: MPI_Count) -> Option<MPI_Count> {
        let size = self.extent_bytes as MPI_Count;
        match self.predefined.pair_layout_bytes() {
            None => count.checked_mul(size),
            Some((value_bytes, _)) => {
                (count / 2).checked_mul(size)?.checked_add(count % 2 * value_bytes as MPI_Count)
            }
        }
    }
}

/// What hangs on a datatype.
pub(crate) struct Datatype {
    /// How its elements lie.
    pub(crate) layout: Layout,
    /// `MPI_Type_get_name`
    pub(crate) name: Vec<u8>,
    /// Cached attributes.
    pub(crate) attributes: Attributes,
    /// The type it is a duplicate of; none for a predefined one.
    pub(crate) duplicate_of: Option<MPI_Datatype>,
}

impl Datatype {
    fn predefined(predefined: Predefined) -> Self {
        Self {
            layout: Layout::of(predefined),
            name: predefined.name().as_bytes().to_vec(),
            attributes: Attributes::default(),
            duplicate_of: None,
        }
    }
}

const SLOT_COUNT: usize = 0x100;

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// The layouts of the predefined types by the low byte of their handles: a lookup without a lock.
static PREDEFINED: [Option<Layout>; SLOT_COUNT] = {
    let mut table = [None; SLOT_COUNT];
    let mut i = 0;
    while i < Predefined::ALL.len() {
        let predefined = Predefined::ALL[i];
        let mut j = 0;
        while j < HANDLE_NAMES.len() {
            let (handle, name) = HANDLE_NAMES[j];
            if same(name, predefined.name()) {
                table[handle - MPI_DATATYPE_NULL.0] = Some(Layout::of(predefined));
            }
            j += 1;
        }
        i += 1;
    }
    table
};

/// The predefined types with their handles.
pub(crate) fn all_predefined() -> impl Iterator<Item = (MPI_Datatype, Datatype)> {
    let slots = PREDEFINED.iter().enumerate();
    slots.filter_map(|(i, layout)| {
        Some((MPI_Datatype(MPI_DATATYPE_NULL.0 + i), Datatype::predefined(layout.as_ref()?.predefined)))
    })
}

/// The layout of a datatype; `name` is the argument it came in.
#[inline(always)]
pub(crate) fn layout(datatype: MPI_Datatype, name: &str) -> Result<Layout, Fault> {
    let slot = datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0);
    if slot < SLOT_COUNT {
        return PREDEFINED[slot].ok_or_else(|| bad(datatype, name));
    }
    Ok(state::types()?.datatypes.get(datatype, name)?.layout)
}

/// Checks a count of elements.
#[inline(always)]
pub(crate) fn count(value: MPI_Count, name: &str) -> Result<usize, Fault> {
    usize::try_from(value)
        .map_err(|_| fault(MPI_ERR_COUNT, format_args!("argument {name} is negative ({value})")))
}

/// The predefined type of a class and a size (`MPI_Type_match_size`).
pub(crate) fn of_class_and_size(class: c_int, size_bytes: c_int) -> Option<MPI_Datatype> {
    match (class, size_bytes) {
        (MPI_TYPECLASS_INTEGER, 1) => Some(MPI_INTEGER1),
        (MPI_TYPECLASS_INTEGER, 2) => Some(MPI_INTEGER2),
        (MPI_TYPECLASS_INTEGER, 4) => Some(MPI_INTEGER4),
        (MPI_TYPECLASS_INTEGER, 8) => Some(MPI_INTEGER8),
        (MPI_TYPECLASS_INTEGER, 16) => Some(MPI_INTEGER16),
        (MPI_TYPECLASS_REAL, 2) => Some(MPI_REAL2),
        (MPI_TYPECLASS_REAL, 4) => Some(MPI_REAL4),
        (MPI_TYPECLASS_REAL, 8) => Some(MPI_REAL8),
        (MPI_TYPECLASS_REAL, 16) => Some(MPI_REAL16),
        (MPI_TYPECLASS_COMPLEX, 4) => Some(MPI_COMPLEX4),
        (MPI_TYPECLASS_COMPLEX, 8) => Some(MPI_COMPLEX8),
        (MPI_TYPECLASS_COMPLEX, 16) => Some(MPI_COMPLEX16),
        (MPI_TYPECLASS_COMPLEX, 32) => Some(MPI_COMPLEX32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datatype_handle_of_the_abi_has_a_layout_and_every_type_of_the_core_a_handle() {
        let handles = HANDLE_NAMES.iter().filter(|(bits, _)| (0x201..0x300).contains(bits));
        for (bits, name) in handles.clone() {
            let found = layout(MPI_Datatype(*bits), "datatype").unwrap();
            assert_eq!(found.predefined.name(), *name);
        }
        assert_eq!(handles.count(), Predefined::ALL.len());
        assert_eq!(all_predefined().count(), Predefined::ALL.len());
        assert_eq!(layout(MPI_DATATYPE_NULL, "datatype").unwrap_err().code(), MPI_ERR_TYPE);
        assert_eq!(layout(MPI_Datatype(0x2ff), "datatype").unwrap_err().code(), MPI_ERR_TYPE);
        assert_eq!(layout(MPI_Datatype(0x101), "datatype").unwrap_err().code(), MPI_ERR_OTHER);
    }

    #[test]
    fn counts_of_elements_and_bytes_agree() {
        let pair = layout(MPI_DOUBLE_INT, "datatype").unwrap();
        for count in 0..7 {
            let bytes = pair.bytes_of_elements(count).unwrap();
            assert_eq!(pair.element_count(bytes), Some(count));
            assert_eq!(pair.count(bytes), (count % 2 == 0).then_some(count / 2));
        }
        assert_eq!(pair.element_count(5), None);
        assert_eq!(layout(MPI_INT, "datatype").unwrap().count(6), None);
    }
}
