//! System calls, mapping and copying for the shared-memory device: its `unsafe`, beside that of the ring.

use super::ring::LINE_BYTES;
use ayatori_core::buffer::{self, Buffer};
use ayatori_core::wire::EAGER_HEADER_BYTES;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// A fence as `atomic::fence(SeqCst)`. The compiler's instruction for that one on x86-64, `mfence`, takes 20
/// to 40 ns; an instruction that changes memory under lock orders loads and stores just as well, and takes 5.
#[inline(always)]
pub(crate) fn full_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the word on top of the stack stays as it is.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// A shared mapping that stays for the life of the process: MPI is initialised once, and references into the
/// segment are then plain `&'static`.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length; what is behind it is reached as atomics and by the protocols of its users.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd`, shared. The file must be that long.
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps no other memory.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not answer null unless asked to");
        Ok(Self { base, len })
    }

    /// `count` things of type `T` at `offset`.
    ///
    /// # Panics
    /// If they are not inside or not aligned: a bug of the layout.
    ///
    /// # Safety
    /// Every bit pattern is a valid `T`, and `T` consists of atomics and cells only.
    pub(crate) unsafe fn slice<T>(&self, offset: usize, count: usize) -> &'static [T] {
        let bytes = count.checked_mul(size_of::<T>()).expect("layout overflows");
        assert!(offset <= self.len && bytes <= self.len - offset, "outside of the segment");
        assert!(offset.is_multiple_of(align_of::<T>()), "not aligned");
        // SAFETY: inside the mapping, which is never unmapped, and aligned; valid by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// The address of the `len` bytes at `offset`.
    ///
    /// # Panics
    /// If they are not inside.
    pub(crate) fn address(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "outside of the segment");
        // SAFETY: inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

/// A memory file without a name, close-on-exec, empty.
pub(crate) fn memory_file() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string literal.
    let fd = unsafe { libc::memfd_create(c"ayatori".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives the file its length and, if it is a memory file, forbids changing it, so that no mapping can turn
/// into `SIGBUS`. Idempotent.
pub(crate) fn set_length(fd: &OwnedFd, len: usize) -> io::Result<()> {
    let file = File::from(fd.try_clone()?);
    if file.metadata()?.len() != len as u64 {
        file.set_len(len as u64)?;
    }
    // SAFETY: integers only. Failure is harmless: an unsealed file works as well.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) };
    Ok(())
}

/// An error where the host has not so much memory, swap included, at all. A memory file has no limit: where
/// the kernel tries to reserve more than there is, it ends other processes of the host.
pub(crate) fn check_fits_host(len: usize) -> io::Result<()> {
    let info = rustix::system::sysinfo();
    match len as u64 / u64::from(info.mem_unit.max(1)) <= info.totalram + info.totalswap {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
    }
}

/// Reserves memory for `len` bytes of the file from `at` on now: `ENOSPC` here instead of `SIGBUS` later.
pub(crate) fn reserve_at(fd: BorrowedFd<'_>, at: usize, len: usize) -> io::Result<()> {
    // SAFETY: integers only.
    match unsafe { libc::posix_fallocate(fd.as_raw_fd(), at as libc::off_t, len as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Most that [`write_zeros`] writes.
pub(crate) const ZEROS_BYTES: usize = 64 << 10;

/// Writes zeros into the file from `at` on, so that its memory is there. Whether it did.
pub(crate) fn write_zeros(file: &OwnedFd, at: usize, len: usize) -> bool {
    static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];
    rustix::io::pwrite(file, &ZEROS[..len], at as u64).is_ok_and(|count| count == len)
}

/// Sleeps while `*word == expected`, at most `timeout`. Returns for any reason.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let time = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(t.subsec_nanos()),
    });
    let time_at = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` and `time` live for the call; not FUTEX_PRIVATE, the word is shared between processes.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, time_at) };
}

/// Wakes up to `count` sleepers on `word`.
pub(crate) fn futex_wake(word: &AtomicU32, count: i32) {
    // SAFETY: `word` lives for the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
}

/// For opening what must not block.
pub(crate) const NONBLOCKING: i32 = libc::O_NONBLOCK;

/// Lets another process run on this CPU.
pub(crate) fn yield_now() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

const MEMBARRIER_GLOBAL_EXPEDITED: i32 = 1 << 1;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;

/// Makes this process take part in [`membarrier`]. `false`: the kernel cannot.
pub(crate) fn membarrier_register() -> bool {
    // SAFETY: integers only.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 }
}

/// A full fence in every running thread of the registered processes.
pub(crate) fn membarrier() {
    // SAFETY: integers only.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL_EXPEDITED, 0, 0) };
}

const MEMBARRIER_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

/// Makes this process take part in [`membarrier_private`]. `false`: the kernel cannot.
pub(crate) fn membarrier_private_register() -> bool {
    // SAFETY: integers only.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 }
}

/// A full fence in every running thread of this process.
pub(crate) fn membarrier_private() {
    // SAFETY: integers only.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) };
}

/// This process' id.
pub(crate) fn process_id() -> i32 {
    // SAFETY: no arguments; cannot fail.
    unsafe { libc::getpid() }
}

/// On how many CPUs the process that started this one may run: a launcher that binds its ranks is not bound
/// itself. `None`: the system does not say.
pub(crate) fn parent_cpus_count() -> Option<u32> {
    // SAFETY: a set of CPUs is bits: all zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is as large as said and lives for the call; getppid has no arguments.
    let failed = unsafe { libc::sched_getaffinity(libc::getppid(), size_of_val(&set), &raw mut set) } < 0;
    // SAFETY: `set` is a valid set.
    (!failed).then(|| unsafe { libc::CPU_COUNT(&set) } as u32)
}

/// How many CPUs a core has: two if the system says that cores have several in use. Where it does not say,
/// one.
pub(crate) fn threads_per_core() -> u32 {
    let active = std::fs::read_to_string("/sys/devices/system/cpu/smt/active");
    if active.is_ok_and(|text| text.trim() == "1") { 2 } else { 1 }
}

/// Moves this thread to the `place`-th of `places_count` even parts of the CPUs it may use, and leaves it
/// free to be moved again. Processes that only ever yield stay where they were started for long, however
/// uneven that is.
pub(crate) fn spread(place: u32, places_count: u32) {
    // SAFETY: a set of CPUs is bits: all zero is valid.
    let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { std::mem::zeroed() };
    let bytes = size_of_val(&all);
    // SAFETY: the sets are as large as said and live for the calls; CPU numbers are below the sets' size.
    unsafe {
        if libc::sched_getaffinity(0, bytes, &raw mut all) != 0 {
            return;
        }
        let count = libc::CPU_COUNT(&all) as usize;
        let wanted = place as usize * count / places_count.max(1) as usize;
        let mut cpus = (0..8 * bytes).filter(|&cpu| libc::CPU_ISSET(cpu, &all));
        let (true, Some(cpu)) = (count > 1, cpus.nth(wanted)) else { return };
        libc::CPU_SET(cpu, &mut one);
        // Failure is harmless: the process stays where it is.
        libc::sched_setaffinity(0, bytes, &raw const one);
        libc::sched_setaffinity(0, bytes, &raw const all);
    }
}

/// `struct sched_attr` of the kernel, version 0.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks for time slices of `slice_ns` for this thread: it gets no more CPU time, but when it wakes it need
/// not wait for the end of another's longer slice (Linux 6.12; before, nothing changes).
pub(crate) fn ask_for_slices_of(slice_ns: u64) {
    let mut attributes = SchedulingAttributes::default();
    let size = size_of::<SchedulingAttributes>();
    // SAFETY: the kernel writes at most `size` bytes to `attributes`, and reads as many in the second call.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) == 0 {
            attributes.runtime_ns = slice_ns;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

/// A descriptor that becomes readable when the process ends. `None`: no such process, or no descriptors.
pub(crate) fn process_descriptor(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: integers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Which of the descriptors are readable, without waiting.
pub(crate) fn readable(fds: &[BorrowedFd<'_>]) -> Vec<bool> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: `polled` is as long as said and lives for the call.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
    polled.iter().map(|p| p.revents != 0).collect()
}

/// Copies a short slice, best up to 64 bytes: no call, few branches.
///
/// # Safety
/// `to` is valid for writes of `from.len()` bytes and does not overlap `from`.
#[inline(always)]
pub(crate) unsafe fn copy_short(from: &[u8], to: *mut u8) {
    let (len, at) = (from.len(), from.as_ptr());
    // SAFETY: every access is within `len` bytes of either side: the two (or four) blocks overlap in the
    // middle.
    unsafe {
        match len {
            0 => {}
            1..4 => {
                *to = *at;
                *to.add(len / 2) = *at.add(len / 2);
                *to.add(len - 1) = *at.add(len - 1);
            }
            4..8 => ends::<u32>(at, to, len),
            8..16 => ends::<u64>(at, to, len),
            16..=32 => {
                let words = [load_word(at), load_word(at.add(8)), load_word(at.add(len - 16))];
                to.cast::<[u64; 2]>().write_unaligned([words[0], words[1]]);
                to.add(len - 16).cast::<[u64; 2]>().write_unaligned([words[2], load_word(at.add(len - 8))]);
            }
            33..=64 => {
                ends::<u128>(at, to, 32);
                ends::<u128>(at.add(len - 32), to.add(len - 32), 32);
            }
            _ => std::ptr::copy_nonoverlapping(at, to, len),
        }
    }
}

/// Copies the parts of a short packet one after the other.
///
/// # Safety
/// `to` is valid for writes of all their bytes and overlaps none.
#[inline(always)]
pub(crate) unsafe fn copy_parts(header: &[u8], payload: [&[u8]; 2], to: *mut u8) {
    // SAFETY: by the contract above.
    unsafe {
        if header.len() == EAGER_HEADER_BYTES {
            let words = [0, 8, 16].map(|at| load_word(header.as_ptr().add(at)));
            to.cast::<[u64; 3]>().write_unaligned(words);
        } else {
            copy_short(header, to);
        }
        copy_short(payload[0], to.add(header.len()));
        if !payload[1].is_empty() {
            copy_short(payload[1], to.add(header.len() + payload[0].len()));
        }
    }
}

/// Loads a word, and no more at once, whatever is done with it: of a header that has just been stored in
/// words. A wider load would wait until these stores have left for the caches, and with them all stores made
/// before, among them those to rings, whose lines are at the other side.
///
/// # Safety
/// `at` is valid for reads of 8 bytes.
#[inline(always)]
unsafe fn load_word(at: *const u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads 8 bytes, by the contract above.
    unsafe {
        let word;
        std::arch::asm!("mov {}, qword ptr [{}]", out(reg) word, in(reg) at, options(pure, readonly, nostack, preserves_flags));
        word
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: by the contract above.
    unsafe {
        at.cast::<u64>().read_unaligned()
    }
}

/// Copies the first and the last `T` of `len` bytes.
///
/// # Safety
/// Both sides are valid for `len` ≥ `size_of::<T>()` bytes and do not overlap.
#[inline(always)]
unsafe fn ends<T: Copy>(at: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: by the contract above.
    unsafe {
        let (a, b) = (at.cast::<T>().read_unaligned(), at.add(last).cast::<T>().read_unaligned());
        to.cast::<T>().write_unaligned(a);
        to.add(last).cast::<T>().write_unaligned(b);
    }
}

/// How to copy into lines that a rank on another CPU has read, or out of those that it has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// As memory is copied.
    Plain,
    /// Long data page by page side by side ([`copy_pages`]).
    PageWise,
    /// Into lines: past the caches, without fetching what is written over ([`stream`]).
    Streaming,
    /// Out of lines: by a loop ([`buffer::copy_by_loop`]).
    InLoop,
}

/// Copies the program's data into lines that a rank on another CPU has just read.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes, and they do not overlap.
#[inline]
pub(crate) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize, manner: Manner) {
    // SAFETY: by the contract above; the parts lie one after the other.
    unsafe {
        let done = match manner {
            Manner::Plain | Manner::InLoop => 0,
            Manner::PageWise => copy_pages::<4>(from, to, len),
            Manner::Streaming => stream(from, to, len),
        };
        buffer::copy(from.add(done), to.add(done), len - done);
    }
}

/// Copies as many bytes of `len` as are whole lines, past the caches. Returns how many these are: none where
/// the processor has no such stores or `to` does not begin a line.
///
/// # Safety
/// As for [`copy_in`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) -> usize {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    if !to.addr().is_multiple_of(LINE_BYTES) {
        return 0;
    }
    let whole_bytes = len / LINE_BYTES * LINE_BYTES;
    for at in (0..whole_bytes).step_by(LINE_BYTES) {
        for part in (at..at + LINE_BYTES).step_by(size_of::<__m128i>()) {
            // SAFETY: within `whole_bytes`, by the contract above; aligned, as `to` begins a line.
            unsafe { _mm_stream_si128(to.add(part).cast(), _mm_loadu_si128(from.add(part).cast())) };
        }
    }
    // SAFETY: every x86-64 has it. Such stores may be seen after later ones, and so after the word that says
    // that the data are there.
    unsafe { _mm_sfence() };
    whole_bytes
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(_from: *const u8, _to: *mut u8, _len: usize) -> usize {
    0
}

/// Copies what a rank on another CPU has just written into a buffer that is as long, in the same way. More
/// pages at a time than in [`copy_in`]: here all that is read is in the other CPU's cache.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn copy_out(piece: &[u8], into: &Buffer, manner: Manner) {
    let len = piece.len();
    assert_eq!(len, into.len(), "a piece and its place");
    let (from, Some(to)) = (piece.as_ptr(), into.as_ptr()) else { return };
    // SAFETY: as long (asserted), readable, and valid for writes (`Buffer::from_raw_parts`). The segment is
    // mapped by this library, which gives its memory to no program as a buffer.
    unsafe {
        let mut done = 0;
        match manner {
            Manner::PageWise => {
                done += copy_pages::<8>(from, to, len);
                done += copy_pages::<4>(from.add(done), to.add(done), len - done);
            }
            Manner::InLoop => return buffer::copy_by_loop(from, to, len),
            Manner::Plain | Manner::Streaming => {}
        }
        buffer::copy(from.add(done), to.add(done), len - done);
    }
}

/// Bytes of a page, and what is copied of one before the next one's turn: a cache line.
const PAGE_BYTES: usize = 4096;
const TURN_BYTES: usize = 64;

/// Copies as many bytes of `len` as fill blocks of `COUNT` pages, a line of each page in turn. Returns how
/// many these are.
///
/// Prefetchers follow a stream to the end of its page and no further. Several pages side by side are as many
/// streams, so that more lines are under way from the other CPU's cache at a time. Within a CPU's own caches
/// that gains nothing; where two CPUs are of one core they share its first cache, in which the lines of all
/// these pages have the same few places, and it takes twice as long.
///
/// # Safety
/// As for [`copy_in`].
#[inline(never)]
unsafe fn copy_pages<const COUNT: usize>(from: *const u8, to: *mut u8, len: usize) -> usize {
    type Line = [u128; TURN_BYTES / size_of::<u128>()];
    let block_bytes = COUNT * PAGE_BYTES;
    let whole_bytes = len / block_bytes * block_bytes;
    for block in (0..whole_bytes).step_by(block_bytes) {
        for turn in (block..block + PAGE_BYTES).step_by(TURN_BYTES) {
            for page in 0..COUNT {
                let at = turn + page * PAGE_BYTES;
                // SAFETY: within `whole_bytes`, by the contract above.
                unsafe {
                    let line = from.add(at).cast::<Line>().read_unaligned();
                    to.add(at).cast::<Line>().write_unaligned(line);
                }
            }
        }
    }
    whole_bytes
}

/// Has the system map the page of `at`, and those around it whose memory is there.
pub(crate) fn map_in<T>(at: &T) {
    // SAFETY: a byte of a value that lives; what it is does not matter, and nobody writes there yet.
    unsafe { std::ptr::from_ref(at).cast::<u8>().read_volatile() };
}

/// Has the system map the pages of these values for reading, all at once. Where it cannot (before Linux
/// 5.14), they are mapped when they are read.
pub(crate) fn map_for_reading<T>(values: &[T]) {
    let at = values.as_ptr().cast_mut();
    let begin = at.map_addr(|at| at / PAGE_BYTES * PAGE_BYTES);
    let len = at.addr() - begin.addr() + size_of_val(values);
    // SAFETY: changes no memory. A range that is not mapped is refused.
    unsafe { libc::madvise(begin.cast(), len, libc::MADV_POPULATE_READ) };
}

/// Asks for the line at `at` to be brought here for writing. Any address will do: nothing is accessed.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint without effect on memory; processors without it treat it as a no-op.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// As [`prefetch_for_write`], for reading.
#[inline(always)]
pub(crate) fn prefetch<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint without effect on memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch(std::ptr::from_ref(at).cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// A shared mapping that ends with the value, for memory that comes and goes while MPI runs.
pub(crate) struct PassingMapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length; what is behind it is reached through buffers, whose users promise what
// they need.
unsafe impl Send for PassingMapping {}
// SAFETY: as above.
unsafe impl Sync for PassingMapping {}

impl PassingMapping {
    /// Maps the first `len` bytes of `fd`, shared; not 0. The file must be that long.
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let Mapping { base, len } = Mapping::new(fd, len)?;
        Ok(Self { base, len })
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// If it is not inside or not aligned.
    #[inline(always)]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(align_of::<AtomicU32>()), "not aligned");
        assert!(offset < self.len && size_of::<AtomicU32>() <= self.len - offset, "outside of the mapping");
        // SAFETY: inside the mapping, which lives as long as the value, and aligned; any bits are a word.
        unsafe { self.base.add(offset).cast().as_ref() }
    }

    /// The long word at `offset`.
    ///
    /// # Panics
    /// If it is not inside or not aligned.
    #[inline(always)]
    pub(crate) fn long_word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(align_of::<AtomicU64>()), "not aligned");
        assert!(offset < self.len && size_of::<AtomicU64>() <= self.len - offset, "outside of the mapping");
        // SAFETY: as for `word`.
        unsafe { self.base.add(offset).cast().as_ref() }
    }

    /// Where a buffer begins, if it lies inside.
    pub(crate) fn offset_of(&self, buffer: &Buffer) -> Option<usize> {
        let at = buffer.as_ptr()?.addr().checked_sub(self.base.addr().get())?;
        (at <= self.len && buffer.len() <= self.len - at).then_some(at)
    }

    /// The `len` bytes at `offset`, while the value lives.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline]
    pub(crate) fn buffer(&self, offset: usize, len: usize) -> Buffer {
        assert!(offset <= self.len && len <= self.len - offset, "outside of the mapping");
        // SAFETY: inside the mapping. Its users (windows) end every access before the value goes, and order
        // accesses of several processes by the synchronization of MPI-5.0 §12.
        unsafe { Buffer::from_raw_parts(self.base.as_ptr().add(offset), len) }
    }
}

impl Drop for PassingMapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which is no longer in use (see `buffer`).
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn memory_that_the_host_does_not_have_is_refused() {
        let of_host = std::fs::read_to_string("/proc/meminfo").expect("Linux");
        let kib = |key: &str| -> usize {
            let line = of_host.lines().find_map(|line| line.strip_prefix(key)).expect("it is said");
            line.trim_end_matches("kB").trim().parse().expect("a number")
        };
        let has_bytes = (kib("MemTotal:") + kib("SwapTotal:")) << 10;
        assert!(check_fits_host(has_bytes).is_ok() && check_fits_host(has_bytes + PAGE_BYTES).is_err());
    }

    #[test]
    fn long_copies_move_each_byte_to_its_place_and_no_other() {
        let pages = |count: usize| count * PAGE_BYTES;
        for len in [0, 63, pages(4) - 1, pages(4), pages(7) + 65, pages(8), pages(12) + 1, pages(20) + 100] {
            for manner in [Manner::Plain, Manner::PageWise, Manner::Streaming, Manner::InLoop] {
                // From the beginning of a line, and from another place.
                for at in [LINE_BYTES, 1] {
                    let from: Vec<u8> = (0..len).map(|at| (at / 61 % 251) as u8 + 1).collect();
                    let mut memory = vec![0; len + 3 * LINE_BYTES];
                    let at = memory.as_ptr().align_offset(LINE_BYTES) + at;
                    let mut out = vec![0; len + 2];
                    // SAFETY: within `memory`, which nothing else uses.
                    unsafe { copy_in(from.as_ptr(), memory.as_mut_ptr().add(at), len, manner) };
                    assert!(memory[..at].iter().chain(&memory[at + len..]).all(|&byte| byte == 0));
                    // SAFETY: `len` bytes from 1 on are within `out`, which nothing else uses.
                    let into = unsafe { Buffer::from_raw_parts(out.as_mut_ptr().add(1), len) };
                    copy_out(&memory[at..at + len], &into, manner);
                    let whole = [&[0], &from[..], &[0]].concat();
                    assert!(memory[at..at + len] == from && out == whole, "{len} bytes, {manner:?}");
                }
            }
        }
    }

    #[test]
    fn more_memory_than_the_host_has_is_not_reserved() {
        let fits = |len| check_fits_host(len).is_ok();
        assert!(fits(0) && fits(PAGE_BYTES) && !fits(usize::MAX) && !fits(1 << 60));
    }

    #[test]
    fn a_buffer_lies_in_a_mapping_or_does_not() {
        let file = memory_file().unwrap();
        set_length(&file, PAGE_BYTES).unwrap();
        let mapping = PassingMapping::new(file.as_fd(), PAGE_BYTES).unwrap();
        let inside = [(0, PAGE_BYTES), (0, 1), (PAGE_BYTES - 1, 1), (PAGE_BYTES, 0)];
        for (offset, len) in inside {
            assert_eq!(mapping.offset_of(&mapping.buffer(offset, len)), Some(offset));
        }
        let base = mapping.base.addr().get();
        for (at, len) in [(base - 1, 1), (base, PAGE_BYTES + 1), (base + PAGE_BYTES, 1), (base + 9_000, 0)] {
            // SAFETY: nothing is read or written through it.
            let other = unsafe { Buffer::from_raw_parts(std::ptr::without_provenance_mut(at), len) };
            assert_eq!(mapping.offset_of(&other), None);
        }
    }

    #[test]
    fn a_segment_keeps_its_length() {
        let file = memory_file().unwrap();
        set_length(&file, 2 * PAGE_BYTES).unwrap();
        set_length(&file, 2 * PAGE_BYTES).unwrap();
        for other in [PAGE_BYTES, 3 * PAGE_BYTES] {
            let error = set_length(&file, other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_thread_that_was_spread_may_run_where_it_might_before() {
        let allowed = || {
            // SAFETY: a set of CPUs is bits: all zero is valid.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: `set` is as large as said and lives for the call.
            let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0;
            assert!(!failed);
            // SAFETY: CPU numbers are below the set's size.
            (0..8 * size_of_val(&set))
                .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
                .collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = allowed();
                for (place, places_count) in [(0, 1), (0, 3), (2, 3), (999, 1000), (0, 0)] {
                    spread(place, places_count);
                    assert_eq!(allowed(), before, "{place} of {places_count}");
                }
            });
        });
    }

    #[test]
    fn the_process_that_started_this_one_has_cpus() {
        assert!(parent_cpus_count().is_some_and(|count| count > 0));
    }

    #[test]
    fn a_process_is_fenced_where_the_kernel_says_that_it_can() {
        // SAFETY: integers only.
        let commands = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
        let can = commands > 0 && commands & i64::from(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED) != 0;
        assert_eq!(membarrier_private_register(), can);
        membarrier_private();
    }
}
