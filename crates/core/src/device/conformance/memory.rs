//! Puts and gets.

use super::packets::numbered;
use super::rig::{Came, Guarded, Link, Rig, bytes_of, pattern};
use super::{Outcome, Stop};
use crate::buffer::{Buffer, Piece};
use crate::device::{RailBroken, RailCapabilities, RemoteKey, RemoteRegion, Submitted, Token};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The longest put or get that is tried.
const TRIED_BYTES_MAX: usize = 2 << 20;
/// Registered memory, beside that for the longest transfer.
const AREA_BYTES: usize = 8 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Put,
    Get,
}

impl Way {
    fn is_offered(self, rail: &RailCapabilities) -> bool {
        match self {
            Self::Put => rail.put,
            Self::Get => rail.get,
        }
    }
}

/// How a put or get has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Well,
    Badly,
    Refused,
}

/// The sides of a link, and a registration of the far one.
struct Sides {
    link: Link,
    way: Way,
    local: Guarded,
    remote: Guarded,
    key: RemoteKey,
    next_token: u64,
}

impl Sides {
    fn new(rig: &mut Rig<'_>, link: Link, way: Way, len: usize) -> Result<Self, Stop> {
        rig.bring_up(link)?;
        let (local, remote) = (Guarded::new(len), Guarded::new(len));
        let key = rig.register(link.to, link.rail, remote.inner())?;
        Ok(Self { link, way, local, remote, key, next_token: 77 })
    }

    /// Where the bytes come from, and where they go.
    fn ends(&self) -> [&Guarded; 2] {
        match self.way {
            Way::Put => [&self.local, &self.remote],
            Way::Get => [&self.remote, &self.local],
        }
    }

    /// Moves `local` to or from an offset of the registration, to its end, which comes once.
    fn transfer(&mut self, rig: &mut Rig<'_>, local: Buffer, offset: u64) -> Result<End, String> {
        let (peer, rail, way) = (rig.ids[self.link.to], self.link.rail, self.way);
        let (token, region) = (Token(self.next_token), RemoteRegion { key: self.key, offset });
        self.next_token += 1;
        let submitted = rig.submit(self.link.from, |device| match way {
            Way::Put => device.put(rail, peer, local, region, token),
            Way::Get => device.get(rail, peer, local, region, token),
        })?;
        match submitted {
            Submitted::Done => Ok(End::Well),
            Submitted::Refused => Ok(End::Refused),
            Submitted::Pending => {
                let end = |came: &Came| match came {
                    Came::Completion(ended, result) if *ended == token => Some(*result),
                    _ => None,
                };
                let mut result: Option<Result<(), RailBroken>> = None;
                rig.run_until(|rig| {
                    result = rig.came[self.link.from].iter().find_map(end);
                    Ok(result.is_some())
                })?;
                match result {
                    Some(Ok(())) => Ok(End::Well),
                    Some(Err(RailBroken)) => Ok(End::Badly),
                    None => Err(format!("a {way:?} of {} bytes never ends", local.len())),
                }
            }
        }
    }

    /// After everything has ended: no completion came that was not due, and the guards are whole.
    fn finish(&self, rig: &mut Rig<'_>, pending_max: usize) -> Outcome {
        rig.settle()?;
        let mut tokens: Vec<u64> = Vec::new();
        for came in &rig.came[self.link.from] {
            if let Came::Completion(token, _) = came {
                if tokens.contains(&token.0) || !(77..self.next_token).contains(&token.0) {
                    return Err(Stop::Broken(format!("a completion of {token:?} that is not due")));
                }
                tokens.push(token.0);
            }
        }
        if tokens.len() > pending_max {
            return Err(Stop::Broken(format!("{} completions of {pending_max}", tokens.len())));
        }
        for (name, side) in [("local", &self.local), ("registered", &self.remote)] {
            if !side.is_intact() {
                return Err(Stop::Broken(format!("a {:?} wrote outside of the {name} memory", self.way)));
            }
        }
        let (key, rail) = (self.key, self.link.rail);
        rig.with(self.link.to, |device| device.deregister(rail, key));
        Ok(())
    }
}

fn link_of(rig: &mut Rig<'_>, way: Way) -> Result<Link, Stop> {
    let link = rig.link_that(|rail| way.is_offered(rail));
    link.ok_or(Stop::Skip("no rail of the device does this"))
}

pub(super) fn put(rig: &mut Rig<'_>) -> Outcome {
    transfers(rig, Way::Put)
}

pub(super) fn get(rig: &mut Rig<'_>) -> Outcome {
    transfers(rig, Way::Get)
}

fn transfers(rig: &mut Rig<'_>, way: Way) -> Outcome {
    let link = link_of(rig, way)?;
    let most = rig.capabilities(link).transfer_bytes_max.min(TRIED_BYTES_MAX);
    let mut sides = Sides::new(rig, link, way, AREA_BYTES + most)?;
    let len = AREA_BYTES + most;
    let cases = [(0, 1), (1, 7), (5, 100), (63, 4_096), (len - 1, 1), (len - most, most), (0, most)];
    let (mut ended_count, mut number) = (0, 0);
    for (offset, bytes) in cases.into_iter().filter(|case| case.1 <= most) {
        let [source, target] = sides.ends();
        source.inner().scatter(0, Piece::Bytes(&pattern(offset, len)));
        target.inner().scatter(0, Piece::Bytes(&alloc::vec![0; len]));
        let local = sides.local.inner().part(0, bytes);
        let end = sides.transfer(rig, local, offset as u64)?;
        let [source, target] = sides.ends();
        let (from, to) = if way == Way::Put { (0, offset) } else { (offset, 0) };
        let mut want = alloc::vec![0; len];
        if end == End::Well {
            want[to..to + bytes].copy_from_slice(&bytes_of(&source.inner())[from..from + bytes]);
            ended_count += 1;
        }
        let target = target.inner();
        let seen = match way {
            Way::Get => bytes_of(&target),
            // Memory that the peer sees when a later packet arrives.
            Way::Put => {
                rig.watched = Some(target);
                rig.offer(link, &numbered(link, number), b"")?;
                number += 1;
                let came = rig.take_packets(link.to, 1)?;
                rig.watched = None;
                let Some(Came::Packet { memory: Some(memory), .. }) = came.into_iter().next() else {
                    return Err(Stop::Broken("the packet behind a put does not arrive".into()));
                };
                memory
            }
        };
        match end {
            End::Badly => {
                return Err(Stop::Broken(format!("a {way:?} of {bytes} bytes ends with RailBroken")));
            }
            _ if seen == want => {}
            End::Well => {
                return Err(Stop::Broken(format!("a {way:?} of {bytes} bytes at {offset} moved others")));
            }
            End::Refused => return Err(Stop::Broken(format!("a {way:?} was refused and moved bytes"))),
        }
    }
    sides.finish(rig, cases.len())?;
    if ended_count == 0 { Err(Stop::Skip("the system refuses puts and gets")) } else { Ok(()) }
}

pub(super) fn outside(rig: &mut Rig<'_>) -> Outcome {
    let mut is_checked = false;
    for way in [Way::Put, Way::Get] {
        let Ok(link) = link_of(rig, way) else { continue };
        is_checked = true;
        let mut sides = Sides::new(rig, link, way, AREA_BYTES)?;
        let [source, target] = sides.ends();
        source.inner().scatter(0, Piece::Bytes(&pattern(1, AREA_BYTES)));
        target.inner().scatter(0, Piece::Bytes(&[0; AREA_BYTES]));
        let end = AREA_BYTES as u64;
        for offset in [end, end - 99, u64::MAX, u64::MAX - 99, 1 << 62] {
            let local = sides.local.inner().part(0, 100);
            let ended = sides.transfer(rig, local, offset)?;
            let moved = way == Way::Put && bytes_of(&sides.remote.inner()).iter().any(|&byte| byte != 0);
            if ended == End::Well || moved {
                return Err(Stop::Broken(format!(
                    "a {way:?} of 100 bytes at {offset} of {AREA_BYTES} ends {ended:?}"
                )));
            }
        }
        sides.finish(rig, usize::MAX)?;
        rig.came.iter_mut().for_each(Vec::clear);
    }
    if is_checked { Ok(()) } else { Err(Stop::Skip("no rail of the device puts or gets")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_tried_on_a_rail_that_offers_it() {
        let putting = RailCapabilities { put: true, ..RailCapabilities::default() };
        let getting = RailCapabilities { get: true, ..RailCapabilities::default() };
        assert!(Way::Put.is_offered(&putting) && !Way::Get.is_offered(&putting));
        assert!(Way::Get.is_offered(&getting) && !Way::Put.is_offered(&getting));
    }
}
