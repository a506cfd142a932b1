//! Matching, naively: lists of everything, searched from the front.

use std::collections::BTreeMap;

use ayatori_core::Error;
use ayatori_core::ids::{ContextId, ProcessId, RequestId, Tag};
use ayatori_core::link::cells_of;

use super::wire::Seen;

/// A communicator: the process of each rank, and where its messages match.
#[derive(Debug, Clone)]
pub(super) struct Members {
    pub(super) of_rank: Vec<u32>,
    /// `None` before the first member has made it.
    pub(super) context: Option<ContextId>,
}

impl Members {
    pub(super) fn rank_of(&self, process: u32) -> Option<u32> {
        self.of_rank.iter().position(|&member| member == process).map(|rank| rank as u32)
    }
}

/// A message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Index into [`Model::comms`].
    pub(super) comm: usize,
    pub(super) tag: Tag,
    pub(super) length: usize,
    /// Its bytes are those of this message: persistent sends repeat themselves.
    pub(super) content: usize,
    /// Cells of credit that it holds while unmatched.
    cells: u32,
    pub(super) matched: bool,
    pub(super) cancelled: bool,
}

impl Sent {
    pub(super) fn new(from: u32, to: u32, comm: usize, tag: Tag, length: usize, content: usize) -> Sent {
        Sent { from, to, comm, tag, length, content, cells: 0, matched: false, cancelled: false }
    }
}

/// What a receive asks for; `None` is any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) comm: usize,
    pub(super) source: Option<u32>,
    pub(super) tag: Option<Tag>,
    pub(super) capacity: usize,
}

impl Wanted {
    fn takes(&self, sent: &Sent) -> bool {
        self.comm == sent.comm
            && self.source.is_none_or(|source| source == sent.from)
            && self.tag.is_none_or(|tag| tag == sent.tag)
    }
}

/// How a receive must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Nothing has been decided.
    Open,
    /// With this message.
    Message(usize),
    /// Cancelled.
    Cancelled,
    /// With this error: a process is gone, or cannot be reached.
    Lost(Error),
}

pub(super) struct Model {
    pub(super) comms: Vec<Members>,
    pub(super) sent: Vec<Sent>,
    /// Of every receive: where, what, and how it must end.
    pub(super) receives: Vec<(u32, Wanted, Expected)>,
    /// Messages arrived and not matched, and receives posted, by process.
    arrived: Vec<Vec<usize>>,
    posted: Vec<Vec<usize>>,
    /// Messages on the way, by from × count + to.
    flying: Vec<Vec<usize>>,
    /// Messages whose senders wish to cancel them.
    cancelling: BTreeMap<(u32, u64), usize>,
    /// Peer losses that a process has heard of, by lost process × count + process.
    lost: Vec<Vec<Error>>,
    /// Peers whose loss a process has heard of, in that order, by process.
    told: Vec<Vec<(u32, Error)>>,
    count: usize,
    credit_cells: Vec<u32>,
}

impl Model {
    /// `credit_cells`: eager data that may be outstanding, by [`pair`](Self::pair).
    pub(super) fn new(count: usize, credit_cells: Vec<u32>) -> Model {
        let lists = || vec![Vec::new(); count];
        Model {
            comms: Vec::new(),
            sent: Vec::new(),
            receives: Vec::new(),
            arrived: lists(),
            posted: lists(),
            flying: vec![Vec::new(); count * count],
            cancelling: BTreeMap::new(),
            lost: vec![Vec::new(); count * count],
            told: vec![Vec::new(); count],
            count,
            credit_cells,
        }
    }

    fn pair(&self, from: u32, to: u32) -> usize {
        from as usize * self.count + to as usize
    }

    /// What `at` has heard of the loss of `of`: that it cannot be reached, that it is gone.
    pub(super) fn losses(&self, at: u32, of: u32) -> &[Error] {
        &self.lost[self.pair(of, at)]
    }

    /// Whether `at` has lost anybody.
    fn has_lost_any(&self, at: u32) -> bool {
        (0..self.count as u32).any(|of| !self.losses(at, of).is_empty())
    }

    /// `at` hears that `of` is lost.
    pub(super) fn lose(&mut self, at: u32, of: u32, error: Error) {
        let pair = self.pair(of, at);
        self.lost[pair].push(error);
        self.told[at as usize].push((of, error));
        self.flying[pair].clear();
        let mut posted = std::mem::take(&mut self.posted[at as usize]);
        posted.retain(|&receive| {
            let (_, wanted, expected) = &mut self.receives[receive];
            let is_member = || self.comms[wanted.comm].rank_of(of).is_some();
            let fails = wanted.source.map_or_else(is_member, |source| source == of);
            if fails {
                *expected = Expected::Lost(error);
            }
            !fails
        });
        self.posted[at as usize] = posted;
    }

    pub(super) fn send(&mut self, number: usize) {
        let Sent { from, to, .. } = self.sent[number];
        if from == to {
            self.arrive(number);
        } else {
            let pair = self.pair(from, to);
            self.flying[pair].push(number);
        }
    }

    fn arrive(&mut self, number: usize) {
        let sent = self.sent[number];
        let posted = &mut self.posted[sent.to as usize];
        let found = posted.iter().position(|&receive| self.receives[receive].1.takes(&sent));
        match found {
            Some(position) => {
                let receive = posted.remove(position);
                self.receives[receive].2 = Expected::Message(number);
                self.sent[number].matched = true;
            }
            None => self.arrived[sent.to as usize].push(number),
        }
    }

    /// Why no message may come any more; from anybody it may have been one of a member that is lost.
    fn cannot_come(&self, at: u32, wanted: &Wanted) -> Option<Error> {
        match wanted.source {
            Some(source) => self.losses(at, source).last().copied(),
            None => {
                let members = &self.comms[wanted.comm];
                let told = self.told[at as usize].iter();
                told.copied().find(|&(of, _)| members.rank_of(of).is_some()).map(|(_, error)| error)
            }
        }
    }

    /// A receive is posted; answers its number.
    pub(super) fn post(&mut self, at: u32, wanted: Wanted) -> usize {
        let number = self.receives.len();
        let expected = match (self.take(at, &wanted), wanted.source) {
            (Some(message), _) => Expected::Message(message),
            (None, _) => match self.cannot_come(at, &wanted) {
                Some(error) => Expected::Lost(error),
                None => {
                    self.posted[at as usize].push(number);
                    Expected::Open
                }
            },
        };
        self.receives.push((at, wanted, expected));
        number
    }

    /// A receive of a message that a matched probe has taken.
    pub(super) fn post_matched(&mut self, at: u32, wanted: Wanted, message: usize) -> usize {
        self.receives.push((at, wanted, Expected::Message(message)));
        self.receives.len() - 1
    }

    pub(super) fn find(&self, at: u32, wanted: &Wanted) -> Option<usize> {
        self.arrived[at as usize].iter().copied().find(|&message| wanted.takes(&self.sent[message]))
    }

    pub(super) fn take(&mut self, at: u32, wanted: &Wanted) -> Option<usize> {
        let number = self.find(at, wanted)?;
        self.arrived[at as usize].retain(|&message| message != number);
        self.sent[number].matched = true;
        Some(number)
    }

    /// Messages at a process that nothing has taken, in order of arrival.
    pub(super) fn arrived(&self, at: u32) -> &[usize] {
        &self.arrived[at as usize]
    }

    /// How many receives wait at a process, and how many messages.
    pub(super) fn waiting_counts(&self, at: u32) -> (usize, usize) {
        (self.posted[at as usize].len(), self.arrived[at as usize].len())
    }

    /// Whether no message and no receive of a communicator waits anywhere.
    pub(super) fn is_idle(&self, comm: usize) -> bool {
        let messages = self.arrived.iter().chain(&self.flying).flatten();
        let receives = self.posted.iter().flatten();
        messages.into_iter().all(|&number| self.sent[number].comm != comm)
            && receives.into_iter().all(|&number| self.receives[number].1.comm != comm)
    }

    pub(super) fn cancel_receive(&mut self, number: usize) {
        let (at, _, expected) = &mut self.receives[number];
        if *expected == Expected::Open {
            *expected = Expected::Cancelled;
            self.posted[*at as usize].retain(|&receive| receive != number);
        }
    }

    /// A sender's engine says at once that the message is cancelled: it must not have been matched.
    pub(super) fn cancelled_at_once(&mut self, number: usize) -> Result<(), String> {
        let Sent { from, to, matched, .. } = self.sent[number];
        let pair = self.pair(from, to);
        self.flying[pair].retain(|&message| message != number);
        self.arrived[to as usize].retain(|&message| message != number);
        self.sent[number].cancelled = true;
        if matched {
            return Err(format!("message {number} was cancelled although it was matched"));
        }
        Ok(())
    }

    pub(super) fn cancel_send(&mut self, from: u32, request: RequestId, number: usize) {
        self.cancelling.insert((from, request.to_bits()), number);
    }

    pub(super) fn see(&mut self, seen: Seen) -> Result<(), String> {
        match seen {
            Seen::Envelope { from, to, context, eager } => {
                if self.comms.iter().all(|comm| comm.context != Some(context)) {
                    // Of a collective operation.
                    return Ok(());
                }
                let pair = self.pair(from, to);
                if !self.lost[pair].is_empty() {
                    return Ok(());
                }
                if self.flying[pair].is_empty() {
                    return Err(format!("process {to} sees a message of {from} that nobody sent"));
                }
                let number = self.flying[pair].remove(0);
                if eager {
                    self.sent[number].cells = cells_of(self.sent[number].length);
                }
                self.arrive(number);
                self.check_credit_window(from, to)
            }
            // Who has given a peer up takes nothing from it any more.
            Seen::Cancel { from, to, .. } if !self.losses(to, from).is_empty() => Ok(()),
            Seen::Cancel { from, to, request } => {
                let Some(number) = self.cancelling.remove(&(from, request.to_bits())) else {
                    // The messages of a collective operation that failed.
                    if self.has_lost_any(from) {
                        return Ok(());
                    }
                    return Err(format!("{from} cancels a message to {to} that it was not asked to cancel"));
                };
                let before = self.arrived[to as usize].len();
                self.arrived[to as usize].retain(|&message| message != number);
                self.sent[number].cancelled = self.arrived[to as usize].len() < before;
                Ok(())
            }
            Seen::Gone { from, to } => {
                self.lose(to, from, Error::ProcessAborted(ProcessId(from)));
                Ok(())
            }
            Seen::Bye { from, to } => {
                if self.losses(from, to).is_empty() {
                    return Err(format!("process {from} says goodbye to {to}, which it has not given up"));
                }
                if self.losses(to, from).is_empty() {
                    self.lose(to, from, Error::Unreachable(ProcessId(from)));
                }
                Ok(())
            }
        }
    }

    /// Nobody holds more of a peer's eager data than it gave credit for.
    fn check_credit_window(&self, from: u32, to: u32) -> Result<(), String> {
        let waiting = self.arrived[to as usize].iter().map(|&number| &self.sent[number]);
        let cells: u32 = waiting.filter(|sent| sent.from == from).map(|sent| sent.cells).sum();
        let most = self.credit_cells[self.pair(from, to)];
        if cells > most && from != to {
            return Err(format!(
                "process {to} holds {cells} cells of eager data from {from}; {most} is the most"
            ));
        }
        Ok(())
    }
}
