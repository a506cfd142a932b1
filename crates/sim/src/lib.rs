//! Interconnect simulator (see ARCHITECTURE.md).
#![forbid(unsafe_code)]

pub mod cluster;
pub mod fuzz;
pub mod goal;
pub mod machine;
pub mod network;
mod queue;
pub mod random;
pub mod report;
mod slab;
pub mod trace;
pub mod traffic;
mod wheel;
pub mod workloads;
