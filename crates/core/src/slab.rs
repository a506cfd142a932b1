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

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> RequestId {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = Some(value);
            RequestId { index, generation: slot.generation }
        } else {
            self.slots.push(Slot { generation: 0, value: Some(value) });
            RequestId { index: self.slots.len() as u32 - 1, generation: 0 }
        }
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

    /// The id of a live slot by index alone.
    #[inline]
    pub(crate) fn id_at(&self, index: u32) -> Option<RequestId> {
        let slot = self.slots.get(index as usize)?;
        slot.value.as_ref().map(|_| RequestId { index, generation: slot.generation })
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = RequestId { index: index as u32, generation: slot.generation };
            slot.value.as_ref().map(|value| (id, value))
        })
    }
}
