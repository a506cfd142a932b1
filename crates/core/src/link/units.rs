//! Units: the data of long messages, in any order, from the user's memory. Chooses the rail of the next
//! units, their number, and their way.

use super::rail::Carried;
use super::stripe::{self, View};
use super::{CELL_BYTES, Link, LinkIndex, Links, Policy};
use crate::buffer::Payload;
use crate::device::{Device, Full, RailCapabilities};
use crate::ids::{Rail, RailSet, RequestId, TransferId};
use crate::time::Instant;
use crate::wire::Header;
use crate::wire::trunk::{Body, FRAGMENT_HEADER_BYTES};
use alloc::vec;
use alloc::vec::Vec;

/// Into how many puts a rail's part of a message is cut, so that the policy can choose again between.
const PUTS_A_RAIL: u64 = 8;
/// Puts that should still follow on each rail: they become shorter towards the end, and all rails end
/// together.
const PUTS_TO_FOLLOW: u64 = 4;
/// The shortest put worth its cost, in bytes.
const PUT_BYTES_MIN: u64 = 64 << 10;
/// Bytes of a unit at most where several rails put: no packet has to hold it, and the shortest message that
/// goes by rendezvous is still to be divided among the rails.
const PUT_UNIT_BYTES_MAX: u32 = 4 << 10;
/// Length of a [`Header::Data`] header in bytes.
const DATA_HEADER_BYTES: usize = 24;

/// Neighbouring units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Run {
    pub(crate) fn units(self) -> core::ops::Range<u32> {
        self.first..self.first + self.count
    }

    /// Where the units lie in a message: offset and length in bytes.
    pub(crate) fn range(self, unit_bytes: u32, total: u64) -> (u64, u64) {
        let offset = u64::from(self.first) * u64::from(unit_bytes);
        let end = offset + u64::from(self.count) * u64::from(unit_bytes);
        (offset, end.min(total).saturating_sub(offset))
    }
}

/// Units of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Units {
    pub(crate) transfer: TransferId,
    /// The receiver's request.
    pub(crate) receiver: RequestId,
    pub(crate) unit_bytes: u32,
    pub(crate) run: Run,
}

/// Neighbouring units that one rail begins with, from the front. Others take from the end when theirs are
/// all sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) rail: Rail,
    /// Units still to be sent.
    pub(crate) rest: Run,
}

/// The units that a transfer has still to send, which decide where the next ones go.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    /// Rest of each rail's part. Only if the policy fixes the parts; else empty.
    pub(crate) fixed: &'a [Part],
    pub(crate) total_bytes: u64,
    pub(crate) unit_bytes: u32,
    /// Whether they are put.
    pub(crate) are_put: bool,
}

impl Rest<'_> {
    fn share_of(&self, rail: Rail) -> Option<u64> {
        let part = self.fixed.iter().find(|part| part.rail == rail)?;
        Some(u64::from(part.rest.count) * u64::from(self.unit_bytes))
    }
}

/// The rail for the next units.
pub(crate) enum Pick {
    Rail(Rail),
    /// No rail has room: go on when something is acknowledged.
    NoRoom,
    /// The rails that have room are full: go on when the device was polled.
    Full,
}

/// How much a packet of `packet_bytes` carries of a message: whole lines, where that is possible, for what
/// begins one is copied faster.
pub(super) fn whole_lines(packet_bytes: usize) -> u32 {
    let most = packet_bytes.saturating_sub(DATA_HEADER_BYTES);
    let unit = if most >= 64 { most & !63 } else { most.max(1) };
    u32::try_from(unit).unwrap_or(1 << 31)
}

/// A message in as few packets as can be, which are of about one length: whole lines. A short one at the end
/// would come in memory that was not used for long ones, and so not as quickly: two cores of an EPYC (Zen 3)
/// take 7.7 µs one way for 129 KiB, and with a last packet of 1 KiB 9.7.
fn even_bytes(length: u64, most: u32) -> u32 {
    let each = length.div_ceil(length.div_ceil(most.into()).max(1));
    each.next_multiple_of(CELL_BYTES as u64).min(most.into()) as u32
}

impl Link {
    /// Bytes of a unit of a message of so many, which may be put or not.
    pub(crate) fn unit_bytes(&self, length: u64, may_put: bool) -> u32 {
        match self.trunk {
            None if may_put => self.unit_bytes.min(self.put_bytes_max),
            None => even_bytes(length, self.unit_bytes),
            Some(_) if may_put => self.unit_bytes.min(PUT_UNIT_BYTES_MAX),
            Some(_) => self.unit_bytes,
        }
    }

    /// The part of a message that each rail begins with, and whether it carries all of that itself. Nothing
    /// while no rail works.
    pub(crate) fn parts(&mut self, units: u32) -> (Vec<Part>, bool) {
        let Some(trunk) = &mut self.trunk else {
            return (vec![Part { rail: self.rail, rest: Run { first: 0, count: units } }], false);
        };
        let policy = trunk.config.policy;
        trunk.look(self.unit_bytes);
        (stripe::shares(policy, &trunk.views, units), policy != Policy::Adaptive)
    }

    /// The bytes that a transfer has still to send were `before`, and are `after`.
    #[inline]
    pub(crate) fn unsent_changed(&mut self, before: u64, after: u64) {
        if let Some(trunk) = &mut self.trunk {
            trunk.backlog_bytes = (trunk.backlog_bytes + after).saturating_sub(before);
        }
    }

    /// Looks at the rails, before [`pick`](Self::pick).
    #[inline]
    pub(crate) fn look(&mut self) {
        if let Some(trunk) = &mut self.trunk {
            trunk.look(self.unit_bytes);
        }
    }

    /// The rail for the next units.
    #[inline]
    pub(crate) fn pick(&self, rest: &Rest<'_>) -> Pick {
        let Some(trunk) = &self.trunk else {
            return if self.pending.is_empty() { Pick::Rail(self.rail) } else { Pick::Full };
        };
        match pick(rest, &trunk.views, trunk.backlog_bytes) {
            Some(rail) => Pick::Rail(rail),
            None if trunk.some_full => Pick::Full,
            None => Pick::NoRoom,
        }
    }

    /// The device takes nothing by a rail just now. Whether another may be picked.
    pub(crate) fn rail_is_full(&mut self, rail: Rail) -> bool {
        let Some(trunk) = &mut self.trunk else { return false };
        trunk.rail_is_full(rail);
        true
    }

    /// Number of units in the next packet of a rail, from a run of neighbouring ones.
    pub(crate) fn packet_units(
        &self,
        rail: Rail,
        capabilities: &RailCapabilities,
        rest: &Rest<'_>,
        neighbours: u32,
    ) -> u64 {
        let Some(trunk) = &self.trunk else { return 1 };
        let unit = u64::from(rest.unit_bytes);
        let units = |packet_bytes: usize| packet_bytes.saturating_sub(FRAGMENT_HEADER_BYTES) as u64 / unit;
        let rooms = [capabilities.packet_bytes_max, capabilities.long_packet_bytes_max].map(units);
        let bytes = rest.share_of(rail).unwrap_or(trunk.backlog_bytes);
        let most = stripe::packet_units(&trunk.views, rail, unit, rooms, bytes);
        // Packets of like length, and no short one at the end.
        let left = u64::from(neighbours.max(1));
        left.div_ceil(left.div_ceil(most))
    }

    /// How many units one put takes.
    pub(crate) fn put_units(&self, rail: Rail, capabilities: &RailCapabilities, rest: &Rest<'_>) -> u64 {
        let (unit, most) = (u64::from(rest.unit_bytes), capabilities.transfer_bytes_max as u64);
        let Some(trunk) = &self.trunk else { return (most / unit).max(1) };
        let bytes = match rest.share_of(rail) {
            Some(left) if left > 0 => left,
            _ => put_bytes(rest.total_bytes, trunk.backlog_bytes, &trunk.views),
        };
        (bytes.min(most) / unit).max(1)
    }

    /// Sends units by a rail in a packet. Gives how many of a round's pieces that were. `is_end`: the
    /// transfer has no more.
    pub(crate) fn send_units<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        rail: Rail,
        (units, is_end): (&Units, bool),
        payload: Payload<'_>,
    ) -> Result<u32, Full> {
        let Units { transfer, receiver, unit_bytes, run } = *units;
        let Some(trunk) = &mut self.trunk else {
            let offset = u64::from(run.first) * u64::from(unit_bytes);
            let sent = self.offer(device, now, &Header::Data { receiver, offset }, payload);
            return if sent { Ok(0) } else { Err(Full) };
        };
        let length = crate::buffer::payload_len(&payload) as u64;
        let rest = trunk.backlog_bytes.saturating_sub(length);
        // As the rails were looked at last.
        let views = &trunk.views;
        let ack_now = is_end
            || stripe::fills(views, rail, length, self.unit_bytes.into(), rest)
            || stripe::is_last(views, rail, length, rest);
        let what = (Body::Fragment { receiver, first: run.first, unit_bytes }, ack_now);
        let state = trunk.rail_mut(rail).ok_or(Full)?;
        state.transmit(device, now, what, Some(Carried::Units(transfer, run)), &[], payload)?;
        Ok(run.count)
    }

    /// Whether units count as arrived only when the peer has acknowledged them, which an event reports. If
    /// not, they have arrived when the device has taken or put them.
    #[inline]
    pub(crate) fn settles_later(&self) -> bool {
        self.trunk.is_some()
    }

    /// The parts of a message that rails get: a rail, and where its part ends in bytes. `offered`: the rails
    /// by which the sender lets its memory be read. A get cannot be taken back for another rail, so the parts
    /// are by the rates that the device states, and not by measurement; a short message is got by fewer
    /// rails, those with the fewest gets and puts under way. Empty: any rail gets all of it.
    pub(crate) fn get_parts(&self, offered: RailSet, total_bytes: u64) -> Vec<(Rail, u64)> {
        let Some(trunk) = &self.trunk else { return Vec::new() };
        let views = trunk.least_busy(offered, get_rails_max(total_bytes), self.unit_bytes);
        get_ends(trunk.config.policy, &views, total_bytes)
    }

    /// A put or get of `bytes` begins on a rail.
    pub(crate) fn begin_operation(&mut self, rail: Rail, bytes: u64, now: Instant) {
        if let Some(state) = self.trunk.as_mut().and_then(|trunk| trunk.rail_mut(rail)) {
            state.begin_operation(bytes, now);
        }
    }

    /// It has ended, begun at `at`.
    pub(crate) fn end_operation(&mut self, rail: Rail, bytes: u64, at: Instant, worked: bool, now: Instant) {
        if let Some(trunk) = &mut self.trunk {
            trunk.end_operation(rail, bytes, at, worked, now);
        }
    }

    /// How many transfers wait for room on a rail.
    #[cfg(test)]
    pub(crate) fn waiting_count(&self) -> usize {
        self.trunk.as_ref().map_or(0, |trunk| trunk.waiting.len())
    }

    /// A transfer waits for room on a rail, behind those that wait, or in front of them.
    pub(crate) fn wait_for_room(&mut self, transfer: TransferId, in_front: bool) {
        let Some(trunk) = &mut self.trunk else { return };
        if in_front {
            trunk.waiting.push_front(transfer);
        } else {
            trunk.waiting.push_back(transfer);
        }
    }
}

impl Links {
    /// A rail has put units: the same rail tells the receiver. Only if [`Link::settles_later`].
    pub(crate) fn tell_placed(&mut self, index: LinkIndex, rail: Rail, units: Units) {
        if let Some(trunk) = &mut self.get_mut(index).trunk {
            trunk.placed.push_back((rail, units));
            self.list(index);
        }
    }
}

/// Bytes of one put of a message that is sent put by put, while `backlog_bytes` of all transfers are still to
/// be sent.
fn put_bytes(total_bytes: u64, backlog_bytes: u64, views: &[View]) -> u64 {
    let rails = views.len().max(1) as u64;
    (total_bytes / (rails * PUTS_A_RAIL)).min(backlog_bytes / (rails * PUTS_TO_FOLLOW)).max(PUT_BYTES_MIN)
}

/// How many rails get a message at most.
fn get_rails_max(total_bytes: u64) -> usize {
    usize::try_from(total_bytes / PUT_BYTES_MIN).unwrap_or(usize::MAX).max(1)
}

/// Where the part of each rail ends that gets some of a message.
fn get_ends(policy: Policy, views: &[View], total_bytes: u64) -> Vec<(Rail, u64)> {
    let policy = if policy == Policy::Even { Policy::Even } else { Policy::Weighted };
    let unit_bytes = u64::from(PUT_UNIT_BYTES_MAX);
    let Ok(units) = u32::try_from(total_bytes.div_ceil(unit_bytes)) else { return Vec::new() };
    let end = |run: Run| (u64::from(run.first + run.count) * unit_bytes).min(total_bytes);
    stripe::shares(policy, views, units).iter().map(|part| (part.rail, end(part.rest))).collect()
}

/// The rail for the next units, when `backlog_bytes` of all transfers are still to be sent.
fn pick(rest: &Rest<'_>, views: &[View], backlog_bytes: u64) -> Option<Rail> {
    let unit = u64::from(rest.unit_bytes);
    let with_share = |view: &&View| view.up && rest.share_of(view.rail).is_some_and(|left| left > 0);
    let mut shared = views.iter().filter(with_share).peekable();
    if shared.peek().is_none() {
        if !rest.are_put {
            return stripe::choose(views, unit, backlog_bytes, u64::MAX);
        }
        // A rail has two puts under way at most, one behind the other, and a little for packets. More that a
        // NIC carries side by side would end together, too late for the rest to be spread by what became of
        // them.
        let bytes = put_bytes(rest.total_bytes, backlog_bytes, views);
        return stripe::choose(views, bytes, backlog_bytes, bytes * 5 / 2);
    }
    // Shares are fixed: each rail with something left gets it as soon as it has room.
    let room =
        |view: &&View| view.outstanding_bytes == 0 || view.outstanding_bytes + unit <= view.window_bytes;
    shared.filter(room).min_by_key(|view| view.outstanding_bytes).map(|view| view.rail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::stripe::tests::view as view_of_rate;

    fn view(rail: u8, outstanding_bytes: u64, window_bytes: u64) -> View {
        View { outstanding_bytes, window_bytes, ..view_of_rate(rail, 8_000) }
    }

    #[test]
    fn packets_of_a_message_are_of_about_one_length() {
        let most = 128 << 10;
        for (length, each, count) in [
            (1, 64, 1),
            (most, most as u32, 1),
            (most + 1, 65_600, 2),
            (129 << 10, 66_048, 2),
            (257 << 10, 87_744, 3),
            (4 << 20, most as u32, 32),
        ] {
            let bytes = even_bytes(length, most as u32);
            assert_eq!((bytes, length.div_ceil(bytes.into())), (each, count), "{length}");
        }
        assert_eq!((even_bytes(0, 100), even_bytes(250, 100)), (0, 100), "lines do not fit");
    }

    #[test]
    fn units_are_whole_lines_where_a_packet_holds_one() {
        let packets = [0, DATA_HEADER_BYTES, 25, 87, 88, 151, 152, 1 << 40];
        assert_eq!(packets.map(whole_lines), [1, 1, 1, 63, 64, 64, 128, 1 << 31]);
    }

    #[test]
    fn of_fixed_shares_each_rail_takes_its_own_when_it_has_room() {
        let part = |(rail, count)| Part { rail: Rail(rail), rest: Run { first: 0, count } };
        let fixed = [(0, 2), (1, 3), (2, 0)].map(part);
        let rest = Rest { fixed: &fixed, total_bytes: 9000, unit_bytes: 1000, are_put: false };
        let pick = |views: &[View]| super::pick(&rest, views, 5000);
        assert_eq!(rest.share_of(Rail(1)), Some(3000));
        let mut views = [view(0, 500, 1500), view(1, 400, 1500), view(2, 0, 1500)];
        assert_eq!(pick(&views), Some(Rail(1)), "less is under way there; the third has carried its share");
        views[1].window_bytes = 1399;
        assert_eq!(pick(&views), Some(Rail(0)), "no room");
        views[0].up = false;
        assert_eq!(pick(&views), None);
        views[1].window_bytes = 1400;
        assert_eq!(pick(&views), Some(Rail(1)), "just room");
        (views[1].window_bytes, views[1].outstanding_bytes) = (10, 1);
        assert_eq!(pick(&views), None);
        views[1].outstanding_bytes = 0;
        assert_eq!(pick(&views), Some(Rail(1)), "an idle rail always takes one unit");
        let fixed = [Part { rail: Rail(0), rest: Run { first: 0, count: 1 } }];
        let rest = Rest { fixed: &fixed, unit_bytes: 1, ..rest };
        let views = [view(0, 500, 1_500), view(1, 0, 1_500)];
        assert_eq!(super::pick(&rest, &views, 1), Some(Rail(0)), "the last byte of its share");
    }

    #[test]
    fn a_message_is_put_in_parts_that_become_shorter() {
        let views = [view(0, 0, 1), view(1, 0, 1)];
        let mib = 1 << 20;
        assert_eq!(put_bytes(16 * mib, 16 * mib, &views), mib, "an eighth of a rail's part");
        assert_eq!(put_bytes(16 * mib, 4 * mib, &views), mib / 2, "four more are to follow on each rail");
        assert_eq!(put_bytes(16 * mib, mib / 4, &views), PUT_BYTES_MIN);
        assert_eq!(put_bytes(mib, 16 * mib, &views[..1]), mib / 8);
        assert_eq!(put_bytes(mib, 16 * mib, &[]), mib / 8);
    }

    #[test]
    fn parts_of_gets_are_by_stated_rates_and_not_too_short() {
        let views = [view(0, 0, 1), View { said_bytes_per_s: 3_000_000_000, ..view(1, 0, 1) }];
        let ends = |policy, total| get_ends(policy, &views, total);
        let mib = 1 << 20;
        assert_eq!(ends(Policy::Adaptive, mib), [(Rail(0), mib / 4), (Rail(1), mib)]);
        assert_eq!(ends(Policy::Weighted, mib), [(Rail(0), mib / 4), (Rail(1), mib)]);
        assert_eq!(ends(Policy::Even, mib + 5), [(Rail(0), mib / 2 + 4096), (Rail(1), mib + 5)]);
        assert_eq!(get_ends(Policy::Even, &views[..1], 7), [(Rail(0), 7)]);
        assert_eq!(ends(Policy::Even, 1 << 50), [], "units of such a message are not counted");
        let rails_max = [0, 1, (64 << 10) - 1, 64 << 10, 128 << 10, u64::MAX].map(get_rails_max);
        assert_eq!(rails_max[..5], [1, 1, 1, 1, 2]);
        assert!(rails_max[5] > 64);
    }
}
