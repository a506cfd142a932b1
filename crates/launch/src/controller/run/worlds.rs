//! What the controller does for worlds that ranks have started, and for the launcher that has started this
//! one: see `controller/worlds.rs`.

use super::{Controller, FIRST, FIRST_WORLD, Way, job_id, place, watch};
use crate::controller::worlds::{NameAsker, Word, World, spec_of, take_over};
use crate::error::exit_code;
use crate::machine::hostname;
use crate::pmi::names::NameRequest;
use crate::pmi::spawn::Spawn;
use anyhow::Context;
use rustix::event::epoll;
use signal_hook::consts::{SIGKILL, SIGTERM};
use std::time::Instant;

/// Runs a world, if this program was started for that ([`NAME`](crate::controller::WORLD_NAME)). Returns the
/// exit code.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn run_world(descriptor: &str) -> anyhow::Result<u8> {
    let (mut wire, spec) = take_over(descriptor)?;
    let now = Instant::now();
    let start = || {
        let job = job_id()?;
        let (names, host_of_rank) = place(&spec)?;
        anyhow::Ok((Controller::new(&spec, &job, names, &host_of_rank, now)?, host_of_rank))
    };
    let (mut controller, host_of_rank) = match start() {
        Ok(controller) => controller,
        Err(error) => {
            wire.say(&Word::Failed(format!("{error:#}")));
            return Ok(exit_code(&error));
        }
    };
    watch(&controller.epoll, wire.fd(), FIRST).context("listening to the first launcher")?;
    controller.supervisor.server().forward_names();
    controller.first = Some(wire);
    controller.start(&host_of_rank, now)?;
    controller.serve()?;
    let has_told = controller.is_start_told;
    match controller.finish() {
        // The first launcher has heard why, and says so.
        Err(error) if has_told => Ok(exit_code(&error)),
        outcome => outcome,
    }
}

impl Controller<'_> {
    /// Passes a signal on, where the job fails only to those that are connected to it.
    pub(super) fn signal_worlds(&self, signal: i32) {
        let ends_connected_only = self.supervisor.has_failed();
        for world in self.worlds.iter().filter(|world| !(ends_connected_only && world.is_apart)) {
            // Killed itself, its launcher could not end its ranks in order and take their last words.
            world.signal(if signal == SIGKILL { SIGTERM } else { signal });
        }
    }

    pub(super) fn spawn(&mut self, rank: usize, spawn: Spawn) {
        let begun = spec_of(self.spec, spawn, hostname()).and_then(|spec| World::start(spec, rank));
        let world = match begun {
            Ok(world) => world,
            Err(error) => {
                return self.supervisor.server().answer_spawn(rank, Err(&format!("{error:#}")));
            }
        };
        if let (Way::Here(host), Some(pid)) = (&mut self.way, world.pid()) {
            host.spare(pid);
        }
        // A descriptor that cannot be watched is noticed at its end.
        let _ = watch(&self.epoll, world.wire.fd(), FIRST_WORLD + self.worlds.len() as u64);
        self.worlds.push(world);
    }

    pub(super) fn hear_world(&mut self, index: usize, now: Instant) {
        let Some(world) = self.worlds.get_mut(index) else { return };
        let (words, is_over) = world.wire.hear();
        for word in words {
            let world = &mut self.worlds[index];
            match word {
                Word::Started => {
                    if let Some(rank) = world.asker.take() {
                        self.supervisor.server().answer_spawn(rank, Ok(()));
                    }
                }
                Word::Failed(why) => {
                    world.has_failed_to_start = true;
                    if let Some(rank) = world.asker.take() {
                        self.supervisor.server().answer_spawn(rank, Err(&why));
                    }
                }
                Word::Apart => world.is_apart = true,
                Word::Ask(number, request) => match self.supervisor.server().serve_name(&request) {
                    Some(reply) => self.worlds[index].wire.say(&Word::Answer(number, reply)),
                    None => self.ask_first(NameAsker::World(index, number), request),
                },
                Word::Spec(_) | Word::Answer(..) => {}
            }
        }
        if is_over && !std::mem::replace(&mut self.worlds[index].is_silent, true) {
            let _ = epoll::delete(&self.epoll, self.worlds[index].wire.fd());
        }
        self.reap_worlds(now);
    }

    pub(super) fn reap_worlds(&mut self, now: Instant) {
        for index in 0..self.worlds.len() {
            let Some(status) = self.worlds[index].reap() else { continue };
            if !self.worlds[index].is_silent {
                // Its last words, once more: it has none after them.
                self.worlds[index].is_silent = true;
                self.hear_world(index, now);
                let _ = epoll::delete(&self.epoll, self.worlds[index].wire.fd());
            }
            let code = status.code().map_or(1, |code| u8::try_from(code & 0xff).unwrap_or(1));
            let is_apart = self.worlds[index].is_apart;
            if let Some(rank) = self.worlds[index].asker.take() {
                self.supervisor.server().answer_spawn(rank, Err("the new processes' launcher has ended"));
            } else if code != 0 && !self.worlds[index].has_failed_to_start {
                self.supervisor.handle_world_failed(code, is_apart, now);
            }
        }
    }

    /// All ranks run: tells the launcher that has started this one.
    pub(super) fn tell_start(&mut self) {
        if self.first.is_some() && !self.is_start_told && self.supervisor.are_all_started() {
            self.is_start_told = true;
            self.say_to_first(&Word::Started);
        }
    }

    pub(super) fn say_to_first(&mut self, word: &Word) {
        if let Some(first) = &mut self.first {
            first.say(word);
        }
    }

    pub(super) fn ask_first(&mut self, asker: NameAsker, request: NameRequest) {
        self.name_askers.push(asker);
        self.say_to_first(&Word::Ask(self.name_askers.len() as u64 - 1, request));
    }

    pub(super) fn hear_first(&mut self, now: Instant) {
        let Some(first) = &mut self.first else { return };
        let (words, is_over) = first.hear();
        for word in words {
            let Word::Answer(number, reply) = word else { continue };
            match self.name_askers.get(number as usize) {
                Some(NameAsker::Rank(rank)) => self.supervisor.server().answer_name(*rank, &reply),
                Some(NameAsker::World(world, number)) => {
                    self.worlds[*world].wire.say(&Word::Answer(*number, reply));
                }
                None => {}
            }
        }
        if is_over && let Some(first) = self.first.take() {
            // It does not end before this one, unless it was killed.
            let _ = epoll::delete(&self.epoll, first.fd());
            self.supervisor.handle_signal(SIGTERM, true, now);
        }
    }
}
