//! Sessions (MPI-5.0 §11.3): the object of a handle. A session gives access to process sets; objects made of
//! their groups remember their session for buffered messages only, and live until they are freed.

use crate::abi::{MPI_Errhandler, MPI_Session};
use crate::fault::Fault;
use crate::group::SessionNumber;
use crate::handle::Table;
use crate::info::Info;
use crate::lock::locked;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

static SESSIONS: Mutex<Table<MPI_Session, Session>> = Mutex::new(Table::new());

/// A session.
pub(crate) struct Session {
    /// Its error handler, of which it is a user.
    pub(crate) errhandler: MPI_Errhandler,
    /// The hints in use.
    pub(crate) info: Info,
    number: SessionNumber,
}

impl Session {
    /// With a number that no other session of this process has had.
    pub(crate) fn new(errhandler: MPI_Errhandler, info: Info) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self { errhandler, info, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// The core's name of it.
    pub(crate) fn number(&self) -> SessionNumber {
        self.number
    }
}

/// The sessions, locked.
pub(crate) fn sessions() -> MutexGuard<'static, Table<MPI_Session, Session>> {
    locked(&SESSIONS)
}

/// The fault of a handle that is none of a session.
pub(crate) fn check(session: MPI_Session) -> Result<(), Fault> {
    number(session).map(drop)
}

/// The core's name of a session.
pub(crate) fn number(session: MPI_Session) -> Result<SessionNumber, Fault> {
    sessions().get(session, "session").map(Session::number)
}

/// The error handler of a session, if there is one.
pub(crate) fn errhandler_of(session: MPI_Session) -> Option<MPI_Errhandler> {
    sessions().get(session, "session").ok().map(|session| session.errhandler)
}
