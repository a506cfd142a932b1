//! Packets whose front is reported before they are whole ([`Event::Front`]): their payload is fetched a part
//! at a time, to where it belongs. On links in trunk mode as TCP does it: each part once, and who does not go
//! on lets the packet go. On others as shared memory does: from the beginning each time, and what is not
//! fetched comes whole.

use ayatori_core::buffer::{Buffer, Piece};
use ayatori_core::device::{Event, Fetched, Incoming};
use ayatori_core::ids::{ProcessId, Rail};

use super::Wire;
use crate::fuzz::Bug;

/// A packet at the head of its lane. Nothing behind it is seen before it is whole.
#[derive(Debug)]
pub(super) struct Front {
    header: Vec<u8>,
    payload: Vec<u8>,
    /// How much has been fetched, bytes.
    fetched_bytes: usize,
    /// Whether the receiver took it when it was last told of it, or has not been told yet.
    is_wanted: bool,
}

/// What comes of looking at a front again.
pub(in crate::fuzz) enum Look {
    /// Its receiver is told of it, with its header.
    Again(Event, Vec<u8>),
    /// Its receiver wants none of it before it is whole.
    Whole(Vec<u8>, Vec<u8>),
    /// Its receiver has lost interest: it is no more.
    LetGo,
}

impl Front {
    pub(super) fn new(header: Vec<u8>, payload: Vec<u8>) -> Front {
        Front { header, payload, fetched_bytes: 0, is_wanted: true }
    }
}

impl Wire {
    /// Whether a packet that is next in turn is shown by its front.
    pub(super) fn comes_in_parts(&mut self, payload: &[u8]) -> bool {
        let front_one_in = self.moods.front_one_in;
        !payload.is_empty() && self.one_in(front_one_in)
    }

    /// The packet at the head of a lane is looked at again.
    pub(in crate::fuzz) fn look_at_front(&mut self, rail: Rail, from: u32, me: u32) -> Look {
        let lane = self.lane(rail, from, me);
        let is_trunk = self.is_trunk(self.pair(from, me));
        let is_whole = !is_trunk && self.one_in(2);
        let front = self.lanes[lane].front.as_mut().expect("the caller looked");
        if front.is_wanted && !is_whole {
            front.is_wanted = false;
            let incoming = Incoming { rail, from: ProcessId(from), slot: 0 };
            return Look::Again(Event::Front(incoming, front.payload.len()), front.header.clone());
        }
        let Some(Front { header, payload, fetched_bytes, .. }) = self.lanes[lane].front.take() else {
            return Look::LetGo;
        };
        if !is_trunk || fetched_bytes == 0 { Look::Whole(header, payload) } else { Look::LetGo }
    }

    /// Its receiver takes what has come of it.
    pub(in crate::fuzz) fn fetch(&mut self, rail: Rail, from: u32, me: u32, into: Buffer) -> Fetched {
        let lane = self.lane(rail, from, me);
        let mut front = self.lanes[lane].front.take().expect("it was told of a front");
        assert_eq!(into.len(), front.payload.len(), "a fetch of another length");
        let is_trunk = self.is_trunk(self.pair(from, me));
        if !is_trunk {
            front.fetched_bytes = 0;
        }
        let left = front.payload.len() - front.fetched_bytes;
        let come = if self.one_in(2) { left } else { 1 + self.random.below(left as u64) as usize };
        let part = front.fetched_bytes..front.fetched_bytes + come;
        if !self.strikes(Bug::EmptyFetch) {
            into.scatter(part.start, Piece::Bytes(&front.payload[part.clone()]));
        }
        front.fetched_bytes = part.end;
        if come < left {
            front.is_wanted = true;
            self.lanes[lane].front = Some(front);
            return Fetched::Part;
        }
        let damage_one_in = self.moods.damage_one_in;
        if is_trunk && self.one_in(damage_one_in) {
            // Damage is seen when all has been written.
            let at = self.random.below(into.len() as u64) as usize;
            into.scatter(at, Piece::Bytes(&[!front.payload[at]]));
            return Fetched::Lost;
        }
        // The message is handled now.
        self.note((from, me), &front.header, &front.payload);
        Fetched::Whole
    }
}
