//! Open-loop traffic: every NIC offers packets to random others at a given rate, and the network takes what it can.
//!
//! The method of W. Dally and B. Towles, "Principles and Practices of Interconnection Networks", chapter 23: sources have
//! queues of their own outside the network; after a warm-up, accepted throughput is what arrives in the measured window.

use std::fmt;

use crate::network::{Deadlock, Gap, Message, Network, NicId, Occurrence, Probe};
use crate::random::Random;

/// What to offer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uniform {
    /// Offered load as a part of the NIC link's rate, headers included; 0.000,001 to 1.
    pub load: f64,
    /// Payload of each packet, bytes.
    pub payload_bytes: u32,
    /// Simulated time before measuring, ps.
    pub warm_up_ps: u64,
    /// Simulated time measured, ps.
    pub measure_ps: u64,
    /// Seed of destinations and times.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UniformReport {
    /// Offered load as measured.
    pub offered: f64,
    /// Accepted load: bytes that arrived in the window over what the NIC links could have carried.
    pub accepted: f64,
    /// Mean time from leaving the NIC to complete arrival, ps, of packets that arrived in the window.
    pub mean_latency_ps: f64,
}

impl fmt::Display for UniformReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UniformReport { offered, accepted, mean_latency_ps } = self;
        write!(f, "offered {offered:.3}, accepted {accepted:.3}, latency {:.1} ns", mean_latency_ps / 1e3)
    }
}

/// Runs uniform traffic: the destination of every packet is any other NIC, all equally likely; times between packets are
/// geometrically distributed in steps of a packet time.
///
/// # Errors
/// If the network deadlocks.
///
/// # Panics
/// If the network has fewer than two NICs.
pub fn run<P: Probe>(network: &mut Network<P>, traffic: Uniform) -> Result<UniformReport, Deadlock> {
    let nic_count = network.nic_count() as u32;
    assert!(nic_count >= 2, "uniform traffic needs two NICs");
    let packet_bytes = network.config().packet_bytes(traffic.payload_bytes);
    let rate = network.nic_rate_bytes_per_s(NicId(0));
    let packet_ps = (f64::from(packet_bytes) / rate * 1e12).round() as u64;
    let mut sources: Vec<Random> =
        (0..nic_count).map(|nic| Random::for_entity(traffic.seed, nic.into())).collect();
    // In whole numbers only: logarithms differ in their last bit between machines.
    let threshold = (traffic.load.clamp(1e-6, 1.0) * 2_f64.powi(64)) as u128;
    let pause = |random: &mut Random| {
        let mut steps = 1;
        while u128::from(random.next_u64()) >= threshold {
            steps += 1;
        }
        steps * packet_ps
    };
    let start_ps = network.now_ps();
    let open_ps = start_ps + traffic.warm_up_ps;
    let end_ps = open_ps + traffic.measure_ps;
    for nic in 0..nic_count {
        let phase_ps = sources[nic as usize].below(packet_ps);
        let due_ps = start_ps + phase_ps + pause(&mut sources[nic as usize]) - packet_ps;
        network.set_timer(due_ps, nic);
    }
    let mut before = None;
    let mut offered_count = 0;
    loop {
        let limit_ps = if before.is_none() { open_ps } else { end_ps };
        match network.advance_until(limit_ps)? {
            Some(Occurrence::Timer { token: nic }) => {
                let random = &mut sources[nic as usize];
                let to = random.below(u64::from(nic_count) - 1) as u32;
                let due_ps = network.now_ps() + pause(random);
                network.send(Message {
                    from: NicId(nic),
                    to: NicId(to + u32::from(to >= nic)),
                    bytes: traffic.payload_bytes.into(),
                    gap: Gap::NONE,
                    token: 0,
                    notify_injected: false,
                });
                offered_count += u64::from(before.is_some());
                network.set_timer(due_ps, nic);
            }
            Some(_) => {}
            None if before.is_none() => before = Some(network.counters()),
            None => break,
        }
    }
    let (before, after) = (before.unwrap_or_default(), network.counters());
    let packets = after.delivered_message_count - before.delivered_message_count;
    let capacity_packets = (traffic.measure_ps as f64 / packet_ps as f64) * f64::from(nic_count);
    let latency_ps = after.packet_latency_sum_ps - before.packet_latency_sum_ps;
    let counted = after.delivered_packet_count - before.delivered_packet_count;
    Ok(UniformReport {
        offered: offered_count as f64 / capacity_packets,
        accepted: packets as f64 / capacity_packets,
        mean_latency_ps: latency_ps as f64 / counted.max(1) as f64,
    })
}
