//! Collective operations of a workload: the library's own schedules, on lengths, or steps in shared memory
//! (`room`) where the library takes those.
//!
//! What a processor takes to copy and reduce in a schedule occupies it where it does so, between the messages
//! before and after (`Nic::worked`). Only among ranks of one host with the library's shared memory copies are
//! counted before the schedule, and reductions after it.

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::schedule::Action;
use ayatori_core::coll::select::{self, Question};
use ayatori_core::coll::{
    self, Blocks, Choice, Collective, Context, Counts, Fabric, Pool, Schedule, shared_memory,
};
use ayatori_core::datatype::Predefined;
use ayatori_core::ids::CommId;
use ayatori_core::op::{Operation, Reducer};
use ayatori_core::request::{Completion, Posted};

use super::Mpi;
use super::fabric::{Fabric as HostFabric, MEMORY_RAIL};
use super::working_set::{Buffers, Distances, Places, WorkingSet};
use crate::trace;

/// The rank that broadcasts, gathers, scatters and reduces.
const ROOT: u32 = 0;

impl Mpi {
    /// Takes part in a collective operation over all ranks and waits for its end. `bytes` is the length of
    /// the vector or message, or of one block where there is a block for each rank; rank 0 is the root where
    /// there is one. `algorithm` names one of [`Collective::algorithms`]; `None` leaves the choice to the
    /// library.
    ///
    /// # Errors
    /// [`Error::Argument`] for an algorithm that does not serve the operation; what a message of it ended
    /// with.
    pub async fn collective(
        &self,
        operation: Collective,
        bytes: u64,
        algorithm: Option<&str>,
    ) -> Result<(), Error> {
        self.with_world(|world| world.fabric.set_at_once(self.rank(), true));
        let done = self.all_at_once(operation, bytes, algorithm).await;
        self.with_world(|world| world.fabric.set_at_once(self.rank(), false));
        done
    }

    async fn all_at_once(
        &self,
        operation: Collective,
        bytes: u64,
        algorithm: Option<&str>,
    ) -> Result<(), Error> {
        let size = self.size();
        if algorithm.is_none() && self.goes_through_room(operation, bytes) {
            let request = self.done(trace::Operation::Collective { name: operation.name(), bytes });
            self.in_room(operation, bytes as usize).await;
            return self.wait(request).await.map(drop);
        }
        let question = Question { collective: operation, bytes: bytes as usize, size, commutative: true };
        let fabric = self.fabric();
        let choice = match algorithm {
            None => select::choose(&question, &fabric),
            Some(name) => select::choose_by_name(&question, name, &fabric)
                .ok_or(Error::Argument("the operation has no such algorithm, or it does not serve here"))?,
        };
        let context = Context { rank: self.rank(), size };
        let (mut reduced_bytes, mut set) = (0, WorkingSet::default());
        let is_counted = self.with_fabric(HostFabric::one_host).is_some();
        let told_bytes = self.with_fabric(|fabric| fabric.states[self.rank() as usize].working_set_bytes);
        self.with_world(|world| world.fabric.spend(self.rank(), world.fabric.config.software.schedule_ps));
        if is_counted {
            // The library looks again before it copies: what came while the operation before ended is seen.
            self.reach().await;
        }
        let mut is_run = false;
        let request = self.call(|process, nic| {
            let (pool, lengths) = (process.schedule_pool(), lengths(operation, bytes as usize, size));
            let schedule = schedule(pool, context, operation, Buffers::of_lengths(lengths), choice)?;
            if is_counted && told_bytes > 0 {
                let places = Places::new(pool, lengths);
                let placed = self::schedule(pool, context, operation, places.buffers, choice)?;
                set = WorkingSet::of(&placed, |len| nic.fabric.is_got(len), told_bytes);
                pool.recycle(placed);
                nic.fabric.set_working_set(nic.me, set.bytes.max(told_bytes));
                nic.fabric.states[nic.me as usize].got_distances = std::mem::take(&mut set.got);
            }
            if is_counted {
                let [copied_bytes, reduced] = own_work_bytes(&schedule);
                reduced_bytes = reduced;
                nic.fabric.spend_to_copy(nic.me, copied_bytes, &set.copied);
                nic.set_writes_first(reduced_bytes > 0 && sends_what_it_wrote(&schedule));
            }
            if !schedule.is_in_rounds() || !process.may_run_collective() {
                return process.collectives().awaited().start(nic, CommId::WORLD, schedule);
            }
            let completion = process.run_collective(nic, CommId::WORLD, schedule)?;
            is_run = completion.is_none();
            Ok(Posted::Done(completion.unwrap_or(Completion::EMPTY)))
        })?;
        let request = self.traced(request, trace::Operation::Collective { name: operation.name(), bytes });
        match is_run {
            true => self.wait_for_run(request).await?,
            false => drop(self.wait(request).await?),
        }
        self.with_world(|world| {
            let state = &mut world.fabric.states[self.rank() as usize];
            (state.writes_first, state.got_distances) = (false, Distances::default());
            let count = u32::from(reduced_bytes > 0);
            world.fabric.spend_to_reduce(self.rank(), [reduced_bytes, count as usize], &set.reduced);
            world.fabric.set_working_set(self.rank(), told_bytes);
        });
        Ok(())
    }

    /// All ranks wait for each other (`MPI_Barrier`).
    ///
    /// # Errors
    /// As [`Mpi::collective`].
    pub async fn barrier(&self) -> Result<(), Error> {
        self.collective(Collective::Barrier, 0, None).await
    }

    /// What the library is told about the machine when it chooses.
    fn fabric(&self) -> Fabric {
        self.with_fabric(|fabric| {
            let config = &fabric.config;
            if let Some(occupancy) = fabric.one_host() {
                return shared_memory::fabric(occupancy);
            }
            let rail = fabric.rails.last().copied().unwrap_or_default();
            Fabric {
                latency_ps: rail.latency_ps,
                message_ps: config.send_ps.max(config.receive_ps),
                bandwidth_bytes_per_s: rail.bandwidth_bytes_per_s,
                copy_bytes_per_s: config.copy_bytes_per_s,
                eager_bytes_max: rail.eager_bytes_max,
                ..Fabric::default()
            }
        })
    }
}

/// Bytes of the buffers to send from and to receive into: a block for each rank in some operations.
fn lengths(operation: Collective, bytes: usize, size: u32) -> [usize; 2] {
    let all_bytes = bytes * size as usize;
    match operation {
        Collective::Gather | Collective::Gatherv | Collective::Allgather | Collective::Allgatherv => {
            [bytes, all_bytes]
        }
        Collective::Scatter | Collective::Scatterv | Collective::ReduceScatter => [all_bytes, bytes],
        Collective::Alltoall | Collective::Alltoallv => [all_bytes; 2],
        Collective::NeighborAlltoall => [2 * bytes; 2],
        _ => [bytes; 2],
    }
}

impl HostFabric {
    /// Whether the kernel copies a message within a host of so many bytes for its receiver.
    fn is_got(&self, bytes: usize) -> bool {
        self.config.software.kernel_copy.is_some()
            && bytes > self.rails[usize::from(MEMORY_RAIL)].eager_bytes_max
    }
}

/// Bytes that a schedule copies and reduces in the process' own memory.
fn own_work_bytes(schedule: &Schedule) -> [usize; 2] {
    let bytes = |action: &Action| match *action {
        Action::Copy { to, .. } => [to.len(), 0],
        Action::Reduce { inout, .. } => [0, inout.len()],
        _ => [0, 0],
    };
    let all = schedule.actions().map(bytes);
    all.fold([0, 0], |sum, [copied, reduced]| [sum[0] + copied, sum[1] + reduced])
}

/// Whether a process sends what it has copied or reduced just before. Two ranks that exchange their operands
/// do not.
fn sends_what_it_wrote(schedule: &Schedule) -> bool {
    let is_work = |action: &Action| matches!(action, Action::Copy { .. } | Action::Reduce { .. });
    let mut after = schedule.actions().skip_while(|action| !is_work(action));
    after.any(|action| matches!(action, Action::Send { .. }))
}

fn halves(buffer: Buffer) -> [Buffer; 2] {
    let half = buffer.len() / 2;
    [0, half].map(|at| buffer.part(at, half))
}

fn schedule(
    pool: &mut Pool,
    context: Context,
    operation: Collective,
    Buffers { send, receive }: Buffers,
    choice: Choice,
) -> Result<Schedule, Error> {
    let [sent, received] = [send, receive].map(Blocks::Uniform);
    let is_root = context.rank == ROOT;
    // The operation is of no consequence where there are no values.
    let sum = Reducer::predefined(Operation::Sum, Predefined::Uint8)?;
    match operation {
        Collective::Barrier => coll::barrier(pool, context, choice),
        Collective::Bcast => coll::bcast(pool, context, send, ROOT, choice),
        Collective::Gather | Collective::Gatherv => {
            coll::gather(pool, context, Some(send), is_root.then_some(received), ROOT, choice)
        }
        Collective::Scatter | Collective::Scatterv => {
            coll::scatter(pool, context, is_root.then_some(sent), Some(receive), ROOT, choice)
        }
        Collective::Allgather | Collective::Allgatherv => {
            coll::allgather(pool, context, Some(send), received, choice)
        }
        Collective::Alltoall | Collective::Alltoallv => {
            coll::alltoall(pool, context, Some(sent), received, choice)
        }
        Collective::Reduce => {
            coll::reduce(pool, context, Some(send), is_root.then_some(receive), &sum, ROOT, choice)
        }
        Collective::Allreduce => coll::allreduce(pool, context, Some(send), receive, &sum, choice),
        Collective::ReduceScatter => {
            let counts = Counts::Uniform(receive.len());
            coll::reduce_scatter(pool, context, Some(send), receive, counts, &sum, choice)
        }
        Collective::Scan => coll::scan(pool, context, Some(send), receive, &sum, choice),
        Collective::Exscan => coll::exscan(pool, context, Some(send), receive, &sum, choice),
        // A ring.
        Collective::NeighborAlltoall => {
            let Context { rank, size } = context;
            let (below, above) = ((rank + size - 1) % size, (rank + 1) % size);
            let [[first, second], [third, fourth]] = [send, receive].map(halves);
            let sends = [(below, first), (above, second)];
            coll::neighbor(pool, context, &sends, &[(above, third), (below, fourth)])
        }
    }
}
