//! `ayatori plan check`: does the network stand as planned?

use super::traffic::Traffic;
use crate::exit::{Exit, FAILURE};
use anyhow::{Context, bail};
use ayatori_fabric::check;
use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::{Plan, SwitchPlan};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What `ayatori plan check` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "DIR holds, for each switch NAME: NAME.vlan.json (bridge -j vlan show) of a Linux bridge, and beside it \
    NAME.link.json (ip -j -d link show) and NAME.fdb.json (bridge -j fdb show), or the folder NAME of systemd-networkd's \
    files; NAME.config_db.json of SONiC; NAME.json of the json dialect; NAME.cfg, .conf or .txt (the running \
    configuration) of all others. NAME.lldp.json (lldpcli -f json show neighbors) or \
    NAME.lldp.txt (show lldp neighbors): cables are compared, too. NAME.before.json and NAME.after.json \
    (ip -j -s link show), or .txt with lines of PORT BYTES: what links carried, beside the plan's loads.\n\
    Exit code: 0 as planned, 1 if something differs."
)]
pub(crate) struct Args {
    /// The machine description
    file: PathBuf,
    /// The plan as it was written: its plan.json, or the folder that --out wrote. Needed where the plan
    /// was continued
    /// with --from, or made without a link or switch [default: the machine planned anew]
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Folder with the collected state of the switches
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Traffic between the readings of counters: links that carried more or less are named, too
    /// (docs/plan.md)
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
}

/// Prints a line for each difference.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let machine = Machine::load(&args.file)?;
    let plan = super::plan_of(&machine, args.plan.as_deref())?;
    let traffic = args.traffic.as_deref().map(|file| Traffic::read(&plan, file)).transpose()?;
    if !args.from.is_dir() {
        bail!(
            "{} is not a folder; collect the switches' state into one (--help says how)",
            args.from.display()
        );
    }
    let parts = [settings(&plan, args), cables(&plan, args), loads(&plan, args, traffic.as_ref())];
    if parts.iter().all(|part| part.is_missing) {
        let name = plan.switches.first().map_or("NAME", |switch| switch.name.as_str());
        return Err(anyhow::anyhow!("no file such as {name}.cfg or {name}.vlan.json")).with_context(|| {
            format!("{} has no state of any switch of {}", args.from.display(), plan.machine)
        });
    }
    let mut out = std::io::stdout().lock();
    let found = || parts.iter().filter(|part| !part.is_missing);
    for line in found().flat_map(|part| part.told.iter().chain(&part.differences)) {
        writeln!(out, "{line}")?;
    }
    let count: usize = found().map(|part| part.differences.len()).sum();
    if count == 0 {
        let compared: Vec<&str> = found().map(|part| part.compared.as_str()).collect();
        writeln!(out, "as planned: {}", compared.join(", "))?;
        return Ok(Exit::Success);
    }
    let noun = if count == 1 { "difference" } else { "differences" };
    let remedies: Vec<&str> =
        found().filter(|part| !part.differences.is_empty()).map(|part| part.remedy).collect();
    writeln!(out, "{count} {noun}; {}", remedies.join("; "))?;
    Ok(Exit::Code(FAILURE))
}

/// Result of one kind of files.
struct Part {
    /// There is no such file.
    is_missing: bool,
    /// Lines that are always printed.
    told: Vec<String>,
    differences: Vec<String>,
    /// The remedy.
    remedy: &'static str,
    /// Description of the comparison.
    compared: String,
}

/// The state read of each switch, and the switches whose state could not be read.
fn read_all<T>(
    plan: &Plan,
    args: &Args,
    read: impl Fn(&Path, &SwitchPlan) -> Result<Option<T>, check::ReadError>,
) -> (BTreeMap<String, T>, BTreeMap<String, String>) {
    let (mut found, mut unread) = (BTreeMap::new(), BTreeMap::new());
    for switch in &plan.switches {
        match read(&args.from, switch) {
            Ok(Some(state)) => _ = found.insert(switch.name.clone(), state),
            Ok(None) => {}
            // The others are compared nevertheless.
            Err(error) => _ = unread.insert(switch.name.clone(), error.to_string()),
        }
    }
    (found, unread)
}

fn settings(plan: &Plan, args: &Args) -> Part {
    let (observed, unread) = read_all(plan, args, check::read);
    let is_missing = observed.is_empty() && unread.is_empty();
    let mut differences = if is_missing { Vec::new() } else { check::compare(plan, &observed) };
    for difference in &mut differences {
        if let Some(problem) = unread.get(&difference.switch) {
            difference.what = format!("its state cannot be read: {problem}");
        }
    }
    Part {
        is_missing,
        told: Vec::new(),
        differences: differences.iter().map(ToString::to_string).collect(),
        remedy: "apply the planned configuration again, then prime",
        compared: format!("{} switches, {} VLANs", plan.switches.len(), plan.vlans.len()),
    }
}

/// Neighbours alone are a check of the cabling, before anything is configured.
fn cables(plan: &Plan, args: &Args) -> Part {
    let (heard, unread) = read_all(plan, args, check::read_neighbours);
    let unread = unread.iter().map(|(name, why)| format!("{name}: its neighbours cannot be read: {why}"));
    let differences = check::compare_cables(plan, &heard);
    Part {
        is_missing: heard.is_empty() && unread.len() == 0,
        told: Vec::new(),
        differences: differences.iter().map(ToString::to_string).chain(unread).collect(),
        remedy: "plug the cables as planned",
        compared: format!("cables of {} of {} switches", heard.len(), plan.switches.len()),
    }
}

/// Links shown, the busiest first.
const LOADS_SHOWN_MAX: usize = 16;

fn loads(plan: &Plan, args: &Args, traffic: Option<&Traffic>) -> Part {
    let (sent, unread) = read_all(plan, args, check::read_sent);
    let unread = unread.iter().map(|(name, why)| format!("{name}: its counters cannot be read: {why}"));
    let planned = traffic.map_or(&plan.figures.channel_flows, |traffic| &traffic.loads().channel_bytes);
    let mut loads = check::measured_loads(plan, planned, &sent);
    let differences = check::compare_loads(plan, &loads, traffic.is_some());
    loads.sort_by_key(|load| std::cmp::Reverse(load.sent_bytes));
    let told = loads.iter().take(LOADS_SHOWN_MAX).map(|load| {
        let [from, to] = [load.from, load.to].map(|switch| plan.switch(switch).name.as_str());
        let [measured, planned] = [load.measured_share, load.planned_share].map(|share| share * 100.0);
        format!("{from} -> {to}: {} bytes, {measured:.1} % of all, planned {planned:.1} %", load.sent_bytes)
    });
    Part {
        is_missing: sent.is_empty() && unread.len() == 0,
        told: told.collect(),
        differences: differences.iter().map(ToString::to_string).chain(unread).collect(),
        remedy: "see what sends there, and whether VLANs are as planned",
        compared: format!("counters of {} of {} switches", sent.len(), plan.switches.len()),
    }
}
