//! Packing and unpacking (MPI-5.0 §5.2): the packed stream of a message, and `external32`.

use crate::abi::*;
use crate::arguments::*;
use crate::datatype::{self, Type, get};
use crate::fault::{Fault, fault};
use crate::message::{self, Data};
use crate::state::process;
use ayatori_core::buffer::Buffer;
use ayatori_core::layout::external32;
use std::ffi::{c_int, c_void};

/// A buffer of packed bytes of the caller's, and how far it is used.
struct Packed<'a> {
    memory: *const c_void,
    size: MPI_Count,
    position: MPI_Count,
    /// What the standard calls the buffer.
    name: &'a str,
}

impl Packed<'_> {
    /// The next `bytes`, and the position after them.
    fn next(&self, bytes: usize) -> Result<(Buffer, MPI_Count), Fault> {
        if self.position < 0 || self.position > self.size {
            let (position, size) = (self.position, self.size);
            let what = format_args!("argument position ({position}) is not between 0 and {size}");
            return Err(fault(MPI_ERR_ARG, what));
        }
        let rest = self.size - self.position;
        if usize::try_from(rest).is_ok_and(|rest| rest < bytes) {
            let name = self.name;
            return Err(fault(
                MPI_ERR_TRUNCATE,
                format_args!("{bytes} bytes are needed, {name} has {rest} from position on"),
            ));
        }
        if bytes > 0 && self.memory.is_null() {
            return Err(fault(MPI_ERR_BUFFER, format_args!("argument {} is a null pointer", self.name)));
        }
        let memory = self.memory.cast_mut().cast::<u8>().wrapping_offset(self.position as isize);
        // SAFETY: by the call's description the buffer holds `size` bytes, and the part lies inside of it. It
        // is used during this call only, and written only where the caller passed it to be written.
        Ok((unsafe { Buffer::from_raw_parts(memory, bytes) }, self.position + bytes as MPI_Count))
    }
}

/// Packs elements; the position behind them.
fn pack(elements: Data, packed: &Packed<'_>) -> Result<MPI_Count, Fault> {
    let (to, position) = packed.next(elements.len())?;
    match elements {
        Data::Contiguous(buffer) => to.copy_from(0, &buffer, 0, buffer.len()),
        Data::Scattered(region) => region.pack(0, to),
    }
    Ok(position)
}

/// Unpacks into elements; the position behind what they took.
fn unpack(elements: Data, packed: &Packed<'_>) -> Result<MPI_Count, Fault> {
    let (from, position) = packed.next(elements.len())?;
    match elements {
        Data::Contiguous(buffer) => buffer.copy_from(0, &from, 0, from.len()),
        Data::Scattered(region) => region.unpack(0, from),
    }
    Ok(position)
}

/// Bytes of `count` elements in a message.
fn pack_size(count: MPI_Count, datatype: MPI_Datatype) -> Result<MPI_Count, Fault> {
    let (ty, elements) = (get(datatype, "datatype")?, datatype::count(count, "incount")?);
    let bytes = ty.layout.size().checked_mul(elements).and_then(|bytes| MPI_Count::try_from(bytes).ok());
    bytes.ok_or_else(|| fault(MPI_ERR_COUNT, format_args!("{count} elements are more than memory holds")))
}

/// Checks the communicator of a call that needs none.
fn check_comm(comm: MPI_Comm) -> Result<(), Fault> {
    process()?.comms.get(comm, "comm").map(|_| ())
}

/// Checks the name of a representation: the standard has one.
fn check_representation(name: Text) -> Result<(), Fault> {
    match name.get("datarep")? {
        b"external32" => Ok(()),
        other => {
            let name = String::from_utf8_lossy(other);
            Err(fault(MPI_ERR_ARG, format_args!("argument datarep is {name:?}, not \"external32\"")))
        }
    }
}

/// Bytes of `count` elements in external32.
fn external_size(ty: &Type, count: usize) -> Result<usize, Fault> {
    let mut bytes = 0_usize;
    let each = ty.signature.for_each(&mut |basic, count| {
        let more = external32::size_bytes(basic).checked_mul(count);
        bytes = more.and_then(|more| bytes.checked_add(more)).ok_or(())?;
        Ok::<(), ()>(())
    });
    let all = each.ok().and_then(|()| bytes.checked_mul(count)).filter(|bytes| *bytes <= isize::MAX as usize);
    all.ok_or_else(|| fault(MPI_ERR_COUNT, format_args!("{count} elements are more than memory holds")))
}

/// Elements of a call in memory, and their type and number.
struct Elements {
    ty: std::sync::Arc<Type>,
    count: usize,
    data: Data,
}

impl Elements {
    fn of(
        (memory, name): (*const c_void, &str),
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<Self, Fault> {
        let data = message::data(memory, count, datatype, name)?;
        Ok(Self { ty: get(datatype, "datatype")?, count: datatype::count(count, "count")?, data })
    }

    /// Runs `f(basic, count)` along the packed stream.
    fn for_each(&self, mut f: impl FnMut(ayatori_core::datatype::Predefined, usize)) {
        // Elements without data are as many as the caller likes.
        let count = if self.ty.signature.elements() == 0 { 0 } else { self.count };
        for _ in 0..count {
            let walked = self.ty.signature.for_each(&mut |basic, count| {
                f(basic, count);
                Ok::<(), std::convert::Infallible>(())
            });
            let Ok(()) = walked;
        }
    }
}

fn pack_external(elements: &Elements, packed: &Packed<'_>) -> Result<MPI_Count, Fault> {
    let (to, position) = packed.next(external_size(&elements.ty, elements.count)?)?;
    let native = elements.data.packed();
    let mut external = Vec::with_capacity(to.len());
    let mut at = 0;
    elements.for_each(|basic, count| {
        let end = at + basic.size_bytes() * count;
        external32::encode(basic, &native[at..end], &mut external);
        at = end;
    });
    to.scatter(0, ayatori_core::buffer::Piece::Bytes(&external));
    Ok(position)
}

fn unpack_external(elements: &Elements, packed: &Packed<'_>) -> Result<MPI_Count, Fault> {
    let (from, position) = packed.next(external_size(&elements.ty, elements.count)?)?;
    let external = from.to_vec().unwrap_or_default();
    let mut native = Vec::with_capacity(elements.data.len());
    let mut at = 0;
    elements.for_each(|basic, count| {
        let end = at + external32::size_bytes(basic) * count;
        external32::decode(basic, &external[at..end], &mut native);
        at = end;
    });
    elements.data.unpack(&native);
    Ok(position)
}

/// The functions with counts of either width; `$address` is how the external forms count bytes.
macro_rules! packing {
    ($($count:ty, $address:ty, $pack:ident $unpack:ident $pack_external:ident $unpack_external:ident;)*) => {$(
        api! {
            /// MPI-5.0 §5.2
            fn $pack(inbuf: *const c_void, incount: $count, datatype: MPI_Datatype, outbuf: *mut c_void, outsize: $count, position: InOut<$count>, comm: MPI_Comm) on comm {
                check_comm(comm)?;
                let packed = Packed { memory: outbuf, size: outsize.into(), position: position.get("position")?.into(), name: "outbuf" };
                let elements = message::data(inbuf, incount.into(), datatype, "inbuf")?;
                position.set("position", pack(elements, &packed)? as $count)
            }
            /// MPI-5.0 §5.2
            fn $unpack(inbuf: *const c_void, insize: $count, position: InOut<$count>, outbuf: *mut c_void, outcount: $count, datatype: MPI_Datatype, comm: MPI_Comm) on comm {
                check_comm(comm)?;
                let packed = Packed { memory: inbuf, size: insize.into(), position: position.get("position")?.into(), name: "inbuf" };
                let elements = message::data(outbuf, outcount.into(), datatype, "outbuf")?;
                position.set("position", unpack(elements, &packed)? as $count)
            }
            /// MPI-5.0 §5.3
            fn $pack_external(datarep: Text, inbuf: *const c_void, incount: $count, datatype: MPI_Datatype, outbuf: *mut c_void, outsize: $address, position: InOut<$address>) {
                check_representation(datarep)?;
                let packed = Packed { memory: outbuf, size: outsize as MPI_Count, position: position.get("position")? as MPI_Count, name: "outbuf" };
                let elements = Elements::of((inbuf, "inbuf"), incount.into(), datatype)?;
                position.set("position", pack_external(&elements, &packed)? as $address)
            }
            /// MPI-5.0 §5.3
            fn $unpack_external(datarep: Text, inbuf: *const c_void, insize: $address, position: InOut<$address>, outbuf: *mut c_void, outcount: $count, datatype: MPI_Datatype) {
                check_representation(datarep)?;
                let packed = Packed { memory: inbuf, size: insize as MPI_Count, position: position.get("position")? as MPI_Count, name: "inbuf" };
                let elements = Elements::of((outbuf, "outbuf"), outcount.into(), datatype)?;
                position.set("position", unpack_external(&elements, &packed)? as $address)
            }
        }
    )*};
}

packing! {
    c_int, isize, MPI_Pack MPI_Unpack MPI_Pack_external MPI_Unpack_external;
    i64, i64, MPI_Pack_c MPI_Unpack_c MPI_Pack_external_c MPI_Unpack_external_c;
}

api! {
    /// MPI-5.0 §5.2. MPI_UNDEFINED where it is more than an `int` holds.
    fn MPI_Pack_size(incount: c_int, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<c_int>) on comm {
        check_comm(comm)?;
        let bytes = pack_size(incount.into(), datatype)?;
        size.set("size", c_int::try_from(bytes).unwrap_or(MPI_UNDEFINED))
    }

    /// MPI-5.0 §5.2
    fn MPI_Pack_size_c(incount: MPI_Count, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<MPI_Count>) on comm {
        check_comm(comm)?;
        size.set("size", pack_size(incount, datatype)?)
    }

    /// MPI-5.0 §5.3
    fn MPI_Pack_external_size(datarep: Text, incount: c_int, datatype: MPI_Datatype, size: Out<MPI_Aint>) {
        check_representation(datarep)?;
        let elements = datatype::count(incount.into(), "incount")?;
        size.set("size", external_size(&*get(datatype, "datatype")?, elements)? as MPI_Aint)
    }

    /// MPI-5.0 §5.3
    fn MPI_Pack_external_size_c(datarep: Text, incount: MPI_Count, datatype: MPI_Datatype, size: Out<MPI_Count>) {
        check_representation(datarep)?;
        let elements = datatype::count(incount, "incount")?;
        size.set("size", external_size(&*get(datatype, "datatype")?, elements)? as MPI_Count)
    }
}
