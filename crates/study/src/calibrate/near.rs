//! Where a hypervisor had put the CPUs while figures were measured.
//!
//! A virtual machine's CPUs are threads of its host, which moves them: two of them share a core of the host,
//! then they are on two cores of one cache, then on two that share none. Each of these is another machine, so
//! figures of one must not be held against figures of another. The benchmarks tell how near the CPUs were
//! before and after each figure (`bench/bench.h`); here figures are sorted by that, and those of the
//! placement that shows most are kept.

use std::fmt;

use super::{Figure, Sample, figures};

/// What was measured of two ranks' CPUs just before and just after a figure: the least and the most of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// A cache line's way from one to the other, ns.
    pub line_ns: [f64; 2],
    /// What each copies while the other does, GB/s.
    pub copy_gbytes_per_s: [f64; 2],
}

/// A figure, and how near the CPUs were.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    /// The figure.
    pub sample: Sample,
    /// `None`: there is one CPU, or the benchmark does not say.
    pub near: Option<Near>,
    /// In which turn of all benchmarks.
    pub round: u32,
}

/// How two CPUs stand to each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// A cache line's way from one to the other, the median, ns.
    pub line_ns: f64,
    /// What each copies while the other does, the median, GB/s.
    pub copy_gbytes_per_s: f64,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placement { line_ns, copy_gbytes_per_s } = self;
        write!(f, "a cache line takes {line_ns:.0} ns between the CPUs, and both at once copy ")?;
        write!(f, "{copy_gbytes_per_s:.0} GB/s each")
    }
}

/// The figures of one placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Sorted {
    /// The median of each.
    pub figures: Vec<Figure>,
    /// `None`: no figure says where the CPUs were.
    pub placement: Option<Placement>,
    /// Sightings that are not of it, or during which the CPUs were moved.
    pub elsewhere_count: usize,
    /// All sightings.
    pub count: usize,
    /// How often the figure was seen that was seen most seldom in this placement.
    pub seen_count_min: usize,
    /// Figures that were not seen in it.
    pub missing: Vec<Sample>,
}

/// Two measurements of one placement differ by less.
const LINE_RATIO_MAX: f64 = 1.5;
/// Where two CPUs share a core, each copies less than this part of what one on a core of its own does.
const SHARED_COPY_PART: f64 = 0.7;

impl Near {
    fn line_mean_ns(&self) -> f64 {
        (self.line_ns[0] * self.line_ns[1]).sqrt()
    }

    fn is_steady(&self) -> bool {
        let copy = self.copy_gbytes_per_s;
        self.line_ns[1] <= LINE_RATIO_MAX * self.line_ns[0] && copy[0] >= SHARED_COPY_PART * copy[1]
    }
}

/// The figures of the placement in which the most different ones were seen, and of those the most often.
/// What does not say where the CPUs were goes with each.
pub fn sort(sightings: &[Sighting]) -> Sorted {
    let mut line_ns: Vec<f64> = sightings
        .iter()
        .filter_map(|one| one.near)
        .filter(Near::is_steady)
        .map(|n| n.line_mean_ns())
        .collect();
    line_ns.sort_unstable_by(f64::total_cmp);
    // A placement's times are close together, and another's far from them.
    let ends: Vec<f64> = line_ns.windows(2).filter(|w| w[1] > LINE_RATIO_MAX * w[0]).map(|w| w[0]).collect();
    let copy_max = sightings.iter().filter_map(|one| one.near).map(|near| near.copy_gbytes_per_s[1]);
    let copy_max = copy_max.fold(0.0, f64::max);
    let place_of = |near: &Near| {
        let shares_core = near.copy_gbytes_per_s[1] < SHARED_COPY_PART * copy_max;
        let place = (ends.iter().filter(|&&end| near.line_mean_ns() > end).count(), shares_core);
        near.is_steady().then_some(place)
    };
    let mut places: Vec<(usize, bool)> =
        sightings.iter().filter_map(|one| place_of(one.near.as_ref()?)).collect();
    places.sort_unstable();
    places.dedup();
    let is_of = |one: &&Sighting, place| one.near.as_ref().is_none_or(|near| place_of(near) == Some(place));
    let of = |place| sightings.iter().filter(move |one| is_of(one, place));
    let chosen = places
        .iter()
        .copied()
        .max_by_key(|&place| (figures(of(place).map(|one| &one.sample)).len(), of(place).count()));
    let kept: Vec<&Sighting> = match chosen {
        Some(place) => of(place).collect(),
        None => sightings.iter().collect(),
    };
    let median = |value: fn(&Near) -> f64| {
        let mut values: Vec<f64> = kept.iter().filter_map(|one| one.near.as_ref()).map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let line_ns = median(Near::line_mean_ns);
    let copy_gbytes_per_s = median(|near| near.copy_gbytes_per_s[1]);
    let seen = |sample: &Sample| kept.iter().filter(|one| one.sample.is_same_figure(sample)).count();
    let all: Vec<Sample> =
        figures(sightings.iter().map(|one| &one.sample)).into_iter().map(|figure| figure.sample).collect();
    let missing: Vec<Sample> = all.iter().filter(|sample| seen(sample) == 0).cloned().collect();
    Sorted {
        placement: line_ns
            .zip(copy_gbytes_per_s)
            .filter(|_| chosen.is_some())
            .map(|(line_ns, copy_gbytes_per_s)| Placement { line_ns, copy_gbytes_per_s }),
        elsewhere_count: sightings.len() - kept.len(),
        count: sightings.len(),
        seen_count_min: all.iter().map(seen).min().unwrap_or(0),
        missing,
        figures: figures(kept.iter().map(|one| &one.sample)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, value: f64, line_ns: [f64; 2], copy: [f64; 2]) -> Sighting {
        let sample = Sample { name: name.into(), ranks: 2, bytes: 8, value };
        Sighting { sample, near: Some(Near { line_ns, copy_gbytes_per_s: copy }), round: 1 }
    }

    #[test]
    fn figures_of_one_placement_are_kept() {
        let near = |name, value| seen(name, value, [27.0, 33.0], [48.0, 57.0]);
        let far = |name, value| seen(name, value, [150.0, 160.0], [57.0, 57.0]);
        let one_core = |name, value| seen(name, value, [24.0, 25.0], [29.0, 30.0]);
        let moved = seen("a", 0.1, [28.0, 150.0], [57.0, 57.0]);
        let all = [near("a", 3.0), far("a", 9.0), one_core("a", 1.0), moved, near("b", 4.0), near("a", 2.0)];
        let sorted = sort(&all);
        let values: Vec<(&str, f64)> =
            sorted.figures.iter().map(|f| (f.sample.name.as_str(), f.sample.value)).collect();
        assert_eq!(values, [("a", 2.5), ("b", 4.0)]);
        assert_eq!((sorted.elsewhere_count, sorted.count, sorted.seen_count_min), (3, 6, 1));
        let placement = sorted.placement.unwrap();
        assert!((29.0..31.0).contains(&placement.line_ns), "{placement}");
        // The placement that shows the most figures counts, and what it lacks is named.
        let sorted = sort(&[
            near("a", 3.0),
            far("a", 9.0),
            far("b", 9.0),
            near("a", 2.0),
            near("c", 1.0),
            far("d", 1.0),
        ]);
        let names: Vec<&str> = sorted.figures.iter().map(|f| f.sample.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "d"]);
        assert_eq!(sorted.missing.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!(sorted.seen_count_min, 0);
    }

    #[test]
    fn figures_without_a_placement_go_with_each() {
        let sample = |name: &str| Sample { name: name.into(), ranks: 2, bytes: 8, value: 1.0 };
        let without = Sighting { sample: sample("one core"), near: None, round: 1 };
        let sorted = sort(&[without.clone(), seen("a", 3.0, [27.0, 27.0], [57.0, 57.0])]);
        assert_eq!((sorted.figures.len(), sorted.elsewhere_count), (2, 0));
        let sorted = sort(&[without]);
        assert_eq!((sorted.figures.len(), sorted.placement, sorted.seen_count_min), (1, None, 1));
    }
}
