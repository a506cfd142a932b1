//! Packets that arrive by a link, up to their meaning.

use super::fronts::Begun;
use super::{LinkEvent, LinkIndex, Links, Taker};
use crate::buffer::{NO_PAYLOAD, Payload, Piece, payload_len};
use crate::device::{Device, Incoming, Packet};
use crate::error::Blame;
use crate::ids::{ProcessId, Rail, RequestId};
use crate::wire::trunk::{self, Body, TrunkHeader};
use crate::wire::{self, Header, Prefix};
use alloc::vec::Vec;

/// Kind of a received packet.
pub(crate) enum Received<'a> {
    /// A packet of `wire` whose turn it is. [`Links::next_held`] may have those that follow it.
    Packet(Packet<'a>),
    /// Units of a transfer: their bytes, or word that they are in place.
    Units(UnitsReceived, Payload<'a>),
    /// Nothing for layers above the link.
    Nothing,
}

/// Units that a packet names.
#[derive(Clone, Copy)]
pub(crate) struct UnitsReceived {
    /// The receiver's request.
    pub(crate) receiver: RequestId,
    pub(crate) first: u32,
    pub(crate) unit_bytes: u32,
    pub(crate) carrying: Carrying,
    /// The smallest unit a correct peer takes, in bytes.
    pub(crate) unit_bytes_min: u32,
}

/// Data that a packet carries, or reports to be in place.
#[derive(Clone, Copy)]
pub(crate) enum Carrying {
    Bytes(u64),
    Units(u32),
}

/// The front of a packet: the meaning of its payload, which has not arrived yet.
pub(crate) enum Front {
    /// The next packet in turn; one that a rail numbers to be passed to [`Links::note_packet`] once its
    /// payload is in place.
    Packet(Prefix, Header, Option<TrunkHeader>),
    /// To be passed to [`Links::note_packet`] once its payload is in place.
    Units(UnitsReceived, TrunkHeader),
}

/// The smallest unit a correct peer takes, in bytes, where rails' packets hold as much.
const UNIT_BYTES_MIN: u32 = 256;

impl Links {
    /// Handles a packet of a link that is not [plain](super::Link::is_plain).
    pub(crate) fn receive<'a>(
        &mut self,
        index: LinkIndex,
        rail: Rail,
        packet: Packet<'a>,
    ) -> Result<Received<'a>, Blame> {
        let (header, len) = trunk::parse(packet.header)?;
        if header.body == Body::Bye {
            self.events.push_back(LinkEvent::Unreachable(index));
            return Ok(Received::Nothing);
        }
        self.note_packet(index, rail, &header, (packet.header.len() + packet.payload.len()) as u64);
        let rest = &packet.header[len..];
        let payload = match header.body {
            Body::Stream => return self.receive_stream(index, Packet { header: rest, ..packet }),
            Body::Placed { .. } => NO_PAYLOAD,
            _ => [Piece::Bytes(rest), packet.payload],
        };
        let units = self.units_of(index, header.body, payload_len(&payload));
        Ok(units.map_or(Received::Nothing, |units| Received::Units(units, payload)))
    }

    /// The units that a packet names, if it is about any.
    fn units_of(&self, index: LinkIndex, body: Body, payload_bytes: usize) -> Option<UnitsReceived> {
        let (receiver, first, unit_bytes, carrying) = match body {
            Body::Fragment { receiver, first, unit_bytes } => {
                (receiver, first, unit_bytes, Carrying::Bytes(payload_bytes as u64))
            }
            Body::Placed { receiver, first, unit_bytes, count } => {
                (receiver, first, unit_bytes, Carrying::Units(count))
            }
            _ => return None,
        };
        let unit_bytes_min = UNIT_BYTES_MIN.min(self.get(index).unit_bytes);
        Some(UnitsReceived { receiver, first, unit_bytes, carrying, unit_bytes_min })
    }

    /// A packet has come whole: acknowledgements are owed and taken.
    pub(crate) fn note_packet(&mut self, index: LinkIndex, rail: Rail, header: &TrunkHeader, bytes: u64) {
        let Some(trunk) = &mut self.links[index as usize].trunk else { return };
        if trunk.on_packet(rail, header, bytes, self.clock.now) {
            self.events.extend(trunk.settled.drain(..));
            self.wake_waiting(index);
        }
    }

    /// A packet of `wire`: handled when its turn has come.
    fn receive_stream<'a>(&mut self, index: LinkIndex, packet: Packet<'a>) -> Result<Received<'a>, Blame> {
        let sequence = wire::sequence_of(packet.header)?;
        let link = self.get_mut(index);
        let (next, Some(trunk)) = (link.next_sequence(), &mut link.trunk) else {
            return Ok(Received::Nothing);
        };
        Ok(match trunk.held.take_or_hold(sequence, next, &packet)? {
            true => Received::Packet(packet),
            false => Received::Nothing,
        })
    }

    /// The packet that came before its turn, if its turn has come now: header and payload, and how many bytes
    /// more are virtual. The caller gives its memory back.
    #[inline]
    pub(crate) fn next_held(&mut self, index: LinkIndex) -> Option<(Vec<u8>, usize)> {
        let link = self.get_mut(index);
        let next = link.next_sequence();
        link.trunk.as_mut()?.held.take(next)
    }

    /// Takes back the memory of a packet.
    pub(crate) fn give_back(&mut self, index: LinkIndex, bytes: Vec<u8>) {
        if let Some(trunk) = &mut self.get_mut(index).trunk {
            trunk.held.give_back(bytes);
        }
    }

    /// A packet's content has been handled: acknowledges it, if that is due.
    #[inline]
    pub(crate) fn handled(&mut self, index: LinkIndex) {
        let now = self.now();
        if self.get_mut(index).trunk.as_mut().is_some_and(|trunk| trunk.wants_flush(now)) {
            self.list(index);
        }
    }

    /// The data of a transfer is complete, by pieces on any rails. Its sender waits for all acknowledgements,
    /// but cannot always know the last piece on each rail to ask for them.
    pub(crate) fn has_all(&mut self, index: LinkIndex) {
        let now = self.now();
        if let Some(trunk) = &mut self.get_mut(index).trunk {
            trunk.rails.iter_mut().for_each(|state| state.arrived.hurry(now));
        }
    }

    /// Reads the front of a packet whose payload may go to its place before all of it has arrived: the packet
    /// is the next in turn, or needs no turn and no other rail brings the same data.
    pub(crate) fn front(
        &self,
        index: LinkIndex,
        rail: Rail,
        header: &[u8],
        payload_bytes: usize,
    ) -> Option<Front> {
        let link = self.get(index);
        let packet = |header: &[u8], numbered| {
            let (prefix, parsed, len) = wire::parse(header).ok()?;
            let is_next = prefix.sequence == link.next_sequence() && len == header.len();
            is_next.then_some(Front::Packet(prefix, parsed, numbered))
        };
        let Some(trunk) = &link.trunk else { return packet(header, None) };
        let (parsed, len) = trunk::parse(header).ok()?;
        match parsed.body {
            Body::Stream => return packet(&header[len..], Some(parsed)),
            Body::Fragment { .. } => {}
            _ => return None,
        }
        let units = self.units_of(index, parsed.body, payload_bytes)?;
        trunk.fronts.allow(rail, &units).then_some(Front::Units(units, parsed))
    }

    /// Whether the payload of the next packet in turn may be taken to a receive's memory as it comes by a
    /// rail: no other rail is bringing it, and what has been taken of it is there.
    pub(crate) fn may_take(&self, index: LinkIndex, rail: Rail, taker: Taker) -> bool {
        let link = self.get(index);
        let is_it = |begun: &Begun| begun.sequence == link.next_sequence();
        link.begun.filter(is_it).is_none_or(|begun| (begun.rail, begun.taker) == (rail, taker))
    }

    /// The front of the next packet in turn was looked at. `Some`: a part of its payload has been taken to a
    /// receive's memory.
    pub(crate) fn part_taken(&mut self, index: LinkIndex, rail: Rail, taker: Option<Taker>) {
        let link = self.get_mut(index);
        let sequence = link.next_sequence();
        match taker {
            Some(taker) => link.begun = Some(Begun { rail, sequence, taker }),
            None if link.begun.is_some_and(|begun| begun.rail == rail) => link.begun = None,
            None => {}
        }
    }

    /// The front of units was looked at. `Some`: a part of them is in its place, and more is to come.
    pub(crate) fn front_taken(&mut self, index: LinkIndex, rail: Rail, part_of: Option<&UnitsReceived>) {
        let Some(trunk) = &mut self.get_mut(index).trunk else { return };
        match part_of {
            Some(units) => trunk.fronts.begin(rail, units),
            None => trunk.fronts.end(rail),
        }
    }

    /// A packet of a peer that was given up. Unless it is a Bye, the peer gets a Bye, for it may wait for us.
    /// It goes by the rail that the packet came by; should it be lost, the peer's next packet brings another.
    #[cold]
    pub(crate) fn refuse<D: Device>(&mut self, device: &mut D, incoming: &Incoming, index: LinkIndex) {
        let now = self.now();
        let parsed = trunk::parse(device.packet(incoming).header);
        let wants_bye = parsed.is_ok_and(|(header, _)| header.body != Body::Bye);
        let trunk = self.get_mut(index).trunk.as_mut().filter(|_| wants_bye);
        if let Some(state) = trunk.and_then(|trunk| trunk.rail_mut(incoming.rail)) {
            let _ = state.tell(device, now, (Body::Bye, false), None);
        }
    }

    /// A device says that a rail broke, or works.
    #[cold]
    pub(crate) fn handle_rail<D: Device>(&mut self, device: &D, rail: Rail, peer: ProcessId, is_up: bool) {
        self.clock.is_unknown |= !self.want_time();
        let (index, now) = (self.to(device, peer), self.now());
        let Some(trunk) = self.get_mut(index).working_trunk() else { return };
        if is_up {
            trunk.on_rail_up(rail, now);
        } else {
            trunk.on_rail_down(rail, now);
        }
        self.wake_waiting(index);
        self.list(index);
    }
}
