//! The job: programs, hosts and settings, as the controller's order and as the part of it for each host.

use crate::environment::ENV_SURVIVE;
use crate::hosts::HostSpec;
use crate::tree::{BRANCH_COUNT_DEFAULT, Branch};
use anyhow::Context;
use ayatori_devices::tcp::{ENV_NO_RAILS, ENV_RAILS};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

/// A job as the user wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The programs, in the order of their ranks.
    pub apps: Vec<App>,
    /// How ranks are tied to CPUs; `None`: to cores where every rank can have cores of its own.
    pub binding: Option<Binding>,
    /// Each line of output begins with its rank.
    pub is_tagged: bool,
    /// After so long the job is ended.
    pub timeout: Option<Duration>,
    /// It goes on without ranks that fail.
    #[serde(default)]
    pub survives: bool,
    /// Prints each start with its host, and the end of each rank.
    pub is_verbose: bool,
    /// Where, if not on this host alone.
    pub cluster: Option<Cluster>,
    /// How many processes the user has room for, those that a spawn adds included (`MPI_UNIVERSE_SIZE`,
    /// MPI-5.0 §11.10.1); `None`: the slots of the hosts, if there are any.
    pub universe_size: Option<u32>,
    /// Initial content of the key-value space.
    pub values: Vec<(String, String)>,
    /// Ranks of another job have started it (`MPI_Comm_spawn`).
    pub is_spawned: bool,
    /// The MPI that all programs, spawned ones included, were built for, as the user says it.
    #[serde(default)]
    pub abi: Option<Abi>,
}

/// A program and its number of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// How many ranks run it.
    pub ranks_count: usize,
    /// The program that they run.
    pub program: Program,
}

/// What a rank executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// As typed: looked for on the rank's host, and the program's own name for itself.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set for it alone.
    pub env: Vec<(OsString, OsString)>,
    /// The directory that it starts in, if not the launcher's.
    pub wdir: Option<OsString>,
}

/// The binary interface of an MPI library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Abi {
    /// `libmpi_abi.so.1`: of MPI-5.0.
    Standard,
    /// `libmpi.so.12`: MPICH, Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    /// `libmpi.so.40`: Open MPI 4 and 5.
    OpenMpi,
}

/// How ranks are tied to CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// Each rank gets cores of its own.
    Core,
    /// The operating system decides.
    None,
}

/// Hosts and how to reach them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The hosts, in the order in which they get ranks.
    pub hosts: Vec<HostSpec>,
    /// The words of the command that runs something on a host; `{host}` stands for its name and
    /// `{index}` for its number among the job's hosts.
    pub agent: Vec<String>,
    /// Most agents that the launcher, and each agent, starts itself; below 2: the launcher starts all.
    /// `None`: [`BRANCH_COUNT_DEFAULT`] where ssh starts agents, which a host may well do that can do it
    /// on the launcher's; other commands (`docker exec`, `srun`) may be there on the launcher's host
    /// only.
    #[serde(default)]
    pub branch_count: Option<usize>,
    /// The interfaces and networks that may carry messages.
    pub rails: Option<String>,
    /// Those that may not.
    pub no_rails: Option<String>,
}

impl Cluster {
    /// Most agents that the launcher, and each agent, starts itself.
    pub(crate) fn branch_count(&self) -> usize {
        let by_ssh = self.agent.first().is_some_and(|program| is_ssh(program.as_ref()));
        self.branch_count.unwrap_or(if by_ssh { BRANCH_COUNT_DEFAULT } else { 0 })
    }
}

/// Whether a command is ssh.
pub(crate) fn is_ssh(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "ssh")
}

/// How agents are started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// As [`Cluster::agent`].
    pub(crate) agent: Vec<String>,
    /// The path of this program on all hosts.
    pub(crate) program: OsString,
    /// The host whose agent starts others; `None`: the launcher does.
    pub(crate) from: Option<String>,
}

impl Reach {
    /// From the launcher.
    ///
    /// # Errors
    /// This program's own path cannot be found.
    pub(crate) fn new(cluster: Option<&Cluster>) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?.into_os_string();
        Ok(Self {
            agent: cluster.map(|cluster| cluster.agent.clone()).unwrap_or_default(),
            program,
            from: None,
        })
    }

    /// The words that run a command on a host, the `index`th of the job.
    pub(crate) fn words(&self, index: usize, host: &str) -> Vec<String> {
        let index = index.to_string();
        self.agent.iter().map(|word| word.replace("{host}", host).replace("{index}", &index)).collect()
    }

    /// The same as one line for messages.
    pub(crate) fn line(&self, index: usize, host: &str) -> String {
        let is_plain = |word: &str| !word.is_empty() && !word.contains(|c: char| " \"'$;&|<>()".contains(c));
        let shown = |word: String| if is_plain(&word) { word } else { format!("'{word}'") };
        self.words(index, host).into_iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    /// Whether that is by ssh.
    pub(crate) fn is_ssh(&self) -> bool {
        self.agent.first().is_some_and(|program| is_ssh(OsStr::new(program)))
    }

    /// Whether another agent starts them.
    pub(crate) fn is_indirect(&self) -> bool {
        self.from.is_some()
    }

    /// The end of a message about an agent that could not be started: the host that should have started it,
    /// if not the launcher.
    pub(crate) fn describe_start(&self) -> String {
        self.from.as_ref().map_or_else(String::new, |host| {
            format!(
                " (the agent of host {host} was to start it; with --branch-count 0 the launcher starts all \
                 agents itself)"
            )
        })
    }
}

/// The ranks that one host starts, and the orders of the hosts behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) job: String,
    /// The number of this host in the job.
    pub(crate) host: usize,
    /// The hosts whose agents this one's starts.
    pub(crate) branches: Vec<Branch>,
    /// How it starts them.
    pub(crate) reach: Reach,
    /// Ranks of the whole job.
    pub(crate) world_count: usize,
    /// Ranks of this host, each with the number of its program.
    pub(crate) ranks: Vec<(usize, usize)>,
    pub(crate) programs: Vec<Program>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) directory: OsString,
    pub(crate) binding: Option<Binding>,
    /// Ranks of another job have started it.
    pub(crate) is_spawned: bool,
    /// Rank 0 reads what the controller sends; if not, what the launcher's own standard input is.
    pub(crate) is_input_forwarded: bool,
}

impl Order {
    /// What a branch of this host's gets.
    pub(crate) fn part(&self, branch: &Branch) -> Self {
        let Branch { host, name, ranks, branches } = branch.clone();
        Self {
            job: self.job.clone(),
            host,
            branches,
            reach: Reach { from: Some(name), ..self.reach.clone() },
            world_count: self.world_count,
            ranks,
            programs: self.programs.clone(),
            environment: self.environment.clone(),
            directory: self.directory.clone(),
            binding: self.binding,
            is_spawned: self.is_spawned,
            is_input_forwarded: self.is_input_forwarded,
        }
    }
}

impl JobSpec {
    /// Total number of ranks.
    pub fn ranks_count(&self) -> usize {
        self.apps.iter().fold(0, |sum, app| sum.saturating_add(app.ranks_count))
    }

    /// The programs with their arguments, as typed.
    pub fn command_line(&self) -> String {
        let commands = self.apps.iter().map(|App { program, .. }| {
            let words = std::iter::once(&program.name).chain(&program.args);
            words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        });
        commands.collect::<Vec<_>>().join(" : ")
    }

    /// The launcher's environment as the ranks get it.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        environment.retain(|(known, _)| known != ENV_SURVIVE);
        if self.survives {
            environment.push((ENV_SURVIVE.into(), "1".into()));
        }
        let Some(cluster) = &self.cluster else { return environment };
        for (name, value) in [(ENV_RAILS, &cluster.rails), (ENV_NO_RAILS, &cluster.no_rails)] {
            if let Some(value) = value {
                environment.retain(|(known, _)| known != name);
                environment.push((name.into(), value.into()));
            }
        }
        environment
    }

    /// The number of each rank's program.
    pub(crate) fn program_numbers(&self) -> impl Iterator<Item = usize> {
        self.apps.iter().enumerate().flat_map(|(n, app)| std::iter::repeat_n(n, app.ranks_count))
    }
}
