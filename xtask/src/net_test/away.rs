//! What goes on over TCP while a rank is away from MPI, or leaves it for good; and gaps between packets.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::network::{LIMIT, Network, ip};
use super::{Random, Session, build, result};
use crate::{paths, process};

/// How often a job ends while a rail is cut.
const FINISHES: u64 = 8;

/// A gap leaves its part of the rail's rate, whoever asks for it. (A veth says that it has 10 Gbit/s.)
pub(super) fn pace(session: &mut Session<'_>) -> Result<()> {
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
        let want = FULL_GB_PER_S / (1.0 + gap);
        let rate = result(said, how, 4 << 20).unwrap_or(f64::NAN);
        let what = format!("gap {gap}, {how}: {:.1} MB/s of {:.1} MB/s", rate * 1e3, want * 1e3);
        session.figure((0.8 * want..=1.05 * want).contains(&rate), &what);
    }
    Ok(())
}

/// What goes on while a rank computes, in each progress mode: as `cargo xtask bench --only overlap` within a host.
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

/// A rank that ends while what it sent is under way, on a rail that is cut, loses nothing.
pub(super) fn finish(session: &mut Session<'_>) -> Result<()> {
    let network = Network::new(2)?;
    let program = session.build("tests/net/finish.c")?;
    let seed = session.options.seed;
    let mut random = Random(seed);
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
