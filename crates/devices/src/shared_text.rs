//! Lines of text that one process of a host writes and others of the same user read one by one, without a
//! name in a file system. A reader keeps the file open and nothing of it in memory.
//!
//! ```text
//!   end of each line u32 … | lines
//! ```

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// A million cards.
const BYTES_MAX: usize = 256 << 20;
const END_BYTES: u64 = 4;

/// Lines that others can open as long as this value lives.
#[derive(Debug)]
pub struct SharedLines {
    file: File,
    count: usize,
}

impl SharedLines {
    /// Puts lines where others find them.
    ///
    /// # Errors
    /// The system refuses a memory file, or has no memory; it is too much text.
    pub fn create(lines: &[String]) -> io::Result<Self> {
        let (mut ends, mut text) = (Vec::new(), Vec::new());
        for line in lines {
            text.extend_from_slice(line.as_bytes());
            ends.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        if text.len() > BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut file = File::from(memfd_create("ayatori-text", MemfdFlags::CLOEXEC)?);
        file.write_all(&ends)?;
        file.write_all(&text)?;
        Ok(Self { file, count: lines.len() })
    }

    /// Where [`open`](Self::open) finds it.
    pub fn address(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Opens the `count` lines that the process that gave the address has put there.
    ///
    /// # Errors
    /// It is no such address; the process has ended, or may not be looked into (another user, `hidepid`).
    pub fn open(address: &str, count: usize) -> io::Result<Self> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_one = address
            .strip_prefix("/proc/")
            .and_then(|rest| rest.split_once("/fd/"))
            .is_some_and(|(process, file)| is_number(process) && is_number(file));
        if !is_one {
            return Err(io::Error::other(format!("'{address}' is no address of shared text")));
        }
        Ok(Self { file: File::open(address)?, count })
    }

    /// The line of this number.
    ///
    /// # Errors
    /// There is none; what is there is no text.
    pub fn line(&self, number: usize) -> io::Result<String> {
        if number >= self.count {
            return Err(io::ErrorKind::NotFound.into());
        }
        let start = if number == 0 { 0 } else { self.end(number - 1)? };
        let length = self.end(number)?.checked_sub(start).filter(|&length| length <= BYTES_MAX);
        let mut line = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        self.file.read_exact_at(&mut line, self.count as u64 * END_BYTES + start as u64)?;
        String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn end(&self, number: usize) -> io::Result<usize> {
        let mut end = [0; END_BYTES as usize];
        self.file.read_exact_at(&mut end, number as u64 * END_BYTES)?;
        Ok(u32::from_le_bytes(end) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_in_any_order_while_a_reader_has_them_open() {
        let lines: Vec<String> = (0..1_000).map(|line| "x".repeat(line % 7) + &line.to_string()).collect();
        let shared = SharedLines::create(&lines).unwrap();
        let reader = SharedLines::open(&shared.address(), lines.len()).unwrap();
        drop(shared);
        for number in [999, 0, 500, 0] {
            assert_eq!(reader.line(number).unwrap(), lines[number]);
        }
        assert!(reader.line(1_000).is_err());
    }

    #[test]
    fn a_file_that_is_shorter_than_it_says_is_an_error() {
        let shared = SharedLines::create(&["a".to_owned()]).unwrap();
        let reader = SharedLines::open(&shared.address(), 3).unwrap();
        assert!((0..4).all(|number| reader.line(number).is_err()));
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
            assert!(SharedLines::open(bad, 1).unwrap_err().to_string().contains("no address"), "{bad}");
        }
    }
}
