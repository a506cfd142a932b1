//! Where `libpmix.so.2` is looked for.
//!
//! The server's own is best. Client and server may be of different versions, for each server offers the older
//! protocols too, but not always without complaint: the server of Open MPI 5.0.11 reports an unpacking error
//! for each client that uses version 4.2.2. A launcher from a package of its own (a Python wheel, a module of
//! a cluster) brings its library with it, outside of the linker's paths.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The library by path or by name, to override the search.
pub(super) const ENV_PMIX_LIBRARY: &str = "AYATORI_PMIX_LIBRARY";
/// The name under which all versions from 2 on install it.
const NAME: &str = "libpmix.so.2";
/// Ancestors that are looked at: a shell or a wrapper may stand between this process and the server.
const ANCESTORS_MAX: usize = 4;

/// A place to load the library from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found(OsString);

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Found {
    pub(super) fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

/// Where to try, in this order: what the user names, and nothing else then; the library that the server, an
/// ancestor of this process, has loaded, where we may look; what the linker finds; those beside the launchers
/// in `PATH`.
pub(super) fn candidates() -> Vec<Found> {
    if let Some(named) = std::env::var_os(ENV_PMIX_LIBRARY).filter(|named| !named.is_empty()) {
        return vec![Found(named)];
    }
    let mut found = Vec::new();
    let mut add = |path: PathBuf| {
        let place = Found(path.into());
        if !found.contains(&place) {
            found.push(place);
        }
    };
    ancestors().filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()).for_each(
        |maps| {
            if let Some(path) = mapped(&maps) {
                add(path);
            }
        },
    );
    add(NAME.into());
    for directory in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        if ["prterun", "prte", "mpirun"].iter().any(|launcher| directory.join(launcher).exists())
            && let Some(prefix) = directory.parent()
        {
            beside(prefix).into_iter().filter(|path| path.exists()).for_each(&mut add);
        }
    }
    found
}

/// Where packages put it below their prefix.
fn beside(prefix: &Path) -> Vec<PathBuf> {
    ["lib", "lib64", "lib/openmpi", "lib/pmix"].map(|lib| prefix.join(lib).join(NAME)).to_vec()
}

/// The ids of the parent, its parent, and so on.
fn ancestors() -> impl Iterator<Item = u32> {
    let parent = |of: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
        parent_in(&stat).filter(|&pid| pid > 1)
    };
    std::iter::successors(Some(std::os::unix::process::parent_id()), parent).take(ANCESTORS_MAX)
}

/// The parent's id in the text of `/proc/PID/stat`: the second field after the name, which may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The library in the text of `/proc/PID/maps`.
fn mapped(maps: &str) -> Option<PathBuf> {
    let path = |line: &str| line.find('/').map(|start| PathBuf::from(&line[start..]));
    let is_pmix = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("libpmix.so.2"))
    };
    maps.lines().filter_map(path).find(is_pmix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_path_is_found_among_mappings() {
        let maps = "55d0-55d1 r--p 00000000 08:01 12 /usr/bin/prted\n\
                    7f10-7f20 r-xp 00001000 08:01 13   /opt/a b/lib/libpmix.so.2.13.3\n\
                    7f30-7f40 rw-p 00000000 00:00 0 \n";
        assert_eq!(mapped(maps), Some(PathBuf::from("/opt/a b/lib/libpmix.so.2.13.3")));
        assert_eq!(mapped("7f30-7f40 rw-p 00000000 00:00 0 [heap]\n/lib/libpmi.so.0"), None);
    }

    #[test]
    fn a_parent_is_read_whatever_the_program_is_called() {
        assert_eq!(parent_in("17 (a) b) S 4 17 17 0"), Some(4));
        assert_eq!(parent_in("17 (sh) S"), None);
        assert_eq!(parent_in(""), None);
    }
}
