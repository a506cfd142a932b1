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
            let Some(status) = Status::of_child(self.ranks[rank].pid) else { continue };
            is_news = true;
            self.handle_end(rank, status);
        }
        if !is_news {
            self.reap_adopted();
        }
    }

    fn cause_of(&self, rank: usize, status: Status) -> Option<Cause> {
        let is_initialised = self.server.phase(rank) == Phase::Initialised;
        Cause::of_end(rank, status, is_initialised, self.passed_on)
    }

    /// A rank whose being killed nobody has noticed yet: that another gives up then follows from it, though we hear of
    /// that first.
    pub(super) fn killed_unnoticed(&self, cause: &Cause) -> Option<Cause> {
        let others = (0..self.ranks.len()).filter(|&rank| cause.may_follow() && cause.rank() != Some(rank));
        let unnoticed = others.filter(|&rank| self.ranks[rank].status.is_none());
        let mut causes =
            unnoticed.filter_map(|rank| self.cause_of(rank, Status::of_child(self.ranks[rank].pid)?));
        causes.find(|other| other.is_behind(cause))
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
        match self.cause_of(rank, status) {
            Some(cause) => self.end(cause),
            None => self.check_absent(),
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
