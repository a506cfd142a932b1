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

use super::{CommonOptions, Tally, programs, translated};
use crate::peers::Library;
use crate::target::Target;
use crate::translate::{self, Abi};
use crate::{process, skips, wheel};

const RANKS: [usize; 1] = [2];
/// Programs that spawn: the launcher starts itself anew, and the kernel starts a foreign program only where
/// binfmt_misc knows its emulator.
const SPAWNING: [&str; 6] = [
    "dynamic_acquaint",
    "dynamic_connected",
    "dynamic_finalize",
    "dynamic_finalize_threads",
    "dynamic_parted",
    "dynamic_spawn",
];
const COMPILE_MAX: Duration = Duration::from_secs(600);

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
        let needs_kernel = SPAWNING.contains(&&*name) && !knows_emulator(target);
        if needs_kernel {
            skips::note(&format!("conformance c for {}: {name}", target.machine()), "needs binfmt_misc");
            continue;
        }
        let (program, left_out) = match place.compile(&source) {
            Ok(compiled) => compiled,
            Err(error) => {
                tally.add_uncompiled(&name, &error);
                continue;
            }
        };
        let expected = programs::expected(&fs::read_to_string(&source)?)?;
        for ranks in options.ranks_or(&RANKS) {
            if let Some(why) = &left_out {
                tally.leave_out(&name, ranks, why);
                continue;
            }
            let mut launch = place.launch(ranks, &program);
            launch.envs(options.progress());
            let outcome = process::capture(&mut launch, options.limit())?;
            tally.add(&name, ranks, programs::judge(&expected, &outcome), &outcome);
        }
    }
    let built_for = abi.map_or("the standard ABI", Abi::name);
    tally.close(&format!("conformance c for {}, built for {built_for}, emulated", target.machine()))
}

/// Whether this kernel starts programs of the target by itself.
fn knows_emulator(target: &Target) -> bool {
    let entry = Path::new("/proc/sys/fs/binfmt_misc").join(format!("qemu-{}", target.machine()));
    fs::read_to_string(entry).is_ok_and(|text| text.starts_with("enabled"))
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

    /// The program, and why it is left out, if it is.
    fn compile(&self, source: &Path) -> Result<(PathBuf, Option<String>)> {
        let folder = self.target.build_dir().join("conformance").join(self.abi.map_or("standard", Abi::name));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let name = programs::name(source);
        let program = folder.join(&name);
        if let (Some(include), Some(abi)) = (&self.include, self.abi) {
            let cc = translate::compiler(self.target, &self.prefix, include);
            let library = translate::installed(abi, &self.prefix);
            let lacks = translated::compile(cc, source, &library, &program)?;
            return Ok((program, lacks.or_else(|| translated::otherwise(abi, &name))));
        }
        let mut cc = Command::new(self.prefix.join("bin/mpicc"));
        cc.env("AYATORI_CC", self.target.cc()).args(["-std=gnu11", "-O1", "-o"]).arg(&program).arg(source);
        let outcome = process::capture(cc.args(["-lm", "-lpthread"]), COMPILE_MAX)?;
        if !outcome.success() {
            bail!("`{}` failed: {}", process::line(&cc), outcome.reason());
        }
        Ok((program, None))
    }

    /// The launcher sees qemu as the program, so the ABI has to be named.
    fn launch(&self, ranks: usize, program: &Path) -> Command {
        let mut command = self.target.program(&self.prefix.join("bin/ayatori"));
        command.args(["run", "--bind-to", "none", "--abi", self.abi.map_or("standard", Abi::name)]);
        command.args(["-n", &ranks.to_string()]).args(self.target.runner()).arg(program);
        command
    }
}
