//! Figures with a bound: each try counts, and the share of tries that met the bound is what is reported.

use std::collections::BTreeMap;

use crate::bench::median;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// A figure that is no number meets no bound.
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

/// All tries of all figures, by name.
#[derive(Default)]
pub(super) struct Figures(BTreeMap<String, (Bound, &'static str, Vec<f64>)>);

impl Figures {
    /// Adds a try. `note` is printed beside it.
    pub(super) fn add(&mut self, name: &str, value: f64, unit: &'static str, bound: Bound, note: &str) {
        let word = if bound.is_met_by(value) { "met" } else { "missed" };
        println!("   {name}: {value:.3} {unit}, {word}{}{note}", if note.is_empty() { "" } else { "; " });
        self.0.entry(name.to_owned()).or_insert((bound, unit, Vec::new())).2.push(value);
    }

    /// Prints a line a figure.
    pub(super) fn print(&self) {
        for (name, (bound, unit, tries)) in &self.0 {
            println!("{}", summary(name, *bound, unit, tries));
        }
    }
}

fn summary(name: &str, bound: Bound, unit: &str, tries: &[f64]) -> String {
    let met = tries.iter().filter(|value| bound.is_met_by(**value)).count();
    let wanted = match bound {
        Bound::AtMost(most) => format!("at most {most}"),
        Bound::AtLeast(least) => format!("at least {least}"),
    };
    let numbers: Vec<f64> = tries.iter().copied().filter(|value| value.is_finite()).collect();
    let seen = match (numbers.iter().copied().reduce(f64::min), numbers.iter().copied().reduce(f64::max)) {
        (Some(least), Some(most)) => format!("{:.3} ({least:.3} to {most:.3}) {unit}", median(&numbers)),
        _ => "no figure".to_owned(),
    };
    format!("== bound: {name}: {met} of {} first tries {wanted} {unit}; median {seen}", tries.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_try_counts_and_a_missing_figure_misses() {
        let line = summary("stall", Bound::AtMost(1.0), "s", &[0.5, 1.5, f64::NAN, 1.0]);
        assert_eq!(line, "== bound: stall: 2 of 4 first tries at most 1 s; median 1.000 (0.500 to 1.500) s");
        assert!(summary("x", Bound::AtLeast(1.0), "s", &[f64::NAN]).contains("0 of 1 first tries"));
    }
}
