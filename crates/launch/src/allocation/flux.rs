//! Flux's description of resources, R version 1 (Flux RFC 20).

use super::slurm;
use serde::Deserialize;

#[derive(Deserialize)]
struct Resources {
    version: u32,
    execution: Execution,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    ranks: Vec<Group>,
    nodelist: Vec<String>,
}

/// Brokers with the same resources.
#[derive(Deserialize)]
struct Group {
    /// A set of numbers, as `0-3,5`.
    rank: String,
    children: Children,
}

#[derive(Deserialize)]
struct Children {
    /// The same of cores.
    #[serde(default)]
    core: String,
}

/// Hosts with their cores, by rank of their brokers. `None`: the text is no R, or its parts contradict each
/// other.
pub(super) fn hosts(text: &str) -> Option<Vec<(String, usize)>> {
    let resources: Resources = serde_json::from_str(text).ok()?;
    if resources.version != 1 {
        return None;
    }
    let mut names = Vec::new();
    for list in &resources.execution.nodelist {
        names.extend(slurm::nodelist(list)?);
    }
    let mut slots = Vec::new();
    for group in &resources.execution.ranks {
        let count = if group.children.core.is_empty() { 1 } else { numbers(&group.children.core)?.len() };
        slots.extend(numbers(&group.rank)?.into_iter().map(|rank| (rank, count)));
    }
    slots.sort_unstable();
    // One by one from 0: the agents are called by these numbers.
    let is_whole = slots.iter().map(|slot| slot.0).eq(0..names.len() as u64);
    is_whole.then(|| names.into_iter().zip(slots.into_iter().map(|slot| slot.1)).collect())
}

/// A set of numbers, as Slurm's brackets have them.
fn numbers(set: &str) -> Option<Vec<u64>> {
    let names = slurm::nodelist(&format!("[{set}]"))?;
    names.iter().map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_cores_are_read_by_broker() {
        let text = r#"{"version": 1, "execution": {
            "R_lite": [{"rank": "0,2", "children": {"core": "0-3"}},
                       {"rank": "1", "children": {"core": "0,2-7"}}],
            "starttime": 0.0, "expiration": 0.0, "nodelist": ["fluke[6-7]", "corona1"]}}"#;
        let wanted = [("fluke6", 4), ("fluke7", 7), ("corona1", 4)];
        assert!(hosts(text).unwrap().iter().map(|host| (host.0.as_str(), host.1)).eq(wanted));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let text = |version: u32, rank: &str| {
            format!(
                r#"{{"version": {version}, "execution": {{"R_lite":
                    [{{"rank": "{rank}", "children": {{"core": "0"}}}}], "nodelist": ["n[1-2]"]}}}}"#
            )
        };
        assert!(hosts(&text(1, "0-1")).is_some());
        for bad in
            [text(2, "0-1"), text(1, "0"), text(1, "1-2"), text(1, "0-2"), "{}".to_owned(), String::new()]
        {
            assert_eq!(hosts(&bad), None, "{bad}");
        }
    }
}
