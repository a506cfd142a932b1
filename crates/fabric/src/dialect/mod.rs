//! Dialects: a plan in the words of one make of switch. One file each, named by the make; adding one is
//! adding a file and a line in [`ALL`].
//!
//! Deliberately absent: any decision about the plan. A dialect that cannot say what the plan needs refuses,
//! with what to change; it never writes something near to it.

mod arista_eos;
mod aruba_os_s;
mod capabilities;
mod cisco_ios;
mod cisco_nxos;
mod comware;
mod cumulus_nvue;
mod dell_os10;
mod dell_os6;
mod edgeswitch;
#[cfg(test)]
pub(crate) mod golden_tests;
mod huawei_vrp;
mod ios_family;
mod json;
mod junos_els;
mod linux_bridge;
mod mstp;
mod openwrt;
#[cfg(test)]
mod other_tests;
mod routeros;
mod sonic;
mod systemd_networkd;
mod text;

pub(crate) use text::flow_control;

pub use arista_eos::AristaEos;
pub use aruba_os_s::ArubaOsS;
pub use capabilities::{Capabilities, KNOWN, capabilities_of};
pub use cisco_ios::CiscoIos;
pub use cisco_nxos::CiscoNxos;
pub use comware::Comware;
pub use cumulus_nvue::CumulusNvue;
pub use dell_os6::DellOs6;
pub use dell_os10::DellOs10;
pub use edgeswitch::EdgeSwitch;
pub use huawei_vrp::HuaweiVrp;
pub use json::Json;
pub use junos_els::JunosEls;
pub use linux_bridge::{LinuxBridge, bridge_name, lag_name};
pub use openwrt::OpenWrt;
pub use routeros::RouterOs;
pub use sonic::Sonic;
pub use systemd_networkd::SystemdNetworkd;

use crate::graph::SwitchId;
use crate::plan::Plan;

/// One make of switch.
pub trait Dialect: Sync {
    /// Its name in the description: `dialect = "dell-os6"`.
    fn name(&self) -> &'static str;

    /// Capabilities of its switches; the planner and the description's checks use them. By default its row of
    /// [`KNOWN`]. Panics if it has none: our bug.
    fn capabilities(&self) -> Capabilities {
        capabilities_of(self.name()).expect("every dialect has its row in KNOWN")
    }

    /// The configuration of one switch.
    ///
    /// # Errors
    /// A [`Refusal`] if the plan needs something this dialect cannot express.
    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal>;
}

/// A switch's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// One file or several, in the order to apply them.
    pub files: Vec<ConfigFile>,
}

/// One file of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its name, relative to the output folder: `left.cfg`, `left/10-br0.netdev`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether it is a script to be run.
    pub executable: bool,
}

/// Why a dialect cannot express a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{switch} ({dialect}) cannot be configured: {problem}; {remedy}")]
pub struct Refusal {
    /// Name of the switch.
    pub switch: String,
    /// Name of the dialect.
    pub dialect: &'static str,
    /// What the plan needs that it cannot say.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

/// All dialects.
pub const ALL: &[&dyn Dialect] = &[
    &DellOs6,
    &Comware,
    &LinuxBridge,
    &SystemdNetworkd,
    &AristaEos,
    &CiscoNxos,
    &CiscoIos,
    &Sonic,
    &RouterOs,
    &CumulusNvue,
    &OpenWrt,
    &HuaweiVrp,
    &ArubaOsS,
    &JunosEls,
    &DellOs10,
    &EdgeSwitch,
    &Json,
];

/// A dialect by its name.
pub fn by_name(name: &str) -> Option<&'static dyn Dialect> {
    ALL.iter().copied().find(|dialect| dialect.name() == name)
}
