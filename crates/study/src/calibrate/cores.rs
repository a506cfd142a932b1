//! What goes from core to core through memory that two ranks share, without messages: packets, and data of
//! collective operations.

use std::fmt::Write as _;

use super::samples::{
    BLOCK_PACKET, BLOCK_PIECE, BLOCK_RELAY, LINES_BACK, MESSAGE, PACKET, PACKETS_IN_ROW, PIECE, SHARED_READ,
    SHARED_WRITE, SHARED_WRITE_WITHIN, SHORT_BYTES, Sample, ends_ns, longer_lines, quantile, rate_lines,
    times_ns, without_ends,
};

/// Packets of so many bytes go in pieces through the caches, and not past them.
const PIECES_IF_NEAR_BYTES: u64 = 8 << 10;

/// Payload up to the first length goes in a pair of lines, up to the second in lines of its own, and longer
/// payload in blocks, bytes (`bench/packets.c`).
const IN_PACKETS_BYTES: [u64; 2] = [88, 512];

/// See the module's documentation. Times in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoreFit {
    /// The library's software for messages of so many bytes more than for a short one.
    pub longer_software: Vec<(u64, f64)>,
    /// What a packet of so many bytes takes more than a short one, with both copies.
    pub longer_packets: Vec<(u64, f64)>,
    /// The same of packets one right after another, for who takes them.
    pub longer_packets_in_row: Vec<(u64, f64)>,
    /// Packets of so many bytes and more are copied in and out at once, so many bytes at a time; empty: not
    /// known.
    pub pieces: Vec<(u64, u64)>,
    /// Of packets in blocks that both hand to and fro, and whether they are near, as the library sees it;
    /// `None`: there are no blocks.
    pub blocks: Option<BlockFit>,
    /// Lines that the other core has read, got back for writing, GB/s; `None`: it was not measured, or nobody
    /// waits for them.
    pub lines_back_gbytes_per_s: Option<f64>,
    /// What so many bytes take that are written where the other core has read, more than two lines.
    pub shared_writes: Vec<(u64, f64)>,
    /// How many times as long these take, by how many bytes a rank goes through until it writes there again.
    pub shared_writes_within: Vec<(u64, f64)>,
    /// What so many bytes take that the other core has just written.
    pub shared_reads: Vec<(u64, f64)>,
}

/// What packets take in blocks. Times in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockFit {
    /// As [`CoreFit::longer_packets`].
    pub packets: Vec<(u64, f64)>,
    /// As [`CoreFit::pieces`].
    pub pieces: Vec<(u64, u64)>,
    /// Rates of long packets by what a process goes through, GB/s, and what these take beside.
    pub relay: Vec<(u64, f64)>,
    /// See `relay`.
    pub relay_ends_ns: Option<f64>,
    /// Whether the library does not write past the caches between these cores.
    pub cores_are_near: bool,
}

fn blocks(samples: &[Sample], pieces: &[(u64, u64)]) -> Option<BlockFit> {
    let packets = longer_packets(&times_ns(samples, BLOCK_PACKET));
    let relay = times_ns(samples, BLOCK_RELAY);
    // Past the caches packets of 8 KiB go whole.
    let cores_are_near = is_in_pieces(pieces, PIECES_IF_NEAR_BYTES);
    let fit = BlockFit {
        packets,
        pieces: pieces_of(samples, BLOCK_PIECE),
        relay: without_ends(&relay),
        relay_ends_ns: ends_ns(&relay),
        cores_are_near,
    };
    (!fit.packets.is_empty()).then_some(fit)
}

pub(super) fn fit(samples: &[Sample], lines_back_gbytes_per_s: Option<f64>) -> CoreFit {
    let pieces = pieces_of(samples, PIECE);
    let mut in_row = times_ns(samples, PACKETS_IN_ROW);
    // Those in pieces are worked on by both sides from their beginning, whatever was before.
    in_row.retain(|&(bytes, _)| !is_in_pieces(&pieces, bytes));
    CoreFit {
        longer_software: longer_software(samples),
        longer_packets: longer_packets(&times_ns(samples, PACKET)),
        longer_packets_in_row: longer_packets(&in_row),
        blocks: blocks(samples, &pieces),
        pieces,
        lines_back_gbytes_per_s,
        shared_writes: times_ns(samples, SHARED_WRITE),
        shared_writes_within: beside_first(&times(samples, SHARED_WRITE_WITHIN)),
        shared_reads: times_ns(samples, SHARED_READ),
    }
}

/// Of times by what a rank goes through: how many times as long as the first.
fn beside_first(times: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let Some(&(_, first)) = times.first() else { return Vec::new() };
    times.iter().map(|&(bytes, time)| (bytes, time / first)).collect()
}

/// By length, or by what a rank goes through; more may be quicker.
fn times(samples: &[Sample], name: &str) -> Vec<(u64, f64)> {
    let of_name = samples.iter().filter(|sample| sample.name == name);
    let mut times: Vec<(u64, f64)> = of_name.map(|sample| (sample.bytes, sample.value)).collect();
    times.sort_unstable_by_key(|time| time.0);
    times
}

/// Packets that were copied in and then out, by length: what they take, ns.
pub(super) fn whole_packets(samples: &[Sample]) -> Vec<(u64, f64)> {
    let pieces = pieces_of(samples, PIECE);
    times_ns(samples, PACKET).into_iter().filter(|&(bytes, _)| !is_in_pieces(&pieces, bytes)).collect()
}

/// What packets take beside what one of a cache line does.
fn longer_packets(packets_ns: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let Some(&(SHORT_BYTES, short_ns)) = packets_ns.first() else { return Vec::new() };
    packets_ns[1..].iter().map(|&(bytes, ns)| (bytes, (ns - short_ns).max(0.0))).collect()
}

/// What messages take beside the packets that they go in, less what a short one does: the median over lengths
/// that go alike, since of one length it is a small difference of figures that spread as much. From where
/// there are blocks, those of a ping-pong go in blocks.
fn longer_software(samples: &[Sample]) -> Vec<(u64, f64)> {
    let [packets, blocks] = [PACKET, BLOCK_PACKET].map(|name| longer_packets(&times_ns(samples, name)));
    // One in a block may be quicker than a shorter one in lines.
    let messages_ns: Vec<(u64, f64)> =
        times(samples, MESSAGE).into_iter().map(|(bytes, us)| (bytes, 1e3 * us)).collect();
    let messages = longer_packets(&messages_ns);
    let packet = |bytes| blocks.iter().chain(&packets).find(|packet| packet.0 == bytes);
    let software = |&(bytes, ns): &(u64, f64)| Some((bytes, ns - packet(bytes)?.1));
    let software: Vec<(u64, f64)> = messages.iter().filter_map(software).collect();
    let mut found = Vec::new();
    for alike in
        software.chunk_by(|a, b| IN_PACKETS_BYTES.iter().all(|most| (a.0 <= *most) == (b.0 <= *most)))
    {
        let mut ns: Vec<f64> = alike.iter().map(|one| one.1).collect();
        ns.sort_unstable_by(f64::total_cmp);
        let median_ns = quantile(&ns, 0.5).max(0.0);
        let (first, last) = (alike[0].0, alike[alike.len() - 1].0);
        found.push((first, median_ns));
        if last > first {
            found.push((last, median_ns));
        }
    }
    found
}

/// From which length on packets go in which pieces, the shortest first.
fn pieces_of(samples: &[Sample], name: &str) -> Vec<(u64, u64)> {
    let of_name = samples.iter().filter(|sample| sample.name == name);
    let mut told: Vec<(u64, u64)> =
        of_name.map(|sample| (sample.bytes, (1_024.0 * sample.value).round() as u64)).collect();
    told.sort_unstable();
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for (bytes, piece_bytes) in told {
        let is_other = pieces.last().map_or(piece_bytes < bytes, |before| before.1 != piece_bytes);
        if is_other {
            pieces.push((bytes, piece_bytes));
        }
    }
    pieces
}

fn is_in_pieces(pieces: &[(u64, u64)], bytes: u64) -> bool {
    pieces.iter().rev().find(|from| from.0 <= bytes).is_some_and(|from| from.1 < bytes)
}

/// Keys of a host's software.
pub(super) fn lines(fit: &CoreFit) -> String {
    let CoreFit {
        longer_software,
        longer_packets,
        longer_packets_in_row,
        pieces,
        blocks,
        lines_back_gbytes_per_s,
        shared_writes,
        shared_writes_within,
        shared_reads,
    } = fit;
    let mut text = longer_lines("longer_software", "messages, less such packets", longer_software);
    text += &longer_lines("longer_packet", "through memory, without messages", longer_packets);
    text += &longer_lines("longer_packet_in_row", "one right after another", longer_packets_in_row);
    text += &piece_lines("pieces", pieces);
    if let Some(BlockFit { packets, pieces, relay, relay_ends_ns, cores_are_near }) = blocks {
        text += &longer_lines("block_packet", "in memory that both hand to and fro", packets);
        text += &piece_lines("block_pieces", pieces);
        text += &rate_lines("block_relay_rate", "there copied in by one core and out by another", relay);
        if let Some(ends_ns) = relay_ends_ns {
            let _ = writeln!(text, "block_relay_ends_ns = {ends_ns:.1}");
        }
        let _ = writeln!(text, "cores_are_near = {cores_are_near} # as the library sees it");
    }
    if let Some(rate) = lines_back_gbytes_per_s {
        let _ = writeln!(text, "{LINES_BACK}_gbytes_per_s = {rate:.3} # lines that the other has read");
    }
    text += &longer_lines(SHARED_WRITE, "where the other has read", shared_writes);
    if !shared_writes_within.is_empty() {
        text += &format!("{SHARED_WRITE_WITHIN} = [ # until the same memory is written again\n");
        for &(bytes, times) in shared_writes_within {
            let _ = writeln!(text, "    {{ within_kib = {}, times = {times:.3} }},", bytes as f64 / 1_024.0);
        }
        text += "]\n";
    }
    text + &longer_lines(SHARED_READ, "where the other has just written", shared_reads)
}

fn piece_lines(key: &str, pieces: &[(u64, u64)]) -> String {
    if pieces.is_empty() {
        return String::new();
    }
    let line = |(bytes, piece_bytes)| format!("    {{ bytes = {bytes}, piece_bytes = {piece_bytes} }},\n");
    let lines: String = pieces.iter().copied().map(line).collect();
    format!("{key} = [ # copied in and out at once, as the library's shared memory does here\n{lines}]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, bytes: u64, value: f64) -> Sample {
        Sample { name: name.into(), ranks: 2, bytes, value }
    }

    /// Packets of 8 B to 32 KiB, one way and in a row.
    fn packets() -> Vec<Sample> {
        let lengths = [8, 256, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
        let both = |bytes: u64| {
            let us = 0.1 + bytes as f64 / 20e3;
            [sample(PACKET, bytes, us), sample(PACKETS_IN_ROW, bytes, us / 2.0)]
        };
        lengths.into_iter().flat_map(both).collect()
    }

    fn told(pieces_kib: [f64; 5]) -> CoreFit {
        let lengths = [4 << 10, 8 << 10, 10 << 10, 32 << 10, (32 << 10) + 64];
        let pieces = lengths.into_iter().zip(pieces_kib).map(|(bytes, kib)| sample(PIECE, bytes, kib));
        fit(&packets().into_iter().chain(pieces).collect::<Vec<_>>(), None)
    }

    #[test]
    fn packets_go_in_the_pieces_that_the_benchmark_told() {
        // As on an EPYC through the caches and past them, and as on a Xeon; what is whole is one piece.
        for (kib, pieces, in_row) in [
            ([2.0, 4.0, 4.0, 4.0, 4.0], &[(4 << 10, 2 << 10), (8 << 10, 4 << 10)][..], 2),
            ([4.0, 8.0, 10.0, 16.0, 16.0], &[(32 << 10, 16 << 10)], 5),
            ([4.0, 8.0, 4.0, 4.0, 32.0], &[(10 << 10, 4 << 10), ((32 << 10) + 64, 32 << 10)], 4),
        ] {
            let found = told(kib);
            assert_eq!(found.pieces, pieces);
            assert_eq!((found.longer_packets.len(), found.longer_packets_in_row.len()), (6, in_row));
        }
        assert_eq!(fit(&packets(), None).pieces, []);
    }

    #[test]
    fn software_of_messages_is_what_their_packets_do_not_take() {
        let of = |name: &'static str, ns: &[(u64, f64)]| -> Vec<Sample> {
            ns.iter().map(|&(bytes, ns)| sample(name, bytes, ns / 1e3)).collect()
        };
        let packets = of(PACKET, &[(8, 50.0), (40, 60.0), (96, 90.0), (640, 130.0), (1 << 10, 200.0)]);
        let messages = of(MESSAGE, &[(8, 130.0), (40, 150.0), (96, 200.0), (640, 300.0), (1 << 10, 360.0)]);
        let samples = [packets, messages].concat();
        let assert_found = |samples: &[Sample], expected: &[(u64, f64)]| {
            let found = fit(samples, None).longer_software;
            let is_near = |(a, b): (&(u64, f64), &(u64, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6;
            assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{found:?}");
        };
        // 90 and 80 of the two longest.
        assert_found(&samples, &[(40, 10.0), (96, 30.0), (640, 85.0), (1 << 10, 85.0)]);
        // In a block one takes less than in lines, and the rest is software: 120 and 80.
        let blocks = of(BLOCK_PACKET, &[(8, 50.0), (640, 100.0)]);
        let in_blocks = [samples.clone(), blocks].concat();
        assert_found(&in_blocks, &[(40, 10.0), (96, 30.0), (640, 100.0), (1 << 10, 100.0)]);
        assert_found(&samples[..5], &[]);
        // A message of 640 B takes less than one of 96 B.
        let mut quicker = in_blocks;
        quicker[8].value = 0.19;
        assert_found(&quicker, &[(40, 10.0), (96, 30.0), (640, 45.0), (1 << 10, 45.0)]);
    }

    #[test]
    fn the_slope_of_copies_is_of_packets_that_are_not_in_pieces() {
        let all = packets();
        assert_eq!(whole_packets(&all).len(), 7);
        let told = [all, vec![sample(PIECE, 4 << 10, 2.0)]].concat();
        assert_eq!(whole_packets(&told).iter().map(|one| one.0).collect::<Vec<_>>(), [8, 256, 1 << 10]);
    }

    #[test]
    fn shared_data_take_what_they_do_with_their_first_line() {
        let shared = |name: &str| [sample(name, 1 << 10, 0.03), sample(name, 64 << 10, 7.54)];
        let within = [sample(SHARED_WRITE_WITHIN, 2 << 20, 2.0), sample(SHARED_WRITE_WITHIN, 640 << 10, 8.0)];
        let samples = [shared(SHARED_WRITE), shared(SHARED_READ), within].concat();
        let found = fit(&samples, Some(24.0));
        assert_eq!(found.shared_writes_within, [(640 << 10, 1.0), (2 << 20, 0.25)]);
        assert_eq!(found.shared_writes, [(1 << 10, 30.0), (64 << 10, 7_540.0)]);
        assert_eq!(found.shared_reads, found.shared_writes);
        let text = lines(&found);
        for expected in [
            "lines_back_gbytes_per_s = 24.000",
            "shared_write = [ # where the other has read\n    { bytes = 1024, more_ns = 30.0 },\n",
            "shared_write_within = [ # until the same memory is written again\n    \
             { within_kib = 640, times = 1.000 },\n    { within_kib = 2048, times = 0.250 },\n]\n",
            "shared_read = [ # where the other has just written\n",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        assert_eq!(lines(&CoreFit::default()), "");
    }
}
