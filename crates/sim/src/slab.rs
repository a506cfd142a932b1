//! Records with `u32` handles that are used again.

use prefetch_index::prefetch_index;

/// No record.
pub(crate) const NONE: u32 = u32::MAX;

/// Records in one array; a handle is an index. Freed places are taken again, the last freed first, so that
/// the same run hands out the same handles.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    records: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { records: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    #[inline]
    pub(crate) fn insert(&mut self, record: T) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.records[handle as usize] = record;
            return handle;
        }
        assert!(self.records.len() < NONE as usize, "more than 2^32 - 1 records at once");
        self.records.push(record);
        self.records.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn remove(&mut self, handle: u32) {
        self.free.push(handle);
    }

    /// The records by handle, and the handles that are free: to remove a record is to put its handle there.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut [T], &mut Vec<u32>) {
        (&mut self.records, &mut self.free)
    }

    /// The record if the handle is one.
    #[inline]
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        self.records.get(handle as usize)
    }

    /// Brings the record of a handle, if it is one, to the cache. Changes nothing.
    #[inline(always)]
    pub(crate) fn prefetch(&self, handle: u32) {
        prefetch_index(&self.records, handle as usize);
    }

    /// Records in use.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Most records that were in use at once.
    pub(crate) fn high_water(&self) -> usize {
        self.records.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, handle: u32) -> &T {
        &self.records[handle as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, handle: u32) -> &mut T {
        &mut self.records[handle as usize]
    }
}
