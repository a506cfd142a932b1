//! One build with all mutants of a crate, and what its tests say of each.
//!
//! Each test runs once by itself without a mutant and tells which sites it comes by. A mutant is put to the
//! tests that come by it only: the short ones in one process for each program, which ends with the first that
//! fails, then the others one by one, those first that have found most for the time they take, and last those
//! that compare a committed digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;

use super::blame::blame;
use super::copy::{Copy, write_if_other};
use super::sites::{self, Instrumented};
use super::{Mutants, Run, Subject};
use crate::process;

/// What came of a mutant.
pub(super) enum Verdict {
    /// This test failed, or something in one of several.
    Found(String),
    /// No test calls it wrong, but a committed digest of what processes do is another one.
    Changed,
    /// No test comes by.
    Unreached,
    /// Tests come by, and none fails.
    Survived,
}

impl Verdict {
    pub(super) fn words(&self, listed: Option<&str>) -> String {
        match (self, listed) {
            (Self::Found(test), _) => format!("found by {test}"),
            (Self::Changed, _) => "changed: noticed by the committed digest only".to_owned(),
            (Self::Unreached, None) => "NOT REACHED".to_owned(),
            (Self::Survived, None) => "NOT FOUND".to_owned(),
            (_, Some(reason)) => format!("listed ({reason})"),
        }
    }
}

/// The build's time limit.
const BUILD_LIMIT: Duration = Duration::from_secs(1_800);
/// The limit of a test without a mutant; one with a mutant gets so many times as long as that took, and some
/// time more.
const TEST_LIMIT: Duration = Duration::from_secs(900);
const SLOWER_MAX: u32 = 10;
const SLACK: Duration = Duration::from_secs(120);
const CPU_SLACK: Duration = Duration::from_secs(3);
/// Tests that take less run together in one process.
const SHORT_MAX: Duration = Duration::from_millis(200);
/// Private memory, 6 GiB: the tests without a mutant run within it, too. They map far more that is shared.
const MEMORY_KIB: u64 = 6 << 20;
/// How often sites may be taken out because of what the compiler says.
const BUILDS_MAX: usize = 60;

/// The variables that the instrumented crate reads.
const CHOSEN: &str = "AYATORI_MUTANT";
const TRACE: &str = "AYATORI_MUTANT_TRACE";

/// What the sites ask; appended to the crate's root.
fn module(count: u32) -> String {
    format!(
        r#"
#[doc(hidden)]
#[allow(warnings, clippy::all)]
pub mod mutants {{
    extern crate std;
    use std::io::Write;
    use std::sync::atomic::{{AtomicBool, AtomicU32, Ordering}};
    const NONE: u32 = 1 << 30;
    const TRACING: u32 = NONE + 1;
    const UNKNOWN: u32 = NONE + 2;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
    static SEEN: [AtomicBool; {count}] = [const {{ AtomicBool::new(false) }}; {count}];
    #[inline]
    pub fn is(number: u32) -> bool {{
        let chosen = CHOSEN.load(Ordering::Relaxed);
        if chosen <= NONE {{ chosen == number }} else {{ ask(number) }}
    }}
    #[inline(never)]
    fn ask(number: u32) -> bool {{
        if CHOSEN.load(Ordering::Relaxed) == UNKNOWN {{
            let usual = if std::env::var_os("{TRACE}").is_some() {{ TRACING }} else {{ NONE }};
            let chosen = std::env::var("{CHOSEN}").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
            CHOSEN.store(chosen, Ordering::Relaxed);
            return is(number);
        }}
        let seen = &SEEN[number as usize];
        if !seen.load(Ordering::Relaxed) && !seen.swap(true, Ordering::Relaxed) {{
            let trace = std::env::var_os("{TRACE}").unwrap_or_default();
            let file = std::fs::OpenOptions::new().append(true).create(true).open(trace);
            let _ = file.and_then(|mut file| file.write_all(std::format!("{{number}}\n").as_bytes()));
        }}
        false
    }}
}}
"#
    )
}

/// A test program.
struct Program {
    run: &'static Run,
    path: PathBuf,
}

/// A test, and what it takes without a mutant.
struct Test {
    program: usize,
    name: String,
    took: Duration,
    is_digest: bool,
    /// How many mutants it has found alone.
    found_count: AtomicU32,
}

impl Test {
    /// Seconds for each mutant that it finds: what it took, and one mutant more, for a test is worth a try.
    fn price(&self) -> Duration {
        self.took / (self.found_count.load(Ordering::Relaxed) + 1)
    }
}

/// The build.
pub(super) struct Judge {
    impossible: BTreeSet<u32>,
    count: u32,
    root: PathBuf,
    programs: Vec<Program>,
    /// The quickest first.
    tests: Vec<Test>,
    /// By mutant: the tests that come by.
    reached_by: Vec<Vec<u32>>,
}

impl Judge {
    /// Builds the tests with all mutants that the compiler takes, and runs them without one. `impossible`:
    /// those that it is known to refuse.
    pub(super) fn build(mutants: &Mutants, mut impossible: BTreeSet<u32>, job_count: usize) -> Result<Self> {
        let lib = format!("crates/{}/src/lib.rs", mutants.subject.name);
        let mut keep: BTreeSet<String> = mutants.sources.iter().map(|source| source.path.clone()).collect();
        keep.insert(lib.clone());
        let copy = Copy::make(&keep)?;
        for _ in 0..BUILDS_MAX {
            let instrumented = write(mutants, &copy, &lib, &impossible)?;
            match build_all(&copy, mutants.subject)? {
                Ok(programs) => {
                    let mut judge = Self {
                        impossible,
                        count: mutants.count(),
                        root: copy.root,
                        programs,
                        tests: Vec::new(),
                        reached_by: vec![Vec::new(); mutants.count() as usize],
                    };
                    judge.trace_all(job_count)?;
                    return Ok(judge);
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

    pub(super) fn is_possible(&self, number: u32) -> bool {
        !self.impossible.contains(&number)
    }

    pub(super) fn possible_count(&self) -> usize {
        self.count as usize - self.impossible.len()
    }

    /// Runs each test by itself without a mutant: it must succeed, and tells where it comes by.
    fn trace_all(&mut self, job_count: usize) -> Result<()> {
        let mut names = Vec::new();
        for index in 0..self.programs.len() {
            names.extend(self.names(index)?.into_iter().map(|name| (index, name)));
        }
        let results = Mutex::new(Vec::new());
        side_by_side(job_count, names.len(), |index| {
            let (program, name) = &names[index];
            let traced = self.trace(*program, name, index)?;
            results.lock().expect("no panic").push((index, traced));
            Ok(true)
        })?;
        let mut results = results.into_inner().expect("no panic");
        results.sort_by_key(|(index, (took, _))| (*took, *index));
        for (place, (index, (took, reached))) in results.into_iter().enumerate() {
            let (program, name) = names[index].clone();
            let is_digest = self.programs[program].run.digests.contains(&name.as_str());
            self.tests.push(Test { program, name, took, is_digest, found_count: AtomicU32::new(0) });
            for number in reached.into_iter().filter(|&number| number < self.count) {
                self.reached_by[number as usize].push(place as u32);
            }
        }
        let all: f64 = self.tests.iter().map(|test| test.took.as_secs_f64()).sum();
        let reached = self.reached_by.iter().filter(|tests| !tests.is_empty()).count();
        println!("   {} tests, {all:.1} s one by one, {reached} sites reached", self.tests.len());
        for test in self.tests.iter().rev().take_while(|test| test.took >= SHORT_MAX) {
            println!("   {}: {:.1} s", test.name, test.took.as_secs_f64());
        }
        Ok(())
    }

    /// The tests of a program that its run is about and that are not ignored.
    fn names(&self, program: usize) -> Result<Vec<String>> {
        let listed = |more: &[&str]| -> Result<BTreeSet<String>> {
            let mut command = Command::new(&self.programs[program].path);
            command.args(self.programs[program].run.arguments).args(["--list", "--format", "terse"]);
            let outcome = process::capture(command.args(more).current_dir(&self.root), TEST_LIMIT)?;
            let names = outcome.stdout.lines().filter_map(|line| line.strip_suffix(": test"));
            Ok(names.map(str::to_owned).collect())
        };
        let ignored = listed(&["--ignored"])?;
        Ok(listed(&[])?.difference(&ignored).cloned().collect())
    }

    fn trace(&self, program: usize, name: &str, index: usize) -> Result<(Duration, BTreeSet<u32>)> {
        let trace = self.root.with_extension(format!("trace-{index}"));
        let _ = fs::remove_file(&trace);
        let mut command = self.command(program, &[name], TEST_LIMIT);
        let outcome = process::capture(command.env(TRACE, &trace), TEST_LIMIT)?;
        if !outcome.success() {
            bail!("{name} fails without a mutant: {}", process::last_lines(&outcome.stdout, 20));
        }
        let text = fs::read_to_string(&trace).unwrap_or_default();
        let _ = fs::remove_file(&trace);
        Ok((outcome.wall, text.lines().filter_map(|line| line.parse().ok()).collect()))
    }

    /// A mutant may never end or eat up all memory. So the programs run under limits of CPU time, which a
    /// loaded machine does not stretch, and of memory; the wall-clock limit is for those that wait.
    fn command(&self, program: usize, tests: &[&str], cpu_limit: Duration) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("ulimit -t {}; ulimit -d {MEMORY_KIB}; exec \"$0\" \"$@\"", cpu_limit.as_secs()));
        command.arg(&self.programs[program].path).args(["--test-threads", "1", "--exact"]).args(tests);
        command.current_dir(folder_of(&self.root, self.programs[program].run));
        command
    }

    /// Puts a mutant to the tests.
    pub(super) fn judge(&self, number: u32) -> Result<Verdict> {
        let reached_by = &self.reached_by[number as usize];
        if reached_by.is_empty() {
            return Ok(Verdict::Unreached);
        }
        let tests = reached_by.iter().map(|&index| &self.tests[index as usize]);
        let (digests, tests): (Vec<&Test>, Vec<&Test>) = tests.partition(|test| test.is_digest);
        let (short, mut long): (Vec<&Test>, Vec<&Test>) =
            tests.into_iter().partition(|test| test.took < SHORT_MAX);
        for program in 0..self.programs.len() {
            let batch: Vec<&Test> = short.iter().copied().filter(|test| test.program == program).collect();
            if !batch.is_empty()
                && let Some(found) = self.run(number, &batch)?
            {
                return Ok(Verdict::Found(found));
            }
        }
        long.sort_by_key(|test| test.price());
        for test in long {
            if let Some(found) = self.run(number, &[test])? {
                test.found_count.fetch_add(1, Ordering::Relaxed);
                return Ok(Verdict::Found(found));
            }
        }
        for test in digests {
            if self.run(number, &[test])?.is_some() {
                return Ok(Verdict::Changed);
            }
        }
        Ok(Verdict::Survived)
    }

    /// Runs tests of one program with a mutant, until one fails. Returns which.
    fn run(&self, number: u32, tests: &[&Test]) -> Result<Option<String>> {
        let took: Duration = tests.iter().map(|test| test.took).sum();
        // Each CPU may work for as long as all the tests took.
        let cpu_limit = took * SLOWER_MAX * crate::paths::cpu_count() as u32 + CPU_SLACK;
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let mut command = self.command(tests[0].program, &names, cpu_limit);
        let limit = took * SLOWER_MAX + SLACK;
        let outcome = process::capture_until(command.env(CHOSEN, number.to_string()), limit, has_failed)?;
        if outcome.success() {
            return Ok(None);
        }
        let failed = outcome.stdout.lines().find(|line| has_failed(line));
        let name = failed.and_then(|line| line.split_whitespace().nth(1));
        // It was ended by a limit, or ended itself.
        let last = || outcome.stdout.lines().rev().find_map(|line| line.strip_prefix("test "));
        Ok(Some(name.or_else(last).unwrap_or(self.programs[tests[0].program].run.name).to_owned()))
    }
}

/// Whether a line of a test program says that a test failed.
fn has_failed(line: &str) -> bool {
    line.starts_with("test ") && line.trim_end().ends_with("... FAILED")
}

/// Where `cargo test` starts a program: in its package's folder.
fn folder_of(root: &Path, run: &Run) -> PathBuf {
    let package = run.cargo.iter().find_map(|word| word.strip_prefix("ayatori-"));
    package.map_or_else(|| root.to_owned(), |package| root.join("crates").join(package))
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

/// Writes the crate with its mutants into the copy.
fn write(
    mutants: &Mutants,
    copy: &Copy,
    lib: &str,
    out: &BTreeSet<u32>,
) -> Result<BTreeMap<String, Instrumented>> {
    let mut all = BTreeMap::new();
    for source in &mutants.sources {
        let number = |index: usize| Some(source.first + index as u32).filter(|number| !out.contains(number));
        all.insert(source.path.clone(), sites::instrument(&source.text, &source.sites, number));
    }
    for (path, instrumented) in &all {
        let mut text = instrumented.text.clone();
        if path == lib {
            text += &module(mutants.count());
        }
        write_if_other(&copy.root.join(path), text.as_bytes())?;
    }
    if !all.contains_key(lib) {
        let text = fs::read_to_string(crate::paths::root().join(lib))? + &module(mutants.count());
        write_if_other(&copy.root.join(lib), text.as_bytes())?;
    }
    Ok(all)
}

/// What cargo makes, or what the compiler says against it.
type Built<T> = Result<T, Vec<Value>>;

/// Builds the programs of all runs.
fn build_all(copy: &Copy, subject: &Subject) -> Result<Built<Vec<Program>>> {
    // A check finds most of what is no Rust, and is several times as quick as a build.
    let library = format!("ayatori-{}", subject.name);
    if let Err(messages) = cargo(copy, subject, &["check", "-p", &library, "--lib"])? {
        return Ok(Err(messages));
    }
    let mut programs = Vec::new();
    for run in subject.runs {
        let words = [&["test", "--no-run"], run.cargo].concat();
        match cargo(copy, subject, &words)? {
            Ok(paths) => programs.extend(paths.into_iter().map(|path| Program { run, path })),
            Err(messages) => return Ok(Err(messages)),
        }
    }
    Ok(Ok(programs))
}

/// Runs cargo. Returns the test programs.
fn cargo(copy: &Copy, subject: &Subject, words: &[&str]) -> Result<Built<Vec<PathBuf>>> {
    let mut cargo = Command::new("cargo");
    cargo.args(words).arg("--message-format=json").current_dir(&copy.root);
    // Some crates are not optimised for a quick build; here they run thousands of times.
    cargo.args(["--config", &format!("profile.dev.package.ayatori-{}.opt-level=1", subject.name)]);
    cargo.env("CARGO_TARGET_DIR", &copy.target).env("RUSTFLAGS", "--cap-lints allow");
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    let outcome = process::capture(&mut cargo, BUILD_LIMIT)?;
    let messages: Vec<Value> =
        outcome.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if outcome.success() {
        let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
        return Ok(Ok(tests
            .filter_map(|message| message["executable"].as_str())
            .map(PathBuf::from)
            .collect()));
    }
    let is_error = |message: &&Value| message["message"]["level"] == "error";
    let errors: Vec<Value> =
        messages.iter().filter(is_error).map(|message| message["message"].clone()).collect();
    if errors.is_empty() {
        bail!(
            "`{}`: {}\n{}",
            process::line(&cargo),
            outcome.reason(),
            process::last_lines(&outcome.stderr, 20)
        );
    }
    Ok(Err(errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_that_sites_ask_is_rust() {
        assert!(syn::parse_file(&module(3)).is_ok());
    }

    #[test]
    fn a_failed_test_is_known_by_its_line() {
        assert!(has_failed("test a::b ... FAILED\n"));
        assert!(has_failed("test a::b - should panic ... FAILED"));
        assert!(!has_failed("test a::b ... ok"));
        assert!(!has_failed("test result: FAILED. 1 passed"));
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
