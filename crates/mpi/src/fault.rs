//! An error on its way to the error handler of its object.

use crate::abi::*;
use ayatori_core::coll::Collective;
use ayatori_core::error::Difference;
use ayatori_core::ids::ProcessId;
use ayatori_devices::tcp::Obstacles;
use std::ffi::c_int;
use std::fmt::{self, Display};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A process has failed. Classes of our own lie between the standard's and `MPI_ERR_LASTCODE`, which the ABI
/// leaves to implementations (MPI-5.0 §9.4).
pub(crate) const MPIX_ERR_PROC_FAILED: c_int = 0x3F01;
/// A process has failed whose message may be what a receive waits for, which goes on.
pub(crate) const MPIX_ERR_PROC_FAILED_PENDING: c_int = 0x3F02;
/// The communicator is revoked.
pub(crate) const MPIX_ERR_REVOKED: c_int = 0x3F03;

/// An error on its way to its handler: the class, what was wrong in words, and whose handler it is for where
/// that is not the object the function was called with. One word, so that the way without errors stays in a
/// register.
pub(crate) struct Fault(Box<Report>);

/// What a [`Fault`] points to.
struct Report {
    code: c_int,
    detail: String,
    on: Option<Object>,
    /// What a handler of the user's is told in place of `code`.
    told: Option<c_int>,
}

/// Makes a [`Fault`] of a class (or a code of the user's) and an explanation that names the argument.
#[cold]
pub(crate) fn fault(code: c_int, detail: fmt::Arguments<'_>) -> Fault {
    Fault(Box::new(Report { code, detail: detail.to_string(), on: None, told: None }))
}

impl Fault {
    /// The function is in the ledger.
    #[cold]
    #[allow(
        dead_code,
        reason = "called by the stubs that build.rs writes for functions that are not implemented"
    )]
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

    /// Description of the error.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Whose handler it is for, where that is not the object the function was called with.
    pub(crate) fn object(&self) -> Option<Object> {
        self.0.on
    }

    /// What a handler of the user's is told.
    pub(crate) fn told(&self) -> c_int {
        self.0.told.unwrap_or(self.0.code)
    }

    /// Has a handler of the user's told this code, where the function returns another.
    pub(crate) fn telling(mut self, code: c_int) -> Self {
        self.0.told = Some(code);
        self
    }

    /// Leaves the fault to the object that the function was called with.
    pub(crate) fn on_callers(mut self) -> Self {
        self.0.on = None;
        self
    }

    /// Sends the fault to the handler of `object`, for functions whose arguments do not name it (as
    /// `MPI_Wait`).
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

/// The object that an error is raised on.
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
    /// A communicator or a session that is being made, with the handler that it is to have.
    Made(MPI_Errhandler),
}

impl From<MPI_Errhandler> for Object {
    fn from(handler: MPI_Errhandler) -> Self {
        Self::Made(handler)
    }
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

/// Description of a failure while MPI started.
pub(crate) fn failed<E: Display>(doing: &'static str) -> impl Fn(E) -> Fault {
    move |error| fault(MPI_ERR_OTHER, format_args!("cannot {doing}: {error}"))
}

/// The error class of an error number of the operating system, of an operation on a file (MPI-5.0 §14.7).
pub(crate) fn class_of_errno(errno: c_int) -> c_int {
    match errno {
        libc::ENOENT => MPI_ERR_NO_SUCH_FILE,
        libc::EEXIST => MPI_ERR_FILE_EXISTS,
        libc::EACCES | libc::EPERM => MPI_ERR_ACCESS,
        libc::EROFS => MPI_ERR_READ_ONLY,
        libc::ENOSPC => MPI_ERR_NO_SPACE,
        libc::EDQUOT => MPI_ERR_QUOTA,
        libc::EBUSY | libc::ETXTBSY => MPI_ERR_FILE_IN_USE,
        libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP => MPI_ERR_BAD_FILE,
        libc::ENOMEM => MPI_ERR_NO_MEM,
        _ => MPI_ERR_IO,
    }
}

/// The first process of this world.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// Whether the job goes on without ranks that fail: the class of an error that names one says so.
static SURVIVES: AtomicBool = AtomicBool::new(false);

/// Whether the job goes on without ranks that fail.
pub(crate) fn set_survives(survives: bool) {
    SURVIVES.store(survives, Ordering::Relaxed);
}

/// Whether it does.
pub(crate) fn survives() -> bool {
    SURVIVES.load(Ordering::Relaxed)
}

/// Messages name processes by their rank in this world, whose first process this is.
pub(crate) fn set_first_process(first: ProcessId) {
    FIRST.store(first.0, Ordering::Relaxed);
}

/// What stands in the way of connections, where there are any.
static OBSTACLES: OnceLock<Obstacles> = OnceLock::new();

/// Messages about a process that cannot be reached say why.
pub(crate) fn set_obstacles(obstacles: Obstacles) {
    let _ = OBSTACLES.set(obstacles);
}

/// The class that an argument has with which members differ.
fn class_of_difference(what: Difference) -> c_int {
    match what {
        Difference::Root => MPI_ERR_ROOT,
        Difference::Reduction => MPI_ERR_OP,
        Difference::Bytes | Difference::ExpectedBytes => MPI_ERR_COUNT,
        Difference::Types | Difference::ExpectedTypes => MPI_ERR_TYPE,
        Difference::Call | Difference::Failed => MPI_ERR_OTHER,
    }
}

impl From<ayatori_core::Error> for Fault {
    /// The MPI class of an error of the core.
    #[cold]
    fn from(error: ayatori_core::Error) -> Self {
        use ayatori_core::Error;
        let class = match error {
            Error::BufferExhausted { .. } | Error::BuffersOverlap => MPI_ERR_BUFFER,
            Error::Count => MPI_ERR_COUNT,
            Error::Type => MPI_ERR_TYPE,
            Error::Tag(_) => MPI_ERR_TAG,
            Error::Comm => MPI_ERR_COMM,
            Error::Rank { .. } => MPI_ERR_RANK,
            Error::Request => MPI_ERR_REQUEST,
            Error::Root { .. } => MPI_ERR_ROOT,
            Error::Group => MPI_ERR_GROUP,
            Error::Op => MPI_ERR_OP,
            Error::Truncate { .. } => MPI_ERR_TRUNCATE,
            Error::Argument(_) => MPI_ERR_ARG,
            Error::Unlike { what, .. } => class_of_difference(what),
            Error::Window => MPI_ERR_WIN,
            Error::WindowRange => MPI_ERR_RMA_RANGE,
            Error::MembersFailed => MPIX_ERR_PROC_FAILED,
            Error::FailedPending(_) => MPIX_ERR_PROC_FAILED_PENDING,
            Error::Revoked => MPIX_ERR_REVOKED,
            error if error.process().is_some() && survives() => MPIX_ERR_PROC_FAILED,
            Error::ProcessAborted(_) => MPI_ERR_PROC_ABORTED,
            Error::File { errno, file } => {
                let why = std::io::Error::from_raw_os_error(errno);
                let what = format_args!("an operation on the file failed: {why}");
                return fault(class_of_errno(errno), what).on(MPI_File(file as usize));
            }
            _ => MPI_ERR_OTHER,
        };
        if let Error::Unlike { what: Difference::Call, rank, theirs, others } = error {
            let call = |at: u64| Collective::ALL.get(at as usize).map_or("no operation", |call| call.name());
            let (theirs, others) = (call(theirs), call(others));
            return fault(class, format_args!("rank {rank} calls {theirs} where rank 0 calls {others}"));
        }
        let first = FIRST.load(Ordering::Relaxed);
        let told = error.with_process(|process| ProcessId(process.0.wrapping_sub(first)));
        let obstacle = match error {
            Error::Unreachable(peer) => OBSTACLES.get().and_then(|obstacles| obstacles.to(peer)),
            _ => None,
        };
        match obstacle {
            Some(obstacle) => fault(class, format_args!("{told}; the last attempt, {obstacle}")),
            None => fault(class, format_args!("{told}")),
        }
    }
}
