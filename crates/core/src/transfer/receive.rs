//! The receiver of a long message.

use super::choose::{self, Announced, Failure, Rails, Shape, Way};
use super::spread::Gather;
use super::state::{Event, State};
use super::{Measured, Operation, Transfer, Transfers, What, Work, shape_of};
use crate::buffer::{Buffer, Payload, payload_len};
use crate::data::Data;
use crate::device::{Device, Full, Gap, RemoteRegion};
use crate::error::Blame;
use crate::ids::{Rail, RailSet, RequestId, TransferId};
use crate::link::{LinkIndex, Links, UnitsReceived};
use crate::request::Completion;
use crate::wire::{Header, Keys};
use alloc::vec::Vec;

/// While messages are sent, too, both sides copy in and out, and what one rank chooses takes the other's
/// time: both may measure rightly and stay with what is slower. So messages go in packets then if the peer
/// is near, and else those up to this length the way that was quicker, longer ones by get. (Two cores,
/// windows both ways, GB/s, by the kernel and by packets: 32 KiB 13 and 29, 64 KiB 18 and 30, 256 KiB 21 and
/// 28, 1 MiB 12 and 16; where they share no cache 9.5 and 13, 16.9 and 16.6, 22 and 17, 12 and 10.)
const BOTH_WAYS_BYTES_MAX: u64 = 64 << 10;

/// An announced message that is matched with a receive.
pub(crate) struct Matched {
    /// The receive.
    pub(crate) request: RequestId,
    pub(crate) link: LinkIndex,
    /// The sender's request.
    pub(crate) sender: RequestId,
    pub(crate) data: Data,
    /// How much of the message is taken, in bytes.
    pub(crate) total: u64,
    /// Where it may be got from.
    pub(crate) keys: Keys,
    /// Whether the sender would send packets, too.
    pub(crate) offers_packets: bool,
    /// How the receive completes.
    pub(crate) completion: Completion,
}

/// Bytes that one rail gets.
struct GetPart {
    rail: Rail,
    /// Where the next get begins in the message.
    next: u64,
    end: u64,
}

/// Bytes being got.
#[derive(Default)]
pub(super) struct Fetch {
    /// Handed to the device so far.
    issued: u64,
    in_flight: u32,
    /// The sender's memory.
    remote: Keys,
    /// Which rail gets what; the first that works gets what is of another. Empty: it gets all.
    parts: Vec<GetPart>,
    /// Whether the sender would send packets, too.
    offers_packets: bool,
    /// Why no more gets begin. Those in flight are awaited: a late get would read memory that the sender has
    /// deregistered.
    failure: Option<Failure>,
}

impl Transfers {
    /// A receive is matched with an announced message. Nothing moves before [`advance`](Self::advance).
    pub(crate) fn receive(&mut self, matched: Matched) -> TransferId {
        let Matched { request, link, sender, data, total, keys, offers_packets, completion } = matched;
        let id = self.transfers.reserve();
        self.transfers.put(id, || Transfer {
            request,
            context: None,
            link,
            state: State::Matched,
            data,
            total,
            other: sender,
            registered: Keys::default(),
            gap: Gap::NONE,
            completion,
            measured: Measured::Not,
            work: Work::Get(Fetch { remote: keys, offers_packets, ..Fetch::default() }),
        });
        self.active.push_back(id);
        id
    }

    /// Gets the data, or asks the sender for it.
    pub(super) fn choose_way<D: Device>(&mut self, device: &mut D, links: &mut Links, id: TransferId) {
        let Some(transfer) = self.transfers.get_mut(id) else { return };
        let Work::Get(fetch) = &transfer.work else { return };
        let (index, total, sender, receiver) =
            (transfer.link, transfer.total, transfer.other, transfer.request);
        let (sink, offered, got) = (shape_of(&transfer.data), fetch.remote.rails(), fetch.failure);
        let link = links.get(index);
        let rails = Rails { all: device.rails(), reach: link.rails() };
        let is_offered = fetch.offers_packets;
        // Pieces cost their packing on either way: what is measured would say little of other messages.
        let is_measured = got.is_none() && !offered.is_empty() && sink == Shape::Contiguous;
        let may_ask = is_measured && !is_offered && choose::streams_awaited(rails);
        // Presumably one of several that its sender waits for.
        let is_of_burst = may_ask
            && (!self.active.is_empty() || self.bursts.of(index).are_several())
            && device.is_waiting(link.peer());
        let is_both_ways = self.sends_count > 0 && (is_measured && is_offered || is_of_burst);
        let near = if is_both_ways { device.is_near(link.peer()) } else { None };
        // Of both ways, what is not learnt.
        let fixed = match near {
            Some(true) => Some(Way::Stream),
            _ if !is_both_ways || is_offered || total <= BOTH_WAYS_BYTES_MAX => None,
            Some(false) => Some(Way::Get),
            None => Some(Way::Stream),
        };
        let is_timed = is_of_burst || is_measured && is_offered && fixed.is_none();
        let now = if is_timed { device.time() } else { None };
        let (learnt, burst) = match now {
            Some(now) if is_of_burst => {
                let (learnt, burst) = self.bursts.of(index).join(total, fixed, now);
                (Some(learnt), burst)
            }
            Some(_) => (Some(self.learners.of(index).pick(total)), None),
            None => (None, None),
        };
        let offers_packets = is_offered || is_of_burst;
        let announced = Announced { length_bytes: total, sink, rails, offered, offers_packets, learnt, got };
        let choice = choose::answer(&announced);
        let Some(transfer) = self.transfers.get_mut(id) else { return };
        transfer.measured = match (burst, now) {
            // Its gets do not work: it is measured to its end, and so is its burst.
            _ if got.is_some() => transfer.measured,
            (Some(burst), _) => Measured::Burst(burst),
            (None, Some(now)) if is_offered => Measured::Alone(choice.way, now),
            _ => Measured::Not,
        };
        if choice.way == Way::Get {
            transfer.go(Event::Get);
            let ends = links.get(index).get_parts(choice.rails, total);
            if let Work::Get(fetch) = &mut transfer.work
                && !ends.is_empty()
            {
                let mut next = 0;
                let part = |(rail, end)| GetPart { rail, next: core::mem::replace(&mut next, end), end };
                fetch.parts = ends.into_iter().map(part).collect();
            }
            return;
        }
        transfer.go(Event::Ask);
        transfer.work = Work::Receive(Gather::new(total));
        let memory = transfer.data.as_memory();
        let keys = self.register(device, choice.rails, memory);
        if let Some(transfer) = self.transfers.get_mut(id) {
            transfer.registered = keys;
        }
        let header = Header::Cts { sender, receiver, length: total, keys };
        links.offer_or_queue(device, index, header, Data::EMPTY);
    }

    /// Issues gets. `false`: the device is full.
    pub(super) fn get<D: Device>(&mut self, device: &mut D, links: &mut Links, id: TransferId) -> bool {
        let mut full = RailSet::default();
        loop {
            let Some(transfer) = self.transfers.get_mut(id) else { return true };
            let Work::Get(fetch) = &mut transfer.work else { return true };
            if fetch.failure.is_none() && fetch.issued == transfer.total {
                transfer.go(Event::AllGiven);
                self.finish_gets(device, links, id);
                return true;
            }
            let link = links.get(transfer.link);
            let works = |rail| fetch.failure.is_none() && link.is_up(rail);
            if !fetch.remote.iter().any(|(rail, _)| works(rail)) {
                fetch.failure.get_or_insert(Failure::Refused);
                transfer.go(Event::Broken);
                self.finish_gets(device, links, id);
                return true;
            }
            let Some(next) = fetch.next(transfer.total, works, full) else { return false };
            let (rail, remote, length) = next;
            let most = device.rails()[usize::from(rail.0)].transfer_bytes_max.max(1);
            let on = (rail, remote, length.min(most as u64));
            match self.submit(device, links, id, on, What::Get(remote.offset)) {
                Err(Full) => full.0 |= RailSet::one(rail).0,
                Ok(true) => {}
                Ok(false) => {
                    if let Some(Transfer { work: Work::Get(fetch), .. }) = self.transfers.get_mut(id) {
                        fetch.failure = Some(Failure::Refused);
                    }
                }
            }
        }
    }

    /// A get has ended.
    pub(super) fn get_ended<D: Device>(
        &mut self,
        device: &mut D,
        links: &mut Links,
        operation: &Operation,
        offset: u64,
        worked: bool,
    ) {
        let id = operation.transfer;
        let Some(transfer) = self.transfers.get_mut(id) else { return };
        let Work::Get(fetch) = &mut transfer.work else { return };
        fetch.in_flight -= 1;
        if let Some((_, stage)) = operation.stage.as_ref().filter(|_| worked) {
            transfer.data.write(offset as usize, stage.piece());
        }
        if !worked {
            fetch.failure = Some(Failure::Broken);
            transfer.go(Event::Broken);
        }
        self.finish_gets(device, links, id);
    }

    /// Once no get is under way: tells the sender, if all data has been got; if gets do not work, the data
    /// goes another way.
    #[inline(always)]
    fn finish_gets<D: Device>(&mut self, device: &mut D, links: &mut Links, id: TransferId) {
        let Some(transfer) = self.transfers.get_mut(id) else { return };
        if !matches!(&transfer.work, Work::Get(fetch) if fetch.in_flight == 0) {
            return;
        }
        let state = transfer.state;
        if state == State::Draining && transfer.go(Event::Drained) {
            self.active.push_back(id);
        } else if state == State::Fetching && transfer.go(Event::Finished) {
            links.offer_or_queue(device, transfer.link, Header::Fin(transfer.other), Data::EMPTY);
            self.end(id);
        }
    }

    /// A fragment, by the order in which packets come.
    pub(crate) fn on_data(&mut self, id: TransferId, offset: u64, payload: Payload<'_>) -> Result<(), Blame> {
        const UNASKED: Blame = Blame("data for a request that receives none");
        let transfer = self.transfers.get_mut(id).ok_or(UNASKED)?;
        let Work::Receive(gather) = &mut transfer.work else { return Err(UNASKED) };
        let length = payload_len(&payload) as u64;
        gather.check_bytes(offset, length).map_err(Blame)?;
        let is_all = gather.on_bytes(length);
        transfer.data.write_payload(offset as usize, payload);
        if is_all && transfer.go(Event::Finished) {
            self.end(id);
        }
        Ok(())
    }

    /// Where a fragment belongs, if that is memory in one piece.
    pub(crate) fn place_of_data(&self, id: TransferId, offset: u64, length: usize) -> Option<Buffer> {
        let transfer = self.transfers.get(id)?;
        let Work::Receive(gather) = &transfer.work else { return None };
        gather.check_bytes(offset, length as u64).ok()?;
        Some(transfer.data.as_memory()?.part(offset as usize, length))
    }

    /// Units have come: in the payload, or by a put.
    pub(crate) fn on_units(
        &mut self,
        links: &mut Links,
        id: TransferId,
        units: &UnitsReceived,
        payload: Payload<'_>,
    ) -> Result<(), Blame> {
        let Some(transfer) = self.transfers.get_mut(id) else { return Ok(()) };
        // One that does not receive any more: what came twice may come late.
        let Work::Receive(gather) = &mut transfer.work else { return Ok(()) };
        let (run, offset) = gather.locate(units).map_err(Blame)?;
        // Some units of a run may have arrived before: writing them again changes nothing.
        if gather.come.count_in(run) < run.count {
            transfer.data.write_payload(offset as usize, payload);
        }
        if gather.come.add(run) && transfer.go(Event::Finished) {
            links.has_all(transfer.link);
            self.end(id);
        }
        Ok(())
    }

    /// Where units that a packet brings belong, if none of them has come, that is memory in one piece, and
    /// the peer does not put there: a put of the same units may be in place and word of it under way, and a
    /// packet that is damaged would be written over it.
    pub(crate) fn place_of_units(
        &mut self,
        id: TransferId,
        units: &UnitsReceived,
        length: usize,
    ) -> Option<Buffer> {
        let transfer = self.transfers.get_mut(id)?;
        let Work::Receive(gather) = &mut transfer.work else { return None };
        let (run, offset) = gather.locate(units).ok()?;
        let is_alone = gather.come.count_in(run) == 0 && transfer.registered.is_empty();
        let memory = transfer.data.as_memory().filter(|_| is_alone)?;
        Some(memory.part(offset as usize, length))
    }
}

impl Fetch {
    /// The next get of a message of `total` bytes, as long as the device allows: of the part with most left,
    /// among those whose rails are not `full`.
    fn next(
        &self,
        total: u64,
        works: impl Fn(Rail) -> bool,
        full: RailSet,
    ) -> Option<(Rail, RemoteRegion, u64)> {
        let working = || self.remote.iter().filter(|(rail, _)| works(*rail));
        let first = working().next()?;
        let of = |own, offset, end| {
            let (rail, key) = working().find(|(rail, _)| *rail == own).unwrap_or(first);
            (rail, RemoteRegion { key, offset }, end - offset)
        };
        if self.parts.is_empty() {
            return Some(of(first.0, self.issued, total)).filter(|(rail, ..)| !full.contains(*rail));
        }
        let left = self.parts.iter().filter(|part| part.next < part.end);
        let gets = left.map(|part| of(part.rail, part.next, part.end));
        gets.filter(|(rail, ..)| !full.contains(*rail)).max_by_key(|(.., length)| *length)
    }

    /// A get has begun.
    pub(super) fn began(&mut self, offset: u64, length: u64) {
        self.issued += length;
        self.in_flight += 1;
        let is_its = |part: &&mut GetPart| part.next == offset && part.next < part.end;
        if let Some(part) = self.parts.iter_mut().find(is_its) {
            part.next += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::RemoteKey;

    #[test]
    fn a_get_is_of_the_part_that_has_something_left_there() {
        let mut remote = Keys::default();
        (0..2).for_each(|rail| assert!(remote.push(Rail(rail), RemoteKey { words: [rail.into(), 0] })));
        let part = |rail, next, end| GetPart { rail: Rail(rail), next, end };
        let mut fetch =
            Fetch { remote, parts: Vec::from([part(0, 0, 10), part(1, 10, 16)]), ..Fetch::default() };
        let next = |fetch: &Fetch| {
            fetch
                .next(16, |_| true, RailSet::default())
                .map(|(rail, region, length)| (rail.0, region.offset, length))
        };
        assert_eq!(next(&fetch), Some((0, 0, 10)));
        fetch.began(0, 10);
        // Where the first part ends the second begins.
        assert_eq!(next(&fetch), Some((1, 10, 6)));
        fetch.began(10, 4);
        assert_eq!(next(&fetch), Some((1, 14, 2)));
        fetch.began(14, 2);
        assert_eq!((next(&fetch), fetch.issued, fetch.in_flight), (None, 16, 3));
    }
}
