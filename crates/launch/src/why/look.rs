//! Looking at the ranks of this host.

use crate::why::report::{HostReport, RankReport, Stage, to_hex};
use ayatori_devices::shm::{self, Observer, Sight};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long ranks may take to answer. One that sleeps does it at once, if it gets a CPU.
const PATIENCE: Duration = Duration::from_millis(400);
/// After this time no answer is expected of a rank that is in the program's own code, or makes calls.
const USER_CODE_PATIENCE: Duration = Duration::from_millis(60);
/// A look takes so long at least, to see which ranks make calls.
const LOOK_MIN: Duration = Duration::from_millis(40);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
const ASK_AGAIN_INTERVAL: Duration = Duration::from_millis(20);

/// A rank that is known to be on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) rank: u32,
    pub(crate) pid: i32,
}

/// One rank while it is being looked at.
struct Looked {
    report: RankReport,
    /// Its place in the segment, and the inquiry it was asked by.
    asked: Option<(u32, u32)>,
}

/// What the ranks of this host do. `known`: those the launcher has started; others that are in the segment
/// come along.
pub(crate) fn look(host: &str, observer: Option<&Observer>, known: &[Known]) -> HostReport {
    let begin = Instant::now();
    let mut all: BTreeMap<u32, Looked> =
        known.iter().map(|known| (known.rank, absent(known.rank, known.pid))).collect();
    if let Some(observer) = observer {
        for (local, sight) in observer.look().into_iter().enumerate() {
            let Some(rank) = sight.process else { continue };
            let looked = all.entry(rank).or_insert_with(|| absent(rank, sight.pid));
            looked.report = report(rank, &sight);
            let can_answer = looked.report.stage == Stage::Present && !"TtZX".contains(looked.report.status);
            looked.asked = can_answer.then(|| (local as u32, observer.ask(local as u32)));
        }
        await_answers(observer, &mut all, begin);
    }
    let ranks = all.into_values().map(|looked| looked.report).collect();
    HostReport { host: host.to_owned(), ranks, problem: None }
}

fn absent(rank: u32, pid: i32) -> Looked {
    let report = RankReport {
        rank,
        pid,
        status: status(pid),
        stage: Stage::Absent,
        call: None,
        calls_count: 0,
        is_moving: false,
        unchanged_ms: None,
        answer: None,
    };
    Looked { report, asked: None }
}

fn report(rank: u32, sight: &Sight) -> RankReport {
    RankReport {
        rank,
        pid: sight.pid,
        status: status(sight.pid),
        stage: match sight.stage {
            shm::Stage::Absent => Stage::Absent,
            shm::Stage::Present => Stage::Present,
            shm::Stage::Left => Stage::Left,
        },
        call: sight.call.clone(),
        calls_count: sight.calls_count,
        is_moving: false,
        unchanged_ms: sight.unchanged_ms,
        answer: None,
    }
}

/// Waits for answers, and notes which ranks make calls meanwhile.
fn await_answers(observer: &Observer, all: &mut BTreeMap<u32, Looked>, begin: Instant) {
    let mut asked_at = begin;
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let now = Instant::now();
        let asks_again = now.duration_since(asked_at) >= ASK_AGAIN_INTERVAL;
        if asks_again {
            asked_at = now;
            note_calls(observer, all);
        }
        let is_late = now.duration_since(begin) > USER_CODE_PATIENCE;
        for Looked { report, asked } in all.values_mut() {
            let Some((local, inquiry)) = *asked else { continue };
            if let Some(bytes) = observer.answer(local, inquiry) {
                report.answer = Some(to_hex(&bytes));
                *asked = None;
            } else if is_late && (report.call.is_none() || report.is_moving) {
                *asked = None;
            } else if asks_again {
                observer.ask_again(local, inquiry);
            }
        }
        let waited = now.duration_since(begin);
        let is_done = all.values().all(|looked| looked.asked.is_none());
        if waited > PATIENCE || (is_done && waited >= LOOK_MIN) {
            return note_calls(observer, all);
        }
    }
}

fn note_calls(observer: &Observer, all: &mut BTreeMap<u32, Looked>) {
    for sight in observer.look() {
        let Some(looked) = sight.process.and_then(|rank| all.get_mut(&rank)) else { continue };
        if sight.calls_count != looked.report.calls_count {
            looked.report.is_moving = true;
        }
        looked.report.call = sight.call;
    }
}

/// The kernel's letter for the state of a process.
pub(crate) fn status(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything.
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}
