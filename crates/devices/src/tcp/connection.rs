//! One connection: packets out; what comes in is the work of `inflow.rs`.
//!
//! Sending is one system call for frame, header and payload, from where they are. The part of a packet that
//! the kernel does not take is copied and sent later. Until then further packets are answered [`Full`],
//! except that short ones are queued behind, and leave together. The tail of a long packet leaves with the
//! packet behind it, or when the core says that none follows.

use super::frame::{BODY_BYTES_MAX, Damaged, HEAD_BYTES, Head, Kind, PAYLOAD_BYTES_MAX, Sums, TAIL_BYTES};
use super::inflow::{Inflow, Next, Read};
use super::sum::{sum, sum_of};
use ayatori_core::buffer::{Payload, Piece, payload_len};
use ayatori_core::device::{Fetched, Full, HEADER_BYTES_MAX};
use ayatori_core::ids::{ProcessId, Rail};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// A send waits for no room, and a connection that has ended is an error and no signal.
pub(super) const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Frames up to this are put together and sent as one piece: cheaper than a list of pieces.
const SHORT_BYTES: usize = 1024;
/// Maximum bytes that wait behind a packet of which the kernel took only a part.
const QUEUE_BYTES_MAX: usize = 32 << 10;

/// An established connection on a rail to a peer.
pub(super) struct Connection {
    pub(super) peer: ProcessId,
    pub(super) rail: Rail,
    pub(super) epoch: u32,
    pub(super) socket: OwnedFd,
    /// Whether sums are sent with bodies.
    is_summed: bool,
    inflow: Inflow,
    unsent: Vec<u8>,
    unsent_from: usize,
    /// The tail of the packet that was sent last, with nothing unsent.
    tail: Option<[u8; TAIL_BYTES]>,
    /// The kernel took nothing of a packet: when it does is news.
    pub(super) wants_room: bool,
    /// There may be something to read.
    pub(super) is_ready: bool,
    /// The far end has closed its side: an empty read is not the last word.
    pub(super) is_closing: bool,
    /// Sending has failed: packets received before are still handed over.
    pub(super) is_broken: bool,
}

impl Connection {
    pub(super) fn new(peer: ProcessId, rail: Rail, epoch: u32, socket: OwnedFd, is_summed: bool) -> Self {
        Self {
            peer,
            rail,
            epoch,
            socket,
            is_summed,
            inflow: Inflow::new(),
            unsent: Vec::new(),
            unsent_from: 0,
            tail: None,
            wants_room: false,
            is_ready: false,
            is_closing: false,
            is_broken: false,
        }
    }

    /// Whether the kernel has not taken all bytes offered.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// Whether a tail waits for a packet to leave with.
    #[inline]
    pub(super) fn keeps_tail(&self) -> bool {
        self.tail.is_some()
    }

    /// Sends the tail that is kept back.
    pub(super) fn send_tail(&mut self) {
        if self.tail.is_some() {
            self.flush();
        }
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
            if self.unsent.len() - self.unsent_from + HEAD_BYTES + body_bytes > QUEUE_BYTES_MAX {
                return Err(Full);
            }
            let head = self.head(header, pieces, false);
            self.forget_sent();
            self.keep(0, [&[], &head, header, pieces[0], pieces[1]]);
            return Ok(());
        }
        let is_tailed = self.is_summed && body_bytes > PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX;
        let head = self.head(header, pieces, is_tailed);
        let tail = self.tail;
        let before: &[u8] = tail.as_ref().map_or(&[], |tail| tail);
        let total = before.len() + HEAD_BYTES + body_bytes;
        if total <= SHORT_BYTES {
            self.unsent.extend_from_slice(before);
            self.unsent.extend_from_slice(&head);
            self.unsent.extend_from_slice(header);
            pieces.iter().for_each(|piece| self.unsent.extend_from_slice(piece));
            return self.send_short();
        }
        let parts: [&[u8]; 5] = [before, &head, header, pieces[0], pieces[1]];
        match self.send_pieces(parts) {
            Ok(count) => {
                self.tail = is_tailed.then(|| sum_of(pieces).to_le_bytes());
                if count < total {
                    self.keep(count, parts);
                    self.unsent.extend(self.tail.take().into_iter().flatten());
                }
                Ok(())
            }
            Err(error) => self.refused(error),
        }
    }

    /// Sends the frame that lies in `unsent` alone, with what goes before it.
    #[inline]
    fn send_short(&mut self) -> Result<(), Full> {
        match self.send_kept() {
            Ok(count) => {
                (self.tail, self.unsent_from) = (None, count);
                if !self.has_unsent() {
                    self.unsent.clear();
                    self.unsent_from = 0;
                }
                Ok(())
            }
            Err(error) => {
                self.unsent.clear();
                self.refused(error)
            }
        }
    }

    /// The kernel has taken nothing of a packet.
    #[cold]
    fn refused(&mut self, error: Errno) -> Result<(), Full> {
        match error {
            // The caller may send something shorter or go elsewhere. Room is waited for.
            Errno::AGAIN | Errno::INTR => self.wants_room = true,
            _ => self.is_broken = true,
        }
        Err(Full)
    }

    #[inline]
    fn head(&self, header: &[u8], pieces: [&[u8]; 2], is_tailed: bool) -> [u8; HEAD_BYTES] {
        let payload = || (!is_tailed).then(|| sum_of(pieces));
        let sums = self.is_summed.then(|| Sums { header: sum(header), payload: payload() });
        let body_bytes = header.len() + pieces[0].len() + pieces[1].len();
        Head { kind: Kind::Packet, body_bytes, header_bytes: header.len(), sums }.emit()
    }

    /// Offers the kept bytes to the kernel.
    #[inline]
    fn send_kept(&self) -> Result<usize, Errno> {
        rustix::net::send(&self.socket, &self.unsent[self.unsent_from..], SEND_FLAGS)
    }

    fn send_pieces(&self, parts: [&[u8]; 5]) -> Result<usize, Errno> {
        let pieces = parts.map(IoSlice::new);
        let mut control = SendAncillaryBuffer::default();
        rustix::net::sendmsg(&self.socket, &pieces, &mut control, SEND_FLAGS)
    }

    /// Keeps the rest of a packet after its first `skip` bytes.
    fn keep(&mut self, mut skip: usize, parts: [&[u8]; 5]) {
        for part in parts {
            let gone = skip.min(part.len());
            self.unsent.extend_from_slice(&part[gone..]);
            skip -= gone;
        }
    }

    /// Gives up kept bytes that have been sent. A queue that is never empty would have all of them.
    fn forget_sent(&mut self) {
        if self.unsent_from >= QUEUE_BYTES_MAX {
            self.unsent.drain(..self.unsent_from);
            self.unsent_from = 0;
        }
    }

    /// Queues a goodbye, and sends what can be sent.
    pub(super) fn say_goodbye(&mut self) {
        let head = Head { kind: Kind::Goodbye, body_bytes: 0, header_bytes: 0, sums: None }.emit();
        self.unsent.extend(self.tail.take().into_iter().flatten());
        self.unsent.extend_from_slice(&head);
        self.flush();
    }

    /// Sends the kept bytes. Returns whether nothing is left.
    pub(super) fn flush(&mut self) -> bool {
        self.wants_room = false;
        self.unsent.extend(self.tail.take().into_iter().flatten());
        while self.has_unsent() && !self.is_broken {
            match self.send_kept() {
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

    /// Whether a read would only find no data again: see [`Inflow::is_not_reread`].
    #[inline]
    pub(super) fn is_not_reread(&self) -> bool {
        self.inflow.is_not_reread()
    }

    /// Reads once; nothing that was handed over may be in use.
    #[inline]
    pub(super) fn read(&mut self) -> Read {
        match self.inflow.read(&self.socket, self.is_closing) {
            // Packets that arrived before sending failed are handed over; nothing follows them.
            Read::Nothing if self.is_broken => Read::Ended,
            read => read,
        }
    }

    /// The next frame of the bytes read.
    ///
    /// # Errors
    /// The bytes are no frame: where the next one begins cannot be known.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Next, Damaged> {
        self.inflow.next()
    }

    /// Bytes that [`next`](Self::next) has found.
    #[inline]
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.inflow.bytes(range)
    }

    /// The payload of the packet whose front [`next`](Self::next) has found goes to its place.
    pub(super) fn fetch(&mut self, into: &mut [u8]) -> (Fetched, Read) {
        self.inflow.fetch(&self.socket, into, self.is_closing)
    }

    /// Packets dropped for a wrong sum.
    pub(super) fn damaged_count(&self) -> u64 {
        self.inflow.damaged_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::frame::LONG_PAYLOAD_BYTES_MAX;
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

    /// How fronts are dealt with.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Taking {
        Whole,
        Fetched,
        /// Fetched at first, and not any more.
        LetGo,
    }

    /// Everything that can be received now. `places`: where the packet at the front is put together.
    fn receive_by(to: &mut Connection, taking: Taking, place: &mut Vec<u8>) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        loop {
            let read = to.read();
            loop {
                match to.next().expect("frames") {
                    Next::Packet(range) => packets.push(to.bytes(range).to_vec()),
                    Next::Front(range, payload_bytes) => {
                        let header = to.bytes(range).to_vec();
                        let is_wanted = match taking {
                            Taking::Whole => false,
                            Taking::Fetched => true,
                            Taking::LetGo => place.is_empty(),
                        };
                        if is_wanted {
                            place.resize(payload_bytes, 0);
                            if to.fetch(place).0 == Fetched::Whole {
                                packets.push([header, std::mem::take(place)].concat());
                            }
                        } else {
                            place.clear();
                        }
                    }
                    Next::Goodbye | Next::Nothing | Next::Skipping => break,
                }
            }
            if matches!(read, Read::Nothing | Read::Ended) {
                return packets;
            }
        }
    }

    fn receive(to: &mut Connection) -> Vec<Vec<u8>> {
        receive_by(to, Taking::Whole, &mut Vec::new())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn packets_of_all_lengths_arrive_whole_and_in_order(
            lengths in proptest::collection::vec(0usize..=LONG_PAYLOAD_BYTES_MAX, 1..20), is_summed: bool,
            is_fetched: bool,
        ) {
            let (mut a, mut b) = two(is_summed);
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            let (taking, mut place) = (if is_fetched { Taking::Fetched } else { Taking::Whole }, Vec::new());
            for (number, length) in lengths.into_iter().enumerate() {
                let payload = vec![number as u8; length];
                let (first, second) = payload.split_at(length / 3);
                while a.send(b"head", [Piece::Bytes(first), Piece::Bytes(second)]).is_err() {
                    received.extend(receive_by(&mut b, taking, &mut place));
                    a.flush();
                }
                sent.push([b"head".as_slice(), &payload].concat());
            }
            while !a.flush() {
                received.extend(receive_by(&mut b, taking, &mut place));
            }
            received.extend(receive_by(&mut b, taking, &mut place));
            prop_assert_eq!(sent, received);
        }

        #[test]
        fn only_packets_whose_payload_is_dropped_are_lost(
            lengths in proptest::collection::vec(0usize..=LONG_PAYLOAD_BYTES_MAX, 1..20),
        ) {
            let (mut a, mut b) = two(true);
            let (mut sent, mut received, mut place) = (Vec::new(), Vec::new(), Vec::new());
            for (number, length) in lengths.into_iter().enumerate() {
                let payload = vec![number as u8; length];
                while a.send(b"head", [Piece::Bytes(&payload), Piece::EMPTY]).is_err() {
                    received.extend(receive_by(&mut b, Taking::LetGo, &mut place));
                    a.flush();
                }
                sent.push([b"head".as_slice(), &payload].concat());
            }
            while !a.flush() {
                received.extend(receive_by(&mut b, Taking::LetGo, &mut place));
            }
            received.extend(receive_by(&mut b, Taking::LetGo, &mut place));
            let mut left = sent.iter();
            for packet in &received {
                prop_assert!(left.any(|sent| sent == packet), "a packet that was not sent, or not then");
            }
            for packet in sent.iter().filter(|packet| packet.len() < 36 << 10) {
                prop_assert!(received.contains(packet));
            }
        }

        #[test]
        fn no_bytes_from_the_wire_make_the_reader_panic(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6)) {
            let (mut a, b) = pair(true);
            for chunk in chunks {
                rustix::net::send(&b, &chunk, SendFlags::NOSIGNAL).expect("sent");
                a.read();
                while let Ok(Next::Packet(_) | Next::Goodbye | Next::Front(..)) = a.next() {}
            }
        }
    }

    #[test]
    fn a_damaged_body_is_dropped_and_the_next_packet_arrives() {
        let (mut a, b) = pair(true);
        let frame = |body: &[u8], sum| {
            let sums = Some(Sums { header: super::sum(b""), payload: Some(sum) });
            let head = Head { kind: Kind::Packet, body_bytes: body.len(), header_bytes: 0, sums }.emit();
            [&head, body].concat()
        };
        let bytes = [frame(b"wrong", sum(b"right")), frame(b"good", sum(b"good"))].concat();
        rustix::net::send(&b, &bytes, SendFlags::NOSIGNAL).expect("sent");
        assert_eq!(receive(&mut a), [b"good".to_vec()]);
        assert_eq!(a.damaged_count(), 1);
    }

    #[test]
    fn a_damaged_payload_is_lost_when_it_was_fetched_too() {
        let (mut a, b) = pair(true);
        let payload = vec![5; 40_000];
        let sums = Some(Sums { header: sum(b"head"), payload: Some(sum(&payload) ^ 1) });
        let head = Head { kind: Kind::Packet, body_bytes: 40_004, header_bytes: 4, sums }.emit();
        let sums = Some(Sums { header: sum(b"next"), payload: Some(sum(b"")) });
        let next = Head { kind: Kind::Packet, body_bytes: 4, header_bytes: 4, sums }.emit();
        let bytes = [&head[..], b"head", &payload, &next, b"next"].concat();
        let (first, second) = bytes.split_at(30_000);
        let mut place = Vec::new();
        rustix::net::send(&b, first, SendFlags::NOSIGNAL).expect("sent");
        assert!(receive_by(&mut a, Taking::Fetched, &mut place).is_empty());
        rustix::net::send(&b, second, SendFlags::NOSIGNAL).expect("sent");
        assert_eq!(receive_by(&mut a, Taking::Fetched, &mut place), [b"next".to_vec()]);
        assert_eq!(a.damaged_count(), 1);
    }

    #[test]
    fn tail_of_a_long_packet_leaves_with_the_next_or_on_request() {
        let (mut a, mut b) = two(true);
        let payload = vec![7; 100_000];
        let mut place = Vec::new();
        let mut received = Vec::new();
        a.send(b"long", [Piece::Bytes(&payload), Piece::EMPTY]).expect("sent");
        assert!(!a.has_unsent(), "the socket has room");
        received.extend(receive_by(&mut b, Taking::Fetched, &mut place));
        assert!(a.keeps_tail() && received.is_empty());
        a.send(b"next", [Piece::EMPTY, Piece::EMPTY]).expect("sent");
        received.extend(receive_by(&mut b, Taking::Fetched, &mut place));
        assert_eq!((a.keeps_tail(), received.len()), (false, 2));
        a.send(b"last", [Piece::Bytes(&payload), Piece::EMPTY]).expect("sent");
        received.extend(receive_by(&mut b, Taking::Whole, &mut place));
        assert_eq!(received.len(), 2);
        a.send_tail();
        received.extend(receive_by(&mut b, Taking::Whole, &mut place));
        assert_eq!(
            received,
            [[&b"long"[..], &payload].concat(), b"next".to_vec(), [&b"last"[..], &payload].concat()]
        );
        a.send(b"long", [Piece::Bytes(&payload), Piece::EMPTY]).expect("sent");
        assert!(a.keeps_tail());
        a.say_goodbye();
        assert_eq!(receive_by(&mut b, Taking::Whole, &mut place).len(), 1, "a goodbye is behind it");
        assert_eq!(b.damaged_count(), 0);
    }

    #[test]
    fn long_packet_with_a_wrong_tail_is_lost_however_it_is_cut() {
        let payload: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        let sums = Some(Sums { header: sum(b"head"), payload: None });
        let head = Head { kind: Kind::Packet, body_bytes: 100_004, header_bytes: 4, sums }.emit();
        let frame = |tail: u32| [&head[..], b"head", &payload, &tail.to_le_bytes()].concat();
        let bytes = [frame(sum(&payload) ^ 1), frame(sum(&payload))].concat();
        let end = frame(0).len();
        for taking in [Taking::Whole, Taking::Fetched] {
            for cut in [24, 30_000, end - 5, end - 4, end - 3, end - 1, end, end + 1, end + 30_000] {
                let (mut a, b) = pair(true);
                let (mut place, mut received) = (Vec::new(), Vec::new());
                for part in [&bytes[..cut], &bytes[cut..]] {
                    let mut sent = 0;
                    while sent < part.len() {
                        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                        sent += rustix::net::send(&b, &part[sent..], flags).unwrap_or(0);
                        received.extend(receive_by(&mut a, taking, &mut place));
                    }
                }
                assert_eq!(received, [[&b"head"[..], &payload].concat()], "{taking:?}, cut at {cut}");
                assert_eq!(a.damaged_count(), 1);
            }
        }
    }

    #[test]
    fn long_packet_with_a_wrong_header_is_never_offered() {
        let payload = vec![5; 100_000];
        let frame = |header_sum: u32| {
            let sums = Some(Sums { header: header_sum, payload: None });
            let head = Head { kind: Kind::Packet, body_bytes: 100_004, header_bytes: 4, sums }.emit();
            [&head[..], b"head", &payload, &sum(&payload).to_le_bytes()].concat()
        };
        let bytes = [frame(sum(b"head") ^ 1), frame(sum(b"head"))].concat();
        let (mut a, b) = pair(true);
        let (mut place, mut received) = (Vec::new(), Vec::new());
        for part in bytes.chunks(30_000) {
            assert_eq!(rustix::net::send(&b, part, SendFlags::NOSIGNAL), Ok(part.len()));
            received.extend(receive_by(&mut a, Taking::Fetched, &mut place));
        }
        assert_eq!((received, a.damaged_count()), (vec![[&b"head"[..], &payload].concat()], 1));
    }

    /// Reads so many bytes off a socket.
    fn take(socket: &OwnedFd, bytes: usize) {
        let mut taken = vec![0; bytes];
        let _ = rustix::net::recv(socket, &mut taken, rustix::net::RecvFlags::DONTWAIT);
    }

    #[test]
    fn a_packet_that_finds_no_room_waits_for_it() {
        let (mut a, b) = pair(true);
        let payload = [7; 900];
        while a.send(b"x", [Piece::Bytes(&payload), Piece::EMPTY]).is_ok() && !a.has_unsent() {}
        if !a.has_unsent() {
            assert!(a.wants_room && !a.is_broken);
        }
        take(&b, 1 << 20);
        assert!(a.flush() && !a.wants_room);
        assert_eq!(a.send(b"x", [Piece::Bytes(&payload), Piece::EMPTY]), Ok(()));
    }

    #[test]
    fn as_much_is_queued_behind_a_packet_as_there_is_room_for() {
        let (mut a, _b) = pair(false);
        // A part of what was kept has left.
        (a.unsent, a.unsent_from) = (vec![7; 10_000], 4_000);
        let rest = QUEUE_BYTES_MAX - 6_000 - HEAD_BYTES;
        let payload = vec![7; rest + 1];
        let mut send = |bytes: usize| a.send(&[], [Piece::Bytes(&payload[..bytes]), Piece::EMPTY]);
        assert_eq!([send(rest + 1), send(rest), send(0)], [Err(Full), Ok(()), Err(Full)]);
        assert_eq!(a.unsent.len() - a.unsent_from, QUEUE_BYTES_MAX);
    }

    #[test]
    fn a_queue_that_is_never_empty_keeps_what_is_unsent_only() {
        let (mut a, _b) = pair(false);
        // A part of a long packet; later the kernel takes a part of what is kept, each time.
        (a.unsent, a.unsent_from) = (vec![7; 50_000], 40_000);
        let payload = [8; 1_000];
        for round in 0..1_000 {
            while a.send(&[], [Piece::Bytes(&payload), Piece::EMPTY]).is_ok() {}
            assert!(a.unsent.len() - a.unsent_from > QUEUE_BYTES_MAX - 2 * payload.len());
            assert!(a.unsent.len() < 3 * QUEUE_BYTES_MAX, "round {round}: {} bytes", a.unsent.len());
            assert_eq!(a.unsent.last(), Some(&8));
            a.unsent_from += 10_000;
        }
    }

    /// A long packet of which nobody wants the rest, up to its last byte.
    #[test]
    fn every_byte_of_an_unwanted_packet_is_skipped() {
        let payload = vec![5; 40_000];
        let head = |body_bytes, header_bytes| {
            Head { kind: Kind::Packet, body_bytes, header_bytes, sums: None }.emit()
        };
        let bytes = [&head(40_004, 4)[..], b"head", &payload, &head(4, 4), b"next"].concat();
        let end = HEAD_BYTES + 40_004;
        for cut in [end - 1, end] {
            let (mut a, b) = pair(false);
            let mut place = vec![0; payload.len()];
            assert_eq!(rustix::net::send(&b, &bytes[..20_000], SEND_FLAGS), Ok(20_000));
            a.read();
            assert!(matches!(a.next(), Ok(Next::Front(_, 40_000))));
            assert_eq!(a.fetch(&mut place).0, Fetched::Part);
            assert_eq!(rustix::net::send(&b, &bytes[20_000..cut], SEND_FLAGS), Ok(cut - 20_000));
            assert_eq!(a.read(), Read::Drained);
            assert!(matches!(a.next(), Ok(Next::Front(..))), "it is offered, and let go");
            let mut received = receive(&mut a);
            assert_eq!(rustix::net::send(&b, &bytes[cut..], SEND_FLAGS), Ok(bytes.len() - cut));
            received.extend(receive(&mut a));
            assert_eq!(received, [b"next".to_vec()], "cut at {cut}");
        }
    }

    /// The kernel says once that there is something: a read that took all it had room for is not the last.
    #[test]
    fn there_may_be_more_where_a_read_with_a_payload_was_filled() {
        let payload = vec![5; 40_000];
        let head = Head { kind: Kind::Packet, body_bytes: 40_004, header_bytes: 4, sums: None }.emit();
        let bytes = [&head[..], b"head", &payload, &[0; 4_000]].concat();
        for (more_bytes, wanted) in [(4_000, Read::More), (1_000, Read::Drained)] {
            let (mut a, b) = pair(false);
            let mut place = vec![0; payload.len()];
            assert_eq!(rustix::net::send(&b, &bytes[..20_000], SEND_FLAGS), Ok(20_000));
            a.read();
            assert!(matches!(a.next(), Ok(Next::Front(_, 40_000))));
            let rest = &bytes[20_000..bytes.len() - 4_000 + more_bytes];
            assert_eq!(rustix::net::send(&b, rest, SEND_FLAGS), Ok(rest.len()));
            assert_eq!(a.fetch(&mut place), (Fetched::Whole, wanted));
        }
    }

    #[test]
    fn a_tail_of_which_a_part_came_with_the_payload_is_whole() {
        let payload: Vec<u8> = (0..40_000u32).map(|at| at as u8).collect();
        let sums = Some(Sums { header: sum(b"head"), payload: None });
        let head = Head { kind: Kind::Packet, body_bytes: 40_004, header_bytes: 4, sums }.emit();
        let bytes = [&head[..], b"head", &payload, &sum(&payload).to_le_bytes()].concat();
        let (mut a, b) = pair(true);
        let (mut place, mut received) = (Vec::new(), Vec::new());
        // One that is taken as a whole makes the buffer as long.
        assert_eq!(rustix::net::send(&b, &bytes, SEND_FLAGS), Ok(bytes.len()));
        assert_eq!(receive(&mut a).len(), 1);
        for part in [&bytes[..bytes.len() - 2], &bytes[bytes.len() - 2..]] {
            assert_eq!(rustix::net::send(&b, part, SEND_FLAGS), Ok(part.len()));
            received.extend(receive_by(&mut a, Taking::Fetched, &mut place));
        }
        assert_eq!((received, a.damaged_count()), (vec![[&b"head"[..], &payload].concat()], 0));
    }

    #[test]
    fn the_last_byte_of_a_payload_is_found() {
        let payload = vec![5; 40_000];
        let head = Head { kind: Kind::Packet, body_bytes: 40_004, header_bytes: 4, sums: None }.emit();
        let bytes = [&head[..], b"head", &payload].concat();
        let (mut a, b) = pair(false);
        let mut place = Vec::new();
        for part in [&bytes[..bytes.len() - 1], &bytes[bytes.len() - 1..]] {
            assert_eq!(rustix::net::send(&b, part, SEND_FLAGS), Ok(part.len()));
            let received = receive_by(&mut a, Taking::Fetched, &mut place);
            assert_eq!(received.len(), usize::from(part.len() == 1));
        }
    }

    #[test]
    fn what_came_before_a_send_failed_is_handed_over() {
        for has_unsent in [false, true] {
            let (mut a, mut b) = two(false);
            b.send(b"last", [Piece::EMPTY, Piece::EMPTY]).expect("sent");
            let long = vec![7; 60_000];
            while has_unsent && a.send(b"long", [Piece::Bytes(&long), Piece::EMPTY]).is_ok() {}
            assert_eq!(a.has_unsent(), has_unsent);
            drop(b);
            if has_unsent {
                assert!(a.flush(), "nothing is left to be sent");
            } else {
                assert!(a.send(b"x", [Piece::EMPTY, Piece::EMPTY]).is_err());
            }
            assert!(a.is_broken && !a.has_unsent());
            assert!(a.send(b"y", [Piece::EMPTY, Piece::EMPTY]).is_err(), "it does not recover");
            assert_eq!(receive(&mut a), [b"last".to_vec()]);
            assert_eq!(a.read(), Read::Ended);
        }
    }

    #[test]
    fn end_of_stream_behind_a_long_packet_is_always_looked_for() {
        let payload = vec![5; 100_000];
        let sums = Some(Sums { header: sum(b"head"), payload: None });
        let head = Head { kind: Kind::Packet, body_bytes: 100_004, header_bytes: 4, sums }.emit();
        let frame = [&head[..], b"head", &payload, &sum(&payload).to_le_bytes()].concat();
        for length in [60_000, frame.len() - 2, frame.len()] {
            let (mut a, b) = pair(true);
            assert_eq!(rustix::net::send(&b, &frame[..length], SendFlags::NOSIGNAL), Ok(length));
            drop(b);
            a.is_closing = true;
            let mut place = vec![0; payload.len()];
            // The kernel reports the end once: the reader must state that it has not seen it.
            loop {
                let mut read = a.read();
                if read == Read::Ended {
                    break;
                }
                while let Next::Front(..) = a.next().expect("frames") {
                    read = a.fetch(&mut place).1;
                }
                assert!(matches!(read, Read::More | Read::Ended), "{read:?}, {length} bytes");
            }
        }
    }

    #[test]
    fn a_stalled_payload_is_not_reread_and_its_tail_is() {
        let payload = vec![7; 100_000];
        let sums = Some(Sums { header: sum(b"head"), payload: None });
        let head = Head { kind: Kind::Packet, body_bytes: 100_004, header_bytes: 4, sums }.emit();
        let bytes = [&head[..], b"head", &payload, &sum(&payload).to_le_bytes()].concat();
        for (missing_bytes, pauses) in [(5, true), (4, false), (1, false)] {
            let (mut a, b) = pair(true);
            let (there, rest) = bytes.split_at(bytes.len() - missing_bytes);
            assert_eq!(rustix::net::send(&b, there, SEND_FLAGS), Ok(there.len()));
            let mut place = vec![0; payload.len()];
            a.read();
            while let Ok(Next::Front(..)) = a.next() {
                assert_eq!(a.fetch(&mut place).0, Fetched::Part);
                assert!(!a.is_not_reread(), "not read since");
                a.read();
            }
            assert_eq!(a.read(), Read::Nothing);
            assert_eq!(a.inflow.pauses(), pauses, "{missing_bytes} B are missing");
            assert_eq!(rustix::net::send(&b, rest, SEND_FLAGS), Ok(rest.len()));
            assert_eq!(a.read(), Read::Drained);
            assert!(!a.is_not_reread());
        }
    }

    #[test]
    fn a_damaged_head_is_an_error() {
        let (mut a, b) = pair(true);
        rustix::net::send(&b, &[0xff; 64], SendFlags::NOSIGNAL).expect("sent");
        a.read();
        assert!(a.next().is_err());
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

    /// Two long frames of which the second is half there.
    #[test]
    fn a_front_is_offered_whatever_became_of_the_one_before() {
        let payload = vec![5; 40_000];
        let head = Head { kind: Kind::Packet, body_bytes: 40_004, header_bytes: 4, sums: None }.emit();
        let frame = [&head[..], b"head", &payload].concat();
        let bytes = frame.repeat(2);
        // As soon as its header is there; while it is fetched it is offered for each part.
        for (taking, count) in [(Taking::Whole, 2), (Taking::LetGo, 3)] {
            let (mut a, b) = pair(false);
            let (mut fronts_count, mut packets_count, mut place) = (0, 0, vec![0; payload.len()]);
            let half = HEAD_BYTES + 20_000;
            for (from, to) in [(0, half), (half, frame.len() + HEAD_BYTES + 4)] {
                let part = &bytes[from..to];
                assert_eq!(rustix::net::send(&b, part, SEND_FLAGS), Ok(part.len()));
                while a.read() != Read::Nothing {
                    loop {
                        match a.next().expect("frames") {
                            Next::Front(..) => {
                                fronts_count += 1;
                                if taking == Taking::LetGo && fronts_count == 1 {
                                    assert_eq!(a.fetch(&mut place).0, Fetched::Part);
                                }
                            }
                            Next::Packet(_) => packets_count += 1,
                            _ => break,
                        }
                    }
                }
            }
            assert_eq!((fronts_count, packets_count), (count, usize::from(taking == Taking::Whole)));
        }
    }

    #[test]
    fn a_send_neither_waits_nor_raises_a_signal() {
        assert!(SEND_FLAGS.contains(SendFlags::DONTWAIT) && SEND_FLAGS.contains(SendFlags::NOSIGNAL));
    }
}
