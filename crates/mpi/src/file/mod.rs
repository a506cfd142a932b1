//! Files (MPI-5.0 §14), on files of POSIX.
//!
//! A [`File`] is what a handle stands for: an open descriptor ([`access::Store`]), the processes that opened
//! it together ([`party`]), and what changes: view, pointers, hints. No lock is held while data moves; an
//! access keeps the view that it was started with.
//!
//! ```text
//!   call         the data access routines: arguments, offsets, pointers, how a call ends
//!   collective   all processes at once: some read and write for all (two-phase)
//!   access       one process: walks a range of the view and the elements in memory at the same time
//!   pool         threads for calls that do not wait
//!   view         what a process sees of the file          representation   native, external32, the program's
//!   shared       the shared file pointer                  hints, errors, party
//!   sys          system calls
//! ```
//!
//! There is no cache. Every other process on the host sees data that a write has given to the system, so
//! `MPI_File_sync` only makes the system store it.

pub(crate) mod access;
pub(crate) mod call;
mod collective;
pub(crate) mod errors;
pub(crate) mod hints;
mod open;
mod party;
pub(crate) mod pool;
pub(crate) mod representation;
mod shared;
pub(crate) mod sys;
pub(crate) mod view;

pub(crate) use open::{close, delete, open};

use crate::abi::*;
use crate::errhandler::{Kind, handlers};
use crate::fault::{Fault, fault};
use crate::handle::Table;
use crate::lock::locked;
use crate::phase;
use access::{Manner, Store};
use ayatori_core::request::Completion;
use hints::{Hints, Switch};
use party::Party;
use shared::Pointer;
use std::ffi::{CString, c_int};
use std::sync::{Arc, Mutex, MutexGuard};
use sys::Errno;
pub(crate) use sys::Scratch;
use view::View;

static FILES: Mutex<Table<MPI_File, Arc<File>>> = Mutex::new(Table::new());

/// How many are open.
pub(crate) fn open_count() -> usize {
    locked(&FILES).made_count()
}

/// A file that processes have opened together.
pub(crate) struct File {
    pub(crate) store: Arc<Store>,
    pub(crate) party: Party,
    /// `MPI_File_get_amode`
    pub(crate) amode: c_int,
    /// Its name, for messages.
    pub(crate) name: String,
    path: CString,
    pointer: Pointer,
    /// Per rank, the first rank on its host.
    hosts: Vec<u64>,
    state: Mutex<State>,
}

/// The mutable part.
pub(crate) struct State {
    pub(crate) view: Arc<View>,
    /// The individual file pointer, in etypes.
    pub(crate) position: MPI_Offset,
    pub(crate) is_atomic: bool,
    /// All writers lock the ranges they write, so windows may be written (`access`).
    sieves: bool,
    pub(crate) hints: Hints,
    errhandler: MPI_Errhandler,
    /// A split collective operation that was begun and not ended.
    split: Option<Split>,
}

/// Which split collective operation: by `_begin` and `_end` of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitKind {
    /// `MPI_File_read_all_begin`
    ReadAll,
    /// `MPI_File_read_at_all_begin`
    ReadAtAll,
    /// `MPI_File_read_ordered_begin`
    ReadOrdered,
    /// `MPI_File_write_all_begin`
    WriteAll,
    /// `MPI_File_write_at_all_begin`
    WriteAtAll,
    /// `MPI_File_write_ordered_begin`
    WriteOrdered,
}

/// One that was begun.
struct Split {
    kind: SplitKind,
    completion: Completion,
}

/// The file of a handle.
pub(crate) fn get(fh: MPI_File) -> Result<Arc<File>, Fault> {
    phase::check_running()?;
    locked(&FILES).get(fh, "fh").cloned()
}

/// The error handler of a file, or none if there is no such file.
pub(crate) fn errhandler(fh: MPI_File) -> Option<MPI_Errhandler> {
    let file = locked(&FILES).get(fh, "fh").ok()?.clone();
    let handler = file.state().errhandler;
    Some(handler)
}

/// `MPI_File_set_errhandler`
pub(crate) fn set_errhandler(fh: MPI_File, errhandler: MPI_Errhandler) -> Result<(), Fault> {
    let file = get(fh)?;
    let new = handlers().retain(errhandler, Kind::File)?;
    let old = std::mem::replace(&mut file.state().errhandler, new);
    handlers().release(old)
}

/// The name of a file, for messages.
pub(crate) fn name(fh: MPI_File) -> Option<String> {
    Some(locked(&FILES).get(fh, "fh").ok()?.name.clone())
}

impl File {
    /// The mutable part, locked: for short accesses only, never while data moves.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// The fault of a system call.
    pub(crate) fn failed(&self, doing: &str) -> impl Fn(Errno) -> Fault {
        move |errno| errors::failed(doing, &self.name, errno)
    }

    /// Refuses what files of sequential access do not have.
    pub(crate) fn check_not_sequential(&self) -> Result<(), Fault> {
        if self.amode & MPI_MODE_SEQUENTIAL != 0 {
            let what =
                format_args!("the file was opened with MPI_MODE_SEQUENTIAL: use its shared file pointer");
            return Err(fault(MPI_ERR_UNSUPPORTED_OPERATION, what));
        }
        Ok(())
    }

    /// Refuses to change a file that was opened to be read.
    pub(crate) fn check_writable(&self) -> Result<(), Fault> {
        if self.amode & MPI_MODE_RDONLY != 0 {
            return Err(fault(MPI_ERR_READ_ONLY, format_args!("the file was opened with MPI_MODE_RDONLY")));
        }
        Ok(())
    }

    /// Refuses to read a file that was opened to be written.
    pub(crate) fn check_readable(&self) -> Result<(), Fault> {
        if self.amode & MPI_MODE_WRONLY != 0 {
            return Err(fault(MPI_ERR_ACCESS, format_args!("the file was opened with MPI_MODE_WRONLY")));
        }
        Ok(())
    }

    /// How an access that begins now goes about it.
    fn manner(state: &State) -> Manner {
        let bytes = |switch, bytes| if switch == Switch::Disable { 0 } else { bytes as usize };
        Manner {
            is_atomic: state.is_atomic,
            sieves: state.sieves,
            read_window_bytes: bytes(state.hints.ds_read, state.hints.read_window_bytes),
            write_window_bytes: bytes(state.hints.ds_write, state.hints.write_window_bytes),
        }
    }

    /// Has rank 0 do something for all, once all have called; all get its error.
    pub(crate) fn by_first(
        &self,
        own: Result<u64, Fault>,
        doing: &str,
        work: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Fault> {
        let all = self
            .party
            .tell_all([own.as_ref().map_or_else(|fault| fault.code() as u64, |_| 0), value(&own)])?;
        own?;
        if let Some([class, _]) = all.iter().find(|[class, _]| *class != 0) {
            return Err(elsewhere(*class));
        }
        if all.iter().any(|told| told != &all[0]) {
            return Err(fault(
                MPI_ERR_NOT_SAME,
                format_args!("the processes of the file pass different arguments"),
            ));
        }
        let errno = match self.party.rank {
            0 => work().err().map_or(0, |Errno(errno)| errno),
            _ => 0,
        };
        match self.party.tell([errno as u64])? {
            [0] => Ok(()),
            [errno] => Err(self.failed(doing)(Errno(errno as c_int))),
        }
    }

    /// Moves the shared pointer on by `etypes`; returns its old place.
    pub(crate) fn advance_shared(&self, etypes: MPI_Offset) -> Result<MPI_Offset, Fault> {
        self.pointer.add(etypes).map_err(self.failed("move the shared pointer of"))
    }

    /// `MPI_File_get_position_shared`
    pub(crate) fn shared_position(&self) -> Result<MPI_Offset, Fault> {
        self.pointer.get().map_err(self.failed("read the shared pointer of"))
    }

    /// Where a seek leads to, from the current position.
    pub(crate) fn target(
        &self,
        whence: c_int,
        offset: MPI_Offset,
        current: MPI_Offset,
    ) -> Result<MPI_Offset, Fault> {
        let base = match whence {
            MPI_SEEK_SET => 0,
            MPI_SEEK_CUR => current,
            MPI_SEEK_END => {
                let size = self.store.fd.size().map_err(self.failed("look at"))?;
                let view = self.state().view.clone();
                view.bytes_before(size).div_ceil(view.etype_bytes as u64) as MPI_Offset
            }
            _ => {
                let what = format_args!(
                    "argument whence ({whence}) is not MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END"
                );
                return Err(fault(MPI_ERR_ARG, what));
            }
        };
        base.checked_add(offset).filter(|target| *target >= 0).ok_or_else(|| {
            fault(
                MPI_ERR_ARG,
                format_args!("argument offset ({offset}) leads to before the start of the view"),
            )
        })
    }

    /// `MPI_File_seek_shared`: all processes call with the same arguments.
    pub(crate) fn seek_shared(&self, offset: MPI_Offset, whence: c_int) -> Result<(), Fault> {
        let checked = match whence {
            MPI_SEEK_SET | MPI_SEEK_CUR | MPI_SEEK_END => self.check_not_sequential().map(|()| offset as u64),
            _ => self.target(whence, offset, 0).map(|_| 0),
        };
        // All have to have called before it moves; then one says where to.
        let mut moved = Ok(());
        self.by_first(checked, "move the shared pointer of", || {
            let current = self.pointer.get()?;
            match self.target(whence, offset, current) {
                Ok(target) => self.pointer.set(target)?,
                Err(fault) => moved = Err(fault),
            }
            Ok(())
        })?;
        let [class] = self.party.tell([moved.as_ref().err().map_or(0, |fault| fault.code() as u64)])?;
        moved?;
        if class == 0 { Ok(()) } else { Err(elsewhere(class)) }
    }

    /// `MPI_File_set_view`
    pub(crate) fn set_view(
        &self,
        displacement: MPI_Offset,
        (etype, filetype): (MPI_Datatype, MPI_Datatype),
        name: &[u8],
        info: MPI_Info,
    ) -> Result<(), Fault> {
        if self.amode & MPI_MODE_SEQUENTIAL != 0 {
            // The view begins where the shared pointer is once all have called.
            self.party.barrier()?;
        }
        let mut hints = self.state().hints.clone();
        let own = hints.take(info).and_then(|()| self.new_view(displacement, (etype, filetype), name));
        let mut told = [0; 9];
        match &own {
            Ok(view) => {
                let name_hash =
                    name.iter().fold(0, |hash: u64, byte| hash.wrapping_mul(31) + u64::from(*byte));
                told[1..4].copy_from_slice(&[
                    view.etype_bytes as u64,
                    name_hash,
                    u64::from(view.has_holes()),
                ]);
                told[4..].copy_from_slice(&hints.shared());
            }
            Err(fault) => told[0] = fault.code() as u64,
        }
        let all = self.party.tell_all(told)?;
        let view = own?;
        if let Some(told) = all.iter().find(|told| told[0] != 0) {
            return Err(elsewhere(told[0]));
        }
        if all.iter().any(|told| told[1..3] != all[0][1..3]) {
            let what = format_args!(
                "the processes of the file set etypes of different extents, or data representations"
            );
            return Err(fault(MPI_ERR_NOT_SAME, what));
        }
        hints.share(std::array::from_fn(|i| all[0][4 + i]));
        self.by_first(Ok(0), "move the shared pointer of", || self.pointer.reset())?;
        let mut state = self.state();
        state.sieves = hints.ds_write != Switch::Disable && all.iter().any(|told| told[3] != 0);
        state.hints = hints;
        state.view = Arc::new(view);
        state.position = 0;
        Ok(())
    }

    fn new_view(
        &self,
        displacement: MPI_Offset,
        (etype, filetype): (MPI_Datatype, MPI_Datatype),
        name: &[u8],
    ) -> Result<View, Fault> {
        let is_sequential = self.amode & MPI_MODE_SEQUENTIAL != 0;
        if is_sequential != (displacement == MPI_DISPLACEMENT_CURRENT) {
            let what = format_args!(
                "argument disp must be MPI_DISPLACEMENT_CURRENT with MPI_MODE_SEQUENTIAL, and only then"
            );
            return Err(fault(MPI_ERR_ARG, what));
        }
        let displacement = match is_sequential {
            false => displacement,
            true => {
                let view = self.state().view.clone();
                view.place(view.bytes(self.shared_position()?)?).unwrap_or(0) as MPI_Offset
            }
        };
        let types = (
            crate::datatype::get_committed(etype, "etype")?,
            crate::datatype::get_committed(filetype, "filetype")?,
        );
        let representation = representation::Representation::of(name)?;
        View::new(displacement, types, representation, self.amode & MPI_MODE_RDONLY == 0)
    }

    /// `MPI_File_set_info`
    pub(crate) fn set_info(&self, info: MPI_Info) -> Result<(), Fault> {
        let mut hints = self.state().hints.clone();
        let own = hints.take(info);
        let class = own.as_ref().err().map_or(0, |fault| fault.code() as u64);
        let [a, b, c, d, e] = hints.shared();
        let all = self.party.tell_all([class, a, b, c, d, e])?;
        own?;
        let [_, shared @ ..] = all[0];
        hints.share(shared);
        let mut state = self.state();
        state.sieves &= hints.ds_write != Switch::Disable;
        state.hints = hints;
        Ok(())
    }

    /// `MPI_File_set_atomicity`
    pub(crate) fn set_atomicity(&self, flag: c_int) -> Result<(), Fault> {
        // Earlier writes are complete when atomic accesses begin.
        self.by_first(Ok(u64::from(flag != 0)), "change the atomicity of", || Ok(()))?;
        self.state().is_atomic = flag != 0;
        Ok(())
    }

    /// `MPI_File_sync`
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        let synced = self.store.sync();
        let all = self.party.tell_all([synced.err().map_or(0, |Errno(errno)| errno as u64)])?;
        match all.iter().find(|[errno]| *errno != 0) {
            None => Ok(()),
            Some([errno]) => Err(self.failed("store what was written to")(Errno(*errno as c_int))),
        }
    }

    /// A split collective operation has been begun.
    pub(crate) fn begin_split(&self, kind: SplitKind, completion: Completion) {
        self.state().split = Some(Split { kind, completion });
    }

    /// Refuses a second split collective operation, or another collective one meanwhile.
    pub(crate) fn check_no_split(&self) -> Result<(), Fault> {
        if self.state().split.is_some() {
            let what = format_args!("a split collective operation on the file was begun and not ended");
            return Err(fault(MPI_ERR_OTHER, what));
        }
        Ok(())
    }

    /// Ends a split collective operation.
    pub(crate) fn end_split(&self, kind: SplitKind) -> Result<Completion, Fault> {
        let mut state = self.state();
        match state.split.take_if(|split| split.kind == kind) {
            Some(split) => Ok(split.completion),
            None => Err(fault(
                MPI_ERR_OTHER,
                format_args!("no split collective operation of this kind was begun"),
            )),
        }
    }
}

fn value(own: &Result<u64, Fault>) -> u64 {
    *own.as_ref().unwrap_or(&0)
}

/// The fault of a collective call that another process could not begin.
fn elsewhere(class: u64) -> Fault {
    fault(class as c_int, format_args!("another process of the file could not do its part"))
}
