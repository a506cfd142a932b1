//! The packet network as its users see it.

mod analytic;
mod deadlock;
mod invariants;
mod throughput;
mod worlds;
