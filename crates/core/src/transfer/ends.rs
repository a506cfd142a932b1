//! The two ends of a message's data.
//!
//! A message is a stream of packed bytes. A [`Source`] says where these bytes are read, a [`Sink`] where they are
//! written. Neither knows of the other: each end may be contiguous, virtual (a length without memory), or, once
//! layouts are plugged in here, the pieces of a datatype.

use crate::buffer::Buffer;

/// Where the bytes of a message are read.
#[derive(Clone, Debug)]
pub struct Source(Buffer);

/// Where the bytes of a message are written.
#[derive(Clone, Debug)]
pub struct Sink(Buffer);

impl From<Buffer> for Source {
    #[inline(always)]
    fn from(buffer: Buffer) -> Self {
        Self(buffer)
    }
}

impl From<Buffer> for Sink {
    #[inline(always)]
    fn from(buffer: Buffer) -> Self {
        Self(buffer)
    }
}

impl Source {
    /// The memory, if it is in one piece.
    #[inline(always)]
    pub(crate) fn into_buffer(self) -> Buffer {
        self.0
    }

    /// Length of the message in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the message has no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Sink {
    /// The memory, if it is in one piece.
    #[inline(always)]
    pub(crate) fn into_buffer(self) -> Buffer {
        self.0
    }

    /// Length in bytes of the longest message that fits.
    #[inline]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether only a message without bytes fits.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
