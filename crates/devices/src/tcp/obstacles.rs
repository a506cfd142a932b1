//! Why connections to peers do not come about, for messages: the last failure of a dial to each.

use super::candidates::Candidate;
use ayatori_core::ids::ProcessId;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The last failures, one a peer at most; a connection that stands clears its peer's. Clones are the same
/// list.
#[derive(Clone, Default, Debug)]
pub struct Obstacles(Arc<Mutex<BTreeMap<ProcessId, Obstacle>>>);

/// A dial that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Obstacle {
    from: IpAddr,
    to: SocketAddr,
    why: Why,
}

/// What came of a dial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// The system's error.
    System(Errno),
    /// The host did not answer in time.
    Silence,
    /// The host did, and no process of the job behind it.
    Stranger,
}

impl Obstacles {
    fn list(&self) -> MutexGuard<'_, BTreeMap<ProcessId, Obstacle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, peer: ProcessId, candidate: &Candidate, why: Why) {
        self.list().insert(peer, Obstacle { from: candidate.from.ip, to: candidate.to, why });
    }

    pub(super) fn clear(&self, peer: ProcessId) {
        self.list().remove(&peer);
    }

    /// The last failure to connect to a peer, if no connection was made since.
    pub fn to(&self, peer: ProcessId) -> Option<Obstacle> {
        self.list().get(&peer).copied()
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}: ", self.from, self.to)?;
        match self.why {
            Why::System(error) => write!(f, "{error}"),
            Why::Silence => write!(f, "no answer"),
            Why::Stranger => write!(f, "connected, and no process of this job answered"),
        }
    }
}
