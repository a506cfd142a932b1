//! Further tasks with a plan: `ayatori plan check|show|design|prime|repairs|watch|netbox|schema`.

use ayatori_fabric::plan::SCHEMA;

use super::{check, design, netbox, prime, repairs, report, show, watch};
use crate::exit::Exit;

/// A task of `ayatori plan`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    /// Say what of the switches' collected state differs from the plan
    Check(check::Args),
    /// Write the plan as one page for a browser
    Show(show::Args),
    /// The cheapest networks for so many hosts, from a price list
    Design(design::Args),
    /// Teach the switches where this host is: one broadcast frame on every VLAN
    Prime(prime::Args),
    /// Compute the repair for every single link and switch that may fail, into files
    Repairs(repairs::Args),
    /// Watch links and LLDP, and apply the repair for what fails
    Watch(watch::Args),
    /// Write the plan as tables for NetBox's bulk import, or a machine file from what stands in NetBox
    Netbox(netbox::Args),
    /// Print the JSON schema of what --json prints and of plan.json
    Schema,
}

impl Task {
    /// Does it.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Task::Check(args) => check::run(args),
            Task::Show(args) => show::run(args),
            Task::Design(args) => design::run(args),
            Task::Prime(args) => prime::run(args),
            Task::Repairs(args) => repairs::run(args),
            Task::Watch(args) => watch::run(args),
            Task::Netbox(args) => netbox::run(args),
            Task::Schema => {
                report::print(SCHEMA)?;
                Ok(Exit::Success)
            }
        }
    }
}
