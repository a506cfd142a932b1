//! `cargo xtask why-test`: jobs that hang, each in its own way, and what `ayatori why` says of them.
//!
//! Each case starts `conformance/c/why/stuck.c`, asks until the job is where it is to be, and looks for the
//! words of the verdict. The last case asks a job that works, again and again: nothing it sends may be lost.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::peers::Library;
use crate::{paths, process};

/// Options of `cargo xtask why-test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// An installation to use, instead of building one.
    #[arg(long)]
    prefix: Option<PathBuf>,
    /// Only cases whose name holds this.
    #[arg(long)]
    filter: Option<String>,
}

/// A job, and what is said of it.
struct Case {
    /// The program's argument.
    how: &'static str,
    ranks: usize,
    /// Further arguments of `ayatori run`.
    launch: &'static [&'static str],
    /// The exit code of `ayatori why`.
    code: i32,
    says: &'static [&'static str],
}

const HERE: &[&str] = &[];
const SCHEDULES: &[&str] = &["--genv", "AYATORI_NODE_COLLECTIVES=0"];
const OFFLOAD: &[&str] = &["--progress", "offload"];
const TWO_HOSTS: &[&str] = &["--hosts", "a:2,b:2", "--agent", "env AYATORI_TEST_HOST={host}"];

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { how: "recv", ranks: 2, launch: HERE, code: 3, says: &[
        "DEADLOCK: ranks 0,1 can never go on.",
        "rank 0 waits in MPI_Recv for rank 1 (tag 5, MPI_COMM_WORLD)",
        "rank 1 waits in MPI_Recv for rank 0 (tag 6, MPI_COMM_WORLD)"] },
    Case { how: "recv", ranks: 3, launch: HERE, code: 3, says: &[
        "rank 1 waits in MPI_Recv for rank 2 (tag 6, MPI_COMM_WORLD)",
        "rank 2 waits in MPI_Recv for rank 0 (tag 7, MPI_COMM_WORLD)"] },
    Case { how: "recv", ranks: 4, launch: TWO_HOSTS, code: 3, says: &[
        "DEADLOCK: ranks 0-3 can never go on.", "0     a ", "3     b "] },
    Case { how: "ssend", ranks: 2, launch: HERE, code: 3, says: &[
        "rank 0 waits in MPI_Ssend for rank 1 to receive 4 bytes (tag 7, MPI_COMM_WORLD)",
        "rank 1 has not received 4 bytes of rank 0 (tag 7, MPI_COMM_WORLD); the sender waits"] },
    Case { how: "ssend", ranks: 4, launch: TWO_HOSTS, code: 3, says: &[
        "rank 1 waits in MPI_Ssend for rank 2 to receive 4 bytes (tag 7, MPI_COMM_WORLD)"] },
    Case { how: "long", ranks: 3, launch: HERE, code: 3, says: &[
        "rank 2 waits in MPI_Send for rank 0 to receive 1 MiB (tag 7, MPI_COMM_WORLD)"] },
    Case { how: "tag", ranks: 2, launch: HERE, code: 3, says: &[
        "DEADLOCK", "rank 0 has sent rank 1 4 bytes with tag 5; rank 1 waits for tag 6"] },
    Case { how: "any", ranks: 3, launch: HERE, code: 3, says: &[
        "DEADLOCK: ranks 0-2", "waits in MPI_Recv for any rank (any tag, MPI_COMM_WORLD)"] },
    Case { how: "waitall", ranks: 3, launch: HERE, code: 3, says: &[
        "rank 1 (tag 1, MPI_COMM_WORLD) and any rank (tag 2, MPI_COMM_WORLD)", "DEADLOCK"] },
    Case { how: "waitany", ranks: 2, launch: HERE, code: 3, says: &[
        "rank 1 (tag 1, MPI_COMM_WORLD) or rank 1 (tag 2, MPI_COMM_WORLD)", "DEADLOCK"] },
    Case { how: "probe", ranks: 2, launch: HERE, code: 3, says: &["rank 0 waits in MPI_Probe for rank 1 (tag 9,"] },
    Case { how: "sendrecv", ranks: 2, launch: HERE, code: 3, says: &[
        "rank 0 waits in MPI_Sendrecv for rank 1 (tag 2,", "rank 1 has sent rank 0 4 bytes with tag 1; rank 0 waits for tag 2"] },
    Case { how: "collective", ranks: 3, launch: HERE, code: 3, says: &[
        "DEADLOCK: ranks 0-2", "ranks 0,1 are in MPI_Allreduce, the 2nd on it; rank 2 is in MPI_Bcast, the 2nd on it"] },
    Case { how: "collective", ranks: 3, launch: SCHEDULES, code: 3, says: &[
        "DEADLOCK: ranks 0-2", "rank 2 is in MPI_Bcast, the 2nd on it"] },
    Case { how: "absent", ranks: 3, launch: HERE, code: 3, says: &[
        "rank 0 waits in MPI_Barrier for rank 2's part in MPI_Barrier (MPI_COMM_WORLD)",
        "rank 2 waits in MPI_Recv for rank 0 (tag 3, MPI_COMM_WORLD)"] },
    Case { how: "absent", ranks: 4, launch: TWO_HOSTS, code: 3, says: &[
        "rank 3 waits in MPI_Recv for rank 0 (tag 3, MPI_COMM_WORLD)", "DEADLOCK"] },
    Case { how: "part", ranks: 4, launch: HERE, code: 3, says: &[
        "rank 0 waits in MPI_Recv for rank 1 (tag 4, halves)", "rank 2 waits in MPI_Recv for rank 3 (tag 4, halves)"] },
    Case { how: "recv", ranks: 3, launch: OFFLOAD, code: 3, says: &[
        "DEADLOCK: ranks 0-2 can never go on.",
        "rank 1 waits in MPI_Recv for rank 2 (tag 6, MPI_COMM_WORLD)"] },
    Case { how: "waitall", ranks: 3, launch: OFFLOAD, code: 3, says: &[
        "rank 1 (tag 1, MPI_COMM_WORLD) and any rank (tag 2, MPI_COMM_WORLD)", "DEADLOCK"] },
    Case { how: "collective", ranks: 3, launch: OFFLOAD, code: 3, says: &[
        "DEADLOCK: ranks 0-2",
        "ranks 0,1 are in MPI_Allreduce, the 2nd on it; rank 2 is in MPI_Bcast, the 2nd on it"] },
    Case { how: "reduction", ranks: 3, launch: OFFLOAD, code: 3, says: &[
        "DEADLOCK: ranks 0-2", "rank 0 waits in MPI_Wait for rank 1 (tag 7, MPI_COMM_WORLD)",
        "rank 1 waits in MPI_Recv for rank 0 (tag 9, MPI_COMM_WORLD)"] },
    Case { how: "lock", ranks: 3, launch: HERE, code: 3, says: &[
        "DEADLOCK: ranks 0-2 can never go on.",
        "rank 0 waits in MPI_Win_lock for the shared lock of rank 1 (window halo), which rank 1 holds",
        "in MPI_Win_lock for the exclusive lock of rank 0 (window halo), which rank 0 holds alone"] },
    Case { how: "locked", ranks: 2, launch: HERE, code: 0, says: &[
        "the exclusive lock of rank 1 (window halo), which one rank holds shared",
        "No deadlock: rank 1 waits, and the wait can end."] },
    Case { how: "leaves", ranks: 3, launch: HERE, code: 3, says: &[
        "rank 0 waits in MPI_Recv for rank 1 (tag 1,", "rank 1 waits in MPI_Finalize"] },
    Case { how: "computes", ranks: 3, launch: HERE, code: 0, says: &[
        "No deadlock: ranks 0,2 wait for rank 1, which can go on:", "rank 1 is in user code", "computes"] },
    Case { how: "computes", ranks: 4, launch: TWO_HOSTS, code: 0, says: &["No deadlock: ranks 0,2,3 wait for rank 1"] },
    Case { how: "sleeps", ranks: 2, launch: HERE, code: 0, says: &["rank 1 is in user code", "sleeps or waits outside of MPI"] },
    Case { how: "stops", ranks: 2, launch: HERE, code: 0, says: &[
        "No deadlock: rank 0 waits for rank 1", "does not answer: stopped", "rank 1 is stopped"] },
    Case { how: "served", ranks: 2, launch: HERE, code: 0, says: &[
        "No deadlock: rank 1 waits for rank 0, which can go on:", "rank 0 (tag 3, MPI_COMM_WORLD)"] },
    Case { how: "served", ranks: 2, launch: OFFLOAD, code: 0, says: &[
        "No deadlock: rank 1 waits for rank 0, which can go on:", "rank 0 (tag 3, MPI_COMM_WORLD)"] },
    Case { how: "polls", ranks: 2, launch: HERE, code: 0, says: &["rank 1 makes calls in MPI_Iprobe"] },
];

/// Hang limit: how long a job may take to come to where it hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a job that works is asked before it is told to end.
const ASKED_MIN: u32 = 20;

/// `cargo xtask why-test`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let prefix = match &options.prefix {
        Some(prefix) => prefix.clone(),
        None => {
            Library::by_name("ayatori").context("our own library")?.prepare()?;
            paths::build_dir().join("prefix")
        }
    };
    let program = paths::build_dir().join("why-test/stuck");
    compile(&prefix, &program)?;
    let (mut failed, mut slowest) = (0, Duration::ZERO);
    let is_wanted = |name: &str| options.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    for case in CASES {
        let name = format!("{} on {} ranks {}", case.how, case.ranks, case.launch.join(" "));
        if !is_wanted(&name) {
            continue;
        }
        match hangs(&prefix, &program, case) {
            Ok(took) => {
                slowest = slowest.max(took);
                println!("ok      {name}");
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#}");
            }
        }
    }
    for launch in [HERE, TWO_HOSTS].into_iter().filter(|_| is_wanted("healthy")) {
        match works(&prefix, &program, launch) {
            Ok(asked) => println!("ok      healthy {}: asked {asked} times", launch.join(" ")),
            Err(error) => {
                failed += 1;
                println!("FAILED  healthy {}: {error:#}", launch.join(" "));
            }
        }
    }
    println!("why-test: {failed} failed, slowest answer {} ms", slowest.as_millis());
    if failed > 0 {
        bail!("why-test: {failed} cases failed");
    }
    Ok(())
}

fn compile(prefix: &Path, program: &Path) -> Result<()> {
    std::fs::create_dir_all(program.parent().context("a program has a folder")?)?;
    let lib = prefix.join("lib");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(paths::root().join("crates/mpi/include"));
    cc.arg(paths::root().join("conformance/c/why/stuck.c")).arg("-o").arg(program);
    cc.arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display())).arg("-lmpi_abi");
    process::show(&mut cc)
}

fn start(prefix: &Path, program: &Path, case: (&[&str], usize, &[&str])) -> Result<Child> {
    let (launch, ranks, words) = case;
    let mut command = Command::new(prefix.join("bin/ayatori"));
    command.arg("run").args(launch).args(["-n", &ranks.to_string()]).arg(program).args(words);
    command.env("LD_LIBRARY_PATH", prefix.join("lib")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("starting a job")
}

fn ask(prefix: &Path, job: &Child) -> Result<Output> {
    let why = Command::new(prefix.join("bin/ayatori")).args(["why", "--all", &job.id().to_string()]).output();
    why.context("asking")
}

/// Asks a job that hangs until the right words come. How long the last answer took.
fn hangs(prefix: &Path, program: &Path, case: &Case) -> Result<Duration> {
    let mut job = start(prefix, program, (case.launch, case.ranks, &[case.how]))?;
    let begin = Instant::now();
    let outcome = loop {
        std::thread::sleep(Duration::from_millis(100));
        let asked = Instant::now();
        let output = ask(prefix, &job)?;
        let (took, text) = (asked.elapsed(), String::from_utf8_lossy(&output.stdout).into_owned());
        let missing = case.says.iter().find(|words| !text.contains(**words));
        match missing {
            None if output.status.code() == Some(case.code) => break Ok(took),
            _ if begin.elapsed() < PATIENCE => {}
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                break Err(anyhow::anyhow!(
                    "not said: {missing:?}; {}, {} ms\n{text}{said}",
                    output.status,
                    took.as_millis()
                ));
            }
        }
    };
    kill(Pid::from_raw(job.id().cast_signed()), Signal::SIGTERM)?;
    job.wait()?;
    outcome
}

/// Asks a job that works, again and again: it must say that all was right, and never be called stuck.
fn works(prefix: &Path, program: &Path, launch: &[&str]) -> Result<u32> {
    let stop = std::env::temp_dir().join(format!("ayatori-why-test-{}", std::process::id()));
    let word = stop.to_string_lossy().into_owned();
    let mut job = start(prefix, program, (launch, 4, &["healthy", &word]))?;
    let (mut answered, begin) = (0, Instant::now());
    while job.try_wait()?.is_none() {
        let output = ask(prefix, &job)?;
        if output.status.code() == Some(3) {
            let _ = job.kill();
            bail!("called stuck:\n{}", String::from_utf8_lossy(&output.stdout));
        }
        answered += u32::from(output.status.success());
        if answered >= ASKED_MIN || begin.elapsed() > PATIENCE {
            std::fs::write(&stop, "")?;
        }
    }
    let _ = std::fs::remove_file(&stop);
    let output = job.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !said.contains("all right") {
        bail!("{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    if answered < ASKED_MIN {
        bail!("answered {answered} times in {PATIENCE:?}");
    }
    Ok(answered)
}
