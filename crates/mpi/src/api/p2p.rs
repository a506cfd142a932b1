//! Chapter "p2p": messages between two processes (MPI-5.0 §3.2 to §3.11).
//!
//! The `_c` form of a function has a count of 64 bits and is otherwise the same.

use crate::abi::*;
use crate::arguments::*;
use crate::comm::Comm;
use crate::fault::Fault;
use crate::message::{self, Data, Message, give_status};
use crate::post::Post;
use crate::request::SENT;
use crate::runtime::machine::Machine;
use crate::runtime::net::{Net, on_device};
use crate::runtime::wait::{finish_both, found_nothing, wait, wait_direct, wait_until};
use crate::state::{Guard, Process, process};
use crate::why::Waits;
use ayatori_core::Error;
use ayatori_core::device::Gap;
use ayatori_core::ids::{Rank, RequestId, Source};
use ayatori_core::request::{Completion, PROC_NULL, Posted, SendMode, Status};
use std::ffi::{c_int, c_void};

/// Elements of a call in memory. Their type is apart, so that this is two words, which are passed in
/// registers: a reference to all arguments would have every call write them to its stack first, also those
/// that go the short way.
#[derive(Clone, Copy)]
struct Elements<P> {
    buf: P,
    count: MPI_Count,
}

/// The destination of a message, or the selector of a receive; also two words.
#[derive(Clone, Copy)]
struct Envelope {
    comm: MPI_Comm,
    rank: c_int,
    tag: c_int,
}

#[inline(always)]
fn elements<P>(buf: P, count: impl Into<MPI_Count>) -> Elements<P> {
    Elements { buf, count: count.into() }
}

#[inline(always)]
fn envelope(comm: MPI_Comm, rank: c_int, tag: c_int) -> Envelope {
    Envelope { comm, rank, tag }
}

/// Arguments of a send.
#[derive(Clone, Copy)]
struct Send {
    from: Elements<*const c_void>,
    datatype: MPI_Datatype,
    to: Envelope,
    mode: SendMode,
}

/// Arguments of a receive.
#[derive(Clone, Copy)]
struct Receive {
    into: Elements<*mut c_void>,
    datatype: MPI_Datatype,
    from: Envelope,
}

impl Send {
    #[inline(always)]
    fn of(mode: SendMode, from: Elements<*const c_void>, datatype: MPI_Datatype, to: Envelope) -> Self {
        Self { from, datatype, to, mode }
    }

    /// The message to send, checked. `name` is the standard's name of the memory.
    #[inline(always)]
    fn post(self, process: &Process, name: &str) -> Result<Post, Fault> {
        let comm = process.comms.get(self.to.comm, "comm")?;
        let data = message::data(self.from.buf, self.from.count, self.datatype, name)?;
        let (dest, tag) = (message::destination(self.to.rank)?, message::tag(self.to.tag)?);
        check_rank(dest, comm.peer_count())?;
        Ok(Post::Send { comm: comm.id(), data, dest, tag, mode: self.mode })
    }

    /// Sends a message of standard mode if it can leave now: its length, bytes. `None`: [`post`](Self::post)
    /// and its start know why not.
    #[inline(always)]
    fn leaves_at_once(self, process: &mut Process) -> Option<usize> {
        let comm = process.comms.find(self.to.comm).map(Comm::id)?;
        let buffer = message::plain(self.from.buf, self.from.count, self.datatype)?;
        let (Ok(dest), Ok(_)) = (Rank::try_from(self.to.rank), Rank::try_from(self.to.tag)) else {
            return None;
        };
        let engine = process.engine.own()?;
        let has_left = self.mode == SendMode::Standard
            && on_device!(&mut engine.device, |device| {
                engine.core.send_at_once(device, comm, buffer, dest, self.to.tag)
            });
        has_left.then_some(buffer.len())
    }
}

/// From so many bytes on [`receive_between`].
const BETWEEN_BYTES_MIN: usize = 1 << 10;

/// After a message has left for which nobody waits: takes what has come from this host meanwhile, where
/// processors gain by it (`ayatori_devices::shm`, processor).
#[inline(never)]
fn receive_between(process: &mut Process) {
    if let Some(engine) = process.engine.own()
        && let Net::Shm(device) = &mut engine.device
        && device.reads_between_sends()
    {
        engine.core.progress(device);
    }
}

fn check_rank(rank: Rank, size: u32) -> Result<(), Fault> {
    if rank < size || rank == PROC_NULL {
        Ok(())
    } else {
        Err(Error::Rank { rank: rank.into(), size }.into())
    }
}

impl Receive {
    #[inline(always)]
    fn of(into: Elements<*mut c_void>, datatype: MPI_Datatype, from: Envelope) -> Self {
        Self { into, datatype, from }
    }

    /// The receive, checked.
    #[inline(always)]
    fn post(self, process: &Process, name: &str) -> Result<Post, Fault> {
        let comm = process.comms.get(self.from.comm, "comm")?;
        let data = message::data(self.into.buf, self.into.count, self.datatype, name)?;
        let (source, tag) = (message::source(self.from.rank)?, message::tag_selector(self.from.tag)?);
        if let Source::Rank(rank) = source {
            check_rank(rank, comm.peer_count())?;
        }
        Ok(Post::Receive { comm: comm.id(), data, source, tag })
    }

    /// Starts a receive of elements without gaps, with a request in any case. `None`: [`irecv_any`] can,
    /// which takes longer, or knows why not.
    #[inline(always)]
    fn start_request(self, process: &mut Process) -> Result<Option<RequestId>, Fault> {
        let (Some(buffer), Some(comm), Some(engine)) = (
            message::plain(self.into.buf, self.into.count, self.datatype),
            process.comms.find(self.from.comm).map(Comm::id),
            process.engine.own(),
        ) else {
            return Ok(None);
        };
        let (source, tag) = (message::source(self.from.rank)?, message::tag_selector(self.from.tag)?);
        let id = on_device!(&mut engine.device, |device| {
            engine.core.irecv_request(device, comm, buffer, source, tag)
        });
        Ok(id.ok())
    }

    /// Receives while no other thread calls. The core's `direct_completion` is the result.
    #[inline(always)]
    fn wait_alone(self, process: &mut Process) -> Result<(), Fault> {
        let Some(buffer) = message::plain(self.into.buf, self.into.count, self.datatype) else {
            return wait_alone_on_any(process, self.into, self.datatype, self.from);
        };
        let comm = process.comms.get(self.from.comm, "comm")?.id();
        let (source, tag) = (message::source(self.from.rank)?, message::tag_selector(self.from.tag)?);
        let engine = process.engine();
        let begun = on_device!(&mut engine.device, |device| {
            engine.core.receive_direct(device, comm, buffer, source, tag)
        });
        if begun? { Ok(()) } else { wait_direct(process) }
    }

    /// Whether nothing is wrong with its arguments, and its memory has no gaps.
    #[inline(always)]
    fn is_plain(self, process: &Process) -> bool {
        let is_rank =
            |comm: &Comm| Rank::try_from(self.from.rank).is_ok_and(|source| source < comm.peer_count());
        message::plain(self.into.buf, self.into.count, self.datatype).is_some()
            && process.comms.find(self.from.comm).is_some_and(is_rank)
            && message::tag_selector(self.from.tag).is_ok()
    }
}

/// [`Receive::wait_alone`] on memory of any type.
#[cold]
#[inline(never)]
fn wait_alone_on_any(
    process: &mut Process,
    into: Elements<*mut c_void>,
    datatype: MPI_Datatype,
    from: Envelope,
) -> Result<(), Fault> {
    let comm = process.comms.get(from.comm, "comm")?.id();
    let data = message::data(into.buf, into.count, datatype, "buf")?;
    let (source, tag) = (message::source(from.rank)?, message::tag_selector(from.tag)?);
    let Machine { core, device, .. } = process.engine();
    if core.receive_direct(device, comm, data, source, tag)? { Ok(()) } else { wait_direct(process) }
}

/// A send that does not leave at once.
#[inline(never)]
fn send_any(
    mut process: Guard,
    from: Elements<*const c_void>,
    datatype: MPI_Datatype,
    to: Envelope,
    mode: SendMode,
) -> Result<(), Fault> {
    let send = Send { from, datatype, to, mode };
    let post = send.post(&process, "buf")?;
    let started = process.start_awaited(post, to.comm)?;
    crate::request::check(&started.finish(process)?, to.comm)
}

/// The same, without waiting for its end.
#[inline(never)]
fn isend_any(
    mut process: Guard,
    from: Elements<*const c_void>,
    datatype: MPI_Datatype,
    to: Envelope,
    mode: SendMode,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let send = Send { from, datatype, to, mode };
    let post = send.post(&process, "buf")?;
    request.set("request", process.start_message(post, to.comm)?)
}

/// Receives where others may call.
#[cold]
#[inline(never)]
fn receive_shared(
    mut process: Guard,
    into: Elements<*mut c_void>,
    datatype: MPI_Datatype,
    from: Envelope,
) -> Result<Completion, Fault> {
    let post = Receive { into, datatype, from }.post(&process, "buf")?;
    process.start_awaited(post, from.comm)?.finish(process)
}

/// Starts a receive into memory of any type, in any mode.
#[cold]
#[inline(never)]
fn irecv_any(
    mut process: Guard,
    into: Elements<*mut c_void>,
    datatype: MPI_Datatype,
    from: Envelope,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let post = Receive { into, datatype, from }.post(&process, "buf")?;
    request.set("request", process.start_message(post, from.comm)?)
}

#[inline(always)]
fn send(args: Send) -> Result<(), Fault> {
    let mut process = process()?;
    if args.leaves_at_once(&mut process).is_some() {
        return Ok(());
    }
    send_any(process, args.from, args.datatype, args.to, args.mode)
}

#[inline(always)]
fn isend(args: Send, request: Out<MPI_Request>) -> Result<(), Fault> {
    let mut process = process()?;
    if let Some(bytes) = args.leaves_at_once(&mut process) {
        if bytes >= BETWEEN_BYTES_MIN {
            receive_between(&mut process);
        }
        return request.set("request", SENT);
    }
    isend_any(process, args.from, args.datatype, args.to, args.mode, request)
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
    let post = args.post(&process, "buf")?;
    request.set("request", process.prepare_message(post, args.to.comm)?)
}

fn recv_init(args: Receive, request: Out<MPI_Request>) -> Result<(), Fault> {
    let mut process = process()?;
    let post = args.post(&process, "buf")?;
    request.set("request", process.prepare_message(post, args.from.comm)?)
}

#[inline(always)]
fn receive(args: Receive, status: Out<MPI_Status>) -> Result<(), Fault> {
    let mut process = process()?;
    let shared;
    let completion = if process.is_shared() {
        shared = receive_shared(process, args.into, args.datatype, args.from)?;
        &shared
    } else {
        args.wait_alone(&mut process)?;
        process.engine().core.direct_completion()
    };
    give_status(status, completion);
    crate::request::check(completion, args.from.comm)
}

#[inline(always)]
fn irecv(args: Receive, request: Out<MPI_Request>) -> Result<(), Fault> {
    let mut process = process()?;
    let Some(id) = args.start_request(&mut process)? else {
        return irecv_any(process, args.into, args.datatype, args.from, request);
    };
    let handle = process.core_request(id, args.from.comm);
    process.release();
    request.set("request", handle?)
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

/// One look after a round of progress.
fn probe_now(wanted: (c_int, c_int, MPI_Comm), take: bool) -> Result<Option<(MPI_Message, Status)>, Fault> {
    let mut process = process()?;
    process.progress();
    let found = probe_once(&mut process, wanted, take)?;
    drop(process);
    if found.is_none() {
        found_nothing();
    }
    Ok(found)
}

/// Waits for a message: as long as none is found, the core looks after who may send it.
fn probe_until(
    (source, tag, comm): (c_int, c_int, MPI_Comm),
    take: bool,
) -> Result<(MPI_Message, Status), Fault> {
    let selector = message::source(source)?;
    let waits = Waits::Probe(comm, selector, message::tag_selector(tag)?);
    let mut begun = None;
    wait_until(waits, |process| {
        let found = probe_once(process, (source, tag, comm), take);
        if !matches!(found, Ok(None)) {
            if let Some(probe) = begun.take() {
                process.engine().core.end_probe(probe);
            }
        } else if begun.is_none() {
            let id = process.comms.get(comm, "comm")?.id();
            begun = process.engine().core.begin_probe(id, selector)?;
        }
        found
    })
}

fn probed(status: Status) -> Completion {
    Completion { status, error: None }
}

fn sendrecv(send: Send, receive: Receive, status: Out<MPI_Status>) -> Result<(), Fault> {
    let mut process = process()?;
    if !process.is_shared() && receive.is_plain(&process) && send.leaves_at_once(&mut process).is_some() {
        receive.wait_alone(&mut process)?;
        let completion = process.engine().core.direct_completion();
        give_status(status, completion);
        return crate::request::check(completion, receive.from.comm);
    }
    // Both are checked before one starts, so that an error leaves nothing half done.
    let (sent, received) = (send.post(&process, "sendbuf")?, receive.post(&process, "recvbuf")?);
    let completion = {
        let (receiving, sending) = process.start_both((sent, received), send.to.comm)?;
        finish_both(process, receiving, sending)?
    };
    give_status(status, &completion);
    crate::request::check(&completion, send.to.comm)
}

fn isendrecv(
    send: Send,
    receive: Receive,
    kept: Option<Box<[u8]>>,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let mut process = process()?;
    let (sent, received) = (send.post(&process, "sendbuf")?, receive.post(&process, "recvbuf")?);
    request.set("request", process.start_pair((sent, received), kept, send.to.comm)?)
}

/// A copy of what a send-receive in one buffer sends, and the arguments to send it.
fn replace(receive: &Receive, dest: c_int, sendtag: c_int) -> Result<(Box<[u8]>, Send), Fault> {
    let data = message::data(receive.into.buf, receive.into.count, receive.datatype, "buf")?;
    let copy: Box<[u8]> = data.packed().into();
    let from = elements(copy.as_ptr().cast(), copy.len() as MPI_Count);
    let to = envelope(receive.from.comm, dest, sendtag);
    let send = Send { from, datatype: MPI_BYTE, to, mode: SendMode::Standard };
    Ok((copy, send))
}

/// The functions of one send mode.
macro_rules! sends {
    ($($mode:ident $send:ident $send_c:ident $isend:ident $isend_c:ident $init:ident $init_c:ident;)*) => {$(
        api! {
            /// MPI-5.0 §3.2.1, §3.4
            fn $send(buf: *const c_void, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm) on comm {
                send(Send::of(SendMode::$mode, elements(buf, count), datatype, envelope(comm, dest, tag)))
            }
            /// MPI-5.0 §3.2.1, §3.4
            fn $send_c(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm) on comm {
                send(Send::of(SendMode::$mode, elements(buf, count), datatype, envelope(comm, dest, tag)))
            }
            /// MPI-5.0 §3.7.2
            fn $isend(buf: *const c_void, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let to = envelope(comm, dest, tag);
                isend(Send::of(SendMode::$mode, elements(buf, count), datatype, to), request)
            }
            /// MPI-5.0 §3.7.2
            fn $isend_c(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let to = envelope(comm, dest, tag);
                isend(Send::of(SendMode::$mode, elements(buf, count), datatype, to), request)
            }
            /// MPI-5.0 §3.9
            fn $init(buf: *const c_void, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let to = envelope(comm, dest, tag);
                send_init(Send::of(SendMode::$mode, elements(buf, count), datatype, to), request)
            }
            /// MPI-5.0 §3.9
            fn $init_c(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let to = envelope(comm, dest, tag);
                send_init(Send::of(SendMode::$mode, elements(buf, count), datatype, to), request)
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
                receive(Receive::of(elements(buf, count), datatype, envelope(comm, source, tag)), status)
            }
            /// MPI-5.0 §3.7.2
            fn $irecv(buf: *mut c_void, count: $count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                irecv(Receive::of(elements(buf, count), datatype, envelope(comm, source, tag)), request)
            }
            /// MPI-5.0 §3.9
            fn $init(buf: *mut c_void, count: $count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                recv_init(Receive::of(elements(buf, count), datatype, envelope(comm, source, tag)), request)
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
                let to = envelope(comm, dest, sendtag);
                let send = Send::of(SendMode::Standard, elements(sendbuf, sendcount), sendtype, to);
                let from = envelope(comm, source, recvtag);
                let receive = Receive::of(elements(recvbuf, recvcount), recvtype, from);
                sendrecv(send, receive, status)
            }
            /// MPI-5.0 §3.10
            fn $replace(buf: *mut c_void, count: $count, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: MPI_Comm, status: Out<MPI_Status>) on comm {
                let receive = Receive::of(elements(buf, count), datatype, envelope(comm, source, recvtag));
                let (_copy, send) = replace(&receive, dest, sendtag)?;
                sendrecv(send, receive, status)
            }
            /// MPI-5.0 §3.7.2
            fn $isendrecv(sendbuf: *const c_void, sendcount: $count, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: $count, recvtype: MPI_Datatype, source: c_int, recvtag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let to = envelope(comm, dest, sendtag);
                let send = Send::of(SendMode::Standard, elements(sendbuf, sendcount), sendtype, to);
                let from = envelope(comm, source, recvtag);
                let receive = Receive::of(elements(recvbuf, recvcount), recvtype, from);
                isendrecv(send, receive, None, request)
            }
            /// MPI-5.0 §3.7.2
            fn $ireplace(buf: *mut c_void, count: $count, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: MPI_Comm, request: Out<MPI_Request>) on comm {
                let receive = Receive::of(elements(buf, count), datatype, envelope(comm, source, recvtag));
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
        let (_, found) = probe_until((source, tag, comm), false)?;
        give_status(status, &probed(found));
        Ok(())
    }

    /// MPI-5.0 §3.8.1
    fn MPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, status: Out<MPI_Status>) on comm {
        let found = probe_now((source, tag, comm), false)?;
        if let Some((_, found)) = found {
            give_status(status, &probed(found));
        }
        flag.set("flag", c_int::from(found.is_some()))
    }

    /// MPI-5.0 §3.8.2
    fn MPI_Mprobe(source: c_int, tag: c_int, comm: MPI_Comm, message: Out<MPI_Message>, status: Out<MPI_Status>) on comm {
        let (handle, found) = probe_until((source, tag, comm), true)?;
        give_status(status, &probed(found));
        message.set("message", handle)
    }

    /// MPI-5.0 §3.8.2
    fn MPI_Improbe(source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, message: Out<MPI_Message>, status: Out<MPI_Status>) on comm {
        let found = probe_now((source, tag, comm), true)?;
        if let Some((handle, found)) = found {
            give_status(status, &probed(found));
            message.set("message", handle)?;
        }
        flag.set("flag", c_int::from(found.is_some()))
    }
}
