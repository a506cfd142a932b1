//! This process' claim about a collective operation in check mode, which the members compare.

use crate::operation::{Operation, Parts};
use ayatori_core::coll::Collective;
use ayatori_core::coll::{Amount, Claim};
use ayatori_core::ids::Rank;
use ayatori_core::layout::Signature;
use ayatori_core::op::Reducer;

/// What a call gives as one buffer.
pub(crate) struct Given {
    /// Whether it is a receive buffer.
    pub(crate) is_result: bool,
    pub(crate) signature: Signature,
    pub(crate) count: usize,
}

impl Given {
    /// The amount of one of `parts` equal parts.
    fn part(&self, parts: usize) -> Amount {
        let count = self.count / parts.max(1);
        Amount { bytes: (self.signature.bytes() * count) as u64, types: self.signature.digest(count) }
    }
}

/// This process' claim about an operation in a communicator of `size`, from the buffers of its call.
pub(crate) fn claim(operation: &Operation, all: &[Given], rank: Rank, size: u32) -> Claim {
    let (collective, _) = operation.question(size);
    let mut claim = Claim::new(collective, operation.root());
    claim.reduction = operation.reducer().map_or(0, Reducer::number);
    let size = size as usize;
    let of = |is_result| all.iter().filter(move |given| given.is_result == is_result);
    let whole = |is_result| of(is_result).next().map(|given| given.part(1));
    let block = |is_result| of(is_result).next().map(|given| given.part(size));
    let each = |is_result| -> Vec<Amount> { of(is_result).map(|given| given.part(1)).collect() };
    match operation {
        Operation::Barrier | Operation::Neighbor { .. } | Operation::Compared(..) => {}
        Operation::Bcast { .. }
        | Operation::Reduce { .. }
        | Operation::Allreduce { .. }
        | Operation::Scan { .. }
        | Operation::Exscan { .. } => claim.common = whole(false).or_else(|| whole(true)),
        Operation::ReduceScatter { counts_bytes, .. } => {
            let shares = counts_bytes.iter().fold(0_u64, |all, bytes| {
                all.wrapping_mul(0x0f3a_94c1_5b7e_2d69).wrapping_add(*bytes as u64)
            });
            let all = whole(false).or_else(|| whole(true));
            let mixed = |all: Amount| Amount { types: (all.types ^ shares).max(1), ..all };
            claim.common = all.map(mixed);
        }
        Operation::Gather { recv, is_uniform: true, .. } => {
            claim.common = if recv.is_some() { block(true) } else { whole(false) };
        }
        Operation::Scatter { send, is_uniform: true, .. } => {
            claim.common = if send.is_some() { block(false) } else { whole(true) };
        }
        Operation::Gather { .. } => {
            claim.own = whole(false);
            claim.expected = each(true);
        }
        Operation::Scatter { .. } => {
            claim.own = whole(true);
            claim.expected = each(false);
        }
        Operation::Allgather { recv: Parts::Uniform(_), .. }
        | Operation::Alltoall { recv: Parts::Uniform(_), .. } => claim.common = block(true),
        Operation::Allgather { .. } => {
            claim.expected = each(true);
            claim.own = whole(false).or_else(|| claim.expected.get(rank as usize).copied());
        }
        Operation::Alltoall { send, .. } => {
            claim.expected = each(true);
            claim.sends = each(send.is_none());
        }
    }
    debug_assert!(claim.expected.is_empty() || claim.expected.len() == size);
    // An operation of ours, as in `MPI_Dist_graph_create`, has no buffers of a call.
    debug_assert!(collective != Collective::Alltoallv || all.is_empty() || claim.sends.len() == size);
    claim
}
