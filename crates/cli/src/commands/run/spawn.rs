//! Starting one rank.

use super::args::{App, JobSpec};
use super::place::Placement;
use crate::exit::Coded;
use anyhow::Context;
use ayatori_launch::child::{self, CpuMask, RankSetup};
use ayatori_launch::environment;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};

/// What the launcher keeps of a rank it has started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) pmi: UnixStream,
}

/// What is the same for all ranks.
#[derive(Debug)]
pub(super) struct Spawner<'s> {
    spec: &'s JobSpec,
    placement: &'s Placement,
    base_environment: Vec<(OsString, OsString)>,
    segment: OwnedFd,
    open_files: Option<(u64, u64)>,
    is_stdin_forwarded: bool,
    parent: i32,
}

/// What other launchers tell their ranks: ours must not believe it.
const FOREIGN_PREFIXES: [&str; 6] =
    ["PMI_", "PMIX_", "OMPI_COMM_WORLD_", "HYDI_", "MPI_LOCAL", "SLURM_STEP_"];
const OURS: [&str; 5] = [
    environment::ENV_JOB,
    environment::ENV_SHM_FD,
    environment::ENV_CPUS,
    environment::ENV_BOUND,
    environment::ENV_LAUNCH,
];

/// Descriptors of a rank in the launcher: standard output and error, PMI socket. And the rest of the launcher's.
const FDS_PER_RANK: u64 = 3;
const FDS_OWN: u64 = 64;

impl<'s> Spawner<'s> {
    /// Makes what all ranks of this host share, in a job of `world_count`.
    ///
    /// # Errors
    /// This machine does not allow so many ranks; no memory for the segment.
    pub(super) fn new(
        spec: &'s JobSpec,
        placement: &'s Placement,
        job: &str,
        is_stdin_forwarded: bool,
        inherited: impl Iterator<Item = (OsString, OsString)>,
        world_count: usize,
    ) -> anyhow::Result<Self> {
        let open_files = raise_open_files(spec.ranks_count())?;
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let segment = rustix::fs::memfd_create(format!("ayatori-{job}"), flags)
            .context("making the shared segment (memfd_create)")?;
        let is_foreign = |name: &OsString| {
            let name = name.to_string_lossy();
            FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || OURS.contains(&&*name)
        };
        let mut base: Vec<(OsString, OsString)> = inherited.filter(|(name, _)| !is_foreign(name)).collect();
        let mut set = |name: &str, value: String| base.push((name.into(), value.into()));
        set("PMI_SIZE", world_count.to_string());
        set("PMI_SPAWNED", "0".to_owned());
        set("PMI_HOSTNAME", super::hostname().to_owned());
        set(environment::ENV_LOCAL_SIZE, spec.ranks_count().to_string());
        set(environment::ENV_JOB, job.to_owned());
        set(environment::ENV_SHM_FD, segment.as_raw_fd().to_string());
        set(environment::ENV_CPUS, placement.cpus_count.to_string());
        set(environment::ENV_BOUND, u8::from(placement.is_bound()).to_string());
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        let base_environment = base;
        Ok(Spawner { spec, placement, base_environment, segment, open_files, is_stdin_forwarded, parent })
    }

    /// The segment of the ranks of this host.
    ///
    /// # Errors
    /// No descriptors left.
    pub(super) fn segment(&self) -> std::io::Result<OwnedFd> {
        self.segment.try_clone()
    }

    /// Starts `rank`, a process of program `appnum`, the `local`-th of this host.
    ///
    /// # Errors
    /// The program cannot be executed; a limit of this machine is reached.
    pub(super) fn start(&self, rank: usize, local: usize, appnum: usize) -> anyhow::Result<Started> {
        let app = &self.spec.apps[appnum];
        let (ours, theirs) = UnixStream::pair().context("making a PMI socket")?;
        let mut command = self.command(app, rank, local, &theirs);
        command.stdin(if rank > 0 {
            Stdio::null()
        } else if self.is_stdin_forwarded {
            Stdio::piped()
        } else {
            Stdio::inherit()
        });
        let cpus = self.placement.cpus.get(local).map(|cpus| CpuMask::new(cpus.iter().copied()));
        let inherit = [theirs.as_raw_fd(), self.segment.as_raw_fd()];
        let setup = RankSetup { parent: self.parent, inherit, open_files: self.open_files, cpus };
        child::prepare(&mut command, setup);
        let mut child = command.spawn().map_err(|error| self.explain(app, rank, error))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("the child has no id")?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            anyhow::bail!("the child has no pipes");
        };
        ours.set_nonblocking(true).context("setting up a PMI socket")?;
        let (stdout, stderr) = (OwnedFd::from(stdout), OwnedFd::from(stderr));
        for pipe in [&stdout, &stderr] {
            rustix::io::ioctl_fionbio(pipe, true).context("setting up a pipe")?;
        }
        Ok(Started { pid, stdin: child.stdin.take(), stdout, stderr, pmi: ours })
    }

    fn command(&self, app: &App, rank: usize, local: usize, pmi: &UnixStream) -> Command {
        let mut command = Command::new(&app.program);
        command.arg0(&app.name).args(&app.args);
        command.env_clear().envs(self.base_environment.iter().map(|(name, value)| (name, value)));
        command.envs(app.env.iter().map(|(name, value)| (name, value)));
        command.env("PMI_FD", pmi.as_raw_fd().to_string());
        command.env("PMI_RANK", rank.to_string());
        command.env(environment::ENV_LOCAL_RANK, local.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Signals go to the group, so they reach what a wrapper script has started.
        command.process_group(0);
        if let Some(wdir) = &app.wdir {
            command.current_dir(wdir);
        }
        command
    }

    fn explain(&self, app: &App, rank: usize, error: std::io::Error) -> anyhow::Error {
        let name = app.name.display();
        match error.kind() {
            // It was there a moment ago: a script whose interpreter is not.
            ErrorKind::NotFound => Coded::error(
                127,
                format!("cannot execute '{name}': its interpreter (the #! line, or the dynamic loader) is missing"),
            ),
            ErrorKind::WouldBlock | ErrorKind::OutOfMemory => anyhow::Error::new(error).context(format!(
                "starting rank {rank} of {}: this machine allows no more processes (ulimit -u, cgroup pids.max) or \
                 has no memory for them",
                self.spec.ranks_count()
            )),
            _ => Coded::error(126, format!("cannot execute '{name}': {error}")),
        }
    }
}

/// How many ranks the limit of open files allows; `None` where there is no limit.
pub(crate) fn ranks_max() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum.map(|hard| hard.saturating_sub(FDS_OWN) / FDS_PER_RANK)
}

/// Refuses so many ranks on this host before anything is made for them.
///
/// # Errors
/// This machine does not allow so many processes, or open files.
pub(super) fn check_count(ranks_count: usize) -> anyhow::Result<()> {
    let needed = descriptors(ranks_count);
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let number = |path: &str| std::fs::read_to_string(path).ok().and_then(|n| n.trim().parse::<u64>().ok());
    let limits = [
        getrlimit(Resource::Nproc).current,
        number("/proc/sys/kernel/pid_max"),
        number("/proc/sys/kernel/threads-max"),
    ];
    let processes_max = limits.into_iter().flatten().min().unwrap_or(u64::MAX);
    if ranks_count as u64 >= processes_max {
        return Err(Coded::usage(format!(
            "-n {ranks_count}: this machine allows {processes_max} processes (ulimit -u, kernel.pid_max, \
             kernel.threads-max)"
        )));
    }
    if needed > hard {
        return Err(Coded::usage(format!(
            "-n {ranks_count} needs {needed} open files and the limit is {hard} (ulimit -Hn): at most {} ranks",
            ranks_max().unwrap_or(u64::MAX)
        )));
    }
    Ok(())
}

/// Open files of the launcher for so many ranks.
fn descriptors(ranks_count: usize) -> u64 {
    (ranks_count as u64).saturating_mul(FDS_PER_RANK).saturating_add(FDS_OWN)
}

/// Makes room for the descriptors of so many ranks; answers the limits that the programs are to have when ours
/// had to be changed.
fn raise_open_files(ranks_count: usize) -> anyhow::Result<Option<(u64, u64)>> {
    check_count(ranks_count)?;
    let needed = descriptors(ranks_count);
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if needed <= soft {
        return Ok(None);
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .context("raising the limit of open files")?;
    Ok(Some((soft, hard)))
}
