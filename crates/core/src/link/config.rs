//! Settings of links in trunk mode.

use super::Policy;
use crate::time::Duration;

/// How links over rails that can break, or over several, behave (trunk mode).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrunkConfig {
    /// How data is spread over rails.
    pub policy: Policy,
    /// A rail without acknowledgements for this time, while the peer is known to be awake, is taken out.
    pub silence: Duration,
    /// How often a silent rail is tried.
    pub probe_interval: Duration,
    /// How long a peer may be without any rail before its operations fail.
    pub peer_timeout: Duration,
}

impl Default for TrunkConfig {
    fn default() -> Self {
        Self {
            policy: Policy::Adaptive,
            silence: Duration::from_ms(400),
            probe_interval: Duration::from_ms(500),
            peer_timeout: Duration::from_s(10),
        }
    }
}
