//! The plan of one switch as data, for tools of your own.
//!
//! Can: everything a plan holds; no limit of its own. Cannot: be entered into a switch. The keys are those of
//! [`SwitchPlan`](crate::plan::SwitchPlan), with the VLANs and what stands at the far end of each port beside.

use serde_json::json;

use crate::graph::SwitchId;
use crate::plan::Plan;

use super::{Config, ConfigFile, Dialect, Refusal, text};

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
        let value = json!({
            "machine": plan.machine,
            "method": plan.method,
            "pause": plan.pause,
            "mtu_bytes": plan.mtu_bytes,
            "tagging": plan.tagging,
            "vlans": plan.vlans,
            "switch": switch,
            "reasons": reasons,
        });
        let mut text = serde_json::to_string_pretty(&value).expect("a plan can be written");
        text.push('\n');
        let file = ConfigFile { name: format!("{}.json", switch.name), text, executable: false };
        Ok(Config { files: vec![file] })
    }
}
