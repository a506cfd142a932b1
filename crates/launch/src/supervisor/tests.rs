//! Jobs in virtual time.

use super::*;

const INIT: &[u8] = b"cmd=init pmi_version=1 pmi_subversion=1\n";
const FINALIZE: &[u8] = b"cmd=finalize\n";
const BARRIER: &[u8] = b"cmd=barrier_in\n";
const KILLED: Status = Status::Killed { signal: 9, is_core_dumped: false };

/// A job of some ranks on each host, and the actions it was given.
struct Job {
    supervisor: Supervisor,
    now: Instant,
    said: Vec<String>,
    signals: Vec<i32>,
    finish: Option<bool>,
}

impl Job {
    fn new(shares: &[usize], limits: Limits) -> Self {
        let now = Instant::now();
        let hosts: Vec<String> = (0..shares.len()).map(|host| format!("host{host}")).collect();
        let each = shares.iter().enumerate().flat_map(|(host, &share)| std::iter::repeat_n(host, share));
        let members: Vec<Member> = each.map(|host| Member { host, program: 0 }).collect();
        let names = (hosts, vec!["program".to_owned()]);
        let mut supervisor = Supervisor::new("j", limits, names, &members, &[], false, now);
        for rank in 0..members.len() {
            supervisor.handle_started(rank, 100 + rank as i32, "any");
        }
        Job { supervisor, now, said: Vec::new(), signals: Vec::new(), finish: None }
    }

    /// All ranks are in MPI.
    fn initialised(shares: &[usize]) -> Self {
        let mut job = Job::new(shares, Limits::default());
        for rank in 0..shares.iter().sum() {
            job.pmi(rank, INIT);
        }
        job
    }

    fn poll(&mut self) {
        while let Some(action) = self.supervisor.poll_action() {
            match action {
                Action::Say(line) => self.said.push(line),
                Action::Signal(signal) => self.signals.push(signal),
                Action::Finish(is_early) => assert_eq!(self.finish.replace(is_early), None),
                Action::Pmi(..) | Action::Spawn(..) | Action::Name(..) | Action::Apart => {}
            }
        }
    }

    fn pmi(&mut self, rank: usize, bytes: &[u8]) {
        self.supervisor.handle_pmi(rank, bytes, self.now);
        self.poll();
    }

    fn end(&mut self, rank: usize, status: Status) {
        self.supervisor.handle_ended(rank, status, self.now);
        self.poll();
    }

    /// Goes to the next deadline; how long it takes.
    fn wait(&mut self) -> Option<Duration> {
        let due = self.supervisor.poll_timeout()?;
        let waited = due.duration_since(self.now);
        self.now = due;
        self.supervisor.handle_timeout(due);
        self.poll();
        Some(waited)
    }

    /// Until nothing is due.
    fn settle(&mut self) {
        while self.wait().is_some() {}
    }
}

#[test]
fn ranks_that_exit_with_0_end_the_job_with_0() {
    let mut job = Job::initialised(&[2]);
    for rank in 0..2 {
        job.pmi(rank, FINALIZE);
        job.end(rank, Status::Exited(0));
    }
    assert_eq!((job.finish, job.supervisor.exit_code(), job.said.len()), (Some(false), 0, 0));
    assert_eq!(job.wait(), None);
}

#[test]
fn a_failure_ends_the_others_by_sigterm_then_sigkill() {
    let mut job = Job::initialised(&[3]);
    job.end(1, Status::Exited(42));
    assert_eq!(job.signals, [SIGTERM, SIGCONT]);
    assert_eq!(job.wait(), Some(Limits::default().hearsay));
    assert_eq!(job.said, ["rank 1 on host0 (pid 101) exited with code 42; ending the other 2 ranks"]);
    assert_eq!(job.wait(), Some(Limits::default().grace - Limits::default().hearsay));
    assert_eq!(job.signals, [SIGTERM, SIGCONT, SIGKILL]);
    job.end(0, KILLED);
    job.end(2, KILLED);
    assert_eq!((job.finish, job.supervisor.exit_code()), (Some(true), 42));
    assert_eq!(job.said.len(), 1);
}

#[test]
fn ranks_that_sigkill_does_not_end_are_left_behind() {
    let mut job = Job::initialised(&[2]);
    job.end(1, Status::Exited(1));
    job.settle();
    assert_eq!(job.finish, Some(true));
    assert_eq!(job.said[1], "SIGKILL does not end rank 0 on host0 (pid 100); left behind");
}

#[test]
fn failure_after_finalize_ends_no_finalized_rank() {
    let mut job = Job::initialised(&[3]);
    for rank in 0..3 {
        job.pmi(rank, FINALIZE);
    }
    job.end(1, Status::Exited(1));
    assert_eq!(job.said, ["rank 1 on host0 (pid 101) exited with code 1 after MPI_Finalize"]);
    job.settle();
    assert_eq!((job.signals.as_slice(), job.finish), (&[][..], None), "the others take the time they need");
    job.end(0, Status::Exited(0));
    job.end(2, Status::Exited(2));
    assert_eq!((job.finish, job.supervisor.exit_code()), (Some(false), 1));
    assert_eq!(job.said.len(), 1);
}

#[test]
fn a_rank_that_has_come_back_is_missed_when_it_fails() {
    let mut job = Job::initialised(&[3]);
    for rank in 0..3 {
        job.pmi(rank, FINALIZE);
    }
    // A session after MPI_Finalize; the third rank has none.
    job.pmi(0, INIT);
    job.pmi(1, INIT);
    job.end(2, Status::Exited(0));
    assert_eq!((job.signals.as_slice(), job.finish), (&[][..], None));
    job.end(1, Status::Killed { signal: 9, is_core_dumped: false });
    assert_eq!(job.signals, [SIGTERM, SIGCONT], "rank 0 may wait for it");
}

#[test]
fn ranks_about_to_finalize_get_time_after_a_late_failure() {
    let mut job = Job::initialised(&[3]);
    job.pmi(1, FINALIZE);
    job.end(1, Status::Exited(3));
    assert_eq!(job.signals, [0; 0]);
    job.pmi(0, FINALIZE);
    job.end(0, Status::Exited(0));
    assert_eq!(job.wait(), Some(Limits::default().finalize));
    assert_eq!(job.signals, [SIGTERM, SIGCONT], "rank 2 never finalizes");
    job.settle();
    assert!(job.said[1].ends_with("exited with code 3; ending the other rank"), "{:?}", job.said);
    assert_eq!(job.supervisor.exit_code(), 3);
}

#[test]
fn an_abort_keeps_its_reason_though_its_rank_has_ended() {
    let mut job = Job::initialised(&[2]);
    job.pmi(1, b"cmd=abort exitcode=7 message=out of cheese\n");
    job.end(1, Status::Exited(7));
    job.settle();
    assert!(job.said[0].contains("aborted the job with code 7: out of cheese"), "{:?}", job.said);
}

#[test]
fn a_killed_rank_is_the_cause_though_others_gave_up_first() {
    let mut job = Job::initialised(&[1, 2]);
    job.end(0, Status::Exited(5));
    job.end(2, KILLED);
    job.settle();
    assert!(job.said[0].starts_with("rank 2 on host1 (pid 102) was killed by signal 9"), "{:?}", job.said);
    assert_eq!(job.supervisor.exit_code(), 137);
}

#[test]
fn a_lost_host_is_the_cause_though_its_ranks_come_first() {
    let mut job = Job::initialised(&[1, 2]);
    job.end(2, KILLED);
    job.supervisor.handle_host_lost(1, "its agent was killed".into(), job.now);
    job.settle();
    assert_eq!(job.said[0], "host host1: its agent was killed; ending 1 rank");
    // Much later nothing lies behind it.
    job.supervisor.handle_host_lost(0, "its agent was killed".into(), job.now);
    job.settle();
    assert_eq!((job.said.len(), job.finish), (2, Some(true)), "{:?}", job.said);
}

#[test]
fn the_timeout_and_a_closed_connection_end_the_job() {
    let limits = Limits { job: Some(Duration::from_secs(7)), ..Limits::default() };
    let mut job = Job::new(&[2], limits);
    assert_eq!(job.wait(), Some(Duration::from_secs(7)));
    job.settle();
    assert_eq!(
        (job.said[0].as_str(), job.supervisor.exit_code()),
        ("--timeout 7 s has run out; ending 2 ranks", 124)
    );

    let mut job = Job::initialised(&[2]);
    job.supervisor.handle_pmi_closed(1, job.now);
    assert_eq!(job.wait(), Some(Limits::default().hang_up));
    job.settle();
    assert!(job.said[0].contains("closed its connection"), "{:?}", job.said);
}

#[test]
fn no_rank_waits_for_one_that_has_gone() {
    let mut job = Job::initialised(&[3]);
    job.pmi(1, FINALIZE);
    job.end(1, Status::Exited(0));
    assert_eq!(job.signals, [0; 0]);
    job.pmi(0, BARRIER);
    job.settle();
    assert!(job.said[0].contains("rank 1") && job.said[0].contains("other ranks wait"), "{:?}", job.said);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let mut job = Job::initialised(&[2]);
    job.supervisor.handle_signal(2, true, job.now);
    job.poll();
    assert_eq!((job.signals.as_slice(), job.supervisor.poll_timeout()), (&[2][..], None));
    job.supervisor.handle_signal(2, true, job.now);
    job.wait();
    assert_eq!(job.signals, [2, SIGTERM, SIGCONT, SIGKILL]);
    assert_eq!((job.said[0].as_str(), job.supervisor.exit_code()), ("ended by SIGINT", 130));
}

#[test]
fn surviving_job_goes_on_without_a_killed_rank_and_ends_well() {
    let mut job = Job::new(&[3], Limits { survives: true, ..Limits::default() });
    (0..3).for_each(|rank| job.pmi(rank, INIT));
    // The others wait for all that are left, whether before the death or after.
    job.pmi(0, BARRIER);
    job.end(2, KILLED);
    assert!(job.said[0].ends_with("; the others go on") && job.signals.is_empty(), "{:?}", job.said);
    job.pmi(1, BARRIER);
    for rank in [0, 1] {
        job.pmi(rank, FINALIZE);
        job.end(rank, Status::Exited(0));
    }
    assert_eq!((job.finish, job.supervisor.exit_code()), (Some(false), 0));
}

#[test]
fn a_job_goes_on_without_a_rank_that_no_other_needs() {
    const SPARE: &[u8] = b"cmd=put kvsname=kvs_j key=ayatori-spare value=1\n";
    let mut job = Job::initialised(&[2, 2]);
    (1..4).for_each(|rank| job.pmi(rank, SPARE));
    job.end(1, KILLED);
    job.supervisor.handle_host_lost(1, "the connection closed".into(), job.now);
    job.poll();
    assert_eq!((job.said.len(), job.signals.is_empty()), (3, true), "{:?}", job.said);
    // The last one ends it, and so does one that has not said so.
    job.end(0, KILLED);
    assert_eq!((job.finish, job.supervisor.exit_code()), (Some(true), 137));
    let mut job = Job::initialised(&[2]);
    job.pmi(1, SPARE);
    job.end(0, KILLED);
    assert_eq!(job.signals, [SIGTERM, SIGCONT]);
}

#[test]
fn the_last_rank_that_dies_ends_a_job_that_survives() {
    let mut job = Job::new(&[2], Limits { survives: true, ..Limits::default() });
    (0..2).for_each(|rank| job.pmi(rank, INIT));
    job.end(0, KILLED);
    job.end(1, KILLED);
    assert_eq!((job.finish, job.supervisor.exit_code()), (Some(true), 137));
}

#[test]
fn a_world_that_fails_ends_its_parents_unless_they_survive() {
    for survives in [true, false] {
        let mut job = Job::new(&[2], Limits { survives, ..Limits::default() });
        (0..2).for_each(|rank| job.pmi(rank, INIT));
        job.supervisor.handle_world_failed(137, false, job.now);
        job.poll();
        // It may follow from something that has not been heard of yet.
        assert_eq!(job.wait().is_some(), !survives);
        assert_eq!(job.said[0].ends_with("; the others go on"), survives, "{:?}", job.said);
        assert_eq!(job.signals.is_empty(), survives);
        if survives {
            for rank in [0, 1] {
                job.pmi(rank, FINALIZE);
            }
            (0..2).for_each(|rank| job.end(rank, Status::Exited(0)));
            assert_eq!((job.finish, job.supervisor.exit_code()), (Some(false), 0));
        }
    }
}

#[test]
fn a_rank_that_dies_before_mpi_init_ends_a_job_that_survives() {
    let mut job = Job::new(&[2], Limits { survives: true, ..Limits::default() });
    job.pmi(0, INIT);
    job.end(1, KILLED);
    assert!(!job.signals.is_empty());
}
