//! Bits that flip on the way, under a valid TCP checksum: through a proxy that both hosts take for each other.
//!
//! ```text
//!   host a            proxy, in two namespaces             host b
//!   10.77.0.1 ────── 10.77.0.2 near a │ near b 10.77.0.1 ────── 10.77.0.2
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};

use super::hostile::{Answer, PORT, PORTS, converse};
use super::network::{LIMIT, Network, ip};
use super::{Random, Session};
use crate::process;

/// A bit flips in so many bytes, on average.
const FLIP_EVERY_BYTES: u64 = 4 << 20;
/// Hello and proof.
const SAID_BYTES: usize = 48 + 32;
const TICK: Duration = Duration::from_millis(100);

struct Proxy {
    /// The namespaces near a and near b.
    near: [String; 2],
    seed: u64,
    is_over: AtomicBool,
    flips_count: AtomicU64,
    connections_count: AtomicU64,
    /// What the first caller said who came as far as a proof: of two ranks that call each other at once one hangs up.
    recorded: Mutex<Option<Vec<u8>>>,
}

/// The host that this thread is on from now on.
fn enter(name: &str) -> Result<()> {
    let file = std::fs::File::open(format!("/run/netns/{name}")).context("a network namespace")?;
    setns(file.as_fd(), CloneFlags::CLONE_NEWNET).context("entering a network namespace")
}

pub(super) fn damage(session: &mut Session<'_>) -> Result<()> {
    let (hosts, proxies) = (Network::empty()?, Network::empty()?);
    for (side, (host, near)) in hosts.hosts.iter().zip(&proxies.hosts).enumerate() {
        ip(&format!("link add rail0 netns {host} type veth peer name rail0 netns {near}"))?;
        for (name, number) in [(host, 1 + side), (near, 2 - side)] {
            let off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";
            let mut quiet = std::process::Command::new("ip");
            process::capture(quiet.args(["netns", "exec", name, "sh", "-c", off]), LIMIT)?;
            ip(&format!("-n {name} addr add 10.77.0.{number}/24 dev rail0"))?;
            ip(&format!("-n {name} link set rail0 up"))?;
        }
    }
    hosts.settle()?;
    let verify = session.build("tests/net/verify.c")?;
    for is_summed in [true, false] {
        let proxy = Proxy {
            near: proxies.hosts.clone(),
            seed: session.options.seed,
            is_over: AtomicBool::new(false),
            flips_count: AtomicU64::new(0),
            connections_count: AtomicU64::new(0),
            recorded: Mutex::default(),
        };
        let mut job = hosts.job(&session.prefix, 2, &[], &verify);
        job.arg(if is_summed { "5" } else { "3" }).env("AYATORI_PORTS", PORTS);
        job.env("AYATORI_TCP_CRC", if is_summed { "1" } else { "0" });
        let (outcome, replay) = std::thread::scope(|scope| {
            for side in 0..2 {
                let proxy = &proxy;
                scope.spawn(move || proxy.serve(scope, side));
            }
            let replay = scope.spawn(|| proxy.replay());
            let outcome = process::capture(&mut job, LIMIT);
            proxy.is_over.store(true, Ordering::Relaxed);
            (outcome, replay.join())
        });
        let (outcome, flips) = (outcome?, proxy.flips_count.into_inner());
        let said = outcome.stderr.trim().lines().next_back().unwrap_or_default().to_owned();
        let is_right = outcome.success() && outcome.stdout.trim() == "No Errors";
        let connections = proxy.connections_count.into_inner();
        let with = format!("{flips} flipped bits, {connections} connections: {said}");
        if is_summed {
            session
                .verdict(is_right && flips > 0, &format!("every one detected: {with}"), || outcome.reason());
            let replay = replay.unwrap_or_else(|_| Err(anyhow::anyhow!("a panic")));
            let is_refused = matches!(replay, Ok(Answer::Refused));
            session.verdict(is_refused, "a replayed handshake is refused", || match replay {
                Ok(answer) => format!("{answer:?}"),
                Err(error) => format!("{error:#}"),
            });
        } else {
            // The test can fail: without sums it does, and for no other reason than this.
            let wrong = wrong_words(&outcome.stdout);
            let what = format!("without sums they are seen: {} wrong words: {with}", wrong.unwrap_or(0));
            session.verdict(wrong.is_some(), &what, || {
                format!("no wrong words were seen, but: {} {}", outcome.stdout.trim(), outcome.reason())
            });
        }
    }
    Ok(())
}

/// How many words the program says were not what was sent, if it says so.
fn wrong_words(stdout: &str) -> Option<u64> {
    let count = |line: &str| line.trim().strip_suffix(" wrong words")?.parse().ok();
    stdout.lines().find_map(count).filter(|&count| count > 0)
}

impl Proxy {
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
        let mut random = Random(self.seed ^ number << 32);
        let mut left = random.below(2 * FLIP_EVERY_BYTES);
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
                left = 1 + random.below(2 * FLIP_EVERY_BYTES);
            }
            left -= ((count - at) as u64).min(left);
            if to.write_all(&chunk[..count]).is_err() {
                break;
            }
        }
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    }

    /// Says once more what the first caller said, while the job runs.
    fn replay(&self) -> Result<Answer> {
        for _ in 0..40 {
            std::thread::sleep(TICK);
            let recorded = self.recorded.lock().map_or(None, |said| said.clone());
            if let Some(recorded) = recorded {
                let (hello, proof) = recorded.split_at(48);
                // Whom it is for stands in it; behind the proxy near b is rank 1.
                let side = if hello[12] == 1 { 0 } else { 1 };
                enter(&self.near[1 - side])?;
                let mut stream = TcpStream::connect(Self::other(side)).context("at the door")?;
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
