//! The way of a packet from a router on.
//!
//! The packets of a message all go the same way, so a message of several packets is routed when it is given
//! to its NIC, and a packet carries its way along. What a way has no room for, and single packets, are routed
//! at the routers where they turn.

use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::routing::{Hop, Routing};

use super::{FROM_NIC, LaneState, Message, MessageState, Network, NicState, Probe};
use crate::slab::Slab;

/// Messages of so many packets are routed before they leave.
const ROUTED_PACKET_COUNT_MIN: u64 = 4;

/// Steps, each of one port and channel and as many routers as they are taken at, the step being gone lowest.
/// Narrow routers have four steps of 16 bits:
///
/// ```text
///   bit    15       14        13 .. 8    7 .. 0
///          to NIC   channel   port       routers left, this one included
/// ```
///
/// Others have one of 32 bits: the channel is in bits 30 to 24, the port in bits 23 to 8, and bit 31 says
/// that it goes to a NIC. A way of 0 is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way(u64);

impl Way {
    pub(super) const UNKNOWN: Way = Way(0);
    const NARROW_BITS: u32 = 16;
    const WIDE_BITS: u32 = 32;
    /// Most routers of a step.
    const LEFT_MAX: u32 = 0xff;

    const fn bits<const NARROW: bool>() -> u32 {
        if NARROW { Way::NARROW_BITS } else { Way::WIDE_BITS }
    }

    /// The step that goes to a NIC.
    fn to_nic<const NARROW: bool>(port: u16) -> Way {
        Way::step::<NARROW>(Hop { port, vc: 0 }, 1).with_to_nic::<NARROW>()
    }

    fn with_to_nic<const NARROW: bool>(self) -> Way {
        Way(self.0 | 1 << (Way::bits::<NARROW>() - 1))
    }

    /// The same hop at so many routers.
    fn step<const NARROW: bool>(hop: Hop, left_count: u32) -> Way {
        let port_bits = if NARROW { 6 } else { 16 };
        Way(u64::from(hop.vc) << (8 + port_bits) | u64::from(hop.port) << 8 | u64::from(left_count))
    }

    pub(super) fn is_unknown(self) -> bool {
        self.0 == 0
    }

    /// The port by which it leaves the router.
    #[inline(always)]
    pub(super) fn port<const NARROW: bool>(self) -> u32 {
        (self.0 >> 8) as u32 & if NARROW { 0x3f } else { 0xffff }
    }

    /// The virtual channel there; 0 to a NIC.
    #[inline(always)]
    pub(super) fn vc<const NARROW: bool>(self) -> u32 {
        if NARROW { (self.0 >> 14) as u32 & 1 } else { (self.0 >> 24) as u32 & 0x7f }
    }

    /// Whether the hop ends at a NIC.
    #[inline(always)]
    pub(super) fn ends<const NARROW: bool>(self) -> bool {
        self.0 >> (Way::bits::<NARROW>() - 1) & 1 != 0
    }

    /// The way from the next router on.
    #[inline(always)]
    pub(super) fn next<const NARROW: bool>(self) -> Way {
        let left = self.0.wrapping_sub(1);
        // One selection, no branch: where packets turn is as good as random.
        let done = u32::from(left & u64::from(Way::LEFT_MAX) == 0);
        Way(left >> (done * Way::bits::<NARROW>()))
    }
}

impl<P: Probe> Network<P> {
    /// The way of a message's packets from their first router on, if it is worth finding.
    pub(super) fn way_of(&self, message: &Message, vc: u8, packet_count: u64) -> Way {
        let has_routers = self.narrow && !self.ethernet.is_used();
        if !has_routers || self.routes_every_hop || packet_count < ROUTED_PACKET_COUNT_MIN {
            return Way::UNKNOWN;
        }
        let vc_count = u32::from(self.config.vc_count);
        let port = self.nics[message.from.0 as usize].port;
        let mut lane = self.ports[port as usize].far * vc_count + u32::from(vc);
        let (mut way, mut shift) = (0, 0);
        while shift < u64::BITS {
            let step = self.routes().route_to::<true>(&self.lanes[lane as usize], message.to.0);
            way |= step.0 << shift;
            shift += Way::NARROW_BITS;
            if step.ends::<true>() {
                break;
            }
            for _ in 0..step.0 & u64::from(Way::LEFT_MAX) {
                let out = self.lanes[lane as usize].first + step.port::<true>();
                lane = self.ports[out as usize].far * vc_count + step.vc::<true>();
            }
        }
        Way(way)
    }

    /// What routing asks.
    #[inline(always)]
    pub(super) fn routes(&self) -> Routes<'_> {
        Routes {
            routing: &self.routing,
            owners: &self.port_owners,
            nics: &self.nics,
            messages: &self.messages,
            vcs_per_class: self.vcs_per_class,
            every_hop: self.routes_every_hop,
        }
    }
}

/// What a packet's way is found by.
#[derive(Clone, Copy)]
pub(super) struct Routes<'a> {
    pub(super) routing: &'a Routing,
    /// [`Network::port_owners`].
    pub(super) owners: &'a [u32],
    pub(super) nics: &'a [NicState],
    pub(super) messages: &'a Slab<MessageState>,
    /// [`Network::vcs_per_class`].
    pub(super) vcs_per_class: u8,
    /// [`Network::routes_every_hop`].
    pub(super) every_hop: bool,
}

impl Routes<'_> {
    /// The next step of a packet of a message that enters a router by a lane.
    #[inline(always)]
    pub(super) fn route<const NARROW: bool>(self, lane: &LaneState, message: u32) -> Way {
        self.route_to::<NARROW>(lane, self.messages[message].message.to.0)
    }

    /// The next step of a packet to a NIC that enters a router by a lane.
    #[inline(never)]
    fn route_to<const NARROW: bool>(self, lane: &LaneState, to_nic: u32) -> Way {
        let &LaneState { first, port, vc, flags, .. } = lane;
        let switch = self.owners[first as usize];
        let to = &self.nics[to_nic as usize];
        if switch == to.switch {
            return Way::to_nic::<NARROW>((to.switch_port - first) as u16);
        }
        let class = vc / self.vcs_per_class;
        // What comes from a NIC arrives by no port the routing knows.
        let arrived = (flags & FROM_NIC == 0).then_some(Hop { port, vc: class });
        let (hop, run) = self.routing.next_run(SwitchId(switch), arrived, SwitchId(to.switch), to_nic);
        let vc = self.vc_of_class(hop.vc, to.switch);
        let left_count = if self.every_hop { 1 } else { run.min(Way::LEFT_MAX - 1) + 1 };
        Way::step::<NARROW>(Hop { port: hop.port, vc }, left_count)
    }

    /// The virtual channel that traffic to a switch uses within a class of the routing.
    #[inline]
    pub(super) fn vc_of_class(self, class: u8, to_switch: u32) -> u8 {
        match self.vcs_per_class {
            1 => class,
            several => class * several + (to_switch % u32::from(several)) as u8,
        }
    }
}
