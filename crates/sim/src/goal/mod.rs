//! GOAL: what every rank sends, receives and computes, as graphs of dependences (T. Hoefler, C. Siebert, A.
//! Lumsdaine, "Group Operation Assembly Language", ICPP 2009), in the text and the binary form that LogGOPSim
//! and ATLAHS read.
//!
//! Text, one statement a line; `//` and `/* */` are comments:
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 1000                     nanoseconds
//! l2: send 4096b to 1 tag 7 cpu 0 nic 1
//! l2 requires l1                    starts after l1 ends; `irequires`: after it has started
//! }
//! rank 1 {
//! recv 4096b from 0 tag 7           `from -1` and `tag -1` are any
//! }
//! ```
//!
//! The binary form is described in `binary`. A rank has as many *streams* as its operations name CPUs. Those
//! of one stream run one after the other, in the order of the file among those that are ready; streams run
//! side by side, as far as there are cores (`run`). A message by `nic K` takes that NIC of its sender's host,
//! and arrives at the one of the same number; without it the library chooses.

mod binary;
mod run;
mod text;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

pub use run::run_rank;

/// Work of all ranks.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// By rank.
    pub ranks: Vec<Vec<Operation>>,
    /// Where it was read.
    file: String,
    /// The lines of the operations, by rank; nothing in binary files.
    lines: Vec<Vec<u32>>,
    /// See [`Schedule::streams`].
    streams: OnceCell<Vec<Vec<u8>>>,
}

/// What is done is compared, not where it is written.
impl PartialEq for Schedule {
    fn eq(&self, other: &Schedule) -> bool {
        self.ranks == other.ranks
    }
}

impl Eq for Schedule {}

/// An operation of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub kind: Kind,
    /// The processor that it runs on.
    pub cpu: u8,
    /// The NIC that a message is to take; `None`: the library chooses.
    pub nic: Option<u8>,
    /// Operations of the same rank that must have ended.
    pub requires: Vec<u32>,
    /// Operations of the same rank that must have started.
    pub requires_start: Vec<u32>,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sends.
    Send {
        /// Bytes.
        bytes: u64,
        /// The receiving rank.
        to: u32,
        /// Tag.
        tag: u32,
    },
    /// Receives.
    Receive {
        /// Bytes.
        bytes: u64,
        /// The sending rank; `None` is any.
        from: Option<u32>,
        /// Tag; `None` is any.
        tag: Option<u32>,
    },
    /// Computes.
    Calculate {
        /// For so long, ns.
        time_ns: u64,
    },
}

/// What is wrong with a GOAL file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoalError {
    /// Name of the file.
    pub file: String,
    /// The line, from 1; `None` in binary files.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for GoalError {}

/// By sender and tag: the NICs that messages name.
type NicsOfSends = BTreeMap<(u32, u32), BTreeSet<Option<u8>>>;

/// A place and what is wrong there.
type Problem = (Option<usize>, String);

/// The least length that no message has, bytes: as that of a simulation's option.
const LENGTH_END: u64 = 1 << 50;

impl Schedule {
    /// Reads a file of either form.
    ///
    /// # Errors
    /// Names file, line and what is wrong.
    pub fn load(path: &Path) -> Result<Schedule, GoalError> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| GoalError {
            file: file.clone(),
            line: None,
            what: format!("cannot be read: {error}"),
        })?;
        Schedule::parse(&file, &bytes)
    }

    /// Reads either form; `file` is its name in errors.
    ///
    /// # Errors
    /// As [`Schedule::load`].
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Schedule, GoalError> {
        let read = if binary::is_binary(bytes) {
            binary::read(bytes)
        } else {
            match std::str::from_utf8(bytes) {
                Ok(text) => text::read(text),
                Err(_) => {
                    Err((None, "neither GOAL text (UTF-8) nor GOAL binary (which begins with 4223)".into()))
                }
            }
        };
        let in_file = |(line, what)| GoalError { file: file.into(), line, what };
        let mut schedule = read.map_err(in_file)?;
        schedule.file = file.into();
        schedule.check().map_err(|what| in_file((None, what)))?;
        Ok(schedule)
    }

    /// As text, labels `l0`, `l1` … in order.
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// In binary form. It has no word for a message without NIC: where others name one, such a message names
    /// NIC 0 then, as in LogGOPSim.
    pub fn to_binary(&self) -> Vec<u8> {
        binary::write(self)
    }

    /// The CPUs that each rank names, lowest first: at least one, but for ranks that do nothing.
    pub(crate) fn streams(&self) -> &[Vec<u8>] {
        let of_rank = |operations: &Vec<Operation>| {
            let cpus: BTreeSet<u8> = operations.iter().map(|operation| operation.cpu).collect();
            cpus.into_iter().collect()
        };
        self.streams.get_or_init(|| self.ranks.iter().map(of_rank).collect())
    }

    /// Whether hosts with so many NICs have all that messages name.
    ///
    /// # Errors
    /// Names the first operation whose NIC there is not.
    pub fn check_nics(&self, nic_count: usize) -> Result<(), GoalError> {
        for (rank, operations) in self.ranks.iter().enumerate() {
            let wrong =
                |operation: &Operation| operation.nic.is_some_and(|nic| usize::from(nic) >= nic_count);
            let Some(index) = operations.iter().position(wrong) else { continue };
            let nic = operations[index].nic.unwrap_or_default();
            let line = self.lines.get(rank).and_then(|lines| lines.get(index)).map(|&line| line as usize);
            let place = if line.is_some() { String::new() } else { format!(", operation {index}") };
            let those = match nic_count {
                0 => "hosts have none".into(),
                1 => "hosts have 1, nic 0".into(),
                _ => format!("hosts have {nic_count}, nic 0 to {}", nic_count - 1),
            };
            let what = format!("rank {rank}{place}: there is no nic {nic}: {those}");
            return Err(GoalError { file: self.file.clone(), line, what });
        }
        Ok(())
    }

    /// What is simulated otherwise than a schedule says, with so many ranks on each host.
    pub(crate) fn notes(&self, ranks_per_host: u32) -> Vec<String> {
        let host_of = |rank: u32| rank / ranks_per_host.max(1);
        // By receiver, then sender and tag: the NICs that messages leave by.
        let mut sent: Vec<NicsOfSends> = vec![NicsOfSends::new(); self.ranks.len()];
        let (mut within_count, mut other_count) = (0, 0);
        for (rank, operation) in self.all() {
            let Kind::Send { to, tag, .. } = operation.kind else { continue };
            if host_of(rank) != host_of(to) {
                sent[to as usize].entry((rank, tag)).or_default().insert(operation.nic);
            } else if operation.nic.is_some() {
                within_count += 1;
            }
        }
        for (rank, operation) in self.all() {
            let (Kind::Receive { from, tag, .. }, Some(_)) = (operation.kind, operation.nic) else {
                continue;
            };
            let differs = |nics: &BTreeSet<Option<u8>>| nics.iter().any(|&nic| nic != operation.nic);
            let for_it = &sent[rank as usize];
            let is_other = match (from, tag) {
                (Some(from), Some(tag)) => for_it.get(&(from, tag)).is_some_and(differs),
                _ => for_it.iter().any(|(&(sender, sent_tag), nics)| {
                    from.is_none_or(|from| from == sender)
                        && tag.is_none_or(|tag| tag == sent_tag)
                        && differs(nics)
                }),
            };
            other_count += usize::from(is_other);
        }
        let mut notes = Vec::new();
        if within_count > 0 {
            notes.push(format!(
                "{within_count} sends within a host name a NIC: their messages go through the host's memory"
            ));
        }
        if other_count > 0 {
            notes.push(format!(
                "{other_count} receives name another NIC than their messages may leave by: a message arrives \
                 at the NIC of the number that it leaves by"
            ));
        }
        notes
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Operation)> {
        self.ranks.iter().enumerate().flat_map(|(rank, all)| all.iter().map(move |one| (rank as u32, one)))
    }

    /// What the forms have no place for, but would never end: ranks that are none, lengths that nobody sends,
    /// and circles.
    fn check(&self) -> Result<(), String> {
        let rank_count = self.ranks.len();
        for (rank, operations) in self.ranks.iter().enumerate() {
            let exists = |peer: u32| (peer as usize) < rank_count;
            for (index, operation) in operations.iter().enumerate() {
                let (peer, bytes) = match operation.kind {
                    Kind::Send { to, bytes, .. } => (Some(to), bytes),
                    Kind::Receive { from, bytes, .. } => (from, bytes),
                    Kind::Calculate { .. } => (None, 0),
                };
                if bytes >= LENGTH_END {
                    return Err(format!(
                        "rank {rank}, operation {index}: {bytes} bytes: below 2^50 are possible"
                    ));
                }
                if let Some(peer) = peer.filter(|&peer| !exists(peer)) {
                    return Err(format!(
                        "rank {rank}, operation {index}: rank {peer} is none of the {rank_count}"
                    ));
                }
            }
            if let Some(index) = in_a_circle(operations) {
                return Err(format!(
                    "rank {rank}, operation {index}: requires itself, directly or through others"
                ));
            }
        }
        Ok(())
    }
}

/// Who waits for each operation: for its end, and for its start.
fn dependents(operations: &[Operation]) -> Vec<[Vec<u32>; 2]> {
    let mut dependents = vec![[Vec::new(), Vec::new()]; operations.len()];
    for (index, operation) in operations.iter().enumerate() {
        for (which, required) in [&operation.requires, &operation.requires_start].into_iter().enumerate() {
            required.iter().for_each(|&on| dependents[on as usize][which].push(index as u32));
        }
    }
    dependents
}

/// An operation that can never start.
fn in_a_circle(operations: &[Operation]) -> Option<usize> {
    let dependents = dependents(operations);
    let mut missing: Vec<usize> =
        operations.iter().map(|op| op.requires.len() + op.requires_start.len()).collect();
    let mut ready: Vec<usize> = (0..operations.len()).filter(|&index| missing[index] == 0).collect();
    while let Some(index) = ready.pop() {
        for &next in dependents[index].iter().flatten() {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                ready.push(next as usize);
            }
        }
    }
    missing.iter().position(|&count| count > 0)
}
