//! Copies that the kernel makes between the memory of two processes.

use super::processor::Processor;
use ayatori_core::buffer::Buffer;
use std::io;
use std::sync::Mutex;

const PAGE_BYTES: usize = 4096;

/// Bytes that go through memory aside at a time: what the kernel has written of them is in a near cache.
const ASIDE_BYTES: usize = 64 << 10;

/// Memory aside, which one thread at a time uses.
static ASIDE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Copies through memory aside what the kernel copies slowly ([`Processor::is_slow_by_kernel`]): that memory
/// is at the same place in a page as the other process' is, and what is left to copy is not the kernel's. 1
/// MiB took a Zen 3 330 to 740 µs straight.
fn copy_aside(
    aside: &mut Vec<u8>,
    direction: Direction,
    pid: u32,
    local: &Buffer,
    remote: u64,
) -> io::Result<()> {
    aside.resize(ASIDE_BYTES + 2 * PAGE_BYTES, 0);
    let begin = (remote as usize).wrapping_sub(aside.as_ptr().addr()) % PAGE_BYTES;
    // SAFETY: it lives, and nobody else uses it, as long as `aside` is borrowed.
    let aside = unsafe { Buffer::from_raw_parts(aside.as_mut_ptr(), aside.len()) };
    for at in (0..local.len()).step_by(ASIDE_BYTES) {
        let part = local.part(at, ASIDE_BYTES.min(local.len() - at));
        let aside = aside.part(begin, part.len());
        let place = aside.as_ptr().map_or(0, |at| at.expose_provenance() as u64);
        if direction == Direction::Write {
            aside.copy_from(0, &part, 0, part.len());
        }
        // SAFETY: as above, and as long as that.
        unsafe { copy_by_kernel(direction, pid, place, remote.wrapping_add(at as u64), part.len())? };
        if direction == Direction::Read {
            part.copy_from(0, &aside, 0, part.len());
        }
    }
    Ok(())
}

/// Which way [`process_memory`] copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the other process to here.
    Read,
    /// From here to the other process.
    Write,
}

/// Copies between the memory of `local` and another process' at `remote`, by the kernel, in one copy. The
/// other process agreed to have its memory read or written.
///
/// # Errors
/// The system's own; `EFAULT` says that this memory cannot be copied, other errors concern the process.
pub(crate) fn process_memory(direction: Direction, pid: u32, local: &Buffer, remote: u64) -> io::Result<()> {
    let Some(at) = local.as_ptr() else { return Err(io::Error::from_raw_os_error(libc::EFAULT)) };
    let (at, len) = (at.expose_provenance() as u64, local.len());
    let [from, to] = if direction == Direction::Read { [remote, at] } else { [at, remote] };
    if len >= PAGE_BYTES
        && Processor::here().is_slow_by_kernel(from, to)
        && let Ok(mut aside) = ASIDE.try_lock()
    {
        return copy_aside(&mut aside, direction, pid, local, remote);
    }
    // SAFETY: `local` is valid for reads and, where something is received into it, for writes
    // (`Buffer::from_raw_parts`).
    unsafe { copy_by_kernel(direction, pid, at, remote, len) }
}

/// Copies this process' memory at `from` to another process' at `to`, where that one has asked for it. Both
/// addresses may be anything: the kernel checks them.
///
/// # Errors
/// As those of [`process_memory`].
pub(crate) fn write_to_process(pid: u32, from: u64, to: u64, len: usize) -> io::Result<()> {
    // SAFETY: what is written is memory of the process that has asked, as by any message; here is only read.
    unsafe { copy_by_kernel(Direction::Write, pid, from, to, len) }
}

/// # Safety
/// If it reads, `len` bytes at `local` are valid for writes. The kernel checks everything else.
unsafe fn copy_by_kernel(
    direction: Direction,
    pid: u32,
    mut local: u64,
    mut remote: u64,
    mut len: usize,
) -> io::Result<()> {
    while len > 0 {
        let at = |address: u64| libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: len };
        let (here, there) = (at(local), at(remote));
        let (here_at, there_at) = (&raw const here, &raw const there);
        // SAFETY: as the caller says.
        let done = unsafe {
            match direction {
                Direction::Read => libc::process_vm_readv(pid as i32, here_at, 1, there_at, 1, 0),
                Direction::Write => libc::process_vm_writev(pid as i32, here_at, 1, there_at, 1, 0),
            }
        };
        match done {
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            done if done > 0 => {
                local = local.saturating_add(done as u64);
                remote = remote.saturating_add(done as u64);
                len -= done as usize;
            }
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sys;
    use super::*;
    use ayatori_core::buffer::Piece;
    use std::os::fd::AsFd;

    #[test]
    fn memory_aside_moves_all_bytes_either_way() {
        let own = sys::process_id() as u32;
        let mut memory = Vec::new();
        let mut aside =
            |direction, pid, local: &Buffer, remote| copy_aside(&mut memory, direction, pid, local, remote);
        let bytes: Vec<u8> = (0..3 * ASIDE_BYTES).map(|at| (at % 251) as u8 + 1).collect();
        for len in [1, PAGE_BYTES, ASIDE_BYTES, ASIDE_BYTES + 1, 2 * ASIDE_BYTES + 77] {
            for (from, to) in [(0, 16), (100, 101), (4095, 0), (16, 0)] {
                let [source, sink] = [0, 1].map(|_| Buffer::leaked(3 * ASIDE_BYTES));
                source.scatter(0, Piece::Bytes(&bytes));
                let at = |buffer: &Buffer| buffer.as_ptr().unwrap().expose_provenance() as u64;
                let [source, sink] = [source.part(from, len), sink.part(to, len)];
                if let Err(error) = aside(Direction::Read, own, &sink, at(&source)) {
                    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
                    return eprintln!("the kernel refuses process_vm_readv here: nothing to test");
                }
                assert_eq!(sink.to_vec().unwrap(), bytes[from..from + len], "read {len} from {from} to {to}");
                sink.scatter(0, Piece::Bytes(&vec![0; len]));
                aside(Direction::Write, own, &source, at(&sink)).unwrap();
                assert_eq!(sink.to_vec().unwrap(), bytes[from..from + len], "wrote {len} to {to}");
            }
        }
        let refused = aside(Direction::Read, 1 << 30, &Buffer::leaked(8), 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn the_kernel_copies_all_or_says_why_not() {
        let own = sys::process_id() as u32;
        let file = sys::memory_file().unwrap();
        sys::set_length(&file, PAGE_BYTES).unwrap();
        // The second page lies behind the end of the file, so it cannot be read.
        let mapping = sys::PassingMapping::new(file.as_fd(), 2 * PAGE_BYTES).unwrap();
        mapping.buffer(0, PAGE_BYTES).scatter(0, Piece::Bytes(&[7; PAGE_BYTES]));
        let at = mapping.buffer(0, 1).as_ptr().unwrap().addr() as u64;
        let into = Buffer::leaked(2 * PAGE_BYTES);
        let copied = process_memory(Direction::Read, own, &into.part(0, PAGE_BYTES), at);
        assert!(copied.is_ok() && into.to_vec().unwrap()[..PAGE_BYTES] == [7; PAGE_BYTES]);
        let refused = |answer: io::Result<()>| answer.unwrap_err().raw_os_error();
        assert_eq!(refused(process_memory(Direction::Read, own, &into, at)), Some(libc::EFAULT));
        // No process has such a number.
        assert_eq!(refused(process_memory(Direction::Read, 1 << 30, &into, at)), Some(libc::ESRCH));
        assert!(process_memory(Direction::Write, 1 << 30, &into.part(0, 0), at).is_ok(), "nothing to do");
        let virtual_one = Buffer::virtual_of(8);
        assert_eq!(refused(process_memory(Direction::Read, own, &virtual_one, at)), Some(libc::EFAULT));
    }
}
