//! Cartesian grids (MPI-5.0 §8.5): ranks in row-major order, the last dimension runs fastest.

use ayatori_core::ids::Rank;

/// A grid of processes. Without dimensions it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cartesian {
    /// How many processes in each dimension, at least one.
    pub(crate) dims: Vec<u32>,
    /// Whether each dimension closes on itself.
    pub(crate) periods: Vec<bool>,
}

impl Cartesian {
    /// Number of processes. The constructor of the grid has checked that it fits.
    pub(crate) fn size(&self) -> u32 {
        self.dims.iter().product()
    }

    /// The coordinates of a rank of the grid.
    pub(crate) fn coords(&self, rank: Rank) -> Vec<u32> {
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, dim) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = rest % dim;
            rest /= dim;
        }
        coords
    }

    /// The rank at coordinates of any integer; `Err` is the first dimension in which they are outside.
    pub(crate) fn rank(&self, coords: &[i64]) -> Result<Rank, usize> {
        let mut rank = 0;
        for (at, coord) in coords.iter().enumerate() {
            rank = rank * self.dims[at] + self.inside(at, *coord).ok_or(at)?;
        }
        Ok(rank)
    }

    /// A coordinate of any integer as one of the grid, if there is such a process.
    fn inside(&self, dimension: usize, coord: i64) -> Option<u32> {
        let dim = i64::from(self.dims[dimension]);
        let coord = if self.periods[dimension] { coord.rem_euclid(dim) } else { coord };
        (0..dim).contains(&coord).then_some(coord as u32)
    }

    /// The process `distance` further in a dimension, if there is one.
    pub(crate) fn shifted(&self, rank: Rank, dimension: usize, distance: i64) -> Option<Rank> {
        let mut coords: Vec<i64> = self.coords(rank).into_iter().map(i64::from).collect();
        coords[dimension] += distance;
        self.rank(&coords).ok()
    }

    /// The neighbours of a rank: in each dimension the one below, then the one above (MPI-5.0 §8.6).
    pub(crate) fn neighbors(&self, rank: Rank) -> Vec<Option<Rank>> {
        let each = |dimension| [-1, 1].map(|distance| self.shifted(rank, dimension, distance));
        (0..self.dims.len()).flat_map(each).collect()
    }

    /// The sub-grid of a rank in the dimensions that remain: which of all it is, its rank there, its shape.
    pub(crate) fn sub(&self, rank: Rank, remains: &[bool]) -> (u32, Rank, Self) {
        let of = |kept: bool| {
            let kept = remains.iter().enumerate().filter(move |(_, remains)| **remains == kept);
            let kept = kept.map(|(at, _)| at);
            Self {
                dims: kept.clone().map(|at| self.dims[at]).collect(),
                periods: kept.map(|at| self.periods[at]).collect(),
            }
        };
        let coords = self.coords(rank);
        let place = |grid: &Self, kept: bool| {
            let coords = coords.iter().zip(remains).filter(|(_, remains)| **remains == kept);
            let coords: Vec<i64> = coords.map(|(coord, _)| i64::from(*coord)).collect();
            grid.rank(&coords).unwrap_or_default()
        };
        let (sub, others) = (of(true), of(false));
        (place(&others, false), place(&sub, true), sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dims: &[u32], periods: &[bool]) -> Cartesian {
        Cartesian { dims: dims.into(), periods: periods.into() }
    }

    #[test]
    fn ranks_and_coordinates_are_inverse() {
        let grid = grid(&[2, 3, 4], &[false, true, false]);
        assert_eq!(grid.coords(0), [0, 0, 0]);
        assert_eq!(grid.coords(1), [0, 0, 1]);
        assert_eq!(grid.coords(23), [1, 2, 3]);
        for rank in 0..grid.size() {
            let coords: Vec<i64> = grid.coords(rank).into_iter().map(i64::from).collect();
            assert_eq!(grid.rank(&coords), Ok(rank));
        }
        assert_eq!(grid.rank(&[1, -1, 0]), grid.rank(&[1, 2, 0]));
        assert_eq!(grid.rank(&[1, 300_000_000_001, 0]), grid.rank(&[1, 300_000_000_001 % 3, 0]));
        assert_eq!(grid.rank(&[0, 7, 4]), Err(2));
        assert_eq!(grid.rank(&[-1, 0, 0]), Err(0));
    }

    #[test]
    fn shifts_wrap_where_the_dimension_is_periodic() {
        let grid = grid(&[3, 2], &[true, false]);
        assert_eq!(grid.shifted(0, 0, 1), Some(2));
        assert_eq!(grid.shifted(0, 0, -1), Some(4));
        assert_eq!(grid.shifted(0, 0, i64::from(i32::MAX)), Some(2 * (i32::MAX as u32 % 3)));
        assert_eq!(grid.shifted(0, 1, 1), Some(1));
        assert_eq!(grid.shifted(0, 1, -1), None);
        assert_eq!(grid.neighbors(3), [Some(1), Some(5), Some(2), None]);
    }

    #[test]
    fn sub_grids_part_the_ranks() {
        let grid = grid(&[2, 3, 4], &[true, false, true]);
        for remains in 0..8_u32 {
            let remains = [0, 1, 2].map(|at| remains >> at & 1 == 1);
            let mut seen = std::collections::BTreeSet::new();
            for rank in 0..grid.size() {
                let (color, key, sub) = grid.sub(rank, &remains);
                assert!(key < sub.size() && color < grid.size() / sub.size());
                assert!(seen.insert((color, key)), "{remains:?}: two ranks are {key} of {color}");
                let kept = grid.coords(rank).into_iter().zip(remains).filter(|(_, remains)| *remains);
                assert!(sub.coords(key).into_iter().eq(kept.map(|(coord, _)| coord)));
            }
        }
    }
}
