//! The randomly ordered ring of b_eff (R. Rabenseifner, A. Koniges, 2001), as in the HPC Challenge: every
//! rank exchanges with both neighbours of a random ring at once, by non-blocking calls.

use ayatori_core::Error;

use crate::cluster::Mpi;
use ayatori_random::Random;

/// Ranks in a random order, the same for the same seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingOrder {
    at_place: Vec<u32>,
    place_of: Vec<u32>,
}

impl RingOrder {
    /// The order that `seed` gives `size` ranks.
    pub fn new(size: u32, seed: u64) -> RingOrder {
        let mut at_place: Vec<u32> = (0..size).collect();
        Random::new(seed).shuffle(&mut at_place);
        let mut place_of = vec![0; size as usize];
        for (place, &rank) in at_place.iter().enumerate() {
            place_of[rank as usize] = place as u32;
        }
        RingOrder { at_place, place_of }
    }

    /// The ranks to the left and right of a rank.
    pub fn neighbours(&self, rank: u32) -> (u32, u32) {
        let (size, place) = (self.at_place.len(), self.place_of[rank as usize] as usize);
        (self.at_place[(place + size - 1) % size], self.at_place[(place + 1) % size])
    }
}

/// Exchanges `bytes` with both neighbours, `round_count` times.
///
/// # Errors
/// What MPI says.
pub async fn random_ring(mpi: Mpi, left: u32, right: u32, bytes: u64, round_count: u32) -> Result<(), Error> {
    const TO_LEFT: i32 = 1;
    const TO_RIGHT: i32 = 2;
    for _ in 0..round_count {
        let requests = [
            mpi.irecv(left, TO_RIGHT, bytes)?,
            mpi.irecv(right, TO_LEFT, bytes)?,
            mpi.isend(right, TO_RIGHT, bytes)?,
            mpi.isend(left, TO_LEFT, bytes)?,
        ];
        mpi.wait_all(requests).await?;
    }
    Ok(())
}
