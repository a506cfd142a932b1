//! Our C programs for another machine, on the installation that `cargo xtask wheel --target` lays out, each
//! process in qemu's user mode: the launcher, too. On the standard ABI, or on a translator with the foreign
//! header.
//!
//! What this shows is that code for that machine computes what it should. Emulated memory is this machine's:
//! on x86 loads and stores are stronger ordered than on Arm, so no order that is missing can show. Nor is any
//! time measured, and what qemu does not emulate (io_uring, some of ptrace) is not reached.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{CommonOptions, Tally, programs};
use crate::peers::Library;
use crate::target::Target;
use crate::translate::{self, Abi};
use crate::{process, wheel};

const RANKS: [usize; 1] = [2];
const COMPILE_MAX: Duration = Duration::from_secs(120);

/// Compiles and runs the programs that `options` want.
///
/// # Errors
/// One fails, or none ran.
pub(super) fn run(target: &Target, abi: Option<Abi>, options: &CommonOptions) -> Result<()> {
    let place = Place::new(target, abi)?;
    let mut tally = Tally::default();
    for source in programs::sources()? {
        let name = programs::name(&source);
        if !options.wants(&name) {
            continue;
        }
        let program = match place.compile(&source) {
            Ok(program) => program,
            Err(error) => {
                tally.add_uncompiled(&name, &error);
                continue;
            }
        };
        let expected = programs::expected(&fs::read_to_string(&source)?)?;
        for ranks in options.ranks_or(&RANKS) {
            let mut launch = place.launch(ranks, &program);
            launch.envs(options.progress.iter().map(|mode| ("AYATORI_PROGRESS", mode)));
            let outcome = process::capture(&mut launch, options.limit())?;
            tally.add(&name, ranks, programs::judge(&expected, &outcome), &outcome);
        }
    }
    let built_for = abi.map_or("the standard ABI", Abi::name);
    tally.close(&format!("conformance c for {}, built for {built_for}, emulated", target.machine()))
}

/// Programs of one target and ABI.
struct Place<'t> {
    target: &'t Target,
    abi: Option<Abi>,
    prefix: PathBuf,
    /// The foreign header's folder.
    include: Option<PathBuf>,
}

impl<'t> Place<'t> {
    fn new(target: &'t Target, abi: Option<Abi>) -> Result<Self> {
        let prefix = wheel::prefix(target);
        if !prefix.join("bin/ayatori").is_file() {
            bail!("{} has no bin/ayatori: `cargo xtask wheel --target` makes it", prefix.display());
        }
        let peer = abi.map(Library::of_abi);
        peer.map_or(Ok(()), Library::prepare)?;
        let include = peer.map(|peer| peer.prefix().join("include"));
        Ok(Self { target, abi, prefix, include })
    }

    fn compile(&self, source: &Path) -> Result<PathBuf> {
        let folder = self.target.build_dir().join("conformance").join(self.abi.map_or("standard", Abi::name));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = folder.join(programs::name(source));
        let mut cc = match (&self.include, self.abi) {
            (Some(include), Some(abi)) => {
                let mut cc = translate::compiler(self.target, &self.prefix, include);
                cc.arg(source).arg(translate::installed(abi, &self.prefix));
                cc
            }
            _ => {
                let mut mpicc = Command::new(self.prefix.join("bin/mpicc"));
                mpicc.env("AYATORI_CC", self.target.cc()).arg(source);
                mpicc
            }
        };
        cc.args(["-std=gnu11", "-O2", "-w", "-lm", "-lpthread", "-o"]).arg(&program);
        let outcome = process::capture(&mut cc, COMPILE_MAX)?;
        if !outcome.success() {
            bail!("`{}` failed: {}", process::line(&cc), outcome.reason());
        }
        Ok(program)
    }

    /// The launcher sees qemu as the program, so the ABI has to be named.
    fn launch(&self, ranks: usize, program: &Path) -> Command {
        let mut command = self.target.program(&self.prefix.join("bin/ayatori"));
        command.args(["run", "--bind-to", "none", "--abi", self.abi.map_or("standard", Abi::name)]);
        command.args(["-n", &ranks.to_string()]).args(self.target.runner()).arg(program);
        command
    }
}
