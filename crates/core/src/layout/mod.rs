//! How the elements of a datatype lie in memory, and how any part of them is packed and unpacked (MPI-5.0
//! §5.1).
//!
//! A [`Layout`] describes one element: where its bytes are, in the order in which messages carry them, and
//! how far the next element is. It is immutable and shared; making one from others costs time and memory in
//! the number of blocks that no loop can express, so vectors and subarrays of any size take a few nodes
//! ([`node`]).
//!
//! A [`Region`] is a number of elements in memory. Together its bytes are one *packed stream*.
//! [`Region::pack`] and [`Region::unpack`] move any range of that stream, [`Region::pieces`] names the memory
//! of a range for devices that gather. Each finds its place in the depth of the tree, so a transfer that goes
//! on later keeps only an offset.
//!
//! A [`Signature`] says which basic types a layout's packed stream is made of. Moving data does not need it.
//!
//! Not here: handles, names and constructors of MPI, which build layouts (`ayatori-mpi`); the order in which
//! ranges are sent (`transfer`).
//!
//! ```
//! use ayatori_core::buffer::{Buffer, Piece};
//! use ayatori_core::layout::{Layout, Region};
//!
//! // Every third of 4-byte numbers, two of them.
//! let column = Layout::bytes(4).repeat(2, 12)?;
//! let memory = Buffer::leaked(column.span(1)?.len);
//! memory.scatter(0, Piece::Bytes(b"aaaa........bbbb"));
//! let region = Region::new(column, 1, memory)?;
//! let mut packed = [0; 6];
//! region.pack(2, &mut packed[..]);
//! assert_eq!(&packed, b"aabbbb");
//! # Ok::<(), ayatori_core::Error>(())
//! ```

pub mod external32;
mod flat;
mod node;
mod places;
mod signature;
#[cfg(test)]
mod tests;

pub use places::Places;
pub use signature::Signature;

use crate::buffer::{Block, Buffer, List, Packed, PackedMut, Run};
use crate::datatype::Predefined;
use crate::error::Error;
use alloc::sync::Arc;
use alloc::vec::Vec;
use node::{Located, Node, Placed, Visitor};

/// How one element of a datatype lies in memory. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Arc<Element>);

#[derive(Debug, PartialEq, Eq)]
struct Element {
    /// Where the bytes are. Its place is relative to the address that a call passes.
    root: Placed,
    size: usize,
    bounds: Bounds,
    /// Lowest and highest byte with data; both 0 if there is none.
    true_bounds: (isize, isize),
    alignment: usize,
}

/// Lower and upper bound, and whether a call set them (the markers of MPI-5.0 §5.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    lower: isize,
    upper: isize,
    is_lower_set: bool,
    is_upper_set: bool,
}

/// The memory that elements reach over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From the address that a call passes to the lowest byte with data.
    pub lowest: isize,
    /// From there to the end of the highest.
    pub len: usize,
}

impl Element {
    /// Whether there is neither data nor a bound that was set.
    fn is_void(&self) -> bool {
        self.size == 0 && !self.bounds.is_lower_set && !self.bounds.is_upper_set
    }
}

fn to_isize(value: usize) -> Result<isize, Error> {
    isize::try_from(value).map_err(|_| Error::Count)
}

fn times(a: isize, b: usize) -> Result<isize, Error> {
    to_isize(b)?.checked_mul(a).ok_or(Error::Count)
}

fn plus(a: isize, b: isize) -> Result<isize, Error> {
    a.checked_add(b).ok_or(Error::Count)
}

impl Layout {
    /// `len` bytes in a row.
    pub fn bytes(len: usize) -> Self {
        Self::in_a_row(len, 1)
    }

    fn in_a_row(len: usize, alignment: usize) -> Self {
        let upper = len as isize;
        Self(Arc::new(Element {
            root: (0, Node::Bytes(len)),
            size: len,
            bounds: Bounds { lower: 0, upper, is_lower_set: false, is_upper_set: false },
            true_bounds: (0, upper),
            alignment,
        }))
    }

    /// A predefined type. Pairs leave out the padding of their C structure.
    pub fn of(datatype: Predefined) -> Self {
        let (size, alignment) = (datatype.size_bytes(), datatype.element().alignment_bytes());
        let Some((value, index_at)) = datatype.pair_layout_bytes() else {
            return Self::in_a_row(size, alignment);
        };
        let index = size - value;
        Self(Arc::new(Element {
            root: Node::sequence([(0, Node::Bytes(value)), (index_at as isize, Node::Bytes(index))]),
            size,
            bounds: Bounds {
                lower: 0,
                upper: datatype.extent_bytes() as isize,
                is_lower_set: false,
                is_upper_set: false,
            },
            true_bounds: (0, (index_at + index) as isize),
            alignment,
        }))
    }

    /// `count` elements in memory at distances of `stride` bytes.
    ///
    /// # Errors
    /// [`Error::Count`] if it reaches over more than the address space.
    pub fn repeat(&self, count: usize, stride: isize) -> Result<Self, Error> {
        let of = &*self.0;
        if count == 1 {
            return Ok(self.clone());
        }
        if count == 0 || of.is_void() {
            return Ok(Self::bytes(0));
        }
        let last = times(stride, count - 1)?;
        let size = of.size.checked_mul(count).ok_or(Error::Count)?;
        to_isize(size)?;
        let widen = |(low, high): (isize, isize)| -> Result<_, Error> {
            Ok((plus(low, last.min(0))?, plus(high, last.max(0))?))
        };
        let (lower, upper) = widen((of.bounds.lower, of.bounds.upper))?;
        let true_bounds = if size == 0 { (0, 0) } else { widen(of.true_bounds)? };
        check_bounds(lower, upper)?;
        check_bounds(true_bounds.0, true_bounds.1)?;
        Ok(Self(Arc::new(Element {
            root: Node::repeat(of.root.clone(), count, stride),
            size,
            bounds: Bounds { lower, upper, ..of.bounds },
            true_bounds,
            alignment: of.alignment,
        })))
    }

    /// `count` elements at distances of their extent.
    ///
    /// # Errors
    /// As [`repeat`](Self::repeat).
    pub fn contiguous(&self, count: usize) -> Result<Self, Error> {
        self.repeat(count, self.extent())
    }

    /// Blocks of `count` elements each, at displacements in bytes: `(count, displacement)`.
    ///
    /// # Errors
    /// As [`repeat`](Self::repeat).
    pub fn indexed(&self, blocks: impl IntoIterator<Item = (usize, isize)>) -> Result<Self, Error> {
        let mut joined = Joined::default();
        let mut block = (1, self.clone());
        for (count, displacement) in blocks {
            if count != block.0 {
                block = (count, self.contiguous(count)?);
            }
            joined.add(displacement, &block.1)?;
        }
        joined.finish(false)
    }

    /// Blocks of different types: `(count, displacement, layout)`. Unless its end was set by a part, the
    /// extent is rounded up to the alignment of the parts, as C pads a structure.
    ///
    /// # Errors
    /// As [`repeat`](Self::repeat).
    pub fn structure<'a>(parts: impl IntoIterator<Item = (usize, isize, &'a Self)>) -> Result<Self, Error> {
        let mut joined = Joined::default();
        for (count, displacement, layout) in parts {
            joined.add(displacement, &layout.contiguous(count)?)?;
        }
        joined.finish(true)
    }

    /// The same data with these bounds.
    ///
    /// # Errors
    /// [`Error::Count`] if the upper bound is no address.
    pub fn resized(&self, lower: isize, extent: isize) -> Result<Self, Error> {
        let of = &*self.0;
        Ok(Self(Arc::new(Element {
            root: of.root.clone(),
            size: of.size,
            bounds: Bounds { lower, upper: plus(lower, extent)?, is_lower_set: true, is_upper_set: true },
            true_bounds: of.true_bounds,
            alignment: of.alignment,
        })))
    }

    /// Packed size of an element in bytes (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Where an element begins, in bytes from the address that a call passes.
    #[inline]
    pub fn lower_bound(&self) -> isize {
        self.0.bounds.lower
    }

    /// Distance of two elements in memory, in bytes.
    #[inline]
    pub fn extent(&self) -> isize {
        // Fits: checked where bounds are made.
        self.0.bounds.upper.wrapping_sub(self.0.bounds.lower)
    }

    /// The lowest byte with data.
    #[inline]
    pub fn true_lower_bound(&self) -> isize {
        self.0.true_bounds.0
    }

    /// From the lowest byte with data to the end of the highest.
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.0.true_bounds.1 - self.0.true_bounds.0
    }

    /// Where the data of `count` elements begins if it lies in a row in packed order; `None` if it does not.
    #[inline]
    pub fn contiguous_at(&self, count: usize) -> Option<isize> {
        match self.0.root {
            (at, Node::Bytes(len)) if count < 2 || self.extent() == len as isize => Some(at),
            _ => None,
        }
    }

    /// Whether any number of elements lies in a row from the address that a call passes.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous_at(2) == Some(0)
    }

    /// The memory that `count` elements reach over.
    ///
    /// # Errors
    /// [`Error::Count`] if that is more than the address space.
    pub fn span(&self, count: usize) -> Result<Span, Error> {
        if count == 0 || self.0.size == 0 {
            return Ok(Span { lowest: 0, len: 0 });
        }
        to_isize(self.0.size.checked_mul(count).ok_or(Error::Count)?)?;
        let last = times(self.extent(), count - 1)?;
        let (low, high) = self.0.true_bounds;
        let (low, high) = (plus(low, last.min(0))?, plus(high, last.max(0))?);
        let len = high.checked_sub(low).and_then(|len| usize::try_from(len).ok());
        Ok(Span { lowest: low, len: len.ok_or(Error::Count)? })
    }
}

fn check_bounds(lower: isize, upper: isize) -> Result<(), Error> {
    upper.checked_sub(lower).map(|_| ()).ok_or(Error::Count)
}

/// Layouts put together one after the other.
#[derive(Default)]
struct Joined {
    nodes: Vec<Placed>,
    size: usize,
    bounds: Option<Bounds>,
    true_bounds: Option<(isize, isize)>,
    alignment: usize,
}

impl Joined {
    fn add(&mut self, displacement: isize, layout: &Layout) -> Result<(), Error> {
        let part = &*layout.0;
        if part.is_void() {
            return Ok(());
        }
        self.size = self.size.checked_add(part.size).ok_or(Error::Count)?;
        to_isize(self.size)?;
        self.alignment = self.alignment.max(part.alignment);
        let bounds = Bounds {
            lower: plus(part.bounds.lower, displacement)?,
            upper: plus(part.bounds.upper, displacement)?,
            ..part.bounds
        };
        let joined = self.bounds.map_or(bounds, |joined| joined.with(bounds));
        check_bounds(joined.lower, joined.upper)?;
        self.bounds = Some(joined);
        if part.size > 0 {
            let (low, high) = part.true_bounds;
            let (low, high) = (plus(low, displacement)?, plus(high, displacement)?);
            let joined =
                self.true_bounds.map_or((low, high), |joined| (joined.0.min(low), joined.1.max(high)));
            check_bounds(joined.0, joined.1)?;
            self.true_bounds = Some(joined);
            self.nodes.push((plus(part.root.0, displacement)?, part.root.1.clone()));
        }
        Ok(())
    }

    fn finish(self, is_padded: bool) -> Result<Layout, Error> {
        let Some(mut bounds) = self.bounds else { return Ok(Layout::bytes(0)) };
        if is_padded && !bounds.is_upper_set {
            let alignment = self.alignment.max(1) as isize;
            let extent = bounds.upper - bounds.lower;
            bounds.upper = plus(bounds.upper, (alignment - extent.rem_euclid(alignment)) % alignment)?;
            check_bounds(bounds.lower, bounds.upper)?;
        }
        Ok(Layout(Arc::new(Element {
            root: Node::sequence(self.nodes),
            size: self.size,
            bounds,
            true_bounds: self.true_bounds.unwrap_or((0, 0)),
            alignment: self.alignment.max(1),
        })))
    }
}

impl Bounds {
    /// The bounds of two parts: a bound that was set wins over one that was not.
    fn with(self, other: Self) -> Self {
        let lower = match (self.is_lower_set, other.is_lower_set) {
            (true, false) => self.lower,
            (false, true) => other.lower,
            _ => self.lower.min(other.lower),
        };
        let upper = match (self.is_upper_set, other.is_upper_set) {
            (true, false) => self.upper,
            (false, true) => other.upper,
            _ => self.upper.max(other.upper),
        };
        Self {
            lower,
            upper,
            is_lower_set: self.is_lower_set || other.is_lower_set,
            is_upper_set: self.is_upper_set || other.is_upper_set,
        }
    }
}

/// Elements of a layout in memory. As with a [`Buffer`], copies name the same memory.
#[derive(Clone, Debug)]
pub struct Region {
    layout: Layout,
    count: usize,
    memory: Buffer,
    /// Where the address that the call passed lies, from the start of `memory`.
    origin: isize,
}

impl Region {
    /// `count` elements. `memory` is their span ([`Layout::span`]), from the lowest byte with data on, and
    /// the contract of [`Buffer::from_raw_parts`] holds for the bytes with data only. It may be virtual.
    ///
    /// # Errors
    /// [`Error::Count`] if the elements do not fit into an address space, [`Error::Argument`] if `memory` has
    /// another length.
    pub fn new(layout: Layout, count: usize, memory: Buffer) -> Result<Self, Error> {
        let span = layout.span(count)?;
        if span.len != memory.len() {
            return Err(Error::Argument("memory of another length than the elements reach over"));
        }
        let origin = span.lowest.checked_neg().ok_or(Error::Count)?;
        Ok(Self { layout, count, memory, origin })
    }

    /// Length of the packed stream in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        // Fits: `span` has checked it.
        self.layout.size() * self.count
    }

    /// Bytes of the packed stream that one element gives.
    pub fn element_bytes(&self) -> usize {
        self.layout.size()
    }

    /// Some of the elements.
    ///
    /// # Panics
    /// If there are fewer (our bug).
    pub fn elements(&self, first: usize, count: usize) -> Self {
        let end = first.checked_add(count).filter(|end| *end <= self.count);
        assert!(end.is_some(), "elements {first} and {count} more of {}", self.count);
        let span = self.layout.span(count).expect("fewer elements reach less far");
        let start = self.origin + first as isize * self.layout.extent() + span.lowest;
        let memory = self.memory.part(if span.len == 0 { 0 } else { start as usize }, span.len);
        Self { layout: self.layout.clone(), count, memory, origin: -span.lowest }
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the bytes exist only as a number.
    #[inline]
    pub fn is_virtual(&self) -> bool {
        self.memory.is_virtual()
    }

    /// The memory that the elements reach over, gaps included.
    #[inline]
    pub const fn memory(&self) -> Buffer {
        self.memory
    }

    /// The memory of the whole packed stream, if that is one piece.
    pub fn as_contiguous(&self) -> Option<Buffer> {
        self.layout.contiguous_at(self.count).map(|at| match self.is_empty() {
            true => Buffer::EMPTY,
            false => self.memory.part((self.origin + at) as usize, self.len()),
        })
    }

    /// Copies the packed stream from `offset` on to `into`, as many bytes as that has.
    ///
    /// # Panics
    /// If the stream ends before (our bug).
    pub fn pack<'a>(&self, offset: usize, into: impl Into<PackedMut<'a>>) {
        let into = into.into();
        let to = self.end_of(offset, into.len());
        self.walk((offset, to), &mut Packing { memory: self.memory, into });
    }

    /// Copies `from` into the memory of the packed stream from `offset` on.
    ///
    /// # Panics
    /// If the stream ends before (our bug).
    pub fn unpack<'a>(&self, offset: usize, from: impl Into<Packed<'a>>) {
        let from = from.into();
        let to = self.end_of(offset, from.len());
        self.walk((offset, to), &mut Unpacking { memory: self.memory, from });
    }

    /// The memory of `len` bytes of the packed stream from `offset` on, piece by piece, in the order of the
    /// stream.
    ///
    /// # Panics
    /// If the stream ends before (our bug).
    pub fn pieces(&self, offset: usize, len: usize) -> Pieces<'_> {
        Pieces { region: self, offset, end: self.end_of(offset, len), place: None }
    }

    fn end_of(&self, offset: usize, len: usize) -> usize {
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        end.unwrap_or_else(|| panic!("{len} bytes from {offset} of a packed stream of {}", self.len()))
    }

    fn walk(&self, (from, to): (usize, usize), visitor: &mut impl Visitor) {
        if from == to {
            return;
        }
        let (at, node) = &self.layout.0.root;
        let (size, extent) = (self.layout.size(), self.layout.extent());
        node::walk_repeated(node, size, extent, self.origin + at, (from, to), 0, visitor);
    }

    /// The contiguous block at an offset of the packed stream.
    fn locate(&self, offset: usize) -> Located {
        let (at, node) = &self.layout.0.root;
        let size = self.layout.size();
        let element = self.origin + (offset / size) as isize * self.layout.extent();
        node.locate(element + at, offset % size)
    }
}

/// The memory of a part of a packed stream: contiguous pieces of [`Region::memory`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    region: &'a Region,
    offset: usize,
    end: usize,
    /// The last piece, whose loop may go on.
    place: Option<Located>,
}

impl Iterator for Pieces<'_> {
    type Item = Buffer;

    fn next(&mut self) -> Option<Buffer> {
        if self.offset == self.end {
            return None;
        }
        let place = self.place.and_then(Located::next).unwrap_or_else(|| self.region.locate(self.offset));
        let len = place.len.min(self.end - self.offset);
        self.offset += len;
        self.place = Some(place);
        Some(self.region.memory.part(place.at as usize, len))
    }
}

struct Packing<'a> {
    memory: Buffer,
    into: PackedMut<'a>,
}

impl Visitor for Packing<'_> {
    #[inline]
    fn run(&mut self, memory: (isize, isize), packed: (usize, usize), len: usize, count: usize) {
        self.memory.pack_run(&Run::new(memory, packed, len, count), &mut self.into);
    }

    #[inline]
    fn list(&mut self, origin: isize, displacements: &[isize], len: usize, packed: usize) {
        self.memory.pack_list(&List { origin, displacements, len }, &mut self.into, packed);
    }

    #[inline]
    fn blocks(&mut self, origin: isize, blocks: &[Block], packed: usize) {
        self.memory.pack_blocks(origin, blocks, &mut self.into, packed);
    }
}

struct Unpacking<'a> {
    memory: Buffer,
    from: Packed<'a>,
}

impl Visitor for Unpacking<'_> {
    #[inline]
    fn run(&mut self, memory: (isize, isize), packed: (usize, usize), len: usize, count: usize) {
        self.memory.unpack_run(&Run::new(memory, packed, len, count), &self.from);
    }

    #[inline]
    fn list(&mut self, origin: isize, displacements: &[isize], len: usize, packed: usize) {
        self.memory.unpack_list(&List { origin, displacements, len }, &self.from, packed);
    }

    #[inline]
    fn blocks(&mut self, origin: isize, blocks: &[Block], packed: usize) {
        self.memory.unpack_blocks(origin, blocks, &self.from, packed);
    }
}
