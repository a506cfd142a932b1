//! Workloads by their names.

use std::path::{MAIN_SEPARATOR, Path};
use std::rc::Rc;

use ayatori_core::coll::Collective;
use ayatori_fabric::bytes;
use ayatori_fabric::description::NicDevice;

use super::{Options, SimulationError, usage};
use crate::cluster::{Cluster, ClusterError, ClusterReport, Config, Transfer};
use crate::goal::{self, Schedule};
use crate::workloads::{self, HaloGrid, RingOrder};

/// The workloads that are no collective operation.
const NAMES: [&str; 6] = ["ping-pong", "random-ring", "pairwise-exchange", "halo-2d", "halo-3d", "halo"];

/// What the ranks do.
#[derive(Debug, Clone)]
pub struct Workload {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    PointToPoint,
    Collective(Collective),
    Goal(Rc<Schedule>),
    /// The caller brings it ([`super::Simulation::run_with`]).
    Own,
}

impl Workload {
    /// A built-in workload, a collective operation, or a GOAL file. No workload has a dot or a slash in its
    /// name; files have.
    ///
    /// # Errors
    /// No such workload; a GOAL file that is wrong.
    pub fn named(name: &str) -> Result<Workload, SimulationError> {
        let kind = if name.contains(['.', MAIN_SEPARATOR]) {
            Kind::Goal(Rc::new(Schedule::load(Path::new(name))?))
        } else if NAMES.contains(&name) {
            Kind::PointToPoint
        } else if let Some(operation) = Collective::by_name(name) {
            Kind::Collective(operation)
        } else {
            let operations: Vec<&str> = Collective::ALL.iter().map(|operation| operation.name()).collect();
            return usage(format!(
                "no workload '{name}': {}, a collective operation ({}) or a GOAL file (a name with a dot \
                 or a slash)",
                NAMES.join(", "),
                operations.join(", ")
            ));
        };
        Ok(Workload { name: name.into(), kind })
    }

    /// A workload that the caller gives to [`super::Simulation::run_with`]; `name` stands in the outcome.
    pub fn own(name: &str) -> Workload {
        Workload { name: name.into(), kind: Kind::Own }
    }

    /// Its name or file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of all workloads that need no file: first those that are no collective operation.
    pub fn names() -> Vec<&'static str> {
        NAMES.into_iter().chain(Collective::ALL.iter().map(|operation| operation.name())).collect()
    }

    /// The number of ranks, if the workload gives it.
    pub(super) fn rank_count(&self) -> Option<u64> {
        match &self.kind {
            Kind::Goal(schedule) => Some(schedule.ranks.len() as u64),
            _ => None,
        }
    }

    /// Whether hosts with so many NICs have all that the workload names.
    pub(super) fn check_nics(&self, nic_count: usize) -> Result<(), SimulationError> {
        match &self.kind {
            Kind::Goal(schedule) => Ok(schedule.check_nics(nic_count)?),
            _ => Ok(()),
        }
    }

    /// What of it is simulated otherwise than it says.
    pub(super) fn notes(&self, options: &Options) -> Vec<String> {
        match &self.kind {
            Kind::Goal(schedule) => schedule.notes(options.per_host),
            _ => Vec::new(),
        }
    }

    /// Why the gap that is asked for has no effect, if it has none: gaps are for the data of puts and gets.
    pub(super) fn gap_note(&self, options: &Options, config: &Config) -> Option<String> {
        let Options { gap, bytes, .. } = options;
        if *gap == 0.0 {
            return None;
        }
        let is_tcp = config.profile.is_some_and(|profile| profile.device == NicDevice::Tcp);
        if is_tcp || config.transfer == Transfer::Packets {
            let how = "all data go in packets of the protocols here";
            return Some(format!("--gap {gap} has no effect: {how}"));
        }
        let eager_bytes_max = config.eager_bytes_max;
        let is_eager = config.profile.is_none() && *bytes <= eager_bytes_max as u64;
        (is_eager && matches!(self.kind, Kind::PointToPoint)).then(|| {
            format!(
                "--gap {gap} has no effect: messages of {bytes} bytes go eagerly here (up to \
                 {eager_bytes_max}), and gaps are for longer ones"
            )
        })
    }

    /// What can be known to be wrong before anything runs.
    pub(super) fn check(&self, options: &Options, process_count: u32) -> Result<(), SimulationError> {
        if self.name == "ping-pong" && process_count < 2 {
            return usage("ping-pong needs two processes: --nodes 2 or --per-host 2".into());
        }
        let Some(algorithm) = &options.algorithm else { return Ok(()) };
        let Kind::Collective(operation) = self.kind else {
            return usage("--algorithm is for collective operations".into());
        };
        let names: Vec<&str> = operation.algorithms().iter().map(|algorithm| algorithm.name()).collect();
        if !names.contains(&algorithm.as_str()) {
            let (operation, names) = (operation.name(), names.join(", "));
            return usage(format!("--algorithm {algorithm}: {operation} has {names}"));
        }
        Ok(())
    }

    pub(super) fn run(
        &self,
        cluster: &mut Cluster,
        options: &Options,
        process_count: u32,
    ) -> Result<ClusterReport, ClusterError> {
        let (bytes, rounds) = (options.bytes, options.rounds);
        match &self.kind {
            Kind::Goal(schedule) => cluster.run(|mpi| {
                let schedule = schedule.clone();
                async move {
                    for _ in 0..rounds {
                        goal::run_rank(mpi.clone(), schedule.clone()).await?;
                    }
                    Ok(())
                }
            }),
            Kind::Collective(operation) => cluster.run(|mpi| {
                let (operation, algorithm) = (*operation, options.algorithm.clone());
                async move {
                    for _ in 0..rounds {
                        mpi.collective(operation, bytes, algorithm.as_deref()).await?;
                    }
                    Ok(())
                }
            }),
            Kind::PointToPoint => self.run_point_to_point(cluster, options, process_count),
            Kind::Own => Err(ClusterError::Config(format!("{} is run by its caller", self.name))),
        }
    }

    fn run_point_to_point(
        &self,
        cluster: &mut Cluster,
        options: &Options,
        process_count: u32,
    ) -> Result<ClusterReport, ClusterError> {
        let (bytes, rounds) = (options.bytes, options.rounds);
        match self.name.as_str() {
            "ping-pong" => cluster.run(|mpi| workloads::ping_pong(mpi, process_count - 1, bytes, rounds)),
            "random-ring" => {
                let order = RingOrder::new(process_count, options.seed);
                cluster.run(|mpi| {
                    let (left, right) = order.neighbours(mpi.rank());
                    workloads::random_ring(mpi, left, right, bytes, rounds)
                })
            }
            "pairwise-exchange" => cluster.run(|mpi| async move {
                for _ in 0..rounds {
                    workloads::pairwise_exchange(mpi.clone(), bytes).await?;
                }
                Ok(())
            }),
            halo => {
                let extents: Vec<u32> = match halo {
                    "halo-2d" => near_square(process_count).into(),
                    _ => near_cube(process_count).into(),
                };
                let grid = HaloGrid { face_bytes: vec![bytes; extents.len()], extents };
                cluster.run(|mpi| workloads::halo_exchange(mpi, grid.clone(), 0, rounds))
            }
        }
    }
}

/// A length below 2^50, as [`bytes::parse`] reads it.
///
/// # Errors
/// Says what may be written.
pub fn parse_bytes(text: &str) -> Result<usize, SimulationError> {
    let length = bytes::parse(text).filter(|&bytes| bytes < 1 << 50);
    let bad = || SimulationError::Usage(format!("'{text}' is no length: write {}, below 2^50", bytes::FORMS));
    length.map(|bytes| bytes as usize).ok_or_else(bad)
}

/// The largest factor of `count` that is at most `limit`.
fn largest_factor(count: u32, limit: f64) -> u32 {
    (1..=limit as u32).rev().find(|&factor| count.is_multiple_of(factor)).unwrap_or(1)
}

/// Two factors of `count`, as near each other as can be, the larger first.
fn near_square(count: u32) -> [u32; 2] {
    let smaller = largest_factor(count, f64::from(count).sqrt().floor());
    [count / smaller, smaller]
}

/// Three factors of `count`, near each other.
fn near_cube(count: u32) -> [u32; 3] {
    let first = largest_factor(count, f64::from(count).cbrt().round());
    let [third, second] = near_square(count / first);
    [third, second, first]
}

#[cfg(test)]
mod tests {
    use super::super::Simulation;
    use super::*;

    #[test]
    fn a_length_has_a_bound() {
        let read = |text| parse_bytes(text).ok();
        assert_eq!((read("64K"), read("1023T"), read("1048576G")), (Some(64 << 10), None, None));
        assert!(
            parse_bytes("4T").unwrap_err().to_string().contains("'4T' is no length: write a number from 0")
        );
    }

    #[test]
    fn three_factors_are_near_each_other_and_multiply_to_the_count() {
        for (count, extents) in [(64, [4, 4, 4]), (12, [3, 2, 2]), (7, [7, 1, 1]), (1, [1, 1, 1])] {
            assert_eq!(near_cube(count), extents);
        }
        assert_eq!([12, 7, 16].map(near_square), [[4, 3], [7, 1], [4, 4]]);
        for count in 1..500 {
            assert_eq!(near_cube(count).iter().product::<u32>(), count);
            assert_eq!(near_square(count).iter().product::<u32>(), count);
        }
    }

    #[test]
    fn a_gap_has_an_effect_or_a_note_says_why_not() {
        use ayatori_fabric::description::Machine;

        let files = ["fx10", "comet-cp", "fast-ethernet", "yampii-openib", "cenju3", "supernova"];
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
        let mut noted_count = 0;
        for file in files {
            let path = format!("{folder}/{file}.toml");
            let text = std::fs::read_to_string(&path).unwrap();
            let machine = Machine::parse(&path, &text).unwrap();
            for bytes in [1 << 10, 1 << 20] {
                let run = |gap| {
                    let options = Options { gap, bytes, nodes: Some(2), ..Options::default() };
                    let workload = Workload::named("ping-pong").unwrap();
                    let mut simulation = Simulation::new(&path, &machine, workload, options).unwrap();
                    let is_noted = simulation.notes().iter().any(|note| note.starts_with("--gap "));
                    (simulation.run().unwrap().report.elapsed_ps, is_noted)
                };
                let ((before_ps, _), (paced_ps, is_noted)) = (run(0.0), run(8.0));
                assert_eq!(before_ps == paced_ps, is_noted, "{file}, {bytes} bytes");
                noted_count += u32::from(is_noted);
            }
        }
        assert!((1..12).contains(&noted_count), "{noted_count}");
    }
}
