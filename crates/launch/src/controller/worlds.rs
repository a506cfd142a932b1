//! Worlds that ranks have started (`MPI_Comm_spawn`): each is a job of its own with a launcher of its own, a
//! process that this launcher starts and that ends with it.
//!
//! ```text
//!   rank -- mcmd=spawn --> launcher -- Spec --> launcher of the new world --> its ranks
//!                             <-- Started, or Failed --
//!                             <-- Ask --  -- Answer -->    the names are the first launcher's
//!                             <-- Apart --                 nobody there is connected to others any more
//! ```
//!
//! A job is over when its worlds are. One that fails ends those that started it, and they end it, unless all
//! of its ranks have disconnected. Words are lines of JSON over a socket.

use crate::binary;
use crate::pmi::names::{NameReply, NameRequest};
use crate::pmi::spawn::{Part, Spawn};
use crate::spec::{Abi, App, Binding, Cluster, JobSpec, Program};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The name by which this program recognises that it was started to run a world.
pub const NAME: &str = "mpi-world";
/// Longest line: a spawn's words and values.
const LINE_BYTES_MAX: usize = 4 << 20;

/// What the two launchers say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// To the new one, first: run this.
    Spec(Box<JobSpec>),
    /// All ranks of the new world run.
    Started,
    /// They cannot be started, and why.
    Failed(String),
    /// What a rank asks of the names, under a number.
    Ask(u64, NameRequest),
    /// The answer under that number.
    Answer(u64, NameReply),
    /// The ranks of the world are connected among themselves only.
    Apart,
}

/// One end of the socket between two launchers.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: UnixStream,
    received: Vec<u8>,
}

impl Wire {
    fn new(socket: UnixStream) -> std::io::Result<Self> {
        Ok(Self { socket, received: Vec::new() })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Says a word. A far end that is gone is noticed by reading.
    pub(crate) fn say(&mut self, word: &Word) {
        let mut line = serde_json::to_vec(word).unwrap_or_default();
        line.push(b'\n');
        // Short, and read at once by a launcher that waits for nothing else: blocking is no matter.
        let _ = self.socket.set_nonblocking(false);
        let _ = self.socket.write_all(&line);
    }

    /// The words that have come, and whether the far end is gone or talks nonsense.
    pub(crate) fn hear(&mut self) -> (Vec<Word>, bool) {
        let _ = self.socket.set_nonblocking(true);
        let (mut words, mut is_over, mut chunk) = (Vec::new(), false, [0; 4096]);
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => is_over = true,
                Ok(count) => {
                    self.received.extend_from_slice(&chunk[..count]);
                    is_over |= self.received.len() > LINE_BYTES_MAX;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => is_over |= error.kind() != std::io::ErrorKind::WouldBlock,
            }
            while let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(word) => words.push(word),
                    Err(_) => is_over = true,
                }
            }
            if is_over || self.received.is_empty() && words.is_empty() {
                return (words, is_over);
            }
            if !words.is_empty() {
                return (words, false);
            }
            // A line in part: the rest is on its way.
            let mut waits = [rustix::event::PollFd::new(&self.socket, rustix::event::PollFlags::IN)];
            let _ = rustix::event::poll(&mut waits, None);
        }
    }
}

/// A world that a rank has started.
#[derive(Debug)]
pub(super) struct World {
    child: Child,
    pub(super) wire: Wire,
    /// The rank that waits to hear whether it runs.
    pub(super) asker: Option<usize>,
    pub(super) is_apart: bool,
    /// Its exit code is the answer to the spawn and no failure of the job.
    pub(super) has_failed_to_start: bool,
    /// Its launcher's end is closed.
    pub(super) is_silent: bool,
    pub(super) status: Option<ExitStatus>,
}

impl World {
    /// Starts the launcher of a world.
    pub(super) fn start(spec: JobSpec, asker: usize) -> anyhow::Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("a socket for the new world's launcher")?;
        let fd = theirs.as_raw_fd();
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).arg(fd.to_string()).stdin(Stdio::null()).process_group(0);
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        let setup = crate::child::RankSetup { parent, inherit: [fd, -1], open_files: None, cpus: None };
        crate::child::prepare(&mut command, setup);
        let child = command.spawn().context("starting the new world's launcher")?;
        let mut wire = Wire::new(ours)?;
        wire.say(&Word::Spec(Box::new(spec)));
        Ok(Self {
            child,
            wire,
            asker: Some(asker),
            is_apart: false,
            has_failed_to_start: false,
            is_silent: false,
            status: None,
        })
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Notices its end; the status, once.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        if self.status.is_some() {
            return None;
        }
        self.status = self.child.try_wait().ok().flatten();
        self.status
    }

    /// Passes a signal on; the world's launcher does with it what it does with a user's.
    pub(super) fn signal(&self, signal: i32) {
        if self.status.is_none()
            && let (Some(pid), Some(signal)) = (self.pid(), Signal::from_named_raw(signal))
        {
            // Killed at once it could not end its ranks in order, but they die with it.
            let _ = kill_process(pid, signal);
        }
    }
}

/// The asker of a name that another launcher keeps.
pub(super) enum NameAsker {
    Rank(usize),
    /// A world, and its number of the question.
    World(usize, u64),
}

/// Number of processes that fit: the user's value, or the slots of the hosts. It is unknown for one host
/// without slots: a guess from its CPUs would keep programs from spawning processes that run well.
pub(super) fn universe_size(spec: &JobSpec) -> Option<usize> {
    let slots = |cluster: &Cluster| cluster.hosts.iter().map(|host| host.slots).sum();
    spec.universe_size.map(|size| size as usize).or_else(|| spec.cluster.as_ref().map(slots))
}

/// The job that a spawn asks for, on the hosts of the job that asks.
pub(super) fn spec_of(own: &JobSpec, spawn: Spawn, hostname: &str) -> anyhow::Result<JobSpec> {
    let mut cluster = own.cluster.clone();
    for part in &spawn.parts {
        let Some(wanted) = part.hint("host") else { continue };
        let wanted: Vec<&str> = wanted.split(',').map(str::trim).collect();
        match &mut cluster {
            Some(cluster) => cluster.hosts.retain(|host| wanted.contains(&host.name.as_str())),
            None if wanted.iter().all(|name| *name == hostname || *name == "localhost") => {}
            None => anyhow::bail!("host '{}' is not of this job, which runs on {hostname}", wanted.join(",")),
        }
        if cluster.as_ref().is_some_and(|cluster| cluster.hosts.is_empty()) {
            anyhow::bail!("host '{}' is not of this job", wanted.join(","));
        }
    }
    let apps = spawn.parts.into_iter().map(|part| app(part, own.abi)).collect::<anyhow::Result<_>>()?;
    Ok(JobSpec {
        apps,
        // Cores of their own are taken by those that spawn.
        binding: Some(Binding::None),
        is_tagged: own.is_tagged,
        timeout: None,
        survives: own.survives,
        is_verbose: own.is_verbose,
        cluster,
        // Room is that of all worlds together, as the user said it when the first one started.
        universe_size: universe_size(own).and_then(|size| u32::try_from(size).ok()),
        values: spawn.values,
        is_spawned: true,
        abi: own.abi,
    })
}

/// A program is looked at for its ABI as those of the first world are.
fn app(part: Part, abi: Option<Abi>) -> anyhow::Result<App> {
    let directories = part.hint("path").unwrap_or_default();
    let is_bare = !part.program.contains('/');
    let found = directories
        .split([':', ' '])
        .filter(|directory| is_bare && !directory.is_empty())
        .map(|directory| Path::new(directory).join(&part.program))
        .find(|path| path.is_file());
    let name = found.map_or_else(|| part.program.clone().into(), std::path::PathBuf::into_os_string);
    let wdir = part.hint("wdir").map(Into::into);
    let args = part.args.iter().map(Into::into).collect();
    let mut program = Program { name, args, env: Vec::new(), wdir };
    binary::prepare(&mut program, abi)?;
    Ok(App { ranks_count: part.count as usize, program })
}

/// The new launcher's side: the wire, and what it is to run.
///
/// # Errors
/// This process was not started so.
pub(super) fn take_over(number: &str) -> anyhow::Result<(Wire, JobSpec)> {
    let fd: RawFd = number.parse().ok().filter(|&fd: &RawFd| fd > 2).context("no descriptor is given")?;
    let socket = UnixStream::from(crate::sys::adopt(fd).context("the descriptor of the first launcher")?);
    let mut wire = Wire::new(socket)?;
    let mut waits = [rustix::event::PollFd::new(&wire.socket, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut waits, None).context("waiting for what to run")?;
    match wire.hear().0.into_iter().next() {
        Some(Word::Spec(spec)) => Ok((wire, *spec)),
        _ => anyhow::bail!("the first launcher says nothing of what to run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::HostSpec;

    fn spawn(hints: &[(&str, &str)]) -> Spawn {
        let hints = hints.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let part = Part { program: "sh".to_owned(), args: vec!["x y".to_owned()], count: 2, hints };
        Spawn { parts: vec![part], values: vec![("k".to_owned(), "v".to_owned())] }
    }

    #[test]
    fn wishes_are_honoured_or_refused() {
        let own = JobSpec { is_tagged: true, ..JobSpec::default() };
        let spec = spec_of(&own, spawn(&[("wdir", "/tmp"), ("path", "/nowhere:/bin")]), "here").unwrap();
        let program = &spec.apps[0].program;
        assert_eq!(
            (program.name.to_str(), program.wdir.as_deref()),
            (Some("/bin/sh"), Some("/tmp".as_ref()))
        );
        assert!(spec.is_spawned && spec.is_tagged && spec.ranks_count() == 2);
        assert!(spec_of(&own, spawn(&[("host", "here")]), "here").is_ok());
        assert!(spec_of(&own, spawn(&[("host", "there")]), "here").is_err());
        let hosts = HostSpec::list("a,b:3").unwrap();
        let cluster = Some(Cluster { hosts, agent: vec![], branch_count: None, rails: None, no_rails: None });
        let own = JobSpec { cluster, ..JobSpec::default() };
        let spec = spec_of(&own, spawn(&[("host", "b")]), "here").unwrap();
        assert_eq!(spec.cluster.unwrap().hosts, HostSpec::list("b:3").unwrap());
        assert!(spec_of(&own, spawn(&[("host", "c")]), "here").is_err());
    }

    /// A script does not say what it was built for. No translator is installed beside the test.
    #[test]
    fn spawned_programs_have_the_abi_that_the_user_has_forced() {
        let own = |abi| JobSpec { abi, ..JobSpec::default() };
        let refused = spec_of(&own(Some(Abi::OpenMpi)), spawn(&[]), "here").expect_err("no translator");
        assert!(refused.to_string().contains("libmpi.so.40"), "{refused}");
        let spec = spec_of(&own(Some(Abi::Standard)), spawn(&[]), "here").unwrap();
        assert_eq!(spec.abi, Some(Abi::Standard));
    }

    #[test]
    fn room_is_what_the_user_says_or_the_slots_of_hosts() {
        let own = JobSpec::default();
        assert_eq!(universe_size(&own), None);
        let hosts = HostSpec::list("a:2,b:3").unwrap();
        let cluster = Some(Cluster { hosts, agent: vec![], branch_count: None, rails: None, no_rails: None });
        let own = JobSpec { cluster, ..own };
        assert_eq!(universe_size(&own), Some(5));
        assert_eq!(universe_size(&spec_of(&own, spawn(&[("host", "b")]), "here").unwrap()), Some(5));
        assert_eq!(universe_size(&JobSpec { universe_size: Some(7), ..own }), Some(7));
    }

    #[test]
    fn words_survive_the_wire_and_nonsense_ends_it() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut here, mut there) = (Wire::new(a).unwrap(), Wire::new(b).unwrap());
        let words = [
            Word::Spec(Box::new(spec_of(&JobSpec::default(), spawn(&[]), "here").unwrap())),
            Word::Failed("why\nnot".to_owned()),
            Word::Ask(7, NameRequest::Lookup("s".to_owned())),
            Word::Apart,
        ];
        words.iter().for_each(|word| here.say(word));
        assert_eq!(there.hear(), (words.to_vec(), false));
        assert_eq!(there.hear(), (vec![], false));
        here.socket.write_all(b"{}\n").unwrap();
        assert!(there.hear().1);
        drop(here);
        assert!(there.hear().1);
    }
}
