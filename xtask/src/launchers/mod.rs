//! `cargo xtask launchers`: what works under which launcher, by running it.
//!
//! Starts Slurm's daemons (two nodes on this machine) and an `sshd`, all on high ports of the loopback with
//! keys of their own, and stops them by their process ids. Every cell of the table passes, or has its reason.
//! Written to
//! `conformance/launchers.md`.

mod cells;
mod daemons;
mod install;
mod rows;

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::peers::Library;
use crate::{paths, skips};
use cells::{CELLS, Cell, Verdict};
use rows::{ROWS, Row};

/// Options of `cargo xtask launchers`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only launchers whose name has this in it. The table is then printed and not written.
    #[arg(long)]
    only: Option<String>,
    /// An IMB-MPI1 that was built with this library's mpicc.
    #[arg(long, value_name = "PROGRAM")]
    imb: Option<PathBuf>,
    /// A Python with an mpi4py that was built with this library's mpicc.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Longest time for a cell, in seconds.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// An installation of this library to test, in place of the one that is built.
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<PathBuf>,
}

/// What cells need.
struct Bench {
    /// Where everything lies that is made here.
    folder: PathBuf,
    /// The installation under test.
    prefix: PathBuf,
    probe: PathBuf,
    imb: Option<PathBuf>,
    python: Option<PathBuf>,
    limit: Duration,
}

/// `cargo xtask launchers`.
///
/// # Errors
/// A cell fails without a known reason.
pub(crate) fn run(options: &Options) -> Result<()> {
    let bench = prepare(options)?;
    let is_wanted = |row: &&Row| options.only.as_ref().is_none_or(|part| row.name.contains(part.as_str()));
    let slurm = daemons::Slurm::start(&bench.folder);
    let sshd = daemons::Sshd::start(&bench.folder);
    let mut table = header();
    let mut notes = Vec::new();
    let mut failures = 0;
    for row in ROWS.iter().filter(is_wanted) {
        let site = rows::Site { bench: &bench, slurm: &slurm, sshd: &sshd };
        let _ = write!(table, "| {} |", row.name);
        let ready = (row.prepare)(&site);
        for cell in CELLS {
            let verdict = match &ready {
                Err(error) => Verdict::NotRun(format!("{error:#}")),
                Ok(()) => cells::run(&site, row, cell),
            };
            let word = report(row, cell, verdict, &mut notes, &mut failures);
            let _ = write!(table, " {word} |");
        }
        table.push('\n');
    }
    let _ = writeln!(table, "\n## Reasons\n");
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(table, "{}. {note}", number + 1);
    }
    println!("{table}");
    if options.only.is_none() {
        let path = paths::root().join("conformance/launchers.md");
        fs::write(&path, table).with_context(|| path.display().to_string())?;
    }
    if failures > 0 {
        bail!("{failures} cells fail");
    }
    Ok(())
}

fn prepare(options: &Options) -> Result<Bench> {
    let folder = paths::build_dir().join("launchers");
    fs::create_dir_all(&folder)?;
    let prefix = match &options.prefix {
        Some(prefix) => std::path::absolute(prefix)?,
        None => {
            Library::Ayatori.prepare()?;
            Library::Ayatori.prefix()
        }
    };
    let probe = folder.join("probe");
    install::compile(&prefix, &paths::root().join("conformance/launchers/probe.c"), &probe)?;
    let limit = Duration::from_secs(options.limit);
    Ok(Bench { folder, prefix, probe, imb: options.imb.clone(), python: options.python.clone(), limit })
}

fn header() -> String {
    let mut text = "# Launchers\n\nWritten by `cargo xtask launchers`: what was started under which \
                    launcher on one machine, and whether it did what it should.\nA number refers to a \
                    reason below. IMB-MPI1 is six of its benchmarks with checked data, mpi4py its `bench \
                    ringtest`; three ranks each.\nSpawn starts two more processes from three; \
                    \"refused\" is an error of class `MPI_ERR_SPAWN` at all ranks, after \
                    which the program goes on and ends well.\n\n| launcher |"
        .to_owned();
    for cell in CELLS {
        let _ = write!(text, " {} |", cell.title());
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(CELLS.len()));
    text.push('\n');
    text
}

/// The word for the table.
fn report(row: &Row, cell: Cell, verdict: Verdict, notes: &mut Vec<String>, failures: &mut usize) -> String {
    let (word, why) = match verdict {
        Verdict::Passed => {
            println!("{:<14} {:<12} passes", row.name, cell.title());
            return "passes".to_owned();
        }
        Verdict::NotRun(why) => {
            skips::note(&format!("launchers {} {}", row.name, cell.title()), &why);
            ("not run", why)
        }
        Verdict::Refused(why) => {
            println!("{:<14} {:<12} is refused: {why}", row.name, cell.title());
            ("refused", why)
        }
        Verdict::Failed(why) => {
            println!("{:<14} {:<12} FAILS: {why}", row.name, cell.title());
            *failures += 1;
            ("fails", why)
        }
    };
    let place = notes.iter().position(|note| *note == why).unwrap_or_else(|| {
        notes.push(why);
        notes.len() - 1
    });
    format!("{word} ({})", place + 1)
}
