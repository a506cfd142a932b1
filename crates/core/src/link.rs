//! One peer as this process sees it: which rail, how much eager credit, what still waits to be sent.
//!
//! Credit is counted in cells of [`CELL_BYTES`]. A sender may have [`CREDIT_CELLS`] outstanding: sent and not
//! yet in a user's buffer. So a receiver holds at most that much unexpected data a peer, however slow it is
//! (MPI/DE's flow control, P2); a sender out of credit uses rendezvous, which needs none. Credit comes back on
//! any packet, or on one of its own when a quarter of the window is owed.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{ProcessId, Rail, RailSet, RequestId};
use crate::time::Duration;
use crate::wire::{Envelope, Header, Prefix, eager_header};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Unit of eager credit in bytes: a cache line.
pub const CELL_BYTES: usize = 64;
/// Eager data a peer may have outstanding, in cells: 4096 × 64 B = 256 KiB.
pub const CREDIT_CELLS: u32 = 4096;
/// Owed credit above which a packet is sent to return it.
const CREDIT_RETURN_CELLS: u32 = CREDIT_CELLS / 4;

/// How links over rails that can break behave (trunk mode).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrunkConfig {
    /// A rail that acknowledges nothing for so long, while the peer is known to be awake, is taken out.
    pub silence: Duration,
    /// How often a rail that was taken out is tried.
    pub probe_interval: Duration,
    /// How long a peer may be without any rail before its operations fail.
    pub peer_timeout: Duration,
}

impl Default for TrunkConfig {
    fn default() -> Self {
        Self {
            silence: Duration::from_ms(400),
            probe_interval: Duration::from_ms(500),
            peer_timeout: Duration::from_s(10),
        }
    }
}

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

    /// Offers a short message to the device: the way that has to be fast.
    #[inline]
    pub(crate) fn offer_eager<D: Device>(
        &mut self,
        device: &mut D,
        envelope: &Envelope,
        message: &Buffer,
    ) -> bool {
        let prefix = self.next_prefix();
        let header = eager_header(prefix, envelope);
        let taken = device.send(self.rail, self.peer, &header, message.gather(0, message.len())).is_ok();
        if !taken {
            self.undo_prefix(prefix);
        }
        taken
    }

    /// Offers a packet to the device.
    pub(crate) fn offer<D: Device>(&mut self, device: &mut D, header: &Header, payload: &Buffer) -> bool {
        let prefix = self.next_prefix();
        let bytes = header.emit(prefix);
        let payload = payload.gather(0, payload.len());
        let taken = device.send(self.rail, self.peer, bytes.as_slice(), payload).is_ok();
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
}

const PAGE: usize = 64;
const NO_LINK: LinkIndex = LinkIndex::MAX;

impl Links {
    pub(crate) const fn new() -> Self {
        Self { links: Vec::new(), pages: Vec::new() }
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
    ) -> LinkIndex {
        let rails = device.rails_to(peer);
        let fastest = rails.iter().min_by_key(|rail| device.rails()[rail.0 as usize].latency_ps);
        let eager_bytes_max = fastest.map_or(0, |rail| {
            let rail = &device.rails()[rail.0 as usize];
            let limit = eager_override.unwrap_or(rail.eager_bytes_max);
            // 32: the longer of the two eager headers.
            limit.min(rail.packet_bytes_max.saturating_sub(32))
        });
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
        });
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }
}
