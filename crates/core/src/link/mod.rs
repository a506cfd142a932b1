//! One peer as this process sees it: which rails, how much eager credit, what still waits to be sent.
//!
//! Credit is counted in cells of [`CELL_BYTES`]. A sender may have [`credit_cells`] outstanding: sent and not
//! yet in a user's buffer. So a receiver holds at most that much unexpected data a peer, however slow it is
//! (MPI/DE's flow control, P2); a sender out of credit uses rendezvous, which needs none. Credit comes back
//! on any packet, or on one of its own when a quarter of the window is owed.
//!
//! Every link is used in the same way: packets go in order ([`Links::offer_or_queue`]), units of long
//! messages in any order ([`units`]), and [`LinkEvent`]s report their fate. A link over one rail that breaks
//! only together with the peer (shared memory) gives its packets to the device as they are, and every packet
//! that the device takes has arrived. A link whose rails can break, or that has several, also has a `Trunk`,
//! which numbers and acknowledges. Code outside this folder does not distinguish the two. The fields of a
//! link belong to this folder.
//!
//! | file | what it does |
//! |---|---|
//! | `mod` | links, credit, the queue of packets, events |
//! | `intake` | packets that arrive, up to what they mean |
//! | `fronts` | which packets are taken to their place while they come |
//! | `announcements` | how many announced messages may wait unmatched |
//! | `units` | pieces of long messages: which rail, how many, how |
//! | `upkeep` | time: acknowledgements, silence, peers that are waited for |
//! | `trunk` | several rails as one link |
//! | `rail` | what is under way on one rail, acknowledged, lost |
//! | `arrived` | what has come by one rail, and which acknowledgement is owed |
//! | `rate` | how fast a rail is, by measurement |
//! | `health` | whether a rail works: when silence is a fault |
//! | `stripe` | which rail takes the next piece: the policies |
//! | `stream` | packets that need order, kept until acknowledged |
//! | `reorder` | packets that came before their turn |

mod announcements;
mod arrived;
mod config;
mod fronts;
mod health;
mod intake;
mod rail;
mod rate;
mod reorder;
mod stream;
mod stripe;
mod trunk;
mod units;
mod upkeep;

#[cfg(test)]
pub(crate) use announcements::ANNOUNCEMENTS_MAX;
use announcements::Announcements;
pub use config::TrunkConfig;
use fronts::Begun;
pub(crate) use fronts::Taker;
pub use health::Health;
pub(crate) use intake::{Carrying, Front, Received, UnitsReceived};
pub use stripe::Policy;
pub(crate) use stripe::explain;
pub(crate) use units::{Part, Pick, Rest, Run, Units};

use crate::buffer::{NO_PAYLOAD, Payload};
use crate::data::Data;
use crate::device::{Device, EAGER_HEADER_BYTES, Gap, RailCapabilities};
use crate::error::{Blame, Error};
use crate::ids::{ProcessId, Rail, RailSet, RequestId, TransferId};
use crate::time::Instant;
use crate::wire::trunk::TRUNK_PREFIX_BYTES;
use crate::wire::{Envelope, Header, Prefix, eager_header};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::Cell;
use rail::{Measured, RailState};
use trunk::Trunk;

/// Unit of eager credit in bytes: a cache line.
pub const CELL_BYTES: usize = 64;
/// Eager data a peer may have outstanding over a rail that needs no acknowledgements, in cells: 4096 × 64 B
/// = 256 KiB, or four of the longest messages that a packet holds, if that is more.
pub const CREDIT_CELLS: u32 = 4096;
/// Of ranks that send each other messages at the same time, credit for one comes back with the second after
/// it.
const CREDIT_PACKETS: u32 = 4;
/// The same over others, 1.25 MiB: there an announcement is two packets more, each a call of the system. A
/// quarter of it is more than the longest eager message, whose answer takes its credit back.
pub const TRUNK_CREDIT_CELLS: u32 = 20480;
const _: () = assert!(TRUNK_CREDIT_CELLS <= u16::MAX as u32, "a packet returns all of it");

/// Credit that an eager message costs: a cell for its header and one for each begun cell of data.
#[inline]
pub const fn cells_of(length_bytes: usize) -> u32 {
    (1 + length_bytes.div_ceil(CELL_BYTES)) as u32
}

/// Index into [`Links`].
pub(crate) type LinkIndex = u32;

/// A packet the device has not taken yet.
pub(crate) struct Outgoing {
    pub(crate) header: Header,
    pub(crate) payload: Data,
    /// Told when the device has taken the packet.
    pub(crate) request: Option<RequestId>,
}

/// Fate of something that a link was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkEvent {
    /// The device has taken the packet of a request that was queued.
    Sent(RequestId),
    /// The peer has these units of a transfer.
    Settled(TransferId, Run),
    /// These units of a transfer are lost.
    Lost(TransferId, Run),
    /// A rail may have room: the transfer that has waited longest tries.
    Room(LinkIndex, TransferId),
    /// The peer cannot be reached, or does not talk to us any more.
    Unreachable(LinkIndex),
    /// The peer could never be reached, and nothing waits to be sent to it.
    NeverReached(LinkIndex),
}

pub(crate) struct Link {
    peer: ProcessId,
    rails: RailSet,
    /// The rail for everything that has to stay in order.
    rail: Rail,
    /// Eager messages that need no further look are shorter; 0 while announcements are held back, so that no
    /// message overtakes them.
    eager_bytes_end: usize,
    /// The longest message that goes eagerly whatever else its sender does, in bytes.
    eager_bytes_max: usize,
    /// Longer messages than the first, up to the second, go eagerly or are announced by measurement.
    eager_learnt_bytes: [usize; 2],
    learns_beside_receives: bool,
    announcements: Announcements,
    /// Bytes of a unit of long messages.
    unit_bytes: u32,
    /// Bytes of the longest put.
    put_bytes_max: u32,
    /// Cells we may have outstanding, as may the peer.
    credit_cells: u32,
    /// Cells we may still send.
    credits: u32,
    /// Cells we owe the peer.
    owed: u32,
    /// Cells of the peer's messages that wait unmatched here.
    unread: u32,
    /// Packets sent; the low half is the number of the next.
    sent_count: u64,
    /// Packets received; the low half is the number of the next.
    received_count: u64,
    pending: VecDeque<Outgoing>,
    /// Whether the link is in the list of links with something to send.
    listed: bool,
    /// Why nothing goes over it any more.
    failed: Option<Error>,
    /// Whether it works and has no trunk: its packets are handled as they come.
    is_plain: bool,
    /// The gap last set at the rails.
    gap: Gap,
    /// The packet in turn of which a part was taken last.
    begun: Option<Begun>,
    /// Present if the rails can break, or if there are several.
    trunk: Option<Box<Trunk>>,
}

impl Link {
    /// Which process is at the other end.
    #[inline]
    pub(crate) fn peer(&self) -> ProcessId {
        self.peer
    }

    /// The rails that may reach the peer.
    pub(crate) fn rails(&self) -> RailSet {
        self.rails
    }

    /// Why nothing goes over it any more.
    #[inline]
    pub(crate) fn failed(&self) -> Option<Error> {
        self.failed
    }

    /// Whether its packets are handled as they come: nothing has failed, and nothing is numbered.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether an eager message of this length may go: it is short enough, and there is credit.
    #[inline(always)]
    pub(crate) fn allows_eager(&self, length_bytes: usize) -> bool {
        length_bytes < self.eager_bytes_end && cells_of(length_bytes) <= self.credits
    }

    /// Eager messages that need no further look are shorter while no announcement is held back.
    fn short_bytes_end(&self) -> usize {
        let [above, most] = self.eager_learnt_bytes;
        if most == 0 { self.eager_bytes_max } else { self.eager_bytes_max.min(above) }.saturating_add(1)
    }

    /// The same of a message for which the short path's limit is too low. `is_learnt`: its way was measured.
    pub(crate) fn allows_longer_eager(&self, length_bytes: usize, is_learnt: bool) -> bool {
        let most = if is_learnt { self.eager_learnt_bytes[1] } else { self.eager_bytes_max };
        let is_held_back = self.eager_bytes_end == 0;
        !is_held_back && length_bytes <= most && cells_of(length_bytes) <= self.credits
    }

    /// Whether a sender that has receives under way, but nothing else, has time for a message of its own.
    pub(crate) fn sends_beside_receives(&self) -> bool {
        self.learns_beside_receives
    }

    /// Whether a sender with nothing else under way measures which way a message of this length goes.
    /// `Some`: it does, and whether receives may be under way there.
    pub(crate) fn learns_eager(&self, length_bytes: usize) -> Option<bool> {
        let [above, most] = self.eager_learnt_bytes;
        let may_receive = self.learns_beside_receives || length_bytes <= self.eager_bytes_max;
        (length_bytes > above && length_bytes <= most).then_some(may_receive)
    }

    /// Eager credit spent, and owed to the peer, in cells.
    pub(crate) fn credit(&self) -> (u32, u32) {
        (self.credit_cells - self.credits, self.owed)
    }

    /// Packets sent, received and queued.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.sent_count, self.received_count, self.pending.len() as u64)
    }

    /// The number of the packet that comes next.
    #[inline(always)]
    fn next_sequence(&self) -> u32 {
        self.received_count as u32
    }

    /// State of each rail, for people; nothing where rails break only together with the peer.
    pub(crate) fn health(&self) -> Vec<(Rail, Health)> {
        let health = |state: &RailState| (state.rail, state.health);
        self.trunk.as_ref().map(|trunk| trunk.rails.iter().map(health).collect()).unwrap_or_default()
    }

    /// Rails that are slow beside another one, and that one, for people.
    pub(crate) fn slow_rails(&self) -> Vec<[Measured; 2]> {
        self.trunk.as_ref().map(|trunk| trunk.slow_rails()).unwrap_or_default()
    }

    /// Whether a rail reaches the peer and works, as far as is known.
    pub(crate) fn is_up(&self, rail: Rail) -> bool {
        let is_up = |state: &RailState| state.rail == rail && state.health == Health::Up;
        self.rails.contains(rail) && self.trunk.as_ref().is_none_or(|trunk| trunk.rails.iter().any(is_up))
    }

    /// What numbers and acknowledges its packets, as long as anything goes over it.
    fn working_trunk(&mut self) -> Option<&mut Trunk> {
        self.trunk.as_deref_mut().filter(|_| self.failed.is_none())
    }

    /// Credit is spent on an eager message.
    #[inline(always)]
    pub(crate) fn spend(&mut self, length_bytes: usize) {
        self.credits -= cells_of(length_bytes);
    }

    /// The prefix of the next packet; it carries the owed credit.
    #[inline]
    fn next_prefix(&mut self) -> Prefix {
        let credits = self.owed.min(u32::from(u16::MAX));
        self.owed -= credits;
        let sequence = self.sent_count as u32;
        self.sent_count += 1;
        Prefix { credits: credits as u16, sequence }
    }

    /// Takes back what `next_prefix` did, when the device was full.
    #[inline]
    fn undo_prefix(&mut self, prefix: Prefix) {
        self.owed += u32::from(prefix.credits);
        self.sent_count -= 1;
    }

    #[inline]
    fn owes_much(&self) -> bool {
        self.owed >= self.credit_cells / 4
    }

    /// Offers a short message to the device, unless packets wait: the fast path. Inlined, so that the
    /// envelope stays in registers (see `eager_header`).
    #[inline(always)]
    pub(crate) fn offer_eager<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        envelope: &Envelope,
        message: Payload<'_>,
    ) -> bool {
        if !self.pending.is_empty() {
            return false;
        }
        if self.trunk.is_some() {
            return self.offer(device, now, &Header::Eager(*envelope), message);
        }
        let prefix = self.next_prefix();
        let header = eager_header(prefix, envelope);
        let taken = device.send(self.rail, self.peer, &header, message).is_ok();
        if !taken {
            self.undo_prefix(prefix);
        }
        taken
    }

    /// Offers a packet to the device.
    fn offer<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        header: &Header,
        payload: Payload<'_>,
    ) -> bool {
        let prefix = self.next_prefix();
        let bytes = header.emit(prefix);
        let taken = match &mut self.trunk {
            None => device.send(self.rail, self.peer, bytes.as_slice(), payload).is_ok(),
            Some(trunk) => trunk.offer(device, now, prefix.sequence, bytes.as_slice(), payload),
        };
        if !taken {
            self.undo_prefix(prefix);
        }
        taken
    }

    /// A packet says it is the next one, and returns credit.
    #[inline(always)]
    pub(crate) fn take_prefix(&mut self, prefix: Prefix) -> Result<(), Blame> {
        if prefix.sequence != self.next_sequence() {
            return Err(Blame("a packet is missing or out of order on an ordered rail"));
        }
        self.received_count += 1;
        let credits = self.credits + u32::from(prefix.credits);
        if credits > self.credit_cells {
            return Err(Blame("more credit returned than was spent"));
        }
        self.credits = credits;
        Ok(())
    }

    /// A message waits unmatched. A peer that respects credit never has more than the window unread here.
    pub(crate) fn keep_unread(&mut self, length_bytes: usize) -> Result<(), Blame> {
        self.unread += cells_of(length_bytes);
        if self.unread > self.credit_cells {
            return Err(Blame("more eager data sent than there was credit for"));
        }
        Ok(())
    }

    /// Takes a queued message out, and its credit back. It must be there.
    pub(crate) fn unqueue(&mut self, request: RequestId, length_bytes: usize) {
        self.pending.retain(|outgoing| outgoing.request != Some(request));
        self.credits += cells_of(length_bytes);
    }

    /// The data of a message with this gap moves next: sets it at the device, if it has changed.
    #[inline]
    pub(crate) fn pace<D: Device>(&mut self, device: &mut D, gap: Gap) {
        if self.gap != gap {
            self.gap = gap;
            for rail in self.rails.iter() {
                device.set_gap(rail, self.peer, gap);
            }
        }
    }
}

/// Whether packets over these rails must be numbered and acknowledged: there are several, or one can break.
pub(crate) fn needs_acknowledgements<'a>(rails: impl Iterator<Item = &'a RailCapabilities>) -> bool {
    let (mut count, mut is_sure) = (0, true);
    for rail in rails {
        count += 1;
        is_sure &= !rail.may_break && rail.reliable && rail.ordered;
    }
    count > 1 || !is_sure
}

/// Eager data that a peer may have outstanding over these rails, in cells.
pub fn credit_cells<'a>(rails: impl Iterator<Item = &'a RailCapabilities> + Clone) -> u32 {
    if needs_acknowledgements(rails.clone()) {
        return TRUNK_CREDIT_CELLS;
    }
    let longest = rails.map(|rail| rail.packet_bytes_max).max().unwrap_or(0);
    let longest_bytes = longest.saturating_sub(EAGER_HEADER_BYTES);
    CREDIT_CELLS.max(cells_of(longest_bytes).saturating_mul(CREDIT_PACKETS)).min(u16::MAX.into())
}

/// Longest eager message over these rails, in bytes. `user_bytes_max`: the user's own, if any.
pub(crate) fn eager_bytes_max<'a>(
    rails: impl Iterator<Item = &'a RailCapabilities> + Clone,
    user_bytes_max: Option<usize>,
) -> usize {
    let Some(fastest) = rails.clone().min_by_key(|rail| rail.latency_ps) else { return 0 };
    let limit = user_bytes_max.unwrap_or(fastest.eager_bytes_max);
    let longest = |rail: &RailCapabilities| rail.packet_bytes_max.max(rail.long_packet_bytes_max);
    if !needs_acknowledgements(rails.clone()) {
        return limit.min(longest(fastest).saturating_sub(EAGER_HEADER_BYTES));
    }
    // Any rail must be able to take it, and the peer to hold it until its turn.
    let packet_max = rails.map(longest).min().unwrap_or(0);
    limit
        .min(packet_max.saturating_sub(EAGER_HEADER_BYTES + TRUNK_PREFIX_BYTES))
        .min(stream::STREAM_BYTES_MAX / 2)
}

/// All links, made when first needed.
pub(crate) struct Links {
    links: Vec<Link>,
    /// The first process of this world.
    first: ProcessId,
    me: ProcessId,
    /// The process whose link was looked up last, and its link.
    recent: Cell<(ProcessId, LinkIndex)>,
    /// Link index by process, from the first one on, in pages: a process of a large job talks to few others.
    pages: Vec<Option<Box<[LinkIndex; PAGE]>>>,
    /// The same of processes that are far from this world.
    strangers: BTreeMap<ProcessId, LinkIndex>,
    /// Links that acknowledge.
    trunks: Vec<LinkIndex>,
    config: TrunkConfig,
    /// The user's own limit of eager messages.
    eager_bytes_max: Option<usize>,
    /// Links with packets or credit to send.
    listed: VecDeque<LinkIndex>,
    events: VecDeque<LinkEvent>,
    clock: upkeep::Clock,
    /// Whether nothing goes over some link any more.
    have_failed: bool,
    /// Memory to pack data that is not contiguous.
    packed: Vec<u8>,
}

const PAGE: usize = 64;
/// Processes further than this from the first of their world are strangers: a page table of 2 MiB at most.
const NEAR_MAX: usize = 1 << 24;
const NO_LINK: LinkIndex = LinkIndex::MAX;
/// No process: their numbers are below 2^31.
const NOBODY: ProcessId = ProcessId(u32::MAX);

impl Links {
    /// Of a process, behind the first one of its world.
    pub(crate) fn new(
        [first, me]: [ProcessId; 2],
        config: TrunkConfig,
        eager_bytes_max: Option<usize>,
    ) -> Self {
        Self {
            links: Vec::new(),
            first,
            me,
            recent: Cell::new((NOBODY, NO_LINK)),
            pages: Vec::new(),
            strangers: BTreeMap::new(),
            trunks: Vec::new(),
            config,
            eager_bytes_max,
            listed: VecDeque::new(),
            events: VecDeque::new(),
            clock: upkeep::Clock::default(),
            have_failed: false,
            packed: Vec::new(),
        }
    }

    /// The link to a peer. The last one asked for is at hand: programs often send to one peer again.
    #[inline]
    pub(crate) fn index_of(&self, peer: ProcessId) -> Option<LinkIndex> {
        let (recent, index) = self.recent.get();
        if recent == peer { Some(index) } else { self.look_up(peer) }
    }

    #[inline(never)]
    fn look_up(&self, peer: ProcessId) -> Option<LinkIndex> {
        let place = peer.0.wrapping_sub(self.first.0) as usize;
        let index = match self.pages.get(place / PAGE) {
            Some(page) => Some(page.as_ref()?[place % PAGE]).filter(|index| *index != NO_LINK),
            None => self.index_of_stranger(peer),
        }?;
        self.recent.set((peer, index));
        Some(index)
    }

    #[cold]
    fn index_of_stranger(&self, peer: ProcessId) -> Option<LinkIndex> {
        self.strangers.get(&peer).copied()
    }

    /// Notes the link of a peer that has none.
    fn note_index(&mut self, peer: ProcessId, index: LinkIndex) {
        let place = peer.0.wrapping_sub(self.first.0) as usize;
        if place >= NEAR_MAX {
            self.strangers.insert(peer, index);
            return;
        }
        let page = place / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NO_LINK; PAGE]))[place % PAGE] = index;
    }

    /// The link to a peer.
    #[inline]
    pub(crate) fn to<D: Device>(&mut self, device: &D, peer: ProcessId) -> LinkIndex {
        match self.index_of(peer) {
            Some(index) => index,
            None => self.open(device, peer),
        }
    }

    /// Makes the link to a peer.
    #[cold]
    fn open<D: Device>(&mut self, device: &D, peer: ProcessId) -> LinkIndex {
        let rails = device.rails_to(peer);
        let named = || rails.iter().map(|rail| (rail, &device.rails()[rail.0 as usize]));
        let capabilities = || named().map(|(_, rail)| rail);
        let fastest = named().min_by_key(|(_, rail)| rail.latency_ps);
        let is_trunk = needs_acknowledgements(capabilities());
        let trunk = is_trunk.then(|| Box::new(Trunk::new([self.me, peer], named(), self.config)));
        let unit_bytes = match is_trunk {
            true => trunk::unit_bytes(capabilities().map(|rail| rail.packet_bytes_max).min()),
            false => units::whole_lines(fastest.map_or(0, |(_, rail)| rail.packet_bytes_max)),
        };
        let put_max = capabilities().map(|rail| rail.transfer_bytes_max).min();
        let eager_bytes_max = eager_bytes_max(capabilities(), self.eager_bytes_max);
        // The user's own limit is not measured.
        let may_learn = !is_trunk && self.eager_bytes_max.is_none();
        let eager_learnt_bytes =
            capabilities().find(|_| may_learn).map_or([0; 2], RailCapabilities::eager_learnt_payload_bytes);
        let learns_beside_receives = capabilities().any(|rail| rail.learns_beside_receives);
        let index = self.links.len() as LinkIndex;
        let credit_cells = credit_cells(capabilities());
        let mut link = Link {
            peer,
            rails,
            rail: fastest.map_or(Rail(0), |(rail, _)| rail),
            eager_bytes_end: 0,
            eager_bytes_max,
            eager_learnt_bytes,
            learns_beside_receives,
            announcements: Announcements::default(),
            unit_bytes,
            put_bytes_max: put_max.map_or(1, |most| u32::try_from(most.max(1)).unwrap_or(u32::MAX)),
            credit_cells,
            credits: credit_cells,
            owed: 0,
            unread: 0,
            sent_count: 0,
            received_count: 0,
            pending: VecDeque::new(),
            listed: false,
            failed: fastest.is_none().then_some(Error::Unreachable(peer)),
            is_plain: fastest.is_some() && !is_trunk,
            gap: Gap::NONE,
            begun: None,
            trunk,
        };
        link.eager_bytes_end = link.short_bytes_end();
        self.links.push(link);
        self.have_failed |= fastest.is_none();
        if is_trunk {
            self.trunks.push(index);
        }
        self.note_index(peer, index);
        index
    }

    #[inline]
    pub(crate) fn get(&self, index: LinkIndex) -> &Link {
        &self.links[index as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: LinkIndex) -> &mut Link {
        &mut self.links[index as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// Whether there is anything to send or to check.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        !self.listed.is_empty() | self.clock.is_check_due
    }

    /// Whether nothing goes over some link any more.
    #[inline(always)]
    pub(crate) fn have_failed(&self) -> bool {
        self.have_failed
    }

    /// Fate of something that a link was given.
    #[inline]
    pub(crate) fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    fn list(&mut self, index: LinkIndex) {
        let link = &mut self.links[index as usize];
        if !link.listed {
            link.listed = true;
            self.listed.push_back(index);
        }
    }

    /// Credit for an eager message that is in its receiver's buffer is owed.
    #[inline(always)]
    pub(crate) fn owe(&mut self, index: LinkIndex, length_bytes: usize) {
        let link = self.get_mut(index);
        link.owed += cells_of(length_bytes);
        if link.owes_much() {
            self.list(index);
        }
    }

    /// A message that was unmatched has been taken, or dropped.
    pub(crate) fn owe_unread(&mut self, index: LinkIndex, length_bytes: usize) {
        self.get_mut(index).unread -= cells_of(length_bytes);
        self.owe(index, length_bytes);
    }

    /// Puts a packet without payload in the link's queue.
    pub(crate) fn queue_control(&mut self, index: LinkIndex, header: Header) {
        self.queue(index, Outgoing { header, payload: Data::EMPTY, request: None });
    }

    /// Puts a packet in the link's queue.
    pub(crate) fn queue(&mut self, index: LinkIndex, outgoing: Outgoing) {
        let link = self.get_mut(index);
        if link.failed.is_none() {
            link.pending.push_back(outgoing);
            self.list(index);
        }
    }

    /// Sends a packet now, or queues it behind those that wait.
    pub(crate) fn offer_or_queue<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        header: Header,
        payload: Data,
    ) {
        let has_failed = self.get(index).failed.is_some();
        if has_failed || !self.offer_message(device, index, &header, &payload) {
            self.queue(index, Outgoing { header, payload, request: None });
        }
    }

    /// Offers an eager message, whose bytes may need packing. `false`: packets wait, or the device is full.
    pub(crate) fn offer_message<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        header: &Header,
        message: &Data,
    ) -> bool {
        let (now, link) = (self.now(), &mut self.links[index as usize]);
        link.pending.is_empty()
            && message.with_payload(0, message.len(), &mut self.packed, |bytes| {
                link.offer(device, now, header, bytes)
            })
    }

    /// Gives the device queued packets, owed credit, and what goes again or acknowledges. Whether it took
    /// any.
    pub(crate) fn flush<D: Device>(&mut self, device: &mut D) -> bool {
        let mut worked = false;
        for _ in 0..self.listed.len() {
            let Some(index) = self.listed.pop_front() else { break };
            let (took, empty) = self.flush_link(device, index);
            worked |= took;
            if empty {
                self.get_mut(index).listed = false;
            } else {
                self.listed.push_back(index);
            }
        }
        worked
    }

    /// Returns whether the device took anything, and whether nothing is left.
    fn flush_link<D: Device>(&mut self, device: &mut D, index: LinkIndex) -> (bool, bool) {
        let Self { links, events, packed, .. } = self;
        let (now, link, mut took) = (self.clock.now, &mut links[index as usize], false);
        if let Some(trunk) = &mut link.trunk {
            let (worked, all) = trunk.flush(device, now);
            events.extend(trunk.settled.drain(..));
            if !all {
                return (worked, false);
            }
            took = worked;
        }
        while let Some(Outgoing { header, payload, request }) = link.pending.pop_front() {
            let offer = |bytes: Payload<'_>| link.offer(device, now, &header, bytes);
            if !payload.with_payload(0, payload.len(), packed, offer) {
                link.pending.push_front(Outgoing { header, payload, request });
                return (took, false);
            }
            took = true;
            events.extend(request.map(LinkEvent::Sent));
        }
        if link.owes_much() && link.failed.is_none() {
            if !link.offer(device, now, &Header::Credit, NO_PAYLOAD) {
                return (took, false);
            }
            took = true;
        }
        (took, true)
    }

    /// Gives a peer up: nothing goes over its link any more. `false`: it had been, for good.
    pub(crate) fn fail(&mut self, index: LinkIndex, error: Error) -> bool {
        self.have_failed = true;
        let link = self.get_mut(index);
        if matches!(link.failed, Some(Error::ProcessAborted(_))) {
            return false;
        }
        (link.failed, link.is_plain) = (Some(error), false);
        link.pending.clear();
        link.announcements = Announcements::default();
        if let Some(trunk) = &mut link.trunk {
            trunk.close();
        }
        true
    }
}

#[cfg(test)]
mod tests;
