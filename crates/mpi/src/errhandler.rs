//! Error handlers (MPI-5.0 §9.3). How an error finds its own: `boundary.rs`.

use crate::abi::*;
use crate::fault::{Fault, Object, fault};
use crate::handle::Table;
use crate::lock::locked;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard};

static HANDLERS: Mutex<Errhandlers> = Mutex::new(Errhandlers::new());

/// The error handlers, locked.
pub(crate) fn handlers() -> MutexGuard<'static, Errhandlers> {
    locked(&HANDLERS)
}

/// The kind of object an error handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Communicators.
    Comm,
    /// Windows.
    Win,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// Action on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// `MPI_ERRORS_ARE_FATAL`: end every process of the job.
    Fatal,
    /// `MPI_ERRORS_ABORT`: end the processes of the communicator; of the job, as the standard allows.
    Abort,
    /// `MPI_ERRORS_RETURN`: return the code.
    Return,
    /// Call the user's function, then return the code.
    Call(Callback),
}

/// The error handlers that exist. One lives as long as the user's handle or any object uses it.
pub(crate) struct Errhandlers {
    table: Table<MPI_Errhandler, Made>,
    /// The handler of `MPI_FILE_NULL`: of errors of no file, and of files to be opened.
    pub(crate) of_no_file: MPI_Errhandler,
    /// The handler of errors before the start, after the end, and of the first communicators and sessions.
    pub(crate) initial: MPI_Errhandler,
    /// Whether the user has set a handler for `MPI_COMM_SELF`.
    pub(crate) is_of_self_set: bool,
}

/// One made by the user.
struct Made {
    kind: Kind,
    function: Callback,
    user_count: u32,
}

impl Errhandlers {
    pub(crate) const fn new() -> Self {
        Self {
            table: Table::new(),
            of_no_file: MPI_ERRORS_RETURN,
            initial: MPI_ERRORS_ARE_FATAL,
            is_of_self_set: false,
        }
    }

    /// A new handler with one user, its creator.
    pub(crate) fn create(&mut self, kind: Kind, function: Callback) -> Result<MPI_Errhandler, Fault> {
        if function.0 == 0 {
            return Err(fault(MPI_ERR_ARG, format_args!("the error handler function is a null pointer")));
        }
        self.table.insert(Made { kind, function, user_count: 1 })
    }

    /// One more user of a handler, which must be for objects of `kind`.
    pub(crate) fn retain(&mut self, handler: MPI_Errhandler, kind: Kind) -> Result<MPI_Errhandler, Fault> {
        if !is_predefined(handler) {
            let made = self.table.get_mut(handler, "errhandler")?;
            if made.kind != kind {
                let is = made.kind;
                return Err(fault(
                    MPI_ERR_ERRHANDLER,
                    format_args!("argument errhandler was made for a {is:?}, not for a {kind:?}"),
                ));
            }
            made.user_count += 1;
        }
        Ok(handler)
    }

    /// One user less.
    pub(crate) fn release(&mut self, handler: MPI_Errhandler) -> Result<(), Fault> {
        if !is_predefined(handler) {
            let made = self.table.get_mut(handler, "errhandler")?;
            made.user_count -= 1;
            if made.user_count == 0 {
                self.table.remove(handler, "errhandler")?;
            }
        }
        Ok(())
    }

    /// Whether it is a handler at all.
    pub(crate) fn is_one(&self, handler: MPI_Errhandler) -> bool {
        is_predefined(handler) || self.table.find(handler).is_some()
    }

    /// The null handle of the kind of objects that a handler is for.
    fn null_of(&self, handler: MPI_Errhandler) -> usize {
        match self.table.find(handler).map(|made| made.kind) {
            Some(Kind::Win) => MPI_WIN_NULL.0,
            Some(Kind::File) => MPI_FILE_NULL.0,
            Some(Kind::Session) => MPI_SESSION_NULL.0,
            Some(Kind::Comm) | None => MPI_COMM_NULL.0,
        }
    }

    /// What a handler does. One that is gone ends the job: it must not happen, and must not go unseen.
    pub(crate) fn action(&self, handler: MPI_Errhandler) -> Action {
        match handler {
            MPI_ERRORS_RETURN => Action::Return,
            MPI_ERRORS_ABORT => Action::Abort,
            MPI_ERRORS_ARE_FATAL => Action::Fatal,
            made => {
                self.table.get(made, "errhandler").map_or(Action::Fatal, |made| Action::Call(made.function))
            }
        }
    }
}

fn is_predefined(handler: MPI_Errhandler) -> bool {
    [MPI_ERRORS_RETURN, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL].contains(&handler)
}

thread_local! {
    /// The address of a variable in the frame that runs a handler of the user's in this thread; 0: none does.
    static RUNNING_AT: Cell<usize> = const { Cell::new(0) };
}

/// Whether the caller was called by a handler of the user's. The error is returned to it then: handing it to
/// a handler once more might never end.
pub(crate) fn is_in_handler() -> bool {
    let here = 0_u8;
    // The stack grows down. A frame above the handler's means that the handler was left by a jump.
    RUNNING_AT.get() > (&raw const here).addr()
}

/// Calls a user's handler with an object and the code to return, which it may change; returns the final code.
/// No lock may be held.
pub(crate) fn call(function: Callback, on: Object, code: c_int) -> c_int {
    let mut bits = match on {
        Object::Comm(comm) => comm.0,
        Object::Win(win) => win.0,
        Object::File(file) => file.0,
        Object::Session(session) => session.0,
        Object::Made(handler) => handlers().null_of(handler),
    };
    let mut code = code;
    // A handler may be left by an exception, so what was there before is put back by a destructor.
    struct PutBack(usize);
    impl Drop for PutBack {
        fn drop(&mut self) {
            RUNNING_AT.set(self.0);
        }
    }
    let _put_back = PutBack(RUNNING_AT.replace((&raw const bits).addr()));
    type Handler = unsafe extern "C-unwind" fn(*mut usize, *mut c_int, ...);
    // SAFETY: the user registered the pointer as an error handler function, whose type in C this is for all
    // four kinds (a handle passes as the integer it is); `create` refused null.
    unsafe {
        let handler = std::mem::transmute::<usize, Handler>(function.0);
        handler(&mut bits, &mut code);
    }
    code
}
