//! The engine: the core's process and the device it talks through, and how a call waits for them.
//!
//! The thread that called MPI waits itself: it polls, yields, then says that it sleeps, looks once more and
//! sleeps (MPI/DE, P2). How long each, the device's `WaitPolicy` says; with more ranks than CPUs there is no
//! spinning. With `MPI_THREAD_MULTIPLE` the lock is free while a thread waits, so that others can call. Who makes progress
//! while nobody calls: `helper.rs`.

use crate::abi::MPI_Comm;
use crate::boundary::Fault;
use crate::collective::Selectors;
use crate::gate::Guard;
use crate::node::Node;
use crate::state::{self, Process};
use crate::why::{self, Asleep, Waits};
use ayatori_core::coll;
use ayatori_core::device::{Armed, Device};
use ayatori_core::ids::CommId;
use ayatori_core::process::ProcessEvent;
use ayatori_core::request::{Completion, Posted};
use ayatori_core::time;
use ayatori_devices::shm::{Wait, WaitStep};
use std::time::{Duration, Instant};

use super::helper::{self, Awaiting, Resting};
use super::net::Net;

/// What moves messages.
pub(crate) struct Engine {
    /// The protocol engine.
    pub(crate) core: ayatori_core::Process,
    /// What it talks through.
    pub(crate) device: Net,
    /// Collective operations in shared memory.
    pub(crate) node: Node,
    /// The core's time.
    pub(crate) clock: Clock,
    /// The choices of algorithms for collective operations.
    pub(crate) selectors: Selectors,
}

/// With threads, how long one that nobody would wake sleeps before it looks again: at first, and at most.
const BLIND_NAP_MIN: Duration = Duration::from_micros(50);
const BLIND_NAP_MAX: Duration = Duration::from_millis(4);

/// To borrow the engine for a look takes as long as so many looks do without.
const LOOKS_PER_LOAN: u32 = 50;

/// How long it sleeps after it has slept for so long: what it waits for comes a sixteenth later than it might, and who waits
/// for long takes nearly nothing of a CPU.
fn blind_nap(slept: Duration) -> Duration {
    (slept / 16).clamp(BLIND_NAP_MIN, BLIND_NAP_MAX)
}

/// The core's time: as exact as it has to be, since reading a clock takes a tenth of a look at a socket.
pub(crate) struct Clock {
    began: Instant,
    rounds_count: u32,
}

/// Of so many rounds that find nothing, some 250 ns each at least, one reads the clock; and so does each after one that
/// found something, when nobody waits for it.
const ROUNDS_PER_READING: u32 = 16;

impl Clock {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), rounds_count: 0 }
    }

    fn now(&self) -> time::Instant {
        let passed = self.began.elapsed();
        time::Instant(passed.as_secs() * 1_000_000_000_000 + u64::from(passed.subsec_nanos()) * 1_000)
    }

    /// The time, if it is time to look.
    #[inline]
    fn tick(&mut self) -> Option<time::Instant> {
        self.rounds_count = self.rounds_count.wrapping_add(1);
        self.rounds_count.is_multiple_of(ROUNDS_PER_READING).then(|| self.now())
    }

    /// Much has happened, or time has passed in sleep: look at the next round.
    fn hurry(&mut self) {
        self.rounds_count = ROUNDS_PER_READING - 1;
    }
}

/// One round of progress. Whether anything happened.
#[inline]
fn advance(core: &mut ayatori_core::Process, device: &mut Net, clock: &mut Clock) -> bool {
    match device {
        Net::Shm(device) => core.progress(device),
        Net::Composite(device) => {
            if core.wants_time()
                && let Some(now) = clock.tick()
            {
                core.handle_timeout(now);
            }
            let worked = core.progress(&mut **device);
            if worked {
                clock.hurry();
            }
            worked
        }
    }
}

/// What calls have left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing has to be done before the next call.
    Nothing,
    /// Acknowledgements are due, or awaited.
    Links,
    /// Messages are under way.
    Work,
}

impl Engine {
    /// One round of progress. Whether anything happened.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        advance(&mut self.core, &mut self.device, &mut self.clock)
    }

    /// What a helper has to look after while nobody calls.
    pub(super) fn left(&self) -> Left {
        let core = &self.core;
        if core.is_busy() || !self.device.is_flushed() {
            Left::Work
        } else if !core.is_quiet() || core.poll_timeout().is_some() {
            Left::Links
        } else {
            Left::Nothing
        }
    }

    /// Nobody waits for a message from somebody: look everywhere.
    pub(super) fn expect_anybody(&mut self) {
        self.device.expect(None);
        self.clock.hurry();
    }

    /// A helper has slept, with the process in others' hands.
    pub(super) fn after_nap(&mut self) {
        self.device.watch_if_due();
        self.clock.hurry();
    }

    /// How long to sleep at most: until the core wants to be called.
    pub(in crate::runtime) fn sleep_max(&self) -> Option<Duration> {
        let left = self.core.poll_timeout()?.since(self.clock.now());
        Some(Duration::from_nanos(left.as_ps() / 1_000))
    }

    /// Starts a barrier of messages.
    pub(crate) fn begin_barrier(&mut self, comm: CommId) -> Result<Posted, Fault> {
        let communicator = self.core.comm(comm)?;
        let context = coll::Context { rank: communicator.rank(), size: communicator.size() };
        let choice = coll::Choice { algorithm: coll::Algorithm::Dissemination, segment_bytes: 0 };
        let schedule = coll::barrier(self.core.schedule_pool(), context, choice)?;
        Ok(self.core.start_collective(&mut self.device, comm, schedule)?)
    }

    /// Lets time pass after a round in which nothing happened. `true`: somebody asks what this process waits for.
    #[inline]
    fn pause(&mut self, wait: &mut Wait, asleep: &mut Asleep) -> bool {
        match wait.step() {
            WaitStep::Spin => std::hint::spin_loop(),
            WaitStep::Yield => self.device.yield_now(),
            WaitStep::Sleep => {
                asleep.get_or_insert_with(Instant::now);
                if self.device.arm() == Armed::Armed {
                    let most = self.sleep_max();
                    self.device.wait(most);
                    self.clock.hurry();
                }
                return why::words().is_asked();
            }
        }
        false
    }

    /// Waits with nobody else calling until `done` gives something. `None`: somebody asks.
    #[inline(always)]
    fn wait_alone<R>(
        &mut self,
        asleep: &mut Asleep,
        mut done: impl FnMut(&mut ayatori_core::Process) -> Result<Option<R>, ayatori_core::Error>,
    ) -> Result<Option<R>, Fault> {
        let mut wait = self.device.policy().start();
        loop {
            let worked = self.progress();
            if let Some(result) = done(&mut self.core)? {
                return Ok(Some(result));
            }
            if worked {
                wait = self.device.policy().start();
            } else if self.pause(&mut wait, asleep) {
                return Ok(None);
            }
        }
    }
}

impl Process {
    /// One round of progress; where the engine is with its thread, a look at what came of its rounds.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        match &mut self.engine {
            Some(engine) => engine.progress(),
            None => self.settle(),
        }
    }

    /// The engine; there is one from start to end. Where it is with its thread it is borrowed until the process is let go of.
    #[inline(always)]
    pub(crate) fn engine(&mut self) -> &mut Engine {
        if self.engine.is_none() {
            self.borrow_engine();
        }
        self.engine.as_mut().expect("MPI runs")
    }
}

/// Waits for the receive begun by `receive_direct`, with nobody else calling.
#[inline]
pub(crate) fn wait_direct(process: &mut Process) -> Result<(), Fault> {
    let mut asleep = None;
    while process.engine().wait_alone(&mut asleep, |core| Ok(core.poll_direct().then_some(())))?.is_none() {
        why::answer(process, Waits::Direct, asleep);
    }
    Ok(())
}

/// Waits for what a blocking call has started, and gives its completion; an error is raised by the caller.
#[inline]
pub(crate) fn wait(mut process: Guard<'static>, posted: Posted) -> Result<Completion, Fault> {
    match posted {
        Posted::Done(completion) => Ok(completion),
        Posted::Pending(id) if !process.is_shared() => {
            let mut asleep = None;
            loop {
                if let Some(completion) = process.engine().wait_alone(&mut asleep, |core| core.take(id))? {
                    return Ok(completion);
                }
                why::answer(&mut process, Waits::Request(id), asleep);
            }
        }
        Posted::Pending(id) => {
            drop(process);
            wait_until(Waits::Request(id), |process| Ok(process.engine().core.take(id)?))
        }
    }
}

/// As [`wait`], with the completion's error as the fault of the call on `comm`.
#[inline]
pub(crate) fn complete(process: Guard<'static>, posted: Posted, comm: MPI_Comm) -> Result<Completion, Fault> {
    let completion = wait(process, posted)?;
    crate::request::check(&completion, comm)?;
    Ok(completion)
}

/// Looks at a collective operation in shared memory so often before it looks for messages.
const NODE_LOOKS: u32 = 8;

/// Waits for the operation that the node's collectives have begun on the communicator.
pub(crate) fn wait_for_node(
    mut process: Guard<'static>,
    comm: CommId,
    mut reduce: impl FnMut(&mut [u8], &[u8]),
) -> Result<(), Fault> {
    let is_shared = process.is_shared();
    let mut wait = process.engine().device.policy().start();
    let mut nap = Nap::begin();
    loop {
        let Engine { core, device, node, clock, .. } = process.engine();
        let node = node.opened(comm).expect("it has begun an operation");
        let is_spinning = wait.step_is_spin();
        let looks = if is_spinning { NODE_LOOKS } else { 1 };
        for _ in 0..looks {
            if node.advance(&mut reduce) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        advance(core, device, clock);
        if let Some(ProcessEvent::PeerLost(_, error)) = core.poll_event() {
            return Err(error.into());
        }
        if is_shared {
            process = nap.rest(process, &mut wait, Waits::Node(comm))?;
            continue;
        }
        match wait.step() {
            WaitStep::Spin => {}
            WaitStep::Yield => device.yield_now(),
            WaitStep::Sleep => {
                nap.asleep.get_or_insert_with(Instant::now);
                if device.arm() == Armed::Armed {
                    if node.advance(&mut reduce) {
                        return Ok(());
                    }
                    device.wait(None);
                }
                why::answer_if_asked(&mut process, Waits::Node(comm), nap.asleep);
            }
        }
    }
}

/// Makes progress until `done` gives something. The lock is held while `done` runs; in between only where no other
/// thread may call. `waits` says what for, to those who ask.
pub(crate) fn wait_until<R>(
    waits: Waits,
    mut done: impl FnMut(&mut Process) -> Result<Option<R>, Fault>,
) -> Result<R, Fault> {
    let mut wait = None;
    let mut nap = Nap::begin();
    let mut process = state::process()?;
    loop {
        let worked = process.progress();
        if let Some(result) = done(&mut process)? {
            return Ok(result);
        }
        let policy = process.policy();
        if worked {
            wait = None;
        }
        let wait = wait.get_or_insert_with(|| policy.start());
        process = nap.pause(process, wait, waits)?;
    }
}

/// Looks again and again until `look`, which makes progress and takes the lock itself, gives something.
pub(crate) fn wait_for_any<R>(
    waits: Waits,
    mut look: impl FnMut() -> Result<Option<R>, Fault>,
) -> Result<R, Fault> {
    let mut last = None;
    let mut wait = None;
    let mut nap = Nap::begin();
    loop {
        if let Some(result) = look()? {
            return Ok(result);
        }
        let mut process = state::process()?;
        let completions = Some(process.completions());
        if completions != last {
            wait = None;
            last = completions;
        }
        let policy = process.policy();
        let wait = wait.get_or_insert_with(|| policy.start());
        drop(nap.pause(process, wait, waits)?);
    }
}

/// The pauses of one waiting call.
struct Nap {
    asleep: Asleep,
    /// The inquiry that was answered last.
    answered: u32,
    /// Where somebody makes progress for threads that sleep.
    resting: Option<Resting>,
    /// Completions that had been told of before the last look.
    seen: u32,
    /// While it waits awake for the engine's thread.
    awaiting: Option<Awaiting>,
    /// Time of the naps from which nobody would have woken it, since something happened.
    slept_blind: Duration,
}

impl Nap {
    /// To be called before the first look.
    fn begin() -> Self {
        Self {
            asleep: None,
            answered: 0,
            resting: None,
            seen: helper::completions_seen(),
            awaiting: None,
            slept_blind: Duration::ZERO,
        }
    }

    /// Sleeps without the lock: until something completes if there is somebody to see to that, else for a moment. `by_loan`:
    /// the engine was borrowed for the look before.
    fn sleep(&mut self, waits: Waits, by_loan: bool) {
        match (&self.resting, waits) {
            (Some(resting), _) if resting.is_enough(by_loan) => resting.rest(self.seen),
            // Nobody hears of what happens in shared memory.
            (_, Waits::Node(_)) if !by_loan => self.nap_blind(),
            _ => {
                // One more look, then.
                self.resting = Resting::begin(by_loan);
                if self.resting.is_none() {
                    self.nap_blind();
                }
            }
        }
    }

    fn nap_blind(&mut self) {
        let nap = blind_nap(self.slept_blind);
        self.slept_blind += nap;
        std::thread::sleep(nap);
    }

    /// Lets time pass after a round in which nothing happened; without the lock, if others may call.
    fn pause(
        &mut self,
        mut process: Guard<'static>,
        wait: &mut Wait,
        waits: Waits,
    ) -> Result<Guard<'static>, Fault> {
        if process.is_shared() {
            return self.rest(process, wait, waits);
        }
        if process.engine().pause(wait, &mut self.asleep) {
            why::answer(&mut process, waits, self.asleep);
        }
        Ok(process)
    }

    /// Lets time pass without the lock.
    fn rest(
        &mut self,
        mut process: Guard<'static>,
        wait: &mut Wait,
        waits: Waits,
    ) -> Result<Guard<'static>, Fault> {
        let by_loan = process.has_loan();
        let mut step = wait.step();
        if by_loan {
            for _ in 1..LOOKS_PER_LOAN {
                if step == WaitStep::Spin {
                    step = wait.step();
                }
            }
        }
        if step != WaitStep::Sleep {
            self.slept_blind = Duration::ZERO;
            if self.awaiting.is_none() {
                self.awaiting = Awaiting::begin();
            }
            if !by_loan && self.awaiting.is_some() && process.stand_in() {
                *wait = process.policy().start();
                return Ok(process);
            }
        }
        drop(process);
        if step == WaitStep::Sleep {
            self.awaiting = None;
        }
        match step {
            WaitStep::Spin if !by_loan => std::hint::spin_loop(),
            // The engine's thread is to have it in between.
            WaitStep::Spin | WaitStep::Yield => std::thread::yield_now(),
            WaitStep::Sleep => self.sleep(waits, by_loan),
        }
        self.seen = helper::completions_seen();
        let mut process = state::process()?;
        if step == WaitStep::Sleep {
            self.asleep.get_or_insert_with(Instant::now);
            // Each thread adds its part, so it is not enough that one has answered.
            let inquiry = process.inquiry();
            if inquiry != self.answered {
                self.answered = inquiry;
                why::answer(&mut process, waits, self.asleep);
            }
        }
        Ok(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_naps_without_being_woken_is_late_by_a_sixteenth_and_wakes_some_hundred_times_a_second() {
        let (mut slept, mut naps_count) = (Duration::ZERO, 0);
        while slept < Duration::from_secs(10) {
            let nap = blind_nap(slept);
            assert!(nap <= BLIND_NAP_MIN.max(slept / 16), "{nap:?} after {slept:?}");
            slept += nap;
            naps_count += 1;
        }
        assert!(naps_count < 2_700, "{naps_count} naps in {slept:?}");
    }
}
