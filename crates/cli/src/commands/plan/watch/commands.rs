//! Commands of the user's, run by `sh -c` with names in the environment: a name is never part of a command
//! line.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// Commands that run at once.
const AT_ONCE: usize = 16;
/// Time between two looks whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of a command's errors that are printed.
const ERRORS_BYTES_MAX: usize = 400;

/// One command.
#[derive(Debug, Clone)]
pub(super) struct Command {
    line: String,
    names: Vec<(&'static str, String)>,
}

impl Command {
    pub(super) fn new(line: &str, names: &[(&'static str, &String)]) -> Command {
        Command { line: line.into(), names: names.iter().map(|&(key, name)| (key, name.clone())).collect() }
    }

    /// Runs it and gives back what it wrote.
    ///
    /// # Errors
    /// It cannot be run, fails (with the end of its errors), or takes longer than `timeout` and is killed.
    pub(super) fn run(&self, timeout: Duration) -> anyhow::Result<String> {
        let mut child = std::process::Command::new("sh")
            .args(["-c", &self.line])
            .envs(self.names.iter().map(|(key, name)| (key, name)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run sh")?;
        let [output, errors] = [child.stdout.take().map(reader), child.stderr.take().map(reader)];
        let status = wait(&mut child, timeout)?;
        // A command that ended may have left a child with its pipes; the output so far is taken.
        let text = |reader: Option<std::sync::mpsc::Receiver<String>>| {
            reader.and_then(|reader| reader.recv_timeout(timeout).ok()).unwrap_or_default()
        };
        let (output, errors) = (text(output), text(errors));
        if !status.success() {
            let errors = errors.trim();
            let begin = errors.len().saturating_sub(ERRORS_BYTES_MAX);
            let begin = (begin..=errors.len()).find(|&at| errors.is_char_boundary(at)).unwrap_or(0);
            bail!("the command ends with {status}: {}", &errors[begin..]);
        }
        Ok(output)
    }
}

fn reader(mut pipe: impl std::io::Read + Send + 'static) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output before an error counts, too.
        let _ = pipe.by_ref().read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn wait(child: &mut Child, timeout: Duration) -> anyhow::Result<std::process::ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("waiting for a command")? {
            return Ok(status);
        }
        if began.elapsed() >= timeout {
            // It may have ended just now; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
            bail!("the command takes longer than {} s", timeout.as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// All of them, some at once; their results in the same order.
pub(super) fn in_parallel(commands: &[Command], timeout: Duration) -> Vec<anyhow::Result<String>> {
    let mut results = Vec::with_capacity(commands.len());
    for some in commands.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                some.iter().map(|command| scope.spawn(move || command.run(timeout))).collect();
            for thread in threads {
                results.push(thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))));
            }
        });
    }
    results
}
