//! Where the packed bytes of elements lie that follow each other without end, as the data of a file's view
//! does (MPI-5.0 §14.3).

use super::Layout;
use super::node::Located;

/// Pieces of a packed stream without end: displacement and length, in the order of the stream, adjacent ones
/// joined.
#[derive(Clone, Debug)]
pub struct Places<'a> {
    layout: &'a Layout,
    offset: usize,
    end: usize,
    /// The last piece, whose loop may go on.
    place: Option<Located>,
    /// Found, but perhaps to be joined with what follows.
    found: Option<(isize, usize)>,
}

impl Layout {
    /// The pieces of `len` packed bytes from `offset` on, of elements at distances of the extent.
    ///
    /// Displacements wrap where they are no address: check the highest byte with [`place`](Self::place)
    /// first.
    pub fn places(&self, offset: usize, len: usize) -> Places<'_> {
        let end = if self.size() == 0 { offset } else { offset.saturating_add(len) };
        Places { layout: self, offset, end, place: None, found: None }
    }

    /// The displacement of one packed byte; `None` if there are no bytes, or it is no address.
    pub fn place(&self, offset: usize) -> Option<isize> {
        let index = isize::try_from(offset.checked_div(self.size())?).ok()?;
        index.checked_mul(self.extent())?.checked_add(self.true_bounds().1)?;
        Some(self.located(offset).at)
    }

    fn true_bounds(&self) -> (isize, isize) {
        self.0.true_bounds
    }

    fn located(&self, offset: usize) -> Located {
        let (at, node) = &self.0.root;
        let element = ((offset / self.size()) as isize).wrapping_mul(self.extent());
        node.locate(element.wrapping_add(*at), offset % self.size())
    }

    /// Whether the bytes of one element lie in ascending order, none of them twice.
    pub fn is_element_ascending(&self) -> bool {
        let mut end = isize::MIN;
        self.places(0, self.size()).all(|(at, len)| {
            let is_ascending = at >= end;
            end = at + len as isize;
            is_ascending
        })
    }

    /// Whether the pieces of one element begin in order, though they may overlap.
    pub fn is_element_ordered(&self) -> bool {
        let mut last = isize::MIN;
        self.places(0, self.size()).all(|(at, _)| core::mem::replace(&mut last, at) <= at)
    }

    /// Whether [`is_element_ascending`](Self::is_element_ascending) holds for elements that follow each
    /// other, too.
    pub fn is_ascending(&self) -> bool {
        self.extent() >= self.true_extent() && self.is_element_ascending()
    }

    /// How many packed bytes lie before a displacement. The layout is ascending.
    pub fn packed_before(&self, displacement: isize) -> usize {
        let (size, extent) = (self.size(), self.extent());
        let low = self.true_lower_bound();
        if size == 0 || displacement <= low {
            return 0;
        }
        if extent <= 0 {
            return self.packed_in_element(displacement);
        }
        // The last element that begins at or before it.
        let index = (displacement - low) / extent;
        let whole = (index as usize).saturating_mul(size);
        whole.saturating_add(self.packed_in_element(displacement - index * extent))
    }

    /// How many packed bytes of one element lie before a displacement.
    fn packed_in_element(&self, displacement: isize) -> usize {
        let (mut low, mut high) = (0, self.size());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.located(middle).at < displacement { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl Places<'_> {
    /// The next piece as the tree has it.
    fn step(&mut self) -> Option<(isize, usize)> {
        if self.offset >= self.end {
            return None;
        }
        let place = self.place.and_then(Located::next).unwrap_or_else(|| self.layout.located(self.offset));
        let mut len = place.len;
        self.place = Some(place);
        if len == self.layout.size() && self.layout.extent() == len as isize {
            // No gaps at all: the rest is one piece.
            len = self.end - self.offset;
            self.place = None;
        }
        let len = len.min(self.end - self.offset);
        self.offset += len;
        Some((place.at, len))
    }
}

impl Iterator for Places<'_> {
    type Item = (isize, usize);

    fn next(&mut self) -> Option<(isize, usize)> {
        let (at, mut len) = match self.found.take() {
            Some(found) => found,
            None => self.step()?,
        };
        while let Some(next) = self.step() {
            if at.wrapping_add(len as isize) != next.0 {
                self.found = Some(next);
                break;
            }
            len += next.1;
        }
        Some((at, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Each packed byte's displacement, by looking at each alone.
    fn model(layout: &Layout, offset: usize, len: usize) -> Vec<isize> {
        (offset..offset + len).map(|byte| layout.place(byte).unwrap()).collect()
    }

    fn layouts() -> Vec<Layout> {
        let int = Layout::bytes(4);
        let column = int.repeat(3, 12).unwrap();
        let list = int.indexed([(1, 4), (2, 20), (1, 40)]).unwrap();
        let structure = Layout::structure([(1, 0, &int), (2, 8, &column), (1, 100, &list)]).unwrap();
        let joined = int.resized(-4, 4).unwrap();
        // Elements begin where the first piece of the one before ends.
        let woven = int.indexed([(1, 0), (1, 10)]).unwrap().resized(0, 4).unwrap();
        let mut all = Vec::from([int, column, list, structure, joined, woven, Layout::bytes(1)]);
        for layout in all.clone() {
            all.push(layout.resized(0, layout.extent() + 7).unwrap());
            all.push(layout.contiguous(3).unwrap());
        }
        all
    }

    #[test]
    fn a_byte_beyond_all_addresses_has_no_place() {
        let far = isize::MAX / 2;
        let layout = Layout::bytes(1).resized(0, far).unwrap();
        assert_eq!(layout.place(1), Some(far));
        assert_eq!(layout.place(3), None);
    }

    #[test]
    fn pieces_of_any_range_are_those_of_each_byte() {
        for layout in layouts() {
            for (offset, len) in [(0, 1), (0, 64), (3, 50), (17, 0), (29, 211)] {
                let pieces: Vec<_> = layout.places(offset, len).collect();
                let bytes = pieces.iter().flat_map(|(at, len)| *at..*at + *len as isize);
                assert_eq!(bytes.collect::<Vec<_>>(), model(&layout, offset, len), "{layout:?}");
                let is_joined = pieces.windows(2).all(|two| two[0].0 + two[0].1 as isize != two[1].0);
                assert!(is_joined, "{pieces:?}");
            }
        }
    }

    #[test]
    fn packed_before_counts_the_bytes_below_a_displacement() {
        for layout in layouts().iter().filter(|layout| layout.is_ascending()) {
            let all = model(layout, 0, 4 * layout.size());
            let end = layout.true_lower_bound() + 4 * layout.extent();
            for displacement in -9..end {
                let expected = all.iter().filter(|at| **at < displacement).count();
                assert_eq!(layout.packed_before(displacement), expected, "{displacement} of {layout:?}");
            }
        }
    }

    /// As the elements of a file's view, of which only one is looked at.
    #[test]
    fn packed_before_counts_in_one_element_if_none_follows() {
        let int = Layout::bytes(4);
        let list = int.indexed([(1, 1), (2, 6), (1, 20)]).unwrap();
        for extent in [0, -100] {
            let layout = list.resized(0, extent).unwrap();
            let all = model(&layout, 0, layout.size());
            for displacement in -9..60 {
                let expected = all.iter().filter(|at| **at < displacement).count();
                assert_eq!(layout.packed_before(displacement), expected, "{displacement} of {layout:?}");
            }
        }
    }

    #[test]
    fn elements_that_touch_ascend_and_those_that_overlap_do_not() {
        let int = Layout::bytes(4);
        assert!(int.is_ascending() && int.repeat(2, 4).unwrap().is_element_ascending());
        assert!(int.indexed([(1, 0), (1, 4)]).unwrap().is_element_ascending());
        assert!(!int.repeat(2, 3).unwrap().is_element_ascending());
        // The same place twice is in order.
        assert!(int.indexed([(1, 3), (1, 3)]).unwrap().is_element_ordered());
    }

    #[test]
    fn layouts_that_go_back_are_not_ascending() {
        let int = Layout::bytes(4);
        assert!(!int.indexed([(1, 8), (1, 0)]).unwrap().is_element_ascending());
        assert!(!int.indexed([(1, 8), (1, 0)]).unwrap().is_element_ordered());
        assert!(!int.indexed([(1, 0), (1, 2)]).unwrap().is_element_ascending());
        assert!(int.indexed([(1, 0), (1, 2)]).unwrap().is_element_ordered());
        let narrow = int.repeat(2, 100).unwrap().resized(0, 4).unwrap();
        assert!(narrow.is_element_ascending() && !narrow.is_ascending());
        assert_eq!(Layout::bytes(0).places(3, 9).next(), None);
        assert_eq!(Layout::bytes(0).place(0), None);
    }
}
