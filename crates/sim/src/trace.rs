//! A trace for Perfetto (<https://ui.perfetto.dev>), in Chrome's JSON format.
//!
//! A track for each rank with slices for the time in the library and for computing (it waits in between), and a bar for
//! every operation from its call to its completion. A track for each NIC with a bar for every message under way and an
//! arrow from its start to its arrival. A counter for each of the busiest links with its utilisation over time.
//!
//! Memory is bounded: beyond [`RECORD_COUNT_MAX`] messages, slices or operations only counters go on, and the trace says
//! so; counters keep [`SLICE_COUNT`] to twice as many slices of time, doubling their length when the run gets longer.

use std::io::{self, Write};

use ayatori_core::ids::Source;
use ayatori_fabric::graph::{ChannelId, Graph, Node};

use crate::network::{Message, Probe};

/// Messages kept; and as many slices of ranks, and operations.
pub const RECORD_COUNT_MAX: usize = 200_000;
/// Least number of slices of time, once a run is long enough to have them.
const SLICE_COUNT: usize = 512;
/// Length of a slice at first, ps: 100 ns.
const FIRST_SLICE_PS: u64 = 100_000;

/// What a rank is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Calls of the library, copies.
    Library,
    /// The workload's own computing.
    Computing,
}

/// What a rank has asked the library to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Sends a message.
    Send {
        /// To this rank.
        to: u32,
        /// So long.
        bytes: u64,
    },
    /// Receives one.
    Receive {
        /// From this rank or any.
        from: Source,
        /// At most so long.
        bytes: u64,
    },
    /// Takes part in a collective operation.
    Collective {
        /// Its name.
        name: &'static str,
        /// Length of the vector or block.
        bytes: u64,
    },
}

impl Operation {
    fn name_and_bytes(&self) -> (String, u64) {
        match *self {
            Operation::Send { to, bytes } => (format!("send to {to}"), bytes),
            Operation::Receive { from: Source::Rank(from), bytes } => (format!("receive from {from}"), bytes),
            Operation::Receive { bytes, .. } => ("receive from any".into(), bytes),
            Operation::Collective { name, bytes } => (name.into(), bytes),
        }
    }
}

/// Names an operation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar(u32);

#[derive(Debug, Clone, Copy)]
struct Slice {
    start_ps: u64,
    end_ps: u64,
    rank: u32,
    activity: Activity,
}

#[derive(Debug, Clone, Copy)]
struct OperationBar {
    start_ps: u64,
    end_ps: u64,
    rank: u32,
    operation: Operation,
}

#[derive(Debug, Clone, Copy)]
struct MessageBar {
    start_ps: u64,
    end_ps: u64,
    from: u32,
    to: u32,
    bytes: u64,
}

/// Collects while the network runs; see [`Trace::write`].
#[derive(Debug)]
pub struct Trace {
    slices: Vec<Slice>,
    /// The last slice of each rank: what follows it at once makes it longer.
    last_slice: Vec<u32>,
    operations: Vec<OperationBar>,
    bars: Vec<MessageBar>,
    /// Index into `bars` of the message with each handle.
    open: Vec<u32>,
    lost_count: u64,
    slice_ps: u64,
    /// Busy time of each channel in each slice, channel by channel; grown as channels are seen.
    busy_ps: Vec<Vec<u64>>,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            slices: Vec::new(),
            last_slice: Vec::new(),
            operations: Vec::new(),
            bars: Vec::new(),
            open: Vec::new(),
            lost_count: 0,
            slice_ps: FIRST_SLICE_PS,
            busy_ps: Vec::new(),
        }
    }
}

impl Probe for Trace {
    fn on_transmit(&mut self, channel: ChannelId, start_ps: u64, end_ps: u64, _bytes: u32) {
        while (end_ps / self.slice_ps) as usize >= 2 * SLICE_COUNT {
            self.double_slices();
        }
        if self.busy_ps.len() <= channel.index() {
            self.busy_ps.resize_with(channel.index() + 1, Vec::new);
        }
        let slices = &mut self.busy_ps[channel.index()];
        let last = (end_ps / self.slice_ps) as usize;
        if slices.len() <= last {
            slices.resize(last + 1, 0);
        }
        let mut at_ps = start_ps;
        while at_ps < end_ps {
            let slice = at_ps / self.slice_ps;
            let next_ps = ((slice + 1) * self.slice_ps).min(end_ps);
            slices[slice as usize] += next_ps - at_ps;
            at_ps = next_ps;
        }
    }

    fn on_send(&mut self, time_ps: u64, handle: u32, message: &Message) {
        if self.open.len() <= handle as usize {
            self.open.resize(handle as usize + 1, u32::MAX);
        }
        if self.bars.len() == RECORD_COUNT_MAX {
            self.open[handle as usize] = u32::MAX;
            self.lost_count += 1;
            return;
        }
        self.open[handle as usize] = self.bars.len() as u32;
        let Message { from, to, bytes, .. } = *message;
        self.bars.push(MessageBar { start_ps: time_ps, end_ps: u64::MAX, from: from.0, to: to.0, bytes });
    }

    fn on_delivered(&mut self, time_ps: u64, handle: u32, _message: &Message) {
        if let Some(bar) = self.bars.get_mut(self.open[handle as usize] as usize) {
            bar.end_ps = time_ps;
        }
    }
}

impl Trace {
    fn double_slices(&mut self) {
        self.slice_ps *= 2;
        for slices in &mut self.busy_ps {
            *slices = slices.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    /// A rank is busy.
    pub fn on_activity(&mut self, rank: u32, activity: Activity, start_ps: u64, end_ps: u64) {
        if start_ps == end_ps {
            return;
        }
        if self.last_slice.len() <= rank as usize {
            self.last_slice.resize(rank as usize + 1, u32::MAX);
        }
        let is_full = self.slices.len() == RECORD_COUNT_MAX;
        let last = &mut self.last_slice[rank as usize];
        match self.slices.get_mut(*last as usize) {
            Some(slice) if slice.end_ps == start_ps && slice.activity == activity => slice.end_ps = end_ps,
            _ if is_full => self.lost_count += 1,
            _ => {
                *last = self.slices.len() as u32;
                self.slices.push(Slice { start_ps, end_ps, rank, activity });
            }
        }
    }

    /// A rank has called for an operation. `None` if there are too many to keep.
    pub fn begin_operation(&mut self, rank: u32, operation: Operation, start_ps: u64) -> Option<Bar> {
        if self.operations.len() == RECORD_COUNT_MAX {
            self.lost_count += 1;
            return None;
        }
        self.operations.push(OperationBar { start_ps, end_ps: u64::MAX, rank, operation });
        Some(Bar(self.operations.len() as u32 - 1))
    }

    /// The rank has seen its end.
    pub fn end_operation(&mut self, bar: Bar, end_ps: u64) {
        self.operations[bar.0 as usize].end_ps = end_ps;
    }

    /// Messages, slices and operations that were left out because there were too many.
    pub fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// Writes the trace; `link_count` links between switches get a counter, the busiest first.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write(&self, graph: &Graph, link_count: usize, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let lost = match self.lost_count {
            0 => String::new(),
            lost => {
                format!(" ({lost} messages, slices and operations beyond {RECORD_COUNT_MAX} each left out)")
            }
        };
        writeln!(out, "{}", named(1, None, &format!("NICs: messages{lost}")))?;
        writeln!(out, ",{}", named(2, None, "link utilisation, %"))?;
        let mut nic = 0;
        for host in graph.hosts() {
            for port in 0..graph.port_count(host.into()) {
                let name = format!("{} NIC {port}", graph.name(host.into()));
                writeln!(out, ",{}", named(1, Some(nic), &name))?;
                nic += 1;
            }
        }
        for (id, bar) in self.bars.iter().enumerate().filter(|(_, bar)| bar.end_ps != u64::MAX) {
            write_bar(id, bar, out)?;
        }
        self.write_ranks(out)?;
        self.write_counters(graph, link_count, out)?;
        writeln!(out, "]}}")
    }

    fn write_ranks(&self, out: &mut impl Write) -> io::Result<()> {
        if self.last_slice.is_empty() {
            return Ok(());
        }
        writeln!(out, ",{}", named(3, None, "ranks"))?;
        for rank in 0..self.last_slice.len() as u32 {
            writeln!(out, ",{}", named(3, Some(rank), &format!("rank {rank}")))?;
        }
        for Slice { start_ps, end_ps, rank, activity } in &self.slices {
            let name = match activity {
                Activity::Library => "library",
                Activity::Computing => "computing",
            };
            let (start, length) = (micros(*start_ps), micros(end_ps - start_ps));
            writeln!(
                out,
                ",{{\"ph\":\"X\",\"pid\":3,\"tid\":{rank},\"name\":\"{name}\",\"ts\":{start},\"dur\":{length}}}"
            )?;
        }
        let ended = self.operations.iter().enumerate().filter(|(_, bar)| bar.end_ps != u64::MAX);
        for (id, OperationBar { start_ps, end_ps, rank, operation }) in ended {
            let (name, bytes) = operation.name_and_bytes();
            let (start, end) = (micros(*start_ps), micros(*end_ps));
            let common =
                format!("\"cat\":\"operation\",\"id\":{id},\"pid\":3,\"tid\":{rank},\"name\":\"{name}\"");
            writeln!(out, ",{{\"ph\":\"b\",{common},\"ts\":{start},\"args\":{{\"bytes\":{bytes}}}}}")?;
            writeln!(out, ",{{\"ph\":\"e\",{common},\"ts\":{end}}}")?;
        }
        Ok(())
    }

    fn write_counters(&self, graph: &Graph, link_count: usize, out: &mut impl Write) -> io::Result<()> {
        let between = |channel: ChannelId| {
            let (from, to) = graph.channel_ends(channel);
            matches!((from.node, to.node), (Node::Switch(_), Node::Switch(_)))
        };
        let total = |slices: &Vec<u64>| slices.iter().sum::<u64>();
        let mut channels: Vec<usize> = (0..self.busy_ps.len())
            .filter(|&channel| between(ChannelId(channel as u32)) && total(&self.busy_ps[channel]) > 0)
            .collect();
        channels.sort_by_key(|&channel| (std::cmp::Reverse(total(&self.busy_ps[channel])), channel));
        for &channel in channels.iter().take(link_count) {
            let name = text(&graph.describe_channel(ChannelId(channel as u32)));
            // A last one at zero ends the curve.
            let ends = self.busy_ps[channel].iter().chain([&0]);
            for (slice, &busy_ps) in ends.enumerate() {
                let at_us = micros(slice as u64 * self.slice_ps);
                let percent = 100.0 * busy_ps as f64 / self.slice_ps as f64;
                writeln!(
                    out,
                    ",{{\"ph\":\"C\",\"pid\":2,\"name\":{name},\"ts\":{at_us},\"args\":{{\"busy\":{percent:.1}}}}}"
                )?;
            }
        }
        Ok(())
    }
}

/// A bar of its own for a message (they overlap, so each is an asynchronous slice), and an arrow between the moments of
/// sending and of arrival, which are slices of a nanosecond for the arrow to hold on to.
fn write_bar(id: usize, bar: &MessageBar, out: &mut impl Write) -> io::Result<()> {
    let MessageBar { start_ps, end_ps, from, to, bytes } = *bar;
    let (start, end) = (micros(start_ps), micros(end_ps));
    let common = format!("\"cat\":\"message\",\"id\":{id},\"pid\":1,\"tid\":{from},\"name\":\"to {to}\"");
    writeln!(out, ",{{\"ph\":\"b\",{common},\"ts\":{start},\"args\":{{\"bytes\":{bytes}}}}}")?;
    writeln!(out, ",{{\"ph\":\"e\",{common},\"ts\":{end}}}")?;
    for (tid, at, verb, other) in [(from, &start, "send to", to), (to, &end, "from", from)] {
        writeln!(
            out,
            ",{{\"ph\":\"X\",\"pid\":1,\"tid\":{tid},\"name\":\"{verb} {other}\",\"ts\":{at},\"dur\":0.001,\"args\":{{\"bytes\":{bytes}}}}}"
        )?;
    }
    let arrow = format!("\"cat\":\"arrow\",\"name\":\"message\",\"id\":{id},\"pid\":1");
    writeln!(out, ",{{\"ph\":\"s\",{arrow},\"tid\":{from},\"ts\":{start}}}")?;
    writeln!(out, ",{{\"ph\":\"f\",\"bp\":\"e\",{arrow},\"tid\":{to},\"ts\":{end}}}")
}

fn named(pid: u32, tid: Option<u32>, name: &str) -> String {
    let name = text(name);
    match tid {
        None => {
            format!("{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":{name}}}}}")
        }
        Some(tid) => {
            format!(
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}}"
            )
        }
    }
}

/// The format counts microseconds; picoseconds are kept as decimals.
fn micros(time_ps: u64) -> String {
    format!("{}.{:06}", time_ps / 1_000_000, time_ps % 1_000_000)
}

fn text(raw: &str) -> String {
    serde_json::Value::from(raw).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::nsim_torus;
    use crate::traffic::patterns::PairwiseExchange;
    use crate::traffic::rounds::{self, Setup};

    #[test]
    fn a_trace_is_json_with_a_bar_and_an_arrow_for_every_message() {
        let mut network = nsim_torus(&[4, 2], Trace::default()).unwrap();
        let setup = Setup::blocks(&network, 1);
        let report = rounds::run(&mut network, &PairwiseExchange::new(8, 50_000), &setup).unwrap();
        let mut bytes = Vec::new();
        network.probe().write(network.graph(), 5, &mut bytes).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let count = |kind: &str| events.iter().filter(|event| event["ph"] == kind).count();
        let messages = report.network_message_count as usize;
        assert_eq!(["b", "e", "s", "f"].map(count), [messages; 4]);
        // Counters never show more than all of the time, and the busiest link is drawn.
        let counters: Vec<f64> = events.iter().filter_map(|event| event["args"]["busy"].as_f64()).collect();
        assert!(counters.iter().all(|&percent| (0.0..=100.0).contains(&percent)));
        assert!(counters.iter().any(|&percent| percent > 50.0));
    }

    #[test]
    fn slices_double_and_keep_the_busy_time() {
        let mut trace = Trace::default();
        for start in 0..10_000 {
            trace.on_transmit(ChannelId(0), start * 1_000_000, start * 1_000_000 + 400_000, 2_048);
        }
        assert!(trace.busy_ps[0].len() <= 2 * SLICE_COUNT);
        assert_eq!(trace.busy_ps[0].iter().sum::<u64>(), 10_000 * 400_000);
    }
}
