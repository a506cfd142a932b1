//! Objects of the tool interface (MPI-5.0 §15.3): control variables, performance variables, categories, and
//! the handles and sessions in use. Usable before the start of MPI and after its end.
//!
//! Control variables are the settings that the environment gives; the progress mode can be written, too.
//! Performance variables are the engine's counters. All performance variables count without pause and belong
//! to no object. There are no events.

use crate::abi::*;
use crate::lock::locked;
use crate::phase::{Phase, phase};
use crate::runtime::machine::Machine;
use crate::state;
use ayatori_core::coll::Collective;
use ayatori_launch::environment::algorithm_variable;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, OnceLock};

/// Result of the tool interface: errors have classes of their own, and no error handler.
pub(crate) type Outcome<T = ()> = Result<T, c_int>;

/// Where variables belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Category {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

/// The categories; variables name theirs by index.
pub(crate) const CATEGORIES: [Category; 4] = [
    Category { name: "progress", description: "the progress mode" },
    Category { name: "network", description: "rails between hosts, shared memory, pacing" },
    Category { name: "collectives", description: "algorithms of collective operations" },
    Category { name: "messages", description: "messages, requests and packets of this process" },
];

const PROGRESS: usize = 0;
const NETWORK: usize = 1;
const COLLECTIVES: usize = 2;
const MESSAGES: usize = 3;

/// A control variable: a setting of the environment.
pub(crate) struct Control {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) category: usize,
    /// Whether it is the progress mode, an integer; all others are text that cannot be written.
    pub(crate) is_progress: bool,
}

/// Elements of a control variable that is text, the final zero included.
pub(crate) const TEXT_BYTES: usize = 256;

/// The control variables.
pub(crate) fn controls() -> &'static [Control] {
    static ALL: OnceLock<Vec<Control>> = OnceLock::new();
    const SETTINGS: [(&str, usize, &str); 12] = [
        ("AYATORI_RAILS", NETWORK, "use only these interfaces or networks"),
        ("AYATORI_NO_RAILS", NETWORK, "do not use these interfaces or networks"),
        ("AYATORI_PORTS", NETWORK, "ports to listen on"),
        ("AYATORI_TCP_SUMS", NETWORK, "0: packets go without the sums that find damage"),
        ("AYATORI_TCP_CONGESTION", NETWORK, "congestion control by the kernel's name"),
        ("AYATORI_SHM_CMA", NETWORK, "0: the kernel does not copy between two processes"),
        ("AYATORI_GAP", NETWORK, "gap between the packets of a message, in packet times"),
        ("AYATORI_GAP_PER_HOP", NETWORK, "gap for each hop between switches, in packet times"),
        ("AYATORI_GAP_FREE_HOPS", NETWORK, "hops for which there is no gap"),
        ("AYATORI_NODE_COLLECTIVES", COLLECTIVES, "0: no collective operations directly in shared memory"),
        ("AYATORI_CHECK", COLLECTIVES, "1: ranks compare the arguments of collective operations"),
        ("AYATORI_LAUNCH", PROGRESS, "singleton: the process runs alone, even in a launcher's environment"),
    ];
    ALL.get_or_init(|| {
        let progress = Control {
            name: "AYATORI_PROGRESS".into(),
            description: "the progress mode; may be written while MPI runs".into(),
            category: PROGRESS,
            is_progress: true,
        };
        let text = |name: String, category, description: String| Control {
            name,
            description,
            category,
            is_progress: false,
        };
        let settings = SETTINGS.map(|(name, category, what)| text(name.into(), category, what.into()));
        let algorithms = Collective::ALL.map(|collective| {
            let name = algorithm_variable(collective);
            text(name, COLLECTIVES, format!("algorithm of {}; empty: the library chooses", collective.name()))
        });
        [progress].into_iter().chain(settings).chain(algorithms).collect()
    })
}

/// The text of the settings that MPI has started with, by control variable; before that there are none.
static IN_FORCE: OnceLock<Vec<String>> = OnceLock::new();

/// MPI starts: what the environment says from now on is not in force.
pub(crate) fn keep_settings() {
    IN_FORCE.get_or_init(|| controls().iter().map(|control| from_environment(&control.name)).collect());
}

/// The text of a control variable: with which MPI has started, or would start now.
pub(crate) fn setting(index: usize) -> String {
    IN_FORCE.get().map_or_else(|| from_environment(&controls()[index].name), |all| all[index].clone())
}

fn from_environment(name: &str) -> String {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A performance variable.
pub(crate) struct Performance {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) class: c_int,
}

/// The performance variables; all are in the last category and are unsigned integers of 64 bits.
pub(crate) const PERFORMANCES: [Performance; 10] = [
    level("requests", "requests that are not over, or whose end was not asked for"),
    level("posted_receives", "receives that wait for a message"),
    level("unexpected_messages", "messages that have arrived and wait for a receive"),
    level("peers", "processes that were talked to"),
    level("transfers", "puts and gets under way"),
    level("queued_packets", "packets that wait for a device"),
    counter("sent_packets", "packets sent to all peers"),
    counter("received_packets", "packets received from all peers"),
    counter("completions", "requests that have ended"),
    counter("damaged_packets", "packets that came damaged over TCP and were dropped"),
];

const fn level(name: &'static str, description: &'static str) -> Performance {
    Performance { name, description, class: MPI_T_PVAR_CLASS_LEVEL }
}

const fn counter(name: &'static str, description: &'static str) -> Performance {
    Performance { name, description, class: MPI_T_PVAR_CLASS_COUNTER }
}

/// The value of a performance variable; 0 while MPI does not run.
pub(crate) fn performance(index: usize) -> u64 {
    if phase() != Phase::Running {
        return 0;
    }
    let mut process = state::process_in_any_phase();
    let Machine { core, device, .. } = process.engine();
    let (counts, [sent, received, queued]) = (core.counts(), core.packet_counts());
    match index {
        0 => counts.requests as u64,
        1 => counts.posted as u64,
        2 => counts.unexpected as u64,
        3 => counts.links as u64,
        4 => counts.operations as u64,
        5 => queued,
        6 => sent,
        7 => received,
        8 => core.completion_count(),
        _ => device.damaged_count(),
    }
}

/// The indices of the control variables in a category.
pub(crate) fn controls_of(category: usize) -> Vec<c_int> {
    let all = controls().iter().enumerate().filter(|(_, control)| control.category == category);
    all.map(|(at, _)| at as c_int).collect()
}

/// The indices of the performance variables in a category.
pub(crate) fn performances_of(category: usize) -> Vec<c_int> {
    if category == MESSAGES { (0..PERFORMANCES.len() as c_int).collect() } else { Vec::new() }
}

/// Objects that tools have open.
pub(crate) struct Tools {
    /// Calls of `MPI_T_init_thread` without their `MPI_T_finalize`.
    users_count: u32,
    /// Handles of control variables, with their indices.
    pub(crate) controls: BTreeMap<usize, usize>,
    /// Sessions.
    pub(crate) sessions: BTreeMap<usize, ()>,
    /// Handles of performance variables, with their sessions and indices.
    pub(crate) performances: BTreeMap<usize, (usize, usize)>,
    next: usize,
}

static TOOLS: Mutex<Tools> = Mutex::new(Tools {
    users_count: 0,
    controls: BTreeMap::new(),
    sessions: BTreeMap::new(),
    performances: BTreeMap::new(),
    next: FIRST_HANDLE,
});

/// Above what the ABI predefines.
const FIRST_HANDLE: usize = 0x1000;

impl Tools {
    /// A number that no handle has.
    pub(crate) fn new_handle(&mut self) -> usize {
        self.next += 1;
        self.next
    }
}

/// Another user of the interface.
pub(crate) fn init() {
    locked(&TOOLS).users_count += 1;
}

/// One user less. The last one's handles are gone.
pub(crate) fn finalize() -> Outcome {
    with(|tools| {
        tools.users_count -= 1;
        if tools.users_count == 0 {
            tools.controls.clear();
            tools.sessions.clear();
            tools.performances.clear();
        }
        Ok(())
    })
}

/// Runs `f` on what is open; the interface must be initialized.
pub(crate) fn with<R>(f: impl FnOnce(&mut Tools) -> Outcome<R>) -> Outcome<R> {
    let mut tools = locked(&TOOLS);
    if tools.users_count == 0 {
        return Err(MPI_T_ERR_NOT_INITIALIZED);
    }
    f(&mut tools)
}

/// Whether the interface is initialized.
pub(crate) fn check() -> Outcome {
    with(|_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_and_each_variable_is_in_one_category() {
        let names: BTreeSet<&str> = controls().iter().map(|control| control.name.as_str()).collect();
        assert_eq!(names.len(), controls().len());
        let names: BTreeSet<&str> = PERFORMANCES.iter().map(|variable| variable.name).collect();
        assert_eq!(names.len(), PERFORMANCES.len());
        let count = |of: fn(usize) -> Vec<c_int>| (0..CATEGORIES.len()).map(|at| of(at).len()).sum::<usize>();
        assert_eq!(count(controls_of), controls().len());
        assert_eq!(count(performances_of), PERFORMANCES.len());
    }
}
