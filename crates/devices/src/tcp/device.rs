//! The device: sockets that are up, read and written by the thread that calls MPI.

use super::acceptor::{Acquaintance, News, Order, Shared};
use super::card::{Card, Endpoint};
use super::connection::Connection;
use super::error::TcpError;
use super::handshake::Key;
use super::inflow::{Next, Read};
use super::peers::Peers;
use super::{pairing, sys};
use ayatori_core::buffer::{Buffer, Payload, Piece, payload_len};
use ayatori_core::device::{Armed, Device, Event, Fetched, Full, Gap, Incoming, Packet, RailCapabilities};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::Duration as CoreDuration;
use rustix::event::{Timespec, epoll};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Rails fit a `RailSet`.
const RAILS_MAX: usize = 32;
/// No connection.
pub(super) const NONE: u32 = u32::MAX;
/// Token of the acceptor's news in the epoll set; connections have their index.
pub(super) const NEWS: u64 = u64::MAX;
/// Token of a descriptor that only wakes.
pub(super) const DOORBELL: u64 = u64::MAX - 1;
/// After this many packets in a row from the expected connection, epoll need not watch it.
const STREAK: u32 = 8;
/// Events taken from the kernel at a time.
const EVENTS_COUNT: usize = 32;
/// A payload that takes longer to send than a look at all connections.
const LONG_BYTES: usize = 16 << 10;
/// One of this many empty polls of the expected connection looks at all.
const LOOK_AROUND: u32 = 8;
/// After this many empty polls the connection that is read alone is watched again: that it has ended in the
/// middle of a payload is known from epoll only. A wait without packets sleeps sooner, and watches it then.
const WATCH_AGAIN: u32 = 1 << 14;

/// The TCP device of one process. See the [module's docs](super).
pub struct Tcp {
    pub(super) first_rail: u8,
    pub(super) rails: Vec<RailCapabilities>,
    pub(super) peers: Peers<Peer>,
    /// Where we listen.
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) connections: Vec<Option<Connection>>,
    pub(super) epoll: OwnedFd,
    /// Connections that may have something to read.
    pub(super) ready: VecDeque<u32>,
    /// The connection whose frames are being handed over.
    pub(super) current: u32,
    /// The packet handed over, in the current connection's buffer.
    pub(super) packet: Range<usize>,
    /// The peer whose connection is looked at first.
    pub(super) expected: Option<ProcessId>,
    /// The connection that is not in the epoll set, because it is read at every poll: the kernel then has
    /// less to do for each packet, 4 % of a raw ping-pong. `NONE` while asleep, and while it has something
    /// unsent.
    pub(super) solo: u32,
    /// Packets in a row from the expected connection.
    pub(super) streak_count: u32,
    pub(super) polls_count: u32,
    /// A long packet was sent since the last look at all: that took its time, in which any connection may
    /// have got news.
    pub(super) has_sent_much: bool,
    /// Damaged packets of connections that have ended, and invalid heads.
    pub(super) damaged_before_count: u64,
    /// Some connections keep back the tail of a long packet.
    pub(super) keeps_tails: bool,
    /// The kernel had no room for all that was sent, and has not said since that it has.
    pub(super) may_hold: bool,
    pub(super) events: VecDeque<Event>,
    /// Rings when a peer in shared memory wakes us; then read until empty.
    pub(super) doorbell: Option<OwnedFd>,
    pub(super) is_summed: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) acceptor: Option<JoinHandle<()>>,
}

/// A process elsewhere.
pub(super) struct Peer {
    pub(super) rails: RailSet,
    /// By rail less the first one.
    pub(super) connections: Vec<u32>,
    /// The rate its rails are to keep to in bytes a second, by rail less the first one; `u64::MAX`: none.
    /// Also for connections to come.
    pub(super) paces: Vec<u64>,
    /// Where it was last heard.
    pub(super) last: u32,
    /// The acceptor knows that we want it.
    pub(super) is_wanted: bool,
    /// The acceptor knows that we wait for it.
    pub(super) is_awaited: bool,
    /// It has said goodbye, or is gone.
    pub(super) is_over: bool,
    /// It has said goodbye, and earlier packets may be unread on some connections.
    pub(super) is_leaving: bool,
}

impl Peer {
    /// It has no connection, and gets none.
    fn end(&mut self) {
        self.connections.fill(NONE);
        (self.last, self.is_over) = (NONE, true);
    }
}

/// A process elsewhere, and the rails that may reach it.
pub(super) fn peer(
    id: ProcessId,
    card: &Card,
    endpoints: &[Endpoint],
    first_rail: u8,
    rails_count: usize,
) -> Result<Peer, TcpError> {
    let mut plan = pairing::plan(endpoints, &card.endpoints);
    plan.truncate(rails_count.min(RAILS_MAX - usize::from(first_rail)));
    let mut rails = RailSet::default();
    for place in plan.iter().enumerate().filter(|(_, partners)| !partners.is_empty()).map(|(place, _)| place)
    {
        rails.0 |= RailSet::one(Rail(first_rail + place as u8)).0;
    }
    if rails.is_empty() {
        let names = |endpoints: &[Endpoint]| {
            let list: Vec<String> = endpoints
                .iter()
                .map(|endpoint| {
                    let addresses: Vec<String> = endpoint.addresses.iter().map(|a| a.0.to_string()).collect();
                    format!("{} ({})", endpoint.name, addresses.join(" "))
                })
                .collect();
            if list.is_empty() { "none".to_owned() } else { list.join(", ") }
        };
        return Err(TcpError::Unreachable {
            peer: id,
            theirs: names(&card.endpoints),
            ours: names(endpoints),
        });
    }
    let (connections, paces) = (vec![NONE; plan.len()], vec![u64::MAX; plan.len()]);
    Ok(Peer {
        rails,
        connections,
        paces,
        last: NONE,
        is_wanted: false,
        is_awaited: false,
        is_over: false,
        is_leaving: false,
    })
}

impl Tcp {
    /// Sleeps until something arrives, room comes, or the acceptor has news, at most `timeout`. Only after
    /// [`Device::arm`] answered [`Armed::Armed`]; may return early. Whether anything has happened.
    pub fn wait(&mut self, timeout: Option<Duration>) -> bool {
        self.gather(timeout)
    }

    /// Lets this descriptor wake [`wait`](Self::wait) too: the end of a pipe that others write to.
    ///
    /// # Errors
    /// The system's own.
    pub fn set_doorbell(&mut self, bell: OwnedFd) -> std::io::Result<()> {
        let token = epoll::EventData::new_u64(DOORBELL);
        epoll::add(&self.epoll, &bell, token, epoll::EventFlags::IN)?;
        self.doorbell = Some(bell);
        Ok(())
    }

    /// The descriptor that becomes readable when there is something to do.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// From now on a process of another world can be reached: both sides know the key of the connections
    /// between them. It must know this one before it is sent anything. Once more, with another card or key:
    /// these hold for connections from now on.
    ///
    /// # Errors
    /// No two interfaces of ours and its have addresses of the same kind.
    pub fn add_peer(&mut self, process: ProcessId, card: Card, key: Key) -> Result<(), TcpError> {
        let peer = peer(process, &card, &self.endpoints, self.first_rail, self.rails.len())?;
        self.peers.add(process, peer);
        self.shared.order(Order::Know(process, Box::new(Acquaintance { card, key })));
        Ok(())
    }

    /// Contact data with which others can add this process.
    pub fn card(&self, node: u64, cpus_count: u32) -> Card {
        Card { node, cpus_count, endpoints: self.endpoints.clone() }
    }

    /// Says goodbye to all and ends: pending packets leave first, if that takes no longer than `patience`.
    pub fn detach(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        for connection in self.connections.iter_mut().flatten() {
            connection.say_goodbye();
        }
        while self.connections.iter().flatten().any(|c| c.has_unsent() && !c.is_broken)
            && Instant::now() < deadline
        {
            self.gather(Some(Duration::from_millis(10)));
            for connection in self.connections.iter_mut().flatten() {
                connection.flush();
            }
        }
        self.stop();
    }

    /// Whether everything that was taken has been given to the kernel.
    pub fn is_flushed(&self) -> bool {
        self.connections.iter().flatten().all(|c| c.is_broken || !(c.has_unsent() || c.keeps_tail()))
    }

    /// Whether there may be something that was taken and that the kernel had no room for. Quick.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.may_hold
    }

    /// Tells the device, from any thread, that a process elsewhere has failed: requests that wait for it end
    /// at once and not after its silence.
    pub fn failure_notice(&self) -> impl Fn(ProcessId) + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move |process| shared.tell(super::acceptor::News::Gone(process))
    }

    /// What stands in the way of connections to processes elsewhere, for messages; from any thread.
    pub fn obstacles(&self) -> super::Obstacles {
        self.shared.obstacles.clone()
    }

    /// This process sleeps until a packet comes from that one: whether it is there at all is found out by a
    /// connection, where none stands after a second. Quick where this is known already.
    pub fn expect_long(&mut self, process: ProcessId) {
        let Some(peer) = self.peer_mut(process) else { return };
        if peer.last == NONE && !peer.is_wanted && !peer.is_over && !peer.is_awaited {
            peer.is_awaited = true;
            self.shared.order(Order::Await(process));
        }
    }

    /// Packets that came damaged and were dropped. One whose head is damaged ends its connection and counts,
    /// too.
    pub fn damaged_count(&self) -> u64 {
        let now: u64 = self.connections.iter().flatten().map(Connection::damaged_count).sum();
        self.damaged_before_count + now
    }

    fn stop(&mut self) {
        self.shared.order(Order::Stop);
        if let Some(thread) = self.acceptor.take() {
            let _ = thread.join();
        }
        self.connections.clear();
        self.peers.end(Peer::end);
        self.ready.clear();
        self.current = NONE;
    }

    #[inline]
    fn peer(&self, process: ProcessId) -> Option<&Peer> {
        self.peers.get(process)
    }

    fn peer_mut(&mut self, process: ProcessId) -> Option<&mut Peer> {
        self.peers.get_mut(process)
    }

    #[inline]
    fn connection_to(&mut self, process: ProcessId, rail: Rail) -> Option<&mut Connection> {
        let place = usize::from(rail.0.checked_sub(self.first_rail)?);
        let index = *self.peer(process)?.connections.get(place)?;
        self.connections.get_mut(index as usize)?.as_mut()
    }

    /// A request needs the process: tells the acceptor to connect.
    #[cold]
    fn want(&mut self, process: ProcessId) {
        let Some(peer) = self.peer_mut(process) else { return };
        if !peer.is_wanted && !peer.is_over {
            peer.is_wanted = true;
            self.shared.order(Order::Want(process));
        }
    }

    // Handles the acceptor's messages.

    #[cold]
    fn take_news(&mut self) {
        for news in self.shared.take_news() {
            match news {
                News::Up { peer, rail, epoch, socket } => self.on_up(peer, rail, epoch, socket),
                News::Down { peer, rail } => {
                    if self.connection_to(peer, rail).is_none() {
                        self.events.push_back(Event::RailDown(rail, peer));
                    }
                }
                News::Gone(process) => {
                    if let Some(peer) = self.peer_mut(process)
                        && !std::mem::replace(&mut peer.is_over, true)
                    {
                        self.events.push_back(Event::PeerGone(process));
                    }
                }
            }
        }
    }

    fn on_up(&mut self, process: ProcessId, rail: Rail, epoch: u32, socket: OwnedFd) {
        // A newer connection takes the place of one whose end we had not noticed.
        if let Some(place) = rail.0.checked_sub(self.first_rail)
            && let Some(old) = self.peer(process).and_then(|peer| peer.connections.get(usize::from(place)))
            && *old != NONE
        {
            self.drop_connection(*old);
            self.events.push_back(Event::RailDown(rail, process));
        }
        let index = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let token = epoll::EventData::new_u64(index as u64);
        let place = usize::from(rail.0 - self.first_rail);
        let Some(peer) = self.peers.get_mut(process) else { return };
        if peer.is_over || epoll::add(&self.epoll, &socket, token, watched()).is_err() {
            self.shared.order(Order::Broke(process, rail, epoch));
            return;
        }
        peer.connections[place] = index as u32;
        if peer.paces[place] != u64::MAX {
            sys::set_pacing_rate(socket.as_fd(), peer.paces[place]);
        }
        peer.is_wanted = true;
        if peer.last == NONE {
            peer.last = index as u32;
        }
        self.connections[index] = Some(Connection::new(process, rail, epoch, socket, self.is_summed));
        // Data right behind the handshake may have arrived before the watch began.
        self.make_ready(index as u32);
        self.events.push_back(Event::RailUp(rail, process));
    }

    // Connections that end.

    /// Forgets a connection; it is closed. With its last one, a peer that has said goodbye has left.
    fn drop_connection(&mut self, index: u32) {
        let Some(connection) = self.connections[index as usize].take() else { return };
        self.damaged_before_count += connection.damaged_count();
        if let Some(peer) = self.peer_mut(connection.peer) {
            for place in &mut peer.connections {
                if *place == index {
                    *place = NONE;
                }
            }
            if peer.last == index {
                peer.last = peer.connections.iter().copied().find(|&other| other != NONE).unwrap_or(NONE);
            }
        }
        if self.current == index {
            self.current = NONE;
        }
        if self.solo == index {
            self.solo = NONE;
        }
        let process = connection.peer;
        if let Some(peer) = self.peer_mut(process)
            && peer.connections.iter().all(|&index| index == NONE)
            && std::mem::take(&mut peer.is_leaving)
        {
            self.events.push_back(Event::PeerLeft(process));
        }
    }

    /// Lets epoll watch a connection, or not. Watching begins with what is there already.
    #[cold]
    fn watch(&mut self, index: u32, is_watched: bool) {
        let Some(Some(connection)) = self.connections.get(index as usize) else { return };
        if !is_watched {
            let _ = epoll::delete(&self.epoll, &connection.socket);
            return;
        }
        let token = epoll::EventData::new_u64(u64::from(index));
        if epoll::add(&self.epoll, &connection.socket, token, watched()).is_err() {
            // The user's limit is used up: a connection that is not watched is of no use.
            self.on_end(index);
        }
    }

    /// Back to watching all.
    #[inline]
    fn end_solo(&mut self) {
        self.streak_count = 0;
        if self.solo != NONE {
            let index = std::mem::replace(&mut self.solo, NONE);
            self.watch(index, true);
        }
    }

    /// Looks at the expected connection, which is likely to be the only one with news.
    #[inline]
    fn read_expected(&mut self, index: u32) -> Option<Event> {
        if self.solo != index {
            if self.solo != NONE {
                self.end_solo();
            }
            if self.streak_count >= STREAK {
                self.solo = index;
                self.watch(index, false);
            }
        } else if self.connections[index as usize].as_ref().is_some_and(|c| c.has_unsent() || c.wants_room) {
            // The send buffer is full: the device must wait for space.
            self.end_solo();
        }
        if self.connections[index as usize].as_ref().is_some_and(Connection::is_not_reread) {
            return None;
        }
        let event = self.read(index);
        if event.is_some() {
            self.streak_count = self.streak_count.saturating_add(1);
        }
        event
    }

    /// A connection has ended: after a goodbye, or by accident.
    #[cold]
    fn on_end(&mut self, index: u32) {
        let Some(connection) = &self.connections[index as usize] else { return };
        let (process, rail, epoch) = (connection.peer, connection.rail, connection.epoch);
        self.drop_connection(index);
        if self.peer(process).is_some_and(|peer| !peer.is_over) {
            self.shared.order(Order::Broke(process, rail, epoch));
            self.events.push_back(Event::RailDown(rail, process));
        }
    }

    #[cold]
    fn on_goodbye(&mut self, index: u32) {
        let Some(connection) = &self.connections[index as usize] else { return };
        let process = connection.peer;
        if let Some(peer) = self.peer_mut(process)
            && !std::mem::replace(&mut peer.is_over, true)
        {
            peer.is_leaving = true;
            self.shared.order(Order::Left(process));
        }
    }

    // Looking.

    fn make_ready(&mut self, index: u32) {
        if let Some(connection) = &mut self.connections[index as usize]
            && !std::mem::replace(&mut connection.is_ready, true)
        {
            self.ready.push_back(index);
        }
    }

    /// Asks the kernel for events of all sockets. Returns whether there are any.
    fn gather(&mut self, timeout: Option<Duration>) -> bool {
        let timeout =
            timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
        let mut happened = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_COUNT];
        // An interrupted wait is one without events.
        let Ok((happened, _)) = epoll::wait(&self.epoll, &mut happened, timeout.as_ref()) else {
            return false;
        };
        let has_happened = !happened.is_empty();
        for event in happened {
            match event.data.u64() {
                NEWS => super::acceptor::clear(&self.shared.news_event),
                DOORBELL => {
                    if let Some(bell) = &self.doorbell {
                        while matches!(rustix::io::read(bell, &mut [0u8; 64]), Ok(64)) {}
                    }
                }
                index => self.on_socket(index as u32, event.flags),
            }
        }
        has_happened
    }

    fn on_socket(&mut self, index: u32, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        if flags.contains(F::OUT) && (connection.has_unsent() || connection.wants_room) {
            connection.flush();
        }
        connection.is_closing |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        if flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR) {
            self.make_ready(index);
        }
        if flags.contains(F::OUT) && self.may_hold {
            self.may_hold = !self.is_flushed();
        }
    }

    /// Reads a connection once and hands over its first packet, if there is one.
    #[inline]
    fn read(&mut self, index: u32) -> Option<Event> {
        match self.connections.get_mut(index as usize)?.as_mut()?.read() {
            Read::More => {
                self.current = index;
                self.make_ready(index);
            }
            Read::Drained => self.current = index,
            Read::Nothing => return None,
            Read::Ended => {
                self.on_end(index);
                return self.events.pop_front();
            }
        }
        self.next_packet()
    }

    /// The next packet of the current connection.
    #[inline]
    fn next_packet(&mut self) -> Option<Event> {
        let index = self.current;
        let connection = self.connections.get_mut(index as usize)?.as_mut()?;
        match connection.next() {
            Ok(Next::Packet(range)) => {
                self.packet = range;
                let (rail, from) = (connection.rail, connection.peer);
                if let Some(peer) = self.peer_mut(from) {
                    peer.last = index;
                }
                Some(Event::Packet(Incoming { rail, from, slot: u64::from(index) }))
            }
            Ok(Next::Front(range, payload_bytes)) => {
                self.packet = range;
                let (rail, from) = (connection.rail, connection.peer);
                Some(Event::Front(Incoming { rail, from, slot: u64::from(index) }, payload_bytes))
            }
            Ok(Next::Nothing) => {
                self.current = NONE;
                None
            }
            Ok(Next::Skipping) => {
                // The kernel may have it already, and does not say so twice.
                self.current = NONE;
                self.make_ready(index);
                None
            }
            Ok(Next::Goodbye) => {
                self.on_goodbye(index);
                self.current = NONE;
                None
            }
            Err(super::frame::Damaged) => {
                self.damaged_before_count += 1;
                self.on_end(index);
                self.events.pop_front()
            }
        }
    }

    #[inline]
    fn poll_sockets(&mut self) -> Option<Event> {
        for _ in 0..self.ready.len() {
            let index = self.ready.pop_front()?;
            if let Some(connection) = &mut self.connections[index as usize] {
                connection.is_ready = false;
            }
            if let Some(event) = self.read(index) {
                return Some(event);
            }
        }
        None
    }
}

impl Device for Tcp {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        self.peer(peer).map_or(RailSet::default(), |peer| peer.rails)
    }

    #[inline]
    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        self.has_sent_much |= payload_len(&payload) >= LONG_BYTES;
        match self.connection_to(to, rail) {
            Some(connection) => {
                let sent = connection.send(header, payload);
                let keeps_tail = connection.keeps_tail();
                let holds = connection.has_unsent();
                if sent.is_err() && connection.is_broken {
                    // Data received before is handed over first; reading then finds the end.
                    let index = self.connection_index(to, rail);
                    self.make_ready(index);
                }
                self.keeps_tails |= keeps_tail;
                self.may_hold |= holds;
                sent
            }
            None => {
                self.want(to);
                Err(Full)
            }
        }
    }

    #[inline]
    fn flush(&mut self) {
        if std::mem::take(&mut self.keeps_tails) {
            for connection in self.connections.iter_mut().flatten() {
                connection.send_tail();
                self.may_hold |= connection.has_unsent();
            }
        }
    }

    #[inline]
    fn poll(&mut self) -> Option<Event> {
        if self.current != NONE {
            if let Some(event) = self.next_packet() {
                return Some(event);
            }
            // All data read has been handed over. The caller handles it before the next read, which takes
            // time and is likely to find nothing.
            if !self.has_more() {
                return None;
            }
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.shared.has_news() {
            self.take_news();
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
        }
        if let Some(event) = self.poll_sockets() {
            return Some(event);
        }
        self.polls_count = self.polls_count.wrapping_add(1);
        if self.polls_count.is_multiple_of(WATCH_AGAIN) {
            self.end_solo();
        }
        let expected = self.expected.and_then(|process| self.peer(process)).map_or(NONE, |peer| peer.last);
        // Where the expected connection is the only one and not watched, there is nothing else to ask for.
        let is_alone = self.solo != NONE && self.connections.len() == 1;
        let looks_around =
            self.polls_count.is_multiple_of(LOOK_AROUND) || std::mem::take(&mut self.has_sent_much);
        if expected != NONE && (is_alone || !looks_around) {
            return self.read_expected(expected);
        }
        if self.solo != NONE && self.solo != expected {
            self.end_solo();
        }
        self.gather(Some(Duration::ZERO));
        self.poll_sockets()
    }

    #[inline]
    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        let connection = self.connections[incoming.slot as usize].as_ref().expect("it lives until released");
        Packet { header: connection.bytes(self.packet.clone()), payload: Piece::EMPTY }
    }

    #[inline]
    fn release(&mut self, _: Incoming) {}

    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        let index = incoming.slot as u32;
        let connection = self.connections[index as usize].as_mut().expect("it lives until the next poll");
        let (fetched, read) = sys::fetch_into(&into, |into| connection.fetch(into));
        if matches!(read, Read::More | Read::Ended) {
            self.make_ready(index);
        }
        fetched
    }

    #[inline]
    fn expect(&mut self, from: Option<ProcessId>) {
        self.expected = from;
    }

    fn set_gap(&mut self, rail: Rail, peer: ProcessId, gap: Gap) {
        let full = self.rails.get(usize::from(rail.0.saturating_sub(self.first_rail)));
        let Some(full_bytes_per_s) = full.map(|rail| rail.bandwidth_bytes_per_s) else { return };
        let pace = if gap == Gap::NONE { u64::MAX } else { gap.rate_of(full_bytes_per_s).max(1) };
        if let Some(place) = rail.0.checked_sub(self.first_rail)
            && let Some(peer) = self.peer_mut(peer)
            && let Some(kept) = peer.paces.get_mut(usize::from(place))
        {
            *kept = pace;
        }
        if let Some(connection) = self.connection_to(peer, rail) {
            sys::set_pacing_rate(connection.socket.as_fd(), pace);
        }
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        if let Some(connection) = self.connection_to(peer, rail) {
            let epoch = connection.epoch;
            let index = self.connection_index(peer, rail);
            self.drop_connection(index);
            self.shared.order(Order::Broke(peer, rail, epoch));
        }
    }

    fn heard(&mut self, rail: Rail, peer: ProcessId) -> Option<CoreDuration> {
        let connection = self.connection_to(peer, rail)?;
        let far_end = sys::far_end(connection.socket.as_fd())?;
        let silent_ms = if far_end.unacknowledged_count == 0 { 0 } else { far_end.silent_ms };
        Some(CoreDuration::from_ms(u64::from(silent_ms)))
    }

    fn arm(&mut self) -> Armed {
        self.end_solo();
        self.flush();
        if self.has_more() { Armed::NotYet } else { Armed::Armed }
    }
}

impl Tcp {
    /// Whether a poll may find something without asking the kernel.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.current != NONE || !self.ready.is_empty() || !self.events.is_empty() || self.shared.has_news()
    }

    fn connection_index(&self, process: ProcessId, rail: Rail) -> u32 {
        let place = usize::from(rail.0 - self.first_rail);
        self.peer(process).map_or(NONE, |peer| peer.connections[place])
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        if self.acceptor.is_some() {
            self.stop();
        }
    }
}

/// Events requested for a watched connection.
fn watched() -> epoll::EventFlags {
    epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
}

#[cfg(test)]
mod tests;
