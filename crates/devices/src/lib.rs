//! Real devices (see ARCHITECTURE.md).

pub mod composite;
pub mod fault;
pub mod loopback;
pub mod shm;
pub mod tcp;
pub mod threads;
pub mod trace;
