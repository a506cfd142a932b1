//! An agent as the process sees it that has started it: the command that does, the channel to it, and its
//! loss.

use crate::channel::{Channel, Inflow};
use crate::error::{Error, FAILURE};
use crate::silence::SILENCE_MAX;
use crate::spec::{Reach, is_ssh};
use crate::status::Status;
use crate::wire::{Malformed, Message, NOISE_BYTES_MAX, PREAMBLE};
use anyhow::Context;
use rustix::process::Pid;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an agent may take to answer at first: a login, a slow file system.
const GREETING_MAX: Duration = Duration::from_secs(60);

/// The agent of one host.
#[derive(Debug)]
pub(crate) struct Agent {
    name: String,
    /// Its number in the job.
    index: usize,
    /// How it was started.
    reach: Reach,
    child: Child,
    channel: Option<Channel>,
    is_greeted: bool,
    started: Instant,
    heard: Instant,
}

impl Agent {
    /// Starts the agent of a host, the `index`th of the job.
    ///
    /// # Errors
    /// The command cannot be executed.
    pub(crate) fn start(reach: &Reach, index: usize, name: &str, now: Instant) -> anyhow::Result<Self> {
        let mut command = agent_command(reach, index, name)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // Keys typed at the terminal go to the launcher, which tells the agents.
        command.process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| {
            let why = format!("cannot start its agent with '{program}': {error}; --agent says how");
            Error::new(FAILURE, format!("{why}{}", reach.describe_start()))
        })?;
        let (Some(input), Some(output)) = (child.stdout.take(), child.stdin.take()) else {
            anyhow::bail!("its agent has no pipes");
        };
        let channel = Channel::new(input.into(), output.into()).context("setting up an agent's pipes")?;
        let (name, reach) = (name.to_owned(), reach.clone());
        let (channel, is_greeted) = (Some(channel), false);
        Ok(Agent { name, index, reach, child, channel, is_greeted, started: now, heard: now })
    }

    /// The process of the command that has started it.
    pub(crate) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// The way to it; `None`: it is lost.
    pub(crate) fn channel(&mut self) -> Option<&mut Channel> {
        self.channel.as_mut()
    }

    /// The same, to look at.
    pub(crate) fn channel_ref(&self) -> Option<&Channel> {
        self.channel.as_ref()
    }

    /// Whether it is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.channel.is_none()
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Message) {
        if let Some(channel) = &mut self.channel {
            channel.send(message);
        }
    }

    /// Its silence is counted from now on.
    pub(crate) fn set_heard(&mut self, heard: impl FnOnce(Instant) -> Instant) {
        self.heard = heard(self.heard);
    }

    /// Reads once. Returns its messages, and the reason if it is lost.
    pub(crate) fn read(&mut self, scratch: &mut [u8], now: Instant) -> (Vec<Message>, Option<String>) {
        let Some(channel) = &mut self.channel else { return (Vec::new(), None) };
        let inflow = channel.read(scratch);
        self.heard = now;
        if !self.is_greeted {
            match channel.received.windows(PREAMBLE.len()).position(|window| window == PREAMBLE) {
                Some(at) => {
                    channel.received.drain(..at + PREAMBLE.len());
                    self.is_greeted = true;
                }
                None if channel.received.len() > NOISE_BYTES_MAX => {
                    return (Vec::new(), Some("what answers is no agent of this version".to_owned()));
                }
                None => {
                    let loss = (inflow == Inflow::Closed).then(|| self.explain_loss());
                    return (Vec::new(), loss);
                }
            }
        }
        let mut messages = Vec::new();
        loop {
            match channel.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(Malformed(what)) => {
                    return (messages, Some(format!("its agent sends what is no message: {what}")));
                }
            }
        }
        let loss = (inflow == Inflow::Closed).then(|| self.explain_loss());
        (messages, loss)
    }

    /// The reason to give up a silent agent, if there is one.
    pub(crate) fn explain_silence(&self, now: Instant) -> Option<String> {
        if self.is_lost() {
            None
        } else if !self.is_greeted && is_stopped(&self.child) {
            Some(format!(
                "the command that was to start its agent was stopped: it wants to read from the terminal (a password?); \
                 log in without one, with ssh-agent or ssh-copy-id{}",
                self.reach.describe_start()
            ))
        } else if !self.is_greeted && now.duration_since(self.started) > GREETING_MAX {
            Some(format!(
                "no agent has answered within {} s (does the command of --agent work by itself, without a \
                 password?){}",
                GREETING_MAX.as_secs(),
                self.reach.describe_start()
            ))
        } else if self.is_greeted && now.duration_since(self.heard) > SILENCE_MAX {
            let (pid, seconds) = (self.child.id(), SILENCE_MAX.as_secs());
            let state = crate::why::look::status(i32::try_from(pid).unwrap_or(0));
            Some(format!("its agent has been silent for {seconds} s (process {pid} here, state {state})"))
        } else {
            None
        }
    }

    /// Why the channel has closed.
    fn explain_loss(&mut self) -> String {
        // Its end follows on the heels of its pipes'.
        let mut status = None;
        for _ in 0..50 {
            status = self.child.try_wait().ok().flatten();
            if status.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let how = match status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => Status::Exited(code).describe(),
            Some((_, Some(signal))) => Status::Killed { signal, is_core_dumped: false }.describe(),
            _ => "has closed its connection".to_owned(),
        };
        let pid = self.child.id();
        let what = if self.is_greeted { "its agent" } else { "the command that was to start its agent" };
        if self.is_greeted {
            return format!("{what} (pid {pid}) {how}");
        }
        let hint = match status.and_then(|status| status.code()) {
            Some(126 | 127) => format!("; is it there, as {}?", self.reach.program.display()),
            Some(255) if !self.reach.is_ssh() => {
                format!("; see above: does `{} true` work?", self.reach.line(self.index, &self.name))
            }
            Some(255) => {
                let place = if self.reach.is_indirect() { "there" } else { "by itself" };
                format!("; it could not log in, see above: does 'ssh {} true' work {place}?", self.name)
            }
            _ => String::new(),
        };
        format!("{what} (pid {pid}) {how}{hint}{}", self.reach.describe_start())
    }

    /// Gives it up.
    pub(crate) fn lose(&mut self) {
        self.channel = None;
        let _ = self.child.kill();
    }

    /// Closes the channel: the agent ends what is left on its host, then itself.
    pub(crate) fn dismiss(&mut self) {
        self.channel = None;
    }

    /// Waits for its process until `deadline`, then kills it.
    pub(crate) fn wait(&mut self, deadline: Instant) {
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The command that starts an agent on a host, the `index`th of the job.
pub(crate) fn agent_command(reach: &Reach, index: usize, host: &str) -> anyhow::Result<Command> {
    let mut words = reach.words(index, host).into_iter().map(OsString::from);
    let program = words.next().ok_or_else(|| Error::usage("--agent: the command is empty"))?;
    // The shell behind ssh splits what it gets into words once more.
    let own = if is_ssh(&program) { quoted(&reach.program) } else { reach.program.clone() };
    let mut command = Command::new(program);
    command.args(words).arg(own).arg("agent");
    Ok(command)
}

/// One word for a shell.
fn quoted(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    if word.as_bytes().iter().all(plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        text.extend_from_slice(if byte == b'\'' { b"'\\''" } else { std::slice::from_ref(&byte) });
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

/// Whether a command was stopped by a signal, as one in the background is that reads from the terminal.
fn is_stopped(child: &Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions as Options, waitid};
    let options = Options::STOPPED | Options::NOHANG | Options::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_the_shell_behind_ssh() {
        assert_eq!(quoted(OsStr::new("/opt/a-b/ayatori")), "/opt/a-b/ayatori");
        assert_eq!(quoted(OsStr::new("/my dir/it's")), "'/my dir/it'\\''s'");
    }
}
