//! Choice of the rail for the next piece of data: pure functions of the rails' state, in words, too.
//!
//! *Even* gives every rail the same share of each message (P1, §3), *weighted* a share by the bandwidth that
//! the device states: both are fixed when the message begins, so the slowest rail decides. *Adaptive*, the
//! default, gives each piece to the rail that will have delivered it first, by measured rates; and a slow
//! rail gets no more data if the others would finish all the rest before it had delivered one more piece. So
//! all rails end together.

use super::rail::RailState;
use super::trunk::unit_bytes;
use super::{Part, Run};
use crate::device::RailCapabilities;
use crate::ids::{ProcessId, Rail};
use crate::time::Duration;
use crate::wire::trunk::FRAGMENT_HEADER_BYTES;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// How data is spread over rails.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Policy {
    /// Equal shares.
    Even,
    /// Shares by the bandwidth the device says.
    Weighted,
    /// By measured completion.
    #[default]
    Adaptive,
}

/// Maximum time that one packet of data may keep a rail busy: other packets of the rail wait that long.
const PACKET_TIME: Duration = Duration::from_us(400);
/// Packets that should still follow on each of several rails: packets become shorter towards the end, and all
/// rails end together.
const PACKETS_TO_FOLLOW: u64 = 4;
/// Minimum number of packets in a rail's window.
const PACKETS_A_WINDOW: u64 = 4;

/// State of a rail, as striping sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Which.
    pub(super) rail: Rail,
    /// Whether it works.
    pub(super) up: bool,
    /// The rate that the device states, in bytes a second.
    pub(super) said_bytes_per_s: u64,
    /// The measured rate, in bytes a second.
    pub(super) bytes_per_s: u64,
    /// One way, empty.
    pub(super) latency: Duration,
    /// Sent and not acknowledged.
    pub(super) outstanding_bytes: u64,
    /// Maximum outstanding bytes.
    pub(super) window_bytes: u64,
}

impl View {
    /// Time until `bytes` more have been delivered, in picoseconds.
    fn finish_ps(&self, bytes: u64) -> u128 {
        finish_ps(self.latency, self.outstanding_bytes + bytes, self.bytes_per_s)
    }

    /// Maximum bytes in flight with pieces of `bytes`. At the end of the data it is half a window, because
    /// data in flight on one rail cannot move to another that finishes earlier.
    fn limit_bytes(&self, bytes: u64, is_end: bool) -> u64 {
        let two_pieces = self.window_bytes.min(2 * (bytes + FRAGMENT_HEADER_BYTES as u64));
        if is_end { (self.window_bytes / 2).max(two_pieces) } else { self.window_bytes }
    }

    fn has_room(&self, bytes: u64, is_end: bool) -> bool {
        self.outstanding_bytes == 0 || self.outstanding_bytes + bytes <= self.limit_bytes(bytes, is_end)
    }
}

/// Time until a rail has delivered all that it is given, in picoseconds. Computed for every rail and each
/// short message, so it divides with 64 bits where they suffice and not with 128.
#[inline]
pub(super) fn finish_ps(latency: Duration, queue_bytes: u64, bytes_per_s: u64) -> u128 {
    const PS_PER_S: u64 = 1_000_000_000_000;
    let rate = bytes_per_s.max(1);
    let queue_ps = match queue_bytes.checked_mul(PS_PER_S) {
        Some(product) => (product / rate).into(),
        None => u128::from(queue_bytes) * u128::from(PS_PER_S) / u128::from(rate),
    };
    u128::from(latency.0) + queue_ps
}

/// The rails that work.
fn up(views: &[View]) -> impl Iterator<Item = &View> + Clone {
    views.iter().filter(|view| view.up)
}

/// The rail for the next piece of `piece_bytes`, when `rest_bytes` (with the piece) are still to go. No rail
/// has more than `bytes_max` under way then. `None`: wait until something is acknowledged.
pub(super) fn choose(views: &[View], piece_bytes: u64, rest_bytes: u64, bytes_max: u64) -> Option<Rail> {
    let first = up(views).min_by_key(|view| view.finish_ps(piece_bytes))?;
    let worth = |view: &&View| {
        view.rail == first.rail || view.finish_ps(piece_bytes) <= finish_without(views, view.rail, rest_bytes)
    };
    let is_end = is_end(views, rest_bytes);
    let is_below = |view: &&View| view.outstanding_bytes.saturating_add(piece_bytes) <= bytes_max;
    let usable = up(views).filter(is_below).filter(|view| view.has_room(piece_bytes, is_end)).filter(worth);
    usable.min_by_key(|view| view.finish_ps(piece_bytes)).map(|view| view.rail)
}

/// Whether several rails have so little left that each should keep some of it for the others.
fn is_end(views: &[View], rest_bytes: u64) -> bool {
    let windows_bytes = up(views).fold(0u64, |sum, view| sum.saturating_add(view.window_bytes));
    up(views).count() > 1 && rest_bytes < windows_bytes
}

/// Whether the acknowledgement of a piece that a rail takes now is needed, when `rest_bytes` are left then:
/// there is no room for a further unit until something is acknowledged; or half of the room is used, so
/// that the answer comes, and the rate is seen, while the other half is on its way.
pub(super) fn fills(views: &[View], rail: Rail, piece_bytes: u64, unit_bytes: u64, rest_bytes: u64) -> bool {
    let Some(view) = views.iter().find(|view| view.rail == rail) else { return false };
    let outstanding_bytes = view.outstanding_bytes + piece_bytes + FRAGMENT_HEADER_BYTES as u64;
    let is_end = is_end(views, rest_bytes);
    let half_bytes = view.limit_bytes(unit_bytes, is_end) / 2;
    (view.outstanding_bytes < half_bytes && outstanding_bytes >= half_bytes)
        || !View { outstanding_bytes, ..*view }.has_room(unit_bytes, is_end)
}

/// How many units the next packet to a rail carries, when `rest_bytes` (with the packet) are still to go:
/// one, and more while much is left. `rooms_units`: units that packets of the rail hold, and those of its
/// long ones, which are for rails on which they do not take long.
pub(super) fn packet_units(
    views: &[View],
    rail: Rail,
    unit_bytes: u64,
    rooms_units: [u64; 2],
    rest_bytes: u64,
) -> u64 {
    let Some(view) = views.iter().find(|view| view.rail == rail) else { return 1 };
    let in_time = u128::from(view.bytes_per_s) * u128::from(PACKET_TIME.0) / 1_000_000_000_000;
    let [room, long_room] = rooms_units.map(|units| units.saturating_mul(unit_bytes));
    let most = room.max(long_room.min(u64::try_from(in_time).unwrap_or(u64::MAX)));
    // Several fill a window: the next is given to the rail before the first is acknowledged.
    let window =
        (view.window_bytes / PACKETS_A_WINDOW).min(view.window_bytes.saturating_sub(view.outstanding_bytes));
    let part = match up(views).count() as u64 {
        ..=1 => rest_bytes,
        up_count => rest_bytes / (PACKETS_TO_FOLLOW * up_count),
    };
    let bytes = most.min(window).min(part);
    (bytes / unit_bytes.max(1)).max(1)
}

/// Whether a rail that takes a piece now gets none any more of the `rest_bytes` that are left then: the
/// others will be done with them before it had delivered one more.
pub(super) fn is_last(views: &[View], rail: Rail, piece_bytes: u64, rest_bytes: u64) -> bool {
    let view = views.iter().find(|view| view.rail == rail);
    rest_bytes == 0
        || view.is_some_and(|view| view.finish_ps(2 * piece_bytes) > finish_without(views, rail, rest_bytes))
}

/// Time until all rails but one have finished their data and all the rest, in picoseconds.
fn finish_without(views: &[View], without: Rail, rest_bytes: u64) -> u128 {
    let (mut queue, mut rate, mut latency) = (u128::from(rest_bytes), 0u128, u64::MAX);
    for view in up(views).filter(|view| view.rail != without) {
        queue += u128::from(view.outstanding_bytes);
        rate += u128::from(view.bytes_per_s);
        latency = latency.min(view.latency.0);
    }
    (queue * 1_000_000_000_000).checked_div(rate).map_or(u128::MAX, |ps| u128::from(latency) + ps)
}

/// Each rail's part of a message of `units`, in order: where the rail begins. Under *adaptive* all are equal,
/// independent of measurements. So a rail accesses the same memory with each message of a buffer, and a
/// program can place each part near its rail; the amount that the rail really carries is decided piece by
/// piece.
pub(super) fn shares(policy: Policy, views: &[View], units: u32) -> Vec<Part> {
    let weight = |view: &View| match policy {
        Policy::Weighted => view.said_bytes_per_s.max(1),
        Policy::Even | Policy::Adaptive => 1,
    };
    let sum: u128 = up(views).map(|view| u128::from(weight(view))).sum();
    let (mut upto, mut first) = (0u128, 0u32);
    let share = |view: &View| {
        upto += u128::from(weight(view));
        let end = (u128::from(units) * upto).div_ceil(sum) as u32;
        let rest = Run { first, count: end - first };
        first = end;
        Part { rail: view.rail, rest }
    };
    up(views).map(share).collect()
}

/// How a message would be spread over these rails to one peer, as long as nothing is measured, in words.
pub(crate) fn explain(rails: &[RailCapabilities], policy: Policy, total_bytes: u64) -> String {
    let unit_bytes = unit_bytes(rails.iter().map(|rail| rail.packet_bytes_max).min());
    let view = |rail| RailState::new(Rail(0), ProcessId(0), rail).view(unit_bytes.into());
    let (how, weight): (_, fn(&View) -> u64) = match policy {
        Policy::Even => ("equal shares", |_| 1),
        Policy::Weighted => ("shares by the bandwidth each rail says", |view| view.said_bytes_per_s),
        Policy::Adaptive => {
            ("each piece by the rail that delivers it first, as measured", |view| view.bytes_per_s)
        }
    };
    let mut text = format!("{total_bytes} B over {} rails, {how}:", rails.len());
    let sum: u64 = rails.iter().map(|rail| weight(&view(rail))).sum();
    for rail in rails {
        let view = view(rail);
        text += &format!(
            " {} {} % ({} MB/s measured, {} MB/s said, {} µs, at most {} KiB under way);",
            rail.name,
            100 * weight(&view) / sum.max(1),
            view.bytes_per_s / 1_000_000,
            view.said_bytes_per_s / 1_000_000,
            view.latency.0 / 1_000_000,
            view.window_bytes >> 10,
        );
    }
    text.pop();
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use alloc::vec;

    pub(in super::super) fn view(rail: u8, mbit_per_s: u64) -> View {
        View {
            rail: Rail(rail),
            up: true,
            said_bytes_per_s: 125_000 * mbit_per_s,
            bytes_per_s: 125_000 * mbit_per_s,
            latency: Duration::from_us(30),
            outstanding_bytes: 0,
            window_bytes: u64::MAX,
        }
    }

    fn choose(views: &[View], piece_bytes: u64, rest_bytes: u64) -> Option<Rail> {
        super::choose(views, piece_bytes, rest_bytes, u64::MAX)
    }

    #[test]
    fn a_rail_that_is_not_there_takes_a_unit_at_a_time() {
        let views = [view(0, 1_000)];
        assert_eq!(packet_units(&views, Rail(0), 1_000, [8, 8], 1 << 30), 8);
        assert_eq!(packet_units(&views, Rail(1), 1_000, [8, 8], 1 << 30), 1);
        let views = [View { window_bytes: 1_000, ..view(0, 1_000) }];
        assert!(fills(&views, Rail(0), 1_000, 1_000, 1 << 30));
        assert!(!fills(&views, Rail(1), 1_000, 1_000, 1 << 30));
    }

    #[test]
    fn near_the_end_half_a_window_or_two_pieces_are_under_way() {
        let limit =
            |window_bytes, piece, is_end| View { window_bytes, ..view(0, 1) }.limit_bytes(piece, is_end);
        let header = FRAGMENT_HEADER_BYTES as u64;
        assert_eq!(limit(100_000, 1_000, true), 50_000);
        assert_eq!(limit(100_000, 40_000, true), 80_000 + 2 * header);
        assert_eq!(limit(100_000, 60_000, true), 100_000);
        assert_eq!(limit(100_000, 40_000, false), 100_000);
        let windows = [1_000, 2_000].map(|window_bytes| View { window_bytes, ..view(0, 1) });
        assert!(is_end(&windows, 2_999) && !is_end(&windows, 3_000) && !is_end(&windows[..1], 1));
    }

    /// Bytes by rail when a message of `pieces` is given out at once, and the time until the last has come
    /// over the time that all rails together would need, in percent.
    fn spread(views: &mut [View], pieces: u64) -> (Vec<u64>, u64) {
        let piece = 64 << 10;
        for left in (1..=pieces).rev() {
            let rail = choose(views, piece, left * piece).expect("no window in the way");
            let view = views.iter_mut().find(|view| view.rail == rail).unwrap();
            view.outstanding_bytes += piece;
        }
        let last = views.iter().map(|view| view.finish_ps(0)).max().unwrap();
        let rate: u64 = views.iter().map(|view| view.bytes_per_s).sum();
        let ideal = u128::from(pieces * piece) * 1_000_000_000_000 / u128::from(rate);
        (views.iter().map(|view| view.outstanding_bytes).collect(), (last * 100 / ideal) as u64)
    }

    #[test]
    fn unequal_rails_end_together() {
        for pieces in [16, 64, 256] {
            let (_, percent) = spread(&mut [view(0, 2000), view(1, 500)], pieces);
            assert!(percent <= 100 + 250 / pieces, "{percent} % for {pieces} pieces");
        }
        let (bytes, _) = spread(&mut [view(0, 2000), view(1, 500)], 250);
        assert!((45..=55).contains(&(bytes[1] * 250 / (bytes[0] + bytes[1]))), "{bytes:?}");
    }

    #[test]
    fn a_rail_that_would_prolong_the_message_gets_nothing() {
        let (bytes, _) = spread(&mut [view(0, 10_000), view(1, 10)], 64);
        assert_eq!(bytes[1], 0);
    }

    #[test]
    fn a_division_of_64_bits_says_what_one_of_128_says() {
        for rate in [0, 1, 999, 62_500_000, 250_000_000, u64::MAX] {
            for queue in
                [0, 1, 72, (1 << 20) + 1, u64::MAX / 1_000_000_000_000, 18_446_745, 1 << 40, u64::MAX]
            {
                let long = u128::from(queue) * 1_000_000_000_000 / u128::from(rate.max(1));
                assert_eq!(finish_ps(Duration(7), queue, rate), 7 + long, "{queue} bytes at {rate} bytes/s");
            }
        }
    }

    #[test]
    fn at_the_end_half_a_window_is_filled() {
        // The second rail has no room.
        let mut views = [view(0, 2000), view(1, 2000)];
        (views[1].window_bytes, views[1].outstanding_bytes) = (64 << 10, 64 << 10);
        (views[0].window_bytes, views[0].outstanding_bytes) = (2 << 20, (1 << 20) - (64 << 10));
        assert_eq!(choose(&views, 64 << 10, 64 << 20), Some(Rail(0)));
        assert_eq!(choose(&views, 64 << 10, 1 << 20), Some(Rail(0)));
        views[0].outstanding_bytes = 1 << 20;
        assert_eq!(choose(&views, 64 << 10, 64 << 20), Some(Rail(0)));
        assert_eq!(choose(&views, 64 << 10, 1 << 20), None);
        assert_eq!(choose(&views[..1], 64 << 10, 1 << 20), Some(Rail(0)), "no other is kept anything for");
        // But two pieces always, one behind the other.
        (views[0].window_bytes, views[0].outstanding_bytes) = (2 * ((64 << 10) + 32), 64 << 10);
        assert_eq!(choose(&views, 64 << 10, 1 << 20), Some(Rail(0)));
    }

    #[test]
    fn a_rail_is_asked_when_it_is_half_full_and_when_it_is_full() {
        let unit = 64 << 10;
        for mut views in [vec![view(0, 2000)], vec![view(0, 2000), view(1, 2000)]] {
            views.iter_mut().for_each(|view| view.window_bytes = 600_000);
            let (mut sent, mut asked) = ([0u32; 2], [Vec::new(), Vec::new()]);
            for left in (1..=40u64).rev() {
                let Some(rail) = choose(&views, unit, left * unit) else { break };
                let at = rail.0 as usize;
                sent[at] += 1;
                if fills(&views, rail, unit, unit, (left - 1) * unit) {
                    asked[at].push(sent[at]);
                }
                views[at].outstanding_bytes += unit + FRAGMENT_HEADER_BYTES as u64;
            }
            // Nine units of 64 KiB have room.
            assert!(asked[..views.len()].iter().all(|asked| asked == &[5, 9]), "{asked:?}");
        }
    }

    #[test]
    fn long_packets_go_by_fast_rails_while_much_is_left() {
        let unit = 64 << 10;
        let fast = [view(0, 40_000)];
        let units = |views: &[View], rest: u64| packet_units(views, Rail(0), unit, [1, 8], rest * unit);
        assert_eq!([1, 3, 8, 9, 1000].map(|rest| units(&fast, rest)), [1, 3, 8, 8, 8]);
        assert_eq!(units(&[view(0, 6_000)], 1000), 4, "400 µs");
        assert_eq!(units(&[view(0, 1000)], 1000), 1, "two would take a millisecond");
        let two = [view(0, 40_000), view(1, 40_000)];
        assert_eq!([1, 16, 31, 63, 64].map(|rest| units(&two, rest)), [1, 2, 3, 7, 8], "both end together");
        let mut full = fast;
        (full[0].window_bytes, full[0].outstanding_bytes) = (20 * unit, 17 * unit);
        assert_eq!(units(&full, 1000), 3, "what may be under way is a bound");
        full[0].outstanding_bytes = 0;
        assert_eq!(units(&full, 1000), 5, "several are to be under way at once");
        assert_eq!(
            packet_units(&[view(0, 10)], Rail(0), unit, [4, 4], 1000 * unit),
            4,
            "what every packet holds"
        );
    }

    #[test]
    fn the_last_piece_of_each_rail_is_known_when_it_is_given() {
        let piece = 64 << 10;
        for mut views in [[view(0, 2000), view(1, 2000)], [view(0, 2000), view(1, 500)]] {
            let mut said_last = [0u64; 2];
            let mut last = [false; 2];
            for left in (1..=200u64).rev() {
                let rail = choose(&views, piece, left * piece).expect("no window in the way");
                last[rail.0 as usize] = is_last(&views, rail, piece, (left - 1) * piece);
                said_last[rail.0 as usize] += u64::from(last[rail.0 as usize]);
                views[rail.0 as usize].outstanding_bytes += piece;
            }
            assert_eq!(last, [true; 2]);
            assert!(said_last.iter().all(|&count| count <= 2), "{said_last:?}");
        }
    }

    #[test]
    fn sender_waits_for_a_full_window_only_if_others_are_slower() {
        let mut views = [view(0, 2000), view(1, 500)];
        (views[0].outstanding_bytes, views[0].window_bytes) = (1 << 20, 1 << 20);
        assert_eq!(choose(&views, 64 << 10, 64 << 20), Some(Rail(1)));
        views[1].outstanding_bytes = 1 << 20;
        assert_eq!(choose(&views, 64 << 10, 64 << 10), None);
        views[0].up = false;
        views[1].window_bytes = 1 << 20;
        assert_eq!(choose(&views, 64 << 10, 64 << 10), None);
        views[1].outstanding_bytes = 0;
        views[1].window_bytes = 0;
        assert_eq!(choose(&views, 64 << 10, 64 << 10), Some(Rail(1)), "an idle rail always takes one piece");
    }

    #[test]
    fn shares_are_even_or_by_weight_and_cover_the_message() {
        let views = [view(0, 2000), view(1, 500), view(2, 500)];
        let silent = [0, 1].map(|rail| View { said_bytes_per_s: 0, ..view(rail, 1_000) });
        for (policy, views, units, want) in [
            (Policy::Even, &views[..2], 1_000, &[500, 500][..]),
            (Policy::Adaptive, &views[..2], 1_000, &[500, 500]),
            (Policy::Weighted, &views[..2], 1_000, &[800, 200]),
            (Policy::Weighted, &silent, 10, &[5, 5]),
            (Policy::Even, &views, 7, &[3, 2, 2]),
            (Policy::Even, &[], 7, &[]),
        ] {
            let mut first = 0;
            let part = |(rail, &count): (usize, &u32)| {
                let rest = Run { first, count };
                first += count;
                Part { rail: Rail(rail as u8), rest }
            };
            let parts: Vec<Part> = want.iter().enumerate().map(part).collect();
            assert_eq!(shares(policy, views, units), parts, "{policy:?}");
        }
    }

    #[test]
    fn the_explanation_names_rails_their_shares_and_figures() {
        let rails = [("eth0", 100), ("eth1", 2000), ("eth2", 0)].map(|(name, mbit_per_s)| RailCapabilities {
            name,
            bandwidth_bytes_per_s: 125_000 * mbit_per_s,
            latency_ps: 30_000_000,
            ..RailCapabilities::default()
        });
        for (policy, how, [first, second], [alone, silent]) in [
            (Policy::Even, "equal shares", [50, 50], [100, 50]),
            (Policy::Weighted, "shares by the bandwidth each rail says", [4, 95], [100, 0]),
            (
                Policy::Adaptive,
                "each piece by the rail that delivers it first, as measured",
                [4, 95],
                [100, 50],
            ),
        ] {
            let want = format!(
                "4096 B over 2 rails, {how}: \
                 eth0 {first} % (12 MB/s measured, 12 MB/s said, 30 µs, at most 98 KiB under way); \
                 eth1 {second} % (250 MB/s measured, 250 MB/s said, 30 µs, at most 256 KiB under way)"
            );
            assert_eq!(explain(&rails[..2], policy, 4096), want);
            assert!(explain(&rails[..1], policy, 1).contains(&format!("eth0 {alone} %")), "{policy:?}");
            assert!(explain(&[rails[2]; 2], policy, 1).contains(&format!("eth2 {silent} %")), "{policy:?}");
        }
    }

    #[test]
    fn a_piece_is_a_rails_last_if_the_others_end_before_one_more() {
        let views = [view(0, 8_000), view(1, 8_000)];
        let is_last = |rest_bytes| super::is_last(&views, Rail(0), 1_000, rest_bytes);
        assert_eq!([0, 1_999, 2_000, 2_001].map(is_last), [true, true, false, false]);
        let is_last = |rest_bytes| super::is_last(&views[..1], Rail(0), 1_000, rest_bytes);
        assert!(is_last(0) && !is_last(1), "of a single rail the end of the data is the last piece");
    }
}
