//! Active messages: their meaning and their wire format.
//!
//! ```text
//! kind u8 | operation u8 | datatype u16 | number u32                                   8 bytes
//! Lock, Granted, Withdraw, Flush, Flushed, Post, Complete, Fence: nothing more
//! Result: data
//! Several: the messages that it gathers, one after the other, each in a row and with nothing to follow
//! others, in a row (kind + 128): displacement u64 | length u56 | flags u8              24 | data
//!         else: displacement u64 | offset u64 | length u64 | layout bytes u32 | flags u32
//!                                                                                      40 | layout | data
//! ```
//!
//! All little-endian. With an eager message's header, one in a row with 8 bytes of data is a cache line.

use crate::datatype::Predefined;
use crate::error::{Blame, Error};
use crate::ids::Tag;
use crate::layout::Layout;
use crate::op::Operation;
use crate::rma::Place;
use alloc::vec::Vec;

/// Operations and requests that the target executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActiveMessage {
    /// Data is written: that in the active message, or with a tag that of the message to come.
    Put(Follow),
    /// Data is read and sent with the tag.
    Get(Tag),
    /// Data is reduced into the window; with a tag the old elements are sent.
    Accumulate(Operation, Predefined, Follow),
    /// The element is replaced by the second in the data, if it equals the first; the old one is sent.
    CompareAndSwap(Predefined, Tag),
    /// Data that the receiver has asked for, if it is short: without a matching receive. Or, of any length,
    /// that the operation was refused.
    Result {
        /// The tag that it asked with.
        number: u32,
        /// Why it was refused, as a number; 0: it was not.
        refused: u8,
    },
    /// The origin asks for the lock.
    Lock {
        /// For itself alone.
        exclusive: bool,
        /// Given back by the answer.
        number: u32,
    },
    /// The lock is the receiver's.
    Granted {
        /// Number of the lock request, which tells it from one withdrawn since.
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
    /// The sender is at a fence, and whether an operation was refused that no flush has asked for.
    Fence {
        /// Why, as a number; 0: none was.
        refused: u8,
    },
    /// Others one after the other, which their origin had no credit to send one by one.
    Several,
}

/// The action after an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follow {
    Nothing,
    /// Data with this tag.
    Data(Tag),
    /// An answer as to [`ActiveMessage::Flush`] with this number: the origin asks for it with the operation.
    Flushed(u32),
}

impl Follow {
    /// An answer to the flush that an operation asks for, if it does.
    #[inline(always)]
    pub(crate) fn of_flush(number: Option<u32>) -> Self {
        number.map_or(Self::Nothing, Self::Flushed)
    }
}

/// Why an operation was refused, as [`ActiveMessage::Flushed`] and [`ActiveMessage::Result`] say it.
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

/// The place of an operation, and the part of the packed stream there.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// From the window's start in bytes; an address, if the window is dynamic.
    pub(crate) displacement: i64,
    /// One element, and how many. `None`: `len` bytes in a row, and `offset` is 0.
    pub(crate) layout: Option<(Layout, usize)>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Operand {
    /// Bytes in a row.
    pub(crate) fn row(displacement: i64, len: usize) -> Self {
        Self { displacement, layout: None, offset: 0, len: len as u64 }
    }

    /// A part of what lies at a place.
    pub(crate) fn of(place: &Place, offset: usize, len: usize) -> Self {
        match place.layout.contiguous_at(place.count) {
            // In a row it needs no layout, and the part begins later.
            Some(at) => {
                Self::row(place.displacement.wrapping_add(at as i64).wrapping_add(offset as i64), len)
            }
            None => Self {
                displacement: place.displacement,
                layout: Some((place.layout.clone(), place.count)),
                offset: offset as u64,
                len: len as u64,
            },
        }
    }
}

/// An active message in bytes, without its data.
pub(crate) struct Head {
    fixed: [u8; OPERAND_AT],
    fixed_len: usize,
    layout: Vec<u8>,
}

impl Head {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.fixed_len + self.layout.len()
    }

    /// Whether it may be one of several ([`ActiveMessage::Several`]): it tells its own length, and nothing
    /// follows it.
    pub(crate) fn may_be_gathered(&self) -> bool {
        self.fixed_len == ROW_AT && may_be_gathered(&self.fixed[..ROW_AT])
    }

    /// The bytes: first those, then these.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        (&self.fixed[..self.fixed_len], &self.layout)
    }
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
    pub(super) const RESULT: u8 = 12;
    pub(super) const FENCE: u8 = 13;
    pub(super) const SEVERAL: u8 = 14;
    /// Added where the operand lies in a row.
    pub(super) const IN_A_ROW: u8 = 128;
}

/// The number is a tag: data follows, or a result is wanted.
const FLAG_TAG: u8 = 1;
/// The number is that of a flush, which needs an answer.
const FLAG_FLUSH: u8 = 2;

/// Length of an active message without operand and data in bytes.
const CONTROL_BYTES: usize = 8;
/// Length of the fixed part of one with an operand.
const OPERAND_AT: usize = 40;
/// The same if that lies in a row.
const ROW_AT: usize = 24;
/// Bits of the length of an operand in a row.
const ROW_LEN_BITS: u32 = 56;

/// Whether a message in a row with this head is a put or an accumulate that nothing follows.
fn may_be_gathered(row: &[u8]) -> bool {
    let is_kind = row[0] == kind::PUT | kind::IN_A_ROW || row[0] == kind::ACCUMULATE | kind::IN_A_ROW;
    is_kind && row[ROW_AT - 1] == 0
}

/// The first of several messages, and those behind it.
pub(crate) fn split_gathered(bytes: &[u8]) -> Result<(&[u8], &[u8]), Blame> {
    let (row, _) = bytes.split_first_chunk::<ROW_AT>().ok_or(SHORT)?;
    if !may_be_gathered(row) {
        return Err(Blame("a message among several that must come alone"));
    }
    let [.., last] = row.as_chunks::<8>().0 else { return Err(SHORT) };
    let len = ROW_AT as u64 + (u64::from_le_bytes(*last) & ((1 << ROW_LEN_BITS) - 1));
    usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len)).ok_or(SHORT)
}

impl ActiveMessage {
    /// The first word, and the flags of an operand.
    #[inline(always)]
    fn first(&self) -> (u64, u8) {
        let of_follow = |follow| match follow {
            Follow::Nothing => (0, 0),
            Follow::Data(tag) => (tag.cast_unsigned(), FLAG_TAG),
            Follow::Flushed(number) => (number, FLAG_FLUSH),
        };
        let tagged = |tag: Tag| (tag.cast_unsigned(), FLAG_TAG);
        // Both kinds of enumeration are numbered in the order of `ALL`, see the test.
        let (kind, operation, datatype, (number, flags)) = match *self {
            Self::Put(follow) => (kind::PUT, 0, 0, of_follow(follow)),
            Self::Get(tag) => (kind::GET, 0, 0, tagged(tag)),
            Self::Accumulate(op, of, follow) => (kind::ACCUMULATE, op as u8, of as u16, of_follow(follow)),
            Self::CompareAndSwap(of, tag) => (kind::COMPARE_AND_SWAP, 0, of as u16, tagged(tag)),
            Self::Result { number, refused } => (kind::RESULT, refused, 0, (number, 0)),
            Self::Lock { exclusive, number } => (kind::LOCK, exclusive.into(), 0, (number, 0)),
            Self::Granted { number } => (kind::GRANTED, 0, 0, (number, 0)),
            Self::Withdraw => (kind::WITHDRAW, 0, 0, (0, 0)),
            Self::Flush { number, release } => (kind::FLUSH, release.into(), 0, (number, 0)),
            Self::Flushed { number, refused } => (kind::FLUSHED, refused, 0, (number, 0)),
            Self::Post => (kind::POST, 0, 0, (0, 0)),
            Self::Complete => (kind::COMPLETE, 0, 0, (0, 0)),
            Self::Fence { refused } => (kind::FENCE, refused, 0, (0, 0)),
            Self::Several => (kind::SEVERAL, 0, 0, (0, 0)),
        };
        let word =
            u64::from(kind) | u64::from(operation) << 8 | u64::from(datatype) << 16 | u64::from(number) << 32;
        (word, flags)
    }

    /// The active message in bytes, without its data, if it has no operand.
    #[inline(always)]
    pub(crate) fn emit_control(&self) -> [u8; CONTROL_BYTES] {
        self.first().0.to_le_bytes()
    }

    /// The same if its operand lies in a row.
    #[inline(always)]
    pub(crate) fn emit_row(&self, displacement: i64, len: usize) -> [u8; ROW_AT] {
        let (first, flags) = self.first();
        let last = len as u64 & ((1 << ROW_LEN_BITS) - 1) | u64::from(flags) << ROW_LEN_BITS;
        let mut head = [0; ROW_AT];
        let words = [first | u64::from(kind::IN_A_ROW), displacement.cast_unsigned(), last];
        for (to, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        head
    }

    /// The active message in bytes, without its data.
    pub(crate) fn emit(&self, operand: Option<&Operand>) -> Result<Head, Error> {
        let (first, flags) = self.first();
        let mut head = Head { fixed: [0; OPERAND_AT], fixed_len: CONTROL_BYTES, layout: Vec::new() };
        let mut put = |at: usize, word: u64| head.fixed[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(0, first);
        let Some(operand) = operand else { return Ok(head) };
        put(8, operand.displacement.cast_unsigned());
        match &operand.layout {
            None => {
                let row = self.emit_row(operand.displacement, operand.len as usize);
                head.fixed[..ROW_AT].copy_from_slice(&row);
                head.fixed_len = ROW_AT;
            }
            Some((layout, count)) => {
                put(16, operand.offset);
                put(24, operand.len);
                layout.emit(*count, &mut head.layout)?;
                let layout_bytes = head.layout.len() as u64;
                if layout_bytes > super::ACTIVE_BYTES_MAX / 2 {
                    return Err(Error::Argument("the target datatype has too many blocks for one operation"));
                }
                let last = layout_bytes | u64::from(flags) << 32;
                head.fixed[32..].copy_from_slice(&last.to_le_bytes());
                head.fixed_len = OPERAND_AT;
            }
        }
        Ok(head)
    }

    /// Reads an active message: the operation, its place, and its data.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, Option<Operand>, &[u8]), Blame> {
        let (head, behind) = bytes.split_first_chunk::<8>().ok_or(SHORT)?;
        let head = u64::from_le_bytes(*head);
        let (kind, code, index, number) =
            (head as u8, (head >> 8) as u8, (head >> 16) as u16, (head >> 32) as u32);
        let control = match kind {
            kind::RESULT => return Ok((Self::Result { number, refused: code }, None, behind)),
            kind::SEVERAL => return Ok((Self::Several, None, behind)),
            kind::LOCK => Some(Self::Lock { exclusive: code != 0, number }),
            kind::GRANTED => Some(Self::Granted { number }),
            kind::WITHDRAW => Some(Self::Withdraw),
            kind::FLUSH => Some(Self::Flush { number, release: code != 0 }),
            kind::FLUSHED => Some(Self::Flushed { number, refused: code }),
            kind::POST => Some(Self::Post),
            kind::COMPLETE => Some(Self::Complete),
            kind::FENCE => Some(Self::Fence { refused: code }),
            _ => None,
        };
        if let Some(control) = control {
            return if behind.is_empty() { Ok((control, None, &[])) } else { Err(SHORT) };
        }
        let (operand, flags, data) = match kind & kind::IN_A_ROW {
            0 => parse_operand(behind)?,
            _ => parse_row(behind)?,
        };
        let kind = kind & !kind::IN_A_ROW;
        let follow = match flags {
            0 => Follow::Nothing,
            FLAG_TAG => Follow::Data(number.cast_signed()),
            FLAG_FLUSH => Follow::Flushed(number),
            _ => return Err(Blame("a window's message that is followed by two things")),
        };
        if let Follow::Data(tag) = follow
            && (tag < 0 || (tag & 1 == 0) != (kind == kind::PUT))
        {
            return Err(Blame("a tag that no window's message has"));
        }
        let wanted = || match follow {
            Follow::Data(tag) => Ok(tag),
            _ => Err(Blame("a result is wanted without a tag")),
        };
        const UNKNOWN: Blame = Blame("an operation of windows that does not exist");
        let datatype = || Predefined::ALL.get(usize::from(index)).copied().ok_or(UNKNOWN);
        let message = match kind {
            kind::PUT => Self::Put(follow),
            kind::GET => Self::Get(wanted()?),
            kind::ACCUMULATE => {
                let operation = Operation::ALL.get(usize::from(code)).copied().ok_or(UNKNOWN)?;
                Self::Accumulate(operation, datatype()?, follow)
            }
            kind::COMPARE_AND_SWAP => Self::CompareAndSwap(datatype()?, wanted()?),
            _ => return Err(UNKNOWN),
        };
        Ok((message, Some(operand), data))
    }
}

/// A put with its data, or a get, of bytes in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowAccess<'a> {
    /// The tag of the result; `None`: it is a put.
    pub(crate) get: Option<Tag>,
    /// The flush that a put asks for.
    pub(crate) flush: Option<u32>,
    pub(crate) displacement: i64,
    pub(crate) len: usize,
    pub(crate) data: &'a [u8],
}

impl<'a> RowAccess<'a> {
    /// As [`ActiveMessage::parse`], for the messages that are most frequent. `None`: it is another one, or
    /// something is wrong with it.
    #[inline(always)]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, data) = bytes.split_first_chunk::<ROW_AT>()?;
        let [first, displacement, last] =
            [0, 8, 16].map(|at| u64::from_le_bytes(core::array::from_fn(|byte| head[at + byte])));
        let (kind, number, flags) = (first as u8, (first >> 32) as u32, (last >> ROW_LEN_BITS) as u8);
        const PUT: u8 = kind::PUT | kind::IN_A_ROW;
        const GET: u8 = kind::GET | kind::IN_A_ROW;
        let len = (last & ((1 << ROW_LEN_BITS) - 1)) as usize;
        let (get, flush) = match (kind, flags) {
            (PUT, 0) => (None, None),
            (PUT, FLAG_FLUSH) => (None, Some(number)),
            (GET, FLAG_TAG) if number.cast_signed() >= 0 && number & 1 == 1 => {
                (Some(number.cast_signed()), None)
            }
            _ => return None,
        };
        let has_data = data.len() == if get.is_some() { 0 } else { len };
        has_data.then_some(Self { get, flush, displacement: displacement.cast_signed(), len, data })
    }
}

const SHORT: Blame = Blame("a window's message cut short");

/// An operand in a row, its flags, and what is behind it.
#[inline]
fn parse_row(bytes: &[u8]) -> Result<(Operand, u8, &[u8]), Blame> {
    let (displacement, rest) = bytes.split_first_chunk::<8>().ok_or(SHORT)?;
    let (last, data) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
    let last = u64::from_le_bytes(*last);
    let len = (last & ((1 << ROW_LEN_BITS) - 1)) as usize;
    Ok((Operand::row(i64::from_le_bytes(*displacement), len), (last >> ROW_LEN_BITS) as u8, data))
}

fn parse_operand(bytes: &[u8]) -> Result<(Operand, u8, &[u8]), Blame> {
    const NO_PLACE: Blame = Blame("a window's message with a place that cannot be");
    let (fixed, rest) = bytes.split_first_chunk::<{ OPERAND_AT - 8 }>().ok_or(SHORT)?;
    let (words, _) = fixed.as_chunks::<8>();
    let [displacement, offset, len, last] = [0, 1, 2, 3].map(|word: usize| u64::from_le_bytes(words[word]));
    let (layout, data) = rest.split_at_checked(last as u32 as usize).ok_or(SHORT)?;
    let layout = Layout::parse(layout).map_err(|_| NO_PLACE)?;
    if offset.checked_add(len).is_none_or(|end| end > layout.size() as u64) {
        return Err(NO_PLACE);
    }
    let flags = u8::try_from(last >> 32).map_err(|_| NO_PLACE)?;
    Ok((
        Operand { displacement: displacement.cast_signed(), layout: Some((layout, 1)), offset, len },
        flags,
        data,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn follow(tags: impl Strategy<Value = Tag>) -> impl Strategy<Value = Follow> {
        prop_oneof![
            Just(Follow::Nothing),
            tags.prop_map(Follow::Data),
            any::<u32>().prop_map(Follow::Flushed)
        ]
    }

    #[test]
    fn operations_and_datatypes_are_numbered_in_their_lists_order() {
        assert!(Predefined::ALL.iter().enumerate().all(|(at, of)| *of as usize == at));
        assert!(Operation::ALL.iter().enumerate().all(|(at, of)| *of as usize == at));
    }

    #[test]
    fn eight_bytes_in_a_row_need_one_cache_line() {
        let head = ActiveMessage::Put(Follow::Flushed(1)).emit(Some(&Operand::row(1 << 40, 8))).unwrap();
        // The ring's word and the header of an eager message are before it.
        assert_eq!(8 + crate::wire::EAGER_HEADER_BYTES + head.len() + 8, 64);
    }

    #[test]
    fn a_tag_of_the_wrong_kind_is_refused() {
        let parses = |message: ActiveMessage| {
            let head = message.emit(Some(&Operand::row(0, 8))).unwrap();
            let (fixed, layout) = head.parts();
            ActiveMessage::parse(&[fixed, layout].concat()).is_ok()
        };
        // Puts have even tags, what has a result odd ones; none is negative.
        for (tag, is_put, is_get) in
            [(4, true, false), (5, false, true), (-4, false, false), (-3, false, false)]
        {
            assert_eq!(parses(ActiveMessage::Put(Follow::Data(tag))), is_put, "put {tag}");
            assert_eq!(parses(ActiveMessage::Get(tag)), is_get, "get {tag}");
        }
    }

    fn messages() -> impl Strategy<Value = ActiveMessage> {
        let types = || (0..Predefined::ALL.len()).prop_map(|at| Predefined::ALL[at]);
        let operations = (0..Operation::ALL.len()).prop_map(|at| Operation::ALL[at]);
        let odd = || (0..i32::MAX / 2).prop_map(|tag| 2 * tag + 1);
        prop_oneof![
            follow((0..i32::MAX / 2).prop_map(|tag| 2 * tag)).prop_map(ActiveMessage::Put),
            odd().prop_map(ActiveMessage::Get),
            (operations, types(), follow(odd()))
                .prop_map(|(op, of, follow)| ActiveMessage::Accumulate(op, of, follow)),
            (any::<u32>(), any::<u8>())
                .prop_map(|(number, refused)| ActiveMessage::Result { number, refused }),
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
            any::<u8>().prop_map(|refused| ActiveMessage::Fence { refused }),
            Just(ActiveMessage::Several),
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
            let operand = Operand::of(&place, part as usize, 24 - 2 * part as usize);
            let operand = has_operand(&message).then_some(operand);
            let head = message.emit(operand.as_ref()).unwrap();
            let mut bytes = [head.parts().0, head.parts().1].concat();
            prop_assert_eq!(bytes.len(), head.len());
            let has_more = matches!(message, ActiveMessage::Result { .. } | ActiveMessage::Several);
            let has_data = operand.is_some() || has_more;
            let data = if has_data { &b"data"[..] } else { &[] };
            bytes.extend_from_slice(data);
            let (again, found, rest) = ActiveMessage::parse(&bytes).unwrap();
            prop_assert_eq!((again, rest), (message, data));
            prop_assert_eq!(found.is_some(), operand.is_some());
            if let (Some(a), Some(b)) = (operand, found) {
                let first = displacement.wrapping_add(part as i64);
                let expected = if gap == 0 { (first, 0) } else { (displacement, part) };
                prop_assert_eq!((a.displacement, a.offset), expected);
                prop_assert_eq!((b.displacement, b.offset), expected);
                prop_assert_eq!(a.len, b.len);
                let size = |operand: &Operand| operand.layout.as_ref().map(|(of, count)| of.size() * count);
                prop_assert_eq!(size(&a), size(&b));
            }
        }

        #[test]
        fn what_is_frequent_is_read_alike_by_both_ways(
            message in messages(),
            displacement: i64,
            len in 0_usize..20,
            given in 0_usize..20,
            damaged in (0_usize..24, any::<u8>()),
            is_damaged: bool,
        ) {
            let mut bytes = message.emit_row(displacement, len).to_vec();
            bytes.extend((0..given).map(|byte| byte as u8));
            if is_damaged {
                bytes[damaged.0] = damaged.1;
            }
            if let Some(row) = RowAccess::parse(&bytes) {
                let (message, operand, data) = ActiveMessage::parse(&bytes).unwrap();
                let operand = operand.unwrap();
                let put = ActiveMessage::Put(Follow::of_flush(row.flush));
                let expected = row.get.map_or(put, ActiveMessage::Get);
                prop_assert_eq!((message, data), (expected, row.data));
                let place = (operand.displacement, operand.len, operand.offset, operand.layout.is_none());
                prop_assert_eq!(place, (row.displacement, row.len as u64, 0, true));
            } else if !is_damaged {
                use Follow::{Flushed, Nothing};
                let is_put = matches!(message, ActiveMessage::Put(Nothing | Flushed(_)));
                let is_get = matches!(message, ActiveMessage::Get(_));
                let is_whole = is_put && given == len || is_get && given == 0;
                prop_assert!(!is_whole, "the quick way is not taken");
            }
        }

        #[test]
        fn any_bytes_give_a_message_or_blame(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in 0_u8..15,
            is_row: bool,
        ) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind | if is_row { kind::IN_A_ROW } else { 0 };
            }
            let _ = ActiveMessage::parse(&bytes);
            if let Ok((first, behind)) = split_gathered(&bytes) {
                prop_assert_eq!([first, behind].concat(), bytes);
            }
        }
    }

    /// Tags are counted, and begin anew.
    #[test]
    fn the_least_and_the_greatest_tag_are_tags() {
        for tag in [0, 2, Tag::MAX - 1] {
            let put = ActiveMessage::Put(Follow::Data(tag)).emit_row(0, 8);
            assert_eq!(ActiveMessage::parse(&put).unwrap().0, ActiveMessage::Put(Follow::Data(tag)));
        }
        for tag in [1, 3, Tag::MAX] {
            let get = ActiveMessage::Get(tag).emit_row(0, 8);
            assert_eq!(ActiveMessage::parse(&get).unwrap().0, ActiveMessage::Get(tag));
        }
        for (message, why) in [
            (ActiveMessage::Put(Follow::Data(-2)), "negative"),
            (ActiveMessage::Put(Follow::Data(1)), "of a result"),
            (ActiveMessage::Get(2), "of data"),
            (ActiveMessage::Get(-1), "negative"),
        ] {
            assert!(ActiveMessage::parse(&message.emit_row(0, 8)).is_err(), "{why}");
        }
    }

    #[test]
    fn a_refusal_says_its_reason_by_number() {
        let reasons = [Error::WindowRange, Error::Op, Error::Count];
        assert_eq!(reasons.map(refusal_of), [1, 2, 3]);
        assert_eq!(reasons.map(|reason| refusal(refusal_of(reason))), reasons.map(Some));
        assert_eq!((refusal_of(Error::Comm), refusal(0)), (4, None));
        let other = Some(Error::Argument("the target refused an operation"));
        assert_eq!((refusal(4), refusal(u8::MAX)), (other, other));
    }

    #[test]
    fn a_message_says_what_it_has_and_nothing_else() {
        use ActiveMessage as M;
        let (op, of) = (Operation::Sum, Predefined::Uint64);
        let word = |kind: u8, detail: u8, datatype: u16, number: u32| {
            u64::from(kind) | u64::from(detail) << 8 | u64::from(datatype) << 16 | u64::from(number) << 32
        };
        for (message, first, flags) in [
            (M::Put(Follow::Nothing), word(kind::PUT, 0, 0, 0), 0),
            (M::Put(Follow::Data(7)), word(kind::PUT, 0, 0, 7), FLAG_TAG),
            (M::Put(Follow::Flushed(8)), word(kind::PUT, 0, 0, 8), FLAG_FLUSH),
            (M::Get(7), word(kind::GET, 0, 0, 7), FLAG_TAG),
            (M::Accumulate(op, of, Follow::Nothing), word(kind::ACCUMULATE, op as u8, of as u16, 0), 0),
            (M::CompareAndSwap(of, 7), word(kind::COMPARE_AND_SWAP, 0, of as u16, 7), FLAG_TAG),
            (M::Result { number: 9, refused: 2 }, word(kind::RESULT, 2, 0, 9), 0),
            (M::Lock { exclusive: true, number: 9 }, word(kind::LOCK, 1, 0, 9), 0),
            (M::Granted { number: 9 }, word(kind::GRANTED, 0, 0, 9), 0),
            (M::Withdraw, word(kind::WITHDRAW, 0, 0, 0), 0),
            (M::Flush { number: 9, release: true }, word(kind::FLUSH, 1, 0, 9), 0),
            (M::Flushed { number: 9, refused: 3 }, word(kind::FLUSHED, 3, 0, 9), 0),
            (M::Post, word(kind::POST, 0, 0, 0), 0),
            (M::Complete, word(kind::COMPLETE, 0, 0, 0), 0),
            (M::Several, word(kind::SEVERAL, 0, 0, 0), 0),
        ] {
            assert_eq!(message.first(), (first, flags), "{message:?}");
            assert_eq!(message.emit_control(), first.to_le_bytes());
        }
    }
}
