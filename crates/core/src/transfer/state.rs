//! The states of a transfer, and what takes it from one to another.
//!
//! ```text
//!  sender
//!                 Cts              AllGiven
//!   Offered ─────────────► Sending ─────────► Sent
//!      │                   │  ▲  ▲              │ │
//!      │             NoRoom│  │  └───── Lost ───┘ │
//!      │                   ▼  │ Room              │
//!      │                 Blocked                  │
//!      │ Fin, Withdrawn     │ Finished            │ Finished (so may Sending)
//!      └────────────────────┴──────► Ended ◄──────┘
//!
//!  receiver
//!              Get              AllGiven
//!   Matched ────────► Getting ───────────► Fetching
//!    │   ▲               │ Broken              │ Broken
//!    │   │   Drained     ▼                     │
//!    │   └─────────── Draining ◄───────────────┘
//!    │ Ask
//!    ▼           Fin, Finished
//!   Receiving ─────────────────► Ended ◄── Finished ── Fetching
//! ```
//!
//! Any state but `Ended` goes to `Ended` when the peer is lost; such a transfer is dropped, so the table need
//! not say so.

/// Where a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Sender: the message is announced; the receiver has not answered.
    Offered,
    /// Sender: there are units to give to rails.
    Sending,
    /// Sender: there are units to give, and no rail has room.
    Blocked,
    /// Sender: all units are given, not all have arrived.
    Sent,
    /// Receiver: the message is matched; its way is not chosen.
    Matched,
    /// Receiver: there are bytes to get.
    Getting,
    /// Receiver: all gets are issued, not all are done.
    Fetching,
    /// Receiver: gets do not work; some are under way still.
    Draining,
    /// Receiver: the sender was asked for the data.
    Receiving,
    /// It is over.
    Ended,
}

/// Events of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The receiver is ready (from the peer).
    Cts,
    /// The other side has moved everything (from the peer).
    Fin,
    /// The send is cancelled.
    Withdrawn,
    /// No rail has room.
    NoRoom,
    /// A rail may have room.
    Room,
    /// All data has been given to the device.
    AllGiven,
    /// Units are lost and must be given again.
    Lost,
    /// Everything has arrived.
    Finished,
    /// The data will be got.
    Get,
    /// The sender is asked for the data.
    Ask,
    /// Gets do not work.
    Broken,
    /// No get is under way any more.
    Drained,
}

/// All transitions. No others happen; if a peer's event causes another one, the peer misbehaves.
const TRANSITIONS: &[(State, Event, State)] = {
    use Event::*;
    use State::*;
    &[
        (Offered, Cts, Sending),
        (Offered, Fin, Ended),
        (Offered, Withdrawn, Ended),
        (Sending, NoRoom, Blocked),
        (Sending, AllGiven, Sent),
        (Sending, Lost, Sending),
        (Sending, Finished, Ended),
        (Blocked, Room, Sending),
        (Blocked, Lost, Blocked),
        (Blocked, Finished, Ended),
        (Sent, Lost, Sending),
        (Sent, Finished, Ended),
        (Matched, Get, Getting),
        (Matched, Ask, Receiving),
        (Getting, AllGiven, Fetching),
        (Getting, Broken, Draining),
        (Fetching, Broken, Draining),
        (Fetching, Finished, Ended),
        (Draining, Broken, Draining),
        (Draining, Drained, Matched),
        (Receiving, Fin, Ended),
        (Receiving, Finished, Ended),
    ]
};

impl State {
    /// The state after an event; `None`: it cannot happen here.
    pub(crate) fn after(self, event: Event) -> Option<Self> {
        let found = TRANSITIONS.iter().find(|(from, by, _)| (*from, *by) == (self, event));
        found.map(|&(_, _, to)| to)
    }

    /// Whether data is on its way, or will be without the peer doing anything.
    pub(crate) fn moves_data(self) -> bool {
        !matches!(self, Self::Offered | Self::Ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn the_transitions_are_those_of_the_snapshot() {
        let lines: Vec<String> =
            TRANSITIONS.iter().map(|(from, event, to)| format!("{from:?} {event:?} {to:?}")).collect();
        assert_eq!(lines.join("\n"), include_str!("transitions.txt").trim_end());
    }

    #[test]
    fn data_moves_from_the_match_on_to_the_end() {
        let moves: Vec<State> =
            TRANSITIONS.iter().map(|(from, ..)| *from).filter(|s| s.moves_data()).collect();
        assert!(!moves.contains(&State::Offered) && !State::Ended.moves_data());
        for state in [State::Sending, State::Blocked, State::Sent, State::Matched, State::Receiving] {
            assert!(moves.contains(&state), "{state:?}");
        }
    }

    #[test]
    fn no_event_leads_to_two_states_and_none_out_of_the_end() {
        for (index, (from, event, _)) in TRANSITIONS.iter().enumerate() {
            assert!(
                !TRANSITIONS[..index].iter().any(|(f, e, _)| (f, e) == (from, event)),
                "{from:?} {event:?}"
            );
            assert_ne!(*from, State::Ended);
        }
    }
}
