//! What a batch system has given to this job: hosts, slots, and how to start something on each host.
//!
//! Read from the environment that the batch system has set up, and from the files and commands that it names.
//! Each format has a parser that is a pure function in a file of its own. If several batch systems left
//! traces, the first of [`detect`]'s list counts.
//!
//! | batch system | hosts and slots from | agents are started by |
//! |---|---|---|
//! | Slurm | `SLURM_JOB_NODELIST`, `SLURM_TASKS_PER_NODE` or `SLURM_JOB_CPUS_PER_NODE` | `srun --overlap` |
//! | Flux | `flux kvs get resource.R` | `flux exec` |
//! | LSF | `LSB_DJOB_HOSTFILE`, `LSB_MCPU_HOSTS` | `blaunch` |
//! | PBS Professional, OpenPBS, Torque | `PBS_NODEFILE` | `ssh` |
//! | Grid Engine | `PE_HOSTFILE` | `qrsh -inherit` |

mod flux;
mod lists;
mod slurm;

use crate::error::Error;
use crate::hosts::HostSpec;
use std::path::Path;

/// What a batch system has given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Which one, and its name for the job.
    pub title: String,
    /// The hosts, in its order.
    pub hosts: Vec<HostSpec>,
    /// The words of the command that runs something on a host, as in [`crate::spec::Cluster::agent`]; `None`:
    /// it has none that passes on what is sent to it, so ssh.
    pub agent: Option<Vec<String>>,
    /// The name of the host that this process runs on, where the batch system has a name of its own for it.
    pub own_name: Option<String>,
}

impl Allocation {
    /// Whether hosts are called by their place in the list and not by name, so that only the whole list
    /// serves.
    pub fn counts_hosts(&self) -> bool {
        self.agent.iter().flatten().any(|word| word.contains("{index}"))
    }
}

/// What the world outside says.
pub struct Sources<'s> {
    /// A variable of the environment.
    pub variable: &'s dyn Fn(&str) -> Option<String>,
    /// The text of a file.
    pub file: &'s dyn Fn(&Path) -> std::io::Result<String>,
    /// What a command prints.
    pub command: &'s dyn Fn(&[&str]) -> std::io::Result<String>,
}

impl Sources<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.trim().is_empty())
    }

    fn file(&self, variable: &str, path: &str) -> anyhow::Result<String> {
        (self.file)(Path::new(path))
            .map_err(|error| Error::usage(format!("{variable} names {path}, which cannot be read: {error}")))
    }
}

/// The allocation that this process runs in; `None`: in none.
///
/// # Errors
/// There is one, and what it says cannot be understood.
pub fn detect(sources: &Sources<'_>) -> anyhow::Result<Option<Allocation>> {
    for read in [slurm, flux, lsf, pbs, grid_engine] {
        if let Some(allocation) = read(sources)? {
            return Ok(Some(allocation));
        }
    }
    Ok(None)
}

/// The allocation of this process, from its environment.
///
/// # Errors
/// As [`detect`].
pub fn of_this_process() -> anyhow::Result<Option<Allocation>> {
    let run = |words: &[&str]| {
        let output = std::process::Command::new(words[0])
            .args(&words[1..])
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::inherit())
            .output()?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(std::io::Error::other(format!("it ended with {}", output.status)))
        }
    };
    detect(&Sources {
        variable: &|name| std::env::var(name).ok(),
        file: &|path| std::fs::read_to_string(path),
        command: &run,
    })
}

fn words(text: &str) -> Option<Vec<String>> {
    Some(text.split(' ').map(str::to_owned).collect())
}

/// Hosts with their slots; those of a name become one.
fn merged(title: &str, hosts: Vec<(String, usize)>) -> anyhow::Result<Vec<HostSpec>> {
    HostSpec::checked(hosts.into_iter().map(|(name, slots)| HostSpec { name, slots }).collect(), title)
}

fn slurm(sources: &Sources<'_>) -> anyhow::Result<Option<Allocation>> {
    let Some(list) = sources.variable("SLURM_JOB_NODELIST").or_else(|| sources.variable("SLURM_NODELIST"))
    else {
        return Ok(None);
    };
    let wrong =
        |what: &str, text: &str| Error::usage(format!("Slurm's {what}=\"{text}\" cannot be understood"));
    let names = slurm::nodelist(&list).ok_or_else(|| wrong("SLURM_JOB_NODELIST", &list))?;
    let mut slots = None;
    // Tasks where the user has asked for tasks, else CPUs.
    let asked = sources.variable("SLURM_NTASKS").and_then(|_| sources.variable("SLURM_TASKS_PER_NODE"));
    let counted = asked.map(|text| ("SLURM_TASKS_PER_NODE", text));
    let cpus = || sources.variable("SLURM_JOB_CPUS_PER_NODE").map(|text| ("SLURM_JOB_CPUS_PER_NODE", text));
    if let Some((name, text)) = counted.or_else(cpus) {
        let counts = slurm::counts(&text).filter(|counts| counts.len() == names.len());
        slots = Some(counts.ok_or_else(|| wrong(name, &text))?);
    }
    let slots = slots.unwrap_or_else(|| vec![1; names.len()]);
    let job = sources.variable("SLURM_JOB_ID").unwrap_or_default();
    let title = format!("Slurm job {job}");
    Ok(Some(Allocation {
        hosts: merged(&title, names.into_iter().zip(slots).collect())?,
        title,
        // A step beside others that takes nothing away from them: ranks are not srun's tasks.
        agent: words(
            "srun --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist={host} --cpu-bind=none --export=ALL \
             --unbuffered --quiet",
        ),
        own_name: sources.variable("SLURMD_NODENAME"),
    }))
}

fn flux(sources: &Sources<'_>) -> anyhow::Result<Option<Allocation>> {
    let (Some(_), Some(job)) = (sources.variable("FLUX_URI"), sources.variable("FLUX_JOB_ID")) else {
        return Ok(None);
    };
    let resources = (sources.command)(&["flux", "kvs", "get", "resource.R"]).map_err(|error| {
        Error::usage(format!(
            "FLUX_URI is set, and `flux kvs get resource.R` fails: {error}; --hosts names hosts"
        ))
    })?;
    let hosts = flux::hosts(&resources).ok_or_else(|| {
        Error::usage("what `flux kvs get resource.R` prints is no version 1 of R".to_owned())
    })?;
    let title = format!("Flux job {job}");
    Ok(Some(Allocation {
        hosts: merged(&title, hosts)?,
        title,
        // Brokers are called by their ranks, which count the hosts of the instance.
        agent: words("flux exec --rank={index}"),
        own_name: None,
    }))
}

fn lsf(sources: &Sources<'_>) -> anyhow::Result<Option<Allocation>> {
    let Some(job) = sources.variable("LSB_JOBID") else { return Ok(None) };
    let hosts = if let Some(path) = sources.variable("LSB_DJOB_HOSTFILE") {
        lists::names(&sources.file("LSB_DJOB_HOSTFILE", &path)?)
    } else if let Some(list) = sources.variable("LSB_MCPU_HOSTS") {
        lists::pairs(&list)
            .ok_or_else(|| Error::usage(format!("LSF's LSB_MCPU_HOSTS=\"{list}\" is not NAME SLOTS …")))?
    } else {
        return Ok(None);
    };
    let title = format!("LSF job {job}");
    let agent = words("blaunch -no-shell {host}");
    Ok(Some(Allocation { hosts: merged(&title, hosts)?, title, agent, own_name: None }))
}

fn pbs(sources: &Sources<'_>) -> anyhow::Result<Option<Allocation>> {
    let Some(path) = sources.variable("PBS_NODEFILE") else { return Ok(None) };
    let hosts = lists::names(&sources.file("PBS_NODEFILE", &path)?);
    let title = format!("PBS job {}", sources.variable("PBS_JOBID").unwrap_or_default());
    Ok(Some(Allocation { hosts: merged(&title, hosts)?, title, agent: None, own_name: None }))
}

fn grid_engine(sources: &Sources<'_>) -> anyhow::Result<Option<Allocation>> {
    let Some(path) = sources.variable("PE_HOSTFILE") else { return Ok(None) };
    let hosts = lists::pe_hostfile(&sources.file("PE_HOSTFILE", &path)?).ok_or_else(|| {
        Error::usage(format!("PE_HOSTFILE {path}: a line is not NAME SLOTS QUEUE PROCESSORS"))
    })?;
    let title = format!("Grid Engine job {}", sources.variable("JOB_ID").unwrap_or_default());
    let agent = words("qrsh -inherit -V {host}");
    Ok(Some(Allocation { hosts: merged(&title, hosts)?, title, agent, own_name: None }))
}

#[cfg(test)]
mod tests;
