//! Who sends what to whom in which round.

use super::rounds::{Pattern, Transfer};
use crate::workloads::{RingOrder, pairwise_partners};

/// Processes in rings of random order; each sends to both neighbours at once and receives from both. The
/// "randomly ordered ring" of b_eff (R. Rabenseifner, A. Koniges, "Effective communication and file-I/O
/// bandwidth benchmarks", 2001), as in the HPC Challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomRing {
    order: RingOrder,
    process_count: u32,
    message_bytes: u64,
    repeat_count: u32,
}

impl RandomRing {
    /// A ring of `process_count` processes in the order that `seed` gives, `repeat_count` times around.
    pub fn new(process_count: u32, message_bytes: u64, seed: u64, repeat_count: u32) -> RandomRing {
        RandomRing { order: RingOrder::new(process_count, seed), process_count, message_bytes, repeat_count }
    }
}

impl Pattern for RandomRing {
    fn process_count(&self) -> u32 {
        self.process_count
    }

    fn round_count(&self) -> u32 {
        self.repeat_count
    }

    fn sends(&self, process: u32, _round: u32, sends: &mut Vec<Transfer>) {
        let (left, right) = self.order.neighbours(process);
        sends.extend([left, right].map(|to| Transfer { to, bytes: self.message_bytes }));
    }

    fn receive_count(&self, _process: u32, _round: u32) -> u32 {
        2
    }
}

/// All-to-all by pairwise exchange, with [`pairwise_partners`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairwiseExchange {
    /// The process that has each rank, and the rank of each process.
    process_of: Vec<u32>,
    rank_of: Vec<u32>,
    message_bytes: u64,
}

impl PairwiseExchange {
    /// Processes exchange in the order of their numbers.
    pub fn new(process_count: u32, message_bytes: u64) -> PairwiseExchange {
        PairwiseExchange::with_ranks((0..process_count).collect(), message_bytes)
    }

    /// `process_of[rank]` is the process with that rank; every process must occur once.
    pub fn with_ranks(process_of: Vec<u32>, message_bytes: u64) -> PairwiseExchange {
        let mut rank_of = vec![0; process_of.len()];
        for (rank, &process) in process_of.iter().enumerate() {
            rank_of[process as usize] = rank as u32;
        }
        PairwiseExchange { process_of, rank_of, message_bytes }
    }

    fn partner(&self, rank: u32, round: u32) -> u32 {
        pairwise_partners(rank, round + 1, self.process_count()).0
    }
}

impl Pattern for PairwiseExchange {
    fn process_count(&self) -> u32 {
        self.process_of.len() as u32
    }

    fn round_count(&self) -> u32 {
        self.process_count().saturating_sub(1)
    }

    fn sends(&self, process: u32, round: u32, sends: &mut Vec<Transfer>) {
        let partner = self.partner(self.rank_of[process as usize], round);
        sends.push(Transfer { to: self.process_of[partner as usize], bytes: self.message_bytes });
    }

    fn receive_count(&self, _process: u32, _round: u32) -> u32 {
        1
    }
}

/// Every process sends one message to another, given by a permutation; a process that maps to itself is idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    /// The receiver of each process's message.
    pub to: Vec<u32>,
    /// Length of each message, bytes.
    pub message_bytes: u64,
}

impl Pattern for Permutation {
    fn process_count(&self) -> u32 {
        self.to.len() as u32
    }

    fn round_count(&self) -> u32 {
        1
    }

    fn sends(&self, process: u32, _round: u32, sends: &mut Vec<Transfer>) {
        let to = self.to[process as usize];
        if to != process {
            sends.push(Transfer { to, bytes: self.message_bytes });
        }
    }

    fn receive_count(&self, process: u32, _round: u32) -> u32 {
        u32::from(self.to[process as usize] != process)
    }
}

/// The order of ranks over a torus of `extents` in which the axes in `order` vary fastest first: what "4×2×8
/// as 8×4×2" means in the packet pacing paper, whose physical network stays the same. Returns the switch of
/// every rank, numbered with the first extent varying fastest.
pub fn ranks_by_axes(extents: &[u32], order: &[usize]) -> Vec<u32> {
    let count: u32 = extents.iter().product();
    let stride = |axis: usize| extents[..axis].iter().product::<u32>();
    let place = |mut rank: u32| {
        let mut switch = 0;
        for &axis in order {
            switch += rank % extents[axis] * stride(axis);
            rank /= extents[axis];
        }
        switch
    };
    (0..count).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_received_as_often_as_sent() {
        let patterns: [&dyn Pattern; 4] = [
            &RandomRing::new(13, 8, 5, 2),
            &PairwiseExchange::new(16, 8),
            &PairwiseExchange::new(12, 8),
            &Permutation { to: vec![1, 0, 2], message_bytes: 8 },
        ];
        for pattern in patterns {
            for round in 0..pattern.round_count() {
                let mut received = vec![0; pattern.process_count() as usize];
                for process in 0..pattern.process_count() {
                    let mut sends = Vec::new();
                    pattern.sends(process, round, &mut sends);
                    sends.iter().for_each(|transfer| received[transfer.to as usize] += 1);
                }
                for (process, count) in received.into_iter().enumerate() {
                    assert_eq!(pattern.receive_count(process as u32, round), count);
                }
            }
        }
    }

    #[test]
    fn pairwise_exchange_meets_every_rank_once() {
        for count in [16, 12] {
            let pattern = PairwiseExchange::new(count, 8);
            let mut met: Vec<u32> =
                (0..pattern.round_count()).map(|round| pattern.partner(3, round)).collect();
            met.sort_unstable();
            assert_eq!(met, (0..count).filter(|&rank| rank != 3).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rank_orders_put_the_named_axis_first() {
        let extents = [4, 2, 8];
        assert_eq!(ranks_by_axes(&extents, &[0, 1, 2]), (0..64).collect::<Vec<_>>());
        // Z first: neighbours in rank are neighbours in z, 4 x 2 switches apart.
        assert_eq!(ranks_by_axes(&extents, &[2, 0, 1])[..9], [0, 8, 16, 24, 32, 40, 48, 56, 1]);
    }
}
