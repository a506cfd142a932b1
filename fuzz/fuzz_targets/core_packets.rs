//! A process whose peers send whatever they like, on rails that come and go: it may cut a peer off, and
//! nothing else.
#![no_main]

use ayatori_core::buffer::{Buffer, Payload, Piece};
use ayatori_core::device::{
    Armed, Device, Event, Fetched, Full, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token,
};
use ayatori_core::ids::{CommId, ProcessId, Rail, RailSet, Source, TagSelector};
use ayatori_core::process::{Config, Process};
use ayatori_core::request::{Posted, SendMode};
use ayatori_core::time::Instant;
use std::collections::VecDeque;

struct Wild {
    rails: Vec<RailCapabilities>,
    events: VecDeque<Event>,
    packet: Vec<u8>,
    header_bytes: usize,
    is_full: bool,
}

macro_rules! done_at_once {
    ($access:ident) => {
        fn $access(
            &mut self,
            _: Rail,
            _: ProcessId,
            _: Buffer,
            _: RemoteRegion,
            _: Token,
        ) -> Result<Submitted, Full> {
            Ok(Submitted::Done)
        }
    };
}

impl Device for Wild {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }
    fn rails_to(&self, _: ProcessId) -> RailSet {
        RailSet((1 << self.rails.len()) - 1)
    }
    fn send(&mut self, _: Rail, _: ProcessId, _: &[u8], _: Payload<'_>) -> Result<(), Full> {
        if self.is_full { Err(Full) } else { Ok(()) }
    }
    fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let (header, payload) = self.packet.split_at(self.header_bytes);
        Packet { header, payload: Piece::Bytes(payload) }
    }
    fn release(&mut self, _: Incoming) {}
    fn fetch(&mut self, _: &Incoming, into: Buffer) -> Fetched {
        match into.len() % 3 {
            0 => Fetched::Whole,
            1 => Fetched::Part,
            _ => Fetched::Lost,
        }
    }
    fn register(&mut self, _: Rail, _: Buffer) -> Option<RemoteKey> {
        Some(RemoteKey::default())
    }
    done_at_once!(put);
    done_at_once!(get);
    fn arm(&mut self) -> Armed {
        Armed::Armed
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&kind, mut rest)) = data.split_first() else { return };
    let (is_trunk, can_put) = (kind & 1 != 0, kind & 2 != 0);
    let rail = RailCapabilities {
        packet_bytes_max: 4096,
        eager_bytes_max: 1024,
        put: can_put,
        get: can_put,
        may_break: is_trunk,
        ..RailCapabilities::default()
    };
    let rails = vec![rail; if is_trunk { 2 } else { 1 }];
    let mut device =
        Wild { rails, events: VecDeque::new(), packet: Vec::new(), header_bytes: 0, is_full: false };
    let mut process = Process::new(ProcessId(0), 3, Config::default());
    let (mut requests, mut now) = (Vec::new(), 1u64);
    while let [what, a, b, behind @ ..] = rest {
        rest = behind;
        let (a, b) = (usize::from(*a), usize::from(*b));
        let rail = Rail((a % device.rails.len()) as u8);
        let from = 1 + (a as u32 >> 4 & 1);
        let length = a << 5 | b;
        let buffer = || MEMORY.with(|memory| memory[requests.len()].part(0, length));
        let mut posted = None;
        match what % 10 {
            0..=2 => {
                let count = b.min(rest.len());
                let (packet, behind) = rest.split_at(count);
                rest = behind;
                device.packet = packet.to_vec();
                device.header_bytes = packet.len().min(if a & 4 == 0 { packet.len() } else { 40 });
                let incoming = Incoming { rail, from: ProcessId(from), slot: 0 };
                let event =
                    if what % 10 == 2 { Event::Front(incoming, length) } else { Event::Packet(incoming) };
                device.events.push_back(event);
            }
            3 if requests.len() < REQUESTS_MAX => {
                let source = if a & 1 == 0 { Source::Rank(from) } else { Source::Any };
                let tag = if a & 2 == 0 { TagSelector::Tag(b as i32) } else { TagSelector::Any };
                posted = process.irecv(&mut device, CommId::WORLD, buffer(), source, tag).ok();
            }
            4 if requests.len() < REQUESTS_MAX => {
                let mode = if a & 1 == 0 { SendMode::Standard } else { SendMode::Synchronous };
                posted = process.isend(&mut device, CommId::WORLD, buffer(), from, b as i32, mode).ok();
            }
            5 => device.events.push_back(Event::RailDown(rail, ProcessId(from))),
            6 => device.events.push_back(Event::RailUp(rail, ProcessId(from))),
            7 => device.is_full = a & 1 == 0,
            8 => {
                if let Some(&id) = requests.get(a % REQUESTS_MAX) {
                    let _ = process.cancel(&mut device, id);
                }
            }
            _ => now += (length as u64) << (b % 30),
        }
        if let Some(Posted::Pending(id)) = posted {
            requests.push(id);
        }
        process.handle_timeout(Instant(now));
        process.progress(&mut device);
    }
});

const REQUESTS_MAX: usize = 32;

thread_local! {
    /// Kept for all runs: it is never freed.
    static MEMORY: &'static [Buffer] =
        Vec::leak((0..REQUESTS_MAX).map(|_| Buffer::leaked(256 << 5 | 255)).collect());
}
