//! System calls on files. An error is the operating system's number.

use ayatori_core::buffer::Buffer;
use std::ffi::{CStr, CString, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An error number of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    /// The number of the call that has just failed.
    fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Pieces of memory that one call moves at most (`IOV_MAX` of Linux).
const PIECES_MAX: usize = 1024;
/// Bytes that one call moves at most: Linux moves no more than 2 GiB less a page.
const BYTES_MAX: usize = 1 << 30;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the file into memory.
    Read,
    /// From memory into the file.
    Write,
}

/// What a lock of a range excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Exclusive locks.
    Shared,
    /// All locks.
    Exclusive,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Fd(OwnedFd);

/// Repeats a call that a signal has interrupted.
fn retried(mut call: impl FnMut() -> isize) -> Result<usize, Errno> {
    loop {
        match usize::try_from(call()) {
            Ok(done) => return Ok(done),
            Err(_) => match Errno::last() {
                Errno(libc::EINTR) => {}
                error => return Err(error),
            },
        }
    }
}

fn done(result: c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// An offset as the system takes it.
fn offset(at: u64) -> Result<i64, Errno> {
    i64::try_from(at).map_err(|_| Errno(libc::EFBIG))
}

/// Removes a file.
pub(crate) fn unlink(path: &CStr) -> Result<(), Errno> {
    // SAFETY: a string with its end.
    done(unsafe { libc::unlink(path.as_ptr()) })
}

impl Fd {
    /// Opens a file; `flags` as of `open(2)`.
    pub(crate) fn open(path: &CStr, flags: c_int, permissions: u32) -> Result<Self, Errno> {
        // SAFETY: a string with its end, and the third argument that O_CREAT asks for.
        let fd = retried(|| unsafe {
            libc::open(path.as_ptr(), flags | libc::O_CLOEXEC | libc::O_NOCTTY, permissions) as isize
        })?;
        // SAFETY: just opened, and without another owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as c_int) }))
    }

    /// Memory that can be opened by [`path`](Self::path) as long as this is open.
    pub(crate) fn in_memory() -> Result<Self, Errno> {
        // SAFETY: a string with its end.
        let fd = retried(|| unsafe {
            libc::memfd_create(c"ayatori-file-pointer".as_ptr(), libc::MFD_CLOEXEC) as isize
        })?;
        // SAFETY: just opened, and without another owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as c_int) }))
    }

    /// By which processes of this user on this host can open the same file.
    pub(crate) fn path(&self) -> CString {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        CString::new(path).unwrap_or_default()
    }

    fn status(&self) -> Result<libc::stat, Errno> {
        let mut status = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: room for the answer.
        done(unsafe { libc::fstat(self.0.as_raw_fd(), status.as_mut_ptr()) })?;
        // SAFETY: the call has succeeded and filled it.
        Ok(unsafe { status.assume_init() })
    }

    /// Length in bytes.
    pub(crate) fn size(&self) -> Result<u64, Errno> {
        Ok(self.status()?.st_size as u64)
    }

    /// Whether it is a directory, which reads open and nothing reads.
    pub(crate) fn is_directory(&self) -> Result<bool, Errno> {
        Ok(self.status()?.st_mode & libc::S_IFMT == libc::S_IFDIR)
    }

    /// Sets the file's length to `bytes`: cuts it, or adds zeros.
    pub(crate) fn set_size(&self, bytes: u64) -> Result<(), Errno> {
        let bytes = offset(bytes)?;
        // SAFETY: no memory is involved.
        retried(|| unsafe { libc::ftruncate(self.0.as_raw_fd(), bytes) as isize }).map(drop)
    }

    /// Reserves `bytes` on the storage device; the file is at least that long then.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<(), Errno> {
        let bytes = offset(bytes)?;
        loop {
            // SAFETY: no memory is involved.
            match unsafe { libc::posix_fallocate(self.0.as_raw_fd(), 0, bytes) } {
                0 => return Ok(()),
                libc::EINTR => {}
                error => return Err(Errno(error)),
            }
        }
    }

    /// Has what was written stored.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // SAFETY: no memory is involved.
        match retried(|| unsafe { libc::fsync(self.0.as_raw_fd()) as isize }) {
            // Pipes and the like have nothing to store.
            Err(Errno(libc::EINVAL | libc::EROFS)) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Locks a range, waiting for others to unlock it. The lock belongs to this open file, whatever thread
    /// calls.
    pub(crate) fn lock(&self, (from, to): (u64, u64), lock: Lock) -> Result<(), Errno> {
        let kind = if lock == Lock::Shared { libc::F_RDLCK } else { libc::F_WRLCK };
        self.set_lock((from, to), kind)
    }

    /// Unlocks a range.
    pub(crate) fn unlock(&self, range: (u64, u64)) -> Result<(), Errno> {
        self.set_lock(range, libc::F_UNLCK)
    }

    fn set_lock(&self, (from, to): (u64, u64), kind: c_int) -> Result<(), Errno> {
        // SAFETY: a structure of numbers.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = kind as libc::c_short;
        range.l_whence = libc::SEEK_SET as libc::c_short;
        range.l_start = offset(from)?;
        // 0 is to the end of all offsets.
        range.l_len = if to == u64::MAX { 0 } else { offset(to.saturating_sub(from))?.max(1) };
        // SAFETY: the structure that this command takes.
        retried(|| unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_SETLKW, &range) as isize }).map(drop)
    }

    /// Moves bytes between the file from `at` on and memory. Fewer than the memory has: the file has ended.
    pub(crate) fn transfer(&self, way: Way, at: u64, memory: Buffer) -> Result<usize, Errno> {
        self.transfer_pieces(way, at, &mut std::iter::once(memory))
    }

    /// As [`transfer`](Self::transfer), for memory in several pieces.
    pub(crate) fn transfer_pieces(
        &self,
        way: Way,
        at: u64,
        memory: &mut dyn Iterator<Item = Buffer>,
    ) -> Result<usize, Errno> {
        let mut list: Vec<libc::iovec> = Vec::new();
        let mut total = 0;
        loop {
            while list.len() < PIECES_MAX
                && let Some(piece) = memory.next()
            {
                if let Some(base) = piece.as_ptr()
                    && !piece.is_empty()
                {
                    list.push(libc::iovec { iov_base: base.cast(), iov_len: piece.len() });
                }
            }
            if list.is_empty() {
                return Ok(total);
            }
            let moved = self.transfer_list(way, offset(at + total as u64)?, &list)?;
            total += moved;
            if moved == 0 {
                return if way == Way::Read { Ok(total) } else { Err(Errno(libc::EIO)) };
            }
            skip(&mut list, moved);
        }
    }

    /// One call.
    fn transfer_list(&self, way: Way, at: i64, list: &[libc::iovec]) -> Result<usize, Errno> {
        let (fd, first) = (self.0.as_raw_fd(), list[0]);
        let count = list.len() as c_int;
        // SAFETY: the pieces are buffers of a call under way: valid for reads and, of one that reads the
        // file, for writes (`Buffer::from_raw_parts`); nothing else is passed.
        retried(|| unsafe {
            match (way, list.len()) {
                (Way::Read, 1) => libc::pread(fd, first.iov_base, first.iov_len.min(BYTES_MAX), at),
                (Way::Write, 1) => libc::pwrite(fd, first.iov_base, first.iov_len.min(BYTES_MAX), at),
                (Way::Read, _) => libc::preadv(fd, list.as_ptr(), count, at),
                (Way::Write, _) => libc::pwritev(fd, list.as_ptr(), count, at),
            }
        })
    }
}

/// Takes bytes from the front of a list.
fn skip(list: &mut Vec<libc::iovec>, mut bytes: usize) {
    let whole = list.iter().take_while(|piece| {
        let is_whole = bytes >= piece.iov_len;
        if is_whole {
            bytes -= piece.iov_len;
        }
        is_whole
    });
    let whole = whole.count();
    list.drain(..whole);
    if let Some(first) = list.first_mut() {
        first.iov_base = first.iov_base.wrapping_byte_add(bytes);
        first.iov_len -= bytes;
    }
}

/// Memory of ours that data goes through.
#[derive(Default)]
pub(crate) struct Scratch {
    memory: Vec<u8>,
    /// How much of it is in use, from the start.
    len: usize,
}

impl Scratch {
    /// Zeros.
    pub(crate) fn new(bytes: usize) -> Self {
        Self::of(vec![0; bytes])
    }

    /// These bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len(), memory: bytes }
    }

    /// Sets its length; its bytes are then unspecified. No buffer that it gave is in use.
    pub(crate) fn resize(&mut self, bytes: usize) {
        if self.memory.len() < bytes {
            self.memory = vec![0; bytes];
        }
        self.len = bytes;
    }

    /// Its bytes. The result of [`buffer`](Self::buffer) may be used again afterwards.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// The memory, for as long as this lives and is not made longer.
    pub(crate) fn buffer(&mut self) -> Buffer {
        // SAFETY: the vector stays where it is until `resize`, and its owner keeps it while the buffer is in
        // use.
        unsafe { Buffer::from_raw_parts(self.memory.as_mut_ptr(), self.len) }
    }
}

/// A value handed to another thread with the memory that it uses.
pub(crate) struct Handed<T>(pub(crate) T);

// SAFETY: only this chapter makes one, of an access to a file whose addresses no other code uses until it is
// over: the call that hands it over does not access them again, and the program may not touch them (MPI-5.0
// §14.4.2).
unsafe impl<T> Send for Handed<T> {}

impl<T> Handed<T> {
    /// The value handed over. A method, so that a closure captures all of it and not the field.
    pub(crate) fn take(self) -> T {
        self.0
    }
}
