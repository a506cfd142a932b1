//! The launcher of this process, and the contract between `ayatori run` and the library.
//!
//! # What the launcher gives each rank
//!
//! | variable              | meaning |
//! |-----------------------|---|
//! | `PMI_FD`              | number of an inherited stream socket that speaks PMI-1 ([`crate::pmi`]) |
//! | `PMI_RANK` `PMI_SIZE` | rank in the job, ranks in the job |
//! | `PMI_SPAWNED`         | `1` where `MPI_Comm_spawn` started the process |
//! | `PMI_PORT` `PMI_ID`   | instead of the above: `host:port` to connect to and who to say we are (Hydra) |
//! | `MPI_LOCALRANKID`     | rank among the job's ranks on this host (Hydra's name) |
//! | `MPI_LOCALNRANKS`     | number of the job's ranks on this host (Hydra's name) |
//! | `AYATORI_JOB`         | the job's id: 16 hexadecimal digits, random, the same in all ranks |
//! | `AYATORI_NODE`        | number of this host among the job's hosts |
//! | `AYATORI_SHM_FD`      | number of an inherited memory file for the job's shared segment on this host |
//! | `AYATORI_CPUS`        | CPUs that the job's ranks on this host have together (affinity, cgroup quota) |
//! | `AYATORI_BOUND`       | `1` where each rank has a core for itself |
//! | `AYATORI_SURVIVE`     | `1` where the job goes on without ranks that fail |
//!
//! Only the first two rows are there under every PMI-1 launcher. More ranks than CPUs on this host
//! ([`Host::is_oversubscribed`]) means: do not spin.
//!
//! # The shared segment
//!
//! `AYATORI_SHM_FD` is a `memfd`, one per job and host. It has no name, so nothing is left in `/dev/shm`
//! however the job ends, the size of `/dev/shm` does not limit it, and the kernel frees it with the last
//! rank. The rules:
//!
//! 1. The launcher makes it with size 0, with sealing allowed, and never looks into it.
//! 2. Its length is a pure function of values that all local ranks know (local size, version, settings). Each
//!    rank that attaches calls `ftruncate` to that length, which is idempotent; fresh pages are zero, and
//!    zero must mean "not yet initialised" to the shm device. Atomics inside the segment decide which rank
//!    initialises which part.
//! 3. After `ftruncate` a rank may add `F_SEAL_SHRINK | F_SEAL_GROW` (idempotent too, and `EPERM` from a rank
//!    that comes later with the same length does not happen: an equal length is no change). From then on no
//!    process can shrink the segment while a peer uses it (no `SIGBUS`).
//! 4. Take it with [`Host::shared_segment`]: the inherited number becomes close-on-exec, the answer is a
//!    duplicate.
//! 5. Under a foreign launcher there is no such descriptor. The first rank of each host then makes one and
//!    publishes it as `/proc/PID/fd/N` by the launcher's `put`, `fence` and `get`; it keeps it open until all
//!    have attached.
//!
//! Not here: PMI-2, which is recognised and refused with a message; and starting processes.

use crate::pmix;
use crate::sys::{adopt, is_open};
use ayatori_core::coll::{Algorithm, Collective};
use ayatori_core::process::GapRule;
use ayatori_devices::switch;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::fd::{OwnedFd, RawFd};
use std::str::FromStr;

/// `singleton`: run this process alone, even in a launcher's environment.
pub const ENV_LAUNCH: &str = "AYATORI_LAUNCH";
/// Under this name the launcher's key-value store has the key of the job's connections, 64 hexadecimal
/// digits.
pub const KEY_OF_JOB: &str = "ayatori-key";
/// Under this name a rank says that it is connected to its own world only.
pub const KEY_OF_APART: &str = "ayatori-apart";
/// Under this name a rank says that no other needs it: the job goes on without it if it fails, whatever
/// [`ENV_SURVIVE`] says.
pub const KEY_OF_SPARE: &str = "ayatori-spare";
/// The job's id.
pub const ENV_JOB: &str = "AYATORI_JOB";
/// The number of the rank's host among the job's hosts.
pub const ENV_NODE: &str = "AYATORI_NODE";
/// The descriptor of the shared segment.
pub const ENV_SHM_FD: &str = "AYATORI_SHM_FD";
/// CPUs of the job on this host.
pub const ENV_CPUS: &str = "AYATORI_CPUS";
/// Each rank has a core for itself.
pub const ENV_BOUND: &str = "AYATORI_BOUND";
/// The job goes on without ranks that fail.
pub const ENV_SURVIVE: &str = "AYATORI_SURVIVE";
/// Progress mode: `inline`, `assisted` or `offload`.
pub const ENV_PROGRESS: &str = "AYATORI_PROGRESS";
/// The gap of every message, in packet times.
pub const ENV_GAP: &str = "AYATORI_GAP";
/// As much more for each hop between switches.
pub const ENV_GAP_PER_HOP: &str = "AYATORI_GAP_PER_HOP";
/// So many hops add nothing.
pub const ENV_GAP_FREE_HOPS: &str = "AYATORI_GAP_FREE_HOPS";
/// Rank among the job's ranks on this host.
pub const ENV_LOCAL_RANK: &str = "MPI_LOCALRANKID";
/// The job's ranks on this host.
pub const ENV_LOCAL_SIZE: &str = "MPI_LOCALNRANKS";

/// What is on or off ([`switch`]), beside what the devices' own settings are.
const SWITCHES: [&str; 4] = ["AYATORI_SHM_CMA", "AYATORI_NODE_COLLECTIVES", "AYATORI_CHECK", ENV_SURVIVE];

/// What the environment says of settings that are on or off and is neither.
pub fn wrong_switches(value: impl Fn(&str) -> Option<String>) -> Vec<String> {
    SWITCHES.iter().filter_map(|name| switch::is_on(name, value(name).as_deref()).err()).collect()
}

/// Whether the job goes on without ranks that fail.
pub fn survives() -> bool {
    switch::here(ENV_SURVIVE, false)
}

/// What the environment says of gaps between packets.
///
/// # Errors
/// A variable is neither empty nor what it should be: which, and why.
pub fn gap_rule() -> Result<GapRule, String> {
    gap_rule_of(|name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
}

/// The same over any environment.
///
/// # Errors
/// As [`gap_rule`].
pub fn gap_rule_of(lookup: impl Fn(&str) -> Option<String>) -> Result<GapRule, String> {
    fn parse<T: FromStr<Err: Display> + Default>(name: &str, text: Option<String>) -> Result<T, String> {
        match text.unwrap_or_default() {
            text if text.is_empty() => Ok(T::default()),
            text => text.parse().map_err(|error| format!("{name} is \"{text}\": {error}")),
        }
    }
    Ok(GapRule {
        base: parse(ENV_GAP, lookup(ENV_GAP))?,
        per_hop: parse(ENV_GAP_PER_HOP, lookup(ENV_GAP_PER_HOP))?,
        free_hop_count: parse(ENV_GAP_FREE_HOPS, lookup(ENV_GAP_FREE_HOPS))?,
    })
}

/// The variable that forces an algorithm of a collective operation: `AYATORI_COLL_ALLREDUCE`.
pub fn algorithm_variable(collective: Collective) -> String {
    format!("AYATORI_COLL_{}", collective.name().to_uppercase())
}

/// The algorithms that an environment forces. Empty text forces none, and so does an unknown name, of which
/// each gives a complaint.
pub fn forced_algorithms(
    lookup: impl Fn(&str) -> Option<String>,
) -> (Vec<(Collective, Algorithm)>, Vec<String>) {
    let (mut forced, mut complaints) = (Vec::new(), Vec::new());
    for collective in Collective::ALL {
        let variable = algorithm_variable(collective);
        let Some(name) = lookup(&variable).filter(|name| !name.is_empty()) else { continue };
        let known = collective.algorithms();
        match known.iter().find(|algorithm| algorithm.name() == name) {
            Some(algorithm) => forced.push((collective, *algorithm)),
            None => {
                let known: Vec<&str> = known.iter().map(|algorithm| algorithm.name()).collect();
                complaints.push(format!("{variable}={name} is none of {}", known.join(", ")));
            }
        }
    }
    (forced, complaints)
}

/// How this process was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// No launcher: `MPI_COMM_WORLD` is this process.
    Singleton,
    /// By a launcher that speaks PMI-1.
    Pmi1(Pmi1),
    /// By a launcher that speaks PMIx.
    Pmix(pmix::Environment),
    /// By a launcher that we cannot talk to, or whose environment is broken. Going on alone would give N jobs
    /// of one rank that all compute the same: fail with this text instead.
    Unusable {
        /// The setting found.
        what: String,
        /// Why it does not serve, and what to do.
        why: String,
    },
}

/// How to reach the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// An inherited socket.
    Fd(RawFd),
    /// A TCP port.
    Port {
        /// `host:port`.
        address: String,
        /// The id to introduce ourselves with.
        id: u32,
    },
}

/// What a PMI-1 launcher's environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmi1 {
    /// How to reach the launcher.
    pub connection: Connection,
    /// Rank in the job; `None` over a port, where the handshake gives it.
    pub rank: Option<u32>,
    /// Ranks in the job; `None` over a port.
    pub size: Option<u32>,
    /// Whether `MPI_Comm_spawn` started us.
    pub is_spawned: bool,
    /// The launcher's data about this host.
    pub host: Host,
}

/// What a launcher's environment says of this host. Nothing of it need be said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Rank among the job's ranks on this host.
    pub local_rank: Option<u32>,
    /// The job's ranks on this host.
    pub local_size: Option<u32>,
    /// The job's id; only from `ayatori run`.
    pub job: Option<String>,
    /// The number of this host among the job's hosts; only from `ayatori run`.
    pub node: Option<u32>,
    /// The shared segment's descriptor; only from `ayatori run`.
    pub shm_fd: Option<RawFd>,
    /// CPUs of the job on this host; only from `ayatori run`.
    pub cpus_count: Option<u32>,
    /// Each rank has a core for itself; only from `ayatori run`.
    pub is_bound: bool,
}

impl Host {
    /// Whether the ranks on this host outnumber its CPUs, as far as the launcher says. `None`: it does not
    /// say; compare the local size with [`std::thread::available_parallelism`].
    pub fn is_oversubscribed(&self) -> Option<bool> {
        Some(self.local_size? > self.cpus_count?)
    }

    /// A descriptor of our own for the job's shared segment on this host; `None` under a foreign launcher.
    ///
    /// # Errors
    /// The descriptor could not be duplicated.
    pub fn shared_segment(&self) -> std::io::Result<Option<OwnedFd>> {
        self.shm_fd.map(adopt).transpose()
    }
}

/// What launchers that speak neither PMI-1 nor PMIx leave in the environment. A count: unusable where above
/// 1. (variable, is a count, launcher, what to do)
const FOREIGN: [(&str, bool, &str, &str); 6] = [
    ("OMPI_COMM_WORLD_SIZE", true, "Open MPI's mpirun", OTHER_LAUNCHER),
    ("SLURM_STEP_NUM_TASKS", true, "srun without PMI", "use `srun --mpi=pmix` or `srun --mpi=pmi2`"),
    ("PALS_RANKID", false, "Cray PALS", OTHER_LAUNCHER),
    ("ALPS_APP_PE", false, "Cray ALPS", OTHER_LAUNCHER),
    ("JSM_NAMESPACE_SIZE", true, "IBM's jsrun", OTHER_LAUNCHER),
    ("PMI_SIZE", true, "a PMI launcher that gave neither PMI_FD nor PMI_PORT", OTHER_LAUNCHER),
];
const OTHER_LAUNCHER: &str = "this library speaks PMI-1 and PMIx: use `ayatori run`, MPICH's or Open MPI's \
     mpiexec, or `srun --mpi=pmix`";

impl Launch {
    /// Reads this process's environment.
    pub fn detect() -> Self {
        Self::from_environment(|name| std::env::var_os(name), is_open)
    }

    /// The same over any environment: `lookup` gives a variable, `is_open` says whether a descriptor is open.
    pub fn from_environment(
        lookup: impl Fn(&str) -> Option<OsString>,
        is_open: impl Fn(RawFd) -> bool,
    ) -> Self {
        let env = Environment { lookup };
        match env.classify(is_open) {
            Ok(launch) => launch,
            Err((what, why)) => Launch::Unusable { what, why },
        }
    }
}

/// The setting found, and the reason why it is unusable.
type Unusable = (String, String);

struct Environment<L> {
    lookup: L,
}

impl<L: Fn(&str) -> Option<OsString>> Environment<L> {
    fn text(&self, name: &str) -> Result<Option<String>, Unusable> {
        match (self.lookup)(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(value)) => Err((format!("{name}={}", value.display()), "it is not text".to_owned())),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u32>, Unusable> {
        // Descriptors and counts alike are at most i32::MAX.
        let parse = |value: String| match value.trim().parse::<i32>() {
            Ok(number) if number >= 0 => Ok(number.unsigned_abs()),
            _ => Err((format!("{name}={value}"), format!("it is no number from 0 to {}", i32::MAX))),
        };
        self.text(name)?.map(parse).transpose()
    }

    fn required(&self, name: &str, because: &str) -> Result<u32, Unusable> {
        self.number(name)?.ok_or_else(|| (because.to_owned(), format!("{name} is missing beside it")))
    }

    fn classify(&self, is_open: impl Fn(RawFd) -> bool) -> Result<Launch, Unusable> {
        match self.text(ENV_LAUNCH)?.as_deref() {
            None | Some("") => {}
            Some("singleton") => return Ok(Launch::Singleton),
            Some(other) => {
                return Err((
                    format!("{ENV_LAUNCH}={other}"),
                    "the one value it takes is `singleton`".into(),
                ));
            }
        }
        if let Some(fd) = self.number("PMI_FD")? {
            return self.inherited_socket(fd, is_open).map(Launch::Pmi1);
        }
        if let Some(address) = self.text("PMI_PORT")? {
            let id = self.required("PMI_ID", "PMI_PORT")?;
            if !address.contains(':') {
                return Err((format!("PMI_PORT={address}"), "it is not host:port".to_owned()));
            }
            return self.pmi1(Connection::Port { address, id }).map(Launch::Pmi1);
        }
        if let Some(pmix) = self.pmix()? {
            return Ok(Launch::Pmix(pmix));
        }
        for (name, is_count, launcher, advice) in FOREIGN {
            let Some(value) = self.text(name)? else { continue };
            if !is_count || value.trim().parse::<u32>() != Ok(1) {
                let alone =
                    format!("{advice}; or set {ENV_LAUNCH}=singleton to run this process alone on purpose");
                return Err((format!("{name}={value}, the sign of {launcher}"), alone));
            }
        }
        Ok(Launch::Singleton)
    }

    fn pmix(&self) -> Result<Option<pmix::Environment>, Unusable> {
        let namespace = self.text("PMIX_NAMESPACE")?.filter(|namespace| !namespace.is_empty());
        let rank = self.number("PMIX_RANK")?;
        match (namespace, rank) {
            (None, None) => Ok(None),
            (Some(namespace), Some(rank)) => Ok(Some(pmix::Environment { namespace, rank })),
            (Some(namespace), None) => {
                Err((format!("PMIX_NAMESPACE={namespace}"), "PMIX_RANK is missing beside it".to_owned()))
            }
            (None, Some(rank)) => {
                Err((format!("PMIX_RANK={rank}"), "PMIX_NAMESPACE is missing beside it".to_owned()))
            }
        }
    }

    fn inherited_socket(&self, fd: u32, is_open: impl Fn(RawFd) -> bool) -> Result<Pmi1, Unusable> {
        let what = format!("PMI_FD={fd}");
        if !is_open(fd.cast_signed()) {
            let why = format!(
                "file descriptor {fd} is not open: an MPI process has started this one, or something between the \
                 launcher and it closes descriptors; unset PMI_FD, or set {ENV_LAUNCH}=singleton, to run it alone \
                 on purpose"
            );
            return Err((what, why));
        }
        let (rank, size) = (self.required("PMI_RANK", &what)?, self.required("PMI_SIZE", &what)?);
        if rank >= size {
            return Err((format!("PMI_RANK={rank}"), format!("it is not below PMI_SIZE={size}")));
        }
        let mut pmi = self.pmi1(Connection::Fd(fd.cast_signed()))?;
        pmi.rank = Some(rank);
        pmi.size = Some(size);
        // A variable that outlived its descriptor is no segment; without one the device makes its own.
        pmi.host.shm_fd = pmi.host.shm_fd.filter(|&fd| is_open(fd));
        Ok(pmi)
    }

    fn pmi1(&self, connection: Connection) -> Result<Pmi1, Unusable> {
        let host = Host {
            local_rank: self.number(ENV_LOCAL_RANK)?,
            local_size: self.number(ENV_LOCAL_SIZE)?,
            job: self.text(ENV_JOB)?.filter(|job| !job.is_empty()),
            node: self.number(ENV_NODE)?,
            shm_fd: self.number(ENV_SHM_FD)?.map(u32::cast_signed),
            cpus_count: self.number(ENV_CPUS)?,
            is_bound: self.number(ENV_BOUND)?.unwrap_or(0) != 0,
        };
        let is_spawned = self.number("PMI_SPAWNED")?.unwrap_or(0) != 0;
        Ok(Pmi1 { connection, rank: None, size: None, is_spawned, host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_in(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn an_empty_name_of_an_algorithm_forces_none() {
        let (forced, complaints) = forced_algorithms(text_in(&[
            ("AYATORI_COLL_ALLREDUCE", ""),
            ("AYATORI_COLL_BCAST", "binomial"),
            ("AYATORI_COLL_SCAN", "magic"),
        ]));
        assert_eq!(forced, [(Collective::Bcast, Algorithm::Binomial)]);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].starts_with("AYATORI_COLL_SCAN=magic is none of "), "{complaints:?}");
    }

    #[test]
    fn a_gap_that_is_none_is_named() {
        assert_eq!(gap_rule_of(text_in(&[("AYATORI_GAP", "")])), Ok(GapRule::default()));
        let wrong = gap_rule_of(text_in(&[("AYATORI_GAP_FREE_HOPS", "two")])).unwrap_err();
        assert!(wrong.starts_with("AYATORI_GAP_FREE_HOPS is \"two\""), "{wrong}");
    }

    fn detect(pairs: &[(&str, &str)]) -> Launch {
        let lookup =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Launch::from_environment(lookup, |fd| fd < 10)
    }

    fn unusable(pairs: &[(&str, &str)]) -> String {
        match detect(pairs) {
            Launch::Unusable { what, why } => format!("{what}: {why}"),
            other => panic!("{pairs:?} gave {other:?}"),
        }
    }

    #[test]
    fn without_a_launcher_a_process_is_alone() {
        assert_eq!(detect(&[]), Launch::Singleton);
        // A shell under `srun --pty`, a batch script: one task is no reason to refuse.
        assert_eq!(detect(&[("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")]), Launch::Singleton);
    }

    #[test]
    fn pmi_1_wins_over_the_traces_of_an_outer_launcher() {
        let Launch::Pmi1(pmi) = detect(&[
            ("PMIX_RANK", "0"),
            ("PMI_FD", "7"),
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "4"),
            ("MPI_LOCALNRANKS", "4"),
            ("AYATORI_CPUS", "2"),
            ("AYATORI_SHM_FD", "8"),
        ]) else {
            panic!("not PMI-1")
        };
        assert_eq!((pmi.connection.clone(), pmi.rank, pmi.size), (Connection::Fd(7), Some(1), Some(4)));
        assert_eq!((pmi.host.is_oversubscribed(), pmi.host.shm_fd), (Some(true), Some(8)));
    }

    #[test]
    fn a_port_needs_an_id() {
        let address = "node:4000".to_owned();
        match detect(&[("PMI_PORT", "node:4000"), ("PMI_ID", "3")]) {
            Launch::Pmi1(pmi) => assert_eq!(pmi.connection, Connection::Port { address, id: 3 }),
            other => panic!("{other:?}"),
        }
        assert!(unusable(&[("PMI_PORT", "node:4000")]).contains("PMI_ID is missing"));
        assert!(unusable(&[("PMI_PORT", "4000"), ("PMI_ID", "3")]).contains("host:port"));
    }

    #[test]
    fn a_launcher_we_cannot_talk_to_is_an_error_and_no_singleton() {
        assert!(unusable(&[("PMIX_RANK", "0")]).contains("PMIX_NAMESPACE is missing"));
        assert!(unusable(&[("PMIX_NAMESPACE", "x")]).contains("PMIX_RANK is missing"));
        assert!(unusable(&[("SLURM_STEP_NUM_TASKS", "4")]).contains("srun --mpi=pmix"));
        assert!(unusable(&[("OMPI_COMM_WORLD_SIZE", "2")]).contains("Open MPI"));
        assert!(unusable(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]).contains("neither PMI_FD nor PMI_PORT"));
        assert!(unusable(&[("PMI_FD", "77"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")]).contains("not open"));
        assert!(unusable(&[("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")]).contains("not below"));
        assert!(unusable(&[("PMI_FD", "-1")]).contains("no number"));
        assert!(unusable(&[("AYATORI_LAUNCH", "alone")]).contains("singleton"));
    }

    #[test]
    fn a_pmix_launcher_is_told_by_namespace_and_rank() {
        let slurm = [("SLURM_STEP_NUM_TASKS", "4"), ("PMIX_RANK", "3"), ("PMIX_NAMESPACE", "slurm.pmix.9.0")];
        let expected = pmix::Environment { namespace: "slurm.pmix.9.0".to_owned(), rank: 3 };
        assert_eq!(detect(&slurm), Launch::Pmix(expected));
    }

    #[test]
    fn a_singleton_can_be_asked_for() {
        assert_eq!(detect(&[("PMIX_RANK", "0"), ("AYATORI_LAUNCH", "singleton")]), Launch::Singleton);
    }
}
