//! How the members of two groups that cannot talk to each other learn of each other (MPI-5.0 §11.9): their
//! leaders exchange the tables over a stream that the caller has made.
//!
//! ```text
//!   Telling -- the others' table comes --> Judging -- ours know them --> Ready -- they know ours --> Made
//!   all but Made -- refused, closed, nonsense --> Failed
//! ```
//!
//! A machine without I/O, the same at both sides. Its owner moves bytes ([`Introduction::handle_bytes`],
//! [`Introduction::poll_transmit`]) and makes the other group's members known in its own while the stage is
//! `Judging`. A side that is [`Stage::Made`] knows that the members of *both* groups know each other; then
//! they make their communicator as any two groups do ([`Collectives::icomm_inter_of_groups`]). If the stream
//! breaks while the last word is under way, one side may be `Made` and the other `Failed`: its members then
//! fail to meet, which the making of the communicator reports.
//!
//! ```text
//!   message:  length of the rest u32 | kind u8 | rest
//!     1 table:   token 32 bytes | leader u32 | count u32 | members
//!                member: process u32 | world u64 | length u16 | card
//!     2 ready
//!     3 refused: code u32
//! ```
//!
//! Little-endian. Every length is checked before anything is kept.
//!
//! [`Collectives::icomm_inter_of_groups`]: crate::collective::Collectives::icomm_inter_of_groups

use crate::ids::{ProcessId, Rank};
use alloc::vec::Vec;

/// Longest table in bytes: a card of 1 KiB for each of 65,536 processes.
const TABLE_BYTES_MAX: usize = 64 << 20;
/// Longest card in bytes.
pub const CARD_BYTES_MAX: usize = 4096;
/// Random bytes that a side brings.
pub const TOKEN_BYTES: usize = 32;
const MEMBER_BYTES_MIN: usize = 4 + 8 + 2;

/// A process, as described to others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its number.
    pub process: ProcessId,
    /// A random number of its world: the same process number in another world is another process.
    pub world: u64,
    /// How to reach it, in the words of its device.
    pub card: Vec<u8>,
}

/// A group, as described by its leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Random bytes, for unique names and keys.
    pub token: [u8; TOKEN_BYTES],
    /// The leader's rank.
    pub leader: Rank,
    /// The members by rank.
    pub members: Vec<Member>,
}

/// How far an introduction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The other table has not come.
    Telling,
    /// It has; the owner makes it known in its group, then calls [`Introduction::accept`] or
    /// [`Introduction::refuse`].
    Judging,
    /// Ours know them; whether they know ours is not heard yet.
    Ready,
    /// All know all.
    Made,
    /// Nothing will come of it.
    Failed(Failure),
}

/// Why nothing comes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The other side cannot, for a reason by number (an MPI error class).
    Refused(u32),
    /// This side cannot.
    Withdrawn,
    /// The stream has ended.
    Closed,
    /// The other side sent what none sends.
    Nonsense(&'static str),
}

/// See the [module's docs](self).
#[derive(Debug)]
pub struct Introduction {
    stage: Stage,
    others: Option<Table>,
    are_ready: bool,
    received: Vec<u8>,
    unsent: Vec<u8>,
}

const TABLE: u8 = 1;
const READY: u8 = 2;
const REFUSED: u8 = 3;

/// Reads what was checked to be there.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
}

impl Table {
    /// As bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.token);
        out.extend(self.leader.to_le_bytes());
        out.extend((self.members.len() as u32).to_le_bytes());
        for member in &self.members {
            out.extend(member.process.0.to_le_bytes());
            out.extend(member.world.to_le_bytes());
            out.extend((member.card.len() as u16).to_le_bytes());
            out.extend(&member.card);
        }
        out
    }

    /// The reverse; `None`: the bytes are no table of a group.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (token, leader) = (reader.array()?, reader.word()?);
        let count = reader.word()? as usize;
        if leader as usize >= count || count > reader.0.len() / MEMBER_BYTES_MIN {
            return None;
        }
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            let process = ProcessId(reader.word().filter(|process| *process <= i32::MAX as u32)?);
            let world = u64::from_le_bytes(reader.array()?);
            let length = usize::from(u16::from_le_bytes(reader.array()?));
            let card = reader.bytes(length).filter(|card| card.len() <= CARD_BYTES_MAX)?.to_vec();
            members.push(Member { process, world, card });
        }
        reader.0.is_empty().then_some(Self { token, leader, members })
    }
}

impl Introduction {
    /// Begins: sends the table of our group to the other side. Cards are at most [`CARD_BYTES_MAX`] long.
    pub fn new(own: &Table) -> Self {
        debug_assert!(own.members.iter().all(|member| member.card.len() <= CARD_BYTES_MAX));
        let mut new = Self {
            stage: Stage::Telling,
            others: None,
            are_ready: false,
            received: Vec::new(),
            unsent: Vec::new(),
        };
        new.say(TABLE, &own.emit());
        new
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The other group, from [`Stage::Judging`] on.
    pub fn others(&self) -> Option<&Table> {
        self.others.as_ref()
    }

    /// Bytes for the other side, empty if there are none.
    pub fn poll_transmit(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.unsent)
    }

    /// Bytes of the other side, cut anywhere.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        if matches!(self.stage, Stage::Made | Stage::Failed(_)) {
            return;
        }
        self.received.extend_from_slice(bytes);
        while let Some(head) = self.received.first_chunk::<4>() {
            let length = u32::from_le_bytes(*head) as usize;
            if length == 0 || length > TABLE_BYTES_MAX {
                return self.fail(Failure::Nonsense("a message of no possible length"));
            }
            if self.received.len() - 4 < length {
                return;
            }
            let rest = self.received.split_off(4 + length);
            let message = core::mem::replace(&mut self.received, rest);
            self.handle_message(message[4], &message[5..]);
            if matches!(self.stage, Stage::Made | Stage::Failed(_)) {
                return;
            }
        }
    }

    /// The stream has ended.
    pub fn handle_closed(&mut self) {
        if self.stage != Stage::Made {
            self.fail(Failure::Closed);
        }
    }

    /// Our group knows the other one.
    pub fn accept(&mut self) {
        if self.stage == Stage::Judging {
            self.say(READY, &[]);
            self.stage = if self.are_ready { Stage::Made } else { Stage::Ready };
        }
    }

    /// Our group cannot meet the other one, for a reason by number.
    pub fn refuse(&mut self, code: u32) {
        if matches!(self.stage, Stage::Telling | Stage::Judging) {
            self.say(REFUSED, &code.to_le_bytes());
            self.stage = Stage::Failed(Failure::Withdrawn);
        }
    }

    fn handle_message(&mut self, kind: u8, body: &[u8]) {
        match (kind, self.stage) {
            (TABLE, Stage::Telling) => match Table::parse(body) {
                Some(table) => {
                    self.others = Some(table);
                    self.stage = Stage::Judging;
                }
                None => self.fail(Failure::Nonsense("a table that is none")),
            },
            (READY, Stage::Judging) if !self.are_ready && body.is_empty() => self.are_ready = true,
            (READY, Stage::Ready) if body.is_empty() => self.stage = Stage::Made,
            (REFUSED, _) => match body.try_into().map(u32::from_le_bytes) {
                Ok(code) => self.fail(Failure::Refused(code)),
                Err(_) => self.fail(Failure::Nonsense("a refusal without a reason")),
            },
            _ => self.fail(Failure::Nonsense("a message out of turn")),
        }
    }

    fn fail(&mut self, failure: Failure) {
        if !matches!(self.stage, Stage::Failed(_)) {
            self.stage = Stage::Failed(failure);
        }
    }

    fn say(&mut self, kind: u8, body: &[u8]) {
        self.unsent.extend((body.len() as u32 + 1).to_le_bytes());
        self.unsent.push(kind);
        self.unsent.extend(body);
    }
}

#[cfg(test)]
mod tests;
