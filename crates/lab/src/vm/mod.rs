//! A small virtual machine that runs one program of this machine, under a kernel of its own.
//!
//! Owns: finding a kernel ([`kernel`]), unpacking it ([`image`]), the modules it must load ([`modules`]), the
//! start archive (`init.sh`), QEMU's command line, and the connection to the program inside ([`qemu`]). Does
//! not own: the messages on that connection (`wire`). It knows nothing of switches and hosts.
//!
//! ```text
//!   this process ── unix socket ── qemu ── virtio-serial ── agent (this same executable, chrooted
//!        │                          │                              into the host's own file system)
//!        └── temporary folder ──────┴── 9p: "/" read-only, and nothing else of the machine
//! ```
//!
//! Invariants: the machine has no network device, sees the host's files read-only, and powers off by itself
//! when the line to it closes or its time is over, so that nothing is left behind when we are killed.

mod image;
pub mod kernel;
mod modules;
mod qemu;

pub use qemu::{Accelerator, Spec};
pub(crate) use qemu::{Guest, LINE_NAME};
