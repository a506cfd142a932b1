//! Cores that several processes of a host share.
//!
//! Owns: whose turn a core is. A host's processes are dealt out to its cores in turn and stay there. Where a
//! core has several, each that waits polls once and lets the next one run, as the library's do (shared memory
//! waits by `sched_yield` where ranks outnumber cores): so a core goes through its processes in a circle, one
//! every [`yield_ps`](super::Software::yield_ps) (or what it takes among so many:
//! [`Rates`](super::software::Rates)), until one finds something to do. That one keeps the core until it
//! waits again. Cores do not go round in step: each has a period of its own, a sixteenth longer or shorter at
//! most.
//!
//! Not modelled: processes that sleep (the library's do, after 0.2 ms in which nothing has come) or have
//! ended and leave the circle, the scheduler that takes a core from a process that computes, and processes
//! that move to another core.

use ayatori_core::coll::shared_memory::Occupancy;

use super::Config;
use super::fabric::Fabric;

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    /// Its processes.
    process_count: u32,
    /// Which of them had the last turn in which there was something to do.
    holder: u32,
    /// When that turn ended, or will end.
    ended_ps: u64,
    /// The holder goes on when its software is done.
    is_held: bool,
}

/// Who runs where.
#[derive(Debug)]
pub(super) struct Cores {
    /// By host, then core; empty where each process has a core of its own.
    cores: Vec<Core>,
    occupancy: Occupancy,
    processes_per_host: u32,
    /// The process that the cluster was told to run.
    running: Option<u32>,
}

impl Cores {
    pub(super) fn new(config: &Config, process_count: u32) -> Cores {
        let processes_per_host = config.processes_per_host.max(1);
        let ranks_count = processes_per_host.min(process_count);
        let cpus_count = config.core_count.unwrap_or(ranks_count).max(1);
        let has_long_blocks = !config.rates.block_relay.is_empty();
        let occupancy = Occupancy { has_long_blocks, ..Occupancy::new(ranks_count, cpus_count) };
        let mut cores = Cores { cores: Vec::new(), occupancy, processes_per_host, running: None };
        if occupancy.is_oversubscribed() {
            let host_count = process_count.div_ceil(processes_per_host);
            cores.cores = vec![Core::default(); (host_count * cpus_count) as usize];
            for rank in 0..process_count {
                let core = cores.core_of(rank);
                cores.cores[core].process_count += 1;
            }
        }
        cores
    }

    /// Ranks and cores of a full host.
    pub(super) fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Processes of a full host that work at once, each on a core.
    pub(super) fn at_once_count(&self) -> u32 {
        self.occupancy.ranks_count.min(self.occupancy.cpus_count)
    }

    /// Processes that share the core of one, with that.
    pub(super) fn sharing_count(&self, rank: u32) -> u32 {
        if self.cores.is_empty() { 1 } else { self.cores[self.core_of(rank)].process_count }
    }

    /// The core of a process, among all hosts'.
    pub(super) fn core_of(&self, rank: u32) -> usize {
        let (host, local) = (rank / self.processes_per_host, rank % self.processes_per_host);
        (host * self.occupancy.cpus_count + local % self.occupancy.cpus_count) as usize
    }

    /// Cores do not go round in step: each takes a little more or less for its yields than the others of its
    /// host, so that it comes about when one looks for what another has done. The first takes just what is
    /// given.
    fn out_of_step_ps(&self, rank: u32, yield_ps: u64) -> u64 {
        // Multiples of a prime's: neighbours are far from each other. A sixteenth more or less at most.
        let core = u64::from(rank % self.processes_per_host % self.occupancy.cpus_count);
        yield_ps * (128 + (core * 7 + 8) % 17 - 8) / 128
    }

    /// Its place in the circle.
    fn place_of(&self, rank: u32) -> u32 {
        rank % self.processes_per_host / self.occupancy.cpus_count
    }
}

impl Core {
    /// The next time at or after `now_ps` when the process at `place` polls, if no other finds something to
    /// do before.
    fn turn_ps(&self, place: u32, now_ps: u64, yield_ps: u64) -> u64 {
        let (count, yield_ps) = (u64::from(self.process_count), yield_ps.max(1));
        // The one after the holder polls first, the holder itself last.
        let first = u64::from((place + self.process_count - self.holder - 1) % self.process_count) + 1;
        let passed = now_ps.saturating_sub(self.ended_ps).div_ceil(yield_ps);
        let circles = passed.saturating_sub(first).div_ceil(count);
        self.ended_ps + (first + circles * count) * yield_ps
    }
}

impl Fabric {
    /// The process that was told to run has done so.
    pub(super) fn end_turn(&mut self) {
        let Some(rank) = self.cores.running.take() else { return };
        let (ended_ps, is_held) = (self.clock_ps(rank), self.states[rank as usize].goes_on);
        let (core, holder) = (self.cores.core_of(rank), self.cores.place_of(rank));
        let core = &mut self.cores.cores[core];
        *core = Core { holder, ended_ps, is_held, ..*core };
    }

    /// When a process that has something to do gets its core; `None`: it has it now, and runs.
    pub(super) fn waits_for_core(&mut self, rank: u32) -> Option<u64> {
        if self.cores.cores.is_empty() {
            return None;
        }
        let now_ps = self.network.now_ps();
        let place = self.cores.place_of(rank);
        let core = self.cores.cores[self.cores.core_of(rank)];
        let yield_ps = self.config.rates.yield_ps(self.config.software.yield_ps, core.process_count);
        let yield_ps = self.cores.out_of_step_ps(rank, yield_ps);
        let turn_ps = match (core.is_held, core.holder == place) {
            (true, true) => now_ps,
            // Just after the holder has gone on.
            (true, false) => core.ended_ps.max(now_ps) + 2,
            (false, _) if core.process_count < 2 => now_ps,
            (false, _) => core.turn_ps(place, now_ps, yield_ps),
        };
        if turn_ps > now_ps {
            return Some(turn_ps);
        }
        self.cores.running = Some(rank);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_goes_round_its_processes_from_the_last_that_ran() {
        let core = Core { process_count: 3, holder: 1, ended_ps: 1_000, is_held: false };
        let turn = |place, now_ps| core.turn_ps(place, now_ps, 100);
        // Place 2 polls first, then 0, then the holder, and again.
        assert_eq!([2, 0, 1].map(|place| turn(place, 1_000)), [1_100, 1_200, 1_300]);
        assert_eq!([2, 0, 1].map(|place| turn(place, 1_100)), [1_100, 1_200, 1_300]);
        assert_eq!([2, 0, 1].map(|place| turn(place, 1_101)), [1_400, 1_200, 1_300]);
        assert_eq!([2, 0, 1].map(|place| turn(place, 1_950)), [2_000, 2_100, 2_200]);
        assert_eq!(turn(2, 0), 1_100);
    }

    #[test]
    fn processes_are_dealt_out_to_cores_in_turn() {
        let config = Config { processes_per_host: 5, core_count: Some(2), ..Config::default() };
        let cores = Cores::new(&config, 10);
        let core = |rank| (cores.core_of(rank), cores.place_of(rank));
        assert_eq!([0, 1, 2, 4].map(core), [(0, 0), (1, 0), (0, 1), (0, 2)]);
        assert_eq!([5, 6, 9].map(core), [(2, 0), (3, 0), (2, 2)]);
        let counts: Vec<u32> = cores.cores.iter().map(|core| core.process_count).collect();
        assert_eq!(counts, [3, 2, 3, 2]);
        assert!(Cores::new(&Config { core_count: Some(5), ..config }, 10).cores.is_empty());
    }

    #[test]
    fn cores_of_a_host_go_round_at_periods_of_their_own() {
        let config = Config { processes_per_host: 34, core_count: Some(17), ..Config::default() };
        let cores = Cores::new(&config, 68);
        let mut periods: Vec<u64> = (0..17).map(|rank| cores.out_of_step_ps(rank, 1_280)).collect();
        assert_eq!((periods[0], cores.out_of_step_ps(34, 1_280)), (1_280, 1_280));
        periods.sort_unstable();
        periods.dedup();
        assert_eq!((periods.len(), periods[0], periods[16]), (17, 1_200, 1_360));
    }
}
