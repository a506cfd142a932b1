//! The PMI-1 server: a state machine over bytes. It reads no socket: what ranks sent goes in by
//! [`Server::handle_bytes`], what they are to get comes out by [`Server::poll_output`].

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
}

#[derive(Debug)]
struct Peer {
    phase: Phase,
    appnum: usize,
    received: Vec<u8>,
    reply: Vec<u8>,
    is_in_barrier: bool,
}

/// Serves all ranks of one job.
#[derive(Debug)]
pub(crate) struct Server {
    kvsname: String,
    store: HashMap<String, String>,
    store_bytes: usize,
    names: HashMap<String, String>,
    peers: Vec<Peer>,
    barrier_count: usize,
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
        };
        let peers: Vec<Peer> = appnums.map(peer).collect();
        // All ranks are on one node: block (first node 0, 1 node, N ranks each).
        let mapping = format!("(vector,(0,1,{}))", peers.len());
        Server {
            kvsname: format!("kvs_{job}"),
            store: HashMap::from([("PMI_process_mapping".to_owned(), mapping)]),
            store_bytes: 0,
            names: HashMap::new(),
            peers,
            barrier_count: 0,
            ready: Vec::new(),
        }
    }

    /// Puts a value into the store before anybody asks.
    pub(crate) fn provide(&mut self, key: &str, value: &str) {
        self.store.insert(key.to_owned(), value.to_owned());
    }

    /// How far `rank` has come.
    pub(crate) fn phase(&self, rank: usize) -> Phase {
        self.peers[rank].phase
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
            request => self.answer(rank, request),
        }
        None
    }

    fn enter_barrier(&mut self, rank: usize) {
        self.peers[rank].is_in_barrier = true;
        self.barrier_count += 1;
        if self.barrier_count == self.peers.len() {
            self.barrier_count = 0;
            for rank in 0..self.peers.len() {
                self.peers[rank].is_in_barrier = false;
                self.reply(rank, Reply::Done(Answer::Barrier));
            }
        }
    }

    fn answer(&mut self, rank: usize, request: Request<'_>) {
        let count = i32::try_from(self.peers.len()).unwrap_or(i32::MAX);
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
            Request::GetUniverseSize => self.reply(rank, Reply::UniverseSize(count)),
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
            Request::Publish { service, port } => {
                if self.names.contains_key(service) || self.is_full(service, port) {
                    self.refuse(rank, Answer::Publish, "the_name_is_taken_or_the_store_full");
                } else {
                    self.store_bytes += service.len() + port.len();
                    self.names.insert(service.to_owned(), port.to_owned());
                    self.reply(rank, Reply::Done(Answer::Publish));
                }
            }
            Request::Unpublish { service } => match self.names.remove(service) {
                Some(port) => {
                    self.store_bytes -= service.len() + port.len();
                    self.reply(rank, Reply::Done(Answer::Unpublish));
                }
                None => self.refuse(rank, Answer::Unpublish, "no_such_name"),
            },
            Request::Lookup { service } => match self.names.get(service).cloned() {
                Some(port) => self.reply(rank, Reply::Port(&port)),
                None => self.refuse(rank, Answer::Lookup, "no_such_name"),
            },
            Request::Spawn => self.refuse(rank, Answer::Spawn, "ayatori_run_cannot_start_more_processes"),
            Request::Finalize => {
                self.peers[rank].phase = Phase::Finalised;
                self.reply(rank, Reply::Done(Answer::Finalize));
            }
            Request::BarrierIn | Request::Abort { .. } => unreachable!("handled by the caller"),
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

    fn refuse(&mut self, rank: usize, answer: Answer, msg: &'static str) {
        self.reply(rank, Reply::Failed { answer, rc: -1, msg: Some(msg) });
    }

    fn reply(&mut self, rank: usize, reply: Reply<'_>) {
        let out = &mut self.peers[rank].reply;
        if out.is_empty() {
            self.ready.push(rank);
        }
        if let Err(error) = reply.emit(out) {
            // What ranks put came over the same wire within the same bounds; what the launcher provides is
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

    /// What `rank` alone gets for one line.
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
        let replies = b"cmd=appnum rc=0 appnum=0\ncmd=universe_size rc=0 size=1\n".to_vec();
        assert_eq!(server.poll_output(), Some((0, replies)));
        assert_eq!(ask(&mut server, 0, "alize"), "cmd=finalize_ack rc=0\n");
        assert_eq!(server.phase(0), Phase::Finalised);
    }

    #[test]
    fn spawn_is_refused_in_words() {
        let mut server = server(1);
        let reply = ask(&mut server, 0, "mcmd=spawn\nnprocs=1\nexecname=./a b\ntotspawns=1\nendcmd");
        assert!(reply.starts_with("cmd=spawn_result rc=-1 msg="), "{reply}");
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
