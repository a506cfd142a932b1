//! A device around another that tells somebody every call and what became of it.
//!
//! What is told is a [`Call`], as a value to test and to count with, and as a line to read through `Display`.
//! Polls that find nothing are counted and not told: there are millions of them.

use ayatori_core::buffer::{Buffer, Payload, payload_len};
use ayatori_core::device::{
    Armed, Device, Event, Fetched, Full, Gap, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::Duration;
use std::fmt;

/// One call of a device and its answer. Lengths in bytes.
#[derive(PartialEq, Eq, Debug)]
pub enum Call {
    /// [`Device::send`].
    Send {
        /// By which rail.
        rail: Rail,
        /// To whom.
        to: ProcessId,
        /// Length of the header.
        header_bytes: usize,
        /// Length of the payload.
        payload_bytes: usize,
        /// The answer.
        answer: Result<(), Full>,
    },
    /// [`Device::poll`] brought a packet.
    Receive {
        /// By which rail.
        rail: Rail,
        /// From whom.
        from: ProcessId,
        /// Length, header and payload.
        packet_bytes: usize,
    },
    /// [`Device::fetch`].
    Fetch {
        /// By which rail.
        rail: Rail,
        /// From whom.
        from: ProcessId,
        /// Length of the payload.
        payload_bytes: usize,
        /// The answer.
        answer: Fetched,
    },
    /// [`Device::poll`] brought something else.
    Report(Event),
    /// [`Device::put`].
    Put {
        /// By which rail.
        rail: Rail,
        /// To whom.
        to: ProcessId,
        /// Length.
        bytes: usize,
        /// The answer.
        answer: Result<Submitted, Full>,
    },
    /// [`Device::get`].
    Get {
        /// By which rail.
        rail: Rail,
        /// From whom.
        from: ProcessId,
        /// Length.
        bytes: usize,
        /// The answer.
        answer: Result<Submitted, Full>,
    },
    /// [`Device::register`]; whether it worked.
    Register(Rail, usize, bool),
    /// [`Device::deregister`].
    Deregister(Rail),
    /// [`Device::arm`].
    Arm(Armed),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { rail, to, header_bytes, payload_bytes, answer } => {
                write!(f, "send rail {} to {to}: {header_bytes}+{payload_bytes} B", rail.0)?;
                if answer.is_err() { write!(f, ": full") } else { Ok(()) }
            }
            Self::Receive { rail, from, packet_bytes } => {
                write!(f, "packet rail {} from {from}: {packet_bytes} B", rail.0)
            }
            Self::Fetch { rail, from, payload_bytes, answer } => {
                write!(f, "fetch rail {} from {from}: {payload_bytes} B: {answer:?}", rail.0)
            }
            Self::Report(event) => write!(f, "event {event:?}"),
            Self::Put { rail, to, bytes, answer } => {
                write!(f, "put rail {} to {to}: {bytes} B: {answer:?}", rail.0)
            }
            Self::Get { rail, from, bytes, answer } => {
                write!(f, "get rail {} from {from}: {bytes} B: {answer:?}", rail.0)
            }
            Self::Register(rail, bytes, worked) => {
                write!(f, "register rail {}: {bytes} B: {}", rail.0, if *worked { "yes" } else { "no" })
            }
            Self::Deregister(rail) => write!(f, "deregister rail {}", rail.0),
            Self::Arm(armed) => write!(f, "arm: {armed:?}"),
        }
    }
}

/// Wraps a device and tells `sink` of its calls. See the [module's docs](self).
pub struct Trace<D, S> {
    inner: D,
    sink: S,
    empty_polls_count: u64,
}

impl<D: Device, S: FnMut(Call)> Trace<D, S> {
    /// Wraps `inner`.
    pub fn new(inner: D, sink: S) -> Self {
        Self { inner, sink, empty_polls_count: 0 }
    }

    /// The device inside: its own methods (waiting, say) are called there.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Polls that found nothing so far.
    pub fn empty_polls_count(&self) -> u64 {
        self.empty_polls_count
    }
}

impl<D: Device, S: FnMut(Call)> Device for Trace<D, S> {
    fn rails(&self) -> &[RailCapabilities] {
        self.inner.rails()
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        self.inner.rails_to(peer)
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let answer = self.inner.send(rail, to, header, payload);
        let (header_bytes, payload_bytes) = (header.len(), payload_len(&payload));
        (self.sink)(Call::Send { rail, to, header_bytes, payload_bytes, answer });
        answer
    }

    fn poll(&mut self) -> Option<Event> {
        let event = self.inner.poll();
        match &event {
            None => self.empty_polls_count += 1,
            Some(Event::Packet(incoming)) => {
                let packet = self.inner.packet(incoming);
                let packet_bytes = packet.header.len() + packet.payload.len();
                (self.sink)(Call::Receive { rail: incoming.rail, from: incoming.from, packet_bytes });
            }
            // Told when it is fetched.
            Some(Event::Front(..)) => {}
            Some(Event::Completion(token, result)) => {
                (self.sink)(Call::Report(Event::Completion(*token, *result)));
            }
            Some(Event::RailDown(rail, peer)) => (self.sink)(Call::Report(Event::RailDown(*rail, *peer))),
            Some(Event::RailUp(rail, peer)) => (self.sink)(Call::Report(Event::RailUp(*rail, *peer))),
            Some(Event::PeerGone(peer)) => (self.sink)(Call::Report(Event::PeerGone(*peer))),
        }
        event
    }

    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        self.inner.packet(incoming)
    }

    fn release(&mut self, incoming: Incoming) {
        self.inner.release(incoming);
    }

    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        let answer = self.inner.fetch(incoming, into);
        let (rail, from) = (incoming.rail, incoming.from);
        (self.sink)(Call::Fetch { rail, from, payload_bytes: into.len(), answer });
        answer
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn expect(&mut self, from: Option<ProcessId>) {
        self.inner.expect(from);
    }

    fn register(&mut self, rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let key = self.inner.register(rail, buffer);
        (self.sink)(Call::Register(rail, buffer.len(), key.is_some()));
        key
    }

    fn deregister(&mut self, rail: Rail, key: RemoteKey) {
        self.inner.deregister(rail, key);
        (self.sink)(Call::Deregister(rail));
    }

    fn put(
        &mut self,
        rail: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let answer = self.inner.put(rail, to, local, remote, token);
        (self.sink)(Call::Put { rail, to, bytes: local.len(), answer });
        answer
    }

    fn get(
        &mut self,
        rail: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let answer = self.inner.get(rail, from, local, remote, token);
        (self.sink)(Call::Get { rail, from, bytes: local.len(), answer });
        answer
    }

    fn set_gap(&mut self, rail: Rail, peer: ProcessId, gap: Gap) {
        self.inner.set_gap(rail, peer, gap);
    }

    fn hops(&self, peer: ProcessId) -> u32 {
        self.inner.hops(peer)
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        self.inner.reset(rail, peer);
    }

    fn heard(&mut self, rail: Rail, peer: ProcessId) -> Option<Duration> {
        self.inner.heard(rail, peer)
    }

    fn arm(&mut self) -> Armed {
        let armed = self.inner.arm();
        (self.sink)(Call::Arm(armed));
        armed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback::Loopback;
    use ayatori_core::buffer::{NO_PAYLOAD, Piece};

    #[test]
    fn every_call_is_told_with_its_answer() {
        let me = ProcessId(1);
        let mut lines = Vec::new();
        let mut device = Trace::new(Loopback::new(me), |call: Call| lines.push(call.to_string()));
        device.send(Rail(0), me, b"head", [Piece::Bytes(b"body!"), Piece::EMPTY]).unwrap();
        let Some(Event::Packet(incoming)) = device.poll() else { panic!() };
        device.release(incoming);
        assert!(device.poll().is_none() && device.poll().is_none());
        assert_eq!(device.empty_polls_count(), 2);
        let key = device.register(Rail(0), Buffer::EMPTY).unwrap();
        device.get(Rail(0), me, Buffer::EMPTY, RemoteRegion { key, offset: 1 }, Token(0)).unwrap();
        device.deregister(Rail(0), key);
        assert_eq!(device.arm(), Armed::Armed);
        while device.send(Rail(0), me, b"", NO_PAYLOAD).is_ok() {}
        assert_eq!(
            lines[..6],
            [
                "send rail 0 to process 1: 4+5 B",
                "packet rail 0 from process 1: 9 B",
                "register rail 0: 0 B: yes",
                "get rail 0 from process 1: 0 B: Ok(Refused)",
                "deregister rail 0",
                "arm: Armed",
            ]
        );
        assert_eq!(lines.last().unwrap(), "send rail 0 to process 1: 0+0 B: full");
    }
}
