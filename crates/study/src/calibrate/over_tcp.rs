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
use super::samples::{rate_lines, slope, times_ns, value_of, without_ends};

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

/// Costs of sockets.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketFit {
    /// A send, ns.
    pub send_ns: f64,
    /// Sends while nobody reads, GB/s.
    pub send_gbytes_per_s: f64,
    /// A send right after another, which the other side reads meanwhile, ns.
    pub stream_ns: f64,
    /// Such sends, GB/s.
    pub stream_gbytes_per_s: f64,
    /// A read of what has come by who asks again and again, ns.
    pub receive_ns: f64,
    /// Reads while nobody sends, GB/s.
    pub receive_gbytes_per_s: f64,
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
    let (sends, ways) = (whole(SEND), whole(RELAY));
    let short_ns = |times: &[(u64, f64)]| times.iter().find(|time| time.0 == FRAME_BYTES).map(|time| time.1);
    let send_ns = short_ns(&sends)?;
    let least = 1.0 / RATE_MAX_GBYTES_PER_S;
    let send_ns_per_byte = slope(&sends)?.max(least);
    let receive_ns_per_byte = (slope(&ways)? - send_ns_per_byte).max(least);
    let way_ns = typical_ns(&ways, slope(&ways)?)?.max(send_ns);
    let mut long = times_ns(samples, RELAY);
    long.retain(|time| time.0 > SEGMENT_BYTES_MAX);
    let receive_ns = way_ns - send_ns;
    let streams = times_ns(samples, RATE);
    // A window's last message is read, and the answer comes.
    let answer_ns = receive_ns + way_ns;
    let stream_ns = short_ns(&streams)? - answer_ns / WINDOW;
    let stream_ns_per_byte = slope(&streams)?.max(least);
    let library_ns = value_of(samples, &format!("{OVER_TCP}rate"), SHORT_BYTES).ok();
    // And one acknowledgement is read for every sixteen packets.
    let rest_ns = answer_ns / f64::from(RATE_WINDOW) + (receive_ns + software_ns) / PACKETS_AN_ACK;
    let library_ns = library_ns.map_or(0.0, |rate| 1e3 / rate - stream_ns - software_ns - rest_ns);
    let checksum = samples.iter().find(|sample| sample.name == CHECKSUM)?;
    Some(SocketFit {
        send_ns,
        send_gbytes_per_s: 1.0 / send_ns_per_byte,
        stream_ns,
        stream_gbytes_per_s: 1.0 / stream_ns_per_byte,
        receive_ns,
        receive_gbytes_per_s: 1.0 / receive_ns_per_byte,
        relay: without_ends(&long),
        stream: long_streams(samples),
        library_ns: library_ns.max(0.0),
        checksum_gbytes_per_s: checksum.value.min(RATE_MAX_GBYTES_PER_S),
    })
}

/// What all of these lengths take beside their bytes: the median. From a page on the system does more than
/// for a short one, and less again where a whole segment is full.
fn typical_ns(times: &[(u64, f64)], ns_per_byte: f64) -> Option<f64> {
    let mut rests: Vec<f64> = times.iter().map(|&(bytes, ns)| ns - bytes as f64 * ns_per_byte).collect();
    rests.sort_unstable_by(f64::total_cmp);
    rests.get(rests.len() / 2).copied()
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
         send_gbytes_per_s = {:.3} # sends of up to {} KiB while nobody reads\n\
         stream_ns = {:.1} # windows of {FRAME_BYTES} B\n\
         stream_gbytes_per_s = {:.3} # windows of up to 32 KiB\n\
         receive_ns = {:.1} # the rest of up to 60 KiB one way beside their bytes\n\
         receive_gbytes_per_s = {:.3} # the rest of up to {} KiB one way\n\
         library_ns = {:.1} # windows of 8 B messages, less raw ones of {FRAME_BYTES} B\n\
         checksum_gbytes_per_s = {:.3}\n",
        fit.send_ns,
        fit.send_gbytes_per_s,
        SEGMENT_BYTES_MAX >> 10,
        fit.stream_ns,
        fit.stream_gbytes_per_s,
        fit.receive_ns,
        fit.receive_gbytes_per_s,
        SEGMENT_BYTES_MAX >> 10,
        fit.library_ns,
        fit.checksum_gbytes_per_s,
    );
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
        let send_ns = |bytes: u64| costs.send_ns + bytes as f64 / costs.send_gbytes_per_s;
        let way_ns =
            |bytes: u64| send_ns(bytes) + costs.receive_ns + bytes as f64 / costs.receive_gbytes_per_s;
        let mut samples = vec![sample(CHECKSUM, 64 << 10, costs.checksum_gbytes_per_s)];
        // 16 sends, the read of the last, and the answer.
        let answer_ns = costs.receive_ns + way_ns(FRAME_BYTES);
        for bytes in [FRAME_BYTES, 1 << 10, 16 << 10] {
            let stream_ns = costs.stream_ns + bytes as f64 / costs.stream_gbytes_per_s;
            samples.push(sample(RATE, bytes, (stream_ns + answer_ns / WINDOW) / 1e3));
        }
        for bytes in [FRAME_BYTES, 1 << 10, 4 << 10, 16 << 10, 60 << 10] {
            samples.push(sample(SEND, bytes, send_ns(bytes) / 1e3));
            samples.push(sample(RELAY, bytes, way_ns(bytes) / 1e3));
        }
        for bytes in [64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20] {
            let rest_ns = (bytes - (60 << 10)) as f64 / 9.0;
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
        let pairs = [
            (found.send_ns, made_up.send_ns),
            (found.send_gbytes_per_s, made_up.send_gbytes_per_s),
            (found.stream_ns, made_up.stream_ns),
            (found.stream_gbytes_per_s, made_up.stream_gbytes_per_s),
            (found.receive_ns, made_up.receive_ns),
            (found.receive_gbytes_per_s, made_up.receive_gbytes_per_s),
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
    fn no_message_waits_for_an_acknowledgement_that_is_put_off() {
        for bytes in [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20] {
            // Not the 2 ms after which an acknowledgement goes by itself.
            let us = simulated("tcp_pingpong_separate", bytes).value;
            assert!(us < 100.0 + bytes as f64 / 2.5e3, "{bytes} B: {us} us");
        }
    }
}
