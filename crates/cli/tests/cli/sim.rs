//! `ayatori sim`, from outside.

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn sim(args: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ayatori")).arg("sim").args(args).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn fx10() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/fx10.toml");
    path.display().to_string()
}

fn json(args: &[&str]) -> serde_json::Value {
    let (code, out, err) = sim(&[&["run", &fx10()], args, &["--json"]].concat());
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).expect("JSON")
}

/// A file in a folder that lasts as long as the test.
fn file(folder: &tempfile::TempDir, name: &str, contents: &[u8]) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, contents).expect("a temporary file");
    path.display().to_string()
}

const GOAL: &str = "num_ranks 3\nrank 0 {\na: calc 1000\nb: send 300000b to 2\nb requires a\n}\nrank 1 {\n}\nrank 2 {\n\
                    recv 300000b from 0\n}\n";

#[test]
fn a_workload_gives_time_links_bottleneck_and_speed() {
    let (code, out, err) =
        sim(&["run", &fx10(), "random-ring", "--bytes", "64K", "--per-host", "2", "--gap", "0.5"]);
    assert_eq!(code, Some(0), "{err}");
    for part in [
        "random-ring on 128 processes: ",
        "utilisation",
        "between switches",
        "\nbottleneck: ",
        " M packet-hops in ",
    ] {
        assert!(out.contains(part), "{part} is missing: {out}");
    }
    // No bar without a terminal.
    assert_eq!(err, "");
}

#[test]
fn the_same_run_gives_the_same_picoseconds() {
    let run = || {
        json(&["alltoall", "--bytes", "4K", "--nodes", "16", "--start-spread-ns", "5000"])["finished_ps"]
            .clone()
    };
    let finished = run();
    assert_eq!(finished.as_array().map(Vec::len), Some(16));
    assert_eq!(finished, run());
}

#[test]
fn other_extents_make_another_machine() {
    assert_eq!(json(&["barrier", "--extents", "3x2x5"])["processes"], 30);
    let (code, _, err) = sim(&["run", &fx10(), "barrier", "--extents", "3xtwo"]);
    assert!(code == Some(2) && err.contains("--extents 3xtwo: numbers with an x between"), "{err}");
    let (code, _, err) = sim(&["run", &fx10(), "barrier", "--extents", "4x4"]);
    assert!(code == Some(1) && err.contains("dimension_order"), "{err}");
    let (code, _, err) = sim(&["run", &fx10(), "barrier", "--nodes", "65"]);
    assert!(code == Some(2) && err.contains("has 64 hosts"), "{err}");
}

#[test]
fn goal_files_run_in_both_forms() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = file(&folder, "three.goal", GOAL.as_bytes());
    let schedule = ayatori_sim::goal::Schedule::parse("three.goal", GOAL.as_bytes()).expect("GOAL");
    let binary = file(&folder, "three.bin", &schedule.to_binary());
    let (from_text, from_binary) = (json(&[&text]), json(&[&binary]));
    assert_eq!(from_text["processes"], 3);
    assert_eq!(from_text["finished_ps"], from_binary["finished_ps"]);
    // A microsecond, and 300,000 B at 5 GB/s.
    assert!(from_text["elapsed_ps"].as_u64() > Some(61_000_000), "{from_text}");
}

#[test]
fn what_is_wrong_with_a_goal_file_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |contents: &[u8], args: &[&str]| {
        let goal = file(&folder, "x.goal", contents);
        let (code, _, err) = sim(&[&["run", &fx10(), &goal], args].concat());
        (code, err)
    };
    let (code, err) = refused(b"num_ranks 1\nrank 0 {\nsend 8b to\n}", &[]);
    assert!(code == Some(1) && err.contains("x.goal:3: 'send 8b to' is none of"), "{err}");
    let (code, err) = refused(b"\xFF\xFE", &[]);
    assert!(code == Some(1) && err.contains("neither GOAL text (UTF-8) nor GOAL binary"), "{err}");
    let (code, err) = refused(GOAL.as_bytes(), &["--nodes", "2"]);
    assert!(code == Some(2) && err.contains("has 3 ranks") && err.contains("--per-host 2 would do"), "{err}");
    let (code, err) = refused(b"num_ranks 2\nrank 0 {\nrecv 8b from 1\n}\nrank 1 {\n}\n", &[]);
    assert!(code == Some(1) && err.contains("rank 0 waits for messages that nobody sends"), "{err}");
    let (code, _, err) = sim(&["run", &fx10(), "no-such.goal"]);
    assert!(code == Some(1) && err.contains("no-such.goal: cannot be read"), "{err}");
    let (code, _, err) = sim(&["run", &fx10(), "no-such"]);
    assert!(code == Some(2) && err.contains("no workload 'no-such'"), "{err}");
}

#[test]
fn what_cannot_work_is_said_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |args: &[&str]| {
        let (code, _, err) = sim(&[&["run", &fx10()], args].concat());
        (code, err)
    };
    let (code, err) = refused(&["alltoall", "--algorithm", "no-such"]);
    assert!(code == Some(2) && err.contains("alltoall has linear, bruck, pairwise"), "{err}");
    let (code, err) = refused(&["ping-pong", "--nodes", "1"]);
    assert!(code == Some(2) && err.contains("needs two processes"), "{err}");
    let (code, err) = refused(&["barrier", "--per-host", "100000000"]);
    assert!(code == Some(2) && err.contains("6400000000 processes: at most"), "{err}");
    let nowhere = folder.path().join("no-such-folder/trace.json").display().to_string();
    let (code, err) = refused(&["barrier", "--trace", &nowhere]);
    assert!(code == Some(1) && err.contains("cannot write") && err.contains("no-such-folder"), "{err}");
    let (code, err) = refused(&["barrier", "--gap", "-1"]);
    assert!(code == Some(2) && err.contains("--gap -1: from 0"), "{err}");
    let long = file(
        &folder,
        "long.goal",
        b"num_ranks 1\nrank 0 {\ncalc 9999999999999999\ncalc 9999999999999999\n}\n",
    );
    let (code, err) = refused(&[&long]);
    assert!(code == Some(1) && err.contains("rank 0 computes for longer than the 53 days"), "{err}");
}

#[test]
fn the_bottleneck_is_what_the_workload_was_made_to_have() {
    let line = |args: &[&str]| json(args)["bottleneck"].as_str().expect("a line").to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let busy = file(&folder, "busy.goal", b"num_ranks 2\nrank 0 {\ncalc 100000\n}\nrank 1 {\ncalc 10\n}\n");
    for (args, expected) in [
        (&["scatter", "--bytes", "1M"][..], "NIC n0:0 -> s0.0.0:3, sending 100 %"),
        // Rank 0 copies its own block meanwhile, and begins to receive a little later.
        (&["gather", "--bytes", "1M"], "NIC s0.0.0:3 -> n0:0, receiving 99 %"),
        (
            &["ping-pong", "--bytes", "16M", "--nodes", "2"],
            "the rate of NICs, with messages one after the other",
        ),
        (&["ping-pong", "--bytes", "8"], "latency: ranks wait for each other's messages"),
        (&["alltoall", "--bytes", "1M", "--per-host", "16", "--nodes", "1"], "memory of host 0, busy "),
        (&["random-ring", "--bytes", "64K", "--per-host", "16"], "contention: packets waited "),
        (&[&busy], "software: rank 0 is busy 100 % of the time (100 % computing)"),
    ] {
        let line = line(args);
        assert!(line.starts_with(expected), "{args:?}: {line}");
    }
}

#[test]
fn torus_without_dateline_deadlocks_and_the_cycle_is_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = std::fs::read_to_string(fx10()).expect("fx10.toml");
    let without = text.replace("virtual_channels = 2", "virtual_channels = 1");
    assert_ne!(text, without);
    let machine = file(&folder, "without.toml", without.as_bytes());
    let args = ["random-ring", "--bytes", "1M", "--per-host", "16"];
    let (code, _, err) = sim(&[&["run", &machine][..], &args].concat());
    assert!(err.contains("note: with one virtual channel there is no dateline"), "{err}");
    assert!(code == Some(1) && err.contains("deadlock at ") && err.contains("(virtual channel 0)"), "{err}");
    let links: Vec<&str> = err.lines().filter(|line| line.contains(" -> ")).collect();
    assert!(links.len() >= 5, "{err}");
    assert_eq!(sim(&[&["run", &fx10()][..], &args].concat()).0, Some(0));
}

#[test]
fn what_is_not_simulated_is_a_note_or_under_strict_an_error() {
    let supernova = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/supernova.toml");
    let args = ["run", supernova, "barrier", "--nodes", "2"];
    let (code, _, err) = sim(&args);
    assert!(code == Some(0) && err.contains("note: address tables (8000 in "), "{err}");
    let (code, out, err) = sim(&[&args[..], &["--strict"]].concat());
    assert!(
        code == Some(1) && out.is_empty() && err.contains("(--strict):\n  address tables (8000 in "),
        "{err}"
    );
    assert_eq!(sim(&["run", &fx10(), "barrier", "--strict"]).0, Some(0));
}

#[test]
fn a_run_of_nothing_has_numbers_and_not_nan() {
    let (code, out, _) = sim(&["run", &fx10(), "alltoall", "--bytes", "0", "--worst", "0"]);
    assert!(code == Some(0) && !out.contains("NaN") && out.contains("0.000 GB/s"), "{out}");
    assert_eq!(json(&["halo-2d", "--bytes", "4K", "--nodes", "12"])["processes"], 12);
}

#[test]
fn a_trace_has_what_perfetto_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trace.json").display().to_string();
    let report = json(&["pairwise-exchange", "--bytes", "40K", "--nodes", "4", "--trace", &path]);
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list of events");
    // The Trace Event Format: every event has a phase and a process; all but metadata have a time; slices and
    // arrows have a track; the two ends of an arrow have its id and its category.
    let mut arrows = std::collections::BTreeMap::new();
    for event in events {
        let phase = event["ph"].as_str().expect("a phase");
        assert!(event["pid"].is_u64() && event["name"].is_string(), "{event}");
        assert!(phase == "M" || event["ts"].is_f64(), "{event}");
        match phase {
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "X" => assert!(event["tid"].is_u64() && event["dur"].is_f64(), "{event}"),
            "C" => assert!(event["args"]["busy"].is_f64(), "{event}"),
            "b" | "e" => assert!(event["id"].is_u64() && event["cat"].is_string(), "{event}"),
            "s" | "f" => {
                let id = (event["cat"].as_str(), event["id"].as_u64());
                let ends: &mut Vec<f64> = arrows.entry(id).or_default();
                ends.extend(event["ts"].as_f64());
            }
            other => panic!("an event of phase {other}: {event}"),
        }
    }
    // Every rank has a track, and slices of one track follow each other or lie within each other, as viewers
    // want it.
    let named = |event: &&serde_json::Value| event["pid"] == 3 && event["name"] == "thread_name";
    assert_eq!(events.iter().filter(named).count(), 4);
    let number = |slice: &serde_json::Value, key: &str| slice[key].as_f64().expect("a number");
    let mut slices: Vec<_> = events.iter().filter(|event| event["pid"] == 3 && event["ph"] == "X").collect();
    slices.sort_by(|a, b| {
        let of = |slice| (number(slice, "ts"), -number(slice, "dur"));
        of(a).partial_cmp(&of(b)).expect("numbers")
    });
    let mut open = std::collections::BTreeMap::<_, Vec<f64>>::new();
    for slice in slices {
        let (start, length) = (number(slice, "ts"), number(slice, "dur"));
        let around = open.entry(slice["tid"].as_u64()).or_default();
        while around.last().is_some_and(|end| *end <= start + 1e-9) {
            around.pop();
        }
        assert!(around.last().is_none_or(|end| start + length <= end + 1e-9), "{slice} inside {around:?}");
        around.push(start + length);
    }
    let begins = |name: &str| {
        let is =
            |event: &&serde_json::Value| event["pid"] == 3 && event["ph"] == "b" && event["name"] == name;
        events.iter().filter(is).count()
    };
    assert_eq!((begins("send to 0"), begins("receive from 0")), (3, 3));
    assert!(!arrows.is_empty() && arrows.values().all(|ends| ends.len() == 2 && ends[0] < ends[1]));
    let last_us = report["elapsed_ps"].as_f64().expect("a time") / 1e6;
    assert!(arrows.values().all(|ends| ends[1] <= last_us), "an arrow ends after the run");
}

#[test]
fn the_benchmark_gives_a_table_and_json() {
    let args = ["bench", "--repeat", "1", "--part", "0.01"];
    let (code, out, err) = sim(&args);
    assert_eq!(code, Some(0), "{err}");
    for part in [
        "M packet-hops/s",
        "uniform, load 0.9",
        "all-to-all",
        "a packet in flight takes",
        "100000 receives posted",
    ] {
        assert!(out.contains(part), "{part} is missing: {out}");
    }
    let (_, out, _) = sim(&[&args[..], &["--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["cases"].as_array().map(Vec::len), Some(5));
    assert!(value["cases"][0]["packet_hops_per_s"]["best"].as_f64() > Some(0.0));
    assert!(value["packet_bytes"].as_u64() <= Some(64));
    let (code, _, err) = sim(&["bench", "--part", "0"]);
    assert!(code == Some(2) && err.contains("--part 0: from 0.01 to 10"), "{err}");
}

/// A sweep's file and what it needs, in a folder.
fn sweep_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fx10 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/fx10.toml");
    std::fs::copy(fx10, folder.path().join("fx10.toml")).unwrap();
    let sweep = "machine = \"fx10.toml\"\nworkload = [\"barrier\", \"alltoall\", \"nothing\"]\nnodes = 4\n\
                 bytes = [\"1K\", \"2K\", \"4K\"]\nseed = [1, 2]\n";
    std::fs::write(folder.path().join("sweep.toml"), sweep).unwrap();
    folder
}

#[test]
fn ranks_of_a_job_share_a_sweep_and_one_tells() {
    let program = env!("CARGO_BIN_EXE_ayatori");
    let sweep = |words: &[&str]| {
        let folder = sweep_folder();
        let words: Vec<&str> = words.iter().copied().chain(["sim", "sweep", "sweep.toml"]).collect();
        let output = Command::new(program).args(words).current_dir(folder.path()).output().unwrap();
        let results = std::fs::read_to_string(folder.path().join("sweep.csv")).unwrap();
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        (output, results, left)
    };
    let (alone, expected, _) = sweep(&[]);
    let (shared, results, left) = sweep(&["run", "-n", "3", program]);
    assert_eq!(results, expected);
    assert_eq!(results.lines().count(), 1 + 12);
    assert_eq!(left, 3, "only the machine, the sweep and the results are left");
    let text = String::from_utf8_lossy(&shared.stdout);
    assert!(text.contains("18 points: 12 run, 0 there before, 6 failed"), "{text}");
    assert_eq!(text.matches(" points: ").count(), 1, "{text}");
    assert_eq!((alone.status.code(), shared.status.code()), (Some(1), Some(1)));
}

/// Waits until some other process reads from a FIFO; the end to write to, and that process.
fn reader_of(fifo: &Path, job: &mut Child) -> (File, Pid) {
    let writing = loop {
        // ENXIO: nobody reads.
        match OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(fifo) {
            Ok(file) => break file,
            Err(_) => assert!(job.try_wait().unwrap().is_none(), "the job has ended"),
        }
        std::thread::yield_now();
    };
    let has_open = |process: &Path| {
        let open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|file| file == fifo)
    };
    loop {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let numbers = processes.filter_map(|path| {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            (number != std::process::id() as i32 && has_open(&path)).then_some(number)
        });
        if let Some(pid) = numbers.filter_map(Pid::from_raw).next() {
            return (writing, pid);
        }
        std::thread::yield_now();
    }
}

/// One point reads a GOAL file that is a FIFO, so the rank that runs it is there until it is killed.
#[test]
fn the_others_take_over_the_point_of_a_rank_that_is_killed() {
    let program = env!("CARGO_BIN_EXE_ayatori");
    let goal = "num_ranks 2\nrank 0 {\nsend 64b to 1\n}\nrank 1 {\nrecv 64b from 0\n}\n";
    let folder = || {
        let folder = sweep_folder();
        let sweep = "machine = \"fx10.toml\"\nworkload = [\"./app.goal\", \"barrier\", \"alltoall\", \
                     \"bcast\"]\nnodes = 4\nbytes = \"1K\"\n";
        std::fs::write(folder.path().join("sweep.toml"), sweep).unwrap();
        folder
    };
    let sweep = |folder: &tempfile::TempDir, launcher: &[&str]| {
        let words: Vec<&str> = launcher.iter().copied().chain(["sim", "sweep", "sweep.toml"]).collect();
        let mut command = Command::new(program);
        command.args(words).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let results = |folder: &tempfile::TempDir| std::fs::read_to_string(folder.path().join("sweep.csv"));

    let (one, two) = (folder(), folder());
    std::fs::write(one.path().join("app.goal"), goal).unwrap();
    assert!(sweep(&one, &[]).wait().unwrap().success());

    let two_path = two.path().canonicalize().unwrap();
    let (fifo, whole) = (two_path.join("app.goal"), two_path.join("whole.goal"));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::fs::write(&whole, goal).unwrap();
    let mut job = sweep(&two, &["run", "-n", "2", program]);
    let (writing, pid) = reader_of(&fifo, &mut job);
    std::fs::rename(&whole, &fifo).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let output = job.wait_with_output().unwrap();
    drop(writing);

    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("SIGKILL") && said.contains("; the others go on"), "{said}");
    assert_eq!(results(&two).unwrap(), results(&one).unwrap());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("4 points: 4 run, 0 there before, 0 failed"), "{text}");
}

#[test]
fn the_start_of_a_job_is_simulated_as_a_tree_or_flat() {
    let start = |more: &[&str]| {
        let (code, out, err) =
            sim(&[&["start", "--ranks", "2000", "--hosts", "100", "--json"], more].concat());
        assert_eq!(code, Some(0), "{err}");
        serde_json::from_str::<serde_json::Value>(&out).expect("JSON")["simulated"][0].clone()
    };
    let (tree, flat) = (start(&[]), start(&["--branch-count", "0"]));
    assert_eq!((tree["connections"].as_u64(), tree["levels"].as_u64()), (Some(32), Some(2)));
    assert_eq!((flat["connections"].as_u64(), flat["levels"].as_u64()), (Some(100), Some(1)));
    assert_eq!(tree["requests"], flat["requests"]);
    let folder = tempfile::tempdir().expect("a folder");
    let slow = file(&folder, "slow.toml", b"login_us = 9000000\n");
    let slow = start(&["--branch-count", "0", "--costs", &slow]);
    let seconds = |value: &serde_json::Value| value["elapsed_s"].as_f64().expect("seconds");
    assert!(seconds(&slow) - seconds(&flat) > 8.0);
}

#[test]
fn what_is_wrong_with_a_start_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let unknown = file(&folder, "unknown.toml", b"log_in_us = 1\n");
    let negative = file(&folder, "negative.toml", b"fork_us = -1\n");
    for (args, part) in [
        (&["--ranks", "10", "--hosts", "20"][..], "each host needs a rank"),
        (&["--ranks", "10000000", "--hosts", "20"], "at most"),
        (&["--costs", &unknown], "log_in_us"),
        (&["--costs", &negative], "fork_us"),
        (&["--branch-count", "1"], "one behind another"),
    ] {
        let (code, _, err) = sim(&[&["start"], args].concat());
        assert!(code == Some(2) && err.contains(part), "{args:?}: {code:?} {err}");
    }
}
