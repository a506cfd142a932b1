//! NICs: messages cut into packets, in turn, with gaps between them.

use super::{Network, NicOrder, Packet, PortState, Probe, transfer_ps};
use crate::queue::Class;
use crate::slab::NONE;

impl<P: Probe> Network<P> {
    /// Puts a message last in its NIC's queue. Whether it is the only one there, so that the NIC must be woken: if not,
    /// the NIC has its next time to look, or waits for a credit, whatever is behind its first message.
    pub(super) fn enqueue_message(&mut self, nic: u32, handle: u32) -> bool {
        self.messages[handle].next = NONE;
        let state = &mut self.nics[nic as usize];
        let before = std::mem::replace(&mut state.tail, handle);
        if before == NONE {
            state.head = handle;
        } else {
            self.messages[before].next = handle;
        }
        before == NONE
    }

    fn dequeue_message(&mut self, nic: u32) {
        let state = &mut self.nics[nic as usize];
        state.head = self.messages[state.head].next;
        if state.head == NONE {
            state.tail = NONE;
        }
    }

    /// A NIC's time to look has come.
    #[inline(never)]
    pub(super) fn on_nic_port(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        // An earlier event has taken this one's place otherwise.
        if state.wake_ps == self.now_ps {
            state.wake_ps = u64::MAX;
            let free_ps = state.free_ps;
            if free_ps > self.now_ps { self.wake(port, free_ps) } else { self.inject(port) }
        }
    }

    /// Sends the next packet of a NIC, if it may go, and sets the next time to look.
    fn inject(&mut self, port: u32) {
        let PortState { far, owner: nic, .. } = self.ports[port as usize];
        let link = self.link_of(port);
        let handle = self.nics[nic as usize].head;
        if handle == NONE {
            return;
        }
        let state = self.messages[handle];
        let to_switch = self.nics[state.message.to.0 as usize].switch;
        let payload = state.unsent_bytes.min(self.config.payload_max_bytes().into()) as u32;
        let bytes = self.config.packet_bytes(payload);
        let vc = self.vc_of_class(0, to_switch);
        let target = far * u32::from(self.config.vc_count) + u32::from(vc);
        if let Some(look_ps) = self.room_for_injection(target, bytes) {
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
        self.take_from_message(nic, handle, payload, done_ps);
        let packet = Packet {
            ready_ps: self.now_ps,
            next: NONE,
            message: handle,
            to_nic: state.message.to.0,
            bytes,
            is_last: state.unsent_packets == 1,
            port: 0,
            vc: 0,
            run: 0,
        };
        let packet_handle = self.packets.insert(packet);
        match self.injected_ps.get_mut(packet_handle as usize) {
            Some(injected_ps) => *injected_ps = self.now_ps,
            None => self.injected_ps.push(self.now_ps),
        }
        let head_ps = self.now_ps + link.latency_ps + link.flit_ps;
        self.enter(target, packet_handle, packet, link, head_ps, done_ps + link.latency_ps);
        if self.nics[nic as usize].head != NONE {
            self.wake(port, done_ps + gap_ps);
        }
    }

    /// Takes a packet off the first message of a NIC, which is then done, first again, or last.
    fn take_from_message(&mut self, nic: u32, handle: u32, payload: u32, done_ps: u64) {
        let state = &mut self.messages[handle];
        state.unsent_bytes -= u64::from(payload);
        state.unsent_packets -= 1;
        if state.unsent_packets == 0 {
            let notify = state.message.notify_injected;
            self.dequeue_message(nic);
            if notify {
                self.queue.push(done_ps, Class::Injected, handle);
            }
        } else if self.config.nic_order == NicOrder::RoundRobin && state.next != NONE {
            self.dequeue_message(nic);
            let _ = self.enqueue_message(nic, handle);
        }
    }
}
