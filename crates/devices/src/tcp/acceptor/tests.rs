use super::*;
use crate::tcp::interfaces::tests::interface;
use crate::tcp::{Timing, wireup};
use crate::threads::HANG_LIMIT;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

const KEY: [u8; 32] = [1; 32];

/// One that listens on the loopback, and where.
fn acceptor() -> (Acceptor, SocketAddr) {
    acceptor_with(None)
}

fn acceptor_with(other: Option<Card>) -> (Acceptor, SocketAddr) {
    let lo = interface("lo", 1, &["127.0.0.1/8"]);
    let (listener, port) = wireup::listen_at(lo.addresses[0], lo.index, None).expect("listens");
    let address = SocketAddr::new(lo.addresses[0].ip, port);
    let endpoints = vec![Endpoint::new(&lo, vec![(lo.addresses[0], port)])];
    let book: Vec<Option<Card>> = vec![None, other];
    let known =
        Known { first: ProcessId(0), key: Key::new(KEY), book: Arc::new(book), others: BTreeMap::new() };
    let setup = Setup {
        me: ProcessId(0),
        first_rail: 1,
        rails_count: 1,
        settings: Settings {
            timing: Timing { connect: HANG_LIMIT, handshake: HANG_LIMIT, ..Timing::default() },
            ..Settings::default()
        },
        interfaces: vec![lo],
        endpoints,
        listeners: vec![(0, listener)],
        known,
    };
    (Acceptor::new(setup).expect("descriptors"), address)
}

/// Whether a listener, or something else, has an event.
fn has_events(acceptor: &Acceptor) -> bool {
    let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    epoll::wait(&acceptor.epoll, spare_capacity(&mut events), Some(&at_once)).expect("events");
    !events.is_empty()
}

#[test]
fn without_descriptors_callers_wait_outside_for_a_while() {
    let (mut acceptor, address) = acceptor();
    let _silent = TcpStream::connect(address).expect("connected");
    assert!(has_events(&acceptor));
    acceptor.accept(0);
    assert_eq!(acceptor.pending.len(), 1);
    acceptor.close_for_a_while();
    assert!(acceptor.pending.is_empty(), "its descriptor is needed");
    let _next = TcpStream::connect(address).expect("it is in the kernel's queue");
    assert!(!has_events(&acceptor));
    assert!(acceptor.next_timeout().is_some_and(|left| left <= CLOSED), "it wakes by itself");
    let until = acceptor.closed_until.expect("they are closed");
    acceptor.open_listeners_if_due(until - Duration::from_nanos(1));
    assert!(!has_events(&acceptor), "too early");
    acceptor.open_listeners_if_due(until);
    assert!(acceptor.closed_until.is_none() && has_events(&acceptor));
    acceptor.accept(0);
    assert_eq!(acceptor.pending.len(), 1);
}

#[test]
fn what_a_dialler_is_told_is_sent_within_its_interface() {
    let scope = |ip: &str| match scoped(ip.parse().expect("an address"), 7, 5) {
        SocketAddr::V6(address) => Some((address.port(), address.flowinfo(), address.scope_id())),
        SocketAddr::V4(_) => None,
    };
    assert_eq!(["fe80::1", "fd00::1", "10.0.0.1"].map(scope), [Some((7, 0, 5)), Some((7, 0, 0)), None]);
}

#[test]
fn tokens_name_what_they_were_made_of() {
    for id in [0, 1, 2, 1 << 40] {
        let back = |token: Token| match Token::decode(token.encode()) {
            Token::Orders => (0, 0),
            Token::Listener(id) => (1, id),
            Token::Dial(id) => (2, id),
            Token::Pending(id) => (3, id),
        };
        let tokens = [Token::Listener(id), Token::Dial(id), Token::Pending(id)];
        assert_eq!((back(Token::Orders), tokens.map(back)), ((0, 0), [(1, id), (2, id), (3, id)]));
    }
}

/// An acceptor that dials process 1, which this test plays, and where that listens.
fn dialling() -> (Acceptor, TcpListener) {
    let far = TcpListener::bind("127.0.0.1:0").expect("listens");
    let lo = interface("lo", 1, &["127.0.0.1/8"]);
    let port = far.local_addr().expect("an address").port();
    let endpoints = vec![Endpoint::new(&lo, vec![(lo.addresses[0], port)])];
    let (mut acceptor, _) = acceptor_with(Some(Card { node: 1, cpus_count: 1, endpoints }));
    acceptor.shared.order(Order::Want(ProcessId(1)));
    far.set_nonblocking(true).expect("asked again and again");
    turn(&mut acceptor);
    pass_time(&mut acceptor);
    (acceptor, far)
}

/// It is the time that something of the acceptor's waits for: a dial that has failed is made again.
fn pass_time(acceptor: &mut Acceptor) {
    let due = acceptor.connections.poll_timeout().expect("something waits");
    acceptor.connections.handle_timeout(due);
}

/// A round of the acceptor, in which no time passes.
fn turn(acceptor: &mut Acceptor) {
    assert!(acceptor.take_orders());
    acceptor.act();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = epoll::wait(&acceptor.epoll, spare_capacity(&mut events), Some(&at_once));
    events.iter().for_each(|event| acceptor.on_event(Token::decode(event.data)));
    std::thread::yield_now();
}

/// Goes on until something has come of it.
fn until<T>(acceptor: &mut Acceptor, mut look: impl FnMut(&mut Acceptor) -> Option<T>) -> T {
    loop {
        turn(acceptor);
        if let Some(seen) = look(acceptor) {
            return seen;
        }
    }
}

/// The next dial as the far end has it, and its hello. Another test's process may call, for which the port
/// was another's before.
fn answered(acceptor: &mut Acceptor, far: &TcpListener) -> (TcpStream, [u8; HELLO_BYTES]) {
    let mut stream = until(acceptor, |acceptor| {
        let (stream, from) = far.accept().ok()?;
        let own = |dial: &Dial| SocketAddr::try_from(rustix::net::getsockname(&dial.socket).ok()?).ok();
        acceptor.dials.values().any(|dial| own(dial) == Some(from)).then_some(stream)
    });
    let hello = read(acceptor, &mut stream);
    (stream, hello)
}

/// So many bytes from the dialler.
fn read<const N: usize>(acceptor: &mut Acceptor, stream: &mut TcpStream) -> [u8; N] {
    stream.set_nonblocking(true).expect("asked again and again");
    let (mut bytes, mut count) = ([0; N], 0);
    until(acceptor, |_| {
        count += stream.read(&mut bytes[count..]).unwrap_or(0);
        (count == N).then_some(())
    });
    bytes
}

/// Sends a message in two parts, with rounds of the acceptor between them.
fn write_slowly(acceptor: &mut Acceptor, stream: &mut TcpStream, bytes: &[u8]) {
    for part in bytes.chunks(bytes.len() - 1) {
        stream.write_all(part).expect("sent");
        for _ in 0..20 {
            turn(acceptor);
        }
    }
}

#[test]
fn a_dial_ends_with_a_connection_if_both_know_the_key() {
    for is_known in [true, false] {
        let (mut acceptor, far) = dialling();
        let (mut stream, hello) = answered(&mut acceptor, &far);
        let said = Hello::parse(&hello).expect("a hello");
        assert_eq!((said.from, said.to, said.from_interface), (ProcessId(0), ProcessId(1), 0));
        let key = Key::new(if is_known { KEY } else { [2; 32] });
        let challenge = handshake::challenge(&key, &hello, [7; 16]);
        write_slowly(&mut acceptor, &mut stream, &challenge);
        if !is_known {
            let read_bytes = until(&mut acceptor, |_| stream.read(&mut [0; 8]).ok());
            assert_eq!(read_bytes, 0, "no proof is given away");
            let news = acceptor.shared.take_news();
            assert!(news.iter().all(|news| !matches!(news, News::Up { .. })) && acceptor.dials.is_empty());
            continue;
        }
        let proof: [u8; PROOF_BYTES] = read(&mut acceptor, &mut stream);
        assert!(handshake::is_proven(&key, &hello, &challenge, &proof));
        let welcome = ayatori_core::connect::Verdict::Welcome;
        let verdict = handshake::emit_verdict(&key, welcome, said.epoch, &hello, &challenge);
        write_slowly(&mut acceptor, &mut stream, &verdict);
        let news = until(&mut acceptor, |acceptor| acceptor.shared.take_news().pop_front());
        let News::Up { peer, rail, epoch, .. } = news else { panic!("{news:?}") };
        assert_eq!((peer, rail, epoch), (ProcessId(1), Rail(1), said.epoch));
        assert!(acceptor.dials.is_empty());
    }
}

#[test]
fn a_dial_that_fails_at_any_step_is_made_again() {
    let (mut acceptor, far) = dialling();
    for step in ["hello", "part of a challenge", "challenge", "nonsense for a verdict"] {
        let (mut stream, hello) = answered(&mut acceptor, &far);
        let dial = *acceptor.dials.keys().next().expect("it has come");
        let challenge = handshake::challenge(&Key::new(KEY), &hello, [7; 16]);
        let sent = match step {
            "hello" => Vec::new(),
            "part of a challenge" => challenge[..20].to_vec(),
            "challenge" => challenge.to_vec(),
            _ => [&challenge[..], &[9; VERDICT_BYTES]].concat(),
        };
        stream.write_all(&sent).expect("sent");
        for _ in 0..20 {
            turn(&mut acceptor);
        }
        let is_refused = step == "nonsense for a verdict";
        assert!(is_refused || acceptor.dials.contains_key(&dial), "{step}: more may come");
        drop(stream);
        until(&mut acceptor, |acceptor| (!acceptor.dials.contains_key(&dial)).then_some(()));
        assert!(acceptor.dials.is_empty(), "not before its time");
        pass_time(&mut acceptor);
    }
}

#[test]
fn a_listener_that_fails_is_left_alone_for_a_while() {
    let (mut acceptor, _) = acceptor();
    // Not one that listens: no caller can be had from it, whatever the reason.
    acceptor.setup.listeners[0].1 = stream_socket(AddressFamily::INET).expect("a socket");
    acceptor.accept(0);
    assert!(acceptor.closed_until.is_some() && acceptor.pending.is_empty());
}

#[test]
fn a_caller_that_cannot_be_watched_is_shown_out() {
    let (mut acceptor, address) = acceptor();
    let mut caller = TcpStream::connect(address).expect("connected");
    while !has_events(&acceptor) {
        std::thread::yield_now();
    }
    // As where the user's limit of watched descriptors is reached.
    acceptor.epoll = std::fs::File::open("/dev/null").expect("a file").into();
    while acceptor.closed_until.is_none() {
        acceptor.accept(0);
    }
    assert!(acceptor.pending.is_empty());
    caller.set_read_timeout(Some(HANG_LIMIT)).expect("a limit");
    assert_eq!(caller.read(&mut [0; 8]).ok(), Some(0));
    assert!(acceptor.connections.poll_timeout().is_none(), "nothing of it is waited for");
}

#[test]
fn a_socket_of_ipv6_leaves_the_ports_of_ipv4_alone() {
    let socket = stream_socket(AddressFamily::INET6).expect("a socket");
    assert_eq!(sockopt::ipv6_v6only(&socket), Ok(true));
}

#[test]
fn an_address_of_this_host_is_reached_over_its_loopback() {
    let (mut acceptor, _) = acceptor();
    let lo = &mut acceptor.setup.interfaces[0];
    // As another interface: its packets would leave there.
    (lo.is_loopback, lo.index) =
        (false, sys::entries().unwrap().iter().find(|one| one.is_loopback).unwrap().index);
    let (from, index) = (lo.addresses[0], lo.index);
    let bound = |acceptor: &Acceptor, to: &str| {
        let candidate = Candidate { partner: 0, from, to: to.parse().unwrap() };
        let socket = acceptor.connect(0, &candidate).expect("it is on its way");
        sys::bound_interface(socket.as_fd())
    };
    assert_eq!(bound(&acceptor, "127.0.0.1:9"), 0, "the routes decide");
    assert_eq!(bound(&acceptor, "127.9.9.9:9"), index);
}

#[test]
fn a_process_that_was_up_is_gone_after_two_refusals() {
    let (mut acceptor, far) = dialling();
    let (mut stream, hello) = answered(&mut acceptor, &far);
    let said = Hello::parse(&hello).expect("a hello");
    let key = Key::new(KEY);
    let challenge = handshake::challenge(&key, &hello, [7; 16]);
    stream.write_all(&challenge).expect("sent");
    let _: [u8; PROOF_BYTES] = read(&mut acceptor, &mut stream);
    let welcome = ayatori_core::connect::Verdict::Welcome;
    let verdict = handshake::emit_verdict(&key, welcome, said.epoch, &hello, &challenge);
    stream.write_all(&verdict).expect("sent");
    let news = until(&mut acceptor, |acceptor| acceptor.shared.take_news().pop_front());
    assert!(matches!(news, News::Up { .. }), "{news:?}");
    acceptor.shared.order(Order::Broke(ProcessId(1), Rail(1), said.epoch));
    turn(&mut acceptor);
    let is_gone = |acceptor: &Acceptor| {
        acceptor.shared.take_news().iter().any(|news| matches!(news, News::Gone(ProcessId(1))))
    };
    // One that ends before anybody answers says nothing: neither that it is gone nor that it is there.
    for refuses in [true, false, true] {
        assert!(!is_gone(&acceptor));
        pass_time(&mut acceptor);
        let (mut stream, _) = answered(&mut acceptor, &far);
        let dial = *acceptor.dials.keys().next().expect("it has come");
        if refuses {
            stream.write_all(&handshake::NOT_HERE).expect("sent");
        }
        drop(stream);
        until(&mut acceptor, |acceptor| (!acceptor.dials.contains_key(&dial)).then_some(()));
    }
    acceptor.act();
    assert!(is_gone(&acceptor));
}

#[test]
fn a_dial_that_nobody_answers_in_time_is_said() {
    let (mut acceptor, far) = dialling();
    let (_stream, _) = answered(&mut acceptor, &far);
    assert_eq!(acceptor.shared.obstacles.to(ProcessId(1)), None);
    let obstacle = (0..8).find_map(|_| {
        pass_time(&mut acceptor);
        acceptor.act();
        acceptor.shared.obstacles.to(ProcessId(1))
    });
    let obstacle = obstacle.expect("it is kept").to_string();
    assert!(obstacle.ends_with("connected, and no process of this job answered"), "{obstacle}");
}

#[test]
fn an_address_that_cannot_be_dialled_is_tried_again_soon() {
    let lo = interface("lo", 1, &["127.255.255.255/8"]);
    // No connection can be made to the address of all.
    let endpoints = vec![Endpoint::new(&lo, vec![(lo.addresses[0], 9)])];
    let (mut acceptor, _) = acceptor_with(Some(Card { node: 1, cpus_count: 1, endpoints }));
    acceptor.shared.order(Order::Want(ProcessId(1)));
    turn(&mut acceptor);
    pass_time(&mut acceptor);
    acceptor.act();
    assert!(acceptor.dials.is_empty());
    let obstacle = acceptor.shared.obstacles.to(ProcessId(1)).expect("it is kept").to_string();
    assert!(obstacle.starts_with("from 127.0.0.1 to 127.255.255.255:9: "), "{obstacle}");
    // It is said at once, and not when an answer has failed to come.
    let news = acceptor.shared.take_news();
    assert!(
        news.iter().any(|news| matches!(news, News::Down { peer: ProcessId(1), rail: Rail(1) })),
        "{news:?}"
    );
}

#[test]
fn callers_that_were_shown_out_are_waited_for_no_more() {
    let (mut acceptor, address) = acceptor();
    let mut caller = TcpStream::connect(address).expect("connected");
    caller.write_all(&[9; HELLO_BYTES]).expect("sent");
    caller.set_nonblocking(true).expect("asked again and again");
    until(&mut acceptor, |_| matches!(caller.read(&mut [0; 8]), Ok(0)).then_some(()));
    assert!(acceptor.pending.is_empty() && acceptor.connections.poll_timeout().is_none());
}

#[test]
fn one_that_was_awaited_is_dialled_at_once_when_wanted() {
    let lo = interface("lo", 1, &["127.0.0.1/8"]);
    let endpoints = vec![Endpoint::new(&lo, vec![(lo.addresses[0], 9)])];
    let (mut acceptor, _) = acceptor_with(Some(Card { node: 1, cpus_count: 1, endpoints }));
    // No time passes.
    acceptor.start += HANG_LIMIT;
    let due = [Order::Await(ProcessId(1)), Order::Want(ProcessId(1))].map(|order| {
        acceptor.shared.order(order);
        turn(&mut acceptor);
        acceptor.connections.poll_timeout().expect("a dial")
    });
    assert!(due[1] < due[0] && due[1] == acceptor.now(), "{due:?}");
}

#[test]
fn a_dial_that_is_one_too_many_is_closed_at_once() {
    use ayatori_core::connect::Verdict;
    for verdict in [Verdict::Busy, Verdict::Duplicate] {
        let (mut acceptor, far) = dialling();
        let (mut stream, hello) = answered(&mut acceptor, &far);
        let key = Key::new(KEY);
        let challenge = handshake::challenge(&key, &hello, [7; 16]);
        stream.write_all(&challenge).expect("sent");
        let _: [u8; PROOF_BYTES] = read(&mut acceptor, &mut stream);
        let epoch = Hello::parse(&hello).expect("a hello").epoch;
        let verdict = handshake::emit_verdict(&key, verdict, epoch, &hello, &challenge);
        let before = acceptor.connections.poll_timeout();
        stream.write_all(&verdict).expect("sent");
        // The dial is waited for no more.
        until(&mut acceptor, |acceptor| (acceptor.connections.poll_timeout() != before).then_some(()));
        assert!(acceptor.dials.is_empty());
    }
}

#[test]
fn a_peer_of_more_interfaces_gets_no_more_rails_than_there_are() {
    let far = TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = far.local_addr().expect("an address").port();
    let lo = interface("lo", 1, &["127.0.0.1/8"]);
    let endpoints = vec![Endpoint::new(&lo, vec![(lo.addresses[0], port)]); 3];
    let (mut acceptor, _) = acceptor_with(Some(Card { node: 1, cpus_count: 1, endpoints }));
    acceptor.shared.order(Order::Want(ProcessId(1)));
    assert!(acceptor.take_orders());
    pass_time(&mut acceptor);
    acceptor.act();
    assert_eq!(acceptor.dials.len(), acceptor.setup.rails_count);
}

/// More call than events are taken from the kernel at a time, and after it has closed for a while.
#[test]
fn the_thread_answers_all_that_call_and_sleeps_then() {
    let (mut acceptor, address) = acceptor();
    acceptor.close_for_a_while();
    acceptor.closed_until = Some(acceptor.start);
    let shared = Arc::clone(&acceptor.shared);
    let (name, named) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        name.send(std::fs::read_link("/proc/thread-self").expect("a name")).expect("asked for");
        acceptor.run();
    });
    let stat = std::path::Path::new("/proc").join(named.recv().expect("a name")).join("stat");
    for _ in 0..400 {
        let mut caller = TcpStream::connect(address).expect("connected");
        caller.write_all(&[9; HELLO_BYTES]).expect("sent");
        caller.set_read_timeout(Some(HANG_LIMIT)).expect("a limit");
        assert_eq!(caller.read(&mut [0; 8]).ok(), Some(0), "it is shown out");
    }
    // The state follows the program's name in brackets.
    let is_asleep = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    while !is_asleep() {
        std::thread::yield_now();
    }
    shared.order(Order::Stop);
    thread.join().expect("it ends");
}

#[test]
fn a_wait_ends_a_little_after_the_next_thing_is_due() {
    let told = |left| {
        let Timespec { tv_sec, tv_nsec } = wait_max(left);
        (tv_sec, tv_nsec)
    };
    assert_eq!(told(Duration::ZERO), (0, 50_000));
    assert_eq!(told(Duration::from_micros(1_999_975)), (2, 25_000));
}
