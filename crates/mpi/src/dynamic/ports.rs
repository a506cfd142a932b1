//! The ports that this process has open, and meetings over a socket of the user's.

use super::poll_until;
use crate::abi::*;
use crate::fault::{Fault, fault};
use crate::lock::locked;
use ayatori_devices::tcp::Settings;
use ayatori_devices::tcp::port::{NAME_BYTES_MAX, Port, PortName, Stream};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

/// An open port. A holder of the handle can accept at it, even while another thread closes it.
pub(crate) type PortHandle = Arc<Mutex<Port>>;

/// Which side of a port the leader is on.
pub(crate) enum Side {
    /// It has opened the port.
    Accept(PortHandle),
    /// It knows the port's name.
    Connect(PortName),
}

/// How sockets are made.
pub(super) fn settings() -> Result<Settings, Fault> {
    Settings::from_environment()
        .map_err(|error| fault(MPI_ERR_OTHER, format_args!("cannot use the network: {error}")))
}

static PORTS: Mutex<BTreeMap<String, PortHandle>> = Mutex::new(BTreeMap::new());

/// A port of this process alone, which no name table has.
pub(super) fn make() -> Result<(String, PortHandle), Fault> {
    let port = Port::open(&settings()?)
        .map_err(|error| fault(MPI_ERR_PORT, format_args!("cannot open a port: {error}")))?;
    Ok((port.name().emit(), Arc::new(Mutex::new(port))))
}

/// Opens a port; its name.
pub(crate) fn open() -> Result<String, Fault> {
    let (name, port) = make()?;
    locked(&PORTS).insert(name.clone(), port);
    Ok(name)
}

/// Closes a port: later callers find no listener.
pub(crate) fn close(name: &[u8]) -> Result<(), Fault> {
    let text = std::str::from_utf8(name).ok();
    let closed = text.and_then(|name| locked(&PORTS).remove(name));
    closed.map(drop).ok_or_else(|| not_open(name))
}

fn not_open(name: &[u8]) -> Fault {
    let name = String::from_utf8_lossy(&name[..name.len().min(20)]);
    fault(
        MPI_ERR_PORT,
        format_args!("argument port_name (\"{name}…\") is no port that this process has open"),
    )
}

/// The port of that name, to accept at.
pub(crate) fn to_accept(name: &[u8]) -> Result<Side, Fault> {
    let port = std::str::from_utf8(name).ok().and_then(|name| locked(&PORTS).get(name).cloned());
    port.map(Side::Accept).ok_or_else(|| not_open(name))
}

/// The port of that name, to call.
pub(crate) fn to_connect(name: &[u8]) -> Result<Side, Fault> {
    let parsed = std::str::from_utf8(name).ok().and_then(PortName::parse);
    parsed.map(Side::Connect).ok_or_else(|| {
        fault(MPI_ERR_PORT, format_args!("argument port_name is no port's name (MPI_Open_port gives names)"))
    })
}

/// The stream of a caller, if one has connected.
pub(super) fn look(port: &PortHandle) -> Result<Option<Stream>, Fault> {
    Ok(locked(port).accept())
}

/// The message of each end of a joined socket: the name of a port of its own, padded with zeros.
const WORD_BYTES: usize = NAME_BYTES_MAX + 1;

/// Finds the process at the other end of a connected socket of the user's (`MPI_Comm_join`): the end whose
/// port has the lower name accepts. The socket is unchanged when both are done.
pub(crate) fn over_socket(fd: c_int) -> Result<Side, Fault> {
    if fd < 0 {
        return Err(fault(MPI_ERR_ARG, format_args!("argument fd ({fd}) is no socket")));
    }
    let broken = |error: std::io::Error| fault(MPI_ERR_ARG, format_args!("argument fd ({fd}): {error}"));
    // SAFETY: the caller of MPI_Comm_join keeps the socket open during the call (MPI-5.0 §11.10.4).
    let socket = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(broken)?;
    let (name, port) = make()?;
    let mut word = name.clone().into_bytes();
    word.resize(WORD_BYTES, 0);
    let (mut stream, mut heard) = (Stream::over(socket), Vec::new());
    poll_until("the other end of a socket", || {
        let is_sent = stream.send(&std::mem::take(&mut word)).map_err(broken)?;
        if heard.len() < WORD_BYTES {
            heard.extend_from_slice(stream.receive_at_most(WORD_BYTES - heard.len()).map_err(broken)?);
        }
        Ok((is_sent && heard.len() == WORD_BYTES).then_some(()))
    })?;
    let end = heard.iter().position(|&byte| byte == 0).unwrap_or(heard.len());
    if name.as_bytes() < &heard[..end] { Ok(Side::Accept(port)) } else { to_connect(&heard[..end]) }
}
