//! Why there is no device, or no way to a process.

use super::interfaces::{Address, RailsError};
use super::settings::{ENV_PORTS, PortRange};
use ayatori_core::ids::ProcessId;
use std::fmt;
use std::io;

/// Why there is no device.
#[derive(Debug)]
pub enum TcpError {
    /// No interface can be a rail.
    Rails(RailsError),
    /// A system call failed.
    System {
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// No port of the range is free at an address.
    Ports {
        /// The address.
        address: Address,
        /// The range.
        range: PortRange,
    },
    /// A peer's interfaces have no address in common with ours.
    Unreachable {
        /// The process.
        peer: ProcessId,
        /// Its interfaces.
        theirs: String,
        /// Ours.
        ours: String,
    },
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rails(error) => write!(f, "TCP: {error}"),
            Self::System { what, error } => write!(f, "TCP: cannot {what}: {error}"),
            Self::Ports { address, range } => write!(
                f,
                "TCP: at {} no port from {} to {} is free ({ENV_PORTS}); each process of a host takes one at each address",
                address.ip, range.first, range.last
            ),
            Self::Unreachable { peer, theirs, ours } => write!(
                f,
                "TCP: {peer} has the interfaces {theirs} and this process {ours}: no two have addresses of the same \
                 kind; see `ayatori info --rails` on both hosts, and --rails"
            ),
        }
    }
}

impl std::error::Error for TcpError {}

impl From<RailsError> for TcpError {
    fn from(error: RailsError) -> Self {
        Self::Rails(error)
    }
}

pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> TcpError {
    move |error| TcpError::System { what, error: error.into() }
}
