//! The standard ABI at work: binaries made by MPICH's `mpicc_abi` run on MPICH's `libmpi_abi.so.1` and then,
//! unchanged, on ours. Only the library path differs (`LD_LIBRARY_PATH` goes before the path the wrapper
//! wrote). Ours is also run under MPICH's `mpiexec`, which speaks PMI-1.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{CommonOptions, Tally, Verdict, directory, our_prefix, programs};
use crate::peers::Library;
use crate::{paths, process};

const RANKS: [usize; 2] = [2, 3];

/// Programs with a check that MPICH itself fails; see conformance/README.md.
const FAIL_ON_MPICH: [&str; 2] = ["err_classes", "p2p_sendrecv"];

/// Programs that check what the standard allows and does not ask for.
const OURS_ALONE: [&str; 2] = ["dynamic_finalize", "p2p_pending"];

/// Where a program can run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    OnMpich,
    OnOurs,
    OursUnderHydra,
}

impl Place {
    const ALL: [Self; 3] = [Self::OnMpich, Self::OnOurs, Self::OursUnderHydra];

    fn name(self) -> &'static str {
        match self {
            Self::OnMpich => "MPICH's library",
            Self::OnOurs => "ours",
            Self::OursUnderHydra => "ours under MPICH's mpiexec",
        }
    }

    /// Hydra refuses a spawn in a job whose ranks it has bound ("duplicate setting: binding", 5.0.2), so it
    /// does not bind the ranks of programs that spawn.
    fn launch(self, name: &str, ranks: usize, program: &Path) -> Command {
        let pinned = ranks <= paths::cpu_count() && !name.starts_with("dynamic_");
        match self {
            Self::OnOurs => Library::Ayatori.launch(ranks, program, &[]),
            Self::OnMpich | Self::OursUnderHydra => Library::Mpich.launch_as(ranks, pinned, program, &[]),
        }
    }

    /// Why a program does not run here: MPICH or its mpiexec would hang or end it, whatever our library does.
    fn obstacle(self, name: &str) -> Option<&'static str> {
        match (self, name) {
            (Self::OnMpich | Self::OursUnderHydra, "dynamic_spawn") => {
                Some("Hydra does not answer a spawn of a program that does not exist")
            }
            (Self::OnMpich | Self::OursUnderHydra, "dynamic_parted") => {
                Some("Hydra ends the whole job when a started world aborts")
            }
            (Self::OnMpich, "dynamic_ports") => Some(
                "MPICH has other error classes for ports, and Hydra ends the job at a name it does not know",
            ),
            _ => None,
        }
    }
}

pub(super) fn run(options: &CommonOptions) -> Result<()> {
    Library::Mpich.prepare()?;
    let ours = our_prefix()?;
    let mut tally = Tally::default();
    for source in programs::sources()? {
        let name = programs::name(&source);
        if name.starts_with("fatal") || !options.wants(&name) {
            continue;
        }
        let program = directory(Library::Ayatori).join("abi").join(&name);
        build(&source, &program)?;
        let expected = programs::expected(&std::fs::read_to_string(&source)?)?;
        for ranks in options.ranks_or(&RANKS) {
            for place in Place::ALL {
                let what = format!("{name} on {}", place.name());
                if let Some(why) = place.obstacle(&name) {
                    tally.leave_out(&what, ranks, why);
                    continue;
                }
                let mut command = place.launch(&name, ranks, &program);
                if place != Place::OnMpich {
                    command.env("LD_LIBRARY_PATH", ours.join("lib"));
                }
                let outcome = process::capture(&mut command, options.limit())?;
                let verdict = match programs::judge(&expected, &outcome) {
                    Verdict::Failed(_)
                        if place == Place::OnMpich && FAIL_ON_MPICH.contains(&name.as_str()) =>
                    {
                        Verdict::LeftOut("a check that MPICH fails".to_owned())
                    }
                    // What waits cost and how messages go on is promised by us, not by the standard.
                    Verdict::Failed(_)
                        if place == Place::OnMpich
                            && (name.starts_with("progress_") || OURS_ALONE.contains(&name.as_str())) =>
                    {
                        Verdict::LeftOut("MPICH does not promise this".to_owned())
                    }
                    verdict => verdict,
                };
                tally.add(&what, ranks, verdict, &outcome);
            }
        }
    }
    tally.close("conformance mpich-abi")
}

fn build(source: &Path, program: &Path) -> Result<()> {
    std::fs::create_dir_all(program.parent().expect("a file in build/"))?;
    let mut wrapper = Command::new(Library::Mpich.prefix().join("bin/mpicc_abi"));
    wrapper.args(["-O1", "-std=gnu11"]).arg(source).arg("-o").arg(program).arg("-lm");
    let outcome = process::capture(&mut wrapper, Duration::from_secs(120))?;
    if !outcome.success() {
        bail!("`{}` failed: {}", process::line(&wrapper), outcome.reason());
    }
    Ok(())
}
