//! Finding jobs on this host: in /proc, by the segment that ranks have open and the job's id in their
//! environment; and the launchers of jobs on several hosts, by the name they listen under.

use crate::environment::ENV_JOB;
use crate::why::listen::NAME_PREFIX;
use crate::why::look::Known;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// What a segment's descriptor says in /proc.
const SEGMENT: &str = "/memfd:ayatori";

/// A process that has to do with MPI.
struct Process {
    pid: i32,
    parent: i32,
    /// The job of an `ayatori run`.
    job: Option<String>,
    rank: Option<u32>,
    size: Option<u32>,
    /// The segments it has open: number, name and path.
    segments: Vec<(u64, String, PathBuf)>,
}

/// A job with ranks on this host, or whose launcher is here.
pub(crate) struct Job {
    /// The job's id; `p` and a process id where a foreign launcher gave none.
    pub(crate) id: String,
    pub(crate) program: String,
    /// Its ranks here, as far as they are known before the segment is looked into.
    pub(crate) ranks: Vec<Known>,
    /// How many ranks it has, here and elsewhere.
    pub(crate) world_count: Option<u32>,
    /// The process that has started the ranks here.
    pub(crate) launcher: Option<i32>,
    pub(crate) age_ms: Option<u64>,
    pub(crate) segment: Option<OwnedFd>,
    /// `ayatori run` has started it.
    pub(crate) is_ours: bool,
    /// Its launcher listens here: it is on several hosts and can be asked for all of them.
    pub(crate) listens: bool,
}

/// All jobs of this user on this host, the youngest last.
pub(crate) fn jobs() -> Vec<Job> {
    let processes = processes();
    let mut jobs: BTreeMap<String, Job> = BTreeMap::new();
    let job_of = |pid: i32| processes.get(&pid).and_then(|process| process.job.clone());
    for process in processes.values() {
        let (Some(id), Some(rank)) = (&process.job, process.rank) else { continue };
        // What a rank has started says the same in its environment.
        if job_of(process.parent).as_ref() == Some(id) {
            continue;
        }
        let job = jobs.entry(id.clone()).or_insert_with(|| empty(id.clone(), true));
        job.ranks.push(Known { rank, pid: process.pid });
        job.world_count = job.world_count.max(process.size);
        job.launcher = Some(process.parent);
    }
    for job in jobs.values_mut() {
        let name = format!("{SEGMENT}-{}", job.id);
        let all = processes.values().flat_map(|process| &process.segments);
        job.segment = all.filter(|(_, of, _)| *of == name).find_map(|(_, _, path)| open(path));
    }
    for id in listeners() {
        let job = jobs.entry(id.clone()).or_insert_with(|| empty(id, true));
        job.listens = true;
    }
    let mut all: Vec<Job> = jobs.into_values().chain(foreign(&processes)).collect();
    for job in &mut all {
        job.ranks.sort_by_key(|known| known.rank);
        let first = job.ranks.first().map(|known| known.pid);
        job.program = first.map(program).unwrap_or_default();
        job.age_ms = first.and_then(age_ms);
    }
    all.sort_by_key(|job| std::cmp::Reverse(job.age_ms));
    all
}

fn empty(id: String, is_ours: bool) -> Job {
    Job {
        id,
        program: String::new(),
        ranks: Vec::new(),
        world_count: None,
        launcher: None,
        age_ms: None,
        segment: None,
        is_ours,
        listens: false,
    }
}

/// Jobs of another launcher, or without one: found by the segments that ranks have made themselves.
fn foreign(processes: &BTreeMap<i32, Process>) -> Vec<Job> {
    let mut jobs: BTreeMap<u64, Job> = BTreeMap::new();
    for process in processes.values() {
        let Some((number, _, path)) = process.segments.iter().find(|(_, name, _)| name == SEGMENT) else {
            continue;
        };
        let job = jobs.entry(*number).or_insert_with(|| empty(format!("p{}", process.pid), false));
        job.segment = job.segment.take().or_else(|| open(path));
        job.ranks.push(Known { rank: process.rank.unwrap_or(0), pid: process.pid });
        job.world_count = job.world_count.max(process.size);
        job.launcher = Some(process.parent);
    }
    jobs.into_values().filter(|job| job.segment.is_some()).collect()
}

fn open(path: &PathBuf) -> Option<OwnedFd> {
    fs::OpenOptions::new().read(true).write(true).open(path).ok().map(OwnedFd::from)
}

fn processes() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

/// What a process has to do with MPI; `None`: nothing, or it is not ours to look at.
fn process(pid: i32) -> Option<Process> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |name: &str| {
        environment.split(|&byte| byte == 0).find_map(|variable| {
            let text = std::str::from_utf8(variable).ok()?;
            Some(text.strip_prefix(name)?.strip_prefix('=')?.to_owned())
        })
    };
    let number = |name: &str| value(name).and_then(|text| text.parse().ok());
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let segments: Vec<_> = descriptors
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let name = target.to_str()?.strip_suffix(" (deleted)")?;
            let number = std::os::unix::fs::MetadataExt::ino(&fs::metadata(entry.path()).ok()?);
            name.starts_with(SEGMENT).then(|| (number, name.to_owned(), entry.path()))
        })
        .collect();
    let job = value(ENV_JOB);
    if segments.is_empty() && job.is_none() {
        return None;
    }
    Some(Process {
        pid,
        parent: parent(pid)?,
        job,
        rank: number("PMI_RANK"),
        size: number("PMI_SIZE"),
        segments,
    })
}

/// A field of /proc/PID/stat, counted from the state as 0.
fn stat(pid: i32, field: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split_whitespace().nth(field)?.parse().ok()
}

fn parent(pid: i32) -> Option<i32> {
    i32::try_from(stat(pid, 1)?).ok()
}

/// For how long a process has run, in milliseconds.
pub(crate) fn age_ms(pid: i32) -> Option<u64> {
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    // In hundredths of a second wherever Linux runs (USER_HZ).
    Some(((uptime * 1_000.0) as u64).saturating_sub(stat(pid, 19)? * 10))
}

/// A program and its arguments, cut to what fits a line.
pub(crate) fn program(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let text = words.collect::<Vec<_>>().join(" ");
    let text = text.trim_end();
    if text.chars().count() > 60 { text.chars().take(59).chain(['…']).collect() } else { text.to_owned() }
}

/// The ids of the jobs whose launchers listen in this network namespace.
fn listeners() -> Vec<String> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name =
        |line: &str| line.rsplit_once(' ')?.1.strip_prefix('@')?.strip_prefix(NAME_PREFIX).map(str::to_owned);
    let mut ids: Vec<String> = sockets.lines().filter_map(name).collect();
    ids.sort();
    ids.dedup();
    ids
}
