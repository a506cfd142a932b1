//! JSON output of lldpd and iproute2.
//!
//! lldpd's `json` has an object by interface, or a list of such objects where there are several neighbours;
//! its `json0` has lists everywhere, and values in objects. Both are read by one walk.

use serde_json::Value;

use super::port::{Neighbour, Shown};

const NEITHER: &str = "is neither `lldpcli -f json show neighbors` nor `ip -j link show`";

/// Several documents, one after the other.
pub(super) fn read(text: &str) -> Result<Shown, String> {
    let mut shown = Shown::default();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let document = document.map_err(|error| format!("{NEITHER}: {error}"))?;
        match (&document, document.get("lldp")) {
            (_, Some(lldp)) => neighbours(lldp, &mut shown)?,
            (Value::Array(links), None) => links_of(links, &mut shown)?,
            _ => return Err(NEITHER.into()),
        }
    }
    Ok(shown)
}

fn links_of(links: &[Value], shown: &mut Shown) -> Result<(), String> {
    for link in links {
        if !link.is_object() {
            return Err(NEITHER.into());
        }
        // `ip -j` leaves empty objects for what its filters take away.
        let Some(name) = link.get("ifname").and_then(Value::as_str) else { continue };
        let flags = link.get("flags").and_then(Value::as_array).ok_or(NEITHER)?;
        let has = |wanted: &str| flags.iter().any(|flag| flag.as_str() == Some(wanted));
        shown.ports.entry(name.to_owned()).or_default().is_up = Some(has("UP") && has("LOWER_UP"));
    }
    Ok(())
}

fn neighbours(lldp: &Value, shown: &mut Shown) -> Result<(), String> {
    for part in elements(lldp) {
        // Without a neighbour there is no `interface`.
        for interface in part.get("interface").into_iter().flat_map(elements) {
            let named = interface.get("name").and_then(Value::as_str);
            if let Some(name) = named.filter(|_| interface.get("chassis").is_some()) {
                add(name, interface, shown)?;
                continue;
            }
            for (name, heard) in interface.as_object().ok_or(NEITHER)? {
                add(name, heard, shown)?;
            }
        }
    }
    Ok(())
}

fn add(name: &str, heard: &Value, shown: &mut Shown) -> Result<(), String> {
    let incomplete = || format!("{name} has a neighbour without chassis or port");
    let chassis = heard.get("chassis").and_then(|chassis| elements(chassis).next()).ok_or_else(incomplete)?;
    let port = heard.get("port").and_then(|port| elements(port).next()).ok_or_else(incomplete)?;
    let system = match chassis.get("id") {
        Some(id) => chassis.get("name").and_then(word).or_else(|| word(id)),
        // By its name, where it has one.
        None => chassis.as_object().and_then(|names| names.keys().next().map(String::as_str)),
    };
    let ports = ["id", "descr"].iter().filter_map(|key| port.get(key).and_then(word));
    let neighbour = Neighbour {
        system: system.ok_or_else(incomplete)?.to_owned(),
        ports: ports.map(str::to_owned).collect(),
    };
    shown.ports.entry(name.to_owned()).or_default().neighbours.push(neighbour);
    Ok(())
}

/// The elements of a list, or the value itself.
fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array().map(Vec::as_slice);
    list.unwrap_or(std::slice::from_ref(value)).iter()
}

/// The text of a value: itself, its `value`, or that of the first in a list.
fn word(value: &Value) -> Option<&str> {
    let value = elements(value).next()?;
    value.as_str().or_else(|| value.get("value")?.as_str())
}
