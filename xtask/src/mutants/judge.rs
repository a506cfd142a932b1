//! One build with all mutants of a crate, and what its tests say of each.
//!
//! Each test runs once by itself without a mutant and tells which sites it comes by. A mutant is put to the
//! tests that come by it only, those first that are likely to find it for the time they take (`order`),
//! several in a process, which ends with the first that fails; and last to those that compare a committed
//! digest. A program that waits leaves its place to another: a mutant that hangs costs no CPU time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Mutants;
use super::blame::blame;
use super::copy::Copy;
use super::order::{self, Candidate, Experience, Place};
use super::programs::{self, CHOSEN, Program};
use super::trace::{self, CPU_TICK, Test};
use crate::process;

/// What came of a mutant.
pub(super) enum Verdict {
    /// This test failed, or something in one of several.
    Found(String),
    /// No test calls it wrong, but a committed digest of what processes do is another one.
    Changed,
    /// No test comes by.
    Unreached,
    /// Tests come by, and none fails of those that find enough for their time.
    Survived,
    /// None of the quick tests fails; the others have not run.
    Unsure,
}

impl Verdict {
    pub(super) fn words(&self, listed: Option<&str>) -> String {
        match (self, listed) {
            (Self::Found(test), _) => format!("found by {test}"),
            (Self::Changed, _) => "changed: noticed by the committed digest only".to_owned(),
            (Self::Unreached, None) => "NOT REACHED".to_owned(),
            (Self::Survived, None) => "NOT FOUND".to_owned(),
            (Self::Unsure, _) => "put off: no quick test finds it".to_owned(),
            (_, Some(reason)) => format!("listed ({reason})"),
        }
    }
}

/// A test with a mutant gets so many times as long as it took without one, and some time more.
const SLOWER_MAX: u32 = 10;
const SLACK: Duration = Duration::from_secs(120);
/// Its CPU time, which other programs hardly stretch, may be so many times that of the run without a mutant,
/// in which each site is more work than in later ones, and some time more.
const CPU_SLOWER_MAX: u32 = 3;
const CPU_SLACK: Duration = Duration::from_secs(1);
/// How long the tests of a mutant's first process may take together, and by what that grows.
const FIRST_BATCH: Duration = Duration::from_millis(40);
const BATCH_GROWTH: u32 = 3;
/// How long the tests of a mutant may take before it is put off until all others have been tried. Most of
/// those that are found are found by then; most of the rest need all tests, which takes several times as
/// long.
const QUICK: Duration = Duration::from_millis(1_500);
/// So many mutants for each CPU are under way at most; all but one of them wait for nothing but an event.
pub(super) const WAITING_MAX: usize = 8;
/// How often sites may be taken out because of what the compiler says.
const BUILDS_MAX: usize = 60;

/// Places for programs that compute.
struct Places {
    free: Mutex<usize>,
    is_free: Condvar,
}

impl Places {
    /// Waits for a place. It is given back when the result is dropped.
    fn take(&self) -> Taken<'_> {
        let mut free = self.free.lock().expect("no panic");
        while *free == 0 {
            free = self.is_free.wait(free).expect("no panic");
        }
        *free -= 1;
        Taken(self)
    }
}

struct Taken<'p>(&'p Places);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().expect("no panic") += 1;
        self.0.is_free.notify_one();
    }
}

/// The test programs with all mutants that the compiler takes.
pub(super) struct Built {
    /// Those that it refuses.
    pub(super) impossible: BTreeSet<u32>,
    /// The repository that the programs were built in.
    pub(super) root: PathBuf,
    pub(super) programs: Vec<Program>,
    /// Tests that fail without a mutant do not judge. Else they end the command.
    pub(super) leaves_out_failing: bool,
}

impl Built {
    /// Builds them. `impossible`: those that the compiler is known to refuse.
    pub(super) fn make(mutants: &Mutants, mut impossible: BTreeSet<u32>) -> Result<Self> {
        let lib = format!("crates/{}/src/lib.rs", mutants.subject.name);
        let mut keep: BTreeSet<String> = mutants.sources.iter().map(|source| source.path.clone()).collect();
        keep.insert(lib.clone());
        let copy = Copy::make(&keep)?;
        for _ in 0..BUILDS_MAX {
            let instrumented = programs::write(mutants, &copy, &lib, &impossible)?;
            match programs::build_all(&copy, mutants.subject)? {
                Ok(programs) => {
                    return Ok(Self { impossible, root: copy.root, programs, leaves_out_failing: false });
                }
                Err(messages) => {
                    let blamed = blame(mutants, &instrumented, &messages)?;
                    println!("   {} mutants are no Rust; once more without them", blamed.len());
                    impossible.extend(blamed);
                }
            }
        }
        bail!("the crate with its mutants does not build after {BUILDS_MAX} tries")
    }
}

/// What judges: the build, and what each test does without a mutant.
pub(super) struct Judge {
    built: Built,
    count: u32,
    /// By mutant: its file, and its file and function.
    files: Vec<String>,
    places: Vec<Place>,
    /// The quickest first.
    tests: Vec<Test>,
    /// By mutant: the tests that come by.
    reached_by: Vec<Vec<u32>>,
    /// The tests that mutants put off have passed.
    passed: Mutex<BTreeMap<u32, Vec<u32>>>,
    experience: Experience,
    cpus: Places,
    /// CPU time that mutants have taken, without their builds and what tests took without them.
    cpu_ms: AtomicU64,
}

impl Judge {
    /// Runs the tests without a mutant.
    pub(super) fn begin(mutants: &Mutants, built: Built, job_count: usize) -> Result<Self> {
        let tests = trace::trace_all(&built, job_count)?;
        let mut reached_by = vec![Vec::new(); mutants.count() as usize];
        for (test, known) in tests.iter().enumerate() {
            for &number in known.reached.iter().filter(|&&number| number < mutants.count()) {
                reached_by[number as usize].push(test as u32);
            }
        }
        Ok(Self {
            built,
            count: mutants.count(),
            files: mutants.inner_files(),
            places: mutants.places(),
            tests,
            reached_by,
            passed: Mutex::new(BTreeMap::new()),
            experience: Experience::default(),
            cpus: Places { free: Mutex::new(job_count), is_free: Condvar::new() },
            cpu_ms: AtomicU64::new(0),
        })
    }

    pub(super) fn is_possible(&self, number: u32) -> bool {
        !self.built.impossible.contains(&number)
    }

    /// Whether any test comes by.
    pub(super) fn is_reached(&self, number: u32) -> bool {
        !self.reached_by[number as usize].is_empty()
    }

    pub(super) fn possible_count(&self) -> usize {
        self.count as usize - self.built.impossible.len()
    }

    /// CPU time that all verdicts took.
    pub(super) fn cpu_time(&self) -> Duration {
        Duration::from_millis(self.cpu_ms.load(Ordering::Relaxed))
    }

    /// Puts a mutant to the tests: to the quick ones, or to all that it has not passed.
    pub(super) fn judge(&self, number: u32, is_quick: bool) -> Result<Verdict> {
        let reached_by = &self.reached_by[number as usize];
        if reached_by.is_empty() {
            return Ok(Verdict::Unreached);
        }
        let is_digest = |test: &u32| self.tests[*test as usize].is_digest;
        let (digests, mut left): (Vec<u32>, Vec<u32>) = reached_by.iter().copied().partition(is_digest);
        let mut passed = self.passed.lock().expect("no panic").remove(&number).unwrap_or_default();
        left.retain(|test| !passed.contains(test));
        let (mut batch_max, mut spent) = (FIRST_BATCH, Duration::ZERO);
        loop {
            let limit = if is_quick { QUICK.saturating_sub(spent) } else { Duration::MAX };
            let (batch, price) = self.next_batch(number, &mut left, batch_max, limit);
            if batch.is_empty() {
                break;
            }
            (batch_max, spent) = (batch_max * BATCH_GROWTH, spent + price);
            if let Some(found) = self.run(number, &batch)? {
                return Ok(Verdict::Found(found));
            }
            passed.extend(batch);
        }
        if is_quick && !(left.is_empty() && digests.is_empty()) {
            self.passed.lock().expect("no panic").insert(number, passed);
            return Ok(Verdict::Unsure);
        }
        for test in digests {
            if self.run(number, &[test])?.is_some() {
                return Ok(Verdict::Changed);
            }
        }
        Ok(Verdict::Survived)
    }

    /// Takes the tests that are to run next out of those that are left, with what they take: the best that
    /// takes at most `limit`, and others of its program, as long as they take less than `batch_max` together.
    fn next_batch(
        &self,
        number: u32,
        left: &mut Vec<u32>,
        batch_max: Duration,
        limit: Duration,
    ) -> (Vec<u32>, Duration) {
        let candidate = |&test: &u32| {
            let known = &self.tests[test as usize];
            Candidate {
                test,
                price: known.price(),
                is_own: order::is_own(&known.name, &self.files[number as usize]),
                reach: known.reached.len() as f64 / f64::from(self.count),
            }
        };
        let affordable = left.iter().filter(|&&test| self.tests[test as usize].price() <= limit);
        let mut candidates: Vec<Candidate> = affordable.map(candidate).collect();
        self.experience.sort(&mut candidates, self.places[number as usize]);
        let (mut batch, mut price, mut program) = (Vec::new(), Duration::ZERO, None);
        for candidate in &candidates {
            let of = self.tests[candidate.test as usize].program;
            let fits = price + candidate.price <= batch_max.min(limit);
            if *program.get_or_insert(of) == of && (batch.is_empty() || fits) {
                batch.push(candidate.test);
                price += candidate.price;
            }
        }
        left.retain(|test| !batch.contains(test));
        (batch, price)
    }

    /// Runs tests of one program with a mutant, until one fails. Returns which.
    fn run(&self, number: u32, tests: &[u32]) -> Result<Option<String>> {
        let known = || tests.iter().map(|&test| &self.tests[test as usize]);
        let took: Duration = known().map(|test| test.took).sum();
        let cpu: Duration = known().map(|test| test.cpu + CPU_TICK).sum();
        let cpu_limit = cpu * CPU_SLOWER_MAX + CPU_SLACK;
        let names: Vec<&str> = known().map(|test| test.name.as_str()).collect();
        let program = self.tests[tests[0] as usize].program;
        let mut command = self.built.programs[program].command(&self.built.root, &names, cpu_limit);
        let limit = took * SLOWER_MAX + SLACK;
        command.env(CHOSEN, number.to_string());
        let mut place = Some(self.cpus.take());
        let outcome = process::capture_until(&mut command, limit, has_failed, &mut || place = None)?;
        drop(place);
        self.cpu_ms.fetch_add(outcome.cpu.as_millis() as u64, Ordering::Relaxed);
        let failed = (!outcome.success()).then(|| failed_test(&outcome.stdout));
        for &test in tests {
            let name = &self.tests[test as usize].name;
            let has_found = failed.is_some_and(|failed| failed == Some(name));
            if has_found || has_passed(&outcome.stdout, name) {
                self.experience.note(test, self.places[number as usize], has_found);
            }
        }
        Ok(failed.map(|name| name.unwrap_or(self.built.programs[program].run.name).to_owned()))
    }
}

/// The test that failed, or the one in which the program was ended by a limit, or ended itself.
fn failed_test(stdout: &str) -> Option<&str> {
    let failed = stdout.lines().find(|line| has_failed(line));
    let last = || stdout.lines().rev().find(|line| line.starts_with("test ") && line.contains(" ..."));
    failed.or_else(last)?.strip_prefix("test ")?.split_whitespace().next()
}

fn has_passed(stdout: &str, test: &str) -> bool {
    stdout.lines().any(|line| {
        let rest = line.strip_prefix("test ").and_then(|rest| rest.strip_prefix(test));
        rest.is_some_and(|rest| rest.starts_with(" ") && rest.trim_end().ends_with("... ok"))
    })
}

/// Whether a line of a test program says that a test failed.
fn has_failed(line: &str) -> bool {
    line.starts_with("test ") && line.trim_end().ends_with("... FAILED")
}

/// Does `work` for 0, 1 … in so many threads, until it says false or fails.
pub(super) fn side_by_side(
    job_count: usize,
    count: usize,
    work: impl Fn(usize) -> Result<bool> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let go_on = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(());
            }
            let outcome = work(index);
            if !matches!(outcome, Ok(true)) {
                next.store(count, Ordering::Relaxed);
                return outcome.map(|_| ());
            }
        }
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..job_count.max(1)).map(|_| scope.spawn(go_on)).collect();
        jobs.into_iter().try_for_each(|job| job.join().expect("a job does not panic"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_is_known_by_its_line() {
        assert!(has_failed("test a::b ... FAILED\n"));
        assert!(has_failed("test a::b - should panic ... FAILED"));
        assert!(!has_failed("test a::b ... ok"));
        assert!(!has_failed("test result: FAILED. 1 passed"));
    }

    #[test]
    fn the_test_that_failed_is_named_or_the_last_that_began() {
        let said = "\nrunning 3 tests\ntest a::b ... ok\ntest a::c - should panic ... ok\ntest a::d ... ";
        assert_eq!(failed_test(said), Some("a::d"));
        assert_eq!(failed_test(&format!("{said}FAILED\n\nfailures:\n")), Some("a::d"));
        assert_eq!(failed_test(""), None);
        assert!(has_passed(said, "a::b") && has_passed(said, "a::c"));
        assert!(!has_passed(said, "a::d") && !has_passed(said, "a"));
    }

    #[test]
    fn a_place_is_free_again_when_what_had_it_waits_or_ends() {
        let places = Places { free: Mutex::new(1), is_free: Condvar::new() };
        thread::scope(|scope| {
            let taken = places.take();
            let second = scope.spawn(|| drop(places.take()));
            drop(taken);
            second.join().unwrap();
        });
        assert_eq!(*places.free.lock().unwrap(), 1);
    }

    #[test]
    fn jobs_side_by_side_do_each_piece_once() {
        let done = Mutex::new(Vec::new());
        side_by_side(3, 50, |index| {
            done.lock().unwrap().push(index);
            Ok(true)
        })
        .unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..50).collect::<Vec<_>>());
        assert!(side_by_side(2, 50, |index| if index == 7 { bail!("seven") } else { Ok(true) }).is_err());
    }
}
