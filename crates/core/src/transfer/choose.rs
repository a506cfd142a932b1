//! Which way a message goes, decided by pure functions whose result can say why.
//!
//! [`choose`] is asked by the sender for every message, [`answer`] by the receiver of an announced one when
//! it is matched: the sender offers its possible ways, the receiver chooses one that it supports. `ayatori
//! info --explain` prints the same value.

pub use super::learn::Learnt;
use crate::device::RailCapabilities;
use crate::ids::{Rail, RailSet};
use crate::link::{self, Policy};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// How a message travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// In one packet, at once; the receiver copies it.
    Eager,
    /// Announced (RTS); the receiver reads the sender's memory, then FIN.
    Get,
    /// Announced (RTS), answered (CTS); the sender writes the receiver's memory, then FIN (P1, §2).
    Put,
    /// Announced (RTS), answered (CTS); then packets, copied at both ends.
    Stream,
}

/// How the bytes of one end lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// In one piece, which a peer can be given to read or write.
    Contiguous,
    /// In several pieces, which their owner packs and unpacks.
    Pieces,
}

/// The rails to a peer.
#[derive(Clone, Copy, Debug)]
pub struct Rails<'a> {
    /// All rails of the device.
    pub all: &'a [RailCapabilities],
    /// Those that reach the peer.
    pub reach: RailSet,
}

impl<'a> Rails<'a> {
    fn iter(self) -> impl Iterator<Item = (Rail, &'a RailCapabilities)> + Clone {
        self.reach.iter().filter_map(move |rail| Some((rail, self.all.get(usize::from(rail.0))?)))
    }

    fn capabilities(self) -> impl Iterator<Item = &'a RailCapabilities> + Clone {
        self.iter().map(|(_, rail)| rail)
    }

    fn that(self, can: impl Fn(&RailCapabilities) -> bool) -> RailSet {
        let able = self.iter().filter(|(_, rail)| can(rail));
        RailSet(able.fold(0, |set, (rail, _)| set | RailSet::one(rail).0))
    }

    fn need_acknowledgements(self) -> bool {
        link::needs_acknowledgements(self.capabilities())
    }
}

/// The sender's facts.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Length of the message.
    pub length_bytes: usize,
    /// The sender's end.
    pub source: Shape,
    /// To the receiver.
    pub rails: Rails<'a>,
    /// The user's own eager limit, if any.
    pub eager_bytes_max: Option<usize>,
    /// Whether there is credit for an eager message.
    pub has_credit: bool,
    /// Whether the sender has nothing else under way: it has time to copy.
    pub is_alone: bool,
    /// Whether the sender waits for this message and does nothing else.
    pub is_awaited: bool,
    /// Measured choice for this peer and length, [`Way::Eager`] or [`Way::Get`], if there is one.
    pub learnt: Option<Learnt>,
}

impl Question<'_> {
    /// Whether the sender measures if the message is quicker eagerly or announced.
    fn is_learnt(&self) -> bool {
        self.is_alone
            && self.source == Shape::Contiguous
            && self.eager_bytes_max.is_none()
            && !self.rails.need_acknowledgements()
            && self.rails.capabilities().any(|rail| rail.learns_eager(self.length_bytes))
    }
}

/// The receiver's facts about an announced, matched message.
#[derive(Clone, Copy, Debug)]
pub struct Announced<'a> {
    /// As much of the message as is taken.
    pub length_bytes: u64,
    /// The receiver's end.
    pub sink: Shape,
    /// To the sender.
    pub rails: Rails<'a>,
    /// The rails by which the sender lets its memory be read.
    pub offered: RailSet,
    /// Whether it would rather send packets than wait, too: it said so, or waits in a call.
    pub offers_packets: bool,
    /// Measured choice for this peer and length; `None`: none, for there is no clock.
    pub learnt: Option<Learnt>,
    /// Why gets do not move it, if they were tried.
    pub got: Option<Failure>,
}

/// Why gets do not move a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The device cannot do it.
    Refused,
    /// One failed on its way.
    Broken,
}

/// A decision: the way, by which rails, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// How the message travels.
    pub way: Way,
    /// The rails that read or write memory; empty for packets.
    pub rails: RailSet,
    /// Whether the receiver may choose packets from a sender that lets its memory be read.
    pub offers_packets: bool,
    /// The reason of the choice.
    pub reason: Reason,
}

/// Reason of a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The message is at most as long as an eager one may be.
    Short,
    /// A rail reads a peer's memory.
    Reads,
    /// A rail writes a peer's memory.
    Writes,
    /// Rails that spread a message write better than they read.
    Spreads,
    /// The sender has time to copy, too; which of both is quicker is not measured.
    BothCopy,
    /// By measurement it is the quicker way.
    Measured,
    /// It is measured, to be compared with the way held.
    Looked,
    /// One end is in pieces that the other side cannot be given.
    Pieces,
    /// Gets were tried and do not work.
    GetFailed,
    /// No rail reads or writes a peer's memory.
    OnlyPackets,
    /// There is nothing to move.
    Empty,
}

impl Learnt {
    fn reason(self) -> Reason {
        match self {
            Self::Held(_) => Reason::Measured,
            Self::Looked(_) => Reason::Looked,
        }
    }
}

/// The sender's decision.
pub fn choose(question: &Question<'_>) -> Choice {
    let Question { length_bytes, rails, is_alone, is_awaited, .. } = *question;
    let limit = link::eager_bytes_max(rails.capabilities(), question.eager_bytes_max);
    let learnt = question.learnt.map(Learnt::way);
    if question.has_credit && learnt != Some(Way::Get) && (length_bytes <= limit || question.is_learnt()) {
        let reason = question.learnt.map_or(Reason::Short, Learnt::reason);
        return Choice::new(Way::Eager, RailSet::default(), reason);
    }
    let spreads = rails.need_acknowledgements();
    // A sender with nothing else under way has time to copy while the receiver does: a long message only if
    // it waits for that. With more under way, one copy for each is less work. The receiver knows which of
    // both is quicker.
    let is_short = |rail: &RailCapabilities| length_bytes < rail.transfer_bytes_min;
    let may_copy =
        |rail: &RailCapabilities| is_alone && (is_short(rail) || is_awaited && rail.streams_awaited);
    let is_contiguous = question.source == Shape::Contiguous;
    // Over several rails the sender puts where it can: it spreads better than a receiver that gets.
    let by_get = rails.that(|rail| is_contiguous && rail.get && !(spreads && rail.put));
    if !by_get.is_empty() {
        // Announced instead of eager, to be read and not to be sent in packets.
        let offers_packets = !spreads && learnt.is_none() && rails.capabilities().any(may_copy);
        let reason = question.learnt.map_or(Reason::Reads, Learnt::reason);
        return Choice { offers_packets, ..Choice::new(Way::Get, by_get, reason) };
    }
    let (by_put, reads) = (puts(rails), rails.capabilities().any(|rail| rail.get));
    if !by_put.is_empty() {
        return Choice::new(Way::Put, by_put, if reads { Reason::Spreads } else { Reason::Writes });
    }
    let reason = if reads { Reason::Pieces } else { Reason::OnlyPackets };
    Choice::new(Way::Stream, RailSet::default(), reason)
}

/// The rails by which a receiver lets its memory be written. One that could have read and was not let will
/// get packets.
fn puts(rails: Rails<'_>) -> RailSet {
    let spreads = rails.need_acknowledgements();
    rails.that(|rail| rail.put && (spreads || !rail.get))
}

/// Whether packets may be asked of a sender that waits with several messages under way.
pub(super) fn streams_awaited(rails: Rails<'_>) -> bool {
    !rails.need_acknowledgements() && rails.capabilities().any(|rail| rail.streams_awaited)
}

/// The receiver's decision.
pub fn answer(announced: &Announced<'_>) -> Choice {
    let Announced { length_bytes, rails, offered, got, sink, offers_packets, learnt } = *announced;
    if length_bytes == 0 {
        return Choice::new(Way::Get, RailSet::default(), Reason::Empty);
    }
    if !offered.is_empty() && got.is_none() {
        let (way, reason) = match learnt {
            _ if !offers_packets => (Way::Get, Reason::Reads),
            None => (Way::Stream, Reason::BothCopy),
            Some(learnt) => (learnt.way(), learnt.reason()),
        };
        return Choice::new(way, if way == Way::Stream { RailSet::default() } else { offered }, reason);
    }
    let by_put = puts(rails);
    let reason = match got {
        Some(Failure::Broken) => Reason::GetFailed,
        _ if by_put.is_empty() => Reason::OnlyPackets,
        _ if sink != Shape::Contiguous => Reason::Pieces,
        _ => return Choice::new(Way::Put, by_put, Reason::Writes),
    };
    Choice::new(Way::Stream, RailSet::default(), reason)
}

impl Choice {
    fn new(way: Way, rails: RailSet, reason: Reason) -> Self {
        Self { way, rails, offers_packets: false, reason }
    }

    /// The choice in words, with the figures it rests on, and how the data is spread if there are several
    /// rails.
    pub fn explain(&self, question: &Question<'_>, policy: Policy) -> String {
        let mut text = self.explain_way(question);
        if self.way != Way::Eager && question.rails.need_acknowledgements() {
            let rails: Vec<RailCapabilities> = question.rails.capabilities().copied().collect();
            text += "\n  data: ";
            // Parts of gets are fixed when the message begins.
            let is_fixed = self.way == Way::Get && policy == Policy::Adaptive;
            let policy = if is_fixed { Policy::Weighted } else { policy };
            text += &link::explain(&rails, policy, question.length_bytes as u64);
        }
        text
    }

    fn explain_way(&self, question: &Question<'_>) -> String {
        let Question { length_bytes, rails, eager_bytes_max, .. } = *question;
        let limit = link::eager_bytes_max(rails.capabilities(), eager_bytes_max);
        let whose = if eager_bytes_max.is_some() { "set by the user" } else { "the rail's" };
        // That of the lowest latency is the one that short messages take.
        let Some(rail) = rails.capabilities().min_by_key(|rail| rail.latency_ps) else {
            return "no rail reaches the receiver".into();
        };
        let RailCapabilities { name, packet_bytes_max, long_packet_bytes_max, transfer_bytes_max, .. } =
            *rail;
        let above = format!("{length_bytes} B is above the eager limit of {limit} B ({whose})");
        match self.way {
            Way::Eager => {
                let passes = match length_bytes <= limit {
                    true => "at most",
                    false => "above, as a sender with nothing else under way may go,",
                };
                let learnt = if question.is_learnt() { EAGER_IS_LEARNT } else { "" };
                format!(
                    "eager over {name}: {length_bytes} B is {passes} the eager limit of {limit} B \
                     ({whose}); one packet, one copy at the receiver.{learnt}"
                )
            }
            Way::Get => {
                let or_packets = match self.offers_packets {
                    true => format!(" Or by packets of at most {packet_bytes_max} B, {PACKETS_ARE_LEARNT}"),
                    false if rail.streams_awaited => PACKETS_ARE_AWAITED.into(),
                    false => String::new(),
                };
                format!(
                    "rendezvous by get over {name}: {above} and {name} reads a peer's memory; RTS, the \
                     receiver reads pieces of at most {transfer_bytes_max} B, FIN; one copy in \
                     all.{or_packets}"
                )
            }
            Way::Put => format!(
                "rendezvous by put over {name}: {above} and {name} writes a peer's memory; RTS, CTS with the \
                 keys, pieces of at most {transfer_bytes_max} B, FIN."
            ),
            Way::Stream => {
                let why = self.reason.in_words(name);
                let longer = match long_packet_bytes_max > packet_bytes_max {
                    true => format!(" (of {long_packet_bytes_max} B where that takes the rail little time)"),
                    false => String::new(),
                };
                format!(
                    "rendezvous by packets over {name}: {above} and {why}; RTS, CTS, packets of at most \
                     {packet_bytes_max} B{longer}, copied at both ends."
                )
            }
        }
    }
}

const EAGER_IS_LEARNT: &str = " Or announced and read by the receiver, if that is quicker: a sender with \
     nothing else under way measures both ways for each peer and power of two of lengths, takes the quicker \
     one, begins with that of messages half as long, or eager, and tries the other way again, with ten \
     messages in 256.";
const PACKETS_ARE_LEARNT: &str = "copied by both sides at once, as the sender has nothing else under way: \
     the receiver measures both ways for each peer and power of two of lengths, takes the quicker one, \
     begins with that of shorter ones, or packets, and looks at the other way again, with at most six \
     messages in 256.";
const PACKETS_ARE_AWAITED: &str = " A sender that waits for its end and has nothing else under way offers \
     packets, too, which both sides copy at once, and one that waits with more under way is asked for \
     them: the receiver takes the way that was quicker by measurement.";

impl Reason {
    fn in_words(self, rail_name: &str) -> String {
        match self {
            Self::BothCopy => "the sender has time to copy, and nothing is measured".into(),
            Self::Measured => "that was quicker by measurement".into(),
            Self::Looked => "that is measured, to be compared with a get".into(),
            Self::Pieces => "its bytes are in pieces, which the other side is not given".into(),
            Self::GetFailed => "a get failed".into(),
            _ => format!("{rail_name} neither reads nor writes a peer's memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn ask(rails: &[RailCapabilities], length_bytes: usize) -> Question<'_> {
        Question {
            length_bytes,
            source: Shape::Contiguous,
            rails: Rails { all: rails, reach: RailSet((1 << rails.len()) - 1) },
            eager_bytes_max: None,
            has_credit: true,
            is_alone: true,
            is_awaited: false,
            learnt: None,
        }
    }

    #[test]
    fn the_switch_is_at_the_limit_and_follows_capabilities() {
        let mut rails = [RailCapabilities { eager_bytes_max: 4096, ..RailCapabilities::default() }];
        let way = |rails: &[RailCapabilities], length| choose(&ask(rails, length)).way;
        assert_eq!([4096, 4097].map(|length| way(&rails, length)), [Way::Eager, Way::Stream]);
        rails[0].put = true;
        assert_eq!(way(&rails, 4097), Way::Put);
        rails[0].get = true;
        assert_eq!(way(&rails, 4097), Way::Get);
        assert_eq!(choose(&Question { eager_bytes_max: Some(0), ..ask(&rails, 4096) }).way, Way::Get);
        assert_eq!(choose(&Question { has_credit: false, ..ask(&rails, 8) }).way, Way::Get);
        rails[0].put = false;
        rails[0].transfer_bytes_min = 9000;
        let packets = |question: &Question<'_>| {
            let choice = choose(question);
            assert_eq!((choice.way, choice.rails), (Way::Get, RailSet(1)));
            choice.offers_packets
        };
        assert_eq!([8999, 9000].map(|length| packets(&ask(&rails, length))), [true, false]);
        assert!(!packets(&Question { is_alone: false, ..ask(&rails, 8999) }));
        rails[0].streams_awaited = true;
        assert!(packets(&Question { is_awaited: true, ..ask(&rails, 9000) }));
        assert!(!packets(&Question { is_awaited: true, is_alone: false, ..ask(&rails, 9000) }));
        let strided = choose(&Question { source: Shape::Pieces, ..ask(&rails, 9000) });
        assert_eq!((strided.way, strided.reason), (Way::Stream, Reason::Pieces));
    }

    #[test]
    fn an_eager_message_is_announced_where_that_was_quicker() {
        let mut rails = [RailCapabilities { get: true, ..RailCapabilities::default() }];
        rails[0].eager_learnt_bytes = [3_000, 6_000];
        let learnt = |length, learnt| choose(&Question { learnt, ..ask(&rails, length) });
        assert_eq!(
            [3_001, 6_000, 6_001].map(|length| learnt(length, None).way),
            [Way::Eager, Way::Eager, Way::Get]
        );
        let got = learnt(4_000, Some(Learnt::Held(Way::Get)));
        assert_eq!((got.way, got.offers_packets, got.reason), (Way::Get, false, Reason::Measured));
        let eager = learnt(4_000, Some(Learnt::Looked(Way::Eager)));
        assert_eq!((eager.way, eager.reason), (Way::Eager, Reason::Looked));
        let busy = Question { is_alone: false, ..ask(&rails, 6_000) };
        assert_eq!(choose(&busy).way, Way::Get, "above the limit that holds for it");
        let set = Question { eager_bytes_max: Some(4_000), ..ask(&rails, 6_000) };
        assert_eq!(choose(&set).way, Way::Get, "the user's own limit is not passed");
    }

    #[test]
    fn over_several_rails_the_sender_puts_where_it_can() {
        let rail = RailCapabilities { get: true, ..RailCapabilities::default() };
        let rails = vec![RailCapabilities { put: true, ..rail }, rail];
        let choice = choose(&ask(&rails, 100_000));
        assert_eq!((choice.way, choice.rails), (Way::Get, RailSet::one(Rail(1))));
        let rails = vec![RailCapabilities { put: true, ..rail }; 2];
        let choice = choose(&ask(&rails, 100_000));
        assert_eq!((choice.way, choice.rails, choice.reason), (Way::Put, RailSet(3), Reason::Spreads));
    }

    #[test]
    fn the_receiver_takes_what_it_is_offered_or_asks() {
        let rails = [RailCapabilities { put: true, ..RailCapabilities::default() }];
        let announced = Announced {
            length_bytes: 10,
            sink: Shape::Contiguous,
            rails: Rails { all: &rails, reach: RailSet(1) },
            offered: RailSet(1),
            offers_packets: false,
            learnt: None,
            got: None,
        };
        assert_eq!((answer(&announced).way, answer(&announced).offers_packets), (Way::Get, false));
        let either = Announced { offers_packets: true, ..announced };
        let learnt = |learnt| answer(&Announced { learnt, ..either });
        assert_eq!((learnt(None).way, learnt(None).reason), (Way::Stream, Reason::BothCopy));
        assert_eq!(learnt(Some(Learnt::Held(Way::Get))).rails, RailSet(1));
        assert_eq!(learnt(Some(Learnt::Looked(Way::Stream))).way, Way::Stream);
        let kept = Announced { learnt: Some(Learnt::Held(Way::Stream)), ..announced };
        assert_eq!(answer(&kept).way, Way::Get, "the sender has no time to copy");
        assert_eq!(answer(&Announced { got: Some(Failure::Refused), ..announced }).way, Way::Put);
        assert_eq!(answer(&Announced { got: Some(Failure::Broken), ..announced }).way, Way::Stream);
        let asked = Announced { offered: RailSet::default(), ..announced };
        assert_eq!(answer(&asked).way, Way::Put);
        assert_eq!(answer(&Announced { sink: Shape::Pieces, ..asked }).way, Way::Stream);
        assert_eq!(answer(&Announced { length_bytes: 0, ..asked }).reason, Reason::Empty);
    }

    #[test]
    fn the_explanation_gives_the_figures() {
        let mut rails =
            [RailCapabilities { eager_bytes_max: 4096, get: true, ..RailCapabilities::default() }];
        let explain = |rails: &[RailCapabilities], length| {
            let question = ask(rails, length);
            choose(&question).explain(&question, Policy::default())
        };
        let either = "the receiver measures both ways";
        assert!(explain(&rails, 4097).contains("above the eager limit of 4096 B (the rail's)"));
        rails[0].transfer_bytes_min = 9000;
        assert!(explain(&rails, 8999).contains("packets of at most 8192 B, copied by both sides at once"));
        assert!(explain(&rails, 8999).contains(either) && !explain(&rails, 9000).contains(either));
        rails[0].eager_learnt_bytes = [3_000, 6_000];
        assert!(!explain(&rails, 3_000).contains("measures both ways"));
        for (length, part) in [
            (3_001, "3001 B is at most the eager limit of 4096 B (the rail's); one packet"),
            (3_001, "Or announced and read by the receiver"),
            (6_000, "6000 B is above, as a sender with nothing else under way may go"),
            (6_001, "rendezvous by get"),
        ] {
            assert!(explain(&rails, length).contains(part), "{length}: {part}");
        }
        rails[0].get = false;
        rails[0].long_packet_bytes_max = 99_000;
        assert!(explain(&rails, 8999).contains("packets of at most 8192 B (of 99000 B where"));
        rails[0].long_packet_bytes_max = rails[0].packet_bytes_max;
        assert!(explain(&rails, 8999).contains("packets of at most 8192 B, copied"));
        rails[0].eager_learnt_bytes = [0; 2];
        assert!(explain(&rails, 4096).contains("4096 B is at most the eager limit of 4096 B"));
        let two =
            [RailCapabilities { bandwidth_bytes_per_s: 1_000_000_000, ..RailCapabilities::default() }; 2];
        let text = explain(&two, 1 << 20);
        assert!(text.contains("\n  data: 1048576 B over 2 rails, each piece by the rail"), "{text}");
        assert_eq!(text.matches("50 % (1000 MB/s measured, 1000 MB/s said").count(), 2, "{text}");
    }

    #[test]
    fn what_is_explained_of_gets_is_that_their_parts_are_fixed() {
        let able = RailCapabilities { get: true, may_break: true, ..RailCapabilities::default() };
        let [quick, slow] =
            [3, 1].map(|bandwidth_bytes_per_s| RailCapabilities { bandwidth_bytes_per_s, ..able });
        let rails = [quick, slow];
        let question = ask(&rails, 1 << 20);
        let words = |way, policy| {
            let choice = Choice::new(way, RailSet(3), Reason::Measured);
            let text = choice.explain(&question, policy);
            let data = text.split(" over 2 rails, ").nth(1).expect("how they are spread");
            String::from(data.split(':').next().expect("a policy"))
        };
        let shares = "shares by the bandwidth each rail says";
        let each = "each piece by the rail that delivers it first, as measured";
        for (way, policy, expected) in [
            (Way::Get, Policy::Adaptive, shares),
            (Way::Get, Policy::Even, "equal shares"),
            (Way::Stream, Policy::Adaptive, each),
            (Way::Put, Policy::Adaptive, each),
            (Way::Stream, Policy::Weighted, shares),
        ] {
            assert_eq!(words(way, policy), expected, "{way:?} {policy:?}");
        }
    }

    #[test]
    fn each_reason_for_packets_has_words_of_its_own() {
        let words = |reason: Reason| reason.in_words("eth0");
        assert!(words(Reason::BothCopy).contains("has time to copy"));
        assert!(words(Reason::Measured).contains("quicker by measurement"));
        assert!(words(Reason::Looked).contains("to be compared with a get"));
        assert!(words(Reason::Pieces).contains("in pieces"));
        assert!(words(Reason::GetFailed).contains("a get failed"));
        assert!(words(Reason::Empty).contains("eth0 neither reads nor writes"));
    }

    #[test]
    fn packets_are_offered_by_one_rail_that_gets_if_not_learnt() {
        let none = RailCapabilities { transfer_bytes_min: 1 << 30, ..RailCapabilities::default() };
        let [get, put] = [true, false].map(|get| RailCapabilities { get, put: !get, ..none });
        let got = Some(Learnt::Held(Way::Get));
        for (rails, learnt, length, offers) in [
            (&[get][..], None, 100_000, true),
            (&[get; 2], None, 100_000, false),
            (&[get], got, 100_000, false),
            (&[get], None, 1, false),
            (&[put], None, 100_000, false),
            (&[none], None, 100_000, false),
        ] {
            let choice = choose(&Question { learnt, ..ask(rails, length) });
            assert_eq!(choice.offers_packets, offers, "{choice:?}");
        }
    }
}
