//! Where the controller of a job on several hosts is asked: a socket with an abstract name, which dies with
//! it.

use crate::why::report::HostReport;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The socket's name before the job's id.
pub(crate) const NAME_PREFIX: &str = "ayatori-why-";
/// An inquirer says at once what it wants.
const QUESTION_PATIENCE: Duration = Duration::from_millis(200);
/// How long a launcher may take to ask all hosts.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// What the controller answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) program: String,
    pub(crate) age_ms: u64,
    pub(crate) ranks_count: u32,
    pub(crate) launcher: i32,
    pub(crate) hosts: Vec<HostReport>,
}

/// The question of an inquirer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Which job this is.
    Who,
    /// The state of its ranks.
    Why,
}

/// Where the launcher of a job on several hosts is asked.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Listens under the job's id.
    pub(crate) fn open(job: &str) -> anyhow::Result<Self> {
        let address = SocketAddr::from_abstract_name(format!("{NAME_PREFIX}{job}"))?;
        let listener = UnixListener::bind_addr(&address).context("listening for `ayatori why`")?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Readable when an inquiry comes.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The next inquirer, of the same user.
    pub(crate) fn accept(&self) -> Option<(UnixStream, Question)> {
        let (mut socket, _) = self.0.accept().ok()?;
        let who = rustix::net::sockopt::socket_peercred(&socket).ok()?;
        if who.uid != rustix::process::geteuid() && !who.uid.is_root() {
            return None;
        }
        socket.set_nonblocking(false).ok()?;
        socket.set_read_timeout(Some(QUESTION_PATIENCE)).ok()?;
        let mut asked = [0; 4];
        socket.read_exact(&mut asked).ok()?;
        match &asked {
            b"who\n" => Some((socket, Question::Who)),
            b"why\n" => Some((socket, Question::Why)),
            _ => None,
        }
    }
}

/// Sends an answer; a slow reader does not block the launcher.
pub(crate) fn reply(mut socket: UnixStream, answer: Vec<u8>) {
    let sends = move || {
        let _ = socket.set_write_timeout(Some(Duration::from_secs(2)));
        let _ = socket.write_all(&answer);
    };
    let _ = std::thread::Builder::new().name("why".into()).spawn(sends);
}

/// Asks the controller of a job; for [`Question::Why`], what all ranks do.
pub(crate) fn ask(id: &str, question: Question) -> anyhow::Result<Answer> {
    let address = SocketAddr::from_abstract_name(format!("{NAME_PREFIX}{id}"))?;
    let mut socket = UnixStream::connect_addr(&address).context("reaching the job's launcher")?;
    socket.set_read_timeout(Some(ANSWER_PATIENCE))?;
    socket.write_all(match question {
        Question::Who => b"who\n",
        Question::Why => b"why\n",
    })?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).context("hearing the job's launcher (is it stopped?)")?;
    serde_json::from_slice(&answer).context("the job's launcher has refused, or is another version")
}
