//! The packet pacing study (H. Shibamura, IPSJ SIG HPC 2014; NSIM): random ring and all-to-all over gap, and beyond the
//! paper gaps that need no search.
//!
//! Every point is a run of real processes (`ayatori_sim::cluster`) on machines/fx10.toml with its network replaced
//! (`experiment`). Finished runs are kept in results.csv (`store`), so a study that is stopped goes on. Nothing is fitted:
//! `findings` computes each verdict, and the page says where curves differ.

mod cases;
mod curves;
mod experiment;
mod findings;
mod report;
mod store;
mod svg;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Exit;
use cases::Case;
use curves::Curve;
use experiment::{Experiment, Outcome};
use report::LinkLoads;
use store::Store;

/// Random ring and all-to-all with gaps between packets, on the paper's FX10.
///
/// Writes results.csv, table.txt, figures and report.md. Finished runs are kept: the same command
/// goes on where it was stopped.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A small grid: about a minute
    #[arg(long)]
    quick: bool,
    /// The machine [default: machines/fx10.toml as this program was built with it]
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Folder for the results; studies/pacing, with --quick studies/pacing-quick, if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of ring orders and start times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at a time; as many as there are cores if not given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Forget the runs that are there
    #[arg(long)]
    fresh: bool,
    /// Run nothing: make the page of the runs that are there
    #[arg(long, conflicts_with = "fresh")]
    report_only: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let cases = if args.quick { cases::quick() } else { cases::full() };
    let name = if args.quick { "studies/pacing-quick" } else { "studies/pacing" };
    let out = args.out.clone().unwrap_or_else(|| name.into());
    let experiment = match &args.machine {
        Some(path) => {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
            Experiment::new(file, &text, args.seed)?
        }
        None => {
            let text = include_str!("../../../../../../machines/fx10.toml");
            Experiment::new("machines/fx10.toml".into(), text, args.seed)?
        }
    };
    let origin = experiment.origin()?;
    let store = Mutex::new(Store::open(&out, &origin, args.fresh)?);
    if !args.report_only {
        run_missing(args, &cases, &experiment, &store)?;
    }
    let store = store.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    store.sort(&origin, &cases)?;
    let done = |case: &Case| store.get(case).map(|outcome| (*case, outcome));
    let results: Vec<(Case, Outcome)> = cases.iter().filter_map(done).collect();
    let curves = curves::of(&cases, &results);
    let loads = link_loads(&experiment, &curves)?;
    let command = format!("ayatori study pacing{}", if args.quick { " --quick" } else { "" });
    let run_count = (results.len(), cases.len());
    let page =
        report::page(&report::Input { command, origin: &origin, curves: &curves, loads: &loads, run_count });
    let table = report::table(&curves);
    write_all(
        &out,
        &[
            ("table.txt", &table),
            ("report.md", &page),
            ("random-ring.svg", &svg::panels("Random ring", &report::ring_panels(&curves), (0.0, 2.0))),
            ("all-to-all.svg", &svg::panels("All-to-all", &report::exchange_panels(&curves), (0.8, 1.2))),
            (
                "all-to-all-apart.svg",
                &svg::panels("All-to-all, ranks apart", &report::apart_panels(&curves), (0.6, 1.4)),
            ),
        ],
    )?;
    let mut stdout = std::io::stdout().lock();
    write!(stdout, "{table}")?;
    for finding in findings::all(&curves) {
        writeln!(
            stdout,
            "\n{}\n  {}: {}",
            finding.paper,
            finding.verdict.name().trim_matches('*'),
            finding.here
        )?;
    }
    writeln!(
        stdout,
        "\n{} of {} runs; the page is {}",
        run_count.0,
        run_count.1,
        out.join("report.md").display()
    )?;
    Ok(Exit::Success)
}

fn write_all(folder: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Runs what is missing, cheap runs first, several at a time.
fn run_missing(
    args: &Args,
    cases: &[Case],
    experiment: &Experiment,
    store: &Mutex<Store>,
) -> anyhow::Result<()> {
    let lock = || store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut missing: Vec<&Case> = cases.iter().filter(|case| lock().get(case).is_none()).collect();
    missing.sort_by_key(|case| case.cost());
    // A thousand packet-hops is one step of the bar, so that it moves evenly.
    let steps = |case: &Case| case.cost() / 1_000 + 1;
    let style =
        ProgressStyle::with_template("{wide_bar} {percent} % of the packets, {msg}, {elapsed}, {eta} left")?;
    let bar = ProgressBar::new(missing.iter().map(|case| steps(case)).sum()).with_style(style);
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some(case) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            bar.set_message(case.columns());
            let outcome = experiment.run(case).with_context(|| format!("{case:?}"));
            if outcome.is_err() {
                next.store(missing.len(), Ordering::Relaxed);
            }
            lock().add(case, outcome?)?;
            bar.inc(steps(case));
        }
        Ok(())
    };
    let core_count = || std::thread::available_parallelism().map_or(1, usize::from);
    let thread_count = args.jobs.map_or_else(core_count, usize::from);
    let outcome = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a run does not panic"))
    });
    bar.finish_and_clear();
    outcome
}

fn link_loads(experiment: &Experiment, curves: &[Curve]) -> anyhow::Result<LinkLoads> {
    let mut loads = LinkLoads::default();
    for Curve { case, .. } in curves.iter().filter(|curve| curve.is_main_ring()) {
        if loads.ring.iter().all(|(known, _)| known.shape != case.shape) {
            loads.ring.push((*case, experiment.limits(case)?));
        }
    }
    for Curve { case, .. } in curves.iter().filter(|curve| !curve.is_ring()) {
        if loads.exchange.iter().all(|(known, _)| known.traffic != case.traffic) {
            loads.exchange.push((*case, experiment.limits(case)?));
        }
    }
    Ok(loads)
}
