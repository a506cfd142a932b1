//! Rails that change their speed, break, fall silent, come back, or do not.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Session;
use super::network::{LIMIT, MTU_JUMBO, Network};
use super::shaped::{raw_beside, shaped};
use super::timeline::{Timeline, now_s};
use crate::process;

/// The share of the sum that counts as all of it.
const ALL: f64 = 0.90;

/// A stream under which `change` is called at each of the moments, in seconds from the start, with its number. The timeline
/// and when the changes were made.
fn stream(
    session: &mut Session<'_>,
    network: &Network,
    seconds: f64,
    moments: &[f64],
    change: impl Fn(usize) -> Result<()> + Sync,
) -> Result<(Timeline, Vec<f64>)> {
    let program = session.build("tests/net/stream.c")?;
    let mut job = network.job(&session.prefix, 2, &[], &program);
    job.arg(seconds.to_string());
    let (outcome, changed) = during(&mut job, moments, change)?;
    let is_good = outcome.success() && outcome.stdout.lines().any(|line| line == "No Errors");
    session.verdict(is_good, "every byte right", || outcome.reason());
    Ok((Timeline::parse(&outcome.stdout), changed))
}

/// Runs a job and changes something at each of the moments.
pub(super) fn during(
    job: &mut Command,
    moments: &[f64],
    change: impl Fn(usize) -> Result<()> + Sync,
) -> Result<(process::Outcome, Vec<f64>)> {
    let begin = now_s();
    std::thread::scope(|scope| {
        let changer = scope.spawn(|| {
            let mut changed = Vec::new();
            for (number, moment) in moments.iter().enumerate() {
                std::thread::sleep(Duration::from_secs_f64((begin + moment - now_s()).max(0.0)));
                change(number)?;
                changed.push(now_s());
            }
            Ok(changed)
        });
        let outcome = process::capture(job, LIMIT)?;
        let changed = changer.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the changes panicked")))?;
        Ok((outcome, changed))
    })
}

/// Says when a stream was as quick again as it is to be. If that is too late, `beside` says what raw sockets reach.
fn recovery(
    session: &mut Session<'_>,
    what: &str,
    after: Option<f64>,
    most_s: f64,
    beside: impl FnOnce() -> Result<String>,
) {
    let words = after.map_or("never".to_owned(), |after| format!("after {after:.2} s"));
    let mut what = format!("{what}: {words} (at most {most_s} s)");
    let is_good = after.is_some_and(|after| after <= most_s);
    if !is_good {
        what += "; ";
        what += &beside().unwrap_or_else(|error| format!("raw sockets beside it failed: {error:#}"));
    }
    session.figure(is_good, &what);
}

/// What raw sockets reach of the sum (in bytes a second) of these rails.
fn beside(network: &Network, rails: &[usize], sum: f64) -> Result<String> {
    raw_beside(network, rails, sum / 1e9, ALL * 100.0)
}

pub(super) fn speed_change(session: &mut Session<'_>) -> Result<()> {
    let network = shaped(&[2000, 2000], MTU_JUMBO)?;
    let speeds = [500, 2000];
    let (timeline, changed) =
        stream(session, &network, 8.0, &[2.5, 5.0], |number| network.shape(1, speeds[number]))?;
    for (number, &speed) in speeds.iter().enumerate() {
        let sum = f64::from(2000 + speed) * 1e6 / 8.0;
        let after = timeline.recovered_after_s(changed[number], changed[number] + 2.3, ALL * sum);
        let steady = timeline.rate(changed[number] + 1.0, changed[number] + 2.3) / sum * 100.0;
        let what = format!(
            "one of two rails from {} to {speed} Mbit/s, then {steady:.1} % of the sum; 90 %",
            2500 - speed
        );
        recovery(session, &what, after, 1.0, || {
            network.shape(1, speed)?;
            beside(&network, &[0, 1], sum)
        });
    }
    Ok(())
}

pub(super) fn rail_down(session: &mut Session<'_>) -> Result<()> {
    one_of_four(session, "down", Network::set_carrier_gone)
}

pub(super) fn rail_silent(session: &mut Session<'_>) -> Result<()> {
    one_of_four(session, "silent", Network::set_silent)
}

/// One of four rails is cut in one way, and comes back.
fn one_of_four(
    session: &mut Session<'_>,
    how: &str,
    set: fn(&Network, usize, bool) -> Result<()>,
) -> Result<()> {
    const RATE: u32 = 1000;
    let network = shaped(&[RATE; 4], MTU_JUMBO)?;
    let (timeline, changed) =
        stream(session, &network, 10.5, &[2.5, 4.5], |number| set(&network, 2, number == 0))?;
    let (cut, back) = (changed[0], changed[1]);
    let stall = timeline.stall_s(cut - 0.2, back);
    session.figure(stall <= 1.0, &format!("a rail goes {how}: stall {stall:.3} s (at most 1 s)"));
    let sum = |rails: &[usize]| rails.len() as f64 * f64::from(RATE) * 1e6 / 8.0;
    let (others, all) = ([0, 1, 3], [0, 1, 2, 3]);
    let three = timeline.recovered_after_s(cut, back, ALL * sum(&others));
    recovery(session, &format!("a rail {how}: 90 % of the other three"), three, 1.0, || {
        beside(&network, &others, sum(&others))
    });
    let four = timeline.recovered_after_s(back, back + 5.6, ALL * sum(&all));
    recovery(session, "it is back: 90 % of all four", four, 5.0, || beside(&network, &all, sum(&all)));
    Ok(())
}

pub(super) fn all_down(session: &mut Session<'_>) -> Result<()> {
    none_left(session, "down", Network::set_carrier_gone)
}

pub(super) fn all_silent(session: &mut Session<'_>) -> Result<()> {
    none_left(session, "silent", Network::set_silent)
}

/// All rails go: every operation fails in time, and the job ends.
fn none_left(
    session: &mut Session<'_>,
    how: &str,
    set: fn(&Network, usize, bool) -> Result<()>,
) -> Result<()> {
    let network = shaped(&[1000, 1000], MTU_JUMBO)?;
    let program = session.build("tests/net/lost.c")?;
    let mut job = network.job(&session.prefix, 2, &[], &program);
    let (outcome, _) =
        during(job.arg("20"), &[2.0], |_| (0..2).try_for_each(|rail| set(&network, rail, true)))?;
    let said = |what: &str| outcome.stderr.lines().filter(|line| line.contains(what)).count();
    let is_good = outcome.stdout.lines().filter(|line| *line == "No Errors").count() == 2;
    let first = outcome.stderr.lines().find(|line| line.contains(": long ")).unwrap_or("nothing").to_owned();
    let what = format!("all rails {how}: {} operations failed in time, the first: {first}", said(" s: "));
    session.verdict(is_good && said("finalize: done") == 2, &what, || {
        format!("{}\n{}", outcome.stdout, outcome.reason())
    });
    Ok(())
}
