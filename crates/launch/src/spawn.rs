//! Starting one rank.

use crate::child::{self, CpuMask, RankSetup};
use crate::environment;
use crate::error::{Error, NOT_EXECUTABLE, NOT_FOUND};
use crate::machine::hostname;
use crate::placement::Placement;
use crate::program;
use crate::spec::{Order, Program};
use anyhow::Context;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the launcher keeps of a rank it has started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: Pid,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) pmi: UnixStream,
}

/// State shared by all ranks of a host.
#[derive(Debug)]
pub(crate) struct Spawner<'o> {
    order: &'o Order,
    /// Where the programs were found.
    paths: Vec<PathBuf>,
    placement: Placement,
    base_environment: Vec<(OsString, OsString)>,
    segment: OwnedFd,
    open_files: Option<(u64, u64)>,
    parent: i32,
}

/// Variables of other launchers: our ranks must not read them.
const FOREIGN_PREFIXES: [&str; 6] =
    ["PMI_", "PMIX_", "OMPI_COMM_WORLD_", "HYDI_", "MPI_LOCAL", "SLURM_STEP_"];
const OURS: [&str; 6] = [
    environment::ENV_JOB,
    environment::ENV_NODE,
    environment::ENV_SHM_FD,
    environment::ENV_CPUS,
    environment::ENV_BOUND,
    environment::ENV_LAUNCH,
];

/// Descriptors of a rank in the launcher: standard output and error, PMI socket. And the rest of the
/// launcher's, but for the agents that it has started.
const FDS_PER_RANK: u64 = 3;
const FDS_OWN: u64 = 64;
/// Descriptors of an agent in the process that has started it.
const FDS_PER_AGENT: u64 = 2;

impl<'o> Spawner<'o> {
    /// Finds the programs and makes what all ranks of this host share.
    ///
    /// # Errors
    /// There is no such program; this machine does not allow so many ranks; no memory for the segment.
    pub(crate) fn new(order: &'o Order) -> anyhow::Result<Self> {
        let ranks_count = order.ranks.len();
        let open_files = raise_open_files(ranks_count, order.branches.len())?;
        let paths =
            order.programs.iter().map(|program| find(program, order)).collect::<anyhow::Result<_>>()?;
        let placement = Placement::new(order.binding, ranks_count)?;
        let job = &order.job;
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let segment = rustix::fs::memfd_create(format!("ayatori-{job}"), flags)
            .context("making the shared segment (memfd_create)")?;
        let is_foreign = |name: &OsString| {
            let name = name.to_string_lossy();
            FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || OURS.contains(&&*name)
        };
        let inherited = order.environment.iter().filter(|(name, _)| !is_foreign(name));
        let mut base_environment: Vec<(OsString, OsString)> = inherited.cloned().collect();
        let mut set = |name: &str, value: String| base_environment.push((name.into(), value.into()));
        set("PMI_SIZE", order.world_count.to_string());
        set("PMI_SPAWNED", u8::from(order.is_spawned).to_string());
        set("PMI_HOSTNAME", hostname().to_owned());
        set(environment::ENV_LOCAL_SIZE, ranks_count.to_string());
        set(environment::ENV_NODE, order.host.to_string());
        set(environment::ENV_JOB, job.to_owned());
        set(environment::ENV_SHM_FD, segment.as_raw_fd().to_string());
        set(environment::ENV_CPUS, placement.cpus_count.to_string());
        set(environment::ENV_BOUND, u8::from(placement.is_bound()).to_string());
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        Ok(Spawner { order, paths, placement, base_environment, segment, open_files, parent })
    }

    /// The segment of the ranks of this host.
    ///
    /// # Errors
    /// No descriptors left.
    pub(crate) fn segment(&self) -> std::io::Result<OwnedFd> {
        self.segment.try_clone()
    }

    /// The CPUs of the `local`-th rank; `None`: as the operating system decides.
    pub(crate) fn cpus(&self, local: usize) -> Option<&[usize]> {
        self.placement.cpus.get(local).map(Vec::as_slice)
    }

    /// Starts the `local`-th rank of this host.
    ///
    /// # Errors
    /// The program cannot be executed; a limit of this machine is reached.
    pub(crate) fn start(&self, local: usize) -> anyhow::Result<Started> {
        let (rank, number) = self.order.ranks[local];
        let (ours, theirs) = UnixStream::pair().context("making a PMI socket")?;
        let mut command = self.command(number, rank, local, &theirs);
        command.stdin(if rank > 0 {
            Stdio::null()
        } else if self.order.is_input_forwarded {
            Stdio::piped()
        } else {
            Stdio::inherit()
        });
        let cpus = self.cpus(local).map(|cpus| CpuMask::new(cpus.iter().copied()));
        let inherit = [theirs.as_raw_fd(), self.segment.as_raw_fd()];
        let setup = RankSetup { parent: self.parent, inherit, open_files: self.open_files, cpus };
        child::prepare(&mut command, setup);
        let mut child = command
            .spawn()
            .map_err(|error| explain(&self.order.programs[number], rank, self.order, error))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("the child has no id")?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            anyhow::bail!("the child has no pipes");
        };
        ours.set_nonblocking(true).context("setting up a PMI socket")?;
        let (stdin, stdout, stderr) =
            (child.stdin.take().map(OwnedFd::from), OwnedFd::from(stdout), OwnedFd::from(stderr));
        for pipe in [&stdout, &stderr].into_iter().chain(&stdin) {
            rustix::io::ioctl_fionbio(pipe, true).context("setting up a pipe")?;
        }
        Ok(Started { pid, stdin, stdout, stderr, pmi: ours })
    }

    fn command(&self, number: usize, rank: usize, local: usize, pmi: &UnixStream) -> Command {
        let program = &self.order.programs[number];
        let mut command = Command::new(&self.paths[number]);
        command.arg0(&program.name).args(&program.args);
        command.env_clear().envs(self.base_environment.iter().map(|(name, value)| (name, value)));
        command.envs(program.env.iter().map(|(name, value)| (name, value)));
        command.env("PMI_FD", pmi.as_raw_fd().to_string());
        command.env("PMI_RANK", rank.to_string());
        command.env(environment::ENV_LOCAL_RANK, local.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Signals go to the group, so they reach what a wrapper script has started.
        command.process_group(0);
        if let Some(wdir) = &program.wdir {
            command.current_dir(wdir);
        }
        command
    }
}

/// Where this host has the program.
fn find(program: &Program, order: &Order) -> anyhow::Result<PathBuf> {
    let wdir = program.wdir.as_ref().map(Path::new);
    wdir.map_or(Ok(()), program::check_directory)?;
    let here = std::env::current_dir().context("finding the current directory")?;
    let path = order.environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
    program::find(&program.name, &here, wdir, &path.unwrap_or_default())
}

fn explain(program: &Program, rank: usize, order: &Order, error: std::io::Error) -> anyhow::Error {
    let name = program.name.display();
    match error.kind() {
        // It was there a moment ago: a script whose interpreter is not.
        ErrorKind::NotFound => Error::new(
            NOT_FOUND,
            format!("cannot execute '{name}': its interpreter (the #! line, or the dynamic loader) is missing"),
        ),
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory => anyhow::Error::new(error).context(format!(
            "starting rank {rank} of {}: this machine allows no more processes (ulimit -u, cgroup pids.max) or has no \
             memory for them",
            order.world_count
        )),
        _ => Error::new(NOT_EXECUTABLE, format!("cannot execute '{name}': {error}")),
    }
}

/// How many ranks the limit of open files allows; `None` where there is no limit.
pub fn ranks_max() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum.map(|hard| hard.saturating_sub(FDS_OWN) / FDS_PER_RANK)
}

/// Refuses so many ranks on this host before anything is made for them.
///
/// # Errors
/// This machine does not allow so many processes, or open files.
pub(crate) fn check_count(ranks_count: usize) -> anyhow::Result<()> {
    let needed = descriptors(ranks_count as u64);
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
        return Err(Error::usage(format!(
            "-n {ranks_count}: this machine allows {processes_max} processes (ulimit -u, kernel.pid_max, \
             kernel.threads-max)"
        )));
    }
    if needed > hard {
        return Err(Error::usage(format!(
            "-n {ranks_count} needs {needed} open files and the limit is {hard} (ulimit -Hn): at most {} ranks",
            ranks_max().unwrap_or(u64::MAX)
        )));
    }
    Ok(())
}

/// Open files of the launcher for so many ranks.
pub(crate) fn descriptors(ranks_count: u64) -> u64 {
    ranks_count.saturating_mul(FDS_PER_RANK).saturating_add(FDS_OWN)
}

/// Makes room for the descriptors of so many ranks and agents; answers the limits that the programs are to
/// have when ours had to be changed.
fn raise_open_files(ranks_count: usize, agents_count: usize) -> anyhow::Result<Option<(u64, u64)>> {
    check_count(ranks_count)?;
    let needed = descriptors(ranks_count as u64) + FDS_PER_AGENT * agents_count as u64;
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if needed <= soft {
        return Ok(None);
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed.min(hard)), maximum: limit.maximum })
        .context("raising the limit of open files")?;
    Ok(Some((soft, hard)))
}
