//! `libmpi_abi`: the MPI-5.0 standard ABI over `ayatori-core`.
//!
//! The crate owns the 664 functions of the ABI, each as `MPI_X` and `PMPI_X`; handles and what hangs on them
//! here (names, attributes, error handlers, hints); argument checks; the way from an error to its handler;
//! and the runtime: lock, waiting, progress modes, joining a job. Its invariants: no panic leaves an `MPI_*`
//! function; no function of the user runs while a lock is held; nothing runs before the first call; a handle
//! is never dereferenced.
//!
//! It does not own matching, protocols and schedules, which are `ayatori-core`; devices, which are
//! `ayatori-devices`; or the launcher's protocol, which is `ayatori-launch`. An unimplemented function is a
//! stub that returns `MPI_ERR_UNSUPPORTED_OPERATION` and is listed in `conformance/ledger`.
//!
//! A call goes down through these layers, and no module names one above its own:
//!
//! ```text
//!   api/          a file a chapter: checks arguments, calls on        boundary   the macro `api!`, errors to handlers
//!   collective    a collective operation in its three forms           why        what a call waits for, when asked
//!   file/         files: views, access by one process and by all      state      the process behind its lock
//!   runtime/      start, end, waiting, progress
//!   request comm message datatype op …   what is behind a kind of handle: its table, its lock
//!   operation     collective operations as schedules                  gate, lock, phase, handle
//!   arguments     pointers of the caller                              fault, abi errors, types and constants
//! ```
//!
//! Begin with [`boundary`] and one short chapter, `api/group.rs`; then `api/p2p.rs` and [`state`]. To
//! implement a function, write it in `src/api/<chapter>.rs`: its stub disappears by itself, its signature is
//! checked against the table, and `cargo xtask abi` takes it from the ledger.

#[macro_use]
mod boundary;
mod abi;
mod api;
mod arguments;
mod attribute;
mod calls;
mod check;
mod claim;
mod collective;
mod comm;
mod datatype;
mod dynamic;
mod errhandler;
mod error;
mod fault;
mod file;
mod gate;
mod general;
mod group;
mod handle;
mod holder;
mod host;
mod info;
mod lock;
mod message;
mod node;
mod op;
mod operation;
mod overlap;
mod phase;
mod post;
mod request;
mod runtime;
mod session;
mod staging;
mod starting;
mod state;
mod tool;
mod topology;
mod why;
mod win;
