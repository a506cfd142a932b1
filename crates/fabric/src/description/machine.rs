//! The machine that a description becomes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::{Graph, HostId, LinkId, SwitchId};
use crate::plan::{MacAddr, PortNumber};
use crate::topology::Topology;

use super::error::{DescriptionError, Source};
use super::hosts::HostModel;
use super::models::SwitchModel;
use super::options::PlanOptions;

/// A machine, checked. See the module's documentation.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// The owner's description of it.
    pub about: String,
    /// Makes of switches.
    pub switch_models: Vec<SwitchModel>,
    /// Makes of hosts.
    pub host_models: Vec<HostModel>,
    /// The generator the switches come from; `None` if they were listed one by one.
    pub topology: Option<Topology>,
    /// Switches, hosts and links.
    pub graph: Graph,
    /// By [`SwitchId`].
    pub switches: Vec<Switch>,
    /// By [`HostId`].
    pub hosts: Vec<Host>,
    /// Physical ports of both ends, by [`LinkId`]; at a host: NIC indices from 0.
    pub link_ports: Vec<[Vec<PortNumber>; 2]>,
    /// What the planner is asked for.
    pub options: PlanOptions,
    /// Price of one cable between switches.
    pub cable_price: Option<f64>,
    pub(super) places: Places,
}

/// A switch of a machine; its name and cables are in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Index into the machine's switch models.
    pub model: usize,
    /// The host this is a bridge inside of.
    pub inside_host: Option<HostId>,
}

/// A host of a machine; its name is in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Index into the machine's host models.
    pub model: usize,
    /// Addresses of its NICs, where given.
    pub macs: Vec<Option<MacAddr>>,
    /// Its ways into the network, at least one.
    pub attachments: Vec<HostLink>,
}

/// A host's link to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLink {
    /// The link; its [`Machine::link_ports`] name NICs and switch ports.
    pub link: LinkId,
    /// The switch.
    pub switch: SwitchId,
}

/// Where each key stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub(super) source: Source,
    pub(super) spans: BTreeMap<String, Range<usize>>,
}

impl Machine {
    /// An error at a key of this machine's file, found after the file was read: a plan that needs more VLANs
    /// than `switch_models.NAME.vlans_max`. If the key is not in the file, its nearest table is shown.
    pub fn error(
        &self,
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> DescriptionError {
        let mut at = key;
        let span = loop {
            if let Some(span) = self.places.spans.get(at) {
                break span.clone();
            }
            match at.rfind('.') {
                Some(dot) => at = &at[..dot],
                None => break 0..0,
            }
        };
        self.places.source.error(span, key, problem, remedy)
    }

    /// Whether the file gives a key, not in a list but those of host models:
    /// `host_models.node.nic[0].device`.
    pub fn gives(&self, key: &str) -> bool {
        self.places.spans.contains_key(key)
    }

    /// A switch's model.
    pub fn switch_model(&self, switch: SwitchId) -> &SwitchModel {
        &self.switch_models[self.switches[switch.index()].model]
    }

    /// A host's model.
    pub fn host_model(&self, host: HostId) -> &HostModel {
        &self.host_models[self.hosts[host.index()].model]
    }

    /// Number of links between switches: the first so many links.
    pub fn switch_link_count(&self) -> usize {
        self.graph.link_count() - self.hosts.iter().map(|host| host.attachments.len()).sum::<usize>()
    }

    /// Attachments of hosts at every switch.
    pub fn attachment_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.graph.switch_count()];
        for link in self.hosts.iter().flat_map(|host| &host.attachments) {
            counts[link.switch.index()] += 1;
        }
        counts
    }
}
