//! The search for a lane that can send, where the first in turn cannot.

use super::{Turns, wake};
use crate::network::credits::Return;
use crate::network::{LaneState, PortState};
use crate::slab::Slab;
use crate::wheel::Wheel;

/// The parts of a network that a search uses.
pub(super) struct Parts<'a, const BY_CHANNEL: bool> {
    pub(super) ports: &'a mut [PortState],
    pub(super) lanes: &'a mut [LaneState],
    pub(super) returns: &'a mut Slab<Return>,
    pub(super) wheel: &'a mut Wheel,
    pub(super) vc_count: u32,
    pub(super) nic_lane: u32,
    pub(super) shortest_bytes: u32,
    pub(super) channel_restart_ps: u64,
}

/// A search for the lane whose turn it is.
struct Search {
    now_ps: u64,
    /// When to look again if nobody can go.
    next_ps: u64,
    first_lane: u32,
    /// The lane ahead of channel 0.
    ahead: u32,
    /// The lanes that may be asked, by channel.
    open: [u64; 2],
    /// Room ahead, by channel, once it is known.
    room: [Option<u32>; 2],
    /// Channels without room, a bit each.
    blocked: u16,
}

impl<const BY_CHANNEL: bool> Parts<'_, BY_CHANNEL> {
    /// The lane that sends, and its channel. If none can, sets the next time to look.
    #[inline(never)]
    pub(super) fn search(mut self, port: u32, now_ps: u64) -> Option<(u32, usize)> {
        let state = &self.ports[port as usize];
        let turns = Turns(state.turn);
        let ahead = (state.far * self.vc_count).min(self.nic_lane);
        let mut search = Search {
            now_ps,
            next_ps: u64::MAX,
            first_lane: state.first * self.vc_count,
            ahead,
            open: state.requests,
            room: [None; 2],
            blocked: 0,
        };
        let winner = if BY_CHANNEL {
            let restart_ps = state.free_ps + self.channel_restart_ps;
            let last = turns.last();
            if restart_ps > now_ps && ahead != self.nic_lane && search.open[last] != 0 {
                search.open[last] = 0;
                search.next_ps = restart_ps;
            }
            let (channel, open) = (turns.channel(), search.open);
            match self.next_lane(&mut search, open[channel], turns.of(channel)) {
                None => self.next_lane(&mut search, open[channel ^ 1], turns.of(channel ^ 1)),
                found => found,
            }
        } else {
            let lanes = search.open[0] | search.open[1];
            self.next_lane(&mut search, lanes, turns.of(0))
        };
        if winner.is_none() {
            self.ports[port as usize].turn = turns.with_blocked(search.blocked).0;
            wake(self.ports, self.wheel, port, search.next_ps);
        }
        winner
    }

    /// The first of some lanes, once around from `turn`, whose packet can go now.
    #[inline(always)]
    fn next_lane(&mut self, search: &mut Search, lanes: u64, turn: u32) -> Option<(u32, usize)> {
        let mut bits = lanes.rotate_right(turn);
        while bits != 0 {
            let index = (bits.trailing_zeros() + turn) & 63;
            bits &= bits - 1;
            let lane_id = search.first_lane + index;
            let LaneState { ready_ps, head_bytes: bytes, .. } = self.lanes[lane_id as usize];
            if ready_ps > search.now_ps {
                search.next_ps = search.next_ps.min(ready_ps);
                continue;
            }
            let channel = (search.open[1] >> index & 1) as usize;
            let room = match search.room[channel] {
                Some(room) => room,
                None => match self.lanes[(search.ahead + channel as u32) as usize].room_at(
                    self.returns,
                    self.shortest_bytes,
                    search.now_ps,
                ) {
                    Ok(room) => *search.room[channel].insert(room),
                    Err(later_ps) => {
                        search.next_ps = search.next_ps.min(later_ps);
                        search.blocked |= 1 << channel;
                        bits &= !search.open[channel].rotate_right(turn);
                        continue;
                    }
                },
            };
            if bytes <= room {
                return Some((lane_id, channel));
            }
            let ahead = &mut self.lanes[(search.ahead + channel as u32) as usize];
            let later_ps = ahead.wait_for_room(self.returns, bytes, search.now_ps);
            search.next_ps = search.next_ps.min(later_ps);
        }
        None
    }
}
