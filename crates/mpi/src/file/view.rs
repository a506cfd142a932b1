//! What a process sees of a file (MPI-5.0 §14.3): the data of filetypes that follow each other without end
//! from a displacement on, counted in etypes.

use super::representation::Representation;
use super::sys::Errno;
use crate::abi::*;
use crate::datatype::{self, Type};
use crate::fault::{Fault, fault};
use ayatori_core::layout::Layout;
use std::sync::Arc;

/// Checks what the standard asks of types of views (MPI-5.0 §14.3).
fn check_order(layout: &Layout, name: &str, is_writable: bool) -> Result<(), Fault> {
    let what = if layout.size() == 0 {
        return Ok(());
    } else if layout.true_lower_bound() < 0 || layout.extent() < 0 {
        "has data at a negative displacement, or a negative extent"
    } else if !layout.is_element_ordered() {
        "has displacements that go down"
    } else if is_writable && !layout.is_element_ascending() {
        "has data twice at the same place, and the file is open for writing"
    } else {
        return Ok(());
    };
    Err(fault(MPI_ERR_IO, format_args!("argument {name} {what}")))
}

/// A view. Immutable: an access under way keeps the one it was started with.
#[derive(Debug)]
pub(crate) struct View {
    /// Where it begins in the file, in bytes.
    pub(crate) displacement: MPI_Offset,
    /// The unit of offsets.
    pub(crate) etype: Arc<Type>,
    /// Which bytes of the file are in the view.
    pub(crate) filetype: Arc<Type>,
    /// How data is written.
    pub(crate) representation: Representation,
    /// Bytes of an etype in the file. Not 0.
    pub(crate) etype_bytes: usize,
    /// Later data lies further back in the file, so that places can be searched for.
    pub(crate) is_ascending: bool,
    /// The filetype as it lies in the file.
    layout: Layout,
}

impl View {
    /// A view; `is_writable`: the file is open for writing.
    pub(crate) fn new(
        displacement: MPI_Offset,
        (etype, filetype): (Arc<Type>, Arc<Type>),
        representation: Representation,
        is_writable: bool,
    ) -> Result<Self, Fault> {
        let bad = |what: &str| Err(fault(MPI_ERR_ARG, format_args!("{what}")));
        if displacement < 0 {
            let what = format_args!("argument disp ({displacement}) is negative");
            return Err(fault(MPI_ERR_ARG, what));
        }
        if etype.layout.size() == 0 {
            return bad("argument etype has no data");
        }
        if !filetype.layout.size().is_multiple_of(etype.layout.size()) {
            return bad("argument filetype is not made of whole etypes");
        }
        let (layout, unit) = (representation.layout(&filetype)?, representation.layout(&etype)?);
        for (layout, name) in [(&unit, "etype"), (&layout, "filetype")] {
            check_order(layout, name, is_writable)?;
        }
        let etype_bytes = unit.size();
        if etype_bytes == 0 {
            return bad("argument etype has no data in this data representation");
        }
        let is_ascending = layout.is_ascending();
        Ok(Self { displacement, etype, filetype, representation, etype_bytes, is_ascending, layout })
    }

    /// The view of a file that was just opened: its bytes.
    pub(crate) fn of_bytes() -> Result<Self, Fault> {
        let byte = datatype::get(MPI_BYTE, "etype")?;
        Self::new(0, (byte.clone(), byte), Representation::Native, false)
    }

    /// Whether there are bytes of the file between those of the view.
    pub(crate) fn has_holes(&self) -> bool {
        self.layout.contiguous_at(2).is_none()
    }

    /// Whether there is no data at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.layout.size() == 0
    }

    /// Bytes of the view's data before an offset in etypes.
    pub(crate) fn bytes(&self, offset: MPI_Offset) -> Result<u64, Fault> {
        let bytes = u64::try_from(offset).ok().and_then(|offset| offset.checked_mul(self.etype_bytes as u64));
        bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(|| {
            fault(MPI_ERR_ARG, format_args!("offset {offset} is negative or beyond what files can hold"))
        })
    }

    /// Where a byte of the view's data lies in the file.
    pub(crate) fn place(&self, byte: u64) -> Option<u64> {
        let place = self.layout.place(usize::try_from(byte).ok()?)?;
        u64::try_from(i64::try_from(place).ok()?.checked_add(self.displacement)?).ok()
    }

    /// Where bytes of the view's data lie. The caller has looked at [`range`](Self::range) first.
    pub(crate) fn pieces(&self, from: u64, len: usize) -> impl Iterator<Item = (u64, usize)> + Clone + '_ {
        let places = self.layout.places(from as usize, len);
        places.map(|(at, len)| ((at as u64).wrapping_add(self.displacement as u64), len))
    }

    /// The range of the file that an access reaches over; none if it has no data.
    pub(crate) fn range(&self, from: u64, len: usize) -> Result<Option<(u64, u64)>, Errno> {
        if len == 0 || self.is_empty() {
            return Ok(None);
        }
        let last = from.checked_add(len as u64 - 1).ok_or(Errno(libc::EFBIG))?;
        let (first, last) = (self.place(from), self.place(last));
        let (Some(first), Some(last)) = (first, last) else { return Err(Errno(libc::EFBIG)) };
        Ok(Some(if self.is_ascending { (first, last + 1) } else { (0, u64::MAX) }))
    }

    /// How many bytes of the view's data lie before a place in the file.
    pub(crate) fn bytes_before(&self, place: u64) -> u64 {
        let at = i64::try_from(place).unwrap_or(i64::MAX).saturating_sub(self.displacement);
        if at <= 0 {
            return 0;
        }
        if self.is_ascending {
            return self.layout.packed_before(at as isize) as u64;
        }
        // Tiles that overlap: those that end before it, and from there up to the first byte that is not
        // before it. Where all lie at the same place, the data has no end.
        let (tile_end, extent) =
            (self.layout.true_lower_bound() + self.layout.true_extent(), self.layout.extent());
        let whole = match (at - tile_end as i64, extent as i64) {
            (..0, _) => 0,
            (_, 0) if !self.is_empty() => return i64::MAX as u64,
            (rest, extent) => rest / extent.max(1) + 1,
        };
        let mut bytes = (whole as u64).saturating_mul(self.layout.size() as u64);
        for (begin, len) in self.layout.places(bytes as usize, usize::MAX) {
            if begin as i64 + len as i64 > at {
                return bytes + (at - begin as i64).max(0) as u64;
            }
            bytes += len as u64;
        }
        bytes
    }
}
