//! Ethernet switches: output queues in shared memory, pause frames (IEEE 802.3x) or loss, link aggregation.
//!
//! A frame is received into the switch's memory and stands in the queue of the cable that it leaves by,
//! first come, first served, whatever input it came by; so no frame stands behind another that wants
//! elsewhere. What came in by a cable and has not left is counted. With [`WhenFull::Pause`], above
//! `on_bytes` the far end of that cable is asked to pause: a pause frame waits for the frame that is being
//! sent in that direction, takes the cable's latency and its own length, and the far end finishes the
//! frame it is sending. So nothing is lost as long as an input's share of memory holds that much more than
//! the threshold. At `off_bytes` the far end may go on.
//!
//! With [`WhenFull::Drop`] a frame that finds its queue or the switch's memory full is gone (drop tail),
//! and NICs speak TCP (`tcp`). The frame being sent is no longer in its queue, but still in memory.
//!
//! A link of several cables (LAG) is as many queues; a hash of addresses decides which a frame takes
//! ([`cable_of`]). A NIC of several cables (a bond) does the same with its messages.
//!
//! Pausing stops all that goes over a cable, so switches can wait for each other in a circle: nothing is
//! pending any more then, and `standstill` names the circle.
//!
//! Not modelled: the bandwidth that pause frames take, priorities, thresholds of a queue that move with
//! what is free.
//!
//! Events are taken in order of time (`queue`), two for a frame and hop: its arrival, and the end of its
//! sending.

use ayatori_fabric::graph::{ChannelId, Graph, SwitchId};

use super::tcp::Connections;
use super::{
    ChannelLoad, Config, LagHash, LinkClass, Message, MessageQueue, Network, NicId, PortState, Probe,
    Queueing, SharedBuffer, Switching, WhenFull, transfer_ps,
};
use crate::queue::Class;
use crate::slab::{NONE, Slab};
use ayatori_random::Random;

/// A pause frame with preamble and gap, bytes.
const PAUSE_FRAME_BYTES: u64 = 84;

/// One end of a cable: its output, with the queue before it, and what is known of its input.
#[derive(Debug, Clone)]
pub(super) struct Cable {
    /// When the output has sent what it is sending, a NIC's gap included.
    pub(super) free_ps: u64,
    /// The pending look at the output, `u64::MAX` if none.
    look_ps: u64,
    /// The far end; `NONE` if there is no link.
    pub(super) far: u32,
    pub(super) channel: ChannelId,
    /// Which of the link's cables; `None` if there is one.
    number: Option<u32>,
    pub(super) link: LinkClass,
    /// The switch; `NONE` for a NIC.
    switch: u32,
    /// Frames that wait for the output, and their bytes.
    pub(super) first: u32,
    last: u32,
    queued_bytes: u32,
    /// A NIC's messages.
    waiting: MessageQueue,
    /// The far end has asked for silence.
    pub(super) paused: bool,
    /// The frame being sent leaves memory at this time; its length and where it came in.
    leaving_ps: u64,
    leaving_bytes: u32,
    leaving_input: u32,
    /// Frames on their way to this end, the first to arrive first.
    coming_first: u32,
    coming_last: u32,
    /// Bytes in memory that came in here, and the most there ever were.
    held_bytes: u32,
    held_max_bytes: u32,
    /// Whether the far end has been asked to pause.
    asked: bool,
    sent_bytes: u64,
    sent_count: u64,
    waited_ps: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) ready_ps: u64,
    pub(super) injected_ps: u64,
    /// When its last byte has arrived where it is going.
    pub(super) tail_ps: u64,
    pub(super) next: u32,
    /// With TCP, what it carries.
    pub(super) message: u32,
    pub(super) to_nic: u32,
    /// For the routing: its VLAN, where there are VLANs.
    pub(super) flow: u32,
    pub(super) bytes: u32,
    pub(super) hash: u32,
    /// The cable's end by which it came into the switch where it is.
    pub(super) input: u32,
    pub(super) is_last: bool,
}

/// The cables of a port of the graph.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Group {
    first: u32,
    count: u32,
}

impl Group {
    /// The cable that a hash names.
    pub(super) fn cable(self, hash: u32) -> u32 {
        self.first + hash % self.count.max(1)
    }
}

/// Cables and frames. Empty if the network is none of Ethernet switches.
#[derive(Debug, Default)]
pub(super) struct Ethernet {
    pub(super) cables: Vec<Cable>,
    /// By port as in `Network::ports`.
    pub(super) groups: Vec<Group>,
    pub(super) frames: Slab<Frame>,
    buffer: Option<SharedBuffer>,
    /// Where frames can be lost.
    pub(super) tcp: Option<Box<Connections>>,
    /// Bytes in each switch's memory, where frames can be lost.
    memory_bytes: Vec<u64>,
}

/// Which of `count` cables a message takes: as Linux' `layer3+4`, addresses being consecutive numbers of a
/// subnet. The same both ways.
pub fn cable_of(message: &Message, hash: LagHash, count: u32) -> u32 {
    hash_of(message, hash) % count.max(1)
}

/// The flow of the connection between two processes: ports that are spread as a system's choice is, the same
/// both ways.
pub fn flow_of(from: u32, to: u32) -> u32 {
    let pair = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
    Random::new(pair).next_u64() as u32
}

pub(super) fn hash_of(message: &Message, hash: LagHash) -> u32 {
    let has_ports = hash == LagHash::AddressesAndPorts;
    let ports = if has_ports { message.flow >> 16 ^ message.flow & 0xFFFF } else { 0 };
    let mixed = (message.from.0 + 1) ^ (message.to.0 + 1) ^ ports;
    let folded = mixed ^ mixed >> 16;
    let folded = folded ^ folded >> 8;
    // Ports that a system chooses are often all even: Linux leaves the lowest bit out then, as of 2017.
    if has_ports { folded >> 1 } else { folded }
}

impl Ethernet {
    /// The cables behind `ports`.
    pub(super) fn new(
        graph: &Graph,
        ports: &[PortState],
        (channels, owners): (&[ChannelId], &[u32]),
        first_nic_port: u32,
        config: &Config,
    ) -> Ethernet {
        let Queueing::Output(buffer) = config.queueing else { return Ethernet::default() };
        let spec = |port: usize| graph.link(channels[port].link()).spec;
        let mut groups = Vec::with_capacity(ports.len());
        let mut cable_count = 0;
        for (port, state) in ports.iter().enumerate() {
            let count = if state.far == NONE { 0 } else { spec(port).cable_count };
            groups.push(Group { first: cable_count, count });
            cable_count += count;
        }
        let mut cables = Vec::with_capacity(cable_count as usize);
        for (port, state) in ports.iter().enumerate() {
            for number in 0..groups[port].count {
                let is_nic = port as u32 >= first_nic_port;
                cables.push(Cable {
                    free_ps: 0,
                    look_ps: u64::MAX,
                    far: groups[state.far as usize].first + number,
                    channel: channels[port],
                    number: (groups[port].count > 1).then_some(number),
                    link: LinkClass::of(spec(port).rate_bits_per_s, spec(port).latency_ps, config),
                    switch: if is_nic { NONE } else { owners[port] },
                    first: NONE,
                    last: NONE,
                    queued_bytes: 0,
                    waiting: MessageQueue::EMPTY,
                    paused: false,
                    leaving_ps: u64::MAX,
                    leaving_bytes: 0,
                    leaving_input: NONE,
                    coming_first: NONE,
                    coming_last: NONE,
                    held_bytes: 0,
                    held_max_bytes: 0,
                    asked: false,
                    sent_bytes: 0,
                    sent_count: 0,
                    waited_ps: 0,
                });
            }
        }
        let tcp = match buffer.when_full {
            WhenFull::Pause { .. } => None,
            WhenFull::Drop { tcp, .. } => {
                let payload_max_bytes = config.payload_max_bytes();
                let counts = (cables.len(), ports.len() - first_nic_port as usize);
                Some(Box::new(Connections::new(tcp, payload_max_bytes, buffer.lag_hash, counts)))
            }
        };
        let memory_bytes = if tcp.is_some() { vec![0; graph.switch_count()] } else { Vec::new() };
        Ethernet { cables, groups, frames: Slab::default(), buffer: Some(buffer), tcp, memory_bytes }
    }

    pub(super) fn is_used(&self) -> bool {
        self.buffer.is_some()
    }

    fn cables_of(&self, port: u32) -> &[Cable] {
        let Group { first, count } = self.groups[port as usize];
        &self.cables[first as usize..(first + count) as usize]
    }

    pub(super) fn is_idle(&self, nic: NicId, nic_port: u32) -> bool {
        match &self.tcp {
            Some(tcp) => tcp.is_idle(nic),
            None => self.cables_of(nic_port).iter().all(|cable| cable.waiting.is_empty()),
        }
    }

    pub(super) fn free_ps(&self, cable: u32) -> u64 {
        self.cables[cable as usize].free_ps
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = ChannelLoad> + '_ {
        self.cables.iter().map(|cable| ChannelLoad {
            channel: cable.channel,
            cable: cable.number,
            sent_bytes: cable.sent_bytes,
            sent_packet_count: cable.sent_count,
            busy_ps: transfer_ps(cable.sent_bytes, cable.link.byte_time),
            waited_ps: cable.waited_ps,
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.cables) + size_of_val(&*self.groups)
    }

    /// The most memory that frames of one cable ever took in a switch.
    pub(super) fn held_max_bytes(&self) -> u32 {
        self.cables.iter().map(|cable| cable.held_max_bytes).max().unwrap_or(0)
    }

    /// When the last frame had left.
    pub(super) fn last_free_ps(&self) -> Option<u64> {
        self.cables.iter().map(|cable| cable.free_ps).max()
    }

    /// The circle of paused cables at a standstill: each waits for memory at its far end, where a frame that
    /// came by it waits for the next.
    pub(super) fn circle(&self) -> Vec<u32> {
        let mut waits_for = vec![NONE; self.cables.len()];
        for (at, cable) in self.cables.iter().enumerate().filter(|(_, cable)| cable.paused) {
            let mut frame = cable.first;
            while frame != NONE {
                let Frame { input, next, .. } = self.frames[frame];
                // The far end of the input is paused too, by this frame among others.
                let feeder = self.cables[input as usize].far as usize;
                if self.cables[feeder].paused && waits_for[feeder] == NONE {
                    waits_for[feeder] = at as u32;
                }
                frame = next;
            }
        }
        let mut seen_from = vec![NONE; self.cables.len()];
        for start in 0..self.cables.len() as u32 {
            let mut at = start;
            while at != NONE && seen_from[at as usize] == NONE {
                seen_from[at as usize] = start;
                at = waits_for[at as usize];
            }
            if at != NONE && seen_from[at as usize] == start {
                let next = |&cable: &u32| Some(waits_for[cable as usize]).filter(|&next| next != at);
                return std::iter::successors(Some(at), next).collect();
            }
        }
        Vec::new()
    }

    /// The first cable that is not as it was before any traffic, in words.
    pub(super) fn leftover(&self) -> Option<(ChannelId, String)> {
        let left = |cable: &&Cable| {
            cable.held_bytes > 0
                || cable.first != NONE
                || cable.paused
                || cable.asked
                || cable.coming_first != NONE
        };
        let cable = self.cables.iter().find(left)?;
        Some((cable.channel, format!("{} B held, paused: {}", cable.held_bytes, cable.paused)))
    }
}

impl<P: Probe> Network<P> {
    /// Gives a message to the cable of its NIC that its hash names.
    pub(super) fn send_frames(&mut self, message: &Message, handle: u32) {
        let Some(SharedBuffer { lag_hash, .. }) = self.ethernet.buffer else { return };
        if self.ethernet.tcp.is_some() {
            self.send_on_connection(message, handle);
            return;
        }
        let port = self.nics[message.from.0 as usize].port;
        let at = self.ethernet.groups[port as usize].cable(hash_of(message, lag_hash));
        let cable = &mut self.ethernet.cables[at as usize];
        let (free_ps, paused) = (cable.free_ps, cable.paused);
        if cable.waiting.push(&mut self.messages, handle) && !paused {
            self.wake_cable(at, free_ps.max(self.now_ps));
        }
    }

    pub(super) fn wake_cable(&mut self, at: u32, time_ps: u64) {
        let cable = &mut self.ethernet.cables[at as usize];
        if time_ps < cable.look_ps {
            cable.look_ps = time_ps;
            self.queue.push(time_ps, Class::Cable, at);
        }
    }

    /// A cable's output may be free: the frame sent leaves memory, and the next one goes.
    pub(super) fn on_cable(&mut self, at: u32) {
        let cable = &mut self.ethernet.cables[at as usize];
        if cable.look_ps != self.now_ps {
            // An earlier look has taken this one's place.
            return;
        }
        cable.look_ps = u64::MAX;
        if cable.leaving_ps <= self.now_ps {
            cable.leaving_ps = u64::MAX;
            let (input, bytes) = (cable.leaving_input, cable.leaving_bytes);
            self.leave_memory(input, bytes);
        }
        let Cable { free_ps, paused, switch, first, waiting, .. } = self.ethernet.cables[at as usize];
        if free_ps > self.now_ps {
            self.wake_cable(at, free_ps);
        } else if paused {
            // The pause's end looks again.
        } else if switch == NONE && self.ethernet.tcp.is_some() {
            self.inject_segment(at);
        } else if switch == NONE && !waiting.is_empty() {
            self.inject_frame(at);
        } else if first != NONE {
            let ready_ps = self.ethernet.frames[first].ready_ps;
            if ready_ps > self.now_ps { self.wake_cable(at, ready_ps) } else { self.forward(at) }
        }
    }

    /// Sends the first frame of a switch's queue.
    fn forward(&mut self, at: u32) {
        let cable = &mut self.ethernet.cables[at as usize];
        let handle = cable.first;
        let Frame { next, bytes, input, ready_ps, .. } = self.ethernet.frames[handle];
        cable.first = next;
        cable.queued_bytes -= bytes;
        let done_ps = self.now_ps + transfer_ps(bytes.into(), cable.link.byte_time);
        cable.free_ps = done_ps;
        (cable.leaving_ps, cable.leaving_bytes, cable.leaving_input) = (done_ps, bytes, input);
        cable.waited_ps += self.now_ps - ready_ps;
        self.put_on_cable(at, handle, done_ps);
        self.wake_cable(at, done_ps);
    }

    /// Sends a frame of a NIC's first message.
    fn inject_frame(&mut self, at: u32) {
        let cable = &mut self.ethernet.cables[at as usize];
        let handle = cable.waiting.head;
        let state = self.messages[handle];
        let payload = state.unsent_bytes.min(self.config.payload_max_bytes().into()) as u32;
        let bytes = self.config.packet_bytes(payload);
        let transfer_ps = transfer_ps(bytes.into(), cable.link.byte_time);
        let done_ps = self.now_ps + transfer_ps;
        cable.free_ps = done_ps + transfer_ps * u64::from(state.message.gap.milli_packets) / 1_000;
        let order = self.config.nic_order;
        cable.waiting.take_packet(&mut self.messages, &mut self.queue, order, (payload, done_ps));
        let (free_ps, more) = (cable.free_ps, cable.waiting.head != NONE);
        let hash = self.ethernet.buffer.map_or(0, |buffer| hash_of(&state.message, buffer.lag_hash));
        let frame = self.ethernet.frames.insert(Frame {
            ready_ps: self.now_ps,
            injected_ps: self.now_ps,
            tail_ps: done_ps,
            next: NONE,
            message: handle,
            to_nic: state.message.to.0,
            flow: self.flow(state.message.from, state.message.to),
            bytes,
            hash,
            input: NONE,
            is_last: state.unsent_packets == 1,
        });
        self.counters.injected_packet_count += 1;
        self.put_on_cable(at, frame, done_ps);
        if more {
            self.wake_cable(at, free_ps);
        }
    }

    /// A frame goes over a cable until `done_ps`: what the far end will see of it.
    pub(super) fn put_on_cable(&mut self, at: u32, handle: u32, done_ps: u64) {
        let Cable { far, link, channel, switch, .. } = self.ethernet.cables[at as usize];
        let frame = &mut self.ethernet.frames[handle];
        let bytes = frame.bytes;
        let tail_ps = done_ps + link.latency_ps;
        (frame.tail_ps, frame.next) = (tail_ps, NONE);
        let cable = &mut self.ethernet.cables[at as usize];
        cable.sent_bytes += u64::from(bytes);
        cable.sent_count += 1;
        if self.probe.watches() {
            let cable_count = u64::from(self.graph.link(channel.link()).spec.cable_count);
            let end_ps = self.now_ps + (done_ps - self.now_ps) / cable_count;
            self.probe.on_transmit(channel, self.now_ps, end_ps, bytes);
        }
        let end = &mut self.ethernet.cables[far as usize];
        let at_nic = end.switch == NONE;
        if at_nic && self.ethernet.tcp.is_none() {
            self.deliver_frame(handle, tail_ps);
            return;
        }
        self.counters.packet_hop_count += u64::from(switch != NONE && !at_nic);
        if end.coming_first == NONE {
            end.coming_first = handle;
        } else {
            self.ethernet.frames[end.coming_last].next = handle;
        }
        end.coming_last = handle;
        let arrives_ps = match (&mut self.ethernet.tcp, self.config.switching) {
            (Some(tcp), _) if at_nic => tcp.host_looks_ps(far, tail_ps),
            (_, Switching::CutThrough) => self.now_ps + link.latency_ps + link.flit_ps,
            (_, Switching::StoreAndForward) => tail_ps,
        };
        self.queue.push(arrives_ps, Class::Frame, far);
    }

    fn deliver_frame(&mut self, handle: u32, tail_ps: u64) {
        let Frame { injected_ps, is_last, message, .. } = self.ethernet.frames[handle];
        self.ethernet.frames.remove(handle);
        self.counters.delivered_packet_count += 1;
        self.counters.packet_latency_sum_ps += u128::from(tail_ps - injected_ps);
        if is_last {
            self.queue.push(tail_ps, Class::Delivered, message);
        }
    }

    /// The first frame on its way to a switch is there (cut-through: its head): it joins the queue of the
    /// cable by which it goes on.
    pub(super) fn on_frame(&mut self, at: u32) {
        let cable = &mut self.ethernet.cables[at as usize];
        let handle = cable.coming_first;
        let frame = self.ethernet.frames[handle];
        cable.coming_first = frame.next;
        if cable.switch == NONE {
            self.ethernet.frames.remove(handle);
            self.on_segment(&frame);
            return;
        }
        let out = self.way_on(at, &frame);
        let Some(asks) = self.enter_memory(at, out, frame.bytes) else {
            self.drop_frame(handle);
            return;
        };
        let cable = &mut self.ethernet.cables[out as usize];
        // The last byte must be there when a faster cable wants to send it.
        let transfer_ps = transfer_ps(frame.bytes.into(), cable.link.byte_time);
        let fed_ps = self.now_ps.max(frame.tail_ps.saturating_sub(transfer_ps));
        let ready_ps = fed_ps + self.pipeline_ps;
        let was_empty = cable.first == NONE;
        if was_empty {
            cable.first = handle;
        } else {
            self.ethernet.frames[cable.last].next = handle;
        }
        cable.last = handle;
        cable.queued_bytes += frame.bytes;
        let (free_ps, paused) = (cable.free_ps, cable.paused);
        self.ethernet.frames[handle] = Frame { ready_ps, next: NONE, input: at, ..frame };
        if was_empty && !paused {
            self.wake_cable(out, ready_ps.max(free_ps));
        }
        if asks {
            self.signal(at);
        }
    }

    /// A frame that came in by one cable and leaves by another takes memory. Whether the far end is now
    /// asked to pause; `None` if there is no room.
    fn enter_memory(&mut self, at: u32, out: u32, bytes: u32) -> Option<bool> {
        let when_full = self.ethernet.buffer?.when_full;
        let queued_bytes = u64::from(self.ethernet.cables[out as usize].queued_bytes);
        let cable = &mut self.ethernet.cables[at as usize];
        let mut asks = false;
        match when_full {
            WhenFull::Pause { on_bytes, .. } => {
                asks = cable.held_bytes + bytes > on_bytes && !cable.asked;
                cable.asked |= asks;
            }
            WhenFull::Drop { memory_bytes, queue_bytes, .. } => {
                let used_bytes = &mut self.ethernet.memory_bytes[cable.switch as usize];
                let bytes = u64::from(bytes);
                if *used_bytes + bytes > memory_bytes || queued_bytes + bytes > queue_bytes {
                    return None;
                }
                *used_bytes += bytes;
            }
        }
        cable.held_bytes += bytes;
        cable.held_max_bytes = cable.held_max_bytes.max(cable.held_bytes);
        Some(asks)
    }

    fn drop_frame(&mut self, handle: u32) {
        let carried = self.ethernet.frames[handle].message;
        self.ethernet.frames.remove(handle);
        self.counters.dropped_packet_count += 1;
        if let Some(tcp) = &mut self.ethernet.tcp {
            tcp.carried.remove(carried);
        }
    }

    /// The cable by which a frame leaves the switch that it has come into by `at`.
    fn way_on(&self, at: u32, frame: &Frame) -> u32 {
        let Cable { switch, .. } = self.ethernet.cables[at as usize];
        let to = &self.nics[frame.to_nic as usize];
        let out_port = if switch == to.switch {
            to.switch_port
        } else {
            // Only its virtual channel depends on where a packet has come by, and here are none.
            let hop = self.routing.next_hop(SwitchId(switch), None, SwitchId(to.switch), frame.flow);
            self.switch_firsts[switch as usize] + u32::from(hop.port)
        };
        self.ethernet.groups[out_port as usize].cable(frame.hash)
    }

    fn leave_memory(&mut self, input: u32, bytes: u32) {
        let cable = &mut self.ethernet.cables[input as usize];
        cable.held_bytes -= bytes;
        match self.ethernet.buffer.map(|buffer| buffer.when_full) {
            Some(WhenFull::Pause { off_bytes, .. }) if cable.asked && cable.held_bytes <= off_bytes => {
                cable.asked = false;
                self.signal(input);
            }
            Some(WhenFull::Drop { .. }) => {
                self.ethernet.memory_bytes[cable.switch as usize] -= u64::from(bytes);
            }
            _ => {}
        }
    }

    /// Sends a pause frame against the direction of an input: silence if there was none, or its end.
    fn signal(&mut self, input: u32) {
        let Cable { free_ps, link, far, .. } = self.ethernet.cables[input as usize];
        let starts_ps = free_ps.max(self.now_ps);
        let arrives_ps = starts_ps + transfer_ps(PAUSE_FRAME_BYTES, link.byte_time) + link.latency_ps;
        self.queue.push(arrives_ps, Class::Pause, far);
    }

    /// A pause frame has come. They alternate; if two come at once, the second undoes the first.
    pub(super) fn on_pause(&mut self, at: u32) {
        let cable = &mut self.ethernet.cables[at as usize];
        cable.paused = !cable.paused;
        let look_ps = cable.free_ps.max(self.now_ps);
        if !cable.paused {
            self.wake_cable(at, look_ps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{NoProbe, Tcp};
    use ayatori_fabric::graph::LinkSpec;
    use ayatori_fabric::routing::{Method, Routing};
    use ayatori_fabric::topology::{HostLayout, Mesh, Topology};

    /// 200 ps a byte.
    const LINK: LinkSpec =
        LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 1_000_000, cable_count: 1 };
    const PAUSE: WhenFull = WhenFull::Pause { on_bytes: 3_000, off_bytes: 1_000 };

    /// Two switches, a host at each.
    fn network(when_full: WhenFull) -> Network {
        let topology = Topology::Mesh(Mesh { extents: vec![2] });
        let hosts = HostLayout { per_switch_count: 1, nic_count: 1, link: LINK };
        let graph = topology.build_with_hosts(LINK, hosts).unwrap();
        let routing = Routing::new(Method::usual_for(&topology), &topology, &graph).unwrap();
        let queueing = Queueing::Output(SharedBuffer { when_full, lag_hash: LagHash::Addresses });
        let config = Config { queueing, vc_count: 1, ..Config::nsim() };
        Network::with_probe(graph, routing, config, NoProbe).unwrap()
    }

    /// A switch's end of a NIC's cable, and of another one.
    fn ends(network: &Network) -> (u32, u32) {
        let nic = network.nics[0].port as usize;
        let at = network.ethernet.cables[network.ethernet.groups[nic].cable(0) as usize].far;
        let switch = network.ethernet.cables[at as usize].switch;
        let is_other = |&out: &usize| out as u32 != at && network.ethernet.cables[out].switch == switch;
        let out = (0..network.ethernet.cables.len()).find(is_other).unwrap();
        (at, out as u32)
    }

    #[test]
    fn memory_is_full_above_its_limit_and_not_at_it() {
        let mut network = self::network(PAUSE);
        let (at, out) = ends(&network);
        assert_eq!(network.enter_memory(at, out, 3_000), Some(false));
        assert_eq!([1, 1].map(|bytes| network.enter_memory(at, out, bytes)), [Some(true), Some(false)]);
        let tcp = Tcp::default();
        let mut network = self::network(WhenFull::Drop { memory_bytes: 3_000, queue_bytes: 9_000, tcp });
        assert_eq!([3_000, 1].map(|bytes| network.enter_memory(at, out, bytes)), [Some(false), None]);
    }

    #[test]
    fn a_pause_frame_waits_for_the_frame_before_it() {
        let mut network = network(PAUSE);
        let (at, _) = ends(&network);
        let far = network.ethernet.cables[at as usize].far;
        network.ethernet.cables[at as usize].free_ps = 5_000;
        for (now_ps, starts_ps) in [(1_000, 5_000), (9_000, 9_000)] {
            network.now_ps = now_ps;
            network.signal(at);
            let event = network.queue.pop().unwrap();
            // 84 B at 200 ps, and the cable.
            let expected = (starts_ps + 16_800 + 1_000_000, Class::Pause, far);
            assert_eq!((event.time_ps, event.class, event.entity), expected);
        }
    }

    /// Each of two cables waits for the other.
    #[test]
    fn the_circle_begins_with_its_first_cable() {
        let mut network = network(PAUSE);
        let ethernet = &mut network.ethernet;
        for (at, other) in [(0, 1), (1, 0)] {
            let frame = Frame {
                ready_ps: 0,
                injected_ps: 0,
                tail_ps: 0,
                next: NONE,
                message: 0,
                to_nic: 0,
                flow: 0,
                bytes: 100,
                hash: 0,
                input: ethernet.cables[other as usize].far,
                is_last: true,
            };
            ethernet.cables[at as usize].first = ethernet.frames.insert(frame);
            ethernet.cables[at as usize].paused = true;
        }
        assert_eq!(ethernet.circle(), [0, 1]);
    }

    #[test]
    fn whatever_a_cable_keeps_is_left_over() {
        let changes: [fn(&mut Cable); 5] = [
            |cable| cable.held_bytes = 1,
            |cable| cable.first = 0,
            |cable| cable.paused = true,
            |cable| cable.asked = true,
            |cable| cable.coming_first = 0,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut network = network(PAUSE);
            assert!(network.ethernet.leftover().is_none());
            change(&mut network.ethernet.cables[1]);
            assert!(network.ethernet.leftover().is_some(), "{index}");
        }
    }
}
