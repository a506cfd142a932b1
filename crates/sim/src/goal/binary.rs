//! The binary form. Everything is little-endian and packed.
//!
//! ```text
//! u64 4223
//! base:      u32 ranks | u8 highest CPU | u8 highest NIC | ranks × { u64 start, u64 end }, counted from base
//! a rank:    u32 nodes | u32 roots | roots × u32 node | nodes × 39 B | u32 appendix[]
//! a node:    u32 required | u8 type (1 send, 2 receive, 3 calculate) | u32 peer | u64 bytes or ns | u32 tag | u8 CPU |
//!            u8 NIC | u32 dependents | u32 where in the appendix | u32 start-dependents | u32 where in the appendix
//! ```
//!
//! Dependents are the nodes that wait for this one. Any peer and any tag are `0xFFFF_FFFF`. Nodes always have
//! a NIC: where none is above 0 and the head says so, messages name none.

use super::text::RANK_COUNT_MAX;
use super::{Kind, Operation, Problem, Schedule, dependents};

const MAGIC: u64 = 4_223;
const ANY: u32 = u32::MAX;
const NODE_BYTES: usize = 39;

pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|&first| u64::from_le_bytes(first) == MAGIC)
}

/// Reads fields from a place on; everything is checked against the end.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: String,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let found = *found.ok_or((None, format!("{} is cut short at byte {}", self.what, self.at)))?;
        self.at += N;
        Ok(found)
    }

    fn u8(&mut self) -> Result<u8, Problem> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Problem> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Problem> {
        self.take().map(u64::from_le_bytes)
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Schedule, Problem> {
    let base = &bytes[size_of::<u64>()..];
    let mut head = Reader { bytes: base, at: 0, what: "the head".into() };
    let rank_count = head.u32()?;
    let _highest_cpu = head.u8()?;
    let names_nics = head.u8()? > 0;
    if u64::from(rank_count) > RANK_COUNT_MAX || base.len() < 16 * rank_count as usize {
        return Err((None, format!("{rank_count} ranks in {} B cannot be", bytes.len())));
    }
    let mut ranks = Vec::with_capacity(rank_count as usize);
    for rank in 0..rank_count {
        let (start, end) = (head.u64()?, head.u64()?);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let own = range.and_then(|(start, end)| base.get(start..end));
        let own = own.ok_or((None, format!("rank {rank} lies at {start} to {end}, outside of the file")))?;
        ranks.push(read_rank(own, rank, names_nics)?);
    }
    Ok(Schedule { ranks, ..Schedule::default() })
}

fn read_rank(bytes: &[u8], rank: u32, names_nics: bool) -> Result<Vec<Operation>, Problem> {
    let mut reader = Reader { bytes, at: 0, what: format!("rank {rank}") };
    let (node_count, root_count) = (reader.u32()? as usize, reader.u32()? as usize);
    let first = reader.at + root_count.saturating_mul(size_of::<u32>());
    let appendix = first.saturating_add(node_count.saturating_mul(NODE_BYTES));
    if appendix > bytes.len() {
        return Err((None, format!("rank {rank}: {node_count} nodes do not fit in {} B", bytes.len())));
    }
    reader.at = first;
    let mut operations = Vec::with_capacity(node_count);
    let mut edges = Vec::new();
    let mut required = Vec::with_capacity(node_count);
    for node in 0..node_count {
        required.push(reader.u32()? as usize);
        let (kind, peer, size, tag) = (reader.u8()?, reader.u32()?, reader.u64()?, reader.u32()?);
        let (cpu, nic) = (reader.u8()?, reader.u8()?);
        let some = |value: u32| (value != ANY).then_some(value);
        let is_message = kind != 3;
        let nic = (is_message && (names_nics || nic > 0)).then_some(nic);
        let kind = match kind {
            1 => Kind::Send { bytes: size, to: peer, tag },
            2 => Kind::Receive { bytes: size, from: some(peer), tag: some(tag) },
            3 => Kind::Calculate { time_ns: size },
            other => {
                return Err((None, format!("rank {rank}, node {node}: type {other} is none of 1, 2, 3")));
            }
        };
        operations.push(Operation { kind, cpu, nic, requires: Vec::new(), requires_start: Vec::new() });
        for start in [false, true] {
            let (count, offset) = (reader.u32()? as usize, reader.u32()? as usize);
            let mut list = Reader {
                bytes,
                at: appendix.saturating_add(offset.saturating_mul(size_of::<u32>())),
                what: format!("rank {rank}: the appendix"),
            };
            for _ in 0..count {
                edges.push((node as u32, list.u32()? as usize, start));
            }
        }
    }
    for (on, who, start) in edges {
        let Some(operation) = operations.get_mut(who) else {
            return Err((None, format!("rank {rank}: node {on} names node {who} of {node_count}")));
        };
        if start { operation.requires_start.push(on) } else { operation.requires.push(on) }
    }
    for (node, operation) in operations.iter().enumerate() {
        let found = operation.requires.len() + operation.requires_start.len();
        if found != required[node] {
            let told = required[node];
            return Err((None, format!("rank {rank}, node {node}: requires {told} nodes, {found} name it")));
        }
    }
    Ok(operations)
}

pub(super) fn write(schedule: &Schedule) -> Vec<u8> {
    let rank_count = schedule.ranks.len();
    let all = || schedule.ranks.iter().flatten();
    let mut out = MAGIC.to_le_bytes().to_vec();
    out.extend((rank_count as u32).to_le_bytes());
    out.push(all().map(|operation| operation.cpu).max().unwrap_or(0));
    // At least 1 if any is named: NIC 0 alone would read as none.
    out.push(all().filter_map(|operation| operation.nic).max().map_or(0, |highest| highest.max(1)));
    let mut start = 6 + 16 * rank_count as u64;
    let ranks: Vec<Vec<u8>> = schedule.ranks.iter().map(|operations| write_rank(operations)).collect();
    for rank in &ranks {
        let end = start + rank.len() as u64;
        out.extend(start.to_le_bytes());
        out.extend(end.to_le_bytes());
        start = end;
    }
    ranks.iter().for_each(|rank| out.extend(rank));
    out
}

fn write_rank(operations: &[Operation]) -> Vec<u8> {
    let word = |out: &mut Vec<u8>, value: usize| out.extend((value as u32).to_le_bytes());
    let required = |operation: &Operation| operation.requires.len() + operation.requires_start.len();
    let roots: Vec<usize> =
        (0..operations.len()).filter(|&index| required(&operations[index]) == 0).collect();
    let (mut out, mut appendix) = (Vec::new(), Vec::new());
    word(&mut out, operations.len());
    word(&mut out, roots.len());
    roots.iter().for_each(|&root| word(&mut out, root));
    for (operation, dependents) in operations.iter().zip(dependents(operations)) {
        let (kind, peer, size, tag) = match operation.kind {
            Kind::Send { bytes, to, tag } => (1, to, bytes, tag),
            Kind::Receive { bytes, from, tag } => (2, from.unwrap_or(ANY), bytes, tag.unwrap_or(ANY)),
            Kind::Calculate { time_ns } => (3, 0, time_ns, 0),
        };
        word(&mut out, required(operation));
        out.push(kind);
        out.extend(peer.to_le_bytes());
        out.extend(size.to_le_bytes());
        out.extend(tag.to_le_bytes());
        out.extend([operation.cpu, operation.nic.unwrap_or(0)]);
        for list in dependents {
            word(&mut out, list.len());
            word(&mut out, appendix.len() / size_of::<u32>());
            list.iter().for_each(|&who| appendix.extend(who.to_le_bytes()));
        }
    }
    out.extend(appendix);
    out
}
