//! The core's process and the device it talks through, with what belongs to both.

use crate::abi::{MPI_ERR_INTERN, MPI_ERR_OTHER};
use crate::calls;
use crate::fault::{Fault, failed, fault};
use crate::node::Node;
use crate::operation::{Operation, Selectors};
use ayatori_core::coll;
use ayatori_core::device::{Armed, Device};
use ayatori_core::explain::Label;
use ayatori_core::ids::{CommId, ProcessId};
use ayatori_core::process::CollectiveId;
use ayatori_core::request::{Completion, Posted};
use ayatori_core::time;
use ayatori_devices::composite::{Composite, FIRST_TCP_RAIL};
use ayatori_devices::shm::{Shm, Wait, WaitStep};
use ayatori_devices::tcp::{Card, Key, Settings, Wireup};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::net::Net;
use super::sleepers;

/// The message engine: core, device and clock.
pub(crate) struct Machine {
    /// The protocol engine.
    pub(crate) core: ayatori_core::Process,
    /// Its device.
    pub(crate) device: Net,
    /// Collective operations in shared memory.
    pub(crate) node: Node,
    /// The core's time.
    pub(crate) clock: Clock,
    /// The choices of algorithms for collective operations.
    pub(crate) selectors: Selectors,
    /// The processes of this world.
    pub(in crate::runtime) world: Range<ProcessId>,
    /// Whether there are connections with processes of other worlds.
    pub(in crate::runtime) has_met_others: bool,
    /// The look after the processes that requests wait for.
    pub(in crate::runtime) awaited: AwaitedLook,
}

/// When the device was last told which processes requests wait for.
#[derive(Default)]
pub(in crate::runtime) struct AwaitedLook {
    at: Option<Instant>,
    /// The core's news at the last sleep.
    news: u64,
    /// They may be others since then.
    is_due: bool,
}

/// Least time between two such looks, each of which goes through all requests.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl AwaitedLook {
    /// How long a look that is due has to wait.
    fn rest(&self) -> Option<Duration> {
        self.is_due.then(|| self.at.map_or(Duration::ZERO, |at| LOOK_INTERVAL.saturating_sub(at.elapsed())))
    }
}

/// The core's time, read only as often as needed: reading a clock takes a tenth of the time of polling a
/// socket.
pub(crate) struct Clock {
    began: Instant,
    rounds_count: u32,
}

/// One of this many empty rounds, of at least 250 ns each, reads the clock; so does each round after one that
/// found something, if no call waits for it.
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
pub(super) fn advance(core: &mut ayatori_core::Process, device: &mut Net, clock: &mut Clock) -> bool {
    match device {
        Net::Shm(device) => core.progress(device),
        Net::Composite(device) => advance_over_rails(core, device, clock),
    }
}

/// The same over rails that need the time. By itself: the short path within a host is shorter so.
#[inline(never)]
fn advance_over_rails(core: &mut ayatori_core::Process, device: &mut Composite, clock: &mut Clock) -> bool {
    if core.wants_time()
        && let Some(now) = clock.tick()
    {
        core.handle_timeout(now);
    }
    let worked = core.progress(device);
    if worked {
        clock.hurry();
    }
    worked
}

/// A collective operation whose caller waits for it.
pub(crate) enum Awaited {
    /// It is a request, or over.
    Posted(Posted),
    /// Its caller runs it; over, if it has a completion.
    Run(Option<Completion>),
}

/// Work that calls have left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// No work before the next call.
    Nothing,
    /// Acknowledgements are due, or awaited.
    Links,
    /// Messages are under way.
    Work,
}

impl Machine {
    /// Whether a process is of this world.
    pub(crate) fn has_in_world(&self, process: ProcessId) -> bool {
        self.world.contains(&process)
    }

    /// Ends what it does for others. Whether it can go on later: not after it has met other worlds, which
    /// learn by the end of its connections that it has left.
    pub(super) fn rest(&mut self) -> bool {
        if self.has_met_others {
            self.device.detach();
        } else {
            self.device.rest();
        }
        !self.has_met_others
    }

    /// Whether all processes of this world are on this host.
    pub(crate) fn is_on_one_host(&self) -> bool {
        let (me, shm) = (self.core.me(), self.device.shm());
        let mut processes = (self.world.start.0..self.world.end.0).map(ProcessId);
        processes.all(|process| process == me || !shm.rails_to(process).is_empty())
    }
}

/// Processes of other worlds.
impl Machine {
    /// Makes this process reachable over TCP for other worlds; its card has the addresses. Communication
    /// within its own world is unchanged.
    pub(crate) fn meet_others(&mut self, first: ProcessId) -> Result<Card, Fault> {
        let occupancy = self.node.occupancy();
        if let Net::Shm(_) = self.device {
            let settings = Settings::from_environment()
                .map_err(|error| fault(MPI_ERR_OTHER, format_args!("cannot use the network: {error}")))?;
            let wireup = Wireup::listen_here(settings).map_err(failed("listen for other processes"))?;
            let key = Key::random().map_err(failed("draw a key"))?;
            let me = self.core.me();
            let tcp = wireup
                .open((first, me), key, Arc::new(Vec::new()), (FIRST_TCP_RAIL, 0))
                .map_err(failed("listen for other processes"))?;
            // An unused device takes its place for a moment.
            let placeholder = Net::Shm(Shm::alone(me).map_err(failed("make room for another device"))?);
            let Net::Shm(shm) = std::mem::replace(&mut self.device, placeholder) else {
                unreachable!("looked at above, with the machine in hand")
            };
            let device = Composite::new(shm, tcp, occupancy.ranks_count, occupancy.cpus_count)
                .map_err(failed("wait for shared memory and sockets at once"))?;
            self.device = Net::Composite(Box::new(device));
            if let (Some(parker), Ok(other)) = (sleepers::parker(), self.device.parker()) {
                parker.move_to(other);
            }
        }
        match &self.device {
            Net::Composite(device) => Ok(device.card(u64::from(std::process::id()), occupancy.cpus_count)),
            Net::Shm(_) => unreachable!("made above"),
        }
    }

    /// From now on a process of another world can be talked to.
    pub(crate) fn add_peer(&mut self, process: ProcessId, card: Card, key: Key) -> Result<(), Fault> {
        match &mut self.device {
            Net::Composite(device) => {
                self.has_met_others = true;
                device.add_peer(process, card, key).map_err(failed("reach another job"))
            }
            Net::Shm(_) => Err(fault(MPI_ERR_INTERN, format_args!("this process has no sockets for others"))),
        }
    }
}

impl Machine {
    /// One round of progress. Whether anything happened.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        advance(&mut self.core, &mut self.device, &mut self.clock)
    }

    /// Work for a helper while no call is inside.
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

    /// No call waits for one sender: look everywhere.
    pub(super) fn expect_any(&mut self) {
        self.device.expect(None);
        self.clock.hurry();
    }

    /// The caller is about to sleep: the device looks after the processes that it waits for. Once for them
    /// all: again where something has come, because an operation that goes on waits for others than before.
    /// `is_first`: the caller may have added some.
    #[cold]
    pub(super) fn expect_long(&mut self, is_first: bool) {
        let Net::Composite(device) = &mut self.device else { return };
        let news = self.core.news_count();
        self.awaited.is_due |= is_first || news != self.awaited.news;
        self.awaited.news = news;
        if self.awaited.rest().is_some_and(|rest| rest.is_zero()) {
            self.core.sources().for_each(|process| device.expect_long(process));
            self.awaited = AwaitedLook { at: Some(Instant::now()), news, is_due: false };
        }
    }

    /// A helper has slept, with the process in others' hands.
    pub(super) fn after_park(&mut self) {
        self.device.watch_if_due();
        self.clock.hurry();
    }

    /// How long to sleep at most: until the core wants to be called, or the device to be told what is
    /// awaited.
    pub(in crate::runtime) fn sleep_max(&self) -> Option<Duration> {
        let core = self.core.poll_timeout().map(|at| at.since(self.clock.now()));
        let core = core.map(|left| Duration::from_nanos(left.as_ps() / 1_000));
        core.into_iter().chain(self.awaited.rest()).min()
    }

    /// Starts a collective operation; `id` is that of a persistent one.
    pub(crate) fn begin_collective(
        &mut self,
        comm: CommId,
        operation: &Operation,
        id: Option<CollectiveId>,
    ) -> Result<Posted, ayatori_core::Error> {
        let spans_worlds = self.spans_worlds(comm)?;
        let schedule = self.schedule(comm, operation, spans_worlds);
        let Self { core, device, .. } = self;
        let mut collectives = core.collectives();
        match (operation.claim(), id) {
            // Processes of other worlds need not be in check mode.
            (Some(claim), id) if !spans_worlds => {
                collectives.start_compared(device, comm, schedule, claim.clone(), id)
            }
            (_, None) => collectives.start(device, comm, schedule?),
            (_, Some(id)) => collectives.start_reserved(device, comm, schedule?, id),
        }
    }

    /// The same for a caller that does nothing else before it is over. `is_alone`: no other thread calls.
    pub(crate) fn begin_awaited(
        &mut self,
        comm: CommId,
        operation: &Operation,
        is_alone: bool,
    ) -> Result<Awaited, ayatori_core::Error> {
        let spans_worlds = self.spans_worlds(comm)?;
        let schedule = self.schedule(comm, operation, spans_worlds);
        let Self { core, device, .. } = self;
        if let Some(claim) = operation.claim()
            && !spans_worlds
        {
            let posted =
                core.collectives().awaited().start_compared(device, comm, schedule, claim.clone(), None);
            return posted.map(Awaited::Posted);
        }
        let schedule = schedule?;
        if is_alone && schedule.is_in_rounds() && core.may_run_collective() {
            return core.run_collective(device, comm, schedule).map(Awaited::Run);
        }
        core.collectives().awaited().start(device, comm, schedule).map(Awaited::Posted)
    }

    /// Whether processes of other worlds are members. All members find the same: where one sees a process of
    /// another world, that one sees this.
    fn spans_worlds(&self, comm: CommId) -> Result<bool, ayatori_core::Error> {
        let is_of_other = |process| !self.world.contains(&process);
        Ok(self.has_met_others && self.core.comm(comm)?.members().iter().any(is_of_other))
    }

    /// The schedule of an operation for this process.
    fn schedule(
        &mut self,
        comm: CommId,
        operation: &Operation,
        spans_worlds: bool,
    ) -> Result<coll::Schedule, ayatori_core::Error> {
        let Self { core, selectors, .. } = self;
        let communicator = core.comm(comm)?;
        let selectors = selectors.of_members(spans_worlds);
        let (rank, size) = (communicator.rank(), communicator.size());
        let across = communicator.across();
        let mut schedule = match across {
            None => {
                let at = coll::Context { rank, size };
                operation.schedule(core.schedule_pool(), at, selectors.of_size(size))?
            }
            Some(across) => operation.schedule_across(core.schedule_pool(), across, selectors)?,
        };
        let (collective, bytes) = operation.question(across.map_or(size, |across| across.remote_size));
        schedule.set_label(Label { collective, bytes: bytes as u64, root: operation.root() });
        Ok(schedule)
    }

    /// Starts a barrier of messages.
    pub(crate) fn begin_barrier(&mut self, comm: CommId) -> Result<Posted, Fault> {
        let communicator = self.core.comm(comm)?;
        let alone = || coll::Context { rank: communicator.rank(), size: communicator.size() };
        let context = communicator.across().map_or_else(alone, |across| across.all());
        let choice = coll::Choice { algorithm: coll::Algorithm::Dissemination, segment_bytes: 0 };
        let schedule = coll::barrier(self.core.schedule_pool(), context, choice)?;
        Ok(self.core.collectives().start(&mut self.device, comm, schedule)?)
    }

    /// Lets time pass after a round in which nothing happened. `true`: an inquiry asks what this process
    /// waits for.
    #[inline]
    pub(super) fn pause(&mut self, wait: &mut Wait, asleep: &mut Option<Instant>) -> bool {
        match wait.step() {
            WaitStep::Spin => std::hint::spin_loop(),
            WaitStep::Yield => self.device.yield_now(),
            WaitStep::Sleep => {
                // The previous round may have left work for this one that the device does not know of. If
                // other programs compute on the CPUs, the first step after it may be to sleep.
                if self.progress() {
                    return calls::words().is_asked();
                }
                self.expect_long(asleep.is_none());
                asleep.get_or_insert_with(Instant::now);
                if self.device.arm() == Armed::Armed {
                    let most = sleepers::park_at_device(self.sleep_max());
                    self.device.wait(most);
                    self.clock.hurry();
                }
                return calls::words().is_asked();
            }
        }
        false
    }

    /// Waits until `done` gives something, while no other thread calls. `None`: an inquiry has come.
    #[inline(always)]
    pub(super) fn wait_alone<R>(
        &mut self,
        asleep: &mut Option<Instant>,
        mut done: impl FnMut(&mut ayatori_core::Process) -> Result<Option<R>, ayatori_core::Error>,
    ) -> Result<Option<R>, Fault> {
        let mut wait = self.device.policy().start();
        loop {
            let worked = self.progress();
            if let Some(result) = done(&mut self.core)? {
                return Ok(Some(result));
            }
            // One that always finds something to do does not come to where it would sleep.
            let is_asked = match worked {
                true => {
                    wait = self.device.policy().start();
                    calls::words().is_asked()
                }
                false => self.pause(&mut wait, asleep),
            };
            if is_asked {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::launch::two_machines;
    use super::*;

    #[test]
    fn a_world_is_on_one_host_if_all_its_processes_are() {
        let [mut machine, _other] = two_machines();
        assert!(machine.is_on_one_host());
        machine.world.end = ProcessId(machine.world.end.0 + 1);
        assert!(!machine.is_on_one_host());
    }
}
