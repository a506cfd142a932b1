//! One rail to one peer: packets in flight, acknowledged and lost ones, and its rate.

use super::Run;
use super::arrived::Arrived;
use super::health::Health;
use super::rate::{RUN_BYTES, RateMeter};
use super::stripe::{View, finish_ps};
use crate::buffer::{NO_PAYLOAD, Payload, payload_len};
use crate::device::{Device, Full, RailCapabilities};
use crate::ids::{ProcessId, Rail, TransferId};
use crate::time::{Duration, Instant};
use crate::wire::trunk::{Ack, Body, FRAGMENT_HEADER_BYTES, TrunkHeader};
use alloc::collections::VecDeque;

/// Data in flight on a rail beyond its round trip. A few milliseconds keep a peer that polls late busy; more
/// would make the end of a message wait for a slow rail. If both sides send, acknowledgements wait behind the
/// data of the other direction, and the data in flight is in one queue or the other. It must exceed the size
/// of one queue, or the other runs dry now and then. So the window adds the device's queue, a number of bytes
/// that takes milliseconds of its own on a slow rail. 4 ms gave 87 to 93 % of 4 × 2 Gbit/s both ways, 6 ms 96
/// %, 8 ms 97 to 98 %.
const DEPTH: Duration = Duration::from_ms(8);
/// Under way at least, in pieces: one on the wire, one behind it.
const WINDOW_PIECES_MIN: u64 = 2;
/// Least window of a doubted rail, in bytes, and one piece: enough to measure it, and a short wait if the
/// rail is in fact slow.
const WINDOW_DOUBTED_BYTES_MIN: u64 = 2 * RUN_BYTES;
/// Before anything is measured, in bytes: what the device says of its bandwidth may be far off.
const WINDOW_UNMEASURED_BYTES: u64 = 256 << 10;
/// The longest time before an acknowledgement that is owed is asked for, and the longest between two
/// questions.
const PATIENCE_MAX: Duration = Duration::from_ms(100);
/// Unanswered questions to a silent rail that are remembered.
pub(super) const PROBES_REMEMBERED: usize = 8;
/// How far the numbers of an unordered rail may be out of order before one counts as lost.
const REORDER_PACKETS: u32 = 16;

/// Content of a packet, reported when it is acknowledged or lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carried {
    /// A packet of the stream, by its sequence.
    Stream(u32),
    /// Units of a message's data.
    Units(TransferId, Run),
    /// A question.
    Probe,
}

#[derive(Debug)]
struct Sent {
    number: u32,
    bytes: u64,
    carried: Carried,
    at: Instant,
    settled: bool,
}

#[derive(Debug)]
pub(super) struct RailState {
    pub(super) rail: Rail,
    pub(super) peer: ProcessId,
    /// Its place among rails that would deliver a short message at the same time.
    pub(super) turn: u8,
    pub(super) health: Health,
    ordered: bool,
    latency: Duration,
    said_bytes_per_s: u64,
    /// Bytes that the device queues beyond those in flight.
    queue_bytes: u64,
    /// The number of the next packet.
    next_number: u32,
    sent: VecDeque<Sent>,
    /// Bytes of packets in flight.
    outstanding_bytes: u64,
    /// Puts and gets under way, and their bytes. They outlive the rail's being taken out: their ends are
    /// always reported.
    pub(super) operation_count: u32,
    operation_bytes: u64,
    pub(super) rate: RateMeter,
    /// Start of the time with packets in flight and without acknowledgements; valid while packets are in
    /// flight.
    pub(super) waiting_since: Instant,
    /// When anything last came by it.
    pub(super) heard_at: Option<Instant>,
    /// When to ask next.
    pub(super) probe_at: Instant,
    /// How often it was asked without an answer.
    probes: u32,
    /// When it is judged next.
    pub(super) judge_at: Instant,
    /// It looks silent since.
    pub(super) suspect_since: Option<Instant>,
    /// When it was last taken out for its silence.
    pub(super) silent_at: Option<Instant>,
    pub(super) arrived: Arrived,
}

/// Measured and stated rates of a rail that works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measured {
    pub(crate) rail: Rail,
    pub(crate) bytes_per_s: u64,
    said_bytes_per_s: u64,
    pub(crate) round_trip: Duration,
}

impl Measured {
    /// Whether its share of its stated rate, times `factor`, is less than the other rail's.
    pub(super) fn is_behind(&self, other: &Self, factor: u128) -> bool {
        let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
        times(self.bytes_per_s, other.said_bytes_per_s).saturating_mul(factor)
            < times(other.bytes_per_s, self.said_bytes_per_s)
    }
}

impl RailState {
    /// `None` while nothing is known, or it does not work.
    pub(super) fn measured(&self) -> Option<Measured> {
        Some(Measured {
            rail: self.rail,
            bytes_per_s: self.rate.measured_bytes_per_s().filter(|_| self.health == Health::Up)?,
            said_bytes_per_s: self.said_bytes_per_s,
            round_trip: self.rate.rtt,
        })
    }

    pub(super) fn new(rail: Rail, peer: ProcessId, capabilities: &RailCapabilities) -> Self {
        Self {
            rail,
            peer,
            turn: 0,
            health: Health::Up,
            ordered: capabilities.ordered,
            latency: Duration(capabilities.latency_ps),
            said_bytes_per_s: capabilities.bandwidth_bytes_per_s,
            queue_bytes: capabilities.queue_bytes,
            next_number: 1,
            sent: VecDeque::new(),
            outstanding_bytes: 0,
            operation_count: 0,
            operation_bytes: 0,
            rate: RateMeter::new(capabilities.bandwidth_bytes_per_s, capabilities.latency_ps),
            waiting_since: Instant::ZERO,
            heard_at: None,
            probe_at: Instant::FAR_FUTURE,
            probes: 0,
            judge_at: Instant::FAR_FUTURE,
            suspect_since: None,
            silent_at: None,
            arrived: Arrived::new(),
        }
    }

    /// Whether nothing was ever sent or received by it.
    pub(super) fn is_unused(&self) -> bool {
        self.next_number == 1 && self.heard_at.is_none() && self.operation_count == 0
    }

    /// The rail's state for the policy.
    pub(super) fn view(&self, piece_bytes: u64) -> View {
        let rate = self.rate.bytes_per_s;
        let round_ps = self.rate.rtt_min.0.saturating_add(DEPTH.0);
        let round_bytes = (u128::from(rate) * u128::from(round_ps) / 1_000_000_000_000) as u64;
        let limit = match (self.rate.is_doubted, self.rate.is_measured()) {
            (true, _) => round_bytes.clamp(WINDOW_DOUBTED_BYTES_MIN, WINDOW_UNMEASURED_BYTES),
            (false, true) => round_bytes.saturating_add(self.queue_bytes),
            (false, false) => round_bytes.min(WINDOW_UNMEASURED_BYTES),
        };
        let pieces_min = if self.rate.is_doubted { 1 } else { WINDOW_PIECES_MIN };
        View {
            rail: self.rail,
            up: self.health == Health::Up,
            said_bytes_per_s: self.said_bytes_per_s,
            bytes_per_s: rate,
            latency: self.latency(),
            outstanding_bytes: self.outstanding_bytes + self.operation_bytes,
            window_bytes: limit.max(pieces_min * (piece_bytes + FRAGMENT_HEADER_BYTES as u64)),
        }
    }

    /// One way, empty.
    fn latency(&self) -> Duration {
        if self.rate.is_measured() { Duration(self.rate.rtt_min.0 / 2) } else { self.latency }
    }

    /// Time until it would have delivered `bytes` more, in picoseconds; what a [`View`] says, for less.
    #[inline]
    pub(super) fn finish_ps(&self, bytes: u64) -> u128 {
        let queue_bytes = self.outstanding_bytes + self.operation_bytes + bytes;
        finish_ps(self.latency(), queue_bytes, self.rate.bytes_per_s)
    }

    /// Gives it one packet, which is numbered if it carries anything. Acknowledgements that are owed go
    /// along.
    pub(super) fn transmit<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        (body, ack_now): (Body, bool),
        carried: Option<Carried>,
        inner: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), Full> {
        let header = TrunkHeader { number: self.next_number, ack_now, ack: self.arrived.ack(now), body };
        let mut bytes = header.emit();
        bytes.put(inner);
        device.send(self.rail, self.peer, bytes.as_slice(), payload)?;
        self.arrived.acked(now);
        if let Some(carried) = carried {
            // Questions and reports have no data.
            let has_data = matches!(body, Body::Stream | Body::Fragment { .. });
            let sent_bytes = bytes.as_slice().len() + payload_len(&payload);
            self.on_sent(carried, if has_data { sent_bytes as u64 } else { 0 }, now);
        }
        Ok(())
    }

    /// As [`transmit`](Self::transmit), of a packet that is only a header.
    pub(super) fn tell<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        what: (Body, bool),
        carried: Option<Carried>,
    ) -> Result<(), Full> {
        self.transmit(device, now, what, carried, &[], NO_PAYLOAD)
    }

    /// Sends a question, if the rail takes one now.
    pub(super) fn probe<D: Device>(&mut self, device: &mut D, now: Instant) {
        let _ = self.tell(device, now, (Body::Probe, true), Some(Carried::Probe));
    }

    /// Asks for the acknowledgements that it owes, and again later if it does not answer.
    pub(super) fn ask<D: Device>(&mut self, device: &mut D, now: Instant) {
        self.probe(device, now);
        self.probes += 1;
        self.probe_at = now + self.patience(self.probes);
    }

    /// A silent rail is asked at intervals, and all but the newest questions in flight are forgotten.
    pub(super) fn check_silent<D: Device>(&mut self, device: &mut D, interval: Duration, now: Instant) {
        if now >= self.probe_at {
            self.forget_but(PROBES_REMEMBERED);
            self.probe_at = now + interval;
            self.probe(device, now);
        }
    }

    /// A numbered packet has gone.
    pub(super) fn on_sent(&mut self, carried: Carried, bytes: u64, now: Instant) {
        self.begin_waiting(now);
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.outstanding_bytes += bytes;
        self.sent.push_back(Sent { number, bytes, carried, at: now, settled: false });
    }

    /// Something is given to the rail that it has to answer.
    fn begin_waiting(&mut self, now: Instant) {
        if self.outstanding_bytes + self.operation_bytes == 0 {
            self.rate.on_idle_end(now);
        }
        if !self.is_waiting() {
            self.waiting_since = now;
        }
        if self.health == Health::Up {
            let at = now + self.patience(0);
            (self.probe_at, self.judge_at) = (self.probe_at.min(at), self.judge_at.min(at));
        }
    }

    /// How long an acknowledgement may take before it is asked for, after `probes` questions. Bounded, for a
    /// round trip may have been measured over a time in which this process computed, and says nothing then.
    fn patience(&self, probes: u32) -> Duration {
        let rtt = Duration(self.rate.rtt.0.saturating_mul(4));
        (rtt + Duration::from_ms(20 << probes.min(4))).min(PATIENCE_MAX)
    }

    /// The peer acknowledges. Calls `settle` for each packet that has arrived (`true`) or is lost (`false`).
    pub(super) fn on_ack(&mut self, ack: &Ack, now: Instant, mut settle: impl FnMut(Carried, bool)) {
        let mut progress = false;
        let (mut bytes, mut last_sent_at) = (0, Instant::ZERO);
        for sent in &mut self.sent {
            let below = ack.largest.wrapping_sub(sent.number);
            if below >= 1 << 31 {
                break;
            }
            if sent.settled {
                continue;
            }
            if ack.covers(sent.number) {
                sent.settled = true;
                progress = true;
                self.outstanding_bytes -= sent.bytes;
                (bytes, last_sent_at) = (bytes + sent.bytes, sent.at);
                if below == 0 {
                    self.rate.on_round_trip(now.since(sent.at) - ack.delay);
                }
                settle(sent.carried, true);
            } else if self.ordered || below > REORDER_PACKETS || sent.carried == Carried::Probe {
                // A probe that a later packet has answered is not awaited, even if it was lost.
                sent.settled = true;
                self.outstanding_bytes -= sent.bytes;
                settle(sent.carried, false);
            }
        }
        while self.sent.front().is_some_and(|sent| sent.settled) {
            self.sent.pop_front();
        }
        if progress {
            self.on_answer(now);
        }
        if bytes > 0 {
            self.rate.on_acknowledged(bytes, last_sent_at, now);
        }
        // A rail that is out is probed at times of its own.
        if self.health == Health::Up && (progress || !self.is_waiting()) {
            self.set_deadlines(now);
        }
    }

    fn on_answer(&mut self, now: Instant) {
        self.probes = 0;
        self.suspect_since = None;
        self.waiting_since = now;
    }

    fn set_deadlines(&mut self, now: Instant) {
        let at = if self.is_waiting() { now + self.patience(0) } else { Instant::FAR_FUTURE };
        (self.probe_at, self.judge_at) = (at, at);
    }

    /// The rail is out: everything under way is lost, as far as is known.
    pub(super) fn take_out(&mut self, health: Health, mut settle: impl FnMut(Carried, bool)) {
        self.health = health;
        self.suspect_since = None;
        (self.probe_at, self.judge_at) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        self.outstanding_bytes = 0;
        for sent in self.sent.drain(..).filter(|sent| !sent.settled) {
            settle(sent.carried, false);
        }
    }

    /// The peer is lost: the ends of puts and gets may never be reported.
    pub(super) fn close(&mut self) {
        self.take_out(Health::Down, |_, _| {});
        (self.operation_count, self.operation_bytes) = (0, 0);
    }

    /// The rail works again.
    pub(super) fn take_back(&mut self, now: Instant) {
        self.health = Health::Up;
        self.rate.has_rtt = false;
        self.on_answer(now);
        self.set_deadlines(now);
    }

    /// An amount moved otherwise than by packets (put, get) begins.
    pub(super) fn begin_operation(&mut self, bytes: u64, now: Instant) {
        self.begin_waiting(now);
        self.operation_count += 1;
        self.operation_bytes += bytes;
    }

    /// It has ended.
    pub(super) fn end_operation(&mut self, bytes: u64, sent_at: Instant, worked: bool, now: Instant) {
        self.operation_count = self.operation_count.saturating_sub(1);
        self.operation_bytes = self.operation_bytes.saturating_sub(bytes);
        if !worked {
            return;
        }
        if bytes > 0 {
            self.rate.on_operation_end(bytes, sent_at, self.operation_count == 0, now);
        }
        self.on_answer(now);
        if self.health == Health::Up {
            self.set_deadlines(now);
        }
    }

    /// Forgets all but the newest `count` packets in flight: unanswered probes.
    fn forget_but(&mut self, count: usize) {
        while self.sent.len() > count {
            self.outstanding_bytes -= self.sent.pop_front().map_or(0, |sent| sent.bytes);
        }
    }

    /// Packets in flight that are remembered.
    #[cfg(test)]
    pub(super) fn sent_count(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.sent.is_empty() || self.operation_count > 0
    }

    /// Whether something other than questions is under way.
    pub(super) fn carries_data(&self) -> bool {
        let is_data = |sent: &Sent| !sent.settled && sent.carried != Carried::Probe;
        self.operation_count > 0 || self.sent.iter().any(is_data)
    }

    /// When the rail next needs attention other than acknowledging.
    pub(super) fn deadline(&self) -> Instant {
        self.probe_at.min(self.judge_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::trunk::Seen;
    use alloc::vec::Vec;

    fn rail(ordered: bool) -> RailState {
        let capabilities = RailCapabilities { ordered, ..RailCapabilities::default() };
        RailState::new(Rail(0), ProcessId(1), &capabilities)
    }

    fn send(rail: &mut RailState, count: u32) {
        for sequence in 0..count {
            rail.on_sent(Carried::Stream(sequence), 100, Instant(7));
        }
    }

    const ACKED_AT: Instant = Instant(1_000_000_007);

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    /// Which packets of the stream have arrived or are lost by an acknowledgement.
    fn ack_at(rail: &mut RailState, largest: u32, seen: Seen, now: Instant) -> Vec<(u32, bool)> {
        let mut told = Vec::new();
        let ack = Ack { largest, seen, delay: Duration::ZERO };
        rail.on_ack(&ack, now, |carried, come| {
            if let Carried::Stream(sequence) = carried {
                told.push((sequence, come));
            }
        });
        told
    }

    fn ack(rail: &mut RailState, largest: u32, seen: Seen) -> Vec<(u32, bool)> {
        ack_at(rail, largest, seen, ACKED_AT)
    }

    #[test]
    fn window_of_a_measured_rail_includes_the_device_queue() {
        let window_bytes = |queue_bytes, rate_mb_per_s: u64| {
            let capabilities = RailCapabilities { queue_bytes, ..RailCapabilities::default() };
            let mut rail = RailState::new(Rail(0), ProcessId(1), &capabilities);
            let unmeasured_bytes = rail.view(100).window_bytes;
            rail.rate.on_idle_end(Instant(1));
            // A millisecond's bytes.
            rail.rate.on_acknowledged(rate_mb_per_s * 1_000, Instant::ZERO, Instant(1_000_000_001));
            (unmeasured_bytes, rail.view(100).window_bytes)
        };
        for rate in [62, 250, 4_000] {
            let (before, without) = window_bytes(0, rate);
            let (also_before, with) = window_bytes(256 << 10, rate);
            assert_eq!((before, without + (256 << 10)), (also_before, with), "{rate} MB/s");
            assert!(without >= rate * 8_000, "8 ms at {rate} MB/s, not {without} bytes");
        }
    }

    #[test]
    fn doubted_rail_is_measured_with_a_full_window_of_any_pieces() {
        let header = FRAGMENT_HEADER_BYTES as u64;
        let pieces = [40, 1_400, 8 << 10, 12 << 10, (16 << 10) - header, 16 << 10, 24 << 10, 64 << 10];
        for (piece, is_put) in pieces.into_iter().flat_map(|piece| [(piece, false), (piece, true)]) {
            let mut rail = rail(true);
            rail.rate.on_round_trip(Duration::from_ms(50));
            rail.rate.on_others_busy(Duration::from_ms(1_000));
            assert!(rail.rate.is_doubted);
            let bytes = if is_put { piece } else { piece + header };
            // A program that gives it as much as it may.
            let mut count = 0;
            while count == 0 || rail.view(piece).outstanding_bytes + bytes <= rail.view(piece).window_bytes {
                match is_put {
                    true => rail.begin_operation(bytes, ms(1)),
                    false => rail.on_sent(Carried::Probe, bytes, ms(1)),
                }
                count += 1;
            }
            assert!(count * bytes <= WINDOW_UNMEASURED_BYTES || count == 1, "{piece}: {count}");
            for number in 1..=count {
                let now = ms(1) + Duration::from_us(10 * number);
                match is_put {
                    true => rail.end_operation(bytes, ms(1), true, now),
                    false => drop(ack_at(&mut rail, number as u32, Seen::Run(number as u32), now)),
                }
            }
            assert!(!rail.rate.is_doubted, "{piece} bytes, put: {is_put}");
        }
    }

    #[test]
    fn a_rail_says_itself_when_it_would_be_done_as_its_view_does() {
        let mut rail = rail(true);
        let says_the_same = |rail: &RailState| {
            let view = rail.view(100);
            assert_eq!(
                rail.finish_ps(72),
                finish_ps(view.latency, view.outstanding_bytes + 72, view.bytes_per_s)
            );
            rail.finish_ps(72)
        };
        let idle = says_the_same(&rail);
        send(&mut rail, 3);
        rail.begin_operation(1 << 20, Instant(7));
        assert!(says_the_same(&rail) > idle, "what is under way is before it");
        rail.rate.on_round_trip(Duration::from_us(50));
        rail.rate.on_acknowledged(250_000, Instant::ZERO, ACKED_AT);
        assert!(rail.rate.is_measured());
        says_the_same(&rail);
    }

    #[test]
    fn on_an_ordered_rail_a_gap_is_a_loss_at_once() {
        let mut rail = rail(true);
        send(&mut rail, 4);
        assert_eq!(ack(&mut rail, 3, Seen::Bits(0b10)), [(0, true), (1, false), (2, true)]);
        assert_eq!(rail.view(100).outstanding_bytes, 100);
        assert_eq!(ack(&mut rail, 3, Seen::Bits(0b10)), []);
        assert_eq!(ack(&mut rail, 4, Seen::Run(1)), [(3, true)]);
        assert!(!rail.is_waiting() && rail.deadline() == Instant::FAR_FUTURE);
    }

    #[test]
    fn on_an_unordered_rail_a_gap_may_fill_until_it_is_wide() {
        let mut rail = rail(false);
        send(&mut rail, 40);
        assert_eq!(ack(&mut rail, 3, Seen::Bits(0b10)), [(0, true), (2, true)]);
        assert_eq!(ack(&mut rail, 4, Seen::Run(3)), [(1, true), (3, true)]);
        assert_eq!(ack(&mut rail, 22, Seen::Run(2)).iter().filter(|(_, come)| !come).count(), 1);
    }

    #[test]
    fn a_broken_rail_gives_back_what_it_owes_once() {
        let mut rail = rail(true);
        send(&mut rail, 3);
        ack(&mut rail, 1, Seen::Run(2));
        let mut lost = Vec::new();
        rail.take_out(Health::Down, |carried, come| lost.push((carried, come)));
        assert_eq!(lost, [(Carried::Stream(1), false), (Carried::Stream(2), false)]);
        // An acknowledgement that was still on its way finds nothing.
        assert_eq!(ack(&mut rail, 3, Seen::Run(4)), []);
        assert_eq!((rail.view(1).up, rail.view(1).outstanding_bytes), (false, 0));
    }

    #[test]
    fn an_answer_ends_a_row_of_questions() {
        let mut rail = rail(true);
        send(&mut rail, 2);
        (rail.probes, rail.suspect_since) = (3, Some(Instant(5)));
        assert_eq!(ack(&mut rail, 1, Seen::Run(2)), [(0, true)]);
        assert_eq!((rail.probes, rail.suspect_since), (0, None));
        assert_eq!(rail.waiting_since, ACKED_AT);
        assert!(rail.is_waiting() && rail.deadline() > ACKED_AT);
        (rail.probes, rail.suspect_since) = (2, Some(Instant(1_000_000_008)));
        rail.take_out(Health::Silent, |_, _| {});
        assert_eq!((rail.health, rail.deadline()), (Health::Silent, Instant::FAR_FUTURE));
        assert_eq!(rail.suspect_since, None, "it is looked at twice again when it is back");
        rail.take_back(Instant(2_000_000_000));
        assert_eq!((rail.health, rail.probes), (Health::Up, 0));
        assert_eq!((rail.waiting_since, rail.deadline()), (Instant(2_000_000_000), Instant::FAR_FUTURE));
    }

    #[test]
    fn only_a_put_that_worked_is_an_answer() {
        for (worked, probes) in [(false, 2), (true, 0)] {
            let mut rail = rail(true);
            rail.begin_operation(300, Instant(1));
            (rail.probes, rail.suspect_since) = (2, Some(Instant(2)));
            rail.end_operation(300, Instant(1), worked, Instant(3));
            assert_eq!((rail.probes, rail.suspect_since.is_none()), (probes, worked));
        }
    }

    #[test]
    fn puts_count_until_they_end_whatever_becomes_of_the_rail() {
        let mut rail = rail(true);
        rail.begin_operation(300, Instant(1));
        rail.begin_operation(40, Instant(2));
        send(&mut rail, 1);
        assert_eq!(rail.view(1).outstanding_bytes, 440);
        rail.take_out(Health::Down, |_, _| {});
        assert_eq!(rail.view(1).outstanding_bytes, 340);
        assert!(rail.is_waiting() && rail.carries_data());
        rail.end_operation(300, Instant(1), false, Instant(3));
        assert_eq!(rail.view(1).outstanding_bytes, 40);
        assert!(rail.is_waiting() && rail.carries_data());
        rail.end_operation(40, Instant(2), true, Instant(4));
        assert_eq!(rail.view(1).outstanding_bytes, 0);
        assert!(!rail.is_waiting() && !rail.carries_data());
        rail.begin_operation(50, Instant(5));
        rail.close();
        assert!(!rail.is_waiting() && rail.view(1).outstanding_bytes == 0);
    }

    #[test]
    fn questions_are_no_data_and_the_oldest_are_forgotten() {
        let mut rail = rail(true);
        for _ in 0..3 {
            rail.on_sent(Carried::Probe, 5, Instant(7));
        }
        assert!(rail.is_waiting() && !rail.carries_data());
        rail.forget_but(1);
        assert_eq!((rail.sent.len(), rail.view(1).outstanding_bytes), (1, 5));
        assert_eq!((rail.sent[0].number, rail.next_number), (3, 4));
        send(&mut rail, 1);
        assert!(rail.carries_data());
    }

    #[test]
    fn a_busy_rail_is_measured_whenever_its_packets_are_sent() {
        let mut rail = rail(true);
        (0..2).for_each(|number| rail.on_sent(Carried::Stream(number), 100_000, ms(0)));
        // One arrives each millisecond, and another is sent in the middle.
        for number in 1..20 {
            ack_at(&mut rail, number, Seen::Run(number), ms(number.into()));
            let between = ms(number.into()) + Duration::from_us(500);
            rail.on_sent(Carried::Stream(number + 1), 100_000, between);
        }
        assert_eq!(rail.rate.bytes_per_s, 100_000_000);
    }

    #[test]
    fn an_acknowledgement_without_news_says_nothing_of_the_rate() {
        let mut rail = rail(true);
        rail.on_sent(Carried::Stream(0), 100_000, Instant(7));
        ack_at(&mut rail, 0, Seen::Run(0), ms(1));
        ack_at(&mut rail, 1, Seen::Run(1), ms(2));
        assert!(!rail.is_waiting() && !rail.rate.is_measured(), "the first after a pause brings its latency");
    }

    #[test]
    fn a_slow_rail_has_room_for_two_pieces_a_doubted_one_for_one() {
        let mut rail = rail(true);
        let piece = 100_000 + FRAGMENT_HEADER_BYTES as u64;
        rail.rate.on_idle_end(Instant(1));
        rail.rate.on_acknowledged(20_000, Instant::ZERO, Instant(20_000_000_001));
        assert_eq!((rail.rate.bytes_per_s, rail.view(100_000).window_bytes), (1_000_000, 2 * piece));
        rail.rate.on_others_busy(Duration::from_ms(1_000));
        assert_eq!((rail.rate.is_doubted, rail.view(100_000).window_bytes), (true, piece));
    }

    #[test]
    fn puts_that_end_together_are_measured_together_without_gets() {
        let mut puts = rail(true);
        (0..2).for_each(|_| puts.begin_operation(1 << 20, ms(0)));
        (0..2).for_each(|us| puts.end_operation(1 << 20, ms(0), true, ms(1) + Duration::from_us(us)));
        let bytes_per_s = puts.rate.bytes_per_s;
        assert!((2_050_000_000..2_097_152_000).contains(&bytes_per_s), "{bytes_per_s}");

        let mut put_and_get = rail(true);
        [1 << 20, 0].into_iter().for_each(|bytes| put_and_get.begin_operation(bytes, ms(0)));
        for (bytes, at) in [(0, 5), (1 << 20, 10)] {
            put_and_get.end_operation(bytes, ms(0), true, ms(at));
        }
        assert_eq!(put_and_get.rate.bytes_per_s, (1 << 20) * 100);
    }
}
