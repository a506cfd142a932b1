//! Text that one process of a host writes and others of the same user read, without a name in a file system:
//! it goes with its writer.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

/// A million cards.
const BYTES_MAX: u64 = 256 << 20;

/// Text that others can read as long as this value lives.
#[derive(Debug)]
pub struct SharedText(File);

impl SharedText {
    /// Puts text where others find it.
    ///
    /// # Errors
    /// The system refuses a memory file, or has no memory.
    pub fn create(text: &str) -> io::Result<Self> {
        let mut file = File::from(memfd_create("ayatori-text", MemfdFlags::CLOEXEC)?);
        file.write_all(text.as_bytes())?;
        Ok(Self(file))
    }

    /// Where [`read`] finds it.
    pub fn address(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Reads what the process that gave the address has put there.
///
/// # Errors
/// It is no such address; the process has ended, or may not be looked into (another user, `hidepid`).
pub fn read(address: &str) -> io::Result<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_one = address
        .strip_prefix("/proc/")
        .and_then(|rest| rest.split_once("/fd/"))
        .is_some_and(|(process, file)| is_number(process) && is_number(file));
    if !is_one {
        return Err(io::Error::other(format!("'{address}' is no address of shared text")));
    }
    let mut text = String::new();
    let bytes_count = File::open(address)?.take(BYTES_MAX + 1).read_to_string(&mut text)? as u64;
    if bytes_count > BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_often_as_wanted_while_its_writer_keeps_it() {
        let text = "a line\nand another".repeat(10_000);
        let shared = SharedText::create(&text).unwrap();
        let address = shared.address();
        assert_eq!(read(&address).unwrap(), text);
        assert_eq!(read(&address).unwrap(), text);
    }

    #[test]
    fn other_files_are_not_read() {
        for bad in [
            "",
            "/etc/passwd",
            "/proc/self/fd/1",
            "/proc/1/fd/../../etc/passwd",
            "/proc/12/fd/",
            "/proc//fd/1",
        ] {
            assert!(read(bad).unwrap_err().to_string().contains("no address"), "{bad}");
        }
    }
}
