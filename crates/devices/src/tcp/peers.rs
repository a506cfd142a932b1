//! The processes elsewhere, by their numbers: those of our world in a list, others in a map.
//!
//! One of our world is made when it is first asked for; until then it takes eight bytes.

use ayatori_core::ids::ProcessId;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Makes what stands for a process of our world. `None`: it is not elsewhere.
pub(super) type Maker<P> = Box<dyn Fn(ProcessId) -> Option<P> + Send>;

/// See the [module's docs](self).
pub(super) struct Peers<P> {
    /// The first process of our world.
    first: ProcessId,
    world: Vec<OnceCell<Box<P>>>,
    others: BTreeMap<ProcessId, P>,
    make: Maker<P>,
    /// Applied to all peers made from now on.
    end: Option<fn(&mut P)>,
}

impl<P> Peers<P> {
    /// A world of `count` processes.
    pub(super) fn new(first: ProcessId, count: usize, make: Maker<P>) -> Self {
        let world = std::iter::repeat_with(OnceCell::new).take(count).collect();
        Self { first, world, others: BTreeMap::new(), make, end: None }
    }

    #[inline]
    fn rank(&self, process: ProcessId) -> usize {
        process.0.wrapping_sub(self.first.0) as usize
    }

    #[inline]
    pub(super) fn get(&self, process: ProcessId) -> Option<&P> {
        match self.world.get(self.rank(process)) {
            Some(cell) => match cell.get() {
                Some(peer) => Some(peer),
                None => self.meet(process),
            },
            None => self.others.get(&process),
        }
    }

    pub(super) fn get_mut(&mut self, process: ProcessId) -> Option<&mut P> {
        let rank = self.rank(process);
        if self.world.get(rank).is_some_and(|cell| cell.get().is_none()) {
            self.meet(process)?;
        }
        match self.world.get_mut(rank) {
            Some(cell) => cell.get_mut().map(|peer| &mut **peer),
            None => self.others.get_mut(&process),
        }
    }

    #[cold]
    fn meet(&self, process: ProcessId) -> Option<&P> {
        let mut peer = (self.make)(process)?;
        if let Some(end) = self.end {
            end(&mut peer);
        }
        Some(self.world[self.rank(process)].get_or_init(|| Box::new(peer)))
    }

    /// Adds a process of another world, unless it is known.
    pub(super) fn add(&mut self, process: ProcessId, peer: P) {
        self.others.entry(process).or_insert(peer);
    }

    /// Applies this to all peers, including later ones.
    pub(super) fn end(&mut self, end: fn(&mut P)) {
        self.end = Some(end);
        for peer in self.world.iter_mut().filter_map(OnceCell::get_mut) {
            end(peer);
        }
        self.others.values_mut().for_each(end);
    }
}
