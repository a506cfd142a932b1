//! `ayatori plan repairs`: what to apply when a link or a switch fails, computed before it does.
//!
//! A folder a failure: the files that differ from those in use, the whole `plan.json` of the repair, and
//! `order`, the switches in the order in which they are to take it. Beside the folders stands the `plan.json`
//! that they repair.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ayatori_fabric::description::Machine;
use ayatori_fabric::dialect::ConfigFile;
use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{Failure, InUse, repaired_from, single_failures, written};
use ayatori_fabric::watch::safe_order;

use super::files;
use super::written::read;
use crate::exit::Exit;

/// What `ayatori plan repairs` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The machine description
    file: PathBuf,
    /// The plan in use: its plan.json, or the folder that --out wrote
    #[arg(long, value_name = "PLAN")]
    plan: PathBuf,
    /// Write a folder for each failure into this one
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The plan in use, and what it is repaired from.
pub(super) struct Whole {
    pub(super) machine: Machine,
    pub(super) plan: Plan,
    /// The text of its `plan.json`.
    pub(super) text: String,
    in_use: InUse,
    /// Names and texts of its files.
    files: BTreeMap<String, String>,
}

/// The plan without something, and how it differs from the one in use.
pub(super) struct Repair {
    pub(super) plan: Plan,
    /// Files that differ, in the order to apply them.
    pub(super) files: Vec<ConfigFile>,
}

impl Whole {
    /// # Errors
    /// The machine or the plan cannot be read, do not fit together, hosts tag, or MSTP holds the trees.
    pub(super) fn load(machine: &Path, plan: &Path) -> anyhow::Result<Whole> {
        let machine = Machine::load(machine)?;
        let (file, text) = read(plan)?;
        let plan = written(&machine, &text).with_context(|| file.clone())?;
        if plan.mstp.is_some() {
            bail!("{file} is held by MSTP, which heals by itself: there is nothing to prepare or to watch");
        }
        let in_use = InUse::of(&plan).with_context(|| file)?;
        let files = files::all(&plan)?.into_iter().map(|file| (file.name, file.text)).collect();
        Ok(Whole { machine, plan, text, in_use, files })
    }

    /// The repair for what has failed.
    ///
    /// # Errors
    /// What is left cannot be planned, or a switch cannot be configured so.
    pub(super) fn repair(&self, failures: &[Failure]) -> anyhow::Result<Repair> {
        let plan = repaired_from(&self.machine, &self.in_use, failures)?;
        let mut files = files::all(&plan)?;
        files.retain(|file| self.files.get(&file.name) != Some(&file.text));
        Ok(Repair { plan, files })
    }

    /// `link s0.0 - s1.0`, or `link s0.0:22 - s1.0:21` where several links join the two.
    pub(super) fn name(&self, failure: Failure) -> String {
        match failure {
            Failure::Switch(switch) => format!("switch {}", self.plan.switch(switch).name),
            Failure::Link(link) => {
                let link = &self.plan.links[link.index()];
                let [a, b] = link.ends.each_ref().map(|end| {
                    format!(
                        "{}:{}",
                        self.plan.switch(end.switch).name,
                        end.ports.first().copied().unwrap_or(0)
                    )
                });
                format!("link {a} - {b}")
            }
        }
    }

    /// Name of a failure's folder.
    pub(super) fn folder(&self, failure: Failure) -> String {
        self.name(failure).replace(" - ", "--").replace([' ', ':'], "-")
    }
}

/// The switches that do not answer after these failures.
pub(super) fn absent(failures: &[Failure]) -> Vec<SwitchId> {
    let switches = failures.iter();
    switches
        .filter_map(|failure| match failure {
            Failure::Switch(switch) => Some(*switch),
            Failure::Link(_) => None,
        })
        .collect()
}

/// Names of the hosts whose scripts are among the files.
pub(super) fn changed_hosts(files: &[ConfigFile]) -> Vec<&str> {
    let names = files.iter().filter_map(|file| file.name.strip_prefix("hosts/")?.strip_suffix(".sh"));
    names.collect()
}

/// Writes all repairs, and says a line of each.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let whole = Whole::load(&args.file, &args.plan)?;
    let is_own = match (args.plan.canonicalize(), args.out.canonicalize()) {
        (Ok(plan), Ok(out)) => plan == out || plan == out.join("plan.json"),
        _ => false,
    };
    if is_own {
        bail!("{} is the plan's own folder; name another, such as one inside of it", args.out.display());
    }
    let mut lines = String::new();
    for failure in single_failures(&whole.machine) {
        let repair = whole.repair(&[failure]).with_context(|| format!("without {}", whole.name(failure)))?;
        let order = safe_order(&whole.plan, &repair.plan, &absent(&[failure]));
        let folder = args.out.join(whole.folder(failure));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        for file in &repair.files {
            files::write_file(&folder, file)?;
        }
        let names = order.map(|order| {
            let names = order.iter().map(|&switch| whole.plan.switch(switch).name.clone());
            names.collect::<Vec<String>>()
        });
        let text = names.as_ref().map_or_else(
            || "# none found: unplug the cables that close loops first\n".to_owned(),
            |names| names.iter().map(|name| format!("{name}\n")).collect(),
        );
        files::write_file(&folder, &ConfigFile { name: "order".into(), text, executable: false })?;
        lines += &line(&whole, failure, &repair, names.as_deref());
    }
    let plan_json = ConfigFile { name: "plan.json".into(), text: whole.text.clone(), executable: false };
    files::write_file(&args.out, &plan_json)?;
    super::report::print(&lines)?;
    Ok(Exit::Success)
}

fn line(whole: &Whole, failure: Failure, repair: &Repair, order: Option<&[String]>) -> String {
    let before = whole.plan.figures.link_load_max.max(1) as f64;
    let ratio = repair.plan.figures.link_load_max as f64 / before;
    let how = match order {
        Some([]) => "nothing to change".to_owned(),
        Some(names) => names.join(" "),
        None => "no order of switches without a loop in between".to_owned(),
    };
    let hosts = changed_hosts(&repair.files).len();
    let hosts = if hosts > 0 { format!("; scripts of {hosts} hosts") } else { String::new() };
    let deadlock = if repair.plan.verdicts.deadlock.is_free() { "" } else { "; can deadlock" };
    format!("{}: {how}{hosts}; busiest link {ratio:.2} times{deadlock}\n", whole.name(failure))
}
