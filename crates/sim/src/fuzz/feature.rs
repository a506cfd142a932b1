//! What worlds must have used: a test over many worlds says what none of them did.

use ayatori_core::coll::Collective;

/// Something that a fault run does, or that happens in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// A short message left at once.
    SendAtOnce,
    /// A send that its caller waited for.
    SendBlocks,
    /// A send in buffered mode. (Ready mode is standard mode to the core, so no world can tell them apart.)
    SendBuffered,
    /// A send with a gap of its own.
    SendPaced,
    /// A send from memory with gaps.
    SendInBlocks,
    /// A receive into memory with gaps.
    ReceiveInBlocks,
    /// A receive that its caller waited for.
    ReceiveDirect,
    /// A peer died, or could not be reached, while such a receive waited.
    LossDuringReceiveDirect,
    /// The request of a send under way was freed.
    FreeRequest,
    /// Persistent collective operations, started in any order.
    CollectivePersistent,
    /// A collective operation whose members compared what they say of it first.
    CollectiveCompared,
    /// A collective operation that its caller waited for, round by round.
    CollectiveRun,
    /// A communicator was duplicated.
    Dup,
    /// A communicator was split.
    Split,
    /// A communicator was made of a group, by all members of the old one.
    Create,
    /// A communicator was made of a group, by its members.
    CreateGroup,
    /// A communicator was made of a group, by its members, who share none.
    OfGroup,
    /// An inter-communicator was made, and merged.
    Inter,
    /// A communicator was freed.
    FreeComm,
    /// Operations on windows, and flushes.
    WindowOperations,
    /// A window was locked.
    WindowLock,
    /// A process let others access its window.
    WindowPost,
    /// A process came to a fence of a window.
    WindowFence,
    /// A partitioned message.
    Partitioned,
    /// Several long messages of a sender that waits were got together, and that was measured.
    BurstGot,
    /// The same, where the sender was asked for packets.
    BurstSent,
    /// A dial was refused: nobody listened yet, or its process had died.
    DialRefused,
    /// Two processes dialled each other, and one was told that it need not.
    DialsCross,
    /// A connection ended that stood at one end only.
    ConnectionHalfMade,
    /// A connection was made in place of one that had ended.
    ConnectionAgain,
    /// A collective operation.
    Collective(Collective),
}

impl Feature {
    const SIMPLE: [Feature; 30] = [
        Feature::SendAtOnce,
        Feature::SendBlocks,
        Feature::SendBuffered,
        Feature::SendPaced,
        Feature::SendInBlocks,
        Feature::ReceiveInBlocks,
        Feature::ReceiveDirect,
        Feature::LossDuringReceiveDirect,
        Feature::FreeRequest,
        Feature::CollectivePersistent,
        Feature::CollectiveCompared,
        Feature::CollectiveRun,
        Feature::Dup,
        Feature::Split,
        Feature::Create,
        Feature::CreateGroup,
        Feature::OfGroup,
        Feature::Inter,
        Feature::FreeComm,
        Feature::WindowOperations,
        Feature::WindowLock,
        Feature::WindowPost,
        Feature::WindowFence,
        Feature::Partitioned,
        Feature::BurstGot,
        Feature::BurstSent,
        Feature::DialRefused,
        Feature::DialsCross,
        Feature::ConnectionHalfMade,
        Feature::ConnectionAgain,
    ];

    /// All of them.
    pub fn all() -> impl Iterator<Item = Feature> {
        Feature::SIMPLE.into_iter().chain(Collective::ALL.into_iter().map(Feature::Collective))
    }

    pub(super) fn bit(self) -> u64 {
        1 << Feature::all().position(|feature| feature == self).expect("all are listed")
    }
}
