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

#[cfg(test)]
mod tests {
    use super::*;

    /// The world's processes 5 to 7, of which 6 is not elsewhere.
    fn peers() -> Peers<u32> {
        let make = |process: ProcessId| Some(process.0).filter(|&number| number != 6);
        Peers::new(ProcessId(5), 3, Box::new(make))
    }

    #[test]
    fn processes_of_other_worlds_are_known_once_they_are_added() {
        let mut peers = peers();
        assert_eq!(
            [4, 5, 6, 7, 8].map(|id| peers.get(ProcessId(id)).copied()),
            [None, Some(5), None, Some(7), None]
        );
        peers.add(ProcessId(8), 80);
        peers.add(ProcessId(8), 81);
        assert_eq!(peers.get(ProcessId(8)), Some(&80), "what is known stays");
        *peers.get_mut(ProcessId(8)).unwrap() += 1;
        assert_eq!(peers.get_mut(ProcessId(8)), Some(&mut 81));
        assert_eq!(peers.get_mut(ProcessId(6)), None);
    }

    #[test]
    fn what_ends_all_ends_those_met_later_too() {
        let mut peers = peers();
        peers.add(ProcessId(8), 80);
        assert_eq!(peers.get(ProcessId(5)), Some(&5));
        peers.end(|peer| *peer = 0);
        assert_eq!([5, 7, 8].map(|id| peers.get(ProcessId(id)).copied()), [Some(0); 3]);
    }
}
