//! The name service: the launcher answers where services are (MPI-5.0 §11.9.4).

use crate::abi::*;
use crate::fault::{Fault, fault};
use crate::runtime::exit::with_launcher;
use ayatori_launch::launcher::{Error, Launcher};
use std::fmt::Write;

/// Longest name of a service in bytes: what fits a launcher's line, encoded.
const SERVICE_BYTES_MAX: usize = 256;

/// A service's name as launchers take it: other characters as `%` and two hexadecimal digits.
fn encoded(service: &[u8]) -> Result<String, Fault> {
    if service.is_empty() || service.len() > SERVICE_BYTES_MAX {
        let length = service.len();
        return Err(fault(
            MPI_ERR_ARG,
            format_args!("argument service_name has {length} bytes; names have 1 to {SERVICE_BYTES_MAX}"),
        ));
    }
    let mut text = String::new();
    for &byte in service {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' => text.push(byte.into()),
            _ => drop(write!(text, "%{byte:02x}")),
        }
    }
    Ok(text)
}

fn ask<R>(class: i32, question: impl FnOnce(&mut dyn Launcher) -> Result<R, Error>) -> Result<R, Fault> {
    match with_launcher(question) {
        Some(answer) => answer.map_err(|error| fault(class, format_args!("{error}"))),
        None => Err(fault(
            class,
            format_args!(
                "this process has no launcher, which would know names: start it with `ayatori run -n 1`"
            ),
        )),
    }
}

/// `MPI_Publish_name`
pub(crate) fn publish(service: &[u8], port: &[u8]) -> Result<(), Fault> {
    let service = encoded(service)?;
    let is_plain = |byte: &u8| byte.is_ascii_graphic();
    let port = std::str::from_utf8(port).ok().filter(|port| port.bytes().all(|byte| is_plain(&byte)));
    let Some(port) = port.filter(|port| !port.is_empty() && port.len() < MPI_MAX_PORT_NAME as usize) else {
        return Err(fault(MPI_ERR_PORT, format_args!("argument port_name is no port's name")));
    };
    ask(MPI_ERR_SERVICE, |client| client.publish(&service, port))
}

/// `MPI_Unpublish_name`
pub(crate) fn unpublish(service: &[u8]) -> Result<(), Fault> {
    let service = encoded(service)?;
    ask(MPI_ERR_SERVICE, |client| client.unpublish(&service))
}

/// `MPI_Lookup_name`
pub(crate) fn look_up(service: &[u8]) -> Result<String, Fault> {
    let name = encoded(service)?;
    let found = ask(MPI_ERR_NAME, |client| client.lookup(&name))?;
    found.ok_or_else(|| {
        let service = String::from_utf8_lossy(service);
        fault(MPI_ERR_NAME, format_args!("the service \"{service}\" is not published"))
    })
}
