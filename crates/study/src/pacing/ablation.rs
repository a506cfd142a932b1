//! What the paper leaves open, tried: routers of NSIM, and when a step of all-to-all ends.
//!
//! All of it is hypothetical: nothing here is chosen for the paper's result, and its findings are also given
//! for the machines as stated (`findings`).

use std::fmt::Write as _;

use super::cases::{Change, Machine, NOISES_NS, ORDERS, Partner, Traffic};
use super::curves::{Curve, NOTHING, NOTHING_OF_DRAWS, spread};
use super::findings::{Finding, Verdict};

/// Gaps of the tables.
const GAPS: [f64; 6] = [0.125, 0.25, 0.5, 0.75, 1.0, 1.5];

impl Curve {
    /// The exchange whose steps wait for both, on FX10 or NSIM's machine as stated.
    fn is_exchanged(&self, machine: Machine, noise_ns: u32) -> bool {
        self.case.machine == machine
            && matches!(self.case.traffic, Traffic::AllToAll(_, Partner::Exchanged(ns)) if ns == noise_ns)
    }

    /// The best of the gaps below 1 and its effect.
    pub(super) fn best_below_one(&self) -> (f64, f64) {
        let below = self.points.iter().copied().filter(|point| point.0 > 0.0 && point.0 < 1.0);
        below.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0.0, 1.0))
    }

    fn gains_below_one(&self) -> bool {
        self.best_below_one().1 < 1.0 - NOTHING_OF_DRAWS
    }

    /// Whether ranks go along Z last.
    fn is_z_last(&self) -> bool {
        matches!(self.case.traffic, Traffic::AllToAll([_, _, 2], _))
    }
}

/// The findings about all-to-all again, for a program whose steps wait for both partners' data.
pub(super) fn findings(curves: &[Curve]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = NOISES_NS.iter().map(|&ns| two_orders(curves, ns)).collect();
    findings.extend(nsim_findings(curves));
    findings
}

fn two_orders(curves: &[Curve], noise_ns: u32) -> Finding {
    let own: Vec<&Curve> =
        curves.iter().filter(|curve| curve.is_exchanged(Machine::Fx10, noise_ns)).collect();
    let gaining: Vec<&Curve> = own.iter().copied().filter(|curve| curve.gains_below_one()).collect();
    let others: Vec<&Curve> = own.iter().copied().filter(|curve| !curve.gains_below_one()).collect();
    let all_and_only = |is_of: fn(&Curve) -> bool| {
        gaining.iter().all(|curve| is_of(curve)) && gaining.len() == own.iter().filter(|c| is_of(c)).count()
    };
    let verdict = match () {
        () if own.len() < ORDERS.len() => Verdict::NotRun,
        () if all_and_only(Curve::is_z_first) => Verdict::Same,
        () if all_and_only(Curve::is_z_last) => Verdict::Partly,
        () => Verdict::Differs,
    };
    let pair = match verdict {
        Verdict::Same => ": those along Z first",
        Verdict::Partly => {
            ": those along Z *last*, which are the ones that the paper writes 8x4x2 and \
            8x2x4 if it writes the axis that varies slowest first"
        }
        _ => "",
    };
    Finding {
        paper: match noise_ns {
            0..=5 => {
                "*hypothetical program* (each step waits for both partners' data, set up within 5 ns): two rank \
                 orders of all-to-all gain at a gap below 1, four do not"
            }
            6..=5_000 => "*as before*, set up within 5 µs",
            _ => "*as before*, set up within 20 µs",
        },
        here: format!(
            "{} of {} gain{pair}; those that do: {}; that do not: {}",
            gaining.len(),
            own.len(),
            listed(&gaining),
            listed(&others)
        ),
        verdict,
    }
}

/// Rank orders with the best effect of a gap below 1.
fn listed(curves: &[&Curve]) -> String {
    let one = |curve: &&Curve| {
        let (gap, effect) = curve.best_below_one();
        format!("{} {effect:.2} at {gap}", curve.case.order_name())
    };
    let all: Vec<String> = curves.iter().map(one).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

fn nsim(curves: &[Curve], paper: &'static str, is_meant: impl Fn(&Curve) -> bool) -> Finding {
    let found = curves.iter().find(|curve| is_meant(curve));
    let effects = |curve: &Curve| {
        let shown = GAPS.iter().filter_map(|&gap| Some(format!("{gap}: {:.3}", curve.effect_at(gap)?)));
        shown.collect::<Vec<_>>().join(", ")
    };
    Finding {
        paper,
        here: found.map_or(String::new(), |curve| format!("effect by gap: {}", effects(curve))),
        verdict: match found {
            None => Verdict::NotRun,
            Some(curve) if curve.best_below_one().1 < 1.0 - NOTHING => Verdict::Same,
            Some(_) => Verdict::Differs,
        },
    }
}

/// NSIM's finding for what the paper may have run.
fn nsim_findings(curves: &[Curve]) -> Vec<Finding> {
    let arrived = |curve: &Curve| {
        let is_quiet = matches!(curve.case.traffic, Traffic::AllToAll(_, Partner::Arrived(5)));
        curve.case.machine == Machine::Nsim && is_quiet
    };
    let in_turn = |curve: &Curve| {
        curve.case.machine == Machine::NsimBut(Change::LanesInTurn) && curve.noise_ns().is_none()
    };
    vec![
        nsim(
            curves,
            "*NSIM, second reading of table 3* (the lanes that want a link in turn), one-sided: somewhat \
             shorter at gaps below 1",
            in_turn,
        ),
        nsim(
            curves,
            "*NSIM, hypothetical program* (a step ends when its own data has arrived, set up within 5 ns): the \
             same",
            arrived,
        ),
        nsim(
            curves,
            "*NSIM, hypothetical program* (each step waits for both partners' data, set up within 5 ns): the same",
            |curve| curve.is_exchanged(Machine::Nsim, NOISES_NS[0]),
        ),
        nsim(curves, "*as before*, set up within 5 µs", |curve| {
            curve.is_exchanged(Machine::Nsim, NOISES_NS[1])
        }),
        nsim(curves, "*as before*, set up within 20 µs", |curve| {
            curve.is_exchanged(Machine::Nsim, NOISES_NS[2])
        }),
    ]
}

fn header(out: &mut String, first: &str) {
    let gaps: Vec<String> = GAPS.iter().map(|gap| format!("at {gap}")).collect();
    let _ = writeln!(out, "| {first} | without gap, ms | {} |", gaps.join(" | "));
    let _ = writeln!(out, "|---|---|{}", "---|".repeat(GAPS.len()));
}

fn row(out: &mut String, name: &str, curve: &Curve) {
    let _ = write!(out, "| {name} | {:.2} |", curve.unpaced_ps as f64 / 1e9);
    for gap in GAPS {
        let effect = curve.effect_at(gap);
        let _ = write!(out, " {} |", effect.map_or("not run".into(), |effect| format!("{effect:.3}")));
    }
    out.push('\n');
}

/// When a step ends, as the tables say it.
fn program(curve: &Curve) -> String {
    let Traffic::AllToAll(_, partner) = curve.case.traffic else { return String::new() };
    let noise = spread(partner.noise_ns());
    match partner {
        Partner::Arrived(_) => format!("a step ends when its own data has arrived, set up within {noise}"),
        Partner::Exchanged(_) => format!("a step ends when both have arrived, set up within {noise}"),
        _ => String::new(),
    }
}

/// NSIM's all-to-all with one thing changed at a time.
pub(super) fn nsim_section(out: &mut String, curves: &[Curve]) {
    let mut rows: Vec<(String, &Curve)> = Vec::new();
    let stated = curves.iter().find(|curve| curve.is_nsim() && curve.case.bytes == 1 << 20);
    rows.extend(stated.map(|curve| ("as stated".to_string(), curve)));
    for curve in curves.iter().filter(|curve| curve.is_ablation()) {
        let name = match curve.case.machine {
            Machine::NsimBut(change) => change.name().to_string(),
            Machine::Nsim => String::new(),
            Machine::Fx10 | Machine::Hypothetical => continue,
        };
        let parts = [name, program(curve)];
        rows.push((parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "), curve));
    }
    if rows.len() < 2 {
        return;
    }
    out.push_str(NSIM_TEXT);
    header(out, "changed");
    for (name, curve) in &rows {
        row(out, name, curve);
    }
    let one_sided = |gains: bool| {
        let own = rows.iter().filter(|(_, curve)| curve.noise_ns().is_none());
        let own = own.filter(|(_, curve)| curve.gains_below_one() == gains);
        let names: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    };
    let _ = writeln!(
        out,
        "\nMore than {:.0} % shorter at a gap below 1, one-sided: {}; not: {}. {NSIM_CONCLUSION}",
        NOTHING_OF_DRAWS * 100.0,
        one_sided(true),
        one_sided(false),
    );
}

/// FX10's all-to-all with steps that wait.
pub(super) fn orders_section(out: &mut String, curves: &[Curve]) {
    let mut rows = NOISES_NS
        .iter()
        .flat_map(|&ns| curves.iter().filter(move |curve| curve.is_exchanged(Machine::Fx10, ns)))
        .peekable();
    if rows.peek().is_none() {
        return;
    }
    out.push_str(ORDERS_TEXT);
    header(out, "rank order, fastest axis first");
    for curve in rows {
        let noise = spread(curve.noise_ns().unwrap_or(0));
        row(out, &format!("{}, set up within {noise}", curve.case.order_name()), curve);
    }
    out.push_str(ORDERS_CONCLUSION);
}

const NSIM_TEXT: &str = "\
**NSIM.** While all ranks are in the same step a gap of g below 1 can only add to what the links \
need: steps without a shared link take 1 + g. So a gain is a loss avoided: without gap ranks must be \
apart. Table 3 names a stage that allots channels and says round robin, so channels are allotted first and \
those of a link take it in turn; a router of lanes in turn has no such stage, and is the second reading. \
When a step ends, a cable's latency and the other things below are not in the paper. One changed at a time, \
1 MiB, means of four draws:\n\n";
const NSIM_CONCLUSION: &str = "\
In what the two lists differ the paper does not say, so the row is that of one reading.\n";
const ORDERS_TEXT: &str = "\
**Steps that wait.** Pairwise exchange in MPI libraries waits in each step for both partners' data; \
whether the paper's one-sided program did, it does not say. The same by writes, 1 MiB, each step set \
up late by a time drawn for each rank (the noise of a host), means of four draws:\n\n";
const ORDERS_CONCLUSION: &str = "\
\nWithout noise all orders are alike (above) and a gap only costs. With some, ranks of some orders \
leave each other's step, and there a gap below 1 gains. The findings above say which. Why an order \
is more sensitive than another is not shown by these runs.\n\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::cases::{ALL_TO_ALL_EXTENTS, Case, Pacing, Shape};

    /// A curve for each rank order; those of `gaining` fall to 0.9 at a gap of a half.
    fn exchanged(gaining: &[[usize; 3]]) -> Vec<Curve> {
        let one = |order: [usize; 3]| {
            let effect = if gaining.contains(&order) { 0.9 } else { 1.05 };
            let case = Case {
                machine: Machine::Fx10,
                shape: Shape::Torus(ALL_TO_ALL_EXTENTS),
                nic_count: 1,
                traffic: Traffic::AllToAll(order, Partner::Exchanged(5)),
                bytes: 1 << 20,
                start_spread_ns: 5,
                start_count: 4,
                pacing: Pacing::Fixed(0),
            };
            let points = vec![(0.0, 1.0), (0.5, effect), (1.0, 0.8)];
            Curve { case, unpaced_ps: 1_000, points, beyond: Vec::new() }
        };
        ORDERS.into_iter().map(one).collect()
    }

    #[test]
    fn the_two_orders_that_gain_decide() {
        let verdict = |gaining: &[[usize; 3]]| findings(&exchanged(gaining))[0].verdict;
        assert_eq!(verdict(&[[2, 0, 1], [2, 1, 0]]), Verdict::Same);
        assert_eq!(verdict(&[[0, 1, 2], [1, 0, 2]]), Verdict::Partly);
        assert_eq!(verdict(&[[0, 1, 2]]), Verdict::Differs);
        assert_eq!(verdict(&[]), Verdict::Differs, "a gain at gap 1 is none below 1");
        assert_eq!(findings(&[])[0].verdict, Verdict::NotRun);
    }
}
