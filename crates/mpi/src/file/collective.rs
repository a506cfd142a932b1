//! Access by all processes at once (MPI-5.0 §14.4.5): two-phase.
//!
//! Where the processes' pieces are small and lie between each other's, some of them, the *aggregators*, read
//! and write for all. The range of the file that all pieces together reach over is divided among them; each
//! goes through its part by windows of `cb_buffer_size` bytes, and in each round the others send it the
//! pieces that lie in its window:
//!
//! ```text
//!   write:  each process    list of pieces and their data  ──►  aggregator: put together, one write
//!   read:   each process    list of pieces                 ──►  aggregator: one read
//!                           data                           ◄──
//! ```
//!
//! If processes write to the same place, the data of the highest rank stays, in all windows alike. If two
//! phases gain nothing, each process accesses the file on its own; all decide that from the same numbers.

use super::File;
use super::access::{Access, Cursor, get, put, zero};
use super::hints::Switch;
use super::party::{nonsense, words_of};
use super::sys::{Errno, Lock, Scratch, Way};
use crate::fault::{Fault, class_of_errno};
use ayatori_core::buffer::{Buffer, Piece};
use std::ffi::c_int;

/// Aggregators of a host, where no hint says how many there are in all.
const AGGREGATORS_PER_HOST: usize = 4;
/// If pieces are at least this long on average, their owners write and read them.
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// Parts of aggregators begin at multiples of this.
const ALIGNMENT: u64 = 4096;
/// Longest hole between pieces that an aggregator reads and writes, in bytes.
const HOLE_BYTES_MAX: u64 = 4096;
/// Pieces that are looked at.
const SAMPLE_COUNT: usize = 64;

/// A process' description of its access.
#[derive(Clone, Copy, Debug)]
struct Told {
    class: u64,
    range: (u64, u64),
    bytes: u64,
    piece_bytes: u64,
    is_plain: bool,
}

impl Told {
    fn of(access: &Access) -> Result<Self, Errno> {
        let bytes = access.data.len();
        let range = access.view.range(access.from, bytes)?;
        let pieces = range.map(|_| access.view.pieces(access.from, bytes).take(SAMPLE_COUNT));
        let (count, sum) = pieces.into_iter().flatten().fold((0, 0), |(n, sum), (_, len)| (n + 1, sum + len));
        Ok(Self {
            class: 0,
            range: range.unwrap_or((0, 0)),
            bytes: range.map_or(0, |_| bytes as u64),
            piece_bytes: (sum as u64).checked_div(count).unwrap_or(0),
            is_plain: access.view.is_ascending && !access.manner.is_atomic,
        })
    }

    fn words(self) -> [u64; 6] {
        let (low, high) = self.range;
        [self.class, low, high, self.bytes, self.piece_bytes, u64::from(self.is_plain)]
    }

    fn from_words([class, low, high, bytes, piece_bytes, is_plain]: [u64; 6]) -> Self {
        Self { class, range: (low, high), bytes, piece_bytes, is_plain: is_plain != 0 }
    }
}

/// Whether some read and write for all.
fn is_worth_it(all: &[Told], switch: Switch) -> bool {
    if all.len() < 2 || switch == Switch::Disable || all.iter().any(|told| told.class != 0 || !told.is_plain)
    {
        return false;
    }
    let mut with_data: Vec<_> = all.iter().filter(|told| told.bytes > 0).collect();
    if switch == Switch::Enable {
        return !with_data.is_empty();
    }
    with_data.sort_by_key(|told| told.range);
    let is_mixed = with_data.windows(2).any(|two| two[1].range.0 < two[0].range.1);
    is_mixed && with_data.iter().any(|told| told.piece_bytes < PIECE_BYTES_MAX)
}

/// Which ranks read and write for all: some of each host, `wanted` of them if that is not 0.
fn aggregators(hosts: &[u64], wanted: usize) -> Vec<usize> {
    let mut by_host: Vec<(u64, Vec<usize>)> = Vec::new();
    for (rank, host) in hosts.iter().enumerate() {
        match by_host.iter_mut().find(|(known, _)| known == host) {
            Some((_, ranks)) => ranks.push(rank),
            None => by_host.push((*host, vec![rank])),
        }
    }
    let per_host = if wanted == 0 { AGGREGATORS_PER_HOST } else { hosts.len() };
    let rounds = (0..per_host).flat_map(|at| by_host.iter().filter_map(move |(_, ranks)| ranks.get(at)));
    rounds.copied().take(if wanted == 0 { hosts.len() } else { wanted }).collect()
}

/// How the file is divided.
struct Division {
    /// The ranks that read and write.
    ranks: Vec<usize>,
    /// The range that all pieces span.
    range: (u64, u64),
    /// Bytes of each one's part.
    part_bytes: u64,
    /// Bytes of a window.
    window_bytes: u64,
}

impl Division {
    fn new(all: &[Told], ranks: Vec<usize>, buffer_bytes: u64) -> Self {
        let with_data = || all.iter().filter(|told| told.bytes > 0);
        let low = with_data().map(|told| told.range.0).min().unwrap_or(0);
        let high = with_data().map(|told| told.range.1).max().unwrap_or(0);
        let low = low - low % ALIGNMENT;
        let part_bytes = (high - low).div_ceil(ranks.len() as u64).next_multiple_of(ALIGNMENT);
        Self { ranks, range: (low, high), part_bytes, window_bytes: buffer_bytes.clamp(1, part_bytes.max(1)) }
    }

    fn rounds_count(&self) -> u64 {
        self.part_bytes.div_ceil(self.window_bytes)
    }

    /// The window of an aggregator in a round.
    fn window(&self, aggregator: usize, round: u64) -> (u64, u64) {
        let (low, high) = self.range;
        let begin = low + aggregator as u64 * self.part_bytes;
        let end = (begin + self.part_bytes).min(high);
        let from = (begin + round * self.window_bytes).min(end);
        (from, (from + self.window_bytes).min(end))
    }
}

/// A piece in a window: its place in the file, its length, and where its data is.
type Listed = (u64, usize, usize);

/// An access under way: where it is in each aggregator's part.
struct Senders<'a, I> {
    access: &'a Access,
    /// By aggregator: what is left, and where in the access that begins.
    cursors: Vec<(Cursor<I>, usize)>,
}

impl<I: Iterator<Item = (u64, usize)>> Senders<'_, I> {
    /// The pieces in a window, by their places in the access.
    fn pieces(&mut self, aggregator: usize, end: u64) -> Vec<Listed> {
        let (cursor, base) = &mut self.cursors[aggregator];
        let mut list = Vec::new();
        while let Some((at, len, offset)) = cursor.take_before(end) {
            list.push((at, len, *base + offset));
        }
        list
    }

    /// A message: how many pieces, where they are, and for writes their data.
    fn put_message(&self, list: &[Listed], way: Way, message: &mut Scratch) {
        if list.is_empty() {
            return message.resize(0);
        }
        let data_bytes = if way == Way::Write { bytes_of(list) } else { 0 };
        let head_bytes = 8 + 16 * list.len();
        message.resize(head_bytes + data_bytes);
        let memory = message.buffer();
        let mut head = Vec::with_capacity(head_bytes);
        head.extend((list.len() as u64).to_le_bytes());
        for (at, len, _) in list {
            head.extend(at.to_le_bytes());
            head.extend((*len as u64).to_le_bytes());
        }
        memory.scatter(0, Piece::Bytes(&head));
        if way == Way::Write {
            let mut to = head_bytes;
            for (_, len, offset) in list {
                get(&self.access.data, *offset, memory.part(to, *len));
                to += len;
            }
        }
    }
}

fn bytes_of(list: &[Listed]) -> usize {
    list.iter().map(|(_, len, _)| len).sum()
}

/// The pieces of a message, checked: their data follows in the message, if it is a write.
fn parse(message: &[u8], window: (u64, u64), way: Way) -> Result<Vec<Listed>, Fault> {
    if message.is_empty() {
        return Ok(Vec::new());
    }
    let count = message.get(..8).map_or(0, |head| words_of(head)[0]);
    let head_bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(16)?.checked_add(8));
    let head = head_bytes.and_then(|len| message.get(8..len)).ok_or_else(nonsense)?;
    let mut data_at = 8 + head.len();
    let mut list = Vec::with_capacity(head.len() / 16);
    for piece in words_of(head).chunks_exact(2) {
        let (at, len) = (piece[0], piece[1]);
        if at < window.0 || at > window.1 || len > window.1 - at {
            return Err(nonsense());
        }
        list.push((at, len as usize, data_at));
        data_at += len as usize;
    }
    if way == Way::Write && data_at != message.len() {
        return Err(nonsense());
    }
    Ok(list)
}

/// The ranges that pieces cover, in order.
fn runs(lists: &[Vec<Listed>]) -> Vec<(u64, u64)> {
    let mut pieces: Vec<_> = lists.iter().flatten().map(|(at, len, _)| (*at, at + *len as u64)).collect();
    // Each list is in order already.
    pieces.sort();
    joined(&pieces, 0)
}

/// The same ranges, in order, with those joined that have at most `gap_max` bytes between them.
fn joined(ranges: &[(u64, u64)], gap_max: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in ranges.iter().copied() {
        match runs.last_mut() {
            Some(last) if begin <= last.1.saturating_add(gap_max) => last.1 = last.1.max(end),
            _ => runs.push((begin, end)),
        }
    }
    runs
}

/// An aggregator's work on one window.
struct Window<'a> {
    file: &'a File,
    sieves: bool,
    /// Memory of the window, at `begin` of the file.
    memory: Buffer,
    begin: u64,
}

impl Window<'_> {
    fn part(&self, (from, to): (u64, u64)) -> Buffer {
        self.memory.part((from - self.begin) as usize, (to - from) as usize)
    }

    /// Writes the pieces of all messages.
    fn write(&self, messages: &mut [Scratch], lists: &[Vec<Listed>]) -> Result<(), Errno> {
        let store = &self.file.store;
        store.touch();
        let closely = runs(lists);
        let joined = joined(&closely, HOLE_BYTES_MAX);
        // Holes are written only if no other process can write them meanwhile.
        let with_holes = self.sieves && store.is_readable && joined.len() < closely.len();
        let runs = if with_holes { joined } else { closely };
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(()) };
        let all = (first.0, last.1);
        let _locked = match (self.sieves, with_holes) {
            (false, _) => None,
            (true, false) => Some(store.lock(all, Lock::Shared)?),
            (true, true) => Some(store.lock(all, Lock::Exclusive)?),
        };
        if with_holes {
            for run in &runs {
                let part = self.part(*run);
                let got = store.fd.transfer(Way::Read, run.0, part)?;
                zero(part.part(got, part.len() - got));
            }
        }
        for (message, list) in messages.iter_mut().zip(lists) {
            let from = message.buffer();
            for (at, len, data_at) in list {
                let to = self.part((*at, at + *len as u64));
                to.copy_from(0, &from, *data_at, *len);
            }
        }
        runs.iter().try_for_each(|run| store.fd.transfer(Way::Write, run.0, self.part(*run)).map(drop))
    }

    /// Reads the pieces of all lists; where the file ends, if that is before the last.
    fn read(&self, lists: &[Vec<Listed>]) -> Result<u64, Errno> {
        for run in joined(&runs(lists), HOLE_BYTES_MAX) {
            let part = self.part(run);
            let got = self.file.store.fd.transfer(Way::Read, run.0, part)?;
            if got < part.len() {
                return Ok(run.0 + got as u64);
            }
        }
        Ok(u64::MAX)
    }

    /// Writes the answer to a process: an error, the end of the file, and the data of its pieces.
    fn put_answer(&self, list: &[Listed], outcome: Result<u64, Errno>, answer: &mut Scratch) {
        if list.is_empty() {
            return answer.resize(0);
        }
        let (errno, end) = match outcome {
            Ok(end) => (0, end),
            Err(Errno(errno)) => (errno as u64, 0),
        };
        answer.resize(16 + bytes_of(list));
        let memory = answer.buffer();
        memory.scatter(0, Piece::Bytes(&errno.to_le_bytes()));
        memory.scatter(8, Piece::Bytes(&end.to_le_bytes()));
        let mut to = 16;
        for (at, len, _) in list {
            memory.copy_from(to, &self.part((*at, at + *len as u64)), 0, *len);
            to += len;
        }
    }
}

/// Does an access that all processes do. `None`: each is to go on its own. A process whose arguments are
/// wrong takes part in the decision only.
pub(super) fn run(file: &File, way: Way, access: Result<&Access, &Fault>) -> Result<Option<usize>, Fault> {
    let failed =
        |class: c_int| Told { class: class as u64, range: (0, 0), bytes: 0, piece_bytes: 0, is_plain: false };
    let own = match access {
        Ok(access) => Told::of(access).unwrap_or_else(|Errno(errno)| failed(class_of_errno(errno))),
        Err(fault) => failed(fault.code()),
    };
    let all: Vec<_> = file.party.tell_all(own.words())?.into_iter().map(Told::from_words).collect();
    let (switch, wanted, buffer_bytes, sieves) = {
        let state = file.state();
        let hints = &state.hints;
        let switch = if way == Way::Read { hints.cb_read } else { hints.cb_write };
        (switch, hints.cb_nodes as usize, hints.cb_buffer_bytes, state.sieves)
    };
    let Ok(access) = access else { return Ok(None) };
    if !is_worth_it(&all, switch) {
        return Ok(None);
    }
    let division = Division::new(&all, aggregators(&file.hosts, wanted), buffer_bytes);
    two_phase(file, access, &division, sieves).map(Some)
}

fn two_phase(file: &File, access: &Access, division: &Division, sieves: bool) -> Result<usize, Fault> {
    let (party, len) = (&file.party, access.data.len());
    let own_part = division.ranks.iter().position(|rank| *rank == party.rank as usize);
    let cursors = (0..division.ranks.len()).map(|aggregator| {
        let (begin, _) = division.window(aggregator, 0);
        let from = access.view.bytes_before(begin).clamp(access.from, access.from + len as u64);
        let base = (from - access.from) as usize;
        (Cursor::new(access.view.pieces(from, len - base)), base)
    });
    let mut senders = Senders { access, cursors: cursors.collect() };
    let mut memory = Scratch::new(own_part.map_or(0, |_| division.window_bytes as usize));
    let none = || (0..party.size).map(|_| Scratch::default()).collect::<Vec<_>>();
    let (mut sent, mut received) = (none(), none());
    let (mut failed, mut total) = (Ok(()), len);
    for round in 0..division.rounds_count() {
        let mut lists = vec![Vec::new(); party.size as usize];
        for (aggregator, rank) in division.ranks.iter().enumerate() {
            lists[*rank] = senders.pieces(aggregator, division.window(aggregator, round).1);
        }
        let messages = lists.iter().zip(&mut sent);
        messages.for_each(|(list, message)| senders.put_message(list, access.way, message));
        let lengths: Vec<_> = sent.iter().map(|message| message.bytes().len() as u64).collect();
        let lengths = party.swap(&lengths)?;
        // A piece has a byte at least, and a process has no byte twice.
        if lengths.iter().any(|len| *len > 8 + 17 * division.window_bytes) {
            return Err(nonsense());
        }
        received.iter_mut().zip(lengths).for_each(|(message, len)| message.resize(len as usize));
        party.exchange(&mut sent, &mut received)?;
        let window = own_part.map_or((0, 0), |own| division.window(own, round));
        let parsed = received.iter().map(|message| parse(message.bytes(), window, access.way));
        let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        let window = Window { file, sieves, memory: memory.buffer(), begin: window.0 };
        if access.way == Way::Write {
            failed = failed.and_then(|()| window.write(&mut received, &parsed));
            continue;
        }
        let outcome = window.read(&parsed);
        let answers = parsed.iter().zip(&mut sent);
        answers.for_each(|(list, answer)| window.put_answer(list, outcome, answer));
        for (list, answer) in lists.iter().zip(&mut received) {
            answer.resize(if list.is_empty() { 0 } else { 16 + bytes_of(list) });
        }
        party.exchange(&mut sent, &mut received)?;
        for (answer, list) in received.iter_mut().zip(&lists).filter(|(_, list)| !list.is_empty()) {
            match take_answer(access, answer, list) {
                Ok(Some(end)) => total = total.min(end),
                Ok(None) => {}
                Err(errno) => failed = Err(errno),
            }
        }
    }
    let own = failed.err().map_or(0, |Errno(errno)| errno as u64);
    if access.way == Way::Read {
        return failed.map(|()| total).map_err(file.failed("read"));
    }
    match party.tell_all([own])?.iter().find(|[errno]| *errno != 0) {
        None => Ok(total),
        Some([errno]) => Err(file.failed("write to")(Errno(*errno as c_int))),
    }
}

/// Puts what an aggregator has read into the elements; where in the access the file ended, if it did.
fn take_answer(access: &Access, answer: &mut Scratch, list: &[Listed]) -> Result<Option<usize>, Errno> {
    let head = words_of(&answer.bytes()[..16]);
    if head[0] != 0 {
        return Err(Errno(head[0] as c_int));
    }
    let (file_end, memory) = (head[1], answer.buffer());
    let mut from = 16;
    for (at, len, offset) in list {
        let there = file_end.saturating_sub(*at).min(*len as u64) as usize;
        put(&access.data, *offset, memory.part(from, there));
        if there < *len {
            return Ok(Some(offset + there));
        }
        from += len;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(low: u64, high: u64, bytes: u64) -> Told {
        Told { class: 0, range: (low, high), bytes, piece_bytes: 100, is_plain: true }
    }

    #[test]
    fn aggregators_are_spread_over_hosts() {
        assert_eq!(aggregators(&[0, 0, 0, 0, 0, 0], 0), [0, 1, 2, 3]);
        assert_eq!(aggregators(&[0, 0, 2, 0, 2, 5], 0), [0, 2, 5, 1, 4, 3]);
        assert_eq!(aggregators(&[0, 0, 2, 0, 2, 5], 2), [0, 2]);
        assert_eq!(aggregators(&[0, 0], 9), [0, 1]);
    }

    #[test]
    fn windows_cover_the_range_once_and_in_order() {
        for (low, high, aggregators, buffer) in
            [(0, 1, 1, 1), (5000, 70_001, 3, 4096), (4095, 1 << 20, 4, 1000), (0, 10, 5, 1 << 20)]
        {
            let all = [told(low, high, 1), told(0, 0, 0)];
            let division = Division::new(&all, (0..aggregators).collect(), buffer);
            let mut at = low - low % ALIGNMENT;
            for aggregator in 0..aggregators {
                for round in 0..division.rounds_count() {
                    let (from, to) = division.window(aggregator, round);
                    assert!(from == to || from == at, "{from} to {to} after {at}");
                    assert!(to - from <= buffer);
                    at = at.max(to);
                }
            }
            assert_eq!(at, high);
        }
    }

    #[test]
    fn two_phases_are_for_small_pieces_of_several_that_mix() {
        let mixed = [told(0, 1000, 400), told(100, 1100, 400)];
        let apart = [told(0, 100, 100), told(100, 200, 100)];
        assert!(is_worth_it(&mixed, Switch::Automatic) && !is_worth_it(&mixed, Switch::Disable));
        assert!(!is_worth_it(&apart, Switch::Automatic) && is_worth_it(&apart, Switch::Enable));
        assert!(!is_worth_it(&mixed[..1], Switch::Enable));
        let atomic = Told { is_plain: false, ..mixed[0] };
        assert!(!is_worth_it(&[mixed[1], atomic], Switch::Enable));
        let large = Told { piece_bytes: PIECE_BYTES_MAX, ..mixed[0] };
        assert!(!is_worth_it(&[large, Told { range: (5, 900), ..large }], Switch::Automatic));
    }

    #[test]
    fn lists_that_leave_the_window_or_the_message_are_refused() {
        let message = |words: &[u64], data: usize| {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.resize(bytes.len() + data, 7);
            bytes
        };
        let good = message(&[2, 100, 3, 110, 4], 7);
        assert_eq!(parse(&good, (100, 114), Way::Write).unwrap(), [(100, 3, 40), (110, 4, 43)]);
        assert_eq!(parse(&[], (0, 0), Way::Write).unwrap(), []);
        for bad in [
            good[..good.len() - 1].to_vec(),
            message(&[2, 100, 3, 111, 4], 7),
            message(&[1, 99, 3], 3),
            message(&[1, 100, u64::MAX], 0),
            message(&[u64::MAX, 100, 3], 3),
            message(&[1, u64::MAX, 1], 1),
            vec![1, 2, 3],
        ] {
            assert!(parse(&bad, (100, 114), Way::Write).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn runs_join_what_touches_or_overlaps() {
        let lists = [vec![(10, 5, 0), (30, 2, 0)], vec![(15, 3, 0), (12, 2, 0)], vec![]];
        assert_eq!(runs(&lists), [(10, 18), (30, 32)]);
        assert_eq!(joined(&runs(&lists), 12), [(10, 32)]);
        assert_eq!(joined(&runs(&lists), 11), runs(&lists));
    }
}
