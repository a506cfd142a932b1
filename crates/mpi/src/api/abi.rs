//! Chapter "abi": conversion of handles to and from Fortran's integers (MPI-5.0 §20.4).
//!
//! Every handle of ours fits an `int` (see `handle`), so the conversion is a cast.

use crate::abi::*;
use std::ffi::c_int;

api! {
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
