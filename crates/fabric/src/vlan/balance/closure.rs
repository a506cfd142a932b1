//! Which channels wait for which, over any number of steps, as bits: whether one more dependency would close
//! a cycle is one look.

/// For so many channels at most: a row of bits for each.
pub(super) const CHANNELS_MAX: usize = 1024;

/// The transitive closure of the dependencies, or, since some have been taken away, of those there were.
#[derive(Debug, Clone)]
pub(super) struct Closure {
    words: usize,
    /// By channel: a bit for each that it waits for.
    rows: Vec<u64>,
    pub(super) is_stale: bool,
}

impl Closure {
    pub(super) fn new(channel_count: usize) -> Closure {
        let words = channel_count.div_ceil(64);
        Closure { words, rows: vec![0; words * channel_count], is_stale: false }
    }

    fn row(&self, channel: u32) -> std::ops::Range<usize> {
        channel as usize * self.words..(channel as usize + 1) * self.words
    }

    pub(super) fn has(&self, held: u32, wanted: u32) -> bool {
        self.rows[held as usize * self.words + wanted as usize / 64] >> (wanted % 64) & 1 == 1
    }

    /// How many channels one waits for: more than any of those do.
    pub(super) fn count(&self, channel: u32) -> u32 {
        self.rows[self.row(channel)].iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn clear(&mut self) {
        self.rows.fill(0);
        self.is_stale = false;
    }

    /// `held` waits for `wanted` and all that it waits for; channels that wait for `held` are not updated.
    pub(super) fn join(&mut self, held: u32, wanted: u32) {
        let (to, from) = (self.row(held), self.row(wanted));
        to.zip(from).for_each(|(to, from)| self.rows[to] |= self.rows[from]);
        self.rows[held as usize * self.words + wanted as usize / 64] |= 1 << (wanted % 64);
    }

    /// Adds a dependency that closes no cycle.
    pub(super) fn add(&mut self, held: u32, wanted: u32) {
        if self.has(held, wanted) {
            return;
        }
        let count = (self.rows.len() / self.words) as u32;
        for before in 0..count {
            if before == held || self.has(before, held) {
                self.join(before, wanted);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_random::Random;

    /// Rows of whole words and of parts of one.
    #[test]
    fn closures_of_any_size_know_what_waits_for_what() {
        for channel_count in [2_usize, 63, 64, 65, 128, 130, 195] {
            let mut random = Random::new(channel_count as u64);
            let mut closure = Closure::new(channel_count);
            let mut waits = vec![vec![false; channel_count]; channel_count];
            for _ in 0..channel_count {
                let (a, b) = (random.index(channel_count), random.index(channel_count));
                if a == b {
                    continue;
                }
                // Forwards only, so without a cycle.
                let (held, wanted) = (a.min(b), a.max(b));
                closure.add(held as u32, wanted as u32);
                let all = waits[wanted].clone();
                for (before, row) in waits.iter_mut().enumerate() {
                    if before == held || row[held] {
                        row[wanted] = true;
                        row.iter_mut().zip(&all).for_each(|(own, more)| *own |= more);
                    }
                }
            }
            for (held, row) in waits.iter().enumerate() {
                let count = row.iter().filter(|&&waits| waits).count();
                assert_eq!(closure.count(held as u32) as usize, count, "{channel_count}");
                let has = |(wanted, &waits): (usize, &bool)| closure.has(held as u32, wanted as u32) == waits;
                assert!(row.iter().enumerate().all(has), "{channel_count}: {held}");
            }
        }
    }
}
