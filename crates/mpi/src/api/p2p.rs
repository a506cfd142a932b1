//! Chapter "p2p": messages between two processes (MPI-5.0 §3.2 to §3.11).
//!
//! The `_c` form of a function has a count of 64 bits and is otherwise the same.

use crate::abi::*;
use crate::arguments::*;
use crate::comm::Comm;
use crate::fault::Fault;
use crate::message::{self, Data, Message, give_status};
use crate::request::{Half, SENT, What};
use crate::runtime::machine::Machine;
use crate::runtime::net::on_device;
use crate::runtime::offload::Post;
use crate::runtime::wait::{complete, wait, wait_direct, wait_remote, wait_until};
use crate::state::{Guard, Process, process};
use crate::why::Waits;
use ayatori_core::Error;
use ayatori_core::device::Gap;
use ayatori_core::ids::{Rank, RequestId, Source};
use ayatori_core::request::{Completion, PROC_NULL, Posted, SendMode, Status};
use std::ffi::{c_int, c_void};

/// Arguments of a send.
#[derive(Clone, Copy)]
struct Send {
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: SendMode,
}

/// Arguments of a receive.
#[derive(Clone, Copy)]
struct Receive {
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
}

impl Send {
    /// `is_awaited`: the caller does nothing else before its end.
    #[inline(always)]
    fn start(self, process: &mut Process, is_awaited: bool) -> Result<Posted, Fault> {
        let comm = process.comms.get(self.comm, "comm")?.id();
        let data = message::data(self.buf, self.count, self.datatype, "buf")?;
        let (dest, tag) = (message::destination(self.dest)?, message::tag(self.tag)?);
        let engine = process.engine();
        Ok(on_device!(&mut engine.device, |device| {
            match is_awaited {
                true => engine.core.send(device, comm, data, dest, tag, self.mode),
                false => engine.core.isend(device, comm, data, dest, tag, self.mode),
            }
        })?)
    }

    /// Sends a short message of standard mode if it can leave now. `false`: [`start`](Self::start) knows why not.
    #[inline(always)]
    fn leaves_at_once(self, process: &mut Process) -> bool {
        let Some(comm) = process.comms.find(self.comm).map(Comm::id) else { return false };
        let Some(buffer) = message::plain(self.buf, self.count, self.datatype) else { return false };
        let (Ok(dest), Ok(_)) = (Rank::try_from(self.dest), Rank::try_from(self.tag)) else { return false };
        let Some(engine) = process.engine.own() else { return false };
        self.mode == SendMode::Standard
            && on_device!(&mut engine.device, |device| {
                engine.core.send_at_once(device, comm, buffer, dest, self.tag)
            })
    }

    fn init(self, process: &mut Process) -> Result<RequestId, Fault> {
        let comm = process.comms.get(self.comm, "comm")?.id();
        let data = message::data(self.buf, self.count, self.datatype, "buf")?;
        let (dest, tag) = (message::destination(self.dest)?, message::tag(self.tag)?);
        Ok(process.engine().core.send_init(comm, data, dest, tag, self.mode)?)
    }

    /// Whether it is given to the engine's thread. A buffered send tells at once whether there was room.
    #[inline(always)]
    fn is_remote(self, process: &Process) -> bool {
        process.engine.is_remote()
            && self.mode != SendMode::Buffered
            && !is_scattered(self.buf, self.count, self.datatype)
    }

    /// What the engine's thread is to do, checked.
    fn plan(self, process: &Process) -> Result<Post, Fault> {
        let comm = process.comms.get(self.comm, "comm")?;
        let buffer = message::contiguous(self.buf, self.count, self.datatype, "buf")?;
        let (dest, tag) = (message::destination(self.dest)?, message::tag(self.tag)?);
        check_rank(dest, comm.peer_count())?;
        Ok(Post::Send { comm: comm.id(), buffer, dest, tag, mode: self.mode })
    }
}

/// Whether data has gaps: the engine is borrowed for it, no command carries it. What is wrong with arguments is found later.
#[cold]
fn is_scattered(memory: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> bool {
    matches!(message::data(memory, count, datatype, "buf"), Ok(Data::Scattered(_)))
}

fn check_rank(rank: Rank, size: u32) -> Result<(), Fault> {
    if rank < size || rank == PROC_NULL {
        Ok(())
    } else {
        Err(Error::Rank { rank: rank.into(), size }.into())
    }
}

impl Receive {
    /// Whether it is given to the engine's thread.
    #[inline(always)]
    fn is_remote(self, process: &Process) -> bool {
        process.engine.is_remote() && !is_scattered(self.buf, self.count, self.datatype)
    }

    #[inline(always)]
    fn start(self, process: &mut Process) -> Result<Posted, Fault> {
        let comm = process.comms.get(self.comm, "comm")?.id();
        let data = message::data(self.buf, self.count, self.datatype, "buf")?;
        let (source, tag) = (message::source(self.source)?, message::tag_selector(self.tag)?);
        let engine = process.engine();
        Ok(on_device!(&mut engine.device, |device| engine.core.irecv(device, comm, data, source, tag))?)
    }

    /// As [`start`](Self::start), with a request in any case. `None`: ask [`irecv_any`], which takes longer.
    #[inline(always)]
    fn start_request(self, process: &mut Process) -> Result<Option<RequestId>, Fault> {
        let (Some(buffer), Some(comm), Some(engine)) = (
            message::plain(self.buf, self.count, self.datatype),
            process.comms.find(self.comm).map(Comm::id),
            process.engine.own(),
        ) else {
            return Ok(None);
        };
        let (source, tag) = (message::source(self.source)?, message::tag_selector(self.tag)?);
        let id = on_device!(&mut engine.device, |device| {
            engine.core.irecv_request(device, comm, buffer, source, tag)
        });
        Ok(Some(id?))
    }

    /// Receives with nobody else calling. How it ended is the core's `direct_completion`.
    #[inline(always)]
    fn wait_alone(self, process: &mut Process) -> Result<(), Fault> {
        let Some(buffer) = message::plain(self.buf, self.count, self.datatype) else {
            let (data, from, by) = self.pairs();
            return wait_alone_on_any(process, data, from, by);
        };
        let comm = process.comms.get(self.comm, "comm")?.id();
        let (source, tag) = (message::source(self.source)?, message::tag_selector(self.tag)?);
        let engine = process.engine();
        let begun = on_device!(&mut engine.device, |device| {
            engine.core.receive_direct(device, comm, buffer, source, tag)
        });
        if begun? { Ok(()) } else { wait_direct(process) }
    }

    /// Whether nothing is wrong with its arguments, and its memory has no gaps.
    #[inline(always)]
    fn is_plain(self, process: &Process) -> bool {
        let is_rank = |comm: &Comm| Rank::try_from(self.source).is_ok_and(|source| source < comm.size());
        message::plain(self.buf, self.count, self.datatype).is_some()
            && process.comms.find(self.comm).is_some_and(is_rank)
            && message::tag_selector(self.tag).is_ok()
    }

    fn init(self, process: &mut Process) -> Result<RequestId, Fault> {
        let comm = process.comms.get(self.comm, "comm")?.id();
        let data = message::data(self.buf, self.count, self.datatype, "buf")?;
        let (source, tag) = (message::source(self.source)?, message::tag_selector(self.tag)?);
        Ok(process.engine().core.recv_init(comm, data, source, tag)?)
    }

    /// What the engine's thread is to do, checked.
    fn plan(self, process: &Process) -> Result<Post, Fault> {
        let comm = process.comms.get(self.comm, "comm")?;
        let buffer = message::contiguous(self.buf, self.count, self.datatype, "buf")?;
        let (source, tag) = (message::source(self.source)?, message::tag_selector(self.tag)?);
        if let Source::Rank(rank) = source {
            check_rank(rank, comm.peer_count())?;
        }
        Ok(Post::Receive { comm: comm.id(), buffer, source, tag })
    }
}

/// A call's arguments in pairs, which are passed in registers. A reference to them instead would have every call write them to
/// its stack first, also those that go the short way: 8 stores at the entry of `MPI_Send`.
type Pairs<P> = ((P, MPI_Count), (MPI_Datatype, c_int), (c_int, MPI_Comm));

impl Send {
    #[inline(always)]
    fn pairs(self) -> Pairs<*const c_void> {
        ((self.buf, self.count), (self.datatype, self.dest), (self.tag, self.comm))
    }

    #[inline(always)]
    fn from_pairs(pairs: Pairs<*const c_void>, mode: SendMode) -> Self {
        let ((buf, count), (datatype, dest), (tag, comm)) = pairs;
        Self { buf, count, datatype, dest, tag, comm, mode }
    }
}

impl Receive {
    #[inline(always)]
    fn pairs(self) -> Pairs<*mut c_void> {
        ((self.buf, self.count), (self.datatype, self.source), (self.tag, self.comm))
    }

    #[inline(always)]
    fn from_pairs(((buf, count), (datatype, source), (tag, comm)): Pairs<*mut c_void>) -> Self {
        Self { buf, count, datatype, source, tag, comm }
    }
}

/// [`Receive::wait_alone`] on memory of any type.
#[cold]
#[inline(never)]
fn wait_alone_on_any(
    process: &mut Process,
    data: (*mut c_void, MPI_Count),
    from: (MPI_Datatype, c_int),
    by: (c_int, MPI_Comm),
) -> Result<(), Fault> {
    let args = Receive::from_pairs((data, from, by));
    let comm = process.comms.get(args.comm, "comm")?.id();
    let data = message::data(args.buf, args.count, args.datatype, "buf")?;
    let (source, tag) = (message::source(args.source)?, message::tag_selector(args.tag)?);
    let Machine { core, device, .. } = process.engine();
    if core.receive_direct(device, comm, data, source, tag)? { Ok(()) } else { wait_direct(process) }
}

/// Gives a send to the engine's thread. `None`: it is short, and over for its caller.
#[inline]
fn give_away(
    process: &mut Process,
    post: Post,
    comm: MPI_Comm,
    is_awaited: bool,
) -> Result<Option<MPI_Request>, Fault> {
    if process.engine.send_copy(&post) {
        return Ok(None);
    }
    process.post(post, comm, is_awaited).map(Some)
}

/// A send by way of the engine's thread.
#[cold]
#[inline(never)]
fn send_afar(
    mut process: Guard,
    data: (*const c_void, MPI_Count),
    to: (MPI_Datatype, c_int),
    by: (c_int, MPI_Comm),
    mode: SendMode,
) -> Result<(), Fault> {
    let args = Send::from_pairs((data, to, by), mode);
    let plan = args.plan(&process)?;
    match give_away(&mut process, plan, args.comm, true)? {
        None => Ok(()),
        Some(request) => crate::request::check(&wait_remote(process, request)?, args.comm),
    }
}

#[cold]
#[inline(never)]
fn isend_afar(
    mut process: Guard,
    data: (*const c_void, MPI_Count),
    to: (MPI_Datatype, c_int),
    by: (c_int, MPI_Comm),
    (mode, request): (SendMode, Out<MPI_Request>),
) -> Result<(), Fault> {
    let args = Send::from_pairs((data, to, by), mode);
    let plan = args.plan(&process)?;
    let handle = give_away(&mut process, plan, args.comm, false)?.unwrap_or(SENT);
    request.set("request", handle)
}

/// Receives where others may call, or the engine's thread does.
#[cold]
#[inline(never)]
fn receive_shared(
    mut process: Guard,
    data: (*mut c_void, MPI_Count),
    from: (MPI_Datatype, c_int),
    by: (c_int, MPI_Comm),
) -> Result<Completion, Fault> {
    let args = Receive::from_pairs((data, from, by));
    if args.is_remote(&process) {
        let plan = args.plan(&process)?;
        let request = process.post(plan, args.comm, true)?;
        return wait_remote(process, request);
    }
    let posted = args.start(&mut process)?;
    wait(process, posted)
}

/// Starts a receive into memory of any type, or by way of the engine's thread.
#[cold]
#[inline(never)]
fn irecv_any(
    mut process: Guard,
    data: (*mut c_void, MPI_Count),
    from: (MPI_Datatype, c_int),
    by: (c_int, MPI_Comm),
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let args = Receive::from_pairs((data, from, by));
    let handle = if args.is_remote(&process) {
        let plan = args.plan(&process)?;
        process.post(plan, args.comm, false)?
    } else {
        let posted = args.start(&mut process)?;
        process.new_request(posted, args.comm)?
    };
    request.set("request", handle)
}

/// Both halves of a send-receive by way of the engine's thread.
#[cold]
fn sendrecv_afar(mut process: Guard, send: Send, receive: Receive) -> Result<Completion, Fault> {
    let (send_plan, receive_plan) = (send.plan(&process)?, receive.plan(&process)?);
    // Also before the first starts: no other call comes in between, and nothing else can fail.
    process.requests.table.check_room(2)?;
    let receiving = process.post(receive_plan, receive.comm, true)?;
    let sending = give_away(&mut process, send_plan, send.comm, true)?;
    let received = wait_remote(process, receiving)?;
    let sent = match sending {
        Some(sending) => wait_remote(crate::state::process()?, sending)?,
        None => Completion::EMPTY,
    };
    Ok(Completion { error: received.error.or(sent.error), ..received })
}

#[inline(always)]
fn send(args: Send) -> Result<(), Fault> {
    let mut process = process()?;
    if args.leaves_at_once(&mut process) {
        return Ok(());
    }
    if args.is_remote(&process) {
        let (data, to, by) = args.pairs();
        return send_afar(process, data, to, by, args.mode);
    }
    let posted = args.start(&mut process, true)?;
    complete(process, posted, args.comm).map(drop)
}

#[inline(always)]
fn isend(args: Send, request: Out<MPI_Request>) -> Result<(), Fault> {
    let mut process = process()?;
    if args.leaves_at_once(&mut process) {
        return request.set("request", SENT);
    }
    if args.is_remote(&process) {
        let (data, to, by) = args.pairs();
        return isend_afar(process, data, to, by, (args.mode, request));
    }
    let posted = args.start(&mut process, false)?;
    let handle = process.new_request(posted, args.comm)?;
    request.set("request", handle)
}

/// A send of standard mode whose data leaves with gaps of its own: see `extension.rs`.
pub(crate) fn isend_paced(
    (buf, count, datatype): (*const c_void, MPI_Count, MPI_Datatype),
    (dest, tag, comm): (c_int, c_int, MPI_Comm),
    gap: Gap,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let mut process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    let data = message::data(buf, count, datatype, "buf")?;
    let (dest, tag) = (message::destination(dest)?, message::tag(tag)?);
    let Machine { core, device, .. } = process.engine();
    let posted = core.isend_paced(device, id, data, dest, tag, SendMode::Standard, gap)?;
    let handle = process.new_request(posted, comm)?;
    request.set("request", handle)
}

fn send_init(args: Send, request: Out<MPI_Request>) -> Result<(), Fault> {
    let mut process = process()?;
    let handle = if args.is_remote(&process) {
        let plan = args.plan(&process)?;
        process.requests.prepare_post(plan, args.comm)?
    } else {
        let id = args.init(&mut process)?;
        process.core_request(id, args.comm)?
    };
    request.set("request", handle)
}

#[inline(always)]
fn receive(args: Receive, status: Out<MPI_Status>) -> Result<(), Fault> {
    let mut process = process()?;
    let shared;
    let completion = if process.is_shared() {
        let (data, from, by) = args.pairs();
        shared = receive_shared(process, data, from, by)?;
        &shared
    } else {
        args.wait_alone(&mut process)?;
        process.engine().core.direct_completion()
    };
    give_status(status, completion);
    crate::request::check(completion, args.comm)
}

/// Receives a matched message, or none from `MPI_PROC_NULL`.
fn receive_matched(
    process: &mut Process,
    handle: MPI_Message,
    data: Data,
) -> Result<(Posted, MPI_Comm), Fault> {
    if handle == MPI_MESSAGE_NO_PROC {
        return Ok((Posted::Done(Completion { status: Status::PROC_NULL, error: None }), MPI_COMM_SELF));
    }
    let Message { id, comm } = process.messages.remove(handle, "message")?;
    let engine = process.engine();
    Ok((engine.core.imrecv(&mut engine.device, id, data)?, comm))
}

/// One look at what has arrived. `take`: out of matching.
fn probe_once(
    process: &mut Process,
    (source, tag, comm): (c_int, c_int, MPI_Comm),
    take: bool,
) -> Result<Option<(MPI_Message, Status)>, Fault> {
    let id = process.comms.get(comm, "comm")?.id();
    let (source, tag) = (message::source(source)?, message::tag_selector(tag)?);
    let core = &mut process.engine().core;
    if !take {
        return Ok(core.iprobe(id, source, tag)?.map(|status| (MPI_MESSAGE_NULL, status)));
    }
    match core.improbe(id, source, tag)? {
        None => Ok(None),
        Some((None, status)) => Ok(Some((MPI_MESSAGE_NO_PROC, status))),
        Some((Some(id), status)) => Ok(Some((process.messages.insert(Message { id, comm })?, status))),
    }
}

fn probed(status: Status) -> Completion {
    Completion { status, error: None }
}

/// Both halves of a send-receive, receive first.
fn start_both(process: &mut Process, send: Send, receive: Receive) -> Result<(Half, Half), Fault> {
    // Checked before anything starts, so that an error leaves nothing half done.
    message::data(send.buf, send.count, send.datatype, "sendbuf")?;
    message::destination(send.dest)?;
    message::tag(send.tag)?;
    let receive = receive.start(process)?;
    let sent = send.start(process, true);
    match sent {
        Ok(sent) => Ok((receive.into(), sent.into())),
        Err(fault) => {
            if let Posted::Pending(id) = receive {
                let engine = process.engine();
                engine.core.cancel(&mut engine.device, id)?;
                engine.core.free(id)?;
            }
            Err(fault)
        }
    }
}

/// Waits for both halves; the receive's completion, with either's error.
fn finish_both(process: Guard, (receive, send): (Half, Half)) -> Result<Completion, Fault> {
    drop(process);
    let end = |half| match half {
        Half::Over(completion) => Ok(completion),
        Half::Going(id) => {
            wait_until(Waits::Both(receive, send), |process| Ok(process.engine().core.take_or_give_up(id)?))
        }
        Half::Remote => unreachable!("both were started by the core"),
    };
    let received = end(receive)?;
    let sent = end(send)?;
    Ok(Completion { error: received.error.or(sent.error), ..received })
}

fn sendrecv(send: Send, receive: Receive, status: Out<MPI_Status>) -> Result<(), Fault> {
    let mut process = process()?;
    if !process.is_shared() && receive.is_plain(&process) && send.leaves_at_once(&mut process) {
        receive.wait_alone(&mut process)?;
        let completion = process.engine().core.direct_completion();
        give_status(status, completion);
        return crate::request::check(completion, receive.comm);
    }
    let completion = if send.is_remote(&process) && receive.is_remote(&process) {
        sendrecv_afar(process, send, receive)?
    } else {
        let halves = start_both(&mut process, send, receive)?;
        finish_both(process, halves)?
    };
    give_status(status, &completion);
    crate::request::check(&completion, send.comm)
}

fn isendrecv(
    send: Send,
    receive: Receive,
    kept: Option<Box<[u8]>>,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let mut process = process()?;
    process.requests.table.check_room(1)?;
    let (received, sent) = start_both(&mut process, send, receive)?;
    let handle = process.table_request(What::Both(received, sent, kept), send.comm)?;
    request.set("request", handle)
}

/// A copy of what a send-receive in one buffer sends, and the arguments to send it.
fn replace(receive: &Receive, dest: c_int, sendtag: c_int) -> Result<(Box<[u8]>, Send), Fault> {
    let data = message::data(receive.buf, receive.count, receive.datatype, "buf")?;
    let copy: Box<[u8]> = data.packed().into();
    let (buf, count, comm) = (copy.as_ptr().cast(), copy.len() as MPI_Count, receive.comm);
    let send = Send { buf, count, datatype: MPI_BYTE, dest, tag: sendtag, comm, mode: SendMode::Standard };
    Ok((copy, send))
}

/// The functions of one send mode.
macro_rules! sends {
    ($($mode:ident $send:ident $send_c:ident $isend:ident $isend_c:ident $init:ident $init_c:ident;)*) => {$(
        api! {
            /// MPI-5.0 §3.2.1, §3.4
            fn $send(buf: *const c_void, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm) on comm {
                send(Send { buf, count: count.into(), datatype, dest, tag, comm, mode: SendMode::$mode })
            }
            /// MPI-5.0 §3.2.1, §3.4
            fn $send_c(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm) on comm {
                send(Send { buf, count, datatype, dest, tag, comm, mode: SendMode::$mode })
            }
            /// MPI-5.0 §3.7.2
            fn $isend(buf: *const c_void, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                isend(Send { buf, count: count.into(), datatype, dest, tag, comm, mode: SendMode::$mode }, request)
            }
            /// MPI-5.0 §3.7.2
            fn $isend_c(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                isend(Send { buf, count, datatype, dest, tag, comm, mode: SendMode::$mode }, request)
            }
            /// MPI-5.0 §3.9
            fn $init(buf: *const c_void, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                send_init(Send { buf, count: count.into(), datatype, dest, tag, comm, mode: SendMode::$mode }, request)
            }
            /// MPI-5.0 §3.9
            fn $init_c(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                send_init(Send { buf, count, datatype, dest, tag, comm, mode: SendMode::$mode }, request)
            }
        }
    )*};
}

// Ready mode may be standard mode, and is (MPI-5.0 §3.4).
sends! {
    Standard MPI_Send MPI_Send_c MPI_Isend MPI_Isend_c MPI_Send_init MPI_Send_init_c;
    Standard MPI_Rsend MPI_Rsend_c MPI_Irsend MPI_Irsend_c MPI_Rsend_init MPI_Rsend_init_c;
    Synchronous MPI_Ssend MPI_Ssend_c MPI_Issend MPI_Issend_c MPI_Ssend_init MPI_Ssend_init_c;
    Buffered MPI_Bsend MPI_Bsend_c MPI_Ibsend MPI_Ibsend_c MPI_Bsend_init MPI_Bsend_init_c;
}

/// The functions with a count of either width (`MPI_Count` is `i64`).
macro_rules! counted {
    ($($count:ty, $recv:ident $irecv:ident $init:ident $mrecv:ident $imrecv:ident
       $sendrecv:ident $replace:ident $isendrecv:ident $ireplace:ident;)*) => {$(
        api! {
            /// MPI-5.0 §3.2.4
            fn $recv(buf: *mut c_void, count: $count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm, status: Out<MPI_Status>) on comm {
                receive(Receive { buf, count: count.into(), datatype, source, tag, comm }, status)
            }
            /// MPI-5.0 §3.7.2
            fn $irecv(buf: *mut c_void, count: $count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let mut process = process()?;
                let receive = Receive { buf, count: count.into(), datatype, source, tag, comm };
                let Some(id) = receive.start_request(&mut process)? else {
                    let (data, from, by) = receive.pairs();
                    return irecv_any(process, data, from, by, request);
                };
                let handle = process.core_request(id, comm)?;
                request.set("request", handle)
            }
            /// MPI-5.0 §3.9
            fn $init(buf: *mut c_void, count: $count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let mut process = process()?;
                let receive = Receive { buf, count: count.into(), datatype, source, tag, comm };
                let handle = if receive.is_remote(&process) {
                    let plan = receive.plan(&process)?;
                    process.requests.prepare_post(plan, comm)?
                } else {
                    let id = receive.init(&mut process)?;
                    process.core_request(id, comm)?
                };
                request.set("request", handle)
            }
            /// MPI-5.0 §3.8.3
            fn $mrecv(buf: *mut c_void, count: $count, datatype: MPI_Datatype, message: InOut<MPI_Message>, status: Out<MPI_Status>) {
                let data = message::data(buf, count.into(), datatype, "buf")?;
                let mut process = process()?;
                let (posted, comm) = receive_matched(&mut process, message.get("message")?, data)?;
                message.set("message", MPI_MESSAGE_NULL)?;
                let completion = wait(process, posted)?;
                give_status(status, &completion);
                crate::request::check(&completion, comm)
            }
            /// MPI-5.0 §3.8.3
            fn $imrecv(buf: *mut c_void, count: $count, datatype: MPI_Datatype, message: InOut<MPI_Message>, request: Out<MPI_Request>) {
                let data = message::data(buf, count.into(), datatype, "buf")?;
                let mut process = process()?;
                let (posted, comm) = receive_matched(&mut process, message.get("message")?, data)?;
                message.set("message", MPI_MESSAGE_NULL)?;
                let handle = process.new_request(posted, comm)?;
                request.set("request", handle)
            }
            /// MPI-5.0 §3.10
            fn $sendrecv(sendbuf: *const c_void, sendcount: $count, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: $count, recvtype: MPI_Datatype, source: c_int, recvtag: c_int, comm: MPI_Comm, status: Out<MPI_Status>) on comm {
                let send = Send { buf: sendbuf, count: sendcount.into(), datatype: sendtype, dest, tag: sendtag, comm, mode: SendMode::Standard };
                sendrecv(send, Receive { buf: recvbuf, count: recvcount.into(), datatype: recvtype, source, tag: recvtag, comm }, status)
            }
            /// MPI-5.0 §3.10
            fn $replace(buf: *mut c_void, count: $count, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: MPI_Comm, status: Out<MPI_Status>) on comm {
                let receive = Receive { buf, count: count.into(), datatype, source, tag: recvtag, comm };
                let (_copy, send) = replace(&receive, dest, sendtag)?;
                sendrecv(send, receive, status)
            }
            /// MPI-5.0 §3.7.2
            fn $isendrecv(sendbuf: *const c_void, sendcount: $count, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: $count, recvtype: MPI_Datatype, source: c_int, recvtag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let send = Send { buf: sendbuf, count: sendcount.into(), datatype: sendtype, dest, tag: sendtag, comm, mode: SendMode::Standard };
                isendrecv(send, Receive { buf: recvbuf, count: recvcount.into(), datatype: recvtype, source, tag: recvtag, comm }, None, request)
            }
            /// MPI-5.0 §3.7.2
            fn $ireplace(buf: *mut c_void, count: $count, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let receive = Receive { buf, count: count.into(), datatype, source, tag: recvtag, comm };
                let (copy, send) = replace(&receive, dest, sendtag)?;
                isendrecv(send, receive, Some(copy), request)
            }
        }
    )*};
}

counted! {
    c_int, MPI_Recv MPI_Irecv MPI_Recv_init MPI_Mrecv MPI_Imrecv
        MPI_Sendrecv MPI_Sendrecv_replace MPI_Isendrecv MPI_Isendrecv_replace;
    i64, MPI_Recv_c MPI_Irecv_c MPI_Recv_init_c MPI_Mrecv_c MPI_Imrecv_c
        MPI_Sendrecv_c MPI_Sendrecv_replace_c MPI_Isendrecv_c MPI_Isendrecv_replace_c;
}

api! {
    /// MPI-5.0 §3.8.1
    fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: Out<MPI_Status>) on comm {
        let waits = Waits::Probe(comm, message::source(source)?, message::tag_selector(tag)?);
        let (_, found) = wait_until(waits, |process| probe_once(process, (source, tag, comm), false))?;
        give_status(status, &probed(found));
        Ok(())
    }

    /// MPI-5.0 §3.8.1
    fn MPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, status: Out<MPI_Status>) on comm {
        let mut process = process()?;
        process.progress();
        let found = probe_once(&mut process, (source, tag, comm), false)?;
        if let Some((_, found)) = found {
            give_status(status, &probed(found));
        }
        flag.set("flag", c_int::from(found.is_some()))
    }

    /// MPI-5.0 §3.8.2
    fn MPI_Mprobe(source: c_int, tag: c_int, comm: MPI_Comm, message: Out<MPI_Message>, status: Out<MPI_Status>) on comm {
        let waits = Waits::Probe(comm, message::source(source)?, message::tag_selector(tag)?);
        let (handle, found) = wait_until(waits, |process| probe_once(process, (source, tag, comm), true))?;
        give_status(status, &probed(found));
        message.set("message", handle)
    }

    /// MPI-5.0 §3.8.2
    fn MPI_Improbe(source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, message: Out<MPI_Message>, status: Out<MPI_Status>) on comm {
        let mut process = process()?;
        process.progress();
        let found = probe_once(&mut process, (source, tag, comm), true)?;
        if let Some((handle, found)) = found {
            give_status(status, &probed(found));
            message.set("message", handle)?;
        }
        flag.set("flag", c_int::from(found.is_some()))
    }
}
