//! Mapping of errors of the operating system (MPI-5.0 §14.7).

use super::sys::Errno;
use crate::fault::{Fault, class_of_errno, fault};

/// The fault of an operation on a file.
#[cold]
pub(crate) fn failed(doing: &str, name: &str, Errno(errno): Errno) -> Fault {
    let why = std::io::Error::from_raw_os_error(errno);
    fault(class_of_errno(errno), format_args!("cannot {doing} \"{name}\": {why}"))
}
