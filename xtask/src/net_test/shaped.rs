//! Rails of known speed: how much of their sum a job gets.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::figures::Bound;
use super::network::{LIMIT, MTU, MTU_JUMBO, Network};
use super::trouble::{stream_job, streams_through};
use super::{Background, Session, build_raw, result};
use crate::process;

/// Rails in Mbit/s, and the share of their sum that one way and both ways are to reach, in percent.
const CASES: [(&[u32], [f64; 2]); 2] =
    [(&[2000, 2000, 2000, 2000], [97.0, 95.0]), (&[2000, 500], [95.0, 95.0])];

/// Every rail carries a part of a stream, and none of its bytes is wrong.
pub(super) fn rails(session: &mut Session<'_>) -> Result<()> {
    for (rates, _) in CASES {
        let network = shaped(rates, MTU_JUMBO)?;
        let rails: Vec<usize> = (0..rates.len()).collect();
        let job = stream_job(session, &network)?;
        streams_through(session, job, &format!("rails of {rates:?} Mbit/s, each used"), || {
            network.await_carried(&rails, 16 << 20)
        })?;
    }
    Ok(())
}

/// With long frames all but 0.7 % of what a rail carries can be data (8948 of 9014 bytes).
pub(super) fn share(session: &mut Session<'_>) -> Result<()> {
    let raw = build_raw()?;
    for (rates, least) in CASES {
        let network = shaped(rates, MTU_JUMBO)?;
        let sum = f64::from(rates.iter().sum::<u32>()) / 8e3;
        let reached = percent(session, &network, sum)?;
        for (way, name) in ["one way", "both ways"].into_iter().enumerate() {
            let limit = raw_stream(&network, &raw, [Raw::OneWay, Raw::BothWays][way])? / sum * 100.0;
            let note = format!("raw sockets {limit:.1} %{}", blame(limit, least[way]));
            let name = format!("4 MiB {name} over {rates:?} Mbit/s");
            session.figures.add(&name, reached[way], "% of the sum", Bound::AtLeast(least[way]), &note);
        }
    }
    Ok(())
}

/// With frames of 1500 bytes 4.4 % are headers (1448 of 1514 bytes): the measure is what sockets alone reach.
pub(super) fn usual_frames(session: &mut Session<'_>) -> Result<()> {
    let raw = build_raw()?;
    for rates in [&[2000, 2000, 2000, 2000][..], &[2000, 500]] {
        let network = shaped(rates, MTU)?;
        let sum = f64::from(rates.iter().sum::<u32>()) / 8e3;
        let reached = percent(session, &network, sum)?;
        let limit = raw_stream(&network, &raw, Raw::OneWay)? / sum * 100.0;
        let note = format!("{:.1} % of the sum, both ways {:.1} %", reached[0], reached[1]);
        let name = format!("4 MiB over {rates:?} Mbit/s, frames of 1500 bytes");
        let share = reached[0] / limit * 100.0;
        session.figures.add(&name, share, "% of raw sockets", Bound::AtLeast(97.0), &note);
    }
    Ok(())
}

pub(super) fn shaped(rates: &[u32], mtu: u32) -> Result<Network> {
    let network = Network::with_mtu(rates.len(), mtu)?;
    for (rail, &rate) in rates.iter().enumerate() {
        network.shape(rail, rate)?;
    }
    Ok(network)
}

/// What one way and both ways reach of the sum (in GB/s), in percent.
fn percent(session: &Session<'_>, network: &Network, sum: f64) -> Result<[f64; 2]> {
    let program = session.build("bench/bandwidth.c")?;
    let mut job = network.job(&session.prefix, 2, &[], &program);
    let outcome = process::capture(job.env("BENCH_SIZE", "4194304"), LIMIT)?;
    let figure = |name| result(&outcome.stdout, name, 4 << 20).with_context(|| outcome.reason());
    Ok([figure("bandwidth")? / sum * 100.0, figure("bibandwidth")? / (2.0 * sum) * 100.0])
}

/// Who sends over raw connections.
#[derive(Clone, Copy)]
pub(super) enum Raw {
    OneWay,
    BothWays,
}

/// One raw connection a rail, all at once, in GB/s each way.
pub(super) fn raw_stream(network: &Network, raw: &str, ways: Raw) -> Result<f64> {
    let rails: Vec<usize> = (0..network.rails).collect();
    let (name, said) = raw_stream_over(network, raw, ways, &rails)?;
    result(&said, name, 0).context("raw sockets")
}

/// The same over these rails only: the figure's name, and what the program printed.
fn raw_stream_over(
    network: &Network,
    raw: &str,
    ways: Raw,
    rails: &[usize],
) -> Result<(&'static str, String)> {
    let name = match ways {
        Raw::OneWay => "stream",
        Raw::BothWays => "both",
    };
    let addresses: Vec<String> = rails.iter().map(|rail| format!("10.77.{rail}.1")).collect();
    let words = |side| {
        let mut words = vec![raw, side, name, "2"];
        words.extend(addresses.iter().map(String::as_str));
        words
    };
    let client = network.in_host(1, &words("client")).stdout(Stdio::null()).spawn()?;
    let _client = Background(client);
    let outcome = process::capture(&mut network.in_host(0, &words("server")), LIMIT)?;
    if result(&outcome.stdout, name, 0).is_none() {
        bail!("raw sockets: {}", outcome.reason());
    }
    Ok((name, outcome.stdout))
}

/// What raw sockets reach one way of the sum (in GB/s) of these rails now, beside a figure that was missed,
/// which asks for at least so many percent in every fifth of a second.
pub(super) fn raw_beside(network: &Network, rails: &[usize], sum: f64, least: f64) -> Result<String> {
    let (name, said) = raw_stream_over(network, &build_raw()?, Raw::OneWay, rails)?;
    let percent = |name| Some(result(&said, name, 0)? / sum * 100.0);
    let mean = percent(name).context("raw sockets")?;
    let slowest = percent("slowest").context("raw sockets over less than two spans")?;
    let blame = blame(slowest, least);
    Ok(format!("raw sockets on these rails now {mean:.1} %, {slowest:.1} % in the slowest 0.2 s{blame}"))
}

/// Why a figure was missed, where raw sockets (in percent of the same sum) fail to reach what it asks for.
fn blame(limit: f64, least: f64) -> String {
    if limit >= least {
        return String::new();
    }
    format!(": this machine's raw sockets reach {limit:.1} %, less than {least} %: no library could")
}

/// Ping-pong over one raw connection, in microseconds one way.
pub(super) fn raw_ping_pong(network: &Network, raw: &str) -> Result<f64> {
    let words = |side| [raw, side, "pingpong", "8", "10.77.0.1"];
    let server = network.in_host(0, &words("server")).stdout(Stdio::null()).spawn()?;
    let _server = Background(server);
    let outcome = process::capture(&mut network.in_host(1, &words("client")), LIMIT)?;
    result(&outcome.stdout, "pingpong", 8).with_context(|| outcome.reason())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_blamed_only_if_raw_sockets_miss_the_target_too() {
        assert_eq!(blame(97.0, 97.0), "");
        let blamed = blame(85.96, 97.0);
        assert!(
            blamed.contains("reach 86.0 %, less than 97 %") && blamed.ends_with("no library could"),
            "{blamed}"
        );
    }
}
