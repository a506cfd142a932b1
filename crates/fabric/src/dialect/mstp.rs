//! MSTP in the words of the makes that enter it alike: the region first, so that no link carries a VLAN
//! before its tree is elected; then at each interface its cost in each instance.
//!
//! Written from the makers' command references; not tried on a device.

use crate::graph::LinkId;
use crate::plan::{MSTP_MAX_HOPS, Mstp, Plan, PortRole, SwitchPlan};

use super::text::{self, Interface, line};
use super::{Dialect, Refusal};

/// Whose words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    Ios,
    Nxos,
    Eos,
    DellOs6,
    DellOs10,
    Comware,
    Vrp,
}

/// The region, its instances and this switch's priorities; nothing where MSTP is off.
pub(super) fn write_region(out: &mut String, make: Make, plan: &Plan, switch: &SwitchPlan) {
    let Some(mstp) = &plan.mstp else { return };
    let mark = if matches!(make, Make::Comware | Make::Vrp) { '#' } else { '!' };
    line(out, format_args!("{mark}\n{mark} MSTP: each instance elects the planned tree of its VLANs."));
    match make {
        Make::Comware | Make::Vrp => write_h3c(out, make, mstp, switch),
        _ => write_ios_like(out, make, mstp, switch),
    }
}

fn write_ios_like(out: &mut String, make: Make, mstp: &Mstp, switch: &SwitchPlan) {
    match make {
        // Turns on the spanning tree that an earlier plan turned off.
        Make::Ios | Make::Nxos => line(out, format_args!("spanning-tree vlan {}", text::carried(switch))),
        Make::DellOs6 => line(out, "spanning-tree"),
        Make::DellOs10 => line(out, "no spanning-tree disable"),
        _ => {}
    }
    line(out, if make == Make::Eos { "spanning-tree mode mstp" } else { "spanning-tree mode mst" });
    if make != Make::DellOs6 {
        line(out, "no spanning-tree mst configuration");
    }
    let indent = if make == Make::DellOs6 { "" } else { " " };
    line(out, "spanning-tree mst configuration");
    line(out, format_args!("{indent}name {}\n{indent}revision {}", mstp.region, mstp.revision));
    let map = if make == Make::DellOs6 { "add vlan" } else { "vlan" };
    for instance in &mstp.instances {
        line(out, format_args!("{indent}instance {} {map} {}", instance.number, instance.vlans));
    }
    line(out, format_args!("{indent}exit"));
    let hops = if matches!(make, Make::Eos | Make::DellOs6) { "max-hops" } else { "mst max-hops" };
    line(out, format_args!("spanning-tree {hops} {MSTP_MAX_HOPS}"));
    for instance in &mstp.instances {
        let priority = instance.priority(switch.id);
        line(out, format_args!("spanning-tree mst {} priority {priority}", instance.number));
    }
}

fn write_h3c(out: &mut String, make: Make, mstp: &Mstp, switch: &SwitchPlan) {
    line(out, "undo stp region-configuration\nstp region-configuration");
    line(out, format_args!(" region-name {}\n revision-level {}", mstp.region, mstp.revision));
    for instance in &mstp.instances {
        for list in text::lists_with_to(&instance.vlans) {
            line(out, format_args!(" instance {} vlan {list}", instance.number));
        }
    }
    line(out, " active region-configuration\n quit\nstp mode mstp\nstp pathcost-standard dot1t");
    line(out, format_args!("stp max-hops {MSTP_MAX_HOPS}"));
    for instance in &mstp.instances {
        line(out, format_args!("stp instance {} priority {}", instance.number, instance.priority(switch.id)));
    }
    // VRP asks whether to.
    line(out, if make == Make::Vrp { "stp enable\ny" } else { "stp global enable" });
}

/// Lines of an interface: its costs towards a switch; towards a host, that no switch is there to be
/// waited for.
pub(super) fn interface(make: Make, plan: &Plan, interface: Interface<'_>) -> Vec<String> {
    let Some(mstp) = &plan.mstp else { return Vec::new() };
    let PortRole::Link { link, .. } = interface.role() else {
        let edge = match make {
            Make::Ios => "spanning-tree portfast trunk",
            Make::Nxos => "spanning-tree port type edge trunk",
            Make::Eos | Make::DellOs6 => "spanning-tree portfast",
            Make::DellOs10 => "spanning-tree port type edge",
            Make::Comware => "stp edged-port",
            Make::Vrp => "stp edged-port enable",
        };
        return vec![edge.into()];
    };
    // EOS' files for plans without MSTP keep BPDUs from every port.
    let first = (make == Make::Eos).then(|| "spanning-tree bpdufilter disable".to_owned());
    let cost = |(number, cost): (u16, u32)| match make {
        Make::Comware | Make::Vrp => format!("stp instance {number} cost {cost}"),
        Make::DellOs10 => format!("spanning-tree msti {number} cost {cost}"),
        _ => format!("spanning-tree mst {number} cost {cost}"),
    };
    first.into_iter().chain(costs(mstp, link).map(cost)).collect()
}

/// What a link costs in each instance.
pub(super) fn costs(mstp: &Mstp, link: LinkId) -> impl Iterator<Item = (u16, u32)> + '_ {
    mstp.instances.iter().map(move |instance| (instance.number, instance.cost(link)))
}

/// For makes that no words for MSTP are known of.
///
/// # Errors
/// A [`Refusal`] if the plan needs MSTP.
pub(super) fn refuse(dialect: &dyn Dialect, plan: &Plan, switch: &SwitchPlan) -> Result<(), Refusal> {
    if plan.mstp.is_none() {
        return Ok(());
    }
    Err(Refusal {
        switch: switch.name.clone(),
        dialect: dialect.name(),
        problem: "no words for MSTP are known".into(),
        remedy: "leave `spanning_tree` out under [plan]".into(),
    })
}
