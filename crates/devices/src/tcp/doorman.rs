//! The doorman: a thread that makes connections and lets in those who prove that they belong to the job.
//!
//! It owns the listening sockets, every call of ours and every handshake until it is over; what passes goes to the
//! device's inbox as an open connection, and nothing else of a stranger ever reaches the thread that computes. It
//! sleeps in one epoll and wakes for connections, orders and deadlines only, so it costs a running job nothing; and
//! because it is a thread, a peer that computes for an hour still answers its door.
//!
//! Bounds: at most [`Timing::guests_max`] callers that have proved nothing are kept, the newest ones (an honest call
//! takes one round trip, so it is never the oldest for long); each must have proved itself within
//! [`Timing::handshake`].

use super::Settings;
use super::card::{Card, Door};
use super::handshake::{self, CHALLENGE_BYTES, HELLO_BYTES, Hello, Key, PROOF_BYTES, VERDICT_BYTES, Verdict};
use super::interfaces::Interface;
use super::pairing;
use super::slots::{Candidate, Consequence, Failure, Peer, State};
use super::sys;
use ayatori_core::ids::{ProcessId, Rail};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The doorman's clocks and bounds.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a connection may take to come up.
    pub connect: Duration,
    /// How long a caller may take to prove itself, and a listener to answer.
    pub handshake: Duration,
    /// Most callers that have proved nothing.
    pub guests_max: usize,
}

impl Default for Timing {
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), handshake: Duration::from_secs(2), guests_max: 64 }
    }
}

/// What the device tells the doorman.
#[derive(Debug)]
pub(super) enum Order {
    /// Somebody wants to talk to this peer.
    Want(ProcessId),
    /// A connection broke, or was found silent.
    Broke(ProcessId, Rail, u32),
    /// The peer took leave: its connections may end.
    Left(ProcessId),
    /// The end.
    Stop,
}

/// What the doorman tells the device.
#[derive(Debug)]
pub(super) enum News {
    Up { peer: ProcessId, rail: Rail, epoch: u32, socket: OwnedFd },
    Down { peer: ProcessId, rail: Rail },
    Gone(ProcessId),
}

/// What both threads have.
#[derive(Debug)]
pub(super) struct Shared {
    orders: Mutex<VecDeque<Order>>,
    /// Wakes the doorman.
    orders_bell: OwnedFd,
    news: Mutex<VecDeque<News>>,
    has_news: AtomicBool,
    /// Wakes the device.
    pub(super) news_bell: OwnedFd,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rings an eventfd. It can only fail by being rung already.
fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Makes an eventfd silent.
pub(super) fn hush(bell: &OwnedFd) {
    let _ = rustix::io::read(bell, &mut [0u8; 8]);
}

impl Shared {
    fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            orders: Mutex::default(),
            orders_bell: eventfd(0, flags)?,
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            news_bell: eventfd(0, flags)?,
        })
    }

    pub(super) fn order(&self, order: Order) {
        lock(&self.orders).push_back(order);
        ring(&self.orders_bell);
    }

    /// Whether [`take_news`](Self::take_news) would give something.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed)
    }

    pub(super) fn take_news(&self) -> VecDeque<News> {
        let mut news = lock(&self.news);
        self.has_news.store(false, Ordering::Relaxed);
        std::mem::take(&mut news)
    }

    fn tell(&self, news: News) {
        lock(&self.news).push_back(news);
        self.has_news.store(true, Ordering::Relaxed);
        ring(&self.news_bell);
    }
}

/// What a doorman needs to know.
pub(super) struct Setup {
    pub(super) me: ProcessId,
    pub(super) first_rail: u8,
    pub(super) key: Key,
    pub(super) settings: Settings,
    pub(super) interfaces: Vec<Interface>,
    pub(super) doors: Vec<Door>,
    /// Each with its interface's place.
    pub(super) listeners: Vec<(u8, OwnedFd)>,
    /// Of the processes elsewhere, by id.
    pub(super) cards: Vec<Option<Card>>,
}

/// Starts the thread.
pub(super) fn start(setup: Setup) -> io::Result<(Arc<Shared>, std::thread::JoinHandle<()>)> {
    let shared = Arc::new(Shared::new()?);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let readable = epoll::EventFlags::IN;
    epoll::add(&epoll, &shared.orders_bell, Token::Orders.encode(), readable)?;
    for (place, (_, listener)) in setup.listeners.iter().enumerate() {
        epoll::add(&epoll, listener, Token::Listener(place as u64).encode(), readable)?;
    }
    let doorman = Doorman {
        setup,
        shared: Arc::clone(&shared),
        epoll,
        peers: BTreeMap::new(),
        calls: BTreeMap::new(),
        guests: BTreeMap::new(),
        next_id: 0,
        closed_until: None,
    };
    let builder = std::thread::Builder::new().name("ayatori-door".to_owned()).stack_size(256 << 10);
    let thread = sys::without_signals(|| builder.spawn(move || doorman.run()))?;
    Ok((shared, thread))
}

#[derive(Clone, Copy)]
enum Token {
    Orders,
    Listener(u64),
    Call(u64),
    Guest(u64),
}

impl Token {
    fn encode(self) -> epoll::EventData {
        let (kind, id) = match self {
            Self::Orders => (0, 0),
            Self::Listener(id) => (1, id),
            Self::Call(id) => (2, id),
            Self::Guest(id) => (3, id),
        };
        epoll::EventData::new_u64(id << 2 | kind)
    }

    fn decode(data: epoll::EventData) -> Self {
        let (kind, id) = (data.u64() & 3, data.u64() >> 2);
        match kind {
            0 => Self::Orders,
            1 => Self::Listener(id),
            2 => Self::Call(id),
            _ => Self::Guest(id),
        }
    }
}

/// Bytes of a handshake message as they come.
struct Inbox {
    bytes: [u8; HELLO_BYTES],
    filled: usize,
}

/// What came of reading a message.
enum Read {
    Whole,
    Part,
    /// The far end has closed, or the connection broke.
    Ended,
}

impl Inbox {
    const EMPTY: Self = Self { bytes: [0; HELLO_BYTES], filled: 0 };

    /// Reads up to a length and not a byte more: what follows is for others.
    fn fill(&mut self, socket: &OwnedFd, length: usize) -> Read {
        while self.filled < length {
            match rustix::net::recv(socket, &mut self.bytes[self.filled..length], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Read::Ended,
                Ok((count, _)) => self.filled += count,
                Err(Errno::AGAIN) => return Read::Part,
                Err(Errno::INTR) => {}
                Err(_) => return Read::Ended,
            }
        }
        self.filled = 0;
        Read::Whole
    }

    fn message<const N: usize>(&self) -> [u8; N] {
        let mut message = [0; N];
        message.copy_from_slice(&self.bytes[..N]);
        message
    }
}

const _: () =
    assert!(CHALLENGE_BYTES <= HELLO_BYTES && PROOF_BYTES <= HELLO_BYTES && VERDICT_BYTES <= HELLO_BYTES);

/// Sends a handshake message; a fresh connection takes it whole.
fn send(socket: &OwnedFd, message: &[u8]) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::send(socket, message, flags) == Ok(message.len())
}

enum CallStage {
    Connecting,
    Challenge,
    Verdict([u8; CHALLENGE_BYTES]),
}

/// A call of ours.
struct Call {
    socket: OwnedFd,
    peer: ProcessId,
    slot: usize,
    partner: u8,
    hello: [u8; HELLO_BYTES],
    stage: CallStage,
    inbox: Inbox,
    deadline: Instant,
}

/// A caller that has not proved itself.
struct Guest {
    socket: OwnedFd,
    interface: u8,
    /// Its hello and our challenge, once it has spoken.
    asked: Option<([u8; HELLO_BYTES], [u8; CHALLENGE_BYTES])>,
    inbox: Inbox,
    deadline: Instant,
}

/// How long no one is let in when descriptors or memory have run out.
const CLOSED: Duration = Duration::from_millis(100);
/// Callers accepted at a time.
const ACCEPT_COUNT: usize = 16;
/// A process without own calls to a peer leaves it this long to make its other calls.
const CALLED_DELAY: Duration = Duration::from_millis(100);

struct Doorman {
    setup: Setup,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    peers: BTreeMap<ProcessId, Peer>,
    calls: BTreeMap<u64, Call>,
    /// Oldest first.
    guests: BTreeMap<u64, Guest>,
    next_id: u64,
    /// Until then listeners are not looked at.
    closed_until: Option<Instant>,
}

impl Doorman {
    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            let now = Instant::now();
            if !self.take_orders(now) {
                return;
            }
            self.handle_time(now);
            let timeout = self.next_time().map(|at| {
                let left = at.saturating_duration_since(Instant::now());
                // Rounded up: waking before the time would only spin.
                let left = left + Duration::from_micros(50);
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
            });
            events.clear();
            // An interrupted or failed wait is as one without events; it cannot fail for good.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref());
            for event in &events {
                match Token::decode(event.data) {
                    Token::Orders => hush(&self.shared.orders_bell),
                    Token::Listener(place) => self.accept(place as usize),
                    Token::Call(id) => self.on_call(id),
                    Token::Guest(id) => self.on_guest(id),
                }
            }
        }
    }

    /// `false`: stop.
    fn take_orders(&mut self, now: Instant) -> bool {
        let orders = std::mem::take(&mut *lock(&self.shared.orders));
        for order in orders {
            match order {
                Order::Want(peer) => {
                    self.know(peer, Duration::ZERO, now);
                }
                Order::Broke(peer, rail, epoch) => {
                    let is_lower = self.setup.me < peer;
                    if let Some(peer) = self.peers.get_mut(&peer) {
                        peer.on_broken(rail, epoch, is_lower, now);
                    }
                }
                Order::Left(peer) => {
                    if let Some(peer) = self.peers.get_mut(&peer) {
                        peer.is_over = true;
                    }
                    self.calls.retain(|_, call| call.peer != peer);
                }
                Order::Stop => return false,
            }
        }
        true
    }

    /// The peer's rails, planned if this is the first time. `None`: it is not of this job, or not elsewhere.
    fn know(&mut self, id: ProcessId, delay: Duration, now: Instant) -> Option<&mut Peer> {
        let Setup { first_rail, doors, cards, .. } = &self.setup;
        let card = cards.get(id.0 as usize)?.as_ref()?;
        Some(self.peers.entry(id).or_insert_with(|| Peer::new(id, *first_rail, doors, card, now, delay)))
    }

    fn next_time(&self) -> Option<Instant> {
        let peers = self.peers.values().filter_map(Peer::next_time);
        let calls = self.calls.values().map(|call| call.deadline);
        let guests = self.guests.values().map(|guest| guest.deadline);
        peers.chain(calls).chain(guests).chain(self.closed_until).min()
    }

    /// Everything that is due.
    fn handle_time(&mut self, now: Instant) {
        let late: Vec<u64> =
            self.calls.iter().filter(|(_, c)| c.deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.fail(id, Failure::Other);
        }
        self.guests.retain(|_, guest| guest.deadline > now);
        if self.closed_until.is_some_and(|at| at <= now) {
            self.closed_until = None;
            for (place, (_, listener)) in self.setup.listeners.iter().enumerate() {
                let token = Token::Listener(place as u64).encode();
                let _ = epoll::add(&self.epoll, listener, token, epoll::EventFlags::IN);
            }
        }
        let mut due: Vec<(ProcessId, usize, Candidate, u32)> = Vec::new();
        for peer in self.peers.values_mut() {
            let id = peer.id;
            for rail in peer.overdue(now) {
                self.shared.tell(News::Down { peer: id, rail });
            }
            for slot in 0..peer.slots.len() {
                if let Some(candidate) = peer.take_due(slot, now) {
                    due.push((peer.id, slot, candidate, peer.slots[slot].epoch.saturating_add(1)));
                }
            }
        }
        for (peer, slot, candidate, epoch) in due {
            self.dial(peer, slot, candidate, epoch, now);
        }
    }

    // Calls of ours.

    fn dial(&mut self, peer: ProcessId, slot: usize, candidate: Candidate, epoch: u32, now: Instant) {
        let interface = self.peers[&peer].slots[slot].interface;
        let id = self.next_id;
        self.next_id += 1;
        let socket = match self.connect(interface, &candidate) {
            Ok(socket) => socket,
            Err(error) => {
                self.on_failure(peer, slot, failure_of(error));
                return;
            }
        };
        // Without random bytes there is no proof; the attempt counts as failed and is repeated.
        let Ok(nonce) = handshake::random() else {
            return self.on_failure(peer, slot, Failure::Other);
        };
        let hello = Hello {
            from: self.setup.me,
            to: peer,
            from_interface: interface,
            to_interface: candidate.partner,
            epoch,
            nonce,
        };
        let watched = epoll::add(&self.epoll, &socket, Token::Call(id).encode(), epoll::EventFlags::OUT);
        if watched.is_err() {
            return self.on_failure(peer, slot, Failure::Other);
        }
        let call = Call {
            socket,
            peer,
            slot,
            partner: candidate.partner,
            hello: hello.emit(),
            stage: CallStage::Connecting,
            inbox: Inbox::EMPTY,
            deadline: now + self.setup.settings.timing.connect,
        };
        self.calls.insert(id, call);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.slots[slot].state = State::Dialling(id);
        }
    }

    /// A socket on its way to the candidate.
    fn connect(&self, interface: u8, candidate: &Candidate) -> Result<OwnedFd, Errno> {
        let family = if candidate.to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = stream_socket(family)?;
        self.setup.settings.apply(&socket);
        let interface = &self.setup.interfaces[usize::from(interface)];
        // To an address of this host the way is through its loopback, whatever interface has it.
        if !interface.is_loopback && !pairing::is_own(&self.setup.doors, candidate.to.ip()) {
            // Where this is not allowed the routes decide, which is right for rails on different networks.
            let _ = sys::bind_to_interface(socket.as_fd(), interface.index);
        }
        rustix::net::bind(&socket, &scoped(candidate.from.ip, 0, interface.index))?;
        match rustix::net::connect(&socket, &scoped(candidate.to.ip(), candidate.to.port(), interface.index))
        {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }

    fn on_call(&mut self, id: u64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let key = &self.setup.key;
        if let CallStage::Connecting = call.stage {
            match sockopt::socket_error(&call.socket) {
                Ok(Ok(())) if send(&call.socket, &call.hello) => {
                    call.stage = CallStage::Challenge;
                    call.deadline = Instant::now() + self.setup.settings.timing.handshake;
                    let token = Token::Call(id).encode();
                    let _ = epoll::modify(&self.epoll, &call.socket, token, epoll::EventFlags::IN);
                }
                Ok(Err(error)) => self.fail(id, failure_of(error)),
                _ => self.fail(id, Failure::Other),
            }
            return;
        }
        let length = if let CallStage::Challenge = call.stage { CHALLENGE_BYTES } else { VERDICT_BYTES };
        match call.inbox.fill(&call.socket, length) {
            Read::Part => return,
            Read::Ended => return self.fail(id, Failure::Other),
            Read::Whole => {}
        }
        match call.stage {
            CallStage::Connecting => {}
            CallStage::Challenge => {
                let challenge = call.inbox.message();
                let proof = handshake::prove(key, &call.hello, &challenge);
                call.stage = CallStage::Verdict(challenge);
                if !proof.is_some_and(|proof| send(&call.socket, &proof)) {
                    self.fail(id, Failure::Other);
                }
            }
            CallStage::Verdict(challenge) => {
                match handshake::parse_verdict(key, &call.inbox.message(), &call.hello, &challenge) {
                    Some((Verdict::Welcome, epoch)) => self.succeed(id, epoch),
                    Some((Verdict::Duplicate, epoch)) => self.fail(id, Failure::Duplicate(epoch)),
                    Some((Verdict::Busy, _)) | None => self.fail(id, Failure::Other),
                }
            }
        }
    }

    fn succeed(&mut self, id: u64, epoch: u32) {
        let Some(call) = self.calls.remove(&id) else { return };
        let _ = epoll::delete(&self.epoll, &call.socket);
        let Some(peer) = self.peers.get_mut(&call.peer) else { return };
        peer.on_up(call.slot, call.partner, epoch);
        let rail = peer.slots[call.slot].rail;
        self.shared.tell(News::Up { peer: call.peer, rail, epoch, socket: call.socket });
    }

    fn fail(&mut self, id: u64, failure: Failure) {
        if let Some(call) = self.calls.remove(&id) {
            self.on_failure(call.peer, call.slot, failure);
        }
    }

    fn on_failure(&mut self, id: ProcessId, slot: usize, failure: Failure) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match peer.on_failure(slot, failure, Instant::now()) {
            Consequence::Nothing => {}
            Consequence::Down(rail) => self.shared.tell(News::Down { peer: id, rail }),
            Consequence::Gone => {
                self.calls.retain(|_, call| call.peer != id);
                self.shared.tell(News::Gone(id));
            }
        }
    }

    // Callers.

    fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPT_COUNT {
            let (interface, listener) = &self.setup.listeners[place];
            let socket =
                match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                    Ok(socket) => socket,
                    Err(Errno::AGAIN) => return,
                    // It was gone before we came to it.
                    Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => continue,
                    Err(_) => return self.close_for_a_while(),
                };
            let id = self.next_id;
            self.next_id += 1;
            let token = Token::Guest(id).encode();
            if epoll::add(&self.epoll, &socket, token, epoll::EventFlags::IN).is_err() {
                return self.close_for_a_while();
            }
            if self.guests.len() >= self.setup.settings.timing.guests_max {
                self.guests.pop_first();
            }
            let deadline = Instant::now() + self.setup.settings.timing.handshake;
            let guest = Guest { socket, interface: *interface, asked: None, inbox: Inbox::EMPTY, deadline };
            self.guests.insert(id, guest);
            // An honest caller's hello is here already, or on its heels.
            self.on_guest(id);
        }
    }

    /// Descriptors or memory have run out: who waits may wait in the kernel's queue.
    fn close_for_a_while(&mut self) {
        self.guests.clear();
        self.closed_until = Some(Instant::now() + CLOSED);
        for (_, listener) in &self.setup.listeners {
            let _ = epoll::delete(&self.epoll, listener);
        }
    }

    fn on_guest(&mut self, id: u64) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let length = if guest.asked.is_none() { HELLO_BYTES } else { PROOF_BYTES };
        match guest.inbox.fill(&guest.socket, length) {
            Read::Part => return,
            Read::Ended => {
                self.guests.remove(&id);
                return;
            }
            Read::Whole => {}
        }
        let is_good = match guest.asked {
            None => ask(&self.setup, guest),
            Some((hello, challenge)) => {
                let proof = guest.inbox.message();
                handshake::is_proven(&self.setup.key, &hello, &challenge, &proof)
            }
        };
        if !is_good {
            self.guests.remove(&id);
        } else if length == PROOF_BYTES
            && let Some(guest) = self.guests.remove(&id)
        {
            let _ = epoll::delete(&self.epoll, &guest.socket);
            self.admit(guest);
        }
    }

    /// A caller has proved itself: what it said is believed from here on.
    fn admit(&mut self, guest: Guest) {
        let Some((hello_bytes, challenge)) = guest.asked else { return };
        let Ok(hello) = Hello::parse(&hello_bytes) else { return };
        let (me, now) = (self.setup.me, Instant::now());
        if self.know(hello.from, CALLED_DELAY, now).is_none() {
            return;
        }
        let calls = &self.calls;
        let Some(peer) = self.peers.get_mut(&hello.from) else { return };
        let partner_of = |call: u64| {
            let call = calls.get(&call)?;
            Some((call.partner, !matches!(call.stage, CallStage::Connecting)))
        };
        let admission = peer.admit(me, &hello, partner_of);
        let (verdict, epoch) = (admission.verdict, admission.epoch);
        let answer = handshake::emit_verdict(&self.setup.key, verdict, epoch, &hello_bytes, &challenge);
        if !send(&guest.socket, &answer) || verdict != Verdict::Welcome {
            return;
        }
        peer.on_up(admission.slot, hello.from_interface, epoch);
        let rail = peer.slots[admission.slot].rail;
        if let Some(call) = admission.abandoned {
            self.calls.remove(&call);
        }
        self.shared.tell(News::Up { peer: hello.from, rail, epoch, socket: guest.socket });
    }
}

/// Answers a hello, if it can be one of this job's for this process at this door.
fn ask(setup: &Setup, guest: &mut Guest) -> bool {
    let bytes = guest.inbox.message();
    let Ok(hello) = Hello::parse(&bytes) else { return false };
    let card = setup.cards.get(hello.from.0 as usize).and_then(Option::as_ref);
    let is_known = card.is_some_and(|card| usize::from(hello.from_interface) < card.doors.len());
    if !is_known || hello.to != setup.me || hello.to_interface != guest.interface {
        return false;
    }
    let Ok(nonce) = handshake::random() else { return false };
    setup.settings.apply(&guest.socket);
    let challenge = handshake::challenge(&setup.key, &bytes, nonce);
    guest.asked = Some((bytes, challenge));
    send(&guest.socket, &challenge)
}

fn failure_of(error: Errno) -> Failure {
    if error == Errno::CONNREFUSED { Failure::Refused } else { Failure::Other }
}

/// A stream socket that does not block and is not inherited.
pub(super) fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if family == AddressFamily::INET6 {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// An address and port, within an interface where the address needs that.
pub(super) fn scoped(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, port, 0, interface).into(),
        ip => SocketAddr::new(ip, port),
    }
}
