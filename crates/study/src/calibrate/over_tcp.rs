//! Messages over TCP between two hosts: the costs of sockets from what a raw connection over the loopback
//! took (`bench/sockets.c`), and what the simulator says of two hosts with nothing between them.
//!
//! A send goes through the system down to the other side's queue, so what a short message takes one way is
//! the send and the read, and no wire. What the library adds to a packet is what its windows of short
//! messages take more than those of the raw connection.

use std::fmt::Write as _;

use ayatori_fabric::description::Machine;
use ayatori_sim::cluster::{Cluster, Config};
use ayatori_sim::machine::{Simulated, cluster_config, simulate};

use super::samples::{CHECKSUM, OVER_TCP, RATE_MAX_GBYTES_PER_S, RATE_WINDOW, SHORT_BYTES, Sample};
use super::samples::{longer_lines, rate_lines, times_ns, value_of, without_ends};

const SEND: &str = "socket_send";
const RELAY: &str = "socket_relay";
const RATE: &str = "socket_rate";
const STREAM: &str = "socket_stream";
/// What the library sends for a message of 8 B, bytes.
const FRAME_BYTES: u64 = 64;
/// Sends of a raw window (`bench/sockets.c`).
const WINDOW: f64 = 16.0;
/// Packets that the library acknowledges at once (`ayatori_core`, link).
const PACKETS_AN_ACK: f64 = 16.0;
/// The system hands over longer ones in several pieces, bytes.
const SEGMENT_BYTES_MAX: u64 = 60 << 10;
/// Bytes of which the system hands over a whole piece and a short one.
const TWO_SEGMENTS_BYTES: u64 = 64 << 10;

/// Costs of sockets.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketFit {
    /// A short send while nobody reads, and longer ones beside it, by their bytes, ns.
    pub send_ns: f64,
    /// See `send_ns`.
    pub longer_sends: Vec<(u64, f64)>,
    /// The same of sends right after others, which the other side reads meanwhile, ns.
    pub stream_ns: f64,
    /// See `stream_ns`.
    pub longer_streams: Vec<(u64, f64)>,
    /// What a packet takes more that comes in several segments, the last of them short, ns.
    pub segment_ns: f64,
    /// The same of reads of what has come by who asks again and again, while nobody sends, ns.
    pub receive_ns: f64,
    /// See `receive_ns`.
    pub longer_receives: Vec<(u64, f64)>,
    /// Sends and reads at once: rates of who goes through so many bytes, GB/s.
    pub relay: Vec<(u64, f64)>,
    /// Long sends one right after another: rates of who goes through so many bytes, GB/s.
    pub stream: Vec<(u64, f64)>,
    /// The library's software for a packet, beside what it takes in shared memory, ns.
    pub library_ns: f64,
    /// The library's sums, GB/s.
    pub checksum_gbytes_per_s: f64,
}

/// `None`: sockets were not measured. `software_ns`: of a message in shared memory.
pub(super) fn sockets(samples: &[Sample], software_ns: f64) -> Option<SocketFit> {
    let whole = |name: &str| {
        let mut times = times_ns(samples, name);
        times.retain(|time| time.0 <= SEGMENT_BYTES_MAX);
        times
    };
    let (sends, ways, streams) = (whole(SEND), whole(RELAY), times_ns(samples, RATE));
    let (send_ns, longer_sends) = longer(&sends)?;
    let (way_ns, _) = longer(&ways)?;
    let received = |&(bytes, way_ns): &(u64, f64)| {
        let sent_ns = sends.iter().find(|send| send.0 == bytes)?.1;
        Some((bytes, (way_ns - sent_ns).max(0.0)))
    };
    let receives: Vec<(u64, f64)> = ways.iter().filter_map(received).collect();
    let (receive_ns, longer_receives) = longer(&receives)?;
    let mut long = times_ns(samples, RELAY);
    long.retain(|time| time.0 > SEGMENT_BYTES_MAX);
    let two_ns = long.first().filter(|time| time.0 == TWO_SEGMENTS_BYTES).map(|time| time.1);
    let segment_ns = two_ns.zip(ways.last()).map_or(0.0, |(two_ns, &(bytes, whole_ns))| {
        // As the simulator has what is longer than the last entry.
        let more_bytes = [TWO_SEGMENTS_BYTES, bytes].map(|bytes| (bytes - FRAME_BYTES) as f64);
        (two_ns - way_ns - (whole_ns - way_ns) * more_bytes[0] / more_bytes[1]).max(0.0)
    });
    long.iter_mut().for_each(|time| time.1 -= segment_ns);
    // A window's last message is read, and the answer comes.
    let answer_ns = receive_ns + way_ns;
    let (window_ns, longer_streams) = longer(&streams)?;
    let stream_ns = window_ns - answer_ns / WINDOW;
    let library_ns = value_of(samples, &format!("{OVER_TCP}rate"), SHORT_BYTES).ok();
    // And one acknowledgement is read for every sixteen packets.
    let rest_ns = answer_ns / f64::from(RATE_WINDOW) + (receive_ns + software_ns) / PACKETS_AN_ACK;
    let library_ns = library_ns.map_or(0.0, |rate| 1e3 / rate - stream_ns - software_ns - rest_ns);
    let checksum = samples.iter().find(|sample| sample.name == CHECKSUM)?;
    Some(SocketFit {
        send_ns,
        longer_sends,
        stream_ns,
        longer_streams,
        segment_ns,
        receive_ns,
        longer_receives,
        relay: without_ends(&long),
        stream: long_streams(samples),
        library_ns: library_ns.max(0.0),
        checksum_gbytes_per_s: checksum.value.min(RATE_MAX_GBYTES_PER_S),
    })
}

/// What the shortest takes, and what the others take beside it.
fn longer(times: &[(u64, f64)]) -> Option<(f64, Vec<(u64, f64)>)> {
    let (&(_, short_ns), rest) = times.split_first().filter(|(time, _)| time.0 == FRAME_BYTES)?;
    Some((short_ns, rest.iter().map(|&(bytes, ns)| (bytes, (ns - short_ns).max(0.0))).collect()))
}

/// A window's memory is gone through at either side.
fn long_streams(samples: &[Sample]) -> Vec<(u64, f64)> {
    let rate = |(bytes, ns): (u64, f64)| (2 * WINDOW as u64 * bytes, bytes as f64 / ns);
    times_ns(samples, STREAM).into_iter().map(rate).collect()
}

/// The section of a NIC. `said_mbit_per_s`: its rate for the library, where that is not what it is.
pub(super) fn lines(fit: &SocketFit, said_mbit_per_s: Option<u32>) -> String {
    let mut text = "\n[host_models.node.nic.sockets] # TCP over the loopback, without messages\n".to_owned();
    if let Some(said) = said_mbit_per_s {
        let _ = writeln!(text, "said_gbps = {} # it says none", f64::from(said) / 1e3);
    }
    let _ = write!(
        text,
        "\
         send_ns = {:.1} # a send of {FRAME_BYTES} B\n\
         stream_ns = {:.1} # windows of {FRAME_BYTES} B\n\
         segment_ns = {:.1} # {TWO_SEGMENTS_BYTES} B one way, which leave in two segments\n\
         receive_ns = {:.1} # the rest of {FRAME_BYTES} B one way\n\
         library_ns = {:.1} # windows of 8 B messages, less raw ones of {FRAME_BYTES} B\n\
         checksum_gbytes_per_s = {:.3}\n",
        fit.send_ns, fit.stream_ns, fit.segment_ns, fit.receive_ns, fit.library_ns, fit.checksum_gbytes_per_s,
    );
    text += &longer_lines("longer_send", "while nobody reads", &fit.longer_sends);
    text += &longer_lines("longer_stream", "windows", &fit.longer_streams);
    text += &longer_lines("longer_receive", "the rest of one way", &fit.longer_receives);
    text += &rate_lines("relay_rate", "sent by one core and read by another at once", &fit.relay);
    text + &rate_lines("stream_rate", "long sends one right after another", &fit.stream)
}

/// Whether a parameter was fitted to this figure.
pub(super) fn is_fitted(sample: &Sample) -> bool {
    sample.name.strip_prefix(OVER_TCP) == Some("rate")
}

/// So many ranks, one on each host.
pub(super) fn hosts(machine: &Machine, ranks: u32) -> anyhow::Result<Cluster> {
    let Simulated { network, mut notes } = simulate(machine, None)?;
    let config = cluster_config(machine, network.config(), 1, &mut notes);
    Ok(Cluster::new(network, Config { process_count: Some(ranks), ..config })?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{costs as all_costs, facts, socket_costs as costs};
    use super::super::{machine_text, predicted};
    use super::*;

    fn sample(name: &str, bytes: u64, value: f64) -> Sample {
        Sample { name: name.into(), ranks: 2, bytes, value }
    }

    fn loopback() -> Machine {
        let text = machine_text(&facts().on_loopback(), &all_costs(), None);
        Machine::parse("loopback.toml", &text).expect("what is written can be read")
    }

    fn simulated(name: &str, bytes: u64) -> Sample {
        let machine = loopback();
        let asked = sample(name, bytes, 1.0);
        let value = predicted([&machine; 2], &mut None, &asked).unwrap().expect("a workload of ours");
        Sample { value, ..asked }
    }

    /// What a raw connection of these costs takes.
    fn raw() -> Vec<Sample> {
        let costs = costs();
        let more_ns = |bytes: u64, gbytes_per_s: f64| (bytes - FRAME_BYTES) as f64 / gbytes_per_s;
        let send_ns = |bytes: u64| costs.send_ns + more_ns(bytes, 6.0);
        let way_ns = |bytes: u64| send_ns(bytes) + costs.receive_ns + more_ns(bytes, 25.0);
        let mut samples = vec![sample(CHECKSUM, 64 << 10, costs.checksum_gbytes_per_s)];
        // 16 sends, the read of the last, and the answer.
        let answer_ns = costs.receive_ns + way_ns(FRAME_BYTES);
        for bytes in [FRAME_BYTES, 1 << 10, 16 << 10] {
            let stream_ns = costs.stream_ns + more_ns(bytes, 5.0);
            samples.push(sample(RATE, bytes, (stream_ns + answer_ns / WINDOW) / 1e3));
        }
        for bytes in [FRAME_BYTES, 1 << 10, 4 << 10, 16 << 10, 60 << 10] {
            samples.push(sample(SEND, bytes, send_ns(bytes) / 1e3));
            samples.push(sample(RELAY, bytes, way_ns(bytes) / 1e3));
        }
        for bytes in [64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20] {
            let rest_ns = costs.segment_ns + (bytes - (60 << 10)) as f64 / 9.0;
            samples.push(sample(RELAY, bytes, (way_ns(60 << 10) + rest_ns) / 1e3));
        }
        samples
    }

    #[test]
    fn costs_of_sockets_are_found_in_what_they_make() {
        let mut samples = raw();
        samples.push(simulated("tcp_rate", 8));
        let (found, made_up) = (sockets(&samples, all_costs().software_ns).unwrap(), costs());
        let first = |fit: &SocketFit| fit.relay.first().map_or(0.0, |rate| rate.1);
        let last = |times: &[(u64, f64)]| times.last().map_or(0.0, |time| time.1 / time.0 as f64);
        let pairs = [
            (found.send_ns, made_up.send_ns),
            (last(&found.longer_sends), last(&made_up.longer_sends)),
            (found.stream_ns, made_up.stream_ns),
            (last(&found.longer_streams), last(&made_up.longer_streams)),
            (found.segment_ns, made_up.segment_ns),
            (found.receive_ns, made_up.receive_ns),
            (last(&found.longer_receives), last(&made_up.longer_receives)),
            (first(&found), first(&made_up)),
            (found.library_ns, made_up.library_ns),
            (found.checksum_gbytes_per_s, made_up.checksum_gbytes_per_s),
        ];
        for (found_value, made_up) in pairs {
            assert!((found_value / made_up - 1.0).abs() < 0.2, "{found_value} for {made_up}: {found:?}");
        }
        assert_eq!(sockets(&samples[..4], 80.0), None);
    }

    #[test]
    fn messages_over_a_loopback_take_what_their_sockets_take() {
        let (costs, software_ns) = (costs(), all_costs().software_ns);
        // 8 B: a send, a read, the library at either side; and some ten of wire.
        let short_ns = 1e3 * simulated("tcp_pingpong_separate", 8).value;
        let expected_ns = costs.send_ns + costs.receive_ns + 2.0 * (costs.library_ns + software_ns);
        assert!((short_ns / expected_ns - 1.0).abs() < 0.03, "{short_ns} ns, {expected_ns} expected");
    }

    #[test]
    fn a_frame_of_several_segments_takes_a_read_more() {
        let text = machine_text(&facts().on_loopback(), &all_costs(), None);
        let without = text.replace("segment_ns = 4000.0", "segment_ns = 0.0");
        assert_ne!(text, without);
        let machines =
            [text, without].map(|text| Machine::parse("loopback.toml", &text).expect("it is read"));
        let more_us = |bytes: u64| {
            let asked = sample("tcp_pingpong_separate", bytes, 1.0);
            let [with, without] =
                [0, 1].map(|at| predicted([&machines[at]; 2], &mut None, &asked).unwrap().expect("of ours"));
            with - without
        };
        assert_eq!(more_us(32 << 10), 0.0);
        assert!((more_us(64 << 10) - 4.0).abs() < 1e-6, "{}", more_us(64 << 10));
    }

    #[test]
    fn no_message_waits_for_an_acknowledgement_that_is_put_off() {
        for bytes in [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20] {
            // Not the 2 ms after which an acknowledgement goes by itself.
            let us = simulated("tcp_pingpong_separate", bytes).value;
            assert!(us < 100.0 + bytes as f64 / 2.5e3, "{bytes} B: {us} us");
        }
    }
}
