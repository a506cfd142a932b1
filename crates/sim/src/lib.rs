//! Interconnect simulator: real MPI processes on a network that does not exist.
//!
//! It owns simulated time, the packet network ([`network`]: routers, links, credits, NICs), hosts with their
//! software costs and memories, and a cluster of [`Process`](ayatori_core::Process)es on them ([`cluster`]);
//! built-in workloads ([`workloads`], [`traffic`]) and GOAL files ([`goal`]); a workload on a machine from
//! options to an outcome ([`simulation`]); traces and reports; and fault runs ([`fuzz`]), which put the same
//! processes into random worlds where rails break and processes die.
//!
//! It does not own the protocols: they are `ayatori-core`'s, and a rank here makes the calls that `MPI_Send`
//! and `MPI_Recv` make. It does not read descriptions ([`machine`] takes what `ayatori-fabric` has read),
//! starts no thread in a simulation, and never looks at a clock: the same input gives the same picoseconds
//! everywhere.
//!
//! A workload is an async function that calls [`cluster::Mpi`]. Its calls go to its process, the process
//! gives packets, puts and gets to its [`cluster::Nic`], and this gives messages to the network, which cuts
//! them into packets. What arrives wakes the process, whose progress ends requests, and the workload goes on.
//!
//! Begin with [`cluster`] for what a rank does, with [`network`] for how a packet moves, with
//! `examples/ring.rs` and `examples/two_devices.rs` for programs.
//!
//! ```
//! use ayatori_sim::cluster::{Cluster, Config};
//! use ayatori_sim::{machine::nsim_torus, workloads};
//!
//! let mut cluster = Cluster::new(nsim_torus(&[4, 4], None)?, Config::default())?;
//! let report = cluster.run(|mpi| workloads::ping_pong(mpi, 1, 8, 10))?;
//! assert!(report.elapsed_ps > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod cluster;
pub mod fuzz;
pub mod goal;
pub mod host;
pub mod machine;
pub mod network;
mod planned;
mod queue;
pub mod report;
pub mod simulation;
mod slab;
pub mod trace;
pub mod traffic;
mod wheel;
pub mod workloads;
