//! The engine's thread: its rounds, its sleep, its beginning and end.

use super::back::{self, Back, Locked};
use super::command::{QUEUE_CAPACITY, Response};
use super::executor::{Executor, Whose};
use super::flags::FLAGS;
use super::remote::Remote;
use super::ring::ring;
use crate::abi::MPI_Request;
use crate::calls;
use crate::runtime::exit::guarded;
use crate::runtime::machine::Machine;
use crate::runtime::sleepers;
use ayatori_core::device::{Armed, Device};
use ayatori_core::ids::RequestId;
use ayatori_devices::shm::{Occupancy, WaitPolicy, WaitStep};
use ayatori_devices::threads::{self, Parker};
use std::num::NonZero;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// A look takes at least some 80 ns, so 500 of them take as long as a wake-up.
const SPINS_MAX: u32 = 500;

/// Wait policies of calls and of the thread. `occupancy` says how many ranks share how many CPUs, and this
/// rank may use `own_cpus`. A waiting call does the thread's work, as without a thread; the thread waits
/// awake only if it has a spare CPU.
fn policies(occupancy: Occupancy, own_cpus: usize, of_device: WaitPolicy) -> (WaitPolicy, WaitPolicy) {
    let calls = WaitPolicy { spins_count: of_device.spins_count.min(SPINS_MAX), ..of_device };
    let thread = match own_cpus {
        1 => WaitPolicy::new(2, 1),
        _ => WaitPolicy::new(2 * occupancy.ranks_count, occupancy.cpus_count),
    };
    (calls, WaitPolicy { spins_count: thread.spins_count.min(calls.spins_count), ..thread })
}

/// Gives the machine to a thread of its own, or gives it back where no thread can be started. No other call
/// is inside.
#[allow(clippy::result_large_err, reason = "once for each change of the mode")]
pub(in crate::runtime) fn enter(
    mut machine: Machine,
    parker: Arc<Parker>,
) -> Result<Remote, Option<Machine>> {
    let own_cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (of_calls, of_thread) = policies(machine.node.occupancy(), own_cpus, machine.device.policy());
    let (to_thread, commands) = ring(QUEUE_CAPACITY);
    let (responses, from_thread) = ring(QUEUE_CAPACITY);
    machine.device.expect(None);
    machine.core.put_off_user_functions(true);
    let inquiries = machine.device.shm().inquiries();
    let mut executor = Executor::new(commands, responses);
    executor.harvest(&mut machine);
    *back::lock() = Some(Box::new(Back { machine: Some(machine), executor, sleeps_until: None }));
    for flag in [&FLAGS.is_stopping, &FLAGS.is_asleep, &FLAGS.has_failed, &FLAGS.has_put_off] {
        flag.store(false, Ordering::SeqCst);
    }
    FLAGS.copies_kept.store(0, Ordering::SeqCst);
    let its_parker = parker.clone();
    let run = move || guarded("the engine's thread", "engine", || run(&its_parker, of_thread));
    match threads::start("mpi-engine", run) {
        Ok(thread) => {
            *THREAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            Ok(Remote {
                commands: to_thread,
                responses: from_thread,
                parker,
                borrowed: None,
                policy: of_calls,
                inquiries,
                responses_count: 0,
            })
        }
        Err(_) => {
            let mut machine = back::lock().take().and_then(|back| back.machine);
            if let Some(machine) = &mut machine {
                machine.core.put_off_user_functions(false);
            }
            Err(machine)
        }
    }
}

/// Operations under way when the mode ended.
pub(crate) struct UnderWay {
    /// Operations that are over.
    pub(crate) responses: Vec<Response>,
    /// Operations that go on as requests of the core.
    pub(crate) pending: Vec<(MPI_Request, RequestId)>,
    /// Short messages that are still being sent.
    pub(in crate::runtime) copies: Vec<Box<[u8]>>,
}

/// Takes the machine back: what was commanded is executed. No other call is inside.
pub(in crate::runtime) fn leave(mut remote: Remote) -> Option<(Machine, UnderWay)> {
    FLAGS.is_stopping.store(true, Ordering::SeqCst);
    FLAGS.is_asleep.store(false, Ordering::SeqCst);
    remote.parker.rouse();
    if let Some(thread) = THREAD.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // A panic in it has ended the job.
        let _ = thread.join();
    }
    let Back { machine, mut executor, .. } = *back::lock().take()?;
    let mut machine = machine.expect("no call has borrowed it");
    machine.core.put_off_user_functions(false);
    executor.execute(&mut machine);
    executor.harvest(&mut machine);
    let mut left = UnderWay { responses: Vec::new(), pending: Vec::new(), copies: Vec::new() };
    loop {
        executor.answer();
        left.responses.extend(std::iter::from_fn(|| remote.take_response()));
        if executor.has_answered() {
            break;
        }
    }
    debug_assert!(executor.nodes.is_empty(), "a call waits for each of them");
    for pending in executor.pending.drain(..) {
        match pending.of {
            Whose::Request(request) => left.pending.push((request, pending.id)),
            Whose::Copy(kept) => {
                let freed = machine.core.free(pending.id);
                debug_assert!(freed.is_ok(), "it is under way");
                left.copies.push(kept);
            }
        }
    }
    Some((machine, left))
}

fn run(parker: &Parker, policy: WaitPolicy) {
    let mut guard = back::lock();
    let mut wait = policy.start();
    loop {
        let Some(back) = guard.as_mut() else { return };
        let machine = back.machine.as_mut().expect("no call borrows while the lock is held");
        let (worked, answered) = back.executor.round(machine);
        if answered || worked {
            sleepers::tell(answered);
        }
        if FLAGS.wanted_count.load(Ordering::Relaxed) > 0 {
            drop(guard);
            while FLAGS.wanted_count.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
            guard = back::lock();
            continue;
        }
        if worked {
            wait = policy.start();
            continue;
        }
        if FLAGS.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        // A waiting call does all the work. And a thread that yields to a computing program waits for the
        // next tick, for milliseconds, while a woken thread runs at once.
        let is_useless = sleepers::is_awaited() || policy.spins_count == 0;
        let step = if is_useless { WaitStep::Sleep } else { wait.step() };
        match step {
            WaitStep::Spin => std::hint::spin_loop(),
            WaitStep::Yield => {
                // The thread that runs instead may need to borrow.
                drop(guard);
                ayatori_devices::shm::yield_now();
                guard = back::lock();
            }
            WaitStep::Sleep => guard = sleep(guard, parker),
        }
    }
}

/// Sleeps where arrivals, commands and borrowers wake it.
fn sleep(mut guard: Locked, parker: &Parker) -> Locked {
    let Some(back) = guard.as_mut() else { return guard };
    let machine = back.machine.as_mut().expect("no call borrows while the lock is held");
    // Commands may have added some.
    machine.expect_long(true);
    if machine.device.arm_aside() == Armed::NotYet {
        return guard;
    }
    FLAGS.is_asleep.store(true, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let has_news = !back.executor.is_idle()
        || FLAGS.wanted_count.load(Ordering::SeqCst) > 0
        || FLAGS.is_stopping.load(Ordering::SeqCst)
        || back.executor.advance_nodes(machine);
    if has_news {
        // The next look disarms the device.
        FLAGS.is_asleep.store(false, Ordering::SeqCst);
        return guard;
    }
    let most = machine.device.park_max();
    let most = machine.sleep_max().map_or(most, |left| left.min(most));
    back.sleeps_until = Some(Instant::now() + most);
    drop(guard);
    parker.sleep(most);
    FLAGS.is_asleep.store(false, Ordering::SeqCst);
    let mut guard = back::lock();
    if let Some(machine) = guard.as_mut().and_then(|back| back.machine.as_mut()) {
        machine.after_park();
    }
    // Wakes threads that watch the engine themselves; after an inquiry also all resting threads, one of which
    // answers it.
    sleepers::tell(calls::words().is_asked());
    guard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_spins_only_with_a_spare_cpu_and_calls_with_one_each() {
        let policies = |ranks_count, cpus_count, own_cpus| {
            let of_device = WaitPolicy::new(ranks_count, cpus_count);
            let (calls, thread) = policies(Occupancy::new(ranks_count, cpus_count), own_cpus, of_device);
            (calls.spins_count > 0, thread.spins_count > 0)
        };
        for (ranks_count, cpus_count, own_cpus) in [(2, 2, 2), (2, 3, 3), (1, 8, 1)] {
            assert_eq!(
                policies(ranks_count, cpus_count, own_cpus),
                (true, false),
                "{ranks_count} on {cpus_count}"
            );
        }
        assert_eq!(policies(4, 2, 2), (false, false));
        assert_eq!(policies(2, 4, 4), (true, true));
    }
}
