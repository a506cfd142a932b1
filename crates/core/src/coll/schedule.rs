//! A collective operation of one process, as a directed acyclic graph of steps.
//!
//! A [`Schedule`] is made once by a [`Builder`] and then run, any number of times (`engine.rs`). It is
//! compact: steps lie in one vector, in the order they were made. Most algorithms are rounds; a *fence*
//! between two steps says that everything before it completes before anything after it begins, and costs one
//! bit. Where rounds would hold things up (rings, pipelines), *edges* between single steps say it more
//! finely. A [`Pool`] hands the memory from one schedule to the next, so a short collective allocates
//! nothing.
//!
//! # Order
//!
//! A step is *issued* when all it waits for has completed; sends and receives complete later, copies and
//! reductions at once. All messages of a schedule carry one tag, so two messages between the same two
//! processes match in the order in which they are issued at either side. Steps that are ready are issued in
//! the order in which they became so, and those that became ready together in the order they were made. So it
//! suffices that of two messages to one peer, the second waits for everything the first waits for. The tests
//! check this of every algorithm, and that no two steps touch the same bytes unordered unless both only read.

use super::Label;
use super::engine::State;
use crate::buffer::{Buffer, Scratch};
use crate::ids::Rank;
use crate::op::Reducer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// A step of a schedule, by its index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StepId(pub u32);

/// The action of a step.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Sends the buffer to a rank.
    Send {
        /// The rank to send to.
        to: Rank,
        /// What.
        buffer: Buffer,
    },
    /// Receives from a rank into the buffer.
    Receive {
        /// The rank to receive from.
        from: Rank,
        /// Where to.
        buffer: Buffer,
    },
    /// Copies between buffers of the same length.
    Copy {
        /// Source.
        from: Buffer,
        /// Target.
        to: Buffer,
    },
    /// `inout[i] = input[i] op inout[i]`.
    Reduce {
        /// The left operand.
        input: Buffer,
        /// The right operand and the result.
        inout: Buffer,
    },
}

/// No step, no edge.
pub(super) const NONE: u32 = u32::MAX;

/// One node of the graph.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) action: Action,
    /// Whether everything before completes before this step and all after it are issued.
    pub(super) fenced: bool,
    /// How many edges lead to it.
    pub(super) needs: u32,
    /// For how many of them it waits. Set back to `needs` when it is issued, for the next run.
    pub(super) pending: u32,
    /// Its outgoing edges, a list in the order they were made.
    pub(super) first_edge: u32,
    last_edge: u32,
    /// The next in the list of ready steps.
    pub(super) next_ready: u32,
}

/// Something that a step waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// The step that waits.
    pub(super) to: u32,
    /// The next edge out of the same step.
    pub(super) next: u32,
    /// Whether `to` waits until the step is issued only, not completed.
    pub(super) on_issue: bool,
}

/// A collective operation of one process, made by a [`Builder`]. It has all methods of its [`Graph`], which
/// stays where it is when the schedule is handed on: its copies on the way took a tenth of a microsecond and
/// more.
#[derive(Debug, Default)]
pub struct Schedule(Box<Graph>);

impl Deref for Schedule {
    type Target = Graph;

    #[inline]
    fn deref(&self) -> &Graph {
        &self.0
    }
}

impl DerefMut for Schedule {
    #[inline]
    fn deref_mut(&mut self) -> &mut Graph {
        &mut self.0
    }
}

/// The steps of a [`Schedule`] and what orders them, run by the methods of `engine.rs`.
#[derive(Debug, Default)]
pub struct Graph {
    pub(super) steps: Vec<Step>,
    pub(super) edges: Vec<Edge>,
    /// Memory; the first `scratch_used` are in use, the others left over from earlier schedules.
    scratch: Vec<Scratch>,
    scratch_used: usize,
    pub(super) reducer: Option<Reducer>,
    pub(super) state: State,
    label: Option<Label>,
    /// A round has more than one receive.
    has_several_receives: bool,
}

impl Graph {
    /// Whether fences alone order its steps, with one receive at most between two of them: then a caller that
    /// waits can run it round by round (`Process::run_collective`).
    pub fn is_in_rounds(&self) -> bool {
        self.edges.is_empty() && !self.has_several_receives
    }

    /// Names the operation, for explanations of what a process waits for.
    pub fn set_label(&mut self, label: Label) {
        self.label = Some(label);
    }

    /// The operation's name, if one was set.
    pub fn label(&self) -> Option<Label> {
        self.label
    }

    /// How many steps it has.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// The action of each step, in the order of creation.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().map(|step| &step.action)
    }

    /// Bytes of memory of its own that it works in.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.iter().map(Scratch::capacity_bytes).sum()
    }
}

impl Drop for Graph {
    /// A schedule given up while messages are under way leaks its memory: a late message may still be
    /// written there.
    fn drop(&mut self) {
        if self.state.in_flight > 0 {
            core::mem::forget(core::mem::take(&mut self.scratch));
        }
    }
}

/// Ended schedules whose memory the next ones use.
#[derive(Debug, Default)]
pub struct Pool {
    spare: Vec<Schedule>,
}

impl Pool {
    /// How many schedules are kept: as many as a program usually has under way at once.
    const SPARE_MAX: usize = 16;
    /// Maximum scratch memory that a schedule keeps while it waits for reuse, in bytes.
    const KEPT_SCRATCH_BYTES_MAX: usize = 4 << 20;

    /// Takes back a schedule's memory. One that is still running is dropped instead.
    pub fn recycle(&mut self, mut schedule: Schedule) {
        if self.spare.len() == Self::SPARE_MAX || schedule.state.in_flight > 0 {
            return;
        }
        schedule.steps.clear();
        schedule.edges.clear();
        schedule.reducer = None;
        schedule.label = None;
        schedule.has_several_receives = false;
        schedule.scratch_used = 0;
        schedule.state = State::default();
        if schedule.scratch_bytes() > Self::KEPT_SCRATCH_BYTES_MAX {
            schedule.scratch = Vec::new();
        }
        self.spare.push(schedule);
    }

    fn take(&mut self) -> Schedule {
        self.spare.pop().unwrap_or_default()
    }
}

/// Makes a schedule, step by step.
///
/// Each step waits for all steps before the last [`fence`](Self::fence), and for those named by
/// [`after`](Self::after). Most algorithms are rounds with fences between them.
#[derive(Debug)]
pub struct Builder {
    schedule: Schedule,
    /// Whether the next step is the first after a fence.
    fence: bool,
    /// Whether there is a receive since the last fence.
    has_receive: bool,
    is_virtual: bool,
}

impl Builder {
    /// A builder of an empty schedule. With `is_virtual`, scratch memory is virtual too: for schedules over
    /// virtual buffers.
    pub fn new(pool: &mut Pool, is_virtual: bool) -> Self {
        Self { schedule: pool.take(), fence: false, has_receive: false, is_virtual }
    }

    /// Sets the operation of all [`reduce`](Self::reduce) steps.
    pub fn set_reducer(&mut self, reducer: &Reducer) {
        self.schedule.reducer = Some(reducer.clone());
    }

    /// Memory of the schedule's own, `len` bytes, of undefined content.
    pub fn scratch(&mut self, len: usize) -> Buffer {
        if self.is_virtual {
            return Buffer::virtual_of(len);
        }
        if len == 0 {
            return Buffer::EMPTY;
        }
        let Graph { scratch, scratch_used, .. } = &mut *self.schedule;
        match scratch[*scratch_used..].iter().position(|spare| spare.capacity_bytes() >= len) {
            Some(at) => scratch.swap(*scratch_used, *scratch_used + at),
            None => {
                scratch.push(Scratch::new(len));
                let last = scratch.len() - 1;
                scratch.swap(*scratch_used, last);
            }
        }
        *scratch_used += 1;
        scratch[*scratch_used - 1].buffer(len)
    }

    /// Sends `buffer` to rank `to`.
    pub fn send(&mut self, to: Rank, buffer: Buffer) -> StepId {
        self.push(Action::Send { to, buffer })
    }

    /// Receives from rank `from` into `buffer`.
    pub fn receive(&mut self, from: Rank, buffer: Buffer) -> StepId {
        let step = self.push(Action::Receive { from, buffer });
        self.schedule.has_several_receives |= core::mem::replace(&mut self.has_receive, true);
        step
    }

    /// Copies `from` to `to`, of the same length. No step is made for nothing, or onto itself.
    pub fn copy(&mut self, from: Buffer, to: Buffer) {
        assert_eq!(from.len(), to.len(), "a copy between buffers of different lengths");
        let same = from.as_ptr().is_some() && from.as_ptr() == to.as_ptr();
        if !from.is_empty() && !same {
            self.push(Action::Copy { from, to });
        }
    }

    /// `inout[i] = input[i] op inout[i]`. No step is made for no elements.
    pub fn reduce(&mut self, input: Buffer, inout: Buffer) {
        assert_eq!(input.len(), inout.len(), "a reduction of buffers of different lengths");
        if !input.is_empty() {
            self.push(Action::Reduce { input, inout });
        }
    }

    /// Steps made from now on wait until all steps made so far have completed.
    pub fn fence(&mut self) {
        self.fence = !self.schedule.steps.is_empty();
    }

    /// Appends the steps of another schedule, which begin when all made so far has completed. Its rank `r` is
    /// `ranks(r)` here. A schedule has one operation: it is that of the last appended part that has one.
    pub fn append(&mut self, pool: &mut Pool, mut part: Schedule, ranks: impl Fn(Rank) -> Rank) {
        self.fence();
        let (first_step, first_edge) = (self.schedule.steps.len() as u32, self.schedule.edges.len() as u32);
        let shifted = |index: u32, by: u32| if index == NONE { NONE } else { index + by };
        for mut step in part.steps.drain(..) {
            assert!(self.schedule.steps.len() < NONE as usize, "a schedule of 2^32 steps");
            match &mut step.action {
                Action::Send { to: rank, .. } | Action::Receive { from: rank, .. } => *rank = ranks(*rank),
                Action::Copy { .. } | Action::Reduce { .. } => {}
            }
            step.fenced |= core::mem::take(&mut self.fence);
            step.first_edge = shifted(step.first_edge, first_edge);
            step.last_edge = shifted(step.last_edge, first_edge);
            self.schedule.steps.push(step);
        }
        for edge in part.edges.drain(..) {
            let next = shifted(edge.next, first_edge);
            self.schedule.edges.push(Edge { to: edge.to + first_step, next, ..edge });
        }
        self.schedule.has_several_receives |= part.has_several_receives;
        // Its last round may have one.
        self.has_receive = true;
        if let Some(reducer) = part.reducer.take() {
            self.schedule.reducer = Some(reducer);
        }
        // The memory in use goes along: it stays where it is.
        let Graph { scratch, scratch_used, .. } = &mut *self.schedule;
        let used = core::mem::take(&mut part.scratch_used);
        for memory in part.scratch.drain(..used) {
            scratch.insert(*scratch_used, memory);
            *scratch_used += 1;
        }
        pool.recycle(part);
    }

    /// `step` waits until `before` has completed.
    pub fn after(&mut self, step: StepId, before: StepId) {
        self.edge(step, before, false);
    }

    /// `step` waits until `before` has been issued (a message sent after another).
    pub fn issue_after(&mut self, step: StepId, before: StepId) {
        self.edge(step, before, true);
    }

    /// The schedule.
    pub fn finish(self) -> Schedule {
        self.schedule
    }

    fn push(&mut self, action: Action) -> StepId {
        let id = StepId(self.schedule.steps.len() as u32);
        assert!(id.0 != NONE, "a schedule of 2^32 steps");
        let fenced = core::mem::take(&mut self.fence);
        self.has_receive &= !fenced;
        self.schedule.steps.push(Step {
            action,
            fenced,
            needs: 0,
            pending: 0,
            first_edge: NONE,
            last_edge: NONE,
            next_ready: NONE,
        });
        id
    }

    fn edge(&mut self, step: StepId, before: StepId, on_issue: bool) {
        assert!(before < step, "a step waits for a later one");
        let at = self.schedule.edges.len() as u32;
        self.schedule.edges.push(Edge { to: step.0, next: NONE, on_issue });
        let to = &mut self.schedule.steps[step.0 as usize];
        to.needs += 1;
        to.pending += 1;
        let from = &mut self.schedule.steps[before.0 as usize];
        let last = core::mem::replace(&mut from.last_edge, at);
        if last == NONE {
            from.first_edge = at;
        } else {
            self.schedule.edges[last as usize].next = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::Collective;
    use crate::datatype::Predefined;
    use crate::op::Operation;

    fn used(pool: &mut Pool, scratch_bytes: usize) -> Schedule {
        let mut builder = Builder::new(pool, false);
        builder.set_reducer(&Reducer::predefined(Operation::Sum, Predefined::Int64).unwrap());
        let (one, other) = (builder.scratch(scratch_bytes), builder.scratch(scratch_bytes));
        builder.reduce(one, other);
        let received = builder.receive(1, one);
        let sent = builder.send(1, other);
        builder.after(sent, received);
        let mut schedule = builder.finish();
        schedule.set_label(Label { collective: Collective::Reduce, bytes: 8, root: None });
        schedule
    }

    #[test]
    fn a_schedule_whose_memory_is_used_again_begins_empty() {
        let mut pool = Pool::default();
        let schedule = used(&mut pool, 100);
        assert_eq!((schedule.step_count(), schedule.scratch_used), (3, 2));
        pool.recycle(schedule);
        let again = pool.take();
        assert!(again.steps.is_empty() && again.edges.is_empty());
        assert!(again.reducer.is_none() && again.label().is_none());
        assert_eq!((again.scratch.len(), again.scratch_used, again.state.in_flight), (2, 0, 0));
    }

    #[test]
    fn a_pool_keeps_little_memory_and_nothing_that_runs() {
        let mut pool = Pool::default();
        let long = used(&mut pool, Pool::KEPT_SCRATCH_BYTES_MAX);
        pool.recycle(long);
        assert_eq!((pool.spare.len(), pool.spare[0].scratch_bytes()), (1, 0));
        for _ in 0..2 * Pool::SPARE_MAX {
            pool.recycle(Schedule::default());
        }
        assert_eq!(pool.spare.len(), Pool::SPARE_MAX);
        pool.spare.clear();
        let mut running = Schedule::default();
        running.state.in_flight = 1;
        pool.recycle(running);
        assert!(pool.spare.is_empty());
    }

    #[test]
    fn appended_part_brings_its_memory_edges_and_operation() {
        let mut pool = Pool::default();
        let part = used(&mut pool, 100);
        let mut builder = Builder::new(&mut pool, false);
        let own = builder.scratch(10);
        builder.copy(own, Buffer::leaked(10));
        builder.append(&mut pool, part, |rank| rank + 4);
        // One without an operation takes none away.
        builder.append(&mut pool, Schedule::default(), |rank| rank);
        builder.fence();
        builder.send(7, own);
        let schedule = builder.finish();
        assert!(schedule.reducer.is_some());
        assert_eq!((schedule.step_count(), schedule.scratch_used), (5, 3));
        let fenced: Vec<bool> = schedule.steps.iter().map(|step| step.fenced).collect();
        assert_eq!(fenced, [false, true, false, false, true]);
        assert!(matches!(schedule.steps[2].action, Action::Receive { from: 5, .. }));
        assert!(matches!(schedule.steps[3].action, Action::Send { to: 5, .. }));
        assert_eq!((schedule.steps[2].first_edge, schedule.edges[0].to), (0, 3));
        assert_eq!((schedule.steps[3].needs, schedule.steps[3].pending), (1, 1));
    }

    /// The steps that wait for a step, in the order in which they were made to.
    fn waiting(schedule: &Schedule, step: u32) -> Vec<(u32, bool)> {
        let mut next = schedule.steps[step as usize].first_edge;
        core::iter::from_fn(|| {
            let edge = schedule.edges.get(next as usize)?;
            next = edge.next;
            Some((edge.to, edge.on_issue))
        })
        .collect()
    }

    #[test]
    fn an_appended_part_keeps_its_order_behind_a_part_with_one() {
        let (mut pool, buffer) = (Pool::default(), Buffer::leaked(4));
        let mut part = Builder::new(&mut pool, false);
        let steps = [0, 1, 2].map(|to| part.send(to, buffer));
        part.after(steps[1], steps[0]);
        part.issue_after(steps[2], steps[0]);
        let mut builder = Builder::new(&mut pool, false);
        let own = [3, 4].map(|to| builder.send(to, buffer));
        builder.after(own[1], own[0]);
        builder.append(&mut pool, part.finish(), |rank| rank);
        let last = builder.send(5, buffer);
        builder.after(last, StepId(2));
        let schedule = builder.finish();
        assert_eq!(waiting(&schedule, 0), [(1, false)]);
        assert_eq!(waiting(&schedule, 2), [(3, false), (4, true), (5, false)]);
        assert!([1, 3, 4, 5].into_iter().all(|step| waiting(&schedule, step).is_empty()));
    }

    #[test]
    fn memory_of_a_schedule_is_used_again_where_it_is_enough() {
        let mut pool = Pool::default();
        for _ in 0..2 {
            let schedule = used(&mut pool, 112);
            assert_eq!(schedule.scratch.len(), 2, "as many bytes as before");
            pool.recycle(schedule);
        }
        let mut builder = Builder::new(&mut pool, false);
        let (short, long) = (builder.scratch(112), builder.scratch(1_600));
        assert_ne!(short.as_ptr(), long.as_ptr());
        pool.recycle(builder.finish());
        let mut builder = Builder::new(&mut pool, false);
        assert_eq!(builder.scratch(1_600).as_ptr(), long.as_ptr());
    }
}
