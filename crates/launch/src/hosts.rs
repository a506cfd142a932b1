//! Which hosts, and how many ranks on each.

use crate::error::Error;
use std::path::Path;

/// Most hosts of a job.
const HOSTS_MAX: usize = 4096;

/// A host as typed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostSpec {
    /// Its name, as the agent's command wants it.
    pub name: String,
    /// Ranks it takes in a round.
    pub slots: usize,
}

impl HostSpec {
    /// `name` or `name:slots`; a name with colons (IPv6) stands in brackets.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let wrong = |why: &str| Error::usage(format!("host '{text}': {why}; give NAME or NAME:SLOTS"));
        let (name, slots) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None => text.split_once(':').map_or((text, None), |(name, slots)| (name, Some(slots))),
        };
        if !is_name(name) {
            return Err(wrong("that is no host's name"));
        }
        let slots = match slots.map(str::parse::<usize>) {
            None => 1,
            Some(Ok(slots)) if slots > 0 => slots,
            Some(_) => return Err(wrong("the number of slots is no number above 0")),
        };
        Ok(Self { name: name.to_owned(), slots })
    }

    /// Hosts from `place`, those of a name as one.
    ///
    /// # Errors
    /// There are none, or too many; a name is none.
    pub(crate) fn checked(hosts: Vec<Self>, place: &str) -> anyhow::Result<Vec<Self>> {
        if let Some(host) = hosts.iter().find(|host| !is_name(&host.name)) {
            return Err(Error::usage(format!("{place}: '{}' is no host's name", host.name)));
        }
        check(hosts, place)
    }

    /// From `--hosts`: a comma-separated list.
    ///
    /// # Errors
    /// A word is neither `NAME` nor `NAME:SLOTS`; too many hosts.
    pub fn list(text: &str) -> anyhow::Result<Vec<Self>> {
        let hosts =
            text.split(',').map(|word| Self::parse(word.trim())).collect::<anyhow::Result<Vec<_>>>()?;
        check(hosts, "--hosts")
    }

    /// From a file: a host a line, `name`, `name:slots` or `name slots=N`; `#` begins a comment.
    ///
    /// # Errors
    /// The file cannot be read; a line is none of these.
    pub fn file(path: &Path) -> anyhow::Result<Vec<Self>> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::usage(format!("host file {}: {error}", path.display())))?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let parse = |line: &str| {
            let mut words = line.split_whitespace();
            let mut host = Self::parse(words.next().unwrap_or_default())?;
            for word in words {
                let slots = word.strip_prefix("slots=").and_then(|n| n.parse().ok()).filter(|&n| n > 0);
                host.slots = slots.ok_or_else(|| {
                    Error::usage(format!("host file {}: what is '{word}'?", path.display()))
                })?;
            }
            Ok(host)
        };
        let hosts = lines.filter(|line| !line.is_empty()).map(parse).collect::<anyhow::Result<Vec<_>>>()?;
        check(hosts, &path.display().to_string())
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| !c.is_whitespace() && !c.is_control();
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_part)
}

fn check(hosts: Vec<HostSpec>, place: &str) -> anyhow::Result<Vec<HostSpec>> {
    if hosts.is_empty() || hosts.len() > HOSTS_MAX {
        return Err(Error::usage(format!("{place}: {} hosts; a job has 1 to {HOSTS_MAX}", hosts.len())));
    }
    let mut merged: Vec<HostSpec> = Vec::new();
    for host in hosts {
        match merged.iter_mut().find(|known| known.name == host.name) {
            Some(known) => known.slots += host.slots,
            None => merged.push(host),
        }
    }
    Ok(merged)
}

/// How many ranks each host gets of `count`: rounds of its slots, so that neighbouring ranks are neighbours.
pub(crate) fn shares(hosts: &[HostSpec], count: usize) -> Vec<usize> {
    let mut shares = vec![0; hosts.len()];
    let mut left = count;
    // Whole rounds first, the rest from the front.
    let round: usize = hosts.iter().map(|host| host.slots).sum();
    let rounds = left / round.max(1);
    for (share, host) in shares.iter_mut().zip(hosts) {
        *share = rounds * host.slots;
        left -= *share;
    }
    for (share, host) in shares.iter_mut().zip(hosts) {
        let more = left.min(host.slots);
        *share += more;
        left -= more;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_may_have_slots_and_be_ipv6_addresses() {
        let hosts = HostSpec::list("a,b:3, [fd00::1]:2,a:4").expect("hosts");
        let want = [("a", 5), ("b", 3), ("fd00::1", 2)];
        assert!(hosts.iter().map(|h| (h.name.as_str(), h.slots)).eq(want));
        for bad in ["", "a:", "a:0", "a:x", "a b", "-oProxyCommand=x", ",a"] {
            assert!(HostSpec::list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranks_are_dealt_by_slots_and_neighbours_stay_together() {
        let hosts = |text| HostSpec::list(text).expect("hosts");
        assert_eq!(shares(&hosts("a,b"), 4), [2, 2]);
        assert_eq!(shares(&hosts("a,b"), 5), [3, 2]);
        assert_eq!(shares(&hosts("a:3,b:1"), 8), [6, 2]);
        assert_eq!(shares(&hosts("a:4,b:4"), 3), [3, 0]);
    }

    #[test]
    fn a_host_file_says_the_same_in_lines() {
        let path = std::env::temp_dir().join(format!("ayatori-hosts-{}", std::process::id()));
        std::fs::write(&path, "# cluster\na slots=2\n\nb:3 # fast\nc\n").expect("written");
        let hosts = HostSpec::file(&path).expect("hosts");
        std::fs::write(&path, "a speed=2\n").expect("written");
        let error = HostSpec::file(&path).expect_err("speed").to_string();
        let _ = std::fs::remove_file(&path);
        assert!(hosts.iter().map(|h| (h.name.as_str(), h.slots)).eq([("a", 2), ("b", 3), ("c", 1)]));
        assert!(error.contains("speed=2"), "{error}");
    }
}
