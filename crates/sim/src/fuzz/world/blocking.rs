//! Calls that their caller waits in: `MPI_Send` and `MPI_Recv`. A process in one makes no other.
//!
//! A receive waits in the engine's one direct receive, which nothing can cancel: when the world heals, its
//! message is sent if nobody has sent it.

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::explain::Need;
use ayatori_core::ids::RequestId;

use super::{Outcome, World};
use crate::fuzz::Feature;
use crate::fuzz::model::{Expected, Wanted};

/// What a process waits in.
#[derive(Clone, Copy)]
pub(super) enum Blocked {
    Send(RequestId),
    /// `number` is the model's.
    Receive {
        number: usize,
        buffer: Buffer,
    },
}

impl World<'_> {
    pub(super) fn is_blocked(&self, at: u32) -> bool {
        self.blocked[at as usize].is_some()
    }

    /// `MPI_Recv`.
    pub(super) fn receive_blocking(&mut self, at: u32, wanted: Wanted) -> Outcome {
        if self.nodes[at as usize].0.is_running_collective() {
            return Ok(());
        }
        let Some(buffer) = self.untouched(wanted.capacity) else { return Ok(()) };
        let (source, tag) = self.selectors(&wanted);
        let comm = self.comm_id(wanted.comm, at);
        let number = self.model.post(at, wanted);
        self.log(format!("direct receive {number} at {at}: {wanted:?}"));
        self.report.cover(Feature::ReceiveDirect);
        let (process, port) = &mut self.nodes[at as usize];
        match process.receive_direct(port, comm, buffer, source, tag) {
            Err(error) => self.check_receive_error(number, error),
            Ok(true) => self.end_direct(at, number, buffer),
            Ok(false) => {
                self.blocked[at as usize] = Some(Blocked::Receive { number, buffer });
                Ok(())
            }
        }
    }

    /// Ends the direct receives that are over.
    pub(super) fn collect_direct(&mut self) -> Outcome {
        for at in 0..self.count() as u32 {
            let Some(Blocked::Receive { number, buffer }) = self.blocked[at as usize] else { continue };
            if !self.is_alive(at) {
                continue;
            }
            let process = &mut self.nodes[at as usize].0;
            let need = process.need_of_direct();
            let is_over = process.poll_direct();
            if is_over != (need == Some(Need::Nothing)) {
                return Err(format!("direct receive {number}: over: {is_over}, and it needs {need:?}"));
            }
            if is_over {
                self.blocked[at as usize] = None;
                self.end_direct(at, number, buffer)?;
            }
        }
        Ok(())
    }

    fn end_direct(&mut self, at: u32, number: usize, buffer: Buffer) -> Outcome {
        let completion = *self.nodes[at as usize].0.direct_completion();
        if matches!(completion.error, Some(Error::ProcessAborted(_) | Error::Unreachable(_))) {
            self.report.cover(Feature::LossDuringReceiveDirect);
        }
        self.check_receive(at, number, &completion, &buffer)?;
        self.give_back(at, buffer, "of receive", number);
        Ok(())
    }

    /// A direct receive that waits for a message: its process, and what it wants.
    pub(super) fn pick_awaited(&mut self) -> Option<(u32, Wanted)> {
        let waiting: Vec<(u32, Wanted)> = self.awaited().collect();
        let which = self.random.below(waiting.len().max(1) as u64) as usize;
        waiting.get(which).copied()
    }

    fn awaited(&self) -> impl Iterator<Item = (u32, Wanted)> {
        let alive = (0..self.count() as u32).filter(|&at| self.is_alive(at));
        alive.filter_map(|at| {
            let Some(Blocked::Receive { number, .. }) = self.blocked[at as usize] else { return None };
            let (_, wanted, expected) = self.model.receives[number];
            (expected == Expected::Open).then_some((at, wanted))
        })
    }

    /// A process dies that a direct receive waits for.
    pub(super) fn maybe_crash_awaited(&mut self) {
        if self.habits.crashes
            && self.one_in(20)
            && let Some((_, Wanted { source: Some(source), .. })) = self.pick_awaited()
            && self.is_alive(source)
        {
            self.crash(source);
        }
    }

    /// Sends the messages that direct receives wait for; from anybody is from oneself.
    pub(super) fn answer_direct(&mut self) -> Outcome {
        for (to, wanted) in self.awaited().collect::<Vec<_>>() {
            let from = wanted.source.unwrap_or(to);
            if self.is_alive(from) && self.has_comm(wanted.comm, from) {
                let tag = wanted.tag.unwrap_or(0);
                self.send_plain(from, to, wanted.comm, tag)?;
            }
        }
        Ok(())
    }
}
