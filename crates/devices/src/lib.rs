//! Real devices (see ARCHITECTURE.md).

pub mod composite;
pub mod fault;
pub mod launch;
pub mod loopback;
pub mod pmi;
pub mod shm;
pub mod tcp;
pub mod threads;
pub mod trace;
