//! Which protocol carries a message: a pure function that can say why.

use crate::device::RailCapabilities;
use alloc::format;
use alloc::string::String;

/// How a message travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// In one packet, at once; the receiver copies it.
    Eager,
    /// Announced (RTS); the receiver reads the sender's memory, then FIN.
    RendezvousGet,
    /// Announced (RTS), answered (CTS); the sender writes the receiver's memory, then FIN (P1, §2).
    RendezvousPut,
    /// Announced (RTS), answered (CTS); then packets through the rail, copied at both ends.
    RendezvousStream,
}

/// Chooses for a message of `length_bytes` on `rail`. `eager_bytes_max`: the user's own limit, if any.
pub fn select(length_bytes: usize, rail: &RailCapabilities, eager_bytes_max: Option<usize>) -> Protocol {
    if length_bytes <= eager_bytes_max.unwrap_or(rail.eager_bytes_max) {
        Protocol::Eager
    } else if length_bytes < rail.transfer_bytes_min {
        Protocol::RendezvousStream
    } else if rail.get {
        Protocol::RendezvousGet
    } else if rail.put {
        Protocol::RendezvousPut
    } else {
        Protocol::RendezvousStream
    }
}

/// The choice in words, with the figures it rests on.
pub fn explain(length_bytes: usize, rail: &RailCapabilities, eager_bytes_max: Option<usize>) -> String {
    let limit = eager_bytes_max.unwrap_or(rail.eager_bytes_max);
    let whose = if eager_bytes_max.is_some() { "set by the user" } else { "the rail's" };
    let name = rail.name;
    match select(length_bytes, rail, eager_bytes_max) {
        Protocol::Eager => format!(
            "eager over {name}: {length_bytes} B is at most the eager limit of {limit} B ({whose}); one packet, one copy at the receiver."
        ),
        Protocol::RendezvousGet => format!(
            "rendezvous by get over {name}: {length_bytes} B is above the eager limit of {limit} B ({whose}) and {name} reads a peer's memory; RTS, the receiver reads pieces of at most {} B, FIN; one copy in all.{}",
            rail.transfer_bytes_max,
            if rail.streams_awaited {
                " A sender that waits for its end and has nothing else under way sends packets instead: both sides copying at once is faster."
            } else {
                ""
            }
        ),
        Protocol::RendezvousPut => format!(
            "rendezvous by put over {name}: {length_bytes} B is above the eager limit of {limit} B ({whose}) and {name} writes a peer's memory; RTS, CTS with the keys, pieces of at most {} B, FIN.",
            rail.transfer_bytes_max
        ),
        Protocol::RendezvousStream => format!(
            "rendezvous by packets over {name}: {length_bytes} B is above the eager limit of {limit} B ({whose}) and {}; RTS, CTS, packets of at most {} B{}, copied at both ends.",
            reason_for_packets(rail),
            rail.packet_bytes_max,
            if rail.long_packet_bytes_max > rail.packet_bytes_max {
                format!(" (of {} B where that takes the rail little time)", rail.long_packet_bytes_max)
            } else {
                String::new()
            }
        ),
    }
}

fn reason_for_packets(rail: &RailCapabilities) -> String {
    let name = rail.name;
    match rail.get || rail.put {
        true => format!(
            "below {} B both sides copying at once is faster than one (a sender with more under way lets the receiver read its memory)",
            rail.transfer_bytes_min
        ),
        false => format!("{name} neither reads nor writes a peer's memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_at_the_limit_and_follows_capabilities() {
        let mut rail = RailCapabilities { eager_bytes_max: 4096, ..RailCapabilities::default() };
        assert_eq!(select(4096, &rail, None), Protocol::Eager);
        assert_eq!(select(4097, &rail, None), Protocol::RendezvousStream);
        rail.put = true;
        assert_eq!(select(4097, &rail, None), Protocol::RendezvousPut);
        rail.get = true;
        assert_eq!(select(4097, &rail, None), Protocol::RendezvousGet);
        assert_eq!(select(4096, &rail, Some(0)), Protocol::RendezvousGet);
        rail.transfer_bytes_min = 9000;
        assert_eq!(select(8999, &rail, None), Protocol::RendezvousStream);
        assert!(explain(8999, &rail, None).contains("below 9000 B"));
        assert_eq!(select(9000, &rail, None), Protocol::RendezvousGet);
        assert!(explain(4097, &rail, None).contains("above the eager limit of 4096 B"));
        assert!(explain(8999, &rail, None).contains("packets of at most 8192 B, copied"));
        rail.long_packet_bytes_max = 99_000;
        assert!(explain(8999, &rail, None).contains("packets of at most 8192 B (of 99000 B where"));
    }
}
