//! The program inside the lab's virtual machine: makes nodes and cables, runs programs in them, sends probes,
//! reads counters. It takes requests from the virtio-serial line (see [`crate::wire`]) one at a time and
//! powers the machine off (by ending) when the line closes.
//!
//! Owns no knowledge of plans or dialects: what a switch is to do comes as a script to run in it.

mod counters;
mod line;
mod network;
mod probe;
mod run;

use crate::vm::LINE_NAME;
use crate::wire::{Reply, Request};
use anyhow::{Context, bail};
use line::Line;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// Serves requests until the line closes.
///
/// # Errors
/// We are not inside the lab's machine.
pub fn serve() -> anyhow::Result<()> {
    let port = find_line()?;
    let open = || OpenOptions::new().read(true).write(true).open(&port);
    let file = open().with_context(|| format!("cannot open {}", port.display()))?;
    let line = Line::new(file.try_clone()?);
    network::prepare_kernel();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    line.send(&Reply::Ready { kernel: kernel.trim().to_owned() });
    let mut nodes = Vec::new();
    for request in BufReader::new(file).lines() {
        let request: Request = serde_json::from_str(&request?).context("cannot understand the request")?;
        match handle(request, &mut nodes, &line) {
            Ok(Some(reply)) => line.send(&reply),
            Ok(None) => return Ok(()),
            Err(error) => line.send(&Reply::Failed(format!("{error:#}"))),
        }
    }
    Ok(())
}

/// `None` asks for the end.
fn handle(request: Request, nodes: &mut Vec<String>, line: &Line) -> anyhow::Result<Option<Reply>> {
    Ok(Some(match request {
        Request::Build { nodes: new, cables, names } => {
            network::build(&new, &cables)?;
            network::name_hosts(&names)?;
            *nodes = new;
            Reply::Done
        }
        Request::Run { jobs, timeout_s } => {
            run::all(&jobs, std::time::Duration::from_secs(timeout_s), line)?;
            Reply::Done
        }
        Request::WaitLags { lags, timeout_s } => {
            network::wait_for_lags(&lags, std::time::Duration::from_secs(timeout_s))?;
            Reply::Done
        }
        Request::Prime { hosts } => {
            probe::prime(&hosts)?;
            Reply::Done
        }
        Request::Counters => Reply::Counters(counters::read(nodes)?),
        Request::AllPairs { hosts, idle_round_count_max } => {
            Reply::Pairs(probe::all_pairs(&hosts, idle_round_count_max)?)
        }
        Request::Send { from, to, count, payload_bytes } => {
            Reply::Received(probe::send(&from, &to, count, payload_bytes)?)
        }
        Request::Broadcast { from, to, hosts, count } => {
            Reply::Heard(probe::broadcast(&from, to, &hosts, count)?)
        }
        Request::SendWhilePriming { flows, hosts, count } => {
            Reply::Loaded(probe::send_while_priming(&flows, &hosts, count)?)
        }
        Request::SetLink { end, up } => {
            network::set_link(&end, up)?;
            Reply::Done
        }
        Request::PowerOff => return Ok(None),
    }))
}

/// The character device of the virtio-serial port named [`LINE_NAME`].
fn find_line() -> anyhow::Result<PathBuf> {
    const PORTS: &str = "/sys/class/virtio-ports";
    let ports = fs::read_dir(PORTS)
        .with_context(|| format!("no {PORTS}: this runs only inside the lab's virtual machine"))?;
    for port in ports {
        let port = port?;
        if fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == LINE_NAME) {
            return Ok(PathBuf::from("/dev").join(port.file_name()));
        }
    }
    bail!("no virtio-serial port named {LINE_NAME}: this runs only inside the lab's virtual machine")
}
