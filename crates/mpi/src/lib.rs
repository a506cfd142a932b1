//! `libmpi_abi`: the MPI-5.0 standard ABI over `ayatori-core`.
//!
//! The library has one kind of door and this crate is all of them: the 664 `MPI_*` functions of the ABI, each also
//! as `PMPI_*`. What it owns: handles and what hangs on them at this side of the door (names, attributes, error
//! handlers, info), argument checks, the way from an error to its handler, and the runtime (lock, waiting,
//! launch). What it does not own: matching, protocols, schedules; those are `ayatori-core`.
//!
//! - [`abi`]: types and constants as C sees them, made from `abi/*.txt`.
//! - [`boundary`]: the macro `api!` every function is written with, and what happens to an error.
//! - [`handle`]: tables behind handles.
//! - [`state`]: the statics and their locks: [`state::process`], [`state::types`], [`state::registry`].
//! - [`api`]: the functions, a file a chapter. A function that is not there is a stub that answers
//!   `MPI_ERR_UNSUPPORTED_OPERATION` and stands in `conformance/ledger`.
//!
//! To implement a function, write it in `src/api/<chapter>.rs`; its stub disappears by itself, its signature is
//! checked against the table, and `cargo xtask abi` takes it from the ledger.
//!
//! Invariants: no panic leaves an `MPI_*` function; no user callback runs while a lock is held; nothing runs
//! before the first call (no static constructor).

#[macro_use]
mod boundary;
mod abi;
mod api;
mod attribute;
mod collective;
mod comm;
mod datatype;
mod errhandler;
mod error;
mod gate;
mod handle;
mod info;
mod message;
mod node;
mod op;
mod request;
mod runtime;
mod staging;
mod state;
mod topology;
mod why;
