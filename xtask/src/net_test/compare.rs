//! `make bench-net`: ping-pong and bandwidth over the same veth pairs beside raw sockets, Open MPI, MPICH and
//! Intel MPI.
//!
//! Interleaved: within a round raw sockets and every library have their turn at one figure, on the same
//! network, before the next figure begins: a machine that is shared with others is not the same one half a
//! minute later. A library that cannot be launched over namespaces, or fails, is named with the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::names::HostLists;
use super::network::{MTU, Network};
use super::shaped::{Raw, raw_ping_pong, raw_stream, shaped};
use super::{Options, build, build_raw, result};
use crate::bench::median;
use crate::peers::Library;
use crate::{paths, process};

/// One launch may take this long.
const LAUNCH_LIMIT: Duration = Duration::from_secs(40);

/// A network to compare on.
struct Case {
    name: &'static str,
    /// Mbit/s of each rail; none: one rail, not shaped.
    rates: &'static [u32],
}

const CASES: [Case; 5] = [
    Case { name: "one rail, not shaped", rates: &[] },
    Case { name: "1 x 2 Gbit/s", rates: &[2000] },
    Case { name: "2 x 2 Gbit/s", rates: &[2000, 2000] },
    Case { name: "4 x 2 Gbit/s", rates: &[2000, 2000, 2000, 2000] },
    Case { name: "2 Gbit/s + 500 Mbit/s", rates: &[2000, 500] },
];

/// A launch of a program, with messages of one size only.
struct Launch {
    program: &'static str,
    bytes: usize,
    /// Time for each of its figures.
    budget_ms: u32,
    /// The lines of the table that it fills, and the figures' names in its output.
    figures: &'static [(&'static str, &'static str)],
}

const PING_PONG: Launch = launch("pingpong", 8, 300, &[("8 B one way, us", "pingpong")]);
const LONG: [Launch; 7] = [
    launch("pingpong", 64 << 10, 300, &[("64 KiB one way, us", "pingpong")]),
    launch("pingpong", 4 << 20, 600, &[("4 MiB one way, us", "pingpong")]),
    launch("bandwidth", 1 << 10, 300, &[("1 KiB windows, GB/s", ONE_WAY)]),
    launch("bandwidth", 8 << 10, 300, &[("8 KiB windows, GB/s", ONE_WAY)]),
    launch("bandwidth", 64 << 10, 300, &[("64 KiB windows, GB/s", ONE_WAY)]),
    launch(
        "bandwidth",
        1 << 20,
        300,
        &[("1 MiB windows, GB/s", ONE_WAY), ("1 MiB both ways, GB/s", BOTH_WAYS)],
    ),
    launch(
        "bandwidth",
        4 << 20,
        300,
        &[("4 MiB windows, GB/s", ONE_WAY), ("4 MiB both ways, GB/s", BOTH_WAYS)],
    ),
];
/// Figures of windows.
const ONE_WAY: &str = "bandwidth";
const BOTH_WAYS: &str = "bibandwidth";
/// Beside windows of messages of so many bytes stands a raw stream.
const STREAM_BYTES_MIN: usize = 1 << 20;

const fn launch(
    program: &'static str,
    bytes: usize,
    budget_ms: u32,
    figures: &'static [(&'static str, &'static str)],
) -> Launch {
    Launch { program, bytes, budget_ms, figures }
}

/// Ping-pongs of each in a round: they take little time, and scatter by a tenth and more.
const PING_PONGS_A_ROUND: usize = 3;

/// Libraries, ours first. Open MPI's UCX is built without its TCP transport for several rails: ob1 has one.
const LIBRARIES: [Library; 4] = [Library::Ayatori, Library::OpenMpi, Library::Mpich, Library::Intel];

/// By line and library.
type Samples = BTreeMap<(&'static str, &'static str), Vec<f64>>;

/// `cargo xtask net-test --measure`.
pub(super) fn run(prefix: &Path, options: &Options) -> Result<()> {
    let raw = build_raw()?;
    let mut out: BTreeMap<&'static str, String> = BTreeMap::new();
    let mut ready = Vec::new();
    for library in LIBRARIES {
        match programs(library, prefix) {
            Ok(()) => ready.push(library),
            Err(error) => {
                out.insert(library.name(), format!("{error:#}"));
            }
        }
    }
    let is_wanted = |case: &&Case| options.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
    for case in CASES.iter().filter(is_wanted) {
        let network = if case.rates.is_empty() { Network::new(1)? } else { shaped(case.rates, MTU)? };
        let agent = Agent::new(&network)?;
        let mut samples = Samples::new();
        let mut launch_all = |launch: &Launch, samples: &mut Samples| -> Result<()> {
            for &library in &ready {
                if out.contains_key(library.name()) {
                    continue;
                }
                let program = program_path(library, launch.program);
                let mut job = agent.job(&network, library, prefix, &program)?;
                job.env("BENCH_SIZE", launch.bytes.to_string());
                job.env("BENCH_BUDGET_MS", launch.budget_ms.to_string());
                // As on two hosts: the system leaves both ranks on one CPU for the first tenths of a second.
                job.env("BENCH_APART", "1");
                let outcome = process::capture(&mut wrapped(&job, options), LAUNCH_LIMIT)?;
                for (line, name) in launch.figures {
                    match result(&outcome.stdout, name, launch.bytes) {
                        Some(value) => samples.entry((line, library.name())).or_default().push(value),
                        None => {
                            out.insert(library.name(), outcome.reason());
                        }
                    }
                }
            }
            Ok(())
        };
        for _ in 0..options.rounds {
            for _ in 0..PING_PONGS_A_ROUND {
                if let Ok(value) = raw_ping_pong(&network, &raw) {
                    samples.entry((PING_PONG.figures[0].0, "raw")).or_default().push(value);
                }
                launch_all(&PING_PONG, &mut samples)?;
            }
            // Of both ways libraries say the sum.
            for (ways, sum, figure) in [(Raw::OneWay, 1.0, ONE_WAY), (Raw::BothWays, 2.0, BOTH_WAYS)] {
                let Ok(value) = raw_stream(&network, &raw, ways) else { continue };
                let long = LONG.iter().filter(|launch| launch.bytes >= STREAM_BYTES_MIN);
                for (line, _) in long.flat_map(|launch| launch.figures).filter(|(_, name)| *name == figure) {
                    samples.entry((line, "raw")).or_default().push(sum * value);
                }
            }
            for launch in &LONG {
                launch_all(launch, &mut samples)?;
            }
        }
        print_case(case, &samples);
    }
    for (name, why) in &out {
        let why: Vec<&str> = why.lines().filter(|line| !line.trim().is_empty()).take(6).collect();
        println!("{name} is left out from where it failed: {}", why.join(" | "));
    }
    if out.contains_key(Library::Ayatori.name()) {
        bail!("this library failed");
    }
    Ok(())
}

fn print_case(case: &Case, samples: &Samples) {
    println!("\n{} (frames of {MTU} bytes, reno; medians)", case.name);
    let names = std::iter::once("raw").chain(LIBRARIES.map(Library::name));
    let names: Vec<&str> = names.filter(|name| samples.keys().any(|(_, known)| known == name)).collect();
    print!("{:24}", "");
    names.iter().for_each(|name| print!("{name:>10}"));
    println!();
    for (line, _) in std::iter::once(&PING_PONG).chain(&LONG).flat_map(|launch| launch.figures) {
        print!("{line:24}");
        for name in &names {
            match samples.get(&(*line, *name)) {
                Some(values) => print!("{:>10.3}", median(values)),
                None => print!("{:>10}", "-"),
            }
        }
        println!();
    }
}

fn program_path(library: Library, program: &str) -> PathBuf {
    match library {
        Library::Ayatori => paths::build_dir().join("net-test").join(program),
        other => paths::build_dir().join("net-test").join(other.build_name()).join(program),
    }
}

/// Compiles what is to be run.
fn programs(library: Library, prefix: &Path) -> Result<()> {
    for program in ["pingpong", "bandwidth"] {
        let source = paths::root().join("bench").join(format!("{program}.c"));
        if library == Library::Ayatori {
            build(prefix, &source)?;
        } else {
            library.prepare()?;
            library.compile(&source, &program_path(library, program))?;
        }
    }
    Ok(())
}

/// The command with another in front.
fn wrapped(job: &Command, options: &Options) -> Command {
    let Some(wrap) = &options.wrap else {
        let mut plain = Command::new(job.get_program());
        plain.args(job.get_args());
        copy_environment(job, &mut plain);
        return plain;
    };
    let mut words = wrap.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("env"));
    command.args(words).arg(job.get_program()).args(job.get_args());
    copy_environment(job, &mut command);
    command
}

fn copy_environment(from: &Command, to: &mut Command) {
    to.envs(from.get_envs().filter_map(|(name, value)| Some((name, value?))));
}

/// A command in the place of ssh: the last words in another namespace, under a host name of its own, since
/// libraries take processes with one host name for neighbours. Gone with its files when dropped.
struct Agent {
    script: PathBuf,
    _lists: HostLists,
}

impl Agent {
    fn new(network: &Network) -> Result<Self> {
        let script = paths::build_dir().join("net-test/netns-agent");
        let text = "#!/bin/sh\n\
            # ssh [options] host command...\n\
            while case $1 in -*) true;; *) false;; esac; do shift; done\n\
            host=$1; shift\n\
            exec ip netns exec \"$host\" unshare -u sh -c \"hostname $host; $*\"\n";
        std::fs::write(&script, text).context("the agent's script")?;
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let [a, b] = &network.hosts;
        let named = [(a.clone(), vec!["10.77.0.1".to_owned()]), (b.clone(), vec!["10.77.0.2".to_owned()])];
        Ok(Self { script, _lists: HostLists::new(&named)? })
    }

    /// Two ranks, one on each host. Launchers run on the first: what they start connects back to them.
    fn job(&self, network: &Network, library: Library, prefix: &Path, program: &Path) -> Result<Command> {
        if library == Library::Ayatori {
            return Ok(network.job(prefix, 2, &[], program));
        }
        let rails: Vec<String> = (0..network.rails).map(|rail| format!("rail{rail}")).collect();
        let rails = rails.join(",");
        let hosts = network.hosts.join(",");
        let launcher = library.prefix().join("bin/mpiexec");
        let (launcher, script) = (launcher.to_string_lossy(), self.script.to_string_lossy());
        let mut words = vec!["unshare".to_owned(), "-u".into(), "sh".into(), "-c".into()];
        words.extend([format!("hostname {}; exec \"$0\" \"$@\"", network.hosts[0]), launcher.into_owned()]);
        let mut add = |text: &str| words.extend(text.split_whitespace().map(str::to_owned));
        match library {
            Library::Mpich => {
                add(&format!("-launcher ssh -launcher-exec {script} -hosts {hosts} -ppn 1 -n 2"))
            }
            Library::Intel => add(&format!(
                "-iface rail0 -bootstrap ssh -bootstrap-exec {script} -hosts {hosts} -ppn 1 -n 2"
            )),
            Library::OpenMpi => add(&format!(
                "--allow-run-as-root --prtemca plm_ssh_agent {script} --prtemca prte_if_include rail0 \
                 --host {hosts} --map-by node -n 2 --bind-to none --mca pml ob1 --mca btl tcp,self \
                 --mca btl_tcp_if_include {rails}"
            )),
            Library::Ayatori | Library::OpenMpiUcx => bail!("not launched in this way"),
        }
        words.push(program.to_string_lossy().into_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = network.in_host(0, &words);
        command.env("FI_PROVIDER", "tcp").env("FI_TCP_IFACE", "rail0");
        // It takes the two for one host, by whatever sign, and would use shared memory.
        command.env("MPIR_CVAR_NOLOCAL", "1");
        if library == Library::Mpich {
            // So would its UCX, which goes by the kernel's boot.
            command.env("UCX_TLS", "tcp,self");
        }
        if library == Library::Intel {
            let lib = library.prefix().join("lib");
            command.env("I_MPI_FABRICS", "ofi").env("I_MPI_ROOT", library.prefix());
            command.env("LD_LIBRARY_PATH", &lib).env("FI_PROVIDER_PATH", &lib);
        }
        Ok(command)
    }
}
