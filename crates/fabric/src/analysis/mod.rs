//! Figures of a network that do not depend on the plan, and link loads under a given traffic.

pub mod bisection;
pub mod load;
mod traffic;

pub use load::{ChannelLoad, LinkLoads, TrafficError};
pub use traffic::{Flow, TrafficFileError, read_traffic};
