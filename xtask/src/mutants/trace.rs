//! What each test does without a mutant: which sites it reaches, and what it takes.
//!
//! It is kept beside the build, by what is in the program: a run that goes on need not trace again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, bail};

use super::judge::{Built, side_by_side};
use super::programs::{Program, TRACE};
use crate::process;

/// The limit of a test without a mutant.
const TEST_LIMIT: Duration = Duration::from_secs(900);
/// The clock tick in which a process's CPU time is known.
pub(super) const CPU_TICK: Duration = Duration::from_millis(10);
/// Tests that take longer are named.
const LONG_MIN: Duration = Duration::from_secs(1);

/// A test, and what it takes without a mutant.
pub(super) struct Test {
    /// Its place in the list.
    pub(super) program: usize,
    pub(super) name: String,
    pub(super) took: Duration,
    pub(super) cpu: Duration,
    pub(super) is_digest: bool,
    pub(super) reached: BTreeSet<u32>,
}

impl Test {
    /// CPU time that it takes. Of a short test it is not known better than by a clock tick.
    pub(super) fn price(&self) -> Duration {
        self.took.min(self.cpu + CPU_TICK)
    }

    /// A line of what is kept.
    fn line(&self) -> String {
        let reached: Vec<String> = self.reached.iter().map(u32::to_string).collect();
        let [took_us, cpu_us] = [self.took, self.cpu].map(|time| time.as_micros());
        format!("{}\t{took_us}\t{cpu_us}\t{}\n", self.name, reached.join(" "))
    }

    fn parse(line: &str, program: usize, digests: &[&str]) -> Option<Self> {
        let mut fields = line.split('\t');
        let name = fields.next()?.to_owned();
        let mut time = || Some(Duration::from_micros(fields.next()?.parse().ok()?));
        let (took, cpu) = (time()?, time()?);
        let reached = fields.next()?.split(' ').filter_map(|number| number.parse().ok()).collect();
        Some(Self { program, is_digest: digests.contains(&name.as_str()), name, took, cpu, reached })
    }
}

/// Runs each test of these programs by itself: it must succeed, and tells where it comes by. The quickest
/// come first.
pub(super) fn trace_all(built: &Built, job_count: usize) -> Result<Vec<Test>> {
    let (root, programs) = (built.root.as_path(), &built.programs);
    let (mut tests, mut names) = (Vec::new(), Vec::new());
    let mut kept = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        let path = kept_at(root, &program.path)?;
        let text = fs::read_to_string(&path).unwrap_or_default();
        let known: Vec<Test> =
            text.lines().filter_map(|line| Test::parse(line, index, program.run.digests)).collect();
        let of_program = names_of(root, program)?;
        if of_program.len() == known.len() && known.iter().all(|test| of_program.contains(&test.name)) {
            tests.extend(known);
        } else {
            names.extend(of_program.into_iter().map(|name| (index, name)));
            kept.push((index, path));
        }
    }
    let results = Mutex::new(Vec::new());
    side_by_side(job_count, names.len(), |index| {
        let (program, name) = &names[index];
        match trace(root, (*program, &programs[*program]), name, index) {
            Ok(test) => results.lock().expect("no panic").push(test),
            Err(error) if built.leaves_out_failing => println!("   does not judge: {error:#}"),
            Err(error) => return Err(error),
        }
        Ok(true)
    })?;
    tests.extend(results.into_inner().expect("no panic"));
    for (index, path) in kept {
        let lines = tests.iter().filter(|test| test.program == index).map(Test::line);
        fs::write(path, lines.collect::<String>())?;
    }
    tests.sort_by(|a, b| (a.took, a.program, &a.name).cmp(&(b.took, b.program, &b.name)));
    let all: f64 = tests.iter().map(|test| test.price().as_secs_f64()).sum();
    println!("   {} tests, {all:.1} s of CPU time", tests.len());
    for test in tests.iter().rev().take_while(|test| test.took >= LONG_MIN) {
        let [took_s, cpu_s] = [test.took, test.cpu].map(|time| time.as_secs_f64());
        println!("   {}: {took_s:.1} s, {cpu_s:.1} s of CPU time", test.name);
    }
    Ok(tests)
}

/// Where the traces of this program are kept.
fn kept_at(root: &Path, program: &Path) -> Result<PathBuf> {
    // FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), eight bytes at a time.
    let content = fs::read(program)?;
    let hash = content.chunks(8).fold(0xCBF2_9CE4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01B3)
    });
    let folder = root.with_file_name("traces");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{hash:016x}")))
}

/// The tests of a program that its run is about and that are not ignored.
fn names_of(root: &Path, program: &Program) -> Result<BTreeSet<String>> {
    let listed = |more: &[&str]| -> Result<BTreeSet<String>> {
        let mut command = Command::new(&program.path);
        command.args(program.run.arguments).args(["--list", "--format", "terse"]);
        let outcome = process::capture(command.args(more).current_dir(root), TEST_LIMIT)?;
        let names = outcome.stdout.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    };
    let ignored = listed(&["--ignored"])?;
    Ok(listed(&[])?.difference(&ignored).cloned().collect())
}

fn trace(root: &Path, (number, program): (usize, &Program), name: &str, index: usize) -> Result<Test> {
    // Other crates may be judged in the same repository at the same time.
    let trace = std::env::temp_dir().join(format!("ayatori-trace-{}-{index}", std::process::id()));
    let _ = fs::remove_file(&trace);
    let mut command = program.command(root, &[name], TEST_LIMIT);
    let outcome = process::capture(command.env(TRACE, &trace), TEST_LIMIT)?;
    if !outcome.success() {
        bail!("{name} fails without a mutant: {}", process::last_lines(&outcome.stdout, 20));
    }
    let text = fs::read_to_string(&trace).unwrap_or_default();
    let _ = fs::remove_file(&trace);
    Ok(Test {
        program: number,
        name: name.to_owned(),
        took: outcome.wall,
        cpu: outcome.cpu,
        is_digest: program.run.digests.contains(&name),
        reached: text.lines().filter_map(|line| line.parse().ok()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_test_is_read_as_it_was_written() {
        let test = Test {
            program: 1,
            name: "a::b".to_owned(),
            took: Duration::from_millis(1_234),
            cpu: Duration::from_millis(20),
            is_digest: true,
            reached: BTreeSet::from([3, 700]),
        };
        let read = Test::parse(test.line().trim_end(), 1, &["a::b"]).unwrap();
        assert_eq!((read.took, read.cpu, read.is_digest), (test.took, test.cpu, true));
        assert_eq!((read.name, read.reached), (test.name, test.reached));
        assert!(Test::parse("a::b\t1", 0, &[]).is_none());
    }
}
