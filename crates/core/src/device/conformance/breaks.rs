//! Rails that break and come back, and processes that go.

use super::packets::numbered;
use super::rig::{Came, Link, Rig};
use super::{Outcome, Stop};
use alloc::format;
use alloc::vec::Vec;

/// Packets that are offered in each connection.
const BURST_COUNT: u32 = 40;
const ROUNDS: u32 = 6;

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    ResetBySender,
    ResetByReceiver,
    Cut,
}

pub(super) fn breaks(rig: &mut Rig<'_>) -> Outcome {
    let Some(link) = rig.link_that(|rail| rail.may_break) else {
        return Err(Stop::Skip("its rails do not break"));
    };
    let mut log = Log::default();
    burst(rig, link, &mut log)?;
    log.read(rig, link)?;
    if log.is_up != [true, true] {
        return Err(Stop::Broken("the first connection is not reported by RailUp on both sides".into()));
    }
    for round in 0..ROUNDS {
        let ending = [Ending::ResetBySender, Ending::ResetByReceiver, Ending::Cut][round as usize % 3];
        // Under way when the connection ends.
        for _ in 0..BURST_COUNT {
            log.sent_count += u32::from(rig.send(link, &log.header(link), b"under way").is_ok());
        }
        log.read(rig, link)?;
        if ending == Ending::Cut && !rig.cut(link) {
            continue;
        }
        let back = back(rig, link);
        match ending {
            Ending::ResetBySender => reset(rig, link, &mut log.is_up[0]),
            Ending::ResetByReceiver => reset(rig, back, &mut log.is_up[1]),
            Ending::Cut => {}
        }
        let ups = log.ups_count;
        let is_back = rig.run_until(|rig| {
            log.read(rig, link).map_err(Stop::into_words)?;
            Ok(log.is_up == [true, true] && log.ups_count.iter().zip(ups).all(|(now, before)| *now > before))
        })?;
        if !is_back {
            return Err(Stop::Broken(format!(
                "after {ending:?} no RailUp on both sides: {:?}",
                log.ups_count
            )));
        }
        burst(rig, link, &mut log)?;
        log.read(rig, link)?;
    }
    rig.settle()?;
    log.read(rig, link)
}

/// The link's other direction: by the rail that reports its end at the receiver, where that is another
/// number.
fn back(rig: &mut Rig<'_>, link: Link) -> Link {
    let rails = rig.rails_to(link.to, rig.ids[link.from]);
    let place = rig.rails_to(link.from, rig.ids[link.to]).iter().position(|rail| rail == link.rail);
    let rail = rails.iter().nth(place.unwrap_or(0)).unwrap_or(link.rail);
    Link { from: link.to, to: link.from, rail }
}

fn reset(rig: &mut Rig<'_>, link: Link, is_up: &mut bool) {
    let peer = rig.ids[link.to];
    rig.with(link.from, |device| device.reset(link.rail, peer));
    *is_up = false;
}

/// Sends some packets; the last one arrives.
fn burst(rig: &mut Rig<'_>, link: Link, log: &mut Log) -> Outcome {
    for _ in 0..BURST_COUNT {
        rig.run_until(|rig| {
            // The connection that it goes by is known when all has been read.
            log.read(rig, link).map_err(Stop::into_words)?;
            Ok(rig.send(link, &log.header(link), b"").is_ok())
        })?;
        log.sent_count += 1;
    }
    rig.flush();
    let has_come = rig.run_until(|rig| {
        log.read(rig, link).map_err(Stop::into_words)?;
        Ok(log.next == log.sent_count)
    })?;
    if has_come { Ok(()) } else { Err(Stop::Broken("packets over a rail that is up do not arrive".into())) }
}

/// Reports of the two sides of a link, sender and receiver, judged as they come.
#[derive(Default)]
struct Log {
    is_up: [bool; 2],
    ups_count: [u32; 2],
    /// The number that may come next at the earliest.
    next: u32,
    /// A connection has ended since the last packet: some may be lost.
    may_skip: bool,
    sent_count: u32,
    /// The sender's connection that brings the receiver's present packets, once known; and those that it has
    /// had.
    connection: Option<u8>,
    is_over: Vec<u8>,
}

impl Log {
    /// Header of the next packet: its number, and the sender's connection.
    fn header(&self, link: Link) -> [u8; 8] {
        let mut header = numbered(link, self.sent_count);
        header[1] = self.ups_count[0] as u8;
        header
    }

    fn read(&mut self, rig: &mut Rig<'_>, link: Link) -> Outcome {
        let back = back(rig, link);
        for (side, (at, rail, peer)) in
            [(link.from, link.rail, link.to), (link.to, back.rail, link.from)].into_iter().enumerate()
        {
            let peer = rig.ids[peer];
            for came in core::mem::take(&mut rig.came[at]) {
                match came {
                    Came::Up(r, p) if (r, p) == (rail, peer) => {
                        if core::mem::replace(&mut self.is_up[side], true) {
                            return Err(Stop::Broken(format!("RailUp of {rail:?}, which is up")));
                        }
                        self.ups_count[side] += 1;
                        if side == 1 {
                            self.may_skip |= self.ups_count[side] > 1;
                            self.is_over.extend(self.connection.take());
                        }
                    }
                    Came::Down(r, p) if (r, p) == (rail, peer) => self.is_up[side] = false,
                    Came::Packet { from, bytes, .. } if side == 1 && from == peer && bytes.len() >= 8 => {
                        self.on_packet(&bytes)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn on_packet(&mut self, bytes: &[u8]) -> Outcome {
        let number = u32::from_le_bytes(bytes[4..8].try_into().unwrap_or_default());
        if !self.is_up[1] {
            return Err(Stop::Broken(format!("packet {number} is handed up while the rail is down")));
        }
        if number < self.next || (number > self.next && !self.may_skip) {
            return Err(Stop::Broken(format!("packet {number} where {} was due", self.next)));
        }
        let connection = bytes[1];
        if *self.connection.get_or_insert(connection) != connection || self.is_over.contains(&connection) {
            return Err(Stop::Broken(format!("packet {number} is of a connection that has ended")));
        }
        (self.next, self.may_skip) = (number + 1, false);
        Ok(())
    }
}

pub(super) fn gone(rig: &mut Rig<'_>) -> Outcome {
    for link in rig.links() {
        rig.bring_up(link)?;
    }
    let last = rig.ids.len() - 1;
    let dead = rig.ids[last];
    if !rig.kill(last) {
        return Err(Stop::Skip("this world cannot end a process"));
    }
    let count =
        |rig: &Rig<'_>, at: usize| rig.came[at].iter().filter(|came| **came == Came::Gone(dead)).count();
    let is_told = rig.run_until(|rig| Ok((0..last).all(|at| count(rig, at) > 0)))?;
    rig.settle()?;
    for at in 0..last {
        if !is_told || count(rig, at) != 1 {
            return Err(Stop::Broken(format!("PeerGone of {dead} {} times", count(rig, at))));
        }
        let after: Vec<_> =
            rig.came[at].iter().skip_while(|came| **came != Came::Gone(dead)).skip(1).collect();
        let is_of_dead = |came: &&&Came| match came {
            Came::Packet { from, .. } | Came::Fetched { from, .. } => *from == dead,
            Came::Up(_, peer) | Came::Down(_, peer) | Came::Gone(peer) => *peer == dead,
            Came::Completion(..) => false,
        };
        if let Some(came) = after.iter().find(is_of_dead) {
            return Err(Stop::Broken(format!("after PeerGone of {dead} came {came:?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_in_order_and_of_a_connection_that_has_not_ended() {
        let mut log = Log { is_up: [true; 2], ..Log::default() };
        let mut come = |connection: u8, number: u32, change: fn(&mut Log)| {
            change(&mut log);
            let mut bytes = [0, connection, 0, 0, 0, 0, 0, 0];
            bytes[4..].copy_from_slice(&number.to_le_bytes());
            log.on_packet(&bytes).is_ok()
        };
        let nothing = |_: &mut Log| {};
        assert!(come(1, 0, nothing));
        assert!(!come(1, 0, nothing), "twice");
        assert!(!come(1, 2, nothing), "one is missing");
        assert!(!come(2, 1, nothing), "of another connection");
        assert!(!come(1, 1, |log| log.is_up = [true, false]), "while the rail is down");
        assert!(come(1, 1, |log| log.is_up = [true; 2]));
        let ends: fn(&mut Log) = |log| {
            log.may_skip = true;
            log.is_over.extend(log.connection.take());
        };
        assert!(come(2, 5, ends), "some of the old connection are lost");
        assert!(!come(2, 7, nothing), "of the new one none is");
        assert!(come(2, 6, nothing));
        assert!(!come(1, 7, ends), "it has ended");
    }
}
