//! Completions, manual pages, colour, `ayatori doctor`: from outside.

use std::process::Command;

fn ayatori(args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
    command.args(args).env_remove("NO_COLOR").envs(environment.iter().copied());
    let output = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn completions_know_the_subcommands_and_options() {
    for (shell, subcommand) in [
        ("bash", "ayatori__subcmd__doctor"),
        ("zsh", "_ayatori__subcmd__doctor_commands"),
        ("fish", "doctor"),
    ] {
        let (code, out, err) = ayatori(&["completions", shell], &[]);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains(subcommand) && out.contains("per-host"), "{shell}: {out}");
    }
    let (code, _, err) = ayatori(&["completions", "cmd.exe"], &[]);
    assert!(code == Some(2) && err.contains("fish"), "{err}");
}

#[test]
fn bash_completes_what_it_was_given() {
    let (_, script, _) = ayatori(&["completions", "bash"], &[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("ayatori");
    std::fs::write(&file, script).expect("a file");
    let ask = "source \"$0\"; COMP_WORDS=(ayatori sim ru); COMP_CWORD=2; _ayatori ayatori ru sim; \
               echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", ask]).arg(&file).output().expect("bash starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "run", "{output:?}");
}

#[test]
fn a_manual_page_is_written_for_each_subcommand() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, _, err) = ayatori(&["man", "--out", &folder.path().display().to_string()], &[]);
    assert_eq!(code, Some(0), "{err}");
    for page in ["ayatori.1", "ayatori-run.1", "ayatori-plan-check.1", "ayatori-doctor.1"] {
        let text = std::fs::read_to_string(folder.path().join(page))
            .unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH NAME"), "{page}");
    }
    let (code, out, _) = ayatori(&["man"], &[]);
    assert!(code == Some(0) && out.contains(".TH ayatori 1"), "{out}");
}

#[test]
fn doctor_finds_what_is_planted_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().display().to_string();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let (code, _, err) = ayatori(&["doctor", "--root", &root], &[]);
    assert!(code == Some(1) && err.contains("there is no"), "{err}");
    write("proc/self/mounts", "tmpfs /dev/shm tmpfs rw 0 0\n");
    let clean = [("PATH", "/usr/bin"), ("LD_LIBRARY_PATH", ""), ("LD_PRELOAD", "")];
    let (code, out, err) = ayatori(&["doctor", "--root", &root], &clean);
    assert!(code == Some(0) && out.ends_with("checks, nothing found\n"), "{out}{err}");
    write("proc/sys/kernel/yama/ptrace_scope", "3");
    let (code, out, _) = ayatori(&["doctor", "--root", &root], &clean);
    assert!(code == Some(1) && out.starts_with("warning (one-copy): kernel.yama.ptrace_scope=3"), "{out}");
    let (code, out, _) = ayatori(&["doctor", "--json", "--root", &root], &clean);
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &value["findings"][0]["severity"]), (Some(1), &"warning".into()));
}

/// A machine as it should be, as far as the checks of the next test look.
const HEALTHY: [(&str, &str); 9] = [
    ("proc/self/limits", "Max open files 65536 65536 files\nMax processes 4096 4096 processes\n"),
    ("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,size=16000000k 0 0\n"),
    ("proc/self/cgroup", "0::/job\n"),
    ("proc/sys/kernel/yama/ptrace_scope", "0\n"),
    ("sys/fs/cgroup/job/cpu.max", "max 100000\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet\n"),
    ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
];

#[test]
fn doctor_finds_ten_faults_planted_at_once_and_nothing_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().display().to_string();
    let write = |(name, text): &(&str, &str)| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let doctor = |environment: &[(&str, &str)]| {
        let (code, out, err) = ayatori(&["doctor", "-n", "16", "--json", "--root", &root], environment);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let findings = value["findings"].as_array().expect("a list").clone();
        let names = findings.iter().map(|finding| finding["check"].as_str().expect("a name").to_owned());
        (code, names.collect::<std::collections::BTreeSet<String>>())
    };
    HEALTHY.iter().for_each(write);
    let clean = [("PATH", "/usr/bin"), ("LD_LIBRARY_PATH", ""), ("LD_PRELOAD", "")];
    assert_eq!(doctor(&clean), (Some(0), [].into()));

    let planted = [
        ("proc/self/limits", "Max open files 64 64 files\nMax processes 20 20 processes\n"),
        ("proc/self/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0\n"),
        ("proc/sys/kernel/yama/ptrace_scope", "1\n"),
        ("sys/fs/cgroup/job/cpu.max", "150000 100000\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("proc/sys/net/ipv4/tcp_congestion_control", "lp\n"),
    ];
    planted.iter().for_each(write);
    let mut environment = clean.to_vec();
    environment.extend([("LD_PRELOAD", "/nowhere/libmpi.so.40"), ("AYATORI_PROGRESS", "fast")]);
    let wanted = [
        "open-files",
        "processes",
        "dev-shm",
        "one-copy",
        "cpu-quota",
        "huge-pages",
        "clock-source",
        "tcp-congestion",
        "library",
        "settings",
    ];
    assert_eq!(doctor(&environment), (Some(1), wanted.map(str::to_owned).into()));
}

#[test]
fn colour_is_where_it_is_wanted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir_all(folder.path().join("proc/sys/vm")).expect("a folder");
    std::fs::write(folder.path().join("proc/sys/vm/memfd_noexec"), "2").expect("a file");
    let root = folder.path().display().to_string();
    let is_coloured = |color: &str, environment: &[(&str, &str)]| {
        ayatori(&["--color", color, "doctor", "--root", &root], environment).1.contains("\x1b[")
    };
    assert!(is_coloured("always", &[]) && is_coloured("always", &[("NO_COLOR", "1")]));
    assert!(!is_coloured("auto", &[]) && !is_coloured("never", &[]));
}
