//! A bounded queue from one thread to another: the command and response queues (P5).
//!
//! ```text
//!   producer:  tail - head < capacity ?   slot[tail] = item   tail += 1 (release)
//!   consumer:  head != tail (acquire) ?   item = slot[head]   head += 1 (release)
//! ```
//!
//! Each side keeps the other's counter as last seen and reads it again only when the ring seems full, or
//! empty, so a line moves between the CPUs only when needed. The owners decide which threads produce and
//! consume: each side is a value that is used through `&mut`, so by one thread at a time.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A counter on lines of its own.
#[repr(align(128))]
struct Counter(AtomicU32);

struct Ring<T> {
    /// Items taken out; written by the consumer.
    head: Counter,
    /// Items put in; written by the producer.
    tail: Counter,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is touched by the producer while it is vacant and by the consumer while it is taken, as the
// counters show (release and acquire), so never by both; the items are `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above; the items in it may be dropped by any thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    #[inline]
    fn slot(&self, count: u32) -> *mut MaybeUninit<T> {
        // The length is a power of two, so a count that wraps goes on at the next slot.
        self.slots[count as usize & (self.slots.len() - 1)].get()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (*self.head.0.get_mut(), *self.tail.0.get_mut());
        while head != tail {
            // SAFETY: slots between the counters are taken, and no other user is left.
            unsafe { (*self.slot(head)).assume_init_drop() };
            head = head.wrapping_add(1);
        }
    }
}

/// The side that puts in.
pub(super) struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: u32,
    head_seen: u32,
}

/// The side that takes out.
pub(super) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: u32,
    tail_seen: u32,
}

/// A queue for `capacity` items, a power of two.
pub(super) fn ring<T>(capacity: u32) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "a ring of {capacity}");
    let counter = || Counter(AtomicU32::new(0));
    let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let ring = Arc::new(Ring { head: counter(), tail: counter(), slots });
    let consumer = Consumer { ring: ring.clone(), head: 0, tail_seen: 0 };
    (Producer { ring, tail: 0, head_seen: 0 }, consumer)
}

impl<T> Producer<T> {
    /// Puts an item in, or gives it back where there is no room.
    #[inline]
    pub(super) fn push(&mut self, item: T) -> Result<(), T> {
        let capacity = self.ring.slots.len() as u32;
        if self.tail.wrapping_sub(self.head_seen) == capacity {
            self.head_seen = self.ring.head.0.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head_seen) == capacity {
                return Err(item);
            }
        }
        // SAFETY: the slot is vacant: the consumer has taken what was in it (acquired above), and comes again
        // only after the store of the tail below.
        unsafe { (*self.ring.slot(self.tail)).write(item) };
        self.tail = self.tail.wrapping_add(1);
        self.ring.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    /// Whether there is nothing to take.
    #[inline]
    pub(super) fn is_empty(&mut self) -> bool {
        if self.head == self.tail_seen {
            self.tail_seen = self.ring.tail.0.load(Ordering::Acquire);
        }
        self.head == self.tail_seen
    }

    /// The oldest item.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the slot was filled before the tail that was acquired, and is not written again before the
        // store of the head below; it is read once, since the head goes on.
        let item = unsafe { (*self.ring.slot(self.head)).assume_init_read() };
        self.head = self.head.wrapping_add(1);
        self.ring.head.0.store(self.head, Ordering::Release);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_ring_returns_the_item_and_an_empty_one_nothing() {
        let (mut producer, mut consumer) = ring(4);
        assert_eq!(consumer.pop(), None::<u32>);
        for item in 0..4 {
            producer.push(item).unwrap();
        }
        assert_eq!(producer.push(4), Err(4));
        assert_eq!(consumer.pop(), Some(0));
        producer.push(4).unwrap();
        assert_eq!(std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn what_is_left_in_a_ring_is_dropped_once() {
        let item = Arc::new(());
        let (mut producer, mut consumer) = ring(8);
        for _ in 0..6 {
            producer.push(item.clone()).unwrap();
        }
        drop((consumer.pop(), consumer.pop()));
        assert_eq!(Arc::strong_count(&item), 5);
        drop((producer, consumer));
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn items_of_another_thread_stay_in_order_as_the_ring_wraps() {
        const COUNT: u64 = 100_000;
        let (mut producer, mut consumer) = ring(16);
        let thread = std::thread::spawn(move || {
            for item in 0..COUNT {
                let mut item = Box::new(item);
                while let Err(back) = producer.push(item) {
                    item = back;
                    std::thread::yield_now();
                }
            }
        });
        for expected in 0..COUNT {
            let item = loop {
                match consumer.pop() {
                    Some(item) => break item,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(*item, expected);
        }
        thread.join().unwrap();
        assert!(consumer.is_empty());
    }
}
