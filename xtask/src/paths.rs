//! Where things are: the repository, cargo's output, ours.

use std::path::{Path, PathBuf};

/// The root of the repository (the parent of this crate).
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the repository").to_path_buf()
}

/// `build/`: everything xtask makes, ignored by git.
pub(crate) fn build_dir() -> PathBuf {
    root().join("build")
}

/// Cargo's target directory, `CARGO_TARGET_DIR` honoured.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// `.venvs/`: the peers' virtual environments, ignored by git.
pub(crate) fn venvs_dir() -> PathBuf {
    root().join(".venvs")
}

/// The CPUs this process may use.
pub(crate) fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}
