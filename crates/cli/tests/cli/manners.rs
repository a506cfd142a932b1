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
