//! Fences of the window of a world of two processes.

use ayatori_core::request::{Completion, Posted};

use super::super::{Outcome, World};
use super::{Doing, OPS_MAX, Op, WINDOW, What, Windows};
use crate::fuzz::Feature;

/// A fence that somebody has come to.
#[derive(Default)]
pub(super) struct Fence {
    /// Those that have come, and those for whom it is over.
    come: Vec<u32>,
    over: Vec<u32>,
    /// What was put before it: target, origin and content.
    puts: Vec<(u32, u32, usize)>,
}

impl World<'_> {
    /// Operations, and a fence behind them, which all come to.
    pub(super) fn come_to_fence(&mut self, at: u32) -> Outcome {
        if self.win().round.is_some() || !self.may_fence(at) {
            return Ok(());
        }
        self.log(format!("{at} comes to a fence"));
        self.report.cover(Feature::WindowFence);
        let mut ops = Vec::new();
        for _ in 0..self.random.below(OPS_MAX) {
            let target = self.pick_target(at);
            self.begin_op(at, target, &mut ops)?;
        }
        let fence = self.win().fence.get_or_insert_default();
        fence.come.push(at);
        let put =
            |op: &Op| if let What::Put(number) = op.what { Some((op.target, at, number)) } else { None };
        fence.puts.extend(ops.iter().filter_map(put));
        let (process, port) = &mut self.nodes[at as usize];
        let fenced = process.windows().begin_fence(port, WINDOW).and_then(|number| {
            // As the library does.
            match process.windows().fenced(WINDOW, number) {
                None => process.windows().fence(WINDOW, number),
                Some(over) => over.map(|()| Posted::Done(Completion::EMPTY)),
            }
        });
        self.go_on(at, fenced, |id| Doing::Fence(id, Vec::new()), ops)
    }

    /// Whether a process is to come to the fence of the others, or may be the first one. After a loss nobody
    /// begins one.
    fn may_fence(&self, at: u32) -> bool {
        let has_come = |fence: &Fence| fence.come.contains(&at);
        let Some(Windows { fence, doing, .. }) = &self.windows else { return false };
        let is_free = matches!(doing[at as usize], Doing::Nothing) && !self.is_blocked(at);
        let has_all = (0..self.count() as u32).all(|of| self.model.losses(at, of).is_empty());
        self.is_alive(at) && is_free && has_all && !fence.as_ref().is_some_and(has_come)
    }

    /// A fence is over for a process, for which `is_right`.
    pub(super) fn end_fence(&mut self, at: u32, is_right: bool) -> Outcome {
        let Some(Fence { over, puts, .. }) = &mut self.win().fence else { return Ok(()) };
        over.push(at);
        let puts = if is_right { puts.clone() } else { Vec::new() };
        let (process, _) = &mut self.nodes[at as usize];
        let is_settled = process.windows().is_settled(WINDOW);
        for (target, origin, number) in puts {
            let of = &mut self.win().targets[target as usize];
            let is_there = target == at || (origin == at && is_settled);
            // What an origin puts from now on may be there already.
            if is_there && of.begun[origin as usize] == Some(number) {
                of.slots[origin as usize] = Some(number);
                self.check_slot(target, origin)?;
            }
        }
        self.forget_fence();
        Ok(())
    }

    /// A fence ends that is over for all, or that those who are left do not come to any more.
    fn forget_fence(&mut self) {
        let Some(Windows { fence: Some(Fence { come, over, .. }), .. }) = &self.windows else { return };
        let stays_out = |at: u32| {
            let has_lost = (0..self.count() as u32).any(|of| !self.model.losses(at, of).is_empty());
            !come.contains(&at) && has_lost
        };
        if (0..self.count() as u32).all(|at| over.contains(&at) || !self.is_alive(at) || stays_out(at)) {
            self.win().fence = None;
        }
    }

    /// In a world that has healed: all come to the fence that one has come to.
    pub(super) fn join_fence(&mut self) -> Outcome<bool> {
        self.forget_fence();
        if self.windows.as_ref().is_none_or(|windows| windows.fence.is_none()) {
            return Ok(false);
        }
        let Some(at) = (0..self.count() as u32).find(|&at| self.may_fence(at)) else { return Ok(false) };
        self.come_to_fence(at)?;
        Ok(true)
    }
}
