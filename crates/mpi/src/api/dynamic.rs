//! Chapter "dynamic": processes that MPI starts, and jobs that meet (MPI-5.0 §11.8 to §11.10).

use crate::abi::*;
use crate::arguments::*;
use crate::handle::bad;
use crate::runtime::wait::complete;
use crate::state::process;

api! {
    /// No process is started by `MPI_Comm_spawn` yet, so none has a parent.
    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) {
        drop(process()?);
        parent.set("parent", MPI_COMM_NULL)
    }

    /// All members call. What was sent has been received when it returns, so members that share nothing else
    /// may go their ways.
    fn MPI_Comm_disconnect(comm: InOut<MPI_Comm>) {
        let handle = comm.get("comm")?;
        if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
            return Err(bad(handle, "comm"));
        }
        let mut process = process()?;
        let id = process.comms.get(handle, "comm")?.id();
        let posted = process.engine().begin_barrier(id).map_err(|fault| fault.on(handle))?;
        complete(process, posted, handle).map_err(|fault| fault.on(handle))?;
        super::comm::free(handle)?;
        comm.set("comm", MPI_COMM_NULL)
    }
}
