//! The table that the makers' systems print for `show lldp neighbors`.
//!
//! All have a line of titles and rows in columns below; they differ in titles and order. A column begins
//! where its title begins.

use super::port::{Neighbour, Shown};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    /// Our port.
    Local,
    /// The neighbour's name.
    System,
    /// The neighbour's port.
    Port,
    Other,
}

/// Titles in small letters. A longer one stands before those that are part of it.
const TITLES: &[(&str, Column)] = &[
    ("neighbor device id", Column::System),
    ("neighbor port id", Column::Port),
    ("neighbor interface", Column::Port),
    ("neighbor device", Column::System),
    ("neighbor intf", Column::Port),
    ("neighbor dev", Column::System),
    ("local interface", Column::Local),
    ("parent interface", Column::Other),
    ("rem chassis id", Column::Other),
    ("remoteportdescr", Column::Other),
    ("rem host name", Column::System),
    ("rem port id", Column::Port),
    ("remotedevice", Column::System),
    ("remoteportid", Column::Port),
    ("capability", Column::Other),
    ("chassis id", Column::Other),
    ("loc portid", Column::Local),
    ("local intf", Column::Local),
    ("local port", Column::Local),
    ("chassisid", Column::Other),
    ("hold-time", Column::Other),
    ("portdescr", Column::Other),
    ("localport", Column::Local),
    ("system name", Column::System),
    ("device id", Column::System),
    ("port info", Column::Port),
    ("interface", Column::Local),
    ("exptime", Column::Other),
    ("port id", Column::Port),
    ("sysname", Column::System),
    ("portid", Column::Port),
    ("remid", Column::Other),
    ("port", Column::Local),
    ("ttl", Column::Other),
];

pub(super) fn read(text: &str) -> Result<Shown, String> {
    let mut lines = text.lines();
    let columns = lines.by_ref().find_map(columns).ok_or(
        "has no table of LLDP neighbours: no line with titles for the local port, the neighbour and its port",
    )?;
    let mut shown = Shown::default();
    for line in lines {
        let is_rule = !line.contains(|c: char| c.is_alphanumeric());
        let is_total = line.trim_start().to_ascii_lowercase().starts_with("total ");
        if is_rule || is_total {
            continue;
        }
        let cell = |wanted: Column| columns.iter().find(|column| column.what == wanted)?.cell(line);
        let (Some(local), Some(system)) = (cell(Column::Local), cell(Column::System)) else { continue };
        let neighbour = Neighbour { system, ports: cell(Column::Port).into_iter().collect() };
        shown.ports.entry(local).or_default().neighbours.push(neighbour);
    }
    Ok(shown)
}

struct Place {
    what: Column,
    /// In characters.
    begin: usize,
    end: usize,
}

impl Place {
    fn cell(&self, line: &str) -> Option<String> {
        let text: String = line.chars().skip(self.begin).take(self.end - self.begin).collect();
        let text = text.trim().trim_matches('|').trim();
        (!text.is_empty() && text != "-").then(|| text.to_owned())
    }
}

/// Where the columns are, if this is the line of titles.
fn columns(line: &str) -> Option<Vec<Place>> {
    let mut rest = line.to_ascii_lowercase();
    if !rest.is_ascii() {
        return None;
    }
    let mut found: Vec<(usize, Column)> = Vec::new();
    for &(title, column) in TITLES {
        if let Some(at) = rest.find(title) {
            found.push((at, column));
            rest.replace_range(at..at + title.len(), &"\0".repeat(title.len()));
        }
    }
    found.sort_by_key(|&(at, _)| at);
    let ends = found.iter().skip(1).map(|&(at, _)| at).chain([usize::MAX]);
    let places = found.iter().zip(ends).map(|(&(begin, what), end)| Place { what, begin, end });
    let places: Vec<Place> = places.collect();
    let has = |wanted: Column| places.iter().any(|place| place.what == wanted);
    [Column::Local, Column::System, Column::Port].into_iter().all(has).then_some(places)
}
