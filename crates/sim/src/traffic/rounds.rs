//! Processes that exchange messages in rounds: a process enters its next round when all that it sends in this
//! one has left and all that it receives in this one has arrived.

use std::collections::HashMap;

use ayatori_fabric::graph::HostId;

use crate::network::{Deadlock, Gap, Message, Network, NicId, Occurrence, Probe, flow_of};
use ayatori_random::Random;

/// A message of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The receiving process.
    pub to: u32,
    /// Length, bytes.
    pub bytes: u64,
}

/// Who sends what to whom in which round.
pub trait Pattern {
    /// Number of processes.
    fn process_count(&self) -> u32;
    /// Number of rounds.
    fn round_count(&self) -> u32;
    /// Appends what a process sends in a round.
    fn sends(&self, process: u32, round: u32, sends: &mut Vec<Transfer>);
    /// How many messages a process receives in a round.
    fn receive_count(&self, process: u32, round: u32) -> u32;
}

/// Where processes run and how they send.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The NIC of each process. Processes of one host reach each other through its memory.
    pub nics: Vec<NicId>,
    /// Silence after each packet.
    pub gap: Gap,
    /// Processes start at times spread evenly over this, ps.
    pub start_spread_ps: u64,
    /// Seed of the start times.
    pub seed: u64,
    /// Rate at which a message crosses a host's memory, bytes/s; `f64::INFINITY` for at once.
    pub memory_bytes_per_s: f64,
}

impl Setup {
    /// `per_host_count` consecutive processes on each host, its NICs taken in turn, no gap, all starting at
    /// once.
    pub fn blocks<P: Probe>(network: &Network<P>, per_host_count: u32) -> Setup {
        let nic = |host: HostId, place: u32| {
            let nic_count = network.graph().port_count(host.into()) as u32;
            network.nic(host, (place % nic_count.max(1)) as u16)
        };
        let hosts = network.graph().hosts();
        let places = hosts.flat_map(|host| (0..per_host_count).map(move |place| (host, place)));
        Setup {
            nics: places.filter_map(|(host, place)| nic(host, place)).collect(),
            gap: Gap::NONE,
            start_spread_ps: 0,
            seed: 0,
            memory_bytes_per_s: f64::INFINITY,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundsReport {
    /// From the start until the last process was done, ps.
    pub elapsed_ps: u64,
    /// Payload that went through the network, bytes.
    pub network_bytes: u64,
    /// Messages that went through the network.
    pub network_message_count: u64,
    /// Messages within a host.
    pub local_message_count: u64,
}

impl RoundsReport {
    /// Network payload over the time taken, bytes/s.
    pub fn bandwidth_bytes_per_s(&self) -> f64 {
        self.network_bytes as f64 / (self.elapsed_ps as f64 * 1e-12)
    }
}

/// What a token stands for.
#[derive(Debug, Clone, Copy)]
struct Flight {
    from: u32,
    to: u32,
    round: u32,
    local: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct ProcessState {
    round: u32,
    unsent_count: u32,
    unreceived_count: u32,
}

struct Driver<'a, P: Probe, T: Pattern> {
    network: &'a mut Network<P>,
    pattern: &'a T,
    setup: &'a Setup,
    processes: Vec<ProcessState>,
    flights: Vec<Flight>,
    free_flights: Vec<u32>,
    /// Messages that came before their receiver's round.
    early: HashMap<(u32, u32), u32, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>,
    sends: Vec<Transfer>,
    running_count: u32,
    report: RoundsReport,
}

/// Timer tokens from here on start a process; below are messages within a host.
const START: u32 = 1 << 31;

/// Runs a pattern to its end.
///
/// # Errors
/// If the network deadlocks.
///
/// # Panics
/// If there are fewer NICs in `setup` than processes in the pattern.
pub fn run<P: Probe, T: Pattern>(
    network: &mut Network<P>,
    pattern: &T,
    setup: &Setup,
) -> Result<RoundsReport, Deadlock> {
    let process_count = pattern.process_count();
    assert!(setup.nics.len() >= process_count as usize, "every process needs a NIC");
    let start_ps = network.now_ps();
    let mut driver = Driver {
        network,
        pattern,
        setup,
        processes: vec![ProcessState::default(); process_count as usize],
        flights: Vec::new(),
        free_flights: Vec::new(),
        early: HashMap::default(),
        sends: Vec::new(),
        running_count: process_count,
        report: RoundsReport {
            elapsed_ps: 0,
            network_bytes: 0,
            network_message_count: 0,
            local_message_count: 0,
        },
    };
    for process in 0..process_count {
        let spread = setup.start_spread_ps;
        let mut random = Random::for_entity(setup.seed, process.into());
        let delay_ps = if spread == 0 { 0 } else { random.below(spread) };
        driver.network.set_timer(start_ps + delay_ps, START | process);
    }
    while driver.running_count > 0 {
        match driver.network.advance()? {
            Some(Occurrence::Timer { token }) if token & START != 0 => driver.enter_round(token ^ START, 0),
            Some(Occurrence::Timer { token } | Occurrence::Delivered { token, .. }) => {
                driver.on_arrival(token)
            }
            Some(Occurrence::Injected { token }) => driver.on_sent(token),
            None => unreachable!("a process waits for a message nobody sends"),
        }
    }
    driver.report.elapsed_ps = driver.network.now_ps() - start_ps;
    Ok(driver.report)
}

impl<P: Probe, T: Pattern> Driver<'_, P, T> {
    fn enter_round(&mut self, process: u32, first_round: u32) {
        let mut round = first_round;
        while round < self.pattern.round_count() {
            let early = self.early.remove(&(process, round)).unwrap_or(0);
            let mut sends = std::mem::take(&mut self.sends);
            self.pattern.sends(process, round, &mut sends);
            self.processes[process as usize] = ProcessState {
                round,
                unsent_count: sends.len() as u32,
                unreceived_count: self.pattern.receive_count(process, round) - early,
            };
            for &transfer in &sends {
                self.send(process, round, transfer);
            }
            let waits = !sends.is_empty() || self.processes[process as usize].unreceived_count > 0;
            sends.clear();
            self.sends = sends;
            if waits {
                return;
            }
            round += 1;
        }
        self.running_count -= 1;
    }

    fn send(&mut self, from: u32, round: u32, Transfer { to, bytes }: Transfer) {
        let [from_nic, to_nic] = [from, to].map(|process| self.setup.nics[process as usize]);
        let local = self.network.host_of(from_nic) == self.network.host_of(to_nic);
        let flight = Flight { from, to, round, local };
        let token = match self.free_flights.pop() {
            Some(token) => {
                self.flights[token as usize] = flight;
                token
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        if local {
            self.report.local_message_count += 1;
            let copy_ps = (bytes as f64 / self.setup.memory_bytes_per_s * 1e12) as u64;
            self.network.set_timer(self.network.now_ps() + copy_ps, token);
            return;
        }
        self.report.network_message_count += 1;
        self.report.network_bytes += bytes;
        let gap = self.setup.gap;
        self.network.send(Message {
            from: from_nic,
            to: to_nic,
            bytes,
            gap,
            flow: flow_of(from, to),
            token,
            notify_injected: true,
        });
    }

    fn on_sent(&mut self, token: u32) {
        let from = self.flights[token as usize].from;
        self.processes[from as usize].unsent_count -= 1;
        self.enter_next_if_done(from);
    }

    fn on_arrival(&mut self, token: u32) {
        let Flight { from, to, round, local } = self.flights[token as usize];
        self.free_flights.push(token);
        let receiver = &mut self.processes[to as usize];
        if receiver.round == round && receiver.unreceived_count > 0 {
            receiver.unreceived_count -= 1;
            self.enter_next_if_done(to);
        } else {
            *self.early.entry((to, round)).or_default() += 1;
        }
        if local {
            self.processes[from as usize].unsent_count -= 1;
            self.enter_next_if_done(from);
        }
    }

    fn enter_next_if_done(&mut self, process: u32) {
        let ProcessState { round, unsent_count, unreceived_count } = self.processes[process as usize];
        if unsent_count == 0 && unreceived_count == 0 {
            self.enter_round(process, round + 1);
        }
    }
}
