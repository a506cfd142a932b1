//! Intel MPI Benchmarks, compiled with `-DCHECK`: every received buffer is compared with what was sent.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{ForeignOptions, Imb, Tally, Verdict, directory, our_prefix};
use crate::peers::Library;
use crate::process::{self, Outcome};

const RANKS: [usize; 3] = [2, 4, 7];

/// Executables and how they are told to be brief: short runs, lengths up to 1 MiB, all processes in one
/// group.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("IMB-MPI1", &["-time", "0.05", "-iter", "20", "-msglog", "20", "-npmin", "1000"]),
    ("IMB-NBC", &["-time", "0.05", "-iter", "20", "-msglog", "16", "-npmin", "1000"]),
    ("IMB-P2P", &["-time", "0.05", "-iter", "20", "-msglog", "20"]),
];

/// Checks that are wrong in IMB itself (2021.11). `Ireduce_scatter_pure` expects rank 0's block at every rank
/// (`pos = 0` in IMB_ireduce_scatter_pure), so it fails at all others on every library.
const OWN_FAULTS: [&str; 1] = ["Ireduce_scatter_pure"];

pub(super) fn run(options: &ForeignOptions<Imb>) -> Result<()> {
    let library = options.common.library()?;
    let source = options.copy(library, "imb")?;
    let mut tally = Tally::default();
    for (program, arguments) in PROGRAMS.into_iter().filter(|(name, _)| options.common.wants(name)) {
        let path = match build(library, &source, program) {
            Ok(path) => path,
            Err(error) => {
                tally.add_uncompiled(program, &error);
                continue;
            }
        };
        for ranks in options.common.ranks_or(&RANKS) {
            let mut arguments = arguments.to_vec();
            let npmin = ranks.to_string();
            if let Some(place) = arguments.iter().position(|argument| *argument == "1000") {
                arguments[place] = &npmin;
            }
            let mut command = library.launch(ranks, &path, &arguments);
            command.envs(options.common.progress());
            let outcome = process::capture(&mut command, options.common.limit() * 5)?;
            tally.add(program, ranks, judge(&outcome), &outcome);
        }
    }
    tally.close(&format!("conformance imb on {}", library.name()))
}

/// `make` with the library's wrappers. IMB treats warnings of the compiler as errors; those are not the
/// library's.
fn build(library: Library, source: &Path, program: &str) -> Result<PathBuf> {
    if library == Library::Ayatori {
        our_prefix()?;
    }
    let (cc, cxx) = library.wrappers().context("this library has no compiler wrappers")?;
    let mut make = Command::new("make");
    make.arg("-C").arg(source).arg(program).arg(format!("CC={}", cc.display()));
    make.arg(format!("CXX={}", cxx.display())).arg("CPPFLAGS=-DCHECK -Wno-error");
    make.arg("CFLAGS=-Wno-error").arg("CXXFLAGS=-Wno-error");
    let outcome = process::capture(&mut make, Duration::from_secs(600))?;
    if !outcome.success() {
        let errors = outcome.stderr.lines().filter(|line| line.contains("error")).take(3);
        bail!("make failed in {}: {}", directory(library).display(), errors.collect::<Vec<_>>().join("; "));
    }
    Ok(source.join(program))
}

/// A run is good when it ended by itself, entered MPI_Finalize and found no defect.
fn judge(outcome: &Outcome) -> Verdict {
    if !outcome.success() {
        return Verdict::Failed(outcome.reason());
    }
    let text = &outcome.stdout;
    let ours = |line: &&str| !OWN_FAULTS.iter().any(|fault| line.contains(fault));
    if let Some(line) =
        text.lines().filter(ours).find(|line| line.contains("Error") || line.contains("error"))
    {
        return Verdict::Failed(line.trim().to_owned());
    }
    if let Some(line) = defects(text) {
        return Verdict::Failed(format!("wrong data: {line}"));
    }
    let finished = text.contains("All processes entering MPI_Finalize") || text.contains("MPI_Finalize");
    let tables =
        text.lines().filter(|line| line.contains("# Benchmarking") || line.contains("#bytes")).count();
    match (finished, tables) {
        (_, 0) => Verdict::Failed("no benchmark ran".to_owned()),
        (false, _) => Verdict::Failed("ended before MPI_Finalize".to_owned()),
        _ => Verdict::Passed,
    }
}

/// The first row whose `defects` column (the last, where a table has one) is not zero.
fn defects(text: &str) -> Option<&str> {
    let mut has_column = false;
    for line in text.lines() {
        if line.contains("#repetitions") || line.contains("#bytes") {
            has_column = line.contains("defects");
        } else if has_column && line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            let last = line.split_whitespace().last().and_then(|word| word.parse::<f64>().ok());
            if last.is_some_and(|value| value != 0.0) {
                return Some(line.trim());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_is_found_only_in_tables_that_have_the_column() {
        let good =
            "#bytes #repetitions t[usec] Mbytes/sec defects\n 0 20 0.5 0.00 0.00\n 8 20 0.5 16.0 0.00\n";
        assert_eq!(defects(good), None);
        let bad =
            "#bytes #repetitions t[usec] Mbytes/sec defects\n 0 20 0.5 0.00 0.00\n 8 20 0.5 16.0 3.00\n";
        assert_eq!(defects(bad), Some("8 20 0.5 16.0 3.00"));
        assert_eq!(defects("#repetitions t_min[usec]\n 20 0.50\n"), None);
    }
}
