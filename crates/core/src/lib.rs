//! The protocol engine of Ayatori: one MPI process as a state machine.
//!
//! *What it owns.* [`Process`] takes commands (send this, receive that), packets, completions and the time,
//! and gives packets to a [`Device`](device::Device). It has matching, the transfer of long messages, links
//! over rails with credit, acknowledgements and failover, requests, groups, communicators, collective
//! schedules, datatypes' layouts, predefined datatypes and operations.
//!
//! *What it does not.* It opens no socket, reads no clock, starts no thread and draws no random number. The C
//! ABI is in `ayatori-mpi`, waiting and threads in its runtime, memory rings and sockets in
//! `ayatori-devices`. So one body of code lives in `libmpi_abi.so` over real devices, in the simulator with
//! thousands of instances in a `Vec`, and in unit tests with two instances on a virtual wire.
//!
//! *How data flows.* A short send with credit leaves in one packet at once. Any other send becomes a
//! [`transfer`]: it is announced, matched, and moved by get, put or packets, as [`transfer::choose`] decides.
//! Packets go through a [`link`] to the peer, which knows its rails. An arriving message is matched by
//! (communicator, source, tag), or waits unmatched; its bytes are copied once, from the device's memory to
//! the receive buffer. A request ends when its data is in place.
//!
//! *Where to begin.* The type [`Process`], whose methods are sorted into getters, commands, inputs and
//! outputs; then [`device`], the trait below it; then [`transfer`]. Here two processes exchange a message
//! (`cargo run -p ayatori-core --example two_processes`):
//!
//! ```
#![doc = include_str!("../examples/two_processes.rs")]
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bsend;
#[allow(unsafe_code)]
pub mod buffer;
pub mod coll;
pub mod collective;
pub mod comm;
pub mod connect;
mod data;
pub mod datatype;
pub mod device;
pub mod error;
pub mod explain;
pub mod group;
mod hash;
pub mod ids;
pub mod introduction;
pub mod layout;
pub mod link;
mod matching;
pub mod op;
mod p2p;
mod partitioned;
pub mod process;
pub mod request;
pub mod rma;
mod slab;
pub mod survive;
pub mod survivors;
pub mod time;
pub mod transfer;
pub mod wire;

pub use bsend::BSEND_OVERHEAD_BYTES;
pub use error::Error;
pub use process::Process;
