//! Error classes and codes: the standard's and the user's (MPI-5.0 §9.4, §9.5), and the core's errors as
//! classes.

use crate::abi::*;
use crate::fault::{Fault, MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED, fault};
use crate::lock::locked;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Our own classes, with names and texts.
const OWN_CLASSES: [(c_int, &str, &str); 3] = [
    (MPIX_ERR_PROC_FAILED, "MPIX_ERR_PROC_FAILED", "a process this operation needs has failed"),
    (
        MPIX_ERR_PROC_FAILED_PENDING,
        "MPIX_ERR_PROC_FAILED_PENDING",
        "a process that may be the sender has failed; the receive goes on",
    ),
    (MPIX_ERR_REVOKED, "MPIX_ERR_REVOKED", "the communicator is revoked"),
];

/// The name of a class, the standard's or ours.
pub(crate) fn name_of_class(class: c_int) -> Option<&'static str> {
    let own = || OWN_CLASSES.iter().find(|own| own.0 == class).map(|own| own.1);
    class_name(class).or_else(own)
}

static CODES: Mutex<ErrorCodes> = Mutex::new(ErrorCodes::new());

/// The error classes and codes, locked.
pub(crate) fn codes() -> MutexGuard<'static, ErrorCodes> {
    locked(&CODES)
}

/// The value of the attribute `MPI_LASTUSEDCODE`: users get its address, so it is a static of its own.
pub(crate) static LAST_USED_CODE: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);

/// The classes and codes the user added. A predefined class is its own only code.
pub(crate) struct ErrorCodes {
    /// Every class and code of the user above `MPI_ERR_LASTCODE`.
    added: BTreeMap<c_int, Added>,
    /// Texts the user gave to added codes.
    texts: BTreeMap<c_int, Vec<u8>>,
    /// Why processes were not started the last time.
    spawn_refusal: Option<String>,
}

struct Added {
    /// Itself for a class.
    class: c_int,
}

impl ErrorCodes {
    /// None added.
    pub(crate) const fn new() -> Self {
        Self { added: BTreeMap::new(), texts: BTreeMap::new(), spawn_refusal: None }
    }

    fn add(&mut self, class: impl FnOnce(c_int) -> c_int) -> c_int {
        let code = self.added.last_key_value().map_or(MPI_ERR_LASTCODE, |(code, _)| *code) + 1;
        self.added.insert(code, Added { class: class(code) });
        LAST_USED_CODE.store(code, Ordering::Relaxed);
        code
    }

    /// `MPI_Add_error_class`
    pub(crate) fn add_class(&mut self) -> c_int {
        self.add(|code| code)
    }

    /// `MPI_Add_error_code`
    pub(crate) fn add_code(&mut self, class: c_int) -> Result<c_int, Fault> {
        if !self.is_class(class) {
            return Err(fault(
                MPI_ERR_ARG,
                format_args!("argument errorclass ({class}) is not an error class"),
            ));
        }
        Ok(self.add(|_| class))
    }

    /// `MPI_Add_error_string`
    pub(crate) fn set_text(&mut self, code: c_int, text: &[u8]) -> Result<(), Fault> {
        self.check_added(code)?;
        if text.len() >= MPI_MAX_ERROR_STRING as usize {
            let limit = MPI_MAX_ERROR_STRING - 1;
            return Err(fault(MPI_ERR_ARG, format_args!("the text is longer than {limit} bytes")));
        }
        self.texts.insert(code, text.to_vec());
        Ok(())
    }

    /// Processes were not started, and why: the launcher's words, which no class has. The text of
    /// `MPI_ERR_SPAWN` says it from now on. A code of its own for each refusal would not be equal to the
    /// class, with which programs compare what `MPI_Comm_spawn` answers.
    pub(crate) fn set_spawn_refusal(&mut self, why: &str) {
        self.spawn_refusal = Some(why.to_owned());
    }

    /// `MPI_Remove_error_string`
    pub(crate) fn remove_text(&mut self, code: c_int) -> Result<(), Fault> {
        self.check_added(code)?;
        match self.texts.remove(&code) {
            Some(_) => Ok(()),
            None => Err(fault(MPI_ERR_ARG, format_args!("error code {code} has no text"))),
        }
    }

    /// `MPI_Remove_error_class` and `MPI_Remove_error_code`
    pub(crate) fn remove(&mut self, code: c_int, is_class: bool) -> Result<(), Fault> {
        self.check_added(code)?;
        if (self.added[&code].class == code) != is_class {
            let what = if is_class { "a code, not a class" } else { "a class, not a code" };
            return Err(fault(MPI_ERR_ARG, format_args!("{code} is {what}")));
        }
        if let Some((other, _)) = self.added.iter().find(|(c, added)| **c != code && added.class == code) {
            return Err(fault(MPI_ERR_ARG, format_args!("error class {code} still has the code {other}")));
        }
        if self.texts.contains_key(&code) {
            return Err(fault(MPI_ERR_ARG, format_args!("error code {code} still has a text")));
        }
        self.added.remove(&code);
        let last = self.added.last_key_value().map_or(MPI_ERR_LASTCODE, |(code, _)| *code);
        LAST_USED_CODE.store(last, Ordering::Relaxed);
        Ok(())
    }

    fn check_added(&self, code: c_int) -> Result<(), Fault> {
        if self.added.contains_key(&code) {
            return Ok(());
        }
        let why = if name_of_class(code).is_some() { "is the standard's own" } else { "was not added" };
        Err(fault(MPI_ERR_ARG, format_args!("error code {code} {why}")))
    }

    fn is_class(&self, code: c_int) -> bool {
        name_of_class(code).is_some() || self.added.get(&code).is_some_and(|added| added.class == code)
    }

    /// The class of a code (`MPI_Error_class`).
    pub(crate) fn class(&self, code: c_int) -> Option<c_int> {
        match self.added.get(&code) {
            Some(added) => Some(added.class),
            None => name_of_class(code).map(|_| code),
        }
    }

    /// The text of a code (`MPI_Error_string`); empty for an added one without a text.
    pub(crate) fn text(&self, code: c_int) -> Option<Vec<u8>> {
        if let Some(text) = self.texts.get(&code) {
            return Some(text.clone());
        }
        if self.added.contains_key(&code) {
            return Some(Vec::new());
        }
        let name = name_of_class(code)?;
        let own = OWN_CLASSES.iter().find(|own| own.0 == code).map(|own| own.2);
        let mut text = format!("{name}: {}", own.unwrap_or_else(|| class_text(code)));
        if let Some(why) = self.spawn_refusal.as_ref().filter(|_| code == MPI_ERR_SPAWN) {
            text = format!("{text}; the last time: {why}");
            let fits = (0..MPI_MAX_ERROR_STRING as usize).rev().find(|&at| text.is_char_boundary(at));
            text.truncate(fits.unwrap_or(0));
        }
        Some(text.into_bytes())
    }
}

/// What a predefined class means, as one sentence without an end.
fn class_text(class: c_int) -> &'static str {
    const TEXTS: &[(c_int, &str)] = &[
        (MPI_SUCCESS, "no error"),
        (MPI_ERR_BUFFER, "invalid buffer pointer"),
        (MPI_ERR_COUNT, "invalid count"),
        (MPI_ERR_TYPE, "invalid datatype"),
        (MPI_ERR_TAG, "invalid tag"),
        (MPI_ERR_COMM, "invalid communicator"),
        (MPI_ERR_RANK, "invalid rank"),
        (MPI_ERR_REQUEST, "invalid request"),
        (MPI_ERR_ROOT, "invalid root"),
        (MPI_ERR_GROUP, "invalid group"),
        (MPI_ERR_OP, "invalid operation, or one not defined for the datatype"),
        (MPI_ERR_TOPOLOGY, "invalid topology, or a communicator without one"),
        (MPI_ERR_DIMS, "invalid dimension"),
        (MPI_ERR_ARG, "invalid argument"),
        (MPI_ERR_UNKNOWN, "unknown error"),
        (MPI_ERR_TRUNCATE, "the message was longer than the receive buffer"),
        (MPI_ERR_OTHER, "an error of no other class"),
        (MPI_ERR_INTERN, "an error inside the MPI library"),
        (MPI_ERR_PENDING, "the request is still pending"),
        (MPI_ERR_IN_STATUS, "the error is in the status"),
        (MPI_ERR_ACCESS, "permission denied"),
        (MPI_ERR_AMODE, "invalid access mode"),
        (MPI_ERR_ASSERT, "invalid assertion"),
        (MPI_ERR_BAD_FILE, "invalid file name"),
        (MPI_ERR_BASE, "invalid base address"),
        (MPI_ERR_CONVERSION, "a data conversion function failed"),
        (MPI_ERR_DISP, "invalid displacement"),
        (MPI_ERR_DUP_DATAREP, "the data representation is already defined"),
        (MPI_ERR_FILE_EXISTS, "the file exists"),
        (MPI_ERR_FILE_IN_USE, "the file is open somewhere"),
        (MPI_ERR_FILE, "invalid file handle"),
        (MPI_ERR_INFO_KEY, "invalid info key"),
        (MPI_ERR_INFO_NOKEY, "the info object has no such key"),
        (MPI_ERR_INFO_VALUE, "invalid info value"),
        (MPI_ERR_INFO, "invalid info object"),
        (MPI_ERR_IO, "an input or output error"),
        (MPI_ERR_KEYVAL, "invalid attribute key"),
        (MPI_ERR_LOCKTYPE, "invalid lock type"),
        (MPI_ERR_NAME, "the service name is not published"),
        (MPI_ERR_NO_MEM, "out of memory"),
        (MPI_ERR_NOT_SAME, "a collective argument differs between processes"),
        (MPI_ERR_NO_SPACE, "no space left on the device"),
        (MPI_ERR_NO_SUCH_FILE, "no such file"),
        (MPI_ERR_PORT, "invalid port name"),
        (MPI_ERR_QUOTA, "the quota is exceeded"),
        (MPI_ERR_READ_ONLY, "the file or file system is read-only"),
        (MPI_ERR_RMA_ATTACH, "memory cannot be attached to the window"),
        (MPI_ERR_RMA_CONFLICT, "conflicting accesses to the window"),
        (MPI_ERR_RMA_RANGE, "target memory is not in the window"),
        (MPI_ERR_RMA_SHARED, "the memory cannot be shared"),
        (MPI_ERR_RMA_SYNC, "wrong synchronization of the window"),
        (MPI_ERR_SERVICE, "the service name is not published, or published by another"),
        (MPI_ERR_SIZE, "invalid size"),
        (MPI_ERR_SPAWN, "processes could not be started"),
        (MPI_ERR_UNSUPPORTED_DATAREP, "unsupported data representation"),
        (MPI_ERR_UNSUPPORTED_OPERATION, "unsupported operation"),
        (MPI_ERR_WIN, "invalid window"),
        (MPI_ERR_RMA_FLAVOR, "the window is of another flavor"),
        (MPI_ERR_PROC_ABORTED, "a process this operation needs has ended"),
        (MPI_ERR_VALUE_TOO_LARGE, "the value does not fit the type of the argument"),
        (MPI_ERR_SESSION, "invalid session"),
        (MPI_ERR_ERRHANDLER, "invalid error handler"),
        (MPI_ERR_ABI, "a mismatch of the binary interface"),
        (MPI_T_ERR_CANNOT_INIT, "the tool interface cannot be initialized"),
        (MPI_T_ERR_NOT_ACCESSIBLE, "the functionality is not accessible now"),
        (MPI_T_ERR_NOT_INITIALIZED, "the tool interface is not initialized"),
        (MPI_T_ERR_NOT_SUPPORTED, "the functionality is not supported"),
        (MPI_T_ERR_MEMORY, "out of memory"),
        (MPI_T_ERR_INVALID, "invalid use of the tool interface"),
        (MPI_T_ERR_INVALID_INDEX, "invalid index"),
        (MPI_T_ERR_INVALID_ITEM, "invalid item index"),
        (MPI_T_ERR_INVALID_SESSION, "invalid session of performance variables"),
        (MPI_T_ERR_INVALID_HANDLE, "invalid handle"),
        (MPI_T_ERR_INVALID_NAME, "invalid name"),
        (MPI_T_ERR_OUT_OF_HANDLES, "out of handles"),
        (MPI_T_ERR_OUT_OF_SESSIONS, "out of sessions"),
        (MPI_T_ERR_CVAR_SET_NOT_NOW, "the control variable cannot be set at this moment"),
        (MPI_T_ERR_CVAR_SET_NEVER, "the control variable can never be set"),
        (MPI_T_ERR_PVAR_NO_WRITE, "the performance variable cannot be written"),
        (MPI_T_ERR_PVAR_NO_STARTSTOP, "the performance variable cannot be started or stopped"),
        (MPI_T_ERR_PVAR_NO_ATOMIC, "the performance variable cannot be read and reset at once"),
        (MPI_ERR_LASTCODE, "the last predefined error code"),
    ];
    TEXTS.iter().find(|(c, _)| *c == class).map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_predefined_class_has_a_text() {
        for (class, name) in CLASS_NAMES {
            assert!(!class_text(*class).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_text_of_a_refused_spawn_says_why_and_fits() {
        let mut codes = ErrorCodes::new();
        let text = |codes: &ErrorCodes| String::from_utf8(codes.text(MPI_ERR_SPAWN).unwrap()).unwrap();
        assert_eq!(text(&codes), "MPI_ERR_SPAWN: processes could not be started");
        codes.set_spawn_refusal("no such launcher");
        assert_eq!(
            text(&codes),
            "MPI_ERR_SPAWN: processes could not be started; the last time: no such launcher"
        );
        codes.set_spawn_refusal(&"ä".repeat(MPI_MAX_ERROR_STRING as usize));
        assert!(
            (MPI_MAX_ERROR_STRING as usize - 2..MPI_MAX_ERROR_STRING as usize).contains(&text(&codes).len())
        );
        assert!(codes.text(MPI_ERR_PORT).is_some_and(|text| !text.ends_with("ä".as_bytes())));
    }

    #[test]
    fn added_codes_have_their_class_text_and_end() {
        let mut codes = ErrorCodes::new();
        let class = codes.add_class();
        assert!(class > MPI_ERR_LASTCODE);
        let code = codes.add_code(class).unwrap();
        let of_standard = codes.add_code(MPI_ERR_TAG).unwrap();
        assert_eq!(codes.class(code), Some(class));
        assert_eq!(codes.class(of_standard), Some(MPI_ERR_TAG));
        assert_eq!(codes.text(code), Some(vec![]));
        codes.set_text(code, b"too hot").unwrap();
        assert_eq!(codes.text(code).as_deref(), Some(&b"too hot"[..]));
        assert!(codes.remove(class, true).is_err(), "it still has a code");
        assert!(codes.remove(code, false).is_err(), "it still has a text");
        codes.remove_text(code).unwrap();
        codes.remove(code, false).unwrap();
        codes.remove(of_standard, false).unwrap();
        codes.remove(class, true).unwrap();
        assert_eq!(codes.class(class), None);
        assert!(codes.set_text(MPI_ERR_TAG, b"mine").is_err());
        assert!(codes.add_code(class).is_err());
    }
}
