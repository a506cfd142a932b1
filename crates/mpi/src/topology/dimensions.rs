//! `MPI_Dims_create`: the dimensions of a balanced grid.

/// `count` processes as a grid of `dimension_count` dimensions as close to each other as possible, largest
/// first.
///
/// The measure is the spread, the difference between the largest and the smallest dimension. Among
/// factorizations with the smallest spread it takes the one with the smallest largest dimension, and among
/// those the one whose next dimensions are smallest in turn: 5,040 in three dimensions is 20 × 18 × 14 and
/// not 21 × 16 × 15.
pub(crate) fn balanced_dimensions(count: u32, dimension_count: usize) -> Vec<u32> {
    if dimension_count == 0 {
        return Vec::new();
    }
    let mut divisors: Vec<u32> = (1..=count.isqrt()).filter(|d| count.is_multiple_of(*d)).collect();
    divisors.extend(divisors.clone().iter().rev().map(|d| count / d).filter(|d| *d > count / d));
    let mut search = Search { divisors, taken: Vec::new(), best: Vec::new(), spread: u32::MAX };
    search.extend(count, dimension_count, count);
    search.best
}

/// A search among all factorizations with factors that do not increase, smallest first factor first.
struct Search {
    divisors: Vec<u32>,
    taken: Vec<u32>,
    best: Vec<u32>,
    /// Spread of the best so far.
    spread: u32,
}

impl Search {
    /// Extends the taken factors by `left_count` factors of `rest` no larger than `limit`.
    fn extend(&mut self, rest: u32, left_count: usize, limit: u32) {
        if left_count == 1 {
            // The last one is what is left.
            let spread = self.taken.first().map_or(0, |first| first.abs_diff(rest));
            if rest <= limit && (self.best.is_empty() || spread < self.spread) {
                self.best = self.taken.iter().copied().chain([rest]).collect();
                self.spread = spread;
            }
            return;
        }
        let to_the = |factor: u32, power: usize| u64::from(factor).saturating_pow(power as u32);
        for at in 0..self.divisors.len() {
            let factor = self.divisors[at];
            if factor > limit {
                return;
            }
            // Those that follow are no larger: too small a factor leaves too much for them.
            if !rest.is_multiple_of(factor) || to_the(factor, left_count) < u64::from(rest) {
                continue;
            }
            // The smallest is at most the root of the rest: with a larger first factor the spread only grows.
            let first = self.taken.first().copied().unwrap_or(factor);
            let smallest_min = first.saturating_sub(self.spread.saturating_sub(1));
            if to_the(smallest_min, left_count) > u64::from(rest) {
                return;
            }
            self.taken.push(factor);
            self.extend(rest / factor, left_count - 1, factor);
            self.taken.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_the_expected_ones() {
        for (count, dimension_count, expected) in [
            (6, 2, &[3, 2][..]),
            (7, 2, &[7, 1]),
            (6, 3, &[3, 2, 1]),
            (12, 3, &[3, 2, 2]),
            (16, 3, &[4, 2, 2]),
            (24, 3, &[4, 3, 2]),
            (36, 2, &[6, 6]),
            (72, 3, &[6, 4, 3]),
            (12_288, 6, &[8, 6, 4, 4, 4, 4]),
            (1, 4, &[1, 1, 1, 1]),
            (5, 1, &[5]),
            (5_040, 3, &[20, 18, 14]),
            // Not 21 × 20 × 11, whose largest dimension is smaller.
            (4_620, 3, &[22, 15, 14]),
            (4, 0, &[]),
        ] {
            assert_eq!(balanced_dimensions(count, dimension_count), expected, "{count} in {dimension_count}");
        }
    }

    /// All factorizations with factors that do not increase.
    fn all(count: u32, dimension_count: usize, limit: u32) -> Vec<Vec<u32>> {
        if dimension_count == 0 {
            return if count == 1 { vec![vec![]] } else { vec![] };
        }
        let factors = (1..=limit.min(count)).filter(|factor| count.is_multiple_of(*factor));
        let extended = factors.flat_map(|factor| {
            let rest = all(count / factor, dimension_count - 1, factor);
            rest.into_iter().map(move |rest| [vec![factor], rest].concat())
        });
        extended.collect()
    }

    #[test]
    fn no_other_factorization_has_a_smaller_spread() {
        for (counts, dimension_count) in [(1..=600, 2), (1..=600, 3), (1..=300, 4)] {
            for count in counts {
                let measure = |dims: &Vec<u32>| (dims[0] - dims[dims.len() - 1], dims.clone());
                let best = all(count, dimension_count, count).into_iter().min_by_key(measure).unwrap();
                assert_eq!(balanced_dimensions(count, dimension_count), best, "{count} in {dimension_count}");
            }
        }
    }

    #[test]
    fn large_counts_are_quick() {
        let found = balanced_dimensions(2_147_483_646, 8);
        assert_eq!(found.iter().map(|d| u64::from(*d)).product::<u64>(), 2_147_483_646);
        assert_eq!(balanced_dimensions(1 << 30, 10), [8; 10]);
        assert_eq!(balanced_dimensions(2_147_483_647, 2), [2_147_483_647, 1]);
    }
}
