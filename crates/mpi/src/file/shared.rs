//! The shared file pointer (MPI-5.0 §14.4.4): a number in a file of its own, read and changed under a lock.
//!
//! Any process may move it at any time while the others compute, so keeping it at one process would need that
//! process' help for each access. A locked file needs no process' help, and works across hosts that share the
//! file system. Where all processes are on one host, the file is memory of rank 0's that has no name and
//! leaves nothing behind; else it is a hidden file beside the opened one, made by the first access that needs
//! it and removed when the file is closed.

use super::sys::{Errno, Fd, Lock, Scratch, Way, unlink};
use crate::abi::MPI_Offset;
use crate::lock::locked;
use ayatori_core::buffer::Piece;
use std::ffi::{CStr, CString};
use std::sync::Mutex;

/// The pointer of a file, in etypes of the view.
#[derive(Debug)]
pub(crate) struct Pointer {
    place: Place,
    /// Open once it has been used.
    fd: Mutex<Option<Fd>>,
}

#[derive(Debug)]
enum Place {
    Memory,
    File(CString),
}

/// All of the file that holds it.
const ALL: (u64, u64) = (0, u64::MAX);

/// A path's folder, with its slash, and the name.
fn folder_and_name(path: &CStr) -> (&[u8], &[u8]) {
    let path = path.to_bytes();
    path.split_at(path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1))
}

/// The path of a file of that name in the folder of the file at `path`.
pub(crate) fn beside(path: &CStr, name: &[u8]) -> CString {
    CString::new([folder_and_name(path).0, name].concat()).unwrap_or_default()
}

/// A file name for the folder of the file at `path` that no other open file has.
pub(crate) fn hidden_name(path: &CStr) -> CString {
    let (_, name) = folder_and_name(path);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |since| since.as_nanos());
    let end = format!(".ayatori-pointer-{:x}-{nanos:x}", std::process::id());
    // Names have at most 255 bytes.
    let name = &name[..name.len().min(200)];
    CString::new([b".", name, end.as_bytes()].concat()).unwrap_or_default()
}

impl Pointer {
    /// In memory that is open already.
    pub(crate) fn in_memory(fd: Fd) -> Self {
        Self { place: Place::Memory, fd: Mutex::new(Some(fd)) }
    }

    /// In a file of this name.
    pub(crate) fn in_file(path: CString) -> Self {
        Self { place: Place::File(path), fd: Mutex::new(None) }
    }

    /// Runs `change` on the value with all others kept out; what the value was.
    fn update(&self, change: impl FnOnce(MPI_Offset) -> Option<MPI_Offset>) -> Result<MPI_Offset, Errno> {
        let mut fd = locked(&self.fd);
        let fd = match &mut *fd {
            Some(fd) => fd,
            none => {
                let Place::File(path) = &self.place else { return Err(Errno(libc::EBADF)) };
                none.insert(Fd::open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?)
            }
        };
        fd.lock(ALL, Lock::Exclusive)?;
        let old = Self::update_locked(fd, change);
        fd.unlock(ALL)?;
        old
    }

    fn update_locked(
        fd: &Fd,
        change: impl FnOnce(MPI_Offset) -> Option<MPI_Offset>,
    ) -> Result<MPI_Offset, Errno> {
        let mut scratch = Scratch::new(8);
        let memory = scratch.buffer();
        // Before the first change there are no bytes: 0.
        fd.transfer(Way::Read, 0, memory)?;
        let old = i64::from_le_bytes(std::array::from_fn(|i| scratch.bytes()[i]));
        if let Some(new) = change(old) {
            let memory = scratch.buffer();
            memory.scatter(0, Piece::Bytes(&new.to_le_bytes()));
            fd.transfer(Way::Write, 0, memory)?;
        }
        Ok(old)
    }

    /// Its value.
    pub(crate) fn get(&self) -> Result<MPI_Offset, Errno> {
        self.update(|_| None)
    }

    /// Moves it on; where it was.
    pub(crate) fn add(&self, etypes: MPI_Offset) -> Result<MPI_Offset, Errno> {
        self.update(|old| old.checked_add(etypes))
    }

    /// Moves it.
    pub(crate) fn set(&self, offset: MPI_Offset) -> Result<(), Errno> {
        self.update(|_| Some(offset)).map(drop)
    }

    /// Moves it to the start. Rank 0 calls this while all others wait; the file may not exist yet.
    pub(crate) fn reset(&self) -> Result<(), Errno> {
        if let (Place::File(path), None) = (&self.place, &*locked(&self.fd)) {
            match Fd::open(path, libc::O_RDWR, 0) {
                Ok(_) => {}
                Err(Errno(libc::ENOENT)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.set(0)
    }

    /// Removes its file. Rank 0 calls this after the last use.
    pub(crate) fn remove(&self) {
        if let Place::File(path) = &self.place {
            // There is none if it was never used.
            let _ = unlink(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: &Pointer, second: &Pointer) {
        assert_eq!(first.get(), Ok(0));
        assert_eq!(first.add(5), Ok(0));
        assert_eq!(second.add(7), Ok(5));
        assert_eq!(first.get(), Ok(12));
        second.reset().unwrap();
        assert_eq!(first.add(1), Ok(0));
        first.set(1 << 40).unwrap();
        assert_eq!(second.get(), Ok(1 << 40));
    }

    #[test]
    fn a_pointer_is_shared_in_memory_and_in_a_file() {
        let fd = Fd::in_memory().unwrap();
        let other = Fd::open(&fd.path(), libc::O_RDWR, 0).unwrap();
        check(&Pointer::in_memory(fd), &Pointer::in_memory(other));
        let folder = std::env::temp_dir();
        let path = CString::new(folder.join("data").into_os_string().into_encoded_bytes()).unwrap();
        let name = beside(&path, hidden_name(&path).to_bytes());
        assert!(name.to_bytes().starts_with(folder.as_os_str().as_encoded_bytes()));
        let (first, second) = (Pointer::in_file(name.clone()), Pointer::in_file(name.clone()));
        first.reset().unwrap();
        assert!(Fd::open(&name, libc::O_RDWR, 0).is_err(), "made before it was used");
        check(&first, &second);
        first.remove();
        assert!(Fd::open(&name, libc::O_RDWR, 0).is_err());
    }

    #[test]
    fn threads_that_move_it_get_each_place_once() {
        let fd = Fd::in_memory().unwrap();
        let other = Fd::open(&fd.path(), libc::O_RDWR, 0).unwrap();
        let pointers = [Pointer::in_memory(fd), Pointer::in_memory(other)];
        let mut places = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    scope.spawn({
                        let pointer = &pointers[i % 2];
                        move || (0..100).map(|_| pointer.add(3).unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        places.sort_unstable();
        assert_eq!(places, (0..400).map(|i| 3 * i).collect::<Vec<_>>());
    }
}
