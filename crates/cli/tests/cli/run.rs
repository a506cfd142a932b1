//! `ayatori run`, from outside: what it prints, answers, and leaves behind.

use crate::hosts::kill;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A job that does not end is one that hangs; one that ends by itself only when its ranks have slept would
/// take ten minutes.
const HANG_MAX: Duration = Duration::from_secs(240);

fn ayatori() -> Command {
    // The launcher and its ranks would ignore SIGINT if this test does, in the background of a script.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_ayatori")]);
    command.stdin(Stdio::null()).env_remove("OMP_NUM_THREADS");
    command
}

/// `examples/rank.rs`, which cargo builds beside the tests.
fn rank_program() -> PathBuf {
    let mut path = std::env::current_exe().expect("the test's own path");
    path.pop();
    path.pop();
    path.push("examples/rank");
    assert!(path.exists(), "{}: `cargo test -p ayatori` builds it", path.display());
    path
}

/// `ayatori run ARGS rank WORDS`.
fn run(args: &str, words: &str) -> Output {
    let mut command = ayatori();
    command.arg("run").args(args.split_whitespace()).arg(rank_program()).args(words.split_whitespace());
    output(&mut command)
}

/// `ayatori run ARGS sh -c SCRIPT`.
fn run_script(args: &str, script: &str) -> Output {
    let mut command = ayatori();
    command.arg("run").args(args.split_whitespace()).args(["sh", "-c", script]);
    output(&mut command)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A `sleep` argument that no other process has: 600 s and a fraction.
fn unique_sleep() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("600.{:07}{:03}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// How many living processes have `needle` in their command line.
fn count_processes(needle: &str) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let is_process = entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // A zombie's command line is empty.
        count += usize::from(is_process && String::from_utf8_lossy(&cmdline).contains(needle));
    }
    count
}

/// How many processes `sleep ARGUMENT` there are.
fn count_sleeps(argument: &str) -> usize {
    let is_one = |entry: std::fs::DirEntry| {
        let cmdline = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        cmdline.starts_with(&format!("sleep\0{argument}"))
    };
    std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(is_one)
        .filter(|&is| is)
        .count()
}

/// A launcher that does not outlive its test, not even a failing one.
struct Running(Option<Child>);

impl std::ops::Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.0.as_ref().expect("waited for only once")
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("waited for only once")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(command: &mut Command) -> Running {
    Running(Some(command.spawn().expect("it starts")))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG_MAX, "{what}: not within {HANG_MAX:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a child that must end by itself, and reads what it prints meanwhile.
fn wait(mut child: Running) -> Output {
    fn all(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).expect("output");
            }
            bytes
        })
    }
    let (stdout, stderr) = (all(child.stdout.take()), all(child.stderr.take()));
    wait_until("the launcher ends", || child.try_wait().expect("wait").is_some());
    let status = child.wait().expect("wait");
    Output { status, stdout: stdout.join().expect("output"), stderr: stderr.join().expect("output") }
}

/// All that a command prints until it ends.
fn output(command: &mut Command) -> Output {
    wait(start(command.stdout(Stdio::piped()).stderr(Stdio::piped())))
}

fn signal(child: &Child, signal: Signal) {
    kill(child.id().cast_signed(), signal);
}

#[test]
fn ranks_meet_through_pmi() {
    for ranks in [1, 2, 7, 40] {
        let output = run(&format!("-n {ranks}"), "hello");
        assert!(output.status.success(), "{}", stderr(&output));
        let mut want: Vec<String> = (0..ranks).map(|r| format!("rank {r} of {ranks} in program 0")).collect();
        want.sort_unstable();
        assert_eq!(sorted_lines(&stdout(&output)), want);
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn ranks_share_a_segment_that_has_no_name() {
    let output = run("-n 3", "launch");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.matches("segment [1, 2, 3]").count(), 3, "{text}");
    assert!(text.contains("local Some(2) of Some(3)"), "{text}");
    // 40 ranks and a machine of at most 39 CPUs, or not.
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    let text = stdout(&run("-n 40", "launch"));
    assert!(text.contains(&format!("oversubscribed Some({})", cpus < 40)), "{text}");
}

#[test]
fn names_are_published_and_looked_up() {
    let output = run("-n 1", "names");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn lines_of_different_ranks_do_not_mix() {
    let output = run("-n 4", "lines 200");
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 800);
    for line in text.lines() {
        let parts: Vec<&str> = line.split(':').collect();
        let [_, number, filler] = parts[..] else { panic!("mixed: {line}") };
        let number: usize = number.parse().unwrap_or_else(|_| panic!("mixed: {line}"));
        assert_eq!(filler, "x".repeat((number * 7) % 300), "mixed: {line}");
    }
}

#[test]
fn tagged_lines_begin_with_their_rank() {
    let output = run_script("-n 3 --tag-output", "echo out; echo err >&2; printf unfinished");
    assert_eq!(
        sorted_lines(&stdout(&output)),
        ["[0] out", "[0] unfinished", "[1] out", "[1] unfinished", "[2] out", "[2] unfinished"]
    );
    assert_eq!(sorted_lines(&stderr(&output)), ["[0] err", "[1] err", "[2] err"]);
}

#[test]
fn much_output_through_a_slow_reader_is_complete() {
    let mut child =
        start(ayatori().args(["run", "-n", "2", "sh", "-c", "seq 1 200000"]).stdout(Stdio::piped()));
    let mut pipe = child.stdout.take().expect("a pipe");
    // The test reads only after much output: the ranks must wait, for they write forty times the size of a
    // pipe. How much that is depends on the lengths of the writes: 57,340 bytes were seen in a full one.
    let has_much = |pipe: &ChildStdout| rustix::io::ioctl_fionread(pipe).expect("a pipe") > 16_000;
    wait_until("the pipe has much", || has_much(&pipe));
    let mut text = String::new();
    pipe.read_to_string(&mut text).expect("text");
    assert_eq!(text.lines().count(), 400_000);
    assert!(wait(child).status.success());
}

#[test]
fn an_unfinished_line_is_shown_before_its_end_comes() {
    let mut child = start(
        ayatori()
            .args(["run", "-n", "1", "sh", "-c", "printf 'name? '; read answer; echo $answer"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut seen = [0; 6];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut seen).expect("the prompt");
    assert_eq!(&seen, b"name? ");
    child.stdin.take().expect("a pipe").write_all(b"Ayatori\n").expect("written");
    assert_eq!(stdout(&wait(child)), "Ayatori\n");
}

#[test]
fn standard_input_goes_to_rank_0_and_only_there() {
    let mut child = start(
        ayatori()
            .args(["run", "-n", "3"])
            .arg(rank_program())
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    child.stdin.take().expect("a pipe").write_all(b"one\ntwo\n").expect("written");
    let output = wait(child);
    let want = ["rank 0 read \"one\\ntwo\\n\"", "rank 1 read \"\"", "rank 2 read \"\""];
    assert_eq!(sorted_lines(&stdout(&output)), want);
}

#[test]
fn the_launcher_does_not_eat_input_that_rank_0_leaves() {
    let script = format!("{} run -n 2 true; cat", env!("CARGO_BIN_EXE_ayatori"));
    let mut child =
        start(Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()));
    child.stdin.take().expect("a pipe").write_all(b"for cat").expect("written");
    assert_eq!(stdout(&wait(child)), "for cat");
}

#[test]
fn exit_codes_pass_through_and_the_rank_is_named() {
    let output = run("-n 3", "exit 1 42");
    assert_eq!(output.status.code(), Some(42));
    let text = stderr(&output);
    assert!(text.starts_with("ayatori: rank 1 on "), "{text}");
    assert!(text.contains(") exited with code 42; ending the other 2 ranks\n"), "{text}");
}

#[test]
fn a_rank_that_dies_ends_the_job_and_is_named() {
    for (number, name) in [(9, "SIGKILL"), (11, "SIGSEGV"), (6, "SIGABRT")] {
        let output = run("-n 4", &format!("die 2 {number}"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(128 + number), "{text}");
        assert!(text.contains("ayatori: rank 2 on "), "{text}");
        assert!(text.contains(&format!("was killed by signal {number} ({name}")), "{text}");
        assert_eq!(stdout(&output), "last words\n");
    }
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let sleep = unique_sleep();
    let script = format!("if [ $PMI_RANK = 1 ]; then exit 5; fi; trap '' TERM; sleep {sleep}; sleep {sleep}");
    let output = run_script("-n 3", &script);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(count_processes(&sleep), 0);
}

#[test]
fn a_failure_after_finalize_leaves_the_others_their_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display().to_string();
    // The others have finalized, too, and go on until the launcher has said that rank 1 failed.
    let mut child = start(
        ayatori()
            .args(["run", "-n", "3"])
            .arg(rank_program())
            .args(["late", "1", "7", &place])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut said = Vec::new();
    let mut from = child.stderr.take().expect("a pipe");
    while !said.ends_with(b"\n") {
        let mut byte = [0];
        from.read_exact(&mut byte).expect("a line");
        said.push(byte[0]);
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("exited with code 7 after MPI_Finalize"), "{said}");
    std::fs::write(folder.path().join("go"), "").expect("a file");
    let output = wait(child);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(sorted_lines(&stdout(&output)), ["rank 0 is done", "rank 2 is done"], "{said}");
}

#[test]
fn an_abort_keeps_its_reason_though_its_rank_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display().to_string();
    let child = start(
        ayatori()
            .args(["run", "-n", "2"])
            .arg(rank_program())
            .args(["abort-and-exit", "1", "77", &place])
            .stderr(Stdio::piped()),
    );
    let pid = || std::fs::read_to_string(folder.path().join("pid")).ok().filter(|text| text.ends_with('\n'));
    wait_until("rank 1 runs", || pid().is_some());
    // The launcher finds the abort and the end of the rank at once.
    signal(&child, Signal::STOP);
    std::fs::write(folder.path().join("go"), "").expect("a file");
    let stat = format!("/proc/{}/stat", pid().expect("a process").trim());
    wait_until("rank 1 has ended", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")));
    signal(&child, Signal::CONT);
    let output = wait(child);
    assert_eq!(output.status.code(), Some(77));
    assert!(
        stderr(&output).contains("aborted the job with code 77: as the test asked"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_rank_that_leaves_without_finalize_ends_the_job() {
    let output = run("-n 3", "leave 0");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("without MPI_Finalize"), "{}", stderr(&output));
}

#[test]
fn no_rank_waits_for_one_that_never_comes() {
    let script = format!("if [ $PMI_RANK = 1 ]; then exit 0; fi; exec {} barrier", rank_program().display());
    let output = run_script("-n 3", &script);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("rank 1 on "), "{}", stderr(&output));
    assert!(stderr(&output).contains("other ranks wait for it"), "{}", stderr(&output));
}

#[test]
fn abort_ends_the_job_with_its_code_and_message() {
    let output = run("-n 4", "abort 3 77");
    assert_eq!(output.status.code(), Some(77));
    let text = stderr(&output);
    assert!(text.contains("rank 3 on ") && text.contains("aborted the job with code 77"), "{text}");
    assert!(text.contains("as the test asked"), "{text}");
}

#[test]
fn a_rank_that_talks_nonsense_ends_the_job_and_not_the_launcher() {
    for nonsense in
        ["hello", "cmd=", "cmd=init pmi_version=x pmi_subversion=1", "cmd=get key=k", "mcmd=destroy"]
    {
        let script = format!(
            "if [ $PMI_RANK = 1 ]; then echo '{nonsense}' >&$PMI_FD; fi; exec sleep {}",
            unique_sleep()
        );
        // dash takes one-digit descriptors only.
        let output =
            ayatori().args(["run", "-n", "2", "bash", "-c", &script]).output().expect("ayatori starts");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{nonsense}: {text}");
        assert!(text.contains("rank 1 on ") && text.contains("no PMI-1 request"), "{nonsense}: {text}");
    }
    let script = "if [ $PMI_RANK = 0 ]; then head -c 1000000 /dev/urandom >&$PMI_FD; fi; sleep 600";
    let output = ayatori().args(["run", "-n", "2", "bash", "-c", script]).output().expect("ayatori starts");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

#[test]
fn the_timeout_ends_the_job_with_124() {
    let output = run("-n 3 --timeout 0.3", "sleep");
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("--timeout 0.3 s has run out; ending 3 ranks"), "{}", stderr(&output));
}

#[test]
fn what_ranks_leave_behind_ends_with_the_job() {
    let sleep = unique_sleep();
    // A child in the group, a daemon out of it, a daemon of a daemon: with its output elsewhere and with
    // ours.
    let script = format!(
        "sleep {sleep} >&- 2>&- & setsid sh -c 'sleep {sleep} & sleep {sleep}' >/dev/null 2>&1 & setsid sleep {sleep} & \
         sleep 0.1"
    );
    let output = run_script("-n 2", &script);
    assert!(output.status.success(), "{}", stderr(&output));
    wait_until("leftovers gone", || count_processes(&sleep) == 0);
}

#[test]
fn killing_the_launcher_leaves_nothing() {
    for delay_ms in [0, 1, 3, 10, 30, 300] {
        let sleep = unique_sleep();
        let script = format!("setsid sleep {sleep} & sleep {sleep} & sleep {sleep}");
        let mut child = start(ayatori().args(["run", "-n", "4", "sh", "-c", &script]));
        if delay_ms == 300 {
            wait_until("all ranks run", || count_sleeps(&sleep) == 12);
        }
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().expect("kill -9");
        child.wait().expect("wait");
        wait_until("all gone", || count_processes(&sleep) == 0);
    }
}

#[test]
fn a_rank_that_was_killed_is_named_though_another_gave_up_since() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display();
    let script = format!(
        "echo $$ > {place}/$PMI_RANK; [ $PMI_RANK = 1 ] && exec sleep 600
         until [ -e {place}/go ]; do sleep 0.01; done; exit 3"
    );
    let child = start(ayatori().args(["run", "-n", "2", "sh", "-c", &script]).stderr(Stdio::piped()));
    let pid_of = |rank: &str| -> Option<i32> {
        std::fs::read_to_string(folder.path().join(rank)).ok()?.trim().parse().ok()
    };
    wait_until("both run", || pid_of("0").is_some() && pid_of("1").is_some());
    let [first, second] = ["0", "1"].map(|rank| pid_of(rank).expect("it runs"));
    // Meanwhile the launcher notices nothing, and then both ends at once.
    signal(&child, Signal::STOP);
    let is_over = |pid: i32| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    };
    kill(second, Signal::KILL);
    // A process that was killed ends when it has its next turn on a CPU.
    wait_until("rank 1 is dead", || is_over(second));
    std::fs::write(folder.path().join("go"), "").expect("a file");
    wait_until("rank 0 has given up", || is_over(first));
    signal(&child, Signal::CONT);
    let output = wait(child);
    let said = stderr(&output);
    assert!(said.contains("rank 1 ") && said.contains("signal 9"), "{said}");
}

#[test]
fn signals_reach_all_ranks_and_what_they_started() {
    let sleep = unique_sleep();
    let child = start(
        ayatori()
            .args(["run", "-n", "3", "sh", "-c"])
            .arg(format!("trap 'echo got it; exit 0' USR1; echo ready; sleep {sleep} & wait"))
            .stdout(Stdio::piped()),
    );
    wait_until("ranks run", || count_sleeps(&sleep) == 3);
    signal(&child, Signal::USR1);
    let output = wait(child);
    assert_eq!(stdout(&output).matches("got it").count(), 3);
    wait_until("all gone", || count_processes(&sleep) == 0);
}

#[test]
fn an_interrupt_ends_the_job_with_130() {
    let sleep = unique_sleep();
    let child = start(ayatori().args(["run", "-n", "2", "sleep", &sleep]).stderr(Stdio::piped()));
    wait_until("ranks run", || count_sleeps(&sleep) == 2);
    signal(&child, Signal::INT);
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended by SIGINT"), "{}", stderr(&output));
    assert_eq!(count_processes(&sleep), 0);
}

#[test]
fn a_second_interrupt_ends_ranks_that_ignore_the_first() {
    let sleep = unique_sleep();
    let mut child = start(
        ayatori()
            .args(["run", "-n", "2", "sh", "-c"])
            .arg(format!("trap 'echo first' INT; trap '' TERM; while :; do sleep {sleep} & wait; done"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    wait_until("ranks run", || count_sleeps(&sleep) == 2);
    signal(&child, Signal::INT);
    let mut said = [0; 12];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut said).expect("both got the first");
    assert_eq!(&said, b"first\nfirst\n");
    signal(&child, Signal::INT);
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(count_processes(&sleep), 0);
}

#[test]
fn stop_and_continue_reach_the_ranks() {
    let sleep = unique_sleep();
    let child = start(ayatori().args(["run", "-n", "2", "sleep", &sleep]));
    let states = || {
        let mut states = String::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let cmdline = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            if cmdline.starts_with(&format!("sleep\0{sleep}")) {
                let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
                states += stat.rsplit(") ").next().and_then(|rest| rest.get(..1)).unwrap_or("?");
            }
        }
        states
    };
    wait_until("ranks sleep", || states() == "SS");
    signal(&child, Signal::TSTP);
    wait_until("ranks stopped", || states() == "TT");
    signal(&child, Signal::CONT);
    wait_until("ranks go on", || states() == "SS");
    signal(&child, Signal::TERM);
    assert_eq!(wait(child).status.code(), Some(143));
}

#[test]
fn several_programs_are_one_job() {
    let program = rank_program();
    let program = program.to_str().expect("text");
    let output = ayatori()
        .args(["run", "-np", "1", program, "hello", ":", "-n", "2", program, "hello"])
        .output()
        .expect("ayatori starts");
    let want = ["rank 0 of 3 in program 0", "rank 1 of 3 in program 1", "rank 2 of 3 in program 1"];
    assert_eq!(sorted_lines(&stdout(&output)), want, "{}", stderr(&output));
}

#[test]
fn variables_and_directories_are_set_as_asked() {
    let output = ayatori()
        .args(["run", "-genv", "G", "g", "-x", "E=e f", "-wdir", "/usr", "sh", "-c", "echo $G $E; pwd"])
        .args([":", "--env", "INHERITED", "sh", "-c", "echo $G-$E-$INHERITED-$PMIX_RANK"])
        .env("INHERITED", "i")
        .env("PMIX_RANK", "a trace of an outer launcher")
        .output()
        .expect("ayatori starts");
    assert_eq!(sorted_lines(&stdout(&output)), ["/usr", "g e f", "g--i-"], "{}", stderr(&output));
}

#[test]
fn ranks_are_bound_to_cores_when_there_are_enough() {
    let cpus = |args: &str| {
        let output = run_script(args, "grep Cpus_allowed_list /proc/self/status");
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let mut lists: Vec<String> =
            text.lines().map(|l| l.split_whitespace().nth(1).unwrap_or("").into()).collect();
        lists.sort();
        lists
    };
    let all = cpus("-n 1");
    assert_eq!(cpus("-n 2 --bind-to none"), [all[0].clone(), all[0].clone()]);
    let one = cpus("-n 1 --bind-to core");
    let cores = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    if cores.is_ok() && std::thread::available_parallelism().expect("CPUs").get() > 1 {
        assert_ne!(one, all);
    }
    let output = run_script("-n 100000 --bind-to core", "true");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("ayatori: "), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_run_is_named() {
    for (args, code, part) in [
        (&["-n", "2", "no-such-program"][..], 127, "program not found: 'no-such-program'"),
        (&["-n", "2", "/etc/passwd"], 126, "not executable"),
        (&["-n", "0", "true"], 2, "at least one rank"),
        (&["-n", "x", "true"], 2, "invalid value 'x'"),
        (&["-n", "2"], 2, "PROGRAM"),
        (&["-n", "99999999", "true"], 2, "-n 99999999"),
        (&["-n", "2", "--no-such-option", "true"], 2, "--no-such-option"),
        (&["--bind-to", "moon", "true"], 2, "moon"),
    ] {
        let output = ayatori().arg("run").args(args).output().expect("ayatori starts");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
}

#[test]
fn a_script_without_its_interpreter_is_explained() {
    let path = std::env::temp_dir().join(format!("ayatori-test-script-{}", std::process::id()));
    std::fs::write(&path, "#!/no/such/interpreter\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("mode");
    let output = ayatori().args(["run", "-n", "2"]).arg(&path).output().expect("ayatori starts");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("interpreter"), "{}", stderr(&output));
}

#[test]
fn without_a_reader_ranks_end_as_they_would_alone() {
    let mut child =
        start(ayatori().args(["run", "-n", "2", "yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut some = [0; 1000];
    child.stdout.take().expect("a pipe").read_exact(&mut some).expect("some output");
    let output = wait(child);
    assert_eq!(output.status.code(), Some(141), "{}", stderr(&output));
}

#[test]
fn verbose_says_what_runs_where() {
    let output = run("-n 2 --verbose", "hello");
    let text = stderr(&output);
    assert!(text.contains("ayatori: rank 0 on ") && text.contains("on CPUs "), "{text}");
    assert!(text.contains("exited with code 0") && text.contains("ayatori: 2 ranks, "), "{text}");
}

#[test]
fn as_mpiexec_it_is_the_same() {
    let directory = std::env::temp_dir().join(format!("ayatori-test-mpiexec-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let link = directory.join("mpiexec");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ayatori"), &link).expect("a link");
    let output = Command::new(&link)
        .args(["-np", "2", "echo", "hello"])
        .stdin(Stdio::null())
        .output()
        .expect("starts");
    std::fs::remove_dir_all(&directory).expect("removed");
    assert_eq!(stdout(&output), "hello\nhello\n", "{}", stderr(&output));
}
