//! Which CPUs a rank runs on.
//!
//! All is relative to what this process may use (its affinity mask, which a cgroup's cpuset is part of).
//! Ranks are given whole cores, neighbours side by side, spread evenly over NUMA nodes so that every memory
//! controller works; two ranks stay on one node. A core taken by one job is marked by an abstract socket,
//! which dies with the launcher, so that two jobs started side by side do not share cores while others idle.

use crate::error::Error;
use crate::spec::Binding;
use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A core: the CPUs (hardware threads) of it that we may use, ascending.
pub type Core = Vec<usize>;

/// Where the ranks of a job run.
#[derive(Debug)]
pub(crate) struct Placement {
    /// For each rank its CPUs; empty when the operating system decides.
    pub(crate) cpus: Vec<Vec<usize>>,
    /// CPUs that the ranks have together.
    pub(crate) cpus_count: usize,
    /// The marks of the cores that are taken.
    _claims: Vec<UnixDatagram>,
}

impl Placement {
    /// Places `ranks_count` ranks.
    ///
    /// # Errors
    /// `core` was asked for and there are more ranks than cores.
    pub(crate) fn new(binding: Option<Binding>, ranks_count: usize) -> anyhow::Result<Self> {
        // Knows the affinity mask and the cgroup's quota.
        let cpus_count = std::thread::available_parallelism().map_or(1, usize::from);
        let unbound = Placement { cpus: vec![], cpus_count, _claims: vec![] };
        let may_bind = match binding {
            Some(Binding::None) => false,
            Some(Binding::Core) => true,
            // One process alone is likely to have threads, which want all cores.
            None => (2..=cpus_count).contains(&ranks_count),
        };
        if !may_bind {
            return Ok(unbound);
        }
        // Hybrid programs: as many cores for a rank as it says it has threads.
        let threads = std::env::var("OMP_NUM_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1);
        let nodes = cores_by_node(&allowed_cpus());
        let wanted = ranks_count.saturating_mul(threads);
        let Some((cpus, claims)) = bind(&nodes, ranks_count, threads) else {
            let cores_count: usize = nodes.iter().map(Vec::len).sum();
            if binding.is_some() && wanted > cores_count {
                let per_rank =
                    if threads > 1 { format!(" of {threads} threads each") } else { String::new() };
                return Err(Error::usage(format!(
                    "--bind-to core: {ranks_count} ranks{per_rank} and {cores_count} cores to bind them to; \
                     use fewer ranks or --bind-to none"
                )));
            }
            if binding.is_some() {
                // Asked for in so many words: share cores with other jobs then.
                let cpus = assign(&choose(&nodes, wanted), ranks_count, threads);
                return Ok(Placement { cpus, cpus_count, _claims: vec![] });
            }
            return Ok(unbound);
        };
        Ok(Placement { cpus, cpus_count, _claims: claims })
    }

    /// Whether each rank has cores of its own.
    pub(crate) fn is_bound(&self) -> bool {
        !self.cpus.is_empty()
    }
}

/// Cores of their own for all ranks, out of those that no other job has taken.
fn bind(nodes: &[Vec<Core>], ranks: usize, threads: usize) -> Option<(Vec<Vec<usize>>, Vec<UnixDatagram>)> {
    let wanted = ranks.saturating_mul(threads);
    let mut free: Vec<Vec<Core>> = nodes.to_vec();
    loop {
        let chosen = choose(&free, wanted);
        if chosen.len() < wanted {
            return None;
        }
        let mut claims = Vec::new();
        let mut taken = None;
        for core in &chosen {
            match claim(core) {
                Some(claim) => claims.push(claim),
                None => {
                    taken = Some((*core).clone());
                    break;
                }
            }
        }
        let Some(taken) = taken else { return Some((assign(&chosen, ranks, threads), claims)) };
        free.iter_mut().for_each(|node| node.retain(|core| *core != taken));
    }
}

/// The mark that a core is taken; `None` when another job has it.
fn claim(core: &Core) -> Option<UnixDatagram> {
    let address = SocketAddr::from_abstract_name(format!("ayatori/core/{}", core.first()?)).ok()?;
    UnixDatagram::bind_addr(&address).ok()
}

/// `wanted` cores (fewer where there are not so many), an even share of each node, in order; one or two fit
/// best side by side on one node.
fn choose(nodes: &[Vec<Core>], wanted: usize) -> Vec<&Core> {
    if wanted <= 2
        && let Some(node) = nodes.iter().find(|node| node.len() >= wanted)
    {
        return node.iter().take(wanted).collect();
    }
    let mut shares = vec![0; nodes.len()];
    let mut left = wanted;
    while left > 0 {
        let open: Vec<usize> = (0..nodes.len()).filter(|&i| shares[i] < nodes[i].len()).collect();
        if open.is_empty() {
            break;
        }
        for index in open.into_iter().take(left) {
            shares[index] += 1;
            left -= 1;
        }
    }
    nodes.iter().zip(shares).flat_map(|(node, share)| node.iter().take(share)).collect()
}

fn assign(cores: &[&Core], ranks: usize, threads: usize) -> Vec<Vec<usize>> {
    let cpus = |chunk: &[&Core]| chunk.iter().flat_map(|core| core.iter().copied()).collect();
    cores.chunks(threads).take(ranks).map(cpus).collect()
}

/// The CPUs this process may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| cpu_list(list.trim())).unwrap_or_default()
}

/// The cores of `cpus` on each NUMA node, nodes ascending, nodes without any left out.
pub fn cores_by_node(cpus: &[usize]) -> Vec<Vec<Core>> {
    let node_of = node_of_cpu();
    let mut cores: BTreeMap<(usize, usize), Core> = BTreeMap::new();
    for &cpu in cpus {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        // Without sysfs (a sandbox) every CPU counts as a core.
        let first = fs::read_to_string(path).ok().and_then(|list| cpu_list(list.trim()).first().copied());
        let node = node_of.get(&cpu).copied().unwrap_or(0);
        cores.entry((node, first.unwrap_or(cpu))).or_default().push(cpu);
    }
    let mut nodes: BTreeMap<usize, Vec<Core>> = BTreeMap::new();
    for ((node, _), core) in cores {
        nodes.entry(node).or_default().push(core);
    }
    nodes.into_values().collect()
}

fn node_of_cpu() -> BTreeMap<usize, usize> {
    let mut map = BTreeMap::new();
    let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    for node in cpu_list(online.trim()) {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        let cpus = fs::read_to_string(path).unwrap_or_default();
        map.extend(cpu_list(cpus.trim()).into_iter().map(|cpu| (cpu, node)));
    }
    map
}

/// `0-3,8` as numbers; what is no number is left out.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// CPUs as the kernel writes them: `0-3,8`.
pub fn format_cpus(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(cpu_list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(cpu_list("\u{0}"), [0; 0]);
        assert_eq!(format_cpus(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
    }

    /// Two nodes of four cores of two threads.
    fn machine() -> Vec<Vec<Core>> {
        (0..2).map(|node| (0..4).map(|core| vec![node * 4 + core, 8 + node * 4 + core]).collect()).collect()
    }

    #[test]
    fn two_ranks_stay_on_one_node_and_more_spread_over_all() {
        let nodes = machine();
        let firsts = |count| choose(&nodes, count).iter().map(|core| core[0]).collect::<Vec<_>>();
        assert_eq!(firsts(2), [0, 1]);
        assert_eq!(firsts(4), [0, 1, 4, 5]);
        assert_eq!(firsts(5), [0, 1, 2, 4, 5]);
        assert_eq!(firsts(9).len(), 8);
    }

    #[test]
    fn a_rank_with_threads_gets_as_many_cores() {
        let nodes = machine();
        assert_eq!(assign(&choose(&nodes, 4), 2, 2), [[0, 8, 1, 9], [4, 12, 5, 13]]);
    }

    #[test]
    fn a_core_another_job_has_taken_is_passed_over() {
        // CPU numbers no machine has, so that no real job is in the way.
        let nodes = vec![(0..3).map(|core| vec![7_000_000 + core]).collect::<Vec<Core>>()];
        let (first, claims) = bind(&nodes, 2, 1).expect("three are free");
        assert_eq!(first, [[7_000_000], [7_000_001]]);
        let (second, _claims) = bind(&nodes, 1, 1).expect("one is free");
        assert_eq!(second, [[7_000_002]]);
        assert!(bind(&nodes, 2, 1).is_none());
        drop(claims);
        assert!(bind(&nodes, 2, 1).is_some());
    }
}
