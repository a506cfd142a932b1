//! `cargo xtask instructions`: how many instructions calls of the short path take, 8 bytes (the long
//! ones 1 MiB) over shared memory.
//!
//! Times need a quiet machine; a count does not. `bench/instructions.c` brings about that each call finds
//! what it is to find, valgrind's callgrind counts inside of one call's function, and the difference of two
//! numbers of turns leaves out what happens once. A rise of more than 2 % over the committed figure fails.
//! The figures are those of one compiler, which they name; with another they are printed and not judged.
//! `--update` writes what was counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::peers::Library;
use crate::{paths, process, skips};

/// Options of `cargo xtask instructions`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// An installation to use, instead of building one.
    #[arg(long)]
    prefix: Option<PathBuf>,
    /// Write the figures to bench/instructions.toml.
    #[arg(long)]
    update: bool,
}

/// `bench/instructions.toml`
#[derive(Serialize, Deserialize, Default)]
struct Figures {
    /// What `rustc --version` says.
    compiler: String,
    /// Instructions of each call.
    instructions: BTreeMap<String, u64>,
}

/// The functions `count_…` of the program.
const CALLS: [&str; 11] = [
    "send",
    "recv",
    "sendrecv",
    "isend",
    "irecv",
    "wait_send",
    "wait_recv",
    "test",
    "isend_long",
    "recv_long",
    "wait_long",
];
/// Two runs of so many turns each; the calls of both directions count for rank 0 once a turn and call, but
/// `send` and `recv`, which it makes twice.
const TURNS: [u64; 2] = [100, 300];
/// A rise that is let pass, in percent.
const RISE_MAX_PERCENT: u64 = 2;
/// Hang limit of one run.
const LIMIT: Duration = Duration::from_secs(180);

/// `cargo xtask instructions`.
///
/// # Errors
/// A call takes more instructions than the committed figure allows, or cannot be counted.
pub(crate) fn run(options: &Options) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skips::note("instructions", "valgrind is not installed (Debian: apt-get install valgrind)");
        return Ok(());
    }
    let prefix = match &options.prefix {
        Some(prefix) => prefix.clone(),
        None => {
            Library::Ayatori.prepare()?;
            Library::Ayatori.prefix()
        }
    };
    let folder = paths::build_dir().join("instructions");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("instructions");
    compile(&prefix, &program)?;
    let compiler = process::capture(Command::new("rustc").arg("--version"), LIMIT)?.stdout.trim().to_owned();
    let counted = CALLS
        .iter()
        .map(|call| Ok(((*call).to_owned(), count(&prefix, &program, call)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let path = paths::root().join("bench/instructions.toml");
    if options.update {
        let text = toml::to_string(&Figures { compiler, instructions: counted })?;
        std::fs::write(&path, format!("# Written by `cargo xtask instructions --update`.\n{text}"))?;
        return Ok(());
    }
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let committed: Figures = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let is_same = committed.compiler == compiler;
    if !is_same {
        skips::note("instructions", &format!("the figures are those of {}", committed.compiler));
    }
    let risen = compare(&counted, &committed.instructions);
    println!("== instructions: {} calls counted, {} risen", counted.len(), risen.len());
    if is_same && !risen.is_empty() {
        bail!("more instructions than bench/instructions.toml allows: {}", risen.join(", "));
    }
    Ok(())
}

/// Prints the figures beside the committed ones; the calls that take too many more.
fn compare(counted: &BTreeMap<String, u64>, committed: &BTreeMap<String, u64>) -> Vec<String> {
    let mut risen = Vec::new();
    for (call, &now) in counted {
        let before = committed.get(call).copied().unwrap_or(0);
        println!("instructions {call:10} {now:5} committed {before:5}");
        if now * 100 > before * (100 + RISE_MAX_PERCENT) {
            risen.push(format!("{call} {now} (committed {before})"));
        }
    }
    risen
}

fn compile(prefix: &Path, program: &Path) -> Result<()> {
    let lib = prefix.join("lib");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(paths::root().join("crates/mpi/include"));
    cc.arg(paths::root().join("bench/instructions.c")).arg("-o").arg(program);
    cc.arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display())).arg("-lmpi_abi");
    process::show(&mut cc)
}

/// Instructions of one call at rank 0, by the difference of two runs.
fn count(prefix: &Path, program: &Path, call: &str) -> Result<u64> {
    let [few, many] = TURNS.map(|turns| total(prefix, program, call, turns));
    let calls_a_turn = if matches!(call, "send" | "recv") { 2 } else { 1 };
    let calls = (TURNS[1] - TURNS[0]) * calls_a_turn;
    Ok(many?.saturating_sub(few?).div_ceil(calls))
}

/// All instructions inside of the calls of one kind, at rank 0.
fn total(prefix: &Path, program: &Path, call: &str, turns: u64) -> Result<u64> {
    let folder = program.parent().context("a program has a folder")?;
    let shared = folder.join("counter");
    let _ = std::fs::remove_file(&shared);
    let counts = folder.join(format!("{call}.{turns}"));
    let mut job = Command::new(prefix.join("bin/ayatori"));
    // Without a helper thread: what it does meanwhile is not the call's.
    job.args(["run", "-n", "2", "--genv", "AYATORI_PROGRESS=inline", "valgrind", "--tool=callgrind"]);
    job.args(["--collect-atstart=no", &format!("--toggle-collect=count_{call}")]);
    job.arg(format!("--callgrind-out-file={}.%q{{PMI_RANK}}", counts.display()));
    job.arg(program).arg(turns.to_string()).arg(&shared);
    job.env("LD_LIBRARY_PATH", prefix.join("lib"));
    let outcome = process::capture(&mut job, LIMIT)?;
    if !outcome.success() {
        bail!("{}: {}", process::line(&job), outcome.reason());
    }
    let path = format!("{}.0", counts.display());
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    total_of(&text).with_context(|| format!("{path} has no total"))
}

/// The total that callgrind writes at its end.
fn total_of(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(figures: &[(&str, u64)]) -> BTreeMap<String, u64> {
        figures.iter().map(|&(call, count)| (call.to_owned(), count)).collect()
    }

    #[test]
    fn a_rise_of_two_percent_passes_and_more_does_not() {
        let committed = figures(&[("send", 300), ("recv", 600), ("test", 100)]);
        let counted = figures(&[("send", 306), ("recv", 613), ("test", 50)]);
        assert_eq!(compare(&counted, &committed), ["recv 613 (committed 600)"]);
    }

    #[test]
    fn a_call_without_a_committed_figure_has_risen() {
        assert_eq!(compare(&figures(&[("new", 1)]), &figures(&[])).len(), 1);
    }

    #[test]
    fn the_total_is_read_off_callgrinds_last_lines() {
        assert_eq!(total_of("fn=(1)\n12 5\ntotals: 1234\n"), Some(1234));
        assert_eq!(total_of("fn=(1)\n"), None);
    }
}
