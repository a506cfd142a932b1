//! Processes with several CPUs, and messages by a NIC of their own: what GOAL schedules name.
//!
//! Owns: the clock of each CPU of such a process, which CPU an arrival occupies, and which NIC the packets of
//! a message may take. A process runs on one CPU at a time, which its `clock_ps` is the clock of; the clocks
//! of the others are kept here. Only CPUs whose clock is not ahead of the network's are run on.
//!
//! What arrives occupies the CPU of the operation that it belongs to, and waits while that is busy: with it
//! what the same process sent after it over the same rail, for a rail keeps order. An operation is found by
//! its request, or by the envelope, as the library matches it. What belongs to none (acknowledgements,
//! credit, unexpected messages, parts of packets through sockets) is taken in by the CPU that is free first.
//!
//! A message by one NIC is refused by all others as if they were full, so the library gives it to that one.
//!
//! Deliberately absent: how many CPUs there are, and what is done on which; that is the schedule's business
//! ([`crate::goal`]).

use std::collections::{BTreeMap, VecDeque};

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::device::RemoteKey;
use ayatori_core::ids::{CommId, RequestId, Source, Tag, TagSelector};
use ayatori_core::request::SendMode;
use ayatori_core::wire::trunk::{self, Body, TrunkHeader};
use ayatori_core::wire::{self, Envelope, Header, Keys};

use super::fabric::{Arrived, Cargo, Fabric, MEMORY_RAIL, Registration};
use super::mpi::{Mpi, Request};
use crate::trace::Operation;

/// What is known of a request under way.
#[derive(Debug, Clone, Copy)]
struct Owner {
    cpu: usize,
    /// The NIC that all its packets take.
    nic: Option<u8>,
    /// Of a send: the receiver, and its request.
    receiver: Option<(u32, u64)>,
}

/// A receive that has matched nothing yet.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    from: Source,
    tag: TagSelector,
    cpu: usize,
    request: u64,
}

/// A send whose first packet has not left yet.
#[derive(Debug, Clone, Copy)]
struct Unsent {
    to: u32,
    tag: Tag,
    nic: Option<u8>,
}

/// A process' CPUs and requests.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    /// Until when each is busy. What stands for the current one is out of date.
    free_ps: Vec<u64>,
    current: usize,
    /// When each was last done with something of the library.
    library_ps: Vec<u64>,
    requests: BTreeMap<u64, Owner>,
    /// Requests of receivers, and ours that they belong to.
    of_receivers: BTreeMap<(u32, u64), u64>,
    waiting: Vec<Waiting>,
    /// The send that is being called for.
    calling: Option<Unsent>,
    unsent: VecDeque<Unsent>,
}

/// What a packet is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// A message, to be matched.
    Message(Envelope),
    /// The sender's request is matched with the receiver's.
    Match {
        sender: u64,
        receiver: u64,
        keys: Keys,
    },
    /// A request of the process that the packet goes to.
    Request(u64),
    Other,
}

impl About {
    pub(super) fn of(header: &[u8]) -> About {
        let of_stream = match trunk::parse(header) {
            Ok((TrunkHeader { body: Body::Stream, .. }, length)) => &header[length..],
            Ok((
                TrunkHeader { body: Body::Fragment { receiver, .. } | Body::Placed { receiver, .. }, .. },
                _,
            )) => return About::Request(receiver.to_bits()),
            Ok(_) => return About::Other,
            Err(_) => header,
        };
        match wire::parse(of_stream).map(|(_, header, _)| header) {
            Ok(Header::Eager(envelope) | Header::EagerSync(envelope, _) | Header::Rts { envelope, .. }) => {
                About::Message(envelope)
            }
            Ok(Header::Cts { sender, receiver, keys, .. }) => {
                About::Match { sender: sender.to_bits(), receiver: receiver.to_bits(), keys }
            }
            Ok(Header::Data { receiver: request, .. } | Header::Fin(request) | Header::Matched(request)) => {
                About::Request(request.to_bits())
            }
            _ => About::Other,
        }
    }
}

fn takes(waiting: &Waiting, envelope: &Envelope) -> bool {
    let from = match waiting.from {
        Source::Rank(rank) => rank == envelope.source,
        _ => true,
    };
    let tag = match waiting.tag {
        TagSelector::Tag(tag) => tag == envelope.tag,
        TagSelector::Any => true,
    };
    from && tag
}

impl Cpus {
    /// The send that an envelope announces: the one being called for, or the first of its kind that waits.
    fn sending(&self, to: u32, tag: Tag) -> Option<&Unsent> {
        let is_it = |unsent: &&Unsent| (unsent.to, unsent.tag) == (to, tag);
        self.calling.as_ref().filter(is_it).or_else(|| self.unsent.iter().find(is_it))
    }
}

impl Fabric {
    fn cpus(&mut self, rank: u32) -> Option<&mut Cpus> {
        self.cpus.get_mut(rank as usize)?.as_deref_mut()
    }

    pub(super) fn has_cpus(&self, rank: u32) -> bool {
        self.cpus.get(rank as usize).is_some_and(Option::is_some)
    }

    fn begin_cpus(&mut self, rank: u32, count: usize) {
        let free_ps = vec![self.clock_ps(rank); count.max(1)];
        let library_ps = vec![0; free_ps.len()];
        let state = &mut self.states[rank as usize];
        state.core_count = state.core_count.max(free_ps.len() as u32);
        self.cpus.resize_with(self.states.len(), || None);
        self.cpus[rank as usize] = Some(Box::new(Cpus { free_ps, library_ps, ..Cpus::default() }));
    }

    /// The process is one again whose clock is the latest of its CPUs'.
    fn end_cpus(&mut self, rank: u32) {
        let Some(cpus) = self.cpus.get_mut(rank as usize).and_then(Option::take) else { return };
        let state = &mut self.states[rank as usize];
        state.clock_ps = cpus.free_ps.into_iter().fold(state.clock_ps, u64::max);
        state.goes_on = false;
        if !state.inbox.is_empty() {
            self.notify(rank);
        }
    }

    fn free_ps(&self, rank: u32, cpu: usize) -> u64 {
        let clock_ps = self.states[rank as usize].clock_ps;
        match self.cpus.get(rank as usize).and_then(Option::as_ref) {
            Some(cpus) if cpus.current != cpu => cpus.free_ps[cpu],
            _ => clock_ps,
        }
    }

    fn is_free(&self, rank: u32, cpu: usize) -> bool {
        self.free_ps(rank, cpu) <= self.network.now_ps()
    }

    /// The CPU that is free first.
    fn idlest(&self, rank: u32) -> usize {
        let count = self.cpus[rank as usize].as_ref().map_or(1, |cpus| cpus.free_ps.len());
        (0..count).min_by_key(|&cpu| self.free_ps(rank, cpu)).unwrap_or(0)
    }

    fn run_on(&mut self, rank: u32, cpu: usize) {
        let clock_ps = self.free_ps(rank, cpu);
        let before_ps = std::mem::replace(&mut self.states[rank as usize].clock_ps, clock_ps);
        if let Some(cpus) = self.cpus(rank) {
            let current = std::mem::replace(&mut cpus.current, cpu);
            if current != cpu {
                cpus.free_ps[current] = before_ps;
            }
        }
    }

    /// A process begins to look at what there is.
    pub(super) fn begin_step(&mut self, rank: u32) {
        if self.has_cpus(rank) {
            let idlest = self.idlest(rank);
            self.run_on(rank, idlest);
        }
    }

    /// What the library takes for the time while a process runs: where it has several clocks, the network's,
    /// which does not go back.
    pub(super) fn library_clock_ps(&self, rank: u32) -> u64 {
        if self.has_cpus(rank) { self.network.now_ps() } else { self.clock_ps(rank) }
    }

    /// The current CPU is done with something of the library.
    pub(super) fn on_library(&mut self, rank: u32, end_ps: u64) {
        if let Some(cpus) = self.cpus(rank) {
            cpus.library_ps[cpus.current] = end_ps;
        }
    }

    /// The CPU of the current call.
    pub(super) fn current_cpu(&self, rank: u32) -> usize {
        self.cpus.get(rank as usize).and_then(Option::as_ref).map_or(0, |cpus| cpus.current)
    }

    /// A process with CPUs is to be run at a time.
    pub(super) fn call_at(&mut self, rank: u32, time_ps: u64) {
        let time_ps = time_ps.max(self.network.now_ps());
        let state = &mut self.states[rank as usize];
        if state.due_ps.is_none_or(|due_ps| time_ps < due_ps) {
            state.due_ps = Some(time_ps);
            self.set_due_timer(rank, time_ps);
        }
    }

    /// The time has come for which a process with CPUs wanted to be called, if it still does.
    pub(super) fn on_call(&mut self, rank: u32) {
        let now_ps = self.network.now_ps();
        let state = &mut self.states[rank as usize];
        if state.due_ps == Some(now_ps) {
            state.due_ps = None;
            self.make_runnable(rank);
        }
    }

    /// A process with CPUs is to be run as soon as one is free.
    pub(super) fn call_when_free(&mut self, rank: u32, time_ps: u64) {
        let free_ps = self.free_ps(rank, self.idlest(rank));
        self.call_at(rank, free_ps.max(time_ps));
    }

    /// Something is in the inbox of a process with CPUs. Gives the CPU that will take it in.
    pub(super) fn cpu_for(&self, rank: u32, arrived: &Arrived) -> usize {
        self.owner(rank, arrived).unwrap_or_else(|| self.idlest(rank))
    }

    /// The last of the inbox has just arrived: a CPU that sleeps wakes, which takes so long in the library
    /// and in the kernel.
    pub(super) fn wake_cpu(&mut self, rank: u32, [poll_ps, wake_ps]: [u64; 2]) {
        let Some(arrived) = self.states[rank as usize].inbox.back() else { return };
        let cpu = self.cpu_for(rank, arrived);
        if self.is_free(rank, cpu) {
            self.run_on(rank, cpu);
            self.spend(rank, poll_ps);
            self.spend_in_kernel(rank, wake_ps);
        }
        let free_ps = self.free_ps(rank, cpu);
        self.call_at(rank, free_ps);
    }

    /// The first thing in the inbox whose CPU is free, and runs the process on that.
    pub(super) fn take_for_cpu(&mut self, rank: u32) -> Option<Arrived> {
        let place = self.scan_inbox(rank, |fabric, cpu| fabric.is_free(rank, cpu))?;
        let arrived = self.states[rank as usize].inbox.get(place)?;
        let cpu = self.cpu_for(rank, arrived);
        self.run_on(rank, cpu);
        let arrived = self.states[rank as usize].inbox.remove(place)?;
        self.note_taken(rank, &arrived);
        Some(arrived)
    }

    /// A process with CPUs is called when the first of those is free that something in its inbox waits for.
    pub(super) fn call_for_inbox(&mut self, rank: u32) {
        let mut first_ps = None;
        self.scan_inbox(rank, |fabric, cpu| {
            let free_ps = fabric.free_ps(rank, cpu);
            first_ps = Some(first_ps.map_or(free_ps, |first_ps: u64| first_ps.min(free_ps)));
            false
        });
        if let Some(time_ps) = first_ps {
            self.call_at(rank, time_ps);
        }
    }

    /// Goes through what may be taken from the inbox, with nothing of the same rail from the same process
    /// before it, until `is_it` says so of its CPU.
    fn scan_inbox(&self, rank: u32, mut is_it: impl FnMut(&Fabric, usize) -> bool) -> Option<usize> {
        let mut held: Vec<(u32, u8)> = Vec::new();
        for (place, arrived) in self.states[rank as usize].inbox.iter().enumerate() {
            let way = match *arrived {
                Arrived::Packet(handle) => Some((self.flights[handle].from, self.flights[handle].rail)),
                Arrived::RailDown(rail, peer) | Arrived::RailUp(rail, peer) => Some((peer, rail)),
                Arrived::Completion(..) => None,
            };
            if way.is_some_and(|way| held.contains(&way)) {
                continue;
            }
            if is_it(self, self.cpu_for(rank, arrived)) {
                return Some(place);
            }
            held.extend(way);
        }
        None
    }

    /// The CPU of the operation that something belongs to.
    fn owner(&self, rank: u32, arrived: &Arrived) -> Option<usize> {
        let cpus = self.cpus.get(rank as usize)?.as_ref()?;
        let handle = match *arrived {
            Arrived::Completion(_, _, cpu) => return Some(cpu).filter(|&cpu| cpu < cpus.free_ps.len()),
            Arrived::Packet(handle) => handle,
            Arrived::RailDown(..) | Arrived::RailUp(..) => return None,
        };
        let request = match self.about(handle) {
            About::Message(envelope) => {
                return cpus.waiting.iter().find(|waiting| takes(waiting, &envelope)).map(|found| found.cpu);
            }
            About::Match { sender, .. } => sender,
            About::Request(request) => request,
            About::Other => return None,
        };
        cpus.requests.get(&request).map(|owner| owner.cpu)
    }

    fn about(&self, handle: u32) -> About {
        match &self.flights[handle].cargo {
            Cargo::Packet { bytes, header_bytes, .. } => About::of(&bytes[..*header_bytes]),
            _ => About::Other,
        }
    }

    /// Something is about to be handled.
    fn note_taken(&mut self, rank: u32, arrived: &Arrived) {
        let Arrived::Packet(handle) = *arrived else { return };
        let (about, from) = (self.about(handle), self.flights[handle].from);
        let Some(cpus) = self.cpus(rank) else { return };
        match about {
            About::Message(envelope) => {
                let found = cpus.waiting.iter().position(|waiting| takes(waiting, &envelope));
                if let Some(found) = found {
                    cpus.waiting.remove(found);
                }
            }
            About::Match { sender, receiver, keys } => {
                let Some(owner) = cpus.requests.get_mut(&sender) else { return };
                owner.receiver = Some((from, receiver));
                let nic = owner.nic;
                cpus.of_receivers.insert((from, receiver), sender);
                if nic.is_some() {
                    keys.iter().for_each(|(_, key)| self.set_nic_of(key, nic));
                }
            }
            About::Request(_) | About::Other => {}
        }
    }

    /// Whether a packet belongs to a message that takes another NIC than that of this rail.
    pub(super) fn refuses_packet(&self, me: u32, to: u32, rail: u8, header: &[u8]) -> bool {
        if rail == MEMORY_RAIL || !self.has_cpus(me) {
            return false;
        }
        self.nic_for_packet(me, to, header).is_some_and(|nic| u16::from(nic) + 1 != u16::from(rail))
    }

    fn nic_for_packet(&self, me: u32, to: u32, header: &[u8]) -> Option<u8> {
        let of = |rank: u32| self.cpus.get(rank as usize)?.as_ref();
        let nic_of = |rank: u32, request: u64| of(rank)?.requests.get(&request)?.nic;
        match About::of(header) {
            About::Message(envelope) => of(me)?.sending(to, envelope.tag)?.nic,
            About::Match { sender, .. } => nic_of(to, sender),
            About::Request(request) => match of(me)?.of_receivers.get(&(to, request)) {
                Some(&own) => nic_of(me, own),
                None => nic_of(to, request),
            },
            About::Other => None,
        }
    }

    /// A rail has taken a packet.
    pub(super) fn note_sent(&mut self, me: u32, to: u32, header: &[u8]) {
        let Some(cpus) = self.cpus(me) else { return };
        let About::Message(envelope) = About::of(header) else { return };
        let is_it = |unsent: &Unsent| (unsent.to, unsent.tag) == (to, envelope.tag);
        if cpus.calling.as_ref().is_some_and(is_it) {
            cpus.calling = None;
        } else if let Some(found) = cpus.unsent.iter().position(is_it) {
            cpus.unsent.remove(found);
        }
    }

    /// Whether the send being called for takes another NIC than that of this rail, to be read by.
    pub(super) fn refuses_to_register(&self, me: u32, rail: u8) -> bool {
        let cpus = self.cpus.get(me as usize).and_then(Option::as_ref);
        let nic = cpus.and_then(|cpus| cpus.calling).and_then(|unsent| unsent.nic);
        rail != MEMORY_RAIL && nic.is_some_and(|nic| u16::from(nic) + 1 != u16::from(rail))
    }

    /// Memory is to be written by one NIC only.
    fn set_nic_of(&mut self, key: RemoteKey, nic: Option<u8>) {
        if self.registration(key).is_some()
            && let Some(registration) = &mut self.registered[key.words[0] as u32]
        {
            registration.nic = nic;
        }
    }

    fn registration(&self, key: RemoteKey) -> Option<&Registration> {
        let [handle, serial] = key.words;
        let registration = self.registered.get(u32::try_from(handle).ok()?)?.as_ref()?;
        (registration.serial == serial).then_some(registration)
    }

    /// Whether memory is written by another NIC than that of this rail.
    pub(super) fn refuses_to_put(&self, rail: u8, key: RemoteKey) -> bool {
        let nic = self.registration(key).and_then(|registration| registration.nic);
        rail != MEMORY_RAIL && nic.is_some_and(|nic| u16::from(nic) + 1 != u16::from(rail))
    }
}

/// What GOAL schedules call beside MPI.
impl Mpi {
    /// From now on this rank has so many CPUs; it begins on the first.
    pub(crate) fn begin_cpus(&self, count: usize) {
        self.with_world(|world| world.fabric.begin_cpus(self.rank(), count));
    }

    /// It is a process with one clock again.
    pub(crate) fn end_cpus(&self) {
        self.with_world(|world| world.fabric.end_cpus(self.rank()));
    }

    /// Ranks and cores of a host, where these are known.
    pub(crate) fn host_layout(&self) -> (u32, Option<u32>) {
        self.with_fabric(|fabric| {
            (fabric.config.processes_per_host.max(1), fabric.config.schedule_core_count)
        })
    }

    /// How many NICs messages between hosts can take.
    pub(crate) fn nic_count(&self) -> usize {
        self.with_fabric(|fabric| fabric.rails.len() - 1)
    }

    /// The simulation's time: until then all CPUs have been run.
    pub(crate) fn network_now_ps(&self) -> u64 {
        self.with_fabric(|fabric| fabric.network.now_ps())
    }

    /// Until when a CPU is busy.
    pub(crate) fn cpu_free_ps(&self, cpu: usize) -> u64 {
        self.with_fabric(|fabric| fabric.free_ps(self.rank(), cpu))
    }

    /// When the library has done on a CPU what has been found to be done.
    pub(crate) fn cpu_done_ps(&self, cpu: usize) -> u64 {
        let done = |fabric: &Fabric| {
            let cpus = fabric.cpus[self.rank() as usize].as_ref();
            cpus.map_or(0, |cpus| cpus.library_ps[cpu]).max(fabric.network.now_ps())
        };
        self.with_fabric(done)
    }

    /// The next calls are made on this CPU, which must be free.
    pub(crate) fn run_on(&self, cpu: usize) {
        self.with_world(|world| world.fabric.run_on(self.rank(), cpu));
    }

    /// This rank's task is to be polled at a time, and keeps its core until then.
    pub(crate) fn goes_on_at(&self, time_ps: u64) {
        self.with_world(|world| {
            world.fabric.states[self.rank() as usize].goes_on = true;
            world.fabric.call_at(self.rank(), time_ps);
        });
    }

    /// This rank's task waits for messages.
    pub(crate) fn waits(&self) {
        self.with_world(|world| world.fabric.states[self.rank() as usize].goes_on = false);
    }

    /// As [`Mpi::isend`], all packets by one NIC if one is named.
    pub(crate) fn isend_by(&self, nic: Option<u8>, to: u32, tag: Tag, bytes: u64) -> Result<Request, Error> {
        let buffer = Buffer::virtual_of(bytes as usize);
        let is_remote = self.with_fabric(|fabric| fabric.host_of(to) != fabric.host_of(self.rank()));
        let nic = nic.filter(|_| is_remote);
        self.with_cpus(|cpus| cpus.calling = Some(Unsent { to, tag, nic }));
        let request =
            self.call(|process, nic| process.isend(nic, CommId::WORLD, buffer, to, tag, SendMode::Standard));
        self.with_cpus(|cpus| {
            let unsent = cpus.calling.take().filter(|_| matches!(&request, Ok(call) if call.id().is_some()));
            cpus.unsent.extend(unsent);
        });
        let request = request?;
        self.note_request(&request, nic);
        Ok(self.traced(request, Operation::Send { to, tag, bytes }))
    }

    /// As [`Mpi::irecv_any`], for the current CPU.
    pub(crate) fn irecv_here(&self, from: Source, tag: TagSelector, bytes: u64) -> Result<Request, Error> {
        let posted_count = || self.with_world(|world| world.processes[self.rank() as usize].counts().posted);
        let before = posted_count();
        let request = self.irecv_any(from, tag, bytes)?;
        if posted_count() > before {
            let request = request.id().map_or(0, RequestId::to_bits);
            self.with_cpus(|cpus| cpus.waiting.push(Waiting { from, tag, cpu: cpus.current, request }));
        }
        self.note_request(&request, None);
        Ok(request)
    }

    /// A request has ended.
    pub(crate) fn forget_request(&self, request: Option<RequestId>) {
        let Some(request) = request else { return };
        self.with_cpus(|cpus| {
            // Its message came from this process itself.
            cpus.waiting.retain(|waiting| waiting.request != request.to_bits());
            let receiver = cpus.requests.remove(&request.to_bits()).and_then(|owner| owner.receiver);
            if let Some(receiver) = receiver {
                cpus.of_receivers.remove(&receiver);
            }
        });
    }

    fn note_request(&self, request: &Request, nic: Option<u8>) {
        if let Some(id) = request.id() {
            self.with_cpus(|cpus| {
                let owner = Owner { cpu: cpus.current, nic, receiver: None };
                cpus.requests.insert(id.to_bits(), owner);
            });
        }
    }

    fn with_cpus(&self, change: impl FnOnce(&mut Cpus)) {
        self.with_world(|world| {
            if let Some(cpus) = world.fabric.cpus(self.rank()) {
                change(cpus);
            }
        });
    }
}
