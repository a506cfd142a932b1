//! Checks of packets: wholeness, order, room, how long they lie still, sleeping.

use super::rig::{Came, Link, Rig, pattern};
use super::{Outcome, Stop};
use crate::device::{Armed, Event, HEADER_BYTES_MAX, RailCapabilities, SHORT_HEADER_BYTES};
use crate::ids::ProcessId;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The longest packet tried, even if the rail takes longer ones.
const TRIED_BYTES_MAX: usize = 2 << 20;

/// The longest payload behind a header that is tried on a rail.
fn payload_bytes_max(rail: &RailCapabilities, header_bytes: usize) -> usize {
    rail.payload_bytes_max(header_bytes).min(TRIED_BYTES_MAX)
}

pub(super) fn rails(rig: &mut Rig<'_>) -> Outcome {
    let links = rig.links();
    for at in 0..rig.ids.len() {
        let rails = rig.rails(at);
        for (number, rail) in rails.iter().enumerate() {
            if rail.packet_bytes_max <= 2 * HEADER_BYTES_MAX || rail.eager_bytes_max > longest_payload(rail) {
                return broken(format!(
                    "rail {number}: packets to {} bytes with eager payload to {}",
                    rail.packet_bytes_max, rail.eager_bytes_max
                ));
            }
            if (rail.put || rail.get) && rail.transfer_bytes_max == 0 {
                return broken(format!("rail {number} puts and gets nothing at a time"));
            }
        }
        for peer in rig.ids.clone() {
            let reaching = rig.rails_to(at, peer);
            if let Some(rail) = reaching.iter().find(|rail| usize::from(rail.0) >= rails.len()) {
                return broken(format!("{peer} is reached by rail {} of {}", rail.0, rails.len()));
            }
            if reaching.is_empty() && peer != rig.ids[at] {
                return broken(format!("{peer} is reached by no rail"));
            }
        }
        let stranger = ProcessId(u32::MAX - 1);
        if !rig.rails_to(at, stranger).is_empty() {
            return broken(format!("{stranger}, an unknown process, is reached"));
        }
    }
    for link in links.clone() {
        rig.bring_up(link)?;
    }
    if rig.links() != links { broken("the rails to a peer have changed".into()) } else { Ok(()) }
}

fn broken(what: String) -> Outcome {
    Err(Stop::Broken(what))
}

/// The longest payload of a packet of data, or an eager message.
pub(super) fn longest_payload(rail: &RailCapabilities) -> usize {
    rail.payload_bytes_max(8).max(rail.long_packet_bytes_max.saturating_sub(SHORT_HEADER_BYTES))
}

/// Takes the packets that were sent over a link, and compares.
fn expect(rig: &mut Rig<'_>, link: Link, sent: &[(Vec<u8>, Vec<u8>)]) -> Outcome {
    let (from, is_ordered) = (rig.ids[link.from], rig.capabilities(link).ordered);
    let mut left: Vec<_> = sent.iter().collect();
    for came in rig.take_packets(link.to, sent.len())? {
        let at =
            if is_ordered { 0 } else { left.iter().position(|sent| is_same(&came, from, sent)).unwrap_or(0) };
        if left.is_empty() || !is_same(&came, from, left[at]) {
            let want = left.first().map(|(header, payload)| (header.len(), payload.len()));
            return broken(format!(
                "over {link:?} came {}, and not the {want:?} bytes sent",
                describe(&came)
            ));
        }
        left.remove(at);
    }
    Ok(())
}

/// Whether it is the packet that was sent.
fn is_same(came: &Came, sender: ProcessId, (header, payload): &(Vec<u8>, Vec<u8>)) -> bool {
    match came {
        Came::Packet { from, bytes, header_bytes, .. } => {
            *from == sender
                && *header_bytes >= header.len()
                && bytes.len() == header.len() + payload.len()
                && bytes.starts_with(header)
                && bytes.ends_with(payload)
        }
        Came::Fetched { from, header: given, payload: fetched } => {
            *from == sender && given.starts_with(header) && fetched == payload
        }
        _ => false,
    }
}

fn describe(came: &Came) -> String {
    match came {
        Came::Packet { from, bytes, header_bytes, .. } => {
            format!("{header_bytes}+{} bytes from {from}", bytes.len() - header_bytes)
        }
        other => format!("{other:?}"),
    }
}

pub(super) fn whole(rig: &mut Rig<'_>) -> Outcome {
    for link in rig.links() {
        rig.bring_up(link)?;
        let rail = rig.capabilities(link);
        let headers = (1..=HEADER_BYTES_MAX).map(|header| (header, 40));
        let lengths = [0, 1, 7, 8, 9, 15, 16, 48, 55, 56, 57, 63, 64, 65, 120, 128, 200, 1_000, 1_500, 4_096];
        let payloads = lengths.into_iter().flat_map(|payload| [1, 16, 32].map(|header| (header, payload)));
        let limits = [1, 24, 32, HEADER_BYTES_MAX].into_iter().flat_map(|header| {
            let most = payload_bytes_max(&rail, header);
            [most, most - 1, most / 2].map(|payload| (header, payload))
        });
        let sizes: Vec<_> = headers.chain(payloads).chain(limits).collect();
        for (salt, (header_bytes, payload_bytes)) in sizes.into_iter().enumerate() {
            if payload_bytes > payload_bytes_max(&rail, header_bytes) {
                continue;
            }
            let (header, payload) = (pattern(salt, header_bytes), pattern(salt + 1, payload_bytes));
            for cut in [0, payload_bytes / 3, payload_bytes] {
                let is_taken = rig.run_until(|rig| {
                    Ok(rig.send_pieces(link, &header, [&payload[..cut], &payload[cut..]]).is_ok())
                })?;
                if !is_taken {
                    return broken(format!("{header_bytes}+{payload_bytes} bytes are Full for ever"));
                }
                expect(rig, link, &[(header.clone(), payload.clone())])?;
            }
        }
    }
    Ok(())
}

/// The numbers in packets that were sent by `send_numbered`, by the sender's rail.
fn number_of(bytes: &[u8]) -> Option<(u8, u32)> {
    let number = bytes.get(4..8)?.try_into().ok()?;
    Some((bytes[0], u32::from_le_bytes(number)))
}

pub(super) fn numbered(link: Link, number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_le_bytes();
    [link.rail.0, 0, 0, 0, a, b, c, d]
}

/// Numbers that arrived at a place from a process over its rail, in their order.
fn numbers(rig: &Rig<'_>, link: Link) -> Vec<u32> {
    let of_link = |came: &Came| match came {
        Came::Packet { from, bytes, .. } if *from == rig.ids[link.from] => {
            number_of(bytes).filter(|(rail, _)| *rail == link.rail.0).map(|(_, number)| number)
        }
        _ => None,
    };
    rig.came[link.to].iter().filter_map(of_link).collect()
}

/// Waits for the numbers below `count` over a link, and for no others.
fn expect_numbers(rig: &mut Rig<'_>, link: Link, count: u32) -> Outcome {
    rig.run_until(|rig| Ok(numbers(rig, link).len() >= count as usize))?;
    let mut came = numbers(rig, link);
    if !rig.capabilities(link).ordered {
        came.sort_unstable();
    }
    let wrong = came.iter().copied().zip(0..count).find(|(came, want)| came != want);
    match (came.len() == count as usize, wrong) {
        (true, None) => Ok(()),
        (_, Some((came, want))) => broken(format!("over {link:?} came number {came} where {want} was due")),
        (false, None) => broken(format!("over {link:?} came {} packets of {count}", came.len())),
    }
}

pub(super) fn ordered(rig: &mut Rig<'_>) -> Outcome {
    const COUNT: u32 = 300;
    let links = rig.links();
    for link in links.clone() {
        rig.bring_up(link)?;
    }
    let lengths = [0, 1, 40, 200, 3_000];
    for number in 0..COUNT {
        for &link in &links {
            let length = lengths[(number as usize * 7 + usize::from(link.rail.0)) % lengths.len()];
            let length = length.min(payload_bytes_max(&rig.capabilities(link), 8));
            rig.offer(link, &numbered(link, number), &pattern(0, length))?;
        }
    }
    rig.flush();
    for &link in &links {
        expect_numbers(rig, link, COUNT)?;
    }
    rig.settle()?;
    links.into_iter().try_for_each(|link| expect_numbers(rig, link, COUNT))
}

/// Sends until the link is full, or often enough. Returns the number taken, and whether it is full.
fn fill(rig: &mut Rig<'_>, link: Link, length: usize, first: u32) -> (u32, bool) {
    let payload = pattern(0, length);
    for count in 0..20_000 {
        if rig.send(link, &numbered(link, first + count), &payload).is_err() {
            return (count, true);
        }
        if length * count as usize > 32 << 20 {
            return (count + 1, false);
        }
    }
    (20_000, false)
}

pub(super) fn full(rig: &mut Rig<'_>) -> Outcome {
    for link in rig.links() {
        rig.bring_up(link)?;
        let most = payload_bytes_max(&rig.capabilities(link), 8);
        let mut next = 0;
        for length in [8, 1_000.min(most), most] {
            let (count, is_full) = fill(rig, link, length, next);
            next += count;
            if is_full {
                rig.offer(link, &numbered(link, next), &pattern(0, length))?;
                next += 1;
            }
            rig.flush();
            expect_numbers(rig, link, next)?;
        }
        rig.settle()?;
        expect_numbers(rig, link, next)?;
        rig.came.iter_mut().for_each(Vec::clear);
    }
    Ok(())
}

pub(super) fn held(rig: &mut Rig<'_>) -> Outcome {
    for link in rig.links() {
        rig.bring_up(link)?;
        let back = rig.links().into_iter().find(|back| (back.from, back.to) == (link.to, link.from));
        for length in [8, 100, 1_000] {
            let (header, payload) = (numbered(link, length as u32), pattern(length, length));
            rig.offer(link, &header, &payload)?;
            rig.flush();
            let Some((bytes, incoming)) = take_held(rig, link.to)? else {
                return broken(format!("a packet of {length} bytes does not arrive"));
            };
            // All calls except poll leave the packet in its place.
            let (more_count, _) = fill(rig, link, length, 0);
            if let Some(back) = back {
                let _ = rig.send(back, b"back", &pattern(1, 500));
            }
            let (ids, sender) = (rig.ids.clone(), rig.ids[link.from]);
            let after = rig.with(link.to, |device| {
                device.expect(Some(sender));
                device.expect(None);
                device.flush();
                for &id in &ids {
                    device.rails_to(id);
                }
                super::rig::bytes_at(device, &incoming).0
            });
            let mut incoming = Some(incoming);
            rig.with(link.to, |device| {
                if let Some(incoming) = incoming.take() {
                    device.release(incoming);
                }
            });
            if bytes != after || !bytes.starts_with(&header) || !bytes.ends_with(&payload) {
                return broken(format!("a packet of {length} bytes has changed before it was released"));
            }
            rig.take_packets(link.to, more_count as usize)?;
            rig.settle()?;
            rig.came.iter_mut().for_each(Vec::clear);
        }
    }
    Ok(())
}

/// Polls until a packet is there, and keeps it.
fn take_held(rig: &mut Rig<'_>, at: usize) -> Result<Option<(Vec<u8>, crate::device::Incoming)>, Stop> {
    let mut held = None;
    rig.run_until_polled(|rig| {
        held = rig.with(at, |device| match device.poll() {
            Some(Event::Packet(incoming)) => Some((super::rig::bytes_at(device, &incoming).0, incoming)),
            _ => None,
        });
        Ok(held.is_some())
    })?;
    Ok(held)
}

pub(super) fn hints(rig: &mut Rig<'_>) -> Outcome {
    let links = rig.links();
    for &link in &links {
        rig.bring_up(link)?;
    }
    let ids = rig.ids.clone();
    let hints = ids.iter().map(|&id| Some(id)).chain([None, Some(ProcessId(u32::MAX - 1))]);
    for (round, hint) in hints.enumerate() {
        for at in 0..ids.len() {
            rig.with(at, |device| device.expect(hint));
        }
        for &link in &links {
            rig.offer(link, &numbered(link, round as u32), b"")?;
        }
        for &link in &links {
            expect_numbers(rig, link, round as u32 + 1)?;
        }
    }
    rig.came.iter_mut().for_each(Vec::clear);
    for link in links {
        // The longest packet there is, and nothing behind it.
        let rail = rig.capabilities(link);
        let most = longest_payload(&rail).min(TRIED_BYTES_MAX);
        let (header, payload) = (numbered(link, 0), pattern(3, most));
        rig.offer(link, &header, &payload)?;
        rig.with(link.from, |device| device.flush());
        let has_come = rig.run_until(|rig| Ok(!numbers(rig, link).is_empty()))?;
        if !has_come {
            return broken(format!("{most} bytes over {link:?} wait for something behind them"));
        }
        rig.came.iter_mut().for_each(Vec::clear);
    }
    Ok(())
}

pub(super) fn arm(rig: &mut Rig<'_>) -> Outcome {
    for link in rig.links() {
        rig.bring_up(link)?;
        for is_armed_first in [true, false].repeat(10) {
            rig.settle()?;
            let mut armed = is_armed_first.then(|| rig.arm(link.to));
            rig.offer_blindly(link, b"wake up!")?;
            rig.with(link.from, |device| device.flush());
            let armed = *armed.get_or_insert_with(|| rig.arm(link.to));
            if armed == Armed::Armed && !rig.sleep(link.to) {
                let when = if is_armed_first { "after" } else { "before" };
                return broken(format!(
                    "a packet that was sent {when} the device was armed does not end the sleep"
                ));
            }
            rig.take_packets(link.to, 1)?;
        }
        let (_, is_full) = fill(rig, link, 1_000, 0);
        if is_full && rig.arm(link.from) == Armed::Armed {
            // Polls not all devices: the sender may hold the rest of a packet, and does nothing until it is
            // woken.
            rig.drain(link.to)?;
            if !rig.sleep(link.from) {
                return broken(format!("room does not end the sleep of a process that found {link:?} full"));
            }
        }
        rig.settle()?;
        rig.came.iter_mut().for_each(Vec::clear);
    }
    Ok(())
}
