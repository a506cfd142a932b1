//! The table, the unmatched messages, the rails and the verdict; or the same as JSON.

use crate::why::graph::{Graph, Verdict};
use crate::why::report::{Activity, HostReport, RankState, Ranks};
use crate::why::words;
use ayatori_core::explain::{Need, Snapshot};
use ayatori_core::link::Health;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The heading about the job itself.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Heading {
    /// Its id, or what it is called by.
    pub(crate) job: String,
    pub(crate) program: String,
    /// For how long it has run.
    pub(crate) age_ms: Option<u64>,
    pub(crate) ranks_count: Option<u32>,
    /// The reasons why not all is visible.
    pub(crate) limits: Vec<String>,
}

/// Jobs of at most so many ranks are shown a line each; above, ranks that do the same share one.
const RANKS_EACH_MAX: usize = 16;
/// Lines of unmatched messages and of rails.
const LINES_MAX: usize = 20;

/// A row of the table.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Row {
    ranks: BTreeSet<u32>,
    host: String,
    pid: Option<i32>,
    state: String,
    call: String,
    for_ms: Option<u64>,
    waits_for: String,
}

fn row(graph: &Graph<'_>, state: &RankState) -> Row {
    let (what, call, waits_for) = match &state.activity {
        Activity::Absent => ("not in MPI yet", None, String::new()),
        Activity::UserCode => ("in user code", None, user_code(state.status).to_owned()),
        Activity::Busy => ("runs", state.call.clone(), String::new()),
        Activity::Blocked(_) => ("waits", state.call.clone(), words::needs(graph, state)),
        Activity::Silent => ("does not answer", state.call.clone(), user_code(state.status).to_owned()),
        Activity::Stopped => {
            ("stopped", state.call.clone(), "does not answer: stopped by a signal or a debugger".into())
        }
        Activity::Left => ("has left MPI", None, String::new()),
        Activity::Ended => ("has ended", None, String::new()),
        Activity::Unknown => ("unknown", None, String::new()),
    };
    Row {
        ranks: BTreeSet::from([state.rank]),
        host: state.host.clone(),
        pid: Some(state.pid).filter(|&pid| pid > 0),
        state: what.to_owned(),
        call: call.unwrap_or_default(),
        for_ms: state.for_ms,
        waits_for,
    }
}

/// What a process that is not in MPI does, by the kernel's letter.
fn user_code(status: char) -> &'static str {
    match status {
        'R' => "computes",
        'S' => "sleeps or waits outside of MPI",
        'D' => "waits in the kernel (a disk, a file server)",
        _ => "",
    }
}

/// Rows, those that differ in the rank only as one where there are many.
fn rows(graph: &Graph<'_>, each: bool) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for state in graph.ranks.values() {
        let new = row(graph, state);
        let is_like = |row: &&mut Row| {
            (&row.host, &row.state, &row.call, &row.waits_for)
                == (&new.host, &new.state, &new.call, &new.waits_for)
        };
        match rows.iter_mut().find(is_like).filter(|_| !each && graph.ranks.len() > RANKS_EACH_MAX) {
            Some(row) => {
                row.ranks.extend(&new.ranks);
                row.pid = None;
                row.for_ms = row.for_ms.min(new.for_ms);
            }
            None => rows.push(new),
        }
    }
    rows
}

/// Columns as wide as they need to be; the last is as long as it likes.
fn table(rows: &[Row]) -> String {
    let mut lines: Vec<[String; 7]> =
        vec![["rank", "host", "pid", "state", "call", "for", "waits for"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        [
            words::list(&row.ranks),
            row.host.clone(),
            row.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            row.state.clone(),
            row.call.clone(),
            row.for_ms.map(words::duration).unwrap_or_default(),
            row.waits_for.clone(),
        ]
    }));
    let widths: Vec<usize> =
        (0..6).map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let cells =
            line.iter().zip(widths.iter().copied().chain([0])).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// Messages without a receive, and receives without a message, of ranks that reported.
fn unmatched(graph: &Graph<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for state in graph.ranks.values() {
        let Some(told) = &state.told else { continue };
        let (rank, told) = (state.rank, &told.state);
        for message in &told.unexpected.first {
            let comm = words::comm(graph, rank, message.context);
            let waits = if message.sender.is_some() { "; the sender waits" } else { "" };
            lines.push(format!(
                "rank {rank} has not received {} of rank {} (tag {}, {comm}){waits}",
                words::bytes(message.bytes),
                message.source.0,
                message.tag
            ));
        }
        // What a call waits for stands in the table.
        let is_in_table = |wanted: &&ayatori_core::explain::PostedReceive| {
            let Activity::Blocked(told) = &state.activity else { return false };
            let need = Need::Message(**wanted);
            told.blocked.iter().any(|blocked| blocked.needs.contains(&need))
        };
        for wanted in told.posted.first.iter().filter(|wanted| !is_in_table(wanted)) {
            let need = Need::Message(*wanted);
            lines.push(format!("rank {rank} has posted a receive from {}", words::need(graph, rank, &need)));
        }
        let left = (told.unexpected.count - told.unexpected.first.len() as u64)
            + (told.posted.count - told.posted.first.len() as u64);
        if left > 0 {
            lines.push(format!("rank {rank}: {left} more"));
        }
    }
    lines
}

/// Rails that are not up, and links that have failed; and how many are well.
fn rails(ranks: &Ranks) -> (Vec<String>, usize) {
    let (mut lines, mut well_count) = (Vec::new(), 0);
    for state in ranks.values() {
        let Some(told) = &state.told else { continue };
        let rank = state.rank;
        for link in &told.state.links {
            let peer = link.peer.0;
            if link.has_failed {
                lines.push(format!("rank {rank} has lost rank {peer}: no way to it is left"));
            }
            for &(rail, health) in &link.rails {
                let name = rail_name(told, rail);
                match health {
                    Health::Up => well_count += 1,
                    Health::Silent => lines.push(format!(
                        "rank {rank}, {name} to rank {peer}: answers nothing, is being probed"
                    )),
                    Health::Down => lines.push(format!("rank {rank}, {name} to rank {peer}: is down")),
                }
            }
        }
    }
    (lines, well_count)
}

fn rail_name(told: &Snapshot, rail: u8) -> String {
    told.rail_names.get(usize::from(rail)).cloned().unwrap_or(format!("rail {rail}"))
}

/// Rails that carry much less than they say, the slowest first.
fn slow_rails(ranks: &Ranks) -> Vec<String> {
    let mut lines = Vec::new();
    for state in ranks.values() {
        let Some(told) = &state.told else { continue };
        for slow in &told.state.slow_rails.first {
            let (name, best) = (rail_name(told, slow.rail), rail_name(told, slow.best));
            let line = format!(
                "rank {}, {name} to rank {}: carries {} with a round trip of {:.1} us, {best} {}",
                state.rank,
                slow.peer.0,
                words::rate(slow.bytes_per_s),
                slow.round_trip_ns as f64 / 1e3,
                words::rate(slow.best_bytes_per_s),
            );
            lines.push((slow.bytes_per_s, line));
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The verdict in words: the first line says it, the others why.
fn verdict(graph: &Graph<'_>, verdict: &Verdict) -> Vec<String> {
    let mut lines = Vec::new();
    let Verdict { stuck, cycles, missing, waiting, awaited, is_threaded } = verdict;
    if !cycles.is_empty() {
        lines.push(format!("DEADLOCK: {} can never go on.", words::ranks(stuck)));
        cycles.iter().for_each(|cycle| lines.extend(around(graph, cycle)));
        let behind: BTreeSet<u32> =
            stuck.iter().filter(|rank| !cycles.iter().flatten().any(|one| one == *rank)).copied().collect();
        if !behind.is_empty() {
            lines.push(format!("  behind them: {}", words::ranks(&behind)));
        }
    } else if !stuck.is_empty() {
        lines.push(format!("HANGS: {} can never go on.", words::ranks(stuck)));
        for &rank in stuck.iter().filter(|&&rank| !graph.targets(rank).is_disjoint(missing)).take(8) {
            lines.extend(
                graph.edges(rank).first().map(|edge| format!("  {}", words::edge(graph, rank, edge))),
            );
        }
    }
    if !missing.is_empty() {
        let verb = if missing.len() == 1 { "has" } else { "have" };
        lines.push(format!("  {} {verb} left MPI or ended", words::ranks(missing)));
    }
    if *is_threaded && !stuck.is_empty() {
        lines.push(
            "  (MPI_THREAD_MULTIPLE: unless a thread that is not in MPI now does what they wait for)".into(),
        );
    }
    let no = if stuck.is_empty() { "No deadlock: " } else { "" };
    if waiting.is_empty() && stuck.is_empty() {
        lines.push(format!("{no}no rank waits in MPI."));
    } else if !waiting.is_empty() && awaited.is_empty() {
        let who = words::ranks(waiting);
        lines.push(format!("{no}{who} {}, and the wait can end.", wait(waiting)));
    } else if !waiting.is_empty() {
        let (who, whom) = (words::ranks(waiting), words::ranks(awaited));
        lines.push(format!("{no}{who} {} for {whom}, which can go on:", wait(waiting)));
        lines.extend(what_they_do(graph.ranks, awaited));
    }
    lines
}

/// The waits around a cycle, at most a page of them.
fn around(graph: &Graph<'_>, cycle: &[u32]) -> Vec<String> {
    const MAX: usize = 16;
    let step = |(at, &rank): (usize, &u32)| {
        let next = cycle[(at + 1) % cycle.len()];
        let edges = graph.edges(rank);
        let edge = edges.iter().find(|edge| edge.to.contains(&next))?;
        Some(format!("  {}", words::edge(graph, rank, edge)))
    };
    let mut lines: Vec<String> = cycle.iter().enumerate().take(MAX).filter_map(step).collect();
    if cycle.len() > MAX {
        lines.push(format!("  … and so on around {} ranks, back to rank {}", cycle.len(), cycle[0]));
    }
    lines
}

fn wait(ranks: &BTreeSet<u32>) -> &'static str {
    if ranks.len() == 1 { "waits" } else { "wait" }
}

/// What the ranks that others wait for do.
fn what_they_do(ranks: &Ranks, awaited: &BTreeSet<u32>) -> Vec<String> {
    const MAX: usize = 8;
    let states = awaited.iter().filter_map(|rank| ranks.get(rank));
    let mut lines: Vec<String> = states
        .take(MAX)
        .map(|state| {
            let since = state.for_ms.map(|ms| format!(" for {}", words::duration(ms))).unwrap_or_default();
            let in_call = state.call.as_ref().map(|call| format!(" in {call}")).unwrap_or_default();
            let doing = match state.activity {
                Activity::Absent => "has not come through MPI_Init yet".into(),
                Activity::UserCode => match user_code(state.status) {
                    "" => format!("is in user code{since}"),
                    what => format!("is in user code{since}: {what}"),
                },
                Activity::Busy => format!("makes calls{in_call}"),
                Activity::Silent => format!("does not answer{in_call}{since}"),
                Activity::Stopped => {
                    format!(
                        "is stopped{in_call} by a signal or a debugger (kill -CONT {} lets it go on)",
                        state.pid
                    )
                }
                _ => "is not known of".into(),
            };
            format!("  rank {} {doing}", state.rank)
        })
        .collect();
    if awaited.len() > MAX {
        lines.push(format!("  and {} more", awaited.len() - MAX));
    }
    lines
}

/// For how long a job has run.
pub(crate) fn age(ms: u64) -> String {
    words::duration(ms)
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for line in lines.iter().take(LINES_MAX) {
        let _ = writeln!(text, "  {line}");
    }
    if lines.len() > LINES_MAX {
        let _ = writeln!(text, "  and {} more", lines.len() - LINES_MAX);
    }
}

/// All for people. `each`: every rank on a line of its own. Whether the job is stuck.
pub(crate) fn text(heading: &Heading, reports: &[HostReport], ranks: &Ranks, each: bool) -> (String, bool) {
    let graph = Graph::new(ranks);
    let found = graph.verdict();
    let mut text = String::new();
    let age = heading.age_ms.map(|ms| format!(", for {}", words::duration(ms))).unwrap_or_default();
    let program = words::one_line(&heading.program);
    let _ = writeln!(text, "job {}: {program} ({} ranks{age})\n", heading.job, ranks.len());
    text.push_str(&table(&rows(&graph, each)));
    section(&mut text, "unmatched messages", &unmatched(&graph));
    let (broken, well_count) = rails(ranks);
    section(&mut text, &format!("rails that do not work ({well_count} others do)"), &broken);
    section(&mut text, "rails that are slow", &slow_rails(ranks));
    let problems =
        reports.iter().filter_map(|report| Some(format!("{}: {}", report.host, report.problem.as_ref()?)));
    let limits: Vec<String> = heading.limits.iter().cloned().chain(problems).collect();
    section(&mut text, "not seen", &limits);
    let _ = writeln!(text);
    for line in verdict(&graph, &found) {
        let _ = writeln!(text, "{line}");
    }
    for misfit in words::misfits(&graph) {
        let _ = writeln!(text, "  {misfit}");
    }
    (text, !found.stuck.is_empty())
}

/// The same for programs.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    heading: &'a Heading,
    ranks: Vec<Row>,
    unmatched: Vec<String>,
    broken_rails: Vec<String>,
    working_rails_count: usize,
    slow_rails: Vec<String>,
    problems: Vec<String>,
    is_stuck: bool,
    stuck: BTreeSet<u32>,
    cycles: Vec<Vec<u32>>,
    missing: BTreeSet<u32>,
    waiting: BTreeSet<u32>,
    awaited: BTreeSet<u32>,
    misfits: Vec<String>,
    verdict: Vec<String>,
}

/// All for programs. Whether the job is stuck.
pub(crate) fn json(heading: &Heading, reports: &[HostReport], ranks: &Ranks) -> (String, bool) {
    let graph = Graph::new(ranks);
    let found = graph.verdict();
    let (broken_rails, working_rails_count) = rails(ranks);
    let problems =
        reports.iter().filter_map(|report| Some(format!("{}: {}", report.host, report.problem.as_ref()?)));
    let verdict = verdict(&graph, &found).iter().map(|line| line.trim().to_owned()).collect();
    let all = Json {
        heading,
        ranks: rows(&graph, true),
        unmatched: unmatched(&graph),
        broken_rails,
        working_rails_count,
        slow_rails: slow_rails(ranks),
        problems: problems.collect(),
        is_stuck: !found.stuck.is_empty(),
        misfits: words::misfits(&graph),
        verdict,
        stuck: found.stuck,
        cycles: found.cycles,
        missing: found.missing,
        waiting: found.waiting,
        awaited: found.awaited,
    };
    let is_stuck = all.is_stuck;
    (serde_json::to_string_pretty(&all).unwrap_or_default() + "\n", is_stuck)
}
