//! The hosts that this process reaches through agents which it has started: those of the launcher, or those
//! that an agent relays for.
//!
//! ```text
//!   launcher: Relay ──►  agent: host loop          messages of and to the agent's own host go as they are,
//!                               Relay ──► agent    those of hosts behind it with the host's number (Of)
//! ```
//!
//! A message for all hosts goes down each branch once. Each side of a channel sends a heartbeat; one that is
//! silent or closed is lost, and with it the hosts behind it: their agents have no other way to the launcher,
//! notice that their channel is closed, and end their ranks.
//!
//! One epoll ([`Relay::fd`]), which its user waits for, as that of the host loop.

pub(crate) mod agent;

use crate::error::exit_code;
use crate::pulse::Pulse;
use crate::silence::{HEARTBEAT, heard_while_running};
use crate::spec::Order;
use crate::wire::{CHUNK_BYTES, Message};
use agent::Agent;
use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::Pid;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// An agent that this process has started.
#[derive(Debug)]
struct Child {
    /// The number of its host.
    host: usize,
    name: String,
    /// The hosts that are reached through it.
    behind: Vec<usize>,
    agent: Agent,
    is_output_watched: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Relay {
    epoll: OwnedFd,
    children: Vec<Child>,
    /// The child through which a host is reached.
    ways: BTreeMap<usize, usize>,
    /// Messages from hosts.
    incoming: VecDeque<(usize, Message)>,
    /// Nothing is read for now, because what was read is not taken.
    is_paused: bool,
    /// The last heartbeat.
    turn: Instant,
    pulse: Pulse,
    scratch: Vec<u8>,
}

impl Relay {
    /// No host is reached yet.
    ///
    /// # Errors
    /// No descriptors left.
    pub(crate) fn new(now: Instant) -> anyhow::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?,
            children: Vec::new(),
            ways: BTreeMap::new(),
            incoming: VecDeque::new(),
            is_paused: false,
            turn: now,
            pulse: Pulse::new(),
            scratch: vec![0; CHUNK_BYTES],
        })
    }

    /// Starts the agents of an order's branches and gives each its part of the order. One that cannot be
    /// started says so as a host.
    pub(crate) fn start(&mut self, order: &Order, now: Instant) {
        for branch in &order.branches {
            let behind: Vec<usize> = branch.behind().into_iter().map(|(host, _)| host).collect();
            let started = Agent::start(&order.reach, branch.host, &branch.name, now);
            let started = started.and_then(|agent| {
                if let Some(channel) = agent.channel_ref() {
                    watch(&self.epoll, channel.input.as_fd(), input_token(self.children.len()))
                        .context("watching an agent")?;
                }
                Ok(agent)
            });
            let mut agent = match started {
                Ok(agent) => {
                    agent.channel_ref().into_iter().for_each(|channel| self.pulse.add(channel));
                    agent
                }
                Err(error) => {
                    let why = format!("{error:#}");
                    self.incoming.push_back((branch.host, Message::Failed(exit_code(&error), why.clone())));
                    self.incoming.push_back((branch.host, Message::Lost(why)));
                    self.lose_behind(&branch.name, &behind);
                    continue;
                }
            };
            agent.send(&Message::Start(Box::new(order.part(branch))));
            let index = self.children.len();
            self.ways
                .extend(std::iter::once(branch.host).chain(behind.iter().copied()).map(|host| (host, index)));
            let (host, name) = (branch.host, branch.name.clone());
            self.children.push(Child { host, name, behind, agent, is_output_watched: false });
            self.watch_output(index);
        }
    }

    /// The processes of the commands that have started the agents.
    pub(crate) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.children.iter().filter_map(|child| child.agent.pid())
    }

    /// Readable when there is something to do: [`handle_ready`](Self::handle_ready).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// The next message of a host, and its number.
    pub(crate) fn poll_message(&mut self) -> Option<(usize, Message)> {
        self.incoming.pop_front()
    }

    /// When [`beat`](Self::beat) wants to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (!self.children.is_empty()).then(|| self.turn + HEARTBEAT)
    }

    /// Sends a host a message.
    pub(crate) fn send(&mut self, host: usize, message: Message) {
        let Some(&index) = self.ways.get(&host) else { return };
        let child = &mut self.children[index];
        if child.host == host {
            child.agent.send(&message);
        } else {
            child.agent.send(&Message::Of(host, Box::new(message)));
        }
        self.watch_output(index);
    }

    /// Sends all hosts a message that agents pass on to those behind them.
    pub(crate) fn send_all(&mut self, message: &Message) {
        for index in 0..self.children.len() {
            self.children[index].agent.send(message);
            self.watch_output(index);
        }
    }

    /// Whether so much waits to be sent towards a host that producers must stop; also if the host is lost.
    pub(crate) fn is_congested(&mut self, host: usize) -> bool {
        let Some(&index) = self.ways.get(&host) else { return true };
        self.children[index].agent.channel().is_none_or(|channel| channel.is_congested())
    }

    /// Moves what can be moved.
    pub(crate) fn handle_ready(&mut self, now: Instant) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once));
        for event in &events {
            let index = (event.data.u64() / 2) as usize;
            let child = &mut self.children[index];
            if event.data.u64() != input_token(index) {
                if let Some(channel) = child.agent.channel() {
                    channel.flush();
                }
                self.watch_output(index);
                continue;
            }
            let (messages, loss) = child.agent.read(&mut self.scratch, now);
            for message in messages {
                self.take(index, message);
            }
            if let Some(why) = loss {
                self.lose(index, why);
            }
        }
    }

    fn take(&mut self, index: usize, message: Message) {
        match message {
            Message::Alive => {}
            Message::Of(host, message) => {
                if self.children[index].behind.contains(&host) {
                    self.incoming.push_back((host, *message));
                }
            }
            message => self.incoming.push_back((self.children[index].host, message)),
        }
    }

    /// Sends a heartbeat to the agents, and gives up silent ones.
    pub(crate) fn beat(&mut self, now: Instant) {
        self.pulse.turn();
        if now < self.turn + HEARTBEAT {
            return;
        }
        let turn = std::mem::replace(&mut self.turn, now);
        for index in 0..self.children.len() {
            let agent = &mut self.children[index].agent;
            agent.set_heard(|heard| heard_while_running(heard, turn, now));
            agent.send(&Message::Alive);
            let why = agent.explain_silence(now).filter(|_| !self.is_paused);
            self.watch_output(index);
            if let Some(why) = why {
                self.lose(index, why);
            }
        }
    }

    /// Reads what agents say no more, or again.
    pub(crate) fn pause(&mut self, is_paused: bool, now: Instant) {
        if std::mem::replace(&mut self.is_paused, is_paused) == is_paused {
            return;
        }
        for (index, child) in self.children.iter_mut().enumerate() {
            let Some(channel) = child.agent.channel() else { continue };
            let _ = if is_paused {
                epoll::delete(&self.epoll, &channel.input)
            } else {
                watch(&self.epoll, channel.input.as_fd(), input_token(index))
            };
            child.agent.set_heard(|_| now);
        }
    }

    /// Closes the channels: each agent ends what is left on its host and behind it, then itself.
    pub(crate) fn dismiss(&mut self) {
        self.children.iter_mut().for_each(|child| child.agent.dismiss());
    }

    /// Waits for the processes of the agents until `deadline`, then kills them.
    pub(crate) fn wait(&mut self, deadline: Instant) {
        self.children.iter_mut().for_each(|child| child.agent.wait(deadline));
    }

    fn lose(&mut self, index: usize, why: String) {
        let child = &mut self.children[index];
        child.agent.lose();
        let (name, behind) = (child.name.clone(), child.behind.clone());
        self.incoming.push_back((child.host, Message::Lost(why)));
        self.lose_behind(&name, &behind);
    }

    fn lose_behind(&mut self, name: &str, behind: &[usize]) {
        let why = format!("it was reached through host {name}, which is lost");
        self.incoming.extend(behind.iter().map(|&host| (host, Message::Lost(why.clone()))));
    }

    /// Watches an agent's input exactly while what is for it is behind.
    fn watch_output(&mut self, index: usize) {
        let child = &mut self.children[index];
        let Some(channel) = child.agent.channel() else { return };
        let is_behind = channel.has_unsent();
        if is_behind == std::mem::replace(&mut child.is_output_watched, is_behind) {
            return;
        }
        let token = epoll::EventData::new_u64(input_token(index) + 1);
        let _ = if is_behind {
            epoll::add(&self.epoll, &channel.output, token, epoll::EventFlags::OUT)
        } else {
            epoll::delete(&self.epoll, &channel.output)
        };
    }
}

/// The token of what an agent says; the next one is that of what is for it.
fn input_token(index: usize) -> u64 {
    2 * index as u64
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, token: u64) -> rustix::io::Result<()> {
    epoll::add(epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
}

#[cfg(test)]
mod tests;
