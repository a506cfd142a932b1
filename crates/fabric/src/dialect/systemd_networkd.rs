//! Linux bridges, set up by systemd-networkd (systemd 248 and up).
//!
//! Can: what `linux-bridge` can, kept over reboots and reapplied by `networkctl reload`. Cannot: pause where
//! the NIC has none; a range that holds the PVID (it gets a line of its own); keep addresses for ever (497
//! days, as `linux-bridge`). The files go to `/etc/systemd/network/`; flow control is in `.link` files, which
//! the kernel's device manager applies at boot.

use std::fmt::Write as _;

use crate::graph::SwitchId;
use crate::plan::{Membership, Plan, PortPlan, PortRole, SwitchPlan};

use super::linux_bridge::{aging_time_s, bridge_name, check_names, interface_name, lag_name, own_membership};
use super::text::{self, Interface};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct SystemdNetworkd;

impl Dialect for SystemdNetworkd {
    fn name(&self) -> &'static str {
        "systemd-networkd"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        mstp::refuse(self, plan, switch)?;
        check_names(self.name(), plan, switch)?;
        let bridge = bridge_name(plan, switch);
        let mut files = vec![bridge_netdev(plan, switch, &bridge), bridge_network(plan, switch, &bridge)];
        for lag in &switch.lags {
            files.push(lag_netdev(plan, switch, lag));
        }
        for interface in text::interfaces(switch) {
            files.push(member_network(plan, switch, interface, &bridge));
        }
        for port in &switch.ports {
            if port.lag.is_some() || port.role == PortRole::Unused {
                files.push(port_network(plan, switch, port));
            }
            if plan.pause && port.role != PortRole::Unused {
                files.push(port_link(switch, port));
            }
        }
        Ok(Config { files })
    }
}

fn file(switch: &SwitchPlan, name: &str, text: String) -> ConfigFile {
    ConfigFile { name: format!("{}/{name}", switch.name), text, executable: false }
}

fn bridge_netdev(plan: &Plan, switch: &SwitchPlan, bridge: &str) -> ConfigFile {
    let what = "systemd-networkd: copy this folder's files to /etc/systemd/network, then networkctl reload. \
    A VLAN that \
                a port\n# already has and these files do not name goes at the next start: `ayatori plan \
                check` names it.";
    let mut text = text::header(plan, switch, "#", what);
    let _ = write!(
        text,
        "# No VLAN by default and no spanning tree: each VLAN is a tree by plan. Addresses are kept as long as can be:\n\
         # priming, not traffic, teaches them.\n\
         [NetDev]\nName={bridge}\nKind=bridge\n\n\
         [Bridge]\nVLANFiltering=yes\nDefaultPVID=none\nSTP=no\nAgeingTimeSec={}\n",
        aging_time_s(switch)
    );
    file(switch, &format!("10-{bridge}.netdev"), text)
}

fn bridge_network(plan: &Plan, switch: &SwitchPlan, bridge: &str) -> ConfigFile {
    let mut text =
        format!("[Match]\nName={bridge}\n\n[Network]\nLinkLocalAddressing=no\nConfigureWithoutCarrier=yes\n");
    if let Some(own) = own_membership(plan, switch) {
        text += "\n# This host's own frames.\n";
        write_membership(&mut text, &own);
    }
    file(switch, &format!("11-{bridge}.network"), text)
}

fn lag_netdev(plan: &Plan, switch: &SwitchPlan, lag: &crate::plan::LagPlan) -> ConfigFile {
    let name = lag_name(lag.number);
    let mode = if lag.lacp { "802.3ad\nLACPTransmitRate=fast" } else { "balance-xor" };
    let text = format!(
        "# {}\n# Hashed over addresses and ports, so that several connections spread over the cables.\n\
         [NetDev]\nName={name}\nKind=bond\n\n[Bond]\nMode={mode}\nTransmitHashPolicy=layer3+4\nMIIMonitorSec=100ms\n",
        text::reason(plan, lag.role)
    );
    file(switch, &format!("20-{name}.netdev"), text)
}

fn member_network(plan: &Plan, switch: &SwitchPlan, interface: Interface<'_>, bridge: &str) -> ConfigFile {
    let name = interface_name(interface);
    let mut text = format!(
        "# {}\n[Match]\nName={name}\n\n[Link]\nMTUBytes={}\n\n\
         [Network]\nBridge={bridge}\nLinkLocalAddressing=no\n",
        text::reason(plan, interface.role()),
        plan.mtu_bytes
    );
    text.push('\n');
    write_membership(&mut text, interface.membership());
    file(switch, &format!("30-{name}.network"), text)
}

fn port_network(plan: &Plan, switch: &SwitchPlan, port: &PortPlan) -> ConfigFile {
    let reason = text::reason(plan, port.role);
    let text = match port.lag {
        Some(number) => {
            format!(
                "# {reason}\n[Match]\nName={}\n\n[Link]\nMTUBytes={}\n\n[Network]\nBond={}\n",
                port.name,
                plan.mtu_bytes,
                lag_name(number)
            )
        }
        None => format!(
            "# {reason}: on no VLAN\n[Match]\nName={}\n\n[Link]\nActivationPolicy=always-down\nRequiredForOnline=no\n",
            port.name
        ),
    };
    file(switch, &format!("30-{}.network", port.name), text)
}

fn port_link(switch: &SwitchPlan, port: &PortPlan) -> ConfigFile {
    // Only the first matching .link file applies, so it must repeat the usual naming.
    let text = format!(
        "# 802.3x: frames wait instead of being lost.\n[Match]\nOriginalName={}\n\n\
         [Link]\nNamePolicy=keep kernel database onboard slot path\nRxFlowControl=yes\nTxFlowControl=yes\n",
        port.name
    );
    file(switch, &format!("40-{}.link", port.name), text)
}

fn write_membership(text: &mut String, membership: &Membership) {
    if let Some(pvid) = membership.pvid {
        let untagged = if membership.untagged.contains(pvid) {
            format!("EgressUntagged={pvid}\n")
        } else {
            String::new()
        };
        let _ = write!(text, "[BridgeVLAN]\nPVID={pvid}\nVLAN={pvid}\n{untagged}");
    }
    let pvid = membership.pvid.into_iter().collect();
    for (set, is_untagged) in
        [(membership.untagged.difference(&pvid), true), (membership.tagged.clone(), false)]
    {
        for (first, last) in set.ranges() {
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            let _ = writeln!(text, "[BridgeVLAN]\nVLAN={range}");
            if is_untagged {
                let _ = writeln!(text, "EgressUntagged={range}");
            }
        }
    }
}
