//! Chapter "dynamic": processes that MPI starts, and jobs that meet (MPI-5.0 §11.8 to §11.10).

use crate::abi::*;
use crate::arguments::*;
use crate::state::process;

api! {
    /// No process is started by `MPI_Comm_spawn` yet, so none has a parent.
    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) {
        drop(process()?);
        parent.set("parent", MPI_COMM_NULL)
    }
}
