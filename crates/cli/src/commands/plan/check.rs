//! `ayatori plan check`: does the network stand as planned?

use crate::exit::Exit;
use anyhow::{Context, bail};
use ayatori_fabric::check;
use ayatori_fabric::description::Machine;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// What `ayatori plan check` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "DIR holds, for each switch NAME: NAME.vlan.json (bridge -j vlan show) of a Linux bridge, and beside it \
    NAME.link.json (ip -j -d link show) and NAME.fdb.json (bridge -j fdb show), or the folder NAME of systemd-networkd's \
    files; NAME.config_db.json of SONiC; NAME.json of the json dialect; NAME.cfg, .conf or .txt (the running \
    configuration) of all others. NAME.lldp.json (lldpcli -f json show neighbors) or \
    NAME.lldp.txt (show lldp neighbors): cables are compared, too.\n\
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
}

/// Prints a line for each difference.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let machine = Machine::load(&args.file)?;
    let plan = super::plan_of(&machine, args.plan.as_deref())?;
    if !args.from.is_dir() {
        bail!(
            "{} is not a folder; collect the switches' state into one (--help says how)",
            args.from.display()
        );
    }
    let mut observed = BTreeMap::new();
    let mut unread = BTreeMap::new();
    for switch in &plan.switches {
        match check::read(&args.from, switch) {
            Ok(Some(state)) => _ = observed.insert(switch.name.clone(), state),
            Ok(None) => {}
            // The others are compared nevertheless.
            Err(error) => _ = unread.insert(switch.name.as_str(), error.to_string()),
        }
    }
    let mut heard = BTreeMap::new();
    let mut deaf = Vec::new();
    for switch in &plan.switches {
        match check::read_neighbours(&args.from, switch) {
            Ok(Some(shown)) => _ = heard.insert(switch.name.clone(), shown),
            Ok(None) => {}
            Err(error) => deaf.push(format!("{}: its neighbours cannot be read: {error}", switch.name)),
        }
    }
    if observed.is_empty() && unread.is_empty() && heard.is_empty() && deaf.is_empty() {
        let name = plan.switches.first().map_or("NAME", |switch| switch.name.as_str());
        return Err(anyhow::anyhow!("no file such as {name}.cfg or {name}.vlan.json")).with_context(|| {
            format!("{} has no state of any switch of {}", args.from.display(), plan.machine)
        });
    }
    // Neighbours alone are a check of the cabling, before anything is configured.
    let is_cabling = observed.is_empty() && unread.is_empty();
    let mut differences = if is_cabling { Vec::new() } else { check::compare(&plan, &observed) };
    for difference in &mut differences {
        if let Some(problem) = unread.get(difference.switch.as_str()) {
            difference.what = format!("its state cannot be read: {problem}");
        }
    }
    let cabled = check::compare_cables(&plan, &heard);
    let mut out = std::io::stdout().lock();
    let lines = differences.iter().chain(&cabled).map(ToString::to_string).chain(deaf.iter().cloned());
    for line in lines {
        writeln!(out, "{line}")?;
    }
    let cabled_count = cabled.len() + deaf.len();
    if differences.is_empty() && cabled_count == 0 {
        let cables = if heard.is_empty() { String::new() } else { format!(", cables of {}", heard.len()) };
        let (switches, vlans) = (plan.switches.len(), plan.vlans.len());
        if is_cabling {
            writeln!(out, "as planned: cables of {} of {switches} switches", heard.len())?;
        } else {
            writeln!(out, "as planned: {switches} switches, {vlans} VLANs{cables}")?;
        }
        return Ok(Exit::Success);
    }
    let count = differences.len() + cabled_count;
    let noun = if count == 1 { "difference" } else { "differences" };
    let remedy = match (differences.is_empty(), cabled_count) {
        (false, 0) => "apply the planned configuration again, then prime",
        (true, _) => "plug the cables as planned",
        (false, _) => "plug the cables as planned, apply the planned configuration again, then prime",
    };
    writeln!(out, "{count} {noun}; {remedy}")?;
    Ok(Exit::Code(1))
}
