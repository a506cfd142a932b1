//! Slots with generations: handles that go stale instead of wrong.

use crate::ids::RequestId;
use alloc::vec::Vec;

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by [`RequestId`]-shaped handles; freed slots are reused last in, first out (they are in the cache).
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, value: T) -> RequestId {
        let id = self.reserve();
        self.put(id, || value);
        id
    }

    /// A vacant slot, to be filled by [`put`](Self::put) before anything else is asked of the slab: so a
    /// value can hold what its id was needed to make.
    #[inline(always)]
    pub(crate) fn reserve(&mut self) -> RequestId {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(),
        };
        RequestId { index, generation: self.slots[index as usize].generation }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot { generation: 0, value: None });
        self.slots.len() as u32 - 1
    }

    /// Fills a reserved slot with what `make` makes: there, and not somewhere else to be copied.
    #[inline(always)]
    pub(crate) fn put(&mut self, id: RequestId, make: impl FnOnce() -> T) {
        let slot = &mut self.slots[id.index as usize];
        debug_assert!(slot.value.is_none() && slot.generation == id.generation, "not reserved");
        // Nothing to drop, which the compiler cannot know.
        core::mem::forget(slot.value.replace(make()));
    }

    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_mut() } else { None }
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(value)
    }

    /// As [`remove`](Self::remove), for a value that the caller drops: it need not be moved.
    #[inline]
    pub(crate) fn discard(&mut self, id: RequestId) {
        if let Some(slot) = self.slots.get_mut(id.index as usize)
            && slot.generation == id.generation
            && slot.value.is_some()
        {
            slot.value = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.index);
        }
    }

    /// As [`discard`](Self::discard) of a live value that owns nothing, which the caller knows and the
    /// compiler cannot.
    #[inline(always)]
    pub(crate) fn forget(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.index as usize];
        debug_assert!(slot.generation == id.generation, "alive");
        core::mem::forget(slot.value.take());
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
    }

    /// A live value and its id by index alone.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<(RequestId, &T)> {
        let slot = self.slots.get(index as usize)?;
        let id = RequestId { index, generation: slot.generation };
        slot.value.as_ref().map(|value| (id, value))
    }

    /// As [`at`](Self::at), to change it.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<(RequestId, &mut T)> {
        let slot = self.slots.get_mut(index as usize)?;
        let id = RequestId { index, generation: slot.generation };
        slot.value.as_mut().map(|value| (id, value))
    }

    /// The id of a live slot by index alone.
    #[inline]
    pub(crate) fn id_at(&self, index: u32) -> Option<RequestId> {
        let slot = self.slots.get(index as usize)?;
        slot.value.as_ref().map(|_| RequestId { index, generation: slot.generation })
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no value.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = RequestId { index: index as u32, generation: slot.generation };
            slot.value.as_ref().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_stale_once_its_value_is_gone() {
        let mut slab = Slab::new();
        let first = slab.insert(1);
        slab.forget(first);
        let second = slab.insert(2);
        assert_eq!((second.index, slab.get(first), slab.get(second)), (first.index, None, Some(&2)));
        assert_eq!((slab.len(), slab.is_empty()), (1, false));
        // An id of before takes nothing away.
        assert_eq!((slab.remove(first), slab.len()), (None, 1));
        assert_eq!((slab.remove(second), slab.remove(second), slab.is_empty()), (Some(2), None, true));
        let third = slab.insert(3);
        slab.discard(third);
        let fourth = slab.insert(4);
        assert_eq!((fourth.index, slab.get(third), slab.get(fourth)), (third.index, None, Some(&4)));
    }
}
