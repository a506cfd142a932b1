//! PMI-1: how a process gets its rank from its launcher, and exchanges business cards before it can
//! communicate.
//!
//! Owns the wire format (`wire.rs`, used by both sides), the blocking client (`client.rs`), and the
//! launcher's server, a state machine (`server.rs`). Which launcher there is, if any, is
//! [`crate::environment`]'s business.
//!
//! The protocol is lines of `key=value` over a stream socket, one request in flight, the server answering
//! each in turn. One client covers `ayatori run`, Hydra (MPICH, Intel MPI), `srun --mpi=pmi2` (whose server
//! accepts version 1.1) and Flux. Sources: Flux RFC 13; MPICH `src/pmi/maint/pmi-1.1.txt`; the bytes MPICH
//! 5.0.2's `mpiexec` and library exchange.
//!
//! ```text
//! rank                                    launcher
//!   cmd=init pmi_version=1 …        ->
//!                                   <-    cmd=response_to_init … rc=0
//!   cmd=get_maxes, get_my_kvsname …  ->   cmd=maxes …, cmd=my_kvsname …
//!   cmd=put kvsname= key= value=    ->
//!                                   <-    cmd=put_result rc=0
//!   cmd=barrier_in                  ->
//!                                   <-    cmd=barrier_out rc=0      (when all ranks are in)
//!   cmd=get kvsname= key=           ->
//!                                   <-    cmd=get_result rc=0 value=
//!   cmd=finalize                    ->
//!                                   <-    cmd=finalize_ack rc=0
//! ```
//!
//! Invariants: no length from the wire is believed before it is checked against a bound of `wire.rs`; nothing
//! a peer sends can panic either side; what `emit` writes `parse` reads back.

pub mod client;
mod launcher;
pub mod mapping;
#[cfg(feature = "controller")]
pub mod names;
#[cfg(feature = "controller")]
pub(crate) mod server;
pub mod spawn;
pub mod wire;

pub use client::{Client, Error};
