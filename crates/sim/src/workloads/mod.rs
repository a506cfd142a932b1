//! Workloads: async functions that every rank of a [`Cluster`](crate::cluster::Cluster) runs.

mod alltoall;
mod halo;
mod ping_pong;
mod random_ring;

pub use alltoall::{pairwise_exchange, pairwise_partners};
pub use halo::{HaloGrid, halo_exchange};
pub use ping_pong::ping_pong;
pub use random_ring::{RingOrder, random_ring};
