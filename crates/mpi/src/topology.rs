//! Virtual topologies (MPI-5.0 §8): what can be computed without communication.

/// `count` processes as a grid of `dimension_count` dimensions as close to each other as can be, largest first.
///
/// Of all factorizations the one with the smallest largest factor is taken, and of those the one whose next factors
/// are smallest in turn: that is the most nearly cubic one. There are few factorizations of an `int`, so all are
/// looked at.
pub(crate) fn balanced_dimensions(count: u32, dimension_count: usize) -> Vec<u32> {
    let mut divisors: Vec<u32> = (1..=count.isqrt()).filter(|d| count.is_multiple_of(*d)).collect();
    divisors.extend(divisors.clone().iter().rev().map(|d| count / d).filter(|d| *d > count / d));
    let mut best = Vec::new();
    extend(count, dimension_count, count, &divisors, &mut Vec::new(), &mut best);
    best
}

/// Extends `taken`, a non-increasing list of factors, by `left_count` factors of `rest` no larger than `limit`.
/// The first complete list found with its first factor as small as possible is the best one.
fn extend(
    rest: u32,
    left_count: usize,
    limit: u32,
    divisors: &[u32],
    taken: &mut Vec<u32>,
    best: &mut Vec<u32>,
) {
    if left_count == 0 {
        if rest == 1 && (best.is_empty() || *taken < *best) {
            best.clone_from(taken);
        }
        return;
    }
    for factor in divisors.iter().copied().filter(|f| *f <= limit && rest.is_multiple_of(*f)) {
        // All that follow are no larger: too small a factor leaves too much for them.
        if u64::from(factor).checked_pow(left_count as u32).is_some_and(|most| most < u64::from(rest)) {
            continue;
        }
        if best.get(taken.len()).is_some_and(|b| factor > *b) && best[..taken.len()] == taken[..] {
            return;
        }
        taken.push(factor);
        extend(rest / factor, left_count - 1, factor, divisors, taken, best);
        taken.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_as_close_to_each_other_as_can_be() {
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
        ] {
            assert_eq!(balanced_dimensions(count, dimension_count), expected, "{count} in {dimension_count}");
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
