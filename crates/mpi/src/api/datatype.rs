//! Chapter "datatype": addresses, what datatypes are, and their contents (MPI-5.0 §5, §7.8). Constructors are
//! in `create`, packing in `pack`.

pub(super) mod create;
mod pack;

pub(crate) use create::*;
pub(crate) use pack::*;

use crate::abi::*;
use crate::arguments::*;
use crate::attribute::copy_all;
use crate::datatype::{self, Datatype, Made, Type, get};
use crate::fault::{Fault, fault};
use crate::handle::bad;
use crate::holder::Holder;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A size or bound in an `int`, `MPI_Aint` or `MPI_Count`, or MPI_UNDEFINED where it is more than that holds
/// (MPI-5.0 §5.1.5).
fn fitting<T: TryFrom<V> + From<i16>, V>(bytes: V) -> T {
    T::try_from(bytes).unwrap_or_else(|_| T::from(MPI_UNDEFINED as i16))
}

fn size<T: TryFrom<usize> + From<i16> + Copy>(datatype: MPI_Datatype, size: Out<T>) -> Result<(), Fault> {
    size.set("size", fitting(get(datatype, "datatype")?.layout.size()))
}

fn extent<T: TryFrom<isize> + From<i16> + Copy>(
    datatype: MPI_Datatype,
    (lb, extent): (Out<T>, Out<T>),
) -> Result<(), Fault> {
    let ty = get(datatype, "datatype")?;
    lb.set("lb", fitting(ty.layout.lower_bound()))?;
    extent.set("extent", fitting(ty.layout.extent()))
}

fn true_extent<T: TryFrom<isize> + From<i16> + Copy>(
    datatype: MPI_Datatype,
    (lb, extent): (Out<T>, Out<T>),
) -> Result<(), Fault> {
    let ty = get(datatype, "datatype")?;
    lb.set("true_lb", fitting(ty.layout.true_lower_bound()))?;
    extent.set("true_extent", fitting(ty.layout.true_extent()))
}

/// How a type was made, where it may be asked with the small forms: not of a type made with large counts.
fn small_made(ty: &Type) -> Result<&Made, Fault> {
    if !ty.made.counts.is_empty() {
        return Err(fault(
            MPI_ERR_TYPE,
            format_args!("argument datatype was made with large counts: call the _c form"),
        ));
    }
    Ok(&ty.made)
}

/// The contents of a type, if the caller's arrays hold them. `most`: how many integers, addresses, counts,
/// types.
fn check_contents(ty: &Type, most: [MPI_Count; 4]) -> Result<(), Fault> {
    let made = &ty.made;
    if made.combiner == MPI_COMBINER_NAMED {
        return Err(fault(MPI_ERR_TYPE, format_args!("argument datatype is predefined: it has no contents")));
    }
    let have = [made.integers.len(), made.addresses.len(), made.counts.len(), made.types.len()];
    for ((have, most), what) in
        have.iter().zip(most).zip(["integers", "addresses", "large_counts", "datatypes"])
    {
        if most < *have as MPI_Count {
            return Err(fault(
                MPI_ERR_ARG,
                format_args!("argument max_{what} is {most}, the type has {have}"),
            ));
        }
    }
    Ok(())
}

/// Handles of the types a type was made from: of predefined ones, named or not, their own, else new ones that
/// the caller frees.
fn contained(ty: &Type) -> Result<Vec<MPI_Datatype>, Fault> {
    let own: Vec<_> =
        ty.made.types.iter().map(|old| old.handle.or_else(|| datatype::f90_handle(old))).collect();
    let mut types = datatype::table()?;
    types.check_room(own.iter().filter(|own| own.is_none()).count())?;
    let of = |(old, own): (&Arc<Type>, Option<MPI_Datatype>)| match own {
        Some(handle) => Ok(handle),
        None => types.insert(Datatype { is_committed: true, ..Datatype::new(old.clone()) }),
    };
    ty.made.types.iter().zip(own).map(of).collect()
}

/// Checks that a type may be freed.
fn check_freeable(handle: MPI_Datatype) -> Result<(), Fault> {
    if datatype::table()?.get(handle, "datatype")?.is_permanent {
        Err(bad(handle, "datatype"))
    } else {
        Ok(())
    }
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
        self::size(datatype, size)
    }

    /// MPI-5.0 §5.1.5
    fn MPI_Type_size_c(datatype: MPI_Datatype, size: Out<MPI_Count>) {
        self::size(datatype, size)
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Type_size_x(datatype: MPI_Datatype, size: Out<MPI_Count>) {
        self::size(datatype, size)
    }

    /// MPI-5.0 §5.1.7
    fn MPI_Type_get_extent(datatype: MPI_Datatype, lb: Out<MPI_Aint>, extent: Out<MPI_Aint>) {
        self::extent(datatype, (lb, extent))
    }

    /// MPI-5.0 §5.1.7
    fn MPI_Type_get_extent_c(datatype: MPI_Datatype, lb: Out<MPI_Count>, extent: Out<MPI_Count>) {
        self::extent(datatype, (lb, extent))
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Type_get_extent_x(datatype: MPI_Datatype, lb: Out<MPI_Count>, extent: Out<MPI_Count>) {
        self::extent(datatype, (lb, extent))
    }

    /// MPI-5.0 §5.1.8
    fn MPI_Type_get_true_extent(datatype: MPI_Datatype, true_lb: Out<MPI_Aint>, true_extent: Out<MPI_Aint>) {
        self::true_extent(datatype, (true_lb, true_extent))
    }

    /// MPI-5.0 §5.1.8
    fn MPI_Type_get_true_extent_c(
        datatype: MPI_Datatype,
        true_lb: Out<MPI_Count>,
        true_extent: Out<MPI_Count>,
    ) {
        self::true_extent(datatype, (true_lb, true_extent))
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Type_get_true_extent_x(
        datatype: MPI_Datatype,
        true_lb: Out<MPI_Count>,
        true_extent: Out<MPI_Count>,
    ) {
        self::true_extent(datatype, (true_lb, true_extent))
    }

    /// MPI-5.0 §7.8
    fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: Text) {
        let name = super::comm::object_name(type_name, "type_name")?;
        datatype::table()?.get_mut(datatype, "datatype")?.name = name;
        Ok(())
    }

    /// MPI-5.0 §7.8
    fn MPI_Type_get_name(datatype: MPI_Datatype, type_name: OutText, resultlen: Out<c_int>) {
        let name = match datatype {
            MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL".to_vec(),
            datatype => datatype::table()?.get(datatype, "datatype")?.name.clone(),
        };
        let length = type_name.set("type_name", &name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set("resultlen", length)
    }

    /// Layouts are ready when made, so there is nothing to prepare but the permission to communicate.
    fn MPI_Type_commit(datatype: InOut<MPI_Datatype>) {
        datatype::table()?.get_mut(datatype.get("datatype")?, "datatype")?.is_committed = true;
        Ok(())
    }

    /// The attributes' copy functions are called.
    fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        let list = datatype::table()?.get(oldtype, "oldtype")?.attributes.list();
        let attributes = copy_all(oldtype.0, &list)?;
        let mut types = datatype::table()?;
        let old = types.get(oldtype, "oldtype")?;
        let (is_committed, ty) = (old.is_committed, Arc::new(old.ty.duplicate()));
        let handle = types.insert(Datatype { attributes, is_committed, ..Datatype::new(ty) })?;
        newtype.set("newtype", handle)
    }

    /// The attributes' delete functions are called. Operations under way keep what they need.
    fn MPI_Type_free(datatype: InOut<MPI_Datatype>) {
        let handle = datatype.get("datatype")?;
        check_freeable(handle)?;
        Holder::Type(handle).delete_all()?;
        datatype::table()?.remove(handle, "datatype")?;
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
        let ty = get(datatype, "datatype")?;
        let made = small_made(&ty)?;
        num_integers.set("num_integers", fitting(made.integers.len()))?;
        num_addresses.set("num_addresses", fitting(made.addresses.len()))?;
        num_datatypes.set("num_datatypes", fitting(made.types.len()))?;
        combiner.set("combiner", made.combiner)
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
        let ty = get(datatype, "datatype")?;
        num_integers.set("num_integers", fitting(ty.made.integers.len()))?;
        num_addresses.set("num_addresses", fitting(ty.made.addresses.len()))?;
        num_large_counts.set("num_large_counts", fitting(ty.made.counts.len()))?;
        num_datatypes.set("num_datatypes", fitting(ty.made.types.len()))?;
        combiner.set("combiner", ty.made.combiner)
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
        let ty = get(datatype, "datatype")?;
        let made = small_made(&ty)?;
        check_contents(&ty, [max_integers.into(), max_addresses.into(), 0, max_datatypes.into()])?;
        array_of_integers.set_all("array_of_integers", &made.integers)?;
        array_of_addresses.set_all("array_of_addresses", &made.addresses)?;
        array_of_datatypes.set_all("array_of_datatypes", &contained(&ty)?)
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
        let ty = get(datatype, "datatype")?;
        check_contents(&ty, [max_integers, max_addresses, max_large_counts, max_datatypes])?;
        array_of_integers.set_all("array_of_integers", &ty.made.integers)?;
        array_of_addresses.set_all("array_of_addresses", &ty.made.addresses)?;
        array_of_large_counts.set_all("array_of_large_counts", &ty.made.counts)?;
        array_of_datatypes.set_all("array_of_datatypes", &contained(&ty)?)
    }

    /// MPI-5.0 §19.1.9
    fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) {
        let found = datatype::of_class_and_size(typeclass, size).ok_or_else(|| {
            fault(MPI_ERR_ARG, format_args!("there is no type of class {typeclass} with {size} bytes"))
        })?;
        datatype.set("datatype", found)
    }

    /// The predefined pair of two types, or MPI_DATATYPE_NULL.
    fn MPI_Type_get_value_index(
        value_type: MPI_Datatype,
        index_type: MPI_Datatype,
        pair_type: Out<MPI_Datatype>,
    ) {
        get(value_type, "value_type")?;
        get(index_type, "index_type")?;
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
