//! Fault runs: one seed makes a world, and the protocol engine must hold its promises in it.
//!
//! A world is a small network of random topology with 1 to 8 real [`Process`](ayatori_core::Process)es on it,
//! a device that is full, slow or refuses as the seed says, a mix of traffic, in some worlds crashes, and in
//! most several rails that break, fall silent and return (`wire::faults`). In some the processes make their
//! connections as TCP's device does (`wire::connecting`). A world is run in two phases, after TigerBeetle's
//! simulator:
//!
//! 1. *Safety.* Random calls and random progress. All along, every completed receive is held against a naive
//!    model of matching (`model`): the right message, exactly once, the right bytes; and no receiver holds
//!    more eager data than its credit allows. Memory whose operation is over is written over at once, as
//!    programs do, and must stay so.
//! 2. *Liveness.* The world heals: nothing is refused any more, nobody else dies, rails return but for some
//!    that never do. Now everything must complete within bounded time, with an error where a process is
//!    needed that is dead or can be reached by no rail, and nothing may be left: no request, no message, no
//!    registration, no credit, no rail that works and is not used.
//!
//! Traffic: point-to-point in standard, synchronous and buffered mode (ready mode is standard mode in the
//! engine), by the calls that `MPI_Send`, `MPI_Isend`, `MPI_Recv` and `MPI_Irecv` make, with gaps; persistent
//! requests, requests that are freed, wildcards, probes and matched probes, cancelling of receives and sends,
//! messages to oneself, floods that use up credit, several long messages at a time; communicators made in
//! every way, and freed; every collective operation with every algorithm, in place and not. [`Feature`] lists
//! what a test demands of many worlds together.
//!
//! Where a collective operation failed because a member died, messages that lie unmatched at its survivors,
//! and their credit, are not checked: the engine has no way yet to take them back. Where two members that
//! live have lost each other, others may wait for messages that nobody sends any more: a program would have
//! to tell them. Both concern the members of that communicator only.
//!
//! That the checks can fail is shown by [`Bug`]s, built into the device on purpose: each is found (tests).

mod bug;
mod collectives;
pub mod exhaustive;
mod feature;
mod model;
mod port;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

pub use bug::Bug;
pub use feature::Feature;

/// What a world has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorldReport {
    /// Calls, deliveries and rounds of progress.
    pub step_count: u64,
    /// Messages sent.
    pub message_count: u64,
    /// Collective operations begun by a process.
    pub collective_count: u64,
    /// Processes that crashed.
    pub crash_count: u64,
    /// Times that a rail between two processes failed for a while.
    pub outage_count: u64,
    /// A bit for each [`Feature`] that has been used.
    features: u64,
    /// A digest of every completion in order: the same seed gives the same, on every machine and in every
    /// build.
    pub digest: u64,
}

impl WorldReport {
    /// Whether something has been used or has happened.
    pub fn has_covered(&self, feature: Feature) -> bool {
        self.features & feature.bit() != 0
    }

    fn cover(&mut self, feature: Feature) {
        self.features |= feature.bit();
    }

    fn add(&mut self, other: &WorldReport) {
        self.step_count += other.step_count;
        self.message_count += other.message_count;
        self.collective_count += other.collective_count;
        self.crash_count += other.crash_count;
        self.outage_count += other.outage_count;
        self.features |= other.features;
        self.digest = (self.digest ^ other.digest).wrapping_mul(0x0000_0100_0000_01B3);
    }
}

/// A promise broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The world in which it happened.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// What happened in the world, the last lines of it.
    pub history: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.history {
            writeln!(f, "  {line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

impl std::error::Error for Violation {}

/// What the processes of a world do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All kinds of traffic.
    Traffic,
    /// They go on without those that die (`world::survivors`).
    Survivors,
}

/// Runs the world of a seed, with a bug built in or (as for real) without.
///
/// # Errors
/// The first promise found broken.
pub fn run_world(kind: Kind, seed: u64, bug: Option<Bug>) -> Result<WorldReport, Violation> {
    let mut history = Vec::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| match kind {
        Kind::Traffic => world::run(seed, bug, &mut history),
        Kind::Survivors => world::survivors::run(seed, bug, &mut history),
    }));
    let what = match outcome {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(what)) => what,
        // An assertion of the engine.
        Err(panic) => match panic.downcast_ref::<String>() {
            Some(text) => format!("panic: {text}"),
            None => format!("panic: {}", panic.downcast_ref::<&str>().unwrap_or(&"without a word")),
        },
    };
    const SHOWN: usize = 30;
    let first = history.len().saturating_sub(SHOWN);
    Err(Violation { seed, what, history: history.split_off(first) })
}

/// Which worlds to run.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// The first seed.
    pub first: u64,
    /// How many, one after another.
    pub count: u64,
}

/// Runs the worlds of `seeds` on so many threads. What comes of it does not depend on how many: the report's
/// digest goes by order of seeds, and of several broken promises the one of the lowest seed is reported.
/// `watch` hears of each world that has ended, in no order.
///
/// # Errors
/// The promise that the lowest seed found broken.
pub fn run_worlds(
    (kind, seeds): (Kind, Seeds),
    bug: Option<Bug>,
    thread_count: usize,
    watch: impl Fn(u64) + Sync,
) -> Result<WorldReport, Violation> {
    let end = seeds.first.saturating_add(seeds.count);
    let (next, lowest_failed) = (AtomicU64::new(seeds.first), AtomicU64::new(u64::MAX));
    let (reports, outcomes) = mpsc::channel();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            // Worlds before a failed one are run all the same: one of them may fail too.
            if seed >= end || seed > lowest_failed.load(Ordering::Relaxed) {
                return;
            }
            let outcome = run_world(kind, seed, bug);
            if outcome.is_err() {
                lowest_failed.fetch_min(seed, Ordering::Relaxed);
            }
            watch(seed);
            if reports.send((seed, outcome)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread_count.max(1) {
            scope.spawn(work);
        }
        sum_in_order(seeds, &outcomes)
    })
}

/// Adds reports up in order of seeds, in whatever order they come, until all are there or the next in turn is
/// a failure.
fn sum_in_order(
    seeds: Seeds,
    outcomes: &mpsc::Receiver<(u64, Result<WorldReport, Violation>)>,
) -> Result<WorldReport, Violation> {
    let mut sum = WorldReport::default();
    let mut early = BTreeMap::new();
    let end = seeds.first.saturating_add(seeds.count);
    for seed in seeds.first..end {
        let outcome = loop {
            if let Some(outcome) = early.remove(&seed) {
                break outcome;
            }
            let (other, outcome) = outcomes.recv().expect("every world up to the lowest that fails is run");
            early.insert(other, outcome);
        };
        sum.add(&outcome?);
    }
    Ok(sum)
}
