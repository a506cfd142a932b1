//! Which process gets which place in a grid (`reorder`, MPI-5.0 §8.5.1): blocks of the grid on one host each,
//! so that few neighbours are on different hosts.

use super::Cartesian;
use ayatori_core::ids::Rank;

/// The old rank of each new one, if another order than the old has fewer neighbours on different hosts.
///
/// `hosts` names the host of each old rank that will be in the grid. An order is looked for where all hosts
/// have as many of them, and that number is the size of a block whose sides divide the grid's. It is the same
/// at all processes, for all give the same arguments.
pub(crate) fn cartesian_placement(grid: &Cartesian, hosts: &[u32]) -> Option<Vec<Rank>> {
    let members = members_by_host(hosts);
    let each_count = members.first()?.len();
    if members.len() < 2 || each_count < 2 || members.iter().any(|members| members.len() != each_count) {
        return None;
    }
    let mut shapes = Vec::new();
    blocks(&grid.dims, each_count as u32, &mut Vec::new(), &mut shapes);
    // The first of those with the shortest border.
    let block =
        shapes.into_iter().min_by_key(|block| border(grid, |coords| block_of(grid, block, coords).0))?;
    let old_coords_host = |coords: &[u32]| hosts[rank_at(&grid.dims, coords) as usize];
    if border(grid, |coords| block_of(grid, &block, coords).0) >= border(grid, old_coords_host) {
        return None;
    }
    let place = |rank| {
        let (block_index, inside) = block_of(grid, &block, &grid.coords(rank));
        members[block_index as usize][inside as usize]
    };
    Some((0..grid.size()).map(place).collect())
}

/// The old ranks of each host, hosts in the order of their first.
fn members_by_host(hosts: &[u32]) -> Vec<Vec<Rank>> {
    let mut places = std::collections::BTreeMap::new();
    let mut members: Vec<Vec<Rank>> = Vec::new();
    for (rank, host) in hosts.iter().enumerate() {
        let at = *places.entry(host).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[at].push(rank as Rank);
    }
    members
}

/// All shapes of blocks of `count` processes whose sides divide the grid's.
fn blocks(dims: &[u32], count: u32, sides: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    let Some(dim) = dims.get(sides.len()) else {
        if count == 1 {
            found.push(sides.clone());
        }
        return;
    };
    for side in (1..=count.min(*dim)).filter(|side| dim.is_multiple_of(*side) && count.is_multiple_of(*side))
    {
        sides.push(side);
        blocks(dims, count / side, sides, found);
        sides.pop();
    }
}

/// The rank at coordinates, the last dimension fastest.
fn rank_at(dims: &[u32], coords: &[u32]) -> Rank {
    dims.iter().zip(coords).fold(0, |rank, (dim, coord)| rank * dim + coord)
}

/// The block that coordinates are in, and the place inside of it.
fn block_of(grid: &Cartesian, sides: &[u32], coords: &[u32]) -> (u32, u32) {
    let places = grid.dims.iter().zip(sides).zip(coords);
    places.fold((0, 0), |(block, inside), ((dim, side), coord)| {
        (block * (dim / side) + coord / side, inside * side + coord % side)
    })
}

/// How many pairs of neighbours are on different hosts.
fn border(grid: &Cartesian, host_at: impl Fn(&[u32]) -> u32) -> u64 {
    let mut count = 0;
    for rank in 0..grid.size() {
        let mut coords = grid.coords(rank);
        let own = host_at(&coords);
        for at in 0..coords.len() {
            let here = coords[at];
            let next = here + 1;
            if next < grid.dims[at] || grid.periods[at] {
                coords[at] = next % grid.dims[at];
                count += u64::from(host_at(&coords) != own);
                coords[at] = here;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dims: &[u32]) -> Cartesian {
        Cartesian { dims: dims.into(), periods: vec![false; dims.len()] }
    }

    #[test]
    fn neighbours_share_a_host_where_blocks_fit() {
        // Four hosts with four processes each: rows become squares.
        let hosts: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let order = cartesian_placement(&grid(&[4, 4]), &hosts).unwrap();
        assert_eq!(order, [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]);
        // The same processes dealt out round robin.
        let dealt: Vec<u32> = (0..16).map(|rank| rank % 4).collect();
        let order = cartesian_placement(&grid(&[4, 4]), &dealt).unwrap();
        let placed = |coords: &[u32]| dealt[order[rank_at(&[4, 4], coords) as usize] as usize];
        assert_eq!(border(&grid(&[4, 4]), placed), 8);
        assert_eq!(border(&grid(&[4, 4]), |coords| dealt[rank_at(&[4, 4], coords) as usize]), 12);
    }

    #[test]
    fn the_order_is_a_permutation() {
        for (dims, each_count) in [(&[6, 4][..], 4), (&[2, 2, 6], 6), (&[12], 3), (&[3, 5, 4], 20)] {
            let grid = grid(dims);
            let host_count = grid.size() / each_count;
            let hosts: Vec<u32> = (0..grid.size()).map(|rank| rank * 7 % host_count).collect();
            let Some(mut order) = cartesian_placement(&grid, &hosts) else { continue };
            order.sort_unstable();
            assert!(order.into_iter().eq(0..grid.size()), "{dims:?}");
        }
    }

    #[test]
    fn the_old_order_stays_where_none_is_better() {
        let hosts = |size: u32, each_count: u32| (0..size).map(|r| r / each_count).collect::<Vec<_>>();
        assert_eq!(cartesian_placement(&grid(&[4, 4]), &[0; 16]), None);
        assert_eq!(cartesian_placement(&grid(&[4, 4]), &hosts(16, 1)), None);
        assert_eq!(cartesian_placement(&grid(&[4, 4]), &hosts(16, 5)), None);
        assert_eq!(cartesian_placement(&grid(&[8]), &hosts(8, 2)), None);
        assert_eq!(cartesian_placement(&grid(&[2, 2]), &hosts(4, 2)), None);
        assert_eq!(cartesian_placement(&grid(&[]), &hosts(1, 1)), None);
        assert_eq!(cartesian_placement(&grid(&[0]), &[]), None);
    }
}
