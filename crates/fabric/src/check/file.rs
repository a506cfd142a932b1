//! Collected files.

use std::path::PathBuf;

/// Why collected state cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}", file = file.display())]
pub struct ReadError {
    /// The file.
    pub file: PathBuf,
    /// The error in it.
    pub problem: String,
}

/// Most bytes of a collected file: a 1,000-port switch's table is far below.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A file and its text; `None` if there is none.
pub(super) fn load(file: PathBuf) -> Result<Option<(PathBuf, String)>, ReadError> {
    let fail = |problem: String| Err(ReadError { file: file.clone(), problem });
    match std::fs::metadata(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return fail(format!("cannot be read: {error}")),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
            return fail(format!("has {} bytes, more than {FILE_BYTES_MAX}", metadata.len()));
        }
        Ok(_) => {}
    }
    match std::fs::read(&file) {
        Ok(bytes) => Ok(Some((file, String::from_utf8_lossy(&bytes).into_owned()))),
        Err(error) => fail(format!("cannot be read: {error}")),
    }
}
