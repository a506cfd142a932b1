//! Progress while the program computes: the mode in force, and the helper thread of mode *assisted*. (Mode
//! *offload* is in `offload/`.)
//!
//! A rendezvous needs both sides: it makes no progress while the program that must answer, or send the next
//! piece, computes. Mode *inline* accepts that; in mode *assisted*, the default, a thread of ours makes the
//! progress. It must cost nothing as long as it is not needed, so it goes through three states:
//!
//! ```text
//!            a call leaves work behind                   nobody called for a tick, there is work
//!   idle ───────────────────────────────► ticking ─────────────────────────────────────────────► watching
//!     ▲ ▲   (the first one starts it)      │   ▲                                                   │   │
//!     │ └──────────────────────────────────┘   └────────────────────── a call comes ───────────────┘   │
//!     │      calls keep coming, or one lasts                                                           │
//!     └───────────────────────────────── nothing left to do ───────────────────────────────────────────┘
//! ```
//!
//! With processes on other hosts, packets are unacknowledged after each message, which is no work as long as
//! calls come: an idle helper then sets a timer (`LINKS_TICK`), and goes on if no call has come when it
//! expires. Ticking instead would cost a ping-pong 3 to 4 %; the timer costs about 1 %.
//!
//! A tick takes 25 µs of a virtual machine's CPU, and the ranks that wait for each other pay for each
//! other's: at one each millisecond windows of 64 KiB both ways lost a seventh. So ticks become rarer the
//! longer calls have kept coming, and a helper that takes over late does so after a small part of that time
//! ([`interval`]).
//!
//! While *watching* it makes progress until there is none to make, arms the device, releases the process and
//! sleeps where an arrival wakes it. The first call that comes sends it back to ticking. A program that only
//! ever waits inside of its calls never starts it.
//!
//! It never runs a function of the user's (such as a reduction): the core defers such steps until a call
//! comes.
//!
//! With `MPI_THREAD_MULTIPLE` it also watches for threads that wait: these sleep until something completes
//! ([`Resting`]), and the helper, which arrivals wake, wakes them.
//!
//! The lock between calls and the helper is `gate.rs`.

use crate::calls;
use crate::gate::{HelperGuard, Idleness, Occupant};
use crate::lock::locked;
use crate::phase;
use crate::state::{self, Process};
use ayatori_core::device::Armed;
use ayatori_devices::threads::{self, Parker, Signal};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::exit::guarded;
use super::machine::Left;
use super::mode::{self, Mode, mode};
use super::sleepers::{COMPLETED, RESTING, WATCHING, parker, set_parker, tell_resting};

/// Time without a call after which the helper takes over, and its interval of checking that: at first, at
/// most, and in between this part of the time for which calls have kept coming.
const TICK: Duration = Duration::from_micros(500);
const TICK_MAX: Duration = Duration::from_millis(4);
const BUSY_PARTS: u32 = 8;
/// After this many ticks in a row with calls it is idle: the next call that leaves work wakes it.
const BUSY_TICKS: u32 = 50;
/// After this many in the same call, too.
const LASTING_TICKS: u32 = 4;
/// Interval of checking for calls while calls leave nothing but links behind. A shorter one finds no link
/// with work (an acknowledgement waits for 2 ms), and each check costs a program that uses the core some 20
/// µs.
const LINKS_TICK: Duration = Duration::from_millis(4);
/// While data moves it polls for this time before it sleeps: a wake-up for every acknowledgement would delay
/// the other side.
const LOOKS_TIME: Duration = Duration::from_micros(50);

/// The kernel supports the lock, and there is a peer.
static CAN_ASSIST: AtomicBool = AtomicBool::new(false);
/// Wakes the helper.
static SIGNAL: Signal = Signal::new();
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
/// The core's news when that was last said.
static NEWS_COUNT: AtomicU64 = AtomicU64::new(0);

/// MPI starts. To be called before there are more threads: later it takes the kernel milliseconds.
pub(super) fn register() {
    CAN_ASSIST.store(threads::register_fences(), Ordering::Relaxed);
}

/// The process has joined its job, in which it may be alone.
pub(super) fn prepare(process: &mut Process, is_alone: bool) {
    let parker = if is_alone { None } else { process.engine().device.parker().ok() };
    if parker.is_none() {
        CAN_ASSIST.store(false, Ordering::Relaxed);
    }
    set_parker(parker);
}

/// Goes over to a mode; gives the one in force then: without the kernel's help, or alone, that is *inline*.
/// No call is inside.
pub(crate) fn set_mode(wanted: Mode) -> Mode {
    let parker = parker();
    let mut mode = match wanted {
        Mode::Assisted if !CAN_ASSIST.load(Ordering::Relaxed) => Mode::Inline,
        Mode::Offload if parker.is_none() => Mode::Inline,
        wanted => wanted,
    };
    if mode != Mode::Offload {
        end_offload();
    }
    match (mode, parker) {
        (Mode::Offload, Some(parker)) if mode::mode() != Mode::Offload => {
            stop();
            let has_begun = state::process_in_any_phase().engine.enter_offload(parker);
            // From now on calls wait as they do among threads: without the process.
            state::gate().set_concurrent(has_begun || phase::is_threaded());
            if !has_begun {
                mode = Mode::Inline;
            }
        }
        (Mode::Inline, _) => stop(),
        // It begins to exist when the first call leaves work behind.
        (Mode::Assisted, _) if locked(&THREAD).is_none() => {
            state::gate().begin_idle();
        }
        _ => {}
    }
    mode::set(mode);
    mode
}

/// Goes over to *inline*, if the mode is *offload*. No call is inside.
pub(super) fn end_offload() {
    if mode() == Mode::Offload {
        state::process_in_any_phase().leave_offload();
        state::gate().set_concurrent(phase::is_threaded());
        mode::set(Mode::Inline);
    }
}

/// Ends the helper. No call is inside.
pub(super) fn stop() {
    mode::set(Mode::Inline);
    state::gate().forget_helper();
    let Some(thread) = locked(&THREAD).take() else { return };
    IS_STOPPING.store(true, Ordering::SeqCst);
    SIGNAL.raise();
    super::sleepers::call_back();
    // It is gone.
    let _ = thread.join();
    IS_STOPPING.store(false, Ordering::SeqCst);
    state::gate().forget_helper();
}

/// A call leaves work behind: the helper, which is idle or does not exist yet, is to look after it.
#[cold]
pub(crate) fn wake() {
    SIGNAL.raise();
    let mut thread = locked(&THREAD);
    if thread.is_none() && mode() == Mode::Assisted {
        match threads::start("mpi-progress", || guarded("the progress thread", "helper", run)) {
            Ok(started) => *thread = Some(started),
            Err(_) => mode::set(Mode::Inline),
        }
    }
}

/// The thread.
fn run() {
    let Some(parker) = parker() else { return };
    let gate = state::gate();
    // The call that started the thread may have left nothing but links behind.
    idle_on(SIGNAL.seen());
    let (mut calls, mut busy_ticks, mut lasting_ticks) = (gate.calls(), 0, 0);
    // How long calls have kept coming.
    let mut busy = Duration::ZERO;
    while !IS_STOPPING.load(Ordering::SeqCst) {
        let seen = SIGNAL.seen();
        let tick = interval(busy);
        SIGNAL.wait(seen, Some(tick));
        let before = std::mem::replace(&mut calls, gate.calls());
        let has_rester = RESTING.load(Ordering::Relaxed) > 0 && SIGNAL.seen() != seen;
        if calls.is_multiple_of(2) && (calls == before || has_rester) {
            watch(&parker);
            (busy, busy_ticks, calls) = (Duration::ZERO, 0, gate.calls());
            continue;
        }
        // Calls keep coming, or one waits by itself.
        lasting_ticks = if calls == before { lasting_ticks + 1 } else { 0 };
        (busy, busy_ticks) = (busy + tick, busy_ticks + 1);
        if busy_ticks == BUSY_TICKS || lasting_ticks == LASTING_TICKS {
            let began = Instant::now();
            idle();
            if began.elapsed() > TICK_MAX {
                busy = Duration::ZERO;
            }
            (busy_ticks, lasting_ticks, calls) = (0, 0, gate.calls());
        }
    }
}

/// The time between two ticks when calls have kept coming for so long.
fn interval(busy: Duration) -> Duration {
    (busy / BUSY_PARTS).clamp(TICK, TICK_MAX)
}

/// Becomes idle, unless a call has just left work behind, and stays so.
fn idle() {
    let gate = state::gate();
    let seen = SIGNAL.seen();
    if !gate.begin_idle() {
        match gate.try_take().map(|mut process| left(&mut process)) {
            Some(Left::Nothing) => {}
            Some(Left::Links) => gate.lighten_idle(),
            Some(Left::Work) | None => gate.stop_idle(),
        }
    }
    idle_on(seen);
}

/// Sleeps as long as the gate says that it is idle, and calls come or nothing is left.
fn idle_on(mut seen: u32) {
    let gate = state::gate();
    let mut calls = gate.calls();
    loop {
        let clock = match gate.idle_depth() {
            Idleness::Awake => break,
            Idleness::Light => Some(LINKS_TICK),
            Idleness::Deep => None,
        };
        if IS_STOPPING.load(Ordering::SeqCst) {
            break;
        }
        SIGNAL.wait(seen, clock);
        seen = SIGNAL.seen();
        let before = std::mem::replace(&mut calls, gate.calls());
        if calls == before && gate.idle_depth() == Idleness::Light {
            break;
        }
    }
    gate.stop_idle();
}

/// Makes progress, and sleeps where arrivals wake it, until a call comes or nothing is left to do.
fn watch(parker: &Parker) {
    let gate = state::gate();
    let Some(mut process) = gate.try_take() else { return };
    process.engine().expect_any();
    let mut worked_at = Instant::now();
    loop {
        if advance(&mut process) {
            worked_at = Instant::now();
            tell_resting();
            if gate.is_wanted() {
                return;
            }
            continue;
        }
        if gate.is_wanted() || IS_STOPPING.load(Ordering::SeqCst) {
            return;
        }
        if left(&mut process) == Left::Nothing {
            let seen = SIGNAL.seen();
            process.idle();
            return idle_on(seen);
        }
        let engine = process.engine();
        if engine.core.is_moving_data() && worked_at.elapsed() < LOOKS_TIME {
            std::hint::spin_loop();
            continue;
        }
        engine.expect_long(false);
        if engine.device.arm_aside() == Armed::NotYet {
            continue;
        }
        if calls::words().is_asked() {
            // A resting thread answers. A later inquiry ends the sleep.
            tell_resting();
        }
        let most = engine.device.park_max();
        let most = engine.sleep_max().map_or(most, |left| left.min(most));
        process.go_away();
        parker.sleep(most);
        process = match gate.take_back() {
            Some(process) => process,
            None => return,
        };
        process.engine().after_park();
    }
}

/// One round, in which no function of the user's runs.
fn advance(process: &mut HelperGuard<'_, Process>) -> bool {
    let engine = process.engine();
    engine.core.put_off_user_functions(true);
    let worked = engine.progress();
    engine.core.put_off_user_functions(false);
    worked
}

/// The work that calls have left.
fn left(process: &mut HelperGuard<'_, Process>) -> Left {
    if RESTING.load(Ordering::Relaxed) > 0 { Left::Work } else { process.engine().left() }
}

/// A thread that waits while others may call: it sleeps until something completes.
pub(crate) struct Resting {
    is_watching: bool,
}

impl Resting {
    /// Begins; the caller looks once more before the first [`rest`](Self::rest). `None`: no thread would
    /// report arrivals. `is_watching`: it borrows the engine to look.
    pub(crate) fn begin(is_watching: bool) -> Option<Self> {
        let mode = mode();
        if mode == Mode::Inline {
            return None;
        }
        RESTING.fetch_add(1, Ordering::SeqCst);
        WATCHING.fetch_add(u32::from(is_watching), Ordering::SeqCst);
        if mode == Mode::Assisted {
            state::gate().stop_idle();
            wake();
        }
        Some(Self { is_watching })
    }

    /// Whether it is woken for the events it needs.
    pub(crate) fn is_enough(&self, is_watching: bool) -> bool {
        self.is_watching || !is_watching
    }

    /// Sleeps until something completes that had not when it was `seen`.
    pub(crate) fn rest(&self, seen: u32) {
        COMPLETED.wait(seen, Some(threads::sleep_max()));
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        RESTING.fetch_sub(1, Ordering::SeqCst);
        WATCHING.fetch_sub(u32::from(self.is_watching), Ordering::SeqCst);
    }
}

impl Occupant for Process {
    #[inline(always)]
    fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    #[inline(always)]
    fn has_links(&self) -> bool {
        self.engine.has_links()
    }

    /// Not inlined: unshared calls do not come here, and keep a short end.
    #[inline(never)]
    fn end_shared_call(&mut self) {
        // Wakes resting threads if anything has completed or arrived.
        if RESTING.load(Ordering::Relaxed) > 0
            && let Some(count) = self.engine.news_count()
            && NEWS_COUNT.swap(count, Ordering::Relaxed) != count
        {
            COMPLETED.raise();
        }
        self.engine.give_back();
    }

    fn wake_helper() {
        wake();
    }

    fn call_helper_back() {
        super::sleepers::call_back();
    }
}
