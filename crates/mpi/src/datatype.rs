//! Datatypes at this side of the boundary: the meaning of a handle, and its attached state (MPI-5.0 §5).
//!
//! A [`Type`] is how elements lie in memory, what they are made of, and how the program made the type. It is
//! immutable and shared: an operation under way keeps it, so the program may free the handle at once. A
//! [`Datatype`] is what a handle stands for: a type, its name and its attributes.
//!
//! Predefined types are found without a lock, and the short path of a message needs only [`basic`].

mod arrays;
mod make;

pub(crate) use arrays::{Dimension, Order, darray, subarray};
pub(crate) use make::{Block, Made, Width};

use crate::abi::*;
use crate::attribute::Attributes;
use crate::fault::{Fault, fault};
use crate::handle::{Table, bad};
use crate::lock::{Elided, Guard, locked};
use crate::phase;
use ayatori_core::datatype::Predefined;
use ayatori_core::layout::{Layout, Signature};
use ayatori_core::rma;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock};

/// The user's datatypes, and names and attributes of the predefined ones.
static TABLE: Elided<Table<MPI_Datatype, Datatype>> = Elided::new(Table::new());

/// The datatypes of the running process, locked. They are apart from the process because the user's reduction
/// functions ask for them while the engine works; predefined ones are found without them.
#[inline(always)]
pub(crate) fn table() -> Result<Guard<'static, Table<MPI_Datatype, Datatype>>, Fault> {
    phase::check_running()?;
    Ok(TABLE.lock())
}

/// Puts the predefined datatypes in, at the start.
pub(crate) fn prepare() {
    let mut table = TABLE.lock();
    for (handle, datatype) in all_predefined() {
        table.insert_predefined(handle, datatype);
    }
}

/// A datatype.
#[derive(Debug)]
pub(crate) struct Type {
    /// Where the bytes of an element are.
    pub(crate) layout: Layout,
    /// Which basic types they are.
    pub(crate) signature: Signature,
    /// How the program made it.
    pub(crate) made: Made,
    /// The predefined type that it is or duplicates: what predefined operations work on.
    pub(crate) predefined: Option<Predefined>,
    /// The handle of a predefined type.
    pub(crate) handle: Option<MPI_Datatype>,
}

impl Type {
    /// A predefined type.
    fn of(predefined: Predefined, handle: MPI_Datatype) -> Self {
        Self {
            layout: Layout::of(predefined),
            signature: Signature::of(predefined),
            made: Made::named(),
            predefined: Some(predefined),
            handle: Some(handle),
        }
    }

    /// How many whole elements `bytes` are; none if they are no whole number (`MPI_Get_count`).
    pub(crate) fn count(&self, bytes: MPI_Count) -> Option<MPI_Count> {
        match self.layout.size() as MPI_Count {
            0 => (bytes == 0).then_some(0),
            size => (bytes % size == 0).then(|| bytes / size),
        }
    }

    /// How many basic elements `bytes` are (`MPI_Get_elements`): a pair is two. None if they end inside of
    /// one.
    pub(crate) fn element_count(&self, bytes: MPI_Count) -> Option<MPI_Count> {
        let (size, elements) = (self.layout.size() as MPI_Count, self.signature.elements() as MPI_Count);
        if size == 0 {
            return (bytes == 0).then_some(0);
        }
        let rest = self.signature.elements_in((bytes % size) as usize)?;
        Some(bytes / size * elements + rest as MPI_Count)
    }

    /// The inverse of [`element_count`](Self::element_count); `None` if it does not fit.
    pub(crate) fn bytes_of_elements(&self, count: MPI_Count) -> Option<MPI_Count> {
        let (size, elements) = (self.layout.size() as MPI_Count, self.signature.elements() as MPI_Count);
        if elements == 0 {
            return Some(0);
        }
        let rest = self.signature.bytes_of((count % elements) as usize);
        (count / elements).checked_mul(size)?.checked_add(rest as MPI_Count)
    }
}

/// The object of a datatype's handle.
pub(crate) struct Datatype {
    /// The type.
    pub(crate) ty: Arc<Type>,
    /// `MPI_Type_get_name`
    pub(crate) name: Vec<u8>,
    /// Cached attributes.
    pub(crate) attributes: Attributes,
    /// Whether it may be used in communication.
    pub(crate) is_committed: bool,
    /// Whether `MPI_Type_free` refuses it: predefined, or made by `MPI_Type_create_f90_*`.
    pub(crate) is_permanent: bool,
}

impl Datatype {
    /// A type that the program has just made.
    pub(crate) fn new(ty: Arc<Type>) -> Self {
        Self {
            ty,
            name: Vec::new(),
            attributes: Attributes::default(),
            is_committed: false,
            is_permanent: false,
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

/// A predefined type, as the short path of a message needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Basic {
    /// The type of the core.
    pub(crate) predefined: Predefined,
    /// Bytes of one element that mean something.
    pub(crate) size_bytes: usize,
    /// Distance of two elements, in bytes.
    pub(crate) extent_bytes: usize,
}

impl Basic {
    /// Whether elements have no gaps.
    #[inline(always)]
    pub(crate) const fn is_contiguous(self) -> bool {
        self.size_bytes == self.extent_bytes
    }

    /// Whether elements are integers that the processor sums whole.
    const fn is_integer_word(self) -> bool {
        rma::is_integer_word(self.predefined)
    }
}

/// The predefined types by the low byte of their handles.
static PREDEFINED: [Option<Basic>; SLOT_COUNT] = {
    let mut table = [None; SLOT_COUNT];
    let mut i = 0;
    while i < Predefined::ALL.len() {
        let predefined = Predefined::ALL[i];
        let mut j = 0;
        while j < HANDLE_NAMES.len() {
            let (handle, name) = HANDLE_NAMES[j];
            if same(name, predefined.name()) {
                let (size_bytes, extent_bytes) = (predefined.size_bytes(), predefined.extent_bytes());
                table[handle - MPI_DATATYPE_NULL.0] = Some(Basic { predefined, size_bytes, extent_bytes });
            }
            j += 1;
        }
        i += 1;
    }
    table
};

/// The predefined types in full, each made when it is first asked for.
static TYPES: [OnceLock<Arc<Type>>; SLOT_COUNT] = [const { OnceLock::new() }; SLOT_COUNT];

/// The predefined types with their handles.
fn all_predefined() -> impl Iterator<Item = (MPI_Datatype, Datatype)> {
    let slots = PREDEFINED.iter().enumerate();
    slots.filter_map(|(slot, basic)| {
        let (name, ty) = (basic.as_ref()?.predefined.name(), predefined_at(slot)?);
        let datatype =
            Datatype { name: name.into(), is_committed: true, is_permanent: true, ..Datatype::new(ty) };
        Some((MPI_Datatype(MPI_DATATYPE_NULL.0 + slot), datatype))
    })
}

/// The predefined type of a slot.
fn predefined_at(slot: usize) -> Option<Arc<Type>> {
    let basic = (*PREDEFINED.get(slot)?)?;
    let make = || Arc::new(Type::of(basic.predefined, MPI_Datatype(MPI_DATATYPE_NULL.0 + slot)));
    Some(TYPES[slot].get_or_init(make).clone())
}

/// Bytes of an element of the predefined types that `$are` says, by the low byte of the handle; 0 of others.
macro_rules! bytes_of_those {
    ($are:expr) => {{
        let mut table = [0; SLOT_COUNT];
        let mut i = 0;
        while i < SLOT_COUNT {
            if let Some(basic) = PREDEFINED[i]
                && $are(basic)
            {
                assert!(basic.extent_bytes <= u8::MAX as usize);
                table[i] = basic.extent_bytes as u8;
            }
            i += 1;
        }
        table
    }};
}

/// Types without gaps.
static PLAIN_BYTES: [u8; SLOT_COUNT] = bytes_of_those!(Basic::is_contiguous);

/// Integers that the processor sums whole.
static INTEGER_WORD_BYTES: [u8; SLOT_COUNT] = bytes_of_those!(Basic::is_integer_word);

/// Bytes of an element of a predefined type without gaps; 0: it is another type.
#[inline(always)]
pub(crate) fn plain_bytes(datatype: MPI_Datatype) -> usize {
    let slot = datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0);
    PLAIN_BYTES.get(slot).map_or(0, |&bytes| usize::from(bytes))
}

/// Bytes of an element of a predefined type of integers that the processor sums whole; 0: it is another type.
#[inline(always)]
pub(crate) fn integer_word_bytes(datatype: MPI_Datatype) -> usize {
    let slot = datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0);
    INTEGER_WORD_BYTES.get(slot).map_or(0, |&bytes| usize::from(bytes))
}

/// A predefined type, if the handle is one's.
#[inline(always)]
pub(crate) fn basic(datatype: MPI_Datatype) -> Option<Basic> {
    *PREDEFINED.get(datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0))?
}

/// What a handle means; `name` is the argument it came in.
pub(crate) fn get(datatype: MPI_Datatype, name: &str) -> Result<Arc<Type>, Fault> {
    let slot = datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0);
    if slot < SLOT_COUNT {
        return predefined_at(slot).ok_or_else(|| bad(datatype, name));
    }
    Ok(table()?.get(datatype, name)?.ty.clone())
}

/// As [`get`], for communication: the type must be committed.
pub(crate) fn get_committed(datatype: MPI_Datatype, name: &str) -> Result<Arc<Type>, Fault> {
    if datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0) < SLOT_COUNT {
        return get(datatype, name);
    }
    let table = table()?;
    let found = table.get(datatype, name)?;
    if !found.is_committed {
        return Err(fault(
            MPI_ERR_TYPE,
            format_args!("argument {name} is a type that was not committed: call MPI_Type_commit first"),
        ));
    }
    Ok(found.ty.clone())
}

/// Calls a function with a handle of a type: the one that an operation under way was given, or, where the
/// program has freed that since, one that lives as long as the call.
pub(crate) fn with_handle(given: MPI_Datatype, ty: &Arc<Type>, call: impl FnOnce(MPI_Datatype)) {
    let is_alive = |table: &Table<_, Datatype>| table.find(given).is_some_and(|it| Arc::ptr_eq(&it.ty, ty));
    let lent = match basic(given) {
        Some(_) => None,
        None => table().ok().filter(|table| !is_alive(table)).and_then(|mut table| {
            table.insert(Datatype { is_committed: true, ..Datatype::new(ty.clone()) }).ok()
        }),
    };
    call(lent.unwrap_or(given));
    if let (Some(lent), Ok(mut table)) = (lent, table()) {
        // The program may have freed it, too.
        drop(table.remove(lent, "datatype"));
    }
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

/// The types that `MPI_Type_create_f90_real` and its like choose from: the most decimal digits and the
/// largest decimal exponent of each (0: integers have none).
fn f90_choices(combiner: c_int) -> &'static [(c_int, c_int, MPI_Datatype)] {
    use ayatori_core::datatype::{LONG_DOUBLE, LongDoubleFormat};
    match (combiner, LONG_DOUBLE) {
        (MPI_COMBINER_F90_INTEGER, _) => &[
            (2, 0, MPI_INTEGER1),
            (4, 0, MPI_INTEGER2),
            (9, 0, MPI_INTEGER4),
            (18, 0, MPI_INTEGER8),
            (38, 0, MPI_INTEGER16),
        ],
        // Compilers for x86 offer their extended format before binary128.
        (MPI_COMBINER_F90_REAL, LongDoubleFormat::X87) => {
            &[(6, 37, MPI_REAL4), (15, 307, MPI_REAL8), (18, 4931, MPI_LONG_DOUBLE), (33, 4931, MPI_REAL16)]
        }
        (MPI_COMBINER_F90_REAL, _) => &[(6, 37, MPI_REAL4), (15, 307, MPI_REAL8), (33, 4931, MPI_REAL16)],
        (_, LongDoubleFormat::X87) => &[
            (6, 37, MPI_COMPLEX8),
            (15, 307, MPI_COMPLEX16),
            (18, 4931, MPI_C_LONG_DOUBLE_COMPLEX),
            (33, 4931, MPI_COMPLEX32),
        ],
        _ => &[(6, 37, MPI_COMPLEX8), (15, 307, MPI_COMPLEX16), (33, 4931, MPI_COMPLEX32)],
    }
}

/// A type with so many decimal digits and such a decimal exponent (MPI-5.0 §19.1.9); the same call gives the
/// same handle.
pub(crate) fn f90(combiner: c_int, digits: c_int, range: c_int) -> Result<MPI_Datatype, Fault> {
    let asked = |value: c_int| if value == MPI_UNDEFINED { 0 } else { value };
    let choices = f90_choices(combiner).iter();
    let found = match digits == MPI_UNDEFINED && range == MPI_UNDEFINED {
        true => None,
        false => choices.clone().find(|(p, r, _)| asked(digits) <= *p && asked(range) <= *r),
    };
    let (_, _, old) = found.ok_or_else(|| {
        let what = format_args!("no type has {digits} decimal digits and a decimal range of {range}");
        fault(MPI_ERR_ARG, what)
    })?;
    let integers = match combiner {
        MPI_COMBINER_F90_INTEGER => vec![digits],
        _ => vec![digits, range],
    };
    let old = get(*old, "newtype")?;
    let mut known = locked(&F90);
    if let Some(handle) = known.get(&(combiner, digits, range)) {
        return Ok(*handle);
    }
    let (layout, signature, predefined) = (old.layout.clone(), old.signature.clone(), old.predefined);
    let made = Made { combiner, integers, ..Made::named() };
    let ty = Arc::new(Type { layout, signature, made, predefined, handle: None });
    let datatype = Datatype { is_committed: true, is_permanent: true, ..Datatype::new(ty) };
    let handle = table()?.insert(datatype)?;
    known.insert((combiner, digits, range), handle);
    Ok(handle)
}

/// The handle of a type that [`f90`] made.
pub(crate) fn f90_handle(ty: &Type) -> Option<MPI_Datatype> {
    let (digits, range) = match ty.made.integers[..] {
        [digits] => (digits, MPI_UNDEFINED),
        [digits, range] => (digits, range),
        _ => return None,
    };
    locked(&F90).get(&(ty.made.combiner, digits, range)).copied()
}

/// The types of [`f90`] by their combiners, digits and ranges.
static F90: Mutex<BTreeMap<(c_int, c_int, c_int), MPI_Datatype>> = Mutex::new(BTreeMap::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datatype_handles_and_types_of_the_core_agree() {
        let handles = HANDLE_NAMES.iter().filter(|(bits, _)| (0x201..0x300).contains(bits));
        for (bits, name) in handles.clone() {
            let found = get(MPI_Datatype(*bits), "datatype").unwrap();
            assert_eq!(found.predefined.unwrap().name(), *name);
            assert_eq!(basic(MPI_Datatype(*bits)).unwrap().predefined.name(), *name);
        }
        assert_eq!(handles.count(), Predefined::ALL.len());
        assert_eq!(all_predefined().count(), Predefined::ALL.len());
        assert_eq!(get(MPI_DATATYPE_NULL, "datatype").unwrap_err().code(), MPI_ERR_TYPE);
        assert_eq!(get(MPI_Datatype(0x2ff), "datatype").unwrap_err().code(), MPI_ERR_TYPE);
        assert_eq!(get(MPI_Datatype(0x101), "datatype").unwrap_err().code(), MPI_ERR_OTHER);
    }

    #[test]
    fn counts_of_elements_and_bytes_agree() {
        let pair = get(MPI_DOUBLE_INT, "datatype").unwrap();
        for count in 0..7 {
            let bytes = pair.bytes_of_elements(count).unwrap();
            assert_eq!(pair.element_count(bytes), Some(count));
            assert_eq!(pair.count(bytes), (count % 2 == 0).then_some(count / 2));
        }
        assert_eq!(pair.element_count(5), None);
        assert_eq!(get(MPI_INT, "datatype").unwrap().count(6), None);
    }
}
