//! Strangers at the doors of a job: it transfers on, and hardly slower.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::network::MTU_JUMBO;
use super::shaped::shaped;
use super::timeline::Timeline;
use super::trouble::during;
use super::{Background, Random, Session};

/// The ports of the job; with one rank on a host its door at each address is the first.
pub(super) const PORTS: &str = "41000-41003";
pub(super) const PORT: u16 = 41_000;
/// Callers that connect and say nothing: so many at each of the two doors.
const HALF_OPEN_COUNT: usize = 5_000;
/// A call waits for its turn on CPUs that the job keeps busy: many wait at a time.
const HALF_OPEN_THREADS: usize = 50;
/// Callers that say a byte now and then.
const LORIS_COUNT: usize = 200;
/// Pause between the calls of each of the busy ones: 200 calls a second, of two kinds.
const PAUSE: Duration = Duration::from_millis(5);
/// How much slower the transfer may be, in percent.
const SLOWER_MAX: f64 = 5.0;

/// Of the internal command `net-stranger`, which runs in a namespace.
#[derive(clap::Args)]
pub(crate) struct StrangerOptions {
    /// The door.
    door: SocketAddr,
    /// How long to disturb, in seconds.
    seconds: u64,
}

/// A transfer that is first left alone, then not.
pub(super) fn hostile(session: &mut Session<'_>) -> Result<()> {
    const ATTACK_S: f64 = 4.0;
    let network = shaped(&[1000, 1000], MTU_JUMBO)?;
    let program = session.build("tests/net/stream.c")?;
    let this = std::env::current_exe().context("cannot find myself")?;
    let mut job = network.job(&session.prefix, 2, &[], &program);
    job.arg("11.5").env("AYATORI_PORTS", PORTS);
    let strangers = std::sync::Mutex::new(Vec::new());
    let (outcome, changed) = during(&mut job, &[4.5], |_| {
        // At the receiver's door by one rail and at the sender's by the other.
        for (host, door) in [(0, "10.77.0.2"), (1, "10.77.1.1")] {
            let line =
                format!("ulimit -n 8000; exec {} net-stranger {door}:{PORT} {ATTACK_S}", this.display());
            let mut stranger = network.in_host(host, &["sh", "-c", &line]);
            let child = stranger.stdout(Stdio::piped()).spawn()?;
            strangers.lock().map_err(|_| anyhow::anyhow!("a panic"))?.push(Background(child));
        }
        Ok(())
    })?;
    let mut said = String::new();
    for stranger in strangers.lock().map_err(|_| anyhow::anyhow!("a panic"))?.iter_mut() {
        if let Some(pipe) = &mut stranger.0.stdout {
            pipe.read_to_string(&mut said)?;
        }
    }
    print!("{said}");
    let is_shown_out = |line: &str| line.ends_with(", 0 let in") && !line.contains(", 0 refused");
    let shown_out = said.lines().filter(|line| is_shown_out(line)).count();
    session.verdict(shown_out == 2, "strangers are shown out", || said.clone());
    let is_good = outcome.success() && outcome.stdout.lines().any(|line| line == "No Errors");
    session.verdict(is_good, "the job under attack loses nothing", || outcome.reason());
    let timeline = Timeline::parse(&outcome.stdout);
    let at = changed[0];
    let (before, under) = (timeline.rate(at - 3.0, at), timeline.rate(at + 0.2, at + 0.2 + ATTACK_S));
    let slower = (1.0 - under / before) * 100.0;
    let what = format!(
        "{:.1} MB/s alone, {:.1} MB/s under attack: {slower:.1} % slower (at most {SLOWER_MAX} %)",
        before / 1e6,
        under / 1e6
    );
    session.figure(slower <= SLOWER_MAX, &what);
    Ok(())
}

/// `net-stranger`: disturbs in four ways at once and says what came of it.
pub(crate) fn stranger(options: &StrangerOptions) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let (calls, half_open) = (AtomicU64::new(0), AtomicU64::new(0));
    let (refused, let_in) = (AtomicU64::new(0), AtomicU64::new(0));
    let message = hello(options.door);
    let dial = || {
        calls.fetch_add(1, Ordering::Relaxed);
        TcpStream::connect_timeout(&options.door, Duration::from_secs(1))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(7);
            while Instant::now() < end {
                if let Ok(mut stream) = dial() {
                    let bytes: Vec<u8> = (0..random.below(4000)).map(|_| random.below(256) as u8).collect();
                    let _ = stream.write_all(&bytes);
                }
                std::thread::sleep(PAUSE);
            }
        });
        scope.spawn(|| {
            while Instant::now() < end {
                let answer = dial().and_then(|mut stream| converse(&mut stream, &message, &[0x5a; 32]));
                if let Ok(answer) = answer {
                    let count = if answer == Answer::LetIn { &let_in } else { &refused };
                    count.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(PAUSE);
            }
        });
        for _ in 0..HALF_OPEN_THREADS {
            scope.spawn(|| {
                let mut silent = Vec::new();
                while silent.len() < HALF_OPEN_COUNT / HALF_OPEN_THREADS && Instant::now() < end {
                    silent.extend(dial());
                }
                half_open.fetch_add(silent.len() as u64, Ordering::Relaxed);
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
            });
        }
        scope.spawn(|| {
            let mut slow: Vec<TcpStream> = (0..LORIS_COUNT).filter_map(|_| dial().ok()).collect();
            for byte in message.iter().cycle() {
                if Instant::now() >= end {
                    return;
                }
                slow.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
                slow.extend((slow.len()..LORIS_COUNT).filter_map(|_| dial().ok()));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    });
    println!(
        "stranger: {} calls, {} of them silent, {} refused at their proof, {} let in",
        calls.into_inner(),
        half_open.into_inner(),
        refused.into_inner(),
        let_in.into_inner()
    );
    Ok(())
}

/// What an honest rank might say first at the door `10.77.INTERFACE.NUMBER` of the other: who names another rank or interface is
/// not even challenged.
fn hello(door: SocketAddr) -> [u8; 48] {
    let (interface, rank) = match door.ip() {
        IpAddr::V4(address) => (address.octets()[2], address.octets()[3].saturating_sub(1)),
        IpAddr::V6(_) => (0, 1),
    };
    let mut bytes = [0; 48];
    bytes[..8].copy_from_slice(b"AYATORI\x04");
    (bytes[8], bytes[12]) = (1 ^ rank, rank);
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

/// The dialler's part of a handshake, word for word. Whoever gets no challenge, or no answer to the proof, has not been
/// refused: that is an error.
pub(super) fn converse(stream: &mut TcpStream, hello: &[u8], proof: &[u8]) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(hello)?;
    stream.read_exact(&mut [0; 48])?;
    stream.write_all(proof)?;
    match stream.read_exact(&mut [0; 40]) {
        Ok(()) => Ok(Answer::LetIn),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            Ok(Answer::Refused)
        }
        Err(error) => Err(error),
    }
}
