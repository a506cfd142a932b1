//! `ayatori study`: a paper's experiments, run again, beside the paper's own results.

use crate::exit::{Exit, FAILURE};
use anyhow::Context as _;
use ayatori_sim::simulation::parse_bytes;
use ayatori_study::report::Report;
use ayatori_study::sweep::Control;
use ayatori_study::{all, cenju3, comet, pacing, trunking, vlan};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Computes a paper's figures and prints them beside the paper's own.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, clap::Subcommand)]
enum Study {
    /// VLAN Ethernet topologies on SuperNova and Misc: diameter, bisection, number of VLANs (tables 2 and 7,
    /// figure 2)
    Vlan(VlanArgs),
    /// Packet pacing on FX10: random ring and all-to-all over gap, and gaps that need no search (figures 1 to
    /// 3)
    Pacing(PacingArgs),
    /// InfiniBand links in parallel on a NUMA host: bandwidth by links, distance and striping (YAMPII;
    /// figures 4 to 8)
    Trunking(HostArgs),
    /// MPI/DE on Cenju-3: latency by way of waiting, throughput with and without copies (figures 1 to 8)
    Cenju3(HostArgs),
    /// Comet: where a packet's time goes, DMA, bandwidth of applications, the prediction (table 2, figures 3
    /// to 7)
    Comet(HostArgs),
    /// All of them on one page; packet pacing with the results that are in studies/pacing
    All(AllArgs),
}

/// What the studies of hosts take.
///
/// Prints the paper's figures beside ours and writes report.md and charts. The exit code is 1 if a figure
/// misses its bound.
#[derive(Debug, clap::Args)]
struct HostArgs {
    /// Folder for the results [default: studies/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What `study all` takes.
#[derive(Debug, clap::Args)]
struct AllArgs {
    /// Folder for index.html and the studies' folders
    #[arg(long, value_name = "DIR", default_value = "studies")]
    out: PathBuf,
}

/// Plans the paper's two clusters in all of its topologies, and simulates all-to-all and random ring on each.
///
/// The exit code is 1 if a figure of the paper's tables differs.
#[derive(Debug, clap::Args)]
struct VlanArgs {
    /// Folder with supernova.toml and misc.toml [default: those that this program was built with]
    #[arg(long, value_name = "DIR")]
    machines: Option<PathBuf>,
    /// Length of the messages that are simulated: 64K, 1M ... With 16K it takes four times as long
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = parse_bytes)]
    bytes: usize,
    /// Simulations at a time; as many as there are cores if not given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Only the tables: simulate nothing
    #[arg(long)]
    tables: bool,
}

/// Random ring and all-to-all with gaps between packets, on the paper's FX10.
///
/// Writes results.csv, table.txt, figures and report.md. Finished runs are kept: the same command
/// goes on where it was stopped.
#[derive(Debug, clap::Args)]
struct PacingArgs {
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

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.study {
        Study::Vlan(args) => run_vlan(&args),
        Study::Pacing(args) => run_pacing(args),
        Study::Trunking(args) => run_host(args, "trunking", |progress| trunking::run(progress)),
        Study::Cenju3(args) => run_host(args, "cenju3", |progress| cenju3::run(progress)),
        Study::Comet(args) => run_host(args, "comet", |progress| comet::run(progress)),
        Study::All(args) => run_all(&args.out),
    }
}

fn run_vlan(args: &VlanArgs) -> anyhow::Result<Exit> {
    let report = vlan::run(args.machines.as_deref())?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(report.text().as_bytes())?;
    if !args.tables {
        let variants = vlan::Variants::plan(args.machines.as_deref())?;
        let core_count = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads_count = args.jobs.map_or_else(core_count, usize::from);
        let how = vlan::Simulations { bytes: args.bytes as u64, threads_count };
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len}, {elapsed}, {eta} left")?;
        let bar = ProgressBar::new(variants.run_count() as u64).with_style(style);
        let control = Control::default();
        let text = std::thread::scope(|scope| {
            let runs = scope.spawn(|| variants.simulate(how, &control));
            while !runs.is_finished() {
                bar.set_position(control.done_count.load(Ordering::Relaxed) as u64);
                std::thread::park_timeout(Duration::from_millis(100));
            }
            runs.join().expect("a simulation does not panic")
        });
        bar.finish_and_clear();
        write!(stdout, "\n{}", text?)?;
    }
    Ok(if report.agrees() { Exit::Success } else { Exit::Code(FAILURE) })
}

fn spinner() -> anyhow::Result<ProgressBar> {
    Ok(ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}, {elapsed}")?))
}

fn run_host(
    args: HostArgs,
    name: &str,
    study: impl FnOnce(&mut dyn FnMut(&str)) -> anyhow::Result<Report>,
) -> anyhow::Result<Exit> {
    let out = args.out.unwrap_or_else(|| Path::new("studies").join(name));
    let bar = spinner()?;
    let report = study(&mut |what| bar.set_message(what.to_owned()));
    bar.finish_and_clear();
    let report = report?;
    report.write(&out)?;
    let mut stdout = std::io::stdout().lock();
    write!(stdout, "{}", report.text())?;
    writeln!(stdout, "The page is {}", out.join("report.md").display())?;
    let (met, bound) = report.met();
    Ok(if met == bound { Exit::Success } else { Exit::Code(FAILURE) })
}

fn run_all(out: &Path) -> anyhow::Result<Exit> {
    let bar = spinner()?;
    let page = all::run(&out.join("pacing"), |what| bar.set_message(what.to_owned()));
    bar.finish_and_clear();
    let page = page?;
    for report in &page.reports {
        report.write(&out.join(report.name))?;
    }
    let index = out.join("index.html");
    std::fs::write(&index, &page.html).with_context(|| format!("cannot write {}", index.display()))?;
    let mut stdout = std::io::stdout().lock();
    for report in &page.reports {
        let (met, bound) = report.met();
        writeln!(stdout, "{}: {met} of {bound} bounds met", report.title)?;
    }
    writeln!(stdout, "The page is {}", index.display())?;
    Ok(Exit::Success)
}

fn run_pacing(args: PacingArgs) -> anyhow::Result<Exit> {
    let PacingArgs { quick, machine, out, seed, jobs, fresh, report_only } = args;
    let options = pacing::Options { quick, machine, out, seed, jobs, fresh, report_only };
    let style =
        ProgressStyle::with_template("{wide_bar} {percent} % of the packets, {msg}, {elapsed}, {eta} left")?;
    let bar = ProgressBar::no_length().with_style(style);
    let summary = pacing::run(&options, |event| match event {
        pacing::Event::MovedAside(path) => {
            eprintln!("note: results of another machine, seed or simulator are now in {}", path.display());
        }
        pacing::Event::Begin { step_count } => bar.set_length(step_count),
        pacing::Event::Start(case) => bar.set_message(case),
        pacing::Event::End { step_count } => bar.inc(step_count),
    });
    bar.finish_and_clear();
    let summary = summary?;
    let mut out = std::io::stdout().lock();
    write!(out, "{}", summary.table)?;
    for finding in &summary.findings {
        let verdict = finding.verdict.name().trim_matches('*');
        writeln!(out, "\n{}\n  {verdict}: {}", finding.paper, finding.here)?;
    }
    let (done, all) = summary.run_count;
    writeln!(out, "\n{done} of {all} runs; the page is {}", summary.page.display())?;
    Ok(Exit::Success)
}
