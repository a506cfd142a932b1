//! Fronts of long packets.

use super::packets::{longest_payload, numbered};
use super::rig::{Came, Fronts, Link, Rig, pattern};
use super::{Outcome, Stop};
use alloc::format;
use alloc::vec::Vec;

/// Packets in a burst: long ones with short ones between.
const COUNT: u32 = 24;
const TRIED_BYTES_MAX: usize = 512 << 10;

pub(super) fn fronts(rig: &mut Rig<'_>) -> Outcome {
    for link in rig.links() {
        rig.bring_up(link)?;
        for fronts in [Fronts::Ignore, Fronts::Fetch, Fronts::LetGo] {
            rig.fronts = fronts;
            rig.let_go_count = 0;
            burst(rig, link)?;
            rig.fronts = Fronts::Ignore;
            rig.came.iter_mut().for_each(Vec::clear);
        }
    }
    Ok(())
}

fn length_of(number: u32, most: usize) -> usize {
    match number % 4 {
        0 => most,
        1 => 16,
        2 => most / 2,
        _ => most / 16,
    }
}

fn burst(rig: &mut Rig<'_>, link: Link) -> Outcome {
    let rail = rig.capabilities(link);
    let most = longest_payload(&rail).min(TRIED_BYTES_MAX);
    for number in 0..COUNT {
        rig.offer(link, &numbered(link, number), &pattern(number as usize, length_of(number, most)))?;
    }
    let is_whole = |rig: &Rig<'_>| rig.came[link.to].len() + rig.let_go_count >= COUNT as usize;
    rig.run_until(|rig| {
        rig.flush();
        Ok(is_whole(rig))
    })?;
    rig.settle()?;
    let mut next = 0;
    for came in core::mem::take(&mut rig.came[link.to]) {
        let (header, payload) = match came {
            Came::Packet { bytes, .. } => (bytes[..8].to_vec(), bytes[8..].to_vec()),
            Came::Fetched { header, payload, .. } => (header, payload),
            _ => continue,
        };
        let number = (next..COUNT).find(|&number| header.starts_with(&numbered(link, number)));
        let Some(number) = number else {
            return Err(Stop::Broken(format!("after packet {next} came {:?}", header.get(4..8))));
        };
        if payload != pattern(number as usize, length_of(number, most)) {
            return Err(Stop::Broken(format!("the payload of packet {number} is not what was sent")));
        }
        let skipped_count = (number - next) as usize;
        if skipped_count > rig.let_go_count {
            return Err(Stop::Broken(format!("packets {next} to {} are lost", number - 1)));
        }
        rig.let_go_count -= skipped_count;
        next = number + 1;
    }
    let missing_count = (COUNT - next) as usize;
    if missing_count > rig.let_go_count {
        return Err(Stop::Broken(format!("of {COUNT} packets the last {missing_count} do not arrive")));
    }
    if missing_count < rig.let_go_count {
        let more_count = rig.let_go_count - missing_count;
        return Err(Stop::Broken(format!("{more_count} packets that were dropped came again")));
    }
    Ok(())
}
