//! `ayatori run` and `ayatori agent`: parse, call [`ayatori_launch`], print.

mod args;

pub(crate) use args::{Args, normalise};

use crate::exit::{Coded, Exit};
use ayatori_launch::{agent, allocation, controller, error};

/// What `ayatori agent` takes: nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {}

/// Starts the job and stays until it has ended.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let is_dry_run = args.is_dry_run();
    let spec = args::job_spec(args, allocation::of_this_process())?;
    if is_dry_run {
        print!("{}", controller::describe(&spec).map_err(coded)?);
        return Ok(Exit::Success);
    }
    Ok(match controller::run(&spec).map_err(coded)? {
        0 => Exit::Success,
        code => Exit::Code(code),
    })
}

/// Runs a world that ranks of another job have started.
pub(crate) fn run_world(descriptor: &str) -> anyhow::Result<Exit> {
    Ok(match controller::run_world(descriptor).map_err(coded)? {
        0 => Exit::Success,
        code => Exit::Code(code),
    })
}

/// Serves the ranks of this host for an `ayatori run` elsewhere.
pub(crate) fn run_agent(_: AgentArgs) -> anyhow::Result<Exit> {
    agent::run().map_err(coded)?;
    Ok(Exit::Success)
}

/// The launcher's error as one that asks for its exit code here.
pub(crate) fn coded(error: anyhow::Error) -> anyhow::Error {
    match error::exit_code(&error) {
        error::FAILURE => error,
        code => Coded::error(code, format!("{error:#}")),
    }
}
