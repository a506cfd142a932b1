//! Inquiries of `ayatori why`, and SIGUSR1: every host is asked. When all have answered, or at the time
//! limit, the asker gets the answers so far.

use crate::why::listen::Listener;
use crate::why::printing::Printing;
use crate::why::report::{HostReport, RankReport, Stage};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long hosts may take; a look takes them half a second at most.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The asker.
#[derive(Debug)]
pub(crate) enum Asker {
    /// `ayatori why`.
    Command(UnixStream),
    /// The user, by SIGUSR1.
    Signal(Printing),
}

#[derive(Debug)]
struct Inquiry {
    number: u32,
    asker: Asker,
    /// By host.
    reports: Vec<Option<HostReport>>,
    deadline: Instant,
}

/// The inquiries under way.
#[derive(Debug)]
pub(crate) struct Inquiries {
    listener: Option<Listener>,
    under_way: Vec<Inquiry>,
    last_number: u32,
}

impl Inquiries {
    /// None yet. Without a listener there is SIGUSR1.
    pub(crate) fn new(listener: Option<Listener>) -> Self {
        Self { listener, under_way: Vec::new(), last_number: 0 }
    }

    /// Readable when `ayatori why` asks.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(Listener::fd)
    }

    /// Where `ayatori why` asks.
    pub(crate) fn listener(&self) -> Option<&Listener> {
        self.listener.as_ref()
    }

    /// When an inquiry ends without all answers.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.iter().map(|inquiry| inquiry.deadline).min()
    }

    /// Whether what ranks do is about to be printed.
    pub(crate) fn is_printing(&self) -> bool {
        self.under_way.iter().any(|inquiry| matches!(inquiry.asker, Asker::Signal(_)))
    }

    /// Begins to ask all hosts under the answered number; `reports` are known already.
    pub(crate) fn begin(&mut self, asker: Asker, reports: Vec<Option<HostReport>>, now: Instant) -> u32 {
        self.last_number += 1;
        let (number, deadline) = (self.last_number, now + PATIENCE);
        self.under_way.push(Inquiry { number, asker, reports, deadline });
        number
    }

    /// A host has answered.
    pub(crate) fn on_report(&mut self, number: u32, host: usize, report: HostReport) {
        if let Some(inquiry) = self.under_way.iter_mut().find(|inquiry| inquiry.number == number) {
            inquiry.reports[host] = Some(report);
        }
    }

    /// An inquiry that is over.
    pub(crate) fn poll_over(&mut self, now: Instant) -> Option<(Asker, Vec<Option<HostReport>>)> {
        let is_over =
            |inquiry: &Inquiry| now >= inquiry.deadline || inquiry.reports.iter().all(Option::is_some);
        let at = self.under_way.iter().position(is_over)?;
        let inquiry = self.under_way.remove(at);
        Some((inquiry.asker, inquiry.reports))
    }
}

/// The report of a host that cannot be asked.
pub(crate) fn without_ranks(host: &str, problem: &str) -> HostReport {
    HostReport { host: host.to_owned(), ranks: Vec::new(), problem: Some(problem.to_owned()) }
}

/// Adds ended ranks that no host has reported, each with its process.
pub(crate) fn add_ended(report: &mut HostReport, ended: impl Iterator<Item = (usize, Option<i32>)>) {
    for (number, pid) in ended {
        let rank = number as u32;
        if report.ranks.iter().any(|seen| seen.rank == rank) {
            continue;
        }
        report.ranks.push(RankReport {
            rank,
            pid: pid.unwrap_or(0),
            status: 'X',
            stage: Stage::Left,
            call: None,
            calls_count: 0,
            is_moving: false,
            unchanged_ms: None,
            answer: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inquiry_is_over_with_the_last_answer_or_its_time() {
        let now = Instant::now();
        let mut all = Inquiries::new(None);
        let begin =
            |all: &mut Inquiries| all.begin(Asker::Signal(Printing::default()), vec![None, None], now);
        let first = begin(&mut all);
        assert!(all.is_printing() && all.poll_over(now).is_none());
        all.on_report(first, 0, without_ranks("a", ""));
        assert!(all.poll_over(now).is_none());
        all.on_report(first, 1, without_ranks("b", ""));
        assert!(all.poll_over(now).is_some_and(|(_, reports)| reports.iter().all(Option::is_some)));
        let second = begin(&mut all);
        all.on_report(first, 1, without_ranks("b", "too late"));
        all.on_report(second, 1, without_ranks("b", ""));
        let deadline = all.poll_timeout().expect("one is under way");
        assert!(
            all.poll_over(deadline).is_some_and(|(_, reports)| reports[0].is_none() && reports[1].is_some())
        );
        assert!(!all.is_printing());
    }
}
