//! `ayatori info`, from outside.

use std::process::Command;

fn info(args: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ayatori")).arg("info").args(args).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn it_says_what_there_is() {
    let (code, out, _) = info(&[]);
    assert_eq!(code, Some(0));
    let version = concat!("ayatori ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(out.starts_with(version), "{out}");
    for part in ["MPI-5.0", "CPUs", "NUMA", "open files", "devices\n", "shm", "one copy", "/dev/shm"] {
        assert!(out.contains(part), "{part} is missing: {out}");
    }
}

#[test]
fn it_says_when_a_launcher_is_unusable() {
    let output = Command::new(env!("CARGO_BIN_EXE_ayatori")).arg("info").env("PMIX_RANK", "0").output();
    let out = String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned();
    assert!(out.contains("PMIX_RANK=0") && out.contains("not usable"), "{out}");
}

#[test]
fn it_explains_a_choice() {
    let (code, out, _) = info(&["--explain", "allreduce", "64K", "-n", "32"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("allreduce of 64 KiB among 32 processes: "), "{out}");
    let (code, out, _) = info(&["--explain", "send", "8"]);
    assert!(code == Some(0) && out.starts_with("eager over shm"), "{out}");
    assert!(out.contains("between hosts: "), "{out}");
}

#[test]
fn an_algorithm_that_the_environment_forces_is_explained() {
    let output = Command::new(env!("CARGO_BIN_EXE_ayatori"))
        .args(["info", "--explain", "allreduce", "8", "-n", "6"])
        .env("AYATORI_COLL_ALLREDUCE", "ring")
        .env("AYATORI_COLL_SCAN", "magic")
        .output()
        .expect("it starts");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.contains("ring: taken by a setting"), "{out}");
    assert!(out.contains("AYATORI_COLL_SCAN=magic is none of "), "{out}");
}

#[test]
fn a_question_it_cannot_answer_is_named() {
    for (args, part) in [
        (&["--explain", "frobnicate", "8"][..], "'frobnicate'"),
        (&["--explain", "send", "lots"], "'lots'"),
        (&["--explain", "send"], "--explain"),
        (&["-n", "4"], "--explain"),
        (&["--explain", "send", "8", "-n", "0"], "0"),
    ] {
        let (code, _, err) = info(args);
        assert_eq!(code, Some(2), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
}

#[test]
fn rails_are_listed_with_the_reasons_of_those_left_out() {
    let output = Command::new(env!("CARGO_BIN_EXE_ayatori"))
        .args(["info", "--rails"])
        .env("AYATORI_NO_RAILS", "eth7")
        .output()
        .expect("ayatori runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert!(text.contains("lo ") && text.contains("not used: loopback"), "{text}");
    let nonsense = Command::new(env!("CARGO_BIN_EXE_ayatori"))
        .args(["info", "--rails"])
        .env("AYATORI_RAILS", "10.0.0.0/99")
        .output()
        .expect("ayatori runs");
    assert_eq!(nonsense.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nonsense.stderr).contains("10.0.0.0/99"));
}
