//! Explains a call in a room and the rank it waits for.

use super::{Call, NodeCollectives, Stage};
use ayatori_core::coll::Collective;
use ayatori_core::explain::Label;

impl NodeCollectives {
    /// How many calls were begun in this room.
    pub fn calls_count(&self) -> u64 {
        self.calls_count
    }

    /// What the call under way is. Lengths as [`Collective`]'s algorithms are chosen by.
    pub fn label(&self) -> Label {
        let (collective, bytes, root) = match &self.call {
            Call::Barrier => (Collective::Barrier, 0, None),
            Call::Bcast { root, buffer } => (Collective::Bcast, buffer.len(), Some(*root)),
            Call::Reduce { root, send, .. } => (Collective::Reduce, send.len(), Some(*root)),
            Call::Allreduce { receive, .. } => (Collective::Allreduce, receive.len(), None),
            Call::Gather { root, send, .. } => (Collective::Gather, send.len(), Some(*root)),
            Call::Allgather { send, .. } => (Collective::Allgather, send.len(), None),
            Call::Scatter { root, receive, .. } => (Collective::Scatter, receive.len(), Some(*root)),
            Call::Alltoall { send, .. } => (Collective::Alltoall, send.len() / self.size as usize, None),
            Call::ReduceScatterBlock { send, .. } => (Collective::ReduceScatter, send.len(), None),
            Call::Scan { receive, is_inclusive: true, .. } => (Collective::Scan, receive.len(), None),
            Call::Scan { receive, .. } => (Collective::Exscan, receive.len(), None),
        };
        Label { collective, bytes: bytes as u64, root }
    }

    /// The rank that the call under way waits for; `None`: all that have not arrived.
    pub fn awaited(&self) -> Option<u32> {
        match (self.stage, &self.call) {
            (Stage::Published | Stage::Asked, Call::Bcast { root, .. } | Call::Scatter { root, .. }) => {
                Some(*root)
            }
            _ => None,
        }
    }
}
