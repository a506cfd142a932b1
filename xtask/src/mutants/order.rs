//! Which tests a mutant is put to first: those that are likely to find it for the time they take.
//!
//! What is likely is learnt as verdicts come: a test that has found mutants of the same function finds the
//! next one of it, too, more often than one that has found some of the same file, and that more often than
//! any other. Before there is a verdict, tests of the file's own module come first, and those that reach
//! little of the crate before those that reach all of it. A test that finds too little for its time is left
//! out: of all mutants that nothing finds, it would be run to the end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// How often something was tried, and how often a mutant was found so.
#[derive(Clone, Copy, Default)]
struct Tally {
    tried: f64,
    found: f64,
}

impl Tally {
    /// The share that was found, when so many tries before the first one count as `prior`.
    fn share(self, prior: f64, weight: f64) -> f64 {
        (self.found + prior * weight) / (self.tried + weight)
    }
}

/// A file, a function of it, or the whole crate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Crate,
    File(u32),
    Function(u32),
}

/// Where a mutant is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) file: u32,
    pub(super) function: u32,
}

/// A test, as far as the order goes.
pub(super) struct Candidate {
    /// Its number.
    pub(super) test: u32,
    /// CPU time that it takes.
    pub(super) price: Duration,
    /// Whether it is a test of the mutant's own module.
    pub(super) is_own: bool,
    /// Which share of the crate's sites it reaches.
    pub(super) reach: f64,
}

/// What has found what.
#[derive(Default)]
pub(super) struct Experience {
    tallies: Mutex<BTreeMap<(Scope, u32), Tally>>,
}

/// How many tries what is known of the wider scope counts for.
const CRATE_WEIGHT: f64 = 4.0;
const FILE_WEIGHT: f64 = 3.0;
const FUNCTION_WEIGHT: f64 = 1.0;
/// What a test is thought to find before it has been tried: one of the own module, and another one.
const OWN_SHARE: f64 = 0.4;
const OTHER_SHARE: f64 = 0.04;
/// What starting a process takes is paid once for several tests; this is what a test costs at least.
const PRICE_MIN_S: f64 = 0.002;

/// Mutants that a test must be likely to find in a second (one in ten minutes), once it has been tried so
/// often.
const WORTH_MIN: f64 = 1.0 / 600.0;
const TRIES_MIN: f64 = 8.0;

impl Experience {
    /// A test was put to a mutant.
    pub(super) fn note(&self, test: u32, place: Place, has_found: bool) {
        let mut tallies = self.tallies.lock().expect("no panic");
        for scope in [Scope::Crate, Scope::File(place.file), Scope::Function(place.function)] {
            let tally = tallies.entry((scope, test)).or_default();
            tally.tried += 1.0;
            tally.found += f64::from(u8::from(has_found));
        }
    }

    /// Sorts these for a mutant: the one first that finds most for its time. Those that find too little are
    /// taken out.
    pub(super) fn sort(&self, candidates: &mut Vec<Candidate>, place: Place) {
        let tallies = self.tallies.lock().expect("no panic");
        let share = |candidate: &Candidate| {
            let tally = |scope| tallies.get(&(scope, candidate.test)).copied().unwrap_or_default();
            let wide = 1.0 - 0.9 * candidate.reach;
            let prior = if candidate.is_own { OWN_SHARE } else { OTHER_SHARE } * wide;
            let of_crate = tally(Scope::Crate).share(prior, CRATE_WEIGHT);
            let before = if candidate.is_own { prior.max(of_crate) } else { of_crate };
            let of_file = tally(Scope::File(place.file)).share(before, FILE_WEIGHT);
            tally(Scope::Function(place.function)).share(of_file, FUNCTION_WEIGHT)
        };
        let worth = |candidate: &Candidate| share(candidate) / candidate.price.as_secs_f64().max(PRICE_MIN_S);
        let tried = |test| tallies.get(&(Scope::Crate, test)).map_or(0.0, |tally| tally.tried);
        candidates.retain(|candidate| tried(candidate.test) < TRIES_MIN || worth(candidate) >= WORTH_MIN);
        candidates.sort_by_cached_key(|candidate| {
            // Positive floats are ordered as their bits are.
            (std::cmp::Reverse(worth(candidate).to_bits()), candidate.test)
        });
    }
}

/// Whether a test is one of a file's own: `link::rail::tests::…` of `link/rail.rs`.
pub(super) fn is_own(test: &str, file: &str) -> bool {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    let module = if module == "lib" { "" } else { module.as_str() };
    test.strip_prefix(module).is_some_and(|rest| rest.trim_start_matches("::").starts_with("tests::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = Place { file: 1, function: 11 };

    fn candidates(own: &[u32]) -> Vec<Candidate> {
        let new = |test| Candidate {
            test,
            price: Duration::from_millis(5),
            is_own: own.contains(&test),
            reach: f64::from(test) / 10.0,
        };
        (0..4).map(new).collect()
    }

    fn sorted(experience: &Experience, own: &[u32], place: Place) -> Vec<u32> {
        let mut candidates = candidates(own);
        experience.sort(&mut candidates, place);
        candidates.iter().map(|candidate| candidate.test).collect()
    }

    #[test]
    fn own_tests_come_first_and_those_of_little_reach() {
        assert_eq!(sorted(&Experience::default(), &[3], HERE), [3, 0, 1, 2]);
    }

    #[test]
    fn what_found_neighbours_comes_before_what_did_not() {
        let experience = Experience::default();
        for test in 0..3 {
            experience.note(test, HERE, test == 2);
        }
        assert_eq!(sorted(&experience, &[], HERE)[0], 2);
        // In another file it counts for less than an own test does.
        assert_eq!(sorted(&experience, &[1], Place { file: 2, function: 21 })[..2], [1, 2]);
    }

    #[test]
    fn a_test_pays_for_its_time() {
        let mut candidates = candidates(&[]);
        candidates[0].price = Duration::from_secs(5);
        Experience::default().sort(&mut candidates, HERE);
        assert_eq!(candidates.last().map(|candidate| candidate.test), Some(0));
    }

    #[test]
    fn a_long_test_that_finds_nothing_is_left_out() {
        let experience = Experience::default();
        let left = |place| {
            let mut candidates = candidates(&[]);
            candidates[0].price = Duration::from_secs(10);
            experience.sort(&mut candidates, place);
            candidates.len()
        };
        assert_eq!(left(HERE), 4);
        (0..20).for_each(|_| experience.note(0, HERE, false));
        assert_eq!(left(HERE), 3);
        let beside = Place { file: 1, function: 12 };
        experience.note(0, beside, true);
        assert_eq!((left(beside), left(HERE)), (4, 3), "it finds something in that function");
    }

    #[test]
    fn own_tests_are_known_by_their_module() {
        assert!(is_own("link::rail::tests::a_rail_falls_silent", "link/rail.rs"));
        assert!(is_own("link::tests::all", "link/mod.rs"));
        assert!(is_own("tests::all", "lib.rs"));
        assert!(!is_own("link::rail::tests::a_rail_falls_silent", "link/mod.rs"));
        assert!(!is_own("linked::tests::a", "link.rs"));
    }
}
