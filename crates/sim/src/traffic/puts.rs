//! One-sided writes: every process writes to one after another, and waits for nobody.
//!
//! A write is complete for its process when its last byte has left the NIC, as in the low-level libraries of
//! RDMA hardware; then the next begins. So processes drift apart, and nothing brings them together again.

use super::rounds::Setup;
use crate::network::{Deadlock, Gap, Message, Network, Occurrence, Probe};
use crate::random::Random;

/// Timer tokens from here on are processes that have set up their next write.
const READY: u32 = 1 << 31;

/// Runs one write of `bytes` for each entry of `targets[process]`, in this order, with the gap that `gap`
/// says for a pair of processes; setting up a write takes `set_up_ps`. Returns the time from the start until
/// all has arrived, ps.
///
/// # Errors
/// If the network deadlocks.
///
/// # Panics
/// If there are fewer NICs in `setup` than processes.
pub fn run<P: Probe>(
    network: &mut Network<P>,
    targets: &[Vec<u32>],
    (bytes, set_up_ps): (u64, u64),
    gap: impl Fn(u32, u32) -> Gap,
    setup: &Setup,
) -> Result<u64, Deadlock> {
    assert!(setup.nics.len() >= targets.len(), "every process needs a NIC");
    let start_ps = network.now_ps();
    let mut next = vec![0; targets.len()];
    let mut missing_count: usize = targets.iter().map(Vec::len).sum();
    for process in 0..targets.len() as u32 {
        let mut random = Random::for_entity(setup.seed, process.into());
        let delay_ps = if setup.start_spread_ps == 0 { 0 } else { random.below(setup.start_spread_ps) };
        network.set_timer(start_ps + delay_ps + set_up_ps, READY | process);
    }
    while missing_count > 0 {
        match network.advance()? {
            Some(Occurrence::Timer { token }) => {
                let process = token & !READY;
                let place = &mut next[process as usize];
                let Some(&to) = targets[process as usize].get(*place) else { continue };
                *place += 1;
                let [from_nic, to_nic] = [process, to].map(|process| setup.nics[process as usize]);
                network.send(Message {
                    from: from_nic,
                    to: to_nic,
                    bytes,
                    gap: gap(process, to),
                    flow: 0,
                    token: process,
                    notify_injected: true,
                });
            }
            Some(Occurrence::Injected { token }) => {
                network.set_timer(network.now_ps() + set_up_ps, READY | token);
            }
            Some(Occurrence::Delivered { .. }) => missing_count -= 1,
            None => unreachable!("a write is missing that nobody sends"),
        }
    }
    Ok(network.now_ps() - start_ps)
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
            times.push(run(&mut network, &targets, (100 * 1_920, set_up_ps), gap, &setup).unwrap());
            assert_eq!(network.leftovers(), None);
        }
        // 200 packets of 2 KiB at 5 GB/s, and the way: three links of 10 ns, two routers of 16 ns.
        assert_eq!(times[0], 200 * 2_048 * 200 + 3 * 10_000 + 2 * 16_000);
        assert_eq!(times[1], times[0] + 2 * 5_000);
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
            run(&mut network, &targets, (9_000, 100), gap, &setup).unwrap();
            let sent: usize = targets.iter().map(Vec::len).sum();
            assert_eq!(network.counters().delivered_message_count, sent as u64, "seed {seed}");
            assert_eq!(network.leftovers(), None, "seed {seed}");
        }
    }
}
