//! The engine: the core's process and the device it talks through, and how a call waits for them.
//!
//! The thread that called MPI waits itself: it polls, yields, then says that it sleeps, looks once more and
//! sleeps (MPI/DE, P2). How long each, the device's `WaitPolicy` says; with more ranks than CPUs there is no
//! spinning. With `MPI_THREAD_MULTIPLE` the lock is free while a thread waits, so that others can call.

use crate::abi::MPI_Comm;
use crate::boundary::Fault;
use crate::collective::Selectors;
use crate::node::Node;
use crate::state::{self, Guard, Process};
use ayatori_core::coll;
use ayatori_core::device::{Armed, Device};
use ayatori_core::ids::{CommId, RequestId};
use ayatori_core::process::ProcessEvent;
use ayatori_core::request::{Completion, Posted};
use ayatori_core::time;
use ayatori_devices::shm::{Wait, WaitStep};
use std::time::{Duration, Instant};

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

/// With threads, how long one sleeps before it looks again: another may have made the progress that it waits for,
/// and nobody wakes it then.
const SHARED_NAP: Duration = Duration::from_micros(50);

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

impl Engine {
    /// One round of progress. Whether anything happened.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        advance(&mut self.core, &mut self.device, &mut self.clock)
    }

    /// How long to sleep at most: until the core wants to be called.
    fn sleep_max(&self) -> Option<Duration> {
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

    /// Lets time pass after a round in which nothing happened.
    #[inline]
    fn pause(&mut self, wait: &mut Wait) {
        match wait.step() {
            WaitStep::Spin => std::hint::spin_loop(),
            WaitStep::Yield => self.device.yield_now(),
            WaitStep::Sleep => {
                if self.device.arm() == Armed::Armed {
                    let most = self.sleep_max();
                    self.device.wait(most);
                    self.clock.hurry();
                }
            }
        }
    }

    /// Waits for the receive begun by `receive_direct`, with nobody else calling.
    #[inline]
    pub(crate) fn wait_direct(&mut self) -> Result<Completion, Fault> {
        let mut wait = self.device.policy().start();
        loop {
            let worked = self.progress();
            if let Some(completion) = self.core.poll_direct()? {
                return Ok(completion);
            }
            if worked {
                wait = self.device.policy().start();
            } else {
                self.pause(&mut wait);
            }
        }
    }

    /// Waits for a request with nobody else calling.
    #[inline]
    fn wait_alone(&mut self, id: RequestId) -> Result<Completion, Fault> {
        let mut wait = self.device.policy().start();
        loop {
            let worked = self.progress();
            if let Some(completion) = self.core.take(id)? {
                return Ok(completion);
            }
            if worked {
                wait = self.device.policy().start();
            } else {
                self.pause(&mut wait);
            }
        }
    }
}

impl Process {
    /// One round of progress.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        self.engine().progress()
    }

    /// The engine; there is one from start to end.
    #[inline]
    pub(crate) fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("MPI runs")
    }
}

/// Waits for what a blocking call has started, and gives its completion; an error is raised by the caller.
#[inline]
pub(crate) fn wait(mut process: Guard<'static, Process>, posted: Posted) -> Result<Completion, Fault> {
    match posted {
        Posted::Done(completion) => Ok(completion),
        Posted::Pending(id) if !process.is_shared() => process.engine().wait_alone(id),
        Posted::Pending(id) => {
            drop(process);
            wait_until(|process| Ok(process.engine().core.take(id)?))
        }
    }
}

/// As [`wait`], with the completion's error as the fault of the call on `comm`.
#[inline]
pub(crate) fn complete(
    process: Guard<'static, Process>,
    posted: Posted,
    comm: MPI_Comm,
) -> Result<Completion, Fault> {
    let completion = wait(process, posted)?;
    crate::request::check(&completion, comm)?;
    Ok(completion)
}

/// Looks at a collective operation in shared memory so often before it looks for messages.
const NODE_LOOKS: u32 = 8;

/// Waits for the operation that the node's collectives have begun on the communicator.
pub(crate) fn wait_for_node(
    mut process: Guard<'static, Process>,
    comm: CommId,
    mut reduce: impl FnMut(&mut [u8], &[u8]),
) -> Result<(), Fault> {
    let is_shared = process.is_shared();
    let mut wait = process.engine().device.policy().start();
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
            drop(process);
            nap(&mut wait);
            process = state::process()?;
            continue;
        }
        match wait.step() {
            WaitStep::Spin => {}
            WaitStep::Yield => device.yield_now(),
            WaitStep::Sleep => {
                if device.arm() == Armed::Armed && !node.advance(&mut reduce) {
                    device.wait(None);
                }
            }
        }
    }
}

/// Makes progress until `done` gives something. The lock is held while `done` runs and not in between.
pub(crate) fn wait_until<R>(
    mut done: impl FnMut(&mut Process) -> Result<Option<R>, Fault>,
) -> Result<R, Fault> {
    let mut wait = None;
    loop {
        let mut process = state::process()?;
        let worked = process.progress();
        if let Some(result) = done(&mut process)? {
            return Ok(result);
        }
        let policy = process.engine().device.policy();
        if worked {
            wait = None;
        }
        let wait = wait.get_or_insert_with(|| policy.start());
        if !process.is_shared() {
            process.engine().pause(wait);
            continue;
        }
        drop(process);
        nap(wait);
    }
}

/// Looks again and again until `look`, which makes progress and takes the lock itself, gives something.
pub(crate) fn wait_for_any<R>(mut look: impl FnMut() -> Result<Option<R>, Fault>) -> Result<R, Fault> {
    let mut last = None;
    let mut wait = None;
    loop {
        if let Some(result) = look()? {
            return Ok(result);
        }
        let mut process = state::process()?;
        let is_shared = process.is_shared();
        let engine = process.engine();
        let completions = Some(engine.core.completion_count());
        if completions != last {
            wait = None;
            last = completions;
        }
        let policy = engine.device.policy();
        let wait = wait.get_or_insert_with(|| policy.start());
        if is_shared {
            drop(process);
            nap(wait);
        } else {
            engine.pause(wait);
        }
    }
}

/// Lets time pass without the lock.
fn nap(wait: &mut Wait) {
    match wait.step() {
        WaitStep::Spin => std::hint::spin_loop(),
        WaitStep::Yield => std::thread::yield_now(),
        WaitStep::Sleep => std::thread::sleep(SHARED_NAP),
    }
}
