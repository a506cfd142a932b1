//! Strangers that call a job which transfers: it lets nobody in and transfers on.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Session;
use super::ear::{Ear, HELLO_BYTES, MAGIC};
use super::figures::Bound;
use super::network::{LIMIT, MTU_JUMBO, Network};
use super::shaped::shaped;
use super::timeline::Timeline;
use super::trouble::{during, stream_job, streams_through};
use crate::process;
use ayatori_random::Random;

/// The ports of the job; with one rank on a host its listener at each address is the first.
pub(super) const PORTS: &str = "41000-41003";
pub(super) const PORT: u16 = 41_000;
/// Calls that connect and say nothing: so many at each of the two listeners.
const SILENT_COUNT: usize = 5_000;
/// A call waits for its turn on CPUs that the job keeps busy: many wait at a time.
const SILENT_THREADS: usize = 50;
/// Calls that say noise, and calls with a wrong proof.
const NOISY_COUNT: usize = 100;
const REFUSED_COUNT: usize = 100;
/// Calls that say one byte at a time.
const SLOW_COUNT: usize = 200;
/// Pause between the calls of each of the busy ones: 200 calls a second, of two kinds.
const PAUSE: Duration = Duration::from_millis(5);
/// Hang limit of a stranger.
const STRANGER_LIMIT: Duration = Duration::from_secs(120);
/// How much slower the transfer should be at most, in percent.
const SLOWER_MAX: f64 = 5.0;

/// Of the internal command `net-stranger`, which runs in a namespace.
#[derive(clap::Args)]
pub(crate) struct StrangerOptions {
    /// The listener.
    address: SocketAddr,
    /// The number of the job's first process, which an honest caller knows.
    first: u32,
}

/// Sends strangers to the receiver's listener over one rail and to the sender's over the other; what they say
/// at their end.
fn attack(network: &Network, ear: &Ear) -> Result<String> {
    let first = ear.first_process()?;
    let this = std::env::current_exe().context("cannot find myself")?;
    let send = |host, address| -> Result<process::Outcome> {
        let line = format!("ulimit -n 8000; exec {} net-stranger {address}:{PORT} {first}", this.display());
        process::capture(&mut network.in_host(host, &["sh", "-c", &line]), LIMIT)
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| send(0, "10.77.0.2"));
        let second = send(1, "10.77.1.1")?;
        let first = first.join().unwrap_or_else(|_| bail!("a stranger panicked"))?;
        Ok(first.stdout + &second.stdout)
    })
}

/// On rails of known speed and on rails that are as fast as this machine.
pub(super) fn hostile(session: &mut Session<'_>) -> Result<()> {
    for (how, network) in [("shaped rails", shaped(&[1000, 1000], MTU_JUMBO)?), ("rails", Network::new(2)?)] {
        let mut job = stream_job(session, &network)?;
        job.env("AYATORI_PORTS", PORTS);
        let mut said = String::new();
        let ear = Ear::at(&network.hosts[0])?;
        streams_through(session, job, &format!("a job under attack over {how} loses nothing"), || {
            network.await_carried(&[0, 1], 16 << 20)?;
            said = attack(&network, &ear)?;
            network.await_carried(&[0, 1], 16 << 20)
        })?;
        print!("{said}");
        let right = said.lines().filter(|line| *line == RIGHT_ANSWER).count();
        session.verdict(right == 2, &format!("strangers are refused over {how}"), || said.clone());
    }
    Ok(())
}

/// A transfer that is first left alone, then not.
pub(super) fn slowdown(session: &mut Session<'_>) -> Result<()> {
    let network = shaped(&[1000, 1000], MTU_JUMBO)?;
    let mut job = stream_job(session, &network)?;
    job.arg("14").env("AYATORI_PORTS", PORTS);
    let ear = Ear::at(&network.hosts[0])?;
    let (outcome, changed) = during(&mut job, &[4.5, 4.5], |number| {
        if number == 1 {
            print!("{}", attack(&network, &ear)?);
        }
        Ok(())
    })?;
    let timeline = Timeline::parse(&outcome.stdout);
    let (begin, end) = (changed[0], changed[1]);
    let (before, under) = (timeline.rate(begin - 3.0, begin), timeline.rate(begin, end));
    let slower = (1.0 - under / before) * 100.0;
    let note = format!("{:.1} MB/s alone, {:.1} MB/s under attack", before / 1e6, under / 1e6);
    session.figures.add("a transfer beside strangers", slower, "% slower", Bound::AtMost(SLOWER_MAX), &note);
    Ok(())
}

/// What `net-stranger` prints when every kind of call was made and nobody was let in.
const RIGHT_ANSWER: &str = "stranger: 5000 silent, 100 noisy, 100 refused, 0 let in";

/// `net-stranger`: calls in four ways at once, each so often, and says what came of it.
pub(crate) fn stranger(options: &StrangerOptions) -> Result<()> {
    let end = Instant::now() + STRANGER_LIMIT;
    let (silent_count, noisy_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (refused_count, let_in_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let message = hello(options.address, options.first);
    let dial = || TcpStream::connect_timeout(&options.address, Duration::from_secs(1));
    // Until `count` is so high; gives up at the limit.
    let repeat = |count: &AtomicUsize, wanted: usize, call: &mut dyn FnMut()| {
        while count.load(Ordering::Relaxed) < wanted && Instant::now() < end {
            call();
            std::thread::sleep(PAUSE);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(7);
            repeat(&noisy_count, NOISY_COUNT, &mut || {
                let Ok(mut stream) = dial() else { return };
                let bytes: Vec<u8> = (0..random.below(4000)).map(|_| random.below(256) as u8).collect();
                let _ = stream.write_all(&bytes);
                noisy_count.fetch_add(1, Ordering::Relaxed);
            });
        });
        scope.spawn(|| {
            repeat(&refused_count, REFUSED_COUNT, &mut || {
                match dial().and_then(|mut stream| converse(&mut stream, &message, &[0x5a; 32])) {
                    Ok(Answer::Refused) => refused_count.fetch_add(1, Ordering::Relaxed),
                    Ok(Answer::LetIn) => let_in_count.fetch_add(1, Ordering::Relaxed),
                    Err(_) => 0,
                };
            });
        });
        for _ in 0..SILENT_THREADS {
            scope.spawn(|| {
                let mut silent = Vec::new();
                while silent.len() < SILENT_COUNT / SILENT_THREADS && Instant::now() < end {
                    silent.extend(dial());
                }
                silent_count.fetch_add(silent.len(), Ordering::Relaxed);
                // All are kept until all have been made.
                while silent_count.load(Ordering::Relaxed) < SILENT_COUNT && Instant::now() < end {
                    std::thread::sleep(PAUSE);
                }
            });
        }
        scope.spawn(|| {
            let mut slow: Vec<TcpStream> = (0..SLOW_COUNT).filter_map(|_| dial().ok()).collect();
            for byte in &message {
                slow.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
                std::thread::sleep(PAUSE);
            }
        });
    });
    println!(
        "stranger: {} silent, {} noisy, {} refused, {} let in",
        silent_count.into_inner(),
        noisy_count.into_inner(),
        refused_count.into_inner(),
        let_in_count.into_inner()
    );
    Ok(())
}

/// What an honest rank might say first at the address `10.77.INTERFACE.NUMBER` of the other: who names
/// another rank or interface is not even challenged. `first` is the number of rank 0.
fn hello(listener: SocketAddr, first: u32) -> [u8; HELLO_BYTES] {
    let (interface, rank) = match listener.ip() {
        IpAddr::V4(address) => (address.octets()[2], address.octets()[3].saturating_sub(1)),
        IpAddr::V6(_) => (0, 1),
    };
    let rank = u32::from(rank);
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&(first + (1 ^ rank)).to_le_bytes());
    bytes[12..16].copy_from_slice(&(first + rank).to_le_bytes());
    bytes[16] = 9;
    bytes[21] = interface;
    bytes[24..40].copy_from_slice(&[3; 16]);
    bytes
}

/// What a listener does with a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It sends a verdict: it believes the caller.
    LetIn,
    /// It hangs up.
    Refused,
}

/// The dialler's part of a handshake, word for word. Whoever gets no challenge, or no answer to the proof,
/// has not been refused: that is an error.
pub(super) fn converse(stream: &mut TcpStream, hello: &[u8], proof: &[u8]) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(hello)?;
    let mut challenge = [0; 48];
    stream.read_exact(&mut challenge)?;
    if challenge.starts_with(MAGIC) {
        return Err(std::io::Error::other("the hello was for another process"));
    }
    stream.write_all(proof)?;
    match stream.read_exact(&mut [0; 40]) {
        Ok(()) => Ok(Answer::LetIn),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            Ok(Answer::Refused)
        }
        Err(error) => Err(error),
    }
}
