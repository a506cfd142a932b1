//! `cargo xtask net-test`: jobs over TCP between two network namespaces of this machine.
//!
//! Needs root. The namespaces and their rails have names of their own and are removed at the end, whatever happens.

mod away;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::conformance::programs;
use crate::peers::Library;
use crate::{paths, process, stage};

/// What to try.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Use what is staged under build/prefix
    #[arg(long)]
    no_build: bool,
    /// Also measure: ping-pong beside raw sockets, bandwidth of shaped rails, the peers
    #[arg(long)]
    measure: bool,
    /// How many times a rail is cut and restored under traffic
    #[arg(long, default_value_t = 10)]
    cuts: u32,
    /// Seed of the cuts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the conformance programs whose name contains this
    #[arg(long)]
    only: Option<String>,
}

/// All our namespaces begin with this.
const PREFIX: &str = "aytnet";
const LIMIT: Duration = Duration::from_secs(120);
const RANKS: [usize; 3] = [2, 3, 4];
/// Interleaved rounds of a comparison.
const ROUNDS: usize = 5;

fn ip(words: &str) -> Result<()> {
    let outcome = process::capture(Command::new("ip").args(words.split(' ')), LIMIT)?;
    if !outcome.success() {
        bail!("`ip {words}`: {}", outcome.reason());
    }
    Ok(())
}

/// Two namespaces with rails between them; gone when dropped.
struct Network {
    hosts: [String; 2],
    rails: usize,
}

impl Network {
    /// `rails` veth pairs, `10.77.N.1` and `.2` on rail N, and `fd77:N::1` and `::2`.
    fn new(rails: usize) -> Result<Self> {
        let hosts = ["a", "b"].map(|side| format!("{PREFIX}{}{side}", std::process::id()));
        let network = Self { hosts, rails };
        let [a, b] = &network.hosts;
        for host in [a, b] {
            ip(&format!("netns add {host}"))?;
            ip(&format!("-n {host} link set lo up"))?;
        }
        for rail in 0..rails {
            ip(&format!("link add rail{rail} netns {a} type veth peer name rail{rail} netns {b}"))?;
            for (number, host) in [(1, a), (2, b)] {
                ip(&format!("-n {host} addr add 10.77.{rail}.{number}/24 dev rail{rail}"))?;
                ip(&format!("-n {host} addr add fd77:{rail}::{number}/64 dev rail{rail} nodad"))?;
                ip(&format!("-n {host} link set rail{rail} up"))?;
            }
        }
        network.settle()?;
        Ok(network)
    }

    /// Waits until the kernel has noticed every carrier, which it does within a second.
    fn settle(&self) -> Result<()> {
        let begin = Instant::now();
        for host in &self.hosts {
            loop {
                let links =
                    process::capture(Command::new("ip").args(["-n", host, "-o", "link", "show"]), LIMIT)?;
                let is_pending = |line: &str| !line.contains(" lo:") && !line.contains("state UP");
                if !links.stdout.lines().any(is_pending) {
                    break;
                }
                if begin.elapsed() > Duration::from_secs(10) {
                    bail!("{host}: a link does not come up: {}", links.stdout);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Limits a rail to so many Mbit/s, both ways.
    fn shape(&self, rail: usize, mbit_per_s: u32) -> Result<()> {
        for host in &self.hosts {
            let words = format!(
                "netns exec {host} tc qdisc replace dev rail{rail} root tbf rate {mbit_per_s}mbit burst 256kb latency 5ms"
            );
            ip(&words)?;
        }
        Ok(())
    }

    /// A job of ours on both hosts.
    fn job(&self, prefix: &Path, ranks: usize, options: &[&str], program: &Path) -> Command {
        let mut command = Command::new(prefix.join("bin/ayatori"));
        command.args(["run", "--agent", "ip netns exec {host}", "--hosts", &self.hosts.join(",")]);
        command.args(["-n", &ranks.to_string()]).args(options).arg(program);
        command
    }

    fn in_host(&self, host: usize, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.hosts[host]]).args(words);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = ip(&format!("netns del {host}"));
        }
    }
}

/// Removes what killed runs have left.
fn sweep() {
    let Ok(list) = process::capture(Command::new("ip").args(["netns", "list"]), LIMIT) else { return };
    let names = list.stdout.lines().filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| name.starts_with(PREFIX)) {
        let pid = name[PREFIX.len()..].trim_end_matches(['a', 'b']);
        if !Path::new("/proc").join(pid).exists() {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// `cargo xtask net-test`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("net-test makes network namespaces and needs root: sudo -E cargo xtask net-test");
    }
    sweep();
    let prefix = if options.no_build { paths::build_dir().join("prefix") } else { stage::stage()? };
    let mut failures = Vec::new();
    conform(&prefix, options, &mut failures)?;
    endure(&prefix, &mut failures)?;
    cut(&prefix, options, &mut failures)?;
    away::pace(&prefix, &mut failures)?;
    away::finish(&prefix, options.seed, &mut failures)?;
    if options.measure {
        measure(&prefix)?;
    }
    if !failures.is_empty() {
        bail!("net-test: {} failures:\n  {}", failures.len(), failures.join("\n  "));
    }
    println!("== net-test: all passed");
    Ok(())
}

fn build(prefix: &Path, source: &Path) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has a name")?;
    let program = paths::build_dir().join("net-test").join(name);
    std::fs::create_dir_all(program.parent().context("a folder")?)?;
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    mpicc.args(["-O2", "-std=gnu11"]).arg(source).arg("-o").arg(&program).arg("-lm");
    let outcome = process::capture(&mut mpicc, LIMIT)?;
    if !outcome.success() {
        bail!("`{}`: {}", process::line(&mpicc), outcome.reason());
    }
    Ok(program)
}

/// The conformance programs over one rail.
fn conform(prefix: &Path, options: &Options, failures: &mut Vec<String>) -> Result<()> {
    let network = Network::new(1)?;
    let (mut passed, begin) = (0, Instant::now());
    for source in programs::sources()? {
        let name = programs::name(&source);
        let is_wanted = options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
        if name.starts_with("fatal") || !is_wanted {
            continue;
        }
        let program = build(prefix, &source)?;
        for ranks in RANKS {
            let outcome = process::capture(&mut network.job(prefix, ranks, &[], &program), LIMIT)?;
            if outcome.success() && outcome.stdout.trim() == "No Errors" {
                passed += 1;
            } else {
                failures.push(format!("{name} on {ranks} ranks: {}", outcome.reason()));
            }
        }
    }
    println!(
        "== net-test: {passed} conformance runs over TCP passed, {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// An interface with a carrier and an address, and nobody behind it: a cable whose other end is in the same host.
fn blind(host: &str, name: &str, address: &str) -> Result<()> {
    ip(&format!("-n {host} link add {name} type veth peer name {name}x"))?;
    ip(&format!("-n {host} addr add {address} dev {name}"))?;
    ip(&format!("-n {host} link set {name} up"))?;
    ip(&format!("-n {host} link set {name}x up"))
}

/// Interfaces as real machines have them.
fn endure(prefix: &Path, failures: &mut Vec<String>) -> Result<()> {
    let network = Network::new(2)?;
    for host in &network.hosts {
        // docker0: the same address on every host, and nobody behind it; a network that leads nowhere.
        blind(host, "docker0", "172.17.0.1/16")?;
    }
    blind(&network.hosts[0], "virbr0", "192.168.122.1/24")?;
    network.settle()?;
    let hello = build(prefix, &paths::root().join("conformance/c/coll_pairs.c"))?;
    for (what, options) in [
        ("docker0 and virbr0 beside the rails", &[][..]),
        ("one rail by name", &["--rails", "rail1"]),
        ("one rail by network", &["--rails", "10.77.0.0/24"]),
        ("IPv6 only", &["--rails", "fd77::/16"]),
        ("without one rail", &["--no-rails", "rail0"]),
    ] {
        let begin = Instant::now();
        let outcome = process::capture(&mut network.job(prefix, 4, options, &hello), LIMIT)?;
        let took = begin.elapsed();
        println!(
            "== net-test: {what}: {} in {:.2} s",
            if outcome.success() { "ok" } else { "FAILED" },
            took.as_secs_f64()
        );
        if !outcome.success() || took > Duration::from_secs(15) {
            failures.push(format!("{what}: {}", outcome.reason()));
        }
    }
    let mut nothing = network.job(prefix, 2, &["--rails", "eth9"], &hello);
    let outcome = process::capture(&mut nothing, LIMIT)?;
    if outcome.success() || !outcome.stderr.contains("rail0 (not among --rails)") {
        failures.push(format!("a rail that is not there: {}", outcome.stderr));
    }
    Ok(())
}

/// Rails go down and come back at random moments, one of them always stays; every word that arrives is looked at.
fn cut(prefix: &Path, options: &Options, failures: &mut Vec<String>) -> Result<()> {
    const RAILS: usize = 4;
    if options.cuts == 0 {
        return Ok(());
    }
    let network = Network::new(RAILS)?;
    for rail in 0..RAILS {
        network.shape(rail, 2000)?;
    }
    let program = build(prefix, &paths::root().join("tests/net/verify.c"))?;
    let seconds = 2 + options.cuts;
    let mut job = network.job(prefix, 2, &[], &program);
    job.arg(seconds.to_string());
    let hosts = network.hosts.clone();
    let (cuts, mut state) = (options.cuts, options.seed);
    let cutter = std::thread::spawn(move || {
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..cuts {
            // The last rail stays.
            let (host, rail) = (&hosts[random(2) as usize], random(RAILS as u64 - 1));
            let _ = ip(&format!("-n {host} link set rail{rail} down"));
            std::thread::sleep(Duration::from_millis(100 + random(700)));
            let _ = ip(&format!("-n {host} link set rail{rail} up"));
            std::thread::sleep(Duration::from_millis(random(200)));
        }
    });
    let outcome = process::capture(&mut job, LIMIT + Duration::from_secs(seconds.into()))?;
    let _ = cutter.join();
    let said = outcome.stderr.trim().lines().next_back().unwrap_or_default().to_owned();
    println!("== net-test: {} cuts (seed {}): {said}", options.cuts, options.seed);
    if !outcome.success() || outcome.stdout.trim() != "No Errors" {
        failures.push(format!("cuts with seed {}: {}", options.seed, outcome.reason()));
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value of `RESULT name bytes value unit`.
fn result(text: &str, name: &str, bytes: usize) -> Option<f64> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["RESULT", n, b, value, ..] if n == name && b.parse() == Ok(bytes) => value.parse().ok(),
            _ => None,
        }
    })
}

struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn raw_ping_pong(network: &Network, raw: &str) -> Result<f64> {
    let mut server = network.in_host(0, &["taskset", "-c", "0", raw, "server", "10.77.0.1", "8"]);
    let _server = Background(server.stdout(Stdio::null()).spawn()?);
    let mut client = network.in_host(1, &["taskset", "-c", "1", raw, "client", "10.77.0.1", "8"]);
    let outcome = process::capture(&mut client, LIMIT)?;
    result(&outcome.stdout, "pingpong", 8).with_context(|| outcome.reason())
}

/// A peer's job in the two namespaces, if its launcher can do that.
fn peer_job(network: &Network, library: Library, program: &Path) -> Option<Command> {
    let agent = paths::build_dir().join("net-test/netns-agent");
    std::fs::write(&agent, "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\nexec ip netns exec \"$host\" sh -c \"$*\"\n").ok()?;
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).ok()?;
    // Its proxies connect to the launcher, so that has to be inside.
    let launcher = library.prefix().join("bin/mpiexec");
    let mut command = network.in_host(0, &[&*launcher.to_string_lossy()]);
    match library {
        Library::Mpich => {
            command.args(["-launcher", "ssh", "-launcher-exec"]).arg(&agent);
            command.args(["-iface", "rail0", "-hosts", &network.hosts.join(","), "-ppn", "1", "-n", "2"]);
        }
        _ => return None,
    }
    command.arg(program);
    Some(command)
}

fn measure(prefix: &Path) -> Result<()> {
    let raw = paths::build_dir().join("net-test/raw");
    let source = paths::root().join("tests/net/raw.c");
    process::show(Command::new("cc").args(["-O2", "-std=gnu11"]).arg(source).arg("-o").arg(&raw))?;
    let ping_pong = build(prefix, &paths::root().join("bench/pingpong.c"))?;
    let bandwidth = build(prefix, &paths::root().join("bench/bandwidth.c"))?;
    {
        let network = Network::new(1)?;
        let mut figures: Vec<(&str, Vec<f64>)> = vec![("raw sockets", vec![]), ("ayatori", vec![])];
        let mpich = Library::Mpich.prefix().join("bin/mpiexec").exists().then(|| {
            let program = paths::build_dir().join("net-test/mpich-pingpong");
            Library::Mpich.compile(&paths::root().join("bench/pingpong.c"), &program).map(|()| program)
        });
        if mpich.is_some() {
            figures.push(("mpich", vec![]));
        }
        for _ in 0..ROUNDS {
            figures[0].1.push(raw_ping_pong(&network, &raw.to_string_lossy())?);
            let outcome = process::capture(&mut network.job(prefix, 2, &[], &ping_pong), LIMIT)?;
            figures[1].1.push(result(&outcome.stdout, "pingpong", 8).with_context(|| outcome.reason())?);
            if let Some(Ok(program)) = &mpich
                && let Some(mut job) = peer_job(&network, Library::Mpich, program)
            {
                let outcome = process::capture(&mut job, LIMIT)?;
                figures[2].1.extend(result(&outcome.stdout, "pingpong", 8));
            }
        }
        for (name, values) in figures {
            println!(
                "== net-test: 8 B one way, {name}: {:.2} us (median of {})",
                median(values.clone()),
                values.len()
            );
        }
        let outcome = process::capture(&mut network.job(prefix, 2, &[], &bandwidth), LIMIT)?;
        let rate = result(&outcome.stdout, "bandwidth", 1 << 20).with_context(|| outcome.reason())?;
        println!("== net-test: 1 MiB one way, one rail, unshaped: {rate:.2} GB/s");
    }
    away::overlap(prefix)?;
    for (what, rates) in [
        ("2 Gbit/s", &[2000][..]),
        ("4 x 2 Gbit/s", &[2000, 2000, 2000, 2000]),
        ("2 Gbit/s + 500 Mbit/s", &[2000, 500]),
    ] {
        let network = Network::new(rates.len())?;
        for (rail, &rate) in rates.iter().enumerate() {
            network.shape(rail, rate)?;
        }
        let outcome = process::capture(&mut network.job(prefix, 2, &[], &bandwidth), LIMIT)?;
        let sum = f64::from(rates.iter().sum::<u32>()) / 8e3;
        for name in ["bandwidth", "bibandwidth"] {
            let Some(rate) = result(&outcome.stdout, name, 4 << 20) else { continue };
            let whole = if name == "bandwidth" { sum } else { 2.0 * sum };
            println!(
                "== net-test: 4 MiB {name}, {} rails of {what}: {:.1} MB/s, {:.1} % of the sum",
                network.rails,
                rate * 1e3,
                rate / whole * 100.0
            );
        }
    }
    Ok(())
}
