//! A test that any device can run: does it keep what [`Device`] promises?
//!
//! Owns the checks, one a promise, and what drives devices through them. Does not own the world: a [`World`],
//! given with the device, makes connected devices and advances time. A failure names the promise.
//!
//! ```text
//!   make() ──► World (N devices, connected) ──► one check ──► dropped; a fresh one for the next check
//! ```
//!
//! A check that does not apply (the device has no put, its rails do not break, the world cannot cut them) is
//! skipped and listed with the reason in the [`Report`], so that a device's test says which ones it expects
//! to run:
//!
//! ```
//! # use ayatori_core::device::conformance::{Report, World, check};
//! # fn test_my_device(mut make: impl FnMut() -> Box<dyn World>) {
//! let report = check(&mut make).unwrap_or_else(|failure| panic!("{failure}"));
//! assert!(report.skipped.iter().all(|skip| skip.check == "breaks"), "{report:?}");
//! # }
//! ```
//!
//! `examples/write_a_device.rs` of `ayatori-devices` is a whole device with its world. The suite takes no
//! virtual payload: simulated devices carry real bytes, too. It moves no message to the sender itself: a
//! process needs no device for that.

mod breaks;
mod fronts;
mod memory;
mod packets;
mod rig;
#[cfg(test)]
mod tests;

use crate::device::Device;
use crate::ids::{ProcessId, Rail};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use rig::Rig;

/// Devices that are connected with each other, and the time in which they live.
pub trait World {
    /// The processes; the suite names devices by the place in this list. At least two.
    fn processes(&self) -> Vec<ProcessId>;

    /// Runs `f` with the device of the process at a place.
    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device));

    /// Lets a little time pass, so that operations under way go on. `false`: waiting is useless, because
    /// nothing is under way (a simulated world), or because the world's time limit for hangs is over (a real
    /// one: minutes).
    fn advance(&mut self) -> bool;

    /// Sleeps at a device that has answered [`Armed`](super::Armed::Armed) until it is woken. `false`: no
    /// wake-up came within the world's patience.
    fn sleep(&mut self, at: usize) -> bool;

    /// Breaks the connection of a rail, as a pulled cable or a reset does; it works again soon. `false`: this
    /// world cannot.
    fn cut(&mut self, at: usize, rail: Rail, peer: ProcessId) -> bool {
        let _ = (at, rail, peer);
        false
    }

    /// Ends a process without a goodbye, so that the devices of the others learn of it. `false`: this world
    /// cannot.
    fn kill(&mut self, at: usize) -> bool {
        let _ = at;
        false
    }
}

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The check that found it.
    pub check: &'static str,
    /// The promise in the device's documentation.
    pub promise: &'static str,
    /// The observed behaviour.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device check \"{}\": {} (the promise: {})", self.check, self.what, self.promise)
    }
}

impl core::error::Error for Failure {}

/// A check that did not apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skip {
    /// The check.
    pub check: &'static str,
    /// Why it was not run.
    pub reason: &'static str,
}

/// The checks that a device has passed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// The checks that were run.
    pub passed: Vec<&'static str>,
    /// The checks that did not apply.
    pub skipped: Vec<Skip>,
}

/// Why a check ended early.
enum Stop {
    /// It does not apply.
    Skip(&'static str),
    /// The promise is broken.
    Broken(String),
}

impl Stop {
    fn into_words(self) -> String {
        match self {
            Self::Skip(reason) => reason.into(),
            Self::Broken(what) => what,
        }
    }
}

impl From<String> for Stop {
    fn from(what: String) -> Self {
        Self::Broken(what)
    }
}

type Outcome = Result<(), Stop>;

/// A promise and how it is checked.
struct Check {
    name: &'static str,
    promise: &'static str,
    run: fn(&mut Rig<'_>) -> Outcome,
}

const CHECKS: &[Check] = &[
    Check {
        name: "rails",
        promise: "rails are fixed for the device's life; rails_to names those that reach a peer, and none for a stranger",
        run: packets::rails,
    },
    Check {
        name: "whole",
        promise: "a packet of any header to 128 bytes and any payload in two pieces, up to the rail's limit, arrives whole, from \
                  its sender",
        run: packets::whole,
    },
    Check {
        name: "ordered",
        promise: "packets of one rail to one peer arrive once each, in the order sent if the rail says so",
        run: packets::ordered,
    },
    Check {
        name: "full",
        promise: "Full: the device took nothing of the packet; offered again after polls, it is taken in the end",
        run: packets::full,
    },
    Check {
        name: "held",
        promise: "a packet stays in the device's memory until it is released, across all calls except poll",
        run: packets::held,
    },
    Check {
        name: "hints",
        promise: "expect is a hint: what others send arrives, too; after flush nothing waits for a further send",
        run: packets::hints,
    },
    Check {
        name: "arm",
        promise: "after Armed an arrival ends the sleep, also one from before; so does room where the device was Full",
        run: packets::arm,
    },
    Check {
        name: "fronts",
        promise: "the payload of a fetched front goes to its place and nowhere else; an unfetched one \
                  comes with the packet; only a packet whose repeated front is not fetched is lost",
        run: fronts::fronts,
    },
    Check {
        name: "put",
        promise: "a put moves its bytes and no others, ends once, and is visible before any packet sent afterwards",
        run: memory::put,
    },
    Check { name: "get", promise: "a get moves its bytes and no others, and ends once", run: memory::get },
    Check {
        name: "outside",
        promise: "a put or get of memory outside of a registration moves nothing, and does not end well",
        run: memory::outside,
    },
    Check {
        name: "breaks",
        promise: "one connection is one epoch: RailUp begins it, after RailDown or reset nothing of it is handed up, and the device \
                  makes a new one by itself",
        run: breaks::breaks,
    },
    Check {
        name: "gone",
        promise: "a process known to be gone is reported to the others once, by PeerGone, and never again",
        run: breaks::gone,
    },
];

/// Runs every check, each in a world of its own.
///
/// # Errors
/// The first promise that is broken.
pub fn check<W: World + ?Sized>(make: &mut dyn FnMut() -> alloc::boxed::Box<W>) -> Result<Report, Failure> {
    let mut report = Report::default();
    for Check { name, promise, run } in CHECKS {
        let mut world = make();
        match run(&mut Rig::new(&mut Dyn(&mut *world))) {
            Ok(()) => report.passed.push(name),
            Err(Stop::Skip(reason)) => report.skipped.push(Skip { check: name, reason }),
            Err(Stop::Broken(what)) => return Err(Failure { check: name, promise, what }),
        }
    }
    Ok(report)
}

/// A world of any type, sized or not.
struct Dyn<'w, W: ?Sized>(&'w mut W);

impl<W: World + ?Sized> World for Dyn<'_, W> {
    fn processes(&self) -> Vec<ProcessId> {
        self.0.processes()
    }
    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device)) {
        self.0.with(at, f);
    }
    fn advance(&mut self) -> bool {
        self.0.advance()
    }
    fn sleep(&mut self, at: usize) -> bool {
        self.0.sleep(at)
    }
    fn cut(&mut self, at: usize, rail: Rail, peer: ProcessId) -> bool {
        self.0.cut(at, rail, peer)
    }
    fn kill(&mut self, at: usize) -> bool {
        self.0.kill(at)
    }
}
