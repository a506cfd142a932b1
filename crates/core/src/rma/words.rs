//! Accumulates on elements of 4 or 8 bytes as words, each of which is changed as a whole: by the processor,
//! in memory that several processes map (`W` is theirs: the core has no atomics), or by the one engine that
//! changes it ([`Plain`]).

use super::apply::{accumulate, apply, read};
use crate::buffer::{Buffer, Piece};
use crate::data::{Data, Sink, Source};
use crate::datatype::{Element, Number, Predefined};
use crate::error::Error;
use crate::op::{Operation, Reducer};
use alloc::vec;
use core::borrow::Borrow;

/// A word of 4 or 8 bytes, which others may change between two calls and not during one. Values of a 4-byte
/// word use only the low 4 bytes.
pub trait Word {
    /// Its value.
    fn load(&self) -> u64;
    /// Puts a number in; the old one.
    fn swap(&self, new: u64) -> u64;
    /// Adds a number, and wraps around; the old one.
    fn add(&self, operand: u64) -> u64;
    /// Puts `new` in if it holds `old`. Else, what it holds.
    ///
    /// # Errors
    /// It holds another number, which is given.
    fn replace(&self, old: u64, new: u64) -> Result<(), u64>;
}

/// A word of memory that no other thread changes meanwhile.
pub(super) struct Plain<'a>(pub(super) &'a Buffer);

impl Word for Plain<'_> {
    #[inline(always)]
    fn load(&self) -> u64 {
        word_of(self.0)
    }

    #[inline(always)]
    fn swap(&self, new: u64) -> u64 {
        let old = word_of(self.0);
        write_word(self.0, new);
        old
    }

    #[inline(always)]
    fn add(&self, operand: u64) -> u64 {
        let old = word_of(self.0);
        write_word(self.0, old.wrapping_add(operand));
        old
    }

    #[inline(always)]
    fn replace(&self, _: u64, new: u64) -> Result<(), u64> {
        write_word(self.0, new);
        Ok(())
    }
}

/// The number in a buffer of 4 or 8 bytes.
#[inline(always)]
fn word_of(buffer: &Buffer) -> u64 {
    if buffer.len() == 4 {
        let mut bytes = [0; 4];
        buffer.read(0, &mut bytes);
        return u32::from_ne_bytes(bytes).into();
    }
    let mut bytes = [0; 8];
    buffer.read(0, &mut bytes);
    u64::from_ne_bytes(bytes)
}

#[inline(always)]
fn write_word(buffer: &Buffer, word: u64) {
    if buffer.len() == 4 {
        buffer.scatter(0, Piece::Bytes(&(word as u32).to_ne_bytes()));
    } else {
        buffer.scatter(0, Piece::Bytes(&word.to_ne_bytes()));
    }
}

/// Bytes of an element of the type, if such elements are words. It depends on nothing but the type: all
/// accumulates of a type on an element have to exclude each other.
#[inline]
pub fn word_bytes(datatype: Predefined) -> Option<usize> {
    let bytes = datatype.size_bytes();
    ((bytes == 4 || bytes == 8) && datatype.is_contiguous()).then_some(bytes)
}

/// Whether elements of the type are words and integers that can be summed: what [`accumulate_integer`] takes.
pub const fn is_integer_word(datatype: Predefined) -> bool {
    let bytes = datatype.size_bytes();
    (bytes == 4 || bytes == 8)
        && datatype.is_contiguous()
        && matches!(datatype.element(), Element::Number(Number::Signed(_) | Number::Unsigned(_)))
        && Operation::Sum.is_defined_on(datatype)
}

/// As [`accumulate_word`], of an integer, if one instruction does it. Whether it was done.
#[inline(always)]
pub fn accumulate_integer(
    word: &impl Word,
    source: Option<&Buffer>,
    fetched: Option<&Buffer>,
    operation: Operation,
) -> bool {
    let old = match (operation, source) {
        (Operation::Sum, Some(source)) => word.add(word_of(source)),
        (Operation::Replace, Some(source)) => word.swap(word_of(source)),
        (Operation::NoOp, _) => word.load(),
        _ => return false,
    };
    if let Some(fetched) = fetched {
        write_word(fetched, old);
    }
    true
}

/// An accumulate of one element. `source` and `fetched`, where they are wanted, are as long as the word,
/// which is as long as an element.
///
/// # Errors
/// [`Error::Op`] if the operation is not defined on the type: nothing is done.
#[inline]
pub fn accumulate_word(
    word: &impl Word,
    source: Option<&Buffer>,
    fetched: Option<&Buffer>,
    (operation, datatype): (Operation, Predefined),
) -> Result<(), Error> {
    if !operation.is_defined_on(datatype) {
        return Err(Error::Op);
    }
    let bytes = source.or(fetched).map_or(0, Buffer::len);
    let loops = || Reducer::for_accumulate(operation, datatype).ok();
    let old = change(word, bytes, source.map_or(0, word_of), (operation, datatype), loops);
    if let Some(fetched) = fetched {
        write_word(fetched, old);
    }
    Ok(())
}

/// Changes a word of `bytes` and returns its old value. `loops` are the operation's, which is defined on the
/// type.
#[inline(always)]
fn change<R: Borrow<Reducer>>(
    word: &impl Word,
    bytes: usize,
    operand: u64,
    (operation, datatype): (Operation, Predefined),
    loops: impl FnOnce() -> Option<R>,
) -> u64 {
    let is_signed = match datatype.element() {
        Element::Number(Number::Signed(_)) => Some(true),
        Element::Number(Number::Unsigned(_)) => Some(false),
        _ => None,
    };
    match (operation, is_signed) {
        (Operation::Sum, Some(_)) => word.add(operand),
        (Operation::Replace, _) => word.swap(operand),
        (Operation::NoOp, _) => word.load(),
        (
            Operation::Min | Operation::Max | Operation::Band | Operation::Bor | Operation::Bxor,
            Some(is_signed),
        ) => change_by_trying(word, |old| combine((old, operand), bytes, operation, is_signed)),
        _ => match loops() {
            Some(reducer) => {
                change_by_trying(word, |old| combine_by_loops((old, operand), bytes, reducer.borrow()))
            }
            None => word.load(),
        },
    }
}

/// Computes and exchanges a word's new value, and retries if another thread changed the word meanwhile.
#[inline]
fn change_by_trying(word: &impl Word, combine: impl Fn(u64) -> u64) -> u64 {
    let mut old = word.load();
    loop {
        match word.replace(old, combine(old)) {
            Ok(()) => return old,
            Err(now) => old = now,
        }
    }
}

/// Result of an integer operation that needs no loop.
#[inline(always)]
fn combine((old, operand): (u64, u64), bytes: usize, operation: Operation, is_signed: bool) -> u64 {
    // With the sign bit flipped, signed numbers compare as unsigned ones.
    let sign = if is_signed { 1_u64 << (8 * bytes - 1) } else { 0 };
    let is_less = old ^ sign < operand ^ sign;
    match operation {
        Operation::Min if is_less => old,
        Operation::Max if !is_less => old,
        Operation::Band => old & operand,
        Operation::Bor => old | operand,
        Operation::Bxor => old ^ operand,
        _ => operand,
    }
}

/// The same by the loops of reductions.
fn combine_by_loops((old, operand): (u64, u64), bytes: usize, reducer: &Reducer) -> u64 {
    if bytes == 4 {
        let mut inout = (old as u32).to_ne_bytes();
        reducer.apply(&(operand as u32).to_ne_bytes(), &mut inout);
        return u32::from_ne_bytes(inout).into();
    }
    let mut inout = old.to_ne_bytes();
    reducer.apply(&operand.to_ne_bytes(), &mut inout);
    u64::from_ne_bytes(inout)
}

/// As [`accumulate`], in memory whose elements others change as words meanwhile: so it changes each as one,
/// too. `shared_word` gives the word of a buffer; elements of which it gives none, and those of other types,
/// others change under the lock that the caller has.
///
/// # Errors
/// As those of [`accumulate`].
pub fn accumulate_by_words<W: Word>(
    target: &Sink,
    source: Option<&Source>,
    fetched: Option<&Sink>,
    what: (Operation, Predefined),
    shared_word: impl Fn(&Buffer) -> Option<W>,
) -> Result<(), Error> {
    let len = target.len();
    let fits =
        source.is_none_or(|source| source.len() == len) && fetched.is_none_or(|sink| sink.len() == len);
    let Some(bytes) = word_bytes(what.1).filter(|bytes| fits && len.is_multiple_of(*bytes)) else {
        return accumulate(target, source, fetched, what);
    };
    let reducer = Reducer::for_accumulate(what.0, what.1)?;
    if source.is_none() && what.0 != Operation::NoOp {
        return Err(Error::Count);
    }
    let mut input = vec![0; len];
    if let Some(source) = source {
        read(&source.0, 0, &mut input);
    }
    let mut at = 0;
    let mut change_all = |piece: Buffer| {
        for offset in (0..piece.len()).step_by(bytes) {
            let part = piece.part(offset, bytes.min(piece.len() - offset));
            let place = &mut input[at..at + part.len()];
            at += part.len();
            let (mut operand, mut old) = ([0; 8], [0; 8]);
            operand[..place.len()].copy_from_slice(place);
            let word = shared_word(&part).filter(|_| part.len() == bytes);
            let loops = || Some(&reducer);
            match (word, bytes) {
                (Some(word), 4) => {
                    let operand = u32::from_ne_bytes([operand[0], operand[1], operand[2], operand[3]]);
                    let was = change(&word, 4, operand.into(), what, loops) as u32;
                    old[..4].copy_from_slice(&was.to_ne_bytes());
                }
                (Some(word), _) => {
                    old = change(&word, 8, u64::from_ne_bytes(operand), what, loops).to_ne_bytes();
                }
                (None, _) => {
                    part.read(0, &mut old[..part.len()]);
                    // It is defined on the type.
                    let _ = apply(&Data::Memory(part), 0, place, what);
                }
            }
            // From here on what was there.
            place.copy_from_slice(&old[..place.len()]);
        }
    };
    match &target.0 {
        Data::Memory(buffer) => change_all(*buffer),
        Data::Region(region) => region.pieces(0, len).for_each(change_all),
    }
    if let Some(fetched) = fetched {
        fetched.0.write(0, Piece::Bytes(&input));
    }
    Ok(())
}

/// As [`compare_and_swap_in`](super::compare_and_swap_in), of a word. All buffers are as long as it.
#[inline]
pub fn compare_and_swap_word(word: &impl Word, compare: &Buffer, origin: &Buffer, result: &Buffer) {
    let expected = word_of(compare);
    let old = word.replace(expected, word_of(origin)).map_or_else(|held| held, |()| expected);
    write_word(result, old);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Region};
    use alloc::vec::Vec;

    /// A word as a process would have it that maps the memory.
    struct Mapped(Buffer);

    impl Word for Mapped {
        fn load(&self) -> u64 {
            Plain(&self.0).load()
        }
        fn swap(&self, new: u64) -> u64 {
            Plain(&self.0).swap(new)
        }
        fn add(&self, operand: u64) -> u64 {
            Plain(&self.0).add(operand)
        }
        fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
            let held = self.load();
            if held == old { Plain(&self.0).replace(old, new) } else { Err(held) }
        }
    }

    fn memory(bytes: &[u8]) -> Buffer {
        let buffer = Buffer::leaked(bytes.len());
        buffer.scatter(0, Piece::Bytes(bytes));
        buffer
    }

    #[test]
    fn by_words_elements_become_what_the_loops_make_of_them() {
        // No float of it is none: which one of two such comes out is left open.
        let noise: Vec<u8> =
            (0..256_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 & 0x3f).collect();
        let mut done_count = 0;
        for &datatype in Predefined::ALL {
            let size = datatype.size_bytes();
            for &operation in Operation::ALL {
                for gap in [0, size as isize] {
                    let slot = Layout::bytes(size).resized(0, size as isize + gap).unwrap();
                    let region = |buffer| Sink::from(Region::new(slot.clone(), 3, buffer).unwrap());
                    let span = slot.span(3).unwrap().len;
                    let source = Source::from(memory(&noise[..3 * size]));
                    let source = (operation != Operation::NoOp).then_some(source);
                    let run = |by_words: bool| {
                        let (target, old) = (memory(&noise[1..=span]), Buffer::leaked(3 * size));
                        let (ends, what) = ((region(target), Sink::from(old)), (operation, datatype));
                        let result = if by_words {
                            // Every second one is another's.
                            let word = |part: &Buffer| {
                                let is_odd = part.as_ptr()?.addr() / size % 2 == 1;
                                is_odd.then_some(Mapped(*part))
                            };
                            accumulate_by_words(&ends.0, source.as_ref(), Some(&ends.1), what, word)
                        } else {
                            accumulate(&ends.0, source.as_ref(), Some(&ends.1), what)
                        };
                        (result, target.to_vec(), old.to_vec())
                    };
                    let expected = run(false);
                    done_count += u32::from(expected.0.is_ok());
                    assert_eq!(run(true), expected, "{operation:?} {datatype:?} {gap}");
                }
            }
        }
        assert!(done_count > 400, "{done_count}");
    }

    #[test]
    fn one_instruction_does_to_an_integer_what_the_loops_do() {
        let mut done_count = 0;
        for &datatype in Predefined::ALL.iter().filter(|datatype| is_integer_word(**datatype)) {
            let size = word_bytes(datatype).unwrap();
            for &operation in Operation::ALL {
                let source = memory(&[0xff, 0x81, 3, 4, 5, 6, 7, 0x88][..size]);
                let source = (operation != Operation::NoOp).then_some(&source);
                let run = |is_integer: bool| {
                    let (target, old) =
                        (memory(&[9, 0x90, 1, 2, 3, 4, 5, 0xf6][..size]), Buffer::leaked(size));
                    let is_done = if is_integer {
                        accumulate_integer(&Plain(&target), source, Some(&old), operation)
                    } else {
                        accumulate_word(&Plain(&target), source, Some(&old), (operation, datatype)).is_ok()
                    };
                    (is_done, target.to_vec(), old.to_vec())
                };
                let (done, expected) = (run(true), run(false));
                assert!(!done.0 || done == expected, "{operation:?} {datatype:?}");
                done_count += u32::from(done.0);
            }
        }
        assert!(!accumulate_integer(&Plain(&memory(&[0; 8])), None, None, Operation::Sum));
        assert!(done_count >= 3 * 10, "{done_count}");
        assert!(!is_integer_word(Predefined::Double) && !is_integer_word(Predefined::Short));
    }

    #[test]
    fn a_word_that_others_change_is_tried_again() {
        /// One that is changed before each of the first attempts.
        struct Busy(core::cell::Cell<u64>, core::cell::Cell<u32>);
        impl Word for Busy {
            fn load(&self) -> u64 {
                self.0.get()
            }
            fn swap(&self, new: u64) -> u64 {
                self.0.replace(new)
            }
            fn add(&self, operand: u64) -> u64 {
                self.swap(self.load() + operand)
            }
            fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
                if self.1.get() > 0 {
                    self.1.set(self.1.get() - 1);
                    self.0.set(self.0.get() * 10);
                }
                match self.load() {
                    held if held == old => self.0.set(new),
                    held => return Err(held),
                }
                Ok(())
            }
        }
        let word = Busy(3.into(), 2.into());
        let old = Buffer::leaked(8);
        let what = (Operation::Prod, Predefined::Uint64);
        let operand = memory(&7_u64.to_ne_bytes());
        accumulate_word(&word, Some(&operand), Some(&old), what).unwrap();
        assert_eq!((word.load(), word_of(&old)), (2_100, 300));
        compare_and_swap_word(&word, &memory(&1_u64.to_ne_bytes()), &operand, &old);
        assert_eq!((word.load(), word_of(&old)), (2_100, 2_100));
        compare_and_swap_word(&word, &memory(&2_100_u64.to_ne_bytes()), &operand, &old);
        assert_eq!((word.load(), word_of(&old)), (7, 2_100));
    }

    /// The same, and how often it was changed.
    struct Counted<'a>(Mapped, &'a core::cell::Cell<u32>);

    impl Word for Counted<'_> {
        fn load(&self) -> u64 {
            self.0.load()
        }
        fn swap(&self, new: u64) -> u64 {
            self.1.set(self.1.get() + 1);
            self.0.swap(new)
        }
        fn add(&self, operand: u64) -> u64 {
            self.1.set(self.1.get() + 1);
            self.0.add(operand)
        }
        fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
            self.1.set(self.1.get() + 1);
            self.0.replace(old, new)
        }
    }

    #[test]
    fn signed_words_are_compared_as_such() {
        let (least, most) = ((Operation::Min, -5, 1, -5), (Operation::Max, -5, 1, 1));
        for (operation, target, operand, expected) in [least, most] {
            let changed = core::cell::Cell::new(0);
            let long = (memory(&i64::to_ne_bytes(target)), memory(&i64::to_ne_bytes(operand)));
            let short = (memory(&(target as i32).to_ne_bytes()), memory(&(operand as i32).to_ne_bytes()));
            for ((target, operand), datatype) in [(short, Predefined::Int32), (long, Predefined::Int64)] {
                let word = |piece: &Buffer| Some(Counted(Mapped(*piece), &changed));
                let (target, source) = (Sink::from(target), Source::from(operand));
                accumulate_by_words(&target, Some(&source), None, (operation, datatype), word).unwrap();
            }
            assert_eq!(long.0.to_vec().unwrap(), i64::to_ne_bytes(expected), "{operation:?}");
            assert_eq!(short.0.to_vec().unwrap(), (expected as i32).to_ne_bytes(), "{operation:?}");
            assert_eq!(changed.get(), 2);
        }
    }

    #[test]
    fn words_are_changed_as_such_and_only_whole_ones() {
        for (datatype, bytes) in [(Predefined::Uint32, 4), (Predefined::Uint64, 8)] {
            let ones = |count: usize| {
                let mut one = vec![0; bytes];
                one[0] = 1;
                memory(&one.repeat(count))
            };
            let target = memory(&vec![5; 3 * bytes]);
            let changed = core::cell::Cell::new(0);
            let word = |piece: &Buffer| {
                assert_eq!(piece.len(), bytes);
                Some(Counted(Mapped(*piece), &changed))
            };
            let (sum, old) = ((Operation::Sum, datatype), Buffer::leaked(3 * bytes));
            let run = |source: usize, fetched: usize| {
                let (source, fetched) = (Source::from(ones(source)), Sink::from(old.part(0, fetched)));
                accumulate_by_words(&Sink::from(target), Some(&source), Some(&fetched), sum, word)
            };
            assert_eq!(run(3, 3 * bytes), Ok(()));
            assert_eq!(changed.get(), 3, "each by itself");
            assert_eq!(old.to_vec().unwrap(), vec![5; 3 * bytes]);
            let mut expected = vec![5; bytes];
            expected[0] = 6;
            assert_eq!(target.to_vec().unwrap(), expected.repeat(3));
            for (source, fetched) in [(2, 3 * bytes), (3, 2 * bytes), (2, 2 * bytes)] {
                assert_eq!(run(source, fetched), Err(Error::Count));
            }
            assert_eq!(changed.get(), 3, "nothing is done");
        }
    }

    #[test]
    fn by_words_too_an_operation_needs_a_source() {
        let (target, old) = (memory(&7_u64.to_ne_bytes()), Buffer::leaked(8));
        let (target, old) = (Sink::from(target), Sink::from(old));
        let change = |operation| {
            let word = |piece: &Buffer| Some(Mapped(*piece));
            accumulate_by_words(&target, None, Some(&old), (operation, Predefined::Uint64), word)
        };
        assert_eq!(change(Operation::Sum), Err(Error::Count));
        assert_eq!(change(Operation::NoOp), Ok(()));
    }
}
