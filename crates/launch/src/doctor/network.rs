//! Network interfaces and TCP.

use super::finding::{Findings, Severity};
use super::system::System;

const FOLDER: &str = "/sys/class/net";
/// `IFF_UP` of `flags`.
const IFF_UP: u32 = 1;

struct Interface {
    name: String,
    is_up: bool,
    has_carrier: bool,
    mbit_per_s: Option<u64>,
    is_half_duplex: bool,
    mtu_bytes: Option<u64>,
}

/// Interfaces of real (or a virtual machine's) devices: those that bridges and containers make have none.
fn interfaces(system: &System) -> Vec<Interface> {
    let names = system.names(FOLDER).into_iter();
    let real = names.filter(|name| system.path(format!("{FOLDER}/{name}/device")).exists());
    let read = |name: String| {
        let text = |file: &str| system.text(format!("{FOLDER}/{name}/{file}"));
        let flags =
            text("flags").and_then(|flags| u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok());
        let is_up = flags.is_some_and(|flags| flags & IFF_UP != 0);
        Interface {
            is_up,
            has_carrier: is_up && text("carrier").as_deref() == Some("1"),
            // A virtual machine's says -1.
            mbit_per_s: text("speed").and_then(|speed| speed.parse().ok()).filter(|&speed| speed > 0),
            is_half_duplex: text("duplex").as_deref() == Some("half"),
            mtu_bytes: text("mtu").and_then(|mtu| mtu.parse().ok()),
            name,
        }
    };
    real.map(read).collect()
}

fn working(system: &System) -> Vec<Interface> {
    interfaces(system).into_iter().filter(|interface| interface.has_carrier).collect()
}

pub(super) fn carrier(system: &System, findings: &mut Findings) {
    let asked = system.variable("AYATORI_RAILS").unwrap_or_default();
    for Interface { name, is_up, has_carrier, .. } in interfaces(system) {
        let is_asked = asked.split(',').any(|given| given.trim() == name);
        if is_up && !has_carrier {
            findings.add(
                Severity::Warning,
                format!("{name} is up and has no carrier"),
                format!("look at its cable and the switch's port; or ip link set {name} down"),
                "one rail more for messages between hosts",
            );
        } else if !is_up && is_asked {
            findings.add(
                Severity::Error,
                format!("AYATORI_RAILS names {name}, which is down"),
                format!("ip link set {name} up"),
                "jobs on several hosts use it",
            );
        }
    }
}

pub(super) fn speed(system: &System, findings: &mut Findings) {
    let working = working(system);
    let fastest = working.iter().filter_map(|interface| interface.mbit_per_s).max();
    for Interface { name, mbit_per_s, is_half_duplex, .. } in &working {
        if *is_half_duplex {
            findings.add(
                Severity::Warning,
                format!("{name} runs half duplex"),
                format!("let both ends negotiate: ethtool -s {name} autoneg on, and at the switch's port"),
                "frames do not collide; both directions at once",
            );
        }
        let Some(speed) = *mbit_per_s else { continue };
        if speed < 1_000 {
            findings.add(
                Severity::Warning,
                format!("{name} runs at {speed} Mbit/s"),
                "look at its cable (four good pairs), at ethtool's link modes and at the switch's port",
                match fastest {
                    Some(fastest) if fastest > speed => {
                        format!("other interfaces here run at {fastest} Mbit/s")
                    }
                    _ => "ten times the rate, if the device can do a gigabit".into(),
                },
            );
        }
    }
}

pub(super) fn mtu(system: &System, findings: &mut Findings) {
    let working = working(system);
    for Interface { name, mbit_per_s, mtu_bytes, .. } in &working {
        let (Some(speed), Some(mtu)) = (*mbit_per_s, *mtu_bytes) else { continue };
        let alike = working.iter().filter(|other| other.mbit_per_s == Some(speed));
        let largest = alike.filter_map(|other| other.mtu_bytes).max().unwrap_or(mtu);
        if mtu < largest {
            findings.add(
                Severity::Warning,
                format!("{name} sends frames of {mtu} B; another interface of its speed {largest} B"),
                format!("ip link set {name} mtu {largest}, at all hosts and switches of that network"),
                "the rails carry equal shares at equal cost",
            );
        } else if mtu < 1_280 {
            findings.add(
                Severity::Warning,
                format!("{name} sends frames of {mtu} B at most"),
                format!("ip link set {name} mtu 1500"),
                "fewer frames for the same data",
            );
        } else if mtu <= 1_500 && speed >= FAST_MBIT_PER_S {
            findings.add(
                Severity::Advice,
                format!("{name} runs at {speed} Mbit/s with frames of {mtu} B"),
                format!("ip link set {name} mtu 9000, if all hosts and switches of that network do the same"),
                "less CPU time a byte; 5 % less overhead on the wire",
            );
        }
    }
}

const FAST_MBIT_PER_S: u64 = 10_000;

/// TCP needs what a link carries in a round trip. Half a millisecond is long for a cluster, and short for a
/// queue.
const ROUND_TRIP_S: f64 = 0.5e-3;

pub(super) fn buffers(system: &System, findings: &mut Findings) {
    let rates = working(system).into_iter().filter_map(|interface| interface.mbit_per_s);
    // Virtual interfaces report no speed; each has at least a gigabit.
    let mbit_per_s = rates.max().unwrap_or(1_000);
    let needed = (mbit_per_s as f64 * 1e6 / 8.0 * ROUND_TRIP_S) as u64;
    for (path, name) in
        [("/proc/sys/net/ipv4/tcp_rmem", "tcp_rmem"), ("/proc/sys/net/ipv4/tcp_wmem", "tcp_wmem")]
    {
        let Some(text) = system.text(path) else { continue };
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [least, usual, most] = numbers[..] else { continue };
        if most < needed {
            let wanted = needed.next_power_of_two();
            findings.add(
                Severity::Warning,
                format!(
                    "net.ipv4.{name} ends at {most} B; a link of {mbit_per_s} Mbit/s holds {needed} B in \
                     half a millisecond"
                ),
                format!("sysctl -w net.ipv4.{name}='{least} {usual} {wanted}'"),
                "one connection can fill the link",
            );
        }
    }
}

pub(super) fn congestion(system: &System, findings: &mut Findings) {
    let asked = system.variable("AYATORI_TCP_CONGESTION");
    let available = system.text("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if let (Some(asked), Some(available)) = (asked, &available)
        && !available.split_whitespace().any(|name| name == asked)
    {
        findings.add(
            Severity::Warning,
            format!("AYATORI_TCP_CONGESTION={asked} is not to be had: the kernel has {available}"),
            format!("modprobe tcp_{asked}, or unset AYATORI_TCP_CONGESTION"),
            "connections use what was asked for; today they silently use the default",
        );
    }
    let Some(current) = system.text("/proc/sys/net/ipv4/tcp_congestion_control").filter(|_| asked.is_none())
    else {
        return;
    };
    // Made to yield to all others, or to look for rising round trips, which queues of switches and busy hosts
    // feign.
    if ["lp", "vegas", "nv", "veno", "yeah", "cdg", "westwood"].contains(&current.as_str()) {
        findings.add(
            Severity::Warning,
            format!("TCP's congestion control is {current}, which gives way at every sign of a queue"),
            "sysctl -w net.ipv4.tcp_congestion_control=cubic, or AYATORI_TCP_CONGESTION=cubic",
            "bursts of messages use the whole link",
        );
    }
}

pub(super) fn idle(system: &System, findings: &mut Findings) {
    // On by default: worth a word only where links are fast.
    let is_fast = working(system).iter().any(|interface| interface.mbit_per_s >= Some(FAST_MBIT_PER_S));
    if is_fast && system.value("/proc/sys/net/ipv4/tcp_slow_start_after_idle") == Some(1_u32) {
        findings.add(
            Severity::Advice,
            "TCP begins slowly again after every pause of a connection (tcp_slow_start_after_idle)",
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
            "the first long messages after a computing phase are sent at the link's rate",
        );
    }
}
