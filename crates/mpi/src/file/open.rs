//! Opening, closing and deleting files (MPI-5.0 §14.2).

use super::access::Store;
use super::hints::Hints;
use super::party::Party;
use super::shared::{Pointer, beside, hidden_name};
use super::sys::{Errno, Fd, unlink};
use super::view::View;
use super::{FILES, File, State, elsewhere, errors};
use crate::abi::*;
use crate::errhandler::{Kind, handlers};
use crate::fault::{Fault, fault};
use crate::lock::locked;
use std::ffi::{CStr, CString, OsStr, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex};

const MODES: c_int = MPI_MODE_APPEND
    | MPI_MODE_CREATE
    | MPI_MODE_DELETE_ON_CLOSE
    | MPI_MODE_EXCL
    | MPI_MODE_RDONLY
    | MPI_MODE_RDWR
    | MPI_MODE_SEQUENTIAL
    | MPI_MODE_UNIQUE_OPEN
    | MPI_MODE_WRONLY;

fn check_amode(amode: c_int) -> Result<(), Fault> {
    let bad = |what: &str| Err(fault(MPI_ERR_AMODE, format_args!("argument amode ({amode:#x}) {what}")));
    let has = |mode: c_int| amode & mode != 0;
    if has(!MODES) {
        return bad("has bits that are no mode");
    }
    if [MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY].iter().filter(|mode| has(**mode)).count() != 1 {
        return bad("has not exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY");
    }
    if has(MPI_MODE_RDONLY) && has(MPI_MODE_CREATE | MPI_MODE_EXCL) {
        return bad("has MPI_MODE_RDONLY with MPI_MODE_CREATE or MPI_MODE_EXCL");
    }
    if has(MPI_MODE_RDWR) && has(MPI_MODE_SEQUENTIAL) {
        return bad("has MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL");
    }
    Ok(())
}

/// The path of a name. As with ROMIO, a word for the kind of file system may stand before it, which means
/// nothing here.
fn path(name: &[u8]) -> Result<CString, Fault> {
    let name = [&b"ufs:"[..], b"nfs:"].iter().find_map(|kind| name.strip_prefix(*kind)).unwrap_or(name);
    if name.is_empty() {
        return Err(fault(MPI_ERR_BAD_FILE, format_args!("argument filename is empty")));
    }
    CString::new(name).map_err(|_| fault(MPI_ERR_BAD_FILE, format_args!("argument filename has a zero byte")))
}

/// The same path, which another current directory does not change.
fn from_root(path: &CStr) -> CString {
    let absolute = std::path::absolute(OsStr::from_bytes(path.to_bytes())).ok();
    // It fails where the current directory has gone; then the path is as good as any.
    let bytes = absolute.map(|path| path.into_os_string().into_vec());
    bytes.and_then(|bytes| CString::new(bytes).ok()).unwrap_or_else(|| path.to_owned())
}

/// Opens the file of one process; whether it can be read, too.
fn open_own(path: &CStr, amode: c_int, is_first: bool, permissions: u32) -> Result<(Fd, bool), Errno> {
    let mut flags = 0;
    if is_first && amode & MPI_MODE_CREATE != 0 {
        flags |= libc::O_CREAT;
        if amode & MPI_MODE_EXCL != 0 {
            flags |= libc::O_EXCL;
        }
    }
    let (fd, is_readable) = if amode & MPI_MODE_RDONLY != 0 {
        (Fd::open(path, flags | libc::O_RDONLY, permissions)?, true)
    } else {
        match Fd::open(path, flags | libc::O_RDWR, permissions) {
            // Windows are read before they are written, but that can be done without.
            Err(Errno(libc::EACCES)) if amode & MPI_MODE_WRONLY != 0 => {
                (Fd::open(path, flags | libc::O_WRONLY, permissions)?, false)
            }
            other => (other?, true),
        }
    };
    if fd.is_directory()? {
        return Err(Errno(libc::EISDIR));
    }
    Ok((fd, is_readable))
}

/// `MPI_File_open`
pub(crate) fn open(comm: MPI_Comm, name: &[u8], amode: c_int, info: MPI_Info) -> Result<MPI_File, Fault> {
    let party = Party::new(comm)?;
    match open_with(&party, name, amode, info) {
        Ok(opened) => {
            let file = opened.into_file(party, name, amode)?;
            locked(&FILES).insert(Arc::new(file))
        }
        Err(fault) => {
            party.free()?;
            Err(fault)
        }
    }
}

/// Facts about a file when all have opened it.
struct Opened {
    store: Store,
    /// From the root.
    path: CString,
    pointer: Pointer,
    hosts: Vec<u64>,
    hints: Hints,
}

/// Agrees on the arguments; rank 0 opens the file, and may create it, then all others.
fn open_with(party: &Party, name: &[u8], amode: c_int, info: MPI_Info) -> Result<Opened, Fault> {
    let mut hints = Hints::usual();
    let own = check_amode(amode).and_then(|()| hints.take(info)).and_then(|()| path(name));
    let class = own.as_ref().err().map_or(0, |fault| fault.code() as u64);
    let all = party.tell_all([class, amode as u64])?;
    let path = own?;
    if let Some([class, _]) = all.iter().find(|[class, _]| *class != 0) {
        return Err(elsewhere(*class));
    }
    if all.iter().any(|[_, other]| *other != amode as u64) {
        return Err(fault(MPI_ERR_NOT_SAME, format_args!("argument amode differs between the processes")));
    }
    let failed = |errno: u64| errors::failed("open", &path.to_string_lossy(), Errno(errno as c_int));
    let permissions = hints.permissions().unwrap_or(0o666);
    let is_first = party.rank == 0;
    let mut opened = is_first.then(|| open_own(&path, amode, true, permissions));
    let errno = match &opened {
        Some(Err(Errno(errno))) => *errno as u64,
        _ => 0,
    };
    let mut memory = is_first.then(|| Fd::in_memory().ok()).flatten();
    let absolute = from_root(&path);
    let hidden = if is_first { hidden_name(&absolute) } else { CString::default() };
    let in_memory = memory.as_ref().map(Fd::path).unwrap_or_default();
    let lengths = [in_memory.as_bytes().len() as u64, hidden.as_bytes().len() as u64];
    let [a, b, c, d, e] = hints.shared();
    let [errno, memory_len, hidden_len, shared @ ..] =
        party.tell([errno, lengths[0], lengths[1], a, b, c, d, e])?;
    if errno != 0 {
        return Err(failed(errno));
    }
    hints.share(shared);
    let mut names = [in_memory.into_bytes(), hidden.into_bytes()].concat();
    names.resize((memory_len + hidden_len) as usize, 0);
    let names = party.tell_bytes(names)?;
    let (in_memory, hidden) = names.split_at(memory_len as usize);
    let opened = opened.take().unwrap_or_else(|| open_own(&path, amode, false, permissions));
    let here = party.first_rank_here()?;
    if !is_first && here == 0 && memory_len > 0 {
        memory = Fd::open(&CString::new(in_memory).unwrap_or_default(), libc::O_RDWR, 0).ok();
    }
    let errno = opened.as_ref().err().map_or(0, |Errno(errno)| *errno as u64);
    let is_pointer_here = here == 0 && memory.is_some();
    let all = party.tell_all([errno, here.into(), u64::from(is_pointer_here)])?;
    if let Some([errno, ..]) = all.iter().find(|[errno, ..]| *errno != 0) {
        return Err(failed(errno.max(&all[party.rank as usize][0]).to_owned()));
    }
    let (fd, is_readable) = opened.map_err(|Errno(errno)| failed(errno as u64))?;
    let pointer = match memory {
        Some(memory) if all.iter().all(|[.., is_here]| *is_here != 0) => Pointer::in_memory(memory),
        _ => Pointer::in_file(beside(&absolute, hidden)),
    };
    let hosts = all.iter().map(|[_, first, _]| *first).collect();
    Ok(Opened { store: Store::new(fd, is_readable), path: absolute, pointer, hosts, hints })
}

impl Opened {
    fn into_file(self, party: Party, name: &[u8], amode: c_int) -> Result<File, Fault> {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut position = 0;
        if amode & MPI_MODE_APPEND != 0 {
            let size = self.store.fd.size().map_err(|errno| errors::failed("look at", &name, errno))?;
            position = size as MPI_Offset;
            if party.rank == 0 {
                let set = self.pointer.set(position);
                set.map_err(|errno| errors::failed("move the shared pointer of", &name, errno))?;
            }
            party.barrier()?;
        }
        let errhandler = {
            let mut handlers = handlers();
            let usual = handlers.of_no_file;
            handlers.retain(usual, Kind::File)?
        };
        let state = State {
            view: Arc::new(View::of_bytes()?),
            position,
            is_atomic: false,
            sieves: false,
            hints: self.hints,
            errhandler,
            split: None,
        };
        let Opened { store, path, pointer, hosts, .. } = self;
        let store = Arc::new(store);
        Ok(File { store, party, amode, name, path, pointer, hosts, state: Mutex::new(state) })
    }
}

/// `MPI_File_close`. The handle is bad afterwards, also where what was written could not be stored.
pub(crate) fn close(fh: MPI_File) -> Result<(), Fault> {
    let file = super::get(fh)?;
    file.check_no_split()?;
    let synced = file.sync();
    if file.party.rank == 0 {
        file.pointer.remove();
    }
    let deleted = match file.amode & MPI_MODE_DELETE_ON_CLOSE {
        0 => Ok(()),
        _ => file.by_first(Ok(0), "delete", || unlink(&file.path)),
    };
    file.party.free()?;
    locked(&FILES).remove(fh, "fh")?;
    let handler = file.state().errhandler;
    handlers().release(handler)?;
    // The file is gone: an error is that of no file (MPI-5.0 §14.7).
    synced.and(deleted).map_err(|fault| fault.on(MPI_FILE_NULL))
}

/// `MPI_File_delete`
pub(crate) fn delete(name: &[u8]) -> Result<(), Fault> {
    let path = path(name)?;
    unlink(&path).map_err(|errno| errors::failed("delete", &path.to_string_lossy(), errno))
}
