//! `cargo xtask conformance`: test programs, ours and other people's, on our library or on a peer's.
//!
//! Other people's sources are not in the repository. Those that a package archive has are got from there
//! (`packages`, `mpi4py`); of the others `--source` (or `IMB_DIR`, `OSU_DIR`, `MPICH_DIR`) names a directory,
//! or a bare git repository, that holds them. They are copied to `build/conformance`, compiled with the
//! library's wrappers and run; what is counted is runs.

mod abi;
mod asan;
mod binaries;
mod emulated;
pub(crate) mod errors;
mod imb;
mod memcheck;
mod mpi4py;
mod mpich;
mod osu;
mod packages;
pub(crate) mod programs;
mod table;
mod translated;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::peers::Library;
use crate::process::{self, Outcome};
use crate::target::Target;
use crate::translate::Abi;
use crate::{paths, skips, stage};

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(clap::Subcommand)]
enum Suite {
    /// Our own C programs, conformance/c/*.c.
    C(COptions),
    /// Every function of the ABI with one wrong argument at a time, judged against conformance/errors.toml.
    Errors(CommonOptions),
    /// Intel MPI Benchmarks with data checks: IMB-MPI1, IMB-NBC, IMB-P2P.
    Imb(ForeignOptions<Imb>),
    /// OSU point-to-point and collective programs.
    Osu(ForeignOptions<Osu>),
    /// MPICH's own tests, test/mpi, judged against conformance/mpich.toml. --ranks: the most ranks a run may
    /// want.
    Mpich(ForeignOptions<MpichSuite>),
    /// mpi4py's own tests, from the Python package index, judged against conformance/mpi4py.toml.
    /// --only: its modules.
    Mpi4py(mpi4py::Options),
    /// Released programs of other people, got from package archives: conformance/packages.toml.
    Packages(packages::Options),
    /// Programs built for another MPI, got from package archives, on that MPI and on ours through the
    /// translator: conformance/binaries.toml.
    Binaries(binaries::Options),
    /// One binary made by MPICH's mpicc_abi, run on MPICH's library and on ours, unchanged.
    MpichAbi(CommonOptions),
}

/// What our own programs take.
#[derive(clap::Args)]
struct COptions {
    /// Compile them against the header of another MPI and run them on the translator.
    #[arg(long, conflicts_with = "library")]
    abi: Option<Abi>,
    /// For another machine, emulated, on what `cargo xtask wheel --target` lays out.
    #[arg(long, conflicts_with = "library")]
    target: Option<String>,
    /// Run them under valgrind: no use of memory that was not written or is not there, no memory lost.
    #[arg(long, conflicts_with_all = ["abi", "target", "library"])]
    memcheck: bool,
    /// Run them with AddressSanitizer, in them and in the library.
    #[arg(long, conflicts_with_all = ["abi", "target", "library", "memcheck"])]
    asan: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// What every suite takes.
#[derive(clap::Args, Clone)]
pub(crate) struct CommonOptions {
    /// Rank counts.
    #[arg(long, value_delimiter = ',')]
    pub(crate) ranks: Vec<usize>,
    /// Only programs whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// The library: ayatori, ompi, ompi_ucx, mpich or impi.
    #[arg(long, default_value = "ayatori")]
    pub(crate) library: String,
    /// Who makes progress (AYATORI_PROGRESS): inline, assisted or offload.
    #[arg(long)]
    pub(crate) progress: Option<String>,
    /// Seconds one run may take.
    #[arg(long, default_value_t = 120)]
    pub(crate) limit_s: u64,
}

impl CommonOptions {
    /// Our C programs at these ranks, on our library: what `cargo xtask test` runs.
    pub(crate) fn ours(ranks: Vec<usize>) -> Self {
        let library = Library::Ayatori.name().to_owned();
        Self { ranks, only: Vec::new(), library, progress: None, limit_s: 120 }
    }

    fn wants(&self, program: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| program.contains(part.as_str()))
    }

    fn ranks_or(&self, default: &[usize]) -> Vec<usize> {
        if self.ranks.is_empty() { default.to_vec() } else { self.ranks.clone() }
    }

    /// What runs have in their environment for the progress mode that is asked for.
    fn progress(&self) -> impl Iterator<Item = (&'static str, &String)> {
        self.progress.iter().map(|mode| ("AYATORI_PROGRESS", mode))
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.limit_s)
    }

    fn library(&self) -> Result<Library> {
        let library =
            Library::by_name(&self.library).with_context(|| format!("no library `{}`", self.library))?;
        library.prepare()?;
        Ok(library)
    }
}

/// Names the environment variable of a foreign suite.
trait Foreign {
    const VARIABLE: &'static str;
    const WHAT: &'static str;
}
struct Imb;
struct Osu;
struct MpichSuite;
impl Foreign for Imb {
    const VARIABLE: &'static str = "IMB_DIR";
    const WHAT: &'static str = "Intel MPI Benchmarks (github intel/mpi-benchmarks)";
}
impl Foreign for MpichSuite {
    const VARIABLE: &'static str = "MPICH_DIR";
    const WHAT: &'static str = "MPICH's test suite (github pmodels/mpich, test/mpi)";
}
impl Foreign for Osu {
    const VARIABLE: &'static str = "OSU_DIR";
    const WHAT: &'static str = "OSU micro-benchmarks 5 (github forresti/osu-micro-benchmarks)";
}

/// What a foreign suite takes besides.
#[derive(clap::Args)]
struct ForeignOptions<F: Foreign + Send + Sync + 'static> {
    /// Directory, or bare git repository, with the suite's source (default: IMB_DIR, OSU_DIR or MPICH_DIR).
    #[arg(long, visible_alias = "suite")]
    source: Option<PathBuf>,
    #[command(flatten)]
    common: CommonOptions,
    #[arg(skip)]
    _suite: std::marker::PhantomData<F>,
}

impl<F: Foreign + Send + Sync + 'static> ForeignOptions<F> {
    /// A fresh copy of the source under `build/conformance/<library>/<name>`.
    fn copy(&self, library: Library, name: &str) -> Result<PathBuf> {
        let Some(source) = self.source.clone().or_else(|| std::env::var_os(F::VARIABLE).map(PathBuf::from))
        else {
            bail!("the source of {} is needed: --source DIR or {}=DIR", F::WHAT, F::VARIABLE);
        };
        let to = directory(library).join(name);
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        std::fs::create_dir_all(&to)?;
        copy_source(&source, &to)
            .with_context(|| format!("cannot copy {} from {}", F::WHAT, source.display()))?;
        Ok(to)
    }
}

fn copy_source(source: &Path, to: &Path) -> Result<()> {
    let bare = source.join("objects").is_dir() && source.join("HEAD").is_file();
    if !bare {
        return process::show(Command::new("cp").arg("-r").arg(source.join(".")).arg(to));
    }
    let mut archive = Command::new("git");
    archive.arg("-C").arg(source).args(["archive", "HEAD"]).stdout(Stdio::piped());
    let mut archive = archive.spawn().context("cannot start git")?;
    let pipe = archive.stdout.take().expect("stdout is a pipe");
    process::show(Command::new("tar").arg("x").arg("-C").arg(to).stdin(pipe))?;
    if !archive.wait()?.success() {
        bail!("git archive failed");
    }
    Ok(())
}

fn directory(library: Library) -> PathBuf {
    paths::build_dir().join("conformance").join(library.name())
}

/// How a run ended, in a suite's eyes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// It cannot run here.
    Skipped(String),
    /// It does not apply: it is for more ranks, say.
    LeftOut(String),
    Failed(String),
}

/// The count of a suite, printed as it grows.
#[derive(Default)]
pub(crate) struct Tally {
    passed: usize,
    skipped: usize,
    left_out: usize,
    failed: Vec<String>,
}

impl Tally {
    /// Counts one run and prints its line.
    pub(crate) fn add(&mut self, name: &str, ranks: usize, verdict: Verdict, outcome: &Outcome) {
        let seconds = outcome.wall.as_secs_f64();
        match verdict {
            Verdict::Passed => {
                self.passed += 1;
                println!("ok      {name} at {ranks} ranks, {seconds:.1} s");
            }
            Verdict::Skipped(why) => {
                self.skipped += 1;
                skips::note(name, &why);
            }
            Verdict::LeftOut(why) => self.leave_out(name, ranks, &why),
            Verdict::Failed(why) => {
                println!("FAILED  {name} at {ranks} ranks, {seconds:.1} s: {why}");
                for line in outcome.stderr.lines().chain(outcome.stdout.lines()).take(15) {
                    println!("        {line}");
                }
                self.failed.push(format!("{name} at {ranks} ranks"));
            }
        }
    }

    /// Counts a run that is not made.
    pub(crate) fn leave_out(&mut self, name: &str, ranks: usize, why: &str) {
        self.left_out += 1;
        println!("left out {name} at {ranks} ranks: {why}");
    }

    /// A program that could not even be compiled.
    pub(crate) fn add_uncompiled(&mut self, name: &str, why: &anyhow::Error) {
        println!("FAILED  {name}: {why:#}");
        self.failed.push(name.to_owned());
    }

    /// Prints the closing line.
    ///
    /// # Errors
    /// Something failed, or nothing ran at all.
    pub(crate) fn close(self, suite: &str) -> Result<()> {
        let Self { passed, skipped, left_out, failed } = self;
        println!("{suite}: {passed} passed, {} failed, {skipped} skipped, {left_out} left out", failed.len());
        if !failed.is_empty() {
            bail!("{suite}: {} failed: {}", failed.len(), failed.join(", "));
        }
        if passed == 0 {
            bail!("{suite}: nothing ran; check --only and --ranks");
        }
        Ok(())
    }
}

/// What `cargo xtask wheel --target --test` runs: some of our C programs at 2 ranks, on each ABI.
///
/// # Errors
/// One fails.
pub(crate) fn run_emulated(target: &Target) -> Result<()> {
    let some = ["p2p_modes", "p2p_types", "coll_ops", "rma_operations", "datatype_make", "handle_integers"];
    let only = some.map(str::to_owned).to_vec();
    let options = CommonOptions { only, ..CommonOptions::ours(vec![2]) };
    let abis = [None, Some(Abi::Mpich), Some(Abi::OpenMpi)];
    abis.into_iter().try_for_each(|abi| emulated::run(target, abi, &options))
}

/// `cargo xtask conformance`.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.suite {
        Suite::C(COptions { abi, target: Some(target), common, .. }) => {
            emulated::run(&Target::named(Some(target))?, *abi, common)
        }
        Suite::C(COptions { abi: Some(abi), common, .. }) => translated::run(*abi, common),
        Suite::C(COptions { memcheck: true, common, .. }) => memcheck::run(common),
        Suite::C(COptions { asan: true, common, .. }) => asan::run(common),
        Suite::C(COptions { common, .. }) => programs::compile(common)?.run(common),
        Suite::Errors(common) => errors::run(common),
        Suite::Imb(options) => imb::run(options),
        Suite::Osu(options) => osu::run(options),
        Suite::Mpich(options) => mpich::run(options),
        Suite::Mpi4py(options) => mpi4py::run(options),
        Suite::Packages(options) => packages::run(options),
        Suite::Binaries(options) => binaries::run(options),
        Suite::MpichAbi(common) => abi::run(common),
    }
}

/// The staged prefix of our library.
fn our_prefix() -> Result<PathBuf> {
    stage::stage()
}
