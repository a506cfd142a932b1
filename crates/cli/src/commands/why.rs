//! `ayatori why`: what the ranks of a job do and wait for, and whether that can end.

use crate::exit::Exit;
use ayatori_launch::why::examine::{Form, examine};
use std::io::Write;

/// Exit code of `ayatori why` if ranks can never go on.
const STUCK: u8 = 3;

/// What `ayatori why` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without JOB: the one job there is, or a list of them. The job goes on undisturbed.
Exit code: 0 when every rank may go on, 3 when ranks can never go on (a deadlock), 1 when nothing can be said.
SIGUSR1 to `ayatori run` prints the same table there.")]
pub(crate) struct Args {
    /// The job's id or the beginning of it, or the process id of its launcher or of one of its ranks
    job: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show every rank on a line of its own, however many there are
    #[arg(short, long, conflicts_with = "json")]
    all: bool,
}

/// Says why a job does not go on.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let form = match (args.json, args.all) {
        (true, _) => Form::Json,
        (false, true) => Form::EachRank,
        (false, false) => Form::Table,
    };
    let finding = examine(args.job.as_deref(), form).map_err(super::run::coded)?;
    std::io::stdout().lock().write_all(finding.text.as_bytes())?;
    Ok(if finding.is_stuck { Exit::Code(STUCK) } else { Exit::Success })
}
