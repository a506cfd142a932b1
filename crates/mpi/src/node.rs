//! Collective operations inside a node: which run in shared memory rather than as schedules of messages, and
//! the rooms of communicators.
//!
//! Any intracommunicator whose members are all on this host may have a room (`devices::shm::collectives`).
//! Its rank 0 takes one before the others can know the context, so all members find the same: a room or none.
//! A member opens it with its first blocking collective operation and gives it back when it frees the
//! communicator.

use crate::operation::{Operation, Parts};
use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::Collective;
use ayatori_core::coll::select::Question;
use ayatori_core::comm::Communicator;
use ayatori_core::group::Group;
use ayatori_core::ids::CommId;
use ayatori_core::op::Reducer;
use ayatori_core::process::Process;
use ayatori_devices::shm::{Call, NodeCollectives, Occupancy, Shm, is_direct, operand_fits};
use ayatori_devices::switch;

/// The rooms of this process' communicators.
pub(crate) struct Node {
    is_enabled: bool,
    occupancy: Occupancy,
    /// By the core's number of the communicator.
    places: Vec<Place>,
}

#[derive(Default)]
enum Place {
    /// Not looked for yet.
    #[default]
    Unknown,
    /// It has none.
    Nowhere,
    Room(Box<NodeCollectives>),
}

impl Node {
    /// `occupancy` is the same at all processes, since how a collective runs depends on it.
    ///
    /// `AYATORI_NODE_COLLECTIVES=0`, the same at all processes, takes schedules of messages always.
    ///
    /// Where failures are survived there are none: a member that waits in shared memory for one that has
    /// failed would not know which operation fails.
    pub(crate) fn new(occupancy: Occupancy) -> Self {
        let is_wanted = switch::here("AYATORI_NODE_COLLECTIVES", true);
        let is_enabled = is_wanted && !crate::fault::survives();
        Self { is_enabled, occupancy, places: Vec::new() }
    }

    /// The ranks and CPUs it reckons with.
    pub(crate) fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Takes a room for the communicator of `group` that the core is about to name here.
    pub(crate) fn claim(&self, core: &Process, device: &Shm, group: &Group) {
        let is_leader = group.process(0) == Some(core.me());
        if self.is_enabled && is_leader && group.size() > 1 {
            device.claim_room(core.next_context(), group.iter());
        }
    }

    /// Takes a room for a communicator that its members know already. `true`: they must learn of it before
    /// they use the communicator, with or without a room.
    pub(crate) fn claim_made(&self, device: &Shm, comm: &Communicator) -> bool {
        let group = comm.group();
        if !self.is_enabled || group.size() < 2 || comm.is_inter() {
            return false;
        }
        if comm.rank() == 0 {
            device.claim_room(comm.context(), group.iter());
        }
        true
    }

    /// The room of a communicator, if it has one.
    #[inline]
    fn room(&mut self, core: &Process, device: &Shm, id: CommId) -> Option<&mut NodeCollectives> {
        let at = id.0 as usize;
        if !matches!(self.places.get(at), Some(Place::Room(_) | Place::Nowhere)) {
            self.open(core, device, id);
        }
        self.opened(id)
    }

    /// The room of a communicator that has been opened.
    #[inline]
    pub(crate) fn opened(&mut self, id: CommId) -> Option<&mut NodeCollectives> {
        match self.places.get_mut(id.0 as usize) {
            Some(Place::Room(room)) => Some(room),
            _ => None,
        }
    }

    #[cold]
    fn open(&mut self, core: &Process, device: &Shm, id: CommId) {
        let at = id.0 as usize;
        let Ok(comm) = core.comm_or_revoked(id) else { return };
        let room = (self.is_enabled && comm.size() > 1 && !comm.is_inter())
            .then(|| device.open_room(comm.context(), comm.group().iter(), self.occupancy))
            .flatten();
        if self.places.len() <= at {
            self.places.resize_with(at + 1, Place::default);
        }
        self.places[at] = room.map_or(Place::Nowhere, |room| Place::Room(Box::new(room)));
    }

    /// The communicator is being freed by all its members.
    pub(crate) fn leave(&mut self, core: &Process, device: &Shm, id: CommId) {
        // A member that never used the room also leaves it.
        if self.room(core, device, id).is_some()
            && let Place::Room(room) = std::mem::take(&mut self.places[id.0 as usize])
        {
            room.leave();
        }
        if let Some(place) = self.places.get_mut(id.0 as usize) {
            *place = Place::Unknown;
        }
    }

    /// Begins the operation in the communicator's room. `false`: it has none, or does not do this there.
    #[inline]
    pub(crate) fn start(
        &mut self,
        core: &Process,
        device: &Shm,
        id: CommId,
        operation: &Operation,
    ) -> Result<bool, Error> {
        // The room may be as the loss has left it, in the middle of an operation.
        if let Some(error) = core.lost_in(id) {
            return Err(error);
        }
        let occupancy = self.occupancy;
        let comm = core.comm(id)?;
        let (rank, size) = (comm.rank(), comm.size());
        let Some(room) = self.room(core, device, id) else { return Ok(false) };
        let (collective, bytes) = operation.question(size);
        let commutative = operation.reducer().is_none_or(Reducer::is_commutative);
        if !is_direct(&Question { collective, bytes, size, commutative }, occupancy) {
            return Ok(false);
        }
        if matches!(collective, Collective::Reduce | Collective::Allreduce) {
            let element_bytes = operation.reducer().map_or(1, Reducer::extent_bytes);
            if !operand_fits(element_bytes, bytes, occupancy) {
                return Ok(false);
            }
        }
        let call = call_of(operation, rank, size);
        Ok(call.map(|call| room.start(call)).is_some())
    }
}

/// The operation as a call of the node's collectives, where its buffers allow that.
#[inline]
fn call_of(operation: &Operation, rank: u32, size: u32) -> Option<Call> {
    Some(match operation {
        Operation::Barrier => Call::Barrier,
        Operation::Bcast { buffer, root } => Call::Bcast { root: *root, buffer: *buffer },
        Operation::Reduce { send, recv, reducer, root } => {
            let receive = recv.unwrap_or(Buffer::EMPTY);
            let element_bytes = reducer.extent_bytes();
            Call::Reduce { root: *root, send: send.unwrap_or(receive), receive, element_bytes }
        }
        Operation::Allreduce { send, recv, reducer } => {
            let element_bytes = reducer.extent_bytes();
            Call::Allreduce { send: send.unwrap_or(*recv), receive: *recv, element_bytes }
        }
        Operation::ReduceScatter { send, recv, counts_bytes, .. } => {
            let len = counts_bytes[0];
            if counts_bytes.iter().any(|&other| other != len) {
                return None;
            }
            Call::ReduceScatterBlock { send: send.unwrap_or(*recv), receive: recv.part(0, len) }
        }
        Operation::Scan { send, recv, .. } => {
            Call::Scan { send: send.unwrap_or(*recv), receive: *recv, is_inclusive: true }
        }
        Operation::Exscan { send, recv, .. } => {
            Call::Scan { send: send.unwrap_or(*recv), receive: *recv, is_inclusive: false }
        }
        _ => return call_of_blocks(operation, rank, size),
    })
}

/// The same for operations that move blocks. Lengths that do not fit one another are the schedules' to
/// refuse.
fn call_of_blocks(operation: &Operation, rank: u32, size: u32) -> Option<Call> {
    let own_block = |all: &Buffer| {
        let len = all.len() / size as usize;
        all.part(rank as usize * len, len)
    };
    Some(match operation {
        Operation::Gather { send, recv, root, is_uniform: true } => match recv {
            None => Call::Gather { root: *root, send: (*send)?, receive: Buffer::EMPTY },
            Some(Parts::Uniform(receive)) => {
                let own = own_block(receive);
                let send = send.unwrap_or(own);
                (send.len() == own.len()).then_some(Call::Gather { root: *root, send, receive: *receive })?
            }
            Some(Parts::Each(_)) => return None,
        },
        Operation::Scatter { send, recv, root, is_uniform: true } => match send {
            None => Call::Scatter { root: *root, send: Buffer::EMPTY, receive: (*recv)? },
            Some(Parts::Uniform(send)) => {
                let own = own_block(send);
                let receive = recv.unwrap_or(own);
                (receive.len() == own.len()).then_some(Call::Scatter { root: *root, send: *send, receive })?
            }
            Some(Parts::Each(_)) => return None,
        },
        Operation::Allgather { send, recv: Parts::Uniform(receive) } => {
            let send = send.unwrap_or_else(|| own_block(receive));
            (send.len() * size as usize == receive.len())
                .then_some(Call::Allgather { send, receive: *receive })?
        }
        Operation::Alltoall { send, recv: Parts::Uniform(receive) } => {
            let send = match send {
                None => *receive,
                Some(Parts::Uniform(send)) => *send,
                Some(Parts::Each(_)) => return None,
            };
            (send.len() == receive.len()).then_some(Call::Alltoall { send, receive: *receive })?
        }
        _ => return None,
    })
}
