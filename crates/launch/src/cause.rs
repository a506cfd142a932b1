//! Why a job ended before its time: what is said, and with which code `ayatori run` exits.

use crate::status::{Status, signal_name};
use signal_hook::consts::SIGTERM;
use std::fmt::Write;
use std::time::Duration;

/// The cause of the job's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A rank exited with a code that is not 0, or died of a signal.
    Ended { rank: usize, status: Status },
    /// A rank exited with code 0 between `MPI_Init` and `MPI_Finalize`.
    NotFinalized { rank: usize },
    /// A rank exited while others wait for it in `MPI_Init` or `MPI_Finalize`.
    Absent { rank: usize },
    /// A rank closed its connection between `MPI_Init` and `MPI_Finalize` and lives on.
    HungUp { rank: usize },
    /// A rank called `MPI_Abort`, or its library did.
    Aborted { rank: usize, exitcode: i32, message: Option<String> },
    /// A rank sent nonsense.
    Violation { rank: usize, why: String },
    /// A host is lost, or its agent.
    Host { name: String, why: String },
    /// A world that ranks have started has failed.
    World { code: u8 },
    /// `--timeout` ran out.
    Timeout(Duration),
    /// The user wants it over.
    Interrupted { signal: i32 },
}

/// `--timeout` ran out: what timeout(1) answers.
const TIMED_OUT: u8 = 124;

impl Cause {
    /// What a rank's end is to the job, between `MPI_Init` and `MPI_Finalize` or not, after the user's signal
    /// was passed on or not. `None`: nothing, unless others wait for the rank.
    pub(crate) fn of_end(
        rank: usize,
        status: Status,
        is_initialised: bool,
        passed_on: Option<i32>,
    ) -> Option<Self> {
        match status {
            Status::Exited(0) if is_initialised => Some(Cause::NotFinalized { rank }),
            Status::Exited(0) => None,
            // The user's signal did what it is for.
            Status::Killed { signal, .. } if passed_on == Some(signal) => Some(Cause::Interrupted { signal }),
            status => Some(Cause::Ended { rank, status }),
        }
    }

    /// The rank whose doing it was.
    pub(crate) fn rank(&self) -> Option<usize> {
        match *self {
            Cause::Ended { rank, .. }
            | Cause::NotFinalized { rank }
            | Cause::Absent { rank }
            | Cause::HungUp { rank }
            | Cause::Aborted { rank, .. }
            | Cause::Violation { rank, .. } => Some(rank),
            Cause::Host { .. } | Cause::World { .. } | Cause::Timeout(_) | Cause::Interrupted { .. } => None,
        }
    }

    /// How many ranks end because of it, of `running_count` that still run: not the one whose doing it was,
    /// and none where the user's signal is what ends them.
    pub(crate) fn others_count(&self, running_count: usize, is_running: impl FnOnce(usize) -> bool) -> usize {
        match self {
            Cause::Interrupted { .. } => 0,
            _ => running_count.saturating_sub(self.rank().is_some_and(is_running).into()),
        }
    }

    /// How far back in the chain of what follows from what: a lost host kills its ranks, and for want of a
    /// killed rank others give up. `None`: such a cause has nothing to do with others.
    fn depth(&self) -> Option<u8> {
        match self {
            Cause::Aborted { .. } | Cause::Ended { status: Status::Exited(_), .. } => Some(0),
            // By us, perhaps: a job that ends gets this one.
            Cause::Ended { status: Status::Killed { signal: SIGTERM, .. }, .. } => Some(0),
            Cause::Ended { status: Status::Killed { .. }, .. } => Some(1),
            // What a rank here says of a process there that is gone follows from it.
            Cause::World { .. } => Some(1),
            Cause::Host { .. } => Some(2),
            _ => None,
        }
    }

    /// Whether another cause may lie behind this one.
    pub(crate) fn may_follow(&self) -> bool {
        self.depth().is_some_and(|depth| depth < 2)
    }

    /// Whether this, though heard later, is what `known` follows from.
    pub(crate) fn is_behind(&self, known: &Cause) -> bool {
        matches!((self.depth(), known.depth()), (Some(this), Some(that)) if this > that)
    }

    /// What the process answers to the shell. A job that was ended early never answers 0.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Cause::Ended { status: Status::Exited(code), .. } | Cause::Aborted { exitcode: code, .. } => {
                // The shell sees the low 8 bits; 256 must not look like success.
                u8::try_from(code & 0xff).ok().filter(|&code| code != 0).unwrap_or(1)
            }
            Cause::Ended { status: Status::Killed { signal, .. }, .. } | Cause::Interrupted { signal } => {
                u8::try_from(signal.saturating_add(128)).unwrap_or(255)
            }
            Cause::World { code } => *code,
            Cause::Timeout(_) => TIMED_OUT,
            _ => 1,
        }
    }

    /// One line for the user. `who` names the rank that [`Cause::rank`] gives; `others_count` ranks still
    /// run.
    pub(crate) fn describe(&self, who: &str, others_count: usize) -> String {
        let mut line = match self {
            Cause::Ended { status, .. } => format!("{who} {}", status.describe()),
            Cause::NotFinalized { .. } => {
                format!("{who} exited with code 0 after MPI_Init and without MPI_Finalize")
            }
            Cause::Absent { .. } => {
                format!("{who} has exited, and other ranks wait for it in MPI_Init or MPI_Finalize")
            }
            Cause::HungUp { .. } => {
                format!("{who} closed its connection to the launcher without MPI_Finalize")
            }
            Cause::Aborted { exitcode, message, .. } => {
                let mut line = format!("{who} aborted the job with code {exitcode}");
                if let Some(message) = message {
                    let _ = write!(line, ": {message}");
                }
                line
            }
            Cause::Violation { why, .. } => {
                format!("{who} sent the launcher data that is no PMI-1 request: {why}")
            }
            Cause::Host { name, why } => format!("host {name}: {why}"),
            Cause::World { code } => format!("processes started by MPI_Comm_spawn ended with code {code}"),
            Cause::Timeout(limit) => format!("--timeout {} s has run out", limit.as_secs_f64()),
            Cause::Interrupted { signal } => format!("ended by {}", signal_name(*signal)),
        };
        let _ = match (others_count, self.rank().is_some()) {
            (0, _) => Ok(()),
            (1, true) => write!(line, "; ending the other rank"),
            (1, false) => write!(line, "; ending 1 rank"),
            (count, true) => write!(line, "; ending the other {count} ranks"),
            (count, false) => write!(line, "; ending {count} ranks"),
        };
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ended_early_never_answers_success() {
        let ended = |code| Cause::Ended { rank: 0, status: Status::Exited(code) }.exit_code();
        assert_eq!((ended(3), ended(256), ended(-1)), (3, 1, 255));
        assert_eq!(Cause::Aborted { rank: 0, exitcode: 0, message: None }.exit_code(), 1);
        let killed = Status::Killed { signal: 9, is_core_dumped: false };
        assert_eq!(Cause::Ended { rank: 0, status: killed }.exit_code(), 137);
    }

    #[test]
    fn the_others_are_those_that_still_run_and_did_not_do_it() {
        let ended = Cause::Ended { rank: 2, status: Status::Exited(3) };
        assert_eq!(ended.others_count(3, |rank| rank != 2), 3);
        let aborted = Cause::Aborted { rank: 2, exitcode: 3, message: None };
        assert_eq!(aborted.others_count(4, |rank| rank == 2), 3);
        assert_eq!(Cause::Timeout(Duration::from_secs(1)).others_count(4, |_| true), 4);
        // They all got the signal.
        assert_eq!(Cause::Interrupted { signal: 2 }.others_count(4, |_| true), 0);
    }

    #[test]
    fn lost_host_outranks_killed_rank_outranks_rank_that_gave_up() {
        let killed = |signal| Status::Killed { signal, is_core_dumped: false };
        let ended = |status| Cause::Ended { rank: 0, status };
        let gave_up = [
            Cause::Aborted { rank: 1, exitcode: 1, message: None },
            ended(Status::Exited(1)),
            ended(killed(SIGTERM)),
        ];
        let host = Cause::Host { name: "a".into(), why: "gone".into() };
        for cause in &gave_up {
            assert!(cause.may_follow() && ended(killed(9)).is_behind(cause) && host.is_behind(cause));
            assert!(
                !cause.is_behind(&ended(killed(9))) && !gave_up.iter().any(|other| cause.is_behind(other))
            );
        }
        assert!(host.is_behind(&ended(killed(9))) && !host.may_follow());
        let timeout = Cause::Timeout(Duration::from_secs(1));
        assert!(!timeout.may_follow() && !host.is_behind(&timeout) && !timeout.is_behind(&gave_up[0]));
    }

    #[test]
    fn message_names_rank_reason_and_consequence() {
        let status = Status::Killed { signal: 11, is_core_dumped: true };
        let line = Cause::Ended { rank: 1, status }.describe("rank 1 on n (pid 7)", 3);
        let want = "rank 1 on n (pid 7) was killed by signal 11 (SIGSEGV, segmentation fault, core dumped); \
                    ending the other 3 ranks";
        assert_eq!(line, want);
        let line = Cause::Timeout(Duration::from_millis(1500)).describe("", 1);
        assert_eq!(line, "--timeout 1.5 s has run out; ending 1 rank");
        let line = Cause::NotFinalized { rank: 0 }.describe("rank 0", 1);
        assert!(line.ends_with("; ending the other rank"), "{line}");
    }
}
