//! `ayatori plan`: from a machine description to a plan, its verdicts and the files that configure it.

mod check;
mod design;
mod files;
mod netbox;
mod prime;
mod repairs;
mod report;
mod show;
mod tasks;
mod traffic;
mod watch;
mod written;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{LinkId, Node, SwitchId};
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{Degraded, Failure, InUse, failures, plan_from, plan_without, single_failures};

use crate::exit::{Exit, FAILURE};

pub(crate) use written::plan_of;

use traffic::Traffic;

/// Plans the VLANs of a cluster of layer-2 switches: routes, verdicts, switch and host configuration.
///
/// Prints a summary. The exit code is 0 if every check holds, 1 if one fails.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Option<tasks::Task>,
    /// The machine description, such as machines/supernova.toml (docs/machine-file.md)
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Write each switch's and host's configuration into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the configuration even if a check fails
    #[arg(long, requires = "out")]
    force: bool,
    /// Remove the files that an earlier plan left in the folder and this one does not have
    #[arg(long, requires = "out")]
    prune: bool,
    /// Print the plan as JSON instead of the summary
    #[arg(long)]
    json: bool,
    /// Continue the plan in use: its plan.json, or the folder that --out wrote. Identifiers, trees,
    /// addresses and numbers of LAGs stay where they can
    #[arg(long, value_name = "OLD", conflicts_with_all = ["without_link", "without_switch", "failures"])]
    from: Option<PathBuf>,
    /// Plan as if this link between two switches were gone; for all links between them
    #[arg(long, value_name = "SWITCH,SWITCH")]
    without_link: Vec<String>,
    /// Plan as if this switch were gone
    #[arg(long, value_name = "SWITCH")]
    without_switch: Vec<String>,
    /// Choose routes for this traffic: lines of FROM TO BYTES, or .csv, or .json (docs/plan.md). With
    /// --from: only its loads
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
    /// Plan anew for every single link and switch that may fail, and say what degrades
    #[arg(long)]
    failures: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if let Some(task) = &args.task {
        return task.run();
    }
    let machine = Machine::load(args.file.as_deref().context("no machine description")?)?;
    let lost = lost(&machine, &args)?;
    let plan = match &args.from {
        Some(old) => continued(&machine, old)?,
        None => plan_without(&machine, &lost)?,
    };
    let (plan, traffic) = match &args.traffic {
        None => (plan, None),
        // A continued plan keeps its routes.
        Some(file) if args.from.is_some() => {
            let traffic = Traffic::read(&plan, file)?;
            (plan, Some(traffic))
        }
        Some(file) => {
            let (plan, traffic) = Traffic::planned(&machine, &lost, plan, file)?;
            (plan, Some(traffic))
        }
    };
    let degraded = if args.failures { Some(every_failure(&machine, &plan)?) } else { None };
    if args.json {
        print_json(&plan, traffic.as_ref(), degraded.as_deref())?;
    } else {
        report::print(&report::summary(&machine, &plan))?;
        if let Some(traffic) = &traffic {
            report::print(&traffic.describe(&plan))?;
        }
        if let Some(degraded) = &degraded {
            report::print(&report::failures(degraded))?;
        }
    }
    let is_good = plan.verdicts.are_good();
    if let Some(folder) = &args.out {
        if !is_good && !args.force {
            bail!(
                "a check fails, so nothing was written into {}: see above, or use --force",
                folder.display()
            );
        }
        tell_written(&files::write(&plan, folder, args.prune)?, folder, args.prune);
    }
    Ok(if is_good { Exit::Success } else { Exit::Code(FAILURE) })
}

/// The plan of the machine as it is now, from the one in use.
fn continued(machine: &Machine, old: &Path) -> anyhow::Result<Plan> {
    let (file, text) = written::read(old)?;
    let in_use = InUse::parse(&text).with_context(|| file)?;
    let plan = plan_from(machine, &in_use)?;
    if !plan.is_repaired {
        eprintln!("planned anew: the plan in use cannot be continued, or would be much busier or not safe");
    }
    Ok(plan)
}

/// Left-over files listed before the rest is only counted.
const LEFT_OVER_LISTED_MAX: usize = 20;

fn tell_written(written: &files::Written, folder: &Path, prune: bool) {
    eprintln!("{} files in {}", written.count, folder.display());
    let names = &written.left_over;
    if names.is_empty() {
        return;
    }
    let listed = names.iter().take(LEFT_OVER_LISTED_MAX).map(String::as_str).collect::<Vec<_>>().join(" ");
    let more = names.len().saturating_sub(LEFT_OVER_LISTED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    if prune {
        eprintln!("removed, of an earlier plan: {listed}{more}");
    } else {
        eprintln!(
            "of an earlier plan, not of this one: {listed}{more}; do not apply them, --prune removes them"
        );
    }
}

/// The plan as JSON; with a traffic, its loads under `traffic`; what failures do under `failures`.
fn print_json(plan: &Plan, traffic: Option<&Traffic>, degraded: Option<&[Degraded]>) -> anyhow::Result<()> {
    let mut value = serde_json::to_value(plan)?;
    if let Some(traffic) = traffic {
        value["traffic"] = serde_json::to_value(traffic)?;
    }
    if let Some(degraded) = degraded {
        value["failures"] = serde_json::to_value(degraded)?;
    }
    serde_json::to_writer_pretty(std::io::stdout().lock(), &value).map_err(std::io::Error::from)?;
    report::print("\n")?;
    Ok(())
}

fn every_failure(machine: &Machine, plan: &Plan) -> anyhow::Result<Vec<Degraded>> {
    failures(machine, plan, &single_failures(machine)).context("planning anew after a failure")
}

/// The failures that `--without-link` and `--without-switch` name.
fn lost(machine: &Machine, args: &Args) -> anyhow::Result<Vec<Failure>> {
    let mut lost = Vec::new();
    for name in &args.without_switch {
        lost.push(Failure::Switch(switch_named(machine, name)?));
    }
    for pair in &args.without_link {
        let Some((a, b)) = pair.split_once(',') else {
            bail!("--without-link {pair}: name two switches, as in s0.0,s1.0");
        };
        let ends = [switch_named(machine, a)?, switch_named(machine, b)?].map(Node::Switch);
        let between = |id: &LinkId| {
            let [a, b] = machine.graph.link(*id).ends.map(|end| end.node);
            [a, b] == ends || [b, a] == ends
        };
        let links: Vec<LinkId> =
            (0..machine.switch_link_count() as u32).map(LinkId).filter(between).collect();
        if links.is_empty() {
            bail!("--without-link {pair}: there is no link between these switches");
        }
        lost.extend(links.into_iter().map(Failure::Link));
    }
    Ok(lost)
}

fn switch_named(machine: &Machine, name: &str) -> anyhow::Result<SwitchId> {
    let found = machine.graph.switches().find(|&id| machine.graph.name(id.into()) == name);
    found.with_context(|| {
        let first = machine.graph.name(SwitchId(0).into());
        format!("the machine has no switch {name:?}; its first is {first:?}")
    })
}
