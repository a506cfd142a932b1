//! Data of gets and puts that leave in order: what one process sends another over one rail, one after the
//! other ([`Config::data_in_order`](super::Config::data_in_order)).

use std::collections::{BTreeMap, VecDeque};

use super::fabric::{Cargo, Fabric};

/// Sender, receiver and rail.
type Pair = (u32, u32, u8);

/// The data of each pair: the first is leaving.
#[derive(Default)]
pub(super) struct DataQueues(BTreeMap<Pair, VecDeque<u32>>);

impl DataQueues {
    /// Whether this data may leave now; if not it waits.
    pub(super) fn push(&mut self, flight: u32, pair: Pair) -> bool {
        let queue = self.0.entry(pair).or_default();
        queue.push_back(flight);
        queue.len() == 1
    }

    /// The first has left: what may leave now.
    pub(super) fn pop(&mut self, pair: Pair) -> Option<u32> {
        let queue = self.0.get_mut(&pair)?;
        queue.pop_front();
        let next = queue.front().copied();
        if next.is_none() {
            self.0.remove(&pair);
        }
        next
    }
}

impl Fabric {
    /// Whether it leaves after the data before it between the same processes.
    pub(super) fn goes_in_order(&self, flight: u32) -> bool {
        let is_data = matches!(self.flights[flight].cargo, Cargo::PutData(_) | Cargo::GetData(_));
        is_data && self.config.data_in_order
    }
}
