//! Open-loop traffic: every NIC offers packets to random others at a given rate, and the network takes what
//! it can.
//!
//! The method of W. Dally and B. Towles, "Principles and Practices of Interconnection Networks", chapter 23:
//! sources have queues of their own outside the network; after a warm-up, accepted throughput is what arrives
//! in the measured window.

use std::fmt;

use crate::network::{Deadlock, Gap, Message, Network, NicId, Occurrence, Probe};
use ayatori_random::Random;

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

/// A NIC's source of packets. Its queue outside the network is not stored: packets that are due and wait are
/// those that its random numbers give next.
struct Source {
    random: Random,
    /// When the next packet is due.
    due_ps: u64,
}

/// What sources have in common.
struct Sources {
    of_nic: Vec<Source>,
    packet_ps: u64,
    payload_bytes: u32,
    /// Where each NIC sends to; nowhere in particular if empty.
    partners: Vec<NicId>,
    /// In each step of a packet time, a packet is due if a random number is below this. Whole numbers only:
    /// logarithms differ in their last bit between machines.
    threshold: u128,
    open_ps: u64,
    /// Packets that became due in the window.
    offered_count: u64,
}

impl Sources {
    /// Takes the packet that is due: where it goes.
    fn take(&mut self, nic: u32) -> NicId {
        let nic_count = self.of_nic.len() as u64;
        let Source { random, due_ps } = &mut self.of_nic[nic as usize];
        self.offered_count += u64::from(*due_ps > self.open_ps);
        let to = match self.partners.get(nic as usize) {
            Some(&partner) => partner,
            None => {
                let to = random.below(nic_count - 1) as u32;
                NicId(to + u32::from(to >= nic))
            }
        };
        *due_ps += self.packet_ps * steps(random, self.threshold);
        to
    }

    /// Sends the packet that is due. If the NIC has one to send already or more of the source wait, the next
    /// is given to it when this one has left.
    fn send<P: Probe>(&mut self, network: &mut Network<P>, nic: u32) {
        let waits = self.of_nic[nic as usize].due_ps < network.now_ps() || !network.is_idle(NicId(nic));
        let message = Message {
            from: NicId(nic),
            to: self.take(nic),
            bytes: self.payload_bytes.into(),
            gap: Gap::NONE,
            flow: 0,
            token: nic,
            notify_injected: waits,
        };
        network.send(message);
        if !waits {
            network.set_timer(self.of_nic[nic as usize].due_ps, nic);
        }
    }
}

/// Geometrically distributed, at least 1.
fn steps(random: &mut Random, threshold: u128) -> u64 {
    let mut steps = 1;
    while u128::from(random.next_u64()) >= threshold {
        steps += 1;
    }
    steps
}

/// Runs uniform traffic: the destination of every packet is any other NIC, all equally likely; times between
/// packets are geometrically distributed in steps of a packet time.
///
/// # Errors
/// If the network deadlocks.
///
/// # Panics
/// If the network has fewer than two NICs.
pub fn run<P: Probe>(network: &mut Network<P>, traffic: Uniform) -> Result<UniformReport, Deadlock> {
    run_towards(network, traffic, Vec::new())
}

/// As [`run`], every NIC to its partner. A NIC that is its own partner sends nothing and is not counted.
///
/// # Errors
/// If the network deadlocks.
///
/// # Panics
/// If there are not as many partners as NICs, or fewer than two NICs.
pub fn run_permutation<P: Probe>(
    network: &mut Network<P>,
    traffic: Uniform,
    partners: Vec<NicId>,
) -> Result<UniformReport, Deadlock> {
    assert_eq!(partners.len(), network.nic_count(), "one partner for each NIC");
    run_towards(network, traffic, partners)
}

fn run_towards<P: Probe>(
    network: &mut Network<P>,
    traffic: Uniform,
    partners: Vec<NicId>,
) -> Result<UniformReport, Deadlock> {
    let nic_count = network.nic_count() as u32;
    assert!(nic_count >= 2, "traffic to others needs two NICs");
    let senders: Vec<u32> =
        (0..nic_count).filter(|&nic| partners.get(nic as usize) != Some(&NicId(nic))).collect();
    let packet_bytes = network.config().packet_bytes(traffic.payload_bytes);
    let rate = network.nic_rate_bytes_per_s(NicId(0));
    let packet_ps = (f64::from(packet_bytes) / rate * 1e12).round() as u64;
    let threshold = (traffic.load.clamp(1e-6, 1.0) * 2_f64.powi(64)) as u128;
    let start_ps = network.now_ps();
    let open_ps = start_ps + traffic.warm_up_ps;
    let end_ps = open_ps + traffic.measure_ps;
    let source = |nic: u32| {
        let mut random = Random::for_entity(traffic.seed, nic.into());
        let phase_ps = random.below(packet_ps);
        let due_ps = start_ps + phase_ps + (steps(&mut random, threshold) - 1) * packet_ps;
        Source { random, due_ps }
    };
    let of_nic = (0..nic_count).map(source).collect();
    let payload_bytes = traffic.payload_bytes;
    let mut sources =
        Sources { of_nic, packet_ps, payload_bytes, partners, threshold, open_ps, offered_count: 0 };
    for &nic in &senders {
        network.set_timer(sources.of_nic[nic as usize].due_ps, nic);
    }
    let mut before = None;
    loop {
        let limit_ps = if before.is_none() { open_ps } else { end_ps };
        match network.advance_until(limit_ps)? {
            Some(Occurrence::Timer { token: nic }) => sources.send(network, nic),
            Some(Occurrence::Injected { token: nic }) => {
                let due_ps = sources.of_nic[nic as usize].due_ps;
                if due_ps <= network.now_ps() {
                    sources.send(network, nic);
                } else {
                    network.set_timer(due_ps, nic);
                }
            }
            Some(Occurrence::Delivered { .. }) => {}
            None if before.is_none() => before = Some(network.counters()),
            None => break,
        }
    }
    for &nic in &senders {
        // What still waits outside.
        while sources.of_nic[nic as usize].due_ps <= end_ps {
            let _ = sources.take(nic);
        }
    }
    let offered_count = sources.offered_count;
    let (before, after) = (before.unwrap_or_default(), network.counters());
    let packets = after.delivered_message_count - before.delivered_message_count;
    let capacity_packets = (traffic.measure_ps as f64 / packet_ps as f64) * senders.len() as f64;
    let latency_ps = after.packet_latency_sum_ps - before.packet_latency_sum_ps;
    let counted = after.delivered_packet_count - before.delivered_packet_count;
    Ok(UniformReport {
        offered: offered_count as f64 / capacity_packets,
        accepted: packets as f64 / capacity_packets,
        mean_latency_ps: latency_ps as f64 / counted.max(1) as f64,
    })
}
