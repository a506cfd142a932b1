//! Machine description, topologies, routing, VLAN planning (see ARCHITECTURE.md).
#![forbid(unsafe_code)]

pub mod analysis;
pub mod check;
pub mod deadlock;
pub mod description;
pub mod dialect;
pub mod graph;
pub mod host;
pub mod page;
pub mod plan;
pub mod routing;
pub mod topology;
pub mod vlan;
