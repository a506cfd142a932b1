//! Shared memory for the processes of this host and TCP for the others, as one device.
//!
//! Rail 0 is shared memory, the rails from 1 on are TCP's. Polling looks where the expected message would
//! come from, and now and then everywhere; sleeping is in TCP's epoll, where the doorbell of shared memory
//! hangs too. A job on one host does not come here: it uses [`Shm`] itself.

use crate::shm::{Shm, WaitPolicy};
use crate::tcp::{Card, Key, Tcp, TcpError};
use crate::threads::Parker;
use ayatori_core::buffer::{Buffer, Payload};
use ayatori_core::device::{
    Armed, Device, Event, Fetched, Full, Gap, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::{Duration as CoreDuration, Instant};
use std::time::Duration;

/// The first of TCP's rails.
pub const FIRST_TCP_RAIL: u8 = 1;
/// One of this many polls for a process of this host looks at the sockets.
const LOOK_AROUND: u32 = 16;

/// A look at a socket takes about 50 times as long as one at a ring of shared memory.
const SPINS: u32 = 200;

/// The device of a process in a job on several hosts. See the [module's docs](self).
pub struct Composite {
    shm: Shm,
    tcp: Tcp,
    rails: Vec<RailCapabilities>,
    /// The expected process is of this host.
    is_local_expected: bool,
    has_local_peers: bool,
    polls_count: u32,
    policy: WaitPolicy,
}

impl Composite {
    /// Both as one. `tcp` has its rails from [`FIRST_TCP_RAIL`] on; `local_count` processes are on this host,
    /// which has `cpus_count` CPUs for them.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(mut shm: Shm, mut tcp: Tcp, local_count: u32, cpus_count: u32) -> std::io::Result<Self> {
        tcp.set_doorbell(shm.hang_bell()?)?;
        let rails = shm.rails().iter().chain(tcp.rails()).copied().collect();
        let policy = match WaitPolicy::new(local_count, cpus_count) {
            policy if policy.spins_count > 0 => {
                WaitPolicy { spins_count: SPINS, spins_time: Duration::MAX, ..policy }
            }
            policy => policy,
        };
        let has_local_peers = local_count > 1;
        Ok(Self { shm, tcp, rails, is_local_expected: false, has_local_peers, polls_count: 0, policy })
    }

    /// From now on a process of another world can be reached: [`Tcp::add_peer`].
    ///
    /// # Errors
    /// As there.
    pub fn add_peer(&mut self, process: ProcessId, card: Card, key: Key) -> Result<(), TcpError> {
        self.tcp.add_peer(process, card, key)
    }

    /// This process' card for others.
    pub fn card(&self, node: u64, cpus_count: u32) -> Card {
        self.tcp.card(node, cpus_count)
    }

    /// How long to spin, to yield and to sleep while nothing arrives.
    pub fn policy(&self) -> WaitPolicy {
        self.policy
    }

    /// Lets another process run on this CPU.
    pub fn yield_now(&self) {
        self.shm.yield_now();
    }

    /// Sleeps until something arrives from anywhere, at most `timeout`. Only after [`Device::arm`] answered
    /// [`Armed::Armed`]; may return early. Whether it was woken.
    pub fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let most = self.shm.bell_timeout();
        let is_woken = self.tcp.wait(Some(timeout.map_or(most, |timeout| timeout.min(most))));
        self.watch_if_due();
        is_woken
    }

    /// As [`Device::arm`], for a thread that releases the device and sleeps at [`parker`](Self::parker).
    pub fn arm_aside(&mut self) -> Armed {
        self.arm()
    }

    /// Whether no thread has polled since it was armed (each poll begins with shared memory), and no packet
    /// waits here.
    pub fn is_armed(&self) -> bool {
        self.shm.is_armed() && !self.tcp.has_more()
    }

    /// Where to sleep after [`arm_aside`](Self::arm_aside).
    ///
    /// # Errors
    /// No descriptors left.
    pub fn parker(&self) -> std::io::Result<Parker> {
        Parker::at_descriptor(self.tcp.as_fd().try_clone_to_owned()?)
    }

    /// How long a sleep aside may be.
    pub fn park_max(&self) -> Duration {
        self.shm.bell_timeout()
    }

    /// After a sleep aside: reports peers that have died, if it is time to look after them.
    pub fn watch_if_due(&mut self) {
        if self.has_local_peers {
            self.shm.watch_if_due();
        }
    }

    /// Whether everything that was taken is on its way.
    pub fn is_flushed(&self) -> bool {
        self.tcp.is_flushed()
    }

    /// Whether something that was taken may not be on its way. Quick.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.tcp.may_hold()
    }

    /// Packets that came damaged over TCP and were dropped.
    pub fn damaged_count(&self) -> u64 {
        self.tcp.damaged_count()
    }

    /// Says goodbye on all sides.
    pub fn detach(&mut self) {
        self.tcp.detach(Duration::from_secs(2));
        self.shm.detach();
    }

    /// As [`Tcp::expect_long`]. Shared memory sees the end of a process by itself.
    pub fn expect_long(&mut self, process: ProcessId) {
        self.tcp.expect_long(process);
    }

    /// As [`Tcp::failure_notice`]. Shared memory sees the end of a process of this host by itself.
    pub fn failure_notice(&self) -> impl Fn(ProcessId) + Send + use<> {
        self.tcp.failure_notice()
    }

    /// The part for this host.
    pub fn shm(&self) -> &Shm {
        &self.shm
    }

    /// The same, for copies between memory of this host's processes that are over when the call returns.
    pub fn shm_mut(&mut self) -> &mut Shm {
        &mut self.shm
    }

    #[inline]
    fn is_local(rail: Rail) -> bool {
        rail.0 < FIRST_TCP_RAIL
    }
}

impl Device for Composite {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        let local = self.shm.rails_to(peer);
        if local.is_empty() { self.tcp.rails_to(peer) } else { local }
    }

    #[inline]
    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        if Self::is_local(rail) {
            self.shm.send(rail, to, header, payload)
        } else {
            self.tcp.send(rail, to, header, payload)
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.tcp.flush();
    }

    #[inline]
    fn poll(&mut self) -> Option<Event> {
        self.polls_count = self.polls_count.wrapping_add(1);
        let looks_around = self.polls_count.is_multiple_of(LOOK_AROUND);
        // A process alone on its host receives only its own packets in shared memory.
        let skips_shm = !self.has_local_peers && !looks_around && !self.shm.is_armed();
        if !skips_shm && let Some(event) = self.shm.poll() {
            return Some(event);
        }
        if self.is_local_expected && !self.tcp.has_more() && !looks_around {
            return None;
        }
        self.tcp.poll()
    }

    #[inline]
    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        if Self::is_local(incoming.rail) { self.shm.packet(incoming) } else { self.tcp.packet(incoming) }
    }

    #[inline]
    fn release(&mut self, incoming: Incoming) {
        if Self::is_local(incoming.rail) { self.shm.release(incoming) } else { self.tcp.release(incoming) }
    }

    #[inline]
    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        if Self::is_local(incoming.rail) {
            self.shm.fetch(incoming, into)
        } else {
            self.tcp.fetch(incoming, into)
        }
    }

    #[inline]
    fn expect(&mut self, from: Option<ProcessId>) {
        self.is_local_expected = from.is_some_and(|process| !self.shm.rails_to(process).is_empty());
        if self.is_local_expected { self.shm.expect(from) } else { self.tcp.expect(from) }
    }

    fn time(&self) -> Option<Instant> {
        self.shm.time()
    }

    fn is_waiting(&self, peer: ProcessId) -> bool {
        self.shm.is_waiting(peer)
    }

    fn is_near(&self, peer: ProcessId) -> Option<bool> {
        self.shm.is_near(peer)
    }

    fn register(&mut self, rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
        if Self::is_local(rail) { self.shm.register(rail, buffer) } else { self.tcp.register(rail, buffer) }
    }

    fn deregister(&mut self, rail: Rail, key: RemoteKey) {
        if Self::is_local(rail) { self.shm.deregister(rail, key) } else { self.tcp.deregister(rail, key) }
    }

    fn put(
        &mut self,
        rail: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        if Self::is_local(rail) {
            self.shm.put(rail, to, local, remote, token)
        } else {
            self.tcp.put(rail, to, local, remote, token)
        }
    }

    fn get(
        &mut self,
        rail: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        if Self::is_local(rail) {
            self.shm.get(rail, from, local, remote, token)
        } else {
            self.tcp.get(rail, from, local, remote, token)
        }
    }

    fn set_gap(&mut self, rail: Rail, peer: ProcessId, gap: Gap) {
        if !Self::is_local(rail) {
            self.tcp.set_gap(rail, peer, gap);
        }
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        if !Self::is_local(rail) {
            self.tcp.reset(rail, peer);
        }
    }

    fn heard(&mut self, rail: Rail, peer: ProcessId) -> Option<CoreDuration> {
        if Self::is_local(rail) { self.shm.heard(rail, peer) } else { self.tcp.heard(rail, peer) }
    }

    fn arm(&mut self) -> Armed {
        if self.tcp.arm() == Armed::NotYet {
            return Armed::NotYet;
        }
        self.shm.arm_at_bell()
    }
}
