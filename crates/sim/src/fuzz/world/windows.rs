//! One-sided communication: one window of all processes, on a communicator that nothing else uses.
//!
//! A window of the world is, in words of 8 bytes: one that is counted up by fetch-and-add, one that is
//! changed by compare-and-swap, one that is counted up under an exclusive lock by a get and a put, and sums;
//! then a slot for each origin, which nobody else writes. What a process begins it ends before it begins
//! anything else here: operations and a flush, a lock and its unlock, an access epoch of post and start, or
//! operations and a fence where there are two processes. The model is exact for a window whose owner and all
//! others have kept each other; of the rest it holds what no loss excuses: no count is fetched twice.

mod fence;

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::datatype::Predefined;
use ayatori_core::ids::RequestId;
use ayatori_core::layout::Layout;
use ayatori_core::op::Operation;
use ayatori_core::request::{Completion, Posted};
use ayatori_core::rma::{FENCE_MEMBERS_MAX, Memory, Place, WindowId};

use fence::Fence;

use super::spread::{blocks, in_blocks, packed};
use super::{Outcome, World, content, fill};
use crate::fuzz::Feature;

/// The first window of a process.
const WINDOW: WindowId = WindowId(0);
const WORD: usize = 8;
const FETCHED: usize = 0;
const SWAPPED: usize = 1;
const LOCKED: usize = 2;
const SUMS: usize = 3;
/// Enough that an accumulate of all of them is a long message in most worlds.
const SUM_COUNT: usize = 300;
const SLOTS_AT: usize = (SUMS + SUM_COUNT) * WORD;
const OPS_MAX: u64 = 5;

/// The window of a world.
pub(super) struct Windows {
    slot_bytes: usize,
    /// By process.
    targets: Vec<Target>,
    doing: Vec<Doing>,
    round: Option<Round>,
    fence: Option<Fence>,
    /// Epochs that ended with an error may leave posts and ends of accesses behind: there are no more of
    /// them.
    is_round_broken: bool,
    op_count: usize,
}

/// What a process' window must hold.
struct Target {
    memory: Buffer,
    fetch_count: u64,
    /// Counts that somebody has been told.
    fetched: Vec<u64>,
    /// Swaps that were done: from, to.
    swaps: Vec<(u64, u64)>,
    locked_count: u64,
    sums: Vec<u64>,
    /// By origin: whose content its slot has; `None`: not known.
    slots: Vec<Option<usize>>,
    /// By origin: its last put, over or not.
    begun: Vec<Option<usize>>,
}

/// What a process has under way.
enum Doing {
    Nothing,
    /// Operations, and the flush behind them.
    Flush(RequestId, Vec<Op>),
    /// An exclusive lock that is not granted yet.
    Lock(RequestId, u32),
    /// Under the lock, the count is being read.
    Read(RequestId, u32, Buffer),
    Unlock(RequestId, Buffer),
    /// Shared locks of several.
    LockAll(RequestId, Vec<u32>),
    UnlockAll(RequestId, Vec<Op>),
    Start(RequestId, u32),
    Complete(RequestId, Vec<Op>),
    Fence(RequestId, Vec<Op>),
}

/// An operation that has begun.
struct Op {
    target: u32,
    what: What,
    /// The user's memory, free when the operation is over.
    memory: Vec<Buffer>,
    request: Option<RequestId>,
}

enum What {
    /// A flush that waits until the user's memory is free.
    LocalFlush,
    Sum,
    Fetch,
    Swap {
        compare: u64,
        new: u64,
    },
    Put(usize),
    /// Of the own slot, with this content.
    Get(Option<usize>),
}

/// An exposure epoch: one process lets others access its window.
struct Round {
    target: u32,
    /// Those that have not begun.
    origins: Vec<u32>,
    /// The target's wait; `None`: it tests.
    wait: Option<RequestId>,
    all: Vec<u32>,
    /// What origins have put, which is there when the epoch ends: their slots, and the content.
    puts: Vec<(u32, usize)>,
}

fn word(value: u64) -> [u8; WORD] {
    value.to_ne_bytes()
}

fn word_of(buffer: &Buffer) -> u64 {
    buffer.to_vec().and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

fn place(at: usize, layout: Layout, count: usize) -> Place {
    Place { displacement: at as i64, layout, count }
}

impl World<'_> {
    /// In some worlds: a window of everybody, unless somebody is given up or dies before it is made.
    pub(super) fn make_window(&mut self) -> Outcome {
        if !self.habits.windows {
            return Ok(());
        }
        let comm = self.duplicate_world()?;
        self.window_comm = Some(comm);
        let count = self.count();
        if (0..count as u32).any(|at| !self.has_comm(comm, at)) {
            return Ok(());
        }
        let slot_bytes = self.habits.length_max.min(20_000).next_multiple_of(WORD);
        let mut targets = Vec::new();
        for at in 0..count as u32 {
            let bytes = SLOTS_AT + count * slot_bytes;
            let memory = self.memory(std::iter::repeat_n(0, bytes)).ok_or("a window has no memory")?;
            let comm = self.comm_id(comm, at);
            let added = self.nodes[at as usize].0.windows().add(comm, Memory::Fixed(memory));
            if added != Ok(WINDOW) {
                return Err(format!("process {at} adds its first window: {added:?}"));
            }
            let (sums, slots) = (vec![0; SUM_COUNT], vec![None; count]);
            let (fetched, swaps) = (Vec::new(), Vec::new());
            let begun = slots.clone();
            targets.push(Target {
                memory,
                fetch_count: 0,
                fetched,
                swaps,
                locked_count: 0,
                sums,
                slots,
                begun,
            });
        }
        let doing = (0..count).map(|_| Doing::Nothing).collect();
        self.windows = Some(Windows {
            slot_bytes,
            targets,
            doing,
            round: None,
            fence: None,
            is_round_broken: false,
            op_count: 0,
        });
        Ok(())
    }

    fn win(&mut self) -> &mut Windows {
        self.windows.as_mut().expect("called in worlds with windows")
    }

    /// A process begins something at windows.
    pub(super) fn act_in_window(&mut self) -> Outcome {
        let Some(at) = self.pick_idle() else { return Ok(()) };
        if self.windows.is_none() || !matches!(self.win().doing[at as usize], Doing::Nothing) {
            return Ok(());
        }
        if self.count() <= FENCE_MEMBERS_MAX as usize && self.one_in(3) {
            return self.come_to_fence(at);
        }
        match self.random.below(8) {
            0..=2 => self.burst(at),
            3 => self.lock(at),
            4 => self.lock_all(at),
            5 => self.post(at),
            _ => self.join_round(at),
        }
    }

    /// Another process, or the same, that this one has not lost.
    fn pick_target(&mut self, at: u32) -> u32 {
        let kept = |&to: &u32| self.model.losses(at, to).is_empty();
        let kept: Vec<u32> = (0..self.count() as u32).filter(kept).collect();
        kept[self.random.below(kept.len() as u64) as usize]
    }

    fn burst(&mut self, at: u32) -> Outcome {
        let mut ops = Vec::new();
        for _ in 0..1 + self.random.below(OPS_MAX) {
            let target = self.pick_target(at);
            self.begin_op(at, target, &mut ops)?;
        }
        self.report.cover(Feature::WindowOperations);
        if self.one_in(4) {
            let (process, port) = &mut self.nodes[at as usize];
            let flushed = process.windows().flush(port, WINDOW, None, true);
            // A loss of anybody may be told here.
            let flushed = match flushed {
                Err(error) => {
                    self.check_window_error(at, None, error).map(|()| Posted::Done(Completion::EMPTY))?
                }
                Ok(posted) => posted,
            };
            self.add_op(at, at, Ok(flushed), (What::LocalFlush, Vec::new()), &mut ops)?;
        }
        let (process, port) = &mut self.nodes[at as usize];
        // As the library does: what is over at once needs no request.
        let begun = process.windows().begin_flush(port, WINDOW, None);
        let flushed = match begun.map(|()| process.windows().flushed(WINDOW, None)) {
            Ok(None) => process.windows().flush(port, WINDOW, None, false),
            Ok(Some(over)) => over.map(|()| Posted::Done(Completion::EMPTY)),
            Err(error) => Err(error),
        };
        self.go_on(at, flushed, |id| Doing::Flush(id, Vec::new()), ops)
    }

    /// A request is under way, or what it stands for is over.
    fn go_on(
        &mut self,
        at: u32,
        posted: Result<Posted, Error>,
        doing: impl FnOnce(RequestId) -> Doing,
        ops: Vec<Op>,
    ) -> Outcome {
        let (id, over) = match posted {
            Ok(Posted::Pending(id)) => (id, None),
            Ok(Posted::Done(completion)) => (NO_REQUEST, Some(completion.error)),
            Err(error) => (NO_REQUEST, Some(Some(error))),
        };
        let mut doing = doing(id);
        if let Doing::Flush(_, of) | Doing::UnlockAll(_, of) | Doing::Complete(_, of) | Doing::Fence(_, of) =
            &mut doing
        {
            *of = ops;
        }
        match over {
            None => self.win().doing[at as usize] = doing,
            Some(error) => self.end_doing(at, doing, error)?,
        }
        Ok(())
    }

    fn begin_op(&mut self, at: u32, target: u32, ops: &mut Vec<Op>) -> Outcome {
        let kind = self.random.below(6);
        let number = self.win().op_count;
        self.win().op_count += 1;
        self.log(format!("operation {number} (kind {kind}) of {at} on the window of {target}"));
        match kind {
            0 | 1 => self.begin_sum(at, target, ops),
            2 => self.begin_fetch(at, target, ops),
            3 => self.begin_swap(at, target, ops),
            4 => self.begin_put(at, target, ops),
            _ => self.begin_get(at, target, ops),
        }
    }

    /// The call that begins an operation has returned.
    fn add_op(
        &mut self,
        at: u32,
        target: u32,
        posted: Result<Posted, Error>,
        (what, memory): (What, Vec<Buffer>),
        ops: &mut Vec<Op>,
    ) -> Outcome {
        let request = match posted {
            Ok(Posted::Pending(id)) => Some(id),
            Ok(Posted::Done(Completion { error: None, .. })) => None,
            Ok(Posted::Done(Completion { error: Some(error), .. })) | Err(error) => {
                let of = Some(target).filter(|_| !matches!(what, What::LocalFlush));
                self.check_window_error(at, of, error)?;
                None
            }
        };
        ops.push(Op { target, what, memory, request });
        Ok(())
    }

    fn begin_sum(&mut self, at: u32, target: u32, ops: &mut Vec<Op>) -> Outcome {
        let count = [1, SUM_COUNT / 2][self.random.below(2) as usize];
        // Every second word, or words in a row.
        let is_strided = self.one_in(2);
        let step = if is_strided { 2 } else { 1 };
        let first = self.random.below((SUM_COUNT - step * (count - 1)) as u64) as usize;
        let values: Vec<u64> = (0..count).map(|_| self.random.next_u64()).collect();
        let Some(source) =
            self.memory(values.iter().flat_map(|value| word(*value)).collect::<Vec<_>>().into_iter())
        else {
            return Ok(());
        };
        for (index, value) in values.iter().enumerate() {
            let sum = &mut self.win().targets[target as usize].sums[first + step * index];
            *sum = sum.wrapping_add(*value);
        }
        let layout =
            Layout::bytes(WORD).resized(0, (step * WORD) as isize).map_err(|error| error.to_string())?;
        let to = (WINDOW, target, place((SUMS + first) * WORD, layout, count));
        let wants_request = self.one_in(3);
        let (process, port) = &mut self.nodes[at as usize];
        let what = (Operation::Sum, Predefined::Uint64);
        let posted = process.windows().accumulate(port, to, (Some(source.into()), None), what, wants_request);
        self.add_op(at, target, posted, (What::Sum, vec![source]), ops)
    }

    fn begin_fetch(&mut self, at: u32, target: u32, ops: &mut Vec<Op>) -> Outcome {
        let (Some(one), Some(result)) = (self.memory(word(1).into_iter()), self.memory(word(0).into_iter()))
        else {
            return Ok(());
        };
        self.win().targets[target as usize].fetch_count += 1;
        let what = (Operation::Sum, Predefined::Uint64);
        let is_row = self.one_in(2);
        let (process, port) = &mut self.nodes[at as usize];
        let posted = if is_row {
            let to = (WINDOW, target, (FETCHED * WORD) as i64);
            let begun = process.windows().accumulate_row(port, to, (one, Some(result)), what);
            begun.map(|()| Posted::Done(Completion::EMPTY))
        } else {
            let to = (WINDOW, target, place(FETCHED * WORD, Layout::bytes(WORD), 1));
            let ends = (Some(one.into()), Some(result.into()));
            process.windows().accumulate(port, to, ends, what, false)
        };
        self.add_op(at, target, posted, (What::Fetch, vec![result, one]), ops)
    }

    fn begin_swap(&mut self, at: u32, target: u32, ops: &mut Vec<Op>) -> Outcome {
        // What it may hold: the last that is known.
        let compare = self.win().targets[target as usize].swaps.last().map_or(0, |swap| swap.1);
        let new = self.win().op_count as u64;
        let [compared, origin, result] = [compare, new, 0].map(|value| self.memory(word(value).into_iter()));
        let (Some(compared), Some(origin), Some(result)) = (compared, origin, result) else { return Ok(()) };
        let to = (WINDOW, target, place(SWAPPED * WORD, Layout::bytes(WORD), 1));
        let (process, port) = &mut self.nodes[at as usize];
        let ends = (compared, origin);
        let swapped = process.windows().compare_and_swap(port, to, ends, result, Predefined::Uint64);
        let posted = swapped.map(|()| Posted::Done(Completion::EMPTY));
        self.add_op(at, target, posted, (What::Swap { compare, new }, vec![result, compared, origin]), ops)
    }

    /// The place of an origin's slot: in one piece, or in blocks.
    fn slot(&mut self, at: u32, length: usize, in_blocks: bool) -> Outcome<Place> {
        let start = SLOTS_AT + at as usize * self.win().slot_bytes;
        Ok(match in_blocks {
            true => place(start, blocks(length)?, 1),
            false => place(start, Layout::bytes(1), length),
        })
    }

    /// Bytes of a slot that are used: so few that they fit in blocks, too.
    fn slot_length(&mut self) -> usize {
        self.win().slot_bytes / 4 * 3 - 8
    }

    fn begin_put(&mut self, at: u32, target: u32, ops: &mut Vec<Op>) -> Outcome {
        if ops.iter().any(|op| op.target == target && matches!(op.what, What::Put(_) | What::Get(_))) {
            return Ok(());
        }
        let is_of_round = |round: &Round| round.target == target && round.puts.iter().any(|put| put.0 == at);
        if self.win().round.as_ref().is_some_and(is_of_round) {
            return Ok(());
        }
        let (number, length) = (self.win().op_count, self.slot_length());
        let Some(source) = self.memory((0..length).map(|byte| content(number, byte))) else { return Ok(()) };
        self.win().targets[target as usize].slots[at as usize] = None;
        self.win().targets[target as usize].begun[at as usize] = Some(number);
        let place = self.slot(at, length, number.is_multiple_of(2))?;
        let wants_request = self.one_in(3);
        let (process, port) = &mut self.nodes[at as usize];
        let posted = process.windows().put(port, (WINDOW, target, place), source, wants_request);
        self.add_op(at, target, posted, (What::Put(number), vec![source]), ops)
    }

    fn begin_get(&mut self, at: u32, target: u32, ops: &mut Vec<Op>) -> Outcome {
        if ops.iter().any(|op| op.target == target && matches!(op.what, What::Put(_))) {
            return Ok(());
        }
        let (length, known) = (self.slot_length(), self.win().targets[target as usize].slots[at as usize]);
        let Some(result) = self.memory(std::iter::repeat_n(0, length)) else { return Ok(()) };
        // The one put there lies as it was put.
        let is_in_blocks = known.is_some_and(|number| number.is_multiple_of(2));
        let place = self.slot(at, length, is_in_blocks)?;
        let wants_request = self.one_in(3);
        let (process, port) = &mut self.nodes[at as usize];
        let posted = if is_in_blocks || wants_request {
            process.windows().get(port, (WINDOW, target, place), result, wants_request)
        } else {
            let read = process.windows().get_row(port, (WINDOW, target, place.displacement), result);
            read.map(|()| Posted::Done(Completion::EMPTY))
        };
        self.add_op(at, target, posted, (What::Get(known), vec![result]), ops)
    }

    fn lock(&mut self, at: u32) -> Outcome {
        let target = self.pick_target(at);
        self.report.cover(Feature::WindowLock);
        self.log(format!("{at} locks the window of {target}"));
        let (process, port) = &mut self.nodes[at as usize];
        let locked = process.windows().lock(port, WINDOW, vec![target], true);
        self.go_on(at, locked, |id| Doing::Lock(id, target), Vec::new())
    }

    fn lock_all(&mut self, at: u32) -> Outcome {
        let kept = |&to: &u32| self.model.losses(at, to).is_empty();
        let targets: Vec<u32> = (0..self.count() as u32).filter(kept).collect();
        self.log(format!("{at} locks the windows of {targets:?}"));
        let (process, port) = &mut self.nodes[at as usize];
        let locked = process.windows().lock(port, WINDOW, targets.clone(), false);
        self.go_on(at, locked, |id| Doing::LockAll(id, targets), Vec::new())
    }

    /// An exposure epoch begins.
    fn post(&mut self, at: u32) -> Outcome {
        if self.win().round.is_some() || self.win().fence.is_some() || self.win().is_round_broken {
            return Ok(());
        }
        let kept = |&of: &u32| of != at && self.is_alive(of) && self.model.losses(at, of).is_empty();
        let origins: Vec<u32> = (0..self.count() as u32).filter(kept).collect();
        let origins: Vec<u32> = origins.into_iter().filter(|_| self.random.below(2) == 0).collect();
        self.log(format!("{at} lets {origins:?} access its window"));
        self.report.cover(Feature::WindowPost);
        let (process, port) = &mut self.nodes[at as usize];
        if let Err(error) = process.windows().post(port, WINDOW, &origins) {
            return Err(format!("process {at} posts to processes that it has not lost: {error}"));
        }
        let wait = if self.random.below(2) == 0 {
            None
        } else {
            match self.nodes[at as usize].0.windows().wait(WINDOW, origins.clone()) {
                Ok(Posted::Pending(id)) => Some(id),
                Ok(Posted::Done(_)) if origins.is_empty() => return Ok(()),
                other => {
                    return Err(format!("process {at} waits for accesses that cannot have ended: {other:?}"));
                }
            }
        };
        self.win().round =
            Some(Round { target: at, origins: origins.clone(), wait, all: origins, puts: Vec::new() });
        Ok(())
    }

    /// One that was let in begins its access.
    fn join_round(&mut self, at: u32) -> Outcome {
        let Some(round) = &mut self.win().round else { return Ok(()) };
        let Some(place) = round.origins.iter().position(|&origin| origin == at) else { return Ok(()) };
        round.origins.swap_remove(place);
        let target = round.target;
        self.log(format!("{at} begins to access the window of {target}"));
        let started = self.nodes[at as usize].0.windows().start(WINDOW, vec![target]);
        self.go_on(at, started, |id| Doing::Start(id, target), Vec::new())
    }

    /// In a world that has healed: all that were let in access, and fences are come to by all.
    pub(super) fn join_rounds(&mut self) -> Outcome<bool> {
        if self.join_fence()? {
            return Ok(true);
        }
        let Some(Windows { round: Some(round), doing, .. }) = &self.windows else { return Ok(false) };
        let may_join = |&&at: &&u32| {
            let is_free = matches!(doing[at as usize], Doing::Nothing) && !self.is_blocked(at);
            self.is_alive(at) && is_free
        };
        let Some(&at) = round.origins.iter().find(may_join) else { return Ok(false) };
        self.join_round(at)?;
        Ok(true)
    }

    pub(super) fn is_of_window(&self, comm: usize) -> bool {
        self.window_comm == Some(comm)
    }

    /// Only a loss is an excuse.
    fn check_window_error(&self, at: u32, target: Option<u32>, error: Error) -> Outcome {
        let mut of = (0..self.count() as u32).filter(|&of| target.is_none_or(|target| target == of));
        if of.any(|of| self.model.losses(at, of).contains(&error)) {
            return Ok(());
        }
        Err(format!("process {at}, on the window of {target:?}: {error}"))
    }

    /// Goes on with what has ended. Whether anything had.
    pub(super) fn advance_windows(&mut self) -> Outcome<bool> {
        if self.windows.is_none() {
            return Ok(false);
        }
        let mut went_on = false;
        for at in 0..self.count() as u32 {
            if !self.is_alive(at) || self.is_blocked(at) {
                continue;
            }
            let id = match &self.win().doing[at as usize] {
                Doing::Nothing => continue,
                Doing::Flush(id, _)
                | Doing::Lock(id, _)
                | Doing::Read(id, ..)
                | Doing::Unlock(id, ..)
                | Doing::LockAll(id, _)
                | Doing::UnlockAll(id, _)
                | Doing::Start(id, _)
                | Doing::Complete(id, _)
                | Doing::Fence(id, _) => *id,
            };
            if let Some(completion) = self.take(at, id)? {
                let doing = std::mem::replace(&mut self.win().doing[at as usize], Doing::Nothing);
                self.end_doing(at, doing, completion.error)?;
                went_on = true;
            }
        }
        Ok(self.advance_round()? || went_on)
    }

    fn advance_round(&mut self) -> Outcome<bool> {
        let Some(Round { target, wait, all, .. }) = &self.win().round else { return Ok(false) };
        let (target, wait, all) = (*target, *wait, all.clone());
        if !self.is_alive(target) {
            // Those who have not begun would be told so.
            self.win().round = None;
            return Ok(true);
        }
        if self.is_blocked(target) {
            return Ok(false);
        }
        let ended = match wait {
            Some(id) => self.take(target, id)?.map(|completion| completion.error.map_or(Ok(()), Err)),
            None => match self.nodes[target as usize].0.windows().test(WINDOW, all) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            },
        };
        match ended {
            None => return Ok(false),
            Some(Err(error)) => {
                self.check_window_error(target, None, error)?;
                self.win().is_round_broken = true;
            }
            Some(Ok(())) => {
                let Some(Round { origins, puts, .. }) = self.win().round.take() else { return Ok(true) };
                if !origins.is_empty() {
                    return Err(format!("the epoch of {target} ends before {origins:?} have begun theirs"));
                }
                for (origin, number) in puts {
                    self.win().targets[target as usize].slots[origin as usize] = Some(number);
                    self.check_slot(target, origin)?;
                }
            }
        }
        self.win().round = None;
        Ok(true)
    }

    fn end_doing(&mut self, at: u32, doing: Doing, error: Option<Error>) -> Outcome {
        if let Some(error) = error {
            self.check_window_error(at, None, error)?;
        }
        self.win().doing[at as usize] = Doing::Nothing;
        match doing {
            Doing::Nothing => Ok(()),
            Doing::Flush(_, ops) | Doing::UnlockAll(_, ops) => self.end_ops(at, ops, true),
            Doing::Complete(_, ops) => self.end_ops(at, ops, false),
            Doing::Fence(_, ops) => {
                self.end_ops(at, ops, true)?;
                self.end_fence(at, error.is_none())
            }
            // Who was not granted a lock has none to give back.
            Doing::Lock(..) | Doing::Start(..) | Doing::LockAll(..) if error.is_some() => Ok(()),
            Doing::Lock(_, target) => {
                let Some(count) = self.memory(word(0).into_iter()) else { return Err("no memory".into()) };
                let (process, port) = &mut self.nodes[at as usize];
                let place = place(LOCKED * WORD, Layout::bytes(WORD), 1);
                let read = process.windows().get(port, (WINDOW, target, place), count, true);
                self.go_on(at, read, |id| Doing::Read(id, target, count), Vec::new())
            }
            Doing::Read(_, target, count) => {
                let next = word_of(&count) + 1;
                fill(&count, word(next).into_iter());
                if error.is_none() {
                    let (process, port) = &mut self.nodes[at as usize];
                    let put =
                        process.windows().put_row(port, (WINDOW, target, (LOCKED * WORD) as i64), count);
                    match put {
                        Ok(()) => self.win().targets[target as usize].locked_count += 1,
                        Err(error) => self.check_window_error(at, Some(target), error)?,
                    }
                }
                let (process, port) = &mut self.nodes[at as usize];
                let unlocked = process.windows().unlock(port, WINDOW, vec![target], true);
                self.go_on(at, unlocked, |id| Doing::Unlock(id, count), Vec::new())
            }
            Doing::Unlock(_, count) => {
                self.give_back(at, count, "under a lock", 0);
                Ok(())
            }
            Doing::LockAll(_, targets) => {
                let mut ops = Vec::new();
                for &target in &targets {
                    self.begin_sum(at, target, &mut ops)?;
                }
                let (process, port) = &mut self.nodes[at as usize];
                let unlocked = process.windows().unlock(port, WINDOW, targets, true);
                self.go_on(at, unlocked, |id| Doing::UnlockAll(id, Vec::new()), ops)
            }
            Doing::Start(_, target) => {
                let mut ops = Vec::new();
                for _ in 0..1 + self.random.below(OPS_MAX) {
                    self.begin_op(at, target, &mut ops)?;
                }
                let (process, port) = &mut self.nodes[at as usize];
                let completed = process.windows().complete(port, WINDOW, &[target]);
                self.go_on(at, completed, |id| Doing::Complete(id, Vec::new()), ops)
            }
        }
    }

    /// The operations of a process are over; `at_targets`: there, too.
    fn end_ops(&mut self, at: u32, ops: Vec<Op>, at_targets: bool) -> Outcome {
        for op in ops {
            let is_lost = !self.model.losses(at, op.target).is_empty();
            let of = Some(op.target).filter(|_| !matches!(op.what, What::LocalFlush));
            if let Some(id) = op.request {
                match self.take(at, id)? {
                    Some(Completion { error: None, .. }) => {}
                    Some(Completion { error: Some(error), .. }) => {
                        self.check_window_error(at, of, error)?;
                    }
                    None => {
                        return Err(format!("an operation of {at} on {} is flushed and not over", op.target));
                    }
                }
            }
            match (&op.what, &mut self.win().round) {
                _ if is_lost => {}
                // An origin's end may be seen when the target's has been, in another's epoch.
                (What::Put(number), Some(round)) if !at_targets && round.target == op.target => {
                    round.puts.push((at, *number));
                }
                (What::Put(_), _) if !at_targets => {}
                _ => self.check_op(at, &op)?,
            }
            let number = self.win().op_count;
            for buffer in op.memory {
                self.give_back(at, buffer, "of an operation on a window, before", number);
            }
        }
        Ok(())
    }

    fn check_op(&mut self, at: u32, op: &Op) -> Outcome {
        let Op { target, ref what, ref memory, .. } = *op;
        let wrong = |what: String| Err(format!("{what}, of {at} on the window of {target}"));
        let of = &mut self.win().targets[target as usize];
        match *what {
            What::Sum | What::LocalFlush => {}
            What::Fetch => {
                let told = word_of(&memory[0]);
                if of.fetched.contains(&told) || told >= of.fetch_count {
                    return wrong(format!("{told} of {} is fetched again", of.fetch_count));
                }
                of.fetched.push(told);
            }
            What::Swap { compare, new } => {
                if word_of(&memory[0]) == compare {
                    if of.swaps.iter().any(|swap| swap.0 == compare) {
                        return wrong(format!("{compare} is swapped twice"));
                    }
                    of.swaps.push((compare, new));
                }
            }
            What::Put(number) => of.slots[at as usize] = Some(number),
            What::Get(None) => {}
            What::Get(Some(number)) => {
                let read = memory[0].to_vec().unwrap_or_default();
                let is_right = |(byte, value): (usize, &u8)| *value == content(number, byte);
                if let Some(byte) = read.iter().enumerate().position(|read| !is_right(read)) {
                    return wrong(format!(
                        "byte {byte} of what put {number} wrote is read as {:#x}",
                        read[byte]
                    ));
                }
            }
        }
        Ok(())
    }

    /// Everything at windows has ended, and they hold what they must. Then they go.
    pub(super) fn end_windows(&mut self) -> Outcome {
        if self.windows.is_none() {
            return Ok(());
        }
        let alive: Vec<u32> = (0..self.count() as u32).filter(|&at| self.is_alive(at)).collect();
        for &at in &alive {
            if !matches!(self.win().doing[at as usize], Doing::Nothing) {
                let need = self.nodes[at as usize].0.explain();
                return Err(format!("what process {at} does at a window never ends: {need:?}"));
            }
        }
        if let Some(Round { target, all, .. }) = &self.win().round {
            return Err(format!("the epoch of {target} for {all:?} never ends"));
        }
        for &at in &alive {
            self.check_window(at)?;
            let removed = self.nodes[at as usize].0.windows().remove(WINDOW);
            removed.map_err(|error| format!("removing the window of {at}: {error}"))?;
        }
        Ok(())
    }

    fn check_window(&mut self, at: u32) -> Outcome {
        let count = self.count() as u32;
        let has_kept = |of: u32| {
            self.is_alive(of) && self.model.losses(at, of).is_empty() && self.model.losses(of, at).is_empty()
        };
        if !(0..count).all(has_kept) {
            return Ok(());
        }
        let of = &self.win().targets[at as usize];
        let bytes = of.memory.to_vec().unwrap_or_default();
        let word_at = |at: usize| bytes[at * WORD..][..WORD].try_into().map_or(0, u64::from_ne_bytes);
        let last = of.swaps.last().map_or(0, |swap| swap.1);
        let told = [word_at(FETCHED), of.fetched.len() as u64, word_at(LOCKED), word_at(SWAPPED)];
        let expected = [of.fetch_count, of.fetch_count, of.locked_count, last];
        if told != expected {
            return Err(format!("the window of {at} has {told:?} counted, and not {expected:?}"));
        }
        if let Some(sum) = (0..SUM_COUNT).find(|&sum| word_at(SUMS + sum) != of.sums[sum]) {
            return Err(format!("sum {sum} in the window of {at} is wrong"));
        }
        (0..count).try_for_each(|origin| self.check_slot(at, origin))
    }

    /// What an origin has put to a window is there.
    fn check_slot(&mut self, at: u32, origin: u32) -> Outcome {
        let (slot_bytes, length) = (self.win().slot_bytes, self.slot_length());
        let of = &self.win().targets[at as usize];
        let Some(number) = of.slots[origin as usize] else { return Ok(()) };
        let memory = of.memory.part(SLOTS_AT + origin as usize * slot_bytes, slot_bytes);
        let packed = match number.is_multiple_of(2) {
            true => packed(&in_blocks(length, |span| Some(memory.part(0, span)))?.ok_or("no memory")?),
            false => memory.part(0, length).to_vec().unwrap_or_default(),
        };
        match packed.iter().enumerate().position(|(byte, value)| *value != content(number, byte)) {
            None => Ok(()),
            Some(byte) => {
                Err(format!("byte {byte} of put {number} of {origin} into the window of {at} is wrong"))
            }
        }
    }
}

/// Of something that was over at once.
const NO_REQUEST: RequestId = RequestId { index: u32::MAX, generation: 0 };
