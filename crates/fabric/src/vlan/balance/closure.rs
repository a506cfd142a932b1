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
