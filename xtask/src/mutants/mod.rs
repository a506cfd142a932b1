//! `cargo xtask mutants`: generated bugs in a crate's source, one at a time; its tests and fault runs must find each.
//!
//! The repository is copied to the target folder. In the copy every site of a crate (`sites`: operators, constants,
//! conditions, deleted statements, swapped match arms) asks at run time whether its mutant is chosen, by a variable of the
//! environment, so that one build serves thousands of mutants. Sites whose mutant is no Rust (`a - b` of two sets, say) are
//! taken out by what the compiler says. A run without a mutant writes down which sites the tests reach at all.
//!
//! Mutants that nobody finds stand in `conformance/mutants/CRATE`, each with a reason; one that is not listed there fails the
//! command. A sample is drawn by a seed.

mod copy;
mod judge;
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::paths;
use judge::{Judge, Verdict};
use sites::{Kind, Site};

/// Options of `cargo xtask mutants`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The crate: core, devices, fabric or sim.
    #[arg(long = "crate", default_value = "core")]
    subject: String,
    /// Only so many mutants, drawn by the seed; 0: all.
    #[arg(long, default_value_t = 0)]
    sample: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only mutants whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Say which there are, and do nothing.
    #[arg(long)]
    list: bool,
    /// Add mutants that were not found to the list, as not judged yet.
    #[arg(long)]
    record: bool,
}

/// A crate that is mutated.
pub(super) struct Subject {
    name: &'static str,
    /// Folders below its `src`; none: all of it.
    folders: &'static [&'static str],
    /// Which tests judge a mutant: arguments of `cargo test`, and of the test program.
    runs: &'static [Run],
}

/// A way to judge.
pub(super) struct Run {
    name: &'static str,
    cargo: &'static [&'static str],
    arguments: &'static [&'static str],
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "core",
        folders: &[],
        runs: &[
            Run { name: "unit tests", cargo: &["-p", "ayatori-core", "--lib"], arguments: &[] },
            Run {
                name: "fault runs",
                cargo: &["-p", "ayatori-sim", "--test", "fuzz"],
                arguments: &["worlds_keep_every_promise"],
            },
        ],
    },
    Subject {
        name: "devices",
        folders: &["tcp", "shm"],
        runs: &[Run { name: "tests", cargo: &["-p", "ayatori-devices", "--lib", "--tests"], arguments: &[] }],
    },
    Subject {
        name: "fabric",
        folders: &[],
        runs: &[Run { name: "tests", cargo: &["-p", "ayatori-fabric", "--lib", "--tests"], arguments: &[] }],
    },
    Subject {
        name: "sim",
        folders: &["network"],
        runs: &[
            Run { name: "unit tests", cargo: &["-p", "ayatori-sim", "--lib"], arguments: &[] },
            Run { name: "network tests", cargo: &["-p", "ayatori-sim", "--test", "network"], arguments: &[] },
            Run { name: "cluster tests", cargo: &["-p", "ayatori-sim", "--test", "cluster"], arguments: &[] },
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
    fn find(subject: &'static Subject) -> Result<Self> {
        let prefix = format!("crates/{}/src/", subject.name);
        let mut files = copy::tracked(&prefix)?;
        files.retain(|file| {
            let inner = &file[prefix.len()..];
            let is_test = inner.ends_with("tests.rs") || inner.split('/').any(|part| part == "tests");
            let is_wanted =
                subject.folders.is_empty() || subject.folders.iter().any(|folder| inner.starts_with(folder));
            inner.ends_with(".rs") && !is_test && is_wanted
        });
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

    fn kind(&self, number: u32) -> Option<Kind> {
        let source = self.sources.iter().rfind(|source| source.first <= number)?;
        Some(source.sites[(number - source.first) as usize].kind)
    }
}

/// Mutants that no test finds, by name, each with the reason.
struct Survivors {
    path: PathBuf,
    reasons: BTreeMap<String, String>,
}

/// The reason of one that nobody has thought about.
const NOT_JUDGED: &str = "not judged yet";

impl Survivors {
    fn read(subject: &Subject) -> Self {
        let path = paths::root().join("conformance/mutants").join(subject.name);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let line =
            |line: &str| line.split_once('\t').map(|(reason, name)| (name.to_owned(), reason.to_owned()));
        Self { path, reasons: text.lines().filter_map(line).collect() }
    }

    fn write(&self) -> Result<()> {
        fs::create_dir_all(self.path.parent().context("a list has a folder")?)?;
        let lines: String = self.reasons.iter().map(|(name, reason)| format!("{reason}\t{name}\n")).collect();
        fs::write(&self.path, lines).with_context(|| self.path.display().to_string())
    }
}

/// `cargo xtask mutants`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let subject = SUBJECTS.iter().find(|subject| subject.name == options.subject);
    let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
    let subject = subject
        .with_context(|| format!("no mutants of `{}`, but of {}", options.subject, names.join(", ")))?;
    let mutants = Mutants::find(subject)?;
    let wanted = |name: &str| options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let numbers: Vec<u32> = (0..mutants.count()).filter(|&number| wanted(mutants.name(number))).collect();
    if options.list {
        numbers.iter().for_each(|&number| println!("{}\t{}", mutants.place(number), mutants.name(number)));
        println!("mutants {}: {} sites", subject.name, numbers.len());
        return Ok(());
    }
    let judge = Judge::build(&mutants)?;
    let possible: Vec<u32> = numbers.into_iter().filter(|&number| judge.is_possible(number)).collect();
    println!(
        "mutants {}: {} sites, {} of them compile",
        subject.name,
        mutants.count(),
        judge.possible_count()
    );
    let chosen = sample(possible, options.sample, options.seed);
    let mut survivors = Survivors::read(subject);
    let mut tally = Tally::default();
    for number in chosen {
        let verdict = judge.judge(number)?;
        let name = mutants.name(number);
        let listed = survivors.reasons.get(name).cloned();
        println!("{}  {}  {name}", verdict.words(listed.as_deref()), mutants.place(number));
        tally.add(&verdict, listed.is_some(), mutants.kind(number), name);
        match verdict {
            Verdict::Found(_) => {
                if survivors.reasons.remove(name).is_some() {
                    println!("   it is found now: its line leaves the list");
                }
            }
            Verdict::Unreached | Verdict::Survived if options.record => {
                survivors.reasons.entry(name.to_owned()).or_insert_with(|| NOT_JUDGED.to_owned());
            }
            Verdict::Unreached | Verdict::Survived => {}
        }
    }
    if options.record {
        survivors.write()?;
    }
    tally.close(subject.name, options)
}

/// So many of these, drawn by a seed, in their order.
fn sample(numbers: Vec<u32>, count: usize, seed: u64) -> Vec<u32> {
    if count == 0 || count >= numbers.len() {
        return numbers;
    }
    let mut random = crate::random::Random::new(seed);
    let mut places = BTreeSet::new();
    while places.len() < count {
        places.insert(random.below(numbers.len() as u64) as usize);
    }
    places.into_iter().map(|place| numbers[place]).collect()
}

#[derive(Default)]
struct Tally {
    found: usize,
    survived: usize,
    unreached: usize,
    unlisted: Vec<String>,
    /// By kind: how many were found, of how many.
    kinds: BTreeMap<Kind, (usize, usize)>,
}

impl Tally {
    fn add(&mut self, verdict: &Verdict, is_listed: bool, kind: Option<Kind>, name: &str) {
        let is_found = matches!(verdict, Verdict::Found(_));
        match verdict {
            Verdict::Found(_) => self.found += 1,
            Verdict::Survived => self.survived += 1,
            Verdict::Unreached => self.unreached += 1,
        }
        if !is_found && !is_listed {
            self.unlisted.push(name.to_owned());
        }
        if let Some(kind) = kind {
            let (found, all) = self.kinds.entry(kind).or_default();
            *found += usize::from(is_found);
            *all += 1;
        }
    }

    fn close(self, subject: &str, options: &Options) -> Result<()> {
        let Self { found, survived, unreached, unlisted, kinds } = self;
        let all = found + survived + unreached;
        let share = found as f64 / all.max(1) as f64 * 100.0;
        let kinds: Vec<String> =
            kinds.iter().map(|(kind, (found, all))| format!("{} {found} of {all}", kind.name())).collect();
        println!(
            "mutants {subject} (seed {}): {found} of {all} found ({share:.0} %), {survived} reached and not found, \
             {unreached} not reached; {}",
            options.seed,
            kinds.join(", ")
        );
        if !unlisted.is_empty() && !options.record {
            bail!("{} mutants are not found and not listed in conformance/mutants/{subject}", unlisted.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        let numbers: Vec<u32> = (0..100).collect();
        let draw = |seed| sample(numbers.clone(), 10, seed);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        assert_eq!(draw(3).len(), 10);
        assert_eq!(sample(numbers.clone(), 0, 1), numbers);
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
    fn every_listed_survivor_is_a_mutant_of_today() {
        for subject in &SUBJECTS {
            let mutants = Mutants::find(subject).unwrap();
            let names: BTreeSet<&String> = mutants.names.iter().collect();
            for name in Survivors::read(subject).reasons.keys() {
                assert!(names.contains(name), "conformance/mutants/{}: no such mutant: {name}", subject.name);
            }
        }
    }
}
