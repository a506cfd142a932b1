//! The columns: what is run, and what has to come of it.

use super::rows::{Row, Site};
use crate::process::{self, Outcome};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Hello,
    TwoHosts,
    Imb,
    Mpi4py,
    KilledRank,
    Abort,
    Stdin,
    Spawn,
}

pub(super) const CELLS: [Cell; 8] = [
    Cell::Hello,
    Cell::TwoHosts,
    Cell::Imb,
    Cell::Mpi4py,
    Cell::KilledRank,
    Cell::Abort,
    Cell::Stdin,
    Cell::Spawn,
];

/// What came of one.
pub(super) enum Verdict {
    Passed,
    /// It cannot be run here, or not yet: why.
    NotRun(String),
    /// The launcher cannot do it, and the program was told so by an error: with which text.
    Refused(String),
    Failed(String),
}

impl Cell {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::TwoHosts => "two hosts",
            Self::Imb => "IMB-MPI1",
            Self::Mpi4py => "mpi4py",
            Self::KilledRank => "killed rank",
            Self::Abort => "MPI_Abort",
            Self::Stdin => "stdin",
            Self::Spawn => "spawn",
        }
    }

    /// What the probe is told.
    fn word(self) -> &'static str {
        match self {
            Self::KilledRank => "kill",
            Self::Abort => "abort",
            Self::Stdin => "stdin",
            Self::Spawn => "spawn",
            _ => "hello",
        }
    }
}

/// Ranks of a job on one host, and on two.
const RANKS: usize = 3;

/// Runs a cell.
pub(super) fn run(site: &Site<'_>, row: &Row, cell: Cell) -> Verdict {
    let bench = site.bench;
    let hosts = if cell == Cell::TwoHosts { 2 } else { 1 };
    if hosts == 2
        && let Some(why) = row.no_second_host
    {
        return Verdict::NotRun(why.to_owned());
    }
    let ranks = RANKS.to_string();
    let words: Vec<String> = match cell {
        Cell::Imb => {
            let Some(imb) = &bench.imb else { return Verdict::NotRun("no --imb was given".to_owned()) };
            let brief = ["-time", "0.02", "-iter", "10", "-msglog", "12", "-npmin", &ranks];
            let tests = ["PingPong", "Sendrecv", "Allreduce", "Bcast", "Alltoall", "Barrier"];
            let program = imb.display().to_string();
            std::iter::once(program.as_str()).chain(tests).chain(brief).map(str::to_owned).collect()
        }
        Cell::Mpi4py => {
            let Some(python) = &bench.python else {
                return Verdict::NotRun("no --python was given".to_owned());
            };
            let program = python.display().to_string();
            let library = format!("LD_LIBRARY_PATH={}", bench.prefix.join("lib").display());
            let words = ["env", &library, &program, "-m", "mpi4py.bench", "ringtest"];
            words.map(str::to_owned).to_vec()
        }
        cell => vec![bench.probe.display().to_string(), cell.word().to_owned(), ranks],
    };
    let mut command = (row.command)(site, RANKS, hosts);
    command.args(words).current_dir(&bench.folder);
    if cell == Cell::Stdin {
        command = with_input(&command);
    }
    let outcome = match process::capture(&mut command, bench.limit) {
        Ok(outcome) => outcome,
        Err(error) => return Verdict::NotRun(format!("{error:#}")),
    };
    let verdict = judge(cell, &outcome);
    match left_over(&bench.probe) {
        Some(pid) => Verdict::Failed(format!("process {pid} of the job is left")),
        None => verdict,
    }
}

/// The command, with a line on its standard input.
fn with_input(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo a word | \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        shell.current_dir(directory);
    }
    shell
}

fn judge(cell: Cell, outcome: &Outcome) -> Verdict {
    let said = |text: &str| outcome.stdout.contains(text);
    let went_on = outcome.stderr.contains("went on after");
    let is_good = match cell {
        Cell::KilledRank | Cell::Abort => {
            let has_begun = outcome.stderr.contains(&format!("probe: {} begins", cell.word()));
            has_begun && !outcome.timed_out && !outcome.status.success() && !went_on
        }
        Cell::Imb => outcome.success() && said("All processes entering MPI_Finalize"),
        Cell::Mpi4py => outcome.success() && said(&format!("({RANKS} processes,")),
        cell => outcome.success() && said(&format!("probe: {} good", cell.word())),
    };
    if is_good {
        let refusal = outcome.stdout.lines().find_map(|line| line.strip_prefix("probe: spawn refused: "));
        return refusal.map_or(Verdict::Passed, |why| Verdict::Refused(why.replace('|', "/")));
    }
    let why = if went_on {
        "a rank goes on after the end of another".to_owned()
    } else if outcome.success() {
        format!("{} ends well, which it should not, or says nothing", cell.title())
    } else {
        outcome.reason()
    };
    Verdict::Failed(why.replace('|', "/"))
}

/// A process of the probe that still runs some seconds after its job.
fn left_over(probe: &Path) -> Option<u32> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let found = fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let program = fs::read_link(entry.path().join("exe")).ok()?;
            (program == probe).then_some(pid)
        });
        if found.is_none() || Instant::now() > end {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
