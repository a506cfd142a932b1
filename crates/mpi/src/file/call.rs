//! The data access routines (MPI-5.0 §14.4): the start of an access, the data it moves, and the end of its
//! call.

use super::access::{Access, Manner};
use super::collective;
use super::pool::Operation;
use super::representation::Elements;
use super::sys::{Errno, Handed, Scratch, Way};
use super::view::View;
use super::{File, SplitKind, State};
use crate::abi::*;
use crate::arguments::*;
use crate::datatype;
use crate::fault::{Fault, fault};
use crate::message::{self, Data};
use crate::request::What;
use crate::state::process;
use ayatori_core::request::{Completion, Status};
use std::ffi::c_void;
use std::sync::Arc;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At an offset in etypes.
    At(MPI_Offset),
    /// At the individual file pointer, which moves on.
    Own,
    /// At the shared one.
    Shared,
    /// At the shared one, the processes in the order of their ranks.
    Ordered,
}

/// A call's elements in memory.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) buf: *const c_void,
    pub(crate) count: MPI_Count,
    pub(crate) datatype: MPI_Datatype,
}

/// An access with its arguments checked, and where its data goes through a copy in another representation.
pub(super) struct Prepared {
    pub(super) access: Access,
    elements: Elements,
    /// The elements themselves, where the access works on a copy.
    own: Option<(Data, Scratch)>,
}

/// The data of a call, before its place is known.
struct Moves {
    view: Arc<View>,
    manner: Manner,
    elements: Elements,
    data: Data,
    file_bytes: usize,
    etypes: MPI_Offset,
}

fn completion(bytes: usize) -> Completion {
    Completion { status: Status { bytes: bytes as u64, ..Status::EMPTY }, error: None }
}

impl File {
    fn check_way(&self, way: Way, start: Start) -> Result<(), Fault> {
        if !matches!(start, Start::Shared | Start::Ordered) {
            self.check_not_sequential()?;
        }
        match way {
            Way::Read => self.check_readable(),
            Way::Write => self.check_writable(),
        }
    }

    /// Checks what a call moves.
    fn moves(&self, way: Way, start: Start, memory: Memory) -> Result<Moves, Fault> {
        self.check_way(way, start)?;
        let Memory { buf, count, datatype } = memory;
        let elements_count = datatype::count(count, "count")?;
        let ty = datatype::get_committed(datatype, "datatype")?;
        let data = message::data(buf, count, datatype, "buf")?;
        let (view, manner) = {
            let state = self.state();
            (state.view.clone(), Self::manner(&state))
        };
        let elements = Elements { ty, datatype, count: elements_count, memory: buf };
        let file_bytes = match view.representation.is_as_memory() {
            true => data.len(),
            false => view.representation.bytes(&elements)?,
        };
        if !file_bytes.is_multiple_of(view.etype_bytes) {
            let unit = view.etype_bytes;
            let what = format_args!("{file_bytes} bytes are no whole number of etypes, which have {unit}");
            return Err(fault(MPI_ERR_IO, what));
        }
        if way == Way::Write && view.is_empty() && file_bytes > 0 {
            return Err(fault(MPI_ERR_IO, format_args!("the view has no data to write to")));
        }
        let etypes = (file_bytes / view.etype_bytes) as MPI_Offset;
        Ok(Moves { view, manner, elements, data, file_bytes, etypes })
    }

    /// Where an access by one process begins; pointers move on.
    fn begin(&self, start: Start, moves: &Moves) -> Result<MPI_Offset, Fault> {
        match start {
            Start::At(offset) => Ok(offset),
            Start::Shared | Start::Ordered => self.advance_shared(moves.etypes),
            Start::Own => {
                let State { position, .. } = &mut *self.state();
                let begin = *position;
                *position = begin.checked_add(moves.etypes).ok_or_else(|| {
                    fault(MPI_ERR_ARG, format_args!("the file pointer would leave what files can hold"))
                })?;
                Ok(begin)
            }
        }
    }

    /// Puts an access together that begins at an offset in etypes.
    fn prepare(&self, way: Way, begin: MPI_Offset, moves: Moves) -> Result<Prepared, Fault> {
        let Moves { view, manner, elements, data, file_bytes, .. } = moves;
        let from = view.bytes(begin)?;
        let (data, own) = match (view.representation.is_as_memory(), way) {
            (true, _) => (data, None),
            (false, Way::Read) => {
                let mut copy = Scratch::new(file_bytes);
                (Data::Contiguous(copy.buffer()), Some((data, copy)))
            }
            (false, Way::Write) => {
                let mut copy = Scratch::of(view.representation.encode(&elements, &data)?);
                (Data::Contiguous(copy.buffer()), Some((data, copy)))
            }
        };
        let access = Access { store: self.store.clone(), view, from, way, data, manner };
        Ok(Prepared { access, elements, own })
    }

    /// The access of one process.
    fn prepared(&self, way: Way, start: Start, memory: Memory) -> Result<Prepared, Fault> {
        let moves = self.moves(way, start, memory)?;
        let begin = self.begin(start, &moves)?;
        self.prepare(way, begin, moves)
    }

    fn moved(&self, way: Way, result: Result<usize, Errno>) -> Result<usize, Fault> {
        result.map_err(self.failed(match way {
            Way::Read => "read",
            Way::Write => "write to",
        }))
    }

    /// A blocking access by one process.
    pub(crate) fn transfer(&self, way: Way, start: Start, memory: Memory) -> Result<Completion, Fault> {
        let prepared = self.prepared(way, start, memory)?;
        let bytes = self.moved(way, prepared.access.run())?;
        prepared.finish(bytes).map(completion)
    }

    /// An access by all processes.
    pub(crate) fn transfer_all(&self, way: Way, start: Start, memory: Memory) -> Result<Completion, Fault> {
        self.check_no_split()?;
        if start == Start::Ordered {
            return self.transfer_ordered(way, memory);
        }
        let prepared = self.prepared(way, start, memory);
        // Others do not wait for a process whose arguments are wrong.
        let bytes = collective::run(self, way, prepared.as_ref().map(|prepared| &prepared.access))?;
        match (prepared, bytes) {
            (Err(fault), _) => Err(fault),
            (Ok(prepared), Some(bytes)) => prepared.finish(bytes).map(completion),
            (Ok(prepared), None) => {
                let bytes = self.moved(way, prepared.access.run())?;
                prepared.finish(bytes).map(completion)
            }
        }
    }

    /// An access at the shared pointer in the order of the ranks.
    fn transfer_ordered(&self, way: Way, memory: Memory) -> Result<Completion, Fault> {
        let moves = self.moves(way, Start::Ordered, memory);
        let etypes = moves.as_ref().map_or(0, |moves| moves.etypes as u64);
        let all: Vec<u64> = self.party.tell_all([etypes])?.iter().map(|[etypes]| *etypes).collect();
        let total = all.iter().try_fold(0, |sum: MPI_Offset, etypes| sum.checked_add(*etypes as MPI_Offset));
        let begin = match (self.party.rank, total) {
            (0, Some(total)) => self.advance_shared(total),
            _ => Ok(0),
        };
        let class = begin.as_ref().err().map_or(0, |fault| fault.code() as u64);
        let [class, base] = self.party.tell([class, begin.as_ref().map_or(0, |begin| *begin as u64)])?;
        let moves = moves?;
        begin?;
        if class != 0 || total.is_none() {
            return Err(super::elsewhere(if class == 0 { MPI_ERR_COUNT as u64 } else { class }));
        }
        let before: u64 = all[..self.party.rank as usize].iter().sum();
        let prepared = self.prepare(way, (base + before) as MPI_Offset, moves)?;
        let bytes = self.moved(way, prepared.access.run())?;
        prepared.finish(bytes).map(completion)
    }

    /// An access that goes on after the call; its request.
    pub(crate) fn transfer_later(
        &self,
        fh: MPI_File,
        way: Way,
        start: Start,
        memory: Memory,
    ) -> Result<MPI_Request, Fault> {
        let prepared = self.prepared(way, start, memory)?;
        let operation = if prepared.access.view.representation.calls_user() {
            // The calling thread must call its functions.
            let bytes = self.moved(way, prepared.access.run())?;
            Operation::over(fh, Ok(prepared.finish(bytes)?))
        } else {
            let verb = if way == Way::Read { "read from" } else { "written to" };
            let what =
                format!("{} bytes to be {verb} the file \"{}\"", prepared.access.data.len(), self.name);
            let handed = Handed(prepared);
            Operation::start(fh, what, move || {
                let prepared = handed.take();
                let bytes = prepared.access.run()?;
                prepared.finish(bytes).map_err(|_| Errno(libc::EIO))
            })
        };
        process()?.table_request(What::File(Box::new(operation)), MPI_COMM_SELF)
    }

    /// Begins a split collective operation. All of it is done here, as the standard allows (MPI-5.0 §14.4.5).
    pub(crate) fn begin_all(
        &self,
        kind: SplitKind,
        way: Way,
        start: Start,
        memory: Memory,
    ) -> Result<(), Fault> {
        let completion = self.transfer_all(way, start, memory)?;
        self.begin_split(kind, completion);
        Ok(())
    }
}

impl Prepared {
    /// The access has moved `bytes` of the file; returns the number of elements.
    fn finish(self, bytes: usize) -> Result<usize, Fault> {
        let Self { access, elements, own } = self;
        match own {
            None => Ok(bytes),
            Some((data, copy)) if access.way == Way::Read => {
                access.view.representation.decode(&elements, &data, &copy.bytes()[..bytes])
            }
            Some((data, _)) => Ok(if bytes == access.data.len() { data.len() } else { 0 }),
        }
    }
}

/// Gives the status of a call.
pub(crate) fn give(completion: &Completion, status: Out<MPI_Status>) -> Result<(), Fault> {
    message::give_status(status, completion);
    Ok(())
}
