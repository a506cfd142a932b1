//! Routes for a traffic that is known: what is made small is the time of the link that takes longest for
//! its share
//! of it, not the flows of a link when every host sends as much to every other.

use crate::analysis::{Flow, LinkLoads};
use crate::description::{DescriptionError, Grouping, Machine, Routing, SearchEffort};
use crate::plan::{Plan, Tagging};

use super::assign::assign;
use super::choose::for_traffic;
use super::network::{Failure, Network, Traffic};
use super::planner::{starts_of, tagging, vlans_max};

/// Bytes are scaled to at most this many together, so that sums of them are exact.
const BYTES_MAX: u64 = 1 << 50;

/// Result of [`plan_for_traffic`].
#[derive(Debug, Clone)]
pub struct ForTraffic {
    /// The plan for the traffic, or the one given if that is as good.
    pub plan: Plan,
    /// Whether it is another than the one given.
    pub is_other: bool,
    /// Lower bound for all routes of this traffic: the time of the slowest link, s. `None` if routes are not
    /// chosen.
    pub least_s: Option<f64>,
}

/// Plans a machine for a traffic: `plan` is what [`super::plan_without`] gave for the same failures. Routes
/// are chosen
/// where the planner chooses them: with `routing = "auto"`, `vlans = "balanced"`, and switches that tag.
///
/// # Errors
/// As [`super::plan`].
pub fn plan_for_traffic(
    machine: &Machine,
    failures: &[Failure],
    plan: Plan,
    flows: &[Flow],
) -> Result<ForTraffic, DescriptionError> {
    let options = &machine.options;
    let may_choose = options.grouping == Grouping::Balanced
        && options.routing == Routing::Auto
        && tagging(machine) == Tagging::Switch
        // A failure does not change the configuration of MSTP.
        && (plan.mstp.is_none() || failures.is_empty());
    let kept = |plan, least_s| Ok(ForTraffic { plan, is_other: false, least_s });
    if !may_choose {
        return kept(plan, None);
    }
    let network = Network::of(machine, failures);
    let (traffic, scale) = traffic(&plan, &network, flows);
    let network_of_traffic = network.with_traffic(traffic);
    let starts = starts_of(machine, &network);
    let is_thorough = options.search == SearchEffort::Full;
    let (found, least) = for_traffic(&network_of_traffic, &starts, options, vlans_max(machine), is_thorough);
    // A byte takes eight bits.
    let least_s = Some(least * scale as f64 * 8.0);
    let Some(chosen) = found else { return kept(plan, least_s) };
    let other = assign(machine, &network, &chosen, failures, None)?;
    let time_s = |plan: &Plan| {
        let loads = LinkLoads::of(plan, flows.iter().copied()).ok()?;
        Some(loads.bottleneck.map_or(0.0, |(.., time_s)| time_s))
    };
    match (time_s(&other), time_s(&plan)) {
        (Some(new), Some(old)) if new < old && other.verdicts.are_good() => {
            Ok(ForTraffic { plan: other, is_other: true, least_s })
        }
        _ => kept(plan, least_s),
    }
}

/// The traffic by switches and their host interfaces, and how many bytes one of its units is.
fn traffic(plan: &Plan, network: &Network, flows: &[Flow]) -> (Traffic, u64) {
    let total = flows.iter().fold(0_u64, |sum, flow| sum.saturating_add(flow.2));
    let scale = total.div_ceil(BYTES_MAX).max(1);
    // Where each host's first interface stands among those of its switch.
    let mut counts = vec![0; network.switch_count()];
    let mut places = Vec::with_capacity(plan.hosts.len());
    for host in &plan.hosts {
        let mut first = None;
        for own in &host.attachments {
            let count = &mut counts[own.switch.index()];
            first = first.or(Some((own.switch, *count)));
            *count += 1;
        }
        places.push(first);
    }
    let mut traffic: Traffic = counts.iter().map(|&count| vec![Vec::new(); count]).collect();
    for &(from, to, bytes) in flows {
        let (Some((switch, place)), Some((target, _))) = (places[from.index()], places[to.index()]) else {
            continue;
        };
        if switch != target {
            traffic[switch.index()][place].push((target.0, bytes.div_ceil(scale)));
        }
    }
    (traffic, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vlan::plan;

    /// Four switches, each cabled to each, with four hosts each.
    fn machine(options: &str) -> Machine {
        Machine::parse("t.toml", &machine_text(options)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn machine_text(options: &str) -> String {
        format!(
            "name = \"t\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n\
             dialect = \"comware\"\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\nkind = \"complete\"\nswitches = 4\n\
             switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 4\n[plan]\n{options}\n"
        )
    }

    /// All hosts of one switch send to all of another, and no other host sends.
    fn from_one_to_another(plan: &Plan) -> Vec<Flow> {
        let at = |switch: usize| {
            let own = plan.hosts.iter().filter(move |host| host.attachments[0].switch.index() == switch);
            own.map(|host| host.id).collect::<Vec<_>>()
        };
        let [from, to] = [at(0), at(1)];
        from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b, 1_000_000_u64))).collect()
    }

    fn time_s(plan: &Plan, flows: &[Flow]) -> f64 {
        LinkLoads::of(plan, flows.iter().copied()).unwrap().bottleneck.map_or(0.0, |(.., time_s)| time_s)
    }

    #[test]
    fn skewed_traffic_takes_more_ways_than_the_direct_one() {
        let machine = machine("");
        let before = plan(&machine).unwrap();
        let flows = from_one_to_another(&before);
        let given = plan_for_traffic(&machine, &[], before.clone(), &flows).unwrap();
        assert!(given.is_other && given.plan.verdicts.are_good(), "{:?}", given.plan.verdicts.checks);
        let [new, old] = [&given.plan, &before].map(|plan| time_s(plan, &flows));
        let least_s = given.least_s.unwrap();
        println!("{new} s, {old} s before, at least {least_s} s");
        // 16 flows of 8 Mbit: all on the direct link, of four hosts two, and spread over the three ways.
        let flow_s = 8e6 / 1e9;
        assert!((old - 16.0 * flow_s).abs() < 1e-9, "{old} s");
        assert!((new - 8.0 * flow_s).abs() < 1e-9, "{new} s");
        assert!((least_s - 16.0 / 3.0 * flow_s).abs() < 0.1 * flow_s, "{least_s} s");
    }

    #[test]
    fn routes_that_were_asked_for_stay() {
        let machine = machine("routing = \"up-down\"");
        let before = plan(&machine).unwrap();
        let flows = from_one_to_another(&before);
        let given = plan_for_traffic(&machine, &[], before.clone(), &flows).unwrap();
        assert!(!given.is_other && given.least_s.is_none());
        let [now, then] = [&given.plan, &before].map(|plan| serde_json::to_value(plan).unwrap());
        assert_eq!(now, then);
    }

    #[test]
    fn bytes_are_scaled_to_sums_that_are_exact() {
        let machine = machine("");
        let plan = plan(&machine).unwrap();
        let network = Network::of(&machine, &[]);
        let [from, to] = [plan.hosts[1].id, plan.hosts[4].id];
        let scaled = |bytes: u64| {
            let (traffic, scale) = traffic(&plan, &network, &[(from, to, bytes)]);
            (traffic[0][1].clone(), scale)
        };
        assert_eq!(scaled(0), (vec![(1, 0)], 1));
        assert_eq!(scaled(BYTES_MAX), (vec![(1, BYTES_MAX)], 1));
        assert_eq!(scaled(BYTES_MAX + 1), (vec![(1, BYTES_MAX / 2 + 1)], 2));
        assert_eq!(scaled(u64::MAX).1, 1 << 14);
    }

    #[test]
    fn without_pause_the_routes_of_a_traffic_may_wait_in_a_cycle() {
        for options in ["pause = false", "pause = true", "pause = false\nsearch = \"full\""] {
            let machine = machine(options);
            let before = plan(&machine).unwrap();
            let flows = from_one_to_another(&before);
            let given = plan_for_traffic(&machine, &[], before.clone(), &flows).unwrap();
            assert!(given.is_other && time_s(&given.plan, &flows) < time_s(&before, &flows), "{options}");
        }
    }

    #[test]
    fn a_failure_changes_no_mstp_for_a_traffic() {
        let machine = machine("spanning_tree = \"mstp\"");
        let failures = [Failure::Link(crate::graph::LinkId(2))];
        for (failures, may_choose) in [(&[][..], true), (&failures[..], false)] {
            let before = crate::vlan::plan_without(&machine, failures).unwrap();
            let flows = from_one_to_another(&before);
            let given = plan_for_traffic(&machine, failures, before, &flows).unwrap();
            assert_eq!(given.least_s.is_some(), may_choose);
            assert!(may_choose || !given.is_other);
        }
    }

    /// All hosts of each switch send to all of the next one.
    fn from_each_to_the_next(plan: &Plan) -> Vec<Flow> {
        let place = |host: &&crate::plan::HostPlan| host.attachments[0].switch.index();
        let to_next = |a: &&crate::plan::HostPlan, b: &&crate::plan::HostPlan| (place(a) + 1) % 4 == place(b);
        let pairs = plan.hosts.iter().flat_map(|a| plan.hosts.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| to_next(a, b)).map(|(a, b)| (a.id, b.id, 1_000_000)).collect()
    }

    #[test]
    fn routes_of_a_traffic_keep_to_vlans_and_wait_if_they_may() {
        let mut waiting_count = 0;
        for (vlans_max, pause) in (4..=16).flat_map(|max| [(max, true), (max, false)]) {
            let text = machine_text(&format!("pause = {pause}"));
            let model = format!("[switch_models.s]\nvlans_max = {vlans_max}\n");
            let machine = Machine::parse("t.toml", &text.replace("[switch_models.s]\n", &model)).unwrap();
            let before = plan(&machine).unwrap();
            for flows in [from_one_to_another(&before), from_each_to_the_next(&before)] {
                let given = plan_for_traffic(&machine, &[], before.clone(), &flows).unwrap();
                assert!(given.plan.vlans.len() <= vlans_max && given.plan.verdicts.are_good());
                assert!(time_s(&given.plan, &flows) <= time_s(&before, &flows));
                waiting_count += u32::from(given.is_other && !given.plan.verdicts.deadlock.is_free());
                assert!(!pause || given.plan.verdicts.deadlock.is_free());
            }
        }
        assert!(waiting_count > 0);
    }
}
