//! How data is written in a file (MPI-5.0 §14.5): as in memory, in `external32`, or as functions of the
//! program convert it.
//!
//! In a file, a datatype has the extents of its basic types there. Displacements that a constructor took in
//! elements follow them; those in bytes are kept. So the datatype is made again from basic types of other
//! sizes.

use crate::abi::*;
use crate::datatype::{self, Dimension, Made, Order, Type};
use crate::fault::{Fault, fault};
use crate::lock::locked;
use crate::message::Data;
use ayatori_core::datatype::Predefined;
use ayatori_core::layout::{Layout, external32};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

/// A data representation.
#[derive(Clone, Debug)]
pub(crate) enum Representation {
    /// As in memory.
    Native,
    /// As in memory, since all processes run on machines of one kind.
    Internal,
    /// The standard's own.
    External32,
    /// The program's.
    User(Arc<UserRepresentation>),
}

/// A representation that the program has registered.
#[derive(Debug)]
pub(crate) struct UserRepresentation {
    name: Vec<u8>,
    read: Callback,
    write: Callback,
    extent: Callback,
    extra_state: UserPointer,
    /// Whether the conversion functions count with `MPI_Count`.
    is_large: bool,
}

static REGISTERED: Mutex<BTreeMap<Vec<u8>, Arc<UserRepresentation>>> = Mutex::new(BTreeMap::new());

const OURS: [&[u8]; 3] = [b"native", b"internal", b"external32"];

/// `MPI_Register_datarep`
pub(crate) fn register(
    name: &[u8],
    [read, write, extent]: [Callback; 3],
    extra_state: UserPointer,
    is_large: bool,
) -> Result<(), Fault> {
    if name.is_empty() || name.len() >= MPI_MAX_DATAREP_STRING as usize {
        let limit = MPI_MAX_DATAREP_STRING - 1;
        return Err(fault(MPI_ERR_ARG, format_args!("argument datarep has not between 1 and {limit} bytes")));
    }
    if extent.0 == 0 {
        return Err(Fault::null("dtype_file_extent_fn"));
    }
    let mut registered = locked(&REGISTERED);
    if OURS.contains(&name) || registered.contains_key(name) {
        let name = String::from_utf8_lossy(name);
        return Err(fault(
            MPI_ERR_DUP_DATAREP,
            format_args!("argument datarep (\"{name}\") is defined already"),
        ));
    }
    let made = UserRepresentation { name: name.to_vec(), read, write, extent, extra_state, is_large };
    registered.insert(name.to_vec(), Arc::new(made));
    Ok(())
}

/// The basic types of `count` elements in order, each with its count.
fn for_each_basic(ty: &Type, count: usize, mut f: impl FnMut(Predefined, usize) -> bool) {
    // Elements without data are as many as the caller likes.
    let count = if ty.signature.elements() == 0 { 0 } else { count };
    for _ in 0..count {
        let each = ty.signature.for_each(&mut |basic, count| if f(basic, count) { Ok(()) } else { Err(()) });
        if each.is_err() {
            return;
        }
    }
}

/// Elements of a call: their type, by object and by handle, and how many.
pub(crate) struct Elements {
    pub(crate) ty: Arc<Type>,
    pub(crate) datatype: MPI_Datatype,
    pub(crate) count: usize,
    /// Where they are in memory, as the call passes it.
    pub(crate) memory: *const c_void,
}

fn too_large() -> Fault {
    fault(MPI_ERR_COUNT, format_args!("the elements are more than memory holds in this data representation"))
}

impl Representation {
    /// The representation of a name.
    pub(crate) fn of(name: &[u8]) -> Result<Self, Fault> {
        match name {
            b"native" => Ok(Self::Native),
            b"internal" => Ok(Self::Internal),
            b"external32" => Ok(Self::External32),
            name => locked(&REGISTERED).get(name).cloned().map(Self::User).ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                let what = format_args!("argument datarep (\"{name}\") is not a data representation");
                fault(MPI_ERR_UNSUPPORTED_DATAREP, what)
            }),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Self::Native => OURS[0],
            Self::Internal => OURS[1],
            Self::External32 => OURS[2],
            Self::User(user) => &user.name,
        }
    }

    /// Whether files have the bytes of memory.
    pub(crate) fn is_as_memory(&self) -> bool {
        matches!(self, Self::Native | Self::Internal)
    }

    /// Whether functions of the program convert, which the thread that calls has to run.
    pub(crate) fn calls_user(&self) -> bool {
        matches!(self, Self::User(_))
    }

    /// How elements of a type lie in files.
    pub(crate) fn layout(&self, ty: &Type) -> Result<Layout, Fault> {
        if self.is_as_memory() {
            return Ok(ty.layout.clone());
        }
        Ok(self.in_file(ty)?.layout.clone())
    }

    /// Bytes of a basic type in files.
    fn basic_bytes(&self, basic: Predefined, handle: Option<MPI_Datatype>) -> Result<usize, Fault> {
        match self {
            Self::Native | Self::Internal => Ok(basic.extent_bytes()),
            Self::External32 => Ok(external32::size_bytes(basic)),
            Self::User(user) => user.extent(handle.unwrap_or(MPI_DATATYPE_NULL)),
        }
    }

    /// The type made from basic types as they are in files.
    fn in_file(&self, ty: &Type) -> Result<Arc<Type>, Fault> {
        let of = |layout, like: &Type| Type {
            layout,
            signature: like.signature.clone(),
            made: Made::named(),
            predefined: None,
            handle: None,
        };
        if let Some(basic) = ty.predefined {
            let handle = ty.handle.or_else(|| ty.made.types.first().and_then(|old| old.handle));
            return Ok(Arc::new(of(Layout::bytes(self.basic_bytes(basic, handle)?), ty)));
        }
        let types: Vec<_> = ty.made.types.iter().map(|old| self.in_file(old)).collect::<Result<_, _>>()?;
        let Some(old) = types.first().cloned() else {
            return Ok(Arc::new(of(ty.layout.clone(), ty)));
        };
        let made = &ty.made;
        let small = made.integers.iter().map(|value| i64::from(*value));
        let numbers: Vec<i64> = small
            .chain(made.addresses.iter().map(|at| *at as i64))
            .chain(made.counts.iter().copied())
            .collect();
        rebuild(made, &numbers, (&old, types)).map(Arc::new)
    }

    /// Bytes of elements in files.
    pub(crate) fn bytes(&self, elements: &Elements) -> Result<usize, Fault> {
        let size = match self {
            Self::Native | Self::Internal => elements.ty.layout.size(),
            _ => self.in_file(&elements.ty)?.layout.size(),
        };
        size.checked_mul(elements.count).filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(too_large)
    }

    /// Elements as they are written.
    pub(crate) fn encode(&self, elements: &Elements, data: &Data) -> Result<Vec<u8>, Fault> {
        let bytes = self.bytes(elements)?;
        match self {
            Self::User(user) if user.write.0 != 0 => {
                let mut file = vec![0; bytes];
                user.convert(user.write, elements, elements.count, &mut file)?;
                Ok(file)
            }
            Self::External32 => {
                let (native, mut file, mut at) = (data.packed(), Vec::with_capacity(bytes), 0);
                for_each_basic(&elements.ty, elements.count, |basic, count| {
                    let end = at + basic.size_bytes() * count;
                    external32::encode(basic, &native[at..end], &mut file);
                    at = end;
                    true
                });
                Ok(file)
            }
            _ => Ok(data.packed()),
        }
    }

    /// Puts what was read into the elements; how many bytes of them that is.
    pub(crate) fn decode(&self, elements: &Elements, data: &Data, file: &[u8]) -> Result<usize, Fault> {
        match self {
            Self::User(user) if user.read.0 != 0 => {
                let each = self.bytes(elements)?.checked_div(elements.count).unwrap_or(0);
                let count = file.len().checked_div(each).unwrap_or(0);
                user.convert(user.read, elements, count, &mut file[..count * each].to_vec())?;
                Ok(count * elements.ty.layout.size())
            }
            Self::External32 => {
                let (mut native, mut at) = (Vec::with_capacity(data.len()), 0);
                for_each_basic(&elements.ty, elements.count, |basic, count| {
                    let each = external32::size_bytes(basic);
                    let there = ((file.len() - at) / each).min(count);
                    external32::decode(basic, &file[at..at + there * each], &mut native);
                    at += there * each;
                    there == count
                });
                data.unpack(&native);
                Ok(native.len())
            }
            _ => {
                let there = file.len().min(data.len());
                data.unpack(&file[..there]);
                Ok(there)
            }
        }
    }
}

/// A type made as `made` says, from types as they are in files. `numbers`: the constructor's.
fn rebuild(made: &Made, numbers: &[i64], (old, types): (&Type, Vec<Arc<Type>>)) -> Result<Type, Fault> {
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    let count = at(0) as usize;
    let extent = old.layout.extent();
    let bytes = |value: i64, unit: isize| (value as isize).checked_mul(unit).ok_or_else(too_large);
    let blocks = |length: &dyn Fn(usize) -> i64, first: usize, unit: isize| -> Result<Vec<_>, Fault> {
        (0..count).map(|i| Ok((length(i) as usize, bytes(at(first + i), unit)?))).collect()
    };
    let each = |i: usize| at(1 + i);
    let all = |_: usize| at(1);
    let new = Made::named();
    match made.combiner {
        MPI_COMBINER_CONTIGUOUS => old.vector(1, count, 0, new),
        MPI_COMBINER_VECTOR => old.vector(count, at(1) as usize, bytes(at(2), extent)?, new),
        MPI_COMBINER_HVECTOR => old.vector(count, at(1) as usize, bytes(at(2), 1)?, new),
        MPI_COMBINER_INDEXED => old.indexed(&blocks(&each, 1 + count, extent)?, new),
        MPI_COMBINER_HINDEXED => old.indexed(&blocks(&each, 1 + count, 1)?, new),
        MPI_COMBINER_INDEXED_BLOCK => old.indexed(&blocks(&all, 2, extent)?, new),
        MPI_COMBINER_HINDEXED_BLOCK => old.indexed(&blocks(&all, 2, 1)?, new),
        MPI_COMBINER_STRUCT => {
            Type::structure(&blocks(&each, 1 + count, 1)?, Made { types, ..Made::named() })
        }
        MPI_COMBINER_RESIZED => old.resized(bytes(at(0), 1)?, bytes(at(1), 1)?, new),
        MPI_COMBINER_SUBARRAY => {
            let n = made.integers[0] as usize;
            let dims = if made.counts.is_empty() { &numbers[1..] } else { &made.counts };
            let parts: Vec<_> = (0..n).map(|i| (dims[i], dims[n + i], dims[2 * n + i])).collect();
            datatype::subarray(old, &parts, Order::of(made.integers[made.integers.len() - 1])?, new)
        }
        MPI_COMBINER_DARRAY => {
            let (ints, n) = (&made.integers, made.integers[2] as usize);
            let own_sizes = made.counts.is_empty();
            let rest = if own_sizes { 3 + n } else { 3 };
            let size = |i: usize| if own_sizes { ints[3 + i].into() } else { made.counts[i] };
            let parts = (0..n).map(|i| Dimension {
                size: size(i),
                distribution: ints[rest + i],
                argument: ints[rest + n + i],
                processes: ints[rest + 2 * n + i],
            });
            let parts: Vec<_> = parts.collect();
            datatype::darray(old, (ints[0], ints[1]), &parts, Order::of(ints[ints.len() - 1])?, new)
        }
        _ => old.vector(1, 1, 0, new),
    }
}

type ExtentFunction = unsafe extern "C-unwind" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;
type Conversion = unsafe extern "C-unwind" fn(
    *mut c_void,
    MPI_Datatype,
    c_int,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;
type LargeConversion = unsafe extern "C-unwind" fn(
    *mut c_void,
    MPI_Datatype,
    MPI_Count,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;

impl UserRepresentation {
    fn check(&self, code: c_int, what: &str) -> Result<(), Fault> {
        if code == MPI_SUCCESS {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&self.name);
        Err(fault(
            MPI_ERR_CONVERSION,
            format_args!("the {what} function of data representation \"{name}\" returned {code}"),
        ))
    }

    /// Bytes of a basic type in files, by the program's function.
    fn extent(&self, datatype: MPI_Datatype) -> Result<usize, Fault> {
        let mut extent = 0;
        // SAFETY: the program registered the pointer as this kind of function. No lock is held.
        let code = unsafe {
            let function = std::mem::transmute::<usize, ExtentFunction>(self.extent.0);
            function(datatype, &mut extent, self.extra_state.0)
        };
        self.check(code, "extent")?;
        usize::try_from(extent).map_err(|_| {
            fault(MPI_ERR_CONVERSION, format_args!("a function gave the negative file extent {extent}"))
        })
    }

    /// Has a function of the program convert the first `count` elements; `file` is as long as they are in
    /// files.
    fn convert(
        &self,
        function: Callback,
        elements: &Elements,
        count: usize,
        file: &mut [u8],
    ) -> Result<(), Fault> {
        let each = file.len().checked_div(count).unwrap_or(0);
        let part_count = if self.is_large { usize::MAX } else { c_int::MAX as usize };
        let mut done = 0;
        while done < count {
            let part = (count - done).min(part_count);
            let memory = elements.memory.cast_mut();
            let to = file[done * each..].as_mut_ptr().cast();
            let (position, extra) = (done as MPI_Offset, self.extra_state.0);
            // SAFETY: the program registered the pointer as this kind of function. Its buffer holds the
            // elements by the description of the call that it passed it to, and `file` the part of them. No
            // lock is held.
            let code = unsafe {
                if self.is_large {
                    let function = std::mem::transmute::<usize, LargeConversion>(function.0);
                    function(memory, elements.datatype, part as MPI_Count, to, position, extra)
                } else {
                    let function = std::mem::transmute::<usize, Conversion>(function.0);
                    function(memory, elements.datatype, part as c_int, to, position, extra)
                }
            };
            self.check(code, "conversion")?;
            done += part;
        }
        Ok(())
    }
}
