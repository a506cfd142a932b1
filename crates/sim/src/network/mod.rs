//! The packet network: routers with virtual channels and credits, links, NICs.
//!
//! Owns: packets from the moment a NIC is given a message until its last byte has arrived, and simulated
//! time. Deliberately absent: what a message means (the host layer above polls [`Network::advance`]), and
//! payload (a message is a length).
//!
//! # Model
//!
//! What follows is about routers with credits; Ethernet switches are another model (`ethernet`).
//!
//! Routers buffer at the input, one first-in-first-out queue for each virtual channel of each input port (a
//! *lane*), and every lane has its own way into the crossbar (or all lanes of a port one:
//! [`CrossbarInputs`]). An output port sends one packet at a time; among the lanes whose first packet wants
//! it, is ready and has room ahead, it takes the next in turn (round robin), or one of the channel whose turn
//! it is, or the one whose packet is the oldest ([`Arbitration`]). Room is counted by credits, for whole
//! packets (virtual cut-through); a credit travels back for the link's latency, beginning when the packet's
//! last byte has left the buffer. A NIC is cabled to its router by a link like any other, sends into virtual
//! channel class 0, and takes in whatever arrives.
//!
//! For a packet of `L` bytes whose first bit leaves for a router at time 0, over a link of latency `l` and
//! rate `r`, and with flits of `f` bytes:
//!
//! ```text
//!   head arrives    l + f / r                 the router now has the first flit
//!   tail arrives    l + L / r
//!   ready           head + RC + VA + SA + ST  (cut-through at equal rates; never so early that the next,
//!                                              faster link would run out of bytes;
//!                                              store-and-forward: tail + RC + VA + SA + ST)
//!   start           max(ready, previous packet of the lane gone, output free, its turn, credits there)
//! ```
//!
//! The pipeline stages of a packet that waits are done while it waits, so a saturated link has no gaps. With
//! [`Arbitration::ChannelFirst`] it is otherwise: RC and VA are done for the first packet of a lane only, and
//! a channel is allotted again (VA) when its packet has left. NICs then send into all channels and not only
//! those of class 0 ([`Message::flow`]).
//!
//! # Cost
//!
//! Nothing here happens per flit or cycle. A packet is put into the queue of the next router at the moment it
//! starts on the link, with the time at which it will be ready; an output port has one pending event, at the
//! earliest time at which it could send. So a packet-hop is one event where links are busy. A credit is
//! counted when it is sent, with the time at which it is back (`credits`); only a port found short of credits
//! is woken by one. A message of several packets is routed once, any other packet once for all hops that go
//! straight on (`way`). A large network is larger than the caches near the core, so what the next looks need
//! is prefetched. Most routers are narrow (at most 64 lanes and two channels): there a port without room
//! ahead is not looked at in vain, and a look is one function without calls (`narrow`). What is left of its
//! time are some 500 instructions and two or three branches that nothing could predict.
//!
//! # Order
//!
//! Everything that a router port does to another lies in the future by at least the *lookahead*: a link's
//! latency and a flit or credit; and within a router the shortest packet's time on a link, after which the
//! next packet of its lane asks for another port. So time is cut into slices no longer than that, and the
//! ports to be looked at within one are taken in any order, unsorted (`wheel`). Then the other events of the
//! slice follow (NICs, what the caller is told, timers), in order of time, class and entity (`queue`); what
//! they do to router ports is in a later slice too. The result is a function of the input alone, and the same
//! as if all had been done in order of time. With [`CrossbarInputs::PerPort`] outputs of a router do feel
//! each other at once, so slices are a picosecond long.

mod arbitrate;
mod build;
mod config;
mod credits;
mod ethernet;
mod inject;
mod narrow;
mod standstill;
mod tcp;
mod vlan;
mod watch;
mod way;

use ayatori_fabric::graph::{ChannelId, Graph, HostId, Port, SwitchId};
use ayatori_fabric::routing::{Routing, RoutingError};
use credits::Return;
use ethernet::Ethernet;

pub use config::{
    Arbitration, Config, CrossbarInputs, LagHash, NicOrder, Queueing, SharedBuffer, Switching, Tcp, WhenFull,
};
pub use ethernet::{cable_of, flow_of};
pub use standstill::Deadlock;
pub use vlan::VlanOf;
pub use watch::{Glimpse, Watch};
use way::Way;

use crate::queue::{Class, Queue};
use crate::slab::{NONE, Slab};
use crate::wheel::Wheel;

/// Most virtual channels of a link.
pub const VC_COUNT_MAX: u8 = 16;

/// A network interface, numbered host by host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicId(pub u32);

pub use ayatori_core::device::Gap;

/// What a NIC is asked to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The sending NIC.
    pub from: NicId,
    /// The receiving NIC.
    pub to: NicId,
    /// Payload; 0 sends one packet that is a header.
    pub bytes: u64,
    /// Silence of the sending NIC after each packet of this message.
    pub gap: Gap,
    /// The connection between the two NICs that it belongs to, as two port numbers of 16 bits: with the NICs
    /// it decides which cable of an aggregated link is taken. With [`Arbitration::ChannelFirst`] it decides
    /// the virtual channel from the NIC, so that messages of a connection stay in order; 0 stands for no
    /// connection, and such messages take the channels in turn.
    pub flow: u32,
    /// The caller's name for it.
    pub token: u32,
    /// Whether [`Occurrence::Injected`] is wanted.
    pub notify_injected: bool,
}

/// Something the caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurrence {
    /// The last byte of a message has left its NIC.
    Injected {
        /// The message's token.
        token: u32,
    },
    /// The last byte of a message has arrived.
    Delivered {
        /// The message's token.
        token: u32,
        /// The NIC that sent it.
        from: NicId,
        /// The NIC it arrived at.
        to: NicId,
    },
    /// A time asked for with [`Network::set_timer`] has come.
    Timer {
        /// The timer's token.
        token: u32,
    },
}

/// Why a network cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Numbers that cannot work together.
    #[error("network: {0}")]
    Config(String),
    /// The routing does not fit the graph.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// More virtual channels are needed.
    #[error("the routing needs a multiple of {needed} virtual channels, the network has {available}")]
    VirtualChannels {
        /// Classes of the routing.
        needed: u8,
        /// Virtual channels configured.
        available: u8,
    },
    /// A host without a cable to a switch.
    #[error("NIC {nic} of host {host} is not cabled to a switch: the simulator needs one there")]
    NotCabled {
        /// Name of the host.
        host: String,
        /// Its NIC.
        nic: Port,
    },
    /// Too large to number.
    #[error("{0} ports are more than a simulated network can number")]
    TooLarge(usize),
}

/// Watches the network, for traces. All methods do nothing unless implemented; with [`NoProbe`] they cost
/// nothing. Transmissions of different channels are told out of order, by less than the network's least
/// latency.
pub trait Probe {
    /// Whether transmissions are to be told at all.
    fn watches(&self) -> bool {
        true
    }
    /// A packet of `bytes` occupies `channel` from `start_ps` to `end_ps`; of an Ethernet link of several
    /// cables it occupies one, which is told as that part of the time.
    fn on_transmit(&mut self, _channel: ChannelId, _start_ps: u64, _end_ps: u64, _bytes: u32) {}
    /// A message was given to its NIC.
    fn on_send(&mut self, _time_ps: u64, _handle: u32, _message: &Message) {}
    /// A message has arrived.
    fn on_delivered(&mut self, _time_ps: u64, _handle: u32, _message: &Message) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline]
    fn watches(&self) -> bool {
        false
    }
}

/// Watches if there is one.
impl<P: Probe> Probe for Option<P> {
    #[inline]
    fn watches(&self) -> bool {
        self.is_some()
    }

    #[inline]
    fn on_transmit(&mut self, channel: ChannelId, start_ps: u64, end_ps: u64, bytes: u32) {
        if let Some(probe) = self {
            probe.on_transmit(channel, start_ps, end_ps, bytes);
        }
    }

    fn on_send(&mut self, time_ps: u64, handle: u32, message: &Message) {
        if let Some(probe) = self {
            probe.on_send(time_ps, handle, message);
        }
    }

    fn on_delivered(&mut self, time_ps: u64, handle: u32, message: &Message) {
        if let Some(probe) = self {
            probe.on_delivered(time_ps, handle, message);
        }
    }
}

/// Rate and latency of links; all links that are alike share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LinkClass {
    /// Transfer time of a byte, in ps times 2^20.
    byte_time: u64,
    latency_ps: u64,
    /// Transfer time of a flit.
    flit_ps: u64,
}

impl LinkClass {
    fn of(rate_bits_per_s: u64, latency_ps: u64, config: &Config) -> LinkClass {
        // 8 bits a byte, 10^12 ps a second, rounded to the nearest.
        let rate = u128::from(rate_bits_per_s);
        let byte_time = (((8_000_000_000_000_u128 << build::BYTE_TIME_BITS) + rate / 2) / rate) as u64;
        LinkClass { byte_time, latency_ps, flit_ps: transfer_ps(config.flit_bytes.into(), byte_time) }
    }
}

/// A port of a router or a NIC: its output, and what is fixed about its input. One cache line.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct PortState {
    /// When the output has sent what it is sending.
    free_ps: u64,
    /// The pending look, `u64::MAX` if none.
    wake_ps: u64,
    /// The router's lanes that want this output, a bit each. Of narrow routers ([`Network::narrow`]) by
    /// virtual channel; of others all in the first, from the 65th on in `Network::more_requests`.
    requests: [u64; 2],
    /// Bytes sent.
    sent_bytes: u64,
    /// Time that packets sent here had been ready and waited.
    waited_ps: u64,
    /// The port at the other end; `NONE` if nothing is plugged in.
    far: u32,
    /// First port of this router; the port itself for a NIC.
    first: u32,
    /// Packets sent.
    sent_count: u32,
    /// Round robin begins with this lane of the router; of narrow routers [`narrow::Turns`].
    turn: u16,
    /// Index of the [`LinkClass`].
    link: u16,
}

/// A virtual channel of an input port: the queue in front of the crossbar, and (used by the far output) its
/// credits. One cache line, with all that a packet entering needs to know about where it is.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct LaneState {
    /// The first packet may start, as far as this lane is concerned; while the queue is empty, the time at
    /// which the last one is gone.
    ready_ps: u64,
    /// When the last credit sent to the feeder is back there.
    return_ps: u64,
    /// What it is worth.
    return_bytes: u32,
    /// The same of the credit before it: its time as what it comes earlier.
    earlier_bytes: u32,
    earlier_by_ps: u32,
    /// The last of the credits on their way before that, in a ring.
    returns_tail: u32,
    head: u32,
    tail: u32,
    /// Length of the first packet.
    head_bytes: u32,
    /// The lane that the first packet goes to; `NONE` if that is a NIC.
    head_target: u32,
    /// Free room, counting the two credits above as if they were back.
    credit_bytes: u32,
    /// The router's first port.
    first: u32,
    /// Place among the router's lanes, and the router's port where the lane ends.
    index: u16,
    port: u16,
    /// Index of the [`LinkClass`] of the link that feeds the lane.
    link: u16,
    vc: u8,
    /// [`FROM_NIC`] and [`STARVED`]: the cache line has one byte left.
    flags: u8,
}

/// The link that feeds a lane comes from a NIC.
const FROM_NIC: u8 = 1;
/// The port that feeds a lane waits for a credit that is not yet on its way.
const STARVED: u8 = 2;

const _: () = assert!(size_of::<LaneState>() == 64 && size_of::<PortState>() == 64);

/// A packet in a lane. Half a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Packet {
    ready_ps: u64,
    way: Way,
    next: u32,
    message: u32,
    bytes: u32,
    /// The last of its message to leave, and so, on the same way through the same queues, the last to arrive.
    is_last: bool,
}

const _: () = assert!(size_of::<Packet>() == 32);

/// A message under way. One cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct MessageState {
    message: Message,
    unsent_bytes: u64,
    unsent_packets: u64,
    /// From the first router on; unknown if it has too few packets to be worth it.
    way: Way,
    /// The next message of the same NIC.
    next: u32,
    /// The virtual channel in which it leaves its NIC.
    vc: u8,
}

/// What a NIC has to send.
#[derive(Debug, Clone, Copy)]
struct NicState {
    /// Index into ports.
    port: u32,
    switch: u32,
    /// The router's port for this NIC.
    switch_port: u32,
    waiting: MessageQueue,
    /// The virtual channel of the next message without a connection.
    turn: u8,
}

/// The messages that a NIC has to send, through [`MessageState::next`].
#[derive(Debug, Clone, Copy)]
struct MessageQueue {
    head: u32,
    tail: u32,
}

impl MessageQueue {
    const EMPTY: MessageQueue = MessageQueue { head: NONE, tail: NONE };

    fn is_empty(self) -> bool {
        self.head == NONE
    }
}

/// Counters of the whole network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events handled.
    pub event_count: u64,
    /// Packets sent from router to router.
    pub packet_hop_count: u64,
    /// Packets of the messages given to NICs.
    pub given_packet_count: u64,
    /// Packets that left a NIC.
    pub injected_packet_count: u64,
    /// Packets that arrived at a NIC.
    pub delivered_packet_count: u64,
    /// Sum over delivered packets of the time from leaving the NIC to complete arrival, ps.
    pub packet_latency_sum_ps: u128,
    /// Messages that arrived.
    pub delivered_message_count: u64,
    /// Payload that arrived.
    pub delivered_bytes: u64,
    /// Frames that switches had no room for.
    pub dropped_packet_count: u64,
    /// Segments that TCP sent once more.
    pub resent_packet_count: u64,
    /// Times that TCP's retransmission timer ran out.
    pub timeout_count: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Network<P: Probe = NoProbe> {
    config: Config,
    graph: Graph,
    routing: Routing,
    /// Which VLAN frames are on.
    vlan_of: Option<VlanOf>,
    pipeline_ps: u64,
    /// Virtual channels of each class of the routing.
    vcs_per_class: u8,
    now_ps: u64,
    /// Looks at router ports.
    wheel: Wheel,
    /// All other events.
    queue: Queue,
    /// The ports from here on are NICs.
    first_nic_port: u32,
    ports: Vec<PortState>,
    links: Vec<LinkClass>,
    /// For routers with more than 64 lanes: `more_words` more words of requests for each port.
    more_requests: Vec<u64>,
    more_words: usize,
    /// With [`CrossbarInputs::PerPort`]: when each port has passed on the packet that it is passing on. Empty
    /// otherwise.
    input_free_ps: Vec<u64>,
    /// With [`Arbitration::ChannelFirst`]: for each port the lane that each channel begins with, and the
    /// channel that the port begins with. Empty otherwise.
    channel_turns: Vec<u16>,
    /// With [`Arbitration::ChannelFirst`]: when each channel of each port can be allotted again. Empty
    /// otherwise.
    channel_free_ps: Vec<u64>,
    /// From the end of a packet to the earliest start of the next one of the same lane: with
    /// [`Arbitration::ChannelFirst`] RC and VA, which are done for the first packet of a lane only.
    lane_restart_ps: u64,
    /// From the end of a packet to the earliest start of the next one by the same channel of a link, in
    /// narrow routers: with [`Arbitration::ChannelFirst`] VA.
    channel_restart_ps: u64,
    /// The virtual channels of a link take turns ([`Arbitration::ChannelFirst`]).
    by_channel: bool,
    /// All routers are *narrow*: of at most 64 lanes and two channels, and the rules are those of most
    /// machines. Looks are cheaper then, and their outcome the same.
    narrow: bool,
    /// The routing is asked at every hop, and no way kept: for tests.
    routes_every_hop: bool,
    /// Cut-through at one rate everywhere: a packet is ready when its head is there.
    same_rates: bool,
    /// The shortest packet there can be.
    shortest_bytes: u32,
    /// Indexed by port and virtual channel.
    lanes: Vec<LaneState>,
    returns: Slab<Return>,
    packets: Slab<Packet>,
    /// Found for the next looks by [`Network::touch_ahead`]: lanes and, behind them, ports.
    lanes_ahead: [u32; arbitrate::AHEAD_COUNT],
    /// NICs seen by `touch_nics_ahead`: the last one behind this place, those before it behind that.
    nics_ahead: [u32; inject::NICS_AHEAD_COUNT],
    nics_ahead_at: usize,
    /// When each packet left its NIC: apart, because only its arrival asks.
    injected_ps: Vec<u64>,
    messages: Slab<MessageState>,
    nics: Vec<NicState>,
    /// First NIC of every host, and one more entry.
    host_nics: Vec<u32>,
    /// Direction away from every port; meaningless where nothing is plugged in.
    channels: Vec<ChannelId>,
    /// Number of every switch's first port.
    switch_firsts: Vec<u32>,
    /// The switch of every router port.
    port_owners: Vec<u32>,
    ethernet: Ethernet,
    counters: Counters,
    publisher: watch::Publisher,
    probe: P,
}

impl<P: Probe> Network<P> {
    /// Simulated time, ps from the start.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// The graph simulated.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The routing.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// The host that a NIC is of.
    pub fn host_of(&self, nic: NicId) -> HostId {
        HostId(self.host_nics.partition_point(|&first| first <= nic.0) as u32 - 1)
    }

    /// Number of NICs.
    pub fn nic_count(&self) -> usize {
        self.nics.len()
    }

    /// A host's NIC. `None` if it has not so many.
    pub fn nic(&self, host: HostId, nic: Port) -> Option<NicId> {
        let range = self.host_nics.get(host.index()..host.index() + 2)?;
        let id = range[0] + u32::from(nic);
        (id < range[1]).then_some(NicId(id))
    }

    /// The switch that a NIC is cabled to.
    pub fn switch_of(&self, nic: NicId) -> SwitchId {
        SwitchId(self.nics[nic.0 as usize].switch)
    }

    /// Rate of a NIC's link in each direction, bytes/s.
    pub fn nic_rate_bytes_per_s(&self, nic: NicId) -> f64 {
        let port = self.nics[nic.0 as usize].port;
        let byte_time = self.link_of(port).byte_time;
        1e12 * f64::from(1 << build::BYTE_TIME_BITS) / byte_time as f64
    }

    /// Whether a NIC has begun to send the last packet of all that it was given.
    pub fn is_idle(&self, nic: NicId) -> bool {
        let NicState { port, waiting, .. } = self.nics[nic.0 as usize];
        if self.ethernet.is_used() { self.ethernet.is_idle(nic, port) } else { waiting.head == NONE }
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Messages given and not yet delivered.
    pub fn outstanding_count(&self) -> usize {
        self.messages.len()
    }

    /// Most packets in flight at once so far.
    pub fn packet_high_water_count(&self) -> usize {
        self.packets.high_water() + self.ethernet.frames.high_water()
    }

    /// The probe.
    pub fn probe(&self) -> &P {
        &self.probe
    }

    /// The probe, to take its results out.
    pub fn probe_mut(&mut self) -> &mut P {
        &mut self.probe
    }

    /// For every direction of every link in use (Ethernet: of every cable): bytes and packets sent, and the
    /// time packets waited for it.
    pub fn channel_loads(&self) -> impl Iterator<Item = ChannelLoad> + '_ {
        let of_ethernet = self.ethernet.is_used();
        let ports = if of_ethernet { &[] } else { &self.ports[..] };
        let used = ports.iter().zip(&self.channels).filter(|(port, _)| port.far != NONE);
        let of_ports = used.map(|(port, &channel)| ChannelLoad {
            channel,
            cable: None,
            sent_bytes: port.sent_bytes,
            sent_packet_count: port.sent_count.into(),
            busy_ps: transfer_ps(port.sent_bytes, self.links[usize::from(port.link)].byte_time),
            waited_ps: port.waited_ps,
        });
        of_ports.chain(self.ethernet.loads())
    }

    /// Ethernet: the most memory of a switch that frames from one cable ever took, bytes.
    pub fn held_max_bytes(&self) -> u32 {
        self.ethernet.held_max_bytes()
    }

    /// Bytes of memory that the state of ports, lanes and NICs takes: what a network costs before any
    /// traffic.
    pub fn idle_memory_bytes(&self) -> usize {
        size_of_val(&*self.ports)
            + size_of_val(&*self.lanes)
            + size_of_val(&*self.more_requests)
            + size_of_val(&*self.nics)
            + size_of_val(&*self.channels)
            + self.ethernet.memory_bytes()
    }

    /// Bytes of memory that a packet in flight takes, its credit included.
    pub const fn packet_memory_bytes() -> usize {
        size_of::<Packet>() + size_of::<u64>() + size_of::<Return>()
    }

    /// Gives a message to its NIC now.
    ///
    /// # Panics
    /// If a NIC does not exist.
    pub fn send(&mut self, message: Message) {
        assert!((message.to.0 as usize) < self.nics.len(), "no such NIC: {:?}", message.to);
        let packet_count = self.config.packet_count(message.bytes);
        let vc = self.vc_from_nic(&message);
        let way = self.way_of(&message, vc, packet_count);
        let handle = self.messages.insert(MessageState {
            message,
            unsent_bytes: message.bytes,
            unsent_packets: packet_count,
            way,
            next: NONE,
            vc,
        });
        self.counters.given_packet_count += packet_count;
        self.probe.on_send(self.now_ps, handle, &message);
        if self.ethernet.is_used() {
            self.send_frames(&message, handle);
            return;
        }
        let nic = &mut self.nics[message.from.0 as usize];
        if nic.waiting.push(&mut self.messages, handle) {
            let port = nic.port;
            let time_ps = self.ports[port as usize].free_ps.max(self.now_ps);
            self.wake(port, time_ps);
        }
    }

    /// Asks for [`Occurrence::Timer`] at a time; one in the past comes at once.
    pub fn set_timer(&mut self, time_ps: u64, token: u32) {
        self.queue.push(time_ps.max(self.now_ps), Class::Timer, token);
    }

    /// Runs to the next thing the caller is to be told. `None`: nothing is pending any more.
    ///
    /// # Errors
    /// [`Deadlock`] when messages are outstanding but nothing can move any more, also while timers are
    /// pending.
    pub fn advance(&mut self) -> Result<Option<Occurrence>, Deadlock> {
        self.advance_until(u64::MAX)
    }

    /// As [`Network::advance`], but not beyond `limit_ps`: `None` then means that nothing is to be told up to
    /// that time, at which the simulation now stands (unless nothing is pending at all).
    ///
    /// # Errors
    /// As [`Network::advance`].
    pub fn advance_until(&mut self, limit_ps: u64) -> Result<Option<Occurrence>, Deadlock> {
        loop {
            self.run_slice();
            let event_ps = self.queue.peek_time_ps();
            let event_slice = event_ps.map(|time_ps| self.wheel.slice_of(time_ps));
            if event_slice.is_none_or(|slice| slice > self.wheel.slice()) {
                // Nothing is left in the open slice.
                let next = match (self.wheel.next_slice(), event_slice) {
                    // What a timer's owner sends then would only queue behind the packets that wait for each
                    // other.
                    (None, _) if self.messages.len() > 0 && self.queue.has_only_timers() => {
                        return Err(self.standstill());
                    }
                    (Some(ports), Some(events)) => ports.min(events),
                    (ports, events) => match ports.or(events) {
                        Some(next) => next,
                        None => return Ok(None),
                    },
                };
                if self.wheel.bounds_ps(next).0 <= limit_ps {
                    self.wheel.open(next);
                    self.on_slice();
                    continue;
                }
                self.now_ps = self.now_ps.max(limit_ps);
                return Ok(None);
            }
            if event_ps.is_none_or(|time_ps| time_ps > limit_ps) {
                self.now_ps = self.now_ps.max(limit_ps);
                return Ok(None);
            }
            let Some(event) = self.queue.pop() else { continue };
            self.now_ps = event.time_ps;
            self.counters.event_count += 1;
            match event.class {
                Class::Frame => self.on_frame(event.entity),
                Class::Cable => self.on_cable(event.entity),
                Class::Pause => self.on_pause(event.entity),
                Class::Nic => self.on_nic_port(event.entity),
                Class::Retransmission => self.on_retransmission(event.entity),
                Class::DelayedAck => self.on_delayed_ack(event.entity),
                Class::Injected => {
                    let token = self.messages[event.entity].message.token;
                    return Ok(Some(Occurrence::Injected { token }));
                }
                Class::Delivered => return Ok(Some(self.on_delivered(event.entity))),
                Class::Timer => return Ok(Some(Occurrence::Timer { token: event.entity })),
            }
        }
    }

    #[inline]
    fn link_of(&self, port: u32) -> LinkClass {
        self.links[usize::from(self.ports[port as usize].link)]
    }

    fn on_delivered(&mut self, handle: u32) -> Occurrence {
        let Message { from, to, bytes, token, .. } = self.messages[handle].message;
        self.probe.on_delivered(self.now_ps, handle, &self.messages[handle].message);
        self.messages.remove(handle);
        self.counters.delivered_message_count += 1;
        self.counters.delivered_bytes += bytes;
        Occurrence::Delivered { token, from, to }
    }
}

/// What went over a direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelLoad {
    /// The direction of the link.
    pub channel: ChannelId,
    /// Which of an Ethernet link's cables, from 0. `None` if it has only one, and with credits: a link of
    /// several is one there that is as fast as all of them.
    pub cable: Option<u32>,
    /// Bytes sent, headers and padding included.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packet_count: u64,
    /// Time spent sending, ps.
    pub busy_ps: u64,
    /// Time that packets were ready to be sent and waited, summed over packets, ps.
    pub waited_ps: u64,
}

/// How long `bytes` take at a byte time in ps times 2^20, rounded down.
#[inline]
fn transfer_ps(bytes: u64, byte_time: u64) -> u64 {
    ((u128::from(bytes) * u128::from(byte_time)) >> build::BYTE_TIME_BITS) as u64
}
