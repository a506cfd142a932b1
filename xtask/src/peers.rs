//! The libraries that are compared: how each is installed, compiled against and launched.
//!
//! Peers come from the Python package index, each into `.venvs/NAME`. Intel's package carries no headers; its
//! library keeps MPICH's ABI, so programs for it are compiled against MPICH's `mpi.h` and linked with its
//! `libmpi.so.12`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::translate::Abi;
use crate::{paths, process, stage};

/// No compiler takes so long on a machine that is busy; 120 s once passed while others had all of its CPUs.
const COMPILE_MAX: Duration = Duration::from_secs(600);

/// A library and the way to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// Ours.
    Ayatori,
    /// Open MPI 5 with its shared-memory transport.
    OpenMpi,
    /// Open MPI 5 over UCX.
    OpenMpiUcx,
    /// MPICH 5. With more ranks than CPUs its progress throttle is on: without it, it is a hundred times
    /// slower.
    Mpich,
    /// Intel MPI.
    Intel,
}

impl Library {
    /// All, ours first.
    pub(crate) const ALL: [Self; 5] =
        [Self::Ayatori, Self::OpenMpi, Self::OpenMpiUcx, Self::Mpich, Self::Intel];

    /// The name in tables and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ayatori => "ayatori",
            Self::OpenMpi => "ompi",
            Self::OpenMpiUcx => "ompi_ucx",
            Self::Mpich => "mpich",
            Self::Intel => "impi",
        }
    }

    /// The library called `name`.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }

    /// The library whose header programs of that ABI are compiled with.
    pub(crate) fn of_abi(abi: Abi) -> Self {
        match abi {
            Abi::Mpich => Self::Mpich,
            Abi::OpenMpi => Self::OpenMpi,
        }
    }

    /// Programs compiled for one serve the other: they are the same library.
    pub(crate) fn build_name(self) -> &'static str {
        match self {
            Self::OpenMpiUcx => "ompi",
            other => other.name(),
        }
    }

    /// Package on the Python package index and the virtual environment's name; `None` for ours.
    fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Ayatori => None,
            Self::OpenMpi | Self::OpenMpiUcx => Some(("openmpi", "openmpi")),
            Self::Mpich => Some(("mpich", "mpich")),
            Self::Intel => Some(("impi-rt", "impi")),
        }
    }

    /// Where it is installed.
    pub(crate) fn prefix(self) -> PathBuf {
        match self.package() {
            None => paths::build_dir().join("prefix"),
            Some((_, venv)) => paths::venvs_dir().join(venv),
        }
    }

    /// Installs the library where that is still to do.
    ///
    /// # Errors
    /// Why it cannot be used here; the caller leaves it out.
    pub(crate) fn prepare(self) -> Result<()> {
        match self.package() {
            None => stage::stage().map(|_| ()),
            Some((package, venv)) => create_venv(package, &paths::venvs_dir().join(venv)),
        }?;
        if self == Self::Intel { Self::Mpich.prepare() } else { Ok(()) }
    }

    /// What is installed, for the record: the wheel's version, or ours.
    pub(crate) fn version(self) -> String {
        let Some((package, _)) = self.package() else { return env!("CARGO_PKG_VERSION").to_owned() };
        let mut pip = Command::new(self.prefix().join("bin/python"));
        pip.args(["-c", "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))", package]);
        match process::capture(&mut pip, Duration::from_secs(20)) {
            Ok(outcome) if outcome.success() => outcome.stdout.trim().to_owned(),
            _ => "unknown".to_owned(),
        }
    }

    /// Its `mpicc` and `mpicxx`; Intel's package has none.
    pub(crate) fn wrappers(self) -> Option<(PathBuf, PathBuf)> {
        let bin = self.prefix().join("bin");
        (self != Self::Intel).then(|| (bin.join("mpicc"), bin.join("mpicxx")))
    }

    /// Compiles `source` for this library.
    ///
    /// # Errors
    /// The compiler refuses; its message is in the error.
    pub(crate) fn compile(self, source: &Path, program: &Path) -> Result<()> {
        self.compile_with(source, program, &["-O2"])
    }

    /// The same with these flags of the compiler.
    pub(crate) fn compile_with(self, source: &Path, program: &Path, flags: &[&str]) -> Result<()> {
        fs::create_dir_all(program.parent().expect("a file in build/"))?;
        let prefix = self.prefix();
        let is_fortran = source.extension().is_some_and(|extension| extension != "c");
        let mut command = if is_fortran {
            let mut mpifort = Command::new(prefix.join("bin/mpifort"));
            // Old programs pass buffers of several types. Modules are written to the current directory.
            mpifort.arg("-fallow-argument-mismatch").arg(source).current_dir(program.with_file_name(""));
            mpifort
        } else if self == Self::Intel {
            let lib = prefix.join("lib");
            let mut cc = Command::new("cc");
            cc.arg("-I").arg(Self::Mpich.prefix().join("include")).arg(source).arg(lib.join("libmpi.so.12"));
            cc.arg(format!("-Wl,-rpath,{},--allow-shlib-undefined", lib.display()));
            cc
        } else {
            let mut mpicc = Command::new(prefix.join("bin/mpicc"));
            mpicc.arg(source);
            mpicc
        };
        if !is_fortran {
            command.args(["-std=gnu11", "-lm"]);
        }
        command.args(flags).arg("-o").arg(program);
        let outcome = process::capture(&mut command, COMPILE_MAX)?;
        if !outcome.success() {
            bail!("`{}` failed: {}", process::line(&command), outcome.reason());
        }
        Ok(())
    }

    /// The command that runs `program` on `ranks` ranks. Up to one rank a CPU, ranks are pinned one to a
    /// core; with more ranks than CPUs nothing is pinned and every library is told so in the way it wants.
    pub(crate) fn launch(self, ranks: usize, program: &Path, arguments: &[&str]) -> Command {
        self.launch_as(ranks, ranks <= paths::cpu_count(), program, arguments)
    }

    /// The same, and whether ranks are pinned is the caller's choice.
    pub(crate) fn launch_as(self, ranks: usize, pinned: bool, program: &Path, arguments: &[&str]) -> Command {
        let launcher = if self == Self::Ayatori { "bin/ayatori" } else { "bin/mpiexec" };
        let mut command = Command::new(self.prefix().join(launcher));
        match self {
            Self::Ayatori => {
                command.args(["run", "--bind-to", if pinned { "core" } else { "none" }]);
            }
            Self::OpenMpi | Self::OpenMpiUcx => self.open_mpi(&mut command, pinned),
            Self::Mpich => {
                if pinned {
                    command.args(["-bind-to", "core"]);
                } else {
                    command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
                    command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "1");
                }
            }
            Self::Intel => {
                command.env("I_MPI_FABRICS", "shm").env("I_MPI_PIN", if pinned { "1" } else { "0" });
            }
        }
        command.args(["-n", &ranks.to_string()]).arg(program).args(arguments);
        command
    }

    fn open_mpi(self, command: &mut Command, pinned: bool) {
        if nix::unistd::geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
        if self == Self::OpenMpiUcx {
            let ucx = ["pml", "ucx", "pml_ucx_tls", "any", "pml_ucx_devices", "any"];
            for pair in ucx.chunks(2) {
                command.arg("--mca").args(pair);
            }
        } else {
            // The transports it would choose anyway; naming them saves a second of start-up.
            command.args(["--mca", "pml", "ob1", "--mca", "btl", "sm,self"]);
        }
        if pinned {
            command.args(["--bind-to", "core"]);
        } else {
            command.args(["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]);
        }
    }
}

fn create_venv(package: &str, venv: &Path) -> Result<()> {
    let done = venv.join(".installed");
    if done.exists() {
        return Ok(());
    }
    println!("installing {package} into {}", venv.display());
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).arg(venv);
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
    for command in [&mut python, &mut pip] {
        let outcome = process::capture(command, Duration::from_secs(600))?;
        if !outcome.success() {
            bail!("`{}` failed: {}", process::line(command), outcome.reason());
        }
    }
    fs::write(&done, package)?;
    Ok(())
}
