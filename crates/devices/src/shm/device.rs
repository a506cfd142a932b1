//! The device of one rank: its rings, its place in the segment, how it sleeps.

use super::active::ActiveSenders;
use super::bell;
use super::cooperative::{Awaited, Copy, Habit};
use super::kernel_copy::{Direction, process_memory};
use super::processor::Processor;
use super::ring::{self, Receiver, Seen, Sender};
use super::segment::{Control, RingSize, STATE_ATTACHED, STATE_DETACHED, Segment, ShmError, Source};
use super::sleep::{self, Sleeper, Waker};
use super::sys;
use super::wait::{self, WaitPolicy};
use super::words::CallSet;
use crate::switch;
use crate::threads::{self, Parker};
use ayatori_core::buffer::{Buffer, Payload, Piece};
use ayatori_core::device::{
    Armed, Device, Event, Fetched, Full, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token, profiles,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::Instant;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Parameters to attach a rank.
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// This rank among the job's ranks on this host.
    pub local_rank: u32,
    /// The processes of this host by local rank.
    pub processes: Vec<ProcessId>,
    /// The first process of the world: reports name processes by their distance from it.
    pub first: ProcessId,
    /// CPUs that these ranks may use together.
    pub cpus_count: u32,
    /// Whether to use the kernel's copy between processes where it is allowed.
    pub kernel_copy: bool,
    /// Ring sizes; the same at all ranks. `None`: [`RingSize::for_ranks`].
    pub ring: Option<RingSize>,
}

impl ShmConfig {
    /// For `local_rank` of the given processes, on the CPUs this process may use, or its parent (the
    /// launcher) if those are more: a rank that is bound to one CPU does not share it with all the others.
    /// `AYATORI_SHM_CMA=0` in the environment turns the kernel's copy off.
    pub fn new(local_rank: u32, processes: Vec<ProcessId>) -> Self {
        let own = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let cpus_count = own.max(sys::parent_cpus_count().unwrap_or(1));
        let kernel_copy = switch::here("AYATORI_SHM_CMA", true);
        Self { local_rank, processes, first: ProcessId(0), cpus_count, kernel_copy, ring: None }
    }
}

/// What peers are: [`Device::rails_to`] says which.
const OF_THIS_HOST: &str = "a process of this host (rails_to says which)";
/// Not a local rank.
const NOBODY: u32 = u32::MAX;
const RAIL: Rail = Rail(0);

/// How many rings [`Device::poll`] looks into at most, beside the expected one.
const SCAN_COUNT: u32 = 32;

/// The shared-memory device of one rank. See the [module's docs](super).
pub struct Shm {
    pub(super) rails: [RailCapabilities; 1],
    pub(super) local_rank: u32,
    pub(super) peers: Vec<Peer>,
    /// Local rank by process id, less the lowest of this host.
    local_ranks: Vec<u32>,
    first_process: u32,
    /// The peer to look at first, and the place after the last looked at.
    expected: u32,
    scan_next: u32,
    /// Those whose rings are looked into, by local rank, and how many announcements that knows of.
    /// `scan_next` is a place in it.
    active: Vec<u32>,
    active_count: u32,
    pub(super) senders: &'static ActiveSenders,
    is_armed: bool,
    pub(super) segment: Segment,
    /// Open, so that onlookers find it (`watch.rs`).
    pub(super) file: Arc<std::os::fd::OwnedFd>,
    pub(super) sleeper: Sleeper,
    pub(super) waker: Waker,
    /// [`ActiveSenders::news`] at the last look, or another number: then each poll looks again.
    pub(super) news_seen: u64,
    /// Who was helped last with a copy.
    pub(super) asked_helped: u32,
    pub(super) own_copy: &'static Copy,
    /// A copy of this rank that its helper has not ended.
    pub(super) awaited: Option<Awaited>,
    events: VecDeque<Event>,
    policy: WaitPolicy,
    reads_between: bool,
    /// Numbers of the functions in which a rank waits.
    pub(super) waiting_calls: CallSet,
    bell: Option<bell::Bell>,
    /// The start of its clock.
    began: std::time::Instant,
}

/// Whole pairs of lines: devices of several ranks may live in one process (tests, benches), and then share
/// none.
#[repr(align(128))]
pub(super) struct Peer {
    process: ProcessId,
    sender: Sender,
    receiver: Receiver,
    pub(super) control: &'static Control,
    pub(super) kernel_copy: bool,
    /// Whether it takes part in copies.
    pub(super) helps: Habit,
    /// The last send found the ring full.
    is_starved: bool,
    pub(super) is_gone: bool,
    /// It has written what no correct peer writes: its ring is not read any more.
    is_cut_off: bool,
    watch: Option<std::os::fd::OwnedFd>,
}

impl Shm {
    /// Attaches this rank to the segment. Does not wait for the others: their rings can be written before
    /// they come.
    ///
    /// # Errors
    /// The system refuses the memory, or the ranks do not agree about the segment.
    pub fn attach(source: &Source, config: &ShmConfig) -> Result<Self, ShmError> {
        let local_size = u32::try_from(config.processes.len()).unwrap_or(u32::MAX);
        assert!(config.local_rank < local_size, "local rank {} of {local_size}", config.local_rank);
        let ring = config.ring.unwrap_or_else(|| RingSize::for_ranks(local_size));
        let (segment, file) = Segment::attach_to_file(source, local_size, ring)?;
        let file = Arc::new(file);
        let me = config.local_rank;
        let is_oversubscribed = local_size > config.cpus_count;
        if is_oversubscribed {
            sys::spread(me, local_size);
        }
        let has_own_core = local_size.saturating_mul(sys::threads_per_core()) <= config.cpus_count;
        let sleeper = Sleeper::new(&segment, me, is_oversubscribed);
        let control = &segment.controls()[me as usize];
        control.told.introduce(config.processes[me as usize].0.wrapping_sub(config.first.0));
        control.pid.store(sys::process_id() as u32, Ordering::Relaxed);
        control.state.store(STATE_ATTACHED, Ordering::Release);
        let peers: Vec<Peer> = (0..local_size)
            .map(|peer| Peer {
                process: config.processes[peer as usize],
                sender: Sender::new(segment.ring(me, peer), !is_oversubscribed)
                    .reader_on_other_core(has_own_core)
                    .backed_by(segment.bulk_backing(&file, me, peer))
                    .announcing(segment.controls()[peer as usize].senders.announcement(me)),
                receiver: Receiver::new(segment.ring(peer, me)).exchanging(segment.blocks(&file, me, peer)),
                control: &segment.controls()[peer as usize],
                kernel_copy: config.kernel_copy,
                helps: Habit::new(!is_oversubscribed),
                is_starved: false,
                is_gone: false,
                is_cut_off: false,
                watch: None,
            })
            .collect();
        let (first_process, local_ranks) = local_ranks_of(&config.processes);
        let payload_bytes_max = segment.ring(me, me).data_bytes_max(&Processor::here());
        Ok(Self {
            rails: [profiles::shm(&profiles::Shm {
                slot_bytes: ring::SLOT_BYTES,
                payload_bytes_max,
                kernel_copy: config.kernel_copy,
                is_oversubscribed,
                has_long_blocks: Processor::here().has_long_blocks(),
            })],
            local_rank: me,
            peers,
            local_ranks,
            first_process,
            expected: (me + 1) % local_size,
            scan_next: 0,
            active: Vec::new(),
            active_count: 0,
            senders: &control.senders,
            is_armed: false,
            segment,
            file,
            waker: sleeper.waker(),
            news_seen: 0,
            asked_helped: control.senders.asked(),
            own_copy: &control.copy,
            awaited: None,
            sleeper,
            events: VecDeque::new(),
            policy: WaitPolicy::new(local_size, config.cpus_count),
            reads_between: Processor::here().reads_between,
            waiting_calls: CallSet::default(),
            bell: None,
            began: std::time::Instant::now(),
        })
    }

    /// A device for a process that is alone.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn alone(process: ProcessId) -> Result<Self, ShmError> {
        Self::attach(&Source::create()?, &ShmConfig::new(0, vec![process]))
    }

    /// Whether packets are to be read between sends for which nobody waits: on some processors ranks that
    /// send each other several messages at once gain by it.
    #[inline]
    pub fn reads_between_sends(&self) -> bool {
        self.reads_between
    }

    /// How long to spin, to yield and to sleep while nothing arrives.
    pub fn policy(&self) -> WaitPolicy {
        self.policy
    }

    /// Sleeps until something arrives, at most `timeout`. Only after [`Device::arm`] answered
    /// [`Armed::Armed`]; may return early. Whether it was woken. A peer that died meanwhile is reported by
    /// the next poll.
    pub fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let most = threads::sleep_max();
        let is_woken = self.sleeper.wait(timeout.map_or(most, |timeout| timeout.min(most)));
        self.watch_if_due();
        is_woken
    }

    /// As [`Device::arm`], for a thread that releases the device and sleeps at [`parker`](Self::parker).
    pub fn arm_aside(&mut self) -> Armed {
        self.fall_asleep(sleep::Place::Aside)
    }

    /// Whether no thread has polled since it was armed: then it need not be armed again.
    pub fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Where to sleep after [`arm_aside`](Self::arm_aside).
    pub fn parker(&self) -> Parker {
        Parker::at_futex(self.sleeper.place())
    }

    /// Longest sleep aside: peers must be checked.
    pub fn park_max(&self) -> Duration {
        threads::sleep_max()
    }

    /// Reports peers that have died, if it is time to look after them: for callers that sleep elsewhere.
    pub fn watch_if_due(&mut self) {
        if self.sleeper.is_watch_due(std::time::Instant::now()) {
            self.watch_peers();
        }
    }

    /// From now on this rank can sleep at a bell ([`arm_at_bell`](Self::arm_at_bell)), which is a descriptor
    /// that becomes readable, beside others in an epoll.
    ///
    /// # Errors
    /// No pipe to be had.
    pub(crate) fn hang_bell(&mut self) -> std::io::Result<std::os::fd::OwnedFd> {
        let (bell, listening) = bell::Bell::new(self.peers[self.local_rank as usize].control)?;
        self.bell = Some(bell);
        Ok(listening)
    }

    /// As [`Device::arm`], for a sleep at the bell.
    pub(crate) fn arm_at_bell(&mut self) -> Armed {
        debug_assert!(self.bell.is_some(), "there is a bell");
        self.fall_asleep(sleep::Place::Bell)
    }

    /// Longest sleep at the bell: a peer may be unable to ring it.
    pub(crate) fn bell_timeout(&self) -> Duration {
        let is_deaf = self.peers[self.local_rank as usize].control.is_deaf.load(Ordering::Relaxed) != 0;
        if is_deaf { DEAF_SLEEP_MAX } else { threads::sleep_max() }
    }

    fn fall_asleep(&mut self, place: sleep::Place) -> Armed {
        let is_starved = self.peers.iter().any(|peer| peer.is_starved);
        self.sleeper.arm(is_starved, place);
        self.is_armed = true;
        if self.has_new_senders() {
            self.learn_senders();
        }
        if self.has_news() {
            // Who lacked room tries again before the next arming, and lacks it again if it must. What waited
            // may have been taken back, though: then room is no news a second time.
            for peer in self.peers.iter_mut().filter(|peer| peer.is_starved && peer.sender.has_news()) {
                peer.is_starved = false;
            }
            self.is_armed = false;
            self.sleeper.disarm();
            return Armed::NotYet;
        }
        Armed::Armed
    }

    /// Lets another process run on this CPU.
    pub fn yield_now(&self) {
        wait::yield_now();
    }

    /// Says goodbye: that this process ends is no accident from now on.
    pub fn detach(&mut self) {
        self.peers[self.local_rank as usize].control.state.store(STATE_DETACHED, Ordering::Release);
    }

    /// Comes back after [`detach`](Self::detach): its end would be an accident again.
    pub fn attach_again(&mut self) {
        self.peers[self.local_rank as usize].control.state.store(STATE_ATTACHED, Ordering::Release);
    }

    #[inline]
    pub(super) fn local_rank_of(&self, process: ProcessId) -> Option<u32> {
        let index = process.0.wrapping_sub(self.first_process) as usize;
        self.local_ranks.get(index).copied().filter(|&local| local != NOBODY)
    }

    #[inline]
    fn peer_mut(&mut self, process: ProcessId) -> &mut Peer {
        let local = self.local_rank_of(process).expect(OF_THIS_HOST);
        &mut self.peers[local as usize]
    }

    /// Looks into one ring.
    #[inline(always)]
    fn poll_peer(&mut self, local: u32) -> Option<Event> {
        let peer = &mut self.peers[local as usize];
        match peer.receiver.poll() {
            Seen::Nothing => None,
            Seen::Packet => {
                Some(Event::Packet(Incoming { rail: RAIL, from: peer.process, slot: u64::from(local) }))
            }
            Seen::Front(payload_bytes) => self.front_of(local, payload_bytes),
            Seen::Corrupt => self.cut_off(local),
        }
    }

    #[inline(never)]
    fn front_of(&self, local: u32, payload_bytes: usize) -> Option<Event> {
        let from = self.peers[local as usize].process;
        Some(Event::Front(Incoming { rail: RAIL, from, slot: u64::from(local) }, payload_bytes))
    }

    /// Gives the packet at the front of a ring back.
    #[inline(always)]
    fn release_front(&mut self, local: u64) {
        let peer = &mut self.peers[local as usize];
        if peer.receiver.release() {
            let control = peer.control;
            self.waker.wake_room(control);
        }
    }

    /// A peer that wrote what no correct peer writes is as good as dead.
    #[cold]
    fn cut_off(&mut self, local: u32) -> Option<Event> {
        let peer = &mut self.peers[local as usize];
        peer.is_cut_off = true;
        if std::mem::replace(&mut peer.is_gone, true) {
            return None;
        }
        Some(Event::PeerGone(peer.process))
    }

    fn poll_others(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.senders.news() != self.news_seen
            && let Some(event) = self.learn_news()
        {
            return Some(event);
        }
        self.peers[self.expected as usize].sender.prefetch_rest();
        let n = self.active.len() as u32;
        for _ in 0..n.min(SCAN_COUNT) {
            let place = self.scan_next;
            self.scan_next = if place + 1 >= n { 0 } else { place + 1 };
            if let Some(event) = self.poll_peer(self.active[place as usize]) {
                return Some(event);
            }
        }
        None
    }

    /// Whether a new sender writes to this rank whose ring is not polled yet.
    pub(super) fn has_new_senders(&self) -> bool {
        self.senders.count() != self.active_count
    }

    #[cold]
    pub(super) fn learn_senders(&mut self) {
        self.active_count = self.senders.count();
        self.active = self.senders.list(self.peers.len() as u32);
        // Its place may have shifted by those before it.
        self.scan_next = 0;
    }

    /// Whether polls would find something, or room has come where there was none. What a peer has sent before
    /// its end is still to be read, and nothing is sent to it any more.
    fn has_news(&self) -> bool {
        let is_ready = |local: &u32| {
            let peer = &self.peers[*local as usize];
            !peer.is_cut_off && peer.receiver.is_ready()
        };
        !self.events.is_empty()
            || self.has_awaited_ended()
            || self.active.iter().any(is_ready)
            || self.peers.iter().any(|peer| peer.is_starved && !peer.is_gone && peer.sender.has_news())
    }

    /// Reports peers whose process has ended without goodbye.
    fn watch_peers(&mut self) {
        let me = self.local_rank;
        for (local, peer) in self.peers.iter_mut().enumerate() {
            let pid = peer.control.pid.load(Ordering::Relaxed);
            if local as u32 == me || peer.is_gone || pid == 0 || peer.watch.is_some() {
                continue;
            }
            match sys::process_descriptor(pid as i32) {
                Ok(fd) => peer.watch = Some(fd),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    report_gone(peer, &mut self.events);
                }
                // No descriptors left, or no such call here: the launcher must report it.
                Err(_) => {}
            }
        }
        let watched: Vec<usize> = (0..self.peers.len()).filter(|&i| self.peers[i].watch.is_some()).collect();
        let fds: Vec<_> = watched
            .iter()
            .filter_map(|&i| self.peers[i].watch.as_ref())
            .map(std::os::fd::AsFd::as_fd)
            .collect();
        for (index, has_ended) in watched.iter().zip(sys::readable(&fds)) {
            if has_ended {
                report_gone(&mut self.peers[*index], &mut self.events);
            }
        }
    }

    /// Where `len` bytes of a peer's registered memory begin, if they may be copied by the kernel.
    fn address_at(&self, local: u32, remote: RemoteRegion, len: usize) -> Option<u64> {
        let may_copy = self.peers[local as usize].kernel_copy;
        address_in(remote, len).filter(|_| may_copy)
    }

    /// Has the kernel copy between `buffer` and a peer's memory. Whether it did.
    pub(super) fn copy_by_kernel(
        &mut self,
        direction: Direction,
        local: u32,
        buffer: &Buffer,
        address: u64,
    ) -> bool {
        let peer = &mut self.peers[local as usize];
        let pid = peer.control.pid.load(Ordering::Relaxed);
        if pid == 0 {
            return false;
        }
        let copied = process_memory(direction, pid, buffer, address);
        // EFAULT concerns this memory (a device's, for example); other errors concern this peer.
        if copied.as_ref().is_err_and(|error| error.raw_os_error() != Some(libc::EFAULT)) {
            peer.kernel_copy = false;
        }
        copied.is_ok()
    }
}

/// How often to look for the next piece of a packet, some 50 µs in all: a writer that takes longer is not
/// running.
const FETCH_SPINS_MAX: u32 = 1_000;
/// How long a rank sleeps whose bell cannot be rung.
const DEAF_SLEEP_MAX: Duration = Duration::from_millis(1);

/// Where `len` bytes of a registration lie in the peer's memory. `None`: not inside of it. The peer says
/// address and length, so neither is believed to make sense.
fn address_in(remote: RemoteRegion, len: usize) -> Option<u64> {
    let [address, registered_bytes] = remote.key.words;
    let end = remote.offset.checked_add(len as u64)?;
    address.checked_add(registered_bytes)?;
    (end <= registered_bytes).then_some(address + remote.offset)
}

/// The least of the processes, and the local rank of each by its distance from that.
fn local_ranks_of(processes: &[ProcessId]) -> (u32, Vec<u32>) {
    let first_process = processes.iter().map(|p| p.0).min().unwrap_or(0);
    let last_process = processes.iter().map(|p| p.0).max().unwrap_or(0);
    let mut local_ranks = vec![NOBODY; (last_process - first_process) as usize + 1];
    for (local, process) in processes.iter().enumerate() {
        local_ranks[(process.0 - first_process) as usize] = local as u32;
    }
    (first_process, local_ranks)
}

/// The device's clock so long after its start.
fn clock_at(passed: Duration) -> Instant {
    Instant(passed.as_secs() * 1_000_000_000_000 + u64::from(passed.subsec_nanos()) * 1_000)
}

/// How a copy by the kernel was answered.
pub(super) fn submitted(is_sound: bool) -> Submitted {
    if is_sound { Submitted::Done } else { Submitted::Refused }
}

fn report_gone(peer: &mut Peer, events: &mut VecDeque<Event>) {
    peer.watch = None;
    let said_goodbye = peer.control.state.load(Ordering::Acquire) == STATE_DETACHED;
    if !std::mem::replace(&mut peer.is_gone, true) && !said_goodbye {
        events.push_back(Event::PeerGone(peer.process));
    }
}

impl Device for Shm {
    #[inline]
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    #[inline]
    fn rails_to(&self, peer: ProcessId) -> RailSet {
        if self.local_rank_of(peer).is_some() { RailSet::one(RAIL) } else { RailSet::default() }
    }

    #[inline]
    fn send(&mut self, _: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let peer = self.peer_mut(to);
        let pieces = payload.map(|piece| match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Virtual(_) => panic!("virtual payload on a real device"),
        });
        let sent = peer.sender.push(header, pieces, &mut peer.receiver);
        peer.is_starved = sent.is_err();
        let control = peer.control;
        if sent.is_ok() {
            self.waker.wake_arrival(control);
        }
        sent
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Event> {
        if self.is_armed {
            self.is_armed = false;
            self.sleeper.disarm();
        }
        if let Some(event) = self.poll_peer(self.expected) {
            return Some(event);
        }
        self.poll_others()
    }

    #[inline(always)]
    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        let (header, payload) = self.peers[incoming.slot as usize].receiver.front();
        Packet { header, payload: Piece::Bytes(payload) }
    }

    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        let Peer { sender, receiver, .. } = &self.peers[incoming.slot as usize];
        let manner = sender.manner_out(receiver.bytes_in_lines());
        let (mut done, mut idle) = (0, 0);
        while done < into.len() {
            let piece = receiver.written(done);
            if piece.is_empty() {
                idle += 1;
                if idle > FETCH_SPINS_MAX {
                    return Fetched::Part;
                }
                std::hint::spin_loop();
                continue;
            }
            sys::copy_out(piece, &into.part(done, piece.len()), manner);
            done += piece.len();
            idle = 0;
        }
        self.release_front(incoming.slot);
        Fetched::Whole
    }

    #[inline(always)]
    fn release(&mut self, incoming: Incoming) {
        self.release_front(incoming.slot);
    }

    #[inline]
    fn expect(&mut self, from: Option<ProcessId>) {
        if let Some(local) = from.and_then(|process| self.local_rank_of(process)) {
            self.expected = local;
        }
    }

    fn time(&self) -> Option<Instant> {
        Some(clock_at(self.began.elapsed()))
    }

    fn is_waiting(&self, peer: ProcessId) -> bool {
        let local = self.local_rank_of(peer);
        local.is_some_and(|local| {
            let call = self.peers[local as usize].control.words.call();
            self.waiting_calls.contains(call)
        })
    }

    fn is_near(&self, peer: ProcessId) -> Option<bool> {
        let local = self.local_rank_of(peer);
        local.map_or(Some(false), |local| self.peers[local as usize].sender.is_near())
    }

    fn register(&mut self, _: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let at = buffer.as_ptr()?;
        Some(RemoteKey { words: [at as usize as u64, buffer.len() as u64] })
    }

    fn put(
        &mut self,
        _: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        _: Token,
    ) -> Result<Submitted, Full> {
        let peer = self.local_rank_of(to).expect(OF_THIS_HOST);
        let address = self.address_at(peer, remote, local.len());
        let is_copied =
            address.is_some_and(|address| self.copy_by_kernel(Direction::Write, peer, &local, address));
        Ok(submitted(is_copied))
    }

    fn get(
        &mut self,
        _: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let peer = self.local_rank_of(from).expect(OF_THIS_HOST);
        let Some(address) = self.address_at(peer, remote, local.len()) else { return Ok(Submitted::Refused) };
        if let Some(submitted) = self.get_together(peer, &local, address, token) {
            return Ok(submitted);
        }
        Ok(submitted(self.copy_by_kernel(Direction::Read, peer, &local, address)))
    }

    fn arm(&mut self) -> Armed {
        self.fall_asleep(sleep::Place::Here)
    }
}

#[cfg(test)]
pub(crate) mod tests;
