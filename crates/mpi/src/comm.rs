//! A communicator's state at this side of the boundary: name, attributes, error handler, hints. The core owns
//! its members and its matching space.

use crate::abi::{MPI_ERR_COMM, MPI_Errhandler, MPI_INFO_NULL, MPI_Info};
use crate::attribute::Attributes;
use crate::fault::{Fault, fault};
use crate::group::SessionNumber;
use crate::info::Info;
use crate::topology::Topology;
use ayatori_core::comm::Communicator;
use ayatori_core::device::Gap;
use ayatori_core::group::Group;
use ayatori_core::ids::{CommId, Rank};
use std::sync::Arc;

/// A communicator behind a handle.
pub(crate) struct Comm {
    /// `MPI_Comm_get_name`
    pub(crate) name: Vec<u8>,
    /// Its error handler, of which it is a user.
    pub(crate) errhandler: MPI_Errhandler,
    /// Cached attributes.
    pub(crate) attributes: Attributes,
    /// The hints in use.
    pub(crate) info: Info,
    /// Its virtual topology, which its duplicates share.
    pub(crate) topology: Option<Arc<Topology>>,
    /// The session that it comes from.
    pub(crate) session: Option<SessionNumber>,
    id: CommId,
    group: Group,
    rank: Rank,
    /// The remote group of an intercommunicator.
    remote: Option<Group>,
}

/// The groups of a communicator.
#[derive(Clone)]
pub(crate) struct Shape {
    /// The members; of an intercommunicator, the local ones.
    pub(crate) group: Group,
    /// This process' rank.
    pub(crate) rank: Rank,
    /// The remote group of an intercommunicator.
    pub(crate) remote: Option<Group>,
}

impl From<&Communicator> for Shape {
    fn from(comm: &Communicator) -> Self {
        Self { group: comm.group().clone(), rank: comm.rank(), remote: comm.remote().cloned() }
    }
}

impl Comm {
    /// A communicator of this process.
    pub(crate) fn shaped(id: CommId, shape: Shape, name: &str, errhandler: MPI_Errhandler) -> Self {
        let Shape { group, rank, remote } = shape;
        let (name, attributes, info) = (name.as_bytes().to_vec(), Attributes::default(), Info::default());
        Self { name, errhandler, attributes, info, topology: None, session: None, id, group, rank, remote }
    }

    /// A communicator of `group` in which this process is `rank`.
    pub(crate) fn new(id: CommId, group: Group, rank: Rank, name: &str, errhandler: MPI_Errhandler) -> Self {
        Self::shaped(id, Shape { group, rank, remote: None }, name, errhandler)
    }

    /// It is made, and these are in it.
    pub(crate) fn reshape(&mut self, shape: Shape) {
        Shape { group: self.group, rank: self.rank, remote: self.remote } = shape;
    }

    /// Its groups.
    pub(crate) fn shape(&self) -> Shape {
        Shape { group: self.group.clone(), rank: self.rank, remote: self.remote.clone() }
    }

    /// The remote group of an intercommunicator.
    pub(crate) fn remote(&self) -> Option<&Group> {
        self.remote.as_ref()
    }

    /// How many processes the ranks of messages name: the members, or of an intercommunicator the remote
    /// ones.
    pub(crate) fn peer_count(&self) -> u32 {
        self.remote.as_ref().unwrap_or(&self.group).size()
    }

    /// The fault of an intercommunicator where only an intracommunicator will do.
    pub(crate) fn check_intra(&self, name: &str) -> Result<(), Fault> {
        match self.remote {
            None => Ok(()),
            Some(_) => Err(fault(MPI_ERR_COMM, format_args!("argument {name} is an intercommunicator"))),
        }
    }

    /// The remote group, or the fault of an intracommunicator.
    pub(crate) fn check_inter(&self, name: &str) -> Result<&Group, Fault> {
        let bad = || fault(MPI_ERR_COMM, format_args!("argument {name} is an intracommunicator"));
        self.remote.as_ref().ok_or_else(bad)
    }

    /// The core's name of it.
    #[inline(always)]
    pub(crate) fn id(&self) -> CommId {
        self.id
    }

    /// The members; of an intercommunicator, the local ones.
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// How many members; of an intercommunicator, the local ones.
    pub(crate) fn size(&self) -> u32 {
        self.group.size()
    }

    /// This process' rank.
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }
}

/// The hints for communicators that mean something here (MPI-5.0 §7.4.4).
const HINTS: &[&str] = &[
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
];

/// The hint that gives a communicator's messages a gap (`mpi-ext.h`).
const GAP: &str = "ayatori_gap";

/// Hints that communicators know.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    booleans: Vec<(&'static str, bool)>,
    /// The gap of messages.
    pub(crate) gap: Option<Gap>,
}

/// The hints of an info object that communicators know and whose values are good.
pub(crate) fn known_hints(info: MPI_Info) -> Result<Hints, Fault> {
    if info == MPI_INFO_NULL {
        return Ok(Hints::default());
    }
    crate::info::with(info, |info| {
        let boolean = |value: &[u8]| match value {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        };
        let hint = |key: &&'static str| Some((*key, boolean(info.get(key.as_bytes())?)?));
        Ok(Hints { booleans: HINTS.iter().filter_map(hint).collect(), gap: gap_of(info) })
    })
}

fn gap_of(info: &Info) -> Option<Gap> {
    std::str::from_utf8(info.get(GAP.as_bytes())?).ok()?.parse().ok()
}

impl Comm {
    /// The hints in use that mean something here.
    pub(crate) fn hints(&self) -> Hints {
        let value = |key: &str| self.info.get(key.as_bytes()).map(|value| value == b"true");
        let booleans = HINTS.iter().filter_map(|key| Some((*key, value(key)?))).collect();
        Hints { booleans, gap: gap_of(&self.info) }
    }

    /// Takes hints over. The caller passes the core those that it needs.
    pub(crate) fn take_hints(&mut self, hints: Hints) {
        for (key, value) in hints.booleans {
            self.info.put(key, if value { "true" } else { "false" });
        }
        if let Some(gap) = hints.gap {
            self.info.put(GAP, &gap.to_string());
        }
    }
}
