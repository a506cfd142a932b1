//! From nothing to a device: listen, tell the others where, learn where they are, open.

use super::acceptor::{self, Known, Setup, Timing, scoped, stream_socket};
use super::card::{Card, CardBook, Endpoint};
use super::handshake::Key;
use super::interfaces::{Address, Interface, RailFilter, RailsError, await_rails};
use super::peers::{Maker, Peers};
use super::{DOORBELL, NEWS, NONE, Peer, Tcp, capabilities, pairing, sys};
use ayatori_core::device::profiles;
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Waiting connections the kernel keeps for each listener.
const BACKLOG: i32 = 256;
/// The kernel's 200 ms are made for the internet. 40 ms an acknowledgement may be delayed.
const RESEND_AFTER_MIN_US: u32 = 50_000;
/// A connection whose far end's kernel has not answered for so long is broken, whether something is under way
/// (user timeout) or not (keep-alive asks from 2 s on). For a peer whose kernel answers and who has not read
/// for so long, its buffers full, the connection is made anew, which costs a megabyte sent again.
const DEAD_AFTER_MS: u32 = 6_000;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(2);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Rails fit a `RailSet`.
const RAILS_MAX: usize = 32;

/// What a user may set.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which interfaces may be rails.
    pub filter: RailFilter,
    /// Ports to listen on; the system's choice without.
    pub ports: Option<PortRange>,
    /// The congestion control of our connections, by the kernel's name; the system's default without.
    pub congestion: Option<String>,
    /// Leave out the sums that find damage (CRC32C of each packet).
    pub is_unchecked: bool,
    /// Deadlines and bounds of the handshakes.
    pub timing: Timing,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl PortRange {
    /// `40000-40100`, or one port.
    ///
    /// # Errors
    /// In words, what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Self { first, last }),
            _ => Err(format!("'{text}' is no range of ports; give FIRST-LAST, as in 40000-40100")),
        }
    }
}

impl Settings {
    /// From the environment: `AYATORI_RAILS`, `AYATORI_NO_RAILS`, `AYATORI_PORTS`, `AYATORI_TCP_CONGESTION`,
    /// `AYATORI_TCP_CRC=0`.
    ///
    /// # Errors
    /// In words, which variable says nonsense.
    pub fn from_environment() -> Result<Self, String> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let (only, not) = (text(ENV_RAILS), text(ENV_NO_RAILS));
        let filter = RailFilter::new(only.as_deref(), not.as_deref())
            .map_err(|error| format!("{ENV_RAILS}, {ENV_NO_RAILS}: {error}"))?;
        let ports = text(ENV_PORTS).map(|ports| PortRange::parse(&ports)).transpose();
        Ok(Self {
            filter,
            ports: ports.map_err(|error| format!("{ENV_PORTS}: {error}"))?,
            congestion: text("AYATORI_TCP_CONGESTION"),
            is_unchecked: text("AYATORI_TCP_CRC").is_some_and(|value| value == "0"),
            timing: Timing::default(),
        })
    }

    /// Sets a socket of ours up: a hint each, so that an old kernel does without.
    pub(super) fn apply(&self, socket: &OwnedFd) {
        let _ = sockopt::set_tcp_nodelay(socket, true);
        // A process that only receives learns from its kernel that a rail is dead, and the peer's kernel
        // answers, however long the peer computes.
        let _ = sockopt::set_socket_keepalive(socket, true);
        let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE);
        let _ = sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL);
        let _ = sockopt::set_tcp_user_timeout(socket, DEAD_AFTER_MS);
        sys::set_unsent_max(socket.as_fd(), profiles::TCP_UNSENT_BYTES_MAX);
        sys::set_resend_after_min(socket.as_fd(), RESEND_AFTER_MIN_US);
        if let Some(name) = &self.congestion {
            let _ = sockopt::set_tcp_congestion(socket, name);
        }
    }
}

/// Interfaces and networks that may be rails.
pub const ENV_RAILS: &str = "AYATORI_RAILS";
/// Interfaces and networks that may not.
pub const ENV_NO_RAILS: &str = "AYATORI_NO_RAILS";
/// Ports to listen on.
pub const ENV_PORTS: &str = "AYATORI_PORTS";

/// Why there is no device.
#[derive(Debug)]
pub enum TcpError {
    /// No interface can be a rail.
    Rails(RailsError),
    /// A system call failed.
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// No port of the range is free at an address.
    Ports {
        /// The address.
        address: Address,
        /// The range.
        range: PortRange,
    },
    /// A peer's interfaces have no address in common with ours.
    Unreachable {
        /// The process.
        peer: ProcessId,
        /// Its interfaces.
        theirs: String,
        /// Ours.
        ours: String,
    },
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rails(error) => write!(f, "TCP: {error}"),
            Self::System { what, error } => write!(f, "TCP: cannot {what}: {error}"),
            Self::Ports { address, range } => write!(
                f,
                "TCP: at {} no port from {} to {} is free ({ENV_PORTS}); each process of a host takes one at each address",
                address.ip, range.first, range.last
            ),
            Self::Unreachable { peer, theirs, ours } => write!(
                f,
                "TCP: {peer} has the interfaces {theirs} and this process {ours}: no two have addresses of the same \
                 kind; see `ayatori info --rails` on both hosts, and --rails"
            ),
        }
    }
}

impl std::error::Error for TcpError {}

impl From<RailsError> for TcpError {
    fn from(error: RailsError) -> Self {
        Self::Rails(error)
    }
}

/// The interfaces that can be rails now, or else the loopback.
pub(super) fn usable_here(settings: &Settings) -> Result<Vec<Interface>, TcpError> {
    let all = Interface::list().map_err(system("list the network interfaces"))?;
    Ok(settings.filter.choose(&all).or_else(|error| {
        let is_usable = |one: &Interface| one.is_loopback && one.is_up && !one.addresses.is_empty();
        let loopback: Vec<Interface> = all.into_iter().filter(is_usable).collect();
        if loopback.is_empty() { Err(error) } else { Ok(loopback) }
    })?)
}

pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> TcpError {
    move |error| TcpError::System { what, error: error.into() }
}

/// A process that listens and does not talk yet.
pub struct Wireup {
    settings: Settings,
    interfaces: Vec<Interface>,
    endpoints: Vec<Endpoint>,
    listeners: Vec<(u8, OwnedFd)>,
}

impl Wireup {
    /// Listens on the interfaces that may be rails. Where none is usable and one may be coming up, waits for
    /// it some seconds.
    ///
    /// # Errors
    /// There is none; no port is free.
    pub fn listen(settings: Settings) -> Result<Self, TcpError> {
        let list = || Interface::list().map_err(system("list the network interfaces"));
        let interfaces = await_rails(&settings.filter, list, std::thread::sleep)?;
        Self::listen_on(settings, interfaces)
    }

    /// As [`listen`](Self::listen), for a process whose peers may all be on this host: where no interface is
    /// usable it listens on the loopback, and waits for none.
    ///
    /// # Errors
    /// No port is free.
    pub fn listen_here(settings: Settings) -> Result<Self, TcpError> {
        let interfaces = usable_here(&settings)?;
        Self::listen_on(settings, interfaces)
    }

    /// The same on given interfaces.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn listen_on(settings: Settings, interfaces: Vec<Interface>) -> Result<Self, TcpError> {
        let (mut endpoints, mut listeners) = (Vec::new(), Vec::new());
        for (place, interface) in interfaces.iter().enumerate() {
            let mut ports = Vec::new();
            for &address in &interface.addresses {
                let (listener, port) = match listen_at(address, interface.index, settings.ports) {
                    Ok(listening) => listening,
                    // An address that goes as we come (or IPv6 still being checked) is one less.
                    Err(TcpError::System { error, .. })
                        if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) =>
                    {
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                listeners.push((place as u8, listener));
                ports.push((address, port));
            }
            endpoints.push(Endpoint::new(interface, ports));
        }
        Ok(Self { settings, interfaces, endpoints, listeners })
    }

    /// What to tell the others.
    pub fn card(&self, node: u64, cpus_count: u32) -> Card {
        Card { node, cpus_count, endpoints: self.endpoints.clone() }
    }

    /// Where this process listens, without ports. What [`rails_count_to`](Self::rails_count_to) answers for a
    /// card is the same for processes that have this in common.
    pub fn profile(&self) -> String {
        let address = |(address, _): &(Address, u16)| format!("{}/{}", address.ip, address.prefix_bits);
        let interface = |endpoint: &Endpoint| {
            let addresses: Vec<String> = endpoint.addresses.iter().map(address).collect();
            format!("{},{}", endpoint.name, addresses.join(","))
        };
        self.endpoints.iter().map(interface).collect::<Vec<_>>().join("|")
    }

    /// How many rails lead to a process with this card.
    ///
    /// # Errors
    /// None does.
    pub fn rails_count_to(&self, process: ProcessId, card: &Card, first_rail: u8) -> Result<usize, TcpError> {
        Ok(peer(process, card, &self.endpoints, first_rail, usize::MAX)?.connections.len())
    }

    /// Starts. `book`: of our world, whose first process is `first`, with the cards of the processes that are
    /// to be reached, to each of which at most `rails_most` rails lead
    /// ([`rails_count_to`](Self::rails_count_to)). Rails are numbered from `first_rail`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open(
        self,
        (first, me): (ProcessId, ProcessId),
        key: Key,
        book: Arc<dyn CardBook>,
        (first_rail, rails_most): (u8, usize),
    ) -> Result<Tcp, TcpError> {
        let Self { settings, interfaces, endpoints, listeners } = self;
        let rounds = rails_most.div_ceil(interfaces.len()).max(1);
        let rails: Vec<_> = (0..rounds).flat_map(|_| interfaces.iter().map(capabilities)).collect();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll set"))?;
        let is_summed = !settings.is_unchecked;
        let known = Known { first, key, book: Arc::clone(&book), others: BTreeMap::new() };
        let rails_count = rails.len();
        let own_endpoints = endpoints.clone();
        let make = maker(Arc::clone(&book), endpoints.clone(), first, (first_rail, rails_count));
        let setup = Setup { me, first_rail, rails_count, settings, interfaces, endpoints, listeners, known };
        let (shared, acceptor) = acceptor::start(setup).map_err(system("start the thread that accepts"))?;
        let token = epoll::EventData::new_u64(NEWS);
        epoll::add(&epoll, &shared.news_event, token, epoll::EventFlags::IN)
            .map_err(system("watch for connections"))?;
        const _: () = assert!(NEWS != DOORBELL);
        Ok(Tcp {
            first_rail,
            rails,
            peers: Peers::new(first, book.count(), make),
            endpoints: own_endpoints,
            connections: Vec::new(),
            epoll,
            ready: VecDeque::with_capacity(64),
            current: NONE,
            packet: 0..0,
            expected: None,
            solo: NONE,
            streak_count: 0,
            polls_count: 0,
            has_sent_much: false,
            damaged_before_count: 0,
            keeps_tails: false,
            may_hold: false,
            events: VecDeque::new(),
            doorbell: None,
            is_summed,
            shared,
            acceptor: Some(acceptor),
        })
    }
}

/// Makes a process of our world of its card. One that no rail reaches was refused before.
fn maker(
    book: Arc<dyn CardBook>,
    endpoints: Vec<Endpoint>,
    first: ProcessId,
    (first_rail, rails_count): (u8, usize),
) -> Maker<Peer> {
    Box::new(move |process| {
        let card = book.card(process.0.wrapping_sub(first.0) as usize)?;
        peer(process, &card, &endpoints, first_rail, rails_count).ok()
    })
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

/// A listener at one address, and its port.
pub(super) fn listen_at(
    address: Address,
    interface: u32,
    range: Option<PortRange>,
) -> Result<(OwnedFd, u16), TcpError> {
    let family = if address.ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let ports = range.map_or(0..=0, |range| range.first..=range.last);
    for port in ports {
        let socket = stream_socket(family).map_err(system("make a socket"))?;
        // A port that another process has only just left may be taken, one that is in use may not.
        let _ = sockopt::set_socket_reuseaddr(&socket, range.is_some());
        let bound = rustix::net::bind(&socket, &scoped(address.ip, port, interface))
            .and_then(|()| rustix::net::listen(&socket, BACKLOG));
        match bound {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) if range.is_some() => continue,
            Err(error) => return Err(system("listen on a rail's address")(error)),
        }
        let local = rustix::net::getsockname(&socket).map_err(system("ask for a port"))?;
        let local = SocketAddr::try_from(local).map_err(system("ask for a port"))?;
        return Ok((socket, local.port()));
    }
    let range = range.unwrap_or(PortRange { first: 0, last: 0 });
    Err(TcpError::Ports { address, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_are_read_and_nonsense_is_named() {
        assert_eq!(PortRange::parse("40000-40100"), Ok(PortRange { first: 40_000, last: 40_100 }));
        assert_eq!(PortRange::parse("7"), Ok(PortRange { first: 7, last: 7 }));
        for bad in ["", "0", "5-4", "70000", "a-b", "1-2-3"] {
            assert!(PortRange::parse(bad).is_err_and(|error| error.contains(bad)), "{bad}");
        }
    }
}
