//! Every order of events of very small worlds: two or three processes, one or two rails, two messages, one
//! fault.
//!
//! An event is a call of a process' program, the arrival of one packet or report, or the fault. A world is
//! run once for each order, but for orders that differ in nothing: what a process does depends on the events
//! *at that process*, in their order, and on the time. So two prefixes with the same sequence at each
//! process are the same state, and of each state the continuations are tried once (`visited`). Time passes
//! only when nothing else can happen: what a timeout does while packets are under way is the random worlds'
//! matter.
//!
//! ```text
//!   prefixes to try ──► new world, run the prefix ──► state seen? ──yes──► next prefix
//!                                                       │ no: keep the others for later, take one
//!                                                       └──► … nothing can happen any more: check
//! ```

mod device;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use ayatori_core::buffer::{Buffer, Piece};
use ayatori_core::ids::{CommId, ProcessId, RequestId, Source, TagSelector};
use ayatori_core::process::Config;
use ayatori_core::request::{Completion, Origin, Posted, SendMode};
use ayatori_core::time::Instant;
use ayatori_core::{Error, Process};

use device::{Air, End, Step};

/// Steps of one order, beyond which something goes on for ever.
const STEPS_MAX: usize = 5_000;
/// Memory of one message, bytes.
const LENGTH_MAX: usize = 256;

/// A call of a program. Buffers are long enough, and tags are all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Send { to: u32, length: usize },
    SendSynchronous { to: u32, length: usize },
    Receive { from: Option<u32> },
}

/// What may go wrong once, at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fault {
    None,
    Death(u32),
    /// The connection of a rail between the processes 0 and 1.
    Cut(u8),
    /// Of any packet.
    Loss,
}

/// A small world.
struct Scenario {
    name: &'static str,
    rail_count: u8,
    /// Rails may break: links number and acknowledge.
    may_break: bool,
    get: bool,
    fault: Fault,
    calls: &'static [&'static [Call]],
}

const SHORT: usize = 8;
/// Longer than an eager message.
const LONG: usize = 200;
const EAGER_THEN_LONG: &[&[Call]] = &[
    &[Call::Send { to: 1, length: SHORT }, Call::Send { to: 1, length: LONG }],
    &[Call::Receive { from: Some(0) }, Call::Receive { from: None }],
];
const CROSSWISE: &[&[Call]] = &[
    &[Call::Send { to: 1, length: LONG }, Call::Receive { from: Some(1) }],
    &[Call::SendSynchronous { to: 0, length: SHORT }, Call::Receive { from: Some(0) }],
];
const FROM_TWO: &[&[Call]] = &[
    &[Call::SendSynchronous { to: 2, length: SHORT }],
    &[Call::Send { to: 2, length: LONG }],
    &[Call::Receive { from: None }, Call::Receive { from: None }],
];
const ONE_SHORT: &[&[Call]] = &[&[Call::Send { to: 1, length: SHORT }], &[Call::Receive { from: Some(0) }]];

const fn plain(name: &'static str, fault: Fault, calls: &'static [&'static [Call]]) -> Scenario {
    Scenario { name, rail_count: 1, may_break: false, get: false, fault, calls }
}

const fn breaking(
    name: &'static str,
    rail_count: u8,
    fault: Fault,
    calls: &'static [&'static [Call]],
) -> Scenario {
    Scenario { rail_count, may_break: true, ..plain(name, fault, calls) }
}

const SCENARIOS: &[Scenario] = &[
    plain("eager, then long", Fault::None, EAGER_THEN_LONG),
    plain("eager, then long; the sender dies", Fault::Death(0), EAGER_THEN_LONG),
    plain("eager, then long; the receiver dies", Fault::Death(1), EAGER_THEN_LONG),
    plain("both send", Fault::None, CROSSWISE),
    plain("both send; one dies", Fault::Death(1), CROSSWISE),
    Scenario { get: true, ..plain("both send, by get", Fault::None, CROSSWISE) },
    Scenario { get: true, ..plain("both send, by get; one dies", Fault::Death(0), CROSSWISE) },
    plain("two send to one", Fault::None, FROM_TWO),
    plain("two send to one; a sender dies", Fault::Death(0), FROM_TWO),
    plain("two send to one, which dies", Fault::Death(2), FROM_TWO),
    breaking("one rail; a packet is lost", 1, Fault::Loss, EAGER_THEN_LONG),
    breaking("one rail; it is cut", 1, Fault::Cut(0), ONE_SHORT),
    breaking("two rails; a packet is lost", 2, Fault::Loss, EAGER_THEN_LONG),
    breaking("two rails; one is cut", 2, Fault::Cut(0), ONE_SHORT),
    breaking("two rails; the sender dies", 2, Fault::Death(0), EAGER_THEN_LONG),
    breaking("two rails, both send", 2, Fault::None, CROSSWISE),
];

/// What came of a small world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explored {
    /// Its name.
    pub name: &'static str,
    /// Different states.
    pub state_count: u64,
    /// Different states in which nothing can happen any more, each of them checked.
    pub end_count: u64,
    /// Orders that were begun.
    pub order_count: u64,
    /// Whether there were more states than the limit: then not all are tried.
    pub is_cut_short: bool,
}

/// An order of events that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The small world.
    pub name: &'static str,
    /// What is wrong.
    pub what: String,
    /// The events in their order.
    pub events: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.events {
            writeln!(f, "  {event}")?;
        }
        write!(f, "\"{}\": {}", self.name, self.what)
    }
}

impl std::error::Error for Broken {}

/// Tries every order of events of every small world, each to so many states.
///
/// # Errors
/// The first order found that breaks a promise.
pub fn explore_all(states_max: u64) -> Result<Vec<Explored>, Broken> {
    SCENARIOS.iter().map(|scenario| explore(scenario, states_max)).collect()
}

fn explore(scenario: &Scenario, states_max: u64) -> Result<Explored, Broken> {
    let name = scenario.name;
    let mut explored = Explored { name, state_count: 0, end_count: 0, order_count: 0, is_cut_short: false };
    let mut visited = HashSet::new();
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(prefix) = prefixes.pop() {
        if explored.state_count >= states_max {
            explored.is_cut_short = true;
            break;
        }
        explored.order_count += 1;
        let mut events = Vec::new();
        let run = || follow(scenario, prefix, &mut visited, &mut prefixes, &mut explored, &mut events);
        let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(format!("panic: {}", text.unwrap_or_else(|| "an assertion of the engine".into())))
        });
        outcome.map_err(|what| Broken { name, what, events })?;
    }
    Ok(explored)
}

/// Runs one order on from a prefix, to its end or to a state that was seen.
fn follow(
    scenario: &Scenario,
    mut prefix: Vec<u8>,
    visited: &mut HashSet<u128>,
    prefixes: &mut Vec<Vec<u8>>,
    explored: &mut Explored,
    events: &mut Vec<String>,
) -> Result<(), String> {
    let mut world = World::new(scenario);
    for choice in prefix.clone() {
        while world.steps().is_empty() {
            if !world.pass_time(events)? {
                return Err("the same events give another world".into());
            }
        }
        let steps = world.steps();
        world.take(steps[usize::from(choice)], events)?;
    }
    for _ in 0..STEPS_MAX {
        let steps = world.steps();
        if steps.is_empty() {
            if world.pass_time(events)? {
                continue;
            }
            if visited.insert(world.signature()) {
                explored.end_count += 1;
            }
            return world.check();
        }
        if !visited.insert(world.signature()) {
            return Ok(());
        }
        explored.state_count += 1;
        for other in 1..steps.len() {
            let mut sibling = prefix.clone();
            sibling.push(other as u8);
            prefixes.push(sibling);
        }
        world.take(steps[0], events)?;
        prefix.push(0);
    }
    Err("it goes on for ever".into())
}

/// A call that was made.
struct Made {
    call: Call,
    buffer: Buffer,
    request: Option<RequestId>,
    completion: Option<Completion>,
}

struct World<'s> {
    scenario: &'s Scenario,
    air: Rc<RefCell<Air>>,
    nodes: Vec<(Process, End)>,
    made: Vec<Vec<Made>>,
    now: Instant,
    /// Of what has happened at each process, in order.
    histories: Vec<u128>,
    fault_is_left: bool,
}

thread_local! {
    /// Memory of all messages, one world after another.
    static MEMORY: Buffer = Buffer::leaked(16 * LENGTH_MAX);
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario) -> World<'s> {
        let count = scenario.calls.len() as u32;
        let rail_count = scenario.rail_count;
        let air = Rc::new(RefCell::new(Air::new(count, rail_count)));
        let end = |me| End::new(me, &air, rail_count, (scenario.may_break, scenario.get));
        let process = |me| Process::new(ProcessId(me), count, Config::default());
        World {
            scenario,
            nodes: (0..count).map(|me| (process(me), end(me))).collect(),
            air,
            made: scenario.calls.iter().map(|_| Vec::new()).collect(),
            now: Instant::ZERO,
            histories: vec![0; count as usize],
            fault_is_left: scenario.fault != Fault::None,
        }
    }

    fn is_alive(&self, at: u32) -> bool {
        self.air.borrow().alive[at as usize]
    }

    /// What can happen next, always in the same order.
    fn steps(&self) -> Vec<Step> {
        let count = self.nodes.len() as u32;
        let mut steps = Vec::new();
        for at in (0..count).filter(|&at| self.is_alive(at)) {
            if self.made[at as usize].len() < self.scenario.calls[at as usize].len() {
                steps.push(Step::Call(at));
            }
        }
        let is_loss = self.fault_is_left && self.scenario.fault == Fault::Loss;
        self.air.borrow().steps(is_loss, &mut steps);
        match self.scenario.fault {
            Fault::Death(at) if self.fault_is_left => steps.push(Step::Die(at)),
            Fault::Cut(rail) if self.fault_is_left => steps.push(Step::Cut(rail)),
            _ => {}
        }
        steps
    }

    fn note(&mut self, at: u32, what: impl Hash) {
        // Twice with different beginnings: 64 bits alone would collide once in a while.
        let half = |salt: u64, before: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, before).hash(&mut hasher);
            what.hash(&mut hasher);
            hasher.finish()
        };
        let before = self.histories[at as usize];
        let (high, low) = ((before >> 64) as u64, before as u64);
        self.histories[at as usize] = u128::from(half(1, high)) << 64 | u128::from(half(2, low));
    }

    fn signature(&self) -> u128 {
        self.histories.iter().fold(7, |sum, history| {
            (sum ^ history).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B).rotate_left(29)
        })
    }

    fn take(&mut self, step: Step, events: &mut Vec<String>) -> Result<(), String> {
        events.push(format!("{step:?}"));
        match step {
            Step::Call(at) => {
                self.note(at, step);
                self.call(at)?;
                self.progress(at)
            }
            Step::Arrive { to, .. } | Step::Report(to) => {
                self.note(to, step);
                self.nodes[to as usize].1.next = Some(step);
                self.progress(to)
            }
            Step::Lose { from, to, rail } => {
                self.fault_is_left = false;
                self.note(to, step);
                self.air.borrow_mut().lose(from, to, rail);
                Ok(())
            }
            Step::Cut(rail) => {
                self.fault_is_left = false;
                self.note(0, step);
                self.note(1, step);
                self.air.borrow_mut().cut(rail);
                Ok(())
            }
            Step::Die(at) => {
                self.fault_is_left = false;
                self.note(at, step);
                self.air.borrow_mut().die(at);
                Ok(())
            }
        }
    }

    fn progress(&mut self, at: u32) -> Result<(), String> {
        let (process, end) = &mut self.nodes[at as usize];
        for _ in 0..STEPS_MAX {
            if process.wants_time() {
                process.handle_timeout(self.now);
            }
            if !process.progress(end) {
                return self.collect(at);
            }
        }
        Err(format!("process {at} is busy without end"))
    }

    fn call(&mut self, at: u32) -> Result<(), String> {
        let index = self.made[at as usize].len();
        let call = self.scenario.calls[at as usize][index];
        let memory = MEMORY.with(|memory| memory.part((at as usize * 4 + index) * LENGTH_MAX, LENGTH_MAX));
        let (process, end) = &mut self.nodes[at as usize];
        let (buffer, posted) = match call {
            Call::Send { to, length } | Call::SendSynchronous { to, length } => {
                let buffer = memory.part(0, length);
                buffer.scatter(0, Piece::Bytes(&content(at, index, length)));
                let is_standard = matches!(call, Call::Send { .. });
                let mode = if is_standard { SendMode::Standard } else { SendMode::Synchronous };
                (buffer, process.isend(end, CommId::WORLD, buffer, to, 5, mode))
            }
            Call::Receive { from } => {
                memory.scatter(0, Piece::Bytes(&[0xEE; LENGTH_MAX]));
                let source = from.map_or(Source::Any, Source::Rank);
                (memory, process.irecv(end, CommId::WORLD, memory, source, TagSelector::Tag(5)))
            }
        };
        let (request, completion) = match posted {
            Ok(Posted::Pending(id)) => (Some(id), None),
            Ok(Posted::Done(completion)) => (None, Some(completion)),
            Err(error) => (None, Some(Completion { error: Some(error), ..Completion::EMPTY })),
        };
        self.made[at as usize].push(Made { call, buffer, request, completion });
        Ok(())
    }

    /// Takes what is over, and uses its memory for something else.
    fn collect(&mut self, at: u32) -> Result<(), String> {
        let process = &mut self.nodes[at as usize].0;
        for made in &mut self.made[at as usize] {
            let Some(id) = made.request else { continue };
            if let Some(completion) = process.take(id).map_err(|error| error.to_string())? {
                (made.request, made.completion) = (None, Some(completion));
                if !matches!(made.call, Call::Receive { .. }) {
                    made.buffer.scatter(0, Piece::Bytes(&vec![0xDD; made.buffer.len()]));
                }
            }
        }
        Ok(())
    }

    /// The time of the next timeout comes. `false`: nothing is owed any more.
    fn pass_time(&mut self, events: &mut Vec<String>) -> Result<bool, String> {
        let is_over = |world: &Self, at: u32| {
            let process = &world.nodes[at as usize].0;
            process.is_quiet() && world.made[at as usize].iter().all(|made| made.request.is_none())
        };
        let alive: Vec<u32> = (0..self.nodes.len() as u32).filter(|&at| self.is_alive(at)).collect();
        if alive.iter().all(|&at| is_over(self, at)) {
            return Ok(false);
        }
        let due = alive.iter().filter_map(|&at| self.nodes[at as usize].0.poll_timeout()).min();
        let Some(due) = due else { return Ok(false) };
        self.now = self.now.max(due);
        events.push(format!("{due:?}"));
        for at in alive {
            self.note(at, due.0);
            self.progress(at)?;
        }
        Ok(true)
    }

    /// Everything has ended as it must.
    fn check(&self) -> Result<(), String> {
        for at in (0..self.nodes.len() as u32).filter(|&at| self.is_alive(at)) {
            // By sender: how many of its messages have been received here.
            let mut received_counts = vec![0; self.nodes.len()];
            for made in &self.made[at as usize] {
                self.check_made(at, made, &mut received_counts)?;
            }
            let counts = self.nodes[at as usize].0.counts();
            let has_dead = (0..self.nodes.len() as u32).any(|other| !self.is_alive(other));
            let waiting_count =
                self.made[at as usize].iter().filter(|made| made.completion.is_none()).count();
            if counts.requests > waiting_count || counts.posted > 0 || counts.unexpected > 0 && !has_dead {
                return Err(format!("process {at} is left with {counts:?}"));
            }
        }
        Ok(())
    }

    fn check_made(&self, at: u32, made: &Made, received_counts: &mut [usize]) -> Result<(), String> {
        let call = made.call;
        let Some(completion) = made.completion else {
            // A receive from anybody fails with any death, and its program posts no other here.
            let failed = |made: &Made| made.completion.is_some_and(|completion| completion.error.is_some());
            if let Call::Send { to, .. } | Call::SendSynchronous { to, .. } = call
                && self.made[to as usize].iter().any(failed)
            {
                return Ok(());
            }
            return Err(format!("{call:?} of process {at} never ends"));
        };
        match (call, completion.error) {
            (_, Some(Error::ProcessAborted(dead))) if !self.is_alive(dead.0) => match call {
                Call::Send { to, .. } | Call::SendSynchronous { to, .. } if to != dead.0 => {
                    Err(format!("{call:?} of process {at} fails for {dead}, whom it does not concern"))
                }
                Call::Receive { from: Some(from) } if from != dead.0 => {
                    Err(format!("{call:?} of process {at} fails for {dead}, whom it does not concern"))
                }
                _ => Ok(()),
            },
            (_, Some(error)) => Err(format!("{call:?} of process {at}: {error}")),
            (Call::Receive { from }, None) => {
                let Origin::Rank(source) = completion.status.source else {
                    return Err(format!("{call:?} of process {at} ends with {completion:?}"));
                };
                if from.is_some_and(|from| from != source) {
                    return Err(format!("{call:?} of process {at} receives from {source}"));
                }
                let number = received_counts[source as usize];
                received_counts[source as usize] += 1;
                let sent =
                    self.scenario.calls[source as usize].iter().enumerate().filter_map(|(index, call)| {
                        match call {
                            Call::Send { to, length } | Call::SendSynchronous { to, length } if *to == at => {
                                Some((index, *length))
                            }
                            _ => None,
                        }
                    });
                let Some((index, length)) = sent.clone().nth(number) else {
                    return Err(format!("{call:?} of process {at} receives a message of {source} again"));
                };
                let bytes = made.buffer.to_vec().unwrap_or_default();
                let is_right = bytes[..length] == content(source, index, length)
                    && bytes[length..].iter().all(|&byte| byte == 0xEE)
                    && completion.status.bytes == length as u64;
                if is_right { Ok(()) } else { Err(format!("{call:?} of process {at} receives wrong bytes")) }
            }
            _ => Ok(()),
        }
    }
}

/// The bytes of a message.
fn content(at: u32, index: usize, length: usize) -> Vec<u8> {
    (0..length).map(|byte| (at as usize * 71 + index * 29 + byte * 7 + 1) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_small_worlds_keeps_the_promises() {
        let explored = explore_all(u64::MAX).unwrap_or_else(|broken| panic!("{broken}"));
        for Explored { name, state_count, end_count, is_cut_short, .. } in explored {
            assert!(state_count > 10 && end_count > 0 && !is_cut_short, "{name}: {state_count}, {end_count}");
        }
    }

    #[test]
    fn a_loss_on_a_rail_that_promises_none_is_found() {
        let scenario = plain("a packet is lost", Fault::Loss, EAGER_THEN_LONG);
        assert!(explore(&scenario, u64::MAX).is_err());
    }

    #[test]
    fn a_cut_that_nobody_is_told_of_is_found() {
        // The link takes the rail for one that never breaks.
        let scenario = plain("it is cut", Fault::Cut(0), CROSSWISE);
        assert!(explore(&scenario, u64::MAX).is_err());
    }
}
