//! Packet headers: their meaning ([`Header`]) and their wire format.
//!
//! ```text
//! every packet    kind u8 | flags u8 | credits u16 | sequence u32                            8 bytes
//! envelope        context u64 | source rank u32 | tag i32                                   16 bytes
//! Eager           envelope                                          payload: the message    24
//! EagerSync       envelope | sender's request u64                   payload: the message    32
//! Rts             envelope | sender's request u64 | length u64 | keys                       56 with one key
//! Cts             sender's request u64 | receiver's request u64 | length u64 | keys         48 with one key
//! Data            receiver's request u64 | offset u64               payload: a fragment     24
//! Fin, Matched, Cancel, CancelReply    request u64                                          16
//! Credit          nothing more                                                               8
//! Note            what `survive/note.rs` says                                               72
//! keys            of one rail (`flags` says which): 2 × u64                                 16
//!                 else: rails u32 | zero u32 | 2 × u64 a rail, lowest rail first             8 + 16 a key
//! ```
//!
//! An announcement with one key fits a cache line of shared memory with the word that tells of it.
//!
//! All little-endian. `credits` returns eager credit to the packet's receiver, on any packet. Headers from
//! the network are parsed by [`parse`], which checks kinds, lengths and reserved bits and never panics.

pub mod trunk;

use crate::device::{HEADER_BYTES_MAX, RemoteKey};
use crate::error::Blame;
use crate::ids::{ContextId, Rail, RailSet, Rank, RequestId, Tag};
use crate::survive::Note;

/// The longest header: an Rts with all keys, 48 + 4 × 16 bytes.
pub const LONGEST_HEADER_BYTES: usize = 48 + 16 * KEYS_MAX;

/// Rails whose keys fit a header: 48 + 4 × 16 = 112 of 128 bytes.
pub const KEYS_MAX: usize = 4;

/// The first bytes of every packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// Eager credit given back to the packet's receiver, in cells.
    pub credits: u16,
    /// Counts the packets of one sender to one receiver.
    pub sequence: u32,
}

/// The matching key of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The communicator's matching space.
    pub context: ContextId,
    /// The sender's rank in the communicator.
    pub source: Rank,
    /// The tag.
    pub tag: Tag,
}

/// Remote keys of one buffer, one a rail.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Keys {
    rails: RailSet,
    keys: [RemoteKey; KEYS_MAX],
}

impl Keys {
    /// Adds the key of a rail. `false` if there is no room or the rail is not above those already in.
    pub fn push(&mut self, rail: Rail, key: RemoteKey) -> bool {
        let count = self.rails.0.count_ones() as usize;
        if count == KEYS_MAX || (self.rails.0 >> rail.0) != 0 {
            return false;
        }
        self.rails.0 |= RailSet::one(rail).0;
        self.keys[count] = key;
        true
    }

    /// The rails.
    pub fn rails(&self) -> RailSet {
        self.rails
    }

    /// The rails and their keys.
    pub fn iter(&self) -> impl Iterator<Item = (Rail, RemoteKey)> + '_ {
        self.rails.iter().zip(self.keys.iter().copied())
    }

    /// Takes a rail's key out.
    pub fn remove(&mut self, rail: Rail) {
        let rest: alloc::vec::Vec<_> = self.iter().filter(|entry| entry.0 != rail).collect();
        *self = Self::default();
        for (rail, key) in rest {
            self.push(rail, key);
        }
    }

    /// The key of one rail.
    pub fn get(&self, rail: Rail) -> Option<RemoteKey> {
        self.iter().find(|entry| entry.0 == rail).map(|entry| entry.1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rails.is_empty()
    }

    /// What the flags of a header with these keys say of them.
    #[inline]
    fn flags(&self) -> u8 {
        match self.rails.0.is_power_of_two() {
            true => FLAG_ONE_KEY | (self.rails.0.trailing_zeros() as u8) << RAIL_SHIFT,
            false => 0,
        }
    }
}

/// A packet's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// A whole message.
    Eager(Envelope),
    /// A whole message whose sender waits until it is matched.
    EagerSync(Envelope, RequestId),
    /// Request to send: a message of `length` bytes waits at the sender.
    Rts {
        /// The envelope for matching.
        envelope: Envelope,
        /// The sender's request.
        sender: RequestId,
        /// Length of the message in bytes.
        length: u64,
        /// Where the receiver may get it from; may be empty.
        keys: Keys,
        /// Whether the receiver may ask for packets although it could get it: the sender has time to copy.
        offers_packets: bool,
    },
    /// Clear to send: the message is matched; send `length` bytes of it.
    Cts {
        /// The sender's request.
        sender: RequestId,
        /// The receiver's request.
        receiver: RequestId,
        /// How much the receiver takes, in bytes.
        length: u64,
        /// Where to put it; empty: send [`Header::Data`] packets.
        keys: Keys,
    },
    /// A fragment of a message.
    Data {
        /// The receiver's request.
        receiver: RequestId,
        /// Where in the message it belongs, in bytes.
        offset: u64,
    },
    /// All data has been moved: by put (to the receiver) or get (to the sender).
    Fin(RequestId),
    /// A synchronous eager message has been matched (to the sender).
    Matched(RequestId),
    /// The sender wants to cancel an unmatched message.
    Cancel(RequestId),
    /// Answer to `Cancel`: whether the message was still unmatched and is now gone.
    CancelReply(RequestId, bool),
    /// Only returns credit.
    Credit,
    /// About a communicator that has lost members.
    Note(Note),
}

/// Why bytes are not a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl From<Malformed> for Blame {
    fn from(Malformed(what): Malformed) -> Self {
        Self(what)
    }
}

mod kind {
    pub(super) const EAGER: u8 = 1;
    pub(super) const EAGER_SYNC: u8 = 2;
    pub(super) const RTS: u8 = 3;
    pub(super) const CTS: u8 = 4;
    pub(super) const DATA: u8 = 5;
    pub(super) const FIN: u8 = 6;
    pub(super) const MATCHED: u8 = 7;
    pub(super) const CANCEL: u8 = 8;
    pub(super) const CANCEL_REPLY: u8 = 9;
    pub(super) const CREDIT: u8 = 10;
    pub(super) const NOTE: u8 = 11;
}

/// Flag of `CancelReply`: it is cancelled; of `Rts`: packets are offered.
const FLAG_YES: u8 = 1;
/// Flag of `Rts` and `Cts`: there is one key, of the rail whose number the uppermost bits say.
const FLAG_ONE_KEY: u8 = 2;
/// The lowest of these bits.
const RAIL_SHIFT: u32 = 3;
const _: () = assert!(RailSet::RAILS_MAX <= 1 << (u8::BITS - RAIL_SHIFT));

/// A header in bytes, ready for a device.
pub struct HeaderBytes {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

impl HeaderBytes {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    #[inline(always)]
    fn put_request(&mut self, request: RequestId) {
        self.put(request.to_bits().to_le_bytes());
    }

    #[inline(always)]
    fn put_envelope(&mut self, envelope: &Envelope) {
        self.put(envelope.context.0.to_le_bytes());
        self.put(envelope.source.to_le_bytes());
        self.put(envelope.tag.to_le_bytes());
    }

    #[inline]
    fn put_keys(&mut self, keys: &Keys) {
        if keys.flags() == 0 {
            self.put(u64::from(keys.rails.0).to_le_bytes());
        }
        for (_, key) in keys.iter() {
            self.put(key.words[0].to_le_bytes());
            self.put(key.words[1].to_le_bytes());
        }
    }
}

impl Header {
    /// The header in bytes.
    #[inline]
    pub fn emit(&self, prefix: Prefix) -> HeaderBytes {
        let mut out = HeaderBytes { bytes: [0; HEADER_BYTES_MAX], len: 0 };
        let (kind, flags) = match self {
            Self::Eager(..) => (kind::EAGER, 0),
            Self::EagerSync(..) => (kind::EAGER_SYNC, 0),
            Self::Rts { offers_packets, keys, .. } => {
                (kind::RTS, (u8::from(*offers_packets) * FLAG_YES) | keys.flags())
            }
            Self::Cts { keys, .. } => (kind::CTS, keys.flags()),
            Self::Data { .. } => (kind::DATA, 0),
            Self::Fin(..) => (kind::FIN, 0),
            Self::Matched(..) => (kind::MATCHED, 0),
            Self::Cancel(..) => (kind::CANCEL, 0),
            Self::CancelReply(_, yes) => (kind::CANCEL_REPLY, if *yes { FLAG_YES } else { 0 }),
            Self::Credit => (kind::CREDIT, 0),
            Self::Note(_) => (kind::NOTE, 0),
        };
        out.put(first_word(kind, flags, prefix).to_le_bytes());
        match self {
            Self::Eager(envelope) => out.put_envelope(envelope),
            Self::EagerSync(envelope, request) => {
                out.put_envelope(envelope);
                out.put_request(*request);
            }
            Self::Rts { envelope, sender, length, keys, .. } => {
                out.put_envelope(envelope);
                out.put_request(*sender);
                out.put(length.to_le_bytes());
                out.put_keys(keys);
            }
            Self::Cts { sender, receiver, length, keys } => {
                out.put_request(*sender);
                out.put_request(*receiver);
                out.put(length.to_le_bytes());
                out.put_keys(keys);
            }
            Self::Data { receiver, offset } => {
                out.put_request(*receiver);
                out.put(offset.to_le_bytes());
            }
            Self::Fin(request)
            | Self::Matched(request)
            | Self::Cancel(request)
            | Self::CancelReply(request, _) => out.put_request(*request),
            Self::Credit => {}
            Self::Note(note) => out.put(note.emit()),
        }
        out
    }
}

/// The header of [`Header::Eager`] in bytes: what [`Header::emit`] gives, in registers. In words, because
/// devices load words: one that has just been stored in two halves they would wait for.
#[inline(always)]
pub fn eager_header(prefix: Prefix, envelope: &Envelope) -> [u8; EAGER_HEADER_BYTES] {
    let mut bytes = [0; EAGER_HEADER_BYTES];
    bytes[..8].copy_from_slice(&first_word(kind::EAGER, 0, prefix).to_le_bytes());
    bytes[8..16].copy_from_slice(&envelope.context.0.to_le_bytes());
    let last = u64::from(envelope.source) | u64::from(envelope.tag.cast_unsigned()) << 32;
    bytes[16..].copy_from_slice(&last.to_le_bytes());
    bytes
}

/// Length of the header of [`Header::Eager`] in bytes.
pub const EAGER_HEADER_BYTES: usize = 24;

#[inline(always)]
fn first_word(kind: u8, flags: u8, prefix: Prefix) -> u64 {
    u64::from(kind)
        | u64::from(flags) << 8
        | u64::from(prefix.credits) << 16
        | u64::from(prefix.sequence) << 32
}

#[inline(always)]
fn prefix_of(first_word: u64) -> Prefix {
    Prefix { credits: (first_word >> 16) as u16, sequence: (first_word >> 32) as u32 }
}

/// Reads little-endian fields off the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed("header cut short"))?;
        self.0 = rest;
        Ok(*head)
    }

    #[inline(always)]
    fn word(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    #[inline(always)]
    fn request(&mut self) -> Result<RequestId, Malformed> {
        Ok(RequestId::from_bits(self.word()?))
    }

    #[inline(always)]
    fn envelope(&mut self) -> Result<Envelope, Malformed> {
        let context = ContextId(self.word()?);
        let source = Rank::from_le_bytes(self.take()?);
        let tag = Tag::from_le_bytes(self.take()?);
        if source > i32::MAX as u32 {
            return Err(Malformed("source rank out of range"));
        }
        Ok(Envelope { context, source, tag })
    }

    #[inline]
    fn keys(&mut self, flags: u8) -> Result<Keys, Malformed> {
        if flags & FLAG_ONE_KEY != 0 {
            let mut keys = Keys { rails: RailSet(1 << (flags >> RAIL_SHIFT)), ..Keys::default() };
            keys.keys[0].words = [self.word()?, self.word()?];
            return Ok(keys);
        }
        let rails = u32::try_from(self.word()?).map_err(|_| Malformed("reserved bits set"))?;
        if rails.count_ones() as usize > KEYS_MAX {
            return Err(Malformed("more keys than a header holds"));
        }
        if rails.is_power_of_two() {
            return Err(Malformed("one key whose rail the flags do not say"));
        }
        let mut keys = Keys { rails: RailSet(rails), ..Keys::default() };
        for key in &mut keys.keys[..rails.count_ones() as usize] {
            key.words = [self.word()?, self.word()?];
        }
        Ok(keys)
    }
}

/// The flags that a packet may have.
fn flags_known(kind: u8, flags: u8) -> u8 {
    let of_keys = if flags & FLAG_ONE_KEY != 0 { FLAG_ONE_KEY | u8::MAX << RAIL_SHIFT } else { 0 };
    match kind {
        kind::CANCEL_REPLY => FLAG_YES,
        kind::RTS => FLAG_YES | of_keys,
        kind::CTS => of_keys,
        _ => 0,
    }
}

/// The sequence that a packet's prefix says.
pub fn sequence_of(bytes: &[u8]) -> Result<u32, Malformed> {
    Ok((Reader(bytes).word()? >> 32) as u32)
}

/// Result of [`parse`] for the header of [`Header::Eager`] with nothing after it. `None`: it is another
/// header, or malformed.
#[inline(always)]
pub fn parse_eager(bytes: &[u8]) -> Option<(Prefix, Envelope)> {
    let mut reader = Reader(bytes);
    let word = reader.word().ok()?;
    if bytes.len() != EAGER_HEADER_BYTES || word as u16 != u16::from(kind::EAGER) {
        return None;
    }
    Some((prefix_of(word), reader.envelope().ok()?))
}

/// Reads a header off the front of `bytes`: prefix, meaning, and how many bytes it took.
#[inline(always)]
pub fn parse(bytes: &[u8]) -> Result<(Prefix, Header, usize), Malformed> {
    let mut reader = Reader(bytes);
    let word = reader.word()?;
    let prefix = prefix_of(word);
    let (kind, flags) = (word as u8, (word >> 8) as u8);
    if flags != 0 && flags & !flags_known(kind, flags) != 0 {
        return Err(Malformed("unknown flags"));
    }
    let header = match kind {
        kind::EAGER => Header::Eager(reader.envelope()?),
        kind::EAGER_SYNC => Header::EagerSync(reader.envelope()?, reader.request()?),
        kind::RTS => Header::Rts {
            envelope: reader.envelope()?,
            sender: reader.request()?,
            length: reader.word()?,
            keys: reader.keys(flags)?,
            offers_packets: flags & FLAG_YES != 0,
        },
        kind::CTS => Header::Cts {
            sender: reader.request()?,
            receiver: reader.request()?,
            length: reader.word()?,
            keys: reader.keys(flags)?,
        },
        kind::DATA => Header::Data { receiver: reader.request()?, offset: reader.word()? },
        kind::FIN => Header::Fin(reader.request()?),
        kind::MATCHED => Header::Matched(reader.request()?),
        kind::CANCEL => Header::Cancel(reader.request()?),
        kind::CANCEL_REPLY => Header::CancelReply(reader.request()?, flags == FLAG_YES),
        kind::CREDIT => Header::Credit,
        kind::NOTE => Header::Note(Note::parse(&reader.take()?).ok_or(Malformed("a note that is none"))?),
        _ => return Err(Malformed("unknown kind of packet")),
    };
    Ok((prefix, header, bytes.len() - reader.0.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn request() -> impl Strategy<Value = RequestId> {
        any::<u64>().prop_map(RequestId::from_bits)
    }

    fn envelope() -> impl Strategy<Value = Envelope> {
        (any::<u64>(), 0..=i32::MAX as u32, any::<i32>()).prop_map(|(context, source, tag)| Envelope {
            context: ContextId(context),
            source,
            tag,
        })
    }

    #[test]
    fn keys_are_added_in_rail_order_while_there_is_room() {
        let mut keys = Keys::default();
        let mut push = |rail| keys.push(Rail(rail), RemoteKey { words: [rail.into(), 0] });
        assert_eq!([3, 3, 2, 5, 7].map(&mut push), [true, false, false, true, true]);
        assert_eq!([31, 30, 31].map(&mut push), [true, false, false], "four are all");
        assert_eq!(
            keys.iter().map(|(rail, key)| (rail.0, key.words[0])).collect::<vec::Vec<_>>(),
            [(3, 3), (5, 5), (7, 7), (31, 31)]
        );
        assert_eq!(keys.get(Rail(2)), None);
    }

    fn keys() -> impl Strategy<Value = Keys> {
        proptest::collection::btree_map(0u8..32, any::<[u64; 2]>(), 0..=KEYS_MAX).prop_map(|map| {
            let mut keys = Keys::default();
            for (rail, words) in map {
                assert!(keys.push(Rail(rail), RemoteKey { words }));
            }
            keys
        })
    }

    fn header() -> impl Strategy<Value = Header> {
        prop_oneof![
            envelope().prop_map(Header::Eager),
            (envelope(), request()).prop_map(|(e, r)| Header::EagerSync(e, r)),
            (envelope(), request(), any::<u64>(), keys(), any::<bool>()).prop_map(
                |(envelope, sender, length, keys, offers_packets)| {
                    Header::Rts { envelope, sender, length, keys, offers_packets }
                }
            ),
            (request(), request(), any::<u64>(), keys())
                .prop_map(|(sender, receiver, length, keys)| Header::Cts { sender, receiver, length, keys }),
            (request(), any::<u64>()).prop_map(|(receiver, offset)| Header::Data { receiver, offset }),
            request().prop_map(Header::Fin),
            request().prop_map(Header::Matched),
            request().prop_map(Header::Cancel),
            (request(), any::<bool>()).prop_map(|(r, yes)| Header::CancelReply(r, yes)),
            Just(Header::Credit),
            crate::survive::note().prop_map(Header::Note),
        ]
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(header in header(), credits: u16, sequence: u32, tail in ".{0,9}") {
            let prefix = Prefix { credits, sequence };
            let emitted = header.emit(prefix);
            let mut bytes = emitted.as_slice().to_vec();
            let len = bytes.len();
            bytes.extend_from_slice(tail.as_bytes());
            prop_assert_eq!(parse(&bytes), Ok((prefix, header, len)));
            for cut in 0..len {
                prop_assert!(parse(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn what_is_read_from_damaged_bytes_is_what_they_say(
            header in header(), credits: u16, sequence: u32, bit: prop::sample::Index,
        ) {
            let mut bytes = header.emit(Prefix { credits, sequence }).as_slice().to_vec();
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            // A flag may say that there are more fields.
            bytes.resize(bytes.len() + 100, 0);
            if let Ok((prefix, header, len)) = parse(&bytes) {
                let emitted = header.emit(prefix);
                prop_assert_eq!(emitted.as_slice(), &bytes[..len]);
            }
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn the_short_way_to_read_an_eager_header_says_the_same(
            mut bytes in proptest::collection::vec(any::<u8>(), 20..28), kind in 0..=kind::EAGER_SYNC, flags in 0..2_u8,
        ) {
            bytes[..2].copy_from_slice(&[kind, flags]);
            let eager = match parse(&bytes) {
                Ok((prefix, Header::Eager(envelope), EAGER_HEADER_BYTES)) if bytes.len() == EAGER_HEADER_BYTES => {
                    Some((prefix, envelope))
                }
                _ => None,
            };
            prop_assert_eq!(parse_eager(&bytes), eager);
        }
    }

    #[test]
    fn ranks_are_below_two_to_the_31st() {
        let prefix = Prefix { credits: 0, sequence: 0 };
        for (source, is_right) in [(0, true), (i32::MAX as u32, true), (1 << 31, false), (u32::MAX, false)] {
            let envelope = Envelope { context: ContextId::WORLD, source, tag: 0 };
            let request = RequestId::from_bits(1);
            for header in [Header::Eager(envelope), Header::EagerSync(envelope, request)] {
                let emitted = header.emit(prefix);
                assert_eq!(parse(emitted.as_slice()).is_ok(), is_right, "{source}");
            }
        }
    }

    #[test]
    fn more_keys_than_a_header_holds_are_refused() {
        let mut keys = Keys::default();
        for rail in 0..KEYS_MAX as u8 {
            assert!(keys.push(Rail(rail), RemoteKey { words: [7, 7] }));
        }
        let request = RequestId::from_bits(1);
        let header = Header::Cts { sender: request, receiver: request, length: 0, keys };
        let mut bytes = header.emit(Prefix { credits: 0, sequence: 0 }).as_slice().to_vec();
        bytes.resize(bytes.len() + 64, 0);
        assert!(parse(&bytes).is_ok());
        // The word that says which rails have a key.
        let rails = (1_u64 << KEYS_MAX) - 1;
        let at = bytes.windows(8).position(|word| word == rails.to_le_bytes()).expect("it is there");
        bytes[at] |= 1 << KEYS_MAX;
        assert!(parse(&bytes).is_err());
    }

    #[test]
    fn one_key_is_said_in_one_way() {
        let mut keys = Keys::default();
        assert!(
            keys.push(Rail(3), RemoteKey { words: [7, 7] })
                && keys.push(Rail(4), RemoteKey { words: [7, 7] })
        );
        let request = RequestId::from_bits(1);
        let header = Header::Cts { sender: request, receiver: request, length: 0, keys };
        let bytes = header.emit(Prefix { credits: 0, sequence: 0 }).as_slice().to_vec();
        // The word that says which rails have a key, with one of them only.
        let at = bytes.windows(8).position(|word| word == 0b1_1000_u64.to_le_bytes()).expect("it is there");
        let mut with_one = bytes.clone();
        with_one[at] = 0b1000;
        assert!(parse(&bytes).is_ok() && parse(&with_one).is_err());
        // A rail in the flags without the flag that says that there is one, and a flag of other packets.
        for flags in [3 << RAIL_SHIFT, FLAG_YES] {
            let mut with_flags = bytes.clone();
            with_flags[1] |= flags;
            assert!(parse(&with_flags).is_err(), "{flags}");
        }
    }

    #[test]
    fn an_eager_header_leaves_room_for_data_in_a_cache_line() {
        let envelope = Envelope { context: ContextId::WORLD, source: 0, tag: 0 };
        let prefix = Prefix { credits: 77, sequence: 99 };
        assert_eq!(Header::Eager(envelope).emit(prefix).as_slice(), eager_header(prefix, &envelope));
        assert_eq!(EAGER_HEADER_BYTES, 24);
    }

    #[test]
    fn a_key_that_is_taken_out_leaves_the_others() {
        let mut keys = Keys::default();
        let key = |word| RemoteKey { words: [word, 0] };
        (0..3).for_each(|rail| assert!(keys.push(Rail(rail), key(rail.into()))));
        keys.remove(Rail(1));
        assert_eq!([0, 1, 2].map(|rail| keys.get(Rail(rail))), [Some(key(0)), None, Some(key(2))]);
    }
}
