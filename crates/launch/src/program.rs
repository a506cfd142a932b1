//! Finding a program on the host that is to run it.

use crate::error::{Error, NOT_EXECUTABLE, NOT_FOUND};
use rustix::fs::{Access, access};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Refuses a directory that a program cannot start in.
pub(crate) fn check_directory(wdir: &Path) -> anyhow::Result<()> {
    let problem = match access(wdir, Access::EXEC_OK) {
        _ if !wdir.is_dir() => "no such directory".to_owned(),
        Err(error) => format!("cannot be entered: {error}"),
        Ok(()) => return Ok(()),
    };
    Err(Error::usage(format!("--wdir {}: {problem}", wdir.display())))
}

/// Where the program is: as a path when it has a slash, else in `PATH`, else (as other launchers do) in the
/// directory it will start in.
pub(crate) fn find(
    name: &OsStr,
    here: &Path,
    wdir: Option<&Path>,
    path_variable: &OsStr,
) -> anyhow::Result<PathBuf> {
    let start = wdir.map_or_else(|| here.to_owned(), |dir| here.join(dir));
    let path = Path::new(name);
    let mut found_but = None;
    let mut candidates: Vec<PathBuf> = Vec::new();
    if name.as_bytes().contains(&b'/') {
        // `--wdir d ./p` is p in d; and, as people mean it too, p here.
        candidates.extend([start.join(path), here.join(path)]);
    } else {
        candidates.extend(std::env::split_paths(path_variable).map(|dir| here.join(dir).join(path)));
        candidates.push(start.join(path));
    }
    for candidate in candidates {
        match std::fs::metadata(&candidate) {
            Ok(meta) if meta.is_file() => {
                if access(&candidate, Access::EXEC_OK).is_ok() {
                    return Ok(candidate);
                }
                found_but.get_or_insert("it is not executable (chmod +x?)");
            }
            Ok(meta) if meta.is_dir() && name.as_bytes().contains(&b'/') => {
                found_but.get_or_insert("it is a directory");
            }
            _ => {}
        }
    }
    match found_but {
        Some(why) => Err(Error::new(NOT_EXECUTABLE, format!("cannot execute '{}': {why}", name.display()))),
        None => Err(Error::new(NOT_FOUND, format!("program not found: '{}'", name.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{USAGE, exit_code};

    #[test]
    fn what_cannot_be_executed_is_named_with_its_code() {
        let here = std::env::current_dir().expect("a directory");
        let path = std::env::var_os("PATH").expect("PATH");
        let find = |name: &str| find(OsStr::new(name), &here, None, &path);
        assert!(find("sh").is_ok_and(|path| path.is_absolute()));
        for (name, code, part) in [
            ("no-such-program-anywhere", NOT_FOUND, "program not found: 'no-such-program-anywhere'"),
            ("./Cargo.toml", NOT_EXECUTABLE, "not executable"),
            ("/", NOT_EXECUTABLE, "is a directory"),
        ] {
            let error = find(name).expect_err(name);
            assert_eq!(exit_code(&error), code, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = check_directory(Path::new("/no/such/directory")).expect_err("it is not there");
        assert_eq!((exit_code(&error), error.to_string().contains("no such directory")), (USAGE, true));
    }
}
