//! Bits that flip on the way, under a valid TCP checksum: through a proxy that both hosts take for each
//! other.
//!
//! ```text
//!   host a            proxy, in two namespaces             host b
//!   10.77.0.1 ────── 10.77.0.2 near a │ near b 10.77.0.1 ────── 10.77.0.2
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use super::Session;
use super::ear::{HELLO_BYTES, enter, processes};
use super::hostile::{Answer, PORT, PORTS, converse};
use super::network::{LIMIT, Network, ip};
use crate::process;
use ayatori_random::Random;

/// Bits flip this far apart at least, bytes: more than a handshake, and more than a packet, so each is in a
/// packet of its own.
const FLIP_APART_MIN: u64 = 2 << 20;
/// And by up to so much more.
const FLIP_APART_MORE: u64 = 4 << 20;
/// What the kernels may hold of a connection that ends before anybody has read it, bytes.
const UNREAD_MAX: u64 = 16 << 20;
/// Of those that were read one in so many may be in a packet that came twice and is passed over unread.
const PASSED_OVER_ONE_IN: u64 = 20;
/// How many jobs without sums may end before they see a wrong word.
const UNSUMMED_ATTEMPTS: usize = 5;
/// Hello and proof.
const SAID_BYTES: usize = HELLO_BYTES + 32;
const TICK: Duration = Duration::from_millis(100);

struct Proxy {
    /// The namespaces near a and near b.
    near: [String; 2],
    seed: u64,
    is_over: AtomicBool,
    flips_count: AtomicU64,
    /// Those behind which so much more was sent that they have been read.
    read_flips_count: AtomicU64,
    connections_count: AtomicU64,
    /// What the first caller said who came as far as a proof: of two ranks that call each other at once one
    /// hangs up.
    recorded: Mutex<Option<Vec<u8>>>,
}

pub(super) fn damage(session: &mut Session<'_>) -> Result<()> {
    let (hosts, proxies) = (Network::empty()?, Network::empty()?);
    for (side, (host, near)) in hosts.hosts.iter().zip(&proxies.hosts).enumerate() {
        ip(&format!("link add rail0 netns {host} type veth peer name rail0 netns {near}"))?;
        for (name, number) in [(host, 1 + side), (near, 2 - side)] {
            let off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";
            let mut quiet = Command::new("ip");
            process::capture(quiet.args(["netns", "exec", name, "sh", "-c", off]), LIMIT)?;
            ip(&format!("-n {name} addr add 10.77.0.{number}/24 dev rail0"))?;
            ip(&format!("-n {name} link set rail0 up"))?;
        }
    }
    hosts.settle()?;
    let verify = session.build("tests/net/verify.c")?;
    let run = |session: &Session<'_>, is_summed: bool, seed: u64| {
        let mut job = hosts.job(&session.prefix, 2, &[], &verify);
        job.arg(if is_summed { "5" } else { "3" }).env("AYATORI_PORTS", PORTS);
        job.env("AYATORI_TCP_SUMS", if is_summed { "1" } else { "0" });
        Proxy::between(&proxies, seed).damage(&mut job)
    };
    let seed = session.options.seed;
    let damaged = run(session, true, seed)?;
    let is_right = damaged.job.success() && damaged.job.stdout.trim() == "No Errors";
    let what = format!("every one detected: {}", damaged.words());
    session.verdict(is_right && damaged.flips_count > 0, &what, || damaged.job.reason());
    let what = format!("as many damaged packets as flipped bits: {}", damaged.comparison());
    session.verdict(damaged.are_all_found(), &what, String::new);
    let is_refused = matches!(damaged.replay, Ok(Answer::Refused));
    session.verdict(is_refused, "a replayed handshake is refused", || match damaged.replay {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("{error:#}"),
    });
    // The test can fail: without sums it does, and for no other reason than this. A bit that flips in a
    // packet's header may end the job before there is a wrong word.
    let mut others = Vec::new();
    for seed in (seed..).take(UNSUMMED_ATTEMPTS) {
        let damaged = run(session, false, seed)?;
        if let Some(wrong) = wrong_words(&damaged.job.stdout) {
            let what = format!("without sums they are seen: {wrong} wrong words: {}", damaged.words());
            session.verdict(true, &what, String::new);
            return Ok(());
        }
        others.push(format!("{} {}", damaged.job.stdout.trim(), damaged.job.reason()));
    }
    session.verdict(false, "without sums they are seen", || {
        format!("no wrong words in {UNSUMMED_ATTEMPTS} jobs, but: {}", others.join("; "))
    });
    Ok(())
}

/// What came of a job whose bits flipped.
struct Damaged {
    job: process::Outcome,
    replay: Result<Answer>,
    flips_count: u64,
    read_flips_count: u64,
    connections_count: u64,
}

impl Damaged {
    /// Whether the library has found each flipped bit that it can have read, and no more than were flipped.
    fn are_all_found(&self) -> bool {
        let Some(found) = damaged_packets(&self.job.stderr) else { return false };
        let least = self.read_flips_count - self.read_flips_count / PASSED_OVER_ONE_IN;
        found > 0 && (least..=self.flips_count).contains(&found)
    }

    fn comparison(&self) -> String {
        let found = damaged_packets(&self.job.stderr)
            .map_or_else(|| "the job does not say how many".to_owned(), |found| found.to_string());
        format!("{found} found, {} flipped, {} of them surely read", self.flips_count, self.read_flips_count)
    }

    fn words(&self) -> String {
        let said = self.job.stderr.trim().lines().next_back().unwrap_or_default();
        format!("{} flipped bits, {} connections: {said}", self.flips_count, self.connections_count)
    }
}

/// How many words the program says were not what was sent, if it says so.
fn wrong_words(stdout: &str) -> Option<u64> {
    let count = |line: &str| line.trim().strip_suffix(" wrong words")?.parse().ok();
    stdout.lines().find_map(count).filter(|&count| count > 0)
}

/// How many packets the program says came damaged.
fn damaged_packets(stderr: &str) -> Option<u64> {
    stderr.lines().find_map(|line| line.trim().strip_suffix(" damaged packets")?.parse().ok())
}

impl Proxy {
    fn between(near: &Network, seed: u64) -> Self {
        Self {
            near: near.hosts.clone(),
            seed,
            is_over: AtomicBool::new(false),
            flips_count: AtomicU64::new(0),
            read_flips_count: AtomicU64::new(0),
            connections_count: AtomicU64::new(0),
            recorded: Mutex::default(),
        }
    }

    /// Runs a job whose hosts take this for each other.
    fn damage(self, job: &mut Command) -> Result<Damaged> {
        let (outcome, replay) = std::thread::scope(|scope| {
            for side in 0..2 {
                let proxy = &self;
                scope.spawn(move || proxy.serve(scope, side));
            }
            let replay = scope.spawn(|| self.replay());
            let outcome = process::capture(job, LIMIT);
            self.is_over.store(true, Ordering::Relaxed);
            (outcome, replay.join())
        });
        Ok(Damaged {
            job: outcome?,
            replay: replay.unwrap_or_else(|_| Err(anyhow::anyhow!("a panic"))),
            flips_count: self.flips_count.into_inner(),
            read_flips_count: self.read_flips_count.into_inner(),
            connections_count: self.connections_count.into_inner(),
        })
    }

    /// The address that the host on `side` takes for the other's.
    fn other(side: usize) -> SocketAddr {
        SocketAddr::from(([10, 77, 0, 2 - side as u8], PORT))
    }

    /// Listens where the host on `side` expects the other.
    fn serve<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, side: usize) {
        let listening = enter(&self.near[side]).and_then(|()| Ok(TcpListener::bind(Self::other(side))?));
        let Ok(listener) = listening else { return };
        if listener.set_nonblocking(true).is_err() {
            return;
        }
        while !self.is_over.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((from, _)) => {
                    scope.spawn(move || self.connect(scope, side, from));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn connect<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, side: usize, from: TcpStream) {
        let dialled = enter(&self.near[1 - side]).and_then(|()| Ok(TcpStream::connect(Self::other(side))?));
        let Ok(to) = dialled else { return };
        let number = self.connections_count.fetch_add(1, Ordering::Relaxed);
        let _ = (from.set_nonblocking(false), from.set_nodelay(true), to.set_nodelay(true));
        let (Ok(back_from), Ok(back_to)) = (to.try_clone(), from.try_clone()) else { return };
        scope.spawn(move || self.pump(back_from, back_to, 2 * number + 1, false));
        self.pump(from, to, 2 * number, true);
    }

    /// Copies, and flips bits.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, number: u64, is_caller: bool) {
        let mut said = Vec::new();
        let mut random = Random::new(self.seed ^ number << 32);
        let apart = |random: &mut Random| FLIP_APART_MIN + random.below(FLIP_APART_MORE);
        let mut left = apart(&mut random);
        let (mut flips, mut sent) = (Vec::new(), 0);
        let mut chunk = vec![0; 256 << 10];
        let _ = from.set_read_timeout(Some(TICK));
        loop {
            let count = match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if is_timeout(&error) && !self.is_over.load(Ordering::Relaxed) => continue,
                Err(_) => break,
            };
            if is_caller && said.len() < SAID_BYTES {
                said.extend_from_slice(&chunk[..count.min(SAID_BYTES - said.len())]);
                if said.len() == SAID_BYTES
                    && let Ok(mut recorded) = self.recorded.lock()
                {
                    recorded.get_or_insert_with(|| said.clone());
                }
            }
            let mut at = 0;
            while left < (count - at) as u64 {
                at += left as usize;
                chunk[at] ^= 1 << random.below(8);
                self.flips_count.fetch_add(1, Ordering::Relaxed);
                flips.push(sent + at as u64);
                left = apart(&mut random);
            }
            left -= ((count - at) as u64).min(left);
            if to.write_all(&chunk[..count]).is_err() {
                break;
            }
            sent += count as u64;
        }
        let read = flips.iter().filter(|&&at| at + UNREAD_MAX <= sent).count();
        self.read_flips_count.fetch_add(read as u64, Ordering::Relaxed);
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    }

    /// Says once more what the first caller said, while the job runs.
    fn replay(&self) -> Result<Answer> {
        for _ in 0..40 {
            std::thread::sleep(TICK);
            let recorded = self.recorded.lock().map_or(None, |said| said.clone());
            if let Some(recorded) = recorded {
                let (hello, proof) = recorded.split_at(HELLO_BYTES);
                // Whom it is for stands in it; behind the proxy near b is rank 1.
                let [from, to] = processes(hello);
                let side = if to > from { 0 } else { 1 };
                enter(&self.near[1 - side])?;
                let mut stream =
                    TcpStream::connect(Self::other(side)).context("connecting to the listener")?;
                return converse(&mut stream, hello, proof).context("in the replayed handshake");
            }
        }
        anyhow::bail!("nobody called")
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wrong_words_are_damage_seen() {
        assert_eq!(wrong_words("17 wrong words\n"), Some(17));
        for other in
            ["", "No Errors\n", "0 wrong words\n", "rank 1 was killed by signal 11\n", "wrong words\n"]
        {
            assert_eq!(wrong_words(other), None, "{other:?}");
        }
    }
}
