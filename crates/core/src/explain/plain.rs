//! Plain data as bytes and back: little-endian, lists with their length before, variants by number.

use super::{CollectiveState, Label, Listed, LockState, Need, NodeState, PostedReceive};
use crate::coll::Collective;
use crate::ids::{ContextId, ProcessId, RequestId};
use crate::link::Health;
use alloc::string::String;
use alloc::vec::Vec;

/// Data that can be written as bytes and read back. Reading refuses what writing does not make.
pub trait Plain: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes it off the front.
    fn take(bytes: &mut &[u8]) -> Option<Self>;

    /// As bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// From all of these bytes.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let value = Self::take(&mut bytes)?;
        bytes.is_empty().then_some(value)
    }
}

/// A struct whose fields are plain.
macro_rules! plain_struct {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        pub struct $name { $($(#[$doc])* pub $field: $ty,)* }

        impl Plain for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Plain::take(bytes)?,)* })
            }
        }
    )*};
}
pub(super) use plain_struct;

impl Plain for Label {
    fn put(&self, out: &mut Vec<u8>) {
        self.collective.put(out);
        self.bytes.put(out);
        self.root.put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (collective, bytes_count, root) = (Plain::take(bytes)?, Plain::take(bytes)?, Plain::take(bytes)?);
        Some(Self { collective, bytes: bytes_count, root })
    }
}

macro_rules! plain_numbers {
    ($($ty:ty)*) => {$(
        impl Plain for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (number, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*number))
            }
        }
    )*};
}
plain_numbers! { u8 u32 i32 u64 i64 }

/// A type that is made of one plain thing.
macro_rules! plain_wrappers {
    ($($ty:ty: $inner:ty, |$out:ident| $to:expr, |$in:ident| $from:expr;)*) => {$(
        impl Plain for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                let $out = self;
                $to.put(out);
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let $in = <$inner>::take(bytes)?;
                $from
            }
        }
    )*};
}
plain_wrappers! {
    ContextId: u64, |id| id.0, |bits| Some(ContextId(bits));
    ProcessId: u32, |id| id.0, |id| Some(ProcessId(id));
    RequestId: u64, |id| id.to_bits(), |bits| Some(RequestId::from_bits(bits));
    bool: u8, |value| u8::from(*value), |byte| (byte < 2).then_some(byte == 1);
    Health: u8, |health| *health as u8, |byte| [Health::Up, Health::Silent, Health::Down].get(usize::from(byte)).copied();
    Collective: u8, |collective| Collective::ALL.iter().position(|one| one == collective).unwrap_or(0) as u8,
        |byte| Collective::ALL.get(usize::from(byte)).copied();
    String: Vec<u8>, |text| text.as_bytes().to_vec(), |bytes| String::from_utf8(bytes).ok();
}

impl<T: Plain> Plain for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let length = u32::take(bytes)? as usize;
        // Each element takes a byte at least, so no length makes us reserve more than there are bytes.
        let mut all = Vec::with_capacity(length.min(bytes.len()).min(1024));
        for _ in 0..length {
            all.push(T::take(bytes)?);
        }
        Some(all)
    }
}

impl<T: Plain> Plain for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(bytes)? { Some(T::take(bytes)?) } else { None })
    }
}

impl<A: Plain, B: Plain> Plain for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::take(bytes)?, B::take(bytes)?))
    }
}

impl<T: Plain> Plain for Listed<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.count.put(out);
        self.first.put(out);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self { count: u64::take(bytes)?, first: Vec::take(bytes)? })
    }
}

/// The number of [`Need::Collective`].
const COLLECTIVE: u8 = 4;

/// A collective operation, whose steps are messages: no correct process nests one in another. One inside is
/// refused before it is read, so that no bytes make this recurse.
fn take_collective(bytes: &mut &[u8]) -> Option<CollectiveState> {
    let (context, number, label) = (Plain::take(bytes)?, Plain::take(bytes)?, Plain::take(bytes)?);
    let mut needs = Vec::new();
    for _ in 0..u32::take(bytes)? {
        if bytes.first() == Some(&COLLECTIVE) {
            return None;
        }
        needs.push(Need::take(bytes)?);
    }
    Some(CollectiveState { context, number, label, needs })
}

impl Plain for Need {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nothing => 0u8.put(out),
            Self::Message(wanted) => {
                1u8.put(out);
                wanted.put(out);
            }
            Self::Match { to, request, bytes } => {
                2u8.put(out);
                to.put(out);
                request.put(out);
                bytes.put(out);
            }
            Self::Progress { peer } => {
                3u8.put(out);
                peer.put(out);
            }
            Self::Collective(state) => {
                COLLECTIVE.put(out);
                state.put(out);
            }
            Self::Node(state) => {
                5u8.put(out);
                state.put(out);
            }
            Self::Other(what) => {
                6u8.put(out);
                what.put(out);
            }
            Self::Lock(state) => {
                7u8.put(out);
                state.put(out);
            }
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(bytes)? {
            0 => Self::Nothing,
            1 => Self::Message(PostedReceive::take(bytes)?),
            2 => Self::Match {
                to: ProcessId::take(bytes)?,
                request: RequestId::take(bytes)?,
                bytes: u64::take(bytes)?,
            },
            3 => Self::Progress { peer: ProcessId::take(bytes)? },
            COLLECTIVE => Self::Collective(take_collective(bytes)?),
            5 => Self::Node(NodeState::take(bytes)?),
            6 => Self::Other(String::take(bytes)?),
            7 => Self::Lock(LockState::take(bytes)?),
            _ => return None,
        })
    }
}
