//! MikroTik RouterOS 7: bridge VLAN filtering.
//!
//! Can: several untagged VLANs on a port, LACP and static LAGs hashed over addresses and ports, pause where
//! the switch chip has it. Cannot: say that addresses never age. Ports are taken out of every bridge first
//! and put into one of the plan's own, so nothing that stood there before is left; traffic stops meanwhile.
//! Written from MikroTik's documentation (Bridging and Switching; Bonding); not tried on a device.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan, VlanId};

use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct RouterOs;

/// The plan's own bridge.
const BRIDGE: &str = "ayatori";

impl Dialect for RouterOs {
    fn name(&self) -> &'static str {
        "routeros"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        mstp::refuse(self, plan, switch)?;
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        let what = "MikroTik RouterOS. Upload, then: /import file-name=THIS.rsc";
        let mut out = text::header(plan, switch, "#", what);
        out += "#\n# One bridge of the plan's own; each VLAN is a tree by plan, so no spanning tree. What \
        is not listed is\n\
                # on no port: ports leave every other bridge.\n";
        line(&mut out, format_args!("/interface bridge remove [find name={BRIDGE}]"));
        line(
            &mut out,
            format_args!(
                "/interface bridge add name={BRIDGE} protocol-mode=none vlan-filtering=no ageing-time={}s",
                switch.aging_time_s.unwrap_or(1_000_000)
            ),
        );
        write_lags(&mut out, plan, switch);
        for port in &switch.ports {
            line(&mut out, format_args!("/interface bridge port remove [find interface={}]", port.name));
        }
        for interface in text::interfaces(switch) {
            write_port(&mut out, plan, interface);
        }
        out += "#\n# The VLANs, with their ports.\n";
        for vlan in text::carried(switch).iter() {
            write_vlan(&mut out, switch, vlan);
        }
        write_ethernet(&mut out, plan, switch, mtu_bytes);
        line(&mut out, format_args!("#\n/interface bridge set [find name={BRIDGE}] vlan-filtering=yes"));
        let file = ConfigFile { name: format!("{}.rsc", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn name(interface: Interface<'_>) -> String {
    match interface {
        Interface::Port(port) => port.name.clone(),
        Interface::Lag(lag) => format!("bond{}", lag.number),
    }
}

fn write_lags(out: &mut String, plan: &Plan, switch: &SwitchPlan) {
    for lag in &switch.lags {
        let members = lag.members.iter().filter_map(|&number| text::port(switch, number));
        let members: Vec<&str> = members.map(|port| port.name.as_str()).collect();
        let mode = if lag.lacp { "802.3ad lacp-rate=1sec" } else { "balance-xor" };
        line(out, format_args!("#\n# {}", text::reason(plan, lag.role)));
        line(out, format_args!("/interface bridge port remove [find interface=bond{}]", lag.number));
        line(out, format_args!("/interface bonding remove [find name=bond{}]", lag.number));
        line(
            out,
            format_args!(
                "/interface bonding add name=bond{} mode={mode} transmit-hash-policy=layer-3-and-4 slaves={}",
                lag.number,
                members.join(",")
            ),
        );
    }
}

fn write_port(out: &mut String, plan: &Plan, interface: Interface<'_>) {
    let membership = interface.membership();
    let accepts = match membership.pvid {
        Some(pvid) if membership.tagged.is_empty() => {
            format!("pvid={pvid} frame-types=admit-only-untagged-and-priority-tagged")
        }
        Some(pvid) => format!("pvid={pvid} frame-types=admit-all"),
        // Then the port is in no VLAN because of its PVID.
        None => "frame-types=admit-only-vlan-tagged".into(),
    };
    line(
        out,
        format_args!(
            "/interface bridge port add bridge={BRIDGE} interface={} {accepts} ingress-filtering=yes \
            comment=\"{}\"",
            name(interface),
            text::reason(plan, interface.role())
        ),
    );
}

fn write_vlan(out: &mut String, switch: &SwitchPlan, vlan: VlanId) {
    let list = |is_tagged: bool| {
        let members = text::interfaces(switch).filter(|interface| {
            let membership = interface.membership();
            if is_tagged { membership.tagged.contains(vlan) } else { membership.untagged.contains(vlan) }
        });
        members.map(name).collect::<Vec<_>>().join(",")
    };
    let [tagged, untagged] = [true, false].map(list);
    let part = |key: &str, list: &str| if list.is_empty() { String::new() } else { format!(" {key}={list}") };
    line(
        out,
        format_args!(
            "/interface bridge vlan add bridge={BRIDGE} vlan-ids={vlan}{}{}",
            part("tagged", &tagged),
            part("untagged", &untagged)
        ),
    );
}

fn write_ethernet(out: &mut String, plan: &Plan, switch: &SwitchPlan, mtu_bytes: Option<u32>) {
    *out += "#\n# 802.3x, lengths of frames, and ports that nothing is plugged into.\n";
    let pause = if plan.pause { "on" } else { "off" };
    for port in &switch.ports {
        let is_off = if port.role == crate::plan::PortRole::Unused { "yes" } else { "no" };
        let length = mtu_bytes.map(|mtu| format!(" l2mtu={} mtu={mtu}", mtu + 4)).unwrap_or_default();
        line(
            out,
            format_args!(
                "/interface ethernet set [find name={}] disabled={is_off} rx-flow-control={pause} \
                 tx-flow-control={pause}{length}",
                port.name
            ),
        );
    }
}
