//! `ayatori plan repairs`: what to apply when a link or a switch fails, computed before it does.
//!
//! A folder a failure: the files that differ from those in use, the whole `plan.json` of the repair, and
//! `order`, the switches in the order in which they are to take it. Where the switches alone do not bring the
//! busiest link near to the least that any routes have, the folder `more-vlans` has what does, which changes
//! the scripts of hosts, too. Beside the folders stands the `plan.json` that they repair.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use ayatori_fabric::description::Machine;
use ayatori_fabric::dialect::ConfigFile;
use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{
    Failure, InUse, REPAIR_OVER_LEAST_MAX, Reach, repaired_from, single_failures, written,
};
use ayatori_fabric::watch::{absent, ordered_repair, safe_order};

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
    /// Files that differ.
    files: Vec<ConfigFile>,
    /// The switches in the order to apply them, if there is one without a loop in between.
    order: Option<Vec<SwitchId>>,
}

/// Folder of a repair with more VLANs, in the failure's.
pub(super) const MORE_VLANS: &str = "more-vlans";

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
    /// The rest cannot be planned, or a switch cannot be configured so.
    pub(super) fn repair(&self, failures: &[Failure]) -> anyhow::Result<Repair> {
        let repair = ordered_repair(&self.machine, &self.plan, &self.in_use, failures)?;
        let files = self.changed(&repair.plan)?;
        Ok(Repair { plan: repair.plan, files, order: repair.order })
    }

    /// A plan that may change hosts, too, where `repair` is busier than it should be and it is less so.
    pub(super) fn less_busy_with_more_vlans(&self, failures: &[Failure], repair: &Plan) -> Option<Plan> {
        if repair.figures.load_over_least() <= REPAIR_OVER_LEAST_MAX {
            return None;
        }
        // Where that cannot be configured, there is the other one.
        let plan = repaired_from(&self.machine, &self.in_use, failures, Reach::Vlans).ok()?;
        let is_less_busy = plan.figures.load_over_least() < repair.figures.load_over_least();
        (is_less_busy && plan.verdicts.are_good()).then_some(plan)
    }

    fn repair_with_more_vlans(
        &self,
        failures: &[Failure],
        repair: &Repair,
    ) -> anyhow::Result<Option<Repair>> {
        let Some(plan) = self.less_busy_with_more_vlans(failures, &repair.plan) else { return Ok(None) };
        let order = safe_order(&self.plan, &plan, &absent(failures));
        Ok(Some(Repair { files: self.changed(&plan)?, plan, order }))
    }

    fn changed(&self, plan: &Plan) -> anyhow::Result<Vec<ConfigFile>> {
        let mut files = files::all(plan)?;
        files.retain(|file| self.files.get(&file.name) != Some(&file.text));
        Ok(files)
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
    let failures = single_failures(&whole.machine);
    let mut lines = String::new();
    for repaired in on_all_cores(&failures, |&failure| write_repairs(&whole, failure, &args.out)) {
        lines += &repaired?;
    }
    let plan_json = ConfigFile { name: "plan.json".into(), text: whole.text.clone(), executable: false };
    files::write_file(&args.out, &plan_json)?;
    super::report::print(&lines)?;
    Ok(Exit::Success)
}

/// Writes the folder of one failure; its lines.
fn write_repairs(whole: &Whole, failure: Failure, out: &Path) -> anyhow::Result<String> {
    let repair = whole.repair(&[failure]).with_context(|| format!("without {}", whole.name(failure)))?;
    let folder = out.join(whole.folder(failure));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    write_repair(whole, &repair, &folder)?;
    let mut lines = line(whole, failure, &repair);
    if let Some(more) = whole.repair_with_more_vlans(&[failure], &repair)? {
        write_repair(whole, &more, &folder.join(MORE_VLANS))?;
        lines += &format!("    {MORE_VLANS}: {}\n", described(whole, &more));
    }
    Ok(lines)
}

/// Applies `make` to each; results are in their order.
fn on_all_cores<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let own = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let own = numbers.map_while(|number| Some((number, make(items.get(number)?))));
        own.collect::<Vec<_>>()
    };
    let core_count = std::thread::available_parallelism().map_or(1, usize::from);
    let mut made: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..core_count.min(items.len())).map(|_| scope.spawn(own)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no repair panics")).collect()
    });
    made.sort_by_key(|&(number, _)| number);
    made.into_iter().map(|(_, result)| result).collect()
}

fn write_repair(whole: &Whole, repair: &Repair, folder: &Path) -> anyhow::Result<()> {
    for file in &repair.files {
        files::write_file(folder, file)?;
    }
    let text = repair.order.as_ref().map_or_else(
        || "# none found: unplug the cables that close loops first\n".to_owned(),
        |order| order.iter().map(|&switch| format!("{}\n", whole.plan.switch(switch).name)).collect(),
    );
    files::write_file(folder, &ConfigFile { name: "order".into(), text, executable: false })
}

fn line(whole: &Whole, failure: Failure, repair: &Repair) -> String {
    format!("{}: {}\n", whole.name(failure), described(whole, repair))
}

/// The changes, and the load of the busiest link after them.
fn described(whole: &Whole, repair: &Repair) -> String {
    let before = whole.plan.figures.link_load_max.max(1) as f64;
    let ratio = repair.plan.figures.link_load_max as f64 / before;
    let over_least = repair.plan.figures.load_over_least();
    let how = match &repair.order {
        Some(order) if order.is_empty() => "nothing to change".to_owned(),
        Some(order) => {
            let names: Vec<&str> =
                order.iter().map(|&switch| whole.plan.switch(switch).name.as_str()).collect();
            names.join(" ")
        }
        None => "no order of switches without a loop in between".to_owned(),
    };
    let hosts = changed_hosts(&repair.files).len();
    let hosts = if hosts > 0 { format!("; scripts of {hosts} hosts") } else { String::new() };
    let deadlock = if repair.plan.verdicts.deadlock.is_free() { "" } else { "; can deadlock" };
    let load = format!("busiest link {ratio:.2} times, {over_least:.2} times the least of what is left");
    format!("{how}{hosts}; {load}{deadlock}")
}
