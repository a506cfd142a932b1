//! One peer as this process sees it: which rail, how much eager credit, what still waits to be sent.
//!
//! Credit is counted in cells of [`CELL_BYTES`]. A sender may have [`CREDIT_CELLS`] outstanding: sent and not
//! yet in a user's buffer. So a receiver holds at most that much unexpected data a peer, however slow it is
//! (MPI/DE's flow control, P2); a sender out of credit uses rendezvous, which needs none. Credit comes back on
//! any packet, or on one of its own when a quarter of the window is owed.
//!
//! A link over one rail that breaks only together with the peer (shared memory) gives its packets to the device as they
//! are. A link whose rails can break, or that has several, has a `Trunk` beside that: see [`config::TrunkConfig`] for what can
//! be set, and the files here for its parts, each a state machine of its own:
//!
//! | file | what it knows |
//! |---|---|
//! | `trunk` | the parts put together: several rails as one link |
//! | `rail` | what is under way on one rail, acknowledged, lost |
//! | `arrived` | what has come by one rail, and which acknowledgement is owed |
//! | `rate` | how fast a rail is, by measurement |
//! | `health` | whether a rail works: when silence is a fault |
//! | `stripe` | which rail takes the next piece: the policies |
//! | `stream` | packets that need order, kept until acknowledged |
//! | `reorder` | packets that came before their turn |
//! | `registrations` | registrations of memory, kept for messages to come |
//! | `spread` | a message's data in units: still to send, and come |

mod arrived;
mod config;
mod health;
mod rail;
mod rate;
pub(crate) mod registrations;
mod reorder;
pub(crate) mod spread;
mod stream;
pub mod stripe;
pub(crate) mod trunk;

pub use config::TrunkConfig;
pub use health::Health;
pub(crate) use rail::Carried;
pub(crate) use reorder::{Held, Place};
pub use stripe::Policy;
pub(crate) use trunk::Trunk;

use crate::buffer::Buffer;
use crate::device::{Device, Gap, RailCapabilities};
use crate::error::Error;
use crate::ids::{ProcessId, Rail, RailSet, RequestId};
use crate::time::Instant;
use crate::wire::trunk::TRUNK_PREFIX_BYTES;
use crate::wire::{Envelope, Header, Prefix, eager_header};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// How a message would be spread over these rails to one peer, as long as nothing is measured, in words.
pub fn explain(rails: &[RailCapabilities], policy: Policy, total_bytes: u64) -> String {
    let unit_bytes = trunk::unit_bytes(rails.iter().map(|rail| rail.packet_bytes_max).min());
    let state = |(index, rail): (usize, &RailCapabilities)| rail::RailState::new(Rail(index as u8), rail);
    let views: Vec<stripe::View> =
        rails.iter().enumerate().map(state).map(|state| state.view(unit_bytes.into())).collect();
    let names: Vec<&str> = rails.iter().map(|rail| rail.name).collect();
    stripe::explain(policy, &views, total_bytes, &names)
}

/// Unit of eager credit in bytes: a cache line.
pub const CELL_BYTES: usize = 64;
/// Eager data a peer may have outstanding, in cells: 4096 × 64 B = 256 KiB.
pub const CREDIT_CELLS: u32 = 4096;
/// Owed credit above which a packet is sent to return it.
const CREDIT_RETURN_CELLS: u32 = CREDIT_CELLS / 4;

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
    pub(crate) payload: Buffer,
    /// Told when the device has taken the packet.
    pub(crate) request: Option<RequestId>,
}

pub(crate) struct Link {
    pub(crate) peer: ProcessId,
    pub(crate) rails: RailSet,
    /// The rail for everything that has to stay in order.
    pub(crate) rail: Rail,
    pub(crate) eager_bytes_max: usize,
    /// Cells we may still send.
    pub(crate) credits: u32,
    /// Cells we owe the peer.
    pub(crate) owed: u32,
    /// Cells of the peer's messages that wait unmatched here.
    pub(crate) unread: u32,
    pub(crate) send_sequence: u32,
    pub(crate) receive_sequence: u32,
    pub(crate) pending: VecDeque<Outgoing>,
    /// Whether the link is in the process' list of links with something to send.
    pub(crate) listed: bool,
    /// Why nothing goes over it any more.
    pub(crate) failed: Option<Error>,
    /// The gap that the rails were last told.
    pub(crate) gap: Gap,
    /// Of a link over rails that can break, or several.
    pub(crate) trunk: Option<Box<Trunk>>,
}

impl Link {
    /// What the next packet begins with; takes the owed credit along.
    #[inline]
    pub(crate) fn next_prefix(&mut self) -> Prefix {
        let credits = self.owed.min(u32::from(u16::MAX));
        self.owed -= credits;
        let sequence = self.send_sequence;
        self.send_sequence = sequence.wrapping_add(1);
        Prefix { credits: credits as u16, sequence }
    }

    /// Takes back what `next_prefix` did, when the device was full.
    #[inline]
    pub(crate) fn undo_prefix(&mut self, prefix: Prefix) {
        self.owed += u32::from(prefix.credits);
        self.send_sequence = prefix.sequence;
    }

    #[inline]
    pub(crate) fn owes_much(&self) -> bool {
        self.owed >= CREDIT_RETURN_CELLS
    }

    /// Offers a short message to the device: the way that has to be fast. Inlined, so that the envelope stays in
    /// registers (see `eager_header`).
    #[inline(always)]
    pub(crate) fn offer_eager<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        envelope: &Envelope,
        message: &Buffer,
    ) -> bool {
        if self.trunk.is_some() {
            return self.offer(device, now, &Header::Eager(*envelope), message);
        }
        let prefix = self.next_prefix();
        let header = eager_header(prefix, envelope);
        let taken = device.send(self.rail, self.peer, &header, message.gather(0, message.len())).is_ok();
        if !taken {
            self.undo_prefix(prefix);
        }
        taken
    }

    /// Offers a packet to the device.
    pub(crate) fn offer<D: Device>(
        &mut self,
        device: &mut D,
        now: Instant,
        header: &Header,
        payload: &Buffer,
    ) -> bool {
        let prefix = self.next_prefix();
        let bytes = header.emit(prefix);
        let payload = payload.gather(0, payload.len());
        let taken = match &mut self.trunk {
            None => device.send(self.rail, self.peer, bytes.as_slice(), payload).is_ok(),
            Some(trunk) => trunk.offer(device, now, prefix.sequence, bytes.as_slice(), payload),
        };
        if !taken {
            self.undo_prefix(prefix);
        }
        taken
    }
}

/// All links, made when first needed.
pub(crate) struct Links {
    links: Vec<Link>,
    /// Link index by process, in pages: a process of a large job talks to few others.
    pages: Vec<Option<Box<[LinkIndex; PAGE]>>>,
    /// Links in trunk mode.
    trunks: Vec<LinkIndex>,
}

const PAGE: usize = 64;
const NO_LINK: LinkIndex = LinkIndex::MAX;

impl Links {
    pub(crate) const fn new() -> Self {
        Self { links: Vec::new(), pages: Vec::new(), trunks: Vec::new() }
    }

    #[inline]
    pub(crate) fn index_of(&self, peer: ProcessId) -> Option<LinkIndex> {
        let page = self.pages.get(peer.0 as usize / PAGE)?.as_ref()?;
        let index = page[peer.0 as usize % PAGE];
        (index != NO_LINK).then_some(index)
    }

    /// Makes the link to a peer.
    #[cold]
    pub(crate) fn open<D: Device>(
        &mut self,
        device: &D,
        peer: ProcessId,
        eager_override: Option<usize>,
        config: TrunkConfig,
    ) -> LinkIndex {
        let rails = device.rails_to(peer);
        let capabilities = |rail: Rail| &device.rails()[rail.0 as usize];
        let is_trunk = rails.iter().count() > 1
            || rails.iter().map(capabilities).any(|rail| rail.may_break || !rail.reliable || !rail.ordered);
        let fastest = rails.iter().min_by_key(|rail| device.rails()[rail.0 as usize].latency_ps);
        let eager_bytes_max = fastest.map_or(0, |rail| {
            let rail = &device.rails()[rail.0 as usize];
            let limit = eager_override.unwrap_or(rail.eager_bytes_max);
            // 32: the longer of the two eager headers.
            let longest = rail.packet_bytes_max.saturating_sub(32);
            if is_trunk {
                // Any rail has to be able to take it.
                let packet_max = rails.iter().map(|rail| capabilities(rail).packet_bytes_max).min();
                limit.min(packet_max.unwrap_or(0).saturating_sub(32 + TRUNK_PREFIX_BYTES))
            } else {
                limit.min(longest)
            }
        });
        let trunk = is_trunk.then(|| Box::new(Trunk::new(device, peer, rails, config)));
        let index = self.links.len() as LinkIndex;
        self.links.push(Link {
            peer,
            rails,
            rail: fastest.unwrap_or(Rail(0)),
            eager_bytes_max,
            credits: CREDIT_CELLS,
            owed: 0,
            unread: 0,
            send_sequence: 0,
            receive_sequence: 0,
            pending: VecDeque::new(),
            listed: false,
            failed: fastest.is_none().then_some(Error::Unreachable(peer)),
            gap: Gap::NONE,
            trunk,
        });
        if is_trunk {
            self.trunks.push(index);
        }
        let page = peer.0 as usize / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NO_LINK; PAGE]))[peer.0 as usize % PAGE] = index;
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

    /// The links in trunk mode.
    #[inline]
    pub(crate) fn trunks(&self) -> &[LinkIndex] {
        &self.trunks
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }
}
