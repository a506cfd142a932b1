//! Inquiries of `ayatori why`, and SIGUSR1: every agent is asked, and when all have told or time is over, who wanted to know
//! gets what there is.

use super::super::why::{Door, Printing, Question, reply};
use super::wire::Message;
use super::{Host, Rank, Run};
use crate::commands::why::LaunchersAnswer;
use crate::why::report::{HostReport, RankReport, Stage};
use crate::why::show::Heading;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long agents may take; looking takes them half a second at most.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Who wants to know.
enum For {
    Asker(UnixStream),
    Print(Printing),
}

struct Inquiry {
    number: u32,
    of: For,
    /// By host.
    reports: Vec<Option<HostReport>>,
    deadline: Instant,
}

impl Inquiry {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline || self.reports.iter().all(Option::is_some)
    }
}

/// The inquiries under way.
pub(super) struct Inquiries {
    job: String,
    door: Option<Door>,
    under_way: Vec<Inquiry>,
    last_number: u32,
}

impl Inquiries {
    /// None yet. Where the door cannot be opened SIGUSR1 is left.
    pub(super) fn new(job: &str) -> Self {
        Self { job: job.to_owned(), door: Door::open(job).ok(), under_way: Vec::new(), last_number: 0 }
    }

    /// Readable when somebody asks.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.door.as_ref().map(Door::fd)
    }

    /// When an inquiry ends without all.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.iter().map(|inquiry| inquiry.deadline).min()
    }

    /// A host has told.
    pub(super) fn on_report(&mut self, number: u32, host: usize, report: HostReport) {
        if let Some(inquiry) = self.under_way.iter_mut().find(|inquiry| inquiry.number == number) {
            inquiry.reports[host] = Some(report);
        }
    }
}

impl Run<'_> {
    /// Begins to ask all agents.
    fn inquire(&mut self, of: For) {
        self.inquiries.last_number += 1;
        let number = self.inquiries.last_number;
        let reports = self.hosts.iter().map(|host| self.report_of_lost(host)).collect();
        self.inquiries.under_way.push(Inquiry { number, of, reports, deadline: Instant::now() + PATIENCE });
        for host in 0..self.hosts.len() {
            self.send(host, &Message::Ask(number));
        }
    }

    /// Of a host that cannot be asked any more it is known that it cannot.
    fn report_of_lost(&self, host: &Host) -> Option<HostReport> {
        let problem = Some("is lost".to_owned());
        host.channel.is_none().then(|| HostReport { host: host.name.clone(), ranks: Vec::new(), problem })
    }

    /// Who asks at the door.
    pub(super) fn hear_askers(&mut self) {
        let Some((socket, question)) = self.inquiries.door.as_ref().and_then(Door::accept) else { return };
        match question {
            Question::Who => reply(socket, self.answer(Vec::new())),
            Question::Why => self.inquire(For::Asker(socket)),
        }
    }

    /// SIGUSR1 has come.
    pub(super) fn print_why(&mut self) {
        let is_print = |inquiry: &Inquiry| matches!(inquiry.of, For::Print(_));
        if !self.inquiries.under_way.iter().any(is_print) {
            self.inquire(For::Print(Printing::default()));
        }
    }

    /// Answers those whose inquiries are over.
    pub(super) fn answer_askers(&mut self, now: Instant) {
        while let Some(at) = self.inquiries.under_way.iter().position(|inquiry| inquiry.is_over(now)) {
            let Inquiry { of, reports, .. } = self.inquiries.under_way.remove(at);
            let reports = self.completed(reports);
            match of {
                For::Asker(socket) => reply(socket, self.answer(reports)),
                For::Print(mut printing) => {
                    let heading = Heading {
                        job: self.inquiries.job.clone(),
                        program: self.spec.programs(),
                        age_ms: Some(self.age_ms()),
                        ranks_count: Some(self.ranks.len() as u32),
                        limits: Vec::new(),
                    };
                    match printing.on_reports(reports, &heading) {
                        Some(text) => self.outputs.message(text.trim_end()),
                        None => self.inquire(For::Print(printing)),
                    }
                }
            }
        }
    }

    /// Hosts that have not told say so; ranks that have ended are added where nobody has seen them.
    fn completed(&self, reports: Vec<Option<HostReport>>) -> Vec<HostReport> {
        let all = reports.into_iter().enumerate().map(|(host, report)| {
            let name = &self.hosts[host].name;
            let problem = || Some("its agent has not told in time".to_owned());
            let mut report = report.unwrap_or_else(|| HostReport {
                host: name.clone(),
                ranks: Vec::new(),
                problem: problem(),
            });
            let its = self.ranks.iter().enumerate().filter(|(_, rank)| rank.host == host);
            for (number, rank) in its.filter(|(_, rank)| rank.status.is_some()) {
                if !report.ranks.iter().any(|seen| seen.rank as usize == number) {
                    report.ranks.push(ended(number, rank));
                }
            }
            report
        });
        all.collect()
    }

    fn answer(&self, hosts: Vec<HostReport>) -> Vec<u8> {
        let answer = LaunchersAnswer {
            program: self.spec.programs(),
            age_ms: self.age_ms(),
            ranks_count: self.ranks.len() as u32,
            launcher: rustix::process::getpid().as_raw_nonzero().get(),
            hosts,
        };
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn ended(number: usize, rank: &Rank) -> RankReport {
    RankReport {
        rank: number as u32,
        pid: rank.pid.unwrap_or(0),
        status: 'X',
        stage: Stage::Left,
        call: None,
        calls_count: 0,
        is_moving: false,
        unchanged_ms: None,
        answer: None,
    }
}
