//! The transfer machine: one way for all long data.
//!
//! A message that does not go eagerly is a *transfer* at either side: the sender announces it (RTS), the
//! receiver gets the bytes, or asks for them (CTS) and the sender puts or streams them, over one rail or
//! many. [`choose`] decides which and says why. Each end is a [`Source`] or a [`Sink`], so contiguous memory
//! and the layouts of datatypes go the same ways. The states are a table ([`state`]).
//!
//! Not here: matching and requests (the owner names a transfer's request and learns of its end), the order of
//! packets, credit, acknowledgements and the choice of a rail (`link`, whose events report the fate of
//! units).
//!
//! | file | what it does |
//! |---|---|
//! | `choose` | the way of a message, and why |
//! | `at_once` | whether an eager message is quicker announced, by measurement |
//! | `learn` | which of two ways is quicker, by measurement |
//! | `bursts` | the same for messages that come several at a time |
//! | `compare` | what the three have in common: the way held, when it is compared, times |
//! | `state` | states and transitions |
//! | `send` | the sender: announce, give units to rails, put |
//! | `receive` | the receiver: get, ask, take units |
//! | `spread` | which units are sent, lost, arrived |
//! | `registrations` | registrations of memory, kept for messages to come |
//!
//! A transfer whose own unit of work is a put or a get has an *operation* for each one under way, named by
//! its token. An end in several pieces is packed to, or unpacked from, memory that the operation owns.

mod at_once;
mod bursts;
pub mod choose;
mod compare;
mod learn;
mod receive;
mod registrations;
mod send;
mod spread;
mod state;

pub use crate::data::{Sink, Source};
pub(crate) use at_once::{Pick, is_of_trial};
pub(crate) use receive::Matched;
pub(crate) use send::Announcement;

use crate::buffer::{Buffer, Scratch};
use crate::data::Data;
use crate::device::{Device, Full, Gap, RemoteKey, RemoteRegion, Submitted, Token};
use crate::error::Blame;
use crate::ids::{ContextId, Rail, RailSet, RequestId, TransferId};
use crate::link::{LinkIndex, Links, Units};
use crate::request::Completion;
use crate::slab::Slab;
use crate::time::Instant;
use crate::wire::{KEYS_MAX, Keys};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use at_once::AtOnce;
use bursts::{BurstId, Bursts};
use choose::{Shape, Way};
use learn::Learner;
use receive::Fetch;
use registrations::Registrations;
use spread::{Gather, Spread};
use state::{Event, State};

/// Pieces of long messages that one round gives to rails that acknowledge. Filling the windows of all rails
/// takes milliseconds, and arriving packets need an answer before that: a clear to send queued behind full
/// windows keeps the other direction idle until they empty.
const PIECES_A_ROUND: u32 = 8;

/// One side of a long message.
struct Transfer {
    /// Whose it is.
    request: RequestId,
    /// The message's context, at its sender.
    context: Option<ContextId>,
    link: LinkIndex,
    state: State,
    data: Data,
    /// Bytes to move.
    total: u64,
    /// The other side's request.
    other: RequestId,
    /// Own memory that the other side may use.
    registered: Keys,
    /// Silence after each packet of its data.
    gap: Gap,
    /// How the request completes at the end.
    completion: Completion,
    /// What its end is to be reported to.
    measured: Measured,
    work: Work,
}

/// Of what a message is a part that is measured.
#[derive(Clone, Copy)]
enum Measured {
    /// Of nothing.
    Not,
    /// Received, it alone: the way, and since when.
    Alone(Way, Instant),
    /// Received, of a burst.
    Burst(BurstId),
    /// Sent, by this name of a trial.
    Trial(RequestId),
}

enum Work {
    /// Nothing to move yet.
    None,
    Send(Spread),
    Get(Fetch),
    Receive(Gather),
}

impl Transfer {
    /// Goes to the state after an event. `false`: the event cannot happen now.
    fn go(&mut self, event: Event) -> bool {
        let Some(state) = self.state.after(event) else { return false };
        self.state = state;
        true
    }
}

/// What is learnt of each peer, by link.
struct Peers<T>(Vec<Option<Box<T>>>);

impl<T: Default> Peers<T> {
    #[inline(always)]
    fn of(&mut self, link: LinkIndex) -> &mut T {
        let at = link as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_default()
    }
}

fn shape_of(data: &Data) -> Shape {
    match data.as_memory() {
        Some(_) => Shape::Contiguous,
        None => Shape::Pieces,
    }
}

/// A put or get under way.
struct Operation {
    transfer: TransferId,
    link: LinkIndex,
    rail: Rail,
    /// Bytes that keep the rail busy.
    bytes: u64,
    at: Instant,
    what: What,
    /// The memory it works on, if the transfer's is in several pieces.
    stage: Option<(Scratch, Buffer)>,
}

#[derive(Clone, Copy)]
enum What {
    Put(Units),
    /// The bytes from here on.
    Get(u64),
}

/// Remaining work of a transfer that has ended.
enum Left {
    /// Its registration ends.
    Registration(Rail, RemoteKey),
    /// It was measured: of a burst, or alone.
    Burst {
        link: LinkIndex,
        bytes: u64,
        id: BurstId,
    },
    Alone {
        link: LinkIndex,
        bytes: u64,
        way: Way,
        since: Instant,
    },
}

/// All transfers of a process.
pub(crate) struct Transfers {
    transfers: Slab<Transfer>,
    operations: Slab<Operation>,
    /// Transfers with something to issue.
    active: VecDeque<TransferId>,
    /// Pieces that this round may still give to rails.
    pieces_left: u32,
    registrations: Registrations,
    /// Remaining work of transfers that have ended.
    left: Vec<Left>,
    learners: Peers<Learner>,
    bursts: Peers<Bursts>,
    at_once: Peers<AtOnce>,
    /// How many transfers are of messages sent.
    sends_count: usize,
    /// Requests whose transfers have ended.
    ended: VecDeque<(RequestId, Completion)>,
    /// Memory to pack what is in several pieces.
    packed: Vec<u8>,
}

impl Transfers {
    /// `registrations_count_max`: registrations that are kept at most for messages to come.
    pub(crate) fn new(registrations_count_max: usize) -> Self {
        Self {
            transfers: Slab::new(),
            operations: Slab::new(),
            active: VecDeque::new(),
            pieces_left: 0,
            registrations: Registrations::new(registrations_count_max),
            left: Vec::new(),
            learners: Peers(Vec::new()),
            bursts: Peers(Vec::new()),
            at_once: Peers(Vec::new()),
            sends_count: 0,
            ended: VecDeque::new(),
            packed: Vec::new(),
        }
    }

    /// Whether [`advance`](Self::advance) has anything to do.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        !self.active.is_empty() | !self.left.is_empty()
    }

    /// Whether data is on its way, out or in.
    pub(crate) fn are_moving_data(&self) -> bool {
        self.transfers.iter().any(|(_, transfer)| transfer.state.moves_data())
    }

    /// Whether the receiver has not answered yet.
    pub(crate) fn is_offered(&self, id: TransferId) -> bool {
        self.transfers.get(id).is_some_and(|transfer| transfer.state == State::Offered)
    }

    /// The context of a message that is sent.
    pub(crate) fn context(&self, id: TransferId) -> Option<ContextId> {
        self.transfers.get(id)?.context
    }

    /// Length of the announced message in bytes.
    pub(crate) fn length_bytes(&self, id: TransferId) -> u64 {
        self.transfers.get(id).map_or(0, |transfer| transfer.data.len() as u64)
    }

    /// A request whose transfer has ended, and how.
    #[inline]
    pub(crate) fn poll_ended(&mut self) -> Option<(RequestId, Completion)> {
        self.ended.pop_front()
    }

    /// Issues operations until the device is full. Returns whether there was work, and whether the next round
    /// goes on with it.
    pub(crate) fn advance<D: Device>(&mut self, device: &mut D, links: &mut Links) -> (bool, bool) {
        let mut worked = false;
        self.pieces_left = PIECES_A_ROUND;
        for _ in 0..self.active.len() {
            let Some(id) = self.active.pop_front() else { break };
            if self.advance_one(device, links, id) {
                worked = true;
            } else {
                // All of them in turn: their order stays.
                self.active.push_back(id);
                worked |= self.pieces_left == 0;
            }
        }
        // A transfer that has used up the pieces is still on the list.
        (worked, self.pieces_left == 0)
    }

    /// `true`: nothing more to issue for now.
    fn advance_one<D: Device>(&mut self, device: &mut D, links: &mut Links, id: TransferId) -> bool {
        loop {
            let Some(transfer) = self.transfers.get(id) else { return true };
            match transfer.state {
                State::Sending => {
                    links.get_mut(transfer.link).pace(device, transfer.gap);
                    return self.send(device, links, id);
                }
                State::Matched => self.choose_way(device, links, id),
                State::Getting => match self.get(device, links, id) {
                    true => {}
                    false => return false,
                },
                _ => return true,
            }
        }
    }

    /// Does the remaining work of transfers that have ended.
    pub(crate) fn clear_away<D: Device>(&mut self, device: &mut D) {
        while let Some(left) = self.left.pop() {
            match left {
                Left::Registration(rail, key) => {
                    if self.registrations.release(rail, key) {
                        device.deregister(rail, key);
                    }
                }
                Left::Burst { link, bytes, id } => {
                    self.bursts.of(link).end_one(id, bytes, || device.time());
                }
                Left::Alone { link, bytes, way, since } => {
                    if let Some(now) = device.time() {
                        self.learners.of(link).note(bytes, way, now.since(since));
                    }
                }
            }
        }
    }

    /// How many bursts of several messages were measured that went a way.
    pub(crate) fn bursts_count(&self, way: Way) -> u64 {
        self.bursts.0.iter().flatten().map(|bursts| bursts.measured_count(way)).sum()
    }

    /// What is learnt of eager messages to a peer.
    pub(crate) fn at_once(&mut self, link: LinkIndex) -> &mut AtOnce {
        self.at_once.of(link)
    }

    /// How many announced messages have not arrived.
    pub(crate) fn sends_count(&self) -> usize {
        self.sends_count
    }

    /// Memory is about to be unmapped (or has just been): registrations of it that are kept are ended, those
    /// in use when their messages are.
    pub(crate) fn invalidate_memory<D: Device>(&mut self, device: &mut D, base: usize, len: usize) {
        for (rail, key) in self.registrations.invalidate(base, len) {
            device.deregister(rail, key);
        }
    }

    /// Registers memory on rails, as many as a header has room for keys.
    fn register<D: Device>(&mut self, device: &mut D, rails: RailSet, buffer: Option<Buffer>) -> Keys {
        let mut keys = Keys::default();
        let Some(buffer) = buffer.filter(|buffer| !buffer.is_empty()) else { return keys };
        for rail in rails.iter().take(KEYS_MAX) {
            let key = self.registrations.find(rail, &buffer).or_else(|| {
                let key = device.register(rail, buffer)?;
                if let Some((rail, key)) = self.registrations.made(rail, &buffer, key) {
                    device.deregister(rail, key);
                }
                Some(key)
            });
            if let Some(key) = key {
                keys.push(rail, key);
            }
        }
        keys
    }

    /// A transfer is over, and its request with it.
    fn end(&mut self, id: TransferId) {
        let Some(transfer) = self.transfers.get(id) else { return };
        self.ended.push_back((transfer.request, transfer.completion));
        let (link, bytes, of) = (transfer.link, transfer.total, transfer.measured);
        self.forget(id);
        match of {
            Measured::Not => {}
            Measured::Trial(name) => self.at_once(link).end(name),
            Measured::Burst(id) => self.left.push(Left::Burst { link, bytes, id }),
            Measured::Alone(way, since) => self.left.push(Left::Alone { link, bytes, way, since }),
        }
    }

    /// Removes a transfer without waiting for its operations in flight. `false`: there is none.
    fn forget(&mut self, id: TransferId) -> bool {
        let Some(transfer) = self.transfers.get(id) else { return false };
        self.sends_count -= usize::from(transfer.context.is_some());
        self.left.extend(transfer.registered.iter().map(|(rail, key)| Left::Registration(rail, key)));
        // Long, so not moved out.
        self.transfers.discard(id);
        true
    }

    /// The sender has cancelled: the transfer is gone, and its request with it. `false`: the receiver has
    /// answered before.
    pub(crate) fn withdraw(&mut self, links: &mut Links, id: TransferId) -> bool {
        let Some(transfer) = self.transfers.get_mut(id) else { return false };
        if !transfer.go(Event::Withdrawn) {
            return false;
        }
        if !links.take_back(transfer.link, transfer.request) {
            links.answered(transfer.link);
        }
        self.forget(id)
    }

    /// As [`withdraw`](Self::withdraw), without asking the receiver, if the announcement has not left.
    pub(crate) fn withdraw_held_back(&mut self, links: &mut Links, id: TransferId) -> bool {
        let Some(transfer) = self.transfers.get(id) else { return false };
        links.take_back(transfer.link, transfer.request) && self.forget(id)
    }

    /// How many puts and gets are under way.
    pub(crate) fn operations_count(&self) -> usize {
        self.operations.len()
    }

    /// The peer is lost: its transfers are gone. `is_gone`: its process does not exist any more, so no
    /// operation with it touches memory; else those with memory of their own keep it until the device reports
    /// their end.
    #[cold]
    pub(crate) fn forget_link(&mut self, link: LinkIndex, is_gone: bool) {
        let of_link = self.transfers.iter().filter(|(_, transfer)| transfer.link == link);
        let ids: Vec<TransferId> = of_link.map(|(id, _)| id).collect();
        for id in ids {
            let registered = self.transfers.get(id).map_or(Keys::default(), |transfer| transfer.registered);
            self.forget(id);
            // A peer that has been given up and does not know still has the keys.
            registered.iter().for_each(|(rail, key)| self.registrations.keep_no_longer(rail, key));
        }
        let is_over =
            |operation: &Operation| operation.link == link && (is_gone || operation.stage.is_none());
        let over = self.operations.iter().filter(|(_, operation)| is_over(operation));
        let tokens: Vec<RequestId> = over.map(|(token, _)| token).collect();
        for token in tokens {
            self.operations.discard(token);
        }
    }

    /// The other side has moved everything.
    pub(crate) fn on_fin(&mut self, links: &mut Links, id: TransferId) -> Result<(), Blame> {
        const UNASKED: Blame = Blame("FIN for a request that waits for none");
        let transfer = self.transfers.get_mut(id).ok_or(UNASKED)?;
        let counts_units = matches!(&transfer.work, Work::Receive(gather) if gather.counts_units());
        let (link, was_offered) = (transfer.link, transfer.state == State::Offered);
        if counts_units || !transfer.go(Event::Fin) {
            return Err(UNASKED);
        }
        if was_offered {
            links.answered(link);
        }
        self.end(id);
        Ok(())
    }

    /// Has the device put or get bytes of a transfer. Bytes to put that lie in several pieces are packed
    /// before. `false`: the device refuses.
    #[inline(always)]
    fn submit<D: Device>(
        &mut self,
        device: &mut D,
        links: &mut Links,
        id: TransferId,
        (rail, remote, length): (Rail, RemoteRegion, u64),
        what: What,
    ) -> Result<bool, Full> {
        let Some(transfer) = self.transfers.get(id) else { return Ok(false) };
        let (link, at, offset) = (transfer.link, links.now(), remote.offset as usize);
        let is_put = matches!(what, What::Put(_));
        let (local, stage) = match transfer.data.as_memory() {
            Some(buffer) => (buffer.part(offset, length as usize), None),
            None => {
                let mut memory = Scratch::new(length as usize);
                let stage = memory.buffer(length as usize);
                if is_put {
                    transfer.data.copy_out(offset, stage);
                }
                (stage, Some((memory, stage)))
            }
        };
        // What is got is not under way by our side of the rail.
        let bytes = if is_put { length } else { 0 };
        let operation = Operation { transfer: id, link, rail, bytes, at, what, stage };
        let operation = self.operations.insert(operation);
        let (peer, token) = (links.get(link).peer(), Token(operation.to_bits()));
        let submitted = match is_put {
            true => device.put(rail, peer, local, remote, token),
            false => device.get(rail, peer, local, remote, token),
        };
        if matches!(submitted, Err(Full) | Ok(Submitted::Refused)) {
            self.operations.discard(operation);
            return submitted.map(|_| false);
        }
        links.get_mut(link).begin_operation(rail, bytes, at);
        match what {
            What::Put(units) => {
                self.change_unsent(links, id, |spread| spread.sent(units.run));
            }
            What::Get(offset) => {
                if let Some(Transfer { work: Work::Get(fetch), .. }) = self.transfers.get_mut(id) {
                    fetch.began(offset, length);
                }
            }
        }
        if submitted == Ok(Submitted::Done) {
            self.on_operation_end(device, links, token, true);
        }
        Ok(true)
    }

    /// A put or get has ended.
    pub(crate) fn on_operation_end<D: Device>(
        &mut self,
        device: &mut D,
        links: &mut Links,
        Token(bits): Token,
        worked: bool,
    ) {
        let token = RequestId::from_bits(bits);
        let Some(operation) = self.operations.remove(token) else { return };
        let Operation { link: index, rail, bytes, at, .. } = operation;
        let now = links.now();
        links.get_mut(index).end_operation(rail, bytes, at, worked, now);
        match operation.what {
            What::Put(units) => self.put_ended(device, links, &operation, units, worked),
            What::Get(offset) => self.get_ended(device, links, &operation, offset, worked),
        }
    }
}
