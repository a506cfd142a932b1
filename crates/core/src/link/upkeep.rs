//! Periodic work of links: due acknowledgements, judging rails, probing peers that a request waits for.

use super::{LinkEvent, LinkIndex, Links};
use crate::device::Device;
use crate::ids::ProcessId;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;

/// How often links are looked after at most.
const CHECK_INTERVAL: Duration = Duration::from_ms(1);
/// A process that looks after its links this much later than it should was away: computing, or asleep.
const AWAY: Duration = Duration::from_ms(20);
/// Rounds after which it has read all that came meanwhile, at the latest: more than sockets hold. Packets
/// that go on coming are no reason to look after no link.
const CATCHING_UP_ROUNDS_MAX: u32 = 1 << 16;

/// The time as links know it.
#[derive(Default)]
pub(super) struct Clock {
    pub(super) now: Instant,
    /// When links are looked after next.
    next_check: Instant,
    /// Next time to probe the peers that a request waits for; `ZERO`: never probed yet.
    next_keepalive: Instant,
    pub(super) is_check_due: bool,
    /// The device has reported rails before any link needed the time. Nobody has told it, so what was
    /// reported has an old one.
    pub(super) is_unknown: bool,
    /// Rounds left in which to read what came while this process was away; 0: it is read.
    catching_up: u32,
}

impl Links {
    /// The time of the last call.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.clock.now
    }

    /// Whether there are links that need the time.
    #[inline]
    pub(crate) fn want_time(&self) -> bool {
        !self.trunks.is_empty()
    }

    /// The time goes on.
    #[inline]
    pub(crate) fn advance_to(&mut self, now: Instant) {
        let is_any = self.want_time();
        let clock = &mut self.clock;
        clock.now = clock.now.max(now);
        if clock.is_unknown {
            self.start_time();
        }
        let clock = &mut self.clock;
        if clock.now >= clock.next_check && is_any {
            if clock.catching_up == 0 && clock.now >= clock.next_check + AWAY {
                clock.catching_up = CATCHING_UP_ROUNDS_MAX;
            }
            clock.is_check_due = true;
        }
    }

    #[cold]
    fn start_time(&mut self) {
        self.clock.is_unknown = false;
        let now = self.clock.now;
        for at in 0..self.trunks.len() {
            let index = self.trunks[at];
            if let Some(trunk) = &mut self.get_mut(index).trunk {
                // What the rails were reported to be, they are from now on.
                trunk.none_up_since = trunk.none_up_since.map(|_| now);
            }
        }
    }

    /// Whether what came while this process was away is still being read.
    #[inline]
    pub(crate) fn is_catching_up(&self) -> bool {
        self.clock.catching_up > 0
    }

    /// A round of reading is over, which may have read all there was.
    #[inline]
    pub(crate) fn end_round(&mut self, all_is_read: bool) {
        self.clock.catching_up = if all_is_read { 0 } else { self.clock.catching_up.saturating_sub(1) };
    }

    /// Whether links need a check now. The silence of peers is no evidence before this process has read all
    /// packets that arrived while it was away.
    #[inline]
    pub(crate) fn is_check_due(&self) -> bool {
        self.clock.is_check_due && self.clock.catching_up == 0
    }

    /// Checks the links. `awaited` gives those whose peers a request waits for.
    #[cold]
    pub(crate) fn check<D: Device>(&mut self, device: &mut D, awaited: impl FnOnce(&Self) -> Vec<LinkIndex>) {
        let now = self.clock.now;
        self.clock.is_check_due = false;
        self.clock.next_check = now + CHECK_INTERVAL;
        if now >= self.clock.next_keepalive {
            // A rail is found silent only if it owes an acknowledgement, and a receive alone makes it owe
            // none.
            let interval = self.keepalive_interval();
            self.clock.next_keepalive = now + interval;
            let mut wanted = awaited(self);
            wanted.sort_unstable();
            wanted.dedup();
            for index in wanted {
                if let Some(trunk) = self.get_mut(index).working_trunk() {
                    trunk.keep_alive(device, interval, now);
                }
            }
        }
        for at in 0..self.trunks.len() {
            let index = self.trunks[at];
            let link = &mut self.links[index as usize];
            let is_idle = link.pending.is_empty();
            let Some(trunk) = link.working_trunk() else { continue };
            if trunk.deadline(false) > now && !trunk.wants_flush(now) {
                continue;
            }
            if !trunk.check(device, now) {
                let is_unused = trunk.is_unused() && is_idle;
                let event = if is_unused { LinkEvent::NeverReached } else { LinkEvent::Unreachable };
                self.events.push_back(event(index));
                continue;
            }
            self.wake_waiting(index);
            self.list(index);
        }
    }

    /// A peer that was never reached is not given up: nobody needs it. If nothing changes, the same is
    /// reported again, as late.
    pub(crate) fn bear_with(&mut self, index: LinkIndex) {
        let now = self.clock.now;
        if let Some(trunk) = &mut self.get_mut(index).trunk {
            (trunk.is_never_reached, trunk.none_up_since) = (true, Some(now));
        }
    }

    /// Whether a peer was met: a packet of it has come, or a rail to it has come up, or it has one that
    /// cannot break.
    pub(crate) fn has_met(&self, peer: ProcessId) -> bool {
        let link = self.index_of(peer).map(|index| self.get(index)).filter(|link| link.failed.is_none());
        link.is_some_and(|link| link.trunk.as_ref().is_none_or(|trunk| !trunk.is_unused()))
    }

    /// Whether nothing can come from a peer as far as is known: it is given up, or was reported as never
    /// reached.
    pub(crate) fn is_out_of_reach(&self, peer: ProcessId) -> bool {
        let Some(link) = self.index_of(peer).map(|index| self.get(index)) else { return false };
        link.failed.is_some()
            || link.trunk.as_ref().is_some_and(|trunk| trunk.is_never_reached && trunk.is_unused())
    }

    /// The links that acknowledge.
    pub(crate) fn that_acknowledge(&self) -> &[LinkIndex] {
        &self.trunks
    }

    /// Interval of probes to a silent peer that a request waits for.
    fn keepalive_interval(&self) -> Duration {
        Duration(self.config.peer_timeout.0 / 4)
    }

    /// When links need the next check; `None`: not at all. Packets that wait only because the device is full
    /// are not counted: the device wakes a sleeper when it can take more. `is_awaited`: whether a request
    /// waits for a peer.
    pub(crate) fn deadline(&self, is_awaited: bool) -> Option<Instant> {
        let deadline_of = |&index: &LinkIndex| {
            let link = self.get(index);
            link.trunk.as_ref().map(|trunk| trunk.deadline(link.listed))
        };
        let keepalive = match self.clock.next_keepalive {
            // Before the first look, none is due at once.
            Instant::ZERO => self.clock.now + self.keepalive_interval(),
            due => due,
        };
        let keepalive = (is_awaited && self.want_time()).then_some(keepalive);
        let deadline = self.trunks.iter().filter_map(deadline_of).chain(keepalive).min()?;
        // Sooner nothing would be done: a process that sleeps until a time that is past would wake again and
        // again.
        (deadline < Instant::FAR_FUTURE).then_some(deadline.max(self.clock.next_check))
    }

    /// Whether every peer has acknowledged all that was sent to it.
    pub(crate) fn are_quiet(&self) -> bool {
        let trunk = |index: &LinkIndex| self.get(*index).trunk.as_ref();
        self.trunks.iter().filter_map(trunk).all(|trunk| trunk.is_quiet())
    }

    /// The peer has ended in order: all packets in flight to it have arrived.
    pub(crate) fn settle_all(&mut self, index: LinkIndex) {
        if let Some(trunk) = &mut self.links[index as usize].trunk {
            trunk.settle_all();
            self.events.extend(trunk.settled.drain(..));
        }
    }

    /// A rail may have room: the transfer that has waited longest tries.
    pub(crate) fn wake_waiting(&mut self, index: LinkIndex) {
        if let Some(trunk) = &mut self.links[index as usize].trunk
            && let Some(transfer) = trunk.waiting.pop_front()
        {
            self.events.push_back(LinkEvent::Room(index, transfer));
        }
    }
}
