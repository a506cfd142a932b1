//! An output port's turn: which lane may send, and what sending sets in motion.
//!
//! Ports of routers are looked at slice by slice of time (`wheel`), in any order within a slice, so nothing
//! here may depend on what another port does in the same slice. Three rules keep it so: what a port does to
//! another lies a lookahead in the future; the credits of a lane are counted by its feeder only; times are
//! the port's own, not the network's `now_ps`.

use prefetch_index::prefetch_index;

use super::{Arbitration, LinkClass, Network, Packet, Probe, Switching, transfer_ps};
use crate::queue::Class;
use crate::slab::NONE;

/// Looks of a slice that are prepared at once, rounded up to a power of two.
pub(super) const AHEAD_COUNT: usize = 16;

/// A search for the lane whose turn it is.
struct Look {
    now_ps: u64,
    /// When to look again if nobody can go.
    next_ps: u64,
    /// A lane found full, and for what length: those that want a port mostly want the same room behind it.
    full: u32,
    full_bytes: u32,
}

impl Switching {
    /// When a router may pass a packet on that has come by `link` and goes on by `out`, its pipeline not
    /// counted.
    #[inline]
    pub(super) fn ready_ps(
        self,
        link: LinkClass,
        out: LinkClass,
        bytes: u32,
        (head_ps, tail_ps): (u64, u64),
    ) -> u64 {
        match self {
            Switching::StoreAndForward => tail_ps,
            // The last flit must be there when a faster link wants to send it. At equal rates it is.
            Switching::CutThrough if out.byte_time == link.byte_time => head_ps,
            Switching::CutThrough => {
                let transfer_ps = transfer_ps(bytes.into(), out.byte_time);
                head_ps.max(tail_ps.saturating_sub(transfer_ps.saturating_sub(out.flit_ps)))
            }
        }
    }
}

impl<P: Probe> Network<P> {
    /// Sees to it that a port is looked at no later than `time_ps`.
    #[inline(always)]
    pub(super) fn wake(&mut self, port: u32, time_ps: u64) {
        let state = &mut self.ports[port as usize];
        if time_ps < state.wake_ps {
            state.wake_ps = time_ps;
            if port < self.first_nic_port {
                self.wheel.push(time_ps, port);
            } else {
                self.queue.push(time_ps, Class::Nic, port);
            }
        }
    }

    /// Looks at all router ports of the open slice.
    #[inline]
    pub(super) fn run_slice(&mut self) {
        if self.wheel.open_ports().is_empty() {
            return;
        }
        match (self.narrow, self.by_channel) {
            (true, true) => self.run_narrow::<true>(),
            (true, false) => self.run_narrow::<false>(),
            (false, _) => self.run_wide(),
        }
    }

    #[inline(never)]
    fn run_narrow<const BY_CHANNEL: bool>(&mut self) {
        let (_, last_ps) = self.wheel.bounds_ps(self.wheel.slice());
        self.looks::<BY_CHANNEL>().run(last_ps);
    }

    #[inline(never)]
    fn run_wide(&mut self) {
        let (first_ps, last_ps) = self.wheel.bounds_ps(self.wheel.slice());
        while let Some(port) = self.wheel.pop() {
            self.touch_ahead();
            let state = &mut self.ports[port as usize];
            let now_ps = state.wake_ps;
            debug_assert!(now_ps >= first_ps, "a look in the past");
            // Stale otherwise: an earlier look has taken this one's place.
            if now_ps <= last_ps {
                state.wake_ps = u64::MAX;
                self.counters.event_count += 1;
                self.arbitrate(port, now_ps);
            }
        }
    }

    /// Fetches what the next looks of the slice will need, so that it is in the first-level cache by then.
    /// They are independent of each other, so their cache misses can be on their way together. In stages,
    /// each of which finds what the one before has fetched: the port; the lane whose turn it probably is;
    /// its first packet and the lane ahead of it; behind that packet the next one, and there the last packet
    /// or the port that it will want. What a stage finds is kept for the next.
    #[inline(always)]
    fn touch_ahead(&mut self) {
        const STAGE: usize = 3;
        const _: () = assert!(3 * STAGE < AHEAD_COUNT && AHEAD_COUNT.is_power_of_two());
        let open = self.wheel.open_ports();
        let Some(last) = open.len().checked_sub(1 + 3 * STAGE) else { return };
        let kept = |stage: usize| (last + stage * STAGE) % AHEAD_COUNT;
        prefetch_index(&self.ports, open[last] as usize);
        let state = &self.ports[open[last + STAGE] as usize];
        let turn = u32::from(state.turn);
        let index = (state.requests[0].rotate_right(turn).trailing_zeros() + turn) & 63;
        let lane_id = state.first * u32::from(self.config.vc_count) + index;
        self.lanes_ahead[kept(1)] = lane_id;
        prefetch_index(&self.lanes, lane_id as usize);
        if let Some(lane) = self.lanes.get(self.lanes_ahead[kept(2)] as usize) {
            prefetch_index(&self.lanes, lane.head_target as usize);
            self.packets.prefetch(lane.head);
        }
        if let Some(lane) = self.lanes.get(self.lanes_ahead[kept(3)] as usize)
            && let Some(packet) = self.packets.get(lane.head)
        {
            self.packets.prefetch(packet.next);
            if let Some(target) = self.lanes.get(lane.head_target as usize) {
                prefetch_index(
                    &self.ports,
                    (target.first + packet.way.next::<false>().port::<false>()) as usize,
                );
                self.packets.prefetch(target.tail);
            } else {
                prefetch_index(&self.injected_ps, lane.head as usize);
            }
        }
    }

    /// Sends the packet whose turn it is, if any can go, and sets the next time to look.
    fn arbitrate(&mut self, port: u32, now_ps: u64) {
        let state = &self.ports[port as usize];
        debug_assert!(state.free_ps <= now_ps, "a port is looked at while it sends");
        let (turn, requests) = (u32::from(state.turn), state.requests[0]);
        let first_lane = state.first * u32::from(self.config.vc_count);
        let mut look = Look { now_ps, next_ps: u64::MAX, full: NONE, full_bytes: 0 };
        let winner = if self.config.arbitration == Arbitration::OldestFirst {
            self.find_oldest(port, first_lane, turn, &mut look)
        } else if !self.channel_turns.is_empty() {
            self.find_by_channel(port, first_lane, &mut look)
        } else if self.more_words == 0 {
            // Once around, from the lane whose turn it is.
            let mut bits = requests.rotate_right(turn);
            loop {
                if bits == 0 {
                    break None;
                }
                let lane = first_lane + ((bits.trailing_zeros() + turn) & 63);
                bits &= bits - 1;
                if self.may_go(lane, &mut look) {
                    break Some(lane);
                }
            }
        } else {
            self.find_among_many(port, first_lane, turn, &mut look)
        };
        match winner {
            Some(lane) => self.transmit(port, lane, now_ps),
            None if look.next_ps != u64::MAX => self.wake(port, look.next_ps),
            None => {}
        }
    }

    /// The search in a router of more than 64 lanes.
    #[cold]
    fn find_among_many(&mut self, port: u32, first_lane: u32, turn: u32, look: &mut Look) -> Option<u32> {
        let words = 1 + self.more_words;
        let (turn_word, turn_bit) = (turn as usize / 64 % words, turn % 64);
        // The word of the lane whose turn it is comes first with the bits from there on, last with those
        // before.
        for step in 0..=words {
            let word = (turn_word + step) % words;
            let mut bits = *self.requests(port, word);
            match step {
                0 => bits &= u64::MAX << turn_bit,
                _ if step == words => bits &= !(u64::MAX << turn_bit),
                _ => {}
            }
            while bits != 0 {
                let lane = first_lane + word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if self.may_go(lane, look) {
                    return Some(lane);
                }
            }
        }
        None
    }

    /// The lane whose first packet left its NIC first, of those that can go; among equals, the next in turn.
    #[inline(never)]
    fn find_oldest(&mut self, port: u32, first_lane: u32, turn: u32, look: &mut Look) -> Option<u32> {
        let mut oldest: Option<((u64, u32), u32)> = None;
        let lane_count = 64 * (1 + self.more_words as u32);
        for word in 0..=self.more_words {
            let mut bits = *self.requests(port, word);
            while bits != 0 {
                let index = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let injected_ps = self.injected_ps[self.lanes[(first_lane + index) as usize].head as usize];
                let rank = (injected_ps, (index + lane_count - turn % lane_count) % lane_count);
                if oldest.is_none_or(|(least, _)| rank < least) && self.may_go(first_lane + index, look) {
                    oldest = Some((rank, first_lane + index));
                }
            }
        }
        oldest.map(|(_, lane)| lane)
    }

    /// The next lane in turn of the first channel in turn that some lane's packet can go by. The channel can
    /// be allotted again one allocation after its packet has left.
    #[inline(never)]
    fn find_by_channel(&mut self, port: u32, first_lane: u32, look: &mut Look) -> Option<u32> {
        let channel_count = u32::from(self.config.vc_count);
        let turns = port as usize * (channel_count as usize + 1);
        let begin = u32::from(self.channel_turns[turns + channel_count as usize]);
        let lane_count = 64 * (1 + self.more_words as u32);
        for step in 0..channel_count {
            let channel = (begin + step) % channel_count;
            let turn = u32::from(self.channel_turns[turns + channel as usize]) % lane_count;
            let allottable_ps = self.channel_free_ps[(port * channel_count + channel) as usize];
            let mut next: Option<(u32, u32)> = None;
            for word in 0..=self.more_words {
                let mut bits = *self.requests(port, word);
                while bits != 0 {
                    let index = word as u32 * 64 + bits.trailing_zeros();
                    bits &= bits - 1;
                    // A NIC takes everything in as one channel.
                    let target = self.lanes[(first_lane + index) as usize].head_target;
                    if channel != if target == NONE { 0 } else { target % channel_count } {
                        continue;
                    }
                    if allottable_ps > look.now_ps {
                        look.next_ps = look.next_ps.min(allottable_ps);
                        continue;
                    }
                    let rank = (index + lane_count - turn) % lane_count;
                    if next.is_none_or(|(least, _)| rank < least) && self.may_go(first_lane + index, look) {
                        next = Some((rank, index));
                    }
                }
            }
            if let Some((_, index)) = next {
                self.channel_turns[turns + channel as usize] = (index + 1) as u16;
                self.channel_turns[turns + channel_count as usize] = (channel + 1) as u16;
                let lane = &self.lanes[(first_lane + index) as usize];
                if lane.head_target != NONE {
                    let sent_ps = transfer_ps(lane.head_bytes.into(), self.link_of(port).byte_time);
                    self.channel_free_ps[(port * channel_count + channel) as usize] =
                        look.now_ps + sent_ps + self.config.vc_allocation_ps;
                }
                return Some(first_lane + index);
            }
        }
        None
    }

    /// Whether the first packet of a lane can go now; if not, notes when it may.
    #[inline]
    fn may_go(&mut self, lane_id: u32, look: &mut Look) -> bool {
        let lane = &self.lanes[lane_id as usize];
        if lane.ready_ps > look.now_ps {
            look.next_ps = look.next_ps.min(lane.ready_ps);
            return false;
        }
        let (target, bytes) = (lane.head_target, lane.head_bytes);
        if let Some(&free_ps) = self.input_free_ps.get((lane.first + u32::from(lane.port)) as usize)
            && free_ps > look.now_ps
        {
            look.next_ps = look.next_ps.min(free_ps);
            return false;
        }
        if target == NONE {
            return true;
        }
        if target == look.full && bytes >= look.full_bytes {
            return false;
        }
        let Some(later_ps) = self.wait_in_vain(target, bytes, look.now_ps) else { return true };
        look.next_ps = look.next_ps.min(later_ps);
        (look.full, look.full_bytes) = (target, bytes);
        false
    }

    /// A word of the lanes that want a port.
    #[inline]
    fn requests(&mut self, port: u32, word: usize) -> &mut u64 {
        match word {
            0 => &mut self.ports[port as usize].requests[0],
            more => &mut self.more_requests[port as usize * self.more_words + more - 1],
        }
    }

    /// The word of a lane's bit, and the bit.
    #[inline]
    fn request_of(&mut self, port: u32, index: u16) -> (&mut u64, u64) {
        let word = if self.more_words == 0 { 0 } else { usize::from(index) / 64 };
        (self.requests(port, word), 1 << (index % 64))
    }

    /// Sends the first packet of a lane over `port`.
    #[inline(always)]
    fn transmit(&mut self, port: u32, lane_id: u32, now_ps: u64) {
        let out = &mut self.ports[port as usize];
        let link = self.links[usize::from(out.link)];
        let lane = &mut self.lanes[lane_id as usize];
        let (handle, target, index) = (lane.head, lane.head_target, lane.index);
        let mut packet = self.packets[handle];
        packet.way = packet.way.next::<false>();
        let done_ps = now_ps + transfer_ps(packet.bytes.into(), link.byte_time);
        out.free_ps = done_ps;
        out.sent_bytes += u64::from(packet.bytes);
        out.sent_count += 1;
        out.waited_ps += now_ps - packet.ready_ps;
        out.turn = index + 1;
        if self.probe.watches() {
            self.probe.on_transmit(self.channels[port as usize], now_ps, done_ps, packet.bytes);
        }
        lane.head = packet.next;
        lane.ready_ps = done_ps + self.lane_restart_ps;
        if let Some(free_ps) = self.input_free_ps.get_mut((lane.first + u32::from(lane.port)) as usize) {
            *free_ps = done_ps;
        }
        let (word, bit) = self.request_of(port, index);
        *word &= !bit;
        if packet.next != NONE {
            // It may want the same port again.
            let next = self.packets[packet.next];
            self.promote_head(lane_id, &next);
        }
        self.return_credit(lane_id, packet.bytes, done_ps);
        // A lane that wants this port and is not ready by then costs a look in vain, which is rare and
        // harmless.
        if self.ports[port as usize].requests[0] != 0 || self.more_words > 0 {
            self.wake(port, done_ps);
        }
        let tail_ps = done_ps + link.latency_ps;
        if target == NONE {
            self.deliver(handle, packet, tail_ps);
        } else {
            self.counters.packet_hop_count += 1;
            let head_ps = now_ps + link.latency_ps + link.flit_ps;
            self.enter(target, handle, packet, link, head_ps, tail_ps);
        }
    }

    /// Makes the first packet of a lane's queue ask for its port.
    #[inline(always)]
    fn promote_head(&mut self, lane_id: u32, head: &Packet) {
        let lane = &mut self.lanes[lane_id as usize];
        let Packet { ready_ps, bytes, way, .. } = *head;
        let out_port = lane.first + way.port::<false>();
        let out = &mut self.ports[out_port as usize];
        lane.ready_ps = lane.ready_ps.max(ready_ps);
        lane.head_bytes = bytes;
        // No branch: which packets arrive next is as good as random.
        let to_nic = 0_u32.wrapping_sub(u32::from(way.ends::<false>()));
        const _: () = assert!(NONE == u32::MAX);
        lane.head_target =
            to_nic | (out.far.wrapping_mul(u32::from(self.config.vc_count)) + way.vc::<false>());
        let (index, time_ps) = (lane.index, lane.ready_ps.max(out.free_ps));
        let (word, bit) = self.request_of(out_port, index);
        *word |= bit;
        self.wake(out_port, time_ps);
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
        let mut way = packet.way;
        if way.is_unknown() {
            way = self.routes().route::<false>(&self.lanes[target as usize], packet.message);
        }
        let lane = &mut self.lanes[target as usize];
        let out = &self.ports[(lane.first + way.port::<false>()) as usize];
        let out_link = self.links[usize::from(out.link)];
        let ready_ps = self.config.switching.ready_ps(link, out_link, packet.bytes, (head_ps, tail_ps))
            + self.pipeline_ps;
        let record = &mut self.packets[handle];
        *record = Packet { ready_ps, next: NONE, way, ..packet };
        lane.credit_bytes -= packet.bytes;
        let before = std::mem::replace(&mut lane.tail, handle);
        if lane.head == NONE {
            lane.head = handle;
            let head = *record;
            self.promote_head(target, &head);
        } else {
            self.packets[before].next = handle;
        }
    }

    fn deliver(&mut self, handle: u32, packet: Packet, tail_ps: u64) {
        self.packets.remove(handle);
        self.counters.delivered_packet_count += 1;
        self.counters.packet_latency_sum_ps += u128::from(tail_ps - self.injected_ps[handle as usize]);
        if packet.is_last {
            self.queue.push(tail_ps, Class::Delivered, packet.message);
        }
    }
}
