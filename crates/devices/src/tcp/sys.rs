//! The system calls of the TCP device that rustix does not have, and an instruction: its `unsafe`.

use super::connection::Connection;
use super::inflow::Read;
use super::interfaces::Address;
use ayatori_core::buffer::Buffer;
use ayatori_core::device::Fetched;
use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// What has come of the packet at the front of a connection goes to its place.
pub(super) fn fetch_into(connection: &mut Connection, into: &Buffer) -> (Fetched, Read) {
    // SAFETY: the core lends us the memory for the length of `Device::fetch`, in which we are; a connection holds no
    // buffers, so nobody uses this memory otherwise until it is read into.
    let fetched = unsafe { into.with_bytes_mut(|into| connection.fetch(into)) };
    fetched.expect("virtual payload on a real device")
}

/// CRC32C by the processor's instruction for it; `None`: it has none, or we do not know it.
#[inline(always)]
pub(super) fn sum_by_instruction(bytes: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what the function needs.
        return Some(unsafe { sum_by_sse(bytes) });
    }
    let _ = bytes;
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn sum_by_sse(bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let sum =
        words.iter().fold(u64::from(u32::MAX), |sum, word| _mm_crc32_u64(sum, u64::from_le_bytes(*word)));
    let (halves, rest) = rest.as_chunks::<4>();
    let sum = halves.iter().fold(sum as u32, |sum, half| _mm_crc32_u32(sum, u32::from_le_bytes(*half)));
    !rest.iter().fold(sum, |sum, &byte| _mm_crc32_u8(sum, byte))
}

/// One line of the kernel's list: an interface, and one of its addresses if the line is about an IP address.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) is_up: bool,
    pub(super) is_running: bool,
    pub(super) is_loopback: bool,
    pub(super) address: Option<Address>,
}

/// All interfaces of this network namespace with their addresses.
///
/// # Errors
/// The system's own.
pub(super) fn entries() -> io::Result<Vec<Entry>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is where getifaddrs puts the address of a list that it allocates.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut entries = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an element of the list, which is freed below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: the kernel's names end with a zero byte; the list is alive.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: a C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
        // SAFETY: null or the address of a socket address of the family that it names, with its mask beside it.
        let address = unsafe { ip_address(entry.ifa_addr) }.map(|ip| Address {
            ip,
            // SAFETY: as above.
            prefix_bits: unsafe { ip_address(entry.ifa_netmask) }.map_or(0, mask_bits),
        });
        entries.push(Entry {
            name: name.to_string_lossy().into_owned(),
            index,
            is_up: has(libc::IFF_UP),
            is_running: has(libc::IFF_RUNNING),
            is_loopback: has(libc::IFF_LOOPBACK),
            address,
        });
    }
    // SAFETY: what getifaddrs gave, once; nothing borrowed from it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(entries)
}

/// # Safety
/// `address` is null or points to a socket address of the family that it names.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: by its family.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: by its family.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn mask_bits(mask: IpAddr) -> u8 {
    match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones() as u8,
        IpAddr::V6(mask) => mask.to_bits().leading_ones() as u8,
    }
}

fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes at `value`, which lives for the call; `T` is an integer here.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Ties the socket to an interface, so that what it sends leaves there whatever the routes say.
///
/// # Errors
/// An old kernel without the privilege.
pub(super) fn bind_to_interface(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    /// Not in libc for every target: `SO_BINDTOIFINDEX`, Linux 5.1.
    const SO_BINDTOIFINDEX: libc::c_int = 62;
    let index = libc::c_int::try_from(index).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    set_option(socket, libc::SOL_SOCKET, SO_BINDTOIFINDEX, &index)
}

/// How much the socket takes beyond what is on its way, in bytes.
pub(super) fn set_unsent_max(socket: BorrowedFd<'_>, bytes: u32) {
    // A hint: an old kernel takes more.
    let _ = set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes);
}

/// How soon what was lost at the end of a burst is sent again, at the soonest, in microseconds.
pub(super) fn set_resend_after_min(socket: BorrowedFd<'_>, us: u32) {
    /// Not in libc yet: `TCP_RTO_MIN_US`, Linux 6.15; older kernels keep to 200 ms.
    const TCP_RTO_MIN_US: libc::c_int = 45;
    let _ = set_option(socket, libc::IPPROTO_TCP, TCP_RTO_MIN_US, &us);
}

/// Limits the rate in bytes a second; `u64::MAX` lifts the limit.
pub(super) fn set_pacing_rate(socket: BorrowedFd<'_>, bytes_per_s: u64) {
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s);
}

/// What the kernel knows about the far end of a connection.
pub(super) struct FarEnd {
    /// Segments sent and not acknowledged.
    pub(super) unacknowledged_count: u32,
    /// Time since the last acknowledgement, in milliseconds.
    pub(super) silent_ms: u32,
}

/// What the kernel knows about the far end.
pub(super) fn far_end(socket: BorrowedFd<'_>) -> Option<FarEnd> {
    // SAFETY: `tcp_info` is integers: zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (answer == 0)
        .then_some(FarEnd { unacknowledged_count: info.tcpi_unacked, silent_ms: info.tcpi_last_ack_recv })
}

/// Runs `start` with every signal blocked in this thread, so that a thread started in it never runs a handler of the
/// program's.
pub(crate) fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: a signal set is plain memory, which sigfillset and pthread_sigmask write.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both sets live for the calls.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let result = start();
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

/// System calls of a turn made together, by io_uring: what several connections have to send, a read, and a poll that goes on.
///
/// Sends and reads do not wait, so each is over when the call that submits them returns: no memory is the kernel's in between.
pub(super) struct Ring {
    ring: IoUring,
    /// The watched descriptor is being polled.
    is_watching: bool,
    /// It was found ready since this was last asked.
    has_news: bool,
}

/// Entries of the submission queue.
const RING_ENTRIES: u32 = 64;
/// So often in a row the kernel may have no room for a turn.
const REFUSALS_MAX: u32 = 1_000;
/// What an entry is, in the upper half of its mark; the connection's index is in the lower half.
const MARK_WATCH: u64 = 1 << 32;
const MARK_SEND: u64 = 2 << 32;
const MARK_READ: u64 = 3 << 32;

/// What is under way in a turn.
struct Turn {
    left_count: usize,
    room_bytes: usize,
    read: Option<Read>,
}

impl Ring {
    /// A ring, if the kernel has what it needs and lets this process have it.
    ///
    /// # Errors
    /// The system's own: an old kernel, `kernel.io_uring_disabled`, a container that forbids it.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(RING_ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Send::CODE, opcode::Recv::CODE, opcode::PollAdd::CODE];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        Ok(Self { ring, is_watching: false, has_news: false })
    }

    /// There may be news that the ring has not heard of: a thread that sleeps at the descriptor wakes before the one that has the
    /// poll has noted what it came to.
    pub(super) fn suppose_news(&mut self) {
        self.has_news = true;
    }

    /// Whether the watched descriptor has become ready; without a system call.
    pub(super) fn take_news(&mut self) -> bool {
        for entry in self.ring.completion() {
            debug_assert_eq!(entry.user_data(), MARK_WATCH, "the rest is over when a turn is");
            (self.is_watching, self.has_news) = (false, true);
        }
        // Who is not watching knows nothing.
        std::mem::take(&mut self.has_news) || !self.is_watching
    }

    /// Sends what the `dirty` connections hold, reads `reading` once, and has `watched` watched, in one system call. What was
    /// read, if anything was to be.
    ///
    /// # Errors
    /// The system's own. The ring is not to be used any more then.
    pub(super) fn turn(
        &mut self,
        connections: &mut [Option<Connection>],
        dirty: &[u32],
        reading: Option<u32>,
        watched: BorrowedFd<'_>,
    ) -> io::Result<Option<Read>> {
        let mut turn = Turn { left_count: 0, room_bytes: 0, read: None };
        for &index in dirty {
            let Some(Some(connection)) = connections.get_mut(index as usize) else { continue };
            let (fd, held) = (types::Fd(connection.socket.as_raw_fd()), connection.take_held());
            if held.is_empty() {
                continue;
            }
            let length = u32::try_from(held.len()).unwrap_or(u32::MAX);
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            let send = opcode::Send::new(fd, held.as_ptr(), length).flags(flags).build();
            // SAFETY: the bytes belong to a connection that we have to ourselves until this method ends, and nothing changes them
            // until the entry's outcome is noted: each entry is over then.
            unsafe { self.submit(send.user_data(MARK_SEND | u64::from(index)), connections, &mut turn)? };
            turn.left_count += 1;
        }
        if let Some(index) = reading
            && let Some(Some(connection)) = connections.get_mut(index as usize)
        {
            let fd = types::Fd(connection.socket.as_raw_fd());
            let room = connection.room();
            turn.room_bytes = room.len();
            let length = u32::try_from(room.len()).unwrap_or(u32::MAX);
            let read = opcode::Recv::new(fd, room.as_mut_ptr(), length).flags(libc::MSG_DONTWAIT).build();
            // SAFETY: as above: nobody looks at the room until the outcome is noted.
            unsafe { self.submit(read.user_data(MARK_READ | u64::from(index)), connections, &mut turn)? };
            turn.left_count += 1;
        }
        if !self.is_watching {
            let poll = opcode::PollAdd::new(types::Fd(watched.as_raw_fd()), libc::POLLIN as u32).build();
            // SAFETY: it has no memory.
            unsafe { self.submit(poll.user_data(MARK_WATCH), connections, &mut turn)? };
            self.is_watching = true;
        }
        self.finish(connections, &mut turn)?;
        Ok(turn.read)
    }

    /// Queues an entry, behind what there is room for.
    ///
    /// # Safety
    /// Its memory stays what it is until its outcome has been noted, or for good where this fails.
    unsafe fn submit(
        &mut self,
        entry: io_uring::squeue::Entry,
        connections: &mut [Option<Connection>],
        turn: &mut Turn,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.finish(connections, turn)?;
            // SAFETY: the caller's promise.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        }
        Ok(())
    }

    /// Has everything done that is queued, and notes what came of it, until nothing is left.
    fn finish(&mut self, connections: &mut [Option<Connection>], turn: &mut Turn) -> io::Result<()> {
        let mut refusals_left = REFUSALS_MAX;
        loop {
            let is_queued = !self.ring.submission().is_empty();
            if !is_queued && turn.left_count == 0 {
                return Ok(());
            }
            match self.ring.submit_and_wait(usize::from(!is_queued)) {
                Ok(_) => {}
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
                        && refusals_left > 0 =>
                {
                    refusals_left -= 1
                }
                Err(error) => return Err(error),
            }
            self.note(connections, turn);
        }
    }

    fn note(&mut self, connections: &mut [Option<Connection>], turn: &mut Turn) {
        for entry in self.ring.completion() {
            let (mark, outcome) = (entry.user_data(), entry.result());
            let outcome = usize::try_from(outcome).map_err(|_| Errno::from_raw_os_error(-outcome));
            if mark == MARK_WATCH {
                (self.is_watching, self.has_news) = (false, true);
                continue;
            }
            turn.left_count = turn.left_count.saturating_sub(1);
            let Some(Some(connection)) = connections.get_mut((mark & u64::from(u32::MAX)) as usize) else {
                continue;
            };
            if mark & MARK_READ == MARK_READ {
                turn.read = Some(connection.came(outcome, turn.room_bytes));
            } else {
                connection.sent(outcome);
            }
        }
    }
}
