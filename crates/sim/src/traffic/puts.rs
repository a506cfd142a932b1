//! Writes: every process writes to one after another, and its next write begins when the one before is over.
//!
//! When that is depends on the program ([`Until`]). A process that waits for nobody goes on when its last
//! byte has left the NIC, as the low-level libraries of RDMA hardware allow; then processes drift apart, and
//! nothing brings them together again.

use super::rounds::Setup;
use crate::network::{Deadlock, Gap, Message, Network, Occurrence, Probe};
use ayatori_random::Random;

/// Timer tokens from here on are processes that have set up their next write.
const READY: u32 = 1 << 31;

/// When a process goes on to its next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// Its last byte has left the NIC.
    #[default]
    Left,
    /// Its last byte has arrived. The acknowledgement takes no time.
    Arrived,
    /// That, and the write of the same place in the list of the process written to has arrived here: pairs
    /// that exchange. Each of the two must have the other at that place.
    Exchanged,
}

/// What every process writes, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writes {
    /// Length of each.
    pub bytes: u64,
    /// Time to set up a write, ps.
    pub set_up_ps: u64,
    /// Setting up takes up to so much longer, drawn for each write: what a host's other work takes away, ps.
    pub noise_ps: u64,
    /// When a process goes on.
    pub until: Until,
}

impl Writes {
    /// Writes that wait for nobody, without noise.
    pub fn one_sided(bytes: u64, set_up_ps: u64) -> Writes {
        Writes { bytes, set_up_ps, noise_ps: 0, until: Until::Left }
    }
}

/// Runs one write for each entry of `targets[process]`, in this order, with the gap that `gap` says for a
/// pair of processes. Returns the time from the start until all has arrived, ps.
///
/// # Errors
/// If the network deadlocks.
///
/// # Panics
/// If there are fewer NICs in `setup` than processes, or a process waits for one that does not write to it.
pub fn run<P: Probe>(
    network: &mut Network<P>,
    targets: &[Vec<u32>],
    writes: Writes,
    gap: impl Fn(u32, u32) -> Gap,
    setup: &Setup,
) -> Result<u64, Deadlock> {
    assert!(setup.nics.len() >= targets.len(), "every process needs a NIC");
    let start_ps = network.now_ps();
    let mut missing_count: usize = targets.iter().map(Vec::len).sum();
    let mut random: Vec<Random> =
        (0..targets.len() as u64).map(|process| Random::for_entity(setup.seed, process)).collect();
    let mut draw_ps = |process: u32, below_ps: u64| match below_ps {
        0 => 0,
        _ => random[process as usize].below(below_ps),
    };
    for process in 0..targets.len() as u32 {
        let delay_ps = draw_ps(process, setup.start_spread_ps);
        network.set_timer(start_ps + delay_ps + writes.set_up_ps, READY | process);
    }
    let mut pairs = Pairs::new(targets, writes.until);
    while missing_count > 0 {
        let goes_on = match network.advance()? {
            Some(Occurrence::Timer { token }) => {
                let process = token & !READY;
                if let Some(to) = pairs.begin(process) {
                    let [from_nic, to_nic] = [process, to].map(|process| setup.nics[process as usize]);
                    network.send(Message {
                        from: from_nic,
                        to: to_nic,
                        bytes: writes.bytes,
                        gap: gap(process, to),
                        flow: 0,
                        token: process,
                        notify_injected: true,
                    });
                }
                [None; 2]
            }
            Some(Occurrence::Injected { token }) => [(writes.until == Until::Left).then_some(token), None],
            Some(Occurrence::Delivered { token, .. }) => {
                missing_count -= 1;
                pairs.on_arrival(token)
            }
            None => unreachable!("a write is missing that nobody sends"),
        };
        for process in goes_on.into_iter().flatten() {
            let ready_ps = network.now_ps() + writes.set_up_ps + draw_ps(process, writes.noise_ps);
            network.set_timer(ready_ps, READY | process);
        }
    }
    Ok(network.now_ps() - start_ps)
}

/// Who is at which place of its list, and who waits for whom.
struct Pairs<'a> {
    targets: &'a [Vec<u32>],
    until: Until,
    /// Writes begun.
    begun: Vec<usize>,
    /// Writes arrived, where processes wait for that: at most one is under way then.
    arrived: Vec<usize>,
}

impl Pairs<'_> {
    fn new(targets: &[Vec<u32>], until: Until) -> Pairs<'_> {
        Pairs { targets, until, begun: vec![0; targets.len()], arrived: vec![0; targets.len()] }
    }

    /// To whom a process writes next.
    fn begin(&mut self, process: u32) -> Option<u32> {
        let place = &mut self.begun[process as usize];
        let to = self.targets[process as usize].get(*place).copied()?;
        *place += 1;
        Some(to)
    }

    /// A write of this process has arrived: who can go on now.
    fn on_arrival(&mut self, process: u32) -> [Option<u32>; 2] {
        let arrived = &mut self.arrived[process as usize];
        *arrived += 1;
        let count = *arrived;
        match self.until {
            Until::Left => [None; 2],
            Until::Arrived => [Some(process), None],
            Until::Exchanged => {
                let partner = self.targets[process as usize][count - 1];
                let own = self.targets[partner as usize].get(count - 1);
                assert_eq!(own, Some(&process), "{process} and {partner} do not write to each other");
                // The later of the two lets both go on.
                match self.arrived[partner as usize] >= count {
                    true => [Some(process), (partner != process).then_some(partner)],
                    false => [None; 2],
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::nsim_torus;
    use crate::network::NoProbe;

    #[test]
    fn the_next_write_begins_when_the_last_byte_has_left() {
        // Node 0 writes twice over a free way: the second follows the first without a pause but its own
        // set-up.
        let mut times = Vec::new();
        for set_up_ps in [0, 5_000] {
            let mut network = nsim_torus(&[4], NoProbe).unwrap();
            let setup = Setup::blocks(&network, 1);
            let targets = [vec![1, 1], vec![], vec![], vec![]];
            let gap = |_, _| Gap::NONE;
            let writes = Writes::one_sided(100 * 1_920, set_up_ps);
            times.push(run(&mut network, &targets, writes, gap, &setup).unwrap());
            assert_eq!(network.leftovers(), None);
        }
        // 200 packets of 2 KiB at 5 GB/s, and the way: three links of 10 ns, two routers of 16 ns.
        assert_eq!(times[0], 200 * 2_048 * 200 + 3 * 10_000 + 2 * 16_000);
        assert_eq!(times[1], times[0] + 2 * 5_000);
    }

    #[test]
    fn a_process_goes_on_when_its_program_says() {
        // Neighbours exchange, then pairs at distance two: nobody is in anybody's way.
        let packet_count = 10;
        let write_ps = 3 * 10_000 + 2 * 16_000 + packet_count * 409_600;
        let targets = [vec![1, 2], vec![0, 3], vec![3, 0], vec![2, 1]];
        let time_ps = |until| {
            let mut network = nsim_torus(&[4], NoProbe).unwrap();
            let setup = Setup::blocks(&network, 1);
            let writes = Writes { until, ..Writes::one_sided(packet_count * 1_920, 1_000) };
            let time_ps = run(&mut network, &targets, writes, |_, _| Gap::NONE, &setup).unwrap();
            assert_eq!(network.leftovers(), None);
            time_ps
        };
        // Three links and two routers, 410 ns a packet; the second has a link and a router more.
        let both_ps = 2 * (1_000 + write_ps) + 10_000 + 16_000;
        assert_eq!(time_ps(Until::Arrived), both_ps);
        assert_eq!(time_ps(Until::Exchanged), both_ps);
        // The first is on its way while the second is set up.
        assert_eq!(time_ps(Until::Left), both_ps - 3 * 10_000 - 2 * 16_000);
    }

    #[test]
    fn an_exchange_waits_for_the_slower_of_both() {
        // 1 writes to 0 only after its exchange with 2; 0 waits for it before it writes to 3.
        let pairs_of = [vec![1, 3], vec![0, 2], vec![2, 1], vec![3, 0]];
        let mut pairs = Pairs::new(&pairs_of, Until::Exchanged);
        assert_eq!((pairs.begin(0), pairs.begin(1)), (Some(1), Some(0)));
        assert_eq!(pairs.on_arrival(0), [None; 2], "1 has not written");
        assert_eq!(pairs.on_arrival(1), [Some(1), Some(0)], "the later lets both go on");
        assert_eq!((pairs.begin(0), pairs.begin(0)), (Some(3), None));
        // A process's write to itself is over at once for it.
        assert_eq!(pairs.on_arrival(2), [Some(2), None]);
    }

    #[test]
    fn everything_arrives_whatever_gaps_and_starts() {
        for seed in 0..8 {
            let mut network = nsim_torus(&[4, 2, 3], NoProbe).unwrap();
            let setup = Setup { start_spread_ps: 20_000, seed, ..Setup::blocks(&network, 1) };
            let targets: Vec<Vec<u32>> = (0..24)
                .map(|from| (1..24).map(|step| (from + step * 5) % 24).filter(|&to| to != from).collect())
                .collect();
            let gap = |from: u32, to: u32| Gap { milli_packets: (from + to) % 3 * 500 };
            let until = [Until::Left, Until::Arrived][seed as usize % 2];
            let writes = Writes { noise_ps: seed * 1_000, until, ..Writes::one_sided(9_000, 100) };
            run(&mut network, &targets, writes, gap, &setup).unwrap();
            let sent: usize = targets.iter().map(Vec::len).sum();
            assert_eq!(network.counters().delivered_message_count, sent as u64, "seed {seed}");
            assert_eq!(network.leftovers(), None, "seed {seed}");
        }
    }
}
