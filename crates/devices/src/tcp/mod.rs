//! TCP: the device between hosts. One connection per rail and peer.
//!
//! Owns the sockets: the choice of interfaces for rails (`interfaces.rs`), contact data for the others
//! (`card.rs`), pairing of interfaces (`pairing.rs`, `candidates.rs`), admission (`handshake.rs`), the thread
//! that makes and admits connections (`acceptor.rs`), the user's settings (`settings.rs`), the device itself
//! (`device.rs`), packets in the byte stream (`frame.rs`, `connection.rs`, `inflow.rs`). Deliberately not
//! here: when to connect and which of two connections stays (core's `connect`), retransmission, choice of
//! rails, acknowledgements (core's `link`), waiting longer than a system call (the runtime).
//!
//! ```text
//!   Wireup::listen ──► card ──► launcher ──► book of cards ──► Wireup::open ──► Tcp
//!                                                                               │  orders: want, broke
//!      data: one epoll, read and written by the thread that calls MPI           ▼  news: up, down, gone
//!      listeners, dials, handshakes ───────────────────────────────────── acceptor (a thread that sleeps)
//! ```
//!
//! Rails are the interfaces of this host, in order, from `first_rail` on; where a peer has more interfaces
//! than we, ours are used several times and the rails after the first round are those uses. So a rail's
//! number means nothing to the peer. A rail's connection to a peer is made when
//! [`send`](ayatori_core::device::Device::send) first wants it.
//!
//! Invariants: nothing from a socket is parsed before its handshake is over; no length from a socket is
//! believed before it is checked; after [`Event::RailDown`](ayatori_core::device::Event::RailDown) nothing of
//! the old connection is handed up; sending and receiving short packets allocates nothing.
//!
//! Entry types: [`Wireup`], [`Tcp`].

mod acceptor;
mod candidates;
mod card;
mod connection;
mod device;
mod error;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handshake;
mod inflow;
mod interfaces;
mod obstacles;
mod pairing;
mod peers;
pub mod port;
mod settings;
mod sum;
pub(crate) mod sys;
mod wireup;

pub use card::{Card, CardBook, Endpoint, NotCard};
pub use device::Tcp;
pub use error::TcpError;
pub use handshake::{KEY_BYTES, Key};
pub use interfaces::{Address, INTERFACES_MAX, Interface, RailFilter, RailsError, Reason};
pub use obstacles::{Obstacle, Obstacles};
pub use settings::{ENV_NO_RAILS, ENV_PORTS, ENV_RAILS, PortRange, Settings, Timing};
pub use wireup::Wireup;

/// The sum of a packet's bytes, as frames carry it: the lower half of XXH3-64.
pub fn checksum(bytes: &[u8]) -> u32 {
    sum::sum(bytes)
}
