//! Ports: where the leader of one group waits for that of another which knows the port's name (MPI-5.0
//! §11.9.2). The result is a stream between two processes that have proved to each other that they know the
//! name; core's `introduction` defines its content.
//!
//! A name has the addresses and a key, drawn for this port alone: `ayatori1;KEY;ADDRESS,PORT;...`. A process
//! that knows it may call, so it is as secret as a password. The handshake is that of the rails.
//!
//! Nothing here blocks: owners call again while they wait.

use super::acceptor::{scoped, stream_socket};
use super::error::{TcpError, system};
use super::handshake::{self, CHALLENGE_BYTES, HELLO_BYTES, Hello, Key, PROOF_BYTES, VERDICT_BYTES};
use super::interfaces::Interface;
use super::settings::{Settings, Timing, keep_alive};
use super::wireup;
use ayatori_core::connect::Verdict;
use ayatori_core::ids::ProcessId;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, sockopt};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Longest name in bytes: `MPI_MAX_PORT_NAME` of the ABI is 1024 with the end.
pub const NAME_BYTES_MAX: usize = 1023;
const MAGIC: &str = "ayatori1";
/// Most addresses in a name.
const ADDRESSES_MAX: usize = 16;
/// Read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Where a port is, and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortName {
    key: Key,
    /// At most [`ADDRESSES_MAX`].
    addresses: Vec<SocketAddr>,
}

impl PortName {
    /// Reads a name. `None`: it is none of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(';');
        if text.len() > NAME_BYTES_MAX || fields.next() != Some(MAGIC) {
            return None;
        }
        let key = Key::from_hex(fields.next()?)?;
        let address = |field: &str| {
            let (ip, port) = field.split_once(',')?;
            let port = port.parse().ok().filter(|&port| port != 0)?;
            Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port))
        };
        let addresses = fields.map(address).collect::<Option<Vec<_>>>()?;
        (1..=ADDRESSES_MAX).contains(&addresses.len()).then_some(Self { key, addresses })
    }

    /// The reverse.
    pub fn emit(&self) -> String {
        /// Of an address in IPv6, a port, and what separates them.
        const ADDRESS_BYTES_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".len() + ";,65535".len();
        const KEY_BYTES: usize = ";".len() + 2 * 32;
        const {
            assert!(MAGIC.len() + KEY_BYTES + ADDRESSES_MAX * ADDRESS_BYTES_MAX <= NAME_BYTES_MAX);
        };
        let mut text = format!("{MAGIC};{}", self.key.to_hex());
        for address in &self.addresses {
            let _ = write!(text, ";{},{}", address.ip(), address.port());
        }
        text
    }
}

/// An open port.
pub struct Port {
    name: PortName,
    listeners: Vec<OwnedFd>,
    timing: Timing,
    callers: Vec<Caller>,
}

/// A caller that has proved nothing yet.
struct Caller {
    socket: OwnedFd,
    until: Instant,
    inbox: Vec<u8>,
    asked: Option<([u8; HELLO_BYTES], [u8; CHALLENGE_BYTES])>,
}

impl Port {
    /// Listens on the interfaces that may be rails, or else on the loopback.
    ///
    /// # Errors
    /// No interface can be used, no port is free, no random bytes.
    pub fn open(settings: &Settings) -> Result<Self, TcpError> {
        let interfaces = wireup::usable_here(settings)?;
        let key = Key::random().map_err(system("draw a key"))?;
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for Interface { addresses: its, index, .. } in &interfaces {
            for &address in its.iter().filter(|address| !address.is_link_local()) {
                let (listener, port) = wireup::listen_at(address, *index, settings.ports)?;
                listeners.push(listener);
                addresses.push(SocketAddr::new(address.ip, port));
            }
        }
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() {
            let error = io::Error::from(io::ErrorKind::AddrNotAvailable);
            return Err(system("find an address for a port")(error));
        }
        let name = PortName { key, addresses };
        Ok(Self { name, listeners, timing: settings.timing, callers: Vec::new() })
    }

    /// The name that callers must know.
    pub fn name(&self) -> &PortName {
        &self.name
    }

    /// A caller that has proved to know the name, if one is there now.
    pub fn accept(&mut self) -> Option<Stream> {
        let now = Instant::now();
        for listener in &self.listeners {
            while self.callers.len() < self.timing.pending_max {
                match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                    Ok(socket) => {
                        keep_alive(&socket);
                        let until = now + self.timing.handshake;
                        self.callers.push(Caller { socket, until, inbox: Vec::new(), asked: None });
                    }
                    Err(Errno::INTR | Errno::CONNABORTED) => {}
                    // No caller; or no descriptors, and callers wait in the kernel's queue.
                    Err(_) => break,
                }
            }
        }
        let mut accepted = None;
        let key = &self.name.key;
        let callers = std::mem::take(&mut self.callers);
        for mut caller in callers {
            if accepted.is_some() {
                // Its turn is next: it must not be told that it is welcome before.
                self.callers.push(caller);
                continue;
            }
            match caller.advance(key) {
                Ok(true) => accepted = Some(Stream::new(caller.socket)),
                Ok(false) if now < caller.until => self.callers.push(caller),
                Ok(false) | Err(Refused) => {}
            }
        }
        accepted
    }
}

/// The far end failed to prove itself, or is gone.
struct Refused;

/// Reads until there are `length` bytes, and no more.
fn fill(socket: &OwnedFd, inbox: &mut Vec<u8>, length: usize) -> Result<bool, Refused> {
    let mut bytes = [0; HELLO_BYTES];
    while inbox.len() < length {
        let wanted = length - inbox.len();
        match rustix::net::recv(socket, &mut bytes[..wanted], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(Refused),
            Ok((count, _)) => inbox.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Refused),
        }
    }
    Ok(true)
}

fn take<const N: usize>(inbox: &mut Vec<u8>) -> Result<[u8; N], Refused> {
    std::mem::take(inbox).try_into().map_err(|_| Refused)
}

/// Sends a message of the handshake; a fresh connection takes it whole.
fn send(socket: &OwnedFd, message: &[u8]) -> Result<(), Refused> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if rustix::net::send(socket, message, flags) == Ok(message.len()) { Ok(()) } else { Err(Refused) }
}

impl Caller {
    /// Goes on with the handshake; `true`: it is over, and well.
    fn advance(&mut self, key: &Key) -> Result<bool, Refused> {
        if self.asked.is_none() {
            if !fill(&self.socket, &mut self.inbox, HELLO_BYTES)? {
                return Ok(false);
            }
            let hello = take(&mut self.inbox)?;
            Hello::parse(&hello).map_err(|_| Refused)?;
            let challenge = handshake::challenge(key, &hello, handshake::random().map_err(|_| Refused)?);
            send(&self.socket, &challenge)?;
            self.asked = Some((hello, challenge));
        }
        if !fill(&self.socket, &mut self.inbox, PROOF_BYTES)? {
            return Ok(false);
        }
        let (hello, challenge) = self.asked.ok_or(Refused)?;
        if !handshake::is_proven(key, &hello, &challenge, &take(&mut self.inbox)?) {
            return Err(Refused);
        }
        send(&self.socket, &handshake::emit_verdict(key, Verdict::Welcome, 0, &hello, &challenge))?;
        Ok(true)
    }
}

/// A call to a port, on its way.
pub struct Call {
    name: PortName,
    timing: Timing,
    next: usize,
    current: Option<Attempt>,
}

struct Attempt {
    socket: OwnedFd,
    stage: Stage,
    until: Instant,
    inbox: Vec<u8>,
}

enum Stage {
    Connecting,
    /// Until the port's owner accepts, which may take as long as it likes.
    Challenge([u8; HELLO_BYTES]),
    Verdict([u8; HELLO_BYTES], [u8; CHALLENGE_BYTES]),
}

/// No process at any address of the port has its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSuchPort;

impl Call {
    /// Begins.
    pub fn new(name: PortName, settings: &Settings) -> Self {
        Self { name, timing: settings.timing, next: 0, current: None }
    }

    /// Goes on; the stream, once the port's owner has accepted.
    ///
    /// # Errors
    /// The port is closed, or was another's.
    pub fn poll(&mut self) -> Result<Option<Stream>, NoSuchPort> {
        loop {
            let Some(attempt) = &mut self.current else {
                let Some(&address) = self.name.addresses.get(self.next) else { return Err(NoSuchPort) };
                self.next += 1;
                self.current = Attempt::begin(address, Instant::now() + self.timing.connect).ok();
                continue;
            };
            match attempt.advance(&self.name.key) {
                Ok(true) => return Ok(self.current.take().map(|attempt| Stream::new(attempt.socket))),
                Ok(false) => return Ok(None),
                Err(Refused) => self.current = None,
            }
        }
    }
}

impl Attempt {
    fn begin(address: SocketAddr, until: Instant) -> Result<Self, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = stream_socket(family)?;
        keep_alive(&socket);
        match rustix::net::connect(&socket, &scoped(address.ip(), address.port(), 0)) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Ok(Self { socket, stage: Stage::Connecting, until, inbox: Vec::new() })
    }

    fn advance(&mut self, key: &Key) -> Result<bool, Refused> {
        if let Stage::Connecting = self.stage {
            match sockopt::socket_error(&self.socket) {
                Ok(Ok(())) if rustix::net::getpeername(&self.socket).is_ok() => {}
                Ok(Ok(())) if Instant::now() < self.until => return Ok(false),
                _ => return Err(Refused),
            }
            let nonce = handshake::random().map_err(|_| Refused)?;
            let (nobody, epoch) = (ProcessId(0), 0);
            let hello =
                Hello { from: nobody, to: nobody, from_interface: 0, to_interface: 0, epoch, nonce }.emit();
            send(&self.socket, &hello)?;
            self.stage = Stage::Challenge(hello);
        }
        if let Stage::Challenge(hello) = self.stage {
            if !fill(&self.socket, &mut self.inbox, CHALLENGE_BYTES)? {
                return Ok(false);
            }
            let challenge = take(&mut self.inbox)?;
            send(&self.socket, &handshake::prove(key, &hello, &challenge).ok_or(Refused)?)?;
            self.stage = Stage::Verdict(hello, challenge);
        }
        let Stage::Verdict(hello, challenge) = self.stage else { return Ok(false) };
        if !fill(&self.socket, &mut self.inbox, VERDICT_BYTES)? {
            return Ok(false);
        }
        let verdict = handshake::parse_verdict(key, &take(&mut self.inbox)?, &hello, &challenge);
        verdict.map(|_| true).ok_or(Refused)
    }
}

/// A stream between two processes that have proved themselves.
pub struct Stream {
    socket: OwnedFd,
    unsent: Vec<u8>,
    chunk: Vec<u8>,
}

impl Stream {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, unsent: Vec::new(), chunk: vec![0; CHUNK_BYTES] }
    }

    /// A socket that the caller has connected; its owner keeps a descriptor.
    pub fn over(socket: OwnedFd) -> Self {
        Self::new(socket)
    }

    /// Sends bytes, and what is left of those before: as many as there is room for. Whether all are on their
    /// way.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.unsent.extend_from_slice(bytes);
        while !self.unsent.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &self.unsent, flags) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Bytes that have come, none if none have.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        self.receive_at_most(CHUNK_BYTES)
    }

    /// As [`receive`](Self::receive), at most `bytes_max`: later bytes are for others.
    ///
    /// # Errors
    /// As there.
    pub fn receive_at_most(&mut self, bytes_max: usize) -> io::Result<&[u8]> {
        let most = bytes_max.min(CHUNK_BYTES);
        loop {
            match rustix::net::recv(&self.socket, &mut self.chunk[..most], RecvFlags::DONTWAIT) {
                Ok((0, _)) if most > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => return Ok(&self.chunk[..count]),
                Err(Errno::AGAIN) => return Ok(&[]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::HANG_LIMIT;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    fn settings() -> Settings {
        let filter = super::super::RailFilter::new(Some("lo"), None).unwrap();
        Settings { filter, ..Settings::default() }
    }

    /// Moves both sides on until something comes of it.
    fn meet(port: &mut Port, call: &mut Call) -> (Option<Stream>, Result<Option<Stream>, NoSuchPort>) {
        let mut accepted = None;
        let over = await_some(|| {
            accepted = accepted.take().or_else(|| port.accept());
            Some(call.poll()).filter(|called| !matches!(called, Ok(None)))
        });
        (accepted, over)
    }

    /// Looks until something has come.
    fn await_some<T>(mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(begin.elapsed() < HANG_LIMIT, "nothing has come");
        }
    }

    #[test]
    fn caller_with_the_name_connects_and_bytes_follow() {
        let mut port = Port::open(&settings()).unwrap();
        let mut name = PortName::parse(&port.name().emit()).unwrap();
        assert_eq!(&name, port.name());
        name.addresses.truncate(1);
        let (accepted, called) = meet(&mut port, &mut Call::new(name, &settings()));
        let (mut here, mut there) = (accepted.unwrap(), called.unwrap().unwrap());
        there.send(b"word").unwrap();
        let got = await_some(|| Some(here.receive().unwrap().to_vec()).filter(|got| !got.is_empty()));
        assert_eq!(got, b"word");
        for stream in [&here, &there] {
            let flags = rustix::io::fcntl_getfd(&stream.socket).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "programs that are started get no stream");
            // A host that is gone is noticed in seconds.
            assert_eq!(sockopt::socket_keepalive(&stream.socket), Ok(true));
            assert!(sockopt::tcp_keepidle(&stream.socket).unwrap().as_secs() < 60);
        }
        drop(there);
        await_some(|| here.receive().err());
    }

    #[test]
    fn callers_that_prove_themselves_at_once_are_accepted_in_turn() {
        let mut port = Port::open(&settings()).unwrap();
        let mut calls: Vec<Call> = (0..3).map(|_| Call::new(port.name().clone(), &settings())).collect();
        let mut accepted = Vec::new();
        await_some(|| {
            // All have sent their proofs by the time that the port looks.
            for _ in 0..1_000 {
                calls.retain_mut(|call| call.poll().expect("it is welcome").is_none());
            }
            accepted.extend(port.accept());
            (accepted.len() == 3).then_some(())
        });
        // And each of them is told.
        await_some(|| {
            calls.retain_mut(|call| call.poll().expect("it is welcome").is_none());
            calls.is_empty().then_some(())
        });
    }

    #[test]
    fn a_stream_takes_what_there_is_room_for_and_the_rest_later() {
        use rustix::net::{SocketType, socketpair};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let (mut from, mut to) = (Stream::over(a), Stream::over(b));
        assert!(to.receive().unwrap().is_empty(), "nothing has come");
        let bytes: Vec<u8> = (0..2 << 20).map(|at| (at % 251) as u8).collect();
        assert!(!from.send(&bytes).unwrap());
        let mut received = to.receive_at_most(10).unwrap().to_vec();
        assert_eq!(received.len(), 10);
        while received.len() < bytes.len() {
            received.extend(to.receive().unwrap());
            from.send(&[]).unwrap();
        }
        assert!(from.send(&[]).unwrap() && received == bytes);
        drop(to);
        assert!(from.send(b"more").is_err());
    }

    /// A caller by itself, and its connection.
    fn stranger(port: &Port) -> (TcpStream, [u8; HELLO_BYTES]) {
        let stream = TcpStream::connect(port.name().addresses[0]).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let nobody = ProcessId(0);
        let hello =
            Hello { from: nobody, to: nobody, from_interface: 0, to_interface: 0, epoch: 0, nonce: [3; 16] };
        (stream, hello.emit())
    }

    /// What the port answers: so many bytes, or `None` when it has closed the connection.
    fn answer<const N: usize>(port: &mut Port, stream: &mut TcpStream) -> (Option<[u8; N]>, Option<Stream>) {
        let (mut answer, mut count, mut accepted) = ([0; N], 0, None);
        let is_whole = await_some(|| {
            accepted = accepted.take().or_else(|| port.accept());
            match stream.read(&mut answer[count..]) {
                Ok(0) => return Some(false),
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Some(false),
            }
            (count == N).then_some(true)
        });
        (is_whole.then_some(answer), accepted)
    }

    #[test]
    fn a_caller_may_take_its_time_between_bytes() {
        let mut port = Port::open(&settings()).unwrap();
        let (mut stream, hello) = stranger(&port);
        let key = port.name().key.clone();
        let send = |port: &mut Port, stream: &mut TcpStream, bytes: &[u8]| {
            for part in bytes.chunks(7) {
                stream.write_all(part).unwrap();
                // It is there by the time that the next looks have come back empty.
                for _ in 0..100 {
                    assert!(port.accept().is_none());
                }
            }
        };
        send(&mut port, &mut stream, &hello[..HELLO_BYTES - 1]);
        stream.write_all(&hello[HELLO_BYTES - 1..]).unwrap();
        let challenge = answer::<CHALLENGE_BYTES>(&mut port, &mut stream).0.unwrap();
        let proof = handshake::prove(&key, &hello, &challenge).unwrap();
        send(&mut port, &mut stream, &proof[..PROOF_BYTES - 1]);
        stream.write_all(&proof[PROOF_BYTES - 1..]).unwrap();
        let (verdict, accepted) = answer::<VERDICT_BYTES>(&mut port, &mut stream);
        let verdict = handshake::parse_verdict(&key, &verdict.unwrap(), &hello, &challenge);
        assert!(verdict.is_some_and(|verdict| verdict.0 == Verdict::Welcome));
        assert!(accepted.is_some());
    }

    #[test]
    fn a_caller_without_a_proof_is_shown_out() {
        let mut port = Port::open(&settings()).unwrap();
        let (mut stream, hello) = stranger(&port);
        stream.write_all(&hello).unwrap();
        assert!(answer::<CHALLENGE_BYTES>(&mut port, &mut stream).0.is_some());
        stream.write_all(&[9; PROOF_BYTES]).unwrap();
        let (verdict, accepted) = answer::<VERDICT_BYTES>(&mut port, &mut stream);
        assert!(verdict.is_none() && accepted.is_none());
        // And what is no hello at all.
        let (mut stream, _) = stranger(&port);
        stream.write_all(&[9; HELLO_BYTES]).unwrap();
        assert!(answer::<CHALLENGE_BYTES>(&mut port, &mut stream).0.is_none());
    }

    #[test]
    fn another_key_and_a_closed_port_are_no_such_port() {
        let mut port = Port::open(&settings()).unwrap();
        let mut name = port.name().clone();
        name.key = Key::new([1; 32]);
        let (accepted, called) = meet(&mut port, &mut Call::new(name, &settings()));
        assert!(accepted.is_none() && called.is_err());
        let name = port.name().clone();
        drop(port);
        let mut call = Call::new(name, &settings());
        assert!(await_some(|| Some(call.poll()).filter(|called| !matches!(called, Ok(None)))).is_err());
    }

    #[test]
    fn nonsense_is_no_name() {
        let key = "0".repeat(64);
        assert!(PortName::parse(&format!("ayatori1;{key};127.0.0.1,5;::1,6")).is_some());
        for bad in [
            String::new(),
            "ayatori1".to_owned(),
            format!("ayatori1;{key}"),
            format!("ayatori1;{key};127.0.0.1"),
            format!("ayatori1;{key};127.0.0.1,0"),
            format!("ayatori2;{key};127.0.0.1,1"),
            format!("ayatori1;{};127.0.0.1,1", &key[1..]),
            format!("ayatori1;{key}{}", ";1.1.1.1,1".repeat(17)),
        ] {
            assert!(PortName::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn so_many_callers_may_be_unproved_and_no_more() {
        let timing = Timing { pending_max: 2, handshake: HANG_LIMIT, ..Timing::default() };
        let mut port = Port::open(&Settings { timing, ..settings() }).unwrap();
        let address = port.name().addresses[0];
        let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
        await_some(|| {
            assert!(port.accept().is_none());
            (port.callers.len() >= 2).then_some(())
        });
        assert!(port.accept().is_none());
        assert_eq!(port.callers.len(), 2);
        drop(silent);
    }

    #[test]
    fn a_call_that_has_not_arrived_is_no_stream() {
        // A queue for one caller, and that one is there: what comes later waits on its way.
        let listener = stream_socket(AddressFamily::INET).unwrap();
        rustix::net::bind(&listener, &scoped("127.0.0.1".parse().unwrap(), 0, 0)).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
        let name = PortName { key: Key::new([1; 32]), addresses: vec![address] };
        let call = |connect: std::time::Duration| {
            let timing = Timing { connect, ..Timing::default() };
            Call::new(name.clone(), &Settings { timing, ..settings() })
        };
        let mut early: Vec<Call> = (0..8).map(|_| call(HANG_LIMIT)).collect();
        let is_waiting = |call: &Call| {
            call.current.as_ref().is_some_and(|attempt| matches!(attempt.stage, Stage::Connecting))
        };
        await_some(|| {
            early.iter_mut().for_each(|call| assert!(matches!(call.poll(), Ok(None))));
            early.iter().any(|call| !is_waiting(call)).then_some(())
        });
        assert!(early.iter().any(is_waiting));
        // And past its time it is given up.
        assert!(call(std::time::Duration::ZERO).poll().is_err());
    }

    #[test]
    fn a_stream_over_a_socket_that_blocks_does_not_wait() {
        use rustix::net::{SocketType, socketpair};
        let (a, _b) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let mut stream = Stream::over(a);
        assert!(stream.receive().unwrap().is_empty());
        assert!(!stream.send(&vec![7; 8 << 20]).unwrap());
    }
}
