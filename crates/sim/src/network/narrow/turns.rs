//! Whose turn it is at a port of a narrow router.

/// [`PortState::turn`] of a narrow router: for each of two channels the lane that is first in turn, the
/// channel that is, and which of them are blocked.
///
/// ```text
///   bit    14 13       12      11 .. 6     5 .. 0
///          blocked   channel    turn 1     turn 0
/// ```
///
/// [`PortState::turn`]: crate::network::PortState
#[derive(Debug, Clone, Copy)]
pub(in crate::network) struct Turns(pub(in crate::network) u16);

impl Turns {
    const CHANNEL: u32 = 12;
    const BLOCKED: u32 = 13;

    /// The lane that a channel begins with. Round robin uses channel 0's.
    #[inline(always)]
    pub(super) fn of(self, channel: usize) -> u32 {
        u32::from(self.0) >> (6 * channel) & 63
    }

    /// The channel that is first in turn.
    #[inline(always)]
    pub(super) fn channel(self) -> usize {
        usize::from(self.0 >> Turns::CHANNEL & 1)
    }

    /// The channel of the last packet, where channels take turns.
    #[inline(always)]
    pub(super) fn last(self) -> usize {
        self.channel() ^ 1
    }

    #[inline(always)]
    pub(super) fn is_blocked(self, channel: usize) -> bool {
        self.0 >> (Turns::BLOCKED + channel as u32) & 1 != 0
    }

    #[inline(always)]
    pub(super) fn with_blocked(self, channels: u16) -> Turns {
        Turns(self.0 & !(3 << Turns::BLOCKED) | channels << Turns::BLOCKED)
    }

    /// When a lane has sent by a channel, which is not blocked then.
    #[inline(always)]
    pub(super) fn after<const BY_CHANNEL: bool>(self, channel: usize, lane: u16) -> Turns {
        let (next, open) = ((lane + 1) & 63, self.0 & !(1 << (Turns::BLOCKED + channel as u32)));
        if !BY_CHANNEL {
            return Turns(open & !63 | next);
        }
        let shift = 6 * channel as u32;
        let others = open & !(63 << shift) & !(1 << Turns::CHANNEL);
        Turns(others | next << shift | ((channel as u16 ^ 1) << Turns::CHANNEL))
    }

    /// The lane that is first in turn, if all can go, and its channel. Meaningless if none wants the port.
    #[inline(always)]
    pub(super) fn first<const BY_CHANNEL: bool>(self, requests: [u64; 2]) -> (u32, usize) {
        let next = |lanes: u64, turn: u32| (lanes.rotate_right(turn).trailing_zeros() + turn) & 63;
        if BY_CHANNEL {
            let channel = self.channel() ^ usize::from(requests[self.channel()] == 0);
            return (next(requests[channel], self.of(channel)), channel);
        }
        let lane = next(requests[0] | requests[1], self.of(0));
        (lane, (requests[1] >> lane & 1) as usize)
    }
}
