//! A plan in words: what it is, what holds, what does not and what to do.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use ayatori_fabric::description::{Grouping, Machine, Routing, SearchEffort};
use ayatori_fabric::plan::{Plan, Status, Tagging};
use ayatori_fabric::vlan::Degraded;

use crate::style;

/// VLANs and switches listed before the rest is only counted.
const LISTED_MAX: usize = 32;

/// Writes to standard output; a reader that has gone is not our failure (`exit` knows).
pub(super) fn print(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}

/// The whole summary.
pub(super) fn summary(machine: &Machine, plan: &Plan) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = head(&mut text, machine, plan);
    let _ = figures(&mut text, machine, plan);
    let _ = vlans(&mut text, plan);
    let _ = checks(&mut text, plan);
    text
}

fn head(text: &mut String, machine: &Machine, plan: &Plan) -> std::fmt::Result {
    let about = if machine.about.is_empty() { String::new() } else { format!(": {}", machine.about) };
    writeln!(text, "{}{about}", plan.machine)?;
    let cables = plan.figures.cable_count;
    writeln!(
        text,
        "  {} switches, {} hosts, {} links between switches ({cables} cables)",
        plan.switches.len(),
        plan.hosts.len(),
        plan.links.len(),
    )?;
    let who = match plan.tagging {
        Tagging::Switch => "switches tag (hosts notice nothing)",
        Tagging::Host => "hosts tag (a switch port takes one untagged VLAN only, or it was asked for)",
    };
    let repaired = if plan.is_repaired { ", repaired" } else { "" };
    writeln!(text, "  {}{repaired}; {who}\n", plan.method)
}

fn figures(text: &mut String, machine: &Machine, plan: &Plan) -> std::fmt::Result {
    let figures = &plan.figures;
    let least = if figures.vlan_count_min < plan.vlans.len() {
        format!(" (with such paths at least {})", figures.vlan_count_min)
    } else {
        " (no fewer are possible with such paths)".into()
    };
    writeln!(text, "  VLANs               {}{least}", plan.vlans.len())?;
    writeln!(
        text,
        "  path                {} switches at most, {:.2} on average, {:.3} x shortest",
        figures.diameter_switches, figures.mean_switches, figures.stretch
    )?;
    let about = if figures.bisection.is_exact { "" } else { "at most " };
    writeln!(
        text,
        "  bisection           {about}{} Gbit/s over {} links; the routes use {:.1}",
        gigabits(figures.bisection.bits_per_s),
        figures.bisection.link_count,
        figures.bisection_routed_bits_per_s as f64 / 1e9
    )?;
    if let Some(busiest) = figures.busiest {
        let [from, to] = [busiest.from, busiest.to].map(|id| plan.switch(id).name.as_str());
        writeln!(
            text,
            "  load, all to all    {} flows on the busiest link ({from} -> {to}), {:.0} on average; no \
             routes have less than {:.0}; {} links idle",
            figures.link_load_max, figures.link_load_mean, figures.link_load_least, figures.idle_link_count
        )?;
        let is_far = figures.link_load_max as f64 > FAR_FROM_BOUND * figures.link_load_least;
        if is_far && may_search_further(machine, plan) {
            writeln!(
                text,
                "                      search = \"full\" in [plan] looks further, for up to half a minute"
            )?;
        }
    }
    if let Some(price) = figures.price {
        let per_cable = if figures.cable_count > 0 {
            format!(
                ", {:.2} Gbit/s of bisection a cable",
                figures.bisection.bits_per_s as f64 / 1e9 / figures.cable_count as f64
            )
        } else {
            String::new()
        };
        writeln!(text, "  cost                {price:.0}{per_cable}")?;
    }
    text.push('\n');
    Ok(())
}

/// From here on a longer search is worth its time.
const FAR_FROM_BOUND: f64 = 1.2;

fn may_search_further(machine: &Machine, plan: &Plan) -> bool {
    let options = &machine.options;
    options.search == SearchEffort::Quick
        && options.grouping == Grouping::Balanced
        && options.routing == Routing::Auto
        && plan.tagging == Tagging::Switch
}

fn gigabits(bits_per_s: u64) -> String {
    let gigabits = bits_per_s as f64 / 1e9;
    if gigabits.fract() == 0.0 { format!("{gigabits:.0}") } else { format!("{gigabits:.1}") }
}

fn vlans(text: &mut String, plan: &Plan) -> std::fmt::Result {
    writeln!(text, "  VLAN  links  addresses            hosts that send on it are at")?;
    for vlan in plan.vlans.iter().take(LISTED_MAX) {
        let mut names: Vec<&str> =
            vlan.sources.iter().take(8).map(|&id| plan.switch(id).name.as_str()).collect();
        let more = format!("and {} more", vlan.sources.len().saturating_sub(names.len()));
        if vlan.sources.len() > names.len() {
            names.push(&more);
        }
        writeln!(
            text,
            "  {:4}  {:5}  {:19}  {}",
            vlan.vid,
            vlan.tree.len(),
            vlan.subnet.to_string(),
            names.join(" ")
        )?;
    }
    if plan.vlans.len() > LISTED_MAX {
        writeln!(text, "  ... and {} VLANs more (--json has them all)", plan.vlans.len() - LISTED_MAX)?;
    }
    text.push('\n');
    Ok(())
}

fn checks(text: &mut String, plan: &Plan) -> std::fmt::Result {
    for check in &plan.verdicts.checks {
        let word = match check.status {
            Status::Holds => style::good("ok     "),
            Status::Warning => style::warning("warning"),
            Status::Fails => style::bad("FAILS  "),
        };
        writeln!(text, "  {word}  {:10}  {}", check.name, check.detail)?;
        // The alternative stands below, with its lines and figures.
        let is_below = check.name == "deadlock" && plan.verdicts.alternative.is_some();
        if let Some(remedy) = check.remedy.as_ref().filter(|_| !is_below) {
            writeln!(text, "                       to do: {remedy}")?;
        }
    }
    let cycle = &plan.verdicts.deadlock.cycle;
    if !cycle.is_empty() {
        writeln!(
            text,
            "\n  The cycle: each link's buffers wait for room on the next, the last's on the first's."
        )?;
        let name = |id| plan.switch(id).name.as_str();
        for step in cycle {
            writeln!(
                text,
                "    {} -> {}  (VLAN {}, from {} to {})",
                name(step.from),
                name(step.to),
                step.vid,
                name(step.source),
                name(step.destination)
            )?;
        }
    }
    if let Some(safe) = &plan.verdicts.alternative {
        writeln!(
            text,
            "\n  Free of deadlock, with these lines in [plan]:\n    {}\n    {} VLANs, paths {:.3} x shortest, {} flows on \
             the busiest link",
            safe.settings.join("\n    "),
            safe.vlan_count,
            safe.stretch,
            safe.link_load_max
        )?;
    }
    Ok(())
}

/// The effect of every single failure.
pub(super) fn failures(degraded: &[Degraded]) -> String {
    let mut text = String::from(
        "\n  If this fails                 hosts lost  VLANs  path  bisection  busiest link  deadlock  switches to \
         configure\n",
    );
    for case in degraded {
        let verdict = if case.is_deadlock_free { "free" } else { "CYCLE" };
        let _ = writeln!(
            text,
            "  {:30}{:10}  {:5}  {:4}  {:>9}  {:4.2} x {:6}  {verdict:8}  {:21}",
            case.failure,
            case.hosts_lost_count,
            case.vlan_count,
            case.diameter_switches,
            gigabits(case.bisection.bits_per_s),
            case.load_ratio,
            case.link_load_max,
            case.changed_switch_count
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alternative_is_printed_once() {
        let text = "name = \"ring\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                    nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"ring\"\nswitches = 6\n\
                    switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\nrouting = \"minimal\"\n";
        let machine = Machine::parse("ring.toml", text).expect("a machine");
        let plan = ayatori_fabric::vlan::plan(&machine).expect("a plan");
        let summary = summary(&machine, &plan);
        assert_eq!(summary.matches("no-wrap-transit").count(), 1, "{summary}");
    }
}
