//! Needs and findings in words.

use crate::why::graph::{Edge, Graph};
use crate::why::report::{Activity, RankState};
use ayatori_core::coll::Collective;
use ayatori_core::explain::{Label, LockState, Need, PostedReceive, ranges};
use ayatori_core::ids::{ContextId, ProcessId};
use std::collections::{BTreeMap, BTreeSet};

/// Number of needs of a call that are printed before the rest is only counted.
const NEEDS_MAX: usize = 3;

/// `rank 3`, `ranks 0-2 and 5`; at most some ranges.
pub(crate) fn ranks(ranks: &BTreeSet<u32>) -> String {
    let list = list(ranks);
    if ranks.len() == 1 { format!("rank {list}") } else { format!("ranks {list}") }
}

/// `0-2,5`
pub(crate) fn list(ranks: &BTreeSet<u32>) -> String {
    const RANGES_MAX: usize = 12;
    let all = ranges(ranks.iter().copied().collect());
    let text: Vec<String> = all
        .iter()
        .take(RANGES_MAX)
        .map(|&(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    let rest = if all.len() > RANGES_MAX { ",…" } else { "" };
    format!("{}{rest}", text.join(","))
}

/// `1 byte`, `16 KiB`
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".into(),
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// `12.5 MB/s`
pub(crate) fn rate(bytes_per_s: u64) -> String {
    format!("{:.1} MB/s", bytes_per_s as f64 / 1e6)
}

/// `35 s`, `2 min 5 s`, `3 h 12 min`
pub(crate) fn duration(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0 => format!("{ms} ms"),
        1..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3_600 % 24),
    }
}

/// The user's name of a communicator, as a rank knows it.
pub(crate) fn comm(graph: &Graph<'_>, rank: u32, context: ContextId) -> String {
    if context.point_to_point() == ContextId::WORLD {
        return "MPI_COMM_WORLD".into();
    }
    match graph.comm(rank, context) {
        Some(known) if !known.name.is_empty() => one_line(&known.name),
        _ => format!("a communicator of {}", ranks(&graph.members(rank, context))),
    }
}

/// On one line, and nothing that a terminal takes for more than text: programs choose it.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn tag(tag: Option<i32>) -> String {
    tag.map_or("any tag".into(), |tag| format!("tag {tag}"))
}

/// `17th`
pub(crate) fn ordinal(number: u64) -> String {
    let suffix = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// `MPI_Allreduce`
pub(crate) fn function(collective: Collective) -> String {
    let name = collective.name();
    format!("MPI_{}{}", name[..1].to_uppercase(), &name[1..])
}

/// What a rank waits for: `rank 1 (tag 5, MPI_COMM_WORLD)`.
pub(crate) fn need(graph: &Graph<'_>, me: u32, need: &Need) -> String {
    match need {
        Need::Nothing => "nothing any more".into(),
        Need::Other(what) => what.clone(),
        Need::Message(wanted) => {
            let who = wanted.source.map_or("any rank".into(), |source| format!("rank {}", source.0));
            format!("{who} ({}, {})", tag(wanted.tag), comm(graph, me, wanted.context))
        }
        Need::Match { to, request, bytes: length } => {
            let told = graph.ranks.get(&to.0).and_then(|state| state.told.as_deref());
            let unexpected = told.map_or(&[][..], |told| &told.state.unexpected.first[..]);
            let message = unexpected
                .iter()
                .find(|message| message.sender == Some(*request) && message.source == ProcessId(me));
            let what = bytes(*length);
            match message {
                Some(message) => {
                    let comm = comm(graph, me, message.context);
                    format!("rank {} to receive {what} (tag {}, {comm})", to.0, message.tag)
                }
                None => format!("rank {} to receive {what}", to.0),
            }
        }
        Need::Progress { peer } => format!("data under way to or from rank {}", peer.0),
        Need::Collective(state) => part(graph, me, need, (state.context, state.label)),
        Need::Node(state) => part(graph, me, need, (state.context, Some(state.label))),
        Need::Lock(state) => lock(graph, state),
    }
}

/// `the exclusive lock of rank 1 (window halo), which rank 0 holds alone`
fn lock(graph: &Graph<'_>, state: &LockState) -> String {
    let kind = if state.is_exclusive { "exclusive" } else { "shared" };
    let name = if state.name.is_empty() { "a window".into() } else { format!("window {}", state.name) };
    let holders = graph.holders(state);
    let who = match (state.holder, state.holders_count) {
        (Some(holder), _) => format!("rank {} holds alone", holder.0),
        (None, count) if holders.len() as u64 >= u64::from(count) => match holders.len() {
            1 => format!("{} holds shared", ranks(&holders)),
            _ => format!("{} hold shared", ranks(&holders)),
        },
        (None, 1) => "one rank holds shared".into(),
        (None, count) if holders.is_empty() => format!("{count} ranks hold shared"),
        (None, count) => format!("{count} ranks hold shared, {} among them", ranks(&holders)),
    };
    format!("the {kind} lock of rank {} ({name}), which {who}", state.target.0)
}

/// `rank 2's part in MPI_Allreduce (MPI_COMM_WORLD)`
fn part(graph: &Graph<'_>, me: u32, need: &Need, (context, label): (ContextId, Option<Label>)) -> String {
    let to = graph.targets_of(me, need);
    let what = label.map_or("it".into(), |label| function(label.collective));
    let comm = comm(graph, me, context);
    match to.len() {
        0 => format!("the others' parts in {what} ({comm})"),
        1 => format!("{}'s part in {what} ({comm})", ranks(&to)),
        _ => format!("the parts of {} in {what} ({comm})", ranks(&to)),
    }
}

/// The needs of all blocked calls of a rank.
pub(crate) fn needs(graph: &Graph<'_>, state: &RankState) -> String {
    let Activity::Blocked(told) = &state.activity else { return String::new() };
    let calls = told.blocked.iter().map(|blocked| {
        let joint = if blocked.is_any { " or " } else { " and " };
        let open: Vec<&Need> = blocked.needs.iter().filter(|need| **need != Need::Nothing).collect();
        let told: Vec<String> = open.iter().take(NEEDS_MAX).map(|one| need(graph, state.rank, one)).collect();
        match open.len().checked_sub(NEEDS_MAX) {
            Some(more @ 1..) => format!("{}{joint}{more} more", told.join(joint)),
            _ => told.join(joint),
        }
    });
    calls.collect::<Vec<_>>().join("; another thread: ")
}

/// `rank 0 waits in MPI_Recv for rank 1 (tag 5, MPI_COMM_WORLD)`
pub(crate) fn edge(graph: &Graph<'_>, rank: u32, edge: &Edge) -> String {
    format!("rank {rank} waits in {} for {}", edge.call, need(graph, rank, &edge.need))
}

/// Mismatches among ranks that wait.
pub(crate) fn misfits(graph: &Graph<'_>) -> Vec<String> {
    let mut all = collective_misfits(graph);
    for state in graph.ranks.values() {
        let Activity::Blocked(told) = &state.activity else { continue };
        let wanted = told.blocked.iter().flat_map(|blocked| &blocked.needs).filter_map(|need| match need {
            Need::Message(wanted) => Some(wanted),
            _ => None,
        });
        all.extend(wanted.filter_map(|wanted| message_misfit(graph, state, wanted)));
    }
    all.truncate(20);
    all
}

/// A message that is there and is not quite the one a receive wants.
fn message_misfit(graph: &Graph<'_>, state: &RankState, wanted: &PostedReceive) -> Option<String> {
    let there = &state.told.as_ref()?.state.unexpected.first;
    let fits = |message: &&ayatori_core::explain::UnexpectedMessage| {
        let source = wanted.source.is_none_or(|source| source == message.source);
        let tag = wanted.tag.is_none_or(|tag| tag == message.tag);
        let context = wanted.context == message.context;
        u8::from(source) + u8::from(tag) + u8::from(context) == 2
    };
    let message = there.iter().find(fits)?;
    let rank = state.rank;
    let from = format!("rank {} has sent rank {rank} {}", message.source.0, bytes(message.bytes));
    Some(if wanted.context != message.context {
        let (there, here) = (comm(graph, rank, message.context), comm(graph, rank, wanted.context));
        format!("{from} with tag {} on {there}; rank {rank} waits for that on {here}", message.tag)
    } else if wanted.tag.is_some_and(|tag| tag != message.tag) {
        format!("{from} with tag {}; rank {rank} waits for {}", message.tag, tag(wanted.tag))
    } else {
        let source = wanted.source.map_or(0, |source| source.0);
        format!("{from} with tag {}; rank {rank} waits for that from rank {source}", message.tag)
    })
}

/// Which operation a rank is in, for comparison.
type Place = (u64, String, Option<Label>);

/// Members of a communicator that are in different operations, or give them different arguments.
fn collective_misfits(graph: &Graph<'_>) -> Vec<String> {
    let mut places: BTreeMap<ContextId, BTreeMap<u32, Place>> = BTreeMap::new();
    for &rank in graph.ranks.keys() {
        if let Some((context, number, label, call)) = graph.collective_of(rank) {
            places.entry(context).or_default().insert(rank, (number, call, label));
        }
    }
    places.into_iter().filter_map(|(context, places)| misfit_on(graph, context, &places)).collect()
}

fn misfit_on(graph: &Graph<'_>, context: ContextId, places: &BTreeMap<u32, Place>) -> Option<String> {
    let name = comm(graph, *places.keys().next()?, context);
    let is_symmetric = |label: &Label| {
        !matches!(label.collective, Collective::Gatherv | Collective::Scatterv | Collective::Alltoallv)
    };
    let is_nested = |(number, call, label): &Place| {
        let what = label.map_or(call.clone(), |label| function(label.collective));
        (*number, what)
    };
    let by_operation = grouped(places, is_nested);
    if by_operation.len() > 1 {
        let all = by_operation.iter().map(|((number, what), members)| {
            format!("{} in {what}, the {} on it", is_are(members), ordinal(*number))
        });
        return Some(format!(
            "members of {name} are in different collective operations: {}",
            all.collect::<Vec<_>>().join("; ")
        ));
    }
    let ((_, what), _) = by_operation.first_key_value()?;
    let by_root = grouped(places, |(_, _, label)| label.and_then(|label| label.root));
    if by_root.len() > 1 {
        let all =
            by_root.iter().filter_map(|(root, members)| Some(format!("{} root {}", give(members), (*root)?)));
        return Some(format!(
            "members of {name} name different roots for {what}: {}",
            all.collect::<Vec<_>>().join("; ")
        ));
    }
    let by_length = grouped(places, |(_, _, label)| label.filter(is_symmetric).map(|label| label.bytes));
    if by_length.len() > 1 {
        let all = by_length
            .iter()
            .filter_map(|(length, members)| Some(format!("{} {}", give(members), bytes((*length)?))));
        return Some(format!(
            "members of {name} give {what} different lengths: {}",
            all.collect::<Vec<_>>().join("; ")
        ));
    }
    None
}

fn grouped<K: Ord>(places: &BTreeMap<u32, Place>, key: impl Fn(&Place) -> K) -> BTreeMap<K, BTreeSet<u32>> {
    let mut groups: BTreeMap<K, BTreeSet<u32>> = BTreeMap::new();
    for (&rank, place) in places {
        groups.entry(key(place)).or_default().insert(rank);
    }
    groups
}

fn is_are(members: &BTreeSet<u32>) -> String {
    format!("{} {}", ranks(members), if members.len() == 1 { "is" } else { "are" })
}

fn give(members: &BTreeSet<u32>) -> String {
    format!("{} {}", ranks(members), if members.len() == 1 { "gives" } else { "give" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_lengths_times_and_numbers_read_as_people_write_them() {
        assert_eq!(ranks(&BTreeSet::from([3])), "rank 3");
        assert_eq!(ranks(&BTreeSet::from([0, 1, 2, 5, 7, 8])), "ranks 0-2,5,7,8");
        assert_eq!(
            (bytes(1), bytes(8), bytes(4096), bytes(3 << 20)),
            ("1 byte".into(), "8 bytes".into(), "4 KiB".into(), "3 MiB".into())
        );
        assert_eq!(
            (duration(35_900), duration(125_000), duration(11_520_000)),
            ("35 s".into(), "2 min 5 s".into(), "3 h 12 min".into())
        );
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal),
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]
        );
        assert_eq!(function(Collective::ReduceScatter), "MPI_Reduce_scatter");
    }
}
