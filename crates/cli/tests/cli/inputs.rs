//! Messages for wrong input.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn ayatori(words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
    command.args(words).current_dir(folder).stdin(Stdio::null()).env_remove("AYATORI_AGENT");
    command.output().expect("ayatori starts")
}

/// A folder with a file that is text but no machine, one that is no text, one that is empty, and a folder.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "name = \n").unwrap();
    std::fs::write(folder.path().join("noise.toml"), b"\xff\x00\xfe").unwrap();
    std::fs::write(folder.path().join("empty.toml"), "").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    folder
}

/// The arguments (`@` stands for a valid machine), the exit code, and a part of the error.
const WRONG: &[(&str, i32, &str)] = &[
    ("frobnicate", 2, "unrecognized subcommand 'frobnicate'"),
    ("run", 2, "required arguments were not provided"),
    ("run -n two true", 2, "'two' for '--np <N>': not a number of ranks"),
    ("run --frobnicate true", 2, "unknown option '--frobnicate'"),
    ("run ./nothing", 127, "program not found: './nothing'"),
    ("run ./folder", 126, "cannot execute './folder': it is a directory"),
    ("run ./bad.toml", 126, "cannot execute './bad.toml': it is not executable"),
    ("run --wdir bad.toml true", 2, "--wdir bad.toml: no such directory"),
    ("run --hostfile nothing true", 2, "host file nothing: No such file"),
    ("run --hostfile folder true", 2, "host file folder: Is a directory"),
    ("run --hostfile noise.toml true", 2, "host file noise.toml: "),
    ("run --hostfile empty.toml true", 2, "empty.toml: 0 hosts"),
    ("agent", 1, "the agent's input does not come from its launcher"),
    ("info --explain send much", 2, "'much' is no length"),
    ("info --explain frobnicate 8", 2, "unknown operation 'frobnicate'"),
    ("why nothing", 1, "no MPI job of this user on this host is 'nothing'"),
    ("plan nothing", 1, "nothing: cannot be read: No such file"),
    ("plan folder", 1, "folder: cannot be read: Is a directory"),
    ("plan bad.toml", 1, "bad.toml:1: "),
    ("plan noise.toml", 1, "noise.toml: is not UTF-8 text"),
    ("plan empty.toml", 1, "empty.toml: name: is missing from the file"),
    ("plan @ --traffic nothing", 1, "cannot read nothing: No such file"),
    ("plan @ --traffic noise.toml", 1, "cannot read noise.toml: "),
    ("plan @ --out bad.toml", 1, "the folder bad.toml: Not a directory"),
    ("plan @ --without-link s0.0", 1, "--without-link s0.0: name two switches"),
    ("plan @ --without-switch s9.9", 1, "no switch \"s9.9\"; its first is \"s0.0\""),
    ("plan check @ --from nothing", 1, "nothing is not a folder"),
    ("plan show @ --html folder", 1, "cannot write folder: Is a directory"),
    ("plan prime @ --host h7", 2, "has no host h7; its first is node0"),
    ("lab nothing -- true", 1, "nothing: cannot be read"),
    ("lab @ --host h7 -- true", 2, "has no host h7; its first is node0"),
    ("lab @ --kernel folder -- true", 1, "no boot/vmlinuz-VERSION with lib/modules/VERSION below folder"),
    ("study vlan --bytes 4X", 2, "'4X' is no length"),
    ("study vlan --machines nothing", 1, "cannot read nothing/supernova.toml"),
    ("study pacing --machine nothing", 1, "cannot read nothing: No such file"),
    ("sim run nothing ping-pong", 1, "nothing: cannot be read: No such file"),
    ("sim run @ frobnicate", 2, "no workload 'frobnicate'"),
    ("sim run @ ./nothing", 1, "./nothing: cannot be read: No such file"),
    ("sim run @ ./folder", 1, "./folder: cannot be read: Is a directory"),
    ("sim run @ ./noise.toml", 1, "./noise.toml: neither GOAL text"),
    ("sim run @ ping-pong --bytes much", 2, "'much' is no length"),
    ("sim fuzz --frobnicate", 2, "unexpected argument '--frobnicate'"),
    ("calibrate --ranks 4", 2, "--check"),
    ("calibrate --check --ranks 1", 2, "1 is not in 2..=1024"),
    ("sim sweep bad.toml --share --fresh", 2, "cannot be used with"),
    ("sim bench frobnicate", 2, "unexpected argument 'frobnicate'"),
];

#[test]
fn every_wrong_input_is_named_in_one_error_with_an_exit_code() {
    let folder = folder();
    let machine = format!("{}/../../machines/lab-torus.toml", env!("CARGO_MANIFEST_DIR"));
    for &(line, code, part) in WRONG {
        let words: Vec<&str> =
            line.split(' ').map(|word| if word == "@" { machine.as_str() } else { word }).collect();
        let output = ayatori(&words, folder.path());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "ayatori {line}\n{error}");
        assert!(error.contains(part), "ayatori {line}\n{error}");
        assert!(!error.contains("panicked"), "ayatori {line}\n{error}");
        assert!(error.starts_with("ayatori: ") || error.starts_with("error: "), "ayatori {line}\n{error}");
    }
}

#[test]
fn the_vlan_study_needs_no_file() {
    let folder = folder();
    let output = ayatori(&["study", "vlan", "--tables"], folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
