//! Several rails to one peer as one link that keeps order and loses nothing while a rail is left.
//!
//! Two kinds of traffic. The *stream*: packets of `wire` in order, by their sequence; each is kept until
//! acknowledged and goes by the rail that delivers it first. *Units* of long messages, in any order, from the
//! user's memory, spread by policy ([`stripe`]). Both are numbered by rail ([`rail`](super::rail)); packets
//! that a rail has lost, or had not acknowledged when it was taken out ([`health`](super::health)), are sent
//! again, by the rail that is best then.

use super::fronts::Fronts;
use super::health::{Evidence, Health, SECOND_LOOK, Verdict, judge};
use super::rail::{Carried, Measured, PATIENCE_MAX, RailState};
use super::reorder::Reorder;
use super::stream::Stream;
use super::stripe::{self, View};
use super::{LinkEvent, Policy, TrunkConfig, Units};
use crate::buffer::{NO_PAYLOAD, Payload, payload_len};
use crate::device::{Device, Full};
use crate::ids::{ProcessId, Rail, RailSet, TransferId};
use crate::time::{Duration, Instant};
use crate::wire::trunk::{Body, FRAGMENT_HEADER_BYTES, TRUNK_PREFIX_BYTES, TrunkHeader};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Unanswered questions to a silent rail that are remembered.
const PROBES_REMEMBERED: usize = 8;

pub(super) struct Trunk {
    peer: ProcessId,
    config: TrunkConfig,
    rails: Vec<RailState>,
    /// Size of a unit: what every rail's packets hold.
    pub(super) unit_bytes: u32,
    stream: Stream,
    pub(super) held: Reorder,
    pub(super) fronts: Fronts,
    /// Units put in place; the rail that put them reports them to the receiver.
    placed: VecDeque<(Rail, Units)>,
    /// Transfers that wait for room on a rail, first come first served.
    pub(super) waiting: VecDeque<TransferId>,
    /// Data of all messages that is still to be sent.
    pub(super) backlog_bytes: u64,
    /// Fate of units, to be reported to their transfers.
    pub(super) settled: Vec<LinkEvent>,
    /// Since when no rail works.
    none_up_since: Option<Instant>,
    /// Since when rails fall silent with data, and no data arrives by any.
    failing_since: Option<Instant>,
    views: Vec<View>,
    /// Whether a rail was full since the rails were looked at.
    pub(super) some_full: bool,
}

/// Bytes of a message's data that a packet holds on any rail, if the shortest packet has `packet_max` bytes.
pub(super) fn unit_bytes(packet_max: Option<usize>) -> u32 {
    let unit = packet_max.unwrap_or(0).saturating_sub(FRAGMENT_HEADER_BYTES).max(1);
    u32::try_from(unit).unwrap_or(u32::MAX)
}

impl Trunk {
    pub(super) fn new<D: Device>(device: &D, peer: ProcessId, rails: RailSet, config: TrunkConfig) -> Self {
        let states: Vec<RailState> =
            rails.iter().map(|rail| RailState::new(rail, &device.rails()[rail.0 as usize])).collect();
        let packet_max = rails.iter().map(|rail| device.rails()[rail.0 as usize].packet_bytes_max).min();
        Self {
            peer,
            config,
            views: Vec::with_capacity(states.len()),
            rails: states,
            unit_bytes: unit_bytes(packet_max),
            stream: Stream::default(),
            held: Reorder::default(),
            fronts: Fronts::default(),
            placed: VecDeque::new(),
            waiting: VecDeque::new(),
            backlog_bytes: 0,
            settled: Vec::new(),
            none_up_since: None,
            failing_since: None,
            some_full: false,
        }
    }

    /// The rails' state, as striping sees it.
    pub(super) fn views(&mut self) -> &mut Vec<View> {
        let piece = u64::from(self.unit_bytes);
        self.some_full = false;
        self.views.clear();
        self.views.extend(self.rails.iter().map(|state| state.view(piece)));
        &mut self.views
    }

    /// As [`views`](Self::views) last found them.
    pub(super) fn current_views(&self) -> &[View] {
        &self.views
    }

    /// Whether the acknowledgement of a piece that a rail takes will be waited for: it fills what may be
    /// under way there, as [`views`](Self::views) last found it, or it is the last one of the `rest_bytes`
    /// that go there.
    pub(super) fn will_wait_for(&self, rail: Rail, piece_bytes: u64, rest_bytes: u64) -> bool {
        stripe::fills(&self.views, rail, piece_bytes, u64::from(self.unit_bytes), rest_bytes)
            || stripe::is_last(&self.views, rail, piece_bytes, rest_bytes)
    }

    /// The device takes nothing by a rail just now.
    pub(super) fn rail_is_full(&mut self, rail: Rail) {
        self.some_full = true;
        self.views.iter_mut().filter(|view| view.rail == rail).for_each(|view| view.up = false);
    }

    /// State of each rail, for people.
    pub(super) fn health(&self) -> impl Iterator<Item = (Rail, Health)> + '_ {
        self.rails.iter().map(|state| (state.rail, state.health))
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

    fn rail_mut(&mut self, rail: Rail) -> Option<&mut RailState> {
        self.rails.iter_mut().find(|state| state.rail == rail)
    }

    /// Gives one packet to one rail. Acknowledgements that are owed go along.
    fn transmit<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        rail: Rail,
        (body, ack_now): (Body, bool),
        inner: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), Full> {
        let peer = self.peer;
        let state = self.rail_mut(rail).ok_or(Full)?;
        let header = TrunkHeader { number: state.next_number(), ack_now, ack: state.arrived.ack(now), body };
        let mut bytes = header.emit();
        bytes.put(inner);
        device.send(rail, peer, bytes.as_slice(), payload)?;
        state.arrived.acked(now);
        Ok(())
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
        let sent = self.send_stream(device, now, sequence, header, payload);
        if sent {
            self.stream.keep(sequence, header, &payload);
        }
        sent
    }

    /// By the best rail that takes it.
    fn send_stream<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        sequence: u32,
        header: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let bytes = (TRUNK_PREFIX_BYTES + header.len() + payload_len(&payload)) as u64;
        let mut send = |trunk: &mut Self, rail| {
            let is_sent = trunk.transmit(device, now, rail, (Body::Stream, false), header, payload).is_ok();
            if is_sent {
                let state = trunk.rail_mut(rail).expect("the policy names a rail there is");
                state.on_sent(Carried::Stream(sequence), bytes, now);
            }
            is_sent
        };
        // Single rail: no choice to make.
        if let [only] = &self.rails[..] {
            let (rail, is_up) = (only.rail, only.health == Health::Up);
            return is_up && send(self, rail);
        }
        let mut full = RailSet::default();
        while let Some(rail) = best_rail(&self.rails, bytes, full) {
            if send(self, rail) {
                return true;
            }
            full.0 |= RailSet::one(rail).0;
        }
        false
    }

    /// Sends a unit's bytes by a rail.
    pub(super) fn send_units<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        rail: Rail,
        units: &Units,
        payload: Payload<'_>,
        ack_now: bool,
    ) -> Result<(), Full> {
        let Units { transfer, receiver, unit_bytes, run } = *units;
        let body = Body::Fragment { receiver, first: run.first, unit_bytes };
        self.transmit(device, now, rail, (body, ack_now), &[], payload)?;
        let bytes = (FRAGMENT_HEADER_BYTES + payload_len(&payload)) as u64;
        let state = self.rail_mut(rail).expect("the policy names a rail there is");
        state.on_sent(Carried::Units(transfer, run), bytes, now);
        Ok(())
    }

    /// A put or get begins on a rail, or ends.
    pub(super) fn begin_operation(&mut self, rail: Rail, bytes: u64, now: Instant) {
        if let Some(state) = self.rail_mut(rail) {
            state.begin_operation(bytes, now);
        }
    }

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
        let time = state.rate.take_untold();
        if time > Duration::ZERO {
            let others = self.rails.iter_mut().filter(|state| state.rail != rail);
            others.for_each(|state| state.rate.on_others_busy(time));
        }
    }

    /// Units have been put: the next [`flush`](Self::flush) tells the receiver.
    pub(super) fn tell_placed(&mut self, rail: Rail, units: Units) {
        self.placed.push_back((rail, units));
    }

    /// Retransmits lost packets, reports placed units, sends due acknowledgements. Returns whether anything
    /// was sent, and whether the device took everything.
    pub(super) fn flush<D: Device>(&mut self, device: &mut D, now: Instant) -> (bool, bool) {
        let mut took = false;
        while let Some(sequence) = self.stream.next_again() {
            if !self.rails.iter().any(|state| state.health == Health::Up) {
                break;
            }
            // Taken out for the call, and put back: it may be needed again.
            let stream = core::mem::take(&mut self.stream);
            let kept = stream.get(sequence).expect("what goes again is kept");
            let header = &kept.bytes[..kept.header_bytes];
            let sent = self.send_stream(device, now, sequence, header, kept.payload());
            self.stream = stream;
            if !sent {
                return (took, false);
            }
            self.stream.again_sent();
            took = true;
        }
        for _ in 0..self.placed.len() {
            let Some(placed) = self.placed.pop_front() else { break };
            if !self.send_placed(device, now, placed.0, &placed.1) {
                self.placed.push_front(placed);
                return (took, false);
            }
            took = true;
        }
        let (acked, all) = self.flush_acks(device, now);
        (took | acked, all)
    }

    /// `false`: the rail takes nothing now.
    fn send_placed<D: Device>(&mut self, device: &mut D, now: Instant, rail: Rail, units: &Units) -> bool {
        let Units { transfer, receiver, unit_bytes, run } = *units;
        if self.rail_mut(rail).is_none_or(|state| state.health != Health::Up) {
            self.settled.push(LinkEvent::Lost(transfer, run));
            return true;
        }
        let body = Body::Placed { receiver, first: run.first, unit_bytes, count: run.count };
        if self.transmit(device, now, rail, (body, true), &[], NO_PAYLOAD).is_err() {
            return false;
        }
        if let Some(state) = self.rail_mut(rail) {
            state.on_sent(Carried::Units(transfer, run), 0, now);
        }
        true
    }

    fn flush_acks<D: Device>(&mut self, device: &mut D, now: Instant) -> (bool, bool) {
        let (mut took, mut all) = (false, true);
        for index in 0..self.rails.len() {
            let RailState { rail, health, ref arrived, .. } = self.rails[index];
            if arrived.due().is_none_or(|due| due > now) {
                continue;
            }
            if health == Health::Down {
                self.rails[index].arrived.acked(now);
            } else if self.transmit(device, now, rail, (Body::Ack, false), &[], NO_PAYLOAD).is_ok() {
                took = true;
            } else if health == Health::Silent {
                self.rails[index].arrived.acked(now);
            } else {
                all = false;
            }
        }
        (took, all)
    }

    /// Handles a packet of a rail. Returns whether it settled packets in flight.
    pub(super) fn on_packet(&mut self, rail: Rail, header: &TrunkHeader, bytes: u64, now: Instant) -> bool {
        let Some(state) = self.rails.iter_mut().find(|state| state.rail == rail) else { return false };
        let mut settled = core::mem::take(&mut self.settled);
        let stream = &mut self.stream;
        state.heard_at = Some(now);
        if header.body != Body::Ack {
            state.arrived.note(header.number, bytes, header.ack_now, now);
        }
        let (mut any, mut come, mut has_data_come) = (false, false, false);
        state.on_ack(&header.ack, now, |carried, arrived| {
            (any, come) = (true, come | arrived);
            has_data_come |= arrived && carried != Carried::Probe;
            settle(stream, &mut settled, carried, arrived);
        });
        if has_data_come {
            self.failing_since = None;
        }
        // A probe is answered: forgets the packets in flight from before the rail was taken out.
        if come && state.health == Health::Silent {
            state.take_back(now);
            self.none_up_since = None;
        }
        self.settled = settled;
        self.tell_others(rail);
        any
    }

    fn take_out(&mut self, rail: Rail, health: Health) {
        let mut settled = core::mem::take(&mut self.settled);
        let stream = &mut self.stream;
        if let Some(state) = self.rails.iter_mut().find(|state| state.rail == rail) {
            state.take_out(health, |carried, come| settle(stream, &mut settled, carried, come));
        }
        self.settled = settled;
    }

    /// The device says that a rail broke.
    pub(super) fn on_rail_down(&mut self, rail: Rail, now: Instant) {
        self.fronts.end(rail);
        self.take_out(rail, Health::Down);
        self.note_none_up(now);
    }

    /// The device says that a rail works.
    pub(super) fn on_rail_up(&mut self, rail: Rail, now: Instant) {
        if let Some(state) = self.rail_mut(rail)
            && state.health != Health::Up
        {
            state.take_back(now);
            self.none_up_since = None;
        }
    }

    fn note_none_up(&mut self, now: Instant) {
        if self.rails.iter().any(|state| state.health == Health::Up) {
            self.none_up_since = None;
        } else {
            self.none_up_since.get_or_insert(now);
        }
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
                Health::Silent => self.check_silent(device, index, now),
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
        let others = self.rails.iter().filter(|other| other.rail != state.rail);
        let rail = state.rail;
        let evidence = Evidence {
            waiting_since: state.waiting_since(),
            others_heard_at: others.filter_map(|other| other.heard_at).max(),
            network_owes: device.heard(rail, self.peer),
        };
        let state = &mut self.rails[index];
        match (judge(&evidence, &self.config, now), state.suspect_since) {
            (Verdict::Wait(until), _) => {
                state.suspect_since = None;
                state.judge_at = until;
            }
            (Verdict::LookAgain, Some(since)) if now >= since + SECOND_LOOK => {
                self.take_out(rail, Health::Silent);
                self.rails[index].probe_at = now + self.config.probe_interval;
                device.reset(rail, self.peer);
            }
            (Verdict::LookAgain, since) => {
                let since = since.unwrap_or(now);
                state.suspect_since = Some(since);
                state.judge_at = since + SECOND_LOOK;
            }
        }
    }

    /// Asks a rail that owes acknowledgements; if of data, also those that owe none, to see whether the peer
    /// is awake. (If of questions too, an idle link that loses much would ask without end.)
    fn ask<D: Device>(&mut self, device: &mut D, index: usize, now: Instant) {
        let (asked, owes_data) = (self.rails[index].rail, self.rails[index].carries_data());
        let idle = |state: &&RailState| {
            owes_data && state.rail != asked && state.health == Health::Up && !state.is_waiting()
        };
        let others: RailSet = RailSet(self.rails.iter().filter(idle).map(|state| 1 << state.rail.0).sum());
        for rail in others.iter().chain([asked]) {
            if self.transmit(device, now, rail, (Body::Probe, true), &[], NO_PAYLOAD).is_ok()
                && let Some(state) = self.rail_mut(rail)
            {
                state.on_sent(Carried::Probe, 0, now);
            }
        }
        let state = &mut self.rails[index];
        state.probes += 1;
        let next =
            Duration(state.rate.rtt().0.saturating_mul(4)) + Duration::from_ms(20 << state.probes.min(4));
        state.probe_at = now + next.min(PATIENCE_MAX);
    }

    fn check_silent<D: Device>(&mut self, device: &mut D, index: usize, now: Instant) {
        if now < self.rails[index].probe_at {
            return;
        }
        let rail = self.rails[index].rail;
        let sent = self.transmit(device, now, rail, (Body::Probe, true), &[], NO_PAYLOAD).is_ok();
        let state = &mut self.rails[index];
        if sent {
            state.forget_but(PROBES_REMEMBERED);
            state.on_sent(Carried::Probe, 0, now);
        }
        state.probe_at = now + self.config.probe_interval;
    }

    /// When [`check`](Self::check) or [`flush`](Self::flush) has something to do. `is_full`: the device has
    /// refused what is due already.
    pub(super) fn deadline(&self, is_full: bool) -> Instant {
        let ack = |state: &RailState| state.arrived.due().filter(|_| !is_full).unwrap_or(Instant::FAR_FUTURE);
        let rails = self.rails.iter().map(|state| match state.health {
            Health::Up => state.deadline().min(ack(state)),
            Health::Silent => state.probe_at.min(ack(state)),
            Health::Down => Instant::FAR_FUTURE,
        });
        let give_up =
            self.none_up_since.map_or(Instant::FAR_FUTURE, |since| since + self.config.peer_timeout);
        rails.min().unwrap_or(Instant::FAR_FUTURE).min(give_up)
    }

    /// A message's data is complete, by pieces on any rails. Its sender waits for all acknowledgements, but
    /// cannot always know the last piece on each rail to ask for them.
    pub(super) fn has_all(&mut self, now: Instant) {
        self.rails.iter_mut().for_each(|state| state.arrived.hurry(now));
    }

    /// Whether an acknowledgement or a retransmission is due now.
    pub(super) fn wants_flush(&mut self, now: Instant) -> bool {
        let due = |state: &RailState| state.arrived.due().is_some_and(|due| due <= now);
        self.stream.next_again().is_some() || !self.placed.is_empty() || self.rails.iter().any(due)
    }

    /// Whether the peer has all that was sent.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = |state: &RailState| !state.carries_data();
        self.stream.is_empty()
            && self.backlog_bytes == 0
            && self.placed.is_empty()
            && self.rails.iter().all(idle)
    }

    /// Whether a rail works, as far as is known.
    pub(super) fn is_up(&self, rail: Rail) -> bool {
        self.rails.iter().any(|state| state.rail == rail && state.health == Health::Up)
    }

    /// Probes a peer that has been silent for `interval` and owes nothing while a request waits for it. The
    /// rail then owes the probe's acknowledgement and is judged as usual.
    pub(super) fn keep_alive<D: Device>(&mut self, device: &mut D, interval: Duration, now: Instant) {
        let heard_at = self.rails.iter().filter_map(|state| state.heard_at).max();
        let is_busy = self.rails.iter().any(|state| state.health == Health::Up && state.is_waiting());
        if is_busy || heard_at.is_some_and(|at| now < at + interval) {
            return;
        }
        for index in 0..self.rails.len() {
            if self.rails[index].health == Health::Up {
                self.ask(device, index, now);
            }
        }
    }

    /// Tells a peer that was given up, and does not know, that it is not talked to any more. It goes by the
    /// rail that its packet came by; should it be lost, the peer's next packet brings another.
    pub(super) fn refuse<D: Device>(&mut self, device: &mut D, rail: Rail, now: Instant) {
        let _ = self.transmit(device, now, rail, (Body::Bye, false), &[], NO_PAYLOAD);
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
        self.stream = Stream::default();
        self.held = Reorder::default();
        self.placed.clear();
        self.waiting.clear();
        self.settled.clear();
        self.backlog_bytes = 0;
        (self.none_up_since, self.failing_since) = (None, None);
        self.rails.iter_mut().for_each(RailState::close);
    }

    /// The policy.
    pub(super) fn policy(&self) -> Policy {
        self.config.policy
    }
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

/// The rail for one packet that nothing follows: of those that work and are not `full`, the one that delivers
/// it first.
#[inline]
fn best_rail(rails: &[RailState], bytes: u64, full: RailSet) -> Option<Rail> {
    let may_go = |state: &&RailState| state.health == Health::Up && !full.contains(state.rail);
    rails.iter().filter(may_go).min_by_key(|state| state.finish_ps(bytes)).map(|state| state.rail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::RailCapabilities;
    use crate::ids::RequestId;
    use crate::link::{Run, UnitsReceived};
    use crate::process::tests::net::Net;

    #[test]
    fn short_packet_takes_the_working_rail_that_delivers_it_first() {
        let latencies_us = [30, 10, 20];
        let rail = |(number, latency_us): (u8, u64)| {
            let latency_ps = latency_us * 1_000_000;
            let bandwidth_bytes_per_s = 250_000_000;
            let capabilities =
                RailCapabilities { latency_ps, bandwidth_bytes_per_s, ..RailCapabilities::default() };
            RailState::new(Rail(number), &capabilities)
        };
        let mut rails: Vec<RailState> = (0..).zip(latencies_us).map(rail).collect();
        let none = RailSet::default();
        assert_eq!(best_rail(&rails, 100, none), Some(Rail(1)));
        assert_eq!(
            best_rail(&rails, 100, RailSet::one(Rail(1))),
            Some(Rail(2)),
            "the best takes nothing now"
        );
        // The data in flight there takes 20 us, and then this rail is the last.
        rails[1].on_sent(Carried::Probe, 5_250, Instant(1));
        assert_eq!(best_rail(&rails, 100, none), Some(Rail(2)));
        rails[2].take_out(Health::Down, |_, _| ());
        assert_eq!(best_rail(&rails, 100, none), Some(Rail(0)));
        assert_eq!(best_rail(&rails, 100, RailSet(0b011)), None, "no rail takes anything");
    }

    /// A rail to process 1, and units of a transfer that have been put by it.
    fn trunk_and_placed() -> (Net, Trunk, Units) {
        let net = Net::new(2, 1, RailCapabilities::default());
        let trunk = Trunk::new(&net.nodes[0].1, ProcessId(1), RailSet(0b1), TrunkConfig::default());
        let (transfer, receiver) = (TransferId::from_bits(1), RequestId::from_bits(2));
        let units = Units { transfer, receiver, unit_bytes: 1_000, run: Run { first: 3, count: 2 } };
        (net, trunk, units)
    }

    #[test]
    fn a_report_that_the_device_refuses_is_no_work_done() {
        let (mut net, mut trunk, units) = trunk_and_placed();
        trunk.tell_placed(Rail(0), units);
        net.shared.borrow_mut().full_one_in = 1;
        assert_eq!(
            trunk.flush(&mut net.nodes[0].1, Instant(1)),
            (false, false),
            "a waiting process may sleep"
        );
        net.shared.borrow_mut().full_one_in = 0;
        assert_eq!(trunk.flush(&mut net.nodes[0].1, Instant(2)), (true, true));
        assert_eq!(trunk.flush(&mut net.nodes[0].1, Instant(3)), (false, true), "once");
        assert!(trunk.settled.is_empty() && !trunk.is_quiet(), "it is not acknowledged");
        assert_eq!(trunk.rails[0].view(1).outstanding_bytes, 0, "a report has no data");
    }

    #[test]
    fn a_rail_that_was_well_meanwhile_is_looked_at_twice_again() {
        let (mut net, mut trunk, _) = trunk_and_placed();
        let device = &mut net.nodes[0].1;
        let silence = TrunkConfig::default().silence;
        let mut look = |trunk: &mut Trunk, at: Instant, owes: Duration| {
            net.shared.borrow_mut().owes = Some(owes);
            assert!(trunk.check(device, at));
            trunk.rails[0].health
        };
        trunk.rails[0].on_sent(Carried::Probe, 100, Instant(1));
        let first = Instant(1) + silence;
        assert_eq!(look(&mut trunk, first, silence), Health::Up);
        assert_eq!(look(&mut trunk, first + SECOND_LOOK, Duration::ZERO), Health::Up);
        let second = first + SECOND_LOOK + silence;
        assert_eq!(look(&mut trunk, second, silence), Health::Up, "it was well since");
        let taken_out = second + SECOND_LOOK;
        assert_eq!(look(&mut trunk, taken_out, silence), Health::Silent);
        look(&mut trunk, taken_out + TrunkConfig::default().probe_interval, silence);
        assert!(trunk.rails[0].is_waiting(), "it is asked");
        assert_eq!(trunk.rails[0].view(1).outstanding_bytes, 0, "a question has no data");
    }

    #[test]
    fn units_put_by_a_rail_that_broke_before_it_told_are_lost() {
        let (mut net, mut trunk, units) = trunk_and_placed();
        trunk.tell_placed(Rail(0), units);
        trunk.on_rail_down(Rail(0), Instant(1));
        assert_eq!(trunk.flush(&mut net.nodes[0].1, Instant(2)), (true, true));
        assert_eq!(trunk.settled, [LinkEvent::Lost(units.transfer, units.run)]);
        assert!(trunk.is_quiet(), "nothing is given to it");
        // A packet of a rail that the link does not have takes nothing away.
        let header = TrunkHeader {
            number: 1,
            ack_now: false,
            ack: trunk.rails[0].arrived.ack(Instant(2)),
            body: Body::Ack,
        };
        assert!(!trunk.on_packet(Rail(7), &header, 0, Instant(3)));
        assert_eq!(trunk.settled.len(), 1);
    }

    #[test]
    fn a_lost_packet_is_no_work_while_no_rail_works() {
        let (mut net, mut trunk, units) = trunk_and_placed();
        let device = &mut net.nodes[0].1;
        assert!(trunk.offer(device, Instant(1), 0, &[0; 16], NO_PAYLOAD));
        trunk.tell_placed(Rail(0), units);
        trunk.on_rail_down(Rail(0), Instant(2));
        assert_eq!(trunk.flush(device, Instant(3)), (true, true));
        assert_eq!(trunk.settled, [LinkEvent::Lost(units.transfer, units.run)]);
        assert_eq!(trunk.flush(device, Instant(4)), (false, true), "it goes again when one works");
        trunk.on_rail_up(Rail(0), Instant(5));
        assert_eq!(trunk.flush(device, Instant(6)), (true, true));
    }

    #[test]
    fn a_link_is_quiet_when_nothing_is_left_of_any_kind() {
        let (_, mut trunk, units) = trunk_and_placed();
        assert!(trunk.is_quiet());
        trunk.backlog_bytes = 1;
        assert!(!trunk.is_quiet(), "data is to be sent");
        trunk.backlog_bytes = 0;
        trunk.tell_placed(Rail(0), units);
        assert!(!trunk.is_quiet(), "its receiver does not know of it");
    }

    #[test]
    fn a_rail_that_was_full_is_looked_at_anew() {
        let (_, mut trunk, _) = trunk_and_placed();
        trunk.views();
        trunk.rail_is_full(Rail(0));
        assert!(trunk.some_full && !trunk.current_views()[0].up);
        assert!(trunk.views()[0].up && !trunk.some_full);
    }

    #[test]
    fn only_an_answer_takes_a_silent_rail_back() {
        let (_, mut trunk, _) = trunk_and_placed();
        trunk.take_out(Rail(0), Health::Silent);
        trunk.failing_since = Some(Instant(5));
        let ack = trunk.rails[0].arrived.ack(Instant(7));
        let header = TrunkHeader { number: 1, ack_now: false, ack, body: Body::Probe };
        assert!(!trunk.on_packet(Rail(0), &header, 0, Instant(8)));
        assert_eq!((trunk.rails[0].health, trunk.failing_since), (Health::Silent, Some(Instant(5))));
    }

    #[test]
    fn what_a_broken_rail_began_to_bring_may_come_by_another() {
        let (_, mut trunk, units) = trunk_and_placed();
        let Units { receiver, unit_bytes, .. } = units;
        let carrying = crate::link::Carrying::Bytes(1_000);
        let units = UnitsReceived { receiver, first: 3, unit_bytes, carrying, unit_bytes_min: 1 };
        trunk.fronts.begin(Rail(0), &units);
        assert!(!trunk.fronts.allow(Rail(1), &units));
        trunk.on_rail_down(Rail(0), Instant(1));
        assert!(trunk.fronts.allow(Rail(1), &units));
    }

    #[test]
    fn a_rail_is_slow_below_half_of_what_the_best_one_carries() {
        let (_, mut trunk, _) = trunk_and_placed();
        trunk.rails.push(RailState::new(Rail(1), &RailCapabilities::default()));
        let ms = |ms: u64| Instant(ms * 1_000_000_000);
        for (bytes, is_slow) in [(500_000, false), (450_000, true)] {
            for (state, bytes) in trunk.rails.iter_mut().zip([1_000_000, bytes]) {
                *state = RailState::new(state.rail, &RailCapabilities::default());
                state.rate.on_idle_end(ms(1));
                state.rate.on_acknowledged(bytes, ms(0), ms(2));
            }
            let slow: Vec<Rail> = trunk.slow_rails().iter().map(|[slow, _]| slow.rail).collect();
            assert_eq!(slow, if is_slow { &[Rail(1)][..] } else { &[] }, "{bytes}");
        }
    }

    #[test]
    fn a_unit_has_a_byte_however_short_packets_are() {
        assert_eq!([None, Some(1), Some(FRAGMENT_HEADER_BYTES)].map(unit_bytes), [1; 3]);
        assert_eq!(unit_bytes(Some(FRAGMENT_HEADER_BYTES + 2)), 2);
    }
}
