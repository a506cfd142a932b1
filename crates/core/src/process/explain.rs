//! Reports a process' state and the needs of its requests, as plain data. Changes nothing.

use super::Process;
use crate::coll::running::Running;
use crate::collective::rounds::{self, Rounds};
use crate::explain::{
    CollectiveState, CommState, Explanation, LINKS_MAX, LIST_MAX, LinkState, Need, PostedReceive, SlowRail,
    UnexpectedMessage, ranges,
};
use crate::ids::{CommId, ContextId, ProcessId, RequestId, Source, TagSelector};
use crate::matching::Key;
use crate::p2p::{Arrival, Body, Direct};
use crate::request::partitioned::{Partitioned, Run};
use crate::request::{Posted, Request, State};
use alloc::string::String;
use alloc::vec::Vec;

/// Getters.
impl Process {
    /// This process' state: for people, when something waits too long.
    pub fn explain(&self) -> Explanation {
        let mut told = Explanation { process: self.told(self.messages.me).0, ..Explanation::default() };
        for comm in self.comms.iter().take(2 * LIST_MAX) {
            told.comms.push(CommState {
                context: comm.context(),
                members: ranges(comm.members().iter().map(|process| self.told(process).0).collect()),
                collectives_count: (u64::from(comm.collectives_count()), 0),
                name: String::new(),
            });
        }
        for (_, request) in self.messages.requests.iter() {
            if let State::Posted { key, peer, .. } = &request.state
                && !key.context().is_collective()
            {
                told.posted.push(self.posted_receive(key, *peer, request.length_bytes()));
            }
        }
        if let Some(Need::Message(wanted)) = self.need_of_direct()
            && !wanted.context.is_collective()
        {
            told.posted.push(wanted);
        }
        for (_, arrival) in self.messages.arrivals.iter() {
            if arrival.places.is_some() && !arrival.envelope.context.is_collective() {
                told.unexpected.push(self.unexpected_message(arrival));
            }
        }
        told.links = self.explain_links();
        for link in self.messages.links.iter() {
            for [slow, best] in link.slow_rails() {
                told.slow_rails.push(SlowRail {
                    peer: self.told(link.peer()),
                    rail: slow.rail.0,
                    bytes_per_s: slow.bytes_per_s,
                    round_trip_ns: slow.round_trip.0 / 1_000,
                    best: best.rail.0,
                    best_bytes_per_s: best.bytes_per_s,
                });
            }
        }
        told
    }

    /// Packets sent to all peers, received from them, and queued for them.
    pub fn packet_counts(&self) -> [u64; 3] {
        self.messages.links.iter().fold([0; 3], |[sent, received, queued], link| {
            let counts = link.counts();
            [sent + counts.0, received + counts.1, queued + counts.2]
        })
    }

    fn explain_links(&self) -> Vec<LinkState> {
        let state = |link: &crate::link::Link| LinkState {
            peer: self.told(link.peer()),
            // Compared with what the peer tells, so the low halves do.
            sent_count: link.counts().0 as u32,
            received_count: link.counts().1 as u32,
            queued_count: link.counts().2 as u32,
            has_failed: link.failed().is_some(),
            rails: link.health().into_iter().map(|(rail, health)| (rail.0, health)).collect(),
        };
        self.messages.links.iter().take(LINKS_MAX).map(state).collect()
    }

    fn unexpected_message(&self, arrival: &Arrival) -> UnexpectedMessage {
        let sender = match &arrival.body {
            Body::Eager { sync, .. } => *sync,
            Body::Rts { sender, .. } => Some(*sender),
            Body::Local { request, .. } => Some(*request),
        };
        UnexpectedMessage {
            context: arrival.envelope.context,
            source: self.told(arrival.link.map_or(self.messages.me, |at| self.messages.links.get(at).peer())),
            tag: arrival.envelope.tag,
            bytes: arrival.length(),
            sender,
        }
    }

    /// Need of the receive that its caller waits for; `None`: there is none.
    pub fn need_of_direct(&self) -> Option<Need> {
        match &self.messages.direct {
            Direct::None => None,
            Direct::Done => Some(Need::Nothing),
            Direct::Moving(id) => Some(self.need(*id)),
            Direct::Waiting { key, peer, buffer } => {
                Some(Need::Message(self.posted_receive(key, *peer, buffer.len())))
            }
        }
    }

    /// Need of the collective operation that its caller runs; `None`: there is none.
    pub fn need_of_run(&self) -> Option<Need> {
        let Rounds { schedule, span, .. } = self.collectives.rounds.as_ref()?;
        let needs = self.need_of_direct().filter(|need| *need != Need::Nothing);
        let needs = needs.into_iter().chain(self.needs_of_children(rounds::PARENT));
        Some(Need::Collective(CollectiveState {
            context: span.context.point_to_point(),
            number: i64::from(span.tag),
            label: schedule.label(),
            needs: needs.take(LIST_MAX).collect(),
        }))
    }

    /// Need of a probe for a message.
    pub fn need_of_probe(&self, comm: CommId, source: Source, tag: TagSelector) -> Need {
        match self.receive_key(comm, source, tag) {
            Ok(Some((key, peer))) => Need::Message(self.posted_receive(&key, peer, 0)),
            _ => Need::Nothing,
        }
    }

    /// Need of a request.
    pub fn need(&self, id: RequestId) -> Need {
        let Some(request) = self.messages.requests.get(id) else { return Need::Nothing };
        let peer = self.told(request.link.map_or(self.messages.me, |at| self.messages.links.get(at).peer()));
        match &request.state {
            State::Posted { key, peer, .. } => {
                Need::Message(self.posted_receive(key, *peer, request.length_bytes()))
            }
            State::AwaitMatch(_) | State::Local => {
                Need::Match { to: peer, request: id, bytes: request.length_bytes() as u64 }
            }
            State::Transfer(transfer) if self.messages.transfers.is_offered(*transfer) => {
                Need::Match { to: peer, request: id, bytes: self.messages.transfers.length_bytes(*transfer) }
            }
            State::Started(Posted::Pending(child)) => self.need(*child),
            State::Complete(_) | State::Inactive | State::Started(Posted::Done(_)) => Need::Nothing,
            State::Partitioned(of) => self.need_of_partitioned(id, of),
            State::Collective(running) => Need::Collective(self.explain_collective(id, running)),
            State::Parts(..) => Need::Other(self.rma.need_of(id, |process| self.told(process))),
            State::Elsewhere => Need::Other("its next step".into()),
            _ => Need::Progress { peer },
        }
    }

    /// Need of a partitioned request: the first of its messages that is under way, or a part that is ready.
    fn need_of_partitioned(&self, id: RequestId, partitioned: &Partitioned) -> Need {
        if !matches!(partitioned.run, Run::Active { .. }) {
            return Need::Nothing;
        }
        let is_child = |request: &Request| matches!(request.parent, Some((parent, _)) if parent == id);
        match self.messages.requests.iter().find(|(_, request)| is_child(request)) {
            Some((child, _)) => self.need(child),
            None => Need::Other("a partition to be marked ready (MPI_Pready)".into()),
        }
    }

    fn explain_collective(&self, id: RequestId, running: &Running) -> CollectiveState {
        CollectiveState {
            context: running.context().point_to_point(),
            number: i64::from(running.tag()),
            label: running.label(),
            needs: self.needs_of_children(id).take(LIST_MAX).collect(),
        }
    }

    /// Needs of the messages of an operation.
    fn needs_of_children(&self, parent: RequestId) -> impl Iterator<Item = Need> + '_ {
        let is_child = move |request: &Request| matches!(request.parent, Some((id, _)) if id == parent);
        let children = self.messages.requests.iter().filter(move |(_, request)| is_child(request));
        children.map(|(child, _)| self.need(child))
    }

    /// The context of a communicator.
    pub fn context_of(&self, comm: CommId) -> Option<ContextId> {
        self.comm(comm).ok().map(crate::comm::Communicator::context)
    }

    /// A process as reported: by its rank in this world. A process of another world has a number that is no
    /// rank.
    pub fn told(&self, process: ProcessId) -> ProcessId {
        ProcessId(process.0.wrapping_sub(self.first.0))
    }

    fn posted_receive(&self, key: &Key, source: Option<ProcessId>, bytes: usize) -> PostedReceive {
        let source = source.map(|source| self.told(source));
        PostedReceive { context: key.context(), source, tag: key.tag(), bytes: bytes as u64 }
    }
}
