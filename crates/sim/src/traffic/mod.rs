//! Traffic on the bare network: patterns that need no MPI library.
//!
//! [`rounds`] drives processes that exchange whole messages in rounds (random ring, pairwise exchange,
//! permutations) and measures when all are done; [`puts`] writes, one write after the other;
//! [`uniform`] offers single packets at a given rate and measures what is accepted. Deliberately absent:
//! software costs and protocols. Those belong to real processes on the simulated network.

pub mod patterns;
pub mod puts;
pub mod rounds;
pub mod uniform;
