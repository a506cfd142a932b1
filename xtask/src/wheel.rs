//! `cargo xtask wheel`: one wheel for pip with the library, the wrappers, the command and the Python
//! module, and its test.
//!
//! The wheel is written by `crates/python/make_wheel.py` from an installation in `build/wheel/prefix`. The
//! test installs it into an empty environment, where nothing of the source tree and no compiler is in the
//! way, and runs the module's tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::target::Target;
use crate::{conformance, paths, process, skips, stage};

/// Options of `cargo xtask wheel`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Install it into an empty environment and test it there.
    #[arg(long)]
    test: bool,
    /// Where to put the wheel.
    #[arg(long, default_value = "dist")]
    out: PathBuf,
    /// Build it for another machine: aarch64-unknown-linux-gnu. With --test, what can be emulated is run.
    #[arg(long)]
    target: Option<String>,
}

/// The most that a wheel may take, bytes.
const WHEEL_BYTES_MAX: u64 = 15_000_000;
/// For what hangs: pip may have to download.
const LIMIT: Duration = Duration::from_secs(600);

/// `cargo xtask wheel`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let out = paths::root().join(&options.out);
    let target = Target::named(options.target.as_deref())?;
    let wheel = make(&target, &out)?;
    println!("{}: {:.1} MB", wheel.display(), fs::metadata(&wheel)?.len() as f64 / 1e6);
    match (options.test, target.is_here()) {
        (false, _) => Ok(()),
        (true, true) => test(&wheel),
        (true, false) => {
            stage::check(&prefix(&target))?;
            conformance::run_emulated(&target)
        }
    }
}

/// What `cargo xtask test` does: a wheel in `build`, and its test.
pub(crate) fn check() -> Result<()> {
    if version(&python()).is_none() {
        skips::note("wheel", "needs python3, 3.10 or later, with venv");
        return Ok(());
    }
    test(&make(&Target::HERE, &paths::build_dir().join("wheel"))?)
}

fn python() -> PathBuf {
    std::env::var_os("PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

/// Its version, if it can make environments and is not too old.
fn version(python: &Path) -> Option<String> {
    let ask = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10); print(sys.version)";
    let outcome = process::capture(Command::new(python).args(["-c", ask]), LIMIT).ok()?;
    outcome.success().then_some(outcome.stdout)
}

/// What the wheel for a target holds, laid out.
pub(crate) fn prefix(target: &Target) -> PathBuf {
    target.build_dir().join("wheel/prefix")
}

fn make(target: &Target, out: &Path) -> Result<PathBuf> {
    let mut cargo = stage::cargo_build();
    target.choose(&mut cargo);
    process::show(cargo.args(["-p", "ayatori-python"]))?;
    let prefix = prefix(target);
    if prefix.exists() {
        fs::remove_dir_all(&prefix).context("an old prefix of a wheel")?;
    }
    stage::lay_out(&prefix, target)?;
    let extension = target.build_dir().join("wheel/_native.abi3.so");
    stage::install_stripped(target, &target.release_dir().join("libayatori_python.so"), &extension)?;
    let root = paths::root();
    let sources = root.join("crates/python");
    let mut python = Command::new(python());
    python.arg(sources.join("make_wheel.py")).args(["--version", stage::VERSION]);
    python.args(["--machine", target.machine()]);
    for (option, path) in [
        ("--prefix", prefix),
        ("--extension", extension),
        ("--package", sources.join("python/ayatori")),
        ("--licence", root.join("LICENSE-MIT")),
        ("--licence", root.join("LICENSE-APACHE")),
        ("--readme", root.join("README.md")),
        ("--out", out.to_owned()),
    ] {
        python.arg(option).arg(path);
    }
    let made = done(&mut python)?;
    let wheel = PathBuf::from(made.lines().last().context("make_wheel.py named no wheel")?);
    let bytes = fs::metadata(&wheel)?.len();
    ensure!(bytes <= WHEEL_BYTES_MAX, "the wheel has {bytes} bytes; at most {WHEEL_BYTES_MAX} are wanted");
    Ok(wheel)
}

/// Runs a program to its end and gives what it said.
fn done(command: &mut Command) -> Result<String> {
    let outcome = process::capture(command, LIMIT)?;
    if !outcome.success() {
        let said = process::last_lines(&(outcome.stdout.clone() + &outcome.stderr), 30);
        bail!("`{}`: {}\n{said}", process::line(command), outcome.reason());
    }
    eprint!("{}", outcome.stderr);
    Ok(outcome.stdout)
}

/// An environment without the source tree: nothing of ours in PATH, no compiler, no library path.
fn inside(environment: &Path, program: &str) -> Command {
    let mut command = Command::new(environment.join("bin").join(program));
    command.env_clear().env("PATH", environment.join("bin")).env("HOME", environment);
    for kept in ["PIP_INDEX_URL", "PIP_CONFIG_FILE", "HTTPS_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command.current_dir(environment);
    command
}

fn test(wheel: &Path) -> Result<()> {
    let environment = paths::venvs_dir().join("wheel");
    if !environment.join("bin/python").exists() {
        done(Command::new(python()).args(["-m", "venv"]).arg(&environment))?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"];
    done(inside(&environment, "python").args(install).arg(wheel))?;
    ranks_start(&environment)?;
    let what = "the Python module's tests (cargo xtask wheel)";
    if !with_packages(&environment)? {
        skips::note(what, "NumPy, pandas and pytest cannot be had from PyPI");
        return Ok(());
    }
    let command = environment.join("bin/ayatori");
    let tests = paths::root().join("crates/python/tests");
    let pytest = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider"];
    let mut pytest_run = inside(&environment, "python");
    pytest_run.args(pytest).arg(tests).env("AYATORI_COMMAND", command).env("PYTHONDONTWRITEBYTECODE", "1");
    print!("{}", done(&mut pytest_run)?);
    mpi4py_runs(&environment)
}

/// mpi4py as PyPI has it: built for MPICH and for Open MPI, here on the translators.
fn mpi4py_runs(environment: &Path) -> Result<()> {
    for abi in ["mpich", "openmpi"] {
        let translator = environment.join("lib/ayatori").join(abi);
        ensure!(translator.is_dir(), "the wheel has no translator of {abi}");
        let mut hello = inside(environment, "mpiexec");
        hello.args(["-n", "4", "python", "-m", "mpi4py.bench", "helloworld"]);
        let said = done(hello.env("LD_LIBRARY_PATH", &translator))?;
        let count = said.lines().filter(|line| line.contains(" of 4 ")).count();
        ensure!(count == 4, "mpi4py on the translator of {abi} said {said:?}");
        println!("wheel: mpi4py of PyPI, as built for {abi}: 4 times \"of 4\"");
    }
    Ok(())
}

/// Four ranks without a compiler: Python calls the library that lies in the environment.
fn ranks_start(environment: &Path) -> Result<()> {
    let program = "import ctypes, sys\n\
        mpi = ctypes.CDLL(sys.prefix + '/lib/libmpi_abi.so.1')\n\
        mpi.MPI_Init(None, None)\n\
        size = ctypes.c_int()\n\
        mpi.MPI_Comm_size(ctypes.c_void_p(0x101), ctypes.byref(size))\n\
        print('of', size.value, flush=True)\n\
        mpi.MPI_Finalize()\n";
    let said = done(inside(environment, "mpiexec").args(["-n", "4", "python", "-c", program]))?;
    ensure!(said.lines().filter(|line| *line == "of 4").count() == 4, "four ranks said {said:?}");
    let wrapper = done(inside(environment, "mpicc").env("PATH", "/usr/bin:/bin").arg("-show"))?;
    ensure!(wrapper.contains(&format!("{}", environment.display())), "mpicc -show: {wrapper}");
    done(inside(environment, "python").args(["-c", "import ayatori; print(ayatori.workloads())"]))?;
    println!("wheel: four ranks, mpicc and `import ayatori` from {}", environment.display());
    Ok(())
}

/// Whether the environment has what the module's tests need, by now.
fn with_packages(environment: &Path) -> Result<bool> {
    let ask = ["-c", "import numpy, pandas, pytest, nbclient, ipykernel, mpi4py"];
    let has = |environment: &Path| -> Result<bool> {
        Ok(process::capture(inside(environment, "python").args(ask), LIMIT)?.success())
    };
    if has(environment)? {
        return Ok(true);
    }
    let install = ["-m", "pip", "install", "--quiet"];
    let packages = ["numpy", "pandas", "pytest", "nbclient", "ipykernel", "mpi4py"];
    // Where they cannot be had, the caller counts a skip.
    let _ = process::capture(inside(environment, "python").args(install).args(packages), LIMIT)?;
    has(environment)
}
