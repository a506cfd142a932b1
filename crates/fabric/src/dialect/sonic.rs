//! SONiC, as a part of `config_db.json` to be loaded with `config load`.
//!
//! Can: trunks with any list of VLANs, LACP LAGs hashed over addresses and ports, any aging time. Cannot: more than one
//! untagged VLAN on a port, so the hosts must tag (writing the database directly gets past the check, and the last
//! member written then decides the PVID: refused); static LAGs; pause frames: it has priority flow control, which is set
//! up with the switch's buffers and left to you. `config load` adds and changes but takes nothing away: the `.md` file
//! beside lists what to remove, and `ayatori plan check` names what is left. JSON has no comments; the reasons stand in
//! that file too. Written from the documentation; not tried on a switch.

use serde_json::{Map, Value, json};
use std::fmt::Write as _;

use crate::graph::SwitchId;
use crate::plan::{Plan, PortRole, SwitchPlan};

use super::text::{self, Interface};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct Sonic;

impl Dialect for Sonic {
    fn name(&self) -> &'static str {
        "sonic"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        if let Some(lag) = switch.lags.iter().find(|lag| !lag.lacp) {
            return Err(Refusal {
                switch: switch.name.clone(),
                dialect: self.name(),
                problem: format!("LAG {} is static, and SONiC's LAGs negotiate", lag.number),
                remedy: "let the link use LACP".into(),
            });
        }
        let database = self.database(plan, switch)?;
        let mut text = serde_json::to_string_pretty(&database).expect("a map of strings can be written");
        text.push('\n');
        Ok(Config {
            files: vec![
                ConfigFile { name: format!("{}.config_db.json", switch.name), text, executable: false },
                ConfigFile {
                    name: format!("{}.md", switch.name),
                    text: notes(plan, switch),
                    executable: false,
                },
            ],
        })
    }
}

impl Sonic {
    fn database(&self, plan: &Plan, switch: &SwitchPlan) -> Result<Value, Refusal> {
        let mut tables: Map<String, Value> = Map::new();
        let mut put = |table: &str, key: String, value: Value| {
            let table = tables.entry(table).or_insert_with(|| json!({}));
            table[key] = value;
        };
        for vlan in text::carried(switch).iter() {
            put("VLAN", format!("Vlan{vlan}"), json!({ "vlanid": vlan.to_string() }));
        }
        for port in &switch.ports {
            let status = if port.role == PortRole::Unused { "down" } else { "up" };
            let reason = text::reason(plan, port.role);
            put("PORT", port.name.clone(), json!({ "admin_status": status, "description": reason }));
        }
        for lag in &switch.lags {
            let name = lag_name(lag.number);
            put("PORTCHANNEL", name.clone(), json!({ "admin_status": "up", "lacp_key": "auto" }));
            for port in lag.members.iter().filter_map(|&number| text::port(switch, number)) {
                put("PORTCHANNEL_MEMBER", format!("{name}|{}", port.name), json!({}));
            }
        }
        for interface in text::interfaces(switch) {
            let name = interface_name(interface);
            let membership = interface.membership();
            let native = text::native(self.name(), switch, &name, membership)?;
            for vlan in text::members(membership).iter() {
                let mode = if Some(vlan) == native { "untagged" } else { "tagged" };
                put("VLAN_MEMBER", format!("Vlan{vlan}|{name}"), json!({ "tagging_mode": mode }));
            }
        }
        // 0 turns aging off.
        let aging_time = switch.aging_time_s.unwrap_or(0).to_string();
        put("SWITCH", "switch".into(), json!({ "fdb_aging_time": aging_time }));
        if !switch.lags.is_empty() {
            let fields = ["SRC_IP", "DST_IP", "L4_SRC_PORT", "L4_DST_PORT"];
            put("SWITCH_HASH", "GLOBAL".into(), json!({ "lag_hash": fields }));
        }
        Ok(Value::Object(tables))
    }
}

/// A LAG's interface.
pub(crate) fn lag_name(number: u16) -> String {
    format!("PortChannel{number:04}")
}

fn interface_name(interface: Interface<'_>) -> String {
    match interface {
        Interface::Port(port) => port.name.clone(),
        Interface::Lag(lag) => lag_name(lag.number),
    }
}

fn notes(plan: &Plan, switch: &SwitchPlan) -> String {
    let mut text =
        text::header(plan, switch, "-", "SONiC. Load the file beside: config load -y, then config save -y.");
    text += "\nBefore loading, once: take the ports out of the factory's VLAN and IP interfaces\n\n";
    for interface in text::interfaces(switch) {
        let name = interface_name(interface);
        let _ = writeln!(
            text,
            "    config vlan member del 1 {name}    # {}",
            text::reason(plan, interface.role())
        );
    }
    text += "\nSpanning tree must be off (it is unless you enabled PVST: `config spanning-tree disable pvst`). Pause: set up\n\
             priority flow control for the class your traffic uses; SONiC sends no 802.3x pause.\n";
    text
}
