//! The pending looks at router ports, by slice of time.
//!
//! A slice is no longer than the network's *lookahead*: the least time after which one port's doing is felt
//! by another (a link's latency and a flit or credit; within a router, a packet's time on a link). So ports
//! that are looked at within one slice cannot depend on each other, and their order is of no consequence;
//! nothing is sorted, and an entry is a port's number: when exactly it wants to be looked at stands in the
//! port. This is the window of conservative parallel simulation (K. Chandy, J. Misra, 1979), used to save
//! work on one core.
//!
//! An entry whose port meanwhile wants a later time is stale, and the network passes over it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most slices in a turn of the wheel. What lies beyond is in a heap.
const SLICE_COUNT_MAX: u64 = 1 << 13;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// log2 of a slice's length in ps.
    slice_bits: u32,
    /// The open slice: ports are taken from it.
    slice: u64,
    open: Vec<u32>,
    /// By slice modulo their number (a power of two).
    buckets: Vec<Vec<u32>>,
    /// A bit for each bucket that is not empty.
    occupied: Vec<u64>,
    far: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Wheel {
    /// With slices of at most `lookahead_ps` and a turn of about `horizon_ps`, within which most looks lie.
    pub(crate) fn new(lookahead_ps: u64, horizon_ps: u64) -> Wheel {
        let slice_bits = lookahead_ps.max(1).ilog2();
        let bucket_count = ((horizon_ps >> slice_bits) + 2).next_power_of_two().clamp(64, SLICE_COUNT_MAX);
        Wheel {
            slice_bits,
            slice: 0,
            open: Vec::new(),
            buckets: vec![Vec::new(); bucket_count as usize],
            occupied: vec![0; bucket_count as usize / 64],
            far: BinaryHeap::new(),
        }
    }

    #[inline]
    pub(crate) fn slice_of(&self, time_ps: u64) -> u64 {
        time_ps >> self.slice_bits
    }

    pub(crate) fn slice(&self) -> u64 {
        self.slice
    }

    /// First and last picosecond of a slice.
    #[inline]
    pub(crate) fn bounds_ps(&self, slice: u64) -> (u64, u64) {
        let first_ps = slice << self.slice_bits;
        (first_ps, first_ps | ((1 << self.slice_bits) - 1))
    }

    /// A port wants to be looked at; at a time before the open slice: in it.
    #[inline]
    pub(crate) fn push(&mut self, time_ps: u64, port: u32) {
        let slice = self.slice_of(time_ps);
        if slice <= self.slice {
            self.open.push(port);
        } else if slice - self.slice < self.buckets.len() as u64 {
            self.put(slice, port);
        } else {
            self.push_far(slice, port);
        }
    }

    #[cold]
    fn push_far(&mut self, slice: u64, port: u32) {
        self.far.push(Reverse((slice, port)));
    }

    #[inline]
    fn put(&mut self, slice: u64, port: u32) {
        let bucket = slice as usize & (self.buckets.len() - 1);
        self.buckets[bucket].push(port);
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
    }

    /// The next port of the open slice, in any order.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.open.pop()
    }

    /// What is still to be popped, the next one last.
    #[inline]
    pub(crate) fn open_ports(&self) -> &[u32] {
        &self.open
    }

    /// The first slice after the open one in which a port wants to be looked at.
    pub(crate) fn next_slice(&self) -> Option<u64> {
        let far = self.far.peek().map(|&Reverse((slice, _))| slice);
        match (self.next_occupied(), far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    /// Opens a later slice, no later than the next one that has a port. The open one must be empty.
    pub(crate) fn open(&mut self, slice: u64) {
        debug_assert!(
            self.open.is_empty() && slice > self.slice && self.next_slice().is_none_or(|s| slice <= s)
        );
        self.slice = slice;
        let bucket = slice as usize & (self.buckets.len() - 1);
        std::mem::swap(&mut self.open, &mut self.buckets[bucket]);
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        while let Some(&Reverse((far, port))) = self.far.peek()
            && far - slice < self.buckets.len() as u64
        {
            self.far.pop();
            if far == slice { self.open.push(port) } else { self.put(far, port) }
        }
    }

    fn next_occupied(&self) -> Option<u64> {
        let words = self.occupied.len();
        let start = (self.slice as usize + 1) & (self.buckets.len() - 1);
        let (first, offset) = (start / 64, start % 64);
        let ahead = self.occupied[first] >> offset;
        if ahead != 0 {
            return Some(self.slice + 1 + u64::from(ahead.trailing_zeros()));
        }
        // The first word comes again at the end, for the bits before `offset`.
        for step in 1..=words {
            let bits = self.occupied[(first + step) & (words - 1)];
            if bits != 0 {
                let distance = (64 * step + bits.trailing_zeros() as usize) - offset;
                return Some(self.slice + 1 + distance as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_random::Random;

    #[test]
    fn ports_come_slice_by_slice_each_as_often_as_pushed() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            // From within one slice to far beyond a turn.
            let (lookahead_ps, reach_ps) = (1 << random.below(12), 1 << random.below(26));
            let mut wheel = Wheel::new(lookahead_ps, 1 << random.below(16));
            let mut model: std::collections::BTreeMap<u64, Vec<u32>> = std::collections::BTreeMap::new();
            for step in 0..2_000 {
                if random.below(3) > 0 || step < 10 {
                    let (first_ps, _) = wheel.bounds_ps(wheel.slice());
                    let time_ps = first_ps + random.below(reach_ps);
                    let port = random.below(9) as u32;
                    wheel.push(time_ps, port);
                    model.entry(wheel.slice_of(time_ps)).or_default().push(port);
                } else {
                    let mut ports: Vec<u32> = std::iter::from_fn(|| wheel.pop()).collect();
                    let mut expected = model.remove(&wheel.slice()).unwrap_or_default();
                    ports.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(ports, expected, "seed {seed}");
                    let next = wheel.next_slice();
                    assert_eq!(next, model.keys().next().copied(), "seed {seed}");
                    if let Some(next) = next {
                        // The network also opens slices without ports, for events of its own.
                        let from = wheel.slice() + 1;
                        wheel.open(if random.below(4) == 0 {
                            from + random.below(next - from + 1)
                        } else {
                            next
                        });
                    }
                }
            }
        }
    }

    #[test]
    fn a_slice_lasts_no_longer_than_the_lookahead() {
        for lookahead_ps in [1, 2, 3, 16_400, 16_384, 1_000_000] {
            let wheel = Wheel::new(lookahead_ps, 1_000_000);
            let (first_ps, last_ps) = wheel.bounds_ps(7);
            assert!(last_ps - first_ps < lookahead_ps && 2 * (last_ps - first_ps + 1) > lookahead_ps);
        }
    }
}
