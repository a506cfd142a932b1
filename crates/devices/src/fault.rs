//! A device around another that makes trouble, the same for the same seed.
//!
//! Whatever it does a real device may do: nothing here breaks the contract of [`Device`].
//!
//! | trouble | what happens                                                                             |
//! |---------|------------------------------------------------------------------------------------------|
//! | full    | [`send`](Device::send), put or get answers [`Full`] although there is room               |
//! | delay   | a packet is held back for some polls; order is kept on rails that say `ordered`,          |
//! |         | and is lost between rails and on rails that do not                                       |
//! | drop    | a packet is lost, on rails that do not say `reliable`                                    |
//! | refuse  | a put or get answers [`Submitted::Refused`]                                              |
//! | down    | a rail to a peer breaks: [`Event::RailDown`], packets on it are lost both ways, puts and |
//! |         | gets fail; after some polls [`Event::RailUp`]                                             |
//! | gone    | a peer's process dies: [`Event::PeerGone`], nothing comes from it or reaches it           |
//!
//! Rates are in events a million calls. Time is counted in polls: a device has no clock.

use ayatori_core::buffer::{Buffer, Payload, Piece};
use ayatori_core::device::{
    Armed, Device, Event, Full, Gap, Incoming, Packet, RailBroken, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How much trouble. Rates are per million calls; 0 is never.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// Of sends, puts and gets.
    pub full_per_million: u32,
    /// Of arriving packets.
    pub delay_per_million: u32,
    /// How long a packet is held back at most, in polls.
    pub delay_polls_max: u32,
    /// Of sent packets, on rails that are not reliable.
    pub drop_per_million: u32,
    /// Of puts and gets.
    pub refuse_per_million: u32,
    /// Of sends: the rail to that peer breaks before. Only rails with [`down_rails`](Self::down_rails).
    pub down_per_million: u32,
    /// How long a rail stays broken at most, in polls.
    pub down_polls_max: u32,
    /// Which rails may break.
    pub down_rails: RailSet,
}

/// Wraps a device and makes trouble. See the [module's docs](self).
pub struct Fault<D> {
    inner: D,
    faults: Faults,
    random: Random,
    polls_count: u64,
    /// Arrived packets by the time they are due; per rail and peer in order where the rail is.
    held: Vec<Held>,
    current: Option<Held>,
    /// Until which poll a rail to a peer is broken.
    down: BTreeMap<(Rail, ProcessId), u64>,
    gone: BTreeSet<ProcessId>,
    events: VecDeque<Event>,
}

struct Held {
    due: u64,
    rail: Rail,
    from: ProcessId,
    header: Vec<u8>,
    payload: Vec<u8>,
    virtual_bytes: Option<usize>,
}

/// splitmix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn hits(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.next() % 1_000_000 < u64::from(per_million)
    }

    /// 1 ..= max.
    fn up_to(&mut self, max: u32) -> u64 {
        1 + self.next() % u64::from(max.max(1))
    }
}

impl<D: Device> Fault<D> {
    /// Wraps `inner`; the same seed and the same calls give the same trouble.
    pub fn new(inner: D, faults: Faults, seed: u64) -> Self {
        Self {
            inner,
            faults,
            random: Random(seed),
            polls_count: 0,
            held: Vec::new(),
            current: None,
            down: BTreeMap::new(),
            gone: BTreeSet::new(),
            events: VecDeque::new(),
        }
    }

    /// The device inside: its own methods (waiting, say) are called there.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Changes what trouble there is from now on: none, say, to see that all heals.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Breaks a rail to a peer for so many polls.
    pub fn break_rail(&mut self, rail: Rail, peer: ProcessId, polls: u64) {
        if self.down.insert((rail, peer), self.polls_count + polls).is_none() {
            self.events.push_back(Event::RailDown(rail, peer));
        }
        self.held.retain(|held| (held.rail, held.from) != (rail, peer));
    }

    /// Lets a peer's process die, as this process sees it.
    pub fn kill(&mut self, peer: ProcessId) {
        if self.gone.insert(peer) {
            self.held.retain(|held| held.from != peer);
            self.events.push_back(Event::PeerGone(peer));
        }
    }

    fn is_cut(&self, rail: Rail, peer: ProcessId) -> bool {
        self.gone.contains(&peer) || self.down.contains_key(&(rail, peer))
    }

    /// Takes everything the inner device has, as its packets must be released before the next poll.
    fn take_arrivals(&mut self) {
        while let Some(event) = self.inner.poll() {
            let incoming = match event {
                Event::Packet(incoming) => incoming,
                // Trouble comes to whole packets.
                Event::Front(..) => continue,
                other => {
                    self.events.push_back(other);
                    continue;
                }
            };
            let (rail, from) = (incoming.rail, incoming.from);
            let packet = self.inner.packet(&incoming);
            let virtual_bytes = packet.payload.bytes().is_none().then(|| packet.payload.len());
            let payload = packet.payload.bytes().unwrap_or_default().to_vec();
            let header = packet.header.to_vec();
            self.inner.release(incoming);
            if self.is_cut(rail, from) {
                continue;
            }
            let mut due = self.polls_count;
            if self.random.hits(self.faults.delay_per_million) {
                due += self.random.up_to(self.faults.delay_polls_max);
            }
            if self.inner.rails()[rail.0 as usize].ordered {
                let before = self.held.iter().filter(|held| (held.rail, held.from) == (rail, from));
                due = before.map(|held| held.due).max().unwrap_or(0).max(due);
            }
            self.held.push(Held { due, rail, from, header, payload, virtual_bytes });
        }
    }

    fn heal_rails(&mut self) {
        let now = self.polls_count;
        let healed: Vec<_> =
            self.down.iter().filter(|(_, until)| **until <= now).map(|(&key, _)| key).collect();
        for key in healed {
            self.down.remove(&key);
            self.events.push_back(Event::RailUp(key.0, key.1));
        }
    }

    /// What a put or get gets to hear instead of being done.
    fn transfer_trouble(
        &mut self,
        rail: Rail,
        peer: ProcessId,
        token: Token,
    ) -> Option<Result<Submitted, Full>> {
        if self.random.hits(self.faults.full_per_million) {
            return Some(Err(Full));
        }
        if self.is_cut(rail, peer) {
            self.events.push_back(Event::Completion(token, Err(RailBroken)));
            return Some(Ok(Submitted::Pending));
        }
        self.random.hits(self.faults.refuse_per_million).then_some(Ok(Submitted::Refused))
    }
}

impl<D: Device> Device for Fault<D> {
    fn rails(&self) -> &[RailCapabilities] {
        self.inner.rails()
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        self.inner.rails_to(peer)
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        if self.random.hits(self.faults.full_per_million) {
            return Err(Full);
        }
        if self.faults.down_rails.contains(rail) && self.random.hits(self.faults.down_per_million) {
            let polls = self.random.up_to(self.faults.down_polls_max);
            self.break_rail(rail, to, polls);
        }
        let may_drop = !self.inner.rails()[rail.0 as usize].reliable;
        if self.is_cut(rail, to) || (may_drop && self.random.hits(self.faults.drop_per_million)) {
            return Ok(());
        }
        self.inner.send(rail, to, header, payload)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn poll(&mut self) -> Option<Event> {
        assert!(self.current.is_none(), "a packet is released before the next poll");
        self.polls_count += 1;
        self.heal_rails();
        self.take_arrivals();
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let index = self.held.iter().position(|held| held.due <= self.polls_count)?;
        let held = self.held.remove(index);
        let incoming = Incoming { rail: held.rail, from: held.from, slot: 0 };
        self.current = Some(held);
        Some(Event::Packet(incoming))
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let held = self.current.as_ref().expect("a packet until it is released");
        let payload = match held.virtual_bytes {
            Some(bytes) => Piece::Virtual(bytes),
            None => Piece::Bytes(&held.payload),
        };
        Packet { header: &held.header, payload }
    }

    fn release(&mut self, _: Incoming) {
        self.current = None;
    }

    fn expect(&mut self, from: Option<ProcessId>) {
        self.inner.expect(from);
    }

    fn register(&mut self, rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
        self.inner.register(rail, buffer)
    }

    fn deregister(&mut self, rail: Rail, key: RemoteKey) {
        self.inner.deregister(rail, key);
    }

    fn put(
        &mut self,
        rail: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        match self.transfer_trouble(rail, to, token) {
            Some(answer) => answer,
            None => self.inner.put(rail, to, local, remote, token),
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
        match self.transfer_trouble(rail, from, token) {
            Some(answer) => answer,
            None => self.inner.get(rail, from, local, remote, token),
        }
    }

    fn set_gap(&mut self, rail: Rail, peer: ProcessId, gap: Gap) {
        self.inner.set_gap(rail, peer, gap);
    }

    fn hops(&self, peer: ProcessId) -> u32 {
        self.inner.hops(peer)
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        self.inner.reset(rail, peer);
    }

    fn heard(&mut self, rail: Rail, peer: ProcessId) -> Option<Duration> {
        self.inner.heard(rail, peer)
    }

    fn arm(&mut self) -> Armed {
        // Held packets and broken rails wait for polls.
        if self.held.is_empty() && self.events.is_empty() && self.down.is_empty() {
            self.inner.arm()
        } else {
            Armed::NotYet
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback::Loopback;
    use ayatori_core::buffer::NO_PAYLOAD;

    const ME: ProcessId = ProcessId(0);
    const ALWAYS: u32 = 1_000_000;

    fn device(faults: Faults, seed: u64) -> Fault<Loopback> {
        let ordered = Loopback::capabilities();
        let lossy = RailCapabilities { ordered: false, reliable: false, ..ordered };
        Fault::new(Loopback::with_rails(ME, vec![ordered, ordered, lossy]), faults, seed)
    }

    /// Sends numbers 0 … 30 over three rails in turn and answers what comes, by rail.
    fn stream(device: &mut Fault<Loopback>) -> Vec<(u8, u8)> {
        let mut come = Vec::new();
        for number in 0..30 {
            while device.send(Rail(number % 3), ME, &[number], NO_PAYLOAD).is_err() {}
        }
        for _ in 0..200 {
            if let Some(Event::Packet(incoming)) = device.poll() {
                come.push((incoming.rail.0, device.packet(&incoming).header[0]));
                device.release(incoming);
            }
        }
        come
    }

    fn of_rail(come: &[(u8, u8)], rail: u8) -> Vec<u8> {
        come.iter().filter(|(r, _)| *r == rail).map(|(_, number)| *number).collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_trouble() {
        let faults = Faults {
            full_per_million: ALWAYS / 3,
            delay_per_million: ALWAYS / 2,
            delay_polls_max: 20,
            drop_per_million: ALWAYS / 2,
            ..Faults::default()
        };
        let runs: Vec<_> = [1, 1, 2].map(|seed| stream(&mut device(faults, seed))).into();
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }

    #[test]
    fn ordered_and_reliable_rails_stay_so_under_delay_and_loss() {
        for seed in 0..50 {
            let faults = Faults {
                delay_per_million: ALWAYS / 2,
                delay_polls_max: 20,
                drop_per_million: ALWAYS / 2,
                ..Faults::default()
            };
            let come = stream(&mut device(faults, seed));
            for rail in [0, 1] {
                let want: Vec<u8> = (0..30).filter(|number| number % 3 == rail).collect();
                assert_eq!(of_rail(&come, rail), want, "seed {seed}");
            }
            let lossy = of_rail(&come, 2);
            assert!(!lossy.is_empty() && lossy.len() < 10, "seed {seed}: {lossy:?}");
        }
    }

    #[test]
    fn delay_reorders_between_rails_and_on_unordered_ones() {
        let faults = Faults { delay_per_million: ALWAYS / 2, delay_polls_max: 20, ..Faults::default() };
        let come = stream(&mut device(faults, 3));
        assert_eq!(come.len(), 30);
        assert!(!come.iter().map(|(_, number)| number).is_sorted());
        assert!(!of_rail(&come, 2).is_sorted());
    }

    #[test]
    fn a_broken_rail_is_reported_loses_packets_and_heals() {
        let mut device = device(Faults::default(), 0);
        device.send(Rail(0), ME, b"a", NO_PAYLOAD).unwrap();
        device.break_rail(Rail(0), ME, 3);
        device.send(Rail(0), ME, b"b", NO_PAYLOAD).unwrap();
        let nothing = RemoteRegion { key: RemoteKey::default(), offset: 0 };
        let put = device.put(Rail(0), ME, Buffer::EMPTY, nothing, Token(7));
        assert_eq!(put, Ok(Submitted::Pending));
        device.send(Rail(1), ME, b"c", NO_PAYLOAD).unwrap();
        assert_eq!(device.poll(), Some(Event::RailDown(Rail(0), ME)));
        assert_eq!(device.poll(), Some(Event::Completion(Token(7), Err(RailBroken))));
        assert_eq!(device.arm(), Armed::NotYet);
        assert_eq!(device.poll(), Some(Event::RailUp(Rail(0), ME)));
        let Some(Event::Packet(incoming)) = device.poll() else { panic!() };
        assert_eq!(device.packet(&incoming).header, b"c");
        device.release(incoming);
        assert_eq!((device.poll(), device.arm()), (None, Armed::Armed));
    }

    #[test]
    fn nothing_comes_from_a_peer_that_is_gone() {
        let mut device = device(Faults::default(), 0);
        device.send(Rail(1), ME, b"a", NO_PAYLOAD).unwrap();
        device.kill(ME);
        device.kill(ME);
        device.send(Rail(1), ME, b"b", NO_PAYLOAD).unwrap();
        assert_eq!(device.poll(), Some(Event::PeerGone(ME)));
        assert_eq!(device.poll(), None);
    }

    #[test]
    fn sends_are_full_and_transfers_refused_at_the_given_rate() {
        let faults =
            Faults { full_per_million: ALWAYS / 4, refuse_per_million: ALWAYS / 2, ..Faults::default() };
        let mut device = device(faults, 1);
        let mut counts = [0; 3];
        let key = device.register(Rail(0), Buffer::EMPTY).unwrap();
        for _ in 0..4000 {
            match device.get(Rail(0), ME, Buffer::EMPTY, RemoteRegion { key, offset: 0 }, Token(0)) {
                Err(Full) => counts[0] += 1,
                Ok(Submitted::Refused) => counts[1] += 1,
                Ok(_) => counts[2] += 1,
            }
        }
        for (count, want) in counts.into_iter().zip([1000, 1500, 1500]) {
            assert!((want - 150..want + 150).contains(&count), "{counts:?}");
        }
    }
}
