//! SONiC, as a part of `config_db.json` to be loaded with `config load`.
//!
//! Can: trunks with any list of VLANs, LACP LAGs hashed over addresses and ports, any aging time. Cannot:
//! more than one untagged VLAN on a port, so the hosts must tag (writing the database directly gets past the
//! check, and the last member written then decides the PVID: refused); static LAGs; pause frames: it has
//! priority flow control, which is set up with the switch's buffers and left to you. `config load` adds and
//! changes but takes nothing away: a script beside removes what the plan does not have, and
//! `ayatori plan check` names what is left. JSON has no comments; the reasons stand in the `.md` file beside.
//! Written from the documentation; not tried on a switch.

use serde_json::{Map, Value, json};
use std::fmt::Write as _;

use crate::graph::SwitchId;
use crate::plan::{Plan, PortRole, SwitchPlan};

use super::text::{self, Interface};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// Default of ports; a lower value has no use.
const MTU_AS_SHIPPED_BYTES: u32 = 9100;

/// See the module's documentation.
#[derive(Debug)]
pub struct Sonic;

impl Dialect for Sonic {
    fn name(&self) -> &'static str {
        "sonic"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        mstp::refuse(self, plan, switch)?;
        if let Some(lag) = switch.lags.iter().find(|lag| !lag.lacp) {
            return Err(Refusal {
                switch: switch.name.clone(),
                dialect: self.name(),
                problem: format!("LAG {} is static, and SONiC's LAGs negotiate", lag.number),
                remedy: "let the link use LACP".into(),
            });
        }
        text::long_frames(self, plan, switch)?;
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
                ConfigFile {
                    name: format!("{}.remove.sh", switch.name),
                    text: removal(plan, switch),
                    executable: true,
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
        let mtu = plan.mtu_bytes.max(MTU_AS_SHIPPED_BYTES).to_string();
        for vlan in text::carried(switch).iter() {
            put("VLAN", format!("Vlan{vlan}"), json!({ "vlanid": vlan.to_string() }));
        }
        for port in &switch.ports {
            let status = if port.role == PortRole::Unused { "down" } else { "up" };
            let reason = text::reason(plan, port.role);
            put(
                "PORT",
                port.name.clone(),
                json!({ "admin_status": status, "description": reason, "mtu": mtu }),
            );
        }
        for lag in &switch.lags {
            let name = lag_name(lag.number);
            put("PORTCHANNEL", name.clone(), json!({ "admin_status": "up", "lacp_key": "auto", "mtu": mtu }));
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

/// Takes the VLANs off the plan's ports that the plan does not have there: `config load` adds only.
fn removal(plan: &Plan, switch: &SwitchPlan) -> String {
    let what = "SONiC. Run on the switch as root before `config load`, any number of times.";
    let mut script = String::from("#!/bin/sh\n") + &text::header(plan, switch, "#", what);
    script += "set -eu\n\n# INTERFACE VLANS: what each of the plan's ports keeps.\nplanned='\n";
    for interface in text::interfaces(switch) {
        let vlans = text::members(interface.membership());
        let list: Vec<String> = vlans.iter().map(|vlan| vlan.to_string()).collect();
        let _ = writeln!(script, "{} {}", interface_name(interface), list.join(" "));
    }
    script += r#"'
sonic-db-cli CONFIG_DB KEYS 'VLAN_MEMBER|*' | while IFS='|' read -r _ vlan port; do
	vid=${vlan#Vlan}
	echo "$planned" | while read -r name vlans; do
		[ "$name" = "$port" ] || continue
		case " $vlans " in *" $vid "*) ;; *) config vlan member del "$vid" "$port" </dev/null ;; esac
	done
done
"#;
    script
}

fn notes(plan: &Plan, switch: &SwitchPlan) -> String {
    let mut text =
        text::header(plan, switch, "-", "SONiC. Load the file beside: config load -y, then config save -y.");
    let _ = write!(
        text,
        "\nFirst `sh {name}.remove.sh` on the switch: it takes every VLAN off the plan's ports that the \
        file does not have\n\
         there, which `config load` does not. IP addresses on these ports: remove them yourself (`config \
         interface ip\n\
         remove`). `ayatori plan check` names what is left.\n",
        name = switch.name
    );
    text += "\nSpanning tree must be off (it is unless you enabled PVST: `config spanning-tree disable pvst`). Pause: set up\n\
             priority flow control for the class your traffic uses; SONiC sends no 802.3x pause.\n";
    text
}
