//! Sessions (MPI-5.0 §11.3): the object of a handle. A session gives access to process sets; objects made of
//! their groups remember their session for buffered messages only, and live until they are freed.

use crate::abi::{MPI_Errhandler, MPI_Session};
use crate::fault::Fault;
use crate::group::SessionNumber;
use crate::handle::Table;
use crate::info::Info;
use crate::lock::locked;
use crate::runtime::machine::Machine;
use ayatori_core::device::Device;
use ayatori_core::ids::ProcessId;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A process set: one of these names, as this process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pset {
    /// The processes of its world.
    World,
    /// Itself.
    Own,
    /// The processes of its world that are on its host.
    Host,
}

impl Pset {
    /// The process sets, in their order.
    pub(crate) const ALL: [Self; 3] = [Self::World, Self::Own, Self::Host];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::World => "mpi://WORLD",
            Self::Own => "mpi://SELF",
            Self::Host => "ayatori://HOST",
        }
    }

    /// That of a name. Case does not matter in names (MPI-5.0 §11.3.2).
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether a process is in the set that this one is in.
    pub(crate) fn has(self, machine: &Machine, process: ProcessId) -> bool {
        let is_me = process == machine.core.me();
        match self {
            Self::World => machine.has_in_world(process),
            Self::Own => is_me,
            Self::Host => {
                is_me || machine.has_in_world(process) && !machine.device.shm().rails_to(process).is_empty()
            }
        }
    }
}

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
