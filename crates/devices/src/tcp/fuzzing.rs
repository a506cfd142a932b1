//! Entry points for fuzzers: what a stranger or a damaged wire may say, said to the code that reads it. Sums
//! and MACs count as right here (`cfg(fuzzing)`), or nothing behind them would ever be reached.

use super::handshake::{self, CHALLENGE_BYTES, HELLO_BYTES, Hello, Key, VERDICT_BYTES};
use super::inflow::{Inflow, Next, Read};
use ayatori_core::device::Fetched;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

/// Bytes of a connection, in chunks: the first byte of each says how long it is and whether long packets are
/// fetched.
pub fn stream(data: &[u8]) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok((ours, theirs)) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return };
    let (mut inflow, mut rest, mut place) = (Inflow::new(), data, Vec::new());
    while let Some((&how, behind)) = rest.split_first() {
        let (chunk, behind) = behind.split_at(behind.len().min(8 * usize::from(how >> 1)));
        rest = behind;
        // Repeated, so that short inputs make long packets.
        for _ in 0..if how & 1 == 0 { 1 } else { 64 } {
            let _ = send(&theirs, chunk, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            while !matches!(inflow.read(&ours, false), Read::Nothing | Read::Ended) {
                loop {
                    match inflow.next() {
                        Ok(Next::Packet(range)) => assert!(inflow.bytes(range).len() < 700_000),
                        Ok(Next::Front(range, payload_bytes)) => {
                            let _ = inflow.bytes(range);
                            place.resize(payload_bytes, 0);
                            if how & 2 == 0 && inflow.fetch(&ours, &mut place, false).0 == Fetched::Lost {
                                return;
                            }
                        }
                        Ok(Next::Goodbye | Next::Nothing | Next::Skipping) => break,
                        Err(_) => return,
                    }
                }
            }
        }
    }
}

/// A handshake's messages, one after the other.
pub fn handshake(data: &[u8]) {
    let key = Key::new([7; 32]);
    let Some((hello, rest)) = data.split_first_chunk::<HELLO_BYTES>() else { return };
    if let Ok(parsed) = Hello::parse(hello) {
        assert_eq!(parsed.emit(), *hello, "a hello has one form");
    }
    let Some((challenge, rest)) = rest.split_first_chunk::<CHALLENGE_BYTES>() else { return };
    let _ = handshake::prove(&key, hello, challenge);
    let Some((verdict, _)) = rest.split_first_chunk::<VERDICT_BYTES>() else { return };
    let _ = handshake::parse_verdict(&key, verdict, hello, challenge);
}
