//! All that `ayatori why` says: which jobs there are, and what the ranks of one do and wait for.

use crate::error::{Error, FAILURE};
use crate::machine::hostname;
use crate::why::find::{self, Job};
use crate::why::graph::Graph;
use crate::why::listen::{Question, ask};
use crate::why::look::look;
use crate::why::report::{self, HostReport, Ranks};
use crate::why::show::{self, Heading};
use crate::why::words;
use ayatori_devices::shm::{Observer, ShmError};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// Between the two looks at a job that seems to be stuck.
const SECOND_LOOK: Duration = Duration::from_millis(150);

/// How to say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people: ranks of a large job that do the same share a line.
    Table,
    /// For people: a line for every rank.
    EachRank,
    /// For programs.
    Json,
}

/// The text to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Lines, or JSON.
    pub text: String,
    /// Ranks of the job can never go on.
    pub is_stuck: bool,
}

/// Reports the ranks of a job: the one that `wanted` names (its id or the beginning of it, the process id of
/// its launcher or of a rank), or the only one. Lists the jobs if there are several.
///
/// # Errors
/// There is no such job; its launcher does not answer; its library is of another version.
pub fn examine(wanted: Option<&str>, form: Form) -> anyhow::Result<Finding> {
    let mut jobs = find::jobs();
    let job = match wanted {
        Some(wanted) => choose(jobs, wanted)?,
        None if jobs.len() == 1 => jobs.remove(0),
        None if jobs.is_empty() => {
            return Err(Error::new(FAILURE, "no MPI job of this user runs on this host"));
        }
        None => return Ok(Finding { text: list(&jobs, form)?, is_stuck: false }),
    };
    let (heading, reports) = reports_of(job)?;
    let ranks = report::ranks(&reports, heading.ranks_count);
    let (text, is_stuck) = match form {
        Form::Json => show::json(&heading, &reports, &ranks),
        Form::Table => show::text(&heading, &reports, &ranks, false),
        Form::EachRank => show::text(&heading, &reports, &ranks, true),
    };
    Ok(Finding { text, is_stuck })
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
                pid.is_some() && ask(&job.id, Question::Who).is_ok_and(|answer| Some(answer.launcher) == pid)
            });
            by_launcher.next().ok_or_else(|| {
                Error::new(
                    FAILURE,
                    format!(
                        "no MPI job of this user on this host is '{wanted}' (a job's id, or the process id of \
                         its launcher or of a rank); `ayatori why` lists them"
                    ),
                )
            })
        }
        count => {
            Err(Error::new(FAILURE, format!("{count} jobs begin with '{wanted}'; `ayatori why` lists them")))
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
fn reports_of(job: Job) -> anyhow::Result<(Heading, Vec<HostReport>)> {
    let mut heading = Heading {
        job: job.id.clone(),
        program: job.program.clone(),
        age_ms: job.age_ms,
        ranks_count: job.world_count,
        limits: Vec::new(),
    };
    if job.listens {
        let answer = ask(&job.id, Question::Why)?;
        heading.program.clone_from(&answer.program);
        (heading.age_ms, heading.ranks_count) = (Some(answer.age_ms), Some(answer.ranks_count));
        let again = || Ok(ask(&job.id, Question::Why)?.hosts);
        let reports = twice(answer.hosts, heading.ranks_count, again)?;
        return Ok((heading, reports));
    }
    let observer = match &job.segment {
        Some(segment) => Observer::open(segment.try_clone()?).map_err(cannot_look)?,
        None => None,
    };
    let world_count = observer.as_ref().and_then(|o| o.look().iter().find_map(|sight| sight.world_count));
    heading.ranks_count = heading.ranks_count.or(world_count);
    let look_again = || look(hostname(), observer.as_ref(), &job.ranks);
    let reports = twice(vec![look_again()], heading.ranks_count, || Ok(vec![look_again()]))?;
    let seen_count = reports.iter().map(|report| report.ranks.len()).sum::<usize>();
    if let Some(missing @ 1..) = heading.ranks_count.map(|count| (count as usize).saturating_sub(seen_count))
    {
        let where_to = if job.is_ours {
            "run `ayatori why` on the host of its launcher"
        } else {
            "its launcher is not `ayatori run` and cannot be asked: run `ayatori why` on each host"
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
    Ok(report::merge(&first, again()?))
}

fn seems_stuck(ranks: &Ranks) -> bool {
    !Graph::new(ranks).verdict().stuck.is_empty()
}

/// A line of the list of jobs.
#[derive(Debug, Serialize)]
struct Entry {
    job: String,
    program: String,
    ranks_count: Option<u32>,
    launcher: Option<i32>,
    age_ms: Option<u64>,
}

fn list(jobs: &[Job], form: Form) -> anyhow::Result<String> {
    let entry = |job: &Job| {
        let known = Entry {
            job: job.id.clone(),
            program: job.program.clone(),
            ranks_count: job.world_count.or(u32::try_from(job.ranks.len()).ok()),
            launcher: job.launcher,
            age_ms: job.age_ms,
        };
        match job.listens.then(|| ask(&job.id, Question::Who)) {
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
    Ok(if form == Form::Json { serde_json::to_string_pretty(&entries)? + "\n" } else { listed(&entries) })
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
