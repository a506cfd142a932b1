//! Chapter "error": error handlers, classes, codes and texts (MPI-5.0 §9.3 to §9.5).

use crate::abi::*;
use crate::arguments::*;
use crate::boundary::{describe, resolve};
use crate::errhandler::{self, Action, Kind, handlers};
use crate::error::codes;
use crate::fault::{Fault, Object, fault};
use crate::file;
use crate::session::{check as check_session, sessions};
use crate::state::process;
use crate::win;
use std::ffi::c_int;

/// Creates a handler for one kind of object.
fn create(kind: Kind, function: Callback, errhandler: Out<MPI_Errhandler>) -> Result<(), Fault> {
    let handler = handlers().create(kind, function)?;
    errhandler.set("errhandler", handler)
}

/// Calls what an object's handler does with a code, as `MPI_X_call_errhandler` asks: the call itself
/// succeeds.
fn call(on: Object, code: c_int) -> Result<(), Fault> {
    let (on, action) = resolve(on, false);
    match action {
        Action::Return => Ok(()),
        Action::Call(function) => {
            errhandler::call(function, on, code);
            Ok(())
        }
        Action::Fatal | Action::Abort => {
            let text = codes().text(code).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let object = describe(on);
            crate::runtime::exit::abort(code, &format!("the program raised error {code} on {object}: {text}"))
        }
    }
}

api! {
    /// MPI-5.0 §9.3.1
    fn MPI_Comm_create_errhandler(comm_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        create(Kind::Comm, comm_errhandler_fn, errhandler)
    }

    /// MPI-5.0 §9.3.2
    fn MPI_Win_create_errhandler(win_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        create(Kind::Win, win_errhandler_fn, errhandler)
    }

    /// MPI-5.0 §9.3.3
    fn MPI_File_create_errhandler(file_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        create(Kind::File, file_errhandler_fn, errhandler)
    }

    /// MPI-5.0 §9.3.4. Works before MPI_Init.
    fn MPI_Session_create_errhandler(session_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        create(Kind::Session, session_errhandler_fn, errhandler)
    }

    /// The old handler loses this communicator as a user, the new one gains it.
    fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) on comm {
        let mut process = process()?;
        let of_comm = &mut process.comms.get_mut(comm, "comm")?.errhandler;
        let mut handlers = handlers();
        let new = handlers.retain(errhandler, Kind::Comm)?;
        handlers.is_of_self_set |= comm == MPI_COMM_SELF;
        handlers.release(std::mem::replace(of_comm, new))
    }

    /// The handle is the caller's to free.
    fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>) on comm {
        let handler = process()?.comms.get(comm, "comm")?.errhandler;
        let handler = handlers().retain(handler, Kind::Comm)?;
        errhandler.set("errhandler", handler)
    }

    /// MPI-5.0 §9.5
    fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) on comm {
        process()?.comms.get(comm, "comm")?;
        call(Object::Comm(comm), errorcode)
    }

    /// The old handler loses this window as a user, the new one gains it.
    fn MPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) on win {
        let mut table = win::table()?;
        let win = table.get_mut(win, "win")?;
        let mut handlers = handlers();
        let new = handlers.retain(errhandler, Kind::Win)?;
        handlers.release(std::mem::replace(&mut win.errhandler, new))
    }

    /// The handle is the caller's to free.
    fn MPI_Win_get_errhandler(win: MPI_Win, errhandler: Out<MPI_Errhandler>) on win {
        let handler = win::table()?.get(win, "win")?.errhandler;
        let handler = handlers().retain(handler, Kind::Win)?;
        errhandler.set("errhandler", handler)
    }

    /// MPI-5.0 §9.5
    fn MPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) on win {
        win::table()?.get(win, "win")?;
        call(Object::Win(win), errorcode)
    }

    /// MPI_FILE_NULL: the handler of files to be opened.
    fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) on file {
        if file != MPI_FILE_NULL {
            return file::set_errhandler(file, errhandler);
        }
        let mut handlers = handlers();
        let new = handlers.retain(errhandler, Kind::File)?;
        let old = std::mem::replace(&mut handlers.of_no_file, new);
        handlers.release(old)
    }

    /// The handle is the caller's to free.
    fn MPI_File_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) on file {
        let own = errhandler_of_file(file)?;
        let mut handlers = handlers();
        let handler = own.unwrap_or(handlers.of_no_file);
        let handler = handlers.retain(handler, Kind::File)?;
        errhandler.set("errhandler", handler)
    }

    /// The old handler loses this session as a user, the new one gains it.
    fn MPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) on session {
        check_session(session)?;
        let new = handlers().retain(errhandler, Kind::Session)?;
        let old = std::mem::replace(&mut sessions().get_mut(session, "session")?.errhandler, new);
        handlers().release(old)
    }

    /// The handle is the caller's to free.
    fn MPI_Session_get_errhandler(session: MPI_Session, errhandler: Out<MPI_Errhandler>) on session {
        let handler = sessions().get(session, "session")?.errhandler;
        let handler = handlers().retain(handler, Kind::Session)?;
        errhandler.set("errhandler", handler)
    }

    /// MPI-5.0 §9.5
    fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) on session {
        check_session(session)?;
        call(Object::Session(session), errorcode)
    }

    /// MPI-5.0 §9.5
    fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) on fh {
        errhandler_of_file(fh)?;
        call(Object::File(fh), errorcode)
    }

    /// The handler lives on while an object uses it.
    fn MPI_Errhandler_free(errhandler: InOut<MPI_Errhandler>) {
        let handler = errhandler.get("errhandler")?;
        if handler == MPI_ERRHANDLER_NULL {
            return Err(fault(MPI_ERR_ERRHANDLER, format_args!("argument errhandler is MPI_ERRHANDLER_NULL")));
        }
        handlers().release(handler)?;
        errhandler.set("errhandler", MPI_ERRHANDLER_NULL)
    }

    /// MPI-5.0 §9.4
    fn MPI_Error_class(errorcode: c_int, errorclass: Out<c_int>) {
        let class = codes().class(errorcode);
        errorclass.set("errorclass", class.ok_or_else(|| unknown(errorcode))?)
    }

    /// The text is at most MPI_MAX_ERROR_STRING bytes with its end.
    fn MPI_Error_string(errorcode: c_int, string: OutText, resultlen: Out<c_int>) {
        let text = codes().text(errorcode).ok_or_else(|| unknown(errorcode))?;
        let length = string.set("string", &text, MPI_MAX_ERROR_STRING as usize)?;
        resultlen.set("resultlen", length)
    }

    /// MPI-5.0 §9.5
    fn MPI_Add_error_class(errorclass: Out<c_int>) {
        let class = codes().add_class();
        errorclass.set("errorclass", class)
    }

    /// MPI-5.0 §9.5
    fn MPI_Add_error_code(errorclass: c_int, errorcode: Out<c_int>) {
        let code = codes().add_code(errorclass)?;
        errorcode.set("errorcode", code)
    }

    /// MPI-5.0 §9.5
    fn MPI_Add_error_string(errorcode: c_int, string: Text) {
        codes().set_text(errorcode, string.get("string")?)
    }

    /// MPI-5.0 §9.5
    fn MPI_Remove_error_class(errorclass: c_int) {
        codes().remove(errorclass, true)
    }

    /// MPI-5.0 §9.5
    fn MPI_Remove_error_code(errorcode: c_int) {
        codes().remove(errorcode, false)
    }

    /// MPI-5.0 §9.5
    fn MPI_Remove_error_string(errorcode: c_int) {
        codes().remove_text(errorcode)
    }
}

fn unknown(code: c_int) -> Fault {
    fault(MPI_ERR_ARG, format_args!("argument errorcode ({code}) is not an error code"))
}

/// The handler of a file; none for MPI_FILE_NULL.
fn errhandler_of_file(file: MPI_File) -> Result<Option<MPI_Errhandler>, Fault> {
    match file {
        MPI_FILE_NULL => Ok(None),
        file => Ok(Some(file::errhandler(file).ok_or_else(|| crate::handle::bad(file, "fh"))?)),
    }
}
