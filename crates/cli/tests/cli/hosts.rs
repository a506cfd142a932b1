//! `ayatori run --hosts`, from outside. The hosts are this machine under several names: an agent's command
//! may be anything that runs a program, here `env`. Tests that need networks of their own are in `cargo xtask
//! net-test`.

use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A job that does not end is one that hangs, as in `run.rs`.
const HANG_MAX: Duration = Duration::from_secs(240);
const AGENT: &str = "env AYATORI_TEST_HOST={host}";

fn rank_program() -> PathBuf {
    let mut path = std::env::current_exe().expect("the test's own path");
    path.pop();
    path.pop();
    path.push("examples/rank");
    path
}

pub(crate) fn job(args: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
    command.args(["run", "--agent", AGENT]).args(args).arg(rank_program()).args(words);
    command
        .stdin(Stdio::null())
        .env_remove("OMP_NUM_THREADS")
        .env_remove("AYATORI_AGENT")
        .env_remove("AYATORI_BRANCH_COUNT");
    command
}

pub(crate) fn run(args: &[&str], words: &[&str]) -> Output {
    job(args, words).output().expect("ayatori runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Processes whose environment says that they are of the test's marked job.
pub(crate) fn marked(mark: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        })
    })
    .collect()
}

/// Not by kill(1): a small system has none.
pub(crate) fn kill(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("a process");
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < HANG_MAX, "{what}: not within {HANG_MAX:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn end_of(child: &mut Child) -> (Option<i32>, String) {
    let mut said = String::new();
    let begin = Instant::now();
    while child.try_wait().expect("wait").is_none() {
        assert!(begin.elapsed() < HANG_MAX, "the job does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    (child.wait().expect("wait").code(), said)
}

#[test]
fn ranks_on_two_hosts_learn_each_others_cards() {
    let output = run(&["--hosts", "a,b:2"], &["hello"]);
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    let want = ["rank 0 of 3 in program 0", "rank 1 of 3 in program 0", "rank 2 of 3 in program 0"];
    assert_eq!(lines, want, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn lines_of_ranks_on_several_hosts_do_not_mix() {
    let output = run(&["--hosts", "a,b", "-n", "4", "-l"], &["lines", "40"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), 160);
    for line in lines.lines() {
        let (tag, rest) = line.split_once("] ").expect("a tag");
        assert!(rest.starts_with(&format!("{}:", &tag[1..])), "{line}");
    }
}

#[test]
fn a_program_that_is_not_there_is_said_with_its_host() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
    command.args(["run", "--agent", AGENT, "--hosts", "a,b", "no-such-program-anywhere"]);
    let output = command.stdin(Stdio::null()).output().expect("ayatori runs");
    assert_eq!(output.status.code(), Some(127));
    let said = text(&output.stderr);
    assert!(said.contains("host ") && said.contains("program not found"), "{said}");
}

#[test]
fn an_agent_that_cannot_be_started_is_said_with_its_host() {
    for (agent, part) in
        [("no-such-launcher {host}", "cannot start its agent"), ("false {host}", "exited with code 1")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
        command.args(["run", "--agent", agent, "--hosts", "node7", "true"]);
        let output = command.stdin(Stdio::null()).output().expect("ayatori runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("host node7") && said.contains(part), "{said}");
    }
}

#[test]
fn a_killed_rank_or_agent_is_named_and_nothing_is_left() {
    for victim in ["rank", "agent"] {
        let mark = format!("AYATORI_TEST_MARK={victim}{}", std::process::id());
        let mut command = job(&["--hosts", "a,b", "-n", "4", "-x", &mark], &["sleep"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("ayatori runs");
        wait_until("four ranks", || marked(&mark).len() >= 4);
        // Ranks are children of their agents, agents ours.
        let rank = marked(&mark)[0];
        let target = if victim == "rank" { rank } else { parent_of(rank).expect("a parent") };
        kill(target, Signal::KILL);
        let (code, said) = end_of(&mut child);
        let name = if victim == "rank" { "rank " } else { "its agent (pid" };
        assert!(
            said.contains(name) && said.contains("signal 9"),
            "killed: {victim} {target}; first rank: {rank}\n{said}"
        );
        assert!(code.is_some_and(|code| code != 0), "{code:?}");
        wait_until("nothing is left", || marked(&mark).is_empty());
    }
}

/// The process of the marked job whose rank this is.
pub(crate) fn pid_of_rank(mark: &str, rank: usize) -> Option<i32> {
    let wanted = format!("PMI_RANK={rank}");
    marked(mark).into_iter().find(|pid| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| environment.split(|&byte| byte == 0).any(|v| v == wanted.as_bytes()))
    })
}

pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

/// An agent is killed, and ranks of another host die of it: here because its watchdog finds them on the same
/// machine, elsewhere because they give up. The launcher reads about them first. (That it waits for what lies
/// behind is in `supervisor/tests.rs`.)
#[test]
fn a_lost_host_is_named_though_its_effects_are_read_first() {
    let mark = format!("AYATORI_TEST_MARK=order{}", std::process::id());
    let mut command = job(&["--hosts", "a,b", "-n", "4", "-x", &mark], &["sleep"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("ayatori runs");
    wait_until("four ranks", || (0..4).all(|rank| pid_of_rank(&mark, rank).is_some()));
    let agent = pid_of_rank(&mark, 3).and_then(parent_of).expect("the agent of b");
    let launcher = child.id().cast_signed();
    // What the launcher finds when it goes on: both agents have said that they live, a's first, and now there
    // is more.
    kill(launcher, Signal::STOP);
    std::thread::sleep(Duration::from_millis(1500));
    kill(agent, Signal::KILL);
    wait_until("no rank is left", || marked(&mark).is_empty());
    std::thread::sleep(Duration::from_millis(100));
    kill(launcher, Signal::CONT);
    let (code, said) = end_of(&mut child);
    assert!(said.contains(&format!("host b: its agent (pid {agent}) was killed by signal 9")), "{said}");
    assert!(!said.contains("rank "), "{said}");
    assert_eq!(code, Some(1), "{said}");
}

#[test]
#[ignore = "takes 25 s: silence on both sides"]
fn a_stopped_launcher_is_given_up_and_a_stopped_job_goes_on() {
    for is_whole in [false, true] {
        let mark = format!("AYATORI_TEST_MARK=stopped{is_whole}{}", std::process::id());
        let timeout = if is_whole { "14" } else { "600" };
        let mut command = job(&["--hosts", "a,b", "-n", "2", "-x", &mark, "--timeout", timeout], &["sleep"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("ayatori runs");
        wait_until("two ranks", || marked(&mark).len() >= 2);
        let mut all = vec![i32::try_from(child.id()).expect("a pid")];
        if is_whole {
            let ranks = marked(&mark);
            all.extend(ranks.iter().filter_map(|&rank| parent_of(rank)).chain(ranks.iter().copied()));
        }
        let each = |signal| {
            all.iter().for_each(|&pid| kill(pid, signal));
        };
        each(Signal::STOP);
        std::thread::sleep(Duration::from_millis(11_500));
        each(Signal::CONT);
        let (code, said) = end_of(&mut child);
        let (want_code, want) = match is_whole {
            true => (124, "--timeout 14 s has run out"),
            false => (1, "its agent has not heard the launcher for 10 s"),
        };
        assert!(code == Some(want_code) && said.contains(want), "{code:?} {said}");
    }
}

#[test]
fn nothing_survives_the_launcher() {
    let mark = format!("AYATORI_TEST_MARK=launcher{}", std::process::id());
    let mut command = job(&["--hosts", "a,b", "-n", "4", "-x", &mark], &["sleep"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ayatori runs");
    wait_until("four ranks", || marked(&mark).len() >= 4);
    child.kill().expect("killed");
    let _ = child.wait();
    wait_until("nothing is left", || marked(&mark).is_empty());
}

#[test]
fn standard_input_reaches_rank_0_elsewhere() {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!(
        "echo over the wire | {} run --agent '{AGENT}' --hosts a,b sh -c 'if [ $PMI_RANK = 0 ]; then cat; fi'",
        env!("CARGO_BIN_EXE_ayatori")
    ));
    let output = command.output().expect("ayatori runs");
    assert_eq!(text(&output.stdout), "over the wire\n", "{}", text(&output.stderr));
}

#[test]
fn unread_standard_input_waits_and_then_arrives_whole() {
    let mark = format!("AYATORI_TEST_MARK=stdin{}", std::process::id());
    let script = format!(
        "head -c 100000000 /dev/zero | {} run --agent '{AGENT}' --hosts a,b -x {mark} sh -c \
         'if [ $PMI_RANK = 0 ]; then sleep 2; wc -c; fi'",
        env!("CARGO_BIN_EXE_ayatori")
    );
    let job = Command::new("sh").arg("-c").arg(script).stdout(Stdio::piped()).spawn().expect("sh runs");
    wait_until("rank 0 runs", || pid_of_rank(&mark, 0).is_some());
    std::thread::sleep(Duration::from_millis(1000));
    let agent = pid_of_rank(&mark, 0).and_then(parent_of).expect("its agent");
    let status = std::fs::read_to_string(format!("/proc/{agent}/status")).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next());
    let peak_kib: u64 = peak.and_then(|number| number.parse().ok()).expect("a number");
    assert!(peak_kib < 40_000, "its agent keeps what nobody reads: {peak_kib} KiB");
    let output = job.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stdout).trim(), "100000000");
}

/// `ssh` as this test has it: options fall away, host `b` is dealt with as the test wants, and for the others
/// a shell takes what is said to it, as ssh's does.
pub(crate) fn ssh_job(
    for_b: &str,
    hosts: &str,
    args: &[&str],
    words: &[&str],
) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "#!/bin/sh\nwhile :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done\nhost=$1; shift\n\
         if [ $host = b ]; then\n{for_b}\nfi\nexec sh -c \"$*\"\n"
    );
    let path = folder.path().join("ssh");
    std::fs::write(&path, script).expect("written");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
    command.args(["run", "--hosts", hosts]).args(args).arg(rank_program()).args(words);
    let paths = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", paths).env_remove("AYATORI_AGENT").stdin(Stdio::null());
    (folder, command)
}

#[test]
fn ssh_is_the_agent_when_none_is_named() {
    let (_folder, mut command) = ssh_job(":", "a,b", &[], &["hello"]);
    let output = command.output().expect("ayatori runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

#[test]
fn reasons_that_ssh_starts_no_agent_are_said() {
    let unreachable = "echo 'ssh: connect to host b port 22: No route to host' >&2; exit 255";
    for (for_b, parts) in [
        (unreachable, ["No route to host", "does 'ssh b true' work by itself?"]),
        ("exec sh -c \"/nowhere$*\"", ["code 127", "is it there, as /"]),
        // A background process that reads from the terminal is stopped.
        ("kill -STOP $$", ["was stopped", "a password?"]),
        ("echo Welcome; echo 'no such login'; exit 1", ["exited with code 1", "host b"]),
    ] {
        let (_folder, mut command) = ssh_job(for_b, "a,b", &[], &["sleep"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("ayatori runs");
        let (code, said) = end_of(&mut child);
        assert!(code.is_some_and(|code| code != 0), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{for_b}: {said}");
    }
}

#[test]
#[ignore = "takes a minute: how long an agent may take to answer"]
fn an_agent_that_never_answers_is_given_up() {
    let (_folder, mut command) = ssh_job("exec sleep 1000", "a,b", &[], &["sleep"]);
    let output = command.output().expect("ayatori runs");
    let said = text(&output.stderr);
    assert!(said.contains("host b") && said.contains("without a password"), "{said}");
}
