//! Builds a device: listen, publish the addresses, learn those of the others, open.

use super::acceptor::{self, Known, Setup, scoped, stream_socket};
use super::card::{Card, CardBook, Endpoint};
use super::device::{DOORBELL, NEWS, NONE, Peer, Tcp, peer};
use super::error::{TcpError, system};
use super::handshake::Key;
use super::interfaces::{Address, Interface, RailFilter, RailsError, await_rails};
use super::peers::{Maker, Peers};
use super::settings::{PortRange, Settings};
use ayatori_core::ids::ProcessId;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Waiting connections the kernel keeps for each listener.
const BACKLOG: i32 = 256;

/// The interfaces that can be rails now, or else the loopback.
pub(super) fn usable_here(settings: &Settings) -> Result<Vec<Interface>, TcpError> {
    let all = Interface::list().map_err(system("list the network interfaces"))?;
    Ok(usable_of(all, &settings.filter)?)
}

fn usable_of(all: Vec<Interface>, filter: &RailFilter) -> Result<Vec<Interface>, RailsError> {
    filter.choose(&all).or_else(|error| {
        let is_usable = |one: &Interface| one.is_loopback && one.is_up && !one.addresses.is_empty();
        let loopback: Vec<Interface> = all.into_iter().filter(is_usable).collect();
        if loopback.is_empty() { Err(error) } else { Ok(loopback) }
    })
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

    /// Contact data for the others.
    pub fn card(&self, node: u64, cpus_count: u32) -> Card {
        Card { node, cpus_count, endpoints: self.endpoints.clone() }
    }

    /// Where this process listens, without ports. Processes with the same profile get the same answers of
    /// [`rails_count_to`](Self::rails_count_to).
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

    /// Starts. `book`: of our world, whose first process is `first`, with the cards of the processes to be
    /// reached, each by at most `rails_most` rails ([`rails_count_to`](Self::rails_count_to)). Rails are
    /// numbered from `first_rail`.
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
        let round = || interfaces.iter().map(|interface| interface.capabilities());
        let rails: Vec<_> = (0..rounds).flat_map(|_| round()).collect();
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
    use crate::tcp::interfaces::tests::interface;

    #[test]
    fn the_loopback_serves_where_no_interface_does() {
        let [lo, eth] = [("lo", 1, "127.0.0.1/8"), ("eth0", 2, "10.0.0.1/24")]
            .map(|(name, index, address)| interface(name, index, &[address]));
        let names = |all: &[Interface]| {
            let usable = usable_of(all.to_vec(), &RailFilter::default());
            usable.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>()).ok()
        };
        let without_carrier = Interface { is_running: false, ..eth.clone() };
        assert_eq!(names(&[lo.clone(), eth]), Some(vec!["eth0".to_owned()]));
        assert_eq!(names(&[lo.clone(), without_carrier.clone()]), Some(vec!["lo".to_owned()]));
        let (down, bare) = (Interface { is_up: false, ..lo.clone() }, Interface { addresses: vec![], ..lo });
        for useless in [down, bare] {
            assert_eq!(names(&[useless, without_carrier.clone()]), None);
        }
    }

    #[test]
    fn who_knows_nobody_yet_has_a_rail_for_each_interface() {
        let wireup = Wireup::listen_here(Settings::default()).unwrap();
        let count = wireup.interfaces.len();
        let (me, key) = (ProcessId(0), Key::new([1; 32]));
        let device = wireup.open((me, me), key, Arc::new(Vec::new()), (1, 0)).unwrap();
        assert!(count > 0 && device.rails.len() == count);
    }

    #[test]
    fn ranges_of_ports_are_read_and_nonsense_is_named() {
        assert_eq!(PortRange::parse("40000-40100"), Ok(PortRange { first: 40_000, last: 40_100 }));
        assert_eq!(PortRange::parse("7"), Ok(PortRange { first: 7, last: 7 }));
        for bad in ["", "0", "5-4", "70000", "a-b", "1-2-3"] {
            assert!(PortRange::parse(bad).is_err_and(|error| error.contains(bad)), "{bad}");
        }
    }
}
