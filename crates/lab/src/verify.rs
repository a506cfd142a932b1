//! The proof that a plan works, by traffic on real bridges: all hosts reach each other, frames take the
//! planned links and no other, switches flood before priming and not after, broadcasts arrive once, a wrong
//! membership is named, the planned configuration repairs a pulled cable, and all of it comes back after a
//! restart.
//!
//! Each check has a name and is printed as it runs. A check that does not apply to the plan says so and
//! counts as passed: in a tree no cable can be spared.

mod heal;
mod load;

use crate::cluster::Lab;
use crate::report::Traffic;
use crate::wire::{End, HostAddress};
use anyhow::Context;
use ayatori_fabric::check::{self, Difference, Observed};
use ayatori_fabric::description::Machine;
use ayatori_fabric::dialect::{bridge_name, lag_name};
use ayatori_fabric::graph::{LinkId, SwitchId};
use ayatori_fabric::plan::{Attachment, Plan, PortRole, Tagging, VlanId};
use ayatori_fabric::vlan::{Failure, InUse, plan_without};
use std::collections::{BTreeMap, BTreeSet};

/// A thing that was tried and how it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// Whether it held.
    pub has_passed: bool,
    /// The observation, with figures.
    pub detail: String,
}

/// Datagrams a measurement sends.
const SENT_COUNT: u32 = 40;
/// Other frames that may cross a port: LACP, repeated ARP requests.
const NOISE_MAX: u64 = 10;
/// Broadcasts a measurement sends.
const BROADCAST_COUNT: u32 = 10;
/// Rounds of questions in a row without a new host, after which the remaining hosts count as unreachable.
const IDLE_ROUND_COUNT_MAX: u32 = 6;

/// Runs all checks in order. The lab must be fresh: started and not primed.
///
/// # Errors
/// The lab itself fails; a check that does not hold is no error.
pub fn run(
    lab: &mut Lab,
    machine: &Machine,
    pair_count_max: usize,
    on_check: impl FnMut(&Check),
) -> anyhow::Result<Vec<Check>> {
    let mut verifier = Verifier { lab, pair_count_max, checks: Vec::new(), on_check };
    verifier.flooding_before_priming()?;
    let scripted_count = verifier.lab.prime_by_script()?;
    verifier.learned("learned", &format!("; {scripted_count} hosts primed by their script"))?;
    verifier.reach("reach")?;
    verifier.routes()?;
    verifier.broadcast()?;
    verifier.priming_under_load()?;
    verifier.wrong_settings()?;
    // Plans whose hosts tag are not repaired but made anew, hosts' scripts included.
    match InUse::of(verifier.lab.plan()) {
        Ok(in_use) => verifier.watched_cable(machine, &in_use)?,
        Err(_) => verifier.pulled_cable(machine)?,
    }
    verifier.restarted()?;
    Ok(verifier.checks)
}

struct Verifier<'a, F: FnMut(&Check)> {
    lab: &'a mut Lab,
    pair_count_max: usize,
    checks: Vec<Check>,
    on_check: F,
}

impl<F: FnMut(&Check)> Verifier<'_, F> {
    fn say(&mut self, name: &'static str, has_passed: bool, detail: String) {
        let check = Check { name, has_passed, detail };
        (self.on_check)(&check);
        self.checks.push(check);
    }

    /// A switch learns a host in the VLANs it sends on. Before priming that is one, and frames to it come on
    /// another.
    fn flooding_before_priming(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "flooding before priming";
        let plan = self.lab.plan().clone();
        let pairs = switch_pairs(&plan);
        let two_vlans =
            |&&(a, b): &&(&Attachment, &Attachment)| plan.vlan_between(a, b) != plan.vlan_between(b, a);
        let Some(&(a, b)) = pairs.iter().find(two_vlans) else {
            self.say(NAME, true, "no occasion: both directions of every pair share a VLAN".into());
            return Ok(());
        };
        let traffic = self.traffic_of(&plan, a, b)?.1;
        let bridged = bridged_host_ends(&plan, self.lab);
        let others = host_ends(&plan, self.lab).into_iter().chain(bridged);
        let others = others.filter(|(number, _)| ![a.number, b.number].contains(number));
        let (mut flooded_count, mut other_count) = (0, 0);
        for (_, ends) in others {
            other_count += 1;
            flooded_count += usize::from(frames(&traffic, &ends) >= u64::from(SENT_COUNT));
        }
        let (from, to) = (name_of(&plan, a), name_of(&plan, b));
        let detail =
            format!("frames from {from} to {to} reached {flooded_count} of {other_count} other hosts too");
        self.say(NAME, flooded_count == other_count && other_count > 0, detail);
        Ok(())
    }

    /// Every switch knows every host on every VLAN, behind the right port: as `plan check` sees it.
    fn learned(&mut self, name: &'static str, how: &str) -> anyhow::Result<()> {
        let differences = self.differences()?;
        let detail = match differences.first() {
            None => {
                let (hosts, vlans) = (self.lab.plan().hosts.len(), self.lab.plan().vlans.len());
                format!("every switch stands as planned and knows {hosts} hosts on {vlans} VLANs{how}")
            }
            Some(first) => format!("{} differences; the first: {first}", differences.len()),
        };
        self.say(name, differences.is_empty(), detail);
        Ok(())
    }

    fn reach(&mut self, name: &'static str) -> anyhow::Result<()> {
        let pairs = self.lab.all_pairs(IDLE_ROUND_COUNT_MAX)?;
        let has_passed = pairs.missing.is_empty() && pairs.duplicate_count == 0;
        let detail = format!(
            "{} of {} ordered pairs of hosts answer, {} datagrams came twice, {} round(s)",
            pairs.pair_count - pairs.missing.len() as u64,
            pairs.pair_count,
            pairs.duplicate_count,
            pairs.round_count
        );
        self.say(name, has_passed, detail);
        Ok(())
    }

    /// Counters of every port while one host sends to another: the planned links, each way, and nothing else.
    fn routes(&mut self) -> anyhow::Result<()> {
        let plan = self.lab.plan().clone();
        let pairs = switch_pairs(&plan);
        let stride = pairs.len().div_ceil(self.pair_count_max.max(1)).max(1);
        let chosen: Vec<_> = pairs.iter().step_by(stride).collect();
        let (mut wrong, mut flooded) = (Vec::new(), Vec::new());
        for &&(a, b) in &chosen {
            let (received_count, traffic) = self.traffic_of(&plan, a, b)?;
            let what = format!("{} to {}", name_of(&plan, a), name_of(&plan, b));
            if received_count != SENT_COUNT {
                wrong.push(format!("{what}: {received_count} of {SENT_COUNT} arrived"));
            }
            self.compare_route(&plan, (a, b), &traffic, &what, &mut wrong);
            for (number, ends) in host_ends(&plan, self.lab) {
                if ![a.number, b.number].contains(&number) && frames(&traffic, &ends) > NOISE_MAX {
                    flooded.push(what.clone());
                }
            }
        }
        let routes_detail = match wrong.first() {
            None => {
                format!("{} of {} pairs of switches: exactly the planned links", chosen.len(), pairs.len())
            }
            Some(first) => format!("{} wrong; the first: {first}", wrong.len()),
        };
        self.say("routes", wrong.is_empty() && !chosen.is_empty(), routes_detail);
        let flood_detail = match flooded.first() {
            None => format!("none of {} measurements reached a third host", chosen.len()),
            Some(first) => format!("frames from {first} reached other hosts"),
        };
        self.say("no flooding after priming", flooded.is_empty(), flood_detail);
        Ok(())
    }

    fn compare_route(
        &self,
        plan: &Plan,
        (a, b): (&Attachment, &Attachment),
        traffic: &Traffic,
        what: &str,
        wrong: &mut Vec<String>,
    ) {
        let Some(route) = plan.route(a, b) else {
            wrong.push(format!("{what}: no route is planned"));
            return;
        };
        let mut planned = BTreeSet::new();
        let mut at = route.from;
        for hop in &route.hops {
            planned.insert((hop.link, at));
            at = hop.to;
        }
        for link in &plan.links {
            for (index, end) in link.ends.iter().enumerate() {
                let ends: Vec<End> = (0..end.ports.len())
                    .map(|cable| self.lab.link_end(link.id.index(), index, cable))
                    .collect();
                let count = frames(traffic, &ends);
                let wanted = if planned.contains(&(link.id, end.switch)) { u64::from(SENT_COUNT) } else { 0 };
                if count < wanted || count > wanted + NOISE_MAX * ends.len() as u64 {
                    let (from, to) = (plan.switch(end.switch), plan.switch(link.ends[1 - index].switch));
                    wrong.push(format!(
                        "{what}: {count} frames from {} to {}, planned {wanted}",
                        from.name, to.name
                    ));
                }
            }
        }
    }

    /// Once to each interface of each host; and no link carries it more often than it was sent, so nothing
    /// goes round.
    fn broadcast(&mut self) -> anyhow::Result<()> {
        let plan = self.lab.plan().clone();
        let Some(own) = plan.hosts.first().and_then(|host| host.attachments.first()) else { return Ok(()) };
        let vlan = plan.vlan_between(own, own).and_then(|vid| plan.vlan(vid));
        let before = self.lab.counters()?;
        let heard = match plan.tagging {
            Tagging::Switch => self.lab.broadcast(0, None, BROADCAST_COUNT)?,
            Tagging::Host => self.lab.broadcast(0, vlan.map(|vlan| vlan.vid), BROADCAST_COUNT)?,
        };
        let traffic = Traffic::between(&before, &self.lab.counters()?);
        let hosts: Vec<_> = plan
            .hosts
            .iter()
            .filter(|host| host.attachments.first().is_some_and(|a| a.rail == own.rail))
            .collect();
        let wrong: Vec<String> = hosts
            .iter()
            .zip(&heard)
            .skip(1)
            // All rails are in all VLANs: a host with two hears everything twice.
            .filter(|(host, count)| **count != BROADCAST_COUNT * host.attachments.len() as u32)
            .map(|(host, count)| format!("{} heard {count}", host.name))
            .collect();
        let mut most = 0;
        for link in 0..plan.links.len() {
            for end in 0..2 {
                let ends: Vec<End> = (0..plan.links[link].cable_count())
                    .map(|cable| self.lab.link_end(link, end, cable))
                    .collect();
                most = most.max(frames(&traffic, &ends));
            }
        }
        let limit = u64::from(BROADCAST_COUNT) + NOISE_MAX * 2;
        let detail = match wrong.first() {
            None => format!(
                "{BROADCAST_COUNT} sent: {} hosts heard each once{}; at most {most} frames on any link",
                heard.len().saturating_sub(1),
                if hosts.iter().any(|host| host.attachments.len() > 1) { " at each interface" } else { "" }
            ),
            Some(first) => format!("{BROADCAST_COUNT} sent: {} hosts wrong; {first}", wrong.len()),
        };
        self.say("broadcast", wrong.is_empty() && most <= limit, detail);
        Ok(())
    }

    /// A membership put in by hand where no tree leads, and one taken out of a host port, are named by
    /// `plan check`; and so is an aging time; the switch's own configuration mends them.
    fn wrong_settings(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "wrong settings are named";
        let plan = self.lab.plan().clone();
        let mut details = Vec::new();
        let mut has_passed = true;
        for mistake in [stray_vlan(&plan), missing_vlan(&plan), short_aging(&plan)].into_iter().flatten() {
            let node = self.lab.switch_node(mistake.switch).to_owned();
            self.lab.shell(&node, &mistake.command)?;
            let name = &plan.switch(mistake.switch).name;
            let found = self.differences()?;
            let is_named = found.iter().any(|difference| {
                difference.switch == *name
                    && difference.port == mistake.port
                    && difference.what.contains(&mistake.words)
            });
            self.lab.apply_switch(&node)?;
            self.lab.prime()?;
            let left = self.differences()?;
            has_passed &= is_named && left.is_empty();
            let place = mistake.port.as_ref().map_or(name.clone(), |port| format!("{name} {port}"));
            details.push(match (is_named, left.first()) {
                (true, None) => format!("{place}: {}, mended", mistake.words),
                (true, Some(left)) => format!("{place}: named, not mended: {left}"),
                (false, _) => format!("{place}: `{}` is not named; found {found:?}", mistake.command),
            });
        }
        self.say(NAME, has_passed && !details.is_empty(), details.join("; "));
        Ok(())
    }

    /// Both ends of all cables of a link.
    fn ends_of(&self, link: usize, cable_count: usize) -> Vec<End> {
        let ends = (0..2).flat_map(|end| (0..cable_count).map(move |cable| (end, cable)));
        ends.map(|(end, cable)| self.lab.link_end(link, end, cable)).collect()
    }

    /// The cable of a link is pulled: hosts lose each other until the plan without the link is applied, and
    /// again stand as before when it is back.
    fn pulled_cable(&mut self, machine: &Machine) -> anyhow::Result<()> {
        const NAME: &str = "pulled cable heals";
        let plan = self.lab.plan().clone();
        let Some((link, healed)) = spare_link(machine, &plan)? else {
            self.say(NAME, true, "no occasion: no link can be spared".into());
            return Ok(());
        };
        let ends = self.ends_of(link.index(), plan.links[link.index()].cable_count());
        for end in &ends {
            self.lab.set_link(end, false)?;
        }
        let broken = self.lab.all_pairs(1)?;
        self.lab.change_plan(&healed)?;
        self.lab.prime()?;
        let after = self.lab.all_pairs(IDLE_ROUND_COUNT_MAX)?;
        for end in &ends {
            self.lab.set_link(end, true)?;
        }
        self.lab.change_plan(&plan)?;
        self.lab.prime()?;
        let restored = self.lab.all_pairs(IDLE_ROUND_COUNT_MAX)?;
        let [a, b] = [0, 1].map(|end| &plan.switch(plan.links[link.index()].ends[end].switch).name);
        let detail = format!(
            "{a} - {b} pulled: {} pairs lost; with the plan without it {} lost; put back {} lost",
            broken.missing.len(),
            after.missing.len(),
            restored.missing.len()
        );
        let has_passed =
            !broken.missing.is_empty() && after.missing.is_empty() && restored.missing.is_empty();
        self.say(NAME, has_passed, detail);
        self.learned("learned again", "")
    }

    /// Frames counted while `a` sends to `b`, and how many datagrams arrived.
    fn traffic_of(&mut self, plan: &Plan, a: &Attachment, b: &Attachment) -> anyhow::Result<(u32, Traffic)> {
        let address = |own: &Attachment| HostAddress { node: name_of(plan, own), address: own.address };
        let (from, to) = (address(a), address(b));
        // Both know each other's address first: ARP is no part of the measurement.
        self.lab.send(&from, &to, 1)?;
        let before = self.lab.counters()?;
        let received_count = self.lab.send(&from, &to, SENT_COUNT)?;
        let after = self.lab.counters()?;
        Ok((received_count, Traffic::between(&before, &after)))
    }

    fn differences(&mut self) -> anyhow::Result<Vec<Difference>> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        self.lab.collect(folder.path())?;
        let plan = self.lab.plan();
        let mut observed: BTreeMap<String, Observed> = BTreeMap::new();
        for switch in &plan.switches {
            if let Some(state) = check::read(folder.path(), switch)? {
                observed.insert(switch.name.clone(), state);
            }
        }
        Ok(check::compare(plan, &observed))
    }
}

/// A manual change of a switch, and the expected message about it.
struct Mistake {
    switch: SwitchId,
    /// `None`: the switch as a whole.
    port: Option<String>,
    command: String,
    words: String,
}

/// A VLAN put on a link that is not in its tree.
fn stray_vlan(plan: &Plan) -> Option<Mistake> {
    let (link, vlan) = plan
        .links
        .iter()
        .find_map(|link| Some((link, plan.vlans.iter().find(|vlan| !vlan.tree.contains(&link.id))?)))?;
    let end = &link.ends[0];
    let switch = plan.switch(end.switch);
    let number = end.ports.first()?;
    let port = switch.ports.iter().find(|port| port.number == *number)?;
    let (interface, name) = match end.lag {
        Some(lag) => (lag_name(lag), format!("LAG {lag}")),
        None => (port.name.clone(), port.name.clone()),
    };
    Some(Mistake {
        switch: switch.id,
        port: Some(name),
        command: format!("bridge vlan add vid {} dev {interface}", vlan.vid),
        words: format!("carries VLAN {}", vlan.vid),
    })
}

/// A VLAN taken off a host's port.
fn missing_vlan(plan: &Plan) -> Option<Mistake> {
    let is_lone_host = |port: &&ayatori_fabric::plan::PortPlan| {
        matches!(port.role, PortRole::Host { .. }) && port.lag.is_none()
    };
    let switch =
        plan.switches.iter().rev().find(|switch| switch.ports.iter().any(|port| is_lone_host(&port)))?;
    let port = switch.ports.iter().find(is_lone_host)?;
    let vlan: VlanId = port.membership.untagged.iter().chain(port.membership.tagged.iter()).last()?;
    Some(Mistake {
        switch: switch.id,
        port: Some(port.name.clone()),
        command: format!("bridge vlan del vid {vlan} dev {}", port.name),
        words: format!("lacks VLAN {vlan}"),
    })
}

/// The kernel's own aging time, 300 s: addresses are gone before the next priming.
fn short_aging(plan: &Plan) -> Option<Mistake> {
    let switch = plan.switches.first()?;
    Some(Mistake {
        switch: switch.id,
        port: None,
        command: format!("ip link set dev {} type bridge ageing_time 30000", bridge_name(plan, switch)),
        words: "addresses age after 300 s".into(),
    })
}

/// The first link in use without which all hosts still have routes, and the plan without it.
fn spare_link(machine: &Machine, plan: &Plan) -> anyhow::Result<Option<(LinkId, Plan)>> {
    for link in &plan.links {
        if !plan.vlans.iter().any(|vlan| vlan.tree.contains(&link.id)) {
            continue;
        }
        let healed = plan_without(machine, &[Failure::Link(link.id)])?;
        let is_whole = switch_pairs(plan).iter().all(|(a, b)| healed.route(a, b).is_some());
        if is_whole {
            return Ok(Some((link.id, healed)));
        }
    }
    Ok(None)
}

/// For every ordered pair of switches with hosts, a host of each, on the first rail.
fn switch_pairs(plan: &Plan) -> Vec<(&Attachment, &Attachment)> {
    let mut of_switch: BTreeMap<SwitchId, &Attachment> = BTreeMap::new();
    let all = plan.hosts.iter().flat_map(|host| &host.attachments);
    for attachment in all.filter(|attachment| attachment.rail == 0) {
        of_switch.entry(attachment.switch).or_insert(attachment);
    }
    let ends: Vec<&Attachment> = of_switch.into_values().collect();
    let pairs = ends.iter().flat_map(|&a| ends.iter().map(move |&b| (a, b)));
    pairs.filter(|(a, b)| a.switch != b.switch).collect()
}

/// By attachment number: the switch ports that lead to it.
fn host_ends(plan: &Plan, lab: &Lab) -> Vec<(u32, Vec<End>)> {
    let all = plan.hosts.iter().flat_map(|host| &host.attachments);
    all.filter(|attachment| !attachment.ports.is_empty())
        .map(|attachment| {
            let ends = attachment.ports.iter().map(|&port| lab.switch_end(attachment.switch, port));
            (attachment.number, ends.collect())
        })
        .collect()
}

/// By attachment number, for hosts that are bridges themselves: the ports of their neighbours that lead to
/// them. Frames there may be for another host beyond.
fn bridged_host_ends(plan: &Plan, lab: &Lab) -> Vec<(u32, Vec<End>)> {
    let far_ends = |switch: SwitchId| {
        let links = plan.links.iter().flat_map(|link| [(link, 0), (link, 1)]);
        let towards = links.filter(move |(link, end)| link.ends[1 - end].switch == switch);
        towards.flat_map(|(link, end)| {
            let cables = 0..link.ends[end].ports.len();
            cables.map(move |cable| lab.link_end(link.id.index(), end, cable))
        })
    };
    let all = plan.hosts.iter().flat_map(|host| &host.attachments);
    let bridged = all.filter(|attachment| attachment.ports.is_empty());
    bridged.map(|attachment| (attachment.number, far_ends(attachment.switch).collect())).collect()
}

fn frames(traffic: &Traffic, ends: &[End]) -> u64 {
    ends.iter().map(|end| traffic.sent_frames(end)).sum()
}

fn name_of(plan: &Plan, attachment: &Attachment) -> String {
    let is_own = |host: &&ayatori_fabric::plan::HostPlan| {
        host.attachments.iter().any(|own| own.number == attachment.number)
    };
    plan.hosts.iter().find(is_own).map_or_else(String::new, |host| host.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_fabric::plan::two_switches_and_four_hosts;

    #[test]
    fn mistakes_are_made_where_the_plan_says_otherwise() {
        let mut plan = two_switches_and_four_hosts();
        assert!(stray_vlan(&plan).is_none(), "every VLAN is on the only link");
        plan.vlans[1].tree.clear();
        let stray = stray_vlan(&plan).unwrap();
        assert_eq!((stray.port.as_deref(), stray.words.as_str()), (Some("LAG 1"), "carries VLAN 102"));
        let missing = missing_vlan(&plan).unwrap();
        assert_eq!(missing.command, "bridge vlan del vid 102 dev 1/g1");
    }

    #[test]
    fn each_ordered_pair_of_switches_is_there_once() {
        let plan = two_switches_and_four_hosts();
        assert_eq!(switch_pairs(&plan).len(), 2);
    }
}
