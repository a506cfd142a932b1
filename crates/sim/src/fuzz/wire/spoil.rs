//! What bugs on purpose make of packets.

use ayatori_core::ids::Rail;
use ayatori_core::survive::{Note, What};
use ayatori_core::wire::trunk::{self, Body, TrunkHeader};
use ayatori_core::wire::{self, Header};

use super::{Cargo, Wire};
use crate::fuzz::Bug;

impl Wire {
    /// What a bug makes of a packet. Whether it is to arrive twice.
    pub(in crate::fuzz) fn spoil(
        &mut self,
        pair: usize,
        header: &mut Vec<u8>,
        payload: &mut Vec<u8>,
    ) -> bool {
        if !self.is_trunk(pair) {
            return self.spoil_message(pair, header, payload);
        }
        let Ok((outer, length)) = trunk::parse(header) else { return false };
        match outer.body {
            Body::Stream => {
                let mut inner = header.split_off(length);
                // Twice is once for a link in trunk mode.
                self.spoil_message(pair, &mut inner, payload);
                header.extend(inner);
            }
            Body::Fragment { .. } if self.strikes(Bug::LostFragment) => {
                *header = TrunkHeader { body: Body::Probe, ..outer }.emit().as_slice().to_vec();
                payload.clear();
            }
            Body::Fragment { receiver, first, unit_bytes } if first > 0 && self.strikes(Bug::WrongUnit) => {
                let body = Body::Fragment { receiver, first: first - 1, unit_bytes };
                *header = TrunkHeader { body, ..outer }.emit().as_slice().to_vec();
            }
            _ => {}
        }
        false
    }

    fn spoil_message(&mut self, pair: usize, header: &mut Vec<u8>, payload: &mut [u8]) -> bool {
        let Ok((mut prefix, meaning, _)) = wire::parse(header) else { return false };
        prefix.sequence = prefix.sequence.wrapping_add(self.extra_packets[pair]);
        let mut twice = false;
        let meaning = match (self.bug, meaning) {
            (Some(Bug::LostFin), Header::Fin(_)) if self.strikes(Bug::LostFin) => Header::Credit,
            (Some(Bug::LostCts), Header::Cts { .. }) if self.strikes(Bug::LostCts) => Header::Credit,
            (Some(Bug::LostMatched), Header::Matched(_)) if self.strikes(Bug::LostMatched) => Header::Credit,
            (
                Some(Bug::EarlyDecision),
                Header::Note(Note { context, what: What::Prepare { instance, decision, .. } }),
            ) => Header::Note(Note { context, what: What::Commit { instance, decision } }),
            (Some(Bug::WrongTag), Header::Eager(mut envelope)) if self.strikes(Bug::WrongTag) => {
                envelope.tag ^= 1;
                Header::Eager(envelope)
            }
            (Some(Bug::WrongSource), Header::Eager(mut envelope)) if self.strikes(Bug::WrongSource) => {
                envelope.source ^= 1;
                Header::Eager(envelope)
            }
            (Some(Bug::WrongOffset), Header::Data { receiver, offset })
                if offset > 0 && self.strikes(Bug::WrongOffset) =>
            {
                Header::Data { receiver, offset: offset - 1 }
            }
            (Some(Bug::DoubleDelivery), Header::Eager(_)) => {
                twice = self.strikes(Bug::DoubleDelivery);
                meaning
            }
            _ => meaning,
        };
        if prefix.credits > 0 && self.strikes(Bug::LostCredit) {
            prefix.credits = 0;
        }
        if let (Header::Eager(_), Some(last)) = (&meaning, payload.last_mut())
            && self.strikes(Bug::ChangedByte)
        {
            *last ^= 0x40;
        }
        *header = meaning.emit(prefix).as_slice().to_vec();
        twice
    }

    /// Swaps the packet just sent with the one before it, sequence numbers staying where they are.
    pub(in crate::fuzz) fn overtake(&mut self, pair: usize, rail: Rail) {
        let lane = self.lanes_of(pair).start + usize::from(rail.0);
        let queue = &self.lanes[lane].packets;
        let (Some(&last), Some(&before)) = (queue.back(), queue.iter().rev().nth(1)) else { return };
        let envelope = |handle: u32| match &self.flights[handle].cargo {
            Cargo::Packet { header, .. } => wire::parse(header).ok().filter(|(_, meaning, _)| {
                matches!(meaning, Header::Eager(_) | Header::EagerSync(..) | Header::Rts { .. })
            }),
            _ => None,
        };
        let (Some((a, first, _)), Some((b, second, _))) = (envelope(before), envelope(last)) else { return };
        let [first, second] = [first.emit(b), second.emit(a)];
        for (handle, bytes) in [(before, first), (last, second)] {
            if let Cargo::Packet { header, .. } = &mut self.flights[handle].cargo {
                *header = bytes.as_slice().to_vec();
            }
        }
        let length = self.lanes[lane].packets.len();
        self.lanes[lane].packets.swap(length - 1, length - 2);
    }
}
