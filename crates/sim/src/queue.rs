//! The pending events other than looks at router ports (`wheel`), earliest first.
//!
//! A timing wheel for what is near, a heap for what is far. The wheel has a list for each slice of time; its
//! slices are chosen so that a busy network has about one event in each, and so that all delays of links and
//! routers end within one turn. Taking an event out is then a step to the next list, found in a bitmap. The
//! heap takes what lies beyond a turn (long gaps, timers of the layer above).
//!
//! Order is total and part of the simulator's contract: by time, then class, then entity. Two equal entries
//! are interchangeable, so no sequence number is needed.

use crate::slab::NONE;

/// What kind of thing happens; the order is the order at equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Class {
    /// A frame has arrived at an Ethernet switch.
    Frame,
    /// A cable of an Ethernet switch or NIC may be free.
    Cable,
    /// A pause frame takes effect.
    Pause,
    /// A NIC may have something to send.
    Nic,
    /// A TCP stream's retransmission timer may have run out.
    Retransmission,
    /// A delayed acknowledgement of a TCP stream may be due.
    DelayedAck,
    /// A message has left its NIC.
    Injected,
    /// A message has arrived.
    Delivered,
    /// The caller's timer.
    Timer,
}

/// Time, class and entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) time_ps: u64,
    pub(crate) class: Class,
    pub(crate) entity: u32,
}

impl Event {
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.time_ps) << 64 | u128::from(self.class as u32) << 32 | u128::from(self.entity)
    }
}

/// An event in a list of the wheel.
#[derive(Debug, Clone, Copy)]
struct Node {
    event: Event,
    next: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Queue {
    /// log2 of a slice's length in ps.
    slice_bits: u32,
    /// The slice being taken out; all of `current` is in it or before.
    slice: u64,
    /// Sorted, the earliest last.
    current: Vec<Event>,
    /// First node of each list, by slice modulo the number of lists (a power of two).
    lists: Vec<u32>,
    /// A bit for each list that is not empty.
    occupied: Vec<u64>,
    nodes: Vec<Node>,
    free_node: u32,
    far: Heap,
    /// The last slice that `look_ahead` has shown.
    shown: u64,
    /// Pending events that are not the caller's timers.
    network_count: usize,
}

impl Queue {
    /// A queue for about `busy_count` events at a time, most of them less than `horizon_ps` ahead.
    pub(crate) fn new(busy_count: usize, horizon_ps: u64) -> Queue {
        let list_count = (4 * busy_count).next_power_of_two().clamp(1 << 10, 1 << 17);
        let slice_ps = (4 * horizon_ps / list_count as u64).max(1).next_power_of_two();
        Queue {
            slice_bits: slice_ps.trailing_zeros(),
            slice: 0,
            current: Vec::with_capacity(64),
            lists: vec![NONE; list_count],
            occupied: vec![0; list_count / 64],
            nodes: Vec::new(),
            free_node: NONE,
            far: Heap::default(),
            shown: 0,
            network_count: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, time_ps: u64, class: Class, entity: u32) {
        self.network_count += usize::from(class != Class::Timer);
        self.insert(Event { time_ps, class, entity });
    }

    /// Whether nothing but timers of the caller is pending.
    #[inline]
    pub(crate) fn has_only_timers(&self) -> bool {
        self.network_count == 0
    }

    /// From 1: before the first event is taken out no slice is open, so what is pushed until then is put in
    /// lists, however many events there are at time 0.
    #[inline]
    fn slice_of(&self, time_ps: u64) -> u64 {
        (time_ps >> self.slice_bits) + 1
    }

    #[inline]
    fn insert(&mut self, event: Event) {
        let slice = self.slice_of(event.time_ps);
        if slice <= self.slice {
            let later_count = self.current.partition_point(|other| other.key() > event.key());
            self.current.insert(later_count, event);
        } else if slice - self.slice < self.lists.len() as u64 {
            self.put_in_list(slice, event);
        } else {
            self.far.push(event);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.current.is_empty() && !self.turn() {
            return None;
        }
        let event = self.current.pop()?;
        self.network_count -= usize::from(event.class != Class::Timer);
        Some(event)
    }

    #[inline]
    pub(crate) fn peek_time_ps(&mut self) -> Option<u64> {
        if self.current.is_empty() && !self.turn() {
            return None;
        }
        self.current.last().map(|event| event.time_ps)
    }

    /// Shows the events up to `slice_count` slices ahead that it has not shown yet, but for those that
    /// came later to a slice that it has: for the network to fetch what they will need.
    #[inline(always)]
    pub(crate) fn look_ahead(&mut self, slice_count: u64, mut show: impl FnMut(Event)) {
        self.shown = self.shown.max(self.slice);
        while self.shown < self.slice + slice_count {
            self.shown += 1;
            let mut at = self.lists[self.shown as usize & (self.lists.len() - 1)];
            while let Some(node) = self.nodes.get(at as usize) {
                show(node.event);
                at = node.next;
            }
        }
    }

    #[inline]
    fn put_in_list(&mut self, slice: u64, event: Event) {
        let list = slice as usize & (self.lists.len() - 1);
        let node = Node { event, next: self.lists[list] };
        let index = self.free_node;
        if index == NONE {
            self.lists[list] = self.nodes.len() as u32;
            self.nodes.push(node);
        } else {
            self.lists[list] = index;
            self.free_node = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
        }
        self.occupied[list / 64] |= 1 << (list % 64);
    }

    /// Turns the wheel to the next list that is not empty; false if there is nothing at all.
    fn turn(&mut self) -> bool {
        loop {
            let end = self.slice + self.lists.len() as u64;
            while self.far.first().is_some_and(|event| self.slice_of(event.time_ps) < end) {
                if let Some(event) = self.far.pop() {
                    self.insert(event);
                }
            }
            if !self.current.is_empty() {
                return true;
            }
            if let Some(slice) = self.next_occupied() {
                self.slice = slice;
                self.take_list();
                return true;
            }
            match self.far.first() {
                None => return false,
                Some(event) => self.slice = self.slice_of(event.time_ps),
            }
        }
    }

    /// The first slice after the current one with a list that is not empty.
    #[inline]
    fn next_occupied(&self) -> Option<u64> {
        let words = self.occupied.len();
        let start = (self.slice as usize + 1) & (self.lists.len() - 1);
        let (first, offset) = (start / 64, start % 64);
        let ahead = self.occupied[first] >> offset;
        if ahead != 0 {
            return Some(self.slice + 1 + u64::from(ahead.trailing_zeros()));
        }
        // The first word comes again at the end, for the bits before `offset`.
        for step in 1..=words {
            let bits = self.occupied[(first + step) & (words - 1)];
            if bits != 0 {
                let distance = (64 * step + bits.trailing_zeros() as usize) - offset;
                return Some(self.slice + 1 + distance as u64);
            }
        }
        None
    }

    #[inline]
    fn take_list(&mut self) {
        let list = self.slice as usize & (self.lists.len() - 1);
        let mut at = std::mem::replace(&mut self.lists[list], NONE);
        self.occupied[list / 64] &= !(1 << (list % 64));
        while at != NONE {
            let Node { event, next } = self.nodes[at as usize];
            self.nodes[at as usize].next = self.free_node;
            self.free_node = at;
            self.current.push(event);
            at = next;
        }
        match self.current.len() {
            0 | 1 => {}
            2..=16 => insertion_sort(&mut self.current),
            _ => self.current.sort_unstable_by_key(|event| std::cmp::Reverse(event.key())),
        }
    }
}

/// Latest first. Lists have an event or two: calling the library's sort would take longer than sorting.
#[inline]
fn insertion_sort(events: &mut [Event]) {
    for sorted in 1..events.len() {
        let event = events[sorted];
        let mut at = sorted;
        while at > 0 && events[at - 1].key() < event.key() {
            events[at] = events[at - 1];
            at -= 1;
        }
        events[at] = event;
    }
}

const ARITY: usize = 4;

/// A four-ary heap: the children of an entry fill one cache line.
#[derive(Debug, Default)]
struct Heap {
    events: Vec<Event>,
}

impl Heap {
    fn first(&self) -> Option<Event> {
        self.events.first().copied()
    }

    fn push(&mut self, event: Event) {
        let mut at = self.events.len();
        self.events.push(event);
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.events[parent].key() <= event.key() {
                break;
            }
            self.events[at] = self.events[parent];
            at = parent;
        }
        self.events[at] = event;
    }

    fn pop(&mut self) -> Option<Event> {
        let last = self.events.pop()?;
        let Some(first) = self.first() else { return Some(last) };
        let len = self.events.len();
        let mut at = 0;
        loop {
            let children = ARITY * at + 1;
            if children >= len {
                break;
            }
            let key = |child: &usize| self.events[*child].key();
            let least = (children..(children + ARITY).min(len)).min_by_key(key).unwrap_or(children);
            if last.key() <= self.events[least].key() {
                break;
            }
            self.events[at] = self.events[least];
            at = least;
        }
        self.events[at] = last;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_random::Random;

    #[test]
    fn events_come_in_order_of_time_class_and_entity() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            // From far within one slice to far beyond a turn of the wheel.
            let reach_ps = 1 << random.below(24);
            let mut queue = Queue::new(1, 1 << random.below(20));
            let mut model = std::collections::BinaryHeap::new();
            let mut now_ps = 0;
            for step in 0..4_000 {
                // Fill, then drain, then fill again.
                if random.below(5) < if step % 1_000 < 500 { 4 } else { 1 } {
                    let time_ps = now_ps + random.below(reach_ps);
                    let class = [Class::Nic, Class::Injected, Class::Delivered, Class::Timer]
                        [random.below(4) as usize];
                    let entity = random.below(8) as u32;
                    queue.push(time_ps, class, entity);
                    model.push(std::cmp::Reverse(Event { time_ps, class, entity }));
                } else {
                    if random.below(2) == 0 {
                        assert_eq!(
                            queue.peek_time_ps(),
                            model.peek().map(|next| next.0.time_ps),
                            "seed {seed}"
                        );
                    }
                    let event = queue.pop();
                    assert_eq!(event, model.pop().map(|next| next.0), "seed {seed}");
                    now_ps = event.map_or(now_ps, |event| event.time_ps);
                }
            }
        }
    }
}
