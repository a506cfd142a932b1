//! The limits of a search for balanced routes.

/// What a search may do.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Limits {
    /// Trees, each a VLAN at worst.
    pub(in super::super) trees_max: usize,
    /// Whether channels may wait for each other in a cycle: nothing pauses.
    pub(in super::super) allows_cycles: bool,
    pub(in super::super) seed: u64,
    /// Whether turns may be negotiated: seconds instead of one.
    pub(in super::super) is_thorough: bool,
    /// Lower bound for all routes.
    pub(in super::super) least_pressure: f64,
}
