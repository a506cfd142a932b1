//! What the checks look at.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A machine, as a process with this environment sees it.
#[derive(Debug, Clone)]
pub struct System {
    /// Where `/` is: `/` itself, or where another machine's is mounted.
    pub root: PathBuf,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// Ranks that are to run on this host; `None`: not said.
    pub ranks: Option<u64>,
    /// The installation in use: `PREFIX` of `PREFIX/bin/ayatori`, as seen beneath the root.
    pub prefix: Option<PathBuf>,
}

impl System {
    /// This machine, this process' environment.
    pub fn here(ranks: Option<u64>) -> System {
        let variables = std::env::vars_os();
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let command = std::env::current_exe().ok();
        let prefix = command.as_deref().and_then(Path::parent).and_then(Path::parent).map(PathBuf::from);
        System { root: "/".into(), environment: variables.filter_map(text).collect(), ranks, prefix }
    }

    /// An absolute path of the machine, as we reach it.
    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without the spaces at its ends; `None` if it cannot be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// A file that holds one value.
    pub(super) fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder, sorted.
    pub(super) fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// A line of `/proc/self/status`.
    pub(super) fn status(&self, field: &str) -> Option<String> {
        let status = self.text("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    }

    /// Soft and hard limit by its name in `/proc/self/limits`; `None` is unlimited.
    pub(super) fn limit(&self, name: &str) -> Option<[Option<u64>; 2]> {
        let limits = self.text("/proc/self/limits")?;
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let mut values = line.split_whitespace().map(|value| match value {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        });
        Some([values.next()??, values.next()??])
    }

    /// Whether processes have the capability of this number.
    pub(super) fn is_capable(&self, number: u32) -> bool {
        let mask = self.status("CapEff").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        mask.is_some_and(|mask| mask >> number & 1 == 1)
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// CPUs that this process may run on.
    pub(super) fn cpu_count(&self) -> Option<u64> {
        let list = self.status("Cpus_allowed_list")?;
        let count = |range: &str| -> Option<u64> {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|number| number.trim().parse::<u64>().ok());
            last?.checked_sub(first?)?.checked_add(1)
        };
        list.split(',').map(count).sum()
    }

    /// The values of a file in this process' control group and the groups around it, innermost first.
    /// `controller` is the first version's; there the file may have another name.
    pub(super) fn control_group(&self, controller: &str, file: &str, file_v1: &str) -> Vec<String> {
        let groups = self.text("/proc/self/cgroup").unwrap_or_default();
        let mut values = Vec::new();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let unified = number == "0" && controllers.is_empty();
            if !unified && !controllers.split(',').any(|name| name == controller) {
                continue;
            }
            let bases: &[&str] = if unified { &["", "unified"] } else { &[controllers, controller] };
            let name = if unified { file } else { file_v1 };
            let group = Path::new(group.trim_start_matches('/'));
            for base in bases {
                let base = Path::new("/sys/fs/cgroup").join(base);
                let found = group.ancestors().filter_map(|group| self.text(base.join(group).join(name)));
                values.extend(found);
            }
        }
        values
    }
}
