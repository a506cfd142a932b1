//! Ranks and hosts that are no more, and whose end is the cause of the others'.

use super::*;

impl Run<'_> {
    /// Why an agent's way has closed.
    pub(super) fn explain_loss(&mut self, host: usize) -> Cause {
        let this = &mut self.hosts[host];
        // Its end follows on the heels of its pipes'.
        let mut status = None;
        for _ in 0..50 {
            status = this.child.try_wait().ok().flatten();
            if status.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let how = match status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => describe_status(Status::Exited(code)),
            Some((_, Some(signal))) => describe_status(Status::Killed { signal, is_core_dumped: false }),
            _ => "has closed its connection".to_owned(),
        };
        let pid = this.child.id();
        let what = if this.is_greeted { "its agent" } else { "the command that was to start its agent" };
        let hint = match status.and_then(|status| status.code()) {
            Some(126 | 127) if !this.is_greeted => std::env::current_exe()
                .map_or_else(|_| String::new(), |own| format!("; is it there, as {}?", own.display())),
            Some(255) if !this.is_greeted => {
                format!("; it could not log in, see above: does 'ssh {} true' work by itself?", this.name)
            }
            _ => String::new(),
        };
        Cause::Host { name: this.name.clone(), why: format!("{what} (pid {pid}) {how}{hint}") }
    }

    /// A host is no more: its ranks die with their agent.
    pub(super) fn lose(&mut self, host: usize, cause: Cause) {
        self.hosts[host].channel = None;
        let _ = self.hosts[host].child.kill();
        let is_needed = self.ranks.iter().any(|rank| rank.host == host && rank.status.is_none());
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].host == host && self.ranks[rank].status.is_none() {
                self.ranks[rank].status = Some(Status::Killed { signal: SIGKILL, is_core_dumped: false });
                self.running_count = self.running_count.saturating_sub(1);
            }
        }
        if is_needed {
            self.end(cause);
        }
    }

    pub(super) fn handle_end(&mut self, rank: usize, status: Status) {
        self.ranks[rank].status = Some(status);
        self.running_count -= 1;
        for which in [Which::Out, Which::Err] {
            self.outputs.end(StreamId { rank, which });
        }
        if self.spec.is_verbose {
            let line = format!("{} {}", self.who(rank), describe_status(status));
            self.outputs.message(&line);
        }
        let is_initialised = self.server.phase(rank) == Phase::Initialised;
        match Cause::of_end(rank, status, is_initialised, self.passed_on) {
            Some(cause) => self.end(cause),
            None => self.check_absent(),
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

    /// Ends the job, for the first cause there is, or for what is heard a moment later and lies behind it.
    pub(super) fn end(&mut self, cause: Cause) {
        let is_first = self.cause.is_none();
        let is_behind = |known: &Cause| self.untold.is_some() && cause.is_behind(known);
        if !self.cause.as_ref().is_none_or(is_behind) {
            return;
        }
        let who = cause.rank().map_or(String::new(), |rank| self.who(rank));
        let is_running = |rank: usize| self.ranks[rank].status.is_none();
        let others_count = cause.others_count(self.running_count, is_running);
        let now = Instant::now();
        let patience = if cause.may_follow() { HEARSAY_PATIENCE } else { Duration::ZERO };
        self.untold = Some((cause.describe(&who, others_count), now + patience));
        self.cause = Some(cause);
        if is_first {
            self.kill_at = Some(now + GRACE);
            self.signal_all(SIGTERM);
            // A stopped rank does not hear SIGTERM.
            self.signal_all(SIGCONT);
        }
    }

    pub(super) fn tell_cause(&mut self) {
        if let Some((line, _)) = self.untold.take() {
            self.outputs.message(&line);
        }
    }
}
