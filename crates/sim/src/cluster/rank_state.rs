//! What the fabric knows of a process.

use std::collections::VecDeque;

use super::fabric::Arrived;
use super::working_set::Distances;

/// A process' side of the fabric.
#[derive(Debug, Default)]
pub(super) struct RankState {
    /// When its software is done with what it has begun.
    pub(super) clock_ps: u64,
    /// How long it was busy in all, and for how much of that it computed.
    pub(super) busy_ps: u64,
    pub(super) computing_ps: u64,
    /// Cores that it had at most; 0: one.
    pub(super) core_count: u32,
    /// In the operating system: calls, interrupts, switches.
    pub(super) kernel_ps: u64,
    /// What the workload goes through from one use of a buffer to the next.
    pub(super) working_set_bytes: u64,
    /// All processes of its host do the same: a collective operation.
    pub(super) is_at_once: bool,
    /// What it sends now it has just written, as all others that it talks to have.
    pub(super) writes_first: bool,
    /// How far back its schedule's messages that the kernel copies use their memory; empty: not known.
    pub(super) got_distances: Distances,
    /// From whom the kernel has copied for it last, and when that ended.
    pub(super) kernel_copied: Option<(u32, u64)>,
    /// To whom of its host it has announced a long message last, and when.
    pub(super) announced: Option<(u32, u64)>,
    pub(super) inbox: VecDeque<Arrived>,
    /// When its core has what comes from the cores of others.
    pub(super) fetched_ps: u64,
    /// When its core has the lines back that others have read.
    pub(super) back_ps: u64,
    /// When its core has the first line of the last packet that another core wrote: it fetches one at a time.
    pub(super) line_free_ps: u64,
    /// When it had taken its last packet.
    pub(super) took_ps: u64,
    /// Packets sent by sockets but for their tails, which wait for the next to the same process.
    pub(super) tails: Vec<u32>,
    /// When its last send of a long packet by a socket began and ended.
    pub(super) sent_long_ps: Option<[u64; 2]>,
    /// The receiving request of the first message of the long packets that it sends one after another.
    pub(super) queue_begins_with: Option<u64>,
    /// When its last send by a socket ended.
    pub(super) sent_until_ps: u64,
    /// It goes on at its clock, and keeps its core until then.
    pub(super) goes_on: bool,
    /// It waits in a call.
    pub(super) is_waiting: bool,
    /// Whether it stands in the line of the runnable, or a timer will put it there.
    pub(super) woken: bool,
    /// The earliest time for which a timer is set, at which it wants to be called.
    pub(super) due_ps: Option<u64>,
}
