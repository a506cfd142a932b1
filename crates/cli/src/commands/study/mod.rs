//! `ayatori study`: a paper's figures, computed, beside the paper's own.

mod pacing;
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
    /// Packet pacing on FX10: random ring and all-to-all over gap, and gaps that need no search (figures 1 to 3)
    Pacing(pacing::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.study {
        Study::Vlan(args) => vlan::run(args),
        Study::Pacing(args) => pacing::run(&args),
    }
}
