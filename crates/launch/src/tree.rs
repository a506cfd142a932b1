//! The tree in which agents are started: the launcher starts a few, each of these a few more.
//!
//! ```text
//!   launcher ─┬─ h0 ─┬─ h1        a branch: consecutive hosts,
//!             │      └─ h2        reached through the first of them
//!             ├─ h3 ─── h4
//!             └─ h5 ─── h6
//! ```

use serde::{Deserialize, Serialize};

/// Most agents that the launcher, and each agent, starts itself, where the user does not say it.
pub const BRANCH_COUNT_DEFAULT: usize = 32;

/// A host with its ranks, and the hosts whose agents its agent starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Branch {
    /// The number of the host in the job.
    pub(crate) host: usize,
    pub(crate) name: String,
    /// Its ranks, each with the number of its program.
    pub(crate) ranks: Vec<(usize, usize)>,
    pub(crate) branches: Vec<Branch>,
}

impl Branch {
    /// A host behind which there is none.
    pub(crate) fn leaf(host: usize, name: String, ranks: Vec<(usize, usize)>) -> Self {
        Self { host, name, ranks, branches: Vec::new() }
    }

    /// Divides hosts without branches among `count` of them, each of which starts the agents of its part in
    /// the same manner. No agent starts more than `count`; if `count` is below 2, the launcher starts all.
    pub(crate) fn divide(mut hosts: Vec<Branch>, count: usize) -> Vec<Branch> {
        if count < 2 || hosts.len() <= count {
            return hosts;
        }
        let mut parts = Vec::with_capacity(count);
        for left in (1..=count).rev() {
            let rest = hosts.split_off(hosts.len().div_ceil(left));
            let mut part = std::mem::replace(&mut hosts, rest).into_iter();
            if let Some(mut first) = part.next() {
                first.branches = Self::divide(part.collect(), count);
                parts.push(first);
            }
        }
        parts
    }

    /// The hosts behind this one, each with the host whose agent starts its agent.
    pub(crate) fn behind(&self) -> Vec<(usize, usize)> {
        let of = |branch: &Branch| [vec![(branch.host, self.host)], branch.behind()].concat();
        self.branches.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(hosts_count: usize, count: usize) -> Vec<Branch> {
        let leaf = |host| Branch::leaf(host, format!("h{host}"), vec![(host, 0)]);
        Branch::divide((0..hosts_count).map(leaf).collect(), count)
    }

    fn most_branches(branches: &[Branch]) -> usize {
        let below = branches.iter().map(|branch| most_branches(&branch.branches));
        below.fold(branches.len(), usize::max)
    }

    fn depth(branches: &[Branch]) -> usize {
        branches.iter().map(|branch| 1 + depth(&branch.branches)).max().unwrap_or(0)
    }

    #[test]
    fn every_host_has_one_place_and_no_host_exceeds_the_count() {
        for hosts_count in [1, 2, 31, 32, 33, 64, 100, 1_055, 1_057, 4_096] {
            for count in [2, 3, 10, 32] {
                let tree = divided(hosts_count, count);
                let all = |branch: &Branch| {
                    let behind = branch.behind().into_iter().map(|(host, _)| host);
                    std::iter::once(branch.host).chain(behind).collect::<Vec<_>>()
                };
                let hosts: Vec<usize> = tree.iter().flat_map(all).collect();
                assert_eq!(hosts, (0..hosts_count).collect::<Vec<_>>(), "in order, each once");
                assert!(most_branches(&tree) <= count, "{hosts_count} hosts, {count} branches");
                // As flat as it can be: count + count² + … hosts at this depth.
                let room = |depth: usize| (1..=depth as u32).map(|level| count.pow(level)).sum::<usize>();
                assert!(room(depth(&tree) - 1) < hosts_count, "{hosts_count} hosts, {count} branches");
            }
        }
    }

    #[test]
    fn launcher_starts_all_up_to_the_branch_count_and_without_one() {
        for (hosts_count, count) in [(32, 32), (100, 0), (100, 1)] {
            let tree = divided(hosts_count, count);
            assert!(tree.len() == hosts_count && tree.iter().all(|branch| branch.branches.is_empty()));
        }
        let tree = divided(100, 32);
        assert_eq!(tree.len(), 32);
        assert_eq!(tree[0].behind(), [(1, 0), (2, 0), (3, 0)]);
    }
}
