//! The acceptor: a thread that makes connections and admits callers that prove that they belong to the job.
//!
//! It owns the listening sockets, every dial of ours and every handshake until it is over; an admitted
//! connection goes to the device's inbox, and no other byte of a stranger ever reaches the thread that
//! computes. Core's [`connect`](ayatori_core::connect) decides without any socket which dials to make, which
//! callers to admit and when to retry; the acceptor carries out its outputs. The thread sleeps in one epoll
//! and wakes for connections, orders and deadlines only, so it costs a running job nothing; and because it is
//! a thread, a peer that computes for an hour still answers.

use super::candidates::{Candidate, rail_plans};
use super::card::{Card, CardBook, Endpoint};
use super::connection::SEND_FLAGS;
use super::handshake::{self, CHALLENGE_BYTES, HELLO_BYTES, Hello, Key, PROOF_BYTES, VERDICT_BYTES};
use super::interfaces::Interface;
use super::obstacles::{Obstacles, Why};
use super::pairing;
use super::settings::{Settings, core_duration};
use super::sys;
use ayatori_core::connect::{Claim, Connections, DIALLED_DELAY, DialId, Failure, Made, Output, PendingId};
use ayatori_core::ids::{ProcessId, Rail};
use ayatori_core::time as core_time;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Messages of the device to the acceptor.
#[derive(Debug)]
pub(super) enum Order {
    /// This process may be talked to, and may call, from now on.
    Know(ProcessId, Box<Acquaintance>),
    /// A request needs this peer.
    Want(ProcessId),
    /// This process sleeps until that one sends.
    Await(ProcessId),
    /// A connection broke, or was found silent.
    Broke(ProcessId, Rail, u32),
    /// The peer took leave: its connections may end.
    Left(ProcessId),
    /// The end.
    Stop,
}

/// Messages of the acceptor to the device.
#[derive(Debug)]
pub(super) enum News {
    Up { peer: ProcessId, rail: Rail, epoch: u32, socket: OwnedFd },
    Down { peer: ProcessId, rail: Rail },
    Gone(ProcessId),
}

/// State shared by both threads.
#[derive(Debug)]
pub(super) struct Shared {
    orders: Mutex<VecDeque<Order>>,
    /// Wakes the acceptor.
    pub(super) orders_event: OwnedFd,
    news: Mutex<VecDeque<News>>,
    has_news: AtomicBool,
    /// Wakes the device.
    pub(super) news_event: OwnedFd,
    pub(super) obstacles: Obstacles,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals an eventfd. It can only fail where it is signalled already.
fn signal(event: &OwnedFd) {
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// Takes the signal of an eventfd back.
pub(super) fn clear(event: &OwnedFd) {
    let _ = rustix::io::read(event, &mut [0u8; 8]);
}

impl Shared {
    fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            orders: Mutex::default(),
            orders_event: eventfd(0, flags)?,
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            news_event: eventfd(0, flags)?,
            obstacles: Obstacles::default(),
        })
    }

    pub(super) fn order(&self, order: Order) {
        lock(&self.orders).push_back(order);
        signal(&self.orders_event);
    }

    /// Orders that the acceptor has not taken.
    #[cfg(test)]
    pub(super) fn told_orders(&self) -> MutexGuard<'_, VecDeque<Order>> {
        lock(&self.orders)
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

    pub(super) fn tell(&self, news: News) {
        lock(&self.news).push_back(news);
        self.has_news.store(true, Ordering::Relaxed);
        signal(&self.news_event);
    }
}

/// A process that may be talked to.
#[derive(Debug)]
pub(super) struct Acquaintance {
    pub(super) card: Card,
    /// Key of the connections between it and us.
    pub(super) key: Key,
}

/// The processes that may be talked to.
pub(super) struct Known {
    /// The first process of our world.
    pub(super) first: ProcessId,
    /// Key of the connections within our world.
    pub(super) key: Key,
    pub(super) book: Arc<dyn CardBook>,
    /// Those of other worlds.
    pub(super) others: BTreeMap<ProcessId, Acquaintance>,
}

impl Known {
    fn rank(&self, process: ProcessId) -> Option<usize> {
        let rank = process.0.wrapping_sub(self.first.0) as usize;
        (rank < self.book.count()).then_some(rank)
    }

    fn card(&self, process: ProcessId) -> Option<Card> {
        match self.rank(process) {
            Some(rank) => self.book.card(rank),
            None => self.others.get(&process).map(|known| known.card.clone()),
        }
    }

    fn key(&self, process: ProcessId) -> Option<&Key> {
        match self.rank(process) {
            Some(_) => Some(&self.key),
            None => self.others.get(&process).map(|known| &known.key),
        }
    }
}

/// Parameters of the acceptor.
pub(super) struct Setup {
    pub(super) me: ProcessId,
    pub(super) first_rail: u8,
    pub(super) rails_count: usize,
    pub(super) settings: Settings,
    pub(super) interfaces: Vec<Interface>,
    pub(super) endpoints: Vec<Endpoint>,
    /// Each with its interface's place.
    pub(super) listeners: Vec<(u8, OwnedFd)>,
    pub(super) known: Known,
}

/// Starts the thread.
pub(super) fn start(setup: Setup) -> io::Result<(Arc<Shared>, std::thread::JoinHandle<()>)> {
    let acceptor = Acceptor::new(setup)?;
    let shared = Arc::clone(&acceptor.shared);
    let builder = std::thread::Builder::new().name("ayatori-accept".to_owned()).stack_size(256 << 10);
    let thread = sys::without_signals(|| builder.spawn(move || acceptor.run()))?;
    Ok((shared, thread))
}

#[derive(Clone, Copy)]
enum Token {
    Orders,
    Listener(u64),
    Dial(u64),
    Pending(u64),
}

impl Token {
    fn encode(self) -> epoll::EventData {
        let (kind, id) = match self {
            Self::Orders => (0, 0),
            Self::Listener(id) => (1, id),
            Self::Dial(id) => (2, id),
            Self::Pending(id) => (3, id),
        };
        epoll::EventData::new_u64(id << 2 | kind)
    }

    fn decode(data: epoll::EventData) -> Self {
        let (kind, id) = (data.u64() & 3, data.u64() >> 2);
        match kind {
            0 => Self::Orders,
            1 => Self::Listener(id),
            2 => Self::Dial(id),
            _ => Self::Pending(id),
        }
    }
}

/// Bytes of a handshake message as they come.
struct Inbox {
    bytes: [u8; HELLO_BYTES],
    filled: usize,
}

/// Result of reading a message.
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
    rustix::net::send(socket, message, SEND_FLAGS) == Ok(message.len())
}

enum DialStage {
    Connecting,
    Challenge,
    Verdict([u8; CHALLENGE_BYTES]),
}

/// A dial of ours.
struct Dial {
    peer: ProcessId,
    candidate: Candidate,
    socket: OwnedFd,
    key: Key,
    hello: [u8; HELLO_BYTES],
    stage: DialStage,
    inbox: Inbox,
}

/// A caller's message and the answer.
struct Asked {
    hello: [u8; HELLO_BYTES],
    challenge: [u8; CHALLENGE_BYTES],
    key: Key,
}

/// A connection whose caller has not proved itself.
struct Pending {
    socket: OwnedFd,
    interface: u8,
    /// Once it has spoken.
    asked: Option<Asked>,
    inbox: Inbox,
}

/// How long no one is let in when descriptors or memory have run out.
const CLOSED: Duration = Duration::from_millis(100);
/// Connections accepted at a time.
const ACCEPT_COUNT: usize = 16;

struct Acceptor {
    setup: Setup,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    /// The zero of the connections' clock.
    start: Instant,
    connections: Connections,
    /// Candidates of each peer, by rail.
    candidates: BTreeMap<ProcessId, Vec<Vec<Candidate>>>,
    dials: BTreeMap<DialId, Dial>,
    pending: BTreeMap<PendingId, Pending>,
    /// Until then listeners are not looked at.
    closed_until: Option<Instant>,
}

impl Acceptor {
    fn new(setup: Setup) -> io::Result<Self> {
        let shared = Arc::new(Shared::new()?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &shared.orders_event, Token::Orders.encode(), readable)?;
        for (place, (_, listener)) in setup.listeners.iter().enumerate() {
            epoll::add(&epoll, listener, Token::Listener(place as u64).encode(), readable)?;
        }
        let connections = Connections::new(setup.me, setup.settings.timing.of_core());
        Ok(Self {
            setup,
            shared,
            epoll,
            start: Instant::now(),
            connections,
            candidates: BTreeMap::new(),
            dials: BTreeMap::new(),
            pending: BTreeMap::new(),
            closed_until: None,
        })
    }

    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            if !self.take_orders() {
                return;
            }
            self.connections.handle_timeout(self.now());
            self.act();
            self.open_listeners_if_due(Instant::now());
            let timeout = self.next_timeout().map(wait_max);
            events.clear();
            // An interrupted or failed wait is as one without events; it cannot fail for good.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref());
            // An order may just have made a caller known.
            if !self.take_orders() {
                return;
            }
            for event in &events {
                self.on_event(Token::decode(event.data));
            }
        }
    }

    fn on_event(&mut self, token: Token) {
        match token {
            Token::Orders => clear(&self.shared.orders_event),
            Token::Listener(place) => self.accept(place as usize),
            Token::Dial(id) => self.on_dial(DialId(id)),
            Token::Pending(id) => self.on_pending(PendingId(id)),
        }
        self.act();
    }

    fn now(&self) -> core_time::Instant {
        core_time::Instant::ZERO + core_duration(self.start.elapsed())
    }

    fn next_timeout(&self) -> Option<Duration> {
        let connections = self.connections.poll_timeout().map(|at| at.since(self.now()));
        let connections = connections.map(|left| Duration::from_nanos(left.as_ps() / 1_000));
        let listeners = self.closed_until.map(|at| at.saturating_duration_since(Instant::now()));
        connections.into_iter().chain(listeners).min()
    }

    /// `false`: stop.
    fn take_orders(&mut self) -> bool {
        let orders = std::mem::take(&mut *lock(&self.shared.orders));
        for order in orders {
            match order {
                Order::Know(peer, known) => drop(self.setup.known.others.insert(peer, *known)),
                Order::Want(peer) => {
                    self.know(peer, Some(core_time::Duration::ZERO));
                    self.connections.hasten(peer, self.now());
                }
                Order::Await(peer) => {
                    self.know(peer, None);
                }
                Order::Broke(peer, rail, epoch) => self.connections.on_broken(peer, rail, epoch, self.now()),
                Order::Left(peer) => self.connections.on_left(peer),
                Order::Stop => return false,
            }
        }
        true
    }

    /// Makes the peer known, with its rails, unless it is; `delay`: until the first dial, `None`: a receive
    /// waits for it. Whether it is of this job and elsewhere.
    fn know(&mut self, id: ProcessId, delay: Option<core_time::Duration>) -> bool {
        let Setup { first_rail, rails_count, endpoints, known, .. } = &self.setup;
        if !self.connections.knows(id) {
            let Some(card) = known.card(id) else { return false };
            let (mut plans, candidates) = rail_plans(*first_rail, endpoints, &card);
            plans.truncate(*rails_count);
            let uses_max = pairing::uses(card.endpoints.len(), endpoints.len());
            self.candidates.insert(id, candidates);
            match delay {
                Some(delay) => self.connections.add_peer(id, plans, uses_max, delay, self.now()),
                None => self.connections.await_peer(id, plans, uses_max, self.now()),
            }
        }
        true
    }

    /// Carries out the outputs.
    fn act(&mut self) {
        while let Some(output) = self.connections.poll_output() {
            match output {
                Output::Dial { dial, peer, interface, candidate, rail, epoch, .. } => {
                    let place = usize::from(rail.0 - self.setup.first_rail);
                    let candidate = self.candidates[&peer][place][candidate];
                    if let Err(failure) = self.dial(dial, peer, interface, candidate, epoch) {
                        self.connections.on_failed(dial, failure, self.now());
                    }
                }
                Output::CloseDial(dial) => {
                    if let Some(dial) = self.dials.remove(&dial) {
                        self.note(&dial, None);
                    }
                }
                Output::ClosePending(pending) => drop(self.pending.remove(&pending)),
                Output::HandOver { made, peer, rail, epoch } => {
                    let socket = match made {
                        Made::Here(dial) => self.dials.remove(&dial).map(|dial| dial.socket),
                        Made::There(pending) => self.pending.remove(&pending).map(|pending| pending.socket),
                    };
                    if let Some(socket) = socket {
                        self.shared.obstacles.clear(peer);
                        let _ = epoll::delete(&self.epoll, &socket);
                        self.shared.tell(News::Up { peer, rail, epoch, socket });
                    }
                }
                Output::Down(peer, rail) => self.shared.tell(News::Down { peer, rail }),
                Output::Gone(peer) => self.shared.tell(News::Gone(peer)),
            }
        }
    }

    // Dials of ours.

    fn dial(
        &mut self,
        dial: DialId,
        peer: ProcessId,
        interface: u8,
        candidate: Candidate,
        epoch: u32,
    ) -> Result<(), Failure> {
        let socket = self.connect(interface, &candidate).map_err(|error| {
            self.shared.obstacles.note(peer, &candidate, Why::System(error));
            failure_of(error)
        })?;
        // Without random bytes there is no proof; the attempt counts as failed and is repeated.
        let nonce = handshake::random().map_err(|_| Failure::Other)?;
        let hello = Hello {
            from: self.setup.me,
            to: peer,
            from_interface: interface,
            to_interface: candidate.partner,
            epoch,
            nonce,
        };
        epoll::add(&self.epoll, &socket, Token::Dial(dial.0).encode(), epoll::EventFlags::OUT)
            .map_err(|_| Failure::Other)?;
        let stage = DialStage::Connecting;
        let key = self.setup.known.key(peer).ok_or(Failure::Other)?.clone();
        let (hello, inbox) = (hello.emit(), Inbox::EMPTY);
        self.dials.insert(dial, Dial { peer, candidate, socket, key, hello, stage, inbox });
        Ok(())
    }

    /// A socket on its way to the candidate.
    fn connect(&self, interface: u8, candidate: &Candidate) -> Result<OwnedFd, Errno> {
        let family = if candidate.to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = stream_socket(family)?;
        self.setup.settings.apply(&socket);
        let interface = &self.setup.interfaces[usize::from(interface)];
        // The route to an address of this host is its loopback, whichever interface has it.
        if !interface.is_loopback && !pairing::is_own(&self.setup.endpoints, candidate.to.ip()) {
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

    fn on_dial(&mut self, id: DialId) {
        let Some(dial) = self.dials.get_mut(&id) else { return };
        if let DialStage::Connecting = dial.stage {
            match sockopt::socket_error(&dial.socket) {
                Ok(Ok(())) if send(&dial.socket, &dial.hello) => {
                    dial.stage = DialStage::Challenge;
                    let token = Token::Dial(id.0).encode();
                    let _ = epoll::modify(&self.epoll, &dial.socket, token, epoll::EventFlags::IN);
                    self.connections.on_connected(id, self.now());
                }
                Ok(Err(error)) => self.fail(id, failure_of(error), Some(error)),
                _ => self.fail(id, Failure::Other, None),
            }
            return;
        }
        let length = if let DialStage::Challenge = dial.stage { CHALLENGE_BYTES } else { VERDICT_BYTES };
        match dial.inbox.fill(&dial.socket, length) {
            Read::Part => return,
            Read::Ended => {
                let is_answered = matches!(dial.stage, DialStage::Verdict(_));
                return self.fail(id, if is_answered { Failure::Other } else { Failure::Ended }, None);
            }
            Read::Whole => {}
        }
        match dial.stage {
            DialStage::Connecting => {}
            DialStage::Challenge => {
                let challenge = dial.inbox.message();
                if challenge == handshake::NOT_HERE {
                    return self.fail(id, Failure::Refused, None);
                }
                let proof = handshake::prove(&dial.key, &dial.hello, &challenge);
                dial.stage = DialStage::Verdict(challenge);
                if !proof.is_some_and(|proof| send(&dial.socket, &proof)) {
                    self.fail(id, Failure::Other, None);
                }
            }
            DialStage::Verdict(challenge) => {
                match handshake::parse_verdict(&dial.key, &dial.inbox.message(), &dial.hello, &challenge) {
                    Some((verdict, epoch)) => {
                        self.connections.on_verdict(id, verdict, epoch, self.now());
                        self.act();
                        // Handed over, if it was welcome.
                        self.dials.remove(&id);
                    }
                    None => self.fail(id, Failure::Other, None),
                }
            }
        }
    }

    /// Keeps what stood in the way of a dial: the system's error, else what it had not got.
    fn note(&self, dial: &Dial, error: Option<Errno>) {
        let got = if let DialStage::Connecting = dial.stage { Why::Silence } else { Why::Stranger };
        self.shared.obstacles.note(dial.peer, &dial.candidate, error.map_or(got, Why::System));
    }

    fn fail(&mut self, id: DialId, failure: Failure, error: Option<Errno>) {
        if let Some(dial) = self.dials.remove(&id) {
            self.note(&dial, error);
            self.connections.on_failed(id, failure, self.now());
        }
    }

    // Connections of others.

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
            let interface = *interface;
            let id = self.connections.on_accepted(self.now());
            self.act();
            if epoll::add(&self.epoll, &socket, Token::Pending(id.0).encode(), epoll::EventFlags::IN).is_err()
            {
                // With all others that have proved nothing, `id` is closed, too.
                return self.close_for_a_while();
            }
            self.pending.insert(id, Pending { socket, interface, asked: None, inbox: Inbox::EMPTY });
            // An honest caller's hello is here already, or on its heels.
            self.on_pending(id);
            self.act();
        }
    }

    /// Descriptors or memory have run out: callers wait in the kernel's queue.
    fn close_for_a_while(&mut self) {
        self.connections.close_pending();
        self.act();
        self.closed_until = Some(Instant::now() + CLOSED);
        for (_, listener) in &self.setup.listeners {
            let _ = epoll::delete(&self.epoll, listener);
        }
    }

    fn open_listeners_if_due(&mut self, now: Instant) {
        if self.closed_until.is_some_and(|at| at <= now) {
            self.closed_until = None;
            for (place, (_, listener)) in self.setup.listeners.iter().enumerate() {
                let token = Token::Listener(place as u64).encode();
                let _ = epoll::add(&self.epoll, listener, token, epoll::EventFlags::IN);
            }
        }
    }

    fn on_pending(&mut self, id: PendingId) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let length = if pending.asked.is_none() { HELLO_BYTES } else { PROOF_BYTES };
        let is_good = match pending.inbox.fill(&pending.socket, length) {
            Read::Part => return,
            Read::Ended => false,
            Read::Whole => match &pending.asked {
                None => ask(&self.setup, pending),
                Some(Asked { hello, challenge, key }) => {
                    let proof = pending.inbox.message();
                    handshake::is_proven(key, hello, challenge, &proof)
                }
            },
        };
        if is_good && length == HELLO_BYTES {
            return;
        }
        if !(is_good && self.answer(id)) {
            self.pending.remove(&id);
            self.connections.on_closed(id);
        }
    }

    /// A caller has proved itself: its claim is trusted from here on. Returns whether it has its answer.
    fn answer(&mut self, id: PendingId) -> bool {
        let asked = self.pending.get_mut(&id).and_then(|pending| pending.asked.take());
        let Some(Asked { hello: hello_bytes, challenge, key }) = asked else { return false };
        let Ok(Hello { from, from_interface, to_interface, epoch, .. }) = Hello::parse(&hello_bytes) else {
            return false;
        };
        if !self.know(from, Some(DIALLED_DELAY)) {
            return false;
        }
        let claim = Claim { from, from_interface, to_interface, epoch };
        let admission = self.connections.answer(&claim);
        let (verdict, epoch) = (admission.verdict, admission.epoch);
        let answer = handshake::emit_verdict(&key, verdict, epoch, &hello_bytes, &challenge);
        let is_sent = self.pending.get(&id).is_some_and(|pending| send(&pending.socket, &answer));
        if is_sent {
            self.connections.on_answered(id, &claim, admission);
        }
        is_sent
    }
}

/// Answers a hello, if it can be one of this job's for this process at this endpoint.
fn ask(setup: &Setup, pending: &mut Pending) -> bool {
    let bytes = pending.inbox.message();
    let Ok(hello) = Hello::parse(&bytes) else { return false };
    if hello.to != setup.me {
        // Whoever it is for is not here: its caller need not try for ever.
        send(&pending.socket, &handshake::NOT_HERE);
        return false;
    }
    let (Some(card), Some(key)) = (setup.known.card(hello.from), setup.known.key(hello.from)) else {
        return false;
    };
    let is_one = usize::from(hello.from_interface) < card.endpoints.len();
    if !is_one || hello.to_interface != pending.interface {
        return false;
    }
    let Ok(nonce) = handshake::random() else { return false };
    setup.settings.apply(&pending.socket);
    let challenge = handshake::challenge(key, &bytes, nonce);
    pending.asked = Some(Asked { hello: bytes, challenge, key: key.clone() });
    send(&pending.socket, &challenge)
}

/// How long to wait for events until the next thing is due: rounded up, because waking before the time would
/// only spin.
fn wait_max(left: Duration) -> Timespec {
    let left = left + Duration::from_micros(50);
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
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

#[cfg(test)]
mod tests;
