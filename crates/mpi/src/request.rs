//! What is behind an `MPI_Request`: a request of the core, named by the handle itself, or an object of ours in a table.

use crate::abi::*;
use crate::boundary::{Fault, fault};
use crate::collective::Persistent;
use crate::handle::{Table, bad};
use crate::runtime::Afar;
use crate::state::{Process, process};
use ayatori_core::ids::RequestId;
use ayatori_core::request::{Completion, Posted, Status};
use std::ffi::c_int;

/// The request of every short send that left at once: the first handle of the table, inserted at the start and
/// never taken out, so that such a send makes and ends no object.
pub(crate) const SENT: MPI_Request = Table::<MPI_Request, Request>::FIRST;

/// The highest bits of a handle that names a request of the core; the others are the core's name for it. The kinds of
/// `handle.rs` stay below.
const CORE: usize = 0b11;

/// A request of the user that is more, or less, than one of the core.
pub(crate) struct Request {
    /// What goes on.
    pub(crate) what: What,
    /// Whose error handler hears of its errors.
    pub(crate) comm: MPI_Comm,
}

/// What a request stands for.
pub(crate) enum What {
    /// The send of [`SENT`].
    Sent,
    /// A receive and a send (`MPI_Isendrecv`); the status is the receive's.
    Both(Half, Half, Option<Box<[u8]>>),
    /// A collective operation that is persistent (MPI-5.0 §6.13), or works on copies of data with gaps.
    Collective(Box<Persistent>),
    /// A generalized request (MPI-5.0 §13.2).
    General(Box<General>),
    /// Waits for the attached buffer to drain (`MPI_Buffer_iflush`).
    Flush,
    /// An operation that the engine's thread has, or a persistent one that was made for it.
    Afar(Afar),
}

impl What {
    /// The operations behind it, first or second.
    fn half_mut(&mut self, which: usize) -> Option<&mut Half> {
        match (self, which) {
            (Self::Both(receive, ..), 0) => Some(receive),
            (Self::Both(_, send, _), 1) => Some(send),
            (Self::Collective(persistent), 0) => persistent.running_mut(),
            (Self::Afar(afar), 0) => afar.running.as_mut(),
            _ => None,
        }
    }
}

/// One of two operations behind one request.
#[derive(Clone, Copy)]
pub(crate) enum Half {
    /// Going on.
    Going(RequestId),
    /// Over.
    Over(Completion),
    /// Given to the engine's thread, which has not said yet that it is over.
    Afar,
}

impl From<Posted> for Half {
    fn from(posted: Posted) -> Self {
        match posted {
            Posted::Done(completion) => Self::Over(completion),
            Posted::Pending(id) => Self::Going(id),
        }
    }
}

/// A generalized request: what the user does, announced to MPI.
#[derive(Clone, Copy)]
pub(crate) struct General {
    pub(crate) query: Callback,
    pub(crate) free: Callback,
    pub(crate) cancel: Callback,
    pub(crate) extra_state: UserPointer,
    pub(crate) is_complete: bool,
    /// Given up before it was complete.
    pub(crate) is_freed: bool,
}

/// What testing a request came to.
pub(crate) enum Tested {
    /// It goes on.
    Going,
    /// It is over. The handle is null from now on, unless `keeps` (a persistent request).
    Over { completion: Completion, keeps: bool },
    /// It is a generalized request that is over: its user's functions are to be called, without locks.
    GeneralOver(Box<General>),
    /// It is null or an inactive persistent request: nothing to wait for.
    Nothing,
}

impl Process {
    /// A handle for an operation of the core.
    #[inline]
    pub(crate) fn new_request(&mut self, posted: Posted, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        let id = match posted {
            Posted::Pending(id) => id,
            Posted::Done(completion) => self.engine().core.park(completion),
        };
        self.core_request(id, comm)
    }

    /// A handle for a request of the core. It is given up where there are too many.
    #[inline(always)]
    pub(crate) fn core_request(&mut self, id: RequestId, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        let Some(name) = id.name() else { return Err(self.too_many(id)) };
        match self.core_comms.get_mut(id.index as usize) {
            Some(place) => *place = comm,
            None => self.grow_core_comms(id, comm),
        }
        Ok(MPI_Request(CORE << RequestId::NAME_BITS | name as usize))
    }

    #[cold]
    fn grow_core_comms(&mut self, id: RequestId, comm: MPI_Comm) {
        self.core_comms.resize(id.index as usize, MPI_COMM_NULL);
        self.core_comms.push(comm);
    }

    #[cold]
    fn too_many(&mut self, id: RequestId) -> Fault {
        let freed = self.engine().core.free(id);
        debug_assert!(freed.is_ok(), "just made");
        fault(MPI_ERR_NO_MEM, format_args!("{} requests are alive", id.index))
    }

    /// A handle for an operation that is not one of the core.
    pub(crate) fn table_request(&mut self, what: What, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.requests.insert(Request { what, comm })
    }

    /// The core's request that a handle names. `None`: such a handle is in the table.
    #[inline(always)]
    pub(crate) fn core_id(&mut self, handle: MPI_Request, name: &str) -> Result<Option<RequestId>, Fault> {
        if handle.0 >> RequestId::NAME_BITS != CORE {
            return Ok(None);
        }
        let core = &self.engine().core;
        let core_name = handle.0 as u32 & ((1 << RequestId::NAME_BITS) - 1);
        core.named(core_name).map(Some).ok_or_else(|| bad(handle, name))
    }

    /// Looks at a request, and ends it if it is over. No progress is made here.
    #[inline]
    pub(crate) fn test(&mut self, handle: MPI_Request, name: &str) -> Result<Tested, Fault> {
        match handle {
            MPI_REQUEST_NULL => return Ok(Tested::Nothing),
            SENT => return Ok(Tested::Over { completion: Completion::EMPTY, keeps: false }),
            _ => {}
        }
        if let Some(id) = self.core_id(handle, name)? {
            return self.test_core(id);
        }
        self.settle();
        self.take_halves(handle, name)?;
        let is_drained = matches!(self.requests.get(handle, name)?.what, What::Flush)
            && self.engine().core.attached_is_drained();
        let request = self.requests.get_mut(handle, name)?;
        let completion = match &mut request.what {
            What::Sent => Completion::EMPTY,
            What::Both(Half::Over(receive), Half::Over(send), _) => {
                Completion { error: receive.error.or(send.error), ..*receive }
            }
            What::Both(..) => return Ok(Tested::Going),
            What::Collective(persistent) if persistent.is_inactive() => return Ok(Tested::Nothing),
            What::Collective(persistent) => {
                let keeps = persistent.is_persistent();
                let Some(completion) = persistent.take() else { return Ok(Tested::Going) };
                if !keeps {
                    self.requests.remove(handle, name)?;
                }
                return Ok(Tested::Over { completion, keeps });
            }
            What::Afar(Afar { running: None, .. }) => return Ok(Tested::Nothing),
            What::Afar(Afar { running: running @ Some(Half::Over(_)), plan: Some(_), .. }) => {
                let Some(Half::Over(completion)) = running.take() else { unreachable!("just seen") };
                return Ok(Tested::Over { completion, keeps: true });
            }
            What::Afar(Afar { running: Some(Half::Over(completion)), .. }) => *completion,
            What::Afar(_) => return Ok(Tested::Going),
            What::Flush if is_drained => Completion::EMPTY,
            What::General(general) if general.is_complete => {
                let What::General(general) = self.requests.remove(handle, name)?.what else { unreachable!() };
                return Ok(Tested::GeneralOver(general));
            }
            What::Flush | What::General(_) => return Ok(Tested::Going),
        };
        self.requests.remove(handle, name)?;
        Ok(Tested::Over { completion, keeps: false })
    }

    /// Asks the core for the completions of what it has of a request in the table.
    fn take_halves(&mut self, handle: MPI_Request, name: &str) -> Result<(), Fault> {
        for which in 0..2 {
            let half = self.requests.get_mut(handle, name)?.what.half_mut(which);
            let Some(&mut Half::Going(id)) = half else { continue };
            if let Some(completion) = self.engine().core.take(id)?
                && let Some(half) = self.requests.get_mut(handle, name)?.what.half_mut(which)
            {
                *half = Half::Over(completion);
            }
        }
        Ok(())
    }

    /// Ends the request of an operation that was given to the engine's thread, if it is over; its completion.
    pub(crate) fn take_afar(&mut self, handle: MPI_Request) -> Result<Option<Completion>, Fault> {
        Ok(match self.test(handle, "request")? {
            Tested::Over { completion, .. } => Some(completion),
            _ => None,
        })
    }

    fn test_core(&mut self, id: RequestId) -> Result<Tested, Fault> {
        let core = &mut self.engine().core;
        if core.is_inactive(id) {
            return Ok(Tested::Nothing);
        }
        let Some(completion) = core.take(id)? else { return Ok(Tested::Going) };
        Ok(Tested::Over { completion, keeps: core.is_request(id) })
    }

    /// Ends a request that has completed without error and whose handle becomes null; its status. The rest is
    /// [`test`](Self::test)'s.
    #[inline(always)]
    pub(crate) fn end_plain(&mut self, handle: MPI_Request) -> Option<Status> {
        if handle == SENT || handle == MPI_REQUEST_NULL {
            return Some(Status::EMPTY);
        }
        let id = self.core_id(handle, "request").ok()??;
        self.engine().core.take_plain(id)
    }

    /// The communicator whose error handler hears of a request's errors.
    pub(crate) fn comm_of(&mut self, handle: MPI_Request) -> MPI_Comm {
        match self.core_id(handle, "request") {
            Ok(Some(id)) => self.core_comms[id.index as usize],
            Ok(None) => self.requests.get(handle, "request").map_or(MPI_COMM_SELF, |request| request.comm),
            Err(_) => MPI_COMM_SELF,
        }
    }
}

/// The fault of an operation that ended with an error, raised on the communicator it was started on.
pub(crate) fn check(completion: &Completion, comm: MPI_Comm) -> Result<(), Fault> {
    match completion.error {
        None => Ok(()),
        Some(error) => Err(Fault::from(error).on(comm)),
    }
}

/// The function `MPI_Grequest_start` was given to ask for the status.
type QueryFunction = unsafe extern "C-unwind" fn(*mut std::ffi::c_void, *mut MPI_Status) -> c_int;
/// The function to free the user's state.
type FreeFunction = unsafe extern "C-unwind" fn(*mut std::ffi::c_void) -> c_int;
/// The function to cancel.
type CancelFunction = unsafe extern "C-unwind" fn(*mut std::ffi::c_void, c_int) -> c_int;

impl General {
    /// Asks the user for the status, then frees the user's state. No lock is held meanwhile.
    pub(crate) fn finish(self) -> Result<MPI_Status, Fault> {
        let status = self.query()?;
        self.release()?;
        Ok(status)
    }

    /// Has the user free the user's state.
    pub(crate) fn release(self) -> Result<(), Fault> {
        if self.free.0 != 0 {
            // SAFETY: the user passed it as the free function of MPI_Grequest_start.
            let function: FreeFunction = unsafe { std::mem::transmute(self.free.0) };
            // SAFETY: called as the standard says, with the user's own state.
            user_result(unsafe { function(self.extra_state.0) })?;
        }
        Ok(())
    }

    /// Tells the user that the operation is to be cancelled.
    pub(crate) fn cancel(self) -> Result<(), Fault> {
        if self.cancel.0 == 0 {
            return Ok(());
        }
        // SAFETY: the user passed it as the cancel function of MPI_Grequest_start.
        let function: CancelFunction = unsafe { std::mem::transmute(self.cancel.0) };
        // SAFETY: called as the standard says, with the user's own state.
        user_result(unsafe { function(self.extra_state.0, c_int::from(self.is_complete)) })
    }

    /// Asks the user for the status.
    pub(crate) fn query(&self) -> Result<MPI_Status, Fault> {
        let mut status = MPI_Status::empty();
        if self.query.0 != 0 {
            // SAFETY: the user passed it as the query function of MPI_Grequest_start.
            let function: QueryFunction = unsafe { std::mem::transmute(self.query.0) };
            // SAFETY: called as the standard says, with the user's own state and a status to fill.
            user_result(unsafe { function(self.extra_state.0, &mut status) })?;
        }
        Ok(status)
    }
}

fn user_result(code: c_int) -> Result<(), Fault> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => Err(fault(code, format_args!("a function of a generalized request returned {code}"))),
    }
}

/// Whether requests are over, without waiting and without ending them (`MPI_Request_get_status`).
pub(crate) fn peek(handle: MPI_Request) -> Result<Option<MPI_Status>, Fault> {
    let looked = process()?.look_at(handle)?;
    match looked {
        // The lock is gone: the user's function may call MPI.
        Looked::General(general) => general.query().map(Some),
        Looked::Core(completion) => Ok(completion.map(|completion| crate::message::status(&completion))),
    }
}

enum Looked {
    Core(Option<Completion>),
    General(General),
}

impl Process {
    fn look_at(&mut self, handle: MPI_Request) -> Result<Looked, Fault> {
        if handle == MPI_REQUEST_NULL {
            return Ok(Looked::Core(Some(Completion::EMPTY)));
        }
        self.progress();
        if let Some(id) = self.core_id(handle, "request")? {
            return Ok(Looked::Core(self.engine().core.peek(id)?));
        }
        self.take_halves(handle, "request")?;
        let is_drained = matches!(self.requests.get(handle, "request")?.what, What::Flush)
            && self.engine().core.attached_is_drained();
        let request = self.requests.get(handle, "request")?;
        Ok(Looked::Core(match &request.what {
            What::Sent => Some(Completion::EMPTY),
            What::Both(Half::Over(receive), Half::Over(_), _) => Some(*receive),
            What::Both(..) => None,
            What::Collective(persistent) => persistent.peek(),
            What::Afar(Afar { running: None, .. }) => Some(Completion::EMPTY),
            What::Afar(Afar { running: Some(Half::Over(completion)), .. }) => Some(*completion),
            What::Afar(_) => None,
            What::Flush => is_drained.then_some(Completion::EMPTY),
            What::General(general) if general.is_complete => return Ok(Looked::General(**general)),
            What::General(_) => None,
        }))
    }
}
