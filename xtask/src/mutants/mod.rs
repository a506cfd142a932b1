//! `cargo xtask mutants`: generated bugs in a crate's source, one at a time; its tests and fault runs must
//! find each.
//!
//! The repository is copied to the target folder. In the copy every site of a crate (`sites`: operators,
//! constants, conditions, deleted statements, swapped match arms) asks at run time whether its mutant is
//! chosen, by a variable of the environment, so that one build serves thousands of mutants. Sites whose
//! mutant is no Rust (`a - b` of two sets, say) are taken out by what the compiler says (`blame`). Each test
//! is run once without a mutant and writes down which sites it comes by; a mutant is put to those tests only
//! (`judge`).
//!
//! Each verdict is kept in `conformance/mutants/CRATE` as it comes (`record`), and a run goes on with the
//! mutants that have none, in an order drawn by a seed; so thousands are judged over many runs. One that is
//! not found and has no reason there fails the command.

mod blame;
mod copy;
mod judge;
mod order;
mod pack;
mod programs;
mod record;
mod sites;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::paths;
use judge::{Built, Judge, Verdict};
use order::Place;
use pack::Pack;
use record::{Record, Word};
use sites::{Kind, Site};

/// Options of `cargo xtask mutants`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The crate: core, devices, fabric or sim.
    #[arg(long = "crate", default_value = "core")]
    subject: String,
    /// Only the first so many mutants in the order that the seed draws; 0: all.
    #[arg(long, default_value_t = 0)]
    sample: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after so many minutes of judging; 0: when all have a verdict.
    #[arg(long, default_value_t = 0)]
    minutes: u64,
    /// Only mutants whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Say which there are and what is known of each, and do nothing.
    #[arg(long)]
    list: bool,
    /// Judge those that no test calls wrong and that have no reason again, before those without a verdict.
    #[arg(long)]
    again: bool,
    /// Judge those that have a verdict again, whichever it is.
    #[arg(long)]
    fresh: bool,
    /// How many are judged at the same time; 0: one for each CPU.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Build only, and copy the test programs to this folder: to judge on a machine without a compiler.
    #[arg(long, value_name = "FOLDER", conflicts_with = "packed")]
    pack: Option<PathBuf>,
    /// Judge with the programs in this folder. Files that tests read by the path at which they were built
    /// must be there: `programs.json` names it.
    #[arg(long, value_name = "FOLDER")]
    packed: Option<PathBuf>,
}

impl Options {
    fn job_count(&self) -> usize {
        if self.jobs > 0 { self.jobs } else { paths::cpu_count() }
    }
}

/// A crate that is mutated.
pub(super) struct Subject {
    name: &'static str,
    /// Folders below its `src`; none: all of it.
    folders: &'static [&'static str],
    /// Folders and files of these without mutants. `device/conformance` is a suite of tests itself: its
    /// constants are its own choice, and broken devices in its tests show what it finds. `ring_loom.rs`
    /// and `fuzzing.rs` are part of builds with `--cfg loom` and `--cfg fuzzing` only.
    left_out: &'static [&'static str],
    /// Which tests judge a mutant: arguments of `cargo test`, and of the test program.
    runs: &'static [Run],
}

/// A way to judge.
pub(super) struct Run {
    name: &'static str,
    cargo: &'static [&'static str],
    arguments: &'static [&'static str],
    /// Among these: the tests that compare a committed digest of what processes do. They notice any change
    /// and call none wrong, so they are the last judges.
    digests: &'static [&'static str],
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "core",
        folders: &[],
        left_out: &["device/conformance/"],
        runs: &[
            Run {
                name: "unit tests",
                cargo: &["-p", "ayatori-core", "--lib"],
                arguments: &["--skip", "device::conformance::"],
                digests: &[],
            },
            Run {
                name: "fault runs",
                cargo: &["-p", "ayatori-sim", "--test", "fuzz"],
                arguments: &[
                    "worlds_keep_every_promise",
                    "a_world_",
                    "a_lock_",
                    "a_put_",
                    "a_step_",
                    "damage_",
                    "survivors_agree_shrink_and_go_on",
                    "worlds_give_the_committed_digest",
                ],
                digests: &["worlds_give_the_committed_digest"],
            },
            Run {
                name: "cluster tests",
                cargo: &["-p", "ayatori-sim", "--test", "cluster"],
                arguments: &[],
                digests: &[],
            },
        ],
    },
    Subject {
        name: "devices",
        folders: &["tcp", "shm"],
        left_out: &["shm/ring_loom.rs", "tcp/fuzzing.rs"],
        runs: &[Run {
            name: "tests",
            cargo: &["-p", "ayatori-devices", "--lib", "--tests"],
            arguments: &[],
            digests: &[],
        }],
    },
    Subject {
        name: "fabric",
        folders: &[],
        left_out: &[],
        runs: &[Run {
            name: "tests",
            cargo: &["-p", "ayatori-fabric", "--lib", "--tests"],
            arguments: &[],
            digests: &[],
        }],
    },
    Subject {
        name: "sim",
        folders: &["network"],
        left_out: &[],
        runs: &[
            Run { name: "unit tests", cargo: &["-p", "ayatori-sim", "--lib"], arguments: &[], digests: &[] },
            Run {
                name: "network tests",
                cargo: &["-p", "ayatori-sim", "--test", "network"],
                arguments: &[],
                digests: &[],
            },
            Run {
                name: "cluster tests",
                cargo: &["-p", "ayatori-sim", "--test", "cluster"],
                // What a machine file's keys change takes longer than all other tests, and asks no more of
                // the network than that something changes.
                arguments: &["--skip", "keys::"],
                digests: &[],
            },
        ],
    },
];

/// A file of the subject with its sites.
pub(super) struct Source {
    /// Below the root of the repository.
    path: String,
    text: String,
    sites: Vec<Site>,
    /// The number of the first site.
    first: u32,
}

/// All that can be changed in a crate.
pub(super) struct Mutants {
    subject: &'static Subject,
    sources: Vec<Source>,
    /// By number: a name that stays the same as long as the code does.
    names: Vec<String>,
}

impl Mutants {
    /// Those in the sources that git knows.
    fn find(subject: &'static Subject) -> Result<Self> {
        let prefix = prefix_of(subject);
        let mut files = copy::tracked(&prefix)?;
        files.retain(|file| {
            let inner = &file[prefix.len()..];
            let is_test = inner.ends_with("tests.rs") || inner.split('/').any(|part| part == "tests");
            let is_wanted =
                subject.folders.is_empty() || subject.folders.iter().any(|folder| inner.starts_with(folder));
            let is_left_out = subject.left_out.iter().any(|path| inner.starts_with(path));
            inner.ends_with(".rs") && !is_test && is_wanted && !is_left_out
        });
        Self::find_in(subject, files)
    }

    /// Those in these files.
    fn find_in(subject: &'static Subject, files: Vec<String>) -> Result<Self> {
        let prefix = prefix_of(subject);
        let mut all = Self { subject, sources: Vec::new(), names: Vec::new() };
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for path in files {
            let text = fs::read_to_string(paths::root().join(&path)).with_context(|| path.clone())?;
            let sites = sites::find(&text).with_context(|| path.clone())?;
            let first = all.names.len() as u32;
            for site in &sites {
                let name = format!(
                    "{}::{} {}: {}",
                    &path[prefix.len()..],
                    site.function,
                    site.kind.name(),
                    site.what
                );
                let times = seen.entry(name.clone()).or_default();
                *times += 1;
                all.names.push(if *times > 1 { format!("{name} ({times})") } else { name });
            }
            all.sources.push(Source { path, text, sites, first });
        }
        Ok(all)
    }

    fn count(&self) -> u32 {
        self.names.len() as u32
    }

    fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// The file and line of a mutant, for an editor.
    fn place(&self, number: u32) -> String {
        let source = self.sources.iter().rfind(|source| source.first <= number);
        source.map_or_else(String::new, |source| {
            format!("{}:{}", source.path, source.sites[(number - source.first) as usize].line)
        })
    }

    /// By mutant: its file, below the crate's `src`.
    fn inner_files(&self) -> Vec<String> {
        let inner = |name: &String| name.split("::").next().unwrap_or_default().to_owned();
        self.names.iter().map(inner).collect()
    }

    /// By mutant: the numbers of its file and its function.
    fn places(&self) -> Vec<Place> {
        let mut functions: BTreeMap<&str, u32> = BTreeMap::new();
        let mut places = Vec::new();
        for (file, source) in self.sources.iter().enumerate() {
            for number in source.first..source.first + source.sites.len() as u32 {
                let function = self.name(number).split(' ').next().unwrap_or_default();
                let next = functions.len() as u32;
                let function = *functions.entry(function).or_insert(next);
                places.push(Place { file: file as u32, function });
            }
        }
        places
    }

    fn kind(&self, number: u32) -> Option<Kind> {
        let source = self.sources.iter().rfind(|source| source.first <= number)?;
        Some(source.sites[(number - source.first) as usize].kind)
    }
}

/// Where a crate's sources begin.
fn prefix_of(subject: &Subject) -> String {
    format!("crates/{}/src/", subject.name)
}

/// Where a crate's verdicts are kept.
fn list_of(subject: &Subject) -> PathBuf {
    paths::root().join("conformance/mutants").join(subject.name)
}

/// The commit that a verdict is of.
fn commit() -> String {
    let output =
        Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(paths::root()).output();
    output.map_or_else(|_| "-".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `cargo xtask mutants`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let subject = SUBJECTS.iter().find(|subject| subject.name == options.subject);
    let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
    let subject = subject
        .with_context(|| format!("no mutants of `{}`, but of {}", options.subject, names.join(", ")))?;
    let pack = options.packed.as_deref().map(|folder| Pack::read(folder, subject)).transpose()?;
    let mutants = match &pack {
        Some(pack) => Mutants::find_in(subject, pack.files())?,
        None => Mutants::find(subject)?,
    };
    let mut record = Record::read(list_of(subject))?;
    let known: BTreeSet<&str> = mutants.names.iter().map(String::as_str).collect();
    let gone = record.keep(|name| known.contains(name));
    let wanted = |name: &str| options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let numbers: Vec<u32> = (0..mutants.count()).filter(|&number| wanted(mutants.name(number))).collect();
    if options.list {
        for &number in &numbers {
            let name = mutants.name(number);
            let word = record.get(name).map_or("-", |entry| entry.word.text());
            println!("{word}\t{}\t{name}", mutants.place(number));
        }
        println!("mutants {}: {} sites", subject.name, numbers.len());
        return Ok(());
    }
    if gone > 0 {
        println!("   {gone} verdicts are about code that is no more");
    }
    let mut chosen = drawn(numbers, |number| mutants.name(number), options.seed);
    if options.sample > 0 {
        chosen.truncate(options.sample);
    }
    chosen.retain(|&number| is_due(&record, mutants.name(number), options));
    line_by_line(&mut chosen, &mutants, &record);
    // Those that other tests are to find now, then those that have not been tried, then those put off.
    chosen.sort_by_key(|&number| match record.get(mutants.name(number)).map(|entry| entry.word) {
        Some(Word::Unsure) => 2,
        None => 1,
        Some(_) => 0,
    });
    if chosen.is_empty() {
        println!("   every mutant that is asked for has a verdict");
    } else {
        let invalid = (0..mutants.count()).filter(|&number| {
            !options.fresh
                && record.get(mutants.name(number)).is_some_and(|entry| entry.word == Word::Invalid)
        });
        let (built, commit) = match pack {
            Some(pack) => pack.open(&mutants)?,
            None => (Built::make(&mutants, invalid.collect())?, commit()),
        };
        if let Some(folder) = &options.pack {
            return pack::write(folder, &mutants, &built, &commit);
        }
        judge_all(&mutants, &chosen, &mut record, (built, commit), options)?;
    }
    record.write()?;
    close(&mutants, &record)
}

/// Whether a mutant is to be judged.
fn is_due(record: &Record, name: &str, options: &Options) -> bool {
    options.fresh
        || record.get(name).is_none_or(|entry| {
            entry.word == Word::Unsure || options.again && (entry.is_open() || entry.word == Word::Changed)
        })
}

/// Judges these in turn with what was built of a commit, for as long as there is time.
fn judge_all(
    mutants: &Mutants,
    chosen: &[u32],
    record: &mut Record,
    (built, commit): (Built, String),
    options: &Options,
) -> Result<()> {
    let judge = Judge::begin(mutants, built, options.job_count())?;
    for number in (0..mutants.count()).filter(|&number| !judge.is_possible(number)) {
        let name = mutants.name(number);
        if record.get(name).is_none_or(|entry| entry.word != Word::Invalid) {
            record.set(name, Word::Invalid, &commit);
        }
    }
    record.write()?;
    let possible: Vec<u32> = chosen.iter().copied().filter(|&number| judge.is_possible(number)).collect();
    println!(
        "mutants {}: {} sites, {} of them compile, {} to judge",
        mutants.subject.name,
        mutants.count(),
        judge.possible_count(),
        possible.len()
    );
    let begin = Instant::now();
    let limit = (options.minutes > 0).then(|| Duration::from_secs(options.minutes * 60));
    let progress = Mutex::new(Progress { record, written: Instant::now(), done: 0 });
    let is_unsure = |number: &u32| {
        let progress = progress.lock().expect("no panic");
        progress.record.get(mutants.name(*number)).is_some_and(|entry| entry.word == Word::Unsure)
    };
    let is_again = options.again || options.fresh;
    for is_first in [true, false] {
        // What no quick test finds is put to all after the others: those of earlier runs without waiting for
        // the last of this run's. What no test comes by costs nothing.
        let is_put_off = |number: &u32| is_unsure(number) && !(is_first && is_again);
        let all = possible.iter().map(|&number| (is_put_off(&number), number));
        let mut due: Vec<(bool, u32)> = all.filter(|&(is_put_off, _)| is_first || is_put_off).collect();
        due.sort_by_key(|&(is_put_off, number)| (is_put_off, judge.is_reached(number)));
        judge::side_by_side(options.job_count() * judge::WAITING_MAX, due.len(), |index| {
            if limit.is_some_and(|limit| begin.elapsed() >= limit) {
                return Ok(false);
            }
            let (is_put_off, number) = due[index];
            let verdict = judge.judge(number, !is_put_off)?;
            progress.lock().expect("no panic").note(mutants, number, &verdict, &commit)?;
            Ok(true)
        })?;
    }
    let done = progress.lock().expect("no panic").done;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "   {done} judged in {seconds:.0} s, {:.0} a minute; {:.2} s of CPU time each",
        done as f64 * 60.0 / seconds.max(1e-3),
        judge.cpu_time().as_secs_f64() / done.max(1) as f64
    );
    let left = possible.iter().filter(|number| is_unsure(number)).count();
    if left > 0 {
        println!("   time is up: {left} are put off until other mutants have a verdict");
    }
    Ok(())
}

/// What all jobs add to.
struct Progress<'r> {
    record: &'r mut Record,
    written: Instant,
    done: usize,
}

impl Progress<'_> {
    /// How often the record is written: a run that is cut short loses what came since.
    const WRITE_INTERVAL: Duration = Duration::from_secs(1);

    fn note(&mut self, mutants: &Mutants, number: u32, verdict: &Verdict, commit: &str) -> Result<()> {
        let name = mutants.name(number);
        self.record.set(name, Word::from(verdict), commit);
        self.done += usize::from(!matches!(verdict, Verdict::Unsure));
        if self.written.elapsed() >= Self::WRITE_INTERVAL {
            self.record.write()?;
            self.written = Instant::now();
        }
        let reason = self.record.get(name).and_then(|entry| entry.reason.as_deref());
        println!("{}  {}  {name}", verdict.words(reason), mutants.place(number));
        Ok(())
    }
}

/// Those first on whose line fewest mutants have a verdict: what is found of one mutant of a line says much
/// of the others, so that one of each line is a good sample (G. Petrovic and M. Ivankovic, State of mutation
/// testing at Google, ICSE-SEIP 2018, section 4). The others are judged after it.
fn line_by_line(chosen: &mut [u32], mutants: &Mutants, record: &Record) {
    let judged = |number: &u32| {
        let entry = record.get(mutants.name(*number));
        entry.is_some_and(|entry| entry.word != Word::Invalid)
    };
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for number in (0..mutants.count()).filter(judged) {
        *counts.entry(mutants.place(number)).or_default() += 1;
    }
    let mut rank = |number: u32| {
        let count = counts.entry(mutants.place(number)).or_default();
        *count += 1;
        *count
    };
    let ranks: BTreeMap<u32, u32> = chosen.iter().map(|&number| (number, rank(number))).collect();
    chosen.sort_by_key(|number| ranks[number]);
}

/// These in an order that the seed draws; a mutant keeps its place among the others when code around it
/// changes.
fn drawn<'n>(mut numbers: Vec<u32>, name: impl Fn(u32) -> &'n str, seed: u64) -> Vec<u32> {
    // FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), mixed by the generator.
    let place = |number: u32| {
        let hash = name(number).bytes().fold(0xCBF2_9CE4_8422_2325 ^ seed, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        ayatori_random::Random::new(hash).next_u64()
    };
    numbers.sort_by_cached_key(|&number| (place(number), name(number).to_owned()));
    numbers
}

/// What is known of the crate's mutants by now, all runs together.
///
/// # Errors
/// One is not found and has no reason.
fn close(mutants: &Mutants, record: &Record) -> Result<()> {
    let subject = mutants.subject.name;
    let mut kinds: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
    let (mut invalid, mut found, mut changed, mut listed, mut survived, mut unreached) = (0, 0, 0, 0, 0, 0);
    let mut unsure = 0;
    for number in 0..mutants.count() {
        let Some(entry) = record.get(mutants.name(number)) else { continue };
        match entry.word {
            Word::Invalid => invalid += 1,
            Word::Found => found += 1,
            Word::Changed => changed += 1,
            Word::Unsure => unsure += 1,
            _ if entry.reason.is_some() => listed += 1,
            Word::Survived => survived += 1,
            Word::Unreached => unreached += 1,
        }
        if !matches!(entry.word, Word::Invalid | Word::Unsure)
            && let Some(kind) = mutants.kind(number)
        {
            let (found, all) = kinds.entry(kind).or_default();
            *found += usize::from(entry.word == Word::Found);
            *all += 1;
        }
    }
    let judged = found + changed + listed + survived + unreached;
    let all = mutants.count() as usize - invalid;
    let share = found as f64 / judged.max(1) as f64 * 100.0;
    let kinds: Vec<String> =
        kinds.iter().map(|(kind, (found, all))| format!("{} {found} of {all}", kind.name())).collect();
    println!(
        "mutants {subject}: {judged} of {all} have a verdict: {found} found ({share:.0} %), {changed} \
         noticed by the committed digest only, {listed} listed with a reason, {survived} reached and not \
         found, {unreached} not reached"
    );
    if unsure > 0 {
        println!("mutants {subject}: {unsure} more are not found by the quick tests");
    }
    println!("mutants {subject}, found by kind: {}", kinds.join(", "));
    if survived + unreached > 0 {
        bail!(
            "{} mutants are not found and have no reason in conformance/mutants/{subject}",
            survived + unreached
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_seeds_and_outlives_an_edit() {
        let names: Vec<String> = (0..100).map(|number| format!("a.rs::f constant: {number}")).collect();
        let draw = |seed| drawn((0..100).collect(), |number| &names[number as usize], seed);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        let without: Vec<u32> = drawn((1..100).collect(), |number| &names[number as usize], 3);
        let mut all = draw(3);
        all.retain(|&number| number != 0);
        assert_eq!(without, all);
    }

    #[test]
    fn every_subject_has_mutants_with_names_of_their_own() {
        for subject in &SUBJECTS {
            let mutants = Mutants::find(subject).unwrap();
            let names: BTreeSet<&String> = mutants.names.iter().collect();
            assert_eq!(names.len(), mutants.names.len(), "{}", subject.name);
            assert!(names.len() > 100, "{}: {}", subject.name, names.len());
        }
    }

    #[test]
    fn the_verdicts_that_are_kept_can_be_read() {
        for subject in &SUBJECTS {
            Record::read(list_of(subject)).unwrap();
        }
    }
}
