//! Requests of `MPI_Comm_spawn` to the launcher.

use super::ports::{self, Side};
use crate::abi::*;
use crate::arguments::{In, Text};
use crate::fault::{Fault, fault};
use crate::runtime::exit::with_launcher;
use crate::runtime::launch::PARENT_KEY;
use ayatori_launch::pmi::spawn::Part;
use std::ffi::{c_char, c_int};

/// The info keys that are passed to the launcher (MPI-5.0 §11.8.4). `soft` and `arch` are ignored.
const KEYS: [&str; 4] = ["wdir", "path", "host", "file"];

/// A command's part of the request, from the caller's arguments.
pub(crate) fn part(
    command: Text,
    argv: In<*mut c_char>,
    maxprocs: c_int,
    info: MPI_Info,
) -> Result<Part, Fault> {
    let refused = |what: &str| fault(MPI_ERR_SPAWN, format_args!("{what}"));
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).map_err(|_| refused("a word of the command is not UTF-8"))?;
        let is_one_line = !text.contains(['\n', '\r']);
        is_one_line.then(|| text.to_owned()).ok_or_else(|| refused("a word of the command has a line's end"))
    };
    let program = text(command.get("command")?)?;
    if program.is_empty() {
        return Err(refused("argument command is empty"));
    }
    let count = u32::try_from(maxprocs).ok().filter(|count| *count > 0);
    let count = count
        .ok_or_else(|| fault(MPI_ERR_ARG, format_args!("argument maxprocs ({maxprocs}) is not positive")))?;
    let args = words(argv).iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
    let mut hints = Vec::new();
    if info != MPI_INFO_NULL {
        crate::info::with(info, |info| {
            for key in KEYS {
                if let Some(value) = info.get(key.as_bytes()) {
                    hints.push((key.to_owned(), text(value)?));
                }
            }
            Ok(())
        })?;
    }
    Ok(Part { program, args, count, hints })
}

/// The words of a null-terminated array; none of a null one (`MPI_ARGV_NULL`).
fn words<'a>(argv: In<*mut c_char>) -> Vec<&'a [u8]> {
    let mut words = Vec::new();
    while argv.address() != 0 {
        // The caller promises that a null pointer ends the array.
        match argv.get_at("argv", words.len()) {
            Ok(word) if !word.is_null() => words.push(Text::of(word).get("argv").unwrap_or_default()),
            _ => break,
        }
    }
    words
}

/// Has the launcher start the parts; the port at which they will call.
pub(crate) fn start(parts: &[Part]) -> Result<Side, Fault> {
    let (name, port) = ports::make()?;
    let started = with_launcher(|client| client.spawn(parts, &[(PARENT_KEY, &name)]));
    match started {
        Some(Ok(())) => Ok(Side::Accept(port)),
        Some(Err(error)) => Err(fault(MPI_ERR_SPAWN, format_args!("{error}"))),
        None => Err(fault(
            MPI_ERR_SPAWN,
            format_args!(
                "this process has no launcher that could start others: start it with `ayatori run -n 1`"
            ),
        )),
    }
}
