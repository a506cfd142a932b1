//! The packet network as its users see it.

mod analytic;
mod deadlock;
mod digest;
mod ethernet;
mod invariants;
mod order;
mod plans;
mod queries;
mod saturation;
mod tcp;
mod throughput;
mod worlds;
