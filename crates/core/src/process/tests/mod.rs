//! Processes on a virtual network.

mod bounds;
mod directed;
mod explain;
pub(crate) mod fronts;
mod in_turn;
mod layouts;
mod learn;
mod model;
mod moving;
pub(crate) mod net;
mod out_of_reach;
mod paced;
mod requests;
mod survive;
mod trunk;
mod trunk_faults;
pub(crate) mod wire;
