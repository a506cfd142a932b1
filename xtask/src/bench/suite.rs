//! What is measured: programs, rank counts, and the raw limit each figure is read against.

use std::time::Duration;

/// One program at one number of ranks: one launch per library and run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The group `--only` selects by.
    pub(crate) group: &'static str,
    /// `bench/<program>.c`.
    pub(crate) program: &'static str,
    pub(crate) ranks: usize,
    /// One launch may take this long.
    pub(crate) limit: Duration,
    /// Milliseconds for one figure (`BENCH_BUDGET_MS`).
    pub(crate) budget_ms: u32,
    /// Our library's progress mode, where it is not the default: a case for our library alone.
    pub(crate) progress: Option<&'static str>,
}

/// The groups, in the order they run.
pub(crate) const GROUPS: [&str; 12] = [
    "pingpong",
    "bandwidth",
    "rate",
    "sendrecv",
    "types",
    "onesided",
    "overlap",
    "collectives",
    "files",
    "startup",
    "memory",
    "beside",
];

/// The cases of the chosen groups at the chosen rank counts (for the groups that take any).
pub(crate) fn cases(only: &[String], ranks: &[usize], quick: bool) -> Vec<Case> {
    let wanted = |group: &str| only.is_empty() || only.iter().any(|name| name == group);
    let budget_ms = if quick { 10 } else { 40 };
    let two = ["pingpong", "bandwidth", "rate", "sendrecv", "types", "onesided", "overlap"];
    let mut cases = Vec::new();
    for group in GROUPS.into_iter().filter(|group| wanted(group)) {
        let counts: Vec<usize> = match group {
            _ if two.contains(&group) => vec![2],
            "files" => vec![4],
            "startup" => vec![2, 32],
            "memory" => vec![2, 32],
            "beside" => vec![2, 4],
            _ => ranks.to_vec(),
        };
        for ranks in counts {
            let limit = Duration::from_secs(if ranks > 8 || group == "files" { 90 } else { 45 });
            // Some libraries take milliseconds a turn there.
            let budget_ms = if group == "beside" { 10 * budget_ms } else { budget_ms };
            cases.push(Case { group, program: group, ranks, limit, budget_ms, progress: None });
        }
        if group == "overlap" {
            let default = cases.last().cloned();
            let in_mode = |mode| default.clone().map(|case| Case { progress: Some(mode), ..case });
            cases.extend(["inline", "offload"].into_iter().filter_map(in_mode));
        }
    }
    cases
}

/// Whether a bigger figure is the better one.
pub(crate) fn higher_is_better(unit: &str) -> bool {
    unit.ends_with("/s") || unit == "%"
}

/// The layouts of `bench/types.c`.
const TYPES: [&str; 5] = ["vector8", "vector256", "subarray", "indexed", "struct"];

/// The raw figure that bounds `benchmark` at `bytes`, as `(name, bytes)` of `bench/raw.c`'s output.
///
/// A 0 or 8-byte message cannot be faster than a cache line each way. A long one needs at least one copy: the
/// limit is the kernel's single copy or a copy in and out of a mapping, whichever this machine does faster
/// (the report takes the better of the two). Data with gaps cannot be packed faster than as much is copied
/// without gaps. An operation on memory that both map is a copy or an addition there, a fence one cache line
/// each way. A file's limit is one process that calls `write` and `read` with 4 MiB at a time.
pub(crate) fn raw_limits(benchmark: &str, bytes: usize) -> &'static [&'static str] {
    match benchmark {
        "pingpong" | "pingpong_separate" | "pingpong_malloc" | "sendrecv" if bytes <= 64 => {
            &["raw_line_pingpong"]
        }
        "pingpong" | "pingpong_separate" | "pingpong_malloc" => {
            &["raw_mapping_pingpong", "raw_readv_pingpong"]
        }
        "bandwidth" => &["raw_process_vm_readv", "raw_memcpy"],
        "put_stream_create" | "get_stream_create" => &["raw_process_vm_readv", "raw_memcpy"],
        "put_stream_allocate" | "get_stream_allocate" => &["raw_memcpy"],
        "put_allocate" | "get_allocate" => &["raw_memcpy_time"],
        "fetch_and_op_allocate" => &["raw_fetch_add"],
        "fence_allocate" | "fence_put_allocate" => &["raw_line_pingpong"],
        "write_all" | "write" => &["raw_write"],
        "read_all" | "read" => &["raw_read"],
        _ if benchmark.starts_with("pack_") || benchmark.starts_with("unpack_") => &["raw_memcpy_time"],
        _ if benchmark.starts_with("pingpong_") && TYPES.iter().any(|name| benchmark.ends_with(name)) => {
            &["raw_mapping_pingpong", "raw_readv_pingpong"]
        }
        "startup" => &["raw_spawn_and_wait"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_selects_groups_and_ranks_apply_to_collectives_alone() {
        let only = vec!["pingpong".to_owned(), "collectives".to_owned()];
        let cases = cases(&only, &[4, 8], true);
        let got: Vec<_> = cases.iter().map(|case| (case.group, case.ranks)).collect();
        assert_eq!(got, [("pingpong", 2), ("collectives", 4), ("collectives", 8)]);
    }

    #[test]
    fn progress_during_computation_is_measured_in_every_mode() {
        let cases = cases(&["overlap".to_owned()], &[], true);
        let modes: Vec<_> = cases.iter().map(|case| case.progress).collect();
        assert_eq!(modes, [None, Some("inline"), Some("offload")]);
    }
}
