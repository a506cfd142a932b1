//! Machine description, topologies, routing, VLAN planning (see ARCHITECTURE.md).
#![forbid(unsafe_code)]

pub mod graph;
pub mod topology;
