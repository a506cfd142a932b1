//! The blocking PMI-1 client: what a process does at `MPI_Init`, `MPI_Finalize` and `MPI_Abort`.

use super::spawn::{self, Part};
use super::wire::{self, Answer, LINE_MAX_BYTES, Line, Reply, Request, WireError};
use crate::environment::{Connection, Pmi1};
use crate::sys;
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Why talking to the launcher failed.
#[derive(Debug)]
pub enum Error {
    /// A system call failed.
    Io {
        /// The operation in progress.
        doing: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The launcher closed the connection: it has died.
    Gone {
        /// The operation in progress.
        doing: &'static str,
    },
    /// The launcher sent what is no PMI-1, or we were asked to send it.
    Wire {
        /// The operation in progress.
        doing: &'static str,
        /// The cause.
        source: WireError,
    },
    /// The launcher answered another question than the one asked.
    OutOfStep {
        /// The operation in progress.
        doing: &'static str,
        /// The launcher's answer.
        answer: String,
    },
    /// The launcher said no.
    Refused {
        /// The operation in progress.
        doing: &'static str,
        /// Its return code.
        rc: i32,
        /// Its reason, where it gave one.
        msg: Option<String>,
    },
    /// The launcher speaks another version.
    Version {
        /// The major version it offers.
        version: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, source } => write!(f, "PMI: {doing}: {source}"),
            Error::Gone { doing } => write!(f, "PMI: {doing}: the launcher has closed the connection"),
            Error::Wire { doing, source } => write!(f, "PMI: {doing}: {source}"),
            Error::OutOfStep { doing, answer } => {
                write!(f, "PMI: {doing}: the launcher answered '{answer}', which was not asked")
            }
            Error::Refused { doing, rc, msg } => {
                write!(f, "PMI: {doing}: the launcher refused with code {rc}")?;
                msg.as_ref().map_or(Ok(()), |msg| write!(f, " ({msg})"))
            }
            Error::Version { version } => write!(
                f,
                "PMI: the launcher speaks version {version} and this library version 1; start the program with \
                 `ayatori run`, MPICH's mpiexec or `srun --mpi=pmi2`"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Wire { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Longest name, key and value that the launcher takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maxes {
    /// Longest name of a key-value space.
    pub kvsname_bytes: usize,
    /// Longest key.
    pub key_bytes: usize,
    /// Longest value.
    pub value_bytes: usize,
}

/// A connection to the launcher. Dropping it without [`Client::finalize`] tells the launcher that this
/// process has failed.
#[derive(Debug)]
pub struct Client {
    // A File reads and writes any descriptor; it need not be a socket.
    stream: File,
    /// Received bytes; the first `consumed` were dealt with.
    received: Vec<u8>,
    consumed: usize,
    rank: u32,
    size: u32,
    kvsname: String,
    is_spawned: bool,
    maxes: Maxes,
    /// The launcher is `ayatori run`.
    is_ours: bool,
}

impl Client {
    /// Connects, introduces this process, and asks what every process needs: limits and the name of the
    /// key-value space.
    ///
    /// # Errors
    /// The launcher cannot be reached, speaks another version, or refuses.
    pub fn connect(launch: &Pmi1) -> Result<Self, Error> {
        let (stream, id) = match &launch.connection {
            Connection::Fd(fd) => {
                let fd = sys::adopt(*fd)
                    .map_err(|source| Error::Io { doing: "taking over the socket PMI_FD", source })?;
                (fd, None)
            }
            Connection::Port { address, id } => {
                let doing = "connecting to PMI_PORT";
                let stream =
                    TcpStream::connect(address.as_str()).map_err(|source| Error::Io { doing, source })?;
                // One request in flight: Nagle would only delay it.
                stream.set_nodelay(true).map_err(|source| Error::Io { doing, source })?;
                (OwnedFd::from(stream), Some(*id))
            }
        };
        let mut client = Client {
            stream: File::from(stream),
            received: Vec::with_capacity(LINE_MAX_BYTES),
            consumed: 0,
            rank: launch.rank.unwrap_or(0),
            size: launch.size.unwrap_or(1),
            kvsname: String::new(),
            maxes: Maxes { kvsname_bytes: 0, key_bytes: 0, value_bytes: 0 },
            is_spawned: launch.is_spawned,
            is_ours: launch.host.job.is_some(),
        };
        if let Some(id) = id {
            client.introduce(id)?;
        }
        client.init()?;
        Ok(client)
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The name of the job's key-value space; the same in every process of the job and in no other job.
    pub fn kvsname(&self) -> &str {
        &self.kvsname
    }

    /// Whether processes of another job have started this one.
    pub fn is_spawned(&self) -> bool {
        self.is_spawned
    }

    /// What the launcher takes at most.
    pub fn maxes(&self) -> Maxes {
        self.maxes
    }

    /// Which part of a `prog1 : prog2` command line this process belongs to (`MPI_APPNUM`).
    ///
    /// # Errors
    /// As for every request: the launcher is gone, refuses, or talks nonsense.
    pub fn appnum(&mut self) -> Result<i32, Error> {
        match self.ask(Request::GetAppnum, "asking for the application number")? {
            Reply::Appnum(appnum) => Ok(appnum),
            other => Err(out_of_step("asking for the application number", other)),
        }
    }

    /// How many processes the job could have (`MPI_UNIVERSE_SIZE`); negative where the launcher does not
    /// know.
    ///
    /// # Errors
    /// As for every request.
    pub fn universe_size(&mut self) -> Result<i32, Error> {
        match self.ask(Request::GetUniverseSize, "asking for the universe size")? {
            Reply::UniverseSize(size) => Ok(size),
            other => Err(out_of_step("asking for the universe size", other)),
        }
    }

    /// Stores a value, which others see after the next [`Client::barrier`].
    ///
    /// # Errors
    /// As for every request; a key or value that is too long or holds a space or newline.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let kvsname = std::mem::take(&mut self.kvsname);
        let result =
            self.done(Request::Put { kvsname: Some(&kvsname), key, value }, Answer::Put, "storing a value");
        self.kvsname = kvsname;
        result
    }

    /// Fetches a value; `None` if none is stored under this key.
    ///
    /// # Errors
    /// As for every request.
    pub fn get(&mut self, key: &str) -> Result<Option<String>, Error> {
        let doing = "fetching a value";
        let kvsname = std::mem::take(&mut self.kvsname);
        let result = match self.ask_any(Request::Get { kvsname: Some(&kvsname), key }, doing) {
            Ok(Reply::Value(value)) => Ok(Some(value.to_owned())),
            Ok(Reply::Failed { answer: Answer::Get, .. }) => Ok(None),
            Ok(other) => Err(out_of_step(doing, other)),
            Err(error) => Err(error),
        };
        self.kvsname = kvsname;
        result
    }

    /// Fetches a value for each key, in their order, `None` if none is stored. Under `ayatori run` many
    /// requests are in flight at a time, so that it takes the launcher's time and not as many round trips.
    /// Other launchers need not take a request before the one before it is answered: Slurm 22.05 loses the
    /// second.
    ///
    /// # Errors
    /// As for every request.
    pub fn get_all(&mut self, keys: &[String]) -> Result<Vec<Option<String>>, Error> {
        /// Requests of about 100 bytes each: all fit the socket while no answer is read.
        const UNANSWERED_MAX: usize = 32;
        let at_once = if self.is_ours { UNANSWERED_MAX } else { 1 };
        let doing = "fetching values";
        let mut values = Vec::with_capacity(keys.len());
        let kvsname = self.kvsname.clone();
        for keys in keys.chunks(at_once) {
            let mut lines = Vec::with_capacity(128 * keys.len());
            for key in keys {
                let request = Request::Get { kvsname: Some(&kvsname), key };
                request.emit(&mut lines).map_err(|source| Error::Wire { doing, source })?;
            }
            self.write(&lines, doing)?;
            for _ in keys {
                let range = self.receive(doing)?;
                let reply = Reply::parse(&self.received[range]);
                values.push(match reply.map_err(|source| Error::Wire { doing, source })? {
                    Reply::Value(value) => Some(value.to_owned()),
                    Reply::Failed { answer: Answer::Get, .. } => None,
                    other => return Err(out_of_step(doing, other)),
                });
            }
        }
        Ok(values)
    }

    /// Waits until every process of the job is here.
    ///
    /// # Errors
    /// As for every request.
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.done(Request::BarrierIn, Answer::Barrier, "waiting for the other processes")
    }

    /// The same, with something to do meanwhile, as in
    /// [`Launcher::fence_while`](crate::launcher::Launcher::fence_while).
    ///
    /// # Errors
    /// As for every request.
    pub fn barrier_while(
        &mut self,
        meanwhile: &mut dyn FnMut() -> ControlFlow<(), Duration>,
    ) -> Result<(), Error> {
        let doing = "waiting for the other processes";
        self.send(Request::BarrierIn, doing)?;
        loop {
            let ControlFlow::Continue(interval) = meanwhile() else { return Ok(()) };
            if sys::is_readable(&self.stream, interval) {
                break;
            }
        }
        let range = self.receive(doing)?;
        match Reply::parse(&self.received[range]).map_err(|source| Error::Wire { doing, source })? {
            Reply::Done(Answer::Barrier) => Ok(()),
            Reply::Failed { rc, msg, .. } => Err(Error::Refused { doing, rc, msg: msg.map(str::to_owned) }),
            other => Err(out_of_step(doing, other)),
        }
    }

    /// Publishes where a service is (`MPI_Publish_name`).
    ///
    /// # Errors
    /// As for every request; the name is taken.
    pub fn publish(&mut self, service: &str, port: &str) -> Result<(), Error> {
        self.done(Request::Publish { service, port }, Answer::Publish, "publishing a name")
    }

    /// Takes a published name back (`MPI_Unpublish_name`).
    ///
    /// # Errors
    /// As for every request; the name was not published.
    pub fn unpublish(&mut self, service: &str) -> Result<(), Error> {
        self.done(Request::Unpublish { service }, Answer::Unpublish, "unpublishing a name")
    }

    /// Where a service is (`MPI_Lookup_name`); `None` if it is not published.
    ///
    /// # Errors
    /// As for every request.
    pub fn lookup(&mut self, service: &str) -> Result<Option<String>, Error> {
        let doing = "looking a name up";
        match self.ask_any(Request::Lookup { service }, doing)? {
            Reply::Port(port) => Ok(Some(port.to_owned())),
            Reply::Failed { answer: Answer::Lookup, .. } => Ok(None),
            other => Err(out_of_step(doing, other)),
        }
    }

    /// Has the launcher start processes with these values in their key-value space (`MPI_Comm_spawn`); all or
    /// none.
    ///
    /// # Errors
    /// As for every request; the launcher cannot start processes, or not these.
    pub fn spawn(&mut self, parts: &[Part], values: &[(&str, &str)]) -> Result<(), Error> {
        let doing = "starting processes";
        let lines = spawn::emit(parts, values).map_err(|source| Error::Wire { doing, source })?;
        self.write(&lines, doing)?;
        let range = self.receive(doing)?;
        match Reply::parse(&self.received[range]).map_err(|source| Error::Wire { doing, source })? {
            Reply::Done(Answer::Spawn) => Ok(()),
            Reply::Failed { rc, msg, .. } => Err(Error::Refused { doing, rc, msg: msg.map(str::to_owned) }),
            other => Err(out_of_step(doing, other)),
        }
    }

    /// Says that this process needs the launcher no more and may exit.
    ///
    /// # Errors
    /// As for every request.
    pub fn finalize(&mut self) -> Result<(), Error> {
        self.done(Request::Finalize, Answer::Finalize, "finalizing")
    }

    /// Greets the launcher again after [`Client::finalize`]. Whether it takes that: `ayatori run` does,
    /// others have closed the connection.
    pub fn resume(&mut self) -> bool {
        self.is_ours && self.init().is_ok()
    }

    /// Asks the launcher to end the job. There is no answer: it ends this process too.
    /// Control characters in `message` become spaces; it is cut to what the protocol takes.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn abort(&mut self, exitcode: i32, message: Option<&str>) -> Result<(), Error> {
        let message = message.map(one_line);
        let message = message.as_deref().filter(|m| !m.is_empty());
        self.send(Request::Abort { exitcode, message }, "aborting the job")
    }

    /// The handshake over `PMI_PORT`, which asks for the rank by `PMI_ID`. Three `cmd=set` lines follow the
    /// reply.
    fn introduce(&mut self, id: u32) -> Result<(), Error> {
        let doing = "introducing this process";
        match self.ask(Request::InitAck { id }, doing)? {
            Reply::InitAck { rank, size } => {
                self.rank = rank.unwrap_or(id);
                self.size = size.unwrap_or(self.size);
            }
            other => return Err(out_of_step(doing, other)),
        }
        for _ in 0..3 {
            let range = self.receive(doing)?;
            let line = Line::new(&self.received[range]).map_err(|source| Error::Wire { doing, source })?;
            let number = |key| line.get(key).and_then(|v: &str| v.parse().ok());
            if line.command() != "set" {
                return Err(Error::OutOfStep { doing, answer: line.command().to_owned() });
            }
            let (rank, size) = (number("rank"), number("size"));
            self.rank = rank.unwrap_or(self.rank);
            self.size = size.unwrap_or(self.size);
        }
        Ok(())
    }

    fn init(&mut self) -> Result<(), Error> {
        let doing = "greeting the launcher";
        match self.ask(Request::Init { version: 1, subversion: 1 }, doing)? {
            Reply::Init { version: 1, .. } => {}
            Reply::Init { version, .. } => return Err(Error::Version { version }),
            other => return Err(out_of_step(doing, other)),
        }
        let doing = "asking for the limits";
        self.maxes = match self.ask(Request::GetMaxes, doing)? {
            Reply::Maxes { kvsname_max, keylen_max, vallen_max } => Maxes {
                kvsname_bytes: kvsname_max.min(wire::KVSNAME_MAX_BYTES),
                key_bytes: keylen_max.min(wire::KEY_MAX_BYTES),
                value_bytes: vallen_max.min(wire::VALUE_MAX_BYTES),
            },
            other => return Err(out_of_step(doing, other)),
        };
        let doing = "asking for the key-value space";
        self.kvsname = match self.ask(Request::GetKvsName, doing)? {
            Reply::KvsName(name) => name.to_owned(),
            other => return Err(out_of_step(doing, other)),
        };
        Ok(())
    }

    fn done(&mut self, request: Request<'_>, answer: Answer, doing: &'static str) -> Result<(), Error> {
        match self.ask(request, doing)? {
            Reply::Done(got) if got == answer => Ok(()),
            other => Err(out_of_step(doing, other)),
        }
    }

    /// One request and its reply; a refusal is an error.
    fn ask(&mut self, request: Request<'_>, doing: &'static str) -> Result<Reply<'_>, Error> {
        match self.ask_any(request, doing)? {
            Reply::Failed { rc, msg, .. } => Err(Error::Refused { doing, rc, msg: msg.map(str::to_owned) }),
            reply => Ok(reply),
        }
    }

    fn ask_any(&mut self, request: Request<'_>, doing: &'static str) -> Result<Reply<'_>, Error> {
        self.send(request, doing)?;
        let range = self.receive(doing)?;
        Reply::parse(&self.received[range]).map_err(|source| Error::Wire { doing, source })
    }

    fn send(&mut self, request: Request<'_>, doing: &'static str) -> Result<(), Error> {
        let mut line = Vec::with_capacity(128);
        request.emit(&mut line).map_err(|source| Error::Wire { doing, source })?;
        self.write(&line, doing)
    }

    fn write(&mut self, bytes: &[u8], doing: &'static str) -> Result<(), Error> {
        match self.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                Err(Error::Gone { doing })
            }
            Err(source) => Err(Error::Io { doing, source }),
        }
    }

    /// Not by write(2) to a socket: where the launcher is gone, that kills the process (`SIGPIPE`) before it
    /// can say so.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::net::send(&self.stream, bytes, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::NOTSOCK) => return self.stream.write_all(bytes),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Where in `received` the next message stands.
    fn receive(&mut self, doing: &'static str) -> Result<std::ops::Range<usize>, Error> {
        self.received.drain(..self.consumed);
        self.consumed = 0;
        loop {
            let whole =
                wire::first_message(&self.received).map_err(|source| Error::Wire { doing, source })?;
            if let Some(end) = whole {
                self.consumed = end;
                return Ok(0..end);
            }
            let mut chunk = [0; LINE_MAX_BYTES];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Error::Gone { doing }),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(Error::Gone { doing }),
                Err(source) => return Err(Error::Io { doing, source }),
            }
        }
    }
}

fn out_of_step(doing: &'static str, reply: Reply<'_>) -> Error {
    Error::OutOfStep { doing, answer: format!("{reply:?}") }
}

/// `message` as a tail field takes it.
fn one_line(message: &str) -> String {
    let clean: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut end = clean.len().min(wire::VALUE_MAX_BYTES);
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    clean[..end].trim_matches(' ').to_owned()
}
