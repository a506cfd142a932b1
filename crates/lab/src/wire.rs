//! Messages between `ayatori lab` and its agent inside the virtual machine: JSON, one message a line.
//!
//! The asker sends one [`Request`] and reads [`Reply`]s until one that ends the request: [`Reply::Output`]
//! and [`Reply::Ended`] may come before the last.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// One end of a cable: a port of a node. A node is a host or a switch; each is a network namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct End {
    /// Name of the host or switch.
    pub node: String,
    /// Name of the interface.
    pub port: String,
}

/// A host as the probes need it: where it is and under which address its peers know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostAddress {
    pub(crate) node: String,
    pub(crate) address: Ipv4Addr,
}

/// A program to run in a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) node: String,
    pub(crate) program: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) input: String,
    /// With a `/sys` that shows the node's own interfaces.
    pub(crate) own_sys: bool,
}

/// A LAG that is to have all its cables.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LagWait {
    pub(crate) node: String,
    pub(crate) name: String,
    pub(crate) cable_count: usize,
}

/// A host's addresses on the VLANs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Primed {
    pub(crate) node: String,
    pub(crate) addresses: Vec<Ipv4Addr>,
}

/// What the agent is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Make the nodes and the cables between them. Ports are down until something sets them up.
    Build { nodes: Vec<String>, cables: Vec<(End, End)>, names: Vec<(Ipv4Addr, String)> },
    /// Run all jobs at once; `Output` and `Ended` for each, then `Done`.
    Run { jobs: Vec<Job>, timeout_s: u64 },
    /// Wait until LACP has taken up every cable of these LAGs; answered by `Done`.
    WaitLags { lags: Vec<LagWait>, timeout_s: u64 },
    /// One broadcast frame from each address, as `ayatori plan prime` sends them; answered by `Done`.
    Prime { hosts: Vec<Primed> },
    /// Read the counters of every port; answered by `Counters`.
    Counters,
    /// Every host sends a datagram to every other and answers those it gets; answered by `Pairs`.
    AllPairs { hosts: Vec<HostAddress>, idle_round_count_max: u32 },
    /// `count` datagrams from one host to another; answered by `Received`.
    Send { from: HostAddress, to: HostAddress, count: u32, payload_bytes: u16 },
    /// `count` datagrams from one host to all; answered by `Heard`.
    Broadcast { from: HostAddress, to: Ipv4Addr, hosts: Vec<HostAddress>, count: u32 },
    /// Datagrams from one host to another, for each pair, `count` before the hosts prime, more meanwhile, and
    /// `count` after it; answered by `Loaded`.
    SendWhilePriming { flows: Vec<(HostAddress, HostAddress)>, hosts: Vec<Primed>, count: u32 },
    /// Pull a cable (or put it back) at one of its ends; answered by `Done`.
    SetLink { end: End, up: bool },
    /// Power off.
    PowerOff,
}

/// What the agent answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The first message: the machine is up.
    Ready {
        kernel: String,
    },
    /// A line a job wrote.
    Output {
        job: usize,
        is_error: bool,
        line: String,
    },
    /// A job ended; `None` if it was ended because its time was over.
    Ended {
        job: usize,
        code: Option<i32>,
    },
    /// The request is done and has no other answer.
    Done,
    Counters(Vec<PortCounters>),
    Pairs(Pairs),
    /// How many of the datagrams arrived at the host they were sent to.
    Received(u32),
    /// How many of the datagrams each host heard, in the order of the request.
    Heard(Vec<u32>),
    /// Datagrams sent and arrived, by pair.
    Loaded(Vec<(u32, u32)>),
    /// The request could not be done.
    Failed(String),
}

/// Frames and bytes that a port has received and sent since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// The port.
    pub end: End,
    /// Frames received.
    pub received_frames: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Frames dropped in either direction.
    pub dropped_frames: u64,
}

impl PortCounters {
    /// Counters of a port that has received and sent nothing.
    pub fn new(end: End) -> PortCounters {
        let (received_frames, received_bytes, sent_frames, sent_bytes, dropped_frames) = (0, 0, 0, 0, 0);
        PortCounters { end, received_frames, received_bytes, sent_frames, sent_bytes, dropped_frames }
    }
}

/// Outcome of [`Request::AllPairs`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pairs {
    /// Ordered pairs (indices into the request's hosts) whose question or answer never arrived.
    pub(crate) missing: Vec<(u32, u32)>,
    /// Datagrams that arrived more than once: a loop.
    pub(crate) duplicate_count: u64,
    /// Rounds it took; more than one means that datagrams were lost on the way.
    pub(crate) round_count: u32,
}
