//! A trace for Perfetto (<https://ui.perfetto.dev>), in Chrome's JSON format.
//!
//! A track for each rank with slices for the time in the library and for computing (it waits in between), a
//! bar for every operation from its call to its completion, and an arrow from each send to the receive that
//! took it. A track for each NIC with a bar for every message under way and an arrow from its start to its
//! arrival. A counter for each of the busiest links with its utilisation over time.
//!
//! Memory is bounded: beyond [`RECORD_COUNT_MAX`] messages, slices or operations only counters go on, and the
//! trace says so; counters keep [`SLICE_COUNT`] to twice as many slices of time, doubling their length when
//! the run gets longer.

use std::collections::{BTreeMap, VecDeque};
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
        /// With this tag.
        tag: i32,
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
            Operation::Send { to, bytes, .. } => (format!("send to {to}"), bytes),
            Operation::Receive { from: Source::Rank(from), bytes } => (format!("receive from {from}"), bytes),
            Operation::Receive { bytes, .. } => ("receive from any".into(), bytes),
            Operation::Collective { name, bytes } => (name.into(), bytes),
        }
    }
}

/// Names an operation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar(u32);

/// Tracks of cores but the first have the core above the rank.
const CORE_SHIFT: u32 = 24;

fn track_of(rank: u32, core: usize) -> u32 {
    (core as u32) << CORE_SHIFT | rank
}

#[derive(Debug, Clone, Copy)]
struct Slice {
    start_ps: u64,
    end_ps: u64,
    /// See [`track_of`].
    track: u32,
    activity: Activity,
}

#[derive(Debug, Clone, Copy)]
struct OperationBar {
    start_ps: u64,
    end_ps: u64,
    rank: u32,
    operation: Operation,
    /// Of a receive: the sender and the tag of what it took.
    took: Option<(u32, i32)>,
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
    /// Likewise of their further cores, by track.
    last_slice_of_core: BTreeMap<u32, u32>,
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
            last_slice_of_core: BTreeMap::new(),
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

    /// A core of a rank is busy.
    pub fn on_activity(
        &mut self,
        (rank, core): (u32, usize),
        activity: Activity,
        start_ps: u64,
        end_ps: u64,
    ) {
        if start_ps == end_ps {
            return;
        }
        if self.last_slice.len() <= rank as usize {
            self.last_slice.resize(rank as usize + 1, u32::MAX);
        }
        let is_full = self.slices.len() == RECORD_COUNT_MAX;
        let track = track_of(rank, core);
        let last = match core {
            0 => &mut self.last_slice[rank as usize],
            _ => self.last_slice_of_core.entry(track).or_insert(u32::MAX),
        };
        match self.slices.get_mut(*last as usize) {
            Some(slice) if slice.end_ps == start_ps && slice.activity == activity => slice.end_ps = end_ps,
            _ if is_full => self.lost_count += 1,
            _ => {
                *last = self.slices.len() as u32;
                self.slices.push(Slice { start_ps, end_ps, track, activity });
            }
        }
    }

    /// A rank has called for an operation. `None` if there are too many to keep.
    pub fn begin_operation(&mut self, rank: u32, operation: Operation, start_ps: u64) -> Option<Bar> {
        if self.operations.len() == RECORD_COUNT_MAX {
            self.lost_count += 1;
            return None;
        }
        self.operations.push(OperationBar { start_ps, end_ps: u64::MAX, rank, operation, took: None });
        Some(Bar(self.operations.len() as u32 - 1))
    }

    /// The rank has seen its end. `took`: the sender and the tag of the message, for a receive that took one.
    pub fn end_operation(&mut self, bar: Bar, end_ps: u64, took: Option<(u32, i32)>) {
        let operation = &mut self.operations[bar.0 as usize];
        (operation.end_ps, operation.took) = (end_ps, took);
    }

    /// Sends and the receives that took their messages, by index. Messages of one sender to one receiver with
    /// one tag are taken in the order sent, by receives in the order called for.
    fn matched(&self) -> Vec<(usize, usize)> {
        let mut sends: BTreeMap<(u32, u32, i32), VecDeque<usize>> = BTreeMap::new();
        for (index, bar) in self.operations.iter().enumerate() {
            if let Operation::Send { to, tag, .. } = bar.operation {
                sends.entry((bar.rank, to, tag)).or_default().push_back(index);
            }
        }
        let taken = |(index, bar): (usize, &OperationBar)| {
            let (from, tag) = bar.took?;
            let send = sends.get_mut(&(from, bar.rank, tag))?.pop_front()?;
            Some((send, index))
        };
        self.operations.iter().enumerate().filter_map(taken).collect()
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
        for &track in self.last_slice_of_core.keys() {
            let (rank, core) = (track & ((1 << CORE_SHIFT) - 1), track >> CORE_SHIFT);
            writeln!(out, ",{}", named(3, Some(track), &format!("rank {rank} core {core}")))?;
        }
        for Slice { start_ps, end_ps, track, activity } in &self.slices {
            let name = match activity {
                Activity::Library => "library",
                Activity::Computing => "computing",
            };
            let (start, length) = (micros(*start_ps), micros(end_ps - start_ps));
            writeln!(
                out,
                ",{{\"ph\":\"X\",\"pid\":3,\"tid\":{track},\"name\":\"{name}\",\"ts\":{start},\"dur\":{length}}}"
            )?;
        }
        let ended = self.operations.iter().enumerate().filter(|(_, bar)| bar.end_ps != u64::MAX);
        for (id, OperationBar { start_ps, end_ps, rank, operation, .. }) in ended {
            let (name, bytes) = operation.name_and_bytes();
            let (start, end) = (micros(*start_ps), micros(*end_ps));
            let common =
                format!("\"cat\":\"operation\",\"id\":{id},\"pid\":3,\"tid\":{rank},\"name\":\"{name}\"");
            writeln!(out, ",{{\"ph\":\"b\",{common},\"ts\":{start},\"args\":{{\"bytes\":{bytes}}}}}")?;
            writeln!(out, ",{{\"ph\":\"e\",{common},\"ts\":{end}}}")?;
        }
        for (id, (send, receive)) in self.matched().into_iter().enumerate() {
            let [send, receive] = [send, receive].map(|index| &self.operations[index]);
            let (from, to) = (send.rank, receive.rank);
            let ends = [(from, micros(send.start_ps)), (to, micros(receive.end_ps))];
            let names = [format!("to {to}"), format!("from {from}")];
            write_arrow(3, "match", id, &ends, &names, send.operation.name_and_bytes().1, out)?;
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

/// A bar of its own for a message (they overlap, so each is an asynchronous slice), and an arrow between the
/// moments of sending and of arrival, which are slices of a nanosecond for the arrow to hold on to.
fn write_bar(id: usize, bar: &MessageBar, out: &mut impl Write) -> io::Result<()> {
    let MessageBar { start_ps, end_ps, from, to, bytes } = *bar;
    let (start, end) = (micros(start_ps), micros(end_ps));
    let common = format!("\"cat\":\"message\",\"id\":{id},\"pid\":1,\"tid\":{from},\"name\":\"to {to}\"");
    writeln!(out, ",{{\"ph\":\"b\",{common},\"ts\":{start},\"args\":{{\"bytes\":{bytes}}}}}")?;
    writeln!(out, ",{{\"ph\":\"e\",{common},\"ts\":{end}}}")?;
    let names = [format!("send to {to}"), format!("from {from}")];
    write_arrow(1, "arrow", id, &[(from, start), (to, end)], &names, bytes, out)
}

/// An arrow between two moments of two tracks of a process, each with a slice of a nanosecond to hold on to.
fn write_arrow(
    pid: u32,
    category: &str,
    id: usize,
    ends: &[(u32, String); 2],
    names: &[String; 2],
    bytes: u64,
    out: &mut impl Write,
) -> io::Result<()> {
    for ((tid, at), name) in ends.iter().zip(names) {
        writeln!(
            out,
            ",{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{name}\",\"ts\":{at},\"dur\":0.001,\"args\":{{\"bytes\":{bytes}}}}}"
        )?;
    }
    let arrow = format!("\"cat\":\"{category}\",\"name\":\"message\",\"id\":{id},\"pid\":{pid}");
    let [(from, start), (to, end)] = ends;
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
    fn arrows_join_each_send_with_the_receive_that_took_it() {
        let mut trace = Trace::default();
        let send = |tag| Operation::Send { to: 1, tag, bytes: 8 };
        let receive = Operation::Receive { from: Source::Any, bytes: 8 };
        let [first, second, other] = [7, 7, 9].map(|tag| trace.begin_operation(0, send(tag), 10).unwrap());
        let receives = [20, 21, 22, 23].map(|at| trace.begin_operation(1, receive, at).unwrap());
        // The one with the other tag was taken first; the last receive was cancelled.
        let took = [Some((0, 9)), Some((0, 7)), Some((0, 7)), None];
        for (bar, took) in receives.into_iter().zip(took).rev() {
            trace.end_operation(bar, 30, took);
        }
        let index = |bar: Bar| bar.0 as usize;
        let pairs = [(other, receives[0]), (first, receives[1]), (second, receives[2])];
        assert_eq!(trace.matched(), pairs.map(|(send, receive)| (index(send), index(receive))));
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
