//! Random numbers from a seed.
//!
//! This crate owns the one generator of the workspace: SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
//! Plans, simulations, fault runs and tests draw from it, so that a seed gives the same result on every
//! machine. It is ten lines of our own because results are compared across years: a library's next version
//! must not change them.
//!
//! It is not for secrets: the keys of jobs come from the system (`ayatori-launch`).
//!
//! Who draws makes a stream of a seed ([`Random::new`]), or one for each of many entities
//! ([`Random::for_entity`]), so that what one draws does not depend on what another has drawn.
//!
//! Begin with [`Random::below`]:
//!
//! ```
//! use ayatori_random::Random;
//!
//! let mut random = Random::new(7);
//! let throws: Vec<u64> = (0..3).map(|_| 1 + random.below(6)).collect();
//! assert_eq!(throws, [3, 1, 6]);
//! ```

#![no_std]

extern crate alloc;

use alloc::vec::Vec;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A stream of its own for each of many entities, from one seed.
    pub fn for_entity(seed: u64, entity: u64) -> Random {
        let mut random = Random::new(seed);
        random.state = random.next_u64() ^ entity.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        random
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index of a list of so many elements; 0 if there are none.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// Whether this is the one time in so many.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next_u64() as u8).collect()
    }

    /// Puts the elements in a random order, every order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.next_u64(), random.next_u64()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn shuffling_keeps_all_elements() {
        let mut elements: Vec<u32> = (0..100).collect();
        Random::new(7).shuffle(&mut elements);
        assert_ne!(elements, (0..100).collect::<Vec<_>>());
        elements.sort_unstable();
        assert_eq!(elements, (0..100).collect::<Vec<_>>());
    }
}
