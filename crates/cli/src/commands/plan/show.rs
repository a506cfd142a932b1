//! `ayatori plan show`: the plan as a page to look at.

use super::traffic::Traffic;
use crate::exit::Exit;
use anyhow::Context;
use ayatori_fabric::description::Machine;
use ayatori_fabric::page::{self, Extras, Repair};
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{InUse, elected, plan_without, single_failures};
use ayatori_fabric::watch::ordered_repair;
use std::io::Write;
use std::path::PathBuf;

/// What `ayatori plan show` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The machine description
    file: PathBuf,
    /// The plan as it was written: its plan.json, or the folder that --out wrote. Needed where the plan
    /// was continued
    /// with --from, or made without a link or switch [default: the machine planned anew]
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Write the page here; it needs nothing else to be opened in a browser
    #[arg(long, value_name = "OUT")]
    html: PathBuf,
    /// Show the bytes that this traffic puts on the links, instead of one flow from each host to each other
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
    /// Show repairs, too: what to change when a link or a switch fails, for each of them; with MSTP, the
    /// trees that it elects then
    #[arg(long)]
    failures: bool,
}

/// Writes the page.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let machine = Machine::load(&args.file)?;
    let plan = super::plan_of(&machine, args.plan.as_deref())?;
    let traffic = args.traffic.as_deref().map(|file| Traffic::read(&plan, file)).transpose()?;
    let traffic = traffic.as_ref().map(|traffic| (traffic.file(), traffic.loads()));
    let repairs = if args.failures { repairs(&machine, &plan)? } else { Vec::new() };
    let page = page::html(&plan, &machine, &Extras { traffic, repairs: &repairs });
    std::fs::write(&args.html, page).with_context(|| format!("cannot write {}", args.html.display()))?;
    writeln!(std::io::stdout(), "{}", args.html.display())?;
    Ok(Exit::Success)
}

/// Repairs of every single link and switch. With MSTP nothing is configured again.
fn repairs(machine: &Machine, plan: &Plan) -> anyhow::Result<Vec<Repair>> {
    if plan.mstp.is_some() {
        let all = single_failures(machine).into_iter().map(|failure| {
            let elected = elected(machine, plan, &[failure]);
            let plan = elected.map_or_else(|| plan_without(machine, &[failure]), Ok)?;
            Ok(Repair { failure, plan, order: Some(Vec::new()) })
        });
        return all.collect();
    }
    let in_use = InUse::of(plan).context("--failures: the plan")?;
    let all = single_failures(machine).into_iter().map(|failure| {
        let repair = ordered_repair(machine, plan, &in_use, &[failure])?;
        Ok(Repair { failure, plan: repair.plan, order: repair.order })
    });
    all.collect()
}
