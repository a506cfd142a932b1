//! A device that has the front of a packet, for tests of those that are received in parts.

use crate::buffer::{Buffer, Payload, Piece};
use crate::device::{Armed, Device, Event, Fetched, Full, Incoming, Packet, RailCapabilities};
use crate::ids::{ProcessId, Rail, RailSet};
use alloc::vec::Vec;

/// The rest of the packet comes as `fetches` says.
pub(crate) struct Fronts {
    pub(super) rails: Vec<RailCapabilities>,
    pub(super) header: Vec<u8>,
    pub(super) fetches: Fetched,
    pub(super) fetched_count: u32,
    /// So many packets come, one after the other.
    pub(super) come_count: u32,
    pub(super) payload_bytes: usize,
    /// The header of what was sent last.
    pub(crate) sent: Vec<u8>,
    pub(super) flushed_count: u32,
}

impl Fronts {
    pub(crate) fn new(rails: Vec<RailCapabilities>, header: Vec<u8>, fetches: Fetched) -> Self {
        let (fetched_count, come_count, flushed_count) = (0, 0, 0);
        let (payload_bytes, sent) = (0, Vec::new());
        Self { rails, header, fetches, fetched_count, come_count, payload_bytes, sent, flushed_count }
    }
}

impl Device for Fronts {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }
    fn rails_to(&self, _: ProcessId) -> RailSet {
        RailSet((1 << self.rails.len()) - 1)
    }
    fn send(&mut self, _: Rail, _: ProcessId, header: &[u8], _: Payload<'_>) -> Result<(), Full> {
        self.sent = header.to_vec();
        Ok(())
    }
    fn flush(&mut self) {
        self.flushed_count += 1;
    }
    fn poll(&mut self) -> Option<Event> {
        self.come_count = self.come_count.checked_sub(1)?;
        let incoming = Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
        Some(Event::Front(incoming, self.payload_bytes))
    }
    fn packet(&self, _: &Incoming) -> Packet<'_> {
        Packet { header: &self.header, payload: Piece::EMPTY }
    }
    fn release(&mut self, _: Incoming) {}
    fn fetch(&mut self, _: &Incoming, _: Buffer) -> Fetched {
        self.fetched_count += 1;
        self.fetches
    }
    fn arm(&mut self) -> Armed {
        Armed::Armed
    }
}
