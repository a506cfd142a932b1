//! Messages between `ayatori run` and its agents: frames over the agent's standard input and output.
//!
//! ```text
//!   length of the rest u32 | kind u8 | rank u32 | bytes
//! ```
//!
//! A frame is about the agent's own host, or for it and those behind it; one of another host carries that
//! host's number and frame ([`Message::Of`]).
//!
//! Little-endian. The agent begins with [`PREAMBLE`]: output of the remote shell before it is skipped. The
//! channel is as trustworthy as its carrier (ssh, or this host); lengths are bounded nevertheless.

use crate::spec::Order;
use crate::status::Status;
use crate::why::report::HostReport;

/// The agent's first bytes.
pub(crate) const PREAMBLE: &[u8] = b"\nAYATORI AGENT 4\n";
/// What a remote shell may print before, in bytes.
pub(crate) const NOISE_BYTES_MAX: usize = 64 << 10;
/// Longest frame, in bytes: an environment and a command line (`ARG_MAX` is 2 MiB; as JSON numbers four times
/// that).
const FRAME_BYTES_MAX: usize = 16 << 20;
const HEAD_BYTES: usize = 9;
/// Bytes of output or PMI traffic in a frame.
pub(crate) const CHUNK_BYTES: usize = 32 << 10;

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the agent, first: start these ranks.
    Start(Box<Order>),
    /// Both ways: PMI traffic of a rank.
    Pmi(usize, Vec<u8>),
    /// To the agent: a signal for all ranks.
    Signal(i32),
    /// To the agent: standard input of rank 0; none: its end.
    Stdin(Vec<u8>),
    /// From the agent: this many bytes of it were taken, or are no longer wanted.
    StdinTaken(usize),
    /// Both ways: I live.
    Alive,
    /// From the agent: a rank runs as this process, on these CPUs.
    Started(usize, i32, String),
    /// From the agent: the ranks cannot be started; exit code and words.
    Failed(u8, String),
    /// From the agent: what a rank has printed.
    Out(usize, Vec<u8>),
    /// From the agent: what a rank has said on standard error.
    Err(usize, Vec<u8>),
    /// From the agent: a rank has closed its PMI connection.
    PmiClosed(usize),
    /// From the agent: a rank has ended, and all it printed was sent before.
    Ended(usize, Status),
    /// To the agent: look what the ranks do, under this number.
    Ask(u32),
    /// From the agent: what they do.
    Report(u32, Box<HostReport>),
    /// To the agent: standard output (or, `true`, standard error) has no reader any more.
    Unread(bool),
    /// To the agent: all ranks of the job have ended (`true`: before their time). Take the last of their
    /// output and end what they have left behind.
    Finish(bool),
    /// From the agent: that is done.
    Finished,
    /// Both ways: this message is of, or for, the host of this number, which is behind the agent's.
    Of(usize, Box<Message>),
    /// From the agent, of a host behind it: that host is lost.
    Lost(String),
}

/// Bytes that are no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl Message {
    /// Appends the frame.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut put = |kind: u8, rank: usize, bytes: &[u8]| {
            out.extend_from_slice(&((bytes.len() + HEAD_BYTES - 4) as u32).to_le_bytes());
            out.push(kind);
            out.extend_from_slice(&(rank as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        match self {
            Message::Start(order) => put(1, 0, &serde_json::to_vec(order).unwrap_or_default()),
            Message::Pmi(rank, bytes) => put(2, *rank, bytes),
            Message::Signal(signal) => put(3, 0, &signal.to_le_bytes()),
            Message::Stdin(bytes) => put(4, 0, bytes),
            Message::Alive => put(5, 0, &[]),
            Message::Started(rank, pid, cpus) => {
                put(6, *rank, &[&pid.to_le_bytes(), cpus.as_bytes()].concat())
            }
            Message::Failed(code, text) => put(7, usize::from(*code), text.as_bytes()),
            Message::Out(rank, bytes) => put(8, *rank, bytes),
            Message::Err(rank, bytes) => put(9, *rank, bytes),
            Message::PmiClosed(rank) => put(10, *rank, &[]),
            Message::Ended(rank, status) => {
                let (kind, value) = match *status {
                    Status::Exited(code) => (0u8, code),
                    Status::Killed { signal, is_core_dumped: false } => (1, signal),
                    Status::Killed { signal, is_core_dumped: true } => (2, signal),
                };
                put(11, *rank, &[&[kind][..], &value.to_le_bytes()].concat());
            }
            Message::Ask(number) => put(12, *number as usize, &[]),
            Message::StdinTaken(count) => put(14, *count, &[]),
            Message::Unread(is_err) => put(15, usize::from(*is_err), &[]),
            Message::Finish(is_early) => put(16, usize::from(*is_early), &[]),
            Message::Finished => put(17, 0, &[]),
            Message::Report(number, report) => put(13, *number as usize, &fitting(report)),
            Message::Of(host, message) => {
                let mut frame = Vec::new();
                message.emit(&mut frame);
                put(18, *host, &frame);
            }
            Message::Lost(why) => put(19, 0, why.as_bytes()),
        }
        debug_assert!(out.len() - start <= FRAME_BYTES_MAX + 4);
    }

    /// Takes the first whole frame off the front of `bytes`: its meaning and its length. `None`: there is no
    /// whole one.
    pub(crate) fn take(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if !(HEAD_BYTES - 4..=FRAME_BYTES_MAX).contains(&length) {
            return Err(Malformed("a frame of no possible length"));
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let (head, body) = frame.split_at(HEAD_BYTES - 4);
        let rank = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let number =
            |bytes: &[u8]| bytes.try_into().map(i32::from_le_bytes).map_err(|_| Malformed("no number"));
        let message = match head[0] {
            1 => {
                let order = serde_json::from_slice(body).map_err(|_| Malformed("an order that is none"))?;
                Message::Start(Box::new(order))
            }
            2 => Message::Pmi(rank, body.to_vec()),
            3 => Message::Signal(number(body)?),
            4 => Message::Stdin(body.to_vec()),
            5 => Message::Alive,
            6 => {
                let (pid, cpus) = body.split_at_checked(4).ok_or(Malformed("a start without a process"))?;
                Message::Started(rank, number(pid)?, String::from_utf8_lossy(cpus).into_owned())
            }
            7 => Message::Failed(u8::try_from(rank).unwrap_or(1), String::from_utf8_lossy(body).into_owned()),
            8 => Message::Out(rank, body.to_vec()),
            9 => Message::Err(rank, body.to_vec()),
            10 => Message::PmiClosed(rank),
            11 => {
                let (kind, value) = body.split_first().ok_or(Malformed("an end without a status"))?;
                let value = number(value)?;
                Message::Ended(
                    rank,
                    match kind {
                        0 => Status::Exited(value),
                        1 => Status::Killed { signal: value, is_core_dumped: false },
                        2 => Status::Killed { signal: value, is_core_dumped: true },
                        _ => return Err(Malformed("an end of an unknown kind")),
                    },
                )
            }
            12 => Message::Ask(rank as u32),
            13 => {
                let report = serde_json::from_slice(body).map_err(|_| Malformed("a report that is none"))?;
                Message::Report(rank as u32, Box::new(report))
            }
            14 => Message::StdinTaken(rank),
            15 => Message::Unread(rank != 0),
            16 => Message::Finish(rank != 0),
            17 => Message::Finished,
            18 => Message::Of(rank, Box::new(whole(body)?)),
            19 => Message::Lost(String::from_utf8_lossy(body).into_owned()),
            _ => return Err(Malformed("a frame of an unknown kind")),
        };
        Ok(Some((message, length + 4)))
    }
}

/// The one frame in `bytes`. None of another host again: an agent passes on what it gets with the number.
fn whole(bytes: &[u8]) -> Result<Message, Malformed> {
    // Looked at first, or frames in frames would be taken apart one in another.
    if bytes.get(4) == Some(&18) {
        return Err(Malformed("a host behind a host"));
    }
    match Message::take(bytes)? {
        Some((message, length)) if length == bytes.len() => Ok(message),
        _ => Err(Malformed("not one frame of another host")),
    }
}

/// A report as bytes that fit a frame: if it is too long, the ranks' own reports are left out.
fn fitting(report: &HostReport) -> Vec<u8> {
    let whole = serde_json::to_vec(report).unwrap_or_default();
    if whole.len() < FRAME_BYTES_MAX - 2 * HEAD_BYTES {
        return whole;
    }
    let mut short = report.clone();
    short.ranks.iter_mut().for_each(|rank| rank.answer = None);
    short.problem = Some("the reports of its ranks are too long to pass on".to_owned());
    serde_json::to_vec(&short).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Binding, Program, Reach};
    use crate::tree::Branch;

    fn messages() -> Vec<Message> {
        let program = Program { name: "p".into(), args: vec!["a b".into()], env: vec![], wdir: None };
        let order = Order {
            job: "j".into(),
            host: 1,
            branches: vec![Branch::leaf(2, "n2".into(), vec![(4, 0)])],
            reach: Reach { agent: vec!["ssh".into()], program: "/p".into(), from: Some("n1".into()) },
            world_count: 6,
            ranks: vec![(2, 0), (3, 1)],
            programs: vec![program],
            environment: vec![("A".into(), "B\n".into())],
            directory: "/tmp".into(),
            binding: Some(Binding::None),
            is_spawned: true,
            is_input_forwarded: true,
        };
        vec![
            Message::Start(Box::new(order)),
            Message::Pmi(3, b"cmd=x\n".to_vec()),
            Message::Signal(15),
            Message::Stdin(vec![]),
            Message::StdinTaken(30_000),
            Message::Alive,
            Message::Started(1, 77, "0-3".into()),
            Message::Failed(127, "not found".into()),
            Message::Out(1, vec![0, 255]),
            Message::Err(0, vec![1; 100]),
            Message::PmiClosed(9),
            Message::Ended(1, Status::Exited(-1)),
            Message::Ended(1, Status::Killed { signal: 9, is_core_dumped: true }),
            Message::Ask(7),
            Message::Unread(true),
            Message::Finish(false),
            Message::Finished,
            Message::Of(2, Box::new(Message::Pmi(4, b"cmd=y\n".to_vec()))),
            Message::Of(2, Box::new(Message::Lost("silent".into()))),
            Message::Report(7, Box::new(HostReport { host: "a".into(), ..HostReport::default() })),
        ]
    }

    #[test]
    fn every_message_survives_the_wire_and_cut_short_is_not_whole() {
        for message in messages() {
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(Message::take(&bytes[..cut]), Ok(None), "{message:?}");
            }
            let length = bytes.len();
            bytes.push(7);
            assert_eq!(Message::take(&bytes), Ok(Some((message, length))));
        }
    }

    #[test]
    fn a_frame_of_another_host_holds_exactly_one_frame() {
        let frame = |message: &Message| {
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            bytes
        };
        let of = |inner: &[u8]| {
            let length = (inner.len() + HEAD_BYTES - 4) as u32;
            [&length.to_le_bytes()[..], &[18, 2, 0, 0, 0], inner].concat()
        };
        let alive = frame(&Message::Alive);
        assert!(Message::take(&of(&alive)).is_ok());
        for bad in [&[][..], &alive[..8], &[&alive[..], &alive[..]].concat(), &of(&alive)] {
            assert!(Message::take(&of(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        for bytes in [&[0xff; 20][..], &[0; 20], b"Welcome to node7, unauthorised use"] {
            assert!(Message::take(bytes).is_err());
        }
        for kind in 0..=255u8 {
            for length in 0u8..8 {
                let mut bytes = vec![length + 5, 0, 0, 0, kind, 0, 0, 0, 0];
                bytes.resize(9 + usize::from(length), 0x7b);
                let _ = Message::take(&bytes);
            }
        }
    }
}
