//! `ayatori plan netbox`: a plan as tables for NetBox's bulk import, and a machine file from NetBox.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ayatori_fabric::description::Machine;
use ayatori_fabric::netbox::{Inventory, Names, Wanted, export, import};

use super::files::write_file;
use super::report;
use crate::exit::Exit;

/// What `ayatori plan netbox` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Write a table an object type, numbered in the order in which NetBox takes them
    Export(ExportArgs),
    /// Make a machine file of devices, interfaces and cables
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// The machine description
    file: PathBuf,
    /// The plan as it was written: a plan.json, or the folder of `ayatori plan --out`
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Write the tables into this folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Site of all devices (default: the machine's name)
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Manufacturer of all device types
    #[arg(long, value_name = "NAME", default_value = "unknown")]
    manufacturer: String,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The folder has devices, interfaces and cables, as .json, the REST API's answer, or as \
    .csv, as bulk import takes it; mac-addresses where there are any:\n\n\
    for objects in devices interfaces cables mac-addresses; do\n  \
    curl -H \"Authorization: Token $TOKEN\" \"$URL/api/dcim/$objects/?limit=0\" > $objects.json\ndone"
)]
struct ImportArgs {
    /// The folder with the files
    folder: PathBuf,
    /// Write the machine file here; it is printed without
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the machine
    #[arg(long, value_name = "NAME", default_value = "netbox")]
    name: String,
    /// Role of the devices that are switches (may be repeated; default: switch)
    #[arg(long, value_name = "ROLE")]
    switch_role: Vec<String>,
    /// Role of the devices that are hosts (may be repeated; default: host)
    #[arg(long, value_name = "ROLE")]
    host_role: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.task {
        Task::Export(args) => run_export(args),
        Task::Import(args) => run_import(args),
    }
}

fn run_export(args: &ExportArgs) -> anyhow::Result<Exit> {
    let machine = Machine::load(&args.file)?;
    let plan = super::plan_of(&machine, args.plan.as_deref())?;
    let site = args.site.as_deref().unwrap_or(&machine.name);
    for (option, name) in [("--site", site), ("--manufacturer", &args.manufacturer)] {
        if name.trim().is_empty() || name.chars().count() > NAME_LENGTH_MAX {
            bail!("{option} {name:?}: NetBox takes names of 1 to {NAME_LENGTH_MAX} characters");
        }
    }
    let tables = export(&machine, &plan, Names { site, manufacturer: &args.manufacturer });
    for table in &tables {
        write_file(&args.out, table)?;
    }
    eprintln!("{} tables in {}; import them in the order of their numbers", tables.len(), args.out.display());
    Ok(Exit::Success)
}

/// Characters of a site's or manufacturer's name in NetBox.
const NAME_LENGTH_MAX: usize = 100;

fn run_import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let folder = args.folder.display().to_string();
    let inventory = Inventory::parse(&texts(&args.folder)?).with_context(|| folder.clone())?;
    let wanted = Wanted { name: &args.name, switch_roles: &args.switch_role, host_roles: &args.host_role };
    let (text, left_out) =
        import(&inventory, &wanted).map_err(anyhow::Error::msg).with_context(|| folder.clone())?;
    // What the planner would refuse is said now, by the place in the text.
    Machine::parse("what was made of it", &text).with_context(|| folder)?;
    for line in left_out.iter().take(LEFT_OUT_LISTED_MAX) {
        eprintln!("left out: {line}");
    }
    if left_out.len() > LEFT_OUT_LISTED_MAX {
        eprintln!("left out: {} more", left_out.len() - LEFT_OUT_LISTED_MAX);
    }
    match &args.out {
        Some(file) => {
            fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
            report::print(&format!("{}\n", file.display()))?;
        }
        None => report::print(&text)?,
    }
    Ok(Exit::Success)
}

/// Things left out that are listed before the rest is only counted.
const LEFT_OUT_LISTED_MAX: usize = 20;

/// Names and texts of the folder's JSON and CSV files.
fn texts(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let cannot = || format!("cannot read the folder {}", folder.display());
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let is_ours = path.extension().is_some_and(|ending| ending == "json" || ending == "csv");
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| is_ours) else {
            continue;
        };
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        texts.push((name.to_owned(), text));
    }
    texts.sort();
    Ok(texts)
}
