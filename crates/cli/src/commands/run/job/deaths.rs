//! Ranks that have ended: noticing it, and whose end is the cause of the others'.

use super::*;

impl Job<'_> {
    /// Notices ranks that have ended.
    pub(super) fn reap(&mut self) {
        let mut is_news = false;
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].status.is_some() {
                continue;
            }
            let Some(status) = self.status_of(rank) else { continue };
            is_news = true;
            self.handle_end(rank, status);
        }
        if !is_news {
            self.reap_adopted();
        }
    }

    /// How a rank has ended, if it has; it stays to be reaped.
    fn status_of(&self, rank: usize) -> Option<Status> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.ranks[rank].pid), options).ok()??;
        Some(match status.terminating_signal() {
            Some(signal) => Status::Killed { signal, is_core_dumped: status.dumped() },
            None => Status::Exited(status.exit_status().unwrap_or(0)),
        })
    }

    /// A rank whose being killed nobody has noticed yet: that another gives up then follows from it, though we hear of
    /// that first.
    pub(super) fn killed_unnoticed(&self, cause: &Cause) -> Option<Cause> {
        let is_giving_up =
            matches!(cause, Cause::Aborted { .. } | Cause::Ended { status: Status::Exited(_), .. });
        let others = (0..self.ranks.len()).filter(|&rank| cause.rank() != Some(rank));
        let mut unnoticed = others.filter(|&rank| is_giving_up && self.ranks[rank].status.is_none());
        unnoticed.find_map(|rank| match self.status_of(rank)? {
            status @ Status::Killed { .. } => Some(Cause::Ended { rank, status }),
            Status::Exited(_) => None,
        })
    }

    pub(super) fn handle_end(&mut self, rank: usize, status: Status) {
        self.ranks[rank].status = Some(status);
        self.running_count -= 1;
        // Its last words, and the abort it may have asked for, come before the news of its death.
        self.read_pmi(rank);
        for which in [Which::Out, Which::Err] {
            self.drain(StreamId { rank, which });
        }
        if rank == 0 {
            self.forward = None;
        }
        if self.spec.is_verbose {
            let line = format!("{} {}", self.who(rank), describe_status(status));
            self.outputs.message(&line);
        }
        match status {
            Status::Exited(0) if self.server.phase(rank) == Phase::Initialised => {
                self.end(Cause::NotFinalized { rank });
            }
            Status::Exited(0) => self.check_absent(),
            // The user's signal did what it is for.
            Status::Killed { signal, .. } if self.passed_on == Some(signal) => {
                self.end(Cause::Interrupted { signal });
            }
            status => self.end(Cause::Ended { rank, status }),
        }
        if self.running_count == 0 {
            self.kill_at = None;
            self.give_up_at = None;
            let wait = if self.cause.is_some() { GRACE / 5 } else { DRAIN };
            self.drained_at = Some(Instant::now() + wait);
            if self.cause.is_some() {
                self.kill_everything(Signal::KILL);
            }
        }
    }

    /// Nobody may wait for a rank that has gone.
    pub(super) fn check_absent(&mut self) {
        if self.server.is_barrier_pending()
            && let Some(rank) = self.ranks.iter().position(|rank| rank.status.is_some())
        {
            self.end(Cause::Absent { rank });
        }
    }
}
