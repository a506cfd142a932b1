//! The launchers: how each starts a program on one host or on two.

use super::daemons::{Slurm, Sshd};
use super::{Bench, install};
use crate::paths;
use crate::peers::Library;
use anyhow::{Result, anyhow};
use std::path::PathBuf;
use std::process::Command;

/// What there is to start programs with.
pub(super) struct Site<'b> {
    pub(super) bench: &'b Bench,
    pub(super) slurm: &'b Result<Slurm>,
    pub(super) sshd: &'b Result<Sshd>,
}

/// A row.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Makes sure that it is there.
    pub(super) prepare: fn(&Site<'_>) -> Result<()>,
    /// The command that starts so many ranks on so many hosts, without program.
    pub(super) command: fn(&Site<'_>, usize, usize) -> Command,
    /// Why it has no second host here.
    pub(super) no_second_host: Option<&'static str>,
}

const ONE_MACHINE: &str = "PRRTE and ORTE take all addresses of this machine as one host";

pub(super) const ROWS: [Row; 9] = [
    Row { name: "srun --mpi=pmi2", prepare: needs_slurm, command: srun_pmi2, no_second_host: None },
    Row { name: "srun --mpi=pmix", prepare: needs_slurm, command: srun_pmix, no_second_host: None },
    Row {
        name: "prterun (PRRTE 3)",
        prepare: needs_open_mpi,
        command: prterun,
        no_second_host: Some(ONE_MACHINE),
    },
    Row {
        name: "mpirun of Open MPI 5",
        prepare: needs_open_mpi,
        command: open_mpi_5,
        no_second_host: Some(ONE_MACHINE),
    },
    Row {
        name: "mpirun of Open MPI 4",
        prepare: needs_open_mpi_4,
        command: open_mpi_4,
        no_second_host: Some(ONE_MACHINE),
    },
    Row { name: "mpiexec of MPICH", prepare: needs_mpich, command: mpich, no_second_host: None },
    Row { name: "mpiexec of Intel MPI", prepare: needs_intel, command: intel, no_second_host: None },
    Row { name: "ayatori run, ssh", prepare: needs_sshd, command: ours_by_ssh, no_second_host: None },
    Row { name: "ayatori run, salloc", prepare: needs_slurm, command: ours_in_slurm, no_second_host: None },
];

fn needs_slurm(site: &Site<'_>) -> Result<()> {
    site.slurm.as_ref().map(|_| ()).map_err(|error| anyhow!("no Slurm: {error:#}"))
}

fn needs_sshd(site: &Site<'_>) -> Result<()> {
    site.sshd.as_ref().map(|_| ()).map_err(|error| anyhow!("no sshd: {error:#}"))
}

fn needs_open_mpi(_: &Site<'_>) -> Result<()> {
    Library::OpenMpi.prepare()
}

fn needs_mpich(site: &Site<'_>) -> Result<()> {
    needs_sshd(site)?;
    Library::Mpich.prepare()
}

fn needs_intel(site: &Site<'_>) -> Result<()> {
    needs_sshd(site)?;
    Library::Intel.prepare()
}

/// Debian's, unpacked: installed it would take the names `mpirun` and `mpicc`.
fn open_mpi_4_root() -> PathBuf {
    paths::build_dir().join("launchers/open-mpi-4")
}

fn needs_open_mpi_4(_: &Site<'_>) -> Result<()> {
    let packages = [
        "openmpi-bin",
        "openmpi-common",
        "libopenmpi3",
        "libpmix2",
        "libhwloc15",
        "libevent-core-2.1-7",
        "libevent-pthreads-2.1-7",
        "libmunge2",
        "libnl-3-200",
        "libnl-route-3-200",
    ];
    install::unpack(&open_mpi_4_root(), &packages, "usr/bin/mpirun.openmpi")
}

fn srun(site: &Site<'_>, plugin: &str, ranks: usize, hosts: usize) -> Command {
    let mut srun = Command::new("srun");
    if let Ok(slurm) = site.slurm {
        srun.env("SLURM_CONF", &slurm.configuration);
    }
    // Slurm starts what a program spawns by another srun, which without this waits for the program's CPUs.
    srun.env("SLURM_OVERLAP", "1");
    srun.args(["--quiet", "-K", &format!("--mpi={plugin}"), &format!("-N{hosts}"), &format!("-n{ranks}")]);
    srun
}

fn srun_pmi2(site: &Site<'_>, ranks: usize, hosts: usize) -> Command {
    srun(site, "pmi2", ranks, hosts)
}

fn srun_pmix(site: &Site<'_>, ranks: usize, hosts: usize) -> Command {
    srun(site, "pmix", ranks, hosts)
}

/// Room for the processes that programs start, too: these count in no job's `:OVERSUBSCRIBE`.
const SLOTS: &str = "localhost:8";

fn of_open_mpi(program: &str, ranks: usize) -> Command {
    let mut command = Command::new(Library::OpenMpi.prefix().join("bin").join(program));
    if nix::unistd::geteuid().is_root() {
        command.arg("--allow-run-as-root");
    }
    command.args(["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--host", SLOTS]);
    command.args(["-n", &ranks.to_string()]);
    command
}

fn prterun(_: &Site<'_>, ranks: usize, _: usize) -> Command {
    of_open_mpi("prterun", ranks)
}

fn open_mpi_5(_: &Site<'_>, ranks: usize, _: usize) -> Command {
    of_open_mpi("mpirun", ranks)
}

fn open_mpi_4(_: &Site<'_>, ranks: usize, _: usize) -> Command {
    let root = open_mpi_4_root();
    let mut command = Command::new(root.join("usr/bin/mpirun.openmpi"));
    command
        .env("OPAL_PREFIX", root.join("usr"))
        .env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
    if nix::unistd::geteuid().is_root() {
        command.arg("--allow-run-as-root");
    }
    command.args(["--oversubscribe", "--bind-to", "none", "--host", SLOTS, "-n", &ranks.to_string()]);
    command
}

/// The names under which this machine is one host or two.
fn names(hosts: usize) -> &'static str {
    if hosts == 1 { "127.0.0.2" } else { "127.0.0.2,127.0.0.3" }
}

fn hydra(site: &Site<'_>, library: Library, ranks: usize, hosts: usize) -> Command {
    let mut command = Command::new(library.prefix().join("bin/mpiexec"));
    command.args(["-hosts", names(hosts), "-launcher", "ssh", "-launcher-exec"]);
    if let Ok(sshd) = site.sshd {
        command.arg(&sshd.client);
    }
    // Dealt in turn, so that each host has some.
    command.args(["-ppn", "1", "-n", &ranks.to_string()]);
    command
}

fn mpich(site: &Site<'_>, ranks: usize, hosts: usize) -> Command {
    hydra(site, Library::Mpich, ranks, hosts)
}

fn intel(site: &Site<'_>, ranks: usize, hosts: usize) -> Command {
    hydra(site, Library::Intel, ranks, hosts)
}

fn ours(site: &Site<'_>) -> PathBuf {
    site.bench.prefix.join("bin/ayatori")
}

fn ours_by_ssh(site: &Site<'_>, ranks: usize, hosts: usize) -> Command {
    let mut command = Command::new(ours(site));
    command.args(["run", "--hosts", names(hosts), "-n", &ranks.to_string()]);
    if let Ok(sshd) = site.sshd {
        command.args(["--agent", &format!("{} {{host}}", sshd.client.display())]);
    }
    command
}

fn ours_in_slurm(site: &Site<'_>, ranks: usize, hosts: usize) -> Command {
    let mut command = Command::new("salloc");
    if let Ok(slurm) = site.slurm {
        command.env("SLURM_CONF", &slurm.configuration);
    }
    command.args(["--quiet", &format!("-N{hosts}"), &format!("-n{ranks}")]).arg(ours(site)).arg("run");
    command
}
