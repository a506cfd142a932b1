//! The binomial tree, over ranks counted from its root.
//!
//! The parent of a node is the node with its lowest set bit cleared. So the subtree of a node is the run of
//! ranks from itself up to (not including) itself plus that bit: a contiguous range, which is what lets
//! gathers, scatters and reductions in rank order use it.

/// A node of the binomial tree of `size` ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    rank: u32,
    size: u32,
    /// Its lowest set bit; for the root the first power of two not below the size.
    span: u32,
}

impl Node {
    pub(super) fn new(rank: u32, size: u32) -> Self {
        assert!(rank < size && size <= 1 << 31, "rank {rank} of {size} in a tree");
        let span = if rank == 0 { size.next_power_of_two() } else { rank & rank.wrapping_neg() };
        Self { rank, size, span }
    }

    pub(super) fn parent(&self) -> Option<u32> {
        (self.rank != 0).then(|| self.rank - self.span)
    }

    /// How many ranks its subtree has, itself included.
    pub(super) fn subtree_size(&self) -> u32 {
        self.span.min(self.size - self.rank)
    }

    /// Children, the one with the largest subtree first.
    pub(super) fn children(&self) -> impl DoubleEndedIterator<Item = Node> + use<> {
        let Self { rank, size, span } = *self;
        (0..span.trailing_zeros())
            .rev()
            .map(move |bit| rank + (1 << bit))
            .filter(move |&child| child < size)
            .map(move |child| Node::new(child, size))
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtrees_are_contiguous_and_cover_all_ranks_once() {
        for size in 1..70 {
            for rank in 0..size {
                let node = Node::new(rank, size);
                // Itself, then its children from the smallest up, one after the other.
                let mut next = rank + 1;
                for child in node.children().rev() {
                    assert_eq!((child.rank(), child.parent()), (next, Some(rank)), "size {size}");
                    next += child.subtree_size();
                }
                assert_eq!(next, rank + node.subtree_size(), "rank {rank} of {size}");
            }
            assert_eq!(Node::new(0, size).subtree_size(), size);
        }
    }
}
