//! One build with all mutants of a crate, and what its tests say of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;

use super::copy::{Copy, write_if_other};
use super::sites::{self, Instrumented, Kind};
use super::{Mutants, Run};
use crate::process;

/// What came of a mutant.
pub(super) enum Verdict {
    /// This run failed.
    Found(&'static str),
    /// No run comes by.
    Unreached,
    /// Runs come by, and none fails.
    Survived,
}

impl Verdict {
    pub(super) fn words(&self, listed: Option<&str>) -> String {
        match (self, listed) {
            (Self::Found(run), _) => format!("found by {run}"),
            (Self::Unreached, None) => "NOT REACHED".to_owned(),
            (Self::Survived, None) => "NOT FOUND".to_owned(),
            (_, Some(reason)) => format!("listed ({reason})"),
        }
    }
}

/// The build's time limit.
const BUILD_LIMIT: Duration = Duration::from_secs(1_800);
/// The limit of a run without a mutant; one with a mutant gets so many times as long as that took, and some time more.
const RUN_LIMIT: Duration = Duration::from_secs(900);
const SLOWER_MAX: u32 = 10;
const SLACK: Duration = Duration::from_secs(60);
const CPU_SLACK: Duration = Duration::from_secs(5);
/// 8 GiB: the tests without a mutant run within it, too.
const ADDRESS_SPACE_KIB: u64 = 8 << 20;
/// How often sites may be taken out because of what the compiler says.
const BUILDS_MAX: usize = 20;

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
    #[cold]
    fn ask(number: u32) -> bool {{
        let trace = std::env::var("{TRACE}").ok();
        let usual = if trace.is_some() {{ TRACING }} else {{ NONE }};
        let chosen = std::env::var("{CHOSEN}").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
        CHOSEN.store(chosen, Ordering::Relaxed);
        if let Some(trace) = trace && !SEEN[number as usize].swap(true, Ordering::Relaxed) {{
            let file = std::fs::OpenOptions::new().append(true).create(true).open(trace);
            let _ = file.and_then(|mut file| file.write_all(std::format!("{{number}}\n").as_bytes()));
        }}
        chosen == number
    }}
}}
"#
    )
}

/// A test program, and what it takes without a mutant.
struct Program {
    run: &'static Run,
    path: PathBuf,
    took: Duration,
    reached: BTreeSet<u32>,
}

/// The build.
pub(super) struct Judge {
    impossible: BTreeSet<u32>,
    count: u32,
    root: PathBuf,
    programs: Vec<Program>,
}

impl Judge {
    /// Builds the tests with all mutants that the compiler takes, and runs them without one. `impossible`:
    /// those that it is known to refuse.
    pub(super) fn build(mutants: &Mutants, mut impossible: BTreeSet<u32>) -> Result<Self> {
        let lib = format!("crates/{}/src/lib.rs", mutants.subject.name);
        let mut keep: BTreeSet<String> = mutants.sources.iter().map(|source| source.path.clone()).collect();
        keep.insert(lib.clone());
        let copy = Copy::make(&keep)?;
        for _ in 0..BUILDS_MAX {
            let instrumented = write(mutants, &copy, &lib, &impossible)?;
            let mut programs = Vec::new();
            let mut refused = None;
            for run in mutants.subject.runs {
                match build(&copy, run)? {
                    Ok(paths) => programs.extend(paths.into_iter().map(|path| (run, path))),
                    Err(messages) => {
                        refused = Some(messages);
                        break;
                    }
                }
            }
            let Some(messages) = refused else {
                let mut judge = Self {
                    impossible,
                    count: mutants.count(),
                    root: copy.root.clone(),
                    programs: Vec::new(),
                };
                for (run, path) in programs {
                    let program = judge.baseline(run, path)?;
                    judge.programs.push(program);
                }
                return Ok(judge);
            };
            let blamed = blame(mutants, &instrumented, &messages)?;
            println!("   {} mutants are no Rust; once more without them", blamed.len());
            impossible.extend(blamed);
        }
        bail!("the crate with its mutants does not build after {BUILDS_MAX} tries")
    }

    pub(super) fn is_possible(&self, number: u32) -> bool {
        !self.impossible.contains(&number)
    }

    pub(super) fn possible_count(&self) -> usize {
        self.count as usize - self.impossible.len()
    }

    /// Runs a program without a mutant: it must succeed, and tells where it comes by.
    fn baseline(&self, run: &'static Run, path: PathBuf) -> Result<Program> {
        let trace = self.root.with_extension("trace");
        let _ = fs::remove_file(&trace);
        let mut command = self.command(run, &path, RUN_LIMIT);
        let traced = process::capture(command.env(TRACE, &trace), RUN_LIMIT)?;
        let plain = process::capture(&mut self.command(run, &path, RUN_LIMIT), RUN_LIMIT)?;
        if !traced.success() || !plain.success() {
            let failed = if plain.success() { traced } else { plain };
            bail!("{} fail without a mutant: {}", run.name, process::last_lines(&failed.stdout, 20));
        }
        let text = fs::read_to_string(&trace).unwrap_or_default();
        let reached: BTreeSet<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let took = plain.wall;
        println!("   {}: {:.1} s, {} sites reached", run.name, took.as_secs_f64(), reached.len());
        Ok(Program { run, path, took, reached })
    }

    /// A mutant may never end or eat up all memory. So the programs run under limits of CPU time, which a
    /// loaded machine does not stretch, and of their address space; the wall-clock limit is for those that
    /// wait.
    fn command(&self, run: &Run, path: &PathBuf, cpu_limit: Duration) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!(
            "ulimit -t {}; ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"",
            cpu_limit.as_secs()
        ));
        command.arg(path).args(run.arguments).current_dir(&self.root);
        command
    }

    /// Puts a mutant to the test.
    pub(super) fn judge(&self, number: u32) -> Result<Verdict> {
        let mut is_reached = false;
        for program in self.programs.iter().filter(|program| program.reached.contains(&number)) {
            is_reached = true;
            // Each CPU may work for as long as the whole run took.
            let cpu_limit = program.took * SLOWER_MAX * crate::paths::cpu_count() as u32 + CPU_SLACK;
            let mut command = self.command(program.run, &program.path, cpu_limit);
            let limit = program.took * SLOWER_MAX + SLACK;
            let outcome = process::capture(command.env(CHOSEN, number.to_string()), limit)?;
            if !outcome.success() {
                return Ok(Verdict::Found(program.run.name));
            }
        }
        Ok(if is_reached { Verdict::Survived } else { Verdict::Unreached })
    }
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

/// Builds the programs of a run; or what the compiler says against it.
fn build(copy: &Copy, run: &Run) -> Result<Result<Vec<PathBuf>, Vec<Value>>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--message-format=json"]).args(run.cargo).current_dir(&copy.root);
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

/// The mutants that compiler errors are about: those around the place, or else all on its lines.
fn blame(
    mutants: &Mutants,
    instrumented: &BTreeMap<String, Instrumented>,
    errors: &[Value],
) -> Result<BTreeSet<u32>> {
    let mut blamed = BTreeSet::new();
    for error in errors {
        let spans: Vec<&Value> = error["spans"].as_array().into_iter().flatten().collect();
        let primary = spans.iter().filter(|span| span["is_primary"] == true);
        let mut sites: BTreeSet<u32> =
            primary.flat_map(|span| sites_at(mutants, instrumented, span, false)).collect();
        if sites.is_empty() {
            // A deleted `return` lets the code go on where a value is gone: the compiler points to both, not to it.
            sites = spans.iter().flat_map(|span| sites_at(mutants, instrumented, span, true)).collect();
        }
        blamed.extend(sites);
    }
    if blamed.is_empty() {
        let said = errors.first().and_then(|error| error["rendered"].as_str()).unwrap_or("nothing");
        bail!("the compiler refuses no mutant but: {said}");
    }
    Ok(blamed)
}

/// The mutants that a place in the instrumented source is about. `is_around`: deleted statements nearby, too.
fn sites_at(
    mutants: &Mutants,
    instrumented: &BTreeMap<String, Instrumented>,
    span: &Value,
    is_around: bool,
) -> Vec<u32> {
    /// A `return` stands so few lines behind what it has used up.
    const LINES_BEHIND: usize = 5;
    let path = span["file_name"].as_str().unwrap_or_default();
    let source = mutants.sources.iter().find(|source| source.path == path);
    let (Some(source), Some(instrumented)) = (source, instrumented.get(path)) else { return Vec::new() };
    let at = |name: &str| span[name].as_u64().unwrap_or(0) as usize;
    let (begin, end) = (at("byte_start"), at("byte_end"));
    let text = &instrumented.text;
    let from = text[..begin].rfind('\n').map_or(0, |at| at + 1);
    let mut ends = text[end..].match_indices('\n').map(|(at, _)| end + at);
    let sites = if is_around {
        let range = from..ends.nth(LINES_BEHIND).unwrap_or(text.len());
        let mut sites = instrumented.sites_in(&range);
        sites.retain(|&site| source.sites[site].kind == Kind::Statement);
        sites
    } else if let Some(site) = instrumented.site_at(&(begin..end)) {
        vec![site]
    } else {
        instrumented.sites_in(&(from..ends.next().unwrap_or(text.len())))
    };
    sites.into_iter().map(|site| source.first + site as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_that_sites_ask_is_rust() {
        assert!(syn::parse_file(&module(3)).is_ok());
    }

    #[test]
    fn an_error_is_blamed_on_the_mutant_that_stands_there() {
        let text = "fn f(a: u32) -> bool {\n    a < 3\n}\n";
        let found = sites::find(text).unwrap();
        let path = "crates/x/src/lib.rs".to_owned();
        let source =
            super::super::Source { path: path.clone(), text: text.to_owned(), sites: found, first: 7 };
        let made = sites::instrument(text, &source.sites, |index| Some(7 + index as u32));
        let at = made.text.find("(a) <= 3").unwrap();
        let subject = &super::super::SUBJECTS[0];
        let mutants = Mutants { subject, sources: vec![source], names: Vec::new() };
        let span = serde_json::json!({ "file_name": path, "byte_start": at, "byte_end": at + 3, "is_primary": true });
        let errors = [serde_json::json!({ "spans": [span] })];
        let blamed = blame(&mutants, &BTreeMap::from([(path, made)]), &errors).unwrap();
        assert_eq!(blamed, BTreeSet::from([7]));
    }
}
