//! Partitioned messages: a channel is a pair of requests that are started again and again. Its sender marks
//! its parts ready in any order; its receiver has parts of its own.

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::ids::RequestId;

use super::{GIVEN_BACK, Outcome, World, content, fill};
use crate::fuzz::Feature;

const CHANNELS_MAX: usize = 4;
/// Numbers of parts divide this.
const PARTS: [u32; 5] = [1, 2, 3, 4, 6];
const PARTS_PRODUCT: usize = 12;

/// Two requests that belong together: the sender's, the receiver's.
pub(super) struct Channel {
    comm: usize,
    at: [u32; 2],
    ids: [RequestId; 2],
    memory: [Buffer; 2],
    parts_counts: [u32; 2],
    run: Option<Run>,
    /// A side failed: it is not started again.
    has_failed: bool,
}

struct Run {
    number: usize,
    /// The sender's parts that are not ready yet.
    unready: Vec<u32>,
    is_over: [bool; 2],
}

impl Channel {
    fn length(&self) -> usize {
        self.memory[0].len()
    }
}

impl World<'_> {
    pub(super) fn has_channels(&self) -> bool {
        !self.channels.is_empty()
    }

    pub(super) fn act_partitioned(&mut self) -> Outcome {
        let index = self.random.below(CHANNELS_MAX as u64) as usize;
        let Some(channel) = self.channels.get(index) else { return self.make_channel() };
        let [from, to] = channel.at;
        let is_free = |at: u32| self.is_alive(at) && !self.is_blocked(at);
        match &channel.run {
            None if !channel.has_failed && is_free(from) && is_free(to) => self.start_channel(index),
            Some(run) if !run.unready.is_empty() && is_free(from) => self.ready_some(index),
            Some(_) if is_free(to) => self.poll_parts(index),
            _ => Ok(()),
        }
    }

    fn make_channel(&mut self) -> Outcome {
        let Some(from) = self.pick_idle() else { return Ok(()) };
        let comm = self.pick_comm(from);
        let to = self.pick_member(comm);
        if !self.is_alive(to) || self.is_blocked(to) || !self.may_use(comm, to) {
            return Ok(());
        }
        let part_bytes = self.random.below((self.habits.length_max / PARTS_PRODUCT) as u64 + 1) as usize;
        let length = part_bytes * PARTS_PRODUCT;
        let given_back = || std::iter::repeat_n(GIVEN_BACK, length);
        let (Some(source), Some(sink)) = (self.memory(given_back()), self.memory(given_back())) else {
            return Ok(());
        };
        let parts_counts = [0; 2].map(|_| PARTS[self.random.below(PARTS.len() as u64) as usize]);
        // Channels of the same two processes are told apart by order.
        let tag = self.random.below(2) as i32;
        let rank_of = |at: u32| self.model.comms[comm].rank_of(at).unwrap_or(0);
        let (dest, rank) = ((rank_of(to), tag), (rank_of(from), tag));
        self.log(format!(
            "channel {}: {from} to {to}, {length} B, {parts_counts:?} parts",
            self.channels.len()
        ));
        let ids = [from, to].map(|at| self.comm_id(comm, at));
        let (process, port) = &mut self.nodes[from as usize];
        let sender = process.psend_init(port, ids[0], source, parts_counts[0], dest);
        let (process, port) = &mut self.nodes[to as usize];
        let receiver = process.precv_init(port, ids[1], sink, parts_counts[1], rank);
        let (sender, receiver) = match (sender, receiver) {
            (Ok(sender), Ok(receiver)) => (sender, receiver),
            (sender, receiver) => return self.check_unmade((from, to), sender, receiver),
        };
        self.channels.push(Channel {
            comm,
            at: [from, to],
            ids: [sender, receiver],
            memory: [source, sink],
            parts_counts,
            run: None,
            has_failed: false,
        });
        Ok(())
    }

    /// One side is refused, for the other is lost.
    fn check_unmade(
        &mut self,
        (from, to): (u32, u32),
        sender: Result<RequestId, Error>,
        receiver: Result<RequestId, Error>,
    ) -> Outcome {
        for (at, peer, made) in [(from, to, sender), (to, from, receiver)] {
            match made {
                Ok(id) => self.nodes[at as usize].0.free(id).map_err(|error| error.to_string())?,
                Err(error) if self.model.losses(at, peer).contains(&error) => {}
                Err(error) => return Err(format!("process {at} makes no channel with {peer}: {error}")),
            }
        }
        Ok(())
    }

    fn start_channel(&mut self, index: usize) -> Outcome {
        let number = self.report.step_count as usize;
        let Channel { at, ids, ref memory, parts_counts, .. } = self.channels[index];
        let [source, sink] = *memory;
        if let Some(byte) = [source, sink].iter().find_map(written) {
            return Err(format!("byte {byte} of channel {index} is written between two runs"));
        }
        fill(&source, (0..source.len()).map(|byte| content(number, byte)));
        self.log(format!("channel {index} is started"));
        self.report.cover(Feature::Partitioned);
        for side in 0..2 {
            let (process, port) = &mut self.nodes[at[side] as usize];
            if let Err(error) = process.start(port, ids[side]) {
                return Err(format!("channel {index} cannot be started at {}: {error}", at[side]));
            }
        }
        let unready = (0..parts_counts[0]).collect();
        self.channels[index].run = Some(Run { number, unready, is_over: [false; 2] });
        Ok(())
    }

    fn ready_some(&mut self, index: usize) -> Outcome {
        let Channel { at, ids, run: Some(run), .. } = &mut self.channels[index] else { return Ok(()) };
        for _ in 0..1 + self.random.below(3) {
            if run.unready.is_empty() {
                break;
            }
            let part = run.unready.swap_remove(self.random.below(run.unready.len() as u64) as usize);
            let (process, port) = &mut self.nodes[at[0] as usize];
            process
                .pready(port, ids[0], part)
                .map_err(|error| format!("channel {index}: part {part}: {error}"))?;
            if process.pready(port, ids[0], part).is_ok() {
                return Err(format!("channel {index}: part {part} is ready twice"));
            }
        }
        Ok(())
    }

    /// A part that is there has its bytes, although others are still to come.
    fn poll_parts(&mut self, index: usize) -> Outcome {
        let channel = &self.channels[index];
        let Channel { at, ids, memory, parts_counts, run: Some(run), has_failed, .. } = channel else {
            return Ok(());
        };
        if run.is_over[1] || *has_failed || !self.model.losses(at[1], at[0]).is_empty() {
            return Ok(());
        }
        let part_bytes = channel.length() / parts_counts[1] as usize;
        for part in 0..parts_counts[1] {
            let has_arrived = self.nodes[at[1] as usize].0.parrived(ids[1], part);
            let first = part as usize * part_bytes;
            match has_arrived.map_err(|error| format!("channel {index}: part {part}: {error}"))? {
                true => check_bytes(index, &memory[1].part(first, part_bytes), first, run.number)?,
                false => continue,
            }
        }
        Ok(())
    }

    /// Takes what is over. Whether anything was.
    pub(super) fn collect_channels(&mut self) -> Outcome<bool> {
        let mut went_on = false;
        for index in 0..self.channels.len() {
            for side in 0..2 {
                let Channel { at, ids, run: Some(run), .. } = &self.channels[index] else { continue };
                let (at, peer, id) = (at[side], at[1 - side], ids[side]);
                if run.is_over[side] || !self.is_alive(at) {
                    continue;
                }
                let number = run.number;
                let Some(completion) = self.take(at, id)? else { continue };
                went_on = true;
                let channel = &mut self.channels[index];
                match completion.error {
                    None if side == 1 => check_bytes(index, &channel.memory[1], 0, number)?,
                    None => {}
                    Some(error) if self.model.losses(at, peer).contains(&error) => channel.has_failed = true,
                    Some(error) => return Err(format!("channel {index} at {at}: {error}")),
                }
                fill(&channel.memory[side], std::iter::repeat_n(GIVEN_BACK, channel.length()));
                if let Some(run) = &mut channel.run {
                    run.is_over[side] = true;
                }
            }
            let channel = &mut self.channels[index];
            channel.run = channel.run.take().filter(|run| run.is_over != [true; 2]);
        }
        Ok(went_on)
    }

    /// All that was started is made ready.
    pub(super) fn finish_channels(&mut self) -> Outcome<bool> {
        let mut went_on = self.collect_channels()?;
        for index in 0..self.channels.len() {
            let channel = &self.channels[index];
            let waits = channel.run.as_ref().is_some_and(|run| !run.unready.is_empty());
            if waits && self.is_alive(channel.at[0]) && !self.is_blocked(channel.at[0]) {
                self.ready_some(index)?;
                went_on = true;
            }
        }
        Ok(went_on)
    }

    pub(super) fn end_channels(&mut self) -> Outcome {
        for (index, Channel { comm, at, ids, run, .. }) in self.channels.iter().enumerate() {
            for side in 0..2 {
                let is_waiting = run.as_ref().is_some_and(|run| !run.is_over[side]);
                if !self.wire.borrow().alive[at[side] as usize] {
                    continue;
                }
                let process = &mut self.nodes[at[side] as usize].0;
                if is_waiting {
                    let need = process.need(ids[side]);
                    return Err(format!(
                        "channel {index} (comm {comm}) never ends at {}: {need:?}",
                        at[side]
                    ));
                }
                process.free(ids[side]).map_err(|error| format!("freeing channel {index}: {error}"))?;
            }
        }
        Ok(())
    }

    pub(super) fn uses_comm_partitioned(&self, comm: usize) -> bool {
        self.channels.iter().any(|channel| channel.comm == comm)
    }
}

fn written(buffer: &Buffer) -> Option<usize> {
    buffer.to_vec()?.iter().position(|&byte| byte != GIVEN_BACK)
}

fn check_bytes(index: usize, buffer: &Buffer, first: usize, number: usize) -> Outcome {
    let bytes = buffer.to_vec().unwrap_or_default();
    match bytes.iter().enumerate().position(|(at, &byte)| byte != content(number, first + at)) {
        None => Ok(()),
        Some(at) => Err(format!("byte {} of channel {index} is {:#x}", first + at, bytes[at])),
    }
}
