//! The boundary to C: the macro every function is written with, and the way of an error to its handler.
//!
//! A function of the ABI does three things: it checks its arguments, calls on, and maps an error through the
//! error handler of the object it was called with. `api!` writes all of that but the middle:
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
//! gives `PMPI_Comm_size` and its weak alias `MPI_Comm_size`. The body is a `Result<(), Fault>`; what is
//! after `on` names the object whose handler gets the fault, and where it is left out that is `MPI_COMM_SELF`
//! (§9.3). A second form, `fn MPI_Wtime() -> f64 { … }`, is for the few functions that return no error code.
//!
//! Each call writes on entry which function it is, and on leaving that it is none: see `why.rs`.
//!
//! A panic becomes `MPI_ERR_INTERN`: `catch_unwind` costs nothing where nothing is thrown (the body is
//! inlined into the function and only the unwinder's tables know of it). The functions are `C-unwind` so that
//! a C++ exception which an error handler throws passes through.

use crate::abi::*;
use crate::errhandler::{self, Action, handlers};
use crate::fault::{Fault, Object, fault};
use crate::file;
use crate::runtime::exit::{abort, panic_text};
use crate::state;
use crate::{calls, session, why, win};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
            let text = panic_text(&*panic);
            raise(name, on(), fault(MPI_ERR_INTERN, format_args!("this is a bug of the library: {text}")))
        }
    };
    calls::words().leave();
    code
}

/// Gives the fault of function `name` to its handler; what comes back is the function's return value.
#[cold]
#[inline(never)]
pub(crate) fn raise(name: &'static str, on: Object, fault: Fault) -> c_int {
    let code = fault.code();
    let operation = fault.object();
    let (on, action) = resolve(operation.unwrap_or(on), operation.is_some());
    match action {
        Action::Return => code,
        Action::Call(function) => {
            if errhandler::is_in_handler() {
                code
            } else {
                // What the handler leaves is returned, where it has changed it.
                let (told, left) = (fault.told(), errhandler::call(function, on, fault.told()));
                if left == told { code } else { left }
            }
        }
        Action::Fatal => fatal(name, on, &fault, "MPI_ERRORS_ARE_FATAL"),
        Action::Abort => fatal(name, on, &fault, "MPI_ERRORS_ABORT"),
    }
}

/// Ends the job with a message that names the function, the object and the error.
fn fatal(name: &str, on: Object, fault: &Fault, handler: &str) -> ! {
    let detail = fault.detail();
    let class = match crate::error::name_of_class(fault.code()) {
        Some(class) => class.to_string(),
        None => format!("error code {}", fault.code()),
    };
    let place = describe(on);
    let message =
        format!("{name}: {class}: {detail}\n  on {place}; its error handler {handler} ends the job");
    abort(fault.code(), &message)
}

/// The object whose handler gets an error in the end, and the handler's action. An object that does not exist
/// (a bad handle is the usual error) has no handler, so `MPI_COMM_SELF`'s is taken, and outside of init and
/// finalize the initial one.
///
/// Before MPI 4.0 it was `MPI_COMM_WORLD`'s. A program of that time sets that one and not the other; it gets
/// what it set.
///
/// The error of an operation that goes on after its communicator was freed is that communicator's still; a
/// call that is given the freed handle has an object that does not exist.
pub(crate) fn resolve(on: Object, is_of_operation: bool) -> (Object, Action) {
    let (on, handler) = {
        let process = state::process_in_any_phase();
        let of_comm = |comm| process.comms.find(comm).map(|comm| comm.errhandler);
        let of_former = |comm| is_of_operation.then(|| process.former_handler_of(comm)).flatten();
        let own = match on {
            Object::Comm(MPI_COMM_SELF) => None,
            Object::Comm(comm) => of_comm(comm).or_else(|| of_former(comm)),
            // One that does not exist has the handler of files to be opened (MPI-5.0 §14.7).
            Object::File(file) => Some(file::errhandler(file).unwrap_or_else(|| handlers().of_no_file)),
            Object::Win(win) => win::errhandler_of(win),
            Object::Session(session) => session::errhandler_of(session),
            Object::Made(handler) => handlers().is_one(handler).then_some(handler),
        };
        let to_self = || {
            let (of_self, of_world) = (of_comm(MPI_COMM_SELF)?, of_comm(MPI_COMM_WORLD)?);
            let is_before_4 = of_self != of_world && !handlers().is_of_self_set;
            let (comm, handler) =
                if is_before_4 { (MPI_COMM_WORLD, of_world) } else { (MPI_COMM_SELF, of_self) };
            Some((Object::Comm(comm), handler))
        };
        own.map(|handler| (on, Some(handler)))
            .or_else(|| to_self().map(|(on, handler)| (on, Some(handler))))
            .unwrap_or((on, None))
    };
    let handlers = handlers();
    let handler = handler.unwrap_or(handlers.initial);
    (on, handlers.action(handler))
}

/// Where an error was raised, in words: the object, and this process by its rank there and in
/// `MPI_COMM_WORLD`. An error that concerns no object is raised on `MPI_COMM_SELF` (MPI-5.0 §9.3), which says
/// nothing about the place.
pub(crate) fn describe(on: Object) -> String {
    let (kind, bits) = match on {
        Object::Comm(comm) => ("communicator", comm.0),
        Object::Win(win) => ("window", win.0),
        Object::File(file) => ("file", file.0),
        Object::Session(session) => ("session", session.0),
        Object::Made(_) => return "what it was to make".to_owned(),
    };
    let mut object = handle_name(bits).map_or_else(|| format!("{kind} {bits:#x}"), String::from);
    if let Object::File(file) = on
        && let Some(name) = file::name(file)
    {
        object = format!("file \"{name}\"");
    }
    let process = state::process_in_any_phase();
    let rank_in = |comm| process.comms.get(comm, "comm").map(|comm| (comm.rank(), comm.size())).ok();
    if let Object::Win(win) = on
        && let Some(name) = win::name_of(win).filter(|name| !name.is_empty())
    {
        object = format!("{object} (\"{}\")", String::from_utf8_lossy(&name));
    }
    if let Object::Comm(comm) = on
        && let Ok(comm) = process.comms.get(comm, "comm")
    {
        let name = String::from_utf8_lossy(&comm.name);
        if !name.is_empty() && name != object {
            object = format!("{object} (\"{name}\")");
        }
    }
    let pid = std::process::id();
    let world =
        rank_in(MPI_COMM_WORLD).map(|(rank, size)| format!("rank {rank} of {size} in MPI_COMM_WORLD"));
    let own = match on {
        Object::Comm(MPI_COMM_WORLD | MPI_COMM_SELF) => None,
        Object::Comm(comm) => rank_in(comm).map(|(rank, size)| format!("rank {rank} of {size}")),
        _ => None,
    };
    match (on, own, world) {
        (Object::Comm(MPI_COMM_WORLD), _, Some(_)) => {
            let (rank, size) = rank_in(MPI_COMM_WORLD).unwrap_or_default();
            format!("MPI_COMM_WORLD, rank {rank} of {size}, process {pid}")
        }
        (_, Some(own), Some(world)) => format!("{object}, {own}, {world}, process {pid}"),
        (_, None, Some(world)) => format!("{object}, {world}, process {pid}"),
        (_, _, None) => format!("{object}, process {pid}"),
    }
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
                ($crate::calls::ids::$name, stringify!($name)),
                || object!($($on)?),
                move || -> Result<(), $crate::fault::Fault> { $body },
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
        $crate::fault::Object::Comm($crate::abi::MPI_COMM_SELF)
    };
    ($on:ident) => {
        $crate::fault::Object::from($on)
    };
}

/// Makes `MPI_X` a second, weak name of `PMPI_X`, which the assembler can do because the function is in the
/// same module and so in the same object file.
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
