//! The tree that says where the bytes of a layout lie, and the walk over a range of its packed stream.
//!
//! A node covers a number of packed bytes. Displacements of its parts are relative to the node's own place,
//! which its parent keeps. Construction merges what is adjacent and names a loop wherever blocks repeat, so
//! the tree is small and its depth is bounded: a repetition at least doubles the packed size, and sequences
//! directly inside sequences become one. So the walk may recurse.

use crate::buffer::Block;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// How bytes lie in memory, in the order of the packed stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Contiguous bytes.
    Bytes(usize),
    /// The same again and again.
    Repeat {
        /// How often, at least twice.
        count: usize,
        /// Distance of two in memory.
        stride: isize,
        /// The repeated layout.
        of: Arc<Node>,
        /// Its packed size.
        of_size: usize,
    },
    /// Blocks of one length.
    List {
        /// Bytes of each.
        len: usize,
        /// Where each begins.
        displacements: Arc<[isize]>,
    },
    /// Blocks of different lengths.
    Blocks(Arc<Parts<Block>>),
    /// Different nodes.
    Sequence(Arc<Parts<Part>>),
}

/// Consecutive parts, and their packed size together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<T> {
    list: Box<[T]>,
    size: usize,
}

/// A node among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it begins in memory.
    pub(super) at: isize,
    /// Where it begins in the packed stream of its node.
    start: usize,
    pub(super) node: Node,
}

/// A node and where it lies.
pub(super) type Placed = (isize, Node);

/// The callback of a walk for each run of blocks.
pub(super) trait Visitor {
    /// `count` blocks of `len` bytes: at `memory` and every `memory_stride` from there, at `packed` and every
    /// `packed_stride` in the packed bytes.
    fn run(&mut self, memory: (isize, isize), packed: (usize, usize), len: usize, count: usize);
    /// Blocks of `len` bytes at `origin` plus each displacement, in a row in the packed bytes from `packed`
    /// on.
    fn list(&mut self, origin: isize, displacements: &[isize], len: usize, packed: usize);
    /// Blocks at `origin` plus their displacements, in a row in the packed bytes from `packed` on.
    fn blocks(&mut self, origin: isize, blocks: &[Block], packed: usize);
}

/// Bytes that repetitions handled part by part touch at a time, about: half of a first-level cache.
const TILE_BYTES: usize = 16 * 1024;
/// Minimum number of repetitions at a time, so that a loop is worth its start.
const TILE_COUNT_MIN: usize = 8;

impl Node {
    /// Packed size in bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Bytes(len) => *len,
            Self::Repeat { count, of_size, .. } => count * of_size,
            Self::List { len, displacements } => len * displacements.len(),
            Self::Blocks(blocks) => blocks.size,
            Self::Sequence(parts) => parts.size,
        }
    }

    /// `count` times the same, at least twice, at distances of `stride`. The caller has checked that sizes
    /// and displacements fit.
    pub(super) fn repeat((at, node): Placed, count: usize, stride: isize) -> Placed {
        debug_assert!(count > 1, "no repetition");
        if node.size() == 0 {
            return (0, Self::Bytes(0));
        }
        let repeated = match node {
            Self::Bytes(len) if stride == len as isize => Self::Bytes(len * count),
            Self::Repeat { count: inner, stride: inner_stride, of, of_size }
                if inner_stride.checked_mul(inner as isize) == Some(stride) =>
            {
                Self::Repeat { count: inner * count, stride: inner_stride, of, of_size }
            }
            node => Self::Repeat { count, stride, of_size: node.size(), of: Arc::new(node) },
        };
        (at, repeated)
    }

    /// One after the other in the packed stream. The caller has checked that sizes and displacements fit.
    pub(super) fn sequence(nodes: impl IntoIterator<Item = Placed>) -> Placed {
        let mut flat = Flat { list: Vec::new(), only_bytes: true };
        for (at, node) in nodes {
            flat.add(at, node);
        }
        flat.finish()
    }

    /// Visits the packed bytes from `from` to `to` of a node at `at`; the first goes to `packed`.
    pub(super) fn walk(
        &self,
        at: isize,
        (from, to): (usize, usize),
        packed: usize,
        visitor: &mut impl Visitor,
    ) {
        debug_assert!(from < to, "no part of a node is empty");
        match self {
            Self::Bytes(_) => visitor.run((at + from as isize, 0), (packed, 0), to - from, 1),
            Self::Repeat { stride, of, of_size, .. } => {
                walk_repeated(of, *of_size, *stride, at, (from, to), packed, visitor);
            }
            Self::List { len, displacements } => {
                walk_list(*len, displacements, at, (from, to), packed, visitor)
            }
            Self::Blocks(blocks) => walk_blocks(&blocks.list, at, (from, to), packed, visitor),
            Self::Sequence(parts) => {
                for part in &parts.list[parts.first_at(from, |part| part.start)..] {
                    if part.start >= to {
                        break;
                    }
                    let (skip, end) =
                        (from.saturating_sub(part.start), part.node.size().min(to - part.start));
                    part.node.walk(at + part.at, (skip, end), packed + (part.start + skip - from), visitor);
                }
            }
        }
    }

    /// Visits `count` whole nodes, at `at` and every `stride` in memory, at `packed` and every
    /// `packed_stride`.
    fn walk_whole(
        &self,
        (at, stride): (isize, isize),
        (packed, packed_stride): (usize, usize),
        count: usize,
        visitor: &mut impl Visitor,
    ) {
        let each = (0..count).map(|i| (at + i as isize * stride, packed + i * packed_stride));
        match self {
            Self::Bytes(len) => visitor.run((at, stride), (packed, packed_stride), *len, count),
            Self::Repeat { count: inner, stride: inner_stride, of, of_size } => {
                if matches!(**of, Self::Bytes(_)) && *inner < TILE_COUNT_MIN && *inner < count {
                    // Few blocks many times: the longer loop goes inside.
                    for i in 0..*inner {
                        let (at, packed) = (at + i as isize * inner_stride, packed + i * of_size);
                        of.walk_whole((at, stride), (packed, packed_stride), count, visitor);
                    }
                    return;
                }
                for (at, packed) in each {
                    of.walk_whole((at, *inner_stride), (packed, *of_size), *inner, visitor);
                }
            }
            Self::List { len, displacements } => {
                each.for_each(|(at, packed)| visitor.list(at, displacements, *len, packed));
            }
            Self::Blocks(blocks) if count == 1 => visitor.blocks(at, &blocks.list, packed),
            Self::Blocks(blocks) => tiled(count, stride, packed_stride, |first, count| {
                for block in &blocks.list {
                    let at = at + first as isize * stride + block.at;
                    let packed = packed + first * packed_stride + block.start;
                    visitor.run((at, stride), (packed, packed_stride), block.len, count);
                }
            }),
            Self::Sequence(parts) => tiled(count, stride, packed_stride, |first, count| {
                for part in &parts.list {
                    let at = at + first as isize * stride + part.at;
                    let packed = packed + first * packed_stride + part.start;
                    part.node.walk_whole((at, stride), (packed, packed_stride), count, visitor);
                }
            }),
        }
    }

    /// The contiguous block in which the packed byte at `offset` lies: where that byte is in memory, and how
    /// many bytes of the block follow from it on. Takes time in the depth of the tree, times the logarithm of
    /// its lists.
    pub(super) fn locate(&self, mut at: isize, mut offset: usize) -> Located {
        let mut node = self;
        let mut repeated = Located { at, len: 0, more: 0, stride: 0, block: 0 };
        loop {
            match node {
                Self::Bytes(len) => {
                    let place = at + offset as isize;
                    return Located { at: place, len: len - offset, block: *len, ..repeated };
                }
                Self::Repeat { count, stride, of, of_size } => {
                    let index = offset / of_size;
                    repeated = Located { more: count - 1 - index, stride: *stride, ..repeated };
                    at += index as isize * stride;
                    (node, offset) = (of, offset % of_size);
                }
                Self::List { len, displacements } => {
                    let place = at + displacements[offset / len] + (offset % len) as isize;
                    return Located { at: place, len: len - offset % len, ..Located::LONE };
                }
                Self::Blocks(blocks) => {
                    let block = &blocks.list[blocks.first_at(offset, |block| block.start)];
                    let skip = offset - block.start;
                    return Located {
                        at: at + block.at + skip as isize,
                        len: block.len - skip,
                        ..Located::LONE
                    };
                }
                Self::Sequence(parts) => {
                    let part = &parts.list[parts.first_at(offset, |part| part.start)];
                    repeated = Located::LONE;
                    (at, offset, node) = (at + part.at, offset - part.start, &part.node);
                }
            }
        }
    }
}

/// A place in a layout, and what follows it without another look at the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located {
    /// Where the byte lies in memory.
    pub(super) at: isize,
    /// Bytes of its block from it on.
    pub(super) len: usize,
    /// How many whole blocks of the same loop follow.
    pub(super) more: usize,
    /// Distance of two of them.
    pub(super) stride: isize,
    /// Bytes of each.
    pub(super) block: usize,
}

impl Located {
    const LONE: Self = Self { at: 0, len: 0, more: 0, stride: 0, block: 0 };

    /// The next block of the loop, if there is one.
    pub(super) fn next(self) -> Option<Self> {
        let more = self.more.checked_sub(1)?;
        // The block began where its rest ends, less its length.
        let at = self.at + self.len as isize - self.block as isize + self.stride;
        Some(Self { at, len: self.block, more, ..self })
    }
}

impl<T> Parts<T> {
    /// The parts, in order.
    pub(super) fn list(&self) -> &[T] {
        &self.list
    }

    /// Index of the part that holds a packed byte, by where parts start.
    fn first_at(&self, offset: usize, start: impl Fn(&T) -> usize) -> usize {
        self.list.partition_point(|part| start(part) <= offset).saturating_sub(1)
    }
}

/// Runs `f(first, count)` for tiles of the repetitions.
fn tiled(count: usize, stride: isize, packed_stride: usize, mut f: impl FnMut(usize, usize)) {
    let tile = (TILE_BYTES / stride.unsigned_abs().max(packed_stride).max(1)).max(TILE_COUNT_MIN);
    for first in (0..count).step_by(tile) {
        f(first, tile.min(count - first));
    }
}

/// Visits a range of `of` repeated without end.
pub(super) fn walk_repeated(
    of: &Node,
    of_size: usize,
    stride: isize,
    at: isize,
    (from, to): (usize, usize),
    mut packed: usize,
    visitor: &mut impl Visitor,
) {
    let place = |index: usize| at + index as isize * stride;
    let (mut first, skip) = (from / of_size, from % of_size);
    let (last, end) = (to / of_size, to % of_size);
    if first == last {
        return of.walk(place(first), (skip, end), packed, visitor);
    }
    if skip > 0 {
        of.walk(place(first), (skip, of_size), packed, visitor);
        packed += of_size - skip;
        first += 1;
    }
    if last > first {
        of.walk_whole((place(first), stride), (packed, of_size), last - first, visitor);
        packed += (last - first) * of_size;
    }
    if end > 0 {
        of.walk(place(last), (0, end), packed, visitor);
    }
}

fn walk_list(
    len: usize,
    displacements: &[isize],
    at: isize,
    (from, to): (usize, usize),
    mut packed: usize,
    visitor: &mut impl Visitor,
) {
    let lone = |index: usize, skip: usize, end: usize, packed: usize, visitor: &mut _| {
        let place = at + displacements[index] + skip as isize;
        Visitor::run(visitor, (place, 0), (packed, 0), end - skip, 1);
    };
    let (mut first, skip) = (from / len, from % len);
    let (last, end) = (to / len, to % len);
    if first == last {
        return lone(first, skip, end, packed, visitor);
    }
    if skip > 0 {
        lone(first, skip, len, packed, visitor);
        packed += len - skip;
        first += 1;
    }
    visitor.list(at, &displacements[first..last], len, packed);
    if end > 0 {
        lone(last, 0, end, packed + (last - first) * len, visitor);
    }
}

fn walk_blocks(
    blocks: &[Block],
    at: isize,
    (from, to): (usize, usize),
    packed: usize,
    visitor: &mut impl Visitor,
) {
    // The first and the last may be wanted in part.
    let first = blocks.partition_point(|block| block.start + block.len <= from);
    let last = blocks.partition_point(|block| block.start < to) - 1;
    let mut part = |block: &Block| {
        let (skip, end) = (from.saturating_sub(block.start), block.len.min(to - block.start));
        let place = packed + (block.start + skip - from);
        visitor.run((at + block.at + skip as isize, 0), (place, 0), end - skip, 1);
    };
    part(&blocks[first]);
    if last > first {
        part(&blocks[last]);
    }
    if last > first + 1 {
        let whole = &blocks[first + 1..last];
        visitor.blocks(at, whole, packed + (whole[0].start - from));
    }
}

/// Parts of a sequence while it is put together: no sequence inside, adjacent blocks merged.
struct Flat {
    list: Vec<Placed>,
    only_bytes: bool,
}

impl Flat {
    fn add(&mut self, at: isize, node: Node) {
        match node {
            Node::Bytes(0) => {}
            Node::Bytes(len) => match self.list.last_mut() {
                Some((last, Node::Bytes(last_len))) if *last + *last_len as isize == at => *last_len += len,
                _ => self.list.push((at, Node::Bytes(len))),
            },
            Node::List { len, displacements } => {
                displacements.iter().for_each(|displacement| self.add(at + displacement, Node::Bytes(len)));
            }
            Node::Blocks(blocks) => {
                blocks.list.iter().for_each(|block| self.add(at + block.at, Node::Bytes(block.len)));
            }
            Node::Sequence(parts) => {
                parts.list.iter().for_each(|part| self.add(at + part.at, part.node.clone()));
            }
            Node::Repeat { .. } => {
                self.only_bytes = false;
                self.list.push((at, node));
            }
        }
    }

    fn finish(mut self) -> Placed {
        if self.list.len() < 2 {
            return self.list.pop().unwrap_or((0, Node::Bytes(0)));
        }
        let (origin, first_len) = (self.list[0].0, self.list[0].1.size());
        if !self.only_bytes {
            return (
                origin,
                Node::Sequence(Arc::new(self.parts(origin, |at, start, node| Part { at, start, node }))),
            );
        }
        if self.list.iter().any(|(_, node)| node.size() != first_len) {
            let block = |at, start, node: Node| Block { at, start, len: node.size() };
            return (origin, Node::Blocks(Arc::new(self.parts(origin, block))));
        }
        let displacements: Arc<[isize]> = self.list.iter().map(|(at, _)| at - origin).collect();
        let stride = displacements[1];
        if displacements.windows(2).all(|pair| pair[1] - pair[0] == stride) {
            return Node::repeat((origin, Node::Bytes(first_len)), displacements.len(), stride);
        }
        (origin, Node::List { len: first_len, displacements })
    }

    fn parts<T>(self, origin: isize, part: impl Fn(isize, usize, Node) -> T) -> Parts<T> {
        let mut size = 0;
        let list = self.list.into_iter().map(|(at, node)| {
            let start = size;
            size += node.size();
            part(at - origin, start, node)
        });
        let list = list.collect();
        Parts { list, size }
    }
}
