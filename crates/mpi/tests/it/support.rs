//! What the tests share: paths, the built library, running the C compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The folder of this crate.
pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of this crate as text.
pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(crate_dir().join(name)).unwrap_or_else(|e| panic!("cannot read {name}: {e}"))
}

/// The shared library, built as the tests are: cargo builds it for none of them, since Rust cannot link it.
pub(crate) fn library() -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let exe = std::env::current_exe().expect("a test has a path");
        let folder = exe.parent().and_then(Path::parent).expect("a test lies in TARGET/PROFILE/deps");
        let target = folder.parent().expect("a profile's folder lies in one");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--package", "ayatori-mpi", "--target-dir"]).arg(target);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let output = run(cargo.current_dir(crate_dir()));
        assert!(output.status.success(), "{cargo:?}: {}", text(&output));
        folder.join("libmpi_abi.so")
    });
    BUILT.clone()
}

/// A folder of its own for one test, emptied first.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the target folder can be written");
    dir
}

/// Runs a command to its end; fails if it cannot be started.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"))
}

/// Both outputs of a command as text.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Says that a check is skipped; `cargo xtask test` lists it in its summary.
pub(crate) fn skip(what: &str) {
    use std::io::Write;
    eprintln!("skipped: {what}");
    let Some(path) = std::env::var_os("AYATORI_SKIPS") else { return };
    let mut list =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the list of skips");
    // One write: other tests append at the same time.
    list.write_all(format!("{what}\n").as_bytes()).expect("the list of skips");
}
