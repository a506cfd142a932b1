//! How far a running simulation is, for another thread to show.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Network, Probe};

/// Numbers of a network that runs, published now and then; any thread may read them. Each is right for some
/// moment of late; together they need not be of the same.
#[derive(Debug, Default)]
pub struct Watch {
    now_ps: AtomicU64,
    packet_hop_count: AtomicU64,
    delivered_packet_count: AtomicU64,
    given_packet_count: AtomicU64,
}

/// What a [`Watch`] shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// Simulated time, ps.
    pub now_ps: u64,
    /// Packets sent from router to router.
    pub packet_hop_count: u64,
    /// Packets that have arrived.
    pub delivered_packet_count: u64,
    /// Packets of all messages given to NICs so far.
    pub given_packet_count: u64,
}

impl Watch {
    /// The latest numbers.
    pub fn glimpse(&self) -> Glimpse {
        Glimpse {
            now_ps: self.now_ps.load(Ordering::Relaxed),
            packet_hop_count: self.packet_hop_count.load(Ordering::Relaxed),
            delivered_packet_count: self.delivered_packet_count.load(Ordering::Relaxed),
            given_packet_count: self.given_packet_count.load(Ordering::Relaxed),
        }
    }
}

/// Slices of time between two publications.
const PERIOD: u32 = 1 << 10;

/// The network's side.
#[derive(Debug, Default)]
pub(super) struct Publisher {
    watch: Option<Arc<Watch>>,
    slices_left: u32,
}

impl<P: Probe> Network<P> {
    /// From now on the network publishes how far it is.
    pub fn watch(&mut self) -> Arc<Watch> {
        self.publisher.watch.get_or_insert_default().clone()
    }

    /// Publishes if it is time.
    #[inline]
    pub(super) fn on_slice(&mut self) {
        self.publisher.slices_left = self.publisher.slices_left.wrapping_sub(1);
        if self.publisher.slices_left >= PERIOD {
            self.publish();
        }
    }

    #[cold]
    pub(super) fn publish(&mut self) {
        self.publisher.slices_left = PERIOD - 1;
        let Some(watch) = &self.publisher.watch else { return };
        watch.now_ps.store(self.now_ps, Ordering::Relaxed);
        watch.packet_hop_count.store(self.counters.packet_hop_count, Ordering::Relaxed);
        watch.delivered_packet_count.store(self.counters.delivered_packet_count, Ordering::Relaxed);
        watch.given_packet_count.store(self.counters.given_packet_count, Ordering::Relaxed);
    }
}
