//! Looks at ports of narrow routers: of at most 64 lanes and two virtual channels ([`Network::narrow`]).
//!
//! A port keeps the lanes that want it by the channel that they want there. All lanes that want a channel
//! want the same room ahead, so a channel without room is passed over whole, and the port is looked at again
//! when the room is there: with credits on their way at their time, else when a packet begins to leave. Until
//! then the channel is *blocked*, and lanes that come to want it cost no look. A blocked channel has no room
//! for the shortest packet; where only a longer one does not fit, the lane is asked.
//!
//! A channel is blocked only while a lane wants it, and then a look or the flag `STARVED` is pending: a
//! blocked channel that nobody comes back to would stand still for ever.
//!
//! The outcome is that of the looks in `arbitrate`, which know neither: a test compares them.

use super::{Network, Probe};
use crate::slab::NONE;

/// [`super::PortState::turn`] of a narrow router: for each of two channels the lane that is first in turn,
/// the channel that is, and which of them are blocked.
///
/// ```text
///   bit    14 13       12      11 .. 6     5 .. 0
///          blocked   channel    turn 1     turn 0
/// ```
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns(pub(super) u16);

impl Turns {
    const CHANNEL: u32 = 12;
    const BLOCKED: u32 = 13;

    /// The lane that a channel begins with. Round robin uses channel 0's.
    #[inline(always)]
    fn of(self, channel: usize) -> u32 {
        u32::from(self.0) >> (6 * channel) & 63
    }

    /// The channel that is first in turn.
    #[inline(always)]
    fn channel(self) -> usize {
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
    fn with_blocked(self, channels: u16) -> Turns {
        Turns(self.0 & !(3 << Turns::BLOCKED) | channels << Turns::BLOCKED)
    }

    /// When a lane has sent by a channel, which is not blocked then.
    #[inline(always)]
    pub(super) fn after(self, channel: usize, lane: u16, by_channel: bool) -> Turns {
        let (next, open) = ((lane + 1) & 63, self.0 & !(1 << (Turns::BLOCKED + channel as u32)));
        if !by_channel {
            return Turns(open & !63 | next);
        }
        let shift = 6 * channel as u32;
        let others = open & !(63 << shift) & !(1 << Turns::CHANNEL);
        Turns(others | next << shift | ((channel as u16 ^ 1) << Turns::CHANNEL))
    }

    /// The lane that is first in turn, if all can go, and its channel. Meaningless if none wants the port.
    #[inline(always)]
    pub(super) fn first(self, requests: [u64; 2], by_channel: bool) -> (u32, usize) {
        let next = |lanes: u64, turn: u32| (lanes.rotate_right(turn).trailing_zeros() + turn) & 63;
        if by_channel {
            let channel = self.channel() ^ usize::from(requests[self.channel()] == 0);
            return (next(requests[channel], self.of(channel)), channel);
        }
        let lane = next(requests[0] | requests[1], self.of(0));
        (lane, (requests[1] >> lane & 1) as usize)
    }
}

/// A search for the lane whose turn it is.
struct Search {
    now_ps: u64,
    /// When to look again if nobody can go.
    next_ps: u64,
    first_lane: u32,
    /// The lane ahead of channel 0; `NONE`: a NIC, which has room.
    ahead: u32,
    /// The lanes that may be asked, by channel.
    open: [u64; 2],
    /// Room ahead, by channel, once it is known.
    room: [Option<u32>; 2],
    /// Channels without room, a bit each.
    blocked: u16,
}

impl<P: Probe> Network<P> {
    /// As `arbitrate`, in a narrow router.
    #[inline(always)]
    pub(super) fn arbitrate_narrow(&mut self, port: u32, now_ps: u64) {
        let state = &self.ports[port as usize];
        debug_assert!(state.free_ps <= now_ps, "a port is looked at while it sends");
        let turns = Turns(state.turn);
        // Mostly the first in turn can go.
        let (index, channel) = turns.first(state.requests, self.by_channel);
        let restarts = state.free_ps + self.channel_restart_ps > now_ps && turns.last() == channel;
        let lane_id = state.first * u32::from(self.config.vc_count) + index;
        if state.requests != [0; 2] && !restarts {
            let lane = &self.lanes[lane_id as usize];
            let (target, bytes) = (lane.head_target, lane.head_bytes);
            if lane.ready_ps <= now_ps && (target == NONE || self.has_room(target, bytes, now_ps)) {
                self.transmit::<true>(port, lane_id, channel, now_ps);
                return;
            }
        }
        if let Some((lane_id, channel)) = self.search(port, now_ps) {
            self.transmit::<true>(port, lane_id, channel, now_ps);
        }
    }

    /// The lane that sends, and its channel. If none can, sets the next time to look.
    #[inline(never)]
    fn search(&mut self, port: u32, now_ps: u64) -> Option<(u32, usize)> {
        let state = &self.ports[port as usize];
        let turns = Turns(state.turn);
        let vc_count = u32::from(self.config.vc_count);
        let to_nic = state.far >= self.first_nic_port;
        let mut search = Search {
            now_ps,
            next_ps: u64::MAX,
            first_lane: state.first * vc_count,
            ahead: if to_nic { NONE } else { state.far * vc_count },
            open: state.requests,
            room: if to_nic { [Some(u32::MAX); 2] } else { [None; 2] },
            blocked: 0,
        };
        let winner = if self.by_channel {
            let restart_ps = state.free_ps + self.channel_restart_ps;
            let last = turns.last();
            if restart_ps > now_ps && !to_nic && search.open[last] != 0 {
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
            if search.next_ps != u64::MAX {
                self.wake(port, search.next_ps);
            }
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
            let lane = &self.lanes[lane_id as usize];
            if lane.ready_ps > search.now_ps {
                search.next_ps = search.next_ps.min(lane.ready_ps);
                continue;
            }
            let (channel, bytes) = ((search.open[1] >> index & 1) as usize, lane.head_bytes);
            let room = match search.room[channel] {
                Some(room) => room,
                None => match self.room_at(search.ahead + channel as u32, search.now_ps) {
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
            let later_ps = self.wait_for_room(search.ahead + channel as u32, bytes);
            search.next_ps = search.next_ps.min(later_ps);
        }
        None
    }

    /// A port has begun to send and will be free at `free_ps`: when it is to be looked at then.
    #[inline(always)]
    pub(super) fn look_again(&mut self, port: u32, free_ps: u64) {
        let state = &self.ports[port as usize];
        let (requests, turns) = (state.requests, Turns(state.turn));
        if requests == [0; 2] {
            // What nobody wants is not blocked.
            return;
        }
        let to_nic = state.far >= self.first_nic_port;
        let ahead = state.far * u32::from(self.config.vc_count);
        let (mut next_ps, mut blocked) = (u64::MAX, 0);
        for (channel, &lanes) in requests.iter().enumerate() {
            if lanes == 0 {
                continue;
            }
            let later_ps = if to_nic {
                free_ps
            } else {
                match self.room_at(ahead + channel as u32, free_ps) {
                    Ok(_) if turns.last() == channel => free_ps + self.channel_restart_ps,
                    Ok(_) => free_ps,
                    Err(later_ps) => {
                        blocked |= 1 << channel;
                        later_ps
                    }
                }
            };
            next_ps = next_ps.min(later_ps);
        }
        self.ports[port as usize].turn = turns.with_blocked(blocked).0;
        if next_ps != u64::MAX {
            self.wake(port, next_ps);
        }
    }

    /// The room in a lane at a time before which its feeder sends nothing, or, if not even the shortest
    /// packet fits, when to look again.
    #[inline(always)]
    fn room_at(&mut self, lane_id: u32, time_ps: u64) -> Result<u32, u64> {
        let shortest_bytes = self.shortest_bytes;
        if self.has_room(lane_id, shortest_bytes, time_ps) {
            return Ok(self.lanes[lane_id as usize].credit_bytes);
        }
        Err(self.wait_for_room(lane_id, shortest_bytes))
    }
}

#[cfg(test)]
mod tests {
    use ayatori_fabric::graph::LinkSpec;
    use ayatori_fabric::routing::{Method, Routing};
    use ayatori_fabric::topology::{FatTree, HostLayout, Mesh, Ring, Tofu, Topology, Torus, Tree};

    use crate::network::{
        Arbitration, ChannelLoad, Config, Counters, Gap, Message, Network, NicId, NicOrder, Occurrence,
        Switching,
    };
    use crate::random::Random;
    use crate::wheel::Wheel;

    fn topologies() -> Vec<Topology> {
        vec![
            Topology::Ring(Ring { switch_count: 7 }),
            Topology::Torus(Torus::new(&[4, 2, 3])),
            Topology::Torus(Torus::new(&[5, 4])),
            Topology::Tofu(Tofu::new([2, 1, 1])),
            Topology::Mesh(Mesh { extents: vec![4, 3] }),
            Topology::Tree(Tree { arity: 2, switch_count: 7 }),
            Topology::FatTree(FatTree::of_radix(4, 2).unwrap()),
        ]
    }

    /// A network from a seed, and what it is given.
    fn world(seed: u64, latency_ps: u64) -> (Network, Vec<Message>) {
        let mut random = Random::new(seed);
        let topology = &topologies()[random.below(7) as usize];
        let method = Method::usual_for(topology);
        let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps, cable_count: 1 };
        let nic_link = LinkSpec { rate_bits_per_s: link.rate_bits_per_s << random.below(2), ..link };
        let per_switch_count = 1 + random.below(2) as u32;
        let layout = HostLayout { per_switch_count, nic_count: 1, link: nic_link };
        let graph = topology.build_with_hosts(link, layout).unwrap();
        let routing = Routing::new(method, topology, &graph).unwrap();
        let arbitrations = [Arbitration::RoundRobin, Arbitration::ChannelFirst];
        let config = Config {
            vc_count: if routing.vc_count() == 1 { 1 + random.below(2) as u8 } else { 2 },
            vc_buffer_bytes: 2_048 * (1 + random.below(4) as u32),
            arbitration: arbitrations[random.below(2) as usize],
            nic_order: if random.below(2) == 0 { NicOrder::Fifo } else { NicOrder::RoundRobin },
            switching: if random.below(4) == 0 { Switching::StoreAndForward } else { Switching::CutThrough },
            ..Config::nsim()
        };
        let network = Network::new(graph, routing, config).unwrap();
        let nic_count = network.nic_count() as u64;
        let bytes_max = 1 << (4 + random.below(13));
        let message = |token| Message {
            from: NicId(random.below(nic_count) as u32),
            to: NicId(random.below(nic_count) as u32),
            bytes: random.below(bytes_max),
            gap: Gap { milli_packets: (random.below(4) * random.below(1_000)) as u32 },
            flow: random.below(3) as u32,
            token,
            notify_injected: random.below(2) == 0,
        };
        (network, (0..300).map(message).collect())
    }

    type Outcome = (Vec<(u64, Occurrence)>, Vec<ChannelLoad>, Counters);

    /// Half of the messages at once, the others one after another.
    fn run(mut network: Network, messages: &[Message]) -> Outcome {
        let (mut seen, half) = (Vec::new(), messages.len() / 2);
        for (index, &message) in messages.iter().enumerate() {
            if index < half {
                network.send(message);
            } else {
                network.set_timer(index as u64 * 20_000, message.token);
            }
        }
        while let Some(occurrence) = network.advance().unwrap() {
            if let Occurrence::Timer { token } = occurrence {
                network.send(messages[token as usize]);
            }
            seen.push((network.now_ps(), occurrence));
        }
        assert_eq!(network.leftovers(), None);
        let loads = network.channel_loads().collect();
        // Looks in vain are what differs.
        (seen, loads, Counters { event_count: 0, ..network.counters() })
    }

    #[test]
    fn cheap_looks_and_kept_routes_change_nothing() {
        for seed in 0..300 {
            let (narrow, messages) = world(seed, 7_000);
            assert!(narrow.narrow, "seed {seed}");
            let (mut plain, _) = world(seed, 7_000);
            (plain.narrow, plain.routes_every_hop) = (false, true);
            assert!(run(narrow, &messages) == run(plain, &messages), "seed {seed}");
        }
    }

    #[test]
    fn slices_of_any_length_change_nothing() {
        // Links shorter and much longer than packets.
        for (seed, latency_ps) in (0..100).flat_map(|seed| [(seed, 7_000), (seed, 200_000)]) {
            let (mut sliced, messages) = world(seed, latency_ps);
            let (mut sorted, _) = world(seed, latency_ps);
            sorted.wheel = Wheel::new(1, 1_000_000);
            for network in [&mut sliced, &mut sorted] {
                network.narrow = seed % 2 == 0;
            }
            assert!(run(sliced, &messages) == run(sorted, &messages), "seed {seed}, {latency_ps} ps");
        }
    }
}
