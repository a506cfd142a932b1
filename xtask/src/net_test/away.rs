//! What goes on over TCP while a rank is away from MPI, or leaves it for good; and gaps between packets.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{LIMIT, Network, build, ip, result};
use crate::{paths, process};

/// How often a job ends while a rail is cut.
const FINISHES: u64 = 8;

/// A gap leaves its part of the rail's rate, whoever asks for it. (A veth says that it has 10 Gbit/s.)
pub(super) fn pace(prefix: &Path, failures: &mut Vec<String>) -> Result<()> {
    const FULL_GB_PER_S: f64 = 1.25;
    let network = Network::new(1)?;
    let program = build(prefix, &paths::root().join("tests/net/pace.c"))?;
    let mut judge = |how: &str, gap: f64, rate: Option<f64>| {
        let want = FULL_GB_PER_S / (1.0 + gap);
        let rate = rate.unwrap_or(f64::NAN);
        println!("== net-test: gap {gap} {how}: {:.1} MB/s of {:.1} MB/s", rate * 1e3, want * 1e3);
        if !(0.8 * want..=1.05 * want).contains(&rate) {
            failures.push(format!("gap {gap} {how}: {rate} GB/s instead of {want}"));
        }
    };
    let mut job = network.job(prefix, 2, &[], &program);
    let outcome = process::capture(job.arg("9"), LIMIT)?;
    for how in ["by_message", "by_communicator"] {
        judge(how, 9.0, result(&outcome.stdout, how, 4 << 20));
    }
    let outcome = process::capture(&mut network.job(prefix, 2, &["--gap", "19"], &program), LIMIT)?;
    judge("by default", 19.0, result(&outcome.stdout, "default", 4 << 20));
    Ok(())
}

/// What goes on while a rank computes, in each progress mode: as `cargo xtask bench --only overlap` within a host.
pub(super) fn overlap(prefix: &Path) -> Result<()> {
    let program = build(prefix, &paths::root().join("bench/overlap.c"))?;
    let network = Network::new(1)?;
    for mode in ["inline", "assisted"] {
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
pub(super) fn finish(prefix: &Path, seed: u64, failures: &mut Vec<String>) -> Result<()> {
    let network = Network::new(2)?;
    let program = build(prefix, &paths::root().join("tests/net/finish.c"))?;
    let mut passed = 0;
    for turn in 0..FINISHES {
        // A job takes some 0.3 s.
        let cut_after_ms = 100 + (seed + turn).wrapping_mul(6_364_136_223_846_793_005) % 300;
        let host = network.hosts[turn as usize % 2].clone();
        let cutter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(cut_after_ms));
            ip(&format!("-n {host} link set rail0 down"))
        });
        let outcome = process::capture(&mut network.job(prefix, 2, &[], &program), LIMIT)?;
        cutter.join().unwrap_or_else(|_| bail!("the thread that cuts panicked"))?;
        ip(&format!("-n {} link set rail0 up", network.hosts[turn as usize % 2]))?;
        network.settle()?;
        if outcome.success() && outcome.stdout.trim() == "No Errors" {
            passed += 1;
        } else {
            failures.push(format!(
                "an end, rail cut after {cut_after_ms} ms (seed {seed}): {}",
                outcome.reason()
            ));
        }
    }
    println!("== net-test: {passed} of {FINISHES} jobs lost nothing at their end, a rail being cut");
    Ok(())
}
