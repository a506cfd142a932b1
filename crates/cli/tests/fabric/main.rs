//! `ayatori plan check|show|prime` and `ayatori lab`, run as a user runs them.
#![forbid(unsafe_code)]

mod browser;
mod design;
mod docs;
mod netbox;
mod page;
mod schema;
mod tasks;
mod watch;
mod written;
mod wrong;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A machine description of the repository.
fn machine(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines").join(name)
}

fn ayatori(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ayatori")).args(args).output().expect("ayatori can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
