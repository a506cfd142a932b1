//! Arguments of messages, from what C passes to what the core takes.

use crate::abi::*;
use crate::arguments::*;
use crate::datatype;
use crate::fault::{Fault, fault};
use ayatori_core::buffer::{Buffer, Piece};
use ayatori_core::ids::{self, Rank, Tag, TagSelector};
use ayatori_core::layout::Region;
use ayatori_core::process::MessageId;
use ayatori_core::request::{Completion, Origin, PROC_NULL};
use ayatori_core::transfer::{Sink, Source};
use std::ffi::{c_int, c_void};

/// A message held by `MPI_Mprobe`.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// The core's name of it.
    pub(crate) id: MessageId,
    /// The communicator whose error handler gets its errors.
    pub(crate) comm: MPI_Comm,
}

/// The memory of a call's elements.
#[derive(Clone)]
pub(crate) enum Data {
    /// In one piece.
    Contiguous(Buffer),
    /// With gaps, or not in the order of the message.
    Scattered(Region),
}

impl From<Data> for Source {
    #[inline(always)]
    fn from(data: Data) -> Self {
        match data {
            Data::Contiguous(buffer) => buffer.into(),
            Data::Scattered(region) => region.into(),
        }
    }
}

impl From<Data> for Sink {
    #[inline(always)]
    fn from(data: Data) -> Self {
        match data {
            Data::Contiguous(buffer) => buffer.into(),
            Data::Scattered(region) => region.into(),
        }
    }
}

impl Data {
    /// Bytes of the message.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Contiguous(buffer) => buffer.len(),
            Self::Scattered(region) => region.len(),
        }
    }

    /// A packed copy.
    pub(crate) fn packed(&self) -> Vec<u8> {
        match self {
            Self::Contiguous(buffer) => buffer.to_vec().unwrap_or_default(),
            Self::Scattered(region) => {
                let mut packed = vec![0; region.len()];
                region.pack(0, &mut packed[..]);
                packed
            }
        }
    }

    /// Writes packed bytes into the elements from the first on.
    pub(crate) fn unpack(&self, packed: &[u8]) {
        match self {
            Self::Contiguous(buffer) => buffer.scatter(0, Piece::Bytes(packed)),
            Self::Scattered(region) => region.unpack(0, packed),
        }
    }
}

/// The memory of `count` elements. `name` is what the standard calls the argument: `buf`, `sendbuf` …
///
/// Sends pass their `const` memory too: the core only reads what it sends.
#[inline(always)]
pub(crate) fn data(
    memory: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    name: &str,
) -> Result<Data, Fault> {
    match datatype::basic(datatype) {
        Some(basic) if basic.is_contiguous() => {
            elements(memory, count, basic.extent_bytes, name).map(Data::Contiguous)
        }
        _ => derived(memory, count, datatype, name),
    }
}

/// The memory of `count` elements of a predefined type without gaps. `None`: it is another type, or something
/// is wrong; ask [`data`], which takes longer.
#[inline(always)]
pub(crate) fn plain(memory: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Option<Buffer> {
    let element_bytes = datatype::plain_bytes(datatype);
    let bytes = usize::try_from(count).ok()?.checked_mul(element_bytes)?;
    if element_bytes == 0 || (bytes > 0 && memory.is_null()) {
        return None;
    }
    // SAFETY: as in `elements`.
    Some(unsafe { Buffer::from_raw_parts(memory.cast_mut().cast(), bytes) })
}

/// The memory of one element of a predefined type of `bytes`.
#[inline(always)]
pub(crate) fn word(memory: *const c_void, bytes: usize) -> Option<Buffer> {
    // SAFETY: as in `elements`.
    (!memory.is_null()).then(|| unsafe { Buffer::from_raw_parts(memory.cast_mut().cast(), bytes) })
}

/// The memory of `count` elements that lie in a row, each as long as its extent.
#[inline(always)]
pub(crate) fn elements(
    memory: *const c_void,
    count: MPI_Count,
    extent_bytes: usize,
    name: &str,
) -> Result<Buffer, Fault> {
    let bytes = match usize::try_from(count).ok().and_then(|count| count.checked_mul(extent_bytes)) {
        Some(bytes) => bytes,
        None => return Err(bad_count(count)),
    };
    if bytes > 0 && memory.is_null() {
        return Err(null_buffer(name));
    }
    // SAFETY: by the description of every call that comes here, the caller's buffer holds `count` elements
    // and is left alone until the operation completes (MPI-5.0 §3.7.2).
    Ok(unsafe { Buffer::from_raw_parts(memory.cast_mut().cast(), bytes) })
}

/// Elements of a type of the user's, or of a predefined pair.
#[cold]
#[inline(never)]
fn derived(
    memory: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    name: &str,
) -> Result<Data, Fault> {
    let Some(region) = region(memory, count, datatype, name)? else {
        return Ok(Data::Contiguous(Buffer::EMPTY));
    };
    Ok(match region.as_contiguous() {
        Some(buffer) => Data::Contiguous(buffer),
        None => Data::Scattered(region),
    })
}

/// The memory of `count` elements of any type; `None` if they have no data. Addresses from `MPI_BOTTOM`,
/// which is a null pointer, are in the type's displacements.
pub(crate) fn region(
    memory: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    name: &str,
) -> Result<Option<Region>, Fault> {
    let ty = datatype::get_committed(datatype, "datatype")?;
    let elements = usize::try_from(count).map_err(|_| bad_count(count))?;
    let span = ty.layout.span(elements).map_err(|_| bad_count(count))?;
    if span.len == 0 {
        return Ok(None);
    }
    let lowest = memory.cast_mut().cast::<u8>().wrapping_offset(span.lowest);
    if lowest.is_null() {
        return Err(null_buffer(name));
    }
    // SAFETY: by the description of every call that comes here, the bytes that the elements name are there,
    // and are left alone until the operation completes (MPI-5.0 §3.7.2). The layout names no others in the
    // span.
    let memory = unsafe { Buffer::from_raw_parts(lowest, span.len) };
    Ok(Some(Region::new(ty.layout.clone(), elements, memory)?))
}

/// The memory of `count` elements that are known to have no gaps.
pub(crate) fn contiguous(
    memory: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    name: &str,
) -> Result<Buffer, Fault> {
    match data(memory, count, datatype, name)? {
        Data::Contiguous(buffer) => Ok(buffer),
        Data::Scattered(_) => {
            Err(fault(MPI_ERR_INTERN, format_args!("argument {name} has gaps and is sent as if it had none")))
        }
    }
}

#[cold]
fn bad_count(count: MPI_Count) -> Fault {
    fault(MPI_ERR_COUNT, format_args!("argument count ({count}) is negative or too large"))
}

#[cold]
fn null_buffer(name: &str) -> Fault {
    fault(MPI_ERR_BUFFER, format_args!("argument {name} is a null pointer and the count is not 0"))
}

/// The rank of a destination.
#[inline(always)]
pub(crate) fn destination(dest: c_int) -> Result<Rank, Fault> {
    match dest {
        0.. => Ok(dest as Rank),
        MPI_PROC_NULL => Ok(PROC_NULL),
        _ => Err(bad_rank("dest", dest)),
    }
}

/// The source of a receive.
#[inline(always)]
pub(crate) fn source(source: c_int) -> Result<ids::Source, Fault> {
    match source {
        0.. => Ok(ids::Source::Rank(source as Rank)),
        MPI_ANY_SOURCE => Ok(ids::Source::Any),
        MPI_PROC_NULL => Ok(ids::Source::Rank(PROC_NULL)),
        _ => Err(bad_rank("source", source)),
    }
}

#[cold]
fn bad_rank(name: &str, rank: c_int) -> Fault {
    fault(MPI_ERR_RANK, format_args!("argument {name} ({rank}) is not a rank"))
}

/// The tag of a send.
#[inline(always)]
pub(crate) fn tag(tag: c_int) -> Result<Tag, Fault> {
    if tag >= 0 { Ok(tag) } else { Err(bad_tag(tag)) }
}

/// The tag of a receive.
#[inline(always)]
pub(crate) fn tag_selector(tag: c_int) -> Result<TagSelector, Fault> {
    match tag {
        0.. => Ok(TagSelector::Tag(tag)),
        MPI_ANY_TAG => Ok(TagSelector::Any),
        _ => Err(bad_tag(tag)),
    }
}

#[cold]
fn bad_tag(tag: c_int) -> Fault {
    fault(MPI_ERR_TAG, format_args!("argument tag ({tag}) is not between 0 and MPI_TAG_UB"))
}

/// The status of a completion. `error` stays as the caller has it: only calls that complete several requests
/// set it (MPI-5.0 §3.2.5).
pub(crate) fn status(completion: &Completion) -> MPI_Status {
    let from = &completion.status;
    let mut status = MPI_Status::empty();
    status.source = match from.source {
        Origin::Rank(rank) => rank as c_int,
        Origin::ProcNull => MPI_PROC_NULL,
        Origin::None => MPI_ANY_SOURCE,
    };
    status.tag = from.tag.unwrap_or(MPI_ANY_TAG);
    status.set_length_bytes(from.bytes as MPI_Count);
    status.set_cancelled(from.cancelled);
    status
}

/// Writes the status of a completion, unless the caller ignores it, and keeps the error field.
#[inline(always)]
pub(crate) fn give_status(to: Out<MPI_Status>, completion: &Completion) {
    if !to.is_ignored() {
        to.give(0, &status(completion), None);
    }
}
