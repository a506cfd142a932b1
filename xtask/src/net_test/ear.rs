//! Whoever hears a rail: what callers say first is in the open, and strangers and the replay build on it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth};

/// How a hello begins, and how long it is (crates/devices/src/tcp/handshake.rs).
pub(super) const MAGIC: &[u8; 8] = b"AYATORI\x05";
pub(super) const HELLO_BYTES: usize = 48;
/// Hang limit of the wait for a hello of a job that has begun.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// The longest packet that is looked at.
const PACKET_BYTES: usize = 1 << 16;

/// The host that this thread is on from now on.
pub(super) fn enter(name: &str) -> Result<()> {
    let file = std::fs::File::open(format!("/run/netns/{name}")).context("a network namespace")?;
    setns(file.as_fd(), CloneFlags::CLONE_NEWNET).context("entering a network namespace")
}

/// A socket that gets what a host sends and receives. It keeps the first of it, until its buffer is full:
/// open it before the job begins.
pub(super) struct Ear {
    socket: OwnedFd,
}

impl Ear {
    /// In a host.
    pub(super) fn at(host: &str) -> Result<Self> {
        // In a thread of its own: who enters a namespace stays there, and so does the socket.
        let open = || -> Result<Self> {
            enter(host)?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket =
                rustix::net::socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, Some(eth::ALL))
                    .context("a packet socket")?;
            Ok(Self { socket })
        };
        std::thread::scope(|scope| scope.spawn(open).join()).unwrap_or_else(|_| bail!("a panic"))
    }

    /// The number of rank 0 of a job of two that has begun: worlds begin anywhere, and a hello names both
    /// processes.
    pub(super) fn first_process(&self) -> Result<u32> {
        let begin = Instant::now();
        let mut packet = vec![0; PACKET_BYTES];
        while begin.elapsed() < HELLO_LIMIT {
            match rustix::net::recv(&self.socket, &mut packet[..], RecvFlags::empty()) {
                Ok((count, _)) => {
                    let hello = packet[..count].windows(HELLO_BYTES).find(|window| window.starts_with(MAGIC));
                    if let Some(hello) = hello {
                        let [from, to] = processes(hello);
                        return Ok(from.min(to));
                    }
                }
                Err(rustix::io::Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(error).context("a packet socket"),
            }
        }
        bail!("nobody was heard to say hello")
    }
}

/// Who says a hello, and to whom.
pub(super) fn processes(hello: &[u8]) -> [u32; 2] {
    [8, 12].map(|at| u32::from_le_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]))
}
