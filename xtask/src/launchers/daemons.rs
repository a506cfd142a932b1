//! Slurm's daemons and an `sshd`, on the loopback, with keys and folders of their own. Dropping one stops its
//! processes by their ids.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::install::{checked, find, require, write};

/// How long a daemon may take to serve.
const START_MAX: Duration = Duration::from_secs(60);

/// A daemon that stays in the foreground.
struct Daemon(Child);

impl Daemon {
    fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let output = fs::File::create(log).with_context(|| log.display().to_string())?;
        let errors = output.try_clone()?;
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        Ok(Self(child.with_context(|| format!("{command:?}"))?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        // It may have ended by itself.
        let _ = kill(pid, Signal::SIGTERM);
        let end = Instant::now() + Duration::from_secs(10);
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn private_folder(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    Ok(path)
}

/// Ports that nobody has at the moment.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A cluster of two nodes, both this machine.
pub(super) struct Slurm {
    /// The last to start is the first to stop.
    daemons: Vec<Daemon>,
    pub(super) configuration: PathBuf,
}

impl Slurm {
    /// # Errors
    /// A program is missing, or the nodes do not come up.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        require(
            &["slurmctld", "slurmd", "srun", "munged"],
            &["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libpmix-dev"],
        )?;
        if !nix::unistd::geteuid().is_root() {
            bail!("slurmd has to be started by root");
        }
        let folder = private_folder(folder.join("slurm"))?;
        let socket = folder.join("munge.socket");
        let key = write(folder.join("munge.key"), &random_text()?)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        let program = |name: &str| Command::new(find(name).unwrap_or_else(|| name.into()));
        let mut munged = program("munged");
        munged.args(["--force", "--foreground"]);
        for (option, file) in
            [("socket", "munge.socket"), ("key-file", "munge.key"), ("pid-file", "munge.pid")]
        {
            munged.arg(format!("--{option}={}", folder.join(file).display()));
        }
        for (option, file) in [("log-file", "munge.log"), ("seed-file", "munge.seed")] {
            munged.arg(format!("--{option}={}", folder.join(file).display()));
        }
        let mut daemons = vec![Daemon::start(&mut munged, &folder.join("munged.out"))?];
        wait_until("munged", || socket.exists())?;
        let configuration = write(folder.join("slurm.conf"), &configuration(&folder, &socket)?)?;
        for name in ["state", "tmp-aya1", "tmp-aya2"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let mut begin = |name: &str, arguments: &[&str], log: &str| -> Result<()> {
            let mut command = program(name);
            command.arg("-D").args(arguments).arg("-f").arg(&configuration);
            daemons.push(Daemon::start(&mut command, &folder.join(log))?);
            Ok(())
        };
        begin("slurmctld", &["-c"], "slurmctld.out")?;
        begin("slurmd", &["-N", "aya1"], "slurmd-aya1.out")?;
        begin("slurmd", &["-N", "aya2"], "slurmd-aya2.out")?;
        let slurm = Self { daemons, configuration };
        wait_until("Slurm's nodes", || {
            let mut sinfo = Command::new("sinfo");
            sinfo.args(["-h", "-o", "%T %D"]).env("SLURM_CONF", &slurm.configuration);
            checked(&mut sinfo).is_ok_and(|text| text.trim() == "idle 2")
        })?;
        Ok(slurm)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        while let Some(daemon) = self.daemons.pop() {
            drop(daemon);
        }
    }
}

fn wait_until(what: &str, is_there: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + START_MAX;
    while !is_there() {
        if Instant::now() > end {
            bail!("{what} did not come up within {} s", START_MAX.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn random_text() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0; 64];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Eight CPUs a node, whatever there are: ranks share them.
fn configuration(folder: &Path, socket: &Path) -> Result<String> {
    let host = checked(Command::new("uname").arg("-n"))?.trim().to_owned();
    let [controller, first, second] = free_ports()?;
    let node = |name: &str, port: u16| {
        format!(
            "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} State=UNKNOWN CPUs=8 \
             Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1000\n"
        )
    };
    let text = [
        "ClusterName=ayatori",
        "SlurmctldHost={host}(127.0.0.1)",
        "SlurmctldPort={port}",
        "SlurmUser=root",
        "AuthType=auth/munge",
        "AuthInfo=socket={socket}",
        "CredType=cred/munge",
        "StateSaveLocation={folder}/state",
        "SlurmctldPidFile={folder}/slurmctld.pid",
        "SlurmdPidFile={folder}/slurmd-%n.pid",
        "SlurmdSpoolDir={folder}/spool-%n",
        // By node: the pmix plugin names its folders there by the job alone.
        "TmpFS={folder}/tmp-%n",
        "ProctrackType=proctrack/pgid",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        "MpiDefault=none",
        "ReturnToService=2",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SlurmdParameters=config_overrides",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        "KillWait=3",
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
    ];
    let text = text.join("\n").replace("{host}", &host).replace("{port}", &controller.to_string());
    let text = text.replace("{socket}", &socket.display().to_string());
    let text = text.replace("{folder}", &folder.display().to_string());
    // Nodes before the partition of all of them.
    let (general, partition) = text.split_at(text.find("PartitionName").unwrap_or(text.len()));
    Ok(format!("{general}{}{}{partition}", node("aya1", first), node("aya2", second)))
}

/// A server that lets this user in by a key made for it.
pub(super) struct Sshd {
    _daemon: Daemon,
    /// A command that is used as `ssh` is.
    pub(super) client: PathBuf,
}

impl Sshd {
    /// # Errors
    /// A program is missing, or the server does not take us in.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        require(&["sshd", "ssh", "ssh-keygen"], &["openssh-server", "openssh-client"])?;
        let folder = private_folder(folder.join("sshd"))?;
        for name in ["host_key", "user_key"] {
            if !folder.join(name).exists() {
                let mut keygen = Command::new("ssh-keygen");
                checked(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name)))?;
            }
        }
        if nix::unistd::geteuid().is_root() {
            // Where its unprivileged half lives; Debian makes it at boot.
            fs::create_dir_all("/run/sshd")?;
        }
        let [port] = free_ports()?;
        let place = folder.display();
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nHostKey {place}/host_key\n\
             AuthorizedKeysFile {place}/user_key.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             PermitRootLogin prohibit-password\nPidFile none\nMaxStartups 200\n"
        );
        let configuration = write(folder.join("sshd_config"), &text)?;
        let sshd = find("sshd").context("no sshd")?;
        let daemon = Daemon::start(
            Command::new(sshd).arg("-D").arg("-e").arg("-f").arg(configuration),
            &folder.join("sshd.out"),
        )?;
        let client = write(
            folder.join("ssh"),
            &format!(
                "#!/bin/sh\nexec ssh -p {port} -i {place}/user_key -o BatchMode=yes \
                 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \"$@\"\n"
            ),
        )?;
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755))?;
        wait_until("sshd", || checked(Command::new(&client).args(["127.0.0.2", "true"])).is_ok())?;
        Ok(Self { _daemon: daemon, client })
    }
}
