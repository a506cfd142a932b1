//! `ayatori agent`: a host loop of its own process, for a controller elsewhere.
//!
//! It communicates only with the controller, over its standard input and output (`wire.rs`): no port, no key
//! on a command line. If there are hosts behind it, it starts their agents in the same manner and relays
//! ([`Relay`]); the controller alone decides about the job. It ends its ranks when the controller says so,
//! and when the controller is gone: input closed, or silent for [`SILENCE_MAX`]. If it is itself killed its
//! ranks die with it, and the watchdog ends their child processes.

use crate::channel::{Channel, Inflow};
use crate::error::FAILURE;
use crate::host::Host;
use crate::pulse::Pulse;
use crate::relay::Relay;
use crate::signals::{Signals, is_ending};
use crate::silence::{HEARTBEAT, SILENCE_MAX, heard_while_running};
use crate::wire::{CHUNK_BYTES, Message, PREAMBLE};
use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use signal_hook::consts::SIGCHLD;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long agents behind this one may take to end; less than the launcher waits for this one.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

const CONTROLLER: u64 = 0;
const OUTPUT: u64 = 1;
const SIGNALS: u64 = 2;
const HOST: u64 = 3;
const RELAY: u64 = 4;

struct Agent {
    channel: Channel,
    pulse: Pulse,
    epoll: OwnedFd,
    signals: Signals,
    host: Host,
    relay: Relay,
    /// When the controller was last heard; not yet where it is still busy with starting other agents.
    heard: Option<Instant>,
    spoken: Instant,
    is_output_watched: bool,
    scratch: Vec<u8>,
}

/// The agent's whole life.
///
/// # Errors
/// Standard input is not the controller's; no descriptors left.
pub fn run() -> anyhow::Result<()> {
    let input = rustix::stdio::stdin().try_clone_to_owned().context("taking standard input")?;
    let output = rustix::stdio::stdout().try_clone_to_owned().context("taking standard output")?;
    let mut channel = Channel::new(input, output).context("setting up the channel to the launcher")?;
    channel.send_raw(PREAMBLE);
    channel.flush();
    let signals = Signals::new().context("catching signals")?;
    let host = Host::new()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
    let readable = epoll::EventFlags::IN;
    let token = epoll::EventData::new_u64;
    epoll::add(&epoll, &channel.input, token(CONTROLLER), readable).map_err(|error| match error {
        // A file or /dev/null.
        Errno::PERM => anyhow::anyhow!(
            "the agent's input does not come from its launcher: the command of --agent has to pass it on (ssh without \
             -n, docker exec -i)"
        ),
        error => anyhow::Error::new(error).context("watching the launcher"),
    })?;
    epoll::add(&epoll, signals.fd(), token(SIGNALS), readable).context("watching signals")?;
    epoll::add(&epoll, host.fd(), token(HOST), readable).context("watching the ranks")?;
    let now = Instant::now();
    let relay = Relay::new(now)?;
    epoll::add(&epoll, relay.fd(), token(RELAY), readable).context("watching other agents")?;
    let mut pulse = Pulse::new();
    pulse.add(&channel);
    let mut agent = Agent {
        channel,
        pulse,
        epoll,
        signals,
        host,
        relay,
        heard: None,
        spoken: now,
        is_output_watched: false,
        scratch: vec![0; CHUNK_BYTES],
    };
    agent.serve();
    // They end their ranks while this one ends its own.
    agent.relay.dismiss();
    agent.host.clean_up();
    agent.relay.wait(Instant::now() + FAREWELL_MAX);
    Ok(())
}

impl Agent {
    fn serve(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(16);
        let mut turn = Instant::now();
        loop {
            let due = self.host.poll_timeout().into_iter().chain(self.relay.poll_timeout()).min();
            let due = due.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = due.map_or(HEARTBEAT, |due| due.min(HEARTBEAT));
            let timeout =
                Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
            events.clear();
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout));
            let now = Instant::now();
            self.pulse.turn();
            for event in &events {
                let goes_on = match event.data.u64() {
                    CONTROLLER => self.read_controller(now),
                    SIGNALS => self.handle_signals(),
                    _ => true,
                };
                if !goes_on {
                    return;
                }
            }
            self.channel.flush();
            self.host.handle_ready(now);
            self.host.handle_timeout(now);
            self.relay.handle_ready(now);
            self.relay.beat(now);
            self.heard = self.heard.map(|heard| heard_while_running(heard, turn, now));
            turn = now;
            if self.heard.is_some_and(|heard| now.duration_since(heard) > SILENCE_MAX) {
                // It may have been stopped, and read this when it goes on.
                let why = format!("its agent has not heard the launcher for {} s", SILENCE_MAX.as_secs());
                self.channel.send(&Message::Failed(FAILURE, why));
                return;
            }
            if now.duration_since(self.spoken) >= HEARTBEAT {
                self.spoken = now;
                self.channel.send(&Message::Alive);
            }
            self.pass_on(now);
        }
    }

    /// `false`: the controller is gone.
    fn read_controller(&mut self, now: Instant) -> bool {
        let inflow = self.channel.read(&mut self.scratch);
        self.heard = Some(now);
        loop {
            match self.channel.next() {
                Ok(Some(message)) => self.handle(message, now),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        inflow == Inflow::Open
    }

    fn handle(&mut self, message: Message, now: Instant) {
        match message {
            Message::Start(order) => {
                // First: they start while the ranks here do.
                self.relay.start(&order, now);
                self.relay.pids().for_each(|pid| self.host.spare(pid));
                let directory = order.directory.clone();
                match std::env::set_current_dir(&directory) {
                    Ok(()) => self.host.handle(Message::Start(order), now),
                    Err(error) => {
                        let why = format!(
                            "the directory {} (where ayatori run was started; --wdir names another): {error}",
                            directory.display()
                        );
                        self.channel.send(&Message::Failed(FAILURE, why));
                    }
                }
            }
            Message::Of(host, message) => self.relay.send(host, *message),
            Message::Signal(_) | Message::Ask(_) | Message::Unread(_) | Message::Finish(_) => {
                self.relay.send_all(&message);
                self.host.handle(message, now);
            }
            message => self.host.handle(message, now),
        }
    }

    /// `false`: a signal asks this agent to end.
    fn handle_signals(&mut self) -> bool {
        for signal in self.signals.take() {
            if signal == SIGCHLD {
                self.host.reap();
            } else if is_ending(signal) {
                return false;
            }
        }
        true
    }

    /// Sends what the hosts say; watches the output exactly while it is behind, and the ranks' exactly while
    /// it is not far behind.
    fn pass_on(&mut self, now: Instant) {
        while let Some(message) = self.host.poll_message() {
            self.channel.queue(&message);
        }
        while let Some((host, message)) = self.relay.poll_message() {
            self.channel.queue(&Message::Of(host, Box::new(message)));
        }
        self.channel.flush();
        let is_behind = self.channel.has_unsent();
        if is_behind != self.is_output_watched {
            self.is_output_watched = is_behind;
            let token = epoll::EventData::new_u64(OUTPUT);
            let _ = if is_behind {
                epoll::add(&self.epoll, &self.channel.output, token, epoll::EventFlags::OUT)
            } else {
                epoll::delete(&self.epoll, &self.channel.output)
            };
        }
        for which in [0, 1] {
            self.host.pause(which, self.channel.is_congested(), now);
        }
        self.relay.pause(self.channel.is_congested(), now);
    }
}
