//! Shared memory: the device between the ranks of one host.
//!
//! Owns the segment all ranks map (`segment.rs`), one ring per ordered pair of ranks (`ring.rs`), sleeping
//! and waking (`sleep.rs`), the device itself (`device.rs`) and the one-copy path through the kernel.
//! Deliberately not here: matching, protocols and credits (core), the choice of when to wait (runtime; the
//! policy object it uses is [`WaitPolicy`]).
//!
//! * [`send`](ayatori_core::device::Device::send) copies a packet into the ring to the peer: one cache line
//!   where header and payload fit in 56 bytes. [`Full`](ayatori_core::device::Full) means the ring is. A
//!   packet of 10 KiB and more is read while it is being written where every rank has a CPU: its
//!   [`Front`](ayatori_core::device::Event::Front) is reported, and
//!   [`fetch`](ayatori_core::device::Device::fetch) copies piece after piece.
//! * [`put`](ayatori_core::device::Device::put) and [`get`](ayatori_core::device::Device::get) copy at once
//!   with `process_vm_writev` and `process_vm_readv`, and answer
//!   [`Submitted::Done`](ayatori_core::device::Submitted::Done). Where the kernel refuses (yama, a
//!   container's seccomp) they answer [`Submitted::Refused`](ayatori_core::device::Submitted::Refused) from
//!   the first refusal on, and the core sends packets instead. `AYATORI_SHM_CMA=0` makes them always refuse.
//! * A get of 64 KiB and more from a rank that waits is made by both together (`cooperative.rs`).
//! * Before it sleeps, a rank says so ([`arm`](ayatori_core::device::Device::arm)), looks once more, and then
//!   calls [`Shm::wait`]; senders wake only a rank that says it sleeps.
//! * A rank talks to itself through a ring as to any other.
//!
//! Entry type: [`Shm`].

mod active;
mod bell;
pub mod collectives;
mod cooperative;
mod cooperative_get;
mod device;
mod kernel_copy;
mod processor;
mod ring;
mod segment;
mod shared;
mod sleep;
pub(crate) mod sys;
mod wait;
mod watch;
mod words;

pub use active::LOCAL_SIZE_MAX;
pub use ayatori_core::coll::shared_memory::{
    Occupancy, fabric, is_direct, is_exchange, operand_fits, room_bytes_max,
};
pub use collectives::{Call, NodeCollectives};
pub use device::{Shm, ShmConfig};
pub use processor::occupancy;
pub use segment::{RingSize, ShmError, Source};
pub use shared::{Holder, Locked, SharedMemory, SharedWord};
pub(crate) use sleep::Sleep;
pub use wait::{Wait, WaitPolicy, WaitStep, yield_now};
pub use watch::{Observer, Sight, Stage};
pub use words::CallWords;
