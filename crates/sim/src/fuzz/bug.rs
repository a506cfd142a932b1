//! Bugs on purpose, to show that the checks can fail.

/// What the device does wrong, once in a while. Sequence numbers are kept right, so that the engine's own
/// check of them does not give the bug away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Credit returned on a packet is lost.
    LostCredit,
    /// A FIN does not arrive.
    LostFin,
    /// A CTS does not arrive.
    LostCts,
    /// The word that a synchronous message was matched does not arrive.
    LostMatched,
    /// An eager message arrives twice.
    DoubleDelivery,
    /// A message overtakes the one before it.
    Overtaking,
    /// A put or get leaves out the last byte.
    TruncatedCopy,
    /// A put or get is reported complete and has not been done.
    EmptyCompletion,
    /// The completion of a put or get is not reported.
    LostCompletion,
    /// A message comes with another tag.
    WrongTag,
    /// A message comes with another source rank.
    WrongSource,
    /// A fragment is written at the wrong place.
    WrongOffset,
    /// A byte of an eager message is changed.
    ChangedByte,
    /// A process does not hear that another is gone.
    LostPeerGone,
    /// In trunk mode: a piece of a long message is acknowledged and has not come.
    LostFragment,
    /// In trunk mode: a piece of a long message is written at the place of the one before.
    WrongUnit,
    /// The return of a rail is not reported.
    LostRailUp,
    /// That a put or get broke with its rail is not reported.
    LostBreak,
    /// In trunk mode: a part of a packet is said to have been fetched, and was not.
    EmptyFetch,
    /// Among survivors: a proposal arrives as a decision.
    EarlyDecision,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 20] = [
        Bug::LostCredit,
        Bug::LostFin,
        Bug::LostCts,
        Bug::LostMatched,
        Bug::DoubleDelivery,
        Bug::Overtaking,
        Bug::TruncatedCopy,
        Bug::EmptyCompletion,
        Bug::LostCompletion,
        Bug::WrongTag,
        Bug::WrongSource,
        Bug::WrongOffset,
        Bug::ChangedByte,
        Bug::LostPeerGone,
        Bug::LostFragment,
        Bug::WrongUnit,
        Bug::LostRailUp,
        Bug::LostBreak,
        Bug::EmptyFetch,
        Bug::EarlyDecision,
    ];

    /// As typed on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Bug::LostCredit => "lost-credit",
            Bug::LostFin => "lost-fin",
            Bug::LostCts => "lost-cts",
            Bug::LostMatched => "lost-matched",
            Bug::DoubleDelivery => "double-delivery",
            Bug::Overtaking => "overtaking",
            Bug::TruncatedCopy => "truncated-copy",
            Bug::EmptyCompletion => "empty-completion",
            Bug::LostCompletion => "lost-completion",
            Bug::WrongTag => "wrong-tag",
            Bug::WrongSource => "wrong-source",
            Bug::WrongOffset => "wrong-offset",
            Bug::ChangedByte => "changed-byte",
            Bug::LostPeerGone => "lost-peer-gone",
            Bug::LostFragment => "lost-fragment",
            Bug::WrongUnit => "wrong-unit",
            Bug::LostRailUp => "lost-rail-up",
            Bug::LostBreak => "lost-break",
            Bug::EmptyFetch => "empty-fetch",
            Bug::EarlyDecision => "early-decision",
        }
    }

    /// The bug of a name.
    pub fn by_name(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| bug.name() == name)
    }
}
