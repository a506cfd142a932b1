//! The engine's side of the queues: executes commands, finds completed operations, answers.

use super::command::{Command, QUEUE_CAPACITY, Response};
use super::flags::FLAGS;
use super::ring::{Consumer, Producer};
use crate::abi::MPI_Request;
use crate::operation::Operation;
use crate::runtime::machine::Machine;
use crate::runtime::net::on_device;
use crate::runtime::sleepers;
use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::device::Device;
use ayatori_core::ids::{CommId, Rank, RequestId, Tag};
use ayatori_core::request::{Completion, Posted, SendMode, Status};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An operation of the core that is under way.
pub(super) struct Pending {
    pub(super) id: RequestId,
    pub(super) of: Whose,
}

/// The receiver of its completion.
pub(super) enum Whose {
    /// A request of a call's.
    Request(MPI_Request),
    /// None: the copy of a short message, which is sent from here.
    Copy(Box<[u8]>),
}

/// A blocking collective operation in the node's shared memory.
pub(super) struct NodeRun {
    pub(super) request: MPI_Request,
    pub(super) comm: CommId,
    operation: Arc<Operation>,
}

/// See the [module's docs](self).
pub(super) struct Executor {
    commands: Consumer<Command>,
    responses: Producer<Response>,
    /// Responses for which there was no room.
    backlog: VecDeque<Response>,
    pub(super) pending: VecDeque<Pending>,
    pub(super) nodes: Vec<NodeRun>,
    /// The core's count of completions when it was last looked for what is over.
    completions: u64,
    copies_kept: u32,
}

fn failed(error: Error) -> Completion {
    Completion { status: Status::EMPTY, error: Some(error) }
}

impl Executor {
    pub(super) fn new(commands: Consumer<Command>, responses: Producer<Response>) -> Self {
        Self {
            commands,
            responses,
            backlog: VecDeque::new(),
            pending: VecDeque::new(),
            nodes: Vec::new(),
            completions: 0,
            copies_kept: 0,
        }
    }

    /// Whether no command waits.
    #[inline]
    pub(super) fn is_idle(&mut self) -> bool {
        self.commands.is_empty()
    }

    /// A round: commands, progress, answers. Returns whether anything happened, and whether all waiting calls
    /// have to look: anything was answered, or a function of the user's is to be called.
    #[inline]
    pub(super) fn round(&mut self, machine: &mut Machine) -> (bool, bool) {
        let mut worked = self.execute(machine);
        worked |= machine.progress();
        // Sends the tail of a long packet that the device kept back.
        machine.device.flush();
        worked |= self.advance_nodes(machine);
        self.harvest(machine);
        let has_put_off = machine.core.has_put_off();
        let is_new = FLAGS.has_put_off.swap(has_put_off, Ordering::SeqCst) != has_put_off && has_put_off;
        (worked, self.answer() | is_new)
    }

    /// Executes the commands that wait, and answers. No look at what has arrived.
    pub(super) fn serve(&mut self, machine: &mut Machine) {
        self.execute(machine);
        machine.device.flush();
        self.harvest(machine);
        if self.answer() {
            sleepers::tell(true);
        }
    }

    /// Executes the commands that wait. Whether there were any.
    #[inline]
    pub(super) fn execute(&mut self, machine: &mut Machine) -> bool {
        let mut worked = false;
        // At most one full queue: a stream of commands does not delay progress.
        for _ in 0..QUEUE_CAPACITY {
            let Some(command) = self.commands.pop() else { break };
            worked = true;
            match command {
                Command::Post(request, post) => {
                    let posted = post.begin(machine, false);
                    self.begun(request, posted);
                }
                Command::Copy { comm, dest, tag, length, mut bytes } => {
                    self.send_copy(machine, comm, (dest, tag), &mut bytes[..usize::from(length)]);
                }
                Command::Collective { request, comm, operation, id, is_blocking: false } => {
                    let posted = machine.begin_collective(comm, &operation, id);
                    self.begun(request, posted);
                }
                Command::Collective { request, comm, operation, .. } => {
                    self.begin_blocking_collective(machine, request, comm, operation);
                }
            }
        }
        worked
    }

    fn begun(&mut self, request: MPI_Request, posted: Result<Posted, Error>) {
        match posted {
            Ok(Posted::Done(completion)) => self.respond(request, completion),
            Ok(Posted::Pending(id)) => self.pending.push_back(Pending { id, of: Whose::Request(request) }),
            Err(error) => self.respond(request, failed(error)),
        }
    }

    fn send_copy(&mut self, machine: &mut Machine, comm: CommId, (dest, tag): (Rank, Tag), bytes: &mut [u8]) {
        let Machine { core, device, .. } = machine;
        // SAFETY: the bytes outlive the call, and a send that leaves at once reads them in this call only.
        let buffer = unsafe { Buffer::from_raw_parts(bytes.as_mut_ptr(), bytes.len()) };
        if on_device!(device, |device| core.send_at_once(device, comm, buffer, dest, tag)) {
            return;
        }
        let mut kept: Box<[u8]> = (&*bytes).into();
        // SAFETY: the copy is kept until the send is over, or for good if its end is not observed
        // (`thread::leave`).
        let buffer = unsafe { Buffer::from_raw_parts(kept.as_mut_ptr(), kept.len()) };
        match core.isend(device, comm, buffer, dest, tag, SendMode::Standard) {
            Ok(Posted::Done(_)) => {}
            Ok(Posted::Pending(id)) => {
                self.pending.push_back(Pending { id, of: Whose::Copy(kept) });
                self.copies_kept += 1;
                FLAGS.copies_kept.store(self.copies_kept, Ordering::Relaxed);
            }
            Err(_) => FLAGS.has_failed.store(true, Ordering::Relaxed),
        }
    }

    fn begin_blocking_collective(
        &mut self,
        machine: &mut Machine,
        request: MPI_Request,
        comm: CommId,
        operation: Arc<Operation>,
    ) {
        let Machine { core, device, node, .. } = &mut *machine;
        match node.start(core, device.shm(), comm, &operation) {
            Ok(false) => {}
            Ok(true) => return self.nodes.push(NodeRun { request, comm, operation }),
            Err(error) => return self.respond(request, failed(error)),
        }
        let posted = machine.begin_collective(comm, &operation, None);
        self.begun(request, posted);
    }

    /// Goes on with operations in shared memory. Whether any ended.
    pub(super) fn advance_nodes(&mut self, machine: &mut Machine) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        let before = self.nodes.len();
        let mut at = 0;
        while let Some(run) = self.nodes.get(at) {
            let node = machine.node.opened(run.comm).expect("it has begun an operation");
            // Data of lower ranks is the accumulator; the operation commutes.
            let mut reduce = |inout: &mut [u8], input: &[u8]| {
                if let Some(reducer) = run.operation.reducer() {
                    reducer.apply(input, inout);
                }
            };
            let completion = match machine.core.lost_in(run.comm) {
                _ if node.advance(&mut reduce) => Completion::EMPTY,
                Some(error) => failed(error),
                None => {
                    at += 1;
                    continue;
                }
            };
            let run = self.nodes.swap_remove(at);
            self.respond(run.request, completion);
        }
        self.nodes.len() < before
    }

    /// Finds completed operations.
    #[inline]
    pub(super) fn harvest(&mut self, machine: &mut Machine) {
        let core = &mut machine.core;
        let count = core.completion_count();
        let mut left = count.wrapping_sub(self.completions);
        self.completions = count;
        // No more can be over than were counted, and the oldest are likely to be.
        let mut at = 0;
        while left > 0 && at < self.pending.len() {
            // The program's request is none of the core's: one that is interrupted ends.
            let completion = match core.take_or_give_up(self.pending[at].id) {
                Ok(Some(completion)) => completion,
                Ok(None) => {
                    at += 1;
                    continue;
                }
                Err(error) => failed(error),
            };
            left -= 1;
            let Some(ended) = self.pending.remove(at) else { return };
            match ended.of {
                Whose::Request(request) => self.respond(request, completion),
                Whose::Copy(_) => {
                    self.copies_kept -= 1;
                    FLAGS.copies_kept.store(self.copies_kept, Ordering::Relaxed);
                    if completion.error.is_some() {
                        FLAGS.has_failed.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    #[inline]
    fn respond(&mut self, request: MPI_Request, completion: Completion) {
        self.backlog.push_back(Response { request, completion });
    }

    /// Gives calls the responses for which there is room. Whether there were any.
    #[inline]
    pub(super) fn answer(&mut self) -> bool {
        let mut answered = false;
        while let Some(response) = self.backlog.pop_front() {
            match self.responses.push(response) {
                Ok(()) => answered = true,
                Err(response) => {
                    self.backlog.push_front(response);
                    break;
                }
            }
        }
        answered
    }

    /// Whether every response has been given.
    pub(super) fn has_answered(&self) -> bool {
        self.backlog.is_empty()
    }

    /// The core's request behind a call's, if it is under way.
    pub(super) fn id_of(&self, request: MPI_Request) -> Option<RequestId> {
        let is_it = |pending: &&Pending| matches!(pending.of, Whose::Request(of) if of == request);
        self.pending.iter().find(is_it).map(|pending| pending.id)
    }
}
