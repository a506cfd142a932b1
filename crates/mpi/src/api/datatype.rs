//! Chapter "datatype": addresses, and what predefined types are (MPI-5.0 §5).

use crate::abi::*;

api! {
    /// Sum of an address and a displacement, wrapping as C pointers do on every machine MPI runs on.
    fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
        base.wrapping_add(disp)
    }

    /// Difference of two addresses.
    fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
        addr1.wrapping_sub(addr2)
    }
}
