//! Traffic of each link, for people.

use crate::cluster::Lab;
use crate::wire::{End, PortCounters};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Counters between two readings, by port.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    ports: BTreeMap<End, PortCounters>,
}

impl Traffic {
    /// Counts since `before` (empty: since the start).
    pub fn between(before: &[PortCounters], after: &[PortCounters]) -> Traffic {
        let earlier: BTreeMap<&End, &PortCounters> = before.iter().map(|c| (&c.end, c)).collect();
        let ports = after.iter().map(|now| {
            let mut delta = now.clone();
            if let Some(then) = earlier.get(&now.end) {
                delta.received_frames = now.received_frames.saturating_sub(then.received_frames);
                delta.received_bytes = now.received_bytes.saturating_sub(then.received_bytes);
                delta.sent_frames = now.sent_frames.saturating_sub(then.sent_frames);
                delta.sent_bytes = now.sent_bytes.saturating_sub(then.sent_bytes);
                delta.dropped_frames = now.dropped_frames.saturating_sub(then.dropped_frames);
            }
            (now.end.clone(), delta)
        });
        Traffic { ports: ports.collect() }
    }

    /// Frames that left a port.
    pub fn sent_frames(&self, end: &End) -> u64 {
        self.ports.get(end).map_or(0, |counters| counters.sent_frames)
    }

    fn sent_bytes(&self, end: &End) -> u64 {
        self.ports.get(end).map_or(0, |counters| counters.sent_bytes)
    }
}

/// A table of the links between switches: frames and bytes each way.
pub fn links(lab: &Lab, traffic: &Traffic) -> String {
    let plan = lab.plan();
    let mut text = format!(
        "{:<30} {:>12} {:>14}   {:>12} {:>14}\n",
        "link", "frames ->", "bytes ->", "<- frames", "<- bytes"
    );
    for (index, link) in plan.links.iter().enumerate() {
        let [a, b] = [0, 1].map(|end| &plan.switch(link.ends[end].switch).name);
        for cable in 0..link.cable_count() {
            let ends = [0, 1].map(|end| lab.link_end(index, end, cable));
            let name =
                if link.cable_count() == 1 { format!("{a} - {b}") } else { format!("{a} - {b} #{cable}") };
            let _ = writeln!(
                text,
                "{name:<30} {:>12} {:>14}   {:>12} {:>14}",
                traffic.sent_frames(&ends[0]),
                traffic.sent_bytes(&ends[0]),
                traffic.sent_frames(&ends[1]),
                traffic.sent_bytes(&ends[1])
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(port: &str, sent_frames: u64) -> PortCounters {
        let end = End { node: "s".into(), port: port.into() };
        PortCounters { sent_frames, sent_bytes: 100 * sent_frames, ..PortCounters::new(end) }
    }

    #[test]
    fn traffic_is_the_difference_of_two_readings() {
        let traffic = Traffic::between(&[counters("a", 5)], &[counters("a", 12), counters("b", 3)]);
        let end = |port: &str| End { node: "s".into(), port: port.into() };
        assert_eq!(traffic.sent_frames(&end("a")), 7);
        assert_eq!(traffic.sent_frames(&end("b")), 3, "a port that is new counts from its start");
        assert_eq!(traffic.sent_frames(&end("c")), 0);
    }
}
