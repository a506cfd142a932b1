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
//! l2: send 4096b to 1 tag 7 cpu 0
//! l2 requires l1                    starts after l1 ends; `irequires`: after it has started
//! }
//! rank 1 {
//! recv 4096b from 0 tag 7           `from -1` and `tag -1` are any
//! }
//! ```
//!
//! The binary form is described in `binary`. Which CPU and NIC an operation names is kept and not simulated:
//! a rank here is one process with one clock, and rails are the library's choice.

mod binary;
mod run;
mod text;

use std::fmt;
use std::path::Path;

pub use run::run_rank;

/// Work of all ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// By rank.
    pub ranks: Vec<Vec<Operation>>,
}

/// An operation of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub kind: Kind,
    /// The processor that it names.
    pub cpu: u8,
    /// The NIC that it names.
    pub nic: u8,
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

/// A place and what is wrong there.
type Problem = (Option<usize>, String);

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
        let schedule = read.map_err(in_file)?;
        schedule.check().map_err(|what| in_file((None, what)))?;
        Ok(schedule)
    }

    /// As text, labels `l0`, `l1` … in order.
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// In binary form.
    pub fn to_binary(&self) -> Vec<u8> {
        binary::write(self)
    }

    /// What the forms have no place for, but would never end: ranks that are none, and circles.
    fn check(&self) -> Result<(), String> {
        let rank_count = self.ranks.len();
        for (rank, operations) in self.ranks.iter().enumerate() {
            let exists = |peer: u32| (peer as usize) < rank_count;
            for (index, operation) in operations.iter().enumerate() {
                let peer = match operation.kind {
                    Kind::Send { to, .. } => Some(to),
                    Kind::Receive { from, .. } => from,
                    Kind::Calculate { .. } => None,
                };
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
