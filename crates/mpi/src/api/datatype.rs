//! Chapter "datatype": addresses, and what datatypes are (MPI-5.0 §5, §7.8).

use crate::abi::*;
use crate::attribute::{copy_all, delete_all};
use crate::boundary::{Fault, fault};
use crate::datatype::{self, Datatype, layout};
use crate::handle::{Handle, bad};
use crate::state::types;
use std::ffi::{c_int, c_void};

/// Whether the ABI predefines a datatype, which then cannot be freed.
fn is_predefined(datatype: MPI_Datatype) -> bool {
    datatype.0 < MPI_DATATYPE_NULL.0 + MPI_Datatype::PREDEFINED_COUNT
}

/// A size or extent in an `int` or `MPI_Aint`, or MPI_UNDEFINED where it is more than that holds (MPI-5.0 §5.1.5).
fn fitting<T: TryFrom<usize> + From<i16>>(bytes: usize) -> T {
    T::try_from(bytes).unwrap_or_else(|_| T::from(MPI_UNDEFINED as i16))
}

fn extent<T: TryFrom<usize> + From<i16> + Copy>(
    datatype: MPI_Datatype,
    bytes: impl FnOnce(datatype::Layout) -> usize,
    lb: Out<T>,
    extent: Out<T>,
) -> Result<(), Fault> {
    let bytes = bytes(layout(datatype, "datatype")?);
    lb.set("lb", T::from(0))?;
    extent.set("extent", fitting(bytes))
}

/// Bytes from the first to the last one that means something.
fn true_extent_bytes(layout: datatype::Layout) -> usize {
    match layout.predefined.pair_layout_bytes() {
        Some((value_bytes, index_at)) => index_at + (layout.size_bytes - value_bytes),
        None => layout.extent_bytes,
    }
}

/// How a type was made: of a duplicate one datatype, of a predefined one nothing.
fn envelope(datatype: MPI_Datatype) -> Result<(c_int, Option<MPI_Datatype>), Fault> {
    let duplicate_of = types()?.datatypes.get(datatype, "datatype")?.duplicate_of;
    Ok((if duplicate_of.is_some() { MPI_COMBINER_DUP } else { MPI_COMBINER_NAMED }, duplicate_of))
}

/// The type a duplicate was made of: itself if predefined, else a new handle that is the caller's to free.
fn contents(datatype: MPI_Datatype, max_datatypes: MPI_Count) -> Result<MPI_Datatype, Fault> {
    let (_, Some(old)) = envelope(datatype)? else {
        return Err(fault(MPI_ERR_TYPE, format_args!("argument datatype is predefined: it has no contents")));
    };
    if max_datatypes < 1 {
        return Err(fault(
            MPI_ERR_ARG,
            format_args!("argument max_datatypes is {max_datatypes}, the type has 1"),
        ));
    }
    if is_predefined(old) { Ok(old) } else { duplicate(datatype, old) }
}

fn duplicate(datatype: MPI_Datatype, of: MPI_Datatype) -> Result<MPI_Datatype, Fault> {
    let mut types = types()?;
    let layout = types.datatypes.get(datatype, "datatype")?.layout;
    types.datatypes.insert(Datatype {
        layout,
        name: Vec::new(),
        attributes: Default::default(),
        duplicate_of: Some(of),
    })
}

api! {
    /// Sum of an address and a displacement, wrapping as C pointers do on every machine MPI runs on.
    fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
        base.wrapping_add(disp)
    }

    /// Difference of two addresses.
    fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
        addr1.wrapping_sub(addr2)
    }

    /// MPI-5.0 §5.1.5
    fn MPI_Get_address(location: *const c_void, address: Out<MPI_Aint>) {
        address.set("address", location as MPI_Aint)
    }

    /// MPI-5.0 §5.1.5
    fn MPI_Type_size(datatype: MPI_Datatype, size: Out<c_int>) {
        size.set("size", fitting(layout(datatype, "datatype")?.size_bytes))
    }

    /// MPI-5.0 §5.1.5
    fn MPI_Type_size_c(datatype: MPI_Datatype, size: Out<MPI_Count>) {
        size.set("size", fitting(layout(datatype, "datatype")?.size_bytes))
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Type_size_x(datatype: MPI_Datatype, size: Out<MPI_Count>) {
        size.set("size", fitting(layout(datatype, "datatype")?.size_bytes))
    }

    /// MPI-5.0 §5.1.7
    fn MPI_Type_get_extent(datatype: MPI_Datatype, lb: Out<MPI_Aint>, extent: Out<MPI_Aint>) {
        self::extent(datatype, |layout| layout.extent_bytes, lb, extent)
    }

    /// MPI-5.0 §5.1.7
    fn MPI_Type_get_extent_c(datatype: MPI_Datatype, lb: Out<MPI_Count>, extent: Out<MPI_Count>) {
        self::extent(datatype, |layout| layout.extent_bytes, lb, extent)
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Type_get_extent_x(datatype: MPI_Datatype, lb: Out<MPI_Count>, extent: Out<MPI_Count>) {
        self::extent(datatype, |layout| layout.extent_bytes, lb, extent)
    }

    /// MPI-5.0 §5.1.8
    fn MPI_Type_get_true_extent(datatype: MPI_Datatype, true_lb: Out<MPI_Aint>, true_extent: Out<MPI_Aint>) {
        extent(datatype, true_extent_bytes, true_lb, true_extent)
    }

    /// MPI-5.0 §5.1.8
    fn MPI_Type_get_true_extent_c(datatype: MPI_Datatype, true_lb: Out<MPI_Count>, true_extent: Out<MPI_Count>) {
        extent(datatype, true_extent_bytes, true_lb, true_extent)
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Type_get_true_extent_x(datatype: MPI_Datatype, true_lb: Out<MPI_Count>, true_extent: Out<MPI_Count>) {
        extent(datatype, true_extent_bytes, true_lb, true_extent)
    }

    /// MPI-5.0 §7.8
    fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: Text) {
        let name = super::comm::object_name(type_name, "type_name")?;
        types()?.datatypes.get_mut(datatype, "datatype")?.name = name;
        Ok(())
    }

    /// MPI-5.0 §7.8
    fn MPI_Type_get_name(datatype: MPI_Datatype, type_name: OutText, resultlen: Out<c_int>) {
        let name = match datatype {
            MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL".to_vec(),
            datatype => types()?.datatypes.get(datatype, "datatype")?.name.clone(),
        };
        let length = type_name.set("type_name", &name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set("resultlen", length)
    }

    /// Nothing is left to prepare: predefined types and their duplicates are ready when made.
    fn MPI_Type_commit(datatype: InOut<MPI_Datatype>) {
        layout(datatype.get("datatype")?, "datatype").map(|_| ())
    }

    /// The attributes' copy functions are called.
    fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        let list = types()?.datatypes.get(oldtype, "oldtype")?.attributes.list();
        let attributes = copy_all(oldtype.0, &list)?;
        let handle = duplicate(oldtype, oldtype)?;
        types()?.datatypes.get_mut(handle, "newtype")?.attributes = attributes;
        newtype.set("newtype", handle)
    }

    /// The attributes' delete functions are called. Operations under way keep what they need.
    fn MPI_Type_free(datatype: InOut<MPI_Datatype>) {
        let handle = datatype.get("datatype")?;
        if is_predefined(handle) {
            return Err(bad(handle, "datatype"));
        }
        let attributes = std::mem::take(&mut types()?.datatypes.get_mut(handle, "datatype")?.attributes);
        delete_all(handle.0, attributes)?;
        types()?.datatypes.remove(handle, "datatype")?;
        datatype.set("datatype", MPI_DATATYPE_NULL)
    }

    /// MPI-5.0 §5.1.13
    fn MPI_Type_get_envelope(
        datatype: MPI_Datatype,
        num_integers: Out<c_int>,
        num_addresses: Out<c_int>,
        num_datatypes: Out<c_int>,
        combiner: Out<c_int>,
    ) {
        let (value, old) = envelope(datatype)?;
        num_integers.set("num_integers", 0)?;
        num_addresses.set("num_addresses", 0)?;
        num_datatypes.set("num_datatypes", c_int::from(old.is_some()))?;
        combiner.set("combiner", value)
    }

    /// MPI-5.0 §5.1.13
    fn MPI_Type_get_envelope_c(
        datatype: MPI_Datatype,
        num_integers: Out<MPI_Count>,
        num_addresses: Out<MPI_Count>,
        num_large_counts: Out<MPI_Count>,
        num_datatypes: Out<MPI_Count>,
        combiner: Out<c_int>,
    ) {
        let (value, old) = envelope(datatype)?;
        num_integers.set("num_integers", 0)?;
        num_addresses.set("num_addresses", 0)?;
        num_large_counts.set("num_large_counts", 0)?;
        num_datatypes.set("num_datatypes", MPI_Count::from(old.is_some()))?;
        combiner.set("combiner", value)
    }

    /// MPI-5.0 §5.1.13
    fn MPI_Type_get_contents(
        datatype: MPI_Datatype,
        max_integers: c_int,
        max_addresses: c_int,
        max_datatypes: c_int,
        array_of_integers: Out<c_int>,
        array_of_addresses: Out<MPI_Aint>,
        array_of_datatypes: Out<MPI_Datatype>,
    ) {
        let _ = (max_integers, max_addresses, array_of_integers, array_of_addresses);
        let old = contents(datatype, max_datatypes.into())?;
        array_of_datatypes.set("array_of_datatypes", old)
    }

    /// MPI-5.0 §5.1.13
    fn MPI_Type_get_contents_c(
        datatype: MPI_Datatype,
        max_integers: MPI_Count,
        max_addresses: MPI_Count,
        max_large_counts: MPI_Count,
        max_datatypes: MPI_Count,
        array_of_integers: Out<c_int>,
        array_of_addresses: Out<MPI_Aint>,
        array_of_large_counts: Out<MPI_Count>,
        array_of_datatypes: Out<MPI_Datatype>,
    ) {
        let _ = (max_integers, max_addresses, max_large_counts);
        let _ = (array_of_integers, array_of_addresses, array_of_large_counts);
        let old = contents(datatype, max_datatypes)?;
        array_of_datatypes.set("array_of_datatypes", old)
    }

    /// MPI-5.0 §19.1.9
    fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) {
        let found = datatype::of_class_and_size(typeclass, size).ok_or_else(|| {
            fault(MPI_ERR_ARG, format_args!("there is no type of class {typeclass} with {size} bytes"))
        })?;
        datatype.set("datatype", found)
    }

    /// The predefined pair of two types, or MPI_DATATYPE_NULL.
    fn MPI_Type_get_value_index(value_type: MPI_Datatype, index_type: MPI_Datatype, pair_type: Out<MPI_Datatype>) {
        layout(value_type, "value_type")?;
        layout(index_type, "index_type")?;
        let pair = match (value_type, index_type) {
            (MPI_FLOAT, MPI_INT) => MPI_FLOAT_INT,
            (MPI_DOUBLE, MPI_INT) => MPI_DOUBLE_INT,
            (MPI_LONG, MPI_INT) => MPI_LONG_INT,
            (MPI_INT, MPI_INT) => MPI_2INT,
            (MPI_SHORT, MPI_INT) => MPI_SHORT_INT,
            (MPI_LONG_DOUBLE, MPI_INT) => MPI_LONG_DOUBLE_INT,
            (MPI_REAL, MPI_REAL) => MPI_2REAL,
            (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION) => MPI_2DOUBLE_PRECISION,
            (MPI_INTEGER, MPI_INTEGER) => MPI_2INTEGER,
            _ => MPI_DATATYPE_NULL,
        };
        pair_type.set("pair_type", pair)
    }
}
