//! Real devices (see ARCHITECTURE.md).

pub mod launch;
pub mod pmi;
pub mod shm;
