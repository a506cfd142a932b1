//! `ayatori info`: what is installed, what this machine offers, and why a protocol or algorithm is chosen.
//!
//! The reasons come from the very functions that the library chooses by; nothing is worked out anew here.

use crate::exit::{Coded, Exit};
use anyhow::Context;
use ayatori_core::coll::select::Question;
use ayatori_core::coll::{Collective, Fabric, Selector};
use ayatori_core::device::{Device, Gap, RailCapabilities};
use ayatori_core::ids::{ProcessId, RailSet};
use ayatori_core::link::Policy;
use ayatori_core::transfer::choose::{self, Rails, Shape};
use ayatori_devices::shm::{self, Shm, fabric, is_direct, is_exchange, room_bytes_max};
use ayatori_devices::tcp::{Interface, Settings};
use ayatori_launch::environment::{self, Launch};
use ayatori_launch::machine::hostname;
use ayatori_launch::placement::{allowed_cpus, cores_by_node, format_cpus};
use ayatori_launch::spawn::ranks_max;
use ayatori_sim::simulation::parse_bytes;
use rustix::process::{Resource, getrlimit};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

/// What `ayatori info` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ayatori info
  ayatori info --rails
  ayatori info --explain send 64K
  ayatori info --explain allreduce 8 -n 32")]
pub(crate) struct Args {
    /// Say why which protocol (OPERATION `send`) or algorithm (`allreduce`, `bcast` …) carries so many bytes
    #[arg(long, num_args = 2, value_names = ["OPERATION", "BYTES"])]
    explain: Option<Vec<String>>,
    /// Say which network interfaces may carry messages between hosts, and why others may not
    #[arg(long, conflicts_with = "explain")]
    rails: bool,
    /// Ranks of the communicator that --explain is about
    #[arg(short = 'n', long = "np", visible_alias = "ranks", value_name = "RANKS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..), requires = "explain")]
    ranks: u32,
}

/// Prints what is known about this installation and this machine, or the reasons of a choice.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let text = match args.explain.as_deref() {
        _ if args.rails => rails()?,
        Some([operation, bytes]) => explain(operation, bytes, args.ranks)?,
        _ => overview(),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

/// The interfaces of this host, as a job on several hosts would see them.
fn rails() -> anyhow::Result<String> {
    let settings = Settings::from_environment().map_err(Coded::usage)?;
    let interfaces = Interface::list().context("listing the network interfaces")?;
    let mut text = String::new();
    for interface in &interfaces {
        let verdict = match settings.filter.judge(interface) {
            Ok(addresses) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let speed = interface
                    .speed_mbit_per_s
                    .map_or("speed unknown".to_owned(), |speed| format!("{speed} Mbit/s"));
                let node = interface.numa_node.map_or(String::new(), |node| format!(", NUMA node {node}"));
                format!("may be a rail: {}, {speed}{node}", addresses.join(", "))
            }
            Err(why) => format!("not used: {why}"),
        };
        let _ = writeln!(text, "  {:<16} {verdict}", interface.name);
    }
    if let Err(error) = settings.filter.choose(&interfaces) {
        let _ = writeln!(text, "{error}");
    }
    text.push_str(
        "Which of them reach a given host is found by trying when a job first needs it; what does not answer is left \
         out.\nChoose by --rails and --no-rails of `ayatori run`, or AYATORI_RAILS and AYATORI_NO_RAILS.\n",
    );
    Ok(text)
}

fn overview() -> String {
    let system = rustix::system::uname();
    let (kernel, machine) = (system.release().to_string_lossy(), system.machine().to_string_lossy());
    let mut text = format!("ayatori {}\n", env!("CARGO_PKG_VERSION"));
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<16} {value}");
    };
    row("interface", "MPI-5.0 standard ABI (libmpi_abi.so.1)");
    row("host", &format!("{}, Linux {kernel}, {machine}", hostname()));
    row("CPUs", &cpus());
    row("launcher", &launcher());
    row("progress", &progress());
    row("open files", &open_files());
    row("locked memory", &limit(Resource::Memlock, " B"));
    row("processes", &limit(Resource::Nproc, ""));
    text.push_str("devices\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<16} {value}");
    };
    match shm_rail() {
        Ok(rail) => row("shm", &describe(&rail)),
        Err(error) => row("shm", &format!("not usable: {error:#}")),
    }
    row("  one copy", &one_copy(&ptrace_facts()).1);
    row("  segment", &segment());
    text
}

fn cpus() -> String {
    let allowed = allowed_cpus();
    let nodes = cores_by_node(&allowed);
    let cores_count: usize = nodes.iter().map(Vec::len).sum();
    let budget = std::thread::available_parallelism().map_or(allowed.len(), usize::from);
    let quota =
        if budget < allowed.len() { format!("; the cgroup's quota is {budget}") } else { String::new() };
    format!(
        "{} usable ({}): {cores_count} {} on {} NUMA {}{quota}",
        allowed.len(),
        format_cpus(&allowed),
        if cores_count == 1 { "core" } else { "cores" },
        nodes.len(),
        if nodes.len() == 1 { "node" } else { "nodes" },
    )
}

fn progress() -> String {
    match std::env::var(environment::ENV_PROGRESS).ok().filter(|mode| !mode.is_empty()) {
        None => "assisted; or inline, offload (run --progress)".to_owned(),
        Some(mode) if ["inline", "assisted", "offload"].contains(&&*mode) => {
            format!("{mode}, by {}", environment::ENV_PROGRESS)
        }
        Some(other) => {
            format!("{} is \"{other}\", which is no mode: MPI_Init will fail", environment::ENV_PROGRESS)
        }
    }
}

fn launcher() -> String {
    match Launch::detect() {
        Launch::Singleton => "none: an MPI program started from here is one process".to_owned(),
        Launch::Pmi1(pmi) => format!("PMI-1, {:?}", pmi.connection),
        Launch::Pmix(pmix) => format!("PMIx, process {} of {}", pmix.rank, pmix.namespace),
        Launch::Unusable { what, why } => format!("{what}: not usable: {why}"),
    }
}

fn limit(resource: Resource, unit: &str) -> String {
    let limit = getrlimit(resource);
    let text = |value: Option<u64>| value.map_or("unlimited".to_owned(), |value| format!("{value}{unit}"));
    if limit.current == limit.maximum {
        text(limit.current)
    } else {
        format!("{}, can be raised to {}", text(limit.current), text(limit.maximum))
    }
}

fn open_files() -> String {
    let ranks = ranks_max().map_or(String::new(), |ranks| format!(": `ayatori run` up to -n {ranks}"));
    limit(Resource::Nofile, "") + &ranks
}

fn shm_rail() -> anyhow::Result<RailCapabilities> {
    let device = Shm::alone(ProcessId(0)).map_err(|error| anyhow::anyhow!("{error}"))?;
    device.rails().first().copied().context("the device has no rail")
}

fn describe(rail: &RailCapabilities) -> String {
    format!(
        "packets up to {} B, eager up to {} B, about {:.2} µs and {:.0} GB/s expected",
        rail.packet_bytes_max,
        rail.eager_bytes_max,
        rail.latency_ps as f64 / 1e6,
        rail.bandwidth_bytes_per_s as f64 / 1e9
    )
}

fn segment() -> String {
    let free = rustix::fs::statvfs("/dev/shm").map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    let free = free.map_or("is missing".to_owned(), |bytes| format!("has {} MiB free", bytes >> 20));
    format!("without a name under `ayatori run`; /dev/shm, for other launchers, {free}")
}

/// What the kernel says about reading another process's memory.
#[derive(Debug, Default)]
struct PtraceFacts {
    /// `kernel.yama.ptrace_scope`, where the kernel has yama.
    yama_scope: Option<u32>,
    /// CAP_SYS_PTRACE is effective.
    is_capable: bool,
    /// A seccomp filter is installed (a container).
    is_filtered: bool,
    /// Turned off with `AYATORI_SHM_CMA=0`.
    is_off: bool,
}

fn ptrace_facts() -> PtraceFacts {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let capabilities = field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    PtraceFacts {
        yama_scope: scope.and_then(|scope| scope.trim().parse().ok()),
        is_capable: capabilities >> CAP_SYS_PTRACE & 1 == 1,
        is_filtered: field("Seccomp:") == Some("2"),
        is_off: std::env::var_os("AYATORI_SHM_CMA").is_some_and(|value| value == "0"),
    }
}

/// Whether ranks can copy straight from each other's memory, and why (not).
fn one_copy(facts: &PtraceFacts) -> (bool, String) {
    let no = |why: &str| (false, format!("no: {why}; long messages are copied twice"));
    match facts {
        PtraceFacts { is_off: true, .. } => no("turned off with AYATORI_SHM_CMA=0"),
        PtraceFacts { yama_scope: Some(3..), .. } => no("kernel.yama.ptrace_scope forbids it to all"),
        PtraceFacts { yama_scope: Some(2), is_capable: false, .. } => {
            no("kernel.yama.ptrace_scope=2 allows it only with CAP_SYS_PTRACE")
        }
        PtraceFacts { yama_scope: Some(1), is_capable: false, .. } => {
            no("kernel.yama.ptrace_scope=1 allows it only to a parent (set it to 0, or give CAP_SYS_PTRACE)")
        }
        PtraceFacts { is_filtered: true, .. } => {
            (true, "process_vm_readv, unless this container's seccomp filter refuses it".to_owned())
        }
        _ => (true, "process_vm_readv is allowed".to_owned()),
    }
}

fn explain(operation: &str, bytes: &str, ranks: u32) -> anyhow::Result<String> {
    let bytes = parse_bytes(bytes).map_err(Coded::usage)?;
    let mut rail = shm_rail().context("the shared-memory device")?;
    let (is_one_copy, _) = one_copy(&ptrace_facts());
    (rail.get, rail.put) = (rail.get && is_one_copy, rail.put && is_one_copy);
    let name = operation.to_ascii_lowercase();
    let name = name.strip_prefix("mpi_").unwrap_or(&name);
    if matches!(name, "send" | "isend" | "recv" | "irecv" | "sendrecv") {
        let within = why(bytes, &[rail]);
        return Ok(format!("{within}\nbetween hosts: {}\n", between_hosts(bytes)?));
    }
    let name = name.strip_suffix("_block").unwrap_or(name);
    let collective = Collective::by_name(name)
        .or_else(|| Collective::by_name(name.strip_prefix('i')?))
        .ok_or_else(|| {
            let names: Vec<&str> = Collective::ALL.iter().map(|collective| collective.name()).collect();
            Coded::usage(format!("unknown operation '{operation}'; it is one of send, {}", names.join(", ")))
        })?;
    let cpus_count = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus_count = u32::try_from(cpus_count).unwrap_or(u32::MAX);
    let occupancy = shm::occupancy(ranks, cpus_count);
    let question = Question { collective, bytes, size: ranks, commutative: true };
    let mut text = String::new();
    if ranks > 1 && is_direct(&question, occupancy) {
        text += "a blocking call goes directly through the memory of the host, if its reduction commutes and its \
                 blocks are equal";
        let bytes_max = room_bytes_max(collective, ranks, occupancy);
        if bytes_max < usize::MAX {
            let _ = write!(text, ",\nand it is of {bytes_max} B at most");
        }
        if is_exchange(&question, occupancy) {
            text += ",\nin one step: each rank writes its data, and reads what all others have written";
        }
        text += "\n(AYATORI_NODE_COLLECTIVES=0 turns that off); any other is a schedule of messages:\n";
    }
    text += &explain_schedule(&question, &fabric(occupancy), |name| std::env::var(name).ok());
    if occupancy.is_oversubscribed() {
        let _ = writeln!(text, "({ranks} ranks share {cpus_count} CPUs, so work counts more than rounds)");
    }
    Ok(text)
}

/// The choice of an algorithm, and what an environment forces.
fn explain_schedule(question: &Question, fabric: &Fabric, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut selector = Selector::new(question.size, *fabric);
    let (forced, complaints) = environment::forced_algorithms(lookup);
    for (collective, algorithm) in forced {
        let forced = selector.force(collective, algorithm.name());
        debug_assert!(forced.is_ok(), "{algorithm:?} is one of {collective:?}");
    }
    let mut text = selector.explain(question.collective, question.bytes, question.commutative);
    for complaint in complaints {
        let _ = writeln!(text, "{complaint}, so it is ignored");
    }
    text
}

/// How a message goes to another host, as far as this one knows: nothing is measured yet.
fn between_hosts(bytes: usize) -> anyhow::Result<String> {
    let settings = Settings::from_environment().map_err(Coded::usage)?;
    let gaps = environment::gap_rule().map_err(Coded::usage)?;
    let interfaces = Interface::list().context("listing the network interfaces")?;
    let rails: Vec<RailCapabilities> = match settings.filter.choose(&interfaces) {
        Ok(chosen) => chosen.iter().map(|one| one.capabilities()).collect(),
        Err(error) => return Ok(error.to_string()),
    };
    let Some(rail) = rails.first() else { return Ok("no rails".to_owned()) };
    let mut text = why(bytes, &rails);
    if bytes > rail.eager_bytes_max {
        let _ = write!(text, "\n  gap: {}", pace(gaps.base, &rails));
        if gaps.per_hop != Gap::NONE {
            let _ = write!(text, ", and {} more a hop beyond {}", gaps.per_hop, gaps.free_hop_count);
        }
    }
    Ok(text)
}

/// The way of a message over these rails, in words, for a sender with nothing else under way that goes on
/// computing.
fn why(length_bytes: usize, rails: &[RailCapabilities]) -> String {
    let reach = RailSet((0..rails.len() as u32).fold(0, |set, rail| set | 1 << rail));
    let question = choose::Question {
        length_bytes,
        source: Shape::Contiguous,
        rails: Rails { all: rails, reach },
        eager_bytes_max: None,
        has_credit: true,
        is_alone: true,
        is_awaited: false,
        learnt: None,
    };
    choose::choose(&question).explain(&question, Policy::default())
}

/// The rails' rates with a gap.
fn pace(gap: Gap, rails: &[RailCapabilities]) -> String {
    if gap == Gap::NONE {
        return "none (--gap; docs/gaps.md)".to_owned();
    }
    let rate = |rail: &RailCapabilities| {
        format!("{} at most {} MB/s", rail.name, gap.rate_of(rail.bandwidth_bytes_per_s) / 1_000_000)
    };
    format!("{gap} packet times: {}", rails.iter().map(rate).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_forbids_the_single_copy_is_named() {
        let refused = |facts: PtraceFacts| one_copy(&facts);
        let (yes, _) = refused(PtraceFacts::default());
        assert!(yes);
        let (yes, why) = refused(PtraceFacts { yama_scope: Some(1), ..PtraceFacts::default() });
        assert!(!yes && why.contains("ptrace_scope=1"), "{why}");
        assert!(refused(PtraceFacts { yama_scope: Some(2), is_capable: true, ..PtraceFacts::default() }).0);
        assert!(!refused(PtraceFacts { yama_scope: Some(3), is_capable: true, ..PtraceFacts::default() }).0);
    }

    #[test]
    fn every_collective_and_send_explains_itself() {
        for collective in Collective::ALL {
            let text = explain(collective.name(), "64K", 8).expect("an explanation");
            assert!(text.contains(collective.name()), "{text}");
        }
        assert!(explain("MPI_Send", "8", 2).expect("an explanation").starts_with("eager over shm"));
        assert!(explain("send", "4M", 2).expect("an explanation").starts_with("rendezvous"));
        let rail =
            RailCapabilities { name: "eth0", bandwidth_bytes_per_s: 125_000_000, ..shm_rail().unwrap() };
        assert_eq!(pace("1".parse().unwrap(), &[rail]), "1 packet times: eth0 at most 62 MB/s");
        assert!(explain("MPI_Iallreduce", "8", 2).is_ok());
        let error = explain("frobnicate", "8", 2).expect_err("unknown").to_string();
        assert!(error.contains("'frobnicate'") && error.contains("allreduce"), "{error}");
    }
}
