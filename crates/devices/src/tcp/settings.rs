//! What a user may set, and what is set on sockets.

use super::interfaces::RailFilter;
use super::sys;
use crate::switch;
use ayatori_core::connect;
use ayatori_core::device::profiles;
use ayatori_core::time as core_time;
use rustix::net::sockopt;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The kernel's 200 ms are made for the internet. 40 ms an acknowledgement may be delayed.
const RESEND_AFTER_MIN_US: u32 = 50_000;
/// A connection whose far end's kernel has not answered for this long is broken, whether something is under
/// way (user timeout) or not (keep-alive asks from 2 s on). If the peer's kernel answers but the peer has not
/// read for this long and its buffers are full, the connection is made again, which costs a megabyte of
/// retransmission.
const DEAD_AFTER_MS: u32 = 6_000;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(2);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Settings of the user.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which interfaces may be rails.
    pub filter: RailFilter,
    /// Ports to listen on; the system's choice without.
    pub ports: Option<PortRange>,
    /// The congestion control of our connections, by the kernel's name; the system's default without.
    pub congestion: Option<String>,
    /// Leave out the sums that find damage (XXH3 of each packet).
    pub is_unchecked: bool,
    /// Deadlines and bounds of the handshakes.
    pub timing: Timing,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl PortRange {
    /// `40000-40100`, or one port.
    ///
    /// # Errors
    /// A description of the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Self { first, last }),
            _ => Err(format!("'{text}' is no range of ports; give FIRST-LAST, as in 40000-40100")),
        }
    }
}

impl Settings {
    /// From the environment: `AYATORI_RAILS`, `AYATORI_NO_RAILS`, `AYATORI_PORTS`, `AYATORI_TCP_CONGESTION`,
    /// `AYATORI_TCP_SUMS` (`0`: without).
    ///
    /// # Errors
    /// In words, which variable says nonsense.
    pub fn from_environment() -> Result<Self, String> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The same over any environment.
    ///
    /// # Errors
    /// As [`from_environment`](Self::from_environment).
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let (only, not) = (text(ENV_RAILS), text(ENV_NO_RAILS));
        let filter = RailFilter::new(only.as_deref(), not.as_deref())
            .map_err(|error| format!("{ENV_RAILS}, {ENV_NO_RAILS}: {error}"))?;
        let ports = text(ENV_PORTS).map(|ports| PortRange::parse(&ports)).transpose();
        Ok(Self {
            filter,
            ports: ports.map_err(|error| format!("{ENV_PORTS}: {error}"))?,
            congestion: text("AYATORI_TCP_CONGESTION"),
            is_unchecked: switch::is_on(ENV_SUMS, text(ENV_SUMS).as_deref())? == Some(false),
            timing: Timing::default(),
        })
    }

    /// Sets a socket of ours up: a hint each, so that an old kernel does without.
    pub(super) fn apply(&self, socket: &OwnedFd) {
        let _ = sockopt::set_tcp_nodelay(socket, true);
        keep_alive(socket);
        let _ = sockopt::set_tcp_user_timeout(socket, DEAD_AFTER_MS);
        sys::set_unsent_max(socket.as_fd(), profiles::TCP_UNSENT_BYTES_MAX);
        sys::set_resend_after_min(socket.as_fd(), RESEND_AFTER_MIN_US);
        if let Some(name) = &self.congestion {
            let _ = sockopt::set_tcp_congestion(socket, name);
        }
    }
}

/// A process that only receives learns from its kernel that the far end's host is gone. The peer's kernel
/// answers, however long the peer computes. A hint, too.
pub(super) fn keep_alive(socket: &OwnedFd) {
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL);
}

/// Interfaces and networks that may be rails.
pub const ENV_RAILS: &str = "AYATORI_RAILS";
/// Interfaces and networks that may not.
pub const ENV_NO_RAILS: &str = "AYATORI_NO_RAILS";
/// Ports to listen on.
pub const ENV_PORTS: &str = "AYATORI_PORTS";
/// Whether packets have sums that find damage: 0 or 1.
const ENV_SUMS: &str = "AYATORI_TCP_SUMS";

/// Deadlines and bounds of connections that are being made.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a connection may take to come up.
    pub connect: Duration,
    /// How long a caller may take to prove itself, and a listener to answer.
    pub handshake: Duration,
    /// Most connections of others that have proved nothing.
    pub pending_max: usize,
}

impl Default for Timing {
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), handshake: Duration::from_secs(2), pending_max: 64 }
    }
}

impl Timing {
    pub(super) fn of_core(self) -> connect::Timing {
        connect::Timing {
            connect: core_duration(self.connect),
            handshake: core_duration(self.handshake),
            pending_max: self.pending_max,
        }
    }
}

pub(super) fn core_duration(duration: Duration) -> core_time::Duration {
    // Core counts picoseconds.
    core_time::Duration::from_ns(duration.as_nanos().min(u128::from(u64::MAX / 1_000)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_set_what_they_name_and_blank_ones_nothing() {
        let read = |variables: &[(&str, &str)]| {
            let of = |name: &str| variables.iter().find(|one| one.0 == name).map(|one| one.1.to_owned());
            Settings::from_variables(of)
        };
        let blank = [ENV_RAILS, ENV_NO_RAILS, ENV_PORTS, "AYATORI_TCP_CONGESTION", ENV_SUMS];
        for settings in [read(&[]).unwrap(), read(&blank.map(|name| (name, " "))).unwrap()] {
            assert!(settings.filter == RailFilter::default() && settings.ports.is_none());
            assert!(settings.congestion.is_none() && !settings.is_unchecked);
        }
        let settings = read(&[
            (ENV_RAILS, "eth1"),
            (ENV_PORTS, "40000-40001"),
            ("AYATORI_TCP_CONGESTION", "bbr"),
            (ENV_SUMS, "0"),
        ])
        .unwrap();
        assert!(settings.filter == RailFilter::new(Some("eth1"), None).unwrap() && settings.is_unchecked);
        assert_eq!(settings.ports, Some(PortRange { first: 40_000, last: 40_001 }));
        assert_eq!(settings.congestion.as_deref(), Some("bbr"));
        assert!(!read(&[(ENV_SUMS, "1")]).unwrap().is_unchecked);
        for (name, value) in [(ENV_PORTS, "5-4"), (ENV_NO_RAILS, "10.0.0.0/99"), (ENV_SUMS, "off")] {
            assert!(read(&[(name, value)]).is_err_and(|error| error.contains(name)), "{name}");
        }
    }

    #[test]
    fn a_connection_may_take_seconds_to_be_made() {
        let core = Timing::default().of_core();
        let second = core_time::Duration::from_ms(1_000);
        assert_eq!((core.connect, core.handshake, core.pending_max), (second, second + second, 64));
    }

    #[test]
    fn a_socket_gets_what_finds_the_dead() {
        let socket = super::super::acceptor::stream_socket(rustix::net::AddressFamily::INET).unwrap();
        Settings::default().apply(&socket);
        assert_eq!(sockopt::tcp_nodelay(&socket), Ok(true));
        assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&socket), Ok(KEEPALIVE_IDLE));
        assert_eq!(sockopt::tcp_keepintvl(&socket), Ok(KEEPALIVE_INTERVAL));
        assert_eq!(sockopt::tcp_user_timeout(&socket), Ok(DEAD_AFTER_MS));
    }
}
