//! Runs put together to curves: pacing effect over gap.

use super::cases::{Case, Machine, Pacing, Partner, Shape, Traffic};
use super::experiment::Outcome;

/// Less than this is no effect: 2 %.
pub(super) const NOTHING: f64 = 0.02;
/// Where start times are drawn, 5 %: other draws move a mean over them by so much.
pub(super) const NOTHING_OF_DRAWS: f64 = 0.05;

/// The runs of one traffic, length and network, in order of gap.
#[derive(Debug)]
pub(super) struct Curve {
    /// With no gap.
    pub(super) case: Case,
    pub(super) unpaced_ps: u64,
    /// (gap in packet times, effect: time over time without gap).
    pub(super) points: Vec<(f64, f64)>,
    /// What was tried beyond fixed gaps: (pacing, mean gap, effect).
    pub(super) beyond: Vec<(Pacing, f64, f64)>,
}

impl Curve {
    /// Best gap and effect; without any better than none that is (0, 1).
    pub(super) fn best(&self) -> (f64, f64) {
        self.points.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0.0, 1.0))
    }

    /// The largest gap and its effect.
    pub(super) fn last(&self) -> (f64, f64) {
        self.points.last().copied().unwrap_or((0.0, 1.0))
    }

    /// The worst effect at gaps below the best.
    pub(super) fn worst_before_best(&self) -> f64 {
        let best = self.best().0;
        self.points.iter().filter(|point| point.0 < best).map(|point| point.1).fold(1.0, f64::max)
    }

    /// Better at some gap than with none, and worse than there at the largest.
    pub(super) fn has_a_best_gap(&self) -> bool {
        let best = self.best().1;
        best < 1.0 - NOTHING && self.last().1 > best + NOTHING
    }

    /// The paper's V: better at some gap than with none, before it nowhere worse than with none, and at the
    /// largest worse.
    pub(super) fn is_v_shaped(&self) -> bool {
        self.has_a_best_gap() && self.worst_before_best() <= 1.0 + NOTHING && self.last().1 > 1.0
    }

    /// Mean gap and effect of a pacing beyond the fixed gap.
    pub(super) fn with(&self, pacing: Pacing) -> Option<(f64, f64)> {
        self.beyond.iter().find(|tried| tried.0 == pacing).map(|tried| (tried.1, tried.2))
    }

    pub(super) fn is_ring(&self) -> bool {
        self.case.traffic == Traffic::Ring
    }

    /// Whether this is of the paper's own random ring: the torus that programs see, all NICs.
    pub(super) fn is_main_ring(&self) -> bool {
        self.is_ring()
            && matches!(self.case.shape, Shape::Torus(_))
            && self.case.nic_count > 1
            && self.case.machine == Machine::Fx10
    }

    /// The same on the hypothetical machine.
    pub(super) fn is_hypothetical_ring(&self) -> bool {
        self.is_ring() && self.case.machine == Machine::Hypothetical
    }

    /// All-to-all on NSIM's machine, as stated.
    pub(super) fn is_nsim(&self) -> bool {
        self.case.machine == Machine::Nsim && !self.is_ablation()
    }

    /// Whether something that the paper does not state is tried: of NSIM's machine, or when a step ends.
    pub(super) fn is_ablation(&self) -> bool {
        matches!(self.case.machine, Machine::NsimBut(_)) || self.noise_ns().is_some()
    }

    /// How much later a step of a program that waits may be set up; `None` for other programs.
    pub(super) fn noise_ns(&self) -> Option<u32> {
        match self.case.traffic {
            Traffic::AllToAll(_, partner @ (Partner::Arrived(_) | Partner::Exchanged(_))) => {
                Some(partner.noise_ns())
            }
            _ => None,
        }
    }

    /// Whether this is of the paper's all-to-all: a few ns of imbalance, pairs by XOR.
    pub(super) fn is_main_exchange(&self) -> bool {
        matches!(self.case.traffic, Traffic::AllToAll(_, Partner::Xor)) && self.case.start_spread_ns <= 5
    }

    /// Whether this is all-to-all as the paper's program does it, by one-sided writes, ranks beginning at
    /// once or apart.
    pub(super) fn is_one_sided(&self) -> bool {
        self.case.machine == Machine::Fx10
            && matches!(self.case.traffic, Traffic::AllToAll(_, Partner::OneSided))
    }

    /// Whether start times are spread over more than the few ns of NSIM.
    pub(super) fn is_apart(&self) -> bool {
        self.case.start_spread_ns > 5
    }

    /// Whether some gap is better than none.
    pub(super) fn gains(&self) -> bool {
        self.best().1 < 1.0 - if self.case.start_count > 1 { NOTHING_OF_DRAWS } else { NOTHING }
    }

    /// The effect at a gap that was run.
    pub(super) fn effect_at(&self, gap: f64) -> Option<f64> {
        self.points.iter().find(|point| (point.0 - gap).abs() < 1e-9).map(|point| point.1)
    }

    pub(super) fn nodes(&self) -> u32 {
        self.case.shape.node_count()
    }

    /// Whether rank order begins with Z.
    pub(super) fn is_z_first(&self) -> bool {
        matches!(self.case.traffic, Traffic::AllToAll([2, ..], _))
    }
}

/// All curves of a grid whose fixed gaps have all been run, in order of cases: one with a part of its gaps
/// would tell of a best gap that is none.
pub(super) fn of(grid: &[Case], results: &[(Case, Outcome)]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    let unpaced = results.iter().filter(|(case, _)| case.pacing == Pacing::Fixed(0));
    let is_fixed = |case: &Case| matches!(case.pacing, Pacing::Fixed(_));
    for &(case, Outcome { time_ps: unpaced_ps, .. }) in unpaced {
        let is_own = |other: &Case| is_fixed(other) && Case { pacing: case.pacing, ..*other } == case;
        let wanted_count = grid.iter().filter(|other| is_own(other)).count();
        if results.iter().filter(|(other, _)| is_own(other)).count() < wanted_count {
            continue;
        }
        let own = results.iter().filter(|(other, _)| Case { pacing: case.pacing, ..*other } == case);
        let mut curve = Curve { case, unpaced_ps, points: Vec::new(), beyond: Vec::new() };
        for (Case { pacing, .. }, outcome) in own {
            let effect = outcome.time_ps as f64 / unpaced_ps as f64;
            match pacing {
                Pacing::Fixed(_) => curve.points.push((outcome.gap, effect)),
                _ => curve.beyond.push((*pacing, outcome.gap, effect)),
            }
        }
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        curves.push(curve);
    }
    curves
}

/// A spread of start times for people.
pub(super) fn spread(ns: u32) -> String {
    match ns {
        0..=5 => "a few ns".into(),
        6..1_000 => format!("{ns} ns"),
        _ => format!("{} µs", f64::from(ns) / 1_000.0),
    }
}

/// A length for people.
pub(super) fn length(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::pacing::cases;

    /// A curve of a random ring with these points.
    pub(crate) fn curve(nodes: usize, bytes: u64, points: &[(f64, f64)]) -> Curve {
        let shape = Shape::Torus(cases::RING_EXTENTS[nodes]);
        let case = Case {
            machine: Machine::Fx10,
            shape,
            nic_count: 4,
            traffic: Traffic::Ring,
            bytes,
            start_spread_ns: 5,
            start_count: 1,
            pacing: Pacing::Fixed(0),
        };
        Curve { case, unpaced_ps: 1_000, points: points.to_vec(), beyond: Vec::new() }
    }

    #[test]
    fn a_v_needs_a_gain_and_a_rise() {
        let v = curve(0, 1 << 20, &[(0.0, 1.0), (1.0, 1.1), (2.0, 0.8), (4.0, 1.6)]);
        assert!(v.has_a_best_gap() && !v.is_v_shaped(), "worse first");
        assert_eq!((v.best(), v.worst_before_best()), ((2.0, 0.8), 1.1));
        assert!(curve(0, 1 << 20, &[(0.0, 1.0), (1.0, 1.02), (2.0, 0.8), (4.0, 1.6)]).is_v_shaped());
        assert!(!curve(0, 1 << 20, &[(0.0, 1.0), (2.0, 0.8), (4.0, 0.95)]).is_v_shaped(), "never above 1");
        assert!(!curve(0, 1 << 20, &[(0.0, 1.0), (1.0, 0.99), (2.0, 1.5)]).is_v_shaped());
        assert!(!curve(0, 1 << 20, &[(0.0, 1.0), (1.0, 0.9), (2.0, 0.8)]).is_v_shaped());
    }

    #[test]
    fn runs_make_curves_in_order_of_gap() {
        let case = curve(0, 1 << 20, &[]).case;
        let outcome = |gap, time_ps| Outcome { gap, time_ps, packet_hop_count: 1 };
        let results = [
            (Case { pacing: Pacing::Fixed(2_000), ..case }, outcome(2.0, 300)),
            (case, outcome(0.0, 200)),
            (Case { pacing: Pacing::FromMachine(750), ..case }, outcome(1.5, 100)),
            (Case { bytes: 5, pacing: Pacing::Fixed(1_000), ..case }, outcome(1.0, 300)),
        ];
        let mut grid: Vec<Case> = results.iter().map(|result| result.0).collect();
        let curves = of(&grid, &results);
        assert_eq!(curves.len(), 1, "one without its run without gap is none yet");
        grid.push(Case { pacing: Pacing::Fixed(3_000), ..case });
        assert_eq!(of(&grid, &results).len(), 0, "nor is one with a gap to come");
        assert_eq!(curves[0].points, [(0.0, 1.0), (2.0, 1.5)]);
        assert_eq!(curves[0].beyond, [(Pacing::FromMachine(750), 1.5, 0.5)]);
    }
}
