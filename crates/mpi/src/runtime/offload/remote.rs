//! The calls' side of the queues: commands, responses, and borrowing the machine.

use super::back::{self, Back, Locked, leave_to_thread, rouse, step_in};
use super::command::{COPIES_KEPT_MAX, COPY_BYTES_MAX, Command, QUEUE_CAPACITY, Response};
use super::executor::Executor;
use super::flags::FLAGS;
use super::ring::{Consumer, Producer};
use crate::abi::MPI_Request;
use crate::message::Data;
use crate::operation::Operation;
use crate::post::Post;
use crate::runtime::machine::Machine;
use ayatori_core::buffer::Buffer;
use ayatori_core::ids::{CommId, RequestId};
use ayatori_core::process::CollectiveId;
use ayatori_core::request::{PROC_NULL, SendMode};
use ayatori_devices::shm::WaitPolicy;
use ayatori_devices::threads::Parker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The calls' side while the thread owns the machine.
pub(in crate::runtime) struct Remote {
    pub(super) commands: Producer<Command>,
    pub(super) responses: Consumer<Response>,
    pub(super) parker: Arc<Parker>,
    /// While a call has borrowed the machine: the right to it.
    pub(super) borrowed: Option<Locked>,
    /// How calls wait.
    pub(in crate::runtime) policy: WaitPolicy,
    /// Inquiries after this process.
    pub(super) inquiries: &'static AtomicU32,
    /// Responses taken.
    pub(in crate::runtime) responses_count: u64,
}

/// Borrowing.
impl Remote {
    pub(in crate::runtime) fn is_borrowed(&self) -> bool {
        self.borrowed.is_some()
    }

    /// Borrows the machine. Executes earlier commands and makes a round of progress, in which functions of
    /// the user's may run.
    pub(in crate::runtime) fn borrow(&mut self) -> Machine {
        self.take(|executor, machine| {
            machine.core.put_off_user_functions(false);
            executor.round(machine);
        })
    }

    /// Borrows the machine for an inquiry, after earlier commands. Without progress, which in a job that
    /// hangs could end what is asked about.
    pub(in crate::runtime) fn borrow_to_look(&mut self) -> Machine {
        self.take(|executor, machine| _ = executor.execute(machine))
    }

    fn take(&mut self, prepare: impl FnOnce(&mut Executor, &mut Machine)) -> Machine {
        FLAGS.wanted_count.fetch_add(1, Ordering::SeqCst);
        let mut back = back::lock();
        FLAGS.wanted_count.fetch_sub(1, Ordering::SeqCst);
        let Back { machine, executor, .. } = &mut **back.as_mut().expect("the mode is in force");
        let mut machine = machine.take().expect("only the holder of the lock borrows");
        prepare(executor, &mut machine);
        self.borrowed = Some(back);
        machine
    }

    /// The machine goes back.
    pub(in crate::runtime) fn give_back(&mut self, mut machine: Machine) {
        let Some(mut guard) = self.borrowed.take() else { unreachable!("borrowed") };
        let back = guard.as_mut().expect("the mode is in force");
        back.executor.serve(&mut machine);
        machine.core.put_off_user_functions(true);
        back.machine = Some(machine);
        leave_to_thread(guard, &self.parker);
    }

    /// The core's request of an operation that was given to the thread, if it is under way. Only while
    /// borrowed.
    pub(in crate::runtime) fn id_of(&self, request: MPI_Request) -> Option<RequestId> {
        self.borrowed.as_ref()?.as_ref()?.executor.id_of(request)
    }

    /// The communicator of a collective operation in shared memory that was given to the thread. Only while
    /// borrowed.
    pub(in crate::runtime) fn node_of(&self, request: MPI_Request) -> Option<CommId> {
        let nodes = &self.borrowed.as_ref()?.as_ref()?.executor.nodes;
        nodes.iter().find(|run| run.request == request).map(|run| run.comm)
    }
}

/// Commands and responses. `own` is the place of a borrowed machine.
impl Remote {
    /// Gives the thread a command. `is_awaited`: the caller waits for its end from now on, by rounds in the
    /// thread's place.
    fn command(&mut self, own: &mut Option<Machine>, command: Command, is_awaited: bool) {
        let is_short = command.is_short();
        if let Err(command) = self.commands.push(command) {
            self.command_into_full(own, command);
        } else if !is_awaited {
            // Either the thread sees the command before it sleeps, or we see that it does.
            fence(Ordering::SeqCst);
            if FLAGS.is_asleep.load(Ordering::Relaxed) && !(is_short && step_in(&self.parker)) {
                rouse(&self.parker);
            }
        }
    }

    /// The queue is full: executes what is there, and gives the command after it.
    #[cold]
    fn command_into_full(&mut self, own: &mut Option<Machine>, command: Command) {
        if own.is_none() {
            *own = Some(self.borrow());
        }
        let back = self.borrowed.as_mut().and_then(|back| back.as_mut()).expect("borrowed");
        back.executor.execute(own.as_mut().expect("borrowed"));
        let pushed = self.commands.push(command);
        // Executed when the machine is given back.
        assert!(pushed.is_ok(), "an empty queue has a free slot");
    }

    /// Gives a short message of standard mode away as a copy. `false`: it is not one, or its sender has to
    /// wait.
    #[inline]
    pub(in crate::runtime) fn send_copy(&mut self, own: &mut Option<Machine>, post: &Post) -> bool {
        let Post::Send { comm, ref data, dest, tag, mode: SendMode::Standard } = *post else { return false };
        if dest == PROC_NULL {
            return true;
        }
        let Data::Contiguous(buffer) = data else { return false };
        if buffer.len() > COPY_BYTES_MAX
            || FLAGS.has_failed.load(Ordering::Relaxed)
            || FLAGS.copies_kept.load(Ordering::Relaxed) >= COPIES_KEPT_MAX
        {
            return false;
        }
        let mut bytes = [0; COPY_BYTES_MAX];
        // SAFETY: the array has this length, is alive, and only this thread uses it while it is written.
        let copy = unsafe { Buffer::from_raw_parts(bytes.as_mut_ptr(), buffer.len()) };
        copy.copy_from(0, buffer, 0, buffer.len());
        let length = buffer.len() as u8;
        self.command(own, Command::Copy { comm, dest, tag, length, bytes }, false);
        true
    }

    /// Has the thread start a message.
    pub(in crate::runtime) fn post(
        &mut self,
        own: &mut Option<Machine>,
        request: MPI_Request,
        post: Post,
        is_awaited: bool,
    ) {
        self.command(own, Command::Post(request, post), is_awaited);
    }

    /// Has the thread start a collective operation.
    pub(in crate::runtime) fn collect(
        &mut self,
        own: &mut Option<Machine>,
        request: MPI_Request,
        (comm, operation): (CommId, Arc<Operation>),
        id: Option<CollectiveId>,
        is_blocking: bool,
    ) {
        let command = Command::Collective { request, comm, operation, id, is_blocking };
        self.command(own, command, is_blocking);
    }

    /// A response that has come.
    #[inline]
    pub(in crate::runtime) fn take_response(&mut self) -> Option<Response> {
        let response = self.responses.pop()?;
        self.responses_count += 1;
        Some(response)
    }

    /// `count` responses were taken at once.
    pub(in crate::runtime) fn responses_taken(&self, count: u64) {
        if count >= u64::from(QUEUE_CAPACITY) {
            // There may be more, for which the queue was full.
            rouse(&self.parker);
        }
    }

    /// Does a round in the thread's place, for a call that waits. `true`: something happened.
    pub(in crate::runtime) fn stand_in(&self) -> bool {
        // The holder of the lock makes progress.
        let Some(mut guard) = back::try_lock() else { return false };
        guard.as_mut().is_some_and(|back| back.round())
    }

    /// Calls the functions of the user's that collective operations wait for, by a round in the thread's
    /// place. Whether there were any.
    #[inline]
    pub(in crate::runtime) fn call_user_functions(&self) -> bool {
        FLAGS.has_put_off.load(Ordering::Relaxed) && self.call_them()
    }

    #[cold]
    fn call_them(&self) -> bool {
        FLAGS.wanted_count.fetch_add(1, Ordering::SeqCst);
        let mut guard = back::lock();
        FLAGS.wanted_count.fetch_sub(1, Ordering::SeqCst);
        guard.as_mut().expect("the mode is in force").round_with_user_functions();
        leave_to_thread(guard, &self.parker);
        true
    }

    /// The inquiry that was made last.
    pub(in crate::runtime) fn inquiry(&self) -> u32 {
        self.inquiries.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::launch::two_machines;
    use crate::runtime::net::on_device;
    use crate::runtime::offload::ring::ring;
    use ayatori_core::request::Posted;

    #[test]
    fn an_inquiry_looks_at_the_machine_without_progress() {
        let [machine, mut other] = two_machines();
        let parker = Arc::new(machine.device.parker().expect("a place to sleep"));
        let (policy, inquiries) = (machine.device.policy(), machine.device.shm().inquiries());
        let (commands, to_thread) = ring(QUEUE_CAPACITY);
        let (from_thread, responses) = ring(QUEUE_CAPACITY);
        let executor = Executor::new(to_thread, from_thread);
        *back::lock() = Some(Box::new(Back { machine: Some(machine), executor, sleeps_until: None }));
        let borrowed = None;
        let mut remote =
            Remote { commands, responses, parker, borrowed, policy, inquiries, responses_count: 0 };
        let Machine { core, device, .. } = &mut other;
        let posted = on_device!(device, |device| {
            core.isend(device, CommId::WORLD, Buffer::EMPTY, 0, 7, SendMode::Standard)
        });
        assert!(matches!(posted, Ok(Posted::Done(_))), "{posted:?}");
        let arrivals = [Remote::borrow_to_look, Remote::borrow_to_look, Remote::borrow].map(|borrow| {
            let machine = borrow(&mut remote);
            let count = machine.core.news_count();
            remote.give_back(machine);
            count
        });
        *back::lock() = None;
        assert_eq!(arrivals, [0, 0, 1]);
    }
}
