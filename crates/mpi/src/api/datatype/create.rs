//! Constructors of datatypes (MPI-5.0 §5.1.2 to §5.1.4, §19.1.9). The `_c` form of each has counts and
//! displacements of 64 bits and is otherwise the same.

use crate::abi::*;
use crate::arguments::*;
use crate::datatype::{self, Block, Datatype, Dimension, Made, Order, Type, Width, get};
use crate::fault::{Fault, fault};
use std::ffi::c_int;
use std::sync::Arc;

/// An integer argument of either form.
trait Number: Copy {
    /// In 64 bits.
    fn wide(self) -> MPI_Count;
}

impl Number for c_int {
    fn wide(self) -> MPI_Count {
        self.into()
    }
}

impl Number for MPI_Count {
    fn wide(self) -> MPI_Count {
        self
    }
}

impl Number for MPI_Aint {
    fn wide(self) -> MPI_Count {
        self as MPI_Count
    }
}

/// The elements of an array argument.
fn array<T: Number>(array: In<T>, name: &str, count: usize) -> Result<Vec<MPI_Count>, Fault> {
    (0..count).map(|i| array.get_at(name, i).map(Number::wide)).collect()
}

/// A block length, which is not negative.
fn length(value: MPI_Count, name: &str) -> Result<usize, Fault> {
    usize::try_from(value)
        .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument {name} is negative ({value})")))
}

/// A displacement in units, converted to bytes.
fn bytes(displacement: MPI_Count, unit: isize) -> Result<isize, Fault> {
    let displacement = isize::try_from(displacement).ok().and_then(|value| value.checked_mul(unit));
    displacement.ok_or_else(|| fault(MPI_ERR_ARG, format_args!("a displacement exceeds the address space")))
}

/// Gives a new type to the caller.
fn give(ty: Type, newtype: Out<MPI_Datatype>) -> Result<(), Fault> {
    let handle = datatype::table()?.insert(Datatype::new(Arc::new(ty)))?;
    newtype.set("newtype", handle)
}

fn contiguous(
    width: Width,
    count: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<(), Fault> {
    let (old, elements) = (get(oldtype, "oldtype")?, datatype::count(count, "count")?);
    let made = Made::from(MPI_COMBINER_CONTIGUOUS, &old).counts(width, [count]);
    give(old.vector(1, elements, 0, made)?, newtype)
}

fn vector(
    width: Width,
    (count, blocklength, stride): (MPI_Count, MPI_Count, MPI_Count),
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<(), Fault> {
    let old = get(oldtype, "oldtype")?;
    let (blocks, elements) = (datatype::count(count, "count")?, length(blocklength, "blocklength")?);
    let made = Made::from(MPI_COMBINER_VECTOR, &old).counts(width, [count, blocklength, stride]);
    give(old.vector(blocks, elements, bytes(stride, old.layout.extent())?, made)?, newtype)
}

fn hvector(
    width: Width,
    (count, blocklength, stride): (MPI_Count, MPI_Count, MPI_Count),
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<(), Fault> {
    let old = get(oldtype, "oldtype")?;
    let (blocks, elements) = (datatype::count(count, "count")?, length(blocklength, "blocklength")?);
    let made = Made::from(MPI_COMBINER_HVECTOR, &old).counts(width, [count, blocklength]);
    give(old.vector(blocks, elements, bytes(stride, 1)?, made.addresses(width, [stride]))?, newtype)
}

/// The lengths of `count` blocks: one per block, or one for all.
enum Lengths<T> {
    Each(In<T>),
    All(MPI_Count),
}

/// Block lengths and displacements, as the caller gave them and in bytes.
struct Blocks {
    lengths: Vec<MPI_Count>,
    displacements: Vec<MPI_Count>,
    placed: Vec<Block>,
}

fn blocks<L: Number, D: Number>(
    count: MPI_Count,
    lengths: Lengths<L>,
    displacements: In<D>,
    unit: isize,
) -> Result<Blocks, Fault> {
    let count = datatype::count(count, "count")?;
    let displacements = array(displacements, "array_of_displacements", count)?;
    let (lengths, name, repeated) = match lengths {
        Lengths::Each(lengths) => {
            (array(lengths, "array_of_blocklengths", count)?, "array_of_blocklengths", None)
        }
        Lengths::All(value) => (vec![value], "blocklength", Some(length(value, "blocklength")?)),
    };
    let mut placed = Vec::with_capacity(count);
    for (i, displacement) in displacements.iter().enumerate() {
        let elements = match repeated {
            Some(elements) => elements,
            None => length(lengths[i], name)?,
        };
        placed.push((elements, bytes(*displacement, unit)?));
    }
    Ok(Blocks { lengths, displacements, placed })
}

/// `MPI_Type_indexed` and `MPI_Type_create_indexed_block`: displacements in extents, which count as counts.
fn indexed<L: Number, D: Number>(
    (width, combiner): (Width, c_int),
    count: MPI_Count,
    lengths: Lengths<L>,
    displacements: In<D>,
    (oldtype, newtype): (MPI_Datatype, Out<MPI_Datatype>),
) -> Result<(), Fault> {
    let old = get(oldtype, "oldtype")?;
    let blocks = blocks(count, lengths, displacements, old.layout.extent())?;
    let made = Made::from(combiner, &old).counts(width, [count]).counts(width, blocks.lengths);
    give(old.indexed(&blocks.placed, made.counts(width, blocks.displacements))?, newtype)
}

/// `MPI_Type_create_hindexed` and `MPI_Type_create_hindexed_block`: displacements in bytes, which count as
/// addresses.
fn hindexed<L: Number, D: Number>(
    (width, combiner): (Width, c_int),
    count: MPI_Count,
    lengths: Lengths<L>,
    displacements: In<D>,
    (oldtype, newtype): (MPI_Datatype, Out<MPI_Datatype>),
) -> Result<(), Fault> {
    let old = get(oldtype, "oldtype")?;
    let blocks = blocks(count, lengths, displacements, 1)?;
    let made = Made::from(combiner, &old).counts(width, [count]).counts(width, blocks.lengths);
    give(old.indexed(&blocks.placed, made.addresses(width, blocks.displacements))?, newtype)
}

fn structure<L: Number, D: Number>(
    width: Width,
    count: MPI_Count,
    (lengths, displacements): (In<L>, In<D>),
    array_of_types: In<MPI_Datatype>,
    newtype: Out<MPI_Datatype>,
) -> Result<(), Fault> {
    let blocks = blocks(count, Lengths::Each(lengths), displacements, 1)?;
    let old = |i| get(array_of_types.get_at("array_of_types", i)?, "array_of_types");
    let made = Made {
        combiner: MPI_COMBINER_STRUCT,
        types: (0..blocks.placed.len()).map(old).collect::<Result<_, _>>()?,
        ..Made::default()
    };
    let made = made.counts(width, [count]).counts(width, blocks.lengths);
    give(Type::structure(&blocks.placed, made.addresses(width, blocks.displacements))?, newtype)
}

fn resized(
    width: Width,
    (lb, extent): (MPI_Count, MPI_Count),
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<(), Fault> {
    let old = get(oldtype, "oldtype")?;
    let made = Made::from(MPI_COMBINER_RESIZED, &old).addresses(width, [lb, extent]);
    give(old.resized(bytes(lb, 1)?, bytes(extent, 1)?, made)?, newtype)
}

fn dimensions(ndims: c_int) -> Result<usize, Fault> {
    match usize::try_from(ndims) {
        Ok(ndims @ 1..) => Ok(ndims),
        _ => Err(fault(MPI_ERR_ARG, format_args!("argument ndims ({ndims}) is less than 1"))),
    }
}

fn subarray<T: Number>(
    width: Width,
    ndims: c_int,
    [sizes, subsizes, starts]: [In<T>; 3],
    order: c_int,
    (oldtype, newtype): (MPI_Datatype, Out<MPI_Datatype>),
) -> Result<(), Fault> {
    let (old, count) = (get(oldtype, "oldtype")?, dimensions(ndims)?);
    let sizes = array(sizes, "array_of_sizes", count)?;
    let subsizes = array(subsizes, "array_of_subsizes", count)?;
    let starts = array(starts, "array_of_starts", count)?;
    let parts: Vec<_> = (0..count).map(|i| (sizes[i], subsizes[i], starts[i])).collect();
    let made = Made::from(MPI_COMBINER_SUBARRAY, &old).integers([ndims]);
    let made = made.counts(width, sizes).counts(width, subsizes).counts(width, starts).integers([order]);
    give(datatype::subarray(&old, &parts, Order::of(order)?, made)?, newtype)
}

fn darray<T: Number>(
    width: Width,
    (size, rank, ndims): (c_int, c_int, c_int),
    gsizes: In<T>,
    [distribs, dargs, psizes]: [In<c_int>; 3],
    order: c_int,
    (oldtype, newtype): (MPI_Datatype, Out<MPI_Datatype>),
) -> Result<(), Fault> {
    let (old, count) = (get(oldtype, "oldtype")?, dimensions(ndims)?);
    let gsizes = array(gsizes, "array_of_gsizes", count)?;
    let distribs = distribs.to_vec("array_of_distribs", ndims)?;
    let dargs = dargs.to_vec("array_of_dargs", ndims)?;
    let psizes = psizes.to_vec("array_of_psizes", ndims)?;
    let dimension = |i: usize| Dimension {
        size: gsizes[i],
        distribution: distribs[i],
        argument: dargs[i],
        processes: psizes[i],
    };
    let parts: Vec<_> = (0..count).map(dimension).collect();
    let made = Made::from(MPI_COMBINER_DARRAY, &old).integers([size, rank, ndims]).counts(width, gsizes);
    let made = made.integers(distribs).integers(dargs).integers(psizes).integers([order]);
    give(datatype::darray(&old, (size, rank), &parts, Order::of(order)?, made)?, newtype)
}

/// The constructors with counts of either width.
macro_rules! constructors {
    ($($width:ident $count:ty, $address:ty, $contiguous:ident $vector:ident $hvector:ident $indexed:ident $hindexed:ident
       $indexed_block:ident $hindexed_block:ident $struct:ident $resized:ident $subarray:ident $darray:ident;)*) => {$(
        api! {
            /// MPI-5.0 §5.1.2
            fn $contiguous(count: $count, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                contiguous(Width::$width, count.wide(), oldtype, newtype)
            }
            /// MPI-5.0 §5.1.2
            fn $vector(count: $count, blocklength: $count, stride: $count, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                vector(Width::$width, (count.wide(), blocklength.wide(), stride.wide()), oldtype, newtype)
            }
            /// MPI-5.0 §5.1.2
            fn $hvector(count: $count, blocklength: $count, stride: $address, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                hvector(Width::$width, (count.wide(), blocklength.wide(), stride.wide()), oldtype, newtype)
            }
            /// MPI-5.0 §5.1.2
            fn $indexed(count: $count, array_of_blocklengths: In<$count>, array_of_displacements: In<$count>, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                let lengths = Lengths::Each(array_of_blocklengths);
                indexed((Width::$width, MPI_COMBINER_INDEXED), count.wide(), lengths, array_of_displacements, (oldtype, newtype))
            }
            /// MPI-5.0 §5.1.2
            fn $hindexed(count: $count, array_of_blocklengths: In<$count>, array_of_displacements: In<$address>, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                let lengths = Lengths::Each(array_of_blocklengths);
                hindexed((Width::$width, MPI_COMBINER_HINDEXED), count.wide(), lengths, array_of_displacements, (oldtype, newtype))
            }
            /// MPI-5.0 §5.1.2
            fn $indexed_block(count: $count, blocklength: $count, array_of_displacements: In<$count>, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                let lengths = Lengths::<$count>::All(blocklength.wide());
                indexed((Width::$width, MPI_COMBINER_INDEXED_BLOCK), count.wide(), lengths, array_of_displacements, (oldtype, newtype))
            }
            /// MPI-5.0 §5.1.2
            fn $hindexed_block(count: $count, blocklength: $count, array_of_displacements: In<$address>, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                let lengths = Lengths::<$count>::All(blocklength.wide());
                hindexed((Width::$width, MPI_COMBINER_HINDEXED_BLOCK), count.wide(), lengths, array_of_displacements, (oldtype, newtype))
            }
            /// MPI-5.0 §5.1.2
            fn $struct(count: $count, array_of_blocklengths: In<$count>, array_of_displacements: In<$address>, array_of_types: In<MPI_Datatype>, newtype: Out<MPI_Datatype>) {
                structure(Width::$width, count.wide(), (array_of_blocklengths, array_of_displacements), array_of_types, newtype)
            }
            /// MPI-5.0 §5.1.7
            fn $resized(oldtype: MPI_Datatype, lb: $address, extent: $address, newtype: Out<MPI_Datatype>) {
                resized(Width::$width, (lb.wide(), extent.wide()), oldtype, newtype)
            }
            /// MPI-5.0 §5.1.3
            fn $subarray(ndims: c_int, array_of_sizes: In<$count>, array_of_subsizes: In<$count>, array_of_starts: In<$count>, order: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                let arrays = [array_of_sizes, array_of_subsizes, array_of_starts];
                subarray(Width::$width, ndims, arrays, order, (oldtype, newtype))
            }
            /// MPI-5.0 §5.1.4
            fn $darray(size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: In<$count>, array_of_distribs: In<c_int>, array_of_dargs: In<c_int>, array_of_psizes: In<c_int>, order: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
                let arrays = [array_of_distribs, array_of_dargs, array_of_psizes];
                darray(Width::$width, (size, rank, ndims), array_of_gsizes, arrays, order, (oldtype, newtype))
            }
        }
    )*};
}

constructors! {
    Small c_int, isize, MPI_Type_contiguous MPI_Type_vector MPI_Type_create_hvector MPI_Type_indexed
        MPI_Type_create_hindexed MPI_Type_create_indexed_block MPI_Type_create_hindexed_block MPI_Type_create_struct
        MPI_Type_create_resized MPI_Type_create_subarray MPI_Type_create_darray;
    Large i64, i64, MPI_Type_contiguous_c MPI_Type_vector_c MPI_Type_create_hvector_c MPI_Type_indexed_c
        MPI_Type_create_hindexed_c MPI_Type_create_indexed_block_c MPI_Type_create_hindexed_block_c MPI_Type_create_struct_c
        MPI_Type_create_resized_c MPI_Type_create_subarray_c MPI_Type_create_darray_c;
}

api! {
    /// MPI-5.0 §19.1.9
    fn MPI_Type_create_f90_integer(r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.set("newtype", datatype::f90(MPI_COMBINER_F90_INTEGER, r, MPI_UNDEFINED)?)
    }

    /// MPI-5.0 §19.1.9
    fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.set("newtype", datatype::f90(MPI_COMBINER_F90_REAL, p, r)?)
    }

    /// MPI-5.0 §19.1.9
    fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.set("newtype", datatype::f90(MPI_COMBINER_F90_COMPLEX, p, r)?)
    }
}
