//! Plans for NetBox, and machines from it.
//!
//! Owns: the tables that NetBox's bulk import takes (a file an object type, with the columns of its import
//! forms), and the way back, from what its REST API or such tables say of devices, interfaces and cables to
//! a machine file. Checked against NetBox 4.6 (docs/netbox.md). Deliberately absent: any connection to
//! a server.
//!
//! NetBox knows one untagged VLAN a port. That frames of all VLANs leave a host's port untagged is in the
//! interface's description only; the plan itself stays `plan.json`.

mod export;
mod import;
mod inventory;
mod machine_file;
#[cfg(test)]
mod tests;

pub use export::{Names, export};
pub use import::{Wanted, import};
pub use inventory::{Inventory, InventoryError};

/// NetBox's types of interfaces that are no ports.
const LAG: &str = "lag";
const BRIDGE: &str = "bridge";
const VIRTUAL: &str = "virtual";

/// Roles of the devices that an export has.
const SWITCH_ROLE: &str = "switch";
const HOST_ROLE: &str = "host";

/// The slug of a name: NetBox allows letters, digits, `-` and `_` in it.
fn slug(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(allowed).collect()
}
