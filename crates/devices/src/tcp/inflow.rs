//! Input of one connection: frames found in the byte stream.
//!
//! A read takes as much as there is room for; packets are handed over in the buffer they were read into, and
//! only one that was cut off by the buffer's end is moved. If the payload of a long packet has not all
//! arrived, the front is offered first. A caller that knows the payload's destination has it read there
//! straight from the socket, together with the beginning of the next frame, so that a stream of fragments
//! costs one system call each and almost no copies.
//!
//! ```text
//!                 front of a long packet          fetch: first part
//!   frames whole ───────────────────────► Offered ─────────────────► Fetching ──► all has come, or damaged ─┐
//!        ▲                                   │ nobody fetches           │ nobody fetches any more             │
//!        │                                   ▼                          ▼                                     │
//!        └──────────────────────────── Declined: whole            Skipping: lost ─────────────────────────────┴──►
//! ```

use super::frame::{BODY_BYTES_MAX, Damaged, HEAD_BYTES, Head, Kind, PAYLOAD_BYTES_MAX};
use super::sum::RunningSum;
use ayatori_core::device::{Fetched, HEADER_BYTES_MAX};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::io::IoSliceMut;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// First size of the buffer; grows to the most when a peer sends that much.
pub(super) const BUFFER_BYTES_MIN: usize = 16 << 10;
/// An ordinary packet with its head.
const FRAME_BYTES: usize = HEAD_BYTES + PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX;
/// A whole packet fits. A longer than ordinary packet comes here only if the caller does not fetch its
/// payload.
const BUFFER_BYTES_MAX: usize = HEAD_BYTES + BODY_BYTES_MAX + FRAME_BYTES;
/// Read at a time, at most; and while long payloads are being fetched, so that little of them is copied.
const READ_BYTES: usize = PAYLOAD_BYTES_MAX;
const READ_BYTES_FETCHING: usize = BUFFER_BYTES_MIN;
/// Shortest payload whose front is offered: above it the saving exceeds the cost. Two CPUs of an EPYC (Zen 3)
/// take 20.5 µs one way for 32 KiB that are copied and 21.5 for as many that are not, for 64 KiB 37 and 35.
const LONG_BYTES: usize = 36 << 10;
/// How long the device does not query the socket (`FIONREAD`) again after it has found no data of a payload,
/// its `EAGAIN`. Each query takes the socket lock from the kernel's receive path. Together with packets of 1
/// MiB, this pause made messages of 1 MiB over a veth pair 7 % (one hour) and 14 % (another) quicker.
const RETRY_AFTER_EAGAIN: Duration = Duration::from_micros(8);
/// Read with a payload: the next frame's head and header, and the short frames before it.
const BEHIND_BYTES: usize = 2 << 10;

/// The next item.
pub(super) enum Next {
    /// A packet, here in the buffer.
    Packet(Range<usize>),
    /// The front of a long one: its header, and how long its payload is.
    Front(Range<usize>, usize),
    /// The peer takes leave.
    Goodbye,
    /// The rest of an unwanted packet, which is still to be read.
    Skipping,
    /// No whole frame.
    Nothing,
}

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read {
    /// Something, and there may be more.
    More,
    /// Something, and that was all.
    Drained,
    /// Nothing at the moment.
    Nothing,
    /// The end.
    Ended,
}

/// A payload on its way to its place.
struct Fetching {
    head: Head,
    header: [u8; HEADER_BYTES_MAX],
    placed_bytes: usize,
    sum: RunningSum,
    step: Step,
    /// When the last query found no data.
    dry_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// No data to read, as far as known.
    Dry,
    /// Data has arrived: the front is to be reported.
    Wet,
    /// The front has been reported.
    Offered,
}

/// The long packet that is at the front.
enum Long {
    None,
    Offered(Head),
    Declined,
    Fetching(Box<Fetching>),
    /// This many unwanted bytes.
    Skipping(usize),
}

/// The receiving side of a connection.
pub(super) struct Inflow {
    buffer: LineBuffer,
    /// Bytes read and not handed over.
    unread: Range<usize>,
    long: Long,
    /// Long payloads were fetched recently.
    is_bulk: bool,
    /// The far end has closed, or reading has failed.
    has_ended: bool,
    /// Packets dropped for a wrong sum.
    pub(super) damaged_count: u64,
}

impl Inflow {
    pub(super) fn new() -> Self {
        Self {
            buffer: LineBuffer::default(),
            unread: 0..0,
            long: Long::None,
            is_bulk: false,
            has_ended: false,
            damaged_count: 0,
        }
    }

    /// Whether the last query for a payload found no data less than `RETRY_AFTER_EAGAIN` ago. The device then
    /// skips the read unless epoll reports readiness.
    #[inline]
    pub(super) fn is_not_reread(&self) -> bool {
        self.is_not_reread_at(Instant::now)
    }

    /// The same at that time, which is read only if it matters.
    #[inline]
    fn is_not_reread_at(&self, now: impl FnOnce() -> Instant) -> bool {
        let Long::Fetching(fetching) = &self.long else { return false };
        fetching.dry_at.is_some_and(|at| now().saturating_duration_since(at) < RETRY_AFTER_EAGAIN)
    }

    /// Whether the last query began a pause, which lasts as long as it should.
    #[cfg(test)]
    pub(super) fn pauses(&self) -> bool {
        let Long::Fetching(fetching) = &self.long else { return false };
        let Some(at) = fetching.dry_at else { return false };
        let end = at + RETRY_AFTER_EAGAIN;
        let before_end = end - Duration::from_nanos(1);
        assert_eq!([at, before_end, end].map(|now| self.is_not_reread_at(|| now)), [true, true, false]);
        true
    }

    /// Where to read into; nothing that was handed over may be in use.
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        if self.unread.is_empty() && !self.buffer.is_empty() {
            self.unread = 0..0;
        } else {
            self.make_room();
        }
        let most = if self.is_bulk { READ_BYTES_FETCHING } else { READ_BYTES };
        let end = self.buffer.len().min(self.unread.end + most);
        &mut self.buffer[self.unread.end..end]
    }

    /// Reads once. Room is made before, so nothing that was handed over may be in use. `is_closing`: the far
    /// end has closed its side, so that a short read is not the last word.
    pub(super) fn read(&mut self, socket: &OwnedFd, is_closing: bool) -> Read {
        if self.has_ended {
            return Read::Ended;
        }
        if let Long::Fetching(fetching) = &mut self.long {
            // The data does not go into this buffer: only check whether some has arrived.
            let has_come = is_closing || rustix::io::ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0);
            if has_come {
                fetching.step = Step::Wet;
            }
            // A tail comes right behind its payload, and nothing is copied meanwhile.
            let awaits_tail = fetching.placed_bytes == fetching.head.payload_bytes();
            fetching.dry_at = (!has_come && !awaits_tail).then(Instant::now);
            return if has_come { Read::Drained } else { Read::Nothing };
        }
        let room = self.room();
        let room_bytes = room.len();
        match rustix::net::recv(socket, room, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Read::Ended,
            Ok((count, _)) => {
                self.unread.end += count;
                if count == room_bytes || is_closing { Read::More } else { Read::Drained }
            }
            Err(Errno::AGAIN) => Read::Nothing,
            Err(Errno::INTR) => Read::More,
            Err(_) => Read::Ended,
        }
    }

    /// Room for the rest of the frame that has begun, and for what may follow it.
    fn make_room(&mut self) {
        let begun = self.unread.len();
        if self.unread.start > 0 && self.unread.end + FRAME_BYTES > self.buffer.len() {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..begun;
        }
        if self.unread.end == self.buffer.len() || self.buffer.is_empty() {
            let bytes = (2 * self.buffer.len()).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
            debug_assert!(bytes > begun, "a frame fits the largest buffer");
            self.buffer.grow(bytes);
        }
    }

    /// The next frame of the bytes read. Packets with a wrong sum are dropped.
    ///
    /// # Errors
    /// The bytes are no frame: where the next one begins cannot be known.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Next, Damaged> {
        loop {
            if !matches!(self.long, Long::None)
                && let Some(next) = self.go_on()
            {
                return Ok(next);
            }
            let unread = &self.buffer[self.unread.clone()];
            let Some((head, rest)) = unread.split_first_chunk::<HEAD_BYTES>() else {
                return Ok(Next::Nothing);
            };
            let head = Head::parse(head)?;
            let start = self.unread.start + HEAD_BYTES;
            let whole_bytes = head.body_bytes + head.tail_bytes();
            let Some(whole) = rest.get(..whole_bytes) else { return Ok(self.offer(head)) };
            let is_sound = head.fits_body(whole);
            self.unread.start = start + whole_bytes;
            if let Long::Declined = self.long {
                (self.long, self.is_bulk) = (Long::None, false);
            }
            match head.kind {
                Kind::Goodbye => return Ok(Next::Goodbye),
                Kind::Packet if is_sound => return Ok(Next::Packet(start..start + head.body_bytes)),
                Kind::Packet => self.damaged_count += 1,
            }
        }
    }

    /// The step before the next frame can be searched; `None`: none.
    #[cold]
    fn go_on(&mut self) -> Option<Next> {
        match &mut self.long {
            Long::None | Long::Declined => None,
            Long::Offered(_) => {
                self.long = Long::Declined;
                None
            }
            Long::Fetching(fetching) => match fetching.step {
                Step::Dry => Some(Next::Nothing),
                Step::Wet => {
                    fetching.step = Step::Offered;
                    Some(Next::Front(0..0, fetching.head.payload_bytes()))
                }
                Step::Offered => {
                    let head = &fetching.head;
                    let rest_bytes = head.payload_bytes() - fetching.placed_bytes + head.tail_bytes();
                    self.long = Long::Skipping(rest_bytes);
                    self.go_on()
                }
            },
            Long::Skipping(left) => {
                let count = self.unread.len().min(*left);
                self.unread.start += count;
                *left -= count;
                if *left > 0 {
                    return Some(Next::Skipping);
                }
                self.long = Long::None;
                None
            }
        }
    }

    /// A frame is not all there: if it is a long packet its front may be of use.
    fn offer(&mut self, head: Head) -> Next {
        let start = self.unread.start + HEAD_BYTES;
        let header = start..start + head.header_bytes;
        if !matches!(self.long, Long::None)
            || head.payload_bytes() < LONG_BYTES
            || header.end > self.unread.end
        {
            return Next::Nothing;
        }
        if !head.fits_header(&self.buffer[header.clone()]) {
            self.long = Long::Declined;
            return Next::Nothing;
        }
        self.long = Long::Offered(head);
        Next::Front(header, head.payload_bytes())
    }

    /// The bytes that [`next`](Self::next) has found: the packet, or the header of its front.
    #[inline]
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        match &self.long {
            Long::Fetching(fetching) => &fetching.header[..fetching.head.header_bytes],
            _ => &self.buffer[range],
        }
    }

    /// Puts the payload of the packet whose front was found in its place; see
    /// [`Device::fetch`](ayatori_core::device::Device::fetch). Also returns whether there may be more to
    /// read. `is_closing`: the end is still to be read, and the kernel will not report it again.
    pub(super) fn fetch(&mut self, socket: &OwnedFd, into: &mut [u8], is_closing: bool) -> (Fetched, Read) {
        if let Long::Offered(head) = self.long {
            let mut header = [0; HEADER_BYTES_MAX];
            let start = self.unread.start + HEAD_BYTES;
            self.unread.start = start + head.header_bytes;
            header[..head.header_bytes].copy_from_slice(&self.buffer[start..self.unread.start]);
            let sum = RunningSum::new();
            let fetching = Fetching { head, header, placed_bytes: 0, sum, step: Step::Dry, dry_at: None };
            self.long = Long::Fetching(Box::new(fetching));
        }
        let Long::Fetching(fetching) = &mut self.long else { return (Fetched::Lost, Read::Nothing) };
        debug_assert_eq!(into.len(), fetching.head.payload_bytes());
        fetching.step = Step::Dry;
        let here = self.unread.len().min(into.len() - fetching.placed_bytes);
        fetching.place(into, &self.buffer[self.unread.start..self.unread.start + here]);
        self.unread.start += here;
        let drained = if is_closing { Read::More } else { Read::Drained };
        let mut read = drained;
        let tail_bytes = fetching.head.tail_bytes();
        while fetching.placed_bytes < into.len() || self.unread.len() < tail_bytes {
            // Nothing but a part of the tail is unread now.
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            let rest = &mut into[fetching.placed_bytes..];
            let rest_bytes = rest.len();
            let behind = &mut self.buffer[self.unread.end..BEHIND_BYTES];
            let room_bytes = rest_bytes + behind.len();
            match rustix::io::readv(socket, &mut [IoSliceMut::new(rest), IoSliceMut::new(behind)]) {
                Ok(0) => self.has_ended = true,
                Ok(count) => {
                    fetching.note(into, count.min(rest_bytes));
                    self.unread.end += count.saturating_sub(rest_bytes);
                    read = if count == room_bytes { Read::More } else { drained };
                    if count < rest_bytes || self.unread.len() < tail_bytes {
                        return (Fetched::Part, drained);
                    }
                }
                Err(Errno::AGAIN) => return (Fetched::Part, Read::Drained),
                Err(Errno::INTR) => {}
                Err(_) => self.has_ended = true,
            }
            if self.has_ended {
                return (Fetched::Part, Read::Ended);
            }
        }
        let tail = &self.buffer[self.unread.start..self.unread.start + tail_bytes];
        let is_sound = fetching.head.fits_sum(|| fetching.sum.get(), tail);
        self.unread.start += tail_bytes;
        (self.long, self.is_bulk) = (Long::None, true);
        if !is_sound {
            self.damaged_count += 1;
        }
        (if is_sound { Fetched::Whole } else { Fetched::Lost }, read)
    }
}

/// Bytes that begin at a cache line. Long blocks of `malloc` begin 16 bytes behind a page, where the kernel's
/// copy is slow on an AMD EPYC (Zen 3): 64 KiB over a raw connection took 48 to 73 µs one way there, and 29
/// to 38 at other places.
#[derive(Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    begin: usize,
}

impl LineBuffer {
    const LINE_BYTES: usize = 64;

    fn grow(&mut self, len: usize) {
        let mut grown = vec![0; len + Self::LINE_BYTES - 1];
        let begin = grown.as_ptr().align_offset(Self::LINE_BYTES);
        grown.truncate(begin + len);
        grown[begin..begin + self.len()].copy_from_slice(self);
        *self = Self { bytes: grown, begin };
    }
}

impl Deref for LineBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

impl DerefMut for LineBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..]
    }
}

impl Fetching {
    fn place(&mut self, into: &mut [u8], bytes: &[u8]) {
        into[self.placed_bytes..self.placed_bytes + bytes.len()].copy_from_slice(bytes);
        self.note(into, bytes.len());
    }

    /// `count` more bytes are in place.
    fn note(&mut self, into: &[u8], count: usize) {
        let end = self.placed_bytes + count;
        if self.head.sums.is_some() {
            // Now, while they are in the cache.
            self.sum.add(&into[self.placed_bytes..end]);
        }
        self.placed_bytes = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_line_however_long_it_grows() {
        let mut buffer = LineBuffer::default();
        assert!(buffer.is_empty());
        let mut len = 0;
        for grown in [16, 100, 1 << 10, 16 << 10, 300 << 10] {
            buffer.grow(grown);
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % 64), (grown, 0));
            assert!(
                buffer[..len].iter().all(|&byte| byte == 7) && buffer[len..].iter().all(|&byte| byte == 0)
            );
            buffer.fill(7);
            len = grown;
        }
    }
}
