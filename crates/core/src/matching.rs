//! Matching: posted receives on one side, unexpected messages on the other (MPI-5.0 §3.5).
//!
//! Both are kept in lists by *key* = (context, source, tag), where source and tag may be wildcards. A posted
//! receive is in the one list of its own key; an arriving message looks at the at most four keys that can
//! match it and takes the receive posted first. An unexpected message is in all four lists it could be found
//! by, in order of arrival; a receive looks at one. So both directions take constant time with any number of
//! entries, and order is exact: `stamp` counts posts, lists count arrivals.
//!
//! Not here: the handling of a match. A posted receive is named by its owner's slot, and its place in the
//! lists has the same number; an unexpected message by any number.

use crate::ids::{ContextId, Rank, Source, Tag, TagSelector};
use crate::wire::Envelope;
use alloc::vec;
use alloc::vec::Vec;

/// The key of a receive, or the key to find a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    context: ContextId,
    source: Rank,
    tag: Tag,
}

/// Ranks fit an `i32` (checked where they enter), so this is none of them.
const ANY_SOURCE: Rank = Rank::MAX;
/// Tags are ≥ 0 for users and ≥ -2^31 + 1 for our own use, so this is none of them.
const ANY_TAG: Tag = Tag::MIN;
const NONE: u32 = u32::MAX;

impl Key {
    #[inline]
    pub(crate) fn new(context: ContextId, source: Source, tag: TagSelector) -> Self {
        let source = match source {
            Source::Rank(rank) => rank,
            Source::Any => ANY_SOURCE,
        };
        let tag = match tag {
            TagSelector::Tag(tag) => tag,
            TagSelector::Any => ANY_TAG,
        };
        Self { context, source, tag }
    }

    pub(crate) fn context(&self) -> ContextId {
        self.context
    }

    /// `None`: any.
    pub(crate) fn tag(&self) -> Option<Tag> {
        (self.tag != ANY_TAG).then_some(self.tag)
    }

    /// Whether a message matches the key.
    #[inline]
    pub(crate) fn matches(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && (self.source == envelope.source || self.source == ANY_SOURCE)
            && (self.tag == envelope.tag || self.tag == ANY_TAG)
    }

    #[inline]
    fn exact(envelope: &Envelope) -> Self {
        Self { context: envelope.context, source: envelope.source, tag: envelope.tag }
    }

    /// With source (bit 0) and tag (bit 1) replaced by wildcards.
    #[inline]
    fn with_wildcards(self, class: usize) -> Self {
        Self {
            source: if class & 1 != 0 { ANY_SOURCE } else { self.source },
            tag: if class & 2 != 0 { ANY_TAG } else { self.tag },
            ..self
        }
    }

    #[inline]
    fn class(&self) -> usize {
        usize::from(self.source == ANY_SOURCE) | usize::from(self.tag == ANY_TAG) << 1
    }

    /// Multiplicative hash; the table takes the upper bits.
    #[inline]
    fn hash(&self) -> u64 {
        let word = u64::from(self.source) << 32 | u64::from(self.tag as u32);
        (word ^ self.context.0.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

#[derive(Clone, Copy)]
struct Node {
    list: u32,
    prev: u32,
    next: u32,
    /// Whose it is, for unexpected messages.
    value: u32,
    /// When it was posted, for receives.
    stamp: u64,
}

impl Node {
    const UNUSED: Self = Self { list: NONE, prev: NONE, next: NONE, value: 0, stamp: 0 };
}

struct List {
    key: Key,
    head: u32,
    tail: u32,
}

/// FIFO lists by key. Which node is free the owner knows.
struct Lists {
    /// Open addressing with linear probing: indices into `lists`, or NONE. A power of two long.
    table: Vec<u32>,
    lists: Vec<List>,
    nodes: Vec<Node>,
    len: usize,
    /// The list used last: programs repeat themselves.
    recent: u32,
}

impl Lists {
    fn new() -> Self {
        Self { table: vec![NONE; 16], lists: Vec::new(), nodes: Vec::new(), len: 0, recent: NONE }
    }

    #[inline(always)]
    fn find(&mut self, key: &Key) -> Option<u32> {
        if let Some(list) = self.lists.get(self.recent as usize)
            && list.key == *key
        {
            return Some(self.recent);
        }
        self.look_up(key)
    }

    #[inline(never)]
    fn look_up(&mut self, key: &Key) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut at = (key.hash() >> 32) as usize & mask;
        loop {
            let index = self.table[at];
            if index == NONE {
                return None;
            }
            if self.lists[index as usize].key == *key {
                self.recent = index;
                return Some(index);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline(never)]
    fn insert(&mut self, key: &Key) -> u32 {
        if (self.lists.len() + 1) * 2 > self.table.len() {
            self.rebuild();
        }
        let index = self.lists.len() as u32;
        self.lists.push(List { key: *key, head: NONE, tail: NONE });
        self.insert_into_table(key, index);
        self.recent = index;
        index
    }

    fn insert_into_table(&mut self, key: &Key, index: u32) {
        let mask = self.table.len() - 1;
        let mut at = (key.hash() >> 32) as usize & mask;
        while self.table[at] != NONE {
            at = (at + 1) & mask;
        }
        self.table[at] = index;
    }

    /// Drops empty lists (kept until now because the next message usually has the same key) and makes the
    /// table at least four times as long as the rest.
    fn rebuild(&mut self) {
        let old = core::mem::take(&mut self.lists);
        for list in old {
            if list.head == NONE {
                continue;
            }
            let index = self.lists.len() as u32;
            let mut node = list.head;
            while node != NONE {
                self.nodes[node as usize].list = index;
                node = self.nodes[node as usize].next;
            }
            self.lists.push(list);
        }
        let target = ((self.lists.len() + 1) * 4).next_power_of_two().max(16);
        self.table = vec![NONE; target];
        for index in 0..self.lists.len() {
            let key = self.lists[index].key;
            self.insert_into_table(&key, index as u32);
        }
        self.recent = NONE;
    }

    /// Puts node `id` at the end of the key's list.
    #[inline(always)]
    fn push(&mut self, key: &Key, id: u32, (value, stamp): (u32, u64)) {
        let index = match self.find(key) {
            Some(index) => index,
            None => self.insert(key),
        };
        if self.nodes.len() <= id as usize {
            self.grow(id);
        }
        let list = &mut self.lists[index as usize];
        let tail = core::mem::replace(&mut list.tail, id);
        match tail {
            NONE => list.head = id,
            _ => self.nodes[tail as usize].next = id,
        }
        self.nodes[id as usize] = Node { list: index, prev: tail, next: NONE, value, stamp };
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self, id: u32) {
        self.nodes.resize(id as usize + 1, Node::UNUSED);
    }

    #[inline(always)]
    fn front(&mut self, key: &Key) -> Option<u32> {
        let list = self.find(key)?;
        let head = self.lists[list as usize].head;
        (head != NONE).then_some(head)
    }

    #[inline(always)]
    fn remove(&mut self, id: u32) {
        let Node { list, prev, next, .. } = self.nodes[id as usize];
        let list = &mut self.lists[list as usize];
        match prev {
            NONE => list.head = next,
            _ => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => list.tail = prev,
            _ => self.nodes[next as usize].prev = prev,
        }
        self.len -= 1;
    }
}

/// Posted receives.
pub(crate) struct Posted {
    lists: Lists,
    stamp: u64,
    /// How many receives of each wildcard class are posted.
    by_class: [usize; 4],
}

impl Posted {
    pub(crate) fn new() -> Self {
        Self { lists: Lists::new(), stamp: 0, by_class: [0; 4] }
    }

    /// Posts the receive in its owner's slot `slot`.
    #[inline(always)]
    pub(crate) fn post(&mut self, key: Key, slot: u32) {
        self.stamp += 1;
        self.by_class[key.class()] += 1;
        self.lists.push(&key, slot, (0, self.stamp));
    }

    /// Takes the receive that a message matches, by its slot: of all that do, the one posted first.
    #[inline(always)]
    pub(crate) fn take_match(&mut self, envelope: &Envelope) -> Option<u32> {
        if self.lists.len == 0 {
            return None;
        }
        if self.by_class[0] != self.lists.len {
            return self.take_among_wildcards(envelope);
        }
        let slot = self.lists.front(&Key::exact(envelope))?;
        self.by_class[0] -= 1;
        self.lists.remove(slot);
        Some(slot)
    }

    /// The receive that [`take_match`](Self::take_match) would take.
    pub(crate) fn find_match(&mut self, envelope: &Envelope) -> Option<u32> {
        self.find_among_wildcards(envelope).map(|(slot, _)| slot)
    }

    #[inline(never)]
    fn take_among_wildcards(&mut self, envelope: &Envelope) -> Option<u32> {
        let (slot, class) = self.find_among_wildcards(envelope)?;
        self.by_class[class] -= 1;
        self.lists.remove(slot);
        Some(slot)
    }

    /// The receive that a message matches, and its class.
    #[inline]
    fn find_among_wildcards(&mut self, envelope: &Envelope) -> Option<(u32, usize)> {
        let exact = Key::exact(envelope);
        let mut best: Option<(u32, u64, usize)> = None;
        for class in 0..4 {
            if self.by_class[class] == 0 {
                continue;
            }
            if let Some(slot) = self.lists.front(&exact.with_wildcards(class)) {
                let stamp = self.lists.nodes[slot as usize].stamp;
                if best.is_none_or(|(_, first, _)| stamp < first) {
                    best = Some((slot, stamp, class));
                }
            }
        }
        best.map(|(slot, _, class)| (slot, class))
    }

    /// Withdraws a posted receive.
    pub(crate) fn withdraw(&mut self, key: Key, slot: u32) {
        self.by_class[key.class()] -= 1;
        self.lists.remove(slot);
    }

    /// How many are posted.
    pub(crate) fn len(&self) -> usize {
        self.lists.len
    }
}

/// Where an unexpected message stands in the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places([u32; 4]);

/// Messages that arrived before their receive.
pub(crate) struct Unexpected {
    lists: Lists,
    /// Nodes to be used again.
    free: Vec<u32>,
}

impl Unexpected {
    pub(crate) fn new() -> Self {
        Self { lists: Lists::new(), free: Vec::new() }
    }

    /// Adds a message.
    pub(crate) fn add(&mut self, envelope: &Envelope, value: u32) -> Places {
        let exact = Key::exact(envelope);
        Places(core::array::from_fn(|class| {
            let node = self.free.pop().unwrap_or(self.lists.nodes.len() as u32);
            self.lists.push(&exact.with_wildcards(class), node, (value, 0));
            node
        }))
    }

    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.len == 0
    }

    /// The first message, in order of arrival, that a receive would match.
    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        self.lists.front(key).map(|node| self.lists.nodes[node as usize].value)
    }

    /// Takes a message out.
    pub(crate) fn remove(&mut self, places: Places) {
        for node in places.0 {
            self.lists.remove(node);
            self.free.push(node);
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lists.len / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: Option<u32>, tag: Option<i32>) -> Key {
        Key::new(
            ContextId::WORLD,
            source.map_or(Source::Any, Source::Rank),
            tag.map_or(TagSelector::Any, TagSelector::Tag),
        )
    }

    fn envelope(source: u32, tag: i32) -> Envelope {
        Envelope { context: ContextId::WORLD, source, tag }
    }

    #[test]
    fn of_all_matching_receives_the_first_posted_wins() {
        let mut posted = Posted::new();
        posted.post(key(Some(1), Some(5)), 10);
        posted.post(key(None, Some(5)), 11);
        posted.post(key(Some(1), None), 12);
        posted.post(key(None, None), 13);
        posted.post(key(Some(1), Some(5)), 14);
        assert_eq!(posted.take_match(&envelope(2, 5)), Some(11));
        assert_eq!(posted.take_match(&envelope(1, 5)), Some(10));
        assert_eq!(posted.take_match(&envelope(1, 5)), Some(12));
        assert_eq!(posted.take_match(&envelope(1, 5)), Some(13));
        assert_eq!(posted.take_match(&envelope(1, 5)), Some(14));
        assert_eq!(posted.take_match(&envelope(1, 5)), None);
        assert_eq!(posted.len(), 0);
    }

    #[test]
    fn every_selector_finds_unexpected_messages_in_arrival_order() {
        let mut unexpected = Unexpected::new();
        let first = unexpected.add(&envelope(1, 5), 0);
        unexpected.add(&envelope(2, 5), 1);
        unexpected.add(&envelope(1, 6), 2);
        assert_eq!(unexpected.find(&key(None, None)), Some(0));
        assert_eq!(unexpected.find(&key(Some(1), None)), Some(0));
        assert_eq!(unexpected.find(&key(Some(2), Some(5))), Some(1));
        unexpected.remove(first);
        assert_eq!(unexpected.find(&key(None, Some(5))), Some(1));
        assert_eq!(unexpected.find(&key(Some(1), None)), Some(2));
        assert_eq!(unexpected.find(&key(Some(1), Some(5))), None);
        assert_eq!(unexpected.len(), 2);
    }

    #[test]
    fn other_contexts_never_match() {
        let mut posted = Posted::new();
        posted.post(key(None, None), 1);
        let other = Envelope { context: ContextId::WORLD.collective(), ..envelope(1, 5) };
        assert_eq!(posted.take_match(&other), None);
    }

    #[test]
    fn many_keys_grow_the_table_and_empty_lists_are_dropped() {
        let mut posted = Posted::new();
        for tag in 0..100_000 {
            posted.post(key(Some(1), Some(tag)), tag as u32);
        }
        for tag in (0..100_000).rev() {
            assert_eq!(posted.take_match(&envelope(1, tag)), Some(tag as u32));
        }
        for tag in 100_000..400_000 {
            posted.post(key(Some(1), Some(tag)), 7);
            assert!(posted.take_match(&envelope(1, tag)).is_some());
        }
        assert!(posted.lists.lists.len() <= 200_000, "empty lists pile up: {}", posted.lists.lists.len());
    }
}
