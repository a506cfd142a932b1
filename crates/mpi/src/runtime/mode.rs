//! The progress modes.

use crate::fault::{Fault, fault};
use ayatori_launch::environment::ENV_PROGRESS;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

/// The progress mode: which thread makes progress, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Calls of MPI only.
    Inline,
    /// Calls of MPI, and a thread while there are none.
    Assisted,
    /// A thread, always.
    Offload,
}

impl Mode {
    /// Its number in `mpi-ext.h`.
    pub(crate) fn number(self) -> c_int {
        self as c_int
    }

    /// By its number in `mpi-ext.h`.
    pub(crate) fn from_number(number: c_int) -> Option<Self> {
        [Self::Inline, Self::Assisted, Self::Offload].into_iter().find(|mode| mode.number() == number)
    }

    /// What the environment asks for.
    pub(super) fn from_environment() -> Result<Self, Fault> {
        match std::env::var(ENV_PROGRESS).as_deref() {
            Err(_) | Ok("" | "assisted") => Ok(Self::Assisted),
            Ok("inline") => Ok(Self::Inline),
            Ok("offload") => Ok(Self::Offload),
            Ok(other) => Err(fault(
                crate::abi::MPI_ERR_OTHER,
                format_args!("{ENV_PROGRESS} is \"{other}\": give `inline`, `assisted` or `offload`"),
            )),
        }
    }
}

/// The mode in which MPI would start now; where the environment asks for none that there is, it would not.
pub(crate) fn asked_for() -> Mode {
    Mode::from_environment().unwrap_or(Mode::Assisted)
}

/// The mode in force.
static MODE: AtomicU8 = AtomicU8::new(Mode::Inline as u8);
/// The mode in force.
pub(crate) fn mode() -> Mode {
    const ASSISTED: u8 = Mode::Assisted as u8;
    const OFFLOAD: u8 = Mode::Offload as u8;
    match MODE.load(Ordering::Relaxed) {
        ASSISTED => Mode::Assisted,
        OFFLOAD => Mode::Offload,
        _ => Mode::Inline,
    }
}

/// Goes over to a mode.
pub(super) fn set(mode: Mode) {
    MODE.store(mode as u8, Ordering::Relaxed);
}
