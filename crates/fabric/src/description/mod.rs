//! The machine description: a TOML file read into a [`Machine`]. docs/machine-file.md is its reference.
//!
//! Owns: the file's keys, their checks, and putting hosts, switches and cables together. Deliberately absent:
//! paths and VLANs (`vlan`), what the simulator makes of a model's times (`ayatori-sim`).
//!
//! Invariants of a [`Machine`]: every link between switches has a lower [`crate::graph::LinkId`] than any
//! link to a host; every host has an attachment; every switch can be reached from every other; no physical
//! port is used twice; each end of a link has as many ports as the link has cables (a bridge inside a host
//! and that host have none).
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
mod change;
mod error;
mod host_software;
mod hosts;
#[cfg(test)]
mod keys_tests;
mod machine;
mod models;
mod options;
mod prices;
mod reader;
mod shape;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

pub use assembly::PLANNED_SWITCHES_MAX;
pub(crate) use assembly::hosts_at;
pub use error::DescriptionError;
pub use host_software::{
    Among, LongerTime, PiecesFrom, RateWithin, SoftwareCosts, TimesWithin, Waiting, YieldAmong,
};
pub use hosts::{
    Burst, BusKind, BusModel, HostModel, NicDevice, NicModel, NicTransfer, NicsAs, SocketCosts, StageModel,
    TcpModel,
};
pub use machine::{Host, HostLink, Machine, Switch};
pub use models::{Arbitration, FastPorts, LagHash, PortNames, RouterModel, SwitchModel, Switching};
pub use options::{Grouping, PlanOptions, Routing, SearchEffort, SpanningTree, TaggingOption};
pub use prices::{CablePrice, Prices, Racks};

use error::Source;
use machine::Places;
use reader::Section;

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

    /// The keys that may stand in the tables of a text, with the names of models and without the places in
    /// lists: `host_models.node.nic.rate_gbps`.
    ///
    /// # Errors
    /// As [`Machine::parse`].
    pub fn keys(file: &str, text: &str) -> Result<BTreeSet<String>, DescriptionError> {
        let source = Source { file: file.into(), text: text.into() };
        let table = reader::parse(&source)?;
        let asked = RefCell::default();
        assembly::assemble(Section::root(&source, table.get_ref()).noting(&asked))?;
        let without_places = |path: &String| {
            let parts = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
            parts.collect::<String>()
        };
        Ok(asked.borrow().iter().map(without_places).collect())
    }

    /// A text with whole sections of another in the place of its own: the same machine with another
    /// `[topology]`. Lines and comments are not kept.
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
}

/// A description longer than this is taken for a mistake.
const FILE_BYTES_MAX: u64 = 64 << 20;

fn collect_places(table: &DeTable<'_>, path: &str, spans: &mut BTreeMap<String, Range<usize>>) {
    for (key, value) in table.iter() {
        let key = key.get_ref();
        let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        spans.insert(path.clone(), value.span());
        match value.get_ref() {
            DeValue::Table(inner) => collect_places(inner, &path, spans),
            // Of other lists, which can be long, later checks name no entries.
            DeValue::Array(list) if path.starts_with("host_models.") => {
                for (index, entry) in list.iter().enumerate() {
                    if let DeValue::Table(inner) = entry.get_ref() {
                        collect_places(inner, &format!("{path}[{index}]"), spans);
                    }
                }
            }
            _ => {}
        }
    }
}
