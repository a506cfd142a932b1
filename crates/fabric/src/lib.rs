//! Machine description, topologies, routing, VLAN planning (see ARCHITECTURE.md).
#![forbid(unsafe_code)]

pub mod dialect;
pub mod graph;
pub mod plan;
pub mod topology;
