//! Jobs that end beside a cut; and as bounds: gaps, progress while a rank computes, the CPU time of a blocked
//! rank.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::figures::Bound;
use super::network::{LIMIT, Network, ip};
use super::{Session, build, result};
use crate::{paths, process};
use ayatori_random::Random;

/// How often a job ends while a rail is cut.
const FINISHES: u64 = 8;

/// Gaps, delivery while a rank computes, what mode assisted costs, and the CPU time of a blocked rank.
pub(super) fn times(session: &mut Session<'_>) -> Result<()> {
    pace(session)?;
    busy(session)?;
    blocked(session)
}

/// A gap leaves its part of the rail's rate, whoever asks for it. (A veth says that it has 10 Gbit/s.)
fn pace(session: &mut Session<'_>) -> Result<()> {
    const FULL_GB_PER_S: f64 = 1.25;
    let network = Network::new(1)?;
    let program = session.build("tests/net/pace.c")?;
    let mut job = network.job(&session.prefix, 2, &[], &program);
    let asked = process::capture(job.arg("9"), LIMIT)?;
    let usual = process::capture(&mut network.job(&session.prefix, 2, &["--gap", "19"], &program), LIMIT)?;
    for (how, gap, said) in [
        ("by_message", 9.0, &asked.stdout),
        ("by_communicator", 9.0, &asked.stdout),
        ("default", 19.0, &usual.stdout),
    ] {
        let share = result(said, how, 4 << 20).map_or(f64::NAN, |rate| rate * (1.0 + gap) / FULL_GB_PER_S);
        for (side, bound) in [("not above", Bound::AtMost(1.05)), ("not below", Bound::AtLeast(0.8))] {
            session.figures.add(&format!("gap {gap}, {how}, {side}"), share, "of its rate", bound, "");
        }
    }
    Ok(())
}

/// A rank that waits for long takes next to nothing of a CPU, in each progress mode.
fn blocked(session: &mut Session<'_>) -> Result<()> {
    let program = session.build("bench/blocked.c")?;
    for mode in ["inline", "assisted", "offload"] {
        let mut job = Command::new(session.prefix.join("bin/ayatori"));
        job.args(["run", "-n", "2", "--progress", mode]).arg(&program);
        let outcome = process::capture(&mut job, LIMIT)?;
        for how in ["receive", "wait_any", "probe"] {
            let share = result(&outcome.stdout, &format!("blocked_{how}"), 0).unwrap_or(f64::NAN);
            let name = format!("CPU of a blocked rank, {how}, {mode}");
            session.figures.add(&name, share, "% of a CPU", Bound::AtMost(1.0), "");
        }
    }
    Ok(())
}

/// What goes on while a rank computes, in each progress mode: as `cargo xtask bench --only overlap` within a
/// host.
pub(super) fn overlap(prefix: &Path) -> Result<()> {
    let program = build(prefix, &paths::root().join("bench/overlap.c"))?;
    let network = Network::new(1)?;
    for mode in ["inline", "assisted", "offload"] {
        let outcome = process::capture(&mut network.job(prefix, 2, &["--progress", mode], &program), LIMIT)?;
        if !outcome.success() {
            bail!("overlap, {mode}: {}", outcome.reason());
        }
        for line in outcome.stdout.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
            println!("== net-test: {mode}: {line}");
        }
    }
    Ok(())
}

/// 4 MiB are delivered in time while a rank computes, and that costs a ping-pong next to nothing: over TCP
/// and in shared memory, by default settings.
fn busy(session: &mut Session<'_>) -> Result<()> {
    const RATIO_MAX: f64 = 1.03;
    const BYTES: usize = 4 << 20;
    let (overlap, modes) = (session.build("bench/overlap.c")?, session.build("tests/net/modes.c")?);
    let network = Network::new(1)?;
    let prefix = session.prefix.clone();
    for (device, is_apart) in [("TCP", true), ("shared memory", false)] {
        let run = |program: &Path, arguments: &[&str]| {
            let mut job = if is_apart {
                network.job(&prefix, 2, &[], program)
            } else {
                let mut job = Command::new(prefix.join("bin/ayatori"));
                job.args(["run", "-n", "2"]).arg(program);
                job
            };
            let outcome = process::capture(job.args(arguments), LIMIT)?;
            if outcome.success() { Ok(outcome.stdout) } else { bail!("{device}: {}", outcome.reason()) }
        };
        let said = run(&overlap, &["delivery"])?;
        let ms = |name: &str| result(&said, name, BYTES).map_or(f64::NAN, |us| us / 1e3);
        let most = 2.0 * ms("deliver_idle") + slice_ms();
        for who in ["sender", "receiver"] {
            let took = ms(&format!("deliver_{who}_busy"));
            let name = format!("4 MiB, {device}, while the {who} computes");
            let note = format!("{took:.1} ms of {most:.1} ms");
            session.figures.add(&name, took / most, "of twice idle and a slice", Bound::AtMost(1.0), &note);
        }
        let said = run(&modes, &[])?;
        let ratio = result(&said, "assisted/inline", 8).unwrap_or(f64::NAN);
        let name = format!("8 B, {device}, assisted beside inline");
        session.figures.add(&name, ratio, "times", Bound::AtMost(RATIO_MAX), "");
    }
    Ok(())
}

/// How long the scheduler lets another program finish its turn: the kernel's base slice, 0.7 ms for one CPU
/// (Linux 6.15; 0.75 before) and as much more each time their number doubles, up to eight.
fn slice_ms() -> f64 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, 8);
    0.7 * f64::from(1 + cpus.ilog2())
}

/// A rank that ends while what it sent is under way, on a rail that is cut, loses nothing.
pub(super) fn finish(session: &mut Session<'_>) -> Result<()> {
    let network = Network::new(2)?;
    let program = session.build("tests/net/finish.c")?;
    let seed = session.options.seed;
    let mut random = Random::new(seed);
    for turn in 0..FINISHES {
        // A job takes some 0.3 s.
        let cut_after_ms = 100 + random.below(300);
        let host = &network.hosts[turn as usize % 2];
        let mut job = network.job(&session.prefix, 2, &[], &program);
        let outcome = std::thread::scope(|scope| {
            let cutter = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(cut_after_ms));
                ip(&format!("-n {host} link set rail0 down"))
            });
            let outcome = process::capture(&mut job, LIMIT);
            cutter.join().unwrap_or_else(|_| bail!("the thread that cuts panicked")).and(outcome)
        })?;
        ip(&format!("-n {host} link set rail0 up"))?;
        network.settle()?;
        let is_good = outcome.success() && outcome.stdout.trim() == "No Errors";
        let what = format!("a job's end, a rail cut after {cut_after_ms} ms (seed {seed})");
        session.verdict(is_good, &what, || outcome.reason());
    }
    Ok(())
}
