//! Real devices (see ARCHITECTURE.md).

pub mod composite;
pub mod shm;
pub mod tcp;
pub mod threads;
