//! What the members of a communicator do together: collective operations, making communicators, freeing them.
//!
//! Each communicator has a sequence of steps, which every member takes in that order. A communicator that is
//! being made is known to the model from the beginning; its members get their ids for it when their step
//! ends. One that some member could not make is never used.

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::Context;
use ayatori_core::device::Gap;
use ayatori_core::group::Group;
use ayatori_core::ids::{CommId, ProcessId, RequestId};
use ayatori_core::process::CollectiveId;
use ayatori_core::request::{Completion, Posted};

use super::{Joint, Outcome, World};
use crate::fuzz::Feature;
use crate::fuzz::model::Members;

const STEPS_MAX: usize = 12;
const COMMS_MAX: usize = 12;

/// The steps of a communicator, in the order in which all members take them.
pub(super) struct Sequence {
    pub(super) steps: Vec<Step>,
    /// The next step of each rank.
    pub(super) next: Vec<usize>,
    /// Ranks that have been told of a dead member: they begin nothing more here.
    pub(super) broken: Vec<bool>,
    /// Two members that live have lost each other, or one could not make the communicator: others may wait
    /// for messages that nobody sends.
    pub(super) severed: bool,
}

impl Sequence {
    pub(super) fn new(size: usize) -> Sequence {
        Sequence { steps: Vec::new(), next: vec![0; size], broken: vec![false; size], severed: false }
    }

    /// Whether some operation here may have left messages that nobody takes.
    pub(super) fn has_failed(&self) -> bool {
        self.severed || self.broken.contains(&true)
    }
}

/// What all members of a communicator do next.
#[derive(Clone)]
pub(super) enum Step {
    Joint(Joint),
    /// Two persistent operations, each started once: a member may start the second first.
    Persistent([Joint; 2]),
    Making(Making),
}

/// A communicator, or several, made of one.
#[derive(Clone)]
pub(super) struct Making {
    how: How,
    /// What each rank of the old communicator becomes a member of.
    into: Vec<Option<usize>>,
    gap: Option<Gap>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    Dup,
    Split,
    Create,
    CreateGroup,
    /// Of a group, whose members share nothing.
    OfGroup,
    /// By a split, an inter-communicator of its two parts, and their merging.
    Inter,
    /// The same without the split.
    InterOfGroups,
}

impl Making {
    pub(super) fn how(&self) -> How {
        self.how
    }
}

impl Running {
    pub(super) fn new(at: u32, comm: usize, step: usize) -> Running {
        let (send, recv) = (Buffer::EMPTY, Buffer::EMPTY);
        Running {
            at,
            comm,
            step,
            which: 0,
            id: NO_REQUEST,
            is_run: false,
            send,
            recv,
            made: None,
            between: Vec::new(),
        }
    }
}

/// A step under way.
pub(super) struct Running {
    pub(super) at: u32,
    pub(super) comm: usize,
    pub(super) step: usize,
    /// Of a step with several operations: which.
    pub(super) which: usize,
    pub(super) id: RequestId,
    /// Its process runs it, and it has no request.
    pub(super) is_run: bool,
    pub(super) send: Buffer,
    pub(super) recv: Buffer,
    pub(super) made: Option<CommId>,
    /// What was made on the way.
    pub(super) between: Vec<CommId>,
}

impl World<'_> {
    /// Two more communicators to begin with: everybody with ranks backwards, and halves by odd and even.
    pub(super) fn split_world(&mut self) -> Outcome {
        let halves = self.random.below(2) == 0;
        for color_count in if halves { vec![1, 2] } else { vec![1] } {
            let color_of = |at: u32| Some(at % color_count);
            self.add_split(0, color_count, color_of);
        }
        while self.begin_remaining_steps()? {
            let quota = self.random.below(3);
            self.pump(quota)?;
        }
        self.settle()?;
        self.collect().map(drop)
    }

    /// A communicator of everybody that has not been used.
    pub(super) fn duplicate_world(&mut self) -> Outcome<usize> {
        let of_rank = self.model.comms[0].of_rank.clone();
        let into = vec![Some(self.add_comm(of_rank.clone())); of_rank.len()];
        self.sequences[0].steps.push(Step::Making(Making { how: How::Dup, into, gap: None }));
        while self.begin_remaining_steps()? {
            let quota = self.random.below(3);
            self.pump(quota)?;
        }
        self.settle()?;
        self.collect()?;
        let comm = self.model.comms.len() - 1;
        // Its messages are none of the model's.
        self.model.comms[comm].context = None;
        Ok(comm)
    }

    /// Whether nothing in this world can fail.
    fn is_calm(&self) -> bool {
        !self.habits.trunks && !self.habits.crashes
    }

    /// Whether a process may use a communicator: it has made it, and so have the others, unless nothing can
    /// fail. Then messages may come before their receiver has made it.
    pub(super) fn may_use(&self, comm: usize, at: u32) -> bool {
        let is_ready = |&member: &u32| self.has_comm(comm, member) || !self.is_alive(member);
        self.has_comm(comm, at)
            && !self.is_of_window(comm)
            && (self.is_calm() || self.model.comms[comm].of_rank.iter().all(is_ready))
    }

    pub(super) fn has_comm(&self, comm: usize, at: u32) -> bool {
        self.comm_ids[comm][at as usize].is_some()
    }

    pub(super) fn comm_id(&self, comm: usize, at: u32) -> CommId {
        self.comm_ids[comm][at as usize].expect("the caller looked")
    }

    /// A communicator that the model knows and nobody has yet.
    pub(super) fn add_comm(&mut self, of_rank: Vec<u32>) -> usize {
        self.sequences.push(Sequence::new(of_rank.len()));
        self.model.comms.push(Members { of_rank, context: None });
        self.comm_ids.push(vec![None; self.count()]);
        self.model.comms.len() - 1
    }

    fn add_split(&mut self, comm: usize, color_count: u32, color_of: impl Fn(u32) -> Option<u32>) {
        let old = self.model.comms[comm].of_rank.clone();
        let mut into = vec![None; old.len()];
        for color in 0..color_count {
            let is_in = |at: &u32| color_of(*at) == Some(color);
            // Keys go down as processes go up.
            let mut of_rank: Vec<u32> = old.iter().copied().filter(is_in).collect();
            of_rank.sort_unstable_by_key(|&at| std::cmp::Reverse(at));
            if !of_rank.is_empty() {
                let new = self.add_comm(of_rank);
                let ranks = old.iter().zip(&mut into).filter(|(at, _)| is_in(at));
                ranks.for_each(|(_, into)| *into = Some(new));
            }
        }
        let gap = self.one_in(4).then(|| Gap::packets(0.5));
        self.sequences[comm].steps.push(Step::Making(Making { how: How::Split, into, gap }));
    }

    fn add_making(&mut self, comm: usize) {
        let old = self.model.comms[comm].of_rank.clone();
        let hows = [
            How::Dup,
            How::Split,
            How::Create,
            How::CreateGroup,
            How::OfGroup,
            How::Inter,
            How::InterOfGroups,
        ];
        // Two groups have two members at least.
        let how_count = if old.len() < 2 { 5 } else { hows.len() };
        let how = hows[self.random.below(how_count as u64) as usize];
        match how {
            How::Split => {
                let color_count = 1 + self.random.below(3) as u32;
                let is_last_out = self.one_in(2);
                let color_of = |at: u32| {
                    let color = at % color_count;
                    (!is_last_out || color + 1 < color_count).then_some(color)
                };
                self.add_split(comm, color_count, color_of);
            }
            How::Dup => {
                let into = vec![Some(self.add_comm(old.clone())); old.len()];
                self.sequences[comm].steps.push(Step::Making(Making { how, into, gap: None }));
            }
            How::Inter | How::InterOfGroups => {
                let into = vec![Some(self.add_comm(Self::merged(&old))); old.len()];
                self.sequences[comm].steps.push(Step::Making(Making { how, into, gap: None }));
            }
            How::Create | How::CreateGroup | How::OfGroup => {
                let mut of_rank: Vec<u32> =
                    old.iter().copied().filter(|_| self.random.below(2) == 0).collect();
                self.random.shuffle(&mut of_rank);
                if of_rank.is_empty() {
                    of_rank = vec![old[0]];
                }
                let members = of_rank.clone();
                let new = self.add_comm(of_rank);
                let into = old.iter().map(|at| members.contains(at).then_some(new)).collect();
                self.sequences[comm].steps.push(Step::Making(Making { how, into, gap: None }));
            }
        }
    }

    /// Some members of some communicator take their next step.
    pub(super) fn begin_some_step(&mut self) -> Outcome {
        let comm = self.random.below(self.sequences.len() as u64) as usize;
        let size = self.sequences[comm].next.len() as u32;
        if self.is_of_window(comm) {
            return Ok(());
        }
        if self.sequences[comm].steps.len() < STEPS_MAX {
            if self.model.comms.len() < COMMS_MAX && self.one_in(4) {
                self.add_making(comm);
            } else {
                let [first, second] = [0; 2].map(|_| Joint::random(&mut self.random, size));
                let is_persistent = self.one_in(6);
                let step = if is_persistent { Step::Persistent([first, second]) } else { Step::Joint(first) };
                self.sequences[comm].steps.push(step);
            }
        }
        for _ in 0..1 + self.random.below(4) {
            let rank = self.random.below(size.into()) as usize;
            let at = self.model.comms[comm].of_rank[rank];
            if !self.is_blocked(at) {
                self.begin_step(comm, rank)?;
            }
        }
        Ok(())
    }

    pub(super) fn begin_remaining_steps(&mut self) -> Outcome<bool> {
        let mut began = false;
        for comm in 0..self.sequences.len() {
            for rank in 0..self.sequences[comm].next.len() {
                began |= self.begin_step(comm, rank)?;
            }
        }
        Ok(began)
    }

    /// Whether there was a step to take.
    fn begin_step(&mut self, comm: usize, rank: usize) -> Outcome<bool> {
        let sequence = &self.sequences[comm];
        let at = self.model.comms[comm].of_rank[rank];
        let next = sequence.next[rank];
        let Some(step) = sequence.steps.get(next).cloned() else { return Ok(false) };
        if sequence.broken[rank] || sequence.severed || !self.is_alive(at) || !self.may_use(comm, at) {
            return Ok(false);
        }
        self.sequences[comm].next[rank] += 1;
        self.report.collective_count += 1;
        match step {
            Step::Joint(joint) => self.begin_joint((comm, next), rank as u32, at, (&joint, None))?,
            Step::Persistent(joints) => self.begin_persistent((comm, next), rank as u32, at, joints)?,
            Step::Making(making) => self.begin_making((comm, next), rank as u32, at, &making)?,
        }
        Ok(true)
    }

    /// The members make their persistent operations in the same order, and start them in any.
    fn begin_persistent(
        &mut self,
        (comm, step): (usize, usize),
        rank: u32,
        at: u32,
        joints: [Joint; 2],
    ) -> Outcome {
        self.report.cover(Feature::CollectivePersistent);
        let id = self.comm_id(comm, at);
        let mut reserved = Vec::new();
        for which in 0..2 {
            let name = self.nodes[at as usize].0.collectives().reserve(id);
            reserved.push((which, name.map_err(|error| format!("reserving at {at}: {error}"))?));
        }
        if self.one_in(2) {
            reserved.reverse();
        }
        let mut begin =
            |of: (usize, CollectiveId)| self.begin_joint((comm, step), rank, at, (&joints[of.0], Some(of)));
        reserved.into_iter().try_for_each(&mut begin)
    }

    fn begin_joint(
        &mut self,
        (comm, step): (usize, usize),
        rank: u32,
        at: u32,
        (joint, reserved): (&Joint, Option<(usize, CollectiveId)>),
    ) -> Outcome {
        let size = self.sequences[comm].next.len() as u32;
        let (given, before) = (joint.given(rank, size), joint.before(rank, size));
        let (Some(send), Some(recv)) = (self.memory(given.into_iter()), self.memory(before.into_iter()))
        else {
            return Err("the world's memory is too small".into());
        };
        self.log(format!("{:?} {step} of comm {comm} at {at}, {:?}", joint.kind, joint.choice));
        self.report.cover(Feature::Collective(joint.kind));
        let id = self.comm_id(comm, at);
        let (process, port) = &mut self.nodes[at as usize];
        let context = Context { rank, size };
        let schedule = joint.schedule(process.schedule_pool(), context, send, recv);
        let schedule = schedule.map_err(|error| format!("{joint:?} at {at}: {error}"))?;
        let name = reserved.map(|(_, name)| name);
        let may_run = step % 4 < 2 && process.may_run_collective();
        let posted = match (name, joint.is_compared()) {
            (_, true) => {
                self.report.cover(Feature::CollectiveCompared);
                process.collectives().start_compared(port, id, Ok(schedule), joint.claim(rank, size), name)
            }
            (None, false) if may_run && schedule.is_in_rounds() => {
                self.report.cover(Feature::CollectiveRun);
                match process.run_collective(port, id, schedule) {
                    Ok(None) => {
                        self.running.push(Running {
                            send,
                            recv,
                            is_run: true,
                            ..Running::new(at, comm, step)
                        });
                        return Ok(());
                    }
                    over => over.map(|over| Posted::Done(over.unwrap_or(Completion::EMPTY))),
                }
            }
            (None, false) if step % 2 == 0 => process.collectives().awaited().start(port, id, schedule),
            (None, false) => process.collectives().start(port, id, schedule),
            (Some(name), false) => process.collectives().start_reserved(port, id, schedule, name),
        };
        let which = reserved.map_or(0, |(which, _)| which);
        self.add_running(posted, Running { send, recv, which, ..Running::new(at, comm, step) })
    }

    fn begin_making(&mut self, (comm, step): (usize, usize), rank: u32, at: u32, making: &Making) -> Outcome {
        let into = making.into[rank as usize];
        self.log(format!("{:?} {step} of comm {comm} at {at}, into comm {into:?}", making.how));
        self.report.cover(match making.how {
            How::Dup => Feature::Dup,
            How::Split => Feature::Split,
            How::Create => Feature::Create,
            How::CreateGroup => Feature::CreateGroup,
            How::OfGroup => Feature::OfGroup,
            // Covered when it is merged.
            How::Inter | How::InterOfGroups => Feature::Split,
        });
        let id = self.comm_id(comm, at);
        let members = into.map(|new| self.model.comms[new].of_rank.clone()).unwrap_or_default();
        let group = Group::from_members(members.iter().copied().map(ProcessId).collect());
        let group = group.map_err(|error| error.to_string())?;
        let (process, port) = &mut self.nodes[at as usize];
        let next_context = process.next_context();
        let made = match making.how {
            How::Dup => process.collectives().icomm_dup(port, id).map(Some),
            How::Split => {
                // Any number that is the same for the members of one, and of no other.
                let color = into.map(|new| new as u32);
                process.collectives().icomm_split(port, id, color, -(at as i32)).map(Some)
            }
            // Those outside of the group call, too; they have a group without them, as in MPI.
            How::Create => match into {
                Some(_) => process.collectives().icomm_create(port, id, &group),
                None => {
                    let others = making.into.iter().flatten().next().copied().unwrap_or(0);
                    let others = self.model.comms[others].of_rank.iter().copied().map(ProcessId).collect();
                    let group = Group::from_members(others).map_err(|error| error.to_string())?;
                    process.collectives().icomm_create(port, id, &group)
                }
            },
            How::CreateGroup | How::OfGroup if into.is_none() => return Ok(()),
            How::OfGroup => {
                let name = format!("comm {comm}, step {step}");
                process.collectives().icomm_of_group(port, &group, name.as_bytes())
            }
            How::Inter | How::InterOfGroups => {
                self.begin_inter((comm, step), rank, at, making.how)?.map(Some)
            }
            How::CreateGroup => process.collectives().icomm_create_group(port, id, &group, step as i32),
        };
        let (made, posted) = match made {
            Ok(Some((made, posted))) => (Some(made), Ok(posted)),
            Ok(None) if into.is_none() => return Ok(()),
            Ok(None) => return Err(format!("process {at} is left out of comm {into:?}")),
            Err(error) => (None, Err(error)),
        };
        if let (Some(made), Some(gap)) = (made, making.gap) {
            self.nodes[at as usize].0.set_comm_gap_early(made, gap);
        }
        // Who leads the new communicator names it.
        let is_named_so = !matches!(making.how, How::Split | How::Inter | How::InterOfGroups);
        let leads = is_named_so && members.first() == Some(&at);
        if let Some(new) = into.filter(|_| leads) {
            self.model.comms[new].context.get_or_insert(next_context);
        }
        self.add_running(posted, Running { made, ..Running::new(at, comm, step) })
    }

    pub(super) fn add_running(&mut self, posted: Result<Posted, Error>, running: Running) -> Outcome {
        match posted {
            Ok(Posted::Pending(id)) => {
                self.running.push(Running { id, ..running });
                Ok(())
            }
            Ok(Posted::Done(completion)) => self.check_step(&running, &completion),
            Err(error) => self.check_step(&running, &Completion { error: Some(error), ..Completion::EMPTY }),
        }
    }

    /// A member's making of a communicator has ended.
    pub(super) fn check_made(&mut self, running: &Running, making: &Making, failed: bool) -> Outcome {
        let Running { at, comm, made, .. } = *running;
        let rank = self.model.comms[comm].rank_of(at).unwrap_or(0);
        if self.goes_on_making(running, making, failed)? {
            return Ok(());
        }
        let into = making.into[rank as usize];
        // An id of which nothing came may be another communicator's by now.
        let Some(new) = into else { return Ok(()) };
        if failed {
            self.sequences[new].severed = true;
            return Ok(());
        }
        let process = &mut self.nodes[at as usize].0;
        let (Some(id), Some(comm)) = (made, made.and_then(|id| process.comm(id).ok().cloned())) else {
            return Err(format!("process {at} has no communicator for comm {new}"));
        };
        let expected = &mut self.model.comms[new];
        let members: Vec<u32> = comm.group().iter().map(|process| process.0).collect();
        let context = *expected.context.get_or_insert(comm.context());
        let rank = expected.rank_of(at).unwrap_or(u32::MAX);
        if (&members, comm.rank(), comm.context()) != (&expected.of_rank, rank, context) {
            return Err(format!(
                "process {at} is {} of {members:?} in {context:?}, not {rank} of {expected:?}",
                comm.rank()
            ));
        }
        let gap = process.comm_gap(id);
        if gap != Ok(making.gap) || process.context_of(id) != Some(context) {
            return Err(format!("process {at} has {gap:?} for the new comm {new}, not {:?}", making.gap));
        }
        self.comm_ids[new][at as usize] = Some(id);
        let same = self.model.comms.iter().filter(|other| other.context == Some(context)).count();
        if same > 1 {
            return Err(format!("{same} communicators have the context {context:?}"));
        }
        Ok(())
    }

    /// Frees a communicator that nothing is under way on, at all members.
    pub(super) fn free_some_comm(&mut self) -> Outcome {
        let comm = self.random.below(self.sequences.len() as u64) as usize;
        let members = self.model.comms[comm].of_rank.clone();
        let sequence = &self.sequences[comm];
        let is_waited_for = |at: &u32| !self.is_alive(*at) || self.has_comm(comm, *at);
        let is_idle = !sequence.has_failed()
            && sequence.next.iter().all(|&next| next == sequence.steps.len())
            && self.running.iter().all(|running| running.comm != comm)
            && self.persistent.iter().all(|persistent| persistent.plan.comm() != comm)
            && !self.uses_comm_partitioned(comm)
            && !self.is_of_window(comm)
            && self.held.iter().all(|&(_, _, number)| self.model.sent[number].comm != comm)
            && members.iter().all(is_waited_for)
            && self.model.is_idle(comm);
        if comm == 0 || !is_idle {
            return Ok(());
        }
        self.log(format!("comm {comm} is freed"));
        self.report.cover(Feature::FreeComm);
        members.iter().try_for_each(|&at| self.free_comm(comm, at))
    }

    pub(super) fn free_comm(&mut self, comm: usize, at: u32) -> Outcome {
        let Some(id) = self.comm_ids[comm][at as usize].take().filter(|_| self.is_alive(at)) else {
            return Ok(());
        };
        let process = &mut self.nodes[at as usize].0;
        process.free_comm(id).map_err(|error| format!("freeing comm {comm} at {at}: {error}"))?;
        match process.comm(id) {
            Err(Error::Comm) => Ok(()),
            left => Err(format!("comm {comm} is freed at {at} and there is {left:?}")),
        }
    }
}

impl World<'_> {
    /// Whether a step may wait for ever: for members who have lost each other, or for one that was told of a
    /// dead member of the old communicator and so takes part in nothing more there, though the new one is
    /// without the dead. A program would have to tell them.
    pub(super) fn may_hang(&self, running: &Running) -> bool {
        let Running { at, comm, step, .. } = *running;
        let sequence = &self.sequences[comm];
        let Step::Making(Making { into, .. }) = &sequence.steps[step] else { return sequence.severed };
        let own = self.model.comms[comm].rank_of(at).and_then(|rank| into[rank as usize]);
        let is_merged = matches!(making_how(&sequence.steps[step]), Some(How::Inter | How::InterOfGroups));
        if is_merged && own.is_some_and(|new| self.sequences[new].severed) {
            return true;
        }
        let is_absent =
            |rank: usize| into[rank] == own && sequence.broken[rank] && sequence.next[rank] <= step;
        sequence.severed || (0..into.len()).any(is_absent)
    }
}

fn making_how(step: &Step) -> Option<How> {
    match step {
        Step::Making(making) => Some(making.how),
        Step::Joint(_) | Step::Persistent(_) => None,
    }
}

/// Of a running step until it has one.
const NO_REQUEST: RequestId = RequestId { index: u32::MAX, generation: 0 };
