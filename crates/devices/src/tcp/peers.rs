//! The processes elsewhere, by their numbers: those of our world in a list, others in a map.

use ayatori_core::ids::ProcessId;
use std::collections::BTreeMap;

/// See the [module's docs](self).
pub(super) struct Peers<P> {
    /// The first process of our world.
    first: ProcessId,
    /// `None`: not elsewhere.
    world: Vec<Option<P>>,
    others: BTreeMap<ProcessId, P>,
}

impl<P> Peers<P> {
    pub(super) fn new(first: ProcessId, world: Vec<Option<P>>) -> Self {
        Self { first, world, others: BTreeMap::new() }
    }

    #[inline]
    pub(super) fn get(&self, process: ProcessId) -> Option<&P> {
        match self.world.get(process.0.wrapping_sub(self.first.0) as usize) {
            Some(peer) => peer.as_ref(),
            None => self.others.get(&process),
        }
    }

    pub(super) fn get_mut(&mut self, process: ProcessId) -> Option<&mut P> {
        match self.world.get_mut(process.0.wrapping_sub(self.first.0) as usize) {
            Some(peer) => peer.as_mut(),
            None => self.others.get_mut(&process),
        }
    }

    /// Adds a process of another world, unless it is known.
    pub(super) fn add(&mut self, process: ProcessId, peer: P) {
        self.others.entry(process).or_insert(peer);
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut P> {
        self.world.iter_mut().flatten().chain(self.others.values_mut())
    }
}
