//! The parts of Rabenseifner's algorithms (Thakur, Rabenseifner, Gropp 2005, §§4.4, 4.5): fold to a power of
//! two, reduce-scatter by recursive halving, then gather or allgather. For commutative operations.

use super::schedule::Builder;
use super::{Context, Rank};
use crate::buffer::Buffer;

/// A power of two of the processes, after each of the first `rest` pairs of neighbours has been folded into
/// one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folded {
    context: Context,
    /// How many pairs were folded.
    rest: u32,
    /// A process that survives its fold in any case.
    favoured: Option<Rank>,
}

impl Folded {
    /// The higher rank of a pair survives, unless the lower is `favoured`.
    pub(super) fn new(context: Context, favoured: Option<Rank>) -> Self {
        let survivors = 1 << context.size.ilog2();
        Self { context, rest: context.size - survivors, favoured }
    }

    /// How many processes remain: a power of two.
    pub(super) const fn survivor_count(&self) -> u32 {
        self.context.size - self.rest
    }

    /// The rank of a survivor.
    pub(super) fn rank_of(&self, survivor: u32) -> Rank {
        if survivor >= self.rest {
            survivor + self.rest
        } else if self.favoured == Some(2 * survivor) {
            2 * survivor
        } else {
            2 * survivor + 1
        }
    }

    /// Which survivor stands for a rank: itself, or the one it was folded into.
    pub(super) const fn survivor_of(&self, rank: Rank) -> u32 {
        if rank < 2 * self.rest { rank / 2 } else { rank - self.rest }
    }

    /// This process' number among the survivors, if it survives.
    pub(super) fn me(&self) -> Option<u32> {
        let survivor = self.survivor_of(self.context.rank);
        (self.rank_of(survivor) == self.context.rank).then_some(survivor)
    }

    /// The other one of this process' pair, if it is in one.
    pub(super) const fn partner(&self) -> Option<Rank> {
        if self.context.rank < 2 * self.rest { Some(self.context.rank ^ 1) } else { None }
    }
}

/// A vector of elements cut into one block per survivor, and where its sum grows.
pub(super) struct Halving<'a> {
    pub(super) folded: Folded,
    /// Where block i begins, in bytes, for i up to and including the number of survivors.
    pub(super) offset: &'a dyn Fn(u32) -> usize,
    /// This process' operand, if not in `sum` already.
    pub(super) send: Option<Buffer>,
    /// All of the vector; afterwards the blocks this process owns are sums.
    pub(super) sum: Buffer,
}

impl Halving<'_> {
    fn run(&self, buffer: Buffer, first: u32, end: u32) -> Buffer {
        let start = (self.offset)(first);
        buffer.part(start, (self.offset)(end) - start)
    }

    /// Folds and halves. A survivor then owns the block of its number; the others own nothing and are done.
    pub(super) fn reduce_scatter(&mut self, builder: &mut Builder) {
        self.fold(builder);
        let Some(me) = self.folded.me() else { return };
        let (mut first, mut end) = (0, self.folded.survivor_count());
        let mut other = None;
        while end - first > 1 {
            let half = (end - first) / 2;
            let middle = first + half;
            let peer = self.folded.rank_of(me ^ half);
            let (keep, give) =
                if me < middle { ((first, middle), (middle, end)) } else { ((middle, end), (first, middle)) };
            let out = self.run(self.send.unwrap_or(self.sum), give.0, give.1);
            if !out.is_empty() {
                builder.send(peer, out);
            }
            self.receive_and_add(builder, peer, keep, &mut other);
            (first, end) = keep;
        }
    }

    /// Adds the peer's operand for the kept blocks, and waits for the sends.
    fn receive_and_add(
        &mut self,
        builder: &mut Builder,
        peer: Rank,
        keep: (u32, u32),
        other: &mut Option<Buffer>,
    ) {
        let mine = self.run(self.sum, keep.0, keep.1);
        if let Some(send) = self.send.take() {
            // The sum's place is free yet: the peer's operand goes there, and ours is added to it.
            let ours = self.run(send, keep.0, keep.1);
            if !mine.is_empty() {
                builder.receive(peer, mine);
            }
            builder.fence();
            builder.reduce(ours, mine);
        } else {
            if !mine.is_empty() {
                // Parts only get shorter: one piece of memory serves all rounds.
                let theirs = other.get_or_insert_with(|| builder.scratch(mine.len())).part(0, mine.len());
                builder.receive(peer, theirs);
                builder.fence();
                builder.reduce(theirs, mine);
            }
        }
        builder.fence();
    }

    fn fold(&mut self, builder: &mut Builder) {
        let Some(partner) = self.folded.partner() else { return };
        if self.folded.me().is_some() {
            let all = (0, self.folded.survivor_count());
            self.receive_and_add(builder, partner, all, &mut None);
        } else {
            builder.send(partner, self.send.unwrap_or(self.sum));
            builder.fence();
        }
    }

    /// After [`reduce_scatter`](Self::reduce_scatter): sends all blocks to all processes, those folded away
    /// included.
    pub(super) fn allgather(&self, builder: &mut Builder) {
        if let Some(me) = self.folded.me() {
            let mut width = 1;
            while width < self.folded.survivor_count() {
                let (mine, theirs) = (me & !(width - 1), (me ^ width) & !(width - 1));
                let peer = self.folded.rank_of(me ^ width);
                self.exchange(
                    builder,
                    peer,
                    self.run(self.sum, mine, mine + width),
                    self.run(self.sum, theirs, theirs + width),
                );
                width *= 2;
            }
        }
        match self.folded.partner() {
            Some(partner) if self.folded.me().is_some() => {
                self.exchange(builder, partner, self.sum, Buffer::EMPTY);
            }
            Some(partner) => self.exchange(builder, partner, Buffer::EMPTY, self.sum),
            None => {}
        }
    }

    /// After [`reduce_scatter`](Self::reduce_scatter): all blocks to one survivor, along a binomial tree.
    pub(super) fn gather(&self, builder: &mut Builder, root: u32) {
        let Some(me) = self.folded.me() else { return };
        let mut width = 1;
        while width < self.folded.survivor_count() {
            let peer = self.folded.rank_of(me ^ width);
            if (me ^ root) & width != 0 {
                let mine = me & !(width - 1);
                self.exchange(builder, peer, self.run(self.sum, mine, mine + width), Buffer::EMPTY);
                return;
            }
            let theirs = (me ^ width) & !(width - 1);
            self.exchange(builder, peer, Buffer::EMPTY, self.run(self.sum, theirs, theirs + width));
            width *= 2;
        }
    }

    fn exchange(&self, builder: &mut Builder, peer: Rank, out: Buffer, back: Buffer) {
        if !out.is_empty() {
            builder.send(peer, out);
        }
        if !back.is_empty() {
            builder.receive(peer, back);
        }
        builder.fence();
    }
}

/// Where part `index` of `parts` nearly equal ones begins, in a vector of `count` elements of `extent` bytes.
pub(super) const fn even_offset(index: u32, parts: u32, count: usize, extent: usize) -> usize {
    let (index, parts) = (index as usize, parts as usize);
    let longer = count % parts;
    let first = (count / parts) * index + if index < longer { index } else { longer };
    first * extent
}
