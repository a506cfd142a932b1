//! The standard ABI at work: binaries made by MPICH's `mpicc_abi` run on MPICH's `libmpi_abi.so.1` and then,
//! unchanged, on ours. Only the library path differs (`LD_LIBRARY_PATH` goes before the path the wrapper
//! wrote). Ours is also run under MPICH's `mpiexec`, which speaks PMI-1.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{CommonOptions, Tally, Verdict, directory, our_prefix, programs};
use crate::peers::Library;
use crate::process;

const RANKS: [usize; 2] = [2, 3];

/// Programs with a check that MPICH itself fails; see conformance/README.md.
const FAIL_ON_MPICH: [&str; 2] = ["err_classes", "p2p_sendrecv"];

/// Programs that check what the standard allows and does not ask for.
const OURS_ALONE: [&str; 2] = ["dynamic_finalize", "p2p_pending"];

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
        for ranks in options.ranks_or(&RANKS) {
            let on_mpich = Library::Mpich.launch(ranks, &program, &[]);
            let on_ours = Library::Ayatori.launch(ranks, &program, &[]);
            let ours_under_hydra = Library::Mpich.launch(ranks, &program, &[]);
            let runs = [
                ("MPICH's library", on_mpich),
                ("ours", on_ours),
                ("ours under MPICH's mpiexec", ours_under_hydra),
            ];
            for (place, (what, mut command)) in runs.into_iter().enumerate() {
                if place > 0 {
                    command.env("LD_LIBRARY_PATH", ours.join("lib"));
                }
                let outcome = process::capture(&mut command, options.limit())?;
                let verdict = match programs::no_errors(&outcome) {
                    Verdict::Failed(_) if place == 0 && FAIL_ON_MPICH.contains(&name.as_str()) => {
                        Verdict::LeftOut("a check that MPICH fails".to_owned())
                    }
                    // What waits cost and how messages go on is promised by us, not by the standard.
                    Verdict::Failed(_)
                        if place == 0
                            && (name.starts_with("progress_") || OURS_ALONE.contains(&name.as_str())) =>
                    {
                        Verdict::LeftOut("MPICH does not promise this".to_owned())
                    }
                    verdict => verdict,
                };
                tally.add(&format!("{name} on {what}"), ranks, verdict, &outcome);
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
