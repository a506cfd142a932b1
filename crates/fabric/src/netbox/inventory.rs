//! Devices, interfaces and cables from NetBox: answers of its REST API, or tables of bulk import.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::plan::MacAddr;

/// NetBox's data about the selected devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    pub(super) devices: Vec<Device>,
    /// In NetBox's order, which numbers the ports.
    pub(super) interfaces: Vec<Interface>,
    pub(super) cables: Vec<Cable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) role: String,
    /// Its type's model.
    pub(super) model: String,
    pub(super) platform: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) device: String,
    pub(super) name: String,
    /// `1000base-t`, `lag`.
    pub(super) kind: String,
    /// bit/s, where a speed is given.
    pub(super) speed: Option<u64>,
    /// Name of the LAG it is in, or empty.
    pub(super) lag: String,
    pub(super) mtu_bytes: Option<u32>,
    pub(super) mac: Option<MacAddr>,
    pub(super) is_management: bool,
}

/// Both ends: device and interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cable {
    pub(super) ends: [(String, String); 2],
}

/// Why a file is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// There is no such file among those given.
    #[error("no {0}.json (of the REST API) and no {0}.csv (of bulk import)")]
    Missing(&'static str),
    /// A file is not what its name says.
    #[error("{file}: {problem}")]
    File {
        /// Its name.
        file: String,
        /// Problem and remedy.
        problem: String,
    },
}

/// One object: its fields as text, missing ones empty.
type Fields = BTreeMap<&'static str, String>;

/// Fields read of each kind of object: our name, the column of bulk import, the path in an answer of the API,
/// and whether a table without the column is useless.
type Columns = &'static [(&'static str, &'static str, &'static str, bool)];

const DEVICES: Columns = &[
    ("name", "name", "/name", true),
    ("role", "role", "/role/name", true),
    ("model", "device_type", "/device_type/model", true),
    ("platform", "platform", "/platform/name", false),
];
const INTERFACES: Columns = &[
    ("device", "device", "/device/name", true),
    ("name", "name", "/name", true),
    ("kind", "type", "/type/value", true),
    ("speed", "speed", "/speed", false),
    ("lag", "lag", "/lag/name", false),
    ("mtu", "mtu", "/mtu", false),
    ("mac", "mac_address", "/mac_address", false),
    ("management", "mgmt_only", "/mgmt_only", false),
];
const CABLES: Columns = &[
    ("a_type", "side_a_type", "/a_terminations/0/object_type", true),
    ("a_device", "side_a_device", "/a_terminations/0/object/device/name", true),
    ("a_name", "side_a_name", "/a_terminations/0/object/name", true),
    ("a_second", "", "/a_terminations/1/object_type", false),
    ("b_type", "side_b_type", "/b_terminations/0/object_type", true),
    ("b_device", "side_b_device", "/b_terminations/0/object/device/name", true),
    ("b_name", "side_b_name", "/b_terminations/0/object/name", true),
    ("b_second", "", "/b_terminations/1/object_type", false),
];
const MACS: Columns = &[
    ("mac", "mac_address", "/mac_address", true),
    ("device", "device", "/assigned_object/device/name", true),
    ("interface", "interface", "/assigned_object/name", true),
];
const INTERFACE_OBJECT: &str = "dcim.interface";

impl Inventory {
    /// Reads files, given by name and text: `devices`, `interfaces`, `cables`, and `mac-addresses` where
    /// there are any; each `.json` as the REST API answers it (`/api/dcim/devices/?limit=0`), or `.csv` as
    /// bulk import takes it. A number before the name (`06-devices.csv`) does not count.
    ///
    /// # Errors
    /// A file is missing or not understood.
    pub fn parse(files: &[(String, String)]) -> Result<Inventory, InventoryError> {
        let devices = read(files, "devices", DEVICES)?;
        let devices = devices.into_iter().map(|mut own| Device {
            name: take(&mut own, "name"),
            role: take(&mut own, "role"),
            model: take(&mut own, "model"),
            platform: take(&mut own, "platform"),
        });
        let mut inventory = Inventory { devices: devices.collect(), ..Inventory::default() };
        let file = file_of(files, "interfaces")?.0;
        for mut own in read(files, "interfaces", INTERFACES)? {
            let (device, name) = (take(&mut own, "device"), take(&mut own, "name"));
            let wrong = |what: &str, text: &str| InventoryError::File {
                file: file.to_owned(),
                problem: format!("{device} {name}: {text:?} is no {what}"),
            };
            let [speed, mtu, mac] = ["speed", "mtu", "mac"].map(|key| take(&mut own, key));
            let kbit_per_s: Option<u64> = number(&speed).map_err(|()| wrong("speed in kbit/s", &speed))?;
            let interface = Interface {
                kind: take(&mut own, "kind"),
                speed: kbit_per_s.map(|rate| rate.saturating_mul(1_000)),
                lag: take(&mut own, "lag"),
                mtu_bytes: number(&mtu).map_err(|()| wrong("MTU", &mtu))?,
                mac: mac_of(&mac).map_err(|()| wrong("MAC address", &mac))?,
                is_management: take(&mut own, "management").eq_ignore_ascii_case("true"),
                device,
                name,
            };
            inventory.interfaces.push(interface);
        }
        inventory.read_cables(files)?;
        if file_of(files, "mac-addresses").is_ok() {
            inventory.read_macs(files)?;
        }
        Ok(inventory)
    }

    fn read_cables(&mut self, files: &[(String, String)]) -> Result<(), InventoryError> {
        let file = file_of(files, "cables")?.0;
        for (place, mut own) in read(files, "cables", CABLES)?.into_iter().enumerate() {
            let mut end =
                |kind: &'static str, device: &'static str, name: &'static str, second: &'static str| {
                    let problem = if !take(&mut own, second).is_empty() {
                        "has several ends on a side; write a cable for each"
                    } else if take(&mut own, kind) != INTERFACE_OBJECT {
                        "does not end at an interface; patch panels are not followed"
                    } else {
                        return Ok((take(&mut own, device), take(&mut own, name)));
                    };
                    let problem = format!("cable {} {problem}", place + 1);
                    Err(InventoryError::File { file: file.to_owned(), problem })
                };
            let a = end("a_type", "a_device", "a_name", "a_second")?;
            let b = end("b_type", "b_device", "b_name", "b_second")?;
            self.cables.push(Cable { ends: [a, b] });
        }
        Ok(())
    }

    fn read_macs(&mut self, files: &[(String, String)]) -> Result<(), InventoryError> {
        let file = file_of(files, "mac-addresses")?.0;
        for mut own in read(files, "mac-addresses", MACS)? {
            let [mac, device, name] = ["mac", "device", "interface"].map(|key| take(&mut own, key));
            let address = mac_of(&mac).map_err(|()| InventoryError::File {
                file: file.to_owned(),
                problem: format!("{mac:?} is no MAC address"),
            })?;
            let mut own = self.interfaces.iter_mut();
            if let Some(own) = own.find(|own| own.device == device && own.name == name) {
                own.mac = address;
            }
        }
        Ok(())
    }
}

fn take(fields: &mut Fields, key: &'static str) -> String {
    fields.remove(key).unwrap_or_default()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<Option<T>, ()> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| ()) }
}

fn mac_of(text: &str) -> Result<Option<MacAddr>, ()> {
    if text.is_empty() { Ok(None) } else { MacAddr::parse(text).map(Some).ok_or(()) }
}

/// Name and text of the file with these objects.
fn file_of<'a>(
    files: &'a [(String, String)],
    objects: &'static str,
) -> Result<(&'a str, &'a str), InventoryError> {
    let is_wanted = |name: &str| {
        let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
        name.strip_prefix(objects).is_some_and(|rest| rest == ".json" || rest == ".csv")
    };
    let found = files.iter().find(|(name, _)| is_wanted(name));
    found.map(|(name, text)| (name.as_str(), text.as_str())).ok_or(InventoryError::Missing(objects))
}

fn read(
    files: &[(String, String)],
    objects: &'static str,
    columns: Columns,
) -> Result<Vec<Fields>, InventoryError> {
    let (file, text) = file_of(files, objects)?;
    let read = if file.ends_with(".json") { of_api(text, columns) } else { of_table(text, columns) };
    read.map_err(|problem| InventoryError::File { file: file.to_owned(), problem })
}

/// An answer of the API: a list, or a page of one.
fn of_api(text: &str, columns: Columns) -> Result<Vec<Fields>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    if value.get("next").is_some_and(Value::is_string) {
        return Err("is one page of several: ask for all, with ?limit=0".into());
    }
    let list = value.get("results").unwrap_or(&value).as_array();
    let list =
        list.ok_or("has no list of objects: is it the API's answer, such as that of /api/dcim/devices/?")?;
    let text_of = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let fields = |object: &Value| {
        let of = |path: &str| object.pointer(path).map(text_of).unwrap_or_default();
        columns.iter().map(|(key, _, path, _)| (*key, of(path))).collect()
    };
    Ok(list.iter().map(fields).collect())
}

fn of_table(text: &str, columns: Columns) -> Result<Vec<Fields>, String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| format!("is no table: {error}"))?.clone();
    let place = |column: &str| header.iter().position(|name| name == column);
    let missing = columns.iter().find(|(_, column, _, is_needed)| *is_needed && place(column).is_none());
    if let Some((_, column, ..)) = missing {
        return Err(format!("has no column {column:?}: the table must have the columns of bulk import"));
    }
    let mut all = Vec::new();
    for line in reader.records() {
        let line = line.map_err(|error| format!("is no table: {error}"))?;
        let of = |column: &str| place(column).and_then(|at| line.get(at)).unwrap_or_default().to_owned();
        all.push(columns.iter().map(|(key, column, ..)| (*key, of(column))).collect());
    }
    Ok(all)
}
