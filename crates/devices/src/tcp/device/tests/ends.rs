//! Connections that end, or are not looked at, and what is known of them then.

use super::*;
use crate::tcp::candidates::Candidate;
use crate::tcp::frame::{Head, Kind, Sums};
use crate::tcp::obstacles::Why;
use crate::tcp::sum::sum;

/// Two with connections on all of so many rails.
fn connected(rails: u8) -> (Tcp, Tcp) {
    let (mut a, mut b, _) = pair(rails);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    let count = usize::from(rails);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == count));
    (a, b)
}

/// Ends the acceptor's thread: what it would be told stays where it can be looked at.
fn without_acceptor(device: &mut Tcp) {
    device.shared.order(Order::Stop);
    device.acceptor.take().expect("a thread").join().expect("it ends");
}

#[test]
fn a_connection_that_ends_is_neither_read_nor_read_alone() {
    let (mut a, _b) = connected(1);
    a.expect(Some(ProcessId(1)));
    (a.current, a.solo) = (0, 0);
    a.drop_connection(0);
    assert_eq!((a.current, a.solo), (NONE, NONE));
    // It can sleep: nothing is left to be done.
    while a.arm() == Armed::NotYet {
        while a.poll().is_some() {}
    }
}

#[test]
fn a_connection_that_is_looked_at_anyway_is_listed_once() {
    let (mut a, _b) = connected(1);
    while a.poll().is_some() {}
    a.ready.clear();
    a.connections[0].as_mut().expect("it is up").is_ready = false;
    (0..3).for_each(|_| a.make_ready(0));
    assert_eq!(a.ready, [0]);
}

#[test]
fn the_connection_where_a_peer_was_heard_is_one_that_stands() {
    let (mut a, b) = connected(2);
    for device in [&a, &b] {
        let peer = device.peer(ProcessId(u32::from(std::ptr::eq(device, &a)))).expect("a peer");
        assert!(peer.is_wanted && peer.last != NONE, "it is up, whoever has asked for it");
    }
    let last = |a: &Tcp| a.peer(ProcessId(1)).map(|peer| peer.last);
    a.peer_mut(ProcessId(1)).expect("a peer").last = 0;
    a.drop_connection(0);
    assert_eq!(last(&a), Some(1));
    a.drop_connection(1);
    assert_eq!(last(&a), Some(NONE));
    let (mut a, _b) = connected(2);
    a.peer_mut(ProcessId(1)).expect("a peer").last = 0;
    a.drop_connection(1);
    assert_eq!(last(&a), Some(0));
}

#[test]
fn a_tail_that_finds_no_room_is_held() {
    let (mut a, _b) = connected(1);
    let payload = vec![7; 100_000];
    a.send(Rail(1), ProcessId(1), b"long", [Piece::Bytes(&payload), Piece::EMPTY]).expect("sent");
    assert!(a.keeps_tails && !a.may_hold());
    let socket = &a.connections[0].as_ref().expect("it is up").socket;
    // Other bytes take all the room there is, and more than the far end's kernel takes.
    let stuffing = vec![0; 1 << 20];
    while rustix::net::send(socket, &stuffing, crate::tcp::connection::SEND_FLAGS).is_ok() {}
    a.flush();
    assert!(!a.keeps_tails && (a.may_hold() || a.is_flushed()));
}

#[test]
fn a_process_is_asked_for_once_and_gone_once() {
    let (mut a, _b, _) = pair(1);
    without_acceptor(&mut a);
    for _ in 0..3 {
        assert_eq!(a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD), Err(Full));
    }
    let told = |a: &Tcp| a.shared.told_orders().iter().map(|order| format!("{order:?}")).collect::<Vec<_>>();
    assert_eq!(told(&a), [format!("{:?}", Order::Want(ProcessId(1)))]);
    let notice = a.failure_notice();
    (0..2).for_each(|_| notice(ProcessId(1)));
    let events: Vec<Event> = std::iter::from_fn(|| a.poll()).collect();
    assert_eq!(events, [Event::PeerGone(ProcessId(1))]);
    a.peer_mut(ProcessId(1)).expect("a peer").is_wanted = false;
    assert_eq!(a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD), Err(Full));
    assert_eq!(told(&a).len(), 1, "nobody is there to be asked for");
}

#[test]
fn a_peer_has_no_more_rails_than_the_device() {
    let (a, b, _) = pair(3);
    let (card, mine) = (b.card(1, 1), &a.endpoints);
    let rails = |first_rail: u8, count: usize| {
        let peer = super::super::peer(ProcessId(1), &card, mine, first_rail, count).expect("it is reached");
        (peer.rails, peer.connections.len(), peer.paces.len())
    };
    assert_eq!(rails(1, 9), (RailSet(0b1110), 3, 3));
    assert_eq!(rails(1, 2), (RailSet(0b110), 2, 2));
    // The last rail that a set has a place for.
    assert_eq!(rails(31, 9), (RailSet(1 << 31), 1, 1));
}

#[test]
fn a_connection_leaves_from_its_rails_address() {
    let (mut a, _b) = connected(2);
    for index in [0, 1] {
        let connection = a.connections[index].as_mut().expect("it is up");
        let local = rustix::net::getsockname(&connection.socket).expect("an address");
        let local = SocketAddr::try_from(local).expect("of the internet").ip();
        let own = a.endpoints[usize::from(connection.rail.0 - 1)].addresses[0].0.ip;
        assert_eq!(local, own);
    }
}

#[test]
fn who_goes_to_sleep_keeps_back_no_tail() {
    let (mut a, mut b) = connected(1);
    let payload = vec![7; 100_000];
    a.send(Rail(1), ProcessId(1), b"long", [Piece::Bytes(&payload), Piece::EMPTY]).expect("sent");
    assert!(a.keeps_tails, "the next packet may take it along");
    a.arm();
    assert!(!a.keeps_tails);
    let received = loop {
        match b.poll() {
            Some(Event::Packet(incoming)) => break b.packet(&incoming).header.len(),
            // The rest of it is to come.
            _ => std::thread::yield_now(),
        }
    };
    assert_eq!(received, 100_004);
}

#[test]
fn the_acceptor_hears_of_what_ends_here() {
    let (mut a, mut b) = connected(1);
    without_acceptor(&mut a);
    let told = |a: &Tcp| a.shared.told_orders().iter().map(|order| format!("{order:?}")).collect::<Vec<_>>();
    assert_eq!(told(&a), Vec::<String>::new());
    b.connections.iter_mut().flatten().for_each(Connection::say_goodbye);
    while !a.peer(ProcessId(1)).is_some_and(|peer| peer.is_leaving) {
        assert_eq!(a.poll(), None);
    }
    assert_eq!(told(&a), [format!("{:?}", Order::Left(ProcessId(1)))]);
    // A connection that came up meanwhile is not kept, and its other end is to know.
    let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    a.on_up(ProcessId(1), Rail(1), 4, socket.into());
    assert_eq!(told(&a).last(), Some(&format!("{:?}", Order::Broke(ProcessId(1), Rail(1), 4))));
    // One that was found silent is to be made anew.
    let (mut a, _b) = connected(1);
    without_acceptor(&mut a);
    let epoch = a.connections[0].as_ref().expect("it is up").epoch;
    a.reset(Rail(1), ProcessId(1));
    assert_eq!(told(&a), [format!("{:?}", Order::Broke(ProcessId(1), Rail(1), epoch))]);
}

#[test]
fn who_has_taken_leave_has_no_connections_and_can_sleep() {
    let (mut a, mut b) = connected(1);
    // As if it were in the middle of something.
    a.make_ready(0);
    a.current = 0;
    a.detach(Duration::ZERO);
    assert!(a.connections.is_empty());
    assert!(a.peer(ProcessId(1)).is_some_and(|peer| peer.is_over && peer.connections == [NONE]));
    assert_eq!((a.poll(), a.arm()), (None, Armed::Armed));
    assert_eq!(a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD), Err(Full));
    // The far end hears it, though the device is still there.
    while b.poll() != Some(Event::PeerLeft(ProcessId(0))) {
        std::thread::yield_now();
    }
}

/// The first part of a long packet has come to a device by the other end of a socket.
fn begun() -> (Tcp, Tcp, std::os::unix::net::UnixStream) {
    let (mut a, b) = connected(1);
    without_acceptor(&mut a);
    let (socket, mut other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    socket.set_nonblocking(true).expect("set");
    a.connections[0].as_mut().expect("it is up").socket = socket.into();
    let sums = Some(Sums { header: sum(b"head"), payload: None });
    let head = Head { kind: Kind::Packet, body_bytes: 100_004, header_bytes: 4, sums }.emit();
    // No more than is read at a time.
    other.write_all(&[&head[..], b"head", &[7; 4_000]].concat()).expect("sent");
    a.make_ready(0);
    (a, b, other)
}

#[test]
fn an_end_that_is_found_with_a_payload_is_told() {
    let (mut a, _b, other) = begun();
    let Some(Event::Front(incoming, length)) = a.poll() else { panic!("no front") };
    drop(other);
    assert_eq!(a.fetch(&incoming, Buffer::leaked(length)), Fetched::Part);
    assert_eq!(a.ready, [0], "the kernel does not say it again");
    let told = std::iter::from_fn(|| (a.has_more()).then(|| a.poll())).find_map(|event| event);
    assert_eq!(told, Some(Event::RailDown(Rail(1), ProcessId(1))));
}

/// Also without a sleep, as where packets of others come all the time.
#[test]
fn an_end_amid_a_payload_is_found_where_one_is_read_alone() {
    let (mut a, _b, other) = begun();
    a.expect(Some(ProcessId(1)));
    let Some(Event::Front(incoming, length)) = a.poll() else { panic!("no front") };
    a.solo = 0;
    assert_eq!(a.fetch(&incoming, Buffer::leaked(length)), Fetched::Part);
    drop(other);
    let mut next = || (0..4 * WATCH_AGAIN).find_map(|_| a.poll());
    let front = next();
    assert!(matches!(front, Some(Event::Front(..))), "{front:?}");
    assert_eq!(a.fetch(&incoming, Buffer::leaked(length)), Fetched::Part);
    let told = (0..4 * WATCH_AGAIN).find_map(|_| a.poll());
    assert_eq!(told, Some(Event::RailDown(Rail(1), ProcessId(1))));
}

#[test]
fn the_rest_of_an_unwanted_packet_keeps_nobody_awake() {
    let (mut a, _b, mut other) = begun();
    let Some(Event::Front(incoming, length)) = a.poll() else { panic!("no front") };
    assert_eq!(a.fetch(&incoming, Buffer::leaked(length)), Fetched::Part);
    other.write_all(&[7; 20_000]).expect("sent");
    a.make_ready(0);
    let front = (0..1_000).find_map(|_| a.poll());
    assert!(matches!(front, Some(Event::Front(..))), "{front:?}");
    // Nobody fetches any more.
    let is_asleep = (0..1_000).any(|_| {
        while a.poll().is_some() {}
        a.arm() == Armed::Armed
    });
    assert!(is_asleep);
}

#[test]
fn a_connection_that_cannot_be_watched_ends() {
    let (mut a, _b) = connected(1);
    without_acceptor(&mut a);
    a.watch(0, false);
    // As where the user's limit of watched descriptors is reached.
    a.epoll = std::fs::File::open("/dev/null").expect("a file").into();
    a.watch(0, true);
    assert!(a.connections[0].is_none());
    assert_eq!(a.events, [Event::RailDown(Rail(1), ProcessId(1))]);
    assert_eq!(a.shared.told_orders().len(), 1);
}

#[test]
fn while_one_connection_is_read_alone_others_are_read_too() {
    let (mut a, mut b) = connected(2);
    a.expect(Some(ProcessId(1)));
    for round in 0..5 * STREAK {
        hand_over(&mut a, &mut b, &round.to_le_bytes());
    }
    assert!(a.solo != NONE, "nothing else has come for long");
    b.send(Rail(2), ProcessId(0), b"other", NO_PAYLOAD).expect("there is room");
    let mut seen = Seen::default();
    run(&mut a, &mut b, &mut seen, |_, _, seen| !seen.packets[0].is_empty());
    assert_eq!(seen.packets[0], [b"other"]);
    // That one is read alone then, and the first is watched again.
    for _ in 0..5 * STREAK {
        b.send(Rail(2), ProcessId(0), b"other", NO_PAYLOAD).expect("there is room");
        let mut seen = Seen::default();
        run(&mut a, &mut b, &mut seen, |_, _, seen| !seen.packets[0].is_empty());
    }
    hand_over(&mut a, &mut b, b"first");
}

#[test]
fn who_sleeps_watches_what_was_read_alone() {
    let (mut a, mut b) = connected(1);
    a.expect(Some(ProcessId(1)));
    for round in 0..5 * STREAK {
        hand_over(&mut a, &mut b, &round.to_le_bytes());
    }
    assert!(a.solo != NONE, "nothing else has come for long");
    a.arm();
    assert_eq!(a.solo, NONE, "what comes wakes it");
}

#[test]
fn who_has_read_everything_can_sleep() {
    let (mut a, mut b) = connected(1);
    hand_over(&mut a, &mut b, b"x");
    let is_asleep = (0..1_000).any(|_| {
        while a.poll().is_some() {}
        a.arm() == Armed::Armed
    });
    assert!(is_asleep);
}

/// A program that is started by one of ours does not inherit connections, and no call waits for one.
#[test]
fn descriptors_are_closed_in_new_programs_and_never_block() {
    use rustix::{fs::OFlags, io::FdFlags};
    let (a, b) = connected(1);
    // One of the two has called, the other has been called.
    let sockets = [&a, &b].into_iter().flat_map(|device| device.connections.iter().flatten());
    let events = [&a, &b].into_iter().map(|device| device.shared.orders_event.as_fd());
    for descriptor in sockets.map(|connection| connection.socket.as_fd()).chain(events) {
        let flags = rustix::io::fcntl_getfd(descriptor).expect("they are said");
        let status = rustix::fs::fcntl_getfl(descriptor).expect("they are said");
        assert!(flags.contains(FdFlags::CLOEXEC) && status.contains(OFlags::NONBLOCK));
    }
}

#[test]
fn silence_is_counted_only_while_something_is_unacknowledged() {
    let (mut a, mut b) = connected(1);
    hand_over(&mut a, &mut b, b"x");
    let far_end = |a: &mut Tcp| sys::far_end(socket_to(a, 1).as_fd()).expect("it is said");
    // The kernel has not heard of the far end for a while, and has no reason to.
    while far_end(&mut a).silent_ms < 5 || far_end(&mut a).unacknowledged_count > 0 {
        std::thread::yield_now();
    }
    assert_eq!(a.heard(Rail(1), ProcessId(1)), Some(CoreDuration::from_ms(0)));
}

#[test]
fn a_paced_connection_is_never_silent_for_ever() {
    let (mut a, _b) = connected(1);
    a.rails[0].bandwidth_bytes_per_s = 1_000;
    a.set_gap(Rail(1), ProcessId(1), Gap { milli_packets: u32::MAX });
    assert_eq!(a.peer(ProcessId(1)).map(|peer| peer.paces.clone()), Some(vec![1]));
}

#[test]
fn packets_that_came_damaged_are_counted_over_all_connections() {
    let (mut a, mut b) = connected(1);
    b.damaged_before_count = 3;
    let sums = Some(Sums { header: sum(b""), payload: Some(sum(b"right")) });
    let head = Head { kind: Kind::Packet, body_bytes: 5, header_bytes: 0, sums }.emit();
    let bytes = [&head[..], b"wrong"].concat();
    let sent = rustix::net::send(socket_to(&mut a, 1), &bytes, rustix::net::SendFlags::empty());
    assert_eq!(sent, Ok(bytes.len()));
    run(&mut a, &mut b, &mut Seen::default(), |_, b, _| b.damaged_count() != 3);
    assert_eq!(b.damaged_count(), 4);
    b.drop_connection(0);
    assert_eq!(b.damaged_count(), 4);
}

/// The kernel's word of the end may have been taken before, with what had been received.
#[test]
fn a_connection_that_does_not_send_any_more_is_read_to_its_end() {
    let (mut a, _b) = connected(1);
    let (socket, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    socket.set_nonblocking(true).expect("set");
    a.connections[0].as_mut().expect("it is up").socket = socket.into();
    drop(other);
    assert_eq!(a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD), Err(Full));
    assert_eq!(a.ready, [0]);
    assert_eq!(a.poll(), Some(Event::RailDown(Rail(1), ProcessId(1))));
}

#[test]
fn a_connection_clears_what_stood_in_its_way() {
    let (mut a, mut b, card) = pair(1);
    let to = card.endpoints[0].sockets().next().expect("an endpoint");
    let candidate = Candidate { partner: 0, from: interfaces(1, 1)[0].addresses[0], to };
    a.obstacles().note(ProcessId(1), &candidate, Why::Silence);
    let obstacle = a.obstacles().to(ProcessId(1)).map(|obstacle| obstacle.to_string());
    assert_eq!(obstacle, Some(format!("from 127.7.0.1 to {to}: no answer")));
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| !seen.events[0].is_empty());
    assert_eq!(a.obstacles().to(ProcessId(1)), None, "{:?}", seen.events);
}
