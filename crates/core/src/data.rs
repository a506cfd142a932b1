//! The two ends of a message's data.
//!
//! A message is a stream of packed bytes. A [`Source`] says where these bytes are read, a [`Sink`] where they
//! are written. Neither knows of the other: each end is contiguous memory, virtual memory (a length only), or
//! a [`Region`], the elements of a datatype with gaps between them.

use crate::buffer::{Buffer, Payload, Piece};
use crate::layout::Region;
use alloc::vec::Vec;

/// Where the bytes of a message are read.
#[derive(Clone, Debug)]
pub struct Source(pub(crate) Data);

/// Where the bytes of a message are written.
#[derive(Clone, Debug)]
pub struct Sink(pub(crate) Data);

impl From<Buffer> for Source {
    #[inline(always)]
    fn from(buffer: Buffer) -> Self {
        Self(Data::Memory(buffer))
    }
}

impl From<Buffer> for Sink {
    #[inline(always)]
    fn from(buffer: Buffer) -> Self {
        Self(Data::Memory(buffer))
    }
}

impl From<Region> for Source {
    fn from(region: Region) -> Self {
        Self(region.into())
    }
}

impl From<Region> for Sink {
    fn from(region: Region) -> Self {
        Self(region.into())
    }
}

impl From<Sink> for Source {
    fn from(sink: Sink) -> Self {
        Self(sink.0)
    }
}

impl Source {
    /// Length of the message in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the message has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

impl Sink {
    /// Length in bytes of the longest message that fits.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether only a message without bytes fits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Copies from a source, as much as fits.
    pub fn copy_from(&self, source: &Source) {
        self.0.copy_from(&source.0, source.len().min(self.len()));
    }
}

/// One end.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// In one piece, or virtual.
    Memory(Buffer),
    /// In several pieces.
    Region(Region),
}

impl From<Region> for Data {
    fn from(region: Region) -> Self {
        match region.as_contiguous() {
            Some(buffer) => Self::Memory(buffer),
            None if region.is_virtual() => Self::Memory(Buffer::virtual_of(region.len())),
            None => Self::Region(region),
        }
    }
}

impl From<Buffer> for Data {
    #[inline(always)]
    fn from(buffer: Buffer) -> Self {
        Self::Memory(buffer)
    }
}

impl Data {
    pub(crate) const EMPTY: Self = Self::Memory(Buffer::EMPTY);

    /// Length of the packed stream in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(buffer) => buffer.len(),
            Self::Region(region) => region.len(),
        }
    }

    /// The memory, if it is in one piece.
    #[inline]
    pub(crate) fn as_memory(&self) -> Option<Buffer> {
        match self {
            Self::Memory(buffer) => Some(*buffer),
            Self::Region(_) => None,
        }
    }

    /// Lends bytes of the packed stream: as they lie, or packed into `scratch`.
    #[inline]
    pub(crate) fn with_payload<R>(
        &self,
        offset: usize,
        len: usize,
        scratch: &mut Vec<u8>,
        use_payload: impl FnOnce(Payload<'_>) -> R,
    ) -> R {
        match self {
            Self::Memory(buffer) => use_payload(buffer.gather(offset, len)),
            Self::Region(region) => {
                scratch.resize(len, 0);
                region.pack(offset, &mut scratch[..]);
                use_payload([Piece::Bytes(scratch), Piece::EMPTY])
            }
        }
    }

    /// Copies bytes of the packed stream to `into`, as many as that holds.
    pub(crate) fn copy_out(&self, offset: usize, into: Buffer) {
        match self {
            Self::Memory(buffer) => into.copy_from(0, buffer, offset, into.len()),
            Self::Region(region) => region.pack(offset, into),
        }
    }

    /// Writes a piece of the packed stream at `offset`.
    ///
    /// # Panics
    /// If the piece does not fit (our bug: lengths are checked when a message is matched).
    #[inline]
    pub(crate) fn write(&self, offset: usize, piece: Piece<'_>) {
        match (self, piece) {
            (Self::Memory(buffer), piece) => buffer.scatter(offset, piece),
            (Self::Region(region), Piece::Bytes(bytes)) => region.unpack(offset, bytes),
            (Self::Region(_), Piece::Virtual(_)) => {}
        }
    }

    /// Writes a payload at `offset`.
    pub(crate) fn write_payload(&self, offset: usize, payload: Payload<'_>) {
        self.write(offset, payload[0]);
        self.write(offset + payload[0].len(), payload[1]);
    }

    /// Copies the first `len` bytes of another packed stream.
    pub(crate) fn copy_from(&self, from: &Self, len: usize) {
        match (self, from) {
            (Self::Memory(to), from) => from.copy_out(0, to.part(0, len)),
            (Self::Region(to), Self::Memory(from)) => to.unpack(0, from.part(0, len)),
            (Self::Region(to), Self::Region(from)) => {
                /// Stays in the first cache.
                const STEP_BYTES: usize = 16 << 10;
                let mut packed = alloc::vec![0; STEP_BYTES.min(len)];
                for offset in (0..len).step_by(STEP_BYTES) {
                    let step = &mut packed[..STEP_BYTES.min(len - offset)];
                    from.pack(offset, &mut *step);
                    to.unpack(offset, &*step);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_takes_as_much_as_fits() {
        let source = Buffer::leaked(4);
        source.scatter(0, Piece::Bytes(&[1, 2, 3, 4]));
        for (room, expected) in [(2, &[1, 2][..]), (4, &[1, 2, 3, 4]), (6, &[1, 2, 3, 4, 0, 0])] {
            let into = Buffer::leaked(room);
            Sink::from(into).copy_from(&source.into());
            assert_eq!(into.to_vec().unwrap(), expected);
        }
    }

    #[test]
    fn only_data_without_bytes_is_empty() {
        for len in 0..3 {
            let buffer = Buffer::virtual_of(len);
            assert_eq!([Source::from(buffer).is_empty(), Sink::from(buffer).is_empty()], [len == 0; 2]);
        }
    }

    #[test]
    fn both_pieces_of_a_payload_are_written() {
        let into = Buffer::leaked(5);
        Data::from(into).write_payload(1, [Piece::Bytes(&[1, 2]), Piece::Bytes(&[3])]);
        assert_eq!(into.to_vec().unwrap(), [0, 1, 2, 3, 0]);
    }
}
