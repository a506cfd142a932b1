//! `ayatori sim sweep`: all combinations of machines, workloads and options, on all cores.

use crate::exit::{Exit, FAILURE};
use anyhow::Context as _;
use ayatori_launch::environment::{KEY_OF_SPARE, Launch};
use ayatori_launch::pmi::Client;
use ayatori_study::grid::{self, Grid, How};
use ayatori_study::sweep::Control;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Simulates all combinations that a file lists.
///
/// Results are a CSV file, written as points end: the same command goes on where it was stopped. They are
/// the same, in the same order, whatever the number of cores. As a job of several ranks (`mpiexec -n 8
/// ayatori sim sweep FILE`) the ranks share the points, over a file system that all hosts see. If a rank is
/// lost the others take over what it was running; the exit code is theirs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file:
  machine = [\"machines/fx10.toml\"]      # sought from the file's folder
  workload = [\"random-ring\", \"halo-3d\"]
  bytes = [\"64K\", \"1M\"]               # nodes, per_host, algorithm, gap, start_spread_ns, rounds too
  seed = [1, 2, 3]
  [change]                             # keys of the machine file, each with a list of what to try
  \"topology.extents\" = [[4, 2, 8], [8, 6, 16]]")]
pub(super) struct Args {
    /// The sweep's file
    file: PathBuf,
    /// The results [default: the file's name with .csv]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Simulations at a time in each process; as many as there are cores if not given, one in a rank of a job
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Discard results that are there
    #[arg(long)]
    fresh: bool,
    /// Other processes, started by hand, run the same sweep now: share its points with them
    #[arg(long, conflicts_with = "fresh")]
    share: bool,
}

/// Whether a launcher has started this process as one of several, or may have.
fn is_rank(launch: &Launch) -> bool {
    match launch {
        Launch::Singleton => false,
        Launch::Pmi1(pmi) => pmi.size != Some(1),
        // A process alone shares with no other, which is right, too.
        Launch::Pmix(_) | Launch::Unusable { .. } => true,
    }
}

/// Tells our own launcher that the others go on if this rank is lost: they take over what it was running.
/// Other launchers are told nothing.
fn become_spare(launch: &Launch) -> anyhow::Result<Option<Client>> {
    let Launch::Pmi1(pmi) = launch else { return Ok(None) };
    if pmi.host.job.is_none() {
        return Ok(None);
    }
    let doing = "cannot tell the launcher that other ranks go on without this one";
    let mut client = Client::connect(pmi).context(doing)?;
    client.put(KEY_OF_SPARE, "1").context(doing)?;
    Ok(Some(client))
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let grid = Grid::load(&args.file)?;
    let out = args.out.clone().unwrap_or_else(|| args.file.with_extension("csv"));
    let launch = Launch::detect();
    let is_rank = is_rank(&launch);
    let launcher = become_spare(&launch)?;
    let core_count = || if is_rank { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let threads_count = args.jobs.map_or_else(core_count, usize::from);
    let how = How { threads_count, fresh: args.fresh, is_shared: is_rank || args.share };
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len}, {elapsed}, {eta} left")?;
    let bar = ProgressBar::new(grid.entries.len() as u64).with_style(style);
    let control = Control::default();
    let summary = std::thread::scope(|scope| {
        let sweep = scope.spawn(|| grid::run(&grid, &out, how, &control));
        while !sweep.is_finished() {
            bar.set_position(control.done_count.load(Ordering::Relaxed) as u64);
            std::thread::park_timeout(Duration::from_millis(20));
        }
        sweep.join().expect("a sweep does not panic")
    });
    bar.finish_and_clear();
    // Without leave a rank counts as lost, and the others go on: so it is where this one has failed.
    let summary = summary?;
    if let Some(mut launcher) = launcher {
        launcher.finalize().context("cannot take leave of the launcher")?;
    }
    // One of the processes that share a sweep prints.
    if !summary.has_written {
        return Ok(Exit::Success);
    }
    let points = |count: usize| if count == 1 { "point" } else { "points" };
    for (note, count) in &summary.notes {
        eprintln!("note: {note} ({count} {})", points(*count));
    }
    for failure in &summary.failures {
        eprintln!("failed: {failure}");
    }
    let run_count = summary.point_count - summary.kept_count - summary.failures.len();
    writeln!(
        std::io::stdout().lock(),
        "{} {}: {run_count} run, {} there before, {} failed; results are in {}",
        summary.point_count,
        points(summary.point_count),
        summary.kept_count,
        summary.failures.len(),
        out.display()
    )?;
    Ok(if summary.failures.is_empty() { Exit::Success } else { Exit::Code(FAILURE) })
}
