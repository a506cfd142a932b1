//! Nodes (network namespaces) and cables (veth pairs).

use crate::wire::{End, LagWait};
use anyhow::{Context, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Settings of the whole machine that a lab needs.
pub(super) fn prepare_kernel() {
    // The neighbour table is one for all namespaces: hosts × hosts entries, where 1024 is the default limit.
    for (name, limit) in [("gc_thresh1", 1 << 20), ("gc_thresh2", 1 << 20), ("gc_thresh3", 1 << 21)] {
        let _ = fs::write(format!("/proc/sys/net/ipv4/neigh/default/{name}"), format!("{limit}"));
    }
    // Interfaces made later inherit this: no ARP request goes to a known neighbour, neither after a time nor
    // to confirm an address from its own request, so that counters show the test's frames and not ARP.
    for (name, value) in [("base_reachable_time_ms", "86400000"), ("delay_first_probe_time", "86400")] {
        let _ = fs::write(format!("/proc/sys/net/ipv4/neigh/default/{name}"), value);
    }
}

/// Makes the namespaces and the cables between them.
pub(super) fn build(nodes: &[String], cables: &[(End, End)]) -> anyhow::Result<()> {
    let mut batch = String::new();
    for node in nodes {
        let _ = writeln!(batch, "netns add {node}");
    }
    ip_batch(&batch)?;
    batch.clear();
    for (a, b) in cables {
        let _ = writeln!(
            batch,
            "link add {} netns {} type veth peer name {} netns {}",
            a.port, a.node, b.port, b.node
        );
    }
    ip_batch(&batch)?;
    // A process each, two at a time.
    let set_up = |nodes: &[String]| -> anyhow::Result<()> {
        nodes.iter().try_for_each(|node| in_node(node, || run("ip", &["link", "set", "lo", "up"]))?)
    };
    let (one, other) = nodes.split_at(nodes.len() / 2);
    std::thread::scope(|scope| {
        let half = scope.spawn(|| set_up(one));
        set_up(other)?;
        half.join().map_err(|_| anyhow::anyhow!("setting up nodes panicked"))?
    })
}

/// Makes host names resolve everywhere in the machine.
pub(super) fn name_hosts(names: &[(Ipv4Addr, String)]) -> anyhow::Result<()> {
    let mut text = String::from("127.0.0.1 localhost\n");
    for (address, name) in names {
        let _ = writeln!(text, "{address} {name}");
    }
    // Beside, not in, the agent's folder: that one is the host's and read-only.
    const FILE: &str = "/run/ayatori-hosts";
    fs::write(FILE, text).context("cannot write the hosts file")?;
    run("mount", &["--bind", FILE, "/etc/hosts"])
}

/// Pulls a cable at one end, or puts it back. A script that sets the port up again does not put the cable
/// back: what is sent into a pulled one is lost.
pub(super) fn set_link(end: &End, up: bool) -> anyhow::Result<()> {
    let port = end.port.as_str();
    in_node(&end.node, || {
        if up {
            run("tc", &["qdisc", "del", "dev", port, "root"])?;
            run("ip", &["link", "set", "dev", port, "up"])
        } else {
            run("tc", &["qdisc", "replace", "dev", port, "root", "netem", "loss", "100%"])?;
            run("ip", &["link", "set", "dev", port, "down"])
        }
    })?
}

/// Waits until every LAG has all its cables, which LACP takes some seconds for.
pub(super) fn wait_for_lags(lags: &[LagWait], timeout: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + timeout;
    for lag in lags {
        loop {
            let path = format!("/proc/thread-self/net/bonding/{}", lag.name);
            let text = in_node(&lag.node, || fs::read_to_string(&path))?
                .with_context(|| format!("{} has no LAG {}", lag.node, lag.name))?;
            let count = lag_cable_count(&text);
            if count >= lag.cable_count {
                break;
            }
            if Instant::now() > deadline {
                bail!(
                    "{}: {count} of the {} cables of {} are up after {} s",
                    lag.node,
                    lag.cable_count,
                    lag.name,
                    timeout.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    Ok(())
}

/// The cables over which both ends pass frames, from `/proc/net/bonding/NAME`. How many ports the aggregator
/// has says less: one end has them before the other passes what it sends.
fn lag_cable_count(text: &str) -> usize {
    // IEEE 802.1AX, actor and partner state: synchronized, collecting, distributing.
    const PASSES: u8 = 0x08 | 0x10 | 0x20;
    let states = text.lines().filter_map(|line| line.trim().strip_prefix("port state:"));
    let passing = states.filter(|state| state.trim().parse::<u8>().is_ok_and(|bits| bits & PASSES == PASSES));
    // A state of ours and one of the partner's for every cable.
    passing.count() / 2
}

/// Runs `work` in a thread that has moved into the namespace of `node`: sockets made there stay there.
pub(super) fn in_node<T: Send>(node: &str, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    let path = format!("/run/netns/{node}");
    let namespace = File::open(&path).with_context(|| format!("there is no node {node} ({path})"))?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(node.to_owned()).spawn_scoped(scope, || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("cannot enter node {node}"))?;
            Ok(work())
        });
        let thread = thread.context("cannot start a thread")?;
        thread.join().map_err(|_| anyhow::anyhow!("the work in node {node} panicked"))?
    })
}

fn ip_batch(batch: &str) -> anyhow::Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run ip; install iproute2 on this machine")?;
    child.stdin.take().context("no pipe to ip")?.write_all(batch.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ip failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn run(program: &str, args: &[&str]) -> anyhow::Result<()> {
    let output =
        Command::new(program).args(args).output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cable_counts_when_both_ends_pass_frames() {
        let cable = |ours: u8, theirs: u8| {
            format!(
                "Slave Interface: swp1\ndetails actor lacp pdu:\n    port state: {ours}\n\
                 details partner lacp pdu:\n    port state: {theirs}\n"
            )
        };
        assert_eq!(lag_cable_count(&[cable(63, 63), cable(63, 61)].concat()), 2);
        assert_eq!(lag_cable_count(&[cable(63, 63), cable(63, 7)].concat()), 1);
        assert_eq!(lag_cable_count("Bonding Mode: load balancing (xor)\n"), 0);
    }
}
