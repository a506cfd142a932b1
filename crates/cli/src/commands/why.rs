//! `ayatori why`: what the ranks of a job do and wait for, and whether that can end.

use crate::exit::{Coded, Exit};
use crate::why::find::{self, Job, LISTENS_AS};
use crate::why::report::{self, HostReport, Ranks};
use crate::why::show::{self, Heading};
use crate::why::words;
use crate::why::{graph::Graph, look};
use anyhow::Context;
use ayatori_devices::shm::{Observer, ShmError};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

/// What `ayatori why` answers where ranks can never go on.
const STUCK: u8 = 3;
/// Between the two looks at a job that seems to be stuck.
const SECOND_LOOK: Duration = Duration::from_millis(150);
/// How long a launcher may take to ask all hosts.
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(5);

/// What `ayatori why` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without JOB: the one job there is, or a list of them. The job goes on undisturbed.
Exit code: 0 when every rank may go on, 3 when ranks can never go on (a deadlock), 1 when nothing can be said.
SIGUSR1 to `ayatori run` prints the same table there.")]
pub(crate) struct Args {
    /// The job's id or the beginning of it, or the process id of its launcher or of one of its ranks
    job: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show every rank on a line of its own, however many there are
    #[arg(short, long, conflicts_with = "json")]
    all: bool,
}

/// What a launcher that is asked by its socket answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LaunchersAnswer {
    pub(crate) program: String,
    pub(crate) age_ms: u64,
    pub(crate) ranks_count: u32,
    pub(crate) launcher: i32,
    pub(crate) hosts: Vec<HostReport>,
}

/// Says why a job does not go on.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let mut jobs = find::jobs();
    let job = match &args.job {
        Some(wanted) => choose(jobs, wanted)?,
        None if jobs.len() == 1 => jobs.remove(0),
        None if jobs.is_empty() => return Err(Coded::error(1, "no MPI job of this user runs on this host")),
        None => return list(&jobs, args.json),
    };
    let (heading, reports) = examine(job)?;
    let ranks = report::ranks(&reports, heading.ranks_count);
    let (text, is_stuck) = if args.json {
        show::json(&heading, &reports, &ranks)
    } else {
        show::text(&heading, &reports, &ranks, args.all)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(if is_stuck { Exit::Code(STUCK) } else { Exit::Success })
}

/// The job that the user means.
fn choose(jobs: Vec<Job>, wanted: &str) -> anyhow::Result<Job> {
    let pid = wanted.parse::<i32>().ok();
    let is_it = |job: &Job| {
        pid.is_some_and(|pid| job.launcher == Some(pid) || job.ranks.iter().any(|rank| rank.pid == pid))
    };
    let (by_pid, others): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_it);
    let mut found: Vec<Job> = match by_pid.is_empty() {
        false => by_pid,
        true => others.into_iter().filter(|job| job.id.starts_with(wanted)).collect(),
    };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            // A launcher of a job elsewhere says its process id only when asked.
            let listening = find::jobs().into_iter().filter(|job| job.listens);
            let mut by_launcher = listening.filter(|job| {
                pid.is_some() && ask_launcher(&job.id, false).is_ok_and(|answer| Some(answer.launcher) == pid)
            });
            by_launcher.next().ok_or_else(|| {
                Coded::error(
                    1,
                    format!("no MPI job of this user on this host is '{wanted}' (a job's id, or the process id of its launcher or of a rank); `ayatori why` lists them"),
                )
            })
        }
        count => {
            Err(Coded::error(1, format!("{count} jobs begin with '{wanted}'; `ayatori why` lists them")))
        }
    }
}

/// Why a job's memory says nothing to us.
fn cannot_look(error: ShmError) -> anyhow::Error {
    match error {
        ShmError::Mismatch { .. } => anyhow::anyhow!(
            "the job's MPI library is of another version than this `ayatori`: use the one that is installed beside it"
        ),
        error => anyhow::Error::new(error).context("looking into the job's shared memory"),
    }
}

/// What the ranks of a job do, by two looks where it seems to be stuck.
fn examine(job: Job) -> anyhow::Result<(Heading, Vec<HostReport>)> {
    let mut heading = Heading {
        job: job.id.clone(),
        program: job.program.clone(),
        age_ms: job.age_ms,
        ranks_count: job.world_count,
        limits: Vec::new(),
    };
    if job.listens {
        let answer = ask_launcher(&job.id, true)?;
        heading.program.clone_from(&answer.program);
        (heading.age_ms, heading.ranks_count) = (Some(answer.age_ms), Some(answer.ranks_count));
        let again = || Ok(ask_launcher(&job.id, true)?.hosts);
        let reports = twice(answer.hosts, heading.ranks_count, again)?;
        return Ok((heading, reports));
    }
    let observer = match &job.segment {
        Some(segment) => Observer::open(segment.try_clone()?).map_err(cannot_look)?,
        None => None,
    };
    let world_count = observer.as_ref().and_then(|o| o.look().iter().find_map(|sight| sight.world_count));
    heading.ranks_count = heading.ranks_count.or(world_count);
    let host = super::run::hostname();
    let look = || look::look(host, observer.as_ref(), &job.ranks);
    let reports = twice(vec![look()], heading.ranks_count, || Ok(vec![look()]))?;
    let seen_count = reports.iter().map(|report| report.ranks.len()).sum::<usize>();
    if let Some(missing @ 1..) = heading.ranks_count.map(|count| (count as usize).saturating_sub(seen_count))
    {
        let where_to = if job.is_ours {
            "run `ayatori why` on the host of its launcher"
        } else {
            "its launcher is not `ayatori run`, so there is nobody to ask there: run `ayatori why` on each host"
        };
        heading.limits.push(format!("{missing} ranks are not on this host: {where_to}"));
    }
    if observer.is_none() {
        heading.limits.push("no rank has joined the job by this library yet (MPI_Init)".into());
    }
    Ok((heading, reports))
}

/// A second look, where the first says that ranks are stuck: those that have moved meanwhile are not.
fn twice(
    first: Vec<HostReport>,
    world_count: Option<u32>,
    again: impl FnOnce() -> anyhow::Result<Vec<HostReport>>,
) -> anyhow::Result<Vec<HostReport>> {
    if !seems_stuck(&report::ranks(&first, world_count)) {
        return Ok(first);
    }
    std::thread::sleep(SECOND_LOOK);
    Ok(report::settle(&first, again()?))
}

fn seems_stuck(ranks: &Ranks) -> bool {
    !Graph::new(ranks).verdict().stuck.is_empty()
}

/// Asks the launcher of a job on several hosts; with `looks`, what all ranks do.
fn ask_launcher(id: &str, looks: bool) -> anyhow::Result<LaunchersAnswer> {
    let address = SocketAddr::from_abstract_name(format!("{LISTENS_AS}{id}"))?;
    let mut socket = UnixStream::connect_addr(&address).context("reaching the job's launcher")?;
    socket.set_read_timeout(Some(LAUNCHER_PATIENCE))?;
    socket.write_all(if looks { b"why\n" } else { b"who\n" })?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).context("hearing the job's launcher (is it stopped?)")?;
    serde_json::from_slice(&answer).context("the job's launcher has refused, or is another version")
}

/// A line of the list of jobs.
#[derive(Serialize)]
struct Entry {
    job: String,
    program: String,
    ranks_count: Option<u32>,
    launcher: Option<i32>,
    age_ms: Option<u64>,
}

fn list(jobs: &[Job], is_json: bool) -> anyhow::Result<Exit> {
    let entry = |job: &Job| {
        let known = Entry {
            job: job.id.clone(),
            program: job.program.clone(),
            ranks_count: job.world_count.or(u32::try_from(job.ranks.len()).ok()),
            launcher: job.launcher,
            age_ms: job.age_ms,
        };
        match job.listens.then(|| ask_launcher(&job.id, false)) {
            Some(Ok(answer)) => Entry {
                program: answer.program,
                ranks_count: Some(answer.ranks_count),
                launcher: Some(answer.launcher),
                age_ms: Some(answer.age_ms),
                ..known
            },
            _ => known,
        }
    };
    let entries: Vec<Entry> = jobs.iter().map(entry).collect();
    let text = if is_json { serde_json::to_string_pretty(&entries)? + "\n" } else { listed(&entries) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

fn listed(entries: &[Entry]) -> String {
    let mut text = String::from("several jobs run here; say which: ayatori why JOB\n\n");
    let _ = writeln!(text, "{:16}  {:>8}  {:>5}  {:>12}  program", "job", "launcher", "ranks", "for");
    for entry in entries {
        let number = |number: Option<String>| number.unwrap_or_default();
        let _ = writeln!(
            text,
            "{:16}  {:>8}  {:>5}  {:>12}  {}",
            entry.job,
            number(entry.launcher.map(|pid| pid.to_string())),
            number(entry.ranks_count.map(|count| count.to_string())),
            number(entry.age_ms.map(show::age)),
            words::one_line(&entry.program)
        );
    }
    text
}
