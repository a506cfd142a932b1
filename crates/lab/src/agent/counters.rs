//! Counters of every port of every node.

use super::network::in_node;
use crate::wire::{End, PortCounters};
use anyhow::Context;
use std::fs;

/// All ports of `nodes`, in the order of the nodes and, within one, of the kernel.
pub(super) fn read(nodes: &[String]) -> anyhow::Result<Vec<PortCounters>> {
    let mut all = Vec::new();
    for node in nodes {
        // The file shows the namespace of the thread that opens it.
        let text = in_node(node, || fs::read_to_string("/proc/thread-self/net/dev"))?
            .context("cannot read /proc/thread-self/net/dev")?;
        all.extend(text.lines().filter_map(|line| parse(node, line)));
    }
    Ok(all)
}

/// A line of `/proc/net/dev`: `name: bytes packets errs drop fifo frame compressed multicast | bytes packets
/// errs drop …`. The two header lines have no `name:`.
fn parse(node: &str, line: &str) -> Option<PortCounters> {
    let (port, numbers) = line.split_once(':')?;
    let port = port.trim();
    let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    if port == "lo" || numbers.len() < 12 {
        return None;
    }
    Some(PortCounters {
        end: End { node: node.to_owned(), port: port.to_owned() },
        received_bytes: numbers[0],
        received_frames: numbers[1],
        sent_bytes: numbers[8],
        sent_frames: numbers[9],
        dropped_frames: numbers[3] + numbers[11],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "    p1:    1234      10    0    1    0     0          0         0     4321      20    0    2    \
                    0     0       0          0";
        let counters = parse("s1", line).unwrap();
        assert_eq!((counters.received_frames, counters.sent_frames), (10, 20));
        assert_eq!((counters.received_bytes, counters.sent_bytes), (1234, 4321));
        assert_eq!(counters.dropped_frames, 3);
        assert!(parse("s1", " face |bytes    packets errs drop").is_none());
        assert!(parse("s1", "    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0").is_none());
    }
}
