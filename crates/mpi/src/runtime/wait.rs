//! How a call waits.
//!
//! The thread that called MPI waits itself: it polls, yields, then says that it sleeps, looks once more and
//! sleeps (MPI/DE, P2). The device's `WaitPolicy` gives the time of each step; with more ranks than CPUs
//! there is no spinning. With `MPI_THREAD_MULTIPLE` the lock is free while a thread waits, so that others can
//! call. `helper.rs` makes progress while no call is inside.

use crate::abi::{MPI_Comm, MPI_Request};
use crate::fault::Fault;
use crate::request::check;
use crate::starting::Started;
use crate::state::{self, Guard, Process};
use crate::why::{self, Asleep, Waits};
use ayatori_core::device::{Armed, Device};
use ayatori_core::ids::{CommId, RequestId};
use ayatori_core::request::{Completion, Posted};
use ayatori_devices::shm::{Wait, WaitStep};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::helper::Resting;
use super::machine::{Machine, advance};
use super::mode::{Mode, mode};
use super::offload::end_wait;
use super::sleepers;
use super::sleepers::AWAITING;

/// With threads, the sleep of one that no event wakes, before it looks again: at first, and at most.
const BLIND_SLEEP_MIN: Duration = Duration::from_micros(50);
const BLIND_SLEEP_MAX: Duration = Duration::from_millis(4);

/// Borrowing the machine for a look takes as long as this many looks without it.
const LOOKS_PER_BORROW: u32 = 50;

/// The next sleep after a total of `slept`. It adds at most a sixteenth to the latency, and a long wait uses
/// almost no CPU time.
fn blind_sleep(slept: Duration) -> Duration {
    (slept / 16).clamp(BLIND_SLEEP_MIN, BLIND_SLEEP_MAX)
}

/// Waits for the receive begun by `receive_direct`, while no other thread calls.
#[inline]
pub(crate) fn wait_direct(process: &mut Process) -> Result<(), Fault> {
    let mut asleep = None;
    while process.engine().wait_alone(&mut asleep, |core| Ok(core.poll_direct().then_some(())))?.is_none() {
        why::answer(process, Waits::Direct, asleep);
    }
    Ok(())
}

/// Waits for the collective operation that the caller runs, while no other thread calls.
pub(crate) fn wait_for_run(process: &mut Process) -> Result<Completion, Fault> {
    let mut asleep = None;
    loop {
        let machine = process.engine();
        match machine.wait_alone(&mut asleep, |core| Ok(core.poll_run().then_some(())))? {
            Some(()) => {
                if let Some(completion) = machine.core.go_on_with_run(&mut machine.device) {
                    return Ok(completion);
                }
                asleep = None;
            }
            None => why::answer(process, Waits::Run, asleep),
        }
    }
}

/// Waits until a request of the core is over, or any has failed, while no other thread calls.
pub(crate) fn wait_alone(process: &mut Process, id: RequestId, waits: Waits) -> Result<(), Fault> {
    let mut asleep = None;
    let failures_seen = process.engine().core.failure_count();
    let is_over = |core: &mut ayatori_core::Process| {
        Ok((core.is_complete(id) || core.failure_count() != failures_seen).then_some(()))
    };
    while process.engine().wait_alone(&mut asleep, is_over)?.is_none() {
        why::answer(process, waits, asleep);
    }
    Ok(())
}

/// Waits for what a blocking call has started, and gives its completion; an error is raised by the caller.
#[inline]
pub(crate) fn wait(mut process: Guard, posted: Posted) -> Result<Completion, Fault> {
    match posted {
        Posted::Done(completion) => Ok(completion),
        Posted::Pending(id) if !process.is_shared() => take_alone(&mut process, id, Waits::Request(id)),
        Posted::Pending(id) => {
            drop(process);
            wait_until(Waits::Request(id), |process| Ok(process.engine().core.take_or_give_up(id)?))
        }
    }
}

/// Waits until a request of the core is over, and takes it, while no other thread calls.
#[inline]
fn take_alone(process: &mut Process, id: RequestId, waits: Waits) -> Result<Completion, Fault> {
    let mut asleep = None;
    loop {
        let take = |core: &mut ayatori_core::Process| core.take_or_give_up(id);
        if let Some(completion) = process.engine().wait_alone(&mut asleep, take)? {
            return Ok(completion);
        }
        why::answer(process, waits, asleep);
    }
}

/// As [`wait`], with the completion's error as the fault of the call on `comm`.
#[inline]
pub(crate) fn complete(process: Guard, posted: Posted, comm: MPI_Comm) -> Result<Completion, Fault> {
    let completion = wait(process, posted)?;
    check(&completion, comm)?;
    Ok(completion)
}

/// Number of looks at a collective operation in shared memory before each look for messages.
const NODE_LOOKS: u32 = 8;

/// Waits for the operation that the node's collectives have begun on the communicator.
pub(crate) fn wait_for_node(
    mut process: Guard,
    comm: CommId,
    mut reduce: impl FnMut(&mut [u8], &[u8]),
) -> Result<(), Fault> {
    let is_shared = process.is_shared();
    let mut wait = process.engine().device.policy().start();
    let mut waiter = Waiter::begin();
    // Another process that accesses a window of this one waits for its next poll for messages.
    let spinning_looks = if process.engine().core.serves_windows() { 1 } else { NODE_LOOKS };
    loop {
        let Machine { core, device, node, clock, .. } = process.engine();
        let node = node.opened(comm).expect("it has begun an operation");
        let is_spinning = wait.step_is_spin();
        let looks = if is_spinning { spinning_looks } else { 1 };
        for look in 0..looks {
            if look > 0 {
                std::hint::spin_loop();
            }
            if node.advance(&mut reduce) {
                return Ok(());
            }
        }
        let worked = advance(core, device, clock);
        if let Some(error) = core.lost_in(comm) {
            return Err(error.into());
        }
        if worked {
            // The arrival may be handled only in part: the next round goes on with it before a sleep.
            wait = device.policy().start();
        }
        if is_shared {
            process = waiter.rest(process, &mut wait, Waits::Node(comm))?;
            why::answer_if_asked(&mut process, Waits::Node(comm), waiter.asleep);
            continue;
        }
        if worked {
            why::answer_if_asked(&mut process, Waits::Node(comm), waiter.asleep);
            continue;
        }
        match wait.step() {
            WaitStep::Spin => {}
            WaitStep::Yield => device.yield_now(),
            WaitStep::Sleep => {
                waiter.asleep.get_or_insert_with(Instant::now);
                if device.arm() == Armed::Armed {
                    if node.advance(&mut reduce) {
                        return Ok(());
                    }
                    device.wait(None);
                }
                why::answer_if_asked(&mut process, Waits::Node(comm), waiter.asleep);
            }
        }
    }
}

/// Makes progress until `done` gives something. The lock is held while `done` runs; in between only where no
/// other thread may call. `waits` is the reason, for inquiries.
pub(crate) fn wait_until<R>(
    waits: Waits,
    mut done: impl FnMut(&mut Process) -> Result<Option<R>, Fault>,
) -> Result<R, Fault> {
    let mut wait = None;
    let mut waiter = Waiter::begin();
    let mut process = state::process()?;
    loop {
        let worked = process.progress();
        if let Some(result) = done(&mut process)? {
            return Ok(result);
        }
        let policy = process.engine.policy();
        if worked {
            wait = None;
            why::answer_if_asked(&mut process, waits, waiter.asleep);
        }
        let wait = wait.get_or_insert_with(|| policy.start());
        process = waiter.pause(process, wait, waits)?;
    }
}

/// Looks again and again until `look`, which makes progress and takes the lock itself, gives something.
pub(crate) fn wait_for_any<R>(
    waits: Waits,
    mut look: impl FnMut() -> Result<Option<R>, Fault>,
) -> Result<R, Fault> {
    let mut last = None;
    let mut wait = None;
    let mut waiter = Waiter::begin();
    loop {
        if let Some(result) = look()? {
            return Ok(result);
        }
        let mut process = state::process()?;
        let completions = Some(process.engine.completions());
        if completions != last {
            wait = None;
            last = completions;
            why::answer_if_asked(&mut process, waits, waiter.asleep);
        }
        let policy = process.engine.policy();
        let wait = wait.get_or_insert_with(|| policy.start());
        drop(waiter.pause(process, wait, waits)?);
    }
}

/// Waits for an operation that the engine's thread has, and ends its request. The operation's error is in the
/// completion.
pub(crate) fn wait_remote(process: Guard, request: MPI_Request) -> Result<Completion, Fault> {
    drop(process);
    wait_until(Waits::Remote(request), |process| process.take_remote(request))
}

impl Started {
    /// Waits for the end. The operation's error is in the completion.
    #[inline]
    pub(crate) fn finish(self, process: Guard) -> Result<Completion, Fault> {
        match self {
            Self::Over(completion) => Ok(completion),
            Self::Core(id) => wait(process, Posted::Pending(id)),
            Self::Remote(request) => wait_remote(process, request),
        }
    }
}

/// Waits for a receive and a send; the receive's completion, with either's error.
pub(crate) fn finish_both(process: Guard, receive: Started, send: Started) -> Result<Completion, Fault> {
    let waits = Waits::Both(receive.into(), send.into());
    // While no other thread calls, the lock is kept: a call that ends with work under way wakes the helper.
    let mut alone = (!process.is_shared()).then_some(process);
    let mut end = |started| match (started, &mut alone) {
        (Started::Over(completion), _) => Ok(completion),
        (Started::Core(id), Some(process)) => take_alone(process, id, waits),
        (Started::Core(id), None) => {
            wait_until(waits, |process| Ok(process.engine().core.take_or_give_up(id)?))
        }
        (Started::Remote(request), _) => {
            wait_until(Waits::Remote(request), |process| process.take_remote(request))
        }
    };
    let received = end(receive)?;
    let sent = end(send)?;
    Ok(Completion { error: received.error.or(sent.error), ..received })
}

/// The pauses of one waiting call.
struct Waiter {
    asleep: Asleep,
    /// The inquiry that was answered last.
    answered: u32,
    /// Set if another thread makes progress for sleeping threads.
    resting: Option<Resting>,
    /// Completions reported before the last look.
    seen: u32,
    /// While it waits awake for the engine's thread.
    awaiting: Option<Awaiting>,
    /// Total time of the sleeps that no event would have ended, since the last event.
    slept_blind: Duration,
}

impl Waiter {
    /// To be called before the first look.
    fn begin() -> Self {
        Self {
            asleep: None,
            answered: 0,
            resting: None,
            seen: sleepers::completions_seen(),
            awaiting: None,
            slept_blind: Duration::ZERO,
        }
    }

    /// Sleeps without the lock: until something completes if another thread makes progress, else for a
    /// moment. `by_borrowing`: the engine was borrowed for the look before.
    fn sleep(&mut self, waits: Waits, by_borrowing: bool) {
        match (&self.resting, waits) {
            // No event wakes a thread that waits for a word of a window's memory.
            (_, Waits::Lock { .. }) => self.sleep_blind(),
            (Some(resting), _) if resting.is_enough(by_borrowing) => resting.rest(self.seen),
            // Changes in shared memory wake no thread.
            (_, Waits::Node(_)) if !by_borrowing => self.sleep_blind(),
            _ => {
                // One more look, then.
                self.resting = Resting::begin(by_borrowing);
                if self.resting.is_none() {
                    self.sleep_blind();
                }
            }
        }
    }

    fn sleep_blind(&mut self) {
        let time = blind_sleep(self.slept_blind);
        self.slept_blind += time;
        std::thread::sleep(time);
    }

    /// Lets time pass after a round in which nothing happened; without the lock, if others may call.
    fn pause(&mut self, mut process: Guard, wait: &mut Wait, waits: Waits) -> Result<Guard, Fault> {
        if process.is_shared() {
            return self.rest(process, wait, waits);
        }
        if process.engine().pause(wait, &mut self.asleep) {
            why::answer(&mut process, waits, self.asleep);
        }
        Ok(process)
    }

    /// Lets time pass without the lock.
    fn rest(&mut self, mut process: Guard, wait: &mut Wait, waits: Waits) -> Result<Guard, Fault> {
        let by_borrowing = process.engine.is_borrowed();
        let mut step = wait.step();
        if by_borrowing {
            for _ in 1..LOOKS_PER_BORROW {
                if step == WaitStep::Spin {
                    step = wait.step();
                }
            }
        }
        if step != WaitStep::Sleep {
            self.slept_blind = Duration::ZERO;
        }
        if self.awaiting.is_none() {
            self.awaiting = Awaiting::begin();
        }
        // If other programs compute on the CPUs, the first step may be to sleep, and no thread has executed
        // the call's command yet.
        let stands_in = step != WaitStep::Sleep || self.asleep.is_none();
        if stands_in && !by_borrowing && self.awaiting.is_some() && process.stand_in() {
            *wait = process.engine.policy().start();
            why::answer_if_asked(&mut process, waits, self.asleep);
            return Ok(process);
        }
        if step == WaitStep::Sleep
            && let Some(machine) = process.engine.own()
        {
            machine.expect_long(self.asleep.is_none());
        }
        drop(process);
        if step == WaitStep::Sleep {
            // Its end wakes the engine's thread for what it has left behind.
            self.awaiting = None;
        }
        match step {
            WaitStep::Spin if !by_borrowing => std::hint::spin_loop(),
            // The engine's thread is to have it in between.
            WaitStep::Spin | WaitStep::Yield => ayatori_devices::shm::yield_now(),
            WaitStep::Sleep => self.sleep(waits, by_borrowing),
        }
        self.seen = sleepers::completions_seen();
        let mut process = state::process()?;
        if step == WaitStep::Sleep {
            self.asleep.get_or_insert_with(Instant::now);
            // Each thread adds its part, so it is not enough that one has answered.
            let inquiry = process.engine.inquiry();
            if inquiry != self.answered {
                self.answered = inquiry;
                why::answer(&mut process, waits, self.asleep);
            }
        }
        Ok(process)
    }
}

/// A call that waits for the engine's thread and is awake.
struct Awaiting(());

impl Awaiting {
    /// Begins, in mode *offload*.
    fn begin() -> Option<Self> {
        (mode() == Mode::Offload).then(|| {
            AWAITING.fetch_add(1, Ordering::SeqCst);
            Self(())
        })
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        if AWAITING.fetch_sub(1, Ordering::SeqCst) == 1 {
            end_wait();
        }
    }
}

/// Whether the ranks of this host outnumber its CPUs.
static SHARES_CPUS: AtomicBool = AtomicBool::new(false);
/// Tests that have found nothing since the last yield.
static TESTS_COUNT: AtomicU32 = AtomicU32::new(0);
/// One of this many such tests yields where ranks share CPUs. They take some two microseconds, in which what
/// is on its way from a rank that runs comes; a program that computes between its tests seldom loses a slice.
const TESTS_PER_YIELD: u32 = 16;

/// The process has joined its job.
pub(super) fn prepare(machine: &Machine) {
    SHARES_CPUS.store(machine.device.policy().spins_count == 0, Ordering::Relaxed);
}

/// A test or a probe has found nothing; its caller has released the process. In mode *offload* the engine's
/// thread is let to run, for there is no progress without it. Where ranks share CPUs others are, too: what
/// the caller polls for may be theirs to send, and each would have to wait for the end of this one's slice.
#[inline]
pub(crate) fn found_nothing() {
    if mode() == Mode::Offload {
        std::thread::yield_now();
    } else if SHARES_CPUS.load(Ordering::Relaxed) {
        share_cpu();
    }
}

/// Threads may lose counts to each other.
fn share_cpu() {
    let count = TESTS_COUNT.load(Ordering::Relaxed) + 1;
    TESTS_COUNT.store(count % TESTS_PER_YIELD, Ordering::Relaxed);
    if count == TESTS_PER_YIELD {
        ayatori_devices::shm::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blind_sleep_adds_at_most_one_sixteenth_latency() {
        let (mut slept, mut parks_count) = (Duration::ZERO, 0);
        while slept < Duration::from_secs(10) {
            let time = blind_sleep(slept);
            assert!(time <= BLIND_SLEEP_MIN.max(slept / 16), "{time:?} after {slept:?}");
            slept += time;
            parks_count += 1;
        }
        assert!(parks_count < 2_700, "{parks_count} sleeps in {slept:?}");
    }
}
