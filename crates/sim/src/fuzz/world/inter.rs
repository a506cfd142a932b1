//! Communicators that are made in several calls: an inter-communicator of two groups, and its merging. The
//! groups are the even and the odd ranks of a communicator; the even ones go first in what is merged.

use ayatori_core::Error;
use ayatori_core::group::Group;
use ayatori_core::ids::{CommId, ProcessId};
use ayatori_core::process::OtherLeader;
use ayatori_core::request::{Completion, Posted};

use super::comms::{How, Making};
use super::{Outcome, Running, World};
use crate::fuzz::Feature;

type Made = Result<(CommId, Posted), Error>;

impl World<'_> {
    /// The members of what is merged, by rank.
    pub(super) fn merged(old: &[u32]) -> Vec<u32> {
        let of = |parity: usize| old.iter().copied().enumerate().filter(move |(rank, _)| rank % 2 == parity);
        of(0).chain(of(1)).map(|(_, at)| at).collect()
    }

    fn group_of(&self, comm: usize, parity: usize) -> Outcome<Group> {
        let of_rank = self.model.comms[comm].of_rank.iter().enumerate();
        let members = of_rank.filter(|(rank, _)| rank % 2 == parity).map(|(_, at)| ProcessId(*at)).collect();
        Group::from_members(members).map_err(|error| error.to_string())
    }

    /// The first call of a member.
    pub(super) fn begin_inter(
        &mut self,
        (comm, step): (usize, usize),
        rank: u32,
        at: u32,
        how: How,
    ) -> Outcome<Made> {
        let id = self.comm_id(comm, at);
        if how == How::Inter {
            let (process, port) = &mut self.nodes[at as usize];
            return Ok(process.collectives().icomm_split(port, id, Some(rank % 2), rank as i32));
        }
        let parity = rank as usize % 2;
        let (own, other) = (self.group_of(comm, parity)?, self.group_of(comm, 1 - parity)?);
        let remote = (rank < 2).then_some((&other, 0));
        let name = format!("comm {comm}, step {step}");
        let (process, port) = &mut self.nodes[at as usize];
        Ok(process.collectives().icomm_inter_of_groups(port, (&own, 0), remote, name.as_bytes()))
    }

    /// A call of a member has ended well: the next one, if there is one. `None`: that was the last.
    fn next_call(&mut self, running: &Running, how: How) -> Option<Made> {
        let Running { at, comm, step, made, ref between, .. } = *running;
        let (id, made) = (self.comm_id(comm, at), made?);
        let rank = self.model.comms[comm].rank_of(at).unwrap_or(0);
        let (process, port) = &mut self.nodes[at as usize];
        match (how, between.len()) {
            (How::Inter, 0) => {
                let other = OtherLeader { comm: id, rank: rank ^ 1, tag: step as i32 };
                Some(process.collectives().icomm_inter(port, made, 0, (rank < 2).then_some(other)))
            }
            (How::Inter, 1) | (How::InterOfGroups, 0) => {
                Some(process.collectives().icomm_merge(port, made, rank % 2 == 1))
            }
            _ => None,
        }
    }

    /// A call of a member's has ended. `true`: it goes on with the next.
    pub(super) fn goes_on_making(
        &mut self,
        running: &Running,
        making: &Making,
        failed: bool,
    ) -> Outcome<bool> {
        let how = making.how();
        if !matches!(how, How::Inter | How::InterOfGroups) {
            return Ok(false);
        }
        let next = if failed { None } else { self.next_call(running, how) };
        let Some(next) = next else {
            for &id in &running.between {
                let freed = self.nodes[running.at as usize].0.free_comm(id);
                freed.map_err(|error| format!("freeing {id:?} at {}: {error}", running.at))?;
            }
            if !failed {
                self.report.cover(Feature::Inter);
            }
            return Ok(false);
        };
        let mut between = running.between.clone();
        between.extend(running.made);
        let (made, posted) = match next {
            Ok((made, posted)) => (Some(made), Ok(posted)),
            Err(error) => (None, Err(error)),
        };
        let Running { at, comm, step, .. } = *running;
        self.add_running(posted, Running { made, between, ..Running::new(at, comm, step) })?;
        Ok(true)
    }

    /// Whether an error that a member is told can come of a loss: the leaders tell others of those that they
    /// know of.
    pub(super) fn is_told_loss(&self, completion: &Completion) -> bool {
        let Some(Error::ProcessAborted(lost) | Error::Unreachable(lost)) = completion.error else {
            return false;
        };
        (0..self.count() as u32).any(|at| !self.model.losses(at, lost.0).is_empty())
    }
}
