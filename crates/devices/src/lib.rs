//! The devices that move the library's bytes: shared memory within a host, TCP between hosts.
//!
//! **Owns** rings and collectives in shared memory, and how ranks of a host sleep and wake each other
//! ([`shm`]); connections over any number of interfaces, with their handshake, frames and checksums
//! ([`tcp`]); both as one device ([`composite`]); what a second thread needs to wait at a device
//! ([`threads`]); text that the processes of a host share ([`shared_text`]); how a setting is turned on or
//! off ([`switch`]).
//!
//! **Does not own** matching, order across rails, retries or acknowledgements: they are `ayatori-core`'s, and
//! a device never looks into a packet. Which interfaces, keys and addresses there are, `ayatori-launch` and
//! the runtime of `ayatori-mpi` say. When a call sleeps is the runtime's decision; how, is here.
//!
//! **Data flow.** The core calls [`Device::send`](ayatori_core::device::Device::send) with a header and up to
//! two pieces of payload, which are copied to the peer's ring or given to a socket, or refused as full. The
//! runtime polls; [`Device::poll`](ayatori_core::device::Device::poll) reports arrivals, and the core reads
//! each packet in place and releases it. Before a sleep the runtime arms the device, which may answer that
//! something arrived meanwhile.
//!
//! **Begin** at `shm/mod.rs` and `shm/ring.rs`, whose rules stand above its unsafe code; then `tcp/mod.rs`. A
//! device of your own is one type, and `ayatori_core::device::conformance` checks what it promises. A whole
//! one (`cargo run -p ayatori-devices --example write_a_device`):
//!
//! ```
#![doc = include_str!("../examples/write_a_device.rs")]
//! ```
#![allow(clippy::test_attr_in_doctest, reason = "the example is a file with a test of its own")]

pub mod composite;
pub mod shared_text;
pub mod shm;
pub mod switch;
pub mod tcp;
pub mod threads;
