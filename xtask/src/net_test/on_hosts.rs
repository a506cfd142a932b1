//! `cargo xtask on-hosts N -- COMMAND`: a command whose MPI jobs run on N hosts, over TCP.
//!
//! The hosts are network namespaces of this machine, with a rail or more between them: a bridge in a
//! namespace of its own. The command finds them as in an allocation of PBS, so that `ayatori run` and our
//! `mpiexec` need no options, wherever in it they are called. So other people's suites, which start their
//! programs themselves, run between hosts, too. Each host has a name of its own, and finds the others by
//! name.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::names::{HostLists, UNDER_OWN_NAME};
use super::network::{PREFIX, ip, namespace, obstacle, sweep};
use crate::{paths, process};

/// Most hosts: what the network of a rail has addresses for.
const HOSTS_MAX: usize = 250;
/// Most rails.
const RAILS_MAX: usize = 8;

/// What variables begin with that batch systems and launchers set. One of an allocation that `on-hosts`
/// itself runs in would count before its list, or make a program that starts alone believe that it is one of
/// several.
const ALLOCATIONS: [&str; 14] = [
    "SLURM_",
    "SLURMD_",
    "FLUX_",
    "LSB_",
    "LSF_",
    "PBS_",
    "PE_HOSTFILE",
    "PMI_",
    "PMIX_",
    "OMPI_COMM_WORLD_",
    "HYDI_",
    "PALS_",
    "ALPS_",
    "JSM_",
];

fn is_of_an_allocation(variable: &str) -> bool {
    ALLOCATIONS.iter().any(|front| variable.starts_with(front))
}

/// Options of `cargo xtask on-hosts`.
#[derive(clap::Args)]
pub(crate) struct OnHostsOptions {
    /// How many hosts. Each rank has one of its own as long as there are as many.
    #[arg(value_parser = clap::value_parser!(u16).range(2..=HOSTS_MAX as i64))]
    hosts: u16,
    /// Rails between them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=RAILS_MAX as i64))]
    rails: u16,
    /// The command.
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

/// `cargo xtask on-hosts`. Needs root.
pub(crate) fn on_hosts(options: &OnHostsOptions) -> Result<()> {
    if let Some(why) = obstacle() {
        bail!("{why}");
    }
    sweep();
    let hosts = Hosts::new(options.hosts.into(), options.rails.into())?;
    let [program, arguments @ ..] = &options.command[..] else { bail!("no command") };
    let mut command = Command::new(program);
    command.args(arguments);
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(is_of_an_allocation) {
            command.env_remove(variable);
        }
    }
    command.env("PBS_NODEFILE", &hosts.list).env("AYATORI_AGENT", UNDER_OWN_NAME);
    process::show(&mut command)
}

/// The namespaces; gone when dropped.
struct Hosts {
    names: Vec<String>,
    switch: String,
    /// The file with their names, one a line.
    list: PathBuf,
    _lists: HostLists,
}

/// The addresses of a host on a rail: `10.77.RAIL.N+1` and `fd77:RAIL::N+1`.
fn addresses_on(rail: usize, number: usize) -> [String; 2] {
    [format!("10.77.{rail}.{}", number + 1), format!("fd77:{rail}::{:x}", number + 1)]
}

impl Hosts {
    /// Namespaces with rails between them. Congestion control is reno, which every kernel has.
    fn new(count: usize, rails: usize) -> Result<Self> {
        let name = |what: String| format!("{PREFIX}{}{what}", std::process::id());
        let names: Vec<String> = (0..count).map(|number| name(format!("h{number}"))).collect();
        let list = paths::build_dir().join("net-test").join(name("hosts".to_owned()));
        let addresses = |number| (0..rails).flat_map(move |rail| addresses_on(rail, number)).collect();
        let named: Vec<_> = names.iter().cloned().zip((0..count).map(addresses)).collect();
        let hosts = Self { names, switch: name("s".to_owned()), list, _lists: HostLists::new(&named)? };
        std::fs::create_dir_all(hosts.list.parent().context("a folder")?)?;
        std::fs::write(&hosts.list, hosts.names.join("\n") + "\n").context("the list of hosts")?;
        namespace(&hosts.switch)?;
        for rail in 0..rails {
            ip(&format!("-n {} link add rail{rail} type bridge", hosts.switch))?;
            ip(&format!("-n {} link set rail{rail} up", hosts.switch))?;
        }
        for (number, host) in hosts.names.iter().enumerate() {
            namespace(host)?;
            for rail in 0..rails {
                let (switch, port) = (&hosts.switch, format!("h{number}r{rail}"));
                ip(&format!("link add rail{rail} netns {host} type veth peer name {port} netns {switch}"))?;
                ip(&format!("-n {switch} link set {port} master rail{rail} up"))?;
                let [short, long] = addresses_on(rail, number);
                ip(&format!("-n {host} addr add {short}/24 dev rail{rail}"))?;
                ip(&format!("-n {host} addr add {long}/64 dev rail{rail} nodad"))?;
                ip(&format!("-n {host} link set rail{rail} up"))?;
            }
        }
        Ok(hosts)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.switch]) {
            let _ = ip(&format!("netns del {name}"));
        }
        let _ = std::fs::remove_file(&self.list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_allocations_have_set_is_cleared() {
        for variable in
            ["SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "FLUX_URI", "LSB_JOBID", "PBS_JOBID"]
        {
            assert!(is_of_an_allocation(variable), "{variable}");
        }
        for variable in ["PE_HOSTFILE", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PALS_RANKID"] {
            assert!(is_of_an_allocation(variable), "{variable}");
        }
        for variable in ["PATH", "HOME", "AYATORI_PROGRESS", "OMPI_CC", "PERL5LIB"] {
            assert!(!is_of_an_allocation(variable), "{variable}");
        }
    }
}
