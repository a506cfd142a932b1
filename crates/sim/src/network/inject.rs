//! NICs: messages cut into packets, in turn, with gaps between them.

use prefetch_index::prefetch_index;

use super::{
    Arbitration, Message, MessageQueue, MessageState, Network, NicOrder, Packet, PortState, Probe,
    transfer_ps,
};
use crate::queue::{Class, Queue};
use crate::slab::{NONE, Slab};

/// NICs that `touch_nics_ahead` remembers.
pub(super) const NICS_AHEAD_COUNT: usize = 32;

impl MessageQueue {
    /// Puts a message last. Whether it is the only one, so that the NIC must be woken: if not, the NIC has
    /// its next time to look, or waits for room, whatever is behind its first message.
    pub(super) fn push(&mut self, messages: &mut Slab<MessageState>, handle: u32) -> bool {
        messages[handle].next = NONE;
        let before = std::mem::replace(&mut self.tail, handle);
        if before == NONE {
            self.head = handle;
        } else {
            messages[before].next = handle;
        }
        before == NONE
    }

    fn pop(&mut self, messages: &Slab<MessageState>) {
        self.head = messages[self.head].next;
        if self.head == NONE {
            self.tail = NONE;
        }
    }

    /// Takes a packet off the first message, which is then done, first again, or last.
    pub(super) fn take_packet(
        &mut self,
        messages: &mut Slab<MessageState>,
        queue: &mut Queue,
        order: NicOrder,
        (payload, done_ps): (u32, u64),
    ) {
        let handle = self.head;
        let state = &mut messages[handle];
        state.unsent_bytes -= u64::from(payload);
        state.unsent_packets -= 1;
        if state.unsent_packets == 0 {
            let notify = state.message.notify_injected;
            self.pop(messages);
            if notify {
                queue.push(done_ps, Class::Injected, handle);
            }
        } else if order == NicOrder::RoundRobin && state.next != NONE {
            self.pop(messages);
            let _ = self.push(messages, handle);
        }
    }
}

impl<P: Probe> Network<P> {
    /// Fetches what the next NICs will need, in stages as `touch_ahead` does: the NIC and its port; its
    /// first and last message; the lane that it sends to.
    #[inline(always)]
    fn touch_nics_ahead(&mut self) {
        const STAGE: usize = 8;
        const _: () = assert!(2 * STAGE < NICS_AHEAD_COUNT && NICS_AHEAD_COUNT.is_power_of_two());
        // A busy network has about one event in each slice of the queue.
        self.queue.look_ahead(3 * STAGE as u64, |event| {
            let nic = event.entity.wrapping_sub(self.first_nic_port) as usize;
            if event.class != Class::Nic || nic >= self.nics.len() {
                return;
            }
            let seen = |stage: usize| (self.nics_ahead_at + stage * STAGE) % NICS_AHEAD_COUNT;
            prefetch_index(&self.ports, event.entity as usize);
            prefetch_index(&self.nics, nic);
            let MessageQueue { head, tail } = self.nics[self.nics_ahead[seen(2)] as usize].waiting;
            self.messages.prefetch(head);
            self.messages.prefetch(tail);
            let next = &self.nics[self.nics_ahead[seen(1)] as usize];
            if let Some(message) = self.messages.get(next.waiting.head) {
                let far = self.ports[next.port as usize].far;
                let lane = far * u32::from(self.config.vc_count) + u32::from(message.vc);
                prefetch_index(&self.lanes, lane as usize);
            }
            self.nics_ahead[seen(0)] = nic as u32;
            self.nics_ahead_at = seen(0) + NICS_AHEAD_COUNT - 1;
        });
    }

    /// A NIC's time to look has come.
    #[inline(never)]
    pub(super) fn on_nic_port(&mut self, port: u32) {
        self.touch_nics_ahead();
        let state = &mut self.ports[port as usize];
        // An earlier event has taken this one's place otherwise.
        if state.wake_ps == self.now_ps {
            state.wake_ps = u64::MAX;
            let free_ps = state.free_ps;
            if free_ps > self.now_ps {
                self.wake(port, free_ps);
            } else {
                self.inject(port);
            }
        }
    }

    /// The virtual channel in which a message leaves its NIC. All its packets take the same, so that the last
    /// to leave is the last to arrive.
    pub(super) fn vc_from_nic(&mut self, message: &Message) -> u8 {
        let vc_count = self.config.vc_count;
        match (self.config.arbitration, message.flow) {
            (Arbitration::ChannelFirst, 0) => {
                let turn = &mut self.nics[message.from.0 as usize].turn;
                *turn = (*turn + 1) % vc_count;
                *turn
            }
            (Arbitration::ChannelFirst, flow) => (flow % u32::from(vc_count)) as u8,
            _ => self.routes().vc_of_class(0, self.nics[message.to.0 as usize].switch),
        }
    }

    /// Sends the next packet of a NIC, if it may go, and sets the next time to look.
    #[inline(always)]
    fn inject(&mut self, port: u32) {
        let PortState { far, .. } = self.ports[port as usize];
        let nic = port - self.first_nic_port;
        let link = self.link_of(port);
        let handle = self.nics[nic as usize].waiting.head;
        if handle == NONE {
            return;
        }
        let state = self.messages[handle];
        let payload = state.unsent_bytes.min(self.config.payload_max_bytes().into()) as u32;
        let bytes = self.config.packet_bytes(payload);
        let target = far * u32::from(self.config.vc_count) + u32::from(state.vc);
        if let Some(look_ps) = self.wait_in_vain(target, bytes, self.now_ps) {
            if look_ps != u64::MAX {
                self.wake(port, look_ps);
            }
            return;
        }
        let transfer_ps = transfer_ps(bytes.into(), link.byte_time);
        let done_ps = self.now_ps + transfer_ps;
        let gap_ps = transfer_ps * u64::from(state.message.gap.milli_packets) / 1_000;
        let port_state = &mut self.ports[port as usize];
        port_state.free_ps = done_ps + gap_ps;
        port_state.sent_bytes += u64::from(bytes);
        port_state.sent_count += 1;
        self.counters.injected_packet_count += 1;
        if self.probe.watches() {
            self.probe.on_transmit(self.channels[port as usize], self.now_ps, done_ps, bytes);
        }
        let (waiting, order) = (&mut self.nics[nic as usize].waiting, self.config.nic_order);
        waiting.take_packet(&mut self.messages, &mut self.queue, order, (payload, done_ps));
        let packet = Packet {
            ready_ps: self.now_ps,
            way: state.way,
            next: NONE,
            message: handle,
            bytes,
            is_last: state.unsent_packets == 1,
        };
        let packet_handle = self.packets.insert(packet);
        match self.injected_ps.get_mut(packet_handle as usize) {
            Some(injected_ps) => *injected_ps = self.now_ps,
            None => self.injected_ps.push(self.now_ps),
        }
        let head_ps = self.now_ps + link.latency_ps + link.flit_ps;
        let tail_ps = done_ps + link.latency_ps;
        match (self.narrow, self.by_channel) {
            (true, true) => self.looks::<true>().enter(target, packet_handle, packet, link, head_ps, tail_ps),
            (true, false) => {
                self.looks::<false>().enter(target, packet_handle, packet, link, head_ps, tail_ps)
            }
            (false, _) => self.enter(target, packet_handle, packet, link, head_ps, tail_ps),
        }
        if self.nics[nic as usize].waiting.head != NONE {
            self.wake(port, done_ps + gap_ps);
        }
    }
}
