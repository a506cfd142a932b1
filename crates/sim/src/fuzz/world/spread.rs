//! Messages in memory with gaps, at either end.

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::layout::{Layout, Region};

use super::traffic::UNTOUCHED;
use super::{Outcome, World};

/// Data and gap of a block, bytes.
const BLOCK_BYTES: usize = 24;
const STRIDE_BYTES: usize = 32;

/// `length` bytes in blocks with gaps between; the last block is shorter.
pub(super) fn blocks(length: usize) -> Outcome<Layout> {
    let (count, rest) = (length / BLOCK_BYTES, length % BLOCK_BYTES);
    let end = (count * STRIDE_BYTES) as isize;
    let layout = || -> Result<Layout, Error> {
        let whole = Layout::bytes(BLOCK_BYTES).repeat(count, STRIDE_BYTES as isize)?;
        Layout::structure([(1, 0, &whole), (1, end, &Layout::bytes(rest))])
    };
    layout().map_err(|error| error.to_string())
}

/// The same in memory, which `allocate` gives.
pub(super) fn in_blocks(
    length: usize,
    allocate: impl FnOnce(usize) -> Option<Buffer>,
) -> Outcome<Option<Region>> {
    let layout = blocks(length)?;
    let span = layout.span(1).map_err(|error| error.to_string())?;
    let Some(memory) = allocate(span.len) else { return Ok(None) };
    Region::new(layout, 1, memory).map(Some).map_err(|error| error.to_string())
}

/// The bytes of a message.
pub(super) fn packed(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    region.pack(0, &mut bytes[..]);
    bytes
}

impl World<'_> {
    /// Memory with gaps that nothing was written to. `None`: the world has used up its memory.
    pub(super) fn untouched_blocks(&mut self, length: usize) -> Outcome<Option<Region>> {
        in_blocks(length, |span| self.untouched(span))
    }

    /// What was received, in memory without gaps. Nobody may have written to the gaps.
    pub(super) fn unspread(&mut self, region: &Region) -> Outcome<Buffer> {
        let all = region.memory().to_vec().unwrap_or_default();
        let is_written = |(at, &byte): (usize, &u8)| at % STRIDE_BYTES >= BLOCK_BYTES && byte != UNTOUCHED;
        if let Some(at) = all.iter().enumerate().position(is_written) {
            return Err(format!("byte {at} of a receive is in a gap of its layout, and is written"));
        }
        self.memory(packed(region).into_iter()).ok_or_else(|| "the world's memory is too small".into())
    }
}
