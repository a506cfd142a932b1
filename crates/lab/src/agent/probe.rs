//! Datagrams between hosts: reachability of all pairs, paths of frames, receivers of broadcasts.

use super::network::in_node;
use crate::wire::{HostAddress, Pairs, Primed};
use anyhow::{Context, bail};
use ayatori_fabric::host;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Port of all probes; nothing else runs in the nodes unless the user's command does.
const PORT: u16 = 41_707;
/// Silence after which what has not arrived is taken for lost. The machine is emulated and may be slow.
const QUIET: Duration = Duration::from_millis(1000);
/// How often a receiver looks whether it is to end.
const TICK: Duration = Duration::from_millis(50);

/// A probe's content: kind, sender, addressee, round; each receiver checks that it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    is_answer: bool,
    from: u32,
    to: u32,
    round: u32,
}

const PROBE_BYTES: usize = 13;

impl Probe {
    fn emit(self) -> [u8; PROBE_BYTES] {
        let mut bytes = [0; PROBE_BYTES];
        bytes[0] = u8::from(self.is_answer);
        for (at, value) in [(1, self.from), (5, self.to), (9, self.round)] {
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Probe> {
        let bytes: &[u8; PROBE_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u32::from_be_bytes(bytes[at..at + 4].try_into().ok()?));
        Some(Probe { is_answer: bytes[0] == 1, from: word(1)?, to: word(5)?, round: word(9)? })
    }
}

/// Datagrams that all receivers together have seen.
#[derive(Debug, Default)]
struct Seen {
    probes: BTreeSet<Probe>,
    duplicate_count: u64,
    last: Option<Instant>,
}

/// Every host asks every other; those that got no answer ask again, until `idle_round_count_max` rounds in a
/// row have brought none: the emulated machine drops some, the more of them the busier it is.
pub(super) fn all_pairs(hosts: &[HostAddress], idle_round_count_max: u32) -> anyhow::Result<Pairs> {
    let sockets = sockets(hosts)?;
    let seen = Mutex::new(Seen::default());
    let stop = AtomicBool::new(false);
    let mut pairs = Pairs::default();
    let host_count = u32::try_from(hosts.len()).context("too many hosts")?;
    let all = (0..host_count).flat_map(|from| (0..host_count).map(move |to| (from, to)));
    pairs.missing = all.filter(|(from, to)| from != to).collect();
    std::thread::scope(|scope| {
        for (index, socket) in sockets.iter().enumerate() {
            let (seen, stop) = (&seen, &stop);
            scope.spawn(move || answer(index as u32, socket, seen, stop));
        }
        let mut idle_round_count = 0;
        while !pairs.missing.is_empty() && idle_round_count < idle_round_count_max {
            pairs.round_count += 1;
            let asked_count = pairs.missing.len();
            for &(from, to) in &pairs.missing {
                let probe = Probe { is_answer: false, from, to, round: pairs.round_count };
                let address = SocketAddrV4::new(hosts[to as usize].address, PORT);
                // A datagram that cannot be sent (no route, no buffer) stays missing.
                let _ = sockets[from as usize].send_to(&probe.emit(), address);
            }
            wait_for_quiet(&seen);
            let seen = lock(&seen);
            // An answer may come when the next round has begun.
            let is_answered = |&(from, to): &(u32, u32)| {
                let answer = |round| Probe { is_answer: true, from: to, to: from, round };
                (1..=pairs.round_count).any(|round| seen.probes.contains(&answer(round)))
            };
            pairs.missing.retain(|pair| !is_answered(pair));
            idle_round_count = if pairs.missing.len() < asked_count { 0 } else { idle_round_count + 1 };
        }
        stop.store(true, Ordering::Relaxed);
    });
    pairs.duplicate_count = lock(&seen).duplicate_count;
    Ok(pairs)
}

fn answer(index: u32, socket: &UdpSocket, seen: &Mutex<Seen>, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok((count, sender)) = socket.recv_from(&mut buffer) else { continue };
        let Some(probe) = Probe::parse(&buffer[..count]) else { continue };
        if probe.to != index {
            continue;
        }
        {
            let mut seen = lock(seen);
            seen.last = Some(Instant::now());
            if !seen.probes.insert(probe) {
                seen.duplicate_count += 1;
                continue;
            }
        }
        if !probe.is_answer {
            let answer = Probe { is_answer: true, from: index, to: probe.from, round: probe.round };
            let _ = socket.send_to(&answer.emit(), sender);
        }
    }
}

fn wait_for_quiet(seen: &Mutex<Seen>) {
    lock(seen).last = Some(Instant::now());
    while lock(seen).last.is_some_and(|last| last.elapsed() < QUIET) {
        std::thread::sleep(TICK);
    }
}

/// Datagrams from one host to another, one after the other.
struct Flow {
    sender: UdpSocket,
    receiver: UdpSocket,
    to: Ipv4Addr,
    sent_count: u32,
    received_count: u32,
}

impl Flow {
    fn new(from: &HostAddress, to: &HostAddress) -> anyhow::Result<Flow> {
        let sender = in_node(&from.node, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
        let receiver = sockets(std::slice::from_ref(to))?.remove(0);
        Ok(Flow { sender, receiver, to: to.address, sent_count: 0, received_count: 0 })
    }

    fn send(&mut self, count: u32, bytes: u16) -> anyhow::Result<()> {
        let payload = vec![0x5a; usize::from(bytes)];
        for _ in 0..count {
            self.sender.send_to(&payload, SocketAddrV4::new(self.to, PORT)).context("cannot send")?;
            self.sent_count += 1;
            // Taking each in turn keeps the receiver's buffer empty; the first may take an ARP exchange.
            self.take(QUIET)?;
        }
        Ok(())
    }

    /// Whether a datagram came in this time.
    fn take(&mut self, timeout: Duration) -> anyhow::Result<bool> {
        let has_come = receive(&self.receiver, &mut [0; 2048], timeout)?.is_some();
        self.received_count += u32::from(has_come);
        Ok(has_come)
    }

    /// Those that were late.
    fn take_late(&mut self) -> anyhow::Result<()> {
        while self.take(TICK)? {}
        Ok(())
    }
}

/// Sends `count` datagrams from one host to another and counts those that arrive.
pub(super) fn send(from: &HostAddress, to: &HostAddress, count: u32, bytes: u16) -> anyhow::Result<u32> {
    let mut flow = Flow::new(from, to)?;
    flow.send(count, bytes)?;
    flow.take_late()?;
    Ok(flow.received_count)
}

/// Payload of a datagram that flows while hosts prime, bytes.
const LOAD_BYTES: u16 = 1_000;

/// Lets all pairs send at once, and hosts prime when each has sent `count`; each sends on until that is done,
/// and `count` more. Datagrams sent and arrived, by pair.
pub(super) fn send_while_priming(
    pairs: &[(HostAddress, HostAddress)],
    hosts: &[Primed],
    count: u32,
) -> anyhow::Result<Vec<(u32, u32)>> {
    let mut flows = Vec::new();
    for (from, to) in pairs {
        flows.push(Flow::new(from, to)?);
    }
    // All flows run before the first host primes, and until the last has.
    let (begun, done) = (Barrier::new(flows.len() + 1), AtomicBool::new(false));
    let run = |mut flow: Flow| -> anyhow::Result<(u32, u32)> {
        let first = flow.send(count, LOAD_BYTES);
        begun.wait();
        first?;
        while !done.load(Ordering::Relaxed) {
            flow.send(1, LOAD_BYTES)?;
        }
        flow.send(count, LOAD_BYTES)?;
        flow.take_late()?;
        Ok((flow.sent_count, flow.received_count))
    };
    let (counts, primed) = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = flows.into_iter().map(|flow| scope.spawn(move || run(flow))).collect();
        begun.wait();
        let primed = prime(hosts);
        done.store(true, Ordering::Relaxed);
        let counts: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        (counts, primed)
    });
    primed?;
    counts.into_iter().map(|count| count.unwrap_or_else(|_| bail!("a thread panicked"))).collect()
}

/// The learning procedure of every host, as `ayatori plan prime` does it.
pub(super) fn prime(hosts: &[Primed]) -> anyhow::Result<()> {
    for host in hosts {
        in_node(&host.node, || -> anyhow::Result<()> {
            for &address in &host.addresses {
                host::prime(address).with_context(|| format!("cannot prime {} from {address}", host.node))?;
            }
            Ok(())
        })??;
    }
    Ok(())
}

/// Sends `count` datagrams to all and counts what each host hears. A host whose own address is `from` does
/// not hear itself.
pub(super) fn broadcast(
    from: &HostAddress,
    to: Ipv4Addr,
    hosts: &[HostAddress],
    count: u32,
) -> anyhow::Result<Vec<u32>> {
    let sockets = sockets(hosts)?;
    let sender = in_node(&from.node, || UdpSocket::bind((from.address, 0)))?
        .with_context(|| format!("{} has no address {}", from.node, from.address))?;
    sender.set_broadcast(true)?;
    for _ in 0..count {
        sender.send_to(&[0x5a; 64], SocketAddrV4::new(to, PORT)).context("cannot send a broadcast")?;
        std::thread::sleep(TICK);
    }
    std::thread::sleep(QUIET);
    let mut buffer = [0; 2048];
    let mut heard = Vec::new();
    for socket in &sockets {
        let mut heard_count = 0;
        while let Some(sender) = receive(socket, &mut buffer, Duration::from_millis(1))? {
            heard_count += u32::from(sender.ip() == from.address);
        }
        heard.push(heard_count);
    }
    Ok(heard)
}

/// One socket in each host, on the probes' port.
fn sockets(hosts: &[HostAddress]) -> anyhow::Result<Vec<UdpSocket>> {
    hosts
        .iter()
        .map(|host| {
            let socket = in_node(&host.node, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)))?
                .with_context(|| format!("cannot open a socket in {}", host.node))?;
            socket.set_read_timeout(Some(TICK))?;
            Ok(socket)
        })
        .collect()
}

fn receive(socket: &UdpSocket, buffer: &mut [u8], timeout: Duration) -> anyhow::Result<Option<SocketAddr>> {
    socket.set_read_timeout(Some(timeout))?;
    match socket.recv_from(buffer) {
        Ok((_, sender)) => Ok(Some(sender)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error).context("cannot receive"),
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_as_it_was_written() {
        let probe = Probe { is_answer: true, from: 7, to: 70_000, round: 3 };
        assert_eq!(Probe::parse(&probe.emit()), Some(probe));
        assert_eq!(Probe::parse(b"short"), None);
    }
}
