//! Builds a described cluster inside a small virtual machine, runs commands in it and verifies its plan.
//!
//! **Owns** the virtual machine ([`vm`]), what is built in it ([`Lab`]), the agent that works inside
//! ([`agent`]) and the checks of a plan by real traffic ([`verify`]). Hosts and switches are network
//! namespaces, cables are veth pairs, switches are Linux bridges with VLAN filtering.
//!
//! **Does not own** plans, and what configures switches and hosts: it runs the scripts that `ayatori-fabric`
//! writes for real Linux switches and hosts. It never touches this machine's own network and needs no
//! privilege. It prints nothing.
//!
//! **Data flow.** A plan becomes a layout: nodes, cables, scripts. Requests go to the agent as JSON, one
//! message a line, over a virtio-serial port; replies come back the same way.
//!
//! ```text
//! plan ── layout ──▶ nodes, cables, scripts          Lab: requests of the command and the checks
//!                        │                            │
//!                        └──────── wire ──────────────┴──▶ agent (inside the vm)
//! ```
//!
//! **Begin** at [`Lab::start`], then read `layout.rs` (what a plan becomes) and `agent/network.rs` (how it is
//! built).
//!
//! The part that needs no virtual machine is the difference of two readings of port counters:
//!
//! ```
//! use ayatori_lab::{End, PortCounters, report::Traffic};
//!
//! let end = End { node: "switch0".into(), port: "swp1".into() };
//! let read = |sent_frames| PortCounters { sent_frames, ..PortCounters::new(end.clone()) };
//! let traffic = Traffic::between(&[read(5)], &[read(12)]);
//! assert_eq!(traffic.sent_frames(&end), 7);
//! ```
#![forbid(unsafe_code)]

pub mod agent;
mod cluster;
mod layout;
pub mod report;
pub mod verify;
pub mod vm;
mod wire;

pub use cluster::{Lab, Reach};
pub use wire::{End, PortCounters};
