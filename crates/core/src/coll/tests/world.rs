//! A network in memory between the schedules of all ranks.

use super::*;
use crate::coll::schedule::StepId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// In which order messages arrive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delivery {
    /// One at a time, any, by seed; sends complete at once or only at arrival.
    Random(u64),
    /// In rounds, to count them: one message between each two ranks arrives, then all ranks go on.
    Rounds,
}

struct Outgoing {
    step: StepId,
    buffer: Buffer,
    /// Its bytes if it was sent eagerly; otherwise they are read at arrival.
    eager: Option<Vec<u8>>,
}

#[derive(Default)]
struct Channel {
    sent: VecDeque<Outgoing>,
    posted: VecDeque<(StepId, Buffer)>,
}

struct Transfer {
    from: Rank,
    to: Rank,
    outgoing: Outgoing,
    receive: (StepId, Buffer),
}

pub(super) struct World {
    channels: BTreeMap<(Rank, Rank), Channel>,
    transfers: Vec<Transfer>,
    random: Random,
    delivery: Delivery,
    /// Ranks that run their schedule round by round.
    by_rounds: BTreeSet<Rank>,
    trouble: Option<String>,
}

struct Port<'a> {
    world: &'a mut World,
    rank: Rank,
}

impl Transport for Port<'_> {
    fn isend(&mut self, to: Rank, buffer: Buffer, step: StepId) -> Result<Posted, Error> {
        let eager = match self.world.delivery {
            Delivery::Random(_) if self.world.random.index(2) == 0 => {
                Some(buffer.piece().bytes().map_or(Vec::new(), <[u8]>::to_vec))
            }
            _ => None,
        };
        let posted = if eager.is_some() { Posted::Done } else { Posted::Pending };
        let outgoing = Outgoing { step, buffer, eager };
        self.world.channels.entry((self.rank, to)).or_default().sent.push_back(outgoing);
        self.world.match_up(self.rank, to);
        Ok(posted)
    }

    fn irecv(&mut self, from: Rank, buffer: Buffer, step: StepId) -> Result<Posted, Error> {
        // Until the message is there the buffer holds anything.
        buffer.with_mut(|bytes| bytes.fill(0xEE));
        self.world.channels.entry((from, self.rank)).or_default().posted.push_back((step, buffer));
        self.world.match_up(from, self.rank);
        Ok(Posted::Pending)
    }
}

impl RoundTransport for Port<'_> {
    fn leaves_at_once(&mut self, to: Rank, buffer: Buffer) -> bool {
        // An eager one does; its step is of no consequence.
        self.world.random.index(2) == 0 && {
            let eager = Some(buffer.piece().bytes().map_or(Vec::new(), <[u8]>::to_vec));
            let outgoing = Outgoing { step: StepId(0), buffer, eager };
            self.world.channels.entry((self.rank, to)).or_default().sent.push_back(outgoing);
            self.world.match_up(self.rank, to);
            true
        }
    }
}

impl World {
    /// Runs the schedules of all ranks to their end; the number of rounds, if counted. An error if they hang,
    /// if messages do not fit or are left over.
    pub(super) fn run(schedules: &mut [Schedule], delivery: Delivery) -> Result<usize, String> {
        let mut world = Self::new(delivery);
        let mut waiting: Vec<usize> = (0..schedules.len()).collect();
        while !waiting.is_empty() {
            let rank = waiting.swap_remove(world.random.index(waiting.len()));
            world.start(schedules, rank as Rank);
        }
        let rounds = world.deliver(schedules);
        if let Some(trouble) = world.trouble {
            return Err(trouble);
        }
        for (rank, schedule) in schedules.iter().enumerate() {
            if schedule.status() != Status::Done {
                return Err(format!("deadlock: rank {rank} waits, and nothing is under way"));
            }
        }
        match world.channels.iter().find(|(_, c)| !c.sent.is_empty() || !c.posted.is_empty()) {
            Some(((from, to), _)) => Err(format!("a message or a receive from {from} to {to} is left over")),
            None => Ok(rounds),
        }
    }

    pub(super) fn new(delivery: Delivery) -> Self {
        let seed = match delivery {
            Delivery::Random(seed) => seed,
            Delivery::Rounds => 0,
        };
        Self {
            channels: BTreeMap::new(),
            transfers: Vec::new(),
            random: Random::new(seed),
            delivery,
            by_rounds: BTreeSet::new(),
            trouble: None,
        }
    }

    pub(super) fn start(&mut self, schedules: &mut [Schedule], rank: Rank) {
        let schedule = &mut schedules[rank as usize];
        let is_random = matches!(self.delivery, Delivery::Random(_));
        // One that is done has been run before.
        let is_new = schedule.status() == Status::Running;
        if is_random && is_new && schedule.is_in_rounds() && self.random.index(2) == 0 {
            self.by_rounds.insert(rank);
            return self.advance(schedule, rank);
        }
        schedule.start(&mut Port { world: self, rank });
    }

    fn advance(&mut self, schedule: &mut Schedule, rank: Rank) {
        let is_by_rounds = self.by_rounds.contains(&rank);
        let port = &mut Port { world: self, rank };
        if !is_by_rounds {
            schedule.advance(port);
            return;
        }
        while schedule.in_flight_count() == 0 && schedule.run_round(port).unwrap() {}
    }

    fn complete(&self, schedule: &mut Schedule, rank: Rank, step: StepId) {
        match self.by_rounds.contains(&rank) {
            true => schedule.end_message(),
            false => schedule.complete(step, Ok(())),
        }
    }

    /// Delivers until nothing is under way; the number of rounds, if counted.
    pub(super) fn deliver(&mut self, schedules: &mut [Schedule]) -> usize {
        match self.delivery {
            Delivery::Random(_) => self.deliver_randomly(schedules),
            Delivery::Rounds => self.deliver_in_rounds(schedules),
        }
    }

    fn match_up(&mut self, from: Rank, to: Rank) {
        let channel = self.channels.entry((from, to)).or_default();
        while !channel.sent.is_empty() && !channel.posted.is_empty() {
            let (outgoing, receive) =
                (channel.sent.pop_front().unwrap(), channel.posted.pop_front().unwrap());
            if outgoing.buffer.len() != receive.1.len() {
                let (sent, expected) = (outgoing.buffer.len(), receive.1.len());
                self.trouble.get_or_insert(format!("{from} sends {to} {sent} bytes, not {expected}"));
            } else {
                self.transfers.push(Transfer { from, to, outgoing, receive });
            }
        }
    }

    fn arrive(&mut self, transfer: Transfer, schedules: &mut [Schedule]) -> [Option<Rank>; 2] {
        let Transfer { from, to, outgoing, receive } = transfer;
        match &outgoing.eager {
            Some(bytes) if !receive.1.is_virtual() => {
                receive.1.scatter(0, crate::buffer::Piece::Bytes(bytes));
            }
            _ => receive.1.copy_from(0, &outgoing.buffer, 0, outgoing.buffer.len()),
        }
        self.complete(&mut schedules[to as usize], to, receive.0);
        if outgoing.eager.is_some() {
            return [Some(to), None];
        }
        self.complete(&mut schedules[from as usize], from, outgoing.step);
        [Some(to), Some(from)]
    }

    fn deliver_randomly(&mut self, schedules: &mut [Schedule]) -> usize {
        // Ranks that have got something and not yet gone on.
        let mut behind: Vec<Rank> = Vec::new();
        while self.trouble.is_none() && self.transfers.len() + behind.len() > 0 {
            let pick = self.random.index(self.transfers.len() + behind.len());
            if pick < self.transfers.len() {
                let transfer = self.transfers.swap_remove(pick);
                behind.extend(self.arrive(transfer, schedules).into_iter().flatten());
            } else {
                let rank = behind.swap_remove(pick - self.transfers.len());
                self.advance(&mut schedules[rank as usize], rank);
            }
        }
        0
    }

    fn deliver_in_rounds(&mut self, schedules: &mut [Schedule]) -> usize {
        let mut rounds = 0;
        while self.trouble.is_none() && !self.transfers.is_empty() {
            rounds += 1;
            let mut busy = BTreeSet::new();
            for transfer in core::mem::take(&mut self.transfers) {
                if busy.insert((transfer.from, transfer.to)) {
                    self.arrive(transfer, schedules);
                } else {
                    self.transfers.push(transfer);
                }
            }
            for (rank, schedule) in schedules.iter_mut().enumerate() {
                schedule.advance(&mut Port { world: self, rank: rank as Rank });
            }
        }
        rounds
    }
}
