//! Real devices (see ARCHITECTURE.md).

pub mod composite;
pub mod shared_text;
pub mod shm;
pub mod tcp;
pub mod threads;
