//! Our own programs: `conformance/c/*.c` and, where the library has `mpifort`, `conformance/fortran/*.f` and
//! `*.f90`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::{CommonOptions, Tally, Verdict, directory};
use crate::peers::Library;
use crate::process::{self, Outcome};
use crate::threads::on_threads;
use crate::{paths, skips};

/// Rank counts by default: one alone, powers of two and not, more than this machine's CPUs.
const RANKS: [usize; 5] = [1, 2, 3, 5, 7];

/// How a program must end. Read from its first line: `/* EXPECT code, output: text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Exit code 0 and `No Errors` as its last line.
    NoErrors,
    /// This exit code (`None`: any but 0), and this text somewhere in its output.
    Failure { code: Option<i32>, text: Option<String> },
}

/// The programs in `conformance/c`, in the order of their names.
pub(crate) fn sources() -> Result<Vec<PathBuf>> {
    sources_in("c", &["c"])
}

fn sources_in(folder: &str, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let dir = paths::root().join("conformance").join(folder);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
    all.retain(|path| path.extension().is_some_and(|ext| extensions.iter().any(|known| ext == *known)));
    all.sort();
    Ok(all)
}

/// The programs in `conformance/fortran`; none, and a note, where the library is made without Fortran.
fn fortran_sources(library: Library) -> Result<Vec<PathBuf>> {
    if !library.prefix().join("bin/mpifort").exists() {
        skips::note("conformance/fortran", &format!("{} has no mpifort here", library.name()));
        return Ok(Vec::new());
    }
    sources_in("fortran", &["f", "f90"])
}

pub(crate) fn name(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Our programs, made for a library.
pub(crate) struct Programs {
    library: Library,
    programs: Vec<Program>,
}

struct Program {
    name: String,
    expected: Expected,
    /// The executable, or why there is none.
    compiled: Result<PathBuf>,
}

/// Compiles the programs that `options` want, on all CPUs; one that is refused is a failure of the run.
///
/// # Errors
/// The library cannot be made, or a source cannot be read.
pub(crate) fn compile(options: &CommonOptions) -> Result<Programs> {
    let library = options.library()?;
    let mut sources = sources()?;
    if library == Library::Ayatori {
        sources.extend(fortran_sources(library)?);
    }
    sources.retain(|source| options.wants(&name(source)));
    let programs = on_threads(paths::cpu_count(), &sources, |source| compile_one(library, source));
    let mut programs = programs.into_iter().collect::<Result<Vec<Program>>>()?;
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Programs { library, programs })
}

fn compile_one(library: Library, source: &Path) -> Result<Program> {
    let name = name(source);
    let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
    let expected = expected(&text).with_context(|| source.display().to_string())?;
    let folder = if source.extension().is_some_and(|ext| ext == "c") { "c" } else { "fortran" };
    let program = directory(library).join(folder).join(&name);
    let compiled = library.compile(source, &program).map(|()| program);
    Ok(Program { name, expected, compiled })
}

impl Programs {
    /// Runs them at the ranks and in the progress mode of `options`, as many at once as there are CPUs, for
    /// they wait much.
    ///
    /// # Errors
    /// One fails, or none ran.
    pub(crate) fn run(&self, options: &CommonOptions) -> Result<()> {
        let tally = Mutex::new(Tally::default());
        let run = |program: &Program| self.run_one(program, options, &tally);
        on_threads(paths::cpu_count(), &self.programs, run).into_iter().collect::<Result<()>>()?;
        let tally = tally.into_inner().expect("nobody panics with it");
        tally.close(&format!("conformance c on {}", self.library.name()))
    }

    fn run_one(&self, program: &Program, options: &CommonOptions, tally: &Mutex<Tally>) -> Result<()> {
        let Program { name, expected, compiled } = program;
        let tally = || tally.lock().expect("nobody panics with it");
        let program = match compiled {
            Ok(program) => program,
            Err(error) => {
                tally().add_uncompiled(name, error);
                return Ok(());
            }
        };
        for ranks in options.ranks_or(&RANKS) {
            let mut launch = self.library.launch(ranks, program, &[]);
            launch.envs(options.progress());
            let outcome = process::capture(&mut launch, options.limit())?;
            tally().add(name, ranks, judge(expected, &outcome), &outcome);
        }
        Ok(())
    }
}

/// How programs run under a tool that looks for mistakes.
pub(super) struct Checked<'a> {
    pub(super) suite: &'a str,
    /// Where the programs compiled for the tool go.
    pub(super) folder: &'a str,
    pub(super) flags: &'a [&'a str],
    /// What the names of programs begin with that are left out.
    pub(super) left_out: &'a [&'a str],
}

impl Checked<'_> {
    /// Runs the programs that are to end well, each as `launch` says for so many ranks.
    ///
    /// # Errors
    /// One fails, or none ran.
    pub(super) fn run(
        &self,
        options: &CommonOptions,
        library: Library,
        launch: impl Fn(usize, &Path) -> Result<Command>,
    ) -> Result<()> {
        let mut tally = Tally::default();
        for source in sources()? {
            let name = name(&source);
            let is_wanted = options.wants(&name) && !self.left_out.iter().any(|part| name.starts_with(part));
            let expected = expected(&fs::read_to_string(&source)?)?;
            if !is_wanted || expected != Expected::NoErrors {
                continue;
            }
            let program = directory(library).join(self.folder).join(&name);
            library.compile_with(&source, &program, self.flags)?;
            for ranks in options.ranks_or(&[2]) {
                let mut command = launch(ranks, &program)?;
                command.envs(options.progress());
                let outcome = process::capture(&mut command, options.limit())?;
                tally.add(&name, ranks, judge(&expected, &outcome), &outcome);
            }
        }
        tally.close(self.suite)
    }
}

pub(crate) fn expected(source: &str) -> Result<Expected> {
    let Some(rest) = source.lines().next().and_then(|line| line.strip_prefix("/* EXPECT ")) else {
        return Ok(Expected::NoErrors);
    };
    let (code, text) = match rest.split_once(", output: ") {
        Some((code, text)) => (code, Some(text.trim().to_owned())),
        None => (rest, None),
    };
    let code = match code.trim() {
        "non-zero" => None,
        code => match code.parse() {
            Ok(code) => Some(code),
            Err(_) => bail!("`EXPECT {code}` is neither an exit code nor `non-zero`"),
        },
    };
    Ok(Expected::Failure { code, text })
}

pub(crate) fn judge(expected: &Expected, outcome: &Outcome) -> Verdict {
    if outcome.timed_out {
        return Verdict::Failed(outcome.reason());
    }
    match expected {
        Expected::NoErrors => no_errors(outcome),
        Expected::Failure { code, text } => {
            let got = outcome.status.code();
            let right = code.map_or(got != Some(0), |code| got == Some(code));
            if !right {
                return Verdict::Failed(format!("ended with {}, not with {code:?}", outcome.status));
            }
            let said = text
                .as_ref()
                .is_none_or(|text| outcome.stderr.contains(text) || outcome.stdout.contains(text));
            if said { Verdict::Passed } else { Verdict::Failed(format!("did not say {text:?}")) }
        }
    }
}

/// The verdict of a program whose last line is `No Errors`, `Skipped: needs N ranks` or `Skipped: why`.
pub(crate) fn no_errors(outcome: &Outcome) -> Verdict {
    let last = outcome.stdout.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    if !outcome.success() {
        Verdict::Failed(outcome.reason())
    } else if let Some(ranks) = last.strip_prefix("Skipped: needs ") {
        Verdict::LeftOut(format!("it needs {ranks}"))
    } else if let Some(why) = last.strip_prefix("Skipped:") {
        Verdict::Skipped(why.trim().to_owned())
    } else if last == "No Errors" {
        Verdict::Passed
    } else {
        Verdict::Failed(format!("its last line is {last:?}, not \"No Errors\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn outcome(script: &str) -> Outcome {
        process::capture(Command::new("sh").args(["-c", script]), Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn only_no_errors_as_the_last_line_and_exit_code_0_pass() {
        assert_eq!(no_errors(&outcome("echo No Errors")), Verdict::Passed);
        assert!(matches!(no_errors(&outcome("echo No Errors; exit 1")), Verdict::Failed(_)));
        assert!(matches!(no_errors(&outcome("echo No Errors; echo more")), Verdict::Failed(_)));
        assert!(matches!(no_errors(&outcome("true")), Verdict::Failed(_)));
        assert_eq!(no_errors(&outcome("echo Skipped: no threads")), Verdict::Skipped("no threads".into()));
        assert_eq!(
            no_errors(&outcome("echo Skipped: needs 3 ranks")),
            Verdict::LeftOut("it needs 3 ranks".into())
        );
    }

    #[test]
    fn an_expected_failure_must_have_its_code_and_its_text() {
        let wanted = expected("/* EXPECT 37, output: by rank 1\n */").unwrap();
        assert_eq!(judge(&wanted, &outcome("echo aborted by rank 1 >&2; exit 37")), Verdict::Passed);
        assert!(matches!(judge(&wanted, &outcome("exit 37")), Verdict::Failed(_)));
        assert!(matches!(judge(&wanted, &outcome("echo by rank 1; exit 36")), Verdict::Failed(_)));
        assert!(matches!(judge(&wanted, &outcome("echo by rank 1")), Verdict::Failed(_)));
    }

    #[test]
    fn a_wrong_expectation_is_refused() {
        assert!(expected("/* EXPECT soon").is_err());
        assert_eq!(expected("/* A test */").unwrap(), Expected::NoErrors);
    }
}
