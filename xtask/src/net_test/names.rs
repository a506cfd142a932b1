//! Names of hosts that are network namespaces.
//!
//! `ip netns exec` lays the files of `/etc/netns/NAME` over those of `/etc`, so each namespace can have a
//! list of hosts of its own there. The name that a host itself says (`gethostname`) is set with
//! [`UNDER_OWN_NAME`] in front of a command.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::network::ETC;

/// Words that run a command on a host, which is called `{host}`: in its network, with its list of hosts, and
/// under its name. The name is written to the file since not every machine has the command `hostname`.
pub(super) const UNDER_OWN_NAME: &str = "ip netns exec {host} unshare --uts sh -c \
    'echo \"$0\" > /proc/sys/kernel/hostname && exec \"$@\"' {host}";

/// The lists of hosts of some namespaces; gone when dropped.
pub(super) struct HostLists {
    etc: PathBuf,
    folders: Vec<PathBuf>,
}

impl HostLists {
    /// Each of these hosts finds all of them by name, at their addresses, the first first.
    pub(super) fn new(hosts: &[(String, Vec<String>)]) -> Result<Self> {
        Self::in_folder(Path::new(ETC), hosts)
    }

    fn in_folder(etc: &Path, hosts: &[(String, Vec<String>)]) -> Result<Self> {
        let text = list(hosts);
        let mut lists = Self { etc: etc.to_path_buf(), folders: Vec::new() };
        for (name, _) in hosts {
            let folder = etc.join(name);
            lists.folders.push(folder.clone());
            let write = || {
                std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("hosts"), &text))
            };
            write().with_context(|| format!("the list of hosts in {}", folder.display()))?;
        }
        Ok(lists)
    }
}

/// A file of hosts, as hosts(5) has it.
fn list(hosts: &[(String, Vec<String>)]) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n".to_owned();
    for (name, addresses) in hosts {
        for address in addresses {
            let _ = writeln!(text, "{address} {name}");
        }
    }
    text
}

impl Drop for HostLists {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = std::fs::remove_dir_all(folder);
        }
        // Unless somebody else has something there.
        let _ = std::fs::remove_dir(&self.etc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_the_names_of_all_until_the_end() {
        let etc = std::env::temp_dir().join(format!("ayatori-names-{}", std::process::id()));
        let host = |name: &str, addresses: &[&str]| {
            (name.to_owned(), addresses.iter().map(|&address| address.to_owned()).collect())
        };
        let hosts = [host("h0", &["10.77.0.1", "fd77:0::1"]), host("h1", &["10.77.0.2"])];
        let lists = HostLists::in_folder(&etc, &hosts).expect("a folder for each");
        for name in ["h0", "h1"] {
            let text = std::fs::read_to_string(etc.join(name).join("hosts")).expect("a list");
            assert!(text.starts_with("127.0.0.1 localhost\n"), "{text}");
            assert!(text.ends_with("10.77.0.1 h0\nfd77:0::1 h0\n10.77.0.2 h1\n"), "{text}");
        }
        drop(lists);
        assert!(!etc.exists(), "the lists are left");
    }
}
