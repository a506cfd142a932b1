//! What a process waits for, as plain data: the input of `ayatori why`.
//!
//! [`Process::explain`](crate::Process::explain) reports a process' state: communicators, posted receives,
//! unexpected messages, links. [`Process::need`](crate::Process::need) reports the needs of a request. The
//! runtime adds which call of the user waits for which requests, and passes all of it on as a [`Snapshot`].
//! The snapshots of all processes show which process waits for which. Nothing here costs anything before a
//! query.
//!
//! Lists are cut at [`LIST_MAX`] and say how many there were. Bytes are made and read by the trait [`Plain`]:
//! what a foreign process wrote is refused and never trusted.

mod plain;
#[cfg(test)]
mod tests;

pub use crate::coll::Label;
pub use plain::Plain;

use crate::ids::{ContextId, ProcessId, RequestId, Tag};
use crate::link::Health;
use alloc::string::String;
use alloc::vec::Vec;
use plain::plain_struct;

/// Maximum number of list entries reported: a longer list explains no more.
pub const LIST_MAX: usize = 32;
/// The same for links, of which there may be one to each process.
pub const LINKS_MAX: usize = 2048;
/// Longest snapshot in bytes.
pub const SNAPSHOT_BYTES_MAX: usize = 64 << 10;

/// The beginning of a list, and how long it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed<T> {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { count: 0, first: Vec::new() }
    }
}

impl<T> Listed<T> {
    pub(crate) fn push(&mut self, value: T) {
        self.count += 1;
        if self.first.len() < LIST_MAX {
            self.first.push(value);
        }
    }

    /// Whether the list was cut.
    pub fn is_cut(&self) -> bool {
        self.count > self.first.len() as u64
    }
}

plain_struct! {
    /// State of a process at the time of the inquiry.
    #[derive(Clone, PartialEq, Eq, Default, Debug)]
    pub struct Explanation {
        /// Its index in the job.
        pub process: u32,
        /// Its communicators.
        pub comms: Vec<CommState>,
        /// Receives of the user whose message has not come.
        pub posted: Listed<PostedReceive>,
        /// Messages for the user that no receive has asked for.
        pub unexpected: Listed<UnexpectedMessage>,
        /// The peers it has talked to.
        pub links: Vec<LinkState>,
        /// Rails that carry much less than they say.
        pub slow_rails: Listed<SlowRail>,
        /// Locks of windows that it holds in shared memory, or waits for.
        pub held: Vec<HeldLock>,
    }

    /// A rail that works and carries less than half of another one to the same peer, each relative to its
    /// stated rate.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SlowRail {
        /// The peer.
        pub peer: ProcessId,
        /// Its index.
        pub rail: u8,
        /// The last measurement.
        pub bytes_per_s: u64,
        /// Its round trip, in nanoseconds.
        pub round_trip_ns: u64,
        /// The index of the other one.
        pub best: u8,
        /// The last measurement of the other one.
        pub best_bytes_per_s: u64,
    }

    /// A lock of a window in shared memory that is held or waited for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct HeldLock {
        /// The window's.
        pub context: ContextId,
        /// Whose memory it locks; `None`: that of all members.
        pub target: Option<ProcessId>,
    }

    /// A lock of a window in shared memory that a process waits for.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct LockState {
        /// The window's.
        pub context: ContextId,
        /// The window's name; empty if it has none.
        pub name: String,
        /// Whose memory it locks.
        pub target: ProcessId,
        /// It is wanted alone.
        pub is_exclusive: bool,
        /// The exclusive holder.
        pub holder: Option<ProcessId>,
        /// How many hold it: one, if it is held alone.
        pub holders_count: u32,
    }

    /// A communicator.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct CommState {
        /// The same at all members.
        pub context: ContextId,
        /// Its members' processes as sorted ranges, both ends included.
        pub members: Vec<(u32, u32)>,
        /// Collective operations begun on it: as messages, and in the node's shared memory.
        pub collectives_count: (u64, u64),
        /// The user's name for it; empty if there is none.
        pub name: String,
    }

    /// A posted receive, or what a probe looks for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct PostedReceive {
        /// The communicator's.
        pub context: ContextId,
        /// The source; `None`: any.
        pub source: Option<ProcessId>,
        /// `None`: any.
        pub tag: Option<Tag>,
        /// Length of its buffer.
        pub bytes: u64,
    }

    /// A message without a matching receive.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct UnexpectedMessage {
        /// The communicator's.
        pub context: ContextId,
        /// The sender.
        pub source: ProcessId,
        /// Its tag.
        pub tag: Tag,
        /// Its length.
        pub bytes: u64,
        /// The sender's request, where the sender waits for the match.
        pub sender: Option<RequestId>,
    }

    /// A peer.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct LinkState {
        /// The peer.
        pub peer: ProcessId,
        /// Packets given to the device, modulo 2^32. In order, as those received.
        pub sent_count: u32,
        /// Packets handled.
        pub received_count: u32,
        /// Packets the device has not taken yet.
        pub queued_count: u32,
        /// Nothing goes over it any more.
        pub has_failed: bool,
        /// The health of its rails, where they can break.
        pub rails: Vec<(u8, Health)>,
    }

    /// A collective operation under way, as messages.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct CollectiveState {
        /// The communicator's; of one that is being made, the old one's.
        pub context: ContextId,
        /// How many were begun as messages on the communicator before it; negative: outside of that order.
        pub number: i64,
        /// `None`: it makes a communicator, or starts or ends MPI.
        pub label: Option<Label>,
        /// Needs of all its steps under way.
        pub needs: Vec<Need>,
    }

    /// A collective operation in the node's shared memory.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct NodeState {
        /// The communicator's.
        pub context: ContextId,
        /// How many were begun there on the communicator before it.
        pub number: u64,
        /// The kind of operation.
        pub label: Label,
        /// The member that is missing; `None`: all members.
        pub awaited: Option<ProcessId>,
    }

    /// A thread of the process that waits in a call.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Blocked {
        /// The kernel's id of the thread.
        pub thread: u32,
        /// The function's name.
        pub call: String,
        /// For how long it has been asleep in it, in milliseconds.
        pub waited_ms: u64,
        /// One of its needs is enough; else it is all of them.
        pub is_any: bool,
        /// Its needs.
        pub needs: Vec<Need>,
    }

    /// The whole report of a process.
    #[derive(Clone, PartialEq, Eq, Default, Debug)]
    pub struct Snapshot {
        /// Its state.
        pub state: Explanation,
        /// Its threads that wait. None: it was asked on its way into a call.
        pub blocked: Vec<Blocked>,
        /// Its threads may call at the same time, so others may do what these wait for.
        pub is_threaded: bool,
        /// The rails' names, by index.
        pub rail_names: Vec<String>,
    }
}

/// The event that an operation waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing: it is over.
    Nothing,
    /// A message.
    Message(PostedReceive),
    /// The receipt of a message: its sender's request, and its destination.
    Match {
        /// The receiver.
        to: ProcessId,
        /// The sender's request, by which the receiver knows it.
        request: RequestId,
        /// Its length.
        bytes: u64,
    },
    /// Data or packets are being moved: this process has only to be inside MPI, or to look in.
    Progress {
        /// The peer.
        peer: ProcessId,
    },
    /// The messages of a collective operation.
    Collective(CollectiveState),
    /// Members in the node's shared memory.
    Node(NodeState),
    /// That a lock of a window in shared memory be given back.
    Lock(LockState),
    /// Something that is not a matter between processes: user code, the launcher.
    Other(String),
}

/// Runs of consecutive numbers in a sorted list.
pub fn ranges(mut numbers: Vec<u32>) -> Vec<(u32, u32)> {
    numbers.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}
