//! What has to work at all: our conformance programs, interfaces as real machines have them, random cuts.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::network::{LIMIT, Network, blind, ip, while_running};
use super::{Session, build};
use crate::conformance::{Verdict, programs};
use crate::process;
use ayatori_random::Random;

/// Of what a program said that failed.
const LINES_SHOWN: usize = 20;

/// The conformance programs over one rail.
pub(super) fn conform(session: &mut Session<'_>) -> Result<()> {
    conform_on(session, &[2], &[])
}

/// Options for the devices in a thread of their own.
const OFFLOAD: &[&str] = &["--progress", "offload"];

/// The same with the devices in a thread of their own.
pub(super) fn conform_offload(session: &mut Session<'_>) -> Result<()> {
    conform_on(session, &[2], OFFLOAD)
}

pub(super) fn conform_all(session: &mut Session<'_>) -> Result<()> {
    conform_on(session, &[2, 3, 4], &[])?;
    conform_on(session, &[3, 4], OFFLOAD)
}

fn conform_on(session: &mut Session<'_>, ranks: &[usize], launch: &[&str]) -> Result<()> {
    let network = Network::new(1)?;
    let launch = [launch, &["-x", "CHECK_HOSTS=2"]].concat();
    let (mut passed, mut left_out, begin) = (0, 0, Instant::now());
    for source in programs::sources()? {
        let name = programs::name(&source);
        let is_wanted = session.options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
        if name.starts_with("fatal") || !is_wanted {
            continue;
        }
        let program = build(&session.prefix, &source)?;
        let expected = programs::expected(&std::fs::read_to_string(&source)?)?;
        for &ranks in ranks {
            let outcome =
                process::capture(&mut network.job(&session.prefix, ranks, &launch, &program), LIMIT)?;
            match programs::judge(&expected, &outcome) {
                Verdict::Passed => {
                    passed += 1;
                    continue;
                }
                Verdict::LeftOut(why) => {
                    left_out += 1;
                    println!("left out {name} on {ranks} ranks: {why}");
                    continue;
                }
                Verdict::Skipped(_) | Verdict::Failed(_) => {}
            }
            let what = format!("{name} on {ranks} ranks {}", launch.join(" "));
            session.verdict(false, what.trim(), || outcome.reason());
            print!("{}", process::last_lines(&outcome.stdout, LINES_SHOWN));
            print!("{}", process::last_lines(&outcome.stderr, LINES_SHOWN));
        }
    }
    println!(
        "== net-test: {passed} conformance runs passed, {left_out} left out, {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Interfaces as real machines have them.
pub(super) fn interfaces(session: &mut Session<'_>) -> Result<()> {
    let network = Network::new(2)?;
    for host in &network.hosts {
        // docker0: the same address on every host, and nobody behind it; a network that leads nowhere.
        blind(host, "docker0", "172.17.0.1/16")?;
    }
    blind(&network.hosts[0], "virbr0", "192.168.122.1/24")?;
    network.settle()?;
    let hello = session.build("conformance/c/coll_pairs.c")?;
    for (what, options) in [
        ("docker0 and virbr0 beside the rails", &[][..]),
        ("one rail by name", &["--rails", "rail1"]),
        ("one rail by network", &["--rails", "10.77.0.0/24"]),
        ("IPv6 only", &["--rails", "fd77::/16"]),
        ("without one rail", &["--no-rails", "rail0"]),
    ] {
        let outcome = process::capture(&mut network.job(&session.prefix, 4, options, &hello), LIMIT)?;
        session.verdict(outcome.success(), what, || outcome.reason());
    }
    let mut nothing = network.job(&session.prefix, 2, &["--rails", "eth9"], &hello);
    let outcome = process::capture(&mut nothing, LIMIT)?;
    let is_said = !outcome.success() && outcome.stderr.contains("rail0 (not among --rails)");
    session.verdict(is_said, "a rail that is not there is named", || outcome.stderr.clone());
    Ok(())
}

pub(super) fn cuts(session: &mut Session<'_>) -> Result<()> {
    cut(session, 10)
}

pub(super) fn many_cuts(session: &mut Session<'_>) -> Result<()> {
    cut(session, 100)
}

/// Rails go down and come back at random moments, one of them always stays; every word that arrives is looked
/// at.
fn cut(session: &mut Session<'_>, count: u32) -> Result<()> {
    const RAILS: usize = 4;
    let network = Network::new(RAILS)?;
    for rail in 0..RAILS {
        network.shape(rail, 2000)?;
    }
    let program = session.build("tests/net/verify.c")?;
    let seed = session.options.seed;
    let mut job = network.job(&session.prefix, 2, &[], &program);
    let outcome = while_running(&mut job, || cut_and_restore(&network, count, seed))?;
    let said = outcome.stderr.trim().lines().next_back().unwrap_or_default();
    let is_good = outcome.success() && outcome.stdout.trim() == "No Errors";
    session.verdict(is_good, &format!("{count} cuts (seed {seed}): {said}"), || outcome.reason());
    Ok(())
}

/// Every second one is silent: frames are lost and the carrier stays.
fn cut_and_restore(network: &Network, count: u32, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let rails: Vec<usize> = (0..network.rails).collect();
    network.await_carried(&rails, 1 << 20)?;
    for number in 0..count {
        // The last rail stays.
        let rail = random.below(network.rails as u64 - 1) as usize;
        let host = &network.hosts[random.below(2) as usize];
        let is_silent = number % 2 == 1;
        let set = |is_cut: bool| {
            if is_silent {
                network.set_silent(rail, is_cut)
            } else {
                let word = if is_cut { "down" } else { "up" };
                ip(&format!("-n {host} link set rail{rail} {word}"))
            }
        };
        set(true)?;
        std::thread::sleep(Duration::from_millis(100 + random.below(700)));
        set(false)?;
        std::thread::sleep(Duration::from_millis(random.below(200)));
    }
    Ok(())
}
