//! Packets on their way between memory and links, through the stages of NICs ([`crate::host`]).
//!
//! A flight is cut into *segments*, each the payload of one packet of the network. A NIC takes up the
//! segments of what it has to send in turn, as far as its buffer has room, and the next one once the one
//! before has begun its first stage. So there is one event for each stage that a packet takes, and one more
//! where it had to wait.

use std::collections::VecDeque;
use std::rc::Rc;

use super::fabric::{Cargo, Fabric, Flight, token_of};
use super::{Config, UnitUsage};
use crate::host::{Direction, Host, Model, Stage};
use crate::network::{Gap, Message, flow_of};
use crate::slab::Slab;

/// Of a message's token: it is a segment, not a flight.
pub(super) const SEGMENT: u32 = 1 << 31;

#[derive(Debug, Clone, Copy)]
struct Segment {
    flight: u32,
    host: u32,
    stage: Stage,
    bytes: u32,
    /// Where its data are in the sender's memory, from the beginning of the flight.
    offset: u64,
    /// The memory that they are in.
    node: u16,
}

/// What a NIC has to send.
#[derive(Debug, Clone, Default)]
struct Port {
    flights: VecDeque<u32>,
    room_bytes: u64,
    /// A segment waits for the first stage.
    is_waiting: bool,
}

/// All hosts' hardware.
#[derive(Debug)]
pub(super) struct Hardware {
    model: Rc<Model>,
    hosts: Vec<Host>,
    segments: Slab<Segment>,
    /// Segments that wait for a unit, by host, then unit.
    waiting: Vec<VecDeque<u32>>,
    /// Whether a timer is set for when such a unit is free.
    is_timed: Vec<bool>,
    unit_count: usize,
    /// By host, then NIC.
    ports: Vec<Port>,
}

impl Hardware {
    pub(super) fn new(config: &Config, host_count: usize) -> Option<Hardware> {
        let model = config.hardware.clone()?;
        let hosts = vec![Host::new(&model); host_count];
        let unit_count = hosts.first().map_or(0, Host::unit_count);
        let port = |nic: usize| Port { room_bytes: model.nics[nic].buffer_bytes, ..Port::default() };
        let ports = (0..host_count).flat_map(|_| (0..model.nics.len()).map(port)).collect();
        Some(Hardware {
            waiting: vec![VecDeque::new(); host_count * unit_count],
            is_timed: vec![false; host_count * unit_count],
            segments: Slab::default(),
            unit_count,
            hosts,
            ports,
            model,
        })
    }

    pub(super) fn usage(&self) -> Vec<UnitUsage> {
        let of_host = |(host, state): (usize, &Host)| {
            let unit =
                |(name, busy_ps): (&str, u64)| UnitUsage { host: host as u32, name: name.into(), busy_ps };
            state.usage().map(unit).collect::<Vec<_>>()
        };
        self.hosts.iter().enumerate().flat_map(of_host).collect()
    }
}

impl Fabric {
    /// Whether a flight takes the stages of NICs. That a put has been done is a word from NIC to NIC.
    pub(super) fn takes_stages(&self, cargo: &Cargo) -> bool {
        self.hardware.is_some() && !matches!(cargo, Cargo::PutDone(..))
    }

    /// Gives a flight to its NIC.
    pub(super) fn queue_at_nic(&mut self, flight: u32) {
        let (from, rail) = (self.flights[flight].from, self.flights[flight].rail);
        let port = self.port_of(from, rail);
        let bytes = self.flights[flight].bytes();
        self.flights[flight].unsent_bytes = bytes;
        self.flights[flight].unfinished_count = self.network.config().packet_count(bytes) as u32;
        let Some(hardware) = &mut self.hardware else { return };
        hardware.ports[port].flights.push_back(flight);
        self.issue(port);
    }

    /// Index of the NIC that a rank's rail uses in `Hardware::ports`.
    fn port_of(&self, rank: u32, rail: u8) -> usize {
        let host = self.host_of(rank);
        let nic = self.nic_of(rank, u16::from(rail) - 1).0 - self.first_nic_of(host);
        let nic_count = self.hardware.as_ref().map_or(1, |hardware| hardware.model.nics.len());
        host as usize * nic_count + nic as usize
    }

    /// Takes up segments of what a NIC has to send, until one waits for the first stage or the buffer is
    /// full.
    fn issue(&mut self, port: usize) {
        loop {
            let payload_max = u64::from(self.network.config().payload_max_bytes());
            let Some(hardware) = &mut self.hardware else { return };
            let nic_count = hardware.model.nics.len();
            let (host, nic) = (port / nic_count, port % nic_count);
            let Port { flights, room_bytes, is_waiting } = &mut hardware.ports[port];
            let Some(&handle) = flights.front() else { return };
            let flight = &mut self.flights[handle];
            let bytes = flight.unsent_bytes.min(payload_max);
            let is_empty = *room_bytes == hardware.model.nics[nic].buffer_bytes;
            if *is_waiting || (bytes > *room_bytes && !is_empty) {
                return;
            }
            *room_bytes = room_bytes.wrapping_sub(bytes);
            let offset = flight.bytes() - flight.unsent_bytes;
            flight.unsent_bytes -= bytes;
            let is_last = flight.unsent_bytes == 0;
            flights.rotate_left(1);
            if is_last {
                flights.pop_back();
            }
            let from = flight.from;
            let node = self.node_of(from, handle, offset);
            let stage =
                Stage { nic: nic as u16, direction: Direction::Send, index: 0, is_first: offset == 0 };
            let segment =
                Segment { flight: handle, host: host as u32, stage, bytes: bytes as u32, offset, node };
            if let Some(hardware) = &mut self.hardware {
                let segment = hardware.segments.insert(segment);
                self.enter(segment);
            }
            if is_last {
                self.on_injected(handle);
            }
        }
    }

    /// The node that a process runs on.
    fn process_node(&self, rank: u32) -> u16 {
        let node_count = self.hardware.as_ref().map_or(1, |hardware| hardware.model.node_count);
        let own = self.config.processes_per_host.max(1);
        (u64::from(rank % own) * u64::from(node_count) / u64::from(own)) as u16
    }

    /// What work of a process takes that takes `own_ps` on an idle memory, begins at `from_ps` and moves so
    /// many bytes through the memory of the node that the process runs on.
    pub(super) fn through_memory(&mut self, rank: u32, from_ps: u64, own_ps: u64, bytes: u64) -> u64 {
        let (host, node, now_ps) = (self.host_of(rank), self.process_node(rank), self.network.now_ps());
        let Some(Hardware { model, hosts, .. }) = &mut self.hardware else { return own_ps };
        hosts[host as usize].copy_ps(model, (bytes, node), (now_ps, from_ps), own_ps)
    }

    /// A transfer within a host sets off. When the memories that it is from and to are done with it: it goes
    /// at the rate of one, and takes that of each.
    pub(super) fn transfer_within(&mut self, handle: u32) -> u64 {
        let Flight { from, to, .. } = self.flights[handle];
        let (bytes, now_ps) = (self.flights[handle].bytes(), self.network.now_ps());
        let nodes = [from, to].map(|rank| self.node_of(rank, handle, 0));
        let host = self.host_of(from);
        let Some(Hardware { model, hosts, .. }) = &mut self.hardware else { return now_ps };
        let mut of_node = |node| hosts[host as usize].within(model, (bytes, node), now_ps);
        let end_ps = of_node(nodes[0]);
        if nodes[1] == nodes[0] { end_ps } else { end_ps.max(of_node(nodes[1])) }
    }

    /// The memory that data of a flight are in, at the side of `rank`.
    fn node_of(&self, rank: u32, flight: u32, offset: u64) -> u16 {
        let placed = self.config.memory_nodes.get(rank as usize).filter(|nodes| !nodes.is_empty());
        let (Some(nodes), Some(access)) = (placed, self.flights[flight].access()) else {
            return self.process_node(rank);
        };
        let whole = self.registered_len(access.remote).map_or(1, |len| len.max(1)) as u64;
        let at = (access.remote.offset + offset).min(whole - 1);
        nodes[(u128::from(at) * nodes.len() as u128 / u128::from(whole)) as usize]
    }

    /// A segment comes to a stage.
    fn enter(&mut self, handle: u32) {
        let now_ps = self.network.now_ps();
        let Some(hardware) = &mut self.hardware else { return };
        let Segment { host, stage, .. } = hardware.segments[handle];
        let unit = hardware.hosts[host as usize].unit_of(stage);
        let line = host as usize * hardware.unit_count + unit as usize;
        let free_ps = hardware.hosts[host as usize].unit_free_ps(unit);
        if hardware.waiting[line].is_empty() && free_ps <= now_ps {
            self.begin(handle);
            return;
        }
        hardware.waiting[line].push_back(handle);
        if stage.direction == Direction::Send && stage.index == 0 {
            let port = host as usize * hardware.model.nics.len() + usize::from(stage.nic);
            hardware.ports[port].is_waiting = true;
        }
        if !std::mem::replace(&mut hardware.is_timed[line], true) {
            self.network.set_timer(free_ps, token_of(super::fabric::FREE, line as u32));
        }
    }

    /// A unit takes up a segment.
    fn begin(&mut self, handle: u32) {
        let now_ps = self.network.now_ps();
        let Some(hardware) = &mut self.hardware else { return };
        let Segment { host, stage, bytes, node, .. } = hardware.segments[handle];
        let what = (u64::from(bytes), node);
        let begun = hardware.hosts[host as usize].begin(&hardware.model, stage, what, now_ps);
        self.network.set_timer(begun.done_ps, token_of(super::fabric::STAGE, handle));
    }

    /// A unit may have a free server for those that wait.
    pub(super) fn on_unit_free(&mut self, line: u32) {
        let now_ps = self.network.now_ps();
        if let Some(hardware) = &mut self.hardware {
            hardware.is_timed[line as usize] = false;
        }
        loop {
            let Some(hardware) = &mut self.hardware else { return };
            let (host, unit) = (line as usize / hardware.unit_count, line as usize % hardware.unit_count);
            let Some(&handle) = hardware.waiting[line as usize].front() else { return };
            let free_ps = hardware.hosts[host].unit_free_ps(unit as u32);
            if free_ps > now_ps {
                if !std::mem::replace(&mut hardware.is_timed[line as usize], true) {
                    self.network.set_timer(free_ps, token_of(super::fabric::FREE, line));
                }
                return;
            }
            hardware.waiting[line as usize].pop_front();
            let stage = hardware.segments[handle].stage;
            self.begin(handle);
            if stage.direction == Direction::Send && stage.index == 0 {
                let Some(hardware) = &mut self.hardware else { return };
                let port = host * hardware.model.nics.len() + usize::from(stage.nic);
                hardware.ports[port].is_waiting = false;
                self.issue(port);
            }
        }
    }

    /// A segment has been through a stage.
    pub(super) fn on_stage_done(&mut self, handle: u32) {
        let Some(hardware) = &mut self.hardware else { return };
        let segment = &mut hardware.segments[handle];
        let Stage { nic, direction, index, .. } = segment.stage;
        let stage_count = hardware.model.stages(usize::from(nic), direction).len();
        if usize::from(index) + 1 < stage_count {
            segment.stage.index += 1;
            self.enter(handle);
        } else if direction == Direction::Send {
            self.transmit(handle);
        } else {
            self.finish(handle);
        }
    }

    fn transmit(&mut self, handle: u32) {
        let Some(hardware) = &self.hardware else { return };
        let Segment { flight, bytes, .. } = hardware.segments[handle];
        let (from, to, rail) = {
            let flight = &self.flights[flight];
            (flight.from, flight.to, u16::from(flight.rail) - 1)
        };
        let is_packet = self.flights[flight].cargo.is_packet();
        let gap = if is_packet { Gap::NONE } else { self.gap_of(from, to) };
        self.network.send(Message {
            from: self.nic_of(from, rail),
            to: self.nic_of(to, rail),
            bytes: bytes.into(),
            gap,
            flow: flow_of(from, to),
            token: SEGMENT | handle,
            notify_injected: true,
        });
    }

    /// A segment has left its NIC, which has room for another.
    pub(super) fn on_segment_injected(&mut self, handle: u32) {
        let Some(hardware) = &mut self.hardware else { return };
        let Segment { host, stage, bytes, .. } = hardware.segments[handle];
        let port = host as usize * hardware.model.nics.len() + usize::from(stage.nic);
        let room_bytes = &mut hardware.ports[port].room_bytes;
        *room_bytes = room_bytes.wrapping_add(bytes.into());
        self.issue(port);
    }

    /// A segment has arrived at the other NIC.
    pub(super) fn on_segment_delivered(&mut self, handle: u32) {
        let Some(hardware) = &self.hardware else { return };
        let Segment { flight, stage, offset, .. } = hardware.segments[handle];
        let (to, rail) = (self.flights[flight].to, self.flights[flight].rail);
        if matches!(self.flights[flight].cargo, Cargo::GetRequest(_)) {
            self.finish(handle);
            return;
        }
        let node = self.node_of(to, flight, offset);
        let (host, port) = (self.host_of(to), self.port_of(to, rail));
        let Some(hardware) = &mut self.hardware else { return };
        let nic = (port % hardware.model.nics.len()) as u16;
        let segment = &mut hardware.segments[handle];
        (segment.host, segment.node) = (host, node);
        segment.stage = Stage { nic, direction: Direction::Receive, index: 0, ..stage };
        self.enter(handle);
    }

    /// A segment is where it was to go.
    fn finish(&mut self, handle: u32) {
        let Some(hardware) = &mut self.hardware else { return };
        let flight = hardware.segments[handle].flight;
        hardware.segments.remove(handle);
        let unfinished_count = &mut self.flights[flight].unfinished_count;
        *unfinished_count -= 1;
        if *unfinished_count == 0 {
            self.arrive(flight);
        }
    }
}
