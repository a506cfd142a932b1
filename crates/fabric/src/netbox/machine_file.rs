//! The text of a machine file with everything listed one by one.

use std::fmt::Write as _;

/// What a model of switches is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SwitchKind {
    /// Names of its ports, in their order.
    pub(super) names: Vec<String>,
    pub(super) rate_bits_per_s: u64,
    /// First and last port of another rate, and that rate.
    pub(super) fast: Option<(usize, usize, u64)>,
    /// `None`: not known.
    pub(super) dialect: Option<String>,
}

/// What a model of hosts is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HostKind {
    pub(super) nics: Vec<Nic>,
    pub(super) is_bond: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Nic {
    pub(super) name: String,
    pub(super) rate_bits_per_s: u64,
    pub(super) mtu_bytes: Option<u32>,
}

/// A `[[cable]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cabled {
    pub(super) from: String,
    pub(super) to: String,
}

/// Everything a machine has.
pub(super) struct Parts<'a> {
    pub(super) name: &'a str,
    pub(super) switch_kinds: &'a [(String, SwitchKind)],
    pub(super) host_kinds: &'a [(String, HostKind)],
    /// Name and index of the kind.
    pub(super) switches: &'a [(String, usize)],
    /// Name, index of the kind, MAC addresses of the NICs.
    pub(super) hosts: &'a [(String, usize, Vec<Option<String>>)],
    pub(super) cables: &'a [Cabled],
}

/// A name as a machine file has it: other characters become `-`.
pub(super) fn name_of(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    name.chars().map(allowed).collect()
}

pub(super) fn text(parts: &Parts<'_>) -> String {
    let mut out = format!(
        "# From NetBox, by `ayatori plan netbox import`. NetBox does not know what a switch can: give each\n\
         # model its vlans_max, mac_table_max and lag_ports_max from its data sheet.\nname = {}\n",
        quoted(parts.name)
    );
    for (name, kind) in parts.switch_kinds {
        let _ = write!(out, "\n[switch_models.{}]\nports = {}\n", quoted(name), kind.names.len());
        let _ = writeln!(out, "rate_gbps = {}", gbps(kind.rate_bits_per_s));
        if let Some((first, last, rate)) = kind.fast {
            let _ = writeln!(
                out,
                "fast_ports = {{ first = {first}, last = {last}, rate_gbps = {} }}",
                gbps(rate)
            );
        }
        let names: Vec<String> = kind.names.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(out, "port_names = [{}]", names.join(", "));
        match &kind.dialect {
            Some(dialect) => _ = writeln!(out, "dialect = {}", quoted(dialect)),
            None => out += "# dialect: the platform in NetBox is none; see docs/switches.md for names\n",
        }
    }
    for (name, kind) in parts.host_kinds {
        let _ = writeln!(out, "\n[host_models.{}]", quoted(name));
        if kind.is_bond {
            out += "nics_as = \"bond\"\n";
        }
        out += "nic = [\n";
        for nic in &kind.nics {
            let mtu = nic.mtu_bytes.map(|bytes| format!(", mtu_bytes = {bytes}")).unwrap_or_default();
            let rate = gbps(nic.rate_bits_per_s);
            let _ = writeln!(out, "  {{ name = {}, rate_gbps = {rate}{mtu} }},", quoted(&nic.name));
        }
        out += "]\n";
    }
    for (name, kind) in parts.switches {
        let model = quoted(&parts.switch_kinds[*kind].0);
        let _ = write!(out, "\n[[switch]]\nname = {}\nmodel = {model}\n", quoted(name));
    }
    for (name, kind, macs) in parts.hosts {
        let model = quoted(&parts.host_kinds[*kind].0);
        let _ = write!(out, "\n[[host]]\nname = {}\nmodel = {model}\n", quoted(name));
        let macs: Option<Vec<String>> = macs.iter().map(|mac| mac.as_deref().map(quoted)).collect();
        if let Some(macs) = macs {
            let _ = writeln!(out, "macs = [{}]", macs.join(", "));
        }
    }
    for cable in parts.cables {
        let _ = write!(out, "\n[[cable]]\nfrom = {}\nto = {}\n", quoted(&cable.from), quoted(&cable.to));
    }
    out
}

fn gbps(bits_per_s: u64) -> f64 {
    bits_per_s as f64 / 1e9
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
