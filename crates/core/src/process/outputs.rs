//! Outputs: what waits to be sent and moved, when to call again, what happened.

use super::{Probe, Process, ProcessEvent};
use crate::device::Device;
use crate::ids::{ContextId, ProcessId};
use crate::link::{LinkIndex, Links};
use crate::p2p::{Direct, Messages};
use crate::request::{Request, State};
use crate::rma::Rma;
use crate::slab::Slab;
use crate::survive::Survival;
use crate::time::Instant;
use alloc::vec;
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
            self.check_links(device);
        }
        let mut worked = false;
        if !self.messages.woken.is_empty() {
            // What the owners of ended messages do next is not to be timed with these.
            self.messages.transfers.clear_away(device);
            worked = self.advance_woken(device);
        }
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

    /// Looks after time, and after the peers that something waits for.
    #[cold]
    #[inline(never)]
    fn check_links<D: Device>(&mut self, device: &mut D) {
        let Self { messages: Messages { links, requests, direct, .. }, rma, survival, probes, .. } = self;
        let awaited = awaited(requests, direct, probes);
        links.check(device, |links| awaited_links(links, awaited, rma, survival));
        self.handle_events(device);
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
                None if woken.parent == crate::collective::rounds::PARENT => {
                    worked = true;
                    self.collectives().on_run_woken(&woken);
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
            let is_awaited = self.awaited().next().is_some();
            is_awaited || self.rma.is_awaiting() || self.survival.awaited().next().is_some()
        };
        self.messages.links.deadline(self.messages.links.want_time() && is_awaited())
    }

    /// The processes from which a receive or a probe waits. Before the first exchange with a process no link
    /// can detect its absence: the device may find out while the caller sleeps. Looks at every request, and
    /// may name a process more than once. Of a receive from any source, one that may serve it, or all once
    /// one was not reached; none where one was met.
    pub fn sources(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.awaited().flat_map(|awaited| match awaited {
            Awaited::Peer(peer) => vec![peer],
            Awaited::Link(_) => Vec::new(),
            Awaited::Any(context) => self.sources_in(context),
        })
    }

    fn awaited(&self) -> impl Iterator<Item = Awaited> + '_ {
        awaited(&self.messages.requests, &self.messages.direct, &self.probes)
    }

    /// Those that are asked for on behalf of a receive from any source.
    fn sources_in(&self, context: ContextId) -> Vec<ProcessId> {
        let links = &self.messages.links;
        if self.others_in(context).any(|peer| links.has_met(peer)) {
            return Vec::new();
        }
        let rest = || self.others_in(context).filter(|&peer| !links.is_out_of_reach(peer));
        // The next ranks differ from member to member: not all ask for the same one.
        let me = self.me();
        let one = rest().find(|&peer| peer > me).or_else(|| rest().next());
        match self.others_in(context).any(|peer| links.is_out_of_reach(peer)) {
            false => one.into_iter().collect(),
            true => rest().collect(),
        }
    }

    /// The other processes that may send messages of a communicator's context.
    fn others_in(&self, context: ContextId) -> impl Iterator<Item = ProcessId> + '_ {
        let comm = self.comms.iter().find(|comm| comm.context() == context);
        let me = self.me();
        comm.into_iter().flat_map(|comm| comm.peers().iter()).filter(move |&peer| peer != me)
    }

    /// Whether receives from any source wait for a process, and nothing waits for it alone.
    pub(super) fn is_awaited_among_others(&self, peer: ProcessId) -> bool {
        let index = self.messages.links.index_of(peer);
        if self.rma.awaited().chain(self.survival.awaited()).any(|awaited| awaited == peer) {
            return false;
        }
        let mut is_one_of_many = false;
        for awaited in self.awaited() {
            match awaited {
                Awaited::Link(at) if Some(at) == index => return false,
                Awaited::Peer(awaited) if awaited == peer => return false,
                Awaited::Any(context) => is_one_of_many |= self.others_in(context).any(|other| other == peer),
                _ => {}
            }
        }
        is_one_of_many
    }

    /// All that may serve a receive from any source which this process could, where all are out of reach.
    pub(super) fn sources_out_of_reach(&self, peer: ProcessId) -> Vec<ProcessId> {
        let links = &self.messages.links;
        let mut found = Vec::new();
        for awaited in self.awaited() {
            let Awaited::Any(context) = awaited else { continue };
            let is_hopeless = || self.others_in(context).all(|other| links.is_out_of_reach(other));
            if self.others_in(context).any(|other| other == peer) && is_hopeless() {
                found.extend(self.others_in(context));
            }
        }
        found
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
    Any(ContextId),
}

/// The processes that requests, the receive whose caller waits for it, and probes wait for.
fn awaited<'a>(
    requests: &'a Slab<Request>,
    direct: &Direct,
    probes: &'a Slab<Probe>,
) -> impl Iterator<Item = Awaited> + use<'a> {
    let from = |context, peer: Option<ProcessId>| peer.map_or(Awaited::Any(context), Awaited::Peer);
    let by_requests = requests.iter().filter_map(move |(_, request)| match &request.state {
        State::Complete(_) => None,
        State::Posted { key, peer } => Some(from(key.context(), *peer)),
        _ => request.link.map(Awaited::Link),
    });
    let by_probes = probes.iter().map(move |(_, probe)| from(probe.context, probe.peer));
    let direct = direct.awaits().map(|(key, peer)| from(key.context(), peer));
    direct.into_iter().chain(by_requests).chain(by_probes)
}

fn awaited_links(
    links: &Links,
    awaited: impl Iterator<Item = Awaited>,
    rma: &Rma,
    survival: &Survival,
) -> Vec<LinkIndex> {
    let peers = rma.awaited().chain(survival.awaited());
    let mut wanted: Vec<LinkIndex> = peers.filter_map(|peer| links.index_of(peer)).collect();
    for awaited in awaited {
        match awaited {
            Awaited::Link(index) => wanted.push(index),
            Awaited::Peer(peer) => wanted.extend(links.index_of(peer)),
            Awaited::Any(_) => return links.that_acknowledge().to_vec(),
        }
    }
    wanted
}
