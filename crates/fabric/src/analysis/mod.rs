//! Figures of a network that do not depend on the plan, and link loads under a given traffic.

pub mod bisection;
pub mod load;

pub use load::{LinkLoads, TrafficError};
