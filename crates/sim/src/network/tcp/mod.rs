//! TCP between NICs, for Ethernet switches that drop frames (see `ethernet`): what a message becomes, and
//! when.
//!
//! The messages between two NICs with the same [`Message::flow`](super::Message) are one connection, which
//! has been open since before the simulation begins. It is two streams, one a direction; a message is cut
//! into segments of its own. A NIC sends a segment of each stream that may send in turn, and an
//! acknowledgement takes the place of a segment without payload when nothing else goes that way. A message
//! has arrived when all segments up to its last are there.
//!
//! `stream` has the rules and where they come from. Not modelled: opening and closing, checksums that
//! fail, windows that receivers close, several segments handed to a NIC at once (offload), gaps behind
//! segments that are sent again, segments that overtake each other, CUBIC.

mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use stream::{Ack, Next, Stream, Taken};

use super::ethernet::{Frame, hash_of};
use super::{LagHash, Message, MessageQueue, Network, NicId, Probe, Tcp, transfer_ps};
use crate::queue::Class;
use crate::slab::{NONE, Slab};
use ayatori_random::Random;

/// What a frame of TCP carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    stream: u32,
    /// `NONE`: an acknowledgement only.
    number: u32,
    /// Of the connection's other stream.
    ack: Ack,
}

/// A stream and its place in the network.
#[derive(Debug)]
struct Placed {
    stream: Stream,
    /// Not all of which has been sent.
    unsent: MessageQueue,
    from: NicId,
    to: NicId,
    hash: u32,
    /// The NIC's cable that it leaves by.
    cable: u32,
    /// An acknowledgement of the other stream waits to be sent.
    ack_due: bool,
    /// In its cable's queue, and who is behind it there.
    is_queued: bool,
    behind: u32,
    /// The pending events of the timers, `u64::MAX` if none.
    timer_ps: u64,
    ack_timer_ps: u64,
}

/// Streams that may send over a cable.
#[derive(Debug, Clone, Copy)]
struct Turn {
    head: u32,
    tail: u32,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    rules: Tcp,
    window_max_count: u32,
    lag_hash: LagHash,
    /// Two a connection, next to each other.
    streams: Vec<Placed>,
    /// The first stream of a connection, by its lower NIC, higher NIC and flow.
    by_ends: BTreeMap<(u32, u32, u32), u32>,
    /// By cable.
    turns: Vec<Turn>,
    /// By NIC: messages not all of which has been sent.
    unsent_counts: Vec<u32>,
    /// By cable: when its host has looked at the last frame.
    looked_ps: Vec<u64>,
    jitter: Random,
    pub(super) carried: Slab<Carried>,
}

impl Connections {
    pub(super) fn new(
        rules: Tcp,
        payload_max_bytes: u32,
        lag_hash: LagHash,
        (cable_count, nic_count): (usize, usize),
    ) -> Connections {
        Connections {
            rules,
            window_max_count: (rules.window_max_bytes / payload_max_bytes).max(2),
            lag_hash,
            streams: Vec::new(),
            by_ends: BTreeMap::new(),
            turns: vec![Turn { head: NONE, tail: NONE }; cable_count],
            unsent_counts: vec![0; nic_count],
            looked_ps: vec![0; cable_count],
            jitter: Random::new(1),
            carried: Slab::default(),
        }
    }

    /// When a host looks at a frame that has arrived by a cable of its at `tail_ps`: in order.
    pub(super) fn host_looks_ps(&mut self, cable: u32, tail_ps: u64) -> u64 {
        let looked_ps = &mut self.looked_ps[cable as usize];
        let late_ps = self.jitter.below(self.rules.jitter_ps + 1);
        *looked_ps = (tail_ps + late_ps).max(*looked_ps);
        *looked_ps
    }

    /// The stream that a message goes by, if there is one.
    fn stream_of(&self, message: &Message) -> Option<u32> {
        let Message { from, to, flow, .. } = *message;
        let first = self.by_ends.get(&(from.0.min(to.0), from.0.max(to.0), flow))?;
        Some(first + u32::from(from > to))
    }

    /// Both streams of a connection. `cable` names a NIC's cable for a hash.
    fn connect(&mut self, message: &Message, round_trip_ps: u64, cable: impl Fn(NicId, u32) -> u32) {
        let Message { from, to, flow, .. } = *message;
        let (low, high) = (from.0.min(to.0), from.0.max(to.0));
        let hash = hash_of(message, self.lag_hash);
        self.by_ends.insert((low, high, flow), self.streams.len() as u32);
        for (from, to) in [(low, high), (high, low)] {
            self.streams.push(Placed {
                stream: Stream::new(self.rules, self.window_max_count, round_trip_ps),
                unsent: MessageQueue::EMPTY,
                from: NicId(from),
                to: NicId(to),
                hash,
                cable: cable(NicId(from), hash),
                ack_due: false,
                is_queued: false,
                behind: NONE,
                timer_ps: u64::MAX,
                ack_timer_ps: u64::MAX,
            });
        }
    }

    /// Whether a cable has something to send.
    pub(super) fn has_turn(&self, cable: u32) -> bool {
        self.turns[cable as usize].head != NONE
    }

    /// Whether nothing that a NIC was given waits to be sent for the first time.
    pub(super) fn is_idle(&self, nic: NicId) -> bool {
        self.unsent_counts[nic.0 as usize] == 0
    }

    fn queue(&mut self, at: u32) {
        let Placed { cable, .. } = self.streams[at as usize];
        self.streams[at as usize].is_queued = true;
        self.streams[at as usize].behind = NONE;
        let turn = &mut self.turns[cable as usize];
        let before = std::mem::replace(&mut turn.tail, at);
        if before == NONE {
            turn.head = at;
        } else {
            self.streams[before as usize].behind = at;
        }
    }

    /// Takes the stream whose turn it is.
    fn take_turn(&mut self, cable: u32) -> Option<u32> {
        let turn = &mut self.turns[cable as usize];
        let at = turn.head;
        let placed = self.streams.get_mut(at as usize)?;
        turn.head = placed.behind;
        if turn.head == NONE {
            turn.tail = NONE;
        }
        placed.is_queued = false;
        Some(at)
    }

    /// The first stream that is not as it was before any traffic; or what frames carried that are gone.
    pub(super) fn leftover(&self) -> Option<String> {
        let carried_count = self.carried.len();
        let left =
            |placed: &&Placed| !placed.stream.is_quiet() || placed.is_queued || !placed.unsent.is_empty();
        match self.streams.iter().find(left) {
            Some(Placed { from, to, stream, .. }) => {
                Some(format!("connection from NIC {} to NIC {}: {stream:?}", from.0, to.0))
            }
            None => (carried_count > 0).then(|| format!("{carried_count} segments of no frame")),
        }
    }
}

impl<P: Probe> Network<P> {
    /// Gives a message to its connection.
    pub(super) fn send_on_connection(&mut self, message: &Message, handle: u32) {
        let Some(tcp) = self.ethernet.tcp.as_deref() else { return };
        if tcp.stream_of(message).is_none() {
            self.connect(message);
        }
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let Some(at) = tcp.stream_of(message) else { return };
        let _ = tcp.streams[at as usize].unsent.push(&mut self.messages, handle);
        tcp.unsent_counts[message.from.0 as usize] += 1;
        self.queue_stream(at);
    }

    fn connect(&mut self, message: &Message) {
        let port = self.nics[message.from.0 as usize].port;
        let link = self.ethernet.cables[self.ethernet.groups[port as usize].cable(0) as usize].link;
        // What opening it has measured: shortest frames both ways while nothing else is going on, over
        // links as the NIC's.
        let link_count = 2 + self.path(message.from, message.to).map_or(0, |lanes| lanes.len() as u64);
        let frame_ps = transfer_ps(self.config.packet_bytes(0).into(), link.byte_time);
        let round_trip_ps =
            2 * (link_count * (frame_ps + link.latency_ps) + (link_count - 1) * self.pipeline_ps);
        let (nics, ethernet) = (&self.nics, &mut self.ethernet);
        let (Some(tcp), groups) = (ethernet.tcp.as_deref_mut(), &ethernet.groups) else { return };
        let cable = |nic: NicId, hash: u32| groups[nics[nic.0 as usize].port as usize].cable(hash);
        tcp.connect(message, round_trip_ps, cable);
    }

    /// A stream may have something to send: it gets its turn.
    fn queue_stream(&mut self, at: u32) {
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let placed = &mut tcp.streams[at as usize];
        let has_new = !placed.unsent.is_empty();
        if placed.is_queued || (!placed.ack_due && placed.stream.next(self.now_ps, has_new) == Next::Wait) {
            return;
        }
        let cable = placed.cable;
        let was_empty = !tcp.has_turn(cable);
        tcp.queue(at);
        if was_empty {
            let free_ps = self.ethernet.free_ps(cable);
            self.wake_cable(cable, free_ps.max(self.now_ps));
        }
    }

    /// A NIC's cable is free: a segment of the stream whose turn it is.
    pub(super) fn inject_segment(&mut self, cable: u32) {
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let Some(at) = tcp.take_turn(cable) else { return };
        let placed = &mut tcp.streams[at as usize];
        let next = placed.stream.next(self.now_ps, !placed.unsent.is_empty());
        let (mut payload, mut number, mut gap) = (0, NONE, 0);
        let link = self.ethernet.cables[cable as usize].link;
        match next {
            Next::Wait if !placed.ack_due => return self.inject_next(cable),
            Next::Wait => {}
            Next::Again(again) => {
                payload = placed.stream.send_again(self.now_ps, again);
                number = again;
                self.counters.resent_packet_count += 1;
            }
            Next::New => {
                let handle = placed.unsent.head;
                let state = &self.messages[handle];
                payload = state.unsent_bytes.min(self.config.payload_max_bytes().into()) as u32;
                let ends = if state.unsent_packets == 1 { handle } else { NONE };
                tcp.unsent_counts[placed.from.0 as usize] -= u32::from(ends != NONE);
                gap = u64::from(state.message.gap.milli_packets);
                let done_ps =
                    self.now_ps + transfer_ps(self.config.packet_bytes(payload).into(), link.byte_time);
                let order = super::NicOrder::Fifo;
                placed.unsent.take_packet(&mut self.messages, &mut self.queue, order, (payload, done_ps));
                number = placed.stream.send_new(self.now_ps, payload, ends);
                self.counters.injected_packet_count += 1;
            }
        }
        placed.ack_due = false;
        let Placed { from, to, hash, .. } = *placed;
        let ack = tcp.streams[(at ^ 1) as usize].stream.take_ack();
        let carried = tcp.carried.insert(Carried { stream: at, number, ack });
        self.watch_timer(at);
        let bytes = self.config.packet_bytes(payload);
        let done_ps = self.now_ps + transfer_ps(bytes.into(), link.byte_time);
        let frame = Frame {
            ready_ps: self.now_ps,
            injected_ps: self.now_ps,
            tail_ps: done_ps,
            next: NONE,
            message: carried,
            to_nic: to.0,
            flow: self.flow(from, to),
            bytes,
            hash,
            input: NONE,
            is_last: false,
        };
        let frame = self.ethernet.frames.insert(frame);
        self.ethernet.cables[cable as usize].free_ps = done_ps + (done_ps - self.now_ps) * gap / 1_000;
        self.put_on_cable(cable, frame, done_ps);
        self.queue_stream(at);
        self.inject_next(cable);
    }

    /// Looks again when the cable is free, if anybody waits for it.
    fn inject_next(&mut self, cable: u32) {
        if self.ethernet.tcp.as_deref().is_some_and(|tcp| tcp.has_turn(cable)) {
            let free_ps = self.ethernet.free_ps(cable);
            self.wake_cable(cable, free_ps.max(self.now_ps));
        }
    }

    /// A segment has arrived at its NIC.
    pub(super) fn on_segment(&mut self, frame: &Frame) {
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let Carried { stream: at, number, ack } = tcp.carried[frame.message];
        tcp.carried.remove(frame.message);
        let back = at ^ 1;
        tcp.streams[back as usize].stream.on_ack(self.now_ps, &ack);
        if number != NONE {
            let stream = &mut tcp.streams[at as usize].stream;
            let Taken { in_order: (first, end), ack_now } = stream.receive(number);
            for segment in (first..end).filter_map(|number| stream.segment(number)) {
                self.counters.delivered_packet_count += 1;
                self.counters.packet_latency_sum_ps += u128::from(self.now_ps - segment.first_sent_ps);
                if let Some(message) = segment.message() {
                    self.queue.push(self.now_ps, Class::Delivered, message);
                }
            }
            if ack_now {
                tcp.streams[back as usize].ack_due = true;
            } else if stream.ack_deadline_ps == u64::MAX {
                stream.ack_deadline_ps = self.now_ps + tcp.rules.ack_delay_ps;
            }
        }
        self.watch_timer(back);
        self.watch_ack_timer(at);
        self.queue_stream(back);
    }

    /// Sees to it that there is an event no later than the stream's timer runs out.
    fn watch_timer(&mut self, at: u32) {
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let placed = &mut tcp.streams[at as usize];
        if placed.stream.deadline_ps < placed.timer_ps {
            placed.timer_ps = placed.stream.deadline_ps;
            self.queue.push(placed.timer_ps, Class::Retransmission, at);
        }
    }

    fn watch_ack_timer(&mut self, at: u32) {
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let placed = &mut tcp.streams[at as usize];
        if placed.stream.ack_deadline_ps < placed.ack_timer_ps {
            placed.ack_timer_ps = placed.stream.ack_deadline_ps;
            self.queue.push(placed.ack_timer_ps, Class::DelayedAck, at);
        }
    }

    /// A stream's timer was to be looked at.
    pub(super) fn on_retransmission(&mut self, at: u32) {
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let placed = &mut tcp.streams[at as usize];
        if placed.timer_ps != self.now_ps {
            // An earlier event has taken this one's place.
            return;
        }
        placed.timer_ps = u64::MAX;
        if placed.stream.deadline_ps <= self.now_ps && placed.stream.on_deadline(self.now_ps) {
            self.counters.timeout_count += 1;
        }
        self.watch_timer(at);
        self.queue_stream(at);
    }

    /// A delayed acknowledgement was to be looked at.
    pub(super) fn on_delayed_ack(&mut self, at: u32) {
        let Some(tcp) = self.ethernet.tcp.as_deref_mut() else { return };
        let placed = &mut tcp.streams[at as usize];
        if placed.ack_timer_ps != self.now_ps {
            return;
        }
        placed.ack_timer_ps = u64::MAX;
        if placed.stream.ack_deadline_ps <= self.now_ps {
            tcp.streams[(at ^ 1) as usize].ack_due = true;
            self.queue_stream(at ^ 1);
        } else {
            self.watch_ack_timer(at);
        }
    }
}
