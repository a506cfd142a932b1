//! The plan of one switch as data, for tools of your own.
//!
//! Can: everything a plan holds; no limit of its own. Cannot: be entered into a switch. The keys are those of
//! [`SwitchPlan`](crate::plan::SwitchPlan), with the VLANs and what stands at the far end of each port
//! beside.

use serde_json::json;

use crate::graph::SwitchId;
use crate::plan::{Mstp, Plan, PortRole};

use super::text::Interface;
use super::{Config, ConfigFile, Dialect, Refusal, mstp, text};

/// See the module's documentation.
#[derive(Debug)]
pub struct Json;

impl Dialect for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let reasons: serde_json::Map<String, serde_json::Value> = switch
            .ports
            .iter()
            .map(|port| (port.name.clone(), json!(text::reason(plan, port.role))))
            .collect();
        let mstp = plan.mstp.as_ref().map(|mstp| {
            let priorities: Vec<u16> = mstp.instances.iter().map(|own| own.priority(switch.id)).collect();
            let costs: serde_json::Map<String, serde_json::Value> =
                text::interfaces(switch).filter_map(|interface| costs(mstp, interface)).collect();
            json!({ "region": mstp, "priorities": priorities, "costs": costs })
        });
        let mut value = json!({
            "machine": plan.machine,
            "method": plan.method,
            "pause": plan.pause,
            "mtu_bytes": plan.mtu_bytes,
            "tagging": plan.tagging,
            "vlans": plan.vlans,
            "switch": switch,
            "reasons": reasons,
        });
        if let Some(mstp) = mstp {
            value["mstp"] = mstp;
        }
        let mut text = serde_json::to_string_pretty(&value).expect("a plan can be written");
        text.push('\n');
        let file = ConfigFile { name: format!("{}.json", switch.name), text, executable: false };
        Ok(Config { files: vec![file] })
    }
}

/// A port or LAG towards a switch, and its cost in each instance in their order.
fn costs(region: &Mstp, interface: Interface<'_>) -> Option<(String, serde_json::Value)> {
    let PortRole::Link { link, .. } = interface.role() else { return None };
    let name = match interface {
        Interface::Port(port) => port.name.clone(),
        Interface::Lag(lag) => format!("LAG {}", lag.number),
    };
    let costs: Vec<u32> = mstp::costs(region, link).map(|(_, cost)| cost).collect();
    Some((name, json!(costs)))
}
