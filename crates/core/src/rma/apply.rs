//! Accumulates on memory.

use super::words::{self, Plain};
use crate::buffer::{Buffer, Piece};
use crate::data::{Data, Sink, Source};
use crate::datatype::Predefined;
use crate::error::Error;
use crate::op::{Operation, Reducer};
use alloc::vec;
use alloc::vec::Vec;

/// Reads bytes of a packed stream.
pub(crate) fn read(data: &Data, offset: usize, into: &mut [u8]) {
    match data {
        Data::Memory(buffer) => buffer.read(offset, into),
        Data::Region(region) => region.pack(offset, into),
    }
}

/// Reduces packed elements into the packed stream of `target` from `offset` on: `target[i] = target[i] op
/// input[i]`.
pub(crate) fn apply(
    target: &Data,
    offset: usize,
    input: &[u8],
    (operation, datatype): (Operation, Predefined),
) -> Result<(), Error> {
    let reducer = Reducer::for_accumulate(operation, datatype)?;
    match operation {
        Operation::NoOp => return Ok(()),
        Operation::Replace => {
            target.write(offset, Piece::Bytes(input));
            return Ok(());
        }
        _ => {}
    }
    if let Data::Memory(buffer) = target
        && datatype.is_contiguous()
    {
        // No other code accesses the accumulated memory meanwhile (MPI-5.0 §12.7); the input is a message's.
        buffer.part(offset, input.len()).with_mut(|inout| reducer.apply(input, inout));
        return Ok(());
    }
    let mut current = vec![0; input.len()];
    read(target, offset, &mut current);
    if datatype.is_contiguous() {
        reducer.apply(input, &mut current);
        target.write(offset, Piece::Bytes(&current));
        return Ok(());
    }
    // A pair with padding: the loops work on elements as they lie in C.
    let input = padded(input, datatype);
    let mut inout = padded(&current, datatype);
    reducer.apply(&input, &mut inout);
    target.write(offset, Piece::Bytes(&packed(&inout, datatype)));
    Ok(())
}

/// Pairs as they lie in C, from a packed stream.
fn padded(packed: &[u8], datatype: Predefined) -> Vec<u8> {
    let (size, extent) = (datatype.size_bytes(), datatype.extent_bytes());
    let (value, index_at) = datatype.pair_layout_bytes().unwrap_or((size, size));
    let mut memory = vec![0; packed.len() / size * extent];
    for (from, to) in packed.chunks_exact(size).zip(memory.chunks_exact_mut(extent)) {
        to[..value].copy_from_slice(&from[..value]);
        to[index_at..index_at + size - value].copy_from_slice(&from[value..]);
    }
    memory
}

/// The packed stream of pairs as they lie in C.
fn packed(memory: &[u8], datatype: Predefined) -> Vec<u8> {
    let (size, extent) = (datatype.size_bytes(), datatype.extent_bytes());
    let (value, index_at) = datatype.pair_layout_bytes().unwrap_or((size, size));
    let mut packed = Vec::with_capacity(memory.len() / extent * size);
    for element in memory.chunks_exact(extent) {
        packed.extend_from_slice(&element[..value]);
        packed.extend_from_slice(&element[index_at..index_at + size - value]);
    }
    packed
}

/// Whether an operation is for accumulates on a type.
///
/// # Errors
/// [`Error::Op`] if it is not.
pub fn check_operation(operation: Operation, datatype: Predefined) -> Result<(), Error> {
    Reducer::for_accumulate(operation, datatype).map(drop)
}

/// An accumulate on memory that the caller has at hand, as in a window in shared memory. `fetched` gets the
/// old elements.
///
/// # Errors
/// [`Error::Op`] if the operation is not defined on the type, [`Error::Count`] if lengths do not fit.
pub fn accumulate(
    target: &Sink,
    source: Option<&Source>,
    fetched: Option<&Sink>,
    (operation, datatype): (Operation, Predefined),
) -> Result<(), Error> {
    let len = target.len();
    let fits =
        source.is_none_or(|source| source.len() == len) && fetched.is_none_or(|sink| sink.len() == len);
    if !fits
        || !len.is_multiple_of(datatype.size_bytes())
        || (source.is_none() && operation != Operation::NoOp)
    {
        return Err(Error::Count);
    }
    accumulate_here(
        &target.0,
        source.map(|source| &source.0),
        fetched.map(|sink| &sink.0),
        (operation, datatype),
    )
}

pub(crate) fn accumulate_here(
    target: &Data,
    source: Option<&Data>,
    fetched: Option<&Data>,
    what: (Operation, Predefined),
) -> Result<(), Error> {
    if is_word_done(target, source, fetched, what) {
        return Ok(());
    }
    // A refused operation changes nothing, not even the fetched elements.
    check_operation(what.0, what.1)?;
    let len = target.len();
    with_room(if source.is_some() { len } else { 0 }, |input| {
        if let Some(source) = source {
            read(source, 0, input);
        }
        if let Some(fetched) = fetched {
            with_room(len, |old| {
                read(target, 0, old);
                fetched.write(0, Piece::Bytes(old));
            });
        }
        apply(target, 0, input, what)
    })
}

/// An accumulate of one element of 4 or 8 bytes, as counters are: needs no loop over elements, and no look
/// for the right one. `false`: nothing is done, for it is another.
fn is_word_done(
    target: &Data,
    source: Option<&Data>,
    fetched: Option<&Data>,
    (operation, datatype): (Operation, Predefined),
) -> bool {
    let (Data::Memory(target), Some(Data::Memory(source))) = (target, source) else { return false };
    let fetched = match fetched {
        None => None,
        Some(Data::Memory(fetched)) => Some(fetched),
        Some(Data::Region(_)) => return false,
    };
    words::word_bytes(datatype) == Some(target.len())
        && words::accumulate_word(&Plain(target), Some(source), fetched, (operation, datatype)).is_ok()
}

/// Lends zeroed memory; what a single element needs is on the stack.
#[inline(always)]
pub(crate) fn with_room<R>(len: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    const ON_STACK_BYTES: usize = 64;
    if len <= ON_STACK_BYTES { work(&mut [0; ON_STACK_BYTES][..len]) } else { work(&mut vec![0; len]) }
}

/// Replaces the element by `origin` if it equals `compare`; `result` gets the old one. All are as long as the
/// target.
///
/// # Errors
/// [`Error::Count`] if they are not.
pub fn compare_and_swap_in(
    target: &Sink,
    compare: Buffer,
    origin: Buffer,
    result: Buffer,
) -> Result<(), Error> {
    let len = target.len();
    if [compare, origin, result].iter().any(|buffer| buffer.len() != len) {
        return Err(Error::Count);
    }
    with_room(3 * len, |all| {
        let (both, old) = all.split_at_mut(2 * len);
        compare.read(0, &mut both[..len]);
        origin.read(0, &mut both[len..]);
        compare_and_swap(&target.0, both, old);
        result.scatter(0, Piece::Bytes(old));
    });
    Ok(())
}

/// `both`: what the element is compared with, and what it becomes if it is equal. `old` gets the element.
pub(crate) fn compare_and_swap(target: &Data, both: &[u8], old: &mut [u8]) {
    read(target, 0, old);
    let (compare, origin) = both.split_at(old.len());
    if old == compare {
        target.write(0, Piece::Bytes(origin));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the loops of `op`, whatever the type.
    fn by_loops(old: &[u8], operand: &[u8], what: (Operation, Predefined)) -> Result<Vec<u8>, Error> {
        let target = Buffer::leaked(old.len());
        target.scatter(0, Piece::Bytes(old));
        apply(&target.into(), 0, operand, what)?;
        Ok(target.to_vec().expect("real memory"))
    }

    #[test]
    fn an_accumulate_of_lengths_that_differ_changes_nothing() {
        let sum = (Operation::Sum, Predefined::Int32);
        let memory = |len: usize| {
            let buffer = Buffer::leaked(len);
            buffer.scatter(0, Piece::Bytes(&[1; 16][..len]));
            buffer
        };
        for (target, source, fetched) in
            [(8, Some(4), None), (8, Some(8), Some(4)), (6, Some(6), None), (8, None, Some(8))]
        {
            let target = memory(target);
            let before = target.to_vec();
            let source = source.map(|len| Source(memory(len).into()));
            let fetched = fetched.map(|len| Sink(memory(len).into()));
            let outcome = accumulate(&Sink(target.into()), source.as_ref(), fetched.as_ref(), sum);
            assert_eq!(outcome, Err(Error::Count));
            assert_eq!(target.to_vec(), before);
        }
        let (target, fetched) = (memory(8), memory(8));
        let read = (Operation::NoOp, Predefined::Int32);
        assert_eq!(accumulate(&Sink(target.into()), None, Some(&Sink(fetched.into())), read), Ok(()));
    }

    #[test]
    fn pairs_with_padding_are_combined_with_their_indices() {
        // A double and an int: 12 bytes of data, 16 with padding.
        let pairs = |pairs: [(f64, i32); 2]| -> Vec<u8> {
            let bytes = pairs.map(|(value, index)| [&value.to_ne_bytes()[..], &index.to_ne_bytes()].concat());
            bytes.concat()
        };
        let target = Buffer::leaked(24);
        target.scatter(0, Piece::Bytes(&pairs([(2.0, 7), (1.0, 8)])));
        let what = (Operation::Minloc, Predefined::DoubleInt);
        assert_eq!(apply(&target.into(), 0, &pairs([(1.5, 3), (1.0, 2)]), what), Ok(()));
        assert_eq!(target.to_vec(), Some(pairs([(1.5, 3), (1.0, 2)])));
        assert_eq!(apply(&target.into(), 0, &pairs([(9.0, 1), (1.0, 6)]), what), Ok(()));
        assert_eq!(target.to_vec(), Some(pairs([(1.5, 3), (1.0, 2)])));
    }

    #[test]
    fn an_element_is_swapped_where_it_equals_and_its_old_value_told() {
        let [target, compare, origin, result] = [4, 5, 6, 0].map(|byte| {
            let buffer = Buffer::leaked(4);
            buffer.scatter(0, Piece::Bytes(&[byte; 4]));
            buffer
        });
        let sink = Sink(target.into());
        let swap = |compare| {
            assert_eq!(compare_and_swap_in(&sink, compare, origin, result), Ok(()));
            [target, result].map(|buffer| buffer.to_vec().expect("real memory")[3])
        };
        assert_eq!(swap(compare), [4, 4]);
        compare.scatter(0, Piece::Bytes(&[4; 4]));
        assert_eq!(swap(compare), [6, 4]);
        assert_eq!(compare_and_swap_in(&sink, compare.part(0, 2), origin, result), Err(Error::Count));
    }

    #[test]
    fn one_integer_becomes_what_the_loops_make_of_it() {
        let numbers = [0_u64, 1, 5, 0x7fff_ffff, 0x8000_0000, i64::MAX as u64, i64::MIN as u64, u64::MAX];
        let mut words_count = 0;
        for &datatype in Predefined::ALL {
            let len = datatype.size_bytes();
            if len > 8 || !datatype.is_contiguous() {
                continue;
            }
            for &operation in Operation::ALL {
                for old in numbers {
                    for operand in numbers {
                        let (old, operand) = (&old.to_ne_bytes()[..len], &operand.to_ne_bytes()[..len]);
                        let [target, source, fetched] = [0; 3].map(|_| Buffer::leaked(len));
                        target.scatter(0, Piece::Bytes(old));
                        source.scatter(0, Piece::Bytes(operand));
                        let what = (operation, datatype);
                        let ends = (&target.into(), Some(&source.into()), Some(&fetched.into()));
                        let is_word = is_word_done(ends.0, ends.1, ends.2, what);
                        words_count += u32::from(is_word);
                        let expected = by_loops(old, operand, what);
                        if is_word {
                            assert_eq!(fetched.to_vec().as_deref(), Some(old), "{what:?}");
                            assert_eq!(target.to_vec(), expected.ok(), "{what:?} {old:?} {operand:?}");
                        } else {
                            assert_eq!(target.to_vec().as_deref(), Some(old), "{what:?}");
                            assert_eq!(accumulate_here(ends.0, ends.1, None, what).is_ok(), expected.is_ok());
                        }
                    }
                }
            }
        }
        assert!(words_count > 1_000, "{words_count}");
    }
}
