//! Info objects: dictionaries of strings in the order their keys came (MPI-5.0 §10).

use crate::abi::*;
use crate::arguments::Out;
use crate::fault::{Fault, fault};
use crate::handle::Table;
use crate::host::host_name;
use crate::lock::locked;
use std::sync::{Mutex, MutexGuard};

static INFOS: Mutex<Table<MPI_Info, Info>> = Mutex::new(Table::new());

/// An info object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A key as given by the caller, checked.
pub(crate) fn check_key(key: &[u8]) -> Result<&[u8], Fault> {
    let limit = MPI_MAX_INFO_KEY as usize - 1;
    match key.len() {
        0 => Err(fault(MPI_ERR_INFO_KEY, format_args!("argument key is empty"))),
        length if length > limit => {
            Err(fault(MPI_ERR_INFO_KEY, format_args!("argument key has {length} bytes, more than {limit}")))
        }
        _ => Ok(key),
    }
}

impl Info {
    /// How many keys.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_slice())
    }

    /// The key at a position.
    pub(crate) fn key(&self, position: usize) -> Option<&[u8]> {
        self.entries.get(position).map(|(key, _)| key.as_slice())
    }

    /// Gives a key a value.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let key = check_key(key)?;
        let limit = MPI_MAX_INFO_VAL as usize - 1;
        if value.len() > limit {
            let length = value.len();
            return Err(fault(
                MPI_ERR_INFO_VALUE,
                format_args!("argument value has {length} bytes, more than {limit}"),
            ));
        }
        match self.entries.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.entries.push((key.to_vec(), value.to_vec())),
        }
        Ok(())
    }

    /// Gives a key of ours a value of ours, cut to what info objects hold.
    pub(crate) fn put(&mut self, key: &str, value: &str) {
        let end = value.len().min(MPI_MAX_INFO_VAL as usize - 1);
        let done = self.set(key.as_bytes(), &value.as_bytes()[..end]);
        debug_assert!(done.is_ok(), "our own keys are short");
    }

    /// Takes a key out.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), Fault> {
        let key = check_key(key)?;
        match self.entries.iter().position(|(k, _)| k == key) {
            Some(position) => {
                self.entries.remove(position);
                Ok(())
            }
            None => {
                let key = String::from_utf8_lossy(key);
                Err(fault(MPI_ERR_INFO_NOKEY, format_args!("the info object has no key \"{key}\"")))
            }
        }
    }

    /// `MPI_INFO_ENV`: how this process was started, as far as it knows (MPI-5.0 §10.2.1).
    pub(crate) fn environment() -> Self {
        let mut info = Self::default();
        let mut args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
        if let Some(command) = args.next() {
            info.put("command", &command);
        }
        let args: Vec<_> = args.collect();
        if !args.is_empty() {
            info.put("argv", &args.join(" "));
        }
        if let Ok(size) = std::env::var("PMI_SIZE") {
            info.put("maxprocs", &size);
        }
        if let Some(host) = host_name() {
            info.put("host", &host);
        }
        info.put("arch", std::env::consts::ARCH);
        if let Ok(dir) = std::env::current_dir() {
            info.put("wdir", &dir.to_string_lossy());
        }
        info
    }
}

/// The info objects, locked.
pub(crate) fn infos() -> MutexGuard<'static, Table<MPI_Info, Info>> {
    locked(&INFOS)
}

/// Puts a new info object into the table and its handle into `out`.
pub(crate) fn give(info: Info, name: &str, out: Out<MPI_Info>) -> Result<(), Fault> {
    let handle = infos().insert(info)?;
    out.set(name, handle)
}

/// Gives the hints in use of a communicator, window, file or session: with them the kinds of memory that
/// messages may come from and go to, the same for all (MPI-5.0 §11.4.3).
pub(crate) fn give_used(mut hints: Info, out: Out<MPI_Info>) -> Result<(), Fault> {
    hints.put("mpi_memory_alloc_kinds", "system,mpi");
    give(hints, "info_used", out)
}

/// Looks at an info object.
pub(crate) fn with<R>(info: MPI_Info, look: impl FnOnce(&Info) -> Result<R, Fault>) -> Result<R, Fault> {
    let mut infos = infos();
    if info == MPI_INFO_ENV && infos.get(info, "info").is_err() {
        infos.insert_predefined(MPI_INFO_ENV, Info::environment());
    }
    look(infos.get(info, "info")?)
}

/// Changes an info object of the user's.
pub(crate) fn change(
    info: MPI_Info,
    change: impl FnOnce(&mut Info) -> Result<(), Fault>,
) -> Result<(), Fault> {
    check_not_environment(info)?;
    change(infos().get_mut(info, "info")?)
}

/// Checks an info object of which no hint means anything; null is allowed.
pub(crate) fn check(info: MPI_Info) -> Result<(), Fault> {
    if info == MPI_INFO_NULL { Ok(()) } else { with(info, |_| Ok(())) }
}

/// `MPI_INFO_ENV` cannot be changed.
pub(crate) fn check_not_environment(info: MPI_Info) -> Result<(), Fault> {
    if info == MPI_INFO_ENV {
        return Err(fault(MPI_ERR_INFO, format_args!("MPI_INFO_ENV cannot be changed or freed")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_their_limits() {
        let mut info = Info::default();
        info.set(b"b", b"1").unwrap();
        info.set(b"a", b"2").unwrap();
        info.set(b"b", b"3").unwrap();
        assert_eq!((info.len(), info.key(0), info.get(b"b")), (2, Some(&b"b"[..]), Some(&b"3"[..])));
        info.delete(b"b").unwrap();
        assert_eq!(info.key(0), Some(&b"a"[..]));
        assert_eq!(info.delete(b"b").unwrap_err().code(), MPI_ERR_INFO_NOKEY);
        assert_eq!(info.set(b"", b"1").unwrap_err().code(), MPI_ERR_INFO_KEY);
        assert_eq!(info.set(&[b'k'; 256], b"1").unwrap_err().code(), MPI_ERR_INFO_KEY);
        assert_eq!(info.set(b"k", &[b'v'; 1024]).unwrap_err().code(), MPI_ERR_INFO_VALUE);
        info.set(&[b'k'; 255], &[b'v'; 1023]).unwrap();
    }
}
