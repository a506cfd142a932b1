//! Notes of processes about a communicator that has lost members, and their wire format.
//!
//! ```text
//! kind u8 | flags u8 | zero u16 | instance u32       8 bytes
//! context u64                                        8
//! ballot u32 | count u32                             8
//! name u64                                           8
//! value 4 × u64                                     32
//! ```
//!
//! Little-endian, after the prefix of every packet. A note always has this length: it is no part of a
//! message, so it costs no credit and is matched with nothing.

use crate::ids::ContextId;

/// Words of a value that is agreed on.
pub const VALUE_WORDS: usize = 4;
/// Bits of such a value: members whose being alive one agreement can decide.
pub(crate) const VALUE_BITS: u32 = 64 * VALUE_WORDS as u32;
/// Bytes of a note.
pub(crate) const NOTE_BYTES: usize = 32 + 8 * VALUE_WORDS;

/// A value that is agreed on: of all contributions bit by bit *and*.
pub type Value = [u64; VALUE_WORDS];

/// About which communicator, and what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// Its context.
    pub context: ContextId,
    /// The content.
    pub what: What,
}

/// Content of a note. `instance` counts the agreements of a communicator, `ballot` is the number of the
/// member that coordinates. See [`agree`](super::agree).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The communicator is revoked.
    Revoke,
    /// To the coordinator: what this member knows.
    Report {
        /// Which agreement.
        instance: u32,
        /// The coordinator that it is for.
        ballot: u32,
        /// The member's part.
        report: Report,
    },
    /// From the coordinator: this will be decided.
    Prepare {
        /// Which agreement.
        instance: u32,
        /// The coordinator that proposes it.
        ballot: u32,
        /// The proposed decision.
        decision: Decision,
    },
    /// To the coordinator: prepared.
    Ack {
        /// Which agreement.
        instance: u32,
        /// The coordinator that proposed it.
        ballot: u32,
    },
    /// This is decided.
    Commit {
        /// Which agreement.
        instance: u32,
        /// The decision.
        decision: Decision,
    },
}

/// A member's report to a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// Nothing was proposed to it: its contribution.
    Contribution(Contribution),
    /// The proposal that it received last, and its ballot.
    Prepared {
        /// The coordinator that proposed it.
        ballot: u32,
        /// The proposal.
        decision: Decision,
    },
}

/// A member's contribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contribution {
    /// Its value.
    pub value: Value,
    /// The failures it has acknowledged.
    pub acked: Acked,
}

/// A set of members whose failure was acknowledged: how many, and a digest of which.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Acked {
    /// How many.
    pub count: u32,
    /// The sum of a hash of each.
    pub digest: u64,
}

/// The decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// All contributions, bit by bit *and*.
    pub value: Value,
    /// A member has failed that not all have acknowledged.
    pub is_failed: bool,
    /// The context of the communicator that comes of it, if one does.
    pub context: ContextId,
}

mod kind {
    pub(super) const REVOKE: u8 = 1;
    pub(super) const CONTRIBUTION: u8 = 2;
    pub(super) const PREPARED: u8 = 3;
    pub(super) const PREPARE: u8 = 4;
    pub(super) const ACK: u8 = 5;
    pub(super) const COMMIT: u8 = 6;
}

/// The fields of a note as they lie in bytes.
#[derive(Clone, Copy, Default)]
struct Fields {
    kind: u8,
    flags: u8,
    instance: u32,
    ballot: u32,
    count: u32,
    name: u64,
    value: Value,
}

impl Fields {
    fn with(self, decision: &Decision) -> Self {
        let Decision { value, is_failed, context } = *decision;
        Self { flags: is_failed.into(), name: context.0, value, ..self }
    }

    fn decision(&self) -> Decision {
        Decision { value: self.value, is_failed: self.flags != 0, context: ContextId(self.name) }
    }
}

impl Note {
    fn fields(&self) -> Fields {
        let none = Fields::default();
        match self.what {
            What::Revoke => Fields { kind: kind::REVOKE, ..none },
            What::Report {
                instance,
                ballot,
                report: Report::Contribution(Contribution { value, acked }),
            } => {
                let Acked { count, digest } = acked;
                Fields { kind: kind::CONTRIBUTION, instance, ballot, count, name: digest, value, ..none }
            }
            What::Report { instance, ballot, report: Report::Prepared { ballot: count, decision } } => {
                Fields { kind: kind::PREPARED, instance, ballot, count, ..none }.with(&decision)
            }
            What::Prepare { instance, ballot, decision } => {
                Fields { kind: kind::PREPARE, instance, ballot, ..none }.with(&decision)
            }
            What::Ack { instance, ballot } => Fields { kind: kind::ACK, instance, ballot, ..none },
            What::Commit { instance, decision } => {
                Fields { kind: kind::COMMIT, instance, ..none }.with(&decision)
            }
        }
    }

    /// The note in bytes.
    pub(crate) fn emit(&self) -> [u8; NOTE_BYTES] {
        let Fields { kind, flags, instance, ballot, count, name, value } = self.fields();
        let head = [
            u64::from(kind) | u64::from(flags) << 8 | u64::from(instance) << 32,
            self.context.0,
            u64::from(ballot) | u64::from(count) << 32,
            name,
        ];
        let mut bytes = [0; NOTE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(head.iter().chain(&value)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The inverse of [`emit`](Self::emit). `None`: these bytes are no note.
    pub(crate) fn parse(bytes: &[u8; NOTE_BYTES]) -> Option<Self> {
        let mut words = [0; NOTE_BYTES / 8];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(place.try_into().ok()?);
        }
        let [head, context, numbers, name, value @ ..] = words;
        if head as u32 >> 16 != 0 || (head >> 8) as u8 > 1 {
            return None;
        }
        let fields = Fields {
            kind: head as u8,
            flags: (head >> 8) as u8,
            instance: (head >> 32) as u32,
            ballot: numbers as u32,
            count: (numbers >> 32) as u32,
            name,
            value,
        };
        let Fields { instance, ballot, count, .. } = fields;
        let what = match fields.kind {
            kind::REVOKE => What::Revoke,
            kind::CONTRIBUTION => {
                let acked = Acked { count, digest: name };
                What::Report { instance, ballot, report: Report::Contribution(Contribution { value, acked }) }
            }
            kind::PREPARED => {
                let decision = fields.decision();
                What::Report { instance, ballot, report: Report::Prepared { ballot: count, decision } }
            }
            kind::PREPARE => What::Prepare { instance, ballot, decision: fields.decision() },
            kind::ACK => What::Ack { instance, ballot },
            kind::COMMIT => What::Commit { instance, decision: fields.decision() },
            _ => return None,
        };
        let note = Self { context: ContextId(context), what };
        // What a kind does not use is zero.
        (note.emit() == *bytes).then_some(note)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decision() -> impl Strategy<Value = Decision> {
        (any::<Value>(), any::<bool>(), any::<u64>()).prop_map(|(value, is_failed, context)| Decision {
            value,
            is_failed,
            context: ContextId(context),
        })
    }

    pub(crate) fn note() -> impl Strategy<Value = Note> {
        let numbers = || (any::<u32>(), any::<u32>());
        let acked = (any::<u32>(), any::<u64>()).prop_map(|(count, digest)| Acked { count, digest });
        let what = prop_oneof![
            Just(What::Revoke),
            (numbers(), any::<Value>(), acked).prop_map(|((instance, ballot), value, acked)| {
                What::Report { instance, ballot, report: Report::Contribution(Contribution { value, acked }) }
            }),
            (numbers(), any::<u32>(), decision()).prop_map(|((instance, ballot), before, decision)| {
                What::Report { instance, ballot, report: Report::Prepared { ballot: before, decision } }
            }),
            (numbers(), decision()).prop_map(|((instance, ballot), decision)| What::Prepare {
                instance,
                ballot,
                decision
            }),
            numbers().prop_map(|(instance, ballot)| What::Ack { instance, ballot }),
            (any::<u32>(), decision()).prop_map(|(instance, decision)| What::Commit { instance, decision }),
        ];
        (any::<u64>(), what).prop_map(|(context, what)| Note { context: ContextId(context), what })
    }

    #[test]
    fn what_a_kind_does_not_use_is_zero() {
        let note = Note { context: ContextId(9), what: What::Ack { instance: 3, ballot: 4 } };
        let bytes = note.emit();
        assert_eq!(Note::parse(&bytes), Some(note));
        let failed = Decision { value: [5; VALUE_WORDS], is_failed: true, context: ContextId(6) };
        let commit = Note { context: ContextId(9), what: What::Commit { instance: 3, decision: failed } };
        // Kind, flags, then nothing up to the number of the agreement.
        for (note, flags) in [(note, 0), (commit, 1)] {
            let bytes = note.emit();
            assert_eq!(bytes[1..4], [flags, 0, 0]);
            for (at, with) in [(1, 2), (1, 3), (2, 1), (2, 0x80), (3, 1), (3, 0x80)] {
                let mut other = bytes;
                other[at] = with;
                assert_eq!(Note::parse(&other), None, "{at} {with}");
            }
        }
    }

    proptest! {
        #[test]
        fn notes_survive_the_wire(note in note()) {
            prop_assert_eq!(Note::parse(&note.emit()), Some(note));
        }

        #[test]
        fn parsing_gives_back_only_what_emits_the_same(bytes in any::<[u8; NOTE_BYTES]>()) {
            if let Some(note) = Note::parse(&bytes) {
                prop_assert_eq!(note.emit(), bytes);
            }
        }
    }
}
