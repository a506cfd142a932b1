//! Deadlock at run time: nothing is pending, but packets wait.

use std::fmt;

use ayatori_fabric::deadlock::{Lane, describe_lane};

use super::{Network, Probe};
use crate::slab::NONE;

/// Packets wait for each other in a circle, and nothing else is going on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// When the last packet had left a port.
    pub time_ps: u64,
    /// Packets in the network.
    pub packet_count: usize,
    /// Messages not delivered.
    pub message_count: usize,
    /// Lanes, each full of packets of which the first waits for the next lane, the last for the first.
    pub cycle: Vec<Lane>,
    /// The circle in words, a line for each lane.
    pub description: String,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deadlock { time_ps, packet_count, message_count, description, .. } = self;
        write!(
            f,
            "deadlock at {time_ps} ps: {packet_count} packets of {message_count} messages wait for each other; each \
             of these buffers is full and waits for the next, the last for the first{description}"
        )
    }
}

impl std::error::Error for Deadlock {}

impl<P: Probe> Network<P> {
    /// Names the circle.
    pub(super) fn standstill(&self) -> Deadlock {
        let cycle = if self.ethernet.is_used() {
            let lane = |cable: u32| Lane { channel: self.ethernet.cables[cable as usize].channel, vc: 0 };
            self.ethernet.circle().into_iter().map(lane).collect()
        } else {
            self.circle_of_lanes()
        };
        let ports_ps = self.ports.iter().map(|port| port.free_ps).max();
        let line = |lane: &Lane| format!("\n  {}", describe_lane(&self.graph, *lane));
        Deadlock {
            time_ps: self.ethernet.last_free_ps().or(ports_ps).unwrap_or(self.now_ps),
            packet_count: self.packets.len() + self.ethernet.frames.len(),
            message_count: self.messages.len(),
            description: cycle.iter().map(line).collect(),
            cycle,
        }
    }

    /// Every lane waits for at most one other, so following the waiting leads into the circle.
    fn circle_of_lanes(&self) -> Vec<Lane> {
        const FRESH: u32 = u32::MAX;
        let mut seen_from = vec![FRESH; self.lanes.len()];
        let waits_for = |lane: u32| match &self.lanes[lane as usize] {
            state if state.head == NONE => NONE,
            state => state.head_target,
        };
        for start in 0..self.lanes.len() as u32 {
            let mut at = start;
            while at != NONE && seen_from[at as usize] == FRESH {
                seen_from[at as usize] = start;
                at = waits_for(at);
            }
            if at != NONE && seen_from[at as usize] == start && waits_for(at) != NONE {
                let circle = std::iter::successors(Some(at), |&lane| {
                    let next = waits_for(lane);
                    (next != at).then_some(next)
                });
                return circle.map(|lane| self.fabric_lane(lane)).collect();
            }
        }
        Vec::new()
    }

    /// What is not as it was before any traffic, in words: packets left in a buffer, credits lost or made.
    /// `None` if all is well. For tests, once every message has arrived.
    pub fn leftovers(&self) -> Option<String> {
        let of_routers = self.first_nic_port as usize * usize::from(self.config.vc_count);
        for (lane, state) in self.lanes.iter().enumerate().take(of_routers) {
            let credits = state.promised_bytes(&self.returns);
            if credits != self.config.vc_buffer_bytes || state.head != NONE {
                let lane = describe_lane(&self.graph, self.fabric_lane(lane as u32));
                return Some(format!("{lane}: {credits} B of credits, first packet {:?}", state.head));
            }
        }
        if let Some((channel, words)) = self.ethernet.leftover() {
            return Some(format!("{}: {words}", self.graph.describe_channel(channel)));
        }
        if let Some(words) = self.ethernet.tcp.as_ref().and_then(|tcp| tcp.leftover()) {
            return Some(words);
        }
        let left = (self.packets.len() + self.ethernet.frames.len(), self.messages.len());
        let requested = self.ports.iter().any(|port| port.requests != [0; 2])
            || self.more_requests.iter().any(|&w| w != 0);
        (left != (0, 0) || requested)
            .then(|| format!("(packets, messages) {left:?}, requests left: {requested}"))
    }

    fn fabric_lane(&self, lane: u32) -> Lane {
        let vc_count = u32::from(self.config.vc_count);
        let far = self.ports[(lane / vc_count) as usize].far;
        Lane { channel: self.channels[far as usize], vc: (lane % vc_count) as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::nsim_torus;
    use crate::network::NoProbe;

    #[test]
    fn whatever_is_not_as_before_is_left_over() {
        let changes: [fn(&mut Network); 4] = [
            |network| network.lanes[0].credit_bytes -= 1,
            |network| network.lanes[0].head = 0,
            |network| network.ports[0].requests[1] = 1,
            |network| network.more_requests = vec![1],
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut network = nsim_torus(&[2], NoProbe).unwrap();
            assert_eq!(network.leftovers(), None);
            change(&mut network);
            assert!(network.leftovers().is_some(), "{index}");
        }
    }
}
