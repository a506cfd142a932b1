//! The system calls of the TCP device that rustix does not have: its `unsafe`.

use ayatori_core::buffer::Buffer;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads into the memory that the core lends: for `Device::fetch` only, which is called with it.
pub(super) fn fetch_into<R>(into: &Buffer, read: impl FnOnce(&mut [u8]) -> R) -> R {
    // SAFETY: the core lends us the memory for the length of `Device::fetch`, in which we are; a device holds
    // no buffers, so no other code uses this memory until it is read into.
    let fetched = unsafe { into.with_bytes_mut(read) };
    fetched.expect("virtual payload on a real device")
}

/// One line of the kernel's list: an interface, and one of its addresses if the line is about an IP address.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) is_up: bool,
    pub(super) is_running: bool,
    pub(super) is_loopback: bool,
    /// The address, and how many leading bits name its network.
    pub(super) address: Option<(IpAddr, u8)>,
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
        // SAFETY: null or the address of a socket address of the family that it names, with its mask beside
        // it.
        let address = unsafe { ip_address(entry.ifa_addr) }.map(|ip| {
            // SAFETY: as above.
            (ip, unsafe { ip_address(entry.ifa_netmask) }.map_or(0, mask_bits))
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
    // SAFETY: the kernel reads `size_of::<T>()` bytes at `value`, which lives for the call; `T` is an integer
    // here.
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

/// Not in libc for every target: Linux 5.1.
const SO_BINDTOIFINDEX: libc::c_int = 62;

/// Binds the socket to an interface, so that its packets leave there independent of the routes.
///
/// # Errors
/// An old kernel without the privilege.
pub(super) fn bind_to_interface(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let index = libc::c_int::try_from(index).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    set_option(socket, libc::SOL_SOCKET, SO_BINDTOIFINDEX, &index)
}

/// The index of the interface that the socket is bound to; 0: to none.
#[cfg(test)]
pub(super) fn bound_interface(socket: BorrowedFd<'_>) -> u32 {
    let mut index: libc::c_int = 0;
    let mut length = size_of_val(&index) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `index`.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_BINDTOIFINDEX,
            (&raw mut index).cast(),
            &raw mut length,
        )
    };
    assert_eq!(answer, 0, "the kernel says it");
    index as u32
}

/// Sets the bytes that the socket takes beyond those in flight.
pub(super) fn set_unsent_max(socket: BorrowedFd<'_>, bytes: u32) {
    // A hint: an old kernel takes more.
    let _ = set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes);
}

/// Sets the least time until data lost at the end of a burst is sent again, in microseconds.
pub(super) fn set_resend_after_min(socket: BorrowedFd<'_>, us: u32) {
    /// Not in libc yet: `TCP_RTO_MIN_US`, Linux 6.15; older kernels keep to 200 ms.
    const TCP_RTO_MIN_US: libc::c_int = 45;
    let _ = set_option(socket, libc::IPPROTO_TCP, TCP_RTO_MIN_US, &us);
}

/// Limits the rate in bytes a second; `u64::MAX` lifts the limit.
pub(super) fn set_pacing_rate(socket: BorrowedFd<'_>, bytes_per_s: u64) {
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s);
}

/// The limit of the rate in bytes a second.
#[cfg(test)]
pub(super) fn pacing_rate(socket: BorrowedFd<'_>) -> u64 {
    let mut rate = 0_u64;
    let mut length = size_of_val(&rate) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    // SAFETY: the kernel writes at most `length` bytes to `rate`.
    let answer = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut rate).cast(), &raw mut length)
    };
    assert_eq!(answer, 0, "the kernel says the rate");
    rate
}

/// The kernel's knowledge of the far end of a connection.
pub(super) struct FarEnd {
    /// Segments sent and not acknowledged.
    pub(super) unacknowledged_count: u32,
    /// Time since the last acknowledgement, in milliseconds.
    pub(super) silent_ms: u32,
}

/// The kernel's knowledge of the far end.
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

/// Runs `start` with every signal blocked in this thread, so that a thread started in it never runs a handler
/// of the program's.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_listed_as_the_system_shows_them() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { ip_address(std::ptr::null()) }, None);
        let all = entries().unwrap();
        let loopback = (IpAddr::from(Ipv4Addr::LOCALHOST), 8);
        assert!(all.iter().any(|one| one.is_loopback && one.address == Some(loopback)));
        for one in &all {
            // Labelled addresses (`eth0:vip`) have no folder.
            let flags = std::fs::read_to_string(format!("/sys/class/net/{}/flags", one.name));
            let Ok(flags) = flags.as_deref().map(|text| text.trim().trim_start_matches("0x")) else {
                continue;
            };
            let flags = i32::from_str_radix(flags, 16).unwrap();
            assert_eq!(one.is_loopback, flags & libc::IFF_LOOPBACK != 0, "{}", one.name);
            assert_eq!(one.is_up, flags & libc::IFF_UP != 0, "{}", one.name);
        }
    }

    #[test]
    fn a_thread_that_is_started_so_takes_no_signal() {
        let is_blocked = || {
            // SAFETY: a signal set is plain memory, which pthread_sigmask writes.
            unsafe {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
                libc::sigismember(&raw const mask, libc::SIGUSR1) == 1
            }
        };
        assert!(!is_blocked());
        assert!(without_signals(|| std::thread::spawn(is_blocked).join().unwrap()));
        assert!(!is_blocked(), "it is as before");
    }
}
