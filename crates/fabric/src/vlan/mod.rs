//! VLAN planning: any topology of layer-2 switches, without spanning-tree protocol and without changing
//! hosts.
//!
//! Entry: [`plan`]. The steps, each in a file of its own: paths from every source switch, one tree each
//! (`paths/`);
//! sources whose trees are one tree share a VLAN (`solution`); the whole is judged (`evaluation`); of several
//! candidates the best is taken and a deadlock-free one offered (`choose`); it becomes ports, LAGs,
//! addresses and
//! checks (`assign`). [`failures`] does all that again for every link and switch that may fail.
//!
//! # What the inter-switch ports are
//!
//! T. Otsuka et al. (TPDS 22(2), 2011) need at most as many VLANs as a switch has neighbours, which is
//! possible only if
//! frames are re-tagged at each hop: links between switches untagged, the route a function of input port and
//! destination. The paper this planner follows (T. Hiroyasu et al., 2009; P3) does not do that. Its
//! section 3.1 sets
//! PVID and untagged membership on *host* ports only, and says of figure 2 that a frame from hosts 1 to
//! 28 is given tag
//! 101 at the input port of switch 0, is "routed to every destination inside VLAN 101", and loses the
//! tag at the output
//! port of the switch *its destination is connected to*. So ports between switches are tagged members,
//! a frame keeps
//! its VLAN from the first switch to the last, and a VLAN is a tree over the whole network. That is
//! what is planned
//! here. The paper's numbers of VLANs agree: complete graphs need one a switch (two different stars
//! make a cycle), where
//! per-hop tagging would need one less than that.
//!
//! # Deadlock
//!
//! 802.3x pauses a link, not a VLAN. That each VLAN is a tree therefore proves nothing: the channel
//! dependencies of all
//! VLANs are taken together, and a cycle is shown with a route for each of its steps.

mod addresses;
mod assign;
#[cfg(test)]
mod assign_tests;
mod balance;
mod choose;
mod continued;
mod evaluation;
mod for_traffic;
mod in_use;
mod mstp;
mod network;
#[cfg(test)]
pub(crate) mod networks_for_tests;
mod packing;
mod paths;
mod planner;
#[cfg(test)]
mod reach_tests;
mod rebalance;
mod renewed;
mod repair;
mod replan;
mod share;
mod solution;
#[cfg(test)]
mod tests;
mod tree;
mod verify;
mod written;

pub use continued::{REPAIR_OVER_LEAST_MAX, Reach, plan_from, repaired_from};
pub use for_traffic::{ForTraffic, plan_for_traffic};
pub use in_use::{InUse, InUseError};
pub use network::Failure;
pub use planner::{elected, plan, plan_without};
pub use replan::{Degraded, failures, single_failures};
pub use written::{WrittenError, written};

pub(crate) use network::Network;
