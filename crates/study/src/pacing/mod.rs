//! The packet pacing study (H. Shibamura, IPSJ SIG HPC 2014; NSIM): random ring and all-to-all over gap, and
//! beyond the paper gaps that need no search.
//!
//! Every point is a run of real processes (`ayatori_sim::cluster`) on machines/fx10.toml with its network
//! replaced (`experiment`), or of bare writes; NSIM's own run is on machines/nsim.toml. Finished runs are
//! kept in results.csv (`store`), so a study that is stopped goes on. Nothing is fitted: `findings` computes
//! each verdict, and the page says where curves differ.

mod ablation;
mod booksim;
mod cases;
mod curves;
mod experiment;
mod findings;
mod plot;
mod report;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;

use cases::Case;
use curves::Curve;
use experiment::{Experiment, Outcome};
use report::LinkLoads;
use store::{Access, Store};

pub use findings::{Finding, Verdict};

/// What to run and where to keep it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A small grid, about a minute, in place of the paper's.
    pub quick: bool,
    /// The machine description; `None`: machines/fx10.toml as built in.
    pub machine: Option<PathBuf>,
    /// Folder for the results; `None`: studies/pacing, or studies/pacing-quick.
    pub out: Option<PathBuf>,
    /// Seed of ring orders and start times.
    pub seed: u64,
    /// Runs at a time; `None`: as many as there are cores.
    pub jobs: Option<u16>,
    /// Discard earlier results.
    pub fresh: bool,
    /// Run nothing; write the page from earlier results, which stay as they are.
    pub report_only: bool,
}

/// Progress of a study, as it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Results of another machine, seed or simulator were moved to this file.
    MovedAside(PathBuf),
    /// The missing runs together take so many steps.
    Begin {
        /// A step is about a thousand packet-hops, so that a bar moves evenly.
        step_count: u64,
    },
    /// A run starts: the columns of its case.
    Start(String),
    /// A run of so many steps has ended.
    End {
        /// Its share of [`Event::Begin`].
        step_count: u64,
    },
}

/// Outcome of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Best gaps and effects, for a terminal.
    pub table: String,
    /// The paper's findings and what the runs show.
    pub findings: Vec<Finding>,
    /// Runs there are, and runs in the grid.
    pub run_count: (usize, usize),
    /// The page.
    pub page: PathBuf,
}

/// Runs what is missing, and writes results.csv, table.txt, the figures and report.md. `on_event` may be
/// called from several threads.
///
/// # Errors
/// A file that cannot be read or written, a machine of another kind than the paper's, a run that does not
/// end.
pub fn run(options: &Options, on_event: impl Fn(Event) + Sync) -> anyhow::Result<Summary> {
    let cases = if options.quick { cases::quick() } else { cases::full() };
    let name = if options.quick { "studies/pacing-quick" } else { "studies/pacing" };
    let out = options.out.clone().unwrap_or_else(|| name.into());
    let experiment = experiment(options)?;
    let origin = experiment.origin()?;
    let access = match (options.report_only, options.fresh) {
        (true, _) => Access::Read,
        (false, true) => Access::Replace,
        (false, false) => Access::Add,
    };
    let mut store = Store::open(&out, &origin, access)?;
    if let Some(path) = store.moved_to() {
        on_event(Event::MovedAside(path.into()));
    }
    if access != Access::Read {
        let shared = Mutex::new(store);
        run_missing(options.jobs, &cases, &experiment, &shared, &on_event)?;
        store = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        store.sort(&origin, &cases)?;
    }
    let done = |case: &Case| store.get(case).map(|outcome| (*case, outcome));
    let results: Vec<(Case, Outcome)> = cases.iter().filter_map(done).collect();
    let curves = curves::of(&cases, &results);
    let loads = link_loads(&experiment, &curves)?;
    let command = format!("ayatori study pacing{}", if options.quick { " --quick" } else { "" });
    let run_count = (results.len(), cases.len());
    let mut findings = findings::all(&curves);
    findings.extend(ablation::findings(&curves));
    let page = report::page(&report::Input {
        command,
        origin: &origin,
        curves: &curves,
        loads: &loads,
        findings: &findings,
        booksim: &booksim::section()?,
        run_count,
    });
    let table = report::table(&curves);
    write_all(
        &out,
        &[
            ("table.txt", &table),
            ("report.md", &page),
            ("random-ring.svg", &plot::panels("Random ring", &report::ring_panels(&curves), (0.0, 2.0))?),
            (
                "random-ring-hypothetical.svg",
                &plot::panels(
                    "Random ring, hypothetical machine",
                    &report::hypothetical_panels(&curves),
                    (0.0, 2.0),
                )?,
            ),
            ("gap-by-hops.svg", &plot::panels("Random ring", &report::hop_panels(&curves), (0.0, 2.0))?),
            ("all-to-all.svg", &plot::panels("All-to-all", &report::exchange_panels(&curves), (0.8, 1.2))?),
            (
                "all-to-all-apart.svg",
                &plot::panels("All-to-all, ranks apart", &report::apart_panels(&curves), (0.6, 1.4))?,
            ),
        ],
    )?;
    Ok(Summary { table, findings, run_count, page: out.join("report.md") })
}

fn experiment(options: &Options) -> anyhow::Result<Experiment> {
    match &options.machine {
        Some(path) => {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
            Experiment::new(file, &text, options.seed)
        }
        None => {
            let text = include_str!("../../../../machines/fx10.toml");
            Experiment::new("machines/fx10.toml".into(), text, options.seed)
        }
    }
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
    jobs: Option<u16>,
    cases: &[Case],
    experiment: &Experiment,
    store: &Mutex<Store>,
    on_event: &(impl Fn(Event) + Sync),
) -> anyhow::Result<()> {
    let lock = || store.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut missing: Vec<&Case> = cases.iter().filter(|case| lock().get(case).is_none()).collect();
    missing.sort_by_key(|case| case.cost());
    let step_count = |case: &Case| case.cost() / 1_000 + 1;
    on_event(Event::Begin { step_count: missing.iter().map(|case| step_count(case)).sum() });
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some(case) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            on_event(Event::Start(case.columns()));
            let outcome = experiment.run(case).with_context(|| format!("{case:?}"));
            if outcome.is_err() {
                next.store(missing.len(), Ordering::Relaxed);
            }
            lock().add(case, outcome?)?;
            on_event(Event::End { step_count: step_count(case) });
        }
        Ok(())
    };
    let core_count = || std::thread::available_parallelism().map_or(1, usize::from);
    let thread_count = jobs.map_or_else(core_count, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a run does not panic"))
    })
}

fn link_loads(experiment: &Experiment, curves: &[Curve]) -> anyhow::Result<LinkLoads> {
    let mut loads = LinkLoads::default();
    for Curve { case, .. } in curves.iter().filter(|curve| curve.is_main_ring()) {
        if loads.ring.iter().all(|(known, _)| known.shape != case.shape) {
            loads.ring.push((*case, experiment.limits(case)?));
        }
    }
    for Curve { case, .. } in curves.iter().filter(|curve| !curve.is_ring() && !curve.is_ablation()) {
        if loads.exchange.iter().all(|(known, _)| known.traffic != case.traffic) {
            loads.exchange.push((*case, experiment.limits(case)?));
        }
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of results.csv and one result.
    fn write_results(folder: &Path, origin: &str) {
        let case = cases::quick()[0];
        let mut store = Store::open(folder, origin, Access::Add).expect("a new store");
        store.add(&case, Outcome { gap: 0.0, time_ps: 1_000, packet_hop_count: 10 }).expect("one result");
    }

    fn results(folder: &Path) -> String {
        std::fs::read_to_string(folder.join("results.csv")).expect("results.csv")
    }

    #[test]
    fn a_report_keeps_results_whatever_the_path_of_the_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = include_str!("../../../../machines/fx10.toml");
        let copy = folder.path().join("copy-of-fx10.toml");
        std::fs::write(&copy, text).expect("a copy");
        let origin = Experiment::new("machines/fx10.toml".into(), text, 1).and_then(|made| made.origin());
        write_results(folder.path(), &origin.expect("an origin"));
        let before = results(folder.path());
        let options = Options {
            quick: true,
            machine: Some(copy),
            out: Some(folder.path().into()),
            seed: 1,
            report_only: true,
            ..Options::default()
        };
        for _ in 0..2 {
            let summary = run(&options, |event| panic!("{event:?}")).expect("a report");
            assert_eq!(summary.run_count.0, 1, "the result counts");
            assert_eq!(results(folder.path()), before);
        }
    }

    #[test]
    fn a_report_of_another_seed_is_refused_and_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        write_results(folder.path(), "another machine, seed 7");
        let before = results(folder.path());
        let options = Options {
            quick: true,
            out: Some(folder.path().into()),
            seed: 1,
            report_only: true,
            ..Options::default()
        };
        let error = run(&options, |event| panic!("{event:?}")).expect_err("no results of this origin");
        let error = format!("{error:#}");
        assert!(error.contains("another machine, seed 7") && error.contains("seed 1"), "{error}");
        assert_eq!(results(folder.path()), before);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}
