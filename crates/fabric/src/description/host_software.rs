//! What software of a host costs: `[host_models.NAME.software]`.

use super::models::{GIGA, PS_PER_NS, TIME_NS};
use super::reader::{Result, Section};

/// How a process waits for what the network brings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Waiting {
    /// It looks again and again, and uses its core.
    #[default]
    Poll,
    /// It sleeps: an interrupt and a context switch wake it.
    Block,
    /// A thread of its own sleeps, and hands over to it.
    Thread,
}

/// A rate while the process works through this much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateWithin {
    /// Bytes between two uses of a buffer.
    pub working_set_bytes: u64,
    /// The rate, bytes/s.
    pub bytes_per_s: u64,
}

/// What a yield takes where so many processes share a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YieldAmong {
    /// So many processes of a core.
    pub process_count: u32,
    /// As [`SoftwareCosts::yield_ps`], ps.
    pub yield_ps: u64,
}

/// What work takes longer where it is of so many bytes, or of a process that goes through as many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimesWithin {
    /// So many.
    pub bytes: u64,
    /// Thousandths: 1,500 for half as long again.
    pub permille: u64,
}

/// What takes longer where so many processes of a host do the same at once than where two do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Among {
    /// So many processes, each with a core.
    pub process_count: u32,
    /// A collective operation in which all exchange short data, longer than between two, ps.
    pub exchange_ps: u64,
    /// Copies, by what the process goes through.
    pub copy: Vec<TimesWithin>,
    /// Reductions, by what the process goes through.
    pub reduce: Vec<TimesWithin>,
    /// The kernel's copies from one process to another, by their length.
    pub kernel_copy: Vec<TimesWithin>,
    /// Data from core to core, by their length.
    pub moved: Vec<TimesWithin>,
    /// Lines that others have read, got back for writing, by the length of what is written.
    pub lines_back: Vec<TimesWithin>,
}

/// What so many bytes take more than few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongerTime {
    /// So many.
    pub bytes: u64,
    /// So much more, ps.
    pub more_ps: u64,
}

/// How packets of so many bytes and more are copied in and out by two processes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PiecesFrom {
    /// Payload of so many bytes and more.
    pub bytes: u64,
    /// So much at a time; as much as the payload: one side after the other.
    pub piece_bytes: u64,
}

/// Host software costs; those not given are the simulator's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoftwareCosts {
    /// One system call, ps.
    pub system_call_ps: Option<u64>,
    /// System calls for each packet or transfer sent.
    pub send_system_calls: u32,
    /// System calls for each packet or completion received.
    pub receive_system_calls: u32,
    /// One interrupt, ps.
    pub interrupt_ps: Option<u64>,
    /// One context switch, ps.
    pub context_switch_ps: Option<u64>,
    /// From one thread of a process to another, by the operating system's means, ps.
    pub thread_switch_ps: Option<u64>,
    /// Until a process that waits, polls once and lets the next one of its core run has done so, ps.
    pub yield_ps: Option<u64>,
    /// The same where more than two processes share a core, the fewest first.
    pub yields_among: Vec<YieldAmong>,
    /// Where more than two processes of a host do the same at once, the fewest first.
    pub among: Vec<Among>,
    /// How a process waits.
    pub waiting: Waiting,
    /// Copying from and to memory, bytes/s.
    pub copy_bytes_per_s: Option<u64>,
    /// Copying what is in the cache, bytes/s.
    pub hot_copy_bytes_per_s: Option<u64>,
    /// Copies by a process that goes through so much memory, the least first; in place of both rates.
    pub copy_rates: Vec<RateWithin>,
    /// A call by which the kernel copies from another process' memory, without its bytes, ps.
    pub kernel_copy_ps: Option<u64>,
    /// The same while that process has the kernel copy from this one's memory, ps.
    pub kernel_copy_at_once_ps: Option<u64>,
    /// The library's software for a message that the kernel copies, beside its packets and the call, ps.
    pub get_ps: Option<u64>,
    /// The same while that process has the kernel copy from this one's memory, ps.
    pub get_at_once_ps: Option<u64>,
    /// The library's software for a message that is announced and then goes in packets within a host, both
    /// sides', beside its packets, ps.
    pub announce_ps: Option<u64>,
    /// Such copies from and to memory, bytes/s.
    pub kernel_copy_bytes_per_s: Option<u64>,
    /// Such copies of what is in the cache, bytes/s.
    pub hot_kernel_copy_bytes_per_s: Option<u64>,
    /// Such copies by a process that goes through so much memory, the least first; in place of both rates.
    pub kernel_copy_rates: Vec<RateWithin>,
    /// The same of what its owner has just written.
    pub fresh_kernel_copy_rates: Vec<RateWithin>,
    /// Long packets copied in by one process and out by another at once, by what a process goes through.
    pub relay_rates: Vec<RateWithin>,
    /// What such a packet takes beside its bytes at that rate: its first and its last part, which only one
    /// side copies, and the line's way, ps.
    pub relay_ends_ps: Option<u64>,
    /// The library's software for a message that goes in one packet within a host, by its length, both
    /// sides', more than for one of a cache line; beyond the last as much as there.
    pub longer_software: Vec<LongerTime>,
    /// Packets between two cores by their payload, the shortest first: more than one of a cache line, with
    /// both copies.
    pub longer_packets: Vec<LongerTime>,
    /// The same of packets one right after another, for who takes them.
    pub longer_packets_in_row: Vec<LongerTime>,
    /// Packets that are copied in and out at once, the shortest first.
    pub pieces: Vec<PiecesFrom>,
    /// Packets between two cores in blocks, memory that the two hand to and fro with them, as
    /// `longer_packets`; empty: there are no blocks.
    pub block_packets: Vec<LongerTime>,
    /// As `pieces`, in blocks.
    pub block_pieces: Vec<PiecesFrom>,
    /// As `relay_rates`, in blocks.
    pub block_relay_rates: Vec<RateWithin>,
    /// As `relay_ends_ps`, in blocks, ps.
    pub block_relay_ends_ps: Option<u64>,
    /// Whether these two cores are near, as the library sees it; `None`: it does not look.
    pub cores_are_near: Option<bool>,
    /// Data of collective operations in shared memory, by their length: written where another core has read,
    /// more than few bytes.
    pub shared_writes: Vec<LongerTime>,
    /// So many times as long the former take of who goes through so much until it writes there again.
    pub shared_writes_within: Vec<TimesWithin>,
    /// The same as the first: read where another core has just written.
    pub shared_reads: Vec<LongerTime>,
    /// Cache lines that another core has read, got back for writing, bytes/s.
    pub lines_back_bytes_per_s: Option<u64>,
    /// Time until a polling process sees an arrival, ps.
    pub poll_ps: Option<u64>,
    /// A reduction without its bytes, ps.
    pub reduce_ps: Option<u64>,
    /// Reducing what is in the cache, bytes of one operand/s.
    pub reduce_bytes_per_s: Option<u64>,
    /// Reductions by a process that goes through so much memory, the least first; in place of that rate.
    pub reduce_rates: Vec<RateWithin>,
    /// A collective operation in which few exchange short data at once, beside a message's software, ps.
    pub exchange_ps: Option<u64>,
    /// A collective operation that is a schedule of messages, beside these, ps.
    pub schedule_ps: Option<u64>,
    /// Copies of each packet's payload by its sender; `None`: one.
    pub send_copies: Option<u32>,
    /// Copies of each packet's payload by its receiver; `None`: one.
    pub receive_copies: Option<u32>,
    /// Checksums by software, on both sides, bytes/s.
    pub checksum_bytes_per_s: Option<u64>,
    /// One message sent, whatever its length, ps.
    pub send_ps: Option<u64>,
    /// One message received, whatever its length, ps.
    pub receive_ps: Option<u64>,
    /// Matching of one message with its receive, ps.
    pub match_ps: Option<u64>,
    /// Registration of memory, ps.
    pub register_ps: Option<u64>,
    /// Registration of each page of 4 KiB, ps.
    pub register_page_ps: Option<u64>,
}

pub(super) fn software(section: Section<'_>) -> Result<SoftwareCosts> {
    let s = &section;
    let time = |key| s.scaled(key, PS_PER_NS, TIME_NS.0, TIME_NS.1);
    let rate = |key| s.scaled(key, GIGA, 1e-3, 1e6);
    let number = |key| Ok(s.count(key, 0..=16)?.map(|count| count as u32));
    let costs = SoftwareCosts {
        system_call_ps: time("system_call_ns")?,
        send_system_calls: number("send_system_calls")?.unwrap_or(0),
        receive_system_calls: number("receive_system_calls")?.unwrap_or(0),
        interrupt_ps: time("interrupt_ns")?,
        context_switch_ps: time("context_switch_ns")?,
        thread_switch_ps: time("thread_switch_ns")?,
        yield_ps: time("yield_ns")?,
        yields_among: yields(s)?,
        among: among(s)?,
        waiting: match s.choice("waiting", &["poll", "block", "thread"])? {
            Some(1) => Waiting::Block,
            Some(2) => Waiting::Thread,
            _ => Waiting::Poll,
        },
        copy_bytes_per_s: rate("copy_gbytes_per_s")?,
        hot_copy_bytes_per_s: rate("hot_copy_gbytes_per_s")?,
        copy_rates: rates(s, "copy_rate")?,
        kernel_copy_ps: time("kernel_copy_ns")?,
        kernel_copy_at_once_ps: time("kernel_copy_at_once_ns")?,
        get_ps: time("get_ns")?,
        get_at_once_ps: time("get_at_once_ns")?,
        announce_ps: time("announce_ns")?,
        kernel_copy_bytes_per_s: rate("kernel_copy_gbytes_per_s")?,
        hot_kernel_copy_bytes_per_s: rate("hot_kernel_copy_gbytes_per_s")?,
        kernel_copy_rates: rates(s, "kernel_copy_rate")?,
        fresh_kernel_copy_rates: rates(s, "fresh_kernel_copy_rate")?,
        relay_rates: rates(s, "relay_rate")?,
        relay_ends_ps: time("relay_ends_ns")?,
        longer_software: longer(s, "longer_software")?,
        longer_packets: longer(s, "longer_packet")?,
        longer_packets_in_row: longer(s, "longer_packet_in_row")?,
        pieces: pieces(s, "pieces")?,
        block_packets: longer(s, "block_packet")?,
        block_pieces: pieces(s, "block_pieces")?,
        block_relay_rates: rates(s, "block_relay_rate")?,
        block_relay_ends_ps: time("block_relay_ends_ns")?,
        cores_are_near: s.flag("cores_are_near")?,
        shared_writes: longer(s, "shared_write")?,
        shared_writes_within: times(s, "shared_write_within")?,
        shared_reads: longer(s, "shared_read")?,
        lines_back_bytes_per_s: rate("lines_back_gbytes_per_s")?,
        poll_ps: time("poll_ns")?,
        reduce_ps: time("reduce_ns")?,
        reduce_bytes_per_s: rate("reduce_gbytes_per_s")?,
        reduce_rates: rates(s, "reduce_rate")?,
        exchange_ps: time("exchange_ns")?,
        schedule_ps: time("schedule_ns")?,
        send_copies: number("send_copies")?,
        receive_copies: number("receive_copies")?,
        checksum_bytes_per_s: rate("checksum_gbytes_per_s")?,
        send_ps: time("send_ns")?,
        receive_ps: time("receive_ns")?,
        match_ps: time("match_ns")?,
        register_ps: time("register_ns")?,
        register_page_ps: time("register_page_ns")?,
    };
    section.finish()?;
    Ok(costs)
}

/// Yields by how many processes share a core.
fn yields(s: &Section<'_>) -> Result<Vec<YieldAmong>> {
    let mut yields: Vec<YieldAmong> = Vec::new();
    for section in s.sections("yield_among")? {
        let process_count = section.required_count("processes", 3..=1 << 16, "4")? as u32;
        let yield_ps = section.required_scaled("ns", PS_PER_NS, TIME_NS, "900")?;
        if yields.last().is_some_and(|before| before.process_count >= process_count) {
            let problem = "`yield_among` has no more processes than the one before";
            return Err(section.error("processes", problem, "list the fewest first"));
        }
        section.finish()?;
        yields.push(YieldAmong { process_count, yield_ps });
    }
    Ok(yields)
}

/// What takes longer among more than two.
fn among(s: &Section<'_>) -> Result<Vec<Among>> {
    let mut all: Vec<Among> = Vec::new();
    for section in s.sections("among")? {
        let process_count = section.required_count("processes", 3..=1 << 16, "4")? as u32;
        if all.last().is_some_and(|before| before.process_count >= process_count) {
            let problem = "`among` has no more processes than the one before";
            return Err(section.error("processes", problem, "list the fewest first"));
        }
        let one = Among {
            process_count,
            exchange_ps: section.scaled("exchange_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?.unwrap_or(0),
            copy: times(&section, "copy")?,
            reduce: times(&section, "reduce")?,
            kernel_copy: times(&section, "kernel_copy")?,
            moved: times(&section, "moved")?,
            lines_back: times(&section, "lines_back")?,
        };
        section.finish()?;
        all.push(one);
    }
    Ok(all)
}

fn times(s: &Section<'_>, key: &'static str) -> Result<Vec<TimesWithin>> {
    let mut all: Vec<TimesWithin> = Vec::new();
    for section in s.sections(key)? {
        let bytes = section.required_scaled("within_kib", 1024.0, (1e-3, 1e12), "128")?;
        let permille = section.required_scaled("times", 1e3, (1e-3, 1e6), "1.5")?;
        if all.last().is_some_and(|before| before.bytes >= bytes) {
            let problem = format!("`{key}` is of no more memory than the one before");
            return Err(section.error("within_kib", problem, "list the smallest first"));
        }
        section.finish()?;
        all.push(TimesWithin { bytes, permille });
    }
    Ok(all)
}

/// Pieces of packets by their length.
fn pieces(s: &Section<'_>, key: &'static str) -> Result<Vec<PiecesFrom>> {
    let mut all: Vec<PiecesFrom> = Vec::new();
    for section in s.sections(key)? {
        let bytes = section.required_count("bytes", 1..=1 << 30, "4096")?;
        let piece_bytes = section.required_count("piece_bytes", 1..=1 << 30, "2048")?;
        if all.last().is_some_and(|before| before.bytes >= bytes) {
            let problem = format!("`{key}` is of no longer packets than the one before");
            return Err(section.error("bytes", problem, "list the shortest first"));
        }
        section.finish()?;
        all.push(PiecesFrom { bytes, piece_bytes });
    }
    Ok(all)
}

/// Times by length.
pub(super) fn longer(s: &Section<'_>, key: &'static str) -> Result<Vec<LongerTime>> {
    let mut times: Vec<LongerTime> = Vec::new();
    for section in s.sections(key)? {
        let bytes = section.required_count("bytes", 1..=1 << 30, "1024")?;
        let more_ps = section.required_scaled("more_ns", PS_PER_NS, TIME_NS, "190")?;
        if times.last().is_some_and(|before| before.bytes >= bytes) {
            let problem = format!("`{key}` is of no more than the one before");
            return Err(section.error("bytes", problem, "list the shortest first"));
        }
        section.finish()?;
        times.push(LongerTime { bytes, more_ps });
    }
    Ok(times)
}

/// Rates by what a process goes through.
pub(super) fn rates(s: &Section<'_>, key: &'static str) -> Result<Vec<RateWithin>> {
    let mut rates: Vec<RateWithin> = Vec::new();
    for section in s.sections(key)? {
        let working_set_bytes = section.required_scaled("within_kib", 1024.0, (1e-3, 1e12), "128")?;
        let bytes_per_s = section.required_scaled("gbytes_per_s", GIGA, (1e-3, 1e6), "13.4")?;
        if rates.last().is_some_and(|before| before.working_set_bytes >= working_set_bytes) {
            let problem = format!("`{key}` goes through less memory than the one before");
            return Err(section.error("within_kib", problem, "list the smallest first"));
        }
        section.finish()?;
        rates.push(RateWithin { working_set_bytes, bytes_per_s });
    }
    Ok(rates)
}
