//! One NUMA node's memory, which its adapters and processors share.
//!
//! Work is counted in the time that the whole memory takes for it. A use asks for a share of the memory over
//! its own time, and [`Memory::place`] puts it where the schedule has room: never more than [`WHOLE`] at a
//! time, first come, first served.
//!
//! - A *copy* is known in full when its process begins it. It takes no more than is left, and is over when
//!   the last of it is placed.
//! - An *adapter* does not wait for copies: its requests go between theirs. What it moves while copies have
//!   taken everything is placed behind them, and copies that begin later wait for it. What an adapter suffers
//!   is the wait of each access ([`Memory::wait_ps`]).
//!
//! Little's law gives the wait. A processor has as many requests outstanding as its rate needs on an idle
//! memory; when it gets a part `1 / f` of that rate, each request takes `f` times as long. That is so of
//! whoever asks the same memory. (M. Vuppalapati and others, Understanding the Host Network, SIGCOMM 2024,
//! explain contention between processors and adapters so: by what each may have outstanding.)

use std::collections::VecDeque;

/// The whole of a memory, in the unit of shares.
const WHOLE: u64 = 1 << 32;

/// So much is taken, from the end of the span before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    until_ps: u64,
    share: u64,
}

/// A copy that is not over.
#[derive(Debug, Clone, Copy)]
struct Copying {
    from_ps: u64,
    until_ps: u64,
    /// What it asks for, and what it gets in the mean.
    asked: u64,
    given: u64,
}

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// When it is done with what adapters have asked for.
    free_ps: u64,
    /// What is taken, from now on; nothing after the last.
    spans: VecDeque<Span>,
    copies: Vec<Copying>,
}

impl Memory {
    /// An adapter's request of so much work: when the memory is done with it and with those before it.
    pub(super) fn take(&mut self, now_ps: u64, work_ps: u64) -> u64 {
        super::state::take(&mut self.free_ps, now_ps, work_ps)
    }

    /// An adapter moves data from one time until another, which is so much work.
    pub(super) fn move_until(&mut self, now_ps: u64, end_ps: u64, work_ps: u64) {
        let own_ps = end_ps.saturating_sub(now_ps).max(work_ps);
        let _ = self.place(now_ps, own_ps, work_ps);
    }

    /// What a copy takes that begins at `from_ps`, takes `own_ps` on an idle memory, and is so much work. A
    /// copy that is more work than its own time holds was measured on this very memory: it asks for all of
    /// it.
    pub(super) fn copy(&mut self, from_ps: u64, own_ps: u64, work_ps: u64) -> u64 {
        let until_ps = self.place(from_ps, own_ps, work_ps.min(own_ps));
        if until_ps > from_ps {
            let asked = share(own_ps, work_ps.min(own_ps));
            let given = u128::from(asked) * u128::from(own_ps) / u128::from(until_ps - from_ps);
            self.copies.push(Copying { from_ps, until_ps, asked, given: given as u64 });
        }
        until_ps - from_ps
    }

    /// How much longer an access takes at a time than the `access_ps` of an idle memory.
    pub(super) fn wait_ps(&self, at_ps: u64, access_ps: u64) -> u64 {
        let [mut asked, mut given] = [0_u128; 2];
        for copy in self.copies.iter().filter(|copy| (copy.from_ps..copy.until_ps).contains(&at_ps)) {
            asked += u128::from(copy.asked);
            given += u128::from(copy.given);
        }
        (u128::from(access_ps) * (asked - given)).checked_div(given).unwrap_or(0) as u64
    }

    /// Drops what is over. Nothing is asked of the time before now any more.
    pub(super) fn forget(&mut self, now_ps: u64) {
        while self.spans.front().is_some_and(|span| span.until_ps <= now_ps) {
            self.spans.pop_front();
        }
        self.copies.retain(|copy| copy.until_ps > now_ps);
    }

    /// Work that takes its share for `own_ps` from `from_ps` on, or as much of it as is left. When it is
    /// done.
    fn place(&mut self, from_ps: u64, own_ps: u64, work_ps: u64) -> u64 {
        let asked = share(own_ps, work_ps);
        if asked == 0 {
            return from_ps + own_ps;
        }
        let mut left = u128::from(asked) * u128::from(own_ps);
        let (mut at_ps, mut index) = (from_ps, self.split(from_ps));
        while let Some(&Span { until_ps, share }) = self.spans.get(index) {
            let part = asked.min(WHOLE - share);
            let room = u128::from(part) * u128::from(until_ps - at_ps);
            if part > 0 && left <= room {
                let end_ps = at_ps + left.div_ceil(part.into()) as u64;
                self.spans[index].share += part;
                if end_ps < until_ps {
                    self.spans.insert(index, Span { until_ps: end_ps, share: share + part });
                    self.spans[index + 1].share = share;
                }
                return end_ps;
            }
            self.spans[index].share += part;
            (left, at_ps, index) = (left - room, until_ps, index + 1);
        }
        let end_ps = at_ps + left.div_ceil(asked.into()) as u64;
        self.spans.push_back(Span { until_ps: end_ps, share: asked });
        end_ps
    }

    /// Makes a span begin at a time. Its index.
    fn split(&mut self, at_ps: u64) -> usize {
        let index = self.spans.iter().position(|span| span.until_ps > at_ps);
        let begins_before = |before: Option<&Span>| before.is_none_or(|before| before.until_ps < at_ps);
        match index {
            Some(index) => {
                if index > 0 && !begins_before(self.spans.get(index - 1)) {
                    return index;
                }
                let share = self.spans[index].share;
                self.spans.insert(index, Span { until_ps: at_ps, share });
                index + 1
            }
            None => {
                if begins_before(self.spans.back()) {
                    self.spans.push_back(Span { until_ps: at_ps, share: 0 });
                }
                self.spans.len()
            }
        }
    }
}

/// What so much work takes of the memory for so long.
fn share(own_ps: u64, work_ps: u64) -> u64 {
    if own_ps == 0 {
        0
    } else {
        (u128::from(work_ps.min(own_ps)) * u128::from(WHOLE) / u128::from(own_ps)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_random::Random;

    #[test]
    fn a_copy_alone_takes_its_own_time() {
        let mut memory = Memory::default();
        // Also one that asks for more than the whole memory.
        assert_eq!(
            [(0, 700), (1_000, 1_000), (2_000, 3_000)].map(|(at, work)| memory.copy(at, 1_000, work)),
            [1_000; 3]
        );
        assert_eq!([500, 1_500, 2_500].map(|at| memory.wait_ps(at, 60)), [0; 3]);
    }

    #[test]
    fn copies_at_once_get_what_is_left() {
        let mut memory = Memory::default();
        // Each asks for 3/4. In 1,000 ps the second gets 250 of its 750; it has 3/4 then, as nobody asks.
        assert_eq!(memory.copy(0, 1_000, 750), 1_000);
        assert_eq!(memory.copy(0, 1_000, 750), 1_000 + 500 * 4 / 3 + 1);
        // The third gets a quarter from 1,000 on, and all that it asks for after the second.
        assert_eq!(memory.copy(0, 1_000, 750), 1_667 + (750 - 667 / 4) * 4 / 3);
        // They ask for 9/4, and get 3/4, 9/20 and a third of that in the mean: all that access is slower.
        let given = 750.0 / 1_000.0 + 750.0 / 1_667.0 + 750.0 / 2_444.0;
        let slower = 2.25 / given - 1.0;
        assert!((memory.wait_ps(500, 1_000_000) as f64 - 1e6 * slower).abs() < 2_000.0, "{slower}");
    }

    /// Copies of 7/8 of the memory one after the other beside an adapter: their share, and the mean wait.
    fn copies_beside(adapter_work: u64) -> (f64, f64) {
        let (mut memory, mut copied, mut free_ps, mut waits_ps) = (Memory::default(), 0, 0, 0);
        const STEPS: u64 = 100_000;
        for now_ps in (0..STEPS).map(|step| step * 100) {
            memory.forget(now_ps);
            while free_ps <= now_ps {
                free_ps += memory.copy(free_ps, 2_000, 1_750);
                copied += 1_750;
            }
            let done_ps = memory.take(now_ps, adapter_work);
            assert!(done_ps <= now_ps + 100, "an adapter does not stand behind copies");
            waits_ps += memory.wait_ps(now_ps, 1_000);
            memory.move_until(now_ps, now_ps + 100, adapter_work);
        }
        (copied as f64 / free_ps as f64, waits_ps as f64 / STEPS as f64)
    }

    #[test]
    fn copies_get_what_adapters_leave() {
        for (adapter_work, share, wait) in [
            (0, 0.875, 0.0),
            (10, 0.875, 0.0),
            // A quarter: copies get 3/4 of the memory in place of 7/8, so an access takes 7/6.
            (25, 0.75, 1_000.0 / 6.0),
            (50, 0.5, 750.0),
        ] {
            let (copied, wait_ps) = copies_beside(adapter_work);
            assert!((copied / share - 1.0).abs() < 0.002, "{adapter_work}: {copied}");
            assert!((wait_ps - wait).abs() < 5.0, "{adapter_work}: {wait_ps}");
        }
    }

    #[test]
    fn no_more_goes_through_than_the_memory_gives() {
        for seed in 0..50 {
            let mut random = Random::for_entity(seed, 0);
            let (mut memory, mut asked_ps, mut now_ps) = (Memory::default(), 0.0, 0);
            for _ in 0..200 {
                now_ps += random.below(1_000);
                let own_ps = 1 + random.below(5_000);
                let work_ps = random.below(own_ps);
                asked_ps += work_ps as f64;
                if random.below(2) == 0 {
                    let from_ps = now_ps + random.below(3_000);
                    assert!(memory.copy(from_ps, own_ps, work_ps) >= own_ps, "seed {seed}");
                } else {
                    memory.move_until(now_ps, now_ps + own_ps, work_ps);
                }
            }
            let (mut from_ps, mut given_ps) = (0, 0.0);
            for span in &memory.spans {
                assert!(span.until_ps >= from_ps && span.share <= WHOLE, "seed {seed}");
                given_ps += (span.until_ps - from_ps) as f64 * span.share as f64 / WHOLE as f64;
                from_ps = span.until_ps;
            }
            // Each may end in a picosecond that it does not fill.
            assert!((given_ps - asked_ps).abs() < 200.0, "seed {seed}: {given_ps} of {asked_ps}");
        }
    }
}
