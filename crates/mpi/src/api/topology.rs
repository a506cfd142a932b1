//! Chapter "topology" (MPI-5.0 §8).

use crate::abi::*;
use crate::arguments::*;
use crate::fault::fault;
use crate::state::process;
use crate::topology::balanced_dimensions;
use std::ffi::c_int;

api! {
    /// No communicator has a topology yet.
    fn MPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        process()?.comms.get(comm, "comm")?;
        status.set("status", MPI_UNDEFINED)
    }

    /// Dimensions that are not 0 are kept. The others differ as little as can be: see `balanced_dimensions`.
    fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: InOut<c_int>) {
        let given = In::from(dims).to_vec("dims", ndims)?;
        if nnodes < 1 {
            return Err(fault(MPI_ERR_ARG, format_args!("argument nnodes ({nnodes}) is not positive")));
        }
        if let Some(negative) = given.iter().find(|d| **d < 0) {
            return Err(fault(MPI_ERR_DIMS, format_args!("argument dims has the negative dimension {negative}")));
        }
        let fixed = given.iter().filter(|d| **d > 0).try_fold(1_i32, |product, d| product.checked_mul(*d));
        let free_count = given.iter().filter(|d| **d == 0).count();
        let rest = match fixed {
            Some(fixed) if nnodes % fixed == 0 && (free_count > 0 || fixed == nnodes) => nnodes / fixed,
            _ => {
                return Err(fault(
                    MPI_ERR_DIMS,
                    format_args!("the dimensions given in argument dims do not divide nnodes ({nnodes})"),
                ));
            }
        };
        let mut made = balanced_dimensions(rest as u32, free_count).into_iter();
        for (i, _) in given.iter().enumerate().filter(|(_, d)| **d == 0) {
            dims.set_at("dims", i, made.next().map_or(1, |d| d as c_int))?;
        }
        Ok(())
    }
}
