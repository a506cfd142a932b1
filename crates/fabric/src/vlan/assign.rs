//! From a solution to a [`Plan`]: identifiers, memberships of ports and LAGs, addresses, checks.

use crate::analysis::bisection::bisected;
use crate::broadcast;
use crate::description::{DescriptionError, Machine};
use crate::dialect::capabilities_of;
use crate::graph::{HostId, LinkId, SwitchId};
use crate::plan::*;

use super::addresses::{Addresses, split};
use super::balance::{least_flows, least_pressure};
use super::choose::{Chosen, Judged};
use super::evaluation::{Witness, channel_switches, cycle};
use super::in_use::InUse;
use super::mstp;
use super::network::{Failure, NONE, Network};
use super::solution::{Choice, Senders};
use super::verify;

pub(super) fn assign(
    machine: &Machine,
    network: &Network,
    chosen: &Chosen,
    failures: &[Failure],
    in_use: Option<&InUse>,
) -> Result<Plan, DescriptionError> {
    let spanning;
    let chosen = if mstp::is_wanted(machine) {
        spanning = mstp::spanning(network, chosen);
        &spanning
    } else {
        chosen
    };
    let judged = &chosen.best;
    let vids = identifiers(machine, chosen, in_use)?;
    let tagging = match judged.solution.choice {
        Choice::BySource(_) => Tagging::Switch,
        Choice::ByPair(_) => Tagging::Host,
    };
    let hosts = hosts(machine, in_use);
    let numbers = hosts.iter().flat_map(|host| &host.attachments).map(|own| u64::from(own.address_number));
    let subnets = vlan_subnets(machine, &vids, numbers.max().map_or(0, |last| last + 1));
    let choice = plan_choice(machine, network, judged, &hosts, in_use);
    let mut plan = Plan {
        machine: machine.name.clone(),
        tagging,
        method: judged.solution.method.clone(),
        is_repaired: judged.solution.is_repaired,
        pause: machine.options.pause,
        mtu_bytes: mtu_bytes(machine),
        vlans: vlans(network, judged, &vids, &subnets),
        links: links(machine),
        switches: Vec::new(),
        hosts,
        priming: Priming::default(),
        figures: figures(machine, network, judged, failures.is_empty() || in_use.is_some()),
        verdicts: Verdicts::default(),
        choice,
        mstp: None,
    };
    if mstp::is_wanted(machine) {
        let fewer = fewer_vlans(machine, chosen);
        plan.mstp = Some(mstp::region(machine, network, &plan.vlans, &fewer)?);
    }
    number_lags(&mut plan, machine, in_use);
    plan.switches = switches(machine, network, &plan, in_use);
    plan.priming.period_s =
        plan.switches.iter().filter_map(|switch| switch.aging_time_s).min().map(|s| s / 2);
    let load = broadcast::priming_load(&plan);
    plan.priming.gap_ms = load.gap_ms;
    plan.priming.link_frames_max = load.link_frames_max;
    plan.priming.at_once_frames_max = load.at_once_frames_max;
    check_vlan_limits(machine, chosen, &plan)?;
    plan.verdicts = verdicts(machine, network, chosen, failures, &plan);
    Ok(plan)
}

/// `whole` on the trees that MSTP elects without what has failed. Nothing is configured otherwise.
pub(super) fn healed(
    machine: &Machine,
    network: &Network,
    judged: Judged,
    failures: &[Failure],
    whole: Plan,
) -> Plan {
    let vids: Vec<VlanId> = whole.vlans.iter().map(|vlan| vlan.vid).collect();
    let subnets: Vec<Subnet> = whole.vlans.iter().map(|vlan| vlan.subnet).collect();
    let mut plan = whole;
    plan.is_repaired = true;
    plan.vlans = vlans(network, &judged, &vids, &subnets);
    plan.figures = figures(machine, network, &judged, false);
    plan.verdicts = verdicts(machine, network, &Chosen { best: judged, alternative: None }, failures, &plan);
    plan
}

/// One identifier a VLAN: those in use, or upwards from the first, also where routes made anew need more than
/// there are behind those in use.
fn identifiers(
    machine: &Machine,
    chosen: &Chosen,
    in_use: Option<&InUse>,
) -> Result<Vec<VlanId>, DescriptionError> {
    let count = chosen.best.solution.trees.len();
    let first = usize::from(machine.options.first_vlan.get());
    let in_use_ones = in_use.and_then(|in_use| in_use.identifiers(count));
    let from_first =
        || (first..first + count).map(|vid| u16::try_from(vid).ok().and_then(VlanId::new)).collect();
    let is_continued = in_use.is_some() && chosen.best.solution.is_repaired;
    let vids: Option<Vec<VlanId>> = if is_continued { in_use_ones } else { in_use_ones.or_else(from_first) };
    vids.ok_or_else(|| {
        let problem = format!("{count} VLANs from {first} on go beyond {}, the last there is", VlanId::MAX);
        machine.error("plan.first_vlan", problem, fewer_vlans(machine, chosen))
    })
}

/// How to get along with fewer VLANs.
fn fewer_vlans(machine: &Machine, chosen: &Chosen) -> String {
    use crate::description::{Grouping, Routing};
    let mut ways = Vec::new();
    if machine.options.grouping != Grouping::Fewest {
        ways.push("`vlans = \"fewest\"`".to_owned());
    }
    if let Some(safe) = &chosen.alternative
        && safe.solution.trees.len() < chosen.best.solution.trees.len()
    {
        ways.push(format!("{} ({} VLANs)", quoted(&safe.solution.settings), safe.solution.trees.len()));
    }
    if machine.options.routing != Routing::SpanningTree {
        ways.push("`routing = \"spanning-tree\"` (1 VLAN)".to_owned());
    }
    format!("in [plan], try {}, or use a switch that has more", ways.join(" or "))
}

/// Lines to write, in a sentence.
fn quoted(settings: &[String]) -> String {
    let quoted: Vec<String> = settings.iter().map(|setting| format!("`{setting}`")).collect();
    quoted.join(" and ")
}

fn check_vlan_limits(machine: &Machine, chosen: &Chosen, plan: &Plan) -> Result<(), DescriptionError> {
    let attachment_count = plan.hosts.iter().map(|host| host.attachments.len() as u64).sum::<u64>().max(1);
    for switch in &plan.switches {
        let model = machine.switch_model(switch.id);
        // Every VLAN at a switch has an entry for every attachment.
        let count = switch.mac_entries_count / attachment_count;
        if let Some(max) = model.vlans_max
            && count > u64::from(max)
        {
            let key = format!("switch_models.{}.vlans_max", model.name);
            let problem = format!(
                "the plan ({}) puts {count} VLANs on {}, more than its {max}",
                plan.method, switch.name
            );
            return Err(machine.error(&key, problem, fewer_vlans(machine, chosen)));
        }
    }
    Ok(())
}

fn plan_choice(
    machine: &Machine,
    network: &Network,
    judged: &Judged,
    hosts: &[HostPlan],
    in_use: Option<&InUse>,
) -> VlanChoice {
    let narrow = |vlans: &[u32]| vlans.iter().map(|&v| (v != NONE).then_some(v as u16)).collect();
    match &judged.solution.choice {
        Choice::BySource(senders) => {
            // Dealt to a switch's host interfaces in their order.
            let mut dealt = senders.clone();
            let mut deal = |attachment: &Attachment, wanted: Option<u32>| {
                let all = &mut dealt[attachment.switch.index()];
                let fits = |own: &&mut Senders| own.hosts > 0 && wanted.is_none_or(|vlan| own.vlan == vlan);
                let own = all.iter_mut().find(fits)?;
                own.hosts -= 1;
                Some(own.vlan as u16)
            };
            let all = || hosts.iter().flat_map(|host| host.attachments.iter().map(move |own| (host, own)));
            // Those that keep theirs first.
            let kept = all().map(|(host, own)| {
                let switch = machine.graph.name(own.switch.into());
                deal(own, Some(in_use?.vlan_of(&host.name, own, switch)?))
            });
            let kept: Vec<Option<u16>> = kept.collect();
            let choices = all().zip(kept).map(|((_, own), kept)| kept.or_else(|| deal(own, None)));
            VlanChoice::BySource(choices.collect())
        }
        Choice::ByPair(vlans) => {
            VlanChoice::ByPair { switch_count: network.switch_count(), vlans: narrow(vlans) }
        }
    }
}

fn vlans(network: &Network, judged: &Judged, vids: &[VlanId], subnets: &[Subnet]) -> Vec<VlanPlan> {
    let mut sources: Vec<Vec<SwitchId>> = vec![Vec::new(); vids.len()];
    for source in network.sources() {
        match &judged.solution.choice {
            Choice::BySource(senders) => {
                let own: VlanIndices = senders[source as usize].iter().map(|senders| senders.vlan).collect();
                own.iter().for_each(|&vlan| sources[vlan as usize].push(SwitchId(source)));
            }
            Choice::ByPair(vlans) => {
                let row = &vlans[source as usize * network.switch_count()..][..network.switch_count()];
                let used: VlanIndices = row.iter().filter(|&&vlan| vlan != NONE).copied().collect();
                used.iter().for_each(|&vlan| sources[vlan as usize].push(SwitchId(source)));
            }
        }
    }
    let vlan = |(index, sources): (usize, Vec<SwitchId>)| VlanPlan {
        vid: vids[index],
        tree: judged.solution.trees[index].iter().map(|&link| LinkId(link)).collect(),
        sources,
        subnet: subnets[index],
    };
    sources.into_iter().enumerate().map(vlan).collect()
}

type VlanIndices = std::collections::BTreeSet<u32>;

pub(super) fn links(machine: &Machine) -> Vec<LinkPlan> {
    let link = |(id, link): (LinkId, &crate::graph::Link)| {
        let end = |at: usize| LinkEnd {
            switch: match link.ends[at].node {
                crate::graph::Node::Switch(switch) => switch,
                crate::graph::Node::Host(_) => unreachable!("links between switches come first"),
            },
            ports: machine.link_ports[id.index()][at].clone(),
            lag: None,
        };
        LinkPlan { id, ends: [end(0), end(1)], rate_bits_per_s: link.spec.rate_bits_per_s }
    };
    machine.graph.links().take(machine.switch_link_count()).map(link).collect()
}

/// LAGs of each switch: links in order.
fn number_lags(plan: &mut Plan, machine: &Machine, in_use: Option<&InUse>) {
    let name = |switch: SwitchId| machine.graph.name(switch.into());
    let mut used: Vec<Vec<u16>> = vec![Vec::new(); machine.switches.len()];
    let mut all: Vec<&mut LinkEnd> = plan.links.iter_mut().flat_map(|link| &mut link.ends).collect();
    all.retain(|end| end.ports.len() > 1);
    for end in &mut all {
        end.lag = in_use.and_then(|in_use| in_use.lag(name(end.switch), &end.ports));
        used[end.switch.index()].extend(end.lag);
    }
    // Hosts keep theirs, too.
    for own in plan.hosts.iter().flat_map(|host| &host.attachments).filter(|own| own.ports.len() > 1) {
        let kept = in_use.and_then(|in_use| in_use.lag(name(own.switch), &own.ports));
        used[own.switch.index()].extend(kept);
    }
    for end in all.into_iter().filter(|end| end.lag.is_none()) {
        let used = &mut used[end.switch.index()];
        let number = free_lag(used);
        end.lag = Some(number);
        used.push(number);
    }
}

/// The lowest number of a LAG that is free.
fn free_lag(used: &[u16]) -> u16 {
    (1..=u16::MAX).find(|number| !used.contains(number)).unwrap_or(u16::MAX)
}

/// Attachments with their addresses. A host has the same number in the subnet of every rail.
pub(super) fn hosts(machine: &Machine, in_use: Option<&InUse>) -> Vec<HostPlan> {
    let kept_of = |host: HostId, link: LinkId| {
        let (interface, _) = interface_names(machine, host, &machine.link_ports[link.index()][0]);
        in_use.and_then(|in_use| in_use.attachment(machine.graph.name(host.into()), &interface))
    };
    let all = machine.hosts.iter().enumerate().flat_map(|(index, host)| {
        let links = host.attachments.iter().enumerate();
        links.filter_map(move |(rail, link)| Some((rail, kept_of(HostId(index as u32), link.link)?)))
    });
    let mut addresses = Addresses::new(machine, in_use, &all.collect::<Vec<_>>());
    let mut number = 0;
    let mut plans = Vec::with_capacity(machine.hosts.len());
    for (index, host) in machine.hosts.iter().enumerate() {
        let id = HostId(index as u32);
        let mut attachments = Vec::with_capacity(host.attachments.len());
        for (rail, link) in host.attachments.iter().enumerate() {
            let [nics, ports] = &machine.link_ports[link.link.index()];
            let names = interface_names(machine, id, nics);
            let kept = kept_of(id, link.link);
            let (address, prefix_bits, address_number) = addresses.deal((index as u32, rail), number, kept);
            let own_nics = machine.host_model(id).nics.iter();
            // A bridge inside the host has all its NICs as ports.
            let mtus = own_nics.filter(|nic| nics.is_empty() || names.1.contains(&nic.name));
            let mtu_bytes = mtus.map(|nic| nic.mtu_bytes).min().unwrap_or(1500);
            attachments.push(Attachment {
                number,
                rail: rail as u8,
                interface: names.0,
                nics: names.1,
                mtu_bytes,
                mac: nics.first().and_then(|&nic| host.macs[usize::from(nic)]),
                switch: link.switch,
                ports: ports.clone(),
                address,
                prefix_bits,
                address_number,
            });
            number += 1;
        }
        plans.push(HostPlan { id, name: machine.graph.name(id.into()).to_owned(), attachments });
    }
    plans
}

/// The largest payload that a NIC of any host sends.
fn mtu_bytes(machine: &Machine) -> u32 {
    let nics = (0..machine.hosts.len() as u32).flat_map(|host| &machine.host_model(HostId(host)).nics);
    nics.map(|nic| nic.mtu_bytes).max().unwrap_or(1500)
}

fn interface_names(machine: &Machine, host: HostId, nics: &[PortNumber]) -> (String, Vec<String>) {
    let model = machine.host_model(host);
    let names: Vec<String> = nics.iter().map(|&nic| model.nics[usize::from(nic)].name.clone()).collect();
    match names.as_slice() {
        // The bridge inside the host is its interface.
        [] => ("br0".into(), vec!["br0".into()]),
        // Also the only cabled NIC of a bond: nothing is there to be bonded.
        [_] => (names[0].clone(), names),
        _ => ("bond0".into(), names),
    }
}

/// The subnet of each VLAN: the one with the VLAN's own number in it where there is room (10.0.101.0/24
/// for 101).
fn vlan_subnets(machine: &Machine, vids: &[VlanId], attachment_count: u64) -> Vec<Subnet> {
    let base = machine.options.vlan_subnet;
    let last = vids.iter().max().map_or(0, |vid| u64::from(vid.get()));
    let by_number = split(base, last + 1, attachment_count);
    if !by_number.is_empty() {
        return vids.iter().map(|vid| by_number[usize::from(vid.get())]).collect();
    }
    let in_turn = split(base, vids.len() as u64, attachment_count);
    // Too small: the `addresses` check says so.
    vids.iter().enumerate().map(|(index, _)| in_turn.get(index).copied().unwrap_or(base)).collect()
}

fn switches(machine: &Machine, network: &Network, plan: &Plan, in_use: Option<&InUse>) -> Vec<SwitchPlan> {
    let mut switches: Vec<SwitchPlan> = machine.graph.switches().map(|id| bare_switch(machine, id)).collect();
    let attachment_count: u64 = plan.hosts.iter().map(|host| host.attachments.len() as u64).sum();
    let mut tagged: Vec<VlanSet> = vec![VlanSet::new(); plan.links.len()];
    let mut is_on = vec![NONE; switches.len()];
    for (index, vlan) in plan.vlans.iter().enumerate() {
        // MSTP chooses among all links, so all carry all.
        let all = mstp::is_wanted(machine).then(|| links_up(network));
        for link in all.as_ref().unwrap_or(&vlan.tree) {
            tagged[link.index()].insert(vlan.vid);
            for end in &plan.links[link.index()].ends {
                // Once a VLAN, however many of the tree's links end here.
                if std::mem::replace(&mut is_on[end.switch.index()], index as u32) != index as u32 {
                    switches[end.switch.index()].mac_entries_count += attachment_count;
                }
            }
        }
    }
    for link in &plan.links {
        for (at, end) in link.ends.iter().enumerate() {
            let role = PortRole::Link { link: link.id, peer: link.ends[1 - at].switch };
            let membership = Membership { tagged: tagged[link.id.index()].clone(), ..Membership::default() };
            plug(
                &mut switches[end.switch.index()],
                &end.ports,
                end.lag,
                role,
                membership,
                machine.options.lacp,
            );
        }
    }
    let all = plan.vlan_set();
    let kept_lag = |own: &Attachment| {
        in_use.filter(|_| own.ports.len() > 1)?.lag(machine.graph.name(own.switch.into()), &own.ports)
    };
    for host in &plan.hosts {
        for (index, attachment) in host.attachments.iter().enumerate() {
            let switch = &mut switches[attachment.switch.index()];
            let is_cut_off = network.weight(attachment.switch.0) == 0;
            let membership =
                if is_cut_off { Membership::default() } else { host_membership(plan, attachment, &all) };
            let role = PortRole::Host { host: host.id, attachment: index };
            let used: Vec<u16> = switch.lags.iter().map(|lag| lag.number).collect();
            let kept = kept_lag(attachment).filter(|number| !used.contains(number));
            let others = plan.attachments().filter(|own| own.switch == attachment.switch);
            let free =
                || free_lag(&used.iter().copied().chain(others.filter_map(kept_lag)).collect::<Vec<_>>());
            let lag = (attachment.ports.len() > 1).then(|| kept.unwrap_or_else(free));
            plug(switch, &attachment.ports, lag, role, membership, machine.options.lacp);
        }
    }
    switches.iter_mut().for_each(|switch| switch.lags.sort_by_key(|lag| lag.number));
    // One switch: no tree has links, but its hosts are in its table.
    if plan.links.is_empty() {
        switches.iter_mut().for_each(|s| s.mac_entries_count = attachment_count * plan.vlans.len() as u64);
    }
    switches
}

fn links_up(network: &Network) -> Vec<LinkId> {
    (0..network.link_count() as u32).filter(|&link| network.is_up(link)).map(LinkId).collect()
}

fn host_membership(plan: &Plan, attachment: &Attachment, all: &VlanSet) -> Membership {
    match plan.tagging {
        Tagging::Host => Membership { tagged: all.clone(), ..Membership::default() },
        Tagging::Switch => Membership {
            pvid: plan.vlan_between(attachment, attachment),
            untagged: all.clone(),
            tagged: VlanSet::new(),
        },
    }
}

fn bare_switch(machine: &Machine, id: SwitchId) -> SwitchPlan {
    let model = machine.switch_model(id);
    let port = |number| PortPlan {
        number,
        name: model.port_names.name(number),
        role: PortRole::Unused,
        lag: None,
        membership: Membership::default(),
    };
    // Kept for ever where that is possible, unless a time was asked for.
    let aging_time_s = match machine.options.aging_time_s {
        Some(asked) => Some(asked),
        None if model.aging_can_be_off => None,
        None => model.aging_time_max_s,
    };
    SwitchPlan {
        id,
        name: machine.graph.name(id.into()).to_owned(),
        model: model.name.clone(),
        dialect: model.dialect.clone(),
        inside_host: machine.switches[id.index()].inside_host,
        ports: (1..=model.port_count).map(port).collect(),
        lags: Vec::new(),
        aging_time_s,
        mac_entries_count: 0,
    }
}

fn plug(
    switch: &mut SwitchPlan,
    ports: &[PortNumber],
    lag: Option<u16>,
    role: PortRole,
    membership: Membership,
    lacp: bool,
) {
    for &number in ports {
        let port = &mut switch.ports[usize::from(number) - 1];
        port.role = role;
        port.lag = lag;
        port.membership = membership.clone();
    }
    if let Some(number) = lag {
        switch.lags.push(LagPlan { number, members: ports.to_vec(), role, lacp, membership });
    }
}

fn figures(machine: &Machine, network: &Network, judged: &Judged, is_whole: bool) -> Figures {
    let evaluation = &judged.evaluation;
    let busiest = evaluation.busiest(network);
    let flow_count = network.shortest().flow_count;
    let mean = |total: u64| if flow_count == 0 { 0.0 } else { total as f64 / flow_count as f64 };
    let used: Vec<u64> = evaluation.flows.iter().copied().filter(|&flows| flows > 0).collect();
    let cable_count = machine.graph.switch_cable_count();
    let price = |model: Option<f64>| model.unwrap_or(0.0);
    let switches: f64 = machine.graph.switches().map(|id| price(machine.switch_model(id).price)).sum();
    let has_price = machine.cable_price.is_some() || machine.switch_models.iter().any(|m| m.price.is_some());
    let (bisection, side) = bisected(network);
    let least = busiest.map_or(0.0, |(channel, flows)| {
        // One plan of many, for a failure: a quick bound will do.
        let found = if is_whole { flows } else { 0 };
        least_flows(network, least_pressure(network, found), network.rate(channel.link().0))
    });
    let is_idle = |link: &&LinkPlan| evaluation.flows[2 * link.id.index()..][..2] == [0, 0];
    Figures {
        vlan_count_min: judged.solution.vlan_count_min,
        diameter_switches: evaluation.diameter_switches,
        mean_switches: 1.0 + mean(evaluation.hops),
        stretch: evaluation.stretch(),
        bisection,
        bisection_routed_bits_per_s: routed_across(network, &evaluation.flows, &side),
        idle_link_count: links(machine).iter().filter(is_idle).count(),
        link_load_least: least,
        link_load_max: busiest.map_or(0, |(_, flows)| flows),
        busiest: busiest.map(|(channel, _)| {
            let (link, from, to) = channel_switches(network, channel);
            BusiestLink { link, from, to }
        }),
        link_load_mean: if used.is_empty() {
            0.0
        } else {
            used.iter().sum::<u64>() as f64 / used.len() as f64
        },
        channel_flows: evaluation.flows.clone(),
        cable_count,
        price: has_price.then(|| switches + cable_count as f64 * price(machine.cable_price)),
    }
}

/// Bandwidth from one side to the other in the slower direction, bit/s, if all flows are as fast as the
/// busiest channel on the way allows.
pub(super) fn routed_across(network: &Network, flows: &[u64], is_right: &[bool]) -> u64 {
    let across = |right: bool| {
        let crossing = (0..network.link_count() as u32).filter_map(|link| {
            let [a, b] = network.ends(link);
            let from = if is_right[a as usize] == right { a } else { b };
            (is_right[a as usize] != is_right[b as usize])
                .then(|| (flows[network.channel(link, from).index()], network.rate(link)))
        });
        let (mut sum, mut flow_rate) = (0, f64::INFINITY);
        for (flows, rate) in crossing {
            sum += flows;
            flow_rate = flow_rate.min(rate as f64 / flows as f64);
        }
        if sum == 0 { 0 } else { (sum as f64 * flow_rate).round() as u64 }
    };
    across(false).min(across(true))
}

fn verdicts(
    machine: &Machine,
    network: &Network,
    chosen: &Chosen,
    failures: &[Failure],
    plan: &Plan,
) -> Verdicts {
    let witnesses =
        if chosen.best.evaluation.is_free { Vec::new() } else { cycle(network, &chosen.best.solution) };
    let mut checks = vec![
        trees_check(network, plan),
        routes_check(network, plan, &chosen.best),
        deadlock_check(machine, chosen, &witnesses),
        vlan_check(machine, plan),
        mac_check(machine, plan),
        address_check(machine, plan),
        pause_check(machine),
        mtu_check(plan),
        broadcast_check(machine, plan),
    ];
    checks.extend(plan.mstp.as_ref().map(|mstp| mstp::check(machine, network, mstp)));
    if !failures.is_empty() {
        checks.push(loss_check(machine, network, failures));
    }
    let steps = witnesses.iter().map(|witness| {
        let (link, from, to) = channel_switches(network, witness.held);
        let vid = plan.vlans[witness.vlan as usize].vid;
        CycleStep { link, from, to, vid, source: witness.source, destination: witness.destination }
    });
    let alternative = chosen.alternative.as_ref().map(|safe| Alternative {
        settings: safe.solution.settings.clone(),
        vlan_count: safe.solution.trees.len(),
        stretch: safe.evaluation.stretch(),
        link_load_max: safe.evaluation.busiest(network).map_or(0, |(_, flows)| flows),
    });
    Verdicts { checks, deadlock: Deadlock { cycle: steps.collect() }, alternative }
}

fn check(name: &'static str, status: Status, detail: String, remedy: Option<String>) -> Check {
    Check { name: name.into(), status, detail, remedy }
}

fn trees_check(network: &Network, plan: &Plan) -> Check {
    match plan.vlans.iter().find_map(|vlan| verify::tree_fault(plan, network, vlan)) {
        Some(fault) => check("trees", Status::Fails, fault, Some("this is a bug: please report it".into())),
        None => {
            let detail =
                format!("{} VLANs, each a tree that reaches every switch with hosts", plan.vlans.len());
            check("trees", Status::Holds, detail, None)
        }
    }
}

pub(super) fn routes_check(network: &Network, plan: &Plan, judged: &Judged) -> Check {
    let evaluation = &judged.evaluation;
    let fault = verify::unrouted(plan, network);
    if let Some((from, to)) = fault {
        let [from, to] = [from, to].map(|id| plan.switch(id).name.clone());
        let detail = format!("there is no route from {from} to {to}");
        return check("routes", Status::Fails, detail, Some("this is a bug: please report it".into()));
    }
    let detail = format!(
        "all {} ordered pairs of switches with hosts; {} switches at most, {:.2} times the shortest paths",
        network.shortest().pairs,
        evaluation.diameter_switches,
        evaluation.stretch()
    );
    let status =
        if evaluation.routed_flows == network.shortest().flow_count { Status::Holds } else { Status::Fails };
    check("routes", status, detail, None)
}

fn deadlock_check(machine: &Machine, chosen: &Chosen, cycle: &[Witness]) -> Check {
    let evaluation = &chosen.best.evaluation;
    if evaluation.is_free {
        let count = evaluation.dependency_count;
        let detail = format!("{count} channel dependencies over all VLANs together, without a cycle");
        check("deadlock", Status::Holds, detail, None)
    } else if machine.options.pause {
        let detail = format!("with pause on, {} channels can wait for each other in a cycle", cycle.len());
        let remedy = chosen
            .alternative
            .as_ref()
            .map(|safe| format!("in [plan], {} is free of deadlock", quoted(&safe.solution.settings)));
        check("deadlock", Status::Fails, detail, remedy.or(Some("turn `pause` off".into())))
    } else {
        let detail = format!(
            "{} channels form a cycle, but without pause full buffers drop frames instead",
            cycle.len()
        );
        check("deadlock", Status::Warning, detail, None)
    }
}

fn vlan_check(machine: &Machine, plan: &Plan) -> Check {
    let count = plan.vlans.len();
    let limit = machine.switch_models.iter().filter_map(|model| model.vlans_max).min();
    let detail = match limit {
        Some(limit) => format!("{count} of {limit}; at least {} are needed", plan.figures.vlan_count_min),
        None => format!("{count}; the description gives no limit (`vlans_max`)"),
    };
    check("vlan limit", Status::Holds, detail, None)
}

fn mac_check(machine: &Machine, plan: &Plan) -> Check {
    let worst = plan.switches.iter().max_by_key(|switch| {
        let max = machine.switch_model(switch.id).mac_table_max.unwrap_or(u64::MAX).max(1);
        (u128::from(switch.mac_entries_count) << 64) / u128::from(max)
    });
    let Some(worst) = worst else { return check("mac table", Status::Holds, "no switch".into(), None) };
    let needed = worst.mac_entries_count;
    match machine.switch_model(worst.id).mac_table_max {
        None => {
            let detail = format!("{needed} entries; the description gives no limit (`mac_table_max`)");
            check("mac table", Status::Holds, detail, None)
        }
        Some(max) if needed <= max => {
            check("mac table", Status::Holds, format!("{needed} of {max} entries"), None)
        }
        Some(max) => {
            let detail =
                format!("{} needs {needed} entries and has {max}: frames beyond will flood", worst.name);
            let remedy = "use fewer VLANs (`vlans = \"fewest\"`) or switches with larger tables";
            check("mac table", Status::Fails, detail, Some(remedy.into()))
        }
    }
}

fn address_check(machine: &Machine, plan: &Plan) -> Check {
    let options = &machine.options;
    let has_host_addresses =
        plan.hosts.iter().flat_map(|host| &host.attachments).all(|a| !a.address.is_unspecified());
    let overlaps = plan.vlans.windows(2).any(|pair| pair[0].subnet == pair[1].subnet);
    let count: usize = plan.hosts.iter().map(|host| host.attachments.len()).sum();
    let last = plan.attachments().map(|own| own.address_number).max().unwrap_or(0);
    let has_room = plan.vlans.iter().all(|vlan| vlan.subnet.host_address(last).is_some());
    let fails = |key: &str, subnet: Subnet, what: String| {
        let remedy = format!("in [plan], give `{key}` a larger subnet");
        check("addresses", Status::Fails, format!("{subnet} has no room for {what}"), Some(remedy))
    };
    if !has_host_addresses {
        return fails("host_subnet", options.host_subnet, format!("{} hosts", plan.hosts.len()));
    }
    if overlaps || !has_room {
        return fails(
            "vlan_subnet",
            options.vlan_subnet,
            format!("{count} interfaces on {} VLANs", plan.vlans.len()),
        );
    }
    let vlans = match (plan.vlans.first(), plan.vlans.last()) {
        (Some(first), Some(last)) => format!("{} to {}", first.subnet, last.subnet),
        _ => "none".into(),
    };
    check("addresses", Status::Holds, format!("hosts in {}, VLANs in {vlans}", options.host_subnet), None)
}

fn pause_check(machine: &Machine) -> Check {
    let ids = (0..machine.switches.len() as u32).map(crate::graph::SwitchId);
    let deaf = ids.map(|id| machine.switch_model(id)).find(|model| !model.pause);
    match (machine.options.pause, deaf) {
        (true, Some(model)) => {
            let why = capabilities_of(&model.dialect).map_or("", |able| able.without_pause);
            let why = if why.is_empty() { "sends no pause frames, as described" } else { why };
            let detail = format!("{}: {why}; what it cannot hold is lost", model.name);
            check("pause", Status::Warning, detail, Some("expect TCP to repeat frames under load".into()))
        }
        (true, None) => check("pause", Status::Holds, "on at every port: no frame is dropped".into(), None),
        (false, _) => check("pause", Status::Holds, "off, as asked: full buffers drop frames".into(), None),
    }
}

/// Hosts on one VLAN have to take each other's longest frames: nothing between them can say that one is too
/// long.
fn mtu_check(plan: &Plan) -> Check {
    let all = || plan.hosts.iter().flat_map(|host| host.attachments.iter().map(move |a| (host, a)));
    let shortest = all().min_by_key(|(_, attachment)| attachment.mtu_bytes);
    match shortest {
        Some((host, short)) if short.mtu_bytes < plan.mtu_bytes => {
            let detail = format!(
                "{} {} takes frames of {} bytes, others send {}: only TCP avoids longer ones",
                host.name, short.interface, short.mtu_bytes, plan.mtu_bytes
            );
            check("mtu", Status::Warning, detail, Some("give all NICs one `mtu_bytes`".into()))
        }
        _ => check("mtu", Status::Holds, format!("{} bytes at every host and switch", plan.mtu_bytes), None),
    }
}

/// Broadcasts take turns that routes do not take: they are judged beside them, and what they put on a link
/// is said.
fn broadcast_check(machine: &Machine, plan: &Plan) -> Check {
    let Priming { link_frames_max: frames, at_once_frames_max: at_once, gap_ms, .. } = plan.priming;
    let bytes = at_once * broadcast::PRIMING_FRAME_BYTES;
    let load = format!(
        "priming puts {frames} frames of {} bytes on a link at most, {at_once} ({bytes} bytes) at once, \
        {gap_ms} ms \
         apart",
        broadcast::PRIMING_FRAME_BYTES
    );
    if !machine.options.pause {
        return check("broadcasts", Status::Holds, format!("without pause nothing waits; {load}"), None);
    }
    let turns = broadcast::turns(plan);
    let is_asking = !broadcast::has_static_neighbours(plan);
    if !turns.arp_cycle.is_empty() && is_asking {
        let count = turns.arp_cycle.len();
        let detail = format!("ARP requests close a cycle of {count} links under load; {load}");
        let remedy = match plan.tagging {
            Tagging::Host => {
                "give every host its `macs`: scripts then name all neighbours, and no host sends ARP requests"
            }
            Tagging::Switch => "another `routing`, such as \"up-down\"",
        };
        return check("broadcasts", Status::Warning, detail, Some(remedy.into()));
    }
    if turns.priming_cycle.is_empty() {
        let detail = format!("with ARP and priming no cycle either; {load}");
        return check("broadcasts", Status::Holds, detail, None);
    }
    let ids = (0..machine.switches.len() as u32).map(SwitchId);
    let threshold = ids.filter_map(|id| machine.switch_model(id).pause_on_bytes).min();
    let alone = match threshold {
        Some(threshold) if bytes < threshold => {
            format!("alone it stays below the pause threshold, {threshold} bytes")
        }
        Some(threshold) => format!("it can pass the pause threshold, {threshold} bytes, by itself"),
        None => "the description gives no pause threshold (`pause_on_bytes`)".into(),
    };
    let detail = format!(
        "ARP closes no cycle, priming one of {} links where they are full already; {load}: {alone}",
        turns.priming_cycle.len()
    );
    check(
        "broadcasts",
        Status::Warning,
        detail,
        Some("prime while the network is not under full load".into()),
    )
}

fn loss_check(machine: &Machine, network: &Network, failures: &[Failure]) -> Check {
    let words: Vec<String> = failures.iter().map(|&failure| failure.name(machine)).collect();
    let lost: Vec<&str> = machine
        .hosts
        .iter()
        .enumerate()
        .filter(|(_, host)| host.attachments.iter().all(|link| network.weight(link.switch.0) == 0))
        .map(|(index, _)| machine.graph.name(HostId(index as u32).into()))
        .collect();
    let detail = match lost.as_slice() {
        [] => format!("without {}: every host is still reached", words.join(", ")),
        lost => format!("without {}: {} hosts are cut off, {} first", words.join(", "), lost.len(), lost[0]),
    };
    let status = if lost.is_empty() { Status::Holds } else { Status::Warning };
    check("reach", status, detail, None)
}
