//! `cargo xtask run`: the main job. Builds everything, compiles two MPI programs with our `mpicc` and runs
//! them with `ayatori run`: a heat equation checked against its serial solution, and a ping-pong beside the
//! machine's raw limits.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{paths, process, stage};

/// `cargo xtask run`.
pub(crate) fn run() -> Result<()> {
    let prefix = stage::stage()?;
    for (name, ranks) in [("heat", 4), ("pingpong", 2)] {
        let program = paths::build_dir().join("examples").join(name);
        let source = paths::root().join("examples").join(format!("{name}.c"));
        compile(&prefix, &source, &program)?;
        let mut command = Command::new(prefix.join("bin/ayatori"));
        command.args(["run", "-n", &ranks.to_string()]).arg(&program);
        println!("\n$ {}", process::line(&command));
        process::show(&mut command)?;
    }
    Ok(())
}

/// Compiles one C program with the staged `mpicc`; the compiler's own messages are shown as they come.
fn compile(prefix: &Path, source: &Path, program: &Path) -> Result<()> {
    if let Some(dir) = program.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    mpicc.args(["-O2", "-Wall", "-Wextra", "-std=gnu11"]).arg(source).arg("-o").arg(program).arg("-lm");
    process::show(&mut mpicc)
}
