//! A sweep's file: which simulations, and which of them are done.
//!
//! Every value may be a list; the points are all combinations. Results stand in a CSV file beside the
//! sweep's, a line as soon as its point has ended, so a sweep that was stopped goes on; at the end the lines
//! are in the points' order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use ayatori_fabric::description::Machine;
use ayatori_sim::simulation::{Options, Outcome, parse_bytes};
use toml::{Table, Value};

use crate::share::{Claim, Done, Share};
use crate::sweep::{Control, Point, each, run_point};

/// A combination of values.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The columns that name it.
    pub key: String,
    /// What to run.
    pub point: Point,
}

/// What a sweep's file says.
#[derive(Debug, Clone)]
pub struct Grid {
    /// All combinations, the last key of the file's order varying fastest.
    pub entries: Vec<Entry>,
    /// What results depend on beside their other columns: machine files and this program.
    origin: String,
}

const COLUMNS: &str = "machine,changes,workload,nodes,per_host,algorithm,bytes,gap,start_spread_ns,rounds,\
                       seed,elapsed_ps,bandwidth_bytes_per_s,packet_hops,bottleneck,origin";

/// More are taken for a mistake.
const POINT_COUNT_MAX: usize = 1_000_000;

impl Grid {
    /// Reads a sweep's file. Machine files are sought from its folder.
    ///
    /// # Errors
    /// A file that cannot be read, a key or value that is none.
    pub fn load(path: &Path) -> anyhow::Result<Grid> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Grid::parse(&text, folder).with_context(|| path.display().to_string())
    }

    fn parse(text: &str, folder: &Path) -> anyhow::Result<Grid> {
        let mut table: Table = text.parse()?;
        let is_known = |key: &str| ["machine", "workload", "change"].contains(&key) || OPTIONS.contains(&key);
        if let Some(key) = table.keys().find(|key| !is_known(key)) {
            bail!("`{key}` is no key of a sweep: machine, workload, change, {}", OPTIONS.join(", "));
        }
        let mut take = |key: &str| -> Vec<Value> {
            match table.remove(key) {
                None => Vec::new(),
                Some(Value::Array(list)) => list,
                Some(value) => vec![value],
            }
        };
        let machines = take("machine");
        ensure!(!machines.is_empty(), "`machine` is missing: name a machine file, or a list of them");
        let workloads = take("workload");
        ensure!(!workloads.is_empty(), "`workload` is missing: name one, or a list of them");
        let axes: Vec<(&str, Vec<Value>)> = OPTIONS.iter().map(|&key| (key, take(key))).collect();
        let changes = changes(table.remove("change"))?;
        let mut origin = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut origin);
        let mut entries = Vec::new();
        for name in &machines {
            let name = text_of("machine", name)?;
            let path = folder.join(name);
            let source = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read the machine {}", path.display()))?;
            source.hash(&mut origin);
            Machine::parse(name, &source)?;
            for change in combinations(&changes) {
                let machine = Arc::new(changed(name, &source, &change)?);
                for workload in &workloads {
                    let workload = text_of("workload", workload)?;
                    for values in combinations(&axes) {
                        let options = options(&values)?;
                        let key = key_of(name, &change, workload, &options);
                        let point = Point {
                            file: name.into(),
                            machine: machine.clone(),
                            workload: workload.into(),
                            options,
                        };
                        entries.push(Entry { key, point });
                        ensure!(entries.len() <= POINT_COUNT_MAX, "more than {POINT_COUNT_MAX} points");
                    }
                }
            }
        }
        Ok(Grid { entries, origin: format!("{:016x}", origin.finish()) })
    }
}

/// What options are called in the file, in the order in which they vary.
const OPTIONS: [&str; 8] =
    ["nodes", "per_host", "algorithm", "bytes", "gap", "start_spread_ns", "rounds", "seed"];

/// Keys of machines, each with a list of what to try.
fn changes(value: Option<Value>) -> anyhow::Result<Vec<(String, Vec<Value>)>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let Value::Table(table) = value else { bail!("`change` is a table of keys with lists of values") };
    let list = |(key, value): (String, Value)| match value {
        Value::Array(list) if !list.is_empty() => Ok((key, list)),
        _ => bail!("change.{key}: write a list of the values to try"),
    };
    table.into_iter().map(list).collect()
}

/// All combinations of one value each; of a key without values, none is taken.
fn combinations<K: AsRef<str>>(axes: &[(K, Vec<Value>)]) -> Vec<Vec<(String, Value)>> {
    let mut all: Vec<Vec<(String, Value)>> = vec![Vec::new()];
    for (key, values) in axes.iter().filter(|(_, values)| !values.is_empty()) {
        let one = |before: &Vec<(String, Value)>, value: &Value| {
            let last = (key.as_ref().to_owned(), value.clone());
            before.iter().cloned().chain(std::iter::once(last)).collect()
        };
        all = all.iter().flat_map(|before| values.iter().map(move |value| one(before, value))).collect();
    }
    all
}

fn changed(name: &str, source: &str, change: &[(String, Value)]) -> anyhow::Result<Machine> {
    if change.is_empty() {
        return Ok(Machine::parse(name, source)?);
    }
    let values = change.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
    let text = Machine::change(name, source, values)?;
    Ok(Machine::parse(&format!("{name} with {}", in_words(change)), &text)?)
}

fn in_words(change: &[(String, Value)]) -> String {
    let one = |(key, value): &(String, Value)| format!("{key}={value}");
    change.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn text_of<'a>(key: &str, value: &'a Value) -> anyhow::Result<&'a str> {
    value.as_str().with_context(|| format!("{key}: {value} is no string"))
}

fn options(values: &[(String, Value)]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    for (key, value) in values {
        let number = || {
            let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
            number.with_context(|| format!("{key}: {value} is no whole number"))
        };
        let small = || u32::try_from(number()?).with_context(|| format!("{key}: {value} is too large"));
        match key.as_str() {
            "nodes" => options.nodes = Some(small()?),
            "per_host" => options.per_host = small()?,
            "algorithm" => options.algorithm = Some(text_of(key, value)?.into()),
            "bytes" => {
                options.bytes = match value.as_str() {
                    Some(text) => parse_bytes(text)? as u64,
                    None => number()?,
                }
            }
            "gap" => {
                let float = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
                options.gap = float.with_context(|| format!("gap: {value} is no number"))?;
            }
            "start_spread_ns" => options.start_spread_ns = number()?,
            "rounds" => options.rounds = small()?,
            _ => options.seed = number()?,
        }
    }
    Ok(options)
}

/// A field of a CSV file (RFC 4180).
fn field(text: &str) -> String {
    let special = text.contains([',', '"', '\n', '\r']);
    if special { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

fn key_of(machine: &str, change: &[(String, Value)], workload: &str, options: &Options) -> String {
    let Options { nodes, bytes, rounds, per_host, gap, algorithm, start_spread_ns, seed, .. } = options;
    let nodes = nodes.map_or(String::new(), |count| count.to_string());
    let (machine, change, workload) = (field(machine), field(&in_words(change)), field(workload));
    let algorithm = field(algorithm.as_deref().unwrap_or(""));
    format!(
        "{machine},{change},{workload},{nodes},{per_host},{algorithm},{bytes},{gap},{start_spread_ns},\
         {rounds},{seed}"
    )
}

fn result_of(outcome: &Outcome) -> String {
    format!(
        "{},{:.0},{},{}",
        outcome.report.elapsed_ps,
        outcome.bandwidth_bytes_per_s(),
        outcome.counters.packet_hop_count,
        field(&outcome.bottleneck())
    )
}

/// What a sweep came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Points that had been done before.
    pub kept_count: usize,
    /// Points of the sweep.
    pub point_count: usize,
    /// Points that failed, and why. If shared, those that this process knows of.
    pub failures: Vec<String>,
    /// What was simulated otherwise than described, and of how many of the points that this process ran.
    pub notes: BTreeMap<String, usize>,
    /// Whether the results were written by this process, and not by another that shares the sweep.
    pub has_written: bool,
}

/// How a sweep is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Simulations at a time in this process.
    pub threads_count: usize,
    /// Discard what is there.
    pub fresh: bool,
    /// Other processes run the same sweep now.
    pub is_shared: bool,
}

/// Runs what is missing of a grid on so many threads and writes the results to `out`. If shared, each point
/// is run by one of the processes, and all of them return when all points are done.
///
/// # Errors
/// A file that cannot be read or written. Results that another machine or program made are not mixed with:
/// they are refused.
pub fn run(grid: &Grid, out: &Path, how: How, control: &Control) -> anyhow::Result<Summary> {
    ensure!(!(how.fresh && how.is_shared), "processes that share a sweep cannot discard its results");
    // Before results are read: whoever completes them makes this folder unusable afterwards.
    let place = || format!("cannot share {}", out.display());
    if how.fresh {
        Share::discard(out, &grid.origin).with_context(place)?;
    }
    // What a job has left that was ended is gone on with, also by one process.
    let is_shared = how.is_shared || Share::is_begun(out, &grid.origin);
    let share = is_shared.then(|| Share::join(out, &grid.origin)).transpose().with_context(place)?;
    let known = if how.fresh { BTreeMap::new() } else { known(grid, out)? };
    let is_missing = |index: &usize| !known.contains_key(&grid.entries[*index].key);
    let missing: Vec<usize> = (0..grid.entries.len()).filter(is_missing).collect();
    let kept_count = grid.entries.len() - missing.len();
    control.done_count.store(kept_count, Ordering::Relaxed);
    let sweep = Sweep {
        grid,
        out,
        missing,
        found: Mutex::new(known),
        failures: Mutex::default(),
        notes: Mutex::default(),
    };
    let has_written = match share {
        Some(share) => sweep.run_shared(&share, how.threads_count, control).with_context(place)?,
        None => sweep.run_alone(how.threads_count, control).map(|()| true)?,
    };
    let mut failures = sweep.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_unstable();
    let notes = sweep.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Summary { kept_count, point_count: grid.entries.len(), failures, notes, has_written })
}

/// A sweep that runs.
struct Sweep<'a> {
    grid: &'a Grid,
    out: &'a Path,
    /// Entries to be run.
    missing: Vec<usize>,
    /// Results by key.
    found: Mutex<BTreeMap<String, String>>,
    failures: Mutex<Vec<String>>,
    notes: Mutex<BTreeMap<String, usize>>,
}

impl Sweep<'_> {
    fn run_point(&self, entry: &Entry, control: &Control) -> Done {
        match run_point(&entry.point, &control.stop) {
            Ok(run) => {
                let mut notes = lock(&self.notes);
                run.notes.into_iter().for_each(|note| *notes.entry(note).or_default() += 1);
                Done::Result(result_of(&run.outcome))
            }
            Err(error) => Done::Failure(format!("{:#}", anyhow::Error::from(error))),
        }
    }

    fn note(&self, entry: &Entry, done: Done, control: &Control) {
        match done {
            Done::Result(result) => drop(lock(&self.found).insert(entry.key.clone(), result)),
            Done::Failure(why) => lock(&self.failures).push(format!("{}: {why}", entry.key)),
        }
        control.done_count.fetch_add(1, Ordering::Relaxed);
    }

    fn run_alone(&self, threads_count: usize, control: &Control) -> anyhow::Result<()> {
        // What is there is written again: a line that was cut off is gone then.
        write(self.grid, self.out, &lock(&self.found))?;
        let file = OpenOptions::new().append(true).open(self.out);
        let file = Mutex::new(file.with_context(|| format!("cannot write {}", self.out.display()))?);
        each(self.missing.len(), threads_count, control, |index| {
            let entry = &self.grid.entries[self.missing[index]];
            let done = self.run_point(entry, control);
            if let Done::Result(result) = &done {
                lock(&file).write_all(line(self.grid, entry, result).as_bytes())?;
            }
            self.note(entry, done, control);
            anyhow::Ok(())
        })?;
        write(self.grid, self.out, &lock(&self.found))
    }

    /// Whether this process has written the results.
    fn run_shared(&self, share: &Share, threads_count: usize, control: &Control) -> anyhow::Result<bool> {
        let mut left = self.missing.clone();
        loop {
            let (taken, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
            each(left.len(), threads_count, control, |index| {
                let entry = &self.grid.entries[left[index]];
                match share.claim(left[index])? {
                    Claim::Mine(claimed) => {
                        let done = self.run_point(entry, control);
                        // A simulation that was told to stop has not failed.
                        if !control.stop.load(Ordering::Relaxed) {
                            claimed.finish(&done)?;
                            self.note(entry, done, control);
                        }
                    }
                    Claim::Done(done) => self.note(entry, done, control),
                    Claim::Taken => lock(&taken).push(left[index]),
                    Claim::Over => is_over.store(true, Ordering::Relaxed),
                }
                anyhow::Ok(())
            })?;
            left = taken.into_inner().unwrap_or_else(PoisonError::into_inner);
            if control.stop.load(Ordering::Relaxed) || is_over.into_inner() {
                return Ok(false);
            }
            if left.is_empty() {
                return share.finish(|| write(self.grid, self.out, &lock(&self.found)));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// After so long a process without a point of its own looks whether others have finished theirs, or were
/// lost.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of the results.
fn line(grid: &Grid, entry: &Entry, result: &str) -> String {
    format!("{},{result},{}\n", entry.key, grid.origin)
}

/// Results that are there, by the columns that name a point.
fn known(grid: &Grid, out: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    if !out.exists() {
        return Ok(BTreeMap::new());
    }
    let text = std::fs::read_to_string(out).with_context(|| format!("cannot read {}", out.display()))?;
    // A line without its end was cut off.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.strip_prefix(COLUMNS).filter(|lines| lines.is_empty() || lines.starts_with('\n'));
    let origin = format!(",{}", grid.origin);
    let lines: Option<Vec<&str>> =
        lines.and_then(|lines| lines.lines().skip(1).map(|line| line.strip_suffix(&origin)).collect());
    let Some(lines) = lines else {
        bail!(
            "{} has results of other machine files or of another ayatori: name another file, or discard \
            them with --fresh",
            out.display()
        );
    };
    let keys: BTreeSet<&str> = grid.entries.iter().map(|entry| entry.key.as_str()).collect();
    let of_line = |line: &str| {
        // What follows a key is a comma, which comes before all that a longer key goes on with.
        let key = keys.range(..=line).next_back()?;
        Some(((*key).to_owned(), line.strip_prefix(key)?.strip_prefix(',')?.to_owned()))
    };
    Ok(lines.into_iter().filter_map(of_line).collect())
}

/// Writes results in the points' order, in place of what is there.
fn write(grid: &Grid, out: &Path, results: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let mut text = format!("{COLUMNS}\n");
    for entry in &grid.entries {
        if let Some(result) = results.get(&entry.key) {
            text += &line(grid, entry, result);
        }
    }
    let beside = PathBuf::from(format!("{}.new", out.display()));
    let put = || -> std::io::Result<()> {
        File::create(&beside)?.write_all(text.as_bytes())?;
        std::fs::rename(&beside, out)
    };
    put().with_context(|| format!("cannot write {}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "machine = \"ring.toml\"\nworkload = [\"barrier\", \"alltoall\"]\nbytes = \
    [\"1K\", 2000]\nseed = [1, 2]\n\
                        [change]\n\"topology.switches\" = [4, 6]\n";
    const RING: &str = "name = \"ring\"\n[switch_models.s]\nports = 4\nrate_gbps = 10\n\
                        switching = \"virtual-cut-through\"\n[switch_models.s.router]\nvirtual_channels = 2\n\
                        virtual_channel_buffer_bytes = 8192\nflit_bytes = 16\npacket_max_bytes = 2048\n\
                        packet_min_bytes = 32\n[host_models.h]\nnic = [{ name = \"n\", rate_gbps = 10 }]\n\
                        [topology]\nkind = \"ring\"\nswitches = 4\nswitch_model = \"s\"\n[hosts]\nmodel \
                        = \"h\"\n\
                        per_switch = 1\n";

    const ALONE: How = How { threads_count: 1, fresh: false, is_shared: false };

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ring.toml"), RING).unwrap();
        folder
    }

    fn sweep(folder: &Path, threads_count: usize) -> (Summary, String) {
        let grid = Grid::parse(TEXT, folder).unwrap();
        let out = folder.join("out.csv");
        let how = How { threads_count, fresh: false, is_shared: false };
        let summary = run(&grid, &out, how, &Control::default()).unwrap();
        (summary, std::fs::read_to_string(out).unwrap())
    }

    #[test]
    fn results_and_their_order_do_not_depend_on_the_thread_count() {
        let (one, four) = (folder(), folder());
        let (summary, text) = sweep(one.path(), 1);
        assert_eq!((summary.point_count, summary.kept_count, summary.failures.len()), (16, 0, 0));
        assert_eq!(text.lines().count(), 17);
        // A program that reads CSV finds a name for each column, and nothing else before the first point.
        assert!(text.starts_with("machine,") && text.lines().next().unwrap().ends_with(",bottleneck,origin"));
        assert_eq!(sweep(four.path(), 4).1, text);
    }

    #[test]
    fn processes_that_share_a_sweep_write_what_one_alone_writes() {
        let (one, shared) = (folder(), folder());
        let (_, alone) = sweep(one.path(), 1);
        let grid = Grid::parse(TEXT, shared.path()).unwrap();
        let out = shared.path().join("out.csv");
        let how = How { threads_count: 2, is_shared: true, ..ALONE };
        let summaries: Vec<Summary> = std::thread::scope(|scope| {
            let process = || run(&grid, &out, how, &Control::default()).unwrap();
            let processes: Vec<_> = (0..3).map(|_| scope.spawn(process)).collect();
            processes.into_iter().map(|process| process.join().unwrap()).collect()
        });
        // Who begins when the others have ended finds all points done, and writes the same again.
        let wrote = |summary: &&Summary| summary.has_written && summary.kept_count < summary.point_count;
        assert_eq!(summaries.iter().filter(wrote).count(), 1);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), alone);
        // Nothing is left beside the machine and the results, and another job finds all points done.
        assert_eq!(std::fs::read_dir(shared.path()).unwrap().count(), 2);
        let again = run(&grid, &out, how, &Control::default()).unwrap();
        assert_eq!((again.kept_count, std::fs::read_to_string(&out).unwrap()), (16, alone));
    }

    #[test]
    fn what_a_stopped_job_shared_is_kept_by_the_next() {
        let folder = folder();
        let grid = Grid::parse(TEXT, folder.path()).unwrap();
        let out = folder.path().join("out.csv");
        let share = Share::join(&out, &grid.origin).unwrap();
        for index in [3, 5] {
            let Claim::Mine(claimed) = share.claim(index).unwrap() else { panic!("nobody else is there") };
            claimed.finish(&Done::Result(format!("kept {index}"))).unwrap();
        }
        assert!(run(&grid, &out, ALONE, &Control::default()).unwrap().has_written);
        let text = std::fs::read_to_string(out).unwrap();
        assert_eq!([3, 5].map(|index| text.contains(&format!(",kept {index},"))), [true; 2]);
        assert_eq!(text.lines().count(), 17);
    }

    #[test]
    fn a_stopped_sweep_goes_on_and_a_line_cut_off_is_run_again() {
        let folder = folder();
        let (_, whole) = sweep(folder.path(), 2);
        let cut = whole.len() - 30 - whole.lines().last().unwrap().len();
        std::fs::write(folder.path().join("out.csv"), &whole[..cut]).unwrap();
        let (summary, text) = sweep(folder.path(), 2);
        assert_eq!((summary.kept_count, text), (14, whole));
    }

    #[test]
    fn what_is_not_simulated_as_described_is_said_of_a_sweep() {
        let folder = folder();
        let text =
            "machine = \"ring.toml\"\nworkload = \"random-ring\"\nbytes = [\"1K\", \"1M\"]\ngap = [0, 8]\n";
        let grid = Grid::parse(text, folder.path()).unwrap();
        let summary = run(&grid, &folder.path().join("out.csv"), ALONE, &Control::default()).unwrap();
        let notes: Vec<(String, usize)> = summary.notes.into_iter().collect();
        assert!(matches!(&notes[..], [(note, 1)] if note.starts_with("--gap 8 has no effect")), "{notes:?}");
    }

    #[test]
    fn results_of_another_machine_are_refused() {
        let folder = folder();
        let _ = sweep(folder.path(), 1);
        std::fs::write(folder.path().join("ring.toml"), RING.replace("rate_gbps = 10", "rate_gbps = 5"))
            .unwrap();
        let grid = Grid::parse(TEXT, folder.path()).unwrap();
        let error = run(&grid, &folder.path().join("out.csv"), ALONE, &Control::default()).unwrap_err();
        assert!(format!("{error:#}").contains("--fresh"), "{error:#}");
    }

    #[test]
    fn a_machine_that_is_missing_is_blamed_and_not_the_sweep() {
        let folder = folder();
        let (sweep, machine) = (folder.path().join("sweep.toml"), folder.path().join("other.toml"));
        std::fs::write(&sweep, TEXT.replace("ring.toml", "other.toml")).unwrap();
        let error = format!("{:#}", Grid::load(&sweep).unwrap_err());
        let expected = format!("{}: cannot read the machine {}: ", sweep.display(), machine.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn what_is_no_key_or_value_is_named() {
        let folder = folder();
        for (from, to, expected) in [
            ("seed", "seeds", "`seeds` is no key"),
            ("workload", "workloads", "`workloads` is no key"),
            ("[1, 2]", "[1, -2]", "seed: -2 is no whole number"),
            ("[4, 6]", "4", "write a list"),
            ("\"1K\"", "\"1Q\"", "1Q"),
            ("topology.switches", "topology.switch", "not a known key"),
            ("ring.toml", "other.toml", "cannot read the machine "),
        ] {
            let error = Grid::parse(&TEXT.replace(from, to), folder.path()).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{to}: {error:#}");
        }
    }
}
