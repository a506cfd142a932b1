//! The engine's thread: its rounds, its sleep, its beginning and end.

use super::desk::{Desk, Whose};
use super::front::Front;
use super::ring::ring;
use super::{Back, HALL, QUEUE_CAPACITY};
use crate::abi::MPI_ERR_INTERN;
use crate::runtime::helper;
use crate::state::Process;
use crate::why;
use ayatori_core::device::{Armed, Device};
use ayatori_devices::shm::{Crowd, WaitPolicy, WaitStep};
use ayatori_devices::threads::{self, Nap};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

type Guard = MutexGuard<'static, Option<Box<Back>>>;

/// A look takes at least some 80 ns, so 500 of them as long as to wake somebody.
const SPINS_MAX: u32 = 500;

/// How calls and the thread wait, where `crowd` says how many ranks share how many CPUs, and this rank may use `own_cpus`. A
/// call that waits does the thread's work, as without it; the thread waits awake only where it has a CPU besides.
fn policies(crowd: Crowd, own_cpus: usize, of_device: WaitPolicy) -> (WaitPolicy, WaitPolicy) {
    let calls = WaitPolicy { spins_count: of_device.spins_count.min(SPINS_MAX), ..of_device };
    let thread = match own_cpus {
        1 => WaitPolicy::new(2, 1),
        _ => WaitPolicy::new(2 * crowd.ranks_count, crowd.cpus_count),
    };
    (calls, WaitPolicy { spins_count: thread.spins_count.min(calls.spins_count), ..thread })
}

/// Gives the engine to a thread of its own. `false`: there is no room for a thread. No other call is inside.
pub(in crate::runtime) fn enter(process: &mut Process, nap: Arc<Nap>) -> bool {
    let mut engine = process.engine.take().expect("MPI runs");
    let own_cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (of_calls, of_thread) = policies(engine.node.crowd(), own_cpus, engine.device.policy());
    let (to_thread, commands) = ring(QUEUE_CAPACITY);
    let (responses, from_thread) = ring(QUEUE_CAPACITY);
    engine.device.expect(None);
    engine.core.put_off_user_functions(true);
    let inquiries = engine.device.shm().inquiries();
    let mut desk = Desk::new(commands, responses);
    desk.harvest(&mut engine);
    *HALL.lock() = Some(Box::new(Back { engine: Some(engine), desk, sleeps_until: None }));
    for flag in [&HALL.is_stopping, &HALL.is_asleep, &HALL.has_failed] {
        flag.store(false, Ordering::SeqCst);
    }
    HALL.copies_kept.store(0, Ordering::SeqCst);
    let its_nap = nap.clone();
    match threads::start("mpi-engine", move || run_guarded(&its_nap, of_thread)) {
        Ok(thread) => {
            *THREAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            process.front = Some(Box::new(Front {
                commands: to_thread,
                responses: from_thread,
                nap,
                loan: None,
                policy: of_calls,
                inquiries,
                settled_count: 0,
            }));
            true
        }
        Err(_) => {
            let mut engine = HALL.lock().take().and_then(|back| back.engine);
            if let Some(engine) = &mut engine {
                engine.core.put_off_user_functions(false);
            }
            process.engine = engine;
            false
        }
    }
}

/// Takes the engine back: what was commanded is executed, what is under way goes on as requests of the core. No other
/// call is inside.
pub(in crate::runtime) fn leave(process: &mut Process) {
    let Some(front) = &process.front else { return };
    HALL.is_stopping.store(true, Ordering::SeqCst);
    HALL.is_asleep.store(false, Ordering::SeqCst);
    front.nap.rouse();
    if let Some(thread) = THREAD.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // A panic in it has ended the job.
        let _ = thread.join();
    }
    let Some(back) = HALL.lock().take() else { return };
    let Back { engine, mut desk, .. } = *back;
    let mut engine = engine.expect("nobody has borrowed it");
    engine.core.put_off_user_functions(false);
    desk.execute(&mut engine);
    desk.harvest(&mut engine);
    process.engine = Some(engine);
    loop {
        desk.answer();
        process.settle();
        if desk.has_answered() {
            break;
        }
    }
    debug_assert!(desk.nodes.is_empty(), "a call waits for each of them");
    for pending in desk.pending.drain(..) {
        match pending.of {
            Whose::Request(request) => {
                let reclaimed = process.reclaim(request, pending.id);
                debug_assert!(reclaimed.is_ok(), "it is under way");
            }
            Whose::Copy(kept) => {
                let freed = process.engine().core.free(pending.id);
                debug_assert!(freed.is_ok(), "it is under way");
                process.left_copies.push(kept);
            }
        }
    }
    process.settle();
    process.front = None;
}

fn run_guarded(nap: &Nap, policy: WaitPolicy) {
    if catch_unwind(AssertUnwindSafe(|| run(nap, policy))).is_err() {
        // Whoever waits for an answer would wait forever.
        crate::runtime::abort(MPI_ERR_INTERN, "the engine's thread failed: this is a bug of the library");
    }
}

fn run(nap: &Nap, policy: WaitPolicy) {
    let mut guard = HALL.lock();
    let mut wait = policy.start();
    loop {
        let Some(back) = guard.as_mut() else { return };
        let engine = back.engine.as_mut().expect("nobody borrows while the lock is held");
        let (worked, answered) = back.desk.round(engine);
        if answered || worked {
            helper::tell(answered);
        }
        if HALL.wanted.load(Ordering::Relaxed) > 0 {
            drop(guard);
            while HALL.wanted.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
            guard = HALL.lock();
            continue;
        }
        if worked {
            wait = policy.start();
            continue;
        }
        if HALL.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        // A call that waits does it all. And who has yielded to a program that computes waits for the next tick, for
        // milliseconds; who is woken runs at once.
        let is_useless = helper::is_awaited() || policy.spins_count == 0;
        let step = if is_useless { WaitStep::Sleep } else { wait.step() };
        match step {
            WaitStep::Spin => std::hint::spin_loop(),
            WaitStep::Yield => {
                // Whoever runs instead may want to borrow.
                drop(guard);
                std::thread::yield_now();
                guard = HALL.lock();
            }
            WaitStep::Sleep => guard = sleep(guard, nap),
        }
    }
}

/// Sleeps where arrivals, commands and those who borrow wake it.
fn sleep(mut guard: Guard, nap: &Nap) -> Guard {
    let Some(back) = guard.as_mut() else { return guard };
    let engine = back.engine.as_mut().expect("nobody borrows while the lock is held");
    if engine.device.arm_aside() == Armed::NotYet {
        return guard;
    }
    HALL.is_asleep.store(true, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let has_news = !back.desk.is_idle()
        || HALL.wanted.load(Ordering::SeqCst) > 0
        || HALL.is_stopping.load(Ordering::SeqCst)
        || back.desk.advance_nodes(engine);
    if has_news {
        // The next look disarms the device.
        HALL.is_asleep.store(false, Ordering::SeqCst);
        return guard;
    }
    let most = engine.device.nap_max();
    let most = engine.sleep_max().map_or(most, |left| left.min(most));
    back.sleeps_until = Some(Instant::now() + most);
    drop(guard);
    nap.sleep(most);
    HALL.is_asleep.store(false, Ordering::SeqCst);
    let mut guard = HALL.lock();
    if let Some(engine) = guard.as_mut().and_then(|back| back.engine.as_mut()) {
        engine.after_nap();
    }
    // Those who look for themselves are to look; and who sleeps in a call answers those who ask.
    helper::tell(why::words().is_asked());
    guard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_spins_only_where_it_has_a_cpu_besides_and_calls_where_ranks_have_one_each() {
        let policies = |ranks_count, cpus_count, own_cpus| {
            let of_device = WaitPolicy::new(ranks_count, cpus_count);
            let (calls, thread) = policies(Crowd { ranks_count, cpus_count }, own_cpus, of_device);
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
