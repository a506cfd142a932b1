//! When the other side of an agent's channel counts as gone.

use std::time::{Duration, Instant};

/// How often each side says that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);
/// A side that has not been heard for so long is gone.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// When the other side was heard last, for the judgement of its silence: `heard`, unless this process itself
/// has not run since its last `turn`, of which there is one a heartbeat. Then the machine or this process was
/// suspended, and the other side perhaps with it, or what it said is still to be read.
pub(crate) fn heard_while_running(heard: Instant, turn: Instant, now: Instant) -> Instant {
    if now.duration_since(turn) > 3 * HEARTBEAT { now } else { heard }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspended_time_counts_as_no_peers_silence() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(heard_while_running(after(2), after(10), after(11)), after(2), "the other side is silent");
        assert_eq!(heard_while_running(after(2), after(3), after(40)), after(40), "this process was stopped");
    }
}
