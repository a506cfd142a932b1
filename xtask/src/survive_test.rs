//! `cargo xtask survive-test`: jobs that lose ranks and go on.
//!
//! Runs `conformance/c/survive/*.c` and `examples/heat_survive.c` with `ayatori run --survive`, whose ranks
//! kill themselves, on several numbers of ranks, on this host and over two hosts of the launcher's making.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::peers::Library;
use crate::{paths, process};

/// Options of `cargo xtask survive-test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each program is run in each way.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Only programs whose name holds this.
    #[arg(long)]
    only: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { runs: 1, only: None }
    }
}

/// How long a job may take in all.
const HANG_LIMIT: Duration = Duration::from_secs(120);
const RANKS: [usize; 4] = [1, 2, 3, 6];
/// Where the ranks are.
const PLACES: [(&str, &[&str]); 2] =
    [("here", &[]), ("over two hosts", &["--hosts", "a:3,b:3", "--agent", "env AYATORI_TEST_HOST={host}"])];

/// `cargo xtask survive-test`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let library = Library::Ayatori;
    library.prepare()?;
    let folder = paths::root().join("conformance/c/survive");
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.push(paths::root().join("examples/heat_survive.c"));
    sources.sort();
    let (mut passed, mut failed) = (0, 0);
    for source in sources {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if options.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let program = paths::build_dir().join("survive").join(&name);
        library.compile(&source, &program)?;
        for (place, launch) in PLACES {
            for ranks in RANKS {
                for _ in 0..options.runs {
                    match one(&program, ranks, launch) {
                        Ok(()) => passed += 1,
                        Err(error) => {
                            failed += 1;
                            println!("FAILED  {name}, {ranks} ranks, {place}: {error:#}");
                        }
                    }
                }
            }
        }
    }
    println!("survive-test: {passed} passed, {failed} failed");
    if failed > 0 || passed == 0 {
        bail!("survive-test: {failed} failed");
    }
    Ok(())
}

fn one(program: &Path, ranks: usize, launch: &[&str]) -> Result<()> {
    let mut command = std::process::Command::new(Library::Ayatori.prefix().join("bin/ayatori"));
    command
        .args(["run", "--survive", "--bind-to", "none", "-n", &ranks.to_string()])
        .args(launch)
        .arg(program);
    let outcome = process::capture(&mut command, HANG_LIMIT)?;
    let last = outcome.stdout.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    let is_right = last == "No Errors" || last.starts_with("Skipped: needs") || last.ends_with("PASSED");
    if outcome.timed_out || !outcome.success() || !is_right {
        bail!("{}: {last:?}\n{}", outcome.reason(), outcome.stderr);
    }
    Ok(())
}
