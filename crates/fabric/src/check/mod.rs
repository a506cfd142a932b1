//! Does the network stand as planned? Collected switch state against a plan.
//!
//! [`read`] turns what was collected from a switch into an [`Observed`], whatever its make; [`compare`] says
//! what differs from the plan, each [`Difference`] naming switch and port. Deliberately absent: collecting
//! (that is `ssh`,
//! `scp` or the lab) and repairing (that is applying the emitted configuration again).

mod aruba_os_s;
mod bridge_json;
mod cables;
mod comware;
mod counters;
mod difference;
mod edgeswitch;
#[cfg(test)]
mod emitted_tests;
mod file;
mod ios_like;
mod junos;
mod learned;
mod mstp;
mod networkd;
mod nvue;
mod observed;
mod os10;
mod plan_json;
#[cfg(test)]
mod reading_tests;
mod routeros;
#[cfg(test)]
mod running_tests;
mod shown;
mod sonic;
#[cfg(test)]
mod tests;
mod uci;

use std::collections::BTreeMap;
use std::path::Path;

use crate::plan::{Membership, Plan, PortRole, SwitchPlan, VlanId, VlanSet};

use file::load;

pub use cables::{FarEnd, compare_cables, far_end};
pub use counters::{MeasuredLoad, SentBytes, compare_loads, measured_loads, read_sent};
pub use difference::Difference;
pub use file::ReadError;
pub use observed::{InterfaceName, Observed, ObservedInterface, ObservedMstp, TableEntry};
pub use shown::{Neighbour, Shown, ShownPort};

/// The state of one switch out of the folder it was collected into, `None` if nothing of it is there.
///
/// A file's name is the switch's name and what it holds: `left.vlan.json` (`bridge -j vlan show`), and beside
/// it
/// `left.link.json` (`ip -j -d link show`) and `left.fdb.json` (`bridge -j fdb show`); a folder `left`
/// (systemd-networkd's files); `left.config_db.json` (SONiC), `left.json` (the `json` dialect),
/// `left.network` (OpenWrt),
/// `left.rsc` (RouterOS), `left.set` (Junos), `left.nvue` (Cumulus), and for all others `left.cfg`,
/// `left.conf` or `left.txt` (the running configuration, read by the switch's dialect).
///
/// # Errors
/// A file that cannot be read or understood.
pub fn read(folder: &Path, switch: &SwitchPlan) -> Result<Option<Observed>, ReadError> {
    let named = |kind: &str| folder.join(format!("{}.{kind}", switch.name));
    let mut observed = None;
    if let Some((file, text)) = load(named("vlan.json"))? {
        let state = bridge_json::vlans(&text, switch).map_err(|problem| ReadError { file, problem })?;
        observed = Some(state);
    } else if folder.join(&switch.name).is_dir() {
        observed = Some(networkd::read(&folder.join(&switch.name), switch)?);
    } else if let Some((file, text)) = load(named("config_db.json"))? {
        observed = Some(sonic::read(&text).map_err(|problem| ReadError { file, problem })?);
    } else if let Some((file, text)) = load(named("json"))? {
        observed = Some(plan_json::read(&text).map_err(|problem| ReadError { file, problem })?);
    } else {
        for kind in RUNNING_KINDS {
            let Some((file, text)) = load(named(kind))? else { continue };
            let mut state = running_config(&text, switch).map_err(|problem| ReadError { file, problem })?;
            state.mstp = mstp::read(&text);
            observed = Some(state);
            break;
        }
    }
    if let Some((file, text)) = load(named("link.json"))? {
        let state = bridge_json::links(&text, switch).map_err(|problem| ReadError { file, problem })?;
        let Some(observed) = &mut observed else {
            let problem = "tells no VLANs; collect `bridge -j vlan show` beside it".to_owned();
            return Err(ReadError {
                file: named("vlan.json"),
                problem: format!("is missing: link.json {problem}"),
            });
        };
        observed.add(state);
    }
    if let Some((file, text)) = load(named("fdb.json"))? {
        let table = bridge_json::table(&text, switch).map_err(|problem| ReadError { file, problem })?;
        observed.get_or_insert_default().table = Some(table);
    }
    Ok(observed)
}

/// What the neighbours of one switch are, out of the folder its state was collected into: `left.lldp.json`
/// (`lldpcli -f json show neighbors`) or `left.lldp.txt` (`show lldp neighbors`); `None` if neither is there.
///
/// # Errors
/// A file that cannot be read or understood.
pub fn read_neighbours(folder: &Path, switch: &SwitchPlan) -> Result<Option<Shown>, ReadError> {
    for kind in ["lldp.json", "lldp.txt"] {
        if let Some((file, text)) = load(folder.join(format!("{}.{kind}", switch.name)))? {
            return Shown::parse(&text).map(Some).map_err(|problem| ReadError { file, problem });
        }
    }
    Ok(None)
}

/// What the names of files end with that a switch prints as commands.
const RUNNING_KINDS: [&str; 8] = ["cfg", "conf", "txt", "rsc", "set", "network", "nvue", "nvue.sh"];

fn running_config(text: &str, switch: &SwitchPlan) -> Result<Observed, String> {
    match switch.dialect.as_str() {
        "comware" | "huawei-vrp" => comware::read(text),
        "routeros" => routeros::read(text),
        "cumulus-nvue" => nvue::read(text),
        "openwrt" => uci::read(text, switch),
        "aruba-os-s" => aruba_os_s::read(text, switch),
        "junos-els" => junos::read(text),
        "dell-os10" => os10::read(text),
        "edgeswitch" => edgeswitch::read(text),
        // What the makers ship their ports with; Dell's and IOS' differ by model.
        "arista-eos" | "cisco-nxos" => ios_like::read(text, Some(false)),
        "dell-os6" | "cisco-ios" => ios_like::read(text, None),
        other => Err(format!(
            "the state of a {other} switch is not a running configuration; collect `bridge -j vlan show` into \
             {name}.vlan.json and `bridge -j fdb show` into {name}.fdb.json",
            name = switch.name
        )),
    }
}

/// Differences between the plan and the observed state, by switch name. A switch without state is a
/// difference.
pub fn compare(plan: &Plan, observed: &BTreeMap<String, Observed>) -> Vec<Difference> {
    let mut differences = Vec::new();
    for switch in &plan.switches {
        let Some(state) = observed.get(&switch.name) else {
            let what = "no state was collected".to_owned();
            differences.push(Difference { switch: switch.name.clone(), port: None, what });
            continue;
        };
        let mut report = Report { switch, differences: &mut differences };
        if !state.interfaces.is_empty() || state.table.is_none() {
            report.compare_switch(plan, state);
        }
    }
    learned::compare(plan, observed, &mut differences);
    differences
}

struct Report<'a> {
    switch: &'a SwitchPlan,
    differences: &'a mut Vec<Difference>,
}

impl Report<'_> {
    fn say(&mut self, port: Option<&str>, what: String) {
        self.differences.push(Difference {
            switch: self.switch.name.clone(),
            port: port.map(str::to_owned),
            what,
        });
    }

    fn compare_switch(&mut self, plan: &Plan, state: &Observed) {
        let switch = self.switch;
        let memberships = switch.ports.iter().map(|port| &port.membership);
        let used: VlanSet = memberships.flat_map(|m| m.untagged.iter().chain(m.tagged.iter())).collect();
        state.faults.iter().for_each(|fault| self.say(None, fault.clone()));
        if plan.mstp.is_some() {
            self.compare_mstp(plan, state, &used);
        } else if let Some(without) = &state.without_spanning_tree {
            let with = used.difference(without);
            let vlans = if with == used { String::new() } else { format!(" in VLAN {with}") };
            if !with.is_empty() {
                self.say(None, format!("spanning tree is on{vlans}: it blocks links the VLANs use"));
            }
        }
        if let Some(found) = state.aging_time_s.filter(|&found| found != 0)
            && switch.aging_time_s.is_none_or(|wanted| found < wanted)
        {
            let wanted = switch.aging_time_s.map_or("never".into(), |wanted| format!("{wanted} s"));
            let what = format!("addresses age after {found} s, planned {wanted}: priming comes too late");
            self.say(None, what);
        }
        if let Some(existing) = &state.vlans {
            let missing = used.difference(existing);
            if !missing.is_empty() {
                self.say(None, format!("has no VLAN {missing}: ports in it pass no frame of it"));
            }
        }
        for lag in &switch.lags {
            let name = InterfaceName::Lag(lag.number);
            let found = state.interface(&name);
            self.compare_membership(&format!("LAG {}", lag.number), &lag.membership, lag.role, found);
        }
        for port in &switch.ports {
            let found = state.interface(&InterfaceName::Port(port.name.clone()));
            let lag = found.and_then(|found| found.lag);
            if state.knows_lags && lag != port.lag {
                let say = |lag: Option<u16>| lag.map_or("no LAG".into(), |number| format!("LAG {number}"));
                self.say(Some(&port.name), format!("is in {}, planned {}", say(lag), say(port.lag)));
            }
            let is_shut = found.is_some_and(|found| found.is_shut);
            match found.and_then(|found| found.pause) {
                Some(is_on) if is_on != plan.pause && port.role != PortRole::Unused && !is_shut => {
                    let what = if is_on { "is on, planned off" } else { "is off: full buffers drop frames" };
                    self.say(Some(&port.name), format!("pause (802.3x) {what}"));
                }
                _ => {}
            }
            match port.lag {
                // The check of its LAG reports its VLANs.
                Some(_) if is_shut => self.say(Some(&port.name), "is shut down".into()),
                Some(_) => {}
                None => self.compare_membership(&port.name, &port.membership, port.role, found),
            }
        }
        self.compare_unknown(plan, state);
    }

    fn compare_mstp(&mut self, plan: &Plan, state: &Observed, used: &VlanSet) {
        let Some(planned) = &plan.mstp else { return };
        if let Some(without) = &state.without_spanning_tree
            && used.iter().any(|vlan| without.contains(vlan))
        {
            self.say(None, "spanning tree is off, planned MSTP: its links form loops".into());
        }
        match &state.mstp {
            Some(found) => {
                for (port, what) in found.differences(planned, self.switch) {
                    self.say(port.as_deref(), what);
                }
            }
            None => self.say(None, "says nothing of an MSTP region".into()),
        }
    }

    fn compare_membership(
        &mut self,
        name: &str,
        wanted: &Membership,
        role: PortRole,
        found: Option<&ObservedInterface>,
    ) {
        let nothing = Membership::default();
        let found = match found {
            Some(found) if found.is_shut => {
                if role != PortRole::Unused {
                    self.say(Some(name), "is shut down".into());
                }
                return;
            }
            Some(found) => &found.membership,
            None => &nothing,
        };
        let members = |of: &Membership| -> VlanSet { of.untagged.iter().chain(of.tagged.iter()).collect() };
        let (all_wanted, all_found) = (members(wanted), members(found));
        let missing = all_wanted.difference(&all_found);
        if !missing.is_empty() {
            self.say(Some(name), format!("lacks VLAN {missing}: frames on it end here"));
        }
        let extra = all_found.difference(&all_wanted);
        if !extra.is_empty() {
            let why = match role {
                PortRole::Link { .. } => "not part of its tree here: a loop is possible",
                PortRole::Host { .. } | PortRole::Unused => "not planned here",
            };
            self.say(Some(name), format!("carries VLAN {extra}, {why}"));
        }
        let to_tag = wanted.tagged.difference(&wanted.tagged.difference(&found.untagged));
        if !to_tag.is_empty() {
            self.say(Some(name), format!("sends VLAN {to_tag} untagged, planned tagged"));
        }
        let to_strip = wanted.untagged.difference(&wanted.untagged.difference(&found.tagged));
        if !to_strip.is_empty() {
            self.say(Some(name), format!("sends VLAN {to_strip} tagged, planned untagged"));
        }
        if wanted.pvid != found.pvid && !(wanted.pvid.is_none() && extra_is_pvid(&extra, found.pvid)) {
            let say = |pvid: Option<VlanId>| pvid.map_or("none".into(), |vlan| vlan.to_string());
            let what = format!("PVID is {}, planned {}", say(found.pvid), say(wanted.pvid));
            self.say(Some(name), format!("{what}: frames from here take other routes"));
        }
    }

    /// Interfaces that carry VLANs of the plan and are not in it.
    fn compare_unknown(&mut self, plan: &Plan, state: &Observed) {
        let planned = plan.vlan_set();
        for (name, found) in &state.interfaces {
            let is_known = match name {
                InterfaceName::Port(port) => {
                    self.switch.ports.iter().any(|known| observed::same_port(&known.name, port))
                }
                InterfaceName::Lag(number) => self.switch.lags.iter().any(|lag| lag.number == *number),
                InterfaceName::Own => true,
            };
            let members = found.membership.untagged.iter().chain(found.membership.tagged.iter());
            let of_plan: VlanSet = members.filter(|&vlan| planned.contains(vlan)).collect();
            if !is_known && !found.is_shut && !of_plan.is_empty() {
                self.say(Some(&name.to_string()), format!("carries VLAN {of_plan} and is not in the plan"));
            }
        }
    }
}

/// A stray VLAN that is also the PVID is one mistake, and is reported once.
fn extra_is_pvid(extra: &VlanSet, found: Option<VlanId>) -> bool {
    found.is_some_and(|vlan| extra.contains(vlan))
}
