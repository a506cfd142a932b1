//! The routes of an Ethernet machine: those of its plan.
//!
//! The plan's data is all that is read: which links are in a VLAN's tree, and which VLAN a host's frames
//! are on. The verdicts of the plan are not: whether frames wait for each other in a cycle shows when they
//! do.

use std::borrow::Cow;

use ayatori_fabric::description::{DescriptionError, Machine};
use ayatori_fabric::graph::{LinkId, Node};
use ayatori_fabric::plan::{Attachment, Plan, Status, VlanChoice};
use ayatori_fabric::routing::{Routing, RoutingError, VlanForwarding};
use ayatori_fabric::vlan;

use crate::network::VlanOf;

/// Routes and VLANs.
pub(crate) struct Planned {
    pub(crate) routing: Routing,
    pub(crate) vlan_of: VlanOf,
}

/// Why a machine's plan cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The machine cannot be planned.
    #[error(transparent)]
    Plan(#[from] Box<DescriptionError>),
    /// The plan's trees are none: our bug.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// A host that the plan leaves out.
    #[error("the plan has no VLAN for host {0}: it is cut off")]
    CutOff(String),
    /// A plan was given for a machine of routers, or one with other switches or hosts.
    #[error("{0}")]
    Unfit(&'static str),
}

impl Planned {
    /// The routes of a machine's plan: the one given, or one made now. Adds to `notes` what fails of
    /// the plan: it is
    /// simulated all the same.
    pub(crate) fn of(
        machine: &Machine,
        plan: Option<&Plan>,
        notes: &mut Vec<String>,
    ) -> Result<Planned, PlanError> {
        let plan = match plan {
            Some(plan) => Cow::Borrowed(plan),
            None => Cow::Owned(vlan::plan(machine).map_err(Box::new)?),
        };
        if !is_of(&plan, machine) {
            return Err(PlanError::Unfit("the plan is another machine's"));
        }
        for check in plan.verdicts.checks.iter().filter(|check| check.status == Status::Fails) {
            notes.push(format!("the plan fails its check \"{}\": {}", check.name, check.detail));
        }
        let trees = plan.vlans.iter().map(|vlan| &*vlan.tree);
        let routing = Routing::Vlan(VlanForwarding::new(&machine.graph, trees)?);
        Ok(Planned { routing, vlan_of: vlan_of(machine, &plan)? })
    }
}

/// Whether switches, links, hosts and their attachments are as many.
fn is_of(plan: &Plan, machine: &Machine) -> bool {
    let graph = &machine.graph;
    let counts = (graph.switch_count(), graph.host_count(), machine.switch_link_count());
    let mut hosts = plan.hosts.iter().zip(&machine.hosts);
    counts == (plan.switches.len(), plan.hosts.len(), plan.links.len())
        && hosts.all(|(planned, host)| planned.attachments.len() == host.attachments.len())
}

fn vlan_of(machine: &Machine, plan: &Plan) -> Result<VlanOf, PlanError> {
    let cut_off =
        |own: &Attachment| PlanError::CutOff(format!("{}, {}", plan.switch(own.switch).name, own.interface));
    match &plan.choice {
        VlanChoice::BySource(_) => {
            let mut vlans = Vec::new();
            for (host, planned) in machine.graph.hosts().zip(&plan.hosts) {
                for neighbour in machine.graph.neighbours(host.into()) {
                    let own = attachment(machine, planned.id.index(), neighbour.channel.link());
                    let own = &planned.attachments[own];
                    let vlan = plan.choice.vlan_index(own, own).ok_or_else(|| cut_off(own))?;
                    vlans.push(vlan as u16);
                }
            }
            Ok(VlanOf::Sender(vlans))
        }
        VlanChoice::ByPair { switch_count, vlans } => {
            let lost = plan.attachments().find(|own| plan.choice.vlan_index(own, own).is_none()).map(cut_off);
            if let Some(lost) = lost {
                return Err(lost);
            }
            // Pairs without hosts are never asked for.
            let vlans = vlans.iter().map(|vlan| vlan.unwrap_or(0)).collect();
            Ok(VlanOf::Switches { switch_count: *switch_count, vlans })
        }
    }
}

/// Which of a host's attachments a link of its is.
fn attachment(machine: &Machine, host: usize, link: LinkId) -> usize {
    let attachments = &machine.hosts[host].attachments;
    debug_assert!(machine.graph.link(link).ends.iter().any(|end| matches!(end.node, Node::Host(_))));
    attachments.iter().position(|attachment| attachment.link == link).unwrap_or(0)
}
