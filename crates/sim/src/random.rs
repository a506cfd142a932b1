//! Random numbers from a seed.
//!
//! Our own ten lines (SplitMix64: G. Steele, D. Lea, C. Flood, OOPSLA 2014) because results are compared
//! across years: a crate's next version must not change them.

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

    /// A number below `bound`, which must not be 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Puts the elements in a random order, every order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.below(last as u64 + 1) as usize);
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
