//! Parts of arrays: `MPI_Type_create_subarray` and `MPI_Type_create_darray` (MPI-5.0 §5.1.3, §5.1.4).
//!
//! Both are built from the innermost dimension outwards. Each dimension keeps some of its indices; the type
//! so far is one index of the next dimension, whose distance in memory is the product of the sizes inside.

use super::Type;
use super::make::{Made, too_large};
use crate::abi::*;
use crate::fault::{Fault, fault};
use ayatori_core::layout::Layout;
use std::ffi::c_int;

/// Which dimension is innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The last.
    C,
    /// The first.
    Fortran,
}

impl Order {
    /// The order of a C value.
    pub(crate) fn of(order: c_int) -> Result<Self, Fault> {
        match order {
            MPI_ORDER_C => Ok(Self::C),
            MPI_ORDER_FORTRAN => Ok(Self::Fortran),
            _ => Err(fault(
                MPI_ERR_ARG,
                format_args!("argument order ({order}) is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN"),
            )),
        }
    }
}

/// The indices kept of one dimension: `blocks` blocks of `len`, one every `stride` from `first` on, then one
/// of `tail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    size: MPI_Count,
    first: MPI_Count,
    blocks: MPI_Count,
    len: MPI_Count,
    stride: MPI_Count,
    tail: MPI_Count,
}

fn bytes(index: MPI_Count, pitch: isize) -> Result<isize, Fault> {
    isize::try_from(index).ok().and_then(|index| index.checked_mul(pitch)).ok_or_else(too_large)
}

/// Keeps these indices of each dimension; the first given is the outermost in C's order.
fn keep(ty: &Type, dimensions: &[Kept], order: Order, made: Made) -> Result<Type, Fault> {
    let mut pitch = ty.layout.extent();
    let mut layout = ty.layout.clone();
    let mut add = |kept: &Kept| -> Result<(), Fault> {
        let block = layout.repeat(kept.len as usize, pitch)?;
        let blocks = block.repeat(kept.blocks as usize, bytes(kept.stride, pitch)?)?;
        let tail = layout.repeat(kept.tail as usize, pitch)?;
        let tail_at = kept.stride.checked_mul(kept.blocks).and_then(|at| at.checked_add(kept.first));
        let tail_at = bytes(tail_at.ok_or_else(too_large)?, pitch)?;
        layout = Layout::structure([(1, bytes(kept.first, pitch)?, &blocks), (1, tail_at, &tail)])?;
        pitch = bytes(kept.size, pitch)?;
        Ok(())
    };
    match order {
        Order::C => dimensions.iter().rev().try_for_each(&mut add)?,
        Order::Fortran => dimensions.iter().try_for_each(&mut add)?,
    }
    ty.array(layout.resized(0, pitch)?, made)
}

/// `MPI_Type_create_subarray`: per dimension its size, the number of indices kept, and the first one.
pub(crate) fn subarray(
    ty: &Type,
    dimensions: &[(MPI_Count, MPI_Count, MPI_Count)],
    order: Order,
    made: Made,
) -> Result<Type, Fault> {
    let kept = dimensions.iter().enumerate().map(|(at, &(size, subsize, start))| {
        if size < 1 || subsize < 1 || subsize > size || start < 0 || start > size - subsize {
            return Err(fault(
                MPI_ERR_ARG,
                format_args!("dimension {at}: {subsize} from {start} on of {size} are no part of the array"),
            ));
        }
        Ok(Kept { size, first: start, blocks: 1, len: subsize, stride: subsize, tail: 0 })
    });
    keep(ty, &kept.collect::<Result<Vec<_>, _>>()?, order, made)
}

/// A dimension of a distributed array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    /// Size of the whole array.
    pub(crate) size: MPI_Count,
    /// `MPI_DISTRIBUTE_…`
    pub(crate) distribution: c_int,
    /// Its argument: the block's length.
    pub(crate) argument: c_int,
    /// How many processes share it.
    pub(crate) processes: c_int,
}

impl Dimension {
    /// What the process at `coordinate` has.
    fn kept(self, at: usize, coordinate: MPI_Count) -> Result<Kept, Fault> {
        let wrong = |what: &str| Err(fault(MPI_ERR_ARG, format_args!("dimension {at}: {what}")));
        let (size, processes) = (self.size, MPI_Count::from(self.processes));
        if size < 1 {
            return wrong("its size is less than 1");
        }
        if size > MPI_Count::MAX / 4 {
            return Err(too_large());
        }
        let is_default = self.argument == MPI_DISTRIBUTE_DFLT_DARG;
        if !is_default && self.argument < 1 && self.distribution != MPI_DISTRIBUTE_NONE {
            return wrong("the argument of its distribution is less than 1");
        }
        let len = match (self.distribution, is_default) {
            (MPI_DISTRIBUTE_NONE, _) if processes != 1 => {
                return wrong("MPI_DISTRIBUTE_NONE is for one process");
            }
            (MPI_DISTRIBUTE_NONE, _) => size,
            (MPI_DISTRIBUTE_BLOCK, true) => (size + processes - 1) / processes,
            (MPI_DISTRIBUTE_BLOCK, false) if MPI_Count::from(self.argument) * processes < size => {
                return wrong("blocks of this length leave indices over");
            }
            (MPI_DISTRIBUTE_CYCLIC, true) => 1,
            (MPI_DISTRIBUTE_BLOCK | MPI_DISTRIBUTE_CYCLIC, false) => self.argument.into(),
            _ => return wrong("its distribution is not one of the standard's"),
        };
        // A block distribution is a cyclic one whose first round takes all.
        let (first, stride) = (coordinate * len, processes * len);
        let rest = (size - first).max(0);
        let (rounds, last) = (rest / stride, rest % stride);
        let (blocks, tail) = if last >= len { (rounds + 1, 0) } else { (rounds, last) };
        Ok(Kept { size, first, blocks, len, stride, tail })
    }
}

/// `MPI_Type_create_darray`: what the process `rank` of a grid in row-major order has.
pub(crate) fn darray(
    ty: &Type,
    (processes, rank): (c_int, c_int),
    dimensions: &[Dimension],
    order: Order,
    made: Made,
) -> Result<Type, Fault> {
    let wrong = |what: &str| Err(fault(MPI_ERR_ARG, format_args!("{what}")));
    if rank < 0 || rank >= processes {
        return wrong("argument rank is not between 0 and size - 1");
    }
    let grid = dimensions.iter().map(|dimension| dimension.processes);
    if grid.clone().any(|processes| processes < 1) {
        return wrong("an element of array_of_psizes is less than 1");
    }
    if grid.clone().try_fold(1, c_int::checked_mul) != Some(processes) {
        return wrong("the product of array_of_psizes is not size");
    }
    let mut rest = rank;
    let mut kept = vec![None; dimensions.len()];
    for (at, dimension) in dimensions.iter().enumerate().rev() {
        kept[at] = Some(dimension.kept(at, (rest % dimension.processes).into())?);
        rest /= dimension.processes;
    }
    keep(ty, &kept.into_iter().flatten().collect::<Vec<_>>(), order, made)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices that a process has, one by one.
    fn indices(kept: Kept) -> Vec<MPI_Count> {
        let blocks = (0..kept.blocks).flat_map(|block| (0..kept.len).map(move |i| block * kept.stride + i));
        let tail = (0..kept.tail).map(|i| kept.blocks * kept.stride + i);
        blocks.chain(tail).map(|index| kept.first + index).collect()
    }

    #[test]
    fn each_index_belongs_to_one_process_of_the_grid() {
        for (distribution, argument) in [
            (MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG),
            (MPI_DISTRIBUTE_BLOCK, 9),
            (MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG),
            (MPI_DISTRIBUTE_CYCLIC, 2),
            (MPI_DISTRIBUTE_CYCLIC, 7),
        ] {
            for (size, processes) in [(1, 1), (1, 3), (17, 3), (18, 3), (10, 4), (9, 5)] {
                if distribution == MPI_DISTRIBUTE_BLOCK && argument * processes < size {
                    continue;
                }
                let dimension = Dimension { size: size.into(), distribution, argument, processes };
                let mut owners = vec![0; size as usize];
                for coordinate in 0..processes {
                    let kept = dimension.kept(0, coordinate.into()).unwrap();
                    indices(kept).iter().for_each(|index| owners[*index as usize] += 1);
                }
                assert!(owners.iter().all(|owners| *owners == 1), "{dimension:?}: {owners:?}");
            }
        }
    }
}
