//! One end of the connection between a controller and an agent: frames in, frames out, never blocking.

use crate::wire::{Malformed, Message};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inflow {
    /// Something or nothing; more may come.
    Open,
    /// The other end is closed.
    Closed,
}

/// With more unsent bytes than this, producers stop.
const CONGESTED_BYTES: usize = 1 << 20;

/// Two pipes.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) input: OwnedFd,
    pub(crate) output: Arc<OwnedFd>,
    pub(crate) received: Vec<u8>,
    consumed: usize,
    outflow: Arc<Mutex<Outflow>>,
}

/// Outgoing frames of the loop, and of the thread that sends heartbeats for it (`pulse.rs`). No thread holds
/// its lock while waiting.
#[derive(Debug)]
pub(crate) struct Outflow {
    output: Arc<OwnedFd>,
    unsent: Vec<u8>,
    is_broken: bool,
}

impl Outflow {
    /// Queues a frame and sends what can be sent.
    pub(crate) fn send(&mut self, message: &Message) {
        message.emit(&mut self.unsent);
        self.flush();
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() && !self.is_broken {
            match rustix::io::write(&*self.output, &self.unsent) {
                Ok(count) => {
                    self.unsent.drain(..count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.is_broken = true,
            }
        }
        if self.is_broken {
            self.unsent.clear();
        }
    }
}

impl Channel {
    /// Over two descriptors, which are made not to block.
    pub(crate) fn new(input: OwnedFd, output: OwnedFd) -> rustix::io::Result<Self> {
        for fd in [&input, &output] {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        let output = Arc::new(output);
        let outflow = Outflow { output: Arc::clone(&output), unsent: Vec::new(), is_broken: false };
        let outflow = Arc::new(Mutex::new(outflow));
        Ok(Channel { input, output, received: Vec::new(), consumed: 0, outflow })
    }

    /// Its way out, for as long as there is one.
    pub(crate) fn outflow(&self) -> Weak<Mutex<Outflow>> {
        Arc::downgrade(&self.outflow)
    }

    fn out(&self) -> MutexGuard<'_, Outflow> {
        self.outflow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues bytes that are no frame (the preamble).
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.out().unsent.extend_from_slice(bytes);
    }

    /// Queues a frame; [`flush`](Self::flush) sends.
    pub(crate) fn queue(&mut self, message: &Message) {
        message.emit(&mut self.out().unsent);
    }

    /// Queues a frame and sends what can be sent.
    pub(crate) fn send(&mut self, message: &Message) {
        self.out().send(message);
    }

    /// Sends what can be sent.
    pub(crate) fn flush(&mut self) {
        self.out().flush();
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.out().unsent.is_empty()
    }

    pub(crate) fn is_congested(&self) -> bool {
        self.out().unsent.len() > CONGESTED_BYTES
    }

    /// Reads once.
    pub(crate) fn read(&mut self, scratch: &mut [u8]) -> Inflow {
        match rustix::io::read(&self.input, &mut *scratch) {
            Ok(0) => Inflow::Closed,
            Ok(count) => {
                self.received.drain(..self.consumed);
                self.consumed = 0;
                self.received.extend_from_slice(&scratch[..count]);
                Inflow::Open
            }
            Err(Errno::AGAIN | Errno::INTR) => Inflow::Open,
            Err(_) => Inflow::Closed,
        }
    }

    /// The next whole frame.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        match Message::take(&self.received[self.consumed..])? {
            Some((message, length)) => {
                self.consumed += length;
                Ok(Some(message))
            }
            None => Ok(None),
        }
    }
}
