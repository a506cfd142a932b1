//! Time as the core knows it: picoseconds on a clock that the caller reads. A 16-byte flit at 5 GB/s takes
//! 3.2 ns, so nanoseconds are too coarse; 64 bits of picoseconds last 213 days.

use core::ops::{Add, AddAssign, Sub};

/// A moment, in picoseconds since an arbitrary start that all users of one [`Process`](crate::Process) share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Instant(pub u64);

/// A length of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Duration(pub u64);

impl Instant {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than every other moment.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }
    /// From microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }
    /// From milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }
    /// From seconds.
    pub const fn from_s(s: u64) -> Self {
        Self(s * 1_000_000_000_000)
    }
    /// In picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// In seconds, for people.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, d: Self) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}
