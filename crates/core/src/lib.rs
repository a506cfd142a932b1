//! The protocol engine of Ayatori: one MPI process as a state machine.
//!
//! [`Process`] takes commands (send this, receive that), packets, completions and the time, and gives packets
//! to a [`Device`](device::Device). It opens no socket, reads no clock, starts no thread and draws no random
//! number. So one body of code lives in `libmpi_abi.so` over real devices, in the simulator with thousands of
//! instances in a `Vec`, and in unit tests with two instances on a virtual wire.
//!
//! What is here: matching, eager and rendezvous protocols, credits, requests, groups, communicators,
//! collective schedules, predefined datatypes and operations. What is deliberately not: the C ABI (crate
//! `ayatori-mpi`), waiting and threads (its runtime), memory rings and sockets (`ayatori-devices`).
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bsend;
#[allow(unsafe_code)]
pub mod buffer;
pub mod coll;
pub mod comm;
mod data;
pub mod datatype;
pub mod device;
pub mod error;
pub mod explain;
pub mod group;
pub mod ids;
pub mod layout;
pub mod link;
mod matching;
pub mod op;
pub mod process;
pub mod request;
mod slab;
pub mod time;
pub mod transfer;
pub mod wire;

pub use bsend::BSEND_OVERHEAD_BYTES;
pub use error::Error;
pub use process::Process;
