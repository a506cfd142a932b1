//! Several rails to one peer as one link that keeps order and loses nothing while a rail is left.
//!
//! Two kinds of traffic. The *stream*: packets of `wire` in order, by their sequence; each is kept until
//! acknowledged and goes by the rail that delivers it first. *Units* of long messages, in any order, from the
//! user's memory, spread by policy ([`stripe`](super::stripe)). Both are numbered by rail
//! ([`rail`](super::rail)); packets that a rail has lost, or had not acknowledged when it was taken out
//! ([`health`](super::health)), are sent again, by the rail that is best then.

use super::fronts::Fronts;
use super::health::{Evidence, Health, SECOND_LOOK, judge};
use super::rail::{Carried, Measured, RailState};
use super::reorder::Reorder;
use super::stream::Stream;
use super::stripe::View;
use super::{LinkEvent, TrunkConfig, Units};
use crate::buffer::{Payload, payload_len};
use crate::device::{Device, RailCapabilities};
use crate::ids::{ProcessId, Rail, RailSet, TransferId};
use crate::time::{Duration, Instant};
use crate::wire::trunk::{Body, FRAGMENT_HEADER_BYTES, TRUNK_PREFIX_BYTES, TrunkHeader};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[derive(Default)]
pub(super) struct Trunk {
    pub(super) config: TrunkConfig,
    pub(super) rails: Vec<RailState>,
    stream: Stream,
    pub(super) held: Reorder,
    pub(super) fronts: Fronts,
    /// Units put in place; the rail that put them reports them to the receiver.
    pub(super) placed: VecDeque<(Rail, Units)>,
    /// Transfers that wait for room on a rail, first come first served.
    pub(super) waiting: VecDeque<TransferId>,
    /// Data of all messages that is still to be sent.
    pub(super) backlog_bytes: u64,
    /// Fate of units, to be reported to their transfers.
    pub(super) settled: Vec<LinkEvent>,
    /// Since when no rail works; where no rail ever has and nobody has been given up for it, since the last
    /// report of that.
    pub(super) none_up_since: Option<Instant>,
    /// The device has said that a rail works.
    was_up: bool,
    /// It was reported that no rail has ever worked.
    pub(super) is_never_reached: bool,
    /// Since when rails fall silent with data, and no data arrives by any.
    failing_since: Option<Instant>,
    /// The rails' state, as striping saw it last.
    pub(super) views: Vec<View>,
    /// Whether a rail was full since the rails were looked at.
    pub(super) some_full: bool,
}

/// A message of so many bytes may be a long packet, and none follows it.
const LONG_BYTES: usize = 32 << 10;

/// Bytes of a message's data that a packet holds on any rail, if the shortest packet has `packet_max` bytes.
pub(super) fn unit_bytes(packet_max: Option<usize>) -> u32 {
    let unit = packet_max.unwrap_or(0).saturating_sub(FRAGMENT_HEADER_BYTES).max(1);
    u32::try_from(unit).unwrap_or(u32::MAX)
}

impl Trunk {
    /// Between two processes, this one and its peer.
    pub(super) fn new<'a>(
        ends: [ProcessId; 2],
        rails: impl Iterator<Item = (Rail, &'a RailCapabilities)>,
        config: TrunkConfig,
    ) -> Self {
        let [_, peer] = ends;
        let mut rails: Vec<_> = rails.map(|(rail, what)| RailState::new(rail, peer, what)).collect();
        let count = rails.len();
        for (place, state) in rails.iter_mut().enumerate() {
            state.turn = turn(ends, place, count) as u8;
        }
        Self { config, rails, ..Self::default() }
    }

    /// Looks at the rails' state, for pieces of so many bytes.
    pub(super) fn look(&mut self, piece_bytes: u32) {
        self.some_full = false;
        self.views.clear();
        self.views.extend(self.rails.iter().map(|state| state.view(piece_bytes.into())));
    }

    /// Of these rails those that work and have the fewest puts and gets under way, at most so many.
    pub(super) fn least_busy(&self, rails: RailSet, count_max: usize, piece_bytes: u32) -> Vec<View> {
        let may_go = |state: &&RailState| state.health == Health::Up && rails.contains(state.rail);
        let mut least: Vec<&RailState> = self.rails.iter().filter(may_go).collect();
        least.sort_by_key(|state| (state.operation_count, state.turn));
        least.truncate(count_max);
        least.sort_by_key(|state| state.rail);
        least.into_iter().map(|state| state.view(piece_bytes.into())).collect()
    }

    /// The device takes nothing by a rail just now.
    pub(super) fn rail_is_full(&mut self, rail: Rail) {
        self.some_full = true;
        self.views.iter_mut().filter(|view| view.rail == rail).for_each(|view| view.up = false);
    }

    /// The rails that carry less than half of the best one, each relative to its stated rate: the
    /// measurements of both. For people.
    pub(super) fn slow_rails(&self) -> Vec<[Measured; 2]> {
        let measured = || self.rails.iter().filter_map(RailState::measured);
        let Some(best) = measured().reduce(|a, b| if a.is_behind(&b, 1) { b } else { a }) else {
            return Vec::new();
        };
        measured().filter(|one| one.is_behind(&best, 2)).map(|one| [one, best]).collect()
    }

    pub(super) fn rail_mut(&mut self, rail: Rail) -> Option<&mut RailState> {
        self.rails.iter_mut().find(|state| state.rail == rail)
    }

    fn any_up(&self) -> bool {
        self.rails.iter().any(|state| state.health == Health::Up)
    }

    /// Offers a packet of the stream. `false`: not now.
    pub(super) fn offer<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        sequence: u32,
        header: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        if !self.stream.has_room() || self.stream.next_again().is_some() {
            return false;
        }
        // A sender that can send no more until this has arrived asks for word of it.
        let fills = !self.stream.has_room_beside(header.len() + payload_len(&payload));
        let what = (sequence, fills);
        let sent = send_stream(&mut self.rails, device, now, what, header, payload);
        if sent {
            self.stream.keep(sequence, header, &payload);
        }
        sent
    }

    /// A put or get on a rail has ended.
    pub(super) fn end_operation(&mut self, rail: Rail, bytes: u64, at: Instant, worked: bool, now: Instant) {
        if let Some(state) = self.rail_mut(rail) {
            state.end_operation(bytes, at, worked, now);
            self.tell_others(rail);
        }
        if worked {
            self.failing_since = None;
        }
    }

    /// Tells the other rails how long one was busy, so that a rail without data learns that its rate is old.
    fn tell_others(&mut self, rail: Rail) {
        let Some(state) = self.rail_mut(rail) else { return };
        let time = core::mem::take(&mut state.rate.untold);
        if time > Duration::ZERO {
            let others = self.rails.iter_mut().filter(|state| state.rail != rail);
            others.for_each(|state| state.rate.on_others_busy(time));
        }
    }

    /// Retransmits lost packets, reports placed units, sends due acknowledgements. Returns whether anything
    /// was sent, and whether the device took everything.
    pub(super) fn flush<D: Device>(&mut self, device: &mut D, now: Instant) -> (bool, bool) {
        let mut took = false;
        while self.any_up()
            && let Some((sequence, kept)) = self.stream.next_again()
        {
            let (header, payload) = kept.parts();
            if !send_stream(&mut self.rails, device, now, (sequence, false), header, payload) {
                return (took, false);
            }
            self.stream.again_sent();
            took = true;
        }
        while let Some((rail, units)) = self.placed.front().copied() {
            if !self.send_placed(device, now, rail, &units) {
                return (took, false);
            }
            self.placed.pop_front();
            took = true;
        }
        let mut all = true;
        for state in self.rails.iter_mut().filter(|state| state.arrived.is_due(now)) {
            if state.health != Health::Down && state.tell(device, now, (Body::Ack, false), None).is_ok() {
                took = true;
            } else if state.health == Health::Up {
                all = false;
            } else {
                state.arrived.acked(now);
            }
        }
        (took, all)
    }

    /// `false`: the rail takes nothing now.
    fn send_placed<D: Device>(&mut self, device: &mut D, now: Instant, rail: Rail, units: &Units) -> bool {
        let Units { transfer, receiver, unit_bytes, run } = *units;
        let Some(state) = self.rail_mut(rail).filter(|state| state.health == Health::Up) else {
            self.settled.push(LinkEvent::Lost(transfer, run));
            return true;
        };
        let body = Body::Placed { receiver, first: run.first, unit_bytes, count: run.count };
        state.tell(device, now, (body, true), Some(Carried::Units(transfer, run))).is_ok()
    }

    /// Handles a packet of a rail. Returns whether it settled packets in flight.
    pub(super) fn on_packet(&mut self, rail: Rail, header: &TrunkHeader, bytes: u64, now: Instant) -> bool {
        let Self { rails, stream, settled, failing_since, none_up_since, .. } = self;
        let Some(state) = rails.iter_mut().find(|state| state.rail == rail) else { return false };
        state.heard_at = Some(now);
        if header.body != Body::Ack {
            let about = (header.ack_now, header.body == Body::Stream);
            state.arrived.note(header.number, bytes, about, now);
        }
        let (mut any, mut come, mut has_data_come) = (false, false, false);
        state.on_ack(&header.ack, now, |carried, arrived| {
            (any, come) = (true, come | arrived);
            has_data_come |= arrived && carried != Carried::Probe;
            settle(stream, settled, carried, arrived);
        });
        if has_data_come {
            *failing_since = None;
        }
        // A probe is answered: forgets the packets in flight from before the rail was taken out.
        if come && state.health == Health::Silent {
            state.take_back(now);
            *none_up_since = None;
        }
        self.tell_others(rail);
        any
    }

    fn take_out(&mut self, rail: Rail, health: Health) {
        let Self { rails, stream, settled, .. } = self;
        if let Some(state) = rails.iter_mut().find(|state| state.rail == rail) {
            state.take_out(health, |carried, come| settle(stream, settled, carried, come));
        }
    }

    /// The device says that a rail broke.
    pub(super) fn on_rail_down(&mut self, rail: Rail, now: Instant) {
        self.fronts.end(rail);
        self.take_out(rail, Health::Down);
        self.note_none_up(now);
    }

    /// The device says that a rail works.
    pub(super) fn on_rail_up(&mut self, rail: Rail, now: Instant) {
        self.was_up = true;
        if let Some(state) = self.rail_mut(rail)
            && state.health != Health::Up
        {
            state.take_back(now);
            self.none_up_since = None;
        }
    }

    fn note_none_up(&mut self, now: Instant) {
        self.none_up_since = if self.any_up() { None } else { self.none_up_since.or(Some(now)) };
    }

    /// Whether nothing was ever sent or received, and no rail has come up.
    pub(super) fn is_unused(&self) -> bool {
        !self.was_up && self.is_quiet() && self.rails.iter().all(RailState::is_unused)
    }

    /// Looks after time. `false`: the peer has been without a rail for too long, or without one that brings
    /// data.
    pub(super) fn check<D: Device>(&mut self, device: &mut D, now: Instant) -> bool {
        let mut is_lost = false;
        for index in 0..self.rails.len() {
            match self.rails[index].health {
                Health::Up => {
                    let owes_data = !self.is_quiet();
                    self.check_up(device, index, now);
                    if owes_data && self.rails[index].health == Health::Silent {
                        is_lost |= self.on_silent(index, now);
                    }
                }
                Health::Silent => self.rails[index].check_silent(device, self.config.probe_interval, now),
                Health::Down => {}
            }
        }
        self.note_none_up(now);
        !is_lost && self.none_up_since.is_none_or(|since| now < since + self.config.peer_timeout)
    }

    /// A rail with data has fallen silent. Whether that goes on for too long: rails come back, take data, and
    /// bring none. So it is where long frames are lost on the way, and all that is short arrives. A rail that
    /// has been up for long is no sign of that: its peer may compute.
    fn on_silent(&mut self, index: usize, now: Instant) -> bool {
        self.rails[index].silent_at = Some(now);
        let peer_timeout = self.config.peer_timeout;
        let since = *self.failing_since.get_or_insert(now);
        let fails = |state: &RailState| {
            state.health != Health::Up || state.silent_at.is_some_and(|at| now < at + peer_timeout)
        };
        now >= since + Duration(2 * peer_timeout.0) && self.rails.iter().all(fails)
    }

    fn check_up<D: Device>(&mut self, device: &mut D, index: usize, now: Instant) {
        if now >= self.rails[index].probe_at {
            self.ask(device, index, now);
        }
        let state = &self.rails[index];
        if now < state.judge_at || !state.is_waiting() {
            return;
        }
        let RailState { rail, peer, waiting_since, .. } = *state;
        let others = self.rails.iter().filter(|other| other.rail != rail);
        let others_heard_at = others.filter_map(|other| other.heard_at).max();
        let evidence = Evidence { waiting_since, others_heard_at, network_owes: device.heard(rail, peer) };
        let state = &mut self.rails[index];
        match (judge(&evidence, &self.config, now), state.suspect_since) {
            (Some(until), _) => (state.suspect_since, state.judge_at) = (None, until),
            (None, Some(since)) if now >= since + SECOND_LOOK => {
                self.take_out(rail, Health::Silent);
                self.rails[index].probe_at = now + self.config.probe_interval;
                device.reset(rail, peer);
            }
            (None, since) => {
                let since = since.unwrap_or(now);
                (state.suspect_since, state.judge_at) = (Some(since), since + SECOND_LOOK);
            }
        }
    }

    /// Asks a rail that owes acknowledgements; if of data, also those that owe none, to see whether the peer
    /// is awake. (If of questions too, an idle link that loses much would ask without end.)
    fn ask<D: Device>(&mut self, device: &mut D, index: usize, now: Instant) {
        if self.rails[index].carries_data() {
            let idle =
                self.rails.iter_mut().filter(|state| state.health == Health::Up && !state.is_waiting());
            idle.for_each(|state| state.probe(device, now));
        }
        self.rails[index].ask(device, now);
    }

    /// When [`check`](Self::check) or [`flush`](Self::flush) has something to do. `is_full`: the device has
    /// refused what is due already.
    pub(super) fn deadline(&self, is_full: bool) -> Instant {
        let deadline_of = |state: &RailState| {
            let due = state.arrived.due.filter(|_| !is_full && state.health != Health::Down);
            state.deadline().min(due.unwrap_or(Instant::FAR_FUTURE))
        };
        let give_up = self.none_up_since.map(|since| since + self.config.peer_timeout);
        self.rails.iter().map(deadline_of).chain(give_up).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Whether an acknowledgement or a retransmission is due now.
    pub(super) fn wants_flush(&mut self, now: Instant) -> bool {
        self.stream.next_again().is_some()
            || !self.placed.is_empty()
            || self.rails.iter().any(|state| state.arrived.is_due(now))
    }

    /// Whether the peer has all that was sent.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = |state: &RailState| !state.carries_data();
        self.stream.is_empty()
            && self.backlog_bytes == 0
            && self.placed.is_empty()
            && self.rails.iter().all(idle)
    }

    /// Probes a peer that has been silent for `interval` and owes nothing while a request waits for it. The
    /// rail then owes the probe's acknowledgement and is judged as usual.
    pub(super) fn keep_alive<D: Device>(&mut self, device: &mut D, interval: Duration, now: Instant) {
        let heard_at = self.rails.iter().filter_map(|state| state.heard_at).max();
        let is_busy = self.rails.iter().any(|state| state.health == Health::Up && state.is_waiting());
        // Whether a peer never met is there is found out by the device.
        if is_busy || self.is_unused() || heard_at.is_some_and(|at| now < at + interval) {
            return;
        }
        for index in 0..self.rails.len() {
            if self.rails[index].health == Health::Up {
                self.ask(device, index, now);
            }
        }
    }

    /// All packets in flight have arrived.
    pub(super) fn settle_all(&mut self) {
        let Self { rails, stream, settled, .. } = self;
        for state in rails {
            state.take_out(Health::Down, |carried, _| settle(stream, settled, carried, true));
        }
    }

    /// The peer is lost: no packet is in flight any more.
    pub(super) fn close(&mut self) {
        let rails = core::mem::take(&mut self.rails);
        *self = Self { config: self.config, rails, ..Self::default() };
        self.rails.iter_mut().for_each(RailState::close);
    }
}

/// Sends a packet of the stream by the best rail that takes it; `ack_now`: to be acknowledged at once.
fn send_stream<D: Device>(
    rails: &mut [RailState],
    device: &mut D,
    now: Instant,
    (sequence, ack_now): (u32, bool),
    header: &[u8],
    payload: Payload<'_>,
) -> bool {
    let carried = Some(Carried::Stream(sequence));
    let payload_bytes = payload_len(&payload);
    let mut send = |state: &mut RailState| {
        let sent = state.transmit(device, now, (Body::Stream, ack_now), carried, header, payload).is_ok();
        if sent && payload_bytes >= LONG_BYTES {
            device.flush();
        }
        sent
    };
    // Single rail: no choice to make.
    if let [only] = rails {
        return only.health == Health::Up && send(only);
    }
    let bytes = (TRUNK_PREFIX_BYTES + header.len() + payload_bytes) as u64;
    let mut full = RailSet::default();
    while let Some(state) = best_rail(rails, bytes, full, payload_bytes > 0) {
        if send(state) {
            return true;
        }
        full.0 |= RailSet::one(state.rail).0;
    }
    false
}

/// Reports the fate of a packet in flight: to the stream itself, and to requests by the list.
fn settle(stream: &mut Stream, settled: &mut Vec<LinkEvent>, carried: Carried, come: bool) {
    match carried {
        Carried::Stream(sequence) if come => stream.on_acknowledged(sequence),
        Carried::Stream(sequence) => stream.on_lost(sequence),
        Carried::Units(transfer, run) if come => settled.push(LinkEvent::Settled(transfer, run)),
        Carried::Units(transfer, run) => settled.push(LinkEvent::Lost(transfer, run)),
        Carried::Probe => {}
    }
}

/// The turn of the rail at a place among `count`, from 0: which of them takes a short message first where all
/// would deliver it at the same time. Links of the processes of a host, and the links of one process, begin
/// with different rails, so that messages to many peers do not all take the first. Both ends of a link begin
/// with the same one, so that acknowledgements go along with answers.
fn turn([a, b]: [ProcessId; 2], place: usize, count: usize) -> usize {
    // Processes of a host are often numbered in a row, or with a stride that the count divides: the sum of
    // the digits differs between neighbours in both cases.
    let digits = |number: u32| {
        let (mut sum, mut rest) = (0, number as usize);
        while rest > 0 && count > 1 {
            (sum, rest) = (sum + rest % count, rest / count);
        }
        sum
    };
    let first = (digits(a.0.min(b.0)) + digits(a.0.abs_diff(b.0).saturating_sub(1))) % count.max(1);
    (place + count - first) % count.max(1)
}

/// The rail for one packet that nothing follows: of those that work and are not `full`, the one that delivers
/// it first; of several, by turn or the first. Packets without data go by the first: a link that has seen its
/// own rail idle would give it more of long messages' data than others do, and measure it as faster still.
#[inline]
fn best_rail(rails: &mut [RailState], bytes: u64, full: RailSet, by_turn: bool) -> Option<&mut RailState> {
    let may_go = |state: &&mut RailState| state.health == Health::Up && !full.contains(state.rail);
    let key = |state: &&mut RailState| (state.finish_ps(bytes), if by_turn { state.turn } else { 0 });
    rails.iter_mut().filter(may_go).min_by_key(key)
}

#[cfg(test)]
mod tests;
