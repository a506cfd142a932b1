//! Processes on a virtual network.

mod collective;
mod directed;
mod model;
mod net;
mod trunk;
mod wire;
