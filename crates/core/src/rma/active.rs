//! Active messages: what they mean and how they lie in bytes.
//!
//! ```text
//! kind u8 | operation u8 | datatype u16 | number u32                                   8 bytes
//! Lock, Granted, Withdraw, Flush, Flushed, Post, Complete: nothing more
//! others: displacement u64 | offset u64 | length u64 | layout bytes u32 | flags u32    40
//!         | layout | data
//! ```
//!
//! All little-endian. Without a layout the place is `length` bytes in a row.

use crate::datatype::Predefined;
use crate::error::{Blame, Error};
use crate::ids::Tag;
use crate::layout::Layout;
use crate::op::Operation;
use crate::rma::Place;
use alloc::vec::Vec;

/// What is done at the target, and what is asked of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActiveMessage {
    /// Data is written: that in the active message, or with a tag that of the message to come.
    Put(Option<Tag>),
    /// Data is read and sent with the tag.
    Get(Tag),
    /// Data is reduced into the window; with a tag the old elements are sent.
    Accumulate(Operation, Predefined, Option<Tag>),
    /// The element is replaced by the second in the data, if it equals the first; the old one is sent.
    CompareAndSwap(Predefined, Tag),
    /// The origin asks for the lock.
    Lock {
        /// For itself alone.
        exclusive: bool,
        /// Given back by the answer.
        number: u32,
    },
    /// The lock is the receiver's.
    Granted {
        /// Of its wish: one that it has withdrawn since is not meant.
        number: u32,
    },
    /// The origin wants no lock any more, and gives back one that it has been granted.
    Withdraw,
    /// Asks for an answer when all before it from this origin is done.
    Flush {
        /// Given back by the answer.
        number: u32,
        /// And the lock is given back then.
        release: bool,
    },
    /// The answer, and whether an operation was refused.
    Flushed {
        /// The flush's.
        number: u32,
        /// Why, as a number; 0: none was.
        refused: u8,
    },
    /// The receiver may access the sender's window.
    Post,
    /// The sender's access to the receiver's window ends.
    Complete,
}

/// Why an operation was refused, as [`ActiveMessage::Flushed`] says it.
pub(crate) fn refusal_of(error: Error) -> u8 {
    match error {
        Error::WindowRange => 1,
        Error::Op => 2,
        Error::Count => 3,
        _ => 4,
    }
}

/// The inverse of [`refusal_of`], as far as there is one.
pub(crate) fn refusal(number: u8) -> Option<Error> {
    match number {
        0 => None,
        1 => Some(Error::WindowRange),
        2 => Some(Error::Op),
        3 => Some(Error::Count),
        _ => Some(Error::Argument("the target refused an operation")),
    }
}

/// Where an operation works, and on which part of the packed stream there.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) place: Place,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

mod kind {
    pub(super) const PUT: u8 = 1;
    pub(super) const GET: u8 = 2;
    pub(super) const ACCUMULATE: u8 = 3;
    pub(super) const COMPARE_AND_SWAP: u8 = 4;
    pub(super) const LOCK: u8 = 5;
    pub(super) const GRANTED: u8 = 6;
    pub(super) const FLUSH: u8 = 7;
    pub(super) const FLUSHED: u8 = 8;
    pub(super) const POST: u8 = 9;
    pub(super) const COMPLETE: u8 = 10;
    pub(super) const WITHDRAW: u8 = 11;
}

/// The operation's message has a tag: data follows, or a result is wanted.
const FLAG_TAG: u32 = 1;

/// Length of the fixed part of an active message with an operand in bytes.
const OPERAND_AT: usize = 40;

impl ActiveMessage {
    /// The active message in bytes, without its data.
    pub(crate) fn emit(&self, operand: Option<&Operand>) -> Result<Vec<u8>, Error> {
        let index = |of: Predefined| Predefined::ALL.iter().position(|one| *one == of).unwrap_or(0) as u16;
        let code = |of: Operation| Operation::ALL.iter().position(|one| *one == of).unwrap_or(0) as u8;
        let (kind, operation, datatype, number) = match *self {
            Self::Put(tag) => (kind::PUT, 0, 0, tag.unwrap_or(0).cast_unsigned()),
            Self::Get(tag) => (kind::GET, 0, 0, tag.cast_unsigned()),
            Self::Accumulate(op, of, tag) => {
                (kind::ACCUMULATE, code(op), index(of), tag.unwrap_or(0).cast_unsigned())
            }
            Self::CompareAndSwap(of, tag) => (kind::COMPARE_AND_SWAP, 0, index(of), tag.cast_unsigned()),
            Self::Lock { exclusive, number } => (kind::LOCK, exclusive.into(), 0, number),
            Self::Granted { number } => (kind::GRANTED, 0, 0, number),
            Self::Withdraw => (kind::WITHDRAW, 0, 0, 0),
            Self::Flush { number, release } => (kind::FLUSH, release.into(), 0, number),
            Self::Flushed { number, refused } => (kind::FLUSHED, refused, 0, number),
            Self::Post => (kind::POST, 0, 0, 0),
            Self::Complete => (kind::COMPLETE, 0, 0, 0),
        };
        let mut bytes = Vec::with_capacity(OPERAND_AT + 64);
        bytes.extend_from_slice(&[kind, operation]);
        bytes.extend_from_slice(&datatype.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        let Some(Operand { place, offset, len }) = operand else { return Ok(bytes) };
        let has_tag = matches!(
            self,
            Self::Put(Some(_)) | Self::Get(_) | Self::Accumulate(_, _, Some(_)) | Self::CompareAndSwap(..)
        );
        // In a row it needs no layout, and the part begins later.
        let in_a_row = place.layout.contiguous_at(place.count);
        let skipped = in_a_row.map_or(0, |at| (at as i64).wrapping_add(offset.cast_signed()));
        let displacement = place.displacement.wrapping_add(skipped);
        bytes.extend_from_slice(&displacement.to_le_bytes());
        bytes.extend_from_slice(&in_a_row.map_or(*offset, |_| 0).to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&u32::to_le_bytes(if has_tag { FLAG_TAG } else { 0 }));
        if in_a_row.is_none() {
            place.layout.emit(place.count, &mut bytes)?;
            let layout_bytes = (bytes.len() - OPERAND_AT) as u64;
            if layout_bytes > super::ACTIVE_BYTES_MAX / 2 {
                return Err(Error::Argument("the target datatype has too many blocks for one operation"));
            }
            bytes[32..36].copy_from_slice(&(layout_bytes as u32).to_le_bytes());
        }
        Ok(bytes)
    }

    /// Reads an active message: what it says, where it works, and its data.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, Option<Operand>, &[u8]), Blame> {
        const SHORT: Blame = Blame("a window's message cut short");
        let field = |at: usize, len: usize| bytes.get(at..at + len).ok_or(SHORT);
        let word = |at| field(at, 8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let half = |at| field(at, 4).map(|half| u32::from_le_bytes(half.try_into().expect("four bytes")));
        let head = word(0)?;
        let (kind, code, index, number) =
            (head as u8, (head >> 8) as u8, (head >> 16) as u16, (head >> 32) as u32);
        let control = match kind {
            kind::LOCK => Some(Self::Lock { exclusive: code != 0, number }),
            kind::GRANTED => Some(Self::Granted { number }),
            kind::WITHDRAW => Some(Self::Withdraw),
            kind::FLUSH => Some(Self::Flush { number, release: code != 0 }),
            kind::FLUSHED => Some(Self::Flushed { number, refused: code }),
            kind::POST => Some(Self::Post),
            kind::COMPLETE => Some(Self::Complete),
            _ => None,
        };
        if let Some(control) = control {
            return if bytes.len() == 8 { Ok((control, None, &[])) } else { Err(SHORT) };
        }
        let (layout_bytes, flags) = (half(32)? as usize, half(36)?);
        let tag = (flags & FLAG_TAG != 0).then_some(number.cast_signed());
        if tag.is_some_and(|tag| tag < 0 || (tag & 1 == 0) != (kind == kind::PUT)) {
            return Err(Blame("a tag that no window's message has"));
        }
        let wanted = || tag.ok_or(Blame("a result is wanted without a tag"));
        const UNKNOWN: Blame = Blame("an operation of windows that does not exist");
        let datatype = || Predefined::ALL.get(usize::from(index)).copied().ok_or(UNKNOWN);
        let message = match kind {
            kind::PUT => Self::Put(tag),
            kind::GET => Self::Get(wanted()?),
            kind::ACCUMULATE => {
                let operation = Operation::ALL.get(usize::from(code)).copied().ok_or(UNKNOWN)?;
                Self::Accumulate(operation, datatype()?, tag)
            }
            kind::COMPARE_AND_SWAP => Self::CompareAndSwap(datatype()?, wanted()?),
            _ => return Err(UNKNOWN),
        };
        let (offset, len) = (word(16)?, word(24)?);
        const NO_PLACE: Blame = Blame("a window's message with a place that cannot be");
        let layout = match layout_bytes {
            0 => Layout::bytes(isize::try_from(len).map_err(|_| NO_PLACE)?.cast_unsigned()),
            _ => Layout::parse(field(OPERAND_AT, layout_bytes)?).map_err(|_| NO_PLACE)?,
        };
        if offset.checked_add(len).is_none_or(|end| end > layout.size() as u64) {
            return Err(NO_PLACE);
        }
        let place = Place { displacement: word(8)?.cast_signed(), layout, count: 1 };
        Ok((message, Some(Operand { place, offset, len }), &bytes[OPERAND_AT + layout_bytes..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn messages() -> impl Strategy<Value = ActiveMessage> {
        let types = || (0..Predefined::ALL.len()).prop_map(|at| Predefined::ALL[at]);
        let operations = (0..Operation::ALL.len()).prop_map(|at| Operation::ALL[at]);
        let odd = || (0..i32::MAX / 2).prop_map(|tag| 2 * tag + 1);
        prop_oneof![
            proptest::option::of((0..i32::MAX / 2).prop_map(|tag| 2 * tag)).prop_map(ActiveMessage::Put),
            odd().prop_map(ActiveMessage::Get),
            (operations, types(), proptest::option::of(odd()))
                .prop_map(|(op, of, tag)| ActiveMessage::Accumulate(op, of, tag)),
            (types(), odd()).prop_map(|(of, tag)| ActiveMessage::CompareAndSwap(of, tag)),
            (any::<bool>(), any::<u32>())
                .prop_map(|(exclusive, number)| ActiveMessage::Lock { exclusive, number }),
            any::<u32>().prop_map(|number| ActiveMessage::Granted { number }),
            Just(ActiveMessage::Withdraw),
            (any::<u32>(), any::<bool>())
                .prop_map(|(number, release)| ActiveMessage::Flush { number, release }),
            (any::<u32>(), any::<u8>())
                .prop_map(|(number, refused)| ActiveMessage::Flushed { number, refused }),
            Just(ActiveMessage::Post),
            Just(ActiveMessage::Complete),
        ]
    }

    fn has_operand(message: &ActiveMessage) -> bool {
        use ActiveMessage::*;
        matches!(message, Put(_) | Get(_) | Accumulate(..) | CompareAndSwap(..))
    }

    proptest! {
        #[test]
        fn a_message_survives_its_bytes(
            message in messages(),
            displacement: i64,
            gap in 0_isize..5,
            part in 0_u64..6,
        ) {
            let layout = Layout::bytes(4).repeat(3, 4 + gap).unwrap();
            let place = Place { displacement, layout, count: 2 };
            let operand = Operand { place, offset: part, len: 24 - 2 * part };
            let operand = has_operand(&message).then_some(operand);
            let mut bytes = message.emit(operand.as_ref()).unwrap();
            let data = if operand.is_some() { &b"data"[..] } else { &[] };
            bytes.extend_from_slice(data);
            let (again, place, rest) = ActiveMessage::parse(&bytes).unwrap();
            prop_assert_eq!((again, rest), (message, data));
            prop_assert_eq!(place.is_some(), operand.is_some());
            if let (Some(a), Some(b)) = (operand, place) {
                prop_assert_eq!(a.len, b.len);
                let first = a.place.displacement.wrapping_add(a.offset as i64);
                let at = b.place.displacement;
                let whole = (a.place.displacement, a.offset);
                let expected = if gap == 0 { (first, 0) } else { whole };
                prop_assert_eq!((at, b.offset), expected);
            }
        }

        #[test]
        fn any_bytes_give_a_message_or_blame(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in 0_u8..13,
        ) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let _ = ActiveMessage::parse(&bytes);
        }
    }
}
