//! PMIx: launchers that are spoken to through a library of theirs.
//!
//! PMI-1 is bytes on a socket; PMIx is a C library, `libpmix.so.2`, that talks to a server of the launcher on
//! this host (`prted`, `mpirun`, `slurmstepd`). It is loaded when a process finds itself under such a
//! launcher, so nothing of it is needed to build this one. Versions 3, 4 and 5 are spoken to through what has
//! not changed among them (`sys.rs`). Source: the PMIx Standard 4.1, chapters 5 (client), 6 (data), 7
//! (reserved keys), 9 (events) and 10 (names).
//!
//! ```text
//! rank                              server on this host           servers elsewhere
//!   init                       ->
//!   put …, commit              ->   keeps it
//!   fence                      ->   waits for its ranks      <->  and these for theirs
//!   get(rank, key)             ->   has it, or asks           ->  the server of that rank: once a host
//!   abort, or finalize         ->
//! ```
//!
//! **Lazy**: in a job of more than 256 processes a fence moves no data, and a value is fetched
//! from the host of the process that has put it when it is asked for. In a smaller one the fence brings all
//! values to all hosts.
//!
//! **Never a hang**: every wait has a limit ([`LIMIT`], or `AYATORI_LAUNCH_TIMEOUT` in seconds).

mod launcher;
mod library;
mod nodes;
mod sys;

use std::fmt;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use sys::{Library, Proc, Status, Value, WILDCARD};

/// How long to wait for the server and for the other processes. Slurm's own limit for a fence, too.
const LIMIT: Duration = Duration::from_secs(300);
/// Seconds in place of [`LIMIT`].
const ENV_TIMEOUT: &str = "AYATORI_LAUNCH_TIMEOUT";
/// The versions whose types `sys.rs` has.
const VERSIONS: std::ops::RangeInclusive<u32> = 3..=5;

/// Why talking to a PMIx launcher failed.
#[derive(Debug)]
pub enum Error {
    /// No library could be loaded.
    Library {
        /// Each place and why it did not serve.
        tried: Vec<String>,
    },
    /// The library did not find the server that the environment names.
    Server {
        /// The library's reason.
        why: String,
    },
    /// A request failed.
    Request {
        /// The operation in progress.
        doing: &'static str,
        /// PMIx's number for it.
        status: i32,
        /// Its words.
        why: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library { tried } => write!(
                f,
                "PMIx: the launcher speaks PMIx, and its library libpmix.so.2 cannot be loaded on \
                 this host ({}); install it (Debian: libpmix2) or name it in {}",
                tried.join("; "),
                library::ENV_PMIX_LIBRARY
            ),
            Self::Server { why } => write!(
                f,
                "PMIx: the environment names a PMIx launcher, and its server on this host does not take \
                 this process in: {why}; if these variables are left over, unset PMIX_NAMESPACE and \
                 PMIX_RANK, or set AYATORI_LAUNCH=singleton to run this process alone on purpose"
            ),
            Self::Request { doing, status, why } => write!(f, "PMIx: {doing}: {why} ({status})"),
        }
    }
}

impl std::error::Error for Error {}

/// What the environment says of a PMIx launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The job's namespace.
    pub namespace: String,
    /// This process in it.
    pub rank: u32,
}

/// A process under a PMIx launcher.
pub struct Client {
    library: Arc<Library>,
    proc: Proc,
    size: u32,
    limit: Duration,
    /// Values put are not committed yet.
    has_put: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("proc", &self.proc).field("size", &self.size).finish_non_exhaustive()
    }
}

/// Loads the library and joins the job.
///
/// # Errors
/// There is no library, or none of a version spoken here; the server does not answer or is another job's.
pub fn connect(environment: &Environment) -> Result<Client, Error> {
    let limit = limit();
    let library = Arc::new(load()?);
    let proc = init(&library, limit)?;
    if proc.rank != environment.rank || proc.nspace != environment.namespace {
        let why = format!(
            "it says that this is process {} of {}, and the environment process {} of {}",
            proc.rank, proc.nspace, environment.rank, environment.namespace
        );
        return Err(Error::Server { why });
    }
    let mut client = Client { library, proc, size: 0, limit, has_put: false };
    client.size = match client.of_job("pmix.job.size", "asking for the size of the job")? {
        Some(Value::Number(size)) if size > client.proc.rank => size,
        other => {
            let why = format!("it gives {other:?} for the size of the job");
            return Err(Error::Server { why });
        }
    };
    Ok(client)
}

fn limit() -> Duration {
    let seconds = std::env::var(ENV_TIMEOUT).ok().and_then(|text| text.trim().parse::<u64>().ok());
    seconds.filter(|&seconds| seconds > 0).map_or(LIMIT, Duration::from_secs)
}

fn load() -> Result<Library, Error> {
    let mut tried = Vec::new();
    for place in library::candidates() {
        match sys::open(&place) {
            Ok(library) => {
                let version = library.version();
                if is_spoken(&version) {
                    return Ok(library);
                }
                let (first, last) = (VERSIONS.start(), VERSIONS.end());
                tried.push(format!("{place}: {version}, and versions {first} to {last} are spoken here"));
            }
            Err(why) => tried.push(why),
        }
    }
    Err(Error::Library { tried })
}

/// Whether a library with this text of its version can be used: "OpenPMIx 4.2.2rc2 (…)", "PMIx 3.2.3".
fn is_spoken(version: &str) -> bool {
    let number = version.split_ascii_whitespace().find_map(|word| {
        let (major, _) = word.split_once('.')?;
        major.parse().ok()
    });
    number.is_some_and(|major: u32| VERSIONS.contains(&major))
}

/// `PMIx_Init` tries for minutes where a server takes connections and does not answer: it is given its time,
/// in a thread.
fn init(library: &Arc<Library>, limit: Duration) -> Result<Proc, Error> {
    let (result_to, result) = mpsc::channel();
    let own = Arc::clone(library);
    let start = std::thread::Builder::new().name("ayatori-pmix".to_owned());
    // A receiver that has given up is no reason to fail here.
    let begun = start.spawn(move || drop(result_to.send(own.init())));
    let thread =
        begun.map_err(|error| Error::Server { why: format!("no thread can be started: {error}") })?;
    let answer = result.recv_timeout(limit);
    match answer {
        Ok(result) => {
            // It has sent its last.
            let _ = thread.join();
            result.map_err(|status| Error::Server { why: library.describe(status) })
        }
        Err(_) => Err(Error::Server { why: format!("it has not answered for {} s", limit.as_secs()) }),
    }
}

/// Whether this process is the one of its host and job to say why none can start: the first to leave a mark
/// in the directory that the launcher has made for the job, and removes after it. Without such a directory
/// each process is.
pub fn is_first_to_complain(environment: &Environment) -> bool {
    let Some(directory) = std::env::var_os("PMIX_SERVER_TMPDIR").map(PathBuf::from) else { return true };
    let name: String = environment.namespace.chars().filter(char::is_ascii_alphanumeric).collect();
    let mark = directory.join(format!("ayatori-complaint-{name}"));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(mark);
    !matches!(made, Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

impl Client {
    fn error(&self, doing: &'static str) -> impl Fn(Status) -> Error + use<> {
        let library = Arc::clone(&self.library);
        move |status| {
            let why = match status {
                sys::ERR_TIMEOUT => {
                    "no answer in time; do all processes of the job use this library?".to_owned()
                }
                sys::ERR_UNREACH | sys::ERR_LOST_CONNECTION => "the launcher is gone".to_owned(),
                status => library.describe(status),
            };
            Error::Request { doing, status, why }
        }
    }

    /// What the server knows of the job as a whole.
    fn of_job(&self, key: &str, doing: &'static str) -> Result<Option<Value>, Error> {
        let found = self.library.get(&self.proc.nspace, WILDCARD, key, true, self.limit);
        found.map_err(self.error(doing))
    }

    fn of_self(&self, key: &str) -> Option<Value> {
        self.library.get(&self.proc.nspace, self.proc.rank, key, true, self.limit).ok().flatten()
    }

    fn commit(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.has_put) {
            self.library.commit().map_err(self.error("handing values to the launcher"))?;
        }
        Ok(())
    }

    fn fence_on(
        &mut self,
        collects: bool,
        meanwhile: &mut dyn FnMut() -> ControlFlow<(), Duration>,
    ) -> Result<(), Error> {
        self.commit()?;
        let done = self.library.fence(&self.proc.nspace, collects, self.limit, meanwhile);
        done.map_err(self.error("waiting for the other processes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_the_librarys_own_words() {
        for spoken in ["OpenPMIx 4.2.2rc2 (PMIx Standard: 4.1)", "PMIx 3.2.3", "OpenPMIx 5.0.11rc1 (x: 5.1)"]
        {
            assert!(is_spoken(spoken), "{spoken}");
        }
        for other in ["", "OpenPMIx 6.0.0", "PMIx 2.2.5", "OpenPMIx"] {
            assert!(!is_spoken(other), "{other}");
        }
    }
}
