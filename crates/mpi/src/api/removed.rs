//! The ten functions that MPI-3.0 removed, for old programs: each is another name of its successor, or a part
//! of it. They are not in the tables of the ABI; `mpi.h` declares them where AYATORI_REMOVED_FUNCTIONS is
//! defined.

use super::datatype::{self, create};
use super::error;
use crate::abi::*;
use crate::arguments::*;
use std::ffi::{c_int, c_void};

/// Exports each function by its two names, as `api!` does. It is called on the error handler of its
/// successor.
macro_rules! removed {
    [$($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) $body:expr;)*] => {$(
        $(#[$doc])*
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: the caller keeps the contract of the successor, which gets the same arguments.
            unsafe { $body }
        }
        alias!($name($($arg: $ty),*) -> c_int);
    )*};
}

/// A place for a result that is not asked for.
fn unasked(place: &mut MPI_Aint) -> Out<MPI_Aint> {
    Out::from_void(std::ptr::from_mut(place).cast())
}

/// The end of a datatype: what its lower bound and its extent make.
///
/// # Safety
/// As for `MPI_Type_get_extent`.
unsafe fn upper_bound(datatype: MPI_Datatype, displacement: Out<MPI_Aint>) -> c_int {
    let (mut lb, mut extent) = (0, 0);
    // SAFETY: the places live as long as the call.
    let code = unsafe { datatype::MPI_Type_get_extent(datatype, unasked(&mut lb), unasked(&mut extent)) };
    if code == MPI_SUCCESS && displacement.set("displacement", lb + extent).is_err() {
        return MPI_ERR_ARG;
    }
    code
}

removed![
    /// Now `MPI_Get_address`.
    MPI_Address(location: *const c_void, address: Out<MPI_Aint>)
        datatype::MPI_Get_address(location, address);
    /// Now `MPI_Comm_create_errhandler`.
    MPI_Errhandler_create(function: Callback, errhandler: Out<MPI_Errhandler>)
        error::MPI_Comm_create_errhandler(function, errhandler);
    /// Now `MPI_Comm_get_errhandler`.
    MPI_Errhandler_get(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>)
        error::MPI_Comm_get_errhandler(comm, errhandler);
    /// Now `MPI_Comm_set_errhandler`.
    MPI_Errhandler_set(comm: MPI_Comm, errhandler: MPI_Errhandler)
        error::MPI_Comm_set_errhandler(comm, errhandler);
    /// Now `MPI_Type_get_extent`.
    MPI_Type_extent(datatype: MPI_Datatype, extent: Out<MPI_Aint>)
        datatype::MPI_Type_get_extent(datatype, unasked(&mut 0), extent);
    /// Now `MPI_Type_get_extent`.
    MPI_Type_lb(datatype: MPI_Datatype, displacement: Out<MPI_Aint>)
        datatype::MPI_Type_get_extent(datatype, displacement, unasked(&mut 0));
    /// Now `MPI_Type_get_extent`.
    MPI_Type_ub(datatype: MPI_Datatype, displacement: Out<MPI_Aint>)
        upper_bound(datatype, displacement);
    /// Now `MPI_Type_create_hindexed`.
    MPI_Type_hindexed(
        count: c_int, lengths: In<c_int>, displacements: In<MPI_Aint>, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>
    ) create::MPI_Type_create_hindexed(count, lengths, displacements, oldtype, newtype);
    /// Now `MPI_Type_create_hvector`.
    MPI_Type_hvector(
        count: c_int, blocklength: c_int, stride: MPI_Aint, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>
    ) create::MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
    /// Now `MPI_Type_create_struct`.
    MPI_Type_struct(
        count: c_int, lengths: In<c_int>, displacements: In<MPI_Aint>, types: In<MPI_Datatype>, newtype: Out<MPI_Datatype>
    ) create::MPI_Type_create_struct(count, lengths, displacements, types, newtype);
];
