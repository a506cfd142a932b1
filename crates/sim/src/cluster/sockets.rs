//! Packets through the operating system's sockets: what a send and a read take.
//!
//! A send copies a packet into the system, segment after segment; each is on its way while the next one is
//! copied. Who reads takes all that has come, copies it out, and looks again. So both sides are busy with a
//! long packet at once, and what that takes them is a rate of its own ([`Sockets::relay`]).
//!
//! Not modelled: windows that are full (a sender is never slower for a slow reader), and what the system does
//! on another core.

use std::rc::Rc;

use ayatori_core::device::{HEADER_BYTES_MAX, profiles};
use ayatori_core::ids::{ProcessId, Rail};
use ayatori_fabric::description::{LongerTime, RateWithin, SocketCosts};

use super::cpus::About;
use super::fabric::{Arrived, Cargo, Fabric, MEMORY_RAIL};
use super::software::MemoryWork;
use super::{Nic, software};

/// Costs of sockets. Times in ps, rates in bytes/s; a rate of `None` costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sockets {
    /// What the library takes the interface's rate for; `None`: for what it is.
    pub said_bytes_per_s: Option<u64>,
    /// A send, beside its bytes.
    pub send_ps: u64,
    /// Bytes sent while nobody reads.
    pub send_bytes_per_s: Option<u64>,
    /// A send right after another, beside its bytes, and such bytes.
    pub stream_ps: u64,
    /// See `stream_ps`.
    pub stream_bytes_per_s: Option<u64>,
    /// What a frame takes more that comes in several segments, the last of them short and read by itself: one
    /// of 64 KiB does not fit into one.
    pub segment_ps: u64,
    /// A read by a process that asks again and again, beside its bytes.
    pub receive_ps: u64,
    /// Bytes read while nobody sends.
    pub receive_bytes_per_s: Option<u64>,
    /// Sends, sends right after others and reads by their length, in place of the rates.
    pub longer_sends: Vec<LongerTime>,
    /// See `longer_sends`.
    pub longer_streams: Vec<LongerTime>,
    /// See `longer_sends`.
    pub longer_receives: Vec<LongerTime>,
    /// Bytes sent and read at once, by the memory that a process goes through.
    pub relay: Vec<RateWithin>,
    /// The same, of long packets that are sent right after those of other messages: the system queues more.
    pub stream: Vec<RateWithin>,
    /// The library's software for a packet, at either side, beside that of any packet.
    pub library_ps: u64,
    /// The library's sums of payload, at either side.
    pub checksum_bytes_per_s: Option<u64>,
}

impl Sockets {
    /// The costs that a description gives.
    pub fn of(costs: &SocketCosts) -> Sockets {
        let SocketCosts { send_ps, send_bytes_per_s, receive_ps, receive_bytes_per_s, .. } = *costs;
        let SocketCosts { said_bytes_per_s, segment_ps, library_ps, checksum_bytes_per_s, .. } = *costs;
        let [relay, stream] = [&costs.relay_rates, &costs.stream_rates].map(Vec::clone);
        Sockets {
            said_bytes_per_s,
            send_ps,
            send_bytes_per_s,
            stream_ps: costs.stream_ps.unwrap_or(send_ps),
            stream_bytes_per_s: costs.stream_bytes_per_s.or(send_bytes_per_s),
            segment_ps,
            receive_ps,
            receive_bytes_per_s,
            longer_sends: costs.longer_sends.clone(),
            longer_streams: match costs.longer_streams.is_empty() {
                true => costs.longer_sends.clone(),
                false => costs.longer_streams.clone(),
            },
            longer_receives: costs.longer_receives.clone(),
            relay,
            stream,
            library_ps,
            checksum_bytes_per_s,
        }
    }
}

/// What the system hands over at a time, bytes: 64 KiB with the headers of IP and TCP.
const SEGMENT_BYTES: usize = 65_483;
/// The longest that is read at a time, bytes (`ayatori_devices::tcp`, inflow).
const READ_BYTES: usize = profiles::TCP_PAYLOAD_BYTES_MAX;
/// Of a packet that is read in parts so much is copied once more, bytes (as above).
pub(super) const FETCHED_BEHIND_BYTES: usize = 16 << 10;
/// The sum of a longer payload follows it: with the next packet, or when the core says that none follows, in
/// a send of its own; bytes (`ayatori_devices::tcp`, connection).
const TAIL_BYTES: usize = 4;
const TAILED_BYTES: usize = profiles::TCP_PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX;

/// Whether a payload is so long that its sum follows it.
pub(super) fn is_tailed(payload_bytes: usize) -> bool {
    payload_bytes > TAILED_BYTES
}

/// The receiver's request that the data in a packet is for.
fn receiving_request(header: &[u8]) -> Option<u64> {
    match About::of(header) {
        About::Request(request) => Some(request),
        _ => None,
    }
}

/// So much is little: the library's shortest packet, bytes.
const FEW_BYTES: u64 = 64;

/// How bytes go through the system.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The other side does nothing meanwhile.
    Alone,
    /// Both sides are at it.
    AtOnce,
    /// Both sides, and there is a long queue between them.
    Stream,
}

/// What a process calls the system for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Send,
    /// Right after another.
    Stream,
    Receive,
}

impl Sockets {
    /// So many bytes beside a call, ps.
    fn alone_ps(&self, call: Call, bytes: u64) -> u64 {
        let (times, rate) = match call {
            Call::Send => (&self.longer_sends, self.send_bytes_per_s),
            Call::Stream => (&self.longer_streams, self.stream_bytes_per_s),
            Call::Receive => (&self.longer_receives, self.receive_bytes_per_s),
        };
        software::longer_ps(times, FEW_BYTES, bytes).unwrap_or_else(|| software::at_rate(bytes, rate))
    }
}

impl Fabric {
    /// What packets over a rail go through, if these are sockets.
    pub(super) fn sockets_of(&self, rail: u8) -> Option<Rc<Sockets>> {
        self.config.sockets.as_ref().filter(|_| rail != MEMORY_RAIL).cloned()
    }

    pub(super) fn has_sockets(&self, rail: u8) -> bool {
        self.config.sockets.is_some() && rail != MEMORY_RAIL
    }

    fn socket_ps(&self, rank: u32, way: Way, call: Call, bytes: usize) -> u64 {
        let Some(sockets) = &self.config.sockets else { return 0 };
        let working_set_bytes = self.states[rank as usize].working_set_bytes;
        let by_table = |rates: &[RateWithin]| software::time_ps(rates, bytes as u64, working_set_bytes);
        let at_once_ps = match way {
            Way::Alone => None,
            Way::AtOnce => by_table(&sockets.relay),
            Way::Stream => by_table(&sockets.stream).or_else(|| by_table(&sockets.relay)),
        };
        at_once_ps.unwrap_or_else(|| sockets.alone_ps(call, bytes as u64))
    }

    /// The system copies so many bytes from or to a process.
    fn spend_on_socket(&mut self, rank: u32, way: Way, call: Call, bytes: usize) {
        let own_ps = self.socket_ps(rank, way, call, bytes);
        let time_ps = self.work_ps(rank, 0, MemoryWork::copy(own_ps, bytes));
        self.spend_in_kernel(rank, time_ps);
    }

    /// Whether there is a long queue in front of a long packet of the message with this receiving request:
    /// the process begins to send it soon after another, within half of what that took, and after a packet
    /// of another message. An answer to as much as it has sent comes later.
    fn finds_queue(&mut self, rank: u32, request: Option<u64>) -> bool {
        let now_ps = self.clock_ps(rank);
        let state = &mut self.states[rank as usize];
        let follows_long = state
            .sent_long_ps
            .is_some_and(|[from_ps, until_ps]| now_ps <= until_ps + (until_ps - from_ps) / 2);
        if !follows_long {
            state.queue_begins_with = request;
        }
        follows_long && state.queue_begins_with != request
    }

    /// Puts a packet whose tail is kept back into the system with what is sent to the same process now.
    fn send_tail_along(&mut self, me: u32, to: u32, rail: u8) {
        let tails = &self.states[me as usize].tails;
        let Some(at) = tails.iter().position(|&tail| {
            let tail = &self.flights[tail];
            (tail.to, tail.rail) == (to, rail)
        }) else {
            return;
        };
        let tail = self.states[me as usize].tails.remove(at);
        self.flights[tail].is_read = true;
        self.leave(me, tail);
    }

    /// Sends the tails that are kept back, each by itself.
    pub(super) fn send_tails(&mut self, me: u32) {
        if self.states[me as usize].tails.is_empty() {
            return;
        }
        let send_ps = self.config.sockets.as_ref().map_or(0, |sockets| sockets.send_ps);
        for tail in std::mem::take(&mut self.states[me as usize].tails) {
            self.spend_in_kernel(me, send_ps);
            self.leave(me, tail);
        }
        let until_ps = self.clock_ps(me);
        let state = &mut self.states[me as usize];
        state.sent_until_ps = until_ps;
        if let Some([_, until]) = &mut state.sent_long_ps {
            *until = until_ps;
        }
    }

    /// A read brings this packet or part, and with it what else has come from the same process over the same
    /// rail.
    fn read_with_what_follows(&mut self, rank: u32, handle: u32) {
        let (from, rail) = (self.flights[handle].from, self.flights[handle].rail);
        let mut room_bytes = (READ_BYTES as u64).saturating_sub(self.flights[handle].bytes());
        for arrived in &self.states[rank as usize].inbox {
            let Arrived::Packet(next) = *arrived else { continue };
            let flight = &mut self.flights[next];
            if (flight.from, flight.rail) != (from, rail) {
                continue;
            }
            match room_bytes.checked_sub(flight.bytes()) {
                Some(rest_bytes) => (flight.is_read, room_bytes) = (true, rest_bytes),
                None => break,
            }
        }
    }
}

impl Nic<'_> {
    /// Sends a packet with so many bytes of payload; what is left of it leaves with the packet.
    /// So many bytes are ahead of it. The packet's tail is kept for the next, if it has one.
    pub(super) fn send_by_socket(
        &mut self,
        sockets: &Sockets,
        rail: Rail,
        to: ProcessId,
        header: &[u8],
        payload_bytes: usize,
    ) -> usize {
        let is_tailed = is_tailed(payload_bytes);
        let sum_ps = software::at_rate(payload_bytes as u64, sockets.checksum_bytes_per_s);
        let before_ps = if is_tailed { 0 } else { sum_ps };
        let fabric = &mut *self.fabric;
        let is_stream = fabric.states[self.me as usize].sent_until_ps == fabric.clock_ps(self.me);
        let (call_ps, call) = match is_stream {
            true => (sockets.stream_ps, Call::Stream),
            false => (sockets.send_ps, Call::Send),
        };
        fabric.spend(self.me, fabric.config.send_ps + sockets.library_ps + before_ps);
        fabric.spend_in_kernel(self.me, call_ps);
        let last_bytes = if is_tailed { TAIL_BYTES } else { 0 };
        let is_queued = is_tailed && fabric.finds_queue(self.me, receiving_request(header));
        let from_ps = fabric.clock_ps(self.me);
        let mut left_bytes = header.len() + payload_bytes - last_bytes;
        let mut ahead_bytes = 0;
        let mut way = Way::Alone;
        loop {
            let bytes = left_bytes.min(SEGMENT_BYTES);
            fabric.spend_on_socket(self.me, way, call, bytes);
            fabric.send_tail_along(self.me, to.0, rail.0);
            left_bytes -= bytes;
            if left_bytes == 0 && !is_tailed {
                fabric.states[self.me as usize].sent_until_ps = fabric.clock_ps(self.me);
                return ahead_bytes;
            }
            let next_bytes = left_bytes.min(SEGMENT_BYTES);
            fabric.depart(self.me, self.me, to.0, rail.0, Cargo::Part([bytes, next_bytes]));
            (ahead_bytes, way) = (ahead_bytes + bytes, if is_queued { Way::Stream } else { Way::AtOnce });
            if left_bytes == 0 {
                break;
            }
        }
        fabric.spend(self.me, sum_ps);
        let until_ps = fabric.clock_ps(self.me);
        let state = &mut fabric.states[self.me as usize];
        (state.sent_until_ps, state.sent_long_ps) = (until_ps, Some([from_ps, until_ps]));
        ahead_bytes
    }

    /// The next that has arrived, parts of packets excepted: those are read.
    pub(super) fn next_arrived(&mut self) -> Option<Arrived> {
        loop {
            let arrived = self.fabric.take_arrived(self.me)?;
            let Arrived::Packet(handle) = arrived else { return Some(arrived) };
            let Some(sockets) = self.fabric.sockets_of(self.fabric.flights[handle].rail) else {
                return Some(arrived);
            };
            if !self.fabric.flights[handle].is_read {
                let ends_frame =
                    matches!(self.fabric.flights[handle].cargo, Cargo::Packet { ahead_bytes: 1.., .. });
                let segment_ps = if ends_frame { sockets.segment_ps } else { 0 };
                self.fabric.spend_in_kernel(self.me, sockets.receive_ps + segment_ps);
                self.fabric.read_with_what_follows(self.me, handle);
            }
            let bytes = self.fabric.flights[handle].bytes();
            // As much of it is read while its sender sends the next part as there is of that.
            let (is_part, next_bytes) = match self.fabric.flights[handle].cargo {
                Cargo::Part([_, next_bytes]) => (true, next_bytes.min(bytes as usize)),
                _ => (false, 0),
            };
            let rest_bytes = bytes as usize - next_bytes;
            for (way, bytes) in [(Way::AtOnce, next_bytes), (Way::Alone, rest_bytes)] {
                self.fabric.spend_on_socket(self.me, way, Call::Receive, bytes);
            }
            self.fabric.spend(self.me, software::at_rate(bytes, sockets.checksum_bytes_per_s));
            if !is_part {
                self.fabric.spend(self.me, sockets.library_ps);
                return Some(arrived);
            }
            self.fabric.forget(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use crate::machine::nsim_torus;

    #[test]
    fn a_long_packet_behind_another_message_takes_the_stream_rate() {
        let rates = |bytes_per_s| vec![RateWithin { working_set_bytes: 1, bytes_per_s }];
        let (relay, stream) = (rates(4_000_000_000), rates(1_000_000_000));
        let send_bytes_per_s = Some(2_000_000_000);
        let sockets = Rc::new(Sockets { send_bytes_per_s, relay, stream, ..Sockets::default() });
        let config = Config { sockets: Some(sockets), ..Config::default() };
        let mut fabric = Fabric::new(nsim_torus(&[2], None).unwrap(), config, 2);
        let ways = [Way::Alone, Way::AtOnce, Way::Stream];
        assert_eq!(ways.map(|way| fabric.socket_ps(0, way, Call::Send, 8)), [4_000, 2_000, 8_000]);
        let (first, second) = (Some(7), Some(8));
        assert!(!fabric.finds_queue(0, first), "nothing went before");
        fabric.states[0].sent_long_ps = Some([0, 1_000]);
        let steps =
            [(1_000, first, false), (1_500, second, true), (1_500, first, false), (1_501, second, false)];
        for (now_ps, request, expected) in steps {
            fabric.states[0].clock_ps = now_ps;
            assert_eq!(fabric.finds_queue(0, request), expected, "{request:?} at {now_ps} ps");
        }
        fabric.states[0].clock_ps = 1_200;
        assert!(!fabric.finds_queue(0, second) && fabric.finds_queue(0, first), "the second began it");
        assert!(!fabric.finds_queue(1, first));
    }

    #[test]
    fn sends_and_reads_take_the_time_of_their_length() {
        let longer = |more_ps| vec![LongerTime { bytes: 1_064, more_ps }];
        let costs = SocketCosts {
            send_bytes_per_s: Some(1_000_000_000),
            longer_sends: longer(500),
            longer_receives: longer(200),
            ..SocketCosts::default()
        };
        let calls = [Call::Send, Call::Stream, Call::Receive];
        let sockets = Sockets::of(&costs);
        assert_eq!(calls.map(|call| sockets.alone_ps(call, 564)), [250, 250, 100]);
        let sockets = Sockets::of(&SocketCosts { longer_streams: longer(800), ..costs });
        assert_eq!(calls.map(|call| sockets.alone_ps(call, 1_064)), [500, 800, 200]);
    }
}
