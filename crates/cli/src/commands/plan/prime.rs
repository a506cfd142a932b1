//! `ayatori plan prime`: the MAC learning procedure on this host (the paper, section 3.2): one
//! broadcast frame on every
//! VLAN, so that every switch knows on every VLAN where this host is.

use crate::exit::{Coded, Exit};
use anyhow::{Context, bail};
use ayatori_fabric::description::Machine;
use ayatori_fabric::host;
use ayatori_fabric::plan::{HostPlan, Plan, VlanInterface};
use std::io::{ErrorKind, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// What `ayatori plan prime` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The machine description
    file: PathBuf,
    /// The plan as it was written: its plan.json, or the folder that --out wrote. Needed where the plan
    /// was continued
    /// with --from, or made without a link or switch [default: the machine planned anew]
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Which host of it this one is (default: the one with this machine's host name)
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Go on, again after each period that the plan derives from the aging time
    #[arg(long)]
    repeat: bool,
    /// Say what would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
}

/// Primes once, or for ever.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let machine = Machine::load(&args.file)?;
    let plan = super::plan_of(&machine, args.plan.as_deref())?;
    let host = find_host(&plan, args.host.as_deref())?;
    let mut out = std::io::stdout().lock();
    loop {
        let mut sent_count = 0;
        for attachment in &host.attachments {
            for interface in plan.vlan_interfaces(attachment) {
                let address = interface.address.with_context(|| {
                    format!(
                        "{} has no address: the subnet of VLAN {} is too small",
                        interface.name, interface.vid
                    )
                })?;
                if args.dry_run {
                    writeln!(out, "{}: {address} to all hosts", interface.name)?;
                    continue;
                }
                if sent_count > 0 {
                    std::thread::sleep(Duration::from_millis(u64::from(plan.priming.gap_ms)));
                }
                send_from(host, &interface, address)?;
                sent_count += 1;
            }
        }
        if args.dry_run {
            return Ok(Exit::Success);
        }
        writeln!(out, "{}: one frame on each of {sent_count} VLAN interfaces", host.name)?;
        match plan.priming.period_s.filter(|_| args.repeat) {
            Some(period_s) => std::thread::sleep(Duration::from_secs(u64::from(period_s))),
            None => return Ok(Exit::Success),
        }
    }
}

fn find_host<'a>(plan: &'a Plan, named: Option<&str>) -> anyhow::Result<&'a HostPlan> {
    let own_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // A host may be described by its short name.
    let own_name = own_name.trim();
    let names = named
        .map_or_else(|| vec![own_name, own_name.split('.').next().unwrap_or_default()], |name| vec![name]);
    names.iter().find_map(|name| plan.hosts.iter().find(|host| host.name == *name)).ok_or_else(|| {
        let first = plan.hosts.first().map_or("", |host| &host.name);
        Coded::usage(format!(
            "{} has no host {}; its first is {first}; say which one this is with --host",
            plan.machine, names[0]
        ))
    })
}

fn send_from(on: &HostPlan, interface: &VlanInterface, address: Ipv4Addr) -> anyhow::Result<()> {
    match host::prime(address) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => bail!(
            "{} does not have the address {address}: run this host's script of the plan first (hosts/{}.sh)",
            interface.name,
            on.name
        ),
        sent => sent.with_context(|| format!("cannot send from {address} on {}", interface.name)),
    }
}
