//! An output port's turn: which lane may send, and what sending sets in motion.

use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::routing::Hop;

use super::{
    FROM_NIC, LaneState, LinkClass, Network, Packet, PortState, Probe, Return, STARVED, Switching,
    transfer_ps,
};
use crate::queue::Class;
use crate::slab::NONE;

/// When a lane will have room for a packet.
#[derive(Clone, Copy)]
enum Room {
    Now,
    At(u64),
    /// Not before a packet leaves it that has not yet begun to.
    Unknown,
}

impl<P: Probe> Network<P> {
    /// Sees to it that a port is looked at no later than `time_ps`.
    #[inline]
    pub(super) fn wake(&mut self, port: u32, time_ps: u64) {
        let state = &mut self.ports[port as usize];
        if time_ps < state.wake_ps {
            state.wake_ps = time_ps;
            self.queue.push(time_ps, Class::Port, port);
        }
    }

    #[inline]
    pub(super) fn on_port(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        // An earlier event has taken this one's place.
        if state.wake_ps != self.now_ps {
            return;
        }
        state.wake_ps = u64::MAX;
        if state.free_ps > self.now_ps {
            let free_ps = state.free_ps;
            self.wake(port, free_ps);
        } else if state.is_nic {
            self.inject(port);
        } else {
            self.arbitrate(port);
        }
    }

    /// Sends the packet whose turn it is, if any can go, and sets the next time to look.
    fn arbitrate(&mut self, port: u32) {
        let PortState { first, turn, .. } = self.ports[port as usize];
        let first_lane = first * u32::from(self.config.vc_count);
        let words = 1 + self.more_words;
        let (turn_word, turn_bit) = (usize::from(turn) / 64 % words, u32::from(turn) % 64);
        let mut winner = NONE;
        let mut next_ps = u64::MAX;
        // The last answer: lanes that want a port mostly want the same room behind it.
        let mut asked = (NONE, 0, Room::Now);
        // Once around, from the lane whose turn it is; its word comes first with the bits from there on, last with those
        // before.
        for step in 0..=words {
            let word = if words == 1 { 0 } else { (turn_word + step) % words };
            let mut bits = *self.requests(port, word);
            match step {
                0 => bits &= u64::MAX << turn_bit,
                _ if step == words => bits &= !(u64::MAX << turn_bit),
                _ => {}
            }
            while bits != 0 {
                let lane_id = first_lane + word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let lane = &self.lanes[lane_id as usize];
                if lane.ready_ps > self.now_ps {
                    next_ps = next_ps.min(lane.ready_ps);
                } else if winner != NONE {
                    next_ps = self.now_ps;
                } else {
                    let (target, bytes) = (lane.head_target, lane.head_bytes);
                    if target != NONE && asked.0 == target && asked.1 == bytes {
                        continue;
                    }
                    asked = (target, bytes, self.room(target, bytes));
                    match asked.2 {
                        Room::Now => winner = lane_id,
                        Room::At(time_ps) => next_ps = next_ps.min(time_ps),
                        Room::Unknown => self.lanes[target as usize].flags |= STARVED,
                    }
                }
            }
        }
        if winner != NONE {
            self.transmit(port, winner);
            next_ps =
                if next_ps == u64::MAX { next_ps } else { next_ps.max(self.ports[port as usize].free_ps) };
        }
        if next_ps != u64::MAX {
            self.wake(port, next_ps);
        }
    }

    #[inline]
    fn requests(&mut self, port: u32, word: usize) -> &mut u64 {
        match word {
            0 => &mut self.ports[port as usize].requests,
            more => &mut self.more_requests[port as usize * self.more_words + more - 1],
        }
    }

    /// Whether `target` has room for a packet.
    #[inline]
    fn room(&mut self, target: u32, bytes: u32) -> Room {
        if target == NONE {
            return Room::Now;
        }
        self.collect_credits(target);
        let lane = &self.lanes[target as usize];
        if lane.credit_bytes >= bytes {
            return Room::Now;
        }
        if lane.return_ps == u64::MAX {
            return Room::Unknown;
        }
        let mut promised = lane.credit_bytes + lane.return_bytes;
        if promised >= bytes {
            return Room::At(lane.return_ps);
        }
        let mut at = lane.returns_head;
        while at != NONE {
            let Return { time_ps, bytes: returned, next } = self.returns[at];
            promised += returned;
            if promised >= bytes {
                return Room::At(time_ps);
            }
            at = next;
        }
        Room::Unknown
    }

    /// Adds the credits that are back by now.
    #[inline]
    fn collect_credits(&mut self, lane_id: u32) {
        let lane = &mut self.lanes[lane_id as usize];
        while lane.return_ps <= self.now_ps {
            lane.credit_bytes += lane.return_bytes;
            if lane.returns_head == NONE {
                lane.return_ps = u64::MAX;
            } else {
                let Return { time_ps, bytes, next } = self.returns[lane.returns_head];
                self.returns.remove(lane.returns_head);
                (lane.return_ps, lane.return_bytes, lane.returns_head) = (time_ps, bytes, next);
            }
        }
    }

    /// As `room` for a NIC: `None` if there is room now, else the time to look again, if that is known.
    pub(super) fn room_for_injection(&mut self, target: u32, bytes: u32) -> Option<u64> {
        match self.room(target, bytes) {
            Room::Now => None,
            Room::At(time_ps) => Some(time_ps),
            Room::Unknown => {
                self.lanes[target as usize].flags |= STARVED;
                Some(u64::MAX)
            }
        }
    }

    /// Sends the first packet of a lane over `port`.
    fn transmit(&mut self, port: u32, lane_id: u32) {
        let link = self.link_of(port);
        let lane = &mut self.lanes[lane_id as usize];
        let index = lane.index;
        let handle = lane.head;
        let packet = self.packets[handle];
        let out = &mut self.ports[port as usize];
        let done_ps = self.now_ps + transfer_ps(packet.bytes.into(), link.byte_time);
        out.free_ps = done_ps;
        out.sent_bytes += u64::from(packet.bytes);
        out.sent_count += 1;
        out.waited_ps += self.now_ps - packet.ready_ps;
        out.turn = index + 1;
        self.probe.on_transmit(self.channels[port as usize], self.now_ps, done_ps, packet.bytes);

        lane.head = packet.next;
        lane.ready_ps = done_ps;
        // The next packet of the lane may want the same port again.
        *self.requests(port, usize::from(index) / 64) &= !(1 << (index % 64));
        if packet.next != NONE {
            self.promote_head(lane_id);
        }
        self.return_credit(lane_id, packet.bytes, done_ps);
        self.move_on(port, handle, packet, link, done_ps);
    }

    /// Makes the first packet of a lane's queue ask for its port.
    #[inline]
    fn promote_head(&mut self, lane_id: u32) {
        let lane = &mut self.lanes[lane_id as usize];
        let Packet { ready_ps, bytes, out_port, target, .. } = self.packets[lane.head];
        lane.ready_ps = lane.ready_ps.max(ready_ps);
        lane.head_bytes = bytes;
        lane.head_target = target;
        let index = lane.index;
        let time_ps = lane.ready_ps.max(self.ports[out_port as usize].free_ps);
        *self.requests(out_port, usize::from(index) / 64) |= 1 << (index % 64);
        self.wake(out_port, time_ps);
    }

    /// Sends the room of a packet that will have left `lane_id` at `done_ps` back to the port that feeds the lane.
    #[inline]
    fn return_credit(&mut self, lane_id: u32, bytes: u32, done_ps: u64) {
        self.collect_credits(lane_id);
        let lane = &mut self.lanes[lane_id as usize];
        let time_ps = done_ps + self.links[usize::from(lane.link)].latency_ps;
        if lane.return_ps == u64::MAX {
            (lane.return_ps, lane.return_bytes) = (time_ps, bytes);
        } else {
            let credit = self.returns.insert(Return { time_ps, bytes, next: NONE });
            if lane.returns_head == NONE {
                lane.returns_head = credit;
            } else {
                self.returns[lane.returns_tail].next = credit;
            }
            lane.returns_tail = credit;
        }
        if lane.flags & STARVED != 0 {
            lane.flags &= !STARVED;
            let feeder = self.ports[(lane.first + u32::from(lane.port)) as usize].far;
            let look_ps = time_ps.max(self.ports[feeder as usize].free_ps);
            self.wake(feeder, look_ps);
        }
    }

    /// A packet has begun to leave `port`: puts it where it goes.
    #[inline]
    pub(super) fn move_on(&mut self, port: u32, handle: u32, packet: Packet, link: LinkClass, done_ps: u64) {
        let tail_ps = done_ps + link.latency_ps;
        if packet.target == NONE {
            return self.deliver(handle, packet, tail_ps);
        }
        self.counters.packet_hop_count += u64::from(!self.ports[port as usize].is_nic);
        let head_ps = self.now_ps + link.latency_ps + link.flit_ps;
        let (out_port, target) = self.route(packet);
        let ready_ps = match self.config.switching {
            Switching::StoreAndForward => tail_ps,
            // The last flit must be there when a faster link wants to send it.
            Switching::CutThrough => {
                let out = self.link_of(out_port);
                let all_but_last_flit_ps =
                    transfer_ps(packet.bytes.into(), out.byte_time).saturating_sub(out.flit_ps);
                head_ps.max(tail_ps.saturating_sub(all_but_last_flit_ps))
            }
        } + self.pipeline_ps;
        let record = &mut self.packets[handle];
        (record.ready_ps, record.out_port, record.target, record.next) = (ready_ps, out_port, target, NONE);
        let lane = &mut self.lanes[packet.target as usize];
        lane.credit_bytes -= packet.bytes;
        let before = std::mem::replace(&mut lane.tail, handle);
        if lane.head == NONE {
            lane.head = handle;
            self.promote_head(packet.target);
        } else {
            self.packets[before].next = handle;
        }
    }

    /// Where a packet leaves the router that it is entering: the port and the lane behind it.
    #[inline]
    fn route(&self, packet: Packet) -> (u32, u32) {
        let LaneState { switch, first, port, vc, flags, .. } = self.lanes[packet.target as usize];
        if switch == packet.to_switch {
            let to = self.messages[packet.message].message.to;
            return (self.nics[to.0 as usize].switch_port, NONE);
        }
        let class = if self.vcs_per_class == 1 { vc } else { vc / self.vcs_per_class };
        // What comes from a NIC arrives by no port the routing knows.
        let arrived = (flags & FROM_NIC == 0).then_some(Hop { port, vc: class });
        let hop = self.routing.next_hop(SwitchId(switch), arrived, SwitchId(packet.to_switch), packet.flow);
        let out_port = first + u32::from(hop.port);
        let vc = u32::from(self.vc_of_class(hop.vc, packet.to_switch));
        (out_port, self.ports[out_port as usize].far * u32::from(self.config.vc_count) + vc)
    }

    /// The virtual channel that traffic to a switch uses within a class of the routing.
    #[inline]
    pub(super) fn vc_of_class(&self, class: u8, to_switch: u32) -> u8 {
        match self.vcs_per_class {
            1 => class,
            several => class * several + (to_switch % u32::from(several)) as u8,
        }
    }

    fn deliver(&mut self, handle: u32, packet: Packet, tail_ps: u64) {
        self.packets.remove(handle);
        self.counters.delivered_packet_count += 1;
        self.counters.packet_latency_sum_ps += u128::from(tail_ps - packet.injected_ps);
        let message = &mut self.messages[packet.message];
        message.expected_packets -= 1;
        if message.expected_packets == 0 {
            self.queue.push(tail_ps, Class::Delivered, packet.message);
        }
    }
}
