//! `cargo xtask killtest`: a rank is killed at a random moment, hundreds of times.
//!
//! Each run starts `build/killtest/victim` (all kinds of traffic, for ever) on 2 to 8 ranks, waits a random
//! time, kills one rank with SIGKILL and asks four things: the launcher ends, it says which rank it was, no
//! process of the job is left, and nothing new of ours is left in /dev/shm. How soon it ends is a bound: the
//! share of runs that met it is printed. The seed of a failing run is printed; `--seed` replays it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::peers::Library;
use crate::{paths, process};
use ayatori_random::Random;

/// Options of `cargo xtask killtest`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many jobs.
    #[arg(long, default_value_t = 500)]
    runs: u64,
    /// Seed of the first run; the n-th run has seed + n.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The library (its own launcher): ayatori, mpich, ompi or impi.
    #[arg(long, default_value = "ayatori")]
    library: String,
    /// Milliseconds within which the job should end after the kill.
    #[arg(long, default_value_t = 1000)]
    bound_ms: u64,
    /// The ranks are on two hosts (of the launcher's making, on this machine). Our library only.
    #[arg(long)]
    hosts: bool,
}

/// How long a job may take in all.
const HANG_LIMIT: Duration = Duration::from_secs(120);

/// `cargo xtask killtest`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let library =
        Library::by_name(&options.library).with_context(|| format!("no library `{}`", options.library))?;
    if options.hosts && library != Library::Ayatori {
        bail!("--hosts is for our library");
    }
    library.prepare()?;
    let program = paths::build_dir().join("killtest").join(library.name()).join("victim");
    library.compile(&paths::root().join("conformance/c/kill/victim.c"), &program)?;
    let (mut slowest, mut failures, mut in_time) = (Duration::ZERO, 0u64, 0u64);
    for seed in options.seed..options.seed + options.runs {
        match one(library, &program, seed, options.hosts) {
            Ok(took) => {
                slowest = slowest.max(took);
                in_time += u64::from(took <= Duration::from_millis(options.bound_ms));
            }
            Err(error) => {
                failures += 1;
                println!("FAILED  --seed {seed}: {error:#}");
            }
        }
        if (seed + 1 - options.seed).is_multiple_of(100) {
            println!("{} jobs killed, {failures} failures", seed + 1 - options.seed);
        }
    }
    println!(
        "killtest{}: {} passed, {failures} failed; {in_time} of {} ended within {} ms, the slowest after {} ms",
        if options.hosts { " over hosts" } else { "" },
        options.runs - failures,
        options.runs,
        options.bound_ms,
        slowest.as_millis()
    );
    if failures > 0 {
        bail!("killtest: {failures} of {} runs failed", options.runs);
    }
    Ok(())
}

/// The launch of a job; over hosts each has about half of the ranks.
fn launch(library: Library, ranks: usize, program: &Path, mark: &str, over_hosts: bool) -> Command {
    if !over_hosts {
        return library.launch(ranks, program, &[mark]);
    }
    let mut command = Command::new(library.prefix().join("bin/ayatori"));
    let hosts = format!("a:{},b:{}", ranks.div_ceil(2), ranks / 2);
    command.args(["run", "--hosts", &hosts, "--agent", "env AYATORI_TEST_HOST={host}"]);
    command.args(["-n", &ranks.to_string()]).arg(program).arg(mark);
    command
}

/// One job. Returns how long it took to end after the kill.
fn one(library: Library, program: &Path, seed: u64, over_hosts: bool) -> Result<Duration> {
    let mut random = Random::new(seed);
    let ranks = 2 + random.below(7) as usize;
    let victim = random.below(ranks as u64) as usize;
    // One in four dies during start-up, the others in the middle of traffic.
    let wait = Duration::from_micros(if random.below(4) == 0 {
        random.below(30_000)
    } else {
        random.below(300_000)
    });
    let before = shared_memory(library);
    let mark = format!("killtest-{}-{seed}", std::process::id());
    let mut launcher = launch(library, ranks, program, &mark, over_hosts);
    let watcher = std::thread::spawn(move || strike(&mark, ranks, victim, wait));
    let outcome = process::capture(&mut launcher, HANG_LIMIT)?;
    let ended = Instant::now();
    let struck = watcher.join().expect("the watcher does not panic")?;
    let took = ended.saturating_duration_since(struck.at);
    let said = format!("{}{}", outcome.stderr, outcome.stdout);
    let mark = format!("killtest-{}-{seed}", std::process::id());
    let left = processes(&mark);
    for pid in &left {
        let _ = kill(Pid::from_raw(pid.0), Signal::SIGKILL);
    }
    let leftover: Vec<_> = shared_memory(library).difference(&before).cloned().collect();
    if outcome.timed_out {
        bail!("{ranks} ranks, rank {victim} killed: the job did not end");
    }
    if outcome.status.success() {
        bail!("{ranks} ranks, rank {victim} killed: the launcher says success");
    }
    if !said.contains(&format!("rank {}", struck.rank)) {
        bail!(
            "{ranks} ranks, rank {} killed: the message does not name it: {}",
            struck.rank,
            outcome.reason()
        );
    }
    if !left.is_empty() {
        bail!("{} processes left", left.len());
    }
    if !leftover.is_empty() {
        bail!("left in /dev/shm: {}", leftover.join(", "));
    }
    Ok(took)
}

struct Strike {
    at: Instant,
    rank: usize,
}

/// Waits until the job's processes are there, then a while, then kills one of them.
fn strike(mark: &str, ranks: usize, victim: usize, wait: Duration) -> Result<Strike> {
    let start = Instant::now();
    let mut found = processes(mark);
    while found.len() < ranks {
        if start.elapsed() > HANG_LIMIT / 2 {
            bail!("only {} of {ranks} processes came up", found.len());
        }
        std::thread::sleep(Duration::from_millis(1));
        found = processes(mark);
    }
    std::thread::sleep(wait);
    let (pid, rank) = found[victim];
    let at = Instant::now();
    kill(Pid::from_raw(pid), Signal::SIGKILL).context("the victim was gone already")?;
    Ok(Strike { at, rank })
}

/// The job's ranks: processes with `mark` among their arguments and a rank in their environment, by rank.
fn processes(mark: &str) -> Vec<(i32, usize)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let path = entry.path();
        let arguments = fs::read(path.join("cmdline")).unwrap_or_default();
        let mut words = arguments.split(|byte| *byte == 0);
        let is_victim = words.next().is_some_and(|word| word.ends_with(b"victim"));
        if !is_victim || !words.any(|word| word == mark.as_bytes()) {
            continue;
        }
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        if let Some(rank) = rank_in(&environment) {
            found.push((pid, rank));
        }
    }
    found.sort_by_key(|(_, rank)| *rank);
    found
}

/// The rank that a launcher told a process: PMI's variable, or PMIx's.
fn rank_in(environment: &[u8]) -> Option<usize> {
    let variable = |line: &[u8]| {
        let text = std::str::from_utf8(line).ok()?;
        text.strip_prefix("PMI_RANK=").or_else(|| text.strip_prefix("PMIX_RANK="))?.parse().ok()
    };
    environment.split(|byte| *byte == 0).find_map(variable)
}

/// How names in /dev/shm of MPICH, UCX, Open MPI and Intel MPI begin. Our library makes none.
const OTHERS: [&str; 6] = ["mpich_", "ucx_", "sm_segment", "vader_segment", "osc_", "Intel_MPI"];

/// What is in /dev/shm that a job of this library can have left. Jobs of other libraries may run beside ours.
fn shared_memory(library: Library) -> BTreeSet<String> {
    let names = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| library != Library::Ayatori || !is_others(name)).collect()
}

fn is_others(name: &str) -> bool {
    OTHERS.iter().any(|start| name.starts_with(start))
}

/// Where the victim's source lies; a test keeps it there.
#[cfg(test)]
fn victim_source() -> std::path::PathBuf {
    paths::root().join("conformance/c/kill/victim.c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_read_from_either_launchers_environment() {
        assert_eq!(rank_in(b"A=b\0PMI_RANK=3\0C=d"), Some(3));
        assert_eq!(rank_in(b"PMIX_RANK=12\0"), Some(12));
        assert_eq!(rank_in(b"RANK=1\0"), None);
    }

    #[test]
    fn only_another_librarys_shared_memory_is_passed_over() {
        assert!(is_others("mpich_shm_8fd4f832_0") && is_others("ucx_shm_posix_71a1a450"));
        assert!(!is_others("ayatori-1") && !is_others("sem.x") && !is_others("1"));
    }

    #[test]
    fn the_victim_is_where_it_is_looked_for() {
        assert!(victim_source().is_file());
    }
}
