//! One connection: packets out, bytes in, frames found where they lie.
//!
//! Sending is one system call for frame, header and payload, from where they are. What the kernel does not take of a
//! packet is copied and sent when it takes more; until then further packets are answered [`Full`], but short ones are
//! queued behind, and leave together. Receiving is one system call for as much as there is room for; packets are handed
//! over in the buffer they were read into, and only a packet that was cut off by the end of the buffer is moved.

use super::frame::{BODY_BYTES_MAX, Damaged, HEAD_BYTES, Head, Kind};
use ayatori_core::buffer::{Payload, Piece, payload_len};
use ayatori_core::device::{Full, HEADER_BYTES_MAX};
use ayatori_core::ids::{ProcessId, Rail};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// Packets up to this are put together on the stack and sent as one piece: cheaper than a list of pieces.
const SHORT_BYTES: usize = 1024;
/// What may wait behind a packet that the kernel took only a part of, in bytes.
const QUEUE_BYTES_MAX: usize = 32 << 10;
/// First size of the receive buffer; grows to the most when a peer sends that much.
const BUFFER_BYTES_MIN: usize = 16 << 10;
/// A whole packet fits behind one that is being read.
const BUFFER_BYTES_MAX: usize = 4 * (HEAD_BYTES + BODY_BYTES_MAX);

/// An established connection on a rail to a peer.
pub(super) struct Connection {
    pub(super) peer: ProcessId,
    pub(super) rail: Rail,
    pub(super) epoch: u32,
    pub(super) socket: OwnedFd,
    /// Whether sums are sent with bodies.
    is_summed: bool,
    buffer: Vec<u8>,
    /// What was read and not handed over.
    unread: Range<usize>,
    unsent: Vec<u8>,
    unsent_from: usize,
    /// The kernel took nothing of a packet: when it does is news.
    pub(super) wants_room: bool,
    /// There may be something to read.
    pub(super) is_ready: bool,
    /// The far end has closed its side: an empty read is not the last word.
    pub(super) is_closing: bool,
    /// Sending has failed: what was received before is still handed over.
    pub(super) is_broken: bool,
    /// Packets dropped for a wrong sum.
    pub(super) damaged_count: u64,
}

/// What is next in the buffer.
pub(super) enum Next {
    /// A packet, here in the buffer.
    Packet(Range<usize>),
    /// The peer takes leave.
    Goodbye,
    /// No whole frame.
    Nothing,
}

/// What a read came to.
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

impl Connection {
    pub(super) fn new(peer: ProcessId, rail: Rail, epoch: u32, socket: OwnedFd, is_summed: bool) -> Self {
        Self {
            peer,
            rail,
            epoch,
            socket,
            is_summed,
            buffer: Vec::new(),
            unread: 0..0,
            unsent: Vec::new(),
            unsent_from: 0,
            wants_room: false,
            is_ready: false,
            is_closing: false,
            is_broken: false,
            damaged_count: 0,
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// Sends a packet; see [`Device::send`](ayatori_core::device::Device::send).
    #[inline]
    pub(super) fn send(&mut self, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let body_bytes = header.len() + payload_len(&payload);
        assert!(
            header.len() <= HEADER_BYTES_MAX && body_bytes <= BODY_BYTES_MAX,
            "a packet of {body_bytes} bytes"
        );
        if self.is_broken {
            return Err(Full);
        }
        let pieces = payload.map(|piece| match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Virtual(_) => panic!("virtual payload on a real device"),
        });
        if self.has_unsent() {
            let is_room = self.unsent.len() - self.unsent_from + HEAD_BYTES + body_bytes <= QUEUE_BYTES_MAX;
            if !is_room {
                return Err(Full);
            }
            let head = self.head(header, pieces);
            self.keep(0, [&head, header, pieces[0], pieces[1]]);
            return Ok(());
        }
        let head = self.head(header, pieces);
        let parts: [&[u8]; 4] = [&head, header, pieces[0], pieces[1]];
        let total = HEAD_BYTES + body_bytes;
        let sent = if total <= SHORT_BYTES { self.send_short(parts, total) } else { self.send_pieces(parts) };
        match sent {
            Ok(count) if count == total => Ok(()),
            Ok(count) => {
                self.keep(count, parts);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                // The caller may send something shorter or go elsewhere: nothing is taken. Room is waited for.
                self.wants_room = true;
                Err(Full)
            }
            Err(_) => {
                self.is_broken = true;
                Err(Full)
            }
        }
    }

    #[inline]
    fn head(&self, header: &[u8], pieces: [&[u8]; 2]) -> [u8; HEAD_BYTES] {
        let sum = self.is_summed.then(|| {
            let sum = crc32c::crc32c(header);
            pieces.iter().fold(sum, |sum, piece| crc32c::crc32c_append(sum, piece))
        });
        let body_bytes = header.len() + pieces[0].len() + pieces[1].len();
        Head { kind: Kind::Packet, body_bytes, sum }.emit()
    }

    #[inline]
    fn send_short(&self, parts: [&[u8]; 4], total: usize) -> Result<usize, Errno> {
        let mut whole = [0; SHORT_BYTES];
        let mut at = 0;
        for part in parts {
            whole[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        rustix::net::send(&self.socket, &whole[..total], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
    }

    fn send_pieces(&self, parts: [&[u8]; 4]) -> Result<usize, Errno> {
        let pieces = parts.map(IoSlice::new);
        let mut control = SendAncillaryBuffer::default();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.socket, &pieces, &mut control, flags)
    }

    /// Keeps what is left of a packet after its first `skip` bytes.
    fn keep(&mut self, mut skip: usize, parts: [&[u8]; 4]) {
        for part in parts {
            let gone = skip.min(part.len());
            self.unsent.extend_from_slice(&part[gone..]);
            skip -= gone;
        }
    }

    /// Queues a goodbye, and sends what can be sent.
    pub(super) fn say_goodbye(&mut self) {
        let head = Head { kind: Kind::Goodbye, body_bytes: 0, sum: None }.emit();
        self.unsent.extend_from_slice(&head);
        self.flush();
    }

    /// Sends what was kept. Whether nothing is left.
    pub(super) fn flush(&mut self) -> bool {
        self.wants_room = false;
        while self.has_unsent() && !self.is_broken {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &self.unsent[self.unsent_from..], flags) {
                Ok(count) => self.unsent_from += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => self.is_broken = true,
            }
        }
        self.unsent.clear();
        self.unsent_from = 0;
        true
    }

    /// Reads once. Room is made before, so nothing that was handed over may be in use.
    pub(super) fn read(&mut self) -> Read {
        self.make_room();
        let room = self.buffer.len() - self.unread.end;
        match rustix::net::recv(&self.socket, &mut self.buffer[self.unread.end..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Read::Ended,
            Ok((count, _)) => {
                self.unread.end += count;
                if count == room || self.is_closing { Read::More } else { Read::Drained }
            }
            Err(Errno::AGAIN) if !self.is_broken => Read::Nothing,
            Err(Errno::INTR) => Read::More,
            Err(_) => Read::Ended,
        }
    }

    /// Room for the rest of the frame that has begun, and for what may follow it.
    fn make_room(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        let is_full = self.unread.end == self.buffer.len();
        let begun = self.unread.len();
        if self.unread.start > 0
            && (is_full || self.unread.end + HEAD_BYTES + BODY_BYTES_MAX > self.buffer.len())
        {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..begun;
        }
        if self.unread.end == self.buffer.len() || self.buffer.is_empty() {
            let bytes = (2 * self.buffer.len()).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
            debug_assert!(bytes > begun, "a frame fits the largest buffer");
            self.buffer.resize(bytes, 0);
        }
    }

    /// The next whole frame that was read. Packets with a wrong sum are dropped.
    ///
    /// # Errors
    /// The bytes are no frame: where the next one begins cannot be known.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Next, Damaged> {
        loop {
            let unread = &self.buffer[self.unread.clone()];
            let Some((head, rest)) = unread.split_first_chunk::<HEAD_BYTES>() else {
                return Ok(Next::Nothing);
            };
            let head = Head::parse(head)?;
            let Some(body) = rest.get(..head.body_bytes) else { return Ok(Next::Nothing) };
            let is_sound = head.sum.is_none_or(|sum| sum == crc32c::crc32c(body));
            let start = self.unread.start + HEAD_BYTES;
            self.unread.start = start + head.body_bytes;
            match head.kind {
                Kind::Goodbye => return Ok(Next::Goodbye),
                Kind::Packet if is_sound => return Ok(Next::Packet(start..start + head.body_bytes)),
                Kind::Packet => self.damaged_count += 1,
            }
        }
    }

    /// Bytes that [`next`](Self::next) has found.
    #[inline]
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair(is_summed: bool) -> (Connection, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("socketpair");
        (Connection::new(ProcessId(1), Rail(1), 1, a, is_summed), b)
    }

    fn two(is_summed: bool) -> (Connection, Connection) {
        let (a, b) = pair(is_summed);
        (a, Connection::new(ProcessId(0), Rail(1), 1, b, is_summed))
    }

    /// Everything that can be received now.
    fn receive(to: &mut Connection) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        loop {
            let read = to.read();
            while let Next::Packet(range) = to.next().expect("frames") {
                packets.push(to.bytes(range).to_vec());
            }
            if matches!(read, Read::Nothing | Read::Ended) {
                return packets;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn packets_of_all_lengths_arrive_whole_and_in_order(
            lengths in proptest::collection::vec(0usize..=super::super::frame::PAYLOAD_BYTES_MAX, 1..40), is_summed: bool
        ) {
            let (mut a, mut b) = two(is_summed);
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            for (number, length) in lengths.into_iter().enumerate() {
                let payload = vec![number as u8; length];
                let (first, second) = payload.split_at(length / 3);
                while a.send(b"head", [Piece::Bytes(first), Piece::Bytes(second)]).is_err() {
                    received.extend(receive(&mut b));
                    a.flush();
                }
                sent.push([b"head".as_slice(), &payload].concat());
            }
            while !a.flush() {
                received.extend(receive(&mut b));
            }
            received.extend(receive(&mut b));
            prop_assert_eq!(sent, received);
        }

        #[test]
        fn no_bytes_from_the_wire_make_the_reader_panic(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6)) {
            let (mut a, b) = pair(true);
            for chunk in chunks {
                rustix::net::send(&b, &chunk, SendFlags::NOSIGNAL).expect("sent");
                a.read();
                while let Ok(Next::Packet(_) | Next::Goodbye) = a.next() {}
            }
        }
    }

    #[test]
    fn a_damaged_body_is_dropped_and_the_next_packet_arrives() {
        let (mut a, b) = pair(true);
        let frame = |body: &[u8], sum| {
            let head = Head { kind: Kind::Packet, body_bytes: body.len(), sum: Some(sum) }.emit();
            [&head, body].concat()
        };
        let bytes =
            [frame(b"wrong", crc32c::crc32c(b"right")), frame(b"good", crc32c::crc32c(b"good"))].concat();
        rustix::net::send(&b, &bytes, SendFlags::NOSIGNAL).expect("sent");
        assert_eq!(receive(&mut a), [b"good".to_vec()]);
        assert_eq!(a.damaged_count, 1);
    }

    #[test]
    fn a_damaged_head_is_an_error() {
        let (mut a, b) = pair(true);
        rustix::net::send(&b, &[0xff; 64], SendFlags::NOSIGNAL).expect("sent");
        a.read();
        assert!(a.next().is_err());
    }

    #[test]
    fn a_short_buffer_grows_only_when_needed() {
        let (mut a, mut b) = two(false);
        a.send(b"h", [Piece::Bytes(b"x"), Piece::EMPTY]).expect("sent");
        assert_eq!(receive(&mut b).len(), 1);
        assert_eq!(b.buffer.len(), BUFFER_BYTES_MIN);
    }

    #[test]
    fn goodbye_comes_after_what_was_sent() {
        let (mut a, mut b) = two(false);
        a.send(b"h", [Piece::EMPTY, Piece::EMPTY]).expect("sent");
        a.say_goodbye();
        b.read();
        assert!(matches!(b.next(), Ok(Next::Packet(_))));
        assert!(matches!(b.next(), Ok(Next::Goodbye)));
    }
}
