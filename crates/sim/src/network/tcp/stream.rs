//! One direction of a TCP connection: what its sender and its receiver know. No time passes here and nothing
//! is sent: `super` asks what to send next and reports what has arrived.
//!
//! Segments are numbered, and the congestion window counts segments, as Linux does. The rules:
//!
//! - slow start and congestion avoidance: RFC 5681, section 3.1; initial window: RFC 6928; the window
//!   grows only when it was used up (RFC 7661), and is the initial one again after an idle retransmission
//!   timeout (RFC 5681, section 4.1);
//! - what is on its way during recovery: RFC 6675, section 4; how much of it, proportional rate reduction:
//!   RFC 6937;
//! - loss: what was sent before something that has arrived, at once after three selective acknowledgements
//!   or in recovery, else when its own answer is late by a quarter of a round trip; and the probe for a lost
//!   tail, with Linux' margins: RFC 8985 (RACK-TLP). No connection's segments overtake each other here, so
//!   the wait is never longer. A probe that replaced what was lost halves the window, too: that it was not
//!   needed is said by what has come twice (RFC 2883);
//! - the retransmission timer: RFC 6298;
//! - acknowledgements at the latest after the second segment, after a delay, or with data of the other
//!   direction: RFC 9293, section 3.8.6.3.

use std::collections::VecDeque;

use super::super::Tcp;
use crate::slab::NONE;

/// Segments acknowledged selectively after which what was sent before is lost at once (RFC 8985, DupThresh).
const SACKED_COUNT: u32 = 3;
/// Blocks of selective acknowledgement that fit into a header with timestamps (RFC 2018, section 3).
pub(super) const BLOCK_COUNT: usize = 3;
/// The longest retransmission timeout, ps: RFC 6298 allows a limit of at least 60 s.
const TIMEOUT_MAX_PS: u64 = 60_000_000_000_000;
/// Timers of probes and of what may be late are set so much later, ps: Linux' `TCP_TIMEOUT_MIN_US`.
const MARGIN_PS: u64 = 2_000_000_000;
/// Segments in order after which an acknowledgement may wait no longer.
const ACK_EVERY_COUNT: u32 = 2;

/// A run of segments: the first, and the one behind the last.
pub(super) type Block = (u32, u32);

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ack {
    /// All below have arrived.
    pub(super) next: u32,
    /// What has arrived above, the latest first; empty ones are `(0, 0)`.
    pub(super) blocks: [Block; BLOCK_COUNT],
    /// A segment that has come once more; it takes the place of a block.
    pub(super) twice: Option<u32>,
}

/// A segment that was sent and is not acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) payload_bytes: u32,
    /// The message that ends with it, else `NONE`.
    pub(super) ends: u32,
    /// When it left for the first time, and for the last.
    pub(super) first_sent_ps: u64,
    sent_ps: u64,
    /// Which of the stream's transmissions it was.
    order: u64,
    /// Acknowledged selectively.
    is_sacked: bool,
    is_lost: bool,
    /// Sent again since it was taken as lost.
    is_sent_again: bool,
    /// Sent more than once: its acknowledgement tells no round trip (Karn).
    is_ambiguous: bool,
}

/// What a stream sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A segment once more.
    Again(u32),
    /// New data, if there is any.
    New,
    /// Nothing: the window is full.
    Wait,
}

/// What became of a segment that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// The segments now in order that were not.
    pub(super) in_order: Block,
    /// Whether an acknowledgement is due at once.
    pub(super) ack_now: bool,
}

/// What the timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    Retransmission,
    /// A probe (TLP).
    Probe,
    /// What was sent before something that has arrived is lost by then (RACK).
    Reordering,
}

/// A probe of which is not known what became of it.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// The segment behind all that had been sent.
    end: u32,
    /// The segment that it was once more; `None`: new data.
    again: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Until all that was on its way when the first loss was seen is acknowledged. How much that was, what
    /// has arrived since then, and what was sent.
    Recovery {
        until: u32,
        from_count: u32,
        arrived_count: u32,
        sent_count: u32,
    },
    /// After a timeout, until the same.
    Loss {
        until: u32,
    },
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Stream {
    rules: Tcp,
    window_max_count: u32,
    // The sender.
    /// The number of the first of `sent`.
    first_unacked: u32,
    sent: VecDeque<Segment>,
    state: State,
    window_count: u32,
    slow_start_until_count: u32,
    /// Segments acknowledged towards the next step of congestion avoidance.
    grown_count: u32,
    sacked_count: u32,
    lost_count: u32,
    sent_again_count: u32,
    /// Transmissions of which is not decided whether they are lost, by order, with their segments.
    undecided: VecDeque<(u64, u32)>,
    transmission_count: u64,
    /// The latest transmission known to have arrived, and after how long its answer came.
    arrived_order: Option<u64>,
    answered_after_ps: u64,
    round_trip_min_ps: u64,
    /// Below: nothing lost waits to be sent again.
    resent_below: u32,
    smoothed_ps: u64,
    variation_ps: u64,
    timeout_ps: u64,
    last_sent_ps: u64,
    /// When the timer runs out; `u64::MAX` if it is off.
    pub(super) deadline_ps: u64,
    timer: Timer,
    probe_due: bool,
    probe: Option<Probe>,
    // The receiver.
    expected: u32,
    beyond: Vec<Block>,
    unacked_count: u32,
    /// Has come once more, and the sender is to hear of it.
    twice: Option<u32>,
    /// When a delayed acknowledgement is due.
    pub(super) ack_deadline_ps: u64,
}

impl Stream {
    /// A stream that is open, and has measured one round trip by that. Its window is two segments at least.
    pub(super) fn new(rules: Tcp, window_max_count: u32, round_trip_ps: u64) -> Stream {
        let mut stream = Stream {
            rules,
            window_max_count,
            first_unacked: 0,
            sent: VecDeque::new(),
            state: State::Open,
            window_count: rules.initial_window_count.min(window_max_count),
            slow_start_until_count: u32::MAX,
            grown_count: 0,
            sacked_count: 0,
            lost_count: 0,
            sent_again_count: 0,
            undecided: VecDeque::new(),
            transmission_count: 0,
            arrived_order: None,
            answered_after_ps: 0,
            round_trip_min_ps: u64::MAX,
            resent_below: 0,
            smoothed_ps: 0,
            variation_ps: 0,
            timeout_ps: rules.timeout_min_ps,
            last_sent_ps: 0,
            deadline_ps: u64::MAX,
            timer: Timer::Retransmission,
            probe_due: false,
            probe: None,
            expected: 0,
            beyond: Vec::new(),
            unacked_count: 0,
            twice: None,
            ack_deadline_ps: u64::MAX,
        };
        stream.measure(round_trip_ps);
        stream
    }

    fn next_number(&self) -> u32 {
        self.first_unacked + self.sent.len() as u32
    }

    /// Segments on their way, as far as the sender knows.
    fn flight_count(&self) -> u32 {
        self.sent.len() as u32 - self.sacked_count - self.lost_count + self.sent_again_count
    }

    fn at(&mut self, number: u32) -> &mut Segment {
        &mut self.sent[(number - self.first_unacked) as usize]
    }

    /// A segment not yet acknowledged.
    pub(super) fn segment(&self, number: u32) -> Option<&Segment> {
        self.sent.get(number.checked_sub(self.first_unacked)? as usize)
    }

    /// What may be sent now.
    pub(super) fn next(&mut self, now_ps: u64, has_new: bool) -> Next {
        if self.probe_due && !self.sent.is_empty() {
            // RFC 8985, section 7.3: new data if there is any, else the last segment once more.
            return if has_new && self.has_room() { Next::New } else { Next::Again(self.next_number() - 1) };
        }
        if self.sent.is_empty() && now_ps > self.last_sent_ps.saturating_add(self.timeout_ps) {
            let least_count = self.window_count.min(self.rules.initial_window_count);
            (self.window_count, self.grown_count) = (least_count, 0);
        }
        if self.flight_count() >= self.window_count {
            return Next::Wait;
        }
        if self.lost_count > self.sent_again_count {
            while self.resent_below < self.next_number() {
                let number = self.resent_below.max(self.first_unacked);
                let segment = *self.at(number);
                if segment.is_lost && !segment.is_sent_again {
                    return Next::Again(number);
                }
                self.resent_below = number + 1;
            }
        }
        if has_new && self.has_room() { Next::New } else { Next::Wait }
    }

    fn has_room(&self) -> bool {
        (self.sent.len() as u32) < self.window_max_count
    }

    /// A new segment leaves; its number.
    pub(super) fn send_new(&mut self, now_ps: u64, payload_bytes: u32, ends: u32) -> u32 {
        let number = self.next_number();
        self.sent.push_back(Segment {
            payload_bytes,
            ends,
            first_sent_ps: now_ps,
            sent_ps: now_ps,
            order: 0,
            is_sacked: false,
            is_lost: false,
            is_sent_again: false,
            is_ambiguous: false,
        });
        self.after_sending(now_ps, number);
        number
    }

    /// A segment leaves once more; its payload.
    pub(super) fn send_again(&mut self, now_ps: u64, number: u32) -> u32 {
        let segment = self.at(number);
        let counts = segment.is_lost && !segment.is_sent_again;
        segment.is_sent_again |= counts;
        segment.is_ambiguous = true;
        let bytes = segment.payload_bytes;
        self.sent_again_count += u32::from(counts);
        self.after_sending(now_ps, number);
        bytes
    }

    fn after_sending(&mut self, now_ps: u64, number: u32) {
        let order = self.transmission_count;
        self.transmission_count += 1;
        let segment = self.at(number);
        (segment.sent_ps, segment.order) = (now_ps, order);
        let again = segment.is_ambiguous.then_some(number);
        self.undecided.push_back((order, number));
        if let State::Recovery { sent_count, .. } = &mut self.state {
            *sent_count += 1;
        }
        self.last_sent_ps = now_ps;
        if self.probe_due {
            (self.probe_due, self.probe) = (false, Some(Probe { end: self.next_number(), again }));
            self.start_timer(now_ps);
        } else if self.deadline_ps == u64::MAX || self.timer == Timer::Probe {
            self.start_timer(now_ps);
        }
    }

    /// RFC 6298, section 5; a probe first where nothing is known to be lost (RFC 8985, section 7.2).
    fn start_timer(&mut self, now_ps: u64) {
        self.timer = Timer::Retransmission;
        if self.sent.is_empty() {
            self.deadline_ps = u64::MAX;
            return;
        }
        let mut after_ps = self.timeout_ps;
        if self.probe.is_none() && self.state == State::Open && self.sacked_count == 0 {
            // One segment alone may wait for its acknowledgement: as long as Linux grants it.
            let is_alone = self.sent.len() == 1;
            let more_ps = if is_alone { self.rules.timeout_min_ps } else { MARGIN_PS };
            // No later than a retransmission, which it then precedes.
            after_ps = after_ps.min(2 * self.smoothed_ps + more_ps);
            self.timer = Timer::Probe;
        }
        self.deadline_ps = now_ps + after_ps;
    }

    /// The timer has run out. Whether it was for a retransmission.
    pub(super) fn on_deadline(&mut self, now_ps: u64) -> bool {
        self.deadline_ps = u64::MAX;
        if self.sent.is_empty() {
            return false;
        }
        match self.timer {
            Timer::Probe => self.probe_due = true,
            Timer::Reordering => {
                self.decide_lost(now_ps, self.round_trip_min_ps / 4);
                self.reduce(0);
                self.start_timer(now_ps);
            }
            Timer::Retransmission => {
                self.time_out(now_ps);
                return true;
            }
        }
        false
    }

    fn time_out(&mut self, now_ps: u64) {
        // Once for all that was on its way: recovery has halved it already.
        if self.state == State::Open {
            self.slow_start_until_count = (self.sent.len() as u32 / 2).max(2);
        }
        (self.window_count, self.grown_count) = (1, 0);
        (self.state, self.probe) = (State::Loss { until: self.next_number() }, None);
        for segment in &mut self.sent {
            segment.is_lost = !segment.is_sacked;
            segment.is_sent_again = false;
        }
        self.lost_count = self.sent.len() as u32 - self.sacked_count;
        self.sent_again_count = 0;
        self.undecided.clear();
        self.resent_below = self.first_unacked;
        self.timeout_ps = (2 * self.timeout_ps).min(TIMEOUT_MAX_PS);
        self.start_timer(now_ps);
    }

    /// An acknowledgement has come.
    pub(super) fn on_ack(&mut self, now_ps: u64, ack: &Ack) {
        let flight_before_count = self.flight_count();
        let (mut acked_count, mut arrived_count) = (0, 0);
        let mut round_trip_ps = None;
        while self.first_unacked < ack.next {
            let Some(segment) = self.sent.pop_front() else { break };
            self.first_unacked += 1;
            acked_count += 1;
            self.sacked_count -= u32::from(segment.is_sacked);
            self.lost_count -= u32::from(segment.is_lost);
            self.sent_again_count -= u32::from(segment.is_sent_again);
            if !segment.is_sacked {
                arrived_count += 1;
                self.arrived(&segment, now_ps, &mut round_trip_ps);
            }
        }
        for &(first, end) in &ack.blocks {
            for number in first.max(self.first_unacked)..end.min(self.next_number()) {
                arrived_count += u32::from(self.sack(number, now_ps, &mut round_trip_ps));
            }
        }
        if let Some(round_trip_ps) = round_trip_ps {
            self.measure(round_trip_ps);
        }
        self.end_probe(ack);
        if arrived_count + acked_count == 0 {
            return;
        }
        // Of a probe that waits for the cable: what it would ask is known.
        self.probe_due = false;
        let may_grow = acked_count > 0 && !matches!(self.state, State::Recovery { .. });
        match self.state {
            State::Recovery { until, .. } if self.first_unacked >= until => {
                self.state = State::Open;
                self.window_count = self.slow_start_until_count;
            }
            State::Loss { until } if self.first_unacked >= until => self.state = State::Open,
            _ => {}
        }
        if may_grow {
            self.grow(acked_count, flight_before_count);
        }
        // RFC 8985, section 6.2, step 4.
        let waits = self.sacked_count < SACKED_COUNT && self.state == State::Open;
        let late_ps = if waits { self.round_trip_min_ps / 4 } else { 0 };
        self.decide_lost(now_ps, late_ps);
        self.reduce(arrived_count);
        if let Some(sent_ps) = self.last_earlier_ps() {
            self.timer = Timer::Reordering;
            let late_at_ps = sent_ps + self.answered_after_ps + late_ps;
            self.deadline_ps = (late_at_ps + MARGIN_PS).min(now_ps + self.timeout_ps);
        } else if acked_count > 0 || self.timer != Timer::Retransmission {
            self.start_timer(now_ps);
        }
    }

    /// RFC 8985, section 7.4: a probe that did not come twice has replaced what was lost.
    fn end_probe(&mut self, ack: &Ack) {
        let Some(Probe { end, again }) = self.probe.filter(|probe| probe.end <= ack.next) else { return };
        if again.is_none() || again == ack.twice {
            self.probe = None;
        } else if ack.next > end {
            self.probe = None;
            self.slow_start_until_count = (self.window_count / 2).max(2);
            (self.window_count, self.grown_count) = (self.slow_start_until_count, 0);
        }
    }

    /// A segment is acknowledged selectively. Whether that is news.
    fn sack(&mut self, number: u32, now_ps: u64, round_trip_ps: &mut Option<u64>) -> bool {
        let segment = *self.at(number);
        if segment.is_sacked {
            return false;
        }
        *self.at(number) = Segment { is_sacked: true, is_lost: false, is_sent_again: false, ..segment };
        self.lost_count -= u32::from(segment.is_lost);
        self.sent_again_count -= u32::from(segment.is_sent_again);
        self.sacked_count += 1;
        self.arrived(&segment, now_ps, round_trip_ps);
        true
    }

    /// RFC 8985, section 6.2, step 2.
    fn arrived(&mut self, segment: &Segment, now_ps: u64, round_trip_ps: &mut Option<u64>) {
        let after_ps = now_ps - segment.sent_ps;
        if !segment.is_ambiguous {
            *round_trip_ps = Some(after_ps);
            self.round_trip_min_ps = self.round_trip_min_ps.min(after_ps);
        } else if after_ps < self.round_trip_min_ps {
            // What arrived is an earlier transmission.
            return;
        }
        if self.arrived_order < Some(segment.order) {
            (self.arrived_order, self.answered_after_ps) = (Some(segment.order), after_ps);
        }
    }

    /// Whether a transmission before one that has arrived is undecided; those decided by themselves are
    /// removed.
    fn has_earlier(&mut self) -> bool {
        while let Some(&(order, number)) = self.undecided.front() {
            if self.is_on_its_way(order, number) {
                return Some(order) < self.arrived_order;
            }
            self.undecided.pop_front();
        }
        false
    }

    /// When the last undecided transmission before one that has arrived was made.
    fn last_earlier_ps(&self) -> Option<u64> {
        let end = self.undecided.partition_point(|&(order, _)| Some(order) < self.arrived_order);
        let mut latest_first = self.undecided.range(..end).rev();
        let &(_, number) = latest_first.find(|&&(order, number)| self.is_on_its_way(order, number))?;
        self.segment(number).map(|segment| segment.sent_ps)
    }

    /// Whether a transmission is the latest of a segment that has not arrived.
    fn is_on_its_way(&self, order: u64, number: u32) -> bool {
        self.segment(number).is_some_and(|segment| segment.order == order && !segment.is_sacked)
    }

    /// What was sent before something that has arrived is lost, if its own answer is so late.
    fn decide_lost(&mut self, now_ps: u64, late_ps: u64) {
        let mut is_new = false;
        let answered_after_ps = self.answered_after_ps + late_ps;
        while self.has_earlier()
            && let Some(&(_, number)) = self.undecided.front()
            && self.at(number).sent_ps + answered_after_ps <= now_ps
        {
            self.undecided.pop_front();
            let segment = self.at(number);
            let was = (segment.is_lost, segment.is_sent_again);
            (segment.is_lost, segment.is_sent_again) = (true, false);
            self.lost_count += u32::from(!was.0);
            self.sent_again_count -= u32::from(was.1);
            self.resent_below = self.resent_below.min(number);
            is_new = true;
        }
        if is_new && self.state == State::Open {
            let from_count = self.sent.len() as u32;
            self.state =
                State::Recovery { until: self.next_number(), from_count, arrived_count: 0, sent_count: 0 };
            // Without what selective acknowledgements let go beyond the window (RFC 5681, section 3.2).
            self.slow_start_until_count = (from_count.min(self.window_count) / 2).max(2);
            (self.grown_count, self.probe) = (0, None);
        }
    }

    /// In recovery: `new_count` segments have arrived, and so many may be sent that in the end half as
    /// much is on its way (RFC 6937, section 3).
    fn reduce(&mut self, new_count: u32) {
        let flight_count = self.flight_count();
        let goal_count = self.slow_start_until_count;
        let State::Recovery { from_count, arrived_count, sent_count, .. } = &mut self.state else { return };
        *arrived_count += new_count;
        let may_count = if flight_count > goal_count {
            (*arrived_count * goal_count).div_ceil(*from_count).saturating_sub(*sent_count)
        } else {
            let limit_count = arrived_count.saturating_sub(*sent_count).max(new_count) + 1;
            limit_count.min(goal_count - flight_count)
        };
        // The first loss is sent again at once.
        let first = u32::from(*sent_count == 0);
        self.window_count = flight_count + may_count.max(first);
    }

    /// RFC 6298, section 2.
    fn measure(&mut self, round_trip_ps: u64) {
        if self.smoothed_ps == 0 {
            (self.smoothed_ps, self.variation_ps) = (round_trip_ps.max(1), round_trip_ps / 2);
        } else {
            let off_ps = self.smoothed_ps.abs_diff(round_trip_ps);
            self.variation_ps = (3 * self.variation_ps + off_ps) / 4;
            self.smoothed_ps = (7 * self.smoothed_ps + round_trip_ps) / 8;
        }
        let least_ps = self.rules.timeout_min_ps;
        self.timeout_ps = (self.smoothed_ps + (4 * self.variation_ps).max(least_ps)).min(TIMEOUT_MAX_PS);
    }

    /// The window grows, if it is what limits.
    fn grow(&mut self, acked_count: u32, flight_before_count: u32) {
        let in_slow_start = self.window_count < self.slow_start_until_count;
        let used_count = if in_slow_start { 2 * flight_before_count } else { flight_before_count };
        if used_count < self.window_count {
            return;
        }
        if in_slow_start {
            self.window_count += acked_count.min(self.slow_start_until_count - self.window_count);
        } else {
            self.grown_count += acked_count;
            while self.grown_count >= self.window_count {
                self.grown_count -= self.window_count;
                self.window_count += 1;
            }
        }
        self.window_count = self.window_count.min(self.window_max_count);
    }

    /// A segment has come to the receiver.
    pub(super) fn receive(&mut self, number: u32) -> Taken {
        let before = self.expected;
        let is_known =
            number < before || self.beyond.iter().any(|&(first, end)| (first..end).contains(&number));
        if is_known || number > before {
            if is_known {
                self.twice = Some(number);
            } else {
                self.keep_beyond(number);
            }
            return Taken { in_order: (before, before), ack_now: true };
        }
        let had_hole = !self.beyond.is_empty();
        self.expected += 1;
        if let Some(at) = self.beyond.iter().position(|&(first, _)| first == self.expected) {
            self.expected = self.beyond.remove(at).1;
        }
        self.unacked_count += 1;
        let ack_now = had_hole || self.unacked_count >= ACK_EVERY_COUNT;
        Taken { in_order: (before, self.expected), ack_now }
    }

    /// The block with this segment becomes the first (RFC 2018, section 4).
    fn keep_beyond(&mut self, number: u32) {
        let mut block = (number, number + 1);
        self.beyond.retain(|&(first, end)| {
            let touches = end == number || first == number + 1;
            if touches {
                block = (block.0.min(first), block.1.max(end));
            }
            !touches
        });
        self.beyond.insert(0, block);
    }

    /// What the receiver's next segment, in the other direction, acknowledges.
    pub(super) fn take_ack(&mut self) -> Ack {
        self.unacked_count = 0;
        self.ack_deadline_ps = u64::MAX;
        let twice = self.twice.take();
        let mut blocks = [(0, 0); BLOCK_COUNT];
        let room = BLOCK_COUNT - usize::from(twice.is_some());
        for (place, &block) in blocks[..room].iter_mut().zip(&self.beyond) {
            *place = block;
        }
        Ack { next: self.expected, blocks, twice }
    }

    /// Whether all that was sent is acknowledged.
    pub(super) fn is_quiet(&self) -> bool {
        self.sent.is_empty() && self.beyond.is_empty()
    }
}

impl Segment {
    pub(super) fn message(&self) -> Option<u32> {
        (self.ends != NONE).then_some(self.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    fn ack(next: u32, blocks: &[Block]) -> Ack {
        let mut ack = Ack { next, ..Ack::default() };
        ack.blocks[..blocks.len()].copy_from_slice(blocks);
        ack
    }

    #[test]
    fn nothing_is_lost_where_nothing_has_come_out_of_order() {
        let mut stream = Stream::new(Tcp::default(), 10, 1_000_000);
        let _ = stream.send_new(0, 1_448, NONE);
        stream.decide_lost(1_000_000, 0);
        assert_eq!((stream.state, stream.lost_count), (State::Open, 0));
    }

    /// A stream with so many segments on their way.
    fn sending(count: u32) -> Stream {
        let mut stream = Stream::new(Tcp::default(), 1_000, 1_000_000);
        (0..count).for_each(|number| assert_eq!(stream.send_new(0, 1_448, NONE), number));
        stream
    }

    #[test]
    fn round_trips_are_weighed_as_rfc_6298_says() {
        let rules = Tcp { timeout_min_ps: 1, ..Tcp::default() };
        let mut stream = Stream::new(rules, 10, 800);
        assert_eq!((stream.smoothed_ps, stream.variation_ps, stream.timeout_ps), (800, 400, 2_400));
        stream.measure(1_600);
        assert_eq!((stream.smoothed_ps, stream.variation_ps, stream.timeout_ps), (900, 500, 2_900));
        let stream = Stream::new(rules, 10, 0);
        assert_eq!((stream.smoothed_ps, stream.variation_ps, stream.timeout_ps), (1, 0, 2));
    }

    #[test]
    fn after_a_timeout_one_segment_goes_and_half_is_aimed_at() {
        for (count, half) in [(10, 5), (3, 2)] {
            let mut stream = sending(count);
            stream.grown_count = 3;
            let timeout_ps = 2 * stream.timeout_ps;
            stream.time_out(7);
            assert_eq!((stream.slow_start_until_count, stream.window_count), (half, 1));
            assert_eq!((stream.grown_count, stream.lost_count), (0, count));
            assert_eq!(stream.deadline_ps, 7 + timeout_ps);
            // A second one halves nothing more.
            stream.slow_start_until_count = 7;
            stream.time_out(9);
            assert_eq!((stream.slow_start_until_count, stream.window_count), (7, 1));
        }
    }

    #[test]
    fn a_window_grows_if_it_is_what_limits() {
        let mut stream = sending(0);
        let mut grown = |flight_count, acked_count, until_count| {
            stream.slow_start_until_count = until_count;
            stream.grow(acked_count, flight_count);
            stream.window_count
        };
        // In slow start by what is acknowledged, if half the window was used.
        assert_eq!([grown(4, 3, 100), grown(5, 3, 100)], [10, 13]);
        // Then by one segment for each window.
        assert_eq!([grown(12, 13, 13), grown(13, 12, 13), grown(13, 1, 13)], [13, 13, 14]);
    }

    #[test]
    fn every_second_segment_is_acknowledged_at_once() {
        let mut stream = sending(0);
        for number in [0, 2, 4] {
            assert!(!stream.receive(number).ack_now, "{number}");
            assert!(stream.receive(number + 1).ack_now, "{number}");
            assert_eq!(stream.take_ack().next, number + 2);
        }
        // One that goes along with data counts, too.
        assert!(!stream.receive(6).ack_now);
        let _ = stream.take_ack();
        assert!(!stream.receive(7).ack_now);
    }

    /// Three selective acknowledgements of ten segments.
    #[test]
    fn recovery_begins_with_what_rfc_6937_counts() {
        let mut stream = sending(10);
        stream.grown_count = 3;
        stream.on_ack(MS, &ack(0, &[(1, 4)]));
        let (until, from_count) = (10, 10);
        let recovery = State::Recovery { until, from_count, arrived_count: 3, sent_count: 0 };
        assert_eq!((stream.state, stream.grown_count), (recovery, 0));
        // 3 of 10 have arrived, and half is aimed at: two go, of which the lost one is first.
        assert_eq!([stream.next(MS, true), stream.next(MS, false)], [Next::Again(0); 2]);
        let _ = stream.send_again(MS, 0);
        assert_eq!(stream.next(MS, true), Next::New);
        let _ = stream.send_new(MS, 1_448, NONE);
        assert_eq!(stream.next(MS, true), Next::Wait);
        // What is acknowledged in order has arrived, too.
        stream.on_ack(2 * MS, &ack(6, &[]));
        let recovery = State::Recovery { until, from_count, arrived_count: 6, sent_count: 2 };
        assert_eq!(stream.state, recovery);
    }

    #[test]
    fn so_much_is_sent_in_recovery_as_is_missing_below_half() {
        // With exactly half on its way the first loss alone goes.
        let mut stream = sending(10);
        stream.on_ack(MS, &ack(0, &[(2, 5)]));
        assert_eq!((stream.flight_count(), stream.slow_start_until_count, stream.window_count), (5, 5, 6));
        // With less as much as has arrived, and one more.
        let mut stream = sending(10);
        stream.on_ack(MS, &ack(0, &[(7, 10)]));
        assert_eq!((stream.flight_count(), stream.window_count), (0, 4));
        // Nothing has arrived since the timer: the first loss alone.
        let mut stream = sending(10);
        stream.on_ack(MS, &ack(0, &[(1, 2)]));
        assert!(!stream.on_deadline(MS + MS / 4));
        assert_eq!((stream.flight_count(), stream.window_count), (8, 9));
        let _ = stream.send_again(MS + MS / 4, 0);
        stream.reduce(0);
        assert_eq!((stream.flight_count(), stream.window_count), (9, 9));
        // Half of two is not less than two.
        let mut stream = sending(2);
        stream.on_ack(MS, &ack(0, &[(1, 2)]));
        assert!(!stream.on_deadline(MS + MS / 4));
        assert_eq!(stream.slow_start_until_count, 2);
    }

    #[test]
    fn a_window_begins_anew_after_more_than_a_timeout() {
        for (after_ps, count) in [(0, 20), (1, 10)] {
            let mut stream = sending(10);
            stream.on_ack(MS, &ack(10, &[]));
            stream.grown_count = 7;
            assert_eq!(stream.next(stream.timeout_ps + after_ps, true), Next::New);
            assert_eq!((stream.window_count, stream.grown_count), (count, if count == 20 { 7 } else { 0 }));
        }
    }

    #[test]
    fn for_a_loss_that_a_probe_repaired_a_window_is_halved_once() {
        for (count, half) in [(10, 5), (3, 2)] {
            let mut stream = sending(2);
            (stream.window_count, stream.grown_count) = (count, 1);
            stream.probe = Some(Probe { end: 2, again: Some(1) });
            stream.end_probe(&ack(2, &[]));
            assert_eq!((stream.window_count, stream.grown_count), (count, 1), "it may have come twice");
            for next in [3, 4] {
                stream.end_probe(&ack(next, &[]));
                assert_eq!((stream.window_count, stream.slow_start_until_count), (half, half));
                assert_eq!(stream.grown_count, 0);
            }
        }
    }
}
