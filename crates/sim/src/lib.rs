//! Interconnect simulator (see ARCHITECTURE.md).
#![forbid(unsafe_code)]

pub mod network;
mod queue;
pub mod random;
mod slab;
pub mod traffic;
