//! Several rails as one: figures and faults, in virtual time.

#![allow(clippy::disallowed_macros, reason = "a figure is printed, so that a miss shows by how much")]

use super::net::memory;
use super::wire::{Line, Mood, Wire, tcp};
use crate::Error;
use crate::buffer::Buffer;
use crate::device::RailCapabilities;
use crate::ids::{ProcessId, RequestId, Source, TagSelector};
use crate::link::{Health, Policy, TrunkConfig};
use crate::process::Config;
use crate::request::Posted;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;
use std::println;

const MESSAGE_BYTES: usize = 4 << 20;

/// Messages in both or one direction, `window` under way each, for so long; bytes received by each process a
/// 10 ms.
struct Load {
    window: usize,
    directions: Vec<usize>,
    receives: [VecDeque<RequestId>; 2],
    sends: [VecDeque<RequestId>; 2],
    /// Bytes that have come, and when.
    come: Vec<(Instant, u64)>,
}

impl Load {
    fn new(window: usize, directions: &[usize]) -> Self {
        Self {
            window,
            directions: directions.to_vec(),
            receives: Default::default(),
            sends: Default::default(),
            come: vec![],
        }
    }

    fn pending(posted: Posted, list: &mut VecDeque<RequestId>) {
        match posted {
            Posted::Pending(id) => list.push_back(id),
            Posted::Done(completion) => assert_eq!(completion.error, None),
        }
    }

    fn run(&mut self, wire: &mut Wire, until: Instant) {
        let buffer = Buffer::virtual_of(MESSAGE_BYTES);
        loop {
            for &from in &self.directions {
                let to = 1 - from;
                while self.receives[to].len() < self.window {
                    Self::pending(wire.receive(to, buffer, 1), &mut self.receives[to]);
                }
                while self.sends[from].len() < self.window {
                    Self::pending(wire.send(from, buffer, 1), &mut self.sends[from]);
                }
            }
            let more = wire.step(until);
            for me in 0..2 {
                while let Some(&id) = self.receives[me].front() {
                    let Some(completion) = wire.take(me, id) else { break };
                    assert_eq!(completion.error, None);
                    self.receives[me].pop_front();
                    self.come.push((wire.now(), completion.status.bytes));
                }
                while let Some(&id) = self.sends[me].front() {
                    let Some(completion) = wire.take(me, id) else { break };
                    assert_eq!(completion.error, None);
                    self.sends[me].pop_front();
                }
            }
            if !more {
                break;
            }
        }
    }

    /// Percent of `bytes_per_s` that came between two moments.
    fn percent(&self, from: Instant, to: Instant, bytes_per_s: u64) -> f64 {
        // From the last completion before to the last within: whole messages.
        let start = self.come.iter().map(|come| come.0).filter(|at| *at < from).max().unwrap_or(from);
        let within: Vec<_> = self.come.iter().filter(|come| come.0 > start && come.0 <= to).collect();
        let end = within.last().map_or(to, |come| come.0);
        let bytes: u64 = within.iter().map(|come| come.1).sum();
        bytes as f64 / end.since(start).as_s_f64() / bytes_per_s as f64 * 100.0
    }

    /// The longest time without a message.
    fn longest_stall(&self, from: Instant) -> Duration {
        let mut last = from;
        let mut longest = Duration::ZERO;
        for come in self.come.iter().filter(|come| come.0 > from) {
            longest = longest.max(come.0.since(last));
            last = come.0;
        }
        longest
    }
}

pub(super) fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

pub(super) fn mbit(rates: &[u64]) -> (Vec<Line>, u64) {
    (rates.iter().map(|rate| Line::mbit(*rate)).collect(), rates.iter().sum::<u64>() * 125_000)
}

/// Percent of the sum after a first message, `window` messages under way.
fn bandwidth(rates: &[u64], window: usize, directions: &[usize], policy: Policy) -> f64 {
    let (lines, sum) = mbit(rates);
    let trunk = TrunkConfig { policy, ..TrunkConfig::default() };
    let mut wire = Wire::with(lines, tcp(), Config { trunk, ..Config::default() }, 1);
    let mut load = Load::new(window, directions);
    load.run(&mut wire, ms(1_000));
    let percent = load.percent(ms(200), ms(1_000), sum * directions.len() as u64);
    println!(
        "{rates:?} Mbit/s, {policy:?}, window {window}, {} way(s): {percent:.1} % of the sum",
        directions.len()
    );
    percent
}

#[test]
fn four_equal_rails_give_97_percent_of_their_sum() {
    for window in [1, 8] {
        assert!(
            bandwidth(&[2000; 4], window, &[0], Policy::Adaptive) >= if window == 1 { 90.0 } else { 97.0 }
        );
    }
    assert!(bandwidth(&[2000; 4], 8, &[0], Policy::Even) >= 97.0);
}

#[test]
fn four_equal_rails_both_ways_give_95_percent() {
    assert!(bandwidth(&[2000; 4], 8, &[0, 1], Policy::Adaptive) >= 95.0);
}

#[test]
fn sender_completes_as_soon_as_its_receiver_on_any_rails() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        // Every second packet of this length is acknowledged without a request.
        let rail = RailCapabilities { packet_bytes_max: 62 << 10, ..tcp() };
        let mut wire = Wire::with(mbit(&[2000; 4]).0, rail, Config::default(), seed);
        // No sender can know which piece will be the last on a rail that gets slower and slower.
        for time in 0..40 {
            let rate = 2000 - time * 20 - random.below(20);
            wire.script.push_back((ms(time), random.below(4) as usize, Line::mbit(rate)));
        }
        let buffer = Buffer::virtual_of(MESSAGE_BYTES);
        let (mut load, mut ends) = (Load::new(8, &[0]), [Instant::ZERO; 2]);
        for _ in 0..load.window {
            Load::pending(wire.receive(1, buffer, 1), &mut load.receives[1]);
            Load::pending(wire.send(0, buffer, 1), &mut load.sends[0]);
        }
        while wire.step(ms(2_000)) && ends.contains(&Instant::ZERO) {
            for (me, list) in [(0, &mut load.sends[0]), (1, &mut load.receives[1])] {
                list.retain(|&id| wire.take(me, id).is_none());
                if list.is_empty() && ends[me] == Instant::ZERO {
                    ends[me] = wire.now();
                }
            }
        }
        let later_us = ends[0].since(ends[1]).0 / 1_000_000;
        assert!(ends[0] > Instant::ZERO && later_us < 200, "seed {seed}: {later_us} µs later");
    }
}

#[test]
fn unequal_rails_give_95_percent_by_default_and_40_by_halves() {
    for window in [1, 8] {
        assert!(
            bandwidth(&[2000, 500], window, &[0], Policy::Adaptive) >= if window == 1 { 90.0 } else { 95.0 }
        );
    }
    assert!(bandwidth(&[1000, 300, 100], 8, &[0], Policy::Adaptive) >= 95.0);
    let even = bandwidth(&[2000, 500], 1, &[0], Policy::Even);
    assert!((35.0..45.0).contains(&even));
}

#[test]
fn a_rail_that_changes_its_rate_is_followed_within_a_second() {
    for (before, after) in
        [([2000, 2000], [2000, 500]), ([2000, 500], [2000, 2000]), ([1000, 1000], [100, 1000])]
    {
        let (lines, _) = mbit(&before);
        let (changed, sum) = mbit(&after);
        let mut wire = Wire::new(lines, 1);
        for (rail, line) in changed.into_iter().enumerate() {
            wire.script.push_back((ms(500), rail, line));
        }
        let mut load = Load::new(4, &[0]);
        load.run(&mut wire, ms(2_500));
        let (first, then) = (load.percent(ms(500), ms(1_500), sum), load.percent(ms(1_500), ms(2_500), sum));
        println!(
            "{before:?} to {after:?} Mbit/s: {first:.1} % of the new sum in the first second, then {then:.1} %"
        );
        assert!(then >= 95.0 && first >= 85.0);
    }
}

#[test]
fn a_rail_that_was_very_slow_for_a_while_is_used_again() {
    for slow in [1, 10, 100] {
        let (lines, sum) = mbit(&[2000; 2]);
        let mut wire = Wire::new(lines.clone(), 1);
        wire.script.push_back((ms(300), 1, Line::mbit(slow)));
        wire.script.push_back((ms(10_300), 1, lines[1]));
        let mut load = Load::new(4, &[0]);
        load.run(&mut wire, ms(22_000));
        let then = load.percent(ms(21_000), ms(22_000), sum);
        println!("{slow} Mbit/s for ten seconds: {then:.1} % of the sum eleven seconds later");
        assert!(then >= 97.0);
    }
}

/// As long as a process that has no CPU takes: the others are done before the first byte would have come.
#[test]
fn a_rail_whose_round_trips_were_long_for_a_while_is_used_again() {
    for (late_ms, mbit_per_s, window) in [(50, 2000, 1), (50, 20_000, 2), (50, 20_000, 4), (400, 2000, 1)] {
        let (lines, sum) = mbit(&[mbit_per_s; 2]);
        // Without a late rail the first second is as good as any.
        let [before, then] = [(0, 0), (late_ms, 6_000)].map(|(late_ms, from_ms)| {
            let mut wire = Wire::new(lines.clone(), 1);
            let late = Line { latency: lines[1].latency + Duration::from_ms(late_ms), ..lines[1] };
            wire.script.push_back((ms(0), 1, late));
            wire.script.push_back((ms(1_000), 1, lines[1]));
            let mut load = Load::new(window, &[0]);
            load.run(&mut wire, ms(from_ms + 2_000));
            load.percent(ms(from_ms + 1_000), ms(from_ms + 2_000), sum)
        });
        println!("{late_ms} ms late, {mbit_per_s} Mbit/s, window {window}: {then:.1} %, else {before:.1} %");
        assert!(then >= before - 3.0);
    }
}

#[test]
fn a_rail_that_stays_very_slow_is_tried_for_little() {
    for slow in [10, 100] {
        let (lines, sum) = mbit(&[2000, slow]);
        for window in [1, 4] {
            let mut wire = Wire::new(lines.clone(), 1);
            let mut load = Load::new(window, &[0]);
            load.run(&mut wire, ms(22_000));
            let percent = load.percent(ms(2_000), ms(22_000), sum);
            println!("{slow} Mbit/s of 2000, window of {window}: {percent:.1} % of the sum");
            assert!(percent >= 95.0);
        }
    }
}

#[test]
fn a_rail_that_carries_much_less_than_it_says_is_told_of() {
    let (lines, _) = mbit(&[2000, 2000, 1500]);
    let mut wire = Wire::new(lines.clone(), 1);
    let mut load = Load::new(2, &[0]);
    load.run(&mut wire, ms(300));
    assert_eq!(wire.nodes[0].0.explain().slow_rails.count, 0, "none has half of what another has");
    wire.script.push_back((ms(300), 1, Line::mbit(20)));
    load.run(&mut wire, ms(3_000));
    let slow = wire.nodes[0].0.explain().slow_rails;
    let [told] = slow.first[..] else { panic!("{slow:?}") };
    assert_eq!((told.peer, told.rail, slow.count), (ProcessId(1), 1, 1));
    assert!(told.bytes_per_s.abs_diff(20 * 125_000) < 20 * 125_000 / 5, "{told:?}");
    assert!(told.best != 1 && told.best_bytes_per_s > 400 * 125_000, "{told:?}");
    let [[slow, _]] = wire.nodes[0].0.messages.links.iter().next().unwrap().slow_rails()[..] else {
        panic!()
    };
    assert_eq!(told.round_trip_ns, slow.round_trip.0 / 1_000);
    assert_eq!(wire.nodes[1].0.explain().slow_rails.count, 0, "it sends no data");
    wire.script.push_back((ms(3_000), 1, lines[1]));
    load.run(&mut wire, ms(14_000));
    assert_eq!(wire.nodes[0].0.explain().slow_rails.count, 0, "it has recovered");
}

#[test]
fn cut_rail_is_left_at_once_and_reused_within_five_seconds() {
    for mood in [Mood::Cut, Mood::Silent] {
        let (lines, sum) = mbit(&[2000; 4]);
        let mut wire = Wire::new(lines.clone(), 1);
        wire.script.push_back((ms(300), 2, Line { mood, ..lines[2] }));
        wire.script.push_back((ms(3_000), 2, lines[2]));
        let mut load = Load::new(4, &[0]);
        load.run(&mut wire, ms(9_000));
        let stall = load.longest_stall(ms(100));
        let three = load.percent(ms(1_500), ms(3_000), sum);
        let back = load.percent(ms(8_000), ms(9_000), sum);
        let used_at =
            load.come.iter().map(|come| come.0).find(|at| {
                *at > ms(3_000) && { load.percent(*at, *at + Duration::from_ms(200), sum) > 90.0 }
            });
        let used_at = used_at.expect("back to the sum");
        println!(
            "{mood:?}: longest stall {:.0} ms; three rails {three:.1} % of four; used again after {:.0} ms; then {back:.1} %",
            stall.as_s_f64() * 1e3,
            used_at.since(ms(3_000)).as_s_f64() * 1e3,
        );
        assert!(stall <= Duration::from_s(1) && used_at.since(ms(3_000)) <= Duration::from_s(5));
        assert!(three >= 72.0 && back >= 97.0);
    }
}

/// Real data with checks: `count` messages of mixed lengths both ways while the script runs.
pub(super) fn exchange(wire: &mut Wire, random: &mut Random, count: usize, limit: Instant, what: &str) {
    let mut open = Vec::new();
    for tag in 0..count as i32 {
        for from in 0..2 {
            let len = match random.below(4) {
                0 => random.below(100),
                1 => random.below(16 << 10),
                _ => random.below(700 << 10),
            } as usize;
            let first = random.next_u64();
            let data: Vec<u8> = (0..len as u64).map(|i| (first ^ i.wrapping_mul(i)) as u8).collect();
            let (room, bytes) = memory(vec![0; len]);
            let received = wire.receive(1 - from, room, tag);
            let (sent, data) = memory(data);
            let sent = wire.send(from, sent, tag);
            open.push((from, sent, received, data, bytes));
        }
        wire.run_until(wire.now() + Duration(random.below(20_000_000_000)));
    }
    loop {
        let done = |posted: &Posted, at: usize, wire: &mut Wire| match posted {
            Posted::Pending(id) => wire.nodes[at].0.is_complete(*id),
            Posted::Done(_) => true,
        };
        if open.iter().all(|(from, s, r, ..)| done(s, *from, wire) && done(r, 1 - *from, wire)) {
            break;
        }
        assert!(wire.step(limit), "{what}: messages hang at {:?}", wire.now());
    }
    for (from, sent, received, data, bytes) in open {
        for (posted, at) in [(sent, from), (received, 1 - from)] {
            if let Posted::Pending(id) = posted {
                assert_eq!(wire.take(at, id).unwrap().error, None, "{what}");
            }
        }
        assert_eq!(data, bytes, "{what}: wrong bytes");
    }
}

fn random_line(random: &mut Random, base: Line) -> Line {
    let mood = match random.below(5) {
        0 | 1 => Mood::Works,
        2 | 3 => Mood::Cut,
        _ => Mood::Silent,
    };
    let damage_one_in = [0, 0, 3, 20][random.below(4) as usize];
    Line { mood, damage_one_in, bytes_per_s: base.bytes_per_s / (1 + random.below(4)), ..base }
}

#[test]
fn random_cuts_and_returns_lose_no_byte_and_hang_nothing() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let count = 2 + random.below(3) as usize;
        let lines: Vec<Line> = (0..count).map(|_| Line::mbit(100 + random.below(2_000))).collect();
        let mut rail = tcp();
        if random.one_in(3) {
            rail.put = true;
        }
        (rail.ordered, rail.packet_bytes_max) =
            (!random.one_in(4), [1_500, 9_000, 66_000][random.below(3) as usize]);
        let mut wire = Wire::with(lines.clone(), rail, Config::default(), seed);
        let mut at = ms(1);
        for _ in 0..30 {
            at += Duration(random.below(60_000_000_000));
            let rail = random.below(count as u64) as usize;
            let line = random_line(&mut random, lines[rail]);
            wire.script.push_back((at, rail, line));
        }
        for (rail, line) in lines.iter().enumerate() {
            wire.script.push_back((at + Duration::from_ms(300), rail, *line));
        }
        exchange(&mut wire, &mut random, 30, ms(30_000), &std::format!("seed {seed}"));
        // Healed: everything is acknowledged and all rails are back.
        wire.run_until(wire.now().max(at) + Duration::from_s(6));
        for me in 0..2 {
            let (process, _) = &wire.nodes[me];
            assert!(process.is_quiet(), "seed {seed}");
            let health = process.rail_health(ProcessId(1 - me as u32));
            assert!(health.iter().all(|rail| rail.1 == Health::Up), "seed {seed}: {health:?}");
        }
        assert_eq!(wire.registered_count(), 0, "seed {seed}");
    }
}

#[test]
fn damage_is_found_and_fetched_again() {
    let (mut lines, _) = mbit(&[1000, 1000]);
    lines.iter_mut().for_each(|line| line.damage_one_in = 5);
    let mut wire = Wire::new(lines, 7);
    exchange(&mut wire, &mut Random::new(7), 40, ms(20_000), "damage");
}

#[test]
fn without_any_rail_every_operation_fails_in_bounded_time() {
    for mood in [Mood::Cut, Mood::Silent] {
        let (lines, _) = mbit(&[1000, 1000]);
        let trunk = TrunkConfig { peer_timeout: Duration::from_s(2), ..TrunkConfig::default() };
        let mut wire = Wire::with(lines.clone(), tcp(), Config { trunk, ..Config::default() }, 1);
        let buffer = Buffer::virtual_of(1 << 20);
        let waiting = wire.receive(1, buffer, 9);
        let early = wire.send(0, Buffer::virtual_of(8), 1);
        assert!(matches!(early, Posted::Done(_)));
        wire.run_until(ms(10));
        for (rail, line) in lines.iter().enumerate() {
            wire.set_line(rail, Line { mood, ..*line });
        }
        let mut open: Vec<(usize, RequestId)> = Vec::new();
        for (at, posted) in [
            (1, waiting),
            (0, wire.send(0, buffer, 2)),
            (1, wire.send(1, buffer, 2)),
            (0, wire.receive(0, buffer, 3)),
        ] {
            let Posted::Pending(id) = posted else { panic!() };
            open.push((at, id));
        }
        let limit = ms(10 + 2_000 + 1_500);
        wire.run_until(limit);
        for (at, id) in open {
            let error = wire.take(at, id).expect("ended in time").error;
            assert_eq!(error, Some(Error::Unreachable(ProcessId(1 - at as u32))), "{mood:?}");
        }
        let (process, port) = &mut wire.nodes[0];
        let late =
            process.isend(port, crate::ids::CommId::WORLD, buffer, 1, 0, crate::request::SendMode::Standard);
        assert_eq!(late.map(|_| ()), Err(Error::Unreachable(ProcessId(1))));
        let from_any = process.irecv(port, crate::ids::CommId::WORLD, buffer, Source::Any, TagSelector::Any);
        assert_eq!(from_any.map(|_| ()), Err(Error::Unreachable(ProcessId(1))));
    }
}

#[test]
fn a_peer_that_computes_is_not_taken_for_a_silent_rail() {
    let (lines, _) = mbit(&[1000, 1000]);
    let mut wire = Wire::new(lines, 1);
    let buffer = Buffer::virtual_of(8 << 20);
    let (sent, received) = (wire.send(0, buffer, 1), wire.receive(1, buffer, 1));
    wire.run_until(ms(5));
    wire.away_until[1] = ms(3_000);
    wire.run_until(ms(2_990));
    assert!(wire.nodes[0].0.rail_health(ProcessId(1)).iter().all(|rail| rail.1 == Health::Up));
    assert!(wire.shared.borrow().resets.is_empty());
    // Both were away, and come back at the same time.
    wire.away_until[0] = ms(3_500);
    wire.run_until(ms(3_800));
    let (Posted::Pending(sent), Posted::Pending(received)) = (sent, received) else { panic!() };
    assert_eq!(wire.take(0, sent).unwrap().error, None);
    assert_eq!(wire.take(1, received).unwrap().error, None);
    assert!(wire.shared.borrow().resets.is_empty());
}

#[test]
fn an_idle_link_wants_nothing() {
    let (lines, _) = mbit(&[1000, 1000]);
    let mut wire = Wire::new(lines, 1);
    exchange(&mut wire, &mut Random::new(3), 3, ms(5_000), "idle");
    wire.run_until(wire.now() + Duration::from_s(1));
    for (process, _) in &wire.nodes {
        assert!(process.wants_time() && process.is_quiet());
        assert_eq!(process.poll_timeout(), None);
    }
    let carried: u64 = wire.shared.borrow().carried.iter().sum();
    wire.run_until(wire.now() + Duration::from_s(10));
    assert_eq!(wire.shared.borrow().carried.iter().sum::<u64>(), carried, "nothing is sent for nothing");
}

#[test]
fn sender_waiting_for_room_sleeps_until_there_is_some() {
    let (lines, _) = mbit(&[1000]);
    let mut wire = Wire::new(lines, 1);
    let buffer = Buffer::virtual_of(4 << 20);
    let (_, received) = (wire.send(0, buffer, 1), wire.receive(1, buffer, 1));
    wire.run_until(ms(5));
    // Full, and no word of why: acknowledgements are owed and cannot go.
    wire.shared.borrow_mut().lines[0].mood = Mood::Cut;
    let mut stuck_count = 0;
    for millisecond in 6..100 {
        wire.run_until(ms(millisecond));
        for (process, _) in &wire.nodes {
            stuck_count += u32::from(process.wants_transmit());
            assert!(process.poll_timeout().is_none_or(|at| at > wire.now()), "it would not sleep");
        }
    }
    assert!(stuck_count > 80, "something was to be sent ({stuck_count})");
    wire.shared.borrow_mut().lines[0].mood = Mood::Works;
    wire.run_until(ms(1_000));
    let Posted::Pending(received) = received else { panic!() };
    assert_eq!(wire.take(1, received).unwrap().error, None);
}

#[test]
fn rails_that_only_read_carry_parts_of_each_message() {
    let (lines, sum) = mbit(&[2000; 3]);
    let rail = RailCapabilities { get: true, may_break: false, ..tcp() };
    let mut wire = Wire::with(lines, rail, Config::default(), 1);
    let mut load = Load::new(4, &[0]);
    load.run(&mut wire, ms(1_000));
    let percent = load.percent(ms(200), ms(1_000), sum);
    println!("gets: {percent:.1} % of the sum");
    assert!(percent >= 97.0, "{percent}");
    // A receiver that gets is ahead of its sender: what is left of the load would match its next messages.
    let mut wire = Wire::with(mbit(&[2000; 3]).0, rail, Config::default(), 2);
    exchange(&mut wire, &mut Random::new(5), 10, ms(20_000), "gets");
}

#[test]
fn rails_that_register_carry_puts() {
    let rail = RailCapabilities { put: true, may_break: false, ..tcp() };
    for policy in [Policy::Even, Policy::Weighted, Policy::Adaptive] {
        let (lines, sum) = mbit(&[2000, 2000, 500]);
        let trunk = TrunkConfig { policy, ..TrunkConfig::default() };
        let mut wire = Wire::with(lines, rail, Config { trunk, ..Config::default() }, 1);
        let mut load = Load::new(4, &[0]);
        load.run(&mut wire, ms(1_000));
        let percent = load.percent(ms(200), ms(1_000), sum);
        println!("puts, {policy:?}: {percent:.1} % of the sum");
        assert!(percent >= if policy == Policy::Adaptive { 93.0 } else { 30.0 });
        exchange(&mut wire, &mut Random::new(5), 10, ms(20_000), "puts");
    }
}
