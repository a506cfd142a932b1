//! Sessions (MPI-5.0 §11.3): what is behind a handle. A session gives access to process sets; what is made of
//! their groups belongs to no session here, and lives until it is freed.

use crate::abi::{MPI_Errhandler, MPI_Session};
use crate::fault::Fault;
use crate::handle::Table;
use crate::info::Info;
use crate::lock::locked;
use std::sync::{Mutex, MutexGuard};

static SESSIONS: Mutex<Table<MPI_Session, Session>> = Mutex::new(Table::new());

/// A session.
pub(crate) struct Session {
    /// Its error handler, of which it is a user.
    pub(crate) errhandler: MPI_Errhandler,
    /// The hints in use.
    pub(crate) info: Info,
}

/// The sessions, locked.
pub(crate) fn sessions() -> MutexGuard<'static, Table<MPI_Session, Session>> {
    locked(&SESSIONS)
}

/// The fault of a handle that is none of a session.
pub(crate) fn check(session: MPI_Session) -> Result<(), Fault> {
    sessions().get(session, "session").map(drop)
}

/// The error handler of a session, if there is one.
pub(crate) fn errhandler_of(session: MPI_Session) -> Option<MPI_Errhandler> {
    sessions().get(session, "session").ok().map(|session| session.errhandler)
}
