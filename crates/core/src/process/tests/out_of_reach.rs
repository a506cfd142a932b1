//! Receives from processes to which no rail has ever come up, as the device reports them.

use super::trunk::mbit;
use super::wire::{Port, Wire, tcp};
use crate::Error;
use crate::buffer::Buffer;
use crate::comm::Communicator;
use crate::device::Event;
use crate::group::Group;
use crate::ids::{CommId, ProcessId, Rail, RequestId, Source, TagSelector};
use crate::link::TrunkConfig;
use crate::process::{Config, Process};
use crate::request::Posted;
use crate::rma::Memory;
use crate::time::{Duration, Instant};
use alloc::vec;
use alloc::vec::Vec;

/// How long peers are without rails before they are given up.
const LIMIT: Duration = Duration::from_s(2);

/// Process 1 of some, with two rails to each of the others, of which nothing is known.
struct Lonely {
    process: Process,
    wire: Wire,
}

impl Lonely {
    fn new() -> Self {
        Self::among(3)
    }

    fn among(count: u32) -> Self {
        let trunk = TrunkConfig { peer_timeout: LIMIT, ..TrunkConfig::default() };
        let config = Config { trunk, ..Config::default() };
        let (lines, _) = mbit(&[1000, 1000]);
        let process = Process::new(ProcessId(1), count, config);
        Self { process, wire: Wire::with(lines, tcp(), config, 1) }
    }

    fn port(&mut self) -> (&mut Process, &mut Port) {
        (&mut self.process, &mut self.wire.nodes[1].1)
    }

    fn receive(&mut self, from: Source) -> RequestId {
        self.receive_on(CommId::WORLD, from)
    }

    fn receive_on(&mut self, comm: CommId, from: Source) -> RequestId {
        let (process, port) = self.port();
        let posted = process.irecv(port, comm, Buffer::virtual_of(8), from, TagSelector::Any);
        let Posted::Pending(id) = posted.expect("nothing is known") else { panic!("nothing has come") };
        id
    }

    /// All rails to a peer come up, or do not.
    fn report(&mut self, peer: u32, is_up: bool) {
        for rail in [Rail(0), Rail(1)] {
            let (process, port) = self.port();
            let report = if is_up { Event::RailUp } else { Event::RailDown };
            process.handle_event(port, report(rail, ProcessId(peer)));
        }
    }

    /// Calls the process when it wants to be called, and tells it the time only if it wants that.
    fn run(&mut self, from: Instant, until: Instant) {
        let mut now = from;
        while now < until {
            let (process, port) = self.port();
            if process.wants_time() {
                process.handle_timeout(now);
            }
            while process.progress(port) {}
            let next = process.poll_timeout().unwrap_or(until);
            assert!(next > now, "called at {now:?}, asks for {next:?}");
            now = next.min(until);
        }
    }

    fn error(&mut self, request: RequestId) -> Option<Option<Error>> {
        Some(self.process.take(request).expect("it is not taken yet")?.error)
    }

    fn sources(&self) -> Vec<u32> {
        self.process.sources().map(|process| process.0).collect()
    }
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_s(seconds)
}

const UNREACHABLE: Option<Option<Error>> = Some(Some(Error::Unreachable(ProcessId(2))));

#[test]
fn a_receive_from_a_process_never_reached_ends() {
    let mut lonely = Lonely::new();
    let receive = lonely.receive(Source::Rank(2));
    assert_eq!(lonely.sources(), [2]);
    // The job has run for long, and nobody has told the time before.
    lonely.report(2, false);
    lonely.run(at(30), at(32));
    assert_eq!(lonely.error(receive), None, "it has not lasted for two seconds");
    lonely.run(at(32), at(33));
    assert_eq!(lonely.error(receive), UNREACHABLE);
}

#[test]
fn one_rail_of_a_link_is_up_while_another_is_not() {
    let mut lonely = Lonely::new();
    let _receive = lonely.receive(Source::Rank(2));
    lonely.report(2, true);
    lonely.run(at(1), at(2));
    let (process, port) = lonely.port();
    process.handle_event(port, Event::RailDown(Rail(1), ProcessId(2)));
    let links = &process.messages().links;
    let link = links.get(links.index_of(ProcessId(2)).expect("it is known"));
    assert_eq!([Rail(0), Rail(1), Rail(2)].map(|rail| link.is_up(rail)), [true, false, false]);
}

#[test]
fn any_source_is_served_by_one_that_is_reached() {
    let mut lonely = Lonely::new();
    let receive = lonely.receive(Source::Any);
    assert_eq!(lonely.sources(), [2], "one is enough");
    lonely.report(2, false);
    assert_eq!(lonely.sources(), [2], "it may come up still");
    let news = lonely.process.news_count();
    lonely.run(at(30), at(33));
    assert_ne!(lonely.process.news_count(), news, "the device is told of others");
    assert_eq!(lonely.error(receive), None, "the other one may send");
    assert_eq!(lonely.sources(), [0], "it is looked for now");
    lonely.report(0, true);
    assert_eq!(lonely.sources(), [0; 0], "one is there");
    // Not for longer: nobody answers its questions here.
    lonely.run(at(33), at(34));
    assert_eq!(lonely.error(receive), None);
    // What needs the other one alone is told.
    let alone = lonely.receive(Source::Rank(2));
    lonely.run(at(34), at(37));
    assert_eq!(lonely.error(alone), UNREACHABLE);
}

#[test]
fn any_source_ends_when_all_are_out_of_reach() {
    let mut lonely = Lonely::new();
    let receive = lonely.receive(Source::Any);
    lonely.report(2, false);
    lonely.run(at(30), at(33));
    lonely.report(0, false);
    lonely.run(at(33), at(34));
    assert_eq!(lonely.error(receive), None, "the other one is looked for");
    lonely.run(at(34), at(36));
    assert!(matches!(lonely.error(receive), Some(Some(Error::Unreachable(_)))));
    let late = lonely.port();
    let late = late.0.irecv(late.1, CommId::WORLD, Buffer::virtual_of(8), Source::Rank(0), TagSelector::Any);
    assert_eq!(late.map(|_| ()), Err(Error::Unreachable(ProcessId(0))));
}

#[test]
fn a_process_out_of_reach_that_comes_up_is_reached() {
    let mut lonely = Lonely::new();
    let receive = lonely.receive(Source::Any);
    lonely.report(2, false);
    lonely.run(at(30), at(33));
    lonely.report(2, true);
    lonely.report(0, false);
    lonely.run(at(33), at(34));
    assert_eq!(lonely.error(receive), None, "one is there");
    assert_eq!(lonely.sources(), [0; 0]);
}

#[test]
fn a_receive_beside_one_from_any_source_ends() {
    let mut lonely = Lonely::new();
    let (any, from_it) = (lonely.receive(Source::Any), lonely.receive(Source::Rank(2)));
    lonely.report(2, false);
    lonely.run(at(30), at(33));
    assert_eq!(lonely.error(from_it), UNREACHABLE);
    // As where a message to it failed: it might have been the one that matches.
    assert_eq!(lonely.error(any), UNREACHABLE);
}

#[test]
fn a_probe_that_waits_ends_as_a_receive_does() {
    for source in [Source::Rank(2), Source::Any] {
        let mut lonely = Lonely::new();
        let probe = lonely.process.begin_probe(CommId::WORLD, source).unwrap().expect("no null process");
        assert_eq!(lonely.sources(), [2]);
        lonely.report(2, false);
        if source == Source::Any {
            lonely.report(0, false);
        }
        lonely.run(at(30), at(32));
        assert_eq!(lonely.process.iprobe(CommId::WORLD, source, TagSelector::Any), Ok(None));
        lonely.run(at(32), at(35));
        let end = lonely.process.iprobe(CommId::WORLD, source, TagSelector::Any);
        assert!(matches!(end, Err(Error::Unreachable(_))), "{end:?}");
        lonely.process.end_probe(probe);
        assert_eq!(lonely.sources(), [0; 0]);
    }
}

#[test]
fn a_process_never_reached_that_nothing_waits_for_is_given_up() {
    // A receive waits for none, or for one that it is not among.
    for has_receive in [false, true] {
        let mut lonely = Lonely::new();
        let group = Group::from_members(vec![ProcessId(0), ProcessId(1)]).unwrap();
        let comms = &mut lonely.process.comms;
        let (comm, context) = (comms.reserve(), comms.new_context());
        comms.fill(comm, Some(Communicator::new(context, group, 1)));
        let receive = has_receive.then(|| lonely.receive_on(comm, Source::Any));
        lonely.report(2, false);
        lonely.run(at(30), at(33));
        lonely.run(at(33), at(36));
        assert_eq!(receive.and_then(|receive| lonely.error(receive)), None);
        let (process, port) = lonely.port();
        let late =
            process.irecv(port, CommId::WORLD, Buffer::virtual_of(8), Source::Rank(2), TagSelector::Any);
        assert_eq!(late.map(|_| ()), Err(Error::Unreachable(ProcessId(2))));
    }
}

#[test]
fn a_window_that_waits_for_a_process_never_reached_hears_of_it() {
    let mut lonely = Lonely::new();
    let mut windows = lonely.process.windows();
    let window = windows.add(CommId::WORLD, Memory::Fixed(Buffer::EMPTY)).unwrap();
    let Ok(Posted::Pending(started)) = windows.start(window, vec![2]) else { panic!("it waits") };
    let any = lonely.receive(Source::Any);
    lonely.report(2, false);
    lonely.run(at(30), at(33));
    lonely.run(at(33), at(36));
    assert_eq!(lonely.error(started), UNREACHABLE);
    assert_eq!(lonely.error(any), UNREACHABLE);
}

#[test]
fn any_source_of_two_ends_when_the_other_is_out_of_reach() {
    let mut lonely = Lonely::among(2);
    let receive = lonely.receive(Source::Any);
    lonely.report(0, false);
    lonely.run(at(30), at(33));
    lonely.run(at(33), at(36));
    assert_eq!(lonely.error(receive), Some(Some(Error::Unreachable(ProcessId(0)))));
}
