//! Outputs: what waits to be sent and moved, when to call again, what happened.

use super::{Process, ProcessEvent};
use crate::device::Device;
use crate::ids::ProcessId;
use crate::link::{LinkIndex, Links};
use crate::p2p::{Direct, Messages};
use crate::request::{Request, State};
use crate::rma::Rma;
use crate::slab::Slab;
use crate::survive::Survival;
use crate::time::Instant;
use alloc::vec::Vec;

impl Process {
    /// Whether [`poll_transmit`](Self::poll_transmit) has anything to do.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        self.messages.wants_transmit()
    }

    /// Gives the device queued packets, owed credit and data to move, until it is full. Whether it took any.
    pub fn poll_transmit<D: Device>(&mut self, device: &mut D) -> bool {
        if self.messages.links.is_check_due() {
            let Self { messages: Messages { links, requests, direct, .. }, rma, survival, .. } = self;
            let awaited = (&*requests, &*direct);
            links.check(device, |links| awaited_links(links, awaited, rma, survival));
            self.handle_events(device);
        }
        let mut worked = !self.messages.woken.is_empty() && self.advance_woken(device);
        self.handle_events(device);
        if !self.wants_transmit() {
            device.flush();
            return worked;
        }
        worked |= self.messages.links.flush(device);
        self.handle_events(device);
        let (moved, goes_on) = self.messages.transfers.advance(device, &mut self.messages.links);
        self.handle_events(device);
        // Else the next round goes on with what this one has begun.
        if !goes_on {
            device.flush();
        }
        self.messages.transfers.clear_away(device);
        worked | moved
    }

    /// Notifies the owners of ended messages. Returns whether there were any.
    fn advance_woken<D: Device>(&mut self, device: &mut D) -> bool {
        let mut worked = false;
        let mut put_off = Vec::new();
        while let Some(woken) = self.messages.woken.pop_front() {
            if woken.parent == crate::rma::PARENT {
                worked = true;
                self.windows().on_woken(device, woken.step, &woken.completion);
                while let Some((link, what)) = self.rma.blamed.pop_front() {
                    self.cut_off(link, what);
                }
                continue;
            }
            if woken.parent == crate::survive::PARENT {
                worked = true;
                self.survivors().send_notes(device);
                continue;
            }
            match self.messages.requests.get(woken.parent).map(|request| &request.state) {
                Some(State::Collective(_)) => match self.collectives().on_woken(device, woken) {
                    None => worked = true,
                    Some(woken) => put_off.push(woken),
                },
                Some(State::Partitioned(_)) => {
                    worked = true;
                    self.parts().wake_partitioned(woken);
                }
                _ => {}
            }
        }
        self.collectives.has_put_off = !put_off.is_empty();
        if !put_off.is_empty() {
            self.messages.woken.extend(put_off);
        }
        self.survivors().look_at_new_comms();
        worked
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, and a round of progress after it;
    /// `None`: not at all. Looks at every link that acknowledges: for a caller that is about to sleep.
    /// Packets that wait only because the device is full are not counted: the device wakes a sleeper when it
    /// can take more.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let is_awaited = || {
            let is_awaited = awaited(&self.messages.requests, &self.messages.direct).next().is_some();
            is_awaited || self.rma.is_awaiting() || self.survival.awaited().next().is_some()
        };
        self.messages.links.deadline(self.messages.links.want_time() && is_awaited())
    }

    /// The processes from which a receive waits. Before the first exchange with a process no link can detect
    /// its absence: the device may find out while the caller sleeps. Looks at every request, and may name a
    /// process more than once.
    pub fn sources(&self) -> impl Iterator<Item = ProcessId> + '_ {
        awaited(&self.messages.requests, &self.messages.direct).filter_map(|awaited| match awaited {
            Awaited::Peer(peer) => Some(peer),
            Awaited::Link(_) | Awaited::Any => None,
        })
    }

    /// The next event that concerns no single request.
    pub fn poll_event(&mut self) -> Option<ProcessEvent> {
        self.events.pop_front()
    }
}

/// A process that a request waits for: by its link, by its id, or any.
enum Awaited {
    Link(LinkIndex),
    Peer(ProcessId),
    Any,
}

/// The processes that requests, and the receive whose caller waits for it, wait for.
fn awaited<'a>(requests: &'a Slab<Request>, direct: &Direct) -> impl Iterator<Item = Awaited> + use<'a> {
    let from = |peer: Option<ProcessId>| peer.map_or(Awaited::Any, Awaited::Peer);
    let by_requests = requests.iter().filter_map(move |(_, request)| match &request.state {
        State::Complete(_) => None,
        State::Posted { peer, .. } => Some(from(*peer)),
        _ => request.link.map(Awaited::Link),
    });
    direct.wants().map(from).into_iter().chain(by_requests)
}

fn awaited_links(
    links: &Links,
    (requests, direct): (&Slab<Request>, &Direct),
    rma: &Rma,
    survival: &Survival,
) -> Vec<LinkIndex> {
    let peers = rma.awaited().chain(survival.awaited());
    let mut wanted: Vec<LinkIndex> = peers.filter_map(|peer| links.index_of(peer)).collect();
    for awaited in awaited(requests, direct) {
        match awaited {
            Awaited::Link(index) => wanted.push(index),
            Awaited::Peer(peer) => wanted.extend(links.index_of(peer)),
            Awaited::Any => return links.that_acknowledge().to_vec(),
        }
    }
    wanted
}
