//! Drives the devices of a world for a check: sends, polls, and remembers what came.

use super::{Outcome, Stop, World};
use crate::buffer::{Buffer, Piece};
use crate::device::{
    Armed, Device, Event, Fetched, Full, Incoming, RailBroken, RailCapabilities, RemoteKey, Submitted, Token,
};
use crate::ids::{ProcessId, Rail, RailSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Polls of a device in a row: some look in one place at a time.
const POLLS_COUNT: usize = 16;
/// Rounds without an event before a world in which nothing is under way counts as quiet.
const IDLE_ROUNDS: usize = 4;
/// Rounds in which something that must not come is waited for.
pub(super) const SETTLE_ROUNDS: usize = 100;
/// Guard bytes on each side of a buffer that a device writes to.
pub(super) const GUARD_BYTES: usize = 64;
const GUARD: u8 = 0xa5;

/// Reports of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Came {
    /// A packet: header and payload as the device gave them, one behind the other.
    Packet {
        from: ProcessId,
        bytes: Vec<u8>,
        header_bytes: usize,
        memory: Option<Vec<u8>>,
    },
    /// A packet whose payload was fetched; its header, perhaps with more behind it.
    Fetched {
        from: ProcessId,
        header: Vec<u8>,
        payload: Vec<u8>,
    },
    Completion(Token, Result<(), RailBroken>),
    Down(Rail, ProcessId),
    Up(Rail, ProcessId),
    Gone(ProcessId),
}

/// How fronts are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fronts {
    Ignore,
    Fetch,
    /// Fetched once, and not again.
    LetGo,
}

/// One way to send: the places of two processes, and a rail of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) rail: Rail,
}

/// Memory with guards on both sides.
#[derive(Clone, Copy)]
pub(super) struct Guarded {
    whole: Buffer,
    len: usize,
}

impl Guarded {
    pub(super) fn new(len: usize) -> Self {
        let whole = Buffer::leaked(len + 2 * GUARD_BYTES);
        whole.scatter(0, Piece::Bytes(&alloc::vec![GUARD; len + 2 * GUARD_BYTES]));
        Self { whole, len }
    }

    /// The memory between the guards.
    pub(super) fn inner(&self) -> Buffer {
        self.whole.part(GUARD_BYTES, self.len)
    }

    #[cfg(test)]
    pub(super) fn write_beside(&self, at: usize) {
        self.whole.scatter(at, Piece::Bytes(&[0]));
    }

    pub(super) fn is_intact(&self) -> bool {
        let [before, after] = [0, GUARD_BYTES + self.len].map(|at| self.whole.part(at, GUARD_BYTES));
        [before, after].into_iter().all(|guard| bytes_of(&guard).iter().all(|&byte| byte == GUARD))
    }
}

pub(super) fn bytes_of(buffer: &Buffer) -> Vec<u8> {
    buffer.to_vec().unwrap_or_default()
}

/// Bytes that differ from place to place and from packet to packet.
pub(super) fn pattern(salt: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ salt.wrapping_mul(101)) as u8).collect()
}

/// The devices of a world, and what came to each.
pub(super) struct Rig<'w> {
    world: &'w mut dyn World,
    pub(super) ids: Vec<ProcessId>,
    pub(super) came: Vec<Vec<Came>>,
    pub(super) fronts: Fronts,
    /// Copied when a packet comes.
    pub(super) watched: Option<Buffer>,
    /// Per receiver: the payload being fetched, and its sender.
    fetching: Vec<Option<(ProcessId, Guarded)>>,
    pub(super) let_go_count: usize,
    alive: Vec<bool>,
}

impl<'w> Rig<'w> {
    pub(super) fn new(world: &'w mut dyn World) -> Self {
        let ids = world.processes();
        assert!(ids.len() >= 2, "a world of at least two processes");
        let count = ids.len();
        Self {
            world,
            ids,
            came: alloc::vec![Vec::new(); count],
            fronts: Fronts::Ignore,
            watched: None,
            fetching: alloc::vec![None; count],
            let_go_count: 0,
            alive: alloc::vec![true; count],
        }
    }

    /// Calls a device.
    pub(super) fn with<R>(&mut self, at: usize, mut f: impl FnMut(&mut dyn Device) -> R) -> R {
        let mut result = None;
        self.world.with(at, &mut |device| result = Some(f(device)));
        result.expect("World::with calls its function")
    }

    pub(super) fn rails(&mut self, at: usize) -> Vec<RailCapabilities> {
        self.with(at, |device| device.rails().to_vec())
    }

    pub(super) fn rails_to(&mut self, at: usize, peer: ProcessId) -> RailSet {
        self.with(at, |device| device.rails_to(peer))
    }

    /// Every way to send there is between different processes.
    pub(super) fn links(&mut self) -> Vec<Link> {
        let mut links = Vec::new();
        for from in 0..self.ids.len() {
            for to in (0..self.ids.len()).filter(|&to| to != from) {
                let rails = self.rails_to(from, self.ids[to]);
                links.extend(rails.iter().map(|rail| Link { from, to, rail }));
            }
        }
        links
    }

    pub(super) fn capabilities(&mut self, link: Link) -> RailCapabilities {
        self.with(link.from, |device| device.rails()[usize::from(link.rail.0)])
    }

    /// The first link whose rail fits.
    pub(super) fn link_that(&mut self, fits: impl Fn(&RailCapabilities) -> bool) -> Option<Link> {
        self.links().into_iter().find(|&link| fits(&self.capabilities(link)))
    }

    pub(super) fn send(&mut self, link: Link, header: &[u8], payload: &[u8]) -> Result<(), Full> {
        let (first, second) = payload.split_at(payload.len() / 3);
        self.send_pieces(link, header, [first, second])
    }

    pub(super) fn send_pieces(&mut self, link: Link, header: &[u8], pieces: [&[u8]; 2]) -> Result<(), Full> {
        let to = self.ids[link.to];
        self.with(link.from, |device| device.send(link.rail, to, header, pieces.map(Piece::Bytes)))
    }

    /// Offers a packet until it is taken.
    pub(super) fn offer(&mut self, link: Link, header: &[u8], payload: &[u8]) -> Result<(), Stop> {
        let is_taken = self.run_until(|rig| Ok(rig.send(link, header, payload).is_ok()))?;
        if is_taken { Ok(()) } else { Err(Stop::Broken(format!("{link:?} is Full for ever"))) }
    }

    /// Tells all devices that no long packets follow.
    pub(super) fn flush(&mut self) {
        for at in (0..self.ids.len()).filter(|&at| self.alive[at]).collect::<Vec<_>>() {
            self.with(at, |device| device.flush());
        }
    }

    pub(super) fn arm(&mut self, at: usize) -> Armed {
        self.with(at, |device| device.arm())
    }

    pub(super) fn sleep(&mut self, at: usize) -> bool {
        self.world.sleep(at)
    }

    pub(super) fn cut(&mut self, link: Link) -> bool {
        self.world.cut(link.from, link.rail, self.ids[link.to])
    }

    pub(super) fn kill(&mut self, at: usize) -> bool {
        let is_dead = self.world.kill(at);
        self.alive[at] = !is_dead;
        is_dead
    }

    /// Polls once. Whether anything came.
    pub(super) fn look(&mut self, at: usize) -> Result<bool, String> {
        let watched = self.watched;
        let polled = self.with(at, |device| {
            Some(match device.poll()? {
                Event::Packet(incoming) => {
                    let memory = watched.as_ref().map(bytes_of);
                    let (bytes, header_bytes) = bytes_at(device, &incoming);
                    let from = incoming.from;
                    device.release(incoming);
                    Polled::Came(Came::Packet { from, bytes, header_bytes, memory })
                }
                Event::Front(incoming, payload_bytes) => {
                    let (bytes, _) = bytes_at(device, &incoming);
                    Polled::Front(incoming, bytes, payload_bytes)
                }
                Event::Completion(token, result) => Polled::Came(Came::Completion(token, result)),
                Event::RailDown(rail, peer) => Polled::Came(Came::Down(rail, peer)),
                Event::RailUp(rail, peer) => Polled::Came(Came::Up(rail, peer)),
                // That a peer has left is its end, too.
                Event::PeerGone(peer) | Event::PeerLeft(peer) => Polled::Came(Came::Gone(peer)),
            })
        });
        match polled {
            None => return Ok(false),
            Some(Polled::Came(came)) => self.came[at].push(came),
            Some(Polled::Front(incoming, header, payload_bytes)) => {
                self.on_front(at, &incoming, header, payload_bytes)?;
            }
        }
        Ok(true)
    }

    fn on_front(
        &mut self,
        at: usize,
        incoming: &Incoming,
        header: Vec<u8>,
        len: usize,
    ) -> Result<(), String> {
        let from = incoming.from;
        let begun = self.fetching[at].take();
        let place = match (self.fronts, begun) {
            (Fronts::Ignore, _) => return Ok(()),
            (Fronts::LetGo, Some(_)) => {
                self.let_go_count += 1;
                return Ok(());
            }
            (_, Some((whose, place))) if whose == from && place.len == len => place,
            (_, Some((whose, place))) => {
                let begun = place.len;
                return Err(format!(
                    "a front of {len} bytes from {from} while {begun} from {whose} are fetched"
                ));
            }
            (_, None) => Guarded::new(len),
        };
        let fetched = self.with(at, |device| device.fetch(incoming, place.inner()));
        if !place.is_intact() {
            return Err(format!("fetch of {len} bytes wrote outside of them"));
        }
        match fetched {
            Fetched::Whole => {
                let payload = bytes_of(&place.inner());
                self.came[at].push(Came::Fetched { from, header, payload });
            }
            Fetched::Part => self.fetching[at] = Some((from, place)),
            Fetched::Lost => return Err(format!("fetch says that a packet of {len} bytes is lost")),
        }
        Ok(())
    }

    /// Polls every device until it has nothing, or often enough. Whether anything came.
    fn round(&mut self) -> Result<bool, String> {
        let mut has_come = false;
        for at in 0..self.ids.len() {
            for _ in 0..if self.alive[at] { POLLS_COUNT } else { 0 } {
                has_come |= self.look(at)?;
            }
        }
        Ok(has_come)
    }

    /// Lets the world go on until `done`. `false`: it never was.
    pub(super) fn run_until(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool, String>,
    ) -> Result<bool, String> {
        let mut idle_count = 0;
        while !done(self)? {
            let has_come = self.round()?;
            idle_count = if self.world.advance() || has_come { 0 } else { idle_count + 1 };
            if idle_count > IDLE_ROUNDS {
                return done(self);
            }
        }
        Ok(true)
    }

    /// As [`run_until`](Self::run_until), without polls but those that `done` makes.
    pub(super) fn run_until_polled(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool, String>,
    ) -> Result<bool, String> {
        let mut idle_count = 0;
        while !done(self)? {
            idle_count = if self.world.advance() { 0 } else { idle_count + 1 };
            if idle_count > IDLE_ROUNDS * POLLS_COUNT {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Polls one device only: until the first event, and then until no event comes for some time.
    pub(super) fn drain(&mut self, at: usize) -> Result<(), String> {
        self.run_until_polled(|rig| rig.look(at))?;
        let mut quiet_count = 0;
        while quiet_count < SETTLE_ROUNDS {
            let has_come = self.look(at)?;
            quiet_count = if has_come { 0 } else { quiet_count + 1 };
            if !has_come {
                self.world.advance();
            }
        }
        Ok(())
    }

    /// Offers a packet until it is taken, and polls the sender only.
    pub(super) fn offer_blindly(&mut self, link: Link, header: &[u8]) -> Result<(), Stop> {
        let is_taken = self.run_until_polled(|rig| {
            let is_taken = rig.send(link, header, b"").is_ok();
            if !is_taken {
                rig.look(link.from)?;
            }
            Ok(is_taken)
        })?;
        if is_taken { Ok(()) } else { Err(Stop::Broken(format!("{link:?} is Full for ever"))) }
    }

    /// Lets the world go on for some time.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..SETTLE_ROUNDS {
            let has_come = self.round()?;
            if !self.world.advance() && !has_come {
                break;
            }
        }
        self.round().map(|_| ())
    }

    /// Lets the link's connection come up, if it needs one: a packet goes over it, and is forgotten.
    pub(super) fn bring_up(&mut self, link: Link) -> Outcome {
        self.offer(link, b"first", b"")?;
        self.flush();
        let is_up = self.run_until(|rig| {
            let from = rig.ids[link.from];
            Ok(rig.came[link.to]
                .iter()
                .any(|came| matches!(came, Came::Packet { from: f, .. } if *f == from)))
        })?;
        if !is_up {
            return Err(Stop::Broken(format!("the first packet over {link:?} does not arrive")));
        }
        self.settle()?;
        self.came.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Waits until `count` packets have arrived, fetched ones included, and takes them.
    pub(super) fn take_packets(&mut self, at: usize, count: usize) -> Result<Vec<Came>, String> {
        let is_packet = |came: &Came| matches!(came, Came::Packet { .. } | Came::Fetched { .. });
        let is_done = self.run_until(|rig| {
            rig.flush();
            Ok(rig.came[at].iter().filter(|came| is_packet(came)).count() >= count)
        })?;
        let (packets, others): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.came[at]).into_iter().partition(is_packet);
        self.came[at] = others;
        if !is_done {
            return Err(format!("{} of {count} packets arrived", packets.len()));
        }
        Ok(packets)
    }

    /// Registers memory. A device that says it has puts or gets has room for this one.
    pub(super) fn register(&mut self, at: usize, rail: Rail, buffer: Buffer) -> Result<RemoteKey, String> {
        let key = self.with(at, |device| device.register(rail, buffer));
        key.ok_or_else(|| format!("{} bytes cannot be registered", buffer.len()))
    }

    /// Offers a put or get until it is taken.
    pub(super) fn submit(
        &mut self,
        at: usize,
        mut call: impl FnMut(&mut dyn Device) -> Result<Submitted, Full>,
    ) -> Result<Submitted, String> {
        let mut submitted = None;
        self.run_until(|rig| {
            submitted = rig.with(at, &mut call).ok();
            Ok(submitted.is_some())
        })?;
        submitted.ok_or_else(|| "a put or get is Full for ever".into())
    }
}

/// Result of a poll, read while the packet was held.
enum Polled {
    Came(Came),
    Front(Incoming, Vec<u8>, usize),
}

/// The bytes of a packet, and how many of them came as its header.
pub(super) fn bytes_at(device: &dyn Device, incoming: &Incoming) -> (Vec<u8>, usize) {
    let packet = device.packet(incoming);
    let mut bytes = packet.header.to_vec();
    bytes.extend_from_slice(packet.payload.bytes().unwrap_or_default());
    (bytes, packet.header.len())
}
