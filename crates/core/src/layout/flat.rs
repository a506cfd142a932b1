//! Layouts as bytes, for the wire: the target's datatype of a one-sided operation.
//!
//! ```text
//! layout    at i64 | node
//! node      0 | length u64                                              bytes in a row
//!           1 | count u64 | stride i64 | node                           the same again
//!           2 | length u64 | count u64 | displacement i64 each          blocks of one length
//!           3 | count u64 | (displacement i64 | length u64) each        blocks of different lengths
//!           4 | count u64 | (displacement i64 | node) each              different nodes
//! ```
//!
//! All little-endian. The parser uses the constructors of users' datatypes, which check every size and
//! displacement, so bytes of any origin give a layout or an error.

use super::Layout;
use super::node::Node;
use crate::error::Error;
use alloc::vec::Vec;

/// Deeper than any tree that [`Node`]'s constructors make: a repetition at least doubles the size.
const DEPTH_MAX: u32 = 160;

const MALFORMED: Error = Error::Argument("bytes that are no layout");

impl Layout {
    /// The data of `count` elements as bytes, behind what is in `out`. Bounds are left out.
    ///
    /// # Errors
    /// [`Error::Count`] if the elements do not fit into an address space.
    pub(crate) fn emit(&self, count: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let all = self.contiguous(count)?;
        let (at, node) = &all.0.root;
        put(out, *at as u64);
        emit_node(node, out);
        Ok(())
    }

    /// The layout that [`emit`](Self::emit) has written: one element with all the data.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        let at = reader.word()? as isize;
        let layout = parse_node(&mut reader, 0)?;
        if !reader.0.is_empty() {
            return Err(MALFORMED);
        }
        match at {
            0 => Ok(layout),
            _ => Self::structure([(1, at, &layout)]),
        }
    }
}

fn put(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn emit_node(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Bytes(len) => {
            out.push(0);
            put(out, *len as u64);
        }
        Node::Repeat { count, stride, of, .. } => {
            out.push(1);
            put(out, *count as u64);
            put(out, *stride as u64);
            emit_node(of, out);
        }
        Node::List { len, displacements } => {
            out.push(2);
            put(out, *len as u64);
            put(out, displacements.len() as u64);
            displacements.iter().for_each(|at| put(out, *at as u64));
        }
        Node::Blocks(blocks) => {
            out.push(3);
            put(out, blocks.list().len() as u64);
            for block in blocks.list() {
                put(out, block.at as u64);
                put(out, block.len as u64);
            }
        }
        Node::Sequence(parts) => {
            out.push(4);
            put(out, parts.list().len() as u64);
            for part in parts.list() {
                put(out, part.at as u64);
                emit_node(&part.node, out);
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.0.split_first().ok_or(MALFORMED)?;
        self.0 = rest;
        Ok(*first)
    }

    fn word(&mut self) -> Result<u64, Error> {
        let (first, rest) = self.0.split_first_chunk::<8>().ok_or(MALFORMED)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*first))
    }

    fn signed(&mut self) -> Result<isize, Error> {
        Ok(self.word()? as isize)
    }

    /// A length in bytes.
    fn len(&mut self) -> Result<usize, Error> {
        isize::try_from(self.word()?).map(isize::cast_unsigned).map_err(|_| MALFORMED)
    }

    /// A number of entries that take `bytes` each at least: not more than there can be.
    fn count_of(&mut self, bytes: usize) -> Result<usize, Error> {
        let count = self.len()?;
        if count > self.0.len() / bytes { Err(MALFORMED) } else { Ok(count) }
    }
}

fn parse_node(reader: &mut Reader<'_>, depth: u32) -> Result<Layout, Error> {
    if depth > DEPTH_MAX {
        return Err(MALFORMED);
    }
    match reader.byte()? {
        0 => Ok(Layout::bytes(reader.len()?)),
        1 => {
            let (count, stride) = (reader.len()?, reader.signed()?);
            parse_node(reader, depth + 1)?.repeat(count, stride)
        }
        2 => {
            let len = reader.len()?;
            let count = reader.count_of(8)?;
            let displacements: Result<Vec<_>, Error> =
                (0..count).map(|_| Ok((1, reader.signed()?))).collect();
            Layout::bytes(len).indexed(displacements?)
        }
        3 => {
            let count = reader.count_of(16)?;
            let blocks: Result<Vec<_>, Error> = (0..count)
                .map(|_| {
                    let at = reader.signed()?;
                    Ok((reader.len()?, at))
                })
                .collect();
            Layout::bytes(1).indexed(blocks?)
        }
        4 => {
            let count = reader.count_of(17)?;
            let parts: Result<Vec<_>, Error> = (0..count)
                .map(|_| {
                    let at = reader.signed()?;
                    Ok((at, parse_node(reader, depth + 1)?))
                })
                .collect();
            let parts = parts?;
            Layout::structure(parts.iter().map(|(at, layout)| (1, *at, layout)))
        }
        _ => Err(MALFORMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Buffer, Piece};
    use crate::layout::Region;
    use proptest::prelude::*;

    #[test]
    fn bytes_behind_a_layout_and_deep_nests_are_refused() {
        let mut bytes = Vec::new();
        Layout::bytes(5).emit(1, &mut bytes).unwrap();
        assert_eq!(Layout::parse(&bytes).map(|layout| layout.size()), Ok(5));
        bytes.push(0);
        assert_eq!(Layout::parse(&bytes).map(drop), Err(MALFORMED));
        // Each level once again the one inside: what a peer sends must not use up the stack.
        let nested = |levels: usize| {
            let mut bytes = 0_u64.to_le_bytes().to_vec();
            for _ in 0..levels {
                bytes.push(1);
                put(&mut bytes, 1);
                put(&mut bytes, 5);
            }
            bytes.push(0);
            put(&mut bytes, 5);
            Layout::parse(&bytes).map(|layout| layout.size())
        };
        assert_eq!(nested(DEPTH_MAX as usize), Ok(5));
        assert_eq!(nested(DEPTH_MAX as usize + 1), Err(MALFORMED));
    }

    fn layouts() -> impl Strategy<Value = Layout> {
        let leaf = (1_usize..9).prop_map(Layout::bytes);
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                (inner.clone(), 1_usize..4, 0_isize..20)
                    .prop_map(|(of, count, gap)| of.repeat(count, of.extent() + gap).unwrap()),
                (inner.clone(), proptest::collection::vec((1_usize..4, -40_isize..90), 1..5))
                    .prop_map(|(of, blocks)| of.indexed(blocks).unwrap()),
                proptest::collection::vec((1_usize..3, -50_isize..99, inner), 1..4).prop_map(|parts| {
                    Layout::structure(parts.iter().map(|(count, at, of)| (*count, *at, of))).unwrap()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_layout_survives_its_bytes(layout in layouts(), count in 1_usize..4) {
            let mut bytes = Vec::new();
            layout.emit(count, &mut bytes).unwrap();
            let again = Layout::parse(&bytes).unwrap();
            let span = layout.span(count).unwrap();
            prop_assert_eq!(again.span(1).unwrap(), span);
            let memory = Buffer::leaked(span.len);
            let noise: Vec<u8> = (0..span.len).map(|i| (i * 37 + i / 256) as u8).collect();
            memory.scatter(0, Piece::Bytes(&noise));
            let (a, b) = (Region::new(layout, count, memory).unwrap(), Region::new(again, 1, memory).unwrap());
            let (mut packed_a, mut packed_b) = (alloc::vec![0; a.len()], alloc::vec![0; b.len()]);
            a.pack(0, &mut packed_a[..]);
            b.pack(0, &mut packed_b[..]);
            prop_assert_eq!(packed_a, packed_b);
        }

        #[test]
        fn any_bytes_give_a_layout_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Layout::parse(&bytes);
        }

        #[test]
        fn a_damaged_layout_does_no_harm(layout in layouts(), at in any::<usize>(), to in any::<u8>()) {
            let mut bytes = Vec::new();
            layout.emit(2, &mut bytes).unwrap();
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok(layout) = Layout::parse(&bytes) {
                let _ = layout.span(1);
            }
        }
    }

    #[test]
    fn a_structure_takes_its_bytes_and_nests_so_deep() {
        let nested = |levels: usize| {
            let mut bytes = 0_u64.to_le_bytes().to_vec();
            for _ in 0..levels {
                bytes.push(4);
                put(&mut bytes, 1);
                put(&mut bytes, 0);
            }
            bytes.push(0);
            put(&mut bytes, 5);
            Layout::parse(&bytes).map(|layout| layout.size())
        };
        assert_eq!(nested(DEPTH_MAX as usize), Ok(5));
        assert_eq!(nested(DEPTH_MAX as usize + 1), Err(MALFORMED));
        let mut bytes = 0_u64.to_le_bytes().to_vec();
        bytes.push(4);
        put(&mut bytes, 3);
        for part in 0..3 {
            put(&mut bytes, 16 * part);
            bytes.push(0);
            put(&mut bytes, 8);
        }
        assert_eq!(Layout::parse(&bytes).map(|layout| layout.size()), Ok(24));
    }
}
