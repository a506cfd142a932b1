//! Output of ranks, joined line by line.
//!
//! Bytes of a rank's stream gather until a line is whole and go out as one piece, so lines of different ranks
//! never mix. An unfinished line (a prompt, a progress bar) goes out when nothing follows for 100 ms; if
//! another stream speaks then, a newline comes first. Nothing here blocks: what the outside does not take yet
//! waits in a buffer, and while that is full ([`Outputs::is_congested`]) the ranks are not read, so they wait
//! in turn.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::IsTerminal;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// An unfinished line goes out when it is this old.
const PARTIAL_AGE_MAX: Duration = Duration::from_millis(100);
/// A line longer than this goes out in pieces.
const LINE_MAX_BYTES: usize = 1 << 20;
/// More than this waiting for the outside: the ranks are not read.
const BACKLOG_MAX_BYTES: usize = 256 << 10;
/// A pipe that polls writable takes this much without blocking (PIPE_BUF).
const PIPE_CHUNK_BYTES: usize = 4096;

/// Which of a rank's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Out,
    Err,
}

/// One stream of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamId {
    pub(crate) rank: usize,
    pub(crate) which: Which,
}

impl StreamId {
    fn index(self) -> usize {
        self.rank * 2 + usize::from(self.which == Which::Err)
    }
}

#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    since: Option<Instant>,
}

/// Our own standard output or error.
#[derive(Debug)]
struct Sink {
    fd: BorrowedFd<'static>,
    backlog: Vec<u8>,
    written: usize,
    /// Writing never blocks: a file.
    is_file: bool,
    /// The stream has no reader any more.
    is_broken: bool,
    /// The stream (by index) whose unfinished line was written last.
    open_line: Option<usize>,
}

/// Where everything goes.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// One or two: standard output and error are one where they are the same file.
    sinks: Vec<Sink>,
    partials: Vec<Partial>,
    is_tagged: bool,
    /// When the next unfinished line is due.
    deadline: Option<Instant>,
}

/// The launcher's own messages come from no rank.
const NO_STREAM: usize = usize::MAX;

impl Outputs {
    /// For `ranks_count` ranks, each line tagged with its rank or not.
    pub(crate) fn new(ranks_count: usize, is_tagged: bool) -> Self {
        let (out, err) = (sink(borrow_stdout()), sink(borrow_stderr()));
        let sinks = if is_same(out.fd, err.fd) { vec![out] } else { vec![out, err] };
        let partials = std::iter::repeat_with(Partial::default).take(ranks_count * 2).collect();
        Outputs { sinks, partials, is_tagged, deadline: None }
    }

    /// Takes what `stream` said.
    pub(crate) fn push(&mut self, stream: StreamId, bytes: &[u8], now: Instant) {
        let partial = &mut self.partials[stream.index()];
        let Some(end) = bytes.iter().rposition(|&b| b == b'\n').map(|at| at + 1) else {
            partial.bytes.extend_from_slice(bytes);
            partial.since = Some(now);
            if partial.bytes.len() > LINE_MAX_BYTES {
                self.flush_partial(stream.index());
            } else {
                self.deadline = self.deadline.or(Some(now + PARTIAL_AGE_MAX));
            }
            return;
        };
        let mut whole = std::mem::take(&mut partial.bytes);
        whole.extend_from_slice(&bytes[..end]);
        partial.bytes.extend_from_slice(&bytes[end..]);
        partial.since = (!partial.bytes.is_empty()).then_some(now);
        if partial.since.is_some() {
            self.deadline = self.deadline.or(Some(now + PARTIAL_AGE_MAX));
        }
        self.write(stream.index(), &whole);
    }

    /// `stream` says no more.
    pub(crate) fn end(&mut self, stream: StreamId) {
        self.flush_partial(stream.index());
    }

    /// A line of the launcher's own, to standard error.
    pub(crate) fn message(&mut self, text: &str) {
        let line = format!("ayatori: {text}\n");
        let sink = self.sinks.len() - 1;
        append(&mut self.sinks[sink], NO_STREAM, line.as_bytes(), None);
        self.flush();
    }

    /// When [`Outputs::handle_timeout`] wants to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// Writes unfinished lines that nothing has followed for a while.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.deadline = None;
        for index in 0..self.partials.len() {
            let Some(since) = self.partials[index].since else { continue };
            let which = if index % 2 == 1 { Which::Err } else { Which::Out };
            // While our own output is behind, the rest of the line may be in a pipe that we do not read.
            let is_behind = !self.sinks[self.sink_of(which)].backlog.is_empty();
            let due = if is_behind { now + PARTIAL_AGE_MAX } else { since + PARTIAL_AGE_MAX };
            if due <= now {
                self.flush_partial(index);
            } else {
                self.deadline = Some(self.deadline.map_or(due, |deadline| deadline.min(due)));
            }
        }
    }

    /// `which` is read again after a pause: unfinished lines get their time anew.
    pub(crate) fn resume(&mut self, which: Which, now: Instant) {
        let its = self.partials.iter_mut().skip(usize::from(which == Which::Err)).step_by(2);
        for partial in its {
            partial.since = partial.since.map(|_| now);
        }
    }

    /// Writes as much as the outside takes now.
    pub(crate) fn flush(&mut self) {
        self.sinks.iter_mut().for_each(flush);
    }

    /// The descriptors that must become writable before there is progress.
    pub(crate) fn blocked(&self) -> impl Iterator<Item = BorrowedFd<'static>> {
        self.sinks.iter().filter(|sink| sink.written < sink.backlog.len()).map(|sink| sink.fd)
    }

    /// Whether `which` is not to be read from ranks for now.
    pub(crate) fn is_congested(&self, which: Which) -> bool {
        let sink = &self.sinks[self.sink_of(which)];
        sink.backlog.len() - sink.written > BACKLOG_MAX_BYTES
    }

    /// Whether `which` has no reader any more: the ranks should learn it.
    pub(crate) fn is_broken(&self, which: Which) -> bool {
        self.sinks[self.sink_of(which)].is_broken
    }

    /// Whether all is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocked().next().is_none()
    }

    fn sink_of(&self, which: Which) -> usize {
        if which == Which::Out { 0 } else { self.sinks.len() - 1 }
    }

    fn flush_partial(&mut self, index: usize) {
        let partial = std::mem::take(&mut self.partials[index]);
        if !partial.bytes.is_empty() {
            self.write(index, &partial.bytes);
        }
    }

    fn write(&mut self, index: usize, bytes: &[u8]) {
        let which = if index % 2 == 1 { Which::Err } else { Which::Out };
        let tag = self.is_tagged.then(|| format!("[{}] ", index / 2));
        let sink = self.sink_of(which);
        append(&mut self.sinks[sink], index, bytes, tag.as_deref());
        flush(&mut self.sinks[sink]);
    }
}

/// Puts `bytes` of stream `index` behind what waits.
fn append(sink: &mut Sink, index: usize, bytes: &[u8], tag: Option<&str>) {
    if sink.is_broken {
        return;
    }
    let continues = sink.open_line == Some(index);
    if sink.open_line.is_some() && !continues {
        sink.backlog.push(b'\n');
    }
    match tag {
        None => sink.backlog.extend_from_slice(bytes),
        Some(tag) => {
            for (number, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
                if number > 0 || !continues {
                    sink.backlog.extend_from_slice(tag.as_bytes());
                }
                sink.backlog.extend_from_slice(line);
            }
        }
    }
    sink.open_line = (bytes.last() != Some(&b'\n')).then_some(index);
}

fn flush(sink: &mut Sink) {
    while sink.written < sink.backlog.len() {
        if !sink.is_file && !is_writable(sink.fd) {
            break;
        }
        let rest = &sink.backlog[sink.written..];
        let chunk = if sink.is_file { rest } else { &rest[..rest.len().min(PIPE_CHUNK_BYTES)] };
        match rustix::io::write(sink.fd, chunk) {
            Ok(count) => sink.written += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => break,
            Err(_) => {
                // EPIPE, ENOSPC, EIO: nothing more will go out this way.
                sink.is_broken = true;
                sink.written = sink.backlog.len();
            }
        }
    }
    if sink.written == sink.backlog.len() {
        sink.backlog.clear();
        sink.written = 0;
    } else if sink.written > BACKLOG_MAX_BYTES {
        sink.backlog.drain(..sink.written);
        sink.written = 0;
    }
}

fn is_writable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
}

fn sink(fd: BorrowedFd<'static>) -> Sink {
    let is_file = rustix::fs::fstat(fd).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile
    });
    Sink { fd, backlog: Vec::new(), written: 0, is_file, is_broken: false, open_line: None }
}

/// Two terminals are one: the user sees them so.
fn is_same(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    let same_file = match (rustix::fs::fstat(a), rustix::fs::fstat(b)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
        _ => false,
    };
    same_file || (a.is_terminal() && b.is_terminal())
}

fn borrow_stdout() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

fn borrow_stderr() -> BorrowedFd<'static> {
    rustix::stdio::stderr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Everything goes to a file in memory.
    fn outputs(is_tagged: bool) -> Outputs {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("output", flags).expect("a file");
        let file: &'static std::os::fd::OwnedFd = Box::leak(Box::new(file));
        let mut outputs = Outputs::new(2, is_tagged);
        outputs.sinks = vec![sink(file.as_fd())];
        outputs
    }

    /// Everything goes to a full pipe without a reader.
    fn blocked_outputs() -> Outputs {
        let (reader, writer) = rustix::pipe::pipe().expect("pipe");
        std::mem::forget(reader);
        let writer: &'static std::os::fd::OwnedFd = Box::leak(Box::new(writer));
        rustix::io::ioctl_fionbio(writer, true).expect("non-blocking");
        while rustix::io::write(writer, &[0; 4096]).is_ok() {}
        let mut outputs = outputs(false);
        outputs.sinks = vec![sink(writer.as_fd())];
        outputs
    }

    fn text(outputs: &Outputs) -> String {
        let mut bytes = vec![0; 10_000];
        let count = rustix::io::pread(outputs.sinks[0].fd, &mut bytes[..], 0).expect("read");
        String::from_utf8(bytes[..count].to_vec()).expect("text")
    }

    const A: StreamId = StreamId { rank: 0, which: Which::Out };
    const B: StreamId = StreamId { rank: 1, which: Which::Out };

    #[test]
    fn lines_of_two_ranks_never_mix() {
        let (mut outputs, now) = (outputs(false), Instant::now());
        outputs.push(A, b"one ", now);
        outputs.push(B, b"two\nthr", now);
        outputs.push(A, b"line\nnext", now);
        outputs.push(B, b"ee\n", now);
        outputs.end(A);
        outputs.end(B);
        assert_eq!(text(&outputs), "two\none line\nthree\nnext");
    }

    #[test]
    fn an_unfinished_line_is_shown_late_and_ended_before_another() {
        let (mut outputs, now) = (outputs(false), Instant::now());
        outputs.push(A, b"name? ", now);
        outputs.handle_timeout(now + Duration::from_millis(50));
        assert_eq!(text(&outputs), "");
        let due = outputs.poll_timeout().expect("a deadline");
        outputs.handle_timeout(due);
        assert_eq!(text(&outputs), "name? ");
        outputs.push(A, b"again? ", due);
        outputs.handle_timeout(due + PARTIAL_AGE_MAX);
        outputs.push(B, b"b\n", due);
        outputs.message("over");
        assert_eq!(text(&outputs), "name? again? \nb\nayatori: over\n");
    }

    #[test]
    fn tags_stand_before_every_line_once() {
        let (mut outputs, now) = (outputs(true), Instant::now());
        outputs.push(B, b"a\nb\nc", now);
        outputs.handle_timeout(now + PARTIAL_AGE_MAX);
        outputs.push(B, b"d\ne\n", now);
        assert_eq!(text(&outputs), "[1] a\n[1] b\n[1] cd\n[1] e\n");
    }

    #[test]
    fn a_slow_reader_makes_the_ranks_wait() {
        let (mut outputs, now) = (blocked_outputs(), Instant::now());
        let line = [b"x".repeat(9_999), b"\n".to_vec()].concat();
        let mut count = 0;
        while !outputs.is_congested(Which::Out) {
            outputs.push(A, &line, now);
            count += 1;
        }
        assert_eq!(count, BACKLOG_MAX_BYTES / line.len() + 1);
    }

    #[test]
    fn a_line_whose_rest_is_not_read_yet_is_not_torn() {
        let (mut outputs, now) = (blocked_outputs(), Instant::now());
        outputs.push(A, b"whole\nunfin", now);
        outputs.handle_timeout(now + 2 * PARTIAL_AGE_MAX);
        outputs.push(B, b"other\n", now);
        assert_eq!(outputs.sinks[0].backlog, b"whole\nother\n");
        assert!(outputs.poll_timeout().is_some());
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let (mut outputs, now) = (outputs(false), Instant::now());
        for _ in 0..20 {
            outputs.push(A, &vec![b'x'; 1 << 17], now);
        }
        assert!(outputs.partials[0].bytes.len() <= LINE_MAX_BYTES);
    }
}
