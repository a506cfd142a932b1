//! The boundary to C: the macro every function is written with, and the way of an error to its handler.
//!
//! A function of the ABI does three things: it checks its arguments, calls on, and maps an error through the error
//! handler of the object it was called with. `api!` writes all of that but the middle:
//!
//! ```text
//! api! {
//!     /// MPI-5.0 §7.4.1
//!     fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
//!         let process = process()?;
//!         size.set("size", process.comms.get(comm)?.size())
//!     }
//! }
//! ```
//!
//! gives `PMPI_Comm_size` and its weak alias `MPI_Comm_size`. The body is a `Result<(), Fault>`; what is after `on`
//! names the object whose handler gets the fault, and where it is left out that is `MPI_COMM_SELF` (§9.3).
//! A second form, `fn MPI_Wtime() -> f64 { … }`, is for the few functions that return no error code.
//!
//! Each call writes on entry which function it is, and on leaving that it is none: see `why.rs`.
//!
//! A panic becomes `MPI_ERR_INTERN`: `catch_unwind` costs nothing where nothing is thrown (the body is inlined into
//! the function and only the unwinder's tables know of it). The functions are `C-unwind` so that a C++ exception
//! which an error handler throws passes through.

use crate::abi::*;
use crate::errhandler::{self, Action};
use crate::why;
use std::ffi::c_int;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error on its way to its handler: the class, what was wrong in words, and whose handler it is for where that
/// is not the object the function was called with. One word, so that the way without errors stays in a register.
pub(crate) struct Fault(Box<Report>);

/// What a [`Fault`] points to.
struct Report {
    code: c_int,
    detail: String,
    on: Option<Object>,
}

/// Makes a [`Fault`] of a class (or a code of the user's) and an explanation that names the argument.
#[cold]
pub(crate) fn fault(code: c_int, detail: fmt::Arguments<'_>) -> Fault {
    Fault(Box::new(Report { code, detail: detail.to_string(), on: None }))
}

impl Fault {
    /// The function is in the ledger.
    #[cold]
    pub(crate) fn unsupported() -> Self {
        fault(
            MPI_ERR_UNSUPPORTED_OPERATION,
            format_args!("this version of the library does not have this function"),
        )
    }

    /// Argument `name` is a null pointer where the call needs memory.
    #[cold]
    pub(crate) fn null(name: &str) -> Self {
        fault(MPI_ERR_ARG, format_args!("argument {name} is a null pointer"))
    }

    /// The class or code.
    pub(crate) fn code(&self) -> c_int {
        self.0.code
    }

    #[allow(dead_code, reason = "request functions will use it")]
    /// Sends the fault to the handler of `object`, for functions whose arguments do not name it (as `MPI_Wait`).
    pub(crate) fn on(mut self, object: impl Into<Object>) -> Self {
        self.0.on = Some(object.into());
        self
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", class_name(self.0.code).unwrap_or("error"), self.0.detail)
    }
}

/// What an error is raised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// A communicator; `MPI_COMM_SELF` where an error belongs to no object.
    Comm(MPI_Comm),
    /// A window.
    Win(MPI_Win),
    /// A file, or `MPI_FILE_NULL` for the default of files to come.
    File(MPI_File),
    /// A session.
    Session(MPI_Session),
}

impl From<MPI_Comm> for Object {
    fn from(comm: MPI_Comm) -> Self {
        Self::Comm(comm)
    }
}
impl From<MPI_Win> for Object {
    fn from(win: MPI_Win) -> Self {
        Self::Win(win)
    }
}
impl From<MPI_File> for Object {
    fn from(file: MPI_File) -> Self {
        Self::File(file)
    }
}
impl From<MPI_Session> for Object {
    fn from(session: MPI_Session) -> Self {
        Self::Session(session)
    }
}

/// Runs the body of function `name` and turns what comes out into its return value.
#[inline(always)]
pub(crate) fn enter(
    (call, name): (u32, &'static str),
    on: impl FnOnce() -> Object,
    body: impl FnOnce() -> Result<(), Fault>,
) -> c_int {
    why::enter(call);
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(fault)) => raise(name, on(), fault),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            raise(name, on(), fault(MPI_ERR_INTERN, format_args!("this is a bug of the library: {text}")))
        }
    };
    why::words().leave();
    code
}

/// Gives the fault of function `name` to its handler; what comes back is the function's return value.
#[cold]
#[inline(never)]
pub(crate) fn raise(name: &'static str, on: Object, fault: Fault) -> c_int {
    let code = fault.code();
    let (on, action) = errhandler::resolve(fault.0.on.unwrap_or(on));
    match action {
        Action::Return => code,
        Action::Call(function) => {
            if !errhandler::is_in_handler() {
                errhandler::call(function, on, code);
            }
            code
        }
        Action::Fatal => fatal(name, on, &fault, "MPI_ERRORS_ARE_FATAL"),
        Action::Abort => fatal(name, on, &fault, "MPI_ERRORS_ABORT"),
    }
}

/// Ends the job with a message that names the function, the object and what was wrong.
fn fatal(name: &str, on: Object, fault: &Fault, handler: &str) -> ! {
    let detail = &fault.0.detail;
    let class = match class_name(fault.code()) {
        Some(class) => class.to_string(),
        None => format!("error code {}", fault.code()),
    };
    let place = errhandler::describe(on);
    let message =
        format!("{name}: {class}: {detail}\n  on {place}; its error handler {handler} ends the job");
    crate::runtime::abort(fault.code(), &message)
}

/// Declares functions of the ABI; see the top of `boundary.rs`.
macro_rules! api {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(on $on:ident)? $(-> $ret:ty)? $body:block)*) => {$(
        api_function!($(#[$doc])* [$($ret)?] [$($on)?] $name($($arg: $ty),*) $body);
    )*};
}

/// One function of `api!`, by whether it says what it returns.
macro_rules! api_function {
    ($(#[$doc:meta])* [] [$($on:ident)?] $name:ident($($arg:ident: $ty:ty),*) $body:block) => {
        $(#[$doc])*
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        #[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> ::std::ffi::c_int {
            $crate::boundary::enter(
                ($crate::why::ids::$name, stringify!($name)),
                || object!($($on)?),
                move || -> Result<(), $crate::boundary::Fault> { $body },
            )
        }
        alias!($name($($arg: $ty),*) -> ::std::ffi::c_int);
    };
    ($(#[$doc:meta])* [$ret:ty] [] $name:ident($($arg:ident: $ty:ty),*) $body:block) => {
        $(#[$doc])*
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret { $body }
        alias!($name($($arg: $ty),*) -> $ret);
    };
}

/// The object that a function's errors are raised on.
macro_rules! object {
    () => {
        $crate::boundary::Object::Comm($crate::abi::MPI_COMM_SELF)
    };
    ($on:ident) => {
        $crate::boundary::Object::from($on)
    };
}

/// Makes `MPI_X` a second, weak name of `PMPI_X`, which the assembler can do because the function is in the same
/// module and so in the same object file.
#[cfg(weak_alias)]
macro_rules! alias {
    ($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        ::std::arch::global_asm!(concat!(
            ".weak ",
            stringify!($name),
            "\n.set ",
            stringify!($name),
            ", P",
            stringify!($name)
        ));
    };
}

/// Where the linker cannot export an assembled symbol (build.rs says when): a function that calls the other.
#[cfg(not(weak_alias))]
macro_rules! alias {
    ($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            #[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
            unsafe extern "C-unwind" fn alias($($arg: $ty),*) -> $ret {
                // SAFETY: the same arguments under the same contract.
                unsafe { $name($($arg),*) }
            }
        };
    };
}

/// Names the operations of a chapter whose forms build.rs makes: one Rust function serves them all.
macro_rules! forms {
    ($($base:ident)*) => {};
}
