//! The device of a process that talks to itself, and the smallest complete example of a device: what the
//! tests of wrapping devices wrap.
//!
//! Packets wait in a queue of memory that is used again and again; puts and gets copy at once.

use ayatori_core::buffer::{Buffer, Payload, Piece, payload_len};
use ayatori_core::device::{
    Armed, Device, Event, Full, HEADER_BYTES_MAX, Incoming, Packet, RailCapabilities, RemoteKey,
    RemoteRegion, Submitted, Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use std::collections::VecDeque;

/// Packets that may wait.
const PACKETS_COUNT_MAX: usize = 64;

/// Connects a process with itself. See the [module's docs](self).
pub struct Loopback {
    process: ProcessId,
    rails: Vec<RailCapabilities>,
    queue: VecDeque<Held>,
    /// Memory of packets that were released.
    spare: Vec<Vec<u8>>,
    registered: Vec<Option<Buffer>>,
}

struct Held {
    rail: Rail,
    header_bytes: usize,
    bytes: Vec<u8>,
}

impl Loopback {
    /// One rail.
    pub fn new(process: ProcessId) -> Self {
        Self::with_rails(process, vec![Self::capabilities()])
    }

    /// Several rails, said to be able to do what is given.
    pub fn with_rails(process: ProcessId, rails: Vec<RailCapabilities>) -> Self {
        Self { process, rails, queue: VecDeque::new(), spare: Vec::new(), registered: Vec::new() }
    }

    /// What its rails can do unless told otherwise.
    pub fn capabilities() -> RailCapabilities {
        RailCapabilities {
            name: "loopback",
            packet_bytes_max: (16 << 10) + HEADER_BYTES_MAX,
            eager_bytes_max: 8 << 10,
            put: true,
            get: true,
            bandwidth_bytes_per_s: 10_000_000_000,
            latency_ps: 50_000,
            ..RailCapabilities::default()
        }
    }

    /// The registered memory that a region names, if it does.
    fn region(&self, remote: &RemoteRegion, len: usize) -> Option<Buffer> {
        let buffer = (*self.registered.get(remote.key.words[0] as usize)?)?;
        let offset = usize::try_from(remote.offset).ok()?;
        (offset <= buffer.len() && len <= buffer.len() - offset).then(|| buffer.part(offset, len))
    }
}

impl Device for Loopback {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        if peer == self.process { RailSet((1 << self.rails.len()) - 1) } else { RailSet::default() }
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        assert_eq!(to, self.process, "loopback reaches its own process only");
        assert!(header.len() + payload_len(&payload) <= self.rails[rail.0 as usize].packet_bytes_max);
        if self.queue.len() == PACKETS_COUNT_MAX {
            return Err(Full);
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(header);
        for piece in payload {
            bytes.extend_from_slice(piece.bytes().expect("no virtual payload on a real device"));
        }
        self.queue.push_back(Held { rail, header_bytes: header.len(), bytes });
        Ok(())
    }

    fn poll(&mut self) -> Option<Event> {
        let held = self.queue.front()?;
        Some(Event::Packet(Incoming { rail: held.rail, from: self.process, slot: 0 }))
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let held = self.queue.front().expect("a packet until it is released");
        let (header, payload) = held.bytes.split_at(held.header_bytes);
        Packet { header, payload: Piece::Bytes(payload) }
    }

    fn release(&mut self, _: Incoming) {
        self.spare.extend(self.queue.pop_front().map(|held| held.bytes));
    }

    fn register(&mut self, _: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let free = self.registered.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.registered.push(None);
            self.registered.len() - 1
        });
        self.registered[index] = Some(buffer);
        Some(RemoteKey { words: [index as u64, 0] })
    }

    fn deregister(&mut self, _: Rail, key: RemoteKey) {
        if let Some(registered) = self.registered.get_mut(key.words[0] as usize) {
            *registered = None;
        }
    }

    fn put(
        &mut self,
        _: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        _: Token,
    ) -> Result<Submitted, Full> {
        let Some(region) = self.region(&remote, local.len()) else { return Ok(Submitted::Refused) };
        region.copy_from(0, &local, 0, local.len());
        Ok(Submitted::Done)
    }

    fn get(
        &mut self,
        _: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        _: Token,
    ) -> Result<Submitted, Full> {
        let Some(region) = self.region(&remote, local.len()) else { return Ok(Submitted::Refused) };
        local.copy_from(0, &region, 0, local.len());
        Ok(Submitted::Done)
    }

    fn arm(&mut self) -> Armed {
        if self.queue.is_empty() { Armed::Armed } else { Armed::NotYet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_core::buffer::NO_PAYLOAD;

    const ME: ProcessId = ProcessId(3);

    #[test]
    fn packets_come_back_in_order_and_full_means_full() {
        let mut device = Loopback::new(ME);
        for round in 0..3u8 {
            for index in 0..PACKETS_COUNT_MAX as u8 {
                let payload = [Piece::Bytes(&[round]), Piece::Bytes(&[index])];
                device.send(Rail(0), ME, b"head", payload).unwrap();
            }
            assert_eq!(device.send(Rail(0), ME, b"more", NO_PAYLOAD), Err(Full));
            assert_eq!(device.arm(), Armed::NotYet);
            for index in 0..PACKETS_COUNT_MAX as u8 {
                let Some(Event::Packet(incoming)) = device.poll() else { panic!() };
                let packet = device.packet(&incoming);
                assert_eq!(
                    (packet.header, packet.payload.bytes()),
                    (&b"head"[..], Some(&[round, index][..]))
                );
                device.release(incoming);
            }
            assert_eq!((device.poll(), device.arm()), (None, Armed::Armed));
        }
    }

    #[test]
    fn puts_and_gets_copy_within_registered_memory_only() {
        let mut device = Loopback::new(ME);
        let mut memory: Vec<u8> = (0..100).collect();
        let mut other = vec![0u8; 10];
        // SAFETY: looked at only between calls.
        let (all, part) = unsafe {
            (Buffer::from_raw_parts(memory.as_mut_ptr(), 100), Buffer::from_raw_parts(other.as_mut_ptr(), 10))
        };
        let key = device.register(Rail(0), all).unwrap();
        let at = |offset| RemoteRegion { key, offset };
        assert_eq!(device.get(Rail(0), ME, part, at(90), Token(0)), Ok(Submitted::Done));
        assert_eq!(device.put(Rail(0), ME, part, at(0), Token(0)), Ok(Submitted::Done));
        assert_eq!(memory[..11], [90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 10]);
        for offset in [91, 100, u64::MAX] {
            assert_eq!(device.get(Rail(0), ME, part, at(offset), Token(0)), Ok(Submitted::Refused));
        }
        device.deregister(Rail(0), key);
        assert_eq!(device.get(Rail(0), ME, part, at(0), Token(0)), Ok(Submitted::Refused));
    }
}
