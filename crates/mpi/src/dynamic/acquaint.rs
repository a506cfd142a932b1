//! Groups whose leaders know each other, and whose other members may never have met: those of an
//! intercommunicator that `MPI_Intercomm_create` has made over several worlds.
//!
//! ```text
//!   members: card -- gather --> leader == over a communicator of the two == leader of the others
//!   members <-- broadcast -- the others' cards and a key;  -- gather --> all have them == whether ==
//!   members <-- broadcast -- that all can talk to all
//! ```

use super::meet::{
    BLOCK_BYTES, Circle, Found, get_to_know, has_met_others, leader_failed, members_of, nonsense, own_block,
};
use crate::abi::*;
use crate::collective::run_in;
use crate::comm::Comm;
use crate::fault::{Fault, fault};
use crate::file::Scratch;
use crate::operation::{Operation, Parts};
use crate::runtime::wait::wait;
use crate::state::process;
use ayatori_core::group::Group;
use ayatori_core::ids::{CommId, Rank};
use ayatori_core::introduction::Table;
use ayatori_core::process::OtherLeader;
use ayatori_devices::tcp::Key;
use std::ffi::c_int;

/// The part of `MPI_Finalize` in a process that is still connected to other worlds: it is collective over all
/// of them (MPI-5.0 §11.2.2), and their `MPI_Comm_disconnect` counts, too. It does not wait for processes
/// that have ended or share no communicator any more.
pub(crate) fn meet_connected() -> Result<(), Fault> {
    if !has_met_others() {
        return Ok(());
    }
    let mut posted = Vec::new();
    for comm in super::shared_with_others()? {
        // One that cannot be waited for any more: a member has failed.
        posted.extend(process()?.engine().begin_barrier(comm).ok());
    }
    for posted in posted {
        wait(process()?, posted)?;
    }
    Ok(())
}

/// Whether there are processes of several worlds in a communicator. All its members find the same.
pub(crate) fn is_over_worlds(comm: MPI_Comm) -> Result<bool, Fault> {
    let mut process = process()?;
    let world = Group::clone(process.engine().core.comm(CommId::WORLD)?.group());
    let shape = process.comms.get(comm, "comm").map(Comm::shape)?;
    let mut members = shape.group.iter().chain(shape.remote.iter().flat_map(Group::iter));
    Ok(members.any(|member| world.rank_of(member).is_none()))
}

/// The members of `comm` get to know those of the other leader's group. All of both call; `other` is given at
/// `root`, the leader.
pub(crate) fn acquaint(comm: MPI_Comm, root: Rank, other: Option<OtherLeader>) -> Result<(), Fault> {
    let circle = Circle::of(comm, root)?;
    // A process without a card sends a block that no leader can read, so all get the error.
    let (own, own_fault) = match own_block() {
        Ok(own) => (own, None),
        Err(fault) => (vec![0; BLOCK_BYTES], Some(fault)),
    };
    let blocks = circle.gather(own)?;
    let mut pair = None;
    let begun = other.map(|other| {
        let pair = pair.insert(Pair::of(other)?);
        let members = members_of(&blocks);
        pair.introduce(root, members)
    });
    let (found, begin_fault) = match begun {
        None => (Vec::new(), None),
        Some(Ok(found)) => (found.to_bytes(), None),
        Some(Err(fault)) => (Vec::new(), Some(fault)),
    };
    let code = begin_fault.as_ref().map_or(MPI_SUCCESS, Fault::code);
    let [code, length] = circle.tell([code as u64, found.len() as u64])?;
    if code != 0 {
        return Err(begin_fault.or(own_fault).unwrap_or_else(|| leader_failed(code as c_int, root)));
    }
    let found = circle.tell_bytes(found, length as usize)?;
    let known = Found::parse(&found).ok_or_else(nonsense).and_then(|found| get_to_know(&found));
    let code = known.as_ref().err().map_or(MPI_SUCCESS, Fault::code);
    let codes = circle.gather((code as u64).to_le_bytes().to_vec())?;
    let worst = codes.chunks_exact(8).map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i])));
    let worst = worst.max().unwrap_or_default();
    let theirs = pair.as_ref().map_or(Ok(0), |pair| pair.exchange_word(worst))?;
    let [code] = circle.tell([worst.max(theirs)])?;
    known?;
    match code {
        0 => Ok(()),
        code => Err(leader_failed(code as c_int, root)),
    }
}

/// The two leaders, which have a communicator of their own meanwhile.
struct Pair {
    id: CommId,
    /// Whether this one's key is taken.
    is_first: bool,
}

impl Pair {
    fn of(other: OtherLeader) -> Result<Self, Fault> {
        let (id, posted) = {
            let mut process = process()?;
            let engine = process.engine();
            engine.core.collectives().icomm_inter(&mut engine.device, CommId::SELF, 0, Some(other))?
        };
        if let Some(error) = wait(process()?, posted)?.error {
            return Err(error.into());
        }
        let mut process = process()?;
        let me = process.id();
        let is_first = process.engine().core.comm(id)?.peers().iter().all(|peer| me < peer);
        Ok(Self { id, is_first })
    }

    /// The leaders exchange their groups. If one cannot, the other fails, too.
    fn introduce(
        &self,
        leader: Rank,
        members: Result<Vec<ayatori_core::introduction::Member>, Fault>,
    ) -> Result<Found, Fault> {
        let token = Key::random().map_err(crate::fault::failed("draw a key"))?.to_bytes();
        let own = members.map(|members| Table { token, leader, members }.emit());
        let length = own.as_ref().map_or(0, Vec::len) as u64;
        let theirs = self.exchange_word(length)?;
        let own = own?;
        if theirs == 0 {
            return Err(fault(
                MPI_ERR_OTHER,
                format_args!("the other group cannot be reached; its leader says why"),
            ));
        }
        let others = self.exchange(own, theirs as usize)?;
        let others = Table::parse(&others).ok_or_else(nonsense)?;
        let key = if self.is_first { token } else { others.token };
        Ok(Found { key, name: key, others })
    }

    fn exchange_word(&self, own: u64) -> Result<u64, Fault> {
        let theirs = self.exchange(own.to_le_bytes().to_vec(), 8)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|i| theirs[i])))
    }

    /// What the other says, in as many bytes.
    fn exchange(&self, own: Vec<u8>, length: usize) -> Result<Vec<u8>, Fault> {
        let (mut own, mut theirs) = (Scratch::of(own), Scratch::new(length));
        let operation =
            Operation::Allgather { send: Some(own.buffer()), recv: Parts::Uniform(theirs.buffer()) };
        match run_in((self.id, MPI_COMM_SELF), process()?, operation) {
            Ok(()) => Ok(theirs.bytes().to_vec()),
            Err(fault) => {
                // A message may still be under way to them.
                std::mem::forget((own, theirs));
                Err(fault.on_callers())
            }
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Ok(mut process) = process() {
            let _ = process.engine().core.free_comm(self.id);
        }
    }
}
