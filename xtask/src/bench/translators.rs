//! `cargo xtask bench --only translators`: the 8 B ping-pong of programs built for MPICH and for Open MPI,
//! through the translators, beside the same program built for the standard ABI.
//!
//! All three run on the same library. Within a round each has its turn, and the next round begins with
//! another, so what a translator adds is taken within a round: the ratio is the median of the rounds' ratios.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::report::{median, number};
use super::{Options, machine, parse, program_path, source, wrapped};
use crate::peers::Library;
use crate::target::Target;
use crate::translate::{self, Abi};
use crate::{paths, process};

/// The name for `--only`.
pub(super) const GROUP: &str = "translators";

const PROGRAM: &str = "pingpong";
const BYTES: usize = 8;
/// What of the program's figures is of interest: the third is about memory.
const FIGURES: [&str; 2] = ["pingpong", "pingpong_separate"];
/// What a translator may add: issue 17 asks for 5 %.
const RATIO_MAX: f64 = 1.05;
const LAUNCH_MAX: Duration = Duration::from_secs(60);
const COMPILE_MAX: Duration = Duration::from_secs(120);

/// A program, as built for an ABI; none: the standard's.
struct Built {
    abi: Option<Abi>,
    program: PathBuf,
}

impl Built {
    /// Compiles the program against the header that `abi` has.
    fn new(abi: Option<Abi>) -> Result<Self> {
        let Some(of) = abi else {
            let program = program_path(Library::Ayatori, PROGRAM);
            Library::Ayatori.compile(&source(PROGRAM), &program)?;
            return Ok(Self { abi, program });
        };
        let peer = Library::of_abi(of);
        peer.prepare()?;
        let prefix = Library::Ayatori.prefix();
        let program = paths::build_dir().join("bench/programs").join(of.name()).join(PROGRAM);
        fs::create_dir_all(program.parent().context("a file in build/")?)?;
        let mut cc = translate::compiler(&Target::HERE, &prefix, &peer.prefix().join("include"));
        cc.args(["-std=gnu11", "-O2", "-o"]).arg(&program).arg(source(PROGRAM));
        cc.arg(translate::installed(of, &prefix)).arg("-lm");
        let outcome = process::capture(&mut cc, COMPILE_MAX)?;
        if !outcome.success() {
            bail!("`{}` failed: {}", process::line(&cc), outcome.reason());
        }
        Ok(Self { abi, program })
    }

    fn name(&self) -> &'static str {
        self.abi.map_or("standard", Abi::name)
    }

    /// One launch: microseconds for each of `FIGURES`.
    fn run(&self, budget_ms: u32, wrap: Option<&str>) -> Result<[f64; FIGURES.len()]> {
        let launch = Library::Ayatori.launch(2, &self.program, &[]);
        let mut command = wrapped(launch, wrap);
        command.env("BENCH_SIZE", BYTES.to_string()).env("BENCH_BUDGET_MS", budget_ms.to_string());
        let limit = if wrap.is_some() { LAUNCH_MAX * 4 } else { LAUNCH_MAX };
        let outcome = process::capture(&mut command, limit)?;
        if !outcome.success() {
            bail!("the program built for {} failed: {}", self.name(), outcome.reason());
        }
        let results = parse(&outcome.stdout);
        let mut values = [0.0; FIGURES.len()];
        for (value, figure) in values.iter_mut().zip(FIGURES) {
            let result = results.iter().find(|(name, bytes, ..)| name == figure && *bytes == BYTES);
            *value = result.with_context(|| format!("{} printed no {figure}", self.name()))?.2;
        }
        Ok(values)
    }
}

/// A figure of one program.
#[derive(Clone, Debug, Serialize)]
struct Row {
    figure: &'static str,
    abi: &'static str,
    /// Half a round trip, microseconds, a launch each.
    us: Vec<f64>,
    /// To the standard ABI's of the same round.
    ratios: Vec<f64>,
}

/// The report.
#[derive(Serialize)]
struct Report {
    machine: String,
    cpus: usize,
    rounds: usize,
    rows: Vec<Row>,
}

/// Measures and writes `translators.txt` and `translators.json`.
///
/// # Errors
/// A header cannot be had, or a program cannot be compiled or run.
pub(super) fn run(options: &Options) -> Result<()> {
    Library::Ayatori.prepare()?;
    let built = [None, Some(Abi::Mpich), Some(Abi::OpenMpi)].into_iter().map(Built::new);
    let built: Vec<Built> = built.collect::<Result<_>>()?;
    let (rounds, budget_ms) = if options.quick { (5, 60) } else { (25, 200) };
    let rounds = options.runs.unwrap_or(rounds);
    if rounds == 0 {
        bail!("--runs must be at least 1");
    }
    let mut samples = vec![Vec::new(); built.len()];
    for round in 0..rounds {
        for turn in 0..built.len() {
            let which = (round + turn) % built.len();
            samples[which].push(built[which].run(budget_ms, options.wrap.as_deref())?);
        }
    }
    let names: Vec<&'static str> = built.iter().map(Built::name).collect();
    let rows = rows(&names, &samples);
    let report = Report { machine: machine(), cpus: paths::cpu_count(), rounds, rows };
    let text = text(&report);
    print!("\n{text}");
    let output = paths::root().join(&options.output);
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    fs::write(output.join("translators.txt"), &text)?;
    fs::write(output.join("translators.json"), serde_json::to_string_pretty(&report)? + "\n")?;
    println!("\nwritten to {0}/translators.txt and {0}/translators.json", output.display());
    Ok(())
}

/// `samples`: of each program the figures of each round; the first program is the standard's.
fn rows(names: &[&'static str], samples: &[Vec<[f64; FIGURES.len()]>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, figure) in FIGURES.into_iter().enumerate() {
        for (abi, of) in names.iter().zip(samples) {
            let us: Vec<f64> = of.iter().map(|round| round[at]).collect();
            let ratios = us.iter().zip(&samples[0]).map(|(us, plain)| us / plain[at]).collect();
            rows.push(Row { figure, abi, us, ratios });
        }
    }
    rows
}

fn text(report: &Report) -> String {
    let Report { machine, cpus, rounds, rows } = report;
    let mut text = format!("{machine}, {cpus} CPUs; {BYTES} B, 2 ranks, medians of {rounds} rounds\n\n");
    let percent = RATIO_MAX * 100.0 - 100.0;
    let met = format!("rounds within {percent:.0} %");
    let _ =
        writeln!(text, "{:18} {:9} {:>8} {:>10}  {met}", "half a round trip", "built for", "us", "more, %");
    for Row { figure, abi, us, ratios } in rows {
        let _ = write!(text, "{figure:18} {abi:9} {:>8}", number(median(us)));
        if *abi == rows[0].abi {
            text.push('\n');
            continue;
        }
        let met = ratios.iter().filter(|ratio| **ratio <= RATIO_MAX).count();
        let more = median(ratios) * 100.0 - 100.0;
        let _ = writeln!(text, " {more:>10.1}  {met} of {}", ratios.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_translator_is_compared_within_a_round() {
        // The machine is twice as slow in the second round: within each, 4 % and 10 % more.
        let plain = vec![[1.0, 2.0], [2.0, 4.0]];
        let through = vec![[1.04, 2.2], [2.08, 4.4]];
        let rows = rows(&["standard", "mpich"], &[plain, through]);
        let of = |figure: &str| rows.iter().find(|row| row.figure == figure && row.abi == "mpich").unwrap();
        assert!((median(&of("pingpong").ratios) - 1.04).abs() < 1e-12);
        assert!((median(&of("pingpong_separate").ratios) - 1.1).abs() < 1e-12);
        let report = Report { machine: "m".to_owned(), cpus: 2, rounds: 2, rows };
        let text = text(&report);
        let line = |figure: &str| {
            let start = format!("{figure:18} mpich");
            text.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
        };
        assert!(line("pingpong").contains(" 4.0  2 of 2"), "{text}");
        assert!(line("pingpong_separate").contains(" 10.0  0 of 2"), "{text}");
    }
}
