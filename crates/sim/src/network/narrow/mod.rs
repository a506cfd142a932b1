//! Looks at ports of narrow routers: of at most 64 lanes and two virtual channels ([`Network::narrow`]).
//!
//! A port keeps the lanes that want it by the channel that they want there. All lanes that want a channel
//! want the same room ahead, so a channel without room is passed over whole, and the port is looked at again
//! when the room is there: with credits on their way at their time, else when a packet begins to leave. Until
//! then the channel is *blocked*, and lanes that come to want it cost no look. A blocked channel has no room
//! for the shortest packet; where only a longer one does not fit, the lane is asked.
//!
//! A channel is blocked only while a lane wants it, and then a look or the flag `STARVED` is pending: a
//! blocked channel that nobody comes back to would stand still for ever.
//!
//! A look that sends, and the functions that do what it sets in motion:
//!
//! ```text
//!   router                                           next router
//!   lane ──────────────▶ port ──────── link ───────▶ lane ───────────────▶ port
//!    │                    │                           │                     │
//!    │ credit to the      │ free when the packet      │ takes the packet    │ if it is the first
//!    │ lane's feeder      │ has left; woken for       │ (enter)             │ of the lane: asked
//!    │ (put)              │ what can go then          │                     │ for, and woken for
//!    │ the next packet    │ (look_again)              │                     │ its ready_ps
//!    │ asks for its port  │                           │                     │ (promote)
//!    │ (promote)          │                           │                     │
//! ```
//!
//! The outcome is that of the looks in `arbitrate`, which know neither: a test compares them.

mod search;
#[cfg(test)]
mod tests;
mod turns;

use std::hint::select_unpredictable;

use prefetch_index::prefetch_index;

use super::credits::Return;
use super::way::Routes;
use super::{ChannelId, transfer_ps};
use super::{Counters, LaneState, LinkClass, Network, Packet, PortState, Probe, STARVED, Switching};
use crate::queue::{Class, Queue};
use crate::slab::{NONE, Slab};
use crate::wheel::Wheel;
use search::Parts;
pub(super) use turns::Turns;

/// The parts of a network that looks use, each borrowed for itself: no store to one of them can change
/// where another one is, so the compiler need not ask again after each store. That holds while no pointer to
/// the whole is passed on: what looks do is inlined, and what is not takes the parts that it needs.
pub(super) struct Looks<'a, P: Probe, const BY_CHANNEL: bool> {
    ports: &'a mut [PortState],
    lanes: &'a mut [LaneState],
    packets: &'a mut [Packet],
    free_packets: &'a mut Vec<u32>,
    injected_ps: &'a [u64],
    links: &'a [LinkClass],
    returns: &'a mut Slab<Return>,
    wheel: &'a mut Wheel,
    queue: &'a mut Queue,
    counters: &'a mut Counters,
    probe: &'a mut P,
    channels: &'a [ChannelId],
    routes: Routes<'a>,
    first_nic_port: u32,
    vc_count: u32,
    shortest_bytes: u32,
    same_rates: bool,
    switching: Switching,
    pipeline_ps: u64,
    lane_restart_ps: u64,
    channel_restart_ps: u64,
    /// No port is looked at for a time before this.
    past_ps: u64,
    /// Stands for all lanes of NICs: one that always has room.
    nic_lane: u32,
}

impl<P: Probe> Network<P> {
    /// Only for narrow routers.
    #[inline(always)]
    pub(super) fn looks<const BY_CHANNEL: bool>(&mut self) -> Looks<'_, P, BY_CHANNEL> {
        let (packets, free_packets) = self.packets.parts();
        Looks {
            past_ps: self.wheel.bounds_ps(self.wheel.slice()).0,
            nic_lane: self.first_nic_port * u32::from(self.config.vc_count),
            ports: &mut self.ports,
            lanes: &mut self.lanes,
            packets,
            free_packets,
            injected_ps: &self.injected_ps,
            links: &self.links,
            returns: &mut self.returns,
            wheel: &mut self.wheel,
            queue: &mut self.queue,
            counters: &mut self.counters,
            probe: &mut self.probe,
            channels: &self.channels,
            routes: Routes {
                routing: &self.routing,
                owners: &self.port_owners,
                nics: &self.nics,
                messages: &self.messages,
                vcs_per_class: self.vcs_per_class,
                every_hop: self.routes_every_hop,
            },
            first_nic_port: self.first_nic_port,
            vc_count: self.config.vc_count.into(),
            shortest_bytes: self.shortest_bytes,
            same_rates: self.same_rates,
            switching: self.config.switching,
            pipeline_ps: self.pipeline_ps,
            lane_restart_ps: self.lane_restart_ps,
            channel_restart_ps: self.channel_restart_ps,
        }
    }
}

impl<P: Probe, const BY_CHANNEL: bool> Looks<'_, P, BY_CHANNEL> {
    /// Looks at all ports of the open slice.
    #[inline(always)]
    pub(super) fn run(mut self, last_ps: u64) {
        let mut ahead = [NONE; 4];
        while let Some(port) = self.wheel.pop() {
            self.touch_ahead(&mut ahead);
            let state = &mut self.ports[port as usize];
            let now_ps = state.wake_ps;
            debug_assert!(now_ps >= self.past_ps, "a look in the past");
            // Stale otherwise: an earlier look has taken this one's place.
            if now_ps <= last_ps {
                state.wake_ps = u64::MAX;
                self.counters.event_count += 1;
                self.look(port, now_ps);
            }
        }
    }

    /// As `Network::touch_ahead`, two looks a stage. `ahead` has the lanes found by the first stage, the last
    /// one first.
    #[inline(always)]
    fn touch_ahead(&mut self, ahead: &mut [u32; 4]) {
        let [lane_1, lane_2, lane_3, lane_4] = *ahead;
        let open = self.wheel.open_ports();
        let Some(last) = open.len().checked_sub(6) else { return };
        prefetch_index(&*self.ports, open[last] as usize);
        let state = &self.ports[open[last + 2] as usize];
        let index = Turns(state.turn).first::<BY_CHANNEL>(state.requests).0;
        let lane = state.first * self.vc_count + index;
        *ahead = [lane, lane_1, lane_2, lane_3];
        prefetch_index(&*self.lanes, lane as usize);
        if let Some(lane) = self.lanes.get(lane_2 as usize) {
            prefetch_index(&*self.lanes, lane.head_target as usize);
            prefetch_index(&*self.packets, lane.head as usize);
        }
        if let Some(lane) = self.lanes.get(lane_4 as usize)
            && let Some(packet) = self.packets.get(lane.head as usize)
        {
            prefetch_index(&*self.packets, packet.next as usize);
            // No branch: which packets go to a NIC is as good as random.
            let target = &self.lanes[lane.head_target.min(self.nic_lane) as usize];
            let out = target.first + packet.way.next::<true>().port::<true>();
            prefetch_index(&*self.ports, out as usize);
            prefetch_index(&*self.packets, target.tail as usize);
            prefetch_index(self.injected_ps, lane.head as usize);
        }
    }

    /// Sends the packet whose turn it is, if any can go, and sets the next time to look.
    #[inline(always)]
    fn look(&mut self, port: u32, now_ps: u64) {
        let state = &self.ports[port as usize];
        debug_assert!(state.free_ps <= now_ps, "a port is looked at while it sends");
        let (turns, requests) = (Turns(state.turn), state.requests);
        // A port is woken for a lane that wants it, and only its own looks take requests away.
        debug_assert!(requests != [0; 2], "a look that no lane waits for");
        // Mostly the first in turn can go.
        let (index, channel) = turns.first::<BY_CHANNEL>(requests);
        let restarts = BY_CHANNEL
            && (state.free_ps + self.channel_restart_ps > now_ps)
                & (turns.last() == channel)
                & (state.far < self.first_nic_port);
        let lane_id = state.first * self.vc_count + index;
        let can_go = !restarts && {
            let LaneState { ready_ps, head_target, head_bytes, .. } = self.lanes[lane_id as usize];
            let ahead = &mut self.lanes[head_target.min(self.nic_lane) as usize];
            (ready_ps <= now_ps) & ahead.has_room(self.returns, head_bytes, now_ps)
        };
        let winner = if can_go { Some((lane_id, channel)) } else { self.search(port, now_ps) };
        if let Some((lane_id, channel)) = winner {
            self.transmit(port, lane_id, channel, now_ps);
        }
    }

    /// As [`Parts::search`].
    #[inline(always)]
    fn search(&mut self, port: u32, now_ps: u64) -> Option<(u32, usize)> {
        let parts = Parts::<BY_CHANNEL> {
            ports: self.ports,
            lanes: self.lanes,
            returns: self.returns,
            wheel: self.wheel,
            vc_count: self.vc_count,
            nic_lane: self.nic_lane,
            shortest_bytes: self.shortest_bytes,
            channel_restart_ps: self.channel_restart_ps,
        };
        parts.search(port, now_ps)
    }

    /// Sends the first packet of a lane over `port`.
    #[inline(always)]
    fn transmit(&mut self, port: u32, lane_id: u32, channel: usize, now_ps: u64) {
        let out = &mut self.ports[port as usize];
        let lane = &mut self.lanes[lane_id as usize];
        let (handle, target) = (lane.head, lane.head_target);
        let packet = self.packets[handle as usize];
        let link = self.links[usize::from(out.link)];
        let done_ps = now_ps + transfer_ps(packet.bytes.into(), link.byte_time);
        out.free_ps = done_ps;
        out.sent_bytes += u64::from(packet.bytes);
        out.sent_count += 1;
        out.waited_ps += now_ps - packet.ready_ps;
        out.turn = Turns(out.turn).after::<BY_CHANNEL>(channel, lane.index).0;
        out.requests[channel & 1] &= !(1 << (lane.index % 64));
        if self.probe.watches() {
            self.probe.on_transmit(self.channels[port as usize], now_ps, done_ps, packet.bytes);
        }
        lane.head = packet.next;
        lane.ready_ps = done_ps + self.lane_restart_ps;
        let credit_ps = done_ps + self.links[usize::from(lane.link)].latency_ps;
        lane.put(self.returns, self.past_ps, credit_ps, packet.bytes);
        if lane.flags & STARVED != 0 {
            self.wake_feeder(lane_id, credit_ps);
        }
        if packet.next != NONE {
            self.promote(lane_id, packet.next);
        }
        let way = packet.way.next::<true>();
        let tail_ps = done_ps + link.latency_ps;
        if target == NONE {
            self.deliver(handle, &packet, tail_ps);
        } else {
            self.counters.packet_hop_count += 1;
            let head_ps = now_ps + link.latency_ps + link.flit_ps;
            self.enter(target, handle, Packet { way, ..packet }, link, head_ps, tail_ps);
        }
        self.look_again(port, done_ps);
    }

    /// Makes the first packet of a lane's queue ask for its port.
    #[inline(always)]
    fn promote(&mut self, lane_id: u32, head: u32) {
        let Packet { ready_ps, bytes, way, .. } = self.packets[head as usize];
        let lane = &mut self.lanes[lane_id as usize];
        let out_port = lane.first + way.port::<true>();
        let out = &mut self.ports[out_port as usize];
        lane.ready_ps = lane.ready_ps.max(ready_ps);
        lane.head_bytes = bytes;
        // No branch: which packets arrive next is as good as random.
        const _: () = assert!(NONE == u32::MAX);
        let to_nic = 0_u32.wrapping_sub(u32::from(way.ends::<true>()));
        lane.head_target = to_nic | (out.far.wrapping_mul(self.vc_count) + way.vc::<true>());
        let channel = way.vc::<true>() as usize & 1;
        out.requests[channel] |= 1 << (lane.index % 64);
        let turns = Turns(out.turn);
        // Who waits for room is looked at when there is some.
        if turns.is_blocked(channel) {
            return;
        }
        let mut free_ps = out.free_ps;
        if BY_CHANNEL {
            let restarts = turns.last() == channel && !way.ends::<true>();
            free_ps += select_unpredictable(restarts, self.channel_restart_ps, 0);
        }
        let time_ps = lane.ready_ps.max(free_ps);
        // As `wake`.
        if time_ps < out.wake_ps {
            out.wake_ps = time_ps;
            self.wheel.push(time_ps, out_port);
        }
    }

    /// A packet has begun to go to a router, into the lane `target`, and has its way from there; `link` is
    /// what it comes by.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        target: u32,
        handle: u32,
        packet: Packet,
        link: LinkClass,
        head_ps: u64,
        tail_ps: u64,
    ) {
        let lane = &mut self.lanes[target as usize];
        let mut way = packet.way;
        if way.is_unknown() {
            way = self.routes.route::<true>(lane, packet.message);
        }
        let ready_ps = if self.same_rates {
            head_ps + self.pipeline_ps
        } else {
            let out = &self.ports[(lane.first + way.port::<true>()) as usize];
            let out_link = self.links[usize::from(out.link)];
            self.switching.ready_ps(link, out_link, packet.bytes, (head_ps, tail_ps)) + self.pipeline_ps
        };
        let record = &mut self.packets[handle as usize];
        record.ready_ps = ready_ps;
        record.way = way;
        record.next = NONE;
        lane.credit_bytes -= packet.bytes;
        let before = std::mem::replace(&mut lane.tail, handle);
        if lane.head == NONE {
            lane.head = handle;
            self.promote(target, handle);
        } else {
            self.packets[before as usize].next = handle;
        }
    }

    #[inline(always)]
    fn deliver(&mut self, handle: u32, packet: &Packet, tail_ps: u64) {
        self.free_packets.push(handle);
        self.counters.delivered_packet_count += 1;
        self.counters.packet_latency_sum_ps += u128::from(tail_ps - self.injected_ps[handle as usize]);
        if packet.is_last {
            self.queue.push(tail_ps, Class::Delivered, packet.message);
        }
    }

    /// A port has begun to send and will be free at `free_ps`: when it is to be looked at then.
    #[inline(always)]
    fn look_again(&mut self, port: u32, free_ps: u64) {
        let state = &self.ports[port as usize];
        let (requests, turns, far) = (state.requests, Turns(state.turn), state.far);
        if requests == [0; 2] {
            // What nobody wants is not blocked.
            return;
        }
        let (mut next_ps, mut blocked) = (u64::MAX, 0);
        let restart_ps = if far < self.first_nic_port { self.channel_restart_ps } else { 0 };
        for (channel, &lanes) in requests.iter().enumerate() {
            if lanes == 0 {
                continue;
            }
            let ahead = &mut self.lanes[(far * self.vc_count + channel as u32).min(self.nic_lane) as usize];
            let later_ps = match ahead.room_at(self.returns, self.shortest_bytes, free_ps) {
                Ok(_) if BY_CHANNEL && turns.last() == channel => free_ps + restart_ps,
                Ok(_) => free_ps,
                Err(later_ps) => {
                    blocked |= 1 << channel;
                    later_ps
                }
            };
            next_ps = next_ps.min(later_ps);
        }
        self.ports[port as usize].turn = turns.with_blocked(blocked).0;
        wake(self.ports, self.wheel, port, next_ps);
    }

    /// The port that feeds a lane, and waits for room in it, is looked at when a credit is back.
    #[inline(always)]
    fn wake_feeder(&mut self, lane_id: u32, credit_ps: u64) {
        let lane = &mut self.lanes[lane_id as usize];
        lane.flags &= !STARVED;
        let feeder = self.ports[(lane.first + u32::from(lane.port)) as usize].far;
        let state = &mut self.ports[feeder as usize];
        let time_ps = credit_ps.max(state.free_ps);
        if feeder < self.first_nic_port {
            wake(self.ports, self.wheel, feeder, time_ps);
        } else if time_ps < state.wake_ps {
            state.wake_ps = time_ps;
            self.queue.push(time_ps, Class::Nic, feeder);
        }
    }
}

/// Sees to it that a router's port is looked at no later than `time_ps`.
#[inline(always)]
fn wake(ports: &mut [PortState], wheel: &mut Wheel, port: u32, time_ps: u64) {
    let state = &mut ports[port as usize];
    if time_ps < state.wake_ps {
        state.wake_ps = time_ps;
        wheel.push(time_ps, port);
    }
}
