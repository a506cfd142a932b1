//! `ayatori study`: a paper's figures, computed, beside the paper's own.

mod vlan;

use crate::exit::Exit;

/// Computes a paper's figures and prints them beside the paper's own.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, clap::Subcommand)]
enum Study {
    /// VLAN Ethernet topologies on SuperNova and Misc: diameter, bisection, number of VLANs (tables 2 and 7, figure 2)
    Vlan(vlan::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.study {
        Study::Vlan(args) => vlan::run(args),
    }
}
