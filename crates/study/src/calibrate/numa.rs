//! Far memory: the NUMA nodes that the system describes, and what their memory takes near and far
//! (`bench/far.c`).

use std::fmt::Write as _;
use std::path::Path;

use super::Sample;

const LATENCY: &str = "far_latency";
const COPY: &str = "far_copy";
const HOT_COPY: &str = "far_hot_copy";

/// A host's sockets and NUMA nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Nodes that have CPUs.
    pub nodes: Vec<Node>,
    /// Packages of CPUs; 0: unknown.
    pub socket_count: u32,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The system's number.
    pub number: u32,
    /// Its CPUs, the system's numbers.
    pub cpus: Vec<u32>,
    /// How far it is from each node, as the firmware says: 10 is its own memory.
    pub distances: Vec<u32>,
}

impl Topology {
    /// What the system says under `root`, which is `/sys/devices/system`. What cannot be read is left out.
    pub fn read(root: &Path) -> Topology {
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let numbered = |folder: &str, prefix: &str| {
            let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
            let number = |name: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
            let mut found: Vec<u32> =
                entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
            found.sort_unstable();
            found
        };
        let node = |number: u32| {
            let folder = root.join(format!("node/node{number}"));
            let distances = text(&folder.join("distance"));
            Node {
                number,
                cpus: listed(&text(&folder.join("cpulist"))),
                distances: distances.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect(),
            }
        };
        let nodes = numbered("node", "node").into_iter().map(node);
        let package = |cpu: u32| {
            let file = root.join(format!("cpu/cpu{cpu}/topology/physical_package_id"));
            text(&file).trim().parse::<i32>().ok()
        };
        let mut packages: Vec<i32> = numbered("cpu", "cpu").into_iter().filter_map(package).collect();
        packages.sort_unstable();
        packages.dedup();
        Topology {
            nodes: nodes.filter(|node| !node.cpus.is_empty()).collect(),
            socket_count: packages.len() as u32,
        }
    }

    /// What `bench/far.c` is told: each node with a CPU of it. Empty where no memory is far.
    pub fn far_arguments(&self) -> Vec<String> {
        let argument = |node: &Node| Some(format!("{}:{}", node.number, node.cpus.first()?));
        if self.nodes.len() < 2 {
            return Vec::new();
        }
        self.nodes.iter().take(MEASURED_NODES_MAX).filter_map(argument).collect()
    }

    /// Sockets and CPUs of each, as a machine file has them: all sockets alike.
    pub(super) fn sockets(&self, core_count: u32) -> (u32, u32) {
        let socket_count = self.socket_count.max(1);
        let is_even = core_count.is_multiple_of(socket_count);
        if is_even { (socket_count, core_count / socket_count) } else { (1, core_count) }
    }
}

/// Among so many nodes all pairs are measured; of a host with more, those of the first ones.
const MEASURED_NODES_MAX: usize = 4;

/// Numbers as the system lists them: `0-3,8`.
fn listed(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Costs of near and far memory: the means of all pairs of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct NumaFit {
    /// A load from the own node's memory, and from another's, ns.
    pub latency_ns: [f64; 2],
    /// Copies from there, GB/s.
    pub copy_gbytes_per_s: [f64; 2],
    /// The same of what is in the cache, GB/s.
    pub hot_copy_gbytes_per_s: [f64; 2],
}

/// `None`: no memory is far, or it was not measured.
pub(super) fn fit(samples: &[Sample]) -> Option<NumaFit> {
    let mean = |name: &str, is_far: bool| {
        let of_pair = |sample: &&Sample| {
            let nodes = sample.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
            nodes.and_then(|nodes| nodes.split_once('_')).is_some_and(|(a, b)| (a != b) == is_far)
        };
        let values: Vec<f64> = samples.iter().filter(of_pair).map(|sample| sample.value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let both = |name| Some([mean(name, false)?, mean(name, true)?]);
    Some(NumaFit {
        latency_ns: both(LATENCY)?.map(|us| 1e3 * us),
        copy_gbytes_per_s: both(COPY)?,
        hot_copy_gbytes_per_s: both(HOT_COPY)?,
    })
}

/// The lines of a host model.
pub(super) fn lines(topology: &Topology, fit: Option<&NumaFit>) -> String {
    let mut text = String::new();
    if topology.nodes.len() > 1 {
        let _ = writeln!(text, "numa_nodes = {}", topology.nodes.len());
        for node in &topology.nodes {
            let _ = writeln!(
                text,
                "# Node {}: CPUs {:?}, distances {:?}.",
                node.number, node.cpus, node.distances
            );
        }
    }
    let Some(fit) = fit else { return text };
    let [near_ns, far_ns] = fit.latency_ns;
    let [[near, far], [hot_near, hot_far]] = [fit.copy_gbytes_per_s, fit.hot_copy_gbytes_per_s];
    let _ = writeln!(
        text,
        "memory_ns = {near_ns:.1} # loads that wait for each other, of the own node's memory\n\
         numa_hop_ns = {:.1} # half of what another node's take more ({far_ns:.1})\n\
         numa_link_gbytes_per_s = {far:.3} # copies of another node's memory; {near:.3} of the own's\n\
         # In the cache: {hot_far:.3} of another node's, {hot_near:.3} of the own's.",
        ((far_ns - near_ns) / 2.0).max(0.0)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system of such nodes (their CPUs and distances), and of such CPUs' packages.
    fn made(nodes: &[(u32, &str, &str)], packages: &[i32]) -> (tempfile::TempDir, Topology) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (number, cpus, distances) in nodes {
            write(format!("node/node{number}/cpulist"), cpus);
            write(format!("node/node{number}/distance"), distances);
        }
        write("node/online".into(), "0-1\n");
        write("cpu/cpufreq/boost".into(), "1\n");
        for (cpu, package) in packages.iter().enumerate() {
            write(format!("cpu/cpu{cpu}/topology/physical_package_id"), &format!("{package}\n"));
        }
        let topology = Topology::read(root.path());
        (root, topology)
    }

    #[test]
    fn nodes_and_sockets_are_those_that_the_system_lists() {
        let (_root, two) = made(&[(0, "0-1,4\n", "10 21\n"), (1, "2-3,5\n", "21 10\n")], &[0, 0, 1, 1, 0, 1]);
        let nodes: Vec<_> = two.nodes.iter().map(|node| (node.number, node.cpus.clone())).collect();
        assert_eq!(nodes, [(0, vec![0, 1, 4]), (1, vec![2, 3, 5])]);
        assert_eq!(two.nodes[1].distances, [21, 10]);
        assert_eq!((two.socket_count, two.sockets(6), two.sockets(5)), (2, (2, 3), (1, 5)));
        assert_eq!(two.far_arguments(), ["0:0", "1:2"]);
        // Memory without CPUs, numbers that are not in a row, nodes within a socket.
        let (_root, other) =
            made(&[(0, "0", "10 12 20"), (2, "1", "12 10 20"), (3, "\n", "20 20 10")], &[-1; 2]);
        assert_eq!(other.nodes.iter().map(|node| node.number).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((other.sockets(2), other.far_arguments().len()), ((1, 2), 2));
        let (_root, one) = made(&[(0, "0-1\n", "10\n")], &[0, 0]);
        assert_eq!((one.far_arguments().len(), lines(&one, None).as_str()), (0, ""));
        assert_eq!(Topology::read(Path::new("/nonexistent")), Topology::default());
        assert_eq!(Topology::default().sockets(3), (1, 3));
    }

    #[test]
    fn far_memory_is_told_from_near_memory_by_its_names() {
        let sample = |name: &str, value| Sample { name: name.into(), ranks: 1, bytes: 64, value };
        let mut samples = vec![sample("far_latency_0_0", 0.09), sample("far_latency_1_1", 0.11)];
        assert_eq!(fit(&samples), None);
        samples.extend([sample("far_latency_0_1", 0.15), sample("far_latency_1_0", 0.17)]);
        samples.extend([
            sample("far_copy_0_0", 12.0),
            sample("far_copy_0_1", 6.0),
            sample("far_copy_1_0", 8.0),
        ]);
        samples.extend([sample("far_hot_copy_0_0", 50.0), sample("far_hot_copy_10_1", 40.0)]);
        let found = fit(&samples).unwrap();
        assert!((found.latency_ns[0] - 100.0).abs() < 1e-6 && (found.latency_ns[1] - 160.0).abs() < 1e-6);
        assert_eq!((found.copy_gbytes_per_s, found.hot_copy_gbytes_per_s), ([12.0, 7.0], [50.0, 40.0]));
        let (_root, two) = made(&[(0, "0", "10 21"), (1, "1", "21 10")], &[0, 1]);
        let text = lines(&two, Some(&found));
        for line in [
            "numa_nodes = 2\n",
            "memory_ns = 100.0 ",
            "numa_hop_ns = 30.0 ",
            "numa_link_gbytes_per_s = 7.000 ",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
