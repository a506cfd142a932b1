//! QEMU: its command line, its life, and the line to the agent inside.

use super::image;
use super::kernel::Kernel;
use super::modules;
use anyhow::{Context, bail};
use ayatori_fabric::plan::Plan;
use cpio::NewcBuilder;
use serde::{Serialize, de::DeserializeOwned};
use std::fs;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the virtio-serial port that is the line between us and the agent.
pub(crate) const LINE_NAME: &str = "ayatori.agent";

/// The accelerator of the virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU translates instructions: works everywhere, several times slower
    Tcg,
    /// The processor runs them: needs access to /dev/kvm
    Kvm,
}

/// The machine to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The kernel that it boots.
    pub kernel: Kernel,
    /// Its accelerator.
    pub accelerator: Accelerator,
    /// Processor cores.
    pub core_count: usize,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// The machine is ended after this time, from outside and from inside.
    pub timeout: Duration,
    /// The program to run inside, which calls [`crate::agent::serve`].
    pub agent: PathBuf,
    /// Its arguments.
    pub agent_args: Vec<String>,
}

impl Spec {
    /// A virtual machine for `plan`: up to four of this machine's cores, memory by the number of nodes, the
    /// emulator, 15 minutes.
    pub fn new(plan: &Plan, kernel: Kernel, agent: PathBuf, agent_args: Vec<String>) -> Spec {
        // A namespace with its interfaces takes a few hundred KiB, a running program a few MiB.
        let memory_mib = 768 + 8 * (plan.hosts.len() + plan.switches.len()) as u64;
        let core_count = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let timeout = Duration::from_secs(900);
        Spec { kernel, accelerator: Accelerator::Tcg, core_count, memory_mib, timeout, agent, agent_args }
    }
}

/// Kernel modules the machine needs: its own devices and file systems, then what networks are made of.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "9p",
    "9pnet_virtio",
    "bridge",
    "veth",
    "8021q",
    "bonding",
    "dummy",
    "af_packet",
    "sch_netem",
    "sch_tbf",
];

/// For the kernel: no IPv6 (it sends frames unasked), and nothing that protects one program from another,
/// which costs an emulated processor much: there is only us. Namespaces do not wait for quiet moments
/// (`rcu_expedited`).
const KERNEL_OPTIONS: &str = "console=ttyS0 quiet panic=-1 ipv6.disable_ipv6=1 mitigations=off nokaslr init_on_alloc=0 \
     lsm= audit=0 rcupdate.rcu_expedited=1 no_timer_check tsc=reliable random.trust_cpu=on";

const QEMU: &str = "qemu-system-x86_64";
/// How long the kernel may take until the agent says its first word.
const BOOT_MAX: Duration = Duration::from_secs(180);
/// How often a wait looks whether the machine is still there.
const TICK: Duration = Duration::from_millis(100);
/// Lines of the machine's console shown when something goes wrong.
const CONSOLE_TAIL_LINES: usize = 15;

/// A running machine. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    line: BufReader<UnixStream>,
    /// The part of an incomplete line that has arrived.
    partial: Vec<u8>,
    folder: tempfile::TempDir,
    deadline: Instant,
}

impl Guest {
    /// Starts the machine. Returns when QEMU has taken up the line; the agent's first message comes later.
    ///
    /// # Errors
    /// QEMU or busybox not installed, the kernel without a module, QEMU refusing its arguments.
    pub(crate) fn boot(spec: &Spec) -> anyhow::Result<Guest> {
        let folder = tempfile::Builder::new()
            .prefix("ayatori-lab-")
            .tempdir()
            .context("cannot create a temporary folder")?;
        let archive = start_archive(spec)?;
        fs::write(folder.path().join("initrd"), archive).context("cannot write the start archive")?;
        let socket = folder.path().join("line");
        let listener = UnixListener::bind(&socket).context("cannot make the line's socket")?;
        listener.set_nonblocking(true)?;
        let errors = fs::File::create(folder.path().join("qemu.err"))?;
        let child = command(spec, folder.path())?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => anyhow::anyhow!(
                    "{QEMU} is not installed; install it (Debian: apt-get install qemu-system-x86)"
                ),
                _ => anyhow::anyhow!("cannot start {QEMU}: {error}"),
            })?;
        let mut starting = Starting { child: Some(child) };
        let stream = starting.accept(&listener, folder.path())?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(TICK))?;
        let child = starting.child.take().expect("taken once");
        let deadline = Instant::now() + spec.timeout;
        Ok(Guest { child, line: BufReader::new(stream), partial: Vec::new(), folder, deadline })
    }

    /// Sends one message to the agent.
    ///
    /// # Errors
    /// The machine is gone.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(message).context("cannot encode a message to the machine")?;
        text.push(b'\n');
        match self.line.get_mut().write_all(&text) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.trouble(&format!("cannot talk to the virtual machine ({error})"))),
        }
    }

    /// The agent's next message; waits for it, at most as long as the machine may live.
    ///
    /// # Errors
    /// The machine ended or its time is over; the message has the end of its console.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> anyhow::Result<M> {
        self.receive_until(self.deadline)
    }

    /// The agent's first message, or an error when the kernel does not come up.
    ///
    /// # Errors
    /// As [`Guest::receive`], and no message within three minutes.
    pub(crate) fn receive_first<M: DeserializeOwned>(&mut self) -> anyhow::Result<M> {
        self.receive_until(self.deadline.min(Instant::now() + BOOT_MAX))
    }

    fn receive_until<M: DeserializeOwned>(&mut self, deadline: Instant) -> anyhow::Result<M> {
        loop {
            match self.line.read_until(b'\n', &mut self.partial) {
                Ok(0) => return Err(self.trouble("the virtual machine ended before its work was done")),
                Ok(_) if self.partial.last() == Some(&b'\n') => {
                    let line = std::mem::take(&mut self.partial);
                    return serde_json::from_slice(&line).with_context(|| {
                        format!("cannot understand the agent: {}", String::from_utf8_lossy(&line).trim_end())
                    });
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() > deadline {
                        return Err(self.trouble("the virtual machine did not answer in time (--timeout)"));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.trouble(&format!("lost the virtual machine ({error})"))),
            }
        }
    }

    /// `what` with what the machine and QEMU said last.
    fn trouble(&mut self, what: &str) -> anyhow::Error {
        let mut message = what.to_owned();
        for (name, file) in [("QEMU", "qemu.err"), ("console", "console")] {
            let tail = tail(&self.folder.path().join(file));
            if !tail.is_empty() {
                message += &format!("; the last lines of its {name}:\n{tail}");
            }
        }
        anyhow::anyhow!(message)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// QEMU between its start and the moment it takes up the line; ended if we give up in between.
struct Starting {
    child: Option<Child>,
}

impl Starting {
    fn accept(&mut self, listener: &UnixListener, folder: &Path) -> anyhow::Result<UnixStream> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => bail!("cannot take the line from {QEMU}: {error}"),
            }
            let child = self.child.as_mut().expect("not taken before the line is up");
            if let Some(status) = child.try_wait().context("cannot watch QEMU")? {
                bail!("{QEMU} gave up ({status}):\n{}", tail(&folder.join("qemu.err")));
            }
            if Instant::now() > deadline {
                bail!("{QEMU} did not start within a minute:\n{}", tail(&folder.join("qemu.err")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The first file system, as a cpio archive: busybox, the modules, and `init.sh` filled in.
fn start_archive(spec: &Spec) -> anyhow::Result<Vec<u8>> {
    let modules = modules::closure(&spec.kernel.modules, MODULES)?;
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    let file_name = spec.agent.file_name().context("the agent has no file name")?;
    let mut agent = vec![quoted(&format!("/run/ayatori/{}", file_name.to_string_lossy()))];
    agent.extend(spec.agent_args.iter().map(|argument| quoted(argument)));
    let init = include_str!("init.sh")
        .replace("@MODULES@", &names.join(" "))
        .replace("@AGENT@", &agent.join(" "))
        .replace("@TIMEOUT_S@", &spec.timeout.as_secs().max(1).to_string());
    let mut files = vec![("bin/busybox".to_owned(), static_busybox()?)];
    files.extend(modules.into_iter().map(|module| (format!("mod/{}.ko", module.name), module.bytes)));
    files.push(("init".to_owned(), init.into_bytes()));
    archive(&["bin", "mod", "proc", "sys", "dev", "root"], files)
}

/// A cpio archive of folders, which must come before what they contain, and of files that all may execute.
fn archive(folders: &[&str], files: Vec<(String, Vec<u8>)>) -> anyhow::Result<Vec<u8>> {
    const MODE_FOLDER: u32 = 0o040_755;
    const MODE_FILE: u32 = 0o100_755;
    let folders = folders.iter().map(|path| (NewcBuilder::new(path).mode(MODE_FOLDER), Vec::new()));
    let files = files.into_iter().map(|(path, content)| (NewcBuilder::new(&path).mode(MODE_FILE), content));
    let entries = folders.chain(files).map(|(head, content)| (head, Cursor::new(content)));
    cpio::write_cpio(entries, Vec::new()).context("cannot make the start archive")
}

/// In the first file system there is no dynamic linker, so busybox must be a static one.
fn static_busybox() -> anyhow::Result<Vec<u8>> {
    const PLACES: &[&str] = &["/bin/busybox", "/usr/bin/busybox", "/usr/lib/busybox/busybox-static"];
    // A dynamically linked program names its interpreter near its start.
    let is_static = |bytes: &[u8]| !bytes[..bytes.len().min(4096)].windows(3).any(|window| window == b"ld-");
    PLACES.iter().filter_map(|path| fs::read(path).ok()).find(|bytes| is_static(bytes)).context(
        "no statically linked busybox, which starts the virtual machine; install it \
         (Debian: apt-get install busybox-static)",
    )
}

fn command(spec: &Spec, folder: &Path) -> anyhow::Result<Command> {
    let path = |name: &str| option_value(&folder.join(name));
    let agent_folder = option_value(spec.agent.parent().context("the agent has no folder")?);
    // util-linux's setpriv has the kernel end QEMU should we be killed and unable to do it.
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
    let has_qemu = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(QEMU).exists()));
    let mut command = match setpriv {
        Some(setpriv) if has_qemu => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", QEMU]);
            command
        }
        _ => Command::new(QEMU),
    };
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-nic", "none", "-no-reboot"]);
    match spec.accelerator {
        Accelerator::Tcg => command.args(["-accel", "tcg,thread=multi", "-cpu", "qemu64"]),
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
    };
    command.args(["-smp", &spec.core_count.to_string(), "-m", &format!("{}M", spec.memory_mib)]);
    let unpacked = folder.join("kernel");
    let is_unpacked = image::unpack(&spec.kernel.image, &unpacked);
    let kernel = if is_unpacked { &unpacked } else { &spec.kernel.image };
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(folder.join("initrd"));
    command.args(["-append", KERNEL_OPTIONS]);
    command.args(["-serial", &format!("file:{}", folder.join("console").display())]);
    for (tag, path) in [("hostroot", "/".to_owned()), ("agent", agent_folder)] {
        let options = "security_model=none,readonly=on,multidevs=remap";
        command.args(["-fsdev", &format!("local,id={tag},path={path},{options}")]);
        command.args(["-device", &format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}")]);
    }
    command.args(["-chardev", &format!("socket,id=line,path={}", path("line"))]);
    command.args(["-device", "virtio-serial-pci"]);
    command.args(["-device", &format!("virtserialport,chardev=line,name={LINE_NAME}")]);
    Ok(command)
}

/// QEMU doubles commas inside option values.
fn option_value(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn tail(file: &Path) -> String {
    let content = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&content);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(CONSOLE_TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_files_in_the_start_archive() {
        let bytes = archive(&["bin"], vec![("bin/x".into(), b"hello".to_vec())]).unwrap();
        let mut found = Vec::new();
        let mut rest = Cursor::new(bytes);
        loop {
            let reader = cpio::NewcReader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                break;
            }
            found.push((entry.name().to_owned(), entry.mode(), entry.file_size()));
            rest = reader.finish().unwrap();
        }
        assert_eq!(found, [("bin".into(), 0o040_755, 0), ("bin/x".into(), 0o100_755, 5)]);
    }

    #[test]
    fn a_word_survives_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn commas_in_paths_are_doubled_for_qemu() {
        assert_eq!(option_value(Path::new("/a,b")), "/a,,b");
    }
}
