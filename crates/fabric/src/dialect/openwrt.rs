//! OpenWrt (21.02 and later) on switches with DSA: `/etc/config/network`.
//!
//! Can: several untagged VLANs on a port, LACP and static LAGs where `kmod-bonding` is installed, any aging
//! time. Cannot: promise pause, which depends on the chip's driver. The script beside removes every
//! `bridge-vlan` section first, so nothing that stood there before is left; other sections stay. Written
//! from OpenWrt's documentation (DSA Mini-Tutorial, network configuration); not tried on a device.

use std::fmt::Write as _;

use crate::graph::SwitchId;
use crate::plan::{Membership, Plan, PortRole, SwitchPlan, VlanId};

use super::linux_bridge::{aging_time_s, check_names, interface_name, lag_name};
use super::text;
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct OpenWrt;

/// The plan's own bridge.
const BRIDGE: &str = "br0";

impl Dialect for OpenWrt {
    fn name(&self) -> &'static str {
        "openwrt"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        mstp::refuse(self, plan, switch)?;
        check_names(self.name(), plan, switch)?;
        let what = "OpenWrt: sections of /etc/config/network. Run the .uci.sh beside, which merges them.";
        let mut out = text::header(plan, switch, "#", what);
        out.push('\n');
        write_bridge(&mut out, switch);
        write_devices(&mut out, plan, switch);
        for vlan in text::carried(switch).iter() {
            let ports: Vec<String> = text::interfaces(switch)
                .filter_map(|interface| {
                    Some(format!("{}{}", interface_name(interface), how(interface.membership(), vlan)?))
                })
                .collect();
            let _ = write!(
                out,
                "config bridge-vlan 'ayatori_{vlan}'\n\toption device '{BRIDGE}'\n\toption vlan '{vlan}'\n"
            );
            for port in ports {
                let _ = writeln!(out, "\tlist ports '{port}'");
            }
            out.push('\n');
        }
        let script = script(plan, switch);
        Ok(Config {
            files: vec![
                ConfigFile { name: format!("{}.network", switch.name), text: out, executable: false },
                ConfigFile { name: format!("{}.uci.sh", switch.name), text: script, executable: true },
            ],
        })
    }
}

/// `u`: leaves untagged; `*`: the PVID; `t`: tagged.
fn how(membership: &Membership, vlan: VlanId) -> Option<&'static str> {
    let is_pvid = membership.pvid == Some(vlan);
    match (membership.untagged.contains(vlan), membership.tagged.contains(vlan)) {
        (true, _) => Some(if is_pvid { ":u*" } else { ":u" }),
        (false, true) => Some(if is_pvid { ":t*" } else { ":t" }),
        (false, false) => None,
    }
}

fn write_bridge(out: &mut String, switch: &SwitchPlan) {
    let _ = write!(
        out,
        "config device 'ayatori'\n\toption name '{BRIDGE}'\n\toption type 'bridge'\n\toption stp '0'\n\
         \toption vlan_filtering '1'\n\toption ageing_time '{}'\n",
        aging_time_s(switch)
    );
    for interface in text::interfaces(switch) {
        let _ = writeln!(out, "\tlist ports '{}'", interface_name(interface));
    }
    out.push('\n');
}

fn write_devices(out: &mut String, plan: &Plan, switch: &SwitchPlan) {
    for lag in &switch.lags {
        let policy = if lag.lacp { "802.3ad" } else { "balance-xor" };
        let _ = write!(
            out,
            "# {}\nconfig device 'ayatori_bond{}'\n\toption name '{}'\n\toption type 'bonding'\n\
             \toption policy '{policy}'\n\toption xmit_hash_policy 'layer3+4'\n",
            text::reason(plan, lag.role),
            lag.number,
            lag_name(lag.number)
        );
        for port in lag.members.iter().filter_map(|&number| text::port(switch, number)) {
            let _ = writeln!(out, "\tlist ports '{}'", port.name);
        }
        out.push('\n');
    }
    for port in &switch.ports {
        let _ = write!(
            out,
            "# {}\nconfig device 'ayatori_port{}'\n\toption name '{}'\n",
            text::reason(plan, port.role),
            port.number,
            port.name
        );
        match port.role {
            PortRole::Unused => *out += "\toption enabled '0'\n\n",
            _ => {
                let _ = write!(out, "\toption mtu '{}'\n\n", plan.mtu_bytes);
            }
        }
    }
}

fn script(plan: &Plan, switch: &SwitchPlan) -> String {
    let mut script = String::from("#!/bin/sh\n");
    let what = "OpenWrt. Run as root on the switch beside the .network file, any number of times.";
    script += &text::header(plan, switch, "#", what);
    script += "set -eu\n\n# A VLAN that an earlier configuration left is a loop: all go. A port is in one \
    bridge only.\n\
               while uci -q delete network.@bridge-vlan[0]; do :; done\nfor port in";
    for port in &switch.ports {
        script += " ";
        script += &port.name;
    }
    let _ = write!(
        script,
        "; do\n\tfor device in $(uci -q show network | sed -n \"s/^\\(network[.][^.]*\\)=device$/\\1/p\"); \
        do\n\
         \t\tuci -q del_list \"$device.ports=$port\" || :\n\tdone\ndone\n\
         for section in $(uci -q show network | sed -n \"s/^network[.]\\(ayatori[^.=]*\\)=.*/\\1/p\"); do\n\
         \tuci -q delete \"network.$section\" || :\ndone\n\
         uci -m import network <\"$(dirname \"$0\")/{name}.network\"\nuci commit network\nservice network \
         reload\n",
        name = switch.name
    );
    script
}
