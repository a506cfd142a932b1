//! Describes machines and plans their networks: topologies, routes, VLANs, the configuration of switches and
//! hosts.
//!
//! **Owns** the machine file and its checks ([`description`]), the graph of switches, hosts and links
//! ([`graph`]), generators of topologies ([`topology`]), routing functions ([`routing`]), deadlock detection
//! ([`deadlock`]), the VLAN planner ([`vlan`]), the plan as data ([`plan`]), the configuration languages of
//! switches ([`dialect`]) and hosts ([`host`]), the designs from a price list ([`design`]), the comparison of
//! collected switch state with a plan ([`check`]), when a plan is left for its repair ([`watch`]), tables for
//! and from NetBox ([`netbox`]), loads ([`analysis`]) and the plan as a page ([`page`]).
//!
//! **Does not own** running anything: it connects to no switch, and the simulation of a machine is
//! `ayatori-sim`'s. It reads the files that it is given, and sends one kind of frame, the one that teaches
//! switches ([`host::prime`]).
//!
//! **Data flow.** A TOML file becomes a [`description::Machine`]; the planner makes a [`plan::Plan`] of it,
//! with verdicts; dialects, host scripts, the page and the check read the plan and nothing else.
//!
//! **Begin** at [`vlan::plan`], then `vlan/planner.rs` (the steps) and `vlan/assign.rs` (from a solution to a
//! plan). To add a switch make, a topology or a routing, add a file to `dialect/`, `topology/` or `routing/`,
//! and its line in the list there.
//!
//! ```
//! use ayatori_fabric::{description::Machine, vlan};
//!
//! let text = r#"
//! name = "example"
//! [switch_models.small]
//! ports = 8
//! rate_gbps = 1
//! [host_models.node]
//! nic = [{ name = "eth0", rate_gbps = 1 }]
//! [topology]
//! kind = "complete"
//! switches = 3
//! switch_model = "small"
//! [hosts]
//! model = "node"
//! count = 12
//! "#;
//! let plan = vlan::plan(&Machine::parse("example.toml", text)?)?;
//! assert_eq!(plan.vlans.len(), 3);
//! assert!(plan.verdicts.are_good());
//! # Ok::<(), ayatori_fabric::description::DescriptionError>(())
//! ```
#![forbid(unsafe_code)]

pub mod analysis;
pub mod ansible;
pub mod broadcast;
pub mod bytes;
pub mod check;
pub mod deadlock;
pub mod description;
pub mod design;
pub mod dialect;
pub mod graph;
pub mod host;
pub mod netbox;
pub mod page;
pub mod plan;
pub mod routing;
pub mod topology;
pub mod vlan;
pub mod watch;
