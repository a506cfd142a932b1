//! Observations of a job's ranks, and the state of each.

use ayatori_core::explain::{Plain, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far a rank is in MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// `MPI_Init` has not been called, or has not ended.
    Absent,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Present,
    /// `MPI_Finalize` has ended.
    Left,
}

/// A rank as it was seen from its host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RankReport {
    pub(crate) rank: u32,
    pub(crate) pid: i32,
    /// The kernel's letter for its state: `R`, `S`, `D`, `T` …; `X`: there is no such process.
    pub(crate) status: char,
    pub(crate) stage: Stage,
    /// The function it is in.
    pub(crate) call: Option<String>,
    pub(crate) calls_count: u32,
    /// It has made calls while it was looked at.
    pub(crate) is_moving: bool,
    /// For how long it has been in this function, or in none.
    pub(crate) unchanged_ms: Option<u64>,
    /// Its answer, in hexadecimal: [`Snapshot`].
    pub(crate) answer: Option<String>,
}

/// The ranks of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HostReport {
    pub(crate) host: String,
    pub(crate) ranks: Vec<RankReport>,
    /// The reason why no more is visible.
    pub(crate) problem: Option<String>,
}

/// What a rank is doing.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Activity {
    /// It has not come to MPI.
    Absent,
    /// In the program's own code.
    UserCode,
    /// It makes calls.
    Busy,
    /// In a call that waits.
    Blocked(Box<Snapshot>),
    /// In a call, and answers nothing.
    Silent,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It has left MPI.
    Left,
    /// The process has ended.
    Ended,
    /// Nothing is known of it.
    Unknown,
}

/// A rank, for judgement.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RankState {
    pub(crate) rank: u32,
    pub(crate) host: String,
    pub(crate) pid: i32,
    pub(crate) status: char,
    pub(crate) call: Option<String>,
    /// For how long it has been doing this.
    pub(crate) for_ms: Option<u64>,
    pub(crate) activity: Activity,
    /// Its report, also if it is not blocked.
    pub(crate) told: Option<Box<Snapshot>>,
}

/// All ranks of a job that are known of, by rank.
pub(crate) type Ranks = BTreeMap<u32, RankState>;

/// What a rank is doing, of what was seen.
fn activity(seen: &RankReport, told: Option<&Snapshot>) -> Activity {
    match (seen.status, seen.stage, told) {
        ('X' | 'Z', ..) => Activity::Ended,
        (_, Stage::Absent, _) => Activity::Absent,
        (_, Stage::Left, _) => Activity::Left,
        ('T' | 't', ..) => Activity::Stopped,
        _ if seen.is_moving => Activity::Busy,
        (.., Some(told)) if !told.blocked.is_empty() => Activity::Blocked(Box::new(told.clone())),
        (.., Some(_)) => Activity::Busy,
        _ if seen.call.is_some() => Activity::Silent,
        _ => Activity::UserCode,
    }
}

fn state(host: &str, seen: &RankReport) -> RankState {
    let told = seen.answer.as_deref().and_then(from_hex).and_then(|bytes| Snapshot::from_bytes(&bytes));
    let activity = activity(seen, told.as_ref());
    let blocked = match &activity {
        Activity::Blocked(told) => told.blocked.first(),
        _ => None,
    };
    RankState {
        rank: seen.rank,
        host: host.to_owned(),
        pid: seen.pid,
        status: seen.status,
        call: blocked.map(|blocked| blocked.call.clone()).or_else(|| seen.call.clone()),
        // For other ranks the time is known to a second.
        for_ms: blocked.map(|blocked| blocked.waited_ms).or(seen.unchanged_ms.filter(|&ms| ms >= 1_000)),
        activity,
        told: told.map(Box::new),
    }
}

/// More ranks than a job can have: what processes say of themselves is not believed beyond it.
const RANKS_MAX: u32 = 1 << 20;

/// The ranks of all hosts; ranks that no host has reported are unknown.
pub(crate) fn ranks(reports: &[HostReport], world_count: Option<u32>) -> Ranks {
    let all = reports.iter().flat_map(|report| report.ranks.iter().map(|seen| state(&report.host, seen)));
    let mut ranks: Ranks = all.map(|state| (state.rank, state)).collect();
    for rank in 0..world_count.unwrap_or(0).min(RANKS_MAX) {
        ranks.entry(rank).or_insert_with(|| RankState {
            rank,
            host: "?".into(),
            pid: 0,
            status: '?',
            call: None,
            for_ms: None,
            activity: Activity::Unknown,
            told: None,
        });
    }
    ranks
}

/// Two looks as one: a rank that has made a call between them was moving.
pub(crate) fn merge(before: &[HostReport], after: Vec<HostReport>) -> Vec<HostReport> {
    let counts: BTreeMap<u32, u32> =
        before.iter().flat_map(|report| &report.ranks).map(|seen| (seen.rank, seen.calls_count)).collect();
    let mut after = after;
    for seen in after.iter_mut().flat_map(|report| &mut report.ranks) {
        seen.is_moving |= counts.get(&seen.rank).is_some_and(|&count| count != seen.calls_count);
    }
    after
}

/// Bytes as text.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
