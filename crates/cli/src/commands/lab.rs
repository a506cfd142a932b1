//! `ayatori lab`: the described cluster on this machine.

use super::plan::plan_of;
use crate::exit::{Coded, Exit, FAILURE};
use anyhow::Context;
use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::Plan;
use ayatori_lab::vm::{self, Spec, kernel};
use ayatori_lab::{Lab, agent, report, verify};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What `ayatori lab` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Needs qemu-system-x86_64, a static busybox and a Linux kernel with modules \
    (Debian: apt-get install qemu-system-x86 busybox-static; ayatori lab --get-kernel). Needs no privilege.\n\
    Exit code: 0, or 1 if a check or the command failed in a host.")]
pub(crate) struct Args {
    /// The machine description
    #[arg(required_unless_present_any = ["get_kernel", "agent"])]
    file: Option<PathBuf>,
    /// The plan as it was written: a plan.json, or the folder of `ayatori plan --out`
    #[arg(long, value_name = "DIR")]
    plan: Option<PathBuf>,
    /// Command to run in every host at once
    #[arg(last = true)]
    command: Vec<String>,
    /// Run the command only in this host (may be repeated)
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Prove that the plan works: reach, routes, flooding, broadcasts, a wrong VLAN, a pulled cable
    #[arg(long)]
    verify: bool,
    /// Pairs of hosts whose route is checked by counters, at most
    #[arg(long, value_name = "COUNT", default_value_t = 24)]
    verify_pairs: usize,
    /// Do not teach the switches where the hosts are
    #[arg(long)]
    no_prime: bool,
    /// Write the switches' state into this folder, as `ayatori plan check --from` reads it
    #[arg(long, value_name = "DIR")]
    collect: Option<PathBuf>,
    /// Seconds the whole lab may take
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    timeout: u64,
    /// Accelerator of the virtual machine
    #[arg(long, value_enum, default_value_t = Accelerator::Tcg)]
    accel: Accelerator,
    /// Processor cores of the virtual machine (default: those of this machine, at most 4)
    #[arg(long, value_name = "COUNT")]
    cores: Option<usize>,
    /// Memory of the virtual machine, MiB (default: by the number of hosts)
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Folder with boot/vmlinuz-VERSION and lib/modules/VERSION
    #[arg(long, value_name = "DIR")]
    kernel: Option<PathBuf>,
    /// Download Debian's kernel into the cache, without installing it, and end
    #[arg(long, exclusive = true)]
    get_kernel: bool,
    /// Say what is being done and how long it took
    #[arg(long, short)]
    verbose: bool,
    /// Inside the virtual machine: serve the lab's requests
    #[arg(long, hide = true, exclusive = true)]
    agent: bool,
}

/// The accelerator of the virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Accelerator {
    /// QEMU translates instructions: works everywhere, several times slower
    Tcg,
    /// The processor runs them: needs access to /dev/kvm
    Kvm,
}

/// Starts the lab, runs what is asked, reports.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if args.agent {
        agent::serve()?;
        return Ok(Exit::Success);
    }
    if args.get_kernel {
        let kernel = kernel::download()?;
        writeln!(std::io::stdout(), "{}", kernel.image.display())?;
        return Ok(Exit::Success);
    }
    let file = args.file.as_deref().context("no machine description")?;
    let machine = Machine::load(file)?;
    let plan = plan_of(&machine, args.plan.as_deref())?;
    check_hosts(&args, &plan)?;
    let spec = spec(&args, &plan)?;
    if let Some(folder) = &args.collect {
        // An unwritable folder is reported now, not after minutes.
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut out = std::io::stdout().lock();
    let started = std::time::Instant::now();
    let mut lab = Lab::start(&plan, &spec, |step| {
        if args.verbose {
            eprintln!("{:6.1} s {step}", started.elapsed().as_secs_f64());
        }
    })?;
    writeln!(
        out,
        "{}: {} hosts, {} switches, {} VLANs up in {:.1} s (Linux {})",
        plan.machine,
        plan.hosts.len(),
        plan.switches.len(),
        plan.vlans.len(),
        started.elapsed().as_secs_f64(),
        lab.kernel()
    )?;
    let mut is_good = true;
    if args.verify {
        let checks = verify::run(&mut lab, &machine, args.verify_pairs, |check| {
            let mark = if check.has_passed { "ok  " } else { "FAIL" };
            // As each is made: the whole takes minutes.
            let _ = writeln!(out, "{mark} {}: {}", check.name, check.detail).and_then(|()| out.flush());
        })?;
        is_good = checks.iter().all(|check| check.has_passed);
    } else if !args.no_prime {
        lab.prime()?;
        writeln!(out, "primed: every switch knows every host on every VLAN")?;
    }
    let before = lab.counters()?;
    if !args.command.is_empty() {
        is_good &= run_command(&mut lab, &args, &mut out)?;
    }
    if !args.verify || !args.command.is_empty() {
        let traffic = report::Traffic::between(&before, &lab.counters()?);
        write!(out, "{}", report::links(&lab, &traffic))?;
    }
    if let Some(folder) = &args.collect {
        lab.collect(folder)?;
    }
    Ok(if is_good { Exit::Success } else { Exit::Code(FAILURE) })
}

/// The user's command in every host asked for; whether it succeeded in all.
fn run_command(lab: &mut Lab, args: &Args, out: &mut impl Write) -> anyhow::Result<bool> {
    let mut failed = Vec::new();
    let codes = lab.run(&args.hosts, &args.command, args.timeout, |host, is_error, line| {
        // A closed pipe is seen at the next line of our own.
        let _ = if is_error {
            writeln!(std::io::stderr(), "{host}: {line}")
        } else {
            writeln!(out, "{host}: {line}")
        };
    })?;
    for (host, code) in codes {
        match code {
            Some(0) => {}
            Some(code) => failed.push(format!("{host} ({code})")),
            None => failed.push(format!("{host} (time over)")),
        }
    }
    if !failed.is_empty() {
        writeln!(out, "the command failed in {}", failed.join(", "))?;
    }
    Ok(failed.is_empty())
}

fn check_hosts(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    for name in &args.hosts {
        if !plan.hosts.iter().any(|host| host.name == *name) {
            let first = plan.hosts.first().map_or("", |host| &host.name);
            return Err(Coded::usage(format!("{} has no host {name}; its first is {first}", plan.machine)));
        }
    }
    Ok(())
}

fn spec(args: &Args, plan: &Plan) -> anyhow::Result<Spec> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let kernel = kernel::find(args.kernel.as_deref())?;
    let mut spec = Spec::new(plan, kernel, program, vec!["lab".into(), "--agent".into()]);
    spec.accelerator = match args.accel {
        Accelerator::Tcg => vm::Accelerator::Tcg,
        Accelerator::Kvm => vm::Accelerator::Kvm,
    };
    spec.core_count = args.cores.unwrap_or(spec.core_count).max(1);
    spec.memory_mib = args.memory.unwrap_or(spec.memory_mib);
    spec.timeout = Duration::from_secs(args.timeout);
    Ok(spec)
}
