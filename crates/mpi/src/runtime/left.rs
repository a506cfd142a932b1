//! In check mode a process says at the end what the program leaves behind.

use crate::abi::MPI_COMM_WORLD;
use crate::fault::Fault;
use crate::request::{Half, Requests, What};
use crate::{datatype, file, info, op, state, win};

/// Says what the program has not received, completed or freed. All messages that were sent have come.
pub(super) fn say() -> Result<(), Fault> {
    let mut process = state::process()?;
    let core = process.engine().core.counts();
    let counts = [
        (core.unexpected, "message not received"),
        (requests_count(&process.requests, core.requests), "request"),
        (process.comms.made_count(), "communicator"),
        (process.groups.made_count(), "group"),
        (datatype::table()?.made_count(), "datatype"),
        (op::table()?.made_count(), "operation"),
        (win::table()?.made_count(), "window"),
        (file::open_count(), "file"),
        (info::infos().made_count(), "info object"),
    ];
    let left: Vec<String> = counts.into_iter().filter_map(|(count, what)| amount(count, what)).collect();
    if !left.is_empty() {
        let rank = process.comms.get(MPI_COMM_WORLD, "comm")?.rank();
        eprintln!("ayatori: check: rank {rank} leaves behind at MPI_Finalize: {}", left.join(", "));
    }
    Ok(())
}

/// Number of requests, of which the core has `of_core`.
fn requests_count(requests: &Requests, of_core: usize) -> usize {
    let behind: usize = requests.table.iter().map(|request| going_count(&request.what)).sum();
    // `SENT` is always there.
    (of_core + requests.table.made_count()).saturating_sub(behind + 1)
}

/// How many requests of the core are behind one of the table.
fn going_count(what: &What) -> usize {
    let halves = match what {
        What::Both(receive, send, _) => [Some(*receive), Some(*send)],
        What::Collective(persistent) => [persistent.running(), None],
        What::Remote(remote) => [remote.running, None],
        What::Making(making) => [Some(making.running), None],
        _ => [None, None],
    };
    halves.iter().filter(|half| matches!(half, Some(Half::Going(_)))).count()
}

/// A count with its noun; `None`: none.
fn amount(count: usize, what: &str) -> Option<String> {
    let (noun, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ if noun == "info" => Some(format!("{count} {what}s")),
        _ => Some(format!("{count} {noun}s{rest}")),
    }
}
