//! Rails that change their speed, break, fall silent, come back, or do not: what must hold whenever, and, as
//! bounds, how soon.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Session;
use super::figures::Bound;
use super::network::{LIMIT, MTU_JUMBO, Network, ip, while_running};
use super::shaped::{raw_beside, shaped};
use super::timeline::{Timeline, now_s};
use crate::process;

/// How a rail goes, or comes back.
type Set = fn(&Network, usize, bool) -> Result<()>;

/// Bytes that count as data: far more than what a broken rail takes for tries.
const DATA_BYTES: u64 = 16 << 20;

/// A job that streams; how long is still to be said.
pub(super) fn stream_job(session: &Session<'_>, network: &Network) -> Result<Command> {
    let program = session.build("tests/net/stream.c")?;
    Ok(network.job(&session.prefix, 2, &[], &program))
}

/// Every byte of a stream is right while `script` runs.
pub(super) fn streams_through(
    session: &mut Session<'_>,
    mut job: Command,
    what: &str,
    script: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    let outcome = while_running(&mut job, script)?;
    let is_good = outcome.success() && outcome.stdout.lines().any(|line| line == "No Errors");
    session.verdict(is_good, what, || outcome.reason());
    Ok(())
}

pub(super) fn speed_change(session: &mut Session<'_>) -> Result<()> {
    let network = shaped(&[2000, 2000], MTU_JUMBO)?;
    let job = stream_job(session, &network)?;
    streams_through(session, job, "a rail changes its speed", || {
        network.await_carried(&[0, 1], DATA_BYTES)?;
        for speed in [500, 2000] {
            network.shape(1, speed)?;
            network.await_carried(&[0, 1], DATA_BYTES)?;
        }
        Ok(())
    })
}

pub(super) fn rail_down(session: &mut Session<'_>) -> Result<()> {
    one_of_four(session, "down", Network::set_carrier_gone)
}

pub(super) fn rail_silent(session: &mut Session<'_>) -> Result<()> {
    one_of_four(session, "silent", Network::set_silent)
}

/// One of four rails is cut in one way and comes back: the others carry on, then it does.
fn one_of_four(session: &mut Session<'_>, how: &str, set: Set) -> Result<()> {
    let network = shaped(&[1000; 4], MTU_JUMBO)?;
    let job = stream_job(session, &network)?;
    streams_through(session, job, &format!("a rail goes {how} and comes back"), || {
        network.await_carried(&[0, 1, 2, 3], DATA_BYTES)?;
        set(&network, 2, true)?;
        network.await_carried(&[0, 1, 3], 2 * DATA_BYTES)?;
        set(&network, 2, false)?;
        network.await_carried(&[2], DATA_BYTES)
    })
}

pub(super) fn all_down(session: &mut Session<'_>) -> Result<()> {
    none_left(session, "down", Network::set_carrier_gone)
}

pub(super) fn all_silent(session: &mut Session<'_>) -> Result<()> {
    none_left(session, "silent", Network::set_silent)
}

/// All rails go: every operation fails, and the job ends.
fn none_left(session: &mut Session<'_>, how: &str, set: Set) -> Result<()> {
    let network = shaped(&[1000, 1000], MTU_JUMBO)?;
    let program = session.build("tests/net/lost.c")?;
    let outcome = while_running(&mut network.job(&session.prefix, 2, &[], &program), || {
        network.await_carried(&[0, 1], DATA_BYTES)?;
        (0..2).try_for_each(|rail| set(&network, rail, true))
    })?;
    let said = |what: &str| outcome.stderr.lines().filter(|line| line.contains(what)).count();
    let is_good = outcome.stdout.lines().filter(|line| *line == "No Errors").count() == 2;
    let first = outcome.stderr.lines().find(|line| line.contains(": long ")).unwrap_or("nothing").to_owned();
    let what = format!("all rails {how}: {} operations failed, the first: {first}", said(" s: "));
    session.verdict(is_good && said("finalize: done") == 2, &what, || {
        format!("{}\n{}", outcome.stdout, outcome.reason())
    });
    Ok(())
}

/// Hosts in different networks, and no way between them: a job that needs none to start and to work ends all
/// the same, and names the addresses; one that has errors returned ends well.
pub(super) fn apart(session: &mut Session<'_>) -> Result<()> {
    let network = Network::new(1)?;
    let other = &network.hosts[1];
    ip(&format!("-n {other} addr flush dev rail0"))?;
    ip(&format!("-n {other} addr add 10.78.0.2/24 dev rail0"))?;
    let program = session.build("tests/net/apart.c")?;
    let outcome = process::capture(&mut network.job(&session.prefix, 2, &[], &program), LIMIT)?;
    let parts =
        ["MPI_Finalize", "no rail reaches process", "the last attempt, from 10.7", "10.77.0.1", "10.78.0.2"];
    let is_said = !outcome.success() && parts.iter().all(|part| outcome.stderr.contains(part));
    session.verdict(is_said, "hosts that cannot reach each other", || outcome.stderr.clone());
    let returned = process::capture(network.job(&session.prefix, 2, &[], &program).arg("returned"), LIMIT)?;
    let count = returned.stdout.lines().filter(|line| *line == "finalized").count();
    let is_good = returned.success() && count == 2;
    session.verdict(is_good, "the same with errors returned", || returned.reason());
    let received = process::capture(network.job(&session.prefix, 2, &[], &program).arg("receive"), LIMIT)?;
    let count = received.stdout.lines().filter(|line| line.starts_with("received: class ")).count();
    let is_good = received.success() && count == 2;
    session.verdict(is_good, "receives, from one and from any, that nobody can serve", || {
        format!("{}\n{}", received.stdout, received.reason())
    });
    Ok(())
}

/// The share of the sum that counts as all of it.
const ALL: f64 = 0.90;

/// A stream for so many seconds, under which `change` is called at each of the moments, in seconds from the
/// start, with its number. The timeline and when the changes were made.
fn timed_stream(
    session: &mut Session<'_>,
    network: &Network,
    seconds: f64,
    moments: &[f64],
    change: impl Fn(usize) -> Result<()> + Sync,
) -> Result<(Timeline, Vec<f64>)> {
    let mut job = stream_job(session, network)?;
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

/// Adds when a stream was as quick again as it is to be. If that is too late, `beside` says what raw sockets
/// reach.
fn recovery(
    session: &mut Session<'_>,
    name: &str,
    after: Option<f64>,
    most_s: f64,
    beside: impl FnOnce() -> Result<String>,
) {
    let after = after.unwrap_or(f64::NAN);
    let note = if after <= most_s {
        String::new()
    } else {
        beside().unwrap_or_else(|error| format!("raw sockets beside it failed: {error:#}"))
    };
    session.figures.add(name, after, "s", Bound::AtMost(most_s), &note);
}

/// What raw sockets reach of the sum (in bytes a second) of these rails.
fn beside(network: &Network, rails: &[usize], sum: f64) -> Result<String> {
    raw_beside(network, rails, sum / 1e9, ALL * 100.0)
}

pub(super) fn speed_change_times(session: &mut Session<'_>) -> Result<()> {
    let network = shaped(&[2000, 2000], MTU_JUMBO)?;
    let speeds = [500, 2000];
    let (timeline, changed) =
        timed_stream(session, &network, 8.0, &[2.5, 5.0], |number| network.shape(1, speeds[number]))?;
    for (&speed, &changed) in speeds.iter().zip(&changed) {
        let sum = f64::from(2000 + speed) * 1e6 / 8.0;
        let after = timeline.recovered_after_s(changed, changed + 2.3, ALL * sum);
        let name = format!("one of two rails from {} to {speed} Mbit/s: 90 % of the sum", 2500 - speed);
        recovery(session, &name, after, 1.0, || {
            network.shape(1, speed)?;
            beside(&network, &[0, 1], sum)
        });
    }
    Ok(())
}

pub(super) fn rail_down_times(session: &mut Session<'_>) -> Result<()> {
    one_of_four_times(session, "down", Network::set_carrier_gone)
}

pub(super) fn rail_silent_times(session: &mut Session<'_>) -> Result<()> {
    one_of_four_times(session, "silent", Network::set_silent)
}

fn one_of_four_times(session: &mut Session<'_>, how: &str, set: Set) -> Result<()> {
    const RATE: u32 = 1000;
    let network = shaped(&[RATE; 4], MTU_JUMBO)?;
    let (timeline, changed) =
        timed_stream(session, &network, 10.5, &[2.5, 4.5], |number| set(&network, 2, number == 0))?;
    let (cut, back) = (changed[0], changed[1]);
    let stall = timeline.stall_s(cut - 0.2, back);
    session.figures.add(&format!("a rail {how}: stall"), stall, "s", Bound::AtMost(1.0), "");
    let sum = |rails: &[usize]| rails.len() as f64 * f64::from(RATE) * 1e6 / 8.0;
    let (others, all) = ([0, 1, 3], [0, 1, 2, 3]);
    let three = timeline.recovered_after_s(cut, back, ALL * sum(&others));
    recovery(session, &format!("a rail {how}: 90 % of the other three"), three, 1.0, || {
        beside(&network, &others, sum(&others))
    });
    let four = timeline.recovered_after_s(back, back + 5.6, ALL * sum(&all));
    let name = format!("a rail back from {how}: 90 % of all four");
    recovery(session, &name, four, 5.0, || beside(&network, &all, sum(&all)));
    Ok(())
}
