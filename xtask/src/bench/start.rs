//! `cargo xtask bench --only start`: start to end of an empty program, and memory a rank, beside Hydra.
//!
//! Numbers of ranks × numbers of hosts, all hosts this machine: `ayatori run` with as many agents, MPICH's
//! `mpiexec` with as many proxies, both forked and not through `ssh`. Within a round each library has its
//! turn. All of it is bounded: a launch, what a library may spend on a figure, and the whole table. What was
//! cut stands in the table with the reason.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use super::report::{median, number};
use super::{Options, machine, parse, program_path, source, wrapped};
use crate::peers::Library;
use crate::{paths, process};

/// The name for `--only`.
pub(super) const GROUP: &str = "start";

const RANKS: [usize; 3] = [32, 256, 1000];
const HOSTS: [usize; 3] = [1, 10, 100];
/// Ours first.
const LIBRARIES: [Library; 2] = [Library::Ayatori, Library::Mpich];
const PROGRAMS: [&str; 2] = ["startup", "memory"];

/// What may be spent.
struct Limits {
    runs: usize,
    /// One launch.
    launch: Duration,
    /// All launches of a library for one figure. The first is always made.
    figure: Duration,
    /// The whole table.
    total: Duration,
}

/// What came of a library at a number of ranks and hosts.
#[derive(Clone, Debug, Default, Serialize)]
struct Figures {
    /// Seconds from start to end of the launcher, a launch each.
    seconds: Vec<f64>,
    /// A launch was ended after so many seconds.
    ended_after_s: Option<f64>,
    /// MiB a rank, the mean over ranks: the most that was resident, shared pages counted in each process.
    peak_mib: Option<f64>,
    /// MiB a rank, the mean over ranks: resident, shared pages divided among their users.
    proportional_mib: Option<f64>,
    /// A smaller job was ended already: this one waits until all others are measured.
    #[serde(skip)]
    is_postponed: bool,
    /// Why something is missing.
    notes: Vec<String>,
}

impl Figures {
    fn is_out(&self) -> bool {
        self.is_postponed || self.ended_after_s.is_some() || !self.notes.is_empty()
    }

    fn spent(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.iter().sum())
    }

    /// The median in seconds; none where no launch ended well.
    fn median(&self) -> Option<f64> {
        (!self.seconds.is_empty()).then(|| median(&self.seconds))
    }

    fn time(&self) -> String {
        match (self.median(), self.ended_after_s) {
            (Some(median), _) => format!("{} ({})", number(median), self.seconds.len()),
            (None, Some(limit)) => format!("> {limit:.0} (1)"),
            (None, None) => "-".to_owned(),
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
struct Row {
    ranks: usize,
    hosts: usize,
    ours: Figures,
    hydra: Figures,
}

impl Row {
    fn of(&mut self, library: Library) -> &mut Figures {
        if library == Library::Ayatori { &mut self.ours } else { &mut self.hydra }
    }

    /// Whether a library had to be ended in this job, which has at most so many ranks and hosts.
    fn has_ended_by(&self, library: Library, ranks: usize, hosts: usize) -> bool {
        let figures = if library == Library::Ayatori { &self.ours } else { &self.hydra };
        figures.ended_after_s.is_some() && self.ranks <= ranks && self.hosts <= hosts
    }

    /// Ours over Hydra's; `true`: at most that, for Hydra's launch was ended.
    fn ratio(&self) -> Option<(f64, bool)> {
        let ours = self.ours.median()?;
        match (self.hydra.median(), self.hydra.ended_after_s) {
            (Some(hydra), _) => Some((ours / hydra, false)),
            (None, Some(limit)) => Some((ours / limit, true)),
            (None, None) => None,
        }
    }
}

/// The report.
#[derive(Serialize)]
struct Report {
    machine: String,
    cpus: usize,
    versions: Vec<String>,
    runs: usize,
    rows: Vec<Row>,
}

/// Measures and writes `start.txt` and `start.json`.
///
/// # Errors
/// A library cannot be installed or its programs cannot be compiled; nothing of ours was measured.
pub(super) fn run(options: &Options) -> Result<()> {
    for library in LIBRARIES {
        library.prepare().with_context(|| library.name())?;
        for program in PROGRAMS {
            library.compile(&source(program), &program_path(library, program))?;
        }
    }
    let runs = options.runs.unwrap_or(if options.quick { 3 } else { 5 });
    let seconds = Duration::from_secs;
    let limits = match options.quick {
        true => Limits { runs, launch: seconds(20), figure: seconds(20), total: seconds(150) },
        false => Limits { runs, launch: seconds(60), figure: seconds(45), total: seconds(570) },
    };
    let mut bench = Bench { wrap: options.wrap.as_deref(), limits, begin: Instant::now(), rows: Vec::new() };
    for ranks in RANKS {
        for hosts in HOSTS.into_iter().filter(|hosts| *hosts <= ranks) {
            bench.measure(ranks, hosts)?;
        }
    }
    bench.catch_up()?;
    let report = Report {
        machine: machine(),
        cpus: paths::cpu_count(),
        versions: LIBRARIES.map(|library| format!("{} {}", library.name(), library.version())).to_vec(),
        runs,
        rows: bench.rows,
    };
    let output = paths::root().join(&options.output);
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let text = text(&report);
    print!("\n{text}");
    fs::write(output.join("start.txt"), &text)?;
    fs::write(output.join("start.json"), serde_json::to_string_pretty(&report)? + "\n")?;
    println!("\nwritten to {0}/start.txt and {0}/start.json", output.display());
    if report.rows.iter().all(|row| row.ours.seconds.is_empty()) {
        bail!("nothing of ours was measured");
    }
    Ok(())
}

struct Bench<'o> {
    wrap: Option<&'o str>,
    limits: Limits,
    begin: Instant,
    rows: Vec<Row>,
}

impl Bench<'_> {
    fn measure(&mut self, ranks: usize, hosts: usize) -> Result<()> {
        let mut row = Row { ranks, hosts, ours: Figures::default(), hydra: Figures::default() };
        for library in LIBRARIES {
            let figures = row.of(library);
            figures.notes.extend(self.excess(library, ranks));
            figures.is_postponed = self.rows.iter().any(|row| row.has_ended_by(library, ranks, hosts));
        }
        for _ in 0..self.limits.runs {
            for library in LIBRARIES {
                let figures = row.of(library);
                let is_enough = !figures.seconds.is_empty() && figures.spent() >= self.limits.figure;
                if !figures.is_out() && !is_enough {
                    self.time(library, ranks, hosts, figures)?;
                }
            }
        }
        for library in LIBRARIES {
            let figures = row.of(library);
            if !figures.is_out() {
                self.weigh(library, ranks, hosts, figures)?;
            }
        }
        let [ours, hydra] = [row.ours.time(), row.hydra.time()];
        println!("{ranks} ranks, {hosts} hosts: {ours} s, Hydra {hydra} s");
        self.rows.push(row);
        Ok(())
    }

    /// Launches what was postponed, once each, in the time that is left.
    fn catch_up(&mut self) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        for row in &mut rows {
            let (ranks, hosts) = (row.ranks, row.hosts);
            for library in LIBRARIES {
                let figures = row.of(library);
                if std::mem::take(&mut figures.is_postponed) && !figures.is_out() {
                    self.time(library, ranks, hosts, figures)?;
                    println!("{ranks} ranks, {hosts} hosts: {} {} s", library.name(), figures.time());
                }
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// Why a job of so many ranks is not to be begun: what fewer ranks took would not fit the memory.
    fn excess(&self, library: Library, ranks: usize) -> Option<String> {
        let known = |row: &Row| {
            let figures = if library == Library::Ayatori { &row.ours } else { &row.hydra };
            figures.proportional_mib
        };
        let most = self.rows.iter().filter_map(known).fold(0.0, f64::max);
        let needed = most * ranks as f64;
        let free = available_mib()? * 0.7;
        (needed > free).then(|| {
            format!("not begun: {ranks} ranks of {most:.1} MiB, as fewer took, are more than {free:.0} MiB")
        })
    }

    /// What is left of the table's time for one launch; none: too little.
    fn left(&self, figures: &mut Figures) -> Option<Duration> {
        let left = self.limits.total.saturating_sub(self.begin.elapsed());
        if left < self.limits.launch / 4 {
            let total = self.limits.total.as_secs();
            figures.notes.push(format!("not begun: the whole table has {total} s"));
            return None;
        }
        Some(left.min(self.limits.launch))
    }

    fn launch(
        &self,
        library: Library,
        (ranks, hosts): (usize, usize),
        (program, words): (&str, &[&str]),
        limit: Duration,
    ) -> Result<process::Outcome> {
        let program = program_path(library, program);
        let mut command = wrapped(on_hosts(library, ranks, hosts, &program, words), self.wrap);
        let outcome = process::capture(&mut command, limit)?;
        end_left_over(&program);
        Ok(outcome)
    }

    /// Times one launch of the empty program.
    fn time(&self, library: Library, ranks: usize, hosts: usize, figures: &mut Figures) -> Result<()> {
        let Some(limit) = self.left(figures) else { return Ok(()) };
        let outcome = self.launch(library, (ranks, hosts), ("startup", &[]), limit)?;
        if outcome.success() {
            figures.seconds.push(outcome.wall.as_secs_f64());
        } else if outcome.timed_out {
            figures.ended_after_s = Some(limit.as_secs_f64());
        } else {
            figures.notes.push(outcome.reason());
        }
        Ok(())
    }

    /// Measures the memory a rank.
    fn weigh(&self, library: Library, ranks: usize, hosts: usize, figures: &mut Figures) -> Result<()> {
        let Some(limit) = self.left(figures) else { return Ok(()) };
        let outcome = self.launch(library, (ranks, hosts), ("memory", &["start"]), limit)?;
        if !outcome.success() {
            figures.notes.push(format!("memory: {}", outcome.reason()));
        }
        for (name, _, value, _) in parse(&outcome.stdout) {
            match name.as_str() {
                "memory_peak" => figures.peak_mib = Some(value),
                "memory_pss" => figures.proportional_mib = Some(value),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The command that runs `program` on so many ranks in blocks on so many hosts, which are this machine.
fn on_hosts(library: Library, ranks: usize, hosts: usize, program: &Path, words: &[&str]) -> Command {
    let plain = library.launch(ranks, program, words);
    if hosts == 1 {
        return plain;
    }
    let slots = ranks.div_ceil(hosts);
    let list: Vec<String> = (0..hosts).map(|host| format!("h{host}:{slots}")).collect();
    let mut command = Command::new(plain.get_program());
    let mut arguments = plain.get_args();
    if library == Library::Ayatori {
        // The subcommand, then options.
        command.args(arguments.by_ref().take(1));
        // As ssh would start them.
        command.args(["--agent", "env AYATORI_BENCH_HOST={host}", "--branch-count", "32"]);
        command.args(["--hosts", &list.join(",")]);
    } else {
        command.args(["-launcher", "fork", "-hosts", &list.join(",")]);
    }
    command.args(arguments).envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Memory that can be had without swapping, in MiB.
fn available_mib() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Ends what a launcher that was itself ended has left: it would run beside the next launch.
fn end_left_over(program: &Path) {
    let end = Instant::now() + Duration::from_secs(10);
    let is_its =
        |entry: &fs::DirEntry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program);
    loop {
        let Ok(entries) = fs::read_dir("/proc") else { return };
        let found: Vec<fs::DirEntry> = entries.flatten().filter(is_its).collect();
        if found.is_empty() || Instant::now() > end {
            return;
        }
        for entry in found {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                // It may have ended meanwhile.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    let Report { machine, cpus, runs, .. } = report;
    let _ = writeln!(out, "{machine}, {cpus} CPUs; {}", report.versions.join(", "));
    let _ = writeln!(
        out,
        "Hosts are agents of `ayatori run` and proxies of Hydra on this machine; one host: no agent.\n\n\
         start to end of an empty program, s; medians of up to {runs} launches, their number in brackets"
    );
    let head = ["ranks", "hosts", "ayatori", "hydra", "ours/hydra"];
    let _ = writeln!(out, "{:>6} {:>6} {:>14} {:>14} {:>11}", head[0], head[1], head[2], head[3], head[4]);
    for row in &report.rows {
        let ratio = row.ratio().map_or("-".to_owned(), |(ratio, is_most)| {
            format!("{}{ratio:.3}", if is_most { "< " } else { "" })
        });
        let Row { ranks, hosts, ours, hydra } = row;
        let _ = writeln!(out, "{ranks:>6} {hosts:>6} {:>14} {:>14} {ratio:>11}", ours.time(), hydra.time());
    }
    let _ = writeln!(
        out,
        "\nmemory a rank after MPI_Init and a barrier, MiB: most ever resident (shared pages counted in each \
         process),\nresident with shared pages divided among their users"
    );
    let head = ["ranks", "hosts", "ayatori peak", "proportional", "hydra peak", "proportional"];
    let _ = writeln!(
        out,
        "{:>6} {:>6} {:>14} {:>14} {:>14} {:>14}",
        head[0], head[1], head[2], head[3], head[4], head[5]
    );
    for Row { ranks, hosts, ours, hydra } in &report.rows {
        let figures = [ours.peak_mib, ours.proportional_mib, hydra.peak_mib, hydra.proportional_mib];
        let cells = figures.map(|figure| figure.map_or("-".to_owned(), number));
        let _ = write!(out, "{ranks:>6} {hosts:>6}");
        for cell in cells {
            let _ = write!(out, " {cell:>14}");
        }
        out.push('\n');
    }
    for Row { ranks, hosts, ours, hydra } in &report.rows {
        for (name, figures) in [("ayatori", ours), ("hydra", hydra)] {
            if let Some(limit) = figures.ended_after_s {
                let _ = writeln!(out, "{name}, {ranks} ranks, {hosts} hosts: ended after {limit:.0} s");
            }
            for note in &figures.notes {
                let _ = writeln!(out, "{name}, {ranks} ranks, {hosts} hosts: {note}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], hydra: Figures) -> Row {
        let ours = Figures { seconds: ours.to_vec(), ..Figures::default() };
        Row { ranks: 256, hosts: 10, ours, hydra }
    }

    #[test]
    fn a_launch_that_was_ended_bounds_the_ratio() {
        let ended = Figures { ended_after_s: Some(60.0), ..Figures::default() };
        let row = row(&[1.0, 3.0, 2.0], ended);
        assert_eq!(row.ratio(), Some((2.0 / 60.0, true)));
        assert_eq!((row.ours.time(), row.hydra.time()), ("2.00 (3)".to_owned(), "> 60 (1)".to_owned()));
        let report = Report { machine: "m".into(), cpus: 2, versions: Vec::new(), runs: 3, rows: vec![row] };
        assert!(text(&report).contains("< 0.033") && text(&report).contains("ended after 60 s"));
    }

    #[test]
    fn jobs_larger_than_one_that_was_ended_are_postponed() {
        let ended = Figures { ended_after_s: Some(60.0), ..Figures::default() };
        let row = row(&[1.0], ended);
        let is_postponed = |ranks, hosts| row.has_ended_by(Library::Mpich, ranks, hosts);
        assert!(is_postponed(256, 10) && is_postponed(1000, 10) && is_postponed(256, 100));
        assert!(!is_postponed(32, 10) && !is_postponed(1000, 1));
        assert!(!row.has_ended_by(Library::Ayatori, 1000, 100));
    }

    #[test]
    fn without_one_of_the_two_there_is_no_ratio() {
        assert_eq!(row(&[], Figures { seconds: vec![1.0], ..Figures::default() }).ratio(), None);
        assert_eq!(row(&[1.0], Figures::default()).ratio(), None);
    }

    #[test]
    fn hosts_are_named_with_their_slots_before_the_other_options() {
        let line = |library| process::line(&on_hosts(library, 25, 10, Path::new("p"), &["start"]));
        let ours = line(Library::Ayatori);
        let agents = "run --agent env AYATORI_BENCH_HOST={host} --branch-count 32 --hosts h0:3,h1:3";
        assert!(ours.contains(agents), "{ours}");
        assert!(ours.ends_with("-n 25 p start"), "{ours}");
        let hydra = line(Library::Mpich);
        assert!(hydra.contains("mpiexec -launcher fork -hosts h0:3,") && hydra.ends_with("p start"));
    }
}
