//! Judgement of a rail's health from the evidence.
//!
//! ```text
//!            nothing acknowledged for `silence`, and the peer is known to be awake
//!     Up ─────────────────────────────────────────────────────────────────────► Silent ──┐ a probe each
//!     ▲ │                                                                         │   ▲   │ `probe_interval`
//!     │ └── RailDown ──► Down ── RailUp ──┐                            RailDown ──┤   └───┘
//!     └───────────────────────────────────┴──── RailUp, or a probe is acknowledged ┘
//! ```
//!
//! Silence alone is no evidence: a peer that computes acknowledges nothing on any rail, and that is no fault.
//! So a rail is silent only if the peer answers *on another rail* meanwhile, or if the device knows it from
//! the network's own acknowledgements ([`Device::heard`](crate::device::Device::heard)). Without both, it is
//! silent after half of the time after which the peer is given up. Each verdict takes one more look
//! ([`SECOND_LOOK`]), so that the peer can answer the probe of the first. Packets that arrived while *this*
//! process computed are read before either look (`Process::progress`).

use super::TrunkConfig;
use crate::time::{Duration, Instant};

/// From the first judgement to the last, so that a rail that was asked late has time to answer.
pub(super) const SECOND_LOOK: Duration = Duration::from_ms(20);

/// State of a rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// It works, as far as is known.
    Up,
    /// It answers nothing: being probed.
    Silent,
    /// The device says it is broken: the device tries.
    Down,
}

/// Evidence about a rail when it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Start of the time with packets in flight and without acknowledgements.
    pub(super) waiting_since: Instant,
    /// When anything last came from the peer by another rail that was asked meanwhile.
    pub(super) others_heard_at: Option<Instant>,
    /// See [`Device::heard`](crate::device::Device::heard).
    pub(super) network_owes: Option<Duration>,
}

/// Judges a rail that owes acknowledgements. `None`: it looks silent, look once more, soon. `Some`: it is
/// well, or nothing can be said: look again then.
pub(super) fn judge(evidence: &Evidence, config: &TrunkConfig, now: Instant) -> Option<Instant> {
    let Evidence { waiting_since, others_heard_at, network_owes } = *evidence;
    let due = waiting_since + config.silence;
    if now < due {
        return Some(due);
    }
    if network_owes.is_some_and(|owes| owes >= config.silence) {
        return None;
    }
    // The peer was awake well after it should have acknowledged.
    let half = Duration(config.silence.0 / 2);
    if others_heard_at.is_some_and(|at| at >= waiting_since + half) {
        return None;
    }
    if network_owes.is_some() {
        return Some(now + half);
    }
    let lonely = waiting_since + Duration(config.silence.0.max(config.peer_timeout.0 / 2));
    (now < lonely).then_some(lonely.min(now + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Instant = Instant(1 << 50);

    fn after(ms: u64, others_ms: Option<u64>, owes_ms: Option<u64>) -> bool {
        let evidence = Evidence {
            waiting_since: T0,
            others_heard_at: others_ms.map(|ms| T0 + Duration::from_ms(ms)),
            network_owes: owes_ms.map(Duration::from_ms),
        };
        judge(&evidence, &TrunkConfig::default(), T0 + Duration::from_ms(ms)).is_none()
    }

    #[test]
    fn a_rail_is_silent_when_others_speak_or_the_network_owes() {
        for (ms, others_ms, owes_ms, is_silent) in [
            (399, Some(390), Some(390), false),
            (400, Some(390), None, true),
            // Half of the time after it should have answered the peer was awake.
            (400, Some(200), None, true),
            (400, Some(199), None, false),
            (400, Some(390), Some(0), true),
            (400, None, Some(400), true),
            // A peer that computes is no silent rail.
            (3_000, None, None, false),
            (3_000, Some(10), None, false),
            (600_000, None, Some(0), false),
            // Without information patience ends at half of the peer's timeout.
            (4_999, None, None, false),
            (5_000, None, None, true),
        ] {
            assert_eq!(after(ms, others_ms, owes_ms), is_silent, "{ms} ms, {others_ms:?}, {owes_ms:?}");
        }
    }
}
