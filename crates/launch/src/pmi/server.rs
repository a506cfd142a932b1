//! The PMI-1 server: a state machine over bytes. It reads no socket: what ranks sent goes in by
//! [`Server::handle_bytes`], what they are to get comes out by [`Server::poll_output`].

use crate::environment::{KEY_OF_APART, KEY_OF_SPARE};
use crate::pmi::names::{NameReply, NameRequest, Names};
use crate::pmi::spawn::{Message, Spawn};
use crate::pmi::wire::{self, Answer, Reply, Request};
use std::collections::HashMap;

/// All keys and values of a job together, in bytes. A business card is some hundred bytes a rank.
const STORE_MAX_BYTES: usize = 64 << 20;

/// How far a rank has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has not greeted us: not (yet) an MPI program.
    Silent,
    /// In MPI, and owes us a finalize.
    Initialised,
    /// Has taken leave.
    Finalised,
}

/// What the job must know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A rank asks for the end of the job.
    Abort { exitcode: i32, message: Option<String> },
    /// A rank sent what cannot be understood.
    Violation(String),
    /// A rank wants processes started; [`Server::answer_spawn`] answers it.
    Spawn(Spawn),
    /// A rank asks for names, which another launcher keeps; [`Server::answer_name`] answers it.
    Name(NameRequest),
    /// The last rank that was connected to another world is not any more.
    Apart,
}

#[derive(Debug)]
struct Peer {
    phase: Phase,
    appnum: usize,
    received: Vec<u8>,
    reply: Vec<u8>,
    is_in_barrier: bool,
    is_apart: bool,
    is_spare: bool,
    is_gone: bool,
}

/// Serves all ranks of one job.
#[derive(Debug)]
pub(crate) struct Server {
    kvsname: String,
    store: HashMap<String, String>,
    store_bytes: usize,
    /// `None`: another launcher keeps them.
    names: Option<Names>,
    /// Commands of requests of several that have come in part, by rank.
    spawns: HashMap<usize, Spawn>,
    /// Ranks whose questions for names are not answered yet.
    asked: HashMap<usize, Answer>,
    /// Negative: unknown.
    universe_size: i32,
    peers: Vec<Peer>,
    barrier_count: usize,
    /// Number of ranks that others may wait for.
    left_count: usize,
    /// Ranks that have output since the last poll.
    ready: Vec<usize>,
}

impl Server {
    /// A server for ranks whose program numbers are `appnums`.
    pub(crate) fn new(job: &str, appnums: impl Iterator<Item = usize>) -> Self {
        let peer = |appnum| Peer {
            phase: Phase::Silent,
            appnum,
            received: Vec::new(),
            reply: Vec::new(),
            is_in_barrier: false,
            is_apart: false,
            is_spare: false,
            is_gone: false,
        };
        let peers: Vec<Peer> = appnums.map(peer).collect();
        // All ranks are on one node: block (first node 0, 1 node, N ranks each).
        let mapping = format!("(vector,(0,1,{}))", peers.len());
        Server {
            kvsname: format!("kvs_{job}"),
            store: HashMap::from([("PMI_process_mapping".to_owned(), mapping)]),
            store_bytes: 0,
            names: Some(Names::default()),
            spawns: HashMap::new(),
            asked: HashMap::new(),
            universe_size: -1,
            left_count: peers.len(),
            peers,
            barrier_count: 0,
            ready: Vec::new(),
        }
    }

    /// Puts a value into the store before the first request.
    pub(crate) fn provide(&mut self, key: &str, value: &str) {
        self.store.insert(key.to_owned(), value.to_owned());
    }

    /// Another launcher keeps the names: what is asked comes as [`Event::Name`].
    pub(crate) fn forward_names(&mut self) {
        self.names = None;
    }

    /// So many processes could run at once (`MPI_UNIVERSE_SIZE`).
    pub(crate) fn set_universe_size(&mut self, size: usize) {
        self.universe_size = i32::try_from(size).unwrap_or(i32::MAX);
    }

    /// Answers what a job that this one has started asks of the names. `None`: another launcher keeps them.
    pub(crate) fn serve_name(&mut self, request: &NameRequest) -> Option<NameReply> {
        Some(self.names.as_mut()?.serve(request))
    }

    /// Answers a rank that wants processes started.
    pub(crate) fn answer_spawn(&mut self, rank: usize, outcome: Result<(), &str>) {
        match outcome {
            Ok(()) => self.reply(rank, Reply::Done(Answer::Spawn)),
            Err(why) => {
                let why: String =
                    why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect();
                self.reply(rank, Reply::Failed { answer: Answer::Spawn, rc: -1, msg: Some(why.trim()) });
            }
        }
    }

    /// Answers a rank that has asked for names.
    pub(crate) fn answer_name(&mut self, rank: usize, reply: &NameReply) {
        let Some(answer) = self.asked.remove(&rank) else { return };
        match reply {
            NameReply::Done => self.reply(rank, Reply::Done(answer)),
            NameReply::Port(port) => self.reply(rank, Reply::Port(port)),
            NameReply::Refused(why) => self.reply(rank, Reply::Failed { answer, rc: -1, msg: Some(why) }),
        }
    }

    fn ask_names(&mut self, rank: usize, answer: Answer, request: NameRequest) -> Option<Event> {
        self.asked.insert(rank, answer);
        match self.serve_name(&request) {
            Some(reply) => {
                self.answer_name(rank, &reply);
                None
            }
            None => Some(Event::Name(request)),
        }
    }

    /// One command of a request to start processes; after the last of them the job must know.
    fn add_spawn(&mut self, rank: usize, text: &str) -> Option<Event> {
        let message = match Message::parse(text) {
            Ok(message) => message,
            Err(error) => return Some(Event::Violation(error.to_string())),
        };
        let spawn = self.spawns.entry(rank).or_default();
        if spawn.parts.len() + 1 != message.so_far {
            return Some(Event::Violation("the commands of a spawn do not come in their order".to_owned()));
        }
        spawn.parts.push(message.part);
        if message.so_far == 1 {
            spawn.values = message.values;
        }
        let is_whole = message.so_far == message.total;
        is_whole.then(|| Event::Spawn(self.spawns.remove(&rank).unwrap_or_default()))
    }

    /// How far `rank` has come.
    pub(crate) fn phase(&self, rank: usize) -> Phase {
        self.peers[rank].phase
    }

    /// Whether no rank waits for this one any more.
    pub(crate) fn is_forgotten(&self, rank: usize) -> bool {
        self.peers[rank].is_gone
    }

    /// Number of ranks that no other waits for any more.
    pub(crate) fn forgotten_count(&self) -> usize {
        self.peers.len() - self.left_count
    }

    /// Whether some rank waits for all the others.
    pub(crate) fn is_barrier_pending(&self) -> bool {
        self.barrier_count > 0
    }

    /// Takes what `rank` sent. Stops at the first thing the job must know; nothing is answered after it.
    pub(crate) fn handle_bytes(&mut self, rank: usize, bytes: &[u8]) -> Option<Event> {
        let mut received = std::mem::take(&mut self.peers[rank].received);
        received.extend_from_slice(bytes);
        let mut start = 0;
        let event = loop {
            match wire::first_message(&received[start..]) {
                Ok(Some(length)) => {
                    let message = &received[start..start + length];
                    start += length;
                    if let Some(event) = self.handle_message(rank, message) {
                        break Some(event);
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(Event::Violation(error.to_string())),
            }
        };
        received.drain(..start);
        self.peers[rank].received = received;
        event
    }

    /// The next rank that is to get something, and what.
    pub(crate) fn poll_output(&mut self) -> Option<(usize, Vec<u8>)> {
        let rank = self.ready.pop()?;
        Some((rank, std::mem::take(&mut self.peers[rank].reply)))
    }

    fn handle_message(&mut self, rank: usize, message: &[u8]) -> Option<Event> {
        let request = match Request::parse(message) {
            Ok(request) => request,
            Err(error) => return Some(Event::Violation(error.to_string())),
        };
        let is_greeting = matches!(request, Request::Init { .. } | Request::Abort { .. });
        if self.peers[rank].phase == Phase::Silent && !is_greeting {
            return Some(Event::Violation("a request came before cmd=init".to_owned()));
        }
        if self.peers[rank].is_in_barrier && !matches!(request, Request::Abort { .. }) {
            return Some(Event::Violation("a request came while its barrier is pending".to_owned()));
        }
        match request {
            Request::Abort { exitcode, message } => {
                return Some(Event::Abort { exitcode, message: message.map(str::to_owned) });
            }
            Request::BarrierIn => self.enter_barrier(rank),
            Request::Spawn(text) => return self.add_spawn(rank, text),
            Request::Put { key: KEY_OF_APART, .. } => {
                self.peers[rank].is_apart = true;
                self.reply(rank, Reply::Done(Answer::Put));
                return self.peers.iter().all(|peer| peer.is_apart).then_some(Event::Apart);
            }
            Request::Put { key: KEY_OF_SPARE, .. } => {
                self.peers[rank].is_spare = true;
                self.reply(rank, Reply::Done(Answer::Put));
            }
            Request::Publish { service, port } => {
                let request = NameRequest::Publish(service.to_owned(), port.to_owned());
                return self.ask_names(rank, Answer::Publish, request);
            }
            Request::Unpublish { service } => {
                let request = NameRequest::Unpublish(service.to_owned());
                return self.ask_names(rank, Answer::Unpublish, request);
            }
            Request::Lookup { service } => {
                let request = NameRequest::Lookup(service.to_owned());
                return self.ask_names(rank, Answer::Lookup, request);
            }
            request => self.answer(rank, request),
        }
        None
    }

    fn enter_barrier(&mut self, rank: usize) {
        self.peers[rank].is_in_barrier = true;
        self.barrier_count += 1;
        self.open_barrier();
    }

    /// Lets the ranks out of the barrier if all that are left are in.
    fn open_barrier(&mut self) {
        if self.barrier_count == 0 || self.barrier_count < self.left_count {
            return;
        }
        self.barrier_count = 0;
        for rank in 0..self.peers.len() {
            if std::mem::take(&mut self.peers[rank].is_in_barrier) {
                self.reply(rank, Reply::Done(Answer::Barrier));
            }
        }
    }

    /// Whether a rank has said that no other needs it.
    pub(crate) fn is_spare(&self, rank: usize) -> bool {
        self.peers[rank].is_spare
    }

    /// A rank is gone, and no other waits for it any more.
    pub(crate) fn forget(&mut self, rank: usize) {
        let peer = &mut self.peers[rank];
        self.left_count -= usize::from(!peer.is_gone);
        (peer.is_gone, peer.is_apart) = (true, true);
        if std::mem::take(&mut peer.is_in_barrier) {
            self.barrier_count -= 1;
        }
        self.open_barrier();
    }

    fn answer(&mut self, rank: usize, request: Request<'_>) {
        match request {
            Request::Init { version: 1, .. } => {
                self.peers[rank].phase = Phase::Initialised;
                self.reply(rank, Reply::Init { version: 1, subversion: 1 });
            }
            Request::Init { .. } => self.refuse(rank, Answer::Init, "only_PMI_version_1_is_spoken_here"),
            Request::InitAck { .. } => self.refuse(rank, Answer::InitAck, "PMI_FD_is_in_use"),
            Request::GetMaxes => self.reply(
                rank,
                Reply::Maxes {
                    kvsname_max: wire::KVSNAME_MAX_BYTES,
                    keylen_max: wire::KEY_MAX_BYTES,
                    vallen_max: wire::VALUE_MAX_BYTES,
                },
            ),
            Request::GetAppnum => {
                let appnum = i32::try_from(self.peers[rank].appnum).unwrap_or(i32::MAX);
                self.reply(rank, Reply::Appnum(appnum));
            }
            Request::GetUniverseSize => self.reply(rank, Reply::UniverseSize(self.universe_size)),
            Request::GetKvsName => {
                let name = self.kvsname.clone();
                self.reply(rank, Reply::KvsName(&name));
            }
            Request::Put { kvsname, key, value } => self.put(rank, kvsname, key, value),
            Request::Get { kvsname, key } => {
                let is_ours = kvsname.is_none_or(|name| name == self.kvsname);
                match self.store.get(key).filter(|_| is_ours).cloned() {
                    Some(value) => self.reply(rank, Reply::Value(&value)),
                    None => self.refuse(rank, Answer::Get, "key_not_found"),
                }
            }
            Request::Finalize => {
                self.peers[rank].phase = Phase::Finalised;
                self.reply(rank, Reply::Done(Answer::Finalize));
            }
            Request::BarrierIn
            | Request::Abort { .. }
            | Request::Spawn(_)
            | Request::Publish { .. }
            | Request::Unpublish { .. }
            | Request::Lookup { .. } => unreachable!("handled by the caller"),
        }
    }

    fn put(&mut self, rank: usize, kvsname: Option<&str>, key: &str, value: &str) {
        if kvsname.is_some_and(|name| name != self.kvsname) {
            return self.refuse(rank, Answer::Put, "no_such_key-value_space");
        }
        if self.is_full(key, value) {
            return self.refuse(rank, Answer::Put, "the_key-value_space_is_full");
        }
        self.store_bytes += key.len() + value.len();
        if let Some(old) = self.store.insert(key.to_owned(), value.to_owned()) {
            self.store_bytes = self.store_bytes.saturating_sub(key.len() + old.len());
        }
        self.reply(rank, Reply::Done(Answer::Put));
    }

    fn is_full(&self, key: &str, value: &str) -> bool {
        self.store_bytes + key.len() + value.len() > STORE_MAX_BYTES
    }

    fn refuse(&mut self, rank: usize, answer: Answer, msg: &str) {
        self.reply(rank, Reply::Failed { answer, rc: -1, msg: Some(msg) });
    }

    fn reply(&mut self, rank: usize, reply: Reply<'_>) {
        let out = &mut self.peers[rank].reply;
        if out.is_empty() {
            self.ready.push(rank);
        }
        if let Err(error) = reply.emit(out) {
            // Values of ranks came over the same wire within the same bounds; the launcher's values are
            // checked there.
            debug_assert!(false, "a reply does not fit the wire: {error}");
            let failed = Reply::Failed { answer: Answer::Get, rc: -1, msg: Some("too_long_for_PMI_1") };
            let _ = failed.emit(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(count: usize) -> Server {
        let mut server = Server::new("j", std::iter::repeat_n(0, count));
        for rank in 0..count {
            assert_eq!(ask(&mut server, rank, "cmd=init pmi_version=1 pmi_subversion=1"), {
                "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
            });
        }
        server
    }

    /// The answer that `rank` alone gets for one line.
    fn ask(server: &mut Server, rank: usize, line: &str) -> String {
        assert_eq!(server.handle_bytes(rank, format!("{line}\n").as_bytes()), None);
        match server.poll_output() {
            Some((to, bytes)) => {
                assert_eq!(to, rank);
                String::from_utf8(bytes).expect("text")
            }
            None => String::new(),
        }
    }

    #[test]
    fn what_one_rank_puts_another_gets() {
        let mut server = server(2);
        assert_eq!(ask(&mut server, 0, "cmd=put kvsname=kvs_j key=k value=v"), "cmd=put_result rc=0\n");
        assert_eq!(ask(&mut server, 1, "cmd=get kvsname=kvs_j key=k"), "cmd=get_result rc=0 value=v\n");
        let missing = ask(&mut server, 1, "cmd=get kvsname=kvs_j key=nothing");
        assert_eq!(missing, "cmd=get_result rc=-1 msg=key_not_found\n");
        assert!(ask(&mut server, 1, "cmd=get kvsname=other key=k").contains("rc=-1"));
        assert!(ask(&mut server, 1, "cmd=get key=PMI_process_mapping").contains("value=(vector,(0,1,2))"));
    }

    #[test]
    fn a_barrier_opens_when_the_last_is_in() {
        let mut server = server(3);
        assert_eq!(ask(&mut server, 2, "cmd=barrier_in"), "");
        assert_eq!(ask(&mut server, 0, "cmd=barrier_in"), "");
        assert!(server.is_barrier_pending());
        assert_eq!(server.handle_bytes(1, b"cmd=barrier_in\n"), None);
        let mut released: Vec<usize> = std::iter::from_fn(|| server.poll_output()).map(|(r, _)| r).collect();
        released.sort_unstable();
        assert_eq!(released, [0, 1, 2]);
        assert!(!server.is_barrier_pending());
    }

    #[test]
    fn messages_may_come_in_pieces_and_several_at_once() {
        let mut server = server(1);
        assert_eq!(server.handle_bytes(0, b"cmd=get_"), None);
        assert_eq!(server.poll_output(), None);
        assert_eq!(server.handle_bytes(0, b"appnum\ncmd=get_universe_size\ncmd=fin"), None);
        let replies = b"cmd=appnum rc=0 appnum=0\ncmd=universe_size rc=0 size=-1\n".to_vec();
        assert_eq!(server.poll_output(), Some((0, replies)));
        assert_eq!(ask(&mut server, 0, "alize"), "cmd=finalize_ack rc=0\n");
        assert_eq!(server.phase(0), Phase::Finalised);
        // A session after MPI_Finalize: the rank owes another leave.
        assert!(ask(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1").contains("rc=0"));
        assert_eq!(server.phase(0), Phase::Initialised);
        assert_eq!(ask(&mut server, 0, "cmd=finalize"), "cmd=finalize_ack rc=0\n");
        assert_eq!(server.phase(0), Phase::Finalised);
    }

    #[test]
    fn spawn_of_two_commands_is_one_event_with_a_text_answer() {
        let mut server = server(1);
        let part = |number: usize| {
            format!(
                "mcmd=spawn\nnprocs={number}\nexecname=./a b\ntotspawns=2\nspawnssofar={number}\nendcmd\n"
            )
        };
        assert_eq!(server.handle_bytes(0, part(1).as_bytes()), None);
        let Some(Event::Spawn(spawn)) = server.handle_bytes(0, part(2).as_bytes()) else {
            panic!("no event")
        };
        let parts: Vec<(&str, u32)> = spawn.parts.iter().map(|part| (&*part.program, part.count)).collect();
        assert_eq!(parts, [("./a b", 1), ("./a b", 2)]);
        server.answer_spawn(0, Err("program not found:\n'./a b'"));
        let reply = server.poll_output().map(|(_, bytes)| String::from_utf8(bytes).unwrap()).unwrap();
        assert_eq!(reply, "cmd=spawn_result rc=-1 msg=program not found: './a b'\n");
        assert!(matches!(server.handle_bytes(0, part(2).as_bytes()), Some(Event::Violation(_))));
        assert_eq!(ask(&mut server, 0, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0\n");
    }

    #[test]
    fn names_are_published_once_looked_up_and_taken_back() {
        let mut server = server(2);
        assert!(ask(&mut server, 0, "cmd=publish_name service=s port=p").contains("rc=0"));
        assert!(ask(&mut server, 1, "cmd=publish_name service=s port=q").contains("rc=-1"));
        assert_eq!(ask(&mut server, 1, "cmd=lookup_name service=s"), "cmd=lookup_result rc=0 port=p\n");
        assert!(ask(&mut server, 1, "cmd=unpublish_name service=s").contains("rc=0"));
        assert!(ask(&mut server, 1, "cmd=lookup_name service=s").contains("rc=-1"));
    }

    #[test]
    fn nonsense_is_an_event_and_no_panic() {
        let violation = |bytes: &[u8]| match server(2).handle_bytes(1, bytes) {
            Some(Event::Violation(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(violation(b"GET / HTTP/1.1\r\n").contains("not"));
        assert!(violation(b"cmd=explode\n").contains("unknown command 'explode'"));
        assert!(violation(&[0xff; 5000]).contains("within 2048 bytes"));
        assert!(violation(b"cmd=barrier_in\ncmd=get_appnum\n").contains("barrier is pending"));
        let early = Server::new("j", 0..1).handle_bytes(0, b"cmd=get_maxes\n");
        assert!(matches!(early, Some(Event::Violation(why)) if why.contains("before cmd=init")));
    }

    #[test]
    fn another_pmi_version_is_refused_and_the_rank_stays_silent() {
        let mut server = Server::new("j", 0..1);
        assert!(ask(&mut server, 0, "cmd=init pmi_version=2 pmi_subversion=0").contains("rc=-1"));
        assert_eq!(server.phase(0), Phase::Silent);
    }
}
