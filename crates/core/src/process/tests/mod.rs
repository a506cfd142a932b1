//! Processes on a virtual network.

mod bounds;
mod collective;
mod directed;
mod explain;
mod inter;
mod layouts;
mod learn;
mod model;
mod net;
mod paced;
mod partitioned;
mod rma;
mod rma_faults;
mod rma_losses;
mod survive;
mod trunk;
mod trunk_faults;
mod wire;
