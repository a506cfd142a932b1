//! The trait between the protocols and the hardware that moves bytes.
//!
//! A [`Device`] is a set of *rails* (physical paths) to peers. It moves packets and, where it can, puts to
//! and gets from a peer's memory. It never matches messages, never orders across rails, never retries: those
//! are the protocols' work, above it. Real devices live in `ayatori-devices`, simulated ones in
//! `ayatori-sim`. A new device has to pass [`conformance::check`].
//!
//! A device hands over what arrives one [`Event`] at a time; a packet stays in the device's memory until
//! [`release`](Device::release), so an eager message is copied once, from there to the user's buffer.
//!
//! # Rails that can break
//!
//! Shared memory neither breaks nor loses: its packets go out as they are. If a rail has
//! [`may_break`](RailCapabilities::may_break), or a peer is reached by more than one rail, the protocols run
//! the link in *trunk* mode (`link`): they number and acknowledge packets, send lost ones again over other
//! rails, and judge each rail's health. A device of such rails (such as TCP) obeys these rules:
//!
//! 1. *Candidates.* [`rails_to`](Device::rails_to) names every rail that might reach the peer, fixed for the
//!    device's life. A rail counts as up until the device reports it down. [`send`](Device::send) on a rail
//!    that has no connection yet begins to make one and answers [`Full`] meanwhile; the protocols then offer
//!    the packet to the peer's other rails. If the attempt fails, or does not succeed within a second:
//!    [`Event::RailDown`].
//! 2. *One connection is one epoch.* Within it packets are kept in order and whole (`ordered`, `reliable`).
//!    Packets it had taken when it broke may or may not arrive: the protocols find out. After
//!    [`Event::RailDown`] no packet of the old connection is handed up any more, and every put and get on it
//!    has been completed with [`RailBroken`] (and will touch no memory afterwards).
//! 3. *Damage is loss.* The device checks what arrives (sums over its own framing, header and payload; off by
//!    option): it alone knows its framing, whose lengths must be checked before anything is believed, and
//!    so the core stays `no_std`. A packet that fails is dropped without a word; the protocols see the gap
//!    and have it sent again. If the framing itself is damaged, so that the next packet cannot be found:
//!    `RailDown`.
//! 4. *Coming back.* After `RailDown` the device tries again by itself, at least once a second, until the
//!    peer is gone, and reports [`Event::RailUp`] when a connection works (authenticated, both ways). Also
//!    the first connection is reported so. Either side may make it.
//! 5. *Silence.* A rail that takes packets and brings no acknowledgement for
//!    [`silence`](crate::link::TrunkConfig::silence) while others do is silent. The protocols send its
//!    unacknowledged packets over the others and call [`reset`](Device::reset): drop this connection now, and
//!    make a new one as under 4. `RailDown` need not be reported for it, but every put and get on it is
//!    completed with [`RailBroken`]. A put or get lost on a silent rail may also be completed so when the
//!    rail works again. If *no* rail brings anything, the peer may just compute: then
//!    [`heard`](Device::heard) decides, from the network's own acknowledgements.
//! 6. *The last rail.* If no rail to a peer works for
//!    [`peer_timeout`](crate::link::TrunkConfig::peer_timeout) every operation that needs the peer fails with
//!    [`Error::Unreachable`](crate::Error::Unreachable). A device that *knows* that the process is gone (its
//!    launcher says so) reports [`Event::PeerGone`], which is quicker; no put or get touches our memory after
//!    that. A device whose processes say goodbye reports [`Event::PeerLeft`] when all rails of one that did
//!    so have ended: no sender waits then for its acknowledgements.
//! 7. *Time.* The protocols know the time only from `Process::handle_timeout(now)`. The driver calls it
//!    before each round of progress while `Process::wants_time()`, and at `poll_timeout()`. A device that
//!    needs time (for 1 and 4) reads its own clock.
//! 8. *Depth.* The protocols keep at most a few milliseconds of a rail's measured rate outstanding on it. A
//!    device may buffer that much and should answer `Full` soon after, not swallow megabytes.
//!
//! # A whole device on one page
//!
//! A process that only talks to itself:
//!
//! ```
//! use ayatori_core::buffer::{Buffer, Payload, Piece};
//! use ayatori_core::device::*;
//! use ayatori_core::ids::{ProcessId, Rail, RailSet};
//! use std::collections::VecDeque;
//!
//! struct Echo { rails: [RailCapabilities; 1], packets: VecDeque<Vec<u8>>, header_bytes: VecDeque<usize> }
//!
//! impl Device for Echo {
//!     fn rails(&self) -> &[RailCapabilities] { &self.rails }
//!     fn rails_to(&self, _peer: ProcessId) -> RailSet { RailSet::one(Rail(0)) }
//!     fn send(&mut self, _: Rail, _: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
//!         if self.packets.len() == 16 { return Err(Full); }
//!         let mut packet = header.to_vec();
//!         for piece in payload {
//!             packet.extend_from_slice(piece.bytes().expect("this device has no virtual payload"));
//!         }
//!         self.header_bytes.push_back(header.len());
//!         self.packets.push_back(packet);
//!         Ok(())
//!     }
//!     fn poll(&mut self) -> Option<Event> {
//!         let _first = self.packets.front()?;
//!         Some(Event::Packet(Incoming { rail: Rail(0), from: ProcessId(0), slot: 0 }))
//!     }
//!     fn packet(&self, _: &Incoming) -> Packet<'_> {
//!         let (header, payload) = self.packets[0].split_at(self.header_bytes[0]);
//!         Packet { header, payload: Piece::Bytes(payload) }
//!     }
//!     fn release(&mut self, _: Incoming) { self.packets.pop_front(); self.header_bytes.pop_front(); }
//!     fn arm(&mut self) -> Armed {
//!         if self.packets.is_empty() { Armed::Armed } else { Armed::NotYet }
//!     }
//! }
//!
//! let mut echo = Echo {
//!     rails: [RailCapabilities { packet_bytes_max: 4096, ..RailCapabilities::default() }],
//!     packets: VecDeque::new(), header_bytes: VecDeque::new(),
//! };
//! echo.send(Rail(0), ProcessId(0), b"head", [Piece::Bytes(b"bo"), Piece::Bytes(b"dy")]).unwrap();
//! let Some(Event::Packet(incoming)) = echo.poll() else { panic!() };
//! assert_eq!(echo.packet(&incoming).payload.bytes(), Some(&b"body"[..]));
//! echo.release(incoming);
//! assert!(echo.poll().is_none());
//! ```

pub mod conformance;
pub mod profiles;

use crate::buffer::{Buffer, Payload, Piece};
use crate::ids::{ProcessId, Rail, RailSet};
use crate::time::{Duration, Instant};
use core::fmt;

/// The longest header a packet may have, in bytes. Every device carries headers up to this.
pub const HEADER_BYTES_MAX: usize = 128;

/// Capabilities of one rail. The protocols choose by them; `ayatori info --explain` prints the choice.
#[derive(Clone, Copy, Debug)]
pub struct RailCapabilities {
    /// Name for people: an interface, "shm", …
    pub name: &'static str,
    /// The largest packet, header and payload together, in bytes;
    /// [`payload_bytes_max`](Self::payload_bytes_max) has the small print.
    pub packet_bytes_max: usize,
    /// The largest packet that carries data of a long message or an eager one, header and payload together,
    /// in bytes; less than `packet_bytes_max` counts as that. A stream of long packets costs both sides fewer
    /// calls of the system, and the core sends them where the rail is fast enough that they do not hold up
    /// others.
    pub long_packet_bytes_max: usize,
    /// Up to this payload a packet is as cheap as an empty one, in bytes.
    pub inline_bytes: usize,
    /// Longest message that goes eagerly, in bytes; the device knows where its copies begin to cost more
    /// than a rendezvous' round trip. At most [`payload_bytes_max`](Self::payload_bytes_max) of a short
    /// header, or what a long packet holds beside one.
    pub eager_bytes_max: usize,
    /// Whether [`Device::put`] works.
    pub put: bool,
    /// Whether [`Device::get`] works.
    pub get: bool,
    /// Shortest message, in bytes, that always moves by [`get`](Self::get); 0: all. The sender also offers
    /// packets for a shorter one if it has nothing else under way: both sides then copy at the same time,
    /// which may be faster where each side has a free CPU. The receiver measures which is faster if there is
    /// [a clock](Device::time), and takes packets otherwise.
    pub transfer_bytes_min: usize,
    /// Whether packets are offered of a message of any length where its sender waits for it and has nothing
    /// else under way, so that none of its time is lost; and asked of a sender of several that
    /// [waits](Device::is_waiting).
    pub streams_awaited: bool,
    /// A sender with nothing else under way measures, for each peer, whether messages longer than the first
    /// and at most as long as the second of these, in bytes, are quicker eagerly or announced and
    /// [got](Self::get), if there is [a clock](Device::time); until then it sends them eagerly. All other
    /// messages go by `eager_bytes_max`. Both 0: none are measured. For rails with `get` that need no
    /// acknowledgements.
    pub eager_learnt_bytes: [usize; 2],
    /// Whether receives may be under way at such a sender. Where they may not, they may at one of a message
    /// that would go eagerly unmeasured. They may, too, at one that offers packets of an announced message.
    pub learns_beside_receives: bool,
    /// Longest single put or get, in bytes: longer transfers are cut, so that progress goes on between.
    pub transfer_bytes_max: usize,
    /// Whether packets of one rail to one peer arrive in the order sent.
    pub ordered: bool,
    /// Whether every packet arrives unless the rail is reported down (or it was damaged: see the module's
    /// docs, 3).
    pub reliable: bool,
    /// Whether the rail can go down, fall silent or lose a damaged packet while the peer lives. See the
    /// module's docs; `false` for what breaks only together with the peer, as shared memory.
    pub may_break: bool,
    /// Send-queue bytes beyond those in flight, per peer. Acknowledgements wait in this queue behind data.
    pub queue_bytes: u64,
    /// Payload rate in bytes a second.
    pub bandwidth_bytes_per_s: u64,
    /// One-way time of an empty packet in picoseconds.
    pub latency_ps: u64,
    /// How finely the rail can pace.
    pub pacing: Pacing,
    /// The NUMA node the rail hangs on, where known.
    pub numa_node: Option<u16>,
}

/// The longer of the two headers of eager messages, in bytes.
pub(crate) const EAGER_HEADER_BYTES: usize = 32;

/// Size of a short header in [`RailCapabilities::packet_bytes_max`], in bytes: that of a packet of data.
pub const SHORT_HEADER_BYTES: usize = 32;

impl RailCapabilities {
    /// The longest payload behind a header of `header_bytes`. Devices lay packets of data out so that the
    /// payload is aligned: a header to [`SHORT_HEADER_BYTES`] counts as that, and a longer one as itself and
    /// the place of a short one.
    pub const fn payload_bytes_max(&self, header_bytes: usize) -> usize {
        let longer = if header_bytes <= SHORT_HEADER_BYTES { 0 } else { header_bytes };
        self.packet_bytes_max.saturating_sub(SHORT_HEADER_BYTES + longer)
    }
}

impl RailCapabilities {
    /// [`eager_learnt_bytes`](Self::eager_learnt_bytes), as far as a packet holds it.
    pub(crate) fn eager_learnt_payload_bytes(&self) -> [usize; 2] {
        let [above, most] = self.eager_learnt_bytes;
        let most = most.min(self.packet_bytes_max.saturating_sub(EAGER_HEADER_BYTES));
        if self.get && most > above { [above, most] } else { [0; 2] }
    }

    /// Whether the sender of a message measures its way.
    pub(crate) fn learns_eager(&self, length_bytes: usize) -> bool {
        let [above, most] = self.eager_learnt_payload_bytes();
        length_bytes > above && length_bytes <= most
    }
}

impl Default for RailCapabilities {
    fn default() -> Self {
        Self {
            name: "rail",
            packet_bytes_max: 8 << 10,
            long_packet_bytes_max: 0,
            inline_bytes: 0,
            eager_bytes_max: 4 << 10,
            put: false,
            get: false,
            transfer_bytes_min: 0,
            streams_awaited: false,
            eager_learnt_bytes: [0; 2],
            learns_beside_receives: false,
            transfer_bytes_max: 1 << 20,
            ordered: true,
            reliable: true,
            may_break: false,
            queue_bytes: 0,
            bandwidth_bytes_per_s: 1_000_000_000,
            latency_ps: 1_000_000,
            pacing: Pacing::None,
            numa_node: None,
        }
    }
}

/// How a rail can leave gaps between packets (P4, §2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// Not at all.
    None,
    /// By a rate limit in bytes a second (`SO_MAX_PACING_RATE`, QP rate limits).
    Rate,
    /// Exactly, in packet times (simulated NICs).
    PacketGap,
}

/// How long to stay silent after each packet of a message, in packet times (P4): `Gap { milli_packets: 500 }`
/// is half a packet time, so two thirds of the rail's rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Gap {
    /// In thousandths of a packet time.
    pub milli_packets: u32,
}

impl Gap {
    /// As fast as the rail goes.
    pub const NONE: Self = Self { milli_packets: 0 };

    /// A gap of `packet_times`, rounded to a thousandth; a negative one is none.
    pub fn packets(packet_times: f64) -> Self {
        // `as` saturates; `round` is not in `core`.
        Self { milli_packets: (packet_times * 1_000.0 + 0.5) as u32 }
    }

    /// The rate that is left of `bytes_per_s`, for rails that pace by rate.
    pub const fn rate_of(self, bytes_per_s: u64) -> u64 {
        (bytes_per_s as u128 * 1_000 / (1_000 + self.milli_packets as u128)) as u64
    }
}

/// Not a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotGap;

impl fmt::Display for NotGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a gap is a number of packet times from 0 to 1000000, as 0.5")
    }
}

impl core::error::Error for NotGap {}

impl Gap {
    /// A gap of `packet_times`, as [`packets`](Self::packets), if the number is valid.
    ///
    /// # Errors
    /// The number is negative, above a million, or none.
    pub fn checked(packet_times: f64) -> Result<Self, NotGap> {
        if (0.0..=1e6).contains(&packet_times) { Ok(Self::packets(packet_times)) } else { Err(NotGap) }
    }
}

impl core::str::FromStr for Gap {
    type Err = NotGap;
    fn from_str(text: &str) -> Result<Self, NotGap> {
        Self::checked(text.trim().parse().map_err(|_| NotGap)?)
    }
}

impl fmt::Display for Gap {
    /// In packet times.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.milli_packets / 1_000, self.milli_packets % 1_000);
        match part {
            0 => write!(f, "{whole}"),
            part if part % 100 == 0 => write!(f, "{whole}.{}", part / 100),
            part if part % 10 == 0 => write!(f, "{whole}.{:02}", part / 10),
            part => write!(f, "{whole}.{part:03}"),
        }
    }
}

/// The device cannot take this now; nothing of it was taken. Offer it again after the next poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Names registered memory to a peer; what the words mean is the rail's business (address and key, say).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RemoteKey {
    /// Opaque.
    pub words: [u64; 2],
}

/// Part of a peer's registered memory.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRegion {
    /// The registration.
    pub key: RemoteKey,
    /// Bytes from its start.
    pub offset: u64,
}

/// Given with a put or get and handed back with its completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u64);

/// How a put or get was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// It is already done; no completion will follow.
    Done,
    /// An [`Event::Completion`] will follow.
    Pending,
    /// The rail cannot do this one (the kernel refuses, say); use packets instead. No completion follows.
    Refused,
}

/// A packet that has arrived and waits in the device's memory. Not `Copy`: it is released once.
#[derive(PartialEq, Eq, Debug)]
pub struct Incoming {
    /// The rail it came by.
    pub rail: Rail,
    /// The sender, as the device knows it (never as the packet claims).
    pub from: ProcessId,
    /// The device's own note where the packet lies.
    pub slot: u64,
}

/// The bytes of an arrived packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The header as sent, and possibly some payload after it: a device that does not keep the boundary
    /// gives everything here. Headers say their own length.
    pub header: &'a [u8],
    /// The (rest of the) payload.
    pub payload: Piece<'a>,
}

/// Events of a device.
#[derive(PartialEq, Eq, Debug)]
pub enum Event {
    /// A packet; read it with [`Device::packet`], then give it back with [`Device::release`] before polling
    /// again.
    Packet(Incoming),
    /// The front of a long packet: [`Device::packet`] gives its header, and this many bytes of payload are
    /// still on their way. A caller that knows their destination calls [`Device::fetch`] before the next poll
    /// and saves a copy; otherwise the packet comes whole, later. The caller does not release it.
    Front(Incoming, usize),
    /// A put or get has ended. `Err`: the rail broke; the memory's content is undefined.
    Completion(Token, Result<(), RailBroken>),
    /// A rail to a peer broke: unacknowledged packets on it may be lost.
    RailDown(Rail, ProcessId),
    /// A rail to a peer works (again).
    RailUp(Rail, ProcessId),
    /// The peer's process is gone and will not come back.
    PeerGone(ProcessId),
    /// The peer has ended in order: all it sent has been handed up, and it reads nothing any more.
    PeerLeft(ProcessId),
}

/// Result of [`Device::fetch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// All of the payload has come and is sound: the packet is handled.
    Whole,
    /// More will come: then the front is reported again, or the packet whole. A packet whose repeated front
    /// is not fetched is lost.
    Part,
    /// The packet was damaged and is lost; the memory's content is undefined.
    Lost,
}

/// A rail broke under an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RailBroken;

/// What a processor has done in its own memory for a collective operation, and with how many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Copied.
    Copied(usize),
    /// Combined with as many others.
    Reduced(usize),
}

/// Answer to [`Device::arm`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Armed {
    /// The next arrival will wake the sleeper: sleep now.
    Armed,
    /// Something has arrived meanwhile: poll instead.
    NotYet,
}

/// Moves packets and memory between processes. See the [module's docs](self).
///
/// Every method returns at once. All are called by one thread at a time.
///
/// A [`Buffer`] that a device is given is memory lent to it: by `put` and `get` until they are done,
/// completed or refused, by `register` until `deregister`, by `fetch` until it returns. It uses it no longer
/// than that, and during [`send`](Self::send) it writes to none.
pub trait Device {
    /// The rails, indexed by [`Rail`]. Fixed for the device's life.
    fn rails(&self) -> &[RailCapabilities];

    /// The rails that reach `peer`; empty if none does.
    fn rails_to(&self, peer: ProcessId) -> RailSet;

    /// Sends a packet: header (at most [`HEADER_BYTES_MAX`]) and payload, copied before this returns.
    /// Packets of one rail to one peer are delivered in this order where the rail says `ordered`.
    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full>;

    /// No more long packets follow for now: what a device keeps back of one, to send it with the next, leaves
    /// now. The core says so after each round in which it has sent data of long messages, and after a message
    /// that may have been long.
    #[inline]
    fn flush(&mut self) {}

    /// The next thing to report, if any.
    fn poll(&mut self) -> Option<Event>;

    /// The bytes of an arrived packet.
    fn packet(&self, incoming: &Incoming) -> Packet<'_>;

    /// Gives an arrived packet's memory back to the device.
    fn release(&mut self, incoming: Incoming);

    /// Writes the payload of a packet whose front was reported into `into`, as much as has arrived. `into`
    /// has the payload's length and is written to during this call only. The caller passes it again with each
    /// further front, or does not call if the payload is no longer wanted.
    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        let _ = (incoming, into);
        Fetched::Part
    }

    /// A hint: the caller waits for a packet from `from` (`None`: from any process). Devices that look in
    /// several places look there first.
    #[inline]
    fn expect(&mut self, from: Option<ProcessId>) {
        let _ = from;
    }

    /// The time, if the device has a clock that is read in a moment (some 50 ns). The core reads none itself:
    /// with this one it measures which way is the quicker one of a long message that has two, and else takes
    /// packets.
    fn time(&self) -> Option<Instant> {
        None
    }

    /// Whether `peer` waits in a call, as far as the device can see: then it has time to send packets of
    /// messages that it has announced. A hint, which may be out of date.
    fn is_waiting(&self, peer: ProcessId) -> bool {
        let _ = peer;
        false
    }

    /// Whether data that one of both has just written come quickly to the other's caches. `None`: longer
    /// packets to it will show. A hint, which may be out of date.
    fn is_near(&self, peer: ProcessId) -> Option<bool> {
        let _ = peer;
        Some(false)
    }

    /// The processor has worked on data of a collective operation in its own memory. For devices whose clock
    /// does not go on by itself meanwhile: those that simulate.
    #[inline]
    fn worked(&mut self, work: Work) {
        let _ = work;
    }

    /// Makes a buffer reachable by peers' puts and gets on `rail`. `None`: out of resources, use packets.
    /// The buffer stays valid until [`deregister`](Self::deregister).
    fn register(&mut self, rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let _ = (rail, buffer);
        None
    }

    /// Ends a registration. Gets and puts on it have completed, unless we have given up the peer that makes
    /// them and it does not know: from now on its gets and puts on this memory move nothing and end with
    /// [`RailBroken`] there.
    fn deregister(&mut self, rail: Rail, key: RemoteKey) {
        let _ = (rail, key);
    }

    /// Writes `local` into a peer's registered memory; a put outside of a registration is refused, or ends
    /// with [`RailBroken`], and moves nothing. A put that is [`Submitted::Done`] or has completed is visible
    /// to the peer before any packet sent afterwards on the same rail.
    fn put(
        &mut self,
        rail: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let _ = (rail, to, local, remote, token);
        Ok(Submitted::Refused)
    }

    /// Reads a peer's registered memory into `local`; as [`put`](Self::put), only from inside of a
    /// registration.
    fn get(
        &mut self,
        rail: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let _ = (rail, from, local, remote, token);
        Ok(Submitted::Refused)
    }

    /// Leaves this gap after each packet of data to `peer` on `rail` (also within puts, and within gets that
    /// the peer makes) until the next call. A hint for rails whose [`pacing`](RailCapabilities::pacing) is
    /// not `None`; nothing to do for the others.
    fn set_gap(&mut self, rail: Rail, peer: ProcessId, gap: Gap) {
        let _ = (rail, peer, gap);
    }

    /// How many hops between switches it is to `peer`, where that is known: gaps can be set by it.
    fn hops(&self, peer: ProcessId) -> u32 {
        let _ = peer;
        0
    }

    /// The protocols have found the rail to `peer` silent: drop its connection and make a new one. See the
    /// module's docs, 5.
    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        let _ = (rail, peer);
    }

    /// For how long the far end of the rail has owed the *network's* own acknowledgement of something sent:
    /// zero if it owes nothing or has just answered, however long its process computes. `None`: the device
    /// cannot know. (TCP: 0 while `tcpi_unacked` is 0, else `tcpi_last_ack_recv`.)
    fn heard(&mut self, rail: Rail, peer: ProcessId) -> Option<Duration> {
        let _ = (rail, peer);
        None
    }

    /// Says that the caller is about to sleep. After [`Armed::Armed`] the next arrival wakes it, also one
    /// that has come before and was not polled; so does room, where the device was [`Full`] (how is the
    /// concrete device's matter: a futex, a file descriptor). [`poll`](Self::poll) disarms.
    fn arm(&mut self) -> Armed;
}
