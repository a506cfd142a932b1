//! Processes on a virtual network.

mod directed;
mod model;
mod net;
