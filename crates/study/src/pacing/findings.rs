//! What the paper found, and whether the runs show the same. Every verdict is computed.

use super::cases::{Machine, Traffic};
use super::curves::{Curve, NOTHING, NOTHING_OF_DRAWS, length, spread};

/// A sentence of the paper and ours beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What the paper says.
    pub paper: &'static str,
    /// What the runs show, with figures.
    pub here: String,
    /// How the two compare, by a computed rule.
    pub verdict: Verdict,
}

/// How a finding of the paper compares with the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The runs show it.
    Same,
    /// For some curves, not for all.
    Partly,
    /// For none.
    Differs,
    /// There are no runs for it.
    NotRun,
}

impl Verdict {
    /// One or two words, in Markdown.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Partly => "partly",
            Verdict::Differs => "**differs**",
            Verdict::NotRun => "not run",
        }
    }

    fn of(count: usize, of: usize) -> Verdict {
        match count {
            _ if of == 0 => Verdict::NotRun,
            0 => Verdict::Differs,
            _ if count == of => Verdict::Same,
            _ => Verdict::Partly,
        }
    }
}

/// All findings, in the paper's order.
pub(super) fn all(curves: &[Curve]) -> Vec<Finding> {
    let ring: Vec<&Curve> = curves.iter().filter(|curve| curve.is_main_ring()).collect();
    // The paper's program writes into the other's memory. Where that was not run (--quick), both sides'
    // waiting stands in.
    let mut one_sided: Vec<&Curve> = curves.iter().filter(|curve| curve.is_one_sided()).collect();
    if one_sided.is_empty() {
        one_sided = curves.iter().filter(|curve| curve.is_main_exchange()).collect();
    }
    vec![
        v_shape(&ring),
        improves_from_the_start(&ring),
        rises_steeply(&ring),
        grows_with_length(&ring),
        grows_with_nodes(&ring),
        no_effect(&one_sided),
        small_gain(&one_sided),
        as_nsim(curves),
        sensitive_to_imbalance(curves),
        hypothetical_v(curves),
    ]
}

fn counted<'a>(curves: &[&'a Curve], holds: impl Fn(&Curve) -> bool) -> (usize, usize, Vec<&'a Curve>) {
    let others: Vec<&Curve> = curves.iter().copied().filter(|curve| !holds(curve)).collect();
    (curves.len() - others.len(), curves.len(), others)
}

/// "24 nodes with 16 KiB, 48 nodes with 64 KiB", a few of them.
fn names(curves: &[&Curve]) -> String {
    const SHOWN: usize = 6;
    let name = |curve: &&Curve| match curve.is_ring() {
        true => format!("{} nodes with {}", curve.nodes(), length(curve.case.bytes)),
        false => format!("{} with {}", curve.case.order_name(), length(curve.case.bytes)),
    };
    let mut text = curves.iter().take(SHOWN).map(name).collect::<Vec<_>>().join(", ");
    if curves.len() > SHOWN {
        text += &format!(" and {} more", curves.len() - SHOWN);
    }
    text
}

fn except(others: &[&Curve]) -> String {
    if others.is_empty() { String::new() } else { format!("; not {}", names(others)) }
}

fn v_shape(ring: &[&Curve]) -> Finding {
    let (count, of, others) = counted(ring, Curve::is_v_shaped);
    Finding {
        paper: "random ring: V-shaped curves for every number of nodes from 24 to 768",
        here: format!(
            "{count} of {of} curves (at most 2 % above 1 before the best gap, above 1 at the largest){}",
            except(&others)
        ),
        verdict: Verdict::of(count, of),
    }
}

/// Not the paper's machine, but what comes nearest to the paper's shape.
fn hypothetical_v(curves: &[Curve]) -> Finding {
    let ring: Vec<&Curve> = curves.iter().filter(|curve| curve.is_hypothetical_ring()).collect();
    let (count, of, others) =
        counted(&ring, |curve| curve.worst_before_best() <= 1.0 + NOTHING && curve.gains());
    Finding {
        paper: "*hypothetical machine* (oldest packet first, 32 KiB a lane), random ring: as the gap grows from 0 the time \
                falls, up to the best gap",
        here: format!("{count} of {of} curves{}", except(&others)),
        verdict: Verdict::of(count, of),
    }
}

fn improves_from_the_start(ring: &[&Curve]) -> Finding {
    let v: Vec<&Curve> = ring.iter().copied().filter(|curve| curve.has_a_best_gap()).collect();
    let (count, of, others) = counted(&v, |curve| curve.worst_before_best() <= 1.0 + NOTHING);
    let worst = others.iter().map(|curve| curve.worst_before_best()).fold(1.0, f64::max);
    let how = if others.is_empty() {
        String::new()
    } else {
        format!("; the others get worse first, by up to {:.0} %", (worst - 1.0) * 100.0)
    };
    Finding {
        paper: "random ring: as the gap grows from 0 the time falls, up to the best gap",
        here: format!(
            "{count} of {of} curves with a best gap are nowhere more than 2 % above 1 before it{how}"
        ),
        verdict: Verdict::of(count, of),
    }
}

fn rises_steeply(ring: &[&Curve]) -> Finding {
    let v: Vec<&Curve> = ring.iter().copied().filter(|curve| curve.has_a_best_gap()).collect();
    let (count, of, others) = counted(&v, |curve| curve.last().1 > 1.0);
    let slope = |curve: &&Curve| {
        let ((best_gap, best), (last_gap, last)) = (curve.best(), curve.last());
        (last - best) / (last_gap - best_gap)
    };
    let mean = v.iter().map(slope).sum::<f64>() / v.len().max(1) as f64;
    Finding {
        paper: "random ring: beyond the best gap the time rises steeply",
        here: format!(
            "{count} of {of} curves with a best gap end above 1 at the largest gap (on average {mean:.2} more per packet time){}",
            except(&others)
        ),
        verdict: Verdict::of(count, of),
    }
}

/// The longest run of a group against its shortest, or most nodes against fewest: whether the best effect is
/// larger.
fn growth(
    ring: &[&Curve],
    group: impl Fn(&Curve) -> u64,
    measure: impl Fn(&Curve) -> u64,
) -> (usize, usize, Vec<String>) {
    let mut groups: Vec<u64> = ring.iter().map(|curve| group(curve)).collect();
    groups.sort_unstable();
    groups.dedup();
    let (mut up, mut of, mut rows) = (0, 0, Vec::new());
    for name in groups {
        let mut own: Vec<&&Curve> = ring.iter().filter(|curve| group(curve) == name).collect();
        own.sort_by_key(|curve| measure(curve));
        let [first, .., last] = own[..] else { continue };
        of += 1;
        up += usize::from(last.best().1 < first.best().1 - NOTHING);
        let best = own.iter().map(|curve| format!("{:.2}", curve.best().1)).collect::<Vec<_>>();
        rows.push(best.join(" "));
    }
    (up, of, rows)
}

fn grows_with_length(ring: &[&Curve]) -> Finding {
    let (up, of, rows) = growth(ring, |curve| curve.nodes().into(), |curve| curve.case.bytes);
    Finding {
        paper: "random ring: the effect grows with message length",
        here: format!(
            "longest against shortest: more than 2 % better for {up} of {of} numbers of nodes; best effects by length: {}",
            rows.join(" | ")
        ),
        verdict: Verdict::of(up, of),
    }
}

fn grows_with_nodes(ring: &[&Curve]) -> Finding {
    let (up, of, rows) = growth(ring, |curve| curve.case.bytes, |curve| curve.nodes().into());
    Finding {
        paper: "random ring: the effect grows with the number of nodes",
        here: format!(
            "most against fewest nodes: more than 2 % better for {up} of {of} lengths; best effects by nodes: {}",
            rows.join(" | ")
        ),
        verdict: Verdict::of(up, of),
    }
}

/// How many curves hold, for each spread of start times, and the best effects.
fn by_spread(curves: &[&Curve], holds: impl Fn(&Curve) -> bool) -> String {
    let mut spreads: Vec<u32> = curves.iter().map(|curve| curve.case.start_spread_ns).collect();
    spreads.sort_unstable();
    spreads.dedup();
    let row = |&ns: &u32| {
        let own: Vec<&Curve> =
            curves.iter().copied().filter(|curve| curve.case.start_spread_ns == ns).collect();
        let (count, of, _) = counted(&own, &holds);
        let best: Vec<String> = own
            .iter()
            .filter(|curve| curve.gains())
            .map(|curve| {
                let (gap, effect) = curve.best();
                let name = curve.case.order_name();
                format!("{name} {}: {effect:.2} at gap {gap}", length(curve.case.bytes))
            })
            .collect();
        let best = if best.is_empty() { String::new() } else { format!(" ({})", best.join(", ")) };
        format!("starts within {}: {count} of {of}{best}", spread(ns))
    };
    spreads.iter().map(row).collect::<Vec<_>>().join("; ")
}

fn no_effect(exchange: &[&Curve]) -> Finding {
    let own: Vec<&Curve> = exchange.iter().copied().filter(|curve| !curve.is_z_first()).collect();
    let (count, of, _) = counted(&own, |curve| !curve.gains());
    Finding {
        paper: "all-to-all: no effect in the four rank orders that do not begin with Z",
        here: format!("curves without a gain: {}", by_spread(&own, |curve| !curve.gains())),
        verdict: Verdict::of(count, of),
    }
}

fn small_gain(exchange: &[&Curve]) -> Finding {
    let own: Vec<&Curve> = exchange.iter().copied().filter(|curve| curve.is_z_first()).collect();
    let holds = |curve: &Curve| curve.gains() && curve.best().0 < 1.0;
    let (count, of, _) = counted(&own, holds);
    Finding {
        paper: "all-to-all: a small gain at a gap below 1 in the two rank orders that begin with Z",
        here: format!("curves with one: {}", by_spread(&own, holds)),
        verdict: Verdict::of(count, of),
    }
}

fn as_nsim(curves: &[Curve]) -> Finding {
    let own: Vec<&Curve> =
        curves.iter().filter(|curve| curve.is_nsim() && curve.case.bytes == 1 << 20).collect();
    let dips = |curve: &Curve| curve.best_below_one().1 < 1.0 - NOTHING_OF_DRAWS;
    let (count, of, _) = counted(&own, dips);
    let described = own.first().map_or(String::new(), |curve| {
        let below: Vec<String> = curve
            .points
            .iter()
            .filter(|point| point.0 > 0.0 && point.0 <= 1.0)
            .map(|(gap, effect)| format!("{gap}: {effect:.3}"))
            .collect();
        format!("; effect by gap: {}", below.join(", "))
    });
    Finding {
        paper: "NSIM, all-to-all 4x2x8 with 1 MiB: the time is somewhat shorter at gaps below 1, as on FX10",
        here: format!(
            "{}{described}",
            if count > 0 { "shorter at some gap below 1" } else { "nowhere shorter" }
        ),
        verdict: Verdict::of(count, of),
    }
}

fn sensitive_to_imbalance(curves: &[Curve]) -> Finding {
    let mut kinds: Vec<(Traffic, u64)> = Vec::new();
    for Curve { case, .. } in curves.iter().filter(|curve| curve.is_apart()) {
        if !kinds.contains(&(case.traffic, case.bytes)) {
            kinds.push((case.traffic, case.bytes));
        }
    }
    let (mut varying_count, mut described) = (0, Vec::new());
    for &(traffic, bytes) in &kinds {
        let own: Vec<&Curve> = curves
            .iter()
            .filter(|curve| (curve.case.traffic, curve.case.bytes) == (traffic, bytes))
            .filter(|curve| curve.case.machine == Machine::Fx10)
            .collect();
        let bests = || own.iter().map(|curve| curve.best().1);
        let varies = bests().fold(0.0, f64::max) - bests().fold(1.0, f64::min) > NOTHING_OF_DRAWS;
        varying_count += usize::from(varies);
        let of_spread =
            |curve: &&Curve| format!("{:.2} ({})", curve.best().1, spread(curve.case.start_spread_ns));
        let name = own.first().map_or(String::new(), |curve| curve.case.columns());
        let by_spread = own.iter().map(of_spread).collect::<Vec<_>>().join(", ");
        let name = name.split(',').next().unwrap_or_default();
        described.push(format!("{name} {}: {by_spread}", length(bytes)));
    }
    Finding {
        paper: "the effect is sensitive to imbalance of start times",
        here: format!(
            "best effect depends on the spread of start times for {varying_count} of {} programs: {}",
            kinds.len(),
            described.join("; ")
        ),
        verdict: Verdict::of(varying_count, kinds.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::curves::tests::curve;

    fn verdicts(curves: &[Curve]) -> Vec<Verdict> {
        all(curves).into_iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn verdicts_follow_the_data_and_not_the_paper() {
        let v = |best| [(0.0, 1.0), (1.0, 0.99), (2.0, best), (16.0, 4.0)];
        let flat = [(0.0, 1.0), (1.0, 1.0), (2.0, 1.5), (16.0, 4.0)];
        let as_paper = [
            curve(0, 1 << 14, &v(0.9)),
            curve(0, 1 << 20, &v(0.8)),
            curve(1, 1 << 14, &v(0.7)),
            curve(1, 1 << 20, &v(0.6)),
        ];
        assert_eq!(verdicts(&as_paper)[..5], [Verdict::Same; 5]);
        let otherwise = [
            curve(0, 1 << 14, &v(0.6)),
            curve(0, 1 << 20, &v(0.7)),
            curve(1, 1 << 14, &v(0.8)),
            curve(1, 1 << 20, &flat),
        ];
        let told = verdicts(&otherwise);
        assert_eq!(told[0], Verdict::Partly);
        assert_eq!(told[3..5], [Verdict::Differs; 2]);
        assert!(all(&otherwise)[0].here.contains("not 48 nodes with 1 MiB"));
    }

    #[test]
    fn what_was_not_run_is_said_so() {
        assert!(verdicts(&[]).into_iter().all(|verdict| verdict == Verdict::NotRun));
    }
}
