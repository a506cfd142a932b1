//! The machine description: a TOML file read into a [`Machine`]. docs/machine-file.md is its reference.
//!
//! Owns: the file's keys, their checks, and putting hosts, switches and cables together. Deliberately absent: paths
//! and VLANs (`vlan`), what the simulator makes of a model's times (`ayatori-sim`).
//!
//! Invariants of a [`Machine`]: every link between switches has a lower [`LinkId`] than any link to a host; every host
//! has an attachment; every switch can be reached from every other; no physical port is used twice; each end of a link
//! has as many ports as the link has cables (a bridge inside a host and that host have none).
//!
//! ```
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
//! let machine = ayatori_fabric::description::Machine::parse("example.toml", text)?;
//! assert_eq!((machine.graph.switch_count(), machine.graph.host_count()), (3, 12));
//! # Ok::<(), ayatori_fabric::description::DescriptionError>(())
//! ```

mod assembly;
mod cables;
mod error;
mod models;
mod options;
mod reader;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

pub use error::DescriptionError;
pub use models::{
    FastPorts, HostModel, NicDevice, NicModel, NicsAs, PortNames, RouterModel, SoftwareCosts, SwitchModel,
    Switching,
};
pub use options::{Grouping, PlanOptions, Routing, TaggingOption};

use crate::graph::{Graph, HostId, LinkId, SwitchId};
use crate::plan::{MacAddr, PortNumber};
use crate::topology::Topology;

use error::Source;
use reader::Section;

/// A machine, checked. See the module's documentation.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it is, in the owner's words.
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
    /// What one cable between switches costs.
    pub cable_price: Option<f64>,
    places: Places,
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

impl Machine {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn load(path: &Path) -> Result<Machine, DescriptionError> {
        let file = path.display().to_string();
        let unreadable = |problem: String| {
            Source { file: file.clone(), text: String::new() }.error(
                0..0,
                "",
                problem,
                "name a machine description, such as machines/supernova.toml",
            )
        };
        let length =
            std::fs::metadata(path).map_err(|error| unreadable(format!("cannot be read: {error}")))?.len();
        if length > FILE_BYTES_MAX {
            return Err(unreadable(format!("is {length} bytes long; {FILE_BYTES_MAX} are allowed")));
        }
        let bytes = std::fs::read(path).map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            unreadable(format!("is not UTF-8 text (byte {})", error.utf8_error().valid_up_to()))
        })?;
        Machine::parse(&file, &text)
    }

    /// Reads a text; `file` is its name for errors.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Machine, DescriptionError> {
        let source = Source { file: file.into(), text: text.into() };
        let table = reader::parse(&source)?;
        let mut spans = BTreeMap::new();
        collect_places(table.get_ref(), "", &mut spans);
        let mut machine = assembly::assemble(Section::root(&source, table.get_ref()))?;
        machine.places = Places { source: source.clone(), spans };
        Ok(machine)
    }

    /// A text with whole sections of another in the place of its own: the same machine with another `[topology]`.
    /// Lines and comments are not kept.
    ///
    /// # Errors
    /// If one of the texts is no TOML.
    pub fn overlay(file: &str, text: &str, sections: &str) -> Result<String, DescriptionError> {
        let table = |text: &str| {
            text.parse::<toml::Table>().map_err(|error| {
                let source = Source { file: file.into(), text: text.into() };
                source.error(error.span().unwrap_or(0..0), "", error.message(), "write it as TOML 1.0")
            })
        };
        let mut merged = table(text)?;
        merged.extend(table(sections)?);
        Ok(merged.to_string())
    }

    /// An error at a key of this machine's file, found after the file was read: a plan that needs more VLANs than
    /// `switch_models.NAME.vlans_max`. If the key is not in the file, its nearest table is shown.
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

/// A description longer than this is taken for a mistake.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Where each key stands.
#[derive(Debug, Clone, Default)]
struct Places {
    source: Source,
    spans: BTreeMap<String, Range<usize>>,
}

fn collect_places(table: &DeTable<'_>, path: &str, spans: &mut BTreeMap<String, Range<usize>>) {
    for (key, value) in table.iter() {
        let key = key.get_ref();
        let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        spans.insert(path.clone(), value.span());
        // Entries of lists are not named by later checks.
        if let DeValue::Table(inner) = value.get_ref() {
            collect_places(inner, &path, spans);
        }
    }
}
