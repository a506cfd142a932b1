//! Two hosts that are network namespaces of this machine, with rails between them.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;

/// All our namespaces begin with this.
pub(super) const PREFIX: &str = "aytnet";
/// Hang limit of any one program.
pub(super) const LIMIT: Duration = Duration::from_secs(300);
/// Hang limit of a wait for something that a running job does. Less than [`LIMIT`]: what did not come is then
/// named.
const EVENT_LIMIT: Duration = Duration::from_secs(120);
/// Ethernet's usual frames, and the long ones that clusters use.
pub(super) const MTU: u32 = 1500;
pub(super) const MTU_JUMBO: u32 = 9000;
/// An address that nobody has: frames to it are lost without a word.
const NOBODY: &str = "02:00:00:00:00:99";

/// `ip WORDS`.
pub(super) fn ip(words: &str) -> Result<()> {
    let outcome = process::capture(Command::new("ip").args(words.split(' ')), LIMIT)?;
    if !outcome.success() {
        bail!("`ip {words}`: {}", outcome.reason());
    }
    Ok(())
}

/// A namespace with nothing but its loopback.
pub(super) fn namespace(name: &str) -> Result<()> {
    ip(&format!("netns add {name}"))?;
    ip(&format!("-n {name} link set lo up"))?;
    let reno = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control";
    process::capture(Command::new("ip").args(["netns", "exec", name, "sh", "-c", reno]), LIMIT)?;
    Ok(())
}

/// Why there cannot be namespaces here; `None`: there can.
pub(crate) fn obstacle() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("network namespaces need root (sudo -E cargo xtask net-test)".to_owned());
    }
    let probe = format!("{PREFIX}{}p", std::process::id());
    let (a, b) = (format!("netns add {probe}"), format!("-n {probe} link add x type veth peer name y"));
    let tbf = format!("-n {probe} link set x up");
    let made = ip(&a).and_then(|()| ip(&b)).and_then(|()| ip(&tbf)).and_then(|()| {
        let tc = ["netns", "exec", &probe, "tc", "qdisc", "add", "dev", "x", "root", "tbf", "rate", "1gbit"];
        let outcome =
            process::capture(Command::new("ip").args(tc).args(["burst", "256kb", "latency", "5ms"]), LIMIT)?;
        if outcome.success() { Ok(()) } else { bail!("tc: {}", outcome.reason()) }
    });
    let _ = ip(&format!("netns del {probe}"));
    made.err().map(|error| format!("no network namespaces with shaped veth pairs here: {error:#}"))
}

/// Two namespaces with rails between them; gone when dropped.
pub(super) struct Network {
    pub(super) hosts: [String; 2],
    pub(super) rails: usize,
}

impl Network {
    /// `rails` veth pairs, `10.77.N.1` and `.2` on rail N, and `fd77:N::1` and `::2`.
    pub(super) fn new(rails: usize) -> Result<Self> {
        Self::with_mtu(rails, MTU)
    }

    /// The same with frames of another length. Congestion control is reno, which every kernel has.
    pub(super) fn with_mtu(rails: usize, mtu: u32) -> Result<Self> {
        let network = Self::empty()?;
        let [a, b] = &network.hosts;
        for rail in 0..rails {
            ip(&format!("link add rail{rail} netns {a} type veth peer name rail{rail} netns {b}"))?;
            for (number, host) in [(1, a), (2, b)] {
                ip(&format!("-n {host} link set rail{rail} mtu {mtu}"))?;
                ip(&format!("-n {host} addr add 10.77.{rail}.{number}/24 dev rail{rail}"))?;
                ip(&format!("-n {host} addr add fd77:{rail}::{number}/64 dev rail{rail} nodad"))?;
                ip(&format!("-n {host} link set rail{rail} up"))?;
            }
        }
        network.settle()?;
        Ok(Self { hosts: network.take(), rails })
    }

    /// Two namespaces with nothing between them.
    pub(super) fn empty() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let hosts = ["a", "b"].map(|side| format!("{PREFIX}{}{side}{number}", std::process::id()));
        let network = Self { hosts, rails: 0 };
        network.hosts.iter().try_for_each(|host| namespace(host))?;
        Ok(network)
    }

    /// The names, without the end.
    fn take(self) -> [String; 2] {
        let hosts = self.hosts.clone();
        std::mem::forget(self);
        hosts
    }

    /// Waits until the kernel has noticed every carrier, which it does within a second.
    pub(super) fn settle(&self) -> Result<()> {
        let begin = Instant::now();
        for host in &self.hosts {
            loop {
                let links =
                    process::capture(Command::new("ip").args(["-n", host, "-o", "link", "show"]), LIMIT)?;
                let is_pending = |line: &str| !line.contains(" lo:") && !line.contains("state UP");
                if !links.stdout.lines().any(is_pending) {
                    break;
                }
                if begin.elapsed() > EVENT_LIMIT {
                    bail!("{host}: a link does not come up: {}", links.stdout);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Limits a rail to so many Mbit/s, both ways; also while it is in use.
    pub(super) fn shape(&self, rail: usize, mbit_per_s: u32) -> Result<()> {
        for host in &self.hosts {
            let words = format!(
                "netns exec {host} tc qdisc replace dev rail{rail} root tbf rate {mbit_per_s}mbit burst 256kb latency 5ms"
            );
            ip(&words)?;
        }
        Ok(())
    }

    /// The carrier of a rail goes, or comes.
    pub(super) fn set_carrier_gone(&self, rail: usize, is_gone: bool) -> Result<()> {
        let host = &self.hosts[0];
        ip(&format!("-n {host} link set rail{rail} {}", if is_gone { "down" } else { "up" }))?;
        if !is_gone {
            // An interface that was down has lost this one.
            ip(&format!("-n {host} addr replace fd77:{rail}::1/64 dev rail{rail} nodad"))?;
        }
        Ok(())
    }

    /// Everything sent over a rail is lost, both ways, and the carrier stays; or not any more.
    pub(super) fn set_silent(&self, rail: usize, is_silent: bool) -> Result<()> {
        for (host, other) in self.hosts.iter().zip([2, 1]) {
            for address in [format!("10.77.{rail}.{other}"), format!("fd77:{rail}::{other}")] {
                let words = if is_silent {
                    format!("-n {host} neigh replace {address} lladdr {NOBODY} dev rail{rail} nud permanent")
                } else {
                    format!("-n {host} neigh del {address} dev rail{rail}")
                };
                ip(&words)?;
            }
        }
        Ok(())
    }

    /// A job of ours on both hosts.
    pub(super) fn job(&self, prefix: &Path, ranks: usize, options: &[&str], program: &Path) -> Command {
        let mut command = Command::new(prefix.join("bin/ayatori"));
        command.args(["run", "--agent", "ip netns exec {host}", "--hosts", &self.hosts.join(",")]);
        command.args(["-n", &ranks.to_string()]).args(options).arg(program);
        command
    }

    /// Bytes that host b has received over a rail, also what was not meant for it.
    pub(super) fn carried(&self, rail: usize) -> Result<u64> {
        let path = format!("/sys/class/net/rail{rail}/statistics/rx_bytes");
        let outcome = process::capture(&mut self.in_host(1, &["cat", &path]), LIMIT)?;
        outcome.stdout.trim().parse().with_context(|| format!("{path}: {}", outcome.reason()))
    }

    /// Waits until these rails have carried so many bytes more, each of them.
    pub(super) fn await_carried(&self, rails: &[usize], bytes: u64) -> Result<()> {
        let carried = || rails.iter().map(|&rail| self.carried(rail)).collect::<Result<Vec<u64>>>();
        let before = carried()?;
        let begin = Instant::now();
        loop {
            let more: Vec<u64> = carried()?.iter().zip(&before).map(|(now, then)| now - then).collect();
            if more.iter().all(|&more| more >= bytes) {
                return Ok(());
            }
            if begin.elapsed() > EVENT_LIMIT {
                bail!("rails {rails:?} carried {more:?} bytes in {EVENT_LIMIT:?}, not {bytes} each");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A program in one of the two.
    pub(super) fn in_host(&self, host: usize, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.hosts[host]]).args(words);
        command
    }
}

/// Runs a job that goes on until a file appears, whose path is its last argument; the file is made when
/// `script` ends.
pub(super) fn while_running(
    job: &mut Command,
    script: impl FnOnce() -> Result<()> + Send,
) -> Result<process::Outcome> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let stop = std::env::temp_dir().join(format!("{PREFIX}-stop-{}-{number}", std::process::id()));
    job.arg(&stop);
    let outcome = std::thread::scope(|scope| {
        let script = scope.spawn(|| {
            let result = script();
            std::fs::write(&stop, "").context("the file that stops a job")?;
            result
        });
        let outcome = process::capture(job, LIMIT);
        let script = script.join().unwrap_or_else(|_| bail!("the script of a job panicked"));
        match (outcome, script) {
            // A job that failed is the reason why the script waited in vain.
            (Ok(outcome), Err(error)) if outcome.success() => Err(error),
            (outcome, _) => outcome,
        }
    });
    let _ = std::fs::remove_file(&stop);
    outcome
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = ip(&format!("netns del {host}"));
        }
    }
}

/// Where `ip netns exec` finds what it lays over /etc, a folder a namespace.
pub(super) const ETC: &str = "/etc/netns";

/// Removes what killed runs have left: namespaces, and the names of their hosts.
pub(super) fn sweep() {
    sweep_folders(Path::new(ETC));
    let Ok(list) = process::capture(Command::new("ip").args(["netns", "list"]), LIMIT) else { return };
    let names = list.stdout.lines().filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| is_left(name)) {
        let _ = ip(&format!("netns del {name}"));
    }
}

fn sweep_folders(etc: &Path) {
    let Ok(entries) = std::fs::read_dir(etc) else { return };
    let mut is_any = false;
    for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_left)) {
        is_any |= std::fs::remove_dir_all(entry.path()).is_ok();
    }
    if is_any {
        // Unless somebody else has something there.
        let _ = std::fs::remove_dir(etc);
    }
}

/// Whether a name is one of ours whose process is no more.
fn is_left(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let pid: String = rest.chars().take_while(char::is_ascii_digit).collect();
    !pid.is_empty() && !Path::new("/proc").join(pid).exists()
}

/// An interface with a carrier and an address, and nobody behind it: a cable whose other end is in the same
/// host.
pub(super) fn blind(host: &str, name: &str, address: &str) -> Result<()> {
    ip(&format!("-n {host} link add {name} type veth peer name {name}x"))?;
    ip(&format!("-n {host} addr add {address} dev {name}"))?;
    ip(&format!("-n {host} link set {name} up"))?;
    ip(&format!("-n {host} link set {name}x up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_runs_have_left_is_swept_and_nothing_else() {
        let etc = std::env::temp_dir().join(format!("ayatori-netns-{}", std::process::id()));
        // No process has a number so high.
        let left = [format!("{PREFIX}4194305a0"), format!("{PREFIX}4194305b0")];
        let kept = [format!("{PREFIX}{}a0", std::process::id()), format!("{PREFIX}work"), "lab".to_owned()];
        for name in left.iter().chain(&kept) {
            std::fs::create_dir_all(etc.join(name)).expect("a folder");
            std::fs::write(etc.join(name).join("hosts"), "127.0.0.1 localhost\n").expect("a file");
        }
        sweep_folders(&etc);
        assert!(left.iter().all(|name| !etc.join(name).exists()), "folders of a dead process are left");
        assert!(kept.iter().all(|name| etc.join(name).join("hosts").exists()), "another's folder is gone");
        std::fs::remove_dir_all(&etc).expect("our folder");
        sweep_folders(&etc);
    }
}
