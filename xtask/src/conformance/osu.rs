//! OSU micro-benchmarks: every point-to-point and collective program compiles and runs to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{ForeignOptions, Osu, Tally, Verdict, our_prefix};
use crate::peers::Library;
use crate::process::{self, Outcome};

const RANKS: [usize; 3] = [2, 4, 7];

pub(super) fn run(options: &ForeignOptions<Osu>) -> Result<()> {
    let library = options.common.library()?;
    if library == Library::Ayatori {
        our_prefix()?;
    }
    let source = options.copy(library, "osu")?;
    let mut tally = Tally::default();
    for (folder, common) in [("pt2pt", "osu_pt2pt.c"), ("collective", "osu_coll.c")] {
        let dir = source.join("mpi").join(folder);
        for program in programs(&dir, common)? {
            let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if !options.common.wants(&name) {
                continue;
            }
            let binary = dir.join(&name);
            if let Err(error) = build(library, &program, &dir.join(common), &binary) {
                tally.add_uncompiled(&name, &error);
                continue;
            }
            for ranks in options.common.ranks_or(&RANKS) {
                let two_only = folder == "pt2pt" && !name.contains("multi") && !name.contains("mbw");
                let even_only = folder == "pt2pt";
                if (two_only && ranks != 2) || (even_only && ranks % 2 != 0) {
                    continue; // the program itself refuses other counts
                }
                let arguments = arguments(folder, &name);
                let outcome = process::capture(
                    library.launch(ranks, &binary, &arguments).envs(options.common.progress()),
                    options.common.limit(),
                )?;
                tally.add(&name, ranks, judge(&outcome), &outcome);
            }
        }
    }
    tally.close(&format!("conformance osu on {}", library.name()))
}

/// Lengths up to 64 KiB and few repetitions, where the program can be told: this asks whether they run, not
/// how fast.
fn arguments(folder: &str, name: &str) -> Vec<&'static str> {
    match folder {
        "collective" if name.contains("barrier") => vec!["-i", "50", "-x", "5"],
        "collective" => vec!["-m", "65536", "-i", "20", "-x", "2"],
        // Of the point-to-point programs these take a number of repetitions.
        _ if name.starts_with("osu_latency") => vec!["-i", "200", "-x", "20"],
        _ => Vec::new(),
    }
}

fn programs(dir: &Path, common: &str) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".c") && name != common {
            all.push(path);
        }
    }
    all.sort();
    if all.is_empty() {
        bail!("{} holds no programs", dir.display());
    }
    Ok(all)
}

fn build(library: Library, source: &Path, common: &Path, binary: &Path) -> Result<()> {
    let Some((mpicc, _)) = library.wrappers() else { bail!("{} has no compiler wrapper", library.name()) };
    let mut command = Command::new(mpicc);
    command.args(["-O1", "-w", "-D_GNU_SOURCE"]);
    // What its configure would define.
    command.args(["-DPACKAGE_VERSION=\"5.3\"", "-DFIELD_WIDTH=20", "-DFLOAT_PRECISION=2"]);
    command.arg("-I").arg(common.parent().unwrap_or(common)).arg(source);
    // osu_mbw_mr brings its own copy of what the others share.
    let header = common.with_extension("h").file_name().unwrap_or_default().to_string_lossy().into_owned();
    if fs::read_to_string(source)?.contains(&header) {
        command.arg(common);
    }
    command.arg("-o").arg(binary).args(["-lpthread", "-lm"]);
    let outcome = process::capture(&mut command, Duration::from_secs(120))?;
    if !outcome.success() {
        bail!("`{}` failed: {}", process::line(&command), outcome.reason());
    }
    Ok(())
}

fn judge(outcome: &Outcome) -> Verdict {
    let rows =
        outcome.stdout.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    let rows = rows.count();
    if !outcome.success() {
        Verdict::Failed(outcome.reason())
    } else if rows == 0 {
        Verdict::Failed("printed no figures".to_owned())
    } else {
        Verdict::Passed
    }
}
