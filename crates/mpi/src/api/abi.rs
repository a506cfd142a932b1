//! Chapter "abi": the version of the ABI, what Fortran is like, and handles as integers (MPI-5.0 §20).
//!
//! Every handle of ours fits an `int` (see `handle`), so that conversion is a cast. The library has no
//! Fortran part of its own; a Fortran binding on top of it says here what its compiler's types are.

use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::info::Info;
use crate::lock::locked;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::sync::{Mutex, MutexGuard};

static FORTRAN: Mutex<Fortran> = Mutex::new(Fortran::new());

fn fortran() -> MutexGuard<'static, Fortran> {
    locked(&FORTRAN)
}

/// What a Fortran binding said about its compiler.
struct Fortran {
    info: Option<Info>,
    /// For each size of LOGICAL in bytes the values that are true and false.
    booleans: BTreeMap<usize, [Vec<u8>; 2]>,
}

impl Fortran {
    const fn new() -> Self {
        Self { info: None, booleans: BTreeMap::new() }
    }
}

/// The size of a LOGICAL, which must be a power of two up to 16.
fn logical_bytes(size: c_int) -> Result<usize, Fault> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(fault(MPI_ERR_ARG, format_args!("argument logical_size ({size}) is not 1, 2, 4, 8 or 16"))),
    }
}

api! {
    /// The version of the binary interface, not of the library.
    fn MPI_Abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) {
        abi_major.set("abi_major", MPI_ABI_VERSION)?;
        abi_minor.set("abi_minor", MPI_ABI_SUBVERSION)
    }

    /// The sizes of the integer types, which the ABI leaves open.
    fn MPI_Abi_get_info(info: Out<MPI_Info>) {
        let mut sizes = Info::default();
        sizes.put("mpi_aint_size", &size_of::<MPI_Aint>().to_string());
        sizes.put("mpi_count_size", &size_of::<MPI_Count>().to_string());
        sizes.put("mpi_offset_size", &size_of::<MPI_Offset>().to_string());
        crate::info::give(sizes, "info", info)
    }

    /// MPI_INFO_NULL until it is set.
    fn MPI_Abi_get_fortran_info(info: Out<MPI_Info>) {
        let set = fortran().info.clone();
        match set {
            Some(set) => crate::info::give(set, "info", info),
            None => info.set("info", MPI_INFO_NULL),
        }
    }

    /// Can be set once.
    fn MPI_Abi_set_fortran_info(info: MPI_Info) {
        let set = crate::info::with(info, |info| Ok(info.clone()))?;
        let mut fortran = fortran();
        if fortran.info.is_some() {
            return Err(fault(MPI_ERR_ABI, format_args!("the Fortran information is set already")));
        }
        fortran.info = Some(set);
        Ok(())
    }

    /// `is_set` is false until they are set.
    fn MPI_Abi_get_fortran_booleans(
        logical_size: c_int,
        logical_true: *mut c_void,
        logical_false: *mut c_void,
        is_set: Out<c_int>,
    ) {
        let bytes = logical_bytes(logical_size)?;
        let found = fortran().booleans.get(&bytes).cloned();
        if let Some([yes, no]) = &found {
            Out::from_void(logical_true).set_all("logical_true", yes)?;
            Out::from_void(logical_false).set_all("logical_false", no)?;
        }
        is_set.set("is_set", c_int::from(found.is_some()))
    }

    /// Can be set once for each size.
    fn MPI_Abi_set_fortran_booleans(logical_size: c_int, logical_true: *mut c_void, logical_false: *mut c_void) {
        let bytes = logical_bytes(logical_size)?;
        let yes = In::from(Out::from_void(logical_true)).to_vec("logical_true", logical_size)?;
        let no = In::from(Out::from_void(logical_false)).to_vec("logical_false", logical_size)?;
        let booleans = &mut fortran().booleans;
        if booleans.contains_key(&bytes) {
            return Err(fault(MPI_ERR_ABI, format_args!("the values of a LOGICAL of {bytes} bytes are set already")));
        }
        booleans.insert(bytes, [yes, no]);
        Ok(())
    }

    /// The integer of a handle.
    fn MPI_Comm_toint(comm: MPI_Comm) -> c_int {
        comm.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Comm_fromint(comm: c_int) -> MPI_Comm {
        MPI_Comm(comm as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Errhandler_toint(errhandler: MPI_Errhandler) -> c_int {
        errhandler.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Errhandler_fromint(errhandler: c_int) -> MPI_Errhandler {
        MPI_Errhandler(errhandler as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_File_toint(file: MPI_File) -> c_int {
        file.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_File_fromint(file: c_int) -> MPI_File {
        MPI_File(file as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Group_toint(group: MPI_Group) -> c_int {
        group.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Group_fromint(group: c_int) -> MPI_Group {
        MPI_Group(group as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Info_toint(info: MPI_Info) -> c_int {
        info.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Info_fromint(info: c_int) -> MPI_Info {
        MPI_Info(info as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Message_toint(message: MPI_Message) -> c_int {
        message.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Message_fromint(message: c_int) -> MPI_Message {
        MPI_Message(message as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Op_toint(op: MPI_Op) -> c_int {
        op.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Op_fromint(op: c_int) -> MPI_Op {
        MPI_Op(op as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Request_toint(request: MPI_Request) -> c_int {
        request.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Request_fromint(request: c_int) -> MPI_Request {
        MPI_Request(request as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Session_toint(session: MPI_Session) -> c_int {
        session.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Session_fromint(session: c_int) -> MPI_Session {
        MPI_Session(session as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Type_toint(datatype: MPI_Datatype) -> c_int {
        datatype.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Type_fromint(datatype: c_int) -> MPI_Datatype {
        MPI_Datatype(datatype as u32 as usize)
    }
    /// The integer of a handle.
    fn MPI_Win_toint(win: MPI_Win) -> c_int {
        win.0 as c_int
    }
    /// The handle of an integer.
    fn MPI_Win_fromint(win: c_int) -> MPI_Win {
        MPI_Win(win as u32 as usize)
    }
}
